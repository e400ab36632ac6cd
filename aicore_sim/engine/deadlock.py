"""Explains a run that cannot go on: who waits, for what, and who would have to provide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aicore_sim.engine.columns import FLAG_IDS, Columns
from aicore_sim.engine.unit_flags import in_words
from aicore_sim.errors import DeadlockError, Wait
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.events import event_name
from aicore_sim.kernel.program import CALLS, Entry, Kind

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core
    from aicore_sim.engine.machine import Machine

Waiter = tuple[int, str]
"""(core index, pipe name)."""
MOST_LINES = 12
"""Waits that a report lists."""


@dataclass(frozen=True, slots=True)
class _Blocked:
    """Why somebody is blocked: `text` in words, `owner` who would have to act (None: nobody); the rest as in `Wait`."""

    what: str
    text: str
    owner: Waiter | None
    event: str = ""
    ident: int = -1
    wanted: Entry | None = None
    absent: tuple[str, ...] = ()
    blocks: int = 0


def explain(machine: Machine, columns: Columns) -> DeadlockError:
    """The error for a simulation that stopped with unfinished cores; `columns` is what it executed.

    `cycle` lists the waits of a cycle if there is one, else the chains of waits that end with somebody whom nobody can
    help, the end of each last. File and line are those of the first wait of the cycle, or of the end of the first chain.
    """
    blocked = _blocked(machine)
    chains: dict[Waiter, list[Waiter]] = {}
    cycle: list[Waiter] = []
    for start in sorted(blocked):
        path, cyclic = _follow(start, blocked)
        if cyclic:
            cycle = path
            break
        if len(path) > len(chains.get(path[-1], ())):
            chains[path[-1]] = path
    shown = cycle or [who for chain in chains.values() for who in chain]
    lines = [f"{_name(machine, who)} {blocked[who].text}" for who in shown]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"and {len(lines) - MOST_LINES} waits more"]
    roots = cycle or list(chains)
    entry = next((entry for entry in (_blocked_entry(machine, who) for who in roots) if entry is not None), None)
    file, line = machine.session.lines[entry.line] if entry is not None else (None, None)
    left = sum(not core.scalar.finished for core in machine.cores)
    text = f"deadlock: {left} of {len(machine.cores)} cores cannot go on"
    text += "; the waits form a cycle" if cycle else ""
    roles = dict.fromkeys(roots, "cycle" if cycle else "end")
    everybody = dict.fromkeys([*shown, *sorted(blocked)])
    waits = [_wait(machine, columns, who, blocked[who], roles.get(who, "")) for who in everybody]
    error = DeadlockError(text, lines, waits=waits, file=file, line=line, card=machine.card.name)
    error.columns = columns
    return error


def _follow(start: Waiter, blocked: dict[Waiter, _Blocked]) -> tuple[list[Waiter], bool]:
    """The chain of waits from `start`; True if it runs into itself (then only the cycle is returned)."""
    path: list[Waiter] = []
    at: Waiter | None = start
    while at is not None and at in blocked:
        if at in path:
            return path[path.index(at) :], True
        path.append(at)
        at = blocked[at].owner
    return path, False


def _name(machine: Machine, who: Waiter) -> str:
    return f"{machine.cores[who[0]].info.label} {who[1]}"


def _blocked_entry(machine: Machine, who: Waiter) -> Entry | None:
    core = machine.cores[who[0]]
    if who[1] == "S":
        return core.scalar.current
    unit = core.units[Pipe[who[1]]]
    return unit.current if unit is not None else None


def _wait(machine: Machine, columns: Columns, who: Waiter, why: _Blocked, role: str) -> Wait:
    entry = _blocked_entry(machine, who)
    file, line = machine.session.lines[entry.line] if entry is not None else ("", 0)
    api = "" if entry is None else entry.op.api if entry.op is not None else CALLS.get(entry.kind, entry.kind.name)
    core = machine.cores[who[0]]
    if who[1] == "S":
        since = core.scalar.t
    else:
        mine = columns.free[(columns.core == who[0]) & (columns.pipe == int(Pipe[who[1]]))]
        since = max(int(np.max(mine, initial=0)), entry.issue if entry is not None else 0)
    wanted = why.wanted
    later = False
    if why.event and wanted is not None and entry is not None:
        later = not _issued(wanted) or wanted.seq > entry.seq
    return Wait(
        core.info.label, who[1], api, file, line, since / TICKS_PER_CYCLE / columns.clock_mhz, why.what, why.text, why.event,
        why.ident, role, machine.session.lines[wanted.line] if wanted is not None else None, later, why.absent, why.blocks,
    )  # fmt: skip


def _issued(entry: Entry) -> bool:
    """True if the scalar unit has given the entry its number."""
    return hasattr(entry, "seq")


def _blocked(machine: Machine) -> dict[Waiter, _Blocked]:
    """Every blocked process."""
    found: dict[Waiter, _Blocked] = {}
    for core in machine.cores:
        for unit in core.units:
            if unit is not None and unit.blocked is not None and unit.current is not None:
                found[core.index, unit.pipe.name] = _one(machine, core, unit.blocked, unit.current)
        scalar = core.scalar
        if not scalar.finished and scalar.blocked is not None:
            found[core.index, "S"] = _one(machine, core, scalar.blocked, scalar.current)
    return found


def _where(machine: Machine, entry: Entry | None) -> str:
    if entry is None:
        return ""
    file, line = machine.session.lines[entry.line]
    return f" ({file.rsplit('/', 1)[-1]}:{line})"


def _one(machine: Machine, core: Core, blocked: tuple[str, Any], entry: Entry | None) -> _Blocked:
    kind, arg = blocked
    where = _where(machine, entry)
    if kind in ("flag_wait", "flag_set"):
        return _on_flag(core, kind == "flag_wait", arg, where)
    if kind == "queue":
        return _Blocked(kind, f"cannot issue{where}: the queue of {arg.name} is full", (core.index, arg.name))
    if kind == "drain":
        place = "at the end of the kernel" if core.scalar.over else f"at a barrier{where}"
        return _Blocked(kind, f"waits {place} for {arg.name} to finish", (core.index, arg.name))
    if kind == "unit_flag":
        other, call = (Pipe.FIX, "Fixpipe") if entry is not None and entry.pipe is Pipe.M else (Pipe.M, "Mmad")
        owner = _queued(core, other, lambda waiting: waiting.kind is Kind.EXEC) or _program(core)
        text = f"waits for unit flags of L0C blocks {in_words(arg)}{where}"
        return _Blocked(kind, text + ("" if owner else f": no {call} is left in the program"), owner)
    if kind == "mutex":
        unlock = [_queued(core, pipe, lambda waiting: waiting.kind is Kind.MUTEX_UNLOCK and waiting.arg == arg)
                  for pipe in Pipe]  # fmt: skip
        owner = next((owner for owner in unlock if owner), _program(core))
        return _Blocked(kind, f"waits for lock {arg}{where}", owner, ident=arg)
    if kind == "sync_all":
        return _on_sync_all(machine, core, str(arg), where)
    givers = _givers(machine, core, entry)
    owner = _setter(givers, core, arg)
    text = f"waits for cross-core flag {arg}{where}" + ("" if owner else ": nobody sets it")
    wanted = next((found for other in givers for found in _to_come(other, lambda one: _sets(one, arg))), None)
    return _Blocked(kind, text, owner, ident=arg, wanted=wanted)


def _on_flag(core: Core, waits: bool, arg: int, where: str) -> _Blocked:
    code, ident = divmod(arg, FLAG_IDS)
    name = event_name(code)
    source, target = (Pipe[pipe] for pipe in name.split("_"))
    other, kind = (source, Kind.SET_FLAG) if waits else (target, Kind.WAIT_FLAG)
    owner = _queued(core, other, lambda entry: entry.kind is kind and entry.arg == (code, ident)) or _program(core)
    text = f"{'waits for' if waits else 'holds a set until somebody takes'} {name} id {ident}{where}"
    text += "" if owner else f": no {'set_flag' if waits else 'wait_flag'} of it is left in the program so far"
    wanted = next(_to_come(core, lambda entry: entry.kind is kind and entry.arg == (code, ident)), None)
    return _Blocked("flag" if waits else "set", text, owner, name, ident, wanted)


def _on_sync_all(machine: Machine, core: Core, scope: str, where: str) -> _Blocked:
    absent = machine.missing_at_sync(core, scope)
    peers = [i for i in absent if i >= 0]
    labels = tuple(machine.cores[i].info.label for i in peers)
    missing = [*labels[:4], *(["..."] if len(peers) > 4 else [])]
    blocks = len(absent) - len(peers)
    if blocks:
        missing.append("a block that no core is free for" if blocks == 1 else f"{blocks} blocks that no core is free for")
    text = f"waits in SyncAll{where} for {', '.join(missing) or 'nobody'}"
    return _Blocked("sync_all", text, (peers[0], "S") if peers else None, absent=labels, blocks=blocks)


def _queued(core: Core, pipe: Pipe, wanted: Callable[[Entry], bool]) -> Waiter | None:
    """The pipe, if it has a wanted entry in its queue."""
    unit = core.units[pipe]
    found = unit is not None and any(wanted(entry) for entry in unit.queue)
    return (core.index, pipe.name) if found else None


def _to_come(core: Core, wanted: Callable[[Entry], bool]) -> Iterator[Entry]:
    """Wanted entries that the core has not executed yet: in its queues, then not issued."""
    for unit in core.units:
        if unit is not None:
            yield from filter(wanted, unit.queue)
    yield from (entry for entry in core.scalar.batch if not _issued(entry) and wanted(entry))


def _program(core: Core) -> Waiter | None:
    """The scalar unit, if it is stuck with a part of the program left: what is wanted may stand there."""
    scalar = core.scalar
    return (core.index, "S") if not scalar.finished and not scalar.over and scalar.blocked is not None else None


def _sets(entry: Entry, flag: int) -> bool:
    """In mode 4 the cube core counts the flags of its second vector core from 16 on."""
    return entry.kind is Kind.CROSS_SET and bool(entry.arg[0] % 16 == flag % 16)


def _givers(machine: Machine, core: Core, entry: Entry | None) -> list[Core]:
    """Cores whose CrossCoreSetFlag `core` may be waiting for, by the mode of its wait (spec api_semantics.md 11.5)."""
    mode = entry.arg[1] if entry is not None else 0
    kind, group = core.info.kind, core.info.group
    return [other for other in machine.cores
            if (other.info.kind == kind) is (mode in (0, 1)) and (other.info.group == group or mode == 0)]  # fmt: skip


def _setter(givers: list[Core], core: Core, flag: int) -> Waiter | None:
    """Who may still set a cross-core flag: a pipe that has the call in its queue, else another core that is not at its end."""
    for other in givers:
        for pipe in Pipe:
            found = _queued(other, pipe, lambda entry: _sets(entry, flag))
            if found:
                return found
    return next((owner for owner in (_program(other) for other in givers if other is not core) if owner), None)
