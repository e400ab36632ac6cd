"""Where Fixpipe puts what it reads: the movement between L0C and the destination (spec api_semantics.md 12.2).

Results are converted into a dense image first, whose order is that of the destination; the image then moves by a
Transfer, which also gives the footprint and carries the defined marks. Rows that do not overlap need no image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.instructions.cube_layout import L0C_ROW, SIDE, ceil_div
from aicore_sim.memory import Bytes
from aicore_sim.transfer import Runs, Step, Transfer, item_type, strided_copy, strided_fill

_MOST_RANGES = 512
"""Column blocks that are listed one by one; L0C has no room for more that lie apart by a unit flag or more."""
MERGED = 2 * SIDE
"""Columns of a block of 8-bit results in NZ."""
HALF = SIDE // 2
"""Columns of a block after channel split."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`count` matrices of m x n in bytes.

    Source: row m of column block b at b * src_pitch + m * src_row. `form` is "nd" (step: row to row), "dn" (step: column to
    column), "nz", "merge" (pairs of blocks of 8-bit results) or "split" (halves of blocks); the step of the last three
    leads from block to block. `size` is that of a destination element.
    """

    m: int
    n: int
    count: int
    src_pitch: int
    src_row: int
    src_matrix: int
    form: str
    size: int
    step: int
    dst_matrix: int

    @property
    def blocks(self) -> int:
        return ceil_div(self.n, SIDE)

    @property
    def unit(self) -> int:
        """Column blocks that move together."""
        return 2 if self.form == "merge" else 1

    def columns(self, block: int, count: int) -> int:
        """Columns of `count` blocks from `block` on."""
        return min(self.n - SIDE * block, SIDE * count)

    @property
    def rows(self) -> int:
        """Contiguous pieces of the destination."""
        return self.count * len_of(self, 0, self.blocks)[1]


def len_of(plan: Plan, block: int, count: int) -> tuple[int, int]:
    """(bytes of one piece, number of pieces) that `count` blocks from `block` on become in each matrix."""
    columns = plan.columns(block, count)
    if plan.form == "nd":
        return columns * plan.size, plan.m
    if plan.form == "dn":
        return plan.m * plan.size, columns
    if plan.form == "nz":
        return plan.m * SIDE * plan.size, count
    if plan.form == "merge":
        return plan.m * MERGED, count // 2
    return plan.m * HALF * plan.size, ceil_div(columns, HALF)


def _start(plan: Plan, block: int) -> int:
    """Where block `block` of a matrix begins in the destination."""
    if plan.form == "nd":
        return block * SIDE * plan.size
    if plan.form == "dn":
        return block * SIDE * plan.step
    return {"nz": block, "merge": block // 2, "split": 2 * block}[plan.form] * plan.step


def transfer(plan: Plan, block: int, count: int) -> Transfer:
    """Moves the dense image of `count` blocks from `block` on (a multiple of `plan.unit`) into the destination matrix.

    An odd last block of 8-bit results stays 16 columns wide; its bytes are only drawn on the page, and become undefined.
    """
    item, pieces = len_of(plan, block, count)
    pitch = SIDE * count * plan.size if plan.form == "nd" else item
    steps: tuple[Step, ...] = strided_copy(item, (pieces,), 0, (pitch,), _start(plan, block), (plan.step,))
    if plan.form == "merge" and count % 2:
        steps += strided_fill(b"\0" * (plan.m * SIDE), (), _start(plan, block + count - 1), (), undefined=True)
    return Transfer(steps)


def footprint(plan: Plan) -> Transfer:
    """What all matrices write, piece by piece; the source side has no meaning."""
    item, pieces = len_of(plan, 0, plan.blocks)
    steps: tuple[Step, ...] = strided_copy(item, (plan.count, pieces), 0, (0, 0), 0, (plan.dst_matrix, plan.step))
    if plan.form == "merge" and plan.blocks % 2:
        steps += strided_fill(b"\0" * (plan.m * SIDE), (), _start(plan, plan.blocks - 1), (), undefined=True)
    return Transfer(steps)


def gm_runs(plan: Plan) -> Runs:
    """The footprint as requests to GM."""
    return footprint(plan).dst_runs


def dense(plan: Plan, values: NDArray[Any]) -> Bytes:
    """The image of [block, row, column of 16] in the order of the destination, as bytes."""
    if plan.form == "nd":
        image = values.transpose(1, 0, 2)
    elif plan.form == "dn":
        image = values.transpose(0, 2, 1)
    elif plan.form == "split":
        image = values.reshape(*values.shape[:2], 2, HALF).transpose(0, 2, 1, 3)
    elif plan.form == "merge":
        image = np.zeros((ceil_div(values.shape[0], 2), plan.m, 2, SIDE), values.dtype)
        image[:, :, 0] = values[0::2]
        image[: values.shape[0] // 2, :, 1] = values[1::2]
    else:
        image = values
    return np.ascontiguousarray(image).reshape(-1).view(np.uint8)


def put_rows(plan: Plan, values: NDArray[Any], raw: Bytes, offset: int, block: int, count: int) -> bool:
    """Write [block, row, column of 16] into the matrix at `offset` as `transfer` does with the dense image of "nd".

    False, with nothing written, for other forms and for rows that overlap: there the order of the writes counts.
    """
    columns, size = plan.columns(block, count), plan.size
    if plan.form != "nd" or plan.step < columns * size:
        return False
    start = offset + _start(plan, block)
    for first, blocks, width in ((0, columns // SIDE, SIDE), (columns // SIDE, 1, columns % SIDE)):
        if blocks and width:
            piece = item_type(width * size)
            part = np.ascontiguousarray(values[first : first + blocks, :, :width]).view(piece)[..., 0]
            place = (start + first * SIDE * size, (SIDE * size, plan.step))
            np.ndarray((blocks, plan.m), piece, raw.data, *place)[...] = part
    return True


def block_view(plan: Plan, raw: Bytes, offset: int, count: int, word: np.dtype[Any]) -> NDArray[Any]:
    """View of `count` source blocks as [block, row, column of 16]."""
    return np.ndarray((count, plan.m, SIDE), word, raw.data, offset, (plan.src_pitch, plan.src_row, 4))


def source_bytes(plan: Plan, count: int) -> int:
    """From the first byte of `count` source blocks to the end of the last."""
    return (count - 1) * plan.src_pitch + (plan.m - 1) * plan.src_row + L0C_ROW


def l0c_ranges(plan: Plan) -> tuple[tuple[int, int, int], ...]:
    """(operand 1, lo, hi) of the bytes of L0C that are read: one range for each column block unless they form one.

    Kept apart by columns, because unit flags belong to what an instruction touches: Fixpipes may share a tile by rows
    (spec 17.1).
    """
    size, blocks = source_bytes(plan, 1), plan.blocks
    end = (plan.count - 1) * plan.src_matrix + source_bytes(plan, blocks)
    if end == plan.count * blocks * size or plan.count * blocks > _MOST_RANGES:
        return ((1, 0, end),)
    starts = [i * plan.src_matrix + j * plan.src_pitch for i in range(plan.count) for j in range(blocks)]
    return tuple((1, start, start + size) for start in starts)
