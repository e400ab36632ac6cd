"""Hazards of a run: races, stale caches, undefined reads, broken synchronisation (spec coherence.md, pitfalls.md).

Everything is worked out after the run, from its rows and their audit; a verdict rests on addresses and events, never on times.
"""

from __future__ import annotations

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.engine.columns import Columns
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import dcache, deadlock, flags, layouts, nddma, overlaps, races, tensors, undefined
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import Hazard, Hazards
from aicore_sim.hazards.order import Order


def find_hazards(columns: Columns, card: Card, stopped: DeadlockError | None = None) -> Hazards:
    """All findings of a run; none for a run without checks. `stopped` is the error of one that could not go on; why it could not
    is what `of_deadlock` adds."""
    if columns.audit is None:
        return Hazards()
    facts = Facts(columns, card)
    order = Order(facts, np.concatenate([flags.rows_asked(facts), nddma.rows_to_keep(facts), dcache.rows_to_keep(facts)]))
    found: list[Hazard] = [*races.find(facts, order), *nddma.find(facts, order), *dcache.find(facts, order),
                           *undefined.find(facts), *tensors.find(facts), *overlaps.find(facts), *layouts.find(facts),
                           *flags.find(facts, order, stopped)]  # fmt: skip
    return Hazards(found)


def of_deadlock(error: DeadlockError, card: Card) -> Hazards:
    """Why a run could not go on, and what is wrong in the part that was executed."""
    executed = find_hazards(error.columns, card, error) if error.columns is not None else ()
    return Hazards([*deadlock.from_error(error, card), *executed])
