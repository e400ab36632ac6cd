"""Nothing but copies from GM into UB or L1: issue cost of small tiles, memory rate of large ones, L2 reuse, shared addresses.

A half matrix of M rows and N columns is cut into tiles of tileM x tileN. Into UB a tile is one data_copy_pad of tileM rows,
into L1 one ND2NZ copy. Every copy goes to local address 0 and nothing waits for anything: the run shows what the paths can
do, not a result. Orders: `once` every core its own rows; `repeat_whole` its rows four times over; `repeat_slices` four
column slices, each four times over; `same_address` every core the whole matrix in the same order; `rotated` every core the
whole matrix, beginning at its own slab.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, Measured, param

SHORT_SHARE = 4
"""By how much a shortened run that reads its bytes again is smaller."""
SHORT_COPIES = 4096
"""About what a shortened run may take."""
ORDERS = ("once", "repeat_whole", "repeat_slices", "same_address", "rotated")
REPEATS = 4


@dataclass(frozen=True)
class Parameters:
    dst: str = param("UB", "where to: vector cores (UB) or cube cores (L1) take part", ("UB", "L1"))
    M: int = param(768, "rows")
    N: int = param(768, "columns")
    tileM: int = param(16, "rows of a tile")  # noqa: N815  the published name
    tileN: int = param(256, "columns of a tile")  # noqa: N815
    order: str = param("once", "which core reads what, see above", ORDERS)
    l2: str = param("normal", "L2 hint of the matrix", ("normal", "disable"))
    blocks: int = param(0, "cores; 0: all of the card")


@dataclass(frozen=True)
class Walk:
    """What one core does: for every slice, `repeats` times, the row tiles first, first + 1 ... (modulo `total`)."""

    m: int
    n: int
    tile_m: int
    tile_n: int
    slices: int
    repeats: int
    whole: bool
    """Every core reads all rows."""
    rotated: bool

    def slab(self, core: int, cores: int) -> list[tuple[int, int]]:
        """(first row, rows) of the tiles of the rows that `core` owns; the first cores own one more where M does not divide."""
        share, rest = divmod(self.m, cores)
        first = core * share + min(core, rest)
        end = first + share + (core < rest)
        return [(row, min(self.tile_m, end - row)) for row in range(first, end, self.tile_m)]

    def row_tiles(self, core: int, cores: int) -> list[tuple[int, int]]:
        """(first row, rows) of the tiles that `core` reads, in order."""
        if not self.whole:
            return self.slab(core, cores)
        start = core if self.rotated else 0
        return [tile for i in range(cores) for tile in self.slab((start + i) % cores, cores)]


def _source(x: asc.GlobalAddress, bypass: bool) -> asc.GlobalTensor:
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    if bypass:
        x_gm.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_DISABLE)
    return x_gm


def _stream(walk: Walk, x_gm: asc.GlobalTensor, copy: Callable[..., None], local: asc.LocalTensor,
            struct: Callable[[int, int], Any]) -> None:  # fmt: skip
    """All copies of this core: `copy(local, tile in GM, struct(rows, columns))`, tile after tile, tails included."""
    width = walk.n // walk.slices
    rest = width % walk.tile_n
    tiles = walk.row_tiles(int(asc.get_block_idx()), int(asc.get_block_num()))
    heights = {rows for _, rows in tiles}
    full = {rows: struct(rows, walk.tile_n) for rows in heights}
    last = {rows: struct(rows, rest) for rows in heights}
    for part in range(walk.slices):
        for _ in range(walk.repeats):
            for row, rows in tiles:
                line = x_gm[row * walk.n + part * width]
                params = full[rows]
                for column in range(0, width - rest, walk.tile_n):
                    copy(local, line[column], params)
                if rest:
                    copy(local, line[width - rest], last[rows])


@asc.jit
def into_ub(x: asc.GlobalAddress, walk: asc.ConstExpr, bypass: asc.ConstExpr[bool]) -> None:
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, walk.tile_m * ((walk.tile_n + 15) // 16 * 16))
    no_pad = asc.DataCopyPadExtParams(x.dtype)
    _stream(walk, _source(x, bypass), lambda dst, src, params: asc.data_copy_pad(dst, src, params, no_pad), ub,
            lambda rows, columns: asc.DataCopyExtParams(rows, columns * 2, (walk.n - columns) * 2, 0))  # fmt: skip


@asc.jit
def into_l1(x: asc.GlobalAddress, walk: asc.ConstExpr, bypass: asc.ConstExpr[bool]) -> None:
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, walk.tile_m * ((walk.tile_n + 15) // 16 * 16))
    _stream(walk, _source(x, bypass), asc.data_copy, l1,
            lambda rows, columns: asc.Nd2NzParams(1, rows, columns, 0, walk.n, walk.tile_m, 1, 0))  # fmt: skip


# (SoC, dst, M, N, tileM, tileN, order, hint) -> us: task duration, then MTE2 (repeated runs: the time of a core).
_PUBLISHED: dict[tuple[Any, ...], tuple[float, ...]] = {
    ("Ascend910B1", "UB", 12288, 12288, 1, 64, "once", "normal"): (564.84, 548.161),
    ("Ascend910B1", "UB", 12288, 12288, 64, 1024, "once", "normal"): (215.82, 202.657),
    ("Ascend950PR_9589", "UB", 12288, 12288, 1, 64, "once", "normal"): (884.06, 881.13),
    ("Ascend950PR_9589", "UB", 12288, 12288, 64, 1024, "once", "normal"): (188.52, 185.66),
    ("Ascend950PR_9589", "UB", 12288, 12287, 64, 1024, "once", "normal"): (192.07, 189.16),
    ("Ascend910B1", "L1", 12288, 12288, 64, 64, "once", "normal"): (300.7, 283.508),
    ("Ascend910B1", "L1", 12288, 12287, 64, 256, "once", "normal"): (438.76, 422.515),
    ("Ascend950PR_9589", "L1", 12288, 12288, 64, 64, "once", "normal"): (245.1, 241.56),
    ("Ascend910B1", "UB", 12288, 12288, 64, 1024, "repeat_whole", "normal"): (828.06, 816.05),
    ("Ascend910B1", "UB", 12288, 12288, 64, 1024, "repeat_slices", "normal"): (365.74, 354.56),
    ("Ascend950PR_9589", "L1", 12288, 12288, 64, 1024, "repeat_whole", "normal"): (732.809, 732.11),
    ("Ascend950PR_9589", "L1", 12288, 12288, 64, 1024, "repeat_slices", "normal"): (390.347, 389.64),
    ("Ascend910B1", "UB", 6144, 512, 128, 64, "same_address", "disable"): (539.42, 474.717),
    ("Ascend910B1", "UB", 6144, 512, 128, 64, "rotated", "disable"): (328.88, 307.38),
    ("Ascend950PR_9589", "L1", 8192, 512, 256, 64, "same_address", "disable"): (369.99, 366.24),
    ("Ascend950PR_9589", "L1", 8192, 512, 256, 64, "rotated", "disable"): (187.35, 185.03),
}


def _cores(card: Card, p: Parameters) -> int:
    return p.blocks or (card.vectors if p.dst == "UB" and not card.coupled else card.cubes)


def size(card: Card, p: Parameters) -> int:
    """Copies of all cores."""
    cores, slices = _cores(card, p), REPEATS if p.order == "repeat_slices" else 1
    times = cores if p.order in ("same_address", "rotated") else REPEATS if p.order.startswith("repeat") else 1
    return cores * -(-p.M // cores // p.tileM) * slices * -(-p.N // slices // p.tileN) * times


def short(card: Card, p: Parameters) -> Parameters:
    """Fewer rows for every core where it reads its own; a quarter where it reads them again, with a quarter of L2
    (`short_card`); where all cores read all, smaller tiles and slabs, and a quarter of the columns."""
    cores, shared = _cores(card, p), p.order in ("same_address", "rotated")
    if p.order == "once":
        rows = cores * p.tileM * max(SHORT_COPIES // (cores * -(-p.N // p.tileN)), 1)
    else:
        rows = p.M // SHORT_SHARE
    tile, columns = (-(-p.tileM // SHORT_SHARE), -(-p.N // SHORT_SHARE)) if shared else (p.tileM, p.N)
    return replace(p, M=rows, N=columns, tileM=tile) if cores * tile <= rows < p.M else p


def short_card(card: Card, p: Parameters) -> dict[str, object]:
    """What a repeated run finds in L2 follows from the size of both."""
    return {"l2_bytes": card.l2_bytes // SHORT_SHARE} if p.order.startswith("repeat") else {}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """No expectation: the copies overwrite one another. Raises ConfigError for sizes below 1 and slices that differ,
    UnsupportedError for an L2 hint on a card without it; the kernel's calls raise for tiles that do not fit."""
    for name in ("M", "N", "tileM", "tileN"):
        if getattr(p, name) < 1:
            raise ConfigError(f"{name} must be positive", field=name, value=getattr(p, name), allowed=">= 1")
    if p.l2 != "normal" and card.npu_arch == 3002:
        raise UnsupportedError("this card does not offer L2 hints", field="l2", value=p.l2, card=card.name)
    kind = "aiv" if p.dst == "UB" and not card.coupled else "aic"
    blocks = _cores(card, p)
    slices = REPEATS if p.order == "repeat_slices" else 1
    if p.N % slices:
        raise ConfigError(f"N must divide into {slices} equal slices", field="N", value=p.N,
                          allowed=f"multiples of {slices}", card=card.name)  # fmt: skip
    repeats = REPEATS if p.order.startswith("repeat") else 1
    whole = p.order in ("same_address", "rotated")
    walk = Walk(p.M, p.N, p.tileM, min(p.tileN, p.N // slices), slices, repeats, whole, p.order == "rotated")
    full = blocks == (card.vectors if kind == "aiv" else card.cubes)
    values = _PUBLISHED.get((card.soc, p.dst, p.M, p.N, p.tileM, p.tileN, p.order, p.l2), ()) if full else ()
    metrics = ("time_us", "core_time_us" if repeats > 1 else f"pipes.{kind}.MTE2.time_us")
    measured = tuple(Measured(metric, value, "us") for metric, value in zip(metrics, values, strict=False))
    x = np.ones((p.M, p.N), np.float16) if data else GmSpec((p.M, p.N), asc.float16)
    return Job(into_ub if p.dst == "UB" else into_l1, (x, walk, p.l2 == "disable"), blocks,
               {**vars(p), "blocks": blocks}, measured=measured)  # fmt: skip
