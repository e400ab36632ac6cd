"""Stores that combine with memory instead of overwriting it (SetAtomicAdd / Max / Min, spec api_semantics.md 24).

The instruction's own effect is run into a scratch buffer whose shadow says which bytes it wrote; those elements are then
combined with GM. So every store, Fixpipe included, becomes atomic without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aicore_sim.dtypes import DataType
from aicore_sim.instructions.base import Effect
from aicore_sim.memory import Buffer

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "max": np.maximum, "min": np.minimum}


class AtomicEffect:
    """Wraps `inner`, whose operand 0 is in GM and whose writes lie in [lo, hi) of that operand."""

    def __init__(self, inner: Effect, lo: int, hi: int, operation: str, dtype: DataType) -> None:
        self.inner = inner
        self.lo, self.hi = lo, hi
        self.combine = _COMBINE[operation]
        self.dtype = dtype

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        target = bufs[0]
        scratch = Buffer("scratch", self.hi - self.lo, uid=target.uid, label=target.label)
        self.inner.apply([scratch, *bufs[1:]], [-self.lo, *offs[1:]], first, last, of)
        start = offs[0] + self.lo
        kind = self.dtype.np_dtype
        assert kind is not None and scratch.shadow is not None
        count = (self.hi - self.lo) // kind.itemsize
        written = scratch.shadow[: count * kind.itemsize].reshape(count, kind.itemsize)[:, 0] != 0
        memory = np.ndarray((count,), kind, target.bytes().data, start)
        values = np.ndarray((count,), kind, scratch.bytes().data)
        with np.errstate(over="ignore"):
            memory[written] = self.combine(memory[written], values[written])
