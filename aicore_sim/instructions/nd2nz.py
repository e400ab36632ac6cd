"""DataCopy with a change of layout into NZ: ND2NZ and DN2NZ from GM to L1 (spec api_semantics.md 8).

Both take matrices of N x D elements from GM and write them as blocks of 32 B: destination row n of column block d / C0
holds elements d of row n. ND sources store rows (d contiguous), DN sources columns (n contiguous).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, Op, Pipe, Range, cached_hash, describe, movement, taken
from aicore_sim.instructions.data_copy import API, ARCH_950, route
from aicore_sim.instructions.offer import both_names, check_offer
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_fill, strided_runs

U16 = 65535
WIDE = 2**40 - 1
MOST_BLOCKS = 1 << 16
"""More blocks of 32 B than L1 holds."""
SMALL_C0 = 4
"""Elements a row takes in SmallC0 mode."""


@dataclass(frozen=True)
class Nd2NzParams:
    """ndNum row-major matrices of nValue rows x dValue columns.

    Source strides and dstNzMatrixStride count elements, start to start; dstNzC0Stride (between column blocks) and
    dstNzNStride (between rows) count 32 B, start to start. For 4-bit types elements are bytes.
    """

    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_d_value: int
    dst_nz_c0_stride: int
    dst_nz_n_stride: int
    dst_nz_matrix_stride: int

    __hash__ = cached_hash


@dataclass(frozen=True)
class Dn2NzParams:
    """dnNum column-major matrices: dValue stored rows of nValue elements, srcDValue apart; units as `Nd2NzParams`."""

    dn_num: int = 0
    n_value: int = 0
    d_value: int = 0
    src_dn_matrix_stride: int = 0
    src_d_value: int = 0
    dst_nz_c0_stride: int = 0
    dst_nz_n_stride: int = 0
    dst_nz_matrix_stride: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class Matrices:
    """What both forms lower to; strides in bytes. `run` is (bytes, count, stride) of the contiguous source rows."""

    num: int
    n: int
    d: int
    size: int
    src_matrix: int
    src_n: int
    src_d: int
    dst_matrix: int
    run: tuple[int, int, int]


def build_nd(params: Nd2NzParams, dtype: DataType, src: str, dst: str, card: Card, small_c0: bool = False) -> Op | None:
    """The Op of DataCopy(dst, src, Nd2NzParams); None for a NOP (ndNum, nValue or dValue 0).

    Raises ParameterError for a field outside its range, UnsupportedError where card or type do not offer it.
    """
    _check_route(src, dst, card, "GM to L1 ND2NZ", dtype)
    warnings: list[str] = []
    ranges = {**source_ranges(card), **dst_ranges(small_c0), "dst_nz_matrix_stride": _pitch_range(params.nd_num, U16, card)}
    params = taken(API, params, ranges, card, warnings)
    if params.nd_num > 1 and params.dst_nz_matrix_stride > 16384:
        warnings.append(f"dst_nz_matrix_stride = {params.dst_nz_matrix_stride} is above the documented 16384")
    matrices = matrices_of(params, dtype, matrix_pitch(params.nd_num, params.dst_nz_matrix_stride, dtype, card, warnings))
    note_wide_sources(params, warnings)
    return _build(params, matrices, card, small_c0, warnings)


def source_ranges(card: Card) -> dict[str, Range]:
    """Ranges of the fields of Nd2NzParams that do not depend on the destination; the structs of 950 are wider."""
    wide = card.npu_arch == ARCH_950
    reach = WIDE if wide else U16
    return {"nd_num": (0, 4095, 16), "n_value": (0, 16384, 16), "d_value": (0, U16, 32 if wide else 16),
            "src_nd_matrix_stride": (0, reach), "src_d_value": (1, reach)}  # fmt: skip


def note_wide_sources(params: Nd2NzParams, warnings: list[str]) -> None:
    """Warn of strides that the struct of 950 has room for, but the page does not list."""
    for field in ("src_nd_matrix_stride", "src_d_value"):
        if getattr(params, field) > U16:
            warnings.append(f"{field} = {getattr(params, field)} is above the documented 65535")


def matrices_of(params: Nd2NzParams, dtype: DataType, dst_pitch: int) -> Matrices:
    """ND matrices in bytes; `dst_pitch` from one destination matrix to the next."""
    size = dtype.sizeof()
    row = params.src_d_value * size
    return Matrices(params.nd_num, params.n_value, params.d_value, size, params.src_nd_matrix_stride * size, row, size,
                    dst_pitch, (params.d_value * size, params.n_value, row))  # fmt: skip


def build_dn(params: Dn2NzParams, dtype: DataType, src: str, dst: str, card: Card, small_c0: bool = False) -> Op | None:
    """The Op of DataCopy(dst, src, Dn2NzParams); None for a NOP (dnNum, nValue or dValue 0). Raises as `build_nd`."""
    _check_route(src, dst, card, "GM to L1 DN2NZ", dtype)
    warnings: list[str] = []
    ranges: Mapping[str, Range] = {
        "dn_num": (0, 4095, 16),
        "n_value": (0, 16384, 16),
        "d_value": (0, 2**21 - 1, 32),
        "src_dn_matrix_stride": (0, WIDE),
        "src_d_value": (1, WIDE),
        **dst_ranges(small_c0),
        "dst_nz_matrix_stride": _pitch_range(params.dn_num, 16384, card),
    }
    params = taken(API, params, ranges, card, warnings)
    if dtype.bits == 4 and params.n_value % 2:
        raise ParameterError(
            "DataCopy: Dn2NzParams.n_value (nValue) must be even for 4-bit types",
            field="n_value",
            value=params.n_value,
            allowed="even",
            card=card.name,
        )
    size = dtype.sizeof()
    row = params.src_d_value * size
    matrices = Matrices(
        params.dn_num,
        params.n_value,
        params.d_value,
        size,
        params.src_dn_matrix_stride * size,
        size,
        row,
        matrix_pitch(params.dn_num, params.dst_nz_matrix_stride, dtype, card, warnings),
        (params.n_value * size, params.d_value, row),
    )
    return _build(params, matrices, card, small_c0, warnings)


def _check_route(src: str, dst: str, card: Card, variant: str, dtype: DataType) -> None:
    check_offer(card, API, variant, dtype)
    if (src, dst) != ("GM", "L1"):
        nd = variant.endswith("ND2NZ")
        raise UnsupportedError(
            f"{both_names(API)}: {'Nd2NzParams' if nd else 'Dn2NzParams'} does not go from {src} to {dst}",
            field="path",
            value=f"{src}-{dst}",
            allowed="GM-L1, GM-UB, UB-L1" if nd else "GM-L1",
            card=card.name,
        )
    route(API, src, dst, card)


def dst_ranges(small_c0: bool) -> dict[str, Range]:
    """Destination strides are unused and unchecked in SmallC0 mode (spec 8.3)."""
    least, most = (0, U16) if small_c0 else (1, 16384)
    return {"dst_nz_c0_stride": (least, most, 16), "dst_nz_n_stride": (least, most, 16)}


def _pitch_range(num: int, most: int, card: Card) -> Range:
    """With one matrix the stride is not used, but has to fit its field; the header of 950 checks no more than that."""
    field = 32 if card.npu_arch == ARCH_950 else 16
    if num == 1 or _pitch_in_16_bits(card):
        return (0, 2**field - 1)
    return (0, most, field)


def _pitch_in_16_bits(card: Card) -> bool:
    """The register of 950 holds the blocks of a matrix in 16 bits (spec 8.5)."""
    return card.quirk("nd2nz-matrix-pitch-16-bit") or (card.wrap and card.npu_arch == ARCH_950)


def matrix_pitch(num: int, stride: int, dtype: DataType, card: Card, warnings: list[str]) -> int:
    """Bytes between destination matrices: whole 32 B blocks, the rest of the stride is dropped (spec 8.2)."""
    if num == 1:
        return 0
    blocks, rest = divmod(stride * dtype.sizeof(), BLOCK_BYTES)
    if rest:
        warnings.append(f"dst_nz_matrix_stride = {stride} elements is no multiple of 32 B and is rounded down")
    if _pitch_in_16_bits(card) and blocks > U16:
        warnings.append(f"dst_nz_matrix_stride = {stride} is {blocks} blocks and becomes {blocks & U16} (16 bits)")
        blocks &= U16
    return blocks * BLOCK_BYTES


def _build(
    params: Nd2NzParams | Dn2NzParams, m: Matrices, card: Card, small_c0: bool, warnings: list[str]
) -> Op | None:
    if small_c0:
        if card.npu_arch != ARCH_950:
            raise UnsupportedError(
                f"{API}: SmallC0 mode (enable_small_c0, enableSmallC0) is not offered on this card",
                field="enable_small_c0",
                value=True,
                allowed="False",
                card=card.name,
            )
        if m.d > SMALL_C0:
            raise ParameterError(
                f"{API}: d_value (dValue) in SmallC0 mode",
                field="d_value",
                value=m.d,
                allowed=f"0..{SMALL_C0}",
                card=card.name,
            )
    if m.num == 0 or m.n == 0 or m.d == 0:
        return None
    if small_c0:
        steps = _small_steps(m)
    else:
        note_overlap(m, params.dst_nz_c0_stride, params.dst_nz_n_stride, warnings)
        steps = nz_steps(m, params.dst_nz_c0_stride * BLOCK_BYTES, params.dst_nz_n_stride * BLOCK_BYTES)
    row_bytes, rows, row_stride = m.run
    cost = GmTraffic("GM-L1", m.num * rows * row_bytes, m.num * rows, is_read=True, layout="nd2nz")
    op = movement(
        API,
        Pipe.MTE2,
        "GM-L1",
        Transfer(steps),
        cost,
        aligns=(BLOCK_BYTES, 1),
        detail=describe(params),
        warnings=warnings,
    )
    # GM is read row by row, not in the 32 B pieces in which the destination is written.
    op.gm_runs = strided_runs(row_bytes, (m.num, rows), 0, (m.src_matrix, row_stride))
    return op


def note_overlap(m: Matrices, c0_stride: int, n_stride: int, warnings: list[str]) -> None:
    """Warn of blocks of 32 B that land on each other, strides in blocks: which of them stays is not defined (spec 8.2)."""
    columns = -(-m.d * m.size // BLOCK_BYTES)
    total = m.num * columns * m.n
    if total > MOST_BLOCKS:
        return  # such a call leaves L1
    parts = ((m.num, m.dst_matrix // BLOCK_BYTES), (columns, c0_stride), (m.n, n_stride))
    places = np.zeros(1, np.int64)
    for count, stride in parts:
        places = (places[:, None] + np.arange(count) * stride).reshape(-1)
    if np.unique(places).size < total:
        warnings.append("destination blocks overlap: the order of the writes is not defined (dst_nz_c0_stride counts the"
                        " rows of a column block)")  # fmt: skip


def nz_steps(m: Matrices, c0_stride: int, n_stride: int) -> tuple[Step, ...]:
    """Whole column blocks, then the last one with its zero tail (spec 8.2). Bytes not addressed keep their value."""
    c0 = BLOCK_BYTES // m.size
    blocks, rest = divmod(m.d, c0)
    steps: tuple[Step, ...] = strided_copy(
        m.size,
        (m.num, blocks, m.n, c0),
        0,
        (m.src_matrix, c0 * m.src_d, m.src_n, m.src_d),
        0,
        (m.dst_matrix, c0_stride, n_stride, m.size),
    )
    if rest:
        last = blocks * c0_stride
        steps += strided_copy(
            m.size,
            (m.num, m.n, rest),
            blocks * c0 * m.src_d,
            (m.src_matrix, m.src_n, m.src_d),
            last,
            (m.dst_matrix, n_stride, m.size),
        )
        steps += strided_fill(bytes((c0 - rest) * m.size), (m.num, m.n), last + rest * m.size, (m.dst_matrix, n_stride))
    return steps


def _small_steps(m: Matrices) -> tuple[Step, ...]:
    """Rows of four elements, zero from dValue on (spec 8.3).

    The text fills the end up to 32 B with zeros, a simulator note says not to rely on it: zeros, marked undefined. It
    comes first, because a following matrix may begin inside it.
    """
    row = SMALL_C0 * m.size
    end = m.n * row
    tail = -end % BLOCK_BYTES
    steps: tuple[Step, ...] = ()
    for undefined in (False, True):
        steps += strided_fill(bytes(tail), (m.num,), end, (m.dst_matrix,), undefined)
    steps += strided_copy(
        m.size, (m.num, m.n, m.d), 0, (m.src_matrix, m.src_n, m.src_d), 0, (m.dst_matrix, row, m.size)
    )
    steps += strided_fill(bytes((SMALL_C0 - m.d) * m.size), (m.num, m.n), m.d * m.size, (m.dst_matrix, row))
    return steps
