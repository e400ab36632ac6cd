"""Reads that met a write in progress, with the bytes: what the reader began with, and what stood there when the write was done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aicore_sim.engine.audit import Audit
from aicore_sim.memory import Buffer, Bytes

TORN = "torn"
"""Kind of the incidents; the entry is the reader's."""
MOST_BYTES = 1 << 16
"""Bytes of an overlap that are compared."""
SHOWN = 16
"""Bytes that are kept from the first one that differs on."""


@dataclass(frozen=True, slots=True)
class Torn:
    """Entry `seq` of `core` reads bytes of `buffer` from `lo` on while another effect, that keeps this, writes them."""

    core: int
    seq: int
    buffer: Buffer
    lo: int
    before: Bytes

    @classmethod
    def take(cls, core: int, seq: int, buffer: Buffer, lo: int, hi: int) -> Torn:
        """The bytes as they are now."""
        return cls(core, seq, buffer, lo, buffer.bytes()[lo : min(hi, lo + MOST_BYTES)].copy())

    def file(self, audit: Audit) -> None:
        """The write is done: file what the reader missed, if the bytes have changed since."""
        after = self.buffer.bytes()[self.lo : self.lo + self.before.size]
        differing = np.flatnonzero(after != self.before)
        if differing.size:
            first, last = int(differing[0]), int(differing[-1]) + 1
            shown = slice(first, min(last, first + SHOWN))
            audit.incident(TORN, self.core, self.seq, self.buffer.uid, self.lo + first, self.lo + last,
                           self.before[shown].tobytes(), after[shown].tobytes())  # fmt: skip
