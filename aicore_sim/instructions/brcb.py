"""Brcb: each of 8 elements of a repeat fills one 32 B block of the destination (Brcb page)."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import Op, Pipe, VectorWork, cached_hash, check_range, describe, movement, taken
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.ub_access import access_of
from aicore_sim.instructions.vector import check_kinds
from aicore_sim.transfer import Transfer, strided_copy

API = "Brcb"
PER_REPEAT = 8


@dataclass(frozen=True)
class BrcbRepeatParams:
    """Strides of the destination, in 32 B: between the blocks of a repeat, and between repeats."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8

    __hash__ = cached_hash


def build(repeat_times: int, params: BrcbRepeatParams, dtype: DataType, kinds: tuple[str, ...], card: Card) -> Op | None:
    """The Op of a call on (dst, src); None for 0 repeats.

    Repeat i reads elements 8 i ... 8 i + 7. Raises ParameterError for a field outside its range (a block stride of 0 is
    undefined), UnsupportedError for a type, buffer or card that lacks it.
    """
    check_kinds(API, kinds, card)
    check_offer(card, API, "", dtype)
    found: list[str] = []
    check_range(API, "arguments", "repeat_times", repeat_times, 0, 255, card.name)
    params = taken(API, params, {"dst_blk_stride": (0, 65535), "dst_rep_stride": (0, 65535)}, card, found)
    if params.dst_blk_stride == 0:
        raise ParameterError(f"{API}: a destination block stride of 0 is undefined", field="dst_blk_stride", value=0,
                             allowed="1..65535", card=card.name)  # fmt: skip
    if repeat_times == 0:
        return None
    size = dtype.bits // 8
    shape = (repeat_times, PER_REPEAT, BLOCK_BYTES // size)
    pitches = (params.dst_rep_stride * BLOCK_BYTES, params.dst_blk_stride * BLOCK_BYTES)
    if pitches[0] == 0 and repeat_times > 1:
        shape, first = (1, *shape[1:]), (repeat_times - 1) * PER_REPEAT * size  # only the last repeat stays
    else:
        first = 0
    steps = strided_copy(size, shape, first, (PER_REPEAT * size, size, 0), 0, (*pitches, size))
    transfer = Transfer(steps)
    cost = VectorWork("brcb", dtype.bits, repeat_times * PER_REPEAT * BLOCK_BYTES // size, repeat_times)
    detail = f"repeat_times={repeat_times} {describe(params)}"
    op = movement(API, Pipe.V, "UB-UB", transfer, cost, aligns=(BLOCK_BYTES, BLOCK_BYTES), detail=detail, warnings=found)
    op.access = access_of(repeat_times, (PER_REPEAT * BLOCK_BYTES, pitches[1], pitches[0]),
                          {1: (PER_REPEAT * size, BLOCK_BYTES, PER_REPEAT * size)})  # fmt: skip
    op.reads = ((1, 0, repeat_times * PER_REPEAT * size),)
    return op
