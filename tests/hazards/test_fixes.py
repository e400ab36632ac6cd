"""The calls that findings propose."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from aicore_sim.cards import load_card
from aicore_sim.hazards import fixes
from aicore_sim.hazards.model import Insertion, Party
from aicore_sim.instructions.base import Pipe


def test_statement_is_put_before_or_behind() -> None:
    words, places = fixes.statement("asc.nd_dma_dci()", "k.py", 7)
    assert words == "add asc.nd_dma_dci() before line 7"
    assert places == (Insertion("k.py", 7, "asc.nd_dma_dci()"),)
    words, places = fixes.statement("f()", "k.py", 7, after=True)
    assert words == "add f() behind line 7"
    assert places == (Insertion("k.py", 7, "f()", after=True),)


def test_flag_pair_sets_then_waits() -> None:
    words, places = fixes.flag_pair(Pipe.MTE2, Pipe.V, 3, "k.py", 12)
    assert [place.code for place in places] == [
        "asc.set_flag(asc.HardEvent.MTE2_V, 3)", "asc.wait_flag(asc.HardEvent.MTE2_V, 3)",
    ]  # fmt: skip
    assert {(place.file, place.line, place.after) for place in places} == {("k.py", 12, False)}
    assert words == f"add {places[0].code}; {places[1].code} before line 12"


def test_pairs_without_an_event_use_tquesync() -> None:
    _, places = fixes.flag_pair(Pipe.S, Pipe.FIX, 1, "k.py", 5)
    pair = "asc.TQueSync(asc.PipeID.PIPE_S, asc.PipeID.PIPE_FIX)"
    assert [place.code for place in places] == [f"{pair}.set_flag(1)", f"{pair}.wait_flag(1)"]


@pytest.mark.parametrize(
    ("card", "kind", "source", "destination", "event"),
    [
        ("atlas_a2", "aic", Pipe.MTE3, Pipe.MTE2, True),
        ("atlas_350", "aic", Pipe.MTE3, Pipe.MTE2, False),
        ("atlas_350", "aiv", Pipe.MTE3, Pipe.MTE2, True),
        ("atlas_a2", "aiv", Pipe.M, Pipe.FIX, False),
        ("atlas_200i", "core", Pipe.M, Pipe.FIX, True),
    ],
)
def test_event_must_exist_on_the_core(card: str, kind: str, source: Pipe, destination: Pipe, event: bool) -> None:
    _, places = fixes.flag_pair(source, destination, 0, "k.py", 5, card=load_card(card), kind=kind)
    assert ("HardEvent" in places[0].code, "TQueSync" in places[0].code) == (event, not event)


def test_without_a_free_id_or_a_second_pipe_it_is_a_barrier() -> None:
    assert fixes.flag_pair(Pipe.MTE2, Pipe.V, None, "k.py", 5)[1][0].code == "asc.pipe_barrier(asc.PipeID.PIPE_ALL)"
    assert fixes.flag_pair(Pipe.V, Pipe.V, 0, "k.py", 5)[1][0].code == "asc.pipe_barrier(asc.PipeID.PIPE_V)"
    assert fixes.barrier(Pipe.S, "k.py", 5) == fixes.NO_FIX


def test_core_kind_of_a_label() -> None:
    assert [fixes.core_kind(label) for label in ("core0.aiv1", "core12.aic", "core3")] == ["aiv", "aic", "core"]


KERNEL = """\
flags.set_value(
    i + 1, 5)
x = read_gm_by_pass_dcache(done) + 1
y = a.get_value(0) + b.get_value(0)
while asc.read_gm_by_pass_dcache(addr=done):
    pass
z = a.get_value(offset=2)
c.set_value(i, a.get_value(i))
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    linecache.checkcache(str(file))
    return str(file)


def test_scalar_operand_is_read_from_the_source(kernel: str) -> None:
    loads = [fixes.scalar_operand(kernel, line, "get_value") for line in range(1, 9)]
    stores = [fixes.scalar_operand(kernel, line, "set_value") for line in range(1, 9)]
    assert loads == [None, None, None, None, None, None, "a[2]", "a[i]"]
    assert stores == ["flags[i + 1]", "flags[i + 1]", None, None, None, None, None, "c[i]"]
    assert fixes.scalar_operand("nowhere.py", 1, "get_value") is None


def test_cleaning_a_line_names_the_tensor(kernel: str) -> None:
    _, places = fixes.clean_line(kernel, 1, after=True, barrier=True)
    assert [(place.line, place.code, place.after) for place in places] == [
        (1, "asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, flags[i + 1])", True),
        (1, "asc.data_sync_barrier(asc.MemDsbT.DDR)", True),
    ]  # fmt: skip
    assert fixes.clean_line(kernel, 4, after=False) == fixes.NO_FIX


CORES = """\
def kernel(x, core):
    if core == 0:
        for t in range(4):
            write(t)
    else:
        wait()
    for t in range(4):
        read(t)
        if t:
            write(t)
        for u in range(t): read(u)

def helper(x):
    read(x)
"""


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        (4, 8, 7),  # outside both loops and the branch
        (8, 4, 2),
        (8, 10, 9),  # inside the loop that has both
        (10, 8, 8),
        (10, 11, 11),
        (8, 8, 8),
        (4, 6, 6),  # branches that exclude each other: right before it
        (4, 14, 14),  # not in one function
    ],
)
def test_meetings_are_where_all_cores_pass(tmp_path: Path, first: int, second: int, line: int) -> None:
    file = tmp_path / "cores.py"
    file.write_text(CORES)
    parties = [Party(f"core{n}.aiv0", "MTE2", "DataCopy", str(file), at, 0.0) for n, at in enumerate((first, second))]
    words, places = fixes.meeting("asc.sync_all()", *parties)
    assert places == (Insertion(str(file), line, "asc.sync_all()"),)
    assert words == f"add asc.sync_all() before line {line}"


def test_meetings_without_source_are_right_before_the_second() -> None:
    parties = [Party("core0.aiv0", "MTE2", "DataCopy", file, 5, 0.0) for file in ("nowhere.py", "nowhere.py")]
    assert fixes.meeting("asc.sync_all()", *parties)[1][0].line == 5
