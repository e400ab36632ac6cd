"""LoadData from L1 into L0A or L0B, again and again: what one instruction costs in a stream, and alone with barriers.

Every instruction moves the same `bytes` (whole fractals of 512 B) of half from the start of L1 to the start of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, Measured, param

FRACTAL = 512
_MOST = 255
"""Largest repeat count or step of one instruction."""


@dataclass(frozen=True)
class Parameters:
    api: str = param("LoadData2DParams", "parameter struct of the call (V2: Atlas 350)",
                     ("LoadData2DParams", "LoadData2DParamsV2", "LoadData3DParamsV2"))  # fmt: skip
    dst: str = param("A2", "target position: A2 is L0A, B2 is L0B", ("A2", "B2"))
    bytes: int = param(8192, "moved by one instruction, whole fractals")
    count: int = param(200, "instructions")
    barrier: bool = param(False, "PIPE_ALL after every instruction")


@asc.jit
def loads(x: asc.GlobalAddress, params: asc.ConstExpr, to_a: asc.ConstExpr[bool], elements: asc.ConstExpr[int],
          count: asc.ConstExpr[int], barrier: asc.ConstExpr[bool]) -> None:  # fmt: skip
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1 if to_a else asc.TPosition.B1, 0, elements)
    l0 = asc.LocalTensor(x.dtype, asc.TPosition.A2 if to_a else asc.TPosition.B2, 0, elements)
    asc.load_data(l1, x_gm, asc.LoadData2DParams(repeat_times=elements // 256, src_stride=1))
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    for _ in range(count):
        asc.load_data(l0, l1, params)
        if barrier:
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def load_times(run: Run) -> dict[str, Any]:
    """ns from the start of the first load to the end of the last, over their number; B/cycle over the same time."""
    c = run.columns
    rows = np.flatnonzero((c.pipe == int(Pipe.MTE1)) & (c.kind == 0))
    cycles = int(c.end[rows[-1]] - c.start[rows[0]]) / TICKS_PER_CYCLE
    nbytes = c.ops[int(c.op[rows[0]])].nbytes
    return {"per_instruction_ns": cycles / run.card.clock_mhz * 1e3 / len(rows),
            "bytes_per_cycle": nbytes * len(rows) / cycles}  # fmt: skip


def _struct(api: str, fractals: int, to_b: bool) -> Any:
    """The parameters that move so many fractals, contiguous on both sides. L0B is transposed whatever the flag says; on
    Atlas 350 the flag also sets the column pitch there (spec api_semantics.md 5.5)."""
    if api == "LoadData2DParams":
        return asc.LoadData2DParams(repeat_times=fractals, src_stride=1)
    if api == "LoadData2DParamsV2":
        return asc.LoadData2DParamsV2(m_step=fractals, k_step=1, src_stride=fractals, dst_stride=fractals)
    return asc.LoadData3DParamsV2(l1_h=1, l1_w=16, channel_size=16 * fractals, k_extension=16 * fractals, m_extension=16,
                                  en_transpose=to_b)  # fmt: skip


# Ascend910_9362 at 1.65 GHz, 512 B, 200 instructions with barriers; the source's own figures disagree with each other.
_PUBLISHED = {"A2": 20.609, "B2": 21.825}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """No expectation: nothing reads L0 back. Raises ConfigError for a length that one instruction cannot move; the API
    raises UnsupportedError for a struct that the card lacks, CapacityError for what L0A or L0B do not hold."""
    if p.bytes < FRACTAL or p.bytes % FRACTAL or p.bytes > _MOST * FRACTAL:
        raise ConfigError("one instruction moves whole fractals", field="bytes", value=p.bytes,
                          allowed=f"multiples of {FRACTAL} up to {_MOST * FRACTAL}")  # fmt: skip
    if p.count < 1:
        raise ConfigError("count must be positive", field="count", value=p.count, allowed=">= 1")
    elements = p.bytes // 2
    constants = (_struct(p.api, p.bytes // FRACTAL, p.dst == "B2"), p.dst == "A2", elements, p.count, p.barrier)
    fits = card.soc == "Ascend910_9362" and card.clock_mhz == 1650
    fits = fits and (p.api, p.bytes, p.count, p.barrier) == ("LoadData2DParams", 512, 200, True)
    measured = (Measured("metrics.per_instruction_ns", _PUBLISHED[p.dst], "ns"),) if fits else ()
    x = np.ones(elements, np.float16) if data else GmSpec((elements,), asc.float16)
    return Job(loads, (x, *constants), 1, dict(vars(p)), metrics=load_times, measured=measured)
