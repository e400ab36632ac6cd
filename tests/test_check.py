"""`aicore-sim check` as its users meet it, on real faults and on findings made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aicore_sim import check as check_module
from aicore_sim.cards import load_card
from aicore_sim.check import Target, check, repair
from aicore_sim.hazards import fixes
from aicore_sim.hazards.model import Hazard, Hazards
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario
from tests.report.hazard_examples import needless, race
from tests.test_cli import TINY, cli

__all__ = ["cli"]  # the fixture

FAULTY = str(Path(__file__).parent / "data" / "faulty.py")
ADD, STORE, LOAD = 37, 43, 32
"""Lines of the kernel in `FAULTY`."""
PAIR = "        asc.set_flag(asc.HardEvent.{0}, 0)\n        asc.wait_flag(asc.HardEvent.{0}, 0)\n"
HAZARD_KEYS = {
    "kind", "severity", "verdict", "core", "pipe", "api", "file", "line", "iteration", "time_us", "tensor", "address", "bytes",
    "count", "other", "ordered", "visible", "old", "new", "detail", "fix",
}  # fmt: skip


def plus_lines(diff: str) -> str:
    """What a diff adds."""
    return "".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++"))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make every run have these findings."""

    def give(*hazards: Hazard) -> None:
        monkeypatch.setattr(Run, "hazards", Hazards(hazards))

    return give


# ---- results --------------------------------------------------------------------------------------------------------
def test_json_of_one_card_has_exactly_the_documented_keys(cli: Any) -> None:
    done = cli("check", FAULTY, "--json")
    assert done.status == 0
    assert done.json == {
        "scenario": "faulty", "card": "atlas_350", "clean": True, "hazards": [], "schedules": {"tried": 0, "differing": 0},
    }  # fmt: skip


def test_a_missing_flag_is_found_with_both_lines(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=V_MTE3", "--json")
    assert (done.status, done.json["clean"]) == (1, False)
    assert all(set(hazard) == HAZARD_KEYS for hazard in done.json["hazards"])
    (hazard,) = [one for one in done.json["hazards"] if one["kind"] == "race-raw"]
    assert (hazard["line"], hazard["other"]["line"]) == (STORE, ADD)
    assert (hazard["severity"], hazard["pipe"]) == ("error", "MTE3")
    assert Path(hazard["file"]).name == "faulty.py"
    assert hazard["ordered"] is False
    assert f"before line {STORE}" in hazard["fix"]


def test_text_shows_finding_and_fix(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=V_MTE3")
    assert done.status == 1
    assert done.out.startswith(f"{load_card('atlas_350').label}  1 block  ")
    for words in ("result WRONG", "error  race-raw", "+ asc.set_flag(asc.HardEvent.V_MTE3, 0)", f"{STORE} asc.data_copy(y_gm"):
        assert words in done.out
    assert "---" not in done.out  # the diff is for --fix


def test_equal_checks_give_equal_documents(cli: Any) -> None:
    assert cli("check", FAULTY, "drop=all", "--json").out == cli("check", FAULTY, "drop=all", "--json").out


def test_several_cards_are_rows(cli: Any) -> None:
    done = cli("check", TINY, "fault=a2_only", "--card", "atlas_a2", "--card", "atlas_350", "--json")
    assert done.status == 0
    assert list(done.json) == ["scenario", "results"]
    able, unable = done.json["results"]
    assert able == {"card": "atlas_a2", "soc": load_card("atlas_a2").soc, "supported": True, "clean": True, "hazards": [],
                    "schedules": {"tried": 0, "differing": 0}}  # fmt: skip
    assert (unable["card"], unable["supported"]) == ("atlas_350", False)
    assert "only made for atlas_a2" in unable["reason"]


def test_a_deadlock_is_a_finding(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=set", "--json")
    assert done.status == 1
    (hazard,) = done.json["hazards"]
    assert (hazard["kind"], hazard["severity"], hazard["line"]) == ("wait-without-set", "error", 36)
    assert "MTE2_V id 0" in hazard["detail"]
    assert "deadlock" in cli("check", FAULTY, "drop=set").out


def test_what_the_kernel_refuses_is_an_error_not_a_finding(cli: Any) -> None:
    done = cli("check", TINY, "fault=bounds", "--json")
    assert (done.status, done.json["error"]["type"]) == (2, "OutOfBoundsError")
    assert cli("check", TINY, "nonsense=1").status == 2
    assert cli("check", "no_such_scenario").status == 2


def test_a_wrong_result_without_findings_is_status_1(cli: Any) -> None:
    done = cli("check", TINY, "fault=wrong", "--json")
    assert (done.status, done.json["clean"]) == (1, True)
    assert "result WRONG" in done.err
    assert "result WRONG" in cli("check", TINY, "fault=wrong").out


def test_without_data_races_are_found_all_the_same(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=MTE2_V", "--no-data", "--json")
    assert done.status == 1
    assert ADD in {hazard["line"] for hazard in done.json["hazards"]}


def test_warnings_and_notes_leave_the_status_at_0(cli: Any, found: Any) -> None:
    found(needless())
    assert (cli("check", TINY, "--json").status, cli("check", TINY, "--json").json["clean"]) == (0, True)
    found(race())
    done = cli("check", TINY, "--json")
    assert (done.status, done.json["clean"]) == (0, False)
    assert done.json["hazards"] == [race().as_dict()]


def test_run_shows_what_check_finds(cli: Any) -> None:
    done = cli("run", FAULTY, "drop=V_MTE3", "--no-files")
    assert done.status == 1
    assert "error race-raw (observed): core0.aiv0 MTE3 DataCopy at" in done.out.replace("\n", " ")
    rows = cli("run", FAULTY, "drop=V_MTE3", "--no-files", "--json").json["results"]
    assert rows[0]["hazards"] == cli("check", FAULTY, "drop=V_MTE3", "--json").json["hazards"]


# ---- fixes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("drop", ["MTE2_V", "V_MTE3", "MTE3_MTE2"])
def test_fix_puts_in_the_pair_that_is_missing_and_nothing_else(cli: Any, drop: str) -> None:
    before = Path(FAULTY).read_bytes()
    done = cli("check", FAULTY, f"drop={drop}", "--fix", "--json")
    assert done.status == 1  # what was checked is wrong, mended or not
    fix = done.json["fix"]
    assert list(fix) == ["diff", "clean", "correct"]
    assert (fix["clean"], fix["correct"]) == (True, True)
    assert plus_lines(fix["diff"]) == PAIR.format(drop)
    assert Path(FAULTY).read_bytes() == before


def test_fix_of_a_kernel_without_any_flag(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=all", "--fix")
    assert "6 statements put in, " in done.out
    assert done.out.rstrip().endswith("result correct, no hazards")


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
def test_fixes_hold_on_every_card(cli: Any, card: str) -> None:
    fix = cli("check", FAULTY, "drop=V_MTE3", "--card", card, "--fix", "--json").json["fix"]
    assert (fix["clean"], fix["correct"]) == (True, True)
    assert PAIR.format("V_MTE3") in plus_lines(fix["diff"])


def test_nothing_to_fix(cli: Any) -> None:
    assert cli("check", FAULTY, "--fix", "--json").json["fix"] == {"diff": "", "clean": True, "correct": True}
    assert "nothing to fix" in cli("check", FAULTY, "--fix").out


def test_fixed_kernel_can_be_kept(cli: Any, tmp_path: Path) -> None:
    assert cli("check", FAULTY, "drop=V_MTE3", "--fix-out", "mended.py").status == 1
    again = cli("check", "mended.py", "drop=V_MTE3", "--json")
    assert (again.status, again.json["clean"]) == (0, True)
    assert len((tmp_path / "mended.py").read_text().splitlines()) == len(Path(FAULTY).read_text().splitlines()) + 2


def test_fix_out_is_refused_where_it_makes_no_sense(cli: Any, tmp_path: Path) -> None:
    done = cli("check", FAULTY, "--card", "all", "--fix-out", "x.py", "--json")
    assert (done.status, done.json["error"]["field"]) == (2, "fix-out")
    done = cli("check", FAULTY, "--fix-out", str(tmp_path / "no" / "where.py"), "--json")
    assert (done.status, done.json["error"]["field"]) == (2, "fix-out")


def test_fixes_of_other_files_are_left_to_the_reader(cli: Any, found: Any) -> None:
    words, insert = fixes.statement("asc.nd_dma_dci()", "/lib/helper.py", 3)
    found(race(fix=words, insert=insert))
    done = cli("check", FAULTY, "--fix")
    assert "not put in: asc.nd_dma_dci() at /lib/helper.py:3" in done.out
    assert "no finding has a fix that can be put in" in done.out


def test_fixes_outside_the_kernel_find_no_place(cli: Any, found: Any) -> None:
    found(race(insert=fixes.statement("asc.nd_dma_dci()", FAULTY, 1)[1]))
    done = cli("check", FAULTY, "--fix")
    assert "not put in: asc.nd_dma_dci()" in done.out
    assert "no finding has a fix that can be put in" in done.out


def test_a_fix_that_does_not_help_is_said(cli: Any, found: Any) -> None:
    found(race(insert=fixes.statement("asc.pipe_barrier(asc.PipeID.PIPE_ALL)", FAULTY, STORE)[1]))
    done = cli("check", FAULTY, "--fix")
    assert "1 statement put in, 1 round: result correct, 1 warning" in done.out
    assert done.out.count("warning  race-raw") == 2


@pytest.mark.parametrize("code", ["asc.pipe_barrier(asc.PipeID.PIPE_S)", "no_such_name()", "this is no Python"])
def test_a_fix_that_is_refused_is_said(cli: Any, found: Any, code: str) -> None:
    found(race(insert=fixes.statement(code, FAULTY, STORE)[1]))
    done = cli("check", FAULTY, "--fix")
    assert "1 statement put in, 1 round: refused" in done.out
    fix = cli("check", FAULTY, "--fix", "--json").json["fix"]
    assert (fix["clean"], fix["correct"]) == (False, None)
    assert plus_lines(fix["diff"]).strip() == code


def test_repair_as_an_object() -> None:
    scenario = load_scenario(FAULTY)
    target = Target(scenario, scenario.parse(["drop=MTE2_V"]), load_card("atlas_a2"), Options())
    mended = repair(target, check(target))
    assert [(one.line, one.code) for one in mended.added] == [
        (ADD, "asc.set_flag(asc.HardEvent.MTE2_V, 0)"), (ADD, "asc.wait_flag(asc.HardEvent.MTE2_V, 0)"),
    ]  # fmt: skip
    assert mended.after is not None
    assert mended.after.run is not None
    assert (mended.clean, mended.correct, mended.error, mended.elsewhere) == (True, True, None, ())


# ---- schedules ------------------------------------------------------------------------------------------------------
def test_schedules_show_what_luck_has_hidden(cli: Any) -> None:
    done = cli("check", FAULTY, "drop=V_MTE3", "--schedules", "10", "--json")
    assert done.json["schedules"]["tried"] == 10
    assert done.json["schedules"]["differing"] > 0
    smallest = done.json["schedules"]["smallest"]
    assert "faulty.py" in smallest
    text = cli("check", FAULTY, "drop=V_MTE3", "--schedules", "10").out
    assert f"{done.json['schedules']['differing']} of 10 schedules leave other data" in text
    assert f"the smallest that does: {smallest}" in text


def test_a_right_kernel_is_the_same_under_every_schedule(cli: Any) -> None:
    done = cli("check", FAULTY, "--schedules", "10", "--seed", "3", "--json")
    assert done.status == 0
    assert (done.json["schedules"]["tried"], done.json["schedules"]["differing"]) == (10, 0)
    assert "0 of 10 schedules leave other data (0.0%)" in cli("check", FAULTY, "--schedules", "10").out


def test_schedules_confirm_what_was_possible(cli: Any) -> None:
    # Memory of Atlas 200I is so slow that a load never comes early by itself.
    words = ("check", "pingpong_gemm", "drop=M_MTE1", "--card", "atlas_200i", "--json")
    (alone,) = cli(*words).json["hazards"]
    assert alone["verdict"] == "possible"
    (confirmed,) = cli(*words, "--schedules", "1").json["hazards"]
    assert confirmed["verdict"] == "observed"
    assert confirmed["detail"].startswith(f"{alone['detail']}; confirmed by a schedule: the output differs when ")


def test_only_what_is_possible_is_tried_and_told(cli: Any, found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def explore(scenario: Any, parameters: Any, card: Any, n: int, seed: int, options: Any, **words: Any) -> Any:
        asked.append((scenario.name, card.name, n, seed, words["blocks"], [hazard.at.line for hazard in words["directed"]]))
        return real(scenario, parameters, card, n, seed, options, **words)

    real = check_module.explore
    monkeypatch.setattr(check_module, "explore", explore)
    seen = race(line=STORE, verdict="observed")
    found(race(line=2), seen, needless())
    done = cli("check", FAULTY, "--schedules", "2", "--seed", "7", "--blocks", "1", "--json")
    assert asked == [("faulty", "atlas_350", 2, 7, 1, [2])]
    assert done.json["hazards"] == [race(line=2).as_dict(), seen.as_dict(), needless().as_dict()]


def test_no_schedules_for_a_deadlock_or_without_data(cli: Any) -> None:
    assert cli("check", FAULTY, "drop=set", "--schedules", "5", "--json").json["schedules"] == {"tried": 0, "differing": 0}
    done = cli("check", FAULTY, "--schedules", "5", "--no-data", "--json")
    assert (done.status, done.json["error"]["field"]) == (2, "schedules")
