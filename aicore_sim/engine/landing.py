"""When bytes move: effects of instructions in progress, in the order that the hardware guarantees (DESIGN: Data).

An effect normally lands whole at the end of its instruction. If another instruction that touches the same bytes starts
before that end, the hardware's order decides: where it orders the two (accumulating Mmads by their rule, V after V where
the card does so, UnitFlag), the first lands before the second begins; otherwise both land in shares, so that a missing
flag tears the data as it does on the chip. A share is read while the instruction holds its pipe, [start, free), and written
as much later as its effects are late, [start + end - free, end): a short instruction has read all of its operands before
anything of it is written, and so does not see the one right before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.events import URGENT

from aicore_sim.engine.audit import Audit
from aicore_sim.engine.torn import Torn
from aicore_sim.engine.undefined import note_store
from aicore_sim.instructions.base import Effect, Op, Pipe
from aicore_sim.kernel.program import Entry
from aicore_sim.memory import Buffer, Bytes

SHARES = 16
"""Into how many shares an effect is cut once it overlaps another one without order."""
MOST_FROZEN = 1 << 22
"""Longest range of an operand that is copied when it is read before it is used; longer ones are read late."""

Ordered = Callable[[Op, Op], bool]
Span = tuple[Buffer, int, int]
"""(buffer, first byte, end)."""


class InFlight:
    """One effect that has begun and not fully landed, with the bytes it writes and reads.

    `frozen` holds, for shares that were read and not written yet, the operands as they were then; None while nobody
    changes them in between.
    """

    __slots__ = ("core", "done", "effect", "end", "entry", "free", "frozen", "reads", "shares", "start", "torn",
                 "writes")  # fmt: skip

    def __init__(self, entry: Entry, op: Op, core: int, start: int, free: int, end: int) -> None:
        bufs, offs = entry.bufs, entry.offs
        self.entry = entry
        self.core = core
        self.start = start
        self.free = free
        self.end = end
        self.writes: list[Span] = [(bufs[i], offs[i] + lo, offs[i] + hi) for i, lo, hi in op.writes]
        self.reads: list[Span] = [(bufs[i], offs[i] + lo, offs[i] + hi) for i, lo, hi in op.reads]
        self.effect: Effect = op.effect  # type: ignore[assignment]
        self.done = 0
        self.shares = 1
        self.frozen: dict[int, _Operands] | None = None
        self.torn: list[Torn] = []
        """Reads that met this effect while it was writing."""

    def upto(self, share: int) -> None:
        """Land everything before `share` of `shares`."""
        if share <= self.done:
            return
        entry, frozen = self.entry, self.frozen
        if frozen is None:
            self.effect.apply(entry.bufs, entry.offs, self.done, share, self.shares)
        else:
            for part in range(self.done, share):
                operands = frozen.pop(part, None)
                if operands is None:
                    self.effect.apply(entry.bufs, entry.offs, part, part + 1, self.shares)
                else:
                    operands.apply(self.effect, entry, part, self.shares)
        self.done = share


class _Operands:
    """The operands of an instruction with private copies of what it has read so far.

    An operand that is read and written (the L0C of an accumulating Mmad) is written from its copy: the bytes that the
    effect changed.
    """

    __slots__ = ("both", "bufs")

    def __init__(self, entry: Entry, op: Op) -> None:
        self.bufs = list(entry.bufs)
        self.both: list[tuple[Buffer, Buffer, int, int]] = []
        """(copy, the buffer itself, first byte, end) of operands that are read and written."""
        written = {i for i, _, _ in op.writes}
        for i in sorted({i for i, _, _ in op.reads}):
            spans = [(entry.offs[i] + lo, entry.offs[i] + hi) for j, lo, hi in op.reads if j == i]
            lo, hi = min(lo for lo, _ in spans), max(hi for _, hi in spans)
            if hi - lo <= MOST_FROZEN:
                self.bufs[i] = _copy(entry.bufs[i], lo, hi)
                if i in written:
                    self.both.append((self.bufs[i], entry.bufs[i], lo, hi))

    def apply(self, effect: Effect, entry: Entry, part: int, of: int) -> None:
        """Perform share `part`."""
        before = [_copy(copy, lo, hi) for copy, _, lo, hi in self.both]
        effect.apply(self.bufs, entry.offs, part, part + 1, of)
        for old, (copy, real, lo, hi) in zip(before, self.both, strict=True):
            _carry(old.bytes()[lo:hi], copy.bytes()[lo:hi], real.bytes()[lo:hi])
            if real.shadow is not None and old.shadow is not None and copy.shadow is not None:
                _carry(old.shadow[lo:hi], copy.shadow[lo:hi], real.shadow[lo:hi])


def _copy(buffer: Buffer, lo: int, hi: int) -> Buffer:
    """A private buffer with the bytes [lo, hi) of `buffer` at their place."""
    copy = Buffer(buffer.kind, hi, uid=buffer.uid, label=buffer.label, base=buffer.base)
    copy.bytes()[lo:hi] = buffer.bytes()[lo:hi]
    if buffer.shadow is not None:
        copy.mark_all()[lo:hi] = buffer.shadow[lo:hi]
    return copy


def _carry(before: Bytes, after: Bytes, real: Bytes) -> None:
    changed = before != after
    real[changed] = after[changed]


def _touches(spans: list[Span], buffer: Buffer, lo: int, hi: int) -> bool:
    for b, first, last in spans:  # noqa: SIM110  a generator would cost more than the loop
        if b is buffer and first < hi and lo < last:
            return True
    return False


class Landing:
    """All effects in flight of a run with data. Every buffer lists its `writers` and `readers` among them.

    Effects that are complete wait in `_due` until somebody looks: whoever reads or writes bytes calls `settle` first. That
    spares an event for every instruction and changes nothing, since nobody can tell.
    """

    def __init__(self, env: simpy.Environment, ordered: Ordered, audit: Audit | None = None) -> None:
        self.env = env
        self.ordered = ordered
        self.audit = audit
        self._due: list[tuple[int, int, InFlight]] = []
        self._count = 0

    def settle(self, now: int) -> None:
        """Land everything that is complete by tick `now`, in the order of completion."""
        due = self._due
        while due and due[0][0] <= now:
            self._finish(heappop(due)[2])

    def settle_all(self) -> None:
        """Land everything: the simulation is over."""
        while self._due:
            self._finish(heappop(self._due)[2])

    def begin(self, entry: Entry, core: int, start: int, free: int, end: int) -> InFlight:
        """Register the effect of an instruction that starts now; `free` and `end` may be estimates (`finish_at` is final)."""
        self.settle(int(self.env.now))
        new = InFlight(entry, entry.op, core, start, free, end)  # type: ignore[arg-type]
        for buffer, lo, hi in new.reads:
            if buffer.writers:
                for other in tuple(buffer.writers):
                    if _touches(other.writes, buffer, lo, hi):
                        self._meet(other, new, new, buffer, lo, hi)
            buffer.readers.append(new)
        for buffer, lo, hi in new.writes:
            if buffer.writers or len(buffer.readers) > 1:
                for other in tuple(buffer.writers):
                    if _touches(other.writes, buffer, lo, hi):
                        self._meet(other, new, None, buffer, lo, hi)
                for other in tuple(buffer.readers):
                    if other is not new and _touches(other.reads, buffer, lo, hi):
                        self._meet(other, new, other, buffer, lo, hi)
            elif buffer.readers and buffer.readers[0] is not new and _touches(buffer.readers[0].reads, buffer, lo, hi):
                self._meet(buffer.readers[0], new, buffer.readers[0], buffer, lo, hi)
        for buffer, _, _ in new.writes:
            buffer.writers.append(new)
        return new

    def _meet(self, old: InFlight, new: InFlight, reader: InFlight | None, buffer: Buffer, lo: int, hi: int) -> None:
        """Two effects want bytes [lo, hi) of `buffer` at the same time; `reader` reads what the other one writes."""
        if old.core == new.core and self.ordered(old.entry.op, new.entry.op):  # type: ignore[arg-type]
            old.upto(old.shares)
        else:
            self._spread(old)
            self._spread(new)
            if reader is not None:
                if reader.frozen is None:
                    self._freeze(reader)
                if self.audit is not None:
                    writer = old if reader is new else new
                    writer.torn.append(Torn.take(reader.core, reader.entry.seq, buffer, lo, hi))

    def _spread(self, flight: InFlight) -> None:
        """From now on the effect lands in shares over its time."""
        if flight.shares == SHARES or flight.done:
            return
        flight.shares = SHARES
        now, first, span = int(self.env.now), flight.start + flight.end - flight.free, flight.free - flight.start
        for share in range(1, SHARES):
            at = first + span * share // SHARES
            if at <= now:
                flight.upto(share)
            else:
                self._at(at, partial(self._land, flight, share))

    def _freeze(self, flight: InFlight) -> None:
        """From now on a share is written from what its operands were when it was read."""
        flight.frozen = {}
        now, span = int(self.env.now), flight.free - flight.start
        past: _Operands | None = None
        for share in range(flight.done, SHARES):
            at = flight.start + span * share // SHARES
            if at > now:
                self._at(at, partial(self._read, flight, share))
            else:
                past = past or _Operands(flight.entry, flight.entry.op)  # type: ignore[arg-type]
                flight.frozen[share] = past

    def _land(self, flight: InFlight, share: int, _event: Any) -> None:
        self.settle(int(self.env.now))
        flight.upto(share)

    def _read(self, flight: InFlight, share: int, _event: Any) -> None:
        self.settle(int(self.env.now))
        if share >= flight.done and flight.frozen is not None:
            flight.frozen[share] = _Operands(flight.entry, flight.entry.op)  # type: ignore[arg-type]

    def finish_at(self, flight: InFlight, end: int) -> None:
        """The effect is complete at tick `end` (now or later)."""
        flight.end = end
        self._count += 1
        heappush(self._due, (end, self._count, flight))

    def _at(self, tick: int, action: Callable[[Any], None]) -> None:
        # Urgent: at one tick, effects land before anybody who waited for them goes on.
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks = [action]
        self.env.schedule(event, URGENT, tick - self.env.now)

    def _finish(self, flight: InFlight) -> None:
        flight.upto(flight.shares)
        if flight.torn and self.audit is not None:
            for torn in flight.torn:
                torn.file(self.audit)
        for buffer, _, _ in flight.writes:
            buffer.writers.remove(flight)
            if buffer.shadow is not None and buffer.kind == "GM" and self.audit is not None:
                note_store(self.audit, flight.core, flight.entry)
        for buffer, _, _ in flight.reads:
            buffer.readers.remove(flight)


def hardware_order(v_after_v: bool) -> Ordered:
    """Which instructions of one core the hardware keeps in order although their times overlap.

    V after V where `v_after_v` (`vector.keeps_order` of the card: spec api_semantics.md 19.1); Mmad after Mmad on one L0C
    tile from 10 fractals on (18); Mmad against Fixpipe when both use UnitFlag (17).
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
