"""Checking a scenario: its findings, replays under other timings, and a kernel with the fixes put in.

`aicore-sim check` prints what these functions return.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.engine.perturb import Hold
from aicore_sim.errors import DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.flags import FLAG_KINDS
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, Hazard, Hazards, Insertion
from aicore_sim.hazards.patch import Patched, apply
from aicore_sim.launch import Options, Run
from aicore_sim.report.hazards import shown_path
from aicore_sim.scenario import Scenario, load_scenario
from aicore_sim.schedules import Schedules, explore

ROUNDS = 3
"""How often fixes are put in and the kernel is run again: a fix may uncover what the fault before it hid."""

MOST_ROWS = 2_000_000
"""Fixes that are not needed are looked for if the runs that it takes execute no more than this together."""


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
    schedules: Schedules | None = None
    """Where other timings were tried."""

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
        return Checked(of_deadlock(error, target.card), False if target.options.data else None)
    return Checked(run.hazards, run.correct, run)


# ---- schedules ------------------------------------------------------------------------------------------------------
def with_schedules(checked: Checked, target: Target, tries: int, seed: int) -> Checked:
    """The same with `tries` replays under other legal timings; possible findings that a schedule shows become observed.

    Nothing is tried where the program cannot proceed. Raises ParameterError in runs without data.
    """
    if checked.run is None:
        return checked
    # What is wrong with a flag by itself is no question of timing, and a schedule that differs would say nothing of it.
    possible = [hazard for hazard in checked.hazards
                if hazard.severity != NOTE and hazard.verdict != OBSERVED and hazard.kind not in FLAG_KINDS]  # fmt: skip
    found = explore(target.scenario, target.parameters, target.card, tries, seed, target.options, directed=possible,
                    blocks=target.blocks)  # fmt: skip
    shown = {id(one.hazard): one.hold for one in found.confirmed}
    hazards = [_confirmed(one, shown[id(one)]) if id(one) in shown else one for one in checked.hazards]
    return replace(checked, hazards=Hazards(hazards), schedules=found)


def _confirmed(hazard: Hazard, hold: Hold) -> Hazard:
    words = (f"confirmed by a schedule: the output differs when {hold.pipe} of {hold.core} at line {hold.line} "
             f"{'completes' if hold.effect else 'begins'} {hold.cycles:,.0f} cycles later")  # fmt: skip
    return replace(hazard, verdict=OBSERVED, detail=f"{hazard.detail}; {words}" if hazard.detail else words)


# ---- fixes ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Repair:
    """A kernel with the fixes of its findings: the new source, the difference, and what checking it again found.

    `added` are the insertions, by the lines of the source as it was, `rounds` how often findings were mended. `after` is the
    last check, None if the patched program was refused (`error`). `elsewhere` are insertions into other files and such that
    found no place; they are left to the reader.
    """

    text: str
    diff: str
    added: tuple[Insertion, ...]
    rounds: int
    after: Checked | None
    elsewhere: tuple[Insertion, ...] = ()
    error: Exception | None = None

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


_Group = tuple[Insertion, ...]
"""What mends one finding, by the lines of the source as it was."""


def repair(target: Target, checked: Checked) -> Repair:
    """Put the fixes of `checked` into a copy of the scenario's file and check that; again while it helps, `ROUNDS` times.

    All fixes of a round are put in together. Where that does not end clean, they are tried one by one, and those stay that
    leave less to find: a flag between cores may be right for one finding and a deadlock with that of another. When the kernel
    is clean, fixes are taken out again, the last first, as long as it stays so: one missing call often shows in several
    findings. The scenario's file is not changed. The copies have its name, in a temporary folder, so that they load as the
    same scenario.
    """
    with tempfile.TemporaryDirectory(prefix="aicore-sim-fix-") as folder:
        shop = _Workshop(target, Path(folder))
        best = shop.together(checked)
        if not best.clean and shop.affords(checked, len(checked.hazards)):
            careful = shop.one_by_one(checked)
            best = careful if careful.groups and _left(careful.after) <= _left(best.after) else best
        if best.groups and best.clean and shop.affords(checked, len(best.groups)):
            best = shop.fewer(best)
        return shop.result(best)


def _left(checked: Checked | None) -> tuple[bool, bool, int]:
    """How much is left to mend, least first: refused, a deadlock, how many findings."""
    if checked is None:
        return True, True, 0
    return False, checked.run is None, sum(hazard.severity != NOTE for hazard in checked.hazards)


@dataclass(frozen=True)
class _Attempt:
    """Fixes put in, and what came of it."""

    groups: tuple[_Group, ...]
    patched: Patched
    file: str
    after: Checked | None
    rounds: int = 0
    error: Exception | None = None

    @property
    def clean(self) -> bool:
        return self.after is not None and self.after.hazards.clean


class _Workshop:
    """The copies of one scenario's file."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self.folder = target, folder
        self.source = _read(target.file)
        self.copies = 0
        self.elsewhere: dict[Insertion, None] = {}

    def affords(self, checked: Checked, runs: int) -> bool:
        """True if so many runs more are worth their time."""
        return runs * (checked.run.instructions if checked.run is not None else 0) <= MOST_ROWS

    def together(self, checked: Checked) -> _Attempt:
        """Every round all fixes at once."""
        best = _Attempt((), apply(self.source, ()), self.target.file, checked)
        while best.rounds < ROUNDS and best.after is not None and (new := self.new(best)):
            best = self.attempt((*best.groups, *new), best.rounds + 1)
        return best

    def one_by_one(self, checked: Checked) -> _Attempt:
        """Every round one fix after the other, those that leave less."""
        best = _Attempt((), apply(self.source, ()), self.target.file, checked)
        for number in range(1, ROUNDS + 1):
            before = best
            for group in self.new(best):
                tried = self.attempt((*best.groups, group), number)
                best = tried if _left(tried.after) < _left(best.after) else best
            if best is before:
                break
        return best

    def fewer(self, best: _Attempt) -> _Attempt:
        """The same with as few of the groups as it takes to be clean and as right."""
        for group in reversed(best.groups):
            tried = self.attempt(tuple(one for one in best.groups if one != group), best.rounds)
            if best.after is not None and tried.after is not None and tried.clean and tried.after.correct is best.after.correct:
                best = tried
        return best

    def new(self, attempt: _Attempt) -> list[_Group]:
        """What would mend the findings of an attempt and is not in it."""
        hazards = attempt.after.hazards if attempt.after is not None and not attempt.clean else ()
        found = (_group(hazard, attempt.file, attempt.patched.origin, self.elsewhere) for hazard in hazards)
        return [group for group in dict.fromkeys(found) if group and group not in attempt.groups]

    def attempt(self, groups: tuple[_Group, ...], rounds: int) -> _Attempt:
        patched = self.patch(groups)
        try:
            file, after = self.check(patched.text)
        except Exception as error:
            # A call that does not fit where it was put may fail in any way that kernel code can.
            return _Attempt(groups, patched, "", None, rounds, error)
        return _Attempt(groups, patched, file, after, rounds)

    def patch(self, groups: Iterable[_Group]) -> Patched:
        return apply(self.source, [one for group in groups for one in group])

    def check(self, text: str) -> tuple[str, Checked]:
        """A new copy and what checking it finds."""
        self.copies += 1
        folder = self.folder / str(self.copies)
        folder.mkdir()
        file = folder / Path(self.target.file).name
        write_source(file, text)
        scenario = load_scenario(str(file))
        given = {one.name: getattr(self.target.parameters, one.name) for one in fields(self.target.parameters)}
        return str(file), check(replace(self.target, scenario=scenario, parameters=scenario.parameters(**given)))

    def result(self, best: _Attempt) -> Repair:
        patched = best.patched
        diff = patched.diff(self.source, shown_path(self.target.file))
        left = dict.fromkeys([*self.elsewhere, *patched.skipped])
        return Repair(patched.text, diff, patched.applied, best.rounds, best.after, tuple(left), best.error)


def _group(hazard: Hazard, file: str, origin: Sequence[int], elsewhere: dict[Insertion, None]) -> _Group:
    """The insertions of a finding into `file`, by the lines of the source as it was, notes left out; those into other files
    are added to `elsewhere`, those beside lines that are new go nowhere."""
    mine = []
    for one in hazard.insert if hazard.severity != NOTE else ():
        if not _same(one.file, file):
            elsewhere[one] = None
        elif 0 < one.line <= len(origin) and origin[one.line - 1]:
            mine.append(replace(one, file="", line=origin[one.line - 1]))
    return tuple(mine)


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
