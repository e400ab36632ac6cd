"""The report files of a run, all in one folder."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from aicore_sim.launch import Run
from aicore_sim.report import tables
from aicore_sim.report.summary import as_result
from aicore_sim.report.timeline import draw

log = logging.getLogger(__name__)


def write_files(
    run: Run, out_dir: str | Path, *, timeline: bool = True, trace_csv: bool = True, title: str = "",
    window_us: tuple[float, float] | None = None,
) -> list[Path]:  # fmt: skip
    """Write the report files of `run` into `out_dir` (made if needed), set `run.files`, and return the paths.

    PipeUtilization.csv, Stalls.csv, trace.csv, timeline.png and, last, summary.json, which is `as_result(run)` with the
    list of files. `title` names the run in the picture (default: the kernel's name), which shows `window_us` or all.
    Files of an earlier run in the same folder are replaced. A note about a shortened trace.csv goes to the log.
    """
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    card = run.card
    paths = [folder / "PipeUtilization.csv", folder / "Stalls.csv"]
    tables.write_pipe_utilization(
        run.trace, paths[0], family=tables.product_family(card.npu_arch), coupled=card.coupled
    )
    tables.write_stalls(run.trace, paths[1])
    if trace_csv:
        paths.append(folder / "trace.csv")
        note = tables.write_trace(run.trace, paths[-1])
        if note:
            log.warning("%s", note)
    if timeline:
        paths.append(folder / "timeline.png")
        _draw(run, paths[-1], title, window_us)
    paths.append(folder / "summary.json")
    run.files = [str(path) for path in paths]
    paths[-1].write_text(json.dumps(as_result(run), indent=2) + "\n", encoding="utf-8")
    return paths


def _draw(run: Run, path: Path, title: str, window_us: tuple[float, float] | None) -> None:
    blocks = f"{run.blocks} block{'s' if run.blocks != 1 else ''}"
    name = f"{title or run.kernel}, {run.card.label}, {blocks}, {run.time_us:,.2f} us"
    draw(run.trace, path, window_us=window_us, title=name)
