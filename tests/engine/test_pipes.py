"""Pipes and the scalar unit: order, issue, queues, barriers, and the difference between `free` and `end`.

Times are cycles, added up by hand from the numbers of `engine_helpers.ROUND`: instruction k of a program is issued at
10 * k.
"""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.engine.columns import Cause
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from tests.engine.engine_helpers import TICKS, gm, order, rows, simulate, ub, work

N = 1024
"""Elements of a float32 tile: 4 KB, 128 cycles on a GM port, 16 cycles of vector work."""


def x_and_y(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


@asc.jit
def add_one(x: asc.GlobalAddress, y: asc.GlobalAddress):
    tile = ub(x.dtype, 0, N)
    asc.data_copy(tile, gm(x), N)
    order(asc.HardEvent.MTE2_V)
    asc.adds(tile, tile, 1.0, N)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), tile, N)


def test_a_load_compute_store_chain_tick_by_tick() -> None:
    x, y = x_and_y()
    run = simulate(add_one, x, y)
    # Issued at 10. The port needs 4096 / 32 = 128 cycles, the effects 100 more.
    assert work(run, Pipe.MTE2)[0].times == (10, 138, 238)
    # The wait ends when the flag is up, and takes 1 cycle; 16 repeats of 256 B; 20 cycles until the result is there.
    assert work(run, Pipe.V)[0].times == (239, 255, 275)
    assert work(run, Pipe.MTE3)[0].times == (276, 404, 504)
    assert run.columns.length == 504 * TICKS
    assert np.array_equal(y, x + 1)


def test_every_cycle_of_the_chain_has_its_cause() -> None:
    run = simulate(add_one, *x_and_y())
    ticks = run.trace.ticks_by_cause()[0] / TICKS

    def of(pipe: Pipe) -> dict[Cause, float]:
        return {cause: ticks[pipe, cause] for cause in Cause if ticks[pipe, cause]}

    # MTE2: issued at 10, 128 cycles through its port, its bytes on their way until 238 (setting the flag meanwhile).
    assert of(Pipe.MTE2) == {Cause.ISSUE: 10, Cause.BW_PORT: 128, Cause.BUSY: 100, Cause.IDLE: 504 - 238}
    # V: the wait is issued at 30 and over at 239; 16 cycles of work, its result is there 20 later.
    assert of(Pipe.V) == {Cause.ISSUE: 30, Cause.FLAG: 209, Cause.BUSY: 36, Cause.IDLE: 504 - 275}
    # MTE3: the wait is issued at 60 and over at 276; the store holds the pipe for 128 cycles and is complete 100 later.
    assert of(Pipe.MTE3) == {Cause.ISSUE: 60, Cause.FLAG: 216, Cause.BW_PORT: 128, Cause.BUSY: 100}
    assert of(Pipe.S) == {Cause.ISSUE: 70, Cause.IDLE: 434}


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def load_use_load(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, N)
    asc.data_copy(tile, gm(x), N)
    order(asc.HardEvent.MTE2_V)
    asc.adds(tile, tile, 1.0, N)
    order(asc.HardEvent.V_MTE2)
    asc.data_copy(tile, gm(x), N)


@pytest.mark.parametrize("data", [True, False])
def test_a_pipe_that_waits_while_its_copy_is_on_its_way_is_busy_and_waits_afterwards(data: bool) -> None:
    run = simulate(load_use_load, x_and_y()[0], data=data)
    # V: 239..255, its result is there at 275; the wait of MTE2 ends with it and takes a cycle.
    assert [row.times for row in work(run, Pipe.MTE2)] == [(10, 138, 238), (276, 404, 504)]
    ticks = run.trace.ticks_by_cause()[0, Pipe.MTE2] / TICKS
    # MTE2 waits from 139 on, but until 238 the first copy is not complete; the second one's last 100 cycles count too.
    assert {cause: ticks[cause] for cause in Cause if ticks[cause]} == {
        Cause.ISSUE: 10, Cause.BW_PORT: 2 * 128, Cause.BUSY: 2 * 100, Cause.FLAG: 276 - 238,
    }  # fmt: skip
    assert run.trace.time_ticks[0, Pipe.MTE2] == 2 * 228 * TICKS


def test_a_copy_on_its_way_while_the_next_is_not_issued_yet_counts_as_busy() -> None:
    run = simulate(loads, np.zeros(4 * N, np.float32), (N, N), overrides={"scalar.issue": 200})
    assert [row.times for row in work(run, Pipe.MTE2)] == [(200, 328, 428), (400, 528, 628)]
    ticks = run.trace.ticks_by_cause()[0, Pipe.MTE2] / TICKS
    assert {cause: ticks[cause] for cause in Cause if ticks[cause]} == {
        Cause.ISSUE: 200, Cause.BW_PORT: 2 * 128, Cause.BUSY: (400 - 328) + 100,
    }  # fmt: skip


@pytest.mark.parametrize(("copies", "cycles"), [(1, 128 + 100), (3, 3 * 128 + 100)])
def test_a_stream_of_copies_counts_its_latency_once(copies: int, cycles: int) -> None:
    run = simulate(loads, np.zeros(4 * N, np.float32), (N,) * copies)
    assert run.trace.time_ticks[0, Pipe.MTE2] == cycles * TICKS
    assert run.trace.ticks_by_cause()[0, Pipe.MTE2, Cause.BUSY] == 100 * TICKS


@asc.jit
def loads(x: asc.GlobalAddress, sizes: asc.ConstExpr):
    for i, size in enumerate(sizes):
        asc.data_copy(ub(x.dtype, i * N, size), gm(x, i * N), size)


def test_one_instruction_after_another_takes_the_issue_cost_apart() -> None:
    run = simulate(loads, np.zeros(4 * N, np.float32), (8, 8, 8), overrides={"scalar.issue": 7})
    assert [row.issue for row in work(run, Pipe.MTE2)] == [7, 14, 21]
    assert int(run.columns.scalar[0, Cause.ISSUE]) == 21 * TICKS


def test_copies_stream_behind_each_other_while_their_latency_overlaps() -> None:
    run = simulate(loads, np.zeros(4 * N, np.float32), (N, N, N))
    assert [row.times for row in work(run, Pipe.MTE2)] == [(10, 138, 238), (138, 266, 366), (266, 394, 494)]


def test_small_copies_are_paced_by_their_issue_cost_not_by_their_bytes() -> None:
    # 32 B cross the port in one cycle, but the pipe takes 40 cycles for every copy; the latency is not paid again.
    run = simulate(loads, np.zeros(4 * N, np.float32), (8, 8, 8), overrides={"gm.GM-UB.issue": 40})
    assert [row.times for row in work(run, Pipe.MTE2)] == [(10, 50, 150), (50, 90, 190), (90, 130, 230)]


def test_a_pipe_executes_in_order_even_when_a_later_copy_ends_first() -> None:
    # The first copy misses L2 and is 500 cycles late; the second reads the same bytes again and hits.
    @asc.jit
    def twice(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.data_copy(ub(x.dtype, N, N), gm(x), N)

    run = simulate(twice, np.zeros(N, np.float32), overrides={"gm.GM-UB.miss_latency": 500})
    assert [row.times for row in work(run, Pipe.MTE2)] == [(10, 138, 738), (138, 266, 366)]


@asc.jit
def barrier_then_store(x: asc.GlobalAddress, y: asc.GlobalAddress, pipe: asc.ConstExpr):
    asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
    if pipe is not None:
        asc.pipe_barrier(pipe)
    asc.data_copy(ub(x.dtype, N, N), gm(x), N)
    asc.data_copy(gm(y), ub(x.dtype, 2 * N, 8), 8)


def test_a_barrier_waits_for_the_effects_of_its_own_pipe_only() -> None:
    x, y = x_and_y()
    run = simulate(barrier_then_store, x, y, asc.PipeID.PIPE_MTE2)
    first, barrier, second = rows(run, Pipe.MTE2)
    assert first.times == (10, 138, 238)
    assert barrier.kind is Kind.BARRIER
    assert barrier.times == (138, 239, 239)
    assert second.start == 239
    assert work(run, Pipe.MTE3)[0].start == 40


def test_pipe_all_drains_every_pipe_and_stops_the_scalar_unit() -> None:
    x, y = x_and_y()
    run = simulate(barrier_then_store, x, y, asc.PipeID.PIPE_ALL)
    (barrier,) = [row for row in rows(run, Pipe.S) if row.kind is Kind.BARRIER_ALL]
    # Reached at 20; the load is complete at 238; 1 cycle of its own; the next issue 10 cycles later.
    assert barrier.times == (20, 239, 239)
    assert [row.issue for row in work(run, Pipe.MTE2)] == [10, 249]
    assert int(run.columns.scalar[0, Cause.BARRIER]) == 219 * TICKS


@pytest.mark.parametrize("data", [True, False])
def test_the_queue_of_32_makes_the_scalar_unit_wait_with_the_33rd_entry(data: bool) -> None:
    run = simulate(loads, np.zeros(34 * N, np.float32), (N,) * 34, data=data)
    issued = [row.issue for row in work(run, Pipe.MTE2)]
    assert issued[:13] == [10 * (i + 1) for i in range(13)]
    # Copy i starts at 10 + 128 i. The queue holds copies 0..31 until copy 0 leaves it, at 138; by then copy 32 could
    # have been issued at 330, so nothing waits yet: copy 32 needs the slot of copy 0, copy 33 that of copy 1 (266).
    assert issued[31:] == [320, 330, 340]

    fast = simulate(loads, np.zeros(34 * N, np.float32), (N,) * 34, data=data, overrides={"scalar.issue": 2})
    issued = [row.issue for row in work(fast, Pipe.MTE2)]
    # All 32 are in the queue at 64. Copy 0 runs 2..130, copy 1 130..258: the 33rd enters at 130, the 34th at 258.
    assert issued[30:] == [62, 64, 130, 258]
    assert int(fast.columns.scalar[0, Cause.QUEUE]) == (130 - 66 + 258 - 132) * TICKS


def test_flags_take_queue_slots_too() -> None:
    # A queue of two: the load and its SetFlag fill it, so the scalar unit cannot even issue the WaitFlag to V before the
    # third MTE2 entry has found a place.
    @asc.jit
    def flags(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.data_copy(ub(x.dtype, N, N), gm(x), N)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)

    run = simulate(flags, np.zeros(N, np.float32), overrides={"queues.MTE2": 2})
    assert [row.issue for row in rows(run, Pipe.MTE2)] == [10, 20, 138]
    assert rows(run, Pipe.V)[0].issue == 148


def test_a_waiting_entry_keeps_its_slot() -> None:
    # V's queue of one holds the WaitFlag until the flag comes, so the scalar unit stands still until 239.
    @asc.jit
    def stuck(x: asc.GlobalAddress):
        tile = ub(x.dtype, 0, N)
        asc.data_copy(tile, gm(x), N)
        order(asc.HardEvent.MTE2_V)
        asc.adds(tile, tile, 1.0, N)

    run = simulate(stuck, np.zeros(N, np.float32), overrides={"queues.V": 1})
    assert [row.issue for row in rows(run, Pipe.V)] == [30, 239]
    assert int(run.columns.scalar[0, Cause.QUEUE]) == (239 - 40) * TICKS


def test_vector_instructions_have_a_least_cost_and_a_latency() -> None:
    @asc.jit
    def vectors(x: asc.GlobalAddress):
        for i in range(3):
            asc.adds(ub(x.dtype, 2048 * i, 2048), ub(x.dtype, 2048 * i, 2048), 1.0, 8)
        asc.adds(ub(x.dtype, 8256, 2048), ub(x.dtype, 6144, 2048), 1.0, 2048)  # other banks than the source

    run = simulate(vectors, np.zeros(8, np.float32), overrides={"scalar.issue": 1})
    # 8 floats are one repeat, less than the 4 cycles an instruction takes at least; 2048 floats are 32 repeats.
    assert [row.times for row in work(run, Pipe.V)] == [(1, 5, 25), (5, 9, 29), (9, 13, 33), (13, 45, 65)]


def test_programs_longer_than_the_recording_lead_are_issued_without_a_break() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def long(x: asc.GlobalAddress):
        for _ in range(5000):
            asc.duplicate(ub(asc.float32, 0, 8), 0.0, 8)

    run = simulate(long, np.zeros(8, np.float32), data=False)
    assert [row.issue for row in work(run, Pipe.V)] == [10.0 * (i + 1) for i in range(5000)]


def test_scalar_loads_suspend_the_program_and_see_what_was_stored() -> None:
    seen = []

    @asc.jit
    def poll(x: asc.GlobalAddress):
        tile = ub(x.dtype, 0, 8)
        asc.data_copy(tile, gm(x), 8)
        order(asc.HardEvent.MTE2_S)
        seen.append(float(tile.get_value(3)))
        asc.data_copy(ub(x.dtype, 8, 8), gm(x), 8)

    run = simulate(poll, np.arange(8, dtype=np.float32), auto_sync=False)
    assert seen == [3.0]
    # Copy: port 1 cycle, complete at 111. Scalar wait 30..112, GetValue issued 10 later, 5 cycles of its own.
    (wait, get) = (row for row in rows(run, Pipe.S))
    assert wait.times == (30, 112, 112)
    assert get.times == (122, 127, 127)
    assert work(run, Pipe.MTE2)[1].issue == 137


@asc.jit
def three_adds(x: asc.GlobalAddress, y: asc.GlobalAddress):
    one, two, far = ub(x.dtype, 0, N), ub(x.dtype, 4096, N), ub(x.dtype, 8192, N)
    asc.duplicate(one, 1.0, N)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.adds(two, one, 1.0, N)
    asc.adds(far, one, 1.0, N)  # independent of the one before it
    asc.adds(one, two, 1.0, N)  # reads what the first one wrote


@pytest.mark.parametrize("data", [True, False])
def test_a_dependent_vector_instruction_waits_for_its_source_where_the_hardware_orders_them(data: bool) -> None:
    arguments = x_and_y() if data else (asc.GmSpec((N,), asc.float32),) * 2
    _, first, free, chained = work(simulate(three_adds, *arguments, data=data), Pipe.V)
    start = first.times[0]
    assert first.times == (start, start + 16, start + 36)
    assert free.times == (start + 16, start + 32, start + 52)
    # It holds the pipe from 32 on; its source is there at 36, 16 cycles of work follow.
    assert chained.times == (start + 32, start + 52, start + 72)
