"""Load2DBitMode by the example of its page: 32 x 32 half from L1 to L0A, parameters packed into two 64-bit words.

Built from LoadData2DParamsV2 with starts of 0 and steps and strides of 2; transpose=true sets the bool beside the words.
In GM the matrices lie as NZ fractals. C = L0A x I proves what L0A holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, param

SIDE = 32


@dataclass(frozen=True)
class Parameters:
    transpose: bool = param(False, "transpose every fractal on the way (A is stored transposed then)")


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def load(a: asc.GlobalAddress, one: asc.GlobalAddress, c: asc.GlobalAddress, transpose: asc.ConstExpr[bool]) -> None:
    a_gm, one_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    one_gm.set_global_buffer(one)
    c_gm.set_global_buffer(c)
    elements = SIDE * SIDE
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, elements)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, 2 * elements, elements)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, elements)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, elements)
    c1 = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, elements)
    asc.load_data(a1, a_gm, asc.LoadData2DParams(repeat_times=4, src_stride=1))
    asc.load_data(b1, one_gm, asc.LoadData2DParams(repeat_times=4, src_stride=1))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    params = asc.LoadData2DParamsV2(m_start_position=0, k_start_position=0, m_step=2, k_step=2, src_stride=2, dst_stride=2)
    bits = asc.Load2DBitModeParam(params)
    bits.set_if_transpose(transpose)
    asc.load_data(a2, a1, bits)
    asc.load_data(b2, b1, params)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.mmad(c1, a2, b2, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.fixpipe(c_gm, c1, asc.FixpipeParamsArch3510(SIDE, SIDE, SIDE, SIDE))


def _show(args: tuple[Any, ...]) -> str:
    bits = asc.Load2DBitModeParam(asc.LoadData2DParamsV2(m_step=2, k_step=2, src_stride=2, dst_stride=2))
    return (f"config0 = {bits.get_config0():#018x}  mStartPosition[15:0] kStartPosition[31:16] mStep[39:32] kStep[47:40]\n"
            f"config1 = {bits.get_config1():#018x}  srcStride[15:0] dstStride[31:16]\n"
            f"first row of L0A: {np.array2string(args[2][0][:8], max_line_width=110)} ...")  # fmt: skip


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Only Atlas 350 has bit mode: elsewhere the API raises UnsupportedError."""
    shape = (SIDE, SIDE)
    if not data:
        return Job(load, (GmSpec(shape, asc.half), GmSpec(shape, asc.half), GmSpec(shape, asc.float32), p.transpose), 1,
                   dict(vars(p)))  # fmt: skip
    a = np.arange(SIDE * SIDE).reshape(shape).astype(np.float16)
    nz, one = (to_layout(m, "NZ", asc.half).view(np.float16).reshape(shape) for m in (a, np.eye(SIDE, dtype=np.float16)))
    args = (nz, one, np.zeros(shape, np.float32), p.transpose)
    expected = a.T if p.transpose else a
    return Job(load, args, 1, dict(vars(p)), expect=lambda after: np.array_equal(after[2], expected), show=_show)
