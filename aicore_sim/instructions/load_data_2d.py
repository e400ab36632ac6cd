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
    describe,
    low_bits,
    movement,
    taken,
)
from aicore_sim.instructions.cube_layout import SIDE, local_align
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2, lower
from aicore_sim.instructions.offer import require_dtype, rows_for
from aicore_sim.transfer import Step, Transfer, strided_copy

API = "LoadData"
ARCH_950 = 3510


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


def build(
    params: LoadData2DParams, dtype: DataType, src: str, dst: str, card: Card, notes: list[str] | None = None
) -> Op | None:
    """The Op of LoadData(dst, src, LoadData2DParams) between buffers `src` and `dst`; None if nothing moves.

    Documented semantics (spec api_semantics.md 2.2): addr_mode acts on GM->L1 only; dst_gap has no effect on 950 into
    L0A and L0B (spec pitfalls.md P07). With the quirk "load2d-950" the call is what the header of 950 makes of it (2.5),
    with "addr-mode" the address decrements where the implementation does so. Raises UnsupportedError for a path or
    element type that the card does not offer, ParameterError for a field out of range, a transposition that is not
    L1->L0 of 16 bits, and an index below 0. `notes` gets the warnings, also of a call that moves nothing.
    """
    path = f"{src}-{dst}"
    name, variant = ("LoadData", "GM to L1-2D") if path == "GM-L1" else ("LoadData_2D", None)
    require_dtype(API, card, rows_for(API, card, name, variant, path), dtype)
    warnings = [] if notes is None else notes
    params = taken(API, params, _RANGES, card, warnings)
    transpose = _transposes(params, dtype, path, card, warnings)
    if card.quirk("load2d-950"):
        steps = _as_the_header(params, dtype, path, transpose, warnings)
    else:
        steps = _as_the_page(params, path, transpose, card, warnings)
        if card.npu_arch == ARCH_950 and steps and steps != _as_the_header(params, dtype, path, transpose, []):
            warnings.append("the header of this card makes another movement of this call (quirk load2d-950): use"
                            " LoadData2DParamsV2")  # fmt: skip
    if not steps:
        return None
    transfer = Transfer(steps)
    cost: CostKey
    if src == "GM":
        cost = GmTraffic(path, transfer.copied_bytes, params.repeat_times, is_read=True)
    else:
        cost = OnChip(path, "LoadData2D", transfer.copied_bytes)
    return movement(
        API, Pipe.MTE2 if src == "GM" else Pipe.MTE1, path, transfer, cost,
        aligns=(local_align(dst), local_align(src)), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _as_the_page(
    params: LoadData2DParams, path: str, transpose: bool, card: Card, warnings: list[str]
) -> tuple[Step, ...]:
    """Repeat r: the fractal start_index +- src_stride * r to (dst_gap + 1) * r (spec 2.2)."""
    step, gap = _source_step(params, path, card, warnings), params.dst_gap
    if gap and card.npu_arch == ARCH_950 and path != "GM-L1":
        gap = 0
        warnings.append("dst_gap has no effect on this card: the fractals land back to back (use LoadData2DParamsV2)")
    return _fractals(params.repeat_times, params.start_index, step, gap + 1, transpose)


def _as_the_header(
    params: LoadData2DParams, dtype: DataType, path: str, transpose: bool, warnings: list[str]
) -> tuple[Step, ...]:
    """What the header of 950 emits: 2D V2 instructions, addr_mode and sid without effect (spec 2.5)."""
    repeats, pitch = params.repeat_times, params.dst_gap + 1
    if params.addr_mode:
        warnings.append("addr_mode has no effect in the header of this card: the address increments")
    if path == "GM-L1":
        window = LoadData2DParamsV2(0, params.start_index, low_bits(params.src_stride, 8), repeats, params.src_stride,
                                    low_bits(pitch, 16))  # fmt: skip
        return lower(window, dtype, warnings) if window.m_step and repeats else ()
    stride = low_bits(params.src_stride, 16, signed=True)
    if transpose and path == "L1-L0B":
        if params.start_index:
            warnings.append("the header of this card ignores start_index of transposed loads into L0B")
        return _fractals(repeats, 0, abs(stride), pitch, transpose)
    if transpose and params.dst_gap:
        warnings.append("the header of this card packs transposed fractals into L0A: dst_gap has no effect")
    window = LoadData2DParamsV2(0, params.start_index, 1, repeats, stride, low_bits(pitch, 16), transpose)
    return lower(window, dtype, warnings) if repeats else ()


def _fractals(repeats: int, start: int, step: int, pitch: int, transpose: bool) -> tuple[Step, ...]:
    """`repeats` fractals: `step` apart in the source from fractal `start` on, `pitch` apart in the destination."""
    start, step, pitch = start * FRACTAL_BYTES, step * FRACTAL_BYTES, pitch * FRACTAL_BYTES
    if transpose:
        return strided_copy(2, (repeats, SIDE, SIDE), start, (step, 2, BLOCK_BYTES), 0, (pitch, BLOCK_BYTES, 2))
    return strided_copy(FRACTAL_BYTES, (repeats,), start, (step,), 0, (pitch,))


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
    if card.npu_arch == ARCH_950 and card.quirk("addr-mode"):
        warnings.append("addr_mode has no effect in the header of this card: the address increments")
        return params.src_stride
    check_decrement(API, params.start_index, params.src_stride, params.repeat_times, card)
    return -params.src_stride


def check_decrement(api: str, start: int, stride: int, repeats: int, card: Card) -> None:
    """Raise ParameterError if an index that steps back from `start` goes below 0: a hardware exception (spec 2.3)."""
    if start < stride * (repeats - 1):
        raise ParameterError(
            f"{api}: the decrementing index goes below 0", field="start_index", value=start,
            allowed=f">= src_stride * (repeat_times - 1) = {stride * (repeats - 1)}", card=card.name,
        )  # fmt: skip
