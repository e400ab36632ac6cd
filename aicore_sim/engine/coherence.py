"""What the private caches of a core did to bytes in this run, filed for the checks (spec coherence.md 5, 6).

The caches themselves know no rule: old bytes and lost updates come out of the copies that they hold. Here a copy is compared
with GM at the moments at which a difference reaches somebody: a load is served, a line is written back, a copy reads GM while
another core's stores to it still sit in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import Audit
from aicore_sim.engine.dcache import Line, ScalarDCache
from aicore_sim.memory import Buffer

NDDMA_STALE = "nddma-stale"
"""An NDDMA copy was served from a line whose bytes in GM have changed: `old` delivered, `new` in GM; the whole line, cut to
what differs. Whether the copy asked for these bytes is not said."""
DCACHE_STALE = "dcache-stale"
"""A cached scalar load delivered `old` where GM has `new`, none of them stored by the core itself."""
DCACHE_DIRTY = "dcache-dirty"
"""A read got `old` from GM while a scalar data cache holds `new`, stored and not written back."""
DCACHE_CLOBBER = "dcache-clobber"
"""A write-back put its own copy, `new`, over bytes `old` that somebody has written to GM since the line was filled."""
DCACHE_LOST = "dcache-lost"
"""Stores `new` of a line were dropped at the end of the kernel; GM keeps `old`."""
WORD = 4
"""Bytes are shown from and to whole words."""
Bools = NDArray[np.bool_]


class DirtyLines:
    """Lines of all cores whose stores have not reached GM, by buffer."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[tuple[int, int], Line]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, core: int, line: Line) -> None:
        self._lines.setdefault(line.buffer.uid, {})[line.offset, core] = line

    def remove(self, core: int, line: Line) -> None:
        held = self._lines.get(line.buffer.uid)
        if held is not None and held.pop((line.offset, core), None) is not None and not held:
            del self._lines[line.buffer.uid]

    def over(self, buffer: Buffer, lo: int, hi: int) -> Iterator[tuple[int, Line]]:
        """(core, line) of those that overlap bytes [lo, hi) of a buffer, by place and core."""
        held = self._lines.get(buffer.uid, {})
        for offset, core in sorted(held):
            line = held[offset, core]
            if offset < hi and lo < offset + line.stored.size:
                yield core, line


class CacheWatch:
    """Files the incidents of one core's caches. `seq` is the entry of its scalar unit that is being executed."""

    def __init__(self, audit: Audit, core: int, dirty: DirtyLines) -> None:
        self.audit = audit
        self.core = core
        self.dirty = dirty
        self.seq = 0

    # ---- told by the data cache -------------------------------------------------------------------------------------
    def became_dirty(self, line: Line) -> None:
        """The first store since the line was filled."""
        self.dirty.add(self.core, line)

    def write_back(self, line: Line, size: int) -> None:
        """`size` bytes of a dirty line are about to be written over GM."""
        self.dirty.remove(self.core, line)
        self._compare(DCACHE_CLOBBER, line, ~line.stored[:size], size)

    def dropped(self, line: Line, size: int) -> None:
        """A dirty line was invalidated without being written."""
        self.dirty.remove(self.core, line)
        self._compare(DCACHE_LOST, line, line.stored[:size], size)

    def _compare(self, kind: str, line: Line, which: Bools, size: int) -> None:
        if line.data is None:
            return
        gm = line.buffer.bytes()[line.offset : line.offset + size]
        self._file(kind, self.seq, line.buffer, line.offset, which & (line.data[:size] != gm), gm, line.data)

    # ---- told by the core -------------------------------------------------------------------------------------------
    def loaded(self, cache: ScalarDCache, buffer: Buffer, offset: int, nbytes: int) -> None:
        """A cached load was served."""
        gm = buffer.bytes()
        for line, lo, hi in cache.held(buffer, offset, nbytes):
            assert line.data is not None
            at = line.offset
            differs = ~line.stored[lo:hi] & (line.data[lo:hi] != gm[at + lo : at + hi])
            self._file(DCACHE_STALE, self.seq, buffer, at + lo, differs, line.data[lo:hi], gm[at + lo : at + hi])
            if self.dirty:
                self.read(self.seq, buffer, at + lo, at + hi, line.data[lo:hi], ~line.stored[lo:hi])

    def read(
        self, seq: int, buffer: Buffer, lo: int, hi: int, delivered: NDArray[np.uint8] | None = None, open_: Bools | None = None
    ) -> None:
        """Entry `seq` of this core reads bytes [lo, hi) of GM, or `delivered` in their place where `open_`; says what of them
        still sits in a cache. A cached load (`delivered`) does not miss its own core's stores."""
        gm = buffer.bytes()
        for core, line in self.dirty.over(buffer, lo, hi):
            if line.data is None or (delivered is not None and core == self.core):
                continue
            first, last = max(lo, line.offset), min(hi, line.offset + line.stored.size, gm.size)
            inside = slice(first - line.offset, last - line.offset)
            seen = gm[first:last] if delivered is None else delivered[first - lo : last - lo]
            missed = line.stored[inside] & (line.data[inside] != seen)
            if open_ is not None:
                missed &= open_[first - lo : last - lo]
            self._file(DCACHE_DIRTY, seq, buffer, first, missed, seen, line.data[inside])

    def nddma_stale(self, seq: int, buffer: Buffer, stale: list[tuple[int, NDArray[np.uint8]]]) -> None:
        """An NDDMA copy hit lines (first byte, held bytes) that differ from GM."""
        for at, held in stale:
            gm = buffer.bytes()[at : at + held.size]
            self._file(NDDMA_STALE, seq, buffer, at, held != gm, held, gm)

    def _file(
        self, kind: str, seq: int, buffer: Buffer, base: int, which: Bools, old: NDArray[np.uint8], new: NDArray[np.uint8]
    ) -> None:
        """One incident over the bytes in `which`, from the first to the last; none without any."""
        if not which.any():
            return
        places = np.flatnonzero(which)
        lo, hi = int(places[0]) // WORD * WORD, min(-(-(int(places[-1]) + 1) // WORD) * WORD, which.size)
        self.audit.incident(kind, self.core, seq, buffer.uid, base + lo, base + hi, old[lo:hi].tobytes(), new[lo:hi].tobytes())
