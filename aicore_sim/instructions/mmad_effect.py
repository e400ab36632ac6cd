"""What Mmad does to L0C: C = start + A x B on fractals, with the defined marks (spec api_semantics.md 1.5, 3.5, 12.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType
from aicore_sim.instructions.cube_layout import (
    DEFINED_WORD,
    L0C_BLOCK,
    L0C_ROW,
    SIDE,
    align_up,
    ceil_div,
    fractal_rows,
    l0c_view,
)
from aicore_sim.instructions.cube_numbers import Numbers
from aicore_sim.memory import Buffer, Bytes
from aicore_sim.narrow_floats import decode_table

F32, I32, U32, U8 = (np.dtype(x) for x in (np.float32, np.int32, np.uint32, np.uint8))
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
SCALE_GROUP = 32
"""Elements along k that share one scale."""
SCALE_PAIR = 2 * SCALE_GROUP
"""Elements along k of one scale fractal: 16 rows of 2 scales."""


@dataclass(frozen=True)
class Product:
    """One matrix product. `start` says what C starts from: "zero", "C" (itself), "bias" (a row) or "L0C" (another tile).

    `zz` is the order of the fractals of A (rows of fractals, else columns); `a_columns` the fractals of a row of A where
    that is more than k needs (0: it is not). `mx`: operands 3 and 4 are the scales of A and B; the start operand, where
    there is one, comes last.
    """

    m: int
    n: int
    k: int
    fm: DataType
    filter: DataType
    start: str = "zero"
    zz: bool = True
    gemv: bool = False
    a_columns: int = 0
    hf32: str = ""
    mx: bool = False


class MmadEffect:
    """C = start + A x B on the fractals of L0A, L0B and L0C, in shares of whole 16-column blocks of L0C.

    Every column block is multiplied by itself, so that the floating-point result does not depend on how the work is
    shared. int32 results saturate at the end of the instruction.
    """

    __slots__ = (
        "_a", "_b", "_start", "_stride_a", "a_bytes", "b_bytes", "blocks_k", "blocks_m", "blocks_n", "p", "pitch",
        "scale_pairs",
    )  # fmt: skip

    def __init__(self, p: Product) -> None:
        self.p = p
        self.blocks_m, self.blocks_n = ceil_div(p.m, SIDE), ceil_div(p.n, SIDE)
        self.blocks_k = ceil_div(p.k, p.fm.c0)
        self.scale_pairs = ceil_div(p.k, SCALE_PAIR)
        self.pitch = self.blocks_m * L0C_BLOCK
        """Bytes of one column block of L0C."""
        self._a = Numbers(p.fm, p.k, p.hf32, p.mx)
        self._b = Numbers(p.filter, p.k, p.hf32, p.mx)
        self._start = 5 if p.mx else 3
        if p.zz:
            columns = p.a_columns or self.blocks_k
            self._stride_a = (columns * FRACTAL_BYTES, FRACTAL_BYTES)
            self.a_bytes = ((self.blocks_m - 1) * columns + self.blocks_k) * FRACTAL_BYTES
        else:
            self._stride_a = (FRACTAL_BYTES, self.blocks_m * FRACTAL_BYTES)
            self.a_bytes = self.blocks_m * self.blocks_k * FRACTAL_BYTES
        if p.gemv:
            self.a_bytes = ceil_div(p.k * p.fm.bits, FRACTAL_BYTES * 8) * FRACTAL_BYTES
        self.b_bytes = self.blocks_n * self.blocks_k * FRACTAL_BYTES

    def reads(self) -> list[tuple[int, int, int]]:
        """(operand, lo, hi) of what is read."""
        found = [(1, 0, self.a_bytes), (2, 0, self.b_bytes)]
        if self.p.mx:
            found += [(3, 0, self.blocks_m * self.scale_pairs * BLOCK_BYTES),
                      (4, 0, self.blocks_n * self.scale_pairs * BLOCK_BYTES)]  # fmt: skip
        if self.p.start == "C":
            found.append((0, 0, self.blocks_n * self.pitch))
        elif self.p.start == "L0C":
            found.append((self._start, 0, self.blocks_n * self.pitch))
        elif self.p.start == "bias":
            found.append((self._start, 0, self.p.n * 4))
        return found

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = self.blocks_n * first // of, self.blocks_n * last // of
        if lo >= hi:
            return
        kind = F32 if self.p.fm.is_float() else I32
        c = self._tile(bufs[0].bytes(), offs[0], lo, hi, kind)
        a, b = self._left(bufs[1].bytes(), offs[1]), self._right(bufs[2].bytes(), offs[2], lo, hi)
        if self.p.mx:
            a = a * self._scales(bufs[3].bytes(), offs[3], 0, self.blocks_m).reshape(-1, self.p.k)[: self.p.m]
            b = b * self._scales(bufs[4].bytes(), offs[4], lo, hi)
            tail = self._tail(hi)
            if tail:
                b[-1, tail:] = 0
        start: NDArray[Any] | None = None
        if self.p.start == "bias":
            start = self._bias_row(bufs[self._start].bytes(), offs[self._start], lo, hi, kind)
        elif self.p.start == "L0C":
            start = self._tile(bufs[self._start].bytes(), offs[self._start], lo, hi, kind)[:, : self.p.m]
        elif self.p.start == "C":
            start = c[:, : self.p.m]
        with np.errstate(all="ignore"):
            _accumulate(c[:, : self.p.m], a, b.transpose(0, 2, 1), start)
        c[:, self.p.m :] = 0
        tail = self._tail(hi)
        if tail:
            c[-1, :, tail:] = 0
        if bufs[0].shadow is not None:
            self._mark(bufs, offs, lo, hi)

    def _tail(self, hi: int) -> int:
        """Columns used of the last block of a share that reaches the end of n; 0: all."""
        return self.p.n % SIDE if hi == self.blocks_n else 0

    def _tile(self, raw: Bytes, offset: int, lo: int, hi: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Blocks lo..hi-1 of a tile laid out as C."""
        return l0c_view(raw, offset + lo * self.pitch, hi - lo, self.blocks_m * SIDE, self.pitch, kind)

    # ---- operands --------------------------------------------------------------------------------------------------
    def _left(self, raw: Bytes, offset: int) -> NDArray[Any]:
        """A as [m, k] in the type of the product."""
        p, word = self.p, self._a.word
        if p.gemv:
            count = ceil_div(p.k, 2) if p.fm.bits == 4 else p.k
            return self._a(np.ndarray((1, count), word, raw.data, offset))[:, : p.k]
        view = fractal_rows(raw, offset, self.blocks_m, self._stride_a[0], self.blocks_k, self._stride_a[1], word)
        return self._a(view).reshape(self.blocks_m * SIDE, -1)[: p.m, : p.k]

    def _right(self, raw: Bytes, offset: int, lo: int, hi: int) -> NDArray[Any]:
        """The columns of B in blocks lo..hi-1, as [block, column, k]; columns past n are 0."""
        view = fractal_rows(raw, offset + lo * FRACTAL_BYTES, hi - lo, FRACTAL_BYTES, self.blocks_k,
                            self.blocks_n * FRACTAL_BYTES, self._b.word)  # fmt: skip
        numbers = self._b(view).reshape(hi - lo, SIDE, -1)
        tail = self._tail(hi)
        if tail:
            numbers[-1, tail:] = 0
        return numbers[:, :, : self.p.k]

    def _scale_bytes(self, raw: Bytes, offset: int, lo: int, hi: int) -> NDArray[Any]:
        """Scales of row (column) blocks lo..hi-1 as [block, row, group]: fractals of 32 B, those of one block in a row."""
        width = 2 * self.scale_pairs
        view: NDArray[Any] = np.ndarray(
            (hi - lo, SIDE, self.scale_pairs, 2), U8, raw.data, offset + lo * self.scale_pairs * BLOCK_BYTES,
            (self.scale_pairs * BLOCK_BYTES, 2, BLOCK_BYTES, 1),
        )  # fmt: skip
        return view.reshape(hi - lo, SIDE, width)

    def _scales(self, raw: Bytes, offset: int, lo: int, hi: int) -> NDArray[np.float64]:
        """The factor of every element, as [block, row, k]."""
        factors = decode_table("fp8_e8m0").astype(np.float64)[self._scale_bytes(raw, offset, lo, hi)]
        return np.repeat(factors, SCALE_GROUP, axis=2)[:, :, : self.p.k]

    def _bias_row(self, raw: Bytes, offset: int, lo: int, hi: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """The bias of blocks lo..hi-1 as [block, 1, column]; 0 past n."""
        row = np.zeros((hi - lo) * SIDE, kind)
        count = min(self.p.n, hi * SIDE) - lo * SIDE
        row[:count] = np.ndarray((count,), kind, raw.data, offset + lo * L0C_ROW)
        return row.reshape(hi - lo, 1, SIDE)

    # ---- defined bytes ---------------------------------------------------------------------------------------------
    def _mark(self, bufs: Sequence[Buffer], offs: Sequence[int], lo: int, hi: int) -> None:
        """A hole in row i of A or column j of B makes C(i, j) undefined; what lies past m, n, k does not count."""
        shadow = bufs[0].shadow
        assert shadow is not None
        m = self.p.m
        marks = self._tile(shadow, offs[0], lo, hi, U32)
        inside = marks[:, :m]
        parts = [self._rows_defined(bufs[1], offs[1]), self._columns_defined(bufs[2], offs[2], lo, hi)]
        if self.p.mx:
            rows = self._scales_defined(bufs[3], offs[3], 0, self.blocks_m)
            parts.append(None if rows is None else rows.reshape(1, -1, 1)[:, :m])
            columns = self._scales_defined(bufs[4], offs[4], lo, hi)
            parts.append(None if columns is None else columns.reshape(hi - lo, 1, SIDE))
        parts.append(self._start_defined(bufs, offs, lo, hi, inside))
        defined: NDArray[np.bool_] | None = None
        for part in parts:
            if part is not None:
                defined = part if defined is None else defined & part
        inside[...] = DEFINED_WORD if defined is None else np.where(defined, DEFINED_WORD, U32.type(0))
        marks[:, m:] = 0
        tail = self._tail(hi)
        if tail:
            marks[-1, :, tail:] = 0

    def _start_defined(
        self, bufs: Sequence[Buffer], offs: Sequence[int], lo: int, hi: int, inside: NDArray[Any]
    ) -> NDArray[np.bool_] | None:
        if self.p.start == "zero":
            return None
        if self.p.start == "C":
            words: NDArray[Any] = inside
        else:
            shadow = bufs[self._start].shadow
            if shadow is None:
                return None
            offset = offs[self._start]
            if self.p.start == "bias":
                words = self._bias_row(shadow, offset, lo, hi, U32)
            else:
                words = self._tile(shadow, offset, lo, hi, U32)[:, : self.p.m]
        old = words == DEFINED_WORD
        return None if bool(old.all()) else old

    def _scales_defined(self, buffer: Buffer, offset: int, lo: int, hi: int) -> NDArray[np.bool_] | None:
        """Whether the scales of each row are defined, as [block, row]; None: all are."""
        if buffer.shadow is None:
            return None
        known = self._scale_bytes(buffer.shadow, offset, lo, hi)[:, :, : ceil_div(self.p.k, SCALE_GROUP)]
        found = np.asarray(known.astype(np.bool_).all(axis=2))
        return None if bool(found.all()) else found

    def _rows_defined(self, buffer: Buffer, offset: int) -> NDArray[np.bool_] | None:
        """Whether each row of A is defined over k, as [1, m, 1]; None: all are."""
        if buffer.is_defined(offset, offset + self.a_bytes):
            return None
        assert buffer.shadow is not None
        nbytes = ceil_div(self.p.k * self.p.fm.bits, 8)
        if self.p.gemv:
            return np.array(buffer.is_defined(offset, offset + nbytes)).reshape(1, 1, 1)
        view = fractal_rows(
            buffer.shadow, offset, self.blocks_m, self._stride_a[0], self.blocks_k, self._stride_a[1], U8
        )
        rows = view.reshape(self.blocks_m * SIDE, self.blocks_k * BLOCK_BYTES)[: self.p.m, :nbytes].view(np.bool_)
        return np.asarray(rows.all(axis=1)).reshape(1, -1, 1)

    def _columns_defined(self, buffer: Buffer, offset: int, lo: int, hi: int) -> NDArray[np.bool_] | None:
        """Whether each column of B is defined over k, as [block, 1, column]; None: all are."""
        if buffer.is_defined(offset, offset + self.b_bytes):
            return None
        assert buffer.shadow is not None
        nbytes = ceil_div(self.p.k * self.p.fm.bits, 8)
        view = fractal_rows(buffer.shadow, offset + lo * FRACTAL_BYTES, hi - lo, FRACTAL_BYTES, self.blocks_k,
                            self.blocks_n * FRACTAL_BYTES, U8)  # fmt: skip
        columns = view.reshape(hi - lo, SIDE, self.blocks_k * BLOCK_BYTES)[:, :, :nbytes].view(np.bool_)
        return np.asarray(columns.all(axis=2)).reshape(hi - lo, 1, SIDE)


def a_columns(k: int, dtype: DataType) -> int:
    """Fractals of a row of A where k is laid out in steps of 16 (kDirectionAlign)."""
    return align_up(k, SIDE) // dtype.c0


def _accumulate(c: NDArray[Any], a: NDArray[Any], right: NDArray[Any], start: NDArray[Any] | None) -> None:
    """c[block] = start + a @ right[block] for every block of 16 columns; int32 saturates."""
    if c.dtype == F32:
        if a.dtype == F32 and start is None:
            np.matmul(a, right, out=c)
            return
        total = np.matmul(a, right)
        if start is None:
            c[...] = total
        else:
            np.add(total, start, out=c, casting="same_kind")
        return
    total = np.matmul(a, right)
    if start is None:
        c[...] = total
        return
    c[...] = np.clip(total.astype(np.int64) + start, _INT32_MIN, _INT32_MAX)
