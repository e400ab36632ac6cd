"""Max-min fair sharing of L2 and memory: who gets how much, until when - by hand, and against exact water-filling.

Rates are bytes per tick, times ticks. Unless a test says otherwise, L2 moves 1000 B per tick in each direction and memory 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.engine.columns import Cause
from aicore_sim.engine.sharing import SharedBandwidth
from aicore_sim.instructions.base import Pipe
from tests.engine.engine_helpers import TICKS, gm, simulate, ub, work

PORT, L2, HBM = 0, 1, 2


@dataclass(frozen=True)
class Flow:
    """`nbytes` from tick `at` on; alone in `private` ticks; `l2` and `memory` bytes of traffic (defaults: all, none)."""

    nbytes: int
    private: int
    at: int = 0
    read: bool = True
    l2: int | None = None
    memory: int = 0


@dataclass(frozen=True)
class End:
    tick: int
    spent: tuple[int, int, int]


def play(
    flows: Sequence[Flow], l2_read: float = 1000, l2_write: float = 1000, memory: float = 10, contention: bool = True
) -> list[End]:
    """End and time at each limit (port, L2, memory) of every flow."""
    env = simpy.Environment()
    shared = SharedBandwidth(env, l2_read, l2_write, memory, contention)
    ends: dict[int, End] = {}

    def one(index: int, flow: Flow) -> object:
        yield env.timeout(flow.at)
        l2 = flow.nbytes if flow.l2 is None else flow.l2

        def over(spent: tuple[int, int, int]) -> None:
            ends[index] = End(int(env.now), spent)

        shared.start(flow.nbytes, flow.private, flow.read, l2, flow.memory, over)

    for index, flow in enumerate(flows):
        env.process(one(index, flow))  # type: ignore[arg-type]
    env.run()
    return [ends[i] for i in range(len(flows))]


def miss(nbytes: int, private: int, at: int = 0, read: bool = True) -> Flow:
    return Flow(nbytes, private, at, read, None, nbytes)


# ---- by hand --------------------------------------------------------------------------------------------------------
def test_a_flow_alone_runs_at_its_port() -> None:
    assert play([Flow(1000, 50)]) == [End(50, (50, 0, 0))]


def test_a_flow_alone_is_held_by_the_slower_of_l2_and_memory() -> None:
    assert play([miss(1000, 50)]) == [End(100, (0, 0, 100))]
    assert play([miss(1000, 50)], l2_read=4) == [End(250, (0, 250, 0))]


def test_two_on_one_memory_get_half_each() -> None:
    assert play([miss(1000, 10), miss(1000, 10)]) == [End(200, (0, 0, 200))] * 2


def test_what_a_slow_port_leaves_goes_to_the_other() -> None:
    # 2 B a tick through the port of the first, 8 for the second until it ends; nobody could use more afterwards.
    assert play([miss(1000, 500), miss(1000, 10)]) == [End(500, (500, 0, 0)), End(125, (0, 0, 125))]


def test_hits_take_the_l2_that_misses_cannot_use() -> None:
    # Memory holds the two misses at 5 each; of the 30 of L2 that leaves 10 for each of the hits.
    ends = play([miss(1000, 10), miss(1000, 10), Flow(1000, 10), Flow(1000, 10)], l2_read=30)
    assert ends[2:] == [End(100, (0, 100, 0))] * 2
    assert ends[:2] == [End(200, (0, 0, 200))] * 2


def test_a_transfer_uses_memory_with_its_missed_share_only() -> None:
    # One byte in four missed: 10 B of memory a tick carry 40 B of the transfer.
    assert play([Flow(1000, 10, memory=250)]) == [End(25, (0, 0, 25))]


def test_short_rows_cost_l2_whole_access_units() -> None:
    # Rows of 128 B in units of 512 B: four times their bytes of L2.
    assert play([Flow(1000, 10, l2=4000)], l2_read=100) == [End(40, (0, 40, 0))]


def test_reads_and_writes_have_their_own_l2_rates_but_share_memory() -> None:
    assert play([Flow(1000, 10), Flow(1000, 10, read=False)], l2_read=20, l2_write=50) == [
        End(50, (0, 50, 0)), End(20, (0, 20, 0)),
    ]  # fmt: skip
    assert play([miss(1000, 10), miss(1000, 10, read=False)]) == [End(200, (0, 0, 200))] * 2


def test_a_late_joiner_shares_from_then_on() -> None:
    # The first moves 500 B alone until 50. Then 5 each: it ends at 150; the second has moved 500 and needs 50 more alone.
    assert play([miss(1000, 10), miss(1000, 10, at=50)]) == [End(150, (0, 0, 150)), End(200, (0, 0, 150))]


def test_a_flow_can_change_its_limit() -> None:
    # Port 8 B a tick. With the other it gets 5 of memory until that one ends at 40; then the port limits it.
    assert play([miss(1000, 125), miss(200, 10)]) == [End(40 + 100, (100, 0, 40)), End(40, (0, 0, 40))]


def test_ends_are_rounded_up_to_whole_ticks() -> None:
    # 1000 / 3 = 333.3; the bytes of the last third of a tick are not there at 333.
    assert play([miss(1000, 10)], memory=3)[0].tick == 334
    # Two at 1.5 each: 666.7.
    assert [end.tick for end in play([miss(1000, 10), miss(1000, 10)], memory=3)] == [667, 667]


def test_without_contention_everyone_is_alone() -> None:
    flows = [miss(1000, 10), miss(1000, 500), Flow(1000, 10), miss(777, 10, at=13)]
    together = play(flows, l2_read=30, contention=False)
    assert together == [play([flow], l2_read=30)[0] for flow in flows]


def test_many_equal_flows_in_and_out() -> None:
    # More than the table first has room for.
    assert play([miss(100, 1)] * 200) == [End(2000, (0, 0, 2000))] * 200


# ---- against exact water-filling ------------------------------------------------------------------------------------
def fair_rates(flows: Sequence[Flow], capacities: tuple[int, int, int]) -> list[Fraction]:
    """Max-min fair rates: freeze whoever the lowest water level stops, until nobody is left."""

    def use(flow: Flow) -> tuple[Fraction, ...]:
        l2 = Fraction(flow.nbytes if flow.l2 is None else flow.l2, flow.nbytes)
        return (l2 if flow.read else Fraction(0), Fraction(0) if flow.read else l2, Fraction(flow.memory, flow.nbytes))

    rates: dict[int, Fraction] = {}
    while len(rates) < len(flows):
        still = [i for i in range(len(flows)) if i not in rates]
        levels = [(Fraction(flows[i].nbytes, flows[i].private), [i]) for i in still]
        for r, capacity in enumerate(capacities):
            users = [i for i in still if use(flows[i])[r] > 0]
            if users:
                left = capacity - sum(rates[i] * use(flows[i])[r] for i in rates)
                levels.append((left / sum(use(flows[i])[r] for i in users), users))
        lowest = min(level for level, _ in levels)
        for level, stopped in levels:
            if level == lowest:
                rates.update(dict.fromkeys(stopped, lowest))
    return [rates[i] for i in range(len(flows))]


def slow_play(flows: Sequence[Flow], capacities: tuple[int, int, int]) -> list[int]:
    """End ticks, in exact arithmetic, with rates worked out anew at every tick at which something starts or ends."""
    left = [Fraction(flow.nbytes) for flow in flows]
    ends: dict[int, int] = {}
    now = 0
    while len(ends) < len(flows):
        live = [i for i, flow in enumerate(flows) if flow.at <= now and i not in ends]
        coming = [flow.at for flow in flows if flow.at > now]
        rates = dict(zip(live, fair_rates([flows[i] for i in live], capacities), strict=True))
        steps = [now + math.ceil(left[i] / rates[i]) for i in live] + coming
        then = min(steps)
        for i in live:
            left[i] -= rates[i] * (then - now)
            if left[i] <= 0:
                ends[i] = then
        now = then
    return [ends[i] for i in range(len(flows))]


flow_strategy = st.builds(
    lambda nbytes, private, at, read, l2, memory: Flow(nbytes, private, at, read, nbytes * l2, nbytes * memory // 4),
    st.integers(1, 3000), st.integers(1, 400), st.integers(0, 300), st.booleans(), st.integers(0, 4), st.integers(0, 4),
)  # fmt: skip
flow_lists = st.lists(flow_strategy, min_size=1, max_size=8)
rates_strategy = st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30))


@given(flow_lists, rates_strategy)
def test_any_set_of_flows_agrees_with_exact_water_filling(flows: list[Flow], capacities: tuple[int, int, int]) -> None:
    found = [end.tick for end in play(flows, *capacities)]
    exact = slow_play(flows, capacities)
    # An end that falls within a millionth of a tick may be rounded to the tick before, and shift those behind it.
    assert all(abs(a - b) <= 1 for a, b in zip(found, exact, strict=True))


@given(flow_lists, rates_strategy)
def test_times_at_limits_sum_to_the_duration(flows: list[Flow], capacities: tuple[int, int, int]) -> None:
    for flow, end in zip(flows, play(flows, *capacities), strict=True):
        assert abs(sum(end.spent) - (end.tick - flow.at)) <= 1  # three roundings


@given(flow_lists, rates_strategy)
def test_removing_contention_ends_nobody_later(flows: list[Flow], capacities: tuple[int, int, int]) -> None:
    shared, alone = play(flows, *capacities), play(flows, *capacities, contention=False)
    assert all(b.tick <= a.tick for a, b in zip(shared, alone, strict=True))


@given(flow_lists, rates_strategy)
def test_the_same_flows_end_the_same_way(flows: list[Flow], capacities: tuple[int, int, int]) -> None:
    assert play(flows, *capacities) == play(flows, *capacities)


@given(flow_lists, rates_strategy, st.randoms(use_true_random=False))
def test_the_order_in_which_flows_are_registered_does_not_matter(
    flows: list[Flow], capacities: tuple[int, int, int], random: Random
) -> None:
    order = list(range(len(flows)))
    random.shuffle(order)
    plain = [end.tick for end in play(flows, *capacities)]
    mixed = [end.tick for end in play([flows[i] for i in order], *capacities)]
    assert all(abs(mixed[k] - plain[i]) <= 1 for k, i in enumerate(order))


# ---- in a run -------------------------------------------------------------------------------------------------------
N = 1024
CLOCK = 1.65
"""GHz of the card: bytes per cycle times CLOCK are GB/s."""


@asc.jit
def one_load(x: asc.GlobalAddress):
    asc.data_copy(ub(x.dtype, 0, N), gm(x, asc.get_block_idx() * N), N)


@pytest.mark.parametrize("contention", [True, False])
def test_cores_share_memory_that_carries_two_of_them(contention: bool) -> None:
    # Memory 64 B per cycle, four ports of 32: half speed for each, 256 cycles instead of 128.
    run = simulate(one_load, np.zeros(4 * N, np.float32), blocks=4, contention=contention,
                   overrides={"memory_rate": 64 * CLOCK, "hbm.attainable": 1})  # fmt: skip
    for core in range(4):
        (row,) = work(run, Pipe.MTE2, core)
        assert row.times == ((10, 266, 366) if contention else (10, 138, 238))
    cause = Cause.BW_HBM if contention else Cause.BW_PORT
    assert np.all(run.columns.gm[:, 1 + cause - Cause.BW_PORT] == (256 if contention else 128) * TICKS)


def test_cores_that_read_the_same_bytes_share_the_first_ones_miss() -> None:
    # All four start at once and look L2 up in core order: the first misses, the others hit and take L2 only.
    @asc.jit
    def same(x: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)

    run = simulate(same, np.zeros(N, np.float32), blocks=4,
                   overrides={"memory_rate": 16 * CLOCK, "hbm.attainable": 1, "l2.read_rate": 80 * CLOCK})  # fmt: skip
    assert run.columns.gm[:, 5].tolist().count(4096) == 3
    # 16 B a cycle for the one that misses; of the 80 of L2 the others get 64 / 3 each, 192 cycles; it needs 256.
    frees = sorted(row.free - row.start for core in range(4) for row in work(run, Pipe.MTE2, core))
    assert frees == [192, 192, 192, 256]
