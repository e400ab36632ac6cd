"""LoadData3D (img2col) into L0A or L0B, again and again: the rate by stride, kernel rows and card, beside the documented table.

Each instruction moves a window of `m_extension` rows and `k_extension` columns of the img2col matrix of half: a map of 16
output positions a row, as many rows as the window needs, stride 1 in H, no padding. Its columns run over channel groups of
16, kernel rows, kernel columns and channels, so a small `k_extension` slides over fewer kernel rows than `kernel_h`; the
rate depends on those it slides over. `table_bytes_per_cycle` is the documented rate (spec hardware.md 5), reckoned here from
the table and not from the card. For Atlas 200I nothing is published: its card assumes the table of A2, none is shown.
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
from aicore_sim.scenario import Job, param

C0 = 16
"""Elements of half in a block of 32 B; also the rows of a fractal and, here, the output positions of a row."""
_FRACTALS = 255
"""Most that one LoadData2D brings into L1."""


@dataclass(frozen=True)
class Parameters:
    dst: str = param("A2", "target position: A2 is L0A, B2 is L0B", ("A2", "B2"))
    stride_w: int = param(1, "stride in W")
    kernel_h: int = param(3, "kernel rows")
    kernel_w: int = param(3, "kernel columns")
    channels: int = param(16, "channels of the map, a multiple of 16")
    m_extension: int = param(64, "rows of the window")
    k_extension: int = param(0, "columns of the window, a multiple of 16; 0: all of them")
    count: int = param(200, "instructions")
    barrier: bool = param(False, "PIPE_ALL after every instruction")


@asc.jit
def loads(x: asc.GlobalAddress, fractals: asc.ConstExpr[int], params: asc.ConstExpr, to_a: asc.ConstExpr[bool],
          elements: asc.ConstExpr[int], p: asc.ConstExpr) -> None:  # fmt: skip
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1 if to_a else asc.TPosition.B1, 0, fractals * 256)
    l0 = asc.LocalTensor(x.dtype, asc.TPosition.A2 if to_a else asc.TPosition.B2, 0, elements)
    for first in range(0, fractals, _FRACTALS):
        some = asc.LoadData2DParams(repeat_times=min(_FRACTALS, fractals - first), src_stride=1)
        asc.load_data(l1[first * 256], x_gm[first * 256], some)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    for _ in range(p.count):
        asc.load_data(l0, l1, params)
        if p.barrier:
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def slid_rows(p: Parameters, k_extension: int) -> int:
    """Kernel rows that the columns of the window belong to."""
    return min(p.kernel_h, -(-k_extension // (p.kernel_w * C0)))


def table_rate(npu_arch: int, dst: str, stride: int, rows: int) -> float:
    """B/cycle of the documented table, spec hardware.md 5."""
    more = 2 if dst == "B2" and npu_arch != 3510 else 0
    least = 512 / 18 if more else 32.0
    if stride not in (1, 2, 4, 8):
        return least
    if stride == 1 and rows > 1 and not more and npu_arch != 3510:
        return max(float(512 // (rows + 2)), least)  # the one entry that is rounded down
    return max(512 / (2 * stride + more + (rows if rows > 1 else 0)), least)


def load_times(run: Run, table: float | None) -> dict[str, Any]:
    """Cycles from the start of the first load to the end of the last, over their number; B/cycle over the same time."""
    c = run.columns
    rows = np.flatnonzero((c.pipe == int(Pipe.MTE1)) & (c.kind == 0))
    cycles = int(c.end[rows[-1]] - c.start[rows[0]]) / TICKS_PER_CYCLE
    nbytes = c.ops[int(c.op[rows[0]])].nbytes
    found = {"per_instruction_cycles": cycles / len(rows), "bytes": nbytes, "bytes_per_cycle": nbytes * len(rows) / cycles}
    return found if table is None else {**found, "table_bytes_per_cycle": table}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """No expectation: nothing reads L0 back. Raises ConfigError for sizes below 1 and for channels or columns that are not
    whole blocks; the API raises ParameterError for a window that leaves the matrix, CapacityError for what L0 does not hold."""
    for name in ("stride_w", "kernel_h", "kernel_w", "channels", "m_extension", "count"):
        if getattr(p, name) < 1:
            raise ConfigError(f"{name} must be positive", field=name, value=getattr(p, name), allowed=">= 1")
    k_extension = p.k_extension or p.kernel_h * p.kernel_w * p.channels
    for name, value in (("channels", p.channels), ("k_extension", k_extension)):
        if value < C0 or value % C0:
            raise ConfigError("columns are whole blocks of half", field=name, value=value, allowed=f"multiples of {C0}")
    out_rows = -(-p.m_extension // C0)
    height, width = out_rows - 1 + p.kernel_h, (C0 - 1) * p.stride_w + p.kernel_w
    params = asc.LoadData3DParamsV2(
        l1_h=height, l1_w=width, channel_size=p.channels, k_extension=k_extension, m_extension=p.m_extension,
        stride_w=p.stride_w, filter_w=p.kernel_w, filter_h=p.kernel_h, en_transpose=p.dst == "B2",
    )  # fmt: skip
    size = -(-height * width * p.channels // 256) * 256
    known = card.npu_arch != 3002
    table = table_rate(card.npu_arch, p.dst, p.stride_w, slid_rows(p, k_extension)) if known else None
    constants = (size // 256, params, p.dst == "A2", out_rows * C0 * k_extension, p)
    x = np.ones(size, np.float16) if data else GmSpec((size,), asc.float16)
    return Job(loads, (x, *constants), 1, {**vars(p), "k_extension": k_extension},
               metrics=lambda run: load_times(run, table))  # fmt: skip
