"""Run-time values of a kernel: the ints and floats that pyasc would compute on the scalar unit (spec pyasc.md 3).

A recording runs ahead of the device with known numbers, so a run-time value is simply a Python number whose operators
follow the device's rules: integer division truncates toward zero, the remainder has the sign of the dividend, and of
two operands the left run-time value decides the type. Values are exact: a result that leaves its type is kept, not
wrapped.
"""

from __future__ import annotations

from builtins import range as _range
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Self, overload

import numpy as np

from aicore_sim import dtypes
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError

__all__ = ["ConstExpr", "ceildiv", "inline", "number", "range", "static_assert", "static_range"]

_NUMBERS = (int, float, np.integer, np.floating)


def _quotient(left: int, right: int) -> int:
    """Division toward zero, exact for ints of any size."""
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


class RuntimeInt(int):
    """An int of a kernel at run time (int32; the subclasses below carry the other integer types).

    The other operand of an operator is cast to int first (`value + 1.5` adds 1). Equality compares exact numbers, so a
    RuntimeInt is interchangeable with the int of its value as index, slice bound, dict key and numpy argument.
    """

    __slots__ = ()
    dtype: DataType = dtypes.int32

    def __add__(self, other: Any) -> Self:
        return type(self)(int.__add__(self, int(other))) if isinstance(other, _NUMBERS) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return type(self)(int.__sub__(self, int(other))) if isinstance(other, _NUMBERS) else NotImplemented

    def __rsub__(self, other: Any) -> Self:
        return type(self)(int.__rsub__(self, int(other))) if isinstance(other, _NUMBERS) else NotImplemented

    def __mul__(self, other: Any) -> Self:
        return type(self)(int.__mul__(self, int(other))) if isinstance(other, _NUMBERS) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        return type(self)(_quotient(self, int(other))) if isinstance(other, _NUMBERS) else NotImplemented

    def __rtruediv__(self, other: Any) -> Self:
        return type(self)(_quotient(int(other), self)) if isinstance(other, _NUMBERS) else NotImplemented

    __floordiv__ = __truediv__
    __rfloordiv__ = __rtruediv__

    def __mod__(self, other: Any) -> Self:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        left, right = int(self), int(other)
        return type(self)(left - right * _quotient(left, right))

    def __rmod__(self, other: Any) -> Self:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        left, right = int(other), int(self)
        return type(self)(left - right * _quotient(left, right))

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self / other, self % other

    def __lshift__(self, other: Any) -> Self:
        return type(self)(int.__lshift__(self, int(other)))

    def __rlshift__(self, other: Any) -> Self:
        return type(self)(int.__rlshift__(self, int(other)))

    def __rshift__(self, other: Any) -> Self:
        return type(self)(int.__rshift__(self, int(other)))

    def __rrshift__(self, other: Any) -> Self:
        return type(self)(int.__rrshift__(self, int(other)))

    def __and__(self, other: Any) -> Self:
        return type(self)(int.__and__(self, int(other)))

    __rand__ = __and__

    def __or__(self, other: Any) -> Self:
        return type(self)(int.__or__(self, int(other)))

    __ror__ = __or__

    def __xor__(self, other: Any) -> Self:
        return type(self)(int.__xor__(self, int(other)))

    __rxor__ = __xor__

    def __neg__(self) -> Self:
        return type(self)(int.__neg__(self))

    def __pos__(self) -> Self:
        return self

    def __lt__(self, other: Any) -> bool:
        return int.__lt__(self, int(other) if isinstance(other, float) else other)

    def __le__(self, other: Any) -> bool:
        return int.__le__(self, int(other) if isinstance(other, float) else other)

    def __gt__(self, other: Any) -> bool:
        return int.__gt__(self, int(other) if isinstance(other, float) else other)

    def __ge__(self, other: Any) -> bool:
        return int.__ge__(self, int(other) if isinstance(other, float) else other)

    def __pow__(self, *_: Any) -> NoReturn:
        raise UnsupportedError("** has no device instruction for run-time values", field="operator", value="**")

    __rpow__ = __pow__

    def __invert__(self) -> NoReturn:
        raise UnsupportedError("~ has no device instruction for run-time values", field="operator", value="~")

    def ceildiv(self, other: Any) -> Self:
        """Signed ceiling division."""
        return type(self)(-(-int(self) // int(other)))

    def logical_and(self, other: Any) -> bool:
        return bool(self) and bool(other)

    def logical_or(self, other: Any) -> bool:
        return bool(self) or bool(other)

    def cast(self, dtype: DataType) -> RuntimeInt | RuntimeFloat:
        """The value in another type: to an int type the low bits are kept, to a float type only of the same width.

        Raises UnsupportedError (a NotImplementedError) for other pairs (spec pyasc.md 3).
        """
        if dtype.is_int():
            return INT_TYPES[dtype.name](_low_bits(self, dtype))
        if dtype.is_float() and dtype.bits == self.dtype.bits:
            return RuntimeFloat(float(self), dtype)
        raise _no_cast(self.dtype, dtype)


def _of_type(dtype: DataType) -> type[RuntimeInt]:
    return type(f"Runtime_{dtype.name}", (RuntimeInt,), {"__slots__": (), "dtype": dtype})


INT_TYPES: dict[str, type[RuntimeInt]] = {
    "int32": RuntimeInt,
    **{
        t.name: _of_type(t)
        for t in (dtypes.int8, dtypes.int16, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
    },
}


def _low_bits(value: int, dtype: DataType) -> int:
    kept = int(value) & ((1 << dtype.bits) - 1)
    return kept - (1 << dtype.bits) if dtype.is_signed() and kept >> (dtype.bits - 1) else kept


def _no_cast(source: DataType, target: DataType) -> UnsupportedError:
    return UnsupportedError(
        f"no scalar cast from {source} to {target}", field="dtype", value=target.name,
        allowed="int to int, float to float, int to or from float of the same width",
    )  # fmt: skip


class RuntimeFloat(float):
    """A float of a kernel at run time, rounded to its element type (float32 unless given)."""

    __slots__ = ("dtype",)
    dtype: DataType

    def __new__(cls, value: Any = 0.0, dtype: DataType = dtypes.float32) -> RuntimeFloat:
        if dtype.np_dtype is None or not dtype.is_float():
            raise ParameterError("a run-time float needs a float type", field="dtype", value=dtype.name)
        with np.errstate(over="ignore"):
            self = super().__new__(cls, float(np.asarray(float(value)).astype(dtype.np_dtype)))
        self.dtype = dtype
        return self

    def _new(self, value: float) -> RuntimeFloat:
        return RuntimeFloat(value, self.dtype)

    def _other(self, value: Any) -> float:
        return float(RuntimeFloat(value, self.dtype))

    def __add__(self, other: Any) -> RuntimeFloat:
        return self._new(float.__add__(self, self._other(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> RuntimeFloat:
        return self._new(float.__sub__(self, self._other(other)))

    def __rsub__(self, other: Any) -> RuntimeFloat:
        return self._new(float.__rsub__(self, self._other(other)))

    def __mul__(self, other: Any) -> RuntimeFloat:
        return self._new(float.__mul__(self, self._other(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> RuntimeFloat:
        return self._new(float(np.divide(float(self), self._other(other))))

    def __rtruediv__(self, other: Any) -> RuntimeFloat:
        return self._new(float(np.divide(self._other(other), float(self))))

    __floordiv__ = __truediv__
    __rfloordiv__ = __rtruediv__

    def __neg__(self) -> RuntimeFloat:
        return self._new(float.__neg__(self))

    def __pos__(self) -> RuntimeFloat:
        return self

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnsupportedError("run-time floats have + - * / and comparisons only", field="operator")

    __mod__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = _refuse

    def cast(self, dtype: DataType) -> RuntimeInt | RuntimeFloat:
        """The value in another type; to an int type of the same width it truncates toward zero."""
        if dtype.is_float():
            return RuntimeFloat(float(self), dtype)
        if dtype.is_int() and dtype.bits == self.dtype.bits:
            return INT_TYPES[dtype.name](int(self))
        raise _no_cast(self.dtype, dtype)


def runtime_int(value: Any) -> RuntimeInt:
    """`value` as an int32 of the kernel; a RuntimeInt stays what it is, floats truncate."""
    return value if isinstance(value, RuntimeInt) else RuntimeInt(value)


def number(value: Any, dtype: DataType) -> RuntimeInt | RuntimeFloat:
    """A typed constant. Raises ParameterError if an integer type does not hold it."""
    if dtype.is_float():
        return RuntimeFloat(value, dtype)
    if dtype.name not in INT_TYPES:
        raise ParameterError("no scalar of this type", field="dtype", value=dtype.name, allowed=", ".join(INT_TYPES))
    whole = int(value)
    if _low_bits(whole, dtype) != whole:
        raise ParameterError("constant outside its type", field="value", value=value, allowed=f"{dtype.name}")
    return INT_TYPES[dtype.name](whole)


def runtime_value(value: Any) -> Any:
    """What a host number becomes inside a kernel: bool int8, int int32, float float32, numpy scalars their own type.

    Anything else is returned unchanged (spec pyasc.md 2, 13). Raises ValueError for numpy bools.
    """
    if isinstance(value, (RuntimeInt, RuntimeFloat)):
        return value
    if isinstance(value, bool):
        return INT_TYPES["int8"](value)
    if isinstance(value, int):
        return RuntimeInt(value)
    if isinstance(value, float):
        return RuntimeFloat(value)
    if isinstance(value, np.generic):
        return number(value.item(), dtypes.of_numpy(value.dtype))
    return value


def ceildiv(x: int, y: int) -> int:
    """`(x + y - 1) // y` on Python ints; on run-time values their own signed ceiling division."""
    if isinstance(x, RuntimeInt):
        return x.ceildiv(y)
    return (x + y - 1) // y


# ---- loops ----------------------------------------------------------------------------------------------------------
@overload
def range(stop: int, /) -> Iterator[RuntimeInt]: ...
@overload
def range(start: int, stop: int, step: int = 1, /) -> Iterator[RuntimeInt]: ...
def range(*bounds: Any) -> Iterator[RuntimeInt]:
    """`for (i = start; i < stop; i += step)` with bounds cast to int; a negative step runs zero times (pyasc.md 13).

    Raises ParameterError for a step of 0.
    """
    start, stop, step = _bounds(bounds)
    return map(RuntimeInt, _range(start, stop, step) if step > 0 else ())


def static_range(*bounds: Any) -> Sequence[int]:
    """A loop that is unrolled: the variable is a compile-time int, a negative step counts down as in Python.

    Raises ParameterError for a step of 0.
    """
    return _range(*_bounds(bounds))


def _bounds(bounds: tuple[Any, ...]) -> tuple[int, int, int]:
    """Start, stop and step of a loop."""
    if not 1 <= len(bounds) <= 3:
        raise ParameterError("range takes one to three bounds", field="bounds", value=bounds)
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if int(step) == 0:
        raise ParameterError("a loop needs a step", field="step", value=0, allowed=">= 1")
    return int(start), int(stop), int(step)


# ---- compile-time utilities -----------------------------------------------------------------------------------------
class ConstExpr:
    """Annotation of a compile-time parameter: `asc.ConstExpr` (any value) or `asc.ConstExpr[int]` (type checked)."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any = None) -> None:
        self.kind = kind

    def __class_getitem__(cls, kind: Any) -> ConstExpr:
        return cls(kind)

    def __repr__(self) -> str:
        return f"ConstExpr[{getattr(self.kind, '__name__', self.kind)}]"


def static_assert(condition: bool, message: str = "") -> None:
    """Raises ParameterError if `condition` is false."""
    if not condition:
        raise ParameterError(f"static assertion failed{': ' + message if message else ''}", field="condition")


def inline(code: str, args: Any = None, before_function: bool = False) -> NoReturn:
    """Raw C++ text cannot run here. Raises UnsupportedError."""
    raise UnsupportedError("raw C++ text cannot be simulated", field="code", value=code)
