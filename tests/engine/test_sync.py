"""Signals between cores: the modes of CrossCoreSetFlag, and SyncAll (spec api_semantics.md 11.5).

Times are cycles on the card of `engine_helpers.ROUND`: entry k of a core is issued at 10 * k. A cross-core set is in effect 50
cycles after the named pipe has drained, a wait takes 5 once the signal is there, SyncAll 7.
"""

from __future__ import annotations

import numpy as np
import pytest
import simpy

import aicore_sim as asc
from aicore_sim.engine.flags import Counter, CrossCore, Rendezvous
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Run
from tests.engine.engine_helpers import CROSS, gm, order, rows, simulate, ub, work

N = 1024
MTE2, MTE3, FIX, V = asc.PipeID.PIPE_MTE2, asc.PipeID.PIPE_MTE3, asc.PipeID.PIPE_FIX, asc.PipeID.PIPE_V


def cross_rows(run: Run, kind: Kind, core: int) -> list[tuple[float, float, float]]:
    """Times of all cross-core sets or waits of a core, whatever their pipe."""
    return [row.times for pipe in Pipe for row in rows(run, pipe, core) if row.kind is kind]


# ---- modes 2 and 4: cube and vector cores of a group ----------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def cube_to_vector(x: asc.GlobalAddress, mode: asc.ConstExpr):
    if asc.ascend_is_aic():
        asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, N), gm(x), N)
        asc.cross_core_set_flag(1, mode, MTE2)
        if mode == 4:
            asc.cross_core_set_flag(17, mode, MTE2)
    if asc.ascend_is_aiv():
        asc.cross_core_wait_flag(1, mode, V)
        asc.duplicate(ub(x.dtype, 0, N), 0.0, N)


@pytest.mark.parametrize(("card", "mode"), [("atlas_a2", 2), ("atlas_350", 2), ("atlas_350", 4)])
def test_the_cube_core_releases_both_its_vector_cores(card: str, mode: int) -> None:
    run = simulate(cube_to_vector, np.zeros(N, np.float32), mode, card=card, overrides=CROSS)
    assert [core.label for core in run.columns.cores] == ["core0.aic", "core0.aiv0", "core0.aiv1"]
    # The load is complete at 10 + 228; 50 later the signal is there.
    assert work(run, Pipe.MTE2)[0].end == 238
    for core in (1, 2):
        ((start, free, _),) = cross_rows(run, Kind.CROSS_WAIT, core)
        assert (start, free) == (10, 238 + 50 + 5)
        # A2 stops the issue of everything behind the wait, 350 the named pipe only.
        assert work(run, Pipe.V, core)[0].start == (303 if card == "atlas_a2" else 293)


def test_the_set_does_not_hold_its_own_pipe() -> None:
    run = simulate(cube_to_vector, np.zeros(N, np.float32), 4, overrides=CROSS)
    assert cross_rows(run, Kind.CROSS_SET, 0) == [(138, 139, 139), (139, 140, 140)]


def test_mode_4_keeps_the_two_vector_cores_apart() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def one_each(x: asc.GlobalAddress):
        if asc.ascend_is_aic():
            asc.cross_core_set_flag(3, 4, MTE2)  # vector core 0
            asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, N), gm(x), N)
            asc.cross_core_set_flag(19, 4, MTE2)  # vector core 1: its flag 3
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(3, 4, V)

    run = simulate(one_each, np.zeros(N, np.float32), overrides=CROSS)
    assert [cross_rows(run, Kind.CROSS_WAIT, core)[0][1] for core in (1, 2)] == [10 + 50 + 5, 20 + 228 + 50 + 5]


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def vector_to_cube(x: asc.GlobalAddress):
    if asc.ascend_is_aiv():
        if asc.get_sub_block_idx() == 1:
            asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.cross_core_set_flag(2, 2, MTE2)
    if asc.ascend_is_aic():
        asc.cross_core_wait_flag(2, 2, MTE2)


def test_in_mode_2_the_cube_core_waits_for_both_vector_cores() -> None:
    run = simulate(vector_to_cube, np.zeros(N, np.float32), overrides=CROSS)
    # One of them signals at once, the other when its load is complete.
    assert cross_rows(run, Kind.CROSS_WAIT, 0)[0][1] == 10 + 228 + 50 + 5


def test_in_mode_2_of_a_1_to_1_kernel_one_vector_core_is_enough() -> None:
    kernel = asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_1)(vector_to_cube.fn)
    run = simulate(kernel, np.zeros(N, np.float32), overrides=CROSS)
    assert [core.label for core in run.columns.cores] == ["core0.aic", "core0.aiv0"]
    assert cross_rows(run, Kind.CROSS_WAIT, 0)[0][1] == 10 + 50 + 5


def test_groups_do_not_hear_each_other_in_mode_2() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def late_group(x: asc.GlobalAddress):
        if asc.ascend_is_aic():
            if asc.get_block_idx() == 1:
                asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, N), gm(x), N)
            asc.cross_core_set_flag(0, 2, MTE2)
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(0, 2, V)

    run = simulate(late_group, np.zeros(N, np.float32), blocks=2, overrides=CROSS)
    waits = [cross_rows(run, Kind.CROSS_WAIT, core)[0][1] for core in (1, 2, 4, 5)]
    assert waits == [65, 65, 293, 293]


def test_signals_are_counted_not_merged() -> None:
    rounds = 4

    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def counted(x: asc.GlobalAddress):
        for _ in range(rounds):
            if asc.ascend_is_aic():
                asc.cross_core_set_flag(0, 2, MTE2)
            if asc.ascend_is_aiv():
                asc.cross_core_wait_flag(0, 2, V)

    run = simulate(counted, np.zeros(N, np.float32), overrides=CROSS)
    # Set k is executed at 10 k; the wait after it was reached before that.
    assert [free for _, free, _ in cross_rows(run, Kind.CROSS_WAIT, 1)] == [65, 75, 85, 95]


def test_a_hand_over_through_memory_is_right_with_the_signal() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def hand_over(x: asc.GlobalAddress, y: asc.GlobalAddress, signal: asc.ConstExpr):
        """Vector core 0 doubles x into y; vector core 1 adds 1 to what it finds there."""
        if asc.ascend_is_aiv():
            tile = ub(x.dtype, 0, N)
            if asc.get_sub_block_idx() == 0:
                asc.data_copy(tile, gm(x), N)
                order(asc.HardEvent.MTE2_V)
                asc.muls(tile, tile, 2.0, N)
                order(asc.HardEvent.V_MTE3)
                asc.data_copy(gm(y), tile, N)
            if signal:
                asc.cross_core_set_flag(0, 1, MTE3)
                asc.cross_core_wait_flag(0, 1, MTE2)
            if asc.get_sub_block_idx() == 1:
                asc.data_copy(tile, gm(y), N)
                order(asc.HardEvent.MTE2_V)
                asc.adds(tile, tile, 1.0, N)
                order(asc.HardEvent.V_MTE3)
                asc.data_copy(gm(y, N), tile, N)

    x = np.arange(1, N + 1, dtype=np.float32)
    y = np.zeros(2 * N, np.float32)
    simulate(hand_over, x, y, True, overrides=CROSS)
    assert np.array_equal(y[N:], 2 * x + 1)
    simulate(hand_over, x, y := np.zeros(2 * N, np.float32), False, overrides=CROSS)
    assert np.all(y[N:] == 1)


# ---- modes 0 and 1: cores of one kind -------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def all_vectors(x: asc.GlobalAddress):
    if asc.get_block_idx() == 2:
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
    asc.cross_core_set_flag(4, 0, MTE2)
    asc.cross_core_wait_flag(4, 0, MTE2)


def test_mode_0_waits_for_all_cores_of_the_kind() -> None:
    run = simulate(all_vectors, np.zeros(N, np.float32), blocks=4, overrides=CROSS)
    assert [cross_rows(run, Kind.CROSS_WAIT, core)[0][1] for core in range(4)] == [293] * 4


def test_mode_1_joins_the_vector_cores_of_one_group() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def pairs(x: asc.GlobalAddress):
        if asc.ascend_is_aiv():
            if asc.get_block_idx() == 2:
                asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
            asc.cross_core_set_flag(0, 1, MTE2)
            asc.cross_core_wait_flag(0, 1, MTE2)

    run = simulate(pairs, np.zeros(N, np.float32), blocks=2, overrides=CROSS)
    assert [cross_rows(run, Kind.CROSS_WAIT, core)[0][1] for core in (1, 2, 4, 5)] == [65, 65, 293, 293]


# ---- SyncAll --------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def exchange(x: asc.GlobalAddress, y: asc.GlobalAddress, sync: asc.ConstExpr):
    """Every core stores a tile of its own and reads the tile of its neighbour after the meeting."""
    me, cores = int(asc.get_block_idx()), int(asc.get_block_num())
    tile = ub(x.dtype, 0, N)
    for _ in range(me):
        asc.duplicate(tile, 0.0, N)
    asc.duplicate(tile, float(me + 1), N)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(x, me * N), tile, N)
    if sync:
        asc.sync_all()
    other = ub(x.dtype, N, N)
    asc.data_copy(other, gm(x, (me + 1) % cores * N), N)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y, me * N), other, N)


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
def test_sync_all_makes_everybodys_stores_visible_to_everybody(card: str) -> None:
    cores = 5
    x, y = np.zeros(cores * N, np.float32), np.zeros(cores * N, np.float32)
    run = simulate(exchange, x, y, True, blocks=cores, card=card, overrides=CROSS)
    assert y.reshape(cores, N)[:, 0].tolist() == [2, 3, 4, 5, 1]
    assert all(np.ptp(tile) == 0 for tile in y.reshape(cores, N))
    meets = [row for core in range(cores) for row in rows(run, Pipe.S, core) if row.kind is Kind.SYNC_ALL]
    # The last one arrives when its own store is complete; all leave together, 7 cycles later.
    last = max(work(run, Pipe.MTE3, core)[0].end for core in range(cores)) + 1 + 10
    assert {row.free for row in meets} == {last + 7}
    assert max(row.start for row in meets) == last


def test_without_sync_all_the_neighbours_tile_is_not_there_yet() -> None:
    x, y = np.zeros(5 * N, np.float32), np.zeros(5 * N, np.float32)
    simulate(exchange, x, y, False, blocks=5, overrides=CROSS)
    assert not y.any()


def test_sync_all_of_a_mix_kernel_joins_cube_and_vector_cores() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def everybody(x: asc.GlobalAddress):
        if asc.ascend_is_aic() and asc.get_block_idx() == 1:
            asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, N), gm(x), N)
        asc.sync_all(False)

    run = simulate(everybody, np.zeros(N, np.float32), blocks=2, overrides=CROSS)
    ends = {row.free for core in range(6) for row in rows(run, Pipe.S, core) if row.kind is Kind.SYNC_ALL}
    # Load complete at 238, barrier 1, issue 10, meeting 7.
    assert ends == {256}


@pytest.mark.parametrize(("card", "cube_meets"), [("atlas_a2", True), ("atlas_350", False)])
def test_sync_all_of_the_vector_cores_on_a_cube_core(card: str, cube_meets: bool) -> None:
    # 350 returns at once; 2201 has no core test, and the cube cores meet among themselves.
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def vectors_only(x: asc.GlobalAddress):
        if asc.ascend_is_aiv():
            asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.sync_all()

    run = simulate(vectors_only, np.zeros(N, np.float32), blocks=2, card=card, overrides=CROSS)
    found = {core: [row.free for row in rows(run, Pipe.S, core) if row.kind is Kind.SYNC_ALL] for core in range(6)}
    assert [found[core] for core in (1, 2, 4, 5)] == [[256]] * 4
    assert [found[core] for core in (0, 3)] == ([[28]] * 2 if cube_meets else [[]] * 2)


def test_sync_all_with_named_pipes_drains_one_and_holds_one() -> None:
    # 350: MTE3 signals, MTE2 waits. Neither the load before it nor the vector work behind it takes part.
    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def named(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        if asc.get_block_idx() == 1:
            asc.data_copy(gm(x, N), ub(x.dtype, N, N), N)
        asc.sync_all(config=asc.SyncAllConfig(MTE3, MTE2))
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.duplicate(ub(x.dtype, 2 * N, N), 0.0, N)

    run = simulate(named, np.zeros(2 * N, np.float32), blocks=2, overrides=CROSS)
    # The store of core 1 is complete at 20 + 228, the signal there 50 later, the wait over 5 after that.
    for core in range(2):
        assert work(run, Pipe.MTE2, core)[1].start == 303
        assert work(run, Pipe.V, core)[0].start == (50 if core == 0 else 60)


def test_one_meeting_after_another() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def thrice(x: asc.GlobalAddress):
        for i in range(3):
            if asc.get_block_idx() == i:
                asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
            asc.sync_all()

    run = simulate(thrice, np.zeros(N, np.float32), blocks=3, overrides=CROSS)
    ends = [[row.free for row in rows(run, Pipe.S, core) if row.kind is Kind.SYNC_ALL] for core in range(3)]
    # Each round: issue 10, load 228, barrier 1, issue 10, meeting 7.
    assert ends == [[256, 512, 768]] * 3


# ---- the objects themselves -----------------------------------------------------------------------------------------
def test_a_rendezvous_completes_with_its_last_participant_of_each_round() -> None:
    counter = Counter()
    meeting = Rendezvous([0, 1, 2], [counter])
    meeting.put(0, 10)
    meeting.put(0, 90)  # already its second round
    meeting.put(2, 30)
    assert (list(counter.ticks), meeting.missing()) == ([], [1])
    meeting.put(1, 20)
    assert list(counter.ticks) == [30]
    meeting.put(1, 40)
    meeting.put(2, 50)
    assert list(counter.ticks) == [30, 90]


def test_flag_ids_and_modes_have_counters_of_their_own() -> None:
    cross = CrossCore(simpy.Environment(), ["aic", "aiv", "aiv"], [0, 0, 0], [0, 0, 1])
    cross.set(0, 5, 2, 100)
    cross.set(0, 5, 4, 200)
    cross.set(0, 21, 4, 300)
    assert list(cross.counter(1, 5).ticks) == [100]
    assert list(cross.counter(2, 5).ticks) == [100]
    assert list(cross.counter(1, 5, True).ticks) == [200]
    assert list(cross.counter(2, 5, True).ticks) == [300]
    assert not cross.counter(1, 6).ticks
    cross.set(2, 7, 4, 400)
    assert list(cross.counter(0, 23, True).ticks) == [400]


def test_a_mode_4_set_without_cube_cores_is_lost() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def alone(x: asc.GlobalAddress):
        asc.cross_core_set_flag(3, 4, MTE3)

    run = simulate(alone, np.zeros(N, np.float32), blocks=2)
    assert any("scheduler" in text for text, *_ in run.warnings)


@pytest.mark.parametrize(("kernel_type", "warns"), [("AIV_ONLY", True), ("MIX_AIV_1_0", False)])
def test_a_pure_kernel_type_starts_no_scheduler_for_sync_all(kernel_type: str, warns: bool) -> None:
    @asc.jit(kernel_type=asc.KernelType[kernel_type])
    def meet(x: asc.GlobalAddress):
        asc.sync_all()

    run = simulate(meet, np.zeros(N, np.float32), blocks=2)
    assert any("scheduler" in text for text, *_ in run.warnings) is warns
