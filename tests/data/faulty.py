"""y = 2 x in one UB buffer, with flags that can be left out.

Only for tests of `aicore-sim check`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.launch import GmSpec
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    n: int = param(2048, "elements of a tile")
    tiles: int = param(4, "tiles")
    drop: str = param("none", "the flag that is missing", ("none", "MTE2_V", "V_MTE3", "MTE3_MTE2", "all", "set"))


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int], tiles: asc.ConstExpr[int], drop: asc.ConstExpr[str]):  # type: ignore[no-untyped-def]
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, n)
    for i in range(tiles):
        asc.data_copy(ub, x_gm[i * n], n)
        if drop not in ("MTE2_V", "all", "set"):
            asc.set_flag(asc.HardEvent.MTE2_V, 0)
        if drop not in ("MTE2_V", "all"):
            asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.add(
            ub,
            ub, ub, n)  # fmt: skip
        if drop not in ("V_MTE3", "all"):
            asc.set_flag(asc.HardEvent.V_MTE3, 0)
            asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(y_gm[i * n], ub, n)
        if drop not in ("MTE3_MTE2", "all"):
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)


def build(card: Card, p: Parameters, data: bool) -> Job:
    if not data:
        spec = GmSpec((p.tiles * p.n,), asc.float32)
        return Job(double, (spec, spec, p.n, p.tiles, p.drop), 1, asdict(p))
    x = np.arange(1, p.tiles * p.n + 1, dtype=np.float32)
    y = np.zeros_like(x)
    return Job(double, (x, y, p.n, p.tiles, p.drop), 1, asdict(p), expect=lambda args: np.array_equal(args[1], 2 * x))
