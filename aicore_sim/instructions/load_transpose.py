"""LoadDataWithTranspose: squares of fractals, transposed on the way from L1 into L0A or L0B (spec api_semantics.md 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType
from aicore_sim.errors import UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, cached_hash, describe, low_bits, movement, taken
from aicore_sim.instructions.cube_layout import SIDE, Dim, local_align
from aicore_sim.instructions.load_data_2d import ARCH_950, check_decrement
from aicore_sim.instructions.offer import both_names, require_dtype, rows_for, type_names
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_fill

API = "LoadDataWithTranspose"
FRACTALS = {4: 4, 8: 2, 16: 1, 32: 2}
"""Fractals of one square by bits: 64 x 64, 32 x 32 and 16 x 16 elements, stacked; of 32 bits two side by side (6.1)."""


@dataclass(frozen=True)
class LoadData2dTransposeParams:
    """One square a repeat. start_index and src_stride count squares.

    dst_gap: fractals from the end of a repeat's first fractal to the start of the next repeat's first one; dst_frac_gap:
    fractals from the end of one fractal of a square to the start of the next. repeat_times is 1 by default, as in pyasc
    (0 in C++). addr_mode 1 (True): the source address decrements.
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 0
    dst_gap: int = 0
    dst_frac_gap: int = 0
    addr_mode: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class LoadData2dTransposeParamsV2:
    """As LoadData2dTransposeParams, but start_index and src_stride count fractals, and src_frac_gap is the gap between
    the fractals of a square in the source. 950 only; repeat_times is 0 (nothing moves) by default, as in C++.
    """

    start_index: int = 0
    repeat_times: int = 0
    src_stride: int = 0
    dst_gap: int = 0
    dst_frac_gap: int = 0
    src_frac_gap: int = 0
    addr_mode: int = 0

    __hash__ = cached_hash


Params = LoadData2dTransposeParams | LoadData2dTransposeParamsV2

_RANGES = {
    "start_index": (0, 65535), "repeat_times": (0, 255), "src_stride": (0, 65535), "dst_gap": (0, 65535),
    "dst_frac_gap": (0, 65535),
}  # fmt: skip
_RANGES_V2 = {**_RANGES, "src_frac_gap": (0, 65535)}
_ADDR_MODE = {"addr_mode": (0, 1)}


def build(params: Params, dtype: DataType, src: str, dst: str, card: Card, notes: list[str] | None = None) -> Op | None:
    """The Op of LoadDataWithTranspose(dst, src, params); None for repeat_times 0.

    addr_mode 1 decrements, as the page says; with the quirk "addr-mode" it increments. Destination fractals that are
    written twice are undefined. Raises UnsupportedError for a path, element type or struct that the card does not offer
    (spec api_semantics.md 6.4), ParameterError for a field out of range and an index below 0. `notes` gets the warnings,
    also of a call that moves nothing.
    """
    path = f"{src}-{dst}"
    _check_offer(params, dtype, path, card)
    warnings = [] if notes is None else notes
    params = taken(API, params, _RANGES_V2 if isinstance(params, LoadData2dTransposeParamsV2) else _RANGES, card, warnings)
    if not isinstance(params.addr_mode, bool):  # a bool on the page, a number in the struct
        params = taken(API, params, _ADDR_MODE, card, warnings)
    start, stride, pitch = _source(params, dtype, card, warnings)
    if params.addr_mode and card.quirk("addr-mode"):
        warnings.append("addr_mode has no effect in the implementation: the address increments")
    elif params.addr_mode:
        check_decrement(API, start, stride, params.repeat_times, card)
        stride = -stride
        warnings.append("addr_mode 1 decrements as the page says; the published implementation increments")
    if params.repeat_times == 0:
        return None
    _check_squares(params, dtype, warnings)
    transfer = Transfer(_lower(params, dtype, start, stride, pitch, warnings))
    return movement(
        API, Pipe.MTE1, path, transfer, OnChip(path, API, transfer.copied_bytes),
        aligns=(local_align(dst), local_align(src)), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _check_offer(params: Params, dtype: DataType, path: str, card: Card) -> None:
    rows = rows_for(API, card, API, None, path)
    require_dtype(API, card, rows, dtype)
    if dtype.bits == 4 and path != "L1-L0B":
        raise UnsupportedError(f"{both_names(API)}: {type_names(dtype)} goes into L0B only", field="dtype", value=dtype.name,
                               allowed="types of 8 bits and more here", card=card.name)  # fmt: skip
    if isinstance(params, LoadData2dTransposeParamsV2) and card.npu_arch != ARCH_950:
        raise UnsupportedError(f"{both_names(API)}: LoadData2dTransposeParamsV2 is not offered on this card", field="params",
                               value=type(params).__name__, allowed="LoadData2dTransposeParams", card=card.name)  # fmt: skip


def _source(params: Params, dtype: DataType, card: Card, warnings: list[str]) -> tuple[int, int, int]:
    """Start, step from repeat to repeat and pitch inside a square, in fractals of the source."""
    if isinstance(params, LoadData2dTransposeParamsV2):
        return params.start_index, params.src_stride, params.src_frac_gap + 1
    n = FRACTALS[dtype.bits]
    start, stride = params.start_index * n, params.src_stride * n
    if card.npu_arch != ARCH_950:
        return start, stride, 1
    for field, fractals in (("start_index", start), ("src_stride", stride)):
        if fractals > 65535:
            kept = low_bits(fractals, 16)
            warnings.append(f"{field} = {getattr(params, field)}: the header of this card doubles it in 16 bits and"
                            f" would use {kept // n}")  # fmt: skip
    if card.quirk("transpose-v1-16-bit"):
        start, stride = low_bits(start, 16), low_bits(stride, 16)
    return start, stride, 1


def _check_squares(params: Params, dtype: DataType, warnings: list[str]) -> None:
    """Warn where squares of the second struct share some fractals, as with numbers meant for the first one."""
    n = FRACTALS[dtype.bits]
    if not isinstance(params, LoadData2dTransposeParamsV2) or not params.src_stride or n == 1:
        return
    square = np.arange(n) * (params.src_frac_gap + 1)
    read = np.add.outer(np.arange(params.repeat_times) * params.src_stride, square)
    if np.unique(read).size < read.size:
        warnings.append(f"src_stride {params.src_stride} counts single fractals in {type(params).__name__}: squares of {n}"
                        " fractals share some of them")  # fmt: skip


# ---- lowering -------------------------------------------------------------------------------------------------------
def _lower(
    params: Params, dtype: DataType, start: int, stride: int, pitch: int, warnings: list[str]
) -> tuple[Step, ...]:
    """Repeat by repeat one square; `start`, `stride` and `pitch` in fractals (spec 6.2)."""
    repeats, apart = params.repeat_times, params.dst_gap + 1
    n = FRACTALS[dtype.bits]
    places = np.add.outer(np.arange(repeats) * apart, np.arange(n) * (params.dst_frac_gap + 1))
    found, times = np.unique(places, return_counts=True)
    twice = found[times > 1]
    if not twice.size:
        return _squares(params, dtype, repeats, start, stride, pitch, 0)
    warnings.append(f"dst_gap {params.dst_gap} and dst_frac_gap {params.dst_frac_gap} make repeats overlap: the fractals"
                    " written twice are undefined")  # fmt: skip
    steps: list[Step] = []
    for r in range(repeats):
        steps.extend(_squares(params, dtype, 1, start + stride * r, stride, pitch, apart * r))
    for first, count in _runs(twice.tolist()):
        steps.extend(strided_fill(bytes(FRACTAL_BYTES), (count,), first * FRACTAL_BYTES, (FRACTAL_BYTES,), undefined=True))
    return tuple(steps)


def _squares(params: Params, dtype: DataType, repeats: int, start: int, stride: int, pitch: int, at: int) -> tuple[Step, ...]:
    """`repeats` squares from source fractal `start` on, the first one to destination fractal `at`."""
    # Nibbles are the unit of 4-bit types, bytes of all others.
    nibble = dtype.bits == 4
    scale, item, n = 2 if nibble else 1, max(dtype.bits // 8, 1), FRACTALS[dtype.bits]
    fractal, row = FRACTAL_BYTES * scale, BLOCK_BYTES * scale
    apart, between = (params.dst_gap + 1) * fractal, (params.dst_frac_gap + 1) * fractal
    if dtype.bits == 32:
        # Result fractal q, row 8 t + v, column c is row 8 q + c, column v of source fractal t.
        square: list[Dim] = [(2, 8 * row, between), (2, pitch * fractal, 8 * row), (8, item, row), (8, row, item)]
    else:
        # Result fractal q, row v, column 16 t + u is row u, column 16 q + v of source fractal t.
        square = [(n, SIDE * item, between), (n, pitch * fractal, SIDE * item), (SIDE, item, row), (SIDE, row, item)]
    shape, src, dst = zip((repeats, stride * fractal, apart), *square, strict=True)
    return strided_copy(item, shape, start * fractal, src, at * fractal, dst, nibble)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """(first, count) of the runs of consecutive ones among sorted numbers."""
    first = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            yield numbers[first], i - first
            first = i
