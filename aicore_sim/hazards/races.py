"""Races: two instructions touch common bytes, one of them writes, and nothing orders them (spec coherence.md 7).

`race-raw`: a read may come before the write it needs; `race-war`: a write may come before the read of what was there; `race-waw`:
two writes may land in either order. Inside a core which of two came first is program order; between cores an overwrite of what had
been handed over is told from a read of what had not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np

from aicore_sim.engine.audit import Incident
from aicore_sim.engine.columns import FLAG_IDS
from aicore_sim.engine.torn import TORN
from aicore_sim.hazards import clocks
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import core_kind, flag_pair, meeting, statement
from aicore_sim.hazards.model import ERROR, OBSERVED, POSSIBLE, Hazard, Insertion, Party
from aicore_sim.hazards.order import Order, Race
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.events import event_code
from aicore_sim.kernel.program import Kind

_KINDS = {clocks.RAW: "race-raw", clocks.WAR: "race-war", clocks.WAW: "race-waw"}
_WORDS = {
    clocks.RAW: "{two} may read {what} before {one} has written it",
    clocks.WAR: "{two} may overwrite {what} while {one} still reads it",
    clocks.WAW: "{one} and {two} both write {what}, in an order that nothing fixes",
}


RESERVED_ID = 6
"""Event ids from here on are not free for a kernel (spec api_semantics.md 11.3)."""


def find(facts: Facts, order: Order) -> list[Hazard]:
    """One hazard for each call that is missing, as far as that can be told.

    Races of several writers with one reader, or of one reader with several writers, that the same pair of flags would end are
    one. Two writes without order are left out where the race of one of them with a reader says why, and so is overwriting
    what another core reads where that core did not even wait for it to be written.
    """
    torn = _torn(facts)
    explained = {_writer(facts, race) for race in order.races if race.kind != clocks.WAW}
    early = {(_site(facts, race.second), _site(facts, race.first)) for race in order.races
             if race.kind == clocks.RAW and facts.core[race.first] != facts.core[race.second]}  # fmt: skip
    found = []
    for race in sorted(order.races, key=lambda race: int(facts.seq[race.second])):
        sites = _site(facts, race.first), _site(facts, race.second)
        if not (explained & set(sites) if race.kind == clocks.WAW else race.kind == clocks.WAR and sites in early):
            found.append(_hazard(facts, race, torn))
    found = _grouped(found, lambda h: (h.kind, h.at.file, h.at.line, h.at.pipe, h.at.core, h.fix))
    return _grouped(found, lambda h: (h.kind, h.other and (h.other.file, h.other.line, h.other.pipe, h.other.core),
                                      h.at.pipe, h.at.core))  # fmt: skip


def _grouped(found: list[Hazard], key: Callable[[Hazard], Hashable]) -> list[Hazard]:
    """The findings with those of one key made one."""
    groups: dict[Hashable, Hazard] = {}
    for hazard in found:
        known = groups.get(key(hazard))
        groups[key(hazard)] = hazard if known is None else _joined(known, hazard)
    return list(groups.values())


def _site(facts: Facts, row: int) -> tuple[int, int]:
    """The kernel line and pipe of a row."""
    return int(facts.columns.line[row]), int(facts.pipe[row])


def _writer(facts: Facts, race: Race) -> tuple[int, int]:
    return _site(facts, race.first if race.kind == clocks.RAW else race.second)


def _joined(first: Hazard, second: Hazard) -> Hazard:
    """Two races that the call proposed for the first one ends, as one."""
    assert first.other is not None and second.other is not None
    verdict = OBSERVED if OBSERVED in (first.verdict, second.verdict) else POSSIBLE
    lines = f"lines {second.other.line} and {second.at.line}: {second.tensor} {second.address}"
    return replace(first, verdict=verdict, count=max(first.count, second.count), detail=f"{first.detail}; also {lines}")


def _torn(facts: Facts) -> dict[tuple[int, int, int], Incident]:
    """The first read of every line that met a write in progress, by (line, pipe, buffer)."""
    found: dict[tuple[int, int, int], Incident] = {}
    for incident in facts.audit.incidents:
        if incident.kind == TORN:
            row = facts.row_of(incident.core, incident.seq)
            if row >= 0:
                found.setdefault((*_site(facts, row), incident.uid), incident)
    return found


def _hazard(facts: Facts, race: Race, torn: dict[tuple[int, int, int], Incident]) -> Hazard:
    one, two = facts.party(race.first), facts.party(race.second)
    place = race.place
    what = f"{place.label} bytes {race.address}..{race.address + race.bytes - 1}"
    kind = _KINDS[race.kind]
    detail = _WORDS[race.kind].format(one=_name(one), two=_name(two), what=what)
    fix, insert = _fix(facts, race, one, two)
    reads = race.kind == clocks.RAW
    reader = race.second if reads else race.first
    met = torn.get((*_site(facts, reader), race.uid)) if race.kind != clocks.WAW else None
    got, wanted = (met.old, met.new) if met else (b"", b"")
    if not reads:
        got, wanted = wanted, got
    return Hazard(
        kind, ERROR, OBSERVED if race.observed else POSSIBLE, two, detail, fix, place.label, race.address, race.bytes,
        race.count, one, ordered=False, visible=not race.signalled if reads else None,
        old=got.hex(), new=wanted.hex(), insert=insert,
    )  # fmt: skip


def _name(party: Party) -> str:
    return f"{party.api} ({party.core} {party.pipe}, line {party.line})"


def _fix(facts: Facts, race: Race, one: Party, two: Party) -> tuple[str, tuple[Insertion, ...]]:
    """The call that orders the two, right before the later one."""
    c = facts.columns
    first, second = c.cores[int(facts.core[race.first])], c.cores[int(facts.core[race.second])]
    if race.signalled:
        return statement("asc.data_sync_barrier(asc.MemDsbT.DDR)", *facts.where(_cleaned(facts, race.first)), after=True)
    if first is not second:
        return _between_cores(facts, race, one, two)
    source, destination = Pipe(int(facts.pipe[race.first])), Pipe(int(facts.pipe[race.second]))
    if source is Pipe.S and race.place.kind == "GM":
        return statement("asc.data_sync_barrier(asc.MemDsbT.DDR)", two.file, two.line)
    ident = free_id(facts, race.second, source, destination)
    return flag_pair(source, destination, ident, two.file, two.line, card=facts.card, kind=core_kind(two.core))


def _cleaned(facts: Facts, store: int) -> int:
    """The row that writes the line of a scalar store back, the store itself where none does."""
    uid, offset = facts.operands(store)[0]
    line = int(facts.card.value("scalar.dcache_line"))
    mine = (facts.core == facts.core[store]) & (facts.seq > facts.seq[store])
    for row in np.flatnonzero(mine & (facts.pipe == int(Pipe.S))).tolist():
        if facts.api(row) == "DataCacheCleanAndInvalid":
            operands = facts.operands(row)
            if not operands or (operands[0][0] == uid and operands[0][1] // line == offset // line):
                return int(row)
    return store


def free_id(facts: Facts, row: int, source: Pipe, destination: Pipe) -> int | None:
    """The lowest event id of a pair that nobody uses on cores of this kind, reserved ones left out; None if there is none."""
    c = facts.columns
    kind = c.cores[int(c.core[row])].kind
    alike = np.array([info.kind == kind for info in c.cores])[facts.core]
    flags = np.isin(facts.kind, [int(Kind.SET_FLAG), int(Kind.WAIT_FLAG)])
    used = set(np.unique(c.arg[alike & flags]).tolist())
    code = event_code(source, destination)
    return next((ident for ident in range(RESERVED_ID) if code * FLAG_IDS + ident not in used), None)


def _between_cores(facts: Facts, race: Race, one: Party, two: Party) -> tuple[str, tuple[Insertion, ...]]:
    c = facts.columns
    first, second = c.cores[int(facts.core[race.first])], c.cores[int(facts.core[race.second])]
    if not facts.card.ids("sync.sync_all_ids"):
        return "", ()
    if first.kind == second.kind:
        return meeting("asc.sync_all()", one, two)
    used = set(np.unique(c.arg[np.isin(facts.kind, [int(Kind.CROSS_SET), int(Kind.CROSS_WAIT)])]).tolist())
    ident = next((i for i in facts.card.ids("sync.cross_core_ids") if i not in used), None)
    if ident is None or first.group != second.group:
        return meeting("asc.sync_all(is_aiv_only=False)", one, two)
    set_it = statement(f"asc.cross_core_set_flag({ident}, 2, asc.PipeID.PIPE_{one.pipe})", one.file, one.line, after=True)
    pipe = f", asc.PipeID.PIPE_{two.pipe}" if facts.card.npu_arch == 3510 else ""
    wait = statement(f"asc.cross_core_wait_flag({ident}, 2{pipe})", two.file, two.line)
    return f"{set_it[0]}; {wait[0]}", (*set_it[1], *wait[1])
