"""Changing a number of a card file in place: value, basis and source of one entry, every other byte as it was."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicore_sim.errors import ConfigError

_HEADER = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_ENTRY = re.compile(r"^\s*(\"[^\"]+\"|[A-Za-z0-9_-]+)\s*=\s*\{")
_ITEM = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^,}\"\s]+)\s*,?")
_POINTS = re.compile(r"; fitted to .*$")


@dataclass(frozen=True)
class Fitted:
    """A new value for a number, and the runs it was fitted to."""

    value: float
    points: tuple[str, ...]


def with_fitted(text: str, path: Sequence[str], fitted: Fitted, file: str = "") -> str:
    """The text of a card file with one number replaced.

    `path` are the tables and the name of the entry ("gm", "GM-UB", "latency"), which has to be an inline table on one
    line. Its basis becomes "fitted", its source ends with the points. Raises ConfigError for an entry that is not there
    in this form, or whose line holds something that the result would lose.
    """
    key = ".".join(path)
    lines = text.split("\n")
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is not None:
            table = _names(header[1])
        entry = _ENTRY.match(line)
        if entry is None or (*table, *_names(entry[1])[:1]) != tuple(path):
            continue
        lines[number] = _changed(line, entry.end(), fitted, file, key)
        return _checked(text, "\n".join(lines), path, fitted, file)
    raise ConfigError("the card file has no line `name = { value = ... }` for this number: change it by hand", field=key,
                      file=file or None)  # fmt: skip


def _names(header: str) -> tuple[str, ...]:
    """The parts of a header or key as TOML reads it."""
    node: Any = tomllib.loads(f"[{header}]")
    names = []
    while node:
        ((name, node),) = node.items()
        names.append(name)
    return tuple(names)


def _changed(line: str, at: int, fitted: Fitted, file: str, key: str) -> str:
    """The line with its items replaced from position `at` on, where the inline table begins."""
    spans: dict[str, tuple[int, int]] = {}
    while (item := _ITEM.match(line, at)) is not None:
        spans[item[1]] = item.span(2)
        at = item.end()
    if not {"value", "basis", "source"} <= spans.keys():
        raise ConfigError("value, basis or source are missing", field=key, file=file or None)
    start, end = spans["source"]
    source = _POINTS.sub("", line[start + 1 : end - 1]) + f"; fitted to {', '.join(fitted.points)}"
    new = {"value": number_text(fitted.value), "basis": '"fitted"', "source": f'"{source}"'}
    for name in sorted(new, key=lambda one: -spans[one][0]):
        line = line[: spans[name][0]] + new[name] + line[spans[name][1] :]
    return line


def number_text(value: float) -> str:
    """A number as a card file writes it: whole ones without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def _checked(old: str, new: str, path: Sequence[str], fitted: Fitted, file: str) -> str:
    """The new text if it differs from the old in this entry only. Raises ConfigError otherwise."""
    before, after = tomllib.loads(old), tomllib.loads(new)
    was, entry = _at(before, path), _at(after, path)
    wrong = entry["value"] != fitted.value or entry["basis"] != "fitted"
    was.clear()
    entry.clear()
    if wrong or before != after:
        raise ConfigError("the line of this number cannot be changed safely: change it by hand", field=".".join(path),
                          file=file or None)  # fmt: skip
    return new


def _at(node: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    found: Any = node
    for name in path:
        found = found[name]
    assert isinstance(found, dict)
    return found
