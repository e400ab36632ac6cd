"""Folders of `msprof op`: which files are taken, what they say, and a run beside them.

The folders in tests/data/ are written by hand in msprof's form (spec reports.md 1). msprof_910b: a vector kernel on four
AIVs, and an older run beside it; msprof_a5: one block of a mix kernel, an AIC and two AIVs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.cli import main
from aicore_sim.errors import ConfigError
from aicore_sim.launch import Options, Run
from aicore_sim.report import tables
from aicore_sim.report.against import against_msprof, cores_of, mean
from aicore_sim.report.msprof import Profile, newest, read_profile, read_table
from aicore_sim.scenario import load_scenario
from tests.engine.engine_helpers import gm, simulate, ub
from tests.report.test_summary import mix, run_of

DATA = Path(__file__).parent.parent / "data"
A2, A5 = DATA / "msprof_910b", DATA / "msprof_a5"


def points(run: Run, profile: Profile) -> dict[str, tuple[float, float, float | None, str]]:
    rows, _ = against_msprof(run, profile)
    assert all(list(row) == ["metric", "measured", "simulated", "error", "unit"] for row in rows)
    return {row["metric"]: (row["measured"], row["simulated"], row["error"], row["unit"]) for row in rows}


def notes(run: Run, profile: Profile) -> list[str]:
    return against_msprof(run, profile)[1]


def scenario(name: str, card: str, *words: str, blocks: int | None = None) -> Run:
    loaded = load_scenario(name)
    return loaded.run(load_card(card), loaded.parse(words), Options(data=False), blocks)[0]


# ---- finding --------------------------------------------------------------------------------------------------------


def test_the_newest_run_is_taken_wherever_it_lies() -> None:
    main_file = newest(A2)
    assert main_file.name == "PipeUtilization_20250301112235678.csv"
    assert main_file.parent.parent.name == "add_custom"
    profile = read_profile(A2)
    assert (profile.timestamp, profile.family) == ("20250301112235678", "910B")
    assert set(profile.tables) == {"PipeUtilization", "Memory", "L2Cache", "OpBasicInfo"}
    # The folder itself will do as well, and the older run is found where it is asked for.
    assert read_profile(main_file.parent).folder == main_file.parent
    older = read_profile(A2 / "OPPROF_20250301101530123_BCDEFGHIJKLMNOPQ")
    assert set(older.tables) == {"PipeUtilization"}


def test_files_of_another_run_in_the_same_folder_are_left_alone(tmp_path: Path) -> None:
    for stamp in ("20250101000000001", "20250101000000002"):
        (tmp_path / f"PipeUtilization_{stamp}.csv").write_text("block_id,aiv_time(us),\n0,1.0,\n")
    (tmp_path / "OpBasicInfo_20250101000000001.csv").write_text("Op Name,Block Dim,\nold,7,\n")
    (tmp_path / "PipeUtilization_of_something_else.csv").write_text("nothing")
    profile = read_profile(tmp_path)
    assert profile.timestamp == "20250101000000002"
    assert profile.number("Block Dim") is None


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_folder_without_results_says_what_was_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "Memory_20250101000000001.csv").write_text("block_id,\n0,\n")
    with pytest.raises(ConfigError, match="PipeUtilization_<timestamp>") as caught:
        read_profile(tmp_path / name)
    assert (caught.value.field, caught.value.value) == ("against-msprof", str(tmp_path / name))


# ---- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "family"), [(A2, "910B"), (A5, "A5")])
def test_our_columns_are_msprof_s(folder: Path, family: str) -> None:
    first = newest(folder).read_text().splitlines()[0]
    assert first == ",".join(tables.PIPE_UTILIZATION[family]) + ","
    assert read_profile(folder).family == family


@pytest.mark.parametrize("family", ["910B", "A5"])
def test_what_our_writer_leaves_in_msprof_s_form_is_read_back(tmp_path: Path, family: str) -> None:
    run = run_of(mix())
    path = tmp_path / "PipeUtilization_20260101000000000.csv"
    tables.write_pipe_utilization(run.trace, path, family=family, msprof_form=True)
    profile = read_profile(tmp_path)
    assert profile.family == family
    numbers = tables.pipe_utilization(run.trace, family)
    assert list(profile.tables["PipeUtilization"].columns) == list(numbers.columns)
    pd.testing.assert_frame_equal(profile.tables["PipeUtilization"].iloc[:, 2:].astype(float),
                                  numbers.iloc[:, 2:].astype(float), atol=6e-7, rtol=0)  # fmt: skip


def test_numbers_text_and_na() -> None:
    table = read_profile(A5).tables["PipeUtilization"]
    assert table.shape == (3, 34)
    assert table["sub_block_id"].tolist() == ["cube0", "vector0", "vector1"]
    assert table["aic_time(us)"].isna().tolist() == [False, True, True]
    assert table["aiv_mte2_time(us)"].tolist()[1:] == [4.0, 6.0]
    assert table["aic_icache_miss_rate"].isna().all()


def test_commas_in_the_operator_s_name_do_not_shift_the_row() -> None:
    profile = read_profile(A5)
    assert profile.info("Op Name") == "gemm_add<half, float>_mix_aic"
    assert profile.info("Op Type") == "mix"
    assert (profile.number("Task Duration(us)"), profile.number("Block Dim")) == (20.0, 1.0)
    assert profile.number("Op Type") is None
    assert read_profile(A2).info("Mix Block Dim") is None  # NA


def test_lines_need_no_trailing_comma(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("block_id,aiv_time(us)\n0,1.5\n1,NA\n\n")
    table = read_table(path)
    assert table["aiv_time(us)"].tolist()[0] == 1.5
    assert len(table) == 2


@pytest.mark.parametrize(("text", "line", "words"), [
    ("", None, "empty"), ("block_id,aiv_time(us),\n0,1.0,\n1,2.0,3.0,\n", 3, "3 values under 2 columns"),
    ("block_id,aiv_time(us),\n0,\n", 2, "1 values under 2 columns"),
])  # fmt: skip
def test_a_file_that_is_no_table_names_file_and_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = tmp_path / "PipeUtilization_20260101000000000.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        read_profile(tmp_path)
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(path), line, "against-msprof")


def test_a_table_without_msprof_s_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PipeUtilization.csv").write_text("block_id,sub_block_id,Metric,\n0,x,1,\n")
    with pytest.raises(ConfigError, match="no column of msprof"):
        read_profile(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "PipeUtilization.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_profile(tmp_path)


# ---- means ----------------------------------------------------------------------------------------------------------


def test_means_are_over_the_cores_that_took_part() -> None:
    table = read_profile(A5).tables["PipeUtilization"]
    assert [len(cores_of(table, kind)) for kind in ("aic", "aiv")] == [1, 2]
    assert mean(table, "aic_cube_time(us)") == 6
    assert mean(table, "aiv_time(us)") == 12  # 10 and 14; the AIC's row is NA
    assert mean(table, "aiv_mte3_time(us)") == 2  # NA on one of two
    assert pd.isna(mean(table, "aiv_nothing(us)"))


def test_a_core_without_time_did_not_take_part(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "block_id,aiv_time(us),aiv_vec_time(us),\n0,4.0,2.0,\n1,0.000000,0.000000,\n2,NA,NA,\n"
    )
    table = read_table(tmp_path / "x.csv")
    assert mean(table, "aiv_vec_time(us)") == 2
    assert cores_of(table, "aic").empty


# ---- against a run --------------------------------------------------------------------------------------------------


def test_a_vector_kernel_beside_its_profile() -> None:
    run = scenario("add", "atlas_a2", blocks=4)
    found = points(run, read_profile(A2))
    pipes = run.trace.pipes()["aiv"]
    # Means by hand over (5, 6, 5, 8), (3, 4, 3.5, 5.5) and (0.6, 0.667, 0.7, 0.6875).
    assert found["Task Duration(us)"] == (10.5, run.time_us, pytest.approx(run.time_us / 10.5 - 1), "us")
    assert found["aiv_time(us)"][:2] == (6.0, pytest.approx(run.core_time_us))
    assert found["aiv_mte2_time(us)"][:2] == (4.0, pytest.approx(pipes["MTE2"]["time_us"]))
    measured, simulated, error, unit = found["aiv_mte2_ratio"]
    assert (measured, unit) == (pytest.approx((3 / 5 + 4 / 6 + 3.5 / 5 + 5.5 / 8) / 4, abs=1e-6), "fraction")
    assert simulated == pytest.approx(pipes["MTE2"]["ratio"], rel=1e-3)
    assert error == pytest.approx(simulated / measured - 1)
    assert found["aiv_total_cycles"][0] == 10800
    assert found["aiv_total_cycles"][3] == "cycles"
    assert found["aiv_vec_time(us)"][0] == 0.5
    # 4 cores x 160 KB in, 80 KB out; the scenario moves 480 tiles of two inputs and an output of 8 KB.
    assert found["GM_to_UB_datas(KB)"][:2] == (640.0, 480 * 16)
    assert found["UB_to_GM_datas(KB)"][:2] == (320.0, 480 * 8)
    assert found["aiv_read_hit_rate(%)"][:2] == (1.875, 0.0)
    assert not any(metric.startswith("aic_") for metric in found)
    assert not any("icache" in metric or "stall" in metric or "bw" in metric for metric in found)


def test_a_mix_kernel_beside_its_profile() -> None:
    run = scenario("mix_gemm_add", "atlas_350", blocks=1)
    profile = read_profile(A5)
    found = points(run, profile)
    assert found["aic_cube_time(us)"][:2] == (6.0, pytest.approx(run.trace.pipes()["aic"]["M"]["time_us"]))
    assert found["aiv_mte2_time(us)"][:2] == (5.0, pytest.approx(run.trace.pipes()["aiv"]["MTE2"]["time_us"]))
    assert found["aic_read_hit_rate(%)"][0] == 75
    assert found["aiv_read_hit_rate(%)"][0] == 50
    assert found["GM_to_L1_datas(KB)"][0] == 96
    moved = run.trace.bandwidth().set_index("path")["bytes"]
    assert found["GM_to_L1_datas(KB)"][1] == moved["GM-L1"] / 1024
    # Nothing in the profile: no error to state.
    assert found["L0C_to_GM_datas(KB)"][::2] == (0.0, None)
    assert "L0C_to_L1_datas(KB)" not in found  # 0 on both sides
    # A mix operator's ratios are of the task.
    assert not any(metric.endswith("ratio") for metric in found)
    assert [note for note in notes(run, profile) if "ratios" in note]


def test_hit_rates_are_means_of_the_cores() -> None:
    """Two cores read lines of their own, the first one twice: 50 % and 0 %, 25 % in the mean."""

    @asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
    def loads(x: asc.GlobalAddress):
        block = int(asc.get_block_idx())
        for _ in range(2 - block):
            asc.data_copy(ub(x.dtype, 0, 128), gm(x, block * 128), 128)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)

    run = simulate(loads, asc.GmSpec((256,), asc.float32), blocks=2, data=False)
    assert points(run, read_profile(A5))["aiv_read_hit_rate(%)"][:2] == (50, 25)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350", "atlas_200i"])
def test_a_run_against_its_own_file_has_no_error(card: str, tmp_path: Path) -> None:
    run = scenario("add", card)
    tables.write_pipe_utilization(run.trace, tmp_path / "PipeUtilization.csv", family=tables.product_family(run.card.npu_arch),
                                  coupled=run.card.coupled)  # fmt: skip
    found = points(run, read_profile(tmp_path))
    assert {"aiv_time(us)", "aiv_mte2_time(us)", "aiv_vec_ratio"} <= set(found)
    assert all(error == pytest.approx(0, abs=2e-3) for _, _, error, _ in found.values())
    assert notes(run, read_profile(tmp_path)) == [
        f"no OpBasicInfo.csv, Memory.csv, L2Cache.csv of this run () in {tmp_path}"
    ]


# ---- notes ----------------------------------------------------------------------------------------------------------


def test_what_makes_the_sides_unlike_is_said() -> None:
    run = scenario("add", "atlas_350", blocks=8)
    said = "\n".join(notes(run, read_profile(A2)))
    assert "taken at 1800 MHz" in said
    assert "--override clock_mhz=1800" in said
    assert "blocks: 4 in the profile, 8 in the run" in said
    assert "aiv cores: 4 in the profile, 8 in the run" in said
    assert "columns of the 910B family, atlas_350 is of A5" in said
    same = load_scenario("add")
    run, _ = same.run(load_card("atlas_a2", {"clock_mhz": 1800}), same.parse([]), Options(data=False), 4)
    assert notes(run, read_profile(A2)) == []


def test_unknown_columns_are_ignored_and_missing_ones_named(tmp_path: Path) -> None:
    header = [name for name in tables.PIPE_UTILIZATION["910B"] if not name.startswith("aiv_vec")]
    values = ["3.0" if name.startswith("aiv") else "NA" for name in header]
    (tmp_path / "PipeUtilization_20260101000000000.csv").write_text(
        ",".join([*header, "aiv_new_counter"]) + ",\n" + ",".join([*values, "7"]) + ",\n"
    )
    (tmp_path / "OpBasicInfo_20260101000000000.csv").write_text("Op Name,Op Type,\nadd,vector,\n")
    run = scenario("add", "atlas_a2", blocks=1)
    profile = read_profile(tmp_path)
    assert "aiv_mte2_time(us)" in points(run, profile)
    assert not any(
        "vec" in metric or "new" in metric or metric == "Task Duration(us)" for metric in points(run, profile)
    )
    said = "\n".join(notes(run, profile))
    assert "PipeUtilization has no aiv_vec_time(us), aiv_vec_ratio: skipped" in said
    assert "OpBasicInfo has no Task Duration(us), Block Dim, Current Freq: skipped" in said
    assert "no Memory.csv, L2Cache.csv of this run (20260101000000000)" in said


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_puts_it_into_json_and_text(capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    words = ["run", "add", "--card", "atlas_a2", "--blocks", "4", "--no-data", "--against-msprof", str(A2)]
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    rows: list[dict[str, Any]] = json.loads(out)["results"][0]["against_msprof"]
    assert rows[0]["metric"] == "Task Duration(us)"
    assert "1800 MHz" in err
    summary = json.loads((tmp_path / "aicore-sim-out/add-atlas_a2/summary.json").read_text())
    assert summary["against_msprof"] == rows
    assert main([*words, "--no-files"]) == 0
    out, err = capsys.readouterr()
    assert "msprof against simulated" in out
    assert "aiv_mte2_time(us)" in out
    assert "note: the profile was taken at 1800 MHz" in out
    assert "1800" not in err


def test_the_command_refuses_a_folder_without_results(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "add", "--json", "--against-msprof", str(tmp_path)]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["field"]) == ("ConfigError", "against-msprof")


def test_the_command_replays_without_contention(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "add", "--card", "atlas_a2", "--override", "memory_rate=200", "--no-data", "--no-files", "--json"]
    assert main(words) == 0
    ordinary = json.loads(capsys.readouterr().out)["results"][0]
    assert main([*words, "--no-contention"]) == 0
    alone = json.loads(capsys.readouterr().out)["results"][0]
    assert ordinary["contention"] is None
    assert alone["contention"]["time_us"] == ordinary["time_us"]
    assert alone["contention"]["without_us"] == alone["time_us"] < ordinary["time_us"]
    assert alone["contention"]["cost_us"] == pytest.approx(ordinary["time_us"] - alone["time_us"])
    assert list(alone["contention"]) == ["time_us", "without_us", "cost_us"]
