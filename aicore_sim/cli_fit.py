"""`aicore-sim fit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim.cli_output import emit_json, stderr_console, stdout_console
from aicore_sim.cli_validate import Jobs, PointsFile, processes, runner_progress
from aicore_sim.errors import ParameterError
from aicore_sim.validation.points import PUBLISHED, load_points, of_card
from aicore_sim.validation.report import percent, signed
from aicore_sim.validation.runs import Runner, paths_of
from aicore_sim.validation.scores import root_mean_square

if TYPE_CHECKING:
    from aicore_sim.validation.fitting import Fit
    from aicore_sim.validation.scores import Score


def fit(
    card: Annotated[str, typer.Option("--card", metavar="NAME[:SOC]|all", help="Whose numbers to fit.")] = "all",
    points: PointsFile = PUBLISHED,
    write: Annotated[bool, typer.Option("--write", help="Write the numbers into the card file.")] = False,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="Steps of the fit.")] = 3,
    jobs: Jobs = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Fit the free numbers of cards to measurements, inside their ranges.

    Free are fitted and assumed numbers that move a counted point. Without --write nothing is changed. Takes many minutes
    for all published points.

    \b
    Examples:
      aicore-sim fit --card atlas_a3
      aicore-sim fit --card atlas_a2 --rounds 2 --write
      aicore-sim fit --points mine.csv --json
    """
    from aicore_sim.validation import fitting

    if rounds < 1:
        raise ParameterError("a fit needs at least one step", field="rounds", value=rounds, allowed=">= 1")
    chosen = of_card(load_points(points), card)
    console = stderr_console()

    def say(text: str) -> None:
        if not quiet:
            console.print(text, style="dim")

    fits = []
    for name in dict.fromkeys(point.card for point in chosen if point.counted):
        mine = [point for point in chosen if point.card == name]
        with runner_progress(quiet) as progress:
            runner = Runner(paths_of(mine), processes(jobs), progress)
            fits.append(fitting.fit(mine, runner, rounds, say))
        if write:
            _write(fits[-1])
    if as_json:
        emit_json({"fits": [_as_dict(one) for one in fits]})
        return 0
    for one in fits:
        _print(one, stdout_console(), write)
    return 0


def _write(found: Fit) -> None:
    """Put the numbers that have changed into the card file."""
    from aicore_sim.validation.fitting import place_of
    from aicore_sim.validation.toml_edit import Fitted, with_fitted

    file = Path(found.card.file)
    # In bytes, so that the ends of lines stay what they are.
    text = file.read_bytes().decode("utf-8")
    for change in found.changes:
        if change.new != float(change.number):
            text = with_fitted(text, place_of(found.card, change.key), Fitted(change.new, change.groups), str(file))
    file.write_bytes(text.encode("utf-8"))


def _as_dict(found: Fit) -> dict[str, Any]:
    def scored(one: Score | None) -> dict[str, Any] | None:
        return one.as_dict() if one is not None else None

    return {
        "card": found.card.label,
        "file": found.card.file,
        "rounds": found.rounds,
        "numbers": [{"key": change.key, "old": change.number.value, "new": change.new, "unit": change.number.unit,
                     "range": change.number.range, "basis": change.number.basis, "points": list(change.groups)}
                    for change in found.changes],
        "not_fitted": list(found.left),
        "before": scored(found.score_before),
        "predicted": found.predicted,
        "after": scored(found.score_after),
        "root_mean_square": [root_mean_square(found.before), root_mean_square(found.after)],
        "points": [{"id": old.point.id, "counted": old.point.counted, "measured": old.point.value, "before": old.error,
                    "after": new.error} for old, new in zip(found.before, found.after, strict=True)],
    }  # fmt: skip


def _print(found: Fit, console: Console, written: bool) -> None:
    title = f"{found.card.label}: {len(found.changes)} numbers, {found.rounds} round{'s' if found.rounds != 1 else ''}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("number", overflow="fold")
    for name in ("old", "new", "change", "range", "unit", "basis"):
        table.add_column(name, justify="right", no_wrap=True)
    for change in found.changes:
        old = float(change.number)
        ends = change.number.range
        table.add_row(change.key, f"{old:g}", f"{change.new:g}", signed(change.new / old - 1) if old else f"{change.new - old:+g}",
                      f"{ends[0]:g}..{ends[1]:g}" if ends else "", change.number.unit, change.number.basis)  # fmt: skip
    console.print(table)
    for key in found.left:
        console.print(Text(f"not fitted: {key} comes in steps, or has no range", style="dim"))
    points = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    points.add_column("point", overflow="fold")
    for name in ("before", "after"):
        points.add_column(name, justify="right", no_wrap=True)
    for old_row, new_row in zip(found.before, found.after, strict=True):
        points.add_row(old_row.point.id, signed(old_row.error), signed(new_row.error), style="" if old_row.point.counted else "dim")
    console.print(points)
    before, after = found.score_before, found.score_after
    if before is not None and after is not None:
        foreseen = "no step helps" if found.predicted is None else f"foreseen {percent(found.predicted)}"
        console.print(Text.assemble(("mean error ", "bold"),
                                    f"{percent(before.mean)} before, {foreseen}, {percent(after.mean)} after"))  # fmt: skip
        was, now = root_mean_square(found.before), root_mean_square(found.after)
        sum_up = f"{percent(was)} before, {percent(now)} after: what the fit makes small"
        console.print(Text.assemble(("root mean square ", "bold"), sum_up))
    changed = any(change.new != float(change.number) for change in found.changes)
    if written:
        console.print(Text(f"wrote {found.card.file}" if changed else "nothing to write"))
    elif changed:
        console.print(Text("the card file is as it was; --write changes it", style="dim"))
