"""Cast: pairs and modes per card, rounding, clamping, special values, 4-bit storage (spec api_semantics.md 25.3)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import VectorWork
from aicore_sim.instructions.cast import TABLES
from aicore_sim.instructions.vector import UnaryRepeatParams, listed_types
from aicore_sim.kernel.api_vector import cast
from aicore_sim.kernel.enums import RoundMode
from tests.instructions.vector_helpers import CARDS, card, to_bytes, vector_core

SRC, DST = 0, 65536
FIVE = (RoundMode.CAST_RINT, RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL, RoundMode.CAST_ROUND, RoundMode.CAST_TRUNC)
RINT, FLOOR, CEIL, ROUND, TRUNC = FIVE
NONE, ODD, HYBRID = RoundMode.CAST_NONE, RoundMode.CAST_ODD, RoundMode.CAST_HYBRID
INF, NAN = math.inf, math.nan
# explicit mantissa bits, exponents of the smallest and the largest normal number
FORMATS = {"float16": (10, -14, 15), "bfloat16": (7, -126, 127), "float32": (23, -126, 127), "fp8_e5m2": (2, -14, 15)}


def convert(src: str, dst: str, values: Any, mode: RoundMode, on: str = "atlas_a2") -> list[float]:
    """Results of the count form, as Python numbers."""
    target = DataType(dst)
    stored = np.asarray(values)
    count = stored.size
    with vector_core(on) as core:
        source = core.tensor(src, SRC, values=stored)
        cast(core.tensor(dst, DST), source, mode, count)
        core.run()
        assert target.np_dtype is not None
        if target.bits == 4:
            raw = core.words(DST, "u1", count // 2)
            return [float(v) for v in np.stack([raw & 15, raw >> 4], 1).reshape(-1).view(target.np_dtype)]
        words = core.words(DST, target.np_dtype, count)
        return [float(v) if target.is_float() else int(v) for v in words]


def whole(value: Fraction, mode: RoundMode) -> int:
    """`value` rounded to an integer, from the words of the mode."""
    below = math.floor(value)
    rest = value - below
    toward_zero = below if value >= 0 else math.ceil(value)
    if mode is FLOOR or rest == 0:
        return below
    if mode is CEIL:
        return below + 1
    if mode is TRUNC:
        return toward_zero
    if mode is ODD:
        return below if below % 2 else below + 1
    if rest == Fraction(1, 2):
        if mode is ROUND:
            return below + 1 if value > 0 else below
        return below + below % 2
    return below + (rest > Fraction(1, 2))


def in_format(value: Fraction, name: str, mode: RoundMode) -> float:
    """`value` rounded to a float format: whole multiples of the quantum of its binade; inf beyond the largest."""
    bits, low, high = FORMATS[name]
    exponent = low
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - bits)
    result = whole(value / quantum, mode) * quantum
    return math.copysign(INF, value) if abs(result) >= Fraction(2) ** (high + 1) else float(result)


# ---- what there is --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("on", CARDS)
def test_pairs_are_those_of_the_cards_list(on: str) -> None:
    listed = {tuple(name.split("*")[:2]) for name in listed_types("Cast", card(on)) if "*" in name}
    assert set(TABLES[card(on).npu_arch]) == listed


def allowed(src: str, dst: str, on: str) -> set[RoundMode]:
    """Modes that do not raise."""
    found = set()
    for mode in RoundMode:
        with vector_core(on) as core:
            try:
                cast(core.tensor(dst, DST), core.tensor(src, SRC), mode, 16)
            except ParameterError as error:
                assert error.field == "round_mode" and error.value == mode.name and error.allowed
                assert core.rec.program == []
            else:
                found.add(mode)
    return found


@pytest.mark.parametrize(
    ("src", "dst", "cards", "modes"),
    [
        ("int8", "half", "a2 a3 350 200i", {NONE}), ("int4", "half", "a2 a3 350", {NONE}),
        ("int16", "half", "a2 a3 350 200i", {NONE, *FIVE}), ("int16", "float", "a2 a3 350 200i", {NONE}),
        ("half", "int4", "a2 a3 350", {NONE, *FIVE}), ("half", "int8", "a2 200i", {NONE, *FIVE}),
        ("half", "int16", "a2 a3 350 200i", {*FIVE}), ("half", "int32", "a2 350", {*FIVE}),
        ("half", "float", "a2 a3 350 200i", {NONE}), ("bfloat16", "int32", "a2 a3 350 200i", {*FIVE}),
        ("int32", "int16", "a2 350", {NONE}), ("int32", "float", "a2 a3 200i", {NONE, *FIVE}),
        ("int32", "half", "200i", {NONE}), ("float", "half", "a2 a3 350 200i", {NONE, ODD, *FIVE}),
        ("float", "bfloat16", "a2 a3 350 200i", {*FIVE}), ("float", "float", "a2 a3 350 200i", {*FIVE}),
        ("float", "int64", "a2 350", {*FIVE}), ("int64", "int32", "a2 350", {NONE}), ("int64", "float", "a2", {*FIVE}),
        ("float", "fp8_e5m2", "350", {RINT}), ("fp8_e4m3fn", "float", "350", {NONE}), ("half", "bfloat16", "350", {*FIVE}),
        ("bfloat16", "fp4x2_e2m1", "350", {*FIVE}), ("uint32", "int16", "350", {NONE}), ("int16", "uint32", "350", {NONE}),
    ],
)  # fmt: skip
def test_modes_per_card(src: str, dst: str, cards: str, modes: set[RoundMode]) -> None:
    for name in cards.split():
        assert allowed(src, dst, f"atlas_{name}") == modes


@pytest.mark.parametrize(
    ("src", "dst", "on"),
    [("int4", "half", "atlas_200i"), ("half", "bfloat16", "atlas_a2"), ("int8", "int32", "atlas_a3"),
     ("int8", "int8", "atlas_350"), ("int32", "uint8", "atlas_a2"), ("float", "hifloat8", "atlas_350"),
     ("uint8", "float", "atlas_350"), ("double", "float", "atlas_350")],
)  # fmt: skip
def test_pairs_that_are_not_there(src: str, dst: str, on: str) -> None:
    with vector_core(on) as core:
        with pytest.raises(UnsupportedError) as error:
            cast(core.tensor(dst, DST), core.tensor(src, SRC), RINT, 16)
        assert error.value.card == on and core.rec.program == []


def test_none_that_the_950_page_does_not_list_warns() -> None:
    with vector_core("atlas_350") as core:
        cast(core.tensor("int8", DST), core.tensor("half", SRC), NONE, 16)
        assert len(core.warnings) == 1 and "CAST_NONE" in core.warnings[0]
    with vector_core("atlas_a2") as core:
        cast(core.tensor("int8", DST), core.tensor("half", SRC), NONE, 16)
        assert core.warnings == []


# ---- rounding -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("src", "dst", "value", "results"),
    [
        # the worked examples of the precision conversion page, in the order RINT FLOOR CEIL ROUND TRUNC
        ("int16", "half", 2**12 + 2, [2**12, 2**12, 2**12 + 4, 2**12 + 4, 2**12]),
        ("int32", "float", 2**25 + 3, [2**25 + 4, 2**25, 2**25 + 4, 2**25 + 4, 2**25]),
        ("int64", "float", 2**35 + 2**12 + 2**11, [2**35 + 2**13, 2**35 + 2**12, 2**35 + 2**13, 2**35 + 2**13, 2**35 + 2**12]),
        ("float", "half", 0.5 + 2**-12, [0.5, 0.5, 0.5 + 2**-11, 0.5 + 2**-11, 0.5]),
        ("float", "bfloat16", 0.5 + 2**-9 + 2**-11, [0.5 + 2**-8, 0.5, 0.5 + 2**-8, 0.5 + 2**-8, 0.5]),
        ("half", "int32", -1.5, [-2, -2, -1, -2, -1]),
        ("half", "int8", 127.5, [127, 127, 127, 127, 127]),
        ("half", "uint8", 1.75, [2, 1, 2, 2, 1]),
        ("float", "int32", 2**22 + 0.5, [2**22, 2**22, 2**22 + 1, 2**22 + 1, 2**22]),
        ("float", "int16", 2**22 + 0.5, [2**15 - 1] * 5),
        ("float", "float", 0.5, [0, 0, 1, 1, 0]),
        ("bfloat16", "int32", 64.5, [64, 64, 65, 65, 64]),
    ],
)  # fmt: skip
def test_worked_examples(src: str, dst: str, value: float, results: list[float]) -> None:
    assert [convert(src, dst, np.array([value]), mode)[0] for mode in FIVE] == results


def test_odd() -> None:
    assert convert("float", "half", [0.5 + 2**-12, 0.5, -0.5 - 2**-12, 0.5 + 2**-11 + 2**-13], ODD) == [
        0.5 + 2**-11, 0.5, -0.5 - 2**-11, 0.5 + 2**-11,
    ]  # fmt: skip


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
near_half = st.one_of(floats, st.floats(-70000, 70000, width=32), st.floats(-1, 1, width=32),
                      st.integers(-4096, 4096).map(lambda k: k * 2.0**-25))  # fmt: skip


@pytest.mark.parametrize("mode", [*FIVE, NONE, ODD])
@given(value=near_half)
def test_float_to_half(mode: RoundMode, value: float) -> None:
    expected = in_format(Fraction(value), "float16", RINT if mode is NONE else mode)
    assert convert("float", "half", [value], mode) == [expected]


@pytest.mark.parametrize(("src", "dst", "on"), [("float", "bfloat16", "atlas_a2"), ("bfloat16", "half", "atlas_350"),
                                                ("half", "bfloat16", "atlas_350")])  # fmt: skip
@given(data=st.data())
def test_other_floats(src: str, dst: str, on: str, data: st.DataObject) -> None:
    mode, value = data.draw(st.sampled_from(FIVE)), data.draw(near_half)
    kind = DataType(src).np_dtype
    with np.errstate(over="ignore"):
        value = float(np.float32(value).astype(kind))
    if math.isfinite(value):
        assert convert(src, dst, [value], mode, on) == [in_format(Fraction(value), DataType(dst).name, mode)]


@pytest.mark.parametrize(("src", "dst"), [("int16", "half"), ("int32", "float"), ("int64", "float")])
@given(data=st.data())
def test_integers_to_floats(src: str, dst: str, data: st.DataObject) -> None:
    bits = DataType(src).bits
    value = data.draw(st.one_of(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1),
                                st.integers(0, bits - 2).map(lambda k: (1 << k) + (1 << k // 2) - 1)))  # fmt: skip
    mode = data.draw(st.sampled_from(FIVE))
    expected = in_format(Fraction(value), DataType(dst).name, mode)
    assert convert(src, dst, np.array([value], f"i{bits // 8}"), mode) == [expected]


@pytest.mark.parametrize("dst", ["int16", "int32", "int64"])
@given(value=st.one_of(floats, st.floats(-40000, 40000, width=32)), mode=st.sampled_from(FIVE))
def test_float_to_integers_clamps(dst: str, value: float, mode: RoundMode) -> None:
    bits = DataType(dst).bits
    expected = max(-(1 << bits - 1), min((1 << bits - 1) - 1, whole(Fraction(value), mode)))
    assert convert("float", dst, [value], mode) == [expected]


def test_special_values_to_integers() -> None:
    assert convert("float", "int32", [NAN, INF, -INF, -0.0], RINT) == [0, 2**31 - 1, -(2**31), 0]
    assert convert("float", "int64", [NAN, INF, -INF, 2.0**63], TRUNC) == [0, 2**63 - 1, -(2**63), 2**63 - 1]
    assert convert("half", "uint8", [NAN, INF, -INF, -3.0], NONE) == [0, 255, 0, 0]
    assert convert("half", "int4", [NAN, INF, -INF, -3.0], NONE) == [0, 7, -8, -3]


def test_special_values_to_floats() -> None:
    found = convert("float", "half", [NAN, INF, -INF, -0.0, 65519.0, 65520.0, -1e30], RINT)
    assert math.isnan(found[0]) and found[1:] == [INF, -INF, 0.0, 65504.0, INF, -INF]
    assert math.copysign(1, found[3]) == -1
    found = convert("float", "float", [NAN, INF, -0.0, -0.25, 2.5], RINT)
    assert math.isnan(found[0]) and found[1:] == [INF, 0.0, 0.0, 2.0]
    assert [math.copysign(1, v) for v in found[2:4]] == [1, 1]


def test_narrow_floats_of_950() -> None:
    found = convert("float", "fp8_e5m2", [NAN, INF, 57344.0, 61439.0, 61440.0, -1e9, 2.0**-17, 1.125], RINT, "atlas_350")
    assert math.isnan(found[0]) and found[1:] == [INF, 57344.0, 57344.0, INF, -INF, 0.0, 1.0]
    found = convert("float", "fp8_e4m3fn", [NAN, INF, 448.0, 464.0, 465.0, -1e9, 2.0**-9, 17.0], RINT, "atlas_350")
    assert [math.isnan(v) for v in found] == [True, True, False, False, True, True, False, False]
    assert [found[i] for i in (2, 3, 6, 7)] == [448.0, 448.0, 2.0**-9, 16.0]
    values = [NAN, INF, -INF, 2.5, -2.5, 0.25, 5.0, 7.0]
    assert convert("bfloat16", "fp4x2_e2m1", values, RINT, "atlas_350") == [0, 6, -6, 2, -2, 0, 4, 6]
    assert convert("bfloat16", "fp4x2_e2m1", values, ROUND, "atlas_350") == [0, 6, -6, 3, -3, 0.5, 6, 6]
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6]
    assert convert("fp4x2_e2m1", "bfloat16", grid, NONE, "atlas_350") == grid


@given(word=st.integers(0, 255))
def test_fp8_to_float_is_exact(word: int) -> None:
    for name, kind in (("fp8_e5m2", ml_dtypes.float8_e5m2), ("fp8_e4m3fn", ml_dtypes.float8_e4m3fn)):
        value = float(np.uint8(word).view(kind))
        found = convert(name, "float", np.array([word], np.uint8).view(kind), NONE, "atlas_350")
        assert found == [value] or (math.isnan(value) and math.isnan(found[0]))


@pytest.mark.parametrize(
    ("src", "dst", "values", "results"),
    [
        ("int32", "int16", [40000, -40000, 7], [32767, -32768, 7]),
        ("int64", "int32", [2**31, -(2**40), -1], [2**31 - 1, -(2**31), -1]),
        ("int32", "int64", [-(2**31), 5], [-(2**31), 5]),
        ("int16", "uint32", [-1, 300], [0, 300]), ("int16", "uint8", [-1, 300, 9], [0, 255, 9]),
        ("int16", "int4", [100, -100, 3, -3], [7, -8, 3, -3]), ("uint32", "int16", [2**32 - 1, 5], [32767, 5]),
        ("int32", "uint16", [-5, 70000], [0, 65535]), ("int8", "int32", [-128, 127], [-128, 127]),
        ("int4", "int16", [-8, 7, 0, -1], [-8, 7, 0, -1]), ("int4", "bfloat16", [-8, 7], [-8.0, 7.0]),
        ("uint8", "half", [0, 255], [0.0, 255.0]), ("int4", "half", [-8, 7, 5, -5], [-8.0, 7.0, 5.0, -5.0]),
    ],
)  # fmt: skip
def test_integers_to_integers(src: str, dst: str, values: list[int], results: list[float]) -> None:
    assert convert(src, dst, np.array(values, np.int64), NONE, "atlas_350") == results


def test_int32_to_half_of_200i_rounds_to_nearest() -> None:
    assert convert("int32", "half", [2049, 2051, 70000, -70000], NONE, "atlas_200i") == [2048.0, 2052.0, INF, -INF]


# ---- forms ----------------------------------------------------------------------------------------------------------
def test_repeats_count_the_wider_type() -> None:
    with vector_core("atlas_a2") as core:
        cast(core.tensor("int32", DST), core.tensor("half", SRC), RINT, 100)
        assert core.op.cost == VectorWork("cast", 32, 100, 2)
        assert (core.op.reads, core.op.writes) == (((1, 0, 200),), ((0, 0, 400),))
        cast(core.tensor("half", DST), core.tensor("int4", SRC), NONE, 128)
        assert core.op.cost == VectorWork("cast", 16, 128, 1)
        assert core.op.reads == ((1, 0, 64),)


@pytest.mark.parametrize("shares", [1, 2, 5])
def test_mask_form_strides_go_by_each_types_blocks(shares: int) -> None:
    values = np.arange(4 * 64, dtype=np.float16) - 100
    with vector_core("atlas_a2") as core:
        src = core.tensor("half", SRC, values=values)
        cast(core.tensor("int32", DST), src, RINT, 64, 4, UnaryRepeatParams(1, 1, 8, 4))
        core.run(shares)
        assert np.array_equal(core.words(DST, "i4", 256), values.astype(np.int32))
        # 24 floats of a repeat to halves: three blocks of 8 floats, two blocks of 16 halves, the second block 3 further
        back = core.tensor("half", SRC + 4096)
        source = core.tensor("float", SRC + 8192, values=np.arange(24))
        cast(back, source, NONE, 24, 1, UnaryRepeatParams(3, 1, 8, 8))
        core.run(shares)
        assert list(core.words(SRC + 4096, np.float16, 16)) == list(range(16))
        assert list(core.words(SRC + 4096 + 96, np.float16, 8)) == list(range(16, 24))
        assert core.words(SRC + 4096 + 96, "u2", 9)[8] == 0xA5A5


@pytest.mark.parametrize("shares", [1, 3])
def test_four_bit_elements_are_packed_low_nibble_first(shares: int) -> None:
    with vector_core("atlas_a2") as core:
        src = core.tensor("half", SRC, values=np.tile(np.arange(-8, 8), 33))
        cast(core.tensor("int4", DST), src, RINT, 530 - 2)
        core.run(shares)
        assert list(core.words(DST, "u1", 264)) == list(to_bytes(np.tile(np.arange(-8, 8), 33), DataType("int4")))
        assert core.words(DST, "u1", 265)[264] == 0xA5
        with pytest.raises(ParameterError):
            cast(core.tensor("int4", DST), src, RINT, 7)
        with pytest.raises(UnsupportedError):
            cast(core.tensor("int4", DST), src, RINT, 128, 1, UnaryRepeatParams())


def test_undefined_elements_stay_undefined() -> None:
    with vector_core("atlas_a2") as core:
        src = core.tensor("half", SRC, values=[1.0, 2.0, 3.0])
        cast(core.tensor("int32", DST), src, RINT, 4)
        cast(core.tensor("int4", DST + 64), src, RINT, 4)
        core.run()
        assert core.defined(DST, 16) == [True] * 12 + [False] * 4
        assert core.defined(DST + 64, 2) == [True, False]
        cast(core.tensor("half", DST + 128), core.tensor("int4", DST + 64), NONE, 4)
        core.run()
        assert core.defined(DST + 128, 8) == [True] * 4 + [False] * 4


def test_narrowing_in_place() -> None:
    values = np.arange(300, dtype=np.float32)
    with vector_core("atlas_a2") as core:
        src = core.tensor("float", SRC, values=values)
        cast(core.tensor("half", SRC), src, RINT, 300)
        core.run(shares=4)
        assert np.array_equal(core.words(SRC, np.float16, 300), values.astype(np.float16))


def test_a_mode_that_is_none() -> None:
    with vector_core("atlas_a2") as core:
        for wrong in (9, -1, True, "CAST_RINT", 1.0):
            with pytest.raises(ParameterError):
                cast(core.tensor("int32", DST), core.tensor("half", SRC), wrong, 16)  # type: ignore[arg-type]
