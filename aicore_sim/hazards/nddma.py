"""The NDDMA cache: reads that may be served from lines older than a store to them, and NdDmaDci calls that protect no read.

A line stays in the cache of its vector core until NdDmaDci drops it (eviction is luck). So a read R may deliver old bytes if an
earlier NDDMA copy P of that core has filled a line of them, a store W, by anybody, was not complete before P began, and no NdDmaDci
behind W comes before R (spec coherence.md 6). Nobody who rewrites nothing is reported.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.coherence import NDDMA_STALE
from aicore_sim.hazards.dcache_lines import Cleanings
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import invalidate_nddma
from aicore_sim.hazards.gm import (
    Accesses,
    Findings,
    Incidents,
    Ints,
    Seen,
    accesses,
    bytes_of,
    common,
    named,
    site,
    whole_lines,
)
from aicore_sim.hazards.model import ERROR, NOTE, POSSIBLE, WARNING, Hazard
from aicore_sim.hazards.order import Order
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe

LINE_SIZES = (64, 128, 256, 512)
"""Line sizes in question (spec coherence.md 6); the card's own is assumed."""
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Stale:
    """A read served from lines that `fill` brought before `store`, which is in GM at row `arrival`: from which line size on, and
    the bytes concerned. `dci` is an NdDmaDci in between that comes before the store is ordered (NOWHERE: none)."""

    fill: int
    store: int
    arrival: int
    least_line: int
    spans: Ints
    dci: int = NOWHERE


class _Core:
    """The NDDMA reads of one core out of one allocation, and its NdDmaDci calls, in program order.

    `acts` are the rows at which the calls take effect for sure: their own where they are queued on MTE2, else the scalar row
    before them (NOWHERE: none).
    """

    def __init__(self, facts: Facts, reads: Accesses, dcis: Ints, acts: Ints) -> None:
        order = np.argsort(facts.seq[reads.row], kind="stable")
        self.reads = reads.where(order)
        self.seq = facts.seq[self.reads.row]
        self.dcis, self.acts = dcis, acts
        self.last = np.searchsorted(facts.seq[dcis], self.seq) - 1
        """Of every read the NdDmaDci before it, as index; -1 for none."""


class Checker:
    """One pass over the reads of a run."""

    def __init__(self, facts: Facts, order: Order) -> None:
        self.facts = facts
        self.order = order
        card = facts.card
        self.line = int(card.value("nddma.line"))
        self.queued, self.waits = card.flag("nddma.dci_queued"), card.flag("nddma.dci_waits")
        self.incidents = Incidents(facts, NDDMA_STALE)
        self.stale = Findings()
        self.needed: set[int] = set()
        """Rows of NdDmaDci calls that a read needs."""
        self._kept = NOWHERE
        """The last of them on the core looked at, as index."""
        self._last: tuple[int, Hashable, bool] | None = None
        """The last read of the core that has been reported, its key, and whether it is worth a warning only."""
        self._lines: dict[tuple[int, int, int, int], Ints] = {}

    def run(self) -> None:
        """Look at every NDDMA read, core by core in program order."""
        facts = self.facts
        places = _rewritten(facts)
        by_core: dict[int, list[tuple[int, int, int, _Core]]] = {}
        for uid, (reads, _, _) in places.items():
            for core in np.unique(facts.core[reads.row]).tolist():
                dcis = _dcis(facts, core)
                mine = _Core(facts, reads.where(facts.core[reads.row] == core), dcis, _acts(facts, dcis, self.queued))
                by_core.setdefault(core, []).extend((seq, uid, i, mine) for i, seq in enumerate(mine.seq.tolist()))
        for _, turns in sorted(by_core.items()):
            self._last, self._kept = None, NOWHERE
            for _, uid, i, mine in sorted(turns, key=lambda turn: turn[:3]):
                self._read(uid, mine, i, *places[uid][1:])

    def _read(self, uid: int, core: _Core, i: int, writes: Accesses, arrival: Ints) -> None:
        reads, facts = core.reads, self.facts
        row = int(reads.row[i])
        lo, hi = int(reads.lo[i]), int(reads.hi[i])
        size = self.line
        fills = np.flatnonzero((reads.lo[:i] // size * size < hi) & (-(-reads.hi[:i] // size) * size > lo))
        seen: Seen | None = None
        spans = bytes_of(facts, reads, i, False)
        if self.incidents:
            seen = self.incidents.seen(int(facts.core[row]), int(facts.seq[row]), uid, spans)
        if not fills.size:
            return
        near = np.flatnonzero((writes.lo < hi) & (writes.hi > lo))
        if not near.size:
            return
        self._behind_fills(uid, core, i, fills, writes, arrival, near, spans, seen)

    def _behind_fills(
        self, uid: int, core: _Core, i: int, fills: Ints, writes: Accesses, arrival: Ints, near: Ints, spans: Ints,
        seen: Seen | None,
    ) -> None:  # fmt: skip
        facts, row = self.facts, int(core.reads.row[i])
        ordered = self.order.befores(arrival[near], row)
        dci = int(core.last[i])
        behind = np.zeros(near.size, np.bool_)
        if dci >= 0 and core.acts[dci] >= 0:
            behind = self.order.befores(arrival[near], int(core.acts[dci]))
        if dci >= 0 and dci != self._kept:
            # Without it the read would find what an earlier copy has left, unless the call kept before is behind the store too.
            loose = near[ordered | (facts.core[writes.row[near]] != facts.core[row])]
            if self._kept >= 0 and core.acts[self._kept] >= 0:
                loose = loose[~self.order.befores(arrival[loose], int(core.acts[self._kept]))]
            if self._first(core, i, fills, writes, arrival, loose, spans, NOWHERE) is not None:
                self.needed.add(int(core.dcis[dci]))
                self._kept = dci
        found = self._first(core, i, fills, writes, arrival, near[ordered & ~behind], spans, dci)
        if found is None and seen is not None:
            found = self._first(core, i, fills, writes, arrival, near[~behind], spans, dci)
            found = None if found is None or found.dci >= 0 else found
        if found is not None:
            self._report(uid, row, found, bool(ordered[np.searchsorted(writes.row[near], found.store)]), seen)

    def _report(self, uid: int, row: int, found: _Stale, ordered: bool, seen: Seen | None) -> None:
        """A stale read; where the NdDmaDci proposed for the one before it would do, it belongs to that one, unless it is worse."""
        mild = found.dci >= 0 and self._surely(found)
        if self._last is not None and self.order.before(found.arrival, self._last[0]) and self._last[2] <= mild:
            key = self._last[1]
            self.stale.also(key, self.facts.where(row)[1], seen is not None)
            return
        key = (site(self.facts, row), site(self.facts, found.store), found.dci >= 0, mild)
        self._last = row, key, mild
        self.stale.add(key, partial(self._hazard, uid, row, found, ordered), seen)

    def _first(
        self, core: _Core, i: int, fills: Ints, writes: Accesses, arrival: Ints, chosen: Ints, spans: Ints, dci: int
    ) -> _Stale | None:  # fmt: skip
        """The newest store that an earlier copy of the read's lines comes too early for.

        Copies behind the NdDmaDci `dci` first: nothing helps against those. Then, with `Order` against it, those in front.
        """
        if not chosen.size:
            return None
        after = fills[core.seq[fills] > self.facts.seq[core.dcis[dci]]] if dci >= 0 else fills
        for group, call in ((after, NOWHERE), (fills[: fills.size - after.size], int(core.dcis[dci]) if dci >= 0 else NOWHERE)):
            if not group.size:
                continue
            # A copy that comes behind a store means that all later ones do.
            early = chosen[~self.order.befores(arrival[chosen], int(core.reads.row[group[0]]))]
            for w in early[::-1].tolist():
                both = common(bytes_of(self.facts, writes, w, True), spans)
                if not len(both):
                    continue
                found = self._fill(core, group, int(arrival[w]), both)
                if found is not None:
                    return _Stale(found[0], int(writes.row[w]), int(arrival[w]), found[1], both, call)
        return None

    def _fill(self, core: _Core, fills: Ints, arrival: int, both: Ints) -> tuple[int, int] | None:
        """(row, least line size) of an early copy that brought a line of the bytes `both`, at best without neighbours."""
        best: tuple[int, int] | None = None
        for p in fills.tolist():
            row = int(core.reads.row[p])
            if self.order.before(arrival, row):
                break
            own = bytes_of(self.facts, core.reads, p, False)
            if len(common(own, both)):
                return row, 1
            if not len(common(self._lines_of(core.reads, p, own, self.line), both)):
                continue
            least = next(size for size in (*LINE_SIZES, self.line)
                         if size == self.line or len(common(self._lines_of(core.reads, p, own, size), both)))  # fmt: skip
            if best is None or least < best[1]:
                best = row, least
        return best

    def _lines_of(self, reads: Accesses, p: int, own: Ints, size: int) -> Ints:
        key = (int(self.facts.op[reads.row[p]]), int(reads.operand[p]), int(reads.offset[p]), size)
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = whole_lines(own, size)
        return found

    # ---- reports ----------------------------------------------------------------------------------------------------
    def _hazard(self, uid: int, row: int, found: _Stale, ordered: bool) -> Hazard:
        facts = self.facts
        at, store, fill = facts.party(row), facts.party(found.store), facts.party(found.fill)
        place = facts.places[uid]
        lo, hi = int(found.spans[0, 0]), int(found.spans[-1, 1])
        fix, insert = invalidate_nddma(at.file, at.line)
        severity = ERROR
        detail = (f"{named(at)} may be served old bytes of {place.label} {lo}..{hi - 1}: {named(fill)} has put their line into "
                  f"the NDDMA cache, {named(store)} rewrites them, ")  # fmt: skip
        if found.dci < 0:
            detail += "and no NdDmaDci comes in between"
        else:
            call = facts.party(found.dci)
            detail += f"and the NdDmaDci of line {call.line} comes before that store is ordered"
            if self._surely(found):
                severity = WARNING
                detail += "; it helps only as long as nothing fills the line again before the order is made"
            else:
                detail += self._switches()
        if found.least_line > 1:
            detail += (f"; only their line is shared: true for lines of {found.least_line} B and more "
                       f"(nddma.line is assumed, here {self.line} B)")  # fmt: skip
        return Hazard("stale-nddma", severity, POSSIBLE, at, detail, fix, place.label, lo,
                      int((found.spans[:, 1] - found.spans[:, 0]).sum()), 1, store, ordered, False, insert=insert)  # fmt: skip

    def _surely(self, found: _Stale) -> bool:
        """Whether the fill is complete before the NdDmaDci acts, however that works."""
        dcis = np.array([found.dci])
        acts = int(_acts(self.facts, dcis, self.queued)[0])
        return acts >= 0 and self.order.before(found.fill, acts)

    def _switches(self) -> str:
        if not self.queued:
            return "; on this card (nddma.dci_queued, assumed) it acts when it is issued, perhaps before that copy"
        if not self.waits:
            return "; on this card (nddma.dci_waits, assumed) lines that copies in flight bring stay"
        return ("; whether it drops what that copy brings depends on nddma.dci_queued and nddma.dci_waits, which are assumed "
                "(here: queued on MTE2, and it waits for copies in flight)")  # fmt: skip


# ---- the rows in question -------------------------------------------------------------------------------------------
def _ops(facts: Facts, through: str) -> list[int]:
    return [index for index, op in enumerate(facts.ops) if op.through == through]


def _dcis(facts: Facts, core: int | None = None) -> Ints:
    """Rows of NdDmaDci, of one core or all, in program order of each core."""
    parts = [facts.rows_of_op[index] for index in _ops(facts, "nddma-invalidate") if index in facts.rows_of_op]
    rows: Ints = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    rows = rows if core is None else rows[facts.core[rows] == core]
    return rows[np.lexsort((facts.seq[rows], facts.core[rows]))]


def _acts(facts: Facts, dcis: Ints, queued: bool) -> Ints:
    """Rows by which calls of NdDmaDci have taken effect at the earliest: themselves, or the scalar row before each."""
    if queued or not dcis.size:
        return dcis
    scalar = np.flatnonzero(facts.pipe == int(Pipe.S))
    if not scalar.size:
        return np.full(dcis.size, NOWHERE, np.int64)
    keys = (facts.core[scalar] << 40) + facts.seq[scalar]
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], (facts.core[dcis] << 40) + facts.seq[dcis]) - 1
    found: Ints = np.where(at >= 0, scalar[order[at]], NOWHERE)
    return np.where((found >= 0) & (facts.core[found] == facts.core[dcis]), found, NOWHERE)


def _rewritten(facts: Facts) -> dict[int, tuple[Accesses, Accesses, Ints]]:
    """Allocations that are read by NDDMA and written: the reads, the stores, and the row at which each store is in GM."""
    reads = accesses(facts, _ops(facts, "nddma"), False)
    if not reads:
        return {}
    writes = accesses(facts, [i for i, op in enumerate(facts.ops) if op.writes], True)
    cleanings = Cleanings(facts)
    found = {}
    for uid, part in reads.items():
        stores = writes.get(uid)
        if stores is None:
            continue
        arrival = cleanings.arrivals(stores, uid)
        stores, arrival = stores.where(arrival >= 0), arrival[arrival >= 0]
        if len(stores):
            found[uid] = part, stores, arrival
    return found


def rows_to_keep(facts: Facts) -> Ints:
    """Rows that `find` asks the order about."""
    found = _rewritten(facts)
    if not found:
        return np.zeros(0, np.int64)
    dcis = _dcis(facts)
    acts = _acts(facts, dcis, facts.card.flag("nddma.dci_queued"))
    return np.unique(np.concatenate([acts[acts >= 0], *(reads.row for reads, _, _ in found.values())]))


def find(facts: Facts, order: Order) -> list[Hazard]:
    """`stale-nddma` (error) and `needless-dci` (note)."""
    if not _ops(facts, "nddma") and not _ops(facts, "nddma-invalidate"):
        return []
    checker = Checker(facts, order)
    checker.run()
    return [*checker.stale.all(), *_needless(facts, checker.needed)]


def _needless(facts: Facts, needed: set[int]) -> list[Hazard]:
    """Lines of which no NdDmaDci but the first of a core protects a read: one note each."""
    rows = _dcis(facts)
    first: NDArray[np.bool_] = np.ones(rows.size, np.bool_)
    first[1:] = facts.core[rows[1:]] != facts.core[rows[:-1]]
    by_line: dict[int, list[int]] = {}
    for row, is_first in zip(rows.tolist(), first.tolist(), strict=True):
        spare = by_line.setdefault(int(facts.columns.line[row]), [])
        if not is_first:
            spare.append(row)
    found = []
    for spare in by_line.values():
        if not spare or needed.intersection(spare):
            continue
        row = min(spare)
        at = facts.party(row)
        cycles = int((facts.columns.free[spare] - facts.columns.start[spare]).sum()) / TICKS_PER_CYCLE
        detail = (f"{named(at)} protects no read: nobody rewrites what the NDDMA cache holds then; "
                  f"{len(spare)} calls besides the first of each core cost {cycles:g} cycles of MTE2")  # fmt: skip
        fix = f"leave out asc.nd_dma_dci() in line {at.line}"
        found.append(Hazard("needless-dci", NOTE, POSSIBLE, at, detail, fix, count=len(spare)))
    return found
