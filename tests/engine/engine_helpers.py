"""What the engine tests share: a card with round numbers, rows of a run in cycles, and a few kernels' first lines.

With `ROUND` every cost is a round number that the tests can add up by hand: the scalar unit issues every 10 cycles, the first
instruction at cycle 10; a flag or barrier takes 1 cycle; a copy from or to GM moves 32 B per cycle after which its effects
need another 100 cycles; vector work runs at 256 B per cycle, at least 4 cycles, and is complete 20 cycles later. L2 and
memory are so fast that they limit nothing, and all cores start at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.engine.columns import Columns
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.launch import Run

TICKS = 256
_GM = ("GM-UB", "UB-GM", "GM-L1", "L0C-GM")
FLAT: dict[str, object] = {
    "hbm.run_cost": 0, "hbm.write_cost": 1, "l2.same_line_cost": 1, "launch.per_block_us": 0,
}  # fmt: skip
"""Memory charges bytes only, written ones as read ones; L2 does not mind who asks; all cores start at once."""
ROUND: dict[str, object] = {
    "launch.core_start_cycles": 0, "scalar.issue": 10, "scalar.local_access": 5,
    "sync.set_flag": 1, "sync.wait_flag": 1, "sync.barrier": 1, "sync.barrier_all": 1,
    "vector.issue_min": 4, "vector.latency_dependent": 20,
    "memory_rate": 10**6, "l2.read_rate": 10**6, "l2.write_rate": 10**6,
    **{f"gm.{path}.port_rate": 32 for path in _GM}, **{f"gm.{path}.latency": 100 for path in _GM},
    **{f"gm.{path}.miss_latency": 0 for path in _GM}, **{f"gm.{path}.issue": 1 for path in _GM},
    **{f"gm.{path}.row": 0 for path in _GM},
    "l1.read_share": 1, **FLAT,
}  # fmt: skip
"""Card numbers of both atlas_a2 and atlas_350."""
CROSS: dict[str, object] = {"sync.cross_core_set": 50, "sync.cross_core_wait": 5, "sync.sync_all": 7}


@dataclass(frozen=True)
class Row:
    """One row of a run, times in cycles."""

    kind: Kind
    api: str
    issue: float
    start: float
    free: float
    end: float
    unit_flag: float

    @property
    def times(self) -> tuple[float, float, float]:
        return self.start, self.free, self.end


def simulate(
    kernel: Any, *args: Any, card: str = "atlas_350", overrides: Mapping[str, object] | None = None, **options: Any
) -> Run:
    """`asc.simulate` on a card with the numbers of `ROUND`, changed by `overrides`."""
    return asc.simulate(kernel, *args, card=card, overrides={**ROUND, **(overrides or {})}, **options)


def rows(run: Run | Columns, pipe: Pipe, core: int = 0) -> list[Row]:
    """All rows of one pipe, in the order in which it took them up."""
    c = run.columns if isinstance(run, Run) else run
    found = np.flatnonzero((c.pipe == int(pipe)) & (c.core == core))
    return [
        Row(Kind(int(c.kind[i])), c.ops[c.op[i]].api if c.op[i] >= 0 else "",
            *(float(column[i]) / TICKS for column in (c.issue, c.start, c.free, c.end, c.unit_flag)))
        for i in found
    ]  # fmt: skip


def work(run: Run | Columns, pipe: Pipe, core: int = 0) -> list[Row]:
    """As `rows`, instructions only."""
    return [row for row in rows(run, pipe, core) if row.kind is Kind.EXEC]


def gm(address: asc.GlobalAddress, first: Any = 0) -> asc.GlobalTensor:
    """A tensor that starts at element `first` of an argument."""
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address + first)
    return tensor


def ub(dtype: asc.DataType, first: int, count: int) -> asc.LocalTensor:
    """`count` elements of UB from element `first` on."""
    return asc.LocalTensor(dtype, asc.TPosition.VECIN, first * dtype.bits // 8, count)


def order(event: asc.HardEvent, event_id: int = 0) -> None:
    """The destination pipe waits for what the source pipe did so far."""
    asc.set_flag(event, event_id)
    asc.wait_flag(event, event_id)
