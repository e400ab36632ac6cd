"""Fixpipe and DataCopy out of L0C into GM, L1 or UB, converted on the way (spec api_semantics.md 12.2 to 12.4, 22).

Structs are in `fixpipe_params`, checks and units in `fixpipe_request`, placement in `fixpipe_layout`, values in
`fixpipe_convert`; here they become one Op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.instructions import fixpipe_layout as layout
from aicore_sim.instructions.base import CostKey, FixWork, GmTraffic, Op, Pipe
from aicore_sim.instructions.cube_layout import DEFINED_WORD, L0C_ROW, SIDE, ceil_div
from aicore_sim.instructions.fixpipe_convert import Conversion
from aicore_sim.instructions.fixpipe_layout import Plan
from aicore_sim.instructions.fixpipe_params import (
    COLUMN_MAJOR,
    NZ,
    ROW_MAJOR,
    CopyRegisters,
    DataCopyCO12DstParams,
    FixpipeConfig,
    FixpipeParams,
    FixpipeParamsArch3510,
    FixpipeParamsC310,
    FixpipeParamsM300,
    FixpipeParamsV220,
    Nz2DnParams,
    Nz2NdParams,
)
from aicore_sim.instructions.fixpipe_request import Request, of_copy, of_fixpipe
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer

__all__ = [
    "DataCopyCO12DstParams", "FixpipeConfig", "FixpipeParamsArch3510", "FixpipeParamsC310", "FixpipeParamsM300",
    "FixpipeParamsV220", "Nz2DnParams", "Nz2NdParams",
]  # fmt: skip

_COST_NAMES = {"float16": "half", "bfloat16": "bf16", "float32": "float", "int32": "float"}
"""Row of the card's Fixpipe rates by destination type, int8 for any of 8 bits; int32 is as wide as float."""
_LAYOUT_NAMES = {NZ: "nz2nz", ROW_MAJOR: "nz2nd", COLUMN_MAJOR: "nz2dn"}


def build(
    params: FixpipeParams,
    config: FixpipeConfig,
    src: DataType,
    dst: DataType,
    dst_kind: str,
    card: Card,
    table: bool = False,
) -> Op | None:
    """The Op of Fixpipe(dst, src[, cbuf_workspace], params) from L0C into `dst_kind`; None where a size or count is 0.

    Operands: dst, src, the table of parameter words (with `table`), then the second destination of a call that feeds both
    vector cores. Raises UnsupportedError for struct, path, types and modes that the card lacks, ParameterError for ranges
    and contradictions.
    """
    request = of_fixpipe(params, config, src, dst, dst_kind, card, table)
    return None if request is None else _op(request, src, dst, dst_kind, card)


def build_copy(
    params: DataCopyCO12DstParams, registers: CopyRegisters, src: DataType, dst: DataType, dst_kind: str, card: Card
) -> Op | None:
    """The Op of DataCopy(dst, src, DataCopyCO12DstParams); operands dst, src and, for table modes, the table in FB.

    Raises as `build`.
    """
    request = of_copy(params, registers, src, dst, dst_kind, card)
    return None if request is None else _op(request, src, dst, dst_kind, card)


@dataclass(frozen=True, slots=True)
class Move:
    """One plan of a call: operand that it writes, offsets in bytes, column of the table that its first column has."""

    plan: Plan
    operand: int = 0
    src: int = 0
    dst: int = 0
    column: int = 0

    @property
    def units(self) -> int:
        return self.plan.count * ceil_div(self.plan.blocks, self.plan.unit)


def _moves(request: Request) -> list[Move]:
    """The plans of a call: one, two halves for two destinations, or one a load of the table where its pitch is odd."""
    plan = request.plan
    second = 3 if request.table else 2
    if request.dual == 1:
        half = replace(plan, m=plan.m // 2)
        return [Move(half), Move(half, second, half.m * plan.src_row)]
    if request.dual == 2:
        half = replace(plan, n=plan.n // 2)
        return [Move(half), Move(half, second, half.blocks * plan.src_pitch, 0, half.n)]
    if not request.chunk:
        return [Move(plan)]
    return [
        Move(replace(plan, n=min(request.chunk, plan.n - first)), 0, first // SIDE * plan.src_pitch,
             first // request.chunk * request.chunk_step, first)
        for first in range(0, plan.n, request.chunk)
    ]  # fmt: skip


def _op(request: Request, src: DataType, dst: DataType, dst_kind: str, card: Card) -> Op:
    plan, moves = request.plan, _moves(request)
    effect = FixpipeEffect(moves, src, request.conversion, request.word, request.table)
    nbytes = plan.count * plan.m * plan.n * plan.size
    path = f"L0C-{dst_kind}"
    out = _COST_NAMES.get(dst.name, "int8")
    reads = list(layout.l0c_ranges(plan))
    if request.table:
        reads.append((2, 0, plan.n * 8))
    writes = _writes(moves)
    cost: CostKey
    if dst_kind == "GM":
        cost = GmTraffic(path, nbytes, plan.rows, False, _LAYOUT_NAMES[request.format], out)
    else:
        variant = "_dual" if request.dual else "_strided" if plan.src_row != L0C_ROW else ""
        rate = out + variant if card.has(f"fixpipe.rates.{path}.{out}{variant}") else out
        cost = FixWork(path, rate, nbytes)
    dst_align = 1 if dst_kind == "GM" and request.format != NZ else BLOCK_BYTES
    aligns = [dst_align, L0C_ROW]
    if request.table:
        aligns.append(BLOCK_BYTES)
    if request.dual:
        aligns.append(dst_align)
    return Op(
        request.api, Pipe.FIX, cost, path=path, nbytes=nbytes, effect=effect, reads=reads, writes=writes,
        gm_operand=0 if dst_kind == "GM" else -1,
        gm_runs=np.concatenate([_runs(move) for move in moves]) if dst_kind == "GM" else None,
        unit_flag=request.unit_flag, aligns=aligns, detail=request.detail, warnings=request.warnings,
    )  # fmt: skip


def _writes(moves: Sequence[Move]) -> tuple[tuple[int, int, int], ...]:
    """The range that each destination operand gets."""
    spans: dict[int, tuple[int, int]] = {}
    for move in moves:
        lo, hi = layout.footprint(move.plan).dst_range
        known = spans.get(move.operand, (lo + move.dst, hi + move.dst))
        spans[move.operand] = (min(known[0], lo + move.dst), max(known[1], hi + move.dst))
    return tuple((operand, lo, hi) for operand, (lo, hi) in spans.items())


def _runs(move: Move) -> NDArray[np.int64]:
    runs = layout.gm_runs(move.plan)
    if move.dst:
        runs = runs.copy()
        runs[:, 0] += move.dst
    return runs


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` column blocks from `block` on of one matrix: bytes from the operands' starts, columns of the table."""

    plan: Plan
    operand: int
    block: int
    count: int
    read: int
    write: int
    span: int
    """From the first byte that is read to the end of the last."""
    column: int
    columns: int
    transfer: Transfer


def _pieces(move: Move, lo: int, hi: int) -> Iterator[Piece]:
    """Units lo..hi-1 of one plan, counted through its matrices."""
    plan = move.plan
    per_matrix = ceil_div(plan.blocks, plan.unit)
    while lo < hi:
        matrix, unit = divmod(lo, per_matrix)
        units = min(hi - lo, per_matrix - unit)
        block = unit * plan.unit
        count = min(units * plan.unit, plan.blocks - block)
        yield Piece(
            plan, move.operand, block, count, move.src + matrix * plan.src_matrix + block * plan.src_pitch,
            move.dst + matrix * plan.dst_matrix, layout.source_bytes(plan, count), move.column + block * SIDE,
            plan.columns(block, count), layout.transfer(plan, block, count),
        )  # fmt: skip
        lo += units


class FixpipeEffect:
    """Converts and places L0C blocks, in shares of whole column blocks (matrix by matrix)."""

    __slots__ = ("_conversion", "_moves", "_shares", "_src", "_table", "_word")

    def __init__(self, moves: Sequence[Move], src: DataType, conversion: Conversion, word: int | None, table: bool) -> None:
        assert src.np_dtype is not None
        self._moves = tuple(moves)
        self._src = src.np_dtype
        self._conversion = conversion
        self._word = None if word is None else np.full((1, 1, 1), word, np.uint64)
        self._table = table
        self._shares: dict[tuple[int, int, int], tuple[Piece, ...]] = {}
        """Shares asked for so far: a loop that tears data cuts the same ones every time."""

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        pieces = self._shares.get((first, last, of))
        if pieces is None:
            pieces = self._shares[first, last, of] = tuple(self._cut(first, last, of))
        for piece in pieces:
            self._move(bufs, offs, piece)

    def written_runs(self, operand: int) -> NDArray[np.int64]:
        """Contiguous runs that a destination operand gets, columns as `Transfer.dst_runs`."""
        found = []
        for move in self._moves:
            if move.operand == operand:
                runs = layout.footprint(move.plan).dst_runs.copy()
                runs[:, 0] += move.dst
                found.append(runs)
        return np.concatenate(found)

    def _cut(self, first: int, last: int, of: int) -> Iterator[Piece]:
        total = sum(move.units for move in self._moves)
        lo, hi = total * first // of, total * last // of
        for move in self._moves:
            yield from _pieces(move, max(lo, 0), min(hi, move.units))
            lo, hi = lo - move.units, hi - move.units

    def _move(self, bufs: Sequence[Buffer], offs: Sequence[int], piece: Piece) -> None:
        plan, block, count, transfer = piece.plan, piece.block, piece.count, piece.transfer
        dst, src = bufs[piece.operand], bufs[1]
        read, write = offs[1] + piece.read, offs[piece.operand] + piece.write
        values = layout.block_view(plan, src.bytes(), read, count, self._src)
        words, known = self._words(bufs, offs, piece.column, piece.columns, count)
        results = self._conversion(values, words)
        if not layout.put_rows(plan, results, dst.bytes(), write, block, count):
            transfer.apply(dst.bytes(), write, layout.dense(plan, results), 0)
        marks: NDArray[np.bool_] | None = None
        if not src.is_defined(read, read + piece.span):
            assert src.shadow is not None
            marks = layout.block_view(plan, src.shadow, read, count, np.dtype(np.uint32)) == DEFINED_WORD
        if known is not None:
            marks = np.broadcast_to(known, values.shape) if marks is None else marks & known
        if dst.shadow is None and marks is None and transfer.copied_bytes == transfer.nbytes:
            return
        shown: NDArray[np.uint8] | None = None
        if marks is not None:
            shown = layout.dense(plan, np.repeat(marks.astype(np.uint8), plan.size, axis=2).view(f"V{plan.size}"))
            if dst.shadow is None and transfer.copied_bytes == transfer.nbytes and bool(self._inside(transfer, shown).all()):
                return
        transfer.map_defined(dst.mark_all(), write, shown, 0)

    @staticmethod
    def _inside(transfer: Transfer, shown: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The marks that the movement really takes over."""
        _, hi = transfer.dst_range
        taken = np.ones(hi, np.uint8)
        transfer.apply(taken, 0, shown, 0)
        return taken

    def _words(
        self, bufs: Sequence[Buffer], offs: Sequence[int], column: int, columns: int, blocks: int
    ) -> tuple[NDArray[np.uint64] | None, NDArray[np.bool_] | None]:
        """Parameter words that broadcast over [block, row, column], and which of them are defined (None: all)."""
        if not self._table:
            return self._word, None
        start = offs[2] + column * 8
        words = np.zeros(blocks * SIDE, np.uint64)
        words[:columns] = np.ndarray((columns,), np.uint64, bufs[2].bytes().data, start)
        known: NDArray[np.bool_] | None = None
        if not bufs[2].is_defined(start, start + columns * 8):
            shadow = bufs[2].shadow
            assert shadow is not None
            known = np.ones(blocks * SIDE, np.bool_)
            known[:columns] = shadow[start : start + columns * 8].reshape(-1, 8).all(axis=1)
            known = known.reshape(blocks, 1, SIDE)
        return words.reshape(blocks, 1, SIDE), known
