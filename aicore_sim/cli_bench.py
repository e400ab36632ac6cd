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
    "check_ratio": "time of that matmul with its hazards worked out over the time without checks",
    "peak_mb": "peak resident memory of the process, MiB",
}


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", help="Repeats; the medians count, of calls the best.")] = 5,
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
    figures = result.as_dict()
    for name, meaning in _MEANING.items():
        value = figures[name]
        table.add_row(name, f"{value:,.0f}" if value >= 1000 else f"{value:.3g}", meaning)
    calls = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    calls.add_column("call", no_wrap=True)
    calls.add_column("call_us", justify="right", no_wrap=True)
    for api, us in result.call_us.items():
        calls.add_row(api, f"{us:.1f}")
    stdout_console().print(table)
    stdout_console().print("call_us: microseconds of processor time per call, recording and engine, without data")
    stdout_console().print(calls)
    return 0
