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


class AtomicEffect:
    """`inner`, a store with its destination as operand 0, combined by `operation` on elements of `dtype`.

    Elements that the store leaves alone, or that come from undefined bytes, keep what memory has. Integers wrap.
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
        size = self.hi - self.lo
        fresh = Buffer("scratch", size, uid=0, label="atomic operand")
        self.inner.apply((fresh, *bufs[1:]), (-self.lo, *offs[1:]), first, last, of)
        assert fresh.shadow is not None
        width = self.dtype.np_dtype.itemsize
        whole = size // width * width
        start = offs[0] + self.lo
        memory = bufs[0].bytes()[start : start + whole].view(self.dtype.np_dtype)
        given = fresh.bytes()[:whole].view(self.dtype.np_dtype)
        written = fresh.shadow[:whole].view(np.bool_).reshape(-1, width).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            combined: Any = self.operation(memory, given)
        memory[written] = combined[written]


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
