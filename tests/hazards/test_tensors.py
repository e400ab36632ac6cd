"""Tensors that are left, laid over each other, or written twice by one call: wrong and right forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.hazards import overlaps, tensors
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import Hazard
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario
from tests.engine.engine_helpers import gm, order, ub

WORDS = np.arange(256, dtype=np.float32)


def findings(kernel: Any, *args: Any, card: str = "atlas_350", **options: Any) -> list[Hazard]:
    return found_in(asc.simulate(kernel, *args, card=card, auto_sync=False, **options), card)


def found_in(run: Run, card: str) -> list[Hazard]:
    facts = Facts(run.columns, load_card(card))
    return [*tensors.find(facts), *overlaps.find(facts)]


def line_of(kernel: Any, text: str) -> int:
    """The first source line of a kernel in which `text` stands."""
    first: int = kernel.fn.__code__.co_firstlineno
    with open(__file__) as source:
        lines = source.readlines()
    return next(number for number in range(first, len(lines)) if text in lines[number - 1])


def zeros() -> Any:
    return np.zeros(256, np.float32)


# ---- out of the tensor, out of the argument -------------------------------------------------------------------------
@asc.jit
def load(x: asc.GlobalAddress, y: asc.GlobalAddress, size: asc.ConstExpr[int], times: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, size)
    for _ in range(times):
        asc.data_copy(line, gm(x), 64)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), line, size)


@pytest.mark.parametrize("data", [True, False])
def test_a_copy_behind_its_tensor(data: bool) -> None:
    args = (WORDS, zeros()) if data else (asc.GmSpec((256,), asc.float32),) * 2
    (found,) = findings(load, *args, 48, 5, data=data)
    assert (found.kind, found.severity, found.count) == ("out-of-tensor", "warning", 5)
    assert (found.at.api, found.at.line) == ("DataCopy", line_of(load, "data_copy(line"))
    assert (found.address, found.bytes) == (192, 64)
    assert findings(load, *args, 64, 5, data=data) == []


@asc.jit
def tail(x: asc.GlobalAddress, y: asc.GlobalAddress, count: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, 64)
    asc.data_copy(line, gm(x), count)
    order(asc.HardEvent.MTE2_S)
    line.get_value(3)


def test_a_copy_behind_its_argument() -> None:
    x = np.arange(50, dtype=np.float32)
    (found,) = findings(tail, x, zeros(), 56, slack_is_warning=True)
    assert (found.kind, found.severity, found.tensor) == ("gm-out-of-bounds", "warning", "x")
    assert (found.address, found.bytes, found.at.line) == (200, 24, line_of(tail, "data_copy(line"))
    assert findings(tail, x, zeros(), 48, slack_is_warning=True) == []


@asc.jit
def word(x: asc.GlobalAddress, index: asc.ConstExpr[int]) -> None:
    both = ub(asc.int32, 0, 16)
    asc.data_copy(both, gm(x), 16)
    order(asc.HardEvent.MTE2_S)
    both[8].get_value(0)
    ub(asc.int32, 0, 8).get_value(index)


def test_a_scalar_load_behind_its_tensor() -> None:
    (found,) = findings(word, np.arange(16, dtype=np.int32), 9)
    assert (found.kind, found.at.pipe, found.address, found.bytes) == ("out-of-tensor", "S", 32, 8)
    assert findings(word, np.arange(16, dtype=np.int32), 7) == []


# ---- two declarations -----------------------------------------------------------------------------------------------
@asc.jit
def two_lines(x: asc.GlobalAddress, y: asc.GlobalAddress, second: asc.ConstExpr[int], read_first: asc.ConstExpr[bool]) -> None:
    """Load a, load b (from element `second`), store both; or store a before b is loaded."""
    a = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
    b = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, second * 4, 64)
    asc.data_copy(a, gm(x), 64)
    if read_first:
        order(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(gm(y), a, 64)
        order(asc.HardEvent.MTE3_MTE2)
    asc.data_copy(b, gm(x, 64), 64)
    order(asc.HardEvent.MTE2_MTE3)
    if not read_first:
        asc.data_copy(gm(y), a, 64)
    asc.data_copy(gm(y, 64), b, 64)


@pytest.mark.parametrize("second", [0, 40])
@pytest.mark.parametrize("data", [True, False])
def test_a_live_tensor_under_another_one(second: int, data: bool) -> None:
    args = (WORDS, zeros()) if data else (asc.GmSpec((256,), asc.float32),) * 2
    (found,) = findings(two_lines, *args, second, False, data=data)
    assert (found.kind, found.severity) == ("live-overlap", "warning")
    assert (found.address, found.bytes) == (second * 4, 256 - second * 4)
    assert found.other is not None
    assert found.other.line == line_of(two_lines, "data_copy(b")
    assert found.at.line == line_of(two_lines, "if not read_first") + 1
    for name in ("VECIN, 0, 64", "VECIN, second"):
        assert f"(line {line_of(two_lines, name)})" in found.detail


def test_memory_that_is_used_again_after_it_was_read() -> None:
    assert findings(two_lines, WORDS, zeros(), 40, True) == []
    assert findings(two_lines, WORDS, zeros(), 0, True) == []
    assert findings(two_lines, WORDS, zeros(), 64, False) == []


@asc.jit
def views(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    """Slices, casts, work in place, a second declaration over a filled one, and one inside another."""
    a = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
    asc.data_copy(a, gm(x), 64)
    asc.data_copy(a[32], gm(x, 64), 32)
    asc.data_copy(a.reinterpret_cast(asc.int32).reinterpret_cast(asc.float32), gm(x), 16)
    order(asc.HardEvent.MTE2_V)
    again = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)
    asc.add(again, again, again, 64)
    order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), a, 64)
    zero = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 1024, 64)
    part = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 1024, 48)
    asc.duplicate(zero, 0.0, 64)
    order(asc.HardEvent.V_MTE2)
    asc.data_copy(part, gm(x), 48)
    inner = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 1024 + 128, 8)
    asc.data_copy(inner, gm(x), 8)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), zero, 64)


def test_views_of_one_tensor_are_silent() -> None:
    assert findings(views, WORDS, zeros()) == []


@asc.jit
def slots_of_one_line(x: asc.GlobalAddress, y: asc.GlobalAddress, pitch: asc.ConstExpr[int], again: asc.ConstExpr[bool]) -> None:
    """Two slots `pitch` elements apart, both loaded, then stored; or windows of one buffer, cut out again for every call."""
    slots = [ub(asc.float32, i * pitch, 64) for i in range(2)]
    for i in range(2):
        asc.data_copy(ub(asc.float32, i * pitch, 64) if again else slots[i], gm(x, 64 * i), 64)
    order(asc.HardEvent.MTE2_MTE3)
    for i in range(2):
        asc.data_copy(gm(y, 64 * i), ub(asc.float32, i * pitch, 64) if again else slots[i], 64)


def test_slots_that_one_line_declares_too_close() -> None:
    (found,) = findings(slots_of_one_line, WORDS, zeros(), 40, False)
    assert (found.kind, found.address, found.bytes) == ("live-overlap", 160, 96)
    assert findings(slots_of_one_line, WORDS, zeros(), 64, False) == []
    assert findings(slots_of_one_line, WORDS, zeros(), 40, True) == []


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def image_over_weights(w: asc.GlobalAddress, x: asc.GlobalAddress, rows: asc.ConstExpr[int]) -> None:
    """Pitfall P16: `rows` of an image of which 16 have room, in front of the weights."""
    image = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 16 * 16)
    weights = asc.LocalTensor(asc.half, asc.TPosition.B1, 512, 16 * 16)
    l0b = asc.LocalTensor(asc.half, asc.TPosition.B2, 0, 16 * 16)
    asc.data_copy(weights, gm(w), asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
    asc.data_copy(image, gm(x), asc.Nd2NzParams(1, rows, 16, 0, 16, rows, 1, 0))
    order(asc.HardEvent.MTE2_MTE1)
    asc.load_data(l0b, weights, asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1))


def test_an_image_that_runs_into_the_weights() -> None:
    w, x = np.ones((16, 16), np.float16), np.ones((32, 16), np.float16)
    found = findings(image_over_weights, w, x, 20)
    assert [one.kind for one in found] == ["out-of-tensor", "live-overlap"]
    assert (found[1].address, found[1].bytes) == (512, 128)
    assert found[1].at.api == "LoadData"
    assert "keep DataCopy inside its tensor" in found[1].fix
    assert findings(image_over_weights, w, x, 16) == []


@asc.jit
def queued(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    pipe = asc.TPipe()
    que, out = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2)
    pipe.init_buffer(que=que, num=2, len=256)
    pipe.init_buffer(que=out, num=2, len=256)
    for i in range(4):
        one = que.alloc_tensor(asc.float32)
        asc.data_copy(one, gm(x, 64 * i), 64)
        que.enque(one)
        one = que.deque(asc.float32)
        result = out.alloc_tensor(asc.float32)
        asc.add(result, one, one, 64)
        que.free_tensor(one)
        out.enque(result)
        result = out.deque(asc.float32)
        asc.data_copy(gm(y, 64 * i), result, 64)
        out.free_tensor(result)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_slots_of_queues_are_silent(card: str) -> None:
    assert findings(queued, WORDS, zeros(), card=card) == []


# ---- one call -------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def narrow_pitch(x: asc.GlobalAddress, pitch: asc.ConstExpr[int]) -> None:
    tile = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 2048)
    asc.data_copy(tile, gm(x), asc.Nd2NzParams(1, 20, 32, 0, 32, pitch, 1, 0))


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_fractal_columns_that_overlap(card: str) -> None:
    x = np.ones((32, 32), np.float16)
    (found,) = findings(narrow_pitch, x, 16, card=card)
    assert (found.kind, found.severity, found.at.api) == ("dst-overlap", "warning", "DataCopy")
    # Column 1 starts at row 16 of column 0, whose rows 16..19 it overwrites.
    assert found.address == 512
    assert findings(narrow_pitch, x, 20, card=card) == []
    assert findings(narrow_pitch, x, 32, card=card) == []


# ---- right kernels --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"])
@pytest.mark.parametrize(("name", "words"), [
    ("matmul", ("M=500", "N=300", "K=200")), ("add", ("rows=33", "cols=515")), ("copies", ()), ("load_transpose", ()),
    ("same_movement", ()),
])  # fmt: skip
def test_right_scenarios_are_clean(name: str, words: tuple[str, ...], card: str) -> None:
    scenario, chosen = load_scenario(name), load_card(card)
    run = scenario.run(chosen, scenario.parse(words), Options())[0]
    assert found_in(run, card) == []

