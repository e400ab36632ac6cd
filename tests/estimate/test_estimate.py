"""Estimates: cycles by hand, limits, streams, intervals, rows for what is impossible, and the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aicore_sim.cards import load_card
from aicore_sim.cli import main
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.estimate import Estimate, Request, estimate, estimate_call, measure

HALF = DataType("half")
PLAIN: dict[str, object] = {
    "gm.GM-UB.port_rate": 128, "gm.GM-UB.latency": 200, "gm.GM-UB.miss_latency": 300, "gm.GM-UB.issue": 20, "gm.GM-UB.row": 0,
    "gm.GM-L1.port_rate": 128, "gm.GM-L1.latency": 200, "gm.GM-L1.miss_latency": 300, "gm.GM-L1.issue": 20,
    "gm.GM-L1.nd2nz_head": 40, "gm.GM-L1.nd2nz_row": 2, "scalar.issue": 3, "sync.set_flag": 1, "sync.wait_flag": 1,
    "l2.read_rate": 5000, "hbm.attainable": 1, "memory_rate": 1600,
    "hbm.run_cost": 0, "hbm.write_cost": 1, "l2.same_line_cost": 1, "l1.read_share": 1,
}  # fmt: skip


def asked(src: str, dst: str, rows: int, cols: int, card: str = "atlas_a2", plain: bool = True, **more: Any) -> Estimate:
    return estimate(Request(src, dst, rows, cols, HALF, **more), load_card(card, PLAIN if plain else {}))


# ---- time by hand ---------------------------------------------------------------------------------------------------
def test_an_isolated_copy_takes_its_stream_and_its_latencies() -> None:
    row = asked("GM", "VECIN", 64, 256)
    # 32 KB at 128 B a cycle, latency 200, and 300 because L2 is cold
    assert row.cycles == 256 + 200 + 300
    assert asked("GM", "UB", 64, 256, warm=True).cycles == 256 + 200
    assert row.time_us == pytest.approx(756 / 1850)
    assert row.gbps == pytest.approx(32768 / 756 * 1.85)
    assert row.peak_share == pytest.approx(256 / 756)
    assert row.bound_by == "latency", "the port is at work a third of the time"
    assert row.throughput_gbps == pytest.approx(128 * 1.85, rel=1e-6)


def test_a_chain_adds_its_stages_and_the_flag_between_them() -> None:
    row = asked("GM", "B2", 64, 64, transpose=True)
    # ND2NZ: 40 + 64 rows * 2 + 8192 / 128, then 200 + 300; the flag 1 + 1 (set and wait); LoadData2D: 28 + 8192 / 128
    assert row.apis == ["DataCopy ND2NZ GM-L1", "LoadData2D L1-L0B"]
    assert row.cycles == pytest.approx(40 + 128 + 64 + 500 + 2 + 28 + 64, abs=1)


def test_a_stream_of_parts_is_as_fast_as_its_slowest_stage() -> None:
    row = asked("GM", "A2", 1024, 512)
    # parts of 32 KB, 32 rows of 1 KB: ND2NZ takes 40 + 32 * 2 + 256, LoadData 128 and less
    assert row.streamed
    assert "streamed in 32 parts of 32x512" in (row.note or "")
    period = 40 + 32 * 2 + 256
    assert row.cycles == pytest.approx(32 * period + 500 + 28 + 128, rel=0.01)
    assert row.throughput_gbps == pytest.approx(32768 / period * 1.85, rel=0.01)
    assert row.bound_by == "port"


def test_parts_that_are_not_simulated_keep_the_rhythm(monkeypatch: pytest.MonkeyPatch) -> None:
    short = asked("GM", "B2", 512, 2048, plain=False)
    monkeypatch.setattr(measure, "MOST_PARTS", 10_000)
    whole = asked("GM", "B2", 512, 2048, plain=False)
    assert short.cycles == pytest.approx(whole.cycles, rel=0.005)


def test_memory_bounds_what_the_port_does_not() -> None:
    card = load_card("atlas_a2", {**PLAIN, "memory_rate": 100})
    row = estimate(Request("GM", "UB", 256, 128, HALF), card)
    assert row.bound_by == "hbm"
    assert row.cycles == pytest.approx(65536 / (100 / 1.85) + 500, rel=1e-5)
    assert row.peak_share == pytest.approx(65536 / (100 / 1.85) / (row.cycles or 0), rel=1e-5)


def test_more_cores_share_the_rows() -> None:
    one, four = asked("GM", "UB", 256, 256), asked("GM", "UB", 256, 256, blocks=4)
    assert (one.blocks, four.blocks) == (1, 4)
    assert one.cycles == 1024 + 500
    assert four.cycles == pytest.approx(256 + 500)
    assert four.launch_us > one.launch_us
    alone = asked("GM", "L1", 64, 64, card="atlas_200i", plain=False, blocks=4)
    assert alone.blocks == 1
    assert "1 of the 4 blocks" in (alone.note or "")


def test_the_alternatives_are_slower_and_other_chains() -> None:
    row = asked("GM", "B2", 64, 64, plain=False)
    assert row.apis is not None
    chains = [row.apis, *(one.apis for one in row.alternatives or [])]
    assert ["DataCopy ND2NZ GM-L1", "LoadDataWithTranspose L1-L0B"] in chains
    assert ["DataCopy ND2NZ GM-L1", "LoadData3D L1-L0B"] in chains
    assert len(chains) == len({tuple(one) for one in chains}) == 3
    times = [row.time_us, *(one.time_us for one in row.alternatives or [])]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("card", "src", "dst", "rows", "cols"),
    [
        ("atlas_200i", "VECIN", "GM", 64, 4096),  # stores stay in L2, which is faster than memory
        ("atlas_a2", "GM", "A1", 1, 1),  # repetitions must not hit the line of the first
        ("atlas_200i", "VECIN", "A1", 1, 70_000),  # one row of NZ takes sixteen
        ("atlas_350", "A1", "A2", 3000, 3000), ("atlas_a3", "A1", "B2", 3000, 3000),  # tails at the end of every strip
    ],
)  # fmt: skip
def test_no_movement_is_faster_than_its_way(card: str, src: str, dst: str, rows: int, cols: int) -> None:
    row = asked(src, dst, rows, cols, card, plain=False)
    assert row.supported
    assert 0 < (row.peak_share or 0) <= 1
    assert (row.throughput_gbps or 0) >= (row.gbps or 0) * 0.99


def test_tables_are_filled_in_whole_blocks() -> None:
    bias = estimate(Request("C1", "C2", 1, 128, DataType("float")), load_card("a2"))
    assert bias.apis == ["DataCopy L1-BT"]
    assert bias.cycles == 20 + 512 / 32
    assert "blocks" in (estimate(Request("C1", "C2", 1, 1, DataType("float")), load_card("a2")).reason or "")


# ---- intervals and basis --------------------------------------------------------------------------------------------
def test_the_interval_is_made_of_what_is_open() -> None:
    changed = {key: value for key, value in PLAIN.items() if key != "gm.GM-UB.miss_latency"}
    card = load_card("atlas_a2", {**changed, "l2.access_bytes": 512, "l2.ways": 16})
    low, high = card.number("gm.GM-UB.miss_latency").range or (0, 0)
    row = estimate(Request("GM", "UB", 64, 256, HALF), card)
    assert row.dominated_by == "gm.GM-UB.miss_latency"
    assert row.low_us == pytest.approx((256 + 200 + low) / 1850)
    assert row.high_us == pytest.approx((256 + 200 + high) / 1850)
    assert [part.key for part in row.parts or []] == ["gm.GM-UB.miss_latency"]


def test_nothing_open_leaves_no_interval() -> None:
    row = estimate_call("LoadData2DParams", ["repeat_times=8", "src_stride=1"], load_card("a2"), dtype="half")
    assert row.cycles == 28 + 4096 / 256
    assert row.low_us == row.high_us == row.time_us
    assert row.dominated_by == ""


@pytest.mark.parametrize(
    ("card", "src", "dst", "words"),
    [
        ("atlas_200i", "GM", "B1", "No measurement"), ("atlas_a3", "GM", "UB", "one laboratory"),
        ("atlas_350:Ascend950DT_9581", "GM", "UB", "Nothing measured on a 950DT"), ("atlas_350", "GM", "UB", "950PR"),
        ("atlas_a2", "GM", "L1", "ND2NZ copies"), ("atlas_a2", "L0C", "L1", "no public measurement on this card"),
    ],
)  # fmt: skip
def test_the_basis_says_what_was_measured(card: str, src: str, dst: str, words: str) -> None:
    assert words in (asked(src, dst, 32, 32, card, plain=False).measured_basis or "")


def test_the_basis_names_calls_without_any_timing() -> None:
    turned = asked("GM", "A1", 64, 64, "atlas_350", plain=False, transpose=True)
    assert turned.apis == ["DataCopy DN2NZ GM-L1"]
    assert "DN2NZ has no public timing" in (turned.measured_basis or "")
    squares = estimate_call("LoadData2dTransposeParams", ["repeat_times=2", "src_stride=1"], load_card("a2"), dtype="half")
    assert "LoadDataWithTranspose has no public timing" in (squares.measured_basis or "")
    scattered = asked("GM", "UB", 32, 32, "atlas_350", plain=False, transpose=True)
    assert "NDDMA has no public timing" in (scattered.measured_basis or "")


# ---- what a card does not do ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("card", "src", "dst", "more", "reason"),
    [
        ("atlas_a2", "L0A", "GM", {}, "through the cube only"),
        ("atlas_350", "GM", "L0C", {}, "through Mmad only"),
        ("atlas_200i", "GM", "B1", {"layout": "ND"}, "--src-layout NZ"),
        ("atlas_a2", "GM", "UB", {"transpose": True}, "nothing transposes"),
        ("atlas_a2", "GM", "A1", {"transpose": True}, "nothing transposes|not offered"),
        ("atlas_200i", "A1", "UB", {}, "no chain of paths"),
        ("atlas_a2", "A1", "UB", {"layout": "ND"}, "L1 does not hold ND"),
        ("atlas_a2", "L1", "L1", {}, "no path copies inside L1"),
        ("atlas_a2", "GM", "C2PIPE2GM", {}, "uint64|half"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_a_row_with_a_reason(card: str, src: str, dst: str, more: dict[str, Any], reason: str) -> None:
    row = asked(src, dst, 64, 64, card, plain=False, **more)
    assert not row.supported
    assert row.time_us is row.apis is row.low_us is None
    assert any(word in (row.reason or "") for word in reason.split("|")), row.reason


def test_paths_that_only_some_cards_have() -> None:
    through_gm, direct = (asked("VECOUT", "A1", 64, 64, card, plain=False) for card in ("atlas_a2", "atlas_350"))
    assert through_gm.apis == ["DataCopy UB-GM", "DataCopy ND2NZ GM-L1"]
    assert direct.apis == ["DataCopy ND2NZ UB-L1"]
    assert asked("CO1", "VECIN", 64, 64, "atlas_350", plain=False).apis == ["Fixpipe L0C-UB"]
    assert asked("CO1", "VECIN", 64, 64, "atlas_a3", plain=False).apis == ["Fixpipe L0C-GM", "DataCopy GM-UB"]
    assert asked("GM", "B2", 64, 64, "atlas_200i", plain=False, transpose=True).apis == ["LoadData2D GM-L0B"]
    assert asked("GM", "C2", 1, 128, plain=False, layout="ND").reason is not None, "a bias of half becomes float"


def test_wrong_questions() -> None:
    with pytest.raises(ParameterError, match="unknown position"):
        asked("GM", "L3", 4, 4)
    for wrong in ({"rows": 0}, {"blocks": 0}):
        with pytest.raises(ParameterError, match="at least 1"):
            Request(**{"src": "GM", "dst": "L1", "rows": 1, "cols": 1, "dtype": HALF, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="unknown layout"):
        Request("GM", "L1", 4, 4, HALF, "XY")
    with pytest.raises(ParameterError, match="whole bytes"):
        Request("GM", "L1", 4, 4, DataType("int4b"))


# ---- one call -------------------------------------------------------------------------------------------------------
def test_a_call_in_a_stream_pays_no_latency() -> None:
    card = load_card("atlas_a2", {**PLAIN, "gm.GM-L1.miss_latency": 0})
    words = ["nd_num=1", "n_value=64", "d_value=64", "src_nd_matrix_stride=0", "src_d_value=64", "dst_nz_c0_stride=64",
             "dst_nz_n_stride=1", "dst_nz_matrix_stride=0"]  # fmt: skip
    row = estimate_call("Nd2NzParams", words, card, dtype="half")
    assert row.cycles == 40 + 64 * 2 + 64 + 200
    assert row.stream_us == pytest.approx((40 + 64 * 2 + 64) / 1850)
    assert row.bytes == 8192
    assert row.throughput_gbps == pytest.approx(8192 / 232 * 1.85)


def test_a_refused_call_is_a_row_with_the_reason() -> None:
    words = ["m_step=1", "k_step=1", "src_stride=1", "dst_stride=1"]
    row = estimate_call("LoadData2DParamsV2", words, load_card("a2"), dtype="half")
    assert not row.supported
    assert "not offered" in (row.reason or "")
    nothing = estimate_call("LoadData2DParams", ["repeat_times=0"], load_card("a2"), dtype="half")
    assert "moves nothing" in (nothing.reason or "")


# ---- the command ----------------------------------------------------------------------------------------------------
KEYS = {"card", "soc", "supported", "apis", "cycles", "time_us", "gbps", "peak_share", "bound_by", "low_us", "high_us",
        "dominated_by", "measured_basis", "alternatives", "reason"}  # fmt: skip


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main(["estimate", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_every_row_has_the_same_keys(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, "GM", "B1", "--shape", "32x64", "--dtype", "half", "--card", "all", "--src-layout", "nd")["results"]
    assert [row["card"] for row in rows] == ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"]
    assert [row["supported"] for row in rows] == [True, True, True, False]
    assert len({tuple(row) for row in rows}) == 1
    assert set(rows[0]) >= KEYS
    assert all(row["low_us"] <= row["time_us"] <= row["high_us"] for row in rows[:3])


def test_the_same_question_has_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("GM", "B2", "--shape", "48x80", "--card", "atlas_350", "--blocks", "2")
    assert told(capsys, *words) == told(capsys, *words)


def test_the_text_names_interval_basis_and_alternatives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "GM", "B2", "--shape", "64x64", "--card", "atlas_a2", "--card", "atlas_200i", "-q"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("interval", "gm.GM-L1.", "basis", "alternatives", "LoadDataWithTranspose L1-L0B", "launch", "note", "NZ"):
        assert word in text
    assert main(["estimate", "L0A", "GM", "--shape", "64x64"]) == 0
    assert "not possible" in capsys.readouterr().out


def test_one_call_by_its_struct(capsys: pytest.CaptureFixture[str]) -> None:
    row = told(capsys, "--api", "LoadData2DParams", "repeatTimes=8", "srcStride=1", "--card", "atlas_a2")["results"][0]
    assert row["apis"] == ["LoadData LoadData2DParams L1-L0A"]
    assert row["stream_low_us"] <= row["stream_us"] <= row["stream_high_us"] < row["time_us"]
    told(capsys, "--api", "LoadData2DParamsV2", "m_step=1", "k_step=1", "--card", "atlas_a2", status=2)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["GM"], "SRC DST"), (["GM", "B1"], "shape"), (["GM", "B1", "--shape", "12"], "shape"),
        (["GM", "B1", "--shape", "8x8", "--src", "GM"], "src"), (["--api", "LoadData2DParams", "--shape", "8x8"], "shape"),
        (["GM", "B1", "--shape", "8x8", "--dtype", "quarter"], None), (["--api", "NoParams"], "struct"),
    ],
)  # fmt: skip
def test_errors_name_the_option(capsys: pytest.CaptureFixture[str], words: list[str], field: str | None) -> None:
    error = told(capsys, *words, status=2)["error"]
    assert field is None or error["field"] == field
