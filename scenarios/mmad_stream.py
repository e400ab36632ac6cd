"""Mmads one after another on the same tiles: the cube's steps, its latency, and what barriers and unit flags cost.

A (m x k) and B (k x n), half, are loaded into L0A and L0B once; then `count` Mmads run. With `accumulate` they add up in one
tile of L0C; where (m/16)*(n/16) < 10 a card guarantees the sum only with `barrier`. With `unit_flag` all but the last Mmad
have unit flag 2 and the last one 3, and Fixpipe drains the tile block by block behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.layouts import layout_nbytes, to_layout
from aicore_sim.scenario import Job, Measured, param

SHORT_COUNT = 10_000
"""What a shortened run may take: what happens once, at its ends, is then less than 1/100 of it."""


@dataclass(frozen=True)
class Parameters:
    m: int = param(128, "rows of C")
    n: int = param(256, "columns of C")
    k: int = param(64, "depth of one Mmad")
    count: int = param(8, "Mmads")
    accumulate: bool = param(True, "add up in one tile; false: every Mmad starts from 0")
    unit_flag: bool = param(False, "couple the last Mmad and Fixpipe by unit flags (not on 200I)")
    barrier: bool = param(False, "PIPE_ALL after every Mmad")


@asc.jit
def mmads(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, p: asc.ConstExpr, a_count: asc.ConstExpr[int],
          b_count: asc.ConstExpr[int], unit: asc.ConstExpr[int]) -> None:  # fmt: skip
    """a and b hold the fractals in the order of L0A and L0B; `unit` is the unit flag of the last Mmad."""
    a_gm, b_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    b_gm.set_global_buffer(b)
    c_gm.set_global_buffer(c)
    rows, columns = (p.m + 15) // 16 * 16, (p.n + 15) // 16 * 16
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, a_count)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, a_count * 2, b_count)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, a_count)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, b_count)
    l0c = asc.LocalTensor(c.dtype, asc.TPosition.CO1, 0, rows * columns)
    fractals_a = asc.LoadData2DParams(repeat_times=a_count // 256, src_stride=1)
    fractals_b = asc.LoadData2DParams(repeat_times=b_count // 256, src_stride=1)
    asc.load_data(a1, a_gm, fractals_a)
    asc.load_data(b1, b_gm, fractals_b)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.load_data(a2, a1, fractals_a)
    asc.load_data(b2, b1, fractals_b)
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    from_zero = asc.MmadParams(p.m, p.n, p.k, unit_flag=2 if unit else 0, cmatrix_source=False, cmatrix_init_val=True)
    onto = asc.MmadParams(p.m, p.n, p.k, unit_flag=2 if unit else 0, cmatrix_source=False, cmatrix_init_val=False)
    last = asc.MmadParams(p.m, p.n, p.k, unit_flag=unit, cmatrix_source=False,
                          cmatrix_init_val=p.count == 1 or not p.accumulate)  # fmt: skip
    params = from_zero
    for _ in range(p.count - 1):
        asc.mmad(l0c, a2, b2, params)
        if p.accumulate:
            params = onto
        if p.barrier:
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.mmad(l0c, a2, b2, last)
    if p.barrier:
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if not unit:
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(c_gm, l0c, asc.FixpipeParamsV220(p.n, p.m, rows, p.n, unit_flag=unit))


def cube_times(run: Run) -> dict[str, Any]:
    """Cycles from the start of the first Mmad to the end of the last, and ns for one of them."""
    c = run.columns
    rows = np.flatnonzero((c.pipe == int(Pipe.M)) & (c.kind == 0))
    cycles = int(c.end[rows[-1]] - c.start[rows[0]]) / TICKS_PER_CYCLE
    return {"total_cycles": cycles, "per_instruction_ns": cycles / run.card.clock_mhz * 1e3 / len(rows)}


# (SoC, m, n, k, count, accumulate, unit flag, barrier) -> metric, value, unit. The Ascend910_9362 ran at 1.65 GHz.
_PUBLISHED: dict[tuple[Any, ...], tuple[str, float, str]] = {
    ("Ascend910B1", 128, 256, 64, 8, True, True, False): ("total_cycles", 4209.0, "cycles"),
    ("Ascend910B1", 128, 256, 64, 8, True, False, False): ("total_cycles", 4225.0, "cycles"),
    ("Ascend910B1", 128, 128, 64, 8, True, True, False): ("total_cycles", 2172.0, "cycles"),
    ("Ascend910B1", 128, 128, 64, 8, True, False, False): ("total_cycles", 2172.0, "cycles"),
    ("Ascend910_9362", 16, 16, 16, 40000, False, False, False): ("per_instruction_ns", 1.826, "ns"),
    ("Ascend910_9362", 32, 32, 32, 2000, False, False, False): ("per_instruction_ns", 4.85, "ns"),
    ("Ascend910_9362", 48, 48, 48, 2000, False, False, False): ("per_instruction_ns", 16.37, "ns"),
    ("Ascend910_9362", 64, 64, 64, 2000, False, False, False): ("per_instruction_ns", 38.79, "ns"),
    ("Ascend910_9362", 96, 96, 96, 2000, False, False, False): ("per_instruction_ns", 130.89, "ns"),
    ("Ascend910_9362", 128, 128, 128, 2000, False, False, False): ("per_instruction_ns", 310.25, "ns"),
    ("Ascend910_9362", 16, 16, 16, 200, True, False, True): ("per_instruction_ns", 30.918, "ns"),
}


def size(card: Card, p: Parameters) -> int:
    """Mmads, and the barriers between them."""
    return p.count * (2 if p.barrier else 1)


def short(card: Card, p: Parameters) -> Parameters:
    """Fewer Mmads."""
    return replace(p, count=min(p.count, SHORT_COUNT))


def build(card: Card, p: Parameters, data: bool) -> Job:
    """A and B hold -1, 0 and 1, so that the sums are exact.

    Raises ConfigError for sizes below 1 or m = 1 (A is then a vector), UnsupportedError for unit flags on 200I; the
    kernel's calls raise CapacityError for tiles that do not fit L0A, L0B or L0C.
    """
    for name, least in (("m", 2), ("n", 1), ("k", 1), ("count", 1)):
        if getattr(p, name) < least:
            raise ConfigError(f"{name} is too small", field=name, value=getattr(p, name), allowed=f">= {least}")
    if p.unit_flag and card.npu_arch == 3002:
        raise UnsupportedError("this card has no unit flags", field="unit_flag", value=True, card=card.name)
    if p.unit_flag and p.barrier:
        raise ConfigError(
            "a barrier after the last Mmad undoes the unit flag", field="barrier", value=True, allowed="false"
        )
    half, order_a = asc.float16, str(card.model.layout["L0A"])
    counts = tuple(
        layout_nbytes(shape, order, half) // 2 for shape, order in (((p.m, p.k), order_a), ((p.k, p.n), "ZN"))
    )
    constants = (p, *counts, 3 if p.unit_flag else 0)
    found = _PUBLISHED.get((card.soc, *vars(p).values()))
    if found is not None and card.soc == "Ascend910_9362" and card.clock_mhz != 1650:
        found = None
    measured = (Measured(f"metrics.{found[0]}", found[1], found[2]),) if found is not None else ()
    if not data:
        specs = (GmSpec(counts[:1], half), GmSpec(counts[1:], half), GmSpec((p.m, p.n), asc.float32))
        return Job(mmads, (*specs, *constants), 1, dict(vars(p)), metrics=cube_times, measured=measured)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((p.m, p.k), (p.k, p.n)))
    expected = a.astype(np.float32) @ b.astype(np.float32) * (p.count if p.accumulate else 1)
    args = (to_layout(a, order_a, half).view(np.float16), to_layout(b, "ZN", half).view(np.float16),
            np.zeros((p.m, p.n), np.float32))  # fmt: skip
    return Job(mmads, (*args, *constants), 1, dict(vars(p)), metrics=cube_times, measured=measured,
               expect=lambda args: np.array_equal(args[2], expected))  # fmt: skip
