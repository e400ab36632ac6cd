"""Accumulating stores, against numpy on the same elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim import dtypes
from aicore_sim.cards import load_card
from aicore_sim.instructions import data_copy as blocks
from aicore_sim.instructions.atomic import AtomicEffect
from aicore_sim.memory import Buffer

OPERATIONS = {"add": asc.set_atomic_add, "max": asc.set_atomic_max, "min": asc.set_atomic_min}
COMBINE: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "max": np.maximum, "min": np.minimum}


@asc.jit
def accumulate(x: asc.GlobalAddress, y: asc.GlobalAddress, operation: asc.ConstExpr, count: asc.ConstExpr[int]) -> None:
    """Every block combines its row of x into the one row y."""
    xs, ys = asc.GlobalTensor(), asc.GlobalTensor()
    xs.set_global_buffer(x + asc.get_block_idx() * count)
    ys.set_global_buffer(y)
    local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, count)
    asc.data_copy(local, xs, count=count)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    if operation is not None:
        OPERATIONS[operation](x.dtype)
    asc.data_copy(ys, local, count=count)
    asc.set_atomic_none()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int16, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("operation", ["add", "max", "min"])
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_all_cores_combine_into_one_row(card: str, operation: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (4, 64)).astype(dtype)
    y = rng.integers(-9, 9, 64).astype(dtype)
    expected = COMBINE[operation].reduce([y, *x])  # type: ignore[attr-defined]
    run = asc.simulate(accumulate, x, y, operation, 64, blocks=4, card=card)
    np.testing.assert_array_equal(y, expected)
    assert any(op.detail.endswith(f"atomic {operation}") for op in run.columns.ops)


def test_without_an_operation_the_store_overwrites() -> None:
    x, y = np.full((1, 64), 5, np.int32), np.full(64, 7, np.int32)
    asc.simulate(accumulate, x, y, None, 64, blocks=1, card="atlas_a2")
    assert (y == 5).all()


def test_integers_wrap() -> None:
    x, y = np.full((1, 64), 100, np.int8), np.full(64, 100, np.int8)
    asc.simulate(accumulate, x, y, "add", 64, blocks=1, card="atlas_a2")
    assert (y == np.int8(-56)).all()


def test_gaps_of_a_store_keep_what_memory_has() -> None:
    class EveryOther:
        """Stores 4 B at offsets 0 and 8."""

        def apply(self, bufs: Any, offs: Any, first: int, last: int, of: int) -> None:
            for at in (0, 8):
                bufs[0].data[offs[0] + at : offs[0] + at + 4].view(np.int32)[:] = 10
                bufs[0].shadow[offs[0] + at : offs[0] + at + 4] = 1

    memory = Buffer("GM", 64, uid=0, label="y")
    memory.bytes().view(np.int32)[:] = np.arange(16)
    AtomicEffect(EveryOther(), "add", dtypes.int32, 0, 12).apply((memory,), (16,), 0, 1, 1)
    expected = np.arange(16)
    expected[[4, 6]] += 10
    np.testing.assert_array_equal(memory.bytes().view(np.int32), expected)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
@pytest.mark.parametrize(("dtype", "count"), [(np.float32, 8), (np.float32, 40), (np.int8, 32), (np.float16, 1008)])
def test_no_contribution_is_lost_whatever_the_length(card: str, dtype: Any, count: int) -> None:
    # Stores of several cores to one place land in shares; most lengths are no multiple of a share.
    x, y = np.ones((8, count), dtype), np.zeros(count, dtype)
    asc.simulate(accumulate, x, y, "add", count, blocks=8, card=card)
    assert (y == 8).all()


@pytest.mark.parametrize("shares", [1, 3, 16])
def test_an_undefined_operand_makes_the_result_undefined(shares: int) -> None:
    copy = blocks.build_count(8, dtypes.float32, "UB", "GM", load_card("atlas_a2"))
    assert copy is not None
    assert copy.effect is not None
    memory, source = Buffer("GM", 64, uid=0, label="y"), Buffer("UB", 32, uid=1, label="UB")
    memory.bytes().view(np.float32)[:] = 1
    source.bytes().view(np.float32)[:] = 2
    assert source.shadow is not None
    source.shadow[:] = 1
    source.shadow[13] = 0
    effect = AtomicEffect(copy.effect, "add", dtypes.float32, 0, 32)
    for share in range(shares):
        effect.apply((memory, source), (32, 0), share, share + 1, shares)
    assert memory.bytes()[:64].view(np.float32).tolist() == [1] * 8 + [3] * 8
    assert memory.shadow is not None
    defined = memory.shadow.reshape(-1, 4).all(axis=1)
    assert np.flatnonzero(~defined).tolist() == [8 + 3]
