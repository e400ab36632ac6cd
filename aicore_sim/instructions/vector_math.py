"""What the elementwise vector functions compute, one function of numpy arrays for each (spec api_semantics.md 25.1).

`RULES` is the table: pyasc's name, the API's name, how it is called and the function. The start value of CTRL[48] is
taken as INF/NAN: IEEE results, integer addition, subtraction and multiplication wrap.

Where the accuracy of the hardware is not published (A2/A3 exp, div and relatives; sources say within 1 ulp on 950), the
value is the correctly rounded one. On 3510 exp, ln, sqrt, rsqrt, reciprocal and div take every subnormal as zero, which
is what their default algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = Callable[..., Array]
Form = Literal["fill", "unary", "scalar", "binary", "axpy", "fused", "multiply_add"]

_BF16 = np.dtype(ml_dtypes.bfloat16)
_F16 = np.dtype(np.float16)
_F32 = np.dtype(np.float32)
_WIDER: dict[np.dtype[Any], np.dtype[Any]] = {_F16: _F32, _BF16: _F32, _F32: np.dtype(np.float64)}
_SMALLEST_NORMAL = {_F16: 2.0**-14, _F32: 2.0**-126}


def _is_float(a: Array) -> bool:
    return a.dtype.kind not in "iu"


def _rounded(function: Callable[..., Any], *operands: Array) -> Array:
    """`function` in the next wider float type, rounded to nearest even once more."""
    own = operands[0].dtype
    wide = _WIDER[own]
    result: Array = function(*[a.astype(wide) for a in operands]).astype(own)
    return result


def _arithmetic(function: Callable[..., Any]) -> Function:
    """Correctly rounded in the own float type, bfloat16 as float operation, then RINT. Integers wrap."""

    def apply(a: Array, b: Array) -> Array:
        result: Array = _rounded(function, a, b) if a.dtype == _BF16 else function(a, b)
        return result

    return apply


add = _arithmetic(np.add)
sub = _arithmetic(np.subtract)
mul = _arithmetic(np.multiply)


def div(a: Array, b: Array) -> Array:
    """x/0 is a signed inf, 0/0 and inf/inf NaN. Integers truncate toward zero; by 0, unpublished, gives 0 here."""
    if _is_float(a):
        return _rounded(np.divide, a, b)
    quotient: Array = np.floor_divide(a, b)
    below = (a - quotient * b != 0) & ((a < 0) != (b < 0))
    result: Array = np.where(b == 0, a.dtype.type(0), quotient + below.astype(a.dtype))
    return result


def maximum(a: Array, b: Array) -> Array:
    """NaN wins; the maximum of +0 and -0 is +0."""
    result: Array = np.maximum(a, b)
    if _is_float(a):
        zeros = (a == 0) & (b == 0)
        if zeros.any():
            result = np.where(zeros, a + b, result)
    return result


def minimum(a: Array, b: Array) -> Array:
    """As `maximum` mirrored: NaN wins; the minimum of +0 and -0 is -0 (not stated by the sources)."""
    result: Array = -maximum(-a, -b) if _is_float(a) else np.minimum(a, b)
    return result


def relu(a: Array) -> Array:
    """-0 and everything negative become +0, NaN stays."""
    return np.where(a <= 0, a.dtype.type(0), a)


def leaky_relu(a: Array, scalar: Array) -> Array:
    """Multiplies wherever the sign bit is set, -0 included; +0, positives, +inf pass, and so does NaN as NaN."""
    return np.where(np.signbit(a), mul(a, scalar), a)


def reciprocal(a: Array) -> Array:
    return div(np.ones_like(a), a)


def exp(a: Array) -> Array:
    return _rounded(np.exp, a)


def ln(a: Array) -> Array:
    return _rounded(np.log, a)


def sqrt(a: Array) -> Array:
    return _rounded(np.sqrt, a)


def rsqrt(a: Array) -> Array:
    return _rounded(lambda x: 1 / np.sqrt(x), a)


def _bits(function: Callable[..., Any]) -> Function:
    """A bitwise function on the raw words, whatever the element type."""

    def apply(*operands: Array) -> Array:
        own = operands[0].dtype
        words: Array = function(*[a.view(f"u{own.itemsize}") for a in operands]).view(own)
        return words

    return apply


def shift_left(a: Array, scalar: Array) -> Array:
    """Zeros come in from the right; a shift by the width or more leaves 0."""
    result: Array = np.left_shift(a, scalar)
    return result


def shift_left_keeping_sign(a: Array, scalar: Array) -> Array:
    """As `shift_left`, but signed types keep their sign bit: bits are lost below it (ShiftLeft page, A2/A3/200I)."""
    shifted = shift_left(a, scalar)
    if a.dtype.kind == "u":
        return shifted
    sign = a.dtype.type(np.iinfo(a.dtype).min)
    result: Array = (a & sign) | (shifted & ~sign)
    return result


def shift_right(a: Array, scalar: Array) -> Array:
    """Arithmetic for signed types, logical for unsigned ones."""
    result: Array = np.right_shift(a, scalar)
    return result


def axpy(dst: Array, src: Array, scalar: Array) -> Array:
    """dst + src * scalar in the type of dst, product and sum each rounded (fusing is not stated by the sources)."""
    own = dst.dtype
    return add(dst, mul(src.astype(own, copy=False), scalar.astype(own, copy=False)))


def add_relu(a: Array, b: Array) -> Array:
    """Relu of the rounded sum; integers wrap first."""
    return relu(add(a, b))


def sub_relu(a: Array, b: Array) -> Array:
    """Relu of the rounded difference; integers wrap first."""
    return relu(sub(a, b))


def fused_mul_add(dst: Array, a: Array, b: Array) -> Array:
    """a * dst + b, product and sum each rounded, as the sample of the FusedMulAdd page shows for half."""
    return add(mul(a, dst), b)


def mul_add_relu(dst: Array, a: Array, b: Array) -> Array:
    """Relu of a * dst + b."""
    return relu(fused_mul_add(dst, a, b))


def mul_add_dst(dst: Array, a: Array, b: Array) -> Array:
    """a * b + dst in the type of dst, product and sum each rounded."""
    own = dst.dtype
    return add(mul(a.astype(own, copy=False), b.astype(own, copy=False)), dst)


def fill(scalar: Array) -> Array:
    return scalar


def _flushing(function: Function) -> Function:
    """The same function with subnormal operands and results replaced by zeros of their sign."""

    def flush(a: Array) -> Array:
        if not _is_float(a):
            return a
        return np.where(np.abs(a) < _SMALLEST_NORMAL[a.dtype], np.copysign(a.dtype.type(0), a), a)

    def apply(*operands: Array) -> Array:
        return flush(function(*[flush(a) for a in operands]))

    return apply


@dataclass(frozen=True)
class Rule:
    """One row: `api` as in the card's API list, how it is called, what it computes, and what 3510 computes instead."""

    api: str
    form: Form
    function: Function
    on_3510: Function | None = None

    def on(self, npu_arch: int) -> Function:
        """The function of a card's architecture."""
        return self.on_3510 if npu_arch == 3510 and self.on_3510 is not None else self.function


RULES: dict[str, Rule] = {
    "duplicate": Rule("Duplicate", "fill", fill),
    "add": Rule("Add", "binary", add),
    "sub": Rule("Sub", "binary", sub),
    "mul": Rule("Mul", "binary", mul),
    "div": Rule("Div", "binary", div, _flushing(div)),
    "max": Rule("Max", "binary", maximum),
    "min": Rule("Min", "binary", minimum),
    "bitwise_and": Rule("And", "binary", _bits(np.bitwise_and)),
    "bitwise_or": Rule("Or", "binary", _bits(np.bitwise_or)),
    "adds": Rule("Adds", "scalar", add),
    "muls": Rule("Muls", "scalar", mul),
    "maxs": Rule("Maxs", "scalar", maximum),
    "mins": Rule("Mins", "scalar", minimum),
    "leaky_relu": Rule("LeakyRelu", "scalar", leaky_relu),
    "shift_left": Rule("ShiftLeft", "scalar", shift_left_keeping_sign, shift_left),
    "shift_right": Rule("ShiftRight", "scalar", shift_right),
    "axpy": Rule("Axpy", "axpy", axpy),
    "exp": Rule("Exp", "unary", exp, _flushing(exp)),
    "ln": Rule("Ln", "unary", ln, _flushing(ln)),
    "sqrt": Rule("Sqrt", "unary", sqrt, _flushing(sqrt)),
    "rsqrt": Rule("Rsqrt", "unary", rsqrt, _flushing(rsqrt)),
    "reciprocal": Rule("Reciprocal", "unary", reciprocal, _flushing(reciprocal)),
    "relu": Rule("Relu", "unary", relu),
    "abs": Rule("Abs", "unary", np.abs),
    "bitwise_not": Rule("Not", "unary", _bits(np.bitwise_not)),
    "add_relu": Rule("AddRelu", "binary", add_relu),
    "sub_relu": Rule("SubRelu", "binary", sub_relu),
    "fused_mul_add": Rule("FusedMulAdd", "fused", fused_mul_add),
    "fused_mul_add_relu": Rule("MulAddRelu", "fused", mul_add_relu),
    "mul_add_dst": Rule("MulAddDst", "multiply_add", mul_add_dst),
}
