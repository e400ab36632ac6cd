"""Values and codes of hifloat8, fp8 and fp4 (spec api_semantics.md 23): every code, and every rounding around every code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType, encode_scalar
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.element_value import element_bytes, overflows
from aicore_sim.narrow_floats import MODES, NARROW, decode, decode_table, encode, pair_table
from tests.properties.profile import PROPERTY

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
E1M2 = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75)


def hif8(code: int) -> float:
    """The table of 23.1 read on the bits as text."""
    bits = f"{code:08b}"
    sign = -1.0 if bits[0] == "1" else 1.0
    if code in (0x6F, 0xEF):
        return sign * math.inf
    if bits[1:5] == "0000":
        mantissa = int(bits[5:], 2)
        return (math.nan if sign < 0 else 0.0) if mantissa == 0 else sign * 2.0 ** (mantissa - 23)
    for prefix, width in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
        if bits[1:].startswith(prefix):
            rest = bits[1 + len(prefix) :]
            e, m = rest[:width], rest[width:]
            exponent = 0
            if width:
                exponent = int("1" + e[1:], 2) * (-1 if e[0] == "1" else 1)
            return sign * 2.0**exponent * (1 + int(m, 2) / 2 ** len(m))
    raise AssertionError(code)


def test_every_hifloat8_code() -> None:
    table = decode_table("hifloat8")
    np.testing.assert_array_equal(table, np.array([hif8(code) for code in range(256)], np.float32))
    assert np.isfinite(table).sum() == 253 and np.isinf(table).sum() == 2 and np.isnan(table).sum() == 1
    published = {0x08: 1, 0x10: 2, 0x18: 0.5, 0x20: 4, 0x30: 0.25, 0x2E: 14, 0x40: 16, 0x60: 256, 0x70: 2.0**-8,
                 0x01: 2.0**-22, 0x07: 2.0**-16, 0x7F: 1.5 * 2.0**-15, 0x7E: 2.0**-15, 0x6E: 32768}  # fmt: skip
    assert {code: float(table[code]) for code in published} == published
    assert len(set(table[np.isfinite(table)].tolist())) == 253


def test_every_fp8_code() -> None:
    """Bias 15 and 2 mantissa bits, bias 7 and 3, a bare exponent."""
    for name, bias, width in (("fp8_e5m2", 15, 2), ("fp8_e4m3fn", 7, 3)):
        for code in range(256):
            e, m = code >> width & (1 << 7 - width) - 1, code & (1 << width) - 1
            value = 2.0 ** (e - bias) * (1 + m / 2**width) if e else m * 2.0 ** (1 - bias - width)
            if name == "fp8_e5m2" and e == 31:
                value = math.nan if m else math.inf
            if name == "fp8_e4m3fn" and code & 0x7F == 0x7F:
                value = math.nan
            np.testing.assert_array_equal(decode_table(name)[code], np.float32(-value if code & 128 else value), str(code))
    assert decode_table("fp8_e5m2")[0x7B] == 57344 and decode_table("fp8_e4m3fn")[0x7E] == 448
    assert [float(x) for x in decode_table("fp8_e8m0")[[0, 127, 128, 254]]] == [2.0**-127, 1, 2, 2.0**127]
    assert np.isnan(decode_table("fp8_e8m0")[255])


@pytest.mark.parametrize(("name", "values"), [("fp4x2_e2m1", E2M1), ("fp4x2_e1m2", E1M2)])
def test_every_fp4_code(name: str, values: tuple[float, ...]) -> None:
    assert [float(x) for x in decode_table(name)] == [*values, *(-v for v in values)]
    assert np.signbit(decode_table(name)[8])
    pairs = pair_table(name)
    assert [float(x) for x in pairs[0x76]] == [values[6], values[7]]  # the lower index is the low nibble


@pytest.mark.parametrize("name", NARROW)
def test_every_value_has_its_code(name: str) -> None:
    table = decode_table(name)
    for mode in MODES[name]:
        if mode == "hybrid":
            continue
        back = encode(table, name, mode)
        known = ~np.isnan(table)
        np.testing.assert_array_equal(back[known], np.flatnonzero(known))
        np.testing.assert_array_equal(np.isnan(decode(back, name)), np.isnan(table))


def nearest(x: float, values: list[float], tie: str) -> set[float]:
    """The values next to x (exactly, as fractions); ties to the one of larger magnitude, or to the even place."""
    if x in values:
        return {x}
    below, above = max((v for v in values if v < x), default=None), min((v for v in values if v > x), default=None)
    if below is None or above is None:
        return {above if below is None else below}  # type: ignore[arg-type]
    left, right = Fraction(x) - Fraction(below), Fraction(above) - Fraction(x)
    if left != right:
        return {below if left < right else above}
    if tie == "away":
        return {max(below, above, key=abs)}
    return {v for v in (below, above) if values.index(v) % 2 == 0}


@PROPERTY
@given(st.floats(-40000, 40000, width=32) | st.floats(-(2.0**-10), 2.0**-10, width=32) | st.floats(-20, 20, width=32))
def test_hifloat8_half_away_from_zero(x: float) -> None:
    """The nearest code; between the largest finite value and infinity, 40960 is the middle (1.5 * 2^15 is infinity's place)."""
    table = [float(v) for v in decode_table("hifloat8") if np.isfinite(v)]
    code = int(encode(np.float32(x), "hifloat8"))
    got = float(decode_table("hifloat8")[code])
    if abs(x) >= 40960:
        assert got == math.copysign(math.inf, x)
        assert int(encode(np.float32(x), "hifloat8", saturate=True)) == (0x6E if x > 0 else 0xEE)
        return
    assert {got} == nearest(x, sorted(table), "away")
    assert code != 0x80


def hybrid(x: float) -> float:
    """23.1 for float, one number at a time, on the bits of its mantissa as text."""
    word = int(np.array(x, np.float32).view(np.uint32))
    if x == 0:
        return 0.0
    mantissa = f"{word & 0x7FFFFF:023b}"
    exponent = math.floor(math.log2(abs(x))) if abs(x) < 2.0**-126 else (word >> 23 & 0xFF) - 127
    sign, threshold = math.copysign(1.0, x), int(mantissa[-14:], 2)
    size = abs(exponent)
    if exponent < -23:
        return 0.0
    if exponent == -23:
        return sign * 2.0**-22 if int("1" + mantissa[:13], 2) >= threshold else 0.0
    if exponent > 15:
        return sign * math.inf
    kept = 3 if size <= 3 else 2 if size <= 7 else 1 if size <= 15 else 0
    behind = mantissa[kept:]
    up = behind[0] == "1" if size <= 3 else int(behind[:14], 2) >= threshold
    value = 2.0**exponent * (1 + ((int(mantissa[:kept], 2) if kept else 0) + up) / 2**kept)
    return sign * (math.inf if value >= 1.5 * 2.0**15 else value)


@PROPERTY
@given(st.floats(-70000, 70000, width=32) | st.floats(-(2.0**-12), 2.0**-12, width=32))
def test_hifloat8_hybrid(x: float) -> None:
    assert float(decode(encode(np.float32(x), "hifloat8", "hybrid"), "hifloat8")) == hybrid(x)


@pytest.mark.parametrize(("word", "code"), [
    (0x4C00, 0x40),  # 16: bits behind 00, t = 01
    (0x4C20, 0x40),  # 16.5: mantissa 0000100000, behind 00
    (0x4C40, 0x41),  # 17: mantissa 0001000000, behind 01, t = 01: up to 20
    (0x4C81, 0x40),  # mantissa 0010000001, behind 10, t = 11
    (0x4DC1, 0x42),  # 23.02: kept 01, behind 11, t = 11: up to 24
])  # fmt: skip
def test_hybrid_of_half_looks_at_its_last_bit(word: int, code: int) -> None:
    assert int(encode(np.array(word, np.uint16).view(np.float16), "hifloat8", "hybrid")) == code


@PROPERTY
@given(
    name=st.sampled_from(["fp4x2_e2m1", "fp4x2_e1m2"]),
    x=st.floats(-8, 8, width=32) | st.sampled_from([0.125, 0.75, 1.75, 2.5, 3.5, 5.0, -5.0, -0.25, -0.0]),
    mode=st.sampled_from(["rint", "floor", "ceil", "round", "trunc"]),
)
def test_fp4_roundings(name: str, x: float, mode: str) -> None:
    positive = list(E2M1 if name == "fp4x2_e2m1" else E1M2)
    largest = positive[-1]
    inside = min(max(x, -largest), largest)
    size = abs(inside)
    if mode in ("rint", "round"):
        wanted = nearest(size, positive, "away" if mode == "round" else "even")
    else:
        down = mode == "trunc" or (mode == "floor") == (inside >= 0)
        wanted = {max(v for v in positive if v <= size) if down else min(v for v in positive if v >= size)}
    got = decode_table(name)[encode(np.float32(x), name, mode)]
    assert {abs(float(got))} == wanted
    assert np.signbit(got) == np.signbit(np.float32(x))


def test_special_values() -> None:
    row = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, -1e-30], np.float32)
    assert encode(row, "hifloat8").tolist() == [0x6F, 0xEF, 0x80, 0x6F, 0xEF, 0]
    assert encode(row, "hifloat8", saturate=True).tolist() == [0x6E, 0xEE, 0, 0x6E, 0xEE, 0]
    assert encode(row, "fp8_e4m3fn", saturate=True).tolist() == [0x7E, 0xFE, 0, 0x7E, 0xFE, 0x80]
    assert np.isnan(decode(encode(row[:5], "fp8_e4m3fn"), "fp8_e4m3fn")).all()
    assert encode(row, "fp8_e5m2").tolist()[:2] == [0x7C, 0xFC]
    assert encode(row, "fp8_e5m2", saturate=True).tolist() == [0x7B, 0xFB, 0, 0x7B, 0xFB, 0x80]
    assert encode(row, "fp4x2_e2m1").tolist() == [7, 15, 0, 7, 15, 8]
    with pytest.raises(ValueError, match="rounding"):
        encode(row, "fp8_e5m2", "floor")
    assert encode(np.zeros((2, 3)), "hifloat8").shape == (2, 3)


@pytest.mark.parametrize(("name", "value", "raw"), [
    ("hifloat8", 14, b"\x2e"), ("hifloat8", -1, b"\x88"), ("fp4x2_e1m2", 1.5, b"\x66"), ("fp4x2_e2m1", -6, b"\xff"),
    ("fp8_e8m0", 4, b"\x81"), ("fp8_e4m3fn", 448, b"\x7e"), ("fp8_e5m2", 1, b"\x3c"), ("hifloat8", 0, b"\x00"),
    ("fp8_e8m0", 0, b"\x00"),  # a type without a 0: all bits zero
])  # fmt: skip
def test_constants(name: str, value: float, raw: bytes) -> None:
    dtype = DataType(name)
    assert encode_scalar(value, dtype) == raw
    assert element_bytes("Duplicate", value, dtype) == raw
    assert not overflows(value, dtype)


def test_constants_that_do_not_fit() -> None:
    for value in (-2, math.inf):
        with pytest.raises(ParameterError):
            encode_scalar(value, DataType("fp8_e8m0"))
    assert overflows(1e6, DataType("hifloat8")) and overflows(1e6, DataType("fp8_e4m3fn"))
    assert not overflows(1e6, DataType("fp4x2_e2m1"))
