"""Launches: which cores take part, what a block is told about itself, and how blocks beyond the cores run in waves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.engine.columns import Cause
from aicore_sim.errors import CapacityError, OutOfBoundsError, ParameterError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.enums import KernelType
from aicore_sim.launch import GmSpec
from tests.engine.engine_helpers import TICKS, gm, order, rows, simulate, ub, work

N = 1024
X = np.zeros(64 * N, np.float32)
Who = tuple[int, int, int, int, int]
"""Block index, block number, sub-block index, sub-block number, task ratio."""


def ask_everybody(kernel_type: KernelType | None, blocks: int, card: str = "atlas_350") -> tuple[list[str], list[Who]]:
    """(labels of the cores, what each of them was told), in the order of the cores."""
    told: list[Who] = []

    def kernel(x: asc.GlobalAddress) -> None:
        calls = (asc.get_block_idx, asc.get_block_num, asc.get_sub_block_idx, asc.get_sub_block_num, asc.get_task_ratio)
        told.append(tuple(int(call()) for call in calls))  # type: ignore[arg-type]

    run = simulate(asc.jit(kernel_type=kernel_type)(kernel), X, blocks=blocks, card=card)
    return [core.label for core in run.columns.cores], told


@pytest.mark.parametrize("kernel_type", [KernelType.AIV_ONLY, KernelType.MIX_AIV_1_0])
def test_blocks_of_a_vector_kernel(kernel_type: KernelType) -> None:
    labels, told = ask_everybody(kernel_type, 3)
    assert labels == ["core0.aiv0", "core0.aiv1", "core1.aiv0"]
    assert told == [(i, 3, 0, 1, 1) for i in range(3)]


@pytest.mark.parametrize("kernel_type", [KernelType.AIC_ONLY, KernelType.MIX_AIC_1_0])
def test_blocks_of_a_cube_kernel(kernel_type: KernelType) -> None:
    labels, told = ask_everybody(kernel_type, 3)
    assert labels == ["core0.aic", "core1.aic", "core2.aic"]
    assert told == [(i, 3, 0, 1, 1) for i in range(3)]


def test_blocks_of_a_1_to_2_kernel() -> None:
    labels, told = ask_everybody(KernelType.MIX_AIC_1_2, 2)
    assert labels == [f"core{g}.{k}" for g in range(2) for k in ("aic", "aiv0", "aiv1")]
    # The cube core counts blocks; a vector core block * 2 + sub; the number of blocks is not doubled.
    assert told == [
        (0, 2, 0, 1, 1),
        (0, 2, 0, 2, 2),
        (1, 2, 1, 2, 2),
        (1, 2, 0, 1, 1),
        (2, 2, 0, 2, 2),
        (3, 2, 1, 2, 2),
    ]


def test_blocks_of_a_1_to_1_kernel() -> None:
    labels, told = ask_everybody(KernelType.MIX_AIC_1_1, 2)
    assert labels == ["core0.aic", "core0.aiv0", "core1.aic", "core1.aiv0"]
    assert told == [(0, 2, 0, 1, 1), (0, 2, 0, 1, 1), (1, 2, 0, 1, 1), (1, 2, 0, 1, 1)]


def test_a_block_of_the_coupled_card_is_one_core() -> None:
    labels, told = ask_everybody(None, 1, "atlas_200i")
    assert labels == ["core0"]
    assert told == [(0, 1, 0, 1, 1)]


# ---- waves ----------------------------------------------------------------------------------------------------------
@asc.jit
def one_load(x: asc.GlobalAddress, sizes: asc.ConstExpr):
    size = sizes[int(asc.get_block_idx())]
    asc.data_copy(ub(x.dtype, 0, size), gm(x), size)


@pytest.mark.parametrize("data", [True, False])
def test_more_blocks_than_cores_go_to_whoever_is_free_first(data: bool) -> None:
    # Two cores. Block 0 is long: 8 N elements hold the port for 1024 cycles; core 1 takes 1, 2 and 3 meanwhile.
    run = simulate(
        one_load,
        X,
        (8 * N, N, N, N),
        blocks=4,
        data=data,
        overrides={"cubes": 1, "vectors": 2, "launch.core_start_cycles": 50},
    )
    assert len(run.columns.cores) == 2
    # A block: 50 to start, 10 to issue, 128 for the port, 100 until complete; the next starts behind that.
    assert [row.times for row in work(run, Pipe.MTE2, 0)] == [(60, 1084, 1184)]
    assert [row.times for row in work(run, Pipe.MTE2, 1)] == [(60, 188, 288), (348, 476, 576), (636, 764, 864)]
    assert run.columns.core_end.tolist() == [1184 * TICKS, 864 * TICKS]
    assert run.columns.length == 1184 * TICKS


@pytest.mark.parametrize("data", [True, False])
def test_blocks_start_one_after_another_and_their_times_count_from_there(data: bool) -> None:
    # 0.3 us are 300 cycles of 1 GHz. Each: 10 to issue, 128 for the port, 100 until complete.
    run = simulate(one_load, X, (N,) * 3, blocks=3, data=data,
                   overrides={"clock_mhz": 1000, "launch.per_block_us": 0.3, "launch.base_us": 2})  # fmt: skip
    for core in range(3):
        assert [row.times for row in work(run, Pipe.MTE2, core)] == [(300 * core + 10, 300 * core + 138, 300 * core + 238)]
    assert run.columns.core_start.tolist() == [0, 300 * TICKS, 600 * TICKS]
    assert run.columns.core_end.tolist() == [238 * TICKS, 538 * TICKS, 838 * TICKS]
    assert run.core_time_us == run.trace.core_time_us == pytest.approx(0.238)
    # The start of the first block and the completion come on top, whatever the number of blocks.
    assert run.launch_us == pytest.approx(2.3)
    assert run.time_us == pytest.approx(0.838 + 2.3)
    ticks = run.trace.ticks_by_cause() / TICKS
    for pipe in (Pipe.MTE2, Pipe.V, Pipe.S):
        assert ticks[1, pipe].sum() == 838
    assert ticks[1, Pipe.MTE2, Cause.IDLE] == 300 + (838 - 538)
    assert ticks[1, Pipe.MTE2, Cause.ISSUE] == ticks[1, Pipe.S, Cause.ISSUE] == 10
    used = run.trace.utilisation().set_index("pipe")
    assert used.ratio["MTE2"] == pytest.approx(228 / 238)


@pytest.mark.parametrize(("per_block", "starts"), [(0.05, [0, 50, 238, 288]), (0.4, [0, 400, 800, 1200])])
def test_a_later_block_starts_when_a_core_is_free_and_its_turn_has_come(per_block: float, starts: list[int]) -> None:
    # A block takes 238 cycles. With 50 between starts the two cores are the limit, with 400 the launch.
    run = simulate(one_load, X, (N,) * 4, blocks=4, overrides={
        "cubes": 1, "vectors": 2, "clock_mhz": 1000, "launch.per_block_us": per_block})  # fmt: skip
    assert sorted(row.start for core in range(2) for row in work(run, Pipe.MTE2, core)) == [t + 10 for t in starts]
    assert run.columns.core_start.tolist() == [0, starts[1] * TICKS]


def test_blocks_in_a_second_wave_keep_their_index() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def number(y: asc.GlobalAddress):
        me = int(asc.get_block_idx())
        asc.duplicate(ub(y.dtype, 0, 8), float(me), 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y, 8 * me), ub(y.dtype, 0, 8), 8)

    y = np.full(7 * 8, -1, np.float32)
    run = simulate(number, y, blocks=7, overrides={"cubes": 2, "vectors": 4})
    assert y.tolist() == [float(i // 8) for i in range(56)]
    assert run.blocks == 7


def test_local_memory_keeps_what_the_block_before_left() -> None:
    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def inherit(y: asc.GlobalAddress):
        tile = ub(y.dtype, 0, 8)
        if asc.get_block_idx() < 2:
            asc.duplicate(tile, 6.0 + asc.get_block_idx(), 8)
        order(asc.HardEvent.V_MTE3)
        asc.data_copy(gm(y, 8 * asc.get_block_idx()), tile, 8)

    y = np.zeros(32, np.float32)
    simulate(inherit, y, blocks=4, overrides={"cubes": 1, "vectors": 2})
    assert y[::8].tolist() == [6, 7, 6, 7]


def test_a_mix_kernel_cannot_have_more_blocks_than_the_card_has_groups() -> None:
    with pytest.raises(CapacityError) as caught:
        ask_everybody(KernelType.MIX_AIC_1_2, 29)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("blocks", 29, "1..28")


@pytest.mark.parametrize("blocks", [0, -1])
def test_a_launch_needs_a_block(blocks: int) -> None:
    with pytest.raises(CapacityError) as caught:
        simulate(one_load, X, (N,), blocks=blocks)
    assert caught.value.field == "blocks"


# ---- arguments and results ------------------------------------------------------------------------------------------
def test_arrays_come_back_and_the_time_holds_launch_and_cores() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

    @asc.jit
    def copy(x: asc.GlobalAddress, y: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 8), gm(x), 8)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 0, 8), 8)

    run = simulate(copy, x, y, overrides={"launch.base_us": 2, "launch.per_block_us": 0.5, "clock_mhz": 1000})
    assert np.array_equal(x, y)
    # Load 10..11, complete 111; wait 112; store 112..113, complete 213: 0.213 us at 1 GHz.
    assert run.cycles == 213
    assert run.core_time_us == pytest.approx(0.213)
    assert run.time_us == pytest.approx(2 + 0.5 + 0.213)


def test_without_data_nothing_is_moved_and_times_are_the_same() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

    @asc.jit
    def copy(x: asc.GlobalAddress, y: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 8), gm(x), 8)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 0, 8), 8)

    spec = GmSpec((8,), asc.float32)
    with_data, without = simulate(copy, x, y), simulate(copy, spec, spec, data=False)
    assert without.columns.length == with_data.columns.length
    with pytest.raises(ParameterError):
        simulate(copy, spec, spec)


def test_an_error_in_the_kernel_names_its_line_and_moves_nothing() -> None:
    @asc.jit
    def beyond(x: asc.GlobalAddress, y: asc.GlobalAddress):
        asc.data_copy(ub(x.dtype, 0, 8), gm(x), 8)
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), ub(x.dtype, 0, 8), 8)
        asc.data_copy(ub(x.dtype, 0, 16), gm(x), 16)  # x has 8 elements

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        simulate(beyond, x, y)
    first = beyond.fn.__code__.co_firstlineno
    assert (caught.value.file, caught.value.line) == (__file__, first + 5)
    assert not y.any()


def test_a_launch_forgets_the_launch_before() -> None:
    def once() -> Any:
        run = simulate(one_load, X, (N, N), blocks=2)
        return [rows(run, pipe, core) for core in range(2) for pipe in Pipe]

    assert once() == once()
