"""Simulating the commands of points: each once, over several processes, with the numbers that each run has read.

A run is a function of its command and of the card's numbers that it looks up, so `Runner` keeps results by those: a
number that a run never asks for does not make it run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from joblib import Parallel, delayed

from aicore_sim.card_files import SHORT
from aicore_sim.card_model import Number
from aicore_sim.cards import Card
from aicore_sim.errors import AiCoreError
from aicore_sim.launch import Options
from aicore_sim.report.summary import as_result
from aicore_sim.scenario import Scenario, load_scenario
from aicore_sim.validation.points import Command, Point, at_path

TASK = "results[0].time_us"
"""The one figure that holds the cost of the launch."""
Changes = tuple[tuple[str, float], ...]
"""Card keys in full and their values, sorted by key."""
Progress = Callable[[int, int, str], None]
"""Called with (runs done, runs in all, the command just done)."""


@dataclass(frozen=True)
class Request:
    """One run: a command, on its card with `changes`, in full or `short` (`Scenario.short`)."""

    command: Command
    changes: Changes = ()
    short: bool = False

    def card(self) -> Card:
        """The card that the run takes place on. Raises ConfigError for a change that it refuses."""
        card = self.command.load()
        return card.changed(dict(self.changes)) if self.changes else card


@dataclass(frozen=True)
class Outcome:
    """Figures of a run by JSON path, and the keys of the card that it has read, in full and sorted.

    `fixed` is the part of each figure that does not grow with the length of the run: the launch cost in the task time.
    """

    values: Mapping[str, float]
    asked: tuple[str, ...]
    fixed: Mapping[str, float] = field(default_factory=dict)


def changes_of(values: Mapping[str, float]) -> Changes:
    """Changes in the one order that makes equal ones equal."""
    return tuple(sorted(values.items()))


def numbers_of(card: Card) -> dict[str, Number]:
    """The card's numbers by their keys in full."""
    return dict(card.numbers())


@lru_cache(maxsize=64)
def _scenario(name: str) -> Scenario:
    """As `load_scenario`, read once in a process: the kernels of a scenario keep what they learn about themselves."""
    return load_scenario(name)


def document(request: Request) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `run --json` prints of the run, and the card keys that it reads, in full. Raises what the run raises."""
    command = request.command
    scenario, plain = _scenario(command.scenario), request.card()
    parameters = scenario.parse(command.words)
    if request.short:
        plain, parameters = scenario.short_card(plain, parameters), scenario.short(plain, parameters)
    card, asked = plain.tracking()
    options = Options(data=command.data, checks=False, contention=command.contention)
    run, job = scenario.run(card, parameters, options, command.blocks)
    shown = {"scenario": scenario.name, "parameters": dict(job.parameters), "results": [as_result(run)]}
    return shown, tuple(sorted({f"socs.{card.soc}.{SHORT[key]}" if key in SHORT else key for key in asked}))


def cost(request: Request) -> int:
    """About how many instructions the run executes: what decides who goes first, nothing else."""
    scenario = _scenario(request.command.scenario)
    card, parameters = request.command.load(), scenario.parse(request.command.words)
    return scenario.size(card, scenario.short(card, parameters) if request.short else parameters)


def paths_of(points: Iterable[Point]) -> dict[Command, tuple[str, ...]]:
    """The figures that points want of each command, in the order of the points."""
    paths: dict[Command, tuple[str, ...]] = {}
    for point in points:
        known = paths.setdefault(point.command, ())
        if point.json_path not in known:
            paths[point.command] = (*known, point.json_path)
    return paths


_Kept = tuple[tuple[tuple[str, float], ...], Outcome]
"""Changes that a run has read, and what came of it."""


@dataclass
class Runner:
    """Runs requests in `jobs` processes and remembers what they gave.

    `paths` are the figures wanted of each command. Results do not depend on `jobs` nor on who finishes first.
    """

    paths: Mapping[Command, Sequence[str]]
    jobs: int = 1
    progress: Progress | None = None
    _known: dict[tuple[Command, bool], list[_Kept]] = field(default_factory=dict)
    _refused: dict[Request, AiCoreError] = field(default_factory=dict)
    _plain: dict[Command, dict[str, float]] = field(default_factory=dict)
    _shortens: dict[Command, bool] = field(default_factory=dict)
    _costs: dict[tuple[Command, bool], int] = field(default_factory=dict)

    def run(self, requests: Iterable[Request]) -> list[Outcome]:
        """One outcome for each request, in their order. Raises the error of the first run that fails."""
        outcomes: list[Outcome] = []
        for request, outcome in zip(wanted := list(requests), self.attempt(wanted), strict=True):
            if outcome is None:
                raise self._refused[self._plainest(request)]
            outcomes.append(outcome)
        return outcomes

    def attempt(self, requests: Iterable[Request]) -> list[Outcome | None]:
        """As `run`, with None for runs that end in an AiCoreError: cards with numbers that do not fit each other."""
        wanted = [self._plainest(one) for one in requests]
        todo = [one for one in dict.fromkeys(wanted) if one not in self._refused and self._lookup(one) is None]
        for command, short in dict.fromkeys((one.command, one.short) for one in todo):
            if (command, short) not in self._costs:
                self._costs[command, short] = cost(Request(command, short=short))
        # The longest first: no core idles at the end.
        todo.sort(key=lambda request: -self._costs[request.command, request.short])
        tasks = (delayed(_figures)(i, request, tuple(self.paths[request.command])) for i, request in enumerate(todo))
        outcomes: dict[int, Outcome | AiCoreError] = {}
        jobs = max(min(self.jobs, len(todo)), 1)
        for i, outcome in Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")(tasks):
            outcomes[i] = outcome
            if self.progress is not None:
                self.progress(len(outcomes), len(todo), str(todo[i].command))
        for i, request in enumerate(todo):
            self._keep(request, outcomes[i])
        return [self._lookup(request) for request in wanted]

    def _plainest(self, request: Request) -> Request:
        """A short request as a full one where the scenario makes nothing shorter of it."""
        if not request.short:
            return request
        if request.command not in self._shortens:
            scenario, card = _scenario(request.command.scenario), request.command.load()
            parameters = scenario.parse(request.command.words)
            self._shortens[request.command] = scenario.short(card, parameters) != parameters
        return request if self._shortens[request.command] else Request(request.command, request.changes)

    def _read(self, request: Request, asked: Iterable[str]) -> tuple[tuple[str, float], ...]:
        """The changes that concern a run which has asked for these keys."""
        plain = self._plain.get(request.command)
        if plain is None:
            numbers = numbers_of(request.command.load())
            plain = self._plain[request.command] = {key: float(number) for key, number in numbers.items()}
        keys = set(asked)
        return tuple((key, value) for key, value in request.changes if key in keys and plain.get(key) != value)

    def _lookup(self, request: Request) -> Outcome | None:
        """A kept run that differs from the request in nothing it has read."""
        kept = self._known.get((request.command, request.short), ())
        return next((outcome for read, outcome in kept if read == self._read(request, outcome.asked)), None)

    def _keep(self, request: Request, outcome: Outcome | AiCoreError) -> None:
        if isinstance(outcome, AiCoreError):
            self._refused[request] = outcome
        else:
            kept = self._known.setdefault((request.command, request.short), [])
            kept.append((self._read(request, outcome.asked), outcome))


def _figures(number: int, request: Request, paths: Sequence[str]) -> tuple[int, Outcome | AiCoreError]:
    """The work of one process; `number` says which request it was."""
    try:
        shown, asked = document(request)
        result = shown["results"][0]
        launch = result["time_us"] - result["cycles"] / request.card().clock_mhz
        fixed = {path: launch if path == TASK else 0.0 for path in paths}
        return number, Outcome({path: at_path(shown, path) for path in paths}, asked, fixed)
    except AiCoreError as error:
        return number, error
