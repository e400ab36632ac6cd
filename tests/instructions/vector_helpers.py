"""A vector core with a known UB: calls are recorded, then their effects are applied in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card, load_card
from aicore_sim.dtypes import DataType
from aicore_sim.instructions.base import Op
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import LocalTensor
from aicore_sim.memory import Buffer, GlobalMemory

Array = NDArray[Any]
CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")


@cache
def card(name: str) -> Card:
    return load_card(name)


class Core:
    """One recording core; `ub` is filled with 0xA5 and undefined until `put` or an effect writes it."""

    def __init__(self, name: str, kind: str = "aiv") -> None:
        self.session = Session(card(name), GlobalMemory(), auto_sync=False)
        self.ub = Buffer("UB", int(card(name).value("buffers.UB.size")), uid=1, label="UB")
        self.ub.bytes()[:] = 0xA5
        self.rec = Recorder(self.session, kind, 0, {"UB": self.ub}, block_idx=0, block_num=1)

    def tensor(self, dtype: str, address: int, size: int = 1024, values: Any = None) -> LocalTensor:
        """A tensor at a byte address; `values` are put there in their storage type (4-bit: one value a nibble)."""
        kind = DataType(dtype)
        tensor = LocalTensor(kind, TPosition.VECCALC, address, size)
        if values is not None:
            self.put(address, to_bytes(np.asarray(values), kind))
        return tensor

    def put(self, address: int, raw: Array) -> None:
        self.ub.bytes()[address : address + raw.size] = raw
        assert self.ub.shadow is not None
        self.ub.shadow[address : address + raw.size] = 1

    def run(self, shares: int = 1) -> None:
        """Apply what was recorded, each effect in `shares` parts."""
        for entry in self.rec.program:
            assert entry.op is not None and entry.op.effect is not None
            for k in range(shares):
                entry.op.effect.apply(entry.bufs, entry.offs, k, k + 1, shares)
        self.rec.program.clear()

    @property
    def op(self) -> Op:
        """The Op of the last recorded call."""
        op = self.rec.program[-1].op
        assert op is not None
        return op

    def words(self, address: int, kind: Any, count: int) -> Array:
        dtype = np.dtype(kind)
        found: Array = self.ub.bytes()[address : address + count * dtype.itemsize].view(dtype).copy()
        return found

    def defined(self, address: int, nbytes: int) -> list[bool]:
        assert self.ub.shadow is not None
        return [bool(mark) for mark in self.ub.shadow[address : address + nbytes]]

    @property
    def warnings(self) -> list[str]:
        return [text for text, _ in self.session.warnings]


def to_bytes(values: Array, dtype: DataType) -> Array:
    """Storage bytes of `values`, converted to `dtype` by numpy; two 4-bit values a byte, the first in the low nibble."""
    assert dtype.np_dtype is not None
    stored: Array = values.astype(dtype.np_dtype).reshape(-1).view(np.uint8)
    if dtype.bits == 4:
        stored = (stored[0::2] & 0xF) | (stored[1::2] << 4)
    return stored


@contextmanager
def vector_core(name: str, kind: str = "aiv") -> Iterator[Core]:
    core = Core(name, kind)
    previous = enter(core.rec)
    try:
        yield core
    finally:
        enter(previous)
