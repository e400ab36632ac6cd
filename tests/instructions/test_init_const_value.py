"""InitConstValue (Fill): blocks, gaps, pipes and values (spec api_semantics.md 9.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.instructions.init_const_value import InitConstValueParams
from aicore_sim.kernel.api_load import init_const_value
from aicore_sim.timing import Timing
from tests.stage import CARDS, Place, Stage


def filled(stage: Stage, unit: int) -> list[int]:
    """Blocks that the fill defined."""
    blocks = stage.defined("dst").reshape(-1, unit)
    assert (blocks.all(axis=1) == blocks.any(axis=1)).all()
    return np.flatnonzero(blocks.all(axis=1)).tolist()


@pytest.mark.parametrize("card", CARDS)
def test_rows_of_l1(card: str) -> None:
    """The page's example: blocks 8 r .. 8 r + 2 of 32 B, in five repeats."""
    stage = Stage(card, {"dst": Place("A1", "half", 48 * 32)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(5, 3, 5, 1.5)))
    assert filled(stage, 32) == [8 * r + b for r in range(5) for b in range(3)]
    words = stage.words("dst").reshape(-1, 16)
    assert (words[[0, 10, 34]] == 0x3E00).all() and (words[3:8] == 0xA5A5).all()
    assert [op.pipe for op in stage.ops] == [Pipe.MTE2]


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
@pytest.mark.parametrize("position", ["A2", "B2"])
def test_fractals_of_l0(card: str, position: str) -> None:
    stage = Stage(card, {"dst": Place(position, "int32", 26 * 512)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(5, 2, 3, -7)))
    assert filled(stage, 512) == [5 * r + b for r in range(5) for b in range(2)]
    assert (stage.words("dst")[:256].view(np.int32) == -7).all()
    assert [op.pipe for op in stage.ops] == [Pipe.MTE1]


def test_950_fills_l1_only() -> None:
    stage = Stage("atlas_350", {"dst": Place("A2", "half", 512)})
    error = stage.refuses(lambda: init_const_value(stage["dst"], InitConstValueParams(1, 1)), UnsupportedError, "dst")
    assert error.allowed == "L1"


@pytest.mark.parametrize(("repeat_times", "block_num"), [(0, 3), (3, 0)])
def test_zero_fills_nothing(repeat_times: int, block_num: int) -> None:
    stage = Stage("atlas_a2", {"dst": Place("A1", "half", 512)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(repeat_times, block_num)))
    assert stage.ops == [] and "moves nothing" in stage.warnings[0]
    assert InitConstValueParams() == InitConstValueParams(0, 0, 0, 0)


@pytest.mark.parametrize(("dtype", "value"), [("int16", 40000), ("uint32", -1), ("int32", 0.5), ("half", "x"), ("float", None)])
def test_values_of_another_type(dtype: str, value: Any) -> None:
    stage = Stage("atlas_a2", {"dst": Place("A1", dtype, 512)})
    stage.refuses(lambda: init_const_value(stage["dst"], InitConstValueParams(1, 1, 0, value)), ParameterError, "init_value")


def test_negative_zero_is_not_zero() -> None:
    stage = Stage("atlas_a2", {"dst": Place("A1", "half", 64)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(1, 1, 0, 0.0)),
               lambda: init_const_value(stage.at("dst", 16), InitConstValueParams(1, 1, 0, -0.0)))  # fmt: skip
    assert stage.words("dst").tolist() == [0] * 16 + [0x8000] * 16


def test_call_errors() -> None:
    stage = Stage("atlas_a2", {"dst": Place("A2", "half", 1024), "gm": Place("GM", "half", 512)})
    one = InitConstValueParams(1, 1)
    stage.refuses(lambda: init_const_value(stage.at("dst", 16), one), AlignmentError, "address")
    stage.refuses(lambda: init_const_value(stage["dst"], InitConstValueParams(129, 1)), OutOfBoundsError, "address")
    stage.refuses(lambda: init_const_value(stage["gm"], one), UnsupportedError, "dst")
    stage.refuses(lambda: init_const_value(stage["dst"], 3), ParameterError, "params")  # type: ignore[arg-type]


def test_shares_make_the_whole() -> None:
    stage = Stage("atlas_a2", {"dst": Place("B1", "float", 40 * 32)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(5, 3, 5, 2.5)))
    (op,), once = stage.ops, stage.bytes("dst")
    again = Stage("atlas_a2", {"dst": Place("B1", "float", 40 * 32)})
    memory = again.memories["L1"]
    assert op.effect is not None
    for share in range(4):
        op.effect.apply((memory,), (0,), share, share + 1, 4)
    np.testing.assert_array_equal(again.bytes("dst"), once)


@pytest.mark.parametrize("card", CARDS)
def test_it_has_a_price(card: str) -> None:
    stage = Stage(card, {"dst": Place("A1", "half", 1024)})
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(2, 8, 0, 1)))
    (op,) = stage.ops
    Timing(stage.card).price(op)
    assert op.occupy > 0 and op.nbytes == 512


def test_nothing_happens_on_a_vector_core() -> None:
    stage = Stage("atlas_a2", {"dst": Place("A1", "half", 512)}, core="aiv")
    stage.call(lambda: init_const_value(stage["dst"], InitConstValueParams(1, 1)))
    assert stage.ops == []
