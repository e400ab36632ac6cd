"""A run without contention: the L2 outcomes of the run with it, and nobody slower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.l2 import Access, Asker, L2Cache
from aicore_sim.engine.outcomes import Recorded, Replay
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Contention, Options, Run
from aicore_sim.scenario import load_scenario
from tests.engine.engine_helpers import ROUND, gm, rows, simulate, ub

LINE = 512
COPY = 128
"""float32 elements of a piece: one L2 line."""
PIECES = 12
"""Pieces of GM that all cores share."""


def l2(lines: int = 4) -> L2Cache:
    return L2Cache(lines * LINE, LINE, LINE, lines, 128)


def run_of(nbytes: int, offset: int = 0) -> np.ndarray:
    return np.array([[offset, nbytes, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]], np.int64)


# ---- the record by itself -------------------------------------------------------------------------------------------
A, B = (0, int(Pipe.MTE2)), (1, int(Pipe.MTE2))
ONE = Asker(0, 0, 0.5)
"""Core 0 at tick 0, two bytes a tick."""


def test_a_replay_gives_each_lane_its_own_answers_in_its_own_order() -> None:
    recorded, cache = Recorded(), l2()
    first = recorded.look_up(cache, A, 0, run_of(LINE), False, "", ONE)
    second = recorded.look_up(cache, B, 0, run_of(LINE), False, "", ONE)
    assert (first.missed, second.hit) == (LINE, LINE)
    # Block 1 comes first this time: it still hits, and block 0 still misses.
    replay, other = Replay(recorded), l2()
    assert replay.look_up(other, B, 0, run_of(LINE), False, "", ONE) == replace(second, lines=0)
    assert replay.look_up(other, A, 0, run_of(LINE), False, "", ONE) == replace(first, lines=0)
    assert replay.fresh == 0
    assert (other.hit_bytes, other.miss_bytes, other.evicted_bytes) == (LINE, LINE, 0)


def test_all_numbers_but_those_of_other_cores_survive() -> None:
    recorded, cache = Recorded(), l2(1)
    recorded.look_up(cache, A, 0, run_of(LINE), True, "", ONE)
    found = recorded.look_up(cache, A, 3 * LINE, run_of(300, 8), False, "", ONE)
    assert found == Access(hit=0, missed=300, evicted=LINE, pieces=384, runs=1, fetched=LINE, missing_runs=1, uneven=1,
                           lines=1)  # fmt: skip
    assert recorded.answer(A, 1, 3 * LINE + 8) == replace(found, lines=0)


def test_a_transfer_without_a_record_meets_the_l2_as_the_replay_left_it() -> None:
    recorded, cache = Recorded(), l2()
    recorded.look_up(cache, A, 0, run_of(LINE), False, "", ONE)
    replay, other = Replay(recorded), l2()
    replay.look_up(other, A, 0, run_of(LINE), False, "", ONE)
    assert replay.look_up(other, A, 0, run_of(LINE), False, "", ONE).hit == LINE  # one more than recorded
    assert replay.look_up(other, B, LINE, run_of(LINE), False, "", ONE).missed == LINE  # a lane that made none
    assert replay.fresh == 2


def test_a_transfer_at_another_address_does_not_take_the_record() -> None:
    recorded, cache = Recorded(), l2()
    recorded.look_up(cache, A, 0, run_of(LINE), False, "", ONE)
    recorded.look_up(cache, A, 0, run_of(LINE), False, "", ONE)
    replay, other = Replay(recorded), l2()
    replay.look_up(other, A, 0, run_of(LINE), False, "", ONE)
    assert replay.look_up(other, A, 0, run_of(LINE, offset=LINE), False, "", ONE).missed == LINE
    assert replay.fresh == 1


def test_a_transfer_without_a_record_waits_for_nobody_either() -> None:
    # Recorded, the second core meets the first on its line; what a replay looks up anew is of transfers by themselves.
    def asked(by: Recorded | Replay, cache: L2Cache) -> list[int]:
        return [by.look_up(cache, (core, 0), 0, run_of(LINE), False, "", Asker(core, 0, 0.5)).shared for core in range(3)]

    assert asked(Recorded(), L2Cache(4 * LINE, LINE, LINE, 4, 128, window=1)) == [0, 1, 1]
    replay = Replay(Recorded())
    assert asked(replay, L2Cache(4 * LINE, LINE, LINE, 4, 128, window=1)) == [0, 0, 0]
    assert replay.fresh == 3


# ---- runs -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Copy:
    """A load into or a store from tile `tile` of UB; `pieces` of GM from piece `place` on, split into runs or not."""

    load: bool
    tile: int
    place: int
    pieces: int
    wait: bool
    """Whether the other pipe's last copy must be complete."""


copy_strategy = st.builds(
    lambda load, tile, place, pieces, wait: Copy(load, tile, place, min(pieces, PIECES - place), wait),
    st.booleans(), st.integers(0, 3), st.integers(0, PIECES - 1), st.integers(1, 4), st.booleans(),
)  # fmt: skip
programs = st.lists(st.lists(copy_strategy, min_size=1, max_size=10), min_size=1, max_size=4)
FACTORS: tuple[tuple[dict[str, object], ...], ...] = (
    ({"memory_rate": 3}, {"memory_rate": 40, "l2.read_rate": 9}, {"l2.read_rate": 40, "l2.write_rate": 7}),
    ({"l2_bytes": 2048, "l2.ways": 1}, {"l2_bytes": 4096, "l2.ways": 4}),
    ({}, {"gm.GM-UB.miss_latency": 700, "gm.UB-GM.miss_latency": 333, "gm.GM-UB.latency": 0}),
    ({"gm.GM-UB.port_rate": 3, "queues.MTE2": 1}, {"gm.UB-GM.issue": 90}),
)
"""Slow memory or L2, a small L2, what a miss costs, slow ports: any of each go together."""
FEW: dict[str, object] = {"cubes": 1, "vectors": 2}
machines = st.tuples(*(st.integers(0, len(factor) - 1) for factor in FACTORS))


@cache
def machine(which: tuple[int, ...], few: bool = False) -> asc.Card:
    """The card of one combination, `few`: with two vector cores."""
    numbers = {**ROUND, **(FEW if few else {})}
    for factor, index in zip(FACTORS, which, strict=True):
        numbers |= factor[index]
    return load_card("atlas_350", numbers)


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def copies(x: asc.GlobalAddress, programs: asc.ConstExpr):
    for copy in programs[int(asc.get_block_idx()) % len(programs)]:
        n = copy.pieces * COPY
        here, there = ub(x.dtype, copy.tile * 4 * COPY, n), gm(x, copy.place * COPY)
        if copy.wait:
            event = asc.HardEvent.MTE3_MTE2 if copy.load else asc.HardEvent.MTE2_MTE3
            asc.set_flag(event, 0)
            asc.wait_flag(event, 0)
        asc.data_copy(*((here, there) if copy.load else (there, here)), n)


def play(programs: list[list[Copy]], card: asc.Card, contention: bool, blocks: int = 0) -> Run:
    return asc.simulate(copies, asc.GmSpec((PIECES * COPY,), asc.float32), programs, blocks=blocks or len(programs),
                        data=False, contention=contention, card=card)  # fmt: skip


@given(programs, machines)
def test_removing_contention_makes_nobody_slower(programs: list[list[Copy]], which: tuple[int, ...]) -> None:
    """Cores share every line of an L2 that thrashes: looked up again, other transfers would hit than did."""
    shared, alone = (play(programs, machine(which), contention) for contention in (True, False))
    assert alone.contention is not None
    assert (alone.contention.time_us, alone.contention.without_us) == (shared.time_us, alone.time_us)
    assert alone.contention.fresh == 0
    assert np.all(alone.columns.core_end <= shared.columns.core_end)
    assert alone.columns.counters == shared.columns.counters
    for core in range(len(programs)):
        for pipe in (Pipe.S, Pipe.MTE2, Pipe.MTE3):
            for a, b in zip(rows(alone, pipe, core), rows(shared, pipe, core), strict=True):
                assert (a.kind, a.start <= b.start, a.free <= b.free, a.end <= b.end) == (b.kind, True, True, True)


@given(st.lists(copy_strategy, min_size=1, max_size=12), machines)
def test_one_core_with_one_copy_at_a_time_has_no_contention(program: list[Copy], which: tuple[int, ...]) -> None:
    loads = [Copy(True, c.tile, c.place, c.pieces, False) for c in program]
    shared, alone = (play([loads], machine(which), contention) for contention in (True, False))
    assert rows(alone, Pipe.MTE2) == rows(shared, Pipe.MTE2)
    assert alone.columns.length == shared.columns.length
    assert alone.contention is not None
    assert alone.contention.cost_us == 0


@given(programs, machines, st.integers(1, 9))
def test_blocks_in_waves_keep_their_outcomes(programs: list[list[Copy]], which: tuple[int, ...], blocks: int) -> None:
    # On which of the two cores a block runs is decided by time; its copies find what they found.
    card = machine(which, few=True)
    shared, alone = (play(programs, card, contention, blocks) for contention in (True, False))
    assert alone.contention is not None
    assert alone.contention.fresh == 0
    assert alone.columns.counters == shared.columns.counters
    assert alone.columns.length <= shared.columns.length


def test_two_cores_that_share_memory_by_hand() -> None:
    # 512 B each at 16 B per cycle: 32 cycles alone, 64 together. The first instruction is issued at 10, latency is 100.
    program = [[Copy(True, 0, 0, 1, False)], [Copy(True, 0, 1, 1, False)]]
    slow = load_card("atlas_350", {**ROUND, "memory_rate": 16 * 1.65, "hbm.attainable": 1.0})
    shared, alone = play(program, slow, True), play(program, slow, False)
    assert [row.times for row in rows(shared, Pipe.MTE2)] == [(10, 74, 174)]
    assert [row.times for row in rows(alone, Pipe.MTE2)] == [(10, 42, 142)]
    assert alone.contention == Contention(shared.time_us, alone.time_us)
    assert alone.contention.cost_us == pytest.approx(32 / 1650)
    assert shared.contention is None


def test_a_hit_that_another_core_paid_for_stays_a_hit() -> None:
    # Core 1 reads what core 0 has read. By itself it would have missed.
    program = [[Copy(True, 0, 0, 1, False)], [Copy(True, 0, 4, 4, False), Copy(True, 0, 0, 1, False)]]
    numbers = {"memory_rate": 16 * 1.65, "hbm.attainable": 1.0, "gm.GM-UB.miss_latency": 700}
    card = load_card("atlas_350", {**ROUND, **numbers})
    for contention in (True, False):
        c = play(program, card, contention).columns
        last = int(c.gm[np.flatnonzero(c.core[c.gm[:, 0]] == 1)[-1], 0])
        assert (c.end - c.free)[last] == 100 * 256


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def late(x: asc.GlobalAddress, n: asc.ConstExpr[int]):
    """Copies, then one more from another place if the first one took long."""
    asc.data_copy(ub(x.dtype, 0, n), gm(x, asc.get_block_idx() * n), n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if int(asc.get_system_cycle()) > 700:
        asc.data_copy(ub(x.dtype, 0, n), gm(x, 0), n)
    else:
        asc.data_copy(ub(x.dtype, 0, n), gm(x, n), n)
        asc.data_copy(ub(x.dtype, 0, n), gm(x, n), n)


def test_a_kernel_that_decides_by_time_is_looked_up_anew() -> None:
    # 4096 B a core at 8 B per cycle for all: 2048 cycles (1241 of the 1 GHz counter), alone 512 (310).
    run = simulate(late, np.zeros(4 * 1024, np.float32), 1024, blocks=4, contention=False,
                   overrides={"memory_rate": 8 * 1.65, "hbm.attainable": 1.0})  # fmt: skip
    assert run.contention is not None
    assert [len(rows(run, Pipe.MTE2, core)) for core in range(4)] == [3] * 4
    assert run.contention.fresh == 4 * 2  # the second copies are at another address, of the third there is no record


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def double(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, 64)
    asc.data_copy(tile, gm(x), 64)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.add(tile, tile, tile, 64)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(gm(x), tile, 64)


def test_a_kernel_that_works_in_place_is_applied_once() -> None:
    x = np.arange(64, dtype=np.float32)
    simulate(double, x, contention=False)
    assert np.array_equal(x, 2 * np.arange(64))


def test_a_kernel_that_fails_leaves_the_input_alone() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def stuck(x: asc.GlobalAddress):
        asc.data_copy(gm(x), ub(x.dtype, 0, 64), 64)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)

    x = np.arange(64, dtype=np.float32)
    with pytest.raises(asc.DeadlockError):
        simulate(stuck, x, contention=False)
    assert np.array_equal(x, np.arange(64))


@pytest.mark.parametrize("name", ["nddma_moves", "mix_gemm_add", "matmul"])
def test_scenarios_replay_every_transfer(name: str) -> None:
    """NDDMA asks L2 for what its own cache missed; mix kernels and Fixpipe have lanes of their own."""
    scenario = load_scenario(name)
    shared, alone = (
        scenario.run(load_card("atlas_350"), scenario.parse([]), Options(contention=contention))[0]
        for contention in (True, False)
    )
    assert alone.correct is True
    assert alone.contention is not None
    assert alone.contention.fresh == 0
    assert np.all(alone.columns.core_end <= shared.columns.core_end)
    assert alone.columns.counters == shared.columns.counters
