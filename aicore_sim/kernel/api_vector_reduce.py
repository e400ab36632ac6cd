"""Reductions inside a repeat as a kernel calls them (spec pyasc.md 6.3; mind the two orders of mask and repeat).

They belong to the vector core: elsewhere a call does nothing. Errors as in `api_vector`.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions import vector_reduce
from aicore_sim.instructions.vector_reduce import ReduceForm
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import ReduceOrder
from aicore_sim.kernel.vector_forms import (
    counter_mode,
    emit_cached,
    leave_mask,
    mask_of,
    mask_register,
    nothing,
    operands,
    whole,
)

__all__ = [
    "block_reduce_max", "block_reduce_min", "block_reduce_sum", "pair_reduce_sum", "repeat_reduce_sum", "whole_reduce_max",
    "whole_reduce_min", "whole_reduce_sum",
]  # fmt: skip

Mask = int | list[int]


def _reduce(
    over: str, kind: str, dst: Any, src: Any, mask: Mask, repeat: int, strides: tuple[Any, Any, Any],
    order: int = ReduceOrder.ORDER_VALUE_INDEX, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Record one reduction; `strides` are those of dst between repeats, of src between blocks and between repeats."""
    rec = current()
    if not rec.on_aiv:
        return
    api = vector_reduce.api_of(over)
    if not isinstance(is_set_mask, bool):
        raise ParameterError(f"{api}: is_set_mask is a bool", field="is_set_mask", value=is_set_mask, card=rec.card.name)
    names = ("dst_rep_stride", "src_blk_stride", "src_rep_stride")
    to, block, repeats = (whole(api, name, value) for name, value in zip(names, strides, strict=True))
    chosen = mask_of(api, mask) if is_set_mask else mask_register(rec)
    form = ReduceForm(chosen, whole(api, "repeat", repeat), to, block, repeats, whole(api, "order", order), counter_mode(rec))
    what = operands(api, (dst, src))
    dtypes, kinds = [dtype for dtype, _ in what], [kind for _, kind in what]
    op = emit_cached(rec, ("reduce", over, kind, what, form),
                     lambda: vector_reduce.build(over, kind, form, dtypes, kinds, rec.card), dst, src)  # fmt: skip
    if op is None:
        nothing(rec, api)
    else:
        leave_mask(rec, getattr(op.effect, "register", None))


def whole_reduce_sum(dst: Any, src: Any, mask: Mask, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int, is_set_mask: bool = True) -> None:  # fmt: skip
    """The sum of each repeat; dst_rep_stride counts elements of dst."""
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _reduce("whole", "sum", dst, src, mask, repeat_time, strides, is_set_mask=is_set_mask)


def whole_reduce_max(dst: Any, src: Any, mask: Mask, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int, order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
                     is_set_mask: bool = True) -> None:  # fmt: skip
    """The largest element of each repeat and its index in the repeat, as raw bits of the same width (alone: uint32).

    dst_rep_stride counts results: pairs, elements, or uint32.
    """
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _reduce("whole", "max", dst, src, mask, repeat_time, strides, order, is_set_mask)


def whole_reduce_min(dst: Any, src: Any, mask: Mask, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int, order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
                     is_set_mask: bool = True) -> None:  # fmt: skip
    """The smallest element of each repeat; as `whole_reduce_max`."""
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _reduce("whole", "min", dst, src, mask, repeat_time, strides, order, is_set_mask)


def repeat_reduce_sum(dst: Any, src: Any, repeat_time: int, mask: Mask, dst_blk_stride: int, src_blk_stride: int,
                      dst_rep_stride: int, src_rep_stride: int, is_set_mask: bool = True) -> None:  # fmt: skip
    """As `whole_reduce_sum` with another order of arguments; dst_blk_stride has no effect."""
    whole(vector_reduce.api_of("whole"), "dst_blk_stride", dst_blk_stride)
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _reduce("whole", "sum", dst, src, mask, repeat_time, strides, is_set_mask=is_set_mask)


def block_reduce_sum(dst: Any, src: Any, repeat: int, mask: Mask, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int) -> None:  # fmt: skip
    """The sums of the eight 32 B blocks of each repeat; dst_rep_stride counts eight elements.

    Where nothing of a block takes part, A2 and A3 leave its place, the others write 0.
    """
    _reduce("block", "sum", dst, src, mask, repeat, (dst_rep_stride, src_blk_stride, src_rep_stride))


def block_reduce_max(dst: Any, src: Any, repeat: int, mask: Mask, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int) -> None:  # fmt: skip
    """The largest elements of the blocks; as `block_reduce_sum`, with -inf (half on 200I: -65504) for 0."""
    _reduce("block", "max", dst, src, mask, repeat, (dst_rep_stride, src_blk_stride, src_rep_stride))


def block_reduce_min(dst: Any, src: Any, repeat: int, mask: Mask, dst_rep_stride: int, src_blk_stride: int,
                     src_rep_stride: int) -> None:  # fmt: skip
    """The smallest elements of the blocks; as `block_reduce_sum`, with inf (half on 200I: 65504) for 0."""
    _reduce("block", "min", dst, src, mask, repeat, (dst_rep_stride, src_blk_stride, src_rep_stride))


def pair_reduce_sum(dst: Any, src: Any, repeat_time: int, mask: Mask, dst_rep_stride: int, src_blk_stride: int,
                    src_rep_stride: int, is_set_mask: bool = True) -> None:  # fmt: skip
    """The sums of neighbours, elements 2 i and 2 i + 1; dst_rep_stride counts 128 B.

    Where neither of a pair takes part, A2 and A3 leave its place, the others write 0.
    """
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _reduce("pair", "sum", dst, src, mask, repeat_time, strides, is_set_mask=is_set_mask)
