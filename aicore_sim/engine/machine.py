"""The simulated card: cores, shared L2 and memory, and the run itself."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import simpy

from aicore_sim.cards import Card
from aicore_sim.engine.audit import Audit
from aicore_sim.engine.coherence import DirtyLines
from aicore_sim.engine.columns import FLAG_IDS, Cause, Columns
from aicore_sim.engine.core import Core
from aicore_sim.engine.deadlock import explain
from aicore_sim.engine.flags import Counter, CrossCore, Rendezvous
from aicore_sim.engine.l2 import Access, Asker, Ints, L2Cache
from aicore_sim.engine.landing import Landing, hardware_order
from aicore_sim.engine.outcomes import Outcomes
from aicore_sim.engine.perturb import Noises, Perturbation, PipeNoise
from aicore_sim.engine.pipes import CORE_SHIFT, KIND_SHIFT, PIPE_SHIFT, ROW, WHY_SHIFT, WORDS
from aicore_sim.engine.sharing import SharedBandwidth
from aicore_sim.engine.ub_banks import BankWaits, of_card
from aicore_sim.errors import AiCoreError, DeadlockError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Op, Pipe
from aicore_sim.kernel.context import Recorder, Session
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.memory import Buffer
from aicore_sim.timing import Timing, ticks

GM_WORDS = 9

BlockFactory = Callable[[Core], Recorder]


class Machine:
    """One run. `next_block(core)` hands out recorders (None: no more work for this core).

    `outcomes` keeps or replays what the L2 answers (outcomes.py); `perturbation` delays entries (perturb.py).
    """

    def __init__(
        self, card: Card, session: Session, *, data: bool, contention: bool, checks: bool = True,
        outcomes: Outcomes | None = None, perturbation: Perturbation | None = None,
    ) -> None:  # fmt: skip
        self.card = card
        self.session = session
        self.data = data
        self.outcomes = outcomes
        self.env = simpy.Environment()
        self.timing = Timing(card)
        self.audit = Audit() if checks else None
        self.noises = Noises(perturbation, session) if perturbation is not None else None
        self.patience = ticks(perturbation.longest) if perturbation is not None else 0
        """Ticks without progress for which polling is still waiting (polls.py)."""
        self.dirty = DirtyLines()
        self.rows: array[int] = array("q")
        self.gm_rows: array[int] = array("q")
        self.ops: list[Op] = []
        self.cores: list[Core] = []
        self.record_seconds = 0.0
        self.on_progress: Callable[[int], None] | None = None
        per_tick = 1e3 / card.clock_mhz / TICKS_PER_CYCLE  # GB/s -> bytes per tick
        self.l2 = L2Cache(card.l2_bytes, int(card.value("l2.line")), int(card.value("l2.sector")),
                          int(card.value("l2.ways")), int(card.value("l2.access_bytes")), int(card.value("l2.set_spread")),
                          int(card.value("l2.set_spread_lines")), ticks(card.value("l2.same_line_window")))  # fmt: skip
        self.sharing = SharedBandwidth(
            self.env, card.value("l2.read_rate") * per_tick, card.value("l2.write_rate") * per_tick,
            card.memory_attainable_gbps * per_tick, contention,
        )  # fmt: skip
        self.same_line_cost = card.value("l2.same_line_cost")
        """How much longer L2 is busy with a line that several cores ask for at the same time."""
        self.same_line_bypass_cost = card.value("l2.same_line_bypass_cost")
        """The same for memory, where they go past L2."""
        self.run_cost = card.value("hbm.run_cost")
        """Bytes of memory time that every stretch of missed bytes takes besides its own."""
        self.write_cost = card.value("hbm.write_cost")
        """What a byte written to memory takes of its rate, a byte read taking 1."""
        self.v_after_v = card.model.vector.keeps_order.value
        """The hardware orders dependent vector instructions by itself (spec api_semantics.md 19.1)."""
        banks = of_card(card)
        self.bank_waits = BankWaits(banks) if banks is not None else None
        self.landing = Landing(self.env, hardware_order(self.v_after_v), self.audit) if data else None
        self._miss_latency: dict[str, int] = {}
        self._sync: dict[str, tuple[Rendezvous, dict[int, Counter]]] = {}
        self._blocks: deque[tuple[int, BlockFactory]] = deque()
        self._bound: dict[int, deque[tuple[int, BlockFactory]]] = {}
        self.cross: CrossCore
        self.participants = 0
        self.transfers = 0
        """GM transfers in flight."""

    # ---- set-up -----------------------------------------------------------------------------------------------------
    def add_core(self, kind: str, group: int, sub: int) -> Core:
        core = Core(self, len(self.cores), kind, group, sub)
        self.cores.append(core)
        return core

    def queue_block(self, factory: BlockFactory, core: Core | None = None) -> None:
        """A block for the next free core, or for `core` alone."""
        queue = self._blocks if core is None else self._bound.setdefault(core.index, deque())
        queue.append((self.participants, factory))
        self.participants += 1

    def next_block(self, core: Core) -> tuple[int, Recorder] | None:
        """(tick before which the scheduler does not start it, recorder) of the core's next block; None: no more work.

        Blocks are started one after another (spec hardware.md 14), so cores do not run in step.
        """
        queue = self._bound.get(core.index) or self._blocks
        if not queue:
            return None
        core.block, factory = queue.popleft()
        return core.block * self.timing.block_start, factory(core)

    # ---- services to the cores --------------------------------------------------------------------------------------
    def record(self, recorder: Recorder, answer: Any) -> list[Entry]:
        """Let the kernel run on; its time is kept apart from the engine's."""
        began = time.perf_counter()
        entries = recorder.advance(answer)
        self.record_seconds += time.perf_counter() - began
        if self.on_progress is not None:
            self.on_progress(int(self.env.now))
        return entries

    def rows_so_far(self) -> int:
        """Queue entries executed so far."""
        return len(self.rows) // WORDS

    def noise(self, core: Core, pipe: Pipe) -> PipeNoise | None:
        """What delays the entries of one pipe; None without a perturbation that concerns it."""
        return self.noises.of(core.index, core.info.label, pipe) if self.noises is not None else None

    def price(self, op: Op) -> None:
        """Give an Op its ticks and its index in the table of Ops."""
        self.timing.price(op)
        op.index = len(self.ops)
        self.ops.append(op)

    def look_up(self, core: Core, pipe: Pipe, base: int, runs: Ints, write: bool, mode: str, when: int = 0,
                pace: float = 0.0) -> Access:  # fmt: skip
        """What the L2 answers to a transfer of this core and pipe that begins at tick `when` and asks for a byte every
        `pace` ticks; arguments else as `L2Cache.access`.

        The one place where an outcome is obtained, so that a run without contention can have those of the run with it.
        Waiting behind other cores on one line is contention too, and is no part of a recorded outcome.
        """
        asker = Asker(core.index if len(self.cores) > 1 else -1, when, pace)
        if self.outcomes is None:
            return self.l2.access(base, runs, write, mode, asker)
        return self.outcomes.look_up(self.l2, (core.block, int(pipe)), base, runs, write, mode, asker)

    def miss_latency(self, path: str) -> int:
        found = self._miss_latency.get(path)
        if found is None:
            found = self._miss_latency[path] = ticks(self.card.value(f"gm.{path}.miss_latency"))
        return found

    def sync_all(self, core: Core, scope: str, tick: int) -> Counter:
        """`core` arrives at a SyncAll; returns the counter that its wait takes from.

        Scope "mix" joins all cores, any other the cores of the caller's kind (spec api_semantics.md 11.5). Blocks beyond
        the cores are participants that cannot arrive while the first ones wait.
        """
        key = "mix" if scope == "mix" else core.kind
        if key not in self._sync:
            members = [c.index for c in self.cores if key in ("mix", c.kind)]
            counters = {index: Counter() for index in members}
            ghosts = [-1 - i for i in range(max(self.participants - len(self.cores), 0))]
            self._sync[key] = Rendezvous(members + ghosts, list(counters.values())), counters
        rendezvous, counters = self._sync[key]
        rendezvous.put(core.index, tick)
        return counters[core.index]

    def missing_at_sync(self, core: Core, scope: str) -> list[int]:
        """Core indices (negative: blocks without a core) that a SyncAll still waits for."""
        found = self._sync.get("mix" if scope == "mix" else core.kind)
        return found[0].missing() if found is not None else []

    def settle(self, now: int | None) -> None:
        """Land the effects that are complete by `now` (None: all), before somebody looks at bytes."""
        if self.landing is not None:
            if now is None:
                self.landing.settle_all()
            else:
                self.landing.settle(now)

    def scalar_row(self, core: Core, entry: Entry, index: int, start: int, end: int) -> None:
        """A row for what the scalar unit did itself."""
        arg = entry.arg
        code = 0
        if entry.kind in (Kind.WAIT_FLAG, Kind.SET_FLAG):
            code = arg[0] * FLAG_IDS + arg[1]
        elif entry.kind in (Kind.CROSS_SET, Kind.CROSS_WAIT):
            code = arg[0]
        self.rows.frombytes(ROW.pack(
            core.index << CORE_SHIFT | entry.kind << KIND_SHIFT | int(Cause.ISSUE) << WHY_SHIFT,
            index, code, entry.line, start, start, end, end, 0,
        ))  # fmt: skip
        if self.audit is not None:
            self.audit.sync_row(entry)

    # ---- the run ----------------------------------------------------------------------------------------------------
    def run(self) -> Columns:
        """Simulate to the end. Raises DeadlockError, with the columns of what was executed, if cores are left that cannot go on."""
        self.cross = CrossCore(self.env, ["aiv" if c.kind == "aiv" else "aic" for c in self.cores],
                               [c.info.group for c in self.cores], [c.info.sub for c in self.cores])  # fmt: skip
        for core in self.cores:
            core.start()
        try:
            self.env.run()
        except AiCoreError as error:
            # SimPy raises a bare copy of what failed inside a process; the original has the fields and the traceback.
            found = error.__cause__ if isinstance(error.__cause__, AiCoreError) else error
            if isinstance(found, DeadlockError):
                self.settle(None)
                found.columns = self._columns()
            raise found from None
        self.settle(None)
        columns = self._columns()
        if any(not core.scalar.finished for core in self.cores):
            raise explain(self, columns)
        return columns

    def _buffers(self) -> list[Buffer]:
        return [*self.session.gm.allocations, *(buffer for core in self.cores for buffer in core.buffers.values())]

    def _columns(self) -> Columns:
        rows = np.frombuffer(self.rows, np.int64).reshape(-1, WORDS)
        word = rows[:, 0]
        core_end = np.zeros(len(self.cores), np.int64)
        for core in self.cores:
            ends = [unit.max_end for unit in core.units if unit is not None]
            core_end[core.index] = max([core.scalar.t, *ends])
        length = int(core_end.max()) if len(core_end) else 0
        scalar = np.array([core.scalar.ticks for core in self.cores], np.int64).reshape(len(self.cores), len(Cause))
        scalar[:, Cause.IDLE] += length - scalar.sum(axis=1)
        gm = np.frombuffer(self.gm_rows, np.int64).reshape(-1, GM_WORDS) if len(self.gm_rows) else np.zeros((0, GM_WORDS), np.int64)
        counters = {"l2_hit_bytes": self.l2.hit_bytes, "l2_miss_bytes": self.l2.miss_bytes,
                    "l2_evicted_bytes": self.l2.evicted_bytes}  # fmt: skip
        caches = [core.nddma for core in self.cores if core.nddma is not None]
        if any(c.hits + c.misses for c in caches):
            counters |= {"nddma_hit": sum(c.hits for c in caches), "nddma_miss": sum(c.misses for c in caches),
                         "nddma_stale_hit": sum(c.stale_hits for c in caches),
                         "nddma_invalidate": sum(c.invalidated for c in caches)}  # fmt: skip
        lost = sum(unit.bank_ticks for core in self.cores for unit in core.units if unit is not None)
        if lost:
            counters["ub_bank_conflict_cycles"] = round(lost / TICKS_PER_CYCLE)
        return Columns(
            core=word & 0xFFFF, pipe=word >> PIPE_SHIFT & 0xF, kind=word >> KIND_SHIFT & 0xFF, op=rows[:, 1],
            arg=rows[:, 2], line=rows[:, 3], issue=rows[:, 4], start=rows[:, 5], free=rows[:, 6], end=rows[:, 7],
            issue_cause=word >> WHY_SHIFT, cause=np.broadcast_to(np.int64(Cause.ISSUE), word.shape), unit_flag=rows[:, 8],
            gm=gm, scalar=scalar, core_start=np.array([core.scalar.began for core in self.cores], np.int64),
            core_end=core_end, length=length,
            cores=tuple(core.info for core in self.cores), ops=tuple(self.ops), lines=tuple(self.session.lines),
            clock_mhz=self.card.clock_mhz, counters=counters,
            audit=None if self.audit is None else self.audit.finish(self.session, self._buffers()),
        )  # fmt: skip
