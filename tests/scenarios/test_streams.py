"""Streams of Mmad and LoadData: right results, and times reckoned by hand from card numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_sim.cards import load_card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.scenario import load_scenario
from tests.scenarios.running import CARDS, cycles, rows, scenario

CUBE: dict[str, Any] = {
    "scalar.issue": 3, "mmad.issue_min": 3, "mmad.latency": 62, "mmad.accumulate_head": 9, "sync.barrier_all": 4,
    "paths.L1-L0A.rate": 256, "paths.L1-L0A.occupancy_head": 1, "paths.L1-L0A.latency": 28,
    "paths.L1-L0B.rate": 128, "paths.L1-L0B.occupancy_head": 1, "paths.L1-L0B.latency": 28,
}  # fmt: skip


# ---- Mmad: results --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("unit_flag", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("card", CARDS)
def test_products_are_right_on_every_card(card: str, accumulate: bool, unit_flag: bool) -> None:
    if card == "atlas_200i" and unit_flag:
        with pytest.raises(UnsupportedError, match="unit_flag"):
            scenario("mmad_stream", card, unit_flag=True)
        return
    run, job = scenario("mmad_stream", card, m=96, n=64, k=40, count=3, accumulate=accumulate, unit_flag=unit_flag)
    assert run.correct is True
    assert np.any(job.args[2])


@settings(max_examples=12)
@given(m=st.integers(2, 80), n=st.integers(1, 80), k=st.integers(1, 70), count=st.integers(1, 3),
       card=st.sampled_from(["atlas_a3", "atlas_350", "atlas_200i"]))  # fmt: skip
def test_any_shape_is_right_with_barriers(m: int, n: int, k: int, count: int, card: str) -> None:
    assert scenario("mmad_stream", card, m=m, n=n, k=k, count=count, barrier=True)[0].correct is True


def test_the_sum_grows_with_the_number_of_mmads() -> None:
    once, thrice = (scenario("mmad_stream", m=64, n=64, k=16, count=count)[1].args[2] for count in (1, 3))
    assert np.array_equal(thrice, 3 * once)


# ---- Mmad: times ----------------------------------------------------------------------------------------------------
def test_independent_mmads_take_their_steps_and_no_more() -> None:
    # 64 x 64 x 64 in half: 4 * 4 * 4 = 64 steps; 16 x 16 x 16: one step, but the cube takes 3 cycles at least.
    for size, pitch in ((64, 64), (16, 3)):
        run, _ = scenario("mmad_stream", "atlas_a3", False, CUBE, m=size, n=size, k=size, count=20, accumulate=False)
        assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.M)])) == pitch)
        assert run.metrics["total_cycles"] == 20 * pitch + 62


def test_accumulating_mmads_pay_nine_cycles_each_after_the_first() -> None:
    # 128 x 256 x 64: 512 steps; the isolated time of the last stays steps + 62.
    run, _ = scenario("mmad_stream", "atlas_a2", False, CUBE)
    assert np.array_equal(np.diff(cycles(run.columns.start[rows(run, Pipe.M)])), [512] + [521] * 6)
    assert run.metrics["total_cycles"] == 512 + 6 * 521 + 512 + 62


def test_barriers_expose_the_latency() -> None:
    run, _ = scenario("mmad_stream", "atlas_a3", False, CUBE, m=64, n=64, k=64, count=5, accumulate=False, barrier=True)
    # 64 steps + 62 until the result is there + 4 of the barrier + 3 to issue the next.
    assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.M)])) == 64 + 62 + 4 + 3)


def test_unit_flags_let_fixpipe_follow_block_by_block() -> None:
    def overlap(unit_flag: bool) -> tuple[float, float]:
        run, _ = scenario("mmad_stream", "atlas_a2", False, CUBE, count=4, unit_flag=unit_flag)
        c = run.columns
        last, store = rows(run, Pipe.M)[-1], rows(run, Pipe.FIX)[0]
        assert c.free[store] > c.free[last]
        return float(c.free[last] - c.start[store]) / 256, run.cycles

    with_flag, without = overlap(True), overlap(False)
    assert with_flag[0] > 0, "Fixpipe is in progress before the last Mmad is through"
    assert without[0] < 0
    assert with_flag[1] < without[1]


# ---- Mmad: limits ---------------------------------------------------------------------------------------------------
def test_l0c_of_the_card_limits_the_tile() -> None:
    with pytest.raises(CapacityError, match="L0C"):
        scenario("mmad_stream", "atlas_a2", m=256, n=256, k=64)
    assert scenario("mmad_stream", "atlas_350", m=256, n=256, k=64, count=1)[0].correct is True


@pytest.mark.parametrize(("m", "n", "buffer"), [(256, 16, "L0A"), (16, 256, "L0B")])
def test_l0a_and_l0b_limit_the_depth(m: int, n: int, buffer: str) -> None:
    scenario("mmad_stream", "atlas_a3", False, m=m, n=n, k=128, count=1)  # 64 KB
    with pytest.raises(CapacityError, match=buffer):
        scenario("mmad_stream", "atlas_a3", False, m=m, n=n, k=144, count=1)


@pytest.mark.parametrize("parameters", [{"m": 1}, {"n": 0}, {"count": 0}, {"unit_flag": True, "barrier": True}])
def test_parameters_are_checked(parameters: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        scenario("mmad_stream", "atlas_a2", **parameters)


@pytest.mark.parametrize(
    ("card", "clock", "words", "metric", "value"),
    [
        ("atlas_a2:Ascend910B1", 1850, "m=128 n=256 k=64 count=8 unit_flag=true", "total_cycles", 4209.0),
        ("atlas_a3:Ascend910_9362", 1650, "m=16 n=16 k=16 count=200 barrier=true", "per_instruction_ns", 30.918),
        ("atlas_a3:Ascend910_9362", 1500, "m=16 n=16 k=16 count=200 barrier=true", "", 0.0),
    ],
)
def test_published_runs_carry_their_measured_values(
    card: str, clock: int, words: str, metric: str, value: float
) -> None:
    loaded = load_scenario("mmad_stream")
    job = loaded.build(load_card(card, {"clock_mhz": clock}), loaded.parse(words.split()), False)
    assert {m.metric: m.value for m in job.measured} == ({f"metrics.{metric}": value} if metric else {})


# ---- LoadData -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("api", ["LoadData2DParams", "LoadData2DParamsV2", "LoadData3DParamsV2"])
@pytest.mark.parametrize("dst", ["A2", "B2"])
@pytest.mark.parametrize("card", CARDS)
def test_loads_move_their_bytes_or_are_refused(card: str, dst: str, api: str) -> None:
    if api == "LoadData2DParamsV2" and card != "atlas_350":
        with pytest.raises(UnsupportedError) as caught:
            scenario("load_stream", card, api=api, dst=dst)
        assert caught.value.file is not None and caught.value.file.endswith("load_stream.py")
        return
    run, job = scenario("load_stream", card, api=api, dst=dst, bytes=4096, count=3)
    at = rows(run, Pipe.MTE1)
    assert [run.columns.ops[int(i)].nbytes for i in run.columns.op[at]] == [4096] * 3
    assert job.expect is None and not run.warnings


@pytest.mark.parametrize(("dst", "transfer"), [("A2", 32), ("B2", 64)])
def test_a_stream_of_loads_pays_bytes_over_rate_and_barriers_the_latency(dst: str, transfer: int) -> None:
    # 8192 B at 256 or 128 B/cycle, head 1; isolated latency 28 + transfer, barrier 4, issue 3.
    run, _ = scenario("load_stream", "atlas_a2", False, CUBE, dst=dst, count=9)
    assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.MTE1)])) == transfer + 1)
    assert run.metrics["bytes_per_cycle"] == pytest.approx(9 * 8192 / (8 * (transfer + 1) + transfer + 28))
    run, _ = scenario("load_stream", "atlas_a2", False, CUBE, dst=dst, count=9, barrier=True)
    assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.MTE1)])) == 28 + transfer + 4 + 3)


def test_loads_beyond_l0_are_refused_by_the_buffer() -> None:
    scenario("load_stream", "atlas_a2", False, bytes=65536, count=1)
    with pytest.raises(CapacityError, match="L0A"):
        scenario("load_stream", "atlas_a2", False, bytes=66048, count=1)


@pytest.mark.parametrize(("field", "value"), [("bytes", 500), ("bytes", 256 * 512), ("count", 0)])
def test_load_parameters_are_checked(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        scenario("load_stream", **{field: value})
