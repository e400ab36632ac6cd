"""Words of L0A and L0B as numbers that products can be added up in (spec api_semantics.md 1.6, 12.1, 23)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.narrow_floats import decode_table, pair_table

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
COST_ROWS = {
    "float16": "half", "bfloat16": "bf16", "float32": "float", "int8": "int8", "int4": "int4", "hifloat8": "fp8",
    "fp8_e4m3fn": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip
"""Operand types of Mmad with their row in the card's cube table."""
MX_COST_ROWS = {"fp4x2_e2m1": "mxfp4", "fp4x2_e1m2": "mxfp4", "fp8_e4m3fn": "mxfp8", "fp8_e5m2": "mxfp8"}
"""The same of MmadMx."""
_WORDS: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16), "bfloat16": np.dtype(np.uint16), "float32": F32, "int8": np.dtype(np.int8),
}  # fmt: skip
_EXACT_K = 1024
"""Depth up to which any sum of int8 products is exact in float32: 1024 * 2^14 = 2^24."""
HF32_BITS = 10
"""Mantissa bits of float operands in HF32 mode on 950; the 2201 figure is not published."""
_INT4_PAIRS = np.stack([((np.arange(256) & 15) ^ 8) - 8, ((np.arange(256) >> 4) ^ 8) - 8], axis=1).astype(np.float32)


class Numbers:
    """How the words of one operand become numbers: `word` is the numpy type to read, calling it converts an array.

    `hf32` is "" or how float operands lose their low mantissa bits: "even" or "zero", what ties go to. `exact` asks for
    float64, in which products scaled by powers of two neither overflow nor vanish.
    """

    __slots__ = ("_kind", "_table", "bits", "hf32", "word")

    def __init__(self, dtype: DataType, k: int, hf32: str = "", exact: bool = False) -> None:
        self.bits = dtype.bits
        self.word: np.dtype[Any] = _WORDS.get(dtype.name, np.dtype(np.uint8))
        self.hf32 = hf32
        wide = exact or (dtype.is_int() and k > _EXACT_K)
        self._kind = F64 if wide else F32
        self._table: NDArray[Any] | None = None
        if dtype.name == "int4":
            self._table = _INT4_PAIRS.astype(self._kind)
        elif dtype.bits == 4:
            self._table = pair_table(dtype.name).astype(self._kind)
        elif dtype.bits == 8 and dtype.is_float():
            self._table = decode_table(dtype.name).astype(self._kind)

    def __call__(self, words: NDArray[Any]) -> NDArray[Any]:
        """The same shape in float32 or float64; 4-bit elements double the last axis."""
        if self._table is not None:
            numbers: NDArray[Any] = self._table[words]
            return numbers.reshape(*words.shape[:-1], -1) if self.bits == 4 else numbers
        if self.word == np.uint16:  # bfloat16 is the upper half of a float
            wide = words.astype(np.uint32, order="C")
            return (wide << np.uint32(16)).view(np.float32)
        if self.hf32:
            return hf32(words, self.hf32)
        return words.astype(self._kind, order="C")


def hf32(values: NDArray[Any], ties: str) -> NDArray[np.float32]:
    """float32 rounded to nearest in `HF32_BITS` mantissa bits, ties to "zero" or to "even"; inf and NaN stay."""
    drop = 23 - HF32_BITS
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    half = np.uint32((1 << drop - 1) - 1)
    odd = bits >> np.uint32(drop) & np.uint32(1) if ties == "even" else np.uint32(0)
    rounded = (bits + half + odd) & np.uint32(0xFFFF_FFFF << drop & 0xFFFF_FFFF)
    special = bits & np.uint32(0x7F80_0000) == np.uint32(0x7F80_0000)
    return np.where(special, bits, rounded).astype(np.uint32).view(np.float32)
