"""`layout-mismatch`: fractals in the order of another card, and pitches of loads and Mmad that do not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.layouts import LONG, ORDER, SHORT, find, mismatch
from aicore_sim.hazards.model import Hazard
from aicore_sim.launch import Options
from aicore_sim.scenario import load_scenario
from tests.engine.engine_helpers import gm, order

CARDS = ("atlas_a2", "atlas_a3", "atlas_350")
ROWS, K = 32, 64


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def product(
    a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, zz: asc.ConstExpr[bool], laid: asc.ConstExpr[int],
    read: asc.ConstExpr[int], rows: asc.ConstExpr[int], depth: asc.ConstExpr[int],
) -> None:  # fmt: skip
    """C = A x B^T over `depth`, A [rows, K] in L1 with a pitch of `laid` rows, read with one of `read` rows; L0A as ZZ or NZ."""
    a1, b1 = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 16384), asc.LocalTensor(asc.half, asc.TPosition.B1, 65536, 16384)
    a2, b2 = asc.LocalTensor(asc.half, asc.TPosition.A2, 0, 8192), asc.LocalTensor(asc.half, asc.TPosition.B2, 0, 8192)
    co = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 4096)
    asc.data_copy(a1, gm(a), asc.Nd2NzParams(1, rows, K, 0, K, laid, 1, 0))
    asc.data_copy(b1, gm(b), asc.Nd2NzParams(1, ROWS, K, 0, K, ROWS, 1, 0))
    order(asc.HardEvent.MTE2_MTE1)
    high, wide = read // 16, depth // 16
    if zz:
        for i in range(high):
            asc.load_data(a2[i * wide * 256], a1[i * 256], asc.LoadData2DParams(0, wide, high, 0, 0))
    elif asc.npu_arch() == 3510:
        asc.load_data(a2, a1, asc.LoadData2DParamsV2(0, 0, high, wide, high, high))
    else:
        asc.load_data(a2, a1, asc.LoadData2DParams(0, high * wide, 1, 0, 0))
    asc.load_data(b2, b1, asc.LoadData2DParams(0, ROWS // 16 * wide, 1, 0, 0))
    order(asc.HardEvent.MTE1_M)
    asc.mmad(co, a2, b2, asc.MmadParams(min(rows, read) if laid >= read else read, ROWS, depth))


def findings(
    card: str, zz: bool, laid: int = ROWS, read: int = ROWS, rows: int = ROWS, depth: int = K, data: bool = False
) -> list[Hazard]:
    shapes = ((64, K), (ROWS, K), (ROWS, ROWS))
    args = [np.ones(s, np.float16) if data else asc.GmSpec(s, asc.half) for s in shapes]
    run = asc.simulate(product, *args, zz, laid, read, rows, depth, card=card, data=data)
    return find(Facts(run.columns, load_card(card)))


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("data", [True, False])
def test_l0a_in_the_order_of_another_card(card: str, data: bool) -> None:
    wants_zz = card != "atlas_350"
    assert findings(card, wants_zz, data=data) == []
    (found,) = findings(card, not wants_zz, data=data)
    assert (found.kind, found.severity, found.at.api, found.at.pipe) == ("layout-mismatch", "error", "Mmad", "M")
    wanted, held = ("ZZ", "NZ") if wants_zz else ("NZ", "ZZ")
    assert f"as {wanted}" in found.fix
    assert f"laid its fractals down as {held}" in found.detail
    assert found.other is not None
    assert found.other.api == "LoadData"


@pytest.mark.parametrize("card", CARDS)
def test_pitches_that_do_not_go_together(card: str) -> None:
    own = card != "atlas_350"
    (short,) = findings(card, own, laid=48, read=32, rows=48)
    assert "shorter" in short.detail
    (long,) = findings(card, own, laid=32, read=48, rows=32, depth=32)
    assert "longer" in long.detail
    assert findings(card, own, laid=48, read=48, rows=48) == []
    assert findings(card, own, laid=48, read=48, rows=40) == []


def test_one_column_or_one_row_of_fractals_has_no_order() -> None:
    for card in CARDS:
        for zz in (True, False):
            assert findings(card, zz, laid=16, read=16, rows=16) == []


# ---- the rule itself ------------------------------------------------------------------------------------------------
def tile(rows: int, columns: int, pitch: int, place: Any) -> Any:
    """Tags of a matrix laid down by `place(row, column)`."""
    tags = np.full(4 * rows * columns, -1, np.int64)
    for r in range(rows):
        for j in range(columns):
            tags[place(r, j)] = 5000 + r * pitch + 32 * j
    return tags


def nz(high: int) -> Any:
    return lambda r, j: j * high + r


def places(rows: int, columns: int, place: Any) -> Any:
    return np.array([[place(r, j) for j in range(columns)] for r in range(rows)])


def zz(columns: int) -> Any:
    return lambda r, j: (r // 16 * columns + j) * 16 + r % 16


def test_the_rule_on_tiles_of_one_matrix() -> None:
    own, other = places(48, 3, nz(48)), places(48, 3, zz(3))
    one = np.zeros(4 * 48 * 3, np.int64)
    many = np.full_like(one, -1)
    assert mismatch(tile(48, 3, 640, nz(48)), one, own, other) == ""
    assert mismatch(tile(48, 3, 640, zz(3)), one, own, other) == ORDER
    assert mismatch(tile(48, 3, 640, zz(3)), many, own, other) == ORDER
    assert mismatch(tile(64, 3, 640, nz(64)), one, places(48, 2, nz(48)), places(48, 2, zz(2))) == SHORT
    assert mismatch(tile(32, 3, 640, nz(32)), one, places(48, 2, nz(48)), places(48, 2, zz(2))) == LONG
    # NZ in GM: rows 32 B apart, columns a whole height; no ND2NZ, so nothing is known of a pitch.
    assert mismatch(tile(48, 3, 32, nz(48)), many, own, other) == ""


def test_unknown_blocks_gathered_rows_and_moved_columns_are_silent() -> None:
    own, other = places(48, 3, nz(48)), places(48, 3, zz(3))
    one = np.zeros(4 * 48 * 3, np.int64)
    tags = tile(48, 3, 640, zz(3))
    tags[7] = -1
    assert mismatch(tags, one, own, other) == ""
    gathered = tile(48, 3, 640, lambda r, j: j * 48 + (r * 5) % 48)
    assert mismatch(gathered, np.full_like(one, -1), own, other) == ""
    moved = tile(48, 3, 640, lambda r, j: (2 - j) * 48 + r)
    assert mismatch(moved, one, own, other) == ""
    heads = np.array([[5000 + r // 16 * 128 + r % 16 * 640 + 32 * j for r in range(48)] for j in range(3)]).reshape(-1)
    assert mismatch(np.concatenate([heads, heads]), one, own, other) == ""


@pytest.mark.parametrize("card", [*CARDS, "atlas_200i"])
@pytest.mark.parametrize(("name", "words"), [
    ("matmul", ("M=500", "N=300", "K=200")), ("matmul", ("M=100", "N=1000", "K=90")), ("load_transpose", ()),
    ("same_movement", ()), ("mmad_stream", ()),
])  # fmt: skip
def test_right_scenarios_are_clean(name: str, words: tuple[str, ...], card: str) -> None:
    scenario, chosen = load_scenario(name), load_card(card)
    run = scenario.run(chosen, scenario.parse(words), Options(data=False))[0]
    assert find(Facts(run.columns, chosen)) == []
