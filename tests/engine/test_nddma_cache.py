"""The NDDMA cache of a vector core: who hits, what a stale hit delivers, and what NdDmaDci is good for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.engine.nddma_cache import NddmaAccess, NddmaCache, patched_source
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Run
from aicore_sim.memory import Buffer, GlobalMemory
from aicore_sim.transfer import strided_runs
from tests.engine.engine_helpers import gm, order, simulate, ub, work

LINE = 128


def memory(nbytes: int = 64 * LINE) -> Buffer:
    buffer = GlobalMemory().allocate(nbytes, "x")
    buffer.bytes()[:nbytes] = np.arange(nbytes) % 251
    return buffer


def cache(lines: int = 8, ways: int = 2, line: int = LINE) -> NddmaCache:
    return NddmaCache(lines * line, line, ways)


def read(c: NddmaCache, buffer: Buffer, offset: int, size: int, count: int = 1, stride: int = 0) -> NddmaAccess:
    return c.read(buffer, buffer.base + offset, strided_runs(size, (count,), 0, (stride,)))


def test_every_line_is_fetched_once_and_then_hit() -> None:
    c, x = cache(), memory()
    first = read(c, x, 0, 4 * LINE)
    assert (first.hits, first.misses) == (0, 4)
    assert first.missed_runs[:, 0].tolist() == [x.base + i * LINE for i in range(4)]
    assert set(first.missed_runs[:, 1].tolist()) == {LINE}
    again = read(c, x, 0, 4 * LINE)
    assert (again.hits, again.misses) == (4, 0)
    assert (c.hits, c.misses, c.stale_hits) == (4, 4, 0)


def test_neighbouring_elements_of_a_line_are_looked_up_together() -> None:
    # 16 words, 32 B apart: four in each of four lines, so four look-ups.
    c, x = cache(), memory()
    found = read(c, x, 0, 4, 16, 32)
    assert (found.hits, found.misses) == (0, 4)


@pytest.mark.parametrize(("line", "misses"), [(64, 4), (128, 3), (256, 2), (512, 1)])
def test_the_line_size_decides_how_many_lines_a_run_spans(line: int, misses: int) -> None:
    # Bytes 224..447.
    found = read(cache(line=line), memory(), 224, 224)
    assert found.misses == misses


def test_a_stale_hit_shows_the_old_bytes_of_its_whole_line() -> None:
    c, x = cache(), memory()
    read(c, x, 0, 2 * LINE)
    old = x.bytes()[:LINE].copy()
    x.bytes()[5] = 255
    found = read(c, x, 64, 4)  # another word of the same line
    assert c.stale_hits == 1
    ((at, held),) = found.stale
    assert at == 0
    assert np.array_equal(held, old)
    assert read(c, x, LINE, 4).stale == []


def test_invalidate_makes_the_next_read_fetch_again() -> None:
    c, x = cache(), memory()
    read(c, x, 0, LINE)
    x.bytes()[5] = 255
    c.invalidate()
    found = read(c, x, 0, LINE)
    assert (found.misses, found.stale, c.invalidated) == (1, [], 1)
    assert read(c, x, 0, LINE).stale == []


def test_a_line_that_was_pushed_out_comes_back_fresh() -> None:
    # Four sets of two ways: lines 0, 4 and 8 share a set, so 8 pushes 0 out.
    c, x = cache(), memory()
    for line in (0, 4):
        read(c, x, line * LINE, 4)
    x.bytes()[: 9 * LINE] = 7
    read(c, x, 8 * LINE, 4)
    found = read(c, x, 0, 4)
    assert (found.misses, found.stale) == (1, [])
    assert read(c, x, 8 * LINE, 4).stale == []
    # 4 was the oldest then, and went; 8 is still here.
    assert read(c, x, 4 * LINE, 4).misses == 1


def test_the_last_line_of_an_allocation_is_cut_at_its_end() -> None:
    c, x = cache(line=512), memory(96)
    assert read(c, x, 64, 32).misses == 1
    x.bytes()[70] = 200
    ((at, held),) = read(c, x, 64, 32).stale
    assert (at, held[70]) == (0, 70)


def test_a_patched_source_differs_only_where_the_cache_is_old() -> None:
    x = memory()
    view = patched_source(x, 0, 3 * LINE, [(LINE, np.full(LINE, 9, np.uint8))])
    expected = x.bytes()[: 3 * LINE].copy()
    expected[LINE : 2 * LINE] = 9
    assert np.array_equal(view.bytes()[: 3 * LINE], expected)
    assert (view.base, view.uid) == (x.base, x.uid)


Step = tuple[int, int, int, int]


@given(st.lists(st.tuples(st.sampled_from(["read", "read", "write", "dci"]), st.integers(0, 2000), st.integers(1, 500),
                          st.integers(0, 255)), min_size=1, max_size=30))  # fmt: skip
def test_any_history_against_a_fully_associative_model(steps: list[tuple[str, int, int, int]]) -> None:
    # As many lines as the memory has: nothing is ever pushed out, so a line is as old as its first read since NdDmaDci.
    c, x = NddmaCache(32 * LINE, LINE, 32), memory(20 * LINE)
    held: dict[int, NDArray[np.uint8]] = {}
    for what, offset, size, value in steps:
        if what == "dci":
            c.invalidate()
            held.clear()
        elif what == "write":
            x.bytes()[offset : offset + size] = value
        else:
            expected = []
            for at in range(offset // LINE * LINE, offset + size, LINE):
                now = x.bytes()[at : at + LINE].copy()
                if at not in held:
                    held[at] = now
                elif not np.array_equal(held[at], now):
                    expected.append((at, held[at].tolist()))
            found = read(c, x, offset, size)
            assert [(at, data.tolist()) for at, data in found.stale] == expected


# ---- in a kernel ----------------------------------------------------------------------------------------------------
COLS, ROWS = 8, 4
PLAIN = asc.NdDmaParams(asc.NdDmaLoopInfo(loop_src_stride=(1, COLS), loop_dst_stride=(1, COLS), loop_size=(COLS, ROWS)))


@asc.jit
def reread(x: asc.GlobalAddress, y: asc.GlobalAddress, dci: asc.ConstExpr, rewrite: asc.ConstExpr):
    """x by NDDMA, x doubled by MTE3, x by NDDMA again; both copies end up in y. `dci`: before each read or not."""
    n = COLS * ROWS
    first, twice, second = ub(x.dtype, 0, n), ub(x.dtype, n, n), ub(x.dtype, 2 * n, n)
    source = gm(x)
    if dci[0]:
        asc.nd_dma_dci()
    asc.data_copy(first, source, PLAIN)
    order(asc.HardEvent.MTE2_V)
    asc.muls(twice, first, 2.0, n)
    order(asc.HardEvent.V_MTE3)
    if rewrite:
        asc.data_copy(source, twice, n)
        order(asc.HardEvent.MTE3_MTE2)
    if dci[1]:
        asc.nd_dma_dci()
    asc.data_copy(second, source, PLAIN)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), first, n)
    asc.data_copy(gm(y, n), second, n)


def reread_run(dci: tuple[bool, bool], rewrite: bool = True) -> tuple[Run, NDArray[np.float32], NDArray[np.float32]]:
    """(run, x as it was, what the second read delivered)."""
    x, y = np.arange(1, 33, dtype=np.float32), np.zeros(64, np.float32)
    before = x.copy()
    run = simulate(reread, x, y, dci, rewrite)
    assert np.array_equal(y[:32], before)
    return run, before, y[32:]


def test_without_nd_dma_dci_the_second_read_delivers_the_old_bytes() -> None:
    run, before, second = reread_run((True, False))
    assert np.array_equal(second, before)  # order was right: the flag came after the store
    assert run.columns.counters["nddma_stale_hit"] == 1
    assert run.columns.counters["nddma_hit"] == 1
    assert run.columns.counters["nddma_miss"] == 1


def test_with_nd_dma_dci_it_delivers_the_new_ones() -> None:
    run, before, second = reread_run((False, True))
    assert np.array_equal(second, 2 * before)
    assert run.columns.counters["nddma_stale_hit"] == 0
    assert run.columns.counters["nddma_miss"] == 2


def test_nobody_rewrote_the_line_then_the_missing_call_is_harmless() -> None:
    run, before, second = reread_run((False, False), rewrite=False)
    assert np.array_equal(second, before)
    assert run.columns.counters["nddma_stale_hit"] == 0


def test_an_invalidate_before_the_writer_is_ordered_does_not_help() -> None:
    # NdDmaDci sits in the MTE2 queue in front of the second read here, but the store has not been waited for.
    @asc.jit
    def early(x: asc.GlobalAddress, y: asc.GlobalAddress):
        n = COLS * ROWS
        asc.data_copy(ub(x.dtype, 0, n), gm(x), PLAIN)
        asc.duplicate(ub(x.dtype, n, n), 5.0, n)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(x), ub(x.dtype, n, n), n)
        asc.nd_dma_dci()
        asc.data_copy(ub(x.dtype, 2 * n, n), gm(x), PLAIN)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 2 * n, n), n)

    x, y = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.float32)
    simulate(early, x, y, overrides={"gm.UB-GM.latency": 5000})
    assert np.array_equal(x, np.full(32, 5.0))
    assert not np.array_equal(y, x)


@pytest.mark.parametrize(("line", "stale"), [(32, False), (64, True), (128, True)])
def test_the_line_size_decides_which_neighbours_are_caught(line: int, stale: bool) -> None:
    # Words 0..7 are read by NDDMA, words 8..15 rewritten and then read: their bytes were never read before, but they
    # share a line with the first ones unless it has only 32 B.
    @asc.jit
    def neighbours(x: asc.GlobalAddress, y: asc.GlobalAddress):
        row = asc.NdDmaParams(asc.NdDmaLoopInfo(loop_src_stride=(1,), loop_dst_stride=(1,), loop_size=(8,)))
        asc.data_copy(ub(x.dtype, 0, 8), gm(x), row)
        asc.duplicate(ub(x.dtype, 8, 8), 5.0, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(x, 8), ub(x.dtype, 8, 8), 8)
        order(asc.HardEvent.MTE3_MTE2)
        asc.data_copy(ub(x.dtype, 16, 8), gm(x, 8), row)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 16, 8), 8)

    x, y = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    run = simulate(neighbours, x, y, overrides={"nddma.line": line})
    assert y.tolist() == (list(range(8, 16)) if stale else [5.0] * 8)
    assert run.columns.counters["nddma_stale_hit"] == int(stale)


def test_plain_copies_never_see_the_cache() -> None:
    @asc.jit
    def plain(x: asc.GlobalAddress, y: asc.GlobalAddress):
        n = COLS * ROWS
        asc.data_copy(ub(x.dtype, 0, n), gm(x), PLAIN)
        asc.duplicate(ub(x.dtype, n, n), 5.0, n)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(x), ub(x.dtype, n, n), n)
        order(asc.HardEvent.MTE3_MTE2)
        asc.data_copy(ub(x.dtype, 2 * n, n), gm(x), n)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 2 * n, n), n)

    x, y = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.float32)
    simulate(plain, x, y)
    assert np.array_equal(y, np.full(32, 5.0))


def test_every_core_has_a_cache_of_its_own() -> None:
    @asc.jit
    def both(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, COLS * ROWS), gm(x), PLAIN)

    run = simulate(both, np.zeros(32, np.float32), blocks=3)
    assert (run.columns.counters["nddma_hit"], run.columns.counters["nddma_miss"]) == (0, 3)


def test_hits_and_misses_cost_the_same_address_work() -> None:
    # 64 words from 64 lines: one element each, 10 cycles for each whether it hits or not.
    scattered = asc.NdDmaParams(asc.NdDmaLoopInfo(loop_src_stride=(32,), loop_dst_stride=(1,), loop_size=(64,)))

    @asc.jit
    def twice(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 64), gm(x), scattered)
        asc.data_copy(ub(x.dtype, 64, 64), gm(x), scattered)

    run = simulate(twice, np.zeros(64 * 32, np.float32), overrides={"nddma.element_rate": 0.1})
    cold, warm = work(run, Pipe.MTE2)
    assert cold.free - cold.start == 640
    assert warm.free - warm.start == 640
    # What the copy leaves to L2 are whole lines, and only those that missed.
    assert run.columns.gm[:, 5:7].tolist() == [[0, 64 * 128], [0, 0]]


def test_a_partly_cached_copy_costs_as_much_address_work_as_a_cold_one() -> None:
    scattered = asc.NdDmaParams(asc.NdDmaLoopInfo(loop_src_stride=(32,), loop_dst_stride=(1,), loop_size=(64,)))

    @asc.jit
    def partly(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 64), gm(x), scattered)
        asc.data_copy(ub(x.dtype, 64, 64), gm(x, 32), scattered)  # 63 of its lines are here

    run = simulate(partly, np.zeros(65 * 32, np.float32), overrides={"nddma.element_rate": 0.1})
    assert [row.free - row.start for row in work(run, Pipe.MTE2)] == [640, 640]


def test_a_patched_source_keeps_undefined_bytes_undefined() -> None:
    x = memory()
    x.mark_all()[LINE + 5] = 0
    view = patched_source(x, 0, 3 * LINE, [(2 * LINE, np.full(LINE, 9, np.uint8))])
    assert view.is_defined(0, LINE)
    assert not view.is_defined(LINE, 2 * LINE)


# ---- what a copy costs ----------------------------------------------------------------------------------------------
EASY: dict[str, Any] = {"gm.GM-UB.latency": 200, "gm.GM-UB.miss_latency": 0, "nddma.misses_in_flight": 64}
"""Every miss takes 200 cycles, whether L2 has the line or not."""


def times(loops: asc.NdDmaLoopInfo, words: int, copies: int = 1, apart: int = 0, **overrides: Any) -> list[tuple[float, float]]:
    """(free, end) in cycles after the start of the first copy; copy i starts at word i * apart of GM."""

    @asc.jit
    def kernel(x: asc.GlobalAddress):
        for i in range(copies):
            asc.data_copy(ub(x.dtype, 0, words), gm(x, i * apart), asc.NdDmaParams(loops))

    x = np.zeros(1 << 17, np.float32)
    given = EASY | {key.replace("__", "."): value for key, value in overrides.items()}
    found = work(simulate(kernel, x, overrides=given), Pipe.MTE2)
    return [(row.free - found[0].start, row.end - found[0].start) for row in found]


SCATTERED = asc.NdDmaLoopInfo(loop_src_stride=(64,), loop_dst_stride=(1,), loop_size=(64,))
"""64 words from 64 lines, no two of them neighbours."""
NEIGHBOURS = asc.NdDmaLoopInfo(loop_src_stride=(32,), loop_dst_stride=(1,), loop_size=(64,))
"""64 words from 64 lines, one behind the other."""


@pytest.mark.parametrize("rate", [0.25, 0.5, 2])
def test_elements_of_a_strided_dimension_move_one_by_one(rate: float) -> None:
    # 64 elements against 256 B / 32 B a cycle; a second dimension that is contiguous does not help.
    upright = asc.NdDmaLoopInfo(loop_src_stride=(16, 1), loop_dst_stride=(16, 1), loop_size=(4, 16))
    for loops, span in ((SCATTERED, 64), (upright, 64)):
        assert times(loops, span, nddma__element_rate=rate)[0] == (64 / rate, 64 / rate + 200)


def test_rows_of_a_contiguous_dimension_move_by_bytes() -> None:
    # 16 KB at 32 B a cycle; the rate of single elements has no say, the address work of 64 rows is hidden.
    rows = asc.NdDmaLoopInfo(loop_src_stride=(1, 64), loop_dst_stride=(1, 64), loop_size=(64, 64))
    assert times(rows, 4096, nddma__element_rate=0.25)[0] == (512, 712)
    assert times(rows, 4096, nddma__gather_rate=16)[0] == (1024, 1224)
    assert times(rows, 4096, nddma__run_head=10)[0] == (640, 840)


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_misses_wait_for_a_slot(slots: int) -> None:
    # 64 misses of 200 cycles, `slots` at a time: the last is answered after 64 * 200 / slots.
    free, end = times(SCATTERED, 64, nddma__misses_in_flight=slots)[0]
    assert (free, end) == (64 * 200 / slots - 200, 64 * 200 / slots)


def test_a_stream_of_copies_keeps_the_pace_of_the_slots() -> None:
    # Copies of other lines each time: 64 misses through 4 slots are 3200 cycles a copy, however many there are.
    found = times(SCATTERED, 64, copies=3, apart=64 * 64, nddma__misses_in_flight=4)
    assert [end for _, end in found] == [3200, 6400, 9600]


def test_where_l2_misses_too_a_slot_is_taken_for_longer() -> None:
    # All 64 lines are in neither cache: 200 + 300 cycles each.
    overrides: dict[str, Any] = {"gm__GM-UB__miss_latency": 300, "nddma__misses_in_flight": 2}
    assert times(SCATTERED, 64, **overrides)[0][1] == 64 * 500 / 2


def test_a_prefetch_helps_neighbouring_lines_only() -> None:
    few: dict[str, Any] = {"nddma__misses_in_flight": 4, "nddma__prefetch": True}
    assert times(NEIGHBOURS, 64, nddma__misses_in_flight=4)[0][1] == 3200
    assert times(NEIGHBOURS, 64, **few)[0] == (64, 264)  # one demand miss, then one element a cycle
    assert times(SCATTERED, 64, **few)[0][1] == 3200


@pytest.mark.parametrize(("ways", "misses"), [(256, 32), (8, 32 * 32)])
def test_ways_decide_whether_a_transposed_read_keeps_its_lines(ways: int, misses: int) -> None:
    # 32 columns of 32 rows that lie 4 KB apart: with 8 ways all 32 lines share one of 32 sets of 128 B lines.
    transposed = asc.NdDmaLoopInfo(loop_src_stride=(1024, 1), loop_dst_stride=(1, 32), loop_size=(32, 32))

    @asc.jit
    def kernel(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 1024), gm(x), asc.NdDmaParams(transposed))

    run = simulate(kernel, np.zeros(1 << 15, np.float32), overrides=EASY | {"nddma.ways": ways})
    assert run.columns.counters["nddma_miss"] == misses
    assert run.columns.gm[0, 5:7].sum() == misses * LINE
    (row,) = work(run, Pipe.MTE2)
    assert row.end - row.start == max(1024 + 200, misses * 200 / 64)
