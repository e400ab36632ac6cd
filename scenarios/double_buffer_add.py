"""z = x + y through two halves of UB on one vector core, every flag explicit and every pair of them droppable.

Each half has its own event id. `drop` leaves both the sets and the waits of one pair out:

MTE2_V   V adds before the loads have landed.
V_MTE2   the load of the tile after next overwrites inputs that V has not read.
V_MTE3   the store takes a result that V has not written.
MTE3_V   V overwrites a result that MTE3 has not stored.

All four give wrong numbers with the default sizes on every card: each result is stored several times and the inputs come out of
L2 from the second pass on, so that storing takes longest. Where loading does (copies=1) nobody is ever early enough for a
missing V_MTE2 or MTE3_V to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

HALVES = 2


@dataclass(frozen=True)
class Parameters:
    drop: str = param("none", "the pair of flags that is left out", ("none", "MTE2_V", "V_MTE2", "V_MTE3", "MTE3_V"))
    tile: int = param(4096, "elements of a tile, a multiple of 8")
    tiles: int = param(4, "tiles of x and y")
    passes: int = param(2, "how often the inputs are streamed; from the second time on they come out of L2")
    copies: int = param(4, "how often each result is stored, in different places")


class Flags:
    """set and wait of every pair but the dropped one."""

    def __init__(self, drop: str) -> None:
        self.drop = drop

    def set(self, event: Any, ident: int) -> None:
        if event.name != self.drop:
            asc.set_flag(event, ident)

    def wait(self, event: Any, ident: int) -> None:
        if event.name != self.drop:
            asc.wait_flag(event, ident)


@asc.jit
def add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    flags = Flags(p.drop)
    x_gm, y_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    n, size = p.tile, p.tile * 4
    x_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, k * size, n) for k in range(HALVES)]
    y_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, (HALVES + k) * size, n) for k in range(HALVES)]
    z_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, (2 * HALVES + k) * size, n) for k in range(HALVES)]
    for k in range(HALVES):  # both halves are free
        flags.set(asc.HardEvent.V_MTE2, k)
        flags.set(asc.HardEvent.MTE3_V, k)
    for step in range(p.passes * p.tiles):
        k, t = step % HALVES, step % p.tiles
        flags.wait(asc.HardEvent.V_MTE2, k)
        asc.data_copy(x_ub[k], x_gm[t * n], n)
        asc.data_copy(y_ub[k], y_gm[t * n], n)
        flags.set(asc.HardEvent.MTE2_V, k)
        flags.wait(asc.HardEvent.MTE2_V, k)
        flags.wait(asc.HardEvent.MTE3_V, k)
        asc.add(z_ub[k], x_ub[k], y_ub[k], n)
        flags.set(asc.HardEvent.V_MTE2, k)
        flags.set(asc.HardEvent.V_MTE3, k)
        flags.wait(asc.HardEvent.V_MTE3, k)
        for copy in range(p.copies):
            asc.data_copy(z_gm[(step * p.copies + copy) * n], z_ub[k], n)
        flags.set(asc.HardEvent.MTE3_V, k)
    for k in range(HALVES):  # take what nobody waited for
        flags.wait(asc.HardEvent.V_MTE2, k)
        flags.wait(asc.HardEvent.MTE3_V, k)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Whole numbers in float32, so that every sum is exact. z is [pass, tile, copy, element].

    Raises ConfigError for sizes that do not fit.
    """
    most = int(card.value("buffers.UB.size")) // (3 * HALVES * 32) * 8
    if not 8 <= p.tile <= most or p.tile % 8:
        raise ConfigError("tile does not fit", field="tile", value=p.tile, allowed=f"multiples of 8, 8..{most}")
    for name in ("tiles", "passes", "copies"):
        if getattr(p, name) < 1:
            raise ConfigError(f"{name} must be positive", field=name, value=getattr(p, name), allowed=">= 1")
    shapes = ((p.tiles, p.tile), (p.tiles, p.tile), (p.passes, p.tiles, p.copies, p.tile))
    if not data:
        return Job(add, (*(GmSpec(shape, asc.float32) for shape in shapes), p), 1, dict(vars(p)))
    rng = np.random.default_rng(3)
    x, y = (rng.integers(1, 1000, shape).astype(np.float32) for shape in shapes[:2])

    def expect(args: tuple[Any, ...]) -> bool:
        return bool((args[2] == (args[0] + args[1])[:, None]).all())

    return Job(add, (x, y, np.zeros(shapes[2], np.float32), p), 1, dict(vars(p)), expect=expect)
