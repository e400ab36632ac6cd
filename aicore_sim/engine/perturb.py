"""Other timings that the hardware may have as well: the same program with instructions that begin or complete later.

A model gives one schedule; a chip gives another each time. A perturbation delays what nothing promises to be on time: every
entry may begin later on its pipe, the effects of an instruction may be complete later, the scalar unit may issue more slowly
and a core may start later. What a kernel can rely on stays: pipes take their entries in order, and flags, barriers, locks and
unit flags wait for the delayed times, because they are reckoned from them. So a right kernel gives the same data under every
perturbation, and one that does so by luck is found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.program import Entry, Kind

if TYPE_CHECKING:
    from aicore_sim.kernel.context import Session

LITTLE, LITTLE_SHARE = 0.2, 1 / 16
"""How many entries are delayed a little, and what part of the scale that is at most."""
MUCH = ((0.5, 0.01), (0.8, 0.1), (1.0, 0.5))
"""(cumulative share of the pipes, part of their entries that is delayed by up to the whole scale). A pipe keeps its temper for
the run: if all pipes were late alike, nothing would change places."""
STARTS_LATE = 0.5
"""Share of the cores that start late."""
_DRAWS = 256
"""Numbers drawn at a time."""
START = 0
"""The line of a hold or delay that is the start of the core."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One instruction delayed by `cycles`: what source line `line` of `file` records for `pipe` ("MTE2") of `core` (label as in
    the trace, index, "" for every core).

    `nth` is which execution of the line on that core, from 0; None holds all of them. With `effect` the instruction begins as
    ever and its effects are complete later. On pipe "S" what the line records is executed or issued later by the scalar unit.
    `line` START is the start of the core itself, on pipe "S".
    """

    core: str | int
    pipe: str
    file: str
    line: int
    cycles: float
    nth: int | None = None
    effect: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """What one entry of a perturbed run was delayed by; fields as in `Hold`. `api` names the instruction or the kind of entry."""

    core: str
    pipe: str
    api: str
    file: str
    line: int
    nth: int
    cycles: float
    effect: bool = False

    def hold(self) -> Hold:
        """The same delay asked for."""
        return Hold(self.core, self.pipe, self.file, self.line, self.cycles, self.nth, self.effect)


@dataclass(frozen=True)
class Perturbation:
    """A timing: random delays of up to `scale` cycles that follow from `seed`, and the delays `holds` asks for.

    The draws of a pipe belong to its entries in program order: with another scale all delays grow or shrink alike.
    """

    seed: int = 0
    scale: float = 0.0
    holds: tuple[Hold, ...] = ()

    def scaled(self, scale: float) -> Perturbation:
        """The same random delays on another scale."""
        return replace(self, scale=scale)

    @property
    def longest(self) -> float:
        """Cycles for which a core may seem to do nothing because of it."""
        return 4 * self.scale + sum(hold.cycles for hold in self.holds)


class PipeNoise:
    """The delays of one pipe of one core, one entry after another. `lag` are the ticks by which the effects of the entry asked
    for last are complete later; `delays` what was delayed so far, as (ticks, line id, api, nth, effect)."""

    def __init__(self, perturbation: Perturbation, core: int, label: str, pipe: Pipe, session: Session) -> None:
        self.label = label
        self.pipe = pipe
        self.lag = 0
        self.delays: list[tuple[int, int, str, int, bool]] = []
        self.start = 0
        """Ticks by which the core starts later; of pipe S only."""
        self._session = session
        self._scale = perturbation.scale * TICKS_PER_CYCLE
        self._holds = [
            hold for hold in perturbation.holds if hold.pipe == pipe.name and hold.core in ("", core, label)
        ]  # fmt: skip
        self._held: dict[int, list[Hold]] = {}
        """Holds by line id, filled in as lines are met."""
        self._counts: dict[tuple[int, int, int], int] = {}
        """Entries so far by line id, kind and pipe."""
        self._much = self._little = 2.0
        if self._scale:
            self._draws = _numbers(perturbation.seed, core, pipe)
            temper = next(self._draws)
            much = next(part for upto, part in MUCH if temper < upto)
            self._much, self._little = 1.0 - much, 1.0 - much - LITTLE
        if pipe is Pipe.S:
            self.start = self._start()

    @property
    def silent(self) -> bool:
        """True if it never delays anything."""
        return not self._scale and not self._holds

    def _start(self) -> int:
        late = 0.0
        if self._scale:
            late = self._scale * max(1.0 - next(self._draws) / STARTS_LATE, 0.0)
        late += sum(hold.cycles for hold in self._holds if hold.line == START) * TICKS_PER_CYCLE
        if late:
            self.delays.append((round(late), -1, "start", 0, False))
        return round(late)

    def late(self, entry: Entry) -> int:
        """Ticks by which `entry` begins later; to be asked once for every entry, in the order the pipe takes them."""
        start = lag = 0.0
        kind = entry.kind
        work = kind is Kind.EXEC and self.pipe is not Pipe.S
        if self._scale:
            draw = next(self._draws)
            if draw >= self._little:
                start = self._delay(draw)
            if work:
                draw = next(self._draws)
                if draw >= self._little:
                    lag = self._delay(draw)
        key = (entry.line, kind, entry.pipe)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        if self._holds:
            for hold in self._holds_of(entry.line):
                if hold.nth is None or hold.nth == count:
                    if hold.effect and work:
                        lag += hold.cycles * TICKS_PER_CYCLE
                    else:
                        start += hold.cycles * TICKS_PER_CYCLE
        ticks, self.lag = round(start), round(lag)
        if ticks or self.lag:
            api = entry.op.api if entry.op is not None else kind.name
            if ticks:
                self.delays.append((ticks, entry.line, api, count, False))
            if self.lag:
                self.delays.append((self.lag, entry.line, api, count, True))
        return ticks

    def _delay(self, draw: float) -> float:
        if draw >= self._much:
            return self._scale * (draw - self._much) / (1.0 - self._much)
        return self._scale * LITTLE_SHARE * (draw - self._little) / (self._much - self._little)

    def _holds_of(self, line: int) -> list[Hold]:
        found = self._held.get(line)
        if found is None:
            where = self._session.lines[line]
            found = self._held[line] = [hold for hold in self._holds if (hold.file, hold.line) == where]
        return found

    def as_delays(self) -> Iterator[Delay]:
        """What was delayed, in the order of the pipe."""
        for ticks, line, api, nth, effect in self.delays:
            file, number = self._session.lines[line] if line >= 0 else ("", START)
            yield Delay(self.label, self.pipe.name, api, file, number, nth, ticks / TICKS_PER_CYCLE, effect)


def _numbers(seed: int, core: int, pipe: Pipe) -> Iterator[float]:
    """Uniform numbers in [0, 1) that follow from the three."""
    generator = np.random.default_rng((seed, core, int(pipe)))
    while True:
        yield from generator.random(_DRAWS).tolist()


class Noises:
    """The delays of all pipes of a run."""

    def __init__(self, perturbation: Perturbation, session: Session) -> None:
        self.perturbation = perturbation
        self._session = session
        self._noises: list[PipeNoise] = []

    def of(self, core: int, label: str, pipe: Pipe) -> PipeNoise | None:
        """The delays of one pipe; None where there are none."""
        noise = PipeNoise(self.perturbation, core, label, pipe, self._session)
        if noise.silent:
            return None
        self._noises.append(noise)
        return noise

    def delays(self) -> tuple[Delay, ...]:
        """Everything that was delayed, the most delayed first."""
        found = [delay for noise in self._noises for delay in noise.as_delays()]
        return tuple(sorted(found, key=lambda d: (-d.cycles, d.core, d.pipe, d.file, d.line, d.nth, d.effect)))
