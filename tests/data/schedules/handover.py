"""y = 2 x through UB, with every flag droppable; the load of the second tile is late enough by luck."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.scenario import Job, param

N = 512


@dataclass(frozen=True)
class Parameters:
    drop: str = param("none", "the pair of flags left out", ("none", "MTE2_V", "V_MTE3", "wait"))


@asc.jit
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    tile = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, N)
    out = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, 4 * N, N)
    busy = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 8 * N, 8 * N)
    asc.data_copy(tile, x_gm, N)
    if drop != "MTE2_V":
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
    for _ in range(20):
        asc.duplicate(busy, 0.0, 8 * N)
    if drop not in ("MTE2_V", "wait"):
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(out, tile, 2.0, N)
    if drop != "V_MTE3":
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, out, N)


def build(card: Card, p: Parameters, data: bool) -> Job:
    x, y = np.arange(1, N + 1, dtype=np.float32), np.zeros(N, np.float32)
    return Job(double, (x, y, p.drop), 1, vars(p), expect=lambda args: np.array_equal(args[1], 2 * args[0]))
