"""The tiled matrix product: right on every card for whole and ragged problems, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.cards import load_card
from aicore_sim.errors import AiCoreError, ConfigError
from aicore_sim.instructions.base import Pipe
from aicore_sim.scenario import load_scenario
from tests.scenarios.running import CARDS, rows, scenario

SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "tails": {"M": 500, "N": 300, "K": 200},
    "one row": {"M": 1, "N": 17, "K": 70},
    "one row in the last block": {"M": 129, "N": 257, "K": 65},
    "several ragged tiles of one core": {"M": 500, "N": 300, "K": 200, "blocks": 1},
    "cores with different numbers of tiles": {"M": 500, "N": 300, "K": 200, "blocks": 3},
    "more blocks than pieces": {"M": 100, "N": 100, "K": 40, "blocks": 5},
    "steps that do not divide": {"M": 150, "N": 140, "K": 200, "baseM": 64, "baseN": 48, "baseK": 32, "stepKa": 3, "stepKb": 2},
    "tiles below ten fractals": {"M": 50, "N": 40, "K": 70, "baseM": 16, "baseN": 32, "baseK": 16, "stepKa": 1, "stepKb": 4},
    "without unit flags": {"M": 300, "N": 300, "K": 200, "unit_flag": False, "blocks": 2},
    "single buffers": {"M": 300, "N": 300, "K": 200, "double_buffer": False, "blocks": 2},
    "single buffers without unit flags": {"M": 300, "N": 270, "K": 600, "double_buffer": False, "unit_flag": False, "blocks": 1},
    "rounds": {"M": 700, "N": 300, "K": 100, "l2_rounds": 2, "blocks": 1},
    "a part larger than C": {"M": 100, "N": 300, "K": 200, "singleCoreM": 4096, "singleCoreN": 4096},
}  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_bit_for_bit_right(shape: str, card: str) -> None:
    parameters = SHAPES[shape]
    run, job = scenario("matmul", card, **parameters)
    assert run.correct is True
    m, n = parameters.get("M", 512), parameters.get("N", 512)
    c = np.asarray(job.args[2])
    assert c.shape == (m, n)
    assert np.count_nonzero(c) > m * n // 3


@pytest.mark.parametrize("card", CARDS)
def test_times_without_data_are_those_with_data(card: str) -> None:
    parameters = {"M": 90, "N": 70, "K": 33, "baseM": 64, "baseN": 48, "baseK": 16}
    run, _ = scenario("matmul", card, **parameters)
    dry, _ = scenario("matmul", card, data=False, **parameters)
    assert dry.correct is None
    assert dry.cycles == run.cycles


def test_cores_that_meet_at_one_line_take_turns_by_number_with_and_without_data() -> None:
    # Seven cores share rows of B; whoever of two is first in a tick pays for the miss.
    parameters = {"M": 300, "N": 511, "K": 15, "baseM": 48, "baseN": 32, "baseK": 128, "singleCoreM": 16, "singleCoreN": 48,
                  "blocks": 7}  # fmt: skip
    run, _ = scenario("matmul", "atlas_a3", **parameters)
    dry, _ = scenario("matmul", "atlas_a3", data=False, **parameters)
    assert run.correct is True
    assert dry.columns.length == run.columns.length
    assert (dry.columns.core_end == run.columns.core_end).all()


def test_parts_need_not_be_whole_fractals_where_inputs_are_rows() -> None:
    run, _ = scenario("matmul", "atlas_a2", M=150, N=120, K=40, singleCoreM=50, singleCoreN=60)
    assert run.correct is True
    assert run.blocks == 6
    with pytest.raises(ConfigError) as caught:
        scenario("matmul", "atlas_200i", M=150, N=120, K=40, singleCoreM=50, singleCoreN=64)
    assert (caught.value.field, caught.value.value) == ("singleCoreM", 50)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_the_default_picture_has_several_busy_cores(card: str) -> None:
    run, _ = scenario("matmul", card, data=False)
    assert run.blocks >= 4
    assert all(rows(run, Pipe.M, core).size for core in range(run.blocks))


def test_b_goes_before_a() -> None:
    run, _ = scenario("matmul", "atlas_a2", M=128, N=256, K=64)
    b, a = (int(run.columns.arg[i]) for i in rows(run, Pipe.MTE2))
    # Arguments lie in GM in their order: A below B.
    assert b > a


@pytest.mark.parametrize(("parameters", "field"), [
    ({"M": 0}, "M"), ({"K": -5}, "K"), ({"baseM": 100}, "baseM"), ({"baseK": 24}, "baseK"), ({"stepKa": -1}, "stepKa"),
    ({"stepKa": 100}, "baseM"), ({"baseM": 1024, "baseN": 1024}, "baseM"), ({"l2_rounds": 0}, "l2_rounds"),
    ({"singleCoreM": -16}, "singleCoreM"), ({"blocks": -1}, "blocks"),
])  # fmt: skip
def test_parameters_that_do_not_fit(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(AiCoreError) as caught:
        scenario("matmul", "atlas_a2", **parameters)
    assert caught.value.field == field


def test_published_times_belong_to_the_published_run_only() -> None:
    loaded = load_scenario("matmul")
    big = {"M": 8192, "N": 8192, "K": 8192}
    for label in ("atlas_a2", "atlas_350:Ascend950PR_9589"):
        card = load_card(label)
        assert len(loaded.build(card, loaded.parameters(**big), False).measured) == 5
        assert not loaded.build(card, loaded.parameters(**big, stepKa=2), False).measured
    assert not loaded.build(load_card("atlas_350"), loaded.parameters(**big), False).measured
