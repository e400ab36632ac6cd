"""Vector functions of several steps, and the scale they may need (spec pyasc.md 6.3; api_semantics.md 25.3).

Count form `(dst, sources..., count)` and mask form `(dst, sources..., mask, repeat_times, repeat_params)` as in
`api_vector`; errors likewise. SetDeqScale is a sticky register: a call takes what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aicore_sim.dtypes import float16, int32, uint64
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import cast_dequant, vector_convert
from aicore_sim.instructions.vector import BinaryRepeatParams, UnaryRepeatParams, listed_types, work_of
from aicore_sim.instructions.vector_math import RULES
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.vector_forms import Maker, emit_cached, form_of, leave_mask, nothing, operands, record, sticky

__all__ = [
    "VdeqInfo", "add_deq_relu", "add_relu", "add_relu_cast", "cast_deq", "fused_mul_add", "fused_mul_add_relu",
    "mul_add_dst", "mul_cast", "set_deq_scale", "sub_relu", "sub_relu_cast",
]  # fmt: skip

_PLAIN = ("add_relu", "sub_relu", "fused_mul_add", "fused_mul_add_relu", "mul_add_dst")
_MAKERS: dict[str, Maker] = {
    **{name: partial(work_of, name) for name in _PLAIN},
    **{name: partial(vector_convert.work_of, name) for name in vector_convert.CONVERTING},
    "add_deq_relu": vector_convert.add_deq_relu_work,
}
_APIS = {name: RULES[name].api for name in _PLAIN} | {
    name: row.api for name, row in vector_convert.CONVERTING.items()
} | {"add_deq_relu": "AddDeqRelu"}  # fmt: skip
_COUNT_EXTRAS = ("is_vec_deq", "half_block")


def _binary(name: str, tensors: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], scalar: Any = None) -> None:
    record(name, _APIS[name], tensors, BinaryRepeatParams, args, kwargs, _MAKERS[name], scalar)


def add_relu(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, src0 + src1)."""
    _binary("add_relu", (dst, src0, src1), args, kwargs)


def sub_relu(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, src0 - src1)."""
    _binary("sub_relu", (dst, src0, src1), args, kwargs)


def fused_mul_add(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 * dst + src1."""
    _binary("fused_mul_add", (dst, src0, src1), args, kwargs)


def fused_mul_add_relu(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, src0 * dst + src1) (MulAddRelu)."""
    _binary("fused_mul_add_relu", (dst, src0, src1), args, kwargs)


def mul_add_dst(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 * src1 + dst; dst may be float for half sources."""
    _binary("mul_add_dst", (dst, src0, src1), args, kwargs)


def mul_cast(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 * src1 in the type of dst."""
    _binary("mul_cast", (dst, src0, src1), args, kwargs)


def add_relu_cast(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, src0 + src1) in the type of dst."""
    _binary("add_relu_cast", (dst, src0, src1), args, kwargs)


def sub_relu_cast(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, src0 - src1) in the type of dst."""
    _binary("sub_relu_cast", (dst, src0, src1), args, kwargs)


def add_deq_relu(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = max(0, half((src0 + src1) * scale)) with the half of `set_deq_scale(scale)`."""
    rec = current()
    _binary("add_deq_relu", (dst, src0, src1), args, kwargs, half_scale(rec) if rec.on_aiv else None)


# ---- SetDeqScale ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DeqScale:
    """What the register holds: `scale` for int32, `word` for int16, or `table` (a tensor of 16 words) for int16.

    `signs` are the sign modes of the word or the words.
    """

    scale: float | None = None
    word: int | None = None
    table: Any = None
    signs: frozenset[bool] = frozenset()


@dataclass(frozen=True)
class VdeqInfo:
    """16 scales, offsets (9 bits, signed) and sign modes for `set_deq_scale(vdeq, vdeq_info)`.

    Raises ParameterError unless each has 16 elements.
    """

    scale: Sequence[float]
    offset: Sequence[int]
    sign_mode: Sequence[bool]

    def __post_init__(self) -> None:
        for name in ("scale", "offset", "sign_mode"):
            values = getattr(self, name)
            if not hasattr(values, "__len__") or len(values) != cast_dequant.LANES:
                raise ParameterError("VdeqInfo: 16 scales, offsets and sign modes", field=name, value=values,
                                     allowed="16 elements")  # fmt: skip


def set_deq_scale(*args: Any, **kwargs: Any) -> None:
    """SetDeqScale: `(scale)` for int32 to half, `(scale, offset, sign_mode)` or `(vdeq, vdeq_info)` for int16 to 8 bits.

    The last form writes 16 words into the uint64 tensor `vdeq` (128 B) by the scalar unit; the tensor must keep them.
    Raises UnsupportedError on 200I, ParameterError for other arguments or an offset outside -256..255.
    """
    rec = current()
    if not rec.on_aiv:
        return
    if not any(row.supported for row in rec.card.api("SetDeqScale")):
        raise UnsupportedError("SetDeqScale: not on this card", field="api", value="SetDeqScale", card=rec.card.name)
    names = ("vdeq", "vdeq_info") if "vdeq" in kwargs or len(args) == 2 else ("scale", "offset", "sign_mode")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or len(given) != len(args) + len(kwargs) or set(given) not in ({"scale"}, set(names)):
        raise ParameterError("set_deq_scale takes (scale), (scale, offset, sign_mode) or (vdeq, vdeq_info)",
                             field="arguments", value=f"{args} {kwargs}", card=rec.card.name)  # fmt: skip
    if "vdeq" in given:
        rec.state["deq_scale"] = _table(rec, given["vdeq"], given["vdeq_info"])
    elif len(given) == 1:
        rec.state["deq_scale"] = DeqScale(scale=float(given["scale"]))
    else:
        sign = bool(given["sign_mode"])
        word = cast_dequant.config_word(float(given["scale"]), int(given["offset"]), sign, rec.card)
        rec.state["deq_scale"] = DeqScale(word=word, signs=frozenset({sign}))


def _table(rec: Recorder, vdeq: Any, info: Any) -> DeqScale:
    if getattr(vdeq, "dtype", None) is not uint64 or not isinstance(info, VdeqInfo):
        raise ParameterError("set_deq_scale(vdeq, vdeq_info) takes a uint64 tensor and a VdeqInfo", field="vdeq",
                             value=f"{type(vdeq).__name__}, {type(info).__name__}", card=rec.card.name)  # fmt: skip
    words = [cast_dequant.config_word(float(s), int(o), bool(m), rec.card)
             for s, o, m in zip(info.scale, info.offset, info.sign_mode, strict=True)]  # fmt: skip
    for i, word in enumerate(words):
        vdeq.set_value(i, word)
    return DeqScale(table=vdeq, signs=frozenset(map(bool, info.sign_mode)))


def half_scale(rec: Recorder) -> float | None:
    """The half of `set_deq_scale(scale)`; 1 at the start on 950, None where nothing or another form was set."""
    held = rec.state.get("deq_scale")
    if held is None:
        return 1.0 if rec.card.npu_arch == 3510 else None
    return held.scale if isinstance(held, DeqScale) else None


# ---- CastDequant ----------------------------------------------------------------------------------------------------
def cast_deq(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """CastDequant: `(dst, src, count, is_vec_deq=True, half_block=True)` or `(dst, src, mask, repeat_times,
    repeat_params, is_set_mask=True, is_vec_deq=True, half_block=True)`.

    int32 to half by the scale, int16 to int8 or uint8 by scale and offset into half of each block; is_vec_deq takes 16
    of them from the table. Raises ParameterError where the register holds something else, else as `api_vector`.
    """
    rec = current()
    if not rec.on_aiv:
        return
    extras, args, kwargs = _split(args, kwargs)
    if getattr(src, "dtype", None) is int32:
        record("cast_deq", cast_dequant.API, (dst, src), UnaryRepeatParams, args, kwargs, vector_convert.dequant_work,
               half_scale(rec))  # fmt: skip
        return
    tensors: tuple[Any, ...] = (dst, src)
    what = operands(cast_dequant.API, tensors)
    pair = f"{src.dtype.name}*{dst.dtype.name}"
    if pair not in listed_types(cast_dequant.API, rec.card):
        raise UnsupportedError("CastDequant: not for these element types on this card", field="dtype", value=pair,
                               allowed=", ".join(listed_types(cast_dequant.API, rec.card)) or "none",
                               card=rec.card.name)  # fmt: skip
    held = _held(rec, extras["is_vec_deq"], dst.dtype.is_signed())
    if held.table is not None:
        tensors = (dst, src, held.table)
    key = ("cast_deq", what, repr((args, sorted(kwargs.items()))), extras["half_block"], held.word,
           sticky(rec, args, kwargs))  # fmt: skip
    op = emit_cached(
        rec, key,
        lambda: cast_dequant.build(
            form_of(rec, cast_dequant.API, UnaryRepeatParams, args, kwargs), dst.dtype, [t.kind for t in tensors],
            held.word, extras["half_block"], rec.card,
        ),
        *tensors,
    )  # fmt: skip
    if op is None:
        nothing(rec, cast_dequant.API)
    else:
        leave_mask(rec, getattr(op.effect, "register", None))


def _split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, bool], tuple[Any, ...], dict[str, Any]]:
    """The two template parameters, and the arguments without them."""
    extras = dict.fromkeys(_COUNT_EXTRAS, True)
    rest = {name: value for name, value in kwargs.items() if name not in extras}
    counted = all(isinstance(value, bool) for value in args[1:]) and not {"mask", "repeat_times"} & set(rest)
    keep = (0 if "count" in rest else 1) if counted else 4
    given = dict(zip(_COUNT_EXTRAS, args[keep:], strict=False)) | {n: v for n, v in kwargs.items() if n in extras}
    if len(args) > keep + len(_COUNT_EXTRAS) or not all(isinstance(value, bool) for value in given.values()):
        raise ParameterError("CastDequant: is_vec_deq and half_block are bools", field="arguments", value=f"{args} {kwargs}")
    return extras | given, args[:keep], rest


def _held(rec: Recorder, is_vec_deq: bool, signed: bool) -> DeqScale:
    """The register for int16 sources, checked against the call."""
    held = rec.state.get("deq_scale")
    wanted = "(vdeq, vdeq_info)" if is_vec_deq else "(scale, offset, sign_mode)"
    if not isinstance(held, DeqScale) or (held.table is None if is_vec_deq else held.word is None):
        raise ParameterError(f"CastDequant of int16 with is_vec_deq={is_vec_deq} needs set_deq_scale{wanted} before it",
                             field="is_vec_deq", value=is_vec_deq, card=rec.card.name)  # fmt: skip
    if held.signs != {signed}:
        raise ParameterError("CastDequant: the sign mode of SetDeqScale must be that of the destination", field="sign_mode",
                             value=sorted(held.signs), allowed=str(signed), card=rec.card.name)  # fmt: skip
    return held


def deq_cast(dst: Any, src: Any, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Record a Cast of int32 to half, where that multiplies by the scale; False for any other Cast or card."""
    rec = current()
    if getattr(src, "dtype", None) is not int32 or dst.dtype is not float16 or rec.card.npu_arch == 3002:
        return False
    record("cast", "Cast", (dst, src), UnaryRepeatParams, args, kwargs, vector_convert.cast_work, (mode, half_scale(rec)))
    return True
