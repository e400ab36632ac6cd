"""The kernels of chains with real data: flags keep the stages apart, parts land where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aicore_sim import launch
from aicore_sim.cards import load_card
from aicore_sim.dtypes import DataType
from aicore_sim.engine.machine import Machine
from aicore_sim.estimate.chains import Chain, chains
from aicore_sim.estimate.kernel import job
from aicore_sim.estimate.plan import Plan, plan
from aicore_sim.estimate.request import Matrix, Request, normal
from aicore_sim.estimate.steps import up
from aicore_sim.layouts import to_layout

HALF = DataType("half")


def numbers(rows: int, cols: int) -> NDArray[Any]:
    return (np.arange(rows * cols) % 2048).astype(np.float16).reshape(rows, cols)


def ran(
    monkeypatch: pytest.MonkeyPatch, card_name: str, chain: Chain, cut: Plan, source: NDArray[Any], destination: NDArray[Any],
    most: int = 100,
) -> Machine:  # fmt: skip
    """The machine after the chain's kernel, with its buffers; arrays are copied back."""
    machines: list[Machine] = []

    class Kept(Machine):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            machines.append(self)

    monkeypatch.setattr(launch, "Machine", Kept)
    card = load_card(card_name)
    work = np.zeros(1 << 18, np.float16)
    prepared = job(card, chain, cut, HALF, most, args=(source, destination, work))
    launch.run_kernel(prepared.kernel, prepared.args, {}, prepared.blocks, card, launch.Options())
    return machines[0]


def first_chain(card_name: str, src: str, dst: str, rows: int, cols: int, last: str = "", layout: str = "") -> tuple[Chain, Matrix]:
    card = load_card(card_name)
    matrix = normal(Request(src, dst, rows, cols, HALF, layout), src, card, dst)
    assert isinstance(matrix, Matrix)
    found = chains(card, src, dst, matrix, HALF)
    assert not isinstance(found, str)
    return next(chain for chain in found if last in chain.apis[-1]), matrix


@pytest.mark.parametrize(
    ("card_name", "last", "layout", "gm_layout"),
    [("atlas_a2", "LoadData2D ", "", "ND"), ("atlas_a3", "LoadDataWithTranspose", "", "ND"),
     ("atlas_350", "LoadData2DV2", "", "ND"), ("atlas_200i", "LoadData2D ", "NZ", "NZ")],
)  # fmt: skip
def test_a_matrix_waits_in_l1_before_it_is_loaded_into_l0(
    monkeypatch: pytest.MonkeyPatch, card_name: str, last: str, layout: str, gm_layout: str
) -> None:
    chain, matrix = first_chain(card_name, "GM", "L0B", 64, 96, last, layout)
    if card_name == "atlas_200i":
        chain = Chain(tuple(step for step in chains_by_load(card_name, matrix).steps))
    given = numbers(64, 96)
    machine = ran(monkeypatch, card_name, chain, plan(load_card(card_name), chain, matrix, HALF, 1),
                  to_layout(given, gm_layout, HALF).view(np.float16), np.zeros(1, np.float16))  # fmt: skip
    expected = to_layout(given, "ZN", HALF)
    assert machine.cores[0].buffers["L0B"].bytes()[: expected.size].tobytes() == expected.tobytes()


def chains_by_load(card_name: str, matrix: Matrix) -> Chain:
    """The chain of Atlas 200I/500 A2 that its pages offer: LoadData into L1."""
    found = chains(load_card(card_name), "GM", "L0B", matrix, HALF)
    assert not isinstance(found, str)
    return next(chain for chain in found if chain.apis == ["LoadData2D GM-L1", "LoadData2D L1-L0B"])


@pytest.mark.parametrize("card_name", ["atlas_a2", "atlas_350", "atlas_200i"])
def test_a_stream_through_ub_keeps_every_element(monkeypatch: pytest.MonkeyPatch, card_name: str) -> None:
    """512 KB in parts of half of UB: without the flags back a part would be overwritten before it is stored."""
    chain, matrix = first_chain(card_name, "GM", "GM", 256, 1024)
    cut = plan(load_card(card_name), chain, matrix, HALF, 1)
    assert cut.slots[1] == 2
    assert len(cut.parts[0]) >= 4
    given, got = numbers(256, 1024).reshape(-1), np.zeros(256 * 1024, np.float16)
    ran(monkeypatch, card_name, chain, cut, given, got)
    np.testing.assert_array_equal(got, given)


@pytest.mark.parametrize("blocks", [1, 3])
def test_parts_of_a_matrix_by_fractals_find_their_place(monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    """NZ in GM, columns cut off: what is last in L1 is the last part of every block."""
    chain, matrix = first_chain("atlas_a2", "GM", "L1", 6000, 96, layout="NZ")
    card = load_card("atlas_a2")
    cut = plan(card, chain, matrix, HALF, blocks)
    given = numbers(6000, 96)
    machine = ran(monkeypatch, "atlas_a2", chain, cut, to_layout(given, "NZ", HALF).view(np.float16), np.zeros(1, np.float16))
    assert [len(parts) for parts in cut.parts] == ([5] if blocks == 1 else [1, 1, 1])
    for core, parts in zip(machine.cores, cut.parts, strict=True):
        last = parts[-1]
        rows = up(last.part.rows, 16)
        expected = to_layout(given[last.row : last.row + last.part.rows], "NZ", HALF, rows_pad=rows)
        start = (len(parts) - 1) % cut.slots[1] * 256 * 1024
        assert core.buffers["L1"].bytes()[start : start + expected.size].tobytes() == expected.tobytes()


@pytest.mark.parametrize("card_name", ["atlas_a2", "atlas_350"])
def test_cube_and_vector_cores_meet_by_flags(monkeypatch: pytest.MonkeyPatch, card_name: str) -> None:
    """L1 > GM or UB > GM: on A2 through the workspace, on 350 from L1 into UB; no byte of a part is stored too early."""
    chain, matrix = first_chain(card_name, "GM", "L1", 64, 96)
    way = {"atlas_a2": ["L1-GM"], "atlas_350": ["L1-UB", "UB-GM"]}[card_name]
    out, _ = first_chain(card_name, "L1", "GM", 64, 96)
    assert [step.path for step in out.steps] == way
    whole = Chain((*chain.steps, *out.steps))
    given, got = numbers(64, 96), np.zeros(64 * 96, np.float16)
    ran(monkeypatch, card_name, whole, plan(load_card(card_name), whole, matrix, HALF, 1), given.reshape(-1), got)
    np.testing.assert_array_equal(got.reshape(64, 96), given)


@pytest.mark.parametrize("cols", [64, 4096])
def test_parts_cover_a_matrix_once(cols: int) -> None:
    chain, matrix = first_chain("atlas_a3", "GM", "L0A", 1000, cols)
    cut = plan(load_card("atlas_a3"), chain, matrix, HALF, 3)
    seen = np.zeros((1000, cols), int)
    for parts in cut.parts:
        for one in parts:
            seen[one.row : one.row + one.part.rows, one.col : one.col + one.part.cols] += 1
            assert up(one.part.rows, 16) * up(one.part.cols, 16) * 2 <= 64 * 1024 // cut.slots[-1], "L0A, or half of it"
    assert (seen == 1).all()
