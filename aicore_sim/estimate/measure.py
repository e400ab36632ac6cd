"""Simulates the kernel of a chain and reads from its trace how long the movement took, and what held it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.engine.columns import Columns, Ints
from aicore_sim.estimate.chains import Chain
from aicore_sim.estimate.kernel import Job, job
from aicore_sim.estimate.plan import Plan
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Options, run_kernel

MOST_PARTS = 8
"""Parts of a block that are simulated; what follows repeats the second half of them, the last ones left out."""
_RUNNING_OUT = 2
"""Last parts of a stream, those that two buffers hold when the first stage has nothing more to do."""
_OPTIONS = Options(data=False, checks=False)


@dataclass(frozen=True)
class Measured:
    """`cycles` from the first issue to the last byte usable, `rate` bytes a cycle of all blocks in a stream (0: there was one
    part each), `bound_by` what takes most of the time."""

    cycles: float
    rate: float
    bound_by: str


@dataclass(frozen=True)
class Trial:
    """A chain with its plan and kernel, ready to be simulated on a card and on cards like it."""

    chain: Chain
    plan: Plan
    dtype: DataType
    warm: bool
    repeats: int
    job: Job


def trial(card: Card, chain: Chain, plan: Plan, dtype: DataType, warm: bool = False, repeats: int = 1) -> Trial:
    """The kernel of `plan`; of more than `MOST_PARTS` parts a block it moves the first ones."""
    return Trial(chain, plan, dtype, warm, repeats, job(card, chain, plan, dtype, MOST_PARTS, warm, repeats))


def measured(card: Card, tried: Trial) -> Measured:
    """One run without data, and what its trace says. Raises what the calls raise on this card."""
    job, plan, repeats = tried.job, tried.plan, tried.repeats
    done = run_kernel(job.kernel, job.args, {}, job.blocks, card, _OPTIONS)
    rows = _Rows(done.columns, tried.chain, tried.warm)
    slowest = rate = 0.0
    for block, parts in enumerate(plan.parts):
        sizes = job.simulated[block]
        first, ends = rows.block(block, len(sizes))
        time = float(ends[-1] - first)
        if len(sizes) > 1:
            # A stream settles into a rhythm; later parts keep it.
            half = len(sizes) // 2
            last = len(sizes) - (_RUNNING_OUT if half > _RUNNING_OUT and _shares_l1(tried.chain) else 0)
            pace = float(ends[last - 1] - ends[half - 1]) / sum(sizes[half:last])
            # The end of a pipeline that drains looks faster than the pace at which it is filled.
            pace = max(pace, rows.busiest(block) / sum(sizes))
            time += pace * (sum(one.part.elements for one in parts) * repeats - sum(sizes))
            rate += tried.dtype.bits / 8 / pace if pace else 0.0
        slowest = max(slowest, time)
    return Measured(slowest / TICKS_PER_CYCLE, rate * TICKS_PER_CYCLE, rows.bound_by())


def _shares_l1(chain: Chain) -> bool:
    """Loads out of L1 slow down while GM fills it: the last ones, when nothing does any more, are out of the rhythm."""
    paths = [step.path for step in chain.steps]
    return "GM-L1" in paths and any(path in paths for path in ("L1-L0A", "L1-L0B"))


class _Rows:
    """The rows of a run that belong to the movement, without those that warmed L2."""

    def __init__(self, columns: Columns, chain: Chain, warm: bool) -> None:
        self.columns = columns
        self.chain = chain
        paths = np.array([op.path for op in columns.ops] or [""])
        work = columns.kind == int(Kind.EXEC)
        path = np.where(work, paths[columns.op], "")
        self.of_step: list[Ints] = []
        for index, step in enumerate(chain.steps):
            rows = np.flatnonzero(path == step.path)
            if index == 0 and warm and step.src == "GM":
                # The same calls twice: the first half of every block warmed L2.
                rows = np.concatenate([mine[mine.size // 2 :] for mine in self._by_block(rows)])
            self.of_step.append(rows)

    def _by_block(self, rows: Ints) -> list[Ints]:
        """Rows of each block, by the cores in order (a kernel of vector cores has two blocks in a group)."""
        cores = self.columns.core[rows]
        return [rows[cores == core] for core in sorted(set(cores.tolist()))]

    def block(self, block: int, parts: int) -> tuple[int, Ints]:
        """(tick of the first issue, ticks at which each part was usable) of one block."""
        first = self._by_block(self.of_step[0])[block]
        last = self._by_block(self.of_step[-1])[block]
        ends = self.columns.end[last]
        per_part = -(-last.size // parts)
        cuts = [ends[at : at + per_part].max() for at in range(0, last.size, per_part)]
        return int(self.columns.issue[first].min()), np.maximum.accumulate(np.array(cuts))

    def busiest(self, block: int) -> int:
        """Ticks that one block's pipes are held by the movement, of the one that is held longest."""
        own = (self._by_block(rows)[block] for rows in self.of_step)
        return max(int((self.columns.free[rows] - self.columns.start[rows]).sum()) for rows in own)

    def bound_by(self) -> str:
        stages = zip(self.chain.steps, self.of_step, strict=True)
        return bound_by(self.columns, [(step.path, step.pipe, rows) for step, rows in stages])


def bound_by(columns: Columns, stages: Sequence[tuple[str, str, Ints]]) -> str:
    """The limit with most of the time of the busiest stage; latency where none is at work half of the time.

    A stage is (path, pipe, rows). On GM paths: port, l2, hbm, "same address", and issue for the rest (heads, the cost of
    many small copies); on chip the rate of the pipe.
    """
    c = columns
    rows = np.concatenate([mine for _, _, mine in stages])
    if _union(c.start[rows], c.free[rows]) * 2 < int(c.end[rows].max() - c.issue[rows].min()):
        return "latency"
    path, pipe, busiest = max(stages, key=lambda stage: int((c.free[stage[2]] - c.start[stage[2]]).sum()))
    total = int((c.free[busiest] - c.start[busiest]).sum())
    limits = c.gm[np.isin(c.gm[:, 0], busiest)][:, 1:5].sum(axis=0) if c.gm.size else np.zeros(4, np.int64)
    shares = dict(zip(("port", "l2", "hbm", "same address"), (int(x) for x in limits), strict=True))
    shares["issue" if "GM" in path else f"{pipe} rate"] = total - int(limits.sum())
    return max(shares, key=lambda name: (shares[name], name))


def _union(starts: Ints, ends: Ints) -> int:
    """Ticks that are covered by at least one interval."""
    order = np.argsort(starts, kind="stable")
    reach = np.maximum.accumulate(ends[order])
    begin = starts[order]
    covered = ends[order] - np.maximum(begin, np.concatenate([[begin[0]], reach[:-1]]))
    return int(np.maximum(covered, 0).sum())

