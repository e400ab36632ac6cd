"""Vector functions as a kernel calls them (spec pyasc.md 6.3).

Every function has a count form, `(dst, sources..., [scalar,] count)`, and a mask form, `(dst, sources..., [scalar,]
mask, repeat_times, repeat_params)`, with the keywords of pyasc. They belong to the vector core: elsewhere a call does
nothing.

The names `max`, `min` and `abs` hide the builtins in this module, as they do in pyasc.

All raise UnsupportedError for element types, buffers or cards that a function is not for, ParameterError for arguments
outside their range, AlignmentError and OutOfBoundsError for addresses; nothing is recorded then.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from aicore_sim.instructions import cast as casting
from aicore_sim.instructions.vector import (
    BinaryRepeatParams,
    DuplicateStrides,
    RepeatParams,
    UnaryRepeatParams,
    work_of,
)
from aicore_sim.instructions.vector_math import RULES
from aicore_sim.kernel.api_vector_fused import deq_cast
from aicore_sim.kernel.enums import RoundMode
from aicore_sim.kernel.vector_forms import Maker, record

__all__ = [
    "BinaryRepeatParams", "UnaryRepeatParams", "abs", "add", "adds", "axpy", "bitwise_and", "bitwise_not", "bitwise_or",
    "cast", "div", "duplicate", "exp", "leaky_relu", "ln", "max", "maxs", "min", "mins", "mul", "muls", "reciprocal",
    "relu", "rsqrt", "shift_left", "shift_right", "sqrt", "sub",
]  # fmt: skip


_MAKERS: dict[str, Maker] = {name: partial(work_of, name) for name in RULES}


def _call(
    name: str, tensors: tuple[Any, ...], params: type[RepeatParams], args: tuple[Any, ...], kwargs: dict[str, Any],
    scalar: Any = None,
) -> None:  # fmt: skip
    record(name, RULES[name].api, tensors, params, args, kwargs, _MAKERS[name], scalar)


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

    Masks and repeats count elements of the wider type. int32 to half multiplies by the scale of `set_deq_scale` (not on
    200I) and ignores the mode.
    """
    if not deq_cast(dst, src, round_mode, args, kwargs):
        record("cast", "Cast", (dst, src), UnaryRepeatParams, args, kwargs, casting.work_of, round_mode)
