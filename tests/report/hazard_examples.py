"""Findings made by hand, for tests of what is done with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aicore_sim.hazards import fixes
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, POSSIBLE, WARNING, Hazard, Party

KERNEL = """\
import aicore_sim as asc

@asc.jit
def kernel(x, y, n):
    for i in range(n):
        asc.data_copy(y[i], ub, n)
        asc.data_copy(ub, x[i], params)  # reads what the line above wrote
"""
READ_LINE, WRITE_LINE = 7, 6


def stale(file: str, **changes: Any) -> Hazard:
    """An NDDMA read of old bytes on `READ_LINE` of `KERNEL`, with its fix."""
    fix, insert = fixes.invalidate_nddma(file, READ_LINE)
    found = Hazard(
        kind="stale-nddma", severity=ERROR, verdict=OBSERVED,
        at=Party("core1.aiv0", "MTE2", "DataCopy", file, READ_LINE, 5.31, iteration=2),
        other=Party("core0.aiv0", "MTE3", "DataCopy", file, WRITE_LINE, 3.2),
        detail="the line was filled at 1.250 us, before the store", fix=fix, insert=insert, tensor="x", address=1024,
        bytes=128, count=24, ordered=True, visible=False, old="0000803f", new="00000040",
    )  # fmt: skip
    return replace(found, **changes)


def race(file: str = "k.py", line: int = 12, **changes: Any) -> Hazard:
    """A possible race in UB with the fewest facts."""
    at = Party("core0.aiv0", "V", "Add", file, line, 1.0)
    return replace(Hazard("race-raw", WARNING, POSSIBLE, at, "no flag orders V behind MTE2"), **changes)


def needless(file: str = "k.py", line: int = 30) -> Hazard:
    """Advice."""
    at = Party("core0.aiv0", "MTE2", "NdDmaDci", file, line, 2.0)
    return Hazard("needless-dci", NOTE, POSSIBLE, at, "protects no read; costs 120 cycles")
