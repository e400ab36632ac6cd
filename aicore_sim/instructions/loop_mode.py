"""Loop mode of 950: every copy between GM and UB runs in two more loops (spec api_semantics.md 9.5).

The registers hold until they are reset, one set for each direction. Each iteration is a copy of its own, with its own
padding and its own tail; all of them together are one instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import (
    GmTraffic,
    Op,
    Range,
    TransferEffect,
    cached_hash,
    camel,
    describe,
    movement,
    taken,
)
from aicore_sim.instructions.offer import check_offer
from aicore_sim.transfer import Copy, Runs, Step, Transfer, strided_copy, strided_fill, strided_runs

SET_API, RESET_API = "SetLoopModePara", "ResetLoopModePara"
GM_BITS, UB_BITS = 40, 21
COUNTED_BYTES = 1 << 22
"""Longest destination whose bytes are counted to find iterations that overlap."""


@dataclass(frozen=True)
class LoopModeParams:
    """loop1 is the inner loop. Sizes are iterations, strides bytes from the start of one to the start of the next."""

    loop1_size: int = 0
    loop2_size: int = 0
    loop1_src_stride: int = 0
    loop1_dst_stride: int = 0
    loop2_src_stride: int = 0
    loop2_dst_stride: int = 0

    __hash__ = cached_hash

    @property
    def times(self) -> int:
        return self.loop1_size * self.loop2_size


def register(params: LoopModeParams, to_ub: bool, card: Card, warnings: list[str]) -> LoopModeParams | None:
    """What SetLoopModePara leaves in the registers of one direction; None for one iteration of both loops (reset).

    Raises UnsupportedError on cards without loop mode, ParameterError for a field outside its range and for a stride in
    UB that is not whole blocks.
    """
    check_offer(card, SET_API, "", None)
    sizes: Range = (1, 2**21 - 1)
    gm, ub = (0, 2**GM_BITS - 1), (0, 2**UB_BITS - 1)
    src, dst = (gm, ub) if to_ub else (ub, gm)
    params = taken(
        SET_API, params,
        {"loop1_size": sizes, "loop2_size": sizes, "loop1_src_stride": src, "loop1_dst_stride": dst,
         "loop2_src_stride": src, "loop2_dst_stride": dst}, card, warnings,
    )  # fmt: skip
    side = "dst" if to_ub else "src"
    for loop in ("loop1", "loop2"):
        field = f"{loop}_{side}_stride"
        if getattr(params, field) % BLOCK_BYTES:
            raise ParameterError(f"{SET_API}: {field} ({camel(field)}) is in UB and counts whole blocks", field=field,
                                 value=getattr(params, field), allowed="multiples of 32 B", card=card.name)  # fmt: skip
    return params if params.times > 1 else None


def looped(op: Op, loop: LoopModeParams) -> Op:
    """`op`, a copy between GM and UB, run `loop2_size` x `loop1_size` times. Both operands must start at whole blocks."""
    assert isinstance(op.effect, TransferEffect) and isinstance(op.cost, GmTraffic)
    transfer = Transfer(tuple(step for one in op.effect.transfer.steps for step in _repeated(one, loop)))
    cost = replace(op.cost, nbytes=op.cost.nbytes * loop.times, rows=op.cost.rows * loop.times)
    warnings = [*op.warnings]
    if _overlaps(op.effect.transfer, transfer, loop):
        warnings.append("loop mode: destinations of different iterations overlap, their order is not defined")
    made = movement(op.api, op.pipe, op.path, transfer, cost, aligns=(BLOCK_BYTES, BLOCK_BYTES),
                    detail=f"{op.detail} loop mode {describe(loop)}".strip(), warnings=warnings)  # fmt: skip
    is_read = op.gm_operand == 1
    outer = (loop.loop2_src_stride, loop.loop1_src_stride) if is_read else (loop.loop2_dst_stride, loop.loop1_dst_stride)
    made.gm_runs = _runs(op.gm_runs, (loop.loop2_size, loop.loop1_size), outer)
    return made


def _repeated(step: Step, loop: LoopModeParams) -> tuple[Step, ...]:
    shape = (loop.loop2_size, loop.loop1_size, *step.shape)
    dst = (loop.loop2_dst_stride, loop.loop1_dst_stride, *step.dst_strides)
    if isinstance(step, Copy):
        src = (loop.loop2_src_stride, loop.loop1_src_stride, *step.src_strides)
        return strided_copy(step.item, shape, step.src, src, step.dst, dst, step.nibble)
    return strided_fill(step.pattern, shape, step.dst, dst, step.undefined)


def _runs(runs: Runs, sizes: tuple[int, int], strides: tuple[int, int]) -> Runs:
    """The GM requests of one iteration, in every iteration."""
    found = []
    for row in runs.tolist():
        counts, steps = row[2::2], row[3::2]
        found.append(strided_runs(row[1], [*sizes, *counts], row[0], [*strides, *steps]))
    return np.concatenate(found)


def _overlaps(one: Transfer, whole: Transfer, loop: LoopModeParams) -> bool:
    """Whether iterations write common bytes. Iterations may interleave: what is not simply nested is counted."""
    lo, hi = one.dst_range
    reach = hi - lo
    for stride, size in sorted(((loop.loop1_dst_stride, loop.loop1_size), (loop.loop2_dst_stride, loop.loop2_size))):
        if size > 1 and stride < reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    lo, hi = whole.dst_range
    if hi - lo > COUNTED_BYTES:
        return False
    defined = [Transfer(tuple(_as_defined(step) for step in part.steps)) for part in (one, whole)]
    seen = [np.zeros(hi - lo, np.uint8) for _ in defined]
    for part, marks in zip(defined, seen, strict=True):
        part.map_defined(marks, -lo, None, 0)
    return int(seen[1].sum()) < loop.times * int(seen[0].sum())


def _as_defined(step: Step) -> Step:
    if isinstance(step, Copy):
        return step
    return replace(step, undefined=False)
