"""Streaming Add: right whatever the sizes, placed where the published kernels place it, and torn without its flags."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.scenario import load_scenario
from tests.scenarios.running import CARDS, EVEN, cycles, rows, scenario

ADD = load_scenario("add").module


# ---- when the next load begins --------------------------------------------------------------------------------------
def loads_before_the_store_is_done(**parameters: Any) -> list[bool]:
    """For each tile but the first on core 0: its first load starts before the store of the tile before it is complete."""
    run, _ = scenario("add", "atlas_a2", rows=8, cols=4096, tile=4096, double_buffer=False, **parameters)
    c = run.columns
    loads, stores = rows(run, Pipe.MTE2)[::2], rows(run, Pipe.MTE3)
    return [bool(c.start[load] < c.end[store]) for load, store in zip(loads[1:], stores, strict=False)]


def test_one_core_loads_while_it_stores() -> None:
    assert loads_before_the_store_is_done(blocks=1) == [True] * 7


def test_several_cores_load_behind_the_store_as_the_published_kernels_do() -> None:
    assert loads_before_the_store_is_done(blocks=2) == [False] * 3


@pytest.mark.parametrize(("next_load", "early"), [("behind_add", True), ("behind_store", False)])
def test_the_parameter_decides(next_load: str, early: bool) -> None:
    assert loads_before_the_store_is_done(blocks=2, next_load=next_load) == [early] * 3
    assert loads_before_the_store_is_done(blocks=1, next_load=next_load) == [early] * 7


# ---- results --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("double_buffer", [False, True])
@pytest.mark.parametrize("style", ["flags", "queue"])
@pytest.mark.parametrize("card", CARDS)
def test_both_styles_are_right_on_every_card(card: str, style: str, double_buffer: bool) -> None:
    # 5 rows of 104 over two cores: 3 and 2 rows, tiles of 64 with a tail of 56 and of 16.
    blocks = 1 if card == "atlas_200i" else 2
    run, job = scenario("add", card, rows=5, cols=104, tile=64, blocks=blocks, style=style, double_buffer=double_buffer)
    x, y, z = job.args[:3]
    assert run.correct is True
    assert np.array_equal(z, x + y) and np.any(z)


@settings(max_examples=15)
@given(
    rows=st.integers(1, 9), cols=st.integers(1, 70), tile=st.sampled_from([16, 48, 160]), blocks=st.integers(1, 5),
    style=st.sampled_from(["flags", "queue"]), double_buffer=st.booleans(), card=st.sampled_from(["atlas_a2", "atlas_350"]),
)  # fmt: skip
def test_any_size_is_right_tails_of_any_length_included(**parameters: Any) -> None:
    card = parameters.pop("card")
    assert scenario("add", card, **parameters)[0].correct is True


def test_cores_without_rows_do_nothing() -> None:
    run, _ = scenario("add", rows=1, cols=64, tile=16, blocks=3)
    assert run.correct is True
    assert [len(rows(run, Pipe.MTE2, core)) for core in range(3)] == [8, 0, 0]


def test_rows_that_do_not_divide_go_to_the_first_cores() -> None:
    run, _ = scenario("add", rows=8, cols=16, tile=16, blocks=3)
    assert [len(rows(run, Pipe.V, core)) for core in range(3)] == [3, 3, 2]


def test_queues_and_flags_move_the_same_bytes_with_the_same_instructions() -> None:
    counts = []
    for style in ("flags", "queue"):
        run, _ = scenario("add", rows=4, cols=200, tile=96, blocks=1, style=style)
        counts.append([len(rows(run, pipe)) for pipe in (Pipe.MTE2, Pipe.V, Pipe.MTE3)])
    assert counts[0] == counts[1] == [18, 9, 9]


# ---- placement ------------------------------------------------------------------------------------------------------
def test_published_placements() -> None:
    a2, a350 = load_card("atlas_a2"), load_card("atlas_350")
    assert vars(ADD.place(a2, 32768, True, False)) == {"x": (0, 98304), "y": (32768, 131072), "z": (65536, 163840)}
    assert vars(ADD.place(a2, 8192, False, False)) == {"x": (0,), "y": (32768,), "z": (65536,)}
    assert vars(ADD.place(a2, 32512, True, True)) == {"x": (0, 65536), "y": (32512, 98048), "z": (131072, 163584)}
    assert vars(ADD.place(a350, 43520, True, False)) == {"x": (0, 131040), "y": (43680, 174720), "z": (87360, 218400)}


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("bank_offset", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("nbytes", [32, 4096, 20000 // 32 * 32, 32512])
def test_tiles_are_apart_and_inside_ub(card: str, bank_offset: bool, double: bool, nbytes: int) -> None:
    loaded = load_card(card)
    layout = ADD.place(loaded, nbytes, double, bank_offset)
    starts = sorted(layout.x + layout.y + layout.z)
    assert len(starts) == (6 if double else 3)
    assert all(start % 32 == 0 for start in starts)
    assert all(b - a >= nbytes for a, b in pairwise(starts))
    assert starts[-1] + nbytes <= loaded.value("buffers.UB.size")
    if bank_offset:  # half a period of the bank groups between the two sources
        assert {(y - x) % 512 for x, y in zip(layout.x, layout.y, strict=True)} == {256}


def test_tiles_that_do_not_fit_are_refused_before_the_run() -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("add", "atlas_a2", tile=16400, double_buffer=True)
    assert caught.value.field == "tile" and "16384" in str(caught.value.allowed)
    scenario("add", "atlas_a2", rows=1, cols=64, blocks=1, tile=32768, double_buffer=False)  # 3 x 64 KB fill UB


def test_queues_leave_less_of_ub() -> None:
    with pytest.raises(CapacityError, match="InitBuffer"):
        scenario("add", "atlas_a2", rows=1, cols=64, blocks=1, tile=16384, style="queue")


@pytest.mark.parametrize(("card", "hint"), [("atlas_200i", "disable"), ("atlas_a2", "notalloc_keep")])
def test_hints_that_a_card_lacks_are_refused(card: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match="l2_inputs"):
        scenario("add", card, l2_inputs=hint)


def test_bypassed_inputs_do_not_stay_in_l2() -> None:
    # Three launches' worth of one array each: only z is left to hit when the inputs bypass.
    run, _ = scenario("add", rows=2, cols=1024, tile=1024, blocks=1, l2_inputs="disable")
    assert run.trace.bandwidth().set_index("path").loc["GM-UB", "hit_share"] == 0.0


@pytest.mark.parametrize("field", ["rows", "cols", "tile"])
def test_sizes_below_one_are_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        scenario("add", "atlas_350", True, None, **{field: 0})


def test_published_runs_carry_their_measured_values() -> None:
    loaded = load_scenario("add")
    p = loaded.parse(["rows=8192", "cols=8192", "tile=16384", "double_buffer=true", "l2_inputs=disable", "blocks=48"])
    job = loaded.build(load_card("atlas_a2:Ascend910B1"), p, False)
    assert {m.metric: m.value for m in job.measured} == {
        "time_us": 187.68, "pipes.aiv.MTE2.time_us": 175.997, "pipes.aiv.MTE3.time_us": 160.291}  # fmt: skip
    assert loaded.build(load_card("atlas_a2:Ascend910B2"), p, False).measured == ()


# ---- what the flags are for -----------------------------------------------------------------------------------------
@asc.jit
def add_once(
    x: asc.GlobalAddress, z: asc.GlobalAddress, n: asc.ConstExpr[int], wait_for_load: asc.ConstExpr[bool]
) -> None:
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    x_ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    z_ub = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, 65536, n)
    asc.duplicate(x_ub, 0.0, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(x_ub, x_gm, n)
    if wait_for_load:
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.add(z_ub, x_ub, x_ub, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(z_gm, z_ub, n)


@pytest.mark.parametrize("card", CARDS)
def test_without_mte2_v_the_sum_is_of_what_was_there_before(card: str) -> None:
    n = 8192
    x = np.arange(1, n + 1, dtype=np.float32)
    results = {}
    for flag in (True, False):
        z = np.zeros_like(x)
        asc.simulate(add_once, x, z, n, flag, card=card)
        results[flag] = z
    assert np.array_equal(results[True], 2 * x)
    wrong = results[False] != 2 * x
    assert wrong.any()
    assert np.all(np.isin(results[False][wrong], [0.0])), "old bytes or new ones, nothing else"


# ---- overlap --------------------------------------------------------------------------------------------------------
@asc.jit
def load_and_add(
    x: asc.GlobalAddress, n: asc.ConstExpr[int], sets: asc.ConstExpr[int], tiles: asc.ConstExpr[int]
) -> None:
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, k * n * 4, n) for k in range(sets)]
    out = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, 65536, n)
    for i in range(tiles):
        k = i % sets
        if i >= sets:
            asc.wait_flag(asc.HardEvent.V_MTE2, k)
        asc.data_copy(ub[k], x_gm[i * n], n)
        asc.set_flag(asc.HardEvent.MTE2_V, k)
        asc.wait_flag(asc.HardEvent.MTE2_V, k)
        asc.add(out, ub[k], ub[k], n)
        asc.set_flag(asc.HardEvent.V_MTE2, k)


@pytest.mark.parametrize(("vector_rate", "add_cycles"), [(64, 48), (16, 192)])
def test_double_buffering_hides_exactly_the_shorter_stage(vector_rate: int, add_cycles: int) -> None:
    # 3072 B: 96 cycles to load at 32 B/cycle; 12 repeats of 256 B for the Add.
    numbers = {**EVEN, "gm.GM-UB.port_rate": 32, "gm.GM-UB.latency": 0, "vector.bytes_per_cycle": vector_rate}
    tiles = 10
    length = {}
    for sets in (1, 2):
        run = asc.simulate(load_and_add, asc.GmSpec((tiles * 768,), asc.float32), 768, sets, tiles, card="atlas_350",
                           data=False, overrides=numbers)  # fmt: skip
        length[sets] = run.cycles
        pitch = 96 + add_cycles if sets == 1 else max(96, add_cycles)
        assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.V)])) == pitch)
    assert length[1] - length[2] == (tiles - 1) * min(96, add_cycles)
