"""Many NDDMA reads of input that nobody rewrites, without a single nd_dma_dci: right, and nothing to report (Atlas 350).

All cores transpose one matrix, each the same one, tile by tile: columns of it that share lines with those of the tile before,
so that most look-ups hit lines filled by an earlier copy. That is what most kernels do that use NDDMA. A check that asks for
nd_dma_dci because it is absent would be wrong here: no line is older than a store to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    rows: int = param(32, "rows of the matrix, a multiple of 8")
    cols: int = param(32, "its columns")
    tile: int = param(8, "columns of one NDDMA copy, a divisor of cols")
    passes: int = param(2, "how often each core transposes the matrix")
    cores: int = param(2, "vector cores, each with a result of its own")


@asc.jit
def transposes(x: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y + int(asc.get_block_idx()) * p.passes * p.rows * p.cols)
    size = p.rows * p.tile
    ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, k * size * 4, size) for k in range(2)]
    turn = asc.NdDmaParams(
        asc.NdDmaLoopInfo(loop_src_stride=(p.cols, 1), loop_dst_stride=(1, p.rows), loop_size=(p.rows, p.tile),
                          loop_lp_size=(0, 0), loop_rp_size=(0, 0)), 0)  # fmt: skip
    tiles = p.cols // p.tile
    steps = tiles * p.passes
    for step in range(steps):
        k = step % 2
        if step > 1:
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, k)  # this half of UB has been stored
        asc.data_copy(ub[k], x_gm[step % tiles * p.tile], turn)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, k)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, k)
        asc.data_copy(y_gm[step * size], ub[k], size)
        if step + 2 < steps:
            asc.set_flag(asc.HardEvent.MTE3_MTE2, k)


def lookups(run: Run) -> dict[str, Any]:
    """Look-ups in the NDDMA caches of all cores, in lines."""
    counters = run.columns.counters
    return {name: int(counters.get(f"nddma_{name}", 0)) for name in ("hit", "miss", "stale_hit")}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x counts from 0. y is [core, pass, column, row].

    Raises UnsupportedError on cards without NDDMA, ConfigError for sizes that do not fit, CapacityError for too many cores.
    """
    if not card.has("nddma.line"):
        raise UnsupportedError("this card has no NDDMA (only Atlas 350 has)", field="card", value=card.name,
                               card=card.name)  # fmt: skip
    for name, unit in (("rows", 8), ("cols", 1), ("tile", 1), ("passes", 1)):
        value = getattr(p, name)
        if value < unit or value % unit:
            raise ConfigError(
                f"{name} does not fit", field=name, value=value, allowed=f"multiples of {unit}, >= {unit}"
            )
    if p.cols % p.tile:
        raise ConfigError("tiles are equally wide", field="tile", value=p.tile, allowed=f"divisors of {p.cols}")
    if 2 * p.rows * p.tile * 4 > int(card.value("buffers.UB.size")):
        raise ConfigError("two tiles do not fit UB", field="tile", value=p.tile, allowed="less of rows x tile")
    if not 1 <= p.cores <= card.vectors:
        raise CapacityError("more cores than the card has", field="cores", value=p.cores, allowed=f"1..{card.vectors}",
                            card=card.name)  # fmt: skip
    shapes = ((p.rows, p.cols), (p.cores, p.passes, p.cols, p.rows))
    if not data:
        specs = tuple(GmSpec(shape, asc.float32) for shape in shapes)
        return Job(transposes, (*specs, p), p.cores, dict(vars(p)), metrics=lookups)
    x = np.arange(p.rows * p.cols, dtype=np.float32).reshape(shapes[0])

    def expect(args: tuple[Any, ...]) -> bool:
        return bool((args[1] == args[0].T).all())

    args = (x, np.zeros(shapes[1], np.float32), p)
    return Job(transposes, args, p.cores, dict(vars(p)), metrics=lookups, expect=expect)
