"""The scalar data cache of one core: its own copies of 64 B lines of GM, written back whole (spec coherence.md 1, 5).

Nothing keeps it coherent: a line that another core or an MTE pipe has changed in GM stays old here until it is dropped,
and a write-back carries all bytes of the line, those that this core never stored included. Lost updates and stale reads
come out of that by themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aicore_sim.errors import ConfigError
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.engine.coherence import CacheWatch

Hook = Callable[[Buffer, int, int], None]
"""Called with (buffer, lo, hi): the bytes of GM that a line fill has read or a write-back has written."""


class Line:
    """One line held by a cache: `offset` is the byte of `buffer` at which it starts.

    `data` are its own bytes and `shadow` its defined-byte marks (None while the buffer has none, both None without
    data). `stored` marks the bytes that this core has stored since the line was filled: they say what a write-back
    means to write, for reports; the write-back itself knows no byte mask.
    """

    __slots__ = ("buffer", "data", "dirty", "offset", "shadow", "stored")

    def __init__(self, buffer: Buffer, offset: int, size: int) -> None:
        self.buffer = buffer
        self.offset = offset
        self.dirty = False
        self.stored: NDArray[np.bool_] = np.zeros(size, np.bool_)
        self.data: NDArray[np.uint8] | None = None
        self.shadow: NDArray[np.uint8] | None = None
        if buffer.data is not None:
            self.data = buffer.data[offset : offset + size].copy()
            if buffer.shadow is not None:
                self.shadow = buffer.shadow[offset : offset + size].copy()

    def __repr__(self) -> str:
        return f"<line {self.buffer.label}+{self.offset} {'dirty' if self.dirty else 'clean'}>"


class ScalarDCache:
    """Write-back, allocate on write, least recently used line replaced (spec coherence.md 1).

    `size_bytes` and `line_bytes` come from the card (`scalar.dcache_*`). `ways` = 0 makes it fully associative, which
    is assumed: the associativity is not published. `on_fill` and `on_write_back` tell the owner which bytes of GM were
    read or written. Works without data (`Buffer.data` None) on tags alone; then loads give zeros.

    Raises ConfigError if size, line and ways do not fit each other.
    """

    def __init__(
        self,
        size_bytes: int,
        line_bytes: int,
        ways: int = 0,
        *,
        on_fill: Hook | None = None,
        on_write_back: Hook | None = None,
    ) -> None:
        lines = size_bytes // line_bytes if line_bytes > 0 else 0
        self.ways = ways or lines
        if lines < 1 or size_bytes % line_bytes or lines % self.ways:
            raise ConfigError("size, line and ways of the scalar data cache do not fit", field="scalar.dcache_line",
                              value=line_bytes, allowed="line divides size, ways divide lines")  # fmt: skip
        self.line_bytes = line_bytes
        self.on_fill = on_fill
        self.on_write_back = on_write_back
        self.watch: CacheWatch | None = None
        """Files what the checks want to know of this cache; None in a run without checks or data."""
        # One dict for each set, least recently used first; keys are (buffer id, line start).
        self._sets: list[OrderedDict[tuple[int, int], Line]] = [OrderedDict() for _ in range(lines // self.ways)]

    def load(self, buffer: Buffer, offset: int, nbytes: int) -> tuple[bytes, bool]:
        """`nbytes` at byte `offset` of a GM allocation, from this cache; True if no line had to be filled."""
        parts: list[bytes] = []
        hit = True
        for start, lo, hi in self._pieces(offset, nbytes):
            line, had = self._line(buffer, start)
            hit &= had
            parts.append(line.data[lo:hi].tobytes() if line.data is not None else bytes(hi - lo))
        return b"".join(parts), hit

    def store(self, buffer: Buffer, offset: int, data: bytes) -> bool:
        """Put `data` into the line(s), filling them first where absent; GM is not touched. True if none was filled."""
        hit = True
        done = 0
        for start, lo, hi in self._pieces(offset, len(data)):
            line, had = self._line(buffer, start)
            hit &= had
            if line.data is not None:
                line.data[lo:hi] = np.frombuffer(data, np.uint8, hi - lo, done)
                if line.shadow is not None:
                    line.shadow[lo:hi] = 1
            line.stored[lo:hi] = True
            if self.watch is not None and not line.dirty:
                self.watch.became_dirty(line)
            line.dirty = True
            done += hi - lo
        return hit

    def held(self, buffer: Buffer, offset: int, nbytes: int) -> Iterator[tuple[Line, int, int]]:
        """The lines here that hold bytes of the span, with (first, end) inside each; nothing is filled or counted as used."""
        for start, lo, hi in self._pieces(offset, nbytes):
            line = self._set(buffer, start).get((buffer.uid, start))
            if line is not None:
                yield line, lo, hi

    def marks(self, buffer: Buffer, offset: int, nbytes: int) -> NDArray[np.uint8] | None:
        """Which of the bytes are defined in the lines held here; None if all are. Bytes that are not held count as defined."""
        found = np.ones(nbytes, np.uint8)
        for line, lo, hi in self.held(buffer, offset, nbytes):
            if line.shadow is not None:
                found[line.offset + lo - offset : line.offset + hi - offset] = line.shadow[lo:hi]
        return None if found.all() else found

    def clean_invalidate_line(self, buffer: Buffer, offset: int) -> bool:
        """Write the line that holds byte `offset` back if dirty, and drop it. True if it was written."""
        start = offset - offset % self.line_bytes
        line = self._set(buffer, start).pop((buffer.uid, start), None)
        return line is not None and self._write_back(line)

    def clean_invalidate_all(self) -> int:
        """Write every dirty line back and drop all lines; returns how many were written."""
        written = sum([self._write_back(line) for line in self])
        self.drop_all()
        return written

    def drop_all(self) -> None:
        """Invalidate without write-back: stores that were not cleaned are lost (spec coherence.md 3, end of kernel)."""
        if self.watch is not None:
            for line in self.dirty_lines():
                self.watch.dropped(line, self._end(line) - line.offset)
        for lines in self._sets:
            lines.clear()

    def dirty_lines(self) -> list[Line]:
        """Lines whose stores have not reached GM, by buffer and offset."""
        return sorted((line for line in self if line.dirty), key=lambda line: (line.buffer.uid, line.offset))

    def __iter__(self) -> Iterator[Line]:
        for lines in self._sets:
            yield from lines.values()

    def _pieces(self, offset: int, nbytes: int) -> Iterator[tuple[int, int, int]]:
        """The span cut at line boundaries: (line start, first and end byte inside the line)."""
        end = offset + nbytes
        while offset < end:
            inside = offset % self.line_bytes
            size = min(self.line_bytes - inside, end - offset)
            yield offset - inside, inside, inside + size
            offset += size

    def _set(self, buffer: Buffer, start: int) -> OrderedDict[tuple[int, int], Line]:
        return self._sets[(buffer.base + start) // self.line_bytes % len(self._sets)]

    def _line(self, buffer: Buffer, start: int) -> tuple[Line, bool]:
        """The line at `start`, most recently used from now on, and whether it was here already."""
        lines = self._set(buffer, start)
        key = (buffer.uid, start)
        line = lines.get(key)
        if line is not None:
            lines.move_to_end(key)
            return line, True
        if len(lines) == self.ways:
            self._write_back(lines.popitem(last=False)[1])
        line = lines[key] = Line(buffer, start, self.line_bytes)
        if self.on_fill is not None:
            self.on_fill(buffer, start, self._end(line))
        return line, False

    def _end(self, line: Line) -> int:
        """End of the line in its allocation: the last line is cut where the allocation ends."""
        return min(line.offset + self.line_bytes, line.buffer.size + line.buffer.slack)

    def _write_back(self, line: Line) -> bool:
        if not line.dirty:
            return False
        buffer, lo, hi = line.buffer, line.offset, self._end(line)
        if self.watch is not None:
            self.watch.write_back(line, hi - lo)
        if buffer.data is not None and line.data is not None:
            buffer.data[lo:hi] = line.data
            if line.shadow is not None:
                buffer.mark_all()[lo:hi] = line.shadow
            elif buffer.shadow is not None:
                buffer.shadow[lo:hi] = 1
        line.dirty = False
        line.stored[:] = False
        if self.on_write_back is not None:
            self.on_write_back(buffer, lo, hi)
        return True
