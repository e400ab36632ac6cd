"""A kernel that does nothing: what a launch costs by itself, by the number of blocks and the kind of core.

The task is the launch cost of the card plus the start of a core; a host's own launch takes far longer and is not part of it.
Published: the vector kernel of Ascend910B4 with 2 and 40 vector cores, and empty SIMT kernels of a 950 with 32 cube and 64
vector cores, whose blocks are thread blocks of 2048 threads. This model has no SIMT: those values only stand beside it, and
beyond 64 blocks they count blocks that wait for a core, where the model charges for each core once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, Measured, param


@dataclass(frozen=True)
class Parameters:
    kind: str = param("vector", "cores that start; mix: one cube core with its two vector cores", ("vector", "cube", "mix"))
    blocks: int = param(0, "blocks; 0: one for every core (mix: cube core) of the card")


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def on_vector() -> None:
    pass


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def on_cube() -> None:
    pass


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def on_both() -> None:
    pass


_KERNELS = {"vector": on_vector, "cube": on_cube, "mix": on_both}

# (SoC, kind, blocks) -> us of the task. Those of the 950 are SIMT kernels.
_PUBLISHED = {
    ("Ascend910B4", "vector", 2): 0.67, ("Ascend910B4", "vector", 40): 2.25,
    ("Ascend950PR_9589", "vector", 1): 1.221, ("Ascend950PR_9589", "vector", 32): 1.557,
    ("Ascend950PR_9589", "vector", 64): 2.173, ("Ascend950PR_9589", "vector", 128): 3.141,
    ("Ascend950PR_9589", "vector", 1024): 16.422,
}  # fmt: skip
# Near-empty SIMD and SIMT hybrid kernels of the same source, us by blocks.
_HYBRID = {1: 1.455, 32: 1.589, 64: 2.160, 128: 3.373, 1024: 15.996}


def launch_times(run: Run) -> dict[str, Any]:
    """The task in us, and the cores that were started."""
    return {"launch_us": run.time_us, "cores": len(run.columns.cores)}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Nothing to compare. Raises ConfigError for a negative number of blocks."""
    if p.blocks < 0:
        raise ConfigError("a launch needs blocks", field="blocks", value=p.blocks, allowed=">= 1, or 0: all cores")
    blocks = p.blocks or (card.vectors if p.kind == "vector" and not card.coupled else card.cubes)
    value = _PUBLISHED.get((card.soc, p.kind, blocks))
    notes: tuple[str, ...] = ()
    if card.coupled:
        notes = ("the cores of this card are cube and vector core in one: kind changes nothing",)
    elif value is not None and card.npu_arch == 3510:
        notes = (f"the published value is that of an empty SIMT kernel; a near-empty hybrid kernel took {_HYBRID[blocks]} us",)
    measured = (Measured("metrics.launch_us", value, "us"),) if value is not None else ()
    return Job(_KERNELS[p.kind], (), blocks, {**vars(p), "blocks": blocks}, metrics=launch_times, measured=measured,
               notes=notes)  # fmt: skip
