"""A run in a few numbers: the JSON result of the command line, and the same for people."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim.hazards.model import Hazard
from aicore_sim.launch import Contention, Run
from aicore_sim.report.hazards import STYLES, one_line

TOP_STALLS = 5
TOP_LINES = 10
"""Warnings and hazards printed before "and n more"."""
LEAST_STALL = 0.005
"""Share of the core time below which a stall is not worth a line."""


def as_result(run: Run) -> dict[str, Any]:
    """The run as one entry of `results` in the `--json` output: plain Python values, None for what is not known.

    `pipes` holds times in progress, means over the cores (`Trace.pipes`); `stalls` are shares of the core time.
    """
    trace = run.trace
    result = {
        "card": run.card.name,
        "soc": run.card.soc,
        "supported": True,
        "blocks": run.blocks,
        "cycles": run.cycles,
        "time_us": run.time_us,
        "core_time_us": run.core_time_us,
        "lower_bound_us": run.lower_bound.us,
        "bound_by": run.lower_bound.by,
        "contention": run.contention,
        "correct": run.correct,
        "instructions": run.instructions,
        "wall_s": run.wall_s,
        "pipes": trace.pipes(),
        "stalls": trace.stalls().to_dict("records"),
        "metrics": run.metrics,
        "hazards": list(run.hazards),
        "measured": run.measured,
        "against_msprof": run.against_msprof,
        "files": run.files,
    }
    return {key: _plain(value) for key, value in result.items()}


def _plain(value: Any) -> Any:
    """What `json` can write without loss of meaning: numpy scalars unwrapped, nan and infinity as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "as_dict"):
        return _plain(value.as_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    return str(value)


def print_result(run: Run, console: Console) -> None:
    """Print the run: time, pipes, top stalls, measured against simulated, hazards, warnings, files."""
    console.print(_headline(run))
    console.print(_bound_line(run))
    if run.contention is not None:
        console.print(_contention_line(run.contention))
    for kind in run.trace.core_kinds:
        console.print(_pipe_table(run, kind))
    stalls = run.trace.stalls()
    stalls = stalls[stalls["share"] >= LEAST_STALL].head(TOP_STALLS)
    if len(stalls):
        console.print(Text("top stalls (share of core time)", style="bold"))
        for stall in stalls.to_dict("records"):
            where = f"{stall['core_kind']} {stall['pipe']}"
            console.print(Text(f"  {stall['share']:6.1%}  {where:8} {stall['cause']}"))
    if run.measured:
        console.print(_measured_table(run.measured))
    if run.against_msprof is not None:
        rows = [{**row, "value": row["measured"]} for row in run.against_msprof]
        console.print(_measured_table(rows, "msprof against simulated (means over cores, bytes of all)"))
    _print_hazards(run.hazards, console)
    _print_lines(console, "warnings", _warning_lines(run.warnings), "bold yellow")
    if run.files:
        parent = Path(run.files[0]).parent
        names = [str(Path(f).name) if Path(f).parent == parent else str(f) for f in run.files]
        console.print(Text.assemble(("files in ", "bold"), f"{parent}: {', '.join(names)}"))


def _headline(run: Run) -> Text:
    verdict = {
        True: ("result correct", "green"), False: ("result WRONG", "bold red"), None: ("result not checked", "dim"),
    }  # fmt: skip
    text = Text.assemble(
        (run.card.label, "bold"), f"  {run.blocks} block{'s' if run.blocks != 1 else ''}  ",
        (f"{_figure(run.time_us)} us", "bold cyan"), f"  {run.cycles:,.0f} cycles  ", verdict[run.correct],
    )  # fmt: skip
    for key, value in run.metrics.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text.append(f"\n  {key} = {_figure(value)}")
    return text


def _bound_line(run: Run) -> Text:
    """Bound, time and the gap between them, launch left out of all three."""
    bound, time_us = run.lower_bound, run.trace.length_us
    if bound.by is None:
        return Text("  lower bound 0 us: nothing to do")
    gap = time_us - bound.us
    return Text(f"  lower bound {_figure(bound.us)} us ({bound.by}), time without launch {_figure(time_us)} us: "
                f"gap {_figure(gap)} us, {gap / time_us:.1%} of it")  # fmt: skip


def _contention_line(contention: Contention) -> Text:
    share = contention.cost_us / contention.time_us if contention.time_us else 0.0
    text = Text(f"  contention costs {_figure(contention.cost_us)} us, {share:.1%} of {_figure(contention.time_us)} us; "
                f"all else here is of the run without it, {_figure(contention.without_us)} us")  # fmt: skip
    if contention.fresh:
        text.append(f"\n  {contention.fresh:,} of its transfers were not made with contention and looked up in L2 anew", "yellow")
    return text


def _pipe_table(run: Run, kind: str) -> Table:
    trace = run.trace
    count, time_us = len(trace.cores_of(kind)), trace.kind_time_us(kind)
    table = Table(title=f"{count} {kind} core{'s' if count != 1 else ''}, mean core time {_figure(time_us)} us",
                  title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)  # fmt: skip
    table.add_column("pipe", no_wrap=True)
    for name in ("time us", "ratio", "instr", "bytes", "GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limited by", overflow="fold")
    stalls = trace.stalls()
    stalls = stalls[stalls["core_kind"] == kind]
    rows = trace.utilisation()
    for row in rows[rows["core_kind"] == kind].to_dict("records"):
        table.add_row(
            row["pipe"], _figure(row["time_us"]), f"{row['ratio']:.1%}", f"{row['instructions']:,}",
            _bytes(row["bytes"]) if row["bytes"] else "", _figure(row["active_bw"]) if row["bytes"] else "",
            _top_wait(stalls, row["pipe"]),
        )  # fmt: skip
    return table


def _top_wait(stalls: pd.DataFrame, pipe: str) -> str:
    """The largest stall of a pipe, "" below `LEAST_STALL`. `stalls` are sorted."""
    mine = stalls[(stalls["pipe"] == pipe) & (stalls["share"] >= LEAST_STALL)]
    return f"{mine['cause'].iloc[0]} {mine['share'].iloc[0]:.1%}" if len(mine) else ""


def _measured_table(measured: Sequence[Mapping[str, Any]], title: str = "published measurements") -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                  pad_edge=False)  # fmt: skip
    table.add_column("metric", overflow="fold")
    for name in ("measured", "simulated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    for row in measured:
        simulated, error = row.get("simulated"), row.get("error")
        table.add_row(
            str(row["metric"]), _figure(row["value"]), "" if simulated is None else _figure(simulated),
            str(row.get("unit", "")), "" if error is None else f"{error:+.1%}",
        )  # fmt: skip
    return table


def _print_hazards(hazards: Sequence[Hazard], console: Console) -> None:
    if hazards:
        worst = next(severity for severity in STYLES if any(hazard.severity == severity for hazard in hazards))
        _print_lines(console, "hazards", [one_line(hazard) for hazard in hazards], STYLES[worst])
        console.print(Text("  `aicore-sim check` shows each with its fix", style="dim"))


def _warning_lines(warnings: Sequence[tuple[str, str, int, int]]) -> list[str]:
    """(text, file, line, count) as one line for each text and place."""
    counts: dict[tuple[str, str, int], int] = {}
    for text, file, line, count in warnings:
        counts[text, file, line] = counts.get((text, file, line), 0) + count
    return [
        f"{text} ({file}:{line}{f', {count:,} times' if count > 1 else ''})"
        for (text, file, line), count in counts.items()
    ]


def _print_lines(console: Console, title: str, lines: Sequence[str], style: str) -> None:
    if not lines:
        return
    console.print(Text(f"{title}: {len(lines)}", style=style))
    for line in lines[:TOP_LINES]:
        console.print(Text(f"  {line}"))
    if len(lines) > TOP_LINES:
        console.print(Text(f"  and {len(lines) - TOP_LINES} more"))


def _figure(value: float) -> str:
    """A number with about five significant digits and thousands separators."""
    if not math.isfinite(value):
        return ""
    digits = 0 if value == 0 else max(0, 4 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 3)}f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"


def _bytes(value: float) -> str:
    """Decimal units, as bandwidths use them."""
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} TB"
