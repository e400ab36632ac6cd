"""Floating types of 8 and 4 bits as numbers and back (spec api_semantics.md 23).

`decode_table` gives the value of every code, `encode` the code of every value. Types are named as in `dtypes`; numpy has
none for hifloat8 and fp4x2_e1m2, those that ml_dtypes has are taken from there. Codes are unsigned bytes; 4-bit types use
the low nibble.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]
Floats = NDArray[np.float32]

NARROW = ("hifloat8", "fp4x2_e2m1", "fp4x2_e1m2", "fp8_e4m3fn", "fp8_e5m2", "fp8_e8m0")
"""Names of the types that this module knows."""
MODES = {
    "hifloat8": ("round", "hybrid"), "fp4x2_e2m1": ("rint", "floor", "ceil", "round", "trunc"),
    "fp4x2_e1m2": ("rint", "floor", "ceil", "round", "trunc"), "fp8_e4m3fn": ("rint",), "fp8_e5m2": ("rint",),
    "fp8_e8m0": ("rint",),
}  # fmt: skip
"""Roundings of `encode` by type, the default first: rint = half to even, round = half away from zero."""
_ML_TYPES: dict[str, Any] = {
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2, "fp8_e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
_FP4: dict[str, tuple[float, ...]] = {
    "fp4x2_e2m1": (0, 0.5, 1, 1.5, 2, 3, 4, 6),
    "fp4x2_e1m2": (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75),
}
_LARGEST = {"hifloat8": 32768.0, "fp8_e4m3fn": 448.0, "fp8_e5m2": 57344.0, "fp8_e8m0": 2.0**127}
_SIGN8, _SIGN4 = np.uint8(0x80), np.uint8(0x8)
HIF8_NAN, HIF8_INF, HIF8_MAX = 0x80, 0x6F, 0x6E


# ---- decoding -------------------------------------------------------------------------------------------------------
@cache
def decode_table(name: str) -> Floats:
    """The float32 value of every code: 256 entries, 16 for 4-bit types. Read-only."""
    if name == "hifloat8":
        table = np.array([_hif8_value(code) for code in range(256)], np.float32)
    elif name in _FP4:
        positive = np.array(_FP4[name], np.float32)
        table = np.concatenate([positive, -positive])
    else:
        with np.errstate(over="ignore"):
            table = np.arange(256, dtype=np.uint8).view(_ML_TYPES[name]).astype(np.float32)
    table.flags.writeable = False
    return table


@cache
def pair_table(name: str) -> Floats:
    """[256, 2]: the two values of every byte of a 4-bit type, low nibble first. Read-only."""
    byte, table = np.arange(256), decode_table(name)
    pairs = np.stack([table[byte & 15], table[byte >> 4]], axis=1)
    pairs.flags.writeable = False
    return pairs


def decode(codes: Codes, name: str) -> Floats:
    """The numbers of an array of codes, one code an item."""
    return decode_table(name)[codes]


def _hif8_value(code: int) -> float:
    """One HiFloat8 code by the table of its prefix: sign, prefix (dot), exponent, mantissa."""
    sign, rest = (-1.0 if code & 0x80 else 1.0), code & 0x7F
    if rest == 0:
        return float("nan") if code else 0.0
    if rest == HIF8_INF:
        return sign * float("inf")
    if rest < 0x08:  # 0000 mmm
        return sign * 2.0 ** (rest - 23)
    if rest < 0x10:  # 0001 mmm
        return sign * (1 + (rest & 7) / 8)
    width, fraction_bits = next(
        (width, bits) for first, width, bits in ((0x60, 4, 1), (0x40, 3, 2), (0x20, 2, 3), (0x10, 1, 3)) if rest >= first
    )
    exponent = rest >> fraction_bits & (1 << width) - 1
    magnitude = (1 << width - 1) | (exponent & (1 << width - 1) - 1)
    if exponent >> width - 1:
        magnitude = -magnitude
    return float(sign * 2.0**magnitude * (1 + (rest & (1 << fraction_bits) - 1) / (1 << fraction_bits)))


# ---- encoding -------------------------------------------------------------------------------------------------------
def encode(values: Any, name: str, rounding: str = "", saturate: bool = False) -> Codes:
    """The codes of an array of numbers, rounded by one of `MODES[name]` ("" for its first).

    `saturate` turns inf and what overflows into the largest finite value and NaN into 0; otherwise inf and NaN stay as far
    as the type has them (fp8_e4m3fn: both NaN; 4-bit types have neither and always saturate). Hybrid rounding of half
    looks at half's bits, any other number is taken as float32. Raises ValueError for a rounding that the type lacks.
    """
    mode = rounding or MODES[name][0]
    if mode not in MODES[name]:
        raise ValueError(f"{name} has no rounding {mode!r}: {', '.join(MODES[name])}")
    shape = np.shape(values)
    given = np.atleast_1d(np.asarray(values))
    half = given if given.dtype == np.float16 and mode == "hybrid" else None
    with np.errstate(over="ignore", invalid="ignore"):
        numbers: Floats = given.astype(np.float32)
        if name in _FP4:
            codes = _encode_fp4(numbers, name, mode)
        elif name == "hifloat8":
            codes = _encode_hif8(numbers, mode, saturate, half)
        else:
            if saturate:
                limit = np.float32(_LARGEST[name])
                numbers = np.clip(np.where(np.isnan(numbers), np.float32(0), numbers), -limit, limit)
            codes = numbers.astype(_ML_TYPES[name]).view(np.uint8)
    return codes.reshape(shape)


def _encode_fp4(numbers: Floats, name: str, mode: str) -> Codes:
    table = np.array(_FP4[name], np.float32)
    size = np.minimum(np.where(np.isnan(numbers), np.float32(0), np.abs(numbers)), table[-1])
    below = np.searchsorted(table, size, side="right") - 1
    above = np.minimum(below + 1, len(table) - 1)
    left, right = size - table[below], table[above] - size
    if mode in ("floor", "ceil"):
        away = np.signbit(numbers) == (mode == "floor")
        up = away & (left > 0)
    elif mode == "trunc":
        up = np.zeros(size.shape, np.bool_)
    else:
        tie = below % 2 == 1 if mode == "rint" else np.ones(size.shape, np.bool_)
        up = (left > right) | ((left == right) & (left > 0) & tie)
    codes: Codes = np.where(up, above, below).astype(np.uint8)
    return codes | np.where(np.signbit(numbers) & ~np.isnan(numbers), _SIGN4, np.uint8(0))


@cache
def _hif8_sizes() -> tuple[Floats, Codes]:
    """The non-negative finite values in ascending order, then the place of infinity (1.5 * 2^15), with their codes."""
    table = decode_table("hifloat8")[:0x80].copy()
    table[HIF8_INF] = 1.5 * 2.0**15
    order = np.argsort(table)
    return table[order], order.astype(np.uint8)


def _encode_hif8(numbers: Floats, mode: str, saturate: bool, half: NDArray[np.float16] | None) -> Codes:
    """Round the mantissa to the bits that the exponent leaves, then look the result up (spec 23.1)."""
    finite = np.isfinite(numbers)
    size = np.where(finite, np.abs(numbers), np.float32(0))
    exponent = np.frexp(size)[1].astype(np.int64) - 1
    reach = np.abs(exponent)
    kept = np.select([reach <= 3, reach <= 7, reach <= 15], [3, 2, 1], 0)
    fraction = np.ldexp(size.astype(np.float64), 23 - exponent).astype(np.int64) & 0x7FFFFF
    dropped = 23 - kept
    whole = fraction >> dropped
    # 2^-22 is the smallest value: from its half on, everything is rounded up to it.
    lowest = exponent == -23
    up = (fraction >> dropped - 1 & 1 == 1) | lowest
    if mode == "hybrid":
        up = np.where(reach >= 4, _hybrid(fraction, dropped, lowest, half), up)
    unit = np.ldexp(1.0, np.where(lowest, -22, exponent - kept).astype(np.int32))
    steps = np.where(lowest, 0, (1 << kept) + whole) + up
    rounded = np.where((size == 0) | (exponent < -23), 0.0, steps * unit)
    sizes, code_of = _hif8_sizes()
    codes: Codes = code_of[np.searchsorted(sizes, np.minimum(rounded, sizes[-1]))]
    codes[np.isinf(numbers)] = HIF8_INF
    if saturate:
        codes[codes == HIF8_INF] = HIF8_MAX
    codes[np.signbit(numbers) & (codes != 0)] |= _SIGN8  # there is no -0: 0x80 is NaN
    codes[np.isnan(numbers)] = 0 if saturate else HIF8_NAN
    return codes


def _hybrid(
    fraction: NDArray[np.int64], dropped: NDArray[np.int64], lowest: NDArray[np.bool_], half: NDArray[np.float16] | None
) -> NDArray[np.bool_]:
    """Whether hybrid rounding goes up: the bits behind the kept ones against a threshold out of the number's own low bits."""
    if half is None:
        threshold = fraction & 0x3FFF
        behind = np.where(lowest, (1 << 13) | fraction >> 10, (fraction & (1 << dropped) - 1) >> dropped - 14)
    else:
        threshold = (half.view(np.uint16).astype(np.int64) & 1) << 1 | 1
        behind = np.where(lowest, 2 | fraction >> 22, (fraction & (1 << dropped) - 1) >> dropped - 2)
    return np.asarray(behind >= threshold)
