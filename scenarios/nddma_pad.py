"""NDDMA by example: a 2 x 8 matrix with 3 columns of padding left, 5 right, 1 row above and 1 below becomes 4 x 16.

The worked example of the API page of multi-dimensional data movement; only Atlas 350 has NDDMA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

ROWS, COLS = 2, 8


@dataclass(frozen=True)
class Parameters:
    value: float = param(0.0, "what the padding is filled with")
    invalidate: bool = param(True, "nd_dma_dci before the copy, so that it sees what others wrote to GM")


@asc.jit
def pad(x: asc.GlobalAddress, y: asc.GlobalAddress, params: asc.ConstExpr, invalidate: asc.ConstExpr[bool]) -> None:
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 4 * 16)
    if invalidate:
        asc.nd_dma_dci()
    asc.data_copy(ub, x_gm, params)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y_gm, ub, 4 * 16)


def _show(args: tuple[Any, ...]) -> str:
    return f"x (GM):\n{args[0]}\nUB after the copy:\n{np.array2string(args[1], max_line_width=120)}"


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x = 1..16 in float32. The API raises UnsupportedError on cards without NDDMA."""
    loops = asc.NdDmaLoopInfo(loop_src_stride=(1, COLS), loop_dst_stride=(1, 16), loop_size=(COLS, ROWS),
                              loop_lp_size=(3, 1), loop_rp_size=(5, 1))  # fmt: skip
    constants = (asc.NdDmaParams(loops, p.value), p.invalidate)
    if not data:
        specs = (GmSpec((ROWS, COLS), asc.float32), GmSpec((4, 16), asc.float32))
        return Job(pad, (*specs, *constants), 1, dict(vars(p)))
    x = np.arange(1, ROWS * COLS + 1, dtype=np.float32).reshape(ROWS, COLS)

    def expect(args: tuple[Any, ...]) -> bool:
        return np.array_equal(args[1], np.pad(args[0], ((1, 1), (3, 5)), constant_values=p.value))

    return Job(pad, (x, np.zeros((4, 16), np.float32), *constants), 1, dict(vars(p)), expect=expect, show=_show)
