"""Races: two instructions touch common bytes, one of them writes, and nothing orders them (spec coherence.md 7).

`race-raw`: a read may come before the write it needs; `race-war`: a write may come before the read of what was there; `race-waw`:
two writes may land in either order. Inside a core which of two came first is program order; between cores an overwrite of what had
been handed over is told from a read of what had not.
"""

from __future__ import annotations

from aicore_sim.hazards import clocks
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import barrier, flag_pair, statement
from aicore_sim.hazards.model import ERROR, OBSERVED, POSSIBLE, Hazard, Insertion, Party
from aicore_sim.hazards.order import Order, Race

_KINDS = {clocks.RAW: "race-raw", clocks.WAR: "race-war", clocks.WAW: "race-waw"}
_WORDS = {
    clocks.RAW: "{two} may read {what} before {one} has written it",
    clocks.WAR: "{two} may overwrite {what} while {one} still reads it",
    clocks.WAW: "{one} and {two} both write {what}, in an order that nothing fixes",
}


def find(facts: Facts, order: Order) -> list[Hazard]:
    """One hazard for each pair of source lines."""
    return [_hazard(facts, race) for race in order.races]


def _hazard(facts: Facts, race: Race) -> Hazard:
    one, two = facts.party(race.first), facts.party(race.second)
    place = race.place
    what = f"{place.label} bytes {race.address}..{race.address + race.bytes - 1}"
    kind = _KINDS[race.kind]
    detail = _WORDS[race.kind].format(one=_name(one), two=_name(two), what=what)
    fix, insert = _fix(facts, race, one, two)
    reads = race.kind == clocks.RAW
    return Hazard(
        kind, ERROR, OBSERVED if race.observed else POSSIBLE, two, detail, fix, place.label, race.address, race.bytes,
        race.count, one, ordered=False, visible=True if reads else None, insert=insert,
    )  # fmt: skip


def _name(party: Party) -> str:
    return f"{party.api} ({party.core} {party.pipe}, line {party.line})"
