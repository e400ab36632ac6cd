"""Numbers that a kernel passes as scalar operands, as bytes of an element type."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType, encode_scalar
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import low_bits
from aicore_sim.narrow_floats import NARROW, decode_table

_STRUCT = {"float16": struct.Struct("<e"), "float32": struct.Struct("<f"), "float64": struct.Struct("<d")}


def element_bytes(api: str, value: Any, dtype: DataType, field: str = "scalar") -> bytes:
    """`value` (a Python or numpy number) as one element of `dtype`; 4-bit types give a byte of two equal nibbles.

    Floats are rounded to the element type (`dtypes.encode_scalar`). Raises ParameterError for anything that is no number,
    for a fraction or an out-of-range number given to an integer type, and for a number that fp8_e8m0 has no code for.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or hasattr(value, "__len__"):  # float() also takes text and arrays of one element
        raise ParameterError(f"{api}: {field} must be a number", field=field, value=value, allowed=dtype.name)
    if dtype.is_int():
        if not number.is_integer():
            raise ParameterError(f"{api}: {field} must be a whole number", field=field, value=value, allowed=dtype.name)
        lo, hi = _range(dtype)
        if not lo <= int(value) <= hi:
            raise ParameterError(f"{api}: {field} does not fit {dtype.name}", field=field, value=value,
                                 allowed=f"{lo}..{hi}")  # fmt: skip
        if dtype.bits == 4:
            return encode_scalar(int(value), dtype)
        return int(value).to_bytes(dtype.bits // 8, "little", signed=lo < 0)
    if dtype.name in _STRUCT and math.isfinite(number):
        try:
            return _STRUCT[dtype.name].pack(number)
        except OverflowError:
            pass  # rounds to inf
    return encode_scalar(value, dtype)


def fitted_constant(value: float | int, dtype: DataType, card: Card, field: str = "", warnings: list[str] | None = None,
                    ) -> float | int:  # fmt: skip
    """`value`, or on a card that imitates the hardware what an integer type keeps of it, with a warning."""
    if not card.wrap or not dtype.is_int() or type(value) is not int:
        return value
    kept = low_bits(value, dtype.bits, dtype.is_signed())
    if kept == value:
        return value
    if warnings is not None:
        warnings.append(f"{field} = {value} does not fit {dtype.name} and becomes {kept}")
    return kept


def overflows(value: Any, dtype: DataType) -> bool:
    """True if a finite number becomes infinite (fp8_e4m3fn: NaN) in this float type; 4-bit floats keep to their largest."""
    if not dtype.is_float() or dtype.bits == 4 or not math.isfinite(float(value)):
        return False
    raw = encode_scalar(value, dtype)
    if dtype.name in NARROW:
        return not math.isfinite(float(decode_table(dtype.name)[raw[0]]))
    assert dtype.np_dtype is not None
    return not math.isfinite(float(np.frombuffer(raw, dtype.np_dtype)[0]))


def _range(dtype: DataType) -> tuple[int, int]:
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed() else (0, (1 << dtype.bits) - 1)
