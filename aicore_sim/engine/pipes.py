"""One pipe of one core: takes entries from its queue in order and leaves one row per entry.

The pipe keeps a local time `t`, the tick at which it is free. On-chip instructions, flags and barriers only move `t`; the
process meets the SimPy clock (yields) where it touches something shared: a GM transfer, an effect on bytes, or a flag
that nobody has set yet. See flags.py for why this is exact.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import NORMAL, Event, EventPriority

from aicore_sim.engine.columns import FLAG_IDS
from aicore_sim.engine.flags import Counter, Flag, Mutex
from aicore_sim.engine.landing import InFlight
from aicore_sim.engine.unit_flags import Blocks, whole_fractals
from aicore_sim.instructions.base import GmTraffic, Op, Pipe
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core

Process = Generator[simpy.Event, Any, Any]

CORE_SHIFT, PIPE_SHIFT, KIND_SHIFT, WHY_SHIFT = 0, 16, 20, 28
"""Bit fields of the first word of a row: core 16, pipe 4, kind 8, issue cause 8."""
ROW = struct.Struct("9q")
"""A row: packed core/pipe/kind/why, op, arg, line, issue, start, free, end, unit flag. Packing is several times faster
than extending an array by a tuple."""
WORDS = 9


RECENT = 8
"""Vector instructions whose results may still be on their way; more than the latency of one leaves room for."""
RECENT_PERTURBED = 64
"""The same where a perturbation can make the latency longer."""
Recent = deque[tuple[int, list[tuple[Buffer, int, int]]]]


def _after_its_sources(recent: Recent, entry: Entry, op: Op, start: int) -> int:
    """Tick at which a vector instruction can begin where the hardware orders V after V: when what it reads is there.

    The wait is the head of a dependent instruction (spec hardware.md 8) and belongs to its own time.
    """
    for end, writes in recent:
        if end > start:
            for index, lo, hi in op.reads:
                buffer, offset = entry.bufs[index], entry.offs[index]
                if any(b is buffer and first < offset + hi and offset + lo < last for b, first, last in writes):
                    start = end
    return start


class PipeUnit:
    """Queue and process of one pipe. `depth` entries fit the queue; one in execution still holds its slot.

    `released` are the ticks at which slots came free and were not used yet; `blocked` says in words what the process
    sleeps on (for deadlock reports).
    """

    def __init__(self, core: Core, pipe: Pipe, depth: int) -> None:
        self.core = core
        self.pipe = pipe
        self.queue: deque[Entry] = deque()
        self.depth = depth
        self.credits = depth
        self.released: deque[int] = deque()
        self.t = 0
        self.max_end = 0
        self.last_issue = -1
        """Tick of the last entry put into the queue; -1 if there was none."""
        self.sleeper: simpy.Event | None = None
        self.scalar_sleeper: simpy.Event | None = None
        self.bank_ticks = 0
        """Ticks that instructions were held by conflicts in the banks of UB (ub_banks.py)."""
        self.current: Entry | None = None
        self.blocked: tuple[str, Any] | None = None
        self.filling = False
        """A transfer from GM into L1 is in progress."""
        self.passing = False
        """A load that goes past L2 is in progress."""
        self.lag = 0
        """Ticks by which a perturbation makes the effects of the current entry complete later."""
        word = core.index << CORE_SHIFT | int(pipe) << PIPE_SHIFT
        self._rank = EventPriority(NORMAL + 1 + (core.index * len(Pipe) + int(pipe)))
        self._words = [word | kind << KIND_SHIFT for kind in range(len(Kind))]

    @property
    def drained(self) -> bool:
        """True if everything put into the queue so far has been taken up."""
        return self.last_issue < 0 or self.sleeper is not None

    def run(self) -> Process:
        """The process. It never ends by itself; the simulation ends when nothing is scheduled any more."""
        # The loop below runs once for every entry of every program: locals instead of attributes, identity instead of
        # comparison of enumerations, flags raised and taken in place.
        core, queue, released = self.core, self.queue, self.released
        env, machine = core.env, core.machine
        keep, pack = machine.rows.frombytes, ROW.pack
        timing, price, data, audit = machine.timing, machine.price, machine.data, machine.audit
        set_cost, wait_cost, barrier_cost = timing.set_flag, timing.wait_flag, timing.barrier
        flags, flag_of = core.flags, core.flag
        kind_exec, kind_set, kind_wait, kind_barrier = Kind.EXEC, Kind.SET_FLAG, Kind.WAIT_FLAG, Kind.BARRIER
        words = self._words
        exec_word, set_word, wait_word = words[kind_exec], words[kind_set], words[kind_wait]
        unit_flags = core.unit_flags() if self.pipe is Pipe.M else None
        filler = core.units[Pipe.MTE2] if self.pipe is Pipe.MTE1 else None
        fresh, filling = True, False
        noise, lag = machine.noise(core, self.pipe), 0
        recent: Recent | None = None
        if self.pipe is Pipe.V and machine.v_after_v:
            recent = deque(maxlen=RECENT if noise is None else RECENT_PERTURBED)
        waits = machine.bank_waits if self.pipe is Pipe.V else None
        t = max_end = 0
        while True:
            if not queue:
                self.t = t
                self.sleeper = event = Event(env)
                if self.scalar_sleeper is not None:
                    self.scalar_sleeper.succeed()
                    self.scalar_sleeper = None
                yield event
                continue
            entry = queue.popleft()
            kind = entry.kind
            issue = start = entry.issue
            if t > start:
                start = t
            if noise is not None:
                start += noise.late(entry)
                lag = self.lag = noise.lag
            index, waited = -1, 0
            if kind is kind_exec:
                op: Op = entry.op  # type: ignore[assignment]
                if op.index < 0:
                    price(op)
                index, word, arg = op.index, exec_word, 0
                route = op.route
                begin = start if recent is None else _after_its_sources(recent, entry, op, start)
                occupy = op.occupy
                if op.beside and filler is not None:
                    if fresh or issue > max_end:
                        # Behind a wait, or where nothing was left to do. What MTE2 does then is only known then; the loads
                        # that follow belong to the same moment.
                        now = int(env.now)
                        self.current = entry
                        yield self._turn(begin - now if begin > now else 0)
                        self.current = None
                        fresh, filling = False, filler.filling
                    if filling:
                        occupy += op.beside
                if waits is not None and op.access is not None:
                    lost = waits.known.get((index, entry.offs))
                    if lost is None:
                        lost = waits.find(op, entry.offs)
                    if lost:
                        occupy += lost
                        self.bank_ticks += lost
                if not data and (route == 0 or (route == 1 and unit_flags is not None and unit_flags.quiet(start))):
                    t = begin + occupy
                    end = t + op.latency + lag
                else:
                    self.current = entry
                    if op.gm_operand >= 0 and not op.unit_flag:
                        now = int(env.now)
                        yield self._turn(begin - now if begin > now else 0)
                        step = self._global(entry, op, begin, max(begin, now), None)
                    else:
                        step = self._execute(entry, op, begin, occupy)
                    begin, t, end, waited, arg = yield from step
                    self.current = None
                if recent is not None:
                    recent.append((end, [(entry.bufs[i], entry.offs[i] + lo, entry.offs[i] + hi) for i, lo, hi in op.writes]))
                if end > max_end:
                    self.max_end = max_end = end
            elif kind is kind_wait:
                event_id, ident = entry.arg
                arg, word = event_id * FLAG_IDS + ident, wait_word
                flag = flags.get(arg) or flag_of(arg)
                fresh = True
                fires: Any = flag.fires
                if fires is None:
                    self.current = entry
                    yield self._sleep_on_flag(flag, "wait", arg)
                    self.blocked = self.current = None
                    fires = flag.fires
                if start > fires:
                    fires = start
                flag.cleared, flag.fires = fires, None
                if flag.set_sleeper is not None:
                    flag.set_sleeper.succeed()
                    flag.set_sleeper = None
                t = end = fires + wait_cost
            elif kind is kind_set:
                event_id, ident = entry.arg
                arg, word = event_id * FLAG_IDS + ident, set_word
                flag = flags.get(arg) or flag_of(arg)
                if flag.fires is not None:
                    self.current = entry
                    yield self._sleep_on_flag(flag, "set", arg)
                    self.blocked = self.current = None
                t = (start if start > flag.cleared else flag.cleared) + set_cost
                flag.fires = end = t if t > max_end else max_end
                if flag.wait_sleeper is not None:
                    flag.wait_sleeper.succeed()
                    flag.wait_sleeper = None
            elif kind is kind_barrier:
                arg, word = 0, words[kind]
                t = end = (start if start > max_end else max_end) + barrier_cost
            else:
                self.current = entry
                t, arg = yield from self._synchronise(entry, start)
                self.current = None
                fresh = True
                word, end = words[kind], t
            keep(pack(word | entry.why << WHY_SHIFT, index, arg, entry.line, issue, start, t, end, waited))
            if audit is not None:
                if kind is kind_exec:
                    audit.row(entry)
                elif kind < 4:
                    audit.mark(entry.seq)
                else:
                    audit.sync_row(entry)
            released.append(t)
            if self.scalar_sleeper is not None:
                self.t = t
                self.scalar_sleeper.succeed()
                self.scalar_sleeper = None

    # ---- flags and the like -----------------------------------------------------------------------------------------
    def _sleep_on_flag(self, flag: Flag, side: str, arg: int) -> simpy.Event:
        event = self.core.env.event()
        self.blocked = ("flag_" + side, arg)
        if side == "wait":
            flag.wait_sleeper = event
        else:
            flag.set_sleeper = event
        return event

    def _synchronise(self, entry: Entry, start: int) -> Generator[simpy.Event, Any, tuple[int, int]]:
        """Cross-core flags and Mutex on this pipe; returns (tick when the pipe goes on, argument for the row)."""
        core, timing = self.core, self.core.machine.timing
        if entry.kind is Kind.CROSS_SET:
            flag, mode = entry.arg
            tick = max(start, self.max_end) + timing.cross_set
            core.machine.cross.set(core.index, flag, mode, tick)
            return start + timing.set_flag, flag
        if entry.kind is Kind.CROSS_WAIT:
            flag, mode = entry.arg
            counter = core.machine.cross.counter(core.index, flag, mode == 4)
            if not counter.ticks:
                yield self._sleep_on_counter(counter, flag)
                self.blocked = None
            return max(start, counter.ticks.popleft()) + timing.cross_wait, flag
        if entry.kind is Kind.MUTEX_UNLOCK:
            core.mutex(entry.arg).unlock(max(start, self.max_end))
            return start + timing.set_flag, int(entry.arg)
        ident, need = entry.arg
        mutex = core.mutex(ident)
        if len(mutex.unlocked) < need:
            yield self._sleep_on_mutex(mutex, need, ident)
            self.blocked = None
        ready = mutex.unlocked[need - 1] if need else 0
        return max(start, ready) + timing.wait_flag, int(ident)

    def _sleep_on_counter(self, counter: Counter, flag: int) -> simpy.Event:
        counter.sleeper = event = self.core.env.event()
        self.blocked = ("cross", flag)
        return event

    def _sleep_on_mutex(self, mutex: Mutex, need: int, ident: int) -> simpy.Event:
        event = self.core.env.event()
        mutex.sleeper.append((need, event))
        self.blocked = ("mutex", ident)
        return event

    # ---- instructions that touch something shared -------------------------------------------------------------------
    def _execute(
        self, entry: Entry, op: Op, start: int, occupy: int
    ) -> Generator[simpy.Event, Any, tuple[int, int, int, int, int]]:
        """Returns (start, free, end, ticks waited for unit flags, device address); `occupy` is the price with conflicts."""
        core = self.core
        env, machine = core.env, core.machine
        where, lo_sleep = None, start
        if op.unit_flag:
            where = yield from self._unit_flag_turn(entry, op)
        now = int(env.now)
        if op.gm_operand >= 0:
            yield self._turn(max(start - now, 0))
        elif start > now:
            yield env.timeout(start - now)
        if start < now:
            # Woken late by a unit flag: what follows happens now, the wait counts from the start.
            lo_sleep = now
        begin = max(start, lo_sleep)
        if op.through == "nddma-invalidate":
            core.nddma_invalidate(entry, begin)
            return start, start + op.occupy, start + op.occupy + op.latency, 0, 0
        if op.gm_operand >= 0:
            return (yield from self._global(entry, op, start, begin, where))
        waited = 0
        free = begin + occupy
        if where is not None:
            writer = op.pipe is Pipe.M
            flags = core.unit_flags()
            done = flags.timeline(where, begin, occupy, writer)
            free = int(done[-1])
            waited = free - start - occupy
            if op.unit_flag == 3:
                flags.leave(where, done + op.latency + self.lag if writer else done, writer)
        end = free + op.latency + self.lag
        if machine.landing is not None and op.effect is not None:
            machine.landing.finish_at(machine.landing.begin(entry, core.index, begin, free, end), end)
        return start, free, end, waited, 0

    def _turn(self, delay: int) -> simpy.Event:
        """An event `delay` ticks from now; transfers that begin in one tick reach L2 in the order of their cores.

        Without it the order would be that in which SimPy got to the processes, which differs with and without data.
        """
        env = self.core.env
        event = Event(env)
        event._ok, event._value = True, None
        env.schedule(event, self._rank, delay)
        return event

    def _unit_flag_turn(self, entry: Entry, op: Op) -> Generator[simpy.Event, Any, Blocks]:
        """Sleep until every block's bit has been turned by an executed instruction; returns the blocks."""
        writer = op.pipe is Pipe.M
        flags, base = self.core.unit_flags(), entry.offs[0 if writer else 1]
        side = 0 if writer else 1  # the operand in L0C; a Fixpipe may read a table besides
        spans = [(base + lo, base + hi) for index, lo, hi in (op.writes if writer else op.reads) if index == side]
        where = flags.blocks(spans if writer else whole_fractals(spans))
        while flags.must_sleep(where, writer):
            event = self.core.env.event()
            flags.sleepers.append(event)
            self.blocked = ("unit_flag", where)
            yield event
        self.blocked = None
        return where

    def _global(
        self, entry: Entry, op: Op, start: int, begin: int, where: Blocks | None
    ) -> Generator[simpy.Event, Any, tuple[int, int, int, int, int]]:
        """A transfer to or from GM: L2 look-up by address, then a flow through port, L2 and memory."""
        core = self.core
        machine, timing = core.machine, core.machine.timing
        cost = op.cost
        assert isinstance(cost, GmTraffic)
        buffer = entry.bufs[op.gm_operand]
        address = buffer.base + entry.offs[op.gm_operand]
        hint = entry.l2
        landing_entry = entry
        misses = 0
        if machine.dirty and cost.is_read and core.watch is not None:
            for operand, lo, hi in op.reads:
                if operand == op.gm_operand:
                    core.watch.read(entry.seq, buffer, entry.offs[operand] + lo, entry.offs[operand] + hi)
        if op.through == "nddma":
            landing_entry, access, misses = core.nddma_read(entry, op, address, hint)
        else:
            access = machine.look_up(core, self.pipe, address, op.gm_runs, not cost.is_read, hint, begin, timing.gm_pace(cost))
        private = timing.gm_private(cost, access.runs, access.uneven)
        loads = core.units[Pipe.MTE2]
        if not cost.is_read and loads is not None and loads.passing:
            private = max(private, timing.gm_beside_bypass(cost))
        if misses and core.nddma_slots is not None:
            more = machine.miss_latency(cost.path)
            private = max(private, core.nddma_slots.take(begin, misses, access, op.latency, more))
        stretch = 0
        if where is not None:
            # Behind the unit flags of its blocks the transfer can go no faster than the Mmad that fills them.
            flags = core.unit_flags()
            done = flags.timeline(where, begin, private, False)
            stretch = int(done[-1]) - begin - private
            private += stretch
            if op.unit_flag == 3:
                flags.leave(where, done, False)
        latency = op.latency + (machine.miss_latency(cost.path) if access.missed else 0) + self.lag
        flight: InFlight | None = None
        if machine.landing is not None and op.effect is not None:
            flight = machine.landing.begin(landing_entry, core.index, begin, begin + private, begin + private + latency)
        # A store that L2 keeps costs memory nothing until its line is written back.
        to_memory = cost.is_read or hint in ("disable", "notalloc_keep")
        fetched = access.fetched + access.missing_runs * machine.run_cost if to_memory else 0.0
        written = access.evicted if cost.is_read else access.evicted + fetched
        memory = (fetched if cost.is_read else 0.0) + written * machine.write_cost
        crowded, past = 1.0, hint == "disable"
        if access.shared:
            cost_of_line = machine.same_line_bypass_cost if past else machine.same_line_cost
            crowded += (cost_of_line - 1.0) * access.shared / access.lines
        if past:
            memory *= crowded
        finished = Event(core.env)
        machine.sharing.start(max(cost.nbytes, 1), private, cost.is_read, access.pieces * (1.0 if past else crowded), memory,
                              finished.succeed)  # fmt: skip
        machine.transfers += 1
        self.filling, self.passing = cost.path == "GM-L1", cost.is_read and hint == "disable"
        _, l2, hbm = yield finished
        self.filling = self.passing = False
        machine.transfers -= 1
        now = int(core.env.now)
        free = max(begin + op.occupy, now)
        end = free + latency
        if op.through == "nddma" and core.nddma is not None:
            core.nddma.arrived(end)
        if flight is not None and machine.landing is not None:
            machine.landing.finish_at(flight, end)
        port = now - begin - l2 - hbm
        if port < 0:
            # The flow counts its times in fractions of ticks; a tick too many goes.
            hbm, l2, port = max(hbm + port, 0), l2 + min(hbm + port, 0), 0
        stretch = min(stretch, port)
        waited = begin - start + stretch
        port -= stretch
        queued = round((hbm if past else l2) * (1.0 - 1.0 / crowded))
        l2, hbm = (l2, hbm - queued) if past else (l2 - queued, hbm)
        machine.gm_rows.frombytes(ROW.pack(len(machine.rows) // WORDS, port, l2, hbm, queued, access.hit, access.missed,
                                           access.evicted, access.pieces))  # fmt: skip
        return start, free, end, waited, address

