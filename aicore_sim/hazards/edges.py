"""Which event has to wait for which: the meaning of every synchronisation call (spec coherence.md 3, api_semantics.md 11, 20).

An edge (source, target) says that everything the source's thread had done by then, completed, comes before the target. Program
order inside a thread needs no edge. Nothing here looks at times: a set belongs to the wait that takes it by count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.program import BLOCK_END, Events
from aicore_sim.hazards.signals import counters
from aicore_sim.instructions.base import PIPES, Pipe
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]
Edges = tuple[Ints, Ints]
"""Sources and targets, as positions."""
NOTIFY, WAIT_PRE = "NotifyNextBlock", "WaitPreBlock"
PRIMITIVES = ("IBSet", "IBWait", NOTIFY, WAIT_PRE, "InitDetermineComputeWorkspace")
"""Calls that meet through words in GM: their own accesses are no accesses of the kernel (spec api_semantics.md 11.5)."""


def edges_of(facts: Facts, events: Events, polls: Edges) -> Edges:
    """All edges of a run, by target; `polls` are those of loads that waited for a word in GM (polls.py)."""
    parts = [_flags(facts, events), *_scalar_and_pipes(events), _cross_core(facts, events), _sync_all(facts, events),
             _locks(facts, events), _primitives(facts, events), polls]  # fmt: skip
    source, target = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    order = np.lexsort((source, target))
    return source[order], target[order]


def _pairs(found: list[tuple[int, int]]) -> Edges:
    both = np.array(found, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _flags(facts: Facts, events: Events) -> Edges:
    """The k-th SetFlag of a flag and the k-th WaitFlag of it: a flag is one deep."""
    arg = np.zeros(len(events), np.int64)
    arg[events.position] = facts.columns.arg
    key = (events.core << 32) + arg
    sides = []
    for kind in (Kind.SET_FLAG, Kind.WAIT_FLAG):
        at = np.flatnonzero(events.kind == int(kind))
        at = at[np.argsort(key[at], kind="stable")]
        keys = key[at]
        rank = np.arange(at.size) - np.searchsorted(keys, keys)
        sides.append((at, (keys << 24) + rank))
    (sets, set_keys), (waits, wait_keys) = sides
    _, i, j = np.intersect1d(set_keys, wait_keys, assume_unique=True, return_indices=True)
    return sets[i], waits[j]


def _scalar_and_pipes(events: Events) -> Iterator[Edges]:
    """What a pipe is given comes behind what the scalar unit did before; PIPE_ALL and the end of a block drain the pipes."""
    scalar = events.pipe == int(Pipe.S)
    drains = np.isin(events.kind, [int(Kind.BARRIER_ALL), BLOCK_END])
    for core in np.unique(events.core):
        mine = events.core == core
        own = np.flatnonzero(mine & scalar)
        if not own.size:
            continue
        drained = np.flatnonzero(mine & drains)
        for pipe in PIPES:
            at = np.flatnonzero(mine & (events.pipe == int(pipe)))
            if pipe is Pipe.S or not at.size:
                continue
            seq = events.seq[at]
            before = np.searchsorted(events.seq[own], seq) - 1
            fresh = before >= 0
            fresh[1:] &= before[1:] > before[:-1]
            yield own[before[fresh]], at[fresh]
            last = np.searchsorted(seq, events.seq[drained]) - 1
            yield at[last[last >= 0]], drained[last >= 0]


# ---- between cores --------------------------------------------------------------------------------------------------
def _cross_core(facts: Facts, events: Events) -> Edges:
    """The sets that make a signal come before the wait that takes it."""
    found = [(source, wait) for counted in counters(facts)[0].values()
             for sources, wait in zip(counted.signals, counted.waits, strict=False) for source in sources]  # fmt: skip
    source, target = _pairs(found)
    return events.position[source], events.position[target]


def _sync_all(facts: Facts, events: Events) -> Edges:
    """The k-th SyncAll of each core that takes part: all of them come behind what each did before its own.

    A core's row stands where it went on, so what it did before is told by the scalar row in front.
    """
    cores = facts.columns.cores
    arrived: dict[str, dict[int, list[tuple[int, int]]]] = {}
    before: dict[int, int] = {}
    scalar = np.flatnonzero(events.pipe == int(Pipe.S))
    if not (events.kind == int(Kind.SYNC_ALL)).any():
        return _pairs([])
    for at in scalar.tolist():
        core = int(events.core[at])
        if events.kind[at] == int(Kind.SYNC_ALL):
            row = int(events.row[at])
            scope = "mix" if facts.audit.offset[facts.audit.first[row]] else cores[core].kind
            arrived.setdefault(scope, {}).setdefault(core, []).append((before.get(core, -1), at))
        before[core] = at
    found: list[tuple[int, int]] = []
    for members in arrived.values():
        for meeting in range(max(len(calls) for calls in members.values())):
            there = [calls[meeting] for calls in members.values() if len(calls) > meeting]
            found.extend((source, target) for source, _ in there for _, target in there if source >= 0)
    return _pairs(found)


# ---- locks and primitives -------------------------------------------------------------------------------------------
def _locks(facts: Facts, events: Events) -> Edges:
    """A Lock comes behind all Unlocks of its id issued before it, those of its own pipe excepted (spec 20.5)."""
    chosen = np.flatnonzero(np.isin(events.kind, [int(Kind.MUTEX_LOCK), int(Kind.MUTEX_UNLOCK)]))
    chosen = chosen[np.lexsort((events.seq[chosen], events.core[chosen]))]
    last: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    found: list[tuple[int, int]] = []
    for at in chosen.tolist():
        unlocked = last[int(events.core[at]), int(facts.columns.arg[events.row[at]])]
        pipe = int(events.pipe[at])
        if events.kind[at] == int(Kind.MUTEX_UNLOCK):
            unlocked[pipe] = at
        else:
            found.extend((source, at) for other, source in unlocked.items() if other != pipe)
    return _pairs(found)


def _primitives(facts: Facts, events: Events) -> Edges:
    """IBSet and IBWait of one word follow each other; WaitPreBlock comes behind the calls of NotifyNextBlock so far.

    Of the polls of one call only the last, which met what it waited for, counts.
    """
    ops = {index: op.api for index, op in enumerate(facts.ops) if op.api in PRIMITIVES}
    if not ops:
        return _pairs([])
    scalar = np.flatnonzero(events.pipe == int(Pipe.S))
    index = np.full(len(events), -1, np.int64)
    index[events.position] = facts.op
    following: dict[int, int] = {}
    last: dict[tuple[str, int, int], int] = {}
    found: list[tuple[int, int]] = []
    for at in scalar.tolist()[::-1]:
        core = int(events.core[at])
        following[at], last[("next", core, 0)] = last.get(("next", core, 0), -1), at
    last.clear()
    for at in scalar[np.isin(index[scalar], list(ops))].tolist():
        api = ops[int(index[at])]
        after = following[at]
        if after >= 0 and index[after] == index[at] and api != NOTIFY:
            continue  # a poll that has to be repeated
        uid, offset = facts.operands(int(events.row[at]))[0]
        group = "next" if api in (NOTIFY, WAIT_PRE) else "ib"
        source = last.get((group, uid, offset))
        if source is not None:
            found.append((source, at))
        if api != WAIT_PRE:
            last[group, uid, offset] = at
    return _pairs(found)
