"""A placement as a PNG: both sides as pictures, every cell in the colour of the source unit that it belongs to.

Within a unit the colour fades from the first row of the source to the last, so that a transposed fractal fades from left
to right. Below the pictures the source around three neighbours is shown enlarged, and the places where they land.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from aicore_sim.errors import ParameterError
from aicore_sim.explain import FILL, UNDEFINED
from aicore_sim.report.placement import Placement, Spot, side_text
from aicore_sim.report.placement_grid import Grid

DPI = 100
MOST_PIXELS = 1 << 22
"""Cells of one picture, at most."""
MOST_HATCHES = 4000
MOST_NAMES = 512
"""Units of one picture that are named; more would be a wall of figures."""
_PAGE = 8.6
"""Least width of the page, in inches."""
_WIDEST, _NARROWEST = 7.2, 0.9
_TALLEST = 9.0
"""Size limits of one picture, in inches."""
_UNIT = (0.55, 0.95)
"""Least and largest side of a fractal that is aimed at, in inches."""
_ROW = 0.26
"""Height of a row of elements."""
_HEAD, _FOOT, _SIDE, _GAP, _INSET, _INSET_GAP = 1.25, 0.55, 0.62, 0.75, 1.9, 0.6
_MARKS_HIGH = 1.08
"""Height of the words beside the enlarged pieces."""
_UNREAD, _EMPTY, _FILLED, _UNDEFINED = (0.9, 0.9, 0.9), (1.0, 1.0, 1.0), (0.82, 0.82, 0.82), (1.0, 0.93, 0.85)
_EDGE, _LINE = "#555555", "#b4b4b4"
_MARKS = (("A", "#b3262e"), ("B", "#1f5fa8"), ("C", "#2e7d32"))
_SMALLEST = 5.0
"""Smallest font that is written."""

Image = NDArray[np.float64]


def draw(placement: Placement, path: str | Path) -> Path:
    """Write the placement as PNG to `path` and return it. Raises ParameterError for pictures of too many cells."""
    fig = figure(placement)
    FigureCanvasAgg(fig)
    path = Path(path)
    fig.savefig(path, format="png", dpi=DPI)
    return path


def figure(placement: Placement) -> Figure:
    """The placement as a matplotlib figure: source left, destination right, below them three elements enlarged."""
    for grid, name in ((placement.source, "source"), (placement.destination, "destination")):
        if grid.cells.size > MOST_PIXELS:
            raise ParameterError(f"the picture of the {name} has {grid.cells.size:,} cells: too many to draw", field=name,
                                 value=grid.cells.size, allowed=f"<= {MOST_PIXELS}; smaller sizes, or --json")  # fmt: skip
    most = max(max(placement.source.units), max(placement.destination.units))
    scale = float(np.clip(4.2 / max(most, 1), *_UNIT))
    boxes = [_box(placement.source, scale), _box(placement.destination, scale)]
    windows = _windows(placement)
    width = max(sum(w for w, _ in boxes) + _GAP + 2 * _SIDE, _PAGE)
    tall = max(h for _, h in boxes)
    inset = max(_inset_box(window)[1] for window in windows) if windows else 0.0
    inset = max(inset, _MARKS_HIGH) if windows else 0.0
    height = _HEAD + tall + _FOOT + (inset + _INSET_GAP if windows else 0.0)
    fig = Figure(figsize=(width, height), dpi=DPI)
    lefts = (_SIDE, max(_SIDE + boxes[0][0] + _GAP, min(width / 2, width - _SIDE - boxes[1][0])))
    colours = _unit_colours(placement.source)
    for index, ((w, h), left) in enumerate(zip(boxes, lefts, strict=True)):
        ax = fig.add_axes((left / width, 1 - (_HEAD + h) / height, w / width, h / height))
        _panel(ax, placement, index, colours, (w, h))
    if windows:
        _enlarged(fig, placement, windows, colours, inset)
    _header(fig, placement, width, height)
    return fig


# ---- sizes ----------------------------------------------------------------------------------------------------------
def _box(grid: Grid, scale: float) -> tuple[float, float]:
    """Width and height of a picture in inches: fractals of `scale` or rows, within the limits of the page."""
    down, across = grid.units if grid.cells.size else (1, 4)
    height, width = grid.unit
    high = down * (scale * height / 16 if height > 1 else _ROW)
    wide = across * max(scale * width / 16, 0.55)
    return float(np.clip(wide, _NARROWEST, _WIDEST)), float(np.clip(high, 0.5, _TALLEST))


def _unit_colours(source: Grid) -> Image:
    """[unit, 3] a colour for each source unit; neighbours differ in hue."""
    count = max(source.units[0] * source.units[1], 1)
    # The golden ratio spreads any number of hues; three levels of saturation keep near ones apart.
    return np.array([colorsys.hls_to_rgb((0.58 + i * 0.61803) % 1.0, 0.60 + 0.06 * (i % 3), 0.62) for i in range(count)])


# ---- pictures -------------------------------------------------------------------------------------------------------
def _colours_of(placement: Placement, cells: NDArray[np.int64], index: int, colours: Image) -> Image:
    """RGB of memory cells of a side."""
    found = placement.found
    if index == 0:
        at = cells - found.source.first
        inside = (at >= 0) & (at < found.source.cells)
        read = inside & found.read[np.clip(at, 0, max(found.source.cells - 1, 0))]
        source = np.where(read, cells, -1)
        image = np.where(cells[..., None] >= 0, np.array(_UNREAD), np.array(_EMPTY))
    else:
        source = np.where(cells >= 0, placement.origin_of(cells, found.destination.first), -9)
        image = np.full((*cells.shape, 3), _EMPTY)
        image[source == FILL] = _FILLED
        image[source == UNDEFINED] = _UNDEFINED
    copied = source >= 0
    unit = placement.source.unit_index(source)
    copied &= unit >= 0
    image[copied] = _faded(colours[unit[copied]], _depth(placement.source, source[copied]))
    return image


def _depth(grid: Grid, cells: NDArray[np.int64]) -> Image:
    """0 for the first row of a unit to 1 for its last, in the memory of the source."""
    if grid.fractal:
        return (cells % grid.unit_cells // grid.pitch) / max(grid.unit_cells // grid.pitch - 1, 1)
    if grid.unit[0] > 1:
        return (cells // grid.pitch % grid.unit[0]) / (grid.unit[0] - 1)
    return (cells % grid.pitch % grid.unit[1]) / max(grid.unit[1] - 1, 1)


def _faded(colours: Image, depth: Image) -> Image:
    return colours + (1.0 - colours) * (0.62 * depth[:, None])


def _panel(ax: Axes, placement: Placement, index: int, colours: Image, box: tuple[float, float]) -> None:
    grid = (placement.source, placement.destination)[index]
    side = (placement.found.source, placement.found.destination)[index]
    ax.set_title(f"{('source', 'destination')[index]} {side_text(side)}\n{placement.content_words(index)}", fontsize=9,
                 loc="left", pad=14)  # fmt: skip
    rows, columns = grid.cells.shape
    ax.set_xticks([])
    ax.set_yticks([])
    if not rows:
        ax.text(0.5, 0.5, "nothing moves", ha="center", va="center", fontsize=9, transform=ax.transAxes)
        return
    ax.imshow(_colours_of(placement, grid.cells, index, colours), aspect="auto", interpolation="nearest",
              extent=(0, columns, rows, 0))  # fmt: skip
    if index == 1:
        _hatch(ax, placement, grid.cells)
    _grid_lines(ax, grid)
    _names(ax, grid, (placement.source_label, placement.label)[index], box)
    _ticks(ax, grid, box)


def _extents(grid: Grid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of cells that every unit has: fewer than the unit's at the ends of rows and of the memory."""
    there = (grid.blocks >= 0).reshape(*grid.units, *grid.unit)
    return there.any(axis=3).sum(axis=2), there.any(axis=2).sum(axis=2)


def _grid_lines(ax: Axes, grid: Grid) -> None:
    """A frame around the cells of every unit that has any."""
    height, width = grid.unit
    rows, columns = _extents(grid)
    frames = [Rectangle((x * width, y * height), float(columns[y, x]), float(rows[y, x]))
              for y, x in np.argwhere(rows > 0)]  # fmt: skip
    ax.add_collection(PatchCollection(frames, facecolor="none", edgecolor=_EDGE, linewidth=0.6, clip_on=False),
                      autolim=False)  # fmt: skip
    for spine in ax.spines.values():
        spine.set_visible(False)


def _hatch(ax: Axes, placement: Placement, cells: NDArray[np.int64]) -> None:
    """Stripes over what is filled, crosses over what is undefined."""
    origin = np.where(cells >= 0, placement.origin_of(cells, placement.found.destination.first), -9)
    for state, hatch, edge in ((FILL, "////", "#777777"), (UNDEFINED, "xxxx", "#c76a00")):
        boxes = _rectangles(origin == state)
        if len(boxes) <= MOST_HATCHES:
            patches = [Rectangle((x0, y0), x1 - x0, y1 - y0) for y0, y1, x0, x1 in boxes]
            ax.add_collection(PatchCollection(patches, facecolor="none", edgecolor=edge, hatch=hatch, linewidth=0.0),
                              autolim=False)  # fmt: skip


def _rectangles(mask: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """(top, bottom, left, right) that cover the mask: stretches of a row, joined downwards where they are equal."""
    open_: dict[tuple[int, int], int] = {}
    done = []
    for y in range(mask.shape[0] + 1):
        here: set[tuple[int, int]] = set()
        if y < mask.shape[0]:
            edges = np.flatnonzero(np.diff(np.concatenate([[0], mask[y].view(np.int8), [0]])))
            here = {(int(a), int(b)) for a, b in edges.reshape(-1, 2)}
        for stretch in [one for one in open_ if one not in here]:
            done.append((open_.pop(stretch), y, *stretch))
        for stretch in here:
            open_.setdefault(stretch, y)
    return sorted(done)


def _names(ax: Axes, grid: Grid, label: Callable[[int, bool], str], box: tuple[float, float]) -> None:
    """The names in the units, in one size that fits all of them; none where it would be too small to read."""
    down, across = grid.units

    def size_for(letters: int) -> float:
        return min(box[0] / across * 72 / (letters * 0.7), box[1] / down * 72 * 0.62, 10.0)

    named = down * across <= MOST_NAMES and size_for(2) >= _SMALLEST
    names = [label(unit, False) for unit in range(down * across)] if named else []
    size = size_for(max(2, *(len(name) for name in names))) if names else 0.0
    if size < _SMALLEST:
        ax.set_title(f"{ax.get_title(loc='left')}, too many to name", fontsize=9, loc="left", pad=14)
        return
    height, width = grid.unit
    rows, columns = _extents(grid)
    for number, name in enumerate(names):
        row, column = divmod(number, across)
        if name not in ("", "."):
            middle = column * width + columns[row, column] / 2, row * height + rows[row, column] / 2
            text = ax.text(*middle, name, fontsize=size, ha="center", va="center_baseline", color="#111111", clip_on=True)
            text.set_path_effects([Stroke(linewidth=2.0, foreground=(1, 1, 1, 0.75)), Normal()])


def _ticks(ax: Axes, grid: Grid, box: tuple[float, float]) -> None:
    """Numbers of the fractals, or rows and columns of the elements, at the edges."""
    first = grid.blocks[:, :, 0]
    down, across = grid.units
    if grid.fractal:
        rows = [str(n // grid.unit_cells) for n in first[:, 0]]
        columns = [f"+{(n - first[0, 0]) // grid.unit_cells}" if n >= 0 else "" for n in first[0]]
    else:
        rows = [str(grid.spot(int(cell))[0]) for cell in first[:, 0]]
        columns = [str(grid.spot(int(cell))[1]) if cell >= 0 else "" for cell in first[0]]
    every = max(1, int(np.ceil(down * 0.13 / box[1])))
    high, wide = _extents(grid)
    middles = [i * grid.unit[0] + high[i].max() / 2 for i in range(0, down, every)]
    ax.set_yticks(middles, rows[::every], fontsize=7)
    longest = max(len(name) for name in columns)
    every = max(1, int(np.ceil(across * (longest + 1) * 0.062 / box[0])))
    middles = [i * grid.unit[1] + wide[:, i].max() / 2 for i in range(0, across, every)]
    ax.set_xticks(middles, columns[::every], fontsize=7)
    ax.tick_params(length=0, pad=2, top=False, bottom=False, labeltop=True, labelbottom=False)


# ---- enlarged -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Window:
    """A piece of a picture around marked cells: side, memory cells, and the marks in it as (number, row, column)."""

    index: int
    cells: NDArray[np.int64]
    title: str
    marks: tuple[tuple[int, int, int], ...]


def _windows(placement: Placement) -> list[_Window]:
    """The source around the first three elements, and the units of the destination that they land in (at most three)."""
    spots = [spot for spot in placement.spots if spot.targets][: len(_MARKS)]
    if not spots:
        return []
    first = _window(placement, 0, [spot.source for spot in spots])
    found = [first] if first is not None else []
    left = list(range(len(spots)))
    while left and len(found) < 4:
        window = _window(placement, 1, [spots[i].targets[0] for i in left])
        if window is None:
            break
        inside = {left[number] for number, _, _ in window.marks}
        marks = tuple((left[number], row, column) for number, row, column in window.marks)
        found.append(_Window(1, window.cells, window.title, marks))
        left = [i for i in left if i not in inside]
    return found


def _window(placement: Placement, index: int, cells: Sequence[int]) -> _Window | None:
    """The piece around cells[0]: its unit where units have rows, else a few rows; with those of the others that lie in it."""
    grid = (placement.source, placement.destination)[index]
    at = grid.find(cells[0])
    if at is None:
        return None
    height, width = (grid.unit[0], min(grid.unit[1], 32)) if grid.unit[0] > 1 else (4, 16)
    top = at[0] // height * height if grid.unit[0] > 1 else max(min(at[0], grid.cells.shape[0] - height), 0)
    left = at[1] // grid.unit[1] * grid.unit[1]
    left = min(left + (at[1] - left) // width * width, max(grid.cells.shape[1] - width, 0))
    piece = grid.cells[top : top + height, left : left + width]
    marks = []
    for number, cell in enumerate(cells):
        place = np.argwhere(piece == cell)
        if place.size:
            marks.append((number, int(place[0, 0]), int(place[0, 1])))
    corner = int(piece[0, 0])
    what = f"fractal {corner // grid.unit_cells}" if grid.fractal else f"from ({grid.name(corner)})"
    return _Window(index, piece, f"{('source', 'destination')[index]} {what}", tuple(marks))


def _inset_box(window: _Window) -> tuple[float, float]:
    """Width and height of an enlarged piece in inches."""
    rows, columns = window.cells.shape
    side = _INSET / 16 if rows > 4 else 0.16
    return float(np.clip(columns * side, 0.6, 2.6)), max(rows * side, 0.2)


def _enlarged(
    fig: Figure, placement: Placement, windows: Sequence[_Window], colours: Image, tallest: float
) -> None:
    width, height = fig.get_size_inches()
    spots = [spot for spot in placement.spots if spot.targets][: len(_MARKS)]
    x, top = _SIDE, _FOOT + tallest
    for window in windows:
        wide, tall = _inset_box(window)
        ax = fig.add_axes((x / width, (top - tall) / height, wide / width, tall / height))
        _inset(ax, placement, window, colours, (wide, tall))
        x += max(wide, 1.15) + 0.35
    for number, line in enumerate(_mark_lines(placement, spots)):
        fig.text(x / width, (top - 0.02 - number * 0.36) / height, line, fontsize=8, va="top",
                 color=_MARKS[number][1])  # fmt: skip


def _mark_lines(placement: Placement, spots: Sequence[Spot]) -> list[str]:
    found = placement.found
    lines = []
    for (letter, _), spot in zip(_MARKS, spots, strict=False):
        more = f" and {len(spot.targets) - 1} more" if len(spot.targets) > 1 else ""
        lines.append(f"{letter} ({spot.row},{spot.column}): byte {found.byte(spot.source):,}\n"
                     f"    to byte {found.byte(spot.targets[0]):,}{more}")  # fmt: skip
    return lines


def _inset(ax: Axes, placement: Placement, window: _Window, colours: Image, box: tuple[float, float]) -> None:
    rows, columns = window.cells.shape
    ax.imshow(_colours_of(placement, window.cells, window.index, colours), aspect="auto", interpolation="nearest",
              extent=(0, columns, rows, 0))  # fmt: skip
    lines = [[(x, 0), (x, rows)] for x in range(columns + 1)] + [[(0, y), (columns, y)] for y in range(rows + 1)]
    ax.add_collection(LineCollection(lines, colors=_LINE, linewidths=0.4), autolim=False)
    if window.index == 1:
        _hatch(ax, placement, window.cells)
    size = float(np.clip(min(box[0] / columns, box[1] / rows) * 72 * 0.95, 6.0, 10.0))
    for number, row, column in window.marks:
        letter, colour = _MARKS[number]
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="none", zorder=3))
        ax.text(column + 0.5, row + 0.5, letter, fontsize=size, weight="bold", color="white", ha="center",
                va="center_baseline", zorder=4)  # fmt: skip
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(window.title, fontsize=8, loc="left", pad=3)


# ---- words ----------------------------------------------------------------------------------------------------------
def _header(fig: Figure, placement: Placement, width: float, height: float) -> None:
    """The sentence above, folded to the width, and the legend below."""
    chars = int(width / 0.086)
    words, lines = placement.headline().split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > chars:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    fig.text(0.12 / width, 1 - 0.1 / height, "\n".join(lines), fontsize=9.5, weight="bold", va="top", ha="left")
    found = placement.found
    states = np.unique(placement.origin_in_units)
    handles = [Patch(facecolor="#6f9fd8", label="colour: source unit, fading from its first row to its last")]
    shown = placement.source.cells
    at = shown[shown >= 0] - found.source.first
    if ((at < 0) | (at >= found.source.cells)).any() or not found.read[at].all():
        handles.append(Patch(facecolor=_UNREAD, edgecolor=_EDGE, label="not read"))
    for state, face, hatch, label in (
        (FILL, _FILLED, "////", "filled"), (UNDEFINED, _UNDEFINED, "xxxx", "undefined"), (-1, _EMPTY, "", "untouched"),
    ):  # fmt: skip
        if state in states:
            edge = "#c76a00" if state == UNDEFINED else "#777777"
            handles.append(Patch(facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.5, label=label))
    if placement.units.transposed.any():
        handles.append(Patch(facecolor="none", label="T: transposed"))
    fig.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.005, 0.0), ncols=len(handles), fontsize=8,
               frameon=False, handlelength=1.3, columnspacing=1.3, handletextpad=0.5)  # fmt: skip
