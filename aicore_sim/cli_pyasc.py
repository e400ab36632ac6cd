"""`aicore-sim pyasc`: pyasc programs, unmodified; every launch is one run with its own report files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from aicore_sim import pyasc_runner
from aicore_sim.cards import load_card
from aicore_sim.cli_output import set_up_logging, stderr_console, write_report
from aicore_sim.errors import ParameterError
from aicore_sim.launch import Run
from aicore_sim.report.summary import print_result

DETAILED = 20
"""Launches that get a trace.csv and a timeline.png; a test suite may launch hundreds, and these take the most time."""
SHOWN_WARNINGS = 10
"""Different warnings of a program that are shown; launches.csv counts all."""
COLUMNS = (
    "launch", "kernel", "card", "blocks", "time_us", "core_time_us", "instructions", "warnings", "folder",
)  # fmt: skip


class Launches:
    """Reports every launch of a program: a line on stderr (all of it with `verbose`), and files under `folder`."""

    def __init__(self, folder: Path | None, console: Console, *, quiet: bool, verbose: bool) -> None:
        self.folder = folder
        self.console = console
        self.quiet = quiet
        self.verbose = verbose
        self.rows: list[tuple[Any, ...]] = []
        self._warned: set[tuple[str, str, int]] = set()

    def __call__(self, run: Run) -> None:
        number = len(self.rows) + 1
        name = f"{number:03d}-{run.kernel}-{run.card.name}"
        if self.folder is not None:
            detailed = number <= DETAILED
            write_report(run, self.folder / name, run.kernel, timeline=detailed, trace_csv=detailed)
        self.rows.append((number, run.kernel, run.card.label, run.blocks, round(run.time_us, 4),
                          round(run.core_time_us, 4), run.instructions, len(run.warnings), name))  # fmt: skip
        if self.verbose:
            print_result(run, self.console)
        elif not self.quiet:
            line = f"launch {number}: {run.kernel} on {run.card.label}, {_count(run.blocks, 'block')}"
            self.console.print(Text(f"{line}, {run.time_us:,.2f} us"))
            self._warn(run)

    def _warn(self, run: Run) -> None:
        """Every warning once in the life of the program."""
        for text, file, line, _ in run.warnings:
            if (text, file, line) in self._warned:
                continue
            self._warned.add((text, file, line))
            if len(self._warned) <= SHOWN_WARNINGS:
                self.console.print(Text(f"  warning: {text} ({file}:{line})", style="yellow"))
            elif len(self._warned) == SHOWN_WARNINGS + 1:
                self.console.print(Text("  further warnings are not shown (-v shows all)", style="yellow"))

    def close(self) -> None:
        """The table of all launches, and where the files are."""
        if self.folder is None or not self.rows:
            return
        with (self.folder / "launches.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *self.rows])
        if not self.quiet:
            note = f", details of the first {DETAILED}" if len(self.rows) > DETAILED else ""
            self.console.print(Text(f"{_count(len(self.rows), 'launch', 'launches')}, files in {self.folder}{note}"))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


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
        bool, typer.Option("--strict", help="Accesses past an array or a tensor are errors even inside its memory.")
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
    aicore-sim-out/pyasc-PROGRAM. The exit status is the program's.

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
    run = pyasc_runner.run_file if module is None else pyasc_runner.run_module
    try:
        status = run(program, args, card=spec, strict=strict, on_run=launches)
    finally:
        launches.close()
    if status == 0 and not launches.rows and not quiet:
        hint = f"; if it holds tests: aicore-sim pyasc -m pytest -- {program}" if module is None else ""
        launches.console.print(Text(f"no kernel was launched{hint}"))
    return status


def _program(module: str | None, words: Sequence[str]) -> tuple[str, list[str]]:
    """The program's name and its arguments."""
    if module is not None:
        return module, list(words)
    if not words:
        raise ParameterError("pyasc needs a program", field="FILE", allowed="FILE [-- ARGS], or -m MODULE [-- ARGS]")
    return words[0], list(words[1:])
