"""Numbers that a kernel passes as scalar operands, as bytes of an element type."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from aicore_sim.dtypes import DataType, encode_scalar
from aicore_sim.errors import ParameterError

_STRUCT = {"float16": struct.Struct("<e"), "float32": struct.Struct("<f"), "float64": struct.Struct("<d")}


def element_bytes(api: str, value: Any, dtype: DataType, field: str = "scalar") -> bytes:
    """`value` (a Python or numpy number) as one element of `dtype`; 4-bit types give a byte of two equal nibbles.

    Floats are rounded to the element type. Raises ParameterError for anything that is no number, for a fraction or an
    out-of-range number given to an integer type, and for types whose constants have no numeric form.
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


def overflows(value: Any, dtype: DataType) -> bool:
    """True if a finite number becomes infinite in this float type."""
    if dtype.np_dtype is None or not dtype.is_float() or not math.isfinite(float(value)):
        return False
    return not math.isfinite(float(np.frombuffer(encode_scalar(value, dtype), dtype.np_dtype)[0]))


def _range(dtype: DataType) -> tuple[int, int]:
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed() else (0, (1 << dtype.bits) - 1)
