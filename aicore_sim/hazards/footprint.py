"""Which bytes an instruction touches, exactly: the strided pieces behind the ranges that an Op declares.

A hull would do for tiles that follow each other; rows of a matrix in GM, or blocks of UB with a stride, interleave with those of
other instructions, and a hull would call that an overlap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import BLOCK_BYTES
from aicore_sim.instructions.atomic import AtomicEffect
from aicore_sim.instructions.base import Effect, Op, TransferEffect
from aicore_sim.instructions.fixpipe import FixpipeEffect
from aicore_sim.transfer import MAX_DIMS

Ints = NDArray[np.int64]
MOST_PIECES = 1 << 17
"""Pieces of one operand that are told apart; beyond it its hull stands for them."""


def pieces(op: Op, operand: int, write: bool) -> Ints:
    """The bytes that `op` reads or writes of one operand, relative to its start: rows (lo, hi), ascending, apart.

    Empty if it does not touch the operand in that way.
    """
    hulls = [(lo, hi) for index, lo, hi in (op.writes if write else op.reads) if index == operand and hi > lo]
    if not hulls:
        return np.zeros((0, 2), np.int64)
    found = _strided(op, operand, write)
    if found is None:
        return merged(np.array(hulls, np.int64))
    lo, hi = min(lo for lo, _ in hulls), max(hi for _, hi in hulls)
    return merged(np.clip(found, lo, hi))


def _strided(op: Op, operand: int, write: bool) -> Ints | None:
    """The pieces where the Op knows more than a hull, not merged."""
    effect: Effect | None = op.effect
    if isinstance(effect, AtomicEffect):
        effect = effect.inner
    if isinstance(effect, TransferEffect):
        return expanded(effect.transfer.dst_runs if write else effect.transfer.src_runs)
    if operand == op.gm_operand and op.gm_runs is not None:
        return expanded(op.gm_runs)
    if isinstance(effect, FixpipeEffect) and write:
        return expanded(effect.written_runs(operand))
    if op.access is not None:
        lanes = [lane for lane in op.access.lanes if lane.operand == operand and lane.writes == write]
        if lanes:
            found = [
                (np.arange(op.access.repeats)[:, None] * lane.repeat + np.arange(lane.blocks) * lane.block).reshape(-1)
                for lane in lanes
            ]
            starts: Ints = np.concatenate(found)
            return np.stack([starts, starts + BLOCK_BYTES], axis=1)
    return None


def expanded(runs: Ints) -> Ints | None:
    """Rows of `Transfer.src_runs` as (lo, hi), one for each run; None where there are too many to list."""
    counts = runs[:, 2::2]
    if int(counts.prod(axis=1).sum()) > MOST_PIECES:
        return None
    found = []
    for row in runs:
        starts = np.array([row[0]], np.int64)
        for dim in range(MAX_DIMS):
            count, stride = int(row[2 + 2 * dim]), int(row[3 + 2 * dim])
            if count > 1:
                starts = (starts[:, None] + np.arange(count) * stride).reshape(-1)
        found.append(np.stack([starts, starts + row[1]], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 2), np.int64)


def merged(spans: Ints) -> Ints:
    """Sorted and joined: no two rows touch or overlap. Empty rows go."""
    spans = spans[spans[:, 1] > spans[:, 0]]
    if len(spans) < 2:
        return spans
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.ones(len(spans), np.bool_)
    first[1:] = spans[1:, 0] > reach[:-1]
    starts = np.flatnonzero(first)
    return np.stack([spans[starts, 0], np.maximum.reduceat(spans[:, 1], starts)], axis=1)
