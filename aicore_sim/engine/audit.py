"""What a run keeps for its checks, besides its rows: program order, operands, blocks, and what only the engine can see.

Everything a check says is worked out from this and the rows after the run (`aicore_sim.hazards`). It is kept for every row
that `Columns` has, in the same order.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.kernel.context import Session

Ints = NDArray[np.int64]
COUNT_SHIFT = 48
"""A mark is the number of an entry on its core, with the number of its operands above."""
PLACE_SHIFT = 44
"""A place is a byte offset with the uid of its buffer above."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A fact that only the running engine knows, with the bytes where there are any.

    `core` and `seq` name the entry it happened to (`Entry.seq`); `uid`, `lo`, `hi` the buffer and bytes; `old` is what was
    delivered or stood there, `new` what should have been or what came instead. The kinds are those of who files them.
    """

    kind: str
    core: int
    seq: int
    uid: int
    lo: int
    hi: int
    old: bytes = b""
    new: bytes = b""


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer that rows name by uid: one allocation of GM, or one local memory of a core."""

    kind: str
    label: str
    size: int
    base: int


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """A block was over on `core`, all its pipes drained: `seq` is a number of its own in program order, `row` the number of
    rows the run had by then, `block` which block it was."""

    core: int
    block: int
    seq: int
    row: int


@dataclass(slots=True)
class AuditLog:
    """The finished audit. `seq` and `first` belong to the rows: entry number on its core, index of its first operand
    (length rows + 1). `uid` and `offset` are the operands; of CROSS_SET and CROSS_WAIT the one "operand" is (0, mode), of
    SYNC_ALL (0, 1 if all cores meet, else 0)."""

    seq: Ints
    first: Ints
    uid: Ints
    offset: Ints
    ends: tuple[BlockEnd, ...]
    incidents: tuple[Incident, ...]
    places: dict[int, Place]
    auto_sync: bool
    session: Session


class Audit:
    """Filled while the run goes on."""

    def __init__(self) -> None:
        self._marks = array("q")
        self._places = array("q")
        self._ends: list[BlockEnd] = []
        self._incidents: list[Incident] = []
        self.mark = self._marks.append
        """Called by a pipe with the mark of every row that has no operands."""

    def row(self, entry: Entry) -> None:
        """The row about to be kept is that of `entry`."""
        bufs = entry.bufs
        self._marks.append(entry.seq | len(bufs) << COUNT_SHIFT)
        keep = self._places.append
        for buffer, offset in zip(bufs, entry.offs, strict=False):
            keep((buffer.uid << PLACE_SHIFT) + offset)

    def sync_row(self, entry: Entry) -> None:
        """The same for a row of synchronisation, with what of its argument the row has no room for."""
        kind, arg = entry.kind, entry.arg
        if kind is Kind.CROSS_SET or kind is Kind.CROSS_WAIT:
            detail = int(arg[1])
        elif kind is Kind.SYNC_ALL:
            detail = int(arg[0] == "mix")
        else:
            self.row(entry)
            return
        self._marks.append(entry.seq | 1 << COUNT_SHIFT)
        self._places.append(detail)

    def block_over(self, core: int, block: int, seq: int, rows: int) -> None:
        """A block is over and its core drained."""
        self._ends.append(BlockEnd(core, block, seq, rows))

    def incident(
        self, kind: str, core: int, seq: int, uid: int, lo: int, hi: int, old: bytes = b"", new: bytes = b""
    ) -> None:
        """File a fact about bytes [lo, hi) of buffer `uid` that entry `seq` of `core` met."""
        self._incidents.append(Incident(kind, core, seq, uid, lo, hi, old, new))

    def finish(self, session: Session, buffers: list[Buffer]) -> AuditLog:
        """The audit as arrays."""
        marks = np.array(self._marks, np.int64)
        places = np.array(self._places, np.int64)
        first = np.zeros(marks.size + 1, np.int64)
        np.cumsum(marks >> COUNT_SHIFT, out=first[1:])
        return AuditLog(
            marks & ((1 << COUNT_SHIFT) - 1), first, places >> PLACE_SHIFT, places & ((1 << PLACE_SHIFT) - 1),
            tuple(self._ends), tuple(self._incidents),
            {b.uid: Place(b.kind, b.label, b.size, b.base) for b in buffers}, session.auto_sync, session,
        )  # fmt: skip
