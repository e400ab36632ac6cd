"""LoadDataWithTranspose by the four examples of its page: B goes from NZ in L1 to ZN in L0B, transposed square by square.

example=1: int8, B[32,64]. 2: half, B[32,32], a call for each column block. 3: float, B[16,32]. 4: int8 with the V2 struct,
B[128,256] (Atlas 350). C = A x B proves what L0B holds. Printed: the parameters of the page and the fractals that each call
moves. On Atlas 200I/500 A2, which has no ND2NZ, B lies in GM as NZ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    example: int = param(1, "number of the example on the page, 1 to 4")


@dataclass(frozen=True)
class Example:
    """Sizes of C[m,n] = A[m,k] x B[k,n], and the calls: (element offset in L0B, element offset in L1, parameters)."""

    dtype: str
    m: int
    k: int
    n: int
    calls: tuple[tuple[int, int, Any], ...]


def _example(number: int) -> Example:
    """The numbers of the page, its slips resolved (spec api_semantics.md 6.5)."""
    if number == 1:
        params = asc.LoadData2dTransposeParams(start_index=0, repeat_times=64 // 32, src_stride=1, dst_gap=1, dst_frac_gap=0)
        return Example("int8", 16, 32, 64, ((0, 0, params),))
    if number == 2:
        params = asc.LoadData2dTransposeParams(start_index=0, repeat_times=32 // 16, src_stride=1, dst_gap=1)
        return Example("half", 16, 32, 32, tuple((i * 16 * 16, i * 32 * 16, params) for i in range(2)))
    if number == 3:
        params = asc.LoadData2dTransposeParams(start_index=0, repeat_times=32 // 16, src_stride=1, dst_gap=0,
                                               dst_frac_gap=32 // 16 - 1)  # fmt: skip
        return Example("float", 16, 16, 32, ((0, 0, params),))
    k_step, n_step = 128 // 16, 256 // 32
    return Example("int8", 128, 128, 256, tuple(
        (1024 * i, 0, asc.LoadData2dTransposeParamsV2(start_index=i * k_step, repeat_times=k_step // 2, src_stride=2,
                                                      dst_gap=n_step * 2 - 1)) for i in range(n_step)))  # fmt: skip


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def multiply(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, x: asc.ConstExpr) -> None:
    a_gm, b_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    b_gm.set_global_buffer(b)
    c_gm.set_global_buffer(c)
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, x.m * x.k)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, 64 * 1024, x.k * x.n)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, x.m * x.k)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, x.k * x.n)
    c1 = asc.LocalTensor(c.dtype, asc.TPosition.CO1, 0, x.m * x.n)
    size = a.dtype.sizeof()
    asc.load_data(a1, a_gm, asc.LoadData2DParams(repeat_times=x.m * x.k * size // 512, src_stride=1))
    if asc.npu_arch() == 3002:
        asc.load_data(b1, b_gm, asc.LoadData2DParams(repeat_times=x.k * x.n * size // 512, src_stride=1))
    else:
        asc.data_copy(b1, b_gm, asc.Nd2NzParams(1, x.k, x.n, 0, x.n, x.k, 1, 0))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=x.m * x.k * size // 512, src_stride=1))
    for at, start, params in x.calls:
        asc.load_data_with_transpose(b2[at], b1[start], params)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.mmad(c1, a2, b2, asc.MmadParams(x.m, x.n, x.k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if asc.npu_arch() == 3510:
        asc.fixpipe(c_gm, c1, asc.FixpipeParamsArch3510(x.n, x.m, x.m, x.n))
    else:
        asc.fixpipe(c_gm, c1, asc.FixpipeParamsV220(x.n, x.m, x.m, x.n))


def _moves(x: Example) -> str:
    """Source and destination fractals of every square, in words."""
    fractal = 512 * 8 // DataType(x.dtype).bits
    n = {8: 2, 16: 1, 32: 2}[DataType(x.dtype).bits]
    lines = []
    for i, (at, start, p) in enumerate(x.calls):
        v2 = isinstance(p, asc.LoadData2dTransposeParamsV2)
        unit, moves = 1 if v2 else n, []
        for r in range(p.repeat_times):
            first = start // fractal + (p.start_index + p.src_stride * r) * unit
            src = [first + q for q in range(n)]
            dst = [at // fractal + (p.dst_gap + 1) * r + (p.dst_frac_gap + 1) * q for q in range(n)]
            moves.append(f"{','.join(map(str, src))} -> {','.join(map(str, dst))}")
        lines.append(f"call {i}: fractals of L1 -> L0B  {'   '.join(moves)}")
    return "\n".join(lines)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small integers, so that sums are exact. The API raises UnsupportedError for the V2 struct where the card lacks it."""
    if p.example not in (1, 2, 3, 4):
        raise ConfigError("the page has four examples", field="example", value=p.example, allowed="1..4")
    x = _example(p.example)
    dtype = DataType(x.dtype)
    out = asc.int32 if x.dtype == "int8" else asc.float32
    shapes = ((x.m, x.k), (x.k, x.n), (x.m, x.n))
    if not data:
        specs = (*(GmSpec(shape, dtype) for shape in shapes[:2]), GmSpec(shapes[2], out))
        return Job(multiply, (*specs, x), 1, dict(vars(p)))
    rng = np.random.default_rng(p.example)
    a, b = (rng.integers(-4, 5, shape).astype(dtype.np_dtype) for shape in shapes[:2])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    a_nz, b_nz = (to_layout(matrix, "NZ", dtype).view(dtype.np_dtype) for matrix in (a, b))
    args = (a_nz, b_nz if card.npu_arch == 3002 else b, np.zeros(shapes[2], out.np_dtype), x)

    def show(after: tuple[Any, ...]) -> str:
        params = x.calls[0][2]
        fields = " ".join(f"{name}={value}" for name, value in vars(params).items() if name[0] != "_")
        return (f"{type(params).__name__}: {fields}\n{_moves(x)}\n"
                f"first row of C = A x B: {np.array2string(after[2][0][:12], max_line_width=110)} ...")  # fmt: skip

    return Job(multiply, args, 1, dict(vars(p)), expect=lambda after: np.array_equal(after[2], expected), show=show)
