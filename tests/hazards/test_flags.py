"""Broken flags, wrong and right forms: kind, line, pair and id, on the cards where they apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import UnsupportedError
from aicore_sim.hazards.flags import FLAG_KINDS
from aicore_sim.hazards.model import Hazard
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, order, ub
from tests.scenarios.running import scenario

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
SEVERAL = ("atlas_a2", "atlas_a3", "atlas_350")
EVENTS = ("atlas_a2", "atlas_a3", "atlas_200i")
"""Cards whose queues use events in vector kernels."""
N = 64
E = asc.HardEvent


def run(kernel: Any, *args: Any, card: str = "atlas_350", **options: Any) -> Run:
    return asc.simulate(kernel, *args, card=card, auto_sync=False, **options)


def findings(kernel: Any, *args: Any, card: str = "atlas_350", **options: Any) -> list[Hazard]:
    """What is found about flags, errors first."""
    return [one for one in run(kernel, *args, card=card, **options).hazards if one.kind in FLAG_KINDS]


def x() -> Any:
    return np.zeros(64 * N, np.float32)


def line_of(kernel: Any, text: str, nth: int = 0) -> int:
    """The source line of a kernel in which `text` stands, the `nth` of them."""
    first: int = kernel.fn.__code__.co_firstlineno
    with open(__file__) as source:
        lines = source.readlines()
    return [number for number in range(first, len(lines)) if text in lines[number - 1]][nth]


# ---- unpaired-set ---------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def last_set(x: asc.GlobalAddress, tiles: asc.ConstExpr[int], drained: asc.ConstExpr[bool]) -> None:
    """The buffer is declared free once more than it is asked for (P32)."""
    tile = ub(asc.float32, 0, N)
    for i in range(tiles):
        if i > 0:
            asc.wait_flag(E.V_MTE2, 3)
        asc.data_copy(tile, gm(x), N)
        order(E.MTE2_V)
        asc.muls(tile, tile, 2.0, N)
        if not drained or i + 1 < tiles:
            asc.set_flag(E.V_MTE2, 3)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("tiles", [1, 4])
def test_a_set_of_the_last_round_that_nobody_waits_for(card: str, tiles: int) -> None:
    (found,) = findings(last_set, x(), tiles, False, card=card)
    assert (found.kind, found.severity, found.verdict, found.count) == ("unpaired-set", "warning", "possible", 1)
    line = line_of(last_set, "set_flag(E.V_MTE2, 3)")
    assert (found.at.line, found.at.api, found.at.pipe, found.at.iteration) == (line, "SetFlag", "V", tiles - 1)
    assert found.detail.startswith("V_MTE2 id 3 is still set at the end of the kernel")
    (wait,) = found.insert
    assert (wait.code, wait.line, wait.after) == (
        "asc.wait_flag(asc.HardEvent.V_MTE2, 3)", line_of(last_set, "for i in range"), True)  # fmt: skip
    assert findings(last_set, x(), tiles, True, card=card) == []


def test_every_block_that_leaves_it_set_counts() -> None:
    (found,) = findings(last_set, x(), 2, False, blocks=5)
    assert (found.kind, found.count) == ("unpaired-set", 5)


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def set_by_the_block_before(x: asc.GlobalAddress) -> None:
    """Every block but the first of a core finds the flag up that the one before has left."""
    if asc.get_block_idx() >= 2:
        asc.wait_flag(E.MTE2_V, 0)
    asc.data_copy(ub(asc.float32, 0, N), gm(x), N)
    asc.set_flag(E.MTE2_V, 0)


def test_a_flag_that_the_next_block_of_the_core_takes_is_left_set_all_the_same() -> None:
    (found,) = findings(set_by_the_block_before, x(), blocks=6, overrides={"cubes": 1, "vectors": 2})
    assert (found.kind, found.count) == ("unpaired-set", 6)


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def barriers(x: asc.GlobalAddress) -> None:
    asc.set_flag(E.FIX_FIX, 0)
    asc.set_flag(E.FIX_FIX, 0)
    asc.wait_flag(E.FIX_FIX, 0)


@pytest.mark.parametrize("card", SEVERAL)
def test_events_of_one_pipe_are_barriers_and_no_flags(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def vector(x: asc.GlobalAddress) -> None:
        asc.set_flag(E.V_V, 0)
        asc.set_flag(E.V_V, 0)

    assert findings(barriers, x(), card=card) == []
    assert findings(vector, x(), card=card) == []


@pytest.mark.parametrize("card", CARDS)
def test_flags_that_the_compiler_inserts_are_its_own_matter(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def scalar(x: asc.GlobalAddress) -> None:
        tile = ub(asc.float32, 0, N)
        for i in range(3):
            asc.data_copy(tile, gm(x), N)
            tile.get_value(i)

    assert [one for one in asc.simulate(scalar, x(), card=card).hazards if one.kind in FLAG_KINDS] == []


# ---- double-set -----------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def twice(x: asc.GlobalAddress, rounds: asc.ConstExpr[int], form: asc.ConstExpr[str]) -> None:
    tile = ub(asc.float32, 0, 2 * N)
    for _ in range(rounds):
        asc.data_copy(tile, gm(x), N)
        asc.set_flag(E.MTE2_V, 5)  # first
        if form == "waited":
            asc.wait_flag(E.MTE2_V, 5)
        asc.data_copy(tile[N], gm(x), N)
        asc.set_flag(E.MTE2_V, 4 if form == "other id" else 5)  # second
        if form == "other id":
            asc.wait_flag(E.MTE2_V, 4)
        if form != "waited":
            asc.wait_flag(E.MTE2_V, 5)
        if form == "twice":
            asc.wait_flag(E.MTE2_V, 5)
        if form == "waited":
            asc.wait_flag(E.MTE2_V, 5)
        asc.muls(tile, tile, 2.0, 2 * N)
        order(E.V_MTE2)


@pytest.mark.parametrize("card", CARDS)
def test_two_sets_without_a_wait_between_them(card: str) -> None:
    (found,) = findings(twice, x(), 3, "twice", card=card)
    assert (found.kind, found.severity, found.verdict, found.count) == ("double-set", "error", "possible", 3)
    assert (found.at.line, found.at.pipe) == (line_of(twice, "# second"), "MTE2")
    assert found.other is not None and found.other.line == line_of(twice, "# first")
    assert "MTE2_V id 5" in found.detail
    assert found.fix == f"add asc.wait_flag(asc.HardEvent.MTE2_V, 5) behind line {found.other.line}"
    for form in ("waited", "other id"):
        assert findings(twice, x(), 3, form, card=card) == []


def test_the_order_of_the_program_decides_not_that_of_the_run() -> None:
    # V is busy when MTE2 sets again: the wait of the first set has been issued and not executed.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def slow_taker(x: asc.GlobalAddress) -> None:
        tile = ub(asc.float32, 0, 2 * N)
        asc.muls(ub(asc.float32, 1024, 8192), ub(asc.float32, 1024, 8192), 2.0, 8192)
        for _ in range(3):
            asc.set_flag(E.MTE2_V, 0)
            asc.wait_flag(E.MTE2_V, 0)
        asc.muls(tile, tile, 2.0, N)

    done = run(slow_taker, x())
    assert [one for one in done.hazards if one.kind in FLAG_KINDS] == []


# ---- queues ---------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def queued(
    x: asc.GlobalAddress, tiles: asc.ConstExpr[int], buffers: asc.ConstExpr[int], depth: asc.ConstExpr[int],
    form: asc.ConstExpr[str],
) -> None:  # fmt: skip
    """The tiles through a queue in and a queue out; a depth of 2 and more fills the queue before it is emptied."""
    pipe = asc.TPipe()
    come, go = asc.TQue(asc.TPosition.VECIN, depth), asc.TQue(asc.TPosition.VECOUT, depth)
    pipe.init_buffer(come, buffers, 4 * N)
    pipe.init_buffer(go, buffers, 4 * N)
    for first in range(0, tiles, max(depth, 1)):
        for i in range(first, min(first + max(depth, 1), tiles)):
            tile = come.alloc_tensor(asc.float32)
            asc.data_copy(tile, gm(x, i * N), N)
            come.enque(tile)
        for i in range(first, min(first + max(depth, 1), tiles)):
            if form == "left" and i + 1 == tiles:
                break
            tile, out = come.deque(asc.float32), go.alloc_tensor(asc.float32)
            asc.muls(out, tile, 2.0, N)
            if form == "kept" and i + 1 == tiles:
                break
            come.free_tensor(tile)
            go.enque(out)
            out = go.deque(asc.float32)
            asc.data_copy(gm(x, i * N), out, N)
            go.free_tensor(out)


@pytest.mark.parametrize(("buffers", "depth"), [(1, 1), (2, 1), (3, 1), (2, 2), (3, 3), (1, 0), (2, 0)])
@pytest.mark.parametrize("card", CARDS)
def test_queues_keep_their_flags_in_order(card: str, buffers: int, depth: int) -> None:
    words = x()
    done = run(queued, words, 7, buffers, depth, "right", card=card)
    assert list(done.hazards) == []


@pytest.mark.parametrize("card", EVENTS)
def test_a_tensor_left_in_its_queue_leaves_its_flag(card: str) -> None:
    (found,) = findings(queued, x(), 4, 2, 1, "left", card=card)
    assert (found.kind, found.severity, found.at.line) == ("unpaired-set", "warning", line_of(queued, "come.enque(tile)"))
    assert "MTE2_V" in found.detail
    assert "deque" in found.fix
    assert found.insert == ()
    assert findings(queued, x(), 4, 2, 1, "left") == []  # there queues hold buffer locks, which nothing is left of


@pytest.mark.parametrize("card", CARDS)
def test_a_tensor_that_is_not_freed_has_no_flag_up(card: str) -> None:
    assert findings(queued, x(), 4, 2, 1, "kept", card=card) == []


# ---- ids of somebody else -------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def beside_a_queue(x: asc.GlobalAddress, form: asc.ConstExpr[str]) -> None:
    pipe = asc.TPipe()
    come = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(come, 1, 4 * N)
    tile = come.alloc_tensor(asc.float32)
    asc.data_copy(tile, gm(x), N)
    come.enque(tile)
    more = ub(asc.float32, 4 * N, N)
    asc.data_copy(more, gm(x), N)
    mine = asc.get_tpipe_ptr().alloc_event_id(E.MTE2_V) if form == "allocated" else 1 if form == "other" else 0
    if form == "later":
        tile = come.deque(asc.float32)
    asc.set_flag(E.MTE2_V, mine)
    asc.wait_flag(E.MTE2_V, mine)
    if form != "later":
        tile = come.deque(asc.float32)
    asc.add(tile, tile, more, N)
    come.free_tensor(tile)


@pytest.mark.parametrize("card", EVENTS)
def test_an_id_that_a_queue_holds(card: str) -> None:
    found = run(beside_a_queue, x(), "held", card=card).hazards
    reuse = found.of("event-id-reuse")
    assert [(one.at.api, one.at.line, one.at.pipe) for one in reuse] == [
        ("SetFlag", line_of(beside_a_queue, "set_flag(E.MTE2_V, mine)"), "MTE2"),
        ("WaitFlag", line_of(beside_a_queue, "wait_flag(E.MTE2_V, mine)"), "V"),
    ]  # fmt: skip
    assert [one.severity for one in reuse] == ["error", "warning"]  # the set is the second of the flag
    assert all("MTE2_V id 0 is in use by a queue" in one.detail for one in reuse)
    assert "alloc_event_id(asc.HardEvent.MTE2_V)" in reuse[0].fix
    assert found.of("double-set") == []
    assert reuse[0].other is not None and reuse[0].other.line == line_of(beside_a_queue, "come.enque(tile)")
    for form in ("allocated", "other", "later"):
        assert findings(beside_a_queue, x(), form, card=card) == []


def test_queues_of_350_hold_no_events() -> None:
    assert findings(beside_a_queue, x(), "held") == []


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def two_results(x: asc.GlobalAddress, form: asc.ConstExpr[str]) -> None:
    pipe = asc.TPipe()
    get = pipe.fetch_event_id if form != "allocated" else pipe.alloc_event_id
    tile = ub(asc.float32, 0, 2 * N)
    one = get(E.MTE2_V)
    if form == "one by one":
        asc.set_flag(E.MTE2_V, one)
        asc.wait_flag(E.MTE2_V, one)
    two = get(E.MTE2_V)
    if form != "one by one":
        asc.data_copy(tile, gm(x), N)
        asc.set_flag(E.MTE2_V, one)
    asc.data_copy(tile[N], gm(x), N)
    asc.set_flag(E.MTE2_V, two)
    if form != "one by one":
        asc.wait_flag(E.MTE2_V, one)
    asc.wait_flag(E.MTE2_V, two)
    asc.muls(tile, tile, 2.0, 2 * N)


@pytest.mark.parametrize("card", CARDS)
def test_two_fetched_ids_in_use_at_once_are_one(card: str) -> None:
    (found,) = findings(two_results, x(), "fetched", card=card)
    assert (found.kind, found.severity, found.at.line) == ("event-id-reuse", "error", line_of(two_results, "E.MTE2_V, two)"))
    assert "MTE2_V id 0" in found.detail
    assert "alloc_event_id" in found.fix
    for form in ("allocated", "one by one"):
        assert findings(two_results, x(), form, card=card) == []


def test_an_allocated_id_named_by_number() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def named(x: asc.GlobalAddress, number: asc.ConstExpr[int]) -> None:
        own = asc.TPipe().alloc_event_id(E.MTE2_V)
        for _ in range(2):
            asc.set_flag(E.MTE2_V, own)
            asc.wait_flag(E.MTE2_V, own)
            asc.set_flag(E.MTE2_V, number)  # by hand
            asc.wait_flag(E.MTE2_V, number)
        asc.get_tpipe_ptr().release_event_id(own, E.MTE2_V)

    found = findings(named, x(), 0)
    assert {one.kind for one in found} == {"event-id-reuse"}
    assert line_of(named, "# by hand") in {one.at.line for one in found}
    assert findings(named, x(), 1) == []


@pytest.mark.parametrize("card", CARDS)
def test_ids_chosen_by_hand_that_are_reserved(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def reserved(x: asc.GlobalAddress, number: asc.ConstExpr[int], framework: asc.ConstExpr[bool]) -> None:
        if framework:
            asc.TPipe()
        for _ in range(3):
            order(E.MTE2_V, number)

    at = line_of(reserved, "order(E.MTE2_V, number)")
    for number, framework in ((6, False), (6, True), (7, True)):
        (found,) = findings(reserved, x(), number, framework, card=card)
        assert (found.kind, found.severity, found.count) == ("reserved-id", "warning", 3)
        assert (found.at.pipe, found.at.api) == ("MTE2", "SetFlag")
        assert f"event id {number}" in found.detail
    for number, framework in ((7, False), (5, True)):
        assert findings(reserved, x(), number, framework, card=card) == []
    assert at > 0


def test_reserved_ids_that_the_framework_gives_are_its_own() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def all_of_them(x: asc.GlobalAddress) -> None:
        pipe = asc.TPipe()
        own = [pipe.alloc_event_id(E.MTE2_V) for _ in range(7)]
        order(E.MTE2_V, own[6])
        order(E.MTE2_V, pipe.fetch_event_id(E.MTE2_V))

    assert findings(all_of_them, x()) == []


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def preset(x: asc.GlobalAddress, number: asc.ConstExpr[int], form: asc.ConstExpr[str]) -> None:
    if form != "bare":
        asc.TPipe()
    for _ in range(2):
        if form == "meant":
            asc.wait_flag(E.M_MTE1, number)
        asc.set_flag(E.M_MTE1, number)
        if form != "meant":
            asc.wait_flag(E.M_MTE1, number)


@pytest.mark.parametrize("card", CARDS)
def test_ids_that_tpipe_has_set_itself(card: str) -> None:
    # The second set of M takes the place of TPipe's own, for which MTE1 waits: what the kernel meant to wait for is not there yet.
    for number in (0, 1, 2):
        (found,) = findings(preset, x(), number, "set", card=card)
        assert (found.kind, found.severity, found.at.line) == ("preset-id", "error", line_of(preset, "set_flag"))
        assert (found.at.pipe, found.count) == ("M", 1)
        assert f"M_MTE1 id {number}" in found.detail
    assert findings(preset, x(), 3, "set", card=card) == []
    for form in ("bare", "meant"):
        assert findings(preset, x(), 1, form, card=card) == []


# ---- between cores --------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def stream(x: asc.GlobalAddress, tiles: asc.ConstExpr[int], window: asc.ConstExpr[int], slow: asc.ConstExpr[int]) -> None:
    """The cube core signals a tile at a time; the vector cores answer every `window` tiles (0: never)."""
    if asc.ascend_is_aic():
        for i in range(tiles):
            if window and i and i % window == 0:
                asc.cross_core_wait_flag(2, 2, asc.PipeID.PIPE_FIX)
            asc.cross_core_set_flag(1, 2, asc.PipeID.PIPE_FIX)
    else:
        tile = ub(asc.float32, 0, 8192)
        for i in range(tiles):
            asc.cross_core_wait_flag(1, 2, asc.PipeID.PIPE_V)
            if slow:
                asc.muls(tile, tile, 2.0, 8192)
            if window and (i + 1) % window == 0 and i + 1 < tiles:
                asc.cross_core_set_flag(2, 2, asc.PipeID.PIPE_V)


@pytest.mark.parametrize("card", SEVERAL)
def test_more_signals_than_a_counter_holds(card: str) -> None:
    (found,) = findings(stream, x(), 40, 0, 1, card=card)
    assert (found.kind, found.severity, found.verdict) == ("cross-core-overflow", "error", "observed")
    assert (found.at.core, found.at.pipe, found.at.api) == ("core0.aic", "FIX", "CrossCoreSetFlag")
    assert (found.at.line, found.at.iteration) == (line_of(stream, "cross_core_set_flag(1"), 15)
    assert found.detail.startswith("16 signals of flag 1 are pending on core0.aiv")
    assert findings(stream, x(), 15, 0, 1, card=card) == []
    for window in (1, 8, 15):
        assert findings(stream, x(), 40, window, 1, card=card) == []


@pytest.mark.parametrize("window", [0, 16])
def test_an_overflow_that_this_run_had_the_luck_to_miss(window: int) -> None:
    quick = {"sync.set_flag": 500}  # the setter is slower than those who wait
    (found,) = findings(stream, x(), 40, window, 0, overrides=quick)
    assert (found.kind, found.verdict) == ("cross-core-overflow", "possible")
    assert found.other is not None and found.other.line == line_of(stream, "cross_core_wait_flag(1")


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def signal(x: asc.GlobalAddress, mode: asc.ConstExpr[int], waiting: asc.ConstExpr[str], pipe: asc.ConstExpr[str]) -> None:
    if asc.ascend_is_aic():
        if mode == 4:
            asc.cross_core_set_flag(19, 4, asc.PipeID[pipe])
        asc.cross_core_set_flag(3, mode, asc.PipeID[pipe])
    elif waiting == "both" or (waiting == "one" and asc.get_sub_block_idx() == 0):
        asc.cross_core_wait_flag(3, mode, asc.PipeID.PIPE_MTE2)


@pytest.mark.parametrize("card", SEVERAL)
def test_a_signal_that_a_core_does_not_wait_for(card: str) -> None:
    assert findings(signal, x(), 2, "both", "PIPE_FIX", card=card) == []
    for waiting, left in (("one", 1), ("none", 2)):
        (found,) = findings(signal, x(), 2, waiting, "PIPE_FIX", card=card)
        assert (found.kind, found.severity, found.count) == ("unpaired-set", "warning", left)
        assert (found.at.core, found.at.line) == ("core0.aic", line_of(signal, "cross_core_set_flag(3"))
        assert "flag 3 (mode 2)" in found.detail
        assert "core0.aiv1" in found.detail
        assert ("core0.aiv0" in found.detail) is (waiting == "none")


def test_mode_4_speaks_to_one_vector_core() -> None:
    assert findings(signal, x(), 4, "both", "PIPE_FIX") == []
    (found,) = findings(signal, x(), 4, "one", "PIPE_FIX")
    assert (found.kind, found.at.line) == ("unpaired-set", line_of(signal, "cross_core_set_flag(19"))
    assert "core0.aiv1" in found.detail


@pytest.mark.parametrize("card", SEVERAL)
def test_a_set_that_one_vector_core_does_not_join(card: str) -> None:
    @asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
    def half(x: asc.GlobalAddress, both: asc.ConstExpr[bool]) -> None:
        if asc.ascend_is_aiv() and (both or asc.get_sub_block_idx() == 1):
            asc.cross_core_set_flag(4, 2, asc.PipeID.PIPE_MTE3)
        if asc.ascend_is_aic() and both:
            asc.cross_core_wait_flag(4, 2, asc.PipeID.PIPE_MTE2)

    (found,) = findings(half, x(), False, card=card)
    assert (found.kind, found.at.core) == ("unpaired-set", "core0.aiv1")
    assert "core0.aiv0 has not set it" in found.detail
    assert findings(half, x(), True, card=card) == []


# ---- calls that emit nothing ----------------------------------------------------------------------------------------
def test_a_set_on_a_pipe_that_the_core_lacks() -> None:
    (found,) = findings(signal, x(), 2, "none", "PIPE_MTE3")
    assert (found.kind, found.severity, found.count) == ("dropped-flag", "warning", 1)
    assert (found.at.core, found.at.pipe, found.at.api) == ("core0.aic", "MTE3", "CrossCoreSetFlag")
    assert found.at.line == line_of(signal, "cross_core_set_flag(3")
    assert "FIX" in found.fix
    assert findings(signal, x(), 2, "both", "PIPE_MTE3", card="atlas_a2") == []


@pytest.mark.parametrize("card", SEVERAL)
def test_pairs_of_the_other_kind_of_core_are_worth_a_note_in_kernels_of_one_kind(card: str) -> None:
    @asc.jit
    def foreign(x: asc.GlobalAddress) -> None:
        order(E.MTE2_V)

    pure = foreign.with_options({"kernel_type": asc.KernelType.AIC_ONLY})
    found = findings(pure, x(), card=card)
    assert [(one.kind, one.severity, one.at.api) for one in found] == [
        ("dropped-flag", "note", "SetFlag"), ("dropped-flag", "note", "WaitFlag")]  # fmt: skip
    assert run(pure, x(), card=card).hazards.clean
    mix = foreign.with_options({"kernel_type": asc.KernelType.MIX_AIC_1_2})
    assert findings(mix, x(), card=card) == []


# ---- unit flags -----------------------------------------------------------------------------------------------------
SIDE = 32


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def cube(x: asc.GlobalAddress, steps: asc.ConstExpr) -> None:
    """("mmad", unit flag) and ("fix", unit flag, rows) one after another, on one tile; flags order them too."""
    a = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, SIDE * SIDE)
    b = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, SIDE * SIDE)
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * SIDE)
    for kind, value, *rows in steps:
        if kind == "mmad":
            asc.mmad(l0c, a, b, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=value, cmatrix_init_val=True))
            order(E.M_FIX)
        else:
            asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(SIDE, rows[0] if rows else SIDE, SIDE, SIDE, unit_flag=value))
            order(E.FIX_M)


@pytest.mark.parametrize("card", SEVERAL)
def test_unit_flags_that_fixpipe_takes_down(card: str) -> None:
    for steps in ((("mmad", 3), ("fix", 3)), (("mmad", 2), ("mmad", 3), ("fix", 2), ("fix", 3)), (("mmad", 0), ("fix", 0)),
                  (("mmad", 3), ("fix", 0), ("fix", 3)), (("mmad", 3), ("fix", 3)) * 3):  # fmt: skip
        assert findings(cube, x(), steps, card=card) == []


@pytest.mark.parametrize("card", SEVERAL)
@pytest.mark.parametrize(("steps", "words", "blocks"), [
    ((("mmad", 3),), "no Fixpipe", 8),
    ((("mmad", 3), ("fix", 0)), "with unit flag 0", 8),
    ((("mmad", 3), ("fix", 2)), "with unit flag 2", 8),
    ((("mmad", 3), ("fix", 3, 16)), "reads less than", 4),
    ((("mmad", 3), ("fix", 3), ("mmad", 3)), "no Fixpipe", 8),
])  # fmt: skip
def test_unit_flags_that_stay_up(card: str, steps: Any, words: str, blocks: int) -> None:
    (found,) = findings(cube, x(), steps, card=card)
    assert (found.kind, found.severity, found.at.api, found.count) == ("unit-flag-left", "warning", "Mmad", 1)
    assert (found.at.line, found.at.iteration) == (line_of(cube, "asc.mmad("), sum(kind == "mmad" for kind, *_ in steps) - 1)
    assert words in found.detail
    assert f"({blocks} of 512 B)" in found.detail
    assert (found.other is None) is (words == "no Fixpipe")
    if found.other is not None:
        assert found.other.line == line_of(cube, "asc.fixpipe(")


# ---- right kernels --------------------------------------------------------------------------------------------------
BETWEEN_CORES = ("mix_gemm_add", "mix_gemm_vector", "two_launches", "sync_all_missing")


@pytest.mark.parametrize("name", ["add", "matmul", "pingpong_gemm", "double_buffer_add", "flag_deadlock", *BETWEEN_CORES])
@pytest.mark.parametrize("card", CARDS)
def test_scenarios_have_their_flags_in_order(card: str, name: str) -> None:
    if card == "atlas_200i" and name in BETWEEN_CORES:
        with pytest.raises(UnsupportedError):
            scenario(name, card)
        return
    right = {"flag_deadlock": {"form": "right"}, "sync_all_missing": {"drop": False}}.get(name, {})
    assert [one.kind for one in scenario(name, card, **right)[0].hazards if one.kind in FLAG_KINDS] == []


def test_findings_are_the_same_every_time() -> None:
    assert findings(last_set, x(), 2, False, blocks=5) == findings(last_set, x(), 2, False, blocks=5)
