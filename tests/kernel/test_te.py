"""The Tensor API: layouts by their definition, pointers and slices, the instructions of every route, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.kernel.te.frames import kind_of
from aicore_sim.kernel.te.gm import gm_steps
from aicore_sim.kernel.te.load import load_steps
from tests.instructions.cube_setup import nz, zn, zz
from tests.stage import Place, Stage, noise, the_card

te = asc.te
HALF, FLOAT, INT8, FP4 = asc.half, asc.float32, asc.int8, asc.fp4x2_e2m1
OTHERS = ("atlas_a2", "atlas_a3", "atlas_200i")
POSITION = {"L1": "A1", "L0A": "A2", "L0B": "B2", "GM": "GM"}


# ---- layouts --------------------------------------------------------------------------------------------------------
def test_names_are_there_and_not_in_the_star_import() -> None:
    from aicore_sim.kernel import language

    assert language.te is te
    assert "te" not in asc.__all__
    assert [name for name in te.__all__ if not hasattr(te, name)] == []


def test_shapes_and_strides_of_the_page() -> None:
    assert (te.make_nz_layout(HALF, 40, 50).shape, te.make_nz_layout(HALF, 40, 50).stride) == (
        ((16, 3), (16, 4)), ((16, 256), (1, 768)))  # fmt: skip
    assert (te.make_zn_layout(INT8, 40, 50).shape, te.make_zn_layout(INT8, 40, 50).stride) == (
        ((32, 2), (16, 4)), ((1, 2048), (32, 512)))  # fmt: skip
    assert (te.make_zz_layout(FLOAT, 40, 50).shape, te.make_zz_layout(FLOAT, 40, 50).stride) == (
        ((16, 3), (8, 7)), ((8, 896), (1, 128)))  # fmt: skip
    assert (te.make_nd_layout(HALF, 5, 7).shape, te.make_nd_layout(HALF, 5, 7).stride) == (((1, 5), (1, 7)), ((0, 7), (0, 1)))
    assert (te.make_dn_layout(HALF, 5, 7).shape, te.make_dn_layout(HALF, 5, 7).stride) == (((1, 5), (1, 7)), ((0, 1), (0, 5)))
    assert te.make_frame_layout(te.NDLayoutPtn, 5, 7).stride == (7, 1)
    assert te.make_frame_layout(te.DNLayoutPtn, 5, 7).stride == (1, 5)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (40, 50), (64, 64), (33, 130)])
@pytest.mark.parametrize("dtype", [HALF, FLOAT, INT8, FP4])
def test_offsets_are_those_of_the_layouts(dtype: asc.DataType, rows: int, columns: int) -> None:
    r, c = np.indices((rows, columns))
    for make, where in ((te.make_nz_layout, nz), (te.make_zn_layout, zn), (te.make_zz_layout, zz)):
        layout = make(dtype, rows, columns)
        got = np.array([[layout.offset(i, j) for j in range(columns)] for i in range(rows)])
        np.testing.assert_array_equal(got, where(r, c, rows, columns, dtype.c0))
    nd, dn = te.make_nd_layout(dtype, rows, columns), te.make_dn_layout(dtype, rows, columns)
    assert (nd.offset(rows - 1, 0), dn.offset(0, columns - 1)) == ((rows - 1) * columns, (columns - 1) * rows)
    assert nd.size() == nd.capacity() == rows * columns


def test_a_batch_puts_matrices_one_behind_the_other() -> None:
    layout = te.make_nz_layout(HALF, 3, 40, 50)
    assert (layout.shape, layout.stride) == ((3, ((16, 3), (16, 4))), (3072, ((16, 256), (1, 768))))
    assert layout((2, (17, 18))) == 2 * 3072 + te.make_nz_layout(HALF, 40, 50).offset(17, 18)
    assert te.make_frame_layout(te.NDExtLayoutPtn, 2, 4, 6).stride == (24, ((0, 6), (0, 1)))


def test_coordinates_in_their_forms_mean_the_same() -> None:
    layout = te.make_nz_layout(HALF, 64, 64)
    assert layout(te.make_coord(te.make_coord(3, 2), te.make_coord(5, 1))) == layout(35, 21) == layout.offset(35, 21)
    assert te.get_shape(layout, 0, 1) == 4
    assert te.get(te.get_stride(layout), 1, 1) == 1024
    assert layout.rank == 2


def test_frames_by_pattern_and_trait() -> None:
    made = te.make_nz_layout(HALF, 48, 32)
    assert te.make_frame_layout(te.NZLayoutPtn, HALF, 48, 32) == made
    assert te.make_frame_layout(te.NZLayoutPtn, te.LayoutTraitDefault(HALF), 48, 32) == made
    assert te.make_frame_layout(te.NZLayoutPtn, 16, 48, 32) == made
    assert te.make_nz_layout(48, 32, dtype=HALF) == made
    assert te.make_pattern_layout(te.NZLayoutPtn, HALF, made.shape, made.stride) == made
    assert te.make_layout(made.shape, made.stride).offset(17, 31) == made.offset(17, 31)


@pytest.mark.parametrize("dtype", [HALF, FLOAT, INT8, FP4])
def test_a_plain_layout_is_recognised_by_its_numbers(dtype: asc.DataType) -> None:
    for make, kind in ((te.make_nz_layout, "NZ"), (te.make_zn_layout, "ZN"), (te.make_zz_layout, "ZZ"),
                       (te.make_nd_layout, "ND"), (te.make_dn_layout, "DN")):  # fmt: skip
        made = make(dtype, 96, 192)
        assert kind_of(made, dtype) == kind_of(te.make_layout(made.shape, made.stride), dtype) == kind


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("dtype", lambda: te.make_nz_layout(16, 16)),
    ("dtype", lambda: te.make_nz_layout(HALF, 16, 16, dtype=HALF)),
    ("shape", lambda: te.make_nz_layout(HALF, 16)),
    ("shape", lambda: te.make_nz_layout(HALF, 16, 0)),
    ("shape", lambda: te.make_nz_layout(HALF, 16, 1.5)),
    ("trait", lambda: te.make_frame_layout(te.NZLayoutPtn, 16, 16)),
    ("stride", lambda: te.make_layout((4, 4), (4, (0, 1)))),
    ("stride", lambda: te.make_layout((4, 4), (4, -1))),
    ("layout", lambda: te.make_pattern_layout(te.NZLayoutPtn, HALF, ((16, 2), (8, 2)), ((16, 256), (1, 512)))),
    ("layout", lambda: te.make_pattern_layout(te.NZLayoutPtn, HALF, ((16, 2), (16, 2)), ((8, 256), (1, 512)))),
    ("layout", lambda: te.make_pattern_layout(te.NZLayoutPtn, HALF, ((16, 2), (16, 2)), ((16, 512), (1, 1024)))),
    ("layout", lambda: te.make_pattern_layout(te.NZLayoutPtn, HALF, ((16, 2), (16, 2)), ((16, 256), (1, 520)))),
    ("layout", lambda: te.make_pattern_layout(te.NDLayoutPtn, HALF, (4, 4), (4, 2))),
    ("coord", lambda: te.make_coord(-1, 0)),
    ("coord", lambda: te.make_nz_layout(HALF, 2, 16, 16)(0, 0)),
    ("coord", lambda: te.make_nz_layout(HALF, 16, 16)(0, 0, 0)),
    ("shape", lambda: te.make_frame_layout(te.NC1HWC0LayoutPtn, 1, 2, 3)),
    ("layout", lambda: kind_of(te.make_nz_layout(HALF, 16, 16), FLOAT)),
    ("layout", lambda: kind_of(te.make_layout((4, 4), (8, 2)), HALF)),
]


@pytest.mark.parametrize(("field", "call"), WRONG)
def test_wrong_layouts_are_refused(field: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.field == field


def test_scale_patterns_are_not_there() -> None:
    with pytest.raises(UnsupportedError) as caught:
        te.make_frame_layout("ScaleANDLayoutPtn", 4, 4)
    assert caught.value.field == "pattern"


# ---- slices ---------------------------------------------------------------------------------------------------------
def test_a_slice_keeps_the_strides_and_is_cut_off_at_the_end() -> None:
    whole = te.make_nz_layout(HALF, 64, 64)
    offset, part = whole.cut((16, 32), (32, 20))
    assert (offset, part.shape, part.stride) == (2 * 1024 + 256, ((16, 2), (16, 2)), whole.stride)
    assert whole.cut((48, 48), (64, 64))[1].shape == ((16, 1), (16, 1))
    assert whole.cut((16, 0))[1].shape == ((16, 3), (16, 4))
    offset, part = te.make_nd_layout(HALF, 96, 80).cut((32, 16), (48, 70))
    assert (offset, part.shape) == (32 * 80 + 16, ((1, 48), (1, 64)))
    assert te.make_frame_layout(te.NDLayoutPtn, 96, 80).cut((90, 16), (48, 5))[1].shape == (6, 5)
    assert te.make_nz_layout(HALF, 3, 64, 64).cut((1, (16, 0)), (1, (16, 64)))[1].shape == (1, ((16, 1), (16, 4)))
    assert whole.cut((16, 32), te.make_nd_layout(HALF, 30, 10))[1].shape == ((16, 2), (16, 1))


def test_rows_of_nz_may_be_sliced_anywhere_columns_at_blocks() -> None:
    # 32 B a row: a start between fractals is a start like any other along the axis of 16.
    assert te.make_nz_layout(HALF, 64, 64).cut((5, 16), (16, 16))[0] == 1024 + 5 * 16
    assert te.make_zn_layout(HALF, 64, 64).cut((16, 5), (16, 16))[0] == 1024 + 5 * 16
    for layout, coord in ((te.make_nz_layout(HALF, 64, 64), (16, 5)), (te.make_zn_layout(HALF, 64, 64), (5, 16))):
        with pytest.raises(ParameterError) as caught:
            layout.cut(coord, (16, 16))
        assert (caught.value.field, caught.value.value) == ("coord", 5)
    with pytest.raises(OutOfBoundsError):
        te.make_nz_layout(HALF, 64, 64).cut((64, 0), (16, 16))


def two(dtype: asc.DataType, src: tuple[str, int], dst: tuple[str, int], **more: Any) -> Stage:
    """A stage with noise in "src" and the sentinel in "dst"; (buffer, bytes) of both."""
    return Stage("atlas_350", {"src": Place(POSITION[src[0]], dtype.name, noise(src[1])),
                               "dst": Place(POSITION[dst[0]], dtype.name, dst[1])}, **more)  # fmt: skip


def pointers(stage: Stage) -> tuple[Any, Any]:
    return te.make_mem_ptr(stage["dst"]), te.make_mem_ptr(stage["src"])


def test_pointers_and_tensors() -> None:
    stage = two(HALF, ("GM", 4096), ("L1", 4096))

    def body() -> None:
        l1, gm = pointers(stage)
        assert (l1.location, gm.location, gm.dtype) == (te.Location.L1, te.Location.GM, HALF)
        assert (gm + 16).memory.offset == 32
        assert (3 + l1).memory.offset == 6
        assert te.make_gm_mem_ptr(stage["src"].get_phy_addr(8)).memory.offset == 16
        assert te.make_l1_mem_ptr(HALF, 64).memory.get_size() == (524288 - 64) // 2
        assert te.make_mem_ptr(te.Location.L0B, HALF, 512).memory.kind == "L0B"
        assert te.make_l1mem_ptr is te.make_l1_mem_ptr
        tensor = te.make_tensor(gm, te.make_shape(4, 16), te.make_stride(64, 1))
        assert (tensor.size(), tensor.capacity(), tensor.shape) == (64, 208, (4, 16))
        assert tensor(1, 0).data.memory.offset == 128
        assert tensor.slice((2, 8), (1, 4)).layout.shape == te.slice(tensor, (2, 8), (1, 4)).layout.shape == (1, 4)
        tensor.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_DISABLE)
        assert tensor.slice((1, 0), (1, 4)).data.memory.l2_hint == "disable"

    stage.call(body)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("memory", lambda gm, l1: te.make_l1_mem_ptr(gm)),
        ("memory", lambda gm, l1: te.make_l0a_mem_ptr(l1)),
        ("memory", lambda gm, l1: te.make_gm_mem_ptr(l1)),
        ("memory", lambda gm, l1: te.make_gm_mem_ptr(HALF)),
        ("memory", lambda gm, l1: te.make_mem_ptr(3)),
        ("address", lambda gm, l1: te.make_l1_mem_ptr(l1, 3)),
        ("pointer", lambda gm, l1: te.make_tensor(l1, te.make_nd_layout(HALF, 4, 4))),
        ("layout", lambda gm, l1: te.make_tensor(te.make_l1_mem_ptr(l1), (4, 4))),
        ("mode", lambda gm, l1: te.make_tensor(te.make_l1_mem_ptr(l1), (4, 4), (4, 1)).set_l2_cache_hint(0)),
    ],
)
def test_wrong_memory_is_refused(field: str, call: Callable[[Any, Any], Any]) -> None:
    stage = two(HALF, ("GM", 4096), ("L1", 4096))
    stage.refuses(lambda: call(stage["src"], stage["dst"]), ParameterError, field)


# ---- the instructions of a route (spec 7.3, 7.6) -------------------------------------------------------------------
def steps(dtype: asc.DataType, to: str, dst: Any, src: Any, coord: Any = None, quirks: str = "documented") -> list[Any]:
    warnings: list[str] = []
    made = load_steps(dst, src, dtype, to, coord, the_card("atlas_350", quirks), warnings)
    return [(s.params, s.dst, s.src) for s in made]


def v2(m_start: int, k_start: int, m: int, k: int, src: int, dst: int, transpose: bool = False) -> asc.LoadData2DParamsV2:
    return asc.LoadData2DParamsV2(m_start, k_start, m, k, src, dst, transpose)


def test_the_seed_page_is_one_copy_of_whole_fractals() -> None:
    layout = te.make_nz_layout(HALF, 128, 64)
    assert steps(HALF, "L0A", layout, layout) == [(v2(0, 0, 8, 4, 8, 8), 0, 0)]


def test_the_unit_tests_of_the_implementation() -> None:
    batch = te.make_nz_layout(FLOAT, 2, 32, 32)
    assert steps(FLOAT, "L0A", batch, batch) == [(v2(0, 0, 2, 8, 2, 2), 0, 0)]
    assert steps(FLOAT, "L0A", te.make_nz_layout(FLOAT, 32, 32), te.make_zn_layout(FLOAT, 32, 32)) == [
        (v2(0, 0, 2, 4, 2, 2, True), 0, 0)]  # fmt: skip
    # fp4, 16 x 128, the destination smaller: two pieces, the second 512 B = 1024 elements further
    assert steps(FP4, "L0A", te.make_nz_layout(FP4, 16, 128), te.make_zn_layout(FP4, 16, 128)) == [
        (v2(0, 0, 4, 1, 8, 1, True), 0, 0), (v2(4, 0, 4, 1, 8, 1, True), 1024, 0)]  # fmt: skip


def test_a_and_b_of_the_worked_example() -> None:
    # m, n, k = 40, 50, 70 (spec 14.2)
    for dtype, k in ((INT8, 3), (HALF, 5), (FLOAT, 9)):
        a = te.make_nz_layout(dtype, 40, 70)
        assert steps(dtype, "L0A", a, a) == [(v2(0, 0, 3, k, 3, 3), 0, 0)]
        b = te.make_zn_layout(dtype, 70, 50)  # bytewise NZ of N x K
        assert steps(dtype, "L0B", b, b) == [(v2(0, 0, 4, k, 4, 4), 0, 0)]
    assert steps(HALF, "L0A", te.make_nz_layout(HALF, 40, 70), te.make_zn_layout(HALF, 40, 70)) == [
        (v2(0, 0, 5, 3, 5, 3, True), 0, 0)]  # fmt: skip
    assert steps(FLOAT, "L0A", te.make_nz_layout(FLOAT, 40, 70), te.make_zn_layout(FLOAT, 40, 70)) == [
        (v2(0, 0, 5, 6, 5, 3, True), 0, 0)]  # fmt: skip
    # int8: 64 rows of the source into 48: three pieces of two fractals, 1536 B apart
    assert steps(INT8, "L0A", te.make_nz_layout(INT8, 40, 70), te.make_zn_layout(INT8, 40, 96)) == [
        (v2(i * 2, 0, 2, 2, 6, 3, True), i * 1536, 0) for i in range(3)]  # fmt: skip
    assert steps(HALF, "L0B", te.make_zn_layout(HALF, 70, 50), te.make_nz_layout(HALF, 70, 50)) == [
        (v2(0, 0, 5, 4, 5, 4, True), 0, 0)]  # fmt: skip
    assert steps(FLOAT, "L0B", te.make_zn_layout(FLOAT, 70, 50), te.make_nz_layout(FLOAT, 70, 50)) == [
        (v2(0, 0, 5, 8, 5, 4, True), 0, 0)]  # fmt: skip
    assert steps(INT8, "L0B", te.make_zn_layout(INT8, 70, 50), te.make_nz_layout(INT8, 96, 50)) == [
        (v2(0, 0, 6, 2, 6, 4, True), 0, 0)]  # fmt: skip


def test_transposed_batches_are_one_instruction_each() -> None:
    made = steps(HALF, "L0A", te.make_nz_layout(HALF, 3, 32, 48), te.make_zn_layout(HALF, 3, 32, 48))
    assert made == [(v2(0, 0, 3, 2, 3, 2, True), i * 1536, i * 1536) for i in range(3)]


def test_a_coordinate_shifts_the_start_and_limits_the_steps() -> None:
    dst = te.make_nz_layout(HALF, 32, 32)
    assert steps(HALF, "L0A", dst, te.make_nz_layout(HALF, 64, 64), (16, 32)) == [(v2(1, 2, 2, 2, 4, 2), 0, 0)]
    assert steps(HALF, "L0A", dst, te.make_nz_layout(HALF, 64, 64), (48, 32)) == [(v2(3, 2, 1, 2, 4, 2), 0, 0)]
    assert steps(HALF, "L0A", dst, te.make_zn_layout(HALF, 64, 64), (16, 48)) == [(v2(3, 1, 1, 2, 4, 2, True), 0, 0)]
    assert steps(HALF, "L0B", te.make_zn_layout(HALF, 32, 32), te.make_nz_layout(HALF, 64, 64), (16, 32)) == [
        (v2(1, 2, 2, 2, 4, 2, True), 0, 0)]  # fmt: skip


def test_a_coordinate_inside_a_fractal_is_refused_and_with_the_quirk_rounded_down() -> None:
    dst, src = te.make_nz_layout(HALF, 32, 32), te.make_nz_layout(HALF, 64, 64)
    for coord in ((8, 0), (0, 8)):
        with pytest.raises(ParameterError) as caught:
            steps(HALF, "L0A", dst, src, coord)
        assert (caught.value.field, caught.value.value) == ("coord", 8)
    assert steps(HALF, "L0A", dst, src, (24, 40), "te-coord") == [(v2(1, 2, 2, 2, 4, 2), 0, 0)]
    wide = te.make_nz_layout(FP4, 16, 256)
    assert steps(FP4, "L0A", te.make_nz_layout(FP4, 16, 64), wide, (0, 128)) == [(v2(0, 2, 1, 1, 1, 1), 0, 0)]
    assert steps(FP4, "L0A", te.make_nz_layout(FP4, 16, 64), wide, (0, 128), "te-coord") == [(v2(0, 1, 1, 1, 1, 1), 0, 0)]
    with pytest.raises(OutOfBoundsError):
        steps(HALF, "L0A", dst, src, (64, 0))
    batch = te.make_nz_layout(HALF, 2, 64, 64)
    with pytest.raises(ParameterError):
        steps(HALF, "L0A", te.make_nz_layout(HALF, 2, 32, 32), batch, (0, (16, 0)))


def test_outer_strides_become_the_strides_of_the_instruction() -> None:
    src = te.make_pattern_layout(te.NZLayoutPtn, HALF, ((16, 2), (16, 3)), ((16, 256), (1, 7 * 256)))
    dst = te.make_layout(((16, 2), (16, 3)), ((16, 256), (1, 5 * 256)))
    assert steps(HALF, "L0A", dst, src) == [(v2(0, 0, 2, 3, 7, 5), 0, 0)]


def gm(dtype: asc.DataType, dst: Any, src: Any) -> list[Any]:
    warnings: list[str] = []
    return [(s.params, s.dst, s.src) for s in gm_steps(dst, src, dtype, the_card("atlas_350"), warnings)]


def test_gm_routes_become_the_classic_calls() -> None:
    nd, dn = te.make_nd_layout(HALF, 40, 70), te.make_dn_layout(HALF, 40, 70)
    nz_, zn_ = te.make_nz_layout(HALF, 40, 70), te.make_zn_layout(HALF, 40, 70)
    assert gm(HALF, nz_, nd) == [(asc.Nd2NzParams(1, 40, 70, 0, 70, 48, 1, 0), 0, 0)]
    assert gm(HALF, zn_, dn) == [(asc.Nd2NzParams(1, 70, 40, 0, 40, 80, 1, 0), 0, 0)]
    assert gm(HALF, nz_, dn) == [(asc.Dn2NzParams(1, 40, 70, 0, 40, 48, 1, 0), 0, 0)]
    assert gm(HALF, zn_, nd) == [(asc.Dn2NzParams(1, 70, 40, 0, 70, 80, 1, 0), 0, 0)]
    assert gm(HALF, nz_, te.make_nz_layout(HALF, 64, 128).cut((0, 0), (40, 70))[1]) == [
        (asc.DataCopyParams(5, 48, 16, 0), 0, 0)]  # fmt: skip
    assert gm(HALF, zn_, zn_) == [(asc.DataCopyParams(3, 80, 0, 0), 0, 0)]
    # fp4 counts bytes
    assert gm(FP4, te.make_nz_layout(FP4, 20, 70), te.make_nd_layout(FP4, 20, 70)) == [
        (asc.Nd2NzParams(1, 20, 35, 0, 35, 32, 1, 0), 0, 0)]  # fmt: skip
    assert gm(HALF, te.make_nz_layout(HALF, 3, 32, 48), te.make_nd_layout(HALF, 3, 32, 48)) == [
        (asc.Nd2NzParams(3, 32, 48, 1536, 48, 32, 1, 1536), 0, 0)]  # fmt: skip


def test_rows_to_rows() -> None:
    assert gm(HALF, te.make_nd_layout(HALF, 4, 40), te.make_nd_layout(HALF, 4, 40)) == [
        (asc.DataCopyParams(1, 10), 0, 0)]  # fmt: skip
    strided = te.make_frame_layout(te.NDLayoutPtn, 8, 64).cut((0, 0), (4, 32))[1]
    assert gm(HALF, te.make_frame_layout(te.NDLayoutPtn, 4, 48), strided) == [(asc.DataCopyParams(4, 2, 2, 1), 0, 0)]
    # 20 columns are 40 B: ND2NZ with column blocks side by side fills the rest of the row's 32 B blocks
    ragged = te.make_frame_layout(te.NDLayoutPtn, 8, 64).cut((0, 0), (4, 20))[1]
    assert gm(HALF, te.make_frame_layout(te.NDLayoutPtn, 4, 48), ragged) == [
        (asc.Nd2NzParams(1, 4, 20, 0, 64, 1, 3, 0), 0, 0)]  # fmt: skip
    short = te.make_frame_layout(te.NDLayoutPtn, 5, 7)
    assert gm(HALF, short, short) == [
        (asc.DataCopyParams(1, 2), 0, 0), (asc.Nd2NzParams(1, 1, 3, 0, 3, 1, 1, 0), 32, 32)]  # fmt: skip


# ---- calls ----------------------------------------------------------------------------------------------------------
STYLES: dict[str, Callable[[Any, Any], None]] = {
    "atom": lambda d, s: te.copy(te.CopyAtom(te.CopyTraits(te.CopyL12L0, te.LoadDataTraitDefault)), d, s),
    "atom of objects": lambda d, s: te.copy(te.CopyAtom(te.CopyTraits(te.CopyL12L0(), te.LoadDataTraitDefault())), d, s),
    "call": lambda d, s: te.CopyAtom(te.CopyTraits(te.CopyL12L0, te.LoadDataTraitDefault)).call(d, s),
    "make_copy": lambda d, s: te.make_copy(te.CopyL12L0(), te.LoadDataTraitDefault()).call(d, s),
    "page of today": lambda d, s: te.copy(te.make_copy(te.CopyL12L0A(), te.CopyL12L0ATraitDefault()), d, s),
    "default trait": lambda d, s: te.copy(te.make_copy(te.CopyL12L0A), d, s),
    "load_data": lambda d, s: te.load_data(d, s),
    "load_data with a trait": lambda d, s: te.load_data(d, s, trait=te.LoadDataTrait()),
    "load_data with a coordinate": lambda d, s: te.load_data(d, s, te.make_coord(0, 0)),
}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_copies_the_seed_page(style: str) -> None:
    stage = two(HALF, ("L1", 16384), ("L0A", 16384))
    layout = te.make_nz_layout(HALF, 128, 64)

    def body() -> None:
        dst, src = pointers(stage)
        STYLES[style](te.make_tensor(dst + 0, layout), te.make_tensor(src + 0, layout))

    stage.call(body)
    np.testing.assert_array_equal(stage.bytes("dst"), stage.bytes("src"))
    assert stage.defined("dst").all()
    assert [(op.api, op.pipe.name, op.path, op.nbytes) for op in stage.ops] == [("LoadData", "MTE1", "L1-L0A", 16384)]
    assert stage.warnings == []


def test_a_repeated_copy_shares_its_instruction_with_other_tensors_of_the_shape() -> None:
    stage = two(HALF, ("L1", 16384), ("L0A", 16384))
    layout = te.make_nz_layout(HALF, 64, 64)

    def body() -> None:
        dst, src = pointers(stage)
        for start in (0, 4096):
            te.load_data(te.make_tensor(dst + start, layout), te.make_tensor(src + start, layout))

    stage.call(body)
    assert stage.ops[0] is stage.ops[1]
    np.testing.assert_array_equal(stage.bytes("dst"), stage.bytes("src"))


def test_fp4_split_leaves_dirty_fractals_only_behind_the_destination() -> None:
    # spec 7.6: 64 rows of the source, 16 of the destination; each piece of 4 fractals is repaired by the next
    stage = two(FP4, ("L1", 4096), ("L0A", 4096))

    def body() -> None:
        dst, src = pointers(stage)
        te.load_data(te.make_tensor(dst, te.make_nz_layout(FP4, 16, 128)), te.make_tensor(src, te.make_zn_layout(FP4, 16, 128)))

    stage.call(body)
    src, got = stage.words("src"), stage.words("dst")
    r, c = np.indices((16, 128))
    np.testing.assert_array_equal(got[nz(r, c, 16, 128, 64)], src[zn(r, c, 16, 128, 64)])
    touched = (stage.bytes("dst") != 0xA5).reshape(8, 512).any(axis=1)
    assert touched.tolist() == [True] * 5 + [False] * 3
    assert stage.warnings == []  # 16 rows fill 64 of the source: both layouts are those of one matrix


def test_a_set_transposed_is_ignored_with_a_warning() -> None:
    stage = two(HALF, ("L1", 512), ("L0A", 512))

    def load(transposed: bool, make: Any) -> Callable[[], None]:
        def body() -> None:
            dst, src = pointers(stage)
            trait = te.LoadDataTrait(transposed=transposed)
            te.load_data(te.make_tensor(dst, te.make_nz_layout(HALF, 16, 16)), te.make_tensor(src, make(HALF, 16, 16)), trait=trait)

        return body

    stage.call(load(True, te.make_zn_layout), load(False, te.make_zn_layout), load(False, te.make_nz_layout))
    assert stage.warnings == []
    stage.call(load(True, te.make_nz_layout))
    assert ["trait.transposed is ignored" in text for text in stage.warnings] == [True]
    np.testing.assert_array_equal(stage.bytes("dst"), stage.bytes("src"))


def test_a_vector_core_does_nothing() -> None:
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(512)), "dst": Place("A2", "half", 512)}, core="aiv")
    layout = te.make_nz_layout(HALF, 16, 16)

    def body() -> None:
        dst, src = pointers(stage)
        te.load_data(te.make_tensor(dst, layout), te.make_tensor(src, layout))

    stage.call(body)
    assert stage.ops == [] and stage.warnings == []


@pytest.mark.parametrize("card", OTHERS)
@pytest.mark.parametrize(("paths", "instead"), [(("A1", "A2"), "load_data with LoadData2DParams"), (("GM", "A1"), "data_copy")])
def test_other_cards_name_the_classic_call(card: str, paths: tuple[str, str], instead: str) -> None:
    stage = Stage(card, {"src": Place(paths[0], "half", noise(512)), "dst": Place(paths[1], "half", 512)})
    layout = te.make_nz_layout(HALF, 16, 16)
    operation = te.CopyGM2L1 if paths[0] == "GM" else te.CopyL12L0A

    def body() -> None:
        dst, src = pointers(stage)
        te.copy(te.make_copy(operation()), te.make_tensor(dst, layout), te.make_tensor(src, layout))

    error = stage.refuses(body, UnsupportedError, "api")
    if card == "atlas_200i":  # it has no data_copy into L1
        instead = "load_data with LoadData2DParams"
    assert error.card == card and instead in str(error.allowed)


def refused(src: tuple[str, Any], dst: tuple[str, Any], error: type, field: str, operation: Any = None,
            dtype: asc.DataType = HALF, dst_dtype: asc.DataType | None = None, **more: Any) -> None:  # fmt: skip
    """A copy between (buffer, layout) tensors of 32 KB is refused."""
    stage = Stage("atlas_350", {"src": Place(POSITION[src[0]], dtype.name, noise(32768)),
                                "dst": Place(POSITION[dst[0]], (dst_dtype or dtype).name, 32768)}, core="aic")  # fmt: skip

    def body() -> None:
        to, start = pointers(stage)
        given = operation or (te.CopyGM2L1 if src[0] == "GM" else te.CopyL12L0)
        te.copy(te.make_copy(given), te.make_tensor(to, dst[1]), te.make_tensor(start, src[1]), **more)

    stage.refuses(body, error, field)


def test_copies_without_a_route_are_refused() -> None:
    nz_, zn_ = te.make_nz_layout(HALF, 32, 32), te.make_zn_layout(HALF, 32, 32)
    nd, dn = te.make_nd_layout(HALF, 32, 32), te.make_dn_layout(HALF, 32, 32)
    for src, dst in ((nz_, zn_), (zn_, zn_), (nd, nz_), (nz_, nd)):
        refused(("L1", src), ("L0A", dst), ParameterError, "layout")
    for src, dst in ((nz_, nz_), (zn_, nz_)):
        refused(("L1", src), ("L0B", dst), ParameterError, "layout")
    for src, dst in ((nz_, zn_), (zn_, nz_), (dn, dn), (nz_, nd), (nd, dn), (dn, nd)):
        refused(("GM", src), ("L1", dst), ParameterError, "layout")
    refused(("L1", nz_), ("L0A", nz_), UnsupportedError, "path", te.CopyL12L0B)
    refused(("L1", zn_), ("L0B", zn_), UnsupportedError, "path", te.CopyL12L0A)
    refused(("GM", nz_), ("L0A", nz_), UnsupportedError, "path", te.CopyGM2L1)
    refused(("L1", nz_), ("L0A", nz_), UnsupportedError, "path", te.CopyGM2L1)
    refused(("GM", nd), ("L1", nz_), ParameterError, "coord", coord=(0, 0))


def test_types_that_a_route_does_not_take() -> None:
    def both(dtype: asc.DataType, kinds: str) -> tuple[Any, Any]:
        makers = {"nd": te.make_nd_layout, "dn": te.make_dn_layout, "nz": te.make_nz_layout, "zn": te.make_zn_layout}
        src, dst = kinds.split()
        return ("GM", makers[src](dtype, 32, 32)), ("L1", makers[dst](dtype, 32, 32))

    for name, kinds in (("uint64", "nd nz"), ("uint64", "nd zn"), ("fp4x2_e2m1", "nd zn"), ("fp4x2_e1m2", "dn nz"),
                        ("fp8_e8m0", "nd nd"), ("float64", "nd nd"), ("int4", "nd nz")):  # fmt: skip
        refused(*both(asc.DataType(name), kinds), UnsupportedError, "dtype", dtype=asc.DataType(name))
    nz_ = te.make_nz_layout(HALF, 32, 32)
    refused(("L1", nz_), ("L0A", nz_), ParameterError, "dtype", dst_dtype=asc.bfloat16)
    odd = te.make_nd_layout(FP4, 4, 6)
    ragged = te.make_layout((4, 5), (6, 1))
    refused(("GM", ragged), ("L1", te.make_nz_layout(FP4, 4, 6)), ParameterError, "shape", dtype=FP4)
    refused(("GM", te.make_layout((4, 4), (5, 1))), ("L1", te.make_nz_layout(FP4, 4, 6)), ParameterError, "stride", dtype=FP4)
    refused(("GM", odd), ("L1", te.make_nz_layout(HALF, 4, 6)), ParameterError, "layout", dtype=FP4)


def test_tensors_that_do_not_fit_are_refused() -> None:
    nz_ = te.make_nz_layout(HALF, 32, 32)
    refused(("L1", te.make_nz_layout(HALF, 2, 32, 32)), ("L0A", nz_), ParameterError, "batch")
    gap = te.make_layout((2, ((16, 2), (16, 2))), (2048, ((16, 256), (1, 512))))
    refused(("L1", gap), ("L0A", te.make_nz_layout(HALF, 2, 32, 32)), ParameterError, "batch")
    refused(("GM", te.make_nz_layout(HALF, 2, 32, 32)), ("L1", te.make_nz_layout(HALF, 2, 32, 32)), UnsupportedError, "batch")
    refused(("GM", te.make_nd_layout(HALF, 4, 20)), ("L1", te.make_layout((4, 20), (24, 1))), ParameterError, "stride")
    refused(("GM", te.make_nd_layout(HALF, 4, 32)), ("L1", te.make_layout((4, 32), (16, 1))), ParameterError, "stride")
    refused(("GM", te.make_nz_layout(HALF, 64, 32)), ("L1", nz_), ParameterError, "stride")
    high = te.make_nz_layout(HALF, 16 * 256, 16)
    refused(("L1", high), ("L0A", high), ParameterError, "m_step")


def test_addresses_are_checked_before_anything_is_recorded() -> None:
    stage = two(INT8, ("L1", 8192), ("L0A", 65536))
    src, dst = te.make_zn_layout(INT8, 40, 96), te.make_nz_layout(INT8, 40, 96)

    def load(to: int, start: int) -> Callable[[], None]:
        return lambda: te.load_data(
            te.make_tensor(te.make_mem_ptr(stage["dst"]) + to, dst), te.make_tensor(te.make_mem_ptr(stage["src"]) + start, src)
        )

    stage.refuses(load(32, 0), AlignmentError, "address")
    stage.refuses(load(0, 16), AlignmentError, "address")
    # Three pieces; only the last one leaves L0A.
    stage.refuses(load(65536 - 4096, 0), OutOfBoundsError, "address")
    assert stage.ops == []
    stage.call(load(0, 0))
    assert len(stage.ops) == 3


def test_a_source_that_does_not_fit_its_destination_warns() -> None:
    stage = two(HALF, ("GM", 8192), ("L1", 16384))

    def body() -> None:
        dst, src = pointers(stage)
        te.copy(te.make_copy(te.CopyGM2L1), te.make_tensor(dst, te.make_nz_layout(HALF, 32, 64)),
                te.make_tensor(src, te.make_nd_layout(HALF, 64, 64)))  # fmt: skip

    stage.call(body)
    assert any("runs into" in text for text in stage.warnings)


def test_objects_of_a_copy() -> None:
    assert te.make_copy(te.CopyL12L0) == te.CopyAtom(te.CopyTraits(te.CopyL12L0(), te.LoadDataTraitDefault()))
    for field, call in (
        ("operation", lambda: te.CopyTraits("CopyL0C2GM")),
        ("trait", lambda: te.CopyTraits(te.CopyL12L0, 3)),
        ("traits", lambda: te.CopyAtom(te.CopyL12L0)),
        ("params", lambda: te.make_copy(te.CopyL12L0B).with_(te.Img2ColParams())),
        ("params", lambda: te.make_copy(te.CopyL12L0A).with_(3)),
        ("atom", lambda: te.copy(te.CopyL12L0, None, None)),
    ):
        with pytest.raises((ParameterError, UnsupportedError)) as caught:
            call()
        assert caught.value.field == field


def test_operands_are_tensors_of_the_api() -> None:
    stage = two(HALF, ("L1", 512), ("L0A", 512))
    tensor = te.make_tensor(te.make_mem_ptr(stage["src"]), te.make_nz_layout(HALF, 16, 16))
    stage.refuses(lambda: te.load_data(stage["dst"], tensor), ParameterError, "dst")
    stage.refuses(lambda: te.load_data(tensor, stage["dst"]), ParameterError, "src")


# ---- img2col --------------------------------------------------------------------------------------------------------
def img2col(params: Any, rows: int, columns: int, dtype: asc.DataType = HALF) -> tuple[Stage, Callable[[], None]]:
    """The page's example: a feature map (1, 2, 5, 5, 16) into L0A."""
    stage = two(dtype, ("L1", 2 * 25 * 32), ("L0A", 65536))

    def body() -> None:
        dst, src = pointers(stage)
        feature = te.make_tensor(src, te.make_frame_layout(te.NC1HWC0LayoutPtn, 1, 2, 5, 5, dtype.c0))
        matrix = te.make_tensor(dst, te.make_nz_layout(dtype, rows, columns))
        te.copy(te.make_copy(te.CopyL12L0A, te.CopyL12L0ATraitDefault).with_(params), matrix, feature)

    return stage, body


def test_img2col_unfolds_the_page_example() -> None:
    params = te.Img2ColParams(m_extension=25, k_extension=288, filter_w=3, filter_h=3, pad_list=[1, 1, 1, 1], pad_value=1.0)
    stage, body = img2col(params, 25, 288)
    stage.call(body)
    fm, got = stage.words("src").reshape(2, 5, 5, 16), stage.words("dst")
    for m in range(25):
        for k in range(288):
            block, c = divmod(k, 16)
            c1, kernel = divmod(block, 9)
            h, w = m // 5 + kernel // 3 - 1, m % 5 + kernel % 3 - 1
            want = fm[c1, h, w, c] if 0 <= h < 5 and 0 <= w < 5 else 0x3C00
            assert got[nz(m, k, 25, 288, 16)] == want
    assert stage.warnings == []


def test_img2col_is_refused_or_warned_of() -> None:
    def params(**more: Any) -> Any:
        return te.Img2ColParams(**({"m_extension": 25, "k_extension": 288, "filter_w": 3, "filter_h": 3,
                                    "pad_list": (1, 1, 1, 1)} | more))  # fmt: skip

    stage, body = img2col(params(), 64, 288)
    stage.call(body)
    assert any("fractals apart" in text for text in stage.warnings)
    stage, body = img2col(params(m_extension=0), 25, 288)
    stage.call(body)
    assert stage.ops == [] and any("moves nothing" in text for text in stage.warnings)
    stage, body = img2col(params(stride_w=0), 25, 288)
    stage.refuses(body, ParameterError, "stride_w")
    stage, body = img2col(params(), 25, 288, FP4)
    stage.refuses(body, ParameterError, "dtype")
    stage = two(HALF, ("L1", 1600), ("L0B", 65536))

    def to(operation: Any, src: Any, dst: Any) -> Callable[[], None]:
        def call() -> None:
            ends = pointers(stage)
            te.copy(te.make_copy(operation).with_(params()), te.make_tensor(ends[0], dst), te.make_tensor(ends[1], src))

        return call

    feature = te.make_frame_layout(te.NC1HWC0LayoutPtn, 1, 2, 5, 5, 16)
    stage.refuses(to(te.CopyL12L0, feature, te.make_nz_layout(HALF, 25, 288)), ParameterError, "dst")
    stage = two(HALF, ("L1", 1600), ("L0A", 65536))
    two_images = te.make_frame_layout(te.NC1HWC0LayoutPtn, 2, 1, 5, 5, 16)
    for src, dst in ((two_images, te.make_nz_layout(HALF, 25, 288)), (te.make_nz_layout(HALF, 16, 16),) * 2,
                     (feature, te.make_zn_layout(HALF, 25, 288))):  # fmt: skip
        stage.refuses(to(te.CopyL12L0A, src, dst), ParameterError, "layout")


def test_different_extents_warn() -> None:
    stage = two(HALF, ("L1", 16384), ("L0A", 16384))

    def body() -> None:
        dst, src = pointers(stage)
        te.load_data(te.make_tensor(dst, te.make_nz_layout(HALF, 32, 64)), te.make_tensor(src, te.make_nz_layout(HALF, 64, 64)))

    stage.call(body)
    assert ["64 x 64" in text and "give both one shape" in text for text in stage.warnings] == [True]
