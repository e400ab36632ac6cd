"""Findings as people read them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from aicore_sim import Hazards, UncleanError, assert_clean
from aicore_sim.report.hazards import as_text, one_line, print_hazards, shown_path, tally
from tests.report.hazard_examples import KERNEL, needless, race, stale
from tests.report.test_summary import mix, run_of


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example kernel in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return str(path)


def test_a_block_says_what_where_with_whom_and_how_to_mend_it(file: str) -> None:
    assert as_text([stale(file)]).splitlines() == [
        "error  stale-nddma  observed  24 times, the first:",
        "  what     the line was filled at 1.250 us, before the store",
        "  at       core1.aiv0 MTE2 DataCopy at kernel.py:7, iteration 2, 5.310 us",
        "           asc.data_copy(ub, x[i], params)  # reads what the line above wrote",
        "  other    core0.aiv0 MTE3 DataCopy at kernel.py:6, iteration 0, 3.200 us",
        "           asc.data_copy(y[i], ub, n)",
        "  bytes    128 B of x at byte 1,024 (0x400)",
        "  order    ordered: yes, visible: NO",
        "  value    delivered 0000803f, should be 00000040",
        "  fix      add asc.nd_dma_dci() before line 7",
        "           + asc.nd_dma_dci()",
        "           7 asc.data_copy(ub, x[i], params)  # reads what the line above wrote",
    ]


def test_what_is_not_known_takes_no_line() -> None:
    assert as_text([race()]).splitlines() == [
        "warning  race-raw  possible (nothing prevents it)",
        "  what     no flag orders V behind MTE2",
        "  at       core0.aiv0 V Add at k.py:12, 1.000 us",
    ]


def test_a_fix_behind_a_line_stands_behind_it(file: str) -> None:
    (place,) = stale(file).insert
    changed = stale(file, insert=(type(place)(file, 6, "asc.after()", after=True),))
    lines = as_text([changed]).splitlines()
    assert lines[-2:] == ["           6 asc.data_copy(y[i], ub, n)", "           + asc.after()"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_blocks_fit_the_terminal(file: str, width: int) -> None:
    found = stale(file, detail="a long story " * 30 + "without [bold] end", tensor="workspace" * 9)
    text = as_text([found, race()], width)
    assert max(map(len, text.splitlines())) <= width
    assert "without [bold] end" in " ".join(text.split())
    assert "nd_dma_dci" in text


def test_long_lists_are_cut_and_say_so() -> None:
    found = [race(line=line) for line in range(1, 26)] + [needless()]
    out = io.StringIO()
    print_hazards(found, Console(file=out, width=80), 20)
    assert out.getvalue().count("race-raw") == 20
    assert out.getvalue().splitlines()[-1] == "and 6 more: 5 warnings, 1 note"
    assert as_text(found).count("race-raw") == 25


def test_tally_counts_severities() -> None:
    assert tally([]) == "no hazards"
    assert tally([race(), stale("k.py"), race(), needless()]) == "1 error, 2 warnings, 1 note"


def test_one_line_for_summaries(file: str) -> None:
    assert one_line(stale(file)) == (
        "error stale-nddma (observed): core1.aiv0 MTE2 DataCopy at kernel.py:7 with core0.aiv0 MTE3 DataCopy at kernel.py:6; "
        "128 B of x at byte 1,024 (0x400); 24 times"
    )
    assert one_line(race()) == "warning race-raw (possible): core0.aiv0 V Add at k.py:12"


def test_paths_below_the_current_folder_are_short(file: str) -> None:
    assert shown_path(file) == "kernel.py"
    assert shown_path("/usr/k.py") == "/usr/k.py"
    assert shown_path("sub/k.py") == "sub/k.py"


# ---- assert_clean ----------------------------------------------------------------------------------------------------
def test_assert_clean_reports_everything(file: str) -> None:
    run = run_of(mix(), hazards=Hazards([race(), stale(file)]))
    with pytest.raises(AssertionError, match=r"add on atlas_350.*1 error, 1 warning") as caught:
        assert_clean(run)
    assert "asc.nd_dma_dci() before line 7" in str(caught.value)
    assert "no flag orders V behind MTE2" in str(caught.value)
    assert isinstance(caught.value, UncleanError)
    assert [hazard.kind for hazard in caught.value.hazards] == ["stale-nddma", "race-raw"]


def test_notes_are_clean() -> None:
    assert_clean(run_of(mix(), hazards=Hazards([needless()])))
    assert_clean(run_of(mix(), hazards=Hazards()))
