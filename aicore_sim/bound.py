"""A time that no schedule of the same instructions can beat: what the rates alone ask of the busiest resource.

For each pipe of each core the sum of its instructions' work (bytes / rate, cube steps, repeats), for the shared L2 the
requested bytes, for memory the bytes that missed and were written back, for the scalar unit the number of instructions.
Heads, latencies, prices per run and per request, waits and contention stay out, so the gap between bound and time is
what a better order, larger copies or more overlap may win. The launch cost stays out too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.engine.columns import Columns, Ints
from aicore_sim.instructions.base import TICKS_PER_CYCLE, GmTraffic, Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.timing import Timing
from aicore_sim.trace import EVICTED, MISSED, REQUESTED

_SHARED_PRECISION = 1e-6
"""The sharing of bandwidth computes in floating point and lets a flow end this close to its last byte (sharing.py)."""


@dataclass(frozen=True)
class Bound:
    """`us`: no order of these instructions takes less, launch left out. `by` names the resource; None: nothing to do."""

    us: float
    by: str | None


def lower_bound(columns: Columns, card: Card, shared: bool = True) -> Bound:
    """The largest of `demands`. `shared`: all transfers of the run shared L2 and memory; False for a replay without
    contention, where each had them to itself and only those of one pipe come one after another."""
    found = demands(columns, card, shared)
    by = max(found, key=found.__getitem__, default=None)
    if by is None or not found[by]:
        return Bound(0.0, None)
    return Bound(found[by] / TICKS_PER_CYCLE / columns.clock_mhz, by)


def demands(columns: Columns, card: Card, shared: bool = True) -> dict[str, float]:
    """Ticks that each resource needs for the run: "aic.M", "aiv.MTE2 port", ... (the busiest core's; "port" where most of
    it is GM traffic), "l2 read", "l2 write" and "memory" (of one pipe, unless `shared`), "issue" (the busiest scalar
    unit)."""
    timing = Timing(card)
    # Whole ticks of every instruction, rounded down: prices are rounded to nearest, many small ones would add up.
    work = np.array([math.floor(timing.work(op.cost) * TICKS_PER_CYCLE) for op in columns.ops] or [0], np.float64)
    is_gm = np.array([isinstance(op.cost, GmTraffic) for op in columns.ops] or [False])
    rows = np.flatnonzero((columns.kind == Kind.EXEC) & (columns.op >= 0))
    lanes = columns.core[rows] * len(Pipe) + columns.pipe[rows]
    shape = (len(columns.cores), len(Pipe))

    def per_lane(of_op: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(lanes, of_op[columns.op[rows]], shape[0] * shape[1]).astype(np.float64).reshape(shape)

    total, through_port = per_lane(work), per_lane(work * is_gm)
    out: dict[str, float] = {}
    for kind in sorted({core.kind for core in columns.cores}):
        cores = [i for i, core in enumerate(columns.cores) if core.kind == kind]
        for pipe in Pipe:
            busiest = cores[int(total[cores, pipe].argmax())]
            port = " port" if through_port[busiest, pipe] * 2 > total[busiest, pipe] else ""
            out[f"{kind}.{pipe.name}{port}"] = float(total[busiest, pipe])
    out |= _behind_the_ports(columns, card, shared)
    entries = np.bincount(columns.core, minlength=len(columns.cores))
    out["issue"] = float(entries.max(initial=0)) * math.floor(card.value("scalar.issue") * TICKS_PER_CYCLE)
    return out


def _behind_the_ports(columns: Columns, card: Card, shared: bool) -> dict[str, float]:
    """Ticks of L2 and memory, for all transfers or for those of one pipe.

    Stores that bypass L2 are left out of memory: the rows do not tell them from others.
    """
    gm = columns.gm
    is_read = np.array([isinstance(op.cost, GmTraffic) and op.cost.is_read for op in columns.ops] or [False])
    rows = gm[:, 0]
    reads = is_read[columns.op[rows]]
    lanes = columns.core[rows] * len(Pipe) + columns.pipe[rows]

    def ticks(nbytes: Ints, gbps: float) -> float:
        per_tick = gbps * 1e3 / columns.clock_mhz / TICKS_PER_CYCLE
        total = nbytes.sum() if shared else np.bincount(lanes, nbytes).max(initial=0)
        return float(total) / per_tick * (1 - _SHARED_PRECISION)

    return {
        "l2 read": ticks(gm[:, REQUESTED] * reads, card.value("l2.read_rate")),
        "l2 write": ticks(gm[:, REQUESTED] * ~reads, card.value("l2.write_rate")),
        "memory": ticks(gm[:, MISSED] * reads + gm[:, EVICTED], card.memory_attainable_gbps),
    }
