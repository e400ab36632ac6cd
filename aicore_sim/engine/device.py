"""What a scalar instruction sees of its core when it is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aicore_sim.kernel.program import Entry
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core


class CoreDevice:
    """Handed to the action of a SCALAR entry at its simulated time. `extra_ticks` is what the action adds to its price."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._entry: Entry | None = None
        self.extra_ticks = 0

    def begin(self, entry: Entry) -> None:
        """Called by the scalar unit right before the action."""
        self.extra_ticks = 0
        self._entry = entry
        if self._core.watch is not None:
            self._core.watch.seq = entry.seq
        self._core.machine.settle(int(self._core.env.now))

    def load(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        """Bytes of GM as this core's scalar data cache has them."""
        raw, hit = self._core.dcache.load(buffer, offset, nbytes)
        if self._core.watch is not None:
            self._core.watch.loaded(self._core.dcache, buffer, offset, nbytes)
        if not hit:
            self.extra_ticks += self._core.machine.timing.dcache_miss
        return raw

    def store(self, buffer: Buffer, offset: int, data: bytes) -> None:
        """Into the data cache; GM gets it when the line is cleaned or replaced."""
        if not self._core.dcache.store(buffer, offset, data):
            self.extra_ticks += self._core.machine.timing.dcache_miss

    def clean_line(self, buffer: Buffer, offset: int) -> None:
        self._core.dcache.clean_invalidate_line(buffer, offset)

    def clean_all(self) -> None:
        self._core.dcache.clean_invalidate_all()

    def uncached(self) -> None:
        """An access that goes straight to L2 and GM."""
        self.extra_ticks += self._core.machine.timing.dcache_miss
        watch, entry = self._core.watch, self._entry
        if watch is not None and watch.dirty and entry is not None and entry.op is not None and entry.op.reads:
            watch.read(watch.seq, entry.bufs[0], entry.offs[0], entry.offs[0] + entry.op.nbytes)

    @property
    def now_ticks(self) -> int:
        return self._core.scalar.t

    @property
    def clock_mhz(self) -> float:
        return self._core.machine.card.clock_mhz
