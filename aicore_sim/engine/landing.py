"""When bytes move: effects of instructions in progress, in the order that the hardware guarantees (DESIGN: Data).

An effect normally lands whole at the end of its instruction. If another instruction that touches the same bytes starts
before that end, the hardware's order decides: where it orders the two (accumulating Mmads by their rule, V after V where
the card does so, UnitFlag), the first lands before the second begins; otherwise both land in shares spread over their
time, so that a missing flag tears the data as it does on the chip.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import simpy
from simpy.events import URGENT

from aicore_sim.instructions.base import Effect, Op, Pipe
from aicore_sim.kernel.program import Entry
from aicore_sim.memory import Buffer

SHARES = 16
"""Into how many shares an effect is cut once it overlaps another one without order."""

Ordered = Callable[[Op, Op], bool]
Span = tuple[Buffer, int, int]
"""(buffer, first byte, end)."""


class InFlight:
    """One effect that has begun and not fully landed, with the bytes it writes and reads."""

    __slots__ = ("core", "done", "effect", "end", "entry", "reads", "shares", "start", "writes")

    def __init__(self, entry: Entry, op: Op, core: int, start: int, end: int) -> None:
        bufs, offs = entry.bufs, entry.offs
        self.entry = entry
        self.core = core
        self.start = start
        self.end = end
        self.writes: list[Span] = [(bufs[i], offs[i] + lo, offs[i] + hi) for i, lo, hi in op.writes]
        self.reads: list[Span] = [(bufs[i], offs[i] + lo, offs[i] + hi) for i, lo, hi in op.reads]
        self.effect: Effect = op.effect  # type: ignore[assignment]
        self.done = 0
        self.shares = 1

    def upto(self, share: int) -> None:
        """Land everything before `share` of `shares`."""
        if share > self.done:
            entry = self.entry
            self.effect.apply(entry.bufs, entry.offs, self.done, share, self.shares)
            self.done = share


def _land(flight: InFlight, share: int, _event: Any) -> None:
    flight.upto(share)


def _touches(spans: list[Span], buffer: Buffer, lo: int, hi: int) -> bool:
    return any(b is buffer and first < hi and lo < last for b, first, last in spans)


class Landing:
    """All effects in flight of a run with data. Every buffer lists its `writers` and `readers` among them."""

    def __init__(self, env: simpy.Environment, ordered: Ordered) -> None:
        self.env = env
        self.ordered = ordered

    def begin(self, entry: Entry, core: int, start: int, end: int) -> InFlight:
        """Register the effect of an instruction that starts now; `end` may be an estimate (`finish_at` is final)."""
        new = InFlight(entry, entry.op, core, start, end)  # type: ignore[arg-type]
        for buffer, lo, hi in new.reads:
            if buffer.writers:
                for other in tuple(buffer.writers):
                    if _touches(other.writes, buffer, lo, hi):
                        self._meet(other, new)
            buffer.readers.append(new)
        for buffer, lo, hi in new.writes:
            if buffer.writers or len(buffer.readers) > 1:
                for other in (*buffer.writers, *buffer.readers):
                    spans = other.writes if other in buffer.writers else other.reads
                    if other is not new and _touches(spans, buffer, lo, hi):
                        self._meet(other, new)
            elif buffer.readers and buffer.readers[0] is not new and _touches(buffer.readers[0].reads, buffer, lo, hi):
                self._meet(buffer.readers[0], new)
        for buffer, _, _ in new.writes:
            buffer.writers.append(new)
        return new

    def _meet(self, old: InFlight, new: InFlight) -> None:
        """Two effects want the same bytes at the same time."""
        if old.core == new.core and self.ordered(old.entry.op, new.entry.op):  # type: ignore[arg-type]
            old.upto(old.shares)
        else:
            self._spread(old)
            self._spread(new)

    def _spread(self, flight: InFlight) -> None:
        """From now on the effect lands in shares over its time."""
        if flight.shares == SHARES or flight.done:
            return
        flight.shares = SHARES
        now, span = int(self.env.now), flight.end - flight.start
        for share in range(1, SHARES):
            at = flight.start + span * share // SHARES
            if at <= now:
                flight.upto(share)
            else:
                self._at(at, partial(_land, flight, share))

    def finish_at(self, flight: InFlight, end: int) -> None:
        """The effect is complete at tick `end` (now or later)."""
        flight.end = end
        self._at(end, lambda _event: self._finish(flight))

    def _at(self, tick: int, action: Callable[[Any], None]) -> None:
        # Urgent: at one tick, effects land before anybody who waited for them goes on.
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks = [action]
        self.env.schedule(event, URGENT, tick - self.env.now)

    def _finish(self, flight: InFlight) -> None:
        flight.upto(flight.shares)
        for buffer, _, _ in flight.writes:
            buffer.writers.remove(flight)
        for buffer, _, _ in flight.reads:
            buffer.readers.remove(flight)


def hardware_order(v_after_v: bool) -> Ordered:
    """Which instructions of one core the hardware keeps in order although their times overlap.

    V after V where `v_after_v` (3510, 3002: spec api_semantics.md 19.1); Mmad after Mmad on one L0C tile from 10 fractals
    on (18); Mmad against Fixpipe when both use UnitFlag (17).
    """

    def ordered(first: Op, second: Op) -> bool:
        if first.pipe is Pipe.V and second.pipe is Pipe.V:
            return v_after_v
        if first.pipe is Pipe.M and second.pipe is Pipe.M:
            cost: Any = first.cost
            return bool((cost.m // 16) * (cost.n // 16) >= 10)
        if first.unit_flag and second.unit_flag and {first.pipe, second.pipe} == {Pipe.M, Pipe.FIX}:
            return True
        return False

    return ordered
