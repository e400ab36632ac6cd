"""Pitfalls of private caches and broken flags (spec pitfalls.md, P23 to P25, P32 and P33), as little kernels wrong and right.

The wrong form is found, with both lines, and nothing else is; old bytes that are delivered show in what comes out. The right
form is right and clean, and where nobody rewrote what a cache holds, nothing is said at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import ERROR, OBSERVED, POSSIBLE, WARNING, Hazard
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, ALL, SEPARATE, Flags, marks, name
from tests.hazards.wrong_forms import Made, pipes, the_fault, zeros

N = 256
E = asc.HardEvent
VECTORS = asc.KernelType.MIX_AIV_1_0
LINE = 16
"""Words of 4 B in a line of the data cache."""


def is_old(hazard: Hazard, tensor: str, address: int, nbytes: int) -> None:
    """Bytes older than an ordered store were delivered."""
    assert (hazard.verdict, hazard.ordered, hazard.visible) == (OBSERVED, True, False)
    assert (hazard.tensor, hazard.address, hazard.bytes) == (tensor, address, nbytes)
    assert hazard.old != hazard.new


# ---- P23: NDDMA -------------------------------------------------------------------------------------------------------
OLD, NEW = 0x11111111, 0x22222222


def row(count: int) -> asc.NdDmaParams:
    return asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (count,), (0,), (0,)), 0)


@asc.jit(kernel_type=VECTORS)
def read_again(x: asc.GlobalAddress, y: asc.GlobalAddress, store_at: asc.ConstExpr, dci: asc.ConstExpr, look: asc.ConstExpr):
    """Core 0 stores N words to x from word `store_at` on (None: nothing); core 1 reads the first N by NDDMA before and after."""
    flags, tile = Flags(), ub(x.dtype, 0, N)
    if asc.get_block_idx() == 0:
        asc.sync_all()
        if store_at is not None:
            asc.duplicate(tile, NEW, N)
            flags.order("V_MTE3")
            asc.data_copy(gm(x, store_at), tile, N)  # @nd_store
        asc.sync_all()
        return
    if look:
        asc.data_copy(ub(x.dtype, N, N), gm(x), row(N))
    asc.sync_all()
    asc.sync_all()
    if dci:
        asc.nd_dma_dci()
    asc.data_copy(tile, gm(x), row(N))  # @nd_read
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), tile, N)


def again(store_at: int | None, dci: bool, look: bool = True) -> Made:
    x, y = np.full(4 * N, OLD, np.int32), np.zeros(N, np.int32)
    return asc.simulate(read_again, x, y, store_at, dci, look, card="atlas_350", blocks=2), y


def test_p23_nddma_reads_what_another_core_has_rewritten() -> None:
    right, y = again(0, True)
    asc.assert_clean(right)
    assert (y == NEW).all()
    wrong, y = again(0, False)
    assert (y == OLD).all()
    hazard = the_fault(wrong, "stale-nddma", "nd_read", "nd_store")
    is_old(hazard, "x", 0, 4 * N)
    assert pipes(hazard) == ("MTE2", "MTE3")
    assert hazard.other is not None
    assert hazard.at.core != hazard.other.core
    assert hazard.old == OLD.to_bytes(4, "little").hex() * 4
    assert hazard.new == NEW.to_bytes(4, "little").hex() * 4


def test_p23_only_the_words_that_were_rewritten() -> None:
    wrong, y = again(N // 2, False)
    assert (y == OLD).all()
    is_old(the_fault(wrong, "stale-nddma", "nd_read", "nd_store"), "x", 2 * N, 2 * N)
    asc.assert_clean(again(N // 2, True)[0])


@pytest.mark.parametrize(("store_at", "look"), [(None, True), (2 * N, True), (0, False), (None, False)])
def test_p23_no_report_when_nobody_rewrote_the_range(store_at: int | None, look: bool) -> None:
    """Nobody stored, or to other lines, or before the line was filled: no NdDmaDci is missing."""
    run, y = again(store_at, False, look)
    assert len(run.hazards) == 0
    assert (y == (NEW if store_at == 0 else OLD)).all()


@asc.jit(kernel_type=AIV)
def sums_so_far(x: asc.GlobalAddress, y: asc.GlobalAddress, rows: asc.ConstExpr, dci: asc.ConstExpr):
    """y[i] = y[i - 1] + x[i], the row before read back by NDDMA."""
    flags = Flags()
    before, tile = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    for i in range(rows):
        asc.data_copy(tile, gm(x, i * N), N)
        if i > 0:
            if dci:
                asc.nd_dma_dci()
            asc.data_copy(before, gm(y), row(N))  # @sum_read
            flags.order("MTE2_V")
            asc.add(tile, tile, before, N)
        flags.order("MTE2_MTE3")
        flags.order("V_MTE3")
        asc.data_copy(gm(y), tile, N)  # @sum_store
        flags.order("MTE3_MTE2")


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_p23_a_core_reads_its_own_output_again(rows: int) -> None:
    def run(dci: bool) -> Made:
        y = zeros(N)
        return asc.simulate(sums_so_far, np.ones(rows * N, np.float32), y, rows, dci, card="atlas_350"), y

    right, y = run(True)
    asc.assert_clean(right)
    assert (y == rows).all()
    wrong, y = run(False)
    if rows == 2:  # one look at what nobody rewrites later
        assert len(wrong.hazards) == 0
        assert (y == 2).all()
        return
    assert not (y == rows).all()
    hazard = the_fault(wrong, "stale-nddma", "sum_read", "sum_store")
    assert (hazard.verdict, hazard.at.iteration, hazard.at.core) == (OBSERVED, 1, "core0.aiv0")
    assert (hazard.ordered, hazard.visible, hazard.tensor, hazard.address) == (True, False, "y", 0)


@asc.jit(kernel_type=AIV)
def transposes(x: asc.GlobalAddress, y: asc.GlobalAddress, times: asc.ConstExpr):
    flags, tile = Flags(), ub(x.dtype, 0, N)
    for i in range(times):
        asc.data_copy(tile, gm(x), asc.NdDmaParams(asc.NdDmaLoopInfo((16, 1), (1, 16), (16, 16), (0, 0), (0, 0)), 0))
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, i * N), tile, N)
        flags.order("MTE3_MTE2")


def test_p23_transposes_of_input_that_nobody_writes() -> None:
    y = zeros(6 * N)
    run = asc.simulate(transposes, np.arange(N, dtype=np.float32), y, 6, card="atlas_350", blocks=1)
    assert len(run.hazards) == 0
    assert np.array_equal(y.reshape(6, 16, 16), np.broadcast_to(np.arange(N).reshape(16, 16).T, (6, 16, 16)))


# ---- P24: scalar stores -----------------------------------------------------------------------------------------------
APART = 2
"""Bytes in which the words 507 and 42 differ."""


@asc.jit
def clean(board: Any) -> None:
    asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, board, asc.DcciDst.CACHELINE_OUT)
    asc.data_sync_barrier(asc.MemDsbT.DDR)


@asc.jit(kernel_type=VECTORS)
def publish(x: asc.GlobalAddress, y: asc.GlobalAddress, how: asc.ConstExpr, reader: asc.ConstExpr):
    """Core 0 publishes 42, core 1 hands on what it gets; everything is ordered by SyncAll and barriers of all pipes."""
    board, tile = gm(x), ub(x.dtype, 0, LINE)
    if asc.get_block_idx() == 0:
        asc.sync_all()
        if how == "MTE3":
            asc.duplicate(tile, 42, LINE)
            Flags().order("V_MTE3")
            asc.data_copy(board, tile, LINE)  # @mte3_store
        else:
            for i in range(LINE):
                board.set_value(i, 42)  # @scalar_store
        if how == "cleaned":
            clean(board)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.sync_all()
        asc.sync_all()
        return
    result = gm(y)
    if reader in ("looked", "looked and cleaned"):
        board.get_value(0)
    asc.sync_all()
    asc.sync_all()
    if reader == "looked and cleaned":
        clean(board)
    if reader == "MTE2":
        asc.data_copy(tile, board, LINE)  # @mte2_read
        Flags().order("MTE2_S")
        for i in range(LINE):
            result.set_value(i, tile.get_value(i))
    else:
        for i in range(LINE):
            result.set_value(i, board.get_value(i))  # @scalar_read
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.sync_all()


def published(card: str, how: str, reader: str) -> Made:
    x, y = np.full(LINE, 507, np.int32), np.zeros(LINE, np.int32)
    return asc.simulate(publish, x, y, how, reader, card=card, blocks=2), y


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("reader", ["MTE2", "scalar", "looked", "looked and cleaned"])
def test_p24_scalar_stores_do_not_reach_other_cores(card: str, reader: str) -> None:
    wrong, y = published(card, "dirty", reader)
    assert (y == 507).all()
    read = "mte2_read" if reader == "MTE2" else "scalar_read"
    hazard = the_fault(wrong, "dirty-dcache", read, "scalar_store")
    is_old(hazard, "x", 0, APART * LINE if reader == "MTE2" else APART)
    assert pipes(hazard) == ("MTE2" if reader == "MTE2" else "S", "S")
    assert hazard.other is not None
    assert hazard.at.core != hazard.other.core
    if reader != "looked":
        right, y = published(card, "cleaned", reader)
        asc.assert_clean(right)
        assert (y == 42).all()


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize(("how", "store"), [("cleaned", "scalar_store"), ("MTE3", "mte3_store")])
def test_p24_the_reader_has_to_invalidate_too(card: str, how: str, store: str) -> None:
    wrong, y = published(card, how, "looked")
    assert (y == 507).all()
    is_old(the_fault(wrong, "stale-dcache", "scalar_read", store), "x", 0, APART)
    for reader in ("looked and cleaned", "scalar", "MTE2"):
        right, y = published(card, how, reader)
        asc.assert_clean(right)
        assert (y == 42).all()


@asc.jit(kernel_type=AIV)
def store_and_end(x: asc.GlobalAddress, cleaned: asc.ConstExpr):
    board = gm(x)
    board.set_value(3, 42)  # @end_store
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if cleaned:
        clean(board)


@pytest.mark.parametrize("card", SEPARATE)
def test_p24_a_dirty_line_at_the_end_of_the_kernel(card: str) -> None:
    """Where the build adds no clean of the whole cache behind the kernel."""
    def run(cleaned: bool) -> Made:
        x = np.full(LINE, 507, np.int32)
        return asc.simulate(store_and_end, x, cleaned, card=card, overrides={"scalar.flush_at_end": False}), x

    right, x = run(True)
    asc.assert_clean(right)
    assert x[3] == 42
    wrong, x = run(False)
    assert x[3] == 507
    hazard = the_fault(wrong, "dirty-dcache", "end_store", "")
    assert (hazard.verdict, hazard.tensor, hazard.address, hazard.bytes) == (OBSERVED, "x", 12, APART)
    assert "end" in hazard.detail


# ---- P25: MTE3 and scalar stores to one line ---------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def count_up(x: asc.GlobalAddress, form: asc.ConstExpr):
    """0, 1, 2, 3 in front of -1, in a line that the scalar unit has read before."""
    flags, board, tile = Flags(), gm(x), ub(x.dtype, 0, LINE)
    board.get_value(0)
    asc.duplicate(tile, -1, LINE)
    if form == "MTE3 alone":
        flags.order("V_S")
        for i in range(4):
            tile.set_value(i, i)
        flags.order("S_MTE3")
    flags.order("V_MTE3")
    if form == "clean before":
        clean(board)
    flags.order("S_MTE3", 1)
    asc.data_copy(board, tile, LINE)  # @line_mte3
    flags.order("MTE3_S")
    if form == "clean between":
        clean(board)
    if form != "MTE3 alone":
        for i in range(4):
            board.set_value(i, i)  # @line_scalar
        clean(board)


@pytest.mark.parametrize("card", SEPARATE)
def test_p25_mte3_stores_a_line_and_the_scalar_unit_a_few_of_its_words(card: str) -> None:
    def run(form: str) -> Made:
        x = np.zeros(LINE, np.int32)
        return asc.simulate(count_up, x, form, card=card, auto_sync=False), x.tolist()

    for form in ("MTE3 alone", "clean before", "clean between"):
        right, x = run(form)
        asc.assert_clean(right)
        assert x == [0, 1, 2, 3, *[-1] * 12]
    wrong, x = run("mixed")
    assert x == [0, 1, 2, 3, *[0] * 12]
    hazard = the_fault(wrong, "false-sharing", "line_scalar", "line_mte3")
    assert (hazard.verdict, hazard.tensor, hazard.address, hazard.bytes) == (OBSERVED, "x", 16, 48)
    assert (pipes(hazard), hazard.ordered) == (("S", "MTE3"), True)
    assert (hazard.old, hazard.new) == ("00" * 16, "ff" * 16)


# ---- P32: a flag that is left set -------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def ping_pong(x: asc.GlobalAddress, y: asc.GlobalAddress, tiles: asc.ConstExpr, form: asc.ConstExpr):
    """Two buffers in turn; each is free for the next load once it has been stored."""
    flags = Flags()
    buffers = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    for i in range(tiles):
        if i >= 2:
            asc.wait_flag(E.MTE3_MTE2, i % 2)
        asc.data_copy(buffers[i % 2], gm(x, i * N), N)
        flags.order("MTE2_MTE3", i % 2)
        asc.data_copy(gm(y, i * N), buffers[i % 2], N)
        if form != "skipped" or i + 2 < tiles:
            asc.set_flag(E.MTE3_MTE2, i % 2)  # @last_set
    if form == "drained":
        for i in range(min(tiles, 2)):
            asc.wait_flag(E.MTE3_MTE2, i)


@pytest.mark.parametrize("card", ALL)
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_p32_the_last_rounds_set_what_nobody_waits_for(card: str, tiles: int) -> None:
    def run(form: str) -> Made:
        y = zeros(tiles * N)
        return asc.simulate(ping_pong, np.ones(tiles * N, np.float32), y, tiles, form, card=card), y

    for form in ("drained", "skipped"):
        right, y = run(form)
        asc.assert_clean(right)
        assert (y == 1).all()
    wrong, y = run("left")
    assert (y == 1).all()  # the next kernel suffers
    ids = min(tiles, 2)
    hazard = the_fault(wrong, "unpaired-set", "last_set", "", WARNING)
    assert (hazard.verdict, hazard.at.pipe, hazard.at.api, hazard.count) == (POSSIBLE, "MTE3", "SetFlag", ids)
    assert hazard.at.iteration == tiles - ids
    assert hazard.detail.startswith("MTE3_MTE2 " + ("id 0 is still set" if ids == 1 else "ids 0, 1 are still set"))


# ---- P33: a wait that nobody sets --------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def slots(x: asc.GlobalAddress, y: asc.GlobalAddress, primed: asc.ConstExpr):
    """As `ping_pong`, with waits from the first round on: the slots in `primed` are set before the loop."""
    buffers = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    for i in primed:
        asc.set_flag(E.MTE3_MTE2, i)
    for i in range(4):
        asc.wait_flag(E.MTE3_MTE2, i % 2)  # @slot_wait
        asc.data_copy(buffers[i % 2], gm(x, i * N), N)
        asc.set_flag(E.MTE2_MTE3, i % 2)
        asc.wait_flag(E.MTE2_MTE3, i % 2)  # @slot_loaded
        asc.data_copy(gm(y, i * N), buffers[i % 2], N)
        asc.set_flag(E.MTE3_MTE2, i % 2)  # @slot_set
    for i in range(2):
        asc.wait_flag(E.MTE3_MTE2, i)


@pytest.mark.parametrize("card", ALL)
@pytest.mark.parametrize(("primed", "slot"), [((), 0), ((0,), 1), ((1,), 0)])
def test_p33_a_buffer_that_nobody_declared_free(card: str, primed: tuple[int, ...], slot: int) -> None:
    x, y = np.ones(4 * N, np.float32), zeros(4 * N)
    asc.assert_clean(asc.simulate(slots, x, y, (0, 1), card=card))
    assert (y == 1).all()
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(slots, x, y, primed, card=card)
    (hazard,) = of_deadlock(caught.value, load_card(card))
    assert (hazard.kind, hazard.severity, hazard.verdict, hazard.count) == ("wait-without-set", ERROR, OBSERVED, 1)
    assert (name(hazard.at), hazard.at.pipe, hazard.at.api, hazard.at.iteration) == ("slot_wait", "MTE2", "WaitFlag", slot)
    lines = {mark: line for line, mark in marks(__file__).items()}
    chain = ((f"MTE2 waits for MTE3_MTE2 id {slot}", lines["slot_wait"]),
             (f"MTE3 waits for MTE2_MTE3 id {slot}", lines["slot_loaded"]))  # fmt: skip
    for wait, (words, line) in zip(caught.value.cycle, chain, strict=True):
        assert wait in hazard.detail
        assert words in wait
        assert wait.endswith(f"{Path(__file__).name}:{line})")
    assert hazard.fix.startswith(f"prime the flag: add asc.set_flag(asc.HardEvent.MTE3_MTE2, {slot}) before line")
