"""The list of measurements: every row is one figure of one command of this tool.

Columns: id, card, mechanism, command, json_path, value, unit, counted (yes or no). `command` is what follows `aicore-sim`
on a command line; `json_path` says where `run --json` shows the figure.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicore_sim.cards import Card, load_card
from aicore_sim.errors import AiCoreError, ConfigError
from aicore_sim.scenario import load_scenario

COLUMNS = ("id", "card", "mechanism", "command", "json_path", "value", "unit", "counted")
PUBLISHED = Path(__file__).with_name("points.csv")
"""The measurements that come with the package."""
_STEP = re.compile(r"\.?([A-Za-z_0-9]+)|\[(\d+)\]")
_FORM = "run SCENARIO key=value ... --card NAME[:SOC] [--override key=value] [--blocks N] [--no-data] [--no-contention]"


@dataclass(frozen=True)
class Command:
    """A `run` command in parts. Two points with equal commands share one run."""

    scenario: str
    words: tuple[str, ...]
    card: str
    overrides: tuple[tuple[str, str], ...] = ()
    blocks: int | None = None
    data: bool = True
    contention: bool = True

    def load(self) -> Card:
        """The card with the command's own overrides."""
        return load_card(self.card, dict(self.overrides))

    def __str__(self) -> str:
        words = ["run", self.scenario, *self.words, "--card", self.card]
        words += ["--no-data"] if not self.data else []
        words += ["--no-contention"] if not self.contention else []
        words += [f"--blocks {self.blocks}"] if self.blocks is not None else []
        return " ".join([*words, *(f"--override {key}={value}" for key, value in self.overrides)])


@dataclass(frozen=True)
class Point:
    """One published figure. Points with `counted` False are shown and not scored."""

    id: str
    card: str
    mechanism: str
    command: Command
    json_path: str
    value: float
    unit: str
    counted: bool

    @property
    def group(self) -> str:
        return group_of(self.id)


def group_of(point: str) -> str:
    """The scenario that a point was measured in: what leave-one-scenario-out leaves out together.

    That is the id up to its first dot, all figures of one run; but the latency sweep of A3 is one measurement for each
    direction (`a3_sweep_GM-UB`, `a3_sweep_UB-GM`), and so are its Mmad sizes (`a3_mmad`): their points differ only in a size.
    """
    run = point.split(".")[0]
    for sweep in ("a3_sweep_GM-UB", "a3_sweep_UB-GM", "a3_mmad"):
        if run.startswith(f"{sweep}_"):
            return sweep
    return run


def parse_command(text: str) -> Command:
    """A command as its parts. Raises ConfigError for anything but a `run` command on one card."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the command cannot be read: {error}", field="command", value=text, allowed=_FORM) from error
    if len(words) < 2 or words[0] != "run" or words[1].startswith("-"):
        raise ConfigError("not a run of a scenario", field="command", value=text, allowed=_FORM)
    parameters: list[str] = []
    options: dict[str, list[str]] = {"--card": [], "--override": [], "--blocks": []}
    switches: set[str] = set()
    rest = iter(words[2:])
    for word in rest:
        name, mark, value = word.partition("=")
        if name in options:
            options[name].append(value if mark else next(rest, ""))
        elif word in ("--no-data", "--no-contention"):
            switches.add(word)
        elif word.startswith("-"):
            raise ConfigError(f"{word} changes no time, or is no option of run", field="command", value=text, allowed=_FORM)
        else:
            parameters.append(word)
    if len(options["--card"]) != 1 or not options["--card"][0] or options["--card"][0] == "all":
        raise ConfigError("a point belongs to one card", field="command", value=text, allowed="one --card NAME[:SOC]")
    changes = [tuple(change.split("=", 1)) for change in options["--override"]]
    if any(len(change) != 2 for change in changes):
        raise ConfigError("an override is a word of the form key.path=value", field="command", value=text, allowed=_FORM)
    counts = options["--blocks"]
    if len(counts) > 1 or not all(count.isdecimal() and int(count) for count in counts):
        raise ConfigError("--blocks takes one number >= 1", field="command", value=text, allowed=_FORM)
    return Command(
        words[1], tuple(parameters), options["--card"][0], tuple(sorted((change[0], change[1]) for change in changes)),
        int(counts[0]) if counts else None, "--no-data" not in switches, "--no-contention" not in switches,
    )  # fmt: skip


def load_points(file: Path = PUBLISHED) -> list[Point]:
    """All points of a file, in its order.

    Raises ConfigError with file and line for missing columns, repeated ids, values that are no positive number, and
    commands whose scenario, parameters or card do not exist.
    """
    try:
        with file.open(encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle)
            header = reader.fieldnames or []
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"the points cannot be read: {error}", field="points", file=str(file)) from error
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ConfigError(f"columns are missing: {', '.join(missing)}", field="points", allowed=",".join(COLUMNS), file=str(file),
                          line=1)  # fmt: skip
    points: list[Point] = []
    known: set[str] = set()
    for line, row in rows:
        try:
            point = _point(row)
            if point.id in known:
                raise ConfigError("an id is used twice", field="id", value=point.id)
        except AiCoreError as error:
            raise ConfigError(error.message, field=error.field, value=error.value, allowed=error.allowed, file=str(file),
                              line=line) from error  # fmt: skip
        known.add(point.id)
        points.append(point)
    if not points:
        raise ConfigError("the file has no points", field="points", file=str(file), line=1)
    return points


def _point(row: Mapping[str, str | None]) -> Point:
    text = {name: (row[name] or "").strip() for name in COLUMNS}
    for name in COLUMNS:
        if not text[name]:
            raise ConfigError(f"{name} is empty", field=name)
    try:
        value = float(text["value"])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError("a measured value is a number > 0", field="value", value=text["value"])
    if text["counted"] not in ("yes", "no"):
        raise ConfigError("not a yes or no", field="counted", value=text["counted"], allowed="yes, no")
    steps(text["json_path"])
    command = parse_command(text["command"])
    card, scenario = command.load(), load_scenario(command.scenario)
    scenario.parse(command.words)
    if text["card"] not in (command.card, card.name, card.label):
        raise ConfigError("the card of the row is not that of its command", field="card", value=text["card"], allowed=command.card)
    return Point(text["id"], text["card"], text["mechanism"], command, text["json_path"], value, text["unit"],
                 text["counted"] == "yes")  # fmt: skip


def steps(path: str) -> list[str | int]:
    """`results[0].pipes.aiv` as [results, 0, pipes, aiv]. Raises ConfigError for another form."""
    found: list[str | int] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ConfigError("not a path into the JSON of run", field="json_path", value=path,
                              allowed="results[0].time_us and the like")  # fmt: skip
        found.append(match[1] if match[1] is not None else int(match[2]))
        at = match.end()
    return found


def at_path(document: Any, path: str) -> float:
    """The number at a path of a document. Raises ConfigError that names what is there instead."""
    here = document
    for step in steps(path):
        in_list = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if not in_list and not (isinstance(here, Mapping) and step in here):
            known = ", ".join(map(str, here)) if isinstance(here, Mapping) else type(here).__name__
            raise ConfigError(f"the result has no {step!r}", field="json_path", value=path, allowed=known)
        here = here[step]
    if isinstance(here, bool) or not isinstance(here, (int, float)):
        raise ConfigError("the result has no number there", field="json_path", value=path)
    return float(here)


def of_card(points: Iterable[Point], name: str | None) -> list[Point]:
    """The points of a card, by its name or as NAME:SOC; all for None and "all". Raises ConfigError where there are none."""
    listed = list(points)
    if name is None or name == "all":
        return listed
    chosen = [point for point in listed if name in (point.card, point.card.split(":")[0])]
    if not chosen:
        raise ConfigError("no point was measured on this card", field="card", value=name,
                          allowed=", ".join(dict.fromkeys(point.card for point in listed)))  # fmt: skip
    return chosen
