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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _starts(base: int, run: Ints, out: Ints) -> None:
    """Start addresses of all runs of one row of `Transfer.src_runs`, in order."""
    at = 0
    for a in range(run[2]):
        for b in range(run[4]):
            for c in range(run[6]):
                for d in range(run[8]):
                    for e in range(run[10]):
                        out[at] = base + run[0] + a * run[3] + b * run[5] + c * run[7] + d * run[9] + e * run[11]
                        at += 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _touch(
    starts: Ints, size: int, write: bool, mode: int, line: int, sector: int, piece: int, ways: int,
    tags: Tags, used: Tags, valid: Marks, dirty: Marks, out: Ints,
) -> None:  # fmt: skip
    """Runs of `size` bytes at `starts`: adds to `out` (hit, missed, evicted bytes, clock, whole pieces, whole missed sectors).

    One flat loop over local numbers on purpose: this is the innermost loop of big runs, and numba keeps it in registers.
    """
    sets = tags.size // ways
    sectors = line // sector
    full = (1 << sectors) - 1
    hits = misses = evicted = pieces = fetched = 0
    clock = out[3]
    for k in range(starts.size):
        at = starts[k]
        last = at + size
        pieces += ((last - 1) // piece - at // piece + 1) * piece
        number = at // line
        row = (number % sets) * ways
        while at < last:
            begin = number * line
            upto = min(last, begin + line)
            nbytes = upto - at
            mask = full
            asked = sectors
            if nbytes < line:
                low = (at - begin) // sector
                asked = (upto - 1 - begin) // sector - low + 1
                mask = ((1 << asked) - 1) << low
            if mode == BYPASS:
                misses += nbytes
                fetched += asked
                at = upto
                number += 1
                continue
            tag = np.int32(number & 0x7FFFFFFF)
            clock += 1
            found = -1
            for way in range(row, row + ways):
                if tags[way] == tag:
                    found = way
                    break
            if found >= 0:
                missing = mask & ~valid[found]
                if missing == 0:
                    hits += nbytes
                else:
                    lacking = 0
                    for bit in range(sectors):
                        lacking += (missing >> bit) & 1
                    fetched += lacking
                    missed = nbytes * lacking // asked
                    hits += nbytes - missed
                    misses += missed
                    valid[found] |= mask
                if write:
                    dirty[found] |= mask
                used[found] = clock
            else:
                misses += nbytes
                fetched += asked
                if mode != NO_ALLOCATE:
                    victim = row
                    for way in range(row + 1, row + ways):
                        if used[way] < used[victim]:
                            victim = way
                    bits = dirty[victim]
                    if bits == full:
                        evicted += line
                    else:
                        for bit in range(sectors):
                            evicted += sector * ((bits >> bit) & 1)
                    tags[victim] = tag
                    valid[victim] = mask
                    dirty[victim] = mask if write else 0
                    used[victim] = 0 if mode == FIRST_VICTIM else clock
            at = upto
            number += 1
            row += ways
            if row == sets * ways:
                row = 0
    out[0] += hits
    out[1] += misses
    out[2] += evicted
    out[3] = clock
    out[4] += pieces
    out[5] += fetched * sector


@dataclass(slots=True)
class Access:
    """Result of one look-up, in bytes; `runs` counted.

    `pieces` = requested bytes rounded out to whole access units, `fetched` = missed bytes rounded out to whole sectors, which is
    what memory has to move.
    """

    hit: int
    missed: int
    evicted: int
    pieces: int
    runs: int
    fetched: int


class L2Cache:
    """Tags of the shared L2. `capacity`, `line`, `sector`, `piece` in bytes; a line has at most eight sectors."""

    def __init__(self, capacity: int, line: int, sector: int, ways: int, piece: int) -> None:
        sets = max(capacity // line // ways, 1)
        self.line, self.sector, self.piece, self.ways = line, sector, piece, ways
        self._tags = np.full(sets * ways, -1, np.int32)
        self._used = np.full(sets * ways, -1, np.int32)  # free ways go first, even before a first victim
        self._valid = np.zeros(sets * ways, np.uint8)
        self._dirty = np.zeros(sets * ways, np.uint8)
        self._out = np.zeros(6, np.int64)
        self._starts = np.zeros(1, np.int64)
        self.hit_bytes = 0
        self.miss_bytes = 0
        self.evicted_bytes = 0

    def access(self, base: int, runs: Ints, write: bool, mode: str = "") -> Access:
        """Look up one transfer whose GM operand starts at device address `base`; `mode` as `GlobalTensor.l2_hint`."""
        out, total = self._out, 0
        out[0] = out[1] = out[2] = out[4] = out[5] = 0
        for run, (size, count) in zip(runs, _counts(runs), strict=True):
            if count == 1:
                starts = self._starts
                starts[0] = base + run[0]
            else:
                starts = np.empty(count, np.int64)
                _starts(base, run, starts)
            _touch(starts, size, write, MODES[mode], self.line, self.sector, self.piece, self.ways, self._tags,
                   self._used, self._valid, self._dirty, out)  # fmt: skip
            total += count
        hit, missed, evicted, _, pieces, fetched = out.tolist()
        self.hit_bytes += hit
        self.miss_bytes += missed
        self.evicted_bytes += evicted
        return Access(hit, missed, evicted, pieces, total, fetched)


def _counts(runs: Ints) -> list[tuple[int, int]]:
    """(bytes of one run, how many) for every row of runs."""
    return [(row[1], row[2] * row[4] * row[6] * row[8] * row[10]) for row in runs.tolist()]
