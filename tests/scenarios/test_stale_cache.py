"""Scenarios whose private caches hold old bytes: right with the invalidate or clean, wrong without, on every card."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from tests.scenarios.running import scenario

COUPLED = "atlas_200i"
CACHED = ("atlas_a2", "atlas_a3", "atlas_350")
"""Cards with several cores."""
NO_NDDMA = ("atlas_a2", "atlas_a3", COUPLED)


# ---- the NDDMA cache ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dci", "right"), [("true", True), ("false", False), ("early", False)])
@pytest.mark.parametrize("line", [64, 128, 256, 512])
def test_only_an_invalidate_behind_the_meeting_helps_whatever_the_line(dci: str, right: bool, line: int) -> None:
    run, job = scenario("stale_cache", overrides={"nddma.line": line}, dci=dci)
    x, _, y = job.args[:3]
    assert run.correct is right
    before, after = y[:, :, 0], y[:, :, 1]
    assert (before < 0).all()  # everybody has looked before the slot was written
    assert np.array_equal(after, np.broadcast_to(x, after.shape) if right else before)
    assert run.warnings == []


@pytest.mark.parametrize(("distance", "line", "old"), [
    (8, 64, 56), (8, 128, 56), (32, 128, 32), (48, 128, 16),  # a part of what is read had been looked at
    (64, 64, 0), (64, 256, 0), (64, 512, 64),  # neighbours: in one line of 512 B only
    (96, 512, 32), (96, 256, 0), (128, 512, 0),
])  # fmt: skip
def test_with_a_distance_the_line_decides_which_numbers_are_old(distance: int, line: int, old: int) -> None:
    run, job = scenario("stale_cache", overrides={"nddma.line": line}, dci="false", distance=distance)
    after = job.args[2][:, :, 1]
    assert (after[:, :, :old] < 0).all()
    assert (after[:, :, old:] == job.args[0][:, old:]).all()
    assert run.correct is (old == 0)
    assert scenario("stale_cache", overrides={"nddma.line": line}, distance=distance)[0].correct is True


def test_a_wrong_form_says_how_many_numbers_are_old() -> None:
    _, job = scenario("stale_cache", dci="false", cores=3, rounds=2)
    assert job.show is not None
    assert job.show(job.args) == "256 of 256 numbers read behind the SyncAlls are old"


@pytest.mark.parametrize("n", [8, 104, 256])
def test_a_core_that_reads_its_own_output_back(n: int) -> None:
    run, job = scenario("cumsum_inplace", n=n, cores=3)
    assert run.correct is True
    assert (np.diff(job.args[0], axis=1) > 0).all()
    assert scenario("cumsum_inplace", n=n, cores=3, dci=False)[0].correct is False


def test_input_that_nobody_rewrites_needs_no_invalidate() -> None:
    run, _ = scenario("nddma_read_only")
    assert run.correct is True
    assert run.metrics["stale_hit"] == 0
    assert run.metrics["hit"] > run.metrics["miss"] > 0
    assert "nddma_invalidate" not in run.columns.counters or run.columns.counters["nddma_invalidate"] == 0


@pytest.mark.parametrize("name", ["stale_cache", "cumsum_inplace", "nddma_read_only"])
@pytest.mark.parametrize("card", NO_NDDMA)
def test_nddma_scenarios_are_refused_without_it(name: str, card: str) -> None:
    with pytest.raises(UnsupportedError, match="NDDMA"):
        scenario(name, card)


@pytest.mark.parametrize("card", CACHED)
@pytest.mark.parametrize("reader", ["auto", "nddma", "scalar"])
def test_the_second_launch_reads_what_the_first_one_wrote(card: str, reader: str) -> None:
    if reader == "nddma" and card != "atlas_350":
        with pytest.raises(UnsupportedError, match="NDDMA"):
            scenario("two_launches", card, reader=reader)
        return
    run, job = scenario("two_launches", card, reader=reader)
    assert run.correct is True
    assert job.parameters["reader"] == (("nddma" if card == "atlas_350" else "scalar") if reader == "auto" else reader)
    assert scenario("two_launches", card, reader=reader, dci=False)[0].correct is False


# ---- the scalar data cache ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("drop", "right"), [("none", True), ("clean", False), ("invalidate", False), ("dsb", True)])
@pytest.mark.parametrize("card", CACHED)
def test_a_result_and_its_flag(card: str, drop: str, right: bool) -> None:
    run, job = scenario("dcache_flags", card, drop=drop)
    assert run.correct is right
    first = job.args[2][:, 0]
    if drop == "invalidate":  # nothing old is there in the first round; afterwards it is the first result again
        assert (first == 1000 + np.arange(16)).all()
        assert (job.args[2] == first[:, None]).all()
    if drop == "clean":  # the kernel's own end brings the words to GM, too late for the readers
        assert (job.args[2] == 0).all()
        assert (job.args[0] == 3000 + np.arange(16)).all()


def test_without_data_the_cores_meet_instead_of_polling() -> None:
    run, job = scenario("dcache_flags", data=False)
    assert run.correct is None
    assert "SyncAll" in job.notes[0]


@pytest.mark.parametrize("pitch", [4, 16, 32, 60, 64, 68, 96, 128])
@pytest.mark.parametrize("card", CACHED)
def test_the_line_decides_not_the_words(card: str, pitch: int) -> None:
    run, job = scenario("false_sharing", card, pitch=pitch, cores=5)
    counters = job.args[0][:: pitch // 4]
    assert run.correct is (pitch >= 64)
    lines = np.arange(5) * pitch // 64
    for line in np.unique(
        lines
    ):  # exactly one of those that share a line, the last to write it back, keeps its last count
        assert (counters[lines == line] == 3).sum() == 1


@pytest.mark.parametrize("name", ["two_launches", "dcache_flags", "false_sharing"])
def test_one_coupled_core_has_nobody_to_share_with(name: str) -> None:
    with pytest.raises(UnsupportedError):
        scenario(name, COUPLED)


@pytest.mark.parametrize(("name", "field", "value", "error"), [
    ("stale_cache", "distance", -1, ConfigError), ("stale_cache", "n", 12, ConfigError),
    ("stale_cache", "cores", 1, ConfigError), ("stale_cache", "cores", 57, CapacityError),
    ("stale_cache", "rounds", 0, ConfigError), ("stale_cache", "n", 1 << 20, ConfigError),
    ("cumsum_inplace", "n", 4, ConfigError), ("cumsum_inplace", "cores", 57, CapacityError),
    ("nddma_read_only", "rows", 12, ConfigError), ("nddma_read_only", "tile", 5, ConfigError),
    ("nddma_read_only", "rows", 8192, ConfigError), ("nddma_read_only", "cores", 0, CapacityError),
    ("two_launches", "n", 64, ConfigError), ("two_launches", "cores", 1, CapacityError),
    ("dcache_flags", "n", 8, ConfigError), ("dcache_flags", "cores", 1, CapacityError),
    ("false_sharing", "pitch", 6, ConfigError), ("false_sharing", "rounds", 0, ConfigError),
    ("false_sharing", "cores", 57, CapacityError),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(name: str, field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        scenario(name, **{field: value})
    assert getattr(caught.value, "field", None) in (field, "tile")
