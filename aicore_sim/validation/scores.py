"""Errors of points, and what they come to over all, by card and by mechanism."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aicore_sim.validation.points import Point

MOST_FREE = 20
"""Free numbers that a card may have."""
WEAK_MEAN, WEAK_POINT = 0.08, 0.25
"""A mechanism is weak if its mean error or the error of one of its points is larger."""


@dataclass(frozen=True)
class Row:
    """A point and what the model makes of it. `low` and `high` bound the simulated value by the ranges of the card's
    numbers, `dominated_by` is the number that opens them most; `left_out` is the error that a fit without the point's
    group predicts. None where it was not looked into."""

    point: Point
    simulated: float
    low: float | None = None
    high: float | None = None
    dominated_by: str = ""
    left_out: float | None = None
    command_left_out: float | None = None

    @property
    def error(self) -> float:
        """(simulated - measured) / measured."""
        return self.simulated / self.point.value - 1

    @property
    def inside(self) -> bool | None:
        """Whether the measured value lies in the interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.point.value <= self.high

    def as_dict(self) -> dict[str, Any]:
        point = self.point
        return {
            "id": point.id, "card": point.card, "mechanism": point.mechanism, "measured": point.value,
            "simulated": self.simulated, "error": self.error, "unit": point.unit, "counted": point.counted,
            "low": self.low, "high": self.high, "inside": self.inside, "dominated_by": self.dominated_by,
            "leave_one_out": self.left_out,
        }  # fmt: skip


@dataclass(frozen=True)
class Score:
    """Absolute errors of some counted points, as fractions."""

    count: int
    mean: float
    median: float
    worst: float
    worst_id: str

    @property
    def weak(self) -> bool:
        return self.mean > WEAK_MEAN or self.worst > WEAK_POINT

    def as_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean, "median": self.median, "worst": self.worst, "worst_id": self.worst_id}


def score(rows: Iterable[Row]) -> Score | None:
    """Of the counted rows; None if there are none. Of equal errors the first one is the worst."""
    counted = [row for row in rows if row.point.counted]
    if not counted:
        return None
    errors = [abs(row.error) for row in counted]
    worst = max(counted, key=lambda row: abs(row.error))
    return Score(len(errors), statistics.fmean(errors), statistics.median(errors), max(errors), worst.point.id)


def root_mean_square(rows: Iterable[Row]) -> float:
    """Of the logarithms of simulated / measured of the counted rows: what a fit makes small. 0 if there are none."""
    logs = [math.log(row.simulated / row.point.value) for row in rows if row.point.counted]
    return math.sqrt(math.fsum(one * one for one in logs) / len(logs)) if logs else 0.0


def by(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, Score]:
    """Scores of the rows that share a key, in the order of the rows; without those that have no counted row."""
    names = dict.fromkeys(key(row) for row in rows)
    scores = {name: score(row for row in rows if key(row) == name) for name in names}
    return {name: one for name, one in scores.items() if one is not None}


@dataclass(frozen=True)
class Validation:
    """Everything that `aicore-sim validate` found out. `free` maps cards to free numbers and the ids of the counted points
    that each moves."""

    rows: tuple[Row, ...]
    free: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    unfitted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Free numbers that no fit sets: they come in steps, or have no range."""

    @property
    def total(self) -> Score | None:
        return score(self.rows)

    @property
    def by_card(self) -> dict[str, Score]:
        return by(self.rows, lambda row: row.point.card)

    @property
    def by_mechanism(self) -> dict[str, Score]:
        return by(self.rows, lambda row: row.point.mechanism)

    @property
    def leave_one_out(self) -> float | None:
        """Mean absolute error of points that a fit has not seen, nor any other of their scenario."""
        return _mean(row.left_out for row in self.rows if row.point.counted)

    @property
    def leave_one_command_out(self) -> float | None:
        """The same with only the points of one command left out."""
        return _mean(row.command_left_out for row in self.rows if row.point.counted)

    @property
    def inside_interval(self) -> float | None:
        """Share of counted points whose measured value lies in the interval of the simulated one."""
        known = [row.inside for row in self.rows if row.point.counted and row.inside is not None]
        return sum(known) / len(known) if known else None

    @property
    def violations(self) -> list[str]:
        """What breaks the rules for free numbers, in words."""
        found = []
        for card, numbers in self.free.items():
            if len(numbers) > MOST_FREE:
                found.append(f"{card}: {len(numbers)} free numbers, at most {MOST_FREE} are allowed")
            found += [f"{card}: {key} moves one counted point only, {ids[0]}, and may have been fitted to it"
                      for key, ids in numbers.items() if len(ids) == 1 and key not in self.unfitted.get(card, ())]  # fmt: skip
        return found

    def as_dict(self) -> dict[str, Any]:
        """As `validate --json` prints it."""
        total = self.total
        summary = {
            "count": total.count if total else 0,
            "mean": total.mean if total else None,
            "median": total.median if total else None,
            "worst": total.worst if total else None,
            "worst_id": total.worst_id if total else None,
            "leave_one_out": self.leave_one_out,
            "leave_one_command_out": self.leave_one_command_out,
            "inside_interval": self.inside_interval,
            "by_card": {name: one.as_dict() for name, one in self.by_card.items()},
            "by_mechanism": {name: one.as_dict() for name, one in self.by_mechanism.items()},
            "free_parameters": {card: list(numbers) for card, numbers in self.free.items()},
            "violations": self.violations,
        }
        return {"points": [row.as_dict() for row in self.rows], "summary": summary}


def _mean(errors: Iterable[float | None]) -> float | None:
    known = [abs(error) for error in errors if error is not None]
    return statistics.fmean(known) if known else None
