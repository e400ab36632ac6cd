"""Checks of runs for tests of kernels."""

from __future__ import annotations

from aicore_sim.hazards.model import Hazards
from aicore_sim.launch import Run


class UncleanError(AssertionError):
    """A run has errors or warnings among its `hazards`."""

    def __init__(self, message: str, hazards: Hazards) -> None:
        super().__init__(message)
        self.hazards = hazards


def assert_clean(run: Run) -> None:
    """Raise an AssertionError that reports every finding, unless there is none but notes.

    The error carries the findings as `hazards`. A run without checks (`checks=False`) has none to show.
    """
    hazards = run.hazards
    if hazards.clean:
        return
    # Rich takes a while to load: only a failing test waits for it.
    from aicore_sim.report.hazards import as_text, tally

    raise UncleanError(f"{run.kernel} on {run.card.label}: {tally(hazards)}\n{as_text(hazards)}", hazards)
