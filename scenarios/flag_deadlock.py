"""A kernel that never ends, and why: a wait that nobody sets, or pipes that wait for each other in a circle.

The kernel streams y = 2 x through one buffer in UB. In its right form (`form=right`) the buffer is declared free before the
loop (V_MTE2 and MTE3_V are set once, and taken once behind the loop). The wrong forms stop for ever, which is reported as a
deadlock with the chain of waits:

cause=cycle   nothing declares the buffer free: MTE2 waits for V_MTE2, which V sets behind its work, for which it waits for
              MTE2_V, which MTE2 sets behind its load.
cause=unset   V waits for an event id that nobody sets.
cause=cores   core 0 leaves before the SyncAll in which the others wait for it (A2, A3, Atlas 350).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    form: str = param("wrong", "right: it ends; wrong: it does not", ("right", "wrong"))
    cause: str = param("cycle", "what is wrong with the wrong form", ("cycle", "unset", "cores"))
    n: int = param(256, "elements of a tile, a multiple of 8")
    tiles: int = param(3, "tiles of a core")


@asc.jit
def stream(x: Any, y: Any, p: Any, primed: bool, ident: int) -> None:
    """One core's tiles; V waits for its loads on event `ident`, which MTE2 sets as 0."""
    loaded = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, p.n)
    result = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, p.n * 4, p.n)
    if primed:
        asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.MTE3_V, 0)
    for t in range(p.tiles):
        asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.data_copy(loaded, x[t * p.n], p.n)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, ident)
        asc.wait_flag(asc.HardEvent.MTE3_V, 0)
        asc.muls(result, loaded, 2.0, p.n)
        asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(y[t * p.n], result, p.n)
        asc.set_flag(asc.HardEvent.MTE3_V, 0)
    if primed:
        asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.wait_flag(asc.HardEvent.MTE3_V, 0)


@asc.jit
def one_core(x: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    wrong = p.cause if p.form == "wrong" else ""
    stream(x_gm, y_gm, p, wrong != "cycle", 1 if wrong == "unset" else 0)


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def two_cores(x: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    core = int(asc.get_block_idx())
    x_gm.set_global_buffer(x + core * p.tiles * p.n)
    y_gm.set_global_buffer(y + core * p.tiles * p.n)
    stream(x_gm, y_gm, p, True, 0)
    if p.form == "right" or core > 0:
        asc.sync_all()


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x counts from 0. cause=cores runs on two vector cores, the others on one.

    Raises UnsupportedError for cause=cores on cards without SyncAll, ConfigError for sizes that do not fit. The run of a wrong
    form raises DeadlockError.
    """
    blocks = 2 if p.cause == "cores" else 1
    if blocks > 1 and not card.ids("sync.sync_all_ids"):
        raise UnsupportedError("this card has no SyncAll", field="cause", value=p.cause, allowed="cycle, unset",
                               card=card.name)  # fmt: skip
    most = int(card.value("buffers.UB.size")) // 64 * 8
    if not 8 <= p.n <= most or p.n % 8:
        raise ConfigError("n does not fit", field="n", value=p.n, allowed=f"multiples of 8, 8..{most}")
    if p.tiles < 1:
        raise ConfigError("there is nothing to do", field="tiles", value=p.tiles, allowed=">= 1")
    kernel = two_cores if blocks > 1 else one_core
    shape = (blocks * p.tiles, p.n)
    if not data:
        spec = GmSpec(shape, asc.float32)
        return Job(kernel, (spec, spec, p), blocks, dict(vars(p)))
    x = np.arange(blocks * p.tiles * p.n, dtype=np.float32).reshape(shape)

    def expect(args: tuple[Any, ...]) -> bool:
        return np.array_equal(args[1], 2 * args[0])

    return Job(kernel, (x, np.zeros_like(x), p), blocks, dict(vars(p)), expect=expect)
