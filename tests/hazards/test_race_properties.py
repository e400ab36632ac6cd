"""What holds for any program: races against a brute-force oracle, verdicts that depend neither on timing nor on data, and flags
whose removal the checker calls harmless."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.perturb import Perturbation
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.order import Order
from aicore_sim.launch import Options, Run, run_kernel
from tests.engine.test_invariants import Step, expected, legal, numbers_strategy, program, start_values, steps_strategy
from tests.hazards.marked import KINDS
from tests.hazards.oracle import Statement, Where, closure, conflicts, play, programs, start

CARDS = st.sampled_from(["atlas_350", "atlas_a2"])
Program = list[list[Statement]]


def reported(run: Run, where: dict[int, Where]) -> set[frozenset[Where]]:
    """Both statements of every race, before anything is grouped."""
    facts = Facts(run.columns, run.card)
    lines = [(facts.party(race.first).line, facts.party(race.second).line) for race in Order(facts).races]
    return {frozenset({where[one], where[two]}) for one, two in lines}


def verdicts(run: Run) -> list[tuple[Any, ...]]:
    """What must not depend on the run: kind, severity, both parties but their times, bytes, and the answer to "ordered?"."""
    return sorted((h.kind, h.severity, h.at.core, h.at.pipe, h.at.line, h.other and (h.other.core, h.other.pipe, h.other.line),
                   h.tensor, h.address, h.bytes, h.count, h.ordered) for h in run.hazards.of(*KINDS))  # fmt: skip


def check(drawn: Program, card: str) -> None:
    run, where = play(drawn, card=card)
    pairs = reported(run, where)
    wanted = conflicts(drawn, v_keeps_order=card == "atlas_350")
    assert pairs <= wanted.must.keys() | wanted.may.keys()
    # One last writer and the last reader of each pipe stand for those before them: of every byte in a race one race is told.
    told = {piece for pair in pairs for kind in (wanted.must, wanted.may) for piece in kind.get(pair, ())}
    assert {piece for pieces in wanted.must.values() for piece in pieces} <= told
    assert run.hazards.of(*KINDS) or not pairs


@given(programs(), CARDS)
def test_races_of_one_core_are_those_of_the_graph(drawn: Program, card: str) -> None:
    check(drawn, card)


@given(programs(cores=3), CARDS)
def test_races_of_three_cores_are_those_of_the_graph(drawn: Program, card: str) -> None:
    check(drawn, card)


@given(programs(cores=2), CARDS)
def test_before_is_what_the_graph_says(drawn: Program, card: str) -> None:
    run, where = play(drawn, card=card)
    facts = Facts(run.columns, run.card)
    rows = {where[line]: row for row in range(len(facts)) if (line := facts.party(row).line) in where and facts.op[row] >= 0}
    order, behind = Order(facts, list(rows.values())), closure(drawn, card == "atlas_350")
    assert len(rows) == sum(len(one) == 5 for statements in drawn for one in statements)
    for one, a in rows.items():
        for two, b in rows.items():
            assert order.before(a, b) is (("start", *two) in behind["end", *one])


@given(programs(cores=2), CARDS, numbers_strategy)
def test_verdicts_do_not_depend_on_timing(drawn: Program, card: str, numbers: dict[str, object]) -> None:
    one, _ = play(drawn, card=card)
    two, _ = play(drawn, card=card, overrides=numbers)
    assert verdicts(one) == verdicts(two)


@given(programs(cores=2), CARDS)
def test_verdicts_do_not_depend_on_data(drawn: Program, card: str) -> None:
    one, _ = play(drawn, card=card)
    assert verdicts(play(drawn, card=card, data=False)[0]) == verdicts(one)
    # Equal bytes hide nothing.
    assert verdicts(play(drawn, np.zeros_like(start()), card=card)[0]) == verdicts(one)


# ---- right programs, and right ones with a piece missing ------------------------------------------------------------
def under(steps: list[Step | str], card: str, perturbation: Perturbation | None) -> Any:
    """What a program of the engine's tests leaves in GM under other timing."""
    x = start_values(1)
    options = Options(checks=False, auto_sync=False, perturbation=perturbation)
    run_kernel(program, (x, steps), {}, 1, load_card(card), options)
    return x


@given(steps_strategy, CARDS, st.booleans())
def test_right_programs_have_no_errors(steps: list[Step], card: str, auto_sync: bool) -> None:
    run = asc.simulate(program, start_values(2), legal(steps), blocks=2, card=card, auto_sync=auto_sync)
    # Pieces of tiles that overlap may be warned of; nothing is wrong with them.
    assert [h for h in run.hazards if h.severity == "error"] == []


@given(steps_strategy, CARDS, st.integers(0, 100), st.integers(0, 10**6))
def test_what_the_checker_calls_harmless_is_harmless(steps: list[Step], card: str, which: int, seed: int) -> None:
    """One flag pair or barrier deleted: where no race is found the data are right under any timing."""
    whole = legal(steps)
    pieces = [i for i, step in enumerate(whole) if isinstance(step, str)]
    assume(pieces)
    missing = pieces[which % len(pieces)]
    rest = whole[:missing] + whole[missing + 1 :]
    run = asc.simulate(program, start_values(1), rest, card=card, auto_sync=False)
    if run.hazards.of(*KINDS):
        return
    wanted = expected(start_values(1), steps)
    for number, scale in enumerate((100.0, 1000.0, 10_000.0)):
        assert np.array_equal(under(rest, card, Perturbation(seed + number, scale)), wanted)
