"""`undefined-read`: bytes that nobody wrote have reached GM, or the kernel through a scalar load (spec coherence.md 7).

The engine files what was undefined when a store had landed or a load had its value (engine/undefined.py), so a finding is always
observed, and a run without data has none. Junk rows of tail tiles that no store takes are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from aicore_sim.engine.audit import Incident
from aicore_sim.engine.undefined import UNDEFINED_LOAD, UNDEFINED_STORE
from aicore_sim.hazards import origin
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import ERROR, OBSERVED, Hazard, Party
from aicore_sim.hazards.origin import NEVER_WRITTEN, PAD, TILE, Origin
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.load_data_3d import NO_MAP, NO_PADDING

KIND = "undefined-read"


def find(facts: Facts) -> list[Hazard]:
    """One hazard for each kernel line that let undefined bytes out, the first execution in front."""
    lines: dict[tuple[str, int, int], dict[int, list[Incident]]] = {}
    for incident in facts.audit.incidents:
        if incident.kind in (UNDEFINED_STORE, UNDEFINED_LOAD):
            row = facts.row_of(incident.core, incident.seq)
            if row >= 0:
                key = (incident.kind, int(facts.columns.line[row]), int(facts.op[row]))
                lines.setdefault(key, {}).setdefault(row, []).append(incident)
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for (kind, line, _), rows in lines.items():
        first = min(rows, key=lambda row: (int(facts.columns.start[row]), row))
        known = found.get((kind, line))
        count = len(rows) + (known[1] if known else 0)
        if known and facts.columns.start[known[0]] <= facts.columns.start[first]:
            first = known[0]
        found[kind, line] = (first, count)
    by_row = {row: incidents for rows in lines.values() for row, incidents in rows.items()}
    return [_hazard(facts, row, by_row[row], count) for row, count in found.values()]


def _hazard(facts: Facts, row: int, incidents: list[Incident], count: int) -> Hazard:
    spans = [(i.lo, i.hi) for i in incidents]
    place = facts.places[incidents[0].uid]
    nbytes = sum(hi - lo for lo, hi in spans)
    at = facts.party(row)
    stored = incidents[0].kind == UNDEFINED_STORE
    reason = origin.of_store(facts, row, spans) if stored else origin.of_load(facts, row, incidents[0].uid, *spans[0])
    other = facts.party(reason.row) if reason is not None and reason.row >= 0 else None
    what = f"{nbytes} B of {place.label}, {_ranges(spans)}"
    detail = f"{at.api} stores undefined bytes: {what}" if stored else f"{at.api} reads undefined bytes: {what}"
    why, fix = _reason(facts, reason, other)
    return Hazard(
        KIND, ERROR, OBSERVED, at, f"{detail}{why}", fix, place.label, spans[0][0], nbytes, count, other,
        old=incidents[0].old.hex(),
    )  # fmt: skip


def _ranges(spans: Iterable[tuple[int, int]]) -> str:
    """The first stretches of bytes in words."""
    listed = list(spans)
    shown = ", ".join(f"{lo}..{hi - 1}" for lo, hi in listed[:3])
    return f"bytes {shown}" + (f" and {len(listed) - 3} stretches more" if len(listed) > 3 else "")


def _reason(facts: Facts, reason: Origin | None, other: Party | None) -> tuple[str, str]:
    """Where the bytes come from, and what to do, in words."""
    if reason is None:
        return "", "write every byte of the source, and order this call behind those that do"
    source = f"bytes {reason.lo}..{reason.hi - 1} of {facts.places[reason.uid].label}"
    by = "" if other is None else f"{other.api} (line {other.line})"
    if reason.why == PAD:
        return f"; {source} are padding that {by} left undefined", _padding_fix(facts.ops[int(facts.op[reason.row])], by)
    if reason.why == TILE:
        return (f"; {source} lie past m or n of {by}", "store only the m x n elements that Mmad computes")
    assert reason.why == NEVER_WRITTEN
    if other is None:
        return f"; nobody wrote {source}", f"load or fill {source} first, or store and read less"
    return (f"; nobody wrote {source}, {by} wrote next to them",
            f"{source} were never loaded: let {by} cover them, or store and read less")  # fmt: skip


def _padding_fix(op: Op, by: str) -> str:
    """How the padding of a call gets a value: a field, or a register of LoadData3D that nobody has set (pitfalls P05, P18)."""
    if op.through == "nddma":
        return "pad value not set: set constant_value"
    if NO_MAP in op.warnings:
        return f"feature map not set: call asc.set_fmatrix before {by}"
    if NO_PADDING in op.warnings:
        return f"pad value not set: call asc.set_load_data_padding_value before {by}"
    return f"store and read only what {by} fills"
