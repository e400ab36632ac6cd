"""What the engine files about undefined bytes: which stores and loads, which bytes, and that legal junk stays unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.engine.audit import Incident
from aicore_sim.engine.undefined import UNDEFINED_LOAD, UNDEFINED_STORE, undefined_runs
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario
from aicore_sim.transfer import Transfer, strided_copy
from tests.engine.engine_helpers import gm, order, ub
from tests.properties.profile import PROPERTY

WORDS = np.arange(64, dtype=np.float32)


def incidents(run: Run) -> tuple[Incident, ...]:
    assert run.columns.audit is not None
    return run.columns.audit.incidents


@asc.jit
def store_more_than_was_loaded(x: asc.GlobalAddress, y: asc.GlobalAddress, loaded: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, 64)
    asc.data_copy(line, gm(x), loaded)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), line, 64)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"])
def test_a_store_of_bytes_that_nobody_loaded(card: str) -> None:
    y = np.zeros(64, np.float32)
    (found,) = incidents(asc.simulate(store_more_than_was_loaded, WORDS, y, 48, card=card, auto_sync=False))
    assert (found.kind, found.core, found.lo, found.hi) == (UNDEFINED_STORE, 0, 48 * 4, 64 * 4)
    assert found.uid == -2  # y, the second allocation
    assert incidents(asc.simulate(store_more_than_was_loaded, WORDS, y, 64, card=card, auto_sync=False)) == ()


def test_nothing_is_filed_without_data_or_checks() -> None:
    spec = asc.GmSpec((64,), asc.float32)
    assert incidents(asc.simulate(store_more_than_was_loaded, spec, spec, 48, data=False, auto_sync=False)) == ()
    run = asc.simulate(store_more_than_was_loaded, WORDS, np.zeros(64, np.float32), 48, checks=False, auto_sync=False)
    assert run.columns.audit is None


@asc.jit
def rows_with_gaps(x: asc.GlobalAddress, y: asc.GlobalAddress, length: asc.ConstExpr[int]) -> None:
    """4 rows of 40 B with a pitch of 96 B in UB, of which 64 B are written. Stored: `length` bytes of each row, 80 B apart."""
    rows = ub(asc.float32, 0, 96)
    asc.data_copy_pad(rows, gm(x), asc.DataCopyExtParams(4, 40, 24, 1), asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0))
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy_pad(gm(y), rows, asc.DataCopyExtParams(4, length, 2 - (length - 1) // 32, 80 - length))


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_junk_between_rows_is_filed_only_where_it_is_stored(card: str) -> None:
    y = np.zeros(80, np.float32)
    assert incidents(asc.simulate(rows_with_gaps, WORDS, y, 40, card=card, auto_sync=False)) == ()
    found = incidents(asc.simulate(rows_with_gaps, WORDS, y, 72, card=card, auto_sync=False))
    assert [(i.lo, i.hi) for i in found] == [(80 * r + 64, 80 * r + 72) for r in range(4)]


@asc.jit
def read_a_word(x: asc.GlobalAddress, y: asc.GlobalAddress, index: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, 64)
    asc.data_copy(line, gm(x), 32)
    order(asc.HardEvent.MTE2_S)
    if line.get_value(index) > 3:
        gm(y).set_value(0, 1.0)


def test_a_scalar_load_of_bytes_that_nobody_loaded() -> None:
    y = np.zeros(64, np.float32)
    (found,) = incidents(asc.simulate(read_a_word, WORDS, y, 32, auto_sync=False))
    assert (found.kind, found.lo, found.hi) == (UNDEFINED_LOAD, 128, 132)
    assert incidents(asc.simulate(read_a_word, WORDS, y, 31, auto_sync=False)) == ()


@asc.jit
def read_back_through_the_cache(x: asc.GlobalAddress, y: asc.GlobalAddress, index: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, 64)
    asc.data_copy(line, gm(x), 48)
    order(asc.HardEvent.MTE2_MTE3)
    asc.data_copy(gm(y), line, 64)
    order(asc.HardEvent.MTE3_S)
    gm(y).get_value(index)


def test_a_scalar_load_through_the_cache_knows_what_is_defined() -> None:
    y = np.zeros(64, np.float32)
    found = incidents(asc.simulate(read_back_through_the_cache, WORDS, y, 50, auto_sync=False))
    assert [(i.kind, i.lo, i.hi) for i in found] == [(UNDEFINED_STORE, 192, 256), (UNDEFINED_LOAD, 200, 204)]
    found = incidents(asc.simulate(read_back_through_the_cache, WORDS, y, 4, auto_sync=False))
    assert [i.kind for i in found] == [UNDEFINED_STORE]


@asc.jit
def add_up(x: asc.GlobalAddress, y: asc.GlobalAddress, loaded: asc.ConstExpr[int]) -> None:
    line = ub(asc.float32, 0, 64)
    asc.data_copy(line, gm(x), loaded)
    order(asc.HardEvent.MTE2_MTE3)
    asc.set_atomic_add(asc.float32)
    asc.data_copy(gm(y), line, 64)
    asc.set_atomic_none()


def test_an_atomic_store_of_undefined_bytes() -> None:
    found = incidents(asc.simulate(add_up, WORDS, np.ones(64, np.float32), 56, auto_sync=False))
    assert [(i.kind, i.lo, i.hi) for i in found] == [(UNDEFINED_STORE, 224, 256)]
    assert incidents(asc.simulate(add_up, WORDS, np.ones(64, np.float32), 64, auto_sync=False)) == ()


# ---- the right kernels ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"])
@pytest.mark.parametrize(("name", "words"), [
    ("matmul", ("M=500", "N=300", "K=200")), ("add", ("rows=33", "cols=515")), ("copies", ()),
])  # fmt: skip
def test_tails_leave_no_undefined_byte_in_gm(name: str, words: tuple[str, ...], card: str) -> None:
    scenario = load_scenario(name)
    run = scenario.run(load_card(card), scenario.parse(words), Options())[0]
    assert run.correct
    assert incidents(run) == ()


# ---- exact bytes ----------------------------------------------------------------------------------------------------
@PROPERTY
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 9), st.integers(1, 4), st.integers(0, 60), st.data())
def test_undefined_runs_byte_by_byte(item: int, rows: int, gap: int, outer: int, base: int, data: st.DataObject) -> None:
    pitch = item + gap
    runs = Transfer(strided_copy(item, (outer, rows), 0, (item * rows, item), 3, (rows * pitch + 5, pitch))).dst_runs
    shadow: NDArray[np.uint8] = np.array(data.draw(st.lists(st.integers(0, 1), min_size=600, max_size=600)), np.uint8)
    end = data.draw(st.integers(0, 600))
    written = {base + 3 + o * (rows * pitch + 5) + r * pitch + b for o in range(outer) for r in range(rows) for b in range(item)}
    holes = sorted(at for at in written if not shadow[at] and at < end)
    expected: list[Any] = []
    for at in holes:
        if expected and expected[-1][1] == at:
            expected[-1][1] = at + 1
        else:
            expected.append([at, at + 1])
    assert undefined_runs(shadow, base, runs, end) == [tuple(run) for run in expected]
