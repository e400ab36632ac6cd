"""LoadData with LoadData2DParams: whole 512 B fractals (spec api_semantics.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import (
    CostKey,
    GmTraffic,
    OnChip,
    Op,
    Pipe,
    cached_hash,
    check_fields,
    describe,
    movement,
)
from aicore_sim.instructions.cube_layout import SIDE, local_align, require_dtype, rows_for
from aicore_sim.transfer import Transfer, strided_copy

API = "LoadData"


@dataclass(frozen=True)
class LoadData2DParams:
    """One fractal a repeat. start_index and src_stride count fractals from start to start, dst_gap from end to start.

    repeat_times is 1 by default, as in pyasc (0 in C++).
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 0
    sid: int = 0
    dst_gap: int = 0
    if_transpose: bool = False
    addr_mode: int = 0

    __hash__ = cached_hash


_RANGES = {
    "start_index": (0, 65535), "repeat_times": (0, 255), "src_stride": (0, 65535), "sid": (0, 15),
    "dst_gap": (0, 65535), "addr_mode": (0, 1),
}  # fmt: skip


def build(params: LoadData2DParams, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    """The Op of LoadData(dst, src, LoadData2DParams) between buffers `src` and `dst`; None for repeat_times 0.

    Documented semantics (spec api_semantics.md 2.2): addr_mode acts on GM->L1 only; dst_gap has no effect on 950 into
    L0A and L0B (spec pitfalls.md P07). Raises UnsupportedError for a path or element type that the card does not offer,
    ParameterError for a field out of range, a transposition that is not L1->L0 of 16 bits, and an index below 0.
    """
    path = f"{src}-{dst}"
    name, variant = ("LoadData", "GM to L1-2D") if path == "GM-L1" else ("LoadData_2D", None)
    require_dtype(API, card, rows_for(API, card, name, variant, path), dtype)
    check_fields(API, params, _RANGES, card.name)
    warnings: list[str] = []
    transpose = _transposes(params, dtype, path, card, warnings)
    step = _source_step(params, path, card, warnings)
    gap = params.dst_gap
    if gap and card.npu_arch == 3510 and src == "L1":
        gap = 0
        warnings.append("dst_gap has no effect on this card: the fractals land back to back (use LoadData2DParamsV2)")
    if params.repeat_times == 0:
        return None
    repeats = params.repeat_times
    start, stride, pitch = params.start_index * FRACTAL_BYTES, step * FRACTAL_BYTES, (gap + 1) * FRACTAL_BYTES
    if transpose:
        steps = strided_copy(2, (repeats, SIDE, SIDE), start, (stride, 2, BLOCK_BYTES), 0, (pitch, BLOCK_BYTES, 2))
    else:
        steps = strided_copy(FRACTAL_BYTES, (repeats,), start, (stride,), 0, (pitch,))
    transfer = Transfer(steps)
    cost: CostKey
    if src == "GM":
        cost = GmTraffic(path, transfer.nbytes, repeats, is_read=True)
    else:
        cost = OnChip(path, "LoadData2D", transfer.nbytes)
    return movement(
        API, Pipe.MTE2 if src == "GM" else Pipe.MTE1, path, transfer, cost,
        aligns=(local_align(dst), local_align(src)), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _transposes(params: LoadData2DParams, dtype: DataType, path: str, card: Card, warnings: list[str]) -> bool:
    """Whether the fractals are transposed (spec 2.1: 16-bit types, L1->L0A and L1->L0B only)."""
    if not params.if_transpose:
        return False
    if path == "GM-L1":
        warnings.append("if_transpose has no meaning from GM to L1 and is ignored")
        return False
    if not path.startswith("L1-"):
        raise ParameterError(f"{API}: if_transpose (ifTranspose) works from L1 only", field="if_transpose", value=True,
                             allowed="False", card=card.name)  # fmt: skip
    if dtype.bits != 16:
        raise ParameterError(
            f"{API}: if_transpose (ifTranspose) takes 16-bit types only, not {dtype.name} (use LoadDataWithTranspose"
            " or LoadData3DParamsV2)", field="if_transpose", value=True, allowed="False", card=card.name,
        )  # fmt: skip
    return True


def _source_step(params: LoadData2DParams, path: str, card: Card, warnings: list[str]) -> int:
    """Fractals from one repeat's source to the next: negative for a decrementing address (spec 2.3)."""
    if not params.addr_mode:
        return params.src_stride
    if path != "GM-L1":
        warnings.append("addr_mode 1 acts from GM to L1 only: the address increments")
        return params.src_stride
    if params.start_index < params.src_stride * (params.repeat_times - 1):
        raise ParameterError(
            f"{API}: the decrementing index goes below 0", field="start_index", value=params.start_index,
            allowed=f">= src_stride * (repeat_times - 1) = {params.src_stride * (params.repeat_times - 1)}",
            card=card.name,
        )  # fmt: skip
    return -params.src_stride
