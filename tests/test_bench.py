"""The benchmark measures what it says it measures; how fast that is stays out of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from aicore_sim import bench, bench_calls
from aicore_sim.cards import load_card
from aicore_sim.cli import main
from aicore_sim.launch import Run

L1_BYTES = 512 * 1024
FIGURES = ["instructions_per_s", "simpy_timeouts_per_s", "ratio", "copy_ratio", "copy_ratio_16k", "copy_ratio_256k",
           "check_ratio", "peak_mb", "call_us"]  # fmt: skip
APIS = {"LoadData2D": "LoadData MTE1", "LoadData2DV2": "LoadData MTE1", "LoadData3DV2": "LoadData MTE1",
        "LoadDataWithTranspose": "LoadDataWithTranspose MTE1", "ND2NZ": "DataCopy MTE2", "DataCopyPad": "DataCopyPad MTE2",
        "NDDMA": "DataCopy MTE2", "Mmad": "Mmad M", "Fixpipe": "Fixpipe FIX"}  # fmt: skip
"""Streams of calls: the instruction that each records, and its pipe."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same measurements with little work."""
    monkeypatch.setattr(bench, "MATMUL", ("M=256", "N=256", "K=128"))
    monkeypatch.setattr(bench, "TIMEOUTS", 100)
    monkeypatch.setattr(bench, "SMALL", bench.Tiles(64, 128, 4))
    monkeypatch.setattr(bench, "LARGE", bench.Tiles(256, 512, 4))
    monkeypatch.setattr(bench_calls, "CALLS", 8)


def test_tiles_have_the_sizes_they_are_named_after() -> None:
    assert (bench.SMALL.nbytes, bench.LARGE.nbytes) == (16 * 1024, 256 * 1024)
    assert bench.SMALL.count == bench.LARGE.count


@pytest.mark.parametrize("tiles", [bench.SMALL, bench.LARGE], ids=["16k", "256k"])
def test_tiles_lie_inside_source_and_l1(tiles: bench.Tiles) -> None:
    places = tiles.places(L1_BYTES)
    assert len(places) == tiles.count
    assert len({place[:2] for place in places}) == min(
        tiles.count, bench.SOURCE[0] * bench.SOURCE[1] * 2 // tiles.nbytes
    )
    for row, col, at in places:
        assert 0 <= row <= bench.SOURCE[0] - tiles.rows
        assert 0 <= col <= bench.SOURCE[1] - tiles.cols
        assert at % 32 == 0
        assert 0 <= at <= L1_BYTES - tiles.nbytes


def test_numpy_side_makes_the_fractals_of_nd2nz() -> None:
    tiles = bench.Tiles(32, 48, 3)
    source = np.arange(bench.SOURCE[0] * bench.SOURCE[1]).reshape(bench.SOURCE).astype(np.uint16).view(np.float16)
    places, l1 = tiles.places(L1_BYTES), np.zeros(L1_BYTES, np.uint8)
    bench.numpy_copies(tiles, source, places, l1)
    for row, col, at in places:
        got = l1[at : at + tiles.nbytes].view(np.uint16)
        for r, c in ((0, 0), (1, 0), (0, 17), (31, 47), (16, 15)):
            # NZ: columns of 16 elements, each of them all rows high.
            element = got[(c // 16) * tiles.rows * 16 + r * 16 + c % 16]
            assert element == source.view(np.uint16)[row + r, col + c]


def test_simulated_side_moves_the_same_bytes_on_one_core() -> None:
    tiles = bench.Tiles(64, 128, 40)
    source = np.zeros(bench.SOURCE, np.float16)
    run = bench.run_copies(load_card("atlas_a2"), tiles, source, tiles.places(L1_BYTES))
    (path,) = run.trace.bandwidth().to_dict("records")
    assert (path["path"], path["instructions"], path["bytes"]) == ("GM-L1", 40, 40 * 16 * 1024)
    assert [core.kind for core in run.columns.cores] == ["aic"]


@pytest.mark.parametrize("stream", bench_calls.STREAMS, ids=lambda stream: stream.api)
def test_streams_of_calls_run_on_one_pipe(stream: bench_calls.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Run] = []
    run_kernel = bench_calls.run_kernel

    def kept(*args: Any) -> Run:
        runs.append(run_kernel(*args))
        return runs[-1]

    monkeypatch.setattr(bench_calls, "run_kernel", kept)
    assert bench_calls.seconds(stream, 6) > 0
    (run,) = runs
    assert run.warnings == []
    assert run.instructions == 6
    rows = run.trace.frame()
    assert set(rows["api"].astype(str) + " " + rows["pipe"].astype(str)) == {APIS[stream.api]}
    assert rows["address"].nunique() == (bench_calls.SLOTS if "" in (stream.dst, stream.src) else 1)


def test_matmul_of_the_benchmark_moves_no_data(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run: Run = bench._matmul(load_card("atlas_a2"))
    assert run.correct is None
    assert run.instructions > 0


def test_figures_are_positive_and_the_ratio_is_theirs(quick: None) -> None:
    said: list[str] = []
    result = bench.run_bench(1, said.append)
    figures = result.as_dict()
    assert list(figures) == FIGURES
    calls = figures.pop("call_us")
    assert list(calls) == list(APIS)
    assert all(value > 0 for value in (*figures.values(), *calls.values()))
    assert result.ratio == pytest.approx(result.instructions_per_s / result.simpy_timeouts_per_s)
    low, high = sorted((result.copy_ratio_16k, result.copy_ratio_256k))
    assert low <= result.copy_ratio <= high
    assert said


def test_command_prints_the_figures_as_json_alone(quick: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", "--repeat", "1"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(document) == FIGURES
    assert list(document["call_us"]) == list(APIS)


def test_command_explains_the_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[int] = []

    def measured(repeat: int, say: Callable[[str], None]) -> bench.Result:
        asked.append(repeat)
        say("never shown")
        return bench.Result(1234567, 800.25, 0.25, 0.5, 0.125, 0.75, 1.5, 300, {api: 7.04 + i for i, api in enumerate(APIS)})

    monkeypatch.setattr(bench, "run_bench", measured)
    assert main(["bench", "--repeat", "3", "-q"]) == 0
    printed = capsys.readouterr()
    words = printed.out.split()
    assert all(name in words for name in (*FIGURES, *APIS))
    shown = dict(pairwise(words))
    assert (shown["instructions_per_s"], shown["ratio"], shown["copy_ratio_16k"]) == ("1,234,567", "0.25", "0.125")
    assert shown["check_ratio"] == "1.5"
    assert [shown[api] for api in APIS] == [f"{7.0 + i:.1f}" for i in range(len(APIS))]
    assert asked == [3]
    assert printed.err == ""
