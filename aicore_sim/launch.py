"""Running a kernel: record it on every core, simulate, hand back a `Run`."""

from __future__ import annotations

import gc
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from aicore_sim import dtypes
from aicore_sim.bound import Bound, lower_bound
from aicore_sim.cards import Card, load_card
from aicore_sim.engine.columns import Columns
from aicore_sim.engine.core import Core
from aicore_sim.engine.machine import Machine
from aicore_sim.engine.outcomes import Outcomes, Recorded, Replay
from aicore_sim.engine.perturb import Delay, Noises, Perturbation
from aicore_sim.errors import AiCoreError, CapacityError, ParameterError
from aicore_sim.hazards import find_hazards
from aicore_sim.hazards.model import Hazards
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel import framework, jit
from aicore_sim.kernel.arguments import GmSpec, as_numpy, is_array
from aicore_sim.kernel.context import Recorder, Session, enter, locate
from aicore_sim.kernel.enums import KernelType
from aicore_sim.kernel.kind import kernel_kind, scheduler_on, vectors_per_block
from aicore_sim.kernel.tensor import GlobalAddress
from aicore_sim.memory import Buffer, GlobalMemory
from aicore_sim.trace import Trace


@dataclass(frozen=True)
class Contention:
    """What waiting for shared L2 and memory costs a run: its task time with and without, launch included."""

    time_us: float
    without_us: float
    fresh: int = 0
    """Transfers that the run without contention made and the run with it did not: looked up in L2 anew."""

    @property
    def cost_us(self) -> float:
        return self.time_us - self.without_us

    def as_dict(self) -> dict[str, float]:
        """As the JSON result has it."""
        return {"time_us": self.time_us, "without_us": self.without_us, "cost_us": self.cost_us}


@dataclass
class Run:
    """The result of one launch on one card.

    `time_us` is the task duration, launch included; `core_time_us` the mean over the cores that took part. `warnings`
    are (text, file, line, count). `correct`, `metrics`, `measured`, `against_msprof` and `files` are filled in by whoever knows the
    scenario. `contention` is there for runs without contention only; everything else is then of the run without it.
    """

    card: Card
    blocks: int
    kernel: str
    columns: Columns
    wall_s: float
    engine_s: float
    warnings: list[tuple[str, str, int, int]] = field(default_factory=list)
    correct: bool | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    measured: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    contention: Contention | None = None
    against_msprof: list[dict[str, Any]] | None = None
    noises: Noises | None = None
    """What a perturbation did; None without one."""

    @cached_property
    def delays(self) -> tuple[Delay, ...]:
        """What a perturbation delayed, the most delayed first."""
        return self.noises.delays() if self.noises is not None else ()

    @cached_property
    def trace(self) -> Trace:
        """The table of executed instructions and everything derived from it."""
        return Trace(self.columns)

    @cached_property
    def hazards(self) -> Hazards:
        """What the checks find: races, stale caches, undefined reads, broken synchronisation. Worked out when first asked for."""
        return find_hazards(self.columns, self.card)

    @cached_property
    def lower_bound(self) -> Bound:
        """What rates and recorded traffic alone ask for; never more than the cores' own time, launch left out."""
        return lower_bound(self.columns, self.card, shared=self.contention is None)

    @property
    def cycles(self) -> float:
        """Cycles from the start of the first core to the last effect."""
        return self.columns.length / TICKS_PER_CYCLE

    @property
    def launch_us(self) -> float:
        """What a launch costs around the run: the first block's start and the completion (spec hardware.md 14).

        The starts of the other blocks, one after another, are part of the run.
        """
        return self.card.value("launch.base_us") + self.card.value("launch.per_block_us")

    @property
    def time_us(self) -> float:
        return self.cycles / self.card.clock_mhz + self.launch_us

    @property
    def core_time_us(self) -> float:
        mean = (self.columns.core_end - self.columns.core_start).mean()
        return float(mean) / TICKS_PER_CYCLE / self.card.clock_mhz

    @property
    def instructions(self) -> int:
        """Executed queue entries, flags and barriers included."""
        return len(self.columns)


@dataclass(frozen=True)
class Options:
    """Switches of `simulate` that do not depend on the kernel."""

    data: bool = True
    checks: bool = True
    contention: bool = True
    """False: run twice, the second time with the first one's L2 outcomes and every transfer by itself."""
    auto_sync: bool = True
    slack_is_warning: bool = False
    strict: bool = False
    """Accesses behind a tensor but inside its buffer are errors, not warnings."""
    progress: Callable[[int, float], None] | None = None
    """Called now and then with (entries recorded, simulated us)."""
    perturbation: Perturbation | None = None
    """Another timing that the hardware may have as well (engine/perturb.py)."""
    dropped: frozenset[tuple[str, int]] = frozenset()
    """(file, line) of the kernel's source whose synchronisation and cache calls are left out."""
    core_kind: str = ""
    """What `kernel_kind` says of the kernel, if known from an earlier run: finding out takes longer than a small run."""


def simulate(
    kernel: Any,
    *args: Any,
    blocks: int = 1,
    card: str | Path | Card = "atlas_350",
    data: bool = True,
    checks: bool = True,
    contention: bool = True,
    auto_sync: bool = True,
    quirks: str | Sequence[str] = "documented",
    wrap: str = "refuse",
    overrides: Mapping[str, object] | None = None,
    seed: int = 0,
    slack_is_warning: bool = False,
    progress: Callable[[int, float], None] | None = None,
    **kwargs: Any,
) -> Run:
    """Run `kernel(*args, **kwargs)` on `blocks` blocks of `card` and return the `Run`.

    Arrays are copied in and, with `data`, copied back, as a launch on a card does. `blocks` counts cube cores for cube
    and mix kernels, vector cores for vector kernels (spec api_semantics.md 21). `quirks` ("documented",
    "implementation", or names out of `aicore_sim.quirks`) says how calls are read where the vendor's implementation
    differs from its pages, `wrap` ("refuse" or "hardware") what becomes of values too wide for their field; `seed` is
    kept for runs that draw numbers, which none does yet. `contention=False` runs the kernel twice, see `run_kernel`.

    Raises ParameterError, AlignmentError, CapacityError, OutOfBoundsError or UnsupportedError at the kernel line that
    caused it, DeadlockError if the program cannot proceed, ConfigError for the card.
    """
    options = Options(data, checks, contention, auto_sync, slack_is_warning=slack_is_warning, progress=progress)
    chosen = card if isinstance(card, Card) else load_card(card, overrides)
    if isinstance(card, Card) and overrides:
        raise ParameterError("overrides go with a card name, not with a loaded Card", field="overrides", value=dict(overrides))
    return run_kernel(kernel, args, kwargs, blocks, chosen.reading(quirks, wrap), options)


_MANY_ROWS = 100_000
"""From so many rows on, those of a run that is over are worth a garbage collection before the next one fills memory."""


def run_kernel(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], blocks: int, card: Card, options: Options
) -> Run:
    """As `simulate`, with card and options prepared.

    Without contention the kernel first runs as ever, and what the L2 answers to each transfer is kept. Then it runs again
    on the same input, with these answers and every transfer alone with L2 and memory; that is the run handed back, its
    data and its times, with the time of the first in `Run.contention`.
    """
    if options.contention:
        return _run_once(kernel, args, kwargs, blocks, card, options, None)
    recorded = Recorded()
    first = _run_once(kernel, args, kwargs, blocks, card, replace(options, contention=True), recorded)
    time_us, wall_s, engine_s, large = first.time_us, first.wall_s, first.engine_s, first.instructions > _MANY_ROWS
    del first
    if large:
        gc.collect()
    replay = Replay(recorded)
    run = _run_once(kernel, args, kwargs, blocks, card, options, replay)
    run.contention = Contention(time_us, run.time_us, replay.fresh)
    run.wall_s += wall_s
    run.engine_s += engine_s
    return run


def _run_once(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], blocks: int, card: Card, options: Options,
    outcomes: Outcomes | None,
) -> Run:  # fmt: skip
    """One simulation. The host's arrays stay as they are where outcomes are recorded: the replay needs its input."""
    began = time.perf_counter()
    function = kernel if isinstance(kernel, jit.JitFunction) else jit.jit(kernel)
    try:
        blocks = operator.index(blocks)
    except TypeError:
        raise ParameterError("blocks is a whole number", field="blocks", value=blocks, allowed=">= 1") from None
    if blocks <= 0:
        raise CapacityError("a launch needs at least one block", field="blocks", value=blocks, allowed=">= 1",
                            card=card.name)  # fmt: skip
    gm = GlobalMemory(options.data)
    session = Session(card, gm, data=options.data, auto_sync=options.auto_sync,
                      slack_is_warning=options.slack_is_warning, strict=options.strict,
                      dropped=options.dropped)  # fmt: skip
    bound, outputs = _place_arguments(function, args, kwargs, gm, options.data)
    kind = "core" if card.coupled else options.core_kind or kernel_kind(function.fn, function.kernel_type)
    machine = Machine(card, session, data=options.data, contention=options.contention,
                      checks=options.checks and not isinstance(outcomes, Recorded), outcomes=outcomes,
                      perturbation=options.perturbation)  # fmt: skip
    if options.progress is not None:
        _watch(machine, options.progress)
    _queue_blocks(machine, session, kind, blocks, function.kernel_type, lambda: function.body(**jit.for_block(bound)))
    collecting = gc.isenabled()
    gc.disable()  # a run makes millions of small objects and hardly any cycles
    try:
        columns = machine.run()
    except AiCoreError as error:
        locate(error)
        if error.card is None:
            error.card = card.name
        error.noises = machine.noises
        raise
    finally:
        enter(None)
        if collecting:
            gc.enable()
    if options.data and not isinstance(outcomes, Recorded):
        _copy_back(gm, outputs)
    wall = time.perf_counter() - began
    return Run(card, blocks, function.fn.__name__, columns, wall, wall - machine.record_seconds, _warnings(session),
               noises=machine.noises)  # fmt: skip


def _watch(machine: Machine, progress: Callable[[int, float], None]) -> None:
    scale = 1.0 / TICKS_PER_CYCLE / machine.card.clock_mhz
    machine.on_progress = lambda now: progress(machine.rows_so_far(), now * scale)


def _place_arguments(
    function: jit.JitFunction, args: Sequence[Any], kwargs: Mapping[str, Any], gm: GlobalMemory, data: bool
) -> tuple[dict[str, Any], list[tuple[Buffer, NDArray[Any]]]]:
    """Arguments as the kernel sees them, and (allocation, host array) to copy back."""
    bound: dict[str, Any] = {}
    outputs: list[tuple[Buffer, NDArray[Any]]] = []
    for name, value, is_const in jit.bind_arguments(function, args, dict(kwargs)):
        if is_const:
            bound[name] = value
        elif isinstance(value, GmSpec):
            if data:
                raise ParameterError("a GmSpec has no data: pass an array, or data=False", field=name)
            bound[name] = GlobalAddress(gm.allocate(value.nbytes, name), value.dtype)
        elif is_array(value):
            host = as_numpy(value)
            buffer = gm.place(host, name)
            bound[name] = GlobalAddress(buffer, dtypes.of_numpy(host.dtype))
            outputs.append((buffer, host))
        else:
            bound[name] = value
    return bound, outputs


def _copy_back(gm: GlobalMemory, outputs: list[tuple[Buffer, NDArray[Any]]]) -> None:
    """Every array gets its device bytes back, inputs included, in argument order (spec pyasc.md 13).

    Raises ParameterError, and copies nothing, if the kernel has changed an argument that the host cannot write.
    """
    for buffer, host in outputs:
        if not host.flags.writeable and gm.fetch(buffer, host).tobytes() != host.tobytes():
            raise ParameterError("the kernel has changed an array that is read-only on the host", field=buffer.label,
                                 value="read-only", allowed="a writeable array")  # fmt: skip
    for buffer, host in outputs:
        if host.flags.writeable:
            host[...] = gm.fetch(buffer, host)


def _queue_blocks(
    machine: Machine, session: Session, kind: str, blocks: int, kernel_type: KernelType | None, body: Callable[[], object]
) -> None:
    """Create the cores that take part and queue the blocks (spec api_semantics.md 21)."""
    card = machine.card
    vectors = vectors_per_block(kernel_type)

    def block(
        core_kind: str, index: int, sub: int = 0, ubs: Sequence[Buffer] = (), l1: Buffer | None = None, mix: bool = False
    ) -> Callable[[Core], Recorder]:
        def make(core: Core) -> Recorder:
            recorder = Recorder(
                session, core_kind, core.index, core.buffers,
                block_idx=index * vectors + sub if mix and core_kind == "aiv" else index,
                block_num=blocks, sub_block_idx=sub,
                sub_block_num=vectors if mix and core_kind == "aiv" else 1, group_ub=ubs,
                group_l1=l1, mix=mix,
            )  # fmt: skip
            recorder.state["scheduler_off"] = not scheduler_on(kernel_type)

            def whole() -> None:
                body()
                framework.finish(recorder)

            recorder.start(whole)
            return recorder

        return make

    if kind == "mix":
        if blocks > card.cubes:
            raise CapacityError("a mix kernel cannot have more blocks than the card has cube cores", field="blocks",
                                value=blocks, allowed=f"1..{card.cubes}", card=card.name)  # fmt: skip
        for b in range(blocks):
            cube = machine.add_core("aic", b, 0)
            group = [machine.add_core("aiv", b, sub) for sub in range(vectors)]
            machine.queue_block(block("aic", b, 0, [v.buffers["UB"] for v in group], mix=True), cube)
            for sub, vector in enumerate(group):
                machine.queue_block(block("aiv", b, sub, l1=cube.buffers["L1"], mix=True), vector)
        return
    available = card.vectors if kind == "aiv" else card.cubes
    for c in range(min(blocks, available)):
        if kind == "aiv":
            machine.add_core("aiv", c // card.vectors_per_cube, c % card.vectors_per_cube)
        else:
            machine.add_core(kind, c, 0)
    for b in range(blocks):
        machine.queue_block(block(kind, b))


def _warnings(session: Session) -> list[tuple[str, str, int, int]]:
    return [(text, *session.lines[line], count) for (text, line), count in session.warnings.items()]


def _launch(function: jit.JitFunction, launch: tuple[int, Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """`kernel[blocks](...)` outside a pyasc program: one run on the default card."""
    options, rest = function.split_options(kwargs)
    chosen = Options(auto_sync=bool(options["auto_sync"]))
    run_kernel(function.with_options(options), args, rest, launch[0], load_card("atlas_350"), chosen)


jit.set_launcher(_launch)
