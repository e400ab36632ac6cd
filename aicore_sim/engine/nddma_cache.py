"""The NDDMA cache of one vector core: 32 KB of GM lines that nothing keeps coherent (spec coherence.md 6, hardware.md 12).

Line size, ways and replacement are not published: card data marked assumed. A line keeps the bytes it was filled with,
so a hit on a line that was rewritten in GM since delivers the old bytes; `invalidate` (NdDmaDci) drops every line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from aicore_sim.engine.l2 import Access
from aicore_sim.memory import Buffer
from aicore_sim.transfer import RUN_WORDS

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _lines(base: int, runs: Ints, line: int, out: Ints) -> int:
    """Line numbers in the order the copy touches them, consecutive repeats left out; returns how many."""
    count = 0
    last = -1
    for k in range(runs.shape[0]):
        for a in range(runs[k, 2]):
            for b in range(runs[k, 4]):
                for c in range(runs[k, 6]):
                    for d in range(runs[k, 8]):
                        for e in range(runs[k, 10]):
                            at = (
                                base + runs[k, 0] + a * runs[k, 3] + b * runs[k, 5] + c * runs[k, 7]
                                + d * runs[k, 9] + e * runs[k, 11]
                            )  # fmt: skip
                            for number in range(at // line, (at + runs[k, 1] - 1) // line + 1):
                                if number != last:
                                    if count < out.size:
                                        out[count] = number
                                    count += 1
                                    last = number
    return count


@njit(cache=True)  # type: ignore[untyped-decorator]
def _look_up(
    base: int, runs: Ints, line: int, ways: int, numbers: Ints, tags: Ints, used: Ints, clock: Ints, hit: NDArray[np.bool_],
    slot: Ints, missed: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """LRU look-up of each line in order; a miss takes the oldest way of its set, and its address goes to `missed`.

    Returns how many look-ups there are, how many missed, and how many of those follow right behind the line looked up
    before them; nothing is looked up where there are more than have room.
    """
    count = _lines(base, runs, line, numbers)
    misses = ahead = 0
    if count > numbers.size:
        return count, misses, ahead
    sets = tags.size // ways
    for i in range(count):
        clock[0] += 1
        first = (numbers[i] % sets) * ways
        victim = first
        found = -1
        for way in range(first, first + ways):
            if tags[way] == numbers[i]:
                found = way
                break
            if used[way] < used[victim]:
                victim = way
        hit[i] = found >= 0
        if found < 0:
            found = victim
            tags[found] = numbers[i]
            missed[misses, 0] = numbers[i] * line
            misses += 1
            if i > 0 and numbers[i] == numbers[i - 1] + 1:
                ahead += 1
        used[found] = clock[0]
        slot[i] = found
    return count, misses, ahead


@dataclass(slots=True)
class NddmaAccess:
    """Look-ups of one copy: `missed_runs` are the lines to fetch (`Transfer.src_runs` columns, device addresses),
    `stale` the (line address, old bytes) of hits whose GM bytes have changed. `ahead` of the misses are on the line behind
    the one before them: what a prefetch of the next line would already have asked for."""

    hits: int
    misses: int
    ahead: int
    missed_runs: Ints
    stale: list[tuple[int, Bytes]]


class NddmaCache:
    """`size`, `line` in bytes. `invalidated` counts NdDmaDci calls."""

    def __init__(self, size: int, line: int, ways: int) -> None:
        count = size // line
        self.line = line
        self.ways = min(ways, count)
        self._tags = np.full(count, -1, np.int64)
        self._used = np.zeros(count, np.int64)
        self._clock = np.zeros(1, np.int64)
        self._data = np.zeros((count, line), np.uint8)
        self._arrives = np.zeros(count, np.int64)
        self._fetched = np.zeros(0, np.int64)
        self._make_room(4096)
        self.hits = self.misses = self.stale_hits = self.invalidated = 0

    def _make_room(self, count: int) -> None:
        """Scratch for `count` look-ups of one copy."""
        self._numbers = np.empty(count, np.int64)
        self._hit = np.zeros(count, np.bool_)
        self._slot = np.zeros(count, np.int64)
        self._missed = np.ones((count, RUN_WORDS), np.int64)
        self._missed[:, 3::2] = 0
        self._missed[:, 1] = self.line

    def invalidate(self, keep_after: int | None = None) -> None:
        """NdDmaDci: every line is dropped, nothing is written back; with `keep_after` those that arrive behind that tick stay."""
        gone = slice(None) if keep_after is None else self._arrives <= keep_after
        self._tags[gone] = -1
        self._used[gone] = 0
        self.invalidated += 1

    def arrived(self, tick: int) -> None:
        """The lines that the last copy had to fetch are here at `tick`."""
        self._arrives[self._fetched] = tick

    def read(self, buffer: Buffer, address: int, runs: Ints) -> NddmaAccess:
        """Look up one NDDMA copy whose source starts at device `address` of `buffer`; misses are filled from GM now."""
        count, misses, ahead = self._look_up(address, runs)
        if count > self._numbers.size:
            self._make_room(count)
            count, misses, ahead = self._look_up(address, runs)
        self._fetched = self._slot[:count][~self._hit[:count]]
        stale = self._bytes(buffer, self._numbers[:count], self._hit, self._slot) if buffer.data is not None else []
        self.hits += count - misses
        self.misses += misses
        self.stale_hits += len(stale)
        return NddmaAccess(count - misses, misses, ahead, self._missed[:misses].copy(), stale)

    def _look_up(self, address: int, runs: Ints) -> tuple[int, int, int]:
        return _look_up(address, runs, self.line, self.ways, self._numbers, self._tags, self._used, self._clock, self._hit,
                        self._slot, self._missed)  # fmt: skip

    def _bytes(self, buffer: Buffer, numbers: Ints, hit: NDArray[np.bool_], slot: Ints) -> list[tuple[int, Bytes]]:
        """Compare the lines that hit with GM, fill the ones that missed. In line order, so a later hit sees the fill."""
        data, line = buffer.bytes(), self.line
        stale: dict[int, Bytes] = {}
        first = numbers * line - buffer.base
        for i in range(numbers.size):
            at = int(first[i])
            lo, hi = max(at, 0), min(at + line, data.size)
            row = self._data[slot[i]]
            fresh = data[lo:hi]
            if not hit[i]:
                row[lo - at : hi - at] = fresh
            elif not np.array_equal(row[lo - at : hi - at], fresh):
                stale[lo] = row[lo - at : hi - at].copy()
        return sorted(stale.items())


class MissSlots:
    """The limit of NDDMA misses in flight of one core, as a pace: `slots` misses that take L ticks each pass every L ticks.

    A burst of `slots` goes out at once; behind it a miss waits until a slot comes free. Misses of earlier copies count,
    so a stream of copies keeps the same pace. With `prefetch` a miss right behind the line before it is already on its way.
    """

    def __init__(self, slots: float, prefetch: bool) -> None:
        self._slots = slots
        self._prefetch = prefetch
        self._through = 0.0
        """Tick at which the last miss so far is answered if nothing else holds it up."""

    def waiting(self, found: NddmaAccess) -> int:
        """How many of the misses need a slot."""
        return found.misses - found.ahead if self._prefetch else found.misses

    def take(self, begin: int, misses: int, access: Access, latency: int, more: int) -> int:
        """Ticks after `begin` until the last of `misses` is on its way.

        A miss takes `latency`, and `more` where L2 missed too: `access` says for how large a part of them.
        """
        waits = misses * latency + misses * more * access.missed / max(access.hit + access.missed, 1)
        self._through = max(self._through, float(begin)) + waits / self._slots
        return max(math.ceil(self._through) - latency - (more if access.missed else 0) - begin, 0)


def patched_source(buffer: Buffer, lo: int, hi: int, stale: list[tuple[int, Bytes]]) -> Buffer:
    """The bytes [lo, hi) of `buffer` as the cache shows them: a private buffer of the same offsets."""
    view = Buffer("GM", hi, uid=buffer.uid, label=buffer.label, base=buffer.base)
    view.shadow = buffer.shadow
    view.bytes()[lo:hi] = buffer.bytes()[lo:hi]
    for at, old in stale:
        view.bytes()[at : at + old.size] = old
    return view
