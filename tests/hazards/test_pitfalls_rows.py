"""Pitfalls of rows that are padded or no whole blocks (spec pitfalls.md, P05 and P11): what lies behind them is undefined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, SEPARATE, Flags, marks
from tests.hazards.wrong_forms import Made, the_fault

# ---- P05: padding of NDDMA --------------------------------------------------------------------------------------------
ROWS, VALID, LEFT, RIGHT = 4, 24, 3, 5


@asc.jit(kernel_type=AIV)
def pad_rows(x: asc.GlobalAddress, y: asc.GlobalAddress, value: asc.ConstExpr):
    """Rows of VALID elements with LEFT and RIGHT of padding."""
    flags, wide = Flags(), LEFT + VALID + RIGHT
    tile = ub(x.dtype, 0, ROWS * wide)
    loops = asc.NdDmaLoopInfo((1, VALID), (1, wide), (VALID, ROWS), (LEFT, 0), (RIGHT, 0))
    asc.data_copy(tile, gm(x), asc.NdDmaParams(loops, value))  # @pad
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), tile, ROWS * wide)  # @padded_store


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_p05_padding_without_a_value(dtype: Any) -> None:
    x, wide = np.arange(1, ROWS * VALID + 1).astype(dtype), LEFT + VALID + RIGHT
    expected = np.pad(x.reshape(ROWS, VALID), ((0, 0), (LEFT, RIGHT)), constant_values=9)

    def run(value: int | None) -> Made:
        y = np.full((ROWS, wide), 77, dtype)
        return asc.simulate(pad_rows, x, y, value), y

    right, y = run(9)
    asc.assert_clean(right)
    assert np.array_equal(y, expected)
    wrong, y = run(None)
    hazard = the_fault(wrong, "undefined-read", "padded_store", "pad")
    assert hazard.fix == "pad value not set: set constant_value"
    assert (hazard.address, hazard.bytes) == (0, ROWS * (LEFT + RIGHT) * x.itemsize)
    assert np.array_equal(y[:, LEFT : LEFT + VALID], expected[:, LEFT : LEFT + VALID])
    assert not np.array_equal(y, expected)


# ---- P11: rows of UB --------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def two_rows(x: asc.GlobalAddress, y: asc.GlobalAddress, load: asc.ConstExpr, store: asc.ConstExpr, right: asc.ConstExpr[int]):
    """[2, 9] halves through UB, `load`ed and `store`d as rows or as one burst, rows with `right` elements of padding."""
    flags, pad = Flags(), asc.DataCopyPadExtParams(x.dtype, False, 0, right, 0)
    forms = {"rows": asc.DataCopyExtParams(2, 18, 0, 0), "burst": asc.DataCopyExtParams(1, 36, 0, 0)}
    tile = ub(x.dtype, 0, 32)
    asc.data_copy_pad(tile, gm(x), forms[load], pad)  # @rows_load
    flags.order("MTE2_MTE3")
    asc.data_copy_pad(gm(y), tile, forms[store])  # @rows_store


HALVES = np.arange(1, 19).astype(np.float16)


def through_ub(card: str, load: str, store: str, right: int = 0) -> Made:
    y = np.zeros(18, np.float16)
    return asc.simulate(two_rows, HALVES, y, load, store, right, card=card), y


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("form", ["rows", "burst"])
def test_p11_both_sides_agree_on_the_rows(card: str, form: str) -> None:
    run, y = through_ub(card, form, form)
    asc.assert_clean(run)
    assert np.array_equal(y, HALVES)


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize(("load", "store", "rows"), [("rows", "burst", "rows_load"), ("burst", "rows", "rows_store")])
def test_p11_rows_of_ub_start_at_blocks_of_their_own(card: str, load: str, store: str, rows: str) -> None:
    run, y = through_ub(card, load, store)
    # The second row lies at byte 32 of UB, and the end of a block is filled with its first element (spec api_semantics.md 9.2).
    in_ub = {"rows": [*HALVES[:9], *[HALVES[0]] * 7, *HALVES[9:]], "burst": [*HALVES, *[HALVES[0]] * 14]}[load]
    assert y.tolist() == {"rows": [*in_ub[:9], *in_ub[16:25]], "burst": in_ub[:18]}[store]
    assert not np.array_equal(y, HALVES)
    assert [marks(file)[line] for text, file, line, _ in run.warnings if "18 B" in text and "32 B apart" in text] == [rows]


@pytest.mark.parametrize("card", SEPARATE)
def test_p11_padding_between_the_rows_without_a_value(card: str) -> None:
    run, y = through_ub(card, "rows", "burst", 7)
    assert not np.array_equal(y, HALVES)
    hazard = the_fault(run, "undefined-read", "rows_store", "rows_load")
    assert (hazard.tensor, hazard.address, hazard.bytes) == ("y", 18, 14)
    run, y = through_ub(card, "rows", "rows", 7)
    asc.assert_clean(run)
    assert np.array_equal(y, HALVES)
