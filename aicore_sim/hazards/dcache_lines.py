"""Who touches which line of the scalar data caches, and when a core holds a copy of it (spec coherence.md 1, 3).

A core holds a line from its first cached access (a store fills the line too) to the next DataCacheCleanAndInvalid of it, or to the
end of the block: that is a `Copy`. Replacement is luck and does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.gm import Accesses, accesses, bytes_of, common

Ints = NDArray[np.int64]
NOWHERE = -1


class Cleanings:
    """The DataCacheCleanAndInvalid calls that reach GM, by core and line."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.line = int(facts.card.value("scalar.dcache_line"))
        self._rows: dict[tuple[int, int, int], list[int]] = {}
        self._whole: dict[int, list[int]] = {}
        self._known: dict[tuple[int, int, int], tuple[Ints, Ints]] = {}
        for index, op in enumerate(facts.ops):
            if op.api != "DataCacheCleanAndInvalid" or op.through != "dcache":
                continue
            for row in facts.rows_of_op.get(index, np.zeros(0, np.int64)).tolist():
                core = int(facts.core[row])
                operands = facts.operands(row)
                if operands:
                    uid, offset = operands[0]
                    self._rows.setdefault((core, uid, offset // self.line), []).append(row)
                else:
                    self._whole.setdefault(core, []).append(row)

    def of(self, core: int, uid: int, line: int) -> tuple[Ints, Ints]:
        """(entry numbers, rows) of the calls of `core` that clean line number `line` of an allocation, in program order."""
        key = (core, uid, line)
        found = self._known.get(key)
        if found is None:
            rows = np.array([*self._rows.get(key, ()), *self._whole.get(core, ())], np.int64)
            rows = rows[np.argsort(self.facts.seq[rows], kind="stable")]
            found = self._known[key] = self.facts.seq[rows], rows
        return found

    def next(self, core: int, uid: int, line: int, seq: int) -> int:
        """The row of the first such call behind entry `seq`; NOWHERE for none."""
        numbers, rows = self.of(core, uid, line)
        at = int(np.searchsorted(numbers, seq, side="right"))
        return int(rows[at]) if at < rows.size else NOWHERE

    def arrivals(self, stores: Accesses, uid: int) -> Ints:
        """The row at which each store is in GM: its own, or that which cleans its line; NOWHERE if that never happens."""
        facts = self.facts
        found = stores.row.copy()
        cached = np.array([op.through == "dcache" for op in facts.ops], np.bool_)[facts.op[found]]
        for i in np.flatnonzero(cached).tolist():
            row = int(stores.row[i])
            found[i] = self.next(int(facts.core[row]), uid, int(stores.lo[i]) // self.line, int(facts.seq[row]))
        return found


@dataclass(frozen=True, slots=True)
class Touch:
    """A row's access to bytes [lo, hi) of one line, as offsets in the allocation."""

    row: int
    lo: int
    hi: int
    write: bool

    def meets(self, other: Touch) -> bool:
        """Whether both touch some byte."""
        return self.lo < other.hi and other.lo < self.hi


@dataclass(slots=True)
class Copy:
    """One core's copy of a line: its cached accesses in program order, the row that cleaned it (NOWHERE: the end of the block
    did, or nothing), and the entry number of that end (NOWHERE: none)."""

    core: int
    touches: list[Touch]
    cleaned: int
    ended: int

    @property
    def stores(self) -> list[Touch]:
        return [touch for touch in self.touches if touch.write]


@dataclass(slots=True)
class CacheLine:
    """A line of an allocation: the copies of every core, and what is done to its bytes past the data caches."""

    uid: int
    number: int
    copies: dict[int, list[Copy]] = field(default_factory=dict)
    others: list[Touch] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        """Whether some store can meet somebody else's access."""
        stored = any(touch.write for touch in self.others) or any(c.stores for held in self.copies.values() for c in held)
        return stored and len(self.copies) + bool(self.others) > 1

    def rows(self) -> list[int]:
        """All rows that touch the line."""
        held = [touch.row for copies in self.copies.values() for copy in copies for touch in copy.touches]
        return [*held, *(touch.row for touch in self.others)]


def cache_lines(facts: Facts, alone: bool = False) -> list[CacheLine]:
    """The lines that some core accesses through its data cache and that somebody else touches too (`alone`: or not), by place."""
    cached = [i for i, op in enumerate(facts.ops) if op.through == "dcache" and (op.reads or op.writes)]
    past = [i for i, op in enumerate(facts.ops) if op.through != "dcache"]
    if not cached:
        return []
    cleanings = Cleanings(facts)
    size = cleanings.line
    touched: dict[tuple[int, int], dict[int, list[tuple[int, Touch]]]] = {}
    for write in (False, True):
        for uid, what in accesses(facts, cached, write).items():
            cores, seqs = facts.core[what.row].tolist(), facts.seq[what.row].tolist()
            for core, seq, row, lo, hi in zip(cores, seqs, what.row.tolist(), what.lo.tolist(), what.hi.tolist(), strict=True):
                touched.setdefault((uid, lo // size), {}).setdefault(core, []).append((seq, Touch(row, lo, hi, write)))
    others = _others(facts, past, {key: None for key in sorted(touched)}, size)
    ends = _block_ends(facts)
    found = []
    for (uid, number), by_core in sorted(touched.items()):
        line = CacheLine(uid, number, others=others.get((uid, number), []))
        for core, held in sorted(by_core.items()):
            held.sort(key=lambda item: item[0])
            line.copies[core] = _copies(core, held, cleanings.of(core, uid, number), ends.get(core, np.zeros(0, np.int64)))
        if alone or line.shared:
            found.append(line)
    return found


def _copies(core: int, held: list[tuple[int, Touch]], cleaned: tuple[Ints, Ints], ends: Ints) -> list[Copy]:
    """Accesses of one core cut where its copy was dropped."""
    seqs = np.array([seq for seq, _ in held], np.int64)
    numbers, rows = cleaned
    by_call, by_end = np.searchsorted(numbers, seqs), np.searchsorted(ends, seqs)
    found: list[Copy] = []
    last = (NOWHERE, NOWHERE)
    for (_, touch), call, end in zip(held, by_call.tolist(), by_end.tolist(), strict=True):
        if (call, end) != last:
            ended = int(ends[end]) if end < ends.size else NOWHERE
            first = call < numbers.size and (ended == NOWHERE or numbers[call] < ended)
            found.append(Copy(core, [], int(rows[call]) if first else NOWHERE, ended))
            last = (call, end)
        found[-1].touches.append(touch)
    return found


def _block_ends(facts: Facts) -> dict[int, Ints]:
    """Entry numbers of the ends of blocks of every core, ascending."""
    found: dict[int, list[int]] = {}
    for end in facts.audit.ends:
        found.setdefault(end.core, []).append(end.seq)
    return {core: np.array(sorted(seqs), np.int64) for core, seqs in found.items()}


def _others(
    facts: Facts, ops: list[int], wanted: dict[tuple[int, int], None], size: int
) -> dict[tuple[int, int], list[Touch]]:
    """Accesses past the data caches to the wanted lines, in row order; of each the bytes from first to last in the line."""
    numbers: dict[int, list[int]] = {}
    for uid, number in wanted:
        numbers.setdefault(uid, []).append(number)
    lines = {uid: np.array(sorted(found), np.int64) for uid, found in numbers.items()}
    found: dict[tuple[int, int], list[Touch]] = {}
    known: dict[tuple[int, int, int, bool, int], list[tuple[int, int, int]]] = {}
    for write in (False, True):
        for uid, what in accesses(facts, ops, write).items():
            if uid not in lines:
                continue
            mine = lines[uid]
            first = np.searchsorted(mine, what.lo // size)
            last = np.searchsorted(mine, (what.hi - 1) // size, side="right")
            for i in np.flatnonzero(last > first).tolist():
                row = int(what.row[i])
                key = (int(facts.op[row]), int(what.operand[i]), int(what.offset[i]), write, uid)
                if key not in known:
                    spans = bytes_of(facts, what, i, write)
                    near = mine[first[i] : last[i]]
                    known[key] = [(number, int(part[0, 0]), int(part[-1, 1])) for number in near.tolist()
                                  if len(part := common(np.array([[number * size, (number + 1) * size]]), spans))]  # fmt: skip
                for number, lo, hi in known[key]:
                    found.setdefault((uid, number), []).append(Touch(row, lo, hi, write))
    for touches in found.values():
        touches.sort(key=lambda touch: (touch.row, touch.write))
    return found
