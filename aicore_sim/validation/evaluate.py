"""All that `aicore-sim validate` works out, from points to a `Validation`.

Values come from full runs. Intervals, free numbers and left-out errors come from short runs with numbers of the card
moved (`sensitivity`), whose shares are applied to the full run's value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.validation.points import Command, Point
from aicore_sim.validation.runs import Request, Runner, changes_of, numbers_of
from aicore_sim.validation.scores import Row, Validation
from aicore_sim.validation.sensitivity import Sensitivities, as_full, ends_of, fittable, free_numbers, sensitivities
from aicore_sim.validation.solve import Floats, left_out


class Interval(Protocol):
    """What `Spread` gives for one figure."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def dominated_by(self) -> str: ...


Measure = Callable[[Card], Mapping[str, float]]
Spread = Callable[[Measure, Card], Mapping[str, Any]]
"""Intervals of the figures of a measurement on a card: `aicore_sim.uncertainty.spread`."""


def validate(points: Sequence[Point], runner: Runner, spread: Spread | None = None, quick: bool = False) -> Validation:
    """Run the points and judge them; `quick` stops at the errors.

    Raises what a run raises, and ConfigError for a JSON path that its result does not have.
    """
    commands = list(dict.fromkeys(point.command for point in points))
    full = dict(zip(commands, runner.run(Request(command) for command in commands), strict=True))
    rows = [Row(point, full[point.command].values[point.json_path]) for point in points]
    if quick:
        return Validation(tuple(rows))
    found = sensitivities(commands, runner)
    free, unfitted = {}, {}
    left: dict[str, tuple[float, float]] = {}
    for card in dict.fromkeys(point.card for point in points):
        mine = [row for row in rows if row.point.card == card]
        numbers = free_numbers([row.point for row in mine], found)
        free[card] = {key: tuple(point.id for point in moved) for key, moved in numbers.items()}
        known = {key: found.numbers[moved[0].command][key] for key, moved in numbers.items()}
        # A number that has been fitted to one point stays in the list of those that break the rule.
        unfitted[card] = tuple(key for key, number in known.items()
                               if not fittable(number, 2 if number.basis == "fitted" else len(numbers[key])))  # fmt: skip
        left |= leave_out(mine, [key for key in numbers if key not in unfitted[card]], found)
    spans = intervals(commands, found, runner, spread) if spread is not None else {}
    done = []
    for row in rows:
        errors = left.get(row.point.id, (None, None))
        if spread is None:
            done.append(Row(row.point, row.simulated, None, None, "", *errors))
        else:
            span = spans[row.point.command][row.point.json_path]
            done.append(Row(row.point, row.simulated, span.low, span.high, span.dominated_by, *errors))
    return Validation(tuple(done), free, unfitted)


def leave_out(rows: Sequence[Row], keys: Sequence[str], found: Sensitivities) -> dict[str, tuple[float, float]]:
    """For each counted row of one card, by id, the errors predicted for it when `keys` are fitted without its scenario
    (`points.group_of`), and without its command. Linearised: r + J u, see `solve`."""
    counted = [row for row in rows if row.point.counted]
    residuals, jacobian = system(counted, keys, found)
    lower, upper = bounds(counted, keys, found)
    by_group = left_out(residuals, jacobian, lower, upper, [row.point.group for row in counted])
    by_command = left_out(residuals, jacobian, lower, upper, [str(row.point.command) for row in counted])
    return {row.point.id: (math.expm1(one), math.expm1(two))
            for row, one, two in zip(counted, by_group.tolist(), by_command.tolist(), strict=True)}  # fmt: skip


def system(rows: Sequence[Row], keys: Sequence[str], found: Sensitivities) -> tuple[Floats, Floats]:
    """Residuals log(simulated / measured) of the rows, and their slopes by the numbers over the width of each range."""
    residuals = np.array([math.log(row.simulated / row.point.value) for row in rows])
    slopes = [[found.slope(row.point, key) for key in keys] for row in rows]
    return residuals, np.array(slopes).reshape(len(rows), len(keys))


def bounds(rows: Sequence[Row], keys: Sequence[str], found: Sensitivities) -> tuple[Floats, Floats]:
    """How far the numbers may move down and up, in widths of their ranges."""
    lower, upper = [], []
    for key in keys:
        number = next(found.numbers[row.point.command][key] for row in rows if key in found.numbers[row.point.command])
        ends = ends_of(number)
        assert ends is not None, key
        width = ends[1] - ends[0]
        lower.append((ends[0] - number.value) / width)
        upper.append((ends[1] - number.value) / width)
    return np.array(lower), np.array(upper)


def intervals(
    commands: Sequence[Command], found: Sensitivities, runner: Runner, spread: Spread
) -> dict[Command, Mapping[str, Interval]]:
    """Intervals of the figures of each command, by JSON path."""
    return {command: spread(_answers(command, found, runner), command.load()) for command in commands}


def _answers(command: Command, found: Sensitivities, runner: Runner) -> Measure:
    """A measurement that answers from the runs which have been made; only what they do not know is run."""
    plain = command.load()
    base = {key: float(number) for key, number in numbers_of(plain).items()}

    def measure(card: Card) -> Mapping[str, float]:
        changed = {key: value for key, number in numbers_of(card).items() if (value := float(number)) != base[key]}
        if not changed:
            for key in found.numbers[command]:
                card.number(key)  # what the runs have asked for, for a card that keeps account of it
            return found.middle[command]
        ((key, value), *more) = changed.items()
        ends = ends_of(found.numbers[command][key]) if key in found.numbers[command] else None
        if not more and ends is not None and value in ends:
            moved = found.ends[command].get(key)
            return found.middle[command] if moved is None else moved[ends.index(value)]
        changes = changes_of(changed)
        full, short, there = runner.run([Request(command), Request(command, short=True), Request(command, changes, short=True)])
        return as_full(full, short, there, changes)

    return measure
