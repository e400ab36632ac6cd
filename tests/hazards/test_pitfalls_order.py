"""Pitfalls of order: what people left out (spec pitfalls.md, P26 to P31 and P36), as little kernels wrong and right.

The wrong form is found, with both lines, pipes and bytes, and nothing else is; where this run delivers wrong data, the finding
is observed. The right form is right and clean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.hazards.model import OBSERVED
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIC, AIV, ALL, SEPARATE, Flags, V, floats, local
from tests.hazards.wrong_forms import Made, is_observed, pipes, the_fault, zeros

N = 256
ON_2201 = ("atlas_a2", "atlas_a3")


# ---- P26: L1 buffers --------------------------------------------------------------------------------------------------
K = 256


@asc.jit(kernel_type=AIC)
def row_sums(x: asc.GlobalAddress, ones: asc.GlobalAddress, c: asc.GlobalAddress, tiles: asc.ConstExpr, drop: asc.ConstExpr):
    """Tiles of 16 x K times ones, by way of two buffers in L1."""
    flags = Flags(drop)
    buffers = [local(asc.TPosition.A1, asc.float16, i * 32 * K, 16 * K) for i in range(3)]
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 16 * K), local(asc.TPosition.B2, asc.float16, 0, 16 * K)
    l0c, whole = local(asc.TPosition.CO1, asc.float32, 0, 256), asc.LoadData2DParams(repeat_times=K // 16, src_stride=1)
    asc.data_copy(buffers[2], gm(ones), 16 * K)
    Flags().order("MTE2_MTE1", 2)
    asc.load_data(b2, buffers[2], whole)
    for i in range(2):
        flags.set("MTE1_MTE2", i)
    for i in range(tiles):
        flags.wait("MTE1_MTE2", i % 2)
        asc.data_copy(buffers[i % 2], gm(x, i * 16 * K), 16 * K)  # @l1_load
        flags.order("MTE2_MTE1", i % 2)
        asc.load_data(a2, buffers[i % 2], whole)  # @l1_read
        flags.set("MTE1_MTE2", i % 2)
        flags.order("MTE1_M")
        asc.mmad(l0c, a2, b2, asc.MmadParams(16, 16, K, cmatrix_init_val=True))
        flags.order("M_MTE1")
        flags.order("M_FIX")
        asc.fixpipe(gm(c, i * 256), l0c, asc.FixpipeParamsV220(16, 16, 16, 16))
        flags.order("FIX_M")
    for i in range(2):
        flags.wait("MTE1_MTE2", i)


@pytest.mark.parametrize("card", SEPARATE)
def test_p26_a_buffer_in_l1_is_loaded_again_while_it_is_read(card: str) -> None:
    tiles = 6
    x = np.repeat(np.arange(1, tiles + 1), 16 * K).astype(np.float16)
    expected = np.repeat(K * np.arange(1, tiles + 1), 256)

    def run(*drop: str) -> Made:
        c = zeros(256 * tiles)
        return asc.simulate(row_sums, x, np.ones(16 * K, np.float16), c, tiles, drop, card=card), c

    right, c = run()
    asc.assert_clean(right)
    assert np.array_equal(c, expected)
    wrong, c = run("MTE1_MTE2")
    hazard = the_fault(wrong, "race-war", "l1_load", "l1_read")
    assert pipes(hazard) == ("MTE2", "MTE1")
    assert hazard.tensor.endswith("L1")
    assert (hazard.address, hazard.bytes) == (0, 32 * K)
    # The third load is the first that comes into a buffer in use.
    assert (hazard.at.iteration, hazard.other.iteration, hazard.count) == (2, 0, tiles - 2)
    assert (hazard.verdict == OBSERVED) == (not np.array_equal(c, expected))


# ---- P27: store before the sum is there -------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def double_and_store(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr, drop: asc.ConstExpr):
    flags = Flags(drop)
    tile = ub(x.dtype, 0, n)
    asc.data_copy(tile, gm(x), n)
    flags.order("MTE2_MTE3")
    flags.order("MTE2_V")
    asc.muls(tile, tile, 2.0, n)  # @half_muls
    flags.order("V_MTE3")
    asc.data_copy(gm(y), tile, n)  # @half_store


@pytest.mark.parametrize("card", ALL)
def test_p27_a_result_is_stored_before_it_is_there(card: str) -> None:
    n = 8192

    def run(*drop: str) -> Made:
        y = zeros(n)
        return asc.simulate(double_and_store, floats(n), y, n, drop, card=card), y

    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, 2 * floats(n))
    wrong, y = run("V_MTE3")
    assert not np.array_equal(y, 2 * floats(n))
    hazard = the_fault(wrong, "race-raw", "half_store", "half_muls")
    is_observed(hazard)
    assert (pipes(hazard), hazard.address, hazard.bytes) == (("MTE3", "V"), 0, 4 * n)


# ---- P28: the next round overwrites what is being stored ---------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def rounds(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr, places: asc.ConstExpr, drop: asc.ConstExpr):
    """Tile times round, into tensors of their own at the bytes `places`, from there to GM."""
    flags = Flags(drop)
    tile, results = ub(x.dtype, 0, n), [ub(x.dtype, place // 4, n) for place in places]
    asc.data_copy(tile, gm(x), n)
    flags.order("MTE2_V")
    for i, result in enumerate(results):
        asc.muls(result, tile, float(i + 1), n)  # @back_muls
        flags.order("V_MTE3")
        asc.data_copy(gm(y, i * n), result, n)  # @back_store
        flags.order("MTE3_V")


@pytest.mark.parametrize("card", ALL)
@pytest.mark.parametrize("shift", [0, 512, 16384, 32768])
def test_p28_a_buffer_is_overwritten_while_it_is_stored(card: str, shift: int) -> None:
    """Every round has a tensor of its own: the addresses alone decide."""
    n = 8192
    places = (32768, 32768 + shift, 32768 + 2 * shift)

    def run(*drop: str) -> Made:
        y = zeros(3 * n)
        return asc.simulate(rounds, floats(n), y, n, places, drop, card=card, auto_sync=False), y.reshape(3, n)

    expected = np.outer([1, 2, 3], floats(n))
    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, expected)
    back, y = run("MTE3_V")
    if shift == 4 * n:
        asc.assert_clean(back)
        assert np.array_equal(y, expected)
        return
    assert not np.array_equal(y, expected)
    hazard = the_fault(back, "race-war", "back_muls", "back_store")
    is_observed(hazard)
    assert (pipes(hazard), hazard.at.iteration, hazard.address) == (("V", "MTE3"), 1, 32768 + shift)
    assert hazard.bytes == 4 * n - shift


# ---- P29: vector after vector -----------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def cast_and_scale(x: asc.GlobalAddress, y: asc.GlobalAddress, barrier: asc.ConstExpr):
    flags = Flags()
    narrow, wide, out = ub(asc.float16, 0, N), ub(asc.float32, N, N), ub(asc.float32, 2 * N, N)
    asc.data_copy(narrow, gm(x), N)
    flags.order("MTE2_V")
    asc.duplicate(wide, 0.0, N)
    asc.pipe_barrier(V)
    asc.cast(wide, narrow, asc.RoundMode.CAST_NONE, N)  # @vv_cast
    if barrier:
        asc.pipe_barrier(V)
    asc.mul(out, wide, wide, N)  # @vv_mul
    flags.order("V_MTE3")
    asc.data_copy(gm(y), out, N)


@pytest.mark.parametrize("card", ALL)
def test_p29_a_vector_instruction_uses_the_last_one(card: str) -> None:
    x = (np.arange(N) % 32).astype(np.float16)
    expected = np.square(x.astype(np.float32))

    def run(barrier: bool, **options: Any) -> Made:
        y = zeros(N)
        return asc.simulate(cast_and_scale, x, y, barrier, card=card, auto_sync=False, **options), y

    right, y = run(True)
    asc.assert_clean(right)
    assert np.array_equal(y, expected)
    wrong, y = run(False)
    if card not in ON_2201:  # the hardware of the others keeps the order
        asc.assert_clean(wrong)
        assert np.array_equal(y, expected)
        return
    hazard = the_fault(wrong, "race-raw", "vv_mul", "vv_cast")
    assert (pipes(hazard), hazard.address, hazard.bytes) == (("V", "V"), 4 * N, 4 * N)
    assert (hazard.verdict == OBSERVED) == (not np.array_equal(y, expected))


# ---- P30: scalar reads of UB ------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def scale_by_maximum(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    tile, work, most, out = (ub(x.dtype, i * N, N) for i in range(4))
    asc.data_copy(tile, gm(x), N)
    flags.order("MTE2_V")
    asc.duplicate(most, 1.0, 8)
    asc.pipe_barrier(V)
    Flags().order("V_S", 1)
    asc.reduce_max(most, tile, work, N)  # @s_reduce
    asc.pipe_barrier(V)
    flags.order("V_S")
    scale = most.get_value(0)  # @s_maximum
    asc.muls(out, tile, float(scale), N)
    flags.order("V_MTE3")
    asc.data_copy(gm(y), out, N)


@pytest.mark.parametrize("card", ALL)
def test_p30_a_maximum_is_read_before_it_is_there(card: str) -> None:
    def run(*drop: str) -> Made:
        y = zeros(N)
        return asc.simulate(scale_by_maximum, floats(N), y, drop, card=card, auto_sync=False), y

    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, N * floats(N))
    wrong, y = run("V_S")
    assert np.array_equal(y, floats(N))
    hazard = the_fault(wrong, "race-raw", "s_maximum", "s_reduce")
    is_observed(hazard)
    assert (pipes(hazard), hazard.address, hazard.bytes) == (("S", "V"), 8 * N, 4)


@asc.jit(kernel_type=AIV)
def pick_row(index: asc.GlobalAddress, x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    which, tile = ub(asc.int32, 0, 8), ub(x.dtype, N, N)
    asc.duplicate(which, 0, 8)
    Flags().order("V_MTE2")
    Flags().order("V_S")
    asc.data_copy(which, gm(index), 8)  # @s_load
    flags.order("MTE2_S")
    row = int(which.get_value(0))  # @s_index
    asc.data_copy(tile, gm(x, row * N), N)
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), tile, N)


@pytest.mark.parametrize("card", ALL)
def test_p30_an_index_is_read_before_it_is_loaded(card: str) -> None:
    def run(*drop: str) -> Made:
        y = zeros(N)
        return asc.simulate(pick_row, np.full(8, 3, np.int32), floats(4 * N), y, drop, card=card, auto_sync=False), y

    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, floats(4 * N)[3 * N :])
    wrong, y = run("MTE2_S")
    assert np.array_equal(y, floats(N))
    hazard = the_fault(wrong, "race-raw", "s_index", "s_load")
    is_observed(hazard)
    assert (pipes(hazard), hazard.address, hazard.bytes) == (("S", "MTE2"), 0, 4)


# ---- P31: tables of Fixpipe -------------------------------------------------------------------------------------------
SIDE = 64


@asc.jit(kernel_type=AIC)
def quantised(ones: asc.GlobalAddress, tables: asc.GlobalAddress, y: asc.GlobalAddress, tiles: asc.ConstExpr,
              drop: asc.ConstExpr):  # fmt: skip
    """Tiles of 16s, each column times its factor: a table for each tile, all at one place in L1."""
    flags = Flags(drop)
    a1, table = local(asc.TPosition.A1, asc.float16, 0, SIDE * 16), local(asc.TPosition.C1, asc.uint64, 32 * SIDE, SIDE)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, SIDE * 16), local(asc.TPosition.B2, asc.float16, 0, SIDE * 16)
    l0c, whole = local(asc.TPosition.CO1, asc.float32, 0, SIDE * SIDE), asc.LoadData2DParams(repeat_times=SIDE // 16, src_stride=1)
    asc.data_copy(a1, gm(ones), SIDE * 16)
    asc.data_copy(table, gm(tables), SIDE)
    Flags().order("MTE2_FIX", 1)
    flags.order("MTE2_MTE1")
    asc.load_data(a2, a1, whole)
    asc.load_data(b2, a1, whole)
    flags.order("MTE1_M")
    asc.mmad(l0c, a2, b2, asc.MmadParams(SIDE, SIDE, 16, cmatrix_init_val=True))
    flags.order("M_FIX")
    for i in range(tiles):
        flags.order("FIX_MTE2")
        asc.data_copy(table, gm(tables, i * SIDE), SIDE)  # @q_load
        flags.order("MTE2_FIX")
        params = asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE, asc.QuantModes.VQF322B8_PRE)
        asc.fixpipe(gm(y, i * SIDE * SIDE), l0c, table, params)  # @q_fix


@pytest.mark.parametrize("card", SEPARATE)
def test_p31_a_table_is_loaded_while_fixpipe_reads_it(card: str) -> None:
    tiles = 4
    factors = np.repeat(np.arange(1, tiles + 1), SIDE)
    tables = factors.astype(np.float32).view(np.uint32).astype(np.uint64) | np.uint64(1 << 46)  # signed results
    expected = 16 * np.repeat(np.arange(1, tiles + 1), SIDE * SIDE)

    def run(*drop: str) -> Made:
        y = np.zeros(tiles * SIDE * SIDE, np.int8)
        return asc.simulate(quantised, np.ones(SIDE * 16, np.float16), tables, y, tiles, drop, card=card), y

    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, expected)
    for dropped, kind, at, other in (("MTE2_FIX", "race-raw", "q_fix", "q_load"), ("FIX_MTE2", "race-war", "q_load", "q_fix")):
        wrong, y = run(dropped)
        assert not np.array_equal(y, expected)
        hazard = the_fault(wrong, kind, at, other)
        assert sorted(pipes(hazard)) == ["FIX", "MTE2"]
        assert (hazard.address, hazard.bytes) == (32 * SIDE, 8 * SIDE)
        is_observed(hazard)


# ---- P36: Duplicate and NDDMA -----------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def fill_and_load(x: asc.GlobalAddress, y: asc.GlobalAddress, covered: asc.ConstExpr, drop: asc.ConstExpr):
    """Zeros into a tile by Duplicate, behind other work of the vector unit, and `covered` elements by NDDMA."""
    flags = Flags(drop)
    tile, other = ub(x.dtype, 0, N), ub(x.dtype, N, 32 * N)
    asc.duplicate(other, 1.0, 32 * N)
    for _ in range(8):
        asc.muls(other, other, 2.0, 32 * N)
    asc.duplicate(tile, 0.0, N)  # @nd_fill
    flags.order("V_MTE2")
    asc.data_copy(tile, gm(x), asc.NdDmaParams(asc.NdDmaLoopInfo([1], [1], [covered], [0], [0]), 0))  # @nd_load
    flags.order("MTE2_MTE3")
    flags.order("V_MTE3")
    asc.data_copy(gm(y), tile, N)


@pytest.mark.parametrize("covered", [N, N // 2])
def test_p36_a_late_duplicate_wipes_what_was_loaded(covered: int) -> None:
    def run(*drop: str) -> Made:
        y = np.full(N, 7, np.float32)
        return asc.simulate(fill_and_load, floats(N), y, covered, drop, card="atlas_350"), y

    expected = floats(N)
    expected[covered:] = 0
    right, y = run()
    asc.assert_clean(right)
    assert np.array_equal(y, expected)
    wrong, y = run("V_MTE2")
    assert (y == 0).all()
    hazard = the_fault(wrong, "race-waw", "nd_load", "nd_fill")
    is_observed(hazard)
    assert (pipes(hazard), hazard.address, hazard.bytes) == (("MTE2", "V"), 0, 4 * covered)
