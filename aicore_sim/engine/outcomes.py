"""What the L2 answered to every GM transfer of a run, kept so that the run can be repeated with the same answers.

Without contention transfers begin at other times and would meet another L2. A replay therefore gives every transfer the
hits, misses and write-backs that it had when the cores shared L2 and memory: what is left out is waiting, nothing else.
"""

from __future__ import annotations

import struct
from typing import Protocol

from aicore_sim.engine.l2 import Access, Asker, Ints, L2Cache

Lane = tuple[int, int]
"""(block, pipe). Blocks rather than cores: with more blocks than cores, time decides on which core a block runs."""
_RECORD = struct.Struct("q8I")
"""First address, then the fields of Access up to `uneven`: 40 bytes a transfer, millions of which must fit. Lines shared
with other cores are left out: waiting for them is contention."""


class Outcomes(Protocol):
    """Stands between a transfer and the L2; `look_up` takes what `L2Cache.access` takes, and who is asking."""

    def look_up(self, l2: L2Cache, lane: Lane, base: int, runs: Ints, write: bool, mode: str, asker: Asker) -> Access: ...


class Recorded:
    """Looks everything up and keeps the answers, in the order in which each lane asked."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, bytearray] = {}

    def look_up(self, l2: L2Cache, lane: Lane, base: int, runs: Ints, write: bool, mode: str, asker: Asker) -> Access:
        a = l2.access(base, runs, write, mode, asker)
        kept = self._lanes.get(lane)
        if kept is None:
            kept = self._lanes[lane] = bytearray()
        kept += _RECORD.pack(_first(base, runs), a.hit, a.missed, a.evicted, a.pieces, a.runs, a.fetched, a.missing_runs,
                             a.uneven)  # fmt: skip
        return a

    def answer(self, lane: Lane, n: int, first: int) -> Access | None:
        """The answer to the n-th transfer of a lane; None if there was none, or if it did not begin at address `first`."""
        kept = self._lanes.get(lane, b"")
        if (n + 1) * _RECORD.size > len(kept):
            return None
        at, *numbers = _RECORD.unpack_from(kept, n * _RECORD.size)
        return Access(*numbers) if at == first else None


class Replay:
    """Gives the recorded answers. A transfer without one (a kernel that decided differently) gets the L2's own.

    The L2 is looked up in any case, so that its content is there for transfers of the second kind. `fresh` counts them.
    """

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._done: dict[Lane, int] = {}
        self.fresh = 0

    def look_up(self, l2: L2Cache, lane: Lane, base: int, runs: Ints, write: bool, mode: str, asker: Asker) -> Access:
        now = l2.access(base, runs, write, mode)  # with nobody else about: no waiting for others on a line
        n = self._done.get(lane, 0)
        self._done[lane] = n + 1
        then = self._recorded.answer(lane, n, _first(base, runs))
        if then is None:
            self.fresh += 1
            return now
        l2.hit_bytes += then.hit - now.hit
        l2.miss_bytes += then.missed - now.missed
        l2.evicted_bytes += then.evicted - now.evicted
        return then


def _first(base: int, runs: Ints) -> int:
    return base + int(runs[0, 0]) if len(runs) else base
