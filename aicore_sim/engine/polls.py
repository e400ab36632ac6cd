"""Recognises a livelock: a core that reads the same place again and again while nothing else happens anywhere.

A kernel that waits for a value in GM is an ordinary Python loop, which the simulation cannot look into. What it can see is
that the same load gives the same answer very often, and that no core has executed anything else meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aicore_sim.errors import DeadlockError, Wait
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel.program import Entry

if TYPE_CHECKING:
    from aicore_sim.engine.core import Core

MOST_POLLS = 4000
"""Identical loads in a row without any progress that still count as waiting. They take longer than any instruction on chip;
transfers, which can take longer on a busy card, count as progress while they last."""


class Polls:
    """The loads of one core's scalar unit. `rows` counts what the unit did by itself so far, loads and the rest."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.rows = 0
        self._last: tuple[Any, ...] = ()
        self._rows_then = 0
        self._spent = 0
        """Rows that were polling, up to the last load."""
        self._lap = 0
        """Rows from one poll to the next, the last time; 0 while it does not poll."""
        self._progress = -1
        self._count = 0
        self._since = 0
        """Tick of the poll that last saw progress."""

    @property
    def spent(self) -> int:
        """Rows of this unit that were polling. What it does now belongs to the next poll for as long as that took the last time."""
        return self._spent + min(self.rows - self._rows_then, self._lap)

    def loaded(self, entry: Entry, answer: Any) -> None:
        """A load was executed. Raises DeadlockError when it is one poll too many."""
        machine = self.core.machine
        load = (entry.line, entry.bufs, entry.offs, answer)
        if load != self._last:
            self._lap = 0
        else:
            # What this unit did between two polls (cleaning the line, barriers) is part of the polling.
            self._lap = self.rows - self._rows_then
            self._spent += self._lap
            progress = machine.rows_so_far() - sum(core.scalar.polls.spent for core in machine.cores)
            self._count = self._count + 1 if progress == self._progress and not machine.transfers else 0
            self._progress = progress
            if self._count == 0:
                self._since = self.core.scalar.t
            if self._count >= MOST_POLLS and self.core.scalar.t - self._since >= machine.patience:
                self._give_up(entry, answer)
        self._last, self._rows_then = load, self.rows

    def _give_up(self, entry: Entry, answer: Any) -> None:
        machine = self.core.machine
        file, line = machine.session.lines[entry.line]
        what = f"{entry.bufs[0].label}+{entry.offs[0]}" if entry.bufs else entry.op.api if entry.op is not None else "it"
        text = f"{self.core.info.label} S polls {what} ({file.rsplit('/', 1)[-1]}:{line}) and finds {answer} every time"
        since = self._since / TICKS_PER_CYCLE / machine.card.clock_mhz
        api = entry.op.api if entry.op is not None else ""
        wait = Wait(self.core.info.label, "S", api, file, line, since, "poll", text, role="end")
        raise DeadlockError(
            f"livelock: {MOST_POLLS} identical loads while no core does anything else", [text], waits=[wait], file=file,
            line=line, card=machine.card.name,
        )  # fmt: skip
