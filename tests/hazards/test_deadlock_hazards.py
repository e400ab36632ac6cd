"""What the checks say of kernels that never end: kind, line, pair and id, and the call that is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.check import Target, check, repair
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import Hazard, Hazards
from aicore_sim.launch import Options
from aicore_sim.scenario import load_scenario
from tests.engine.engine_helpers import gm, order, ub

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
SEVERAL = ("atlas_a2", "atlas_a3", "atlas_350")
N = 64
E = asc.HardEvent


def x() -> Any:
    return np.zeros(64 * N, np.float32)


def stuck(kernel: Any, *args: Any, card: str = "atlas_350", **options: Any) -> tuple[Hazards, DeadlockError]:
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(kernel, *args, card=card, auto_sync=False, **options)
    return of_deadlock(caught.value, load_card(card, options.get("overrides"))), caught.value


def only(found: Hazards) -> Hazard:
    (hazard,) = found
    return hazard


def line_of(kernel: Any, text: str, nth: int = 0) -> int:
    """The source line of a kernel in which `text` stands, the `nth` of them."""
    first: int = kernel.fn.__code__.co_firstlineno
    with open(__file__) as source:
        lines = source.readlines()
    return [number for number in range(first, len(lines)) if text in lines[number - 1]][nth]


# ---- flags ----------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def no_set(x: asc.GlobalAddress, ident: asc.ConstExpr[int]) -> None:
    tile = ub(asc.float32, 0, N)
    asc.data_copy(tile, gm(x), N)
    asc.set_flag(E.MTE2_V, 0)
    asc.wait_flag(E.MTE2_V, ident)
    asc.muls(tile, tile, 2.0, N)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("data", [True, False])
def test_a_wait_that_nobody_sets(card: str, data: bool) -> None:
    args = (x() if data else asc.GmSpec((64 * N,), asc.float32),)
    found, error = stuck(no_set, *args, 4, card=card, data=data)
    hazard = only(found)
    line = line_of(no_set, "wait_flag")
    assert (hazard.kind, hazard.severity, hazard.verdict, hazard.count) == ("wait-without-set", "error", "observed", 1)
    assert (hazard.at.core.split(".")[0], hazard.at.pipe, hazard.at.api, hazard.at.line) == ("core0", "V", "WaitFlag", line)
    assert "V waits for MTE2_V id 4" in hazard.detail
    assert all(text in hazard.detail for text in error.cycle)
    assert hazard.fix == f"add asc.set_flag(asc.HardEvent.MTE2_V, 4) before line {line}"
    assert [(one.code, one.line, one.after) for one in hazard.insert] == [("asc.set_flag(asc.HardEvent.MTE2_V, 4)", line, False)]
    assert len(asc.simulate(no_set, x(), 0, card=card).hazards) == 0


def test_the_error_has_the_run_until_then_and_all_waits() -> None:
    error = stuck(no_set, x(), 4)[1]
    assert [(wait.core, wait.pipe, wait.what, wait.role) for wait in error.waits] == [
        ("core0.aiv0", "S", "drain", ""), ("core0.aiv0", "V", "flag", "end")]  # fmt: skip
    flag = error.waits[1]
    assert (flag.event, flag.ident, flag.line, flag.wanted) == ("MTE2_V", 4, line_of(no_set, "wait_flag"), None)
    columns = error.columns
    assert [columns.lines[line][1] for line in columns.line] == [line_of(no_set, "data_copy"), line_of(no_set, "set_flag")]
    assert flag.time_us > 0


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def unprimed(x: asc.GlobalAddress, primed: asc.ConstExpr[bool]) -> None:
    tile = ub(asc.float32, 0, N)
    if primed:
        asc.set_flag(E.V_MTE2, 2)
    for _ in range(3):  # loop
        asc.wait_flag(E.V_MTE2, 2)
        asc.data_copy(tile, gm(x), N)
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)
        asc.muls(tile, tile, 2.0, N)
        asc.set_flag(E.V_MTE2, 2)
    if primed:
        asc.wait_flag(E.V_MTE2, 2)


@pytest.mark.parametrize("card", CARDS)
def test_a_loop_that_begins_with_a_wait_is_to_be_primed(card: str) -> None:
    hazard = only(stuck(unprimed, x(), False, card=card)[0])
    assert (hazard.kind, hazard.at.pipe, hazard.at.iteration) == ("wait-without-set", "MTE2", 0)
    assert hazard.at.line == line_of(unprimed, "wait_flag(E.V_MTE2, 2)")
    assert "cycle" in hazard.detail
    loop = line_of(unprimed, "# loop")
    assert [(one.code, one.line, one.after) for one in hazard.insert] == [
        ("asc.set_flag(asc.HardEvent.V_MTE2, 2)", loop, False), ("asc.wait_flag(asc.HardEvent.V_MTE2, 2)", loop, True)]  # fmt: skip
    assert len(asc.simulate(unprimed, x(), True, card=card).hazards) == 0


def test_a_set_behind_its_wait() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def crossed(x: asc.GlobalAddress) -> None:
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)
        asc.wait_flag(E.V_MTE2, 0)
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)
        asc.set_flag(E.V_MTE2, 0)

    hazard = only(stuck(crossed, x())[0])
    assert (hazard.kind, hazard.at.pipe, hazard.at.line) == ("wait-without-set", "MTE2", line_of(crossed, "wait_flag(E.V_MTE2"))
    assert f"not behind it in line {line_of(crossed, 'set_flag(E.V_MTE2')}" in hazard.fix


def test_one_wait_too_many() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def more(x: asc.GlobalAddress) -> None:
        for i in range(4):
            if i < 3:
                asc.set_flag(E.MTE2_V, 1)
            asc.wait_flag(E.MTE2_V, 1)

    hazard = only(stuck(more, x())[0])
    assert (hazard.kind, hazard.at.line, hazard.at.iteration) == ("wait-without-set", line_of(more, "wait_flag"), 3)
    assert "of 3 sets none is left" in hazard.fix
    assert hazard.insert == ()


@pytest.mark.parametrize("card", CARDS)
def test_what_went_wrong_before_is_found_too(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def first_twice(x: asc.GlobalAddress) -> None:
        asc.set_flag(E.MTE2_MTE3, 1)
        asc.set_flag(E.MTE2_MTE3, 1)  # again
        asc.wait_flag(E.MTE2_MTE3, 1)
        asc.wait_flag(E.MTE2_MTE3, 1)
        asc.wait_flag(E.MTE3_V, 7)
        asc.set_flag(E.V_MTE2, 3)

    found = stuck(first_twice, x(), card=card)[0]
    again, stuck_at = line_of(first_twice, "# again"), line_of(first_twice, "wait_flag(E.MTE3_V")
    assert {(one.kind, one.at.line) for one in found} == {("double-set", again), ("wait-without-set", stuck_at)}


@pytest.mark.parametrize("card", CARDS)
def test_a_second_set_that_hangs_is_a_double_set(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def two_sets(x: asc.GlobalAddress) -> None:
        for _ in range(2):
            asc.data_copy(ub(asc.float32, 0, N), gm(x), N)
            asc.set_flag(E.MTE2_V, 2)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)

    hazard = only(stuck(two_sets, x(), card=card)[0])
    line = line_of(two_sets, "set_flag")
    assert (hazard.kind, hazard.verdict, hazard.at.line, hazard.at.pipe) == ("double-set", "observed", line, "MTE2")
    assert hazard.other is not None
    assert (hazard.other.line, hazard.other.iteration, hazard.at.iteration) == (line, 0, 1)
    assert "MTE2_V id 2" in hazard.detail
    assert hazard.fix == f"add asc.wait_flag(asc.HardEvent.MTE2_V, 2) behind line {line}"


def test_a_queue_without_a_free_buffer() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def full(x: asc.GlobalAddress) -> None:
        pipe, come = asc.TPipe(), asc.TQue(asc.TPosition.VECIN, 1)
        pipe.init_buffer(come, 1, 4 * N)
        asc.data_copy(ub(asc.float32, 4 * N, N), gm(x), N)
        come.alloc_tensor(asc.float32)
        come.alloc_tensor(asc.float32)  # again

    found, error = stuck(full, x())
    hazard = only(found)
    assert (hazard.kind, hazard.at.api, hazard.at.line) == ("wait-without-set", "AllocTensor", line_of(full, "# again"))
    assert "free_tensor" in hazard.fix
    assert error.columns is not None


# ---- between cores --------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def meet(x: asc.GlobalAddress, absent: asc.ConstExpr[int]) -> None:
    if asc.get_block_idx() != absent:
        asc.sync_all()


FEW = {"cubes": 1, "vectors": 2}


@pytest.mark.parametrize("card", SEVERAL)
@pytest.mark.parametrize("blocks", [3, 7])
def test_sync_all_with_more_blocks_than_cores(card: str, blocks: int) -> None:
    hazard = only(stuck(meet, x(), -1, card=card, blocks=blocks, overrides=FEW)[0])
    assert (hazard.kind, hazard.severity, hazard.verdict, hazard.count) == ("sync-all-blocks", "error", "observed", 2)
    assert (hazard.at.api, hazard.at.line) == ("SyncAll", line_of(meet, "sync_all"))
    assert hazard.fix.startswith(f"start {blocks - 2} blocks fewer")
    assert len(asc.simulate(meet, x(), -1, card=card, blocks=2, overrides=FEW).hazards) == 0


@pytest.mark.parametrize("card", SEVERAL)
def test_sync_all_that_a_core_does_not_call(card: str) -> None:
    hazard = only(stuck(meet, x(), 1, card=card, blocks=4)[0])
    assert (hazard.kind, hazard.count, hazard.at.line) == ("wait-without-set", 3, line_of(meet, "sync_all"))
    assert hazard.fix == "let core0.aiv1 call SyncAll as often"


@pytest.mark.parametrize("card", SEVERAL)
def test_a_flag_between_cores_that_nobody_sets(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def alone(x: asc.GlobalAddress, both: asc.ConstExpr[bool]) -> None:
        if asc.ascend_is_aiv():
            asc.cross_core_wait_flag(7, 2, asc.PipeID.PIPE_MTE2)
        elif both:
            asc.cross_core_set_flag(7, 2, asc.PipeID.PIPE_FIX)

    hazard = only(stuck(alone, x(), False, card=card)[0])
    assert (hazard.kind, hazard.count, hazard.at.core) == ("wait-without-set", 2, "core0.aiv0")
    assert hazard.at.line == line_of(alone, "cross_core_wait_flag")
    assert "asc.cross_core_set_flag(7, ...)" in hazard.fix
    assert len(asc.simulate(alone, x(), True, card=card).hazards) == 0


def test_a_set_on_a_missing_pipe_is_named_beside_the_wait_that_it_leaves() -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def lost(x: asc.GlobalAddress) -> None:
        if asc.ascend_is_aic():
            asc.cross_core_set_flag(5, 2, asc.PipeID.PIPE_MTE3)
        else:
            asc.cross_core_wait_flag(5, 2, asc.PipeID.PIPE_MTE2)

    found = stuck(lost, x())[0]
    assert {one.kind for one in found} == {"dropped-flag", "wait-without-set"}
    (dropped,) = found.of("dropped-flag")
    assert (dropped.severity, dropped.at.line, dropped.at.core) == ("error", line_of(lost, "cross_core_set_flag"), "core0.aic")
    assert f"core0.aiv0 MTE2 waits for it in line {line_of(lost, 'cross_core_wait_flag')}" in dropped.detail
    assert len(asc.simulate(lost, x(), card="atlas_a2").hazards) == 0


# ---- unit flags -----------------------------------------------------------------------------------------------------
SIDE = 32


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def cube(x: asc.GlobalAddress, steps: asc.ConstExpr) -> None:
    a = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, SIDE * SIDE)
    b = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, SIDE * SIDE)
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * SIDE)
    for kind, value in steps:
        if kind == "mmad":
            asc.mmad(l0c, a, b, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=value, cmatrix_init_val=True))
            order(E.M_FIX)
        else:
            asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE, unit_flag=value))
            order(E.FIX_M)


@pytest.mark.parametrize("card", SEVERAL)
@pytest.mark.parametrize(("steps", "pipe", "words", "fix"), [
    ((("mmad", 3), ("mmad", 3)), "M", "no Fixpipe with 3 has taken them", "Fixpipe with unit_flag=3"),
    ((("mmad", 3), ("fix", 0), ("mmad", 2)), "M", "has unit flag 0", "Fixpipe with unit_flag=3"),
    ((("mmad", 0), ("fix", 3)), "FIX", "no Mmad with unit flag 3", "Mmad of the tile unit_flag=3"),
    ((("mmad", 2), ("fix", 2)), "FIX", "no Mmad with unit flag 3", "Mmad of the tile unit_flag=3"),
])  # fmt: skip
def test_unit_flags_that_are_waited_for_for_ever(card: str, steps: Any, pipe: str, words: str, fix: str) -> None:
    found = [one for one in stuck(cube, x(), steps, card=card)[0] if one.kind == "wait-without-set"]
    (hazard,) = found
    call = "asc.mmad(" if pipe == "M" else "asc.fixpipe("
    assert (hazard.at.pipe, hazard.at.line) == (pipe, line_of(cube, call))
    assert hazard.at.iteration == sum(kind == steps[-1][0] for kind, _ in steps) - 1
    assert words in hazard.detail
    assert fix in hazard.fix
    assert (hazard.other is not None) is (pipe == "M")


# ---- polling --------------------------------------------------------------------------------------------------------
def test_polling_for_what_never_comes() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def poll(x: asc.GlobalAddress) -> None:
        words = gm(x)
        while words.get_value(0) != 7:
            pass

    found, error = stuck(poll, np.zeros(64, np.int32))
    hazard = only(found)
    assert (hazard.kind, hazard.severity, hazard.verdict) == ("livelock", "error", "observed")
    assert (hazard.at.core, hazard.at.pipe, hazard.at.api, hazard.at.line) == (
        "core0.aiv0", "S", "GetValue", line_of(poll, "get_value"))  # fmt: skip
    assert "polls x+0" in hazard.detail
    assert len(error.columns) > 4000


# ---- by the command -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(("cause", "kind", "words"), [
    ("cycle", "wait-without-set", "V_MTE2 id 0"), ("unset", "wait-without-set", "MTE2_V id 1"),
    ("cores", "wait-without-set", "SyncAll"),
])  # fmt: skip
def test_the_scenario_that_never_ends(card: str, cause: str, kind: str, words: str) -> None:
    if card == "atlas_200i" and cause == "cores":
        return
    scenario = load_scenario("flag_deadlock")
    checked = check(Target(scenario, scenario.parameters(form="wrong", cause=cause), load_card(card)))
    (hazard,) = [one for one in checked.hazards if one.kind == kind]
    assert words in hazard.detail
    assert hazard.fix
    assert (checked.run, checked.correct, checked.wrong) == (None, False, True)


def test_what_is_missing_is_put_in() -> None:
    scenario = load_scenario("flag_deadlock")
    target = Target(scenario, scenario.parameters(form="wrong", cause="cycle"), load_card("atlas_350"))
    mended = repair(target, check(target))
    assert mended.clean
    assert mended.correct is True
    assert "+    asc.set_flag(asc.HardEvent.V_MTE2, 0)" in mended.diff


def test_runs_without_checks_say_why_they_hang_all_the_same() -> None:
    scenario = load_scenario("flag_deadlock")
    options = Options(checks=False)
    checked = check(Target(scenario, scenario.parameters(form="wrong", cause="unset"), load_card("atlas_350"), options))
    assert [one.kind for one in checked.hazards] == ["wait-without-set"]


def test_findings_are_the_same_every_time() -> None:
    assert list(stuck(unprimed, x(), False)[0]) == list(stuck(unprimed, x(), False)[0])
