"""ND2NZ of Nd2NzParams around UB: GM -> UB on a vector core, and UB -> L1 of 950 (spec api_semantics.md 8.8, 9.1).

The vendor's library does both with block copies, one column block of a matrix at a time; here either is one instruction
whose GM requests are those of the blocks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import GmTraffic, OnChip, Op, Range, camel, describe, movement, taken
from aicore_sim.instructions.data_copy import API, ARCH_950, route
from aicore_sim.instructions.nd2nz import (
    U16,
    Matrices,
    Nd2NzParams,
    dst_ranges,
    matrices_of,
    matrix_pitch,
    note_overlap,
    note_wide_sources,
    nz_steps,
    source_ranges,
)
from aicore_sim.instructions.offer import check_offer
from aicore_sim.transfer import Copy, Step, Transfer, strided_runs


def build_to_ub(params: Nd2NzParams, dtype: DataType, card: Card) -> Op | None:
    """The Op of DataCopy(UB tensor, GM tensor, Nd2NzParams); None for a NOP (ndNum, nValue or dValue 0).

    Raises ParameterError for a field outside its range, UnsupportedError where card or type do not offer it.
    """
    check_offer(card, API, "GM to UB ND2NZ", dtype)
    pipe, path = route(API, "GM", "UB", card)
    warnings: list[str] = []
    field = 32 if card.npu_arch == ARCH_950 else 16
    least, most = (0, 2**field - 1) if params.nd_num == 1 else (1, U16)
    pitch: Range = (least, most, field)
    params = taken(API, params, {**source_ranges(card), **dst_ranges(False), "dst_nz_matrix_stride": pitch}, card, warnings)
    note_wide_sources(params, warnings)
    if 0 in (params.nd_num, params.n_value, params.d_value):
        return None
    m = matrices_of(params, dtype, matrix_pitch(params.nd_num, params.dst_nz_matrix_stride, dtype, card, warnings))
    note_overlap(m, params.dst_nz_c0_stride, params.dst_nz_n_stride, warnings)
    steps = nz_steps(m, params.dst_nz_c0_stride * BLOCK_BYTES, params.dst_nz_n_stride * BLOCK_BYTES)
    start = 0
    if card.quirk("ub-nd2nz-once"):
        # Every matrix starts one stride on, so that they all fall on one place.
        start = m.src_matrix
        shift = params.dst_nz_matrix_stride * m.size
        m = replace(m, num=1)
        steps = nz_steps(m, params.dst_nz_c0_stride * BLOCK_BYTES, params.dst_nz_n_stride * BLOCK_BYTES)
        steps = tuple(_moved(step, start, shift) for step in steps)
    runs = [strided_runs(nbytes, shape, start + first, strides) for nbytes, shape, first, strides in _pieces(m)]
    rows = m.num * m.n * -(-m.d * m.size // BLOCK_BYTES)
    cost = GmTraffic(path, m.num * m.n * m.d * m.size, rows, is_read=True)
    op = movement(API, pipe, path, Transfer(steps), cost, aligns=(BLOCK_BYTES, 1), detail=describe(params),
                  warnings=warnings)  # fmt: skip
    op.gm_runs = np.concatenate(runs)
    return op


def build_to_l1(params: Nd2NzParams, dtype: DataType, card: Card) -> Op:
    """The Op of DataCopy(L1 tensor, UB tensor, Nd2NzParams): one matrix, rows of whole blocks (950).

    Raises ParameterError for a field outside its range, UnsupportedError where card or type do not offer it.
    """
    pipe, path = route(API, "UB", "L1", card)
    check_offer(card, API, "UB to L1 ND2NZ", dtype)
    warnings: list[str] = []
    ranges: dict[str, Range] = {
        **source_ranges(card),
        "nd_num": (1, 1, 16),
        "n_value": (1, 16384),
        "d_value": (1, U16, 32),
        **dst_ranges(False),
        "dst_nz_matrix_stride": (0, 2**32 - 1),
    }
    params = taken(API, params, ranges, card, warnings)
    for field in ("d_value", "src_d_value"):
        nbytes = getattr(params, field) * dtype.sizeof()
        if nbytes % BLOCK_BYTES:
            raise ParameterError(f"{API}: Nd2NzParams.{field} ({camel(field)}) from UB to L1 counts whole blocks",
                                 field=field, value=getattr(params, field), allowed=f"multiples of {dtype.c0}",
                                 card=card.name)  # fmt: skip
    m = matrices_of(params, dtype, 0)
    note_overlap(m, params.dst_nz_c0_stride, params.dst_nz_n_stride, warnings)
    steps = nz_steps(m, params.dst_nz_c0_stride * BLOCK_BYTES, params.dst_nz_n_stride * BLOCK_BYTES)
    cost = OnChip(path, API, m.n * m.d * m.size)
    return movement(API, pipe, path, Transfer(steps), cost, aligns=(BLOCK_BYTES, BLOCK_BYTES), detail=describe(params),
                    warnings=warnings)  # fmt: skip


def _pieces(m: Matrices) -> list[tuple[int, tuple[int, ...], int, tuple[int, ...]]]:
    """(bytes, shape, start, strides) of the pieces of GM that are read: 32 B of every row of every whole column block,
    then what is left of the rows."""
    c0 = BLOCK_BYTES // m.size
    blocks, rest = divmod(m.d, c0)
    pieces: list[tuple[int, tuple[int, ...], int, tuple[int, ...]]] = []
    if blocks:
        pieces.append((BLOCK_BYTES, (m.num, blocks, m.n), 0, (m.src_matrix, BLOCK_BYTES, m.src_n)))
    if rest:
        pieces.append((rest * m.size, (m.num, m.n), blocks * BLOCK_BYTES, (m.src_matrix, m.src_n)))
    return pieces


def _moved(step: Step, src: int, dst: int) -> Step:
    if isinstance(step, Copy):
        return replace(step, src=step.src + src, dst=step.dst + dst)
    return replace(step, dst=step.dst + dst)
