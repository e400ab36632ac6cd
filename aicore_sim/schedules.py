"""Replays of a scenario under other legal timings: does its output depend on luck, and on how little of it?

`explore` runs a scenario again and again under perturbed timing (engine/perturb.py) and compares what it leaves in its arguments
with the unperturbed run. A *possible* hazard is confirmed by a schedule that holds back the instruction which should come
first. Everything follows from the seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from aicore_sim.cards import Card
from aicore_sim.engine.perturb import START, Delay, Hold, Noises, Perturbation
from aicore_sim.errors import AiCoreError, DeadlockError, ParameterError
from aicore_sim.hazards.model import Hazard, Party
from aicore_sim.kernel.context import inside
from aicore_sim.kernel.kind import kernel_kind
from aicore_sim.kernel.program import Kind, orders
from aicore_sim.launch import Options, Run, run_kernel
from aicore_sim.scenario import Job, Scenario, load_scenario

SCALES = (10.0, 100_000.0)
"""Cycles: the scales of the random schedules, spread evenly over the decades between."""
HOLDS = (100.0, 1_000.0, 10_000.0, 100_000.0)
"""Cycles by which a directed schedule holds an instruction back, tried in this order."""
_GOLDEN = 0.6180339887498949
_CLOSE = 1.05
"""A smallest delay is known to this factor."""
_SINGLE, _TOGETHER = 12, 64
"""How many of the longest delays of a schedule are tried alone, and how many at most together."""


# ---- one run --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Outcome:
    """What one schedule ended in: `digest` of all arguments after the run, or the error that ended it ("DeadlockError: ...");
    `correct` as the scenario judges it (None: it does not)."""

    perturbation: Perturbation | None
    digest: str
    error: str = ""
    correct: bool | None = None

    @property
    def deadlock(self) -> bool:
        return self.error.startswith(DeadlockError.__name__)

    def differs(self, reference: Outcome) -> bool:
        """True if the two leave other bytes behind, or if one of them ends in an error."""
        return self.digest != reference.digest or bool(self.error) != bool(reference.error)


class Trials:
    """A scenario prepared to be run many times on fresh copies of its arguments. `blocks` as in `Scenario.run`."""

    def __init__(self, scenario: Scenario, parameters: Any, card: Card, options: Options, blocks: int | None = None) -> None:
        if not options.data:
            raise ParameterError("schedules are compared by their data", field="data", value=False, allowed="true")
        self.scenario, self.parameters, self.card, self.blocks = scenario, parameters, card, blocks
        self.job: Job = scenario.build(card, parameters, True)
        fn = getattr(self.job.kernel, "fn", self.job.kernel)
        kind = kernel_kind(fn, getattr(self.job.kernel, "kernel_type", None))
        self.options = replace(options, checks=False, core_kind=kind, auto_sync=options.auto_sync and self.job.auto_sync)

    def launch(self, perturbation: Perturbation | None = None, checks: bool = False) -> tuple[Run, tuple[Any, ...]]:
        """One run and its arguments after it. Raises what the run raises."""
        job = self.job
        args = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in job.args)
        options = replace(self.options, perturbation=perturbation, checks=checks)
        blocks = job.blocks if self.blocks is None else self.blocks
        return run_kernel(job.kernel, args, {}, blocks, self.card, options), args

    def run(self, perturbation: Perturbation | None = None) -> Outcome:
        """One run and what became of it; errors of the simulated program are outcomes too."""
        try:
            _, args = self.launch(perturbation)
        except AiCoreError as error:
            text = f"{type(error).__name__}: {error.message}"
            return Outcome(perturbation, text, text)
        return self.judge(perturbation, args)

    def judge(self, perturbation: Perturbation | None, args: tuple[Any, ...]) -> Outcome:
        """The outcome of a run that came to its end."""
        correct = None if self.job.expect is None else bool(self.job.expect(args))
        return Outcome(perturbation, digest(args), "", correct)

    def delays(self, perturbation: Perturbation) -> tuple[Delay, ...]:
        """What a perturbed run delays, the most delayed first; up to the error that ends it."""
        try:
            return self.launch(perturbation)[0].delays
        except AiCoreError as error:
            noises: Noises | None = error.noises
            return noises.delays() if noises is not None else ()


def digest(args: Sequence[Any]) -> str:
    """A hash of the bytes of all arrays."""
    found = hashlib.blake2b(digest_size=16)
    for arg in args:
        if isinstance(arg, np.ndarray):
            found.update(np.ascontiguousarray(arg).view(np.uint8).data if arg.size else b"")
    return found.hexdigest()


def random_schedule(seed: int) -> Perturbation:
    """The random schedule of a seed. Seeds one after another have scales far apart, all decades alike."""
    lowest, highest = SCALES
    return Perturbation(seed, float(lowest * (highest / lowest) ** (seed * _GOLDEN % 1.0)))


# ---- the answer -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Smallest:
    """The least that shows a difference: `perturbation` repeats it, `cycles` is the longest delay that it asks for.

    `delays`, the longest first, are all it takes if `exact`, else the longest of a random schedule. `cycles` is 0 where the
    unperturbed run differs already.
    """

    perturbation: Perturbation
    cycles: float
    delays: tuple[Delay, ...]
    exact: bool

    def __str__(self) -> str:
        if not self.cycles:
            return "no delay at all"
        if self.exact:
            shown = [f"{in_words(delay)} {delay.cycles:.0f} cycles later" for delay in self.delays[:3]]
            more = len(self.delays) - len(shown)
            return "; ".join(shown) + (f"; and {more} shorter" if more else "")
        most = f", most of all {in_words(self.delays[0])}" if self.delays else ""
        return f"delays of up to {self.cycles:.0f} cycles (seed {self.perturbation.seed}){most}"


def in_words(delay: Delay) -> str:
    """ "DataCopy at add.py:31 begins (core0.aiv0 MTE2, execution 2)"."""
    if delay.line == START:
        return f"{delay.core} starts"
    file = delay.file.rsplit("/", 1)[-1]
    verb = "completes" if delay.effect else "is issued" if delay.pipe == "S" else "begins"
    api = {kind.name: call for kind, call in _CALLS.items()}.get(delay.api, delay.api)
    return f"{api} at {file}:{delay.line} {verb} ({delay.core} {delay.pipe}, execution {delay.nth})"


@dataclass(frozen=True)
class Confirmed:
    """A hazard that a directed schedule has shown: holding `hold` changes the output."""

    hazard: Hazard
    hold: Hold


@dataclass(frozen=True)
class Schedules:
    """What `explore` found over `tried` random schedules: how many left other data than `reference` (`differing`, those that
    end in an error included), how many ended in a deadlock, how many the scenario calls wrong (None: it does not judge).

    `first_seed` is the seed of the first that differs, `smallest` the least delay that shows it; `confirmed` are the hazards
    that a directed schedule has shown, `directed` how many such schedules were run.
    """

    tried: int
    differing: int
    deadlocks: int
    wrong: int | None
    first_seed: int | None
    smallest: Smallest | None
    confirmed: tuple[Confirmed, ...]
    directed: int
    reference: Outcome

    @property
    def share(self) -> float:
        """The part of the random schedules that differs."""
        return self.differing / self.tried if self.tried else 0.0

    def as_dict(self) -> dict[str, Any]:
        """As `check --json` has it."""
        smallest = self.smallest
        return {
            "tried": self.tried, "differing": self.differing, "deadlocks": self.deadlocks, "wrong": self.wrong,
            "first_seed": self.first_seed, "smallest_cycles": None if smallest is None else smallest.cycles,
            "smallest": None if smallest is None else str(smallest), "confirmed": len(self.confirmed),
        }  # fmt: skip


# ---- exploring ------------------------------------------------------------------------------------------------------
def explore(
    scenario: Scenario,
    parameters: Any,
    card: Card,
    n: int = 500,
    seed: int = 0,
    options: Options | None = None,
    directed: Sequence[Hazard] = (),
    *,
    blocks: int | None = None,
    reference: Outcome | None = None,
    processes: int = 1,
    minimise: bool = True,
) -> Schedules:
    """Run a scenario under `n` random schedules, those of the seeds `seed`.. `seed + n - 1`, and compare their outputs with the
    unperturbed run (or with `reference`, such as that of the kernel before a call was deleted).

    `directed` are hazards to confirm first, see `holds_for`. `processes` are for large `n`: the answer does not depend on it.
    `minimise` looks for the smallest perturbation. Raises what the unperturbed run raises, unless there is a `reference`;
    ParameterError without data.
    """
    trials = Trials(scenario, parameters, card, options or Options(), blocks)
    if reference is None:
        reference = trials.judge(None, trials.launch()[1])
    confirmed, tried = [], 0
    for hazard in directed:
        hold, count = confirm(trials, reference, hazard)
        tried += count
        if hold is not None:
            confirmed.append(Confirmed(hazard, hold))
    outcomes = _outcomes(trials, range(seed, seed + n), processes)
    differing = [outcome for outcome in outcomes if outcome.differs(reference)]
    judged = [outcome for outcome in outcomes if outcome.correct is not None]
    return Schedules(
        n, len(differing), sum(outcome.deadlock for outcome in outcomes),
        sum(not outcome.correct for outcome in judged) if judged else None,
        differing[0].perturbation.seed if differing and differing[0].perturbation is not None else None,
        smallest_of(trials, reference, differing) if differing and minimise else None,
        tuple(confirmed), tried, reference,
    )  # fmt: skip


def _outcomes(trials: Trials, seeds: Sequence[int], processes: int) -> list[Outcome]:
    """The outcomes of the random schedules, in order of their seeds."""
    if processes <= 1 or len(seeds) < 2 * processes:
        return _batch(trials, seeds)
    # The processes load the scenario anew: its module is no importable one.
    share = -(-len(seeds) // processes)
    parts = [seeds[k * share : (k + 1) * share] for k in range(processes)]
    file, values = str(trials.scenario.module.__file__), vars(trials.parameters)
    work = delayed(_remote_batch)
    found = Parallel(n_jobs=processes)(
        work(file, values, trials.card, replace(trials.options, progress=None), trials.blocks, part) for part in parts
    )
    return [outcome for part in found for outcome in part]


def _batch(trials: Trials, seeds: Iterable[int]) -> list[Outcome]:
    return [trials.run(random_schedule(seed)) for seed in seeds]


def _remote_batch(
    file: str, values: dict[str, Any], card: Card, options: Options, blocks: int | None, seeds: Sequence[int]
) -> list[Outcome]:
    scenario = load_scenario(file)
    return _batch(Trials(scenario, scenario.parameters(**values), card, options, blocks), seeds)


# ---- the smallest perturbation --------------------------------------------------------------------------------------
def smallest_of(trials: Trials, reference: Outcome, differing: Sequence[Outcome]) -> Smallest:
    """The least perturbation found that differs: the differing schedule of the smallest scale, its scale brought down; then,
    where one of its delays is enough, that one alone and as short as it can be, else those that it takes together."""
    if trials.run().differs(reference):
        return Smallest(Perturbation(), 0.0, (), True)
    candidates = [outcome.perturbation for outcome in differing if outcome.perturbation is not None]
    first = min(candidates, key=lambda p: (p.scale, p.seed))
    scale = _shortest(trials, reference, first.scaled, first.scale)
    whole = first.scaled(scale)
    delays = trials.delays(whole)
    best: Smallest | None = None
    for delay in delays[:_SINGLE]:
        hold = delay.hold()
        if best is not None and best.cycles <= 1:
            break

        def alone(cycles: float, hold: Hold = hold) -> Perturbation:
            return Perturbation(holds=(replace(hold, cycles=cycles),))

        if trials.run(alone(delay.cycles)).differs(reference):
            cycles = _shortest(trials, reference, alone, delay.cycles)
            if best is None or cycles < best.cycles:
                best = Smallest(alone(cycles), cycles, (replace(delay, cycles=cycles),), True)
    return best or _together(trials, reference, delays) or Smallest(whole, scale, delays[:3], False)


def _together(trials: Trials, reference: Outcome, delays: Sequence[Delay]) -> Smallest | None:
    """As few as possible of the longest delays that show the difference together, and those as short as possible."""

    def holding(chosen: Sequence[Delay], factor: float = 1.0) -> Perturbation:
        return Perturbation(holds=tuple(replace(delay.hold(), cycles=delay.cycles * factor) for delay in chosen))

    count = 2
    while not trials.run(holding(delays[:count])).differs(reference):
        if count >= min(len(delays), _TOGETHER):
            return None
        count *= 2
    chosen = list(delays[:count])
    for delay in reversed(delays[:count]):
        fewer = [other for other in chosen if other is not delay]
        if fewer and trials.run(holding(fewer)).differs(reference):
            chosen = fewer
    longest = chosen[0].cycles
    cycles = _shortest(trials, reference, lambda most: holding(chosen, most / longest), longest)
    factor = cycles / longest
    shown = tuple(replace(delay, cycles=delay.cycles * factor) for delay in chosen)
    return Smallest(holding(chosen, factor), cycles, shown, True)


def _shortest(trials: Trials, reference: Outcome, make: Any, known: float) -> float:
    """Cycles near the least for which `make(cycles)` differs, knowing that `known` does: halving, to a cycle or `_CLOSE`."""
    low, high = 0.0, known
    while high - low > 1.0 and high > low * _CLOSE:
        middle = (low + high) / 2
        if trials.run(make(middle)).differs(reference):
            high = middle
        else:
            low = middle
    return float(high)


# ---- directed schedules ---------------------------------------------------------------------------------------------
def holds_for(hazard: Hazard) -> list[Hold]:
    """What to hold back (by one cycle: to be lengthened) to let a hazard happen: the other party, which should come first,
    every time and the one time it was reported for, its beginning and then its effect; at last the party that suffers."""
    holds: list[Hold] = []
    for party in (hazard.other, hazard.at):
        if party is not None and party.line > 0:
            holds += _of_party(party)
    return holds


def _of_party(party: Party) -> Iterator[Hold]:
    for effect in (False, True):
        if effect and party.pipe == "S":
            continue
        for nth in (None, party.iteration):
            yield Hold(party.core, party.pipe, party.file, party.line, 1.0, nth, effect)


def confirm(trials: Trials, reference: Outcome, hazard: Hazard) -> tuple[Hold | None, int]:
    """(the first hold that changes the output, None if none does; how many schedules were run)."""
    tried = 0
    for cycles in HOLDS:
        for hold in holds_for(hazard):
            held = replace(hold, cycles=cycles)
            tried += 1
            if trials.run(Perturbation(holds=(held,))).differs(reference):
                return held, tried
    return None, tried


# ---- calls that only order ------------------------------------------------------------------------------------------
_CALLS = {
    Kind.SET_FLAG: "SetFlag", Kind.WAIT_FLAG: "WaitFlag", Kind.BARRIER: "PipeBarrier", Kind.BARRIER_ALL: "PipeBarrier",
    Kind.CROSS_SET: "CrossCoreSetFlag", Kind.CROSS_WAIT: "CrossCoreWaitFlag", Kind.SYNC_ALL: "SyncAll",
    Kind.MUTEX_LOCK: "Mutex::Lock", Kind.MUTEX_UNLOCK: "Mutex::Unlock",
}  # fmt: skip
_PAIRED = {
    Kind.SET_FLAG: "flag", Kind.WAIT_FLAG: "flag", Kind.CROSS_SET: "cross", Kind.CROSS_WAIT: "cross",
    Kind.MUTEX_LOCK: "mutex", Kind.MUTEX_UNLOCK: "mutex",
}  # fmt: skip
SyncLine = tuple[str, int, str]
"""(file, line, calls); several kinds of call on one line are joined by "+"."""


def sync_lines(scenario: Scenario, parameters: Any, card: Card, options: Options | None = None) -> list[SyncLine]:
    """The kernel's lines that record synchronisation or cache calls and nothing else, in source order.

    What `Options.dropped` takes (file, line) of. Lines that move data as well, such as those the compiler's automatic
    synchronisation works for, are left out: they hold no such call.
    """
    return sorted(line for group in sync_groups(scenario, parameters, card, options) for line in group)


def sync_groups(
    scenario: Scenario, parameters: Any, card: Card, options: Options | None = None
) -> list[tuple[SyncLine, ...]]:
    """The lines of `sync_lines` grouped so that lines which set and wait for the same flag, or lock and unlock the same Mutex,
    are together. Without a whole group a kernel loses an order; without a part of it, it may hang."""
    run, _ = Trials(scenario, parameters, card, options or Options()).launch()
    c = run.columns
    calls: dict[int, set[str]] = {}
    shared: dict[tuple[str, int], set[int]] = {}
    for line, kind, op, arg in sorted({*zip(*(x.tolist() for x in (c.line, c.kind, c.op, c.arg)), strict=True)}):
        api = c.ops[op].api if op >= 0 else ""
        calls.setdefault(line, set()).add((api or _CALLS[Kind(kind)]) if orders(Kind(kind), api) else "")
        if kind in _PAIRED:
            shared.setdefault((_PAIRED[Kind(kind)], arg), set()).add(line)
    lines = {line for line, names in calls.items() if "" not in names and not inside(c.lines[line][0])}
    group = {line: {line} for line in lines}
    for together in shared.values():
        joined = set[int]().union(*(group[line] for line in together & lines))
        group |= {line: joined for line in joined}
    found = {tuple(sorted((*c.lines[line], "+".join(sorted(calls[line]))) for line in members)) for members in group.values()}
    return sorted(found)
