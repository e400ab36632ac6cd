"""Copies between GM and UB: who reads what, and times reckoned by hand from card numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.columns import Cause
from aicore_sim.errors import CapacityError, ConfigError, DeadlockError, OutOfBoundsError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Run
from aicore_sim.scenario import load_scenario
from tests.scenarios.running import CARDS, EVEN, cycles, rows, scenario


# ---- data_copy: who reads what --------------------------------------------------------------------------------------
def first_bytes(run: Run, core: int) -> list[int]:
    """GM start of every copy of a core, relative to the start of the matrix."""
    c = run.columns
    start = min(int(c.arg[i]) for k in range(len(c.cores)) for i in rows(run, Pipe.MTE2, k))
    return [int(c.arg[i]) - start for i in rows(run, Pipe.MTE2, core)]


def moved(run: Run) -> int:
    """Bytes read from GM: found in L2 or not."""
    return int(run.columns.gm[:, 5:7].sum())


SIZE: dict[str, Any] = {"M": 8, "N": 96, "tileM": 2, "tileN": 32, "blocks": 2, "data": False}


@pytest.mark.parametrize("dst", ["UB", "L1"])
def test_once_every_core_walks_its_own_rows_tile_by_tile(dst: str) -> None:
    run, job = scenario("data_copy", dst=dst, **SIZE)
    # Rows of 192 B; core 1 owns rows 4..7. Tiles of 2 rows, 3 tiles of 64 B side by side.
    assert first_bytes(run, 0) == [0, 64, 128, 384, 448, 512]
    assert first_bytes(run, 1) == [768, 832, 896, 1152, 1216, 1280]
    assert moved(run) == 8 * 96 * 2
    assert run.columns.cores[0].kind == ("aiv" if dst == "UB" else "aic")
    assert job.expect is None


def test_repeats_read_everything_four_times_whole_or_in_slices() -> None:
    whole, _ = scenario("data_copy", order="repeat_whole", **SIZE)
    slices, _ = scenario("data_copy", order="repeat_slices", **SIZE)
    assert moved(whole) == moved(slices) == 4 * 8 * 96 * 2
    assert first_bytes(whole, 0)[:12] == [0, 64, 128, 384, 448, 512] * 2
    # Slices of 24 columns, narrower than the tile: one copy of 48 B for two rows, four times, then the next slice.
    assert first_bytes(slices, 0) == [at + part for part in (0, 48, 96, 144) for at in [0, 384] * 4]


def test_shared_orders_read_the_whole_matrix_on_every_core() -> None:
    same, _ = scenario("data_copy", order="same_address", **SIZE)
    rotated, _ = scenario("data_copy", order="rotated", **SIZE)
    assert first_bytes(same, 0) == first_bytes(same, 1) == first_bytes(rotated, 0)
    half = len(first_bytes(same, 0)) // 2
    assert first_bytes(rotated, 1) == first_bytes(same, 1)[half:] + first_bytes(same, 1)[:half]
    assert moved(same) == moved(rotated) == 2 * 8 * 96 * 2


@pytest.mark.parametrize("dst", ["UB", "L1"])
@pytest.mark.parametrize("order", ["once", "repeat_whole", "same_address", "rotated"])
def test_tails_in_both_directions_are_read(dst: str, order: str) -> None:
    # 7 rows over two cores: 4 and 3; 45 columns: 32 and 13.
    run, _ = scenario("data_copy", dst=dst, order=order, **{**SIZE, "M": 7, "N": 45})
    factor = {"once": 1, "repeat_whole": 4}.get(order, 2)
    assert moved(run) == factor * 7 * 45 * 2
    assert len(rows(run, Pipe.MTE2, 0)) == {"once": 4, "repeat_whole": 16}.get(order, 8)


def test_more_cores_than_rows() -> None:
    run, _ = scenario("data_copy", **{**SIZE, "M": 1, "blocks": 4})
    assert [len(rows(run, Pipe.MTE2, core)) for core in range(4)] == [3, 0, 0, 0]


def test_tiles_that_do_not_fit_are_refused_by_the_buffer() -> None:
    with pytest.raises(CapacityError, match="UB"):
        scenario("data_copy", "atlas_a2", **{**SIZE, "M": 128, "tileM": 64, "N": 2048, "tileN": 2048})


@pytest.mark.parametrize(
    ("parameters", "error", "names"),
    [
        ({"tileN": 0}, ConfigError, "tileN"),
        ({"N": 95, "order": "repeat_slices"}, ConfigError, "N"),
    ],
)
def test_sizes_are_checked(parameters: dict[str, Any], error: type[Exception], names: str) -> None:
    with pytest.raises(error, match=names):
        scenario("data_copy", **{**SIZE, **parameters})


def test_200i_has_neither_hints_nor_nd2nz() -> None:
    for parameters in ({"l2": "disable"}, {"dst": "L1"}):
        with pytest.raises(UnsupportedError):
            scenario("data_copy", "atlas_200i", **{**SIZE, "blocks": 1, **parameters})


def test_published_runs_carry_their_measured_values() -> None:
    loaded = load_scenario("data_copy")
    words = "dst=UB M=12288 N=12288 tileM=64 tileN=1024 order={} l2=normal"
    card = load_card("atlas_a2:Ascend910B1")
    once = loaded.build(card, loaded.parse(words.format("once").split()), False)
    assert {m.metric: m.value for m in once.measured} == {"time_us": 215.82, "pipes.aiv.MTE2.time_us": 202.657}
    whole = loaded.build(card, loaded.parse(words.format("repeat_whole").split()), False)
    assert {m.metric: m.value for m in whole.measured} == {"time_us": 828.06, "core_time_us": 816.05}


# ---- dma_latency ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", ["GM-UB", "UB-GM"])
@pytest.mark.parametrize("card", CARDS)
def test_latency_runs_on_every_card_and_up_to_the_whole_of_ub(card: str, direction: str) -> None:
    size = int(load_card(card).value("buffers.UB.size"))
    run, _ = scenario("dma_latency", card, direction=direction, bytes=size, iterations=2)
    assert run.correct is True
    with pytest.raises(CapacityError):
        scenario("dma_latency", card, direction=direction, bytes=size + 32)


def test_latency_of_a_copy_by_hand() -> None:
    # 128 B at 128 B/cycle is less than the issue cost of 20: start to start 20 + 200 + 4 (barrier) + 3 (issue) = 227
    # cycles, the last copy 220. 12800 B: 100 instead of 20.
    for nbytes, pitch in ((128, 227), (12800, 307)):
        run, _ = scenario("dma_latency", "atlas_a3", overrides={**EVEN, "clock_mhz": 1000}, bytes=nbytes, iterations=10)
        starts = cycles(run.columns.start[rows(run, Pipe.MTE2)])
        assert np.all(np.abs(np.diff(starts) - pitch) <= 1 / 128)
        assert run.metrics["per_copy_ns"] == pytest.approx((9 * pitch + pitch - 7) / 10, abs=0.01)


def test_the_first_copy_misses_and_is_not_counted() -> None:
    numbers = {**EVEN, "gm.GM-UB.miss_latency": 1000}
    warm, _ = scenario("dma_latency", "atlas_a3", overrides=numbers, bytes=1024, iterations=4)
    cold, _ = scenario("dma_latency", "atlas_a3", overrides=numbers, bytes=1024, iterations=4, warm_up=False)
    extra = (cold.metrics["per_copy_ns"] - warm.metrics["per_copy_ns"]) * 4 * warm.card.clock_mhz / 1e3
    assert extra == pytest.approx(1000, abs=0.1)


@pytest.mark.parametrize(("field", "value"), [("bytes", 40), ("bytes", 0), ("iterations", 0)])
def test_latency_parameters_are_checked(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        scenario("dma_latency", **{field: value})


# ---- occupancy, bandwidth, queues, deadlocks ------------------------------------------------------------------------
@asc.jit
def loads(x: asc.GlobalAddress, n: asc.ConstExpr[int], times: asc.ConstExpr[int]) -> None:
    """`times` copies of n floats of this core's own part of x."""
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + int(asc.get_block_idx()) * n * times)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    for i in range(times):
        asc.data_copy(ub, x_gm[i * n], n)


def run_loads(nbytes: int, times: int, blocks: int = 1, **numbers: Any) -> Run:
    spec = asc.GmSpec((blocks * times * nbytes // 4,), asc.float32)
    return asc.simulate(loads, spec, nbytes // 4, times, blocks=blocks, card="atlas_a2", data=False,
                        overrides={**EVEN, **numbers})  # fmt: skip


def busy(run: Run, core: int = 0) -> NDArray[Any]:
    """Cycles from start to free of the loads of a core."""
    at = rows(run, Pipe.MTE2, core)
    return np.asarray(cycles(run.columns.free[at] - run.columns.start[at]))


def test_small_copies_without_waits_are_bound_by_issue_cost_not_by_latency() -> None:
    run = run_loads(128, 50)
    at = rows(run, Pipe.MTE2)
    assert np.all(np.diff(cycles(run.columns.start[at])) == 20)
    assert np.all(cycles(run.columns.end[at] - run.columns.start[at]) == 220)
    # The first starts after core start and one issue, the last ends 220 cycles after its start.
    assert run.cycles == 50 + 3 + 49 * 20 + 220


def test_two_cores_share_the_memory_evenly() -> None:
    # Memory for 64 B/cycle at 1850 MHz, the port takes 128: 12800 B take 200 cycles alone and 400 in company.
    numbers = {"hbm.attainable": 1.0, "memory_rate": 64 * 1.85}
    assert busy(run_loads(12800, 4, **numbers)) == pytest.approx([200] * 4, abs=0.02)
    both = run_loads(12800, 4, blocks=2, **numbers)
    for core in range(2):
        assert busy(both, core) == pytest.approx([400] * 4, abs=0.02)
        ticks = both.trace.ticks_by_cause()[core, Pipe.MTE2]
        assert ticks[Cause.BW_HBM] / 256 == pytest.approx(1600, abs=0.1)
        assert ticks[Cause.BW_PORT] == ticks[Cause.BW_L2] == 0


def test_without_contention_each_core_has_the_memory_to_itself() -> None:
    spec = asc.GmSpec((2 * 3200,), asc.float32)
    run = asc.simulate(loads, spec, 3200, 1, blocks=2, card="atlas_a2", data=False, contention=False,
                       overrides={**EVEN, "hbm.attainable": 1.0, "memory_rate": 64 * 1.85})  # fmt: skip
    assert [busy(run, core)[0] for core in range(2)] == pytest.approx([200, 200], abs=0.02)


def test_a_core_that_needs_little_leaves_the_rest_to_the_other() -> None:
    # Max-min: the port of 16 B/cycle limits nobody else when memory has 64; two cores then run at their port.
    run = run_loads(12800, 1, blocks=2, **{"hbm.attainable": 1.0, "memory_rate": 64 * 1.85, "gm.GM-UB.port_rate": 16})
    assert [busy(run, core)[0] for core in range(2)] == pytest.approx([800, 800], abs=0.02)


def test_the_33rd_entry_of_a_queue_of_32_waits_for_the_first_to_leave() -> None:
    run = run_loads(12800, 40)
    c = run.columns
    at = rows(run, Pipe.MTE2)
    issue, free = cycles(c.issue[at]), cycles(c.free[at])
    assert np.array_equal(issue[:32], 50 + 3 * np.arange(1, 33))
    assert free[0] == 50 + 3 + 100
    # 50 + 33 * 3 = 149 would be its turn; the slot of the first comes free at 153, then one every 100 cycles.
    assert np.array_equal(issue[32:], 153 + 100 * np.arange(8))
    stalled = run.trace.ticks_by_cause()[0, Pipe.S, Cause.QUEUE] / 256
    assert stalled == (153 - 149) + 7 * (100 - 3)
    assert "queue" in run.trace.stalls()["cause"].tolist()


@asc.jit
def wrong_order(x: asc.GlobalAddress) -> None:
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
    asc.wait_flag(asc.HardEvent.V_MTE2, 3)  # MTE2 waits for V ...
    asc.data_copy(ub, x_gm, 64)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)  # ... which waits for MTE2
    asc.add(ub, ub, ub, 64)
    asc.set_flag(asc.HardEvent.V_MTE2, 3)


def test_events_in_the_wrong_order_deadlock_by_name() -> None:
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(wrong_order, np.zeros(64, np.float32), card="atlas_a2")
    text = str(caught.value)
    assert "MTE2 waits for V_MTE2 id 3" in text and "V waits for MTE2_V id 0" in text
    assert "cycle" in text
    assert caught.value.file is not None and caught.value.file.endswith("test_copies.py")
    assert len(caught.value.cycle) == 2


@asc.jit
def never_set(x: asc.GlobalAddress) -> None:
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
    asc.wait_flag(asc.HardEvent.MTE2_V, 5)
    asc.add(ub, ub, ub, 64)


def test_an_event_that_nobody_sets_is_named() -> None:
    with pytest.raises(DeadlockError, match="MTE2_V id 5"):
        asc.simulate(never_set, np.zeros(64, np.float32), card="atlas_350")


@asc.jit
def beyond(x: asc.GlobalAddress) -> None:
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 128)
    asc.data_copy(ub, x_gm, 128)


def test_a_copy_past_the_array_fails_at_its_line() -> None:
    with pytest.raises(OutOfBoundsError) as caught:
        asc.simulate(beyond, np.zeros(64, np.float32), card="atlas_a2")
    assert caught.value.line is not None and caught.value.file is not None
    with open(caught.value.file) as source:
        assert "asc.data_copy(ub, x_gm, 128)" in source.readlines()[caught.value.line - 1]
