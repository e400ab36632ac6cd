"""The scalar unit of a core: issues a program in order into the queues of the pipes, and runs the scalar instructions.

It keeps a local time as the pipes do; it meets the SimPy clock where it reads or writes device state.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from aicore_sim.engine.columns import FLAG_IDS, Cause
from aicore_sim.engine.flags import Counter
from aicore_sim.engine.perturb import PipeNoise
from aicore_sim.engine.polls import Polls
from aicore_sim.engine.undefined import note_load
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder
from aicore_sim.kernel.program import Entry, Kind

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core

Process = Generator[simpy.Event, Any, Any]


class ScalarUnit:
    """Issue logic of one core. `ticks` are its totals by Cause (idle is filled in at the end of the run)."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.t = 0
        self.ticks = [0] * len(Cause)
        self.began = -1
        """Tick at which the core was started; -1 before that."""
        self.issued = 0
        self.seq = 0
        """Number of the next entry of this core in program order; the end of a block takes one too."""
        self.blocked: tuple[str, Any] | None = None
        self.current: Entry | None = None
        self.batch: list[Entry] = []
        """The entries recorded last; those without a number (`Entry.seq`) are not issued yet."""
        self.finished = False
        self.over = False
        """True from the end of a block's program to the start of the next."""
        self._stall = int(Cause.ISSUE)
        self._stall_until = -1
        self.polls = Polls(core)
        self._noise: PipeNoise | None = None

    def run(self) -> Process:
        """Run block after block; ends when the core has no more blocks."""
        core = self.core
        while True:
            block = core.machine.next_block(core)
            if block is None:
                break
            due, recorder = block
            if self.began < 0:
                self._noise = core.machine.noise(core, Pipe.S)
                self.began = self.t = due + (self._noise.start if self._noise is not None else 0)
            elif due > self.t:
                self.t = due
            self.t += core.machine.timing.core_start
            self.ticks[Cause.BUSY] += core.machine.timing.core_start
            self.over = False
            yield from self._program(recorder)
            self.over = True
            yield from self._drain()
            # Even where no time has passed: every core gets its first block before one of them asks for a second.
            yield core.env.timeout(max(self.t - int(core.env.now), 0))
            core.end_of_kernel()
            if core.machine.audit is not None:
                core.machine.audit.block_over(core.index, core.block, self.seq, core.machine.rows_so_far())
            self.seq += 1
        self.finished = True

    def _program(self, recorder: Recorder) -> Process:
        core = self.core
        machine = core.machine
        issue_cost = machine.timing.issue
        units = core.units
        ticks = self.ticks
        kind_exec, kind_set, kind_wait = Kind.EXEC, Kind.SET_FLAG, Kind.WAIT_FLAG
        kind_lock, kind_unlock = Kind.MUTEX_LOCK, Kind.MUTEX_UNLOCK
        noise = self._noise
        answer: Any = None
        while True:
            entries = machine.record(recorder, answer)
            if not entries:
                return
            self.batch = entries
            self.issued += len(entries)
            t, stall, stall_until, seq = self.t, self._stall, self._stall_until, self.seq
            for entry in entries:
                t += issue_cost
                if noise is not None:
                    held = noise.late(entry)
                    ticks[9] += held
                    t += held
                entry.seq = seq
                seq += 1
                kind = entry.kind
                unit = units[entry.pipe]
                if unit is not None and (kind is kind_exec or kind is kind_wait or kind is kind_set or kind < 8):
                    if kind is kind_lock or kind is kind_unlock:
                        self._note_mutex(entry, kind)
                    if unit.credits:
                        unit.credits -= 1
                    else:
                        released = unit.released
                        if not released:
                            self.current, self.blocked = entry, ("queue", unit.pipe)
                            unit.scalar_sleeper = event = simpy.Event(core.env)
                            yield event
                            self.current = self.blocked = None
                        free = released.popleft()
                        if free > t:
                            ticks[8] += free - t
                            stall, t = 8, free
                            stall_until = t
                    entry.issue = t
                    entry.why = stall if stall_until > unit.last_issue else 9
                    unit.last_issue = t
                    unit.queue.append(entry)
                    if unit.sleeper is not None:
                        unit.sleeper.succeed()
                        unit.sleeper = None
                else:
                    self.t = t
                    self.current = entry
                    self._stall, self._stall_until = stall, stall_until
                    answer = yield from self._own(entry)
                    self.current = None
                    t, stall, stall_until = self.t, self._stall, self._stall_until
            ticks[9] += issue_cost * len(entries)
            self.seq = seq
            self.t, self._stall, self._stall_until = t, stall, stall_until

    def _note_mutex(self, entry: Entry, kind: int) -> None:
        mutex = self.core.mutex(entry.arg)
        if kind == Kind.MUTEX_LOCK:
            entry.arg = (entry.arg, mutex.issued)
        else:
            mutex.issued += 1

    # ---- what the scalar unit does itself ----------------------------------------------------------------------------
    def _own(self, entry: Entry) -> Generator[simpy.Event, Any, Any]:
        core, kind = self.core, entry.kind
        timing = core.machine.timing
        start = self.t
        cause = Cause.BUSY
        answer: Any = None
        if kind is Kind.SCALAR:
            now = int(core.env.now)
            if start > now:
                yield core.env.timeout(start - now)
            answer = self._action(entry)
        elif kind is Kind.WAIT_FLAG:
            cause = Cause.FLAG
            yield from self._wait_flag(entry)
            self.t += timing.wait_flag
        elif kind is Kind.SET_FLAG:
            cause = Cause.FLAG
            yield from self._set_flag(entry)
        elif kind is Kind.BARRIER_ALL:
            cause = Cause.BARRIER
            yield from self._drain()
            self.t += timing.barrier_all
        elif kind is Kind.CROSS_SET:
            flag, mode = entry.arg
            core.machine.cross.set(core.index, flag, mode, self.t + timing.cross_set)
        elif kind is Kind.CROSS_WAIT:
            cause = Cause.FLAG
            flag, mode = entry.arg
            yield from self._wait_counter(core.machine.cross.counter(core.index, flag, mode == 4), ("cross", flag))
            self.t += timing.cross_wait
        elif kind is Kind.SYNC_ALL:
            cause = Cause.FLAG
            counter = core.machine.sync_all(core, str(entry.arg[0]), self.t)
            yield from self._wait_counter(counter, ("sync_all", entry.arg[0]))
            self.t += timing.sync_all
        elif kind is Kind.MUTEX_LOCK:
            ident, need = entry.arg if isinstance(entry.arg, tuple) else (entry.arg, core.mutex(entry.arg).issued)
            yield from self._lock(ident, need)
        elif kind is Kind.MUTEX_UNLOCK:
            core.mutex(entry.arg).issued += 1
            core.mutex(entry.arg).unlock(self.t)
        self.ticks[cause] += self.t - start
        if cause is not Cause.BUSY and self.t > start:
            self._stall, self._stall_until = int(cause), self.t
        index = entry.op.index if entry.op is not None else -1
        core.machine.scalar_row(core, entry, index, start, self.t)
        self.polls.rows += 1
        if answer is not None:
            self.polls.loaded(entry, answer)
        return answer

    def _action(self, entry: Entry) -> Any:
        core = self.core
        if entry.op is not None:
            if entry.op.index < 0:
                core.machine.price(entry.op)
            self.t += entry.op.occupy
        device = core.device
        device.begin(entry)
        answer = entry.arg(device)
        if entry.op is not None and entry.op.reads and core.machine.data and core.machine.audit is not None:
            note_load(core.machine.audit, core.index, entry, core.dcache)
        self.t += device.extra_ticks
        return answer

    def _wait_flag(self, entry: Entry) -> Process:
        event, ident = entry.arg
        flag = self.core.flag(event * FLAG_IDS + ident)
        if flag.fires is None:
            flag.wait_sleeper = sleeper = self.core.env.event()
            self.blocked = ("flag_wait", event * FLAG_IDS + ident)
            yield sleeper
            self.blocked = None
        self.t = flag.take(self.t)

    def _set_flag(self, entry: Entry) -> Process:
        event, ident = entry.arg
        flag = self.core.flag(event * FLAG_IDS + ident)
        if flag.fires is not None:
            flag.set_sleeper = sleeper = self.core.env.event()
            self.blocked = ("flag_set", event * FLAG_IDS + ident)
            yield sleeper
            self.blocked = None
        self.t = max(self.t, flag.cleared) + self.core.machine.timing.set_flag
        flag.put(self.t)

    def _wait_counter(self, counter: Counter, what: tuple[str, Any]) -> Process:
        if not counter.ticks:
            counter.sleeper = event = self.core.env.event()
            self.blocked = what
            yield event
            self.blocked = None
        self.t = max(self.t, counter.ticks.popleft())

    def _lock(self, ident: int, need: int) -> Process:
        mutex = self.core.mutex(ident)
        if len(mutex.unlocked) < need:
            event = self.core.env.event()
            mutex.sleeper.append((need, event))
            self.blocked = ("mutex", ident)
            yield event
            self.blocked = None
        if need:
            self.t = max(self.t, mutex.unlocked[need - 1])

    def _drain(self) -> Process:
        """Wait until every pipe has executed all it was given and all effects are complete."""
        for unit in self.core.units:
            if unit is None or unit.pipe is Pipe.S:
                continue
            while not unit.drained:
                unit.scalar_sleeper = event = self.core.env.event()
                self.blocked = ("drain", unit.pipe)
                yield event
                self.blocked = None
            last = unit.released[-1] if unit.released else 0
            self.t = max(self.t, unit.max_end, last)
