"""Cast: which conversions and rounding modes a card has, and their values (spec api_semantics.md 25.3).

Values follow the start state of the control register: INF/NAN for floats, clamping for integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.vector import Work, check_kinds
from aicore_sim.instructions.vector_math import Array

Doubles = NDArray[np.float64]

MODES = ("CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD", "CAST_HYBRID")
"""Rounding modes by value (pyasc's RoundMode)."""

_N = frozenset({"CAST_NONE"})
_5 = frozenset({"CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC"})
_RINT = frozenset({"CAST_RINT"})
_LATER: frozenset[str] = frozenset()

# (from, to): modes. An empty set: the card has the conversion, this package does not yet.
Table = dict[tuple[str, str], frozenset[str]]

_COMMON: Table = {
    ("int8", "float16"): _N, ("uint8", "float16"): _N,
    ("int16", "float16"): _5 | _N, ("int16", "float32"): _N,
    ("float16", "int8"): _5 | _N, ("float16", "uint8"): _5 | _N, ("float16", "int16"): _5, ("float16", "int32"): _5,
    ("float16", "float32"): _N,
    ("bfloat16", "int32"): _5, ("bfloat16", "float32"): _N,
    ("int32", "int16"): _N, ("int32", "int64"): _N, ("int32", "float32"): _5 | _N,
    ("float32", "int16"): _5, ("float32", "int32"): _5, ("float32", "int64"): _5, ("float32", "bfloat16"): _5,
    ("float32", "float32"): _5, ("float32", "float16"): _5 | _N | {"CAST_ODD"},
    ("int64", "int32"): _N, ("int64", "float32"): _5,
}  # fmt: skip
_2201: Table = {
    **_COMMON,
    ("int4", "float16"): _N, ("float16", "int4"): _5 | _N,
    ("int32", "float16"): _N,  # by the scale of SetDeqScale: `vector_convert.cast_work`
}  # fmt: skip
_3002: Table = {**_COMMON, ("int32", "float16"): _N}
_3510: Table = {
    **_2201,
    ("float16", "bfloat16"): _5, ("bfloat16", "float16"): _5,
    ("bfloat16", "fp4x2_e2m1"): _5, ("fp4x2_e2m1", "bfloat16"): _N,
    ("bfloat16", "fp4x2_e1m2"): _LATER, ("fp4x2_e1m2", "bfloat16"): _LATER,
    ("float32", "fp8_e5m2"): _RINT, ("float32", "fp8_e4m3fn"): _RINT,
    ("fp8_e5m2", "float32"): _N, ("fp8_e4m3fn", "float32"): _N,
    ("float16", "hifloat8"): _LATER, ("float32", "hifloat8"): _LATER,
    ("hifloat8", "float16"): _LATER, ("hifloat8", "float32"): _LATER,
    ("int64", "float64"): _LATER, ("float64", "bfloat16"): _LATER, ("float64", "int32"): _LATER,
    ("float64", "float32"): _LATER, ("float64", "int64"): _LATER,
    ("int4", "int16"): _N, ("int4", "bfloat16"): _N,
    ("int8", "int16"): _N, ("int8", "int32"): _N,
    ("uint8", "uint16"): _N, ("uint8", "uint32"): _N,
    ("int16", "int4"): _N, ("int16", "uint8"): _N, ("int16", "int32"): _N, ("int16", "uint32"): _N,
    ("uint16", "uint8"): _N, ("uint16", "uint32"): _N,
    ("int32", "uint8"): _N, ("int32", "uint16"): _N,
    ("uint32", "uint8"): _N, ("uint32", "int16"): _N, ("uint32", "uint16"): _N,
}  # fmt: skip
TABLES: dict[int, Table] = {2201: _2201, 3002: _3002, 3510: _3510}

# Pairs whose CAST_NONE is in the common table, while the API page of 3510 names the five rounding modes only.
_NONE_UNLISTED_ON_3510 = {("int16", "float16"), ("float16", "int4"), ("float16", "int8"), ("float16", "uint8"),
                          ("int32", "float32")}  # fmt: skip


@dataclass(frozen=True)
class FloatFormat:
    """Explicit mantissa bits, exponent of the smallest normal, largest finite value, and what lies beyond it.

    `beyond` is "inf", "nan" (no inf in the format) or "max" (neither: NaN becomes 0).
    """

    mantissa: int
    min_exponent: int
    largest: float
    beyond: str = "inf"


FORMATS: dict[str, FloatFormat] = {
    "float16": FloatFormat(10, -14, 65504.0),
    "bfloat16": FloatFormat(7, -126, (2 - 2.0**-7) * 2.0**127),
    "float32": FloatFormat(23, -126, (2 - 2.0**-23) * 2.0**127),
    "fp8_e5m2": FloatFormat(2, -14, 57344.0),
    "fp8_e4m3fn": FloatFormat(3, -6, 448.0, "nan"),
    "fp4x2_e2m1": FloatFormat(1, 0, 6.0, "max"),
}


def round_whole(x: Doubles, mode: str) -> Doubles:
    """Round to whole numbers; the sign of zero stays, inf and NaN pass. CAST_NONE is CAST_RINT."""
    if mode in ("CAST_RINT", "CAST_NONE"):
        return np.rint(x)
    if mode == "CAST_FLOOR":
        return np.floor(x)
    if mode == "CAST_CEIL":
        return np.ceil(x)
    whole = np.trunc(x)
    if mode == "CAST_ROUND":  # half away from zero
        up = np.abs(x - whole) >= 0.5
    elif mode == "CAST_ODD":  # truncated; the last bit becomes 1 if anything was lost
        up = (whole != x) & (np.fmod(whole, 2) == 0)
    else:
        return whole
    return np.where(up, whole + np.copysign(1.0, x), whole)


def quantise(x: Doubles, form: FloatFormat, mode: str) -> Doubles:
    """Round to the numbers of a float format, subnormals included; beyond its largest as `FloatFormat.beyond` says."""
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, form.min_exponent) - form.mantissa
    rounded = np.ldexp(round_whole(np.ldexp(x, -quantum), mode), quantum)
    rounded = np.where(np.isfinite(x), rounded, x)
    over = np.abs(rounded) > form.largest
    if form.beyond == "max":
        clamped = np.where(over, np.copysign(form.largest, rounded), rounded)
        return np.where(np.isnan(clamped), 0.0, clamped)
    limit = np.inf if form.beyond == "inf" else np.nan
    return np.where(over, np.copysign(limit, rounded), rounded)


def _exact(a: Array) -> Doubles:
    """The values as doubles, exact but for int64 beyond 53 bits: those keep 53 bits and a sticky last one.

    A sticky bit (set if anything was cut) leaves every rounding to fewer bits as it would have been.
    """
    if a.dtype == np.int64:
        cut = ((a >> 11) | (a & 0x7FF != 0)).astype(np.float64) * 2048.0
        return np.where(np.abs(a.astype(np.float64)) >= 2.0**53, cut, a.astype(np.float64))
    return a.astype(np.float64)


def to_float(a: Array, target: DataType, mode: str) -> Array:
    """Any source to a float type."""
    assert target.np_dtype is not None
    if mode in ("CAST_RINT", "CAST_NONE") and a.dtype == np.float32 and target.name in ("float16", "bfloat16"):
        return a.astype(target.np_dtype)
    return quantise(_exact(a), FORMATS[target.name], mode).astype(target.np_dtype)


def to_whole_float(a: Array, mode: str) -> Array:
    """float to float: whole numbers, -0 becomes +0, inf and NaN stay."""
    whole: Array = (round_whole(a.astype(np.float64), mode) + 0.0).astype(a.dtype)
    return whole


def _limits(target: DataType) -> tuple[int, int]:
    if target.is_signed():
        return -(1 << target.bits - 1), (1 << target.bits - 1) - 1
    return 0, (1 << target.bits) - 1


def float_to_int(a: Array, target: DataType, mode: str) -> Array:
    """Rounded, clamped to the integer type; NaN gives 0."""
    assert target.np_dtype is not None
    lo, hi = _limits(target)
    whole = round_whole(a.astype(np.float64), mode)
    top = float(hi) if target.bits < 64 else float(np.nextafter(2.0**63, 0))
    kept = np.where(np.isnan(whole), 0.0, np.clip(whole, lo, top)).astype(np.int64)
    if target.bits == 64:
        kept = np.where(whole > top, hi, kept)
    return kept.astype(target.np_dtype)


def int_to_int(a: Array, target: DataType) -> Array:
    """Clamped to the integer type."""
    assert target.np_dtype is not None
    lo, hi = _limits(target)
    return np.clip(a.astype(np.int64), lo, hi).astype(target.np_dtype)


def widen(a: Array, target: DataType) -> Array:
    """A conversion that keeps every value."""
    assert target.np_dtype is not None
    return a.astype(target.np_dtype)


def work_of(dtypes: tuple[DataType, ...], kinds: tuple[str, ...], mode: int, card: Card) -> Work:
    """The checked Cast; `dtypes` and `kinds` of destination and source, `mode` is a RoundMode value.

    Raises ParameterError for a mode that the pair does not have, UnsupportedError for a pair that the card or this
    package does not have; both list what there is.
    """
    api = "Cast"
    dst, src = dtypes
    check_kinds(api, kinds, card)
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode < len(MODES):
        raise ParameterError(f"{api}: round_mode", field="round_mode", value=mode, allowed=", ".join(MODES),
                             card=card.name)  # fmt: skip
    table = TABLES[card.npu_arch]
    pair = (src.name, dst.name)
    modes = table.get(pair)
    if modes is None:
        targets = [to for source, to in table if source == src.name]
        raise UnsupportedError(f"{api}: this card does not convert {src.name} to {dst.name}", field="dtype",
                               value=dst.name, allowed=", ".join(targets) or f"nothing from {src.name}",
                               card=card.name)  # fmt: skip
    if not modes:
        raise UnsupportedError(f"{api}: {src.name} to {dst.name} is not in this version", field="dtype", value=dst.name,
                               card=card.name)  # fmt: skip
    name = MODES[mode]
    if name not in modes:
        raise ParameterError(f"{api}: {src.name} to {dst.name} does not have this mode", field="round_mode", value=name,
                             allowed=", ".join(m for m in MODES if m in modes), card=card.name)  # fmt: skip
    warnings: tuple[str, ...] = ()
    if name == "CAST_NONE" and card.npu_arch == 3510 and pair in _NONE_UNLISTED_ON_3510:
        warnings = (f"CAST_NONE taken as CAST_RINT; the API page lists none for {src.name} to {dst.name} on this card",)
    detail = f"{src.name}->{dst.name} {name}"
    return Work(api, "cast", (dst, src), (1,), conversion(dst, src, name), detail, warnings)


def conversion(dst: DataType, src: DataType, mode: str) -> partial[Array]:
    """The function that converts arrays of `src` to `dst` with a rounding mode of `MODES`."""
    if src.is_float() and dst is src:
        return partial(to_whole_float, mode=mode)
    if dst.is_float():
        exact = mode == "CAST_NONE" and src.bits < dst.bits
        return partial(widen, target=dst) if exact else partial(to_float, target=dst, mode=mode)
    if src.is_float():
        return partial(float_to_int, target=dst, mode=mode)
    return partial(int_to_int, target=dst)
