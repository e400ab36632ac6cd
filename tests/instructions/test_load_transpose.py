"""LoadDataWithTranspose against the worked examples of its page (spec api_semantics.md 6, 14.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Pipe
from aicore_sim.instructions.load_transpose import LoadData2dTransposeParams, LoadData2dTransposeParamsV2
from aicore_sim.kernel.api_load import load_data_with_transpose
from tests.instructions.cube_setup import FRACTAL, numbers, pack, stored
from tests.stage import Place, Stage, noise

V1, V2 = LoadData2dTransposeParams, LoadData2dTransposeParamsV2
Call = tuple[Any, int, int]
"""(params, source fractal, destination fractal)."""


def load(card: str, dtype: str, source: NDArray[Any], fractals: int, calls: Sequence[Call], dst: str = "B2",
         **modes: Any) -> Stage:  # fmt: skip
    """The stage after the calls, with a destination of so many fractals."""
    stage = Stage(card, {"src": Place("B1", dtype, source), "dst": Place(dst, dtype, fractals * FRACTAL)}, **modes)
    per = FRACTAL * 8 // DataType(dtype).bits
    for params, src, to in calls:
        stage.call(lambda p=params, s=src, d=to: load_data_with_transpose(stage.at("dst", d * per), stage.at("src", s * per), p))
    return stage


def moves(card: str, dtype: str, params: Any, **modes: Any) -> dict[int, tuple[int, ...]]:
    """Destination fractal -> the source fractals that its elements come from. 40 source fractals, numbered."""
    numbered = np.repeat(np.arange(40, dtype=np.uint8), FRACTAL)
    if DataType(dtype).bits > 8:
        width = DataType(dtype).bits // 8
        numbered = np.repeat(np.arange(40), FRACTAL // width).astype(f"u{width}")
    stage = load(card, dtype, numbered, 40, [(params, 0, 0)], **modes)
    got, defined = stage.words("dst").reshape(40, -1), stage.defined("dst").reshape(40, -1)
    return {i: tuple(np.unique(got[i]).tolist()) for i in range(40) if defined[i].all()}


# ---- the page's examples ----------------------------------------------------------------------------------------------
def test_first_example() -> None:
    """int8, B[32, 64] in NZ: two squares, one a repeat, to ZN."""
    b = numbers(32 * 64, 8).reshape(32, 64)
    stage = load("atlas_350", "int8", stored(b, "NZ", 32), 4, [(V1(0, 2, 1, 1, 0), 0, 0)])
    np.testing.assert_array_equal(stage.words("dst"), stored(b, "ZN", 32))


def test_second_example() -> None:
    """half, B[32, 32] in NZ: two calls of two fractals, jumping in the destination."""
    b = numbers(32 * 32, 16).reshape(32, 32)
    calls = [(V1(0, 2, 1, 1), 2 * i, i) for i in range(2)]
    for card in ("atlas_a2", "atlas_350", "atlas_200i"):
        stage = load(card, "half", stored(b, "NZ", 16), 4, calls)
        np.testing.assert_array_equal(stage.words("dst"), stored(b, "ZN", 16))


def test_third_example() -> None:
    """float, B[16, 32] in NZ of one row block: pairs of neighbours, halves of the result two fractals apart."""
    b = numbers(16 * 32, 32).reshape(16, 32)
    stage = load("atlas_a3", "float", stored(b, "NZ", 8), 4, [(V1(0, 2, 1, 0, 1), 0, 0)])
    np.testing.assert_array_equal(stage.words("dst"), stored(b, "ZN", 8))


def test_fourth_example() -> None:
    """int8, B[128, 256] in NZ by the second struct: start and stride count fractals."""
    b = numbers(128 * 256, 8).reshape(128, 256)
    calls = [(V2(8 * i, 4, 2, 15), 0, 2 * i) for i in range(8)]
    stage = load("atlas_350", "int8", stored(b, "NZ", 32), 64, calls)
    np.testing.assert_array_equal(stage.words("dst"), stored(b, "ZN", 32))


@pytest.mark.parametrize(("params", "expected"), [
    (V1(0, 3, 1, 1, 0), {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3), 4: (4, 5), 5: (4, 5)}),
    (V1(0, 3, 1, 0, 2), {0: (0, 1), 3: (0, 1), 1: (2, 3), 4: (2, 3), 2: (4, 5), 5: (4, 5)}),
    (V1(0, 3, 2, 2, 1), {0: (0, 1), 2: (0, 1), 3: (4, 5), 5: (4, 5), 6: (8, 9), 8: (8, 9)}),
    (V1(1, 2, 1, 1, 0), {0: (2, 3), 1: (2, 3), 2: (4, 5), 3: (4, 5)}),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["int8", "float"])
def test_where_squares_of_two_fractals_go(params: Any, expected: dict[int, tuple[int, ...]], dtype: str) -> None:
    """The drawings of the page: every result fractal holds one half of the transposed pair."""
    assert moves("atlas_a2", dtype, params) == expected


def test_squares_of_half_are_fractals() -> None:
    """dst_frac_gap has no meaning there: an official sample sets it."""
    assert moves("atlas_a2", "half", V1(0, 3, 1, 0, 4)) == {0: (0,), 1: (1,), 2: (2,)}


def test_int4_squares() -> None:
    b = numbers(128 * 128, 4).reshape(128, 128)
    calls = [(V1(0, 2, 2, 3), 4 * i, 8 * i) for i in range(2)]
    stage = load("atlas_a2", "int4", pack(stored(b, "NZ", 64), 4), 16, calls)
    np.testing.assert_array_equal(stage.words("dst"), stored(b, "ZN", 64))


def test_float_in_zz_is_transposed_as_a_matrix() -> None:
    """A2's sample: A stored K x M in ZZ, L0A; K = 70, M = 40."""
    a = numbers(80 * 48, 32).reshape(80, 48)
    calls = [(V1(0, 5, 3, 1), 2 * i, 10 * i) for i in range(3)]
    stage = load("atlas_a2", "float", stored(a, "ZZ", 8), 30, calls, dst="A2")
    np.testing.assert_array_equal(stage.words("dst"), stored(a.T.copy(), "ZZ", 8))


# ---- units of the two structs (spec pitfalls.md P06) ------------------------------------------------------------------
def test_first_struct_counts_squares_second_counts_fractals() -> None:
    assert moves("atlas_350", "int8", V1(2, 2, 1, 1)) == {0: (4, 5), 1: (4, 5), 2: (6, 7), 3: (6, 7)}
    assert moves("atlas_350", "int8", V2(2, 2, 1, 1)) == {0: (2, 3), 1: (2, 3), 2: (3, 4), 3: (3, 4)}


@pytest.mark.parametrize(("dtype", "params", "shared"), [
    ("int8", V2(1, 3, 1, 1), True), ("float", V2(0, 3, 1, 0, 2), True), ("int8", V2(0, 3, 2, 2, 0, 1), True),
    ("int8", V2(0, 3, 2, 1), False), ("int8", V2(0, 2, 1, 1, 0, 1), False), ("int8", V2(0, 2, 0, 1), False),
    ("int8", V2(0, 1, 1), False), ("half", V2(0, 3, 1), False), ("int8", V1(1, 3, 1, 1), False),
])  # fmt: skip
def test_squares_that_share_source_fractals_are_reported(dtype: str, params: Any, shared: bool) -> None:
    stage = load("atlas_350", dtype, noise(20 * FRACTAL), 20, [(params, 0, 0)])
    assert any("share some" in text for text in stage.warnings) == shared


def test_gap_between_the_fractals_of_a_source_square() -> None:
    assert moves("atlas_350", "float", V2(1, 2, 1, 1, 0, 4)) == {0: (1, 6), 1: (1, 6), 2: (2, 7), 3: (2, 7)}


def test_defaults_of_the_structs() -> None:
    """As in pyasc: 1 repeat in the first struct, none in the second."""
    assert moves("atlas_350", "half", V1()) == {0: (0,)}
    stage = load("atlas_350", "half", noise(512), 1, [(V2(), 0, 0)])
    assert stage.ops == [] and stage.warnings == ["LoadDataWithTranspose: a repeat, step or size of 0 moves nothing"]


@pytest.mark.parametrize("field", ["start_index", "src_stride"])
def test_squares_beyond_16_bits_of_fractals(field: str) -> None:
    """32768 squares are 65536 fractals: the page counts on, the header keeps 16 bits of them."""
    params = V1(**{**dict(repeat_times=2, src_stride=1, dst_gap=1), field: 32768})
    stage = Stage("atlas_350", {"src": Place("B1", "int8", noise(8192)), "dst": Place("B2", "int8", 4096)})
    stage.refuses(lambda: load_data_with_transpose(stage["dst"], stage["src"], params), OutOfBoundsError)
    wrapped = moves("atlas_350", "int8", params, quirks="transpose-v1-16-bit")
    assert wrapped == moves("atlas_350", "int8", V1(0, 2, 1 if field == "start_index" else 0, 1))


def test_a_wrapping_stride_is_reported() -> None:
    for dtype, told in (("int8", True), ("float", True), ("half", False)):
        stage = load("atlas_350", dtype, noise(1024), 2, [(V1(0, 1, 40000), 0, 0)])
        assert any("src_stride = 40000" in text and "16 bits" in text for text in stage.warnings) == told
    assert load("atlas_a2", "int8", noise(1024), 2, [(V1(0, 1, 40000), 0, 0)]).warnings == []


# ---- addr_mode --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [1, True])
def test_decrement_of_the_page(mode: Any) -> None:
    params = V1(2, 3, 1, 1, 0, mode)
    down = {0: (4, 5), 1: (4, 5), 2: (2, 3), 3: (2, 3), 4: (0, 1), 5: (0, 1)}
    up = {0: (4, 5), 1: (4, 5), 2: (6, 7), 3: (6, 7), 4: (8, 9), 5: (8, 9)}
    for card in ("atlas_a2", "atlas_350", "atlas_200i"):
        assert moves(card, "int8", params) == down
        assert moves(card, "int8", params, quirks="addr-mode") == up
    assert any("decrements" in text for text in load("atlas_a2", "int8", noise(8192), 8, [(params, 0, 0)]).warnings)


def test_decrement_below_zero_is_refused() -> None:
    stage = Stage("atlas_350", {"src": Place("B1", "int8", noise(8192)), "dst": Place("B2", "int8", 8192)})
    for params in (V1(1, 3, 1, 1, addr_mode=1), V2(3, 3, 2, 1, addr_mode=1)):
        # A later start of the tensor does not help: the index of the instruction is what may not be negative.
        error = stage.refuses(lambda p=params: load_data_with_transpose(stage["dst"], stage.at("src", 4096), p),
                              ParameterError, "start_index")  # fmt: skip
        assert "below 0" in str(error)


# ---- overlap ----------------------------------------------------------------------------------------------------------
def test_fractals_written_twice_are_undefined() -> None:
    """The page's int4 drawing: dst_gap 1 puts repeat r on fractals 2 r .. 2 r + 3, two of them under the next repeat."""
    stage = load("atlas_a2", "int4", noise(12 * FRACTAL), 10, [(V1(0, 3, 1, 1), 0, 0)])
    assert stage.defined("dst").reshape(10, FRACTAL).all(axis=1).tolist() == [1, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    assert any("overlap" in text for text in stage.warnings)


# ---- cards, cost, errors ----------------------------------------------------------------------------------------------
def test_950_has_no_path_into_l0a() -> None:
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(512)), "dst": Place("A2", "half", 512)})
    error = stage.refuses(lambda: load_data_with_transpose(stage["dst"], stage["src"], V1()), UnsupportedError, "path")
    assert error.allowed == "L1-L0B; load_data with LoadData2DParamsV2 and if_transpose"


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
def test_other_cards_take_int4_into_l0b_only_and_one_struct(card: str) -> None:
    stage = Stage(card, {"src": Place("A1", "int4", noise(2048)), "a": Place("A2", "int4", 2048), "b": Place("B2", "int4", 2048)})
    stage.call(lambda: load_data_with_transpose(stage["b"], stage["src"], V1()))
    stage.refuses(lambda: load_data_with_transpose(stage["a"], stage["src"], V1()), UnsupportedError, "dtype")
    error = stage.refuses(lambda: load_data_with_transpose(stage["b"], stage["src"], V2(0, 1)), UnsupportedError, "params")
    assert error.allowed == "LoadData2dTransposeParams"


def test_what_is_recorded() -> None:
    stage = load("atlas_a2", "int8", noise(4096), 12, [(V1(1, 2, 1, 1, 2), 0, 0), (V1(1, 2, 1, 1, 2), 0, 1)])
    op, again = stage.ops
    assert op is again
    assert op.pipe is Pipe.MTE1 and op.cost == OnChip("L1-L0B", "LoadDataWithTranspose", 4 * FRACTAL)
    assert op.reads == ((1, 2 * FRACTAL, 6 * FRACTAL),) and op.writes == ((0, 0, 6 * FRACTAL),)
    assert op.aligns == (512, 32)


def test_call_errors() -> None:
    stage = Stage("atlas_a2", {"src": Place("B1", "half", noise(4096)), "dst": Place("B2", "half", 4096),
                               "bytes": Place("B2", "int8", 512), "gm": Place("GM", "half", noise(4096))})  # fmt: skip

    def refused(error: type[Any], dst: str, src: str, params: Any, field: str, to: int = 0, start: int = 0) -> None:
        stage.refuses(lambda: load_data_with_transpose(stage.at(dst, to), stage.at(src, start), params), error, field)

    refused(ParameterError, "bytes", "src", V1(), "dtype")
    refused(ParameterError, "dst", "src", 3, "params")
    refused(UnsupportedError, "dst", "gm", V1(), "path")
    refused(AlignmentError, "dst", "src", V1(), "address", to=16)
    refused(AlignmentError, "dst", "src", V1(), "address", start=8)
    refused(OutOfBoundsError, "dst", "src", V1(60000), "address")
    refused(OutOfBoundsError, "dst", "src", V1(0, 200, 1, 0), "address")


def test_nothing_happens_on_a_vector_core() -> None:
    stage = Stage("atlas_a2", {"src": Place("B1", "half", noise(512)), "dst": Place("B2", "half", 512)}, core="aiv")
    stage.call(lambda: load_data_with_transpose(stage["dst"], stage["src"], V1()))
    assert stage.ops == []


def test_hardware_wraps_repeat_times() -> None:
    stage = load("atlas_a2", "half", noise(512), 1, [(V1(0, 256, 1), 0, 0)], wrap="hardware")
    assert stage.ops == [] and "becomes 0" in stage.warnings[0] and "moves nothing" in stage.warnings[1]
