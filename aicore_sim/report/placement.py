"""Where the elements of one call land, said for readers: units of the destination by what is in them, elements with
their addresses on both sides, notes, and the JSON form.

`Placement` joins an `ElementMap` with the pictures of its two sides; `placement_text` prints it, `placement_draw` draws
it. Nothing here knows an API either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType, typed
from aicore_sim.errors import ParameterError
from aicore_sim.explain import FILL, UNDEFINED, UNTOUCHED, ElementMap, Side
from aicore_sim.report.placement_grid import Grid, Shape, grids

MOST_TARGETS = 3
"""Destination addresses listed for one element."""


@dataclass(frozen=True)
class Units:
    """What is in every unit of the destination picture, row by row: cells of each state, and where they come from.

    `first` is the source cell of the first copied cell (-1: none); `low`, `high` the lowest and highest number of the
    source units that take part, `sources` how many do; `transposed`: neighbours in a row come from below each other.
    """

    size: NDArray[np.int64]
    copied: NDArray[np.int64]
    filled: NDArray[np.int64]
    undefined: NDArray[np.int64]
    first: NDArray[np.int64]
    colour: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    sources: NDArray[np.int64]
    transposed: NDArray[np.bool_]


@dataclass(frozen=True)
class Spot:
    """One element: its row and column, its source cell and the destination cells that it lands in."""

    row: int
    column: int
    source: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """An element map with the pictures of its sides; `shapes` are the matrices they hold, where that is known."""

    found: ElementMap
    source: Grid
    destination: Grid
    shapes: tuple[Shape | None, Shape | None] = (None, None)

    # ---- units ------------------------------------------------------------------------------------------------------
    @cached_property
    def origin_in_units(self) -> NDArray[np.int64]:
        """[unit, cell] the source cell or the mark of every cell of the destination picture; no cell: -9."""
        found, blocks = self.found, self.destination.blocks
        cells = blocks.reshape(-1, blocks.shape[2]) if blocks.size else np.zeros((0, 1), np.int64)
        return np.where(cells < 0, -9, self.origin_of(cells, found.destination.first))

    def origin_of(self, cells: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        """Origin of destination cells, UNTOUCHED for cells out of reach."""
        origin, at = self.found.origin, cells - first
        inside = (at >= 0) & (at < origin.size)
        if not origin.size:
            return np.full(cells.shape, UNTOUCHED, np.int64)
        return np.where(inside, origin[np.clip(at, 0, origin.size - 1)], UNTOUCHED)

    @cached_property
    def units(self) -> Units:
        """The units of the destination picture, row by row."""
        origin = self.origin_in_units
        blocks = self.destination.blocks
        cells = blocks.reshape(origin.shape)
        copied = origin >= 0
        order = np.where(copied, cells, np.iinfo(np.int64).max).argmin(axis=1)
        first = np.where(copied.any(axis=1), origin[np.arange(len(origin)), order], -1)
        numbers = self._numbers(origin)
        ranked = np.sort(np.where(copied, numbers, -1), axis=1)
        sources = ((np.diff(ranked, axis=1) > 0) & (ranked[:, 1:] >= 0)).sum(axis=1) + (ranked[:, 0] >= 0)
        low = np.where(copied, numbers, np.iinfo(np.int64).max).min(axis=1)
        return Units(
            (origin != -9).sum(axis=1), copied.sum(axis=1), (origin == FILL).sum(axis=1),
            (origin == UNDEFINED).sum(axis=1), first, self.source.unit_index(first), low, ranked[:, -1], sources,
            self._transposed(cells, copied),
        )  # fmt: skip

    def _numbers(self, origin: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the source units: of fractals in memory, of other units in the picture."""
        if self.source.fractal:
            return np.where(origin >= 0, origin // self.source.unit_cells, -1)
        return self.source.unit_index(np.maximum(origin, -1))

    def _transposed(self, cells: NDArray[np.int64], copied: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Units whose neighbours in a memory row come from neighbours in a memory column."""
        first, pitch = self.found.destination.first, self.destination.pitch
        inner = copied & (cells % pitch != pitch - 1)
        after = self.origin_of(cells + 1, first)
        step = np.where(inner & (after >= 0), after - self.origin_of(cells, first), 0)
        down = ((step == self.source.pitch) & (self.source.pitch > 1)).sum(axis=1)
        return np.asarray(down > (step == 1).sum(axis=1))

    def label(self, unit: int, marked: bool = True) -> str:
        """What a destination unit holds: name of the source unit, T if transposed, and, if `marked`, # x - for filled,
        undefined and untouched parts."""
        units = self.units
        copied, filled, undefined = int(units.copied[unit]), int(units.filled[unit]), int(units.undefined[unit])
        untouched = int(units.size[unit]) - copied - filled - undefined
        marks = ("#" if filled else "") + ("x" if undefined else "") + ("-" if untouched else "")
        if not units.size[unit]:
            return ""
        if not copied:
            return ("." if marks == "-" else marks * 2 if len(marks) == 1 else marks) if marked else ""
        name = self.source.name(int(units.first[unit]))
        if self.source.fractal and units.sources[unit] > 1:
            join = "&" if units.sources[unit] == 2 else ".."
            name = f"{units.low[unit]}{join}{units.high[unit]}"
        return name + ("T" if units.transposed[unit] else "") + (marks if marked else "")

    # ---- elements ---------------------------------------------------------------------------------------------------
    def read_in(self, unit: int) -> tuple[int, int]:
        """(cells of a source unit that are read, cells that it has)."""
        cells = self.source.blocks.reshape(-1, self.source.blocks.shape[2])[unit]
        at = cells[cells >= 0] - self.found.source.first
        inside = at[(at >= 0) & (at < self.found.source.cells)]
        return int(self.found.read[inside].sum()), int((cells >= 0).sum())

    def source_label(self, unit: int, marked: bool = True) -> str:
        """Name of a source unit, if `marked` with - where only a part of it is read; "." if nothing is, "" if there is
        none."""
        read, size = self.read_in(unit)
        if not size:
            return ""
        cell = int(self.source.blocks.reshape(-1, self.source.blocks.shape[2])[unit, 0])
        return self.source.name(cell) + ("-" if marked and read < size else "") if read else "."

    def targets(self, source: int) -> tuple[int, ...]:
        """Destination cells that a source cell lands in."""
        return tuple(int(i) + self.found.destination.first for i in np.flatnonzero(self.found.origin == source))

    @cached_property
    def spots(self) -> list[Spot]:
        """Elements worth an address: (0,0), its neighbours and the corners of the source, or of the destination where
        only that has a shape. Without shapes rows and columns are those of the first unit that is read.
        """
        if not self.found.copied.any():
            return []
        if self.shapes[0] is not None:
            return [Spot(r, c, s, self.targets(s)) for r, c, s in _corners(self.source, self.shapes[0])]
        if self.shapes[1] is not None:
            found = [(r, c, d, self.found.origin[d - self.found.destination.first])
                     for r, c, d in _corners(self.destination, self.shapes[1])
                     if 0 <= d - self.found.destination.first < self.found.origin.size]  # fmt: skip
            return [Spot(r, c, int(s), (d,)) for r, c, d, s in found if s >= 0]
        return self._first_spots()

    def _first_spots(self) -> list[Spot]:
        first = int(self.found.origin[self.found.copied.argmax()])
        at = self.source.find(first)
        if at is None:
            return []
        here, (height, width) = self.source.cells, self.source.cells.shape
        found = []
        for row, column in ((0, 0), (0, 1), (1, 0)):
            y, x = at[0] + row, at[1] + column
            if y < height and x < width and here[y, x] >= 0:
                source = int(here[y, x])
                found.append(Spot(*self.source.spot(source), source, self.targets(source)))
        last = int(self.found.origin[self.found.copied].max())
        if all(spot.source != last for spot in found):
            found.append(Spot(*self.source.spot(last), last, self.targets(last)))
        return [spot for spot in found if spot.targets]

    # ---- words ------------------------------------------------------------------------------------------------------
    def _unit_words(self, count: int) -> str:
        """What `count` units of the destination are called."""
        grid, many = self.destination, "" if count == 1 else "s"
        if grid.fractal:
            return f"fractal{many} of {self.found.byte(grid.unit_cells)} B"
        rows = f"{grid.unit[0]} x " if grid.unit[0] > 1 else ""
        return f"piece{many} of {rows}{grid.unit[1]} {self.cell_word}"

    def content_words(self, index: int) -> str:
        """What the picture of side 0 or 1 shows: the matrix, fractals, or rows."""
        grid, shape = (self.source, self.destination)[index], self.shapes[index]
        if not grid.cells.size:
            return ""
        if shape is not None:
            return f"{shape.layout} {shape.rows} x {shape.columns}"
        if grid.fractal:
            return f"fractals of {self.found.byte(grid.unit_cells)} B"
        return f"rows of {grid.pitch} {self.cell_word}"

    @property
    def cell_word(self) -> str:
        return "elements" if self.found.by_element else "bytes"

    def headline(self) -> str:
        """The call in one sentence."""
        found = self.found
        where = (f"{found.form.api} with {found.form.name} on {found.card.name}, {found.dtype.api_name}, "
                 f"{side_text(found.source)} to {side_text(found.destination)}")  # fmt: skip
        if not found.pipe:
            return f"{where}: moves nothing."
        units, copied = self.units, self.units.copied > 0
        turned = int((units.transposed & copied).sum())
        count = int(copied.sum())
        how = f"{count:,} {self._unit_words(count)} copied" if count else "nothing copied"
        if turned:
            how += ", each transposed" if turned == count else f", {turned} of them transposed"
        elif self.source.fractal and self.destination.fractal and count:
            how += ", none transposed"
        words = [f"{found.moved:,} B", how]
        for count, verb in ((found.count(FILL), "filled"), (found.count(UNDEFINED), "undefined")):
            if count:
                words.append(f"{count:,} {self.cell_word} {verb}")
        return f"{where}, pipe {found.pipe}: {'; '.join(words)}."

    def notes(self) -> list[str]:
        """Warnings of the call, then what else a reader should know."""
        found = self.found
        notes = [f"warning: {text}" for text in found.warnings]
        if not found.pipe:
            return notes
        if not found.by_element:
            notes.append(f"strides are no multiple of {found.dtype.api_name}: positions below count bytes")
        for value, count in self._fills():
            notes.append(f"filled with {value}: {count:,} {self.cell_word}")
        if found.count(UNDEFINED):
            notes.append(f"undefined afterwards: {found.count(UNDEFINED):,} {self.cell_word}")
        touched = np.flatnonzero(found.origin != UNTOUCHED)
        holes = int((found.origin[touched[0] : touched[-1]] == UNTOUCHED).sum()) if touched.size else 0
        if holes:
            notes.append(f"untouched between the first and the last one written: {holes:,} {self.cell_word}")
        if found.rewritten:
            notes.append(f"{found.rewritten:,} B are written more than once: the last write is shown, the hardware does "
                         "not promise an order")  # fmt: skip
        copies = int(found.copied.sum())
        different = int(found.read.sum())
        if copies > different:
            notes.append(f"{copies - different:,} {self.cell_word} are further copies of source {self.cell_word}")
        return notes

    def _fills(self) -> Iterator[tuple[str, int]]:
        found = self.found
        words, counts = np.unique(found.words[found.origin == FILL], return_counts=True)
        for word, count in zip(words, counts, strict=True):
            yield value_text(int(word), found), int(count)


def _corners(grid: Grid, shape: Shape) -> Iterator[tuple[int, int, int]]:
    """(row, column, cell) of the elements to list of a matrix."""
    r, c = shape.rows - 1, shape.columns - 1
    for row, column in dict.fromkeys([(0, 0), (0, min(1, c)), (min(1, r), 0), (0, c), (r, 0), (r, c)]):
        yield row, column, int(grid.cells[row, column])


def side_text(side: Side) -> str:
    """A side by position and buffer."""
    return side.position if side.position == side.buffer else f"{side.position} ({side.buffer})"


def value_text(word: int, found: ElementMap) -> str:
    """The value of a filled cell."""
    if not found.by_element:
        return f"0x{word:02x}"
    return word_text(word, found.dtype)


def word_text(word: int, dtype: DataType) -> str:
    """A raw word as a value of the element type, with its bits."""
    bits = f"0x{word:0{max(dtype.bits // 4, 1)}x}"
    if dtype.np_dtype is None:
        return bits
    raw = np.frombuffer(word.to_bytes(8, "little"), np.uint8)[: max(dtype.bits // 8, 1)]
    return f"{float(typed(raw.copy(), dtype)[0]):g} ({bits})"


def place(found: ElementMap, source: Shape | None = None, destination: Shape | None = None) -> Placement:
    """The placement of an element map; the shapes are those of the matrices that the sides hold.

    Raises ParameterError for a shape or layout that cannot be, or where bytes move that are no whole elements.
    """
    shapes = (source, destination)
    if not found.by_element and any(shape is not None for shape in shapes):
        raise ParameterError("strides are no multiple of the element: no matrix of elements can be followed", field="rows",
                             allowed="no --rows, --cols")  # fmt: skip
    return Placement(found, *grids(found, source, destination), shapes)
