"""LoadData with LoadData3DParamsV2 against an element-by-element img2col."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Pipe
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.instructions.load_data_3d import build
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
    up,
)
from tests.instructions.cube_setup import words as words_of

HALF, FLOAT = DataType("half"), DataType("float")
TYPES = {4: "int4", 8: "int8", 16: "half", 32: "float"}
SENTINEL = {4: 0x5, 8: 0xA5, 16: 0xA5A5, 32: 0xA5A5A5A5}


def image(p: LoadData3DParamsV2, fm: NDArray[Any], c0: int, pad: int) -> NDArray[Any]:
    """The whole img2col matrix of a (C1, H, W, C0) map, by its definition."""
    left, right, top, bottom = p.pad_list
    c1 = fm.shape[0]
    wo = (p.l1_w + left + right - ((p.filter_w - 1) * p.dilation_filter_w + 1)) // p.stride_w + 1
    ho = (p.l1_h + top + bottom - ((p.filter_h - 1) * p.dilation_filter_h + 1)) // p.stride_h + 1
    out = np.empty((ho * wo, c1 * p.filter_h * p.filter_w * c0), fm.dtype)
    for mi in range(out.shape[0]):
        for ki in range(out.shape[1]):
            kb, c = divmod(ki, c0)
            group, position = divmod(kb, p.filter_h * p.filter_w)
            kh, kw = divmod(position, p.filter_w)
            h = mi // wo * p.stride_h + kh * p.dilation_filter_h - top
            w = mi % wo * p.stride_w + kw * p.dilation_filter_w - left
            out[mi, ki] = fm[group, h, w, c] if 0 <= h < p.l1_h and 0 <= w < p.l1_w else pad
    return out


def places(name: str, target: str, p: LoadData3DParamsV2, c0: int) -> NDArray[Any]:
    """Destination element of every (row, column) of the window, by the formulas of the two families of cards."""
    i, j = np.indices((p.m_extension, p.k_extension))
    fe = 16 * c0
    if name == "atlas_350":
        pitch = -(-(p.k_extension if p.en_transpose else p.m_extension) // 16)
        if target == "L0A" and not p.en_transpose:
            return (j // c0 * pitch + i // 16) * fe + i % 16 * c0 + j % c0
        return (i // c0 * pitch + j // 16) * fe + j % 16 * c0 + i % c0
    if target == "L0B":
        return (i // c0 * -(-p.k_extension // 16) + j // 16) * fe + j % 16 * c0 + i % c0
    if p.en_transpose:
        return (j // 16 * (up(p.m_extension, 16) // c0) + i // c0) * fe + j % 16 * c0 + i % c0
    return (i // 16 * -(-p.k_extension // c0) + j // c0) * fe + i % 16 * c0 + j % c0


def compare(
    name: str, target: str, p: LoadData3DParamsV2, bits: int, channels: int, pad: int = 0, shares: int = 1
) -> None:
    """Run the instruction and compare every element that the window defines, and every element it must not touch."""
    c0 = 256 // bits
    fm = numbers(channels * p.l1_h * p.l1_w, bits, seed=3).reshape(channels // c0, p.l1_h, p.l1_w, c0)
    op = build(p, DataType(TYPES[bits]), "L1", target, card(name))
    assert op is not None
    size = 128 * FRACTAL
    dst = buffer(target, size, defined=False)
    run(op, [dst, buffer("L1", pack(fm, bits))], shares=shares)
    matrix = image(p, fm, c0, pad)
    rows = min(p.m_extension, matrix.shape[0] - p.m_start_pt)
    window = matrix[p.m_start_pt : p.m_start_pt + rows, p.k_start_pt : p.k_start_pt + p.k_extension]
    at = places(name, target, p, c0)[:rows]
    got = words_of(dst, bits)
    np.testing.assert_array_equal(got[at], window)
    assert dst.shadow is not None
    marks = np.repeat(dst.shadow, 8 // bits) if bits < 8 else dst.shadow.reshape(-1, bits // 8).all(axis=1)
    expected = np.zeros(got.size, bool)
    expected[at] = True
    np.testing.assert_array_equal(marks.astype(bool), expected)
    rest = got[~expected]
    assert (rest[2:] == rest[:-2]).all() and (bits == 4 or (rest == SENTINEL[bits]).all())


VARIANTS = [
    ("atlas_a2", "L0A", False, 8), ("atlas_a2", "L0A", False, 16), ("atlas_a2", "L0A", False, 32),
    ("atlas_a2", "L0A", True, 16), ("atlas_a2", "L0A", True, 32), ("atlas_a2", "L0B", False, 16),
    ("atlas_a2", "L0B", False, 32), ("atlas_350", "L0A", False, 8), ("atlas_350", "L0A", False, 16),
    ("atlas_350", "L0A", False, 32), ("atlas_350", "L0A", True, 8), ("atlas_350", "L0A", True, 16),
    ("atlas_350", "L0A", True, 32), ("atlas_350", "L0B", True, 8), ("atlas_350", "L0B", True, 16),
    ("atlas_350", "L0B", True, 32), ("atlas_200i", "L0A", False, 16), ("atlas_200i", "L0B", False, 16),
    ("atlas_a3", "L0A", False, 4),
]  # fmt: skip


@pytest.mark.parametrize(("name", "target", "transpose", "bits"), VARIANTS)
def test_published_plain_window(name: str, target: str, transpose: bool, bits: int) -> None:
    """The published pseudo-code's test: 8 x 8 map of 3 groups, filter 1, rows 32..63."""
    c0 = 256 // bits
    k = {4: 128, 8: 64, 16: 32, 32: 16 if target == "L0B" or transpose else 24}[bits]
    p = LoadData3DParamsV2(
        l1_h=8, l1_w=8, channel_size=3 * c0, k_extension=k, m_extension=32, m_start_pt=32, en_transpose=transpose
    )
    compare(name, target, p, bits, 3 * c0)


@pytest.mark.parametrize(("name", "target", "transpose", "bits"), VARIANTS)
def test_published_padded_window(name: str, target: str, transpose: bool, bits: int) -> None:
    c0 = 256 // bits
    p = LoadData3DParamsV2(
        (1, 2, 1, 0), 8, 9, 3 * c0, 3 * c0, 32, 2 * c0, 0, 1, 2, 3, 2, 1, 2, transpose, pad_value=5
    )  # fmt: skip
    pad = {4: 5, 8: 5, 16: 0x4500, 32: 0x40A00000}[bits]
    compare(name, target, p, bits, 3 * c0, pad)


def test_published_convolution() -> None:
    """5 x 5 map of 2 groups, 3 x 3 kernel, padding 1: a 25 x 288 matrix whose rows 25..31 are undefined."""
    p = LoadData3DParamsV2((1, 1, 1, 1), 5, 5, 32, 288, 32, filter_w=3, filter_h=3)
    assert image(p, np.zeros((2, 5, 5, 16), np.uint16), 16, 0).shape == (25, 288)
    for name in ("atlas_a2", "atlas_350"):
        compare(name, "L0A", p, 16, 32)
        compare(name, "L0B", LoadData3DParamsV2((1, 1, 1, 1), 5, 5, 32, 288, 32, filter_w=3, filter_h=3,
                                                en_transpose=True), 16, 32)  # fmt: skip


@given(
    variant=st.sampled_from(VARIANTS),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    size=st.tuples(st.integers(1, 9), st.integers(1, 20)),
    groups=st.integers(1, 3),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pick=st.tuples(*[st.integers(0, 10**6)] * 4),
    shares=st.integers(1, 3),
)
def test_any_window(
    variant: tuple[str, str, bool, int],
    pads: tuple[int, ...],
    size: tuple[int, int],
    groups: int,
    stride: tuple[int, int],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    pick: tuple[int, ...],
    shares: int,
) -> None:
    name, target, transpose, bits = variant
    c0 = 256 // bits
    spare_w = size[1] + pads[0] + pads[1] - ((kernel[1] - 1) * dilation[1] + 1)
    spare_h = size[0] + pads[2] + pads[3] - ((kernel[0] - 1) * dilation[0] + 1)
    assume(spare_w >= 0 and spare_h >= 0)
    rows = up((spare_w // stride[1] + 1) * (spare_h // stride[0] + 1), 16)
    columns = groups * kernel[0] * kernel[1]
    m_start = pick[0] % (rows // 16) * 16
    m = (pick[1] % ((rows - m_start) // 16) + 1) * 16
    k_start = pick[2] % columns
    k = pick[3] % (columns - k_start) + 1
    assume(k * m // 16 <= 128)
    p = LoadData3DParamsV2(
        pads, *size, groups * c0, k * c0, m, k_start * c0, m_start, stride[1], stride[0], kernel[1], kernel[0],
        dilation[1], dilation[0], transpose, pad_value=3,
    )  # fmt: skip
    compare(name, target, p, bits, groups * c0, {4: 3, 8: 3, 16: 0x4200, 32: 0x40400000}[bits], shares)


def test_lines_after_an_odd_number_of_float_columns() -> None:
    """b32 with 8 columns: A2 leaves the 8 lines below them alone, 950 leaves them undefined."""
    p = LoadData3DParamsV2(l1_h=1, l1_w=16, channel_size=8, k_extension=8, m_extension=16, en_transpose=True)
    for name, kept in (("atlas_a2", 1), ("atlas_350", 0)):
        op = build(p, FLOAT, "L1", "L0B", card(name))
        assert op is not None
        dst = buffer("L0B", 2 * FRACTAL)
        run(op, [dst, buffer("L1", numbers(128, 32))])
        assert dst.shadow is not None
        halves = dst.shadow.reshape(2, 2, 256)
        assert halves[:, 0].all() and (halves[:, 1] == kept).all()


def test_ragged_extensions_leave_the_rest_of_the_last_fractals_undefined() -> None:
    """40 of 48 rows, 70 of 80 columns: rows 40..47 and columns 70..79 are written, and undefined."""
    a = numbers(48 * 80, 16).reshape(48, 80)
    p = LoadData3DParamsV2(l1_h=1, l1_w=48, channel_size=80, k_extension=70, m_extension=40)
    for name, layout in (("atlas_a2", "ZZ"), ("atlas_350", "NZ")):
        op = build(p, HALF, "L1", "L0A", card(name))
        assert op is not None and op.writes == ((0, 0, 15 * FRACTAL),)
        dst = buffer("L0A", 15 * FRACTAL)
        run(op, [dst, buffer("L1", stored(a, "NZ", 16))])
        marks = np.zeros((48, 80), np.uint16)
        marks[:40, :70] = 0x0101
        assert dst.shadow is not None
        np.testing.assert_array_equal(dst.shadow.view(np.uint16), stored(marks, layout, 16))
        inside = stored(marks, layout, 16) != 0
        np.testing.assert_array_equal(words_of(dst, 16)[inside], stored(a, layout, 16)[inside])


@pytest.mark.parametrize("case", ["C13", "C14"])
@pytest.mark.parametrize("name", ["atlas_a2", "atlas_a3"])
def test_case(case: str, name: str) -> None:
    check_case(case, name, build, LoadData3DParamsV2)


@pytest.mark.parametrize(("name", "target", "transpose", "bits"), VARIANTS)
def test_plain_matrix_is_one_copy(name: str, target: str, transpose: bool, bits: int) -> None:
    """A tile of a matrix multiplication: a map of one row, filter 1, whole fractals."""
    c0 = 256 // bits
    p = LoadData3DParamsV2(
        l1_h=1, l1_w=128, channel_size=64, k_extension=64, m_extension=128, en_transpose=transpose
    )  # fmt: skip
    op = build(p, DataType(TYPES[bits]), "L1", target, card(name))
    assert op is not None
    assert len(op.effect.transfer.steps) == 1  # type: ignore[union-attr]
    assert op.writes == ((0, 0, 128 * 64 * bits // 8),) and 64 % c0 == 0


def test_large_map_lowers_to_few_steps() -> None:
    """56 x 56, 3 x 3, padding 1: nine kernel positions, a few runs each."""
    p = LoadData3DParamsV2((1, 1, 1, 1), 56, 56, 16, 144, 112, m_start_pt=560, filter_w=3, filter_h=3)
    for name in ("atlas_a2", "atlas_350"):
        op = build(p, HALF, "L1", "L0A", card(name))
        assert op is not None and len(op.effect.transfer.steps) <= 9 * 8  # type: ignore[union-attr]


def test_cost() -> None:
    """Column blocks 4, 5, 6 of a 3 x 3 kernel are kernel rows 1, 1 and 2."""
    p = LoadData3DParamsV2((1, 1, 1, 1), 8, 8, 32, 48, 32, 64, 0, 2, 1, 3, 3)
    op = build(p, HALF, "L1", "L0B", card("atlas_a2"))
    assert op is not None and op.pipe is Pipe.MTE1 and op.aligns == (512, 32)
    assert op.cost == OnChip("L1-L0B", "LoadData3DV2", 48 * 32 * 2, (2, 2))


# ---- checks -------------------------------------------------------------------------------------------------------
GOOD: dict[str, Any] = dict(l1_h=4, l1_w=16, channel_size=32, k_extension=32, m_extension=64)


@pytest.mark.parametrize(
    "field", ["l1_h", "l1_w", "channel_size", "k_extension", "m_extension", "filter_w", "filter_h"]
)
def test_zero_sizes_move_nothing(field: str) -> None:
    assert build(LoadData3DParamsV2(**{**GOOD, field: 0}), HALF, "L1", "L0A", card("atlas_a2")) is None


def test_zero_filter_with_its_flag_is_256() -> None:
    p = LoadData3DParamsV2(l1_h=1, l1_w=256, channel_size=16, k_extension=16, filter_w=0, filter_size_w=True)
    op = build(p, HALF, "L1", "L0A", card("atlas_a2"))
    assert op is not None and op.writes == ((0, 0, FRACTAL),)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("l1_h", -1), ("l1_h", 32768), ("l1_w", -1), ("l1_w", 32768), ("channel_size", 65536), ("channel_size", -1),
        ("k_extension", 65536), ("k_extension", -1), ("m_extension", 65536), ("m_extension", -1), ("k_start_pt", -16),
        ("k_start_pt", 65536), ("m_start_pt", -16), ("m_start_pt", 32768), ("stride_w", 0), ("stride_w", 64),
        ("stride_h", 0), ("stride_h", 64), ("filter_w", 256), ("filter_w", -1), ("filter_h", 256), ("filter_h", -1),
        ("dilation_filter_w", 0), ("dilation_filter_w", 256), ("dilation_filter_h", 0), ("dilation_filter_h", 256),
        ("k_start_pt", 8), ("m_start_pt", 8), ("channel_size", 17), ("m_extension", 24), ("m_extension", 80),
        ("k_extension", 8), ("k_extension", 48), ("filter_w", 17), ("filter_h", 5), ("l1_w", 8192),
        ("pad_list", (0, 0, 0, 256)), ("pad_list", (0, -1, 0, 0)), ("pad_list", (0, 0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["atlas_a2", "atlas_350"])
def test_field_out_of_range(name: str, field: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        build(LoadData3DParamsV2(**{**GOOD, field: value}), HALF, "L1", "L0A", card(name))
    assert caught.value.field == field and caught.value.card == name


def test_pad_value_outside_its_type() -> None:
    with pytest.raises(ParameterError) as caught:
        build(LoadData3DParamsV2(**{**GOOD, "pad_value": 200}), DataType("int8"), "L1", "L0A", card("atlas_a2"))
    assert caught.value.field == "pad_value"


def test_float_rows_may_be_ragged_anywhere() -> None:
    p = LoadData3DParamsV2(**{**GOOD, "m_extension": 20})
    assert build(p, FLOAT, "L1", "L0A", card("atlas_a2")) is not None


def test_window_larger_than_the_destination() -> None:
    p = LoadData3DParamsV2(l1_h=1, l1_w=512, channel_size=128, k_extension=128, m_extension=512)
    with pytest.raises(ParameterError, match="65536 B"):
        build(p, HALF, "L1", "L0A", card("atlas_a2"))


@pytest.mark.parametrize(
    ("name", "dtype", "target", "fields", "field"),
    [
        ("atlas_a2", "int8", "L0A", {"en_transpose": True}, "dtype"),
        ("atlas_a2", "int8", "L0B", {}, "dtype"),
        ("atlas_350", "int4", "L0A", {}, "dtype"),
        ("atlas_a2", "half", "L1", {}, "path"),
    ],
)
def test_unsupported(name: str, dtype: str, target: str, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        build(LoadData3DParamsV2(**{**GOOD, **fields}), DataType(dtype), "L1", target, card(name))
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["atlas_350", "atlas_200i"])
def test_right_matrix_register_is_for_a2_and_a3(name: str) -> None:
    with pytest.raises(ParameterError, match="fMatrixCtrl"):
        build(LoadData3DParamsV2(**{**GOOD, "f_matrix_ctrl": True}), HALF, "L1", "L0B", card(name))


def test_four_channels_of_the_published_picture() -> None:
    """A 4-channel map with a 3 x 3 kernel has rows of 36 numbers: two whole column blocks and 4 columns of a third."""
    fm = numbers(5 * 5 * 4, 16, seed=1).reshape(5, 5, 4)
    p = LoadData3DParamsV2((0, 0, 0, 0), 5, 5, 4, 36, 16, filter_w=3, filter_h=3)
    op = build(p, HALF, "L1", "L0A", card("atlas_350"))
    assert op is not None and "channel_size % 16 = 4" in op.warnings[0]
    dst = buffer("L0A", 3 * FRACTAL, defined=False)
    run(op, [dst, buffer("L1", np.concatenate([fm.reshape(-1), np.zeros(12, np.uint16)]))])
    got = words_of(dst, 16).reshape(3, 16, 16).transpose(1, 0, 2).reshape(16, 48)
    assert dst.shadow is not None
    marks = dst.shadow[::2].reshape(3, 16, 16).transpose(1, 0, 2).reshape(16, 48)
    for row, (ho, wo) in enumerate(np.ndindex(3, 3)):
        np.testing.assert_array_equal(got[row, :36], fm[ho : ho + 3, wo : wo + 3].reshape(36))
    assert marks[:9, :36].all() and not marks[9:].any() and not marks[:, 36:].any()


def test_column_pitch_of_l0b_without_en_transpose_on_950() -> None:
    p = LoadData3DParamsV2(l1_h=1, l1_w=64, channel_size=32, k_extension=32, m_extension=64)
    op = build(p, HALF, "L1", "L0B", card("atlas_350"))
    assert op is not None and "en_transpose" in op.warnings[0]
    assert op.writes == ((0, 0, (3 * 4 + 2) * FRACTAL),)


@pytest.mark.parametrize("name", CARDS)
def test_a_kernel_call(name: str) -> None:
    """A pad list may be a list; a global source is refused; addresses are checked."""
    with recording(name, gm=[np.zeros(4096, np.float16)]) as rec:
        l1, l0 = LocalTensor(HALF, TPosition.A1, 0, 2048), LocalTensor(HALF, TPosition.A2, 0, 2048)
        load_data(l0, l1, LoadData3DParamsV2([0, 0, 0, 0], 1, 64, 32, 32, 64))
        apply_program(rec)
        with pytest.raises(OutOfBoundsError):
            load_data(l0[30 * 1024 + 256 :], l1, LoadData3DParamsV2((0, 0, 0, 0), 1, 64, 32, 32, 64))
        gm = GlobalTensor()
        gm.set_global_buffer(GlobalAddress(rec.arrays[0], HALF))
        with pytest.raises(UnsupportedError, match="GM"):
            load_data(l0, gm, LoadData3DParamsV2((0, 0, 0, 0), 1, 64, 32, 32, 64))
        assert len(rec.program) == 1
