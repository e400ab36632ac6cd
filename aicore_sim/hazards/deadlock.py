"""Findings of a run that could not go on: `wait-without-set`, `sync-all-blocks`, `livelock`, and `double-set` where a set hangs.

`engine.deadlock` says who waits for what. Those waits that explain the others become findings: of a cycle the one that stands in
front of the call it waits for, of chains the end of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.engine.columns import FLAG_IDS
from aicore_sim.errors import DeadlockError, Wait
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.fixes import Fix, around_loops, core_kind, flag_call, outermost_loop, statement
from aicore_sim.hazards.flags import double_set
from aicore_sim.hazards.model import ERROR, OBSERVED, Hazard, Party
from aicore_sim.hazards.unit_flags import left_up, reader_of
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.events import event_code
from aicore_sim.kernel.program import Kind

HANG, BLOCKS, LIVELOCK = "wait-without-set", "sync-all-blocks", "livelock"
_REASONS = {
    "flag": Kind.WAIT_FLAG, "set": Kind.SET_FLAG, "unit_flag": Kind.EXEC, "mutex": Kind.MUTEX_LOCK, "sync_all": Kind.SYNC_ALL,
    "cross": Kind.CROSS_WAIT, "poll": Kind.SCALAR,
}  # fmt: skip
"""Waits for a call, and what is stuck there; the others only pass on that somebody else waits."""
_MOST_CHAIN = 6
"""Lines of the chain that a finding has."""


def from_error(error: DeadlockError, card: Card) -> list[Hazard]:
    """One hazard for each line of the kernel where somebody waits for what nobody does; the chain is in `detail`."""
    columns = error.columns
    facts = Facts(columns, card) if columns is not None and columns.audit is not None else None
    groups: dict[tuple[str, int, str], list[Wait]] = {}
    for wait in _causes(error.waits):
        groups.setdefault((wait.file, wait.line, wait.what), []).append(wait)
    if not groups:
        return [_by_itself(error)]
    return [_hazard(error, group[0], len(group), card, facts) for group in groups.values()]


def _causes(waits: Sequence[Wait]) -> list[Wait]:
    roots = [wait for wait in waits if wait.role]
    found = [wait for wait in roots if wait.what in _REASONS] or roots
    if found and found[0].role == "cycle":
        return ([wait for wait in found if wait.later] or found)[:1]
    return found


def _by_itself(error: DeadlockError) -> Hazard:
    """A call that never comes back: AllocTensor without a free buffer."""
    queue = error.field == "que"
    at = Party("", "S" if queue else "", "AllocTensor" if queue else "", error.file or "", error.line or 0, 0.0)
    fix = "free_tensor a buffer first, or give the queue more of them in init_buffer" if queue else ""
    return Hazard(HANG, ERROR, OBSERVED, at, "; ".join([error.message, *error.cycle]), fix)


def _hazard(error: DeadlockError, wait: Wait, count: int, card: Card, facts: Facts | None) -> Hazard:
    at = _party(wait, facts)
    if wait.what == "poll":
        fix = "let somebody store what is polled for; clean and invalidate the line before each load, if others store it"
        return Hazard(LIVELOCK, ERROR, OBSERVED, at, f"{error.message}: {wait.text}", fix, count=count)
    chain = [f"{wait.core} {wait.pipe} {wait.text}", error.message, *error.cycle[:_MOST_CHAIN]]
    first = _set_before(facts, wait)
    if first is not None and (wait.wanted is None or wait.later):
        found = double_set(card, first, at, wait.event, [wait.ident], count, OBSERVED)
        return replace(found, detail="; ".join([found.detail, *chain]))
    why, other = _unit_flags(facts, wait)
    kind = BLOCKS if wait.blocks else HANG
    words, insert = _fix(wait, card, facts)
    detail = "; ".join([*chain[:1], *why, *chain[1:]])
    return Hazard(kind, ERROR, OBSERVED, at, detail, words, count=count, other=other, insert=insert)


# ---- what was executed ------------------------------------------------------------------------------------------------
def _core(facts: Facts, wait: Wait) -> int:
    return next(i for i, core in enumerate(facts.columns.cores) if core.label == wait.core)


def _party(wait: Wait, facts: Facts | None) -> Party:
    """The blocked call; its iteration is how often its core has been through the line before."""
    times = 0
    if facts is not None and (wait.file, wait.line) in facts.columns.lines:
        line = facts.columns.lines.index((wait.file, wait.line))
        mine = (facts.columns.line == line) & (facts.core == _core(facts, wait)) & (facts.pipe == int(Pipe[wait.pipe]))
        times = int(np.count_nonzero(mine & (facts.kind == int(_REASONS.get(wait.what, Kind.BARRIER_ALL)))))
    return Party(wait.core, wait.pipe, wait.api, wait.file, wait.line, wait.time_us, times)


def _executed(facts: Facts | None, wait: Wait, kind: Kind) -> list[int]:
    """Rows that set or waited for the flag of a wait."""
    if facts is None or not wait.event:
        return []
    source, target = (Pipe[name] for name in wait.event.split("_"))
    arg = event_code(source, target) * FLAG_IDS + wait.ident
    mine = (facts.kind == int(kind)) & (facts.columns.arg == arg) & (facts.core == _core(facts, wait))
    return [int(row) for row in np.flatnonzero(mine)]


def _set_before(facts: Facts | None, wait: Wait) -> Party | None:
    """For a set that hangs: the set before it."""
    rows = _executed(facts, wait, Kind.SET_FLAG) if wait.what == "set" else []
    return facts.party(rows[-1]) if facts is not None and rows else None


def _unit_flags(facts: Facts | None, wait: Wait) -> tuple[list[str], Party | None]:
    """Why unit flags are as they are: what raised them, what failed to lower them."""
    if wait.what != "unit_flag" or facts is None:
        return [], None
    if wait.pipe != "M":
        return ["no Mmad with unit flag 3 has written them"], None
    everything = int(facts.seq.max(initial=0)) + 1
    row, blocks = next(iter(next(left_up(facts, _core(facts, wait), [everything])).items()))
    raised = facts.party(row)
    reader = reader_of(facts, row, blocks)
    text = f"{raised.api} in line {raised.line} has raised them with unit flag 3 and no Fixpipe with 3 has taken them"
    if reader >= 0:
        fixpipe = facts.party(reader)
        text += f"; {fixpipe.api} in line {fixpipe.line} has unit flag {facts.ops[int(facts.op[reader])].unit_flag}"
    return [text], raised


# ---- what would help --------------------------------------------------------------------------------------------------
def _fix(wait: Wait, card: Card, facts: Facts | None) -> Fix:
    if wait.what == "flag":
        return _set(wait, card, facts)
    if wait.what == "sync_all":
        if wait.blocks:
            return f"start {wait.blocks} blocks fewer, no more than there are cores, and give each block more tiles", ()
        return f"let {', '.join(wait.absent) or 'every core'} call SyncAll as often", ()
    if wait.what == "cross":
        there = f"; the one in line {wait.wanted[1]} is not reached" if wait.wanted is not None else ""
        return f"add asc.cross_core_set_flag({wait.ident}, ...) on the core whose data {wait.core} waits for{there}", ()
    if wait.what == "unit_flag":
        return ("give the last Mmad of the tile unit_flag=3" if wait.pipe != "M" else
                "read the tile by a Fixpipe with unit_flag=3 before the next Mmad there"), ()  # fmt: skip
    if wait.what == "mutex":
        return f"unlock {wait.ident} before it is locked again", ()
    return "", ()


def _set(wait: Wait, card: Card, facts: Facts | None) -> Fix:
    kind = core_kind(wait.core)
    code = flag_call("set_flag", wait.event, wait.ident, card, kind)
    loop = outermost_loop(wait.file, wait.line)
    if wait.later and wait.wanted is not None:
        if loop is None or loop != outermost_loop(*wait.wanted):
            behind = f"not behind it in line {wait.wanted[1]}"
            return f"set {wait.event} id {wait.ident} before line {wait.line} waits for it, {behind}", ()
        drain = flag_call("wait_flag", wait.event, wait.ident, card, kind)
        first, last = (around_loops(call, wait.file, wait.line, after=call == drain) for call in (code, drain))
        return f"prime the flag: {first[0]}, and {last[0]}", (*first[1], *last[1])
    sets = _executed(facts, wait, Kind.SET_FLAG)
    if sets:
        return f"set it once more before line {wait.line} or leave out this wait: of {len(sets)} sets none is left", ()
    return statement(code, wait.file, wait.line)
