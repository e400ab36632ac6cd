"""What a simulation leaves behind: plain integer columns. Everything reported is computed from them (trace.py).

Times are ticks: 1/256 of a core clock cycle (`TICKS_PER_CYCLE`), tick 0 is the start of the kernel on its first core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import AuditLog
from aicore_sim.instructions.base import Op

FLAG_IDS = 64
"""An event flag is numbered HardEvent * FLAG_IDS + id; ids are fewer on every card."""
Ints = NDArray[np.int64]


class Cause(IntEnum):
    """The closed list of what a pipe does with a tick (DESIGN: Time). Every tick of every pipe has exactly one."""

    BUSY = 0
    """The instruction's own head and on-chip work."""
    BW_PORT = 1
    """In progress, limited by the core's own GM port."""
    BW_L2 = 2
    """In progress, limited by the shared L2 rate."""
    BW_HBM = 3
    """In progress, limited by the shared memory rate."""
    BW_SAME_ADDRESS = 4
    """In progress, queued behind other cores on one L2 line."""
    UNIT_FLAG = 5
    """In progress, waiting for unit flags of L0C blocks."""
    FLAG = 6
    """Waiting for an event, a lock or a cross-core flag."""
    BARRIER = 7
    """Waiting for earlier instructions because of a barrier."""
    QUEUE = 8
    """Scalar unit only: the target pipe's queue is full."""
    ISSUE = 9
    """Nothing to do yet: the scalar unit has not issued the next instruction (for S: it is issuing)."""
    IDLE = 10
    """Before the first and after the last instruction of the pipe."""


CAUSE_NAMES = tuple(c.name.lower() for c in Cause)
IN_PROGRESS = (Cause.BUSY, Cause.BW_PORT, Cause.BW_L2, Cause.BW_HBM, Cause.BW_SAME_ADDRESS, Cause.UNIT_FLAG)
"""What msprof counts as a pipe's time (spec reports.md; DESIGN: Time)."""


@dataclass(frozen=True, slots=True)
class CoreInfo:
    """One core that took part. `label` is "core3.aic", "core3.aiv1" or "core0" (coupled); `kind` is "aic" or "aiv" ("aic"
    for a coupled core); `group` numbers the AI Core it belongs to; `pipes` are the pipes it has (Pipe values)."""

    label: str
    kind: str
    group: int
    sub: int
    pipes: tuple[int, ...]


@dataclass(slots=True)
class Columns:
    """One row per executed queue entry (instructions, flags, barriers), in the order their pipes took them up.

    `[start, free)` is the time the entry holds its pipe, `end` the tick at which its effects are complete. The gap
    between the previous row's `free` on the same core and pipe and `start` is waiting: up to `issue` for the reason
    `issue_cause`, after it for `cause`. Inside `[start, free)`: `unit_flag` ticks of waiting for unit flags, the split
    of `gm` for rows on the GM path, for WAIT_FLAG, CROSS_WAIT, MUTEX_LOCK and blocked SET_FLAG rows all FLAG, for BARRIER
    rows all BARRIER, else BUSY.
    """

    core: Ints
    """Index into `cores`."""
    pipe: Ints
    """Pipe value."""
    kind: Ints
    """kernel.program.Kind value."""
    op: Ints
    """Index into `ops`; -1 for rows without an Op."""
    arg: Ints
    """Flags: HardEvent * FLAG_IDS + id; cross-core: flag id; instructions on GM: device address of the GM operand; else 0."""
    line: Ints
    """Index into `lines`."""
    issue: Ints
    start: Ints
    free: Ints
    end: Ints
    issue_cause: Ints
    cause: Ints
    unit_flag: Ints
    """Ticks inside [start, free) spent waiting for unit flags."""
    gm: Ints
    """Rows (row index, bw_port, bw_l2, bw_hbm, bw_same_address ticks, hit bytes, missed bytes, evicted bytes, requested bytes),
    one for each row above that moved data to or from GM, in row order."""
    scalar: Ints
    """[core, Cause] ticks of the scalar unit of every core, idle included: each row sums to `length`."""
    core_start: Ints
    """Tick at which each core began."""
    core_end: Ints
    """Tick at which the last effect of each core was complete."""
    length: int
    """Tick of the last effect of the whole run: 0..length is what utilisation is a share of."""
    cores: tuple[CoreInfo, ...]
    ops: tuple[Op, ...]
    lines: tuple[tuple[str, int], ...]
    """(file, line) of the kernel source."""
    clock_mhz: float
    counters: dict[str, int] = field(default_factory=dict)
    """Cache counters: l2_hit_bytes, l2_miss_bytes, l2_evicted_bytes, nddma_hit, nddma_miss, nddma_stale_hit, dcache_hit ..."""
    audit: AuditLog | None = None
    """What the checks need besides the rows; None in a run without checks."""

    def __len__(self) -> int:
        return int(self.core.size)
