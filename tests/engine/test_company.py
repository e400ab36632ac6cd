"""What transfers do to others while they run: cores on one line of L2, loads out of an L1 that fills, stores beside a bypass.

Cards as in `engine_helpers.ROUND`: entry k is issued at 10 * k, ports move 32 B per cycle, effects take 100 cycles more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.engine.columns import Cause
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Run
from tests.engine.engine_helpers import TICKS, gm, order, simulate, ub, work

N = 1024
"""float32 elements of a copy: 4096 B, 128 cycles through a port."""
either = pytest.mark.parametrize("data", [True, False])


# ---- several cores on one line --------------------------------------------------------------------------------------
CROWD: dict[str, object] = {
    "clock_mhz": 1000, "l2.read_rate": 64, "l2.same_line_window": 100, "l2.same_line_cost": 3,
}  # fmt: skip
"""L2 moves 64 B per cycle, what two ports take; lines are shared within 100 cycles and cost three times as much then."""


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def read(x: asc.GlobalAddress, pieces: asc.ConstExpr):
    """Pieces of N elements, in the order given for each block."""
    for piece in pieces[int(asc.get_block_idx())]:
        asc.data_copy(ub(x.dtype, 0, N), gm(x, piece * N), N)


def reads(*pieces: tuple[int, ...], **options: Any) -> Run:
    numbers = {**CROWD, **options.pop("overrides", {})}
    return simulate(read, np.zeros(4 * N, np.float32), pieces, blocks=len(pieces), overrides=numbers, **options)


def queued(run: Run) -> list[int]:
    """Ticks of each core's MTE2 behind others on the same lines."""
    return run.trace.ticks_by_cause()[:, Pipe.MTE2, Cause.BW_SAME_ADDRESS].tolist()


def times(run: Run, core: int) -> list[tuple[float, float, float]]:
    return [row.times for row in work(run, Pipe.MTE2, core)]


@either
def test_the_second_on_a_line_keeps_l2_busy_for_longer(data: bool) -> None:
    run = reads((0,), (0,), data=data)
    # Core 0 takes 1 of L2 for each byte, core 1, which meets it on every line, 3: of 64 B a cycle both get 16.
    assert times(run, 0) == times(run, 1) == [(10, 266, 366)]
    # Two of its three parts are the waiting of core 1.
    assert queued(run) == [0, pytest.approx(256 * TICKS * 2 / 3, abs=1)]
    ticks = run.trace.ticks_by_cause()[:, Pipe.MTE2]
    assert ticks[0, Cause.BW_L2] == ticks[1, Cause.BW_L2] + queued(run)[1] == 256 * TICKS


@either
def test_cores_that_start_at_different_places_do_not_meet(data: bool) -> None:
    # 128 cycles lie between the two on either piece.
    run = reads((0, 1), (1, 0), data=data)
    for core in range(2):
        assert times(run, core) == [(10, 138, 238), (138, 266, 366)]
    assert queued(run) == [0, 0]
    together = reads((0, 1), (0, 1), data=data)
    assert together.columns.length > run.columns.length
    assert queued(together)[1] > 0


@either
@pytest.mark.parametrize(("later", "meet"), [(99, True), (100, False)])
def test_cores_that_start_one_after_another_meet_within_the_window(later: int, meet: bool, data: bool) -> None:
    run = reads((0,), (0,), data=data, overrides={"launch.per_block_us": later / 1000, "l2.read_rate": 32})
    assert times(run, 1)[0][0] == later + 10
    assert (queued(run)[1] > 0) is meet
    assert queued(run)[0] == 0


def test_a_line_of_ones_own_costs_nothing_more() -> None:
    run = reads((0, 0, 0))
    assert [free - start for start, free, _ in times(run, 0)] == [128] * 3
    assert queued(run) == [0]


def test_without_contention_nobody_waits_for_a_line() -> None:
    run = reads((0,), (0,), contention=False)
    assert times(run, 0) == times(run, 1) == [(10, 138, 238)]
    assert queued(run) == [0, 0]
    assert run.contention is not None
    assert run.contention.cost_us == pytest.approx(0.128)


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def gather(x: asc.GlobalAddress):
    """Single elements from four lines, by NDDMA."""
    row = asc.NdDmaParams(asc.NdDmaLoopInfo(loop_src_stride=(128,), loop_dst_stride=(1,), loop_size=(8,)))
    asc.data_copy(ub(x.dtype, 0, 8), gm(x), row)


@pytest.mark.parametrize(("later", "meet"), [(0, True), (5000, False)])
def test_misses_of_nddma_meet_others_at_their_own_time(later: int, meet: bool) -> None:
    numbers = {**CROWD, "l2.read_rate": 1, "launch.per_block_us": later / 1000}
    run = simulate(gather, np.zeros(8 * 128, np.float32), blocks=2, overrides=numbers)
    assert (queued(run)[1] > 0) is meet


# ---- loads out of an L1 that fills ----------------------------------------------------------------------------------
HALF = 8192
"""half elements of a load: 16 KB, 64 cycles to L0A at 256 B per cycle on A2 after a head of 1."""
SHARE: dict[str, object] = {"l1.read_share": 0.5}


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def fill_beside(x: asc.GlobalAddress, fill: asc.ConstExpr[int], loads: asc.ConstExpr):
    """A copy of `fill` halfs into L1, and loads out of another part of it; "wait" is a flag of the copy, "all" a barrier."""
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, 4 * HALF)
    l0a = asc.LocalTensor(x.dtype, asc.TPosition.A2, 0, HALF)
    if fill:
        asc.data_copy(l1[HALF], gm(x), fill)
    for what in loads:
        if what == "wait":
            order(asc.HardEvent.MTE2_MTE1)
        elif what == "all":
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        else:
            asc.load_data(l0a, l1, asc.LoadData2DParams(repeat_times=HALF // 256, src_stride=1))


def took(fill: int, *loads: str, data: bool = False, **numbers: object) -> list[tuple[float, float]]:
    """(start, cycles) of the loads."""
    run = simulate(fill_beside, np.zeros(2 * HALF, np.float16), fill, loads, card="atlas_a2", data=data, checks=False,
                   overrides={**SHARE, **numbers})  # fmt: skip
    return [(row.start, row.free - row.start) for row in work(run, Pipe.MTE1)]


@either
def test_a_load_beside_a_transfer_into_l1_has_its_share_of_the_rate(data: bool) -> None:
    # The copy of 32 KB is under way from 10 to 1034.
    assert took(2 * HALF, "load", data=data) == [(20, 1 + 64 * 2)]
    assert took(2 * HALF, "load", data=data, **{"l1.read_share": 0.8}) == [(20, 1 + 64 * 1.25)]
    assert took(0, "load", data=data) == [(10, 1 + 64)]


@either
def test_a_load_behind_the_transfer_has_the_whole_rate(data: bool) -> None:
    # 4 KB until 138, its bytes are there at 238; the flag is seen at 239.
    assert took(2048, "wait", "load", data=data) == [(239, 65)]


@either
@pytest.mark.parametrize("between", ["wait", "all"])
def test_loads_look_anew_behind_a_wait_or_with_nothing_left_to_do(between: str, data: bool) -> None:
    first, second, third = took(2048, "load", "load", between, "load", data=data)
    # The second belongs to the moment of the first, although the copy is over by then.
    assert (first, second) == ((20, 129), (149, 129))
    assert third[1] == 65


# ---- stores beside loads that go past L2 ----------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def pass_and_store(x: asc.GlobalAddress, past: asc.ConstExpr[bool], wait: asc.ConstExpr[bool]):
    """A load of 32 KB, past L2 or not, and a store of 4 KB beside or behind it."""
    source = gm(x)
    if past:
        source.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_DISABLE)
    asc.data_copy(ub(x.dtype, 0, 8 * N), source, 8 * N)
    if wait:
        order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(x, 8 * N), ub(x.dtype, 8 * N, N), N)


@either
@pytest.mark.parametrize(("past", "wait", "store"), [
    (True, False, (20, 20 + 512, 632)),  # 8 B a cycle
    (False, False, (20, 20 + 128, 248)),
    (True, True, (1135, 1263, 1363)),  # the load is over at 1034, complete at 1134
])  # fmt: skip
def test_a_store_beside_a_load_past_l2_is_slow(past: bool, wait: bool, store: tuple[float, ...], data: bool) -> None:
    run = simulate(pass_and_store, np.zeros(9 * N, np.float32), past, wait, card="atlas_a2", data=data, checks=False,
                   overrides={"gm.UB-GM.rate_beside_bypass": 8})  # fmt: skip
    assert [row.times for row in work(run, Pipe.MTE2)] == [(10, 1034, 1134)]
    assert [row.times for row in work(run, Pipe.MTE3)] == [store]


def test_a_card_without_such_a_rate_stores_as_ever() -> None:
    run = simulate(pass_and_store, np.zeros(9 * N, np.float32), True, False, data=False)
    assert [row.times for row in work(run, Pipe.MTE3)] == [(20, 148, 248)]
