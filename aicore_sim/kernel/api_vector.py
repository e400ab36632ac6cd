"""Vector functions as a kernel calls them (spec pyasc.md 6.3).

Every function has a count form, `(dst, sources..., [scalar,] count)`, and a mask form, `(dst, sources..., [scalar,]
mask, repeat_times, repeat_params)`, with the keywords of pyasc. They belong to the vector core: elsewhere a call does
nothing.

The names `max`, `min` and `abs` hide the builtins in this module, as they do in pyasc.

All raise UnsupportedError for element types, buffers or cards that a function is not for, ParameterError for arguments
outside their range, AlignmentError and OutOfBoundsError for addresses; nothing is recorded then.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions import cast as casting
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.vector import (
    BinaryRepeatParams,
    DuplicateStrides,
    Masked,
    RepeatParams,
    UnaryRepeatParams,
    count_op,
    mask_op,
    work_of,
)
from aicore_sim.instructions.vector_effect import MaskEffect
from aicore_sim.instructions.vector_math import RULES
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import RoundMode

__all__ = [
    "BinaryRepeatParams", "UnaryRepeatParams", "abs", "add", "adds", "axpy", "bitwise_and", "bitwise_not", "bitwise_or",
    "cast", "div", "duplicate", "exp", "leaky_relu", "ln", "max", "maxs", "min", "mins", "mul", "muls", "reciprocal",
    "relu", "rsqrt", "shift_left", "shift_right", "sqrt", "sub",
]  # fmt: skip

_COUNT_FORM = ("count", "is_set_mask")
_MASK_FORM = ("mask", "repeat_times", "repeat_params", "is_set_mask")
_DUPLICATE_FORM = ("mask", "repeat_times", "dst_block_stride", "dst_repeat_stride", "is_set_mask")
# Count forms in which is_set_mask = False has a meaning on 2201 (spec api_semantics.md 25.2).
_USE_MASK_REGISTER = ("adds", "muls", "maxs", "mins", "leaky_relu", "shift_left", "shift_right")

_ALL_ONES = ((1 << 64) - 1, (1 << 64) - 1)

Form = int | Masked


# ---- arguments ------------------------------------------------------------------------------------------------------
def _whole(api: str, field: str, value: Any) -> int:
    """`value` as a plain int."""
    if type(value) is int:
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        raise ParameterError(f"{api}: {field} must be an int", field=field, value=value) from None


def _named(api: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional and keyword arguments of one form by name."""
    given = dict(zip(names, args, strict=False))
    doubled = len(args) > len(names) or any(name not in names or name in given for name in kwargs)
    given.update(kwargs)
    if doubled or not isinstance(given.get("is_set_mask", True), bool):
        raise ParameterError(f"{api}: no form takes these arguments", field="arguments", value=f"{args} {kwargs}",
                             allowed=f"({', '.join(_COUNT_FORM)}) or ({', '.join(names)})")  # fmt: skip
    return given


def _form(
    rec: Recorder, name: str, params: type[RepeatParams], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Form:
    """The count, or the arguments of the mask form, from what follows the operands."""
    api = _api(name)
    if len(args) == 1 and not kwargs:
        return _whole(api, "count", args[0])
    names = _DUPLICATE_FORM if params is DuplicateStrides else _MASK_FORM
    if len(args) <= 2 and not any(field in kwargs for field in names[:-1]):
        given = _named(api, _COUNT_FORM, args, kwargs)
        if "count" not in given:
            _missing(api, "count")
        if not given.get("is_set_mask", True) and name in _USE_MASK_REGISTER and rec.card.npu_arch == 2201:
            return Masked(_register(rec), 1, UnaryRepeatParams(), _counter(rec))
        return _whole(api, "count", given["count"])
    given = _named(api, names, args, kwargs)
    for field in names[:-1]:
        if field not in given:
            _missing(api, field)
    mask = _mask(api, given["mask"]) if given.get("is_set_mask", True) else _register(rec)
    repeats = _whole(api, "repeat_times", given["repeat_times"])
    if params is DuplicateStrides:
        block, repeat = (_whole(api, field, given[field]) for field in names[2:4])
        return Masked(mask, repeats, DuplicateStrides(block, repeat), _counter(rec))
    strides = given["repeat_params"]
    if not isinstance(strides, params):
        raise ParameterError(f"{api}: repeat_params", field="repeat_params", value=type(strides).__name__,
                             allowed=params.__name__)  # fmt: skip
    return Masked(mask, repeats, strides, _counter(rec))


def _mask(api: str, mask: Any) -> int | tuple[int, ...]:
    if isinstance(mask, (list, tuple)):
        return tuple([_whole(api, "mask", word) for word in mask])
    return _whole(api, "mask", mask)


def _missing(api: str, field: str) -> None:
    raise ParameterError(f"{api}: {field} is missing", field=field)


def _register(rec: Recorder) -> tuple[int, int]:
    """The mask register as a mask list: low word, high word (`set_vector_mask`)."""
    high, low = rec.state.get("vector_mask", _ALL_ONES)
    return low, high


def _counter(rec: Recorder) -> bool:
    return rec.state.get("mask_mode") == "counter"


# ---- one call -------------------------------------------------------------------------------------------------------
def _call(
    name: str, tensors: tuple[Any, ...], params: type[RepeatParams], args: tuple[Any, ...], kwargs: dict[str, Any],
    scalar: Any = None,
) -> None:  # fmt: skip
    """Record one call: `scalar` is the scalar operand, or the rounding mode of `cast`; the rest is looked at only once.

    The key tells apart what compares equal: types of arguments, 0.0 and -0.0; and NaN equals itself there.
    """
    rec = current()
    if not rec.on_aiv:
        return
    try:
        what = (name, *[(t.dtype, t.kind) for t in tensors])
    except AttributeError:
        raise ParameterError(f"{_api(name)}: destination and sources are LocalTensors", field="operands",
                             value=", ".join(type(t).__name__ for t in tensors)) from None  # fmt: skip
    if kwargs or (args and isinstance(args[0], list)) or hasattr(scalar, "__len__"):
        how: Any = repr((args, sorted(kwargs.items()), scalar))
    else:
        how = (args, tuple(map(type, args)), scalar if scalar and scalar == scalar else repr(scalar))
    key = (what, how, None if len(args) == 1 and not kwargs else _sticky(rec, args, kwargs))
    op = rec.ops.get(key)
    if op is None:
        op = _build(rec, name, tensors, scalar, _form(rec, name, params, args, kwargs))
        if op is None:
            return
        rec.ops[key] = op
    rec.emit(op, *tensors)
    _leave_mask(rec, op)


def _sticky(rec: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call takes from the mask mode and, with is_set_mask = False, the mask register."""
    state = rec.state
    sets_mask = kwargs.get("is_set_mask", True) and args[-1:] != (False,)
    return state.get("mask_mode"), None if sets_mask else state.get("vector_mask")


def _leave_mask(rec: Recorder, op: Op) -> None:
    """The mask register after a call (spec 25.2): mask forms leave their mask, count forms on 2201 the start state."""
    state = rec.state
    if type(op.effect) is MaskEffect:
        state["vector_mask"] = op.effect.register
    elif ("vector_mask" in state or "mask_mode" in state) and rec.card.npu_arch == 2201:
        state["vector_mask"], state["mask_mode"] = _ALL_ONES, "normal"


def _build(rec: Recorder, name: str, tensors: tuple[Any, ...], scalar: Any, form: Form) -> Op | None:
    """The Op of a call; None, with a warning on 950, where no element takes part."""
    card = rec.card
    dtypes, kinds = tuple(t.dtype for t in tensors), tuple(t.kind for t in tensors)
    make = casting.work_of if name == "cast" else partial(work_of, name)
    work = make(dtypes, kinds, scalar, card)
    op = count_op(work, form, card) if isinstance(form, int) else mask_op(work, form, card)
    if op is None and card.npu_arch == 3510:
        rec.session.warn(f"{work.api}: nothing is done for 0 elements, which this card does not guarantee", rec.line())
    return op


def _api(name: str) -> str:
    return "Cast" if name == "cast" else RULES[name].api


# ---- the functions --------------------------------------------------------------------------------------------------
def duplicate(dst: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """dst = scalar. Mask form: `(dst, scalar, mask, repeat_times, dst_block_stride, dst_repeat_stride)`."""
    _call("duplicate", (dst,), DuplicateStrides, args, kwargs, scalar)


def add(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 + src1; integers wrap."""
    _call("add", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def sub(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 - src1; integers wrap."""
    _call("sub", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def mul(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 * src1; integers wrap."""
    _call("mul", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def div(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 / src1; x/0 is a signed inf."""
    _call("div", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def max(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """The larger of src0 and src1; NaN wins, +0 is above -0."""
    _call("max", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def min(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """The smaller of src0 and src1; NaN wins."""
    _call("min", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def bitwise_and(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 & src1."""
    _call("bitwise_and", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def bitwise_or(dst: Any, src0: Any, src1: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src0 | src1."""
    _call("bitwise_or", (dst, src0, src1), BinaryRepeatParams, args, kwargs)


def adds(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src + scalar."""
    _call("adds", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def muls(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """dst = src * scalar."""
    _call("muls", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def maxs(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """The larger of src and scalar."""
    _call("maxs", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def mins(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """The smaller of src and scalar."""
    _call("mins", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def leaky_relu(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """src * scalar where the sign bit is set, else src."""
    _call("leaky_relu", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def shift_left(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """src << scalar, at most the width of the type and the sign bit kept; on 950 without either rule."""
    _call("shift_left", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def shift_right(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """src >> scalar: arithmetic for signed types, logical for unsigned ones."""
    _call("shift_right", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def axpy(dst: Any, src: Any, scalar: Any, *args: Any, **kwargs: Any) -> None:
    """dst += src * scalar; the scalar has the type of src, dst may be float for half sources."""
    _call("axpy", (dst, src), UnaryRepeatParams, args, kwargs, scalar)


def exp(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """e to the power of src."""
    _call("exp", (dst, src), UnaryRepeatParams, args, kwargs)


def ln(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Natural logarithm."""
    _call("ln", (dst, src), UnaryRepeatParams, args, kwargs)


def sqrt(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Square root."""
    _call("sqrt", (dst, src), UnaryRepeatParams, args, kwargs)


def rsqrt(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """1 / square root."""
    _call("rsqrt", (dst, src), UnaryRepeatParams, args, kwargs)


def reciprocal(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """1 / src."""
    _call("reciprocal", (dst, src), UnaryRepeatParams, args, kwargs)


def relu(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """src where it is above 0, else +0; NaN stays."""
    _call("relu", (dst, src), UnaryRepeatParams, args, kwargs)


def abs(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Absolute value; the smallest integer stays itself."""
    _call("abs", (dst, src), UnaryRepeatParams, args, kwargs)


def bitwise_not(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """All bits inverted."""
    _call("bitwise_not", (dst, src), UnaryRepeatParams, args, kwargs)


def cast(dst: Any, src: Any, round_mode: RoundMode, *args: Any, **kwargs: Any) -> None:
    """dst = src in the type of dst, rounded as `round_mode` says; pairs and modes per card: spec api_semantics.md 25.3.

    Masks and repeats count elements of the wider type.
    """
    _call("cast", (dst, src), UnaryRepeatParams, args, kwargs, round_mode)
