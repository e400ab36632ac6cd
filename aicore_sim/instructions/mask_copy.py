"""Copy from UB to UB: under a mask with strides, and on 950 also `count` elements (spec api_semantics.md 9.7a)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, VectorWork, cached_hash, describe, movement, taken
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.ub_access import UbAccess, access_of, lines
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds, mask_bits, mask_word
from aicore_sim.instructions.vector_effect import Blocks, MaskEffect
from aicore_sim.instructions.vector_math import Array
from aicore_sim.transfer import Transfer, strided_copy, strided_fill

API = "Copy"
_MASKED = "UB to UB masked"
_COUNTED = "UB to UB contiguous"
_RANGES = {"dst_stride": (0, 65535), "src_stride": (0, 65535), "dst_repeat_size": (0, 4095), "src_repeat_size": (0, 4095)}


@dataclass(frozen=True)
class CopyRepeatParams:
    """Strides in 32 B: between the blocks of a repeat, and between repeats. pyasc's defaults: C++ has 8 for the latter."""

    dst_stride: int = 0
    src_stride: int = 0
    dst_repeat_size: int = 0
    src_repeat_size: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class CopyForm:
    """Arguments of the masked form, and the mode the mask is read in.

    Counter mode: `mask`, or its first word, counts the elements of each repeat; unlike in other vector instructions the
    repeats stay in force (Copy page).
    """

    mask: int | tuple[int, ...]
    repeat_time: int
    params: CopyRepeatParams
    counter: bool = False


def register_of(form: CopyForm, card: Card) -> tuple[int, int]:
    """(high, low) word of the mask register after a call. Raises ParameterError for a mask that is none."""
    word = mask_word(API, form.mask, form.counter, card)
    return word >> 64, word & (1 << 64) - 1


def build(form: CopyForm, dtype: DataType, kinds: tuple[str, ...], card: Card) -> Op | None:
    """The Op of the masked form on (dst, src); None if no element takes part.

    Raises ParameterError for a field outside its range, UnsupportedError for a type, buffer or card that lacks it.
    """
    check_kinds(API, kinds, card)
    check_offer(card, API, _MASKED, dtype)
    if dtype.bits not in (16, 32):
        raise UnsupportedError(f"{API}: the masked form is for 16 and 32 bits", field="dtype", value=dtype.name,
                               allowed="copy(dst, src, count)", card=card.name)  # fmt: skip
    found: list[str] = []
    repeats = taken(API, form, {"repeat_time": (0, 255)}, card, found).repeat_time
    params = taken(API, form.params, _RANGES, card, found)
    register = register_of(form, card)
    if form.counter:
        mask = np.ones(register[1], np.bool_)
    else:
        mask, doubts = mask_bits(form.mask, register[0] << 64 | register[1], REPEAT_BYTES * 8 // dtype.bits)
        found.extend(doubts)
    if repeats == 0 or mask.size == 0:
        return None
    dst, src = (
        Blocks(dtype, block * BLOCK_BYTES, repeat * BLOCK_BYTES)
        for block, repeat in (
            (params.dst_stride, params.dst_repeat_size), (params.src_stride, params.src_repeat_size),
        )
    )  # fmt: skip
    blocks = -(-mask.size * dtype.bits // 8 // BLOCK_BYTES)
    detail = f"mask={form.mask} {'counter mode ' if form.counter else ''}repeat_time={repeats} {describe(params)}"
    active = int(mask.sum()) * repeats
    cost = VectorWork("copy", dtype.bits, active, repeats * -(-blocks * BLOCK_BYTES // REPEAT_BYTES))
    aligns = (BLOCK_BYTES, BLOCK_BYTES)
    if params.dst_stride == 0 and blocks > 1:
        found.append("with dst_stride 0 all blocks of a repeat go to one place; what is left there is undefined")
        lost = strided_fill(bytes(BLOCK_BYTES), (repeats,), 0, (dst.repeat,), undefined=True)
        return movement(API, Pipe.V, "UB-UB", Transfer(lost), cost, aligns=aligns, detail=detail, warnings=found)
    effect = MaskEffect(_as_it_is, (dst, src), (1,), mask, repeats, 0, register)
    spans = effect.spans()
    return Op(
        API, Pipe.V, cost, path="UB-UB", nbytes=active * dtype.bits // 8, effect=effect, reads=[(1, *spans[1])],
        writes=[(0, *spans[0])], aligns=aligns, detail=detail, warnings=found,
        access=_access(repeats, blocks * BLOCK_BYTES, dst, src),
    )  # fmt: skip


def _access(repeats: int, nbytes: int, dst: Blocks, src: Blocks) -> UbAccess | None:
    """Blocks of a repeat of at most 256 B; a longer one (counter mode) takes an unknown number of steps: None."""
    if nbytes > REPEAT_BYTES:
        return None
    return access_of(repeats, (nbytes, dst.block, dst.repeat), {1: (nbytes, src.block, src.repeat)})


def _as_it_is(values: Array) -> Array:
    return values


def build_count(count: int, dtype: DataType, kinds: tuple[str, ...], card: Card) -> Op | None:
    """The Op of `copy(dst, src, count)`: exactly that many elements; None for 0. Of the cards here only 950 has it."""
    check_kinds(API, kinds, card)
    check_offer(card, API, _COUNTED, dtype)
    if count < 0 or (dtype.bits < 8 and count % 2):
        raise ParameterError(f"{API}: count", field="count", value=count,
                             allowed=">= 0" if count < 0 else "even for 4-bit elements", card=card.name)  # fmt: skip
    if count == 0:
        return None
    nbytes = dtype.nbytes(count)
    transfer = Transfer(strided_copy(nbytes, (), 0, (), 0, ()))
    cost = VectorWork("copy", max(dtype.bits, 8), count, -(-nbytes // REPEAT_BYTES))
    op = movement(API, Pipe.V, "UB-UB", transfer, cost, aligns=(BLOCK_BYTES, BLOCK_BYTES), detail=f"count={count}")
    op.access = lines(cost.repeats, REPEAT_BYTES, {1: REPEAT_BYTES})
    return op
