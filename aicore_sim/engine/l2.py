"""The shared L2: a set-associative, sectored, write-allocating LRU cache, looked up by address (spec hardware.md 3, 11.5).

Only tags are kept; L2 is coherent with GM, so the bytes are GM's. `access` walks the contiguous runs of one transfer and
returns how many bytes were hits, misses and evictions of dirty data, and how many whole access units were touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from aicore_sim.errors import ConfigError

Ints = NDArray[np.int64]
SEEN_LINES = 1 << 16
"""Lines whose last use is kept to find cores that use one at the same time: more than can be in flight together."""
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
def _access(base: int, runs: Ints, write: bool, mode: int, shape: Ints, ways_of: Ints, seen: Ints, who: int, when: int,
            pace: float, out: Ints) -> None:  # fmt: skip
    """All runs of a transfer at device address `base`: counts into `out` (hit, missed, evicted bytes, bytes in whole
    pieces, missed bytes in whole sectors, runs, runs that missed, runs that start off the grain, lines, lines that
    another core used at the same time). `shape` = (line, sector, piece as powers of two, ways, spread of the sets, lines
    between its steps as a power of two, window in ticks, grain as a power of two).

    `seen` has rows (line number, tick, core) of the last use of lines, found by the line's low bits; the n-th byte of the
    transfer is asked for at `when` + n * `pace`, by core `who` (-1: alone, nothing to note).

    `ways_of` holds the ways of every set, most recently used first, free ones (-1) last; a way is line number << 16 |
    dirty sectors << 8 | valid sectors. So the order is the age, and a look-up stays within one or two cache lines of ours.
    """
    line_bits, sector_bits, piece_bits, ways = shape[0], shape[1], shape[2], shape[3]
    spread, spread_bits = shape[4], shape[5]
    sets = ways_of.size // ways
    sectors = 1 << (line_bits - sector_bits)
    full = (1 << sectors) - 1
    line = 1 << line_bits
    window, grain = shape[6], (1 << shape[7]) - 1
    mask_seen = seen.shape[0] - 1
    hits = misses = evicted = pieces = fetched = total = missing_runs = uneven = lines = shared = 0
    done = 0
    for r in range(runs.shape[0]):
        size = runs[r, 1]
        n1, n2, n3, n4, n5 = runs[r, 2], runs[r, 4], runs[r, 6], runs[r, 8], runs[r, 10]
        s1, s2, s3, s4, s5 = runs[r, 3], runs[r, 5], runs[r, 7], runs[r, 9], runs[r, 11]
        count = n1 * n2 * n3 * n4 * n5
        total += count
        start = base + runs[r, 0]
        i2 = i3 = i4 = i5 = 0
        for _ in range(count):
            at = start
            last = at + size
            lost = misses
            if at & grain:
                uneven += 1
            # The next run, by counting instead of dividing: divisions would take most of the time here.
            i5 += 1
            start += s5
            if i5 == n5:
                i5 = 0
                start += s4 - n5 * s5
                i4 += 1
                if i4 == n4:
                    i4 = 0
                    start += s3 - n4 * s4
                    i3 += 1
                    if i3 == n3:
                        i3 = 0
                        start += s2 - n3 * s3
                        i2 += 1
                        if i2 == n2:
                            i2 = 0
                            start += s1 - n2 * s2
            pieces += ((last - 1) >> piece_bits) - (at >> piece_bits) + 1
            number = at >> line_bits
            while at < last:
                row = ((number + (number >> spread_bits) * spread) % sets) * ways
                begin = number << line_bits
                upto = min(last, begin + line)
                nbytes = upto - at
                mask = full
                asked = sectors
                if who >= 0:
                    lines += 1
                    tick = when + int(done * pace)
                    done += nbytes
                    place = number & mask_seen
                    if seen[place, 0] == number and seen[place, 2] != who and abs(tick - seen[place, 1]) < window:
                        shared += 1
                    seen[place, 0], seen[place, 1], seen[place, 2] = number, tick, who
                if nbytes < line:
                    low = (at - begin) >> sector_bits
                    asked = ((upto - 1 - begin) >> sector_bits) - low + 1
                    mask = ((1 << asked) - 1) << low
                at = upto
                if mode == BYPASS:
                    misses += nbytes
                    fetched += asked
                    number += 1
                    continue
                place = row
                end = row + ways
                while place < end and ways_of[place] >= 0 and ways_of[place] >> 16 != number:
                    place += 1
                way = ways_of[place] if place < end else -1
                if way >= 0:
                    missing = mask & ~way
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
                    way |= mask
                    if write:
                        way |= mask << 8
                    for k2 in range(place, row, -1):
                        ways_of[k2] = ways_of[k2 - 1]
                    ways_of[row] = way
                else:
                    misses += nbytes
                    fetched += asked
                    if mode != NO_ALLOCATE:
                        if place == end:
                            place -= 1
                            dirty = (ways_of[place] >> 8) & full
                            while dirty:
                                evicted += dirty & 1
                                dirty >>= 1
                        if mode != FIRST_VICTIM:
                            for k2 in range(place, row, -1):
                                ways_of[k2] = ways_of[k2 - 1]
                            place = row
                        ways_of[place] = (number << 16) | mask | ((mask << 8) if write else 0)
                number += 1
            if misses > lost:
                missing_runs += 1
    out[0], out[1], out[2] = hits, misses, evicted << sector_bits
    out[3], out[4], out[5] = pieces << piece_bits, fetched << sector_bits, total
    out[6], out[7], out[8], out[9] = missing_runs, uneven, lines, shared


@dataclass(slots=True)
class Access:
    """Result of one look-up, in bytes; runs and lines counted.

    `pieces` = requested bytes rounded out to whole access units, `fetched` = missed bytes rounded out to whole sectors,
    which is what memory has to move in `missing_runs` stretches. `uneven` = runs that start off the grain, `lines` = lines
    asked for, `shared` = those that another core asked for at the same time (both 0 for a lone core).
    """

    hit: int
    missed: int
    evicted: int
    pieces: int
    runs: int
    fetched: int
    missing_runs: int = 0
    uneven: int = 0
    lines: int = 0
    shared: int = 0


class Asker(NamedTuple):
    """Who looks up: the core (-1: no other can be about), the tick of its first byte and the ticks from byte to byte."""

    core: int
    when: int
    pace: float


NOBODY = Asker(-1, 0, 0.0)


class L2Cache:
    """Tags of the shared L2. `capacity`, `line`, `sector`, `piece` in bytes; a line has at most eight sectors.

    A line's set is its number, plus `spread` for every `spread_lines` lines before it, modulo the sets. Two cores use a
    line at the same time if less than `window` ticks lie between them. Runs start on the `grain` (bytes) or are counted.
    Raises ConfigError where line, sector, piece or spread_lines are no power of two.
    """

    def __init__(
        self, capacity: int, line: int, sector: int, ways: int, piece: int, spread: int = 0, spread_lines: int = 1,
        window: int = 0, grain: int = 32,
    ) -> None:  # fmt: skip
        sets = max(capacity // line // ways, 1)
        self.line, self.sector, self.piece, self.ways = line, sector, piece, ways
        for name, value in (("l2.line", line), ("l2.sector", sector), ("l2.access_bytes", piece),
                            ("l2.set_spread_lines", spread_lines)):  # fmt: skip
            if value < 1 or value & (value - 1):
                raise ConfigError("the L2 model needs a power of two", field=name, value=value, allowed="1, 2, 4, ...")
        if not line // 8 <= sector <= line:
            raise ConfigError("a line of L2 has one to eight sectors", field="l2.sector", value=sector,
                              allowed=f"{line // 8}..{line}")  # fmt: skip
        self._shape = np.array([line.bit_length() - 1, sector.bit_length() - 1, piece.bit_length() - 1, ways, spread,
                                spread_lines.bit_length() - 1, window, grain.bit_length() - 1], np.int64)  # fmt: skip
        self._seen = np.full((SEEN_LINES, 3), -1, np.int64)
        self._ways = np.full(sets * ways, -1, np.int64)
        self._out = np.zeros(10, np.int64)
        self.hit_bytes = 0
        self.miss_bytes = 0
        self.evicted_bytes = 0

    def access(self, base: int, runs: Ints, write: bool, mode: str = "", asker: Asker = NOBODY) -> Access:
        """Look up one transfer whose GM operand starts at device address `base`; `mode` as `GlobalTensor.l2_hint`."""
        _access(base, runs, write, MODES[mode], self._shape, self._ways, self._seen, *asker, self._out)
        hit, missed, evicted, pieces, fetched, total, missing_runs, uneven, lines, shared = self._out.tolist()
        self.hit_bytes += hit
        self.miss_bytes += missed
        self.evicted_bytes += evicted
        return Access(hit, missed, evicted, pieces, total, fetched, missing_runs, uneven, lines, shared)
