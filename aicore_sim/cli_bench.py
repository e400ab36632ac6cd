"""`aicore-sim bench`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from aicore_sim import bench as benchmark
from aicore_sim.cli_output import emit_json, stderr_console, stdout_console
from aicore_sim.errors import ParameterError

_MEANING = {
    "instructions_per_s": "queue entries per second of engine time, matmul 2048 cubed on atlas_a2, times only",
    "simpy_timeouts_per_s": "bare SimPy timeouts per second, same process, interleaved",
    "ratio": "instructions over timeouts",
    "copy_ratio": "bytes per second of ND2NZ tiles through a whole run over numpy's own copies, 16 KB and 256 KB tiles",
    "copy_ratio_16k": "16 KB tiles alone",
    "copy_ratio_256k": "256 KB tiles alone",
    "peak_mb": "peak resident memory of the process, MiB",
}


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", help="Repeats; the medians count.")] = 5,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Measure the simulator's own speed against bare SimPy and numpy.

    \b
    Examples:
      aicore-sim bench
      aicore-sim bench --json --repeat 9
    """
    if repeat < 1:
        raise ParameterError("a measurement needs at least one repeat", field="repeat", value=repeat, allowed=">= 1")
    console = stderr_console()
    result = benchmark.run_bench(repeat, (lambda _: None) if quiet else lambda line: console.print(line, style="dim"))
    if as_json:
        emit_json(result.as_dict())
        return 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, value in result.as_dict().items():
        table.add_row(name, f"{value:,.0f}" if value >= 1000 else f"{value:.3g}", _MEANING[name])
    stdout_console().print(table)
    return 0
