"""Vector instructions that only move data: masked Copy and Brcb (spec api_semantics.md 9.7a; pyasc.md 6.3).

They belong to the vector core: elsewhere a call does nothing. Errors as in `api_vector`.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions import brcb as spreading
from aicore_sim.instructions import mask_copy
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.brcb import BrcbRepeatParams
from aicore_sim.instructions.mask_copy import CopyForm, CopyRepeatParams
from aicore_sim.kernel.context import Recorder, current
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

__all__ = ["BrcbRepeatParams", "CopyRepeatParams", "brcb", "copy"]


def _one_type(api: str, dst: Any, src: Any, rec: Recorder) -> None:
    if dst.dtype is not src.dtype:
        raise ParameterError(f"{api}: destination and source have one element type", field="dtype",
                             value=f"{dst.dtype.name}, {src.dtype.name}", card=rec.card.name)  # fmt: skip


def copy(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Copy from UB to UB: `(dst, src, mask, repeat_time, repeat_params, is_set_mask=True)`; on 950 also
    `(dst, src, count)`.

    `mask` is a number of elements of a repeat or a list of two 64-bit words, `repeat_params` a CopyRepeatParams. In
    counter mode the mask counts the elements of each repeat and `repeat_time` stays in force. Repeats follow each other.
    """
    rec = current()
    if not rec.on_aiv:
        return
    what = ("copy", *operands(mask_copy.API, (dst, src)))
    kinds = (dst.kind, src.kind)
    if len(args) + len(kwargs) == 1 and ("count" in kwargs or args):
        _one_type(mask_copy.API, dst, src, rec)
        count = whole(mask_copy.API, "count", args[0] if args else kwargs["count"])
        counted = emit_cached(rec, (what, count), lambda: mask_copy.build_count(count, dst.dtype, kinds, rec.card), dst, src)
        if counted is None:
            nothing(rec, mask_copy.API)
        return
    form = _copy_form(rec, args, kwargs)
    key = (what, form.mask, form.repeat_time, form.params, form.counter)

    def build() -> Op | None:
        _one_type(mask_copy.API, dst, src, rec)
        return mask_copy.build(form, dst.dtype, kinds, rec.card)

    if emit_cached(rec, key, build, dst, src) is None:
        nothing(rec, mask_copy.API)
    else:
        leave_mask(rec, mask_copy.register_of(form, rec.card))


def _copy_form(rec: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CopyForm:
    api, names = mask_copy.API, ("mask", "repeat_time", "repeat_params", "is_set_mask")
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or any(name not in names or name in given for name in kwargs):
        raise ParameterError(f"{api}: no form takes these arguments", field="arguments", value=f"{args} {kwargs}",
                             allowed=f"({', '.join(names)})", card=rec.card.name)  # fmt: skip
    given.update(kwargs)
    for name in names[:3]:
        if name not in given:
            raise ParameterError(f"{api}: {name} is missing", field=name, card=rec.card.name)
    params, sets = given["repeat_params"], given.get("is_set_mask", True)
    if not isinstance(params, CopyRepeatParams) or not isinstance(sets, bool):
        field = "is_set_mask" if isinstance(params, CopyRepeatParams) else "repeat_params"
        raise ParameterError(f"{api}: {field}", field=field, value=type(given[field]).__name__,
                             allowed="CopyRepeatParams, bool", card=rec.card.name)  # fmt: skip
    mask = mask_of(api, given["mask"]) if sets else mask_register(rec)
    return CopyForm(mask, whole(api, "repeat_time", given["repeat_time"]), params, counter_mode(rec))


def brcb(dst: Any, src0: Any, repeat_times: int, repeat_params: BrcbRepeatParams) -> None:
    """Brcb: repeat i fills 8 blocks of 32 B of dst, each with one of the elements 8 i ... 8 i + 7 of src0."""
    rec = current()
    if not rec.on_aiv:
        return
    if not isinstance(repeat_params, BrcbRepeatParams):
        raise ParameterError("Brcb: repeat_params", field="repeat_params", value=type(repeat_params).__name__,
                             allowed="BrcbRepeatParams", card=rec.card.name)  # fmt: skip
    repeats = whole(spreading.API, "repeat_times", repeat_times)
    key = ("brcb", operands(spreading.API, (dst, src0)), repeats, repeat_params)

    def build() -> Op | None:
        _one_type(spreading.API, dst, src0, rec)
        return spreading.build(repeats, repeat_params, dst.dtype, (dst.kind, src0.kind), rec.card)

    if emit_cached(rec, key, build, dst, src0) is None:
        nothing(rec, spreading.API)
