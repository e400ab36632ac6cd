"""Statistics of errors, by hand."""

from __future__ import annotations

import math

import pytest

from aicore_sim.validation.points import Command, Point
from aicore_sim.validation.scores import Row, Validation, root_mean_square, score


def row(name: str, measured: float, simulated: float, *, mechanism: str = "m", card: str = "c", counted: bool = True,
        **more: float) -> Row:  # fmt: skip
    point = Point(name, card, mechanism, Command("hello", (), "atlas_a2"), "results[0].time_us", measured, "us", counted)
    return Row(point, simulated, **more)  # type: ignore[arg-type]


ROWS = (
    row("a", 100, 110, mechanism="copy", card="x", low=95, high=111, left_out=0.2, command_left_out=0.1),
    row("b", 200, 100, mechanism="copy", card="y", low=90, high=110, left_out=-0.4, command_left_out=-0.3),
    row("c", 50, 51, mechanism="cube", card="x", low=50, high=52, left_out=0.0, command_left_out=0.0),
    row("d", 10, 90, mechanism="odd", card="x", counted=False, low=1, high=2),
)


def test_errors_are_signed_and_scores_are_not() -> None:
    assert [r.error for r in ROWS] == pytest.approx([0.1, -0.5, 0.02, 8.0])
    found = score(ROWS)
    assert found is not None
    assert (found.count, found.worst_id) == (3, "b")
    assert (found.mean, found.median, found.worst) == pytest.approx((0.62 / 3, 0.1, 0.5))


def test_score_of_nothing_counted() -> None:
    assert score([ROWS[3]]) is None
    assert root_mean_square([ROWS[3]]) == 0.0


def test_root_mean_square_of_logarithms() -> None:
    """Twice and half as much are equally far off."""
    assert root_mean_square([row("a", 1, 2), row("b", 2, 1), ROWS[3]]) == pytest.approx(math.log(2))


def test_by_card_and_by_mechanism() -> None:
    result = Validation(ROWS)
    assert {name: one.mean for name, one in result.by_card.items()} == pytest.approx({"x": 0.06, "y": 0.5})
    assert {name: one.mean for name, one in result.by_mechanism.items()} == pytest.approx({"copy": 0.3, "cube": 0.02})
    assert [name for name, one in result.by_mechanism.items() if one.weak] == ["copy"]


def test_weak_for_one_far_point_although_the_mean_is_small() -> None:
    found = score([row(str(i), 100, 100) for i in range(9)] + [row("far", 100, 126)])
    assert found is not None and found.mean < 0.08 and found.weak


def test_left_out_and_inside_are_of_counted_points() -> None:
    result = Validation(ROWS)
    assert result.leave_one_out == pytest.approx(0.2)
    assert result.leave_one_command_out == pytest.approx(0.4 / 3)
    assert result.inside_interval == pytest.approx(2 / 3)  # a and c; b is measured above its interval, d is not counted
    assert Validation((row("a", 1, 1),)).leave_one_out is None


def test_rules_for_free_numbers() -> None:
    many = {f"t.n{i}": ("a", "c") for i in range(21)}
    result = Validation(ROWS, {"x": many, "y": {"t.one": ("b",), "t.two": ("a", "b")}})
    assert len(result.violations) == 2
    assert "21 free numbers" in result.violations[0] and "t.one" in result.violations[1]


def test_json_has_the_promised_keys() -> None:
    document = Validation(ROWS, {"x": {"t.n": ("a", "c")}}).as_dict()
    assert list(document) == ["points", "summary"]
    assert {"id", "card", "mechanism", "measured", "simulated", "error", "low", "high", "inside"} <= document["points"][0].keys()
    summary = document["summary"]
    assert {"mean", "median", "worst", "leave_one_out", "by_card", "by_mechanism", "free_parameters"} <= summary.keys()
    assert summary["free_parameters"] == {"x": ["t.n"]}
