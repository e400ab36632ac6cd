"""A placement as text: one sentence, source and destination side by side, addresses of a few elements, notes.

Every destination unit shows the name of the source unit in it: the number of a fractal, or "row,column" of the first
element. Readable without colour and at 80 columns: pictures in the order of the memory are wrapped to the width, others
lose their middle columns, and what does not fit side by side is printed one below the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim.explain import FILL, UNDEFINED, UNTOUCHED
from aicore_sim.report.placement import MOST_TARGETS, Placement, side_text
from aicore_sim.report.placement_grid import Grid, rewrapped

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta", "bright_green",
           "bright_yellow", "bright_blue", "bright_red")  # fmt: skip
MOST_ROWS = 32
"""Rows of units printed before the middle is left out."""
LEAST_ACROSS = 4
"""Units that must fit in a row for the pictures to stand side by side."""
_BETWEEN = "   "


@dataclass(frozen=True)
class _Column:
    """One picture, ready to be cut to a width: units as (label, style) by row, headers, what stands above."""

    title: tuple[str, str]
    grid: Grid
    labels: list[list[tuple[str, str]]]
    rows: list[str]
    columns: list[str]

    @property
    def head(self) -> int:
        return max((len(row) for row in self.rows), default=0) + 1

    @property
    def cell(self) -> int:
        """Width of a unit, the blank before it included."""
        shown = [len(label) for row in self.labels for label, _ in row] + [len(name) for name in self.columns]
        return max(shown, default=1) + 1

    def across(self, width: int) -> int:
        """Units that fit side by side into `width` columns of text."""
        return max((width - self.head) // self.cell, 1)

    @property
    def need(self) -> int:
        return max(self.head + self.cell * self.grid.units[1], 1)


def print_placement(placement: Placement, console: Console) -> None:
    """Print a placement to a Rich console, in its width."""
    console.print(Text(placement.headline(), style="bold"))
    if placement.found.pipe:
        for line in _pictures(placement, console.width):
            console.print(line, soft_wrap=True)
        console.print(Text(_legend(placement), style="dim"))
        if placement.spots:
            console.print(_elements(placement))
    for note in placement.notes():
        console.print(Text(note))


# ---- pictures -------------------------------------------------------------------------------------------------------
def _pictures(placement: Placement, width: int) -> list[Text]:
    half = (width - len(_BETWEEN)) // 2
    columns = _columns(placement)
    narrow = [_fits(column, half) for column in columns]
    if not all(narrow):
        placement = _wrapped(placement, columns, width)
        return [line for column in _columns(placement) for line in _lines(column, width)]
    placement = _wrapped(placement, columns, half)
    left, right = (_lines(column, half) for column in _columns(placement))
    blank = Text("")
    joined = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else blank
        line = one.copy()
        line.pad_right(half - one.cell_len)
        line.append(_BETWEEN).append_text(right[number] if number < len(right) else blank)
        line.rstrip()
        joined.append(line)
    return joined


def _fits(column: _Column, width: int) -> bool:
    return column.need <= width or (column.grid.wrapped and column.grid.fractal and column.across(width) >= LEAST_ACROSS)


def _wrapped(placement: Placement, columns: Sequence[_Column], width: int) -> Placement:
    """The placement with the pictures in the order of the memory wrapped to the width."""
    one, two = (rewrapped(column.grid, column.across(width)) for column in columns)
    return replace(placement, source=one, destination=two)


def _columns(placement: Placement) -> tuple[_Column, _Column]:
    found, one, two = placement.found, placement.source, placement.destination
    source = [(placement.source_label(i), _style(i)) for i in range(one.units[0] * one.units[1])]
    colours = placement.units.colour
    destination = [(placement.label(i), _style(int(colours[i])) if placement.units.copied[i] else "dim")
                   for i in range(two.units[0] * two.units[1])]  # fmt: skip
    heads = [f"{name} {side_text(side)}" for name, side in (("source", found.source), ("destination", found.destination))]
    return (
        _Column((heads[0], placement.content_words(0)), one, _by_row(source, one), *_heads(one)),
        _Column((heads[1], placement.content_words(1)), two, _by_row(destination, two), *_heads(two)),
    )


def _style(unit: int) -> str:
    return COLOURS[unit % len(COLOURS)]


def _by_row(flat: list[tuple[str, str]], grid: Grid) -> list[list[tuple[str, str]]]:
    across = grid.units[1]
    return [flat[row * across : (row + 1) * across] for row in range(grid.units[0])]


def _heads(grid: Grid) -> tuple[list[str], list[str]]:
    """What stands before the rows and above the columns: numbers of fractals, or rows and columns of elements."""
    if not grid.cells.size:
        return [], []
    first = grid.blocks[:, :, 0]
    if grid.fractal:
        numbers = first // grid.unit_cells
        return [str(n) for n in numbers[:, 0]], [f"+{n - numbers[0, 0]}" if n >= 0 else "" for n in numbers[0]]
    spots = [grid.spot(int(cell)) for cell in first[:, 0]]
    return [f"{row}" for row, _ in spots], [f"{grid.spot(int(cell))[1]}" for cell in first[0]]


def _lines(column: _Column, width: int) -> list[Text]:
    """A picture as lines of at most `width` columns: title, column heads, rows of units."""
    total = len(column.columns)
    fit = column.across(width)
    # One place goes to the dots where the middle is left out.
    left = total if total <= fit else max((fit - 1) // 2 + (fit - 1) % 2, 1)
    right = total if total <= fit else max(total - (fit - 1) // 2, left)
    lines = [Text(column.title[0], style="bold"), Text(column.title[1])]
    lines.append(_line("", [(name, "dim") for name in column.columns], column, left, right))
    count = len(column.labels)
    for number, (head, row) in enumerate(zip(column.rows, column.labels, strict=True)):
        if count > MOST_ROWS and MOST_ROWS // 2 <= number < count - MOST_ROWS // 2:
            if number == MOST_ROWS // 2:
                lines.append(Text(f"{'':{column.head}}... {count - MOST_ROWS // 2 * 2} more rows ...", style="dim"))
            continue
        lines.append(_line(head, row, column, left, right))
    return lines


def _line(head: str, cells: Sequence[tuple[str, str]], column: _Column, left: int, right: int) -> Text:
    line = Text(f"{head:>{column.head - 1}} ", style="dim")
    for number, (label, style) in enumerate(cells):
        if left <= number < right:
            if number == left:
                line.append(f"{'...':>{column.cell}}", style="dim")
            continue
        line.append(f"{label:>{column.cell}}", style=style)
    return line


def _legend(placement: Placement) -> str:
    """What the labels mean, as far as they occur."""
    found, units = placement.found, placement.units
    where = ("source fractal" if placement.source.fractal else "row,column of the first source element"
             if found.by_element else "row,byte of the first source byte")  # fmt: skip
    words = [f"in the destination: {where}"]
    if (units.sources > 1).any() and placement.source.fractal:
        words.append("a&b, a..b of several")
    if units.transposed.any():
        words.append("T transposed")
    words += [text for state, text in ((FILL, "# filled"), (UNDEFINED, "x undefined")) if found.count(state)]
    if (placement.origin_in_units == UNTOUCHED).any():
        words.append(". or - untouched")
    return "; ".join(words)


# ---- elements -------------------------------------------------------------------------------------------------------
def _elements(placement: Placement) -> Table:
    found = placement.found
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("element" if found.by_element else "byte", no_wrap=True)
    table.add_column("source byte", justify="right")
    table.add_column(_place_head(placement.source), overflow="fold")
    table.add_column("lands in byte", justify="right")
    table.add_column(_place_head(placement.destination), overflow="fold")
    for spot in placement.spots:
        shown, more = spot.targets[:MOST_TARGETS], len(spot.targets) - MOST_TARGETS
        bytes_ = [_byte(found.byte(cell), cell, found.cell_bits) for cell in shown] or ["not read"]
        places = [placement.destination.place(cell) for cell in shown]
        if more > 0:
            places.append(f"and {more} more")
        table.add_row(
            f"({spot.row},{spot.column})", _byte(found.byte(spot.source), spot.source, found.cell_bits),
            placement.source.place(spot.source), "\n".join(bytes_), "\n".join(places),
        )  # fmt: skip
    return table


def _place_head(grid: Grid) -> str:
    return "fractal (row,column)" if grid.fractal else "(row,column)"


def _byte(byte: int, cell: int, bits: int) -> str:
    """A byte address; of 4-bit elements also which half of the byte."""
    return f"{byte:,}" if bits != 4 else f"{byte:,} {'high' if cell % 2 else 'low'}"
