"""What the tests of the pitfalls ask of a run that went wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, Hazard
from aicore_sim.launch import Run
from tests.hazards.marked import name

Report = set[tuple[str, str, str, str]]
Made = tuple[Run, Any]
"""A run and what it left in its output."""


def zeros(count: int) -> Any:
    return np.zeros(count, np.float32)


def reported(run: Run) -> Report:
    """All that makes a run unclean: (kind, severity, line that suffers, line of the other or "")."""
    return {(h.kind, h.severity, name(h.at), name(h.other) if h.other else "") for h in run.hazards if h.severity != NOTE}


def the_fault(run: Run, kind: str, at: str, other: str, severity: str = ERROR) -> Hazard:
    """The only finding of a run."""
    assert reported(run) == {(kind, severity, at, other)}
    (hazard,) = (h for h in run.hazards if h.severity != NOTE)
    return hazard


def pipes(hazard: Hazard) -> tuple[str, str]:
    """Of the one that suffers and of the other."""
    assert hazard.other is not None
    return hazard.at.pipe, hazard.other.pipe


def is_observed(hazard: Hazard) -> None:
    """Wrong data were delivered: nothing ordered the two."""
    assert (hazard.verdict, hazard.ordered) == (OBSERVED, False)
