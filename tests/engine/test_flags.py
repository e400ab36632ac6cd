"""Event flags and buffer locks inside a core: when they fire, what they hold up, and that no signal is lost.

Times are cycles on the card of `engine_helpers.ROUND`: entry k is issued at 10 * k.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.engine.flags import Flag, Mutex
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from tests.engine.engine_helpers import gm, order, rows, simulate, ub, work

N = 1024
"""Elements of a float32 tile: 4 KB, 128 cycles on a GM port, complete 100 later; 16 cycles of vector work, 20 later."""
X = np.zeros(8 * N, np.float32)


@asc.jit
def load_then_work(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, N)
    asc.data_copy(tile, gm(x), N)
    asc.set_flag(asc.HardEvent.MTE2_V, 3)
    asc.data_copy(ub(x.dtype, N, N), gm(x), N)
    asc.wait_flag(asc.HardEvent.MTE2_V, 3)
    asc.adds(tile, tile, 1.0, N)


@pytest.mark.parametrize("data", [True, False])
def test_a_flag_fires_at_the_end_of_the_earlier_work_and_does_not_hold_its_own_pipe(data: bool) -> None:
    run = simulate(load_then_work, X, data=data)
    load, flag, other = rows(run, Pipe.MTE2)
    assert load.times == (10, 138, 238)
    # The set takes its own cycle on MTE2 and no more, but it fires when the load is complete: 238, not 138.
    assert flag.times == (138, 139, 238)
    assert other.start == 139
    wait, add = rows(run, Pipe.V)
    assert wait.times == (40, 239, 239)
    assert add.start == 239


def test_a_wait_on_a_flag_that_is_long_up_costs_its_own_cycle_only() -> None:
    @asc.jit
    def late(x: asc.GlobalAddress):
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.duplicate(ub(asc.float32, 0, N), 1.0, N)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)

    run = simulate(late, X)
    assert rows(run, Pipe.V)[1].times == (36, 37, 37)


def test_ids_and_events_are_independent() -> None:
    # Id 1 is set right away, id 0 behind the load: a wait for 1 does not take 0.
    @asc.jit
    def ids(x: asc.GlobalAddress):
        asc.set_flag(asc.HardEvent.MTE2_V, 1)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.data_copy(ub(asc.float32, 0, N), gm(x), N)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 1)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)

    run = simulate(ids, X)
    assert [row.free for row in rows(run, Pipe.V)] == [51, 30 + 128 + 100 + 1]
    assert rows(run, Pipe.MTE3)[0].free == 71


def test_a_second_set_holds_its_pipe_until_the_first_was_taken() -> None:
    @asc.jit
    def double(x: asc.GlobalAddress):
        a, b = ub(asc.float32, 0, 4 * N), ub(asc.float32, 4 * N, 8)
        asc.duplicate(a, 0.0, 4 * N)  # V is busy for 64 cycles, 10..74
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.data_copy(b, gm(x), 8)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)

    run = simulate(double, X)
    first, second, load = rows(run, Pipe.MTE2)
    assert first.times == (20, 21, 21)
    # V takes the first at 74; only then the second rises, and MTE2 goes on.
    assert second.times == (30, 75, 75)
    assert load.start == 75
    one, two = rows(run, Pipe.V)[1:]
    assert (one.start, one.free) == (74, 75)
    assert (two.start, two.free) == (75, 76)


def test_a_ring_of_sets_and_waits_keeps_every_signal() -> None:
    rounds = 9

    @asc.jit
    def ring(x: asc.GlobalAddress):
        tile = ub(asc.float32, 0, N)
        for i in range(rounds):
            if i:
                asc.wait_flag(asc.HardEvent.V_MTE2, 0)
            asc.data_copy(tile, gm(x), N)
            order(asc.HardEvent.MTE2_V)
            asc.adds(tile, tile, 1.0, N)
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.wait_flag(asc.HardEvent.V_MTE2, 0)

    run = simulate(ring, X, overrides={"scalar.issue": 1})
    loads, adds = work(run, Pipe.MTE2), work(run, Pipe.V)
    # One round trip: 128 + 100 for the load, 1 for the wait, 16 + 20 for V, 1 for the wait back.
    assert [b.start - a.start for a, b in pairwise(loads)] == [266] * (rounds - 1)
    assert all(add.start == load.end + 1 for load, add in zip(loads, adds, strict=True))


def test_the_scalar_unit_sets_and_waits_as_the_pipes_do() -> None:
    @asc.jit
    def scalar(x: asc.GlobalAddress):
        asc.data_copy(ub(asc.float32, 0, N), gm(x), N)
        order(asc.HardEvent.MTE2_S)
        order(asc.HardEvent.S_MTE3)
        asc.data_copy(gm(x), ub(asc.float32, 0, N), N)

    run = simulate(scalar, X)
    waits = rows(run, Pipe.S)
    # Wait reached at 30, flag up at 238. Then 10 to issue the set, 1 to execute it.
    assert [row.times for row in waits] == [(30, 239, 239), (249, 250, 250)]
    assert rows(run, Pipe.MTE3)[0].times == (260, 261, 261)
    assert work(run, Pipe.MTE3)[0].start == 270


@asc.jit
def locked(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, N)
    mte2, v = asc.PipeID.PIPE_MTE2, asc.PipeID.PIPE_V
    for _ in range(2):
        asc.Mutex.lock(mte2, 5)
        asc.data_copy(tile, gm(x), N)
        asc.Mutex.unlock(mte2, 5)
        asc.Mutex.lock(v, 5)
        asc.adds(tile, tile, 1.0, N)
        asc.Mutex.unlock(v, 5)


def test_locks_follow_program_order() -> None:
    run = simulate(locked, X)
    mte2, v = rows(run, Pipe.MTE2), rows(run, Pipe.V)
    # The first Lock passes. V's Lock was issued behind one Unlock: it waits until the load is complete (20 + 228).
    assert [row.times for row in mte2[:3]] == [(10, 11, 11), (20, 148, 248), (148, 149, 149)]
    assert v[0].times == (40, 249, 249)
    assert v[1].times == (249, 265, 285)
    # The second Lock of MTE2 counts two Unlocks before it: it passes when the vector work is complete.
    assert mte2[3].times == (149, 286, 286)
    assert mte2[4].start == 286


def test_a_lock_that_arrives_first_does_not_overtake() -> None:
    # MTE2 is busy elsewhere when V reaches its Lock; V still waits for the Unlock that the program put before it.
    @asc.jit
    def overtake(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, N, N), gm(x), N)
        asc.Mutex.lock(asc.PipeID.PIPE_MTE2, 0)
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.Mutex.unlock(asc.PipeID.PIPE_MTE2, 0)
        asc.Mutex.lock(asc.PipeID.PIPE_V, 0)
        asc.Mutex.unlock(asc.PipeID.PIPE_V, 0)

    run = simulate(overtake, X)
    # The Lock takes 1 cycle behind the first load (138..139): the second runs 139..267 and is complete at 367.
    assert rows(run, Pipe.V)[0].times == (50, 368, 368)


def test_locks_with_different_ids_do_not_meet() -> None:
    @asc.jit
    def apart(x: asc.GlobalAddress):
        asc.Mutex.lock(asc.PipeID.PIPE_MTE2, 0)
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.Mutex.unlock(asc.PipeID.PIPE_MTE2, 0)
        asc.Mutex.lock(asc.PipeID.PIPE_V, 1)
        asc.Mutex.unlock(asc.PipeID.PIPE_V, 1)

    assert rows(simulate(apart, X), Pipe.V)[0].times == (40, 41, 41)


# ---- the objects themselves -----------------------------------------------------------------------------------------
def test_flag_keeps_the_later_of_set_and_clear() -> None:
    flag = Flag()
    flag.put(100)
    assert flag.take(40) == 100  # the wait came first
    flag.put(90)  # executed late: it cannot rise before the first was cleared
    assert flag.fires == 100
    assert flag.take(250) == 250
    assert flag.fires is None


def test_mutex_ticks_never_run_backwards() -> None:
    mutex = Mutex()
    mutex.unlock(50)
    mutex.unlock(30)
    assert mutex.unlocked == [50, 50]


def test_flag_rows_name_event_and_id() -> None:
    c = simulate(load_then_work, X).columns
    named = [int(arg) for arg, kind in zip(c.arg, c.kind, strict=True) if kind in (Kind.SET_FLAG, Kind.WAIT_FLAG)]
    assert named == [int(asc.HardEvent.MTE2_V) * 64 + 3] * 2
