"""LocalTensorAuto: tensors whose address and synchronisation are chosen for the author (spec pyasc.md 7, 13).

pyasc decides both at compile time. Here the same effect comes from watching the program: every access to such a tensor
is preceded by the flags that its last accesses on other pipes call for, and a loop body reuses the memory of its last
round, as the queue of depth 1 that pyasc makes of it.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import HardEvent, TPosition
from aicore_sim.kernel.events import event_code, plan, pools
from aicore_sim.kernel.framework import TPipe, capacity
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.kernel.tensor import LocalTensor
from aicore_sim.memory import Buffer

__all__ = ["LocalTensorAuto"]

_HERE = str(Path(__file__).resolve().parent)
_BLOCK = 32


class _Tile:
    """The memory of one place in the source: its bytes in UB and who used it last."""

    __slots__ = ("first", "generation", "last", "readers", "seen_by", "writer")

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.generation = 0
        self.writer: Pipe | None = None
        self.seen_by: set[Pipe] = set()
        """Pipes already ordered behind the last write."""
        self.readers: set[Pipe] = set()
        """Pipes that read since the last write."""


class AutoSync:
    """Memory and synchronisation of all LocalTensorAuto of one core."""

    def __init__(self, rec: Recorder) -> None:
        self.rec = rec
        self.tiles: dict[tuple[Any, ...], _Tile] = {}
        self._next = 0
        rec.before = self.before

    def tile(self, key: tuple[Any, ...], nbytes: int) -> _Tile:
        """The tile of a place in the source, allocated at its first use."""
        found = self.tiles.get(key)
        if found is None:
            first = self._allocate(-(-nbytes // _BLOCK) * _BLOCK)
            found = self.tiles[key] = _Tile(first, first + nbytes)
        found.generation += 1
        return found

    def _allocate(self, nbytes: int) -> int:
        pipe = self.rec.state.get("tpipe")
        if isinstance(pipe, TPipe):
            return pipe.reserve(self.rec, "UB", nbytes, "LocalTensorAuto")
        limit = capacity(self.rec, "UB")
        if self._next + nbytes > limit:
            raise CapacityError("LocalTensorAuto: UB is full", field="shape", value=nbytes,
                                allowed=f"<= {limit - self._next} B left", card=self.rec.card.name)  # fmt: skip
        first, self._next = self._next, self._next + nbytes
        return first

    # ---- synchronisation ---------------------------------------------------------------------------------------------
    def before(self, entry: Entry) -> None:
        """Insert what an instruction about to be recorded needs."""
        op = entry.op
        if entry.kind is not Kind.EXEC or op is None:
            return
        for index, low, high in op.reads:
            for tile in self._touched(entry.bufs[index], entry.offs[index] + low, entry.offs[index] + high):
                self.read(tile, entry.pipe)
        for index, low, high in op.writes:
            for tile in self._touched(entry.bufs[index], entry.offs[index] + low, entry.offs[index] + high):
                self.write(tile, entry.pipe)

    def _touched(self, buffer: Buffer, low: int, high: int) -> list[_Tile]:
        if buffer is not self.rec.buffers.get("UB"):
            return []
        return [tile for tile in self.tiles.values() if tile.first < high and low < tile.last]

    def read(self, tile: _Tile, pipe: Pipe) -> None:
        if tile.writer is not None and pipe not in tile.seen_by:
            self._order(tile.writer, pipe)
            tile.seen_by.add(pipe)
        tile.readers.add(pipe)

    def write(self, tile: _Tile, pipe: Pipe) -> None:
        for reader in sorted(tile.readers - {pipe}):
            self._order(reader, pipe)
        if tile.writer is not None and pipe not in tile.seen_by and not tile.readers:
            self._order(tile.writer, pipe)
        tile.writer, tile.readers, tile.seen_by = pipe, set(), set()

    def _order(self, first: Pipe, then: Pipe) -> None:
        """Record what makes `then` wait for the earlier instructions of `first`."""
        rec = self.rec
        if first is then:
            if first is not Pipe.S and first.name not in rec.card.names(f"sync.barrier_no_effect_{_side(rec)}"):
                rec.control(Kind.BARRIER, first)
            return
        code = event_code(first, then)
        if code >= len(HardEvent) or plan(rec, HardEvent(code)).dropped:
            rec.control(Kind.BARRIER_ALL, Pipe.S)
            return
        number = pools(rec).take(code)
        rec.control(Kind.SET_FLAG, first, (code, number))
        rec.control(Kind.WAIT_FLAG, then, (code, number))
        pools(rec).release(code, number)


def _side(rec: Recorder) -> str:
    return "aiv" if rec.kind == "aiv" else "aic"


def _auto(rec: Recorder) -> AutoSync:
    found = rec.state.get("auto_sync")
    if not isinstance(found, AutoSync):
        found = rec.state["auto_sync"] = AutoSync(rec)
    return found


def _place() -> tuple[Any, ...]:
    """The place in the kernel source, callers included: one tile each, reused by every round of a loop around it."""
    found: list[Any] = []
    frame = sys._getframe(2)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_HERE):
            found += (frame.f_code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


class LocalTensorAuto(LocalTensor):
    """A tensor in UB of `shape` (an int or the dimensions) elements, placed and synchronised by the package.

    Raises CapacityError when UB is full, UnsupportedError for a use after the same source line made a new one.
    """

    __slots__ = ("_generation", "_memory", "_tile")

    def __init__(self, dtype: DataType, shape: Any) -> None:
        count = int(shape) if isinstance(shape, int) else math.prod(int(extent) for extent in shape)
        if count <= 0:
            raise ParameterError("LocalTensorAuto needs elements", field="shape", value=shape, allowed=">= 1")
        self._memory: Any = None
        super().__init__(dtype)
        rec = current()
        if not rec.on_aiv:
            self.kind = "UB"
            self.size = count
            return
        nbytes = dtype.nbytes(count)
        self._tile = _auto(rec).tile((*_place(), nbytes), nbytes)
        self._generation = self._tile.generation
        self.position = TPosition.VECCALC
        self.bind("UB", self._tile.first, count)

    @property
    def buffer(self) -> Any:
        """UB, as long as the tensor is the last one its source line made."""
        if self._memory is not None and self._generation != self._tile.generation:
            raise UnsupportedError("this LocalTensorAuto lived only for its round of the loop", field="tensor")
        return self._memory

    @buffer.setter
    def buffer(self, value: Any) -> None:
        self._memory = value

    def get_value(self, index: int) -> Any:
        _auto(current()).read(self._tile, Pipe.S)
        return super().get_value(index)

    def set_value(self, index: int, value: Any) -> None:
        _auto(current()).write(self._tile, Pipe.S)
        super().set_value(index, value)
