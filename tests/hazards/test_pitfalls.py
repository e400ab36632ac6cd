"""Pitfalls of spec pitfalls.md section 2 (and P37) in a wrong and a right form, where no other file has them by name.

P05: test_undefined.py. P16: test_tensors.py. P23 to P25: test_nddma.py, test_dcache.py, test_sharing.py. P26 to P28: the broken
forms of double_buffer_add and pingpong_gemm in test_scenarios.py. P31, P34, P36: test_races.py. P32: test_flags.py. P35 without
SyncAll: sync_all_missing in test_scenarios.py, test_races_between_cores.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import ERROR, WARNING
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, SEPARATE, Flags, V, floats, found, is_clean, name, the_race

N = 256


# ---- P29: V after V on 2201 -----------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def cast_and_multiply(x: asc.GlobalAddress, y: asc.GlobalAddress, barrier: asc.ConstExpr):
    flags = Flags()
    whole, cast, product = ub(asc.int32, 0, N), ub(asc.float32, N, N), ub(asc.float32, 2 * N, N)
    asc.data_copy(whole, gm(x), N)
    flags.order("MTE2_V")
    asc.cast(cast, whole, asc.RoundMode.CAST_NONE, N)  # @cast
    if barrier:
        asc.pipe_barrier(V)
    asc.mul(product, cast, cast, N)  # @mul
    flags.order("V_MTE3")
    asc.data_copy(gm(y), product, N)


def cast(card: str, barrier: bool, auto_sync: bool) -> tuple[Run, bool]:
    x, y = np.arange(N, dtype=np.int32), np.zeros(N, np.float32)
    run = asc.simulate(cast_and_multiply, x, y, barrier, card=card, auto_sync=auto_sync)
    return run, bool((y == (x * x).astype(np.float32)).all())


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
def test_p29_v_after_v_needs_a_barrier_where_nobody_puts_it_in(card: str) -> None:
    run, right = cast(card, barrier=False, auto_sync=False)
    assert found(run) == {("race-raw", "mul", "cast")}
    race = the_race(run)
    assert (race.at.pipe, race.severity, "pipe_barrier" in race.fix) == ("V", ERROR, True)
    assert right or race.verdict == "observed"
    for barrier, auto_sync in ((True, False), (False, True)):
        run, right = cast(card, barrier, auto_sync)
        assert right and is_clean(run)


@pytest.mark.parametrize("card", ["atlas_350"])
def test_p29_the_hardware_of_350_keeps_the_order(card: str) -> None:
    run, right = cast(card, barrier=False, auto_sync=False)
    assert right and is_clean(run)


# ---- P30: a scalar read behind V ------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def scale_by_maximum(x: asc.GlobalAddress, y: asc.GlobalAddress, flag: asc.ConstExpr):
    flags = Flags()
    line, most, work = ub(x.dtype, 0, N), ub(x.dtype, N, 64), ub(x.dtype, 2 * N, N)
    asc.data_copy(line, gm(x), N)
    flags.order("MTE2_V")
    asc.reduce_max(most, line, work, N)  # @maximum
    asc.pipe_barrier(V)
    if flag:
        flags.order("V_S")
    scale = most.get_value(0)  # @scale
    flags.order("S_V")
    asc.muls(line, line, scale, N)
    flags.order("V_MTE3")
    asc.data_copy(gm(y), line, N)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_p30_a_barrier_of_v_does_not_hold_the_scalar_unit(card: str) -> None:
    def scaled(flag: bool, auto_sync: bool) -> tuple[Run, bool]:
        x, y = floats(N), np.zeros(N, np.float32)
        run = asc.simulate(scale_by_maximum, x, y, flag, card=card, auto_sync=auto_sync)
        return run, bool((y == x * N).all())

    run, right = scaled(False, False)
    assert ("race-raw", "scale", "maximum") in found(run)
    assert not right
    for flag, auto_sync in ((True, False), (False, True)):
        run, right = scaled(flag, auto_sync)
        assert right and is_clean(run)


# ---- P33: a wait that nobody primed ---------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def unprimed(x: asc.GlobalAddress, y: asc.GlobalAddress, prime: asc.ConstExpr):
    tile = ub(x.dtype, 0, N)
    if prime:
        asc.set_flag(asc.HardEvent.MTE3_MTE2, 2)
    for i in range(3):
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, 2)  # @buffer_free
        asc.data_copy(tile, gm(x, i * N), N)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.data_copy(gm(y, i * N), tile, N)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, 2)
    if prime:
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, 2)


@pytest.mark.parametrize("card", SEPARATE)
def test_p33_a_buffer_free_flag_has_to_be_primed(card: str) -> None:
    x, y = floats(3 * N), np.zeros(3 * N, np.float32)
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(unprimed, x, y, False, card=card)
    (wrong,) = of_deadlock(caught.value, load_card(card)).of("wait-without-set")
    assert (wrong.severity, wrong.at.pipe, name(wrong.at)) == (ERROR, "MTE2", "buffer_free")
    assert "MTE3_MTE2 id 2" in wrong.detail
    assert "set_flag(asc.HardEvent.MTE3_MTE2, 2)" in wrong.fix
    run = asc.simulate(unprimed, x, y, True, card=card)
    assert np.array_equal(x, y)
    assert is_clean(run)


# ---- P35: SyncAll with more blocks than cores -----------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def meet(x: asc.GlobalAddress):
    asc.sync_all()  # @meeting


@pytest.mark.parametrize("card", SEPARATE)
def test_p35_more_blocks_than_cores_never_meet(card: str) -> None:
    cores = load_card(card).vectors
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(meet, floats(8), card=card, blocks=cores + 1)
    (wrong,) = of_deadlock(caught.value, load_card(card)).of("sync-all-blocks")
    assert (wrong.severity, name(wrong.at)) == (ERROR, "meeting")
    assert is_clean(asc.simulate(meet, floats(8), card=card, blocks=cores))


# ---- P37: two live tensors at one address ---------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def sum_of_two(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, apart: asc.ConstExpr):
    flags = Flags()
    # Declared each on a line of its own: a tensor is what one line declares.
    first = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, N)
    second = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, apart * 4, N)
    total = ub(x.dtype, 2 * N, N)
    asc.data_copy(first, gm(x), N)
    asc.pipe_barrier(asc.PipeID.PIPE_MTE2)
    asc.data_copy(second, gm(y), N)  # @overwrites
    flags.order("MTE2_V")
    asc.add(total, first, second, N)  # @sum
    flags.order("V_MTE3")
    asc.data_copy(gm(z), total, N)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
@pytest.mark.parametrize("apart", [0, N // 2])
def test_p37_a_tensor_over_a_live_one(card: str, apart: int) -> None:
    x, y, z = floats(N), 2 * floats(N), np.zeros(N, np.float32)
    run = asc.simulate(sum_of_two, x, y, z, apart, card=card)
    (overlap,) = run.hazards.of("live-overlap")
    assert (overlap.severity, name(overlap.at), name(overlap.other)) == (WARNING, "sum", "overwrites")
    assert not np.array_equal(z, x + y)
    run = asc.simulate(sum_of_two, x, y, z, N, card=card)
    assert np.array_equal(z, x + y)
    assert is_clean(run)
