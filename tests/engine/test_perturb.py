"""Perturbed timing: what may come later does, what a kernel can rely on stays, and a run repeats bit for bit.

Cards as in `engine_helpers.ROUND`.
"""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.perturb import MUCH, START, Hold, Perturbation
from aicore_sim.errors import DeadlockError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Options, Run, run_kernel
from aicore_sim.scenario import load_scenario
from aicore_sim.schedules import Trials, random_schedule
from tests.engine.engine_helpers import CROSS, ROUND, TICKS, gm, order, rows, ub, work

N = 1024
FILE = __file__


def run(kernel: Any, *args: Any, card: str = "atlas_350", blocks: int = 1, overrides: dict[str, object] | None = None,
        **options: Any) -> Run:  # fmt: skip
    chosen = load_card(card, {**ROUND, **(overrides or {})})
    return run_kernel(kernel, args, {}, blocks, chosen, Options(**options))


@asc.jit
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, flag: asc.ConstExpr):
    """y = 2 x; the tile in UB is 0 before the load, and V is busy for 512 cycles before it needs the tile."""
    tile, out, other = ub(x.dtype, 0, N), ub(x.dtype, N, N), ub(x.dtype, 2 * N, 8 * N)
    asc.duplicate(tile, 0.0, N)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(tile, gm(x), N)
    for _ in range(4):
        asc.duplicate(other, 0.0, 8 * N)
    if flag:
        order(asc.HardEvent.MTE2_V)
    asc.muls(out, tile, 2.0, N)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), out, N)


def line_of(text: str, which: int = 0) -> int:
    """Number of the line of this file that holds `text`, counted from 1."""
    with open(FILE, encoding="utf-8") as source:
        return [number for number, line in enumerate(source, 1) if text in line and "line_of" not in line][which]


LOAD = line_of("asc.data_copy(tile, gm(x), N)")


def doubled(flag: bool, **options: Any) -> tuple[Run, np.ndarray[Any, Any]]:
    x, y = np.arange(1, N + 1, dtype=np.float32), np.zeros(N, np.float32)
    return run(double, x, y, flag, **options), y


# ---- directed -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("effect", [False, True])
def test_a_held_load_makes_v_read_the_old_data_without_the_flag_and_never_with_it(effect: bool) -> None:
    right = 2 * np.arange(1, N + 1, dtype=np.float32)
    hold = Perturbation(holds=(Hold("core0.aiv0", "MTE2", FILE, LOAD, 1000, effect=effect),))
    assert np.array_equal(doubled(False)[1], right)  # by luck: V comes late enough
    assert not doubled(False, perturbation=hold)[1].any()
    assert np.array_equal(doubled(True, perturbation=hold)[1], right)


def test_a_hold_delays_what_it_names_by_what_it_says_and_nothing_else() -> None:
    plain, _ = doubled(False)
    start = Perturbation(holds=(Hold(0, "MTE2", FILE, LOAD, 7, nth=0),))
    effect = Perturbation(holds=(Hold("", "MTE2", FILE, LOAD, 7, effect=True),))
    first, then = work(plain, Pipe.MTE2)[0], work(doubled(False, perturbation=start)[0], Pipe.MTE2)[0]
    assert then.times == tuple(time + 7 for time in first.times)
    assert then.issue == first.issue
    then = work(doubled(False, perturbation=effect)[0], Pipe.MTE2)[0]
    assert then.times == (first.start, first.free, first.end + 7)
    assert rows(doubled(False, perturbation=start)[0], Pipe.V) == rows(plain, Pipe.V)


@pytest.mark.parametrize(
    "hold",
    [Hold(1, "MTE2", FILE, LOAD, 7), Hold("core0.aiv0", "V", FILE, LOAD, 7), Hold("", "MTE2", FILE, LOAD - 1, 7),
     Hold("", "MTE2", FILE, LOAD, 7, nth=1)],
)  # fmt: skip
def test_a_hold_that_names_another_core_pipe_line_or_execution_changes_nothing(hold: Hold) -> None:
    changed, _ = doubled(False, perturbation=Perturbation(holds=(hold,)))
    assert changed.columns.end.tolist() == doubled(False)[0].columns.end.tolist()
    assert changed.delays == ()


def test_a_core_can_start_later() -> None:
    late = Perturbation(holds=(Hold("core0.aiv0", "S", "", START, 500),))
    plain, changed = doubled(True)[0], doubled(True, perturbation=late)[0]
    assert (changed.columns.core_start - plain.columns.core_start).tolist() == [500 * TICKS]
    assert {(late - early) / TICKS for early, late in zip(plain.columns.end, changed.columns.end, strict=True)} == {500}


def test_the_scalar_unit_can_be_slow_to_issue() -> None:
    held = Perturbation(holds=(Hold("", "S", FILE, LOAD, 30),))
    plain, changed = doubled(True)[0], doubled(True, perturbation=held)[0]
    assert work(changed, Pipe.MTE2)[0].issue == work(plain, Pipe.MTE2)[0].issue + 30
    assert work(changed, Pipe.V)[1].issue == work(plain, Pipe.V)[1].issue + 30  # what comes behind is issued later as well
    assert int(changed.columns.scalar.sum(axis=1)[0]) == changed.columns.length


def test_the_delays_of_a_run_say_what_was_delayed() -> None:
    held = Perturbation(holds=(Hold("", "MTE2", FILE, LOAD, 12, effect=True), Hold("", "MTE2", FILE, LOAD, 40)))
    found, _ = doubled(True, perturbation=held)
    assert [(d.core, d.pipe, d.api, d.line, d.nth, d.cycles, d.effect) for d in found.delays] == [
        ("core0.aiv0", "MTE2", "DataCopy", LOAD, 0, 40, False), ("core0.aiv0", "MTE2", "DataCopy", LOAD, 0, 12, True),
    ]  # fmt: skip
    again, _ = doubled(True, perturbation=Perturbation(holds=tuple(delay.hold() for delay in found.delays)))
    assert again.columns.end.tolist() == found.columns.end.tolist()


# ---- random ---------------------------------------------------------------------------------------------------------
def test_a_run_repeats_bit_for_bit_and_other_seeds_give_other_times() -> None:
    one, two = (doubled(True, perturbation=Perturbation(3, 300))[0].columns for _ in range(2))
    for name in ("start", "free", "end", "issue", "core", "pipe"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    lengths = {doubled(True, perturbation=Perturbation(seed, 300))[0].columns.length for seed in range(8)}
    assert len(lengths) == 8


def test_times_do_not_depend_on_whether_bytes_move() -> None:
    for seed in range(6):
        noise = Perturbation(seed, 200)
        with_data = doubled(True, perturbation=noise)[0].columns
        spec = asc.GmSpec((N,), asc.float32)
        without = run(double, spec, spec, True, data=False, perturbation=noise).columns
        for pipe in (Pipe.MTE2, Pipe.V, Pipe.MTE3):
            assert rows(with_data, pipe) == rows(without, pipe)


def test_all_delays_grow_with_the_scale() -> None:
    small, large = (doubled(True, perturbation=Perturbation(5).scaled(scale))[0].delays for scale in (64, 640))
    assert len(small) > 5
    assert [d.cycles * 10 for d in small] == pytest.approx([d.cycles for d in large], abs=0.1)
    assert max(d.cycles for d in large) <= 640


def test_most_entries_keep_their_time_and_a_few_lose_a_lot() -> None:
    delays, entries = [], 0
    for seed in range(200):
        found, _ = doubled(True, perturbation=Perturbation(seed, 1000))
        delays += [d.cycles for d in found.delays if d.pipe != "S" and not d.effect]
        entries += int((found.columns.pipe != int(Pipe.S)).sum())
    much = sum(cycles > 1000 / 16 for cycles in delays) / entries
    expected = sum((upto - before) * part for (upto, part), before in zip(MUCH, (0.0, MUCH[0][0], MUCH[1][0]), strict=True))
    assert len(delays) / entries < 0.5
    assert expected * 0.6 < much < expected * 1.4


@asc.jit
def chain(x: asc.GlobalAddress, y: asc.GlobalAddress):
    """Eight tiles through one buffer of UB with every flag it takes."""
    tile, out = ub(x.dtype, 0, 128), ub(x.dtype, 512, 128)
    for i in range(8):
        if i > 0:
            asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.data_copy(tile, gm(x)[128 * i], 128)
        order(asc.HardEvent.MTE2_V)
        if i > 0:
            asc.wait_flag(asc.HardEvent.MTE3_V, 0)
        asc.muls(out, tile, 2.0, 128)
        if i < 7:
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y)[128 * i], out, 128)
        if i < 7:
            asc.set_flag(asc.HardEvent.MTE3_V, 0)


def test_pipes_stay_in_order_and_flags_keep_their_meaning_under_any_perturbation() -> None:
    x = np.arange(N, dtype=np.float32)
    for seed in range(60):
        y = np.zeros(N, np.float32)
        found = run(chain, x, y, perturbation=random_schedule(seed))
        assert np.array_equal(y, 2 * x)
        for pipe in (Pipe.MTE2, Pipe.V, Pipe.MTE3):
            taken = rows(found, pipe)
            assert all(first.free <= then.start for first, then in pairwise(taken))
            assert all(row.start >= row.issue for row in taken)
        loads, sums, stores = (work(found, pipe) for pipe in (Pipe.MTE2, Pipe.V, Pipe.MTE3))
        for i in range(8):
            assert loads[i].end <= sums[i].start
            assert sums[i].end <= stores[i].start
            if i < 7:
                assert sums[i].end <= loads[i + 1].start
                assert stores[i].end <= sums[i + 1].start


@asc.jit
def hand_over(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress):
    """Every core writes its 128 elements, all meet, each reads those of the other."""
    mine, other = int(asc.get_block_idx()) * 128, (1 - int(asc.get_block_idx())) * 128
    tile = ub(x.dtype, 0, 128)
    asc.data_copy(tile, gm(x)[mine], 128)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y)[mine], tile, 128)
    asc.sync_all()
    asc.data_copy(tile, gm(y)[other], 128)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(z)[other], tile, 128)


def test_cores_still_meet() -> None:
    x = np.arange(1, 257, dtype=np.float32)
    order_of_cores = set()
    for seed in range(40):
        y, z = np.zeros(256, np.float32), np.zeros(256, np.float32)
        found = run(hand_over, x, y, z, blocks=2, overrides=CROSS, perturbation=random_schedule(seed))
        assert np.array_equal(z, x)
        first, second = (work(found, Pipe.MTE3, core)[0].end for core in (0, 1))
        order_of_cores.add(first < second)
        for core in (0, 1):
            assert work(found, Pipe.MTE2, core)[1].start >= max(first, second)
    assert order_of_cores == {True, False}  # the cores do change places


@asc.jit
def poll(flag: asc.GlobalAddress, y: asc.GlobalAddress):
    """Core 1 polls a word in GM that core 0 writes."""
    words = gm(flag)
    tile = ub(flag.dtype, 0, 8)
    if int(asc.get_block_idx()) == 0:
        asc.duplicate(tile, 1, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(words, tile, 8)
    else:
        while int(asc.read_gm_by_pass_dcache(flag)) == 0:
            pass
        asc.duplicate(tile, 5, 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y), tile, 8)


def test_polling_for_a_held_core_is_no_livelock_and_for_nobody_still_is() -> None:
    store = line_of("asc.data_copy(words, tile, 8)")
    flag, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    held = Perturbation(holds=(Hold("", "MTE3", FILE, store, 200_000),))
    run(poll, flag, y, blocks=2, perturbation=held)
    assert y.tolist() == [5] * 8
    with pytest.raises(DeadlockError, match="livelock"):
        run(poll_for_ever, np.zeros(8, np.int32), perturbation=Perturbation(0, 100))
    with pytest.raises(DeadlockError, match="livelock"):  # cores that do not poll in step
        run(poll_for_ever, np.zeros(8, np.int32), blocks=3, perturbation=Perturbation(0, 100))


@asc.jit
def poll_for_ever(flag: asc.GlobalAddress):
    while int(asc.read_gm_by_pass_dcache(flag)) == 0:
        asc.data_sync_barrier(asc.MemDsbT.DDR)


# ---- right kernels --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"])
@pytest.mark.parametrize(
    ("name", "words"),
    [("add", "rows=2 cols=1024 tile=256 blocks=2"), ("add", "rows=2 cols=1024 tile=256 blocks=1 style=queue"),
     ("matmul", "M=128 N=128 K=128")],
)  # fmt: skip
def test_right_kernels_give_one_output(name: str, words: str, card: str) -> None:
    scenario = load_scenario(name)
    trials = Trials(scenario, scenario.parse(words.split()), load_card(card), Options())
    reference = trials.run()
    assert reference.correct
    for seed in range(50):
        outcome = trials.run(random_schedule(seed))
        assert not outcome.differs(reference), (outcome, outcome.perturbation)
        assert outcome.correct


# ---- calls left out -------------------------------------------------------------------------------------------------
@asc.jit
def invalidating(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, 128)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.nd_dma_dci()
    asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, gm(x))
    asc.data_sync_barrier(asc.MemDsbT.ALL)
    asc.sync_all()
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.Mutex.lock(asc.PipeID.PIPE_V, 3)
    asc.Mutex.unlock(asc.PipeID.PIPE_V, 3)
    asc.duplicate(tile, 1.0, 128)


CALLS = [
    ("asc.pipe_barrier(", 1), ("asc.nd_dma_dci(", 1), ("asc.data_cache_clean_and_invalid(", 1),
    ("asc.data_sync_barrier(", 1), ("asc.sync_all(", 2), ("asc.wait_flag(", 1),
    ("asc.Mutex.lock(", 1), ("asc.Mutex.unlock(", 1), ("asc.duplicate(", 0),
]  # fmt: skip
"""(text of a line of `invalidating`, how many entries go with it)."""


@pytest.mark.parametrize(("text", "entries"), CALLS)
def test_a_dropped_line_records_none_of_its_calls(text: str, entries: int) -> None:
    source, first = inspect.getsourcelines(invalidating.fn)
    line = first + next(at for at, found in enumerate(source) if text in found)
    x = np.zeros(128, np.float32)
    whole = run(invalidating, x, overrides=CROSS)
    less = run(invalidating, x, overrides=CROSS, dropped=frozenset({(FILE, line)}))
    assert len(whole.columns) - len(less.columns) == entries
    here = whole.columns.lines.index((FILE, line))
    assert int((whole.columns.line == here).sum()) == max(entries, 1)
    where = [at for at, found in enumerate(less.columns.lines) if found == (FILE, line)]
    assert int(np.isin(less.columns.line, where).sum()) == (0 if entries else 1)


def test_a_dropped_barrier_is_none_for_the_compiler_either() -> None:
    # On 2201 the compiler orders dependent vector instructions itself where the kernel has not done it.
    @asc.jit
    def twice(y: asc.GlobalAddress):
        a, b = ub(y.dtype, 0, 128), ub(y.dtype, 128, 128)
        asc.duplicate(a, 1.0, 128)
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.muls(b, a, 2.0, 128)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y), b, 128)

    line = line_of("asc.pipe_barrier(asc.PipeID.PIPE_V)")
    for dropped in (frozenset(), frozenset({(FILE, line)})):
        y = np.zeros(128, np.float32)
        found = run(twice, y, card="atlas_a2", dropped=dropped)
        barriers = found.columns.line[found.columns.kind == Kind.BARRIER]
        assert [found.columns.lines[i][1] for i in barriers] == [line + 1 if dropped else line]
        assert (y == 2).all()
