"""Flags between cores as the counters that hold them: which sets make a signal, and which wait takes it (spec
api_semantics.md 11.5; the meaning is that of `engine.flags.CrossCore`)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.kernel.program import Kind

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Place:
    """One counter: of a core, by flag id; mode 4 has counters of its own."""

    core: int
    flag: int
    mode4: bool


@dataclass(slots=True)
class Counted:
    """What one counter met: the k-th signal (the rows of CrossCoreSetFlag that make it) is taken by the k-th wait (its row)."""

    signals: list[tuple[int, ...]] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lone:
    """A set that never became a signal, because not every participant has set as often: its row, and who did not."""

    row: int
    absent: tuple[int, ...]


def counters(facts: Facts) -> tuple[dict[Place, Counted], list[Lone]]:
    """All counters of a run, and the sets that never got so far."""
    found: dict[Place, Counted] = defaultdict(Counted)
    rounds: dict[tuple[object, ...], dict[int, deque[int]]] = {}
    for row in np.flatnonzero(np.isin(facts.kind, [int(Kind.CROSS_SET), int(Kind.CROSS_WAIT)])).tolist():
        core, flag = int(facts.core[row]), int(facts.columns.arg[row])
        mode = mode_of(facts, row)
        if facts.kind[row] == int(Kind.CROSS_WAIT):
            found[Place(core, flag, mode == 4)].waits.append(row)
        elif mode == 4:
            for place in _mode4(facts, core, flag):
                found[place].signals.append((row,))
        else:
            kind, together = facts.columns.cores[core].kind, mode in (1, 2)
            key = (mode, flag, kind, facts.columns.cores[core].group if together else -1)
            pending = rounds.setdefault(key, {peer: deque() for peer in _peers(facts, core, kind, together)})
            pending[core].append(row)
            while all(pending.values()):
                sources = tuple(queue.popleft() for queue in pending.values())
                other = "aiv" if kind == "aic" else "aic"
                for peer in _peers(facts, core, other, True) if mode == 2 else pending:
                    found[Place(peer, flag, False)].signals.append(sources)
    lone = []
    for pending in rounds.values():
        absent = tuple(core for core, queue in pending.items() if not queue)
        lone += [Lone(row, absent) for queue in pending.values() for row in queue]
    return found, lone


def mode_of(facts: Facts, row: int) -> int:
    """The mode of a CrossCoreSetFlag or CrossCoreWaitFlag."""
    return int(facts.audit.offset[facts.audit.first[row]])


def _peers(facts: Facts, core: int, kind: str, together: bool) -> list[int]:
    cores = facts.columns.cores
    return [i for i, other in enumerate(cores) if other.kind == kind and (not together or other.group == cores[core].group)]


def _mode4(facts: Facts, core: int, flag: int) -> list[Place]:
    """The counters that a set of mode 4 raises; none in a kernel without the other half."""
    cores = facts.columns.cores
    if cores[core].kind == "aiv":
        return [Place(aic, flag + 16 * cores[core].sub, True) for aic in _peers(facts, core, "aic", True)]
    sub, local = divmod(flag, 16)
    return [Place(peer, local, True) for peer in _peers(facts, core, "aiv", True) if cores[peer].sub == sub]
