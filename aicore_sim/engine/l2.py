"""The shared L2: a set-associative, sectored, write-allocating LRU cache, looked up by address (spec hardware.md 3, 11.5).

Only tags are kept; L2 is coherent with GM, so the bytes are GM's. `access` walks the contiguous runs of one transfer and
returns how many bytes were hits, misses and evictions of dirty data, and how many whole access units were touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Tags = NDArray[np.int32]
Marks = NDArray[np.uint8]
"""One bit for each sector of a line: at most eight."""

# How a transfer uses the cache (spec hardware.md 11.5, api L2 hints).
NORMAL = 0
BYPASS = 1
"""DISABLE: looks nothing up, leaves nothing behind."""
NO_ALLOCATE = 2
"""NOTALLOC_KEEP: may hit, but a miss is not kept."""
FIRST_VICTIM = 3
"""NORMAL_FIRST_VICTIM / LAST: allocated as the next to be replaced."""

MODES = {"": NORMAL, "disable": BYPASS, "notalloc_keep": NO_ALLOCATE, "first_victim": FIRST_VICTIM, "persistent": NORMAL}


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _victim(row: int, tags: Tags, used: Tags) -> int:
    """Least recently used way of a set."""
    victim = 0
    for way in range(1, tags.shape[1]):
        if used[row, way] < used[row, victim]:
            victim = way
    return victim


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _touch(
    first: int, last: int, write: bool, mode: int, line: int, sector: int,
    tags: Tags, used: Tags, valid: Marks, dirty: Marks, out: Ints,
) -> None:  # fmt: skip
    """One run of bytes [first, last): counts into `out` (hit bytes, miss bytes, evicted bytes, clock, pieces, runs)."""
    sets, ways = tags.shape
    number = first // line
    row = number % sets
    at = first
    while at < last:
        upto = min(last, (number + 1) * line)
        nbytes = upto - at
        if mode == 1:
            out[1] += nbytes
            at, number = upto, number + 1
            continue
        low = (at - number * line) // sector
        high = (upto - 1 - number * line) // sector
        mask = ((1 << (high - low + 1)) - 1) << low
        out[3] += 1
        tag = np.int32(number & 0x7FFFFFFF)
        found = -1
        for way in range(ways):  # no early exit: the loop becomes a handful of vector instructions
            if tags[row, way] == tag:
                found = way
        if found >= 0:
            missing = mask & ~valid[row, found]
            if missing == 0:
                out[0] += nbytes
            else:
                lacking = 0
                for bit in range(low, high + 1):
                    lacking += (missing >> bit) & 1
                missed = nbytes * lacking // (high - low + 1)
                out[0] += nbytes - missed
                out[1] += missed
                valid[row, found] |= mask
            if write:
                dirty[row, found] |= mask
            used[row, found] = out[3]
        else:
            out[1] += nbytes
            if mode != 2:
                victim = _victim(row, tags, used)
                bits = dirty[row, victim]
                while bits:
                    out[2] += sector * (bits & 1)
                    bits >>= 1
                tags[row, victim] = tag
                valid[row, victim] = mask
                dirty[row, victim] = mask if write else 0
                used[row, victim] = 0 if mode == 3 else out[3]
        at, number = upto, number + 1
        row += 1
        if row == sets:
            row = 0


@njit(cache=True)  # type: ignore[untyped-decorator]
def _access(
    base: int, runs: Ints, write: bool, mode: int, line: int, sector: int, piece: int,
    tags: Tags, used: Tags, valid: Marks, dirty: Marks, out: Ints,
) -> None:  # fmt: skip
    """All runs of a transfer at device address `base` (`Transfer.src_runs` columns)."""
    out[0] = out[1] = out[2] = out[4] = out[5] = 0
    for k in range(runs.shape[0]):
        size = runs[k, 1]
        for a in range(runs[k, 2]):
            for b in range(runs[k, 4]):
                for c in range(runs[k, 6]):
                    for d in range(runs[k, 8]):
                        for e in range(runs[k, 10]):
                            at = (
                                base + runs[k, 0] + a * runs[k, 3] + b * runs[k, 5] + c * runs[k, 7]
                                + d * runs[k, 9] + e * runs[k, 11]
                            )  # fmt: skip
                            _touch(at, at + size, write, mode, line, sector, tags, used, valid, dirty, out)
                            out[4] += ((at + size - 1) // piece - at // piece + 1) * piece
                            out[5] += 1


@dataclass(slots=True)
class Access:
    """Result of one look-up, in bytes, `pieces` = requested bytes rounded out to whole access units, `runs` counted."""

    hit: int
    missed: int
    evicted: int
    pieces: int
    runs: int


class L2Cache:
    """Tags of the shared L2. `capacity`, `line`, `sector`, `piece` in bytes."""

    def __init__(self, capacity: int, line: int, sector: int, ways: int, piece: int) -> None:
        sets = max(capacity // line // ways, 1)
        self.line, self.sector, self.piece = line, sector, piece
        self._tags = np.full((sets, ways), -1, np.int32)
        self._used = np.zeros((sets, ways), np.int32)
        self._valid = np.zeros((sets, ways), np.uint8)
        self._dirty = np.zeros((sets, ways), np.uint8)
        self._out = np.zeros(6, np.int64)
        self.hit_bytes = 0
        self.miss_bytes = 0
        self.evicted_bytes = 0

    def access(self, base: int, runs: Ints, write: bool, mode: str = "") -> Access:
        """Look up one transfer whose GM operand starts at device address `base`; `mode` as `GlobalTensor.l2_hint`."""
        out = self._out
        _access(base, runs, write, MODES[mode], self.line, self.sector, self.piece, self._tags, self._used, self._valid,
                self._dirty, out)  # fmt: skip
        hit, missed, evicted, _, pieces, count = out.tolist()
        self.hit_bytes += hit
        self.miss_bytes += missed
        self.evicted_bytes += evicted
        return Access(hit, missed, evicted, pieces, count)
