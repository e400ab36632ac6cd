"""Stale NDDMA reads: who stored, where NdDmaDci stands, which line size decides, and what was really delivered.

The rules are those of spec coherence.md 2, 3, 4 and 6 and pitfall P23. Words are OLD before a kernel and NEW after its store: no
byte of the two is alike, so that the number of bytes reported is the number of bytes shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, POSSIBLE, WARNING, Hazard, Insertion
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import FIX, MIX, MTE2, Flags, is_clean, local, marks, name

CARD = "atlas_350"
VECTORS = asc.KernelType.MIX_AIV_1_0
N = 64
OLD, NEW = 0x11111111, 0x22222222
LINES = (64, 128, 256, 512)
SHOWN = 16


def row(count: int) -> asc.NdDmaParams:
    """An NDDMA copy of so many words in a row."""
    return asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (count,), (0,), (0,)), 0)


def words(count: int, value: int = OLD) -> Any:
    return np.full(count, value, np.int32)


def hexed(value: int, nbytes: int = SHOWN) -> str:
    return (value.to_bytes(4, "little") * (nbytes // 4)).hex()


def reported(run: Run) -> set[tuple[str, str, str, str]]:
    """Everything that makes a run unclean: (kind, severity, line that suffers, line of the other)."""
    return {(h.kind, h.severity, name(h.at), name(h.other)) for h in run.hazards if h.severity != NOTE}


def the_stale(run: Run) -> Hazard:
    """The only finding of a run; it is a stale read."""
    (hazard,) = (h for h in run.hazards if h.severity != NOTE)
    assert (hazard.kind, hazard.severity) == ("stale-nddma", ERROR)
    return hazard


def line_of(mark: str) -> int:
    return next(number for number, text in marks(__file__).items() if text == mark)


def check(hazard: Hazard, at: str, other: str, address: int, nbytes: int, *, verdict: str = OBSERVED) -> None:
    """All that a stale read says; bytes in GM are OLD before and NEW behind."""
    assert (name(hazard.at), name(hazard.other)) == (at, other)
    assert (hazard.at.pipe, hazard.at.api) == ("MTE2", "DataCopy")
    assert hazard.verdict == verdict
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("x", address, nbytes)
    assert (hazard.ordered, hazard.visible) == (True, False)
    shown = min(nbytes, SHOWN) if verdict == OBSERVED else 0
    assert (hazard.old, hazard.new) == (hexed(OLD, shown), hexed(NEW, shown))
    assert hazard.insert == (Insertion(hazard.at.file, line_of(at), "asc.nd_dma_dci()", False),)
    assert "asc.nd_dma_dci()" in hazard.fix
    assert f"line {line_of(at)}" in hazard.fix


# ---- a producer on another core ---------------------------------------------------------------------------------------
@asc.jit
def store_by(how: str, x: Any, flags: Flags, value: int) -> None:
    """NEW into the first words of x: by MTE3 (N words), or one word by the scalar unit."""
    if how == "MTE3":
        tile = ub(x.dtype, 0, N)
        asc.duplicate(tile, value, N)
        flags.order("V_MTE3")
        asc.data_copy(gm(x), tile, N)  # @by_mte3
    elif how == "bypass":
        asc.write_gm_by_pass_dcache(x, value)  # @by_bypass
        asc.data_sync_barrier(asc.MemDsbT.DDR)
    else:
        board = gm(x)
        board.set_value(0, value)  # @by_scalar
        if how == "cleaned":
            asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board, asc.DcciDst.CACHELINE_OUT)
            asc.data_sync_barrier(asc.MemDsbT.DDR)


@asc.jit(kernel_type=VECTORS)
def hand_over(x: asc.GlobalAddress, y: asc.GlobalAddress, how: asc.ConstExpr, dci: asc.ConstExpr, value: asc.ConstExpr,
              syncs: asc.ConstExpr = ("looked", "stored")):  # fmt: skip
    """Core 0 stores between two SyncAlls; the others read by NDDMA before the first and behind the second."""
    flags = Flags()
    me = int(asc.get_block_idx())
    if me == 0:
        if "looked" in syncs:
            asc.sync_all()
        store_by(how, x, flags, value)
        if "stored" in syncs:
            asc.sync_all()
        return
    first, second = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(first, gm(x), row(N))  # @h_look
    if dci == "early":
        asc.nd_dma_dci()
        asc.pipe_barrier(MTE2)
        asc.data_copy(first, gm(x), row(N))  # @h_again
    if dci == "above":
        flags.order("MTE2_S")
        asc.nd_dma_dci()  # @h_above
    if "looked" in syncs:
        asc.sync_all()
    if dci == "between":
        asc.nd_dma_dci()
    if "stored" in syncs:
        asc.sync_all()
    if dci == "right":
        asc.nd_dma_dci()
    asc.data_copy(second, gm(x), row(N))  # @h_read
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y, (me - 1) * N), second, N)


def handed_over(how: str, dci: str, value: int = NEW, cores: int = 3, **options: Any) -> tuple[Run, Any]:
    """(run, what the consumers read)."""
    y = np.zeros((cores - 1, N), np.int32)
    run = asc.simulate(hand_over, words(N), y, how, dci, value, card=CARD, blocks=cores, **options)
    return run, y


PRODUCERS = {"MTE3": ("by_mte3", N), "bypass": ("by_bypass", 1), "cleaned": ("by_scalar", 1)}
"""By how the word gets to GM: the line that stores it, and how many words."""


@pytest.mark.parametrize("how", PRODUCERS)
def test_a_store_of_another_core(how: str) -> None:
    store, count = PRODUCERS[how]
    right, y = handed_over(how, "right")
    assert is_clean(right)
    assert (y[:, :count] == NEW).all()

    wrong, y = handed_over(how, "none")
    assert (y == OLD).all()
    hazard = the_stale(wrong)
    check(hazard, "h_read", store, 0, 4 * count)
    assert hazard.count == 2  # both consumers, one bug
    assert hazard.at.core != hazard.other.core
    assert hazard.other.pipe == ("MTE3" if how == "MTE3" else "S")


@pytest.mark.parametrize("how", PRODUCERS)
def test_an_invalidate_above_the_order_and_a_second_look(how: str) -> None:
    store, count = PRODUCERS[how]
    run, y = handed_over(how, "early")
    assert (y == OLD).all()
    check(the_stale(run), "h_read", store, 0, 4 * count)


@pytest.mark.parametrize("dci", ["above", "between"])
def test_an_invalidate_above_the_order_alone(dci: str) -> None:
    """Nothing fills the line again in this program, but nothing keeps it from happening (issue: early is still reported)."""
    run, y = handed_over("MTE3", dci)
    assert (y == NEW).all()
    assert reported(run) == {("stale-nddma", WARNING, "h_read", "by_mte3")}
    (hazard,) = run.hazards.of("stale-nddma")
    check(hazard, "h_read", "by_mte3", 0, 4 * N, verdict=POSSIBLE)


def test_a_scalar_store_that_stays_in_the_cache_is_not_the_fault_of_the_reader() -> None:
    run, _ = handed_over("dirty", "none")
    assert reported(run) == {("dirty-dcache", ERROR, "h_read", "by_scalar")}


def test_equal_bytes_hide_nothing() -> None:
    run, y = handed_over("MTE3", "none", OLD)
    assert (y == OLD).all()
    check(the_stale(run), "h_read", "by_mte3", 0, 4 * N, verdict=POSSIBLE)
    assert is_clean(handed_over("MTE3", "right", OLD)[0])


@pytest.mark.parametrize("dci", ["none", "early"])
def test_without_data(dci: str) -> None:
    run, _ = handed_over("MTE3", dci, data=False)
    check(the_stale(run), "h_read", "by_mte3", 0, 4 * N, verdict=POSSIBLE)
    assert is_clean(handed_over("MTE3", "right", data=False)[0])


@pytest.mark.parametrize("dci", ["none", "right"])
@pytest.mark.parametrize(("syncs", "load"), [((), "h_look"), (("looked",), "h_read")])
def test_a_store_without_order_is_a_race(syncs: tuple[str, ...], load: str, dci: str) -> None:
    """With or without NdDmaDci; where old bytes were seen, the stale read says that it was not ordered either."""
    run = asc.simulate(hand_over, words(N), words(N), "MTE3", dci, NEW, syncs, card=CARD, blocks=2)
    races = run.hazards.of("race-raw", "race-war")
    assert frozenset({load, "by_mte3"}) in {frozenset({name(race.at), name(race.other)}) for race in races}
    assert {(race.severity, race.ordered) for race in races} == {(ERROR, False)}
    assert {(h.ordered, h.verdict) for h in run.hazards.of("stale-nddma")} <= {(False, OBSERVED)}


def test_the_same_program_says_the_same() -> None:
    first, second = (handed_over("MTE3", "none")[0] for _ in range(2))
    assert [h.as_dict() for h in first.hazards] == [h.as_dict() for h in second.hazards]


# ---- the core's own stores --------------------------------------------------------------------------------------------
@asc.jit
def reread(x: asc.GlobalAddress, y: asc.GlobalAddress, dci: asc.ConstExpr, fill: asc.ConstExpr = 0):
    """Look, store by MTE3, read again; with `fill` words of another array read by NDDMA before the second read."""
    flags = Flags()
    first, tile, second = ub(x.dtype, 0, N), ub(x.dtype, N, N), ub(x.dtype, 2 * N, N)
    asc.data_copy(first, gm(x), row(N))  # @o_look
    asc.duplicate(tile, NEW, N)
    flags.order("V_MTE3")
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(x), tile, N)  # @o_store
    flags.order("MTE3_MTE2")
    if dci == "early":
        asc.data_copy(second, gm(x), row(N))  # @o_between
        asc.pipe_barrier(MTE2)
    if dci == "right":
        asc.nd_dma_dci()
    if fill:
        for at in range(0, fill, 4096):
            asc.data_copy(ub(x.dtype, 4096, 4096), gm(y, N + at), row(4096))
            asc.pipe_barrier(MTE2)
    asc.data_copy(second, gm(x), row(N))  # @o_read
    flags.order("MTE2_MTE3", 1)
    asc.data_copy(gm(y), second, N)


def reread_run(dci: str, fill: int = 0, **options: Any) -> tuple[Run, Any]:
    y = np.zeros(N + fill, np.int32)
    run = asc.simulate(reread, words(N), y, dci, fill, card=CARD, **options)
    return run, y[:N]


def test_a_core_that_reads_its_own_output() -> None:
    right, y = reread_run("right")
    assert is_clean(right)
    assert (y == NEW).all()
    wrong, y = reread_run("none")
    assert (y == OLD).all()
    hazard = the_stale(wrong)
    check(hazard, "o_read", "o_store", 0, 4 * N)
    assert hazard.at.core == hazard.other.core


def test_of_several_stale_reads_the_first_is_told_and_the_rest_belong_to_it() -> None:
    run, _ = reread_run("early")
    hazard = the_stale(run)
    check(hazard, "o_between", "o_store", 0, 4 * N)
    assert str(line_of("o_read")) in hazard.detail


def test_a_line_that_was_evicted_by_luck() -> None:
    fill = 5 * 32768 // 4  # five times the cache, whatever it replaces first
    run, y = reread_run("none", fill)
    assert (y == NEW).all()
    check(the_stale(run), "o_read", "o_store", 0, 4 * N, verdict=POSSIBLE)
    assert is_clean(reread_run("right", fill)[0])


# ---- Fixpipe ----------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=MIX)
def fix_and_read(x: asc.GlobalAddress, y: asc.GlobalAddress, dci: asc.ConstExpr):
    """The AIC of a group stores a tile of 32 x 32 by Fixpipe between a look and a read of its two AIVs."""
    flags = Flags()
    if asc.ascend_is_aic():
        a1, l0c = local(asc.TPosition.A1, asc.float16, 0, 1024), local(asc.TPosition.CO1, asc.float32, 0, 1024)
        a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 512), local(asc.TPosition.B2, asc.float16, 0, 512)
        asc.init_const_value(a1, asc.InitConstValueParams(1, 64, 0, 1.0))
        flags.order("MTE2_MTE1")
        asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=2, src_stride=1))
        asc.load_data(b2, a1, asc.LoadData2DParams(repeat_times=2, src_stride=1))
        flags.order("MTE1_M")
        asc.mmad(l0c, a2, b2, asc.MmadParams(32, 32, 16, unit_flag=0, cmatrix_init_val=True))
        flags.order("M_FIX")
        asc.cross_core_wait_flag(1, 2, FIX)
        asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(32, 32, 32, 32))  # @f_store
        asc.cross_core_set_flag(0, 2, FIX)
        return
    at = int(asc.get_sub_block_idx()) * 512
    tile = ub(x.dtype, 0, 512)
    asc.data_copy(tile, gm(x, at), row(512))  # @f_look
    asc.cross_core_set_flag(1, 2, MTE2)
    asc.cross_core_wait_flag(0, 2, MTE2)
    if dci:
        asc.nd_dma_dci()
    asc.pipe_barrier(MTE2)
    asc.data_copy(tile, gm(x, at), row(512))  # @f_read
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y, at), tile, 512)


def test_a_fixpipe_store_of_the_group() -> None:
    def run(dci: bool) -> tuple[Run, Any]:
        y = np.zeros(1024, np.float32)
        return asc.simulate(fix_and_read, np.zeros(1024, np.float32), y, dci, card=CARD), y

    right, y = run(True)
    assert is_clean(right)
    assert (y == 16).all()
    wrong, y = run(False)
    assert (y == 0).all()
    hazard = the_stale(wrong)
    assert (name(hazard.at), name(hazard.other), hazard.verdict) == ("f_read", "f_store", OBSERVED)
    assert (hazard.at.pipe, hazard.other.pipe, hazard.count, hazard.tensor) == ("MTE2", "FIX", 2, "x")
    assert hazard.at.core.partition(".")[2].startswith("aiv")
    assert hazard.other.core.partition(".")[2].startswith("aic")
    # 16.0 is 00 00 80 41: two bytes of a word differ from 0.
    assert (hazard.old, hazard.new, hazard.bytes) == ("00" * 16, "00008041" * 4, 512 * 2)
    assert (hazard.ordered, hazard.visible, hazard.address) == (True, False, 0)


# ---- calls that protect nothing ---------------------------------------------------------------------------------------
@asc.jit
def two_calls(x: asc.GlobalAddress, y: asc.GlobalAddress, calls: asc.ConstExpr):
    """Look, store, read, read once more; NdDmaDci at the places in `calls`."""
    flags = Flags()
    tile = ub(x.dtype, 0, N)
    if "first" in calls:
        asc.nd_dma_dci()  # @c_first
    asc.data_copy(ub(x.dtype, N, N), gm(x), row(N))
    asc.duplicate(tile, NEW, N)
    flags.order("V_MTE3")
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(x), tile, N)
    flags.order("MTE3_MTE2")
    if "needed" in calls:
        asc.nd_dma_dci()  # @c_needed
    asc.data_copy(ub(x.dtype, 2 * N, N), gm(x), row(N))  # @c_read
    if "spare" in calls:
        for _ in range(3):
            asc.nd_dma_dci()  # @c_spare
    asc.data_copy(ub(x.dtype, 3 * N, N), gm(x), row(N))
    flags.order("MTE2_MTE3", 1)
    asc.data_copy(gm(y), ub(x.dtype, 2 * N, 2 * N), 2 * N)


def calls_run(*calls: str) -> Run:
    return asc.simulate(two_calls, words(N), words(2 * N), calls, card=CARD, overrides={"nddma.dci": 17})


def test_a_call_that_protects_no_read_is_a_note_with_its_cost() -> None:
    run = calls_run("first", "needed", "spare")
    assert is_clean(run)
    (note,) = run.hazards
    assert (note.kind, note.severity, name(note.at), note.count) == ("needless-dci", NOTE, "c_spare", 3)
    assert f"{3 * 17} cycles" in note.detail
    assert str(line_of("c_spare")) in note.fix


def test_calls_that_are_needed_and_the_first_are_not() -> None:
    assert len(calls_run("first", "needed").hazards) == 0
    assert [name(h.at) for h in calls_run("needed", "spare").hazards] == ["c_spare"]
    assert len(calls_run("needed").hazards) == 0
    # Without the needed one the three behind the read come too late for it.
    late = calls_run("first", "spare")
    assert ("stale-nddma", "c_read") in {(h.kind, name(h.at)) for h in late.hazards}


@asc.jit(kernel_type=VECTORS)
def read_only(x: asc.GlobalAddress, y: asc.GlobalAddress, dci: asc.ConstExpr):
    """Everybody reads the same input many times; the outputs go elsewhere."""
    flags = Flags()
    me = int(asc.get_block_idx())
    for i in range(4):
        if dci == "first" and i == 0:
            asc.nd_dma_dci()
        if dci == "every":
            asc.nd_dma_dci()  # @r_dci
        asc.data_copy(ub(x.dtype, 0, N), gm(x), row(N))
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, (4 * me + i) * N), ub(x.dtype, 0, N), N)
        flags.order("MTE3_MTE2")
        asc.sync_all()


@pytest.mark.parametrize(("dci", "spare"), [("none", 0), ("first", 0), ("every", 3 * 3)])
def test_input_that_nobody_rewrites(dci: str, spare: int) -> None:
    run = asc.simulate(read_only, words(N), words(3 * 4 * N), dci, card=CARD, blocks=3)
    assert is_clean(run)
    assert [(h.kind, h.severity, h.count) for h in run.hazards] == ([("needless-dci", NOTE, spare)] if spare else [])


# ---- the size of a line -----------------------------------------------------------------------------------------------
@asc.jit
def neighbours(x: asc.GlobalAddress, y: asc.GlobalAddress, looked: asc.ConstExpr, distance: asc.ConstExpr, dci: asc.ConstExpr):
    """8 words from `looked` on are read by NDDMA; 8 words `distance` bytes on are stored and then read."""
    flags = Flags()
    at = looked + distance // 4
    asc.data_copy(ub(x.dtype, 0, 8), gm(x, looked), row(8))  # @n_look
    asc.duplicate(ub(x.dtype, 8, 8), NEW, 8)
    flags.order("V_MTE3")
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(x, at), ub(x.dtype, 8, 8), 8)  # @n_store
    flags.order("MTE3_MTE2")
    if dci:
        asc.nd_dma_dci()
    asc.data_copy(ub(x.dtype, 16, 8), gm(x, at), row(8))  # @n_read
    flags.order("MTE2_MTE3", 1)
    asc.data_copy(gm(y), ub(x.dtype, 16, 8), 8)


def neighbours_run(line: int, distance: int, dci: bool = False, looked: int = 0) -> tuple[Run, Any]:
    y = np.zeros(8, np.int32)
    run = asc.simulate(neighbours, words(512), y, looked, distance, dci, card=CARD, overrides={"nddma.line": line})
    return run, y


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("distance", "least"), [(32, 64), (64, 128), (96, 128), (128, 256), (256, 512), (480, 512), (512, 0)])
def test_neighbours_in_a_line(distance: int, least: int, line: int) -> None:
    assert is_clean(neighbours_run(line, distance, True)[0])
    run, y = neighbours_run(line, distance)
    if not least or line < least:
        assert is_clean(run)
        assert (y == NEW).all()
        return
    assert (y == OLD).all()
    hazard = the_stale(run)
    check(hazard, "n_read", "n_store", distance, 32)
    assert f"lines of {least} B and more" in hazard.detail
    assert f"here {line} B" in hazard.detail
    assert "nddma.line" in hazard.detail


def test_lines_lie_on_multiples_of_their_size() -> None:
    """Words 56..63 and 64..71 are neighbours of 32 B, but a line holds both from 512 B on only."""
    for line in LINES:
        run, y = neighbours_run(line, 32, looked=56)
        assert (y == (OLD if line == 512 else NEW)).all()
        assert bool(run.hazards.of("stale-nddma")) == (line == 512)


@pytest.mark.parametrize(("looked", "distance"), [(0, 0), (0, 16), (8, -16), (120, 0), (120, 16)])
def test_shared_bytes_say_the_same_for_every_line(looked: int, distance: int) -> None:
    """What is rewritten overlaps what was read: no line size takes part in that. Where only a part overlaps, the finding is the
    same, and how much of it is delivered old depends on the line."""
    found = []
    for line in LINES:
        run, _ = neighbours_run(line, distance, looked=looked)
        hazard = the_stale(run)
        assert hazard.verdict == OBSERVED
        assert "nddma.line" not in hazard.detail
        found.append(replace(hazard, at=replace(hazard.at, time_us=0), other=replace(hazard.other, time_us=0)))
    if distance == 0:
        assert len(set(found)) == 1
    assert len({(h.kind, h.severity, h.verdict, name(h.at), name(h.other), h.tensor, h.insert) for h in found}) == 1


# ---- blocks in turn ---------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def in_turn(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, cores: asc.ConstExpr, dci: asc.ConstExpr):
    """Block 0 reads x and stores it; the last block, which gets the first core that is free, reads it again."""
    flags = Flags()
    me, tile = int(asc.get_block_idx()), ub(x.dtype, 0, N)
    if me == 0:
        asc.data_copy(tile, gm(x), row(N))  # @w_look
        asc.duplicate(ub(x.dtype, N, N), NEW, N)
        flags.order("V_MTE3")
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(x), ub(x.dtype, N, N), N)  # @w_store
    elif me < cores:
        for _ in range(30):  # the others take so long that the last block comes behind block 0
            asc.data_copy(ub(x.dtype, 0, 16384), gm(z), 16384)
            asc.pipe_barrier(MTE2)
    else:
        if dci:
            asc.nd_dma_dci()
        asc.data_copy(tile, gm(x), row(N))  # @w_read
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y), tile, N)


def test_the_cache_outlives_a_block() -> None:
    cores = load_card(CARD).vectors

    def run(dci: bool) -> tuple[Run, Any]:
        y = np.zeros(N, np.int32)
        return asc.simulate(in_turn, words(N), y, words(16384), cores, dci, card=CARD, blocks=cores + 1), y

    right, y = run(True)
    assert is_clean(right)
    assert (y == NEW).all()
    wrong, y = run(False)
    assert (y == OLD).all()
    hazard = the_stale(wrong)
    check(hazard, "w_read", "w_store", 0, 4 * N)
    assert hazard.at.core == hazard.other.core


# ---- what is not known of NdDmaDci ------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def in_flight(x: asc.GlobalAddress, y: asc.GlobalAddress, between: asc.ConstExpr):
    """Core 1 invalidates right behind a look, above the SyncAlls between which core 0 stores, and reads behind them.

    `between` stands between the look and the call: nothing, a barrier of MTE2, or the flag to the scalar unit.
    """
    flags = Flags()
    tile = ub(x.dtype, 0, N)
    if asc.get_block_idx() == 0:
        asc.sync_all()
        asc.duplicate(tile, NEW, N)
        flags.order("V_MTE3")
        asc.data_copy(gm(x), tile, N)  # @s_store
        asc.sync_all()
        return
    asc.data_copy(ub(x.dtype, 4096, 4096), gm(y, N), 4096)  # keeps MTE2 busy: what follows waits in its queue
    asc.pipe_barrier(MTE2)
    asc.data_copy(tile, gm(x), row(N))  # @s_look
    if between == "barrier":
        asc.pipe_barrier(MTE2)
    elif between == "flag":
        flags.order("MTE2_S")
    asc.nd_dma_dci()  # @s_dci
    asc.sync_all()
    asc.sync_all()
    asc.data_copy(ub(x.dtype, N, N), gm(x), row(N))  # @s_read
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), ub(x.dtype, N, N), N)


SWITCHES = [(True, True), (True, False), (False, True), (False, False)]


@pytest.mark.parametrize(("queued", "waits"), SWITCHES)
@pytest.mark.parametrize("between", ["nothing", "barrier", "flag"])
def test_what_the_call_drops_depends_on_two_switches(between: str, queued: bool, waits: bool) -> None:
    y = np.zeros(N + 4096, np.int32)
    run = asc.simulate(in_flight, words(N), y, between, card=CARD, blocks=2,
                       overrides={"nddma.dci_queued": queued, "nddma.dci_waits": waits})  # fmt: skip
    # Queued behind the look it drops the lines on their way if it waits for them; at its issue the look has not begun.
    fresh = {"nothing": queued and waits, "barrier": queued, "flag": True}[between]
    assert (y[:N] == (NEW if fresh else OLD)).all()
    (hazard,) = (h for h in run.hazards if h.severity != NOTE)
    assert (hazard.kind, name(hazard.at), name(hazard.other)) == ("stale-nddma", "s_read", "s_store")
    check(hazard, "s_read", "s_store", 0, 4 * N, verdict=POSSIBLE if fresh else OBSERVED)
    sure = between == "flag" or (between == "barrier" and queued)
    assert hazard.severity == (WARNING if sure else ERROR)
    assert str(line_of("s_dci")) in hazard.detail
    assert ("nddma.dci_" in hazard.detail) == (not sure)
    if not sure:
        assert ("nddma.dci_queued" if not queued else "nddma.dci_waits") in hazard.detail


@pytest.mark.parametrize(("queued", "waits"), SWITCHES)
def test_behind_a_sync_all_the_switches_do_not_matter(queued: bool, waits: bool) -> None:
    run, y = handed_over("MTE3", "right", overrides={"nddma.dci_queued": queued, "nddma.dci_waits": waits})
    assert is_clean(run)
    assert (y == NEW).all()


@pytest.mark.parametrize(("queued", "waits"), SWITCHES)
def test_behind_a_flag_to_mte2_the_call_has_to_queue(queued: bool, waits: bool) -> None:
    """The published order is flag MTE3_MTE2, then NdDmaDci: the flag holds MTE2, not the scalar unit that issues the call."""
    run, y = reread_run("right", overrides={"nddma.dci_queued": queued, "nddma.dci_waits": waits})
    if queued:
        assert is_clean(run)
        assert (y == NEW).all()
        return
    hazard = the_stale(run)
    assert (name(hazard.at), name(hazard.other)) == ("o_read", "o_store")
    assert "nddma.dci_queued" in hazard.detail

