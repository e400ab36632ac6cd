"""The two scenarios of bank conflicts: right results wherever operands lie, and cycles reckoned from the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import ConfigError
from tests.scenarios.running import CARDS, scenario

QUIET = {"sync.barrier": 0}
"""The barriers that stand between dependent instructions cost nothing themselves."""


# ---- bank_conflict --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("case", ["s1", "s5", "s6", "s7", "c3", "c12", "c14"])
def test_every_overlay_gives_the_result_of_numpy(card: str, case: str) -> None:
    run, job = scenario("bank_conflict", card, case=case, count=3)
    assert run.correct is True
    assert np.any(job.args[1] != job.args[0])


@pytest.mark.parametrize(("case", "cycles"), [
    ("s1", 88), ("s2", 152), ("s3", 152), ("s4", 88), ("s5", 139), ("s6", 88), ("s7", 134), ("s8", 88),
])  # fmt: skip
def test_the_samples_of_a2(case: str, cycles: int) -> None:
    run, job = scenario("bank_conflict", "atlas_a2", False, QUIET, case=case)
    assert run.metrics["per_instruction_cycles"] == pytest.approx(cycles, abs=0.1)
    (published,) = job.measured
    assert published.metric == "metrics.ticks_for_1000"
    assert run.metrics["ticks_for_1000"] == pytest.approx(published.value, rel=0.02)
    assert job.parameters["count"] == 1000


def test_ticks_and_shares_follow_from_the_cycles() -> None:
    clean, job = scenario("bank_conflict", "atlas_a2", False, QUIET, count=50)
    slow, _ = scenario("bank_conflict", "atlas_a2", False, QUIET, count=50, src1=0x10000)
    assert clean.metrics["conflict_share"] == 0
    assert slow.metrics["conflict_share"] == pytest.approx(64 / 152)
    assert clean.metrics["ns_for_1000"] == pytest.approx(88 / 1850 * 1e6)
    assert clean.metrics["ticks_for_1000"] == pytest.approx(clean.metrics["ns_for_1000"] / 20)
    assert not job.measured


def test_the_samples_of_950_rank_as_published() -> None:
    each = {case: scenario("bank_conflict", "atlas_350:Ascend950PR_9589", False, case=case)[0].metrics["per_instruction_cycles"]
            for case in ("c11", "c12", "c13", "c14")}  # fmt: skip
    assert each["c11"] == each["c13"] == each["c14"] < each["c12"] / 3
    assert scenario("bank_conflict", "atlas_350:Ascend950PR_9589", False, case="c11")[1].notes


@pytest.mark.parametrize(("field", "changes"), [
    ("count", {"count": 0}), ("repeats", {"repeats": 0}), ("repeats", {"repeats": 256}), ("src0", {"src0": 16}),
    ("dst", {"dst": 0x2F000}), ("src1", {"src1": -32}),
])  # fmt: skip
def test_bad_places_are_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("bank_conflict", "atlas_a2", False, **changes)
    assert caught.value.field == field


# ---- ub_nd2nz -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("pitch", [144, 145, 150])
def test_tiles_arrive_in_nz_order(card: str, pitch: int) -> None:
    run, job = scenario("ub_nd2nz", card, rows=304, pitch=pitch, blocks=8)  # 304 = 144 + 144 + 16
    assert run.correct is True
    x, z = job.args[0], job.args[1].reshape(-1, 304, 16)
    assert np.array_equal(z[3, 200], x[200, 48:64])


def test_one_row_of_padding_makes_the_scatter_eight_times_faster() -> None:
    # One tile a core: 144 repeats of 8 cycles or of 1, source in bank 0 and destination in bank 1.
    slow, fast = (scenario("ub_nd2nz", "atlas_a2", False, rows=144, pitch=pitch, blocks=8)[0] for pitch in (144, 145))
    assert slow.metrics["ub_bank_conflict_cycles"] == 8 * 144 * 7
    assert fast.metrics["ub_bank_conflict_cycles"] == 0
    for run, cycles in ((slow, 8 * 144), (fast, 144)):
        assert run.trace.pipes()["aiv"]["V"]["time_us"] == pytest.approx((cycles + 24) / run.card.clock_mhz)


@pytest.mark.parametrize(("field", "changes"), [
    ("rows", {"rows": 100}), ("cols", {"cols": 512}), ("blocks", {"blocks": 12}), ("pitch", {"pitch": 143}),
    ("pitch", {"pitch": 300}),
])  # fmt: skip
def test_bad_shapes_are_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("ub_nd2nz", "atlas_a2", False, **changes)
    assert caught.value.field == field
