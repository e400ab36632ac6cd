"""`aicore-sim validate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from aicore_sim.cli_output import emit_json, stderr_console, stdout_console
from aicore_sim.errors import ParameterError
from aicore_sim.uncertainty import spread
from aicore_sim.validation.points import PUBLISHED, load_points, of_card
from aicore_sim.validation.report import figure, percent, signed, write_files
from aicore_sim.validation.runs import Runner, paths_of
from aicore_sim.validation.scores import Score, Validation

PointsFile = Annotated[
    Path, typer.Option("--points", metavar="FILE", help="Measurements in the format of the package's own points.csv.",
                       show_default=False)
]  # fmt: skip
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Processes; 0: one for each core.")]


def validate(
    points: PointsFile = PUBLISHED,
    card: Annotated[
        str | None, typer.Option("--card", metavar="NAME[:SOC]|all", help="Only points of this card.")
    ] = None,
    jobs: Jobs = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Errors only: no intervals, free numbers or left-out points.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the report files.")] = Path("reports"),
    no_files: Annotated[bool, typer.Option("--no-files", help="Write no report files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Run the published measurements and show how far off the model is.

    Takes some minutes for all of them. Writes validation.md, validation.csv and two pictures unless --no-files is given.

    \b
    Examples:
      aicore-sim validate
      aicore-sim validate --card atlas_a3 --json --no-files
      aicore-sim validate --quick --no-files
      aicore-sim validate --points mine.csv --out mine
    """
    # scipy takes a while to load: other commands do not wait for it.
    from aicore_sim.validation.evaluate import validate as evaluate

    chosen = of_card(load_points(points), card)
    with runner_progress(quiet) as progress:
        result = evaluate(chosen, Runner(paths_of(chosen), processes(jobs), progress), spread, quick)
    files = [] if no_files else write_files(result, out)
    if as_json:
        emit_json(result.as_dict())
        return 0
    _print(result, stdout_console())
    for file in files:
        stdout_console().print(Text(f"wrote {file}"))
    return 0


def processes(jobs: int) -> int:
    """How many processes `--jobs` means. Raises ParameterError for a negative number."""
    if jobs < 0:
        raise ParameterError("not a number of processes", field="jobs", value=jobs, allowed=">= 0")
    return jobs or len(os.sched_getaffinity(0))


@contextmanager
def runner_progress(quiet: bool) -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on stderr for each batch of runs, None with -q."""
    if quiet:
        yield None
        return
    console = stderr_console()
    with Progress(BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
                  console=console, transient=True) as bar:  # fmt: skip
        task = bar.add_task("runs", total=None)

        def update(done: int, total: int, command: str) -> None:
            bar.update(task, completed=done, total=total, description=command[:80])
            if not console.is_terminal and (done == total or done % 20 == 0):
                console.print(f"{done} of {total} runs", style="dim")

        yield update


def _print(result: Validation, console: Console) -> None:
    console.print(_points(result))
    for name, scores in (("card", result.by_card), ("mechanism", result.by_mechanism)):
        console.print(_scores(scores, name))
    total = result.total
    if total is not None:
        console.print(Text.assemble(("error ", "bold"), f"mean {percent(total.mean)}, median {percent(total.median)}, worst "
                                    f"{percent(total.worst)} ({total.worst_id}), of {total.count} counted points"))  # fmt: skip
    if result.leave_one_out is not None and result.leave_one_command_out is not None:
        unseen = (f"mean error {percent(result.leave_one_out)} with each scenario left out of the fit, "
                  f"{percent(result.leave_one_command_out)} with each command (linearised)")  # fmt: skip
        console.print(Text.assemble(("unseen ", "bold"), unseen))
    if result.inside_interval is not None:
        inside = f"{percent(result.inside_interval)} of the counted points lie inside"
        console.print(Text.assemble(("interval ", "bold"), inside))
    for card, numbers in result.free.items():
        console.print(Text.assemble((f"free numbers of {card}: {len(numbers)} ", "bold"), ", ".join(numbers)))
    for line in result.violations:
        console.print(Text(line, style="yellow"))


def _points(result: Validation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("point", "card", "mechanism"):
        table.add_column(name, overflow="fold")
    for name in ("measured", "simulated", "unit", "error", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.rows:
        point = row.point
        span = "" if row.low is None or row.high is None else f"{figure(row.low)}..{figure(row.high)}"
        style = "" if point.counted else "dim"
        table.add_row(point.id, point.card, point.mechanism, figure(point.value), figure(row.simulated), point.unit,
                      signed(row.error), Text(span, style="red" if row.inside is False else ""), style=style)  # fmt: skip
    return table


def _scores(scores: dict[str, Score], what: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(what, overflow="fold")
    for name in ("points", "mean", "median", "worst"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst point", overflow="fold")
    for name, one in scores.items():
        table.add_row(name, str(one.count), percent(one.mean), percent(one.median), percent(one.worst), one.worst_id,
                      style="yellow" if one.weak else "")  # fmt: skip
    return table
