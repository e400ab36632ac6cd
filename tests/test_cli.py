"""The command line as its users meet it: what is on stdout, what is on stderr, and the exit status."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aicore_sim import __version__, cli_pyasc
from aicore_sim.cards import card_names, load_card
from aicore_sim.cli import main
from aicore_sim.cli_cards import api_rows
from aicore_sim.cli_run import compare, parse_window
from aicore_sim.errors import ConfigError
from aicore_sim.scenario import Measured, scenario_names

ROOT = Path(__file__).parent.parent
TINY = str(Path(__file__).parent / "data" / "tiny.py")
RESULT_KEYS = [
    "card", "soc", "supported", "blocks", "cycles", "time_us", "core_time_us", "lower_bound_us", "bound_by", "contention",
    "correct", "instructions", "wall_s", "pipes", "stalls", "metrics", "hazards", "measured", "against_msprof", "files",
]  # fmt: skip


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Outcome:
        status = main(words)
        return Outcome(status, *capsys.readouterr())

    return call


def shell(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line as its own process."""
    return subprocess.run([sys.executable, "-m", "aicore_sim", *words], cwd=cwd, env={"PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=120)  # fmt: skip


# ---- run: results ----------------------------------------------------------------------------------------------------


def test_json_result_has_exactly_the_documented_keys(cli: Any) -> None:
    done = cli("run", TINY, "--json", "--no-files")
    assert done.status == 0
    document = done.json
    assert list(document) == ["scenario", "parameters", "results"]
    assert document["scenario"] == "tiny"
    assert document["parameters"] == {"n": 64, "fault": "none", "scale": 1.0, "swap": False, "dims": [1, 2]}
    (row,) = document["results"]
    assert list(row) == RESULT_KEYS
    assert (row["card"], row["soc"], row["supported"]) == ("atlas_350", load_card("atlas_350").soc, True)
    assert row["correct"] is True
    assert row["instructions"] == 4  # two copies, a set and a wait
    assert set(row["pipes"]) == {"aiv"}
    assert set(row["pipes"]["aiv"]["MTE2"]) == {"time_us", "ratio"}
    assert all(set(stall) == {"core_kind", "pipe", "cause", "share"} for stall in row["stalls"])
    assert row["time_us"] > row["core_time_us"] > 0
    assert row["files"] == []


def test_json_is_free_of_what_the_scenario_prints(cli: Any) -> None:
    done = cli("run", TINY, "fault=talk", "--json", "--no-files")
    assert done.json["results"][0]["correct"] is True
    assert "words from the scenario" in done.err


def test_nan_becomes_null(cli: Any) -> None:
    metrics = cli("run", TINY, "--json", "--no-files").json["results"][0]["metrics"]
    assert metrics == {"twice_n": 128, "undefined": None}


def test_measured_values_stand_beside_the_simulated_ones(cli: Any) -> None:
    row = cli("run", TINY, "--json", "--no-files").json["results"][0]
    time, metric, missing = row["measured"]
    simulated = row["pipes"]["aiv"]["MTE2"]["time_us"]
    assert time["simulated"] == simulated
    assert time["error"] == pytest.approx((simulated - 0.5) / 0.5)
    assert metric == {"metric": "metrics.twice_n", "value": 128, "unit": "elements", "simulated": 128, "error": 0}
    assert missing["simulated"] is None
    assert missing["error"] is None


def test_comparison_of_a_measured_value_with_a_result() -> None:
    row = {"time_us": 12.0, "correct": True, "pipes": {"aic": {"M": {"time_us": 3}}}}
    points = [Measured("time_us", 10.0, "us"), Measured("pipes.aic.M.time_us", 4.0, "us"), Measured("correct", 1.0, "")]
    assert [(point["simulated"], point["error"]) for point in compare(row, points)] == [
        (12.0, pytest.approx(0.2)), (3.0, -0.25), (None, None),
    ]  # fmt: skip


def test_text_shows_time_pipes_notes_and_the_scenario_s_own_words(cli: Any) -> None:
    done = cli("run", TINY, "n=32", "--no-files")
    assert done.status == 0
    for words in ("atlas_350:", "result correct", "MTE2", "note: a note of the scenario", "last element 32"):
        assert words in done.out


def test_without_data_nothing_is_checked(cli: Any) -> None:
    done = cli("run", TINY, "fault=wrong", "--no-data", "--json", "--no-files")
    assert done.status == 0
    assert done.json["results"][0]["correct"] is None


def test_no_check_leaves_the_result_unjudged(cli: Any) -> None:
    done = cli("run", TINY, "fault=wrong", "--no-check", "--json", "--no-files")
    assert (done.status, done.json["results"][0]["correct"]) == (0, None)


def test_blocks_of_the_option_win(cli: Any) -> None:
    assert cli("run", TINY, "--blocks", "3", "--json", "--no-files").json["results"][0]["blocks"] == 3


def test_parameters_are_typed_by_their_declaration(cli: Any) -> None:
    words = ("n=0x20", "scale=-2.5e3", "swap=true", "dims=3,0x10,1e2")
    parameters = cli("run", TINY, *words, "--json", "--no-files").json["parameters"]
    assert parameters == {"n": 32, "fault": "none", "scale": -2500.0, "swap": True, "dims": [3, 16, 100]}


def test_equal_runs_give_equal_results(cli: Any) -> None:
    def result() -> Any:
        row = cli("run", TINY, "--json", "--no-files").json["results"][0]
        del row["wall_s"]
        return row

    assert result() == result()


# ---- run: files ------------------------------------------------------------------------------------------------------


def test_files_go_to_a_folder_named_after_scenario_and_card(cli: Any, tmp_path: Path) -> None:
    done = cli("run", TINY, "--json", "--card", "atlas_a2")
    files = done.json["results"][0]["files"]
    assert {Path(name).parent for name in files} == {Path("aicore-sim-out/tiny-atlas_a2")}
    assert {Path(name).name for name in files} >= {"summary.json", "trace.csv", "timeline.png", "Stalls.csv"}
    assert all((tmp_path / name).is_file() for name in files)
    summary = json.loads((tmp_path / "aicore-sim-out/tiny-atlas_a2/summary.json").read_text())
    assert summary["measured"] == done.json["results"][0]["measured"]


def test_out_names_the_folder(cli: Any, tmp_path: Path) -> None:
    done = cli("run", TINY, "--out", "here")
    assert (tmp_path / "here" / "summary.json").is_file()
    assert "files in here" in done.out


def test_no_files_writes_nothing(cli: Any, tmp_path: Path) -> None:
    cli("run", TINY, "--no-files")
    assert list(tmp_path.iterdir()) == []


def test_several_cards_get_a_folder_each(cli: Any, tmp_path: Path) -> None:
    cli("run", TINY, "--card", "atlas_a2:Ascend910B1", "--card", "atlas_a2:Ascend910B4", "--out", "here", "--json")
    assert {path.name for path in (tmp_path / "here").iterdir()} == {
        "tiny-atlas_a2-Ascend910B1", "tiny-atlas_a2-Ascend910B4",
    }  # fmt: skip


def test_a_folder_that_cannot_be_made_is_bad_input(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = cli("run", TINY, "--out", "taken", "--json")
    assert (done.status, done.json["error"]["field"], done.json["error"]["value"]) == (2, "out", "taken")


def test_window_is_a_stretch_in_us() -> None:
    assert parse_window(None) is None
    assert parse_window("0.5:12") == (0.5, 12.0)


@pytest.mark.parametrize("text", ["", "3", "5:5", "7:2", "-1:2", "a:b", "0:inf", "nan:1", "1:2:3"])
def test_other_windows_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="stretch of time"):
        parse_window(text)


# ---- run: several cards ----------------------------------------------------------------------------------------------


def test_all_cards_in_order(cli: Any) -> None:
    done = cli("run", TINY, "--card", "all", "--json", "--no-files")
    rows = done.json["results"]
    assert [row["card"] for row in rows] == ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"]
    assert {row["card"] for row in rows} == set(card_names())


def test_a_card_that_cannot_run_it_is_a_row(cli: Any) -> None:
    done = cli("run", TINY, "fault=a2_only", "--card", "atlas_350", "--card", "atlas_a2", "--json", "--no-files")
    refused, ran = done.json["results"]
    assert done.status == 0
    assert list(refused) == ["card", "soc", "supported", "reason"]
    assert (refused["card"], refused["supported"]) == ("atlas_350", False)
    assert "only made for atlas_a2" in refused["reason"]
    assert ran["correct"] is True


def test_several_cards_end_in_a_table(cli: Any) -> None:
    done = cli("run", TINY, "fault=a2_only", "--card", "all", "--no-files")
    table = done.out[done.out.index("all cards") :]
    lines = {line.split()[0].split(":")[0]: line for line in table.splitlines() if ":Ascend" in line}
    assert set(lines) == set(card_names())
    assert "correct" in lines["atlas_a2"]
    assert "only made for atlas_a2" in lines["atlas_350"]


def test_no_card_at_all_is_bad_input(cli: Any) -> None:
    done = cli("run", TINY, "fault=a2_only", "--card", "atlas_350", "--card", "atlas_a3", "--json", "--no-files")
    assert done.status == 2
    assert [row["supported"] for row in done.json["results"]] == [False, False]


def test_a_deadlock_on_several_cards_is_status_one(cli: Any) -> None:
    done = cli("run", TINY, "fault=deadlock", "--card", "atlas_350", "--card", "atlas_a2", "--json", "--no-files")
    assert done.status == 1
    assert [row["error"]["type"] for row in done.json["results"]] == ["DeadlockError", "DeadlockError"]


def test_a_window_past_the_end_of_one_card_spoils_nothing(cli: Any) -> None:
    rows = cli("run", TINY, "--card", "all", "--json", "--no-files").json["results"]
    lengths = {row["card"]: row["core_time_us"] for row in rows}
    start = sorted(lengths.values())[-2]  # only the slowest card is still running then
    done = cli("run", TINY, "--card", "all", "--window", f"{start + 0.01}:{start + 1}", "--json")
    assert done.status == 0
    assert all(row["correct"] and len(row["files"]) == 5 for row in done.json["results"])
    assert done.err.count("before --window") == 3
    alone = cli("run", TINY, "--card", min(lengths, key=lambda name: lengths[name]), "--window", f"{start + 0.01}:{start + 1}")
    assert alone.status == 2
    assert "window" in alone.err


def test_a_repeated_card_runs_once(cli: Any) -> None:
    done = cli("run", TINY, "--card", "atlas_a2", "--card", "all", "--json", "--no-files")
    assert [row["card"] for row in done.json["results"]] == ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"]


# ---- exit status and errors ------------------------------------------------------------------------------------------

BAD_INPUT = [
    (["run", TINY, "m=3"], "ConfigError", "m", "n=64"),
    (["run", TINY, "n=many"], "ConfigError", "n", "int"),
    (["run", TINY, "n=1.5"], "ConfigError", "n", "int"),
    (["run", TINY, "swap=maybe"], "ConfigError", "swap", "true|false"),
    (["run", TINY, "scale=x"], "ConfigError", "scale", "float"),
    (["run", TINY, "fault=other"], "ConfigError", "fault", "none|wrong"),
    (["run", TINY, "words"], "ConfigError", "words", "n=64"),
    (["run", "no_such_scenario"], "ConfigError", "scenario", "hello"),
    (["run", TINY, "--card", "atlas_a9"], "ConfigError", "card", "atlas_a2"),
    (["run", TINY, "--card", "atlas_a2:Ascend1"], "ConfigError", "socs", "Ascend910B1"),
    (["run", TINY, "--card", "all", "--card", "nowhere.toml"], "ConfigError", "card", None),
    (["run", TINY, "--override", "l2.nothing=3"], "ConfigError", "l2.nothing", None),
    (["run", TINY, "--override", "clock_mhz"], "ConfigError", "override", None),
    (["run", TINY, "--override", "clock_mhz=fast"], "ConfigError", "clock_mhz", None),
    (["run", TINY, "--window", "9"], "ConfigError", "window", "A:B"),
    (["run", TINY, "--window", "0:1", "--no-files"], "ConfigError", "window", None),
    (["run", TINY, "--blocks", "0"], "CapacityError", "blocks", ">= 1"),
    (["run", TINY, "fault=a2_only"], "UnsupportedError", "card", None),
    (["run", TINY, "fault=bounds"], "OutOfBoundsError", None, None),
    (["run", TINY, "fault=align"], "AlignmentError", None, None),
    (["run", TINY, "fault=bug"], "ZeroDivisionError", None, None),
    (["run", TINY, "--blocks", "x"], None, None, None),
    (["run", TINY, "--blok", "3"], None, None, None),
    (["run"], None, None, None),
    (["bench", "--repeat", "0"], "ParameterError", "repeat", ">= 1"),
    (["cards", "atlas_a9"], "ConfigError", "card", "atlas_a2"),
    (["scenarios", "no_such_scenario"], "ConfigError", "scenario", "hello"),
    (["nonsense"], None, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "kind", "field", "allowed"), BAD_INPUT, ids=lambda value: str(value)[-40:])
def test_bad_input_is_status_two_and_says_what_is_allowed(
    cli: Any, words: list[str], kind: str | None, field: str | None, allowed: str | None
) -> None:
    done = cli(*words, "--json")
    assert done.status == 2
    error = done.json["error"]
    assert list(error) == ["type", "field", "value", "allowed", "file", "line", "message"]
    assert error["message"]
    if kind is not None:
        assert error["type"] == kind
    if field is not None:
        assert str(error["field"]).endswith(field)
    if allowed is not None:
        assert allowed in error["allowed"]


def test_an_error_in_the_kernel_names_its_line(cli: Any) -> None:
    error = cli("run", TINY, "fault=bounds", "--json").json["error"]
    lines = Path(TINY).read_text().splitlines()
    assert error["file"] == TINY
    assert 'if fault == "bounds"' in lines[error["line"] - 1]


def test_text_errors_go_to_stderr_with_the_source_line_and_a_hint(cli: Any) -> None:
    done = cli("run", TINY, "fault=bounds")
    assert (done.status, done.out) == (2, "")
    for words in ("error:", "OutOfBoundsError", 'if fault == "bounds" else n)', "hint"):
        assert words in done.err


def test_usage_errors_as_text_name_the_command_s_help(cli: Any) -> None:
    done = cli("run", TINY, "--blok", "3")
    assert (done.status, done.out) == (2, "")
    assert "--blok" in done.err
    assert "aicore-sim run --help" in done.err


def test_a_fault_of_the_scenario_file_shows_its_traceback(cli: Any) -> None:
    done = cli("run", TINY, "fault=bug")
    assert (done.status, done.out) == (2, "")
    assert "tiny.py" in done.err
    assert "ZeroDivisionError: a fault of the scenario file" in done.err


def test_a_wrong_result_is_status_one(cli: Any) -> None:
    done = cli("run", TINY, "fault=wrong", "--no-files")
    assert done.status == 1
    assert "WRONG" in done.out


def test_a_deadlock_is_status_one_and_lists_who_waits(cli: Any) -> None:
    done = cli("run", TINY, "fault=deadlock", "--json")
    assert done.status == 1
    assert done.json["error"]["type"] == "DeadlockError"
    assert any("MTE3" in wait for wait in done.json["error"]["cycle"])


def test_an_unknown_key_in_a_card_file_is_named(cli: Any, tmp_path: Path) -> None:
    text = (ROOT / "configs" / "atlas_a2.toml").read_text()
    (tmp_path / "mine.toml").write_text('flavour = "sweet"\n' + text)
    done = cli("run", TINY, "--card", "mine.toml", "--json")
    assert done.status == 2
    assert done.json["error"]["field"] == "flavour"
    assert done.json["error"]["file"].endswith("mine.toml")


def test_a_card_file_of_one_s_own_runs(cli: Any, tmp_path: Path) -> None:
    text = (ROOT / "configs" / "atlas_a2.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('name = "atlas_a2"', 'name = "mine"', 1))
    done = cli("run", TINY, "--card", "mine.toml", "--json", "--no-files")
    assert (done.status, done.json["results"][0]["card"]) == (0, "mine")


def test_an_override_changes_the_time(cli: Any) -> None:
    slow = cli("run", TINY, "--override", "clock_mhz=825", "--json", "--no-files").json["results"][0]
    fast = cli("run", TINY, "--override", "clock_mhz=1650", "--json", "--no-files").json["results"][0]
    assert slow["core_time_us"] > fast["core_time_us"]


# ---- cards, scenarios, and the rest -----------------------------------------------------------------------------------


def test_cards_lists_every_card(cli: Any) -> None:
    done = cli("cards")
    assert done.status == 0
    assert all(name in done.out for name in card_names())
    assert {row["name"] for row in cli("cards", "--json").json} == set(card_names())


def test_one_card_shows_every_number_with_unit_basis_and_source(cli: Any) -> None:
    card = load_card("atlas_a2")
    document = cli("cards", "atlas_a2", "--json").json
    rows = {row["key"]: row for row in document["numbers"]}
    numbers = dict(card.numbers())
    assert set(numbers) <= set(rows)
    for key, number in numbers.items():
        assert (rows[key]["value"], rows[key]["unit"], rows[key]["basis"]) == (number.value, number.unit, number.basis)
        assert rows[key]["source"]
    assert document["socs"] == list(card.model.socs)
    text = cli("cards", "atlas_a2").out
    for words in ("buffers.L1.size", "524288", "documented", "Ascend910B4", "hardware.md"):
        assert words in text


def test_a_soc_variant_shows_its_own_numbers(cli: Any) -> None:
    document = cli("cards", "atlas_a2:Ascend910B4", "--json").json
    assert (document["soc"], document["clock_mhz"]) == ("Ascend910B4", load_card("atlas_a2:Ascend910B4").clock_mhz)


def test_apis_say_what_is_offered_and_why_not(cli: Any) -> None:
    rows = cli("cards", "atlas_a2", "--apis", "--json").json
    assert all(list(row) == ["api", "params", "path", "dtypes", "supported", "reason"] for row in rows)
    nddma = [row for row in rows if row["api"] == "DataCopy" and "NDDMA" in row["params"]]
    assert nddma
    assert all(not row["supported"] and "atlas_a2" in row["reason"] for row in nddma)
    on_350 = cli("cards", "atlas_350", "--apis", "--json").json
    assert any(row["supported"] and row["path"] == "GM>VECIN" and "NDDMA" in row["params"] for row in on_350)
    assert "NdDmaDci" in cli("cards", "atlas_350", "--apis").out


def test_apis_list_every_api_of_every_card_and_the_gaps_of_the_model(cli: Any) -> None:
    rows = cli("cards", "--apis", "--json").json
    assert all(list(row) == ["card", "api", "params", "path", "dtypes", "supported", "reason"] for row in rows)
    listed = {(row["card"], row["api"], row["params"]) for row in rows}
    for name in ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"):
        card = load_card(name)
        assert {(name, row.name, row.variant) for row in card.model.support.apis} <= listed
        assert [row for row in rows if row["card"] == name] == [{"card": name, **row} for row in api_rows(card)]
    assert all(row["reason"] for row in rows if not row["supported"])
    (bits,) = [row for row in rows if (row["card"], row["api"]) == ("atlas_a2", "LoadData_2D_BitMode")]
    assert bits["reason"] == "the API's page does not offer it on atlas_a2: use LoadData2DParams, LoadData3DParamsV2"
    sparse = {row["card"]: row for row in rows if row["api"] == "LoadDataWithSparse"}
    assert sparse["atlas_a3"]["supported"] and sparse["atlas_a3"]["reason"].startswith("not in this model: how the index")
    assert not sparse["atlas_350"]["supported"]
    through = [row for row in rows if row["api"] == "DataCopy" and row["params"] == "UB to L1 contiguous"]
    library = {row["card"] for row in through if row["supported"] and "not in this model" in (row["reason"] or "")}
    assert library == {"atlas_a2", "atlas_a3"}
    assert "not modelled" in cli("cards", "atlas_a3", "--apis").out


def test_scenarios_lists_what_the_package_brings(cli: Any) -> None:
    assert [row["name"] for row in cli("scenarios", "--json").json] == scenario_names()
    assert all(name in cli("scenarios").out for name in scenario_names())


def test_one_scenario_with_types_defaults_and_choices(cli: Any) -> None:
    document = cli("scenarios", TINY, "--json").json
    assert document["parameters"][0] == {"name": "n", "type": "int", "default": 64, "help": "elements", "choices": []}
    assert document["parameters"][1]["choices"][:2] == ["none", "wrong"]
    text = cli("scenarios", TINY).out
    for words in ("Only for tests of the command line", "elements", "none|wrong", "1,2", "false"):
        assert words in text


def test_every_scenario_of_the_package_can_be_described(cli: Any) -> None:
    for name in scenario_names():
        assert cli("scenarios", name).status == 0


PROGRAM = """
import sys
import numpy as np
import asc

@asc.jit
def copy(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int]):
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    asc.data_copy(ub, x_gm, n)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y_gm, ub, n)

x = np.arange(64, dtype=np.float32)
for n in (32, 64):
    y = np.zeros_like(x)
    copy[1](x, y, n)
    print(y.sum())
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(PROGRAM)
    return "program.py"


def test_pyasc_runs_a_program_and_every_launch_gets_its_files(cli: Any, program: str, tmp_path: Path) -> None:
    done = cli("pyasc", program)
    assert done.status == 0
    assert [float(line) for line in done.out.split()] == [sum(range(32)), sum(range(64))]
    folder = tmp_path / "aicore-sim-out" / "pyasc-program"
    assert sorted(path.name for path in folder.iterdir()) == ["001-copy-atlas_a2", "002-copy-atlas_a2", "launches.csv"]
    assert (folder / "002-copy-atlas_a2" / "summary.json").is_file()
    with (folder / "launches.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["launch"], row["kernel"], row["blocks"], row["warnings"]) for row in rows] == [
        ("1", "copy", "1", "0"), ("2", "copy", "1", "0"),
    ]  # fmt: skip
    for row in rows:
        summary = json.loads((folder / row["folder"] / "summary.json").read_text())
        assert float(row["time_us"]) == pytest.approx(summary["time_us"], abs=1e-3)
    assert "launch 2: copy on atlas_a2" in done.err
    assert done.err.splitlines()[-1] == f"2 launches, files in {folder}"


def test_pyasc_draws_only_the_first_launches_and_shows_each_warning_once(
    cli: Any, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_pyasc, "DETAILED", 1)
    source = (tmp_path / "program.py").read_text().replace("(32, 64)", "(72, 72)")  # 8 elements past the arrays
    (tmp_path / "program.py").write_text(source)
    done = cli("pyasc", program)
    assert done.status == 0
    assert done.err.count("warning: DataCopy: accesses 32 B behind the end of x") == 1
    assert done.err.count("warning: DataCopy: accesses 32 B behind the end of y") == 1
    assert "details of the first 1" in done.err
    folder = tmp_path / "aicore-sim-out" / "pyasc-program"
    detailed = [sorted(path.name for path in (folder / f"00{n}-copy-atlas_a2").iterdir()) for n in (1, 2)]
    assert set(detailed[0]) - set(detailed[1]) == {"timeline.png", "trace.csv"}
    assert "summary.json" in detailed[1]
    strict = cli("pyasc", program, "--strict", "--no-files", "-q")
    assert (strict.status, strict.out) == (1, "")
    assert "OutOfBoundsError" in strict.err


def test_pyasc_takes_card_folder_and_arguments_of_the_program(cli: Any, program: str, tmp_path: Path) -> None:
    done = cli("pyasc", program, "--card", "atlas_350", "--out", "here", "-q", "--", "7")
    assert (done.status, done.err) == (7, "")
    assert (tmp_path / "here" / "001-copy-atlas_350" / "summary.json").is_file()


def test_pyasc_runs_a_module(cli: Any, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = cli("pyasc", "-m", "program", "--no-files", "--", "3")
    assert done.status == 3
    assert "launch 1: copy" in done.err
    assert not (tmp_path / "aicore-sim-out").exists()


def test_pyasc_says_that_nothing_was_launched_and_how_tests_run(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "test_only.py").write_text("import asc\ndef test_nothing() -> None: ...\n")
    done = cli("pyasc", "test_only.py")
    assert (done.status, done.out) == (0, "")
    assert "no kernel was launched" in done.err
    assert "-m pytest -- test_only.py" in done.err
    assert cli("pyasc", "test_only.py", "-q").err == ""
    (tmp_path / "failing.py").write_text("raise SystemExit(5)\n")
    assert (cli("pyasc", "failing.py").status, cli("pyasc", "failing.py").err) == (5, "")


def test_pyasc_says_where_arguments_of_the_program_go(cli: Any, program: str) -> None:
    done = cli("pyasc", program, "-r", "Model")
    assert done.status == 2
    assert "behind --" in done.err


@pytest.mark.parametrize(
    "words", [["pyasc"], ["pyasc", "nowhere.py"], ["pyasc", "program.py", "--card", "atlas_a9"]], ids=lambda w: w[-1]
)
def test_pyasc_with_bad_input_starts_nothing(cli: Any, program: str, words: list[str]) -> None:
    done = cli(*words)
    assert (done.status, done.out) == (2, "")


@pytest.mark.parametrize("command", ["run", "scenarios", "cards", "pyasc", "bench"])
def test_help_has_examples(cli: Any, command: str) -> None:
    done = cli(command, "--help")
    assert done.status == 0
    assert f"aicore-sim {command}" in done.out[done.out.index("Examples:") :]


def test_without_words_the_help_is_shown(cli: Any) -> None:
    assert "Commands:" in cli().out


def test_version(cli: Any) -> None:
    assert cli("--version").out == f"aicore-sim {__version__}\n"


def test_the_process_s_exit_status(tmp_path: Path) -> None:
    done = shell("run", TINY, "--json", "--no-files", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["results"][0]["correct"] is True
    deadlock = shell("run", TINY, "fault=deadlock", cwd=tmp_path)
    assert (deadlock.returncode, deadlock.stdout) == (1, "")
    assert "MTE2_MTE3" in deadlock.stderr
    unknown = shell("run", TINY, "m=3", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m aicore_sim cards atlas_350 --apis | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
