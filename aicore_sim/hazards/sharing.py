"""Lines of the scalar data cache with several writers: a write-back carries all bytes of a line (spec coherence.md 5).

A core's copy of a line lives from its first access to the DataCacheCleanAndInvalid that writes it back. Whatever somebody else puts
into the line in that time, the write-back puts the old bytes over it. So every other store to the line has to be in GM before the
copy is filled, or to begin behind the write-back. The line decides, not the words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import Incident
from aicore_sim.engine.coherence import DCACHE_CLOBBER, WORD
from aicore_sim.hazards.dcache_lines import NOWHERE, CacheLine, Copy, Touch
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import Fix, clean_line
from aicore_sim.hazards.footprint import merged
from aicore_sim.hazards.gm import SHOWN, Findings, Seen, named, site
from aicore_sim.hazards.model import ERROR, POSSIBLE, Hazard
from aicore_sim.hazards.order import Order

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Writer:
    """Somebody else's writing of a line: it begins with row `first` and is in GM at row `done` (NOWHERE: at the end)."""

    first: int
    done: int
    store: Touch
    copy: Copy | None = None


def find(facts: Facts, order: Order, lines: list[CacheLine]) -> list[Hazard]:
    """`false-sharing` of these lines."""
    found = Findings()
    clobbers = _clobbers(facts, lines)
    for line in lines:
        groups = _groups(facts, line)
        for copies in line.copies.values():
            for copy in copies:
                if copy.stores:
                    _copy(facts, order, line, copy, groups, clobbers.get((line.uid, line.number), []), found)
    return found.all()


def _groups(facts: Facts, line: CacheLine) -> dict[tuple[int, int], list[_Writer]]:
    """The writers of a line by core and pipe, each in program order; -1 stands for the core's cached stores."""
    found: dict[tuple[int, int], list[_Writer]] = {}
    for core, copies in line.copies.items():
        held = [_Writer(copy.touches[0].row, copy.cleaned, copy.stores[-1], copy) for copy in copies if copy.stores]
        if held:
            found[core, -1] = held
    for touch in line.others:
        if touch.write:
            key = int(facts.core[touch.row]), int(facts.pipe[touch.row])
            found.setdefault(key, []).append(_Writer(touch.row, touch.row, touch))
    for writers in found.values():
        writers.sort(key=lambda writer: int(facts.seq[writer.first]))
    return found


def _copy(
    facts: Facts, order: Order, line: CacheLine, copy: Copy, groups: dict[tuple[int, int], list[_Writer]],
    clobbers: list[Incident], found: Findings,
) -> None:  # fmt: skip
    """Other writers that meet one dirty copy."""
    first = copy.touches[0].row
    for (core, pipe), writers in groups.items():
        if pipe < 0 and core <= copy.core:
            continue  # every pair of cores once
        done = np.array([writer.done for writer in writers], np.int64)
        # Those in GM before the fill come first in program order, those behind the write-back last.
        over = done != NOWHERE
        over[over] = order.befores(done[over], first)
        lo = int(np.flatnonzero(over)[-1]) + 1 if over.any() else 0
        hi = _behind(facts, order, copy, core, writers, lo)
        for writer in writers[lo:hi]:
            if _plain_race(order, copy, writer) or _stored_over(order, copy, writer):
                continue
            seen = _clobbered(facts, clobbers, copy, writer)
            key = tuple(sorted((site(facts, copy.stores[-1].row), site(facts, writer.store.row))))
            found.add(key, partial(_hazard, facts, order, line, copy, writer), seen)


def _behind(facts: Facts, order: Order, copy: Copy, core: int, writers: list[_Writer], lo: int) -> int:
    """Index of the first writer from `lo` on that begins behind the write-back of the copy."""
    hi = len(writers)
    while lo < hi:
        middle = (lo + hi) // 2
        row = writers[middle].first
        if copy.cleaned != NOWHERE:
            behind = order.before(copy.cleaned, row)
        else:
            behind = core == copy.core and NOWHERE != copy.ended < facts.seq[row]
        lo, hi = (lo, middle) if behind else (middle + 1, hi)
    return lo


def _plain_race(order: Order, copy: Copy, writer: _Writer) -> bool:
    """Whether the two write the same bytes only, without any order: that is a race and no matter of lines."""
    stores = copy.stores
    mine = (min(s.lo for s in stores), max(s.hi for s in stores))
    theirs = [writer.store] if writer.copy is None else writer.copy.stores
    if (min(s.lo for s in theirs), max(s.hi for s in theirs)) != mine:
        return False
    return not order.before(stores[-1].row, theirs[0].row) and not order.before(theirs[-1].row, stores[0].row)


def _stored_over(order: Order, copy: Copy, writer: _Writer) -> bool:
    """Whether all that one has written was in GM before the other one stored the same bytes: then a write-back undoes nothing."""
    if writer.copy is None:
        return _over(order, [writer.store], writer.done, copy.stores)
    theirs = writer.copy.stores
    return _over(order, theirs, writer.done, copy.stores) or _over(order, copy.stores, copy.cleaned, theirs)


def _over(order: Order, first: list[Touch], done: int, later: list[Touch]) -> bool:
    """Whether the stores `later` that come behind row `done` cover all bytes of the stores `first`."""
    behind = [[s.lo, s.hi] for s in later if done != NOWHERE and order.before(done, s.row)]
    if not behind:
        return False
    spans = merged(np.array(behind, np.int64))
    return all(bool(((spans[:, 0] <= s.lo) & (s.hi <= spans[:, 1])).any()) for s in first)


def _clobbers(facts: Facts, lines: list[CacheLine]) -> dict[tuple[int, int], list[Incident]]:
    """Write-backs over newer bytes, by line."""
    size = int(facts.card.value("scalar.dcache_line"))
    found: dict[tuple[int, int], list[Incident]] = {(line.uid, line.number): [] for line in lines}
    for incident in facts.audit.incidents:
        if incident.kind == DCACHE_CLOBBER:
            found.setdefault((incident.uid, incident.lo // size), []).append(incident)
    return found


def _clobbered(facts: Facts, clobbers: list[Incident], copy: Copy, writer: _Writer) -> Seen | None:
    """The first bytes of one of the two that the write-back of the other one undid."""
    pairs = [(copy, [writer.store] if writer.copy is None else writer.copy.stores)]
    if writer.copy is not None:
        pairs.append((writer.copy, copy.stores))
    for back, stores in pairs:
        first = int(facts.seq[back.touches[0].row])
        last = int(facts.seq[back.cleaned]) if back.cleaned != NOWHERE else back.ended
        for incident in clobbers:
            if incident.core != back.core or not first <= incident.seq <= last:
                continue
            old, new = np.frombuffer(incident.old, np.uint8), np.frombuffer(incident.new, np.uint8)
            places = np.flatnonzero(old != new) + incident.lo
            hit = places[np.any([(places >= s.lo) & (places < s.hi) for s in stores], axis=0)]
            if hit.size:
                at = int(hit[0]) // WORD * WORD
                shown = slice(at - incident.lo, at - incident.lo + SHOWN)
                return Seen(at, int(hit.size), incident.new[shown].hex(), incident.old[shown].hex())
    return None


def _hazard(facts: Facts, order: Order, line: CacheLine, copy: Copy, writer: _Writer) -> Hazard:
    mine, theirs = copy.stores[-1], writer.store
    at, other = facts.party(mine.row), facts.party(theirs.row)
    place = facts.places[line.uid]
    size = int(facts.card.value("scalar.dcache_line"))
    start = line.number * size
    line_text = f"the {size} B line {place.label} {start}..{start + size - 1}"
    detail = (f"{named(at)} stores bytes {mine.lo}..{mine.hi - 1} and {named(other)} bytes {theirs.lo}..{theirs.hi - 1} of "
              f"{line_text}; the write-back of the line puts old bytes of the copy over what the other one has stored")  # fmt: skip
    ordered = order.before(mine.row, theirs.row) or order.before(theirs.row, mine.row)
    fix, insert = _fix(facts, mine, theirs, at.file, at.line)
    return Hazard("false-sharing", ERROR, POSSIBLE, at, detail, fix, place.label, theirs.lo, theirs.hi - theirs.lo, 1, other,
                  ordered, False, insert=insert)  # fmt: skip


def _fix(facts: Facts, mine: Touch, theirs: Touch, file: str, line: int) -> Fix:
    """Clean behind the store where one core does both, one after the other; else lines have to be kept apart."""
    if facts.core[mine.row] == facts.core[theirs.row] and facts.seq[mine.row] < facts.seq[theirs.row]:
        fix = clean_line(file, line, after=True, barrier=True)
        if fix[0]:
            return fix
    size = int(facts.card.value("scalar.dcache_line"))
    return f"give every writer a line of {size} B of its own, or store with asc.write_gm_by_pass_dcache or MTE3", ()
