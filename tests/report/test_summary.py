"""Files and printed summary of a hand-made run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from aicore_sim import Hazards
from aicore_sim.cards import load_card
from aicore_sim.engine.columns import CAUSE_NAMES, Cause, Columns, CoreInfo
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Contention, Run
from aicore_sim.report import tables
from aicore_sim.report.files import write_files
from aicore_sim.report.summary import as_result, print_result
from aicore_sim.trace import Trace
from tests.report.hazard_examples import race, stale
from tests.synthetic_columns import ADD, LOAD, MMAD, STORE, Row, aic, aiv, make_columns, stream


def mix() -> Columns:
    """One AIC and one AIV at 1 GHz; the AIC runs for 100 cycles, the AIV for 200."""
    rows = [
        Row(Pipe.MTE2, 0, 50, LOAD, core=1, gm=(0, 0, 25, 0, 0, 1000, 0, 1000), arg=512),
        Row(Pipe.M, 10, 40, MMAD, core=0),
        Row(Pipe.V, 0, 50, core=1, kind=Kind.WAIT_FLAG),
        Row(Pipe.V, 50, 100, ADD, core=1, line=1),
        Row(Pipe.MTE3, 100, 200, STORE, core=1),
    ]
    scalar = {(0, Cause.ISSUE): 10, (1, Cause.ISSUE): 40}
    return make_columns(rows, (aic(0), aiv(0)), length=200, core_end=[100, 200], scalar=scalar)


def run_of(columns: Columns, card: str = "atlas_350", **changes: Any) -> Run:
    run = Run(load_card(card), 1, "add", columns, wall_s=0.5, engine_s=0.25)
    for name, value in changes.items():
        setattr(run, name, value)
    return run


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_result_follows_the_contract() -> None:
    measured = [{"metric": "time_us", "value": 0.2, "unit": "us", "simulated": np.float64(0.21), "error": 0.05}]
    run = run_of(
        mix(), correct=True, metrics={"per_copy_ns": np.float32(2.5), "nothing": float("nan")}, measured=measured,
        hazards=Hazards([race(address=np.int64(64)), stale("k.py")]), files=["out/summary.json"],
    )  # fmt: skip
    result = json.loads(json.dumps(as_result(run), allow_nan=False))
    assert set(result) == {
        "card", "soc", "supported", "blocks", "cycles", "time_us", "core_time_us", "lower_bound_us", "bound_by", "contention",
        "correct", "instructions", "wall_s", "pipes", "stalls", "metrics", "hazards", "measured", "against_msprof", "files",
    }  # fmt: skip
    assert (result["card"], result["supported"], result["correct"], result["blocks"]) == ("atlas_350", True, True, 1)
    assert (result["cycles"], result["instructions"]) == (200, 5)
    assert set(result["pipes"]) == {"aic", "aiv"}
    assert set(result["pipes"]["aic"]) == {"S", "MTE2", "MTE1", "M", "FIX"}
    assert result["pipes"]["aiv"]["MTE2"] == {"time_us": pytest.approx(0.05), "ratio": pytest.approx(0.25)}
    assert result["pipes"]["aic"]["M"] == {"time_us": pytest.approx(0.03), "ratio": pytest.approx(0.3)}
    assert {"core_kind": "aiv", "pipe": "V", "cause": "flag", "share": 0.25} in result["stalls"]
    assert result["metrics"] == {"per_copy_ns": 2.5, "nothing": None}
    assert [(hazard["kind"], hazard["address"]) for hazard in result["hazards"]] == [("stale-nddma", 1024), ("race-raw", 64)]
    assert result["hazards"][0] == stale("k.py").as_dict()
    assert result["measured"][0]["simulated"] == 0.21


def test_bound_and_contention_are_in_the_result() -> None:
    # The four rows of the AIV, 3 cycles of issue each: more than 1000 B through its port or 4 repeats.
    result = as_result(run_of(mix()))
    assert (result["contention"], result["against_msprof"]) == (None, None)
    assert (result["lower_bound_us"], result["bound_by"]) == (pytest.approx(0.012), "issue")
    result = as_result(run_of(mix(), contention=Contention(4.0, 3.0)))
    assert result["contention"] == {"time_us": 4.0, "without_us": 3.0, "cost_us": 1.0}


def test_summary_says_what_contention_costs() -> None:
    text = printed(run_of(mix(), contention=Contention(4.0, 3.0, fresh=7)), width=140)
    assert "contention costs 1.000 us, 25.0% of 4.000 us; all else here is of the run without it, 3.000 us" in text
    assert "7 of its transfers" in text
    assert "of its transfers" not in printed(run_of(mix(), contention=Contention(4.0, 3.0)), width=140)


def test_an_unchecked_result_is_null() -> None:
    assert as_result(run_of(mix()))["correct"] is None


# -- printed ----------------------------------------------------------------------------------------------------------


def printed(run: Run, width: int = 80) -> str:
    out = io.StringIO()
    print_result(run, Console(file=out, width=width, force_terminal=False))
    return out.getvalue()


def test_summary_says_what_matters() -> None:
    run = run_of(
        mix(), correct=False,
        measured=[{"metric": "time_us", "value": 0.2, "unit": "us", "simulated": 0.25, "error": 0.25}],
        warnings=[("odd stride", "k.py", 7, 3), ("odd stride", "k.py", 7, 2), ("slow [b]", "k.py", 9, 1)],
        files=["out/trace.csv", "out/summary.json"], hazards=Hazards([race()]), metrics={"per_copy_ns": 38.8},
    )  # fmt: skip
    text = printed(run)
    assert run.card.label in text
    assert "lower bound 0.012 us (issue), time without launch 0.200 us: gap" in text
    assert "gap 0.188 us, 94.0% of it" in printed(run, width=140)
    assert "contention" not in text
    assert "result WRONG" in text
    assert "1 aic core, mean core time 0.1" in text
    assert "1 aiv core, mean core time 0.2" in text
    line = next(line for line in text.splitlines() if line.split()[:1] == ["MTE2"] and "1 KB" in line)
    assert line.split() == ["MTE2", "0.050", "25.0%", "1", "1", "KB", "20.000", "bw_hbm", "12.5%"]
    assert "+25.0%" in text
    assert "odd stride (k.py:7, 5 times)" in text
    assert "slow [b] (k.py:9)" in text
    assert "hazards: 1\n  warning race-raw (possible): core0.aiv0 V Add at k.py:12\n" in text
    assert "out: trace.csv, summary.json" in text
    assert "per_copy_ns = 38.8" in text


def test_summary_stays_within_a_narrow_terminal() -> None:
    big = stream(60_000, 4)
    text = printed(run_of(big, warnings=[("a long warning " * 8, "/some/where/deep/down/in/a/tree/kernel.py", 7, 3)]))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("10,000") == 3  # loads, adds and stores, none cut short
    assert "…" not in text


def test_many_warnings_are_shortened() -> None:
    text = printed(run_of(mix(), warnings=[(f"w{i}", "k.py", i, 1) for i in range(25)]))
    assert "warnings: 25" in text
    assert "and 15 more" in text


def test_many_hazards_are_shortened_errors_first() -> None:
    text = printed(run_of(mix(), hazards=Hazards([*(race(line=line) for line in range(1, 13)), stale("k.py")])))
    lines = text.splitlines()
    at = lines.index("hazards: 13")
    assert lines[at + 1].startswith("  error stale-nddma")
    assert "  and 3 more" in lines


# -- files ------------------------------------------------------------------------------------------------------------


def test_write_files_writes_and_lists_them(tmp_path: Path) -> None:
    run = run_of(mix())
    paths = write_files(run, tmp_path / "a" / "b")
    assert [p.name for p in paths] == ["PipeUtilization.csv", "Stalls.csv", "trace.csv", "timeline.png", "summary.json"]
    assert all(p.stat().st_size for p in paths)
    summary = json.loads(paths[-1].read_text())
    assert summary["files"] == [str(p) for p in paths] == run.files
    few = write_files(run, tmp_path / "c", timeline=False, trace_csv=False)
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == sorted(p.name for p in few)


def test_trace_csv_is_the_frame(tmp_path: Path) -> None:
    trace = Trace(mix())
    assert tables.write_trace(trace, tmp_path / "t.csv") is None
    got = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert list(got.columns) == list(trace.frame().columns)
    assert list(got["api"]) == ["DataCopy", "Mmad", "Add", "DataCopy"]
    assert list(got["start"]) == [0, 10, 50, 100]
    assert list(got["address"]) == [512, 0, 0, 0]
    assert list(got["cause"]) == ["", "issue", "flag", "issue"]


def test_trace_csv_keeps_fractions_of_a_cycle_and_quotes_commas(tmp_path: Path) -> None:
    columns = make_columns([Row(Pipe.MTE2, 0, 50, LOAD)])
    columns.free[0] -= 1
    columns.lines = (('a "kernel", of mine.py', 3),)
    tables.write_trace(Trace(columns), tmp_path / "t.csv")
    (row,) = read(tmp_path / "t.csv")
    assert row["line"] == 'a "kernel", of mine.py:3'
    assert float(row["free"]) == 50 - 1 / 256


def test_a_long_trace_csv_stops_and_says_so(tmp_path: Path) -> None:
    note = tables.write_trace(Trace(stream(600, 2)), tmp_path / "t.csv", limit=100)
    assert len(read(tmp_path / "t.csv")) == 100
    assert note == "t.csv holds the first 100 of 300 rows"


def test_stalls_csv_adds_up(tmp_path: Path) -> None:
    tables.write_stalls(Trace(mix()), tmp_path / "s.csv")
    rows = read(tmp_path / "s.csv")
    assert list(rows[0]) == ["core", "core_kind", "pipe", "total_cycles", *CAUSE_NAMES]
    assert [(r["core"], r["pipe"]) for r in rows[:2]] == [("core0.aic", "S"), ("core0.aic", "MTE2")]
    assert len(rows) == 9
    for row in rows:
        assert sum(float(row[cause]) for cause in CAUSE_NAMES) == float(row["total_cycles"]) == 200
    load = next(r for r in rows if r["core"] == "core0.aiv0" and r["pipe"] == "MTE2")
    assert (load["busy"], load["bw_hbm"], load["idle"]) == ("25", "25", "150")


def test_pipe_utilization_headers_are_msprofs() -> None:
    head = ["block_id", "sub_block_id", "aic_time(us)", "aic_total_cycles", "aic_cube_time(us)", "aic_cube_ratio"]
    old, new = tables.PIPE_UTILIZATION["910B"], tables.PIPE_UTILIZATION["A5"]
    assert list(old[:6]) == list(new[:6]) == head
    assert (len(old), len(new)) == (48, 34)
    assert old[6:8] == ("aic_mte1_time(us)", "aic_mte1_ratio")
    assert new[6:8] == ("aic_scalar_time(us)", "aic_scalar_ratio")
    assert old[12:14] == ("aic_mte3_active_bw(GB/s)", "aic_fixpipe_time(us)")
    assert "aic_mte1_active_bw(GB/s)" in new
    assert "aic_mte1_active_bw(GB/s)" not in old
    assert old[-1] == "aiv_scalar_wait_time(us)"
    assert new[-1] == "aiv_icache_miss_rate"
    assert len(set(old)) == len(old)
    assert len(set(new)) == len(new)


@pytest.mark.parametrize(
    ("card", "family"), [("atlas_a2", "910B"), ("atlas_a3", "910B"), ("atlas_200i", "910B"), ("atlas_350", "A5")]
)
def test_each_card_has_its_header_set(card: str, family: str) -> None:
    assert tables.product_family(load_card(card).npu_arch) == family


def test_pipe_utilization_values(tmp_path: Path) -> None:
    tables.write_pipe_utilization(Trace(mix()), tmp_path / "p.csv", family="A5")
    cube, vector = read(tmp_path / "p.csv")
    assert (cube["block_id"], cube["sub_block_id"], vector["sub_block_id"]) == ("0", "cube0", "vector0")
    assert (cube["aic_time(us)"], cube["aic_total_cycles"]) == ("0.100000", "100")
    assert (cube["aic_cube_time(us)"], cube["aic_cube_ratio"]) == ("0.030000", "0.300000")
    assert cube["aic_scalar_ratio"] == "0.100000"
    assert cube["aic_mte2_active_bw(GB/s)"] == "NA"  # nothing moved: a division by zero
    assert cube["aic_icache_miss_rate"] == "NA"
    assert all(value == "NA" for name, value in cube.items() if name.startswith("aiv"))
    assert (vector["aiv_mte2_time(us)"], vector["aiv_mte2_ratio"]) == ("0.050000", "0.250000")
    assert vector["aiv_mte2_active_bw(GB/s)"] == "20.000000"  # 1000 B in 50 ns
    assert vector["aiv_mte3_active_bw(GB/s)"] == "5.000000"
    assert all(value == "NA" for name, value in vector.items() if name.startswith("aic"))


def test_a_coupled_core_fills_both_sides(tmp_path: Path) -> None:
    core = CoreInfo("core0", "aic", 0, 0, tuple(Pipe))
    columns = make_columns([Row(Pipe.MTE2, 0, 50, LOAD), Row(Pipe.V, 50, 100, ADD)], [core])
    tables.write_pipe_utilization(Trace(columns), tmp_path / "p.csv", family="910B", coupled=True)
    (row,) = read(tmp_path / "p.csv")
    assert row["aic_mte2_ratio"] == row["aiv_mte2_ratio"] == "0.500000"
    assert row["aiv_vec_ratio"] == "0.500000"
    assert row["aic_total_cycles"] == row["aiv_total_cycles"] == "100"


def test_msprof_form_ends_lines_in_a_comma(tmp_path: Path) -> None:
    tables.write_pipe_utilization(Trace(mix()), tmp_path / "p.csv", family="910B", msprof_form=True)
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert len(lines) == 3
    assert all(line.endswith(",") and not line.endswith(",,") for line in lines)
    assert {line.count(",") for line in lines} == {48}
