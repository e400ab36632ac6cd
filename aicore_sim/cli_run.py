"""`aicore-sim run` and `aicore-sim scenarios`."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim.cards import Card
from aicore_sim.cli_cards import load_cards
from aicore_sim.cli_output import (
    describe_error,
    emit_json,
    run_progress,
    set_up_logging,
    stderr_console,
    stdout_console,
    stdout_for_results,
    write_report,
)
from aicore_sim.errors import AiCoreError, ConfigError, DeadlockError
from aicore_sim.launch import Options, Run
from aicore_sim.report.against import against_msprof
from aicore_sim.report.msprof import Profile, read_profile
from aicore_sim.report.summary import as_result, print_result
from aicore_sim.scenario import Job, Measured, Scenario, load_scenario, scenario_names

log = logging.getLogger(__name__)

DONE, WRONG, BAD_INPUT = 0, 1, 2
"""Exit status: done; a wrong result, an error-severity hazard or a deadlock; bad input, or no card could run it."""

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only errors on stderr.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="More on stderr.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Quirks = Annotated[
    str, typer.Option("--quirks", metavar="documented|implementation|NAME,...",
                      help="How calls are read where the implementation differs from the pages (docs/quirks.md).")
]  # fmt: skip
Wrap = Annotated[
    str, typer.Option("--wrap", metavar="refuse|hardware", help="What becomes of values too wide for their field.")
]  # fmt: skip
Name = Annotated[str, typer.Argument(metavar="SCENARIO", help="Name, or path of a .py file.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Parameters of the scenario.")]
Cards = Annotated[
    list[str] | None,
    typer.Option("--card", metavar="NAME[:SOC]|all|FILE.toml", help="Card; repeatable. Default atlas_350."),
]
Blocks = Annotated[int | None, typer.Option("--blocks", metavar="N", help="Blocks instead of the scenario's own.")]
NoData = Annotated[bool, typer.Option("--no-data", help="Times only: move no bytes.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="Change a number of the card; repeatable.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the report files.")]


@dataclass(frozen=True)
class Request:
    """What one `run` command asks for, the same for every card."""

    scenario: Scenario
    parameters: Any
    options: Options
    blocks: int | None
    write: bool
    window_us: tuple[float, float] | None
    as_json: bool
    quiet: bool
    profile: Profile | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one card: its entry of `results`, the resolved parameters, its part of the exit status, and that in
    words."""

    row: dict[str, Any]
    parameters: Mapping[str, Any] | None
    status: int
    verdict: str


def run(
    scenario: Name,
    words: Words = None,
    card: Cards = None,
    blocks: Blocks = None,
    no_data: NoData = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not check the result.")] = False,
    no_contention: Annotated[
        bool, typer.Option("--no-contention", help="Run twice: what does waiting for shared L2 and memory cost?")
    ] = False,
    override: Overrides = None,
    quirks: Quirks = "documented",
    wrap: Wrap = "refuse",
    out: Out = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="Write no report files.")] = False,
    window: Annotated[
        str | None, typer.Option("--window", metavar="A:B", help="Draw only this stretch, in us.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against-msprof", metavar="DIR", help="Compare with a result folder of `msprof op`."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run a scenario, check its result, and show where the time went.

    Report files go to aicore-sim-out/SCENARIO-CARD unless --out or --no-files says otherwise. Exit status: 0 done;
    1 wrong result, error-severity hazard or deadlock; 2 bad input, or no card could run it.

    \b
    Examples:
      aicore-sim run hello
      aicore-sim run matmul M=2048 N=2048 K=2048 --card atlas_a2 --no-data
      aicore-sim run add rows=1024 --card all --json
      aicore-sim run matmul --override hbm.nominal_rate=1600 --window 2:5
      aicore-sim run add --card atlas_a2 --no-data --no-contention
      aicore-sim run add --card atlas_a2 --against-msprof OPPROF_DIR
    """
    set_up_logging(quiet, verbose)
    chosen = chosen_cards(card, override, quirks, wrap)
    loaded = load_scenario(scenario)
    window_us = parse_window(window)
    if window_us is not None and no_files:
        raise ConfigError("--window is about timeline.png, which --no-files leaves out", field="window", value=window)
    profile = None if against is None else read_profile(against)
    request = Request(
        loaded, loaded.parse(words or []), Options(data=not no_data, checks=not no_check, contention=not no_contention),
        blocks, not no_files, window_us, as_json, quiet, profile,
    )  # fmt: skip
    console = stdout_console()
    with stdout_for_results(as_json):
        outcomes = [
            _on_card(request, one, _folder(out, loaded.name, one, chosen), console, alone=len(chosen) == 1)
            for one in chosen
        ]
    if as_json:
        emit_json({"scenario": loaded.name, "parameters": _parameters(request, outcomes),
                   "results": [outcome.row for outcome in outcomes]})  # fmt: skip
    elif len(outcomes) > 1:
        console.print(_comparison(outcomes))
    return exit_status([outcome.status for outcome in outcomes])


def chosen_cards(card: Sequence[str] | None, override: Sequence[str] | None, quirks: str, wrap: str) -> list[Card]:
    """The cards that a command line asks for, read as it says."""
    return [one.reading(quirks, wrap) for one in load_cards(card or ["atlas_350"], override or [])]


def exit_status(statuses: Sequence[int]) -> int:
    """That of a command on several cards: bad input only if no card could run it, else wrong if one was."""
    if all(status == BAD_INPUT for status in statuses):
        return BAD_INPUT
    return WRONG if WRONG in statuses else DONE


def _on_card(request: Request, card: Card, folder: Path, console: Console, *, alone: bool) -> Outcome:
    """Run on one card. Errors are raised if it is the only one, else they become its row."""
    try:
        with run_progress(f"{request.scenario.name} on {card.name}", request.quiet) as progress:
            options = request.options
            if progress is not None:
                options = dataclasses.replace(options, progress=progress.update)
            result, job = request.scenario.run(card, request.parameters, options, request.blocks)
    except AiCoreError as error:
        if alone:
            raise
        if not request.as_json:
            console.print(Text.assemble((card.label, "bold"), "  ", describe_error(error)))
        return _failed(card, error)
    log.info("%s: %d instructions in %.2f s, %.2f s of them recording", card.label, result.instructions, result.wall_s,
             result.wall_s - result.engine_s)  # fmt: skip
    row = as_result(result)
    result.measured = row["measured"] = compare(row, job.measured)
    notes: list[str] = []
    if request.profile is not None:
        result.against_msprof, notes = against_msprof(result, request.profile)
        row["against_msprof"] = result.against_msprof
    if request.write:
        window_us = request.window_us
        if not alone and window_us is not None and window_us[0] >= result.trace.length_us:
            log.warning("%s: the run ends at %.6g us, before --window: the whole of it is drawn", card.label,
                        result.trace.length_us)  # fmt: skip
            window_us = None
        write_report(result, folder, request.scenario.name, window_us=window_us)
        row["files"] = list(result.files)
    if not request.as_json:
        _print(result, job, request, console, notes)
    for note in notes if request.as_json else ():
        log.warning("%s: %s", card.label, note)
    wrong = result.correct is False or any(_is_error(hazard) for hazard in row["hazards"])
    verdict = {True: "correct", False: "WRONG", None: "not checked"}[result.correct]
    return Outcome(row, job.parameters, WRONG if wrong else DONE, verdict)


def _failed(card: Card, error: AiCoreError) -> Outcome:
    row: dict[str, Any] = {"card": card.name, "soc": card.soc}
    if isinstance(error, DeadlockError):  # the card can run it, the program cannot
        return Outcome({**row, "supported": True, "correct": False, "error": error.as_dict()}, None, WRONG, "deadlock")
    return Outcome({**row, "supported": False, "reason": str(error)}, None, BAD_INPUT, error.message)


def _is_error(hazard: Any) -> bool:
    return isinstance(hazard, Mapping) and hazard.get("severity") == "error"


def _print(result: Run, job: Job, request: Request, console: Console, notes: Sequence[str]) -> None:
    print_result(result, console)
    for note in (*notes, *job.notes):
        console.print(Text(f"note: {note}"))
    if job.show is not None and request.options.data:
        console.print(Text(job.show(job.args)))


def compare(row: Mapping[str, Any], measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Published values beside those of a result; `error` is (simulated - measured) / measured, null where either is."""
    out = []
    for point in measured:
        simulated = _at(row, point.metric)
        error = None if simulated is None or not point.value else (simulated - point.value) / point.value
        out.append({"metric": point.metric, "value": point.value, "unit": point.unit, "simulated": simulated,
                    "error": error})  # fmt: skip
    return out


def _at(row: Mapping[str, Any], path: str) -> float | None:
    """The number at a dotted path of a result, None if there is none."""
    here: Any = row
    for key in path.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return float(here) if isinstance(here, (int, float)) and not isinstance(here, bool) else None


def _parameters(request: Request, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """As resolved by the scenario; where cards resolve a default differently, as it was given."""
    given = dataclasses.asdict(request.parameters)
    resolved = [outcome.parameters for outcome in outcomes if outcome.parameters is not None]
    if not resolved:
        return given
    names = dict.fromkeys([*given, *resolved[0]])
    return {
        name: resolved[0].get(name, given.get(name))
        if all(one.get(name) == resolved[0].get(name) for one in resolved)
        else given.get(name)
        for name in names
    }


def _folder(out: Path | None, scenario: str, card: Card, chosen: Sequence[Card]) -> Path:
    """Where a card's files go; the SoC is named only where the card's name is not enough."""
    twins = sum(other.name == card.name for other in chosen) > 1
    own = f"{scenario}-{card.name}" + (f"-{card.soc}" if twins else "")
    if out is None:
        return Path("aicore-sim-out") / own
    return out if len(chosen) == 1 else out / own


def parse_window(text: str | None) -> tuple[float, float] | None:
    """`A:B` in microseconds."""
    if text is None:
        return None
    first, _, second = text.partition(":")
    try:
        window = float(first), float(second)
    except ValueError:
        window = (math.nan, math.nan)
    if not 0 <= window[0] < window[1] < math.inf:
        raise ConfigError("not a stretch of time", field="window", value=text, allowed="A:B with 0 <= A < B, in us")
    return window


def _comparison(outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="all cards", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("card", no_wrap=True)
    for name in ("time us", "cycles", "blocks"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    for outcome in outcomes:
        row = outcome.row
        figures = ("", "", "")
        if "cycles" in row:
            figures = (f"{row['time_us']:,.3f}", f"{row['cycles']:,.0f}", str(row["blocks"]))
        table.add_row(f"{row['card']}:{row['soc']}", *figures, Text(outcome.verdict))
    return table


def scenarios(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name, or path of a .py file.")] = None,
    as_json: Json = False,
) -> int:
    """List the scenarios, or describe one with its parameters.

    \b
    Examples:
      aicore-sim scenarios
      aicore-sim scenarios matmul
      aicore-sim scenarios --json
    """
    if name is None:
        known = [load_scenario(one) for one in scenario_names()]
        if as_json:
            emit_json([_as_dict(one) for one in known])
        else:
            _print_list(known)
        return DONE
    loaded = load_scenario(name)
    if as_json:
        emit_json(_as_dict(loaded))
    else:
        _print_scenario(loaded)
    return DONE


def _as_dict(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "description": (scenario.module.__doc__ or "").strip(),
        "parameters": [
            {"name": name, "type": kind, "default": default, "help": help_, "choices": list(choices)}
            for name, kind, default, help_, choices in scenario.describe()
        ],
    }


def _print_list(known: Sequence[Scenario]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    table.add_column("what it shows")
    table.add_column("parameters (defaults)", overflow="fold")
    for scenario in known:
        defaults = " ".join(f"{name}={_word(default)}" for name, _, default, _, _ in scenario.describe())
        table.add_row(scenario.name, Text(scenario.summary), Text(defaults))
    stdout_console().print(table)
    stderr_console().print("aicore-sim scenarios NAME describes one of them", style="dim")


def _print_scenario(scenario: Scenario) -> None:
    console = stdout_console()
    console.print(Text(scenario.name, style="bold"))
    console.print(Text((scenario.module.__doc__ or "").strip()))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("parameter", "type", "default"):
        table.add_column(column, no_wrap=True)
    table.add_column("meaning")
    for name, kind, default, help_, choices in scenario.describe():
        words = help_ + (f" ({'|'.join(choices)})" if choices else "")
        table.add_row(name, kind, _word(default), Text(words))
    console.print(table)


def _word(value: Any) -> str:
    """A default as it would be typed."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(str(item) for item in value)
    return str(value)
