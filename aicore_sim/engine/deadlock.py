"""Explains a run that cannot go on: who waits, for what, and who would have to provide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def explain(machine: Machine) -> DeadlockError:
    """The error for a simulation that stopped with unfinished cores: follows the waits from the first blocked pipe."""
    waits = _waits(machine)
    chain: list[Waiter] = []
    for start in sorted(waits):
        path, cyclic = _follow(start, waits)
        if cyclic or not chain:
            chain = path
        if cyclic:
            break
    lines = [f"{_name(machine, who)} {waits[who][0]}" for who in chain]
    entry = _blocked_entry(machine, chain[0]) if chain else None
    file, line = machine.session.lines[entry.line] if entry is not None else (None, None)
    left = sum(not core.scalar.finished for core in machine.cores)
    cycle = len(chain) > 1 and waits[chain[-1]][1] in chain
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
        code, ident = divmod(arg, 64)
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
        return f"waits at a barrier{where} for {arg.name} to finish", (core.index, arg.name)
    if kind == "unit_flag":
        other = Pipe.FIX if entry is not None and entry.pipe is Pipe.M else Pipe.M
        return f"waits for unit flags of L0C blocks {in_words(arg)}{where}", (core.index, other.name)
    if kind == "mutex":
        return f"waits for lock {arg}{where}", None
    if kind == "sync_all":
        absent = machine.missing_at_sync(core, str(arg))
        missing = [machine.cores[i].info.label if i >= 0 else "a block that no core is free for" for i in absent]
        peers = [i for i in absent if i >= 0]
        text = f"waits in SyncAll{where} for {', '.join(missing[:4]) or 'nobody'}{' ...' if len(missing) > 4 else ''}"
        return text, ((peers[0], "S") if peers else None)
    return f"waits for cross-core flag {arg}{where}: nobody sets it", None


def _holder(core: Core, pipe: Pipe, kind: Kind, arg: tuple[int, int]) -> Waiter | None:
    """The process that still has to execute the wanted call: the pipe if it is queued there, else the scalar unit."""
    if pipe is not Pipe.S:
        unit = core.units[pipe]
        if unit is not None:
            if any(entry.kind is kind and entry.arg == arg for entry in unit.queue):
                return core.index, pipe.name
    return (core.index, "S") if not core.scalar.finished and core.scalar.blocked is not None else None
