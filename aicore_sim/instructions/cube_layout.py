"""What the cube's instructions share: fractal arithmetic, mixed-radix axes, checks of operands, defined-byte marks.

A fractal is 512 B: 16 rows of one 32 B block (C0 elements). L0A and L0B hold fractals, L0C blocks of 16 x 16 elements
of 4 bytes (spec api_semantics.md 1.5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import check_range
from aicore_sim.memory import Bytes

SIDE = 16
"""Rows of a fractal; rows and columns of an L0C block."""
L0C_ROW = SIDE * 4
"""Bytes of one row of an L0C block, the unit in which Fixpipe counts srcStride (C0_Size)."""
L0C_BLOCK = SIDE * L0C_ROW
DEFINED_WORD = np.uint32(0x01010101)
"""Shadow of a defined 4-byte element, read as one word."""

Dim = tuple[int, int, int]
"""(extent, source stride, destination stride)."""


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def align_up(a: int, b: int) -> int:
    return -(-a // b) * b


def shared_digits(extent: int, src_unit: int, src: tuple[int, int], dst_unit: int, dst: tuple[int, int]) -> list[Dim]:
    """One axis whose index is split differently on both sides, as plain strided dimensions.

    Index x lies at `x // unit * outer + x % unit * inner` on each side; (outer, inner) is `src` and `dst`. Both units
    are powers of two and `extent` is a multiple of the larger one. The digits of x in the radices of both units have
    constant strides on both sides: at most three dimensions, outermost first.
    """
    low, high = sorted((src_unit, dst_unit))

    def strides(unit: int, outer: int, inner: int) -> tuple[int, int, int]:
        middle = outer if unit == low else low * inner
        return high // unit * outer, middle, inner

    sides = zip(strides(src_unit, *src), strides(dst_unit, *dst), strict=True)
    return [(n, s, d) for n, (s, d) in zip((extent // high, high // low, low), sides, strict=True)]


# ---- operands ------------------------------------------------------------------------------------------------------
def local_align(kind: str) -> int:
    """Start alignment in bytes of an operand of LoadData (spec api_semantics.md 1.3, 2.6)."""
    return {"L0A": FRACTAL_BYTES, "L0B": FRACTAL_BYTES, "GM": 1}.get(kind, BLOCK_BYTES)


def check_unit_flag(api: str, struct: str, flag: int, card: Card) -> int:
    """`flag` if it is 0, 2 or 3. Raises ParameterError otherwise, UnsupportedError on a card without unit flags."""
    check_range(api, struct, "unit_flag", flag, 0, 3, card.name)
    if flag == 1:
        raise ParameterError(f"{api}: unit_flag (unitFlag) 1 is reserved", field="unit_flag", value=flag,
                             allowed="0, 2, 3", card=card.name)  # fmt: skip
    if flag and card.npu_arch == 3002:
        raise UnsupportedError(f"{api}: this card has no unit flags", field="unit_flag", value=flag, allowed="0",
                               card=card.name)  # fmt: skip
    return flag


# ---- gathering matrices out of fractals ---------------------------------------------------------------------------
def fractal_rows(
    raw: Bytes,
    offset: int,
    blocks: int,
    block_stride: int,
    columns: int,
    column_stride: int,
    word: np.dtype[np.generic],
) -> NDArray[np.generic]:
    """View of a matrix in row-major fractals as [row block, row, column block, word of 32 B]; strides in bytes."""
    return np.ndarray(
        (blocks, SIDE, columns, BLOCK_BYTES // word.itemsize), word, raw.data, offset,
        (block_stride, BLOCK_BYTES, column_stride, word.itemsize),
    )  # fmt: skip


def l0c_view(
    raw: Bytes, offset: int, blocks: int, rows: int, pitch: int, word: np.dtype[np.generic]
) -> NDArray[np.generic]:
    """View of `blocks` L0C column blocks as [block, row, column of 16]; `pitch` bytes from block to block."""
    return np.ndarray((blocks, rows, SIDE), word, raw.data, offset, (pitch, L0C_ROW, 4))
