"""One core fills y with zeros, then all cores add to it in GM: without the SyncAll between the two, and with it (`drop=false`).

y holds rubbish at the start. The last core stores zeros over it tile by tile, then every core adds its number to all of y by
MTE3 stores that accumulate (SetAtomicAdd). So that the cores do not crowd one address, each begins at a tile of its own. Without
the SyncAll additions land before the zeros do and are wiped out: wrong numbers in every run, the more so as the last core starts
last. A2, A3, Atlas 350.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    drop: bool = param(True, "leave the SyncAll out")
    cores: int = param(4, "vector cores")
    tile: int = param(512, "elements of one store, a multiple of 8")
    tiles: int = param(8, "tiles of y")


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def add_up(y: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    gm = asc.GlobalTensor()
    gm.set_global_buffer(y)
    core = int(asc.get_block_idx())
    zeros = asc.LocalTensor(y.dtype, asc.TPosition.VECOUT, 0, p.tile)
    number = asc.LocalTensor(y.dtype, asc.TPosition.VECOUT, p.tile * 4, p.tile)
    if core == p.cores - 1:
        asc.duplicate(zeros, 0.0, p.tile)
    asc.duplicate(number, float(core + 1), p.tile)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    if core == p.cores - 1:
        for t in range(p.tiles):
            asc.data_copy(gm[t * p.tile], zeros, p.tile)
        if p.drop:
            asc.pipe_barrier(asc.PipeID.PIPE_MTE3)  # it keeps its own order
    if not p.drop:
        asc.sync_all()  # y is zero everywhere
    asc.set_atomic_add(asc.float32)
    for step in range(p.tiles):
        t = (core * p.tiles // p.cores + step) % p.tiles
        asc.data_copy(gm[t * p.tile], number, p.tile)
    asc.set_atomic_none()


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Every element of y becomes 1 + 2 + ... + cores.

    Raises UnsupportedError for cards without SyncAll, ConfigError for sizes that do not fit, CapacityError for too many cores.
    """
    if not card.ids("sync.sync_all_ids"):
        raise UnsupportedError("this card has no SyncAll", field="card", value=card.name, card=card.name)
    most = int(card.value("buffers.UB.size")) // 64 * 8
    if not 8 <= p.tile <= most or p.tile % 8:
        raise ConfigError("tile does not fit", field="tile", value=p.tile, allowed=f"multiples of 8, 8..{most}")
    if p.tiles < 1:
        raise ConfigError("there is nothing to do", field="tiles", value=p.tiles, allowed=">= 1")
    if not 2 <= p.cores <= card.vectors:
        raise CapacityError("no such number of cores", field="cores", value=p.cores, allowed=f"2..{card.vectors}",
                            card=card.name)  # fmt: skip
    shape = (p.tiles, p.tile)
    if not data:
        return Job(add_up, (GmSpec(shape, asc.float32), p), p.cores, dict(vars(p)))
    total = p.cores * (p.cores + 1) // 2

    def expect(args: tuple[Any, ...]) -> bool:
        return bool((args[0] == total).all())

    def show(args: tuple[Any, ...]) -> str:
        return f"sums by tile (should be {total}): {np.unique(args[0], axis=1)[:, 0].tolist()}"

    return Job(add_up, (np.full(shape, -1000.0, np.float32), p), p.cores, dict(vars(p)), expect=expect, show=show)
