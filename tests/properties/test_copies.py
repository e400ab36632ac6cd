"""DataCopy by blocks and by count, loop mode, slices and conversion into BT, against byte loops written from the spec's
formulas (api_semantics.md 9.1, 9.5, 9.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError, AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from tests.properties.picture import Picture
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, Place, Stage, noise

MIX = ("atlas_a2", "atlas_a3", "atlas_350")
WIDE = ("int8", "uint8", "int16", "uint16", "half", "bfloat16", "int32", "uint32", "float", "int64", "uint64", "double")
NARROW = ("hifloat8", "fp8_e5m2", "fp8_e4m3fn", "fp8_e8m0")


@dataclass(frozen=True)
class Route:
    src: str
    dst: str
    cards: tuple[str, ...]
    pipe: Pipe
    dtypes: tuple[str, ...] = WIDE
    of_350: tuple[str, ...] = ()
    gaps: bool = True

    def types(self, card: str) -> tuple[str, ...]:
        return self.dtypes + (self.of_350 if card == "atlas_350" else ())

    def units(self, card: str) -> tuple[int, int]:
        """Bytes of a unit of block length and destination stride, and of source stride."""
        if self.dst == "C2":
            return (32 if card == "atlas_350" else 64), 32
        return (128, 32) if self.dst == "C2PIPE2GM" else (32, 32)


ROUTES = (
    Route("GM", "VECIN", CARDS, Pipe.MTE2, of_350=(*NARROW, "fp4x2_e2m1")),
    Route("VECOUT", "GM", CARDS, Pipe.MTE3, of_350=NARROW),
    Route("VECCALC", "VECIN", MIX, Pipe.V, of_350=NARROW),
    Route("GM", "A1", MIX, Pipe.MTE2, dtypes=(*WIDE, *NARROW)),
    Route("VECOUT", "B1", ("atlas_350",), Pipe.MTE3, of_350=NARROW),
    Route("A1", "VECIN", ("atlas_350",), Pipe.MTE1, of_350=NARROW),
    Route("B1", "GM", ("atlas_a2", "atlas_a3"), Pipe.MTE3),
    Route("C1", "C2", MIX, Pipe.MTE1, dtypes=("float", "int32")),
    Route("C1", "C2PIPE2GM", MIX, Pipe.FIX, dtypes=("uint64",), gaps=False),
)


SMALL = {"C2": 1024, "C2PIPE2GM": 2048}
"""Bytes of the buffers that are smaller than what a test could draw."""


def copy(stage: Stage, route: Route, params: Any) -> Callable[[], None]:
    function = asc.data_copy_l1_to_ub if route.pipe is Pipe.MTE1 and route.dst == "VECIN" else asc.data_copy
    return lambda: function(stage["dst"], stage["src"], params)


def places(route: Route, dtype: str, src_bytes: int, dst_bytes: int) -> dict[str, Place]:
    return {"src": Place(route.src, dtype, noise(src_bytes)), "dst": Place(route.dst, dtype, dst_bytes)}


@st.composite
def on_routes(draw: Any) -> tuple[Route, str, str]:
    route = draw(st.sampled_from(ROUTES))
    card = draw(st.sampled_from(route.cards))
    dtypes = route.types(card)
    if card == "atlas_200i":
        dtypes = tuple(one for one in dtypes if DataType(one).bits < 64)
    return route, card, draw(st.sampled_from(dtypes))


@PROPERTY
@given(on_routes(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
def test_blocks(where: tuple[Route, str, str], count: int, length: int, src_gap: int, dst_gap: int) -> None:
    route, card, dtype = where
    unit, gap_unit = route.units(card)
    if route.dst == "C2" and card == "atlas_350":
        length *= 2
    if not route.gaps:
        src_gap, dst_gap = src_gap + 1, dst_gap + 1
    start = length * unit if route.gaps else 0
    src_pitch, dst_pitch = start + src_gap * gap_unit, start + dst_gap * unit
    total = length * unit
    while route.dst in SMALL and (count - 1) * dst_pitch + total > SMALL[route.dst]:
        count -= 1
    room = min(count * dst_pitch + total, SMALL.get(route.dst, 1 << 16))
    stage = Stage(card, places(route, dtype, count * src_pitch + total, room))
    picture = Picture(stage)
    for block in range(count):
        picture.copy(block * dst_pitch, block * src_pitch, total)
    stage.call(copy(stage, route, asc.DataCopyParams(count, length, src_gap, dst_gap)))
    picture.check(stage)
    assert [op.pipe for op in stage.ops] == [route.pipe]
    assert stage.warnings == []


@PROPERTY
@given(on_routes(), st.integers(0, 300))
def test_counts_round_down_to_whole_blocks(where: tuple[Route, str, str], count: int) -> None:
    route, card, dtype = where
    unit, _ = route.units(card)
    bits = DataType(dtype).bits
    if bits == 4:
        count -= count % 2
    nbytes = count * bits // 8
    whole = 0
    while whole + unit <= nbytes:
        whole += unit
    size = min(max(nbytes, unit), 1024)
    if whole > 1024:
        return
    stage = Stage(card, places(route, dtype, max(size, whole), max(size, whole)))
    if whole == 0 and {route.src, route.dst} in ({"VECOUT", "B1"}, {"A1", "VECIN"}):
        stage.refuses(copy(stage, route, count), ParameterError, "count")
        return
    picture = Picture(stage)
    picture.copy(0, 0, whole)
    stage.call(copy(stage, route, count))
    picture.check(stage)
    assert bool(stage.warnings) == (whole != nbytes or whole == 0)


@PROPERTY
@given(
    on_routes(),
    st.sampled_from([("block_count", 4096), ("block_len", 65536), ("src_stride", 65536), ("dst_stride", 65536),
                     ("block_count", -1), ("block_len", -1), ("src_stride", -1), ("dst_stride", -1)]),
    st.integers(0, 100000),
)  # fmt: skip
def test_one_field_outside_its_range(where: tuple[Route, str, str], field: tuple[str, int], more: int) -> None:
    route, card, dtype = where
    stage = Stage(card, places(route, dtype, 1024, 1024))
    name, edge = field
    value = edge + more if edge > 0 else edge - more
    params = replace(asc.DataCopyParams(2, 2, 1, 1), **{name: value})
    error = stage.refuses(copy(stage, route, params), ParameterError, name)
    assert error.value == value


@PROPERTY
@given(on_routes(), st.sampled_from(["src", "dst"]))
def test_start_addresses(where: tuple[Route, str, str], side: str) -> None:
    route, card, dtype = where
    stage = Stage(card, places(route, dtype, 1024, 1024))
    position = route.src if side == "src" else route.dst
    if position == "GM" or DataType(dtype).bits == 4:
        return
    function = asc.data_copy_l1_to_ub if (route.src, route.dst) == ("A1", "VECIN") else asc.data_copy
    dst = stage["dst"][1] if side == "dst" else stage["dst"]
    src = stage["src"][1] if side == "src" else stage["src"]
    stage.refuses(lambda: function(dst, src, asc.DataCopyParams(1, 2)), AlignmentError, "address")


@pytest.mark.parametrize(("src", "dst"), [("VECOUT", "A1"), ("A1", "VECIN"), ("B1", "GM"), ("C1", "C2"), ("C1", "C2PIPE2GM"),
                                          ("VECIN", "VECOUT"), ("GM", "A1"), ("GM", "A2")])  # fmt: skip
@pytest.mark.parametrize("card", CARDS)
def test_routes_that_a_card_lacks(card: str, src: str, dst: str) -> None:
    offered = any((route.src[0], route.dst) == (src[0], dst) and card in route.cards for route in ROUTES)
    if offered or (src == "VECIN" and card in MIX) or (src == "VECOUT" and card == "atlas_350"):
        return
    stage = Stage(card, {"src": Place(src, "half", 1024), "dst": Place(dst, "half", 1024)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], asc.DataCopyParams(1, 2)), UnsupportedError)


@PROPERTY
@given(st.sampled_from(ROUTES[:4]), st.sampled_from(MIX), st.integers(1, 3), st.integers(1, 4))
def test_without_conversions_enhanced_parameters_change_nothing(route: Route, card: str, count: int, length: int) -> None:
    params = asc.DataCopyParams(count, length, 1, 2)
    images = []
    for extra in ((), (asc.DataCopyEnhancedParams(),)):
        stage = Stage(card, places(route, "half", 1024, 1024))
        stage.call(lambda stage=stage, extra=extra: asc.data_copy(stage["dst"], stage["src"], params, *extra))
        images.append(stage.bytes("dst").tobytes())
    assert images[0] == images[1]


# ---- conversion into BT ---------------------------------------------------------------------------------------------
@PROPERTY
@given(st.sampled_from([("half", card) for card in MIX] + [("bfloat16", "atlas_350")]), st.integers(1, 3), st.integers(1, 2),
       st.integers(0, 2), st.integers(0, 1), st.integers(0, 40), st.booleans())  # fmt: skip
def test_biases_become_float(
    where: tuple[str, str], count: int, length: int, src_gap: int, dst_gap: int, hole: int, by_count: bool
) -> None:
    dtype, card = where
    unit = 32 if card == "atlas_350" else 64
    total = length * unit
    if by_count:
        count, src_gap, dst_gap = 1, 0, 0
    src_pitch, dst_pitch = total + src_gap * 32, 2 * total + dst_gap * unit
    words = np.random.default_rng(hole).integers(0, 1 << 16, (2 * src_pitch + total) // 2, np.uint16)
    finite = (words >> 7 & 0xFF) != 0xFF if dtype == "bfloat16" else (words >> 10 & 31) != 31
    words[~finite] = 0x3C00
    stage = Stage(card, {"src": Place("C1", dtype, words), "dst": Place("C2", "float", min(3 * dst_pitch, 1024))})
    memory = stage.memories["L1"]
    assert memory.shadow is not None
    memory.shadow[hole] = 0
    picture = Picture(stage)
    if (count - 1) * dst_pitch + 2 * total > picture.dst.size:
        return
    for block in range(count):
        for i in range(total // 2):
            word = int(words[(block * src_pitch) // 2 + i])
            to = block * dst_pitch + 4 * i
            if hole // 2 == block * src_pitch // 2 + i:
                picture.undefined(to, 4)
            elif dtype == "bfloat16":
                picture.put(to, (word << 16).to_bytes(4, "little"))
            else:
                sign, exponent, fraction = word >> 15, word >> 10 & 31, word & 1023
                value = (1 + fraction / 1024) * 2.0 ** (exponent - 15) if exponent else fraction * 2.0**-24
                picture.put(to, np.float32(-value if sign else value).tobytes())
    params = total // 2 + 3 if by_count else asc.DataCopyParams(count, length, src_gap, dst_gap)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params))
    picture.check(stage)
    assert [op.nbytes for op in stage.ops] == [2 * count * total]


@pytest.mark.parametrize(("src", "dst", "refusing"), [("bfloat16", "float", ("atlas_a2", "atlas_a3")), ("half", "half", MIX),
                                                      ("int32", "float", MIX), ("float", "half", MIX)])  # fmt: skip
def test_pairs_that_bt_does_not_take(src: str, dst: str, refusing: tuple[str, ...]) -> None:
    for card in refusing:
        stage = Stage(card, {"src": Place("C1", src, noise(256)), "dst": Place("C2", dst, 512)})
        for params in (64, asc.DataCopyParams(1, 2)):
            route = Route("C1", "C2", MIX, Pipe.MTE1)
            stage.refuses(copy(stage, route, params), UnsupportedError, "dtype")


# ---- loop mode ------------------------------------------------------------------------------------------------------
@st.composite
def loops(draw: Any) -> tuple[int, int, int, int]:
    """Sizes of loop 1 and 2 and distances of iterations, in blocks beyond what one iteration takes."""
    return draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(0, 3))


@PROPERTY
@given(loops(), st.booleans(), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40))
def test_blocks_in_loop_mode(
    nest: tuple[int, int, int, int], to_ub: bool, count: int, length: int, src_gap: int, dst_gap: int, odd: int
) -> None:
    one, two, src_more, dst_more = nest
    spans = [((count - 1) * (length + gap) + length) * 32 for gap in (src_gap, dst_gap)]
    # The stride in GM is any number of bytes, that in UB whole blocks.
    src1 = spans[0] + (src_more * 32 if not to_ub else odd)
    dst1 = spans[1] + (dst_more * 32 if to_ub else odd)
    src2, dst2 = one * src1 + (0 if not to_ub else odd), one * dst1 + (32 if to_ub else odd)
    positions = ("GM", "VECIN") if to_ub else ("VECOUT", "GM")
    stage = Stage("atlas_350", {"src": Place(positions[0], "int8", noise(two * src2 + spans[0])),
                                "dst": Place(positions[1], "int8", two * dst2 + spans[1])})  # fmt: skip
    picture = Picture(stage)
    for outer in range(two):
        for inner in range(one):
            for block in range(count):
                picture.copy(outer * dst2 + inner * dst1 + block * (length + dst_gap) * 32,
                             outer * src2 + inner * src1 + block * (length + src_gap) * 32, length * 32)  # fmt: skip
    way = asc.DataCopyMVType.OUT_TO_UB if to_ub else asc.DataCopyMVType.UB_TO_OUT
    params = asc.DataCopyParams(count, length, src_gap, dst_gap)
    stage.call(lambda: asc.set_loop_mode_para(asc.LoopModeParams(one, two, src1, dst1, src2, dst2), way),
               lambda: asc.data_copy(stage["dst"], stage["src"], params))  # fmt: skip
    picture.check(stage)
    op = stage.ops[-1]
    assert sum(int(row[1]) * int(np.prod(row[2::2])) for row in op.gm_runs) == one * two * count * length * 32
    assert stage.warnings == []
    again = Picture(stage)
    again.copy(0, 0, 32)
    stage.call(lambda: asc.reset_loop_mode_para(way), lambda: asc.data_copy(stage["dst"], stage["src"], 32))
    again.check(stage)


# ---- slices ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Cut:
    """A side of a sliced copy: what a test draws, and every selected burst by a walk over all elements."""

    slices: tuple[asc.SliceInfo, ...]
    shape: tuple[int, ...]

    def bursts(self, c0: int) -> Iterator[int]:
        """First element of every burst, lower dimensions fastest."""
        pitches = [int(np.prod(self.shape[:d], dtype=int)) for d in range(len(self.shape))]
        for index in np.ndindex(*reversed(self.shape)):
            at = tuple(reversed(index))
            if not all(self._selected(d, at[d], c0) for d in range(len(at))):
                continue
            yield sum(i * pitch for i, pitch in zip(at, pitches, strict=True))

    def _selected(self, dim: int, i: int, c0: int) -> bool:
        """Whether index i of this dimension begins a burst."""
        one = self.slices[dim]
        assert one.end_index is not None and one.burst_len is not None
        length = one.burst_len * c0 if dim == 0 else 1
        return one.start_index <= i <= one.end_index and (i - one.start_index) % (length + one.stride) == 0


@st.composite
def cut(draw: Any, bursts: int, length: int, rows: tuple[int, ...], c0: int, local: bool) -> Cut:
    """A side with this many bursts a row and selected indices of the further dimensions."""
    unit = c0 if local else 1
    start, gap = draw(st.integers(0, 2)) * unit, draw(st.integers(0, 2)) * unit
    end = start + bursts * length * c0 + (bursts - 1) * gap - 1
    width = end + 1 + draw(st.integers(0, 2)) * unit
    width += -width % unit
    slices, shape = [asc.SliceInfo(start, end, gap, length, width)], [width]
    for count in rows:
        first, skipped = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        last = first + (count - 1) * (1 + skipped)
        size = last + 1 + draw(st.integers(0, 1))
        slices.append(asc.SliceInfo(first, last, skipped, 1, size))
        shape.append(size)
    return Cut(tuple(slices), tuple(shape))


@PROPERTY
@given(st.data(), st.sampled_from(MIX), st.sampled_from(["half", "float", "int32", "bfloat16"]), st.booleans())
def test_slices(data: Any, card: str, dtype: str, to_ub: bool) -> None:
    size = DataType(dtype).sizeof()
    c0 = 32 // size
    bursts, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    rows = data.draw(st.sampled_from([(), (1,), (3,), (2, 2), (4,), (2, 1, 2), (6,), (3, 2), (2, 3)]))
    other = data.draw(st.sampled_from([one for one in [(), (1,), (3,), (2, 2), (4,), (6,), (3, 2), (2, 3)]
                                       if np.prod(one, dtype=int) == np.prod(rows, dtype=int)] or [rows]))  # fmt: skip
    # Both lists have dim_value dimensions: the shorter one gets ones.
    dims = max(len(rows), len(other))
    rows, other = rows + (1,) * (dims - len(rows)), other + (1,) * (dims - len(other))
    to = data.draw(cut(bursts, length, rows, c0, to_ub))
    out_of = data.draw(cut(bursts, length, other, c0, not to_ub))
    sizes = [int(np.prod(side.shape)) * size for side in (out_of, to)]
    positions = ("GM", "VECIN") if to_ub else ("VECOUT", "GM")
    stage = Stage(card, {"src": Place(positions[0], dtype, noise(sizes[0])), "dst": Place(positions[1], dtype, sizes[1])})
    picture = Picture(stage)
    pairs = list(zip(to.bursts(c0), out_of.bursts(c0), strict=True))
    for d, s in pairs:
        picture.copy(d * size, s * size, length * 32)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], list(to.slices), list(out_of.slices), dims + 1))
    picture.check(stage)
    assert stage.ops[0].nbytes == len(pairs) * length * 32
    assert stage.warnings == []


GOOD = (asc.SliceInfo(16, 70, 7, 3, 87), asc.SliceInfo(0, 2, 1, 1, 3))
PLACE = (asc.SliceInfo(0, 47, 0, 3, 48), asc.SliceInfo(0, 1, 0, 1, 2))


@pytest.mark.parametrize(
    ("side", "dim", "change", "field"),
    [
        ("src", 0, {"end_index": None}, "end_index"),
        ("src", 0, {"burst_len": None}, "burst_len"),
        ("src", 0, {"burst_len": 2}, "burst_len"),
        ("src", 0, {"end_index": 69}, "end_index"),
        ("src", 0, {"end_index": 87}, "end_index"),
        ("src", 0, {"start_index": 71}, "start_index"),
        ("src", 0, {"start_index": -1}, "start_index"),
        ("src", 0, {"stride": -7}, "stride"),
        ("src", 0, {"shape_value": 0}, "shape_value"),
        ("src", 0, {"shape_value": 70}, "end_index"),
        ("src", 0, {"start_index": 47, "stride": 0}, "end_index"),
        ("src", 1, {"burst_len": 2}, "burst_len"),
        ("src", 1, {"end_index": 3}, "end_index"),
        ("src", 1, {"stride": 0}, "end_index"),
        ("dst", 0, {"start_index": 4, "end_index": 51, "shape_value": 56}, "start_index"),
        ("dst", 0, {"stride": 4, "end_index": 51, "shape_value": 56}, "stride"),
        ("dst", 0, {"shape_value": 50}, "shape_value"),
        ("dst", 0, {"start_index": 2**32}, "start_index"),
    ],
)  # fmt: skip
def test_one_wrong_slice(side: str, dim: int, change: dict[str, Any], field: str) -> None:
    lists = {"src": list(GOOD), "dst": list(PLACE)}
    lists[side][dim] = replace(lists[side][dim], **change)
    for card in MIX:
        stage = Stage(card, {"src": Place("GM", "float", noise(4096)), "dst": Place("VECIN", "float", 1024)})
        stage.call(lambda stage=stage: asc.data_copy(stage["dst"], stage["src"], list(PLACE), list(GOOD), 2))
        stage.refuses(lambda stage=stage: asc.data_copy(stage["dst"], stage["src"], lists["dst"], lists["src"], 2),
                      ParameterError, field)  # fmt: skip


@pytest.mark.parametrize(("args", "error", "field"), [((GOOD, PLACE, 0), ParameterError, "dim_value"),
                                                      ((GOOD, PLACE, 9), ParameterError, "dim_value"),
                                                      ((PLACE[:1], GOOD, 2), ParameterError, "slice_list1"),
                                                      ((PLACE, GOOD[:1], 2), ParameterError, "slice_list2")])  # fmt: skip
def test_lists_that_do_not_fit(args: tuple[Any, ...], error: type[AiCoreError], field: str) -> None:
    stage = Stage("atlas_a2", {"src": Place("GM", "float", noise(4096)), "dst": Place("VECIN", "float", 1024)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], *args), error, field)


@pytest.mark.parametrize(("src", "dst"), [("VECIN", "A1"), ("A1", "VECIN")])
def test_zero_between_ub_and_l1_moves_nothing_on_hardware(src: str, dst: str) -> None:
    """The page excludes it and the call is refused; the bits of the field do not."""
    places = {"src": Place(src, "half", noise(128)), "dst": Place(dst, "half", 128)}
    copy = asc.data_copy if dst == "A1" else asc.data_copy_l1_to_ub
    for params, field in ((asc.DataCopyParams(0, 2), "block_count"), (asc.DataCopyParams(2, 0), "block_len"), (5, "count")):
        plain, stage = Stage("atlas_350", places), Stage("atlas_350", places, wrap="hardware")
        plain.refuses(lambda at=plain, params=params: copy(at["dst"], at["src"], params), ParameterError, field)
        before = stage.snapshot()
        stage.call(lambda at=stage, params=params: copy(at["dst"], at["src"], params))
        assert stage.snapshot() == before
        assert any("moves nothing" in text for text in stage.warnings)
