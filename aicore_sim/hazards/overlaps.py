"""Tensors over each other: `live-overlap` of two declarations, `dst-overlap` inside one call (spec coherence.md 7, pitfalls P16).

A tensor is live from a write through it to the last read through it. What another declaration overwrites before anybody has read
it, and the first one reads afterwards, was meant to be two things at once. Memory that is used again after it was read, views,
casts and slices, work in place and constant fills that loads then go over are none of this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.footprint import expanded
from aicore_sim.hazards.model import OBSERVED, WARNING, Hazard
from aicore_sim.instructions.base import Op, Pipe, TransferEffect
from aicore_sim.instructions.fixpipe import FixpipeEffect
from aicore_sim.kernel.notes import OUT_OF_TENSOR
from aicore_sim.kernel.roots import NO_ROOT, Root, Roots
from aicore_sim.transfer import Copy, Transfer

Ints = NDArray[np.int64]
LIVE, DST = "live-overlap", "dst-overlap"


def find(facts: Facts) -> list[Hazard]:
    """Both kinds, one finding for each pair of kernel lines or kernel line."""
    return [*_live(facts), *_inside_calls(facts)]


# ---- two declarations ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Overlap:
    """The first time: rows that overwrote and read, roots of both, bytes of the buffer; and how often."""

    write: int
    read: int
    new: int
    old: int
    lo: int
    hi: int
    count: int = 1


def _live(facts: Facts) -> list[Hazard]:
    session = facts.audit.session
    uids = set(session.roots.first_shared) | {note.uid for note, _ in session.notes if note.kind == OUT_OF_TENSOR}
    found: dict[tuple[int, int], _Overlap] = {}
    for uid in sorted(uid for uid in uids if facts.places[uid].kind != "GM"):
        _Replay(facts, uid, session.roots, found).run()
    return [_live_hazard(facts, session.roots, one) for one in found.values()]


class _Replay:
    """The instructions on one buffer in program order, and for every byte who wrote what nobody has read.

    `pending` is the root through which a byte was written and not read since; `victim` the root whose unread byte was then
    overwritten through another one, `culprit` and `through` the row and the root that did it.
    """

    def __init__(self, facts: Facts, uid: int, roots: Roots, found: dict[tuple[int, int], _Overlap]) -> None:
        size = facts.places[uid].size
        self.facts, self.uid, self.roots, self.found = facts, uid, roots, found
        self.pending = np.full(size, NO_ROOT, np.int64)
        self.victim = np.full(size, NO_ROOT, np.int64)
        self.culprit = np.zeros(size, np.int64)
        self.through = np.full(size, NO_ROOT, np.int64)
        self._noted = {(entry.seq, tuple(b.uid for b in entry.bufs)): ids
                       for entry, ids in roots.noted if hasattr(entry, "seq")}  # fmt: skip
        end = roots.first_shared.get(uid, len(roots.table))
        self._alone = [(i, root) for i, root in enumerate(roots.table[:end]) if root.uid == uid]

    def run(self) -> None:
        facts = self.facts
        rows = np.unique(np.searchsorted(facts.audit.first, np.flatnonzero(facts.audit.uid == self.uid), side="right") - 1)
        rows = rows[facts.op[rows] >= 0]
        for row in rows[np.argsort(facts.seq[rows], kind="stable")].tolist():
            op, places = int(facts.op[row]), facts.operands(row)
            noted = self._noted.get((int(facts.seq[row]), tuple(uid for uid, _ in places)))
            mine = [(i, offset, noted[i] if noted is not None else self._by_address(offset))
                    for i, (uid, offset) in enumerate(places) if uid == self.uid]  # fmt: skip
            for index, offset, root in mine:
                for lo, hi in (facts.pieces(op, index, False) + offset).tolist():
                    self._read(row, root, lo, hi)
            for index, offset, root in mine:
                spans = (facts.pieces(op, index, True) + offset).tolist()
                lost = [self._lost(root, lo, hi, spans) for lo, hi in spans]
                for (lo, hi), gone in zip(spans, lost, strict=True):
                    self.victim[lo:hi] = np.where(gone, self.pending[lo:hi], NO_ROOT)
                    self.culprit[lo:hi], self.through[lo:hi] = row, root
                    self.pending[lo:hi] = root if facts.ops[op].reads else NO_ROOT

    def _by_address(self, offset: int) -> int:
        """The root of an operand before any two overlapped."""
        return next((i for i, root in self._alone if root.lo <= offset < root.hi), NO_ROOT)

    def _read(self, row: int, root: int, lo: int, hi: int) -> None:
        hit = np.flatnonzero(self.victim[lo:hi] == root) if root != NO_ROOT else np.zeros(0, np.int64)
        self.pending[lo:hi] = NO_ROOT
        if not hit.size:
            return
        at = lo + int(hit[0])
        write = int(self.culprit[at])
        lines = (int(self.facts.columns.line[write]), int(self.facts.columns.line[row]))
        if lines in self.found:
            self.found[lines].count += 1
        else:
            self.found[lines] = _Overlap(write, row, int(self.through[at]), root, at, lo + int(hit[-1]) + 1)
        self.victim[lo:hi][hit] = NO_ROOT

    def _lost(self, root: int, lo: int, hi: int, spans: list[list[int]]) -> NDArray[np.bool_]:
        """Which bytes of a write through `root` hold what another root wrote and nobody read."""
        old = self.pending[lo:hi]
        lost = (old != NO_ROOT) & (old != root) if root != NO_ROOT else np.zeros(hi - lo, np.bool_)
        for other in np.unique(old[lost]).tolist():
            if not self._counts(other, root, spans):
                lost &= old != other
        return lost

    def _counts(self, old: int, new: int, spans: list[list[int]]) -> bool:
        """A tensor inside another one is a view of it by hand. One of the same range is too, unless it replaces everything.

        So are windows that one line cuts out of a buffer again and again, at addresses of its own.
        """
        one, two = self.roots.table[old], self.roots.table[new]
        if one.line == two.line and one.times > 1:
            return False
        if (one.lo, one.hi) == (two.lo, two.hi):
            held = self.pending[one.lo : one.hi] == old
            for lo, hi in spans:
                held[max(lo - one.lo, 0) : max(hi - one.lo, 0)] = False
            return not held.any()
        return not (one.lo <= two.lo and two.hi <= one.hi) and not (two.lo <= one.lo and one.hi <= two.hi)


def _live_hazard(facts: Facts, roots: Roots, one: _Overlap) -> Hazard:
    writer, reader = facts.party(one.write), facts.party(one.read)
    place = facts.places[roots.table[one.old].uid]
    old, new = (_tensor(facts, roots.table[i]) for i in (one.old, one.new))
    detail = (f"{writer.api} (line {writer.line}) overwrites bytes {one.lo}..{one.hi - 1} of {place.label} through the {new},"
              f" which {reader.api} (line {reader.line}) then reads through the {old}")  # fmt: skip
    a, b = roots.table[one.old], roots.table[one.new]
    apart = a.hi <= b.lo or b.hi <= a.lo
    fix = (f"keep {writer.api} inside its tensor: it is {b.hi - b.lo} B long" if apart
           else f"move one of the tensors: the one at byte {b.lo} may start at byte {a.hi}")  # fmt: skip
    return Hazard(LIVE, WARNING, OBSERVED, reader, detail, fix, place.label, one.lo, one.hi - one.lo, one.count, writer)


def _tensor(facts: Facts, root: Root) -> str:
    line = facts.columns.lines[root.line][1]
    return f"{root.position} tensor at byte {root.lo} of {root.hi - root.lo} B (line {line})"


# ---- one call --------------------------------------------------------------------------------------------------------
def _inside_calls(facts: Facts) -> list[Hazard]:
    found: dict[tuple[int, str], tuple[int, int, tuple[int, int, int]]] = {}
    for op, rows in facts.rows_of_op.items():
        twice = written_twice(facts.ops[op])
        if twice is None:
            continue
        for line in np.unique(facts.columns.line[rows]).tolist():
            mine = rows[facts.columns.line[rows] == line]
            key = (line, facts.ops[op].api)
            row, count, where = found.get(key, (int(mine[0]), 0, twice))
            if mine[0] < row:
                row, where = int(mine[0]), twice
            found[key] = (row, count + int(mine.size), where)
    return [_call_hazard(facts, row, count, where) for row, count, where in found.values()]


def written_twice(op: Op) -> tuple[int, int, int] | None:
    """(operand, lo, hi) of the first bytes that a copy writes more than once, relative to the operand; None if there are none.

    Copies of MTE pipes and Fixpipe only: a vector instruction that writes one place repeatedly works in order, an atomic store
    adds up. Fills do not count: they are written around the data by the instruction itself.
    """
    effect = op.effect
    if op.pipe is Pipe.V:
        return None
    spans: list[Ints] = []
    if isinstance(effect, TransferEffect):
        for step in effect.transfer.steps:
            if isinstance(step, Copy):
                if step.nibble:
                    return None
                spans.append(_spans(Transfer((step,)).dst_runs))
    elif isinstance(effect, FixpipeEffect):
        spans.append(_spans(effect.written_runs(0)))
    if not spans:
        return None
    listed = np.concatenate(spans)
    listed = listed[np.argsort(listed[:, 0], kind="stable")]
    reach = np.maximum.accumulate(listed[:, 1])
    twice = np.flatnonzero(listed[1:, 0] < reach[:-1])
    if not twice.size:
        return None
    first = int(twice[0])
    return 0, int(listed[first + 1, 0]), int(min(reach[first], listed[first + 1, 1]))


def _spans(runs: Ints) -> Ints:
    found = expanded(runs)
    return found if found is not None else np.zeros((0, 2), np.int64)


def _call_hazard(facts: Facts, row: int, count: int, where: tuple[int, int, int]) -> Hazard:
    at = facts.party(row)
    operand, lo, hi = where
    uid, offset = facts.operands(row)[operand]
    place = facts.places[uid]
    detail = (f"{at.api} writes bytes {offset + lo}..{offset + hi - 1} of {place.label} more than once:"
              f" {facts.ops[int(facts.op[row])].detail}")  # fmt: skip
    fix = "make the destination stride at least as long as what one repeat writes"
    return Hazard(DST, WARNING, OBSERVED, at, detail, fix, place.label, offset + lo, hi - lo, count)
