"""Schedules: what depends on luck is found, with the least that shows it; right kernels stay silent; a seed says it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aicore_sim.cards import load_card
from aicore_sim.engine.perturb import Hold, Perturbation
from aicore_sim.errors import DeadlockError, ParameterError
from aicore_sim.hazards.model import POSSIBLE, WARNING, Hazard, Party
from aicore_sim.launch import Options
from aicore_sim.scenario import load_scenario
from aicore_sim.schedules import (
    HOLDS,
    SCALES,
    Schedules,
    Trials,
    explore,
    holds_for,
    random_schedule,
    sync_groups,
    sync_lines,
)
from tests.mutation.hazards import FEW, mutate

FILE = str(Path(__file__).parent / "data" / "schedules" / "handover.py")
HANDOVER = load_scenario(FILE)
CARD = load_card("atlas_350")


def line_of(text: str) -> int:
    lines = Path(FILE).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


LOAD, MULS, STORE = line_of("asc.data_copy(tile"), line_of("asc.muls("), line_of("asc.data_copy(y_gm")
SET_IN, WAIT_IN = line_of("set_flag(asc.HardEvent.MTE2_V"), line_of("wait_flag(asc.HardEvent.MTE2_V")
SET_OUT, WAIT_OUT = line_of("set_flag(asc.HardEvent.V_MTE3"), line_of("wait_flag(asc.HardEvent.V_MTE3")


def explored(drop: str = "none", n: int = 60, **how: Any) -> Schedules:
    return explore(HANDOVER, HANDOVER.parameters(drop), CARD, n, **how)


def race(first: tuple[str, int], then: tuple[str, int]) -> Hazard:
    """A possible race of two (pipe, line) of the scenario; `first` should come first."""
    parties = [Party("core0.aiv0", pipe, "", FILE, line, 0.0) for pipe, line in (then, first)]
    return Hazard("race-raw", WARNING, POSSIBLE, parties[0], "", other=parties[1])


# ---- random schedules -----------------------------------------------------------------------------------------------
def test_a_right_kernel_gives_one_output() -> None:
    found = explored()
    assert (found.tried, found.differing, found.deadlocks, found.wrong) == (60, 0, 0, 0)
    assert found.first_seed is None
    assert found.smallest is None
    assert found.reference.correct
    assert found.as_dict()["differing"] == 0


def test_what_is_right_by_luck_is_found_with_the_delay_that_shows_it() -> None:
    found = explored("MTE2_V")
    assert found.reference.correct  # V is busy until the load has landed
    assert 0 < found.differing < found.tried
    assert found.wrong == found.differing
    assert found.share == found.differing / found.tried
    smallest = found.smallest
    assert smallest is not None and smallest.exact
    assert [(delay.pipe, delay.line) for delay in smallest.delays] == [("MTE2", LOAD)]
    assert f"DataCopy at handover.py:{LOAD}" in str(smallest)
    # The least indeed: it shows, and a tenth less does not.
    trials = Trials(HANDOVER, HANDOVER.parameters("MTE2_V"), CARD, Options())
    assert trials.run(smallest.perturbation).differs(found.reference)
    hold = smallest.delays[0].hold()
    less = Hold(hold.core, hold.pipe, hold.file, hold.line, smallest.cycles * 0.9, hold.nth, hold.effect)
    assert not trials.run(Perturbation(holds=(less,))).differs(found.reference)


def test_the_first_seed_repeats_the_difference_by_itself() -> None:
    found = explored("MTE2_V", minimise=False)
    assert found.first_seed is not None and found.smallest is None
    again = explored("MTE2_V", n=1, seed=found.first_seed, minimise=False)
    assert (again.tried, again.differing, again.first_seed) == (1, 1, found.first_seed)
    if found.first_seed:
        assert explored("MTE2_V", n=found.first_seed, minimise=False).differing == 0


def test_the_answer_follows_from_the_seed() -> None:
    assert explored("MTE2_V", n=30).as_dict() == explored("MTE2_V", n=30).as_dict()
    assert explored("MTE2_V", n=30, processes=2).as_dict() == explored("MTE2_V", n=30).as_dict()


def test_scales_are_spread_over_the_decades_and_seeds_are_kept() -> None:
    schedules = [random_schedule(seed) for seed in range(400)]
    assert [one.seed for one in schedules] == list(range(400))
    assert all(SCALES[0] <= one.scale < SCALES[1] for one in schedules)
    for decade in (10, 100, 1000, 10_000):
        assert sum(decade <= one.scale < 10 * decade for one in schedules) == pytest.approx(100, abs=2)


def test_a_kernel_that_is_always_wrong_needs_no_delay_against_the_right_one() -> None:
    right = explored(n=1).reference
    found = explored("V_MTE3", n=20, reference=right)
    assert found.differing > 0
    assert found.smallest is not None
    assert (found.smallest.cycles, str(found.smallest)) == (0.0, "no delay at all")


def test_a_deadlock_differs_and_without_a_reference_it_is_raised() -> None:
    dropped = Options(dropped=frozenset({(FILE, SET_IN)}))
    found = explored(n=10, options=dropped, reference=explored(n=1).reference)
    assert (found.differing, found.deadlocks, found.wrong) == (10, 10, None)
    with pytest.raises(DeadlockError):
        explored(n=10, options=dropped)


def test_schedules_need_data() -> None:
    with pytest.raises(ParameterError) as caught:
        explored(n=1, options=Options(data=False))
    assert caught.value.field == "data"


# ---- directed schedules ---------------------------------------------------------------------------------------------
def test_a_possible_race_is_confirmed_by_holding_who_should_come_first() -> None:
    hazard = race(("MTE2", LOAD), ("V", MULS))
    found = explored("MTE2_V", n=0, directed=[hazard])
    assert [(one.hazard, one.hold.pipe, one.hold.line) for one in found.confirmed] == [(hazard, "MTE2", LOAD)]
    assert found.confirmed[0].hold.cycles in HOLDS
    assert (found.tried, found.share) == (0, 0.0)
    trials = Trials(HANDOVER, HANDOVER.parameters("MTE2_V"), CARD, Options())
    assert trials.run(Perturbation(holds=(found.confirmed[0].hold,))).differs(found.reference)


def test_what_is_ordered_is_not_confirmed() -> None:
    hazard = race(("MTE2", LOAD), ("V", MULS))
    found = explored(n=0, directed=[hazard])
    assert found.confirmed == ()
    assert found.directed == len(HOLDS) * len(holds_for(hazard))


def test_holds_begin_with_the_party_that_should_come_first() -> None:
    holds = holds_for(race(("MTE2", LOAD), ("V", MULS)))
    assert [(hold.pipe, hold.line) for hold in holds[:4]] == [("MTE2", LOAD)] * 4
    assert {(hold.nth, hold.effect) for hold in holds[:4]} == {(None, False), (0, False), (None, True), (0, True)}
    assert {(hold.pipe, hold.line) for hold in holds[4:]} == {("V", MULS)}
    lonely = Hazard("unpaired-set", WARNING, POSSIBLE, Party("core0.aiv0", "S", "", FILE, SET_IN, 0.0, 2), "")
    assert [(hold.nth, hold.effect) for hold in holds_for(lonely)] == [(None, False), (2, False)]


def test_the_races_of_a_run_are_confirmed() -> None:
    run, _ = Trials(HANDOVER, HANDOVER.parameters("MTE2_V"), CARD, Options()).launch(checks=True)
    races = run.hazards.of("race-raw", "race-war", "race-waw")
    assert [(hazard.other.line, hazard.at.line) for hazard in races if hazard.other is not None] == [(LOAD, MULS)]
    found = explored("MTE2_V", n=0, directed=races)
    assert [one.hazard for one in found.confirmed] == races


# ---- calls that only order ------------------------------------------------------------------------------------------
def test_the_lines_that_only_order() -> None:
    p = HANDOVER.parameters()
    assert sync_lines(HANDOVER, p, CARD) == [
        (FILE, SET_IN, "SetFlag"), (FILE, WAIT_IN, "WaitFlag"), (FILE, SET_OUT, "SetFlag"), (FILE, WAIT_OUT, "WaitFlag"),
    ]  # fmt: skip
    assert [[line for _, line, _ in group] for group in sync_groups(HANDOVER, p, CARD)] == [
        [SET_IN, WAIT_IN], [SET_OUT, WAIT_OUT],
    ]  # fmt: skip
    # On 2201 the compiler orders V after V itself; that is no call of the kernel.
    assert sync_lines(HANDOVER, p, load_card("atlas_a2")) == sync_lines(HANDOVER, p, CARD)


def test_deleted_calls_show_and_are_reported() -> None:
    mutants = mutate(HANDOVER, HANDOVER.parameters(), CARD, 40)
    by_lines = {tuple(line for _, line, _ in mutant.lines): mutant for mutant in mutants}
    assert sorted(by_lines) == sorted([(SET_IN,), (WAIT_IN,), (SET_OUT,), (WAIT_OUT,), (SET_IN, WAIT_IN), (SET_OUT, WAIT_OUT)])
    for alone in ((SET_IN,), (SET_OUT,)):
        assert (by_lines[alone].share, by_lines[alone].deadlocks) == (1.0, FEW)
        assert by_lines[alone].reported == ("wait-without-set (observed)",)
    for racing in ((WAIT_IN,), (SET_IN, WAIT_IN), (SET_OUT, WAIT_OUT)):
        assert by_lines[racing].share > 0
        assert not by_lines[racing].missed
        assert any(kind.startswith("race-raw") for kind in by_lines[racing].reported)
    row = f"| handover | handover.py:{SET_IN} | SetFlag | {FEW} | 100.0% | {FEW} | wait-without-set (observed) |"
    assert row in by_lines[SET_IN,].row()
