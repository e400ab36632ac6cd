"""`aicore-sim check`: the hazards of a scenario, what other timings do to it, and the kernel with the fixes put in."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from aicore_sim.check import Checked, Repair, Target, check, repair, with_schedules, write_source
from aicore_sim.cli_output import (
    describe_error,
    emit_json,
    run_progress,
    set_up_logging,
    stderr_console,
    stdout_console,
    stdout_for_results,
)
from aicore_sim.cli_run import (
    BAD_INPUT,
    DONE,
    WRONG,
    Blocks,
    Cards,
    Json,
    Name,
    NoData,
    Overrides,
    Quiet,
    Quirks,
    Verbose,
    Words,
    Wrap,
    chosen_cards,
    exit_status,
)
from aicore_sim.errors import AiCoreError, ConfigError
from aicore_sim.launch import Options
from aicore_sim.report.hazards import print_hazards, shown_path, tally
from aicore_sim.scenario import load_scenario
from aicore_sim.schedules import Schedules

_VERDICT = {
    True: ("result correct", "green"), False: ("result WRONG", "bold red"), None: ("result not checked", "dim"),
}  # fmt: skip
_DIFF = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}


@dataclass(frozen=True)
class _Wanted:
    """What one `check` command asks for on every card."""

    schedules: int
    seed: int
    fix: bool
    as_json: bool
    quiet: bool


def check_command(
    scenario: Name,
    words: Words = None,
    card: Cards = None,
    blocks: Blocks = None,
    no_data: NoData = False,
    override: Overrides = None,
    quirks: Quirks = "documented",
    wrap: Wrap = "refuse",
    fix: Annotated[
        bool, typer.Option("--fix", help="Show the kernel's diff with the fixes put in, and check it again.")
    ] = False,
    fix_out: Annotated[
        Path | None, typer.Option("--fix-out", metavar="FILE", help="Write the fixed kernel to FILE; implies --fix.")
    ] = None,
    schedules: Annotated[
        int, typer.Option("--schedules", metavar="N", min=0, help="Replay N times under other legal timings.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="S", min=0, help="First seed of the schedules.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Find stale caches, races, undefined reads and broken synchronisation, each with the call that mends it.

    No file is changed. Exit status: 0 no error and no wrong result (warnings and notes may be there); 1 an error-severity
    hazard, a wrong result or a deadlock, also where --fix mends it; 2 bad input, or no card could run it.

    \b
    Examples:
      aicore-sim check add
      aicore-sim check matmul M=512 --card all
      aicore-sim check my_kernel.py --fix
      aicore-sim check my_kernel.py n=4096 --fix-out fixed.py
      aicore-sim check add --card atlas_a2 --schedules 200 --seed 1
      aicore-sim check add --override nddma.line=256 --json
    """
    set_up_logging(quiet, verbose)
    chosen = chosen_cards(card, override, quirks, wrap)
    loaded = load_scenario(scenario)
    parameters = loaded.parse(words or [])
    if fix_out is not None and len(chosen) > 1:
        raise ConfigError("the fixes of several cards may differ: choose one card", field="fix-out", value=str(fix_out))
    if schedules and no_data:
        raise ConfigError("schedules are compared by their data: not with --no-data", field="schedules", value=schedules)
    wanted = _Wanted(schedules, seed, fix or fix_out is not None, as_json, quiet)
    console = stdout_console()
    with stdout_for_results(as_json):
        found = [
            _on_card(Target(loaded, parameters, one, Options(data=not no_data), blocks), wanted, console, len(chosen) == 1)
            for one in chosen
        ]
    rows, statuses, repairs = zip(*found, strict=True)
    if fix_out is not None and repairs[0] is not None:
        _write(fix_out, repairs[0].text)
    if as_json:
        emit_json({"scenario": loaded.name, **rows[0]} if len(rows) == 1 else {"scenario": loaded.name, "results": rows})
    return exit_status(statuses)


def _on_card(target: Target, wanted: _Wanted, console: Console, alone: bool) -> tuple[dict[str, Any], int, Repair | None]:
    """Entry of the JSON document, exit status and repair. Errors are raised if the card is the only one."""
    card = target.card
    try:
        checked, mended = _work(target, wanted)
    except AiCoreError as error:
        if alone:
            raise
        if not wanted.as_json:
            console.print(Text.assemble((card.label, "bold"), "  ", describe_error(error)))
        return {"card": card.name, "soc": card.soc, "supported": False, "reason": str(error)}, BAD_INPUT, None
    row: dict[str, Any] = {
        "card": card.name, "clean": checked.hazards.clean, "hazards": [hazard.as_dict() for hazard in checked.hazards],
        "schedules": {"tried": 0, "differing": 0} if checked.schedules is None else checked.schedules.as_dict(),
    }  # fmt: skip
    if not alone:
        row = {"card": card.name, "soc": card.soc, "supported": True, **row}
    if mended is not None:
        row["fix"] = mended.as_dict()
    if not wanted.as_json:
        _print(target, checked, mended, console)
    elif checked.correct is False:
        stderr_console().print(f"{card.label}: result WRONG")
    return row, WRONG if checked.wrong else DONE, mended


def _work(target: Target, wanted: _Wanted) -> tuple[Checked, Repair | None]:
    with run_progress(f"{target.scenario.name} on {target.card.name}", wanted.quiet) as progress:
        if progress is not None:
            target = dataclasses.replace(target, options=dataclasses.replace(target.options, progress=progress.update))
        checked = check(target)
        if wanted.schedules:
            checked = with_schedules(checked, target, wanted.schedules, wanted.seed)
        return checked, repair(target, checked) if wanted.fix else None


# ---- text -----------------------------------------------------------------------------------------------------------
def _print(target: Target, checked: Checked, mended: Repair | None, console: Console) -> None:
    run = checked.run
    head = Text.assemble((target.card.label, "bold"), "  ")
    if run is not None:
        head.append(f"{_count(run.blocks, 'block')}  {run.time_us:,.3f} us  ")
    head.append(*_verdict(checked))
    console.print(head.append(f"  {tally(checked.hazards)}", "bold green" if checked.hazards.clean else "bold red"))
    print_hazards(checked.hazards, console)
    if checked.schedules is not None:
        _print_schedules(checked.schedules, console)
    if mended is not None:
        _print_repair(target, mended, console)


def _verdict(checked: Checked) -> tuple[str, str]:
    return ("deadlock", "bold red") if checked.run is None else _VERDICT[checked.correct]


def _print_schedules(found: Schedules, console: Console) -> None:
    share = f"{found.differing:,} of {found.tried:,} schedules leave other data ({found.share:.1%})"
    console.print(Text(share, style="bold red" if found.differing else "green"))
    if found.smallest is not None:
        console.print(Text(f"  the smallest that does: {found.smallest}"))


def _print_repair(target: Target, mended: Repair, console: Console) -> None:
    for one in mended.elsewhere:
        console.print(Text(f"not put in: {one.code} at {shown_path(one.file)}:{one.line}, not in a kernel of "
                           f"{shown_path(target.file)}", style="yellow"))  # fmt: skip
    if not mended.added:
        console.print(Text("nothing to fix" if mended.clean else "no finding has a fix that can be put in"))
        return
    for line in mended.diff.splitlines():
        style = next((style for mark, style in _DIFF.items() if line.startswith(mark)), "")
        console.print(Text(line, style=style), soft_wrap=True)
    count = f"{_count(len(mended.added), 'statement')} put in, {_count(mended.rounds, 'round')}"
    if mended.after is None:
        console.print(Text(f"{count}: refused", style="bold red"))
        error = mended.error
        console.print(describe_error(error) if isinstance(error, AiCoreError) else Text(f"{type(error).__name__}: {error}"))
        return
    text = Text(f"{count}: ").append(*_verdict(mended.after))
    console.print(text.append(f", {tally(mended.after.hazards)}", "green" if mended.clean else "bold red"))
    if not mended.clean:
        print_hazards(mended.after.hazards, console)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _write(file: Path, text: str) -> None:
    try:
        write_source(file, text)
    except OSError as error:
        raise ConfigError(f"the fixed kernel cannot be written: {error.strerror or error}", field="fix-out",
                          value=str(file)) from error  # fmt: skip
