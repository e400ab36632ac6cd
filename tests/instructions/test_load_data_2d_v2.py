"""LoadData with LoadData2DParamsV2 against the published examples and the fractal rules of each element width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, OnChip, Pipe
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2, build
from aicore_sim.kernel.api_load import load_data
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import LocalTensor
from tests.instructions.cube_setup import FRACTAL, buffer, card, check_case, numbers, pack, recording, run, stored
from tests.instructions.cube_setup import words as words_of

HALF = DataType("half")
BY_BITS = {4: "fp4x2_e2m1", 8: "int8", 16: "half", 32: "float"}


def load(
    params: LoadData2DParamsV2, bits: int, content: NDArray[Any], fractals: int, target: str = "L0A"
) -> NDArray[Any]:
    """Elements of the destination after the call, 0xA5 where nothing was written."""
    op = build(params, DataType(BY_BITS[bits]), "L1", target, card("atlas_350"))
    assert op is not None
    dst = buffer(target, fractals * FRACTAL, defined=False)
    run(op, [dst, buffer("L1", pack(content, bits))])
    return words_of(dst, bits)


def test_published_sub_block() -> None:
    """Start fractal 2 * 5 + 2 = 12; fractals 12 13 / 17 18 / 22 23 land in 0 1 / 3 4 / 6 7."""
    params = LoadData2DParamsV2(2, 2, 2, 3, 5, 3)
    content = np.repeat(np.arange(30, dtype=np.uint16), 256)
    got = load(params, 16, content, 9)[::256].tolist()
    assert got == [12, 13, 0xA5A5, 17, 18, 0xA5A5, 22, 23, 0xA5A5]


def test_published_bit_mode_example() -> None:
    content = np.arange(4 * 256, dtype=np.uint16).reshape(4, 16, 16)
    params = LoadData2DParamsV2(m_step=2, k_step=2, src_stride=2, dst_stride=2)
    np.testing.assert_array_equal(load(params, 16, content, 4), content.reshape(-1))
    turned = LoadData2DParamsV2(m_step=2, k_step=2, src_stride=2, dst_stride=2, if_transpose=True)
    expected = content[[0, 2, 1, 3]].transpose(0, 2, 1).reshape(-1)
    np.testing.assert_array_equal(load(turned, 16, content, 4), expected)


M, N, K = 40, 50, 70


@pytest.mark.parametrize(("bits", "m_step", "k_step"), [(8, 3, 3), (16, 3, 5), (32, 3, 9)])
def test_a_nz_to_nz(bits: int, m_step: int, k_step: int) -> None:
    a = stored(numbers(M * K, bits).reshape(M, K), "NZ", 256 // bits)
    got = load(LoadData2DParamsV2(0, 0, m_step, k_step, m_step, m_step), bits, a, m_step * k_step)
    np.testing.assert_array_equal(got, a)


# A stored K x M -> NZ of A; `deep` is what K is padded to, `blocks` the row blocks of the result.
@pytest.mark.parametrize(
    ("bits", "params", "deep", "blocks"),
    [(16, (5, 3, 5, 3), 80, 3), (32, (5, 6, 5, 3), 80, 3), (8, (6, 2, 6, 4), 96, 4)],
)
def test_transposed_a(bits: int, params: tuple[int, int, int, int], deep: int, blocks: int) -> None:
    c0 = 256 // bits
    a = numbers(M * K, bits).reshape(M, K)
    padded = np.zeros((deep, -(-M // (2 * c0 if bits == 32 else c0)) * (2 * c0 if bits == 32 else c0)), a.dtype)
    padded[:K, :M] = a.T
    m_step, k_step, src_stride, dst_stride = params
    columns = -(-K // c0)
    got = load(
        LoadData2DParamsV2(0, 0, m_step, k_step, src_stride, dst_stride, True), bits, stored(padded, "NZ", c0),
        max(blocks * columns, deep // c0 * blocks),
    )  # fmt: skip
    r, c = np.indices((M, K))
    np.testing.assert_array_equal(got[(c // c0 * blocks + r // 16) * 16 * c0 + r % 16 * c0 + c % c0], a)


@pytest.mark.parametrize(
    ("bits", "params", "deep", "wide"),
    [(16, (5, 4, 5, 4), 80, 64), (32, (5, 8, 5, 4), 80, 64), (8, (6, 2, 6, 4), 96, 64)],
)
def test_transposed_b(bits: int, params: tuple[int, int, int, int], deep: int, wide: int) -> None:
    """B stored K x N -> ZN of B in L0B."""
    c0 = 256 // bits
    b = np.zeros((deep, wide), f"u{bits // 8}")
    b[:K, :N] = numbers(K * N, bits).reshape(K, N)
    m_step, k_step, src_stride, dst_stride = params
    got = load(LoadData2DParamsV2(0, 0, m_step, k_step, src_stride, dst_stride, True), bits, stored(b, "NZ", c0),
               deep * wide // (16 * c0), "L0B")  # fmt: skip
    np.testing.assert_array_equal(got, stored(b, "ZN", c0))


def test_transposed_4_bit_square() -> None:
    a = numbers(128 * 128, 4).reshape(128, 128)
    got = load(LoadData2DParamsV2(0, 0, 8, 2, 8, 8, True), 4, stored(a, "NZ", 64), 16)
    np.testing.assert_array_equal(got, stored(a.T.copy(), "NZ", 64))


def test_published_loop_form() -> None:
    """int8 in three calls into a pitch of 3: each call's fourth row block lands on the next column and is overwritten."""
    a = np.zeros((64, 96), np.uint8)
    a[:M, :K] = numbers(M * K, 8).reshape(M, K)
    src, dst = buffer("L1", stored(a.T.copy(), "NZ", 32)), buffer("L0A", 10 * FRACTAL, defined=False)
    for i in range(3):
        op = build(LoadData2DParamsV2(2 * i, 0, 2, 2, 6, 3, True), DataType("int8"), "L1", "L0A", card("atlas_350"))
        assert op is not None and not op.warnings
        run(op, [dst, src], [1536 * i, 0])
    np.testing.assert_array_equal(dst.bytes()[: 9 * FRACTAL], stored(a[:48], "NZ", 32))
    np.testing.assert_array_equal(dst.bytes()[9 * FRACTAL :], a[48:, 64:].reshape(-1))


@pytest.mark.parametrize("case", ["C19", "C20", "C21", "C22", "C25"])
def test_case(case: str) -> None:
    check_case(case, "atlas_350", build, LoadData2DParamsV2)


def by_the_fractal_rules(params: LoadData2DParamsV2, bits: int, content: NDArray[Any], out: NDArray[Any]) -> None:
    """Squares of n fractals, one after the other, as each width's rule says; later squares overwrite earlier ones."""
    c0 = 256 // bits
    source = content.reshape(-1, 16, c0)
    target = out.reshape(-1, 16, c0)
    first = params.k_start_position * abs(params.src_stride) + params.m_start_position

    def g(i: int, j: int) -> Any:
        return source[first + j * params.src_stride + i]

    if not params.if_transpose:
        for j in range(params.k_step):
            for i in range(params.m_step):
                target[j * params.dst_stride + i] = g(i, j)
    elif bits == 32:
        for i in range(params.m_step):
            for p in range(params.k_step // 2):
                square = np.hstack([g(i, 2 * p), g(i, 2 * p + 1)]).T
                for q in range(2):
                    target[(2 * i + q) * params.dst_stride + p] = square[:, 8 * q : 8 * q + 8]
    else:
        n = c0 // 16
        for p in range(params.m_step // n):
            for j in range(params.k_step):
                square = np.vstack([g(n * p + t, j) for t in range(n)]).T
                for q in range(n):
                    target[p * params.dst_stride + n * j + q] = square[16 * q : 16 * q + 16]


@given(
    bits=st.sampled_from([4, 8, 16, 32]),
    start=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(0, 8), st.integers(0, 5)),
    transpose=st.booleans(),
    target=st.sampled_from(["L0A", "L0B"]),
    shares=st.integers(1, 4),
)
def test_any_parameters(
    bits: int,
    start: tuple[int, int],
    steps: tuple[int, int],
    strides: tuple[int, int],
    transpose: bool,
    target: str,
    shares: int,
) -> None:
    m_step, k_step = steps
    if transpose:
        m_step *= {4: 4, 8: 2}.get(bits, 1)
        k_step *= 2 if bits == 32 else 1
    rows = k_step * (256 // bits) // 16 if transpose else m_step
    params = LoadData2DParamsV2(*start, m_step, k_step, strides[0], rows + strides[1], transpose)
    fractals = 24 * 12
    content = numbers(fractals * FRACTAL * 8 // bits, bits, seed=bits)
    op = build(params, DataType(BY_BITS[bits]), "L1", target, card("atlas_350"))
    assert op is not None
    dst = buffer(target, fractals * FRACTAL, defined=False)
    run(op, [dst, buffer("L1", pack(content, bits))], shares=shares)
    expected = words_of(buffer(target, fractals * FRACTAL), bits).copy()
    by_the_fractal_rules(params, bits, content, expected)
    np.testing.assert_array_equal(words_of(dst, bits), expected)
    assert dst.shadow is not None
    touched = np.zeros_like(expected)
    by_the_fractal_rules(params, bits, np.ones_like(content), touched)
    marks = dst.shadow.reshape(-1, max(bits // 8, 1))
    np.testing.assert_array_equal(marks.all(axis=1), touched.astype(bool)[:: 2 if bits == 4 else 1])


def test_columns_overlap_in_the_order_of_the_columns() -> None:
    """What is undefined has the bytes of the last column that writes there; the rest is as always."""
    content = np.repeat(np.arange(12, dtype=np.uint16), 256)
    op = build(LoadData2DParamsV2(0, 0, 3, 3, 3, 1), HALF, "L1", "L0A", card("atlas_350"))
    assert op is not None
    dst = buffer("L0A", 6 * FRACTAL, defined=False)
    run(op, [dst, buffer("L1", content)])
    assert words_of(dst, 16)[::256].tolist() == [0, 3, 6, 7, 8, 0xA5A5]
    assert dst.shadow is not None and dst.shadow[::FRACTAL].tolist() == [1, 0, 0, 0, 1, 0]


def test_hardware_keeps_16_bits_of_a_stride() -> None:
    wrapping = card("atlas_350").reading(wrap="hardware")
    op = build(LoadData2DParamsV2(0, 1, 1, 2, 65535, 1), HALF, "L1", "L0A", wrapping)
    assert op is not None and op.reads == ((1, 0, 2 * FRACTAL),)
    assert "src_stride = 65535" in op.warnings[0] and "becomes -1" in op.warnings[0]


def test_negative_source_stride_steps_back() -> None:
    content = np.repeat(np.arange(12, dtype=np.uint16), 256)
    got = load(LoadData2DParamsV2(1, 2, 1, 3, -3, 1), 16, content, 3)
    assert got[::256].tolist() == [7, 4, 1]


def test_overlapping_columns_are_reported() -> None:
    op = build(LoadData2DParamsV2(0, 0, 2, 2, 2, 1), HALF, "L1", "L0A", card("atlas_350"))
    assert op is not None and "overlap" in op.warnings[0]


# ---- cards, paths, cost -------------------------------------------------------------------------------------------
def test_gm_to_l1() -> None:
    op = build(LoadData2DParamsV2(0, 0, 2, 3, 4, 2, True), HALF, "GM", "L1", card("atlas_350"))
    assert op is not None
    assert op.pipe is Pipe.MTE2 and op.cost == GmTraffic("GM-L1", 6 * FRACTAL, 3, True)
    assert op.gm_operand == 1 and op.reads == ((1, 0, 10 * FRACTAL),) and op.aligns == (32, 1)
    assert "if_transpose" in op.warnings[0]


def test_l1_to_l0b() -> None:
    op = build(LoadData2DParamsV2(0, 0, 2, 3, 4, 2), HALF, "L1", "L0B", card("atlas_350"))
    assert op is not None
    assert op.pipe is Pipe.MTE1 and op.cost == OnChip("L1-L0B", "LoadData2DV2", 6 * FRACTAL)


@pytest.mark.parametrize("name", ["atlas_a2", "atlas_a3", "atlas_200i"])
@pytest.mark.parametrize("path", [("L1", "L0A"), ("GM", "L1")])
def test_other_cards_do_not_have_it(name: str, path: tuple[str, str]) -> None:
    with pytest.raises(UnsupportedError) as caught:
        build(LoadData2DParamsV2(0, 0, 1, 1, 1, 1), HALF, *path, card(name))
    assert caught.value.card == name


def test_unlisted_paths_and_types() -> None:
    with pytest.raises(UnsupportedError, match="path"):
        build(LoadData2DParamsV2(), HALF, "GM", "L0A", card("atlas_350"))
    with pytest.raises(UnsupportedError, match="element type"):
        build(LoadData2DParamsV2(), DataType("int64"), "L1", "L0A", card("atlas_350"))


@pytest.mark.parametrize(("m_step", "k_step"), [(0, 3), (3, 0)])
def test_no_step_moves_nothing(m_step: int, k_step: int) -> None:
    assert build(LoadData2DParamsV2(m_step=m_step, k_step=k_step), HALF, "L1", "L0A", card("atlas_350")) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("m_start_position", -1), ("m_start_position", 65536), ("k_start_position", -1), ("k_start_position", 65536),
        ("m_step", 256), ("m_step", -1), ("k_step", 256), ("k_step", -1), ("src_stride", 32768), ("src_stride", -32769),
        ("dst_stride", 65536), ("dst_stride", -1), ("sid", -1),
    ],
)  # fmt: skip
def test_field_out_of_range(field: str, value: int) -> None:
    with pytest.raises(ParameterError) as caught:
        build(LoadData2DParamsV2(**{field: value}), HALF, "L1", "L0A", card("atlas_350"))  # type: ignore[arg-type]
    assert caught.value.field == field and caught.value.value == value


@pytest.mark.parametrize(
    ("bits", "field", "good", "bad"), [(4, "m_step", 4, 6), (8, "m_step", 2, 3), (32, "k_step", 2, 3)]
)
def test_transposition_needs_squares(bits: int, field: str, good: int, bad: int) -> None:
    base = {"m_step": 4, "k_step": 2, "src_stride": 4, "dst_stride": 8, "if_transpose": True}
    dtype = DataType(BY_BITS[bits])
    assert build(LoadData2DParamsV2(**{**base, field: good}), dtype, "L1", "L0A", card("atlas_350")) is not None  # type: ignore[arg-type]
    with pytest.raises(ParameterError) as caught:
        build(LoadData2DParamsV2(**{**base, field: bad}), dtype, "L1", "L0A", card("atlas_350"))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_k_step_in_units_of_half_for_an_8_bit_type() -> None:
    """spec pitfalls.md P04: twice the columns are moved, the L0 tile is overrun, the addresses stay legal."""
    fp8 = DataType("fp8_e4m3fn")
    with recording("atlas_350") as rec:
        l1, l0 = LocalTensor(fp8, TPosition.A1, 0, 4096), LocalTensor(fp8, TPosition.A2, 0, 2048)
        load_data(l0, l1, LoadData2DParamsV2(0, 0, 2, 2, 2, 2))
        assert not rec.session.warnings
        load_data(l0, l1, LoadData2DParamsV2(0, 0, 2, 4, 2, 2))
        assert rec.program[1].op.writes == ((0, 0, 4096),)
        assert "L0A tensor of 2048" in next(iter(rec.session.warnings))[0]
        with pytest.raises(OutOfBoundsError):
            load_data(l0, l1, LoadData2DParamsV2(0, 0, 255, 1, 255, 255))
