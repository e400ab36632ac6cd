"""Vector instructions: values element by element, count and mask forms, what is refused (spec api_semantics.md 25)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe, VectorWork
from aicore_sim.instructions.vector import BinaryRepeatParams, UnaryRepeatParams, listed_types
from aicore_sim.kernel import api_vector as asc
from aicore_sim.kernel.system import reset_mask, set_mask_count, set_mask_norm, set_vector_mask
from aicore_sim.kernel.tensor import GlobalTensor, LocalTensor
from aicore_sim.kernel.values import RuntimeInt
from tests.instructions.vector_helpers import CARDS, card, vector_core

A, B, C = 0, 8192, 16384
NP = {"float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
INF, NAN = math.inf, math.nan


def compute(name: str, dtype: str, *sources: Any, scalar: Any = None, on: str = "atlas_a2", kind: Any = None) -> Any:
    """The result of the count form of `name` on these source values."""
    count = len(sources[0])
    with vector_core(on) as core:
        tensors = [core.tensor(dtype, place, values=values) for place, values in zip((B, C), sources, strict=False)]
        dst = core.tensor(dtype, A)
        arguments = [dst, *tensors, *([] if scalar is None else [scalar])]
        getattr(asc, name)(*arguments, count)
        core.run()
        return core.words(A, kind or NP[dtype], count)


def same(found: Any, expected: list[float]) -> None:
    """Equal values, NaN in the same places, and the same sign of zero."""
    values = [float(v) for v in found]
    assert [math.isnan(v) for v in values] == [math.isnan(v) for v in expected]
    for value, wanted in zip(values, expected, strict=True):
        if not math.isnan(wanted):
            assert (value, math.copysign(1, value)) == (wanted, math.copysign(1, wanted)), (values, expected)


# ---- values ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("on", CARDS)
class TestSpecialValues:
    def test_relu_gives_plus_zero_and_keeps_nan(self, dtype: str, on: str) -> None:
        same(compute("relu", dtype, [-0.0, 0.0, -INF, INF, NAN, -1.5, 2.5], on=on), [0.0, 0.0, 0.0, INF, NAN, 0.0, 2.5])

    def test_max_lets_nan_win_and_prefers_plus_zero(self, dtype: str, on: str) -> None:
        a = [NAN, 1.0, 0.0, -0.0, -0.0, -INF, 3.0]
        b = [1.0, NAN, -0.0, 0.0, -0.0, 2.0, INF]
        same(compute("max", dtype, a, b, on=on), [NAN, NAN, 0.0, 0.0, -0.0, 2.0, INF])

    def test_min_lets_nan_win(self, dtype: str, on: str) -> None:
        a, b = [NAN, 1.0, 0.0, -0.0, -INF, 3.0], [1.0, NAN, -0.0, 0.0, 2.0, INF]
        same(compute("min", dtype, a, b, on=on), [NAN, NAN, -0.0, -0.0, -INF, 3.0])

    def test_maxs_and_mins_follow_max_and_min(self, dtype: str, on: str) -> None:
        same(compute("maxs", dtype, [-0.0, NAN, -2.0, 5.0], scalar=0.0, on=on), [0.0, NAN, 0.0, 5.0])
        same(compute("mins", dtype, [-0.0, NAN, -2.0, 5.0], scalar=0.0, on=on), [-0.0, NAN, -2.0, 0.0])

    def test_exp(self, dtype: str, on: str) -> None:
        same(compute("exp", dtype, [-INF, INF, NAN, 0.0, -0.0], on=on), [0.0, INF, NAN, 1.0, 1.0])

    def test_div(self, dtype: str, on: str) -> None:
        a, b = [1.0, -1.0, 0.0, INF, 1.0, 6.0], [0.0, 0.0, 0.0, INF, -0.0, -3.0]
        same(compute("div", dtype, a, b, on=on), [INF, -INF, NAN, NAN, -INF, -2.0])

    def test_leaky_relu_goes_by_the_sign_bit(self, dtype: str, on: str) -> None:
        found = compute("leaky_relu", dtype, [-0.0, 0.0, -4.0, 4.0, INF, -INF, NAN], scalar=-0.5, on=on)
        same(found, [0.0, 0.0, 2.0, 4.0, INF, INF, NAN])

    def test_roots_logarithm_reciprocal(self, dtype: str, on: str) -> None:
        same(compute("sqrt", dtype, [0.0, 4.0, -1.0, INF], on=on), [0.0, 2.0, NAN, INF])
        same(compute("rsqrt", dtype, [0.0, 4.0, -1.0, INF], on=on), [INF, 0.5, NAN, 0.0])
        same(compute("ln", dtype, [0.0, 1.0, -1.0, INF], on=on), [-INF, 0.0, NAN, INF])
        same(compute("reciprocal", dtype, [0.0, -4.0, INF, NAN], on=on), [INF, -0.25, 0.0, NAN])

    def test_abs_and_add_follow_ieee(self, dtype: str, on: str) -> None:
        same(compute("abs", dtype, [-0.0, -INF, -1.5, NAN], on=on), [0.0, INF, 1.5, NAN])
        same(compute("add", dtype, [INF, INF, -0.0, 1.0], [-INF, 1.0, 0.0, NAN], on=on), [NAN, INF, 0.0, NAN])


FORMATS = {"float16": (11, -14, 15), "bfloat16": (8, -126, 127), "float32": (24, -126, 127)}


def nearest(value: Fraction, dtype: str) -> float:
    """`value` to nearest even in a binary format, from the definition: whole multiples of the quantum of its binade."""
    bits, low, high = FORMATS[dtype]
    if value == 0:
        return 0.0
    exponent = low
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - bits + 1)
    whole, rest = divmod(abs(value) / quantum, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    size = whole * quantum
    result = INF if size >= Fraction(2) ** (high + 1) else float(size)
    return math.copysign(result, value)


halves = st.integers(0, 0xFFFF).map(lambda w: float(np.uint16(w).view(np.float16))).filter(math.isfinite)
brains = st.integers(0, 0xFFFF).map(lambda w: float(np.uint16(w).view(ml_dtypes.bfloat16))).filter(math.isfinite)
OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@given(a=halves, b=halves)
def test_half_arithmetic_is_correctly_rounded(name: str, a: float, b: float) -> None:
    if name == "div" and b == 0:
        return
    expected = nearest(OPERATIONS[name](Fraction(a), Fraction(b)), "float16")
    assert float(compute(name, "float16", [a], [b])[0]) == expected


@pytest.mark.parametrize("name", OPERATIONS)
@given(a=st.floats(width=32, allow_nan=False, allow_infinity=False), b=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_arithmetic_is_correctly_rounded(name: str, a: float, b: float) -> None:
    if name == "div" and b == 0:
        return
    expected = nearest(OPERATIONS[name](Fraction(a), Fraction(b)), "float32")
    assert float(compute(name, "float32", [a], [b])[0]) == expected


@pytest.mark.parametrize("name", ["add", "mul"])
@given(a=brains, b=brains)
def test_bfloat16_rounds_to_float_first(name: str, a: float, b: float) -> None:
    once = nearest(OPERATIONS[name](Fraction(a), Fraction(b)), "float32")
    expected = once if math.isinf(once) else nearest(Fraction(once), "bfloat16")
    assert float(compute(name, "bfloat16", [a], [b], on="atlas_350")[0]) == expected


@pytest.mark.parametrize("dtype", ["int16", "int32"])
@given(data=st.data())
def test_integers_wrap(dtype: str, data: st.DataObject) -> None:
    bits = DataType(dtype).bits
    number = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    a, b = data.draw(number), data.draw(number)
    operations: dict[str, int] = {"add": a + b, "sub": a - b, "mul": a * b}
    for name, exact in operations.items():
        wrapped = (exact + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        assert compute(name, dtype, [a], [b], kind=dtype)[0] == wrapped
        if name != "sub":
            assert compute(f"{name}s", dtype, [a], scalar=b, kind=dtype)[0] == wrapped


def test_integers_of_950() -> None:
    assert list(compute("add", "uint8", [250, 3], [10, 4], on="atlas_350", kind="u1")) == [4, 7]
    assert list(compute("abs", "int8", [-128, -5], on="atlas_350", kind="i1")) == [-128, 5]
    assert list(compute("div", "int32", [7, -7, 7, -8], [2, 2, -2, 4], on="atlas_350", kind="i4")) == [3, -3, -3, -2]
    assert list(compute("max", "uint64", np.array([2**64 - 1, 1], "u8"), [5, 9], on="atlas_350", kind="u8")) == [2**64 - 1, 9]


def test_subnormals_are_zero_in_the_950_functions_only() -> None:
    tiny = 2.0**-140
    same(compute("div", "float32", [tiny, 1.0, -tiny], [1.0, tiny, 1.0], on="atlas_350"), [0.0, INF, -0.0])
    same(compute("div", "float32", [tiny], [1.0]), [tiny])
    same(compute("exp", "float32", [-100.0], on="atlas_350"), [0.0])
    assert 0 < compute("exp", "float32", [-100.0])[0] < 2.0**-126
    same(compute("add", "float32", [tiny], [0.0], on="atlas_350"), [tiny])
    same(compute("mul", "float16", [2.0**-10], [2.0**-10], on="atlas_350"), [2.0**-20])


def test_shifts() -> None:
    words = [0b1010101010101010]
    signed = [words[0] - 65536]
    assert list(compute("shift_right", "uint16", words, scalar=1, kind="u2")) == [0b0101010101010101]
    assert list(compute("shift_right", "int16", signed, scalar=3, kind="u2")) == [0b1111010101010101]
    assert list(compute("shift_left", "uint16", words, scalar=1, kind="u2")) == [0b0101010101010100]
    # A2 keeps the sign bit of signed types, 950 shifts it out.
    assert list(compute("shift_left", "int16", signed, scalar=1, kind="u2")) == [0b1101010101010100]
    assert list(compute("shift_left", "int16", signed, scalar=3, kind="u2")) == [0b1101010101010000]
    assert list(compute("shift_left", "int16", signed, scalar=1, kind="u2", on="atlas_350")) == [0b0101010101010100]
    assert list(compute("shift_right", "int16", [-1, 5], scalar=16, kind="i2")) == [-1, 0]
    assert list(compute("shift_left", "uint32", [1], scalar=40, kind="u4", on="atlas_350")) == [0]


def test_bitwise_functions_work_on_raw_words() -> None:
    assert list(compute("bitwise_and", "int16", [0x0FF0, -1], [0x00FF, 5], kind="i2")) == [0x00F0, 5]
    assert list(compute("bitwise_or", "uint16", [0x0FF0], [0x000F], kind="u2")) == [0x0FFF]
    assert list(compute("bitwise_not", "int16", [0, -1], kind="i2")) == [-1, 0]
    assert list(compute("bitwise_not", "float32", [1.0], kind="u4", on="atlas_350")) == [0xC07FFFFF]


def test_axpy_adds_to_the_destination() -> None:
    with vector_core("atlas_a2") as core:
        dst = core.tensor("float32", A, values=[10.0, 20.0, 30.0])
        src = core.tensor("float16", B, values=[1.0, 2.0, 65504.0])
        asc.axpy(dst, src, 0.1, 3)
        assert core.op.reads == ((0, 0, 12), (1, 0, 6))
        core.run()
        scalar = float(np.float16(0.1))  # the scalar has the type of src
        products = [np.float32(v) * np.float32(scalar) for v in (1.0, 2.0, 65504.0)]
        expected = [np.float32(d) + p for d, p in zip((10.0, 20.0, 30.0), products, strict=True)]
        assert list(core.words(A, "f4", 3)) == expected


def test_scalars_are_rounded_to_the_element_type() -> None:
    assert compute("adds", "float16", [0.0], scalar=0.1)[0] == np.float16(0.1)
    assert compute("muls", "int32", [3], scalar=RuntimeInt(-4), kind="i4")[0] == -12
    assert compute("adds", "int32", [3], scalar=np.int64(4), kind="i4")[0] == 7
    with vector_core("atlas_a2") as core:
        asc.duplicate(core.tensor("float16", A), 1e6, 16)
        core.run()
        assert np.isinf(core.words(A, np.float16, 1)[0])
        assert core.warnings == ["Duplicate: 1000000.0 is infinite in float16"]


def test_duplicate_narrow_types() -> None:
    with vector_core("atlas_350") as core:
        asc.duplicate(core.tensor("fp8_e4m3fn", A), 2.0, 5)
        asc.duplicate(core.tensor("fp4x2_e2m1", B), 1.5, 6)
        core.run()
        assert list(core.words(A, ml_dtypes.float8_e4m3fn, 5).astype(float)) == [2.0] * 5
        assert list(core.words(A, "u1", 6))[5] == 0xA5
        assert list(core.words(B, "u1", 4)) == [0x33, 0x33, 0x33, 0xA5]


# ---- the count form -------------------------------------------------------------------------------------------------
def test_exactly_count_elements_are_written() -> None:
    with vector_core("atlas_a2") as core:
        asc.duplicate(core.tensor("int16", A), -2, 5)
        core.run()
        assert list(core.words(A, "i2", 5)) == [-2] * 5
        assert list(core.words(A + 10, "u1", 22)) == [0xA5] * 22
        assert core.defined(A, 12) == [True] * 10 + [False] * 2


@pytest.mark.parametrize("shares", [1, 3, 16])
def test_in_place_in_any_number_of_shares(shares: int) -> None:
    values = np.arange(1000, dtype=np.float32)
    with vector_core("atlas_a2") as core:
        tensor = core.tensor("float32", A, values=values)
        asc.adds(tensor, tensor, 0.5, 1000)
        asc.add(tensor, tensor, tensor, 1000)
        core.run(shares)
        assert np.array_equal(core.words(A, "f4", 1000), (values + np.float32(0.5)) * 2)


def test_cost_and_footprint() -> None:
    with vector_core("atlas_a2") as core:
        a, b, c = core.tensor("float32", A), core.tensor("float32", B), core.tensor("float32", C)
        asc.add(a, b, c, 100)
        op = core.op
        assert (op.pipe, op.cost) == (Pipe.V, VectorWork("add", 32, 100, 2))
        assert (op.reads, op.writes) == (((1, 0, 400), (2, 0, 400)), ((0, 0, 400),))
        asc.exp(core.tensor("float16", A), core.tensor("float16", B), 129)
        assert core.op.cost == VectorWork("exp", 16, 129, 2)


def test_a_result_is_defined_where_all_its_sources_are() -> None:
    with vector_core("atlas_a2") as core:
        dst = core.tensor("float16", A)
        one = core.tensor("float16", B, values=[1.0] * 8)
        two = core.tensor("float16", C, values=[2.0] * 4)
        asc.add(dst, one, two, 10)
        core.run()
        assert core.defined(A, 20) == [True] * 8 + [False] * 12
        asc.adds(dst, one, 1.0, 10)  # overwritten with defined values, the last two from undefined ones
        core.run()
        assert core.defined(A, 20) == [True] * 16 + [False] * 4


def test_calls_of_one_shape_share_their_op() -> None:
    with vector_core("atlas_a2") as core:
        a, b = core.tensor("float16", A), core.tensor("float16", B, values=[-1.0])
        for scalar in (0.0, -0.0, 0, 1.0, 1.0, NAN, float("nan")):
            asc.muls(a, b, scalar, 1)
        ops = [entry.op for entry in core.rec.program]
        assert ops[0] is not ops[1]
        assert ops[3] is ops[4] and ops[5] is ops[6]
        core.rec.program[:] = core.rec.program[:2]
        entries = list(core.rec.program)
        results = []
        for entry in entries:
            core.rec.program[:] = [entry]
            core.run()
            results.append(core.words(A, np.float16, 1)[0])
        same(results, [-0.0, 0.0])


@pytest.mark.parametrize("on", CARDS)
def test_nothing_is_recorded_for_zero_elements(on: str) -> None:
    with vector_core(on) as core:
        a, b = core.tensor("float16", A), core.tensor("float16", B)
        asc.relu(a, b, 0)
        asc.relu(a, b, 16, 0, UnaryRepeatParams())
        asc.relu(a, b, 0, 4, UnaryRepeatParams())
        assert core.rec.program == []
        assert len(core.warnings) == (3 if on == "atlas_350" else 0)


def test_cube_cores_record_nothing() -> None:
    with vector_core("atlas_a2", kind="aic") as core:
        asc.add(core.tensor("float16", A), core.tensor("float16", B), core.tensor("float16", C), -5)
        assert core.rec.program == []


# ---- the mask form --------------------------------------------------------------------------------------------------
def element_loop(
    ub: Any, size: int, offsets: list[int], blocks: list[int], repeats: list[int], times: int, active: list[int]
) -> None:
    """dst = src0 + src1 on uint16 or uint32 words of `ub`, element by element from the definition of the strides."""
    kind = f"u{size}"
    per_block = 32 // size

    def address(operand: int, repeat: int, e: int) -> int:
        return offsets[operand] + 32 * (repeat * repeats[operand] + e // per_block * blocks[operand]) + e % per_block * size

    for repeat in range(times):
        sums = []
        for e in active:
            words = [ub[address(k, repeat, e) :][:size].view(kind)[0] for k in (1, 2)]
            sums.append((int(words[0]) + int(words[1])) % (1 << 8 * size))
        for e, value in zip(active, sums, strict=True):
            ub[address(0, repeat, e) :][:size].view(kind)[0] = value


@given(data=st.data())
def test_mask_form_against_an_element_loop(data: st.DataObject) -> None:
    dtype, size = data.draw(st.sampled_from([("int16", 2), ("int32", 4)]))
    per_repeat = 256 // size
    small = st.integers(0, 9)
    blocks = [data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))]
    strides = [data.draw(small) for _ in range(3)]
    times = data.draw(st.integers(1, 5))
    offsets = [32 * data.draw(st.integers(0, 200)) for _ in range(3)]
    mask: Any = data.draw(st.one_of(st.integers(1, per_repeat), st.sets(st.integers(0, per_repeat - 1), min_size=1)))
    active = sorted(mask) if isinstance(mask, set) else list(range(mask))
    if isinstance(mask, set):
        word = sum(1 << e for e in mask)
        mask = [word & (1 << 64) - 1, word >> 64]
    content = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, 20480, np.uint8)
    expected = content.copy()
    element_loop(expected, size, offsets, blocks, strides, times, active)
    shares = data.draw(st.integers(1, 4))
    with vector_core("atlas_a2") as core:
        core.put(0, content)
        tensors = [core.tensor(dtype, offset, 1) for offset in offsets]
        asc.add(*tensors, mask, times, BinaryRepeatParams(*blocks, *strides))
        ranges = [(i, lo + offsets[i], hi + offsets[i]) for i, lo, hi in (*core.op.writes, *core.op.reads)]
        core.run(shares)
        assert np.array_equal(core.ub.bytes()[:20480], expected)
        written = np.flatnonzero(content != expected)
        assert written.size == 0 or (ranges[0][1] <= written.min() and written.max() < ranges[0][2])


def test_repeats_accumulate_into_one_block_row() -> None:
    rows = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    with vector_core("atlas_a2") as core:
        total = core.tensor("float32", A, values=np.zeros(64))
        src = core.tensor("float32", B, values=rows)
        asc.add(total, src, total, 64, 4, BinaryRepeatParams(1, 1, 1, 0, 8, 0))
        core.run()
        assert np.array_equal(core.words(A, "f4", 64), rows.sum(axis=0))


def test_other_mask_forms() -> None:
    with vector_core("atlas_a2") as core:
        src = core.tensor("float16", B, values=np.arange(256) - 128)
        dst = core.tensor("float16", A)
        asc.relu(dst, src, mask=[0b101, 0], repeat_times=2, repeat_params=UnaryRepeatParams(1, 1, 1, 8))
        asc.duplicate(core.tensor("int32", C), 7, 8, 2, 1, 3)
        asc.adds(dst[32:], src, 1, 2, 1, UnaryRepeatParams(), True)
        core.run()
        first = core.words(A, np.float16, 34)
        assert [first[0], first[2], first[16], first[18]] == [0, 0, 0, 2]
        assert core.words(A, "u2", 34)[1] == 0xA5A5 and core.words(A, "u2", 34)[17] == 0xA5A5
        assert list(first[32:34]) == [-127, -126]
        assert list(core.words(C, "i4", 8)) == [7] * 8
        assert list(core.words(C + 96, "i4", 8)) == [7] * 8
        assert list(core.words(C + 32, "u1", 64)) == [0xA5] * 64
        assert core.defined(A, 8) == [True, True, False, False, True, True, False, False]


def test_undefined_sources_under_a_mask() -> None:
    with vector_core("atlas_a2") as core:
        src = core.tensor("float32", B, values=[1.0] * 3)
        asc.abs(core.tensor("float32", A), src, 5, 1, UnaryRepeatParams())
        core.run()
        assert core.defined(A, 24) == [True] * 12 + [False] * 12


def test_counter_mode_counts_elements_and_ignores_repeats() -> None:
    with vector_core("atlas_a2") as core:
        src = core.tensor("float16", B, values=np.arange(512))
        set_mask_count()
        asc.adds(core.tensor("float16", A), src, 1, [130, 0], 1, UnaryRepeatParams(2, 2, 16, 16))
        assert core.op.cost == VectorWork("adds", 16, 130, 2)
        assert core.op.writes == ((0, 0, 16 * 32 + 4),)
        core.run()
        written = core.words(A, np.float16, 272)
        for e in range(130):  # every second block of 16 elements
            assert written[e // 16 * 32 + e % 16] == e // 16 * 32 + e % 16 + 1
        assert core.words(A, "u2", 272)[16] == 0xA5A5 and core.words(A, "u2", 272)[258] == 0xA5A5


def test_is_set_mask_false_takes_the_register() -> None:
    with vector_core("atlas_a2") as core:
        a, b = core.tensor("float16", A), core.tensor("float16", B, values=np.arange(128))
        set_vector_mask(0, 0b1001, dtype=a.dtype)
        asc.adds(a, b, 1, 0, 1, UnaryRepeatParams(), False)
        core.run()
        assert list(core.words(A, "u2", 4)[1:3]) == [0xA5A5] * 2
        assert list(core.words(A, np.float16, 4)[[0, 3]]) == [1, 4]
        asc.muls(a, b, 2, 4, is_set_mask=False)  # 2201: one repeat with the present mask
        core.run()
        assert list(core.words(A, np.float16, 4)[[0, 3]]) == [0, 6] and core.words(A, "u2", 4)[1] == 0xA5A5
        asc.relu(a, b, 3, 1, UnaryRepeatParams())  # leaves its own mask behind
        asc.relu(a, b, 0, 1, UnaryRepeatParams(), is_set_mask=False)
        assert core.op.cost == VectorWork("relu", 16, 3, 1)
        asc.relu(a, b, 5)  # the count form leaves all ones behind
        asc.relu(a, b, 0, 1, UnaryRepeatParams(), is_set_mask=False)
        assert core.op.cost == VectorWork("relu", 16, 128, 1)
        set_mask_norm()
        reset_mask()


def test_950_count_form_leaves_the_register_alone() -> None:
    with vector_core("atlas_350") as core:
        a, b = core.tensor("float16", A), core.tensor("float16", B)
        asc.relu(a, b, 3, 1, UnaryRepeatParams())
        asc.adds(a, b, 1, 7, is_set_mask=False)
        assert core.op.cost == VectorWork("adds", 16, 7, 1)
        asc.relu(a, b, 0, 1, UnaryRepeatParams(), is_set_mask=False)
        assert core.op.cost == VectorWork("relu", 16, 3, 1)


def test_a_mask_beyond_a_repeat_warns() -> None:
    with vector_core("atlas_a2") as core:
        asc.relu(core.tensor("float32", A), core.tensor("float32", B), 100, 1, UnaryRepeatParams())
        assert core.op.cost == VectorWork("relu", 32, 64, 1)
        assert len(core.warnings) == 1 and "64 elements" in core.warnings[0]


# ---- what is refused ------------------------------------------------------------------------------------------------
def test_types_come_from_the_cards_list() -> None:
    assert listed_types("Add", card("atlas_a2")) == ["int16", "float16", "int32", "float32"]
    assert "uint64" in listed_types("Max", card("atlas_350"))
    assert listed_types("Axpy", card("atlas_a3")) == [
        "float16*float16*float16", "float32*float32*float32", "float16*float16*float32",
    ]  # fmt: skip
    assert listed_types("Div", card("atlas_350"))[:3] == ["int16", "uint16", "float16"]


@pytest.mark.parametrize(
    ("name", "dtype", "refused", "taken"),
    [("add", "int8", "atlas_a2", "atlas_350"), ("div", "int32", "atlas_a3", "atlas_350"),
     ("relu", "int64", "atlas_200i", "atlas_350"), ("bitwise_and", "int32", "atlas_a2", "atlas_350"),
     ("add", "bfloat16", "atlas_a2", "atlas_350"), ("abs", "int16", "atlas_a2", "atlas_200i")],
)  # fmt: skip
def test_types_per_card(name: str, dtype: str, refused: str, taken: str) -> None:
    operands = 3 if name in ("add", "div", "bitwise_and") else 2
    for on in (refused, taken):
        with vector_core(on) as core:
            tensors = [core.tensor(dtype, place) for place in (A, B, C)[:operands]]
            if on == taken:
                getattr(asc, name)(*tensors, 16)
                continue
            with pytest.raises(UnsupportedError) as error:
                getattr(asc, name)(*tensors, 16)
            assert error.value.value == dtype and error.value.card == refused and error.value.allowed
            assert core.rec.program == []


def calls(core: Any) -> dict[str, tuple[type, Callable[[], None]]]:
    f16 = [core.tensor("float16", place) for place in (A, B, C)]
    f32, i16, i8 = core.tensor("float32", A), core.tensor("int16", A), core.tensor("int8", A)
    unary, binary = UnaryRepeatParams(), BinaryRepeatParams()
    end = int(core.ub.size)
    return {
        "unequal types": (ParameterError, lambda: asc.add(f32, f16[1], f16[2], 16)),
        "negative count": (ParameterError, lambda: asc.add(*f16, -1)),
        "float count": (ParameterError, lambda: asc.add(*f16, 16.0)),
        "no count": (ParameterError, lambda: asc.add(*f16)),
        "unknown keyword": (ParameterError, lambda: asc.add(*f16, 16, counter=3)),
        "too many": (ParameterError, lambda: asc.add(*f16, 16, 1, binary, True, 5)),
        "other struct": (ParameterError, lambda: asc.add(*f16, 16, 1, unary)),
        "no struct": (ParameterError, lambda: asc.relu(*f16[:2], 16, 1)),
        "repeat 256": (ParameterError, lambda: asc.add(*f16, 128, 256, binary)),
        "repeat stride 256": (ParameterError, lambda: asc.relu(*f16[:2], 8, 1, UnaryRepeatParams(dst_rep_stride=256))),
        "block stride 256": (ParameterError, lambda: asc.add(*f16, 8, 1, BinaryRepeatParams(src0_blk_stride=256))),
        "destination block stride 0": (ParameterError, lambda: asc.relu(*f16[:2], 17, 1, UnaryRepeatParams(0))),
        "one mask word": (ParameterError, lambda: asc.relu(*f16[:2], [1], 1, unary)),
        "mask word of 65 bits": (ParameterError, lambda: asc.relu(*f16[:2], [1 << 64, 0], 1, unary)),
        "negative mask": (ParameterError, lambda: asc.relu(*f16[:2], -1, 1, unary)),
        "scalar too large": (ParameterError, lambda: asc.adds(i16, i16, 40000, 16)),
        "fraction": (ParameterError, lambda: asc.adds(i16, i16, 1.5, 16)),
        "no number": (ParameterError, lambda: asc.adds(i16, i16, "1", 16)),
        "an array": (ParameterError, lambda: asc.adds(f32, f32, np.ones(3), 16)),
        "a tensor": (ParameterError, lambda: asc.adds(f32, f32, f32, 16)),
        "negative shift": (ParameterError, lambda: asc.shift_left(i16, i16, -1, 16)),
        "shift of 17": (ParameterError, lambda: asc.shift_right(i16, i16, 17, 16)),
        "numbers as operands": (ParameterError, lambda: asc.add(f16[0], f16[1], 3.0, 16)),
        "no such type": (UnsupportedError, lambda: asc.duplicate(i8, 1, 16)),
        "unbound": (UnsupportedError, lambda: asc.relu(LocalTensor(f16[0].dtype), f16[1], 16)),
        "misaligned": (AlignmentError, lambda: asc.relu(f16[0][8:], f16[1], 16)),
        "misaligned source": (AlignmentError, lambda: asc.add(f16[0], f16[1], f16[2][1:], 16)),
        "past the end": (OutOfBoundsError, lambda: asc.relu(core.tensor("float16", end - 32, 16), f16[1], 17)),
        "past the end under a mask": (OutOfBoundsError,
                                      lambda: asc.relu(f16[0], core.tensor("float16", end - 256, 128), 128, 2, unary)),
    }  # fmt: skip


def test_wrong_calls_record_nothing() -> None:
    with vector_core("atlas_a2") as core:
        for what, (kind, call) in calls(core).items():
            with pytest.raises(kind):
                call()
                pytest.fail(what)
            assert core.rec.program == [], what


def test_operands_outside_ub() -> None:
    with vector_core("atlas_a2") as core:
        gm = GlobalTensor()
        gm.dtype = DataType("half")
        with pytest.raises(UnsupportedError) as error:
            asc.add(core.tensor("float16", A), gm, core.tensor("float16", C), 16)
        assert (error.value.field, error.value.value) == ("position", "GM")


def test_8_bit_types_have_the_count_form_only() -> None:
    with vector_core("atlas_350") as core:
        tensors = [core.tensor("int8", place) for place in (A, B, C)]
        with pytest.raises(UnsupportedError):
            asc.add(*tensors, 64, 1, BinaryRepeatParams())
        asc.add(*tensors, 64)


def test_a_wrong_count_is_refused_after_an_equal_right_one() -> None:
    with vector_core("atlas_a2") as core:
        tensors = [core.tensor("float16", place) for place in (A, B, C)]
        asc.add(*tensors, 16)
        with pytest.raises(ParameterError):
            asc.add(*tensors, 16.0)


@pytest.mark.parametrize("on", CARDS)
@pytest.mark.parametrize("mask", [64, 11])
def test_a_repeat_stride_of_0_broadcasts_a_row(on: str, mask: int) -> None:
    rows, row = np.arange(4 * 64).reshape(4, 64), np.arange(64) * 1000
    with vector_core(on) as core:
        a, b = core.tensor("int32", B, values=rows), core.tensor("int32", C, values=row)
        asc.add(core.tensor("int32", A), a, b, mask, 4, BinaryRepeatParams(1, 1, 1, 8, 8, 0))
        core.run()
        found = core.words(A, np.int32, 256).reshape(4, 64)
    np.testing.assert_array_equal(found[:, :mask], (rows + row)[:, :mask])
    assert (np.ascontiguousarray(found[:, mask:]).view(np.uint8) == 0xA5).all()


@pytest.mark.parametrize("shares", [1, 4])
def test_the_count_form_works_repeat_by_repeat(shares: int) -> None:
    # 64 int32 a repeat; the destination begins one repeat behind the source, so every repeat reads the last one's result.
    with vector_core("atlas_350") as core:
        src = core.tensor("int32", A, size=512, values=np.arange(256))
        asc.adds(src[64], src, 1000, 192)
        core.run(shares)
        found = core.words(A, np.int32, 256).reshape(4, 64)
    np.testing.assert_array_equal(found, np.arange(64) + 1000 * np.arange(4)[:, None])


def test_widening_in_place_reads_what_it_has_overwritten() -> None:
    # int16 to int32 over itself: 64 elements a repeat, and the first repeat's 256 B cover the source of the second.
    values = np.arange(1, 129)
    with vector_core("atlas_350") as core:
        src = core.tensor("int16", A, size=1024, values=values)
        asc.cast(src.reinterpret_cast(DataType("int32")), src, 0, 128)
        core.run()
        found = core.words(A, np.int32, 128)
    overwritten = values[:64].astype(np.int32).view(np.int16)
    np.testing.assert_array_equal(found[:64], values[:64])
    np.testing.assert_array_equal(found[64:], overwritten[64:128])
