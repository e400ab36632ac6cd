"""Flags between cores: `unpaired-set` and `cross-core-overflow` (spec api_semantics.md 11.5).

A counter holds 15 signals. The sixteenth that is pending is an error: seen in this run by its times, or possible because nothing
makes the wait that takes one of the earlier signals come before the set of the later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import ERROR, OBSERVED, POSSIBLE, WARNING, Hazard
from aicore_sim.hazards.order import Order
from aicore_sim.hazards.signals import Counted, Lone, Place, counters, mode_of
from aicore_sim.kernel.program import Kind
from aicore_sim.timing import ticks

Ints = NDArray[np.int64]
OVERFLOW = "cross-core-overflow"
MOST_ASKED = 128
"""Signals of one counter whose order is looked at: a loop sends them all by the same lines."""


def rows_asked(facts: Facts) -> Ints:
    """Sets that `find` asks the order about: those that come so late that their counter could be full."""
    most = _most(facts)
    if not most:
        return np.zeros(0, np.int64)
    rows = {row for counted in counters(facts)[0].values() for sources in _late(counted, most) for row in sources}
    return np.array(sorted(rows), np.int64)


def find(facts: Facts, order: Order, *, complete: bool) -> list[Hazard]:
    """The findings; `complete` is False for a run that could not go on, which says nothing of what is left."""
    found, lone = counters(facts)
    hazards = _overflows(facts, found, order)
    return hazards + _left(facts, found) + _alone(facts, lone) if complete else hazards


# ---- too many ---------------------------------------------------------------------------------------------------------
def _most(facts: Facts) -> int:
    return int(facts.card.value("sync.cross_core_counter_max")) if facts.card.has("sync.cross_core_counter_max") else 0


def _late(counted: Counted, most: int) -> list[tuple[int, ...]]:
    return counted.signals[most : most + MOST_ASKED]


def _overflows(facts: Facts, found: dict[Place, Counted], order: Order) -> list[Hazard]:
    most = _most(facts)
    groups: dict[tuple[int, int], tuple[Place, int, int, bool, int]] = {}
    times: Ints | None = None
    for place, counted in found.items():
        if not most or len(counted.signals) <= most:
            continue
        if times is None:
            times = _signal_times(facts)
        for number, sources in enumerate(_late(counted, most)):
            wait = counted.waits[number] if number < len(counted.waits) else -1
            seen = wait < 0 or _taken(facts, wait) > max(int(times[row]) for row in sources)
            if not seen and any(_before(facts, order, wait, row) for row in sources):
                continue
            key = (int(facts.columns.line[sources[-1]]), int(facts.columns.line[wait]) if wait >= 0 else -1)
            first = groups.get(key, (place, sources[-1], wait, seen, 0))
            groups[key] = (*first[:3], first[3] or seen, first[4] + 1)
    return [_overflow(facts, most, *group) for group in groups.values()]


def _before(facts: Facts, order: Order, wait: int, row: int) -> bool:
    """A pipe is in order by itself: a set behind a wait in its own program comes after it."""
    same = facts.thread[wait] == facts.thread[row] and facts.seq[wait] < facts.seq[row]
    return bool(same) or order.before(wait, row)


def _signal_times(facts: Facts) -> Ints:
    """Tick at which every CrossCoreSetFlag is in effect (`engine.pipes`): what its pipe did before is complete."""
    c = facts.columns
    cost = ticks(facts.card.value("sync.cross_core_set"))
    out = np.zeros(len(facts), np.int64)
    for thread in np.unique(facts.thread[facts.kind == int(Kind.CROSS_SET)]).tolist():
        rows = np.flatnonzero(facts.thread == thread)
        done = np.maximum.accumulate(np.where(facts.kind[rows] == int(Kind.EXEC), c.end[rows], 0))
        out[rows] = np.maximum(c.start[rows], done) + cost
    return out


def _taken(facts: Facts, wait: int) -> int:
    """Tick at which a wait took its signal."""
    return int(facts.columns.free[wait]) - ticks(facts.card.value("sync.cross_core_wait"))


def _overflow(facts: Facts, most: int, place: Place, row: int, wait: int, seen: bool, count: int) -> Hazard:
    at = facts.party(row)
    label = facts.columns.cores[place.core].label
    verb = "are" if seen else "may be"
    detail = (f"{most + 1} signals of flag {place.flag} {verb} pending on {label}: its counter holds {most}"
              + (f", and nothing makes the wait in line {facts.where(wait)[1]} come first" if wait >= 0 else ""))  # fmt: skip
    fix = f"let {at.core} wait for a flag that {label} sets back, at least once in {most} sets"
    return Hazard(OVERFLOW, ERROR, OBSERVED if seen else POSSIBLE, at, detail, fix, count=count,
                  other=facts.party(wait) if wait >= 0 else None)  # fmt: skip


# ---- left over --------------------------------------------------------------------------------------------------------
def _left(facts: Facts, found: dict[Place, Counted]) -> list[Hazard]:
    groups: dict[tuple[int, int], list[tuple[Place, int]]] = {}
    for place, counted in found.items():
        for sources in counted.signals[len(counted.waits) :]:
            groups.setdefault((int(facts.columns.line[sources[-1]]), place.flag), []).append((place, sources[-1]))
    return [_left_over(facts, group) for group in groups.values()]


def _left_over(facts: Facts, group: list[tuple[Place, int]]) -> Hazard:
    row = min(row for _, row in group)
    at, place = facts.party(row), group[0][0]
    labels = sorted({facts.columns.cores[one.core].label for one, _ in group})
    shown = ", ".join(labels[:3]) + (f" and {len(labels) - 3} cores more" if len(labels) > 3 else "")
    mode = mode_of(facts, row)
    detail = (f"flag {place.flag} (mode {mode}) of {shown} is still set at the end of the kernel: set in line {at.line}, never "
              f"waited for")  # fmt: skip
    fix = f"add asc.cross_core_wait_flag({place.flag}, {mode}) on {shown}, as often as the flag is set, or leave out the set"
    return Hazard("unpaired-set", WARNING, POSSIBLE, at, detail, fix, count=len(group))


def _alone(facts: Facts, lone: list[Lone]) -> list[Hazard]:
    groups: dict[int, list[Lone]] = {}
    for one in lone:
        groups.setdefault(int(facts.columns.line[one.row]), []).append(one)
    return [_of_lone(facts, min(group, key=lambda one: one.row), len(group)) for group in groups.values()]


def _of_lone(facts: Facts, lone: Lone, count: int) -> Hazard:
    at, flag = facts.party(lone.row), int(facts.columns.arg[lone.row])
    absent = [facts.columns.cores[core].label for core in lone.absent]
    shown = ", ".join(absent[:3]) + (f" and {len(absent) - 3} cores more" if len(absent) > 3 else "")
    mode = mode_of(facts, lone.row)
    detail = f"flag {flag} (mode {mode}) of {at.core} signals nobody: {shown} has not set it as often"
    return Hazard("unpaired-set", WARNING, POSSIBLE, at, detail, f"set flag {flag} as often on {shown}", count=count)
