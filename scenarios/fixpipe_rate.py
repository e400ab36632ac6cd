"""Fixpipe out of L0C, again and again: the rate by destination, type and layout, with unit flags or without.

One Mmad of depth 16 fills the tile, then `count` Fixpipes write it, into GM one behind the other, else to the same place. With
`unit_flag` every Fixpipe has an Mmad of its own in front of it, both with unit flag 3: Fixpipe follows block by block, and its
time includes the waiting.
NZ keeps the column blocks of L0C, ND is row by row, DN column by column (Atlas 350). Into L1 and UB nothing else limits it; into
GM port, L2 and memory take part. UB is that of the first vector core of the group on Atlas 350, the core's own on 200I.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Pipe
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.layouts import layout_nbytes, to_layout
from aicore_sim.scenario import Job, param

K = 16
"""Depth of the Mmads; the sums of so many products of -1, 0 and 1 are exact in every type."""
_TO_INT8 = int(np.float32(1).view(np.uint32)) | 1 << 46
"""Parameter word of the conversion to 8 bits: factor 1.0, signed."""
_OUT: dict[str, tuple[Any, Any, Any, int]] = {
    "half": (asc.float16, np.float16, asc.QuantModes.F322F16, 0),
    "bf16": (asc.bfloat16, ml_dtypes.bfloat16, asc.QuantModes.F322BF16, 0),
    "float": (asc.float32, np.float32, asc.QuantModes.NoQuant, 0),
    "int8": (asc.int8, np.int8, asc.QuantModes.QF322B8_PRE, _TO_INT8),
}
"""Type of the kernel, of numpy, conversion from float and its parameter word."""
_LAYOUTS = ("NZ", "ND", "DN")


@dataclass(frozen=True)
class Parameters:
    dst: str = param("GM", "where to", ("GM", "L1", "UB"))
    out: str = param("half", "type of the result; L0C holds float", tuple(_OUT))
    layout: str = param("ND", "layout of the result", _LAYOUTS)
    m: int = param(128, "rows of the tile")
    n: int = param(128, "columns of the tile")
    count: int = param(20, "Fixpipes")
    unit_flag: bool = param(False, "an Mmad in front of each, coupled by unit flags (not on 200I)")


@dataclass(frozen=True)
class Call:
    """What the kernels need: the parameters, elements of A, B and the result, and the arguments of Fixpipe."""

    p: Parameters
    a: int
    b: int
    c: int
    dtype: Any
    params: Any
    config: Any


def _produce(a: asc.GlobalAddress, b: asc.GlobalAddress, target: Any, call: Call) -> None:
    p = call.p
    a_gm, b_gm = asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    b_gm.set_global_buffer(b)
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, call.a)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, call.a * 2, call.b)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, call.a)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, call.b)
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, -(-p.m // 16) * 16 * (-(-p.n // 16) * 16))
    fractals = [asc.LoadData2DParams(repeat_times=size // 256, src_stride=1) for size in (call.a, call.b)]
    asc.load_data(a1, a_gm, fractals[0])
    asc.load_data(b1, b_gm, fractals[1])
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.load_data(a2, a1, fractals[0])
    asc.load_data(b2, b1, fractals[1])
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    mmad = asc.MmadParams(p.m, p.n, K, unit_flag=3 if p.unit_flag else 0, cmatrix_source=False, cmatrix_init_val=True)
    if not p.unit_flag:
        asc.mmad(l0c, a2, b2, mmad)
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
    for tile in range(p.count):
        if p.unit_flag:
            asc.mmad(l0c, a2, b2, mmad)
        asc.fixpipe(target[tile * call.c] if p.dst == "GM" else target, l0c, call.params, call.config)


@asc.jit
def to_gm(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, call: asc.ConstExpr) -> None:
    c_gm = asc.GlobalTensor()
    c_gm.set_global_buffer(c)
    _produce(a, b, c_gm, call)


@asc.jit
def to_l1(a: asc.GlobalAddress, b: asc.GlobalAddress, call: asc.ConstExpr) -> None:
    """The result lies behind A and B."""
    _produce(a, b, asc.LocalTensor(call.dtype, asc.TPosition.A1, (call.a + call.b) * 2, call.c), call)


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def to_ub(a: asc.GlobalAddress, b: asc.GlobalAddress, call: asc.ConstExpr) -> None:
    if asc.ascend_is_aic():
        _produce(a, b, asc.LocalTensor(call.dtype, asc.TPosition.VECIN, 0, call.c), call)


def fix_times(run: Run) -> dict[str, Any]:
    """Cycles from the start of the first Fixpipe to the end of the last, over their number; B/cycle over the same time."""
    c = run.columns
    rows = np.flatnonzero((c.pipe == int(Pipe.FIX)) & (c.kind == 0))
    cycles = int(c.end[rows[-1]] - c.start[rows[0]]) / TICKS_PER_CYCLE
    nbytes = c.ops[int(c.op[rows[0]])].nbytes
    return {"per_instruction_cycles": cycles / len(rows), "bytes": nbytes, "bytes_per_cycle": nbytes * len(rows) / cycles}


def arranged(c: NDArray[Any], layout: str, size: int) -> NDArray[Any]:
    """C as it must lie in GM; of NZ the whole column blocks only (8 bits: 32 columns, the rest of an odd 16 is not defined)."""
    if layout != "NZ":
        return c if layout == "ND" else c.T
    width = 32 if size == 1 else 16
    blocks = c.shape[1] // width
    return c[:, : blocks * width].reshape(c.shape[0], blocks, width).transpose(1, 0, 2)


def _struct(card: Card, p: Parameters, size: int, quant: Any, word: int) -> Any:
    rows = -(-p.m // 16) * 16
    block = p.m * (32 if size == 1 else 16)
    if card.npu_arch == 3510:
        stride = {"NZ": block, "ND": p.n, "DN": p.m}[p.layout]
        inner = asc.Nz2DnParams(src_nz_c0_stride=1) if p.layout == "DN" else 0
        return asc.FixpipeParamsArch3510(p.n, p.m, rows, stride, quant, word, unit_flag=3 if p.unit_flag else 0, params=inner)
    stride = block * size // 32 if p.layout == "NZ" else p.n
    return asc.FixpipeParamsV220(p.n, p.m, rows, stride, quant, word, unit_flag=3 if p.unit_flag else 0)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """A and B hold -1, 0 and 1; in GM the product must lie as numpy lays it out (nothing reads L1 and UB back).

    Raises ConfigError for sizes below 1 or m = 1 (A is then a vector), UnsupportedError for DN, paths and unit flags that the
    card lacks; the calls raise for types, shapes and sizes.
    """
    for name, least in (("m", 2), ("n", 1), ("count", 1)):
        if getattr(p, name) < least:
            raise ConfigError(f"{name} is too small", field=name, value=getattr(p, name), allowed=f">= {least}")
    if p.layout == "DN" and card.npu_arch != 3510:
        raise UnsupportedError("Fixpipe of this card writes no DN", field="layout", value="DN", allowed="NZ, ND", card=card.name)
    if p.unit_flag and card.npu_arch == 3002:
        raise UnsupportedError("this card has no unit flags", field="unit_flag", value=True, card=card.name)
    if p.dst == "UB" and not card.has_path("L0C-UB"):
        raise UnsupportedError("this card has no path from L0C to UB", field="dst", value="UB", card=card.name)
    dtype, numpy_type, quant, word = _OUT[p.out]
    half, order_a = asc.float16, str(card.model.layout["L0A"])
    params = _struct(card, p, dtype.sizeof(), quant, word)
    config = asc.FixpipeConfig(_LAYOUTS.index(p.layout), p.dst == "UB" and card.npu_arch == 3510)
    shapes = (((p.m, K), order_a), ((K, p.n), "ZN"))
    counts = [layout_nbytes(shape, order, half) // 2 for shape, order in shapes]
    size = p.m * (-(-p.n // 32) * 32)  # of NZ the last block is whole
    call = Call(p, *counts, size, dtype, params, config)
    kernel = {"GM": to_gm, "L1": to_l1, "UB": to_ub}[p.dst]
    if not data:
        specs = [GmSpec((count,), half) for count in counts] + ([GmSpec((p.count * size,), dtype)] if p.dst == "GM" else [])
        return Job(kernel, (*specs, call), 1, dict(vars(p)), metrics=fix_times)
    rng = np.random.default_rng(0)
    values = [rng.integers(-1, 2, shape).astype(np.float16) for shape, _ in shapes]
    arrays = [to_layout(v, order, half).view(np.float16) for v, (_, order) in zip(values, shapes, strict=True)]
    if p.dst != "GM":
        return Job(kernel, (*arrays, call), 1, dict(vars(p)), metrics=fix_times)
    product = values[0].astype(np.float32) @ values[1].astype(np.float32)

    def expect(args: tuple[Any, ...]) -> bool:
        wanted = arranged(product, p.layout, dtype.sizeof()).astype(numpy_type).reshape(-1)
        return all(np.array_equal(tile[: wanted.size], wanted) for tile in args[2].reshape(p.count, size))

    return Job(kernel, (*arrays, np.zeros(p.count * size, numpy_type), call), 1, dict(vars(p)), metrics=fix_times, expect=expect)
