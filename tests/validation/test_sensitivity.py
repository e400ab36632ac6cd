"""Runs that move numbers, on a card with few open ones: serialised copies, whose time is a sum that a hand can do."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from aicore_sim.card_model import Number
from aicore_sim.scenario import load_scenario
from aicore_sim.validation.points import Point, load_points, parse_command
from aicore_sim.validation.runs import TASK, Outcome, Request, Runner, cost, document, paths_of
from aicore_sim.validation.sensitivity import Sensitivities, as_full, ends_of, fittable, free_numbers, sensitivities
from tests.validation.cards_and_points import card_file, copy_command, copy_points, points_file

NS = 1e3 / 1850
"""A cycle of the Ascend910B1."""
OPEN = {
    "gm.GM-UB.latency": (200.0, 150.0, 300.0), "sync.barrier_all": (20.0, 10.0, 40.0), "sync.cross_core_set": (50.0, 40.0, 60.0),
    "gm.UB-GM.latency": (200.0, 100.0, 300.0), "l2.access_bytes": (512.0, 500.0, 512.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Point], Sensitivities]:
    folder = tmp_path_factory.mktemp("card")
    points = copy_points(folder, card_file(folder, OPEN), {1024: 100.0, 4096: 100.0})
    return points, sensitivities([point.command for point in points], Runner(paths_of(points)))


def test_ends_are_those_of_the_runs_by_hand(moved: tuple[list[Point], Sensitivities]) -> None:
    """Three of four intervals between copies hold a barrier; each copy waits for the latency of the one before."""
    points, found = moved
    for point in points:
        middle = found.middle[point.command][point.json_path]
        low, high = found.of(point, "gm.GM-UB.latency")
        assert (low - middle, high - middle) == pytest.approx((-50 * NS, 100 * NS), abs=0.01)
        low, high = found.of(point, "sync.barrier_all")
        assert (low - middle, high - middle) == pytest.approx((-10 * 3 / 4 * NS, 20 * 3 / 4 * NS), abs=0.01)
        assert found.slope(point, "gm.GM-UB.latency") > found.slope(point, "sync.barrier_all") > 0


def test_only_numbers_that_move_something_are_listed(moved: tuple[list[Point], Sensitivities]) -> None:
    """No copy back is timed and no flag crosses cores; 500 B is no power of two, which L2 refuses."""
    points, found = moved
    for point in points:
        assert set(found.numbers[point.command]) == set(OPEN)
        assert set(found.ends[point.command]) == {"gm.GM-UB.latency", "sync.barrier_all"}
        middle = found.middle[point.command][point.json_path]
        assert found.of(point, "gm.UB-GM.latency") == found.of(point, "l2.access_bytes") == (middle, middle)
        assert found.slope(point, "l2.access_bytes") == 0.0
    free = free_numbers(points, found)
    assert list(free) == ["gm.GM-UB.latency", "sync.barrier_all"]
    assert free["gm.GM-UB.latency"] == points


def test_documented_numbers_and_points_not_counted_free_nothing(tmp_path: Path) -> None:
    command = copy_command(card_file(tmp_path, {"gm.GM-UB.latency": (200, 150, 300)}, basis="derived"), 1024)
    points = load_points(points_file(tmp_path, [{"command": command}]))
    found = sensitivities([point.command for point in points], Runner(paths_of(points)))
    assert found.moves(points[0], "gm.GM-UB.latency")
    assert free_numbers(points, found) == {}
    command = copy_command(card_file(tmp_path, {"gm.GM-UB.latency": (200, 150, 300)}), 1024)
    points = load_points(points_file(tmp_path, [{"command": command, "counted": "no"}]))
    found = sensitivities([point.command for point in points], Runner(paths_of(points)))
    assert found.moves(points[0], "gm.GM-UB.latency")
    assert free_numbers(points, found) == {}


def number(**values: object) -> Number:
    """Not validated: whether a file may leave out a range is the card model's own business."""
    plain = {"unit": "cycle", "basis": "assumed", "source": "s", "note": "n", "range": None}
    return Number.model_construct(**{**plain, **values})  # type: ignore[arg-type]


def test_ends_of_a_number() -> None:
    assert ends_of(number(value=5, range=[4, 8])) == (4, 8)
    assert ends_of(number(value=50)) == pytest.approx((45, 55))
    assert ends_of(number(value=0)) is None
    assert ends_of(number(value=5, range=[5, 5])) is None
    assert ends_of(number(value=5, range=[4, 8], basis="documented")) is None
    assert ends_of(number(value=3, unit="count")) == (2, 4)


def test_which_numbers_a_fit_may_set() -> None:
    assert fittable(number(value=5, range=[4, 8]))
    assert fittable(number(value=5, range=[4, 8], basis="fitted"))
    assert not fittable(number(value=5, range=[4, 8], basis="derived"))
    assert not fittable(number(value=5))
    assert not fittable(number(value=5, range=[4, 8], unit="count"))


def test_runs_are_kept_by_what_they_have_read(tmp_path: Path) -> None:
    batches: list[int] = []
    points = copy_points(tmp_path, card_file(tmp_path, OPEN), {1024: 100.0})
    command = points[0].command
    runner = Runner(paths_of(points), progress=lambda done, total, _: batches.append(total))
    plain, unread = runner.run([Request(command), Request(command, (("mmad.latency", 1.0),))])
    assert batches == [2, 2]  # nothing was known of either yet
    again = runner.run([Request(command, (("fixpipe.latency", 7.0),)), Request(command)])
    assert len(batches) == 2  # neither number is read by the run
    assert again[0] == again[1] == plain
    assert unread.values == plain.values
    runner.run([Request(command, (("gm.GM-UB.latency", 250.0),))])
    assert len(batches) == 3


def test_launch_cost_does_not_grow_with_the_run() -> None:
    """Full: 100 us of launch and 1000 of work. Short: 100 and 50. A number that makes the work half as long again; one that
    makes the launch 30 us longer; one that starts each core 5 us later."""
    full, short = (Outcome({TASK: work + 100.0, "other": work}, (), {TASK: 100.0, "other": 0.0}) for work in (1000.0, 50.0))
    moved = Outcome({TASK: 175.0, "other": 75.0}, (), {TASK: 100.0, "other": 0.0})
    assert as_full(full, short, moved, (("gm.GM-UB.latency", 1.0),)) == pytest.approx({TASK: 1600, "other": 1500})
    moved = Outcome({TASK: 180.0, "other": 50.0}, (), {TASK: 130.0, "other": 0.0})
    assert as_full(full, short, moved, (("launch.base_us", 1.0),)) == pytest.approx({TASK: 1130, "other": 1000})
    moved = Outcome({TASK: 155.0, "other": 55.0}, (), {TASK: 100.0, "other": 0.0})
    assert as_full(full, short, moved, (("launch.core_start_cycles", 1.0),)) == pytest.approx({TASK: 1105, "other": 1005})


def test_shortened_run_moves_as_the_full_one() -> None:
    """By how many percent the time of a copy stream changes does not depend on how long it goes on."""
    command = parse_command("run add rows=1024 cols=4096 tile=2048 double_buffer=false blocks=1 --card atlas_350 --no-data")
    assert cost(Request(command, short=True)) < cost(Request(command)) / 3
    shares = []
    for short in (False, True):
        times = [document(Request(command, changes, short))[0]["results"][0]["time_us"]
                 for changes in ((), (("gm.GM-UB.latency", 500.0),), (("gm.GM-UB.port_rate", 20.0),))]  # fmt: skip
        shares.append([time / times[0] for time in times[1:]])
    assert min(shares[0]) > 1.05
    assert shares[1] == pytest.approx(shares[0], rel=0.02)


@pytest.mark.parametrize("words", [
    "data_copy dst=UB M=12288 N=12288 tileM=1 tileN=64 order=once",
    "data_copy dst=L1 M=12288 N=12287 tileM=64 tileN=256 order=once",
    "data_copy dst=UB M=6144 N=512 tileM=128 tileN=64 order=same_address l2=disable",
    "data_copy dst=UB M=12288 N=12288 tileM=64 tileN=1024 order=repeat_slices", "add rows=8192 cols=8192 tile=4096 blocks=1",
    "add rows=8192 cols=8192 tile=16384 double_buffer=false blocks=48", "matmul M=8192 N=8192 K=8192", "mmad_stream count=100000",
])  # fmt: skip
def test_shortened_run_keeps_cores_and_tiles(words: str) -> None:
    name, *values = words.split()
    scenario = load_scenario(name)
    card, full = parse_command(f"run {words} --card atlas_a2").load(), scenario.parse(values)
    short = scenario.short(card, full)
    assert scenario.build(card, short, False).blocks == scenario.build(card, full, False).blocks
    kept = {"tileN", "order", "l2", "tile", "m", "n", "k", "double_buffer"} | (set() if "same_address" in words else {"tileM"})
    assert {name: value for name, value in vars(short).items() if name in kept} == {
        name: value for name, value in vars(full).items() if name in kept
    }
    if name == "matmul":
        assert (short.M / short.singleCoreM, short.N / short.singleCoreN) == (8192 / 2048, 8192 / 1536)
    assert 0 < scenario.size(card, short) <= scenario.size(card, full) / 2
    # What finds its bytes in L2, or does not, keeps the ratio of the two.
    share = {"repeat_slices": 4, "blocks=48": 16}
    smaller = next((by for word, by in share.items() if word in words), 1)
    assert scenario.short_card(card, full).l2_bytes * smaller == card.l2_bytes
    if smaller > 1:
        size = {name: (getattr(short, name), getattr(full, name)) for name in ("M", "N", "rows", "cols") if hasattr(full, name)}
        less, more = (math.prod(values) for values in zip(*size.values(), strict=True))
        assert less * smaller == more
