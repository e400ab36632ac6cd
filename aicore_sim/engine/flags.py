"""Synchronisation objects. Each keeps times, not just states: a process may know a flag's tick before the clock is there.

Pipes and the scalar unit run ahead of the SimPy clock where nothing shared is touched; a set therefore carries the tick
at which it fires and a wait returns the later of its own tick and that. Whoever needs a set that has not been executed
yet sleeps on a SimPy event. The order of calls is still causal: nobody can act on a set before it was executed.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import simpy

Sleeper = Any
"""A SimPy event someone sleeps on."""


class Flag:
    """One event id of one pipe pair: one deep (spec api_semantics.md 11.3).

    A set on a flag that is still up waits until it was taken: no signal is lost.
    """

    __slots__ = ("cleared", "fires", "set_sleeper", "wait_sleeper")

    def __init__(self) -> None:
        self.fires: int | None = None
        self.cleared = 0
        self.wait_sleeper: Sleeper = None
        self.set_sleeper: Sleeper = None

    def put(self, fires: int) -> None:
        """Raise the flag at tick `fires`; the caller has made sure that it is down."""
        self.fires = max(fires, self.cleared)
        if self.wait_sleeper is not None:
            self.wait_sleeper.succeed()
            self.wait_sleeper = None

    def take(self, now: int) -> int:
        """Clear the raised flag for a wait that began at `now`; returns the tick at which the wait ends."""
        assert self.fires is not None
        self.cleared = max(now, self.fires)
        self.fires = None
        if self.set_sleeper is not None:
            self.set_sleeper.succeed()
            self.set_sleeper = None
        return self.cleared


class Counter:
    """Signals that wait to be consumed one by one, each with its tick (a cross-core flag of one core)."""

    __slots__ = ("sleeper", "ticks")

    def __init__(self) -> None:
        self.ticks: deque[int] = deque()
        self.sleeper: Sleeper = None

    def put(self, tick: int) -> None:
        self.ticks.append(tick)
        if self.sleeper is not None:
            self.sleeper.succeed()
            self.sleeper = None


class Mutex:
    """Buffer lock in program order (spec api_semantics.md 20.5): a Lock waits for all Unlocks issued before it."""

    __slots__ = ("issued", "sleeper", "unlocked")

    def __init__(self) -> None:
        self.issued = 0
        """Unlocks the scalar unit has issued so far."""
        self.unlocked: list[int] = []
        """Ticks of the Unlocks executed so far, in order."""
        self.sleeper: list[tuple[int, Sleeper]] = []

    def unlock(self, tick: int) -> None:
        """An Unlock took effect at `tick`."""
        last = self.unlocked[-1] if self.unlocked else 0
        self.unlocked.append(max(tick, last))
        waiting, self.sleeper = self.sleeper, []
        for need, event in waiting:
            if len(self.unlocked) >= need:
                event.succeed()
            else:
                self.sleeper.append((need, event))


class Rendezvous:
    """Sets of several participants that together make one signal: mode 0, 1, 2 of CrossCoreSetFlag, and SyncAll.

    Round k is complete when every participant has set k times; its tick is the latest of them. `targets` get it.
    """

    __slots__ = ("pending", "targets")

    def __init__(self, participants: list[int], targets: list[Counter]) -> None:
        self.pending: dict[int, deque[int]] = {p: deque() for p in participants}
        self.targets = targets

    def put(self, participant: int, tick: int) -> None:
        self.pending[participant].append(tick)
        while all(self.pending.values()):
            complete = max(queue.popleft() for queue in self.pending.values())
            for target in self.targets:
                target.put(complete)

    def missing(self) -> list[int]:
        """Participants whose set the current round still waits for."""
        return [p for p, queue in self.pending.items() if not queue]


class CrossCore:
    """All cross-core flags of a run (spec api_semantics.md 11.5). Cores are numbered as in `Columns.cores`.

    `kinds[i]` is "aic" or "aiv", `groups[i]` the AI Core of core i, `subs[i]` its sub-block.
    """

    def __init__(self, env: simpy.Environment, kinds: list[str], groups: list[int], subs: list[int]) -> None:
        self.env = env
        self.kinds, self.groups, self.subs = kinds, groups, subs
        self._counters: dict[tuple[int, int, bool], Counter] = {}
        self._rounds: dict[tuple[object, ...], Rendezvous] = {}

    def counter(self, core: int, flag: int, mode4: bool = False) -> Counter:
        """The counter of `flag` that `core` waits on (mode 4 has counters of its own)."""
        key = (core, flag, mode4)
        if key not in self._counters:
            self._counters[key] = Counter()
        return self._counters[key]

    def _peers(self, core: int, kind: str | None, same_group: bool) -> list[int]:
        return [i for i, k in enumerate(self.kinds) if (kind is None or k == kind)
                and (not same_group or self.groups[i] == self.groups[core])]  # fmt: skip

    def set(self, core: int, flag: int, mode: int, tick: int) -> None:
        """CrossCoreSetFlag<mode>(flag) by `core`, in effect at `tick`."""
        kind = self.kinds[core]
        if mode == 4:
            self._set_mode4(core, flag, tick)
            return
        if mode == 2:
            senders = self._peers(core, kind, True)
            targets = self._peers(core, "aiv" if kind == "aic" else "aic", True)
            key: tuple[object, ...] = (2, flag, kind, self.groups[core])
        else:
            senders = targets = self._peers(core, kind, mode == 1)
            key = (mode, flag, kind, self.groups[core] if mode == 1 else -1)
        if key not in self._rounds:
            self._rounds[key] = Rendezvous(senders, [self.counter(t, flag) for t in targets])
        self._rounds[key].put(core, tick)

    def _set_mode4(self, core: int, flag: int, tick: int) -> None:
        if self.kinds[core] == "aiv":
            for aic in self._peers(core, "aic", True):  # none in a kernel of vector cores alone: the set is lost
                self.counter(aic, flag + 16 * self.subs[core], True).put(tick)
            return
        sub, local = divmod(flag, 16)
        for peer in self._peers(core, "aiv", True):
            if self.subs[peer] == sub:
                self.counter(peer, local, True).put(tick)
