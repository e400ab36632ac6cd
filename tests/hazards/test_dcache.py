"""Scalar data caches: stores that others miss, loads of old copies, stores lost at the end of the kernel.

The rules are those of spec coherence.md 3 and 4 and pitfall P24. Words are OLD before a kernel and NEW behind its store, which
differ in every byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards.deadlock import from_error
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, POSSIBLE, WARNING, Hazard
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, SEPARATE, Flags, is_clean, marks, name

VECTORS = asc.KernelType.MIX_AIV_1_0
LINE = 16
"""Words in a line of the data cache."""
OLD, NEW = 0x11111111, 0x22222222
CLEAN = "asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board[0])"
BARRIER = "asc.data_sync_barrier(asc.MemDsbT.DDR)"


def words(count: int = LINE, value: int = OLD) -> Any:
    return np.full(count, value, np.int32)


def hexed(value: int) -> str:
    return value.to_bytes(4, "little").hex()


def line_of(mark: str) -> int:
    return next(number for number, text in marks(__file__).items() if text == mark)


def reported(run: Run) -> set[tuple[str, str, str, str]]:
    """All that makes a run unclean: (kind, severity, line that suffers, line of the other)."""
    return {(h.kind, h.severity, name(h.at), name(h.other) if h.other else "") for h in run.hazards if h.severity != NOTE}


def the_hazard(run: Run, kind: str, at: str, other: str, severity: str = ERROR) -> Hazard:
    """The only finding of a run."""
    assert reported(run) == {(kind, severity, at, other)}
    (hazard,) = run.hazards.of(kind)
    return hazard


def inserts(hazard: Hazard) -> list[tuple[int, str, bool]]:
    assert all(one.file == __file__ for one in hazard.insert)
    return [(one.line, one.code, one.after) for one in hazard.insert]


def says_old_word(hazard: Hazard) -> None:
    """Word 0 of x was delivered OLD in place of NEW."""
    assert hazard.verdict == OBSERVED
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("x", 0, 4)
    assert (hazard.old, hazard.new) == (hexed(OLD), hexed(NEW))


@asc.jit
def clean(tensor: Any, entire: bool = False) -> None:
    which = asc.CacheLine.ENTIRE_DATA_CACHE if entire else asc.CacheLine.SINGLE_CACHE_LINE
    asc.data_cache_clean_and_invalid(which, tensor, asc.DcciDst.CACHELINE_OUT)  # @clean
    asc.data_sync_barrier(asc.MemDsbT.DDR)


# ---- dirty: the core's own copies -------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def own_copy(x: asc.GlobalAddress, y: asc.GlobalAddress, steps: asc.ConstExpr, load: asc.ConstExpr, value: asc.ConstExpr):
    """A scalar store, `steps`, and a load of it by MTE2."""
    flags = Flags()
    board, tile = gm(x), ub(x.dtype, 0, LINE)
    board.set_value(0, value)  # @o_store
    for step in steps:
        if step == "clean":
            asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board[0])  # @o_clean
        elif step == "all":
            asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, board[0])
        elif step == "next":
            asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board[LINE])
        elif step == "ub":
            asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board[0], asc.DcciDst.CACHELINE_UB)
        elif step == "dsb":
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        elif step == "dsb ub":
            asc.data_sync_barrier(asc.MemDsbT.UB)
        else:
            flags.order("S_MTE2")
    if load == "nddma":
        row = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (LINE,), (0,), (0,)), 0)
        asc.data_copy(tile, board, row)  # @o_nddma
    else:
        asc.data_copy(tile, board, LINE)  # @o_load
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), tile, LINE)


def own(card: str, *steps: str, load: str = "plain", value: int = NEW, **options: Any) -> tuple[Run, Any]:
    y = np.zeros(LINE, np.int32)
    run = asc.simulate(own_copy, words(2 * LINE), y, steps, load, value, card=card, auto_sync=False, **options)
    return run, y


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("how", ["clean", "all"])
def test_a_core_that_copies_what_its_scalar_unit_stored(card: str, how: str) -> None:
    run, y = own(card, how, "dsb", "flag")
    assert is_clean(run)
    assert y[0] == NEW


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("steps", [("flag",), ("dsb", "flag"), ("next", "dsb", "flag"), ("ub", "dsb", "flag")])
def test_the_store_is_still_in_the_cache(card: str, steps: tuple[str, ...]) -> None:
    run, y = own(card, *steps)
    assert (y == OLD).all()
    hazard = the_hazard(run, "dirty-dcache", "o_load", "o_store")
    says_old_word(hazard)
    assert (hazard.ordered, hazard.visible) == (True, False)
    assert (hazard.at.pipe, hazard.other.pipe, hazard.other.api) == ("MTE2", "S", "SetValue")
    assert inserts(hazard) == [(line_of("o_store"), CLEAN, True), (line_of("o_store"), BARRIER, True)]


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("steps", [("clean", "flag"), ("clean", "dsb ub", "flag"), ("dsb", "clean", "flag"), ("flag", "clean")])
def test_a_clean_that_nobody_waits_for(card: str, steps: tuple[str, ...]) -> None:
    hazard = the_hazard(own(card, *steps)[0], "dirty-dcache", "o_load", "o_store", WARNING)
    assert (hazard.verdict, hazard.ordered, hazard.visible) == (POSSIBLE, True, False)
    assert inserts(hazard) == [(line_of("o_clean"), BARRIER, True)]
    assert str(line_of("o_clean")) in hazard.detail


@pytest.mark.parametrize("card", SEPARATE)
def test_without_a_flag_it_is_a_race(card: str) -> None:
    for steps in ((), ("clean",)):
        races = own(card, *steps)[0].hazards.of("race-raw")
        assert [(name(race.at), name(race.other), race.ordered) for race in races] == [("o_load", "o_store", False)]
    # The barrier holds the scalar unit, which issues the copy behind it.
    run, y = own(card, "clean", "dsb")
    assert is_clean(run)
    assert y[0] == NEW


def test_an_nddma_copy_misses_it_too() -> None:
    assert is_clean(own("atlas_350", "clean", "dsb", "flag", load="nddma")[0])
    says_old_word(the_hazard(own("atlas_350", "flag", load="nddma")[0], "dirty-dcache", "o_nddma", "o_store"))


@pytest.mark.parametrize("card", SEPARATE)
def test_a_dirty_line_with_equal_bytes_or_without_data(card: str) -> None:
    for run in (own(card, "flag", value=OLD)[0], own(card, "flag", data=False)[0]):
        hazard = the_hazard(run, "dirty-dcache", "o_load", "o_store")
        assert (hazard.verdict, hazard.old, hazard.new) == (POSSIBLE, "", "")
        assert (hazard.address, hazard.bytes) == (0, 4)
    assert is_clean(own(card, "clean", "dsb", "flag", data=False)[0])


# ---- dirty: other cores -----------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def publish(x: asc.GlobalAddress, y: asc.GlobalAddress, how: asc.ConstExpr, reader: asc.ConstExpr):
    """Core 0 stores word 0 between no SyncAll and two; core 1 reads it between them for the first time."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        if how == "bypass":
            asc.write_gm_by_pass_dcache(x, NEW)
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        else:
            board.set_value(0, NEW)  # @p_store
        if how in ("clean", "all"):
            clean(board[0], how == "all")
        if how == "next":
            clean(board[LINE])
        asc.sync_all()
        if how == "late":
            clean(board[0])
        asc.sync_all()
        return
    asc.sync_all()
    if reader == "plain":
        tile = ub(x.dtype, 0, LINE)
        asc.data_copy(tile, board, LINE)  # @p_plain
        Flags().order("MTE2_MTE3")
        asc.data_copy(gm(y), tile, LINE)
    else:
        if reader == "cached":
            seen = board.get_value(0)  # @p_cached
        else:
            seen = asc.read_gm_by_pass_dcache(x)  # @p_bypass
        gm(y).set_value(0, seen)
    asc.sync_all()


def published(card: str, how: str, reader: str) -> tuple[Run, Any]:
    y = np.zeros(LINE, np.int32)
    return asc.simulate(publish, words(2 * LINE), y, how, reader, card=card, blocks=2), y


READERS = ("plain", "cached", "bypass")


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", ["clean", "all", "bypass"])
def test_a_store_that_others_see(card: str, reader: str, how: str) -> None:
    run, y = published(card, how, reader)
    assert is_clean(run)
    assert y[0] == NEW


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", ["none", "next"])
def test_a_store_that_others_do_not_see(card: str, reader: str, how: str) -> None:
    run, y = published(card, how, reader)
    assert y[0] == OLD
    hazard = the_hazard(run, "dirty-dcache", f"p_{reader}", "p_store")
    says_old_word(hazard)
    assert (hazard.ordered, hazard.visible) == (True, False)
    assert hazard.at.core != hazard.other.core
    assert inserts(hazard) == [(line_of("p_store"), CLEAN, True), (line_of("p_store"), BARRIER, True)]


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("reader", READERS)
def test_a_clean_behind_the_signal(card: str, reader: str) -> None:
    hazard = the_hazard(published(card, "late", reader)[0], "dirty-dcache", f"p_{reader}", "p_store")
    assert (hazard.ordered, hazard.visible) == (True, False)


@asc.jit(kernel_type=VECTORS)
def signal(x: asc.GlobalAddress, y: asc.GlobalAddress, word: asc.GlobalAddress, drop: asc.ConstExpr):
    """As `publish`, with a word past the caches that core 1 polls."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        board.set_value(0, NEW)  # @g_store
        if drop != "clean":
            asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board[0])  # @g_clean
        if drop != "dsb":
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        asc.write_gm_by_pass_dcache(word, 1)
        asc.data_sync_barrier(asc.MemDsbT.DDR)
        return
    while asc.read_gm_by_pass_dcache(word) != 1:
        pass
    gm(y).set_value(0, board.get_value(0))  # @g_load


@pytest.mark.parametrize("card", SEPARATE)
def test_a_word_as_signal(card: str) -> None:
    def run(drop: str) -> Run:
        return asc.simulate(signal, words(), words(), words(LINE, 0), drop, card=card, blocks=2)

    assert is_clean(run("none"))
    # What core 1 gets depends on when the end of core 0's block cleans the line.
    hazard = the_hazard(run("clean"), "dirty-dcache", "g_load", "g_store")
    assert (hazard.ordered, hazard.visible) == (True, False)
    # The word may reach GM before the line does: then nothing orders the two.
    hazard = the_hazard(run("dsb"), "race-raw", "g_load", "g_store")
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("x", 0, 4)
    assert (hazard.ordered, hazard.visible) == (False, False)
    assert inserts(hazard) == [(line_of("g_clean"), BARRIER, True)]


# ---- the end of the kernel --------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def store_and_leave(x: asc.GlobalAddress, cleaned: asc.ConstExpr, again: asc.ConstExpr):
    board = gm(x)
    board.set_value(0, NEW)  # @e_store
    if cleaned:
        clean(board[0])
    if again:
        board.set_value(LINE, NEW)  # @e_again


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("flush", [True, False])
def test_stores_are_lost_where_the_build_leaves_the_clean_out(card: str, flush: bool) -> None:
    def run(cleaned: bool, again: bool = False, **options: Any) -> tuple[Run, Any]:
        x = words(2 * LINE)
        overrides = {"scalar.flush_at_end": flush}
        return asc.simulate(store_and_leave, x, cleaned, again, card=card, overrides=overrides, **options), x

    kept, x = run(True)
    assert is_clean(kept)
    assert x[0] == NEW
    bare, x = run(False)
    assert x[0] == (NEW if flush else OLD)
    if flush:
        assert all(h.severity == NOTE for h in bare.hazards)
        return
    hazard = the_hazard(bare, "dirty-dcache", "e_store", "")
    says_old_word(hazard)
    assert hazard.visible is False
    assert inserts(hazard) == [(line_of("e_store"), CLEAN, True)]
    assert "scalar.flush_at_end" in hazard.detail
    without = the_hazard(run(False, data=False)[0], "dirty-dcache", "e_store", "")
    assert (without.verdict, without.old, without.new) == (POSSIBLE, "", "")
    # A line cleaned in between does not help another one stored behind.
    later, x = run(True, True)
    assert (x[0], x[LINE]) == (NEW, OLD)
    assert the_hazard(later, "dirty-dcache", "e_again", "").address == 4 * LINE


# ---- stale: other cores -----------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def look_twice(x: asc.GlobalAddress, y: asc.GlobalAddress, store: asc.ConstExpr, steps: asc.ConstExpr, value: asc.ConstExpr):
    """Core 1 loads word 0, core 0 stores it between two SyncAlls, core 1 does `steps` and loads it again."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        asc.sync_all()
        if store == "MTE3":
            tile = ub(x.dtype, 0, LINE)
            asc.duplicate(tile, value, LINE)
            Flags().order("V_MTE3")
            asc.data_copy(board, tile, LINE)  # @t_MTE3
        elif store == "bypass":
            asc.write_gm_by_pass_dcache(x, value)  # @t_bypass
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        elif store == "scalar":
            board.set_value(0, value)  # @t_scalar
            clean(board[0])
        asc.sync_all()
        return
    first = 0
    if "cold" not in steps:
        first = board.get_value(0)  # @t_look
    if "early" in steps:
        clean(board[0])
    if "early look" in steps:
        first = board.get_value(0)
    asc.sync_all()
    asc.sync_all()
    if "line" in steps:
        clean(board[0])
    if "last word" in steps:
        clean(board[LINE - 1])
    if "all" in steps:
        clean(board[0], True)
    if "next" in steps:
        clean(board[LINE])
    if "through" in steps:
        for at in range(LINE, load_lines(), LINE):
            board.get_value(at)
    if "bypass" in steps:
        second = asc.read_gm_by_pass_dcache(x)
    else:
        second = board.get_value(0)  # @t_load
    result = gm(y)
    result.set_value(0, first)
    result.set_value(1, second)


def load_lines() -> int:
    """Words that take twice the lines of a data cache."""
    return 2 * 32768 // 4


def looked(card: str, store: str, *steps: str, value: int = NEW, size: int = 2 * LINE, **options: Any) -> tuple[Run, Any]:
    y = np.zeros(LINE, np.int32)
    return asc.simulate(look_twice, words(size), y, store, steps, value, card=card, blocks=2, **options), y


STORES = ("MTE3", "bypass", "scalar")


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("steps", [(), ("next",), ("early", "early look")])
def test_a_load_from_an_old_copy(card: str, store: str, steps: tuple[str, ...]) -> None:
    run, y = looked(card, store, *steps)
    assert y[1] == OLD
    hazard = the_hazard(run, "stale-dcache", "t_load", f"t_{store}")
    says_old_word(hazard)
    assert (hazard.ordered, hazard.visible) == (True, False)
    assert (hazard.at.api, hazard.at.pipe) == ("GetValue", "S")
    assert hazard.at.core != hazard.other.core
    assert inserts(hazard) == [(line_of("t_load"), CLEAN, False)]


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("steps", [("line",), ("last word",), ("all",), ("cold",), ("bypass",), ("early",)])
def test_a_load_that_goes_to_gm(card: str, store: str, steps: tuple[str, ...]) -> None:
    run, y = looked(card, store, *steps)
    assert is_clean(run)
    assert y[1] == NEW


@pytest.mark.parametrize("card", SEPARATE)
def test_a_copy_that_nobody_has_rewritten(card: str) -> None:
    assert is_clean(looked(card, "nobody")[0])


@pytest.mark.parametrize("store", STORES)
def test_an_old_copy_with_equal_bytes(store: str) -> None:
    hazard = the_hazard(looked("atlas_a2", store, value=OLD)[0], "stale-dcache", "t_load", f"t_{store}")
    assert (hazard.verdict, hazard.old, hazard.new) == (POSSIBLE, "", "")
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("x", 0, 4)


def test_an_old_copy_that_was_replaced_by_luck() -> None:
    card = "atlas_a2"
    assert load_card(card).value("scalar.dcache_aiv_bytes") < 4 * load_lines()
    run, y = looked(card, "MTE3", "through", size=load_lines())
    assert y[1] == NEW
    assert the_hazard(run, "stale-dcache", "t_load", "t_MTE3").verdict == POSSIBLE


@asc.jit(kernel_type=VECTORS)
def neighbours(x: asc.GlobalAddress, y: asc.GlobalAddress):
    """Core 1 loads word 0, core 0 rewrites word 1 in the same line, core 1 loads word 1: never loaded before, and old."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        asc.sync_all()
        asc.write_gm_by_pass_dcache(x + 1, NEW)  # @v_store
        asc.data_sync_barrier(asc.MemDsbT.DDR)
        asc.sync_all()
        return
    board.get_value(0)
    asc.sync_all()
    asc.sync_all()
    gm(y).set_value(0, board.get_value(1))  # @v_load
    gm(y).set_value(1, board.get_value(0))


@pytest.mark.parametrize("card", SEPARATE)
def test_a_neighbour_in_the_line(card: str) -> None:
    y = np.zeros(LINE, np.int32)
    run = asc.simulate(neighbours, words(), y, card=card, blocks=2)
    assert y[:2].tolist() == [OLD, OLD]
    hazard = the_hazard(run, "stale-dcache", "v_load", "v_store")
    assert (hazard.verdict, hazard.address, hazard.bytes, hazard.count) == (OBSERVED, 4, 4, 1)
    assert (hazard.old, hazard.new) == (hexed(OLD), hexed(NEW))


@asc.jit(kernel_type=VECTORS)
def unordered(x: asc.GlobalAddress, y: asc.GlobalAddress):
    board = gm(x)
    if asc.get_block_idx() == 0:
        asc.write_gm_by_pass_dcache(x, NEW)  # @u_store
    else:
        board.get_value(0)
        gm(y).set_value(0, board.get_value(0))  # @u_load


@pytest.mark.parametrize("card", SEPARATE)
def test_a_store_without_order_is_a_race(card: str) -> None:
    run = asc.simulate(unordered, words(), words(), card=card, blocks=2)
    assert run.hazards.of("race-raw", "race-war")
    assert all(h.ordered is False for h in run.hazards)


# ---- stale: the core's own MTE3 ---------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def own_store(x: asc.GlobalAddress, y: asc.GlobalAddress, steps: asc.ConstExpr):
    flags = Flags()
    board, tile = gm(x), ub(x.dtype, 0, LINE)
    if "cold" not in steps:
        board.get_value(0)
    asc.duplicate(tile, NEW, LINE)
    flags.order("V_MTE3")
    flags.order("S_MTE3")
    if "early" in steps:
        clean(board[0])
    if "look" in steps:
        board.get_value(0)
        flags.order("S_MTE3")
    asc.data_copy(board, tile, LINE)  # @m_store
    if "flag" in steps:
        flags.order("MTE3_S")
    if "line" in steps:
        clean(board[0])
    if "bypass" in steps:
        seen = asc.read_gm_by_pass_dcache(x)
    else:
        seen = board.get_value(0)  # @m_load
    gm(y).set_value(0, seen)


@pytest.mark.parametrize("card", SEPARATE)
def test_a_core_that_loads_what_its_mte3_stored(card: str) -> None:
    def run(*steps: str) -> tuple[Run, Any]:
        y = np.zeros(LINE, np.int32)
        return asc.simulate(own_store, words(), y, steps, card=card, auto_sync=False), y

    for right in (("flag", "line"), ("flag", "bypass"), ("flag", "cold"), ("flag", "early")):
        found, y = run(*right)
        assert is_clean(found)
        assert y[0] == NEW
    for wrong in (("flag",), ("flag", "early", "look")):
        found, y = run(*wrong)
        assert y[0] == OLD
        hazard = the_hazard(found, "stale-dcache", "m_load", "m_store")
        says_old_word(hazard)
        assert hazard.at.core == hazard.other.core
        assert (hazard.ordered, hazard.visible) == (True, False)
    # Without the flag the invalidate does not help: it may come before the store.
    assert ("race-raw", "m_load", "m_store") in {(h.kind, name(h.at), name(h.other)) for h in run("line")[0].hazards}


# ---- polling ----------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def poll(x: asc.GlobalAddress, y: asc.GlobalAddress, cleans: asc.ConstExpr, bounded: asc.ConstExpr):
    """Core 0 publishes word 0 by a scalar store once core 1 has looked at it; core 1 polls it."""
    board, found = gm(x), False
    if asc.get_block_idx() == 0:
        asc.sync_all()
        board.set_value(0, NEW)  # @l_store
        clean(board[0])
        return
    board.get_value(0)
    asc.sync_all()
    if bounded:
        for _ in range(300):
            if cleans:
                clean(board[0])
            found = board.get_value(0) == NEW  # @l_bounded
            if found:
                break
    else:
        while board.get_value(0) != NEW:  # @l_poll
            if cleans:
                clean(board[0])
        found = True
    gm(y).set_value(0, int(found))


@pytest.mark.parametrize("card", SEPARATE)
def test_polling_through_the_cache(card: str) -> None:
    def run(cleans: bool, bounded: bool) -> tuple[Run, Any]:
        y = np.zeros(LINE, np.int32)
        return asc.simulate(poll, words(), y, cleans, bounded, card=card, blocks=2), y

    right, y = run(True, False)
    assert is_clean(right)
    assert y[0] == 1
    with pytest.raises(DeadlockError, match="livelock") as caught:
        run(False, False)
    (hazard,) = from_error(caught.value, load_card(card))
    assert (hazard.kind, hazard.severity, hazard.at.line) == ("livelock", ERROR, line_of("l_poll"))
    assert "invalidate" in hazard.fix
    wrong, y = run(False, True)
    assert y[0] == 0
    (hazard,) = wrong.hazards.of("stale-dcache")
    says_old_word(hazard)
    assert (name(hazard.at), name(hazard.other), hazard.visible) == ("l_bounded", "l_store", False)
