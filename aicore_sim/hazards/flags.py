"""Broken event flags of a core: `unpaired-set`, `double-set`, and what recording has noted (spec api_semantics.md 11.3, 20).

A double set is judged in the order of the program: two sets of one (pair, id) with no wait between them are wrong, whatever they
met. A queue of several buffers sets a flag again before its wait has been executed, but not before it was issued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.engine.columns import FLAG_IDS
from aicore_sim.errors import DeadlockError, Wait
from aicore_sim.hazards import cross_flags, unit_flags
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import Fix, around_loops, core_kind, flag_call, outermost_loop, source_line, statement
from aicore_sim.hazards.model import ERROR, NOTE, POSSIBLE, WARNING, Hazard, Party
from aicore_sim.hazards.order import Order
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.autosync import INSERTED_ID
from aicore_sim.kernel.notes import DROPPED_FLAG, EVENT_ID_REUSE, PRESET_ID, RESERVED_ID, FlagNote
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]
UNPAIRED, DOUBLE = "unpaired-set", "double-set"
FLAG_KINDS = frozenset({
    UNPAIRED, DOUBLE, RESERVED_ID, PRESET_ID, EVENT_ID_REUSE, DROPPED_FLAG, cross_flags.OVERFLOW, unit_flags.LEFT,
})  # fmt: skip
"""The kinds of findings that `find` has."""


def find(facts: Facts, order: Order, stopped: DeadlockError | None = None) -> list[Hazard]:
    """Everything that is wrong with flags. `order` has to keep `rows_asked`. What a run that could not go on (`stopped`) has left
    set is no finding: its end was not reached."""
    waits = stopped.waits if stopped is not None else ()
    doubles, lost = _double_sets(facts), set()
    found = []
    for note, count in _grouped_notes(facts):
        hazard = _of_note(facts, note, count, waits)
        same = [(key, one) for key, one in doubles.items() if one.at.line == hazard.at.line and one.at.file == hazard.at.file]
        if same and note.kind in (PRESET_ID, EVENT_ID_REUSE):
            lost |= {key for key, _ in same}
            hazard = replace(hazard, severity=ERROR, other=same[0][1].other)
        found.append(hazard)
    found += [hazard for key, hazard in doubles.items() if key not in lost]
    found += _unpaired(facts, {(line, key[2]) for key in doubles for line in key[:2]})
    found += cross_flags.find(facts, order, complete=stopped is None)
    return found + unit_flags.find(facts)


def rows_asked(facts: Facts) -> Ints:
    """Rows that `find` asks the order about."""
    return cross_flags.rows_asked(facts)


# ---- sets and waits of a core -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Flags:
    """Rows of event flags by flag, each flag's in program order: `first` is True where another flag begins."""

    row: Ints
    key: Ints
    first: NDArray[np.bool_]
    is_set: NDArray[np.bool_]


def _flags(facts: Facts) -> _Flags:
    chosen = np.flatnonzero(np.isin(facts.kind, [int(Kind.SET_FLAG), int(Kind.WAIT_FLAG)]))
    chosen = chosen[facts.columns.arg[chosen] % FLAG_IDS != INSERTED_ID]
    key = (facts.core[chosen] << 32) + facts.columns.arg[chosen]
    order = np.lexsort((facts.seq[chosen], key))
    row, key = chosen[order], key[order]
    first = np.ones(row.size, np.bool_)
    first[1:] = key[1:] != key[:-1]
    return _Flags(row, key, first, facts.kind[row] == int(Kind.SET_FLAG))


_Key = tuple[int, int, int, int]
"""Lines of both sets, event, pipe."""


def _event(facts: Facts, row: int) -> int:
    return int(facts.columns.arg[row]) // FLAG_IDS


def _double_sets(facts: Facts) -> dict[_Key, Hazard]:
    """Sets whose forerunner in the program is a set."""
    flags = _flags(facts)
    again = np.flatnonzero(flags.is_set[1:] & flags.is_set[:-1] & ~flags.first[1:]) + 1
    again = again[np.argsort(facts.columns.start[flags.row[again]], kind="stable")]
    groups: dict[_Key, list[tuple[int, int]]] = {}
    for i in again.tolist():
        one, two = int(flags.row[i - 1]), int(flags.row[i])
        lines = int(facts.columns.line[one]), int(facts.columns.line[two])
        groups.setdefault((*lines, _event(facts, two), int(facts.pipe[two])), []).append((one, two))
    return {key: _double(facts, pairs) for key, pairs in groups.items()}


def _double(facts: Facts, pairs: list[tuple[int, int]]) -> Hazard:
    first, second = facts.party(pairs[0][0]), facts.party(pairs[0][1])
    ids = sorted({facts.flag(two)[1] for _, two in pairs})
    return double_set(facts.card, first, second, facts.flag(pairs[0][1])[0], ids, len(pairs), POSSIBLE)


def double_set(card: Card, first: Party, second: Party, event: str, ids: list[int], count: int, verdict: str) -> Hazard:
    """The finding that `second` sets what `first` has set, with no wait between them."""
    detail = (f"{event} {_listed(ids)}: set in line {second.line} while the set of line {first.line} has not been waited for: "
              f"no WaitFlag of it stands between them in the program")  # fmt: skip
    code = flag_call("wait_flag", event, ids[0], card, core_kind(second.core))
    words, insert = statement(code, first.file, first.line, after=True)
    if len(ids) > 1:
        words, insert = "wait for every id before it is set again", ()
    return Hazard(DOUBLE, ERROR, verdict, second, detail, words, count=count, other=first, insert=insert)


def _listed(ids: list[int]) -> str:
    return f"id {ids[0]}" if len(ids) == 1 else f"ids {', '.join(map(str, ids))}"


def _unpaired(facts: Facts, known: set[tuple[int, int]]) -> list[Hazard]:
    """Flags that are up when a block is over; nothing takes them down before the next kernel or block (P32). `known` are the
    (line, event) of sets that something else is found about."""
    flags = _flags(facts)
    if not flags.row.size:
        return []
    step = np.where(flags.is_set, 1, -1)
    total = np.cumsum(step)
    starts = np.flatnonzero(flags.first)
    before = np.concatenate(([0], total))[starts]
    up = total - np.repeat(before, np.diff(np.append(starts, flags.row.size)))
    block = _block(facts, flags.row)
    last = np.ones(flags.row.size, np.bool_)
    last[:-1] = flags.first[1:] | (block[1:] != block[:-1])
    left = np.flatnonzero(last & (up > 0) & (block >= 0))
    groups: dict[tuple[int, int], list[int]] = {}
    for i in left.tolist():
        at = i
        while not flags.is_set[at]:
            at -= 1
        row = int(flags.row[at])
        groups.setdefault((int(facts.columns.line[row]), _event(facts, row)), []).append(row)
    groups = {key: rows for key, rows in groups.items() if key not in known}
    return [_left_up(facts, sorted(rows, key=lambda row: (int(facts.columns.start[row]), row))) for rows in groups.values()]


def _block(facts: Facts, rows: Ints) -> Ints:
    """Which block of its core each row belongs to, -1 for one that did not come to its end."""
    out = np.full(rows.size, -1, np.int64)
    for core in range(facts.cores):
        mine = np.flatnonzero(facts.core[rows] == core)
        ends = np.array(sorted(end.seq for end in facts.audit.ends if end.core == core), np.int64)
        number = np.searchsorted(ends, facts.seq[rows[mine]])
        out[mine] = np.where(number < ends.size, number, -1)
    return out


def _left_up(facts: Facts, rows: list[int]) -> Hazard:
    at = facts.party(rows[0])
    event = facts.flag(rows[0])[0]
    ids = sorted({facts.flag(row)[1] for row in rows})
    detail = (f"{event} {_listed(ids)} is still set at the end of the kernel: set in line {at.line}, never waited for; "
              f"the next wait for it passes at once")  # fmt: skip
    words, insert = _drain(facts, at, event, ids)
    return Hazard(UNPAIRED, WARNING, POSSIBLE, at, detail, words, count=len(rows), insert=insert)


def _drain(facts: Facts, at: Party, event: str, ids: list[int]) -> Fix:
    if "enque" in source_line(at.file, at.line):
        return "take every tensor out of its queue (deque) and free it before the kernel ends", ()
    calls = [flag_call("wait_flag", event, ident, facts.card, core_kind(at.core)) for ident in ids]
    fixes = [around_loops(call, at.file, at.line, after=True) for call in calls]
    words = f"{'; '.join(calls)} behind line {outermost_loop(at.file, at.line) or at.line}"
    return f"add {words}, or leave out the last set", tuple(one for _, insert in fixes for one in insert)


# ---- notes ------------------------------------------------------------------------------------------------------------
def _grouped_notes(facts: Facts) -> list[tuple[FlagNote, int]]:
    """The first note of every kind, kernel line and event, with how often there was one on any core."""
    groups: dict[tuple[str, int, str, str], tuple[FlagNote, int]] = {}
    for note, count in facts.audit.session.flag_notes.items():
        key = (note.kind, note.line, note.api, note.event)
        first, before = groups.get(key, (note, 0))
        groups[key] = (first, before + count)
    return list(groups.values())


def _of_note(facts: Facts, note: FlagNote, count: int, waits: Sequence[Wait]) -> Hazard:
    detail, severity = note.detail, WARNING
    if note.kind == DROPPED_FLAG:
        severity = NOTE if note.event else WARNING
        held = next((wait for wait in waits if wait.what == "cross" and wait.ident % 16 == note.ident % 16), None)
        if note.api == "CrossCoreSetFlag" and not note.event and held is not None:
            severity = ERROR
            detail += f"; {held.core} {held.pipe} waits for it in line {held.line}"
    return Hazard(note.kind, severity, POSSIBLE, _place(facts, note), detail, note.fix, count=count)


def _place(facts: Facts, note: FlagNote) -> Party:
    """The first execution of the call, or where it stands if nothing of it was executed."""
    c = facts.columns
    mine = (c.line == note.line) & (c.core == note.core) & (c.pipe == note.pipe)
    rows = np.flatnonzero(mine & np.isin(facts.kind, [int(Kind.SET_FLAG), int(Kind.WAIT_FLAG)]))
    if note.kind != DROPPED_FLAG and rows.size:
        return facts.party(int(rows[0]))
    file, line = c.lines[note.line]
    return Party(c.cores[note.core].label, Pipe(note.pipe).name, note.api, file, line, 0.0)
