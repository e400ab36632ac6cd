"""LoadData in its MX form: fractals as by LoadData2DParamsV2, and the scales that belong to them (950; spec 3.5).

A scale fractal is 32 B: 16 rows of two fp8_e8m0. The scales of the data at address x of L0A or L0B go to address x / 16 of
the scale memory beside it (L0AMX, L0BMX).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, TransferEffect, cached_hash, describe, taken
from aicore_sim.instructions.cube_layout import local_align
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2, checked, laid_out, lower
from aicore_sim.instructions.offer import require_dtype, rows_for
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Step, Transfer, strided_copy

API = "LoadData"
SCALES = {"L0A": "L0AMX", "L0B": "L0BMX"}
"""Memory of the scales of each operand of MmadMx."""
SCALE_SHARE = 16
"""Bytes of data that one byte of scale memory stands for: address of the scales = address of the data / 16."""
SCALE_TYPE = DataType("fp8_e8m0")


@dataclass(frozen=True)
class LoadData2DMxParams:
    """x_step x y_step scale fractals from (x_start_position, y_start_position).

    x counts 16 rows of the operand, y 64 elements of its k axis. src_stride and dst_stride: scale fractals (32 B) from
    one x to the next.
    """

    x_start_position: int = 0
    y_start_position: int = 0
    x_step: int = 0
    y_step: int = 0
    src_stride: int = 0
    dst_stride: int = 0

    __hash__ = cached_hash


_RANGES = {
    "x_start_position": (0, 65535), "y_start_position": (0, 65535), "x_step": (0, 255), "y_step": (0, 255),
    "src_stride": (0, 65535), "dst_stride": (0, 65535),
}  # fmt: skip


class MxEffect:
    """Data and scales; operands: dst, src, source of the scales, scale memory."""

    __slots__ = ("data", "scales")

    def __init__(self, data: Transfer, scales: Transfer) -> None:
        self.data = TransferEffect(data)
        self.scales = TransferEffect(scales)

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        self.data.apply(bufs[:2], offs[:2], first, last, of)
        self.scales.apply((bufs[3], bufs[2]), (offs[3], offs[2]), first, last, of)


def build(
    params: LoadData2DParamsV2, mx: LoadData2DMxParams, dtypes: tuple[DataType, DataType], kinds: tuple[str, str, str],
    card: Card, notes: list[str] | None = None,
) -> Op | None:  # fmt: skip
    """The Op of LoadData(dst, src, src_mx, LoadData2DParamsV2, LoadData2DMxParams).

    `dtypes` are those of the data and of the scales, `kinds` the buffers of src, src_mx and dst. Operands: dst, src,
    src_mx, and the scale memory at dst / 16. A step of 0 in either struct: None; with the quirk "mx-nop-parts" only that
    part stays away. Raises UnsupportedError for card, path or element type, ParameterError for ranges. `notes` gets the
    warnings, also of a call that moves nothing.
    """
    dtype, scale_dtype = dtypes
    src, src_mx, dst = kinds
    path = f"{src}-{dst}"
    rows = rows_for(API, card, "LoadData_2D_MX", None, path)
    require_dtype(API, card, rows, dtype)
    for field, value, needed in (("src_mx", src_mx, "L1"), ("dtype", scale_dtype.name, SCALE_TYPE.name)):
        if value != needed:
            raise UnsupportedError(f"{API}: scales are {SCALE_TYPE.name} in L1", field=field, value=value,
                                   allowed=needed, card=card.name)  # fmt: skip
    warnings = [] if notes is None else notes
    params = checked(params, dtype, src, card, warnings)
    mx = taken(API, mx, _RANGES, card, warnings)
    with_data, with_scales = bool(params.m_step and params.k_step), bool(mx.x_step and mx.y_step)
    parts = with_data + with_scales
    if parts == 0 or (parts == 1 and not card.quirk("mx-nop-parts")):
        return None
    data = Transfer(lower(params, dtype, warnings) if with_data else ())
    scales = Transfer(_scales(mx, warnings) if with_scales else ())
    ranges = ((1, *data.src_range), (2, *scales.src_range)), ((0, *data.dst_range), (3, *scales.dst_range))
    reads, writes = ([span for span in spans if span[2] > span[1]] for spans in ranges)
    nbytes = data.copied_bytes + scales.copied_bytes
    return Op(
        API, Pipe.MTE1, OnChip(path, "LoadData2DMx", data.copied_bytes, scale_bytes=scales.copied_bytes), path=path,
        nbytes=nbytes, effect=MxEffect(data, scales), reads=reads, writes=writes,
        aligns=(local_align(dst), local_align(src), BLOCK_BYTES, BLOCK_BYTES),
        detail=f"{describe(params)} {describe(mx)}", warnings=warnings,
    )  # fmt: skip


def _scales(mx: LoadData2DMxParams, warnings: list[str]) -> tuple[Step, ...]:
    """Scale fractal (x, y) of the window goes to x * dst_stride + y."""
    pitch, step = mx.src_stride * BLOCK_BYTES, mx.dst_stride * BLOCK_BYTES
    start = mx.x_start_position * pitch + mx.y_start_position * BLOCK_BYTES

    def part(first: int, count: int) -> tuple[Step, ...]:
        return strided_copy(BLOCK_BYTES, (count, mx.y_step), start + first * pitch, (pitch, BLOCK_BYTES),
                            first * step, (step, BLOCK_BYTES))  # fmt: skip

    return laid_out(part, mx.x_step, mx.y_step, mx.dst_stride, BLOCK_BYTES, warnings)
