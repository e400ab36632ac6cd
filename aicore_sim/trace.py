"""The trace of a run and every measure derived from it, as pure functions of `engine.columns.Columns`.

Names follow msprof where the meaning is the same (spec reports.md 4): a pipe's *time* is an instruction in progress,
*ratio* is its share of the core's own run (`core_end - core_start`), *active_bw* is bytes over that time and *bw* bytes
over the core's run. Times over several cores are means over the cores that took part.

The scalar pipe S counts its issue ticks as time too: issuing is what it is there for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aicore_sim.engine.columns import CAUSE_NAMES, IN_PROGRESS, Cause, Columns, Ints
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.trace_rows import BASE_CAUSE, GM_CAUSES, IS_WORK, N_PIPES, Rows, TimelineRows

N_CAUSES = len(Cause)
HIT, MISSED, EVICTED, REQUESTED = 5, 6, 7, 8
"""Columns of `Columns.gm`."""


class Trace:
    """One row per executed queue entry of a run, and what follows from the rows. Immutable; results are cached."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._rows = Rows(columns)

    # -- the run as a whole -------------------------------------------------------------------------------------------

    def us(self, ticks: float) -> float:
        """Ticks as microseconds."""
        return float(ticks) / TICKS_PER_CYCLE / self.columns.clock_mhz

    @property
    def length_us(self) -> float:
        """From the start of the first core to the last effect of the run."""
        return self.us(self.columns.length)

    @property
    def cycles(self) -> float:
        """`length_us` in core clock cycles (a multiple of 1/256)."""
        return self.columns.length / TICKS_PER_CYCLE

    @property
    def core_time_us(self) -> float:
        """Mean over all cores of the time from a core's first tick to its last effect."""
        return self.us(float(self._core_ticks.mean())) if self._core_ticks.size else 0.0

    def kind_time_us(self, kind: str) -> float:
        """As `core_time_us`, over the cores of one kind ("aic" or "aiv")."""
        ticks = self._core_ticks[self.cores_of(kind)]
        return self.us(float(ticks.mean())) if ticks.size else 0.0

    @property
    def instructions(self) -> int:
        """Executed queue entries, flags and barriers included."""
        return len(self.columns)

    @property
    def counters(self) -> dict[str, int]:
        """Cache counters of the run."""
        return dict(self.columns.counters)

    @property
    def core_kinds(self) -> tuple[str, ...]:
        """The kinds of core that took part, in the order "aic", "aiv"."""
        return tuple(sorted({core.kind for core in self.columns.cores}))

    def cores_of(self, kind: str) -> list[int]:
        """Indices of the cores of one kind."""
        return [i for i, core in enumerate(self.columns.cores) if core.kind == kind]

    def pipes_of(self, kind: str) -> list[Pipe]:
        """The pipes that cores of this kind have, in drawing order."""
        return [Pipe(p) for p in sorted({p for core in self.columns.cores if core.kind == kind for p in core.pipes})]

    @cached_property
    def _core_ticks(self) -> Ints:
        return self.columns.core_end - self.columns.core_start

    # -- where the ticks went -----------------------------------------------------------------------------------------

    @cached_property
    def _ticks(self) -> Ints:
        c = self.columns
        lanes = len(c.cores) * N_PIPES
        cell = self._rows.lane.astype(np.int64) * N_CAUSES
        total = np.zeros(lanes * N_CAUSES)

        def add(where: Ints, ticks: Ints) -> None:
            # float64 sums of integers are exact up to 2**53 ticks, far above any run
            np.add(total, np.bincount(where, weights=ticks, minlength=total.size), out=total)

        early, late, inside = self._rows.draining
        add(cell + c.issue_cause, self._rows.issued - self._rows.previous - early)
        add(cell + c.cause, c.start - self._rows.issued - late)
        own = c.free - c.start - self._rows.limited
        if own.size and own.min() < 0:
            raise ValueError(f"row {int(own.argmin())} was limited for longer than it was in progress")
        add(cell + BASE_CAUSE[c.kind], own - inside)
        add(cell + int(Cause.BUSY), early + late + inside)
        add(np.arange(lanes) * N_CAUSES + int(Cause.BUSY), self._rows.tail)
        del own
        flagged = np.flatnonzero(c.unit_flag)
        add(cell[flagged] + int(Cause.UNIT_FLAG), c.unit_flag[flagged])
        for position, cause in enumerate(GM_CAUSES, 1):
            add(cell[c.gm[:, 0]] + int(cause), c.gm[:, position])
        ticks = total.astype(np.int64).reshape(lanes, N_CAUSES)
        outside = c.length - ticks.sum(axis=1)  # before the core's start and behind the pipe's last row
        if outside.size and outside.min() < 0:
            raise ValueError("a pipe is in use behind the end of the run")
        ticks[:, Cause.IDLE] += outside
        out = ticks.reshape(len(c.cores), N_PIPES, N_CAUSES)
        out[:, Pipe.S] = c.scalar
        out.flags.writeable = False
        return out

    def ticks_by_cause(self) -> Ints:
        """[core, pipe, cause] in ticks; for every core and pipe the causes sum to `columns.length`.

        Ticks in which an earlier instruction of the pipe is not complete are busy, whatever the pipe waits for meanwhile.
        Else the gap in front of a row counts under `issue_cause` up to its issue and under `cause` from there; the time
        from the start of the run to the core's start and behind the pipe's last effect is idle.
        """
        return self._ticks

    @cached_property
    def time_ticks(self) -> Ints:
        """[core, pipe]: ticks with an instruction in progress, what msprof calls the pipe's time.

        An instruction is in progress until its effects are complete, so a pipe that waits while a result is on its way
        counts as busy (published times of isolated copies and vector chains contain their latency).
        """
        time: Ints = self._ticks[:, :, list(IN_PROGRESS)].sum(axis=2)
        time[:, Pipe.S] += self._ticks[:, Pipe.S, Cause.ISSUE]
        return time

    @cached_property
    def _work_lanes(self) -> NDArray[np.int32]:
        return self._rows.lane[IS_WORK[self.columns.kind]]

    @cached_property
    def lane_instructions(self) -> Ints:
        """[core, pipe]: executed instructions, without flags and barriers."""
        shape = (len(self.columns.cores), N_PIPES)
        return np.bincount(self._work_lanes, minlength=shape[0] * N_PIPES).reshape(shape)

    @cached_property
    def lane_bytes(self) -> Ints:
        """[core, pipe]: bytes moved."""
        shape = (len(self.columns.cores), N_PIPES)
        work = IS_WORK[self.columns.kind]
        moved = self._rows.of_op("nbytes")[self.columns.op[work]]
        return np.bincount(self._work_lanes, moved, shape[0] * N_PIPES).astype(np.int64).reshape(shape)

    def gbps(self, nbytes: float, ticks: float) -> float:
        """Bytes over ticks in 1e9 B/s; nan for no ticks."""
        return float(nbytes) / (self.us(ticks) * 1e3) if ticks else float("nan")

    def utilisation(self) -> pd.DataFrame:
        """One row per core kind and pipe: core_kind, pipe, time_us, ratio, instructions, bytes, active_bw, bw.

        `time_us` is the mean over the cores of the kind; `instructions` and `bytes` are sums over them; the bandwidths
        are those of one core, GB/s.
        """
        return self._utilisation.copy()

    @cached_property
    def _utilisation(self) -> pd.DataFrame:
        return pd.DataFrame(
            list(self._pipe_rows()),
            columns=["core_kind", "pipe", "time_us", "ratio", "instructions", "bytes", "active_bw", "bw"],
        )

    def _pipe_rows(self) -> Iterator[tuple[Any, ...]]:
        for kind in self.core_kinds:
            cores = self.cores_of(kind)
            run = int(self._core_ticks[cores].sum())
            for pipe in self.pipes_of(kind):
                active = int(self.time_ticks[cores, pipe].sum())
                nbytes = int(self.lane_bytes[cores, pipe].sum())
                yield (
                    kind, pipe.name, self.us(active) / len(cores), active / run if run else 0.0,
                    int(self.lane_instructions[cores, pipe].sum()), nbytes, self.gbps(nbytes, active),
                    self.gbps(nbytes, run),
                )  # fmt: skip

    def pipes(self) -> dict[str, dict[str, dict[str, float]]]:
        """{"aic" | "aiv": {pipe name: {"time_us", "ratio"}}}; see `utilisation`."""
        out: dict[str, dict[str, dict[str, float]]] = {}
        for kind, pipe, time_us, ratio, *_ in self._pipe_rows():
            out.setdefault(kind, {})[pipe] = {"time_us": time_us, "ratio": ratio}
        return out

    def stalls(self, exclude: Sequence[str] = ("busy", "idle")) -> pd.DataFrame:
        """core_kind, pipe, cause, share (of the cores' own run time), the largest first; causes in `exclude` left out.

        With `exclude=()` the shares of one pipe sum to 1: idle is then the idle time inside the core's own run. The
        issue ticks of S are its work (see the module) and are left out together with busy.
        """
        for name in exclude:
            if name not in CAUSE_NAMES:
                raise ParameterError("unknown cause", field="exclude", value=name, allowed=", ".join(CAUSE_NAMES))
        c = self.columns
        rows = []
        for kind in self.core_kinds:
            cores = self.cores_of(kind)
            run = int(self._core_ticks[cores].sum())
            ticks = self._ticks[cores].sum(axis=0)
            ticks[:, Cause.IDLE] -= len(cores) * c.length - run
            for pipe in self.pipes_of(kind):
                for cause in Cause:
                    own_work = pipe == Pipe.S and cause == Cause.ISSUE and "busy" in exclude
                    if CAUSE_NAMES[cause] not in exclude and not own_work and ticks[pipe, cause] > 0:
                        rows.append((kind, pipe.name, CAUSE_NAMES[cause], int(ticks[pipe, cause]) / run))
        rows.sort(key=lambda row: -row[3])
        return pd.DataFrame(rows, columns=["core_kind", "pipe", "cause", "share"])

    def bandwidth(self) -> pd.DataFrame:
        """One row per path that moved bytes ("GM-UB", "L1-L0A" ...), in order of name.

        `bytes` and `instructions` are sums over all cores; `time_us` is the time in progress, summed over the cores;
        `active_bw` is what one core got while moving, `run_bw` what all cores together got over the whole run (GB/s).
        `hit_share` is the share of the requested bytes found in L2 (nan for on-chip paths), `requested_bytes` what the
        movement asked of L2, padding of requests included.
        """
        c = self.columns
        names, of_op = np.unique([*(op.path for op in c.ops), ""], return_inverse=True)
        rows = np.flatnonzero(c.kind == Kind.EXEC)
        path = of_op[c.op[rows]]

        def per_path(where: NDArray[Any], weights: Ints | None = None) -> Ints:
            return np.bincount(where, weights, len(names)).astype(np.int64)

        count = per_path(path)
        nbytes = per_path(path, self._rows.of_op("nbytes")[c.op[rows]])
        active = per_path(path, c.free[rows] - c.start[rows])
        gm_path = of_op[c.op[c.gm[:, 0]]]
        hit, missed, requested = (per_path(gm_path, c.gm[:, column]) for column in (HIT, MISSED, REQUESTED))
        table = [
            (
                str(name), int(count[i]), int(nbytes[i]), self.us(active[i]), self.gbps(nbytes[i], active[i]),
                self.gbps(nbytes[i], c.length), hit[i] / (hit[i] + missed[i]) if hit[i] + missed[i] else float("nan"),
                int(requested[i]),
            )
            for i, name in enumerate(names)
            if name and count[i]
        ]  # fmt: skip
        return pd.DataFrame(
            table,
            columns=["path", "instructions", "bytes", "time_us", "active_bw", "run_bw", "hit_share", "requested_bytes"],
        )

    # -- the rows, for people and pictures ----------------------------------------------------------------------------

    def frame(self, flags: bool = False, limit: int | None = None) -> pd.DataFrame:
        """One row per executed instruction, in the order the pipes took them up; `flags=True` adds flags and barriers.

        Columns: core, core_kind, pipe, api, detail, path, bytes, address (of the GM operand, else 0), issue, start,
        free, end (cycles), wait (cycles the pipe stood before `start`), cause (of most of that wait), limited (cycles
        of [start, free) lost to bandwidth or unit flags), limited_by (most of it), line ("file:line"). Without flag
        rows their waiting is part of the `wait` of the next instruction. `limit` stops after so many rows.
        """
        return self._rows.frame(flags, limit)

    def timeline_rows(
        self, window: tuple[float, float] | None = None, cores: Sequence[int] | None = None
    ) -> TimelineRows:
        """The rows of `cores` (indices; default all) that touch `window` (ticks; default the whole run).

        Only lanes with at least one instruction anywhere in the run are listed.
        """
        chosen = range(len(self.columns.cores)) if cores is None else cores
        lanes = [(core, int(pipe)) for core in chosen for pipe in Pipe if self.lane_instructions[core, pipe]]
        return self._rows.timeline(lanes, window)
