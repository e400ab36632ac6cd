"""A simulated run against a profile of the same kernel on a card, metric by metric, under msprof's names.

Times, ratios, cycles and hit rates are means over the cores that took part (rows of other kinds of core are NA), bytes
are sums over all cores; both sides are averaged by the same function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from aicore_sim.instructions.base import GmTraffic
from aicore_sim.launch import Run
from aicore_sim.report.msprof import MAIN, OTHERS, Profile
from aicore_sim.report.tables import PIPE_UTILIZATION, pipe_utilization, product_family
from aicore_sim.trace import HIT, MISSED

KINDS = ("aic", "aiv")
BYTES = {
    "GM_to_L1_datas(KB)": "GM-L1", "L1_to_GM_datas(KB)(estimate)": "L1-GM", "L0C_to_L1_datas(KB)": "L0C-L1",
    "L0C_to_GM_datas(KB)": "L0C-GM", "GM_to_UB_datas(KB)": "GM-UB", "UB_to_GM_datas(KB)": "UB-GM",
}  # fmt: skip
"""Columns of Memory.csv and the paths here. A KB is 1024 B there (msopprof: pmu_calculate.cpp)."""
_UNITS = {"time(us)": "us", "ratio": "fraction", "total_cycles": "cycles"}
_MHZ = 0.5
"""Clocks that differ by less are the same: the profile has whole MHz."""


def against_msprof(run: Run, profile: Profile) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows {"metric", "measured", "simulated", "error", "unit"} and notes on what is not comparable.

    `error` is (simulated - measured) / measured, None where the measured value is 0. Metrics that only one side knows
    and those that are 0 on both are left out.
    """
    rows = []
    for metric, measured, simulated, unit in (*_task(run, profile), *_pipes(run, profile), *_bytes(run, profile),
                                              *_hit_rates(run, profile)):  # fmt: skip
        if not (math.isnan(measured) or math.isnan(simulated)) and (measured or simulated):
            error = (simulated - measured) / measured if measured else None
            rows.append({"metric": metric, "measured": measured, "simulated": simulated, "error": error, "unit": unit})
    return rows, [*_notes(run, profile)]


Point = tuple[str, float, float, str]
"""metric, measured, simulated, unit; nan where a side does not know it."""


def cores_of(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The rows of the cores of one kind ("aic", "aiv") that took part: those with a time."""
    name = f"{kind}_time(us)"
    return table[pd.to_numeric(table[name], errors="coerce") > 0] if name in table else table.iloc[:0]


def mean(table: pd.DataFrame, column: str) -> float:
    """Mean of a column over the cores of the kind in its name, NA left out; nan where there is nothing."""
    rows = cores_of(table, column[:3])
    return float(pd.to_numeric(rows[column], errors="coerce").mean()) if column in rows else math.nan


def _task(run: Run, profile: Profile) -> Iterator[Point]:
    measured = profile.number("Task Duration(us)")
    yield "Task Duration(us)", math.nan if measured is None else measured, run.time_us, "us"


def _is_mix(profile: Profile) -> bool:
    return str(profile.info("Op Type")).lower() == "mix"


def _pipes(run: Run, profile: Profile) -> Iterator[Point]:
    table = profile.tables[MAIN]
    simulated = pipe_utilization(run.trace, profile.family, run.card.coupled)
    for column in PIPE_UTILIZATION[profile.family]:
        unit = next((unit for end, unit in _UNITS.items() if column.endswith(end)), None)
        if unit is not None and not (unit == "fraction" and _is_mix(profile)):
            yield column, mean(table, column), mean(simulated, column), unit


def _bytes(run: Run, profile: Profile) -> Iterator[Point]:
    table = profile.tables.get("Memory")
    if table is None:
        return
    moved = run.trace.bandwidth().set_index("path")["bytes"]
    for column, path in BYTES.items():
        if column in table:
            total = pd.to_numeric(table[column], errors="coerce").sum(min_count=1)
            yield column, float(total), float(moved.get(path, 0)) / 1024, "KB"


def _hit_rates(run: Run, profile: Profile) -> Iterator[Point]:
    table = profile.tables.get("L2Cache")
    if table is None:
        return
    columns = run.columns
    gm = columns.gm
    cores = columns.core[gm[:, 0]]
    is_read = np.array([isinstance(op.cost, GmTraffic) and op.cost.is_read for op in columns.ops] or [False])
    reads = is_read[columns.op[gm[:, 0]]]
    for kind in KINDS:
        mine = np.isin(cores, range(len(columns.cores)) if run.card.coupled else run.trace.cores_of(kind))
        for what, chosen in (("write", mine & ~reads), ("read", mine & reads), ("total", mine)):
            column = f"{kind}_{what}_hit_rate(%)"
            hit, missed = (np.bincount(cores[chosen], gm[chosen, at]) for at in (HIT, MISSED))
            asked = hit + missed
            rates = hit[asked > 0] / asked[asked > 0]
            yield column, mean(table, column), 100 * float(rates.mean()) if rates.size else math.nan, "%"


def _notes(run: Run, profile: Profile) -> Iterator[str]:
    """What makes the two sides unlike each other, and what the profile lacks."""
    yield from _missing(profile)
    own = product_family(run.card.npu_arch)
    if profile.family != own:
        yield f"the profile has the columns of the {profile.family} family, {run.card.name} is of {own}"
    clock = profile.number("Current Freq")
    if clock is not None and abs(clock - run.card.clock_mhz) > _MHZ:
        yield (f"the profile was taken at {clock:g} MHz, {run.card.label} runs at {run.card.clock_mhz:g} MHz here: "
               f"--override clock_mhz={clock:g} takes that out of the errors")  # fmt: skip
    blocks = profile.number("Block Dim")
    if blocks is not None and blocks != run.blocks:
        yield f"blocks: {blocks:g} in the profile, {run.blocks} in the run"
    for kind in KINDS:
        measured = len(cores_of(profile.tables[MAIN], kind))
        simulated = len(run.columns.cores) if run.card.coupled else len(run.trace.cores_of(kind))
        if measured != simulated:
            yield f"{kind} cores: {measured} in the profile, {simulated} in the run"
    if _is_mix(profile):
        yield "msprof's ratios of a mix operator are shares of the task, not of the core's time: left out"


def _missing(profile: Profile) -> Iterator[str]:
    absent = [metric for metric in OTHERS if metric not in profile.tables]
    if absent:
        yield f"no {', '.join(f'{metric}.csv' for metric in absent)} of this run ({profile.timestamp}) in {profile.folder}"
    for metric, wanted in (
        (MAIN, [name for name in PIPE_UTILIZATION[profile.family] if name.endswith(tuple(_UNITS))]),
        ("OpBasicInfo", ["Task Duration(us)", "Block Dim", "Current Freq"]),
        ("Memory", [name for name in BYTES if profile.family == "910B" or not name.startswith("L1_to_GM")]),
        ("L2Cache", [f"{kind}_{what}_hit_rate(%)" for kind in KINDS for what in ("read", "write")]),
    ):
        table = profile.tables.get(metric)
        lacking = [name for name in wanted if table is not None and name not in table]
        if lacking:
            yield f"{metric} has no {', '.join(lacking)}: skipped"
