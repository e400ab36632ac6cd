"""LoadData with LoadData2DParams against the published examples and a fractal-by-fractal reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, OnChip, Pipe
from aicore_sim.instructions.load_data_2d import LoadData2DParams, build
from aicore_sim.kernel.api_load import load_data
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from tests.instructions.cube_setup import (
    CARDS,
    FRACTAL,
    apply_program,
    buffer,
    card,
    check_case,
    numbers,
    pack,
    recording,
    run,
    stored,
)
from tests.instructions.cube_setup import words as words_of

HALF, FLOAT, INT8 = DataType("half"), DataType("float"), DataType("int8")


def fractal_moves(
    params: LoadData2DParams, dtype: DataType, path: tuple[str, str], name: str, calls: int = 1
) -> dict[int, int]:
    """Destination fractal -> source fractal. Call i starts i fractals later on both sides."""
    op = build(params, dtype, *path, card(name))
    assert op is not None
    src = buffer(path[0], np.repeat(np.arange(64, dtype=np.uint8), FRACTAL))
    dst = buffer(path[1], 64 * FRACTAL, defined=False)
    for i in range(calls):
        run(op, [dst, src], [i * FRACTAL, i * FRACTAL])
    content = dst.bytes().reshape(64, FRACTAL)
    assert (content == content[:, :1]).all(), "a fractal came from two places"
    return {i: int(row[0]) for i, row in enumerate(content) if row[0] != 0xA5}


L0A, L0B = ("L1", "L0A"), ("L1", "L0B")


@pytest.mark.parametrize(
    ("params", "path", "calls", "expected"),
    [
        (dict(start_index=0, repeat_times=4, src_stride=2, dst_gap=2), L0A, 1, {0: 0, 3: 2, 6: 4, 9: 6}),
        (dict(start_index=1, repeat_times=4, src_stride=2, dst_gap=2), L0A, 1, {0: 1, 3: 3, 6: 5, 9: 7}),
        (dict(repeat_times=4, src_stride=2, dst_gap=1), L0B, 2, {i: i for i in range(8)}),
        (
            dict(start_index=6, repeat_times=4, src_stride=2, dst_gap=2, addr_mode=1),
            ("GM", "L1"),
            1,
            {0: 6, 3: 4, 6: 2, 9: 0},
        ),
    ],
)
def test_published_examples(
    params: dict[str, Any], path: tuple[str, str], calls: int, expected: dict[int, int]
) -> None:
    assert fractal_moves(LoadData2DParams(**params), FLOAT, path, "atlas_a2", calls) == expected


def test_published_example_of_three_calls() -> None:
    """Call i reads from fractal 2i and writes from fractal i."""
    op = build(LoadData2DParams(repeat_times=2, src_stride=1, dst_gap=2), FLOAT, *L0A, card("atlas_a2"))
    assert op is not None
    src, dst = buffer("L1", np.repeat(np.arange(6, dtype=np.uint8), FRACTAL)), buffer("L0A", 6 * FRACTAL)
    for i in range(3):
        run(op, [dst, src], [i * FRACTAL, 2 * i * FRACTAL])
    assert dst.bytes()[::FRACTAL].tolist() == [0, 2, 4, 1, 3, 5]


def test_transposed_fractals_of_the_published_example() -> None:
    op = build(
        LoadData2DParams(repeat_times=3, src_stride=2, dst_gap=1, if_transpose=True), HALF, *L0A, card("atlas_a2")
    )
    assert op is not None
    content = np.arange(8 * 256, dtype=np.uint16).reshape(8, 16, 16)
    src, dst = buffer("L1", content), buffer("L0A", 8 * FRACTAL)
    for i in range(2):
        run(op, [dst, src], [i * FRACTAL, i * FRACTAL])
    got = words_of(dst, 16).reshape(8, 16, 16)
    np.testing.assert_array_equal(got[:6], content[:6].transpose(0, 2, 1))


M, K, N = 40, 70, 50


def test_nz_to_zz_of_a() -> None:
    a = numbers(M * K, 16).reshape(M, K)
    src, dst = buffer("L1", stored(a, "NZ", 16)), buffer("L0A", 3 * 5 * FRACTAL)
    op = build(LoadData2DParams(repeat_times=5, src_stride=3), HALF, *L0A, card("atlas_a3"))
    assert op is not None
    for i in range(3):
        run(op, [dst, src], [i * 5 * FRACTAL, i * FRACTAL])
    np.testing.assert_array_equal(words_of(dst, 16), stored(a, "ZZ", 16))


def test_a_stored_k_by_m_to_zz() -> None:
    a = numbers(M * K, 16).reshape(M, K)
    src, dst = buffer("L1", stored(a.T, "NZ", 16)), buffer("L0A", 3 * 5 * FRACTAL)
    op = build(LoadData2DParams(repeat_times=5, src_stride=1, if_transpose=True), HALF, *L0A, card("atlas_a2"))
    assert op is not None
    for i in range(3):
        run(op, [dst, src], [i * 5 * FRACTAL, i * 5 * FRACTAL])
    np.testing.assert_array_equal(words_of(dst, 16), stored(a, "ZZ", 16))


@pytest.mark.parametrize(("dtype", "k_blocks"), [(INT8, 3), (HALF, 5), (FLOAT, 9)])
def test_b_stored_n_by_k_to_zn(dtype: DataType, k_blocks: int) -> None:
    b = numbers(K * N, dtype.bits).reshape(K, N)
    src, dst = buffer("L1", stored(b.T, "NZ", dtype.c0)), buffer("L0B", k_blocks * 4 * FRACTAL)
    op = build(LoadData2DParams(repeat_times=4, src_stride=1), dtype, *L0B, card("atlas_a2"))
    assert op is not None
    for i in range(k_blocks):
        run(op, [dst, src], [i * 4 * FRACTAL] * 2)
    np.testing.assert_array_equal(words_of(dst, dtype.bits), stored(b, "ZN", dtype.c0))


def test_b_stored_k_by_n_to_zn() -> None:
    b = numbers(K * N, 16).reshape(K, N)
    src, dst = buffer("L1", stored(b, "NZ", 16)), buffer("L0B", 5 * 4 * FRACTAL)
    op = build(LoadData2DParams(repeat_times=4, src_stride=5, if_transpose=True), HALF, *L0B, card("atlas_a2"))
    assert op is not None
    for i in range(5):
        run(op, [dst, src], [i * 4 * FRACTAL, i * FRACTAL])
    np.testing.assert_array_equal(words_of(dst, 16), stored(b, "ZN", 16))


@pytest.mark.parametrize("case", ["C01", "C02", "C03", "C04", "C05", "C06"])
@pytest.mark.parametrize("name", ["atlas_a2", "atlas_a3"])
def test_case(case: str, name: str) -> None:
    check_case(case, name, build, LoadData2DParams)


@given(
    start=st.integers(0, 20),
    repeats=st.integers(1, 12),
    stride=st.integers(0, 5),
    gap=st.integers(0, 4),
    transpose=st.booleans(),
    bits=st.sampled_from([4, 8, 16, 32]),
    target=st.sampled_from(["L0A", "L0B"]),
    shares=st.integers(1, 5),
)
def test_any_parameters(
    start: int, repeats: int, stride: int, gap: int, transpose: bool, bits: int, target: str, shares: int
) -> None:
    """Repeat by repeat: 512 B from (start + stride * r) to (gap + 1) * r, transposed as a 16 x 16 matrix if asked for."""
    transpose = transpose and bits == 16
    dtype = DataType({4: "int4", 8: "uint8", 16: "bfloat16", 32: "int32"}[bits])
    params = LoadData2DParams(start, repeats, stride, 0, gap, transpose)
    op = build(params, dtype, "L1", target, card("atlas_a2"))
    assert op is not None
    content = numbers(90 * FRACTAL, 8, seed=start)
    src, dst = buffer("L1", content), buffer(target, 90 * FRACTAL, defined=False)
    run(op, [dst, src], shares=shares)
    expected, written = np.full((90, FRACTAL), 0xA5, np.uint8), np.zeros((90, FRACTAL), np.uint8)
    for r in range(repeats):
        fractal = content.reshape(90, FRACTAL)[start + stride * r]
        if transpose:
            fractal = fractal.view(np.uint16).reshape(16, 16).T.copy().view(np.uint8).reshape(-1)
        expected[(gap + 1) * r], written[(gap + 1) * r] = fractal, 1
    np.testing.assert_array_equal(dst.bytes().reshape(90, FRACTAL), expected)
    assert dst.shadow is not None
    np.testing.assert_array_equal(dst.shadow.reshape(90, FRACTAL), written)
    assert op.reads == ((1, start * FRACTAL, (start + stride * (repeats - 1) + 1) * FRACTAL),)
    assert op.writes == ((0, 0, (repeats + gap * (repeats - 1)) * FRACTAL),)


def test_undefined_source_bytes_stay_undefined() -> None:
    op = build(LoadData2DParams(repeat_times=2, src_stride=1, if_transpose=True), HALF, *L0A, card("atlas_a2"))
    assert op is not None
    src, dst = buffer("L1", 2 * FRACTAL), buffer("L0A", 2 * FRACTAL, defined=False)
    assert src.shadow is not None and dst.shadow is not None
    src.shadow[FRACTAL + 32 * 3 + 2 * 5 : FRACTAL + 32 * 3 + 2 * 6] = 0  # row 3, column 5 of the second fractal
    run(op, [dst, src])
    marks = dst.shadow.view(np.uint16).reshape(2, 16, 16)
    assert marks[1, 5, 3] == 0 and (marks == 0).sum() == 1


# ---- cards, paths, cost -------------------------------------------------------------------------------------------
def test_gm_source() -> None:
    op = build(LoadData2DParams(repeat_times=3, src_stride=4), HALF, "GM", "L0B", card("atlas_200i"))
    assert op is not None
    assert op.pipe is Pipe.MTE2 and op.cost == GmTraffic("GM-L0B", 3 * FRACTAL, 3, True)
    assert op.gm_operand == 1 and op.gm_runs[0, :4].tolist() == [0, FRACTAL, 3, 4 * FRACTAL]
    assert op.aligns == (512, 1)


def test_l1_source() -> None:
    op = build(LoadData2DParams(repeat_times=3, src_stride=4), HALF, "L1", "L0B", card("atlas_a2"))
    assert op is not None
    assert op.pipe is Pipe.MTE1 and op.cost == OnChip("L1-L0B", "LoadData2D", 3 * FRACTAL)
    assert op.aligns == (512, 32) and op.gm_operand == -1


@pytest.mark.parametrize("name", CARDS)
def test_gm_to_l1_on_every_card(name: str) -> None:
    op = build(LoadData2DParams(repeat_times=3, src_stride=2, dst_gap=1), HALF, "GM", "L1", card(name))
    assert op is not None and op.writes == ((0, 0, 5 * FRACTAL),)


@pytest.mark.parametrize("target", ["L0A", "L0B"])
def test_gm_to_l0_is_gone_on_950(target: str) -> None:
    with pytest.raises(UnsupportedError, match="path"):
        build(LoadData2DParams(), HALF, "GM", target, card("atlas_350"))


def test_dst_gap_has_no_effect_on_950() -> None:
    params = LoadData2DParams(start_index=1, repeat_times=3, src_stride=2, dst_gap=4)
    assert fractal_moves(params, HALF, L0A, "atlas_350") == {0: 1, 1: 3, 2: 5}
    op = build(params, HALF, *L0A, card("atlas_350"))
    assert op is not None and "dst_gap has no effect" in op.warnings[0]


@pytest.mark.parametrize("path", [L0A, ("GM", "L0A")])
def test_addr_mode_acts_from_gm_to_l1_only(path: tuple[str, str]) -> None:
    params = LoadData2DParams(start_index=1, repeat_times=3, src_stride=2, addr_mode=1)
    assert fractal_moves(params, HALF, path, "atlas_a2") == {0: 1, 1: 3, 2: 5}
    op = build(params, HALF, *path, card("atlas_a2"))
    assert op is not None and "addr_mode" in op.warnings[0]


def test_transposition_is_ignored_into_l1() -> None:
    op = build(LoadData2DParams(if_transpose=True), HALF, "GM", "L1", card("atlas_a2"))
    plain = build(LoadData2DParams(), HALF, "GM", "L1", card("atlas_a2"))
    assert op is not None and plain is not None and "if_transpose" in op.warnings[0]
    assert op.effect.transfer == plain.effect.transfer  # type: ignore[union-attr]


def test_no_repeat_moves_nothing() -> None:
    assert build(LoadData2DParams(repeat_times=0), HALF, *L0A, card("atlas_a2")) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_index", -1), ("start_index", 65536), ("repeat_times", -1), ("repeat_times", 256), ("src_stride", -1),
        ("src_stride", 65536), ("sid", 16), ("dst_gap", -1), ("dst_gap", 65536), ("addr_mode", 2), ("repeat_times", 1.5),
    ],
)  # fmt: skip
def test_field_out_of_range(field: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        build(LoadData2DParams(**{field: value}), HALF, *L0A, card("atlas_a2"))
    assert caught.value.field == field and caught.value.value == value and caught.value.card == "atlas_a2"


@pytest.mark.parametrize("dtype", ["int8", "float", "int4"])
def test_transposition_of_other_widths_is_refused(dtype: str) -> None:
    with pytest.raises(ParameterError, match="16-bit") as caught:
        build(LoadData2DParams(if_transpose=True), DataType(dtype), *L0B, card("atlas_a2"))
    assert caught.value.field == "if_transpose"


def test_transposition_from_gm_to_l0_is_refused() -> None:
    with pytest.raises(ParameterError, match="L1"):
        build(LoadData2DParams(if_transpose=True), HALF, "GM", "L0B", card("atlas_a2"))


def test_decrement_below_zero_is_refused() -> None:
    build(LoadData2DParams(4, 3, 2, addr_mode=1), HALF, "GM", "L1", card("atlas_a2"))
    with pytest.raises(ParameterError, match="below 0"):
        build(LoadData2DParams(3, 3, 2, addr_mode=1), HALF, "GM", "L1", card("atlas_a2"))


@pytest.mark.parametrize(("dtype", "path"), [("int4", ("GM", "L1")), ("fp8_e5m2", L0A), ("int64", L0A)])
def test_other_element_types_are_refused(dtype: str, path: tuple[str, str]) -> None:
    with pytest.raises(UnsupportedError) as caught:
        build(LoadData2DParams(), DataType(dtype), *path, card("atlas_a2"))
    assert caught.value.field == "dtype"


# ---- other readings, fields too wide ---------------------------------------------------------------------------------
def reading(name: str, quirks: str = "documented", wrap: str = "refuse") -> Any:
    return card(name).reading(quirks, wrap)


@pytest.mark.parametrize(("path", "params", "page", "header"), [
    (L0A, dict(start_index=1, repeat_times=3, src_stride=2, dst_gap=1), {0: 1, 1: 3, 2: 5}, {0: 2, 2: 4, 4: 6}),
    (L0B, dict(start_index=3, repeat_times=2, src_stride=1, dst_gap=2), {0: 3, 1: 4}, {0: 3, 3: 4}),
    (("GM", "L1"), dict(start_index=1, repeat_times=2, src_stride=3, dst_gap=3), {0: 1, 4: 4},
     {0: 3, 1: 4, 2: 5, 4: 6, 5: 7, 6: 8}),
    (("GM", "L1"), dict(start_index=4, repeat_times=3, src_stride=1, addr_mode=1), {0: 4, 1: 3, 2: 2}, {0: 4, 1: 5, 2: 6}),
])  # fmt: skip
def test_page_and_header_of_950(path: tuple[str, str], params: dict[str, Any], page: dict[int, int],
                                header: dict[int, int]) -> None:  # fmt: skip
    """Plain fractals by both readings; the page's says that the header does something else."""
    for quirks, expected in (("documented", page), ("load2d-950", header)):
        op = build(LoadData2DParams(**params), HALF, *path, reading("atlas_350", quirks))
        assert op is not None
        src, dst = buffer(path[0], np.repeat(np.arange(64, dtype=np.uint8), FRACTAL)), buffer(path[1], 64 * FRACTAL)
        run(op, [dst, src])
        firsts = dst.bytes()[::FRACTAL]
        assert {i: int(v) for i, v in enumerate(firsts) if v != 0xA5} == expected
        assert any("quirk load2d-950" in text for text in op.warnings) == (quirks == "documented")


def test_page_and_header_agree_in_the_usual_call() -> None:
    for path in (L0A, L0B, ("GM", "L1")):
        op = build(LoadData2DParams(2, 4, 1), HALF, *path, card("atlas_350"))
        assert op is not None and op.warnings == ()


def test_the_header_of_950_moves_nothing_without_a_stride() -> None:
    """From GM src_stride is also the row count of the 2D-V2 instruction."""
    params = LoadData2DParams(0, 3, 0)
    assert build(params, HALF, "GM", "L1", reading("atlas_350", "load2d-950")) is None
    op = build(params, HALF, "GM", "L1", card("atlas_350"))
    assert op is not None and any("load2d-950" in text for text in op.warnings)


def test_wide_strides_of_the_header_of_950() -> None:
    """int16 source stride: the start takes its absolute value, then it steps back; dst_gap + 1 is kept in 16 bits."""
    op = build(LoadData2DParams(3, 3, 65534, dst_gap=4), HALF, *L0A, reading("atlas_350", "load2d-950"))
    assert op is not None and op.reads == ((1, 2 * FRACTAL, 7 * FRACTAL),) and op.writes == ((0, 0, 11 * FRACTAL),)
    op = build(LoadData2DParams(0, 2, 1, dst_gap=65535), HALF, *L0A, reading("atlas_350", "load2d-950"))
    assert op is not None and op.writes == ((0, 0, FRACTAL),) and any("overlap" in text for text in op.warnings)


@pytest.mark.parametrize(("name", "start"), [("atlas_a2", 2), ("atlas_a3", 2), ("atlas_200i", 2), ("atlas_350", 4)])
def test_addr_mode_of_the_implementation(name: str, start: int) -> None:
    """From GM to L1 the header of 950 alone increments."""
    op = build(LoadData2DParams(4, 3, 1, addr_mode=1), HALF, "GM", "L1", reading(name, "addr-mode"))
    assert op is not None and op.reads == ((1, start * FRACTAL, (start + 3) * FRACTAL),)


@pytest.mark.parametrize(("params", "src", "dst"), [
    (LoadData2DParams(1, 4, 2, dst_gap=2), 8, 10), (LoadData2DParams(0, 255, 1), 255, 255),
    (LoadData2DParams(7, 1, 9, dst_gap=9), 8, 1), (LoadData2DParams(0, 3, 0, dst_gap=1), 1, 5),
])  # fmt: skip
def test_overflow_oracle(params: LoadData2DParams, src: int, dst: int) -> None:
    """spec 14.1: (start + (repeats - 1) * stride + 1) and repeats + (repeats - 1) * gap fractals."""
    op = build(params, HALF, "GM", "L1", card("atlas_a2"))
    assert op is not None and op.reads[0][2] == src * FRACTAL and op.writes == ((0, 0, dst * FRACTAL),)


def test_a_wrapped_repeat_is_told_although_nothing_moves() -> None:
    notes: list[str] = []
    assert build(LoadData2DParams(0, 256, 1), HALF, "GM", "L1", reading("atlas_a2", wrap="hardware"), notes) is None
    assert notes == ["repeat_times = 256 does not fit its 8 bits and becomes 0"]


# ---- the API function -----------------------------------------------------------------------------------------------
def test_a_kernel_call() -> None:
    a = numbers(16 * 64, 16).reshape(16, 64)
    with recording("atlas_a2", gm=[stored(a, "NZ", 16)]) as rec:
        gm = GlobalTensor()
        gm.set_global_buffer(GlobalAddress(rec.arrays[0], HALF))
        l1 = LocalTensor(HALF, TPosition.A1, 0, 16 * 64)
        l0 = LocalTensor(HALF, TPosition.A2, 0, 16 * 64)
        load_data(l1, gm, LoadData2DParams(repeat_times=4, src_stride=1))
        load_data(l0[256:], l1[256:], LoadData2DParams(0, 3, 1))
        load_data(l0[256:], l1[512:], LoadData2DParams(0, 2, 1))
        load_data(l0, l1, LoadData2DParams(repeat_times=0))
        assert [entry.op.pipe for entry in rec.program] == [Pipe.MTE2, Pipe.MTE1, Pipe.MTE1]
        apply_program(rec)
        got = rec.buffers["L0A"].bytes()[: 4 * FRACTAL].view(np.uint16)
        flat = stored(a, "NZ", 16)
        np.testing.assert_array_equal(got[256:768], flat[512:1024])
        np.testing.assert_array_equal(got[768:1024], flat[768:1024])
        assert [text for text, _ in rec.session.warnings] == ["LoadData: a repeat, step or size of 0 moves nothing"]


def test_equal_calls_share_their_op() -> None:
    with recording("atlas_a2") as rec:
        l1, l0 = LocalTensor(HALF, TPosition.B1, 0, 1024), LocalTensor(HALF, TPosition.B2, 0, 1024)
        for i in range(2):
            load_data(l0[256 * i :], l1, LoadData2DParams(0, 2, 1))
        assert rec.program[0].op is rec.program[1].op


def test_nothing_is_recorded_on_a_vector_core() -> None:
    with recording("atlas_a2", kind="aiv") as rec:
        load_data(LocalTensor(HALF, TPosition.A2, 0, 256), LocalTensor(HALF, TPosition.A1, 0, 256), LoadData2DParams())
        assert rec.program == []


def test_call_errors() -> None:
    with recording("atlas_a2") as rec:
        l1, l0 = LocalTensor(HALF, TPosition.A1, 0, 4096), LocalTensor(HALF, TPosition.A2, 0, 4096)
        with pytest.raises(ParameterError, match="one element type"):
            load_data(LocalTensor(FLOAT, TPosition.A2, 0, 256), l1, LoadData2DParams())
        with pytest.raises(ParameterError, match="no form takes"):
            load_data(l0, l1, 3)  # type: ignore[arg-type]
        with pytest.raises(AlignmentError):
            load_data(l0[16:], l1, LoadData2DParams())
        with pytest.raises(AlignmentError):
            load_data(l0, l1[8:], LoadData2DParams())
        with pytest.raises(OutOfBoundsError):
            load_data(l0, l1, LoadData2DParams(repeat_times=129, src_stride=1))
        with pytest.raises(OutOfBoundsError):
            load_data(l0, l1, LoadData2DParams(start_index=1024))
        assert rec.program == []


def test_leaving_a_tensor_inside_its_buffer_is_reported() -> None:
    with recording("atlas_a2") as rec:
        l1, l0 = LocalTensor(HALF, TPosition.A1, 0, 1024), LocalTensor(HALF, TPosition.A2, 0, 512)
        load_data(l0, l1, LoadData2DParams(0, 2, 1))
        assert not rec.session.warnings
        load_data(l0, l1, LoadData2DParams(0, 3, 1))
        assert [text for text, _ in rec.session.warnings] == ["LoadData: touches 1536 B of a L0A tensor of 512 half"]


def test_words_of_nibbles() -> None:
    """Storage rule of 4-bit types: elements 6 then 7 are byte 0x76."""
    assert pack(np.array([6, 7]), 4).tolist() == [0x76]
