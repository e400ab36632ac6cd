"""How a matrix is cut for a chain: over blocks by rows, and into parts where a buffer does not hold a block's share.

A share that fits is moved whole. One that does not is streamed through the buffers in parts that take at most half of each.
A memory with room for more than two holds up to `MOST_SLOTS` of them, so that latency in front of it is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.estimate.chains import Chain
from aicore_sim.estimate.request import Matrix
from aicore_sim.estimate.steps import Part, up

MOST_ROWS, MOST_COLS, MOST_FRACTALS = 4080, 65520, 240
"""Rows of one call (blockCount has 12 bits), columns (dValue has 16), fractals in a row or column into L0 (repeat has 8)."""
MOST_SLOTS = 4
"""Parts that a memory holds at a time: a kernel has six event ids of a pair of pipes for itself."""
_BLOCK = 1024
"""Slots of a buffer start at multiples of this where it is large enough; more than any alignment asks for."""


@dataclass(frozen=True)
class Placed:
    """A part and where it begins in the stored matrix; `repeat` counts further matrices behind the first."""

    part: Part
    row: int
    col: int
    repeat: int = 0


@dataclass(frozen=True)
class Plan:
    """The parts of every block, and how many of them each memory of the chain holds at a time (in GM: between stages)."""

    matrix: Matrix
    parts: tuple[tuple[Placed, ...], ...]
    slots: tuple[int, ...]

    @property
    def streamed(self) -> bool:
        return max(self.slots) > 1


def plan(card: Card, chain: Chain, matrix: Matrix, dtype: DataType, blocks: int, streamed: bool = False) -> Plan:
    """Cut `matrix` for `chain`; with `streamed` into parts that leave room for a second one even if it fits whole."""
    if chain.flat:
        matrix = Matrix(1, matrix.rows * matrix.cols, matrix.layout, matrix.turned)
    shares = _shares(chain, matrix, dtype, blocks)
    fits = not streamed and all(_fits(card, chain, share.part, 1) for share in shares)
    parts = tuple((share,) if fits else tuple(_cut(card, chain, share)) for share in shares)
    largest = max((one.part for mine in parts for one in mine), key=lambda part: part.elements)
    return Plan(matrix, parts, tuple(1 if fits else _slots(card, chain, memory, largest) for memory in chain.memories))


def _slots(card: Card, chain: Chain, memory: str, part: Part) -> int:
    if memory == "GM":
        return MOST_SLOTS
    fitting = (n for n in range(MOST_SLOTS, 2, -1) if held_bytes(memory, part, chain.flat) <= slot_bytes(card, chain, memory, n))
    return next(fitting, 2)


def _shares(chain: Chain, matrix: Matrix, dtype: DataType, blocks: int) -> list[Placed]:
    """The rows of each block (of one long row its elements); fewer shares than blocks where there is not enough."""
    unit = dtype.c0 if chain.flat else _row_unit(dtype)
    extent = matrix.cols if chain.flat else matrix.rows
    step = up(-(-extent // blocks), unit)
    found = []
    for first in range(0, extent, step):
        size = min(step, extent - first)
        rows, cols = (1, size) if chain.flat else (size, matrix.cols)
        part = Part(rows, cols, matrix.rows, matrix.cols, dtype)
        found.append(Placed(part, 0 if chain.flat else first, first if chain.flat else 0))
    return found


def _row_unit(dtype: DataType) -> int:
    return max(dtype.c0, 16)


def held_bytes(buffer: str, part: Part, flat: bool) -> int:
    """Bytes that a part takes in a local buffer, padding included; `flat` where it lies there as one row."""
    size = part.dtype.bits // 8
    if flat or buffer == "UB":
        return up(part.elements * size, 32)
    if buffer == "L0C":
        return up(part.rows, 16) * up(part.cols, 16) * 4
    return up(part.rows, part.side) * up(part.cols, part.side) * size


def slot_bytes(card: Card, chain: Chain, buffer: str, slots: int) -> int:
    """Room for one part in `buffer`, which may be source and destination at once."""
    room = int(card.value(f"buffers.{buffer}.size")) // (slots * chain.memories.count(buffer))
    return room // _BLOCK * _BLOCK if room >= _BLOCK else room


def _fits(card: Card, chain: Chain, part: Part, slots: int) -> bool:
    if not chain.flat:
        into_l0 = any(memory in ("L0A", "L0B") for memory in chain.memories)
        most_rows = MOST_FRACTALS * 16 if into_l0 else MOST_ROWS
        most_cols = MOST_FRACTALS * part.c0 if into_l0 else MOST_COLS
        if part.rows > most_rows or part.cols > most_cols:
            return False
    local = [memory for memory in chain.memories if memory != "GM"]
    return all(held_bytes(memory, part, chain.flat) <= slot_bytes(card, chain, memory, slots) for memory in local)


def _cut(card: Card, chain: Chain, share: Placed) -> list[Placed]:
    """Parts of whole rows where a strip of rows fits, else of strips cut into columns."""
    whole = share.part
    unit = _row_unit(whole.dtype)

    def of(rows: int, cols: int) -> Part:
        return Part(min(rows, whole.rows), min(cols, whole.cols), whole.of_rows, whole.of_cols, whole.dtype)

    def most(extent: int, step: int, rows: int) -> int:
        """The largest multiple of `step` columns that fits with `rows` rows."""
        low, high = 1, -(-extent // step)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if _fits(card, chain, of(rows, middle * step), 2) else (low, middle - 1)
        return low * step

    rows = unit
    cols = most(whole.cols, whole.c0 if chain.flat else max(whole.c0, 16), rows)
    if cols >= whole.cols:
        while rows < whole.rows and _fits(card, chain, of(rows + unit, cols), 2):
            rows += unit
    found = []
    for row in range(0, whole.rows, rows):
        for col in range(0, whole.cols, cols):
            part = Part(min(rows, whole.rows - row), min(cols, whole.cols - col), whole.of_rows, whole.of_cols, whole.dtype)
            found.append(Placed(part, share.row + row, share.col + col))
    return found
