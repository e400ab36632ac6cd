"""Pitfalls of order in GM: what one core stores twice or loads again (spec pitfalls.md, P34) and what several share (P35)."""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import ERROR, OBSERVED
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, ALL, MTE3, SEPARATE, Flags, V, floats, name
from tests.hazards.wrong_forms import Made, is_observed, pipes, the_fault, zeros

N = 256
VECTORS = asc.KernelType.MIX_AIV_1_0


# ---- P34: GM of one core ----------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def overlapping(x: asc.GlobalAddress, y: asc.GlobalAddress, shift: asc.ConstExpr, barrier: asc.ConstExpr, add: asc.ConstExpr):
    """A store of zeros, then one of a tile, or a sum, `shift` elements further on."""
    flags = Flags()
    zero, tile = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(tile, gm(x), N)
    asc.duplicate(zero, 0.0, N)
    flags.order("V_MTE3")
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), zero, N)  # @g_zero
    if barrier:
        asc.pipe_barrier(MTE3)
    if add:
        asc.set_atomic_add(x.dtype)
    asc.data_copy(gm(y, shift), tile, N)  # @g_tile
    asc.set_atomic_none()


@pytest.mark.parametrize("card", ALL)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("shift", [0, N - 8, N])
def test_p34_stores_that_overlap(card: str, shift: int, add: bool) -> None:
    def run(barrier: bool) -> Made:
        y = np.full(2 * N, 7, np.float32)
        return asc.simulate(overlapping, floats(N), y, shift, barrier, add, card=card), y

    right, y = run(True)
    asc.assert_clean(right)
    cleared = np.full(2 * N, 7, np.float32)
    cleared[:N] = 0
    if not add:
        cleared[shift : shift + N] = 0
    cleared[shift : shift + N] += floats(N)
    assert np.array_equal(y, cleared)
    wrong, y = run(False)
    if shift == N:  # side by side
        asc.assert_clean(wrong)
        return
    hazard = the_fault(wrong, "race-waw", "g_tile", "g_zero")
    assert (pipes(hazard), hazard.tensor) == (("MTE3", "MTE3"), "y")
    assert (hazard.address, hazard.bytes) == (4 * shift, 4 * (N - shift))
    assert (hazard.verdict == OBSERVED) == (not np.array_equal(y, cleared))


@asc.jit(kernel_type=AIV)
def store_and_load(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    tile, again = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.duplicate(tile, 5.0, N)
    Flags().order("V_MTE3")
    Flags().order("V_MTE2")
    asc.data_copy(gm(x), tile, N)  # @g_store
    flags.order("MTE3_MTE2")
    asc.data_copy(again, gm(x), N)  # @g_load
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), again, N)


@pytest.mark.parametrize("card", ALL)
def test_p34_a_load_of_what_was_just_stored(card: str) -> None:
    def run(*drop: str) -> Made:
        y = zeros(N)
        return asc.simulate(store_and_load, floats(N), y, drop, card=card), y

    right, y = run()
    asc.assert_clean(right)
    assert (y == 5).all()
    wrong, y = run("MTE3_MTE2")
    assert not (y == 5).all()
    hazard = the_fault(wrong, "race-raw", "g_load", "g_store")
    is_observed(hazard)
    assert (pipes(hazard), hazard.tensor, hazard.address, hazard.bytes) == (("MTE2", "MTE3"), "x", 0, 4 * N)


# ---- P35: GM of several cores -----------------------------------------------------------------------------------------
CORES = 4


@asc.jit(kernel_type=VECTORS)
def clear_and_add(x: asc.GlobalAddress, y: asc.GlobalAddress, meet: asc.ConstExpr):
    """Core 0 clears y, late; all cores add their tile to it."""
    flags = Flags()
    me, tile, zero = int(asc.get_block_idx()), ub(x.dtype, 0, N), ub(x.dtype, N, 16 * N)
    asc.data_copy(tile, gm(x, me * N), N)
    if me == 0:
        for _ in range(16):
            asc.duplicate(zero, 0.0, 16 * N)
            asc.pipe_barrier(V)
        flags.order("V_MTE3")
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y), zero, N)  # @all_clear
        asc.pipe_barrier(MTE3)
    if meet:
        asc.sync_all()
    flags.order("MTE2_MTE3")
    asc.set_atomic_add(x.dtype)
    asc.data_copy(gm(y), tile, N)  # @all_add
    asc.set_atomic_none()


@pytest.mark.parametrize("card", SEPARATE)
def test_p35_one_core_clears_what_others_add_to(card: str) -> None:
    x = np.ones(CORES * N, np.float32)

    def run(meet: bool) -> Made:
        y = np.full(N, 7, np.float32)
        return asc.simulate(clear_and_add, x, y, meet, card=card, blocks=CORES), y

    right, y = run(True)
    asc.assert_clean(right)
    assert (y == CORES).all()
    wrong, y = run(False)
    assert (y == 1).all()  # those of the others are gone
    hazard = the_fault(wrong, "race-waw", "all_add", "all_clear")
    is_observed(hazard)
    assert hazard.at.core != hazard.other.core
    assert (pipes(hazard), hazard.tensor, hazard.address, hazard.bytes) == (("MTE3", "MTE3"), "y", 0, 4 * N)


@asc.jit(kernel_type=VECTORS)
def everybody_meets(x: asc.GlobalAddress):
    tile = ub(x.dtype, 0, N)
    asc.duplicate(tile, float(int(asc.get_block_idx())), N)
    Flags().order("V_MTE3")
    asc.data_copy(gm(x, int(asc.get_block_idx()) * N), tile, N)
    asc.sync_all()  # @more_meet


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("spare", [1, 2])
def test_p35_more_blocks_than_cores_meet(card: str, spare: int) -> None:
    overrides = {"cubes": 1, "vectors": 2}
    x = zeros(4 * N)
    asc.assert_clean(asc.simulate(everybody_meets, x, card=card, blocks=2, overrides=overrides))
    assert x[::N].tolist() == [0, 1, 0, 0]
    with pytest.raises(DeadlockError) as caught:
        asc.simulate(everybody_meets, x, card=card, blocks=2 + spare, overrides=overrides)
    (hazard,) = of_deadlock(caught.value, load_card(card, overrides))
    assert (hazard.kind, hazard.severity, hazard.verdict) == ("sync-all-blocks", ERROR, OBSERVED)
    assert (name(hazard.at), hazard.at.api, hazard.count) == ("more_meet", "SyncAll", 2)
    assert hazard.fix.startswith(f"start {spare} blocks fewer")
