"""Explains a run that cannot go on: who waits, for what, and who would have to provide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aicore_sim.engine.columns import FLAG_IDS
from aicore_sim.engine.unit_flags import in_words
from aicore_sim.errors import DeadlockError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.events import event_name
from aicore_sim.kernel.program import Entry, Kind

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core
    from aicore_sim.engine.machine import Machine

Waiter = tuple[int, str]
"""(core index, pipe name)."""
MOST_LINES = 12
"""Waits that a report lists."""


def explain(machine: Machine) -> DeadlockError:
    """The error for a simulation that stopped with unfinished cores.

    `cycle` lists the waits of a cycle if there is one, else the chains of waits that end with somebody whom nobody can
    help, the end of each last. File and line are those of the first wait of the cycle, or of the end of the first chain.
    """
    waits = _waits(machine)
    chains: dict[Waiter, list[Waiter]] = {}
    cycle: list[Waiter] = []
    for start in sorted(waits):
        path, cyclic = _follow(start, waits)
        if cyclic:
            cycle = path
            break
        if len(path) > len(chains.get(path[-1], ())):
            chains[path[-1]] = path
    shown = cycle or [who for chain in chains.values() for who in chain]
    lines = [f"{_name(machine, who)} {waits[who][0]}" for who in shown]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"and {len(lines) - MOST_LINES} waits more"]
    entries = [_blocked_entry(machine, who) for who in cycle or chains]
    entry = next((entry for entry in entries if entry is not None), None)
    file, line = machine.session.lines[entry.line] if entry is not None else (None, None)
    left = sum(not core.scalar.finished for core in machine.cores)
    text = f"deadlock: {left} of {len(machine.cores)} cores cannot go on"
    text += "; the waits form a cycle" if cycle else ""
    return DeadlockError(text, lines, file=file, line=line, card=machine.card.name)


def _follow(start: Waiter, waits: dict[Waiter, tuple[str, Waiter | None]]) -> tuple[list[Waiter], bool]:
    """The chain of waits from `start`; True if it runs into itself (then only the cycle is returned)."""
    path: list[Waiter] = []
    at: Waiter | None = start
    while at is not None and at in waits:
        if at in path:
            return path[path.index(at) :], True
        path.append(at)
        at = waits[at][1]
    return path, False


def _name(machine: Machine, who: Waiter) -> str:
    return f"{machine.cores[who[0]].info.label} {who[1]}"


def _blocked_entry(machine: Machine, who: Waiter) -> Entry | None:
    core = machine.cores[who[0]]
    if who[1] == "S":
        return core.scalar.current
    unit = core.units[Pipe[who[1]]]
    return unit.current if unit is not None else None


def _waits(machine: Machine) -> dict[Waiter, tuple[str, Waiter | None]]:
    """For every blocked process: what it waits for in words, and the process that would have to act (None: nobody)."""
    found: dict[Waiter, tuple[str, Waiter | None]] = {}
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


def _one(machine: Machine, core: Core, blocked: tuple[str, Any], entry: Entry | None) -> tuple[str, Waiter | None]:
    kind, arg = blocked
    where = _where(machine, entry)
    if kind in ("flag_wait", "flag_set"):
        code, ident = divmod(arg, FLAG_IDS)
        source, target = (Pipe[name] for name in event_name(code).split("_"))
        other = source if kind == "flag_wait" else target
        wanted = Kind.SET_FLAG if kind == "flag_wait" else Kind.WAIT_FLAG
        verb = "waits for" if kind == "flag_wait" else "holds a set until somebody takes"
        text = f"{verb} {event_name(code)} id {ident}{where}"
        owner = _holder(core, other, wanted, (code, ident))
        call = "set_flag" if kind == "flag_wait" else "wait_flag"
        text += "" if owner else f": no {call} of it is left in the program so far"
        return text, owner
    if kind == "queue":
        return f"cannot issue{where}: the queue of {arg.name} is full", (core.index, arg.name)
    if kind == "drain":
        place = "at the end of the kernel" if core.scalar.over else f"at a barrier{where}"
        return f"waits {place} for {arg.name} to finish", (core.index, arg.name)
    if kind == "unit_flag":
        other, call = (Pipe.FIX, "Fixpipe") if entry is not None and entry.pipe is Pipe.M else (Pipe.M, "Mmad")
        owner = _queued(core, other, lambda waiting: waiting.kind is Kind.EXEC) or _program(core)
        text = f"waits for unit flags of L0C blocks {in_words(arg)}{where}"
        return text + ("" if owner else f": no {call} is left in the program"), owner
    if kind == "mutex":
        unlock = [_queued(core, pipe, lambda waiting: waiting.kind is Kind.MUTEX_UNLOCK and waiting.arg == arg)
                  for pipe in Pipe]  # fmt: skip
        return f"waits for lock {arg}{where}", next((owner for owner in unlock if owner), _program(core))
    if kind == "sync_all":
        absent = machine.missing_at_sync(core, str(arg))
        peers = [i for i in absent if i >= 0]
        missing = [machine.cores[i].info.label for i in peers[:4]] + (["..."] if len(peers) > 4 else [])
        waiting = len(absent) - len(peers)
        if waiting:
            missing.append("a block that no core is free for" if waiting == 1 else f"{waiting} blocks that no core is free for")
        text = f"waits in SyncAll{where} for {', '.join(missing) or 'nobody'}"
        return text, ((peers[0], "S") if peers else None)
    owner = _setter(machine, core, arg)
    return f"waits for cross-core flag {arg}{where}" + ("" if owner else ": nobody sets it"), owner


def _holder(core: Core, pipe: Pipe, kind: Kind, arg: tuple[int, int]) -> Waiter | None:
    """The process that still has to execute the wanted call: the pipe if it is queued there, else the scalar unit."""
    return _queued(core, pipe, lambda entry: entry.kind is kind and entry.arg == arg) or _program(core)


def _queued(core: Core, pipe: Pipe, wanted: Callable[[Entry], bool]) -> Waiter | None:
    """The pipe, if it has a wanted entry in its queue."""
    unit = core.units[pipe]
    found = unit is not None and any(wanted(entry) for entry in unit.queue)
    return (core.index, pipe.name) if found else None


def _program(core: Core) -> Waiter | None:
    """The scalar unit, if it is stuck with a part of the program left: what is wanted may stand there."""
    scalar = core.scalar
    return (core.index, "S") if not scalar.finished and not scalar.over and scalar.blocked is not None else None


def _setter(machine: Machine, core: Core, flag: int) -> Waiter | None:
    """Who may still set a cross-core flag: a pipe that has the call in its queue, else a core of the group not at its end.

    In mode 4 the cube core counts the flags of its second vector core from 16 on.
    """
    for other in machine.cores:
        for pipe in Pipe:
            found = _queued(other, pipe, lambda entry: entry.kind is Kind.CROSS_SET and entry.arg[0] % 16 == flag % 16)
            if found:
                return found
    group = [other for other in machine.cores if other is not core and other.info.group == core.info.group]
    return next((owner for owner in map(_program, group) if owner), None)
