"""Layouts against the formulas of the definition, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.layouts import from_layout, layout_nbytes, stored_shape, to_layout

TYPES = {4: "int4", 8: "int8", 16: "float16", 32: "float32", 64: "int64"}
C0 = {4: 64, 8: 32, 16: 16, 32: 8, 64: 4}


def up(n: int, unit: int) -> int:
    return (n + unit - 1) // unit * unit


# Position of element (r, c) in elements: spec api_semantics.md 1.5 and cases/README.md.
FORMULAS: dict[str, Callable[[int, int, int, int, int], int]] = {
    "ND": lambda r, c, R, C, c0: r * C + c,
    "DN": lambda r, c, R, C, c0: c * R + r,
    "NZ": lambda r, c, R, C, c0: (c // c0 * (up(R, 16) // 16) + r // 16) * 16 * c0 + r % 16 * c0 + c % c0,
    "ZZ": lambda r, c, R, C, c0: (r // 16 * (up(C, c0) // c0) + c // c0) * 16 * c0 + r % 16 * c0 + c % c0,
    "ZN": lambda r, c, R, C, c0: (r // c0 * (up(C, 16) // 16) + c // 16) * 16 * c0 + c % 16 * c0 + r % c0,
    "L0C": lambda r, c, R, C, c0: (c // 16 * (up(R, 16) // 16) + r // 16) * 256 + r % 16 * 16 + c % 16,
}


def sample(shape: tuple[int, ...], bits: int) -> np.ndarray:
    """Words without a zero, so that padding is told from data."""
    high = 16 if bits == 4 else 256
    words = np.random.default_rng(7).integers(1, high, (*shape, max(bits // 8, 1)), np.uint8)
    return words.view(f"u{max(bits // 8, 1)}")[..., 0]


def elements(raw: np.ndarray, bits: int) -> np.ndarray:
    if bits == 4:
        return np.stack([raw & 0xF, raw >> 4], axis=1).reshape(-1)
    return raw.view(f"u{bits // 8}")


@pytest.mark.parametrize("bits", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("layout", ["ND", "DN", "NZ", "ZZ", "ZN", "L0C"])
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (33, 70), (5, 129)])
def test_every_element_is_where_the_formula_puts_it(layout: str, bits: int, shape: tuple[int, int]) -> None:
    if layout == "L0C" and bits != 32:
        return
    dtype, matrix = DataType(TYPES[bits]), sample(shape, bits)
    stored = elements(to_layout(matrix, layout, dtype), bits)
    expected = np.zeros_like(stored)
    for r, c in itertools.product(range(shape[0]), range(shape[1])):
        expected[FORMULAS[layout](r, c, *shape, C0[bits])] = matrix[r, c]
    assert np.array_equal(stored, expected)


@given(
    st.sampled_from(["ND", "DN", "NZ", "ZZ", "ZN"]),
    st.sampled_from([4, 8, 16, 32, 64]),
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(0, 64),
)
def test_there_and_back(layout: str, bits: int, rows: int, columns: int, behind: int) -> None:
    dtype, matrix = DataType(TYPES[bits]), sample((rows, columns), bits)
    raw = to_layout(matrix, layout, dtype)
    assert raw.size == layout_nbytes((rows, columns), layout, dtype)
    back = from_layout(np.concatenate([raw, np.full(behind, 9, np.uint8)]), layout, (rows, columns), dtype)
    assert back.dtype == dtype.np_dtype
    assert back.shape == (rows, columns)
    assert np.array_equal(back.view(matrix.dtype) & (0xF if bits == 4 else ~matrix.dtype.type(0)), matrix)


def test_channels_in_groups_of_c0() -> None:
    dtype, image = DataType("half"), sample((20, 3, 5), 16)
    stored = elements(to_layout(image, "NC1HWC0", dtype), 16)
    assert stored.size == 2 * 3 * 5 * 16
    for c1, h, w, c0 in itertools.product(range(2), range(3), range(5), range(16)):
        c = c1 * 16 + c0
        assert stored[((c1 * 3 + h) * 5 + w) * 16 + c0] == (image[c, h, w] if c < 20 else 0)
    back = from_layout(stored.view(np.uint8), "NC1HWC0", (20, 3, 5), dtype)
    assert np.array_equal(back.view(np.uint16), image)


def test_zn_of_a_matrix_is_nz_of_its_transpose() -> None:
    for name in ("int8", "float16", "float32"):
        dtype = DataType(name)
        matrix = sample((40, 23), dtype.bits)
        assert np.array_equal(to_layout(matrix, "ZN", dtype), to_layout(matrix.T, "NZ", dtype))


def test_more_stored_rows_than_the_matrix_needs() -> None:
    dtype, matrix = DataType("half"), sample((20, 20), 16)
    raw = to_layout(matrix, "NZ", dtype, rows_pad=64)
    stored = elements(raw, 16)
    assert stored.size == 64 * 32
    # Element (17, 18): column block 1 after 64 rows of 16, row 17 in it, column 2.
    assert stored[64 * 16 + 17 * 16 + 2] == matrix[17, 18]
    assert np.count_nonzero(stored) == 400
    assert np.array_equal(from_layout(raw, "NZ", (20, 20), dtype, rows_pad=64).view(np.uint16), matrix)
    assert stored_shape((20, 20), "NZ", dtype, 64) == (64, 32)


def test_low_nibble_first() -> None:
    raw = to_layout(np.array([[6, 7, 5]], np.uint8), "ND", DataType("int4"))
    assert raw.tolist() == [0x76, 0x05]


def test_types_without_a_numpy_type_come_back_as_words() -> None:
    words = sample((3, 40), 8)
    dtype = DataType("hifloat8")
    assert np.array_equal(from_layout(to_layout(words, "NZ", dtype), "NZ", (3, 40), dtype), words)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("layout", lambda: stored_shape((4, 4), "NN", DataType("half"))),
        ("shape", lambda: stored_shape((4, 4, 4), "NZ", DataType("half"))),
        ("shape", lambda: stored_shape((0, 4), "ND", DataType("half"))),
        ("shape", lambda: stored_shape((4, 4), "NC1HWC0", DataType("half"))),
        ("rows_pad", lambda: stored_shape((17, 4), "NZ", DataType("half"), 16)),
        ("rows_pad", lambda: stored_shape((17, 4), "NZ", DataType("half"), 40)),
        ("rows_pad", lambda: stored_shape((17, 4), "ND", DataType("half"), 32)),
        ("dtype", lambda: stored_shape((16, 16), "L0C", DataType("half"))),
        ("matrix", lambda: to_layout(np.zeros((4, 4), np.float32), "NZ", DataType("half"))),
        ("raw", lambda: from_layout(np.zeros(100, np.uint8), "NZ", (4, 4), DataType("half"))),
    ],
)
def test_refusals_name_the_field(field: str, call: Callable[[], object]) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.field == field
