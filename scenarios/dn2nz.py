"""DN2NZ by the examples of its page: a matrix stored by columns in GM becomes NZ in L1, tails of D zeroed, holes kept.

example=continuous: 1 matrix of N 16, D 23. strided: 2 matrices of N 8, D 23 into every second row. matmul: A^T stored
[56,40] becomes A[40,56]. small_c0: N 3, D 3 in SmallC0 mode. L1 holds -1 before; the cube core then copies L1 into the UB of a
vector core, which stores it, so that what is printed and checked are the bytes of L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

C0 = 16
"""half elements of 32 B."""
HOLE = -1.0
_EXAMPLES = {
    "continuous": asc.Dn2NzParams(1, 16, 23, 0, 16, 16, 1, 0),
    "strided": asc.Dn2NzParams(2, 8, 23, 400, 16, 37, 2, 320),
    "matmul": asc.Dn2NzParams(1, 40, 56, 0, 40, 48, 1, 0),
    "small_c0": asc.Dn2NzParams(1, 3, 3, 0, 3, 0, 0, 0),
}
_ROWS = {"continuous": 32, "strided": 72, "matmul": 192, "small_c0": 2}
"""Rows of 32 B in L1 that are shown and checked."""


@dataclass(frozen=True)
class Parameters:
    example: str = param("continuous", "which example", tuple(_EXAMPLES))


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def convert(x: asc.GlobalAddress, y: asc.GlobalAddress, params: asc.ConstExpr,
            small: asc.ConstExpr[bool], elements: asc.ConstExpr[int]) -> None:  # fmt: skip
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, elements)
    if asc.ascend_is_aic():
        l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, elements)
        asc.init_const_value(l1, asc.InitConstValueParams(1, elements // C0, 0, HOLE))
        asc.pipe_barrier(asc.PipeID.PIPE_MTE2)
        asc.data_copy(l1, x_gm, params, enable_small_c0=small)
        asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.data_copy_l1_to_ub(ub, l1, elements)
        asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_MTE1)
    if asc.ascend_is_aiv():
        asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE3)
        if asc.get_sub_block_idx() == 0:
            if small:  # what fills its last row up to 32 B is not defined
                filled = 4 * params.n_value
                asc.data_copy_pad(y_gm, ub, asc.DataCopyExtParams(1, filled * 2, 0, 0, 0))
                first = asc.ceildiv(filled, C0) * C0
                asc.data_copy(y_gm[first], ub[first], elements - first)
            else:
                asc.data_copy(y_gm, ub, elements)


def _expected(x: Any, p: asc.Dn2NzParams, small: bool, rows: int) -> Any:
    """L1 in rows of 32 B, element by element from the definition of the layout."""
    out = np.full((rows, C0), HOLE, np.float16)
    if small:  # four elements a row, tightly packed; the end up to 32 B is left out of y
        flat = np.zeros(rows * C0, np.float16)
        for n in range(p.n_value):
            flat[4 * n : 4 * n + p.d_value] = [x[d * p.src_d_value + n] for d in range(p.d_value)]
        out[: -(-4 * p.n_value // C0)] = flat.reshape(rows, C0)[: -(-4 * p.n_value // C0)]
        return out
    for i in range(p.dn_num):
        for n in range(p.n_value):
            for d in range(-(-p.d_value // C0) * C0):
                row = i * (p.dst_nz_matrix_stride // C0) + d // C0 * p.dst_nz_c0_stride + n * p.dst_nz_n_stride
                inside = d < p.d_value
                out[row, d % C0] = x[i * p.src_dn_matrix_stride + d * p.src_d_value + n] if inside else 0
    return out


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Only Atlas 350 has DN2NZ: elsewhere the API raises UnsupportedError. x[i] = i + 1 up to 1,000, then again from 1."""
    params, small, rows = _EXAMPLES[p.example], p.example == "small_c0", _ROWS[p.example]
    length = (params.dn_num - 1) * params.src_dn_matrix_stride + params.d_value * params.src_d_value
    constants = (params, small, rows * C0)
    if not data:
        specs = (GmSpec((length,), asc.half), GmSpec((rows, C0), asc.half))
        return Job(convert, (*specs, *constants), 1, dict(vars(p)))
    x = (np.arange(length) % 1000 + 1).astype(np.float16)
    expected = _expected(x, params, small, rows)
    args = (x, np.zeros((rows, C0), np.float16), *constants)

    def show(after: tuple[Any, ...]) -> str:
        fields = " ".join(f"{name}={value}" for name, value in vars(params).items() if name[0] != "_")
        lines = [f"Dn2NzParams: {fields}", "L1, a row of 32 B each line (-1: not written):"]
        for row in range(rows):
            if row % (params.dst_nz_c0_stride or rows) < 8:
                lines.append(f"{row:4}: {' '.join(f'{value:5g}' for value in after[1][row])}")
            elif row % (params.dst_nz_c0_stride or rows) == 8:
                lines.append("      ...")
        return "\n".join(lines)

    return Job(convert, args, 1, dict(vars(p)), expect=lambda after: np.array_equal(after[1], expected), show=show)
