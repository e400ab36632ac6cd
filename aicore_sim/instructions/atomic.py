"""Stores to GM that combine with memory instead of overwriting it (spec api_semantics.md 24, SetAtomicAdd and relatives).

The read-modify-write of an element is one step, so several cores may accumulate into one address; the order is free.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from aicore_sim.dtypes import DataType
from aicore_sim.instructions.base import Effect, Op
from aicore_sim.memory import Buffer

_COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum}
_UNTOUCHED = 2
"""Mark of a byte that the store does not write; those it writes get 1 or, from undefined bytes, 0."""


class AtomicEffect:
    """`inner`, a store with its destination as operand 0, combined by `operation` on elements of `dtype`.

    Elements that the store leaves alone keep what memory has; integers wrap. A share is a number of whole elements, however
    `inner` would cut itself: an element that two shares write halves of would be in neither.
    """

    __slots__ = ("dtype", "hi", "inner", "lo", "operation")

    def __init__(self, inner: Effect, operation: str, dtype: DataType, lo: int, hi: int) -> None:
        self.inner = inner
        self.operation = _COMBINE[operation]
        self.dtype = dtype
        self.lo, self.hi = lo, hi
        """Bytes that the store covers, relative to its destination."""

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        assert self.dtype.np_dtype is not None
        width = self.dtype.np_dtype.itemsize
        count = (self.hi - self.lo) // width
        part = slice(count * first // of, count * last // of)
        if part.start == part.stop:
            return
        fresh = Buffer("scratch", self.hi - self.lo, uid=0, label="atomic operand")
        marks = fresh.mark_all()
        marks[:] = _UNTOUCHED
        self.inner.apply((fresh, *bufs[1:]), (-self.lo, *offs[1:]), 0, 1, 1)
        given = fresh.bytes()[: count * width].view(self.dtype.np_dtype)[part]
        marks = marks[: count * width].reshape(-1, width)[part]
        start = offs[0] + self.lo + part.start * width
        memory = bufs[0].bytes()[start : start + given.size * width].view(self.dtype.np_dtype)
        stored = (marks != _UNTOUCHED).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            combined: Any = self.operation(memory, given)
        memory[stored] = combined[stored]
        undefined = stored & (marks == 0).any(axis=1)
        if undefined.any():
            known = bufs[0].mark_all()[start : start + given.size * width].reshape(-1, width)
            known[undefined] = 0


def atomic_variant(op: Op, mode: str, ops: dict[Any, Op]) -> Op:
    """The Op of the same store under an atomic operation; `mode` is "add:float32" and the like, `ops` the shared cache."""
    key = ("atomic", op, mode)
    found = ops.get(key)
    if found is None:
        operation, _, name = mode.partition(":")
        found = ops[key] = copy.copy(op)
        found.detail = f"{op.detail} atomic {operation}".strip()
        if op.effect is not None:
            _, lo, hi = op.writes[0]
            found.effect = AtomicEffect(op.effect, operation, DataType(name), lo, hi)
        found.index, found.priced = -1, False
    return found
