"""The scalar data caches: loads of old copies, and stores that had not been written back (spec coherence.md 3 to 5).

`stale-dcache`: a core loads from a copy that it had filled before a store of somebody else that is ordered before the load.
`dirty-dcache`: somebody reads GM while what is ordered before still sits in the storing core's cache, or it is lost at the end.
`false-sharing` is in sharing.py.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.coherence import DCACHE_DIRTY, DCACHE_LOST, DCACHE_STALE
from aicore_sim.hazards import sharing
from aicore_sim.hazards.dcache_lines import NOWHERE, CacheLine, Touch, cache_lines
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import Fix, clean_line, statement
from aicore_sim.hazards.gm import Findings, Incidents, Seen, named, site
from aicore_sim.hazards.model import ERROR, POSSIBLE, WARNING, Hazard
from aicore_sim.hazards.order import Order
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]


def rows_to_keep(facts: Facts) -> Ints:
    """Rows that `find` asks the order about."""
    rows = [row for line in cache_lines(facts) for row in line.rows()]
    return np.unique(np.array(rows, np.int64))


def find(facts: Facts, order: Order) -> list[Hazard]:
    """`stale-dcache`, `dirty-dcache` and `false-sharing`: errors; a missing DataSyncBarrier alone is a warning."""
    lines = cache_lines(facts)
    stale, dirty = Findings(), Findings()
    if lines:
        late, missed = Incidents(facts, DCACHE_STALE), Incidents(facts, DCACHE_DIRTY)
        barriers = Barriers(facts)
        for line in lines:
            _stale(facts, order, line, late, stale)
            _dirty(facts, order, line, missed, barriers, dirty)
    lost = [] if facts.card.flag("scalar.flush_at_end") else _lost(facts)
    return [*stale.all(), *dirty.all(), *lost, *sharing.find(facts, order, lines)]


# ---- old copies -----------------------------------------------------------------------------------------------------
def _stale(facts: Facts, order: Order, line: CacheLine, incidents: Incidents, found: Findings) -> None:
    """Loads of copies that are older than a store which is in GM before them."""
    for core, copies in line.copies.items():
        stores = _in_gm(facts, line, core)
        if not stores:
            continue
        arrivals = np.array([arrival for arrival, _ in stores], np.int64)
        for copy in copies:
            if len(copy.touches) < 2:
                continue
            newer = np.flatnonzero(~order.befores(arrivals, copy.touches[0].row))
            for i, load in enumerate(copy.touches):
                if load.write or i == 0 or not newer.size:
                    continue
                seen = _seen(facts, incidents, load.row, line.uid, load)
                ordered = order.befores(arrivals[newer], load.row)
                # Old bytes without any order can only be those of a store that came first in this run.
                known = [(at, True) for at in newer[ordered].tolist()]
                known = [(at, False) for at in newer[~ordered & (arrivals[newer] < load.row)].tolist() if seen] + known
                for at, in_order in known[::-1]:
                    arrival, store = stores[at]
                    if not store.meets(load):
                        continue
                    if in_order and _stored_since(order, copy.touches[:i], load, arrival):
                        continue
                    key = (site(facts, load.row), site(facts, store.row))
                    make = partial(_stale_hazard, facts, line, copy.touches[0], load, store, in_order)
                    found.add(key, make, seen)
                    break


def _in_gm(facts: Facts, line: CacheLine, core: int) -> list[tuple[int, Touch]]:
    """(row at which it is in GM, store) of stores that `core` did not make through its own cache, in order of those rows."""
    found = [(touch.row, touch) for touch in line.others if touch.write]
    for other, copies in line.copies.items():
        if other != core:
            found.extend((copy.cleaned, store) for copy in copies if copy.cleaned != NOWHERE for store in copy.stores)
    return sorted(found, key=lambda item: (item[0], item[1].row))


def _stored_since(order: Order, before: list[Touch], load: Touch, arrival: int) -> bool:
    """Whether the core has itself stored what it loads, behind the other's store."""
    return any(touch.write and touch.lo <= load.lo and load.hi <= touch.hi and order.before(arrival, touch.row) for touch in before)


def _seen(facts: Facts, incidents: Incidents, row: int, uid: int, what: Touch) -> Seen | None:
    if not incidents:
        return None
    return incidents.seen(int(facts.core[row]), int(facts.seq[row]), uid, np.array([[what.lo, what.hi]], np.int64))


def _stale_hazard(
    facts: Facts, line: CacheLine, fill: Touch, load: Touch, store: Touch, ordered: bool
) -> Hazard:  # fmt: skip
    at, other = facts.party(load.row), facts.party(store.row)
    place = facts.places[line.uid]
    detail = (f"{named(at)} may load old bytes of {place.label} {load.lo}..{load.hi - 1}: its core's data cache holds their line "
              f"since line {facts.where(fill.row)[1]}, {named(other)} rewrites them, and no DataCacheCleanAndInvalid of the line "
              "comes in between")  # fmt: skip
    words = f"add asc.data_cache_clean_and_invalid of the line before line {at.line}"
    fix, insert = _or_words(clean_line(at.file, at.line, after=False, load=True), words)
    return Hazard("stale-dcache", ERROR, POSSIBLE, at, detail, fix, place.label, load.lo, load.hi - load.lo, 1, other, ordered,
                  False, insert=insert)  # fmt: skip


def _or_words(fix: Fix, words: str) -> Fix:
    """The fix, or what to do in words where it cannot be read off the source."""
    return fix if fix[0] else (words, ())


# ---- stores that stay in the cache ----------------------------------------------------------------------------------
class Barriers:
    """What makes the scalar unit wait until a cleaned line is in GM: DataSyncBarrier, PIPE_ALL, SyncAll (spec coherence.md 3)."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        waits = np.isin(facts.kind, [int(Kind.BARRIER_ALL), int(Kind.SYNC_ALL)])
        for index, op in enumerate(facts.ops):
            if op.api == "DataSyncBarrier" and op.detail != "UB" and index in facts.rows_of_op:
                waits[facts.rows_of_op[index]] = True
        self._by_core: dict[int, tuple[Ints, Ints]] = {}
        for core in range(facts.cores):
            rows = np.flatnonzero(waits & (facts.core == core))
            rows = rows[np.argsort(facts.seq[rows], kind="stable")]
            self._by_core[core] = facts.seq[rows], rows
        self._scalar = np.flatnonzero(facts.pipe == int(Pipe.S))

    def between(self, order: Order, cleaned: int, reader: int) -> bool:
        """Whether one comes behind the row that cleaned and before the reader."""
        facts = self.facts
        numbers, rows = self._by_core[int(facts.core[cleaned])]
        at = int(np.searchsorted(numbers, facts.seq[cleaned], side="right"))
        if at == rows.size:
            return False
        row = int(rows[at])
        if facts.kind[row] == int(Kind.SYNC_ALL) and facts.core[row] != facts.core[reader]:
            # Others go on behind what came before a core's SyncAll; its own row stands where it went on itself.
            mine = self._scalar[facts.core[self._scalar] == facts.core[row]]
            row = int(mine[facts.seq[mine] < facts.seq[row]].max())
        return order.before(row, reader)


def _dirty(
    facts: Facts, order: Order, line: CacheLine, incidents: Incidents, barriers: Barriers, found: Findings
) -> None:  # fmt: skip
    """Reads of GM that come behind a cached store whose line has not been cleaned by then."""
    for core, copies in line.copies.items():
        stores = [(store, copy) for copy in copies for store in copy.stores]
        if not stores:
            continue
        rows = np.array([store.row for store, _ in stores], np.int64)
        for read in _readers(line, core):
            ordered = order.befores(rows, read.row)
            newest = next((i for i in np.flatnonzero(ordered)[::-1].tolist() if stores[i][0].meets(read)), None)
            if newest is None:
                continue
            store, copy = stores[newest]
            cleaned = copy.cleaned != NOWHERE and order.before(copy.cleaned, read.row)
            if not cleaned and facts.core[read.row] == core and NOWHERE != copy.ended < facts.seq[read.row]:
                continue  # the end of the block cleaned it
            if cleaned and barriers.between(order, copy.cleaned, read.row):
                continue
            if any(w.write and w.meets(read) and order.before(store.row, w.row) and order.before(w.row, read.row)
                   for w in line.others):  # fmt: skip
                continue  # somebody has rewritten it since
            seen = _seen(facts, incidents, read.row, line.uid, read)
            key = (site(facts, read.row), site(facts, store.row), cleaned)
            found.add(key, partial(_dirty_hazard, facts, line, store, read, copy.cleaned if cleaned else NOWHERE), seen)


def _readers(line: CacheLine, core: int) -> list[Touch]:
    """Who reads GM rather than the cache of `core`."""
    found = [touch for touch in line.others if not touch.write]
    for other, copies in line.copies.items():
        if other != core:
            found.extend(touch for copy in copies for touch in copy.touches if not touch.write)
    return found


def _dirty_hazard(facts: Facts, line: CacheLine, store: Touch, read: Touch, cleaned: int) -> Hazard:
    at, other = facts.party(read.row), facts.party(store.row)
    place = facts.places[line.uid]
    lo, hi = max(store.lo, read.lo), min(store.hi, read.hi)
    what = f"{place.label} {lo}..{hi - 1}"
    if cleaned == NOWHERE:
        detail = (f"{named(at)} may read old bytes of {what}: what {named(other)} has stored is in that core's data cache, and no "
                  "DataCacheCleanAndInvalid of its line comes before the read")  # fmt: skip
        words = f"add asc.data_cache_clean_and_invalid of the line and asc.data_sync_barrier behind line {other.line}"
        fix, insert = _or_words(clean_line(other.file, other.line, after=True, barrier=True), words)
    else:
        call = facts.party(cleaned)
        detail = (f"{named(at)} may read old bytes of {what}: the line that {named(other)} has stored to is cleaned in line "
                  f"{call.line}, but nothing waits until it is in GM (no DataSyncBarrier)")  # fmt: skip
        fix, insert = _after(call.file, call.line)
    return Hazard("dirty-dcache", ERROR if cleaned == NOWHERE else WARNING, POSSIBLE, at, detail, fix, place.label, lo, hi - lo, 1,
                  other, True, False, insert=insert)  # fmt: skip


def _after(file: str, line: int) -> Fix:
    return statement("asc.data_sync_barrier(asc.MemDsbT.DDR)", file, line, after=True)


# ---- the end of the kernel ------------------------------------------------------------------------------------------
def _lost(facts: Facts) -> list[Hazard]:
    """Stores that nothing has cleaned when a kernel ends that is built without DCCI there."""
    found = Findings()
    incidents = Incidents(facts, DCACHE_LOST)
    for line in cache_lines(facts, alone=True):
        for copies in line.copies.values():
            for copy in copies:
                stores = copy.stores
                if not stores or copy.cleaned != NOWHERE:
                    continue
                for store in stores:
                    seen = incidents.seen(copy.core, copy.ended, line.uid, np.array([[store.lo, store.hi]], np.int64))
                    found.add(site(facts, store.row), partial(_lost_hazard, facts, line, store), seen)
    return found.all()


def _lost_hazard(facts: Facts, line: CacheLine, store: Touch) -> Hazard:
    at = facts.party(store.row)
    place = facts.places[line.uid]
    detail = (f"what {named(at)} stores to {place.label} {store.lo}..{store.hi - 1} is lost: nothing cleans its line, and the "
              "build leaves out the DataCacheCleanAndInvalid at the end of the kernel (scalar.flush_at_end)")  # fmt: skip
    words = f"add asc.data_cache_clean_and_invalid of the line behind line {at.line}"
    fix, insert = _or_words(clean_line(at.file, at.line, after=True), words)
    return Hazard("dirty-dcache", ERROR, POSSIBLE, at, detail, fix, place.label, store.lo, store.hi - store.lo, visible=False,
                  insert=insert)  # fmt: skip

