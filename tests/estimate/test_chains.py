"""Every chain moves the right bytes: its calls performed one after another, against the layouts by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError
from aicore_sim.estimate.chains import Chain, chains
from aicore_sim.estimate.request import Matrix, Request, normal
from aicore_sim.estimate.steps import Part
from aicore_sim.layouts import element_positions, to_layout
from tests.stage import CARDS, Place, Stage, the_card

POSITION = {"GM": "GM", "L1": "B1", "L0A": "A2", "L0B": "B2", "L0C": "CO1", "UB": "VECIN"}
NUMPY: dict[str, Any] = {"half": np.float16, "float": np.float32, "int8": np.int8, "bfloat16": np.uint16}
WHOLE, TAILS = (64, 96), (40, 70)
ROOM = 96 * 1024
L0_LAYOUT = {"L0A": {2201: "ZZ", 3002: "ZZ", 3510: "NZ"}}


def usual_layout(card: str, buffer: str) -> str:
    arch = the_card(card).npu_arch
    return "NZ" if buffer == "L1" else "ZN" if buffer == "L0B" else L0_LAYOUT["L0A"][arch] if buffer == "L0A" else "ND"


def numbers(shape: tuple[int, int], dtype: str) -> NDArray[Any]:
    """Whole numbers that every type holds; of two bytes all different."""
    count = shape[0] * shape[1]
    flat = np.arange(count) % 251 - 125 if dtype == "int8" else np.arange(count) % 2048
    return flat.astype(NUMPY[dtype]).reshape(shape)


def perform(card: str, chain: Chain, matrix: NDArray[Any], layout: str, dtype: str) -> Stage:
    """The chain's calls on a stage that holds the stored matrix at the source."""
    kind = DataType(dtype)
    raw = to_layout(matrix.astype(np.float32), "L0C", DataType("float")) if layout == "L0C" else to_layout(matrix, layout, kind)
    places = {"0": Place(POSITION[chain.memories[0]], "float" if layout == "L0C" else dtype, raw)}
    for number, memory in enumerate(chain.memories[1:], 1):
        room = {"UB": 40 * 1024, "L0A": 48 * 1024, "L0B": 48 * 1024}.get(memory, ROOM)
        places[str(number)] = Place(POSITION[memory], dtype, room)
    stage = Stage(card, places)
    part = Part(*matrix.shape, *matrix.shape, kind)
    if chain.flat:
        part = Part(1, matrix.size, 1, matrix.size, kind)
    for number, step in enumerate(chain.steps):
        core = "core" if the_card(card).coupled else step.core
        mine = chain.part_at(number, part)
        stage.call(lambda i=number, s=step, p=mine: s.issue(stage[str(i + 1)], stage[str(i)], p), core=core)
    return stage


def arrived(stage: Stage, chain: Chain, wanted: NDArray[Any], layout: str, dtype: str, deep: int) -> NDArray[Any]:
    """The elements of the wanted matrix as the destination holds them; `deep` columns may be padded to this unit."""
    kind = DataType(dtype)
    rows, cols = wanted.shape
    if layout in ("ZZ", "NZ", "ZN"):
        padded = (-(-rows // deep) * deep, -(-cols // deep) * deep)
        at = element_positions(padded, layout, kind)[:rows, :cols]
    else:
        at = np.arange(wanted.size).reshape(wanted.shape)
    return stage.words(str(len(chain.steps))).view(NUMPY[dtype])[at]


CASES = [
    ("GM", "L1", "ND"), ("GM", "L1", "DN"), ("GM", "L1", "NZ"), ("GM", "L1", "ZN"),
    ("GM", "L0A", "ND"), ("GM", "L0A", "DN"), ("GM", "L0A", "NZ"), ("GM", "L0A", "ZN"),
    ("GM", "L0B", "ND"), ("GM", "L0B", "DN"), ("GM", "L0B", "NZ"), ("GM", "L0B", "ZN"),
    ("L1", "L0A", "NZ"), ("L1", "L0A", "ZN"), ("L1", "L0B", "NZ"), ("L1", "L0B", "ZN"),
    ("GM", "UB", "ND"), ("GM", "UB", "DN"), ("GM", "UB", "NZ"), ("UB", "GM", "ND"), ("UB", "L1", "ND"), ("UB", "L0B", "ND"),
    ("GM", "GM", "ND"), ("UB", "UB", "ND"), ("L1", "UB", "NZ"), ("L1", "GM", "NZ"), ("L0C", "GM", ""), ("L0C", "L1", ""),
    ("L0C", "UB", ""), ("L0C", "L0A", ""), ("UB", "L0A", "DN"), ("UB", "L1", "DN"),
]  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("transpose", [False, True], ids=["", "transpose"])
@pytest.mark.parametrize(("src", "dst", "layout"), CASES)
@pytest.mark.parametrize("dtype", ["half", "float", "int8"])
def test_what_a_chain_moves_arrives_in_the_usual_layout(
    card: str, dtype: str, src: str, dst: str, layout: str, transpose: bool
) -> None:
    """Chains that the calls accept, on whole fractals and with tails; a refusal must be a readable error."""
    kind = DataType(dtype)
    for shape in (WHOLE, TAILS):
        given = numbers(shape, dtype)
        wanted = given.T if transpose else given
        found = normal(Request(src, dst, *shape, kind, layout, transpose), src, the_card(card), dst)
        if isinstance(found, str):
            continue
        stored = given.T if layout in ("DN", "ZN") else given
        assert stored.shape == (found.rows, found.cols)
        known = chains(the_card(card), src, dst, found, kind)
        if isinstance(known, str):
            continue
        for chain in known:
            try:
                stage = perform(card, chain, stored, found.layout, dtype)
            except AiCoreError as error:
                assert error.card in (card, None)
                continue
            got = arrived(stage, chain, wanted, usual_layout(card, dst), dtype, pad(chain, kind))
            np.testing.assert_array_equal(got, wanted, err_msg=f"{card} {chain.apis} {shape}")


def pad(chain: Chain, kind: DataType) -> int:
    """What rows and columns of the destination are padded to beyond its fractals: the squares of a transposition."""
    last = chain.steps[-1]
    return max(kind.c0, 16) if last.squares or "Transpose" in last.name else 1


def test_a_matrix_by_columns_is_its_transpose_by_rows() -> None:
    card = the_card("atlas_a2")
    half = DataType("half")
    by_columns = normal(Request("GM", "L1", 30, 50, half, "DN"), "GM", card, "L1")
    assert by_columns == Matrix(50, 30, "ND", turned=True)
    assert normal(Request("GM", "L1", 30, 50, half, "ZN", True), "GM", card, "L1") == Matrix(50, 30, "NZ", turned=False)


STRAIGHT, SQUARES, IMG2COL, V2 = "LoadData2D", "LoadDataWithTranspose", "LoadData3D", "LoadData2DV2"
# What the pages and published samples offer for half (spec api_semantics.md 2.4, 3, 5, 6.4, 8, 22), by hand: last call of
# the chains from row-major GM (on Atlas 200I/500 A2 from fractals) without and with --transpose.
OFFERED = {
    ("atlas_a2", "L0A"): ({STRAIGHT, IMG2COL}, {STRAIGHT, SQUARES, IMG2COL}),
    ("atlas_a2", "L0B"): ({STRAIGHT, SQUARES, IMG2COL}, {STRAIGHT}),
    ("atlas_350", "L0A"): ({V2, STRAIGHT, IMG2COL}, {V2, STRAIGHT, IMG2COL}),
    ("atlas_350", "L0B"): ({V2, STRAIGHT, SQUARES, IMG2COL}, {V2, STRAIGHT}),
    ("atlas_200i", "L0A"): ({STRAIGHT, IMG2COL}, {STRAIGHT, SQUARES, IMG2COL}),
    ("atlas_200i", "L0B"): ({STRAIGHT, SQUARES, IMG2COL}, {STRAIGHT}),
}


@pytest.mark.parametrize(("card", "dst"), OFFERED)
@pytest.mark.parametrize("transpose", [False, True], ids=["", "transpose"])
def test_every_offered_way_into_l0_is_looked_at(card: str, dst: str, transpose: bool) -> None:
    half = DataType("half")
    layout = "NZ" if card == "atlas_200i" else "ND"
    matrix = normal(Request("GM", dst, 64, 96, half, layout, transpose), "GM", the_card(card), dst)
    assert isinstance(matrix, Matrix)
    known = chains(the_card(card), "GM", dst, matrix, half)
    assert not isinstance(known, str)
    accepted = set()
    for chain in known:
        try:
            perform(card, chain, numbers(WHOLE, "half"), matrix.layout, "half")
        except AiCoreError:
            continue
        accepted.add(chain.steps[-1].name)
    assert accepted == OFFERED[card, dst][transpose]
