"""Shapes of one lane of a timeline: single bars where they are wide enough, a merged profile where they are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.columns import Ints
from aicore_sim.trace_rows import TimelineRows

Floats = NDArray[np.float64]

BAR_PIXELS = 2.0
"""Narrower bars are merged."""
LEAST_HEIGHT = 0.15
"""What little there is in a pixel stays visible."""


@dataclass(frozen=True, slots=True)
class LaneShapes:
    """Times in ticks, heights as shares of a full bar.

    `start`, `free`, `op` and `own` (share of the bar that is the instruction's own work) describe single bars. `edges`
    are the borders of the pixels; `progress` and `work` the heights of the merged bars in each, `waiting` the share of
    each spent waiting for flags and barriers.
    """

    start: Floats
    free: Floats
    own: Floats
    op: Ints
    edges: Floats
    progress: Floats
    work: Floats
    waiting: Floats


def lane_shapes(rows: TimelineRows, lane: int, window: tuple[float, float], pixels: int) -> LaneShapes:
    """Shapes of lane `lane` of `rows` over `window` (ticks), which is `pixels` wide."""
    part = slice(int(rows.first[lane]), int(rows.first[lane + 1]))
    work = rows.work[part]
    start, free = rows.start[part].astype(np.float64), rows.free[part].astype(np.float64)
    edges = np.linspace(window[0], window[1], pixels + 1)
    time = np.where(work, free - start, 0.0)
    own = np.divide(time - rows.limited[part], time, out=np.ones_like(time), where=time > 0)
    single = time >= BAR_PIXELS * (window[1] - window[0]) / pixels
    merged = np.where(single, 0.0, time)
    progress = coverage(start, free, merged, edges)
    shown = np.where(progress > 0, np.maximum(progress, LEAST_HEIGHT), 0.0)
    own_part = coverage(start, free, merged * own, edges)
    wait_from, wait_to = rows.wait_from[part].astype(np.float64), rows.wait_to[part].astype(np.float64)
    return LaneShapes(
        start[single], free[single], own[single], rows.op[part][single], edges, shown,
        shown * np.divide(own_part, progress, out=np.zeros_like(progress), where=progress > 0),
        coverage(wait_from, wait_to, wait_to - wait_from, edges),
    )  # fmt: skip


def coverage(start: Floats, free: Floats, amount: Floats, edges: Floats) -> Floats:
    """Share of each cell between `edges` that is covered, when row i spreads `amount[i]` evenly over [start, free).

    Rows must be in order of time and not overlap. The running sum is linear inside a row and flat between rows, so it
    is interpolated at the edges: exact, however many rows fall into a cell.
    """
    if not start.size:
        return np.zeros(edges.size - 1)
    after = np.cumsum(amount)
    knots = np.empty(2 * start.size)
    knots[0::2], knots[1::2] = start, free
    sums = np.empty_like(knots)
    sums[0::2], sums[1::2] = after - amount, after
    share = np.diff(np.interp(edges, knots, sums)) / np.diff(edges)
    # differences of a running sum leave rounding dust where nothing happened
    return np.where(share < 1e-9, 0.0, np.minimum(share, 1.0))


def step_outline(edges: Floats, floor: float, heights: Floats) -> Floats:
    """[n, 2] outline of a step profile over `floor`; equal neighbours are one step."""
    changes = np.flatnonzero(np.diff(heights)) + 1
    left = edges[np.concatenate(([0], changes))]
    right = edges[np.concatenate((changes, [heights.size]))]
    level = floor + heights[np.concatenate(([0], changes))]
    x = np.stack((left, right), axis=1).ravel()
    y = np.repeat(level, 2)
    return np.stack((np.concatenate(([x[0]], x, [x[-1]])), np.concatenate(([floor], y, [floor]))), axis=1)
