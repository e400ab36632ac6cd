"""The rows of a run as events that happens-before is worked out on, with the ends of blocks between them.

Positions are in the order of execution, which agrees with every order that synchronisation makes: a wait comes behind its set, a
barrier behind what it drains. Which of two events without order comes first here means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import PIPES_PER_CORE, Facts
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BLOCK_END = 100
"""Kind of the event at the end of a block."""
LOOSE = PIPES_PER_CORE - 1
"""The thread of a core, besides its pipes, for scalar accesses that only DataSyncBarrier, a flag or a barrier completes."""
_COVERED = ("GetValue", "SetValue")


@dataclass(frozen=True, slots=True)
class Events:
    """Arrays over positions: `row` (-1: the end of a block), `core`, `pipe`, `thread` (that of LOOSE accesses is the core's
    last), `kind`, `seq`, and `synced`: the scalar unit has completed its loose accesses here."""

    row: Ints
    core: Ints
    pipe: Ints
    thread: Ints
    kind: Ints
    seq: Ints
    synced: Bools
    position: Ints
    """Position of every row."""

    def __len__(self) -> int:
        return int(self.row.size)


def events_of(facts: Facts) -> Events:
    """The events of a run."""
    ends = sorted(facts.audit.ends, key=lambda end: end.row)
    at = np.array([end.row for end in ends], np.int64)
    count = len(facts)
    row = np.insert(np.arange(count, dtype=np.int64), at, -1)
    core = np.insert(facts.core, at, [end.core for end in ends])
    pipe = np.insert(facts.pipe, at, int(Pipe.S))
    kind = np.insert(facts.kind, at, BLOCK_END)
    seq = np.insert(facts.seq, at, [end.seq for end in ends])
    loose, synced = _scalar(facts)
    thread = core * PIPES_PER_CORE + np.where(np.insert(loose, at, False), LOOSE, pipe)
    synced = np.insert(synced, at, True) | (kind == BLOCK_END)
    position = np.flatnonzero(row >= 0)
    return Events(row, core, pipe, thread, kind, seq, synced, position)


def _scalar(facts: Facts) -> tuple[Bools, Bools]:
    """For every row: whether it is a loose scalar access, and whether the scalar unit has completed those before it.

    The vendor's compiler covers GetValue and SetValue of tensors on vector cores, in GM loads only (spec api_semantics.md
    19.1); a load that gives a value from GM is complete when the kernel goes on.
    """
    scalar = facts.pipe == int(Pipe.S)
    kind = facts.kind
    synced = scalar & np.isin(kind, [int(Kind.BARRIER_ALL), int(Kind.SET_FLAG), int(Kind.SYNC_ALL), int(Kind.CROSS_SET)])
    loose = np.zeros(len(facts), np.bool_)
    by_op = facts.rows_of_op
    aiv = np.array([info.kind == "aiv" or facts.card.coupled for info in facts.columns.cores])
    first, uid = facts.audit.first, facts.audit.uid
    for index, rows in by_op.items():
        op = facts.ops[index]
        if op.pipe is not Pipe.S:
            continue
        if op.api == "DataSyncBarrier":
            synced[rows] = True
            continue
        rows = rows[first[rows + 1] > first[rows]]
        if not rows.size or not (op.reads or op.writes):
            continue
        in_gm = uid[first[rows]] < 0
        covered = facts.audit.auto_sync & aiv[facts.core[rows]] & (op.api in _COVERED)
        loose[rows] = np.where(in_gm, bool(op.writes), ~covered)
    return loose, synced
