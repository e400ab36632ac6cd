"""Reductions inside a repeat against references that go element by element (pages ReduceRepeat, -DataBlock, -PairElem)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.kernel import api_vector_reduce as api
from aicore_sim.kernel.enums import ReduceOrder
from aicore_sim.kernel.system import set_mask_count
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

ROOM = 24576
NUMPY = {"half": np.float16, "float": np.float32, "int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32}
WHOLE = {"sum": api.whole_reduce_sum, "max": api.whole_reduce_max, "min": api.whole_reduce_min}
BLOCK = {"sum": api.block_reduce_sum, "max": api.block_reduce_max, "min": api.block_reduce_min}


def vector_core(card: str) -> str:
    return "core" if card == "atlas_200i" else "aiv"


def numbers(dtype: str, seed: int, special: bool = False) -> NDArray[Any]:
    """Elements with many ties; floats of sizes whose sums depend on their order."""
    rng, kind = np.random.default_rng(seed), np.dtype(NUMPY[dtype])
    count = ROOM // kind.itemsize
    if kind.kind != "f":
        return noise(ROOM, seed).view(kind)
    values = (rng.integers(-40, 40, count) * 2.0 ** rng.integers(-9, 4, count)).astype(kind)
    if special:
        values[rng.random(count) < 0.02] = np.nan
        values[rng.random(count) < 0.02] = -np.inf
    return values


def lanes_of(dtype: str) -> int:
    return int(256 // np.dtype(NUMPY[dtype]).itemsize)


@st.composite
def masks(draw: st.DrawFn, dtype: str) -> tuple[Any, bool]:
    """A mask and whether it counts elements over the repeats."""
    lanes = lanes_of(dtype)
    how = draw(st.sampled_from(["count", "int", "words", "sparse"]))
    if how == "count":
        return draw(st.integers(1, 5 * lanes)), True
    if how == "int":
        return draw(st.integers(1, lanes)), False
    word = draw(st.integers(1, (1 << lanes) - 1))
    if how == "sparse":
        word = sum({1 << draw(st.integers(0, lanes - 1)) for _ in range(3)})
    return [word & (1 << 64) - 1, word >> 64], False


def chosen(mask: Any, counter: bool, repeats: int, lanes: int) -> list[list[int]]:
    """The elements that take part in each repeat."""
    if counter:
        return [list(range(min(lanes, mask - start))) for start in range(0, mask, lanes)]
    bits = [e for e in range(mask)] if isinstance(mask, int) else [e for e in range(lanes) if mask[e // 64] >> e % 64 & 1]
    return [bits] * repeats


def tree(values: list[Any]) -> Any:
    while len(values) > 1:
        values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
    return values[0]


def best(kind: str, values: list[Any], among: list[int]) -> int:
    """The first NaN, or the first of the largest or smallest."""
    for e in among:
        if values[e] != values[e]:
            return e
    found = among[0]
    for e in among:
        if values[e] > values[found] if kind == "max" else values[e] < values[found]:
            found = e
    return found


def element(source: NDArray[Any], repeat: int, e: int, block: int, step: int) -> Any:
    per_block = 32 // source.itemsize
    return source[(repeat * step + e // per_block * block) * per_block + e % per_block]


class Expected:
    """Bytes that a reduction leaves."""

    def __init__(self) -> None:
        self.bytes = np.full(ROOM, SENTINEL, np.uint8)
        self.written = np.zeros(ROOM, np.bool_)

    def put(self, at: int, *values: Any) -> None:
        for value in values:
            raw = np.frombuffer(value.tobytes(), np.uint8)
            self.bytes[at : at + raw.size] = raw
            self.written[at : at + raw.size] = True
            at += raw.size

    def check(self, stage: Stage) -> None:
        assert np.array_equal(stage.bytes("dst"), self.bytes)
        assert np.array_equal(stage.defined("dst"), self.written)


def run(card: str, dtype: str, into: str, source: NDArray[Any], counter: bool, call: Any) -> Stage:
    stage = Stage(card, {"src": Place("VECCALC", dtype, source.view(np.uint8)), "dst": Place("VECCALC", into, ROOM)},
                  core=vector_core(card))  # fmt: skip
    if counter:
        stage.call(set_mask_count)
    stage.call(lambda: call(stage["dst"], stage["src"]))
    return stage


# ---- whole repeats --------------------------------------------------------------------------------------------------
@st.composite
def wholes(draw: st.DrawFn) -> tuple[str, str, str, Any, bool, int, tuple[int, int, int], int]:
    card = draw(st.sampled_from(CARDS))
    kind = draw(st.sampled_from(["sum", "max", "min"]))
    types = ["half", "float"] + (["int16", "uint16", "int32", "uint32"] if card == "atlas_350" else [])
    dtype = draw(st.sampled_from(types))
    mask, counter = draw(masks(dtype))
    strides = (draw(st.integers(0, 9)), draw(st.integers(0, 3)), draw(st.integers(0, 17)))
    orders = [0, 2] if card == "atlas_200i" else [0, 1, 2, 3]
    return card, kind, dtype, mask, counter, draw(st.integers(1, 12)), strides, draw(st.sampled_from(orders))


@PROPERTY
@given(wholes(), st.booleans(), st.integers(0, 999))
def test_whole_repeats(case: Any, special: bool, seed: int) -> None:
    card, kind, dtype, mask, counter, repeats, (to, block, step), order = case
    source, size, lanes = numbers(dtype, seed, special and kind != "sum"), np.dtype(NUMPY[dtype]).itemsize, lanes_of(dtype)
    into = {"int16": "int32", "uint16": "uint32"}.get(dtype, dtype) if kind == "sum" else dtype
    result, word, want = np.dtype(NUMPY[into]), np.dtype(f"u{size}"), Expected()
    with np.errstate(all="ignore"):
        for r, among in enumerate(chosen(mask, counter, repeats, lanes)):
            values = [element(source, r, e, block, step) for e in range(lanes)]
            if kind == "sum":
                part = set(among)
                terms = [values[e].astype(result) if e in part else result.type(0) for e in range(lanes)]
                want.put(r * to * result.itemsize, tree(terms))
                continue
            at = best(kind, values, among)
            place = word.type(at)
            if order == ReduceOrder.ORDER_VALUE_INDEX:
                want.put(r * to * 2 * size, values[at], place)
            elif order == ReduceOrder.ORDER_INDEX_VALUE:
                want.put(r * to * 2 * size, place, values[at])
            elif order == ReduceOrder.ORDER_ONLY_VALUE:
                want.put(r * to * size, values[at])
            else:
                want.put(r * to * 4, np.uint32(at))
    more = () if kind == "sum" else (ReduceOrder(order),)
    call = lambda d, s: WHOLE[kind](d, s, mask, repeats, to, block, step, *more)  # noqa: E731
    want.check(run(card, dtype, into, source, counter, call))


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(["half", "float"]), st.integers(1, 8), st.integers(0, 99), st.integers(0, 9))
def test_repeat_reduce_sum_is_whole_reduce_sum(card: str, dtype: str, repeats: int, seed: int, idle: int) -> None:
    source = numbers(dtype, seed)
    one = run(card, dtype, dtype, source, False, lambda d, s: api.repeat_reduce_sum(d, s, repeats, 30, idle, 2, 3, 16))
    other = run(card, dtype, dtype, source, False, lambda d, s: api.whole_reduce_sum(d, s, 30, repeats, 3, 2, 16))
    assert np.array_equal(one.bytes("dst"), other.bytes("dst"))


# ---- blocks and pairs -----------------------------------------------------------------------------------------------
@st.composite
def parts(draw: st.DrawFn) -> tuple[str, str, Any, bool, int, tuple[int, int, int]]:
    card = draw(st.sampled_from(CARDS))
    dtype = draw(st.sampled_from(["half", "float"]))
    mask, counter = draw(masks(dtype))
    return card, dtype, mask, counter, draw(st.integers(1, 12)), (draw(st.integers(1, 5)), draw(st.integers(0, 3)),
                                                                   draw(st.integers(0, 17)))  # fmt: skip


@PROPERTY
@given(parts(), st.sampled_from(["sum", "max", "min"]), st.integers(0, 999))
def test_blocks(case: Any, kind: str, seed: int) -> None:
    card, dtype, mask, counter, repeats, (to, block, step) = case
    source, lanes = numbers(dtype, seed, kind != "sum"), lanes_of(dtype)
    size, per_block, want = source.itemsize, lanes // 8, Expected()
    top = np.float16(65504) if card == "atlas_200i" and dtype == "half" else source.dtype.type(np.inf)
    empty = {"sum": source.dtype.type(0), "max": -top, "min": top}[kind]
    with np.errstate(all="ignore"):
        for r, among in enumerate(chosen(mask, counter, repeats, lanes)):
            part = set(among)
            for g in range(8):
                inside = list(range(g * per_block, (g + 1) * per_block))
                if not part & set(inside) and card in ("atlas_a2", "atlas_a3"):
                    continue
                values = [element(source, r, e, block, step) if e in part else empty for e in inside]
                found = tree(values) if kind == "sum" else values[best(kind, values, list(range(per_block)))]
                want.put((r * to * 8 + g) * size, found)
    want.check(run(card, dtype, dtype, source, counter, lambda d, s: BLOCK[kind](d, s, repeats, mask, to, block, step)))


@PROPERTY
@given(parts(), st.integers(0, 999))
def test_pairs(case: Any, seed: int) -> None:
    card, dtype, mask, counter, repeats, (to, block, step) = case
    source, lanes, want = numbers(dtype, seed), lanes_of(dtype), Expected()
    zero = source.dtype.type(0)
    with np.errstate(all="ignore"):
        for r, among in enumerate(chosen(mask, counter, repeats, lanes)):
            part = set(among)
            for g in range(lanes // 2):
                if not part & {2 * g, 2 * g + 1} and card in ("atlas_a2", "atlas_a3"):
                    continue
                a, b = (element(source, r, e, block, step) if e in part else zero for e in (2 * g, 2 * g + 1))
                want.put(r * to * 128 + g * source.itemsize, a + b)
    want.check(run(card, dtype, dtype, source, counter, lambda d, s: api.pair_reduce_sum(d, s, repeats, mask, to, block, step)))


# ---- marks, masks that last, what is refused ------------------------------------------------------------------------
def test_a_result_of_undefined_elements_is_undefined() -> None:
    places = {"src": Place("VECCALC", "float", noise(1024), written=False), "dst": Place("VECCALC", "float", 1024)}
    stage = Stage("atlas_a2", places)
    stage.memories["UB"].shadow[stage["src"].offset : stage["src"].offset + 32] = 1  # type: ignore[index]
    stage.call(lambda: api.block_reduce_max(stage["dst"], stage["src"], 1, 64, 1, 1, 8))
    assert list(np.flatnonzero(stage.defined("dst"))) == [0, 1, 2, 3]
    stage.call(lambda: api.whole_reduce_sum(stage["dst"], stage["src"], 8, 1, 1, 1, 8))  # the mask leaves out the rest
    assert stage.defined("dst")[:4].all()
    stage.call(lambda: api.whole_reduce_sum(stage["dst"], stage["src"], 9, 1, 1, 1, 8))
    assert not stage.defined("dst")[:4].any()


def test_the_mask_is_left_and_may_be_taken_as_it_is() -> None:
    stage = Stage("atlas_a2", {"src": Place("VECCALC", "half", noise(1024)), "dst": Place("VECCALC", "half", 1024)})
    stage.call(lambda: api.whole_reduce_sum(stage["dst"], stage["src"], [6, 1], 1, 1, 1, 8))
    assert stage.recorder.state["vector_mask"] == (1, 6)
    stage.call(lambda: api.whole_reduce_max(stage["dst"], stage["src"], 128, 1, 1, 1, 8, is_set_mask=False))
    words = stage.bytes("src").view(np.float16)
    assert stage.bytes("dst").view(np.uint16)[1] == (1, 2, 64)[best("max", list(words[[1, 2, 64]]), [0, 1, 2])]


FIELDS = ["repeat_time", "dst_rep_stride", "src_blk_stride", "src_rep_stride", "mask", "order"]


@PROPERTY
@given(wholes(), st.sampled_from(FIELDS), st.sampled_from([-1, 1 << 16, 1 << 70]))
def test_values_outside_their_fields(case: Any, field: str, wrong: int) -> None:
    card, _, _, _, _, repeats, (to, block, step), _ = case
    if field == "mask" and wrong == 1 << 16:
        wrong = -5  # a mask above the elements of a repeat means all of them
    arguments: dict[str, Any] = {"mask": 4, "repeat_time": repeats, "dst_rep_stride": to, "src_blk_stride": block,
                                 "src_rep_stride": step, "order": 0} | {field: wrong}  # fmt: skip
    stage = Stage(card, {name: Place("VECCALC", "half", ROOM) for name in ("src", "dst")}, core=vector_core(card))
    stage.refuses(lambda: api.whole_reduce_max(stage["dst"], stage["src"], **arguments), ParameterError,
                  "repeat" if field == "repeat_time" else field)  # fmt: skip


@pytest.mark.parametrize(("card", "dtypes", "call", "error", "field"), [
    ("atlas_a2", ("int16", "int16"), lambda d, s: api.whole_reduce_max(d, s, 8, 1, 1, 1, 8), UnsupportedError, "dtype"),
    ("atlas_a2", ("float", "half"), lambda d, s: api.whole_reduce_sum(d, s, 8, 1, 1, 1, 8), UnsupportedError, "dtype"),
    ("atlas_350", ("int16", "int16"), lambda d, s: api.whole_reduce_sum(d, s, 8, 1, 1, 1, 8), UnsupportedError, "dtype"),
    ("atlas_350", ("int32", "int32"), lambda d, s: api.block_reduce_sum(d, s, 1, 8, 1, 1, 8), UnsupportedError, "dtype"),
    ("atlas_a3", ("int32", "int32"), lambda d, s: api.pair_reduce_sum(d, s, 1, 8, 1, 1, 8), UnsupportedError, "dtype"),
    ("atlas_200i", ("half", "half"), lambda d, s: api.whole_reduce_max(d, s, 8, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX),
     ParameterError, "order"),
    ("atlas_a2", ("half", "half"), lambda d, s: api.whole_reduce_max(d, s, 8, 1, 1, 1, 8, is_set_mask=1), ParameterError,
     "is_set_mask"),
    ("atlas_a2", ("half", "half"), lambda d, s: api.pair_reduce_sum(d, s, 1.5, 8, 1, 1, 8), ParameterError, "repeat"),
])  # fmt: skip
def test_what_is_refused(card: str, dtypes: Any, call: Any, error: type[AiCoreError], field: str) -> None:
    stage = Stage(card, {name: Place("VECCALC", dtype, 1024) for name, dtype in zip(("dst", "src"), dtypes, strict=True)},
                  core=vector_core(card))  # fmt: skip
    stage.refuses(lambda: call(stage["dst"], stage["src"]), error, field)


def test_no_repeat_does_nothing() -> None:
    stage = Stage("atlas_a2", {name: Place("VECCALC", "half", 1024) for name in ("src", "dst")})
    stage.call(lambda: api.whole_reduce_sum(stage["dst"], stage["src"], 8, 0, 1, 1, 8))
    assert stage.ops == []
