"""Happens-before of a run, and the races that follow from it: one walk over the events (clocks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import Place
from aicore_sim.hazards import clocks
from aicore_sim.hazards.edges import edges_of
from aicore_sim.hazards.facts import PIPES_PER_CORE, Facts
from aicore_sim.hazards.polls import sync_words
from aicore_sim.hazards.program import LOOSE, Events, events_of
from aicore_sim.hazards.segments import Accesses, accesses_of
from aicore_sim.hazards.visit import visits
from aicore_sim.instructions.atomic import AtomicEffect
from aicore_sim.instructions.base import CubeWork, Pipe
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bools = NDArray[np.bool_]
Bits = NDArray[np.uint8]
MOST_SITES = 4000
"""Source lines by pipes that are told apart in one run."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two rows without order that touch common bytes: `kind` is clocks.RAW, WAR or WAW. `address` is the first common byte
    of the first occurrence in buffer `uid` (`place`), `bytes` how many it has there, `count` how often it happened;
    `observed`: in this run the later one really did not wait."""

    first: int
    second: int
    kind: int
    uid: int
    place: Place
    address: int
    bytes: int
    count: int
    observed: bool
    signalled: bool
    """The first is a scalar store, and the second comes behind something that the scalar unit did after it."""


class Order:
    """Happens-before of the run behind `facts`. `keep` are the rows that `before` will be asked about as second."""

    def __init__(self, facts: Facts, keep: Sequence[int] | Ints = ()) -> None:
        self._facts = facts
        events = events_of(facts)
        words = sync_words(facts, events)
        source, target = edges_of(facts, events, words.edges)
        accesses = accesses_of(facts, events, words.rows)
        thread, clock_of, loose_of, threads = _threads(events)
        chosen = np.unique(np.asarray(keep, np.int64))
        slot = np.full(len(events), clocks.NONE, np.int32)
        slot[events.position[chosen]] = np.arange(chosen.size)
        attr, unit_flag, atomic = _attributes(facts, events)
        site, sites = _sites(facts, events)
        edge_first = np.searchsorted(target, np.arange(len(events) + 1))
        refs = np.bincount(source, minlength=len(events)).astype(np.int32)
        c = facts.columns
        start, free, end = (_spread(events, column) for column in (c.start, c.free, c.end))
        visit = visits(events, source, target, facts.cores)
        index, kept, found = clocks.walk(
            visit, thread, clock_of, loose_of, events.core.astype(np.int32), attr, unit_flag, atomic, events.seq, edge_first,
            source, refs, slot, int(chosen.size), threads, bool(facts.card.model.vector.keeps_order.value), accesses.first,
            accesses.place, accesses.write, accesses.place_first, accesses.seg_lo, accesses.seg_hi, accesses.seg_bytes,
            accesses.seg_lasting, site, sites, start, free, end,
        )  # fmt: skip
        self._events = events
        self._thread, self._index, self._clocks, self._slot = thread, index, kept, slot
        self.races = [_race(facts, events, accesses, row) for row in found.tolist()]

    def before(self, a: int, b: int) -> bool:
        """Whether everything row `a` does is complete, by program order and synchronisation alone, before row `b` starts.

        Raises ValueError for a `b` that is not among the rows kept.
        """
        events = self._events
        one, two = int(events.position[a]), int(events.position[b])
        if events.core[one] == events.core[two] and events.pipe[one] == events.pipe[two] == int(Pipe.S):
            return bool(events.seq[one] < events.seq[two])
        slot = int(self._slot[two])
        if slot == clocks.NONE:
            raise ValueError(f"row {b} was not kept")
        return bool(self._clocks[slot, self._thread[one]] >= self._index[one])

    def befores(self, rows: Ints, b: int) -> Bools:
        """`before(a, b)` for every `a` of `rows`. Raises ValueError as `before`."""
        events = self._events
        one, two = events.position[rows], int(events.position[b])
        slot = int(self._slot[two])
        if slot == clocks.NONE:
            raise ValueError(f"row {b} was not kept")
        found: Bools = self._clocks[slot, self._thread[one]] >= self._index[one]
        if events.pipe[two] == int(Pipe.S):
            scalar = (events.core[one] == events.core[two]) & (events.pipe[one] == int(Pipe.S))
            found[scalar] = events.seq[one[scalar]] < events.seq[two]
        return found


def _race(facts: Facts, events: Events, accesses: Accesses, row: list[int]) -> Race:
    one, two, kind, segment, nbytes, count, observed, _, signalled = row
    signalled = signalled and events.thread[one] % PIPES_PER_CORE == LOOSE
    uid, address = accesses.where(segment)
    return Race(int(events.row[one]), int(events.row[two]), kind, uid, facts.places[uid], address, nbytes, count, bool(observed),
                bool(signalled))  # fmt: skip


def _spread(events: Events, column: Ints) -> Ints:
    """A column of the rows over positions."""
    out = np.zeros(len(events), np.int64)
    out[events.position] = column
    return out


def _threads(events: Events) -> tuple[Small, Small, Small, int]:
    """Threads numbered without gaps: of every event its own, the one whose clock it goes by, its core's loose one; how many."""
    scalar = events.pipe == int(Pipe.S)
    base = events.core * PIPES_PER_CORE
    clock = np.where(scalar, base + int(Pipe.S), events.thread)
    loose = base + LOOSE
    used, inverse = np.unique(np.concatenate([events.thread, clock, loose]), return_inverse=True)
    own, clock_of, loose_of = inverse.astype(np.int32).reshape(3, -1)
    return own, clock_of, loose_of, int(used.size)


def _attributes(facts: Facts, events: Events) -> tuple[Bits, Bits, Small]:
    """What the hardware's order depends on: bits (clocks.py), unit flag, atomic operation (0: none)."""
    ops = facts.ops
    bits = np.zeros(len(ops) + 1, np.uint8)
    unit_flag = np.zeros(len(ops) + 1, np.uint8)
    atomic = np.zeros(len(ops) + 1, np.int32)
    modes: dict[str, int] = {}
    for i, op in enumerate(ops):
        unit_flag[i] = op.unit_flag
        if isinstance(op.cost, CubeWork) and (op.cost.m // 16) * (op.cost.n // 16) >= 10:
            bits[i] = clocks.TEN_BLOCKS
        if isinstance(op.effect, AtomicEffect) or " atomic " in f" {op.detail}":
            atomic[i] = modes.setdefault(op.detail.rsplit("atomic", 1)[-1], len(modes) + 1)
    index = np.full(len(events), -1, np.int64)
    index[events.position] = facts.op
    attr = bits[index]
    attr[events.pipe == int(Pipe.S)] |= clocks.SCALAR
    attr[events.kind == int(Kind.BARRIER)] |= clocks.BARRIER
    attr[events.synced] |= clocks.SYNCED
    attr[events.pipe == int(Pipe.V)] |= clocks.IS_V
    attr[events.pipe == int(Pipe.M)] |= clocks.IS_M
    return attr, unit_flag[index], atomic[index]


def _sites(facts: Facts, events: Events) -> tuple[Small, int]:
    """A small number for the source line and pipe of every event, ascending in the text of the kernel."""
    lines = facts.columns.lines
    rank = np.zeros(len(lines), np.int64)
    rank[sorted(range(len(lines)), key=lambda number: lines[number])] = np.arange(len(lines))
    line = np.full(len(events), len(lines), np.int64)
    line[events.position] = rank[facts.columns.line]
    _, inverse = np.unique(line * PIPES_PER_CORE + events.pipe, return_inverse=True)
    site = (inverse % MOST_SITES).astype(np.int32)
    return site, int(site.max(initial=0)) + 1
