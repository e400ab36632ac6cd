"""The shared L2: who hits, what is evicted, what memory sees - against a small LRU written here."""

from __future__ import annotations

from collections import OrderedDict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.engine.l2 import Access, Asker, L2Cache
from aicore_sim.instructions.base import Pipe
from aicore_sim.transfer import strided_runs
from tests.engine.engine_helpers import gm, simulate, ub, work

LINE, SECTOR = 512, 128
BASE = 0x1000_0000_0000


def run_of(offset: int, size: int, count: int = 1, stride: int = 0) -> NDArray[np.int64]:
    return strided_runs(size, (count,), offset, (stride,))


def small(sets: int = 4, ways: int = 2, sector: int = SECTOR) -> L2Cache:
    return L2Cache(sets * ways * LINE, LINE, sector, ways, LINE)


def read(cache: L2Cache, offset: int, size: int = LINE, mode: str = "") -> Access:
    return cache.access(BASE, run_of(offset, size), False, mode)


def write(cache: L2Cache, offset: int, size: int = LINE, mode: str = "") -> Access:
    return cache.access(BASE, run_of(offset, size), True, mode)


class Reference:
    """Least recently used ways of each set, oldest first: line -> (valid sectors, dirty sectors)."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = [OrderedDict[int, tuple[set[int], set[int]]]() for _ in range(sets)]
        self.ways = ways

    def touch(self, address: int, size: int, write: bool, mode: str) -> tuple[int, int, int]:
        """(hit, missed, evicted) bytes of a run of whole sectors."""
        hit = missed = evicted = 0
        for at in range(address // SECTOR, (address + size) // SECTOR):
            number, sector = divmod(at, LINE // SECTOR)
            lines = self.sets[number % len(self.sets)]
            if mode == "disable":
                missed += SECTOR
                continue
            if number not in lines and mode == "notalloc_keep":
                missed += SECTOR
                continue
            if number not in lines:
                if len(lines) == self.ways:
                    evicted += SECTOR * len(lines.popitem(last=False)[1][1])
                lines[number] = (set(), set())
            lines.move_to_end(number)
            valid, dirty = lines[number]
            hit += SECTOR * (sector in valid)
            missed += SECTOR * (sector not in valid)
            valid.add(sector)
            if write:
                dirty.add(sector)
        return hit, missed, evicted


Steps = list[tuple[int, int, int, int, bool, str]]


@given(st.lists(st.tuples(
    st.integers(0, 80), st.integers(1, 9), st.integers(1, 4), st.integers(0, 13), st.booleans(),
    st.sampled_from(["", "", "", "disable", "notalloc_keep", "persistent"]),
), min_size=1, max_size=40))  # fmt: skip
def test_any_sequence_agrees_with_the_reference(steps: Steps) -> None:
    cache, reference = small(), Reference(4, 2)
    for first, size, count, gap, store, mode in steps:
        runs = run_of(first * SECTOR, size * SECTOR, count, gap * SECTOR)
        found = cache.access(BASE, runs, store, mode)
        each = [reference.touch(BASE + (first + i * gap) * SECTOR, size * SECTOR, store, mode) for i in range(count)]
        assert (found.hit, found.missed, found.evicted) == tuple(map(sum, zip(*each, strict=True)))
        assert found.runs == count


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(0, 40),
    st.integers(1, 6),
)
def test_runs_of_any_number_of_dimensions_are_walked_outermost_first(
    dims: list[tuple[int, int]], first: int, size: int
) -> None:
    cache, reference = small(), Reference(4, 2)
    found = cache.access(
        BASE, strided_runs(size * SECTOR, [n for n, _ in dims], first * SECTOR, [s * SECTOR for _, s in dims]), False
    )
    starts = [
        first + sum(i * s for i, (_, s) in zip(index, dims, strict=True))
        for index in product(*(range(n) for n, _ in dims))
    ]
    each = [reference.touch(BASE + start * SECTOR, size * SECTOR, False, "") for start in starts]
    assert (found.hit, found.missed, found.evicted) == tuple(map(sum, zip(*each, strict=True)))
    assert found.runs == len(each)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 3000), st.booleans()), min_size=1, max_size=30))
def test_every_byte_is_a_hit_or_a_miss_at_any_alignment(steps: list[tuple[int, int, bool]]) -> None:
    cache = small()
    for offset, size, store in steps:
        found = cache.access(BASE, run_of(offset, size), store)
        assert found.hit + found.missed == size
        touched = (offset + size - 1) // LINE - offset // LINE + 1
        assert found.pieces == touched * LINE
    assert cache.hit_bytes + cache.miss_bytes == sum(size for _, size, _ in steps)


def test_the_second_touch_hits() -> None:
    cache = small()
    assert read(cache, 0, 2048) == Access(hit=0, missed=2048, evicted=0, pieces=2048, runs=1, fetched=2048, missing_runs=1)
    assert read(cache, 0, 2048) == Access(hit=2048, missed=0, evicted=0, pieces=2048, runs=1, fetched=0)


def test_the_least_recently_used_line_of_a_set_goes_first() -> None:
    cache = small()
    a, b, c = (i * 4 * LINE for i in range(3))  # one set of two ways
    read(cache, a), read(cache, b), read(cache, a)
    read(cache, c)  # takes the place of b
    assert read(cache, a).hit == LINE
    assert read(cache, b).missed == LINE  # takes the place of c
    assert read(cache, c).missed == LINE


@pytest.mark.parametrize("lines", [7, 8, 9, 12])
def test_a_cyclic_sweep_hits_completely_or_thrashes(lines: int) -> None:
    # 8 lines fit. One line too many and its set never hits again; from 12 on no set does.
    cache = small()
    for _ in range(3):
        found = read(cache, 0, lines * LINE)
    thrashing = {7: 0, 8: 0, 9: 3, 12: 12}[lines]
    assert found.missed == thrashing * LINE


def test_a_sector_is_valid_only_once_it_was_fetched() -> None:
    cache = small()
    assert read(cache, 0, 128).missed == 128
    assert read(cache, 128, 128).missed == 128
    found = read(cache, 0, 512)
    assert (found.hit, found.missed) == (256, 256)
    assert read(cache, 0, 512).hit == 512


@pytest.mark.parametrize("sector", [128, 512])
def test_a_line_filled_bit_by_bit_is_a_whole_line(sector: int) -> None:
    cache = small(sector=sector)
    for at in range(0, 512, 128):
        read(cache, at, 128)
    assert read(cache, 0, 512).hit == 512
    for at in range(0, 512, 128):
        write(cache, at, 128)
    # Two more lines of the same set push it out, dirty as it is.
    assert read(cache, 4 * LINE).evicted == 0
    assert read(cache, 8 * LINE).evicted == 512


def test_memory_sees_whole_sectors() -> None:
    # 32 B of a sector bring the sector in, and the rest of it is a hit then.
    cache = small()
    assert (read(cache, 0, 32).missed, read(cache, 32, 96).hit) == (32, 96)
    assert read(small(), 0, 32).fetched == 128
    assert read(small(sector=512), 0, 32).fetched == 512
    assert read(small(), 96, 64).fetched == 256  # over the border of two sectors
    assert read(small(), 0, 32, "disable").fetched == 128
    assert read(small(), 0, 32, "notalloc_keep").fetched == 128


def test_stores_allocate_and_are_written_back_when_they_leave() -> None:
    cache = small()
    assert write(cache, 0).missed == LINE
    assert read(cache, 0).hit == LINE
    read(cache, 4 * LINE)
    assert read(cache, 8 * LINE).evicted == LINE
    assert cache.evicted_bytes == LINE


def test_only_dirty_sectors_are_written_back() -> None:
    cache = small()
    read(cache, 0)
    write(cache, 128, 256)
    read(cache, 4 * LINE)
    assert read(cache, 8 * LINE).evicted == 256


def test_bypass_neither_finds_nor_leaves_anything() -> None:
    cache = small()
    read(cache, 0)
    assert read(cache, 0, mode="disable").missed == LINE
    read(cache, LINE, mode="disable")
    assert read(cache, LINE).missed == LINE


def test_notalloc_may_hit_but_is_not_kept() -> None:
    cache = small()
    read(cache, 0)
    assert read(cache, 0, mode="notalloc_keep").hit == LINE
    assert read(cache, LINE, mode="notalloc_keep").missed == LINE
    assert read(cache, LINE).missed == LINE


def test_a_first_victim_is_the_next_to_go_but_free_ways_go_before_it() -> None:
    cache = small(ways=3)
    a, b, c, d, e = (i * 4 * LINE for i in range(5))
    read(cache, a, mode="first_victim")
    read(cache, b)  # two ways are still free
    assert read(cache, a).hit == LINE  # a normal read makes it a line like any other
    cache = small(ways=3)
    read(cache, b), read(cache, c), read(cache, a, mode="first_victim")
    read(cache, d)  # instead of a, although b is older
    assert read(cache, b).hit == LINE
    assert read(cache, c).hit == LINE
    assert read(cache, a).missed == LINE
    assert read(cache, e).evicted == 0


def test_strided_runs_touch_their_own_lines_only() -> None:
    cache = small(sets=64)
    runs = strided_runs(64, (3, 2), 0, (4 * LINE, 256))  # six runs of 64 B in three lines
    found = cache.access(BASE, runs, False)
    assert (found.missed, found.pieces, found.runs, found.fetched) == (384, 6 * LINE, 6, 6 * SECTOR)
    assert cache.access(BASE, runs, False).hit == 384
    assert read(cache, LINE).missed == LINE


def test_runs_that_start_off_32_bytes_are_counted() -> None:
    # At 0, 100, 200 ... 700: all but the first are off.
    assert small().access(BASE, run_of(0, 64, 8, 100), False).uneven == 7
    assert small().access(BASE + 2, run_of(0, 64, 8, 128), False).uneven == 8  # the tensor itself starts off
    assert small().access(BASE + 32, run_of(0, 10, 8, 96), True, "disable").uneven == 0


def test_a_run_with_any_miss_is_one_stretch_for_memory() -> None:
    cache = small()
    read(cache, 0)
    read(cache, 2 * LINE, SECTOR)
    found = cache.access(BASE, run_of(0, LINE, 4, LINE), False)
    # Line 0 is there, line 2 in part, 1 and 3 are not.
    assert (found.runs, found.missing_runs, found.missed) == (4, 3, 3 * LINE - SECTOR)
    assert cache.access(BASE, run_of(0, LINE, 4, LINE), False).missing_runs == 0
    assert cache.access(BASE, run_of(0, LINE, 4, LINE), False, "disable").missing_runs == 4
    assert small().access(BASE, run_of(0, 4 * LINE), False).missing_runs == 1  # however many lines it has


def asked(cache: L2Cache, core: int, when: int, offset: int = 0, lines: int = 4, pace: float = 0.5, mode: str = "") -> Access:
    """`lines` lines in one run; at half a tick a byte one every 256 ticks."""
    return cache.access(BASE, run_of(offset, lines * LINE), False, mode, Asker(core, when, pace))


def crowd() -> L2Cache:
    """With a window of 100 ticks."""
    return L2Cache(64 * LINE, LINE, SECTOR, 4, LINE, window=100)


@pytest.mark.parametrize(("later", "shared"), [(0, 4), (99, 4), (100, 0), (5000, 0), (-99, 4), (-100, 0)])
def test_lines_are_shared_by_cores_that_ask_within_the_window(later: int, shared: int) -> None:
    cache = crowd()
    first = asked(cache, 0, 10_000)
    assert (first.lines, first.shared) == (4, 0)
    found = asked(cache, 1, 10_000 + later)
    assert (found.lines, found.shared, found.hit) == (4, shared, 4 * LINE)


def test_a_core_does_not_wait_for_itself_nor_for_those_who_began_elsewhere() -> None:
    cache = crowd()
    asked(cache, 0, 0)
    assert asked(cache, 0, 1).shared == 0
    # Core 1 begins two lines on: it asks for lines 2 and 3 512 ticks before core 0 did, and for 0 and 1 512 after.
    cache = crowd()
    asked(cache, 0, 0)
    assert asked(cache, 1, 0, 2 * LINE, 2).shared == 0
    assert asked(cache, 1, 512, 0, 2).shared == 0
    # The last core to ask is the one to meet.
    assert asked(cache, 2, 512, 0, 2).shared == 2


def test_lines_are_asked_for_at_the_pace_of_the_transfer() -> None:
    # Four bytes a tick: line k at 128 * k. The other core asks at 256 * k: 0 and 128 ticks apart, then further.
    cache = crowd()
    asked(cache, 0, 0, pace=0.25)
    assert asked(cache, 1, 0).shared == 1


def test_whoever_goes_past_l2_meets_others_all_the_same() -> None:
    cache = crowd()
    asked(cache, 0, 0, mode="disable")
    found = asked(cache, 1, 0, mode="disable")
    assert (found.shared, found.hit) == (4, 0)


def test_nobody_leaves_no_trace_among_those_who_ask() -> None:
    cache = crowd()
    found = cache.access(BASE, run_of(0, 4 * LINE), False)
    assert (found.lines, found.shared) == (0, 0)
    assert asked(cache, 1, 0).shared == 0
    assert cache.access(BASE, run_of(0, 4 * LINE), False).shared == 0


def test_two_caches_with_the_same_history_agree() -> None:
    rng = np.random.default_rng(1)
    steps = [(int(a), int(b), bool(c)) for a, b, c in zip(rng.integers(0, 9000, 300), rng.integers(1, 4000, 300),
                                                          rng.integers(0, 2, 300), strict=True)]  # fmt: skip
    one, two = small(), small()
    first = [one.access(BASE, run_of(a, b), c) for a, b, c in steps]
    assert first == [two.access(BASE, run_of(a, b), c) for a, b, c in steps]


# ---- in a run -------------------------------------------------------------------------------------------------------
N = 1024


@asc.jit
def read_twice(x: asc.GlobalAddress, hint: asc.ConstExpr):
    source = gm(x)
    if hint is not None:
        source.set_l2_cache_hint(hint)
    asc.data_copy(ub(x.dtype, 0, N), source, N)
    asc.data_copy(ub(x.dtype, N, N), source, N)


@pytest.mark.parametrize(("hint", "hit"), [(None, 4096), (asc.CacheMode.CACHE_MODE_DISABLE, 0)])
def test_a_second_read_hits_unless_the_tensor_bypasses_l2(hint: asc.CacheMode | None, hit: int) -> None:
    run = simulate(read_twice, np.zeros(N, np.float32), hint, overrides={"gm.GM-UB.miss_latency": 300})
    assert run.columns.gm[:, 5].tolist() == [0, hit]
    assert run.columns.gm[:, 6].tolist() == [4096, 4096 - hit]
    first, second = work(run, Pipe.MTE2)
    assert first.end - first.free == 400
    assert second.end - second.free == (100 if hit else 400)
    assert run.columns.counters["l2_hit_bytes"] == hit


def test_a_cold_store_is_no_memory_traffic_but_pushing_it_out_is() -> None:
    # Memory moves 4 B per cycle here. The first store finds a free place in L2 and runs at its port's 32 B per cycle.
    # A2's L2 is shrunk to one set of 16 lines (8 KB): the third 4 KB store pushes the first one out.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def stores(x: asc.GlobalAddress):
        for i in range(3):
            asc.data_copy(gm(x, i * N), ub(x.dtype, 0, N), N)

    run = simulate(stores, np.zeros(3 * N, np.float32), card="atlas_a2",
                   overrides={"l2_bytes": 16 * 512, "memory_rate": 4 * 1.85, "hbm.attainable": 1})  # fmt: skip
    assert run.columns.gm[:, 7].tolist() == [0, 0, 4096]
    assert [row.free - row.start for row in work(run, Pipe.MTE3)] == [128, 128, 1024]


def test_a_store_that_is_not_kept_goes_to_memory() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def store(x: asc.GlobalAddress, hint: asc.ConstExpr):
        target = gm(x)
        target.l2_hint = hint
        asc.data_copy(target, ub(x.dtype, 0, N), N)

    slow = {"memory_rate": 4 * 1.65, "hbm.attainable": 1}
    times = {}
    for hint in ("", "disable", "notalloc_keep"):
        (row,) = work(simulate(store, np.zeros(N, np.float32), hint, overrides=slow), Pipe.MTE3)
        times[hint] = row.free - row.start
    assert times == {"": 128, "disable": 1024, "notalloc_keep": 1024}


@pytest.mark.parametrize(("sector", "took"), [(512, [2048, 64, 64, 64]), (128, [512] * 4)])
def test_short_rows_cost_memory_their_whole_sectors_once(sector: int, took: list[int]) -> None:
    # Four copies of every fourth 128 B together read 8 KB, memory moves 4 B per cycle. In sectors of 512 B those 8 KB come
    # with the first copy (2048 cycles), the other three hit and take 64 cycles of their ports; in sectors of 128 B every
    # copy brings its own 2 KB.
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def quarters(x: asc.GlobalAddress):
        for i in range(4):
            asc.data_copy(ub(x.dtype, 0, 512), gm(x, i * 32), asc.DataCopyParams(16, 4, 12, 0))

    run = simulate(quarters, np.zeros(2048, np.float32), card="atlas_a2",
                   overrides={"memory_rate": 4 * 1.85, "hbm.attainable": 1, "l2.sector": sector})  # fmt: skip
    assert [row.free - row.start for row in work(run, Pipe.MTE2)] == took
