"""Fits whose answer is known: the points were made by the simulator with numbers that the card does not have."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from aicore_sim.cards import load_card
from aicore_sim.cli import main
from aicore_sim.errors import ConfigError
from aicore_sim.validation.fitting import fit, place_of, significant
from aicore_sim.validation.points import Point, load_points
from aicore_sim.validation.runs import Changes, Request, Runner, document, paths_of
from tests.validation.cards_and_points import Open, card_file, copy_points

OPEN: Open = {"gm.GM-UB.latency": (200, 150, 350), "gm.GM-UB.port_rate": (128, 60, 130), "gm.UB-GM.port_rate": (64, 32, 86)}
TRUE: Changes = (("gm.GM-UB.latency", 260.0), ("gm.GM-UB.port_rate", 90.0))
SIZES = (1024, 16384, 65536, 131072)


def made_with(folder: Path, card: Path, truth: Changes) -> list[Point]:
    plain = copy_points(folder, card, dict.fromkeys(SIZES, 1.0))
    values = {n: document(Request(point.command, truth))[0]["results"][0]["metrics"]["per_copy_ns"]
              for n, point in zip(SIZES, plain, strict=True)}  # fmt: skip
    return copy_points(folder, card, values)


def test_fit_finds_the_numbers_that_made_the_points(tmp_path: Path) -> None:
    points = made_with(tmp_path, card_file(tmp_path, OPEN), TRUE)
    found = fit(points, Runner(paths_of(points)), rounds=4)
    assert {change.key: change.new for change in found.changes} == pytest.approx(dict(TRUE), rel=0.01)
    before, after = found.score_before, found.score_after
    assert before is not None and after is not None and found.predicted is not None
    assert before.mean > 0.1 and after.mean < 0.003
    assert found.predicted == pytest.approx(after.mean, abs=0.01)
    assert found.changes[0].groups == tuple(f"copy_{n}" for n in SIZES)


def test_fit_stops_at_the_end_of_a_range(tmp_path: Path) -> None:
    narrow: Open = {"gm.GM-UB.latency": (200, 150, 220)}
    points = made_with(tmp_path, card_file(tmp_path, narrow, basis="fitted"), (("gm.GM-UB.latency", 260.0),))
    found = fit(points, Runner(paths_of(points)), rounds=2)
    assert [(change.key, change.new) for change in found.changes] == [("gm.GM-UB.latency", 220.0)]


@pytest.mark.parametrize("basis", ["documented", "measured", "derived"])
def test_fit_never_touches_known_numbers(tmp_path: Path, basis: str) -> None:
    points = made_with(tmp_path, card_file(tmp_path, OPEN, basis), TRUE)
    found = fit(points, Runner(paths_of(points)), rounds=1)
    assert found.changes == () and found.rounds == 0 and found.predicted is None
    assert found.before == found.after


def test_fit_of_points_that_are_met_changes_nothing(tmp_path: Path) -> None:
    points = made_with(tmp_path, card_file(tmp_path, OPEN), ())
    found = fit(points, Runner(paths_of(points)), rounds=2)
    assert all(change.new == float(change.number) for change in found.changes)


def test_points_of_two_cards_are_refused() -> None:
    points = load_points()
    with pytest.raises(ConfigError, match="one card"):
        fit(points, Runner(paths_of(points)))


def test_command_writes_only_what_it_was_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = card_file(tmp_path, {"gm.GM-UB.latency": OPEN["gm.GM-UB.latency"]})
    made_with(tmp_path, card, TRUE[:1])
    text = card.read_bytes()
    words = ["fit", "--points", str(tmp_path / "points.csv"), "--json", "--jobs", "1", "-q", "--rounds", "2"]
    assert main(words) == 0
    assert card.read_bytes() == text
    (found,) = json.loads(capsys.readouterr().out)["fits"]
    (number,) = found["numbers"]
    assert number["new"] == pytest.approx(260, rel=0.01)
    assert main([*words, "--write"]) == 0
    lines = [(old, new) for old, new in zip(text.split(b"\n"), card.read_bytes().split(b"\n"), strict=True) if old != new]
    assert len(lines) == 1
    entry = tomllib.loads(lines[0][1].decode())["latency"]
    assert entry["value"] == number["new"] and entry["basis"] == "fitted"
    assert entry["source"].endswith("; fitted to copy_1024, copy_16384, copy_65536, copy_131072")
    assert load_card(card).value("gm.GM-UB.latency") == number["new"]


def test_command_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_with(tmp_path, card_file(tmp_path, {"gm.GM-UB.latency": OPEN["gm.GM-UB.latency"]}), TRUE[:1])
    assert main(["fit", "--points", str(tmp_path / "points.csv"), "--jobs", "1", "-q", "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    assert "gm.GM-UB.latency" in out and "--write changes it" in out


def test_bad_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--rounds", "0", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["field"] == "rounds"


def test_place_of_a_number_and_digits() -> None:
    card = load_card("atlas_a2:Ascend910B4")
    assert place_of(card, "l2.read_rate") == ("socs", "Ascend910B4", "numbers", "l2.read_rate")
    assert place_of(card, "gm.GM-UB.latency") == ("gm", "GM-UB", "latency")
    assert place_of(card, "socs.Ascend910B4.memory_rate") == ("socs", "Ascend910B4", "memory_rate")
    assert (significant(123.456), significant(0.0123456), significant(0)) == (123.5, 0.01235, 0.0)
