"""Programs that cannot go on: who waits, for what, and where (`DeadlockError.cycle`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import DeadlockError
from tests.engine.engine_helpers import CROSS, gm, simulate, ub

N = 1024
X = np.zeros(4 * N, np.float32)


def stuck(kernel: Any, *args: Any, **options: Any) -> DeadlockError:
    """The error of a run that must not come to an end."""
    with pytest.raises(DeadlockError) as caught:
        simulate(kernel, X, *args, overrides=CROSS, **options)
    return caught.value


def line_of(kernel: Any, offset: int) -> int:
    """Line number `offset` lines below the decorator."""
    return int(kernel.fn.__code__.co_firstlineno) + offset


@asc.jit
def no_set(x: asc.GlobalAddress):
    asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
    asc.wait_flag(asc.HardEvent.MTE2_V, 3)
    asc.duplicate(ub(x.dtype, 0, N), 0.0, N)


@pytest.mark.parametrize("data", [True, False])
def test_a_wait_without_a_set_names_event_id_and_line(data: bool) -> None:
    error = stuck(no_set, data=data)
    at = line_of(no_set, 3)
    assert error.cycle[0] == "core0.aiv0 S waits at the end of the kernel for V to finish"
    assert any(
        line
        == f"core0.aiv0 V waits for MTE2_V id 3 (test_deadlock.py:{at}): no set_flag of it is left in the program so far"
        for line in error.cycle
    )
    assert (error.file, error.line, error.card) == (__file__, at, "atlas_350")
    assert "1 of 1 cores" in error.message
    assert f"test_deadlock.py:{at}" in str(error)


def test_the_right_event_with_another_id_does_not_help() -> None:
    @asc.jit
    def other_id(x: asc.GlobalAddress):
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 1)

    assert any("MTE2_V id 1" in line for line in stuck(other_id).cycle)


def test_two_pipes_that_wait_for_each_other() -> None:
    @asc.jit
    def crossed(x: asc.GlobalAddress):
        asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.set_flag(asc.HardEvent.V_MTE2, 0)

    error = stuck(crossed)
    assert "cycle" in error.message
    assert list(error.cycle) == [
        f"core0.aiv0 MTE2 waits for V_MTE2 id 0 (test_deadlock.py:{line_of(crossed, 2)})",
        f"core0.aiv0 V waits for MTE2_V id 0 (test_deadlock.py:{line_of(crossed, 4)})",
    ]


def test_a_set_that_the_scalar_unit_can_never_issue() -> None:
    # V's queue is full of work behind a wait; the set it waits for stands behind that in the program.
    @asc.jit
    def behind(x: asc.GlobalAddress):
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        for _ in range(40):
            asc.duplicate(ub(x.dtype, 0, 8), 0.0, 8)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)

    error = stuck(behind)
    text = "\n".join(error.cycle)
    assert "V waits for MTE2_V id 0" in text
    assert "S cannot issue" in text
    assert "queue of V is full" in text


def test_a_set_that_nobody_takes_holds_its_pipe() -> None:
    @asc.jit
    def two_sets(x: asc.GlobalAddress):
        asc.set_flag(asc.HardEvent.MTE2_V, 2)
        asc.set_flag(asc.HardEvent.MTE2_V, 2)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)

    error = stuck(two_sets)
    assert any("MTE2 holds a set until somebody takes MTE2_V id 2" in line for line in error.cycle)


def test_one_set_that_nobody_takes_is_no_deadlock() -> None:
    @asc.jit
    def one_set(x: asc.GlobalAddress):
        asc.set_flag(asc.HardEvent.MTE2_V, 2)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)

    assert simulate(one_set, X).instructions == 2


def test_the_scalar_unit_can_be_the_one_who_waits() -> None:
    @asc.jit
    def scalar(x: asc.GlobalAddress):
        asc.wait_flag(asc.HardEvent.V_S, 1)

    error = stuck(scalar)
    assert any(line.startswith("core0.aiv0 S waits for V_S id 1") for line in error.cycle)
    assert error.line == line_of(scalar, 2)


# ---- locks ----------------------------------------------------------------------------------------------------------
def test_a_lock_that_is_never_unlocked_by_its_pipe() -> None:
    # The Unlock of V comes first in the program: MTE2's Lock counts it, but V waits for MTE2 before it unlocks.
    @asc.jit
    def nested(x: asc.GlobalAddress):
        asc.Mutex.lock(asc.PipeID.PIPE_V, 4)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.Mutex.unlock(asc.PipeID.PIPE_V, 4)
        asc.Mutex.lock(asc.PipeID.PIPE_MTE2, 4)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)

    text = "\n".join(stuck(nested).cycle)
    assert "MTE2 waits for lock 4" in text
    assert "V waits for MTE2_V id 0" in text


# ---- between cores --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("blocks", "cubes"), [(3, 1), (5, 2)])
def test_sync_all_with_more_blocks_than_cores(blocks: int, cubes: int) -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def meet(x: asc.GlobalAddress):
        asc.sync_all()

    with pytest.raises(DeadlockError) as caught:
        simulate(meet, X, blocks=blocks, overrides={**CROSS, "cubes": cubes, "vectors": 2 * cubes})
    assert any("waits in SyncAll" in line and "a block that no core is free for" in line for line in caught.value.cycle)
    assert f"{2 * cubes} of {2 * cubes} cores" in caught.value.message
    assert caught.value.line == line_of(meet, 2)


def test_sync_all_with_a_core_that_does_not_come() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def absent(x: asc.GlobalAddress):
        if asc.get_block_idx() != 1:
            asc.sync_all()

    error = stuck(absent, blocks=3)
    assert any("waits in SyncAll" in line and "for core0.aiv1" in line for line in error.cycle)
    assert "2 of 3 cores" in error.message


@pytest.mark.parametrize(("card", "pipe"), [("atlas_a2", "S"), ("atlas_350", "MTE2")])
def test_a_cross_core_flag_that_is_never_set(card: str, pipe: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def alone(x: asc.GlobalAddress):
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(7, 2, asc.PipeID.PIPE_MTE2)

    error = stuck(alone, card=card)
    at = line_of(alone, 3)
    assert any(
        line.startswith(f"core0.aiv0 {pipe} waits for cross-core flag 7 (test_deadlock.py:{at})")
        for line in error.cycle
    )
    assert "2 of 3 cores" in error.message


def test_in_mode_2_one_vector_core_that_does_not_signal() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def half(x: asc.GlobalAddress):
        if asc.ascend_is_aiv() and asc.get_sub_block_idx() == 0:
            asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_MTE2)
        if asc.ascend_is_aic():
            asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)

    error = stuck(half)
    assert any(line.startswith("core0.aic MTE2 waits for cross-core flag 0") for line in error.cycle)
    assert "1 of 3 cores" in error.message


def test_a_set_on_a_pipe_that_the_core_lacks_is_lost() -> None:
    # The cube core of 350 has no MTE3: its set emits nothing, and the vector cores hang.
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def lost(x: asc.GlobalAddress):
        if asc.ascend_is_aic():
            asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_MTE3)
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)

    assert "2 of 3 cores" in stuck(lost).message


def test_cores_of_a_group_that_wait_for_each_other() -> None:
    # Both wait first and would signal afterwards. On A2 the wait stops the scalar unit itself.
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def both_wait(x: asc.GlobalAddress):
        if asc.ascend_is_aic():
            asc.cross_core_wait_flag(1, 2, asc.PipeID.PIPE_MTE2)
            asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_MTE2)
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)
            asc.cross_core_set_flag(1, 2, asc.PipeID.PIPE_MTE2)

    for card in ("atlas_a2", "atlas_350"):
        error = stuck(both_wait, card=card)
        assert "the waits form a cycle" in error.message
        assert "3 of 3 cores" in error.message
        assert any("core0.aic" in line and "waits for cross-core flag 1" in line for line in error.cycle)
        assert any("core0.aiv0" in line and "waits for cross-core flag 0" in line for line in error.cycle)


# ---- polling --------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def poll_for(x: asc.GlobalAddress, writer: asc.ConstExpr, clean: asc.ConstExpr, rounds: asc.ConstExpr):
    """Core 0 polls word 0 until it is 7; core 1 stores it there after `rounds` loads of 4 KB, or never."""
    flag = gm(x)
    if asc.get_block_idx() == 0:
        while flag.get_value(0) != 7:
            if clean:
                asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, flag)
    elif writer:
        tile = ub(x.dtype, 0, N)
        for _ in range(rounds):
            asc.data_copy(tile, gm(x, N), N)
        asc.duplicate(ub(x.dtype, N, 8), 7, 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(flag, ub(x.dtype, N, 8), 8)


def test_a_poll_ends_when_the_other_core_has_stored() -> None:
    words = np.zeros(2 * N, np.int32)
    run = simulate(poll_for, words, True, True, 50, blocks=2)
    assert words[0] == 7
    assert run.cycles > 50 * 128


@pytest.mark.parametrize("clean", [True, False])
def test_polling_for_what_never_comes_is_a_livelock(clean: bool) -> None:
    with pytest.raises(DeadlockError, match="livelock") as caught:
        simulate(poll_for, np.zeros(2 * N, np.int32), False, clean, 0, blocks=2)
    at = line_of(poll_for, 5)
    assert (caught.value.file, caught.value.line) == (__file__, at)
    assert list(caught.value.cycle) == [f"core0.aiv0 S polls x+0 (test_deadlock.py:{at}) and finds 0 every time"]


def test_polling_a_stale_line_is_a_livelock_although_the_store_has_come() -> None:
    # Without cleaning, the data cache keeps the line as it was first read.
    with pytest.raises(DeadlockError, match="livelock"):
        simulate(poll_for, np.zeros(2 * N, np.int32), True, False, 50, blocks=2)


def test_many_loads_of_different_words_are_work() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def scan(x: asc.GlobalAddress):
        words = gm(x)
        for _ in range(6):
            for i in range(4 * N):
                words.get_value(i)

    assert simulate(scan, np.zeros(4 * N, np.int32)).instructions == 6 * 4 * N


# ---- in general -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make", [lambda: stuck(no_set), lambda: stuck(no_set, blocks=3)], ids=["one core", "three cores"]
)
def test_the_report_is_the_same_every_time(make: Callable[[], DeadlockError]) -> None:
    assert make().as_dict() == make().as_dict()
    assert make().as_dict()["type"] == "DeadlockError"


def test_a_deadlock_moves_nothing_back() -> None:
    @asc.jit
    def store_then_hang(x: asc.GlobalAddress):
        asc.duplicate(ub(x.dtype, 0, 8), 1.0, 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(gm(x), ub(x.dtype, 0, 8), 8)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)

    x = np.zeros(8, np.float32)
    with pytest.raises(DeadlockError):
        simulate(store_then_hang, x)
    assert not x.any()
