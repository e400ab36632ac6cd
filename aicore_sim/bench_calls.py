"""What one call costs the simulator, in microseconds: recording and engine, without data.

Each figure is one API called many times with one parameter struct and changing addresses, on one core that does nothing
else. Processor time is counted: on a machine with other work the wall clock would show that work.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aicore_sim import dtypes
from aicore_sim.cards import load_card
from aicore_sim.dtypes import DataType
from aicore_sim.instructions.data_copy_pad import DataCopyExtParams, DataCopyPadExtParams
from aicore_sim.instructions.fixpipe import FixpipeParamsV220
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.instructions.load_transpose import LoadData2dTransposeParams
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.instructions.nd2nz import Nd2NzParams
from aicore_sim.instructions.nddma import NdDmaLoopInfo, NdDmaParams
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.kernel.api_copy_pad import data_copy_pad
from aicore_sim.kernel.api_cube import fixpipe, mmad
from aicore_sim.kernel.api_load import load_data, load_data_with_transpose
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.kernel.enums import KernelType, TPosition
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.kernel.values import ConstExpr
from aicore_sim.launch import Options, run_kernel

CALLS = 10_000
"""Calls of one repeat."""
SLOTS = 4
"""Places that the calls go through in turn, in both tensors."""
SLOT_BYTES = 2048
GM_BYTES = 1 << 16


@dataclass(frozen=True)
class Stream:
    """One API on one card: `call(dst, src)` between a destination and a source, each GM ("") or a position."""

    api: str
    card: str
    dst: str
    src: str
    call: Callable[[Any, Any], None]
    dst_dtype: DataType = dtypes.half
    src_dtype: DataType = dtypes.half


def _with(function: Callable[..., None], *params: Any) -> Callable[[Any, Any], None]:
    return lambda dst, src: function(dst, src, *params)


def _multiply(dst: Any, fm: Any) -> None:
    mmad(dst, fm, LocalTensor(dtypes.half, TPosition.B2, 0, SLOT_BYTES // 2), _TILE)


_TILE = MmadParams(16, 16, 32)
_LOOPS = NdDmaLoopInfo((1, 32), (1, 16), (16, 8), (0, 0), (0, 0))
STREAMS = (
    Stream("LoadData2D", "atlas_a2", "A2", "A1", _with(load_data, LoadData2DParams(0, 4, 1))),
    Stream("LoadData2DV2", "atlas_350", "A2", "A1", _with(load_data, LoadData2DParamsV2(0, 0, 2, 2, 2, 2))),
    Stream("LoadData3DV2", "atlas_a2", "A2", "A1", _with(load_data, LoadData3DParamsV2((0, 0, 0, 0), 8, 8, 16, 16, 16))),
    Stream("LoadDataWithTranspose", "atlas_a2", "B2", "A1",
           _with(load_data_with_transpose, LoadData2dTransposeParams(0, 4, 1))),
    Stream("ND2NZ", "atlas_a2", "A1", "", _with(data_copy, Nd2NzParams(1, 16, 32, 0, 64, 16, 1, 0))),
    Stream("DataCopyPad", "atlas_350", "VECIN", "",
           _with(data_copy_pad, DataCopyExtParams(4, 20, 12), DataCopyPadExtParams(dtypes.half, True, 0, 6))),
    Stream("NDDMA", "atlas_350", "VECIN", "", _with(data_copy, NdDmaParams(_LOOPS, 0))),
    Stream("Mmad", "atlas_a2", "CO1", "A2", _multiply, dtypes.float32),
    Stream("Fixpipe", "atlas_a2", "", "CO1", _with(fixpipe, FixpipeParamsV220(16, 16, 16, 16)), dtypes.float32, dtypes.float32),
)  # fmt: skip


def _repeat(memory: GlobalAddress, repeated: ConstExpr, calls: ConstExpr) -> None:
    """The kernel: no flags, one pipe works."""
    what: Any = repeated
    count: Any = calls
    gm = GlobalTensor()
    gm.set_global_buffer(memory)
    dst, src = (
        LocalTensor(dtype, TPosition[position], 0, SLOTS * SLOT_BYTES * 8 // dtype.bits) if position else gm
        for position, dtype in ((what.dst, what.dst_dtype), (what.src, what.src_dtype))
    )
    slots = [(slot * SLOT_BYTES * 8 // what.dst_dtype.bits, slot * SLOT_BYTES * 8 // what.src_dtype.bits)
             for slot in range(SLOTS)]  # fmt: skip
    call = what.call
    for i in range(count):
        to, start = slots[i % SLOTS]
        call(dst[to], src[start])


_KERNELS = {kind: jit(kernel_type=kind)(_repeat) for kind in (KernelType.AIC_ONLY, KernelType.AIV_ONLY)}


def seconds(stream: Stream, calls: int) -> float:
    """Processor seconds of a whole run of `calls` calls."""
    kind = KernelType.AIV_ONLY if "VECIN" in (stream.dst, stream.src) else KernelType.AIC_ONLY
    memory = GmSpec((GM_BYTES * 8 // stream.dst_dtype.bits,), stream.src_dtype if stream.dst else stream.dst_dtype)
    card = load_card(stream.card)
    began = time.process_time()
    run_kernel(_KERNELS[kind], (memory, stream, calls), {}, 1, card, Options(data=False, checks=False))
    return time.process_time() - began


def call_us(repeat: int, say: Callable[[str], None]) -> dict[str, float]:
    """Microseconds per call for each of STREAMS: the best of `repeat`, since a busy machine only adds."""
    found: dict[str, float] = {}
    for stream in STREAMS:
        seconds(stream, SLOTS)
        gc.collect()
        found[stream.api] = min(seconds(stream, CALLS) for _ in range(repeat)) / CALLS * 1e6
        say(f"{stream.api} on {stream.card}: {found[stream.api]:.1f} us a call")
    return found
