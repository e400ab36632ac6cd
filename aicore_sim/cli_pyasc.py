"""`aicore-sim pyasc`: pyasc programs, unmodified; every launch is one run with its own report files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from aicore_sim import pyasc_runner
from aicore_sim.cards import load_card
from aicore_sim.cli_output import set_up_logging, stderr_console, write_report
from aicore_sim.errors import ParameterError
from aicore_sim.launch import Run
from aicore_sim.report.summary import print_result

PICTURES = 20
"""Launches that get a timeline.png; a test suite may launch hundreds, and drawing takes longer than a small run."""


class Launches:
    """Reports every launch of a program: a line on stderr (all of it with `verbose`), and files under `folder`."""

    def __init__(self, folder: Path | None, console: Console, *, quiet: bool, verbose: bool) -> None:
        self.folder = folder
        self.console = console
        self.quiet = quiet
        self.verbose = verbose
        self.count = 0

    def __call__(self, run: Run) -> None:
        self.count += 1
        if self.folder is not None:
            own = self.folder / f"{self.count:03d}-{run.kernel}-{run.card.name}"
            write_report(run, own, run.kernel, timeline=self.count <= PICTURES)
            if self.count == PICTURES + 1 and not self.quiet:
                self.console.print(f"timeline.png is drawn for the first {PICTURES} launches only")
        if self.verbose:
            print_result(run, self.console)
        elif not self.quiet:
            where = f" -> {self.folder / own.name}" if self.folder is not None else ""
            warned = f", {len(run.warnings)} warnings" if run.warnings else ""
            line = f"launch {self.count}: {run.kernel} on {run.card.label}, {_blocks(run)}, {run.time_us:,.2f} us"
            self.console.print(Text(line + warned + where))


def _blocks(run: Run) -> str:
    return f"{run.blocks} block" + ("s" if run.blocks != 1 else "")


def pyasc(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="FILE [-- ARGS]", help="Program, and its own arguments behind --.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("-m", "--module", metavar="MODULE", help="Run a module (pytest ...) instead of a file."),
    ] = None,
    card: Annotated[
        str | None,
        typer.Option("--card", metavar="NAME[:SOC]|FILE.toml", help="Instead of the program's set_platform."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Accesses past an array are errors even inside its allocation.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the report files of the launches.")
    ] = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="Write no report files.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Nothing on stderr but the program's own.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="The whole result of every launch on stderr.")
    ] = False,
) -> int:
    """Run a pyasc program unmodified, or a module such as pytest over tests of pyasc programs.

    `import asc` finds the simulator; every kernel launch becomes a run with its own files under
    aicore-sim-out/PROGRAM. The exit status is the program's.

    \b
    Examples:
      aicore-sim pyasc add.py
      aicore-sim pyasc add.py --card atlas_a2:Ascend910B4 -- -r Model
      aicore-sim pyasc -m pytest -- -k add tests
    """
    set_up_logging(quiet, verbose)
    program, args = _program(module, words or [])
    spec = card or ""
    if spec:
        load_card(spec)  # a wrong name fails before the program starts
    folder = None if no_files else out or Path("aicore-sim-out") / f"pyasc-{Path(program).stem}"
    if folder is not None:
        folder = folder.resolve()  # the program may change its folder
    launches = Launches(folder, stderr_console(), quiet=quiet, verbose=verbose)
    if module is not None:
        return pyasc_runner.run_module(module, args, card=spec, strict=strict, on_run=launches)
    return pyasc_runner.run_file(program, args, card=spec, strict=strict, on_run=launches)


def _program(module: str | None, words: Sequence[str]) -> tuple[str, list[str]]:
    """The program's name and its arguments."""
    if module is not None:
        return module, list(words)
    if not words:
        raise ParameterError("pyasc needs a program", field="FILE", allowed="FILE [-- ARGS], or -m MODULE [-- ARGS]")
    return words[0], list(words[1:])
