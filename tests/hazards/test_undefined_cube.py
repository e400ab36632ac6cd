"""How undefined bytes go through Mmad and CastDequant, against models that look at every element.

Row i of A makes row i of C undefined, column j of B column j; a hole anywhere along k counts, what lies past m, n, k does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.kernel import api_vector_fused as fused
from aicore_sim.kernel.api_cube import MmadParams, mmad
from tests.properties.profile import PROPERTY
from tests.properties.test_mmad import fractals, l0c_places, matrix, tile, up
from tests.stage import Place, Stage

Draw = Any
Marks = NDArray[np.bool_]
CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
TYPES = {"int8": "int32", "half": "float", "float": "float"}


def marks_of(stage: Stage, name: str) -> NDArray[np.uint8]:
    """The shadow of a tensor, to write to."""
    buffer = stage[name].buffer
    assert buffer.shadow is not None
    at = stage[name].offset
    view: NDArray[np.uint8] = buffer.shadow[at : at + stage.bytes(name).size]
    return view


def undefine(stage: Stage, name: str, marks: Marks, dtype: str, layout: str, byte: int) -> None:
    """Mark the elements of `marks` that are False as undefined, one byte of each; all that the matrix does not cover too."""
    size = DataType(dtype).bits // 8
    whole = int("01" * size, 16)
    words = np.where(marks, whole, whole & ~(1 << 8 * (byte % size))).astype(f"u{size}")
    marks_of(stage, name)[:] = fractals(words, dtype, layout) == 1


@st.composite
def products(draw: Draw) -> dict[str, Any]:
    m, n, k = draw(st.integers(2, 40)), draw(st.integers(1, 40)), draw(st.integers(1, 70))
    holes = {side: draw(st.lists(st.tuples(st.integers(0, high - 1), st.integers(0, wide - 1)), max_size=4))
             for side, high, wide in (("a", m, k), ("b", k, n), ("c", m, n))}  # fmt: skip
    return {"card": draw(st.sampled_from(CARDS)), "type": draw(st.sampled_from(sorted(TYPES))), "m": m, "n": n, "k": k,
            "holes": holes, "start": draw(st.sampled_from(["zero", "C", "bias"])), "byte": draw(st.integers(0, 3)),
            "seed": draw(st.integers(0, 99))}  # fmt: skip


@PROPERTY
@given(products())
def test_undefined_rows_columns_and_starts_of_a_product(case: dict[str, Any]) -> None:
    m, n, k, dtype, card = case["m"], case["n"], case["k"], case["type"], case["card"]
    rng = np.random.default_rng(case["seed"])
    left = "NZ" if card == "atlas_350" else "ZZ"
    out: Any = np.int32 if dtype == "int8" else np.float32
    places = {
        "a": Place("A2", dtype, fractals(matrix(rng, dtype, m, k)[0], dtype, left)),
        "b": Place("B2", dtype, fractals(matrix(rng, dtype, k, n)[0], dtype, "ZN")),
        "c": Place("CO1", TYPES[dtype], tile(np.ones((m, n)), out), written=True),
        "bias": Place("C2", TYPES[dtype], np.ones(up(n, 16), out)),
    }  # fmt: skip
    stage = Stage(card, places)
    marks = {"a": np.ones((m, k), np.bool_), "b": np.ones((k, n), np.bool_), "c": np.ones((m, n), np.bool_)}
    for side, holes in case["holes"].items():
        for row, column in holes:
            marks[side][row, column] = False
    undefine(stage, "a", marks["a"], dtype, left, case["byte"])
    undefine(stage, "b", marks["b"], dtype, "ZN", case["byte"])
    bias = marks["c"][0] if case["start"] == "bias" else np.ones(n, np.bool_)
    marks_of(stage, "bias")[:] = np.repeat(np.concatenate([bias, np.zeros(up(n, 16) - n, np.bool_)]), 4)
    old = marks_of(stage, "c")
    old.reshape(-1, 4)[l0c_places(m, n).reshape(-1)] = marks["c"].reshape(-1, 1)
    params = MmadParams(m, n, k, cmatrix_init_val=case["start"] == "zero")
    tensors = [stage["c"], stage["a"], stage["b"], *([stage["bias"]] if case["start"] == "bias" else [])]
    stage.call(lambda: mmad(*tensors, params))
    found = marks_of(stage, "c").reshape(-1, 4)
    places_of_c = l0c_places(m, n)
    for i in range(m):
        for j in range(n):
            sure = all(marks["a"][i]) and all(marks["b"][:, j])
            sure = sure and (case["start"] != "C" or bool(marks["c"][i, j])) and bool(bias[j])
            assert found[places_of_c[i, j]].tolist() == [sure] * 4, (i, j)
    inside = np.zeros(len(found), np.bool_)
    inside[places_of_c.reshape(-1)] = True
    assert not found[~inside].any()


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
@pytest.mark.parametrize("lane", [0, 7, 15])
def test_an_undefined_scale_spoils_its_lane_only(card: str, lane: int) -> None:
    stage = Stage(card, {"src": Place("VECIN", "int16", np.arange(64, dtype=np.int16)), "dst": Place("VECIN", "int8", 256),
                         "table": Place("VECIN", "uint64", np.zeros(16, np.uint64))})  # fmt: skip
    stage.recorder.state["deq_scale"] = fused.DeqScale(table=stage["table"], signs=frozenset({True}))
    marks_of(stage, "table")[8 * lane + 3] = 0
    stage.call(lambda: fused.cast_deq(stage["dst"], stage["src"], 64, True, False))
    expected = np.zeros(256, np.bool_)
    for element in range(64):
        expected[element // 16 * 32 + element % 16] = element % 16 != lane
    assert np.array_equal(stage.defined("dst"), expected)
