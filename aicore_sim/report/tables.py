"""CSV files of a run: trace.csv, Stalls.csv and msprof's PipeUtilization.csv.

All are plain CSV. `msprof_form=True` writes PipeUtilization.csv as msprof does, every line ending in a comma
(spec reports.md 1).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from aicore_sim.engine.columns import CAUSE_NAMES
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.trace import Trace

_FIXED = "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,"
_910B = (
    _FIXED + "aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_mte3_time(us),aic_mte3_ratio,"
    "aic_mte3_active_bw(GB/s),aic_fixpipe_time(us),aic_fixpipe_ratio,aic_fixpipe_active_bw(GB/s),aic_icache_miss_rate,"
    "aic_scalar_time(us),aic_scalar_ratio,aic_scalar_single_time(us),aic_scalar_dual_time(us),"
    "aic_scalar_mte1_stall_time(us),aic_scalar_mte2_stall_time(us),aic_scalar_mte3_stall_time(us),"
    "aic_scalar_cube_stall_time(us),aic_scalar_wait_ib_time(us),aic_scalar_wait_time(us),aiv_time(us),aiv_total_cycles,"
    "aiv_vec_time(us),aiv_vec_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte2_active_bw(GB/s),aiv_mte3_time(us),"
    "aiv_mte3_ratio,aiv_mte3_active_bw(GB/s),aiv_icache_miss_rate,aiv_scalar_time(us),aiv_scalar_ratio,"
    "aiv_scalar_single_time(us),aiv_scalar_dual_time(us),aiv_scalar_mte2_stall_time(us),aiv_scalar_mte3_stall_time(us),"
    "aiv_scalar_stall_by_ub_time(us),aiv_scalar_vector_stall_time(us),aiv_scalar_wait_ib_time(us),"
    "aiv_scalar_wait_time(us)"
)
_A5 = (
    _FIXED + "aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte1_active_bw(GB/s),"
    "aic_mte2_time(us),aic_mte2_ratio,aic_mte2_active_bw(GB/s),aic_mte3_time(us),aic_mte3_ratio,"
    "aic_mte3_active_bw(GB/s),aic_fixpipe_time(us),aic_fixpipe_ratio,aic_fixpipe_active_bw(GB/s),aic_icache_miss_rate,"
    "aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,"
    "aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte2_active_bw(GB/s),aiv_mte3_time(us),aiv_mte3_ratio,"
    "aiv_mte3_active_bw(GB/s),aiv_icache_miss_rate"
)
PIPE_UTILIZATION = {"910B": tuple(_910B.split(",")), "A5": tuple(_A5.split(","))}
"""msprof's columns by product family (spec reports.md 1)."""

_UNITS = {
    "cube": Pipe.M, "vec": Pipe.V, "mte1": Pipe.MTE1, "mte2": Pipe.MTE2, "mte3": Pipe.MTE3, "fixpipe": Pipe.FIX,
    "scalar": Pipe.S,
}  # fmt: skip
_COLUMN = re.compile(r"(aic|aiv)_(?:(\w+?)_)?(time\(us\)|total_cycles|ratio|active_bw\(GB/s\))")
NOT_AVAILABLE = "NA"

TRACE_LIMIT = 200_000
_CHUNK = 100_000


def product_family(npu_arch: int) -> str:
    """The header set of a card: "A5" for 950 (NPU architecture 3510), else "910B" (also for 310B, as msprof does)."""
    return "A5" if npu_arch == 3510 else "910B"


def write_trace(trace: Trace, path: str | Path, *, flags: bool = False, limit: int = TRACE_LIMIT) -> str | None:
    """Write `trace.frame(flags)` as CSV. Beyond `limit` rows only the first `limit` are written and a note says so."""
    frame = trace.frame(flags, limit)
    columns = []
    for name in frame.columns:
        series = frame[name]
        if hasattr(series, "cat"):
            words = np.array([_quoted(word) for word in series.cat.categories] or [""], dtype=object)
            columns.append(words[series.cat.codes.to_numpy()])
        else:
            columns.append(series.to_numpy())
    # "%s" writes the shortest exact form of a float: multiples of 1/256 cycle survive the round trip
    form = ",".join(["%s"] * len(columns)) + "\n"
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(",".join(frame.columns) + "\n")
        for first in range(0, len(frame), _CHUNK):
            part = [column[first : first + _CHUNK].tolist() for column in columns]
            out.write("".join([form % row for row in zip(*part, strict=True)]))
    total = len(trace.columns) if flags else int(trace.lane_instructions.sum())
    if total > len(frame):
        return f"{Path(path).name} holds the first {len(frame):,} of {total:,} rows"
    return None


def _quoted(word: str) -> str:
    """A CSV field, quoted where it must be."""
    return '"' + word.replace('"', '""') + '"' if any(mark in word for mark in ',"\n\r') else word


def write_stalls(trace: Trace, path: str | Path) -> None:
    """One row per core and pipe: core, core_kind, pipe, total_cycles and the cycles of every cause, which add up."""
    ticks = trace.ticks_by_cause()
    rows = (
        [core.label, core.kind, Pipe(pipe).name, *_cycles([trace.columns.length, *ticks[i, pipe].tolist()])]
        for i, core in enumerate(trace.columns.cores)
        for pipe in sorted(core.pipes)
    )
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows(chain([["core", "core_kind", "pipe", "total_cycles", *CAUSE_NAMES]], rows))


def _cycles(ticks: list[int]) -> list[str]:
    """Cycles, exact; whole numbers without a point."""
    return [f"{t / TICKS_PER_CYCLE:.8f}".rstrip("0").rstrip(".") for t in ticks]


def write_pipe_utilization(
    trace: Trace, path: str | Path, *, family: str, coupled: bool = False, msprof_form: bool = False
) -> None:
    """PipeUtilization.csv with the columns of `family` ("910B" or "A5"), one row per core.

    `coupled`: cube and vector unit share the core, whose values stand in the aic and the aiv columns. What this model
    does not know is NA. `msprof_form` ends every line in a comma.
    """
    header = PIPE_UTILIZATION[family]
    end = ",\n" if msprof_form else "\n"
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(",".join(header) + end)
        for row in _utilization_rows(trace, header, coupled):
            out.write(",".join([_cell(column, value) for column, value in zip(header, row, strict=True)]) + end)


def pipe_utilization(trace: Trace, family: str, coupled: bool = False) -> pd.DataFrame:
    """What `write_pipe_utilization` writes, as numbers: one row per core, nan where the file has NA."""
    header = PIPE_UTILIZATION[family]
    return pd.DataFrame(list(_utilization_rows(trace, header, coupled)), columns=list(header))


def _utilization_rows(trace: Trace, header: tuple[str, ...], coupled: bool) -> Iterator[list[str | float]]:
    core_ticks = trace.columns.core_end - trace.columns.core_start
    for index, core in enumerate(trace.columns.cores):
        unit = "cube" if core.kind == "aic" else "vector"
        row: list[str | float] = [str(core.group), f"{unit}{core.sub}"]
        for column in header[2:]:
            match = _COLUMN.fullmatch(column)
            known = match is not None and (coupled or match[1] == core.kind)
            row.append(_value(trace, index, int(core_ticks[index]), match) if match and known else math.nan)
        yield row


def _value(trace: Trace, core: int, run: int, match: re.Match[str]) -> float:
    """One value of PipeUtilization.csv, nan for a division by zero and for pipes that the core does not have."""
    unit, what = match[2], match[3]
    if unit is None:
        return run / TICKS_PER_CYCLE if what == "total_cycles" else trace.us(run)
    pipe = _UNITS.get(unit)
    if pipe is None or pipe not in trace.columns.cores[core].pipes:
        return math.nan
    active = int(trace.time_ticks[core, pipe])
    if what == "time(us)":
        return trace.us(active)
    if what == "ratio":
        return active / run if run else math.nan
    return trace.gbps(int(trace.lane_bytes[core, pipe]), active)


def _cell(column: str, value: str | float) -> str:
    """Floats with six decimals, counters as integers."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return NOT_AVAILABLE
    return str(round(value)) if column.endswith("total_cycles") else f"{value:.6f}"
