"""How figures move when a number of the card moves within its range.

For every figure of every command: the value with each open number of the card at the lower and at the upper end of its
range, the others as they are. The share by which it changes comes from short runs (`Scenario.short`) and is applied to the
value of the full run. The same two runs serve the interval of a figure, the slope that the fits work with, and the count of
free numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aicore_sim.card_model import WHOLE_UNITS, Number
from aicore_sim.uncertainty import OPEN
from aicore_sim.validation.points import Command, Point
from aicore_sim.validation.runs import TASK, Changes, Outcome, Request, Runner, changes_of, numbers_of

FREE = frozenset({"fitted", "assumed"})
"""Bases of numbers that a fit may set."""
MOVES = 1e-3
"""A figure moves with a number if it changes by more than this share."""
STILL = 2e-4
"""A number that changes no figure of a command by more than this share is left out: it opens no interval worth a run more."""
UNBOUNDED = 0.1
"""How far a number without a range is moved, as a share of it."""
_SELDOM = ("sync", "queues", "scalar", "nddma")
"""Tables that most runs read and few results depend on: their numbers are first moved all at once."""

Ends = tuple[float, float]


def ends_of(number: Number) -> Ends | None:
    """The values between which an open number is moved; None where there is nowhere to go."""
    if number.basis not in OPEN:
        return None
    low, high = number.range or (number.value * (1 - UNBOUNDED), number.value * (1 + UNBOUNDED))
    if number.unit in WHOLE_UNITS:
        low, high = math.floor(low), math.ceil(high)
    return (low, high) if low < high else None


@dataclass(frozen=True)
class Sensitivities:
    """Figures of commands, by JSON path: at the card's present values (`middle`), and for each number that moves one of the
    command's figures at both ends (`ends`). `numbers` are the open numbers that the command reads, by key."""

    middle: Mapping[Command, Mapping[str, float]]
    ends: Mapping[Command, Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]]]
    numbers: Mapping[Command, Mapping[str, Number]]

    def of(self, point: Point, key: str) -> Ends:
        """The point's figure with the number at its lower and its upper end."""
        found = self.ends[point.command].get(key)
        if found is None:
            middle = self.middle[point.command][point.json_path]
            return middle, middle
        return found[0][point.json_path], found[1][point.json_path]

    def moves(self, point: Point, key: str) -> bool:
        """Whether the number moves the point by more than `MOVES`."""
        middle = self.middle[point.command][point.json_path]
        return any(abs(end - middle) > MOVES * middle for end in self.of(point, key))

    def slope(self, point: Point, key: str) -> float:
        """Change of the logarithm of the figure from the lower to the upper end of the number (a secant)."""
        low, high = self.of(point, key)
        return math.log(high / low) if low > 0 < high else 0.0


def free_numbers(points: Sequence[Point], found: Sensitivities) -> dict[str, list[Point]]:
    """The free numbers of a card and the counted points that each moves; `points` are those of the card.

    Free is every fitted or assumed number that moves a counted point by more than 0.1 %.
    """
    free: dict[str, list[Point]] = {}
    for point in points:
        for key, number in found.numbers[point.command].items():
            if point.counted and number.basis in FREE and found.moves(point, key):
                free.setdefault(key, []).append(point)
    return dict(sorted(free.items()))


def fittable(number: Number, points: int = 2) -> bool:
    """Whether a fit may set the number: free, with a range, not a number that comes in steps, and moving more than one of the
    counted points (`points` of them): an assumed number is not to be bent to a single measurement."""
    return number.basis in FREE and number.range is not None and number.unit not in WHOLE_UNITS and points > 1


def as_full(full: Outcome, short: Outcome, moved: Outcome, changes: Changes) -> dict[str, float]:
    """What a full run would give with `changes`: `short` is the short run without them, `moved` the one with them.

    What grows with the run changes by the share that the short run shows; the launch cost, which is the same for both, and
    whatever else the launch's numbers do once in a run, by the same amount.
    """
    if all(key.startswith("launch.") for key, _ in changes):
        return {path: value + moved.values[path] - short.values[path] for path, value in full.values.items()}
    found = {}
    for path, value in full.values.items():
        before = short.values[path] - short.fixed[path]
        share = (moved.values[path] - moved.fixed[path]) / before if before else 1.0
        found[path] = moved.fixed[path] + (value - full.fixed[path]) * share
    return found


def sensitivities(commands: Iterable[Command], runner: Runner) -> Sensitivities:
    """Move every open number that the commands read to both ends of its range.

    Of the tables in `_SELDOM` all numbers are moved at once; only where a figure changes by more than 0.1 %, halves of them,
    and so on down to single ones. An end that the card or the run refuses counts as the present value.
    """
    listed = list(dict.fromkeys(commands))
    full = dict(zip(listed, runner.run(Request(command) for command in listed), strict=True))
    present = dict(zip(listed, runner.run(Request(command, short=True) for command in listed), strict=True))
    numbers = {command: _open_numbers(command, present[command]) for command in listed}
    pending = [(command, group) for command in listed
               for group in _groups(numbers[command], TASK in runner.paths[command])]  # fmt: skip
    ends: dict[Command, dict[str, tuple[Mapping[str, float], Mapping[str, float]]]] = {one: {} for one in listed}
    while pending:
        requests = [_at_ends(command, group, numbers[command]) for command, group in pending]
        answers = iter(runner.attempt(request for pair in requests for request in pair))
        again: list[tuple[Command, tuple[str, ...]]] = []
        for command, group in pending:
            middle = present[command]
            low, high = (next(answers) or middle, next(answers) or middle)
            still = STILL if len(group) == 1 else MOVES
            if _same(low, middle, still) and _same(high, middle, still):
                continue
            if len(group) == 1:
                low_of, high_of = _at_ends(command, group, numbers[command])
                ends[command][group[0]] = (as_full(full[command], middle, low, low_of.changes),
                                           as_full(full[command], middle, high, high_of.changes))  # fmt: skip
            else:
                again += [(command, group[: len(group) // 2]), (command, group[len(group) // 2 :])]
        pending = again
    return Sensitivities({one: full[one].values for one in listed}, ends, numbers)


def _same(moved: Outcome, middle: Outcome, share: float) -> bool:
    return all(abs(value - middle.values[path]) <= share * abs(middle.values[path]) for path, value in moved.values.items())


def _open_numbers(command: Command, outcome: Outcome) -> dict[str, Number]:
    known = numbers_of(command.load())
    return {key: known[key] for key in outcome.asked if key in known and ends_of(known[key]) is not None}


def _groups(numbers: Mapping[str, Number], task: bool) -> Iterator[tuple[str, ...]]:
    """Single numbers, and those of the tables in `_SELDOM` as one group; with them the launch's where no `task` time, which
    holds its cost, is wanted."""
    tables = _SELDOM if task else (*_SELDOM, "launch")
    seldom = tuple(key for key in numbers if key.split(".")[0] in tables)
    if seldom:
        yield seldom
    for key in numbers:
        if key not in seldom:
            yield (key,)


def _at_ends(command: Command, group: Sequence[str], numbers: Mapping[str, Number]) -> list[Request]:
    requests = []
    for side in (0, 1):
        moved = {key: ends[side] for key in group if (ends := ends_of(numbers[key])) is not None}
        requests.append(Request(command, changes_of(moved), short=True))
    return requests
