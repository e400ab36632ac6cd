"""What a recording core hands to the simulated core: a list of `Entry`, in program order."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from aicore_sim.instructions.base import Op, Pipe
from aicore_sim.memory import Buffer


class Kind(IntEnum):
    """How the engine treats an entry. EXEC..CROSS_WAIT occupy a slot of their pipe's queue; the rest stay on the scalar unit."""

    EXEC = 0
    SET_FLAG = 1
    WAIT_FLAG = 2
    BARRIER = 3
    CROSS_SET = 4
    CROSS_WAIT = 5
    MUTEX_LOCK = 6
    MUTEX_UNLOCK = 7
    BARRIER_ALL = 8
    SYNC_ALL = 9
    SCALAR = 10
    """Work of the scalar unit itself: `arg` is a callable(device) -> value, run at its time; `op` prices it."""
    MODE = 11
    """A change of issue-time state (atomics, loop mode ...): `arg` = (name, value); costs one issue slot."""


CALLS = {
    Kind.SET_FLAG: "SetFlag", Kind.WAIT_FLAG: "WaitFlag", Kind.BARRIER: "PipeBarrier", Kind.CROSS_SET: "CrossCoreSetFlag",
    Kind.CROSS_WAIT: "CrossCoreWaitFlag", Kind.MUTEX_LOCK: "Mutex::Lock", Kind.MUTEX_UNLOCK: "Mutex::Unlock",
    Kind.BARRIER_ALL: "PipeBarrier", Kind.SYNC_ALL: "SyncAll",
}  # fmt: skip
"""The Ascend C names of what has no Op."""

_ORDERING_APIS = frozenset({"NdDmaDci", "DataCacheCleanAndInvalid", "DataSyncBarrier"})


def orders(kind: Kind, api: str) -> bool:
    """True for what a kernel calls only to order others or to make their data visible: flags, barriers, locks, meetings of
    cores, cleaning and invalidating of caches. `api` is that of the entry's Op, "" without one."""
    return Kind.SET_FLAG <= kind <= Kind.SYNC_ALL or api in _ORDERING_APIS


class Entry:
    """One recorded instruction: `op` with its operands, or a synchronisation call.

    `bufs` and `offs` are the operands (destination first) as buffers and byte offsets; `line` indexes the session's
    table of kernel source lines. `arg` depends on the kind: (event code, id) for flags, (flag id, mode) for cross-core
    flags, the id for Mutex. `l2` is the L2 hint of the GM operand. The scalar unit
    sets `issue`, the tick at which the entry is in its queue, `why`, the Cause that kept it from issuing earlier, and `seq`, its
    number among the entries of its core in program order.
    """

    __slots__ = ("arg", "bufs", "issue", "kind", "l2", "line", "offs", "op", "pipe", "seq", "why")
    issue: int
    seq: int
    why: int

    def __init__(
        self,
        kind: Kind,
        pipe: Pipe,
        line: int,
        op: Op | None = None,
        bufs: tuple[Buffer, ...] = (),
        offs: tuple[int, ...] = (),
        arg: Any = None,
    ) -> None:
        self.kind = kind
        self.pipe = pipe
        self.op = op
        self.bufs = bufs
        self.offs = offs
        self.line = line
        self.arg = arg
        self.l2 = ""
