"""Pictures of a validation: measured against simulated, and errors by mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from aicore_sim.validation.scores import Row, Validation

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_BANDS = ((0.25, "#eeeeee"), (0.10, "#d8d8d8"))
_CUT = 0.5
"""Errors beyond this are drawn at the edge of the picture with their value."""


def draw_points(result: Validation, file: Path) -> None:
    """Measured against simulated values, one logarithmic panel for each unit, with bands of 10 and 25 %."""
    units = list(dict.fromkeys(row.point.unit for row in result.rows))
    figure = Figure(figsize=(0.6 + 4.6 * len(units), 5.6), layout="constrained")
    cards = list(dict.fromkeys(row.point.card for row in result.rows))
    for column, unit in enumerate(units):
        axes = figure.add_subplot(1, len(units), column + 1)
        _panel(axes, [row for row in result.rows if row.point.unit == unit], unit, cards)
    _legend(figure, figure.axes[0], cards)
    figure.suptitle("Measured against simulated; bands of 10 and 25 %", fontsize=12)
    _save(figure, file)


def _panel(axes: Any, rows: list[Row], unit: str, cards: list[str]) -> None:
    values = [value for row in rows for value in (row.point.value, row.simulated)]
    low, high = min(values) / 1.6, max(values) * 1.6
    line = np.array([low, high])
    for share, colour in _BANDS:
        axes.fill_between(line, line * (1 - share), line * (1 + share), color=colour, lw=0)
    axes.plot(line, line, color="#555555", lw=1)
    for row in rows:
        i = cards.index(row.point.card)
        colour = _COLOURS[i % len(_COLOURS)]
        axes.plot(row.point.value, row.simulated, _MARKERS[i % len(_MARKERS)], ms=6, color=colour,
                  mfc=colour if row.point.counted else "none", alpha=0.85)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set(xlabel=f"measured, {unit}", ylabel=f"simulated, {unit}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high / low < 50 else (1,)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_aspect("equal")
    axes.grid(color="#cccccc", lw=0.4)
    axes.tick_params(labelsize=10)


def draw_mechanisms(result: Validation, file: Path) -> None:
    """Signed errors of the points by mechanism, a dot each, and the mean absolute error as a number."""
    scores = result.by_mechanism
    names = list(dict.fromkeys(row.point.mechanism for row in result.rows))
    cards = list(dict.fromkeys(row.point.card for row in result.rows))
    figure = Figure(figsize=(9.5, 1.9 + 0.42 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for share, colour in _BANDS:
        axes.axvspan(-share, share, color=colour, lw=0)
    axes.axvline(0, color="#555555", lw=1)
    for at, name in enumerate(names):
        rows = [row for row in result.rows if row.point.mechanism == name]
        for place, row in enumerate(rows):
            i = cards.index(row.point.card)
            colour = _COLOURS[i % len(_COLOURS)]
            # Points of one mechanism lie a little apart, so that equal errors do not hide each other.
            height = at + 0.5 * ((place + 0.5) / len(rows) - 0.5)
            error = min(max(row.error, -_CUT), _CUT)
            axes.plot(error, height, _MARKERS[i % len(_MARKERS)], ms=5, color=colour, alpha=0.85, clip_on=False, zorder=3,
                      mfc=colour if row.point.counted else "none")  # fmt: skip
        for side in (-1, 1):
            # One text for all of them: texts of their own would lie on each other.
            beyond = sorted((row.error * side for row in rows if row.error * side > _CUT), reverse=True)
            if beyond:
                far = f"{side * beyond[0]:+.0%}"
                text = far if len(beyond) == 1 else f"{len(beyond)} points, to {far}"
                axes.annotate(text, (_CUT * side, at), (-8 * side, 0), textcoords="offset points", fontsize=8,
                              ha="right" if side > 0 else "left", va="center")  # fmt: skip
    labels = [f"{name}\nmean {scores[name].mean:.1%} of {scores[name].count}" if name in scores else f"{name}\nnot counted"
              for name in names]  # fmt: skip
    axes.set_yticks(range(len(names)), labels, fontsize=9)
    axes.set(xlim=(-_CUT * 1.02, _CUT * 1.02), ylim=(len(names) - 0.5, -0.5), xlabel="(simulated - measured) / measured")
    axes.xaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.set_xticks(np.arange(-5, 6) / 10)
    axes.grid(axis="y", color="#dddddd", lw=0.5)
    _legend(figure, axes, cards)
    figure.suptitle("Error by mechanism; bands of 10 and 25 %", fontsize=12)
    _save(figure, file)


def _legend(figure: Figure, axes: Any, cards: list[str]) -> None:
    handles = [axes.plot([], [], _MARKERS[i % len(_MARKERS)], color=_COLOURS[i % len(_COLOURS)], ms=6)[0]
               for i in range(len(cards))]  # fmt: skip
    hollow = axes.plot([], [], "o", mfc="none", color="#777777", ms=6)[0]
    figure.legend([*handles, hollow], [*cards, "not counted"], loc="outside lower center", ncols=2, frameon=False, fontsize=10)


def _save(figure: Figure, file: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(file, dpi=130, metadata={"Software": None})
