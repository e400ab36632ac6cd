"""Measures derived from hand-made columns, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_sim.engine.columns import Cause, Columns
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.enums import HardEvent
from aicore_sim.kernel.program import Kind
from aicore_sim.trace import Trace
from tests.synthetic_columns import ADD, LOAD, MMAD, STORE, Row, aic, aiv, make_columns, stream

T = TICKS_PER_CYCLE


def two_pipes() -> Columns:
    """One vector core at 1 GHz (1 cycle = 1 ns), from cycle 10 to 200 of a run of 220.

    MTE2: nothing issued until 20; load 20..120 (30 cycles limited by L2, 20 by HBM); set flag at 120; load issued at
    130, held up by a flag until 150, then 150..180 (5 of them waiting for the port).
    V: wait flag from 40 (issued at 40) to 120, add 120..140, barrier 140..160, add 165..175, issued at 162.
    """
    e = int(HardEvent.MTE2_V) * 64 + 3
    rows = [
        Row(Pipe.MTE2, 20, 120, LOAD, issue=20, gm=(0, 30, 20, 0, 400, 600, 0, 1000), arg=4096),
        Row(Pipe.V, 40, 120, kind=Kind.WAIT_FLAG, issue=40, arg=e),
        Row(Pipe.MTE2, 120, 120, kind=Kind.SET_FLAG, issue=60, arg=e),
        Row(Pipe.V, 120, 140, ADD, issue=50, line=1),
        Row(Pipe.V, 140, 160, kind=Kind.BARRIER, issue=52),
        Row(Pipe.MTE2, 150, 180, LOAD, issue=130, cause=Cause.FLAG, end=200, gm=(5, 0, 0, 0, 1000, 0, 0, 1024)),
        Row(Pipe.V, 165, 175, ADD, issue=162, cause=Cause.BARRIER, line=1),
    ]
    scalar = {(0, Cause.BUSY): 20, (0, Cause.ISSUE): 30, (0, Cause.QUEUE): 19}
    return make_columns(rows, length=220, core_start=[10], core_end=[200], scalar=scalar)


def cycles(trace: Trace, pipe: Pipe, core: int = 0) -> dict[str, float]:
    ticks = trace.ticks_by_cause()[core, pipe]
    return {cause.name: int(ticks[cause]) / T for cause in Cause if ticks[cause]}


def test_every_tick_of_two_pipes_has_the_expected_cause() -> None:
    trace = Trace(two_pipes())
    # gaps 10..20 and 120..130 before issue, 130..150 behind a flag; on its way 180..200; idle 0..10 and 200..220
    assert cycles(trace, Pipe.MTE2) == {
        "BUSY": 50 + 25 + 20, "BW_PORT": 5, "BW_L2": 30, "BW_HBM": 20, "FLAG": 20, "ISSUE": 20, "IDLE": 10 + 20,
    }  # fmt: skip
    assert cycles(trace, Pipe.V) == {"BUSY": 30, "FLAG": 80, "BARRIER": 23, "ISSUE": 30 + 2, "IDLE": 10 + 45}
    assert cycles(trace, Pipe.S) == {"BUSY": 20, "ISSUE": 30, "QUEUE": 19, "IDLE": 220 - 69}
    assert cycles(trace, Pipe.MTE3) == {"IDLE": 220}
    assert (trace.ticks_by_cause().sum(axis=2) == 220 * T).all()


def test_utilisation_by_hand() -> None:
    rows: list[dict[str, Any]] = Trace(two_pipes()).utilisation().to_dict("records")  # type: ignore[assignment]
    assert {row["core_kind"] for row in rows} == {"aiv"}
    table = {row["pipe"]: row for row in rows}
    assert list(table) == ["S", "MTE2", "V", "MTE3"]
    assert table["MTE2"] == {
        "core_kind": "aiv", "pipe": "MTE2", "time_us": pytest.approx(0.150), "ratio": pytest.approx(150 / 190),
        "instructions": 2, "bytes": 2000, "active_bw": pytest.approx(2000 / 150), "bw": pytest.approx(2000 / 190),
    }  # fmt: skip
    assert table["V"]["time_us"] == pytest.approx(0.030)
    assert table["S"]["time_us"] == pytest.approx(0.050)  # issuing is the scalar unit's work
    assert math.isnan(table["MTE3"]["active_bw"])


def test_pipes_have_the_contract_form() -> None:
    pipes = Trace(two_pipes()).pipes()
    assert set(pipes) == {"aiv"}
    assert set(pipes["aiv"]) == {"S", "MTE2", "V", "MTE3"}
    assert pipes["aiv"]["MTE2"] == {"time_us": pytest.approx(0.150), "ratio": pytest.approx(150 / 190)}


def test_times_are_means_over_the_cores_of_a_kind_and_ratio_is_of_their_own_run() -> None:
    rows = [
        Row(Pipe.MTE2, 0, 100, LOAD, core=1),
        Row(Pipe.M, 0, 30, MMAD, core=0),
        Row(Pipe.MTE2, 0, 20, LOAD, core=2),
    ]
    cores = (aic(0), aiv(0), aiv(1))
    trace = Trace(make_columns(rows, cores, length=400, core_end=[300, 100, 300]))
    assert trace.core_kinds == ("aic", "aiv")
    assert trace.pipes()["aiv"]["MTE2"] == {"time_us": pytest.approx(0.060), "ratio": pytest.approx(120 / 400)}
    assert trace.pipes()["aic"]["M"] == {"time_us": pytest.approx(0.030), "ratio": pytest.approx(0.1)}
    assert trace.core_time_us == pytest.approx(0.7 / 3)
    assert trace.kind_time_us("aiv") == pytest.approx(0.2)
    assert trace.length_us == pytest.approx(0.4)
    assert (trace.cycles, trace.instructions) == (400, 3)


def test_stalls_are_shares_of_core_time_sorted() -> None:
    trace = Trace(two_pipes())
    stalls = trace.stalls()
    assert list(stalls.share) == sorted(stalls.share, reverse=True)
    first = stalls.iloc[0]
    assert (first["pipe"], first.cause, first.share) == ("V", "flag", pytest.approx(80 / 190))
    found = {(row.pipe, row.cause): row.share for row in stalls.itertuples()}
    assert found["MTE2", "bw_l2"] == pytest.approx(30 / 190)
    assert found["S", "queue"] == pytest.approx(19 / 190)
    assert ("S", "issue") not in found
    assert not {"busy", "idle"} & set(stalls.cause)


def test_all_causes_of_a_pipe_sum_to_its_core_time() -> None:
    sums = Trace(two_pipes()).stalls(exclude=()).groupby("pipe").share.sum()
    assert sums.to_dict() == pytest.approx({"S": 1, "MTE2": 1, "V": 1, "MTE3": 1})


def test_stalls_refuses_an_unknown_cause() -> None:
    with pytest.raises(ParameterError) as caught:
        Trace(two_pipes()).stalls(exclude=("buzy",))
    assert caught.value.field == "exclude"


def test_bandwidth_by_hand() -> None:
    rows = [
        Row(Pipe.MTE2, 0, 100, LOAD, gm=(0, 0, 0, 0, 700, 300, 0, 1000)),
        Row(Pipe.MTE2, 0, 50, LOAD, core=1, gm=(0, 0, 0, 0, 900, 100, 0, 1000)),
        Row(Pipe.V, 100, 110, ADD),
        Row(Pipe.MTE3, 110, 120, STORE),
    ]
    trace = Trace(make_columns(rows, (aiv(0), aiv(1)), length=200))
    load, store = trace.bandwidth().to_dict("records")
    assert load == {
        "path": "GM-UB", "instructions": 2, "bytes": 2000, "time_us": pytest.approx(0.150),
        "active_bw": pytest.approx(2000 / 150), "run_bw": pytest.approx(2000 / 200), "hit_share": pytest.approx(0.8),
        "requested_bytes": 2000,
    }  # fmt: skip
    assert (store["path"], store["bytes"]) == ("UB-GM", 500)
    assert math.isnan(store["hit_share"])


def test_frame_without_flags_hands_their_waits_to_the_next_instruction() -> None:
    frame = Trace(two_pipes()).frame()
    assert list(frame.api) == ["DataCopy", "Add", "DataCopy", "Add"]
    assert list(frame["pipe"]) == ["MTE2", "V", "MTE2", "V"]
    assert list(frame.start) == [20, 120, 150, 165]
    assert list(frame.end) == [120, 140, 200, 175]
    # Add 1: 30 cycles until the wait was issued and 80 in it; Add 2: barrier 20, issue 2, barrier 3
    assert list(frame.wait) == [10, 110, 30, 25]
    assert list(frame.cause) == ["issue", "flag", "flag", "barrier"]
    assert list(frame.limited) == [50, 0, 5, 0]
    assert list(frame.limited_by) == ["bw_l2", "", "bw_port", ""]
    assert list(frame.line) == ["kernel.py:10", "kernel.py:11", "kernel.py:10", "kernel.py:11"]
    assert list(frame.address) == [4096, 0, 0, 0]
    assert list(frame.bytes) == [1000, 3000, 1000, 3000]
    assert list(frame.path) == ["GM-UB", "", "GM-UB", ""]


def test_frame_with_flags_names_them() -> None:
    frame = Trace(two_pipes()).frame(flags=True)
    assert len(frame) == 7
    assert list(frame.api) == ["DataCopy", "WaitFlag", "SetFlag", "Add", "Barrier", "DataCopy", "Add"]
    assert list(frame.detail) == ["count=250", "MTE2_V id=3", "MTE2_V id=3", "", "", "count=250", ""]
    assert list(frame.wait) == [10, 30, 0, 0, 0, 30, 5]
    assert list(frame.core) == ["core0.aiv0"] * 7
    assert set(frame.core_kind) == {"aiv"}


def test_frame_limit_takes_the_first_rows() -> None:
    trace = Trace(two_pipes())
    assert trace.frame(limit=2).equals(trace.frame().iloc[:2])


def test_unit_flag_waits_are_in_progress() -> None:
    trace = Trace(make_columns([Row(Pipe.FIX, 0, 100, MMAD, unit_flag=40)], (aic(0),)))
    assert cycles(trace, Pipe.FIX) == {"BUSY": 60, "UNIT_FLAG": 40}
    assert trace.pipes()["aic"]["FIX"]["ratio"] == 1
    assert list(trace.frame().limited_by) == ["unit_flag"]


def test_empty_run() -> None:
    trace = Trace(make_columns([], length=100))
    assert cycles(trace, Pipe.V) == {"IDLE": 100}
    assert trace.frame().empty
    assert trace.bandwidth().empty
    assert trace.pipes()["aiv"]["V"] == {"time_us": 0, "ratio": 0}
    assert trace.timeline_rows().lanes == ()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Row(Pipe.V, 0, 10, ADD), Row(Pipe.V, 9, 20, ADD)], "overlaps"),
        ([Row(Pipe.V, 20, 10, ADD)], "before it starts"),
        ([Row(Pipe.V, 0, 10, ADD, unit_flag=11)], "limited"),
    ],
)
def test_impossible_rows_are_refused(rows: list[Row], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(make_columns(rows, length=100)).ticks_by_cause()


def test_a_pipe_in_use_behind_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="behind the end"):
        Trace(make_columns([Row(Pipe.V, 0, 10, ADD)], length=5)).ticks_by_cause()


@st.composite
def runs(draw: st.DrawFn) -> Columns:
    n_cores = draw(st.integers(1, 3))
    start = [draw(st.integers(0, 20)) for _ in range(n_cores)]
    clock = {(core, pipe): start[core] for core in range(n_cores) for pipe in (Pipe.MTE2, Pipe.V)}
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        core, pipe = draw(st.sampled_from(sorted(clock)))
        begin = clock[core, pipe] + draw(st.integers(0, 9))
        free = begin + draw(st.integers(0, 9))
        kind = draw(st.sampled_from([Kind.EXEC, Kind.WAIT_FLAG, Kind.BARRIER]))
        limited = draw(st.integers(0, free - begin)) if kind == Kind.EXEC else 0
        rows.append(
            Row(
                pipe, begin, free, (LOAD if pipe == Pipe.MTE2 else ADD) if kind == Kind.EXEC else None, core, kind,
                issue=draw(st.integers(0, 60)), cause=draw(st.sampled_from([Cause.FLAG, Cause.ISSUE])),
                issue_cause=draw(st.sampled_from([Cause.QUEUE, Cause.ISSUE])),
                gm=(limited, 0, 0, 0, 0, 0, 0, 0) if pipe == Pipe.MTE2 and kind == Kind.EXEC else (),
            )
        )  # fmt: skip
        clock[core, pipe] = free
    end = max(clock.values()) + draw(st.integers(0, 9))
    return make_columns(rows, [aiv(i) for i in range(n_cores)], end, start)


@settings(max_examples=100, deadline=None)
@given(runs())
def test_causes_match_a_tick_by_tick_account(columns: Columns) -> None:
    """Every cycle of every lane labelled one by one, in plain Python."""
    got = Trace(columns).ticks_by_cause()
    assert (got.sum(axis=2) == columns.length).all()
    for core in range(len(columns.cores)):
        for pipe in (Pipe.MTE2, Pipe.V):
            label = np.full(columns.length // T, Cause.IDLE)
            at = int(columns.core_start[core]) // T
            for i in np.flatnonzero((columns.core == core) & (columns.pipe == pipe)):
                begin, free, issue = (int(x[i]) // T for x in (columns.start, columns.free, columns.issue))
                for cycle in range(at, begin):
                    label[cycle] = columns.issue_cause[i] if cycle < issue else columns.cause[i]
                inside = {Kind.EXEC: Cause.BUSY, Kind.WAIT_FLAG: Cause.FLAG, Kind.BARRIER: Cause.BARRIER}
                label[begin:free] = inside[Kind(int(columns.kind[i]))]
                limited = [int(row[1]) // T for row in columns.gm if row[0] == i]
                label[begin : begin + sum(limited)] = Cause.BW_PORT
                at = free
            assert (np.bincount(label, minlength=len(Cause)) * T == got[core, pipe]).all()


def test_results_do_not_depend_on_how_rows_of_different_lanes_interleave() -> None:
    columns = stream(600, 4)
    order = np.lexsort((np.arange(len(columns)), columns.core))
    place = np.argsort(order)
    mixed = stream(600, 4)
    for name in ("core", "pipe", "kind", "op", "start", "free", "end"):
        setattr(mixed, name, getattr(columns, name)[order])
    mixed.gm = columns.gm.copy()
    mixed.gm[:, 0] = place[columns.gm[:, 0]]
    assert (Trace(columns).ticks_by_cause() == Trace(mixed).ticks_by_cause()).all()
    assert Trace(columns).stalls().equals(Trace(mixed).stalls())


def test_timeline_rows_of_a_window() -> None:
    trace = Trace(two_pipes())
    rows = trace.timeline_rows(window=(125 * T, 155 * T))
    assert rows.lanes == ((0, int(Pipe.MTE2)), (0, int(Pipe.V)))
    assert list(rows.start // T) == [150, 120, 140]
    assert list(rows.wait_from // T) == [130, 120, 140]  # flag 130..150; none; barrier 140..160
    assert list(rows.wait_to // T) == [150, 120, 160]
    assert list(rows.limited // T) == [5, 0, 0]
    assert list(rows.work) == [True, True, False]
