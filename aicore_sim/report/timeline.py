"""The pipes over time, as a PNG.

A lane is one pipe of one core. The area of a bar is time: where instructions are narrower than a few pixels they are
merged, and the height of a lane is then the share of the time with an instruction in progress. The dark part from
below is the instruction's own work, the light part on top what bandwidth or unit flags took; the thin grey line under
the bars is waiting for flags and barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.report.lanes import LaneShapes, lane_shapes, step_outline
from aicore_sim.trace import Trace
from aicore_sim.trace_rows import TimelineRows

COLOURS = {
    Pipe.S: "#4d4d4d", Pipe.MTE2: "#1f5fa8", Pipe.MTE1: "#1593a5", Pipe.M: "#b3262e", Pipe.V: "#2e7d32",
    Pipe.FIX: "#6a3d9a", Pipe.MTE3: "#c76a00",
}  # fmt: skip
WAIT_COLOUR = "#9a9a9a"
DPI = 100
WIDTH_IN = 14.0
MOST_CORES = 36
"""Cores shown when the caller does not choose: all cubes of the largest card."""
ZOOM_SHARE = 0.1
ZOOM_ROWS = 24
"""The zoom shows at most this share of the run, and at most about so many instructions of the fullest lane."""
ZOOM_FROM = 120
"""Instructions in the fullest lane from which a zoom is drawn."""
ZOOM_CORES = 3
_LEFT, _RIGHT = 1.35, 0.25
_GROUP_GAP = 0.35
"""Space between cores, in lanes."""
_BAR = 0.78
_WAIT = 0.12
"""Heights of bars and of the wait line, in lanes."""

Window = tuple[float, float]
Cores = Sequence[int | str] | Literal["all"] | None


def draw(
    trace: Trace,
    path: str | Path,
    *,
    window_us: Window | None = None,
    cores: Cores = None,
    title: str = "",
) -> Path:
    """Write the timeline of `trace` as PNG to `path` and return it; see `figure` for the arguments."""
    fig = figure(trace, window_us=window_us, cores=cores, title=title)
    FigureCanvasAgg(fig)
    path = Path(path)
    fig.savefig(path, format="png", dpi=DPI)
    return path


def figure(trace: Trace, *, window_us: Window | None = None, cores: Cores = None, title: str = "") -> Figure:
    """The timeline as a matplotlib figure, x in us, one axes per panel.

    `window_us` shows one stretch (from, to); without it the whole run, and below it a stretch from the middle when
    single instructions would be too narrow to see. `cores` are indices or labels ("core3.aiv1"), or "all"; by default
    about `MOST_CORES` cores, evenly chosen, and the title says how many of how many. Raises ParameterError for an
    unknown core or a window that is empty or outside the run.
    """
    chosen = _chosen_cores(trace, cores)
    window = _window(trace, window_us)
    zoom = None if window_us is not None else _zoom_window(trace, chosen)
    zoom_cores = _evenly(trace, chosen, ZOOM_CORES)
    panels = [(window, chosen)] if zoom is None else [(window, chosen), (zoom, zoom_cores)]
    rows = [trace.timeline_rows(ticks, shown) for ticks, shown in panels]

    heights = [_panel_inches(r) for r in rows]
    header, footer, between = 0.72, 0.5, 0.75
    total = header + footer + sum(heights) + between * (len(panels) - 1)
    fig = Figure(figsize=(WIDTH_IN, total), dpi=DPI)
    y = total - header
    axes = []
    for height in heights:
        y -= height
        axes.append(fig.add_axes((_LEFT / WIDTH_IN, y / total, 1 - (_LEFT + _RIGHT) / WIDTH_IN, height / total)))
        y -= between
    for ax, r, (ticks, _), height in zip(axes, rows, panels, heights, strict=True):
        _draw_panel(ax, trace, r, ticks, height)
    axes[-1].set_xlabel("time in us")
    if zoom is not None:
        lo, hi = (trace.us(t) for t in zoom)
        axes[0].axvspan(lo, hi, color="#ffd54d", alpha=0.4, linewidth=0, zorder=0.5)
        axes[0].axvline(lo, color="#c79a00", linewidth=0.8, zorder=0.6)
        axes[1].set_title(f"zoom: {lo:,.3f} to {hi:,.3f} us", fontsize=9, loc="left", pad=4)
        for side in axes[1].spines.values():
            side.set_color("#c79a00")
    _head(fig, trace, title, len(chosen), rows[0], total)
    return fig


# -- what to show -----------------------------------------------------------------------------------------------------


def _chosen_cores(trace: Trace, cores: Cores) -> list[int]:
    infos = trace.columns.cores
    if cores is None:
        return _evenly(trace, _cores_with_rows(trace), MOST_CORES)
    if isinstance(cores, str):
        if cores == "all":
            return _cores_with_rows(trace)
        cores = [cores]
    labels = {info.label: i for i, info in enumerate(infos)}
    chosen = []
    for core in cores:
        index = labels.get(core, -1) if isinstance(core, str) else int(core)
        if not 0 <= index < len(infos):
            allowed = f"0..{len(infos) - 1}, {', '.join(list(labels)[:8])}{' ...' if len(labels) > 8 else ''}"
            raise ParameterError("no such core took part", field="cores", value=core, allowed=allowed)
        chosen.append(index)
    return chosen


def _cores_with_rows(trace: Trace) -> list[int]:
    used = np.flatnonzero(trace.lane_instructions.any(axis=1))
    return [int(core) for core in used] or list(range(len(trace.columns.cores)))


def _evenly(trace: Trace, cores: list[int], most: int) -> list[int]:
    """About `most` of `cores`, in whole AI Cores (cube and vector cores that work together), spread evenly."""
    if len(cores) <= most:
        return cores
    groups: dict[int, list[int]] = {}
    for core in cores:
        groups.setdefault(trace.columns.cores[core].group, []).append(core)
    members = list(groups.values())
    count = max(1, most // max(len(group) for group in members))
    picked = np.unique(np.linspace(0, len(members) - 1, count).round().astype(int))
    return [core for i in picked for core in members[i]]


def _window(trace: Trace, window_us: Window | None) -> Window:
    length = max(trace.columns.length, 1)
    if window_us is None:
        return (0.0, float(length))
    lo, hi = (float(x) * trace.columns.clock_mhz * TICKS_PER_CYCLE for x in window_us)
    if not (lo < hi and hi > 0 and lo < length):
        raise ParameterError("the window shows nothing of the run", field="window_us", value=tuple(window_us),
                             allowed=f"from < to inside 0..{trace.length_us:.6g}")  # fmt: skip
    return (max(lo, 0.0), min(hi, float(length)))


def _zoom_window(trace: Trace, cores: list[int]) -> Window | None:
    """A stretch in the middle of the run, or None where the whole run already shows every instruction."""
    counts = trace.lane_instructions[cores]
    if not counts.size or counts.max() <= ZOOM_FROM:
        return None
    place, pipe = np.unravel_index(int(counts.argmax()), counts.shape)
    core = cores[int(place)]
    rows = trace.timeline_rows(cores=[core])
    lane = rows.lanes.index((core, int(pipe)))
    part = slice(int(rows.first[lane]), int(rows.first[lane + 1]))
    starts = rows.start[part][rows.work[part]]
    middle = starts.size // 2
    lo, hi = float(starts[middle]), float(starts[min(middle + ZOOM_ROWS, starts.size - 1)])
    hi = min(hi, lo + ZOOM_SHARE * trace.columns.length)
    return (lo, hi) if hi > lo else None


# -- drawing ----------------------------------------------------------------------------------------------------------


def _tops(trace: Trace, rows: TimelineRows) -> list[float]:
    """The upper edge of each lane, downwards from 0, in lanes, with a gap between cores."""
    tops, y, last = [], 0.0, -1
    for core, _ in rows.lanes:
        y += _GROUP_GAP if last not in (-1, core) else 0.0
        tops.append(y)
        y += 1
        last = core
    return tops


def _panel_inches(rows: TimelineRows) -> float:
    lanes = max(1.0, len(rows.lanes) + _GROUP_GAP * max(0, len({core for core, _ in rows.lanes}) - 1))
    return lanes * float(np.clip(9.0 / lanes, 0.13, 0.34))


def _tint(colour: str) -> tuple[float, float, float]:
    """A light version of a colour."""
    r, g, b = to_rgb(colour)
    return (r + (1 - r) * 0.55, g + (1 - g) * 0.55, b + (1 - b) * 0.55)


def _draw_panel(ax: Axes, trace: Trace, rows: TimelineRows, window: Window, inches: float) -> None:
    tops = _tops(trace, rows)
    bottom = (tops[-1] + 1) if tops else 1.0
    lane_in = inches / bottom
    width_px = round((WIDTH_IN - _LEFT - _RIGHT) * DPI)
    lo, hi = trace.us(window[0]), trace.us(window[1])
    ax.set_xlim(lo, hi)
    ax.set_ylim(bottom, 0)
    shapes = [lane_shapes(rows, lane, window, width_px) for lane in range(len(rows.lanes))]
    scale = trace.us(1.0)
    for pipe in Pipe:
        mine = [i for i, (_, p) in enumerate(rows.lanes) if p == pipe]
        _draw_pipe(ax, [shapes[i] for i in mine], [tops[i] for i in mine], COLOURS[pipe], scale)
    if lane_in > 0.2:
        names = [op.api for op in trace.columns.ops]
        _label_bars(ax, shapes, tops, names, scale, width_px / (hi - lo), lane_in)
    _label_lanes(ax, trace, rows, tops, lane_in)
    ax.tick_params(axis="x", labelsize=8)
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    ax.grid(axis="x", color="#e4e4e4", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _draw_pipe(ax: Axes, shapes: list[LaneShapes], tops: list[float], colour: str, scale: float) -> None:
    """Bars, merged bars and wait lines of all lanes of one pipe; `scale` turns ticks into us."""
    light, dark, waits = [], [], []
    merged_light, merged_dark = [], []
    for shape, top in zip(shapes, tops, strict=True):
        floor = top + _BAR + 0.04
        x0, x1 = shape.start * scale, shape.free * scale
        light.append(_boxes(x0, x1, floor - _BAR, np.full_like(x0, floor)))
        dark.append(_boxes(x0, x1, floor - _BAR * shape.own, np.full_like(x0, floor)))
        edges = shape.edges * scale
        if shape.progress.any():
            merged_light.append(step_outline(edges, floor, -_BAR * shape.progress))
            merged_dark.append(step_outline(edges, floor, -_BAR * shape.work))
        if shape.waiting.any():
            waits.append(step_outline(edges, floor + 0.03 + _WAIT, -_WAIT * shape.waiting))
    for polygons, face, edge, width, z in (
        (merged_light, _tint(colour), "none", 0.0, 2.0),
        (merged_dark, colour, "none", 0.0, 2.1),
        (list(np.concatenate(light)) if light else [], _tint(colour), "none", 0.0, 2.2),
        (list(np.concatenate(dark)) if dark else [], colour, "none", 0.0, 2.3),
        (list(np.concatenate(light)) if light else [], "none", "white", 0.5, 2.4),
        (waits, WAIT_COLOUR, "none", 0.0, 2.0),
    ):
        if polygons:
            ax.add_collection(
                PolyCollection(polygons, facecolors=face, edgecolors=edge, linewidths=width, zorder=z,
                               antialiaseds=width > 0),
                autolim=False,
            )  # fmt: skip


def _boxes(
    x0: NDArray[np.float64], x1: NDArray[np.float64], y0: NDArray[np.float64] | float, y1: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[n, 4, 2] corners of rectangles."""
    y0 = np.broadcast_to(np.asarray(y0, np.float64), x0.shape)
    return np.stack([np.stack(p, axis=1) for p in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)


def _label_bars(
    ax: Axes, shapes: list[LaneShapes], tops: list[float], names: list[str], scale: float, px_per_us: float,
    lane_in: float,
) -> None:
    """The API's name inside every bar that is wide enough for it."""
    size = min(8.0, lane_in * 72 * 0.34)
    char_px = size * 0.62 * DPI / 72
    lo, hi = ax.get_xlim()
    for shape, top in zip(shapes, tops, strict=True):
        x0, x1 = np.clip(shape.start * scale, lo, hi), np.clip(shape.free * scale, lo, hi)
        room = (x1 - x0) * px_per_us
        for i in np.flatnonzero((room > 3 * char_px) & (shape.op >= 0)):
            name = names[int(shape.op[i])]
            if len(name) * char_px + 4 <= room[i]:
                own = float(shape.own[i])
                on_dark = own >= 0.45
                y = top + 0.04 + _BAR * (1 - own / 2 if on_dark else (1 - own) / 2)
                ax.text((x0[i] + x1[i]) / 2, y, name, fontsize=size, ha="center", va="center_baseline",
                        color="white" if on_dark else "#1a1a1a", zorder=3, clip_on=True)  # fmt: skip


def _label_lanes(ax: Axes, trace: Trace, rows: TimelineRows, tops: list[float], lane_in: float) -> None:
    """Pipe names at the lanes, core names at the groups."""
    size = float(np.clip(lane_in * 72 * 0.7, 5, 8))
    ax.set_yticks([top + 0.5 for top in tops])
    ax.set_yticklabels([Pipe(pipe).name for _, pipe in rows.lanes], fontsize=size)
    ax.tick_params(axis="y", length=0, pad=3)
    groups: dict[int, list[float]] = {}
    for (core, _), top in zip(rows.lanes, tops, strict=True):
        groups.setdefault(core, []).append(top)
    transform = ax.get_yaxis_transform()
    x = -0.55 / (WIDTH_IN - _LEFT - _RIGHT)
    for core, mine in groups.items():
        first, last = mine[0], mine[-1] + 1
        ax.plot([x, x], [first + 0.08, last - 0.08], color="#555555", linewidth=1.0, transform=transform, clip_on=False)
        ax.text(x * 1.12, (first + last) / 2, trace.columns.cores[core].label, fontsize=8, ha="right",
                va="center", transform=transform)  # fmt: skip


def _head(fig: Figure, trace: Trace, title: str, shown: int, rows: TimelineRows, total: float) -> None:
    """Title on the left, legend below it."""
    parts = [title] if title else []
    length = trace.length_us
    parts.append(f"cores run for {length:,.2f} us" if length >= 1 else f"cores run for {length:.4g} us")
    if shown < len(trace.columns.cores):
        parts.append(f"{shown} of {len(trace.columns.cores)} cores")
    fig.text(0.01, 1 - 0.12 / total, ", ".join(parts), fontsize=11, weight="bold", va="top", ha="left")
    present = sorted({pipe for _, pipe in rows.lanes})
    example = COLOURS[Pipe(present[0])] if present else "#333333"
    handles = [Patch(facecolor=COLOURS[Pipe(pipe)], label=Pipe(pipe).name) for pipe in present]
    handles += [
        Patch(facecolor=_tint(example), label="light: limited by bandwidth or unit flags"),
        Patch(facecolor=WAIT_COLOUR, label="line below: flag or barrier wait"),
        Patch(facecolor="none", label="narrow bars merged: height = share of time"),
    ]
    fig.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.005, 1 - 0.32 / total), ncols=len(handles),
               fontsize=8, frameon=False, handlelength=1.1, columnspacing=1.2, handletextpad=0.5)  # fmt: skip
