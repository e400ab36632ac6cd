"""The lower bound of a run: which resource and how long, by hand; and that no run is ever below it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.bound import demands
from aicore_sim.cards import load_card
from aicore_sim.errors import AiCoreError
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario, scenario_names
from tests.engine.engine_helpers import ROUND, gm, ub
from tests.engine.test_invariants import legal, numbers_strategy, program, start_values, steps_strategy
from tests.scenarios.running import CARDS

CLOCK = 1.65
"""GHz of atlas_350: bytes per cycle times CLOCK are GB/s."""
N = 1024
"""float32 elements of a copy: 4096 B, 128 cycles through a port of 32 B per cycle."""


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def copies(x: asc.GlobalAddress, times: asc.ConstExpr[int], same: asc.ConstExpr[bool], store: asc.ConstExpr[bool]):
    """`times` copies by every block, each of its own piece of x or all of the first."""
    first = int(asc.get_block_idx()) * times
    for i in range(times):
        there = gm(x, 0 if same else (first + i) * N)
        if store:
            asc.data_copy(there, ub(x.dtype, 0, N), N)
        else:
            asc.data_copy(ub(x.dtype, 0, N), there, N)


def run(times: int, blocks: int = 1, same: bool = False, store: bool = False, **options: Any) -> Run:
    overrides = {**ROUND, **options.pop("overrides", {})}
    spec = asc.GmSpec((times * blocks * N,), asc.float32)
    return asc.simulate(copies, spec, times, same, store, blocks=blocks, data=False, card="atlas_350",
                        overrides=overrides, **options)  # fmt: skip


def bound(run: Run) -> tuple[float, str | None]:
    """In cycles."""
    return run.lower_bound.us * run.card.clock_mhz, run.lower_bound.by


def test_a_port_takes_its_bytes_one_after_another() -> None:
    # 5 x 128 cycles through the port; issue costs, latency and the price of a run do not count.
    done = run(5, overrides={"gm.GM-UB.latency": 900, "gm.GM-UB.row": 50, "gm.GM-UB.issue": 20})
    assert bound(done) == (pytest.approx(640), "aiv.MTE2 port")
    assert done.cycles == 10 + 5 * (128 + 50) + 900


def test_the_busiest_core_counts_not_the_sum() -> None:
    assert bound(run(5, blocks=8)) == (pytest.approx(640), "aiv.MTE2 port")


def test_memory_takes_what_missed() -> None:
    # 4 cores x 5 x 4096 B at 64 B per cycle; the same bytes again and again come from L2.
    slow = {"memory_rate": 64 * CLOCK, "hbm.attainable": 1.0}
    assert bound(run(5, 4, overrides=slow)) == (pytest.approx(4 * 5 * 64), "memory")
    assert bound(run(5, 4, same=True, overrides=slow)) == (pytest.approx(640), "aiv.MTE2 port")


def test_memory_takes_what_is_written_back() -> None:
    # An L2 of 8 lines keeps 4096 B; 8 stores of 4096 B push 7 of them out.
    tiny = {"memory_rate": 1 * CLOCK, "hbm.attainable": 1.0, "l2_bytes": 4096, "l2.ways": 8}
    assert bound(run(8, store=True, overrides=tiny)) == (pytest.approx(7 * 4096), "memory")


@pytest.mark.parametrize("store", [False, True])
def test_l2_takes_all_that_is_asked_of_it(store: bool) -> None:
    key = "l2.write_rate" if store else "l2.read_rate"
    done = run(5, 4, same=True, store=store, overrides={key: 16 * CLOCK})
    assert bound(done) == (pytest.approx(4 * 5 * 256), "l2 write" if store else "l2 read")


def test_many_instructions_take_their_issue() -> None:
    # 6 copies at 200 cycles each to issue, whatever they move.
    assert bound(run(6, overrides={"scalar.issue": 200})) == (1200, "issue")


def test_cube_and_vector_by_their_rates() -> None:
    # 128 x 128 x 128 half in steps of 16 x 16 x 16: 512 for each Mmad.
    scenario = load_scenario("mmad_stream")
    done, _ = scenario.run(load_card("atlas_a2"), scenario.parse(["m=128", "n=128", "k=128", "count=7"]),
                           Options(data=False))  # fmt: skip
    assert bound(done) == (pytest.approx(7 * 512), "aic.M")

    @asc.jit
    def adds(x: asc.GlobalAddress):
        for _ in range(3):
            asc.add(ub(x.dtype, 0, N), ub(x.dtype, 0, N), ub(x.dtype, 0, N), N)

    x = np.zeros(N, np.float32)
    done = asc.simulate(adds, x, data=False, card="atlas_350", overrides={**ROUND, "scalar.issue": 1})
    assert bound(done) == (3 * 16, "aiv.V")  # 4096 B at 256 B per cycle


def test_nothing_to_do_has_no_bound() -> None:
    @asc.jit
    def empty(x: asc.GlobalAddress):
        pass

    done = asc.simulate(empty, np.zeros(8, np.float32), card="atlas_350")
    assert bound(done) == (0, None)


def test_without_contention_pipes_do_not_share_memory() -> None:
    # 8 cores x 5 copies at 16 B per cycle: 2560 cycles each alone, eight times that together.
    slow = {"memory_rate": 16 * CLOCK, "hbm.attainable": 1.0}
    assert bound(run(5, 8, overrides=slow)) == (pytest.approx(8 * 5 * 256), "memory")
    alone = run(5, 8, contention=False, overrides=slow)
    assert bound(alone) == (pytest.approx(5 * 256), "memory")
    assert alone.cycles == pytest.approx(10 + 5 * 256 + 100, rel=1e-4)


def test_small_works_do_not_add_up_their_roundings() -> None:
    # 4096 B at 33.9 B per cycle are 30931.4 ticks, simulated as 30931: a hundred of them would be 44 ticks too many.
    done = run(100, overrides={"gm.GM-UB.port_rate": 33.9})
    ticks = demands(done.columns, done.card)["aiv.MTE2 port"]
    assert ticks == 100 * 30931
    assert done.lower_bound.us <= done.trace.length_us


# ---- never above the time ---------------------------------------------------------------------------------------------


@given(steps_strategy, numbers_strategy, st.sampled_from(["atlas_350", "atlas_a2", "atlas_a3"]), st.integers(1, 4),
       st.booleans())  # fmt: skip
def test_no_program_is_faster_than_its_bound(
    steps: list[Any], numbers: dict[str, object], card: str, blocks: int, contention: bool
) -> None:
    done = asc.simulate(program, start_values(blocks), legal(steps), blocks=blocks, card=card, data=False,
                        contention=contention, overrides={**ROUND, **numbers})  # fmt: skip
    assert 0 < done.lower_bound.us <= done.trace.length_us <= done.time_us


odd = st.fixed_dictionaries({}, optional={
    "memory_rate": st.floats(1, 2000), "l2.read_rate": st.floats(1, 9000), "l2.write_rate": st.floats(1, 9000),
    "gm.GM-UB.port_rate": st.floats(0.5, 700), "gm.UB-GM.port_rate": st.floats(0.5, 700),
    "vector.bytes_per_cycle": st.floats(1, 700), "scalar.issue": st.floats(0, 60), "l2_bytes": st.integers(1024, 9000),
    "gm.GM-UB.issue": st.floats(0, 50), "vector.issue_min": st.floats(0, 5), "clock_mhz": st.floats(100, 3000),
})  # fmt: skip


@given(steps_strategy, odd, st.sampled_from(CARDS), st.integers(1, 4))
def test_no_override_breaks_the_bound(steps: list[Any], numbers: dict[str, object], card: str, blocks: int) -> None:
    kernel = program if card != "atlas_200i" else asc.jit(program.fn)
    blocks = blocks if card != "atlas_200i" else 1
    done = asc.simulate(kernel, start_values(blocks), legal(steps), blocks=blocks, card=card, data=False,
                        overrides=numbers)  # fmt: skip
    assert 0 < done.lower_bound.us <= done.trace.length_us


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", scenario_names())
def test_no_scenario_is_faster_than_its_bound(name: str, card: str) -> None:
    scenario = load_scenario(name)
    words = ["form=right"] if name == "flag_deadlock" else []
    try:
        done, _ = scenario.run(load_card(card), scenario.parse(words), Options(data=False))
    except AiCoreError:
        assert card != "atlas_350"  # the card that offers everything
        return
    if not done.instructions:  # an empty kernel: nothing to do, and the starts of its blocks are no work
        assert (done.lower_bound.us, done.lower_bound.by) == (0, None)
        return
    assert 0 < done.lower_bound.us <= done.trace.length_us
    assert done.lower_bound.by is not None
