"""A whole validation on a card with two open numbers, with a stand-in for the interval."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from aicore_sim.cards import Card
from aicore_sim.cli import main
from aicore_sim.validation.evaluate import validate
from aicore_sim.validation.points import Point
from aicore_sim.validation.runs import Request, Runner, document, paths_of
from tests.validation.cards_and_points import card_file, copy_command, copy_points, points_file

NS = 1e3 / 1850
OPEN = {"gm.GM-UB.latency": (200.0, 150.0, 300.0), "sync.barrier_all": (20.0, 10.0, 40.0)}
SIZES = (1024, 4096, 65536)


@dataclass(frozen=True)
class Span:
    low: float
    high: float
    dominated_by: str


def sum_of_squares(measure: Callable[[Card], Mapping[str, float]], card: Card) -> dict[str, Span]:
    """What the package's own `spread` promises: both ends of every number that the run reads, one at a time."""
    watched, asked = card.tracking()
    middle = measure(watched)
    numbers = [key for key in sorted(asked) if card.number(key).range is not None]
    spans = {}
    for name, value in middle.items():
        ends = {}
        for key in numbers:
            low, high = card.number(key).range or (0, 0)
            ends[key] = [measure(card.changed({key: end}))[name] - value for end in (low, high)]
        down = math.hypot(*(min(*pair, 0.0) for pair in ends.values()))
        up = math.hypot(*(max(*pair, 0.0) for pair in ends.values()))
        spans[name] = Span(value - down, value + up, max(ends, key=lambda key: max(map(abs, ends[key]))))
    return spans


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return card_file(tmp_path_factory.mktemp("card"), OPEN)


@pytest.fixture(scope="module")
def simulated(card: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """What the card gives for each size, ns."""
    points = copy_points(tmp_path_factory.mktemp("points"), card, dict.fromkeys(SIZES, 1.0))
    shown = (document(Request(point.command))[0]["results"][0] for point in points)
    return {n: one["metrics"]["per_copy_ns"] for n, one in zip(SIZES, shown, strict=True)}


def judged(points: list[Point], jobs: int = 1) -> dict[str, dict[str, object]]:
    result = validate(points, Runner(paths_of(points), jobs), sum_of_squares)
    return {row["id"]: row for row in result.as_dict()["points"]}


def test_errors_intervals_and_free_numbers(card: Path, simulated: dict[int, float], tmp_path: Path) -> None:
    measured = {1024: simulated[1024] / 1.1, 4096: simulated[4096] + 90 * NS, 65536: simulated[65536] - 200 * NS}
    points = copy_points(tmp_path, card, measured)
    result = validate(points, Runner(paths_of(points)), sum_of_squares)
    first, second, third = result.rows
    assert first.error == pytest.approx(0.1)
    for row in result.rows:
        # 50 and 100 cycles of latency, 10 and 20 cycles of the three barriers within four copies
        assert row.simulated - row.low == pytest.approx(math.hypot(50, 7.5) * NS, abs=0.05)
        assert row.high - row.simulated == pytest.approx(math.hypot(100, 15) * NS, abs=0.05)
        assert row.dominated_by == "gm.GM-UB.latency"
    assert (first.inside, second.inside, third.inside) == (True, True, False)
    assert result.inside_interval == pytest.approx(2 / 3)
    ids = tuple(point.id for point in points)
    assert result.free["atlas_a2"]["gm.GM-UB.latency"] == ids
    assert result.violations == [] or all("sync.barrier_all" in line for line in result.violations)


def test_point_left_out_is_foreseen_by_the_others(card: Path, simulated: dict[int, float], tmp_path: Path) -> None:
    """All values are 30 cycles of latency too high: whichever point is left out, the others tell."""
    points = copy_points(tmp_path, card, {n: value + 30 * NS for n, value in simulated.items()})
    result = validate(points, Runner(paths_of(points)))
    assert all(abs(row.error) > 0.01 for row in result.rows)
    for row in result.rows:
        assert row.left_out is not None and row.command_left_out is not None
        assert abs(row.left_out) < abs(row.error) / 2
        assert row.left_out == pytest.approx(row.command_left_out)
        assert row.low is None and row.inside is None


def test_result_does_not_depend_on_the_number_of_processes(card: Path, simulated: dict[int, float], tmp_path: Path) -> None:
    points = copy_points(tmp_path, card, {n: value * 1.05 for n, value in simulated.items()})
    assert judged(points, jobs=1) == judged(points, jobs=2)


def test_command_line_prints_the_value_of_run_and_writes_the_report(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = copy_command(card, 1024)
    file = points_file(tmp_path, [
        {"command": command, "mechanism": "copy | latency"},
        {"command": command, "json_path": "results[0].time_us", "unit": "us", "counted": "no", "value": 5},
    ])  # fmt: skip
    assert main([*command.split(), "--json", "--no-files"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert main(["validate", "--points", str(file), "--json", "--out", "out", "--jobs", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["simulated"] for point in document["points"]] == [row["metrics"]["per_copy_ns"], row["time_us"]]
    assert document["summary"]["count"] == 1
    assert document["summary"]["free_parameters"] == {"atlas_a2": ["gm.GM-UB.latency", "sync.barrier_all"]}
    assert document["summary"]["violations"] == []  # assumed numbers that move one point: listed, and fitted by nobody
    page = (tmp_path / "out" / "validation.md").read_text(encoding="utf-8")
    assert "copy \\| latency" in page and "`gm.GM-UB.latency` (not fitted)" in page and "(not counted)" in page
    assert (tmp_path / "out" / "validation.csv").read_text(encoding="utf-8").count("\n") == 3
    for name in ("validation_points.png", "validation_mechanisms.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_command_line_as_text_and_without_files(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = points_file(tmp_path, [{"command": copy_command(card, 1024)}])
    before = set(tmp_path.iterdir())
    assert main(["validate", "--points", str(file), "--quick", "--no-files", "-q", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert "p0.ns" in out and "of 1 counted points" in out and err == ""
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("words", "field"), [
    (["--card", "atlas_200i"], "card"), (["--points", "none.csv"], "points"), (["--jobs", "-1", "--card", "atlas_a3"], "jobs"),
])  # fmt: skip
def test_command_line_with_bad_input(words: list[str], field: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *words, "--json", "--no-files"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["field"] == field


def test_run_that_fails_and_path_that_is_not_there_are_bad_input(
    card: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = {"command": copy_command(card, 1024), "json_path": "results[0].metrics.none"}
    for row in ({"command": copy_command(card, 1000)}, nowhere):
        file = points_file(tmp_path, [row])
        assert main(["validate", "--points", str(file), "--json", "--no-files", "--jobs", "1"]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["field"] in ("bytes", "json_path")
