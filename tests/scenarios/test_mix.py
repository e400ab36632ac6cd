"""The matmul and Add on both kinds of core, tied together by cross-core flags in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.context import current
from aicore_sim.kernel.program import Kind
from tests.scenarios.running import scenario

MIX_CARDS = ("atlas_a2", "atlas_a3", "atlas_350")


@pytest.mark.parametrize("slots", [1, 2, 6])
@pytest.mark.parametrize("card", MIX_CARDS)
def test_right_on_every_card_with_cross_core_flags(card: str, slots: int) -> None:
    run, job = scenario("mix_gemm_add", card, m=32, n=48, k=80, tiles=4, slots=slots, blocks=2)
    a, b, bias, _, d = job.args[:5]
    product = a.astype(np.int64) @ b.astype(np.int64).T
    assert run.correct is True
    assert np.array_equal(d, product + np.tile(bias.astype(np.int64), (8, 1)))


@settings(max_examples=8)
@given(
    m=st.sampled_from([32, 64]), n=st.sampled_from([16, 48]), k=st.sampled_from([16, 64]), tiles=st.integers(1, 4),
    slots=st.integers(1, 3), blocks=st.integers(1, 3), card=st.sampled_from(MIX_CARDS),
)  # fmt: skip
def test_any_shape_is_right(**parameters: Any) -> None:
    card = parameters.pop("card")
    assert scenario("mix_gemm_add", card, **parameters)[0].correct is True


def test_every_wait_of_the_cube_core_is_for_both_vector_cores() -> None:
    run, _ = scenario("mix_gemm_add", "atlas_a2", tiles=5, slots=2, blocks=1)
    c = run.columns
    sets = [int(np.sum((c.core == core) & (c.kind == int(Kind.CROSS_SET)))) for core in range(3)]
    waits = [int(np.sum((c.core == core) & (c.kind == int(Kind.CROSS_WAIT)))) for core in range(3)]
    assert [core.kind for core in c.cores] == ["aic", "aiv", "aiv"]
    assert sets == waits == [5, 5, 5]


SLOW_READER = {"gm.GM-UB.latency": 20000}
"""The vector cores take so long to load a product that the cube core would have written the next two."""


@pytest.mark.parametrize("card", MIX_CARDS)
def test_without_the_flag_back_the_slot_is_overwritten(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = scenario("mix_gemm_add", card, overrides=SLOW_READER, tiles=3, slots=1, blocks=1)
    assert run.correct is True
    wait = asc.cross_core_wait_flag

    def only_on_vector_cores(*args: Any) -> None:
        if not current().on_aic:
            wait(*args)

    monkeypatch.setattr(asc, "cross_core_wait_flag", only_on_vector_cores)
    run, _ = scenario("mix_gemm_add", card, overrides=SLOW_READER, tiles=3, slots=1, blocks=1)
    assert run.correct is False


def test_more_slots_let_the_cube_core_run_ahead() -> None:
    times = [scenario("mix_gemm_add", "atlas_a2", overrides={"gm.GM-UB.latency": 3000}, data=False, tiles=6, slots=slots,
                      blocks=1)[0].cycles for slots in (1, 2)]  # fmt: skip
    assert times[1] < times[0]


def test_refused_on_coupled_cores() -> None:
    with pytest.raises(UnsupportedError, match="cross-core"):
        scenario("mix_gemm_add", "atlas_200i")


def test_no_more_blocks_than_ai_cores() -> None:
    with pytest.raises(CapacityError, match="blocks"):
        scenario("mix_gemm_add", "atlas_a2", blocks=25)


@pytest.mark.parametrize(("field", "value"), [("m", 48), ("n", 8), ("k", 0), ("slots", 16)])
def test_sizes_that_are_no_whole_fractals_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        scenario("mix_gemm_add", "atlas_a2", **{field: value})
