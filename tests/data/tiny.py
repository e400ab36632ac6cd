"""One copy through UB that can be made to fail in every way that the command line reports.

Only for tests of the command line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import UnsupportedError
from aicore_sim.launch import GmSpec
from aicore_sim.scenario import Job, Measured, param


@dataclass(frozen=True)
class Parameters:
    n: int = param(64, "elements")
    fault: str = param("none", "what goes wrong", ("none", "wrong", "deadlock", "bounds", "align", "a2_only", "bug", "talk"))
    scale: float = param(1.0, "unused")
    swap: bool = param(False, "unused")
    dims: tuple[int, ...] = param((1, 2), "unused")


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def copy(x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int], fault: asc.ConstExpr[str]):  # type: ignore[no-untyped-def]
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 4 if fault == "align" else 0, n)
    asc.data_copy(ub, x_gm, 2**18 if fault == "bounds" else n)
    if fault != "deadlock":
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y_gm, ub, n)


def build(card: Card, p: Parameters, data: bool) -> Job:
    if p.fault == "a2_only" and card.name != "atlas_a2":
        raise UnsupportedError("only made for atlas_a2", field="card", value=card.name, card=card.name)
    if p.fault == "bug":
        raise ZeroDivisionError("a fault of the scenario file")
    if p.fault == "talk":
        print("words from the scenario")
    measured = (
        Measured("pipes.aiv.MTE2.time_us", 0.5, "us"),
        Measured("metrics.twice_n", 2.0 * p.n, "elements"),
        Measured("pipes.aic.MTE2.time_us", 1.0, "us"),
    )
    metrics = lambda run: {"twice_n": 2 * p.n, "undefined": float("nan")}  # noqa: E731
    if not data:
        spec = GmSpec((p.n,), asc.float32)
        return Job(copy, (spec, spec, p.n, p.fault), 1, asdict(p), metrics=metrics, measured=measured)
    x = np.arange(1, p.n + 1, dtype=np.float32)
    return Job(copy, (x, np.zeros_like(x), p.n, p.fault), 1, asdict(p), metrics=metrics, measured=measured,
               expect=lambda args: p.fault != "wrong" and np.array_equal(args[0], args[1]),
               show=lambda args: f"last element {args[1][-1]:g}", notes=("a note of the scenario",))  # fmt: skip
