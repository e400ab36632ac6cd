"""IBSet, IBWait, NotifyNextBlock and WaitPreBlock: vector cores that meet through words in GM (spec 11.5, 20.6)."""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import CapacityError, DeadlockError, ParameterError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from tests.engine.engine_helpers import gm, ub

N = 256
BLOCKS = 4


@asc.jit
def pass_on(x: asc.GlobalAddress, words: asc.GlobalAddress, rounds: asc.ConstExpr):
    """Every block adds 1 to what the block before it left; block 0 starts from what the last one left."""
    shared, space = gm(x), ub(asc.int32, 4096, 64)
    flags = gm(words)
    local = ub(x.dtype, 0, N)
    me = asc.get_block_idx()
    for i in range(rounds):
        if me > 0:
            asc.ib_wait(flags, space, me - 1, i)
        asc.data_copy(local, shared, N)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.adds(local, local, 1, N)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(shared, local, N)
        asc.ib_set(flags, space, me, i)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_a_chain_of_blocks_hands_on_its_data(card: str) -> None:
    x, words = np.zeros(N, np.int32), np.zeros(BLOCKS * 8, np.int32)
    asc.simulate(pass_on, x, words, 1, card=card, blocks=BLOCKS)
    assert (x == BLOCKS).all()
    # Every block lowered the flag of the one before it; nobody lowered the last one.
    assert words.reshape(BLOCKS, 8)[:, 0].tolist() == [0] * (BLOCKS - 1) + [1]
    assert not words.reshape(BLOCKS, 8)[:, 1:].any()


def test_without_data_the_order_is_the_same() -> None:
    run = asc.simulate(pass_on, GmSpec((N,), asc.int32), GmSpec((BLOCKS * 8,), asc.int32), 1, card="atlas_a2", blocks=BLOCKS,
                       data=False)  # fmt: skip
    columns = run.columns
    ends = [columns.end[columns.core == core].max() for core in range(BLOCKS)]
    assert ends == sorted(ends) and len(set(ends)) == BLOCKS


@asc.jit
def one_word(words: asc.GlobalAddress, value: asc.ConstExpr, block: asc.ConstExpr = 0, event: asc.ConstExpr = 0):
    flags, space = gm(words), ub(asc.int32, 0, 8)
    if value:
        asc.ib_set(flags, space, block, event)
    else:
        asc.ib_wait(flags, space, block, event)


@pytest.mark.parametrize(("block", "event"), [(0, 0), (2, 0), (1, 3)])
def test_the_word_of_a_flag(block: int, event: int) -> None:
    words = np.zeros(8 * 3 * 4, np.int32)
    at = 3 * 8 * event + 8 * block  # blocks of the launch * 8 * event + 8 * block
    one = np.zeros_like(words)
    one[at] = 1

    @asc.jit
    def only_first(data: asc.GlobalAddress):
        if asc.get_block_idx() == 0:
            asc.ib_set(gm(data), ub(asc.int32, 0, 8), block, event)

    asc.simulate(only_first, words, card="atlas_a2", blocks=3)
    assert np.array_equal(words, one)


def test_a_flag_that_nobody_lowers_is_a_livelock() -> None:
    words = np.ones(8, np.int32)
    with pytest.raises(DeadlockError, match="finds 1 every time"):
        asc.simulate(one_word, words, 1, card="atlas_a2", blocks=1)
    with pytest.raises(DeadlockError, match="finds 0 every time"):
        asc.simulate(one_word, np.zeros(8, np.int32), 0, card="atlas_a2", blocks=1)


@pytest.mark.parametrize(("arguments", "size", "error", "field"), [
    ((1, 1, 0), 64, ParameterError, "block_idx"), ((1, -1, 0), 64, ParameterError, "block_idx"),
    ((1, 0, -1), 64, ParameterError, "event_id"), ((1, 0, 8), 64, CapacityError, "gm_workspace"),
])  # fmt: skip
def test_wrong_flags(arguments: tuple[int, int, int], size: int, error: type[Exception], field: str) -> None:
    with pytest.raises(error) as caught:
        asc.simulate(one_word, np.zeros(size, np.int32), *arguments, card="atlas_a2", blocks=1)
    assert caught.value.field == field  # type: ignore[attr-defined]
    with pytest.raises(ParameterError) as caught:
        asc.simulate(one_word, np.zeros(64, np.float32), 1, card="atlas_a2", blocks=1)
    assert caught.value.field == "gm_workspace"


def test_the_coupled_card_has_none_of_them() -> None:
    with pytest.raises(UnsupportedError, match="no synchronisation between cores"):
        asc.simulate(one_word, np.zeros(8, np.int32), 1, card="atlas_200i", blocks=1)


@asc.jit
def in_order(out: asc.GlobalAddress, words: asc.GlobalAddress, rounds: asc.ConstExpr, init: asc.ConstExpr):
    """Every block notes its turn: the counter in GM as it finds it."""
    flags, space = gm(words), ub(asc.int32, 0, 8 * (BLOCKS + 1))
    o = gm(out)
    me = asc.get_block_idx()
    if init:
        asc.init_determine_compute_workspace(flags, space)
        asc.sync_all()
    for i in range(rounds):
        asc.wait_pre_block(flags, space)
        asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, o)
        turn = o.get_value(0)
        o.set_value(16 + i * BLOCKS + me, turn)
        o.set_value(0, turn + 1)
        asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, o)
        asc.notify_next_block(flags, space)


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_blocks_take_turns_in_ascending_order(card: str, init: bool) -> None:
    out, words = np.zeros(64, np.int32), np.full(BLOCKS * 8, 9 if init else 0, np.int32)
    if init:
        words[:] = 9
    asc.simulate(in_order, out, words, 3, init, card=card, blocks=BLOCKS)
    assert out[16 : 16 + 3 * BLOCKS].tolist() == list(range(3 * BLOCKS))
    assert words.reshape(BLOCKS, 8)[:, 0].tolist() == [0] * BLOCKS


def test_a_small_workspace_of_turns() -> None:
    with pytest.raises(CapacityError) as caught:
        asc.simulate(in_order, np.zeros(64, np.int32), np.zeros(8 * BLOCKS - 8, np.int32), 1, False, card="atlas_a2", blocks=BLOCKS)
    assert caught.value.field == "gm_workspace"
