"""The smallest kernel: y = x + x on one vector core, with the two flags that every load and store need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    n: int = param(1024, "elements, a multiple of 8")


@asc.jit
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int]) -> None:
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    asc.data_copy(ub, x_gm, n)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)  # MTE2 has loaded: V may compute
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.add(ub, ub, ub, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)  # V has computed: MTE3 may store
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, ub, n)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x[i] = i in float32, so that every sum is exact. Raises ConfigError for an n of no whole blocks, else as the calls do."""
    if p.n < 8 or p.n % 8:
        raise ConfigError("hello: its copies are whole 32 B blocks", field="n", value=p.n, allowed="multiples of 8, >= 8")
    if not data:
        spec = GmSpec((p.n,), asc.float32)
        return Job(double, (spec, spec, p.n), 1, {"n": p.n})
    x = np.arange(p.n, dtype=np.float32)
    return Job(
        double, (x, np.zeros_like(x), p.n), 1, {"n": p.n}, expect=lambda args: np.array_equal(args[1], 2 * args[0])
    )
