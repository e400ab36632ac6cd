"""The rows of a run in lanes: what each waited for, the table for people and the arrays for pictures.

A lane is one pipe of one core. `trace.Trace` sums over these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aicore_sim.engine.columns import CAUSE_NAMES, Cause, Columns, Ints
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.enums import HardEvent
from aicore_sim.kernel.program import Kind

N_PIPES = len(Pipe)
GM_CAUSES = (Cause.BW_PORT, Cause.BW_L2, Cause.BW_HBM, Cause.BW_SAME_ADDRESS)
"""Causes in the order of columns 1..4 of `Columns.gm`."""

_FLAG_KINDS = (
    Kind.SET_FLAG, Kind.WAIT_FLAG, Kind.CROSS_SET, Kind.CROSS_WAIT, Kind.MUTEX_LOCK, Kind.MUTEX_UNLOCK, Kind.SYNC_ALL,
)  # fmt: skip
_BARRIER_KINDS = (Kind.BARRIER, Kind.BARRIER_ALL)
_WAITING = (int(Cause.FLAG), int(Cause.BARRIER))
_EVENTS = {event.value: event.name for event in HardEvent}

Bools = NDArray[np.bool_]
Small = NDArray[np.int8]


def _by_kind(kinds: Sequence[Kind], value: int, rest: int) -> Ints:
    """An array indexed by Kind: `value` for `kinds`, else `rest`."""
    table = np.full(max(Kind) + 1, rest, np.int64)
    table[list(kinds)] = value
    return table


BASE_CAUSE = _by_kind(_FLAG_KINDS, Cause.FLAG, Cause.BUSY)
"""By Kind: what the rest of [start, free) counts as. Synchronisation moves nothing, so its slots are never busy."""
BASE_CAUSE[list(_BARRIER_KINDS)] = Cause.BARRIER
IS_WORK = _by_kind((Kind.EXEC, Kind.SCALAR), 1, 0) > 0
"""By Kind: True for instructions, False for flags, barriers and modes."""


@dataclass(frozen=True, slots=True)
class TimelineRows:
    """What a picture needs, sorted by lane and then by time. All times are ticks.

    `lanes` lists (index of the core, Pipe value); lane i owns the rows `first[i]:first[i + 1]`. `limited` are the ticks
    of [start, free) lost to bandwidth and unit flags; `work` is False for flags and barriers. [wait_from, wait_to) is
    the time the row waited for a flag or a barrier (for a flag row its own time included); empty where the two agree.
    """

    lanes: tuple[tuple[int, int], ...]
    first: Ints
    start: Ints
    free: Ints
    limited: Ints
    wait_from: Ints
    wait_to: Ints
    op: Ints
    work: Bools


class Rows:
    """The rows of `columns`, grouped into lanes. Arrays are in row order unless said otherwise; all are cached.

    Raises ValueError at first use if rows of one pipe overlap: that is a fault of whoever wrote the columns.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.n_lanes = len(columns.cores) * N_PIPES

    @cached_property
    def lane(self) -> NDArray[np.int32]:
        """core * N_PIPES + pipe."""
        return (self.columns.core * N_PIPES + self.columns.pipe).astype(np.int32)

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """Rows grouped by lane; inside a lane in row order, which is the order of time."""
        keys = self.lane.astype(np.int16) if self.n_lanes < 2**15 else self.lane  # 16 bits sort in linear time
        return np.argsort(keys, kind="stable").astype(np.int32)

    @cached_property
    def lane_ends(self) -> Ints:
        """Position in `order` behind the last row of each lane, over all lanes."""
        return np.cumsum(np.bincount(self.lane, minlength=self.n_lanes))

    @cached_property
    def previous(self) -> Ints:
        """The tick from which the lane was free for the row: `free` of the row before, else the core's start."""
        c, order = self.columns, self.order
        before = np.empty(len(c), np.int64)
        before[1:] = c.free[order][:-1]
        starts = np.concatenate(([0], self.lane_ends[:-1]))
        used = starts < self.lane_ends
        before[starts[used]] = np.repeat(c.core_start, N_PIPES)[used]
        previous = np.empty_like(before)
        previous[order] = before
        bad = ((previous > c.start) & (c.pipe != Pipe.S)) | (c.start > c.free)
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(f"row {row} overlaps the row before it on its pipe, or ends before it starts")
        # the scalar unit may report calls that contain others
        return np.minimum(previous, c.start)

    @cached_property
    def issued(self) -> Ints:
        """Where the gap before the row changes from `issue_cause` to `cause`."""
        return np.minimum(np.maximum(self.columns.issue, self.previous), self.columns.start)

    @cached_property
    def _done(self) -> tuple[Ints, Ints]:
        """(per row: tick by which everything the lane executed before it is complete; per lane: the same for all of it)."""
        c, order = self.columns, self.order
        ends = np.where(IS_WORK[c.kind[order]], c.end[order], 0)
        lane = self.lane[order].astype(np.int64)
        # Lanes one above the other, so that one running maximum serves them all.
        step = np.int64(c.length + 1)
        running = np.maximum.accumulate(ends + lane * step) if ends.size else ends
        before = np.empty_like(running)
        before[1:] = running[:-1]
        starts = np.concatenate(([0], self.lane_ends[:-1]))
        used = starts < self.lane_ends
        before[starts[used]] = 0
        done = np.empty_like(running)
        done[order] = before - lane * step
        last = np.zeros(self.n_lanes, np.int64)
        last[used] = running[self.lane_ends[used] - 1] - np.flatnonzero(used) * step
        return done, last

    @cached_property
    def draining(self) -> tuple[Ints, Ints, Ints]:
        """Ticks of each row's gap before its issue, of the rest of the gap, and of a flag or barrier row itself, in which an
        earlier instruction of the lane is not complete: the pipe has it in progress, whatever it waits for."""
        c = self.columns
        done = np.where(c.pipe == Pipe.S, 0, self._done[0])

        def within(first: Ints, last: Ints) -> Ints:
            ticks: Ints = np.clip(done - first, 0, last - first)
            return ticks

        idle = np.where(IS_WORK[c.kind], c.start, c.free)
        return within(self.previous, self.issued), within(self.issued, c.start), within(c.start, idle)

    @cached_property
    def tail(self) -> Ints:
        """Per lane: ticks from its last `free` to the completion of all it executed."""
        c, order = self.columns, self.order
        free = np.zeros(self.n_lanes, np.int64)
        used = np.diff(self.lane_ends, prepend=0) > 0
        free[used] = c.free[order][self.lane_ends[used] - 1]
        late: Ints = np.maximum(self._done[1] - free, 0)
        late[Pipe.S :: N_PIPES] = 0
        return late

    @cached_property
    def limited(self) -> Ints:
        """Ticks of [start, free) lost to bandwidth and unit flags."""
        limited = self.columns.unit_flag.copy()
        limited[self.columns.gm[:, 0]] += self.columns.gm[:, 1:5].sum(axis=1)
        return limited

    def of_op(self, attribute: str) -> NDArray[Any]:
        """A number of every Op, indexed by `Columns.op`; the last element, 0, stands for rows without an Op."""
        return np.array([*(getattr(op, attribute) for op in self.columns.ops), 0], np.int64)

    # -- waits --------------------------------------------------------------------------------------------------------

    def waits(self, flags: bool) -> tuple[Ints, Small]:
        """Ticks waited in front of each row, and 1 + the cause of most of them (0: none).

        Unless `flags`, what flag and barrier rows waited is added to the next instruction of their lane.
        """
        c, n = self.columns, len(self.columns)
        owner = np.arange(n) if flags else self._next_work()
        early, late, inside = self.issued - self.previous, c.start - self.issued, c.free - c.start
        base = BASE_CAUSE[c.kind]
        hidden = (base != Cause.BUSY) & (not flags)
        total, most, which = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1, np.int8)
        for cause in Cause:
            ticks = early * (c.issue_cause == cause) + late * (c.cause == cause) + inside * (hidden & (base == cause))
            used = np.flatnonzero(ticks)
            if used.size:
                share = np.bincount(owner[used], ticks[used], n + 1)
                which[share > most] = cause + 1
                np.maximum(most, share, out=most)
                total += share
        return total[:n].astype(np.int64), which[:n]

    def _next_work(self) -> Ints:
        """The first instruction of the lane at or behind each row; len(columns) where there is none."""
        order, n = self.order, len(self.columns)
        position = np.where(IS_WORK[self.columns.kind[order]], np.arange(n), n)
        following = np.minimum.accumulate(position[::-1])[::-1]
        ends = np.repeat(self.lane_ends, np.diff(self.lane_ends, prepend=0))
        owner = np.empty(n, np.int64)
        owner[order] = np.where(following < ends, np.append(order, n)[following], n)
        return owner

    def limited_by(self) -> Small:
        """1 + the cause of most of the `limited` ticks of each row, 0 where there are none."""
        c = self.columns
        which = np.where(c.unit_flag > 0, int(Cause.UNIT_FLAG) + 1, 0).astype(np.int8)
        rows, ticks = c.gm[:, 0], c.gm[:, 1:5]
        if rows.size:
            largest = ticks.max(axis=1)
            rules = (largest > 0) & (largest >= c.unit_flag[rows])
            which[rows[rules]] = np.array(GM_CAUSES, np.int8)[ticks.argmax(axis=1)[rules]] + 1
        return which

    # -- for people ---------------------------------------------------------------------------------------------------

    def frame(self, flags: bool = False, limit: int | None = None) -> pd.DataFrame:
        """See `trace.Trace.frame`."""
        c = self.columns
        rows = np.arange(len(c)) if flags else np.flatnonzero(IS_WORK[c.kind])
        rows = rows[:limit]
        wait, cause = self.waits(flags)
        op = c.op[rows]
        causes = ["", *CAUSE_NAMES]
        names = [core.label for core in c.cores]

        def cycles(ticks: Ints) -> NDArray[np.float64]:
            return ticks[rows] / TICKS_PER_CYCLE

        return pd.DataFrame(
            {
                "core": _named(c.core[rows], names),
                "core_kind": _named(c.core[rows], [core.kind for core in c.cores]),
                "pipe": _named(c.pipe[rows], [pipe.name for pipe in Pipe]),
                "api": self._label("api", rows),
                "detail": self._label("detail", rows),
                "path": _named(op, [*(o.path for o in c.ops), ""]),
                "bytes": self.of_op("nbytes")[op],
                "address": np.where(self.of_op("gm_operand")[op] >= 0, c.arg[rows], 0) * (op >= 0),
                "issue": cycles(c.issue),
                "start": cycles(c.start),
                "free": cycles(c.free),
                "end": cycles(c.end),
                "wait": cycles(wait),
                "cause": _named(cause[rows], causes),
                "limited": cycles(self.limited),
                "limited_by": _named(self.limited_by()[rows], causes),
                "line": _named(c.line[rows], [*(f"{file}:{line}" for file, line in c.lines), ""]),
            }
        )

    def _label(self, attribute: str, rows: NDArray[Any]) -> Any:
        """`attribute` ("api" or "detail") of the Ops of `rows`; rows without an Op are named by their kind and id."""
        c = self.columns
        names = [getattr(op, attribute) for op in c.ops]
        code = c.op[rows].copy()
        other = np.flatnonzero(code < 0)
        if other.size:
            pairs = np.stack((c.kind[rows[other]], c.arg[rows[other]]), axis=1)
            distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
            code[other] = len(names) + inverse.reshape(-1)
            name = _flag_detail if attribute == "detail" else _kind_name
            names += [name(Kind(int(kind)), int(arg)) for kind, arg in distinct]
        return _named(code, names)

    # -- for pictures -------------------------------------------------------------------------------------------------

    def timeline(self, lanes: Sequence[tuple[int, int]], window: tuple[float, float] | None = None) -> TimelineRows:
        """The rows of `lanes`, (core index, Pipe value) each, that touch `window` (ticks; default the whole run)."""
        c, order, ends = self.columns, self.order, self.lane_ends
        first, parts = [0], [np.zeros(0, np.int32)]
        for core, pipe in lanes:
            lane = core * N_PIPES + pipe
            rows = order[(ends[lane - 1] if lane else 0) : ends[lane]]
            if window is not None:
                rows = rows[(c.free[rows] > window[0]) & (self.previous[rows] < window[1])]
            parts.append(rows)
            first.append(first[-1] + rows.size)
        rows = np.concatenate(parts)
        early, late = np.isin(c.issue_cause[rows], _WAITING), np.isin(c.cause[rows], _WAITING)
        own = np.isin(BASE_CAUSE[c.kind[rows]], _WAITING)
        start, free, issued = c.start[rows], c.free[rows], self.issued[rows]
        wait_to = np.where(own, free, np.where(late, start, np.where(early, issued, start)))
        wait_from = np.where(early, self.previous[rows], np.where(late, issued, np.where(own, start, wait_to)))
        return TimelineRows(
            tuple(lanes), np.array(first), start, free, self.limited[rows], wait_from, wait_to, c.op[rows],
            IS_WORK[c.kind[rows]],
        )  # fmt: skip


def _named(codes: NDArray[Any], names: Sequence[str]) -> Any:
    """A categorical column; equal names share one category."""
    distinct = {name: code for code, name in enumerate(dict.fromkeys(names))}
    recoded = np.array([*(distinct[name] for name in names)] or [0], np.int64)
    return pd.Categorical.from_codes(recoded[codes], dtype=pd.CategoricalDtype(list(distinct)))


def _kind_name(kind: Kind, _arg: int) -> str:
    """SET_FLAG -> "SetFlag"."""
    return kind.name.title().replace("_", "")


def _flag_detail(kind: Kind, arg: int) -> str:
    """Which flag a synchronisation row is about (`Columns.arg`)."""
    if kind in (Kind.SET_FLAG, Kind.WAIT_FLAG):
        return f"{_EVENTS.get(arg // 64, arg // 64)} id={arg % 64}"
    if kind in (Kind.CROSS_SET, Kind.CROSS_WAIT):
        return f"flag={arg}"
    return f"id={arg}" if kind in (Kind.MUTEX_LOCK, Kind.MUTEX_UNLOCK) else ""
