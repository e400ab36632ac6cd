"""ReduceSum, ReduceMax and ReduceMin against references that go element by element (their pages)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.kernel.api_vector_total import reduce_max, reduce_min, reduce_sum
from aicore_sim.kernel.system import set_mask_count
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

ROOM = 32768
NUMPY = {"half": np.float16, "float": np.float32, "int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32,
         "int64": np.int64, "uint64": np.uint64}  # fmt: skip
CALLS = {"sum": reduce_sum, "max": reduce_max, "min": reduce_min}


def numbers(dtype: str, seed: int) -> NDArray[Any]:
    rng, kind = np.random.default_rng(seed), np.dtype(NUMPY[dtype])
    if kind.kind != "f":
        return noise(ROOM, seed).view(kind)
    count = ROOM // kind.itemsize
    return (rng.integers(-40, 40, count) * 2.0 ** rng.integers(-9, 4, count)).astype(kind)


def tree(values: list[Any]) -> Any:
    while len(values) > 1:
        values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
    return values[0]


def again(values: list[Any], lanes: int) -> Any:
    """Repeats of repeats until one is left; what is missing in the last one is 0."""
    while len(values) > 1:
        values = values + [values[0] * 0] * (-len(values) % lanes)
        values = [tree(values[i : i + lanes]) for i in range(0, len(values), lanes)]
    return values[0]


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, str, Any]:
    """Card, kind, type, and the arguments of the count form (an int) or the mask form."""
    card, kind = draw(st.sampled_from(CARDS)), draw(st.sampled_from(["sum", "max", "min"]))
    types = ["half", "float"]
    if card == "atlas_350":
        types += ["int32", "uint32", "int64", "uint64"] + (["int16", "uint16"] if kind != "sum" else [])
    dtype = draw(st.sampled_from(types))
    lanes = 256 // np.dtype(NUMPY[dtype]).itemsize
    if lanes == 32 or draw(st.booleans()):
        return card, kind, dtype, draw(st.integers(1, 20 * lanes))
    mask: Any = draw(st.integers(1, lanes))
    if draw(st.booleans()):
        word = draw(st.integers(1, (1 << lanes) - 1))
        mask = [word & (1 << 64) - 1, word >> 64]
    return card, kind, dtype, (mask, draw(st.integers(1, 12)), draw(st.integers(0, 10)))


def rows_of(source: NDArray[Any], how: Any) -> list[dict[int, Any]]:
    """Elements that take part, by lane, of each repeat."""
    lanes = 256 // source.itemsize
    if isinstance(how, int):
        return [{e: source[s + e] for e in range(min(lanes, how - s))} for s in range(0, how, lanes)]
    mask, repeats, stride = how
    bits = list(range(mask)) if isinstance(mask, int) else [e for e in range(lanes) if mask[e // 64] >> e % 64 & 1]
    return [{e: source[r * stride * 32 // source.itemsize + e] for e in bits} for r in range(repeats)]


@PROPERTY
@given(cases(), st.booleans(), st.integers(0, 999))
def test_totals(case: Any, index: bool, seed: int) -> None:
    card, kind, dtype, how = case
    source = numbers(dtype, seed)
    size, lanes = source.itemsize, 256 // source.itemsize
    index = index and kind != "sum" and (isinstance(how, int) or how[2] == 8 or how[1] == 1)
    rows, used = rows_of(source, how), 0
    zero = source.dtype.type(0)
    lines = lambda n: -(-n * size // 32) * 32  # noqa: E731
    with np.errstate(all="ignore"):
        if kind == "sum":
            full = [[row.get(e, zero) for e in range(lanes)] for row in rows]
            counted = isinstance(how, int)
            merged = card == "atlas_350" and counted and (size == 8 or 256 <= how * size <= 1024)
            if counted and card in ("atlas_a2", "atlas_a3"):
                result = tree(full[0])
                for row in full[1:]:
                    result = result + tree(row)
            elif merged:
                line = full[0]
                for row in full[1:]:
                    line = [a + b for a, b in zip(line, row, strict=True)]
                result = tree(line)
            else:
                result, used = again([tree(row) for row in full], lanes), lines(len(rows))
            expected = [result.tobytes()]
        else:
            flat = [(r * lanes + e, value) for r, row in enumerate(rows) for e, value in sorted(row.items())]
            best = flat[0]
            for one in flat[1:]:
                if one[1] > best[1] if kind == "max" else one[1] < best[1]:
                    best = one
            expected = [best[1].tobytes()]
            if index:
                expected.append(np.array(best[0]).astype(f"u{size}").tobytes())
            if card != "atlas_350":
                first, second = lines(2 * len(rows)), 2 * -(-2 * len(rows) // lanes)
                used = first + (lines(second) + (lines(2 * -(-second // lanes)) if second > 2 else 0) if index else 0)
    stage = Stage(card, {"src": Place("VECCALC", dtype, source.view(np.uint8)), "dst": Place("VECCALC", dtype, 64),
                         "tmp": Place("VECCALC", dtype, noise(2048))}, core="core" if card == "atlas_200i" else "aiv")  # fmt: skip
    arguments = (how,) if isinstance(how, int) else how
    more = () if kind == "sum" else (index,)
    stage.call(lambda: CALLS[kind](stage["dst"], stage["src"], stage["tmp"], *arguments, *more))
    raw = np.frombuffer(b"".join(expected), np.uint8)
    assert np.array_equal(stage.bytes("dst"), np.concatenate([raw, np.full(64 - raw.size, SENTINEL, np.uint8)]))
    assert np.array_equal(stage.defined("dst"), np.arange(64) < raw.size)
    assert np.array_equal(stage.defined("tmp"), np.arange(2048) >= used)
    assert np.array_equal(stage.bytes("src"), source.view(np.uint8))


def stage_of(card: str = "atlas_a2", dtype: str = "half", **more: Place) -> Stage:
    places = {"src": Place("VECCALC", dtype, noise(4096)), "dst": Place("VECCALC", dtype, 64), "tmp": Place("VECCALC", dtype, 512)}
    return Stage(card, places | more, core="core" if card == "atlas_200i" else "aiv")


def test_the_buffer_may_be_the_source_and_lie_under_the_result() -> None:
    stage = stage_of()
    words = stage.bytes("src").view(np.float16).copy()
    stage.call(lambda: reduce_max(stage["src"], stage["src"], stage["src"], 2048, True))
    at = int(words[:2048].argmax())
    assert list(stage.bytes("src").view(np.uint16)[:2]) == [words.view(np.uint16)[at], at]
    assert stage.defined("src")[:4].all() and not stage.defined("src")[4:64].any() and stage.defined("src")[96:].all()


def test_a_small_buffer_is_told() -> None:
    stage = stage_of(tmp=Place("VECCALC", "half", 32))
    stage.call(lambda: reduce_max(stage["dst"], stage["src"], stage["tmp"], 2048))
    assert any("shared_tmp_buffer" in text for text in stage.warnings)


def test_undefined_elements_make_the_result_undefined() -> None:
    stage = stage_of(src=Place("VECCALC", "half", noise(4096), written=False))
    stage.memories["UB"].shadow[stage["src"].offset : stage["src"].offset + 512] = 1  # type: ignore[index]
    stage.call(lambda: reduce_sum(stage["dst"], stage["src"], stage["tmp"], 256))
    assert stage.defined("dst")[:2].all()
    stage.call(lambda: reduce_sum(stage["dst"], stage["src"], stage["tmp"], 257))
    assert not stage.defined("dst").any()


@pytest.mark.parametrize(("card", "dtype", "call", "error", "field"), [
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, -1), ParameterError, "count"),
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, 8, -1, 8), ParameterError, "repeat_time"),
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, 8, 1, 65536), ParameterError, "src_rep_stride"),
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, -8, 1, 8), ParameterError, "mask"),
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, 8, 1), ParameterError, "src_rep_stride"),
    ("atlas_a2", "half", lambda d, s, t: reduce_sum(d, s, t, 8, cal_index=True), ParameterError, "arguments"),
    ("atlas_a2", "half", lambda d, s, t: reduce_max(d, s, t, 8, cal_index=1), ParameterError, "cal_index"),
    ("atlas_a2", "half", lambda d, s, t: reduce_max(d, s, t, 8, 2, 9, True), UnsupportedError, "src_rep_stride"),
    ("atlas_a2", "int32", lambda d, s, t: reduce_sum(d, s, t, 8), UnsupportedError, "dtype"),
    ("atlas_350", "int16", lambda d, s, t: reduce_sum(d, s, t, 8), UnsupportedError, "dtype"),
    ("atlas_350", "int64", lambda d, s, t: reduce_max(d, s, t, 8, 1, 8), UnsupportedError, "dtype"),
])  # fmt: skip
def test_what_is_refused(card: str, dtype: str, call: Any, error: type[AiCoreError], field: str) -> None:
    stage = stage_of(card, dtype)
    stage.refuses(lambda: call(stage["dst"], stage["src"], stage["tmp"]), error, field)


def test_counter_mode_and_nothing() -> None:
    stage = stage_of()
    stage.call(lambda: reduce_sum(stage["dst"], stage["src"], stage["tmp"], 0))
    assert stage.ops == []
    stage.call(set_mask_count)
    stage.refuses(lambda: reduce_sum(stage["dst"], stage["src"], stage["tmp"], 8, 1, 8), UnsupportedError, "mask_mode")
