"""When bytes move: what a missing flag or barrier does to the data, and what the hardware orders by itself.

Cards as in `engine_helpers.ROUND`: entry k is issued at cycle 10 * k; a load of 4 KB holds MTE2 for 128 cycles and its bytes land
in the 128 cycles that end 100 later; 4 KB of vector work take 16 cycles, its results land 20 later.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.layouts import to_layout
from tests.engine.engine_helpers import gm, order, rows, simulate, ub, work

N = 1024


def numbers(n: int = N) -> NDArray[np.float32]:
    return np.arange(1, n + 1, dtype=np.float32)


# ---- between pipes --------------------------------------------------------------------------------------------------
@asc.jit
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, flag: asc.ConstExpr, delay: asc.ConstExpr):
    """UB is 0 first; then x is loaded and doubled, `delay` more vector instructions before the doubling."""
    tile, out, other = ub(x.dtype, 0, N), ub(x.dtype, N, N), ub(x.dtype, 2 * N, 8 * N)
    asc.duplicate(tile, 0.0, N)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(tile, gm(x), N)
    for _ in range(delay):
        asc.duplicate(other, 0.0, 8 * N)  # 128 cycles each
    if flag:
        order(asc.HardEvent.MTE2_V)
    asc.muls(out, tile, 2.0, N)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), out, N)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_the_right_flag_gives_the_right_data(card: str) -> None:
    x, y = numbers(), np.zeros(N, np.float32)
    simulate(double, x, y, True, 0, card=card)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_without_the_flag_v_reads_what_was_there_before(card: str) -> None:
    # V starts right away; nothing of the load has landed.
    x, y = numbers(), np.zeros(N, np.float32)
    simulate(double, x, y, False, 0, card=card)
    assert not y.any()


def test_without_the_flag_data_tear_where_the_load_has_come_half_way() -> None:
    # The load starts at 57 behind the barrier (10 + 16 + 20 + 1 + 10) and lands between 157 and 285. V is held up until
    # 67 + 128 and then reads within 16 cycles: the first part of the tile is there.
    x, y = numbers(), np.zeros(N, np.float32)
    run = simulate(double, x, y, False, 1)
    assert work(run, Pipe.MTE2)[0].times == (57, 185, 285)
    assert (work(run, Pipe.V)[-1].start, work(run, Pipe.V)[-1].free) == (195, 211)
    new = int(np.count_nonzero(y))
    assert np.array_equal(y[:new], 2 * x[:new])
    assert not y[new:].any()
    # At 195 38/128 have landed, at 211 54/128, both in sixteenths of 64 elements.
    assert 4 * 64 <= new <= 6 * 64


def test_without_the_flag_late_enough_work_is_right_by_luck() -> None:
    # V gets there at 67 + 256 = 323, behind the end of the load.
    x, y = numbers(), np.zeros(N, np.float32)
    run = simulate(double, x, y, False, 2)
    assert work(run, Pipe.V)[-1].start > work(run, Pipe.MTE2)[0].end
    assert np.array_equal(y, 2 * x)


def test_work_that_starts_at_the_end_is_safe_and_work_that_is_through_by_then_is_not() -> None:
    # 8 elements, read within the 4 cycles that hold the pipe. The load of 32 B starts at 55, lands from 155 on and is
    # complete at 156; V is kept busy from 45 on.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def race(x: asc.GlobalAddress, y: asc.GlobalAddress, busy: asc.ConstExpr):
        tile, out = ub(x.dtype, 0, 8), ub(x.dtype, 8, 8)
        asc.duplicate(tile, 0.0, 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.duplicate(ub(x.dtype, 16, 64 * busy), 0.0, 64 * busy)
        asc.data_copy(tile, gm(x), 8)
        asc.muls(out, tile, 2.0, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y), out, 8)

    results = {}
    for busy in (106, 111, 112):
        x, y = numbers(8), np.zeros(8, np.float32)
        run = simulate(race, x, y, busy)
        (_, _, last), load = work(run, Pipe.V), work(run, Pipe.MTE2)[0]
        results[last.start - load.end] = y.tolist()
        assert load.end == 156
    assert results[-5.0] == [0.0] * 8
    assert results[0.0] == (2 * numbers(8)).tolist()
    assert results[1.0] == (2 * numbers(8)).tolist()


@asc.jit
def store_and_overwrite(x: asc.GlobalAddress, y: asc.GlobalAddress, flag: asc.ConstExpr):
    """x goes out to y; then V writes 7 over it, with or without waiting for the store."""
    tile = ub(x.dtype, 0, N)
    asc.data_copy(tile, gm(x), N)
    order(asc.HardEvent.MTE2_V)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), tile, N)
    if flag:
        order(asc.HardEvent.MTE3_V)
    asc.duplicate(tile, 7.0, N)


@pytest.mark.parametrize("flag", [True, False])
def test_writing_over_a_tile_that_is_still_being_stored(flag: bool) -> None:
    x, y = numbers() + 100, np.zeros(N, np.float32)
    simulate(store_and_overwrite, x, y, flag)
    if flag:
        assert np.array_equal(y, x)
        return
    # MTE3 reads during 128 cycles, V overwrites everything within 36: the first part went out in time, the rest did not.
    kept = int(np.count_nonzero(y != 7))
    assert 0 < kept < N
    assert np.array_equal(y[:kept], x[:kept])
    assert np.all(y[kept:] == 7)


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def two_stores(y: asc.GlobalAddress, barrier: asc.ConstExpr):
    """1 into y by a store that misses, then 2 by one that does not; both on MTE3."""
    asc.duplicate(ub(y.dtype, 0, N), 1.0, N)
    asc.duplicate(ub(y.dtype, N, N), 2.0, N)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), ub(y.dtype, 0, N), N)
    if barrier:
        asc.pipe_barrier(asc.PipeID.PIPE_MTE3)
    asc.data_copy(gm(y), ub(y.dtype, N, N), N)


def test_overlapping_stores_of_one_pipe_may_land_in_any_order() -> None:
    # The first store misses L2 and is 500 cycles late: it lands over the second one, unless a barrier keeps them apart.
    late: dict[str, object] = {"gm.UB-GM.miss_latency": 500}
    y = np.zeros(N, np.float32)
    simulate(two_stores, y, False, overrides=late)
    assert np.all(y == 1)
    simulate(two_stores, y, True, overrides=late)
    assert np.all(y == 2)
    # Equal latencies: the second lands right behind the first everywhere.
    simulate(two_stores, y, False)
    assert np.all(y == 2)


def test_disjoint_accesses_do_not_disturb_each_other() -> None:
    @asc.jit
    def halves(x: asc.GlobalAddress, y: asc.GlobalAddress):
        a, b = ub(x.dtype, 0, N // 2), ub(x.dtype, N // 2, N // 2)
        asc.data_copy(a, gm(x), N // 2)
        order(asc.HardEvent.MTE2_V)
        asc.data_copy(b, gm(x, N // 2), N // 2)  # loads on while V works on the first half
        asc.muls(a, a, 2.0, N // 2)
        order(asc.HardEvent.MTE2_V)
        asc.muls(b, b, 2.0, N // 2)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 0, N), N)

    x, y = numbers(), np.zeros(N, np.float32)
    simulate(halves, x, y)
    assert np.array_equal(y, 2 * x)


# ---- V after V ------------------------------------------------------------------------------------------------------
@asc.jit
def chain(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr, count: asc.ConstExpr, barrier: asc.ConstExpr):
    """y = x + count, one vector instruction for each 1."""
    tile = ub(x.dtype, 0, n)
    asc.data_copy(tile, gm(x), n)
    order(asc.HardEvent.MTE2_V)
    for _ in range(count):
        asc.adds(tile, tile, 1.0, n)
        if barrier:
            asc.pipe_barrier(asc.PipeID.PIPE_V)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), tile, n)


def chain_result(card: str, n: int, count: int, barrier: bool = False, auto_sync: bool = False) -> NDArray[np.float32]:
    x, y = np.zeros(n, np.float32), np.zeros(n, np.float32)
    simulate(chain, x, y, n, count, barrier, card=card, auto_sync=auto_sync, overrides={"scalar.issue": 1})
    return y


@pytest.mark.parametrize("n", [8, 64, N])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_dependent_vector_work_on_a2_needs_a_barrier(n: int, count: int) -> None:
    assert np.all(chain_result("atlas_a2", n, count, barrier=True) == count)
    assert np.all(chain_result("atlas_a2", n, count, auto_sync=True) == count)
    # 16 cycles of work at most, 20 until its result is there: the next instruction still reads what was there before.
    lost = chain_result("atlas_a2", n, count)
    assert np.all(lost < count)


def test_on_a2_a_long_instruction_has_written_what_the_next_one_reads_at_the_same_pace() -> None:
    # 64 cycles of work: the next instruction reads element i 64 cycles after this one did, and it was written after 20.
    assert np.all(chain_result("atlas_a2", 4 * N, 3) == 3)


@pytest.mark.parametrize("n", [8, 64, N])
@pytest.mark.parametrize("auto_sync", [True, False])
def test_350_orders_vector_work_by_itself(n: int, auto_sync: bool) -> None:
    assert np.all(chain_result("atlas_350", n, 5, auto_sync=auto_sync) == 5)


# ---- M after M ------------------------------------------------------------------------------------------------------
K = 32


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def accumulate(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, side: asc.ConstExpr, count: asc.ConstExpr,
               barrier: asc.ConstExpr, apart: asc.ConstExpr):  # fmt: skip
    """c = count * (a x b), added up in L0C; a and b hold fractals. `apart`: the first Mmad may finish in peace."""
    n = side * K
    l1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, 2 * n)
    l0a, l0b = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, n), asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, n)
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, side * side)
    load = asc.LoadData2DParams(repeat_times=n // 256, src_stride=1)
    asc.data_copy(l1, gm(a), n)
    asc.data_copy(l1[n], gm(b), n)
    order(asc.HardEvent.MTE2_MTE1)
    asc.load_data(l0a, l1, load)
    asc.load_data(l0b, l1[n], load)
    order(asc.HardEvent.MTE1_M)
    for i in range(count):
        asc.mmad(l0c, l0a, l0b, asc.MmadParams(side, side, K, cmatrix_init_val=i == 0))
        if barrier or (apart and i == 0):
            asc.pipe_barrier(asc.PipeID.PIPE_M)
    order(asc.HardEvent.M_FIX)
    asc.fixpipe(gm(c), l0c, asc.FixpipeParamsV220(side, side, side, side))


def product(
    card: str, side: int, count: int, barrier: bool, apart: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(what the card computes, what it should)."""
    rng = np.random.default_rng(side)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((side, K), (K, side)))
    order_a = str(asc.load_card(card).model.layout["L0A"])
    c = np.zeros((side, side), np.float32)
    raw = [to_layout(m, o, asc.float16).view(np.float16) for m, o in ((a, order_a), (b, "ZN"))]
    simulate(accumulate, *raw, c, side, count, barrier, apart, card=card, overrides={"scalar.issue": 1})
    return c, count * (a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
@pytest.mark.parametrize("count", [2, 4])
def test_small_tiles_need_a_barrier_between_accumulating_mmads(card: str, count: int) -> None:
    found, right = product(card, 16, count, barrier=True)
    assert np.array_equal(found, right)
    found, right = product(card, 16, count, barrier=False)
    assert not np.array_equal(found, right)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_a_lost_sum_behind_a_finished_first_mmad(card: str) -> None:
    # The first Mmad is complete. The second and the third both start from its result, and one of them is lost.
    found, right = product(card, 16, 3, barrier=False, apart=True)
    assert np.array_equal(found, right * 2 / 3)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_from_ten_fractals_on_the_hardware_keeps_the_order(card: str) -> None:
    # 64 x 64: 16 fractals of 16 x 16.
    found, right = product(card, 64, 4, barrier=False)
    assert np.array_equal(found, right)


# ---- with the scalar unit -------------------------------------------------------------------------------------------
def test_the_data_cache_is_written_back_behind_the_last_store() -> None:
    # The scalar unit dirties one word of a line that MTE3 stores as well. At the end of the kernel the line goes back to
    # GM with all of its 64 bytes, over what MTE3 has stored in the meantime.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def clobber(y: asc.GlobalAddress):
        out = gm(y)
        out.set_value(3, 99.0)
        asc.duplicate(ub(y.dtype, 0, 32), 5.0, 32)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(out, ub(y.dtype, 0, 32), 32)

    y = np.zeros(32, np.float32)
    simulate(clobber, y, auto_sync=False)
    assert y.tolist() == [0.0] * 3 + [99.0] + [0.0] * 12 + [5.0] * 16


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def scalar_after_vector(y: asc.GlobalAddress):
    tile = ub(y.dtype, 0, 8)
    asc.duplicate(ub(y.dtype, 8, N), 0.0, N)
    asc.duplicate(tile, 5.0, 8)
    tile.set_value(2, 7.0)
    order(asc.HardEvent.S_MTE3)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), tile, 8)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_a_scalar_store_behind_vector_work_on_the_same_word(card: str) -> None:
    y = np.zeros(8, np.float32)
    simulate(scalar_after_vector, y, card=card)
    assert y.tolist() == [5, 5, 7, 5, 5, 5, 5, 5]
    # Without the compiler's V_S flag the scalar unit is first, and V writes over it.
    simulate(scalar_after_vector, y, card=card, auto_sync=False)
    assert y.tolist() == [5.0] * 8


@pytest.mark.parametrize(
    ("access", "flags"), [("local load", 1), ("local store", 1), ("load", 1), ("store", 0), ("bypass", 0)]
)
def test_which_scalar_accesses_the_compiler_orders(access: str, flags: int) -> None:
    # The list of the compiler's automatic synchronisation names loads and stores of LocalTensor and loads of GlobalTensor.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def kernel(y: asc.GlobalAddress):
        tile, out = ub(y.dtype, 0, 8), gm(y)
        asc.duplicate(tile, 5, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(out, tile, 8)
        if access == "local load":
            tile.get_value(0)
        elif access == "local store":
            ub(y.dtype, 0, 8).set_value(0, 1)
        elif access == "load":
            out.get_value(0)
        elif access == "store":
            out.set_value(0, 1)
        else:
            asc.write_gm_by_pass_dcache(y, 1)

    run = simulate(kernel, np.zeros(8, np.int32))
    waits = [row for row in rows(run, Pipe.S) if row.kind is Kind.WAIT_FLAG]
    assert min(len(waits), 1) == flags


# ---- between cores --------------------------------------------------------------------------------------------------
def test_two_cores_that_store_different_bytes_of_one_line_both_get_through() -> None:
    # MTE3 writes bytes, not lines: no update is lost.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def neighbours(y: asc.GlobalAddress):
        mine = asc.get_block_idx()
        asc.duplicate(ub(y.dtype, 0, 8), mine + 1.0, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y, mine * 8), ub(y.dtype, 0, 8), 8)

    y = np.zeros(32, np.float32)
    simulate(neighbours, y, blocks=4)
    assert y.tolist() == [float(i // 8 + 1) for i in range(32)]
