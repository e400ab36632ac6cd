"""Loop mode: worked examples of the text, the registers, what is refused (spec api_semantics.md 9.5, 14.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic
from tests.stage import Place, Stage, noise

IN, OUT = asc.DataCopyMVType.OUT_TO_UB, asc.DataCopyMVType.UB_TO_OUT
PAD = asc.DataCopyPadExtParams(DataType("int8"), True, 0, 0, -1)
BLOCKS = asc.DataCopyExtParams(2, 40)
SCENARIO = asc.LoopModeParams(2, 2, 80, 128, 160, 288)


def staged(src: int = 320, dst: int = 576, **modes: Any) -> Stage:
    return Stage("atlas_350", {"src": Place("GM", "int8", noise(src)), "dst": Place("VECIN", "int8", dst)}, **modes)


def test_scenario_4_compact_tails_of_every_inner_copy() -> None:
    stage = staged()
    expected, src = stage.bytes("dst"), stage.bytes("src")
    for outer in range(2):
        for inner in range(2):
            at = outer * 288 + inner * 128
            expected[at : at + 80] = src[outer * 160 + inner * 80 :][:80]
            expected[at + 80 : at + 96] = 255
    stage.call(lambda: asc.set_loop_mode_para(SCENARIO, IN),
               lambda: asc.data_copy_pad(stage["dst"], stage["src"], BLOCKS, PAD, mode=asc.PaddingMode.Compact))  # fmt: skip
    assert np.array_equal(stage.bytes("dst"), expected)
    op = stage.ops[0]
    assert op.cost == GmTraffic("GM-UB", 320, 8, is_read=True)
    assert op.aligns == (32, 32)
    assert op.reads == ((1, 0, 320),)
    assert op.gm_runs[:, :8].tolist() == [[0, 40, 2, 160, 2, 80, 2, 40]]


def test_scenario_5_normal() -> None:
    stage = staged()
    expected, src = stage.bytes("dst"), stage.bytes("src")
    for outer in range(2):
        for inner in range(2):
            for block in range(2):
                at = outer * 288 + inner * 128 + block * 64
                expected[at : at + 40] = src[outer * 160 + inner * 80 + block * 40 :][:40]
                expected[at + 40 : at + 64] = 255
    stage.call(lambda: asc.set_loop_mode_para(SCENARIO, type=IN),
               lambda: asc.data_copy_pad(stage["dst"], stage["src"], BLOCKS, PAD))  # fmt: skip
    assert np.array_equal(stage.bytes("dst"), expected)


def test_registers_are_sticky_and_one_set_a_direction() -> None:
    gm, ub = Place("GM", "int8", noise(512)), Place("VECIN", "int8", noise(512, 1))
    stage = Stage("atlas_350", {"gm": gm, "ub": ub})
    load = lambda: asc.data_copy(stage["ub"], stage["gm"], 32)  # noqa: E731
    store = lambda: asc.data_copy(stage["gm"], stage["ub"], 32)  # noqa: E731
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(3, 1, 64, 32, 0, 0), IN), load, load, store)
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(2, 1, 32, 64, 0, 0), OUT), load, store)
    stage.call(lambda: asc.reset_loop_mode_para(IN), load, store)
    stage.call(lambda: asc.reset_loop_mode_para(type=OUT), store)
    assert [op.nbytes for op in stage.ops] == [96, 96, 32, 96, 64, 32, 64, 32]
    assert stage.ops[0] is stage.ops[1] is stage.ops[3], "one Op a call shape"
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(1, 1, 64, 32, 0, 0), IN), load)
    assert stage.ops[-1].nbytes == 32, "one iteration is no loop mode"


def test_nddma_and_copies_to_other_places_ignore_it() -> None:
    stage = Stage("atlas_350", {"src": Place("GM", "half", noise(512)), "dst": Place("VECIN", "half", 512),
                                "ub": Place("VECOUT", "half", noise(64))})  # fmt: skip
    nddma = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 16), 0)
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(2, 1, 64, 64, 0, 0), IN),
               lambda: asc.data_copy(stage["dst"], stage["src"], nddma),
               lambda: asc.data_copy(stage["dst"], stage["ub"], 32))  # fmt: skip
    assert [op.nbytes for op in stage.ops] == [32, 64]


def test_slices_run_in_it_too() -> None:
    stage = Stage("atlas_350", {"src": Place("GM", "half", noise(512)), "dst": Place("VECIN", "half", 512)})
    one = [asc.SliceInfo(0, 15, 0, 1, 16)]
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(2, 1, 100, 64, 0, 0), IN),
               lambda: asc.data_copy(stage["dst"], stage["src"], one, one, 1))  # fmt: skip
    src, dst = stage.bytes("src"), stage.bytes("dst")
    assert np.array_equal(dst[:32], src[:32])
    assert np.array_equal(dst[64:96], src[100:132])


def test_iterations_that_overlap_warn() -> None:
    for stride, noted in ((16 * 32, False), (32, False), (64, True), (0, True)):
        # Blocks of 32 B at 0 and 64: the next iteration may fill the gap between them, but not lie on them.
        stage = staged(256, 1024)
        stage.call(lambda stage=stage, stride=stride: asc.set_loop_mode_para(asc.LoopModeParams(2, 1, 64, stride, 0, 0), IN),
                   lambda stage=stage: asc.data_copy(stage["dst"], stage["src"], asc.DataCopyParams(2, 1, 0, 1)))  # fmt: skip
        assert any("overlap" in text for text in stage.warnings) == noted, stride


def test_both_start_addresses_are_whole_blocks() -> None:
    stage = staged()
    copy = lambda src, dst: lambda: asc.data_copy_pad(stage["dst"][dst], stage["src"][src], BLOCKS, PAD)  # noqa: E731
    stage.call(copy(1, 0), lambda: asc.set_loop_mode_para(replace(SCENARIO, loop1_size=1, loop2_size=2), IN))
    stage.refuses(copy(1, 0), AlignmentError, "address")
    stage.refuses(copy(0, 1), AlignmentError, "address")
    stage.call(copy(32, 32))


@pytest.mark.parametrize("way", [IN, OUT])
@pytest.mark.parametrize("field", ["loop1_size", "loop2_size", "loop1_src_stride", "loop1_dst_stride", "loop2_src_stride",
                                   "loop2_dst_stride"])  # fmt: skip
def test_one_field_outside_its_range(way: asc.DataCopyMVType, field: str) -> None:
    good = asc.LoopModeParams(2, 2, 64, 64, 128, 128)
    stage = staged()
    stage.call(lambda: asc.set_loop_mode_para(good, way))
    local = field.endswith("src_stride") == (way is OUT) and "stride" in field
    bad = [-1, 2**21, 0] if "size" in field else [-32, 2**21, 33] if local else [-1, 2**40]
    for value in bad:
        stage.refuses(lambda value=value: asc.set_loop_mode_para(replace(good, **{field: value}), way), ParameterError, field)
    most = 2**21 - 1 if "size" in field else 2**21 - 32 if local else 2**40 - 1
    stage.call(lambda: asc.set_loop_mode_para(replace(good, **{field: most}), way))


def test_what_is_no_direction_or_struct() -> None:
    stage = staged()
    stage.refuses(lambda: asc.set_loop_mode_para(SCENARIO, 2), ParameterError, "type")
    stage.refuses(lambda: asc.reset_loop_mode_para(7), ParameterError, "type")
    stage.refuses(lambda: asc.set_loop_mode_para((2, 2), IN), ParameterError, "loop_params")


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
def test_other_cards_have_none(card: str) -> None:
    stage = Stage(card, {"src": Place("GM", "int8", noise(64)), "dst": Place("VECIN", "int8", 64)})
    stage.refuses(lambda: asc.set_loop_mode_para(SCENARIO, IN), UnsupportedError, "api")
    stage.refuses(lambda: asc.reset_loop_mode_para(IN), UnsupportedError, "api")


def test_values_wrap_in_their_words() -> None:
    stage = staged(wrap="hardware")
    stage.call(lambda: asc.set_loop_mode_para(replace(SCENARIO, loop1_size=2**21 + 2, loop1_src_stride=2**40 + 80), IN),
               lambda: asc.data_copy_pad(stage["dst"], stage["src"], BLOCKS, PAD))  # fmt: skip
    other = staged()
    other.call(lambda: asc.set_loop_mode_para(SCENARIO, IN),
               lambda: asc.data_copy_pad(other["dst"], other["src"], BLOCKS, PAD))  # fmt: skip
    assert stage.bytes("dst").tobytes() == other.bytes("dst").tobytes()
    assert len(stage.warnings) == 2 + len(other.warnings)
