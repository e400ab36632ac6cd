"""Scenarios whose flags and meetings can be left out: right when complete, wrong or stuck without, on every card."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import CapacityError, ConfigError, DeadlockError, UnsupportedError
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Run
from tests.scenarios.running import CARDS, scenario

COUPLED = "atlas_200i"
SEVERAL = ("atlas_a2", "atlas_a3", "atlas_350")
GEMM_PAIRS = ("MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1", "M_FIX", "FIX_M")
HIDDEN_ON_200I = ("MTE1_MTE2", "M_MTE1", "FIX_M")
"""Slabs arrive too slowly there for these to show in the numbers."""


def balance(run: Run, sets: Kind, waits: Kind) -> dict[tuple[int, int], int]:
    """Sets less waits of every (core, flag) of a run."""
    c = run.columns
    found: dict[tuple[int, int], int] = {}
    for kind, step in ((sets, 1), (waits, -1)):
        for row in np.flatnonzero(c.kind == int(kind)):
            key = int(c.core[row]), int(c.arg[row])
            found[key] = found.get(key, 0) + step
    return found


# ---- flags of one core ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("drop", ["none", "MTE2_V", "V_MTE2", "V_MTE3", "MTE3_V"])
@pytest.mark.parametrize("card", CARDS)
def test_an_add_needs_each_of_its_flags(card: str, drop: str) -> None:
    run, _ = scenario("double_buffer_add", card, drop=drop)
    assert run.correct is (drop == "none")
    assert run.warnings == []


@pytest.mark.parametrize("drop", ["none", *GEMM_PAIRS])
@pytest.mark.parametrize("card", CARDS)
def test_a_matrix_product_needs_each_of_its_flags(card: str, drop: str) -> None:
    run, _ = scenario("pingpong_gemm", card, drop=drop)
    assert run.correct is (drop == "none" or (card == COUPLED and drop in HIDDEN_ON_200I))
    assert run.warnings == []


@pytest.mark.parametrize("card", CARDS)
def test_a_matrix_product_of_other_sizes_is_right(card: str) -> None:
    run, _ = scenario("pingpong_gemm", card, m=32, n=48, k=16, slabs=3, tiles=2)  # 6 fractals: Mmads need the barrier
    assert run.correct is True
    blocks = 1 if card == COUPLED else 3
    assert scenario("pingpong_gemm", card, m=16, n=16, k=16, slabs=1, tiles=1, blocks=blocks)[0].correct is True


@pytest.mark.parametrize(("name", "parameters"), [
    ("double_buffer_add", {}), ("pingpong_gemm", {}), ("flag_deadlock", {"form": "right"}), ("two_launches", {}),
    ("stale_cache", {}),
    ("mix_gemm_vector", {}), ("mix_gemm_vector", {"way": "ub", "slots": 1}), ("cumsum_inplace", {}), ("nddma_read_only", {}),
    ("flag_deadlock", {"cause": "cores", "form": "right"}), ("sync_all_missing", {"drop": False}),
    ("two_launches", {"reader": "scalar"}),
    ("dcache_flags", {}), ("false_sharing", {}),
])  # fmt: skip
def test_right_forms_wait_for_every_flag_they_set(name: str, parameters: dict[str, Any]) -> None:
    run, _ = scenario(name, **parameters)
    assert run.correct is True
    assert set(balance(run, Kind.SET_FLAG, Kind.WAIT_FLAG).values()) <= {0}
    assert run.warnings == []


# ---- between cores --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("drop", ["none", "ready", "free"])
@pytest.mark.parametrize(("card", "way"), [*((card, "gm") for card in SEVERAL), ("atlas_350", "ub")])
def test_cube_and_vector_cores_need_both_flags(card: str, way: str, drop: str) -> None:
    run, job = scenario("mix_gemm_vector", card, way=way, drop=drop)
    a, b, _, d = job.args[:4]
    product = a.astype(np.int64) @ b.astype(np.int64).T
    assert np.array_equal(d, product * product + 10 * product) is (drop == "none")
    assert run.correct is (drop == "none")
    assert run.warnings == []


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("way", ["gm", "ub"])
def test_products_under_way_are_counted_down_to_none(way: str, slots: int) -> None:
    run, _ = scenario("mix_gemm_vector", way=way, slots=slots, m=32, n=32, tiles=5, blocks=2)
    assert run.correct is True
    left = balance(run, Kind.CROSS_SET, Kind.CROSS_WAIT)
    cubes = {index for index, core in enumerate(run.columns.cores) if core.kind == "aic"}
    assert {core for core, _ in left} == set(range(6))
    # The AIC sets ready (0) and waits for free (1) once a tile, each AIV the other way round.
    assert left == {(core, flag): (5 if (core in cubes) == (flag == 0) else -5) for core in range(6) for flag in (0, 1)}


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
def test_straight_into_ub_is_for_cards_with_that_path(card: str) -> None:
    with pytest.raises(UnsupportedError, match="L0C to UB"):
        scenario("mix_gemm_vector", card, way="ub")


@pytest.mark.parametrize("cores", [2, 4, 16])
@pytest.mark.parametrize("card", SEVERAL)
def test_sums_need_the_meeting_behind_the_zeros(card: str, cores: int) -> None:
    run, job = scenario("sync_all_missing", card, cores=cores, drop=False)
    assert run.correct is True
    assert (job.args[0] == sum(range(1, cores + 1))).all()
    run, job = scenario("sync_all_missing", card, cores=cores, drop=True)
    assert run.correct is False
    assert (job.args[0] < sum(range(1, cores + 1))).any()


# ---- waits that never end -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cause", ["cycle", "unset", "cores"])
@pytest.mark.parametrize("card", CARDS)
def test_the_right_form_ends_and_the_wrong_one_names_who_waits(card: str, cause: str) -> None:
    if cause == "cores" and card == COUPLED:
        with pytest.raises(UnsupportedError, match="SyncAll"):
            scenario("flag_deadlock", card, cause=cause)
        return
    assert scenario("flag_deadlock", card, cause=cause, form="right")[0].correct is True
    with pytest.raises(DeadlockError) as caught:
        scenario("flag_deadlock", card, cause=cause, form="wrong")
    assert caught.value.file is not None and caught.value.file.endswith("flag_deadlock.py")
    chain = " ".join(caught.value.cycle)
    words = {
        "cycle": ("MTE2 waits for V_MTE2", "V waits for MTE2_V"),
        "unset": ("V waits for MTE2_V",),
        "cores": ("SyncAll",),
    }
    assert all(word in chain for word in words[cause])


@pytest.mark.parametrize("name", ["mix_gemm_vector", "sync_all_missing"])
def test_one_coupled_core_has_nobody_to_meet(name: str) -> None:
    with pytest.raises(UnsupportedError):
        scenario(name, COUPLED)


@pytest.mark.parametrize(("name", "field", "value", "error"), [
    ("double_buffer_add", "tile", 12, ConfigError), ("double_buffer_add", "tile", 1 << 16, ConfigError),
    ("double_buffer_add", "tiles", 0, ConfigError), ("double_buffer_add", "copies", 0, ConfigError),
    ("double_buffer_add", "passes", 0, ConfigError), ("pingpong_gemm", "m", 8, ConfigError),
    ("pingpong_gemm", "n", 4096, ConfigError), ("pingpong_gemm", "blocks", 29, CapacityError),
    ("mix_gemm_vector", "m", 16, ConfigError), ("mix_gemm_vector", "tiles", 16, ConfigError),
    ("mix_gemm_vector", "n", 4096, ConfigError), ("mix_gemm_vector", "blocks", 29, CapacityError),
    ("flag_deadlock", "n", 4, ConfigError), ("flag_deadlock", "tiles", 0, ConfigError),
    ("sync_all_missing", "tile", 4, ConfigError), ("sync_all_missing", "tiles", 0, ConfigError),
    ("sync_all_missing", "cores", 1, CapacityError),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(name: str, field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        scenario(name, **{field: value})
