"""Latency of one copy between GM and UB: one vector core, a barrier over all pipes after each copy.

The same bytes are copied every time, so that all but the first copy find them in L2; with `warm_up` the first one is not
counted. Small sizes show the latency, the slope over the size the rate of the core's own port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, Measured, param


@dataclass(frozen=True)
class Parameters:
    direction: str = param("GM-UB", "which way", ("GM-UB", "UB-GM"))
    bytes: int = param(1024, "length of one copy, a multiple of 32")
    iterations: int = param(20, "copies that are counted")
    warm_up: bool = param(True, "one copy before them, so that all of them hit L2")


@asc.jit
def copies(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int], to_ub: asc.ConstExpr[bool],
           times: asc.ConstExpr[int]) -> None:  # fmt: skip
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    if to_ub:
        for _ in range(times):
            asc.data_copy(ub, x_gm, n)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(y_gm, ub, n)
    else:
        asc.data_copy(ub, x_gm, n)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        for _ in range(times):
            asc.data_copy(y_gm, ub, n)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def per_copy(run: Run, direction: str, iterations: int) -> dict[str, Any]:
    """ns from the start of the first counted copy to the end of the last, over their number."""
    c = run.columns
    paths = [i for i, op in enumerate(c.ops) if op.path == direction]
    rows = np.flatnonzero(np.isin(c.op, paths) & (c.kind == 0))
    counted = rows[-iterations:]  # a warm-up copy comes first
    ticks = int(c.end[counted[-1]] - c.start[counted[0]])
    return {"per_copy_ns": ticks / TICKS_PER_CYCLE / run.card.clock_mhz * 1e3 / iterations}


# Ascend910_9362 at 1.65 GHz, 20 copies: ns per copy by bytes.
_PUBLISHED = {
    "GM-UB": {
        32: 129.0, 64: 109.0, 128: 117.0, 256: 122.0, 512: 125.0, 1024: 127.7, 2048: 126.5, 4096: 139.0, 8192: 149.5,
        16384: 186.0, 32768: 276.5, 65536: 429.5, 98304: 586.0, 131072: 742.0, 163840: 892.0, 196608: 1042.0,
    },
    "UB-GM": {1024: 141.0, 4096: 156.0, 16384: 195.0, 32768: 289.0, 65536: 453.0, 131072: 809.0},
}  # fmt: skip


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x[i] = i in float32. Raises ConfigError for a length that is no multiple of 32 or not positive counts."""
    if p.bytes < 32 or p.bytes % 32:
        raise ConfigError("copies are whole blocks", field="bytes", value=p.bytes, allowed="multiples of 32, >= 32")
    if p.iterations < 1:
        raise ConfigError("at least one copy is counted", field="iterations", value=p.iterations, allowed=">= 1")
    n = p.bytes // 4
    times = p.iterations + (1 if p.warm_up else 0)
    constants = (n, p.direction == "GM-UB", times)
    value = _PUBLISHED[p.direction].get(p.bytes)
    fits = card.soc == "Ascend910_9362" and card.clock_mhz == 1650 and p.iterations == 20
    measured = (Measured("metrics.per_copy_ns", value, "ns"),) if value is not None and fits else ()

    def metrics(run: Run) -> dict[str, Any]:
        return per_copy(run, p.direction, p.iterations)

    if not data:
        spec = GmSpec((n,), asc.float32)
        return Job(copies, (spec, spec, *constants), 1, dict(vars(p)), metrics=metrics, measured=measured)
    x = np.arange(n, dtype=np.float32)
    return Job(copies, (x, np.zeros_like(x), *constants), 1, dict(vars(p)), metrics=metrics, measured=measured,
               expect=lambda args: np.array_equal(args[0], args[1]))  # fmt: skip
