"""The rows of a run as the checks see them: threads, program order, operands, exact bytes, and parties for reports."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.engine.audit import AuditLog, Place
from aicore_sim.engine.columns import FLAG_IDS, Columns
from aicore_sim.hazards.footprint import pieces
from aicore_sim.hazards.model import Party
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Op, Pipe
from aicore_sim.kernel.events import event_name
from aicore_sim.kernel.program import CALLS, Kind

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
PIPES_PER_CORE = 8
"""Threads of a core: its pipes, and one for scalar accesses that the issue of an instruction does not wait for."""


class Facts:
    """Everything the checks read. Raises ValueError for columns of a run without checks."""

    def __init__(self, columns: Columns, card: Card) -> None:
        if columns.audit is None:
            raise ValueError("this run was made without checks")
        self.columns = columns
        self.card = card
        self.audit: AuditLog = columns.audit
        self.core: Ints = columns.core
        self.pipe: Ints = columns.pipe
        self.kind: Ints = columns.kind
        self.op: Ints = columns.op
        self.seq: Ints = self.audit.seq
        self.places: dict[int, Place] = self.audit.places
        self.ops: tuple[Op, ...] = columns.ops
        self._pieces: dict[tuple[int, int, bool], Ints] = {}

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def thread(self) -> Ints:
        """core * PIPES_PER_CORE + pipe of every row."""
        return self.core * PIPES_PER_CORE + self.pipe

    @cached_property
    def cores(self) -> int:
        return len(self.columns.cores)

    # ---- operands ---------------------------------------------------------------------------------------------------
    def operands(self, row: int) -> list[tuple[int, int]]:
        """(buffer uid, byte offset) of a row's operands."""
        lo, hi = int(self.audit.first[row]), int(self.audit.first[row + 1])
        return [(int(u), int(o)) for u, o in zip(self.audit.uid[lo:hi], self.audit.offset[lo:hi], strict=True)]

    def pieces(self, op: int, operand: int, write: bool) -> Ints:
        """The bytes an Op (by index) reads or writes of an operand, relative to its start: rows (lo, hi), ascending."""
        key = (op, operand, write)
        found = self._pieces.get(key)
        if found is None:
            found = self._pieces[key] = pieces(self.ops[op], operand, write)
        return found

    def touched(self, row: int, uid: int, write: bool) -> Ints:
        """The bytes of buffer `uid` that a row reads or writes: rows (lo, hi) of absolute byte offsets."""
        op = int(self.op[row])
        found = [self.pieces(op, i, write) + offset for i, (buffer, offset) in enumerate(self.operands(row)) if buffer == uid]
        return np.concatenate(found) if found else np.zeros((0, 2), np.int64)

    @cached_property
    def rows_of_op(self) -> dict[int, Ints]:
        """Rows of every Op that has any, ascending."""
        order = np.argsort(self.op, kind="stable")
        values, starts = np.unique(self.op[order], return_index=True)
        parts = np.split(order, starts[1:])
        return {int(value): rows for value, rows in zip(values, parts, strict=False) if value >= 0}

    # ---- rows -------------------------------------------------------------------------------------------------------
    @cached_property
    def _by_program(self) -> tuple[Ints, Ints]:
        key = (self.core << 40) + self.seq
        order = np.argsort(key, kind="stable")
        return key[order], order

    def row_of(self, core: int, seq: int) -> int:
        """The row of entry `seq` of `core`, -1 if it has none (it was not executed)."""
        keys, order = self._by_program
        wanted = (core << 40) + seq
        at = int(np.searchsorted(keys, wanted))
        return int(order[at]) if at < keys.size and keys[at] == wanted else -1

    def api(self, row: int) -> str:
        """The Ascend C name of the call behind a row."""
        index = int(self.op[row])
        return self.ops[index].api if index >= 0 else CALLS.get(Kind(int(self.kind[row])), Kind(int(self.kind[row])).name)

    def flag(self, row: int) -> tuple[str, int]:
        """(HardEvent name, id) of a row that sets or waits for an event flag."""
        code, ident = divmod(int(self.columns.arg[row]), FLAG_IDS)
        return event_name(code), ident

    def where(self, row: int) -> tuple[str, int]:
        """(kernel file, line)."""
        return self.columns.lines[int(self.columns.line[row])]

    def party(self, row: int) -> Party:
        """A row for a report."""
        c = self.columns
        file, line = self.where(row)
        same = (c.core[:row] == c.core[row]) & (c.line[:row] == c.line[row]) & (c.kind[:row] == c.kind[row])
        same &= c.pipe[:row] == c.pipe[row]
        return Party(
            c.cores[int(c.core[row])].label, Pipe(int(c.pipe[row])).name, self.api(row), file, line,
            int(c.start[row]) / TICKS_PER_CYCLE / c.clock_mhz, int(np.count_nonzero(same)),
        )  # fmt: skip
