"""Element types and the class that lists them."""

from __future__ import annotations

from aicore_sim import dtypes
from aicore_sim.dtypes import (
    DataType,
    double,
    float16,
    float32,
    float64,
    float_,
    half,
    int8,
    int16,
    int32,
    int64,
    int_,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)

int1 = bit = bool_ = int8
"""A bool is an int8 on the device."""

__all__ = [
    "DataType", "KnownTypes", "bit", "bool_", "double", "float16", "float32", "float64", "float_", "half", "int1",
    "int8", "int16", "int32", "int64", "int_", "uint8", "uint16", "uint32", "uint64", "void",
]  # fmt: skip


class KnownTypes:
    """All element types by name (spec pyasc.md 4, 13); those pyasc lacks are here too."""

    void = dtypes.void
    int1 = bit = bool_ = dtypes.int8
    int4 = dtypes.int4
    int8 = dtypes.int8
    int16 = dtypes.int16
    int32 = int_ = dtypes.int32
    int64 = dtypes.int64
    uint8 = dtypes.uint8
    uint16 = dtypes.uint16
    uint32 = dtypes.uint32
    uint64 = dtypes.uint64
    float16 = half = dtypes.float16
    bfloat16 = dtypes.bfloat16
    float32 = float_ = dtypes.float32
    float64 = double = dtypes.float64
