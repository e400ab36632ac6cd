"""Compare, Compares and Select with a count against references that go element by element (their pages)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.instructions.vector import BinaryRepeatParams, UnaryRepeatParams
from aicore_sim.kernel.api_vector_select import compare, compare_scalar, select
from aicore_sim.kernel.enums import CMPMODE, SelMode
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

ROOM = 4096
NUMPY = {"half": np.float16, "float": np.float32, "int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32,
         "int64": np.int64, "uint64": np.uint64, "int8": np.int8, "uint8": np.uint8}  # fmt: skip
ALL = list(NUMPY)
COMPARED = {"atlas_a2": ["half", "float", "int32"], "atlas_a3": ["half", "float", "int32"], "atlas_200i": ["half", "float"],
            "atlas_350": ALL}  # fmt: skip
WITH_NUMBER = COMPARED | {"atlas_200i": ["int16", "uint16", "half", "int32", "uint32", "float"]}
TESTS = {CMPMODE.LT: lambda a, b: a < b, CMPMODE.GT: lambda a, b: a > b, CMPMODE.EQ: lambda a, b: a == b,
         CMPMODE.LE: lambda a, b: a <= b, CMPMODE.GE: lambda a, b: a >= b, CMPMODE.NE: lambda a, b: a != b}  # fmt: skip


def numbers(dtype: str, seed: int) -> NDArray[Any]:
    """Few different values, NaN and both zeros among them."""
    rng, kind = np.random.default_rng(seed), np.dtype(NUMPY[dtype])
    values = rng.integers(0, 5, ROOM // kind.itemsize).astype(kind)
    if kind.kind == "f":
        values[rng.random(values.size) < 0.1] = np.nan
        values[rng.random(values.size) < 0.1] = -0.0
    return values


def stage_of(card: str, places: dict[str, Place]) -> Stage:
    return Stage(card, places, core="core" if card == "atlas_200i" else "aiv")


def vec(dtype: str, content: Any, **more: Any) -> Place:
    return Place("VECCALC", dtype, content.view(np.uint8) if isinstance(content, np.ndarray) else content, **more)


@st.composite
def comparisons(draw: st.DrawFn, lists: dict[str, list[str]]) -> tuple[str, str, CMPMODE, int]:
    card = draw(st.sampled_from(CARDS))
    dtype = draw(st.sampled_from(lists[card]))
    only = card in ("atlas_a2", "atlas_a3") and dtype == "int32"
    mode = CMPMODE.EQ if only else draw(st.sampled_from(list(CMPMODE)))
    lanes = 256 // np.dtype(NUMPY[dtype]).itemsize
    count = lanes * draw(st.integers(1, 6)) + (draw(st.integers(0, lanes - 1)) if draw(st.booleans()) else 0)
    return card, dtype, mode, count


def bits_of(flags: list[bool]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    out, written = np.full(512, SENTINEL, np.uint8), np.zeros(512, np.bool_)
    for i in range(0, len(flags), 8):
        out[i // 8] = sum(1 << j for j in range(8) if flags[i + j])
        written[i // 8] = True
    return out, written


@PROPERTY
@given(comparisons(COMPARED), st.sampled_from(["int8", "uint8"]), st.integers(0, 99))
def test_compare(case: Any, bits: str, seed: int) -> None:
    card, dtype, mode, count = case
    a, b = numbers(dtype, seed), numbers(dtype, seed + 100)
    whole = count - count % (256 // a.itemsize)
    out, written = bits_of([bool(TESTS[mode](a[i], b[i])) for i in range(whole)])
    stage = stage_of(card, {"a": vec(dtype, a), "b": vec(dtype, b), "dst": vec(bits, 512)})
    stage.call(lambda: compare(stage["dst"], stage["a"], stage["b"], mode, count))
    assert np.array_equal(stage.bytes("dst"), out) and np.array_equal(stage.defined("dst"), written)
    assert any("256 B" in text for text in stage.warnings) == (whole != count)


@PROPERTY
@given(comparisons(WITH_NUMBER), st.integers(0, 4), st.integers(0, 99))
def test_compare_scalar(case: Any, number: int, seed: int) -> None:
    card, dtype, mode, count = case
    a = numbers(dtype, seed)
    whole = count - count % (256 // a.itemsize)
    out, written = bits_of([bool(TESTS[mode](a[i], number)) for i in range(whole)])
    stage = stage_of(card, {"a": vec(dtype, a), "dst": vec("uint8", 512)})
    stage.call(lambda: compare_scalar(stage["dst"], stage["a"], number, mode, count))
    assert np.array_equal(stage.bytes("dst"), out) and np.array_equal(stage.defined("dst"), written)


def test_compare_of_undefined_elements() -> None:
    a = numbers("half", 1)
    stage = stage_of("atlas_a2", {"a": vec("half", a, written=False), "b": vec("half", a), "dst": vec("uint8", 512)})
    stage.memories["UB"].shadow[stage["a"].offset : stage["a"].offset + 34] = 1  # type: ignore[index]
    stage.call(lambda: compare(stage["dst"], stage["a"], stage["b"], CMPMODE.LT, 128))
    assert list(np.flatnonzero(stage.defined("dst"))) == [0, 1]


@PROPERTY
@given(st.sampled_from(CARDS), st.data(), st.integers(0, 99))
def test_select(card: str, data: st.DataObject, seed: int) -> None:
    dtype = data.draw(st.sampled_from(ALL if card == "atlas_350" else ["half", "float"]))
    mode = data.draw(st.sampled_from(list(SelMode)))
    a, b, mask = numbers(dtype, seed), numbers(dtype, seed + 7), noise(512, seed)
    count, lanes = data.draw(st.integers(1, a.size)), 256 // a.itemsize
    other: Any = 3 if mode == SelMode.VSEL_TENSOR_SCALAR_MODE else None
    want = np.full(ROOM, SENTINEL, np.uint8).view(a.dtype)
    for i in range(count):
        bit = i % lanes if mode == SelMode.VSEL_CMPMASK_SPR else i
        want[i] = a[i] if mask[bit // 8] >> bit % 8 & 1 else other if other is not None else b[i]
    kind = data.draw(st.sampled_from(["uint8", "uint16", "uint32", "uint64"]))
    stage = stage_of(card, {"a": vec(dtype, a), "b": vec(dtype, b), "mask": vec(kind, mask), "dst": vec(dtype, ROOM)})
    stage.call(lambda: select(stage["dst"], stage["mask"], stage["a"], other or stage["b"], mode, count))
    assert np.array_equal(stage.bytes("dst"), want.view(np.uint8))
    assert np.array_equal(stage.defined("dst"), np.arange(ROOM) < count * a.itemsize)


def test_select_needs_only_what_it_chooses() -> None:
    a = numbers("float", 3)
    stage = stage_of("atlas_a2", {"a": vec("float", a), "b": vec("float", a, written=False), "mask": vec("uint8", noise(32)),
                                  "dst": vec("float", ROOM)})  # fmt: skip
    stage.call(lambda: select(stage["dst"], stage["mask"], stage["a"], stage["b"], SelMode.VSEL_TENSOR_TENSOR_MODE, 256))
    chosen = np.unpackbits(stage.bytes("mask"), bitorder="little").astype(np.bool_)
    assert np.array_equal(stage.defined("dst")[:1024:4], chosen)


BINARY, UNARY = BinaryRepeatParams(), UnaryRepeatParams()


@pytest.mark.parametrize(("call", "error", "field"), [
    (lambda s: compare(s["bits"], s["a"], s["b"], CMPMODE.LT, -1), ParameterError, "count"),
    (lambda s: compare(s["bits"], s["a"], s["b"], 6, 128), ParameterError, "cmp_mode"),
    (lambda s: compare(s["a"], s["a"], s["b"], CMPMODE.LT, 128), ParameterError, "dtype"),
    (lambda s: compare(s["bits"], s["a"], s["i"], CMPMODE.LT, 128), ParameterError, "dtype"),
    (lambda s: compare(s["bits"], s["i"], s["i"], CMPMODE.LT, 64), UnsupportedError, "cmp_mode"),
    (lambda s: compare(s["bits"], s["u"], s["u"], CMPMODE.EQ, 128), UnsupportedError, "dtype"),
    (lambda s: compare(s["bits"], s["bits"], s["bits"], CMPMODE.EQ, 256), UnsupportedError, "dtype"),
    (lambda s: compare(s["bits"], s["a"], s["b"], CMPMODE.LT, 128, 1, BINARY), UnsupportedError, "arguments"),
    (lambda s: compare(s["a"], s["b"], CMPMODE.LT, 128, BINARY), UnsupportedError, "arguments"),
    (lambda s: compare_scalar(s["bits"], s["i"], 1, CMPMODE.GE, 64), UnsupportedError, "cmp_mode"),
    (lambda s: compare_scalar(s["bits"], s["a"], 1, CMPMODE.GE, 64, 1, UNARY), UnsupportedError, "arguments"),
    (lambda s: select(s["a"], s["bits"], s["a"], s["b"], 1, 64), ParameterError, "sel_mode"),
    (lambda s: select(s["a"], s["bits"], s["a"], 1.0, 2, 64), ParameterError, "sel_mode"),
    (lambda s: select(s["a"], s["a"], s["a"], s["b"], 2, 64), ParameterError, "sel_mask"),
    (lambda s: select(s["a"], s["bits"], s["a"], s["i"], 2, 64), ParameterError, "dtype"),
    (lambda s: select(s["i"], s["bits"], s["i"], s["i"], 2, 64), UnsupportedError, "dtype"),
    (lambda s: select(s["a"], s["bits"], s["a"], s["b"], 2, -1), ParameterError, "count"),
    (lambda s: select(s["a"], s["bits"], s["a"], s["b"], 2, 128, 1, BINARY), UnsupportedError, "arguments"),
    (lambda s: select(s["a"], s["a"], s["b"], 1, BINARY, 0), UnsupportedError, "arguments"),
    (lambda s: select(s["a"], s["bits"], s["a"], 1, BINARY), UnsupportedError, "arguments"),
])  # fmt: skip
def test_what_is_refused(call: Any, error: type[AiCoreError], field: str) -> None:
    stage = stage_of("atlas_a2", {"a": vec("half", 1024), "b": vec("half", 1024), "i": vec("int32", 1024),
                                  "u": vec("uint16", 1024), "bits": vec("uint8", 512)})  # fmt: skip
    stage.refuses(lambda: call(stage), error, field)


def test_nothing() -> None:
    stage = stage_of("atlas_a2", {"a": vec("half", 1024), "bits": vec("uint8", 512)})
    stage.call(lambda: compare(stage["bits"], stage["a"], stage["a"], CMPMODE.LT, 0))
    stage.call(lambda: select(stage["a"], stage["bits"], stage["a"], stage["a"], SelMode.VSEL_TENSOR_TENSOR_MODE, 0))
    assert stage.ops == []
