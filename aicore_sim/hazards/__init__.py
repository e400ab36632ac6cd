"""Hazards of a run: races, stale caches, undefined reads, broken synchronisation (spec coherence.md, pitfalls.md).

Everything is worked out after the run, from its rows and their audit; a verdict rests on addresses and events, never on times.
"""

from __future__ import annotations

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.engine.columns import Columns
from aicore_sim.hazards import dcache, nddma, races
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import Hazard, Hazards
from aicore_sim.hazards.order import Order


def find_hazards(columns: Columns, card: Card) -> Hazards:
    """All findings of a run; none for a run without checks."""
    if columns.audit is None:
        return Hazards()
    facts = Facts(columns, card)
    order = Order(facts, keep=np.concatenate([nddma.rows_to_keep(facts), dcache.rows_to_keep(facts)]))
    found: list[Hazard] = [*races.find(facts, order), *nddma.find(facts, order), *dcache.find(facts, order)]
    return Hazards(found)
