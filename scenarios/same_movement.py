"""One movement, four ways: B[K,N], row-major in GM, becomes the ZN image of B in L0B. Which card allows which way?

way=load2d: ND2NZ, then LoadData2D with if_transpose (16 bits only). way=transpose: ND2NZ, then LoadDataWithTranspose.
way=dn2nz: DN2NZ, which is ND to ZN, then a straight LoadData2D (Atlas 350). way=load2d_v2: ND2NZ, then LoadData2DV2 with
if_transpose (Atlas 350). Atlas 200I/500 A2 has no ND2NZ: there B lies in GM as NZ fractals. C = A x B proves what L0B holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, param

M = 16
"""Rows of A: with one row of fractals its NZ and ZZ images are the same bytes, so that A needs no way of its own."""
_TYPES = {"half": np.float16, "float": np.float32, "int8": np.int8}


@dataclass(frozen=True)
class Parameters:
    way: str = param("load2d", "how B gets into L0B", ("load2d", "transpose", "dn2nz", "load2d_v2"))
    dtype: str = param("half", "element type", tuple(_TYPES))
    K: int = param(64, "rows of B, a multiple of 32")
    N: int = param(64, "columns of B, a multiple of 32")


def _to_l1(b1: Any, b: Any, p: Parameters) -> None:
    """B from GM into L1: NZ of B (4-byte types: ZZ, a strip of 16 rows at a time), or ZN of B by DN2NZ."""
    c0 = 32 // b.dtype.sizeof()
    if p.way == "dn2nz":
        asc.data_copy(b1, b, asc.Dn2NzParams(1, p.N, p.K, 0, p.N, p.N, 1, 0))
    elif asc.npu_arch() == 3002:
        asc.load_data(b1, b, asc.LoadData2DParams(repeat_times=p.K // 16 * (p.N // c0), src_stride=1))
    elif p.way == "transpose" and c0 == 8:
        asc.data_copy(b1, b, asc.Nd2NzParams(p.K // 16, 16, p.N, 16 * p.N, p.N, 16, 1, 16 * p.N))
    else:
        asc.data_copy(b1, b, asc.Nd2NzParams(1, p.K, p.N, 0, p.N, p.K, 1, 0))


def _to_l0b(b2: Any, b1: Any, p: Parameters) -> None:
    """B from L1 into L0B as ZN: rows of K blocks, each N / 16 fractals long."""
    c0 = 32 // b1.dtype.sizeof()
    high, wide, across = p.K // 16, p.N // c0, p.N // 16
    fractal = 16 * c0
    if p.way == "load2d":
        for i in range(high):
            params = asc.LoadData2DParams(repeat_times=across, src_stride=high, if_transpose=True)
            asc.load_data(b2[i * across * fractal], b1[i * fractal], params)
    elif p.way == "load2d_v2":
        asc.load_data(b2, b1, asc.LoadData2DParamsV2(m_step=high, k_step=wide, src_stride=high, dst_stride=across,
                                                     if_transpose=True))  # fmt: skip
    elif p.way == "dn2nz":
        asc.load_data(b2, b1, asc.LoadData2DParams(repeat_times=p.K // c0 * across, src_stride=1))
    elif c0 == 32:  # squares of 32 x 32: two fractals, one below the other
        for i in range(p.K // 32):
            params = asc.LoadData2dTransposeParams(repeat_times=p.N // 32, src_stride=p.K // 32, dst_gap=1)
            asc.load_data_with_transpose(b2[i * across * fractal], b1[i * 2 * fractal], params)
    elif c0 == 16:
        for i in range(high):
            params = asc.LoadData2dTransposeParams(repeat_times=across, src_stride=high)
            asc.load_data_with_transpose(b2[i * across * fractal], b1[i * fractal], params)
    else:  # squares of 16 x 16: two fractals side by side, which is why L1 holds ZZ
        for i in range(high):
            params = asc.LoadData2dTransposeParams(repeat_times=across, src_stride=1, dst_frac_gap=across - 1)
            asc.load_data_with_transpose(b2[i * 2 * across * fractal], b1[i * 2 * across * fractal], params)


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def multiply(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    a_gm, b_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    b_gm.set_global_buffer(b)
    c_gm.set_global_buffer(c)
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, M * p.K)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, 64 * 1024, p.K * p.N)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, M * p.K)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, p.K * p.N)
    c0 = asc.LocalTensor(c.dtype, asc.TPosition.CO1, 0, M * p.N)
    fractals = M * p.K * a.dtype.sizeof() // 512
    asc.load_data(a1, a_gm, asc.LoadData2DParams(repeat_times=fractals, src_stride=1))
    _to_l1(b1, b_gm, p)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=fractals, src_stride=1))
    _to_l0b(b2, b1, p)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.mmad(c0, a2, b2, asc.MmadParams(M, p.N, p.K, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if asc.npu_arch() == 3510:
        asc.fixpipe(c_gm, c0, asc.FixpipeParamsArch3510(p.N, M, M, p.N))
    else:
        asc.fixpipe(c_gm, c0, asc.FixpipeParamsV220(p.N, M, M, p.N))


def _move_times(run: Run) -> dict[str, Any]:
    """Instructions and us of the two halves of the movement of B; the first load of either pipe is A's."""
    c, found = run.columns, {}
    for name, pipe in (("to_l1", Pipe.MTE2), ("to_l0b", Pipe.MTE1)):
        rows = np.flatnonzero((c.pipe == int(pipe)) & (c.kind == 0))[1:]
        ticks = int(c.end[rows[-1]] - c.start[rows[0]])
        found[f"{name}_instructions"] = len(rows)
        found[f"{name}_us"] = ticks / TICKS_PER_CYCLE / run.card.clock_mhz
    return found


def _show(args: tuple[Any, ...]) -> str:
    return f"first row of C = A x B:\n{np.array2string(args[2][0][:16], max_line_width=110)}"


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small integers, so that sums are exact. Raises ConfigError for sizes that are no whole squares or do not fit L0B; the
    APIs raise UnsupportedError or ParameterError with the rule that a way breaks on this card or type."""
    dtype = DataType(p.dtype)
    for name in ("K", "N"):
        value = getattr(p, name)
        if value < 32 or value % 32:
            raise ConfigError(f"{name} is made of whole squares", field=name, value=value, allowed="multiples of 32")
    if p.K * p.N * dtype.sizeof() > 64 * 1024 or p.K * M * dtype.sizeof() > 64 * 1024:
        raise ConfigError("B fills L0B of 64 KB at most", field="K", value=p.K,
                          allowed=f"K * N <= {64 * 1024 // dtype.sizeof()}")  # fmt: skip
    out = asc.int32 if p.dtype == "int8" else asc.float32
    shapes = ((M, p.K), (p.K, p.N), (M, p.N))
    if not data:
        specs = (*(GmSpec(shape, dtype) for shape in shapes[:2]), GmSpec(shapes[2], out))
        return Job(multiply, (*specs, p), 1, dict(vars(p)), metrics=_move_times)
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, shape).astype(_TYPES[p.dtype]) for shape in shapes[:2])
    c = np.zeros(shapes[2], out.np_dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    fractals = [to_layout(x, "NZ", dtype).view(x.dtype) for x in (a, b)]
    if p.way == "transpose" and p.dtype == "float":
        fractals[1] = to_layout(b, "ZZ", dtype).view(b.dtype)
    b_gm = fractals[1] if card.npu_arch == 3002 else b
    return Job(multiply, (fractals[0], b_gm, c, p), 1, dict(vars(p)), metrics=_move_times, show=_show,
               expect=lambda after: np.array_equal(after[2], expected))  # fmt: skip
