"""What Fixpipe does to values on their way out of L0C: quantisation, ReLU, rounding (spec api_semantics.md 12.3, 25.1).

CTRL has its start values: floating results keep inf and NaN, integer results saturate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.narrow_floats import encode

F32 = np.dtype(np.float32)
_M1_BITS = np.uint32(0xFFFF_E000)
"""Bits of M1 that count: sign, exponent, the upper 10 of the mantissa."""
SIGN_BIT = 46


@dataclass(frozen=True)
class Mode:
    """One quantisation mode: the types it joins, whether a parameter word belongs to it, and if so one a column."""

    name: str
    src: str
    dst: tuple[str, ...]
    word: bool = False
    table: bool = False
    only_950: bool = False
    rounding: str = ""


_B8 = ("int8", "uint8")


def _both(value: int, name: str, src: str, dst: tuple[str, ...], only_950: bool = True, rounding: str = "") -> dict[int, Mode]:
    """The scalar form of a mode and, with the next value, its table form."""
    return {
        value: Mode(name, src, dst, True, False, only_950, rounding),
        value + 1: Mode("V" + name, src, dst, True, True, only_950, rounding),
    }


MODES: dict[int, Mode] = {
    0: Mode("NoQuant", "", ()),
    1: Mode("F322F16", "float32", ("float16",)),
    2: Mode("F322BF16", "float32", ("bfloat16",)),
    **_both(3, "DEQF16", "int32", ("float16",), False),
    **_both(5, "QF322B8_PRE", "float32", _B8, False),
    **_both(7, "REQ8", "int32", _B8, False),
    **_both(9, "QS322BF16_PRE", "int32", ("bfloat16",)),
    **_both(11, "QF322F16_PRE", "float32", ("float16",)),
    **_both(13, "QF322BF16_PRE", "float32", ("bfloat16",)),
    **_both(15, "QF322F32_PRE", "float32", ("float32",)),
    **_both(17, "QF322FP8_PRE", "float32", ("fp8_e4m3fn",)),
    **_both(19, "QF322HIF8_PRE", "float32", ("hifloat8",)),
    **_both(21, "QF322HIF8_PRE_HYBRID", "float32", ("hifloat8",), rounding="hybrid"),
}
"""By value of QuantModes; those above 8 have no published value."""
LAST_OF_2201 = 8


def factor_fault(word: int) -> str:
    """"" if M1 of a parameter word is a number that the unit takes, else what it is."""
    bits = word & int(_M1_BITS)
    exponent = bits >> 23 & 0xFF
    if exponent == 0xFF:
        return "inf or NaN"
    return "subnormal" if exponent == 0 and bits & 0x7F_FFFF else ""


class Conversion:
    """Elements of L0C to words of the destination type.

    Called with values [block, row, column of 16] (float32 or int32) and the parameter words that broadcast over them (None
    without), it gives an array of the same shape: of the destination's numpy type, for 8-bit types of bytes. `shifts` says
    whether MCB acts (2201); `clip` is the upper bound of clip-ReLU, None without.
    """

    __slots__ = ("_clip", "_dst", "_mode", "_relu", "_shifts", "word_type")

    def __init__(self, dst: DataType, mode: Mode, relu: bool, shifts: bool = False, clip: float | None = None) -> None:
        self._dst, self._mode, self._relu, self._shifts, self._clip = dst, mode, relu, shifts, clip
        self.word_type: np.dtype[Any] = np.dtype(np.uint8)
        if dst.bits > 8:
            assert dst.np_dtype is not None
            self.word_type = dst.np_dtype

    def __call__(self, values: NDArray[Any], words: NDArray[np.uint64] | None) -> NDArray[Any]:
        if words is None and not self._relu and self._clip is None and values.dtype == self.word_type:
            return np.ascontiguousarray(values)
        with np.errstate(all="ignore"):
            if words is None:
                if self._relu:
                    values = np.maximum(values, values.dtype.type(0))
                return self._rounded(self._clipped(values))
            scaled = self._clipped(self._scaled(values, words))
            return _to_8_bits(scaled, words) if self._dst.is_int() else self._rounded(scaled)

    def _scaled(self, values: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.float32]:
        """x * M1; with ReLU negative x times 0."""
        if self._shifts and values.dtype != F32:
            values = _shifted(values, words)
        numbers = values.astype(np.float32)
        factor = (words.astype(np.uint32) & _M1_BITS).view(np.float32)
        if self._relu:
            factor = np.where(numbers < 0, np.float32(0), factor)
        product: NDArray[np.float32] = numbers * factor
        return product

    def _clipped(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self._clip is None else np.minimum(values, values.dtype.type(self._clip))

    def _rounded(self, values: NDArray[Any]) -> NDArray[Any]:
        if self._dst.bits == 8:
            return encode(values, self._dst.name, self._mode.rounding)
        if values.dtype == self.word_type:
            return np.ascontiguousarray(values)
        return values.astype(self.word_type, order="C")


def _shifted(values: NDArray[np.int32], words: NDArray[np.uint64]) -> NDArray[np.int32]:
    """int32 where MCB is 0, else shifted right by N (1..16) and held in int16 (saturating)."""
    steps = (words >> np.uint64(32) & np.uint64(15)).astype(np.int32) + 1
    small = np.clip(values >> steps, -(2**15), 2**15 - 1)
    chosen: NDArray[np.int32] = np.where(words >> np.uint64(36) & np.uint64(1) == 1, small, values)
    return chosen


def _to_8_bits(scaled: NDArray[np.float32], words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Clip, round to nearest even, add the offset, saturate to int8 or uint8 as bit 46 of the word says. NaN counts as 0."""
    offset = (words >> np.uint64(37) & np.uint64(0x1FF)).astype(np.int32)
    offset = offset - (offset >> 8 << 9)
    signed = words >> np.uint64(SIGN_BIT) & np.uint64(1) == 1
    whole = np.rint(np.clip(np.nan_to_num(scaled, nan=0.0, posinf=np.inf, neginf=-np.inf), -256, 255)).astype(np.int32)
    total = np.clip(whole + offset, np.where(signed, -128, 0), np.where(signed, 127, 255))
    codes: NDArray[np.uint8] = total.astype(np.uint8)
    return codes
