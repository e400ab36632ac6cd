"""Findings as a list and as a table."""

from __future__ import annotations

from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, POSSIBLE, WARNING, Hazard, Hazards, Party

LATE = Party("core1.aiv0", "MTE3", "DataCopy", "kernel.py", 30, 2.0)
EARLY = Party("core0.aiv0", "V", "Add", "kernel.py", 20, 1.0, 4)


def hazard(kind: str, severity: str, at: Party = LATE, other: Party | None = None) -> Hazard:
    verdict = POSSIBLE if severity == NOTE else OBSERVED
    return Hazard(kind, severity, verdict, at, "what", tensor="x", address=64, bytes=32, other=other)


def test_errors_come_first_then_what_happened_first() -> None:
    found = Hazards([hazard("needless-dci", NOTE, EARLY), hazard("race-raw", ERROR), hazard("live-overlap", WARNING, EARLY),
                     hazard("race-war", ERROR, EARLY)])  # fmt: skip
    assert [one.kind for one in found] == ["race-war", "race-raw", "live-overlap", "needless-dci"]
    assert [one.kind for one in found.of("race-raw", "needless-dci")] == ["race-raw", "needless-dci"]


def test_notes_alone_are_clean_and_a_warning_is_not() -> None:
    assert Hazards().clean
    assert Hazards([hazard("needless-dci", NOTE)]).clean
    assert not Hazards([hazard("unpaired-set", WARNING)]).clean


def test_the_table_has_a_row_for_each_and_its_columns_even_without_any() -> None:
    table = Hazards([hazard("race-raw", ERROR, LATE, EARLY), hazard("double-set", ERROR)]).frame()
    assert list(table.columns) == list(Hazards().frame().columns)
    assert len(Hazards().frame()) == 0
    row = table[table["kind"] == "race-raw"].iloc[0]
    assert (row["core"], row["line"], row["address"], row["other_core"], row["other_line"], row["other_iteration"]) == (
        "core1.aiv0", 30, 64, "core0.aiv0", 20, 4,
    )  # fmt: skip
    assert table["other_core"].isna().tolist() == [True, False]


def test_the_table_has_what_the_json_has() -> None:
    document = hazard("race-raw", ERROR, LATE, EARLY).as_dict()
    names = {name for name in document if name != "other"} | {f"other_{name}" for name in document["other"]}
    assert set(Hazards().frame().columns) == names
