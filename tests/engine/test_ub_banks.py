"""Bank conflicts in UB: each rule of the specification's section 10 alone, and what they do to a run."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.ub_banks import BankWaits, UbBanks, of_card
from aicore_sim.instructions.base import Op, Pipe, VectorWork
from aicore_sim.instructions.ub_access import UbAccess, access_of, lines
from aicore_sim.launch import simulate


def banks(card: str, **overrides: Any) -> UbBanks:
    found = of_card(load_card(card, {f"ub_banks.{name}": value for name, value in overrides.items()}))
    assert found is not None
    return found


A2, A5 = banks("atlas_a2"), banks("atlas_350")
FAR = 0x20000
"""Bank 2 on A2."""


def two(repeats: int, **strides: tuple[int, int]) -> UbAccess:
    """dst, src0, src1 with (block stride, repeat stride) in 32 B, contiguous unless given."""
    dst, src0, src1 = ((256, block * 32, repeat * 32) for block, repeat in
                       (strides.get(name, (1, 8)) for name in ("dst", "src0", "src1")))  # fmt: skip
    return access_of(repeats, dst, {1: src0, 2: src1})


def one(repeats: int, dst: tuple[int, int] = (1, 8), src: tuple[int, int] = (1, 8)) -> UbAccess:
    return access_of(repeats, (256, dst[0] * 32, dst[1] * 32), {1: (256, src[0] * 32, src[1] * 32)})


# ---- 2201: 16 groups of 3 banks; group = address / 32 mod 16, bank = address / 64 K ---------------------------------
def test_sources_in_the_two_halves_of_the_groups_move_together() -> None:
    # Groups 0-7 and 8-15, and the other way round in the next repeat; the result goes to a third bank.
    assert A2.cycles(two(64), (FAR, 0, 0x10100)) == 64


@pytest.mark.parametrize("src1", [0x4000, 0x10000], ids=["same bank", "same group, other bank"])
def test_two_reads_in_a_group_take_two_cycles_on_2201(src1: int) -> None:
    assert A2.cycles(two(64), (FAR, 0, src1)) == 128


def test_one_common_group_is_enough_on_2201() -> None:
    # src1 starts at group 7: 7 of its groups are free of src0 (0-7) in each repeat, one is not.
    assert A2.cycles(two(10), (FAR, 0, 0x100E0)) == 20


@pytest.mark.parametrize(("stride", "cycles"), [(1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (17, 1), (144, 8), (145, 1)])
@pytest.mark.parametrize("which", ["dst", "src"])
def test_blocks_of_a_repeat_in_one_group_come_one_by_one_on_2201(which: str, stride: int, cycles: int) -> None:
    # Source and destination in different banks; eight blocks `stride` groups apart over 16 groups.
    access = one(20, **{which: (stride, 0)})
    assert A2.cycles(access, (FAR, 0)) == 20 * cycles


def test_a_source_block_read_eight_times_is_one_read() -> None:
    assert A2.cycles(one(20, src=(0, 8)), (FAR, 0)) == 20


def test_a_destination_one_repeat_behind_its_source_is_hidden_on_2201() -> None:
    # Same bank, same groups: the write comes an odd number of repeats later, in the other half of the groups.
    assert A2.cycles(two(64), (0x4000, 0, 0x10100)) == 64


@pytest.mark.parametrize("dst", [0, 0x10100], ids=["over src0", "over src1"])
def test_an_exact_overlay_is_free_on_2201(dst: int) -> None:
    assert A2.cycles(two(64), (dst, 0, 0x10100)) == 64


def test_reads_and_writes_of_a_bank_that_always_meet_on_2201() -> None:
    # Both stay in groups 0-7 of bank 0, whatever the repeat: 17 reads, their 17 writes, 17 reads, 17 writes, less the 17
    # cycles until the first result that every instruction has.
    assert A2.cycles(one(34, dst=(1, 16), src=(1, 16)), (0x4000, 0)) == 68 - 17
    # In another bank of the group, or other groups, they do not meet.
    assert A2.cycles(one(34, dst=(1, 16), src=(1, 16)), (FAR, 0)) == 34
    assert A2.cycles(one(34, dst=(1, 16), src=(1, 16)), (0x4100, 0)) == 34


def test_a_short_instruction_ends_before_its_first_write_meets_a_read() -> None:
    assert A2.cycles(one(17, dst=(1, 16), src=(1, 16)), (0x4000, 0)) == 17


@pytest.mark.parametrize(("src0", "operands", "cycles"), [
    ((1, 8), (0x20000, 0, 0x10100), 88), ((1, 8), (0x10000, 0, 0x4000), 154), ((1, 8), (0x14100, 0, 0x10000), 154),
    ((1, 8), (0x4000, 0, 0x10100), 88), ((1, 8), (0x4020, 0, 0x10100), 139), ((1, 8), (0x10100, 0, 0x10100), 88),
    ((0, 1), (0x10100, 0, 0x10100), 133), ((0, 8), (0x10100, 0, 0x10100), 88),
])  # fmt: skip
def test_published_adds_of_64_repeats(src0: tuple[int, int], operands: tuple[int, int, int], cycles: int) -> None:
    # Published with the drain of 24 cycles; within 2 %.
    assert A2.cycles(two(64, src0=src0), operands) + 24 == pytest.approx(cycles, rel=0.02)


# ---- 3510: 8 groups of 2 banks; group = address / 32 mod 8, bank = address / 256 mod 2 ---------------------------------
def test_a_copy_between_the_two_banks_is_free_on_3510() -> None:
    assert A5.cycles(one(64), (0x4100, 0)) == 64


def test_an_overlay_is_not_free_on_3510() -> None:
    # Write 0 meets read 16 in cycle 17. The stall puts writes and reads into different banks, until the gap that it left
    # in the writes comes through, and so again in cycles 34 and 51.
    assert A5.cycles(one(64), (0, 0)) == A5.cycles(one(64), (0x4000, 0)) == 64 + 3
    assert A5.cycles(one(16), (0, 0)) == 16


def test_two_reads_in_two_banks_of_a_group_move_together_on_3510() -> None:
    assert A5.cycles(two(8), (0x4000, 0, 0x5100)) == 8
    # 2 reads fill the groups, so that none goes with a write: 16 repeats are read, 16 written, and so on.
    assert A5.cycles(two(64), (0xA000, 0, 0x5100)) == 2 * 64 - 16


def test_two_reads_in_one_bank_take_two_cycles_on_3510() -> None:
    assert A5.cycles(two(8), (0x4100, 0, 0x5000)) == 16


@pytest.mark.parametrize(("stride", "cycles"), [(1, 1), (4, 4), (8, 8), (144, 8), (145, 1)])
def test_writes_of_a_repeat_in_one_group_come_one_by_one_on_3510(stride: int, cycles: int) -> None:
    assert A5.cycles(one(10, dst=(stride, 0)), (0x100, 0)) == 10 * cycles


def test_reads_of_one_bank_come_one_by_one_on_3510() -> None:
    # Too few repeats for a write to come in between. 512 B apart: eight rows of one bank; 256 B: four in each bank of a
    # group; 128 B: two in each bank of two groups.
    for stride, cycles in ((16, 8), (8, 4), (4, 2)):
        assert A5.cycles(one(2, src=(stride, 8)), (0x100, 0)) == 2 * cycles


def test_equal_addresses_merge_on_3510() -> None:
    assert A5.cycles(two(8), (0x4100, 0, 0)) == 8  # the two sources of x + x
    assert A5.cycles(one(64, src=(0, 8)), (0x4100, 0)) == 64  # inside a repeat
    # Across repeats: read once, the writes have the banks to themselves; without merging they would meet the reads.
    assert A5.cycles(one(64, src=(1, 0)), (0x4100, 0)) == 64
    apart = UbBanks(A5.ports, A5.reads, A5.writes, A5.accesses, A5.delay, False, A5.splits, A5.period)
    assert apart.cycles(one(64, src=(1, 0)), (0x4100, 0)) > 64


# ---- properties -----------------------------------------------------------------------------------------------------
STRIDE = st.tuples(st.integers(0, 40), st.integers(0, 40))
ADDRESS = st.integers(0, 0x7FF).map(lambda block: block * 32)


@given(which=st.sampled_from([A2, A5, banks("atlas_200i")]), repeats=st.integers(1, 40), dst=STRIDE, src0=STRIDE, src1=STRIDE,
       offsets=st.tuples(ADDRESS, ADDRESS, ADDRESS), rounds=st.integers(1, 3))  # fmt: skip
def test_never_faster_than_a_repeat_a_cycle_and_the_same_one_period_on(
    which: UbBanks, repeats: int, dst: tuple[int, int], src0: tuple[int, int], src1: tuple[int, int],
    offsets: tuple[int, int, int], rounds: int,
) -> None:  # fmt: skip
    access = two(repeats, dst=dst, src0=src0, src1=src1)
    cycles = which.cycles(access, offsets)
    assert repeats <= cycles <= repeats * 24
    moved = tuple(offset + rounds * which.period for offset in offsets)
    assert which.cycles(access, moved) == cycles


@given(repeats=st.integers(1, 60), dst=STRIDE, offsets=st.tuples(ADDRESS, ADDRESS, ADDRESS), rows=st.integers(0, 60))
def test_what_is_remembered_for_a_pattern_holds_for_all_its_places(
    repeats: int, dst: tuple[int, int], offsets: tuple[int, int, int], rows: int
) -> None:
    access = two(repeats, dst=dst)
    op = Op("Add", Pipe.V, VectorWork("add", 32, 64 * repeats, repeats), access=access)
    op.index, op.occupy = 0, repeats * 256
    waits = BankWaits(A2)
    moved = tuple(offset + 512 * rows for offset in offsets)
    for place in (offsets, moved, offsets):
        assert waits.find(op, place) == (A2.cycles(access, place) - repeats) * 256 == waits.known[0, place]


# ---- in a run -------------------------------------------------------------------------------------------------------
@asc.jit
def adds_at(x: asc.GlobalAddress, z: asc.GlobalAddress, places: asc.ConstExpr, count: asc.ConstExpr[int]) -> None:
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    dst, src0, src1 = (asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, at, count) for at in places)
    asc.data_copy(src0, x_gm, count)
    asc.data_copy(src1, x_gm[count], count)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.add(dst, src0, src1, count)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(z_gm, dst, count)


@pytest.mark.parametrize("data", [True, False])
def test_a_conflict_holds_the_pipe_and_is_counted(data: bool) -> None:
    x = np.arange(8192, dtype=np.float32)
    lengths, results, counted = [], [], []
    for src1 in (0x10100, 0x10000):
        z = np.zeros(4096, np.float32)
        run = simulate(adds_at, x, z, (FAR, 0, src1), 4096, card="atlas_a2", data=data)
        row = int(np.flatnonzero((run.columns.pipe == int(Pipe.V)) & (run.columns.kind == 0))[0])
        lengths.append(int(run.columns.free[row] - run.columns.start[row]) // 256)
        counted.append(run.trace.counters.get("ub_bank_conflict_cycles", 0))
        results.append(z)
    assert lengths == [64, 128]
    assert counted == [0, 64]
    if data:
        assert all(np.array_equal(z, x[:4096] + x[4096:]) for z in results)


def test_slow_functions_hide_conflicts() -> None:
    @asc.jit
    def exps(x: asc.GlobalAddress) -> None:
        at = [asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, start, 4096) for start in (0, 0x4000)]
        asc.exp(at[1], at[0], 4096)

    # In place over one bank on 950 a copy would take 112 cycles; Exp of floats takes 4 a repeat anyway.
    run = simulate(exps, np.zeros(8, np.float32), card="atlas_350", data=False)
    assert "ub_bank_conflict_cycles" not in run.trace.counters


def test_cards_without_address_bits_charge_nothing() -> None:
    card = copy(load_card("atlas_a2"))  # loaded cards are shared
    plain = card.model.model_copy(update={"ub_banks": card.model.ub_banks.model_copy(update={"address_bits": {}})})
    object.__setattr__(card, "model", plain)
    assert of_card(card) is None


def test_operands_of_different_widths_take_their_own_blocks() -> None:
    # A Cast of half to float reads 128 B and writes 256 B in each repeat.
    access = lines(4, 256, {1: 128})
    assert [(lane.blocks, lane.repeat, lane.extent(4)) for lane in access.lanes] == [(4, 128, 512), (8, 256, 1024)]


# ---- the vector pipe's time -----------------------------------------------------------------------------------------
def test_the_vector_pipe_is_in_use_until_its_last_result_is_there() -> None:
    x = np.zeros(8192, np.float32)
    run = simulate(adds_at, x, np.zeros(4096, np.float32), (FAR, 0, 0x10100), 4096, card="atlas_a2", data=False)
    assert run.trace.pipes()["aiv"]["V"]["time_us"] == pytest.approx((64 + 24) / run.card.clock_mhz)


def test_a_stream_pays_the_drain_once() -> None:
    @asc.jit
    def streams(x: asc.GlobalAddress) -> None:
        for k in range(4):
            asc.duplicate(asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 4096 * k, 1024), 0.0, 1024)

    run = simulate(streams, np.zeros(8, np.float32), card="atlas_a2", data=False)
    assert run.trace.pipes()["aiv"]["V"]["time_us"] == pytest.approx((4 * 16 + 24) / run.card.clock_mhz)
