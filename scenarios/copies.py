"""Separate copies from GM on one core: n tiles, nothing read twice, streamed or one at a time, from L2 or from memory.

GM is a matrix whose rows lie `row_pitch` bytes apart. A copy moves a tile of `rows` rows of `row_bytes` bytes; the walk goes
along the rows as long as whole tiles fit into the pitch, then on to the next `rows` rows: with `row_pitch` = `row_bytes` the
copies are one contiguous stretch. Into UB a tile is one data_copy where rows and pitch are whole blocks of 32 B, else one
data_copy_pad; into L1 one ND2NZ copy of half. Local places rotate as long as the buffer has room. With `warm` the same
walk runs twice and only the second one counts, so that what fits L2 is in L2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, param

BLOCK = 32


@dataclass(frozen=True)
class Parameters:
    path: str = param("GM-UB", "into UB of a vector core, or by ND2NZ into L1 of a cube core", ("GM-UB", "GM-L1"))
    n: int = param(16, "copies that are counted")
    rows: int = param(16, "rows of one copy")
    row_bytes: int = param(512, "length of a row, even")
    row_pitch: int = param(0, "from one row to the next in GM, even; 0: row_bytes")
    barrier: bool = param(False, "PIPE_ALL after every copy")
    warm: bool = param(False, "the same walk once before, not counted")


@dataclass(frozen=True)
class Walk:
    """`starts` of the tiles in GM and `slots` places for them in the local buffer; `place` is the length of one, elements."""

    starts: tuple[int, ...]
    slots: int
    place: int
    passes: int
    barrier: bool


def _copy_all(x_gm: asc.GlobalTensor, local: asc.LocalTensor, walk: Walk, copy: Any) -> None:
    for _ in range(walk.passes):
        for i, start in enumerate(walk.starts):
            copy(local[i % walk.slots * walk.place], x_gm[start])
            if walk.barrier:
                asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def into_ub(x: asc.GlobalAddress, y: asc.GlobalAddress, walk: asc.ConstExpr, params: asc.ConstExpr,
            out: asc.ConstExpr) -> None:  # fmt: skip
    """y gets the last tile, rows padded to whole blocks."""
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, walk.slots * walk.place)
    if isinstance(params, asc.DataCopyParams):
        _copy_all(x_gm, ub, walk, lambda dst, src: asc.data_copy(dst, src, params))
    else:
        no_pad = asc.DataCopyPadExtParams(x.dtype)
        _copy_all(x_gm, ub, walk, lambda dst, src: asc.data_copy_pad(dst, src, params, no_pad))
    asc.data_copy(y_gm, ub[(len(walk.starts) - 1) % walk.slots * walk.place], out)


@asc.jit
def into_l1(x: asc.GlobalAddress, walk: asc.ConstExpr, params: asc.ConstExpr) -> None:
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, walk.slots * walk.place)
    _copy_all(x_gm, l1, walk, lambda dst, src: asc.data_copy(dst, src, params))


def copy_times(run: Run, p: Parameters) -> dict[str, Any]:
    """From the start of the first counted copy to the end of the last, over their number; share of the bytes that hit L2."""
    c = run.columns
    counted = np.flatnonzero((c.pipe == int(Pipe.MTE2)) & (c.kind == 0))[-p.n :]
    cycles = int(c.end[counted[-1]] - c.start[counted[0]]) / TICKS_PER_CYCLE
    ns = cycles / run.card.clock_mhz * 1e3
    of_them = c.gm[np.isin(c.gm[:, 0], counted)]
    hit, missed = int(of_them[:, 5].sum()), int(of_them[:, 6].sum())
    return {"per_copy_ns": ns / p.n, "per_copy_cycles": cycles / p.n, "gbps": p.n * p.rows * p.row_bytes / ns,
            "l2_hit_share": hit / (hit + missed)}  # fmt: skip


def tile_starts(p: Parameters, pitch: int) -> tuple[int, ...]:
    """Byte offset of every tile in GM: along the rows first, then down."""
    across = max(pitch // p.row_bytes, 1)
    return tuple(i // across * p.rows * pitch + i % across * p.row_bytes for i in range(p.n))


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x[i] = i modulo 2048 in half; the last tile must come back from UB (nothing reads L1 back).

    The tile is compared where no copy can overtake another into its place: with `barrier`, or as long as UB holds all of them.
    Raises ConfigError for sizes below 1, odd lengths and a pitch shorter than a row; the calls raise UnsupportedError for a
    path that the card lacks, ParameterError and CapacityError for tiles that do not fit.
    """
    for name in ("n", "rows", "row_bytes"):
        if getattr(p, name) < 1:
            raise ConfigError(f"{name} must be positive", field=name, value=getattr(p, name), allowed=">= 1")
    pitch = p.row_pitch or p.row_bytes
    for name, value in (("row_bytes", p.row_bytes), ("row_pitch", pitch)):
        if value % 2:
            raise ConfigError("the elements are of two bytes", field=name, value=value, allowed="even numbers")
    if pitch < p.row_bytes:
        raise ConfigError("rows must not overlap", field="row_pitch", value=pitch, allowed=f">= row_bytes = {p.row_bytes}")
    starts = tile_starts(p, pitch)
    length = (starts[-1] + (p.rows - 1) * pitch + p.row_bytes) // 2
    padded = -(-p.row_bytes // BLOCK) * BLOCK
    to_ub = p.path == "GM-UB"
    high = p.rows if to_ub else -(-p.rows // 16) * 16
    room = int(card.value("buffers.UB.size" if to_ub else "buffers.L1.size"))
    slots = max(min(p.n, room // (high * padded)), 1)
    walk = Walk(tuple(start // 2 for start in starts), slots, high * padded // 2, 1 + p.warm, p.barrier)
    given = {**vars(p), "row_pitch": pitch}

    def metrics(run: Run) -> dict[str, Any]:
        return copy_times(run, p)

    x: Any = (np.arange(length) % 2048).astype(np.float16) if data else GmSpec((length,), asc.float16)
    if not to_ub:
        params = asc.Nd2NzParams(1, p.rows, p.row_bytes // 2, 0, pitch // 2, high, 1, 0)
        return Job(into_l1, (x, walk, params), 1, given, metrics=metrics)
    struct = (asc.DataCopyParams(p.rows, p.row_bytes // BLOCK, (pitch - p.row_bytes) // BLOCK, 0)
              if p.row_bytes % BLOCK == 0 and pitch % BLOCK == 0
              else asc.DataCopyExtParams(p.rows, p.row_bytes, pitch - p.row_bytes, 0))  # fmt: skip
    y: Any = np.zeros((p.rows, padded // 2), np.float16) if data else GmSpec((p.rows, padded // 2), asc.float16)
    out = asc.DataCopyParams(p.rows, padded // BLOCK, 0, 0)

    def expect(args: tuple[Any, ...]) -> bool:
        rows = args[0][starts[-1] // 2 + np.arange(p.rows)[:, None] * (pitch // 2) + np.arange(p.row_bytes // 2)]
        return np.array_equal(args[1][:, : p.row_bytes // 2], rows)

    return Job(into_ub, (x, y, walk, struct, out), 1, given, metrics=metrics,
               expect=expect if data and (p.barrier or slots == p.n) else None)  # fmt: skip
