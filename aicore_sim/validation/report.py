"""The files of a validation: a page, a table, two pictures."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aicore_sim.errors import ConfigError
from aicore_sim.validation.scores import MOST_FREE, WEAK_MEAN, WEAK_POINT, Score, Validation

REASONS = Path(__file__).with_name("reasons.csv")
"""Why a mechanism is as far off as it is: mechanism, why; written by hand."""
FIELDS = ("id", "card", "mechanism", "measured", "simulated", "error", "unit", "counted", "low", "high", "inside",
          "dominated_by", "leave_one_out")  # fmt: skip


def reasons(file: Path = REASONS) -> dict[str, str]:
    """Hand-written reasons by mechanism."""
    with file.open(encoding="utf-8", newline="") as handle:
        return {row["mechanism"]: row["why"] for row in csv.DictReader(handle)}


def write_files(result: Validation, folder: Path) -> list[Path]:
    """validation.md, validation.csv and the pictures. Raises ConfigError where they cannot be written."""
    # matplotlib takes a second to load: only those who draw wait for it.
    from aicore_sim.validation import plots

    files = [folder / name for name in ("validation.md", "validation.csv", "validation_points.png", "validation_mechanisms.png")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files[0].write_text(page(result, reasons()), encoding="utf-8")
        with files[1].open("w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(row.as_dict()[name]) for name in FIELDS} for row in result.rows)
        plots.draw_points(result, files[2])
        plots.draw_mechanisms(result, files[3])
    except OSError as error:
        raise ConfigError(f"the report files cannot be written: {error.strerror or error}", field="out",
                          value=str(folder)) from error  # fmt: skip
    return files


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else value


def page(result: Validation, why: Mapping[str, str]) -> str:
    """The report as Markdown."""
    parts = [
        "# Validation",
        "Published measurements against the model: `aicore-sim validate` writes this page, `validation.csv` and the pictures. "
        "An error is (simulated - measured) / measured; means, medians and worst cases are of absolute errors of the "
        "counted points. Points that contradict themselves are shown and not counted.",
        _table(("figure", "value"), _figures(result)),
        "![Measured against simulated](validation_points.png)",
        "## By card\n\n" + _scores(result.by_card, "card"),
        "## By mechanism\n\n" + _scores(result.by_mechanism, "mechanism"),
        "![Errors by mechanism](validation_mechanisms.png)",
        _weak(result, why),
        _free(result),
        "## Points\n\n" + _points(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _figures(result: Validation) -> list[tuple[str, str]]:
    total = result.total
    rows = [("points", f"{len(result.rows)}, {total.count if total else 0} counted")]
    if total is not None:
        rows += [("mean error", percent(total.mean)), ("median error", percent(total.median)),
                 ("worst error", f"{percent(total.worst)} ({total.worst_id})")]  # fmt: skip
    for name, value in (
        ("mean error of a scenario that the fit has not seen", result.leave_one_out),
        ("mean error of a command that the fit has not seen", result.leave_one_command_out),
        ("counted points inside the interval of the simulated value", result.inside_interval),
    ):
        if value is not None:
            rows.append((name, percent(value)))
    return rows


def _scores(scores: Mapping[str, Score], what: str) -> str:
    rows = [(name, str(one.count), percent(one.mean), percent(one.median), percent(one.worst), one.worst_id)
            for name, one in scores.items()]  # fmt: skip
    return _table((what, "points", "mean", "median", "worst", "worst point"), rows)


def _weak(result: Validation, why: Mapping[str, str]) -> str:
    weak = {name: one for name, one in result.by_mechanism.items() if one.weak}
    title = "## Where the model falls short\n\n"
    title += f"Mechanisms with a mean error above {percent(WEAK_MEAN)} or a point above {percent(WEAK_POINT)}:"
    if not weak:
        return f"{title} none."
    rows = [(name, percent(one.mean), percent(one.worst), why.get(name, "not explained yet")) for name, one in weak.items()]
    return f"{title}\n\n" + _table(("mechanism", "mean", "worst", "why"), rows)


def _free(result: Validation) -> str:
    if not result.free:
        return ""
    lines = [
        "## Free numbers",
        "Free is every fitted or assumed number of a card that moves a counted point by more than 0.1 % when it moves "
        f"through its range, the others as they are. A card may have {MOST_FREE}, and none is fitted to one point: an assumed "
        "number that moves one point only is a guess carried over from elsewhere, and no fit sets it. The "
        "errors of unseen points above come from fits of these numbers without the points of the scenario (or command), and are "
        "linearised: the slopes of all points over the ranges are taken from shortened runs once, the fit is a bounded "
        "least-squares problem on the logarithms of the errors with a small price on every move, and the left-out points "
        "are predicted with the same slopes. Numbers in steps (sizes, counts) stay as they are too.",
    ]
    for card, numbers in result.free.items():
        rows = [(f"`{key}`" + (" (not fitted)" if key in result.unfitted.get(card, ()) else ""), str(len(ids)), ", ".join(ids[:3])
                 + (", ..." if len(ids) > 3 else "")) for key, ids in numbers.items()]  # fmt: skip
        lines.append(f"### {card}: {len(numbers)}\n\n" + (_table(("number", "points", "which"), rows) if rows else "None."))
    lines.append("Rules broken: " + ("; ".join(result.violations) if result.violations else "none") + ".")
    return "\n\n".join(lines)


def _points(result: Validation) -> str:
    head = ["point", "card", "mechanism", "measured", "simulated", "unit", "error"]
    ranged = any(row.low is not None for row in result.rows)
    left = any(row.left_out is not None for row in result.rows)
    head += ["interval", "opened by"] if ranged else []
    head += ["unseen"] if left else []
    rows = []
    for row in result.rows:
        point = row.point
        cells = [point.id, point.card, point.mechanism, figure(point.value), figure(row.simulated), point.unit,
                 signed(row.error) + ("" if point.counted else " (not counted)")]  # fmt: skip
        if ranged:
            span = "" if row.low is None or row.high is None else f"{figure(row.low)} to {figure(row.high)}"
            cells += [span + ("" if row.inside is not False else ", outside"), f"`{row.dominated_by}`" if row.dominated_by else ""]
        if left:
            cells.append("" if row.left_out is None else signed(row.left_out))
        rows.append(tuple(cells))
    return _table(tuple(head), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def percent(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def signed(value: float) -> str:
    return f"{value:+.1%}".replace("%", " %")


def figure(value: float) -> str:
    """Four significant digits, large numbers in full."""
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"
