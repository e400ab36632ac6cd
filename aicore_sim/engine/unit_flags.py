"""Unit flags of L0C: one bit per 512 B that couples Mmad and Fixpipe block by block (spec api_semantics.md 17).

For every block this keeps the tick at which its bit last rose (`ready`: may be read) and last fell (`free`: may be
written). An instruction that takes part works on its blocks one after another at an even pace and waits in front of a
block whose bit is wrong; so its own schedule and the ticks it leaves behind follow from the ticks before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 512
FRACTAL = 2 * BLOCK
"""16 x 16 results of 4 bytes."""
Ints = NDArray[np.int64]
Blocks = slice | Ints
"""Numbers of blocks in ascending order: a slice where they follow each other."""


class UnitFlags:
    """The bits of one L0C of `size` bytes."""

    def __init__(self, size: int) -> None:
        count = -(-size // BLOCK)
        self.up = np.zeros(count, np.bool_)
        """Current bit in execution order."""
        self.rose = np.zeros(count, np.int64)
        self.fell = np.zeros(count, np.int64)
        self.raised = 0
        """How many bits are up."""
        self.last_change = 0
        """Tick of the latest change of any bit: before it, waits are possible."""
        self.sleepers: list[Any] = []

    def blocks(self, spans: Sequence[tuple[int, int]]) -> Blocks:
        """Blocks that the byte ranges [lo, hi) touch."""
        lo, hi = spans[0]
        if len(spans) == 1:
            return slice(lo // BLOCK, -(-hi // BLOCK))
        return np.unique(np.concatenate([np.arange(lo // BLOCK, -(-hi // BLOCK)) for lo, hi in spans]))

    def must_sleep(self, where: Blocks, writer: bool) -> bool:
        """True if a block's bit is wrong and nothing executed so far will turn it: wait for another instruction."""
        if not self.raised:
            return not writer
        bits = self.up[where]
        return bool(bits.any()) if writer else not bool(bits.all())

    def quiet(self, start: int) -> bool:
        """True if no bit is up and none has changed since `start`: a writer meets no wait and leaves no trace."""
        return not self.raised and self.last_change <= start

    def timeline(self, where: Blocks, start: int, work: int, writer: bool) -> Ints:
        """Tick at which each block is worked off by an instruction that starts at `start` and alone needs `work` ticks.

        A block begins when the one before it is done and its own bit has turned; the last value is the end of the work.
        """
        count = where.stop - where.start if isinstance(where, slice) else where.size
        k: Ints = np.arange(count + 1, dtype=np.int64) * work // count
        if self.last_change <= start:
            straight: Ints = start + k[1:]
            return straight
        since = self.fell[where] if writer else self.rose[where]
        ready: Ints = np.maximum.accumulate(np.maximum(since, start) - k[:-1])
        ready += k[1:]
        return ready

    def leave(self, where: Blocks, done: Ints, writer: bool) -> None:
        """Turn the bits (value 3) at the ticks `done`, which ascend, and wake everybody who slept on a bit."""
        if writer:
            self.rose[where] = done
        else:
            self.fell[where] = done
        self.up[where] = writer
        self.raised = int(self.up.sum())
        self.last_change = max(self.last_change, int(done[-1]))
        sleepers, self.sleepers = self.sleepers, []
        for event in sleepers:
            event.succeed()


def whole_fractals(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges [lo, hi) lengthened to whole fractals.

    Mmad works on whole fractals, so a Fixpipe of its m rows takes both bits of the last fractal too, even if the rows it
    reads lie in the first half (spec api_semantics.md 17.1, 17.2: sizes of both equal, two bits a fractal).
    """
    return [(lo, lo + -(-(hi - lo) // FRACTAL) * FRACTAL) for lo, hi in spans]


def in_words(where: Blocks) -> str:
    """First and last block, for messages."""
    first, last = (where.start, where.stop - 1) if isinstance(where, slice) else (int(where[0]), int(where[-1]))
    return f"{first}..{last}"
