"""Matrix layouts: numpy arrays to the bytes of a buffer and back (spec api_semantics.md 1.5).

C0 is the number of elements in 32 B. A fractal is 512 B: 16 x C0 elements (4-byte results in L0C: 16 x 16, 1024 B).

| layout | shape | order |
|---|---|---|
| ND | (R, C) | row-major, no padding |
| DN | (R, C) | column-major, no padding |
| NZ | (R, C) | columns of fractals of 16 x C0, each row-major |
| ZZ | (R, C) | rows of fractals of 16 x C0, each row-major |
| ZN | (K, N) | rows of fractals of C0 x 16, each column-major |
| L0C | (M, N) | columns of fractals of 16 x 16, each row-major |
| NC1HWC0 | (C, H, W) | channels in groups of C0, which are innermost |

Fractal layouts pad R and C up to whole fractals with zeros; NC1HWC0 pads C up to a multiple of C0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType, word_type
from aicore_sim.errors import ParameterError

LAYOUTS = ("ND", "DN", "NZ", "ZZ", "ZN", "L0C", "NC1HWC0")
FRACTAL_ROWS = 16

Words = NDArray[Any]
# Axes of the blocked matrix [row block, row, column block, column] in the order of the bytes.
_ORDER = {"NZ": (2, 0, 1, 3), "ZZ": (0, 2, 1, 3), "ZN": (0, 2, 3, 1), "L0C": (2, 0, 1, 3)}


def stored_shape(shape: Sequence[int], layout: str, dtype: DataType, rows_pad: int | None = None) -> tuple[int, ...]:
    """`shape` rounded up to what the layout stores, in elements.

    `rows_pad` sets the stored rows of a fractal layout (a multiple of the fractal's rows, at least the matrix's).
    Raises ParameterError for an unknown layout, a wrong number of dimensions, or rows_pad that does not fit.
    """
    if layout not in LAYOUTS:
        raise ParameterError("unknown layout", field="layout", value=layout, allowed=", ".join(LAYOUTS))
    expected = 3 if layout == "NC1HWC0" else 2
    if len(shape) != expected or any(n < 1 for n in shape):
        raise ParameterError(
            f"{layout} stores arrays of {expected} dimensions, none empty", field="shape", value=tuple(shape)
        )
    if layout == "L0C" and dtype.bits != 32:
        raise ParameterError(
            "L0C holds 4-byte results", field="dtype", value=dtype.name, allowed="float32, int32, uint32"
        )
    if layout not in _ORDER:
        if rows_pad is not None:
            raise ParameterError(
                f"{layout} has no fractals to pad to", field="rows_pad", value=rows_pad, allowed="None"
            )
        return (_align(shape[0], dtype.c0), *shape[1:]) if layout == "NC1HWC0" else tuple(shape)
    block = _block(layout, dtype)
    rows, columns = _align(shape[0], block[0]), _align(shape[1], block[1])
    if rows_pad is None:
        return rows, columns
    if rows_pad < rows or rows_pad % block[0]:
        raise ParameterError(
            f"stored rows of {layout} are whole fractals",
            field="rows_pad",
            value=rows_pad,
            allowed=f"multiples of {block[0]} from {rows}",
        )
    return rows_pad, columns


def layout_nbytes(shape: Sequence[int], layout: str, dtype: DataType, rows_pad: int | None = None) -> int:
    """Bytes that the layout takes in a buffer, padding included."""
    elements = 1
    for n in stored_shape(shape, layout, dtype, rows_pad):
        elements *= n
    return dtype.nbytes(elements)


def to_layout(matrix: NDArray[Any], layout: str, dtype: DataType, rows_pad: int | None = None) -> NDArray[np.uint8]:
    """The bytes of `matrix` in a buffer, padding zero.

    `matrix` holds one element of `dtype` per numpy item of the same width (4-bit types: one per byte, low nibble).
    Raises ParameterError if its items have another width, and as `stored_shape` does.
    """
    stored = stored_shape(matrix.shape, layout, dtype, rows_pad)
    words = np.zeros(stored, _word(dtype))
    words[tuple(slice(n) for n in matrix.shape)] = _as_words(matrix, dtype)
    return _pack(_arrange(words, layout, dtype), dtype)


def from_layout(
    raw: NDArray[np.uint8], layout: str, shape: Sequence[int], dtype: DataType, rows_pad: int | None = None
) -> NDArray[Any]:
    """The array of `shape` stored at the start of `raw`; padding is left out.

    Elements have the numpy type of `dtype` (raw words where numpy has none; one item per 4-bit element).
    Raises ParameterError if `raw` is too short, and as `stored_shape` does.
    """
    stored = stored_shape(shape, layout, dtype, rows_pad)
    nbytes = layout_nbytes(shape, layout, dtype, rows_pad)
    if raw.size < nbytes:
        raise ParameterError(f"{layout} of {tuple(shape)} {dtype.name} takes {nbytes} B", field="raw", value=raw.size)
    words = _restore(_unpack(np.ascontiguousarray(raw[:nbytes]), dtype, int(np.prod(stored))), layout, stored, dtype)
    inside = np.ascontiguousarray(words[tuple(slice(n) for n in shape)])
    return inside.view(dtype.np_dtype) if dtype.np_dtype is not None else inside


def element_positions(
    shape: Sequence[int], layout: str, dtype: DataType, rows_pad: int | None = None
) -> NDArray[np.int64]:
    """For every element of an array of `shape` its number in the buffer, in elements. Raises as `stored_shape` does."""
    stored = stored_shape(shape, layout, dtype, rows_pad)
    elements = np.arange(int(np.prod(stored)), dtype=np.int64)
    position = np.empty_like(elements)
    position[_arrange(elements.reshape(stored), layout, dtype)] = elements
    return position.reshape(stored)[tuple(slice(n) for n in shape)]


def _align(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _block(layout: str, dtype: DataType) -> tuple[int, int]:
    """Rows and columns of one fractal."""
    if layout == "L0C":
        return FRACTAL_ROWS, FRACTAL_ROWS
    return (dtype.c0, FRACTAL_ROWS) if layout == "ZN" else (FRACTAL_ROWS, dtype.c0)


def _arrange(words: Words, layout: str, dtype: DataType) -> Words:
    """Padded array -> flat words in buffer order."""
    if layout == "ND":
        return words.reshape(-1)
    if layout == "DN":
        return words.T.reshape(-1)
    if layout == "NC1HWC0":
        c, h, w = words.shape
        return words.reshape(c // dtype.c0, dtype.c0, h, w).transpose(0, 2, 3, 1).reshape(-1)
    rows, columns = _block(layout, dtype)
    blocked = words.reshape(words.shape[0] // rows, rows, words.shape[1] // columns, columns)
    return blocked.transpose(_ORDER[layout]).reshape(-1)


def _restore(flat: Words, layout: str, stored: tuple[int, ...], dtype: DataType) -> Words:
    """Flat words in buffer order -> padded array; the inverse of `_arrange`."""
    if layout == "ND":
        return flat.reshape(stored)
    if layout == "DN":
        return flat.reshape(stored[1], stored[0]).T
    if layout == "NC1HWC0":
        c, h, w = stored
        return flat.reshape(c // dtype.c0, h, w, dtype.c0).transpose(0, 3, 1, 2).reshape(stored)
    rows, columns = _block(layout, dtype)
    blocked = (stored[0] // rows, rows, stored[1] // columns, columns)
    order = _ORDER[layout]
    return flat.reshape([blocked[axis] for axis in order]).transpose(np.argsort(order)).reshape(stored)


def _word(dtype: DataType) -> np.dtype[Any]:
    return word_type(max(dtype.bits, 8))


def _as_words(matrix: NDArray[Any], dtype: DataType) -> Words:
    word = _word(dtype)
    if matrix.dtype.itemsize != word.itemsize:
        raise ParameterError(
            "array items do not have the width of the element type",
            field="matrix",
            value=str(matrix.dtype),
            allowed=f"{word.itemsize} B items for {dtype.name}",
        )
    words: Words = np.ascontiguousarray(matrix).view(word)
    return words & 0xF if dtype.bits == 4 else words


def _pack(flat: Words, dtype: DataType) -> NDArray[np.uint8]:
    if dtype.bits != 4:
        return np.ascontiguousarray(flat).view(np.uint8)
    nibbles = np.zeros(flat.size + flat.size % 2, np.uint8)
    nibbles[: flat.size] = flat
    nibbles[0::2] |= nibbles[1::2] << 4
    return nibbles[0::2].copy()


def _unpack(raw: NDArray[np.uint8], dtype: DataType, elements: int) -> Words:
    if dtype.bits != 4:
        return raw.view(_word(dtype))
    nibbles = np.empty(raw.size * 2, np.uint8)
    nibbles[0::2], nibbles[1::2] = raw & 0xF, raw >> 4
    return nibbles[:elements]
