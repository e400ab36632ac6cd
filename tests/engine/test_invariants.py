"""What stays true for any program: order on a pipe, causes that add up, repeatability, data that do not depend on time.

Programs are drawn at random and made legal by construction: in front of every step stand the flags and barriers that its
operands need. What each step means is written down once more in numpy (`expected`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.engine.audit import AuditLog
from aicore_sim.engine.columns import Cause, Columns
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Run
from tests.engine.engine_helpers import CROSS, TICKS, gm, rows, simulate, ub

TILES, PLACES = 3, 6
UNIT = 64
"""float32 elements of a piece: one repeat. Tiles in UB and places in GM hold `PIECES` of them."""
PIECES = 8
TILE = UNIT * PIECES


@dataclass(frozen=True)
class Step:
    """One instruction on pieces [first, first + count) of a tile.

    "load" and "store": with place `other` of GM; "adds" and "muls": in place, by `other`; "add": tile += tile `other`.
    """

    what: str
    tile: int
    other: int
    first: int
    count: int

    @property
    def pipe(self) -> str:
        return {"load": "MTE2", "store": "MTE3"}.get(self.what, "V")

    def spans(self) -> list[tuple[str, int, int, bool]]:
        """(memory, first piece, end, written) of everything the step touches."""
        last = self.first + self.count
        own = (f"tile {self.tile}", self.first, last)
        place = (f"place {self.other}", self.first, last)
        return {
            "load": [(*own, True), (*place, False)], "store": [(*own, False), (*place, True)],
            "add": [(*own, True), (*own, False), (f"tile {self.other}", self.first, last, False)],
        }.get(self.what, [(*own, True), (*own, False)])  # fmt: skip


def overlap(a: Step, b: Step) -> bool:
    return any(
        x[0] == y[0] and x[1] < y[2] and y[1] < x[2] and (x[3] or y[3]) for x in a.spans() for y in b.spans()
    )  # fmt: skip


def legal(steps: list[Step]) -> list[Step | str]:
    """The steps with the synchronisation they need: "MTE2_V" is a flag, "V" a barrier.

    Whatever order two pipes got once holds for everything before it, so an earlier step is forgotten per pipe.
    """
    out: list[Step | str] = []
    unordered: dict[str, list[Step]] = {pipe: [] for pipe in ("MTE2", "V", "MTE3")}  # by waiting pipe
    for step in steps:
        mine = unordered[step.pipe]
        for source in ("MTE2", "V", "MTE3"):
            if any(old.pipe == source and overlap(old, step) for old in mine):
                out.append(source if source == step.pipe else f"{source}_{step.pipe}")
                mine[:] = [old for old in mine if old.pipe != source]
        out.append(step)
        for waiting in unordered.values():
            waiting.append(step)
    return out


steps_strategy = st.lists(
    st.builds(
        lambda what, tile, other, first, count: Step(
            what, tile, other % (PLACES if what in ("load", "store") else TILES), first, min(count, PIECES - first)
        ),
        st.sampled_from(["load", "load", "store", "store", "adds", "muls", "add"]), st.integers(0, TILES - 1),
        st.integers(0, PLACES - 1), st.integers(0, PIECES - 1), st.integers(1, PIECES),
    ), min_size=1, max_size=14,
)  # fmt: skip


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def program(x: asc.GlobalAddress, steps: asc.ConstExpr):
    """Every block on its own places of x."""
    base = int(asc.get_block_idx()) * PLACES * TILE
    for tile in range(TILES):
        asc.duplicate(ub(x.dtype, tile * TILE, TILE), 0.0, TILE)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    for step in steps:
        if isinstance(step, str):
            if "_" in step:
                asc.set_flag(asc.HardEvent[step], 0)
                asc.wait_flag(asc.HardEvent[step], 0)
            else:
                asc.pipe_barrier(asc.PipeID[f"PIPE_{step}"])
            continue
        n = step.count * UNIT
        own = ub(x.dtype, step.tile * TILE + step.first * UNIT, n)
        if step.what in ("load", "store"):
            place = gm(x, base + step.other * TILE + step.first * UNIT)
            if step.what == "load":
                asc.data_copy(own, place, n)
            else:
                asc.data_copy(place, own, n)
        elif step.what == "add":
            asc.add(own, own, ub(x.dtype, step.other * TILE + step.first * UNIT, n), n)
        elif step.what == "adds":
            asc.adds(own, own, float(step.other), n)
        else:
            asc.muls(own, own, float(step.other - 1), n)


def expected(x: NDArray[np.float32], steps: list[Step]) -> NDArray[np.float32]:
    """The steps one after another, for every block."""
    result = x.reshape(-1, PLACES, TILE).copy()
    for places in result:
        tiles = np.zeros((TILES, TILE), np.float32)
        for step in steps:
            part = slice(step.first * UNIT, (step.first + step.count) * UNIT)
            if step.what == "load":
                tiles[step.tile, part] = places[step.other, part]
            elif step.what == "store":
                places[step.other, part] = tiles[step.tile, part]
            elif step.what == "add":
                tiles[step.tile, part] += tiles[step.other, part]
            elif step.what == "adds":
                tiles[step.tile, part] += step.other
            else:
                tiles[step.tile, part] *= step.other - 1
    return result.reshape(-1)


def start_values(blocks: int) -> NDArray[np.float32]:
    return (np.arange(blocks * PLACES * TILE) % 97).astype(np.float32)


def play(
    steps: list[Step], blocks: int = 1, card: str = "atlas_350", **options: Any
) -> tuple[Run, NDArray[np.float32]]:
    x = start_values(blocks)
    return simulate(program, x, legal(steps), blocks=blocks, card=card, **options), x


numbers_strategy = st.fixed_dictionaries({
    "scalar.issue": st.sampled_from([1, 10, 37]), "sync.set_flag": st.sampled_from([1, 9]),
    "sync.wait_flag": st.sampled_from([1, 13]), "sync.barrier": st.sampled_from([1, 50]),
    "vector.latency_dependent": st.sampled_from([0, 20, 300]), "vector.issue_min": st.sampled_from([1, 4, 100]),
    "gm.GM-UB.latency": st.sampled_from([0, 100, 1000]), "gm.UB-GM.latency": st.sampled_from([0, 100, 1000]),
    "gm.GM-UB.miss_latency": st.sampled_from([0, 700]), "gm.UB-GM.miss_latency": st.sampled_from([0, 700]),
    "gm.GM-UB.port_rate": st.sampled_from([3, 32, 500]), "gm.UB-GM.port_rate": st.sampled_from([3, 32, 500]),
    "memory_rate": st.sampled_from([5, 200, 10**6]), "l2.read_rate": st.sampled_from([20, 10**6]),
    "queues.MTE2": st.sampled_from([1, 2, 32]), "queues.V": st.sampled_from([1, 32]),
    "launch.per_block_us": st.sampled_from([0, 0.07]), "hbm.run_cost": st.sampled_from([0, 40]),
    "hbm.write_cost": st.sampled_from([1, 1.7]),
})  # fmt: skip
cards = st.sampled_from(["atlas_350", "atlas_a2"])


@given(steps_strategy, numbers_strategy, cards, st.integers(1, 3))
def test_data_do_not_depend_on_timing_numbers(
    steps: list[Step], numbers: dict[str, object], card: str, blocks: int
) -> None:
    _, x = play(steps, blocks, card, overrides=numbers)
    assert np.array_equal(x, expected(start_values(blocks), steps))


def same(a: Columns | AuditLog, b: Columns | AuditLog) -> bool:
    """Whether every column is equal (Ops by what they are)."""
    for f in fields(a):
        one, two = getattr(a, f.name), getattr(b, f.name)
        if f.name == "session":
            continue
        if f.name == "audit":
            if not same(one, two):
                return False
            continue
        if f.name == "ops":
            one, two = ([(op.api, op.detail, op.occupy, op.latency) for op in ops] for ops in (one, two))
        if not (np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two):
            return False
    return True


@given(steps_strategy, numbers_strategy, cards, st.integers(1, 3))
def test_the_same_run_twice_leaves_the_same_columns(
    steps: list[Step], numbers: dict[str, object], card: str, blocks: int
) -> None:
    one, x = play(steps, blocks, card, overrides=numbers)
    two, y = play(steps, blocks, card, overrides=numbers)
    assert same(one.columns, two.columns)
    assert np.array_equal(x, y)


@given(steps_strategy, numbers_strategy, cards, st.integers(1, 3))
def test_a_run_without_data_takes_the_same_time(
    steps: list[Step], numbers: dict[str, object], card: str, blocks: int
) -> None:
    with_data, _ = play(steps, blocks, card, overrides=numbers)
    without, _ = play(steps, blocks, card, data=False, overrides=numbers)
    for core in range(blocks):
        for pipe in Pipe:
            assert rows(with_data, pipe, core) == rows(without, pipe, core)
    assert with_data.columns.length == without.columns.length
    assert np.array_equal(with_data.columns.scalar, without.columns.scalar)


@given(steps_strategy, numbers_strategy, cards, st.integers(1, 3), st.booleans())
def test_rows_of_a_pipe_do_not_overlap_and_causes_add_up(
    steps: list[Step], numbers: dict[str, object], card: str, blocks: int, data: bool
) -> None:
    run, _ = play(steps, blocks, card, data=data, overrides=numbers)
    c = run.columns
    for core in range(blocks):
        for pipe in Pipe:
            lane = rows(run, pipe, core)
            for before, row in zip([None, *lane], lane, strict=False):
                assert row.start <= row.free <= row.end
                if pipe is not Pipe.S:
                    assert row.issue <= row.start
                    assert before is None or before.free <= row.start
                if row.kind is Kind.EXEC:
                    assert 0 <= row.unit_flag <= row.free - row.start
    # What a GM row says about its limits lies inside its time.
    for index, *limits, _, _, _, _ in c.gm.tolist():
        assert min(limits) >= 0
        assert sum(limits) <= int(c.free[index] - c.start[index])
    assert np.all(c.scalar.sum(axis=1) == c.length)
    assert np.all(c.scalar >= 0)
    assert int(c.end.max()) <= c.length
    by_cause = run.trace.ticks_by_cause()
    assert np.all(by_cause.sum(axis=-1)[:, [pipe for pipe in c.cores[0].pipes]] == c.length)
    assert np.all(by_cause >= 0)


def covered(intervals: list[tuple[float, float]]) -> float:
    """Length of the union of intervals [start, end)."""
    total = reached = 0.0
    for start, end in sorted(intervals):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


@given(steps_strategy, numbers_strategy, cards, st.integers(1, 3))
def test_the_time_of_a_pipe_is_the_union_of_its_instructions(
    steps: list[Step], numbers: dict[str, object], card: str, blocks: int
) -> None:
    run, _ = play(steps, blocks, card, data=False, overrides=numbers)
    time = run.trace.time_ticks
    by_cause = run.trace.ticks_by_cause()
    for core in range(blocks):
        for pipe in (Pipe.MTE2, Pipe.V, Pipe.MTE3):
            lane = [(row.start, row.end) for row in rows(run, pipe, core) if row.kind is Kind.EXEC]
            assert time[core, pipe] == covered(lane) * TICKS
            assert by_cause[core, pipe].sum() == run.columns.length
            # Idle is what lies outside of the core's start and the pipe's last effect.
            last = max([int(run.columns.core_start[core]), *(int(row.end * TICKS) for row in rows(run, pipe, core))])
            outside = int(run.columns.core_start[core]) + run.columns.length - last
            assert by_cause[core, pipe, Cause.IDLE] <= outside


@given(steps_strategy, numbers_strategy, st.integers(2, 4))
def test_removing_contention_makes_nobody_slower(steps: list[Step], numbers: dict[str, object], blocks: int) -> None:
    # Hits and misses are those of the run with contention; test_outcomes.py has programs whose cores share addresses.
    shared, _ = play(steps, blocks, overrides=numbers)
    alone, _ = play(steps, blocks, contention=False, overrides=numbers)
    assert np.all(alone.columns.core_end <= shared.columns.core_end)
    assert alone.columns.length <= shared.columns.length
    assert alone.columns.counters == shared.columns.counters


@given(steps_strategy, numbers_strategy)
def test_no_run_is_faster_than_its_bytes_and_repeats_allow(steps: list[Step], numbers: dict[str, object]) -> None:
    run, _ = play(steps, overrides=numbers)
    nbytes = {what: sum(s.count for s in steps if s.what == what) * UNIT * 4 for what in ("load", "store")}
    repeats = sum(s.count for s in steps if s.pipe == "V")
    rate_in, rate_out = (float(str(numbers[f"gm.{path}.port_rate"])) for path in ("GM-UB", "UB-GM"))
    least = max(nbytes["load"] / rate_in, nbytes["store"] / rate_out, repeats, 1.0)
    assert run.cycles >= least


@given(steps_strategy, st.integers(1, 4))
def test_blocks_run_as_one_after_another_would(steps: list[Step], blocks: int) -> None:
    # Two cores take turns with up to four blocks; the result is that of a core for each.
    _, x = play(steps, blocks, overrides={"cubes": 1, "vectors": 2})
    assert np.array_equal(x, expected(start_values(blocks), steps))


def test_every_wait_has_a_cause_from_the_closed_list() -> None:
    run, _ = play([Step("load", 0, 0, 0, 8), Step("adds", 0, 3, 0, 8), Step("store", 0, 1, 0, 8)], 2)
    c = run.columns
    assert set(np.unique(c.issue_cause)) <= {int(cause) for cause in Cause}
    assert set(np.unique(c.cause)) <= {int(cause) for cause in Cause}


@pytest.mark.parametrize("seed", range(3))
def test_a_mix_of_cores_with_meetings_repeats_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    delays = rng.integers(1, 9, (6, 4)).tolist()

    @asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
    def meetings(x: asc.GlobalAddress):
        me = int(asc.get_block_idx())
        for delay in delays[me]:
            n = delay * UNIT
            asc.data_copy(ub(x.dtype, 0, n), gm(x), n)
            asc.sync_all()

    runs = [simulate(meetings, np.zeros(TILE * 2, np.float32), blocks=6, overrides=CROSS) for _ in range(2)]
    assert same(runs[0].columns, runs[1].columns)
