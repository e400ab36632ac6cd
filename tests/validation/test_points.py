"""Reading the list of measurements: what a row means, and where a wrong one is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from aicore_sim.errors import ConfigError
from aicore_sim.validation.points import COLUMNS, Command, at_path, group_of, load_points, of_card, parse_command, steps
from tests.validation.cards_and_points import copy_command, points_file


def test_published_points_are_complete() -> None:
    points = load_points()
    assert len(points) == 76
    assert [point.id for point in points if not point.counted] == [
        "dcl1_950_6.MTE2", "a3_load_A2.per_instruction_ns", "a3_load_B2.per_instruction_ns",
    ]  # fmt: skip
    assert len({point.command for point in points}) == 60
    groups = Counter(point.group for point in points)
    assert (groups["a3_sweep_GM-UB"], groups["a3_sweep_UB-GM"], groups["a3_mmad"], groups["mmbase_a2_s1"]) == (16, 6, 7, 5)


def test_command_in_parts() -> None:
    text = "run add rows=8 style=flags --card atlas_a2:Ascend910B4 --no-data --override l2.ways=8 --override clock_mhz=1000"
    assert parse_command(text + " --blocks 2 --no-contention") == Command(
        "add", ("rows=8", "style=flags"), "atlas_a2:Ascend910B4", (("clock_mhz", "1000"), ("l2.ways", "8")), 2, False, False
    )
    assert parse_command("run hello --card=atlas_a3") == Command("hello", (), "atlas_a3")


def test_commands_that_differ_in_the_order_of_overrides_are_one_run() -> None:
    one, two = (parse_command(f"run hello --card atlas_a2 {words}") for words in
                ("--override a.b=1 --override c.d=2", "--override c.d=2 --override a.b=1"))  # fmt: skip
    assert one == two


@pytest.mark.parametrize("text", [
    "cards", "run --card atlas_a2", "run add", "run add --card all", "run add --card atlas_a2 --card atlas_a3",
    "run add --card atlas_a2 --out x", "run add --card atlas_a2 --override l2.ways", "run add --card atlas_a2 --blocks 0",
    "run add --card atlas_a2 --blocks two", "run 'add --card atlas_a2",
])  # fmt: skip
def test_command_that_is_no_run_on_one_card(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_command(text)
    assert caught.value.field == "command"


@pytest.mark.parametrize(("changed", "field"), [
    ({"value": "-1"}, "value"), ({"value": "nan"}, "value"), ({"value": "fast"}, "value"), ({"counted": "maybe"}, "counted"),
    ({"id": ""}, "id"), ({"id": "p0.ns"}, "id"), ({"json_path": "results[x]"}, "json_path"), ({"card": "atlas_350"}, "card"),
    ({"command": "run nothing --card atlas_a2"}, "scenario"), ({"command": "run hello what=1 --card atlas_a2"}, "what"),
    ({"command": "run hello --card atlas_x"}, "card"), ({"command": "cards"}, "command"),
])  # fmt: skip
def test_wrong_row_is_named_by_file_and_line(tmp_path: Path, changed: dict[str, str], field: str) -> None:
    good = {"command": copy_command("atlas_a2", 1024)}
    file = points_file(tmp_path, [good, {**good, **changed}])
    with pytest.raises(ConfigError) as caught:
        load_points(file)
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(file), 3, field)


def test_missing_column_and_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(",".join(COLUMNS[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="counted"):
        load_points(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_points(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="no points"):
        load_points(points_file(tmp_path, []))


@pytest.mark.parametrize(("point", "group"), [
    ("add_a2_c1.MTE2", "add_a2_c1"), ("a3_sweep_GM-UB_32.per_copy_ns", "a3_sweep_GM-UB"),
    ("a3_sweep_UB-GM_1024.per_copy_ns", "a3_sweep_UB-GM"), ("a3_mmad_16_barrier.per_instruction_ns", "a3_mmad"),
    ("a3_load_A2.ns", "a3_load_A2"), ("plain", "plain"),
])  # fmt: skip
def test_group_of_a_point(point: str, group: str) -> None:
    assert group_of(point) == group


def test_path_into_a_document() -> None:
    document = {"results": [{"time_us": 2, "pipes": {"aiv": {"MTE2": {"time_us": 0.5}}}, "correct": True, "name": "x"}]}
    assert steps("results[0].pipes.aiv") == ["results", 0, "pipes", "aiv"]
    assert at_path(document, "results[0].time_us") == 2.0
    assert at_path(document, "results[0].pipes.aiv.MTE2.time_us") == 0.5
    first = "results[0]"
    for wrong in ("results[1]", "results.time_us", *(f"{first}.{name}" for name in ("cycles", "correct", "name", "name[0]"))):
        with pytest.raises(ConfigError) as caught:
            at_path(document, wrong)
        assert caught.value.field == "json_path"


def test_points_of_a_card() -> None:
    points = load_points()
    assert {point.card for point in of_card(points, "atlas_a3")} == {"atlas_a3:Ascend910_9362"}
    assert of_card(points, "atlas_a3:Ascend910_9362") == of_card(points, "atlas_a3")
    assert of_card(points, "all") == points == of_card(points, None)
    with pytest.raises(ConfigError, match="no point"):
        of_card(points, "atlas_200i")
