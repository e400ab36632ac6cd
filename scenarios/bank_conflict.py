"""One vector instruction again and again on chosen UB addresses: what conflicts in the banks of UB cost.

`case` names a published sample: s1 ... s8 are float Adds of 64 repeats (A2, A3), c1 ... c6 the Adds and c11 ... c14 the
one-source copies (Adds of 0) of Atlas 350. It sets addresses, repeats and strides; without it they are the parameters'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, Measured, param

LANES = 64
"""Floats of one repeat."""
BLOCK = 8
"""Floats of one block of 32 B."""
COUNTER_NS = 20
"""Tick of the counter that the samples of A2 print (50 MHz)."""

_COPY: dict[str, Any] = {"op": "adds", "src0": 0, "dst": 0x4100, "repeats": 8}
_CASES: dict[str, dict[str, Any]] = {
    "s1": {"src0": 0, "src1": 0x10100, "dst": 0x20000}, "s2": {"src0": 0, "src1": 0x4000, "dst": 0x10000},
    "s3": {"src0": 0, "src1": 0x10000, "dst": 0x14100}, "s4": {"src0": 0, "src1": 0x10100, "dst": 0x4000},
    "s5": {"src0": 0, "src1": 0x10100, "dst": 0x4020}, "s6": {"src0": 0, "src1": 0x10100, "dst": 0x10100},
    "s7": {"src0": 0, "src1": 0x10100, "dst": 0x10100, "src0_blk_stride": 0, "src0_rep_stride": 1},
    "s8": {"src0": 0, "src1": 0x10100, "dst": 0x10100, "src0_blk_stride": 0},
    "c1": {"src0": 0, "src1": 0x5000, "dst": 0xA100}, "c2": {"src0": 0, "src1": 0x5100, "dst": 0xA000},
    "c3": {"src0": 0, "src1": 0x5100, "dst": 0}, "c4": {"src0": 0, "src1": 0x5100, "dst": 0xA100},
    "c5": {"src0": 0, "src1": 0x5100, "dst": 0x5100}, "c6": {"src0": 0, "src1": 0x5000, "dst": 0xA000},
    "c11": _COPY, "c13": _COPY | {"src0_blk_stride": 0}, "c14": _COPY | {"src0_rep_stride": 0},
    "c12": _COPY | {"src0_blk_stride": 8, "src0_rep_stride": 1, "dst_blk_stride": 8, "dst_rep_stride": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Parameters:
    case: str = param("", "a published sample", ("", *_CASES))
    op: str = param("add", "add has two sources, adds one", ("add", "adds"))
    src0: int = param(0, "UB byte address")
    src1: int = param(0x10100, "UB byte address")
    dst: int = param(0x20000, "UB byte address")
    repeats: int = param(64, "repeats of 256 B in one instruction")
    count: int = param(1000, "instructions")
    dst_blk_stride: int = param(1, "32 B between the blocks of a repeat")
    src0_blk_stride: int = param(1, "32 B between the blocks of a repeat")
    src1_blk_stride: int = param(1, "32 B between the blocks of a repeat")
    dst_rep_stride: int = param(8, "32 B between repeats")
    src0_rep_stride: int = param(8, "32 B between repeats")
    src1_rep_stride: int = param(8, "32 B between repeats")

    @property
    def operands(self) -> dict[str, tuple[int, int, int]]:
        """(address in bytes, block stride, repeat stride) of the operands that take part."""
        names = ("dst", "src0", "src1") if self.op == "add" else ("dst", "src0")
        return {n: (getattr(self, n), getattr(self, f"{n}_blk_stride"), getattr(self, f"{n}_rep_stride")) for n in names}


@asc.jit
def vectors(x: asc.GlobalAddress, z: asc.GlobalAddress, p: asc.ConstExpr, size: asc.ConstExpr[int]) -> None:
    """UB as a whole comes from x and goes to z, so that any operands may lie over each other."""
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    whole = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, size)
    dst, src0, src1 = (asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, at, size - at // 4) for at in (p.dst, p.src0, p.src1))
    asc.data_copy(whole, x_gm, size)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    two = asc.BinaryRepeatParams(p.dst_blk_stride, p.src0_blk_stride, p.src1_blk_stride, p.dst_rep_stride, p.src0_rep_stride,
                                 p.src1_rep_stride)  # fmt: skip
    one = asc.UnaryRepeatParams(p.dst_blk_stride, p.src0_blk_stride, p.dst_rep_stride, p.src0_rep_stride)
    for _ in range(p.count):
        if p.op == "add":
            asc.add(dst, src0, src1, LANES, p.repeats, two)
        else:
            asc.adds(dst, src0, 0.0, LANES, p.repeats, one)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(z_gm, whole, size)


def vector_times(run: Run) -> dict[str, Any]:
    """Cycles from the start of the first instruction to the end of the last, over their number; the same for a thousand
    in ns and in the ticks of 20 ns of the published samples; and what part of it was lost to banks."""
    c = run.columns
    rows = np.flatnonzero((c.pipe == int(Pipe.V)) & (c.kind == 0))
    cycles = int(c.end[rows[-1]] - c.start[rows[0]]) / TICKS_PER_CYCLE
    each = cycles / len(rows)
    ns = each / run.card.clock_mhz * 1e6
    return {"per_instruction_cycles": each, "ns_for_1000": ns, "ticks_for_1000": ns / COUNTER_NS,
            "conflict_share": run.trace.counters.get("ub_bank_conflict_cycles", 0) / cycles}  # fmt: skip


def elements(place: tuple[int, int, int], repeats: int) -> NDArray[np.int64]:
    """[repeat, lane]: numbers of the floats of UB that an operand takes."""
    address, block, repeat = place
    lane = np.arange(LANES)
    return address // 4 + np.arange(repeats)[:, None] * repeat * BLOCK + lane // BLOCK * block * BLOCK + lane % BLOCK


def after(ub: NDArray[np.float32], p: Parameters) -> NDArray[np.float32]:
    """UB after all instructions, by numpy, repeat after repeat."""
    ub = ub.copy()
    places = {name: elements(place, p.repeats) for name, place in p.operands.items()}
    for _ in range(p.count):
        for r in range(p.repeats):
            ub[places["dst"][r]] = ub[places["src0"][r]] + (ub[places["src1"][r]] if p.op == "add" else np.float32(0))
    return ub


_TICKS = {"s1": 2390, "s2": 4167, "s3": 4167, "s4": 2389, "s5": 3751, "s6": 2390, "s7": 3584, "s8": 2389}
_NS = {"c1": 1332802, "c2": 1470520, "c3": 1470753, "c4": 1440590, "c5": 1440708, "c6": 1420560, "c11": 443135,
       "c12": 1510497, "c13": 440911, "c14": 440847}  # fmt: skip
_RATIOS = ("the published counter of these samples is several times what vector functions take in published kernels: "
           "compare ratios, and only among c1 ... c6 or among c11 ... c14")  # fmt: skip


def _measured(card: Card, p: Parameters) -> tuple[tuple[Measured, ...], tuple[str, ...]]:
    if p.count != 1000:
        return (), ()
    if card.soc == "Ascend910B1" and p.case in _TICKS:
        return (Measured("metrics.ticks_for_1000", _TICKS[p.case], "ticks of 20 ns"),), ()
    if card.soc == "Ascend950PR_9589" and p.case in _NS:
        return (Measured("metrics.ns_for_1000", _NS[p.case], "ns"),), (_RATIOS,)
    return (), ()


def _check(card: Card, p: Parameters) -> int:
    """Floats of UB. Raises ConfigError for counts below 1, addresses that are no block, operands that leave UB."""
    for name, most in (("repeats", 255), ("count", None)):
        if getattr(p, name) < 1 or (most is not None and getattr(p, name) > most):
            raise ConfigError(f"{name} is out of range", field=name, value=getattr(p, name),
                              allowed=f"1..{most}" if most else ">= 1")  # fmt: skip
    size = int(card.value("buffers.UB.size"))
    for name, place in p.operands.items():
        last = int(elements(place, p.repeats).max()) * 4 + 4
        if place[0] < 0 or place[0] % 32 or last > size:
            raise ConfigError(f"{name} is no block of UB, or ends behind it (its last byte would be {last - 1})", field=name,
                              value=place[0], allowed=f"multiples of 32, up to {size} B", card=card.name)  # fmt: skip
    return size // 4


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small whole numbers, so that sums are exact while they stay below 2**24.

    Raises ConfigError as `_check`; the calls raise ParameterError for strides that their fields do not hold.
    """
    chosen: Mapping[str, Any] = _CASES.get(p.case, {})
    p = replace(p, **chosen)
    size = _check(card, p)
    if p.op == "adds":
        p = replace(p, src1=p.src0)
    measured, notes = _measured(card, p)
    if not data:
        spec = GmSpec((size,), asc.float32)
        return Job(vectors, (spec, spec, p, size), 1, vars(p), metrics=vector_times, measured=measured, notes=notes)
    ub = np.random.default_rng(0).integers(0, 4, size).astype(np.float32)
    return Job(vectors, (ub, np.zeros(size, np.float32), p, size), 1, vars(p), metrics=vector_times, measured=measured,
               notes=notes, expect=lambda args: np.array_equal(args[1], after(ub, p)))  # fmt: skip
