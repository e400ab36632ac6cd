"""A card whose only open numbers are those a test names, and points that lie on it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from aicore_sim.resources import config_dir
from aicore_sim.validation.points import COLUMNS, Point, load_points

Open = Mapping[str, tuple[float, float, float]]
"""Dotted key -> value, lower and upper end of its range."""


def card_file(folder: Path, numbers: Open, basis: str = "assumed") -> Path:
    """atlas_a2 with every number documented but `numbers`, which get the basis given."""
    text = (config_dir() / "atlas_a2.toml").read_text(encoding="utf-8")
    text = re.sub(r'basis = "(assumed|fitted|derived|measured)"', 'basis = "documented"', text)
    for key, (value, low, high) in numbers.items():
        table, _, name = key.rpartition(".")
        entry = re.compile(rf'(^\[{re.escape(table)}\]\n(?:[^\[\n].*\n|\n)*?{name} = {{.*?unit = "[^"]+").*$', re.MULTILINE)
        line = rf', basis = "{basis}", source = "spec", note = "a test", range = [{low:g}, {high:g}] }}'
        text, found = entry.subn(lambda match, line=line: match[1] + line, text)
        assert found == 1, key
        text = re.sub(rf'(^\[{re.escape(table)}\]\n(?:[^\[\n].*\n|\n)*?{name} = {{ value = )[^,]+', rf"\g<1>{value:g}", text,
                      flags=re.MULTILINE)  # fmt: skip
    file = folder / "card.toml"
    file.write_text(text, encoding="utf-8")
    return file


def copy_command(card: Path | str, nbytes: int, direction: str = "GM-UB") -> str:
    """A serialised copy: its time per copy is latency + bytes / rate + the barrier, in cycles of 1850 MHz."""
    return f"run dma_latency direction={direction} bytes={nbytes} iterations=4 --card {card} --no-data"


def points_file(folder: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """A file of points; what a row leaves out is filled with something legal."""
    file = folder / "points.csv"
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        writer.writeheader()
        for i, row in enumerate(rows):
            plain = {"id": f"p{i}.ns", "card": "atlas_a2", "mechanism": "copy", "json_path": "results[0].metrics.per_copy_ns",
                     "value": 100, "unit": "ns", "counted": "yes"}  # fmt: skip
            writer.writerow({**plain, **row})
    return file


def copy_points(folder: Path, card: Path, values: Mapping[int, float]) -> list[Point]:
    """Points of serialised copies by their bytes, ns."""
    rows = [{"id": f"copy_{n}.ns", "command": copy_command(card, n), "value": repr(value)} for n, value in values.items()]
    return load_points(points_file(folder, rows))
