"""Mmad and MmadMx against sums over k, on every card and element type, through layouts written element by element.

Operands are small numbers whose products add up exactly, so that the unpublished order of the sum does not matter. What
lies in the fractals outside the matrices is NaN, where the type has one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.kernel.api_cube import mmad, mmad_mx
from tests.properties.profile import PROPERTY
from tests.stage import SENTINEL, Place, Stage

Draw = Any
INTS = ("int8", "int4")
PAIRS: dict[str, list[tuple[str, str]]] = {
    name: [("int8", "int8"), ("half", "half"), ("bfloat16", "bfloat16"), ("float", "float"), ("int4", "int4")]
    for name in ("atlas_a2", "atlas_a3", "atlas_200i")
}
FP8 = ("fp8_e4m3fn", "fp8_e5m2")
FP4 = ("fp4x2_e2m1", "fp4x2_e1m2")
PAIRS["atlas_350"] = [("int8", "int8"), ("half", "half"), ("bfloat16", "bfloat16"), ("float", "float"),
                      ("hifloat8", "hifloat8"), *((a, b) for a in FP8 for b in FP8)]  # fmt: skip
MX_PAIRS = [(a, b) for kind in (FP8, FP4) for a in kind for b in kind]
# code -> value of the elements used, and the code of a NaN (or of a large number where there is none)
CODES: dict[str, dict[int, float]] = {
    "hifloat8": {0x00: 0, 0x08: 1, 0x10: 2, 0x20: 4, 0x18: 0.5, 0x30: 0.25, 0x88: -1, 0x90: -2, 0x98: -0.5},
    "fp4x2_e2m1": dict(enumerate((0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6))),
    "fp4x2_e1m2": dict(enumerate((0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, -0.0, -0.25, -0.5, -0.75, -1, -1.25, -1.5, -1.75))),
    "int4": {code: code - 16 * (code > 7) for code in range(16)},
}  # fmt: skip
NUMPY: dict[str, Any] = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16, "float": np.float32, "int8": np.int8,
                         "fp8_e4m3fn": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
JUNK = {"half": 0x7E00, "bfloat16": 0x7FC0, "float": 0x7FC00000, "int8": 99, "int4": 7, "hifloat8": 0x80, "fp8_e4m3fn": 0x7F,
        "fp8_e5m2": 0x7F, "fp4x2_e2m1": 7, "fp4x2_e1m2": 7}  # fmt: skip


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def matrix(rng: Any, dtype: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """(words, numbers) of random elements."""
    if dtype in CODES:
        codes = np.array(list(CODES[dtype]), np.uint8)[rng.integers(0, len(CODES[dtype]), (rows, cols))]
        return codes, np.array([[CODES[dtype][int(c)] for c in row] for row in codes], np.float64)
    numbers = rng.integers(-8, 9, (rows, cols))
    words = numbers.astype(NUMPY[dtype])
    return words.view(f"u{words.itemsize}"), numbers.astype(np.float64)


def fractals(words: NDArray[Any], dtype: str, layout: str, columns: int = 0) -> NDArray[np.uint8]:
    """Bytes of a matrix in fractals of 16 x C0, element by element; holes hold junk. `columns` = fractals of a row in zZ."""
    rows, cols = words.shape
    c0 = 256 // DataType(dtype).bits
    if layout == "ZN":  # the NZ image of the transposed matrix
        words, rows, cols = words.T, cols, rows
    deep, wide = up(rows, 16) // 16, max(up(cols, c0) // c0, columns)
    out = np.full(deep * wide * 16 * c0, JUNK[dtype], np.uint32)
    for r in range(rows):
        for c in range(cols):
            fractal = (c // c0) * deep + r // 16 if layout in ("NZ", "ZN") else (r // 16) * wide + c // c0
            out[fractal * 16 * c0 + r % 16 * c0 + c % c0] = words[r, c]
    return packed(out, dtype)


def packed(elements: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    bits = DataType(dtype).bits
    if bits == 4:
        low, high = elements[0::2].astype(np.uint8), elements[1::2].astype(np.uint8)
        return low | high << 4
    return elements.astype(f"u{bits // 8}").view(np.uint8)


def l0c_places(m: int, n: int) -> NDArray[np.int64]:
    """Element (r, c) of C: (c/16 * (M/16) + r/16) * 256 + r%16 * 16 + c%16."""
    places = np.zeros((m, n), np.int64)
    for r in range(m):
        for c in range(n):
            places[r, c] = (c // 16 * (up(m, 16) // 16) + r // 16) * 256 + r % 16 * 16 + c % 16
    return places


def tile(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    m, n = values.shape
    flat = np.zeros(up(m, 16) * up(n, 16), kind)
    flat[l0c_places(m, n)] = values
    return flat


def expected_start(start: str, old: NDArray[Any], bias: NDArray[Any], other: NDArray[Any]) -> Any:
    return {"zero": 0, "C": old, "bias": bias[None, :], "tile": other}[start]


@st.composite
def products(draw: Draw) -> dict[str, Any]:
    card = draw(st.sampled_from(sorted(PAIRS)))
    a, b = draw(st.sampled_from(PAIRS[card]))
    k = draw(st.integers(1, 70))
    k += k % 2 if a == "int4" else 0
    starts = ["zero", "C"] if a == "int4" else ["zero", "C", "bias", "tile"]
    return {
        "card": card, "a": a, "b": b, "m": draw(st.just(1) | st.integers(2, 40)), "n": draw(st.integers(1, 40)), "k": k,
        "start": draw(st.sampled_from(starts)), "seed": draw(st.integers(0, 999)),
        "align": card in ("atlas_a2", "atlas_a3") and a == "float" and draw(st.booleans()),
        "no_gemv": card == "atlas_350" and draw(st.booleans()),
    }  # fmt: skip


@PROPERTY
@given(products())
def test_any_product(case: dict[str, Any]) -> None:
    m, n, k, dtype = case["m"], case["n"], case["k"], case["a"]
    rng = np.random.default_rng(case["seed"])
    a_words, a = matrix(rng, dtype, m, k)
    b_words, b = matrix(rng, case["b"], k, n)
    out = "int32" if dtype in INTS else "float"
    kind: Any = np.int32 if dtype in INTS else np.float32
    old, other = rng.integers(-99, 99, (2, m, n))
    bias = rng.integers(-99, 99, n)
    gemv = m == 1 and not case["no_gemv"]
    if gemv:  # k contiguous elements, whole fractals
        line = np.full(up(k * DataType(dtype).bits, 4096) // DataType(dtype).bits, JUNK[dtype], np.uint32)
        line[:k] = a_words[0]
        left = packed(line, dtype)
    else:
        wide = up(k, 16) // 8 if case["align"] else 0
        left = fractals(a_words, dtype, "NZ" if case["card"] == "atlas_350" else "ZZ", wide)
    size = up(m, 16) * up(n, 16)
    behind = np.full(256, SENTINEL * 0x01010101, np.uint32).view(kind)
    places = {
        "a": Place("A2", dtype, left), "b": Place("B2", case["b"], fractals(b_words, case["b"], "ZN")),
        "c": Place("CO1", out, np.concatenate([tile(old, kind), behind]), written=case["start"] == "C"),
        "other": Place("CO1", out, tile(other, kind)), "bias": Place("C2", out, bias.astype(kind)),
    }  # fmt: skip
    stage = Stage(case["card"], places)
    params = MmadParams(m, n, k, cmatrix_init_val=case["start"] == "zero", k_direction_align=case["align"],
                        disable_gemv=case["no_gemv"])  # fmt: skip
    extra = {"bias": [stage["bias"]], "tile": [stage["other"]]}.get(case["start"], [])
    stage.call(lambda: mmad(stage["c"], stage["a"], stage["b"], *extra, params))
    result = stage.bytes("c").view(kind)
    np.testing.assert_array_equal(
        result[l0c_places(m, n)], a @ b + expected_start(case["start"], old, bias, other), str(case)
    )
    np.testing.assert_array_equal(result[size:].view(np.uint32), behind.view(np.uint32))
    wanted = np.zeros(size + 256, np.bool_)
    wanted[l0c_places(m, n)] = True
    if case["start"] == "C":
        wanted[size:] = True
    np.testing.assert_array_equal(stage.defined("c").reshape(-1, 4).all(axis=1), wanted)
    assert not stage.warnings


@PROPERTY
@given(
    pair=st.sampled_from(MX_PAIRS), m=st.integers(1, 40), n=st.integers(1, 40), groups=st.integers(1, 2),
    start=st.sampled_from(["zero", "C", "bias"]), seed=st.integers(0, 999),
)  # fmt: skip
def test_any_scaled_product(pair: tuple[str, str], m: int, n: int, groups: int, start: str, seed: int) -> None:
    """C = sum over k of A(i,k) 2^(sa(i,k/32) - 127) B(k,j) 2^(sb(j,k/32) - 127)."""
    k = 64 * groups
    rng = np.random.default_rng(seed)
    a_words, a = matrix(rng, pair[0], m, k)
    b_words, b = matrix(rng, pair[1], k, n)
    scale_a, scale_b = rng.integers(125, 130, (m, k // 32)), rng.integers(125, 130, (n, k // 32))
    left = fractals(a_words, pair[0], "NZ")
    if m == 1:
        bits = DataType(pair[0]).bits
        line = np.zeros(up(k * bits, 4096) // bits, np.uint32)
        line[:k] = a_words[0]
        left = packed(line, pair[0])
    old, bias = rng.integers(-99, 99, (m, n)).astype(np.float32), rng.integers(-99, 99, n).astype(np.float32)
    # behind another kilobyte each: the scales lie at a sixteenth of the address
    places = {
        "a0": Place("A2", pair[0], 1024), "a": Place("A2", pair[0], left), "b0": Place("B2", pair[1], 2048),
        "b": Place("B2", pair[1], fractals(b_words, pair[1], "ZN")), "c": Place("CO1", "float", tile(old, np.float32)),
        "bias": Place("C2", "float", bias),
    }  # fmt: skip
    stage = Stage("atlas_350", places)
    for buffer, base, scales in (("L0AMX", 64, scale_a), ("L0BMX", 128, scale_b)):
        memory = stage.memories[buffer]
        assert memory.shadow is not None
        memory.bytes()[:] = 0xFF  # NaN
        for r in range(scales.shape[0]):
            for g in range(scales.shape[1]):
                place = base + (r // 16 * groups + g // 2) * 32 + r % 16 * 2 + g % 2
                memory.bytes()[place] = scales[r, g]
                memory.shadow[place] = 1
    params = MmadParams(m, n, k, cmatrix_init_val=start == "zero")
    extra = [stage["bias"]] if start == "bias" else []
    stage.call(lambda: mmad_mx(stage["c"], stage["a"], stage["b"], *extra, params))
    left_scaled = a * np.repeat(2.0 ** (scale_a - 127.0), 32, axis=1)
    right_scaled = b * np.repeat(2.0 ** (scale_b - 127.0), 32, axis=1).T
    wanted = left_scaled @ right_scaled + expected_start(start, old, bias, old)
    np.testing.assert_array_equal(stage.bytes("c").view(np.float32)[l0c_places(m, n)], wanted)
    inside = np.zeros(up(m, 16) * up(n, 16), np.bool_)
    inside[l0c_places(m, n)] = True
    np.testing.assert_array_equal(stage.defined("c").reshape(-1, 4).all(axis=1), inside)


GOOD = MmadParams(16, 16, 64)
ILLEGAL: list[tuple[str, str, dict[str, Any], type[AiCoreError], str]] = [
    *((card, "half", {field: value}, ParameterError, field)
      for card in PAIRS for field in ("m", "n", "k") for value in (-1, 4096, 2.0)),
    *((card, "half", {"unit_flag": value}, ParameterError, "unit_flag") for card in PAIRS for value in (-1, 1, 4)),
    *((card, "half", {field: True}, UnsupportedError, field) for card in PAIRS
      for field in ("en_ssparse", "en_winograd_a", "en_winograd_b")),
    *((card, "half", {"fm_offset": 1}, UnsupportedError, "fm_offset") for card in PAIRS),
    *((card, "half", {"disable_gemv": True}, UnsupportedError, "disable_gemv") for card in PAIRS if card != "atlas_350"),
    *((card, "float", {"k_direction_align": True}, UnsupportedError, "k_direction_align") for card in ("atlas_350", "atlas_200i")),
    ("atlas_a2", "half", {"k_direction_align": True}, ParameterError, "k_direction_align"),
    ("atlas_200i", "half", {"unit_flag": 2}, UnsupportedError, "unit_flag"),
    ("atlas_a3", "int4", {"k": 63}, ParameterError, "k"),
    ("atlas_a3", "int4", {"cmatrix_source": True}, UnsupportedError, "cmatrix_source"),
    ("atlas_350", "int4", {}, UnsupportedError, "dtype"),
    *((card, "fp8_e5m2", {}, UnsupportedError, "dtype") for card in PAIRS if card != "atlas_350"),
    *((card, "uint8", {}, UnsupportedError, "dtype") for card in PAIRS),
]  # fmt: skip


@pytest.mark.parametrize(("card", "dtype", "fields", "error", "field"), ILLEGAL)
def test_one_wrong_field(card: str, dtype: str, fields: dict[str, Any], error: type[AiCoreError], field: str) -> None:
    out = "int32" if DataType(dtype).is_int() else "float"
    stage = Stage(card, {"a": Place("A2", dtype, 8192), "b": Place("B2", dtype, 8192), "c": Place("CO1", out, 1024)})
    stage.refuses(lambda: mmad(stage["c"], stage["a"], stage["b"], replace(GOOD, **fields)), error, field)


@pytest.mark.parametrize(("card", "dtype", "fields", "error", "field"), [
    ("atlas_350", "fp8_e5m2", {"k": 63}, ParameterError, "k"), ("atlas_350", "fp4x2_e1m2", {"k": 32}, ParameterError, "k"),
    ("atlas_350", "fp8_e5m2", {"m": 4096}, ParameterError, "m"), ("atlas_350", "fp8_e5m2", {"unit_flag": 1}, ParameterError,
    "unit_flag"), ("atlas_350", "hifloat8", {}, UnsupportedError, "dtype"), ("atlas_350", "half", {}, UnsupportedError, "dtype"),
    ("atlas_a2", "half", {}, UnsupportedError, "api"), ("atlas_350", "fp8_e5m2", {"fm_offset": 1}, UnsupportedError, "fm_offset"),
])  # fmt: skip
def test_one_wrong_field_of_mx(card: str, dtype: str, fields: dict[str, Any], error: type[AiCoreError], field: str) -> None:
    stage = Stage(card, {"a": Place("A2", dtype, 8192), "b": Place("B2", dtype, 8192), "c": Place("CO1", "float", 1024)})
    stage.refuses(lambda: mmad_mx(stage["c"], stage["a"], stage["b"], replace(GOOD, **fields)), error, field)


@pytest.mark.parametrize(("value", "kept"), [(4096 + 16, 16), (-4080, 16)])
def test_sizes_lose_their_high_bits_where_hardware_is_imitated(value: int, kept: int) -> None:
    ones = np.full(256, 0x3C00, np.uint16)
    stage = Stage("atlas_a2", {"a": Place("A2", "half", ones), "b": Place("B2", "half", ones), "c": Place("CO1", "float", 1024)},
                  wrap="hardware")  # fmt: skip
    stage.call(lambda: mmad(stage["c"], stage["a"], stage["b"], MmadParams(value, 16, 16)))
    assert stage.bytes("c").view(np.float32).tolist() == [16.0] * 256
    assert any(f"becomes {kept}" in text for text in stage.warnings)
