"""`undefined-read`: the finding, the reason it names and the fix, in a wrong and a right form of each kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import Hazard
from aicore_sim.hazards.undefined import find
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, order, ub

WORDS = np.arange(64, dtype=np.float32)


def findings(kernel: Any, *args: Any, card: str = "atlas_350", **options: Any) -> list[Hazard]:
    run: Run = asc.simulate(kernel, *args, card=card, auto_sync=False, **options)
    return find(Facts(run.columns, load_card(card)))


def line_of(kernel: Any, text: str) -> int:
    """The source line of a kernel in which `text` stands."""
    first: int = kernel.fn.__code__.co_firstlineno
    with open(__file__) as source:
        lines = source.readlines()
    return next(number for number in range(first, len(lines)) if text in lines[number - 1])


# ---- vectors --------------------------------------------------------------------------------------------------------
@asc.jit
def add_a_short_line(x: asc.GlobalAddress, y: asc.GlobalAddress, loaded: asc.ConstExpr[int], times: asc.ConstExpr[int]) -> None:
    a, b, c = ub(asc.float32, 0, 64), ub(asc.float32, 64, 64), ub(asc.float32, 128, 64)
    asc.data_copy(a, gm(x), 64)
    asc.data_copy(b, gm(x), loaded)
    order(asc.HardEvent.MTE2_V)
    asc.add(c, a, b, 64)
    order(asc.HardEvent.V_MTE3)
    for _ in range(times):
        asc.data_copy(gm(y), c, 64)


def test_lanes_of_a_vector_lead_back_to_the_operand_that_was_not_loaded() -> None:
    y = np.zeros(64, np.float32)
    (found,) = findings(add_a_short_line, WORDS, y, 40, 3)
    assert (found.kind, found.severity, found.verdict) == ("undefined-read", "error", "observed")
    assert (found.at.api, found.at.pipe, found.at.line) == ("DataCopy", "MTE3", line_of(add_a_short_line, "gm(y), c"))
    assert (found.tensor, found.address, found.bytes, found.count) == ("y", 160, 96, 3)
    assert found.other is not None
    assert found.other.line == line_of(add_a_short_line, "data_copy(b")
    assert "bytes 416..511 of core0.aiv0 UB were never loaded" in found.fix
    assert findings(add_a_short_line, WORDS, y, 64, 3) == []


@asc.jit
def nothing_loaded(y: asc.GlobalAddress, fill: asc.ConstExpr[bool]) -> None:
    line = ub(asc.float32, 0, 64)
    if fill:
        asc.duplicate(line, 1.0, 64)
        order(asc.HardEvent.V_MTE3)
    asc.data_copy(gm(y), line, 64)


def test_a_buffer_that_nobody_wrote_has_no_other_party() -> None:
    y = np.zeros(64, np.float32)
    (found,) = findings(nothing_loaded, y, False)
    assert found.other is None
    assert "nobody wrote bytes 0..255 of core0.aiv0 UB" in found.detail
    assert findings(nothing_loaded, y, True) == []


# ---- NDDMA padding (pitfall P05) ------------------------------------------------------------------------------------
@asc.jit
def pad_a_row(x: asc.GlobalAddress, y: asc.GlobalAddress, value: asc.ConstExpr) -> None:
    row = ub(asc.float32, 0, 64)
    loops = asc.NdDmaLoopInfo((1,), (1,), (56,), (4,), (4,))
    asc.data_copy(row, gm(x), asc.NdDmaParams(loops, value))
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), row, 64)


def test_padding_without_a_value_is_named() -> None:
    y = np.zeros(64, np.float32)
    (found,) = findings(pad_a_row, WORDS, y, None)
    assert found.fix == "pad value not set: set constant_value"
    assert found.other is not None
    assert found.other.line == line_of(pad_a_row, "NdDmaParams(")
    assert (found.address, found.bytes) == (0, 32)
    assert findings(pad_a_row, WORDS, y, 0.0) == []


# ---- the cube -------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def product(
    a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, rows: asc.ConstExpr[int], m: asc.ConstExpr[int],
    stored: asc.ConstExpr[int],
) -> None:  # fmt: skip
    """C[stored, 32] of A[rows, 32] and B[32, 32]: `rows` of A are loaded, Mmad takes `m`, Fixpipe stores `stored`."""
    a1, b1 = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 1024), asc.LocalTensor(asc.half, asc.TPosition.B1, 4096, 1024)
    a2, b2 = asc.LocalTensor(asc.half, asc.TPosition.A2, 0, 1024), asc.LocalTensor(asc.half, asc.TPosition.B2, 0, 1024)
    co = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 1024)
    asc.data_copy(a1, gm(a), asc.Nd2NzParams(1, rows, 32, 0, 32, 32, 1, 0))
    asc.data_copy(b1, gm(b), asc.Nd2NzParams(1, 32, 32, 0, 32, 32, 1, 0))
    order(asc.HardEvent.MTE2_MTE1)
    if asc.npu_arch() == 3510:
        asc.load_data(a2, a1, asc.LoadData2DParamsV2(0, 0, 2, 2, 2, 2))
        asc.load_data(b2, b1, asc.LoadData2DParamsV2(0, 0, 2, 2, 2, 2))
    else:
        for i in range(2):
            asc.load_data(a2[i * 512], a1[i * 256], asc.LoadData2DParams(0, 2, 2, 0, 0))
            asc.load_data(b2[i * 512], b1[i * 512], asc.LoadData2DParams(0, 2, 1, 0, 0))
    order(asc.HardEvent.MTE1_M)
    asc.mmad(co, a2, b2, asc.MmadParams(m, 32, 32))
    order(asc.HardEvent.M_FIX)
    if asc.npu_arch() == 3510:
        asc.fixpipe(gm(c), co, asc.FixpipeParamsArch3510(32, stored, 32, 32), asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR))
    else:
        asc.fixpipe(gm(c), co, asc.FixpipeParamsV220(32, stored, 32, 32), asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR))


def cube(card: str, rows: int, m: int, stored: int) -> list[Hazard]:
    a, b = np.ones((32, 32), np.float16), np.ones((32, 32), np.float16)
    return findings(product, a, b, np.zeros((32, 32), np.float32), rows, m, stored, card=card)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_rows_of_a_that_were_never_loaded(card: str) -> None:
    (found,) = cube(card, 20, 32, 32)
    assert (found.at.api, found.tensor, found.address, found.bytes) == ("Fixpipe", "c", 20 * 128, 12 * 128)
    assert found.other is not None
    assert found.other.line == line_of(product, "rows, 32, 0, 32, 32, 1, 0")
    assert "bytes 640..1023 of core0.aic L1 were never loaded" in found.fix


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_junk_rows_of_a_tail_tile_are_legal_until_they_are_stored(card: str) -> None:
    assert cube(card, 20, 20, 20) == []
    assert cube(card, 20, 32, 20) == []
    (found,) = cube(card, 20, 20, 24)
    assert (found.address, found.bytes) == (20 * 128, 4 * 128)


# ---- scalars --------------------------------------------------------------------------------------------------------
@asc.jit
def branch_on_a_word(x: asc.GlobalAddress, y: asc.GlobalAddress, index: asc.ConstExpr[int]) -> None:
    line = ub(asc.int32, 0, 16)
    asc.data_copy(line, gm(x), 8)
    order(asc.HardEvent.MTE2_S)
    if line.get_value(index) == 3:
        gm(y).set_value(0, 1)


def test_a_branch_on_a_word_that_was_not_loaded() -> None:
    x, y = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    (found,) = findings(branch_on_a_word, x, y, 9)
    assert (found.at.api, found.at.pipe, found.at.line) == ("GetValue", "S", line_of(branch_on_a_word, "get_value"))
    assert (found.address, found.bytes) == (36, 4)
    assert findings(branch_on_a_word, x, y, 7) == []


def test_a_run_without_data_finds_nothing() -> None:
    spec = asc.GmSpec((64,), asc.float32)
    assert findings(add_a_short_line, spec, spec, 40, 1, data=False) == []


def test_two_runs_find_the_same() -> None:
    first, second = (findings(add_a_short_line, WORDS, np.zeros(64, np.float32), 40, 3) for _ in range(2))
    assert first == second
