"""Refitting the free numbers of a card: Gauss-Newton on the logarithms of the errors.

Each round takes residuals from full runs and slopes from short runs at the numbers as they are then, solves the bounded
linear problem of `solve`, and keeps the step if full runs agree that it is one forward; else it tries half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.card_model import Number
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.validation.points import Point
from aicore_sim.validation.runs import Changes, Request, Runner, changes_of
from aicore_sim.validation.scores import Row, Score, score
from aicore_sim.validation.sensitivity import as_full, fittable, free_numbers, sensitivities
from aicore_sim.validation.solve import RIDGE, Floats, steps

STEP = 0.02
"""Distance of the runs that give a slope, in widths of the range."""
LEAST = 1e-3
"""A number that a round would move by less than this, in widths of its range, stays."""
HALVINGS = 2
"""How often a step that does not help is halved before the fit ends."""
DIGITS = 4
"""Significant digits of fitted numbers: the points do not know them better."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Change:
    """A number before and after the fit, and the scenarios of the points that it moves."""

    key: str
    number: Number
    new: float
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """The result for one card. `before` and `after` are rows out of full runs, `predicted` the score that the last
    linear step foresaw, `left` the free numbers that no fit sets."""

    card: Card
    changes: tuple[Change, ...]
    left: tuple[str, ...]
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    predicted: float | None
    rounds: int

    @property
    def score_before(self) -> Score | None:
        return score(self.before)

    @property
    def score_after(self) -> Score | None:
        return score(self.after)


@dataclass(frozen=True)
class _Problem:
    """The counted points of one card and the numbers that may move: present value, lower and upper end of each."""

    points: tuple[Point, ...]
    runner: Runner
    keys: tuple[str, ...]
    present: Floats
    low: Floats
    high: Floats

    def values(self, numbers: Floats) -> Floats:
        """Simulated values of the points with these numbers."""
        changes, commands = self._changes(numbers), list(dict.fromkeys(point.command for point in self.points))
        runs = self.runner.run(Request(command, changes) for command in commands)
        found = dict(zip(commands, runs, strict=True))
        return np.array([found[point.command].values[point.json_path] for point in self.points])

    def residuals(self, numbers: Floats) -> Floats:
        measured = np.array([point.value for point in self.points])
        found: Floats = np.log(self.values(numbers) / measured)
        return found

    def loss(self, residuals: Floats, numbers: Floats) -> float:
        """What the fit makes small; see `solve`."""
        moves = (numbers - self.present) / (self.high - self.low)
        return float((residuals**2).sum() + (RIDGE * moves).dot(RIDGE * moves))

    def jacobian(self, numbers: Floats) -> Floats:
        """Slopes of the residuals over the widths of the ranges, by short runs a little towards the farther end."""
        commands = list(dict.fromkeys(point.command for point in self.points))
        width = self.high - self.low
        here = self._changes(numbers)
        moved = []
        for k in range(len(self.keys)):
            there = numbers.copy()
            there[k] += STEP * width[k] * (1 if self.high[k] - numbers[k] >= numbers[k] - self.low[k] else -1)
            moved.append(there)
        # All at once, so that no process idles between one number and the next.
        self.runner.run(Request(command, self._changes(there), short=True) for there in [numbers, *moved] for command in commands)
        slopes = np.zeros((len(self.points), len(self.keys)))
        for command in commands:
            full, short, *ends = self.runner.run(
                [Request(command, here), Request(command, here, short=True)]
                + [Request(command, self._changes(there), short=True) for there in moved]
            )
            for k, end in enumerate(ends):
                values = as_full(full, short, end, ((self.keys[k], float(moved[k][k])),))
                for i, point in enumerate(self.points):
                    if point.command == command:
                        ratio = values[point.json_path] / full.values[point.json_path]
                        slopes[i, k] = np.log(ratio) * width[k] / (moved[k][k] - numbers[k])
        return slopes

    def _changes(self, numbers: Floats) -> Changes:
        return changes_of({key: value for key, value, old in zip(self.keys, numbers.tolist(), self.present.tolist(), strict=True)
                           if value != old})  # fmt: skip

    def rounded(self, numbers: Floats) -> Floats:
        """As they would be written, still inside their ranges."""
        return np.clip([significant(value) for value in numbers.tolist()], self.low, self.high)


def significant(value: float) -> float:
    """The value with `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def fit(points: Sequence[Point], runner: Runner, rounds: int = 3, say: Say = lambda text: None) -> Fit:
    """Fit the free numbers of the one card that all `points` belong to.

    Only fitted and assumed numbers with a range that move a counted point are touched. Raises ConfigError for points of
    several cards or without a counted one.
    """
    counted = tuple(point for point in points if point.counted)
    if len({point.card for point in points}) != 1 or not counted:
        cards = ", ".join(dict.fromkeys(point.card for point in points))
        raise ConfigError("a fit needs counted points of one card", field="points", value=cards)
    say(f"{points[0].card}: which numbers are free")
    commands = list(dict.fromkeys(point.command for point in counted))
    found = sensitivities(commands, runner)
    free = free_numbers(counted, found)
    numbers = {key: found.numbers[moved[0].command][key] for key, moved in free.items()}
    fitted = {key: number for key, number in numbers.items() if fittable(number, len(free[key]))}
    ranges = [number.range for number in fitted.values() if number.range is not None]
    problem = _Problem(
        counted, runner, tuple(fitted), np.array([float(number) for number in fitted.values()]),
        np.array([float(low) for low, _ in ranges]), np.array([float(high) for _, high in ranges]),
    )  # fmt: skip
    say(f"{points[0].card}: full runs with the present numbers")
    before = _rows(points, runner, {})
    at, residuals, predicted, done = problem.present, problem.residuals(problem.present), None, 0
    for number in range(1, rounds + 1 if fitted else 1):
        say(f"{points[0].card}: round {number}")
        step = _round(problem, at, residuals)
        if step is None:
            break
        at, residuals, predicted = step
        done = number
    changes = tuple(
        Change(key, fitted[key], value, tuple(dict.fromkeys(point.group for point in free[key])))
        for key, value in zip(problem.keys, at.tolist(), strict=True)
    )
    after = _rows(points, runner, {change.key: change.new for change in changes if change.new != float(change.number)})
    left = tuple(key for key in numbers if key not in fitted)
    return Fit(points[0].command.load(), changes, left, tuple(before), tuple(after), predicted, done)


def _round(problem: _Problem, at: Floats, residuals: Floats) -> tuple[Floats, Floats, float] | None:
    """One step: (numbers, residuals there, mean absolute error foreseen); None if no step is one forward."""
    jacobian = problem.jacobian(at)
    width = problem.high - problem.low
    # The ridge pulls towards the present values of the card, not towards where the last round ended.
    offset = (at - problem.present) / width
    rows = np.vstack([jacobian, RIDGE * np.eye(len(at))])
    move = steps(np.concatenate([residuals, RIDGE * offset]), rows, (problem.low - at) / width, (problem.high - at) / width, 0.0)
    move[np.abs(move) < LEAST] = 0.0
    loss = problem.loss(residuals, at)
    for halving in range(HALVINGS + 1):
        part = move / 2**halving
        there = np.where(part == 0.0, at, problem.rounded(at + part * width))
        if (there == at).all():
            return None
        after = problem.residuals(there)
        if problem.loss(after, there) < loss:
            foreseen = np.abs(np.expm1(residuals + jacobian @ ((there - at) / width))).mean()
            return there, after, float(foreseen)
    return None


def _rows(points: Sequence[Point], runner: Runner, numbers: Mapping[str, float]) -> list[Row]:
    commands = list(dict.fromkeys(point.command for point in points))
    runs = runner.run(Request(command, changes_of(numbers)) for command in commands)
    found = dict(zip(commands, runs, strict=True))
    return [Row(point, found[point.command].values[point.json_path]) for point in points]


def place_of(card: Card, key: str) -> tuple[str, ...]:
    """Tables and name of the entry that holds the number in the card file: the SoC's own where it has one."""
    if key in card.soc_data.numbers:
        return ("socs", card.soc, "numbers", key)
    return tuple(key.split("."))

