"""One simulated core: its memories, pipes, flags and private caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from aicore_sim.engine.coherence import CacheWatch
from aicore_sim.engine.columns import CoreInfo
from aicore_sim.engine.dcache import ScalarDCache
from aicore_sim.engine.device import CoreDevice
from aicore_sim.engine.flags import Flag, Mutex
from aicore_sim.engine.l2 import Access
from aicore_sim.engine.nddma_cache import MissSlots, NddmaCache, patched_source
from aicore_sim.engine.pipes import PipeUnit
from aicore_sim.engine.scalar import ScalarUnit
from aicore_sim.engine.unit_flags import UnitFlags
from aicore_sim.instructions.base import GmTraffic, Op, Pipe
from aicore_sim.kernel.program import Entry
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.engine.machine import Machine

PIPES_OF = {
    "aic": (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX, Pipe.MTE3),
    "aiv": (Pipe.S, Pipe.MTE2, Pipe.V, Pipe.MTE3),
    "core": tuple(Pipe),
}
BUFFERS_OF = {
    "aic": ("L1", "L0A", "L0B", "L0C", "BT", "FB", "L0AMX", "L0BMX"),
    "aiv": ("UB",),
    "core": ("UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"),
}


class Core:
    """A physical core of kind "aic", "aiv" or "core" (coupled). Memories keep their content between blocks."""

    def __init__(self, machine: Machine, index: int, kind: str, group: int, sub: int) -> None:
        self.machine = machine
        self.env: simpy.Environment = machine.env
        self.index = index
        self.kind = kind
        self.block = -1
        """Number of the block it works on, in the order in which they were queued."""
        card = machine.card
        label = f"core{group}" + ("" if kind == "core" else ".aic" if kind == "aic" else f".aiv{sub}")
        pipes = PIPES_OF[kind]
        if kind == "aic" and not any(path.pipe == "MTE3" and path.core == "aic" for path in card.gm.values()):
            pipes = tuple(pipe for pipe in pipes if pipe is not Pipe.MTE3)  # nothing reaches it (spec api_semantics.md 11.3)
        self.info = CoreInfo(label, "aiv" if kind == "aiv" else "aic", group, sub, tuple(int(p) for p in pipes))
        self.buffers = {
            name: Buffer(name, int(card.value(f"buffers.{name}.size")), uid=index * 16 + i, label=f"{label} {name}",
                         data=machine.data)
            for i, name in enumerate(BUFFERS_OF[kind])
            if name in card.buffers
        }  # fmt: skip
        self.units: list[PipeUnit | None] = [None] * len(Pipe)
        for pipe in pipes:
            if pipe is not Pipe.S:
                self.units[pipe] = PipeUnit(self, pipe, int(card.value(f"queues.{pipe.name}")))
        self.scalar = ScalarUnit(self)
        self.dcache = ScalarDCache(
            int(card.value("scalar.dcache_aiv_bytes" if kind == "aiv" else "scalar.dcache_aic_bytes")),
            int(card.value("scalar.dcache_line")),
        )
        self.watch: CacheWatch | None = None
        if machine.data and machine.audit is not None:
            self.watch = self.dcache.watch = CacheWatch(machine.audit, index, machine.dirty)
        self.device = CoreDevice(self)
        self.nddma: NddmaCache | None = None
        self.nddma_slots: MissSlots | None = None
        self._last_dci = -1
        """Number of the last NdDmaDci that has taken effect."""
        if card.has("nddma.cache_bytes") and kind != "aic":
            self.nddma = NddmaCache(int(card.value("nddma.cache_bytes")), int(card.value("nddma.line")),
                                    int(card.value("nddma.ways")))  # fmt: skip
            self._dci_queued, self._dci_waits = card.flag("nddma.dci_queued"), card.flag("nddma.dci_waits")
            self.nddma_slots = MissSlots(card.value("nddma.misses_in_flight"), card.flag("nddma.prefetch"))
        self.flush_at_end = card.flag("scalar.flush_at_end")
        self.flags: dict[int, Flag] = {}
        """Event flags made so far, by HardEvent * FLAG_IDS + id."""
        self._mutexes: dict[int, Mutex] = {}
        self._unit_flags: UnitFlags | None = None

    def start(self) -> None:
        """Put the processes into the simulation."""
        for unit in self.units:
            if unit is not None:
                self.env.process(unit.run())
        self.env.process(self.scalar.run())

    def flag(self, key: int) -> Flag:
        """The event flag HardEvent * FLAG_IDS + id."""
        found = self.flags.get(key)
        if found is None:
            found = self.flags[key] = Flag()
        return found

    def flags_up(self) -> list[int]:
        """Keys of the flags that are set and were never waited for."""
        return sorted(key for key, flag in self.flags.items() if flag.fires is not None)

    def mutex(self, ident: int) -> Mutex:
        found = self._mutexes.get(ident)
        if found is None:
            found = self._mutexes[ident] = Mutex()
        return found

    def unit_flags(self) -> UnitFlags:
        if self._unit_flags is None:
            self._unit_flags = UnitFlags(self.buffers["L0C"].size)
        return self._unit_flags

    def nddma_invalidate(self, entry: Entry, begin: int) -> None:
        """NdDmaDci is executed on MTE2 at tick `begin`; on a card where it acts at issue it may have taken effect before."""
        assert self.nddma is not None
        if entry.seq > self._last_dci:
            self._last_dci = entry.seq
            tick = begin if self._dci_queued else entry.issue
            self.nddma.invalidate(None if self._dci_waits else tick)

    def _invalidate_at_issue(self, now: int) -> None:
        """Let those NdDmaDci take effect that were issued by now and still wait in the queue."""
        unit = self.units[Pipe.MTE2]
        for entry in unit.queue if unit is not None else ():
            if entry.op is not None and entry.op.through == "nddma-invalidate" and entry.issue <= now:
                self.nddma_invalidate(entry, entry.issue)

    def nddma_read(self, entry: Entry, op: Op, address: int, hint: str) -> tuple[Entry, Access, int]:
        """An NDDMA copy through this core's cache: (entry whose source shows the cache's bytes, traffic behind it, misses
        that wait for a slot)."""
        assert self.nddma is not None and self.nddma_slots is not None and isinstance(op.cost, GmTraffic)
        source = entry.bufs[1]
        self.machine.settle(int(self.env.now))
        if not self._dci_queued:
            self._invalidate_at_issue(int(self.env.now))
        found = self.nddma.read(source, address, op.gm_runs)
        access = Access(0, 0, 0, 0, 0, 0)
        if found.misses:
            pace = self.machine.timing.gm_pace(op.cost)
            access = self.machine.look_up(self, op.pipe, 0, found.missed_runs, False, hint, int(self.env.now), pace)
        access.runs = op.cost.rows  # its own, whatever the cache leaves of them for L2
        if found.stale:
            if self.watch is not None:
                self.watch.nddma_stale(entry.seq, source, found.stale)
            lo, hi = op.reads[0][1] + entry.offs[1], op.reads[0][2] + entry.offs[1]
            view = patched_source(source, min(lo, found.stale[0][0]), max(hi, max(a + b.size for a, b in found.stale)),
                                  found.stale)  # fmt: skip
            entry = Entry(entry.kind, entry.pipe, entry.line, op, (entry.bufs[0], view), entry.offs)
        return entry, access, self.nddma_slots.waiting(found)

    def end_of_kernel(self) -> None:
        """What the compiler adds at the end of a stand-alone kernel: the data cache is cleaned (spec api_semantics.md 19.4), or
        only invalidated where the build leaves that out (`scalar.flush_at_end`)."""
        if self.machine.data:
            self.machine.settle(int(self.env.now))
            if self.watch is not None:
                self.watch.seq = self.scalar.seq
            if self.flush_at_end:
                self.dcache.clean_invalidate_all()
            else:
                self.dcache.drop_all()
