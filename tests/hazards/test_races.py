"""Races inside a core by what touches the bytes: vector chains, Mmad, unit flags, scalars, queues, locks, atomics, strides.

Right forms are clean (no error, no warning), wrong ones have the kind and both lines (spec coherence.md 4, 7; api_semantics.md 11,
17 to 20; pitfalls P28 to P36).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import (
    AIC,
    AIV,
    ALL,
    MTE2,
    MTE3,
    SEPARATE,
    Flags,
    M,
    V,
    floats,
    found,
    is_clean,
    local,
    the_race,
)  # fmt: skip

N = 256
ADD_ON_2201 = ("atlas_a2", "atlas_a3")


# ---- vector after vector --------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def vector_chain(x: asc.GlobalAddress, y: asc.GlobalAddress, between: asc.ConstExpr):
    flags = Flags()
    first, second, third = (ub(x.dtype, i * N, N) for i in range(3))
    asc.data_copy(first, gm(x), N)
    flags.order("MTE2_V")
    asc.muls(second, first, 2.0, N)  # @chain_muls
    if between == "barrier":
        asc.pipe_barrier(V)
    elif between == "V_V":
        asc.set_flag(asc.HardEvent.V_V, 0)
        asc.wait_flag(asc.HardEvent.V_V, 0)
    elif between == "wait V_V":
        asc.wait_flag(asc.HardEvent.V_V, 0)
    asc.adds(third, second, 1.0, N)  # @chain_adds
    flags.order("V_MTE3")
    asc.data_copy(gm(y), third, N)


def chain(card: str, between: str, auto_sync: bool) -> Run:
    return asc.simulate(vector_chain, floats(N), np.zeros(N, np.float32), between, card=card, auto_sync=auto_sync)


@pytest.mark.parametrize("card", ALL)
def test_dependent_vector_instructions(card: str) -> None:
    assert is_clean(chain(card, "nothing", True))
    assert is_clean(chain(card, "barrier", False))
    without = chain(card, "nothing", False)
    if card not in ADD_ON_2201:  # the hardware of the others keeps the order
        assert is_clean(without)
        return
    assert found(without) == {("race-raw", "chain_adds", "chain_muls")}
    race = the_race(without)
    assert (race.at.pipe, race.other.pipe, race.address, race.bytes) == ("V", "V", N * 4, N * 4)


@pytest.mark.parametrize("card", ADD_ON_2201)
def test_the_flag_v_v_is_a_barrier_and_its_wait_nothing(card: str) -> None:
    assert is_clean(chain(card, "V_V", False))
    assert found(chain(card, "wait V_V", False)) == {("race-raw", "chain_adds", "chain_muls")}


@pytest.mark.parametrize("card", ADD_ON_2201)
def test_vector_instructions_on_other_bytes_need_nothing(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, shift: asc.ConstExpr):
        flags = Flags()
        asc.duplicate(ub(x.dtype, 0, N), 1.0, N)  # @apart_one
        asc.duplicate(ub(x.dtype, shift, N), 2.0, N)  # @apart_two
        flags.order("V_MTE3")
        asc.data_copy(gm(y), ub(x.dtype, 0, 2 * N), N + shift)

    def run(shift: int) -> Run:
        return asc.simulate(kernel, floats(8), np.zeros(2 * N, np.float32), shift, card=card, auto_sync=False)

    assert is_clean(run(N))
    wrong = run(N - 8)
    assert found(wrong) == {("race-waw", "apart_two", "apart_one")}
    assert the_race(wrong).bytes == 32


# ---- Mmad after Mmad ------------------------------------------------------------------------------------------------
def fill_l0(flags: Flags, m: int, n: int) -> None:
    """Ones into L0A and L0B by way of L1."""
    a1 = local(asc.TPosition.A1, asc.float16, 0, 16 * 256)
    if asc.npu_arch() == 3002:
        asc.load_data(local(asc.TPosition.A2, asc.float16, 0, m * 16), a1, asc.LoadData2DParams(0, m // 16, 1))
        asc.load_data(local(asc.TPosition.B2, asc.float16, 0, n * 16), a1, asc.LoadData2DParams(0, n // 16, 1))
        return
    asc.init_const_value(a1, asc.InitConstValueParams(1, 256, 0, 1.0))
    flags.order("MTE2_MTE1")
    asc.load_data(local(asc.TPosition.A2, asc.float16, 0, m * 16), a1, asc.LoadData2DParams(repeat_times=m // 16, src_stride=1))
    asc.load_data(local(asc.TPosition.B2, asc.float16, 0, n * 16), a1, asc.LoadData2DParams(repeat_times=n // 16, src_stride=1))


@asc.jit(kernel_type=AIC)
def two_mmads(c: asc.GlobalAddress, m: asc.ConstExpr, n: asc.ConstExpr, between: asc.ConstExpr):
    flags = Flags()
    fill_l0(flags, m, n)
    flags.order("MTE1_M")
    at = m * n * 4 if between == "elsewhere" else 0
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, m * 16), local(asc.TPosition.B2, asc.float16, 0, n * 16)
    fresh = asc.MmadParams(m, n, 16, unit_flag=0, cmatrix_init_val=True)
    second = fresh if at else asc.MmadParams(m, n, 16, unit_flag=0, cmatrix_init_val=False)
    asc.mmad(local(asc.TPosition.CO1, asc.float32, 0, m * n), a2, b2, fresh)  # @mmad_one
    if between == "barrier":
        asc.pipe_barrier(M)
    elif between == "trip":
        flags.order("M_FIX", 1)
        flags.order("FIX_M", 1)
    asc.mmad(local(asc.TPosition.CO1, asc.float32, at, m * n), a2, b2, second)  # @mmad_two
    flags.order("M_FIX")
    asc.fixpipe(gm(c), local(asc.TPosition.CO1, asc.float32, 0, m * n), asc.FixpipeParamsV220(n, m, m, n))


@pytest.mark.parametrize(("m", "n", "ordered"), [
    (16, 16, False), (48, 48, False), (32, 64, False), (16, 144, False), (32, 80, True), (80, 32, True), (160, 16, True),
])  # fmt: skip
@pytest.mark.parametrize("card", SEPARATE)
def test_accumulation_from_ten_fractals_on_is_ordered_by_hardware(card: str, m: int, n: int, ordered: bool) -> None:
    def run(between: str) -> Run:
        return asc.simulate(two_mmads, np.zeros(m * n, np.float32), m, n, between, card=card)

    without = run("nothing")
    if ordered:
        assert is_clean(without)
    else:
        # Mmad reads what it adds to, so that this is a read of what the first has not written.
        assert found(without) == {("race-raw", "mmad_two", "mmad_one")}
        race = the_race(without)
        assert (race.at.pipe, race.other.pipe, race.bytes) == ("M", "M", m * n * 4)
    for between in ("barrier", "trip", "elsewhere"):
        assert is_clean(run(between))


# ---- unit flags -----------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIC)
def unit_flags(c: asc.GlobalAddress, steps: asc.ConstExpr, side: asc.ConstExpr):
    """("mmad", unit flag, onto) and ("fix", unit flag), tile after tile at one place of L0C."""
    flags = Flags()
    fill_l0(flags, side, side)
    flags.order("MTE1_M")
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, side * 16), local(asc.TPosition.B2, asc.float16, 0, side * 16)
    l0c = local(asc.TPosition.CO1, asc.float32, 0, side * side)
    tile = 0
    for what, value in steps:
        if what == "mmad":
            asc.mmad(l0c, a2, b2, asc.MmadParams(side, side, 16, unit_flag=value, cmatrix_init_val=True))  # @unit_mmad
        elif what == "onto":
            asc.mmad(l0c, a2, b2, asc.MmadParams(side, side, 16, unit_flag=value, cmatrix_init_val=False))  # @unit_onto
        elif what == "fix":
            asc.fixpipe(gm(c, tile * side * side), l0c, asc.FixpipeParamsV220(side, side, side, side, unit_flag=value))  # @unit_fix
            tile += 1
        elif what == "barrier":
            asc.pipe_barrier(M)
        else:
            flags.order(what)


def units(card: str, *steps: Any, side: int = 64) -> Run:
    tiles = sum(what == "fix" for what, _ in steps)
    return asc.simulate(unit_flags, np.zeros(tiles * side * side, np.float32), steps, side, card=card)


@pytest.mark.parametrize("card", SEPARATE)
def test_unit_flags_order_mmad_and_fixpipe_block_by_block(card: str) -> None:
    assert is_clean(units(card, ("mmad", 3), ("fix", 3)))
    # The next tile in the same place, and the one after: no M_FIX, no FIX_M.
    assert is_clean(units(card, ("mmad", 3), ("fix", 3), ("mmad", 3), ("fix", 3), ("mmad", 3), ("fix", 3)))
    assert is_clean(units(card, ("mmad", 2), ("onto", 2), ("onto", 3), ("fix", 3), ("mmad", 2), ("onto", 3), ("fix", 3)))
    # Several Fixpipes of one tile.
    assert is_clean(units(card, ("mmad", 3), ("fix", 2), ("fix", 3), ("mmad", 3), ("fix", 3)))


@pytest.mark.parametrize("card", SEPARATE)
def test_without_unit_flags_the_same_steps_race(card: str) -> None:
    wrong = units(card, ("mmad", 0), ("fix", 0), ("mmad", 0), ("fix", 0))
    assert found(wrong) == {("race-raw", "unit_fix", "unit_mmad"), ("race-war", "unit_mmad", "unit_fix")}
    # Forward flags only: the next tile overwrites the last one while it is stored.
    forward = units(card, ("mmad", 0), ("M_FIX", 0), ("fix", 0), ("mmad", 0), ("M_FIX", 0), ("fix", 0))
    assert found(forward) == {("race-war", "unit_mmad", "unit_fix")}
    assert is_clean(units(card, ("mmad", 0), ("M_FIX", 0), ("fix", 0), ("FIX_M", 0), ("mmad", 0), ("M_FIX", 0), ("fix", 0)))


@pytest.mark.parametrize("card", SEPARATE)
def test_a_unit_flag_on_one_side_orders_nothing(card: str) -> None:
    assert ("race-raw", "unit_fix", "unit_mmad") in found(units(card, ("mmad", 3), ("fix", 0)))
    assert ("race-raw", "unit_fix", "unit_mmad") in found(units(card, ("mmad", 2), ("fix", 0)))
    assert not found(units(card, ("mmad", 3), ("M_FIX", 0), ("fix", 0)))


@pytest.mark.parametrize("card", SEPARATE)
def test_unit_flags_do_not_order_mmad_with_mmad(card: str) -> None:
    """A tile of nine fractals: the K loop needs PipeBarrier<M> with unit flags as well (spec 17.1, 18)."""
    wrong = units(card, ("mmad", 2), ("onto", 2), ("onto", 3), ("fix", 3), side=48)
    assert {("race-raw", "unit_onto", "unit_mmad"), ("race-raw", "unit_onto", "unit_onto")} & found(wrong)
    assert {race.kind for race in wrong.hazards if race.severity == "error"} == {"race-raw"}
    right = units(card, ("mmad", 2), ("barrier", 0), ("onto", 2), ("barrier", 0), ("onto", 3), ("fix", 3), side=48)
    assert is_clean(right)


# ---- scalars --------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def scalar_reads(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    loaded, summed = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(loaded, gm(x), N)  # @s_load
    flags.order("MTE2_S")
    first = loaded.get_value(3)  # @s_read_loaded
    flags.order("MTE2_V")
    asc.muls(summed, loaded, 2.0, N)  # @s_muls
    flags.order("V_S")
    second = summed.get_value(5)  # @s_read_sum
    flags.order("S_V")
    asc.duplicate(summed, float(first) + float(second), N)  # @s_duplicate
    flags.order("V_MTE3")
    asc.data_copy(gm(y), summed, N)


@pytest.mark.parametrize("card", ALL)
def test_scalar_reads_of_ub(card: str) -> None:
    def run(auto_sync: bool, *drop: str) -> Run:
        return asc.simulate(scalar_reads, floats(N), np.zeros(N, np.float32), drop, card=card, auto_sync=auto_sync)

    every = ("MTE2_S", "V_S", "S_V")
    assert is_clean(run(True, *every))
    # A V after V on 2201 needs a barrier of its own without the compiler; V_S and S_V make a round trip here.
    assert is_clean(run(False))
    assert found(run(False, "MTE2_S")) == {("race-raw", "s_read_loaded", "s_load")}
    assert found(run(False, "V_S")) == {("race-raw", "s_read_sum", "s_muls")}
    assert found(run(False, "S_V")) == {("race-war", "s_duplicate", "s_read_sum")}
    race = next(h for h in run(False, "MTE2_S").hazards if h.kind == "race-raw")
    assert (race.at.pipe, race.other.pipe, race.address, race.bytes) == ("S", "MTE2", 12, 4)


@asc.jit(kernel_type=AIV)
def scalar_stores(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    tile, product = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(tile, gm(x), N)  # @w_load
    flags.order("MTE2_S")
    tile.set_value(2, 5.0)  # @w_before_muls
    flags.order("S_V")
    flags.order("MTE2_V")
    asc.muls(product, tile, 2.0, N)  # @w_muls
    flags.order("V_S")
    product.set_value(7, 9.0)  # @w_before_store
    flags.order("S_MTE3")
    flags.order("V_MTE3")
    asc.data_copy(gm(y), product, N)  # @w_store
    flags.order("MTE3_S")
    product.set_value(8, 1.0)  # @w_behind_store


STORES = {
    "S_V": ("race-raw", "w_muls", "w_before_muls"), "S_MTE3": ("race-raw", "w_store", "w_before_store"),
    "MTE3_S": ("race-war", "w_behind_store", "w_store"),
    # Two writes in either order, and somebody reads what they leave.
    "MTE2_S": ("race-waw", "w_before_muls", "w_load"), "V_S": ("race-waw", "w_before_store", "w_muls"),
}  # fmt: skip


@pytest.mark.parametrize("card", ALL)
def test_scalar_stores_to_ub(card: str) -> None:
    def run(auto_sync: bool, *drop: str) -> Run:
        y = np.zeros(N, np.float32)
        made = asc.simulate(scalar_stores, floats(N), y, drop, card=card, auto_sync=auto_sync)
        if auto_sync:
            assert (y[2], y[7], y[8]) == (10, 9, 18)
        return made

    assert is_clean(run(True, "MTE2_S", "S_V", "V_S", "S_MTE3", "MTE3_S", "MTE2_V", "V_MTE3"))
    assert is_clean(run(False))
    for pair, race in STORES.items():
        assert found(run(False, pair)) == {race}


@pytest.mark.parametrize("auto_sync", [True, False])
def test_the_compiler_inserts_nothing_between_vector_and_copies(auto_sync: bool) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        tile = ub(x.dtype, 0, N)
        asc.duplicate(tile, 1.0, N)  # @auto_duplicate
        asc.data_copy(gm(y), tile, N)  # @auto_store

    for card in ALL:
        run = asc.simulate(kernel, floats(8), np.zeros(N, np.float32), card=card, auto_sync=auto_sync)
        assert found(run) == {("race-raw", "auto_store", "auto_duplicate")}


# ---- fills, NDDMA, tables -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("covered", "read"), [(N, N), (N // 2, N)])
def test_duplicate_and_a_load_into_one_buffer(covered: int, read: int) -> None:
    """P36: a late Duplicate wipes what was loaded."""
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        tile = ub(x.dtype, 0, N)
        asc.duplicate(tile, 0.0, N)  # @fill
        flags.order("V_MTE2")
        params = asc.NdDmaParams(asc.NdDmaLoopInfo([1], [1], [covered], [0], [0]), 0)
        asc.data_copy(tile, gm(x), params)  # @nddma
        flags.order("MTE2_MTE3")
        flags.order("V_MTE3")
        asc.data_copy(gm(y), tile, read)

    def run(*drop: str) -> Run:
        return asc.simulate(kernel, floats(N), np.zeros(N, np.float32), drop, card="atlas_350")

    assert is_clean(run())
    wrong = run("V_MTE2")
    assert found(wrong) == {("race-waw", "nddma", "fill")}
    assert the_race(wrong).bytes == covered * 4


@pytest.mark.parametrize("card", SEPARATE)
def test_a_table_for_fixpipe_is_loaded_and_used(card: str) -> None:
    """P31: GM to L1 by MTE2, L1 to FB by FIX."""
    @asc.jit(kernel_type=AIC)
    def kernel(table: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        l1, fb = local(asc.TPosition.C1, asc.uint64, 0, 64), local(asc.TPosition.C2PIPE2GM, asc.uint64, 0, 64)
        for i in range(2):
            asc.data_copy(l1, gm(table, i * 64), 64)  # @table_load
            flags.order("MTE2_FIX")
            asc.data_copy(fb, l1, 64)  # @table_to_fb
            flags.order("FIX_MTE2")

    table = np.ones(128, np.uint64)
    assert is_clean(asc.simulate(kernel, table, (), card=card))
    assert found(asc.simulate(kernel, table, ("MTE2_FIX",), card=card)) == {("race-raw", "table_to_fb", "table_load")}
    assert found(asc.simulate(kernel, table, ("FIX_MTE2",), card=card)) == {("race-war", "table_load", "table_to_fb")}


# ---- queues ---------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def queued(x: asc.GlobalAddress, y: asc.GlobalAddress, depth: asc.ConstExpr, num: asc.ConstExpr, early: asc.ConstExpr):
    """Load, double, store with two queues; `early` frees a buffer before its last use."""
    pipe = asc.TPipe()
    loaded, computed = asc.TQue(asc.TPosition.VECIN, depth), asc.TQue(asc.TPosition.VECOUT, depth)
    pipe.init_buffer(loaded, num, N * 4)
    pipe.init_buffer(computed, num, N * 4)
    for i in range(6):
        if depth == 0:
            a, b = asc.LocalTensor(x.dtype), asc.LocalTensor(x.dtype)
            loaded.alloc_tensor(a)
        else:
            a = loaded.alloc_tensor(x.dtype)
        asc.data_copy(a, gm(x, i * N), N)  # @q_load
        loaded.enque(a)
        if depth == 0:
            loaded.deque(a)
            computed.alloc_tensor(b)
        else:
            a = loaded.deque(x.dtype)
            b = computed.alloc_tensor(x.dtype)
        if early == "in":
            loaded.free_tensor(a)
        asc.muls(b, a, 2.0, N)  # @q_muls
        if early != "in":
            loaded.free_tensor(a)
        computed.enque(b)
        if depth == 0:
            computed.deque(b)
        else:
            b = computed.deque(x.dtype)
        if early == "out":
            computed.free_tensor(b)
        asc.data_copy(gm(y, i * N), b, N)  # @q_store
        if early != "out":
            computed.free_tensor(b)


@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("card", ALL)
def test_queues_keep_the_order(card: str, depth: int, num: int) -> None:
    if depth == 0 and num > 1:
        num = 1  # in place: one buffer
    x, y = floats(6 * N), np.zeros(6 * N, np.float32)
    for auto_sync in (True, False):
        assert is_clean(asc.simulate(queued, x, y, depth, num, "", card=card, auto_sync=auto_sync))
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize("card", ALL)
def test_a_buffer_freed_too_early(card: str, num: int) -> None:
    x, y = floats(6 * N), np.zeros(6 * N, np.float32)
    assert found(asc.simulate(queued, x, y, 1, num, "in", card=card)) == {("race-war", "q_load", "q_muls")}
    assert found(asc.simulate(queued, x, y, 1, num, "out", card=card)) == {("race-war", "q_muls", "q_store")}


@pytest.mark.parametrize("card", ALL)
def test_several_tensors_in_a_queue(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        """Two tiles ahead: depth 2, three buffers."""
        pipe = asc.TPipe()
        loaded, computed = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 1)
        pipe.init_buffer(loaded, 3, N * 4)
        pipe.init_buffer(computed, 1, N * 4)

        def load(i: int) -> None:
            a = loaded.alloc_tensor(x.dtype)
            asc.data_copy(a, gm(x, i * N), N)
            loaded.enque(a)

        load(0)
        for i in range(6):
            if i < 5:
                load(i + 1)
            a = loaded.deque(x.dtype)
            b = computed.alloc_tensor(x.dtype)
            asc.muls(b, a, 2.0, N)
            loaded.free_tensor(a)
            computed.enque(b)
            b = computed.deque(x.dtype)
            asc.data_copy(gm(y, i * N), b, N)
            computed.free_tensor(b)

    x, y = floats(6 * N), np.zeros(6 * N, np.float32)
    assert is_clean(asc.simulate(kernel, x, y, card=card))
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("card", ALL)
def test_tquesync_is_a_flag(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, pieces: asc.ConstExpr):
        there = asc.TQueSync(MTE2, MTE3)
        tile = ub(x.dtype, 0, N)
        asc.data_copy(tile, gm(x), N)  # @tq_load
        there.set_flag(2)
        if "wait" in pieces:
            there.wait_flag(2)
        asc.data_copy(gm(y), tile, N)  # @tq_store

    x, y = floats(N), np.zeros(N, np.float32)
    assert is_clean(asc.simulate(kernel, x, y, ("wait",), card=card))
    assert found(asc.simulate(kernel, x, y, (), card=card)) == {("race-raw", "tq_store", "tq_load")}


# ---- locks of 350 ---------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def locked(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    loaded, computed = ub(x.dtype, 0, N), ub(x.dtype, N, N)

    def hold(pipe: Any, ident: int) -> None:
        if (pipe.name[5:], ident) not in drop:
            asc.Mutex.lock(pipe, ident)

    def leave(pipe: Any, ident: int) -> None:
        if (pipe.name[5:], ident) not in drop:
            asc.Mutex.unlock(pipe, ident)

    for i in range(3):
        hold(MTE2, 0)
        asc.data_copy(loaded, gm(x, i * N), N)  # @lock_load
        leave(MTE2, 0)
        hold(V, 0)
        hold(V, 1)
        asc.muls(computed, loaded, 2.0, N)  # @lock_muls
        leave(V, 1)
        leave(V, 0)
        hold(MTE3, 1)
        asc.data_copy(gm(y, i * N), computed, N)  # @lock_store
        leave(MTE3, 1)


@pytest.mark.parametrize(("drop", "lines"), [
    (("MTE2", 0), {"lock_load", "lock_muls"}), (("V", 0), {"lock_load", "lock_muls"}), (("V", 1), {"lock_store", "lock_muls"}),
    (("MTE3", 1), {"lock_store", "lock_muls"}),
])  # fmt: skip
def test_locks_of_buffers(drop: tuple[str, int], lines: set[str]) -> None:
    x, y = floats(3 * N), np.zeros(3 * N, np.float32)
    assert is_clean(asc.simulate(locked, x, y, (), card="atlas_350"))
    assert np.array_equal(y, 2 * x)
    wrong = found(asc.simulate(locked, x, y, (drop,), card="atlas_350"))
    # A lock works in both directions: without it the read is early and the next write too.
    assert {kind for kind, *_ in wrong} == {"race-raw", "race-war"}
    assert {line for _, *both in wrong for line in both} == lines


# ---- readers behind whom somebody wrote -----------------------------------------------------------------------------
@pytest.mark.parametrize("card", ALL)
@pytest.mark.parametrize("between", [0, 1, 2])
def test_overwriting_what_was_read_before_a_write_in_order(card: str, between: int) -> None:
    """Add reads a tile, the vector unit itself writes it again, and then a load may come before all of them.

    That the load and the last vector write come in either order would not matter: nobody reads the tile any more.
    """
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        total, tile = ub(x.dtype, 0, N), ub(x.dtype, N, N)
        asc.data_copy(total, gm(x), N)
        asc.data_copy(tile, gm(x, N), N)
        flags.order("MTE2_V")
        asc.add(total, total, tile, N)  # @old_add
        for _ in range(between):
            asc.adds(tile, tile, 1.0, N)  # @old_adds
        flags.order("V_MTE2")
        asc.data_copy(tile, gm(x), N)  # @old_load
        flags.order("V_MTE3")
        asc.data_copy(gm(y), total, N)

    def run(*drop: str) -> Run:
        return asc.simulate(kernel, floats(2 * N), np.zeros(N, np.float32), drop, card=card)

    assert is_clean(run())
    assert found(run("V_MTE2")) == {("race-war", "old_load", "old_add")}


# ---- atomics and strides --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ALL)
def test_accumulating_stores_of_one_core(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, plain: asc.ConstExpr, barrier: asc.ConstExpr):
        flags = Flags()
        tile = ub(x.dtype, 0, N)
        asc.data_copy(tile, gm(x), N)
        flags.order("MTE2_MTE3")
        if plain:
            asc.data_copy(gm(y), tile, N)  # @plain_store
        if barrier:
            asc.pipe_barrier(MTE3)
        asc.set_atomic_add(x.dtype)
        asc.data_copy(gm(y), tile, N)  # @atomic_one
        asc.data_copy(gm(y), tile, N)  # @atomic_two
        asc.set_atomic_none()

    def run(plain: bool, barrier: bool) -> Run:
        return asc.simulate(kernel, floats(N), np.zeros(N, np.float32), plain, barrier, card=card)

    assert is_clean(run(False, False))
    assert is_clean(run(True, True))
    # P34: a zero fill and sums without a barrier may land in either order.
    assert ("race-waw", "atomic_one", "plain_store") in found(run(True, False))
    assert {kind for kind, *_ in found(run(True, False))} == {"race-waw"}


@pytest.mark.parametrize(("shift", "shared"), [(0, 128), (4, 64), (8, 0), (12, 48), (16, 96)])
def test_interleaved_columns_of_one_core(shift: int, shared: int) -> None:
    """Two strided stores: four bursts of 32 B, 64 B apart; those of the second begin `shift` floats later."""
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        rows = 4
        asc.duplicate(ub(x.dtype, 0, 16 * rows + 32), 0.0, 16 * rows + 32)
        flags.order("V_MTE3")
        asc.data_copy(ub(x.dtype, 512, 16 * rows + 32), gm(x), 16 * rows + 32)
        flags.order("MTE2_MTE3")
        store = asc.DataCopyExtParams(rows, 32, 0, 32, 0)
        asc.data_copy_pad(gm(y), ub(x.dtype, 512, 8 * rows), store)  # @even_columns
        asc.data_copy_pad(gm(y, shift), ub(x.dtype, 512, 8 * rows), store)  # @odd_columns

    run = asc.simulate(kernel, floats(96), np.zeros(96, np.float32), card="atlas_a2")
    if not shared:
        assert is_clean(run)
        return
    assert found(run) == {("race-waw", "odd_columns", "even_columns")}
    assert the_race(run).bytes == shared


# ---- blocks in turn -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ALL)
def test_blocks_that_share_a_core_take_turns(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        tile, at = ub(x.dtype, 0, N), int(asc.get_block_idx()) * N
        asc.data_copy(tile, gm(x, at), N)
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, at), tile, N)

    blocks = 100  # more than any card has vector cores
    x, y = floats(blocks * N), np.zeros(blocks * N, np.float32)
    assert is_clean(asc.simulate(kernel, x, y, blocks=blocks, card=card))
    assert np.array_equal(x, y)


def test_barriers_that_emit_nothing_order_nothing() -> None:
    """3510: PipeBarrier<V> emits no instruction, and V after V needs none; on the coupled card likewise (spec 11.2, 19.1)."""
    for card in ("atlas_350", "atlas_200i"):
        assert is_clean(chain(card, "barrier", False))
