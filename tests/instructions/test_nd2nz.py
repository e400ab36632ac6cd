"""ND2NZ and DN2NZ against the addressing of the text, element by element (spec api_semantics.md 8, 14.5)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, Op, Pipe
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams, build_dn, build_nd
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.layouts import to_layout
from tests.instructions.copy_helpers import Tensor, card, changed, noise, perform, recording
from tests.stage import Place, Stage

Params = Nd2NzParams | Dn2NzParams
PLAIN = Nd2NzParams(1, 16, 23, 0, 32, 16, 1, 0)
PLAIN_DN = Dn2NzParams(1, 16, 23, 0, 16, 16, 1, 0)
WIDTHS = {"int8": 1, "half": 2, "float": 4}


def build(params: Params, dtype: str = "half", on: str = "atlas_350", small_c0: bool = False) -> Op | None:
    maker: Any = build_nd if isinstance(params, Nd2NzParams) else build_dn
    op: Op | None = maker(params, DataType(dtype), "GM", "L1", card(on), small_c0)
    return op


def placements(p: Params, size: int) -> dict[int, int | None]:
    """Destination element -> source element (None: zero), from 8.2; none is written twice."""
    num = p.nd_num if isinstance(p, Nd2NzParams) else p.dn_num
    matrix = p.src_nd_matrix_stride if isinstance(p, Nd2NzParams) else p.src_dn_matrix_stride
    c0 = 32 // size
    pitch = p.dst_nz_matrix_stride * size // 32 if num > 1 else 0
    found: dict[int, int | None] = {}
    for i, n, d in itertools.product(range(num), range(p.n_value), range(-(-p.d_value // c0) * c0)):
        at = (i * pitch + d // c0 * p.dst_nz_c0_stride + n * p.dst_nz_n_stride) * c0 + d % c0
        inner = n * p.src_d_value + d if isinstance(p, Nd2NzParams) else d * p.src_d_value + n
        assert at not in found
        found[at] = i * matrix + inner if d < p.d_value else None
    return found


def check(params: Params, dtype: str, on: str = "atlas_350") -> None:
    size = WIDTHS[dtype]
    places = placements(params, size)
    words = np.dtype(f"u{size}")
    src = noise((max(s for s in places.values() if s is not None) + 1) * size)
    dst = noise((max(places) + 40) * size, 2)
    expected, marks = dst.view(words).copy(), np.zeros(dst.size // size, np.uint8)
    for at, source in places.items():
        expected[at] = 0 if source is None else src.view(words)[source]
        marks[at] = 1
    op = build(params, dtype, on)
    assert op is not None
    moved, defined = perform(op, src, dst, "GM", "L1")
    assert np.array_equal(moved.view(words), expected)
    assert np.array_equal(defined.reshape(-1, size).min(axis=1), marks)
    assert op.reads == ((1, 0, src.size),)
    assert op.writes == ((0, min(places) * size, (max(places) + 1) * size),)
    assert isinstance(op.cost, GmTraffic)
    assert op.cost.nbytes == size * sum(s is not None for s in places.values())


@st.composite
def legal(draw: st.DrawFn, kind: type[Params], size: int) -> Params:
    num, n, d = draw(st.integers(1, 3)), draw(st.integers(1, 20)), draw(st.integers(1, 40))
    inner, outer = (d, n) if kind is Nd2NzParams else (n, d)
    row = inner + draw(st.integers(0, 9))
    ns = draw(st.integers(1, 3))
    reach = (n - 1) * ns + 1
    c0s = draw(st.integers(reach, reach + 4))
    blocks = -(-d // (32 // size))
    full = ((blocks - 1) * c0s + reach) * 32 // size
    return kind(num, n, d, draw(st.integers(0, row * outer + 5)), row, c0s, ns, draw(st.integers(full, full + 70)))


@given(st.sampled_from(sorted(WIDTHS)), st.sampled_from(["atlas_a2", "atlas_a3", "atlas_350"]), st.data())
def test_nd_elements_land_where_the_text_says(dtype: str, on: str, data: st.DataObject) -> None:
    check(data.draw(legal(Nd2NzParams, WIDTHS[dtype])), dtype, on)


@given(st.sampled_from(sorted(WIDTHS)), st.data())
def test_dn_elements_land_where_the_text_says(dtype: str, data: st.DataObject) -> None:
    check(data.draw(legal(Dn2NzParams, WIDTHS[dtype])), dtype)


@pytest.mark.parametrize(
    "params",
    [
        PLAIN,
        PLAIN_DN,
        # Interleaved matrices and holes.
        Nd2NzParams(2, 8, 23, 384, 32, 37, 2, 320),
        Dn2NzParams(2, 8, 23, 400, 16, 37, 2, 320),
    ],
)
def test_documented_examples(params: Params) -> None:
    check(params, "half")


def test_interleaved_example_uses_the_documented_rows() -> None:
    op = build(Nd2NzParams(2, 8, 23, 384, 32, 37, 2, 320))
    assert op is not None
    _, defined = perform(op, noise(2000), noise(4096, 2), "GM", "L1")
    rows = np.flatnonzero(defined.reshape(-1, 32).all(axis=1)).tolist()
    assert rows == [*range(0, 15, 2), *range(20, 35, 2), *range(37, 52, 2), *range(57, 72, 2)]


def test_result_is_the_nz_layout_and_dn_the_same_from_the_transpose() -> None:
    matrix = np.random.default_rng(3).integers(1, 9999, (40, 56), np.uint16)
    expected = noise(48 * 64 * 2, 2)
    op = build(Nd2NzParams(1, 40, 56, 0, 56, 48, 1, 0))
    other = build(Dn2NzParams(1, 40, 56, 0, 40, 48, 1, 0))
    assert op is not None
    assert other is not None
    first, _ = perform(op, matrix.reshape(-1).view(np.uint8), expected, "GM", "L1")
    second, _ = perform(other, matrix.T.copy().reshape(-1).view(np.uint8), expected, "GM", "L1")
    wanted = to_layout(matrix, "NZ", DataType("half"), rows_pad=48).reshape(4, 48, 32)
    assert np.array_equal(first.reshape(4, 48, 32)[:, :40], wanted[:, :40])
    assert np.array_equal(first.reshape(4, 48, 32)[:, 40:], expected.reshape(4, 48, 32)[:, 40:])
    assert np.array_equal(first, second)


def test_strips_of_sixteen_rows_give_zz() -> None:
    matrix = np.random.default_rng(4).random((80, 40), np.float32)
    op = build(Nd2NzParams(5, 16, 40, 640, 40, 16, 1, 640), "float", "atlas_a2")
    assert op is not None
    moved, _ = perform(op, matrix.reshape(-1).view(np.uint8), noise(80 * 40 * 4, 2), "GM", "L1")
    assert np.array_equal(moved, to_layout(matrix, "ZZ", DataType("float")))


def test_later_matrices_overwrite_the_first_when_their_stride_is_zero() -> None:
    op = build(Nd2NzParams(3, 4, 16, 100, 16, 4, 1, 0))
    assert op is not None
    src = noise(1000)
    moved, _ = perform(op, src, np.zeros(128, np.uint8), "GM", "L1")
    assert np.array_equal(moved, src[400:528])
    # All three are read, one after the other.
    assert op.reads == ((1, 0, 528),)
    assert op.gm_runs[0, :6].tolist() == [0, 32, 3, 200, 4, 32]


def test_matrix_stride_is_cut_to_whole_blocks() -> None:
    op = build(Nd2NzParams(2, 1, 16, 16, 16, 1, 1, 31))
    assert op is not None
    moved, _ = perform(op, noise(64), np.zeros(64, np.uint8), "GM", "L1")
    assert np.array_equal(moved, noise(64))
    assert any("rounded down" in text for text in op.warnings)


def test_four_bit_types_count_bytes() -> None:
    op = build(Nd2NzParams(1, 16, 32, 0, 40, 16, 1, 0), "int4", "atlas_a2")
    assert op is not None
    src = noise(640)
    moved, _ = perform(op, src, np.zeros(512, np.uint8), "GM", "L1")
    assert np.array_equal(moved.reshape(16, 32), np.lib.stride_tricks.as_strided(src, (16, 32), (40, 1)))
    with pytest.raises(ParameterError, match="even"):
        build(Dn2NzParams(1, 3, 2, 0, 4, 3, 1, 0), "fp4x2_e2m1")


def test_cost_counts_source_rows() -> None:
    op = build(Nd2NzParams(2, 8, 23, 384, 32, 37, 2, 320))
    assert op is not None
    assert op.cost == GmTraffic("GM-L1", 2 * 8 * 23 * 2, 16, is_read=True, layout="nd2nz")
    assert (op.pipe, op.aligns, op.path) == (Pipe.MTE2, (32, 1), "GM-L1")
    assert op.gm_runs.tolist() == [[0, 46, 2, 768, 8, 64, 1, 0, 1, 0, 1, 0]]


@pytest.mark.parametrize("zero", ["num", "n_value", "d_value"])
@pytest.mark.parametrize("params", [PLAIN, PLAIN_DN])
def test_zero_is_a_nop(params: Params, zero: str) -> None:
    prefix = "nd" if isinstance(params, Nd2NzParams) else "dn"
    assert build(changed(params, **{f"{prefix}_num" if zero == "num" else zero: 0})) is None


LIMITS_A2 = {
    "nd_num": (0, 4095),
    "n_value": (0, 16384),
    "d_value": (0, 65535),
    "src_nd_matrix_stride": (0, 65535),
    "src_d_value": (1, 65535),
    "dst_nz_c0_stride": (1, 16384),
    "dst_nz_n_stride": (1, 16384),
    "dst_nz_matrix_stride": (0, 65535),
}
LIMITS_950 = LIMITS_A2 | {"src_nd_matrix_stride": (0, 2**40 - 1), "src_d_value": (1, 2**40 - 1)}
LIMITS_DN = {
    "dn_num": (0, 4095),
    "n_value": (0, 16384),
    "d_value": (0, 2**21 - 1),
    "src_dn_matrix_stride": (0, 2**40 - 1),
    "src_d_value": (1, 2**40 - 1),
    "dst_nz_c0_stride": (1, 16384),
    "dst_nz_n_stride": (1, 16384),
    "dst_nz_matrix_stride": (0, 16384),
}


@pytest.mark.parametrize(
    ("params", "on", "limits"),
    [
        (changed(PLAIN, nd_num=2), "atlas_a2", LIMITS_A2),
        (changed(PLAIN, nd_num=2), "atlas_a3", LIMITS_A2),
        (changed(PLAIN, nd_num=2), "atlas_350", LIMITS_950),
        (changed(PLAIN_DN, dn_num=2), "atlas_350", LIMITS_DN),
    ],
)
def test_ranges_one_field_at_a_time(params: Params, on: str, limits: dict[str, tuple[int, int]]) -> None:
    for field, (lo, hi) in limits.items():
        build(changed(params, **{field: lo}), on=on)
        build(changed(params, **{field: hi}), on=on)
        for value in (lo - 1, hi + 1, 2.0):
            with pytest.raises(ParameterError) as caught:
                build(changed(params, **{field: value}), on=on)
            assert (caught.value.field, caught.value.value, caught.value.card) == (field, value, on)


def test_values_above_the_documented_range_that_the_field_holds_are_noted() -> None:
    far = build(changed(PLAIN, nd_num=2, src_d_value=70000, dst_nz_matrix_stride=20000))
    assert far is not None
    assert len(far.warnings) == 2
    alone = build(changed(PLAIN, dst_nz_matrix_stride=70000))
    assert alone is not None
    assert not alone.warnings


def test_cards_and_types_without_it() -> None:
    for name in ("atlas_a2", "atlas_a3", "atlas_200i"):
        with pytest.raises(UnsupportedError) as caught:
            build(PLAIN_DN, on=name)
        assert caught.value.card == name
    with pytest.raises(UnsupportedError):
        build(PLAIN, on="atlas_200i")
    with pytest.raises(UnsupportedError):
        build(PLAIN, "fp8_e5m2", "atlas_a2")
    assert build(PLAIN, "fp8_e5m2", "atlas_350") is not None
    with pytest.raises(UnsupportedError, match="GM-L1"):
        build_dn(PLAIN_DN, DataType("half"), "GM", "UB", card("atlas_350"))


@pytest.mark.parametrize("params", [Nd2NzParams(2, 3, 3, 30, 5, 0, 0, 16), Dn2NzParams(2, 3, 3, 30, 5, 0, 0, 16)])
def test_small_c0_packs_rows_of_four(params: Params) -> None:
    op = build(params, small_c0=True)
    assert op is not None
    src = np.arange(100, dtype=np.uint16)
    moved, defined = perform(op, src.view(np.uint8), np.full(64, 7, np.uint8), "GM", "L1")
    rows = moved.view(np.uint16).reshape(2, 4, 4)
    for i, n, d in itertools.product(range(2), range(3), range(4)):
        place = n * 5 + d if isinstance(params, Nd2NzParams) else d * 5 + n
        assert rows[i, n, d] == (30 * i + place if d < 3 else 0)
    assert np.array_equal(defined.reshape(2, 4, 8).all(axis=2), [[True, True, True, False]] * 2)


def test_the_end_of_small_c0_becomes_zero_but_nothing_to_rely_on() -> None:
    """Three rows of four half are 24 B: bytes 24 to 31 become zero and undefined whatever was there, the next ones stay."""
    stage = Stage("atlas_350", {"src": Place("GM", "half", noise(18)), "dst": Place("A1", "half", np.full(64, 7, np.uint8))})
    stage.call(lambda: data_copy(stage["dst"], stage["src"], Nd2NzParams(1, 3, 3, 0, 3, 0, 0, 0), enable_small_c0=True))
    assert stage.bytes("dst")[24:].tolist() == [0] * 8 + [7] * 32
    assert np.flatnonzero(~stage.defined("dst")).tolist() == list(range(24, 32))


def test_small_c0_limits() -> None:
    with pytest.raises(ParameterError, match="SmallC0"):
        build(Nd2NzParams(1, 3, 5, 0, 5, 1, 1, 0), small_c0=True)
    with pytest.raises(UnsupportedError, match="SmallC0"):
        build(Nd2NzParams(1, 3, 3, 0, 5, 1, 1, 0), on="atlas_a2", small_c0=True)


def test_as_a_kernel_calls_it() -> None:
    with recording("atlas_350", "aic", ("L1",)) as stage:
        l1, gm = stage.local["L1"], stage.a
        data_copy(Tensor(l1, "half", 64), Tensor(gm, "half", 3), intri_params=PLAIN)
        data_copy(Tensor(l1, "half"), Tensor(gm, "half"), PLAIN)
        data_copy(Tensor(l1, "half"), Tensor(gm, "half"), changed(PLAIN, d_value=4), enable_small_c0=True)
        data_copy(Tensor(l1, "half"), Tensor(gm, "half"), changed(PLAIN, d_value=4))
        assert stage.ops[0] is stage.ops[1]
        assert stage.ops[2] is not stage.ops[3]
        assert stage.ops[2].writes != stage.ops[3].writes
        with pytest.raises(AlignmentError):
            data_copy(Tensor(l1, "half", 16), Tensor(gm, "half"), PLAIN)
        with pytest.raises(ParameterError):
            data_copy(Tensor(l1, "half"), Tensor(gm, "half"), changed(PLAIN, dst_nz_n_stride=0))
        assert len(stage.ops) == 4


def test_both_structs_are_names_of_the_language() -> None:
    assert (asc.Nd2NzParams, asc.Dn2NzParams) == (Nd2NzParams, Dn2NzParams)
    assert "Dn2NzParams" in asc.__all__


def test_the_error_of_200i_names_the_documented_way() -> None:
    with pytest.raises(UnsupportedError) as caught:
        build(PLAIN, on="atlas_200i")
    assert "LoadData2DParams" in str(caught.value.allowed)
