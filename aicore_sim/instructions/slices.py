"""Sliced DataCopy between GM and UB: SliceInfo lists of both sides (spec api_semantics.md 9.6).

Dimension 0 is the fastest: bursts of whole blocks, `stride` elements apart. Of every further dimension single indices are
selected. One burst row of the source goes to one burst row of the destination, in order, lower dimensions fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import GmTraffic, Op, Range, cached_hash, camel, describe, movement, taken
from aicore_sim.instructions.data_copy import API, route
from aicore_sim.instructions.offer import check_offer
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_runs

MAX_DIM = 8
MAX_ROWS = 1536
MAX_BURSTS = 4095
U32 = 2**32 - 1


@dataclass(frozen=True)
class SliceInfo:
    """One dimension: indices start_index..end_index (inclusive), stride elements skipped between bursts of burst_len
    blocks of 32 B (1 beyond dimension 0), and shape_value, the size of the whole dimension."""

    start_index: int = 0
    end_index: int | None = None
    stride: int = 0
    burst_len: int | None = None
    shape_value: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class Side:
    """One operand in elements: `bursts` a row, `gap` between them; of each dimension above, first selected index times
    its pitch is in `start`, and `counts` and `steps` give the selection. `counts` are lower dimensions first."""

    bursts: int
    gap: int
    start: int
    counts: tuple[int, ...]
    steps: tuple[int, ...]


def build(
    dst_slices: Sequence[SliceInfo], src_slices: Sequence[SliceInfo], dim_value: int, dtype: DataType, src: str, dst: str,
    card: Card,
) -> Op | None:  # fmt: skip
    """The Op of DataCopy(dst, src, dstSliceInfo, srcSliceInfo, dimValue).

    Raises ParameterError for a field outside its range, slices that are not exact or do not match, and rows that do not
    start at whole blocks of UB; UnsupportedError where card or type do not offer it.
    """
    check_offer(card, API, "GM and UB slices", dtype)
    if {src, dst} != {"GM", "UB"}:
        raise ParameterError(f"{API}: slices are copied between GM and UB", field="path", value=f"{src}-{dst}",
                             allowed="GM-UB, UB-GM", card=card.name)  # fmt: skip
    pipe, path = route(API, src, dst, card)
    if not hasattr(dim_value, "__index__") or not 1 <= dim_value <= MAX_DIM:
        raise _refuse("dim_value", dim_value, f"1..{MAX_DIM}", "is out of range", card)
    for name, given in (("slice_list1", dst_slices), ("slice_list2", src_slices)):
        if len(given) < dim_value or not all(isinstance(one, SliceInfo) for one in given):
            raise _refuse(name, len(given), f"{dim_value} SliceInfo (dim_value)", "has not as many dimensions", card)
    warnings: list[str] = []
    here = [taken(API, one, _ranges(i), card, warnings) for i, one in enumerate(dst_slices[:dim_value])]
    there = [taken(API, one, _ranges(i), card, warnings) for i, one in enumerate(src_slices[:dim_value])]
    burst = here[0].burst_len or 0
    if burst != there[0].burst_len:
        raise _refuse("burst_len", burst, f"{there[0].burst_len}, as in the source", "differs", card)
    to, out_of = _side(here, dtype, card, warnings), _side(there, dtype, card, warnings)
    _check_match(to, out_of, card)
    size, length = dtype.sizeof(), burst * BLOCK_BYTES
    if card.quirk("slice-burst-16-bit") and length > 0xFFFF:
        warnings.append(f"burst_len = {burst}: {length} B do not fit 16 bits and become {length & 0xFFFF}")
        length &= 0xFFFF
        if length == 0:
            return None
    local = to if dst == "UB" else out_of
    _check_blocks(local, size, card)
    steps: list[Step] = []
    rows = int(np.prod(to.counts))
    dst_pitch, src_pitch = (length + side.gap * size for side in (to, out_of))
    if to.counts == out_of.counts:
        shape = (*reversed(to.counts), to.bursts)
        src_strides = (*[step * size for step in reversed(out_of.steps)], src_pitch)
        dst_strides = (*[step * size for step in reversed(to.steps)], dst_pitch)
        steps.extend(strided_copy(length, shape, out_of.start * size, src_strides, to.start * size, dst_strides))
    else:
        for d, s in zip(_starts(to), _starts(out_of), strict=True):
            steps.extend(strided_copy(length, (to.bursts,), s * size, (src_pitch,), d * size, (dst_pitch,)))
    cost = GmTraffic(path, rows * to.bursts * length, rows * to.bursts, is_read=src == "GM")
    op = movement(API, pipe, path, Transfer(tuple(steps)), cost, aligns=(BLOCK_BYTES, 1) if dst == "UB" else (1, BLOCK_BYTES),
                  detail=f"to {_shown(here)} from {_shown(there)}", warnings=warnings)  # fmt: skip
    gm, pitch = (out_of, src_pitch) if src == "GM" else (to, dst_pitch)
    op.gm_runs = strided_runs(length, (*reversed(gm.counts), gm.bursts), gm.start * size,
                              (*[step * size for step in reversed(gm.steps)], pitch))  # fmt: skip
    return op


def _refuse(field: str, value: Any, allowed: str, why: str, card: Card) -> ParameterError:
    return ParameterError(f"{API}: SliceInfo {field} ({camel(field)}) {why}", field=field, value=value, allowed=allowed,
                          card=card.name)  # fmt: skip


def _ranges(dim: int) -> dict[str, Range]:
    return {"start_index": (0, U32), "end_index": (0, U32), "stride": (0, U32),
            "burst_len": (1, U32 if dim == 0 else 1, 32), "shape_value": (1, U32)}  # fmt: skip


def _side(slices: Sequence[SliceInfo], dtype: DataType, card: Card, warnings: list[str]) -> Side:
    """Checked dimensions of one operand, in elements."""
    start, pitch = 0, 1
    counts: list[int] = []
    steps: list[int] = []
    bursts = gap = 0
    for dim, one in enumerate(slices):
        first, last, skipped = one.start_index, one.end_index or 0, one.stride
        if last >= one.shape_value:
            raise _refuse("end_index", last, f"< shape_value = {one.shape_value}", "lies past the dimension", card)
        if first > last:
            raise _refuse("start_index", first, f"<= end_index = {last}", "lies behind the end", card)
        length = (one.burst_len or 0) * dtype.c0 if dim == 0 else 1
        count, rest = divmod(last - first + 1 + skipped, length + skipped)
        if dim == 0:
            if rest or count == 0:
                raise _refuse("end_index", last, f"start_index + n * {length + skipped} - {skipped} - 1",
                              "cuts a burst: bursts and gaps must fill the range", card)  # fmt: skip
            if count > MAX_BURSTS:
                raise _refuse("end_index", last, f"at most {MAX_BURSTS} bursts a row", "asks for too many bursts", card)
            bursts, gap = count, skipped
        else:
            if rest:
                warnings.append(f"end_index = {last} of dimension {dim} is no selected index")
            counts.append(count)
            steps.append((1 + skipped) * pitch)
        start += first * pitch
        pitch *= one.shape_value
    return Side(bursts, gap, start, tuple(counts), tuple(steps))


def _check_match(to: Side, out_of: Side, card: Card) -> None:
    if to.bursts != out_of.bursts:
        raise _refuse("end_index", to.bursts, f"{out_of.bursts} bursts, as in the source", "gives another number of bursts",
                      card)  # fmt: skip
    rows, wanted = int(np.prod(to.counts, dtype=object)), int(np.prod(out_of.counts, dtype=object))
    if rows != wanted:
        raise _refuse("end_index", rows, f"{wanted} rows, as in the source", "gives another number of rows", card)
    if rows > MAX_ROWS:
        raise _refuse("end_index", rows, f"at most {MAX_ROWS} rows", "gives too many rows", card)


def _check_blocks(local: Side, size: int, card: Card) -> None:
    """Bursts in UB start at whole blocks."""
    for field, value in (("stride", local.gap if local.bursts > 1 else 0), ("start_index", local.start)):
        if value * size % BLOCK_BYTES:
            raise _refuse(field, value, f"multiples of {BLOCK_BYTES // size} elements in UB", "is not whole blocks", card)
    for count, step in zip(local.counts, local.steps, strict=True):
        if count > 1 and step * size % BLOCK_BYTES:
            raise _refuse("shape_value", step, f"rows a multiple of {BLOCK_BYTES // size} elements apart in UB",
                          "leaves rows of UB unaligned", card)  # fmt: skip


def _starts(side: Side) -> list[int]:
    """First element of every selected row, lower dimensions fastest."""
    starts = np.array([side.start], np.int64)
    for count, step in zip(side.counts, side.steps, strict=True):
        starts = (starts[None, :] + np.arange(count)[:, None] * step).reshape(-1)
    return [int(start) for start in starts]


def _shown(slices: Sequence[SliceInfo]) -> str:
    return " ".join(f"[{describe(one)}]" for one in slices)
