"""Run-time values: operators of the device's scalar unit, checked against their mathematical definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim import dtypes
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.kernel import values
from aicore_sim.kernel.arrays import ShapeInfo, array, get_shape_size
from aicore_sim.kernel.structs import Field, Struct, StructField
from aicore_sim.kernel.values import ConstExpr, RuntimeFloat, RuntimeInt, ceildiv, number, runtime_value

INTS = st.integers(-(2**70), 2**70)
NONZERO = INTS.filter(bool)


@given(INTS, NONZERO)
def test_division_truncates_toward_zero(a: int, b: int) -> None:
    expected = math.trunc(Fraction(a, b))
    for result in (RuntimeInt(a) / b, RuntimeInt(a) // b, a / RuntimeInt(b), a // RuntimeInt(b)):
        assert result == expected
        assert isinstance(result, RuntimeInt)


@given(INTS, NONZERO)
def test_remainder_has_the_sign_of_the_dividend(a: int, b: int) -> None:
    for result in (RuntimeInt(a) % b, a % RuntimeInt(b)):
        assert a == math.trunc(Fraction(a, b)) * b + result
        assert result == 0 or (result < 0) == (a < 0)


@pytest.mark.parametrize(("a", "b", "quotient", "rest", "ceiling"), [
    (7, 2, 3, 1, 4), (-7, 2, -3, -1, -3), (7, -2, -3, 1, -3), (-7, -2, 3, -1, 4), (6, 3, 2, 0, 2),
])  # fmt: skip
def test_division_table(a: int, b: int, quotient: int, rest: int, ceiling: int) -> None:
    value = RuntimeInt(a)
    assert (value // b, value % b, value.ceildiv(b)) == (quotient, rest, ceiling)
    assert divmod(value, b) == (quotient, rest)


@given(INTS, INTS)
def test_ring_operations_stay_exact_run_time_values(a: int, b: int) -> None:
    results = {a + b: RuntimeInt(a) + b, a - b: RuntimeInt(a) - b, b - a: b - RuntimeInt(a), a * b: RuntimeInt(a) * b}
    for expected, result in results.items():
        assert int(result) == expected
        assert isinstance(result, RuntimeInt)


def test_float_operand_is_cast_to_the_int() -> None:
    value = RuntimeInt(10)
    assert value + 1.9 == 11
    assert value * 2.5 == 20
    assert value // 3.9 == 3
    assert value - RuntimeFloat(0.5) == 10
    assert not value < 10.7
    assert value >= 10.7


def test_float_value_decides_over_an_int_operand() -> None:
    result = RuntimeFloat(0.5) + RuntimeInt(2)
    assert isinstance(result, RuntimeFloat)
    assert result == 2.5
    assert RuntimeFloat(7.0) // 2 == 3.5
    assert 1 / RuntimeFloat(4.0) == 0.25


def test_floats_are_rounded_to_their_type() -> None:
    assert float(RuntimeFloat(0.1)) == float(np.float32(0.1))
    third = RuntimeFloat(1.0, dtypes.float16) / 3
    assert float(third) == float(np.float16(1) / np.float16(3))
    assert third.dtype == dtypes.float16


def test_a_value_is_as_good_as_its_int() -> None:
    value = RuntimeInt(3)
    assert hash(value) == hash(3)
    assert {3: "x"}[value] == "x"
    assert [10, 11, 12, 13][value] == 13
    assert "abcdef"[value:] == "def"
    assert list(range(value)) == [0, 1, 2]
    assert np.zeros(value).shape == (3,)
    assert f"{value} {value!r}" == "3 3"


def test_shifts_and_bits() -> None:
    assert RuntimeInt(-8) >> 1 == -4
    assert 1 << RuntimeInt(4) == 16
    assert (RuntimeInt(12) & 10, RuntimeInt(12) | 3, 5 ^ RuntimeInt(1)) == (8, 15, 4)
    assert -RuntimeInt(5) == -5
    assert isinstance(-RuntimeInt(5), RuntimeInt)


@pytest.mark.parametrize("operation", [lambda v: v**2, lambda v: 2**v, lambda v: ~v])
def test_operators_the_device_lacks(operation: object) -> None:
    with pytest.raises(UnsupportedError):
        operation(RuntimeInt(2))  # type: ignore[operator]
    with pytest.raises(NotImplementedError):
        operation(RuntimeInt(2))  # type: ignore[operator]


def test_casts() -> None:
    assert RuntimeInt(300).cast(dtypes.int8) == 44
    assert RuntimeInt(-1).cast(dtypes.uint16) == 65535
    assert RuntimeInt(3).cast(dtypes.float32) == 3.0
    assert RuntimeFloat(-2.7).cast(dtypes.int32) == -2
    assert RuntimeFloat(0.1).cast(dtypes.float16) == float(np.float16(np.float32(0.1)))
    with pytest.raises(UnsupportedError, match="int32 to float16"):
        RuntimeInt(3).cast(dtypes.float16)
    with pytest.raises(UnsupportedError):
        RuntimeFloat(3.0).cast(dtypes.int64)


def test_typed_ints_keep_their_type() -> None:
    value = number(5, dtypes.uint16)
    assert (value + 1).dtype == dtypes.uint16
    assert (RuntimeInt(1) + value).dtype == dtypes.int32
    with pytest.raises(ParameterError):
        number(256, dtypes.uint8)
    with pytest.raises(ParameterError):
        number(-1, dtypes.uint32)


def test_host_numbers_enter_with_their_types() -> None:
    assert runtime_value(True).dtype == dtypes.int8
    assert runtime_value(7).dtype == dtypes.int32
    assert runtime_value(0.5).dtype == dtypes.float32
    assert runtime_value(np.float64(0.5)).dtype == dtypes.float32
    assert runtime_value(np.uint16(9)).dtype == dtypes.uint16
    text = "left alone"
    assert runtime_value(text) is text


def test_logic_is_a_bool() -> None:
    assert RuntimeInt(2).logical_and(1) is True
    assert RuntimeInt(0).logical_or(0) is False


@pytest.mark.parametrize(("bounds", "expected"), [
    ((3,), [0, 1, 2]), ((1, 4), [1, 2, 3]), ((0, 7, 3), [0, 3, 6]), ((5, 0, -1), []), ((0, 5, -1), []),
    ((0.9, 2.9), [0, 1]), ((4, 4), []),
])  # fmt: skip
def test_loops_run_upward_only(bounds: tuple[int, ...], expected: list[int]) -> None:
    rounds = list(values.range(*bounds))  # type: ignore[call-overload]
    assert rounds == expected
    assert all(isinstance(i, RuntimeInt) for i in rounds)


@pytest.mark.parametrize("bounds", [(3,), (1, 4), (0, 7, 3), (5, 0, -1), (0, 5, -1), (4, 4)])
def test_unrolled_loops_count_as_python_does(bounds: tuple[int, ...]) -> None:
    rounds = list(values.static_range(*bounds))
    assert rounds == list(range(*bounds))
    assert all(type(i) is int for i in rounds)


def test_loop_without_a_step_is_refused() -> None:
    with pytest.raises(ParameterError, match="step"):
        values.range(0, 3, 0)
    with pytest.raises(ParameterError, match="step"):
        values.static_range(0, 3, 0)


def test_ceildiv_on_both_kinds() -> None:
    assert ceildiv(10, 4) == 3
    assert type(ceildiv(10, 4)) is int
    assert isinstance(ceildiv(RuntimeInt(10), 4), RuntimeInt)
    assert ceildiv(RuntimeInt(-10), 4) == -2


def test_compile_time_functions() -> None:
    values.static_assert(True)
    with pytest.raises(ParameterError, match="tile too big"):
        values.static_assert(False, "tile too big")
    with pytest.raises(UnsupportedError):
        values.inline("x++;")
    assert ConstExpr[int].kind is int


def test_arrays_and_shapes() -> None:
    filled = array(dtypes.int16, 3, 7)
    assert [filled[i] for i in range(len(filled))] == [7, 7, 7]
    filled[1] = 9
    assert filled[RuntimeInt(1)] == 9
    assert filled[1].dtype == dtypes.int16
    with pytest.raises(OutOfBoundsError):
        filled[3]
    with pytest.raises(OutOfBoundsError):
        filled[-1] = 0
    shape = ShapeInfo(array(dtypes.uint32, [8, 16, 2]))
    assert (shape.shape(1), get_shape_size(shape)) == (16, 256)
    assert shape.original_shape(0) == 8
    with pytest.raises(OutOfBoundsError):
        shape.shape(3)


class Tile(Struct):
    length = Field(dtype=dtypes.int32, default=0)
    scale = Field(dtype=dtypes.float32)


class Plan(Struct, pack=4):
    tag = Field(dtype=dtypes.int8, default=1)
    count = Field(dtype=dtypes.int64, default=2)
    tile = StructField(Tile, default=Tile(scale=1.0))


def test_struct_fields_on_the_host_and_in_the_kernel() -> None:
    tile = Tile(length=64, scale=0.5)
    plan = Plan(tile=tile)
    tile.length = 99
    assert plan.tile.length == 64
    seen = plan.for_kernel()
    assert isinstance(seen.tile.length, RuntimeInt)
    assert seen.count.dtype == dtypes.int64
    assert seen.tile.scale == 0.5
    assert isinstance(plan.count, int) and not isinstance(plan.count, RuntimeInt)


def test_struct_bytes_follow_the_packing() -> None:
    plan = Plan(tag=1, count=2, tile=Tile(length=3, scale=1.0))
    packed = np.dtype({"names": ["tag", "count", "length", "scale"], "formats": ["i1", "<i8", "<i4", "<f4"],
                       "offsets": [0, 4, 12, 16], "itemsize": 20})  # fmt: skip
    expected = np.zeros((), packed)
    expected["tag"], expected["count"], expected["length"], expected["scale"] = 1, 2, 3, 1.0
    assert plan.tobytes() == expected.tobytes()
    assert len(plan.tobytes()) == 20


def test_struct_mistakes() -> None:
    with pytest.raises(RuntimeError, match="no field size"):
        Tile(size=3, scale=1.0)
    with pytest.raises(RuntimeError, match="neither"):
        Tile(length=3)
    with pytest.raises(RuntimeError, match="float16"):
        Field(dtype=dtypes.float16)
    with pytest.raises(RuntimeError):
        Plan(tile=3)
