"""False sharing: a line of a scalar data cache goes back whole, over what others have put into it (spec coherence.md 5, P25).

Words are OLD before a kernel and what a core stores differs from it in every byte: NEW by core 0, a STEP more by the
next one, AGAIN more in the next round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, POSSIBLE, Hazard
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, SEPARATE, Flags, is_clean, marks, name

VECTORS = asc.KernelType.MIX_AIV_1_0
LINE = 16
"""Words in a line of the data cache."""
OLD, NEW = 0x11111111, 0x22222222
STEP, AGAIN = 0x01010101, 0x10101010


def words(count: int, value: int = OLD) -> Any:
    return np.full(count, value, np.int32)


def hexed(value: int, count: int = 1) -> str:
    return value.to_bytes(4, "little").hex() * count


def line_of(mark: str) -> int:
    return next(number for number, text in marks(__file__).items() if text == mark)


def reported(run: Run) -> set[tuple[str, str]]:
    return {(h.kind, h.severity) for h in run.hazards if h.severity != NOTE}


def the_sharing(run: Run, *stores: str) -> Hazard:
    """The only finding of a run, and the lines of the two stores that meet."""
    (hazard,) = (h for h in run.hazards if h.severity != NOTE)
    assert (hazard.kind, hazard.severity, hazard.tensor, hazard.visible) == ("false-sharing", ERROR, "x", False)
    assert {name(hazard.at), name(hazard.other)} == set(stores)
    return hazard


@asc.jit
def clean(tensor: Any, barrier: bool = True) -> None:
    asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, tensor, asc.DcciDst.CACHELINE_OUT)
    if barrier:
        asc.data_sync_barrier(asc.MemDsbT.DDR)


# ---- words of several cores -------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def counters(x: asc.GlobalAddress, pitch: asc.ConstExpr, how: asc.ConstExpr, step: asc.ConstExpr):
    """Every core stores a word of its own, `pitch` bytes from the next, in two rounds; all hold their line before one cleans."""
    me = int(asc.get_block_idx())
    mine, first = gm(x, me * (pitch // 4)), True
    for i in range(2):
        value = NEW + me * step + i * AGAIN * (step > 0)
        if how == "bypass":
            asc.write_gm_by_pass_dcache(x + me * (pitch // 4), value)
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        elif how == "MTE3":
            flags, tile = Flags(), ub(x.dtype, 0, 8)
            if not first:
                flags.order("MTE3_V")
            asc.duplicate(tile, value, 8)
            flags.order("V_MTE3")
            asc.data_copy_pad(mine, tile, asc.DataCopyExtParams(1, 4, 0, 0, 0))
        else:
            mine.set_value(0, value)  # @c_store
        asc.sync_all()
        if how == "cached":
            clean(mine)
        asc.sync_all()
        first = False


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("pitch", [4, 32, 60, 64, 68, 128])
def test_the_line_decides(card: str, pitch: int) -> None:
    """Two cores: with 68 B the words are in two lines as well."""
    x = words(2 * 128 // 4)
    run = asc.simulate(counters, x, pitch, "cached", STEP, card=card, blocks=2)
    last = [NEW + AGAIN, NEW + AGAIN + STEP]
    got = [int(x[0]), int(x[pitch // 4])]
    if pitch >= 64:
        assert is_clean(run)
        assert got == last
        return
    assert got != last
    hazard = the_sharing(run, "c_store")
    assert hazard.verdict == OBSERVED
    assert hazard.at.core != hazard.other.core
    assert (hazard.address in (0, pitch)) and hazard.bytes == 4
    # One of the words went back to what it was.
    assert (hazard.old, hazard.new) in {(hexed(OLD), hexed(NEW)), (hexed(OLD), hexed(NEW + STEP))}
    assert hazard.ordered is False
    assert "64 B line x 0..63" in hazard.detail
    assert "64 B" in hazard.fix
    assert hazard.insert == ()


@pytest.mark.parametrize("card", SEPARATE)
def test_with_a_pitch_of_60_only_the_second_core_is_in_the_line_of_the_first(card: str) -> None:
    run = asc.simulate(counters, words(64), 60, "cached", STEP, card=card, blocks=3)
    hazard = the_sharing(run, "c_store")
    assert {hazard.at.core, hazard.other.core} == {run.columns.cores[i].label for i in range(2)}


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("how", ["bypass", "MTE3"])
def test_stores_past_the_cache_may_share_a_line(card: str, how: str) -> None:
    x = words(64)
    assert is_clean(asc.simulate(counters, x, 4, how, STEP, card=card, blocks=3))
    assert x[:3].tolist() == [NEW + AGAIN + i * STEP for i in range(3)]


@pytest.mark.parametrize("card", SEPARATE)
def test_equal_bytes_and_no_data_are_possible(card: str) -> None:
    # Every core stores what is there already.
    equal = asc.simulate(counters, words(64, NEW), 4, "cached", 0, card=card, blocks=2)
    without = asc.simulate(counters, words(64), 4, "cached", STEP, card=card, blocks=2, data=False)
    for run in (equal, without):
        hazard = the_sharing(run, "c_store")
        assert (hazard.verdict, hazard.old, hazard.new) == (POSSIBLE, "", "")


# ---- a line handed over -----------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def in_turn(x: asc.GlobalAddress, rounds: asc.ConstExpr, drop: asc.ConstExpr):
    """Two cores add a word each to one line in turn, `rounds` times."""
    me, board = int(asc.get_block_idx()), gm(x)
    for i in range(rounds):
        if i % 2 == me:
            board.set_value(i, NEW + i)  # @h_store
            if not (me == 0 and i == 0 and "first clean" in drop):
                clean(board)
        if f"sync {i}" not in drop:
            asc.sync_all()


@pytest.mark.parametrize("card", SEPARATE)
def test_a_line_handed_over_between_cores(card: str) -> None:
    def run(*drop: str, **options: Any) -> tuple[Run, Any]:
        x = words(LINE)
        return asc.simulate(in_turn, x, 4, drop, card=card, blocks=2, **options), x

    right, x = run()
    assert is_clean(right)
    assert x[:4].tolist() == [NEW + i for i in range(4)]
    assert is_clean(run(data=False)[0])
    # The copy of core 0 stays dirty while core 1 stores: it goes back over that.
    wrong, x = run("first clean")
    assert x[:4].tolist() != [NEW + i for i in range(4)]
    hazard = the_sharing(wrong, "h_store")
    assert hazard.verdict == OBSERVED
    assert hazard.ordered is True
    # Without the signal they may fill the line at once.
    assert ("false-sharing", ERROR) in reported(run("sync 0")[0])


@asc.jit(kernel_type=VECTORS)
def held(x: asc.GlobalAddress, y: asc.GlobalAddress, drops: asc.ConstExpr, other: asc.ConstExpr):
    """Core 0 has loaded the line before core 1 stores another word of it; then it stores a word of its own."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        board.get_value(0)
        asc.sync_all()
        asc.sync_all()
        if drops:
            clean(board)
        board.set_value(0, NEW)  # @l_store
        clean(board)
        return
    asc.sync_all()
    if other == "bypass":
        asc.write_gm_by_pass_dcache(x + 3, NEW)  # @l_bypass
        asc.data_sync_barrier(asc.MemDsbT.DDR)
    elif other == "cached":
        board.set_value(3, NEW)  # @l_cached
        clean(board)
    else:
        flags, tile = Flags(), ub(x.dtype, 0, 8)
        asc.duplicate(tile, NEW, 8)
        flags.order("V_MTE3")
        asc.data_copy_pad(board[3], tile, asc.DataCopyExtParams(1, 4, 0, 0, 0))  # @l_mte3
    asc.sync_all()


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("other", ["bypass", "cached", "mte3"])
def test_a_line_loaded_before_another_core_stores_into_it(card: str, other: str) -> None:
    x = words(LINE)
    assert is_clean(asc.simulate(held, x, words(LINE), True, other, card=card, blocks=2))
    assert (x[0], x[3]) == (NEW, NEW)
    x = words(LINE)
    run = asc.simulate(held, x, words(LINE), False, other, card=card, blocks=2)
    assert (x[0], x[3]) == (NEW, OLD)
    hazard = the_sharing(run, "l_store", f"l_{other}")
    assert (hazard.verdict, hazard.address, hazard.bytes, hazard.ordered) == (OBSERVED, 12, 4, True)
    assert (hazard.old, hazard.new) == (hexed(OLD), hexed(NEW))


@asc.jit(kernel_type=VECTORS)
def only_loads(x: asc.GlobalAddress, y: asc.GlobalAddress):
    """Core 0 loads a word of the line in which core 1 stores another: nothing goes back from core 0."""
    board = gm(x)
    if asc.get_block_idx() == 0:
        gm(y).set_value(0, board.get_value(0))
    else:
        board.set_value(3, NEW)
        clean(board)


@pytest.mark.parametrize("card", SEPARATE)
def test_a_clean_copy_harms_nobody(card: str) -> None:
    x = words(LINE)
    assert is_clean(asc.simulate(only_loads, x, words(LINE), card=card, blocks=2))
    assert x[3] == NEW


# ---- MTE3 and scalar stores of one core in one line -------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def mte3_then_scalar(x: asc.GlobalAddress, steps: asc.ConstExpr):
    """P25: MTE3 stores a line, then the scalar unit a word of it."""
    flags, board, tile = Flags(), gm(x), ub(x.dtype, 0, LINE)
    if "held" in steps:
        board.get_value(1)
    asc.duplicate(tile, NEW, LINE)
    flags.order("V_MTE3")
    flags.order("S_MTE3")
    if "clean before" in steps:
        clean(board)
    asc.data_copy(board, tile, LINE)  # @a_mte3
    if "flag" in steps:
        flags.order("MTE3_S")
    if "clean between" in steps:
        clean(board)
    board.set_value(0, 5)  # @a_scalar
    clean(board)


@pytest.mark.parametrize("card", SEPARATE)
def test_mte3_then_scalar(card: str) -> None:
    def run(*steps: str) -> tuple[Run, list[int]]:
        x = words(LINE)
        found = asc.simulate(mte3_then_scalar, x, steps, card=card, auto_sync=False)
        return found, x.tolist()

    right = [5] + [NEW] * (LINE - 1)
    for steps in (("flag",), ("held", "clean before", "flag"), ("held", "flag", "clean between")):
        found, x = run(*steps)
        assert is_clean(found)
        assert x == right
    found, x = run("held", "flag")
    assert x == [5] + [OLD] * (LINE - 1)
    hazard = the_sharing(found, "a_mte3", "a_scalar")
    assert (hazard.verdict, hazard.address, hazard.bytes, hazard.ordered) == (OBSERVED, 4, 4 * (LINE - 1), True)
    assert (hazard.old, hazard.new) == (hexed(OLD, 4), hexed(NEW, 4))
    assert hazard.at.core == hazard.other.core
    # Without the flag nothing orders the two, whatever is cleaned.
    for steps in ((), ("held",), ("clean before",)):
        assert not run(*steps)[0].hazards.clean


@asc.jit(kernel_type=AIV)
def scalar_then_mte3(x: asc.GlobalAddress, steps: asc.ConstExpr, count: asc.ConstExpr, last: asc.ConstExpr):
    """The other order: a scalar store of word `last`, then MTE3 over the first `count` words."""
    flags, board, tile = Flags(), gm(x), ub(x.dtype, 0, LINE)
    asc.duplicate(tile, NEW, LINE)
    flags.order("V_MTE3")
    board.set_value(last, 5)  # @b_scalar
    if "clean" in steps:
        clean(board, "dsb" in steps)
    if "flag" in steps:
        flags.order("S_MTE3")
    asc.data_copy(board, tile, count)  # @b_mte3
    if "clean late" in steps:
        flags.order("MTE3_S")
        clean(board)


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize(("count", "last"), [(8, 12), (8, 2), (16, 2)])
def test_scalar_then_mte3(card: str, count: int, last: int) -> None:
    """The words are others, or the same: the line decides."""
    def run(*steps: str) -> tuple[Run, list[int]]:
        x = words(LINE)
        return asc.simulate(scalar_then_mte3, x, steps, count, last, card=card, auto_sync=False), x.tolist()

    right = words(LINE)
    right[last] = 5
    right[:count] = NEW
    found, x = run("clean", "dsb", "flag")
    assert is_clean(found)
    assert x == right.tolist()
    for steps in (("flag",), ("flag", "clean late")):
        found, x = run(*steps)
        assert x != right.tolist()
        hazard = the_sharing(found, "b_scalar", "b_mte3")
        assert hazard.ordered is True
        assert hazard.verdict == OBSERVED
        assert hazard.old[:8] in (hexed(OLD), hexed(5))
        assert hazard.new[:8] == hexed(NEW)
        assert [(one.line, one.after) for one in hazard.insert] == [(line_of("b_scalar"), True)] * 2
        assert ["clean_and_invalid" in one.code for one in hazard.insert] == [True, False]


@asc.jit(kernel_type=AIV)
def both_in_one_kernel(x: asc.GlobalAddress):
    """MTE3 and scalar stores in neighbouring lines."""
    flags, board, tile = Flags(), gm(x), ub(x.dtype, 0, LINE)
    asc.duplicate(tile, NEW, LINE)
    flags.order("V_MTE3")
    board.set_value(LINE, 5)
    asc.data_copy(board, tile, LINE)
    board.set_value(LINE + 1, 5)


@pytest.mark.parametrize("card", SEPARATE)
def test_neighbouring_lines_are_no_concern(card: str) -> None:
    x = words(2 * LINE)
    assert is_clean(asc.simulate(both_in_one_kernel, x, card=card, auto_sync=False))
    assert x.tolist() == [NEW] * LINE + [5, 5] + [OLD] * (LINE - 2)
