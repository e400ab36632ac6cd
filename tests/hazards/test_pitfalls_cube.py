"""Pitfalls of tiles: what was loaded is not what Mmad or Fixpipe reads (spec pitfalls.md, P15, P16, P18, P21 and P40).

Every product stands in its test as numpy has it; the wrong form is found with both lines, the right one is right and clean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import OutOfBoundsError
from aicore_sim.hazards.model import ERROR, OBSERVED, WARNING
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm
from tests.hazards.marked import AIC, ALL, SEPARATE, Flags, local
from tests.hazards.wrong_forms import Made, reported, the_fault, zeros

ON_2201 = ("atlas_a2", "atlas_a3")


def whole(seed: int, *shape: int, dtype: Any = np.float16) -> Any:
    """Small whole numbers: their products and sums are exact."""
    return np.random.default_rng(seed).integers(1, 4, shape).astype(dtype)


# ---- P15: the tail block in L0B ---------------------------------------------------------------------------------------
FULL, TAIL, DEEP, STEPS = 64, 32, 32, 2
"""Columns of B in a block and in the last one; k of a step, and how many."""


@asc.jit(kernel_type=AIC)
def last_block(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, form: asc.ConstExpr):
    """C[16, TAIL] = A[16, k] x B^T[TAIL, k]; the tail block of B goes to L0B in steps of k."""
    flags, k = Flags(), DEEP * STEPS
    a1, b1 = local(asc.TPosition.A1, asc.float16, 0, 16 * k), local(asc.TPosition.B1, asc.float16, 32 * k, TAIL * k)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 16 * k), local(asc.TPosition.B2, asc.float16, 0, FULL * k)
    co = local(asc.TPosition.CO1, asc.float32, 0, 16 * TAIL)
    asc.data_copy(a1, gm(a), asc.Nd2NzParams(1, 16, k, 0, k, 16, 1, 0))
    asc.data_copy(b1, gm(b), asc.Nd2NzParams(1, TAIL, k, 0, k, TAIL, 1, 0))
    flags.order("MTE2_MTE1")
    asc.load_data(a2, a1, asc.LoadData2DParams(0, k // 16, 1))
    slot = TAIL if form == "right" else FULL
    pitch = FULL if form in ("stride", "step") else TAIL
    high = FULL if form == "step" else TAIL
    for i in range(STEPS):
        steps = asc.LoadData2DParamsV2(0, i * DEEP // 16, high // 16, DEEP // 16, TAIL // 16, pitch // 16)
        asc.load_data(b2[i * slot * DEEP], b1, steps)  # @tail_load
    flags.order("MTE1_M")
    asc.mmad(co, a2, b2, asc.MmadParams(16, TAIL, k))
    flags.order("M_FIX")
    asc.fixpipe(gm(c), co, asc.FixpipeParamsArch3510(TAIL, 16, 16, TAIL))  # @tail_store


@pytest.mark.parametrize("form", ["slot", "stride", "step"])
def test_p15_slots_of_the_full_block_for_a_tail(form: str) -> None:
    a, b = whole(1, 16, DEEP * STEPS), whole(2, TAIL, DEEP * STEPS)
    product = a.astype(np.float32) @ b.T.astype(np.float32)

    def run(form: str) -> Made:
        c = zeros(16 * TAIL)
        return asc.simulate(last_block, a, b, c, form), c.reshape(16, TAIL)

    right, c = run("right")
    asc.assert_clean(right)
    assert np.array_equal(c, product)
    wrong, c = run(form)
    assert not np.array_equal(c, product)
    if form == "step":
        # Every slot is written, with fractals of the next column; the last load leaves its tensor.
        hazard = the_fault(wrong, "out-of-tensor", "tail_load", "", WARNING)
        assert (hazard.bytes, hazard.count) == ((FULL - TAIL) * 32, 1)
        return
    hazard = the_fault(wrong, "undefined-read", "tail_store", "tail_load")
    assert (hazard.verdict, hazard.tensor) == (OBSERVED, "c")
    assert "were never loaded" in hazard.fix


# ---- P16: a part of an image over the weights --------------------------------------------------------------------------
@asc.jit(kernel_type=AIC)
def part_of_an_image(x: asc.GlobalAddress, w: asc.GlobalAddress, c: asc.GlobalAddress, rows: asc.ConstExpr[int]):
    """Sixteen rows of an image, stored column by column, times the weights, which lie right behind them in L1."""
    flags = Flags()
    image = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 256)
    weights = asc.LocalTensor(asc.half, asc.TPosition.B1, 512, 256)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 256), local(asc.TPosition.B2, asc.float16, 0, 256)
    co = local(asc.TPosition.CO1, asc.float32, 0, 256)
    asc.data_copy(weights, gm(w), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
    asc.pipe_barrier(asc.PipeID.PIPE_MTE2)
    asc.data_copy(image, gm(x), asc.Dn2NzParams(1, rows, 16, 0, 48, 16, 1, 0))  # @image_load
    flags.order("MTE2_MTE1")
    asc.load_data(a2, image, asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1))
    asc.load_data(b2, weights, asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1))  # @weights_load
    flags.order("MTE1_M")
    asc.mmad(co, a2, b2, asc.MmadParams(16, 16, 16))
    flags.order("M_FIX")
    asc.fixpipe(gm(c), co, asc.FixpipeParamsArch3510(16, 16, 16, 16))


@pytest.mark.parametrize("rows", [20, 48])
def test_p16_all_rows_of_an_image_where_a_part_has_room(rows: int) -> None:
    x, w = whole(3, 16, 48), 4 + whole(4, 16, 16)
    product = x.T[:16].astype(np.float32) @ w.T.astype(np.float32)

    def run(rows: int) -> Made:
        c = zeros(256)
        return asc.simulate(part_of_an_image, x, w, c, rows), c.reshape(16, 16)

    right, c = run(16)
    asc.assert_clean(right)
    assert np.array_equal(c, product)
    wrong, c = run(rows)
    assert not np.array_equal(c, product)
    assert reported(wrong) == {
        ("out-of-tensor", WARNING, "image_load", ""), ("live-overlap", WARNING, "weights_load", "image_load"),
    }  # fmt: skip
    (overlap,) = wrong.hazards.of("live-overlap")
    assert (overlap.address, overlap.bytes) == (512, min(rows - 16, 16) * 32)
    assert "A1 tensor at byte 0 of 512 B" in overlap.detail
    assert "B1 tensor at byte 512 of 512 B" in overlap.detail


# ---- P18: the padding register of LoadData3D ---------------------------------------------------------------------------
SIDE, TAPS = 4, 9
"""A map of SIDE x SIDE x 16, and a kernel of 3 x 3."""


@asc.jit(kernel_type=AIC)
def convolution(x: asc.GlobalAddress, w: asc.GlobalAddress, c: asc.GlobalAddress, form: asc.ConstExpr):
    """C[position, 16] of a padded map and weights [TAPS * 16, 16] in fractals."""
    flags, k = Flags(), TAPS * 16
    a1, b1 = local(asc.TPosition.A1, asc.float16, 0, 256), local(asc.TPosition.B1, asc.float16, 512, 16 * k)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 16 * k), local(asc.TPosition.B2, asc.float16, 0, 16 * k)
    co = local(asc.TPosition.CO1, asc.float32, 0, 256)
    # As fractals, which every card can load.
    asc.load_data(a1, gm(x), asc.LoadData2DParams(0, 1, 1))
    asc.load_data(b1, gm(w), asc.LoadData2DParams(0, TAPS, 1))
    if form == "register":
        asc.set_load_data_padding_value(0, asc.float16)
    flags.order("MTE2_MTE1")
    config = asc.IsResetLoad3dConfig(form != "no map", form in ("struct", "no map"))
    window = asc.LoadData3DParamsV2((1, 1, 1, 1), SIDE, SIDE, 16, k, 16, filter_w=3, filter_h=3, pad_value=0)
    asc.load_data(a2, a1, window, config)  # @window
    asc.load_data(b2, b1, asc.LoadData2DParams(0, TAPS, 1))
    flags.order("MTE1_M")
    asc.mmad(co, a2, b2, asc.MmadParams(16, 16, k, cmatrix_init_val=True))
    flags.order("M_FIX")
    asc.fixpipe(gm(c), co, asc.FixpipeParamsV220(16, 16, 16, 16))  # @map_store


@pytest.mark.parametrize("card", ALL)
def test_p18_padding_that_was_set_nowhere(card: str) -> None:
    x, w = whole(5, SIDE, SIDE, 16), whole(6, TAPS, 16, 16)
    padded = np.pad(x.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    windows = [padded[i : i + 3, j : j + 3].reshape(TAPS, 16) for i in range(SIDE) for j in range(SIDE)]
    # A fractal of B lies as [n, k].
    expected = np.einsum("ptk,tnk->pn", np.stack(windows), w.astype(np.float32))

    def run(form: str) -> Made:
        c = zeros(256)
        return asc.simulate(convolution, x, w, c, form, card=card), c.reshape(16, 16)

    for form in ("register", "struct"):
        right, c = run(form)
        asc.assert_clean(right)
        assert np.array_equal(c, expected)
    hazard = the_fault(run("neither")[0], "undefined-read", "map_store", "window")
    # Only the four positions in the middle have no padding in their windows.
    assert hazard.bytes == (SIDE * SIDE - 4) * 16 * 4
    assert "set_load_data_padding_value" in hazard.fix
    hazard = the_fault(run("no map")[0], "undefined-read", "map_store", "window")
    assert hazard.bytes == 256 * 4
    assert "set_fmatrix" in hazard.fix


# ---- P21: strips of a matrix ------------------------------------------------------------------------------------------
ROWS, K = 70, 40


@asc.jit(kernel_type=AIC)
def strips(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, last: asc.ConstExpr[int],
           columns: asc.ConstExpr[int], k: asc.ConstExpr[int]):  # fmt: skip
    """C[ROWS, 16] of A[ROWS, K] in strips of 16 rows, the last of `last`; `columns` fractals of each are loaded, Mmad takes `k`."""
    flags, strip = Flags(), 16 * 48
    pitch = 128 * -(-k // 8)
    a1, b1 = local(asc.TPosition.A1, asc.float32, 0, 5 * strip), local(asc.TPosition.B1, asc.float32, 20 * strip, strip)
    a2, b2 = local(asc.TPosition.A2, asc.float32, 0, 6 * strip), local(asc.TPosition.B2, asc.float32, 0, strip)
    co = local(asc.TPosition.CO1, asc.float32, 0, 80 * 16)
    for i in range(5):
        height = 16 if i < 4 else last
        asc.data_copy(a1[i * strip], gm(a, 16 * i * K), asc.Nd2NzParams(1, height, K, 0, K, 16, 1, 0))  # @strip
    asc.data_copy(b1, gm(b), asc.Nd2NzParams(1, 16, 48, 0, 48, 16, 1, 0))
    flags.order("MTE2_MTE1")
    for i in range(5):
        # What a wide strip brings too much, the next one writes over.
        asc.load_data(a2[i * pitch], a1[i * strip], asc.LoadData2DParams(0, columns, 1))
        asc.pipe_barrier(asc.PipeID.PIPE_MTE1)
    asc.load_data(b2, b1, asc.LoadData2DParams(0, 6, 1))
    flags.order("MTE1_M")
    asc.mmad(co, a2, b2, asc.MmadParams(ROWS, 16, k, cmatrix_init_val=True))
    flags.order("M_FIX")
    asc.fixpipe(gm(c), co, asc.FixpipeParamsV220(16, ROWS, 80, 16))  # @strips_store


def in_strips(card: str, last: int, columns: int, k: int, **options: Any) -> tuple[Run, bool]:
    """The run, and whether its product is right."""
    a, b, c = whole(7, ROWS, K, dtype=np.float32), np.zeros((16, 48), np.float32), zeros(ROWS * 16)
    b[:, :K] = whole(8, 16, K)
    run = asc.simulate(strips, a, b, c, last, columns, k, card=card, **options)
    return run, np.array_equal(c.reshape(ROWS, 16), a @ b[:, :K].T)


@pytest.mark.parametrize("card", ON_2201)
def test_p21_the_last_strip_is_read_past_the_end(card: str) -> None:
    with pytest.raises(OutOfBoundsError, match="DataCopy"):
        in_strips(card, 16, 5, K)
    wrong, correct = in_strips(card, 16, 5, K, slack_is_warning=True)
    hazard = the_fault(wrong, "gm-out-of-bounds", "strip", "", WARNING)
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("a", ROWS * K * 4, 1600)
    assert correct  # the rows behind the matrix are not stored
    right, correct = in_strips(card, 6, 5, K)
    asc.assert_clean(right)
    assert correct


@pytest.mark.parametrize("card", ON_2201)
def test_p21_a_column_of_fractals_that_was_never_written(card: str) -> None:
    wrong, _ = in_strips(card, 6, 6, 48)
    hazard = the_fault(wrong, "undefined-read", "strips_store", "strip")
    assert hazard.bytes == ROWS * 16 * 4  # a hole in k spoils every row
    # The sixth column may be loaded, as long as nothing depends on it.
    right, correct = in_strips(card, 6, 6, K)
    asc.assert_clean(right)
    assert correct


# ---- P40: a view of L0C that is wider than the result -------------------------------------------------------------------
@asc.jit(kernel_type=AIC)
def stored_rows(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, rows: asc.ConstExpr[int],
                room: asc.ConstExpr[int]):  # fmt: skip
    """A product of 32 x 32 in an L0C tensor with room for `room` rows, of which `rows` are stored."""
    flags = Flags()
    a1, b1 = local(asc.TPosition.A1, asc.float16, 0, 512), local(asc.TPosition.B1, asc.float16, 1024, 512)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 512), local(asc.TPosition.B2, asc.float16, 0, 512)
    co = local(asc.TPosition.CO1, asc.float32, 0, room * 32)
    asc.data_copy(a1, gm(a), asc.Nd2NzParams(1, 32, 16, 0, 16, 32, 1, 0))
    asc.data_copy(b1, gm(b), asc.Nd2NzParams(1, 32, 16, 0, 16, 32, 1, 0))
    flags.order("MTE2_MTE1")
    asc.load_data(a2, a1, asc.LoadData2DParams(0, 2, 1))
    asc.load_data(b2, b1, asc.LoadData2DParams(0, 2, 1))
    flags.order("MTE1_M")
    asc.mmad(co, a2, b2, asc.MmadParams(32, 32, 16, cmatrix_init_val=True))  # @result
    flags.order("M_FIX")
    asc.fixpipe(gm(c), co, asc.FixpipeParamsV220(32, rows, rows, 32))  # @view


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("room", [32, 64])
def test_p40_a_view_of_twice_as_many_rows(card: str, room: int) -> None:
    a, b = whole(9, 32, 16), whole(10, 32, 16)
    product = a.astype(np.float32) @ b.T.astype(np.float32)

    def run(rows: int) -> Made:
        c = zeros(64 * 32)
        return asc.simulate(stored_rows, a, b, c, rows, room, card=card), c.reshape(64, 32)

    right, c = run(32)
    asc.assert_clean(right)
    assert np.array_equal(c[:32], product)
    wrong, c = run(64)
    assert not np.array_equal(c[:32], product)
    behind = {("out-of-tensor", WARNING, "view", "")} if room == 32 else set()
    assert reported(wrong) == {("undefined-read", ERROR, "view", "result"), *behind}
    (undefined,) = wrong.hazards.of("undefined-read")
    # The view takes both columns of 16 from 64 rows each; 32 x 32 elements were computed.
    assert (undefined.verdict, undefined.tensor, undefined.bytes) == (OBSERVED, "c", 32 * 32 * 4)
