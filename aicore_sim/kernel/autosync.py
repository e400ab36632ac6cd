"""What the vendor compiler's automatic synchronisation inserts on a vector core (spec api_semantics.md 19.1).

2201: PipeBarrier<V> between dependent vector instructions. All cards: flags from V, MTE2 and MTE3 to the scalar unit before
it reads or writes bytes that those pipes may still be working on. The opposite direction needs nothing in this model:
the scalar unit has finished an access before it issues the next instruction. Cube cores get nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aicore_sim.instructions.base import Op, Pipe
from aicore_sim.kernel.enums import HardEvent
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.kernel.context import Recorder

INSERTED_ID = 8
"""Event id of inserted flags: beyond the eight a kernel can name, so that they never collide with its own."""

_COVERED = ("GetValue", "SetValue")
"""Scalar accesses that the compiler looks at: of tensors, in GM only loads. Accesses past the data cache are not."""
_TO_SCALAR = {Pipe.V: HardEvent.V_S, Pipe.MTE2: HardEvent.MTE2_S, Pipe.MTE3: HardEvent.MTE3_S}
Span = tuple[Buffer, int, int, bool]


def _overlap(a: Span, b: Span) -> bool:
    """True if the two touch common bytes and one of them writes."""
    return a[0] is b[0] and a[1] < b[2] and b[1] < a[2] and (a[3] or b[3])


class AutoSync:
    """Accesses of one vector core that nothing has ordered yet. `order_v` is True where the compiler orders V after V."""

    def __init__(self, order_v: bool) -> None:
        self.order_v = order_v
        self._vector: list[Span] = []
        # One hull per pipe and buffer: coarser than the compiler, which only costs a flag too many.
        self._hulls: dict[Pipe, dict[int, Span]] = {pipe: {} for pipe in _TO_SCALAR}

    def before(self, rec: Recorder, op: Op, bufs: list[Buffer], offs: list[int], line: int) -> None:
        """Called before an instruction is appended; may append a barrier first."""
        pipe = op.pipe
        hulls = self._hulls.get(pipe)
        if hulls is None and pipe is not Pipe.V:
            return
        spans = [(bufs[i], offs[i] + lo, offs[i] + hi, True) for i, lo, hi in op.writes]
        spans += [(bufs[i], offs[i] + lo, offs[i] + hi, False) for i, lo, hi in op.reads]
        if pipe is Pipe.V and self.order_v:
            if any(_overlap(old, new) for old in self._vector for new in spans):
                rec.append(Entry(Kind.BARRIER, Pipe.V, line))
                self._vector.clear()
            self._vector.extend(spans)
        if hulls is None:
            return
        for span in spans:
            buffer, lo, hi, written = span
            key = id(buffer)
            old = hulls.get(key)
            if old is None:
                hulls[key] = span
            elif lo < old[1] or hi > old[2] or written > old[3]:
                hulls[key] = (buffer, min(lo, old[1]), max(hi, old[2]), written or old[3])

    def barrier(self, pipe: Pipe | None) -> None:
        """The kernel orders `pipe` itself (None: all pipes, the scalar unit included)."""
        if pipe is None or pipe is Pipe.V:
            self._vector.clear()
        if pipe is None:
            for hulls in self._hulls.values():
                hulls.clear()

    def before_scalar(self, rec: Recorder, entry: Entry) -> None:
        """Called before a scalar access is appended; may append flags first."""
        if entry.op is None or not entry.bufs or entry.op.api not in _COVERED:
            return
        if entry.bufs[0].kind == "GM" and entry.op.writes:
            return
        spans = [(entry.bufs[i], entry.offs[i] + lo, entry.offs[i] + hi, True) for i, lo, hi in entry.op.writes]
        spans += [(entry.bufs[i], entry.offs[i] + lo, entry.offs[i] + hi, False) for i, lo, hi in entry.op.reads]
        for pipe, hulls in self._hulls.items():
            if any(_overlap(old, new) for old in hulls.values() for new in spans):
                arg = (int(_TO_SCALAR[pipe]), INSERTED_ID)
                rec.append(Entry(Kind.SET_FLAG, pipe, entry.line, arg=arg))
                rec.append(Entry(Kind.WAIT_FLAG, Pipe.S, entry.line, arg=arg))
                hulls.clear()
                if pipe is Pipe.V:
                    self._vector.clear()
