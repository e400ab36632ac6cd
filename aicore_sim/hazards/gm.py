"""Who touches global memory where: the accesses of a run by allocation, and what the checks of caches share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import Incident
from aicore_sim.engine.coherence import WORD
from aicore_sim.hazards.edges import PRIMITIVES
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.footprint import merged
from aicore_sim.hazards.model import OBSERVED, Hazard, Party

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SHOWN = 16
"""Bytes of old and new values that a finding shows."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses to one allocation, in row order: `row`, which `operand` of its Op it is and where that begins (`offset`), and
    the bytes from first to end (`lo`, `hi`)."""

    row: Ints
    operand: Ints
    offset: Ints
    lo: Ints
    hi: Ints

    def __len__(self) -> int:
        return int(self.row.size)

    def where(self, chosen: Bools | Ints) -> Accesses:
        """Some of them."""
        return Accesses(self.row[chosen], self.operand[chosen], self.offset[chosen], self.lo[chosen], self.hi[chosen])


def accesses(facts: Facts, ops: list[int], write: bool) -> dict[int, Accesses]:
    """What the rows of these Ops (by index) read or write in global memory, by uid of the allocation.

    Calls that meet through words in GM (`edges.PRIMITIVES`) are left out.
    """
    first, uid, offset = facts.audit.first, facts.audit.uid, facts.audit.offset
    parts: list[tuple[Ints, Ints, Ints, Ints, Ints, Ints]] = []
    for index in ops:
        op, rows = facts.ops[index], facts.rows_of_op.get(index)
        if rows is None or op.api in PRIMITIVES:
            continue
        spans = op.writes if write else op.reads
        for operand in sorted({number for number, _, _ in spans}):
            having = rows[first[rows + 1] - first[rows] > operand]
            at = first[having] + operand
            in_gm = uid[at] < 0
            having, at = having[in_gm], at[in_gm]
            pieces = facts.pieces(index, operand, write)
            if not having.size or not len(pieces):
                continue
            start = offset[at]
            parts.append((uid[at], having, np.full(having.size, operand, np.int64), start, start + pieces[0, 0],
                          start + pieces[-1, 1]))  # fmt: skip
    if not parts:
        return {}
    where, row, number, start, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    found: dict[int, Accesses] = {}
    for buffer in np.unique(where).tolist():
        at = np.flatnonzero(where == buffer)
        at = at[np.argsort(row[at], kind="stable")]
        found[int(buffer)] = Accesses(row[at], number[at], start[at], lo[at], hi[at])
    return found


def bytes_of(facts: Facts, what: Accesses, i: int, write: bool) -> Ints:
    """The bytes of access `i`, exactly: rows (lo, hi) of offsets in the allocation."""
    found: Ints = facts.pieces(int(facts.op[what.row[i]]), int(what.operand[i]), write) + what.offset[i]
    return found


def common(a: Ints, b: Ints) -> Ints:
    """Bytes in both of two sorted lists of (lo, hi)."""
    if not len(a) or not len(b):
        return np.zeros((0, 2), np.int64)
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    last = np.searchsorted(b[:, 0], a[:, 1], side="left")
    many = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(a)), many)
    other = np.arange(mine.size) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    return np.stack([np.maximum(a[mine, 0], b[other, 0]), np.minimum(a[mine, 1], b[other, 1])], axis=1)


def whole_lines(spans: Ints, line: int) -> Ints:
    """The lines of `line` bytes that hold some of the bytes, as (lo, hi)."""
    return merged(np.stack([spans[:, 0] // line * line, -(-spans[:, 1] // line) * line], axis=1))


# ---- findings -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Seen:
    """What a run really delivered: the word at which it begins to differ, how many bytes do, and old and new from there on."""

    address: int
    bytes: int
    old: str
    new: str


class Incidents:
    """The incidents of some kinds, by the entry they belong to."""

    def __init__(self, facts: Facts, *kinds: str) -> None:
        self._found: dict[tuple[int, int], list[Incident]] = {}
        for incident in facts.audit.incidents:
            if incident.kind in kinds:
                self._found.setdefault((incident.core, incident.seq), []).append(incident)

    def __bool__(self) -> bool:
        return bool(self._found)

    def of(self, core: int, seq: int) -> list[Incident]:
        return self._found.get((core, seq), [])

    def seen(self, core: int, seq: int, uid: int, spans: Ints) -> Seen | None:
        """What of `spans`, bytes of one buffer, was delivered wrong; None if nothing was."""
        places: list[Ints] = []
        address, old, new = 0, b"", b""
        for incident in sorted(self.of(core, seq), key=lambda i: i.lo):
            if incident.uid != uid:
                continue
            before, after = np.frombuffer(incident.old, np.uint8), np.frombuffer(incident.new, np.uint8)
            differ = before != after
            inside = np.zeros(differ.size, np.bool_)
            for lo, hi in common(spans, np.array([[incident.lo, incident.lo + differ.size]], np.int64)) - incident.lo:
                inside[lo:hi] = True
            at = np.flatnonzero(differ & inside)
            if not at.size:
                continue
            if not places:
                first = int(at[0]) // WORD * WORD
                address, old, new = incident.lo + first, incident.old[first:][:SHOWN], incident.new[first:][:SHOWN]
            places.append(at + incident.lo)
        return Seen(address, int(np.unique(np.concatenate(places)).size), old.hex(), new.hex()) if places else None


class Findings:
    """Findings of one kind of bug by key: the first one is told, the others are counted; one that was observed tells for all."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Hazard] = {}
        self._also: dict[Hashable, set[int]] = {}

    def add(self, key: Hashable, make: Callable[[], Hazard], seen: Seen | None) -> None:
        """Count a finding; `make` is asked for the first of its key."""
        known = self._found.get(key)
        hazard = make() if known is None else replace(known, count=known.count + 1)
        if seen is not None and hazard.verdict != OBSERVED:
            hazard = replace(hazard, verdict=OBSERVED, address=seen.address, bytes=seen.bytes, old=seen.old, new=seen.new)
        self._found[key] = hazard

    def also(self, key: Hashable, line: int, observed: bool) -> None:
        """A consequence of the finding of this key, which the same fix mends: its kernel line is named."""
        known = self._found[key]
        if observed and known.verdict != OBSERVED:
            self._found[key] = replace(known, verdict=OBSERVED)
        if line != known.at.line:
            self._also.setdefault(key, set()).add(line)

    def all(self) -> list[Hazard]:
        """One hazard for each key."""
        return [replace(h, detail=f"{h.detail}; so are the reads of lines {', '.join(map(str, sorted(self._also[key])))}")
                if key in self._also else h for key, h in self._found.items()]  # fmt: skip


def site(facts: Facts, row: int) -> tuple[int, int]:
    """The kernel line (as index) and pipe of a row."""
    return int(facts.columns.line[row]), int(facts.pipe[row])


def named(party: Party) -> str:
    """A party in a sentence."""
    return f"{party.api} ({party.core} {party.pipe}, line {party.line})"
