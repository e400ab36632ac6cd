"""LoadData with LoadData2DParamsV2: a rectangle of fractals out of an NZ matrix (950; spec api_semantics.md 3).

Load2DBitMode gives the same fields packed into two words (spec 4), the MX form moves scales besides (`load_data_2d_mx`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aicore_sim.card_model import ApiSupport
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
    movement,
    taken,
)
from aicore_sim.instructions.cube_layout import SIDE, Dim, local_align, shared_digits
from aicore_sim.instructions.offer import require_dtype, rows_for
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_fill

API = "LoadData"


@dataclass(frozen=True)
class LoadData2DParamsV2:
    """m_step x k_step fractals from row block m_start_position (16 rows) and column block k_start_position (32 B).

    src_stride: fractals from one column block of the source to the next; dst_stride: fractals from one column block of
    the destination to the next.
    """

    m_start_position: int = 0
    k_start_position: int = 0
    m_step: int = 0
    k_step: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    if_transpose: bool = False
    sid: int = 0

    __hash__ = cached_hash


_RANGES = {
    "m_start_position": (0, 65535), "k_start_position": (0, 65535), "m_step": (0, 255), "k_step": (0, 255),
    "src_stride": (-32768, 32767), "dst_stride": (0, 65535), "sid": (0, 255),
}  # fmt: skip


def build(
    params: LoadData2DParamsV2, dtype: DataType, src: str, dst: str, card: Card, notes: list[str] | None = None
) -> Op | None:
    """The Op of LoadData(dst, src, LoadData2DParamsV2); None where m_step or k_step is 0.

    L1->L0A gives NZ, L1->L0B the same bytes read as ZN; GM->L1 never transposes. A negative src_stride starts at its
    absolute value and steps back (spec api_semantics.md 3.2). Destination fractals that several columns write are
    undefined. Raises UnsupportedError for card, path or element type, ParameterError for ranges and for the multiples
    that a transposition needs (3.1). `notes` gets the warnings, also of a call that moves nothing.
    """
    name, variant = ("LoadData", "GM to L1-2D V2") if src == "GM" else ("LoadData_2D_V2", None)
    return _build(params, dtype, src, dst, card, rows_for(API, card, name, variant, f"{src}-{dst}"), notes)


def build_bit_mode(
    params: LoadData2DParamsV2, dtype: DataType, src: str, dst: str, card: Card, notes: list[str] | None = None
) -> Op | None:
    """As `build`, for the fields of a Load2DBitModeParam: from L1 only (spec api_semantics.md 4.3)."""
    return _build(params, dtype, src, dst, card, rows_for(API, card, "LoadData_2D_BitMode", None, f"{src}-{dst}"), notes)


def _build(params: LoadData2DParamsV2, dtype: DataType, src: str, dst: str, card: Card, rows: list[ApiSupport],
           notes: list[str] | None) -> Op | None:  # fmt: skip
    warnings = [] if notes is None else notes
    require_dtype(API, card, rows, dtype)
    params = checked(params, dtype, src, card, warnings)
    if params.m_step == 0 or params.k_step == 0:
        return None
    path = f"{src}-{dst}"
    transfer = Transfer(lower(params, dtype, warnings))
    cost: CostKey
    if src == "GM":
        cost = GmTraffic(path, transfer.copied_bytes, params.k_step, is_read=True)
    else:
        cost = OnChip(path, "LoadData2DV2", transfer.copied_bytes)
    return movement(
        API, Pipe.MTE2 if src == "GM" else Pipe.MTE1, path, transfer, cost,
        aligns=(local_align(dst), local_align(src)), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def checked(
    params: LoadData2DParamsV2, dtype: DataType, src: str, card: Card, warnings: list[str]
) -> LoadData2DParamsV2:
    """The fields as the instruction takes them: in range, a transposition in whole squares and not from GM.

    A transposition works on squares: 4 fractals of b4, 2 of b8 and b32, 1 of b16 (spec 3.1).
    """
    params = taken(API, params, _RANGES, card, warnings)
    if not params.if_transpose:
        return params
    if src == "GM":
        warnings.append("if_transpose has no meaning from GM to L1 and is ignored")
        return LoadData2DParamsV2(params.m_start_position, params.k_start_position, params.m_step, params.k_step,
                                  params.src_stride, params.dst_stride)  # fmt: skip
    field, multiple = {4: ("m_step", 4), 8: ("m_step", 2), 32: ("k_step", 2)}.get(dtype.bits, ("m_step", 1))
    if getattr(params, field) % multiple:
        raise ParameterError(
            f"{API}: if_transpose with {dtype.name} needs {field} in squares", field=field,
            value=getattr(params, field), allowed=f"multiples of {multiple}", card=card.name,
        )  # fmt: skip
    return params


# ---- lowering -------------------------------------------------------------------------------------------------------
def lower(params: LoadData2DParamsV2, dtype: DataType, warnings: list[str]) -> tuple[Step, ...]:
    """The fractals that move, nothing checked: source element (m, k) to row m, column k of the destination, or to row k,
    column m if transposed (the single formula of spec api_semantics.md 3.3).
    """
    rows, columns = params.m_step, params.k_step
    if params.if_transpose:
        rows, columns = params.k_step * dtype.c0 // SIDE, params.m_step * SIDE // dtype.c0
    part = partial(_columns, params, dtype)
    return laid_out(part, columns, rows, params.dst_stride, FRACTAL_BYTES, warnings)


def laid_out(part: Callable[[int, int], tuple[Step, ...]], columns: int, rows: int, pitch: int, unit: int,
             warnings: list[str]) -> tuple[Step, ...]:  # fmt: skip
    """`columns` columns of `rows` units of `unit` bytes, `pitch` units apart; `part(first, count)` moves some of them.

    Columns that overlap are written one after the other, and the units that several of them write are undefined.
    """
    if columns == 1 or pitch >= rows:
        return part(0, columns)
    warnings.append(f"dst_stride {pitch} is less than the {rows} blocks of a column: columns overlap, and which of them"
                    " stays is not stated")  # fmt: skip
    steps = [step for column in range(columns) for step in part(column, 1)]
    steps.extend(strided_fill(bytes(unit), (columns - 1, rows - pitch), pitch * unit, (pitch * unit, unit), undefined=True))
    return tuple(steps)


def _columns(params: LoadData2DParamsV2, dtype: DataType, first: int, count: int) -> tuple[Step, ...]:
    """`count` columns of destination fractals from column `first` on."""
    start = params.k_start_position * abs(params.src_stride) + params.m_start_position
    if not params.if_transpose:
        return strided_copy(
            FRACTAL_BYTES, (count, params.m_step),
            (start + first * params.src_stride) * FRACTAL_BYTES, (params.src_stride * FRACTAL_BYTES, FRACTAL_BYTES),
            first * params.dst_stride * FRACTAL_BYTES, (params.dst_stride * FRACTAL_BYTES, FRACTAL_BYTES),
        )  # fmt: skip
    # Nibbles are the unit of 4-bit types, bytes of all others.
    nibble = dtype.bits == 4
    scale, item, c0 = 2 if nibble else 1, max(dtype.bits // 8, 1), dtype.c0
    fractal, block = FRACTAL_BYTES * scale, BLOCK_BYTES * scale
    row = first * c0
    dims = _source_rows(count * c0, (fractal, block), c0, (params.dst_stride * fractal, item))
    dims += shared_digits(params.k_step * c0, c0, (params.src_stride * fractal, item), SIDE, (fractal, block))
    shape, src, dst = zip(*dims, strict=True)
    from_row = row // SIDE * fractal + row % SIDE * block
    return strided_copy(item, shape, start * fractal + from_row, src, first * params.dst_stride * fractal, dst, nibble)


def _source_rows(extent: int, src: tuple[int, int], c0: int, dst: tuple[int, int]) -> list[Dim]:
    """The rows of the source, which become the columns of the destination."""
    if extent % SIDE:  # one column of a 4-byte type: half a fractal
        return [(extent, src[1], dst[1])]
    return shared_digits(extent, SIDE, src, c0, dst)
