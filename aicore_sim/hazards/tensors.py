"""Accesses outside what they name: `out-of-tensor`, `gm-out-of-bounds` (spec coherence.md 7).

Both are seen while the kernel is recorded. Behind a tensor but inside its buffer lies other data: dangerous, and now and then
meant so. Behind an argument in GM lies memory of nobody.
"""

from __future__ import annotations

import numpy as np

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import OBSERVED, WARNING, Hazard
from aicore_sim.kernel.notes import GM_OUT_OF_BOUNDS, Note


def find(facts: Facts) -> list[Hazard]:
    """One hazard for each kind, kernel line and call."""
    found = []
    for note, count in facts.audit.session.notes:
        row = _row(facts, note)
        if row >= 0:
            found.append(_hazard(facts, row, note, count))
    return found


def _row(facts: Facts, note: Note) -> int:
    """The first row of the call on its core; -1 if it was not executed."""
    c = facts.columns
    rows = np.flatnonzero((c.line == note.line) & (c.core == note.core) & (c.op >= 0))
    return next((int(row) for row in rows if facts.ops[int(c.op[row])].api == note.api), -1)


def _hazard(facts: Facts, row: int, note: Note, count: int) -> Hazard:
    nbytes = note.hi - note.lo
    if note.kind == GM_OUT_OF_BOUNDS:
        fix = f"make the argument at least {note.hi} B long, or copy {nbytes} B less: a tail goes with DataCopyPad"
    else:
        fix = f"declare the tensor {nbytes} B longer, or touch {nbytes} B less"
    return Hazard(
        note.kind, WARNING, OBSERVED, facts.party(row), note.detail, fix,
        facts.places[note.uid].label, note.lo, nbytes, count,
    )  # fmt: skip
