"""What the commands of the command line share: consoles, JSON, readable errors, progress.

stdout carries results only, so that `--json` stays pure; everything else (progress, logs, errors as text) goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import logging
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from aicore_sim.errors import (
    AiCoreError,
    AlignmentError,
    CapacityError,
    ConfigError,
    DeadlockError,
    OutOfBoundsError,
    ParameterError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from aicore_sim.launch import Run

PLAIN_WIDTH = 140
"""Columns of tables that go into a file or a pipe."""
PATIENCE_S = 1.0
"""Runs that take longer than this show their progress."""
REDRAW_S = 0.1

_ADVICE: tuple[tuple[type[AiCoreError], str], ...] = (
    (DeadlockError, "each wait above needs its partner to arrive first: look for a missing or misplaced set or wait"),
    (UnsupportedError, "`aicore-sim cards NAME --apis` lists what a card offers; another --card may have it"),
    (CapacityError, "use smaller tiles or fewer buffers and blocks; `aicore-sim cards NAME` lists the sizes"),
    (AlignmentError, "round the address or length to the alignment above; `aicore-sim cards NAME` lists alignments"),
    (OutOfBoundsError, "compare offset, count and strides with the size of the tensor or buffer"),
    (ParameterError, "change the value to one that is allowed"),
)
_ADVICE_BY_FIELD = {
    "out": "choose another folder with --out, or --no-files",
    "window": "times count from the start of the run; without --window the whole run is drawn",
    "file": "give the path of a Python file, or -m MODULE",
    "against-msprof": "give the OPPROF_... folder that `msprof op` wrote for this kernel, or one above it",
}
"""For options of the command line."""


class _Results(Console):
    def on_broken_pipe(self) -> None:
        """Left to `cli.main`; Rich would leave with status 1, which means a wrong result here."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """For results; a pipe or file gets wide tables without colour."""
    return _Results(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def stderr_console() -> Console:
    return Console(stderr=True, width=None if sys.stderr.isatty() else PLAIN_WIDTH, highlight=False, soft_wrap=True)


def emit_json(value: Any) -> None:
    """Write one JSON document to stdout; nan and infinity become null."""
    sys.stdout.write(json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


def error_dict(error: BaseException) -> dict[str, object]:
    """Any exception in the form that `AiCoreError.as_dict` gives."""
    if isinstance(error, AiCoreError):
        return error.as_dict()
    return {"type": type(error).__name__, "field": None, "value": None, "allowed": None, "file": None, "line": None,
            "message": str(error)}  # fmt: skip


def describe_error(error: AiCoreError) -> Text:
    """The error over several lines: what, which field, what is allowed, where, and what to do."""
    text = Text.assemble(("error: ", "bold red"), error.message, f"  [{type(error).__name__}]")
    if error.field is not None:
        value = "" if error.value is None else f" = {error.value!r}"
        text.append(f"\n  field    {error.field}{value}")
    elif error.value is not None:
        text.append(f"\n  value    {error.value!r}")
    for name, content in (("allowed", error.allowed), ("card", error.card)):
        if content is not None:
            text.append(f"\n  {name:8s} {content}")
    if error.file is not None:
        where = error.file if error.line is None else f"{error.file}:{error.line}"
        text.append(f"\n  at       {where}")
        source = linecache.getline(error.file, error.line).strip() if error.line is not None else ""
        if source:
            text.append(f"\n           {source}", style="dim")
    for line in getattr(error, "cycle", ()):
        text.append(f"\n  {line}")
    text.append("\n  hint     ", style="bold").append(_advice(error))
    return text


def _advice(error: AiCoreError) -> str:
    if isinstance(error, ConfigError):
        if error.field in _ADVICE_BY_FIELD:
            return _ADVICE_BY_FIELD[error.field]
        if error.field in ("card", "override") or str(error.file).endswith(".toml"):
            return "`aicore-sim cards` lists the cards, `aicore-sim cards NAME` the keys and numbers of one"
        return "`aicore-sim scenarios` lists the scenarios, `aicore-sim scenarios NAME` the parameters of one"
    return next((words for kind, words in _ADVICE if isinstance(error, kind)), "see `aicore-sim --help`")


def set_up_logging(quiet: bool, verbose: bool) -> None:
    """Logs of the package to stderr: warnings, with -v also information, with -q errors only."""
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    log = logging.getLogger("aicore_sim")
    log.handlers = [RichHandler(level, stderr_console(), show_time=False, show_path=False)]
    log.setLevel(level)
    log.propagate = False


class RunProgress:
    """A moving bar on stderr while a run takes long; `update` is the callback of `Options.progress`."""

    def __init__(self, label: str, console: Console) -> None:
        self._label = label
        self._console = console
        self._began = time.monotonic()
        self._drawn = 0.0
        self._bar: Progress | None = None

    def update(self, entries: int, simulated_us: float) -> None:
        now = time.monotonic()
        if now - self._began < PATIENCE_S or now - self._drawn < REDRAW_S:
            return
        self._drawn = now
        text = f"{self._label}: {entries:,} instructions, {simulated_us:,.0f} us"
        if self._bar is None:
            # The end of a kernel is not known before it is reached, so the bar has no total.
            self._bar = Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=10),
                                 TimeElapsedColumn(), console=self._console, transient=True)  # fmt: skip
            self._bar.start()
            self._bar.add_task(text, total=None)
        else:
            self._bar.update(self._bar.task_ids[0], description=text)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextlib.contextmanager
def run_progress(label: str, quiet: bool) -> Iterator[RunProgress | None]:
    """Progress of one run, None with -q."""
    if quiet:
        yield None
        return
    progress = RunProgress(label, stderr_console())
    try:
        yield progress
    finally:
        progress.close()


@contextlib.contextmanager
def stdout_for_results(as_json: bool) -> Iterator[None]:
    """Under --json, what kernels and scenarios print goes to stderr."""
    if as_json:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def write_report(
    run: Run, folder: Path, title: str, *, timeline: bool = True, trace_csv: bool = True,
    window_us: tuple[float, float] | None = None,
) -> None:  # fmt: skip
    """The report files of a run; a folder that cannot be written is an error of the command line (ConfigError)."""
    # matplotlib takes longer to load than a small scenario to run: only those who draw wait for it.
    from aicore_sim.report import files

    try:
        files.write_files(run, folder, timeline=timeline, trace_csv=trace_csv, title=title, window_us=window_us)
    except OSError as error:
        raise ConfigError(f"the report files cannot be written: {error.strerror or error}", field="out",
                          value=str(folder)) from error  # fmt: skip
