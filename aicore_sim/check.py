"""Checking a scenario: its findings, replays under other timings, and a kernel with the fixes put in.

`aicore-sim check` prints what these functions return.
"""

from __future__ import annotations

import dataclasses
import importlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.errors import AiCoreError, DeadlockError
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, Hazard, Hazards, Insertion, Party
from aicore_sim.hazards.patch import apply
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import Scenario, load_scenario

ROUNDS = 3
"""How often fixes are put in and the kernel is run again: a fix may uncover what the fault before it hid."""


@dataclass(frozen=True)
class Target:
    """What to check: a scenario with its parameters on a card, and the switches of the run."""

    scenario: Scenario
    parameters: Any
    card: Card
    options: Options = field(default_factory=Options)
    blocks: int | None = None

    @property
    def file(self) -> str:
        """The scenario's source."""
        return str(self.scenario.module.__file__)


@dataclass(frozen=True)
class Checked:
    """What a check found. `run` is None where the program cannot proceed; the deadlock is one of the findings then."""

    hazards: Hazards
    correct: bool | None
    run: Run | None = None
    schedules: Any = None
    """`aicore_sim.schedules.Schedules` where other timings were tried."""

    @property
    def wrong(self) -> bool:
        """True for an error among the findings (a deadlock is one) or a wrong result."""
        return self.correct is False or any(hazard.severity == ERROR for hazard in self.hazards)


def check(target: Target) -> Checked:
    """Run the scenario once and collect the findings.

    Raises what the kernel raises (ParameterError ... UnsupportedError, ConfigError), except DeadlockError: that is a finding.
    """
    try:
        run, _ = target.scenario.run(target.card, target.parameters, target.options, target.blocks)
    except DeadlockError as error:
        return Checked(deadlock_hazards(error), False if target.options.data else None)
    return Checked(Hazards(run.hazards), run.correct, run)


def deadlock_hazards(error: DeadlockError) -> Hazards:
    """The finding that a deadlock is."""
    at = Party("", "", "", error.file or "", error.line or 0, 0.0)
    return Hazards([Hazard("wait-without-set", ERROR, OBSERVED, at, "; ".join([error.message, *error.cycle]))])


# ---- schedules ------------------------------------------------------------------------------------------------------
def with_schedules(checked: Checked, target: Target, tries: int, seed: int) -> Checked:
    """The same with `tries` replays under other legal timings; possible findings that a schedule shows become observed.

    Nothing is tried where the program cannot proceed. Raises ParameterError in runs without data.
    """
    if checked.run is None:
        return checked
    explore = importlib.import_module("aicore_sim.schedules").explore
    possible = [hazard for hazard in checked.hazards if hazard.severity != NOTE and hazard.verdict != OBSERVED]
    found = explore(target.scenario, target.parameters, target.card, tries, seed, target.options, directed=possible,
                    blocks=target.blocks)  # fmt: skip
    shown = {id(one.hazard): one.hold for one in found.confirmed}
    hazards = [_confirmed(one, shown[id(one)]) if id(one) in shown else one for one in checked.hazards]
    return dataclasses.replace(checked, hazards=Hazards(hazards), schedules=found)


def _confirmed(hazard: Hazard, hold: Any) -> Hazard:
    words = (f"confirmed by a schedule: the output differs when {hold.pipe} of {hold.core} at line {hold.line} "
             f"{'completes' if hold.effect else 'begins'} {hold.cycles:,.0f} cycles later")  # fmt: skip
    return dataclasses.replace(hazard, verdict=OBSERVED, detail=f"{hazard.detail}; {words}" if hazard.detail else words)


# ---- fixes ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Repair:
    """A kernel with the fixes of its findings: the new source, the difference, and what checking it again found.

    `after` is the last check, None if the patched program was refused (`error`). `elsewhere` are insertions into other files
    and such that found no place; they are left to the reader.
    """

    text: str
    diff: str
    added: int
    rounds: int
    after: Checked | None
    elsewhere: tuple[Insertion, ...] = ()
    error: AiCoreError | None = None

    @property
    def clean(self) -> bool:
        """True if the patched kernel is without errors and warnings."""
        return self.after is not None and self.after.hazards.clean

    @property
    def correct(self) -> bool | None:
        """Whether its result is right; None if nothing says so."""
        return None if self.after is None else self.after.correct

    def as_dict(self) -> dict[str, Any]:
        """As `check --json` has it."""
        return {"diff": self.diff, "clean": self.clean, "correct": self.correct}


def repair(target: Target, checked: Checked) -> Repair:
    """Put the fixes of `checked` into a copy of the scenario's file and check that; again while it helps, `ROUNDS` times.

    The scenario's file is not changed. The copy has the same name in a temporary folder, so that it loads as the same
    scenario.
    """
    original = _read(target.file)
    text, added, elsewhere = original, 0, dict[Insertion, None]()
    here, after = target, checked
    error: AiCoreError | None = None
    rounds = 0
    with tempfile.TemporaryDirectory(prefix="aicore-sim-fix-") as folder:
        while rounds < ROUNDS and not after.hazards.clean:
            mine, others = _insertions(after.hazards, here.file)
            patched = apply(text, mine)
            elsewhere.update(dict.fromkeys([*others, *patched.skipped]))
            if not patched.applied:
                break
            rounds += 1
            text, added = patched.text, added + len(patched.applied)
            try:
                here = _patched(target, text, Path(folder, str(rounds)))
                after = check(here)
            except AiCoreError as refused:
                error = refused
                break
    diff = dataclasses.replace(patched, text=text).diff(original, target.file) if added else ""
    return Repair(text, diff, added, rounds, None if error else after, tuple(elsewhere), error)


def _insertions(hazards: Sequence[Hazard], file: str) -> tuple[list[Insertion], list[Insertion]]:
    """Those for `file`, and those for other files, of all findings but notes."""
    found = [one for hazard in hazards if hazard.severity != NOTE for one in hazard.insert]
    return [one for one in found if _same(one.file, file)], [one for one in found if not _same(one.file, file)]


def _same(a: str, b: str) -> bool:
    return a == b or Path(a).resolve() == Path(b).resolve()


def _read(file: str) -> str:
    """The source with its line ends as they are."""
    with Path(file).open(encoding="utf-8", newline="") as stream:
        return stream.read()


def write_source(file: Path, text: str) -> None:
    """The opposite of reading it: line ends stay as they are."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)


def _patched(target: Target, text: str, folder: Path) -> Target:
    """The same target with another source."""
    folder.mkdir()
    file = folder / Path(target.file).name
    write_source(file, text)
    scenario = load_scenario(str(file))
    given = {one.name: getattr(target.parameters, one.name) for one in dataclasses.fields(target.parameters)}
    return dataclasses.replace(target, scenario=scenario, parameters=scenario.parameters(**given))
