"""Run a scenario or a small kernel of a test, and read times out of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import load_card
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import Job, load_scenario

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
TICKS = 256

EVEN: dict[str, Any] = {
    "scalar.issue": 3, "sync.set_flag": 0, "sync.wait_flag": 0, "sync.barrier": 0, "sync.barrier_all": 4,
    "launch.core_start_cycles": 50, "gm.GM-UB.port_rate": 128, "gm.GM-UB.issue": 20, "gm.GM-UB.latency": 200,
    "gm.GM-UB.miss_latency": 0, "gm.GM-UB.row": 0, "vector.latency_dependent": 0, "vector.issue_min": 1,
    "launch.per_block_us": 0, "hbm.run_cost": 0, "hbm.write_cost": 1, "l2.same_line_cost": 1,
}  # fmt: skip
"""Card numbers that are easy to reckon with; what they do not name (L2, memory) is far from limiting one core."""


def scenario(name: str, card: str = "atlas_350", data: bool = True, overrides: Mapping[str, Any] | None = None,
             **parameters: Any) -> tuple[Run, Job]:  # fmt: skip
    """Build and run a scenario; parameters as in its dataclass."""
    loaded = load_scenario(name)
    return loaded.run(load_card(card, overrides), loaded.parameters(**parameters), Options(data=data))


def rows(run: Run, pipe: Pipe, core: int = 0, api: str = "") -> NDArray[Any]:
    """Indices of the instructions of one pipe of one core, in order; `api` picks one function."""
    c = run.columns
    found = np.flatnonzero((c.core == core) & (c.pipe == int(pipe)) & (c.kind == 0))
    return found if not api else np.array([i for i in found if c.ops[int(c.op[i])].api == api], np.int64)


def cycles(ticks: Any) -> Any:
    """Ticks as cycles."""
    return np.asarray(ticks) / TICKS
