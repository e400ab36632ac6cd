"""LoadData with LoadData2DParamsV2: a rectangle of fractals out of an NZ matrix (950; spec api_semantics.md 3)."""

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
from aicore_sim.instructions.cube_layout import SIDE, local_align, require_dtype, rows_for, shared_digits
from aicore_sim.transfer import Copy, Transfer, strided_copy

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


def build(params: LoadData2DParamsV2, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    """The Op of LoadData(dst, src, LoadData2DParamsV2); None where m_step or k_step is 0.

    L1->L0A gives NZ, L1->L0B the same bytes read as ZN; GM->L1 never transposes. A negative src_stride starts at its
    absolute value and steps back (spec api_semantics.md 3.2). Raises UnsupportedError for card, path or element type,
    ParameterError for ranges and for the multiples that a transposition needs (3.1).
    """
    path = f"{src}-{dst}"
    name, variant = ("LoadData", "GM to L1-2D V2") if src == "GM" else ("LoadData_2D_V2", None)
    require_dtype(API, card, rows_for(API, card, name, variant, path), dtype)
    check_fields(API, params, _RANGES, card.name)
    warnings: list[str] = []
    transpose = bool(params.if_transpose)
    if transpose and src == "GM":
        transpose = False
        warnings.append("if_transpose has no meaning from GM to L1 and is ignored")
    if transpose:
        _check_multiples(params, dtype, card)
    if params.m_step == 0 or params.k_step == 0:
        return None
    steps = _transposed(params, dtype) if transpose else _straight(params)
    rows, columns = params.m_step, params.k_step
    if transpose:
        rows, columns = params.k_step * dtype.c0 // SIDE, params.m_step * SIDE // dtype.c0
    if columns > 1 and params.dst_stride < rows:
        warnings.append(f"dst_stride {params.dst_stride} is less than the {rows} row blocks produced: columns overlap")
    transfer = Transfer(steps)
    cost: CostKey
    if src == "GM":
        cost = GmTraffic(path, transfer.nbytes, params.k_step, is_read=True)
    else:
        cost = OnChip(path, "LoadData2DV2", transfer.nbytes)
    return movement(
        API, Pipe.MTE2 if src == "GM" else Pipe.MTE1, path, transfer, cost,
        aligns=(local_align(dst), local_align(src)), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _check_multiples(params: LoadData2DParamsV2, dtype: DataType, card: Card) -> None:
    """A transposition works on squares: 4 fractals of b4, 2 of b8 and b32, 1 of b16 (spec 3.1)."""
    field, multiple = {4: ("m_step", 4), 8: ("m_step", 2), 32: ("k_step", 2)}.get(dtype.bits, ("m_step", 1))
    if getattr(params, field) % multiple:
        raise ParameterError(
            f"{API}: if_transpose with {dtype.name} needs {field} in squares", field=field,
            value=getattr(params, field), allowed=f"multiples of {multiple}", card=card.name,
        )  # fmt: skip


def _start(params: LoadData2DParamsV2) -> int:
    return params.k_start_position * abs(params.src_stride) + params.m_start_position


def _straight(params: LoadData2DParamsV2) -> tuple[Copy, ...]:
    """Source fractal (i, j) goes to j * dst_stride + i, whatever the element type (spec 3.3)."""
    return strided_copy(
        FRACTAL_BYTES, (params.k_step, params.m_step),
        _start(params) * FRACTAL_BYTES, (params.src_stride * FRACTAL_BYTES, FRACTAL_BYTES),
        0, (params.dst_stride * FRACTAL_BYTES, FRACTAL_BYTES),
    )  # fmt: skip


def _transposed(params: LoadData2DParamsV2, dtype: DataType) -> tuple[Copy, ...]:
    """Source row m, column k goes to row r = k, column c = m of the destination (the single formula of spec 3.3).

    Nibbles are the unit of 4-bit types, bytes of all others.
    """
    nibble = dtype.bits == 4
    scale = 2 if nibble else 1
    item = 1 if nibble else dtype.bits // 8
    fractal, block = FRACTAL_BYTES * scale, BLOCK_BYTES * scale
    c0 = dtype.c0
    dims = shared_digits(
        params.m_step * SIDE, SIDE, (fractal, block), c0, (params.dst_stride * fractal, item)
    ) + shared_digits(params.k_step * c0, c0, (params.src_stride * fractal, item), SIDE, (fractal, block))
    shape, src, dst = zip(*dims, strict=True)
    return strided_copy(item, shape, _start(params) * fractal, src, 0, dst, nibble)
