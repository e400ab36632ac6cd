"""How the memory on one side of a movement is laid out as a picture: fractals, rows, or a matrix in its layout.

A `Grid` says which memory cell each pixel of the picture is; text and drawing both read it. Where nobody says what the
memory holds, the row pitch (of cells, or of fractals in a column) is found from the movement itself: the distance at
which the map repeats, shifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES
from aicore_sim.explain import UNTOUCHED, ElementMap, Side
from aicore_sim.explain.runs import runs
from aicore_sim.instructions.cube_layout import L0C_BLOCK, SIDE, ceil_div
from aicore_sim.instructions.data_copy import ARCH_950
from aicore_sim.layouts import element_positions

WRAP = 8
"""Fractals, or blocks of 32 B, in a row of a picture without a structure of its own."""
SQUARE_FROM = 128
"""More fractals than this make a square."""
TALLEST = 64
"""Fractals in a column of a picture, at most."""
NONE = -1
LIKELY = 0.4
"""Share of the cells that a distance must explain to be taken as the pitch."""
_LOOK = 1 << 16
"""Cells looked at to find a pitch."""
_TRIES = 64
"""Runs whose distance from the first one is tried."""
FRACTAL_BUFFERS = ("L1", "L0A", "L0B", "L0C")

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """A matrix that a side holds, from the start of the tensor."""

    rows: int
    columns: int
    layout: str


@dataclass(frozen=True)
class Grid:
    """A picture of one side: `cells[y, x]` is a memory cell or NONE; `unit` rows and columns of it belong together.

    `unit_cells` is the size of a fractal in cells, 0 where units are pieces of rows. `pitch` is the length of a memory row
    in cells: of the fractal, or from one row of the picture to the next. `shape` is the matrix where the picture is one.
    """

    cells: Cells
    unit: tuple[int, int]
    pitch: int
    unit_cells: int = 0
    shape: Shape | None = None
    wrapped: bool = False

    @property
    def units(self) -> tuple[int, int]:
        """Rows and columns of units."""
        return self.cells.shape[0] // self.unit[0], self.cells.shape[1] // self.unit[1]

    @cached_property
    def blocks(self) -> Cells:
        """[unit row, unit column, cell of the unit in picture order]."""
        (down, across), (height, width) = self.units, self.unit
        split = self.cells.reshape(down, height, across, width).transpose(0, 2, 1, 3)
        return split.reshape(down, across, height * width)

    @property
    def fractal(self) -> bool:
        return self.unit_cells > 0

    def name(self, cell: int) -> str:
        """The unit of a cell: the number of its fractal, or row and column of the cell itself."""
        return str(cell // self.unit_cells) if self.fractal else "{},{}".format(*self.spot(cell))

    def spot(self, cell: int) -> tuple[int, int]:
        """Row and column of a cell: in its fractal, in the rows of the memory, in the matrix."""
        row, column = divmod(cell % self.unit_cells if self.fractal else cell, self.pitch)
        return (column, row) if self.shape is not None and self.shape.layout == "DN" else (row, column)

    def place(self, cell: int) -> str:
        """A cell in words: "3 (0,1)" for row 0, column 1 of fractal 3, "(2,5)" without fractals."""
        row, column = self.spot(cell)
        return f"{cell // self.unit_cells} ({row},{column})" if self.fractal else f"({row},{column})"

    def find(self, cell: int) -> tuple[int, int] | None:
        """Row and column of a cell in the picture."""
        found = np.argwhere(self.cells == cell)
        return (int(found[0, 0]), int(found[0, 1])) if found.size else None

    def unit_index(self, cells: Cells) -> Cells:
        """Number of the unit (row by row) that each memory cell is drawn in, -1 for cells outside the picture."""
        flat = self.blocks.reshape(-1, self.blocks.shape[2])
        table = np.full(int(self.cells.max(initial=0)) + 2, -1, np.int64)
        inside = flat >= 0
        table[flat[inside]] = np.broadcast_to(np.arange(flat.shape[0])[:, None], flat.shape)[inside]
        return table[np.clip(cells, -1, table.size - 1)]


# ---- pitch ----------------------------------------------------------------------------------------------------------
def pitch_of(origin: Cells) -> int | None:
    """The distance at which the map repeats with a constant shift, None where it is one piece or has no such distance.

    `origin[i]` is where i comes from, negative where it comes from nowhere.
    """
    used = np.flatnonzero(origin >= 0)
    if not used.size:
        return None
    origin = origin[used[0] : used[0] + _LOOK]
    copied = origin >= 0
    starts = [run.dst for run in runs(origin, _TRIES) if run.src >= 0]
    best, score = None, 0.0
    for distance in starts[1:]:
        if distance < 2:
            continue
        both = copied[distance:] & copied[:-distance]
        shifts = (origin[distance:] - origin[:-distance])[both]
        if shifts.size == 0:
            continue
        found = float(np.unique(shifts, return_counts=True)[1].max()) / float(copied.sum())
        if found > score:
            best, score = distance, found
    return best if score >= LIKELY else None


def inverse(origin: Cells, first: int, size: int) -> Cells:
    """For every source cell from `first` on the first destination cell that it goes to, -1 for none."""
    found = np.full(size, -1, np.int64)
    here = np.flatnonzero(origin >= 0)[::-1]
    found[origin[here] - first] = here
    return found


# ---- the two pictures -----------------------------------------------------------------------------------------------
def grids(found: ElementMap, source: Shape | None, destination: Shape | None) -> tuple[Grid, Grid]:
    """The pictures of both sides. Raises as `layouts.element_positions` for a shape or layout that cannot be."""
    back = inverse(found.origin, found.source.first, found.source.cells)
    unit = _fractal_bytes(found)
    both_fractal = [_is_fractal(found, side, unit) for side in (found.source, found.destination)]
    touched = found.origin != UNTOUCHED
    one = _grid(found, found.source, source, both_fractal, 0, found.read, back, unit)
    two = _grid(found, found.destination, destination, both_fractal, 1, touched, found.origin, unit)
    return one, two


def _fractal_bytes(found: ElementMap) -> int:
    return L0C_BLOCK if "L0C" in (found.source.buffer, found.destination.buffer) else FRACTAL_BYTES


def _is_fractal(found: ElementMap, side: Side, unit: int) -> bool:
    """L1 and the L0s hold fractals; GM does where whole fractals move, each to the same place in its fractal."""
    if side.buffer in FRACTAL_BUFFERS:
        return True
    other = found.destination if side is found.source else found.source
    if side.buffer != "GM" or other.buffer not in FRACTAL_BUFFERS or not found.copied.any():
        return False
    size = found.cells_of(unit)
    here = np.flatnonzero(found.copied)
    if here.size % size:
        return False
    there = found.origin[here]
    return bool((((here + found.destination.first) - there) % size == 0).all())


def _grid(
    found: ElementMap, side: Side, shape: Shape | None, both_fractal: list[bool], index: int,
    used: NDArray[np.bool_], origin: Cells, unit_bytes: int,
) -> Grid:  # fmt: skip
    c0 = found.cells_of(BLOCK_BYTES)
    row = found.cells_of(unit_bytes) // SIDE
    size = SIDE * row
    if shape is not None:
        return _matrix(found, shape, c0, row, both_fractal[1 - index])
    where = np.flatnonzero(used)
    if not where.size:
        return Grid(np.zeros((0, 0), np.int64), (1, 1), 1)
    first, last = int(where[0]) + side.first, int(where[-1]) + side.first
    if both_fractal[index]:
        across = side.buffer == "L0B" or (side.buffer == "L0A" and found.card.npu_arch != ARCH_950)
        return _fractals(first // size, last // size, row, _height(origin, side, size), across)
    pitch = pitch_of(origin) or WRAP * c0
    unit = (1, c0)
    if both_fractal[1 - index]:
        unit = (row, SIDE) if _turned(origin, pitch) else (SIDE, row)
    columns = (where + side.first) % pitch
    return _rows(first // pitch, last // pitch, pitch, unit, int(columns.min()), int(columns.max()))


def _turned(origin: Cells, pitch: int) -> bool:
    """Whether cells one below the other in this memory lie side by side on the other side."""
    both = (origin[pitch:] >= 0) & (origin[:-pitch] >= 0) if pitch < origin.size else np.zeros(0, np.bool_)
    return bool(both.any()) and bool(((origin[pitch:] - origin[:-pitch])[both] == 1).mean() > 0.5)


def _height(origin: Cells, side: Side, size: int) -> int | None:
    """Fractals in a column of the picture, from the first cells of the fractals."""
    whole = np.full(-(-origin.size // size) * size, UNTOUCHED, np.int64)
    whole[: origin.size] = origin
    rows = whole.reshape(-1, size)
    copied = rows >= 0
    firsts = np.where(copied.any(axis=1), rows[np.arange(len(rows)), copied.argmax(axis=1)], -1)
    height = pitch_of(firsts)
    return height if height is not None and height <= TALLEST else None


def _fractals(first: int, last: int, row: int, height: int | None, across: bool) -> Grid:
    """Fractals `first` to `last`: columns of `height` (NZ), or rows of it `across` (ZZ, ZN: L0B, L0A but on 950), or
    rows of WRAP in the order of the memory.
    """
    if height is None:
        count = last - first + 1
        width = min(WRAP if count <= SQUARE_FROM else 2 ** round(np.log2(count) / 2), count)
        numbers = first + np.arange(ceil_div(count, width) * width, dtype=np.int64).reshape(-1, width)
    else:
        start = first // height
        numbers = start * height + np.arange((last // height - start + 1) * height, dtype=np.int64).reshape(-1, height)
        numbers = numbers if across else numbers.T
    return _of_numbers(np.where(numbers <= last, numbers, NONE), row, height is None)


def _of_numbers(numbers: Cells, row: int, wrapped: bool) -> Grid:
    size = SIDE * row
    inside = np.arange(size, dtype=np.int64).reshape(SIDE, row)
    cells = np.where(numbers[:, None, :, None] >= 0, numbers[:, None, :, None] * size + inside[:, None, :], NONE)
    return Grid(cells.reshape(numbers.shape[0] * SIDE, numbers.shape[1] * row), (SIDE, row), row, size, wrapped=wrapped)


def rewrapped(grid: Grid, width: int) -> Grid:
    """A picture in the order of the memory with `width` fractals in a row; any other picture as it is."""
    if not grid.wrapped or not grid.fractal or grid.units[1] <= width:
        return grid
    numbers = grid.blocks[:, :, 0].reshape(-1)
    numbers = numbers[numbers >= 0] // grid.unit_cells
    padded = np.full(ceil_div(numbers.size, width) * width, NONE, np.int64)
    padded[: numbers.size] = numbers
    return _of_numbers(padded.reshape(-1, width), grid.pitch, True)


def _rows(first: int, last: int, pitch: int, unit: tuple[int, int], left: int, right: int) -> Grid:
    """Rows of `pitch` cells, cut to the units from column `left` to column `right`."""
    height, width = unit
    width = min(width, pitch)
    top, start = first // height * height, left // width * width
    rows = np.arange(top, top + ceil_div(last - top + 1, height) * height, dtype=np.int64)
    columns = np.arange(start, start + ceil_div(right - start + 1, width) * width, dtype=np.int64)
    cells = np.where((columns < pitch) & (rows[:, None] <= last), rows[:, None] * pitch + columns, NONE)
    return Grid(cells, (height, width), pitch)


def _matrix(found: ElementMap, shape: Shape, c0: int, row: int, other_fractal: bool) -> Grid:
    """The matrix that the side holds, as one sees it."""
    at = element_positions((shape.rows, shape.columns), shape.layout, found.dtype)
    fractal = shape.layout not in ("ND", "DN")
    unit = {"ZN": (c0, SIDE), "L0C": (SIDE, SIDE)}.get(shape.layout, (SIDE, c0))
    if not fractal:
        unit = (SIDE, row) if other_fractal else (1, c0) if shape.layout == "ND" else (c0, 1)
    padded = np.full([ceil_div(n, u) * u for n, u in zip(at.shape, unit, strict=True)], NONE, np.int64)
    padded[: at.shape[0], : at.shape[1]] = at
    if fractal:
        return Grid(padded, unit, SIDE if shape.layout == "L0C" else c0, unit[0] * unit[1], shape)
    return Grid(padded, unit, shape.columns if shape.layout == "ND" else shape.rows, 0, shape)
