"""Any NDDMA copy, from its loops on the command line: checked element by element, and what it costs (Atlas 350).

The lists are those of NdDmaLoopInfo, the innermost loop first, strides in elements: position p of a loop runs over left pad,
data and right pad; the destination is the sum of p * loop_dst_stride, the source that of (p - left pad) * loop_src_stride.
The default turns a 64 x 32 matrix. `n` calls of the same copy follow each other without a wait: n=1 shows one alone. `dci`
empties the core's NDDMA cache before each of them, `warm` runs the copy once before, not counted, so that L2 (and without
`dci` the NDDMA cache too) has what fits. Every number of the NDDMA price is assumed: see `aicore-sim cards atlas_350`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, param

BLOCK = 32
LARGEST_SOURCE, MOST_POSITIONS = 1 << 28, 1 << 20
"""Bytes of GM that a copy may span here, and positions that its loops may have (UB holds 2^18 bytes)."""
_TYPES: dict[str, tuple[Any, Any, int]] = {
    "int8": (asc.int8, np.int8, 128), "half": (asc.float16, np.float16, 2048), "float": (asc.float32, np.float32, 1 << 24),
    "int32": (asc.int32, np.int32, 1 << 31), "int64": (asc.int64, np.int64, 1 << 40),
}  # fmt: skip
"""Type of the kernel, of numpy, and the first number that is not counted exactly."""


@dataclass(frozen=True)
class Parameters:
    loop_size: tuple[int, ...] = param((64, 32), "elements of every loop, innermost first, 1 to 5 of them")
    loop_src_stride: tuple[int, ...] = param((32, 1), "source strides, elements")
    loop_dst_stride: tuple[int, ...] = param((1, 64), "destination strides, elements")
    loop_lp_size: tuple[int, ...] = param((), "left pads; none: 0 everywhere")
    loop_rp_size: tuple[int, ...] = param((), "right pads; none: 0 everywhere")
    value: int = param(0, "what the padding is filled with")
    dtype: str = param("float", "type of the elements", tuple(_TYPES))
    n: int = param(1, "calls that are counted")
    dci: bool = param(True, "nd_dma_dci before every counted call")
    warm: bool = param(False, "one call before them")


@asc.jit
def pattern(x: asc.GlobalAddress, y: asc.GlobalAddress, params: asc.ConstExpr, p: asc.ConstExpr,
            elements: asc.ConstExpr[int]) -> None:  # fmt: skip
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, elements)
    if p.warm:
        asc.data_copy(ub, x_gm, params)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    for _ in range(p.n):
        if p.dci:
            asc.nd_dma_dci()
        asc.data_copy(ub, x_gm, params)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(y_gm, ub, elements)


@dataclass(frozen=True)
class Loops:
    """The five lists, equally long."""

    size: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(destination, source, is data) of every position of the loops."""
        extent = [sum(three) for three in zip(self.left, self.size, self.right, strict=True)]
        at = np.indices(extent).reshape(len(extent), -1)
        inner = at - np.array(self.left)[:, None]
        inside = ((inner >= 0) & (inner < np.array(self.size)[:, None])).all(axis=0)
        return np.array(self.dst) @ at, np.array(self.src) @ inner, inside

    def source_span(self) -> int:
        return 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.src, strict=True))

    def result_span(self) -> int:
        wide = zip(self.left, self.size, self.right, self.dst, strict=True)
        return 1 + sum((left + size + right - 1) * stride for left, size, right, stride in wide)


def _checked(p: Parameters, card: Card, nbytes: int) -> Loops:
    """The loops, pads filled in; what the kernel's call cannot check before memory is made for it."""
    depth = len(p.loop_size)
    columns = []
    for name in ("loop_size", "loop_src_stride", "loop_dst_stride", "loop_lp_size", "loop_rp_size"):
        column = getattr(p, name) or ((0,) * depth if name.endswith("p_size") else ())
        if not 1 <= len(column) <= 5 or len(column) != depth:
            raise ConfigError("every loop needs its number", field=name, value=column, allowed=f"{depth} of 1 to 5 numbers")
        least = 1 if name == "loop_size" else 0
        if min(column) < least:
            raise ConfigError(f"{name} is too small", field=name, value=column, allowed=f">= {least}")
        columns.append(tuple(column))
    loops = Loops(*columns)
    positions = math.prod(sum(three) for three in zip(loops.left, loops.size, loops.right, strict=True))
    if positions > MOST_POSITIONS:
        raise ConfigError("the loops have too many positions for a scenario", field="loop_size", value=p.loop_size,
                          allowed=f"up to {MOST_POSITIONS} with the pads")  # fmt: skip
    if loops.source_span() * nbytes > LARGEST_SOURCE:
        raise ConfigError("the source spans too much memory for a scenario", field="loop_src_stride",
                          value=p.loop_src_stride, allowed=f"spans up to {LARGEST_SOURCE} bytes")  # fmt: skip
    room = int(card.value("buffers.UB.size"))
    if loops.result_span() * nbytes > room:
        raise ConfigError("the result does not fit UB", field="loop_dst_stride", value=p.loop_dst_stride,
                          allowed=f"spans up to {room} bytes", card=card.name)  # fmt: skip
    return loops


def copy_costs(run: Run, p: Parameters) -> dict[str, Any]:
    """Cycles from the start of the first counted copy to the end of the last, over their number, and its traffic.

    `runs` are contiguous on both sides in the innermost loop; hits and misses are those of one call in the NDDMA cache, in
    lines (where calls differ, their mean).
    """
    c = run.columns
    copies = [i for i, op in enumerate(c.ops) if op.through == "nddma"]
    rows = np.flatnonzero(np.isin(c.op, copies) & (c.kind == 0))
    counted = rows[-p.n :]
    cycles = int(c.end[counted[-1]] - c.start[counted[0]]) / TICKS_PER_CYCLE
    op = c.ops[int(c.op[counted[0]])]
    # Every call looks up the same lines; those that missed are what it left to L2.
    looked_up = (c.counters["nddma_hit"] + c.counters["nddma_miss"]) / len(rows)
    asked = c.gm[np.isin(c.gm[:, 0], counted)][:, 5:7].sum()
    missed = int(asked) / run.card.value("nddma.line") / p.n
    moved = op.cost.nbytes
    return {"per_call_cycles": cycles / p.n, "bytes": moved, "runs": op.cost.rows, "cache_hits": looked_up - missed,
            "cache_misses": missed, "bytes_per_cycle": moved * p.n / cycles}  # fmt: skip


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x counts from 0 as far as its type is exact. Where the loops write a place twice its content is not defined and not
    compared.

    Raises UnsupportedError on cards without NDDMA, ConfigError for lists that do not fit each other, sizes below 1 and spans
    that are too large; the API refuses the rest.
    """
    if not card.has("nddma.line"):
        raise UnsupportedError("this card has no NDDMA (only Atlas 350 has)", field="card", value=card.name,
                               card=card.name)  # fmt: skip
    if p.n < 1:
        raise ConfigError("at least one call is counted", field="n", value=p.n, allowed=">= 1")
    dtype, numpy_type, exact = _TYPES[p.dtype]
    nbytes = dtype.sizeof()
    loops = _checked(p, card, nbytes)
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(loops.src, loops.dst, loops.size, loops.left, loops.right), p.value)
    source, result = loops.source_span(), -(-loops.result_span() * nbytes // BLOCK) * BLOCK // nbytes
    given = {**vars(p), "loop_lp_size": loops.left, "loop_rp_size": loops.right}

    def metrics(run: Run) -> dict[str, Any]:
        return copy_costs(run, p)

    if not data:
        specs = (GmSpec((source,), dtype), GmSpec((result,), dtype))
        return Job(pattern, (*specs, params, p, result), 1, given, metrics=metrics)

    def expect(args: tuple[Any, ...]) -> bool:
        dst, src, inside = loops.places()
        found, writes = np.unique(dst, return_counts=True)
        once = np.isin(dst, found[writes == 1])
        wanted = np.full(dst.size, p.value, numpy_type)
        wanted[inside] = args[0][src[inside]]
        return np.array_equal(args[1][dst[once]], wanted[once])

    x = (np.arange(source, dtype=np.int64) % exact).astype(numpy_type)
    return Job(pattern, (x, np.zeros(result, numpy_type), params, p, result), 1, given, metrics=metrics, expect=expect)
