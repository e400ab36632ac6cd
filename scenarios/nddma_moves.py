"""NDDMA in two loops: pad, nearest-value pad, transpose, broadcast, slice - one instruction each, checked against numpy.

The four figures of the API page, on a small matrix of counting numbers; the page's own numbers are the scenario nddma_pad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

LEFT, RIGHT, ABOVE, BELOW = 3, 5, 1, 2
"""Padding of the two pads, in elements."""


@dataclass(frozen=True)
class Parameters:
    move: str = param("transpose", "what the copy does", ("pad", "nearest", "transpose", "broadcast", "slice"))
    rows: int = param(4, "rows of the source (broadcast: copies of its first row)")
    cols: int = param(8, "columns of the source")
    value: float = param(0.0, "what pad fills with")


@asc.jit
def move(x: asc.GlobalAddress, y: asc.GlobalAddress, start: asc.ConstExpr[int], params: asc.ConstExpr,
         config: asc.ConstExpr, elements: asc.ConstExpr[int]) -> None:  # fmt: skip
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, elements)
    asc.nd_dma_dci()
    asc.data_copy(ub, x_gm[start], params, config=config)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy_pad(y_gm, ub, asc.DataCopyExtParams(1, elements * x.dtype.sizeof(), 0, 0))


def _plan(p: Parameters) -> tuple[asc.NdDmaLoopInfo, int, tuple[int, int]]:
    """Loops (the innermost first), first source element, and shape of the result."""
    rows, cols = p.rows, p.cols
    if p.move in ("pad", "nearest"):
        wide = LEFT + cols + RIGHT
        loops = asc.NdDmaLoopInfo((1, cols), (1, wide), (cols, rows), (LEFT, ABOVE), (RIGHT, BELOW))
        return loops, 0, (ABOVE + rows + BELOW, wide)
    if p.move == "transpose":
        return asc.NdDmaLoopInfo((1, cols), (rows, 1), (cols, rows)), 0, (cols, rows)
    if p.move == "broadcast":
        return asc.NdDmaLoopInfo((1, 0), (1, cols), (cols, rows)), 0, (rows, cols)
    high, wide = rows // 2, cols // 2
    return asc.NdDmaLoopInfo((1, cols), (1, wide), (wide, high)), cols + 1, (high, wide)


def _expected(x: Any, p: Parameters) -> Any:
    pads = ((ABOVE, BELOW), (LEFT, RIGHT))
    if p.move == "pad":
        return np.pad(x, pads, constant_values=p.value)
    if p.move == "nearest":
        return np.pad(x, pads, mode="edge")
    if p.move == "transpose":
        return x.T
    if p.move == "broadcast":
        return np.tile(x[:1], (p.rows, 1))
    return x[1 : 1 + p.rows // 2, 1 : 1 + p.cols // 2]


def _show(args: tuple[Any, ...]) -> str:
    return "\n".join(f"{name}:\n{np.array2string(array, max_line_width=120)}"
                     for name, array in (("x (GM)", args[0]), ("UB after the copy", args[1])))  # fmt: skip


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Raises ConfigError for a matrix without a middle to slice; the API raises UnsupportedError without NDDMA."""
    least = 4 if p.move == "slice" else 1
    for name in ("rows", "cols"):
        if not least <= getattr(p, name) <= 64:
            raise ConfigError(f"{name} of the matrix", field=name, value=getattr(p, name), allowed=f"{least}..64")
    loops, start, shape = _plan(p)
    constant = p.value if p.move == "pad" else None
    config = asc.NdDmaConfig(is_nearest_value_mode=p.move == "nearest")
    constants = (start, asc.NdDmaParams(loops, constant), config, shape[0] * shape[1])
    if not data:
        specs = (GmSpec((p.rows, p.cols), asc.float32), GmSpec(shape, asc.float32))
        return Job(move, (*specs, *constants), 1, dict(vars(p)))
    x = np.arange(1, p.rows * p.cols + 1, dtype=np.float32).reshape(p.rows, p.cols)
    expected = _expected(x, p)
    return Job(move, (x, np.zeros(shape, np.float32), *constants), 1, dict(vars(p)),
               expect=lambda after: np.array_equal(after[1], expected), show=_show)  # fmt: skip
