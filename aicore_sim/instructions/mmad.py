"""Mmad: the matrix unit, L0C (+)= L0A x L0B (spec api_semantics.md 12.1, 17, 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import CubeWork, Op, Pipe, cached_hash, check_fields, describe
from aicore_sim.instructions.cube_layout import (
    DEFINED_WORD,
    L0C_BLOCK,
    L0C_ROW,
    SIDE,
    align_up,
    ceil_div,
    check_unit_flag,
    fractal_rows,
    l0c_view,
)
from aicore_sim.memory import Buffer, Bytes

API = "Mmad"
F32, I32, U32, U8 = (np.dtype(x) for x in (np.float32, np.int32, np.uint32, np.uint8))
_COST_ROW = {"float16": "half", "bfloat16": "bf16", "float32": "float", "int8": "int8", "int4": "int4"}
"""Element types of this version, with their row in the card's cube table."""
_WORDS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(np.uint16), "float32": F32, "int8": np.dtype(np.int8),
          "int4": U8}  # fmt: skip
_EXACT_K = 1024
"""Depth up to which any sum of int8 products is exact in float32: 1024 * 2^14 = 2^24."""
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class MmadParams:
    """m, n, k in elements. None stands for the C++ default: unit_flag 0, cmatrix_source False, cmatrix_init_val True.

    The fields up to cmatrix_init_val are pyasc's, in its order; k_direction_align and disable_gemv follow.
    """

    m: int = 0
    n: int = 0
    k: int = 0
    is_bias: bool | None = None
    fm_offset: int | None = None
    en_ssparse: bool | None = None
    en_winograd_a: bool | None = None
    en_winograd_b: bool | None = None
    unit_flag: int | None = None
    cmatrix_source: bool | None = None
    cmatrix_init_val: bool | None = None
    k_direction_align: bool = False
    disable_gemv: bool = False

    __hash__ = cached_hash


def build(
    params: MmadParams,
    dst: DataType,
    fm: DataType,
    filter_: DataType,
    bias: DataType | None,
    bias_kind: str,
    card: Card,
) -> Op | None:
    """The Op of Mmad(dst, fm, filter[, bias], params); None where m, n or k is 0.

    Operands of the Op: dst (L0C), fm (L0A), filter (L0B) and, where C starts from the bias table, the bias (BT).
    `bias` and `bias_kind` ("BT", "L0C") are None and "" for the call without a bias tensor; a bias in L0C is the matrix
    to accumulate onto. Rows past m and columns past n of the last L0C blocks become undefined. Raises UnsupportedError
    for card and element types, ParameterError for ranges and contradicting fields.
    """
    _check_types(dst, fm, filter_, bias, card)
    check_fields(API, params, {"m": (0, 4095), "n": (0, 4095), "k": (0, 4095)}, card.name)
    unit_flag = _unit_flag(params, card)
    _check_modes(params, fm, bias, card)
    initial, warnings = _initial(params, bias, bias_kind, card)
    if params.m == 0 or params.n == 0 or params.k == 0:
        return None
    effect = MmadEffect(params, fm, initial, card)
    reads = [(1, 0, effect.a_bytes), (2, 0, effect.blocks_n * effect.blocks_k * FRACTAL_BYTES)]
    c_bytes = effect.blocks_n * effect.pitch
    # A2 and A3 also take 512 B for half operands (spec 1.3).
    narrow = card.npu_arch == 2201 and fm.name == "float16"
    aligns = [FRACTAL_BYTES if narrow else L0C_BLOCK, FRACTAL_BYTES, FRACTAL_BYTES]
    if initial == "C":
        reads.append((0, 0, c_bytes))
    elif initial == "bias":
        reads.append((3, 0, params.n * 4))
        aligns.append(64)
    return Op(
        API, Pipe.M, CubeWork(_COST_ROW[fm.name], params.m, params.n, params.k), nbytes=c_bytes, effect=effect,
        reads=reads, writes=((0, 0, c_bytes),), unit_flag=unit_flag, accumulates=initial == "C", aligns=aligns,
        detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _check_types(dst: DataType, fm: DataType, filter_: DataType, bias: DataType | None, card: Card) -> None:
    types = [fm, filter_, dst] if bias is None else [fm, filter_, dst, bias]
    rows = card.api("Mmad", "without bias" if bias is None else "with bias")
    listed = [name for row in rows if row.supported for name in row.dtypes]
    given = "*".join(t.api_name for t in types)
    if given not in listed:
        raise UnsupportedError(f"{API}: this card does not take these element types (fm*filter*dst[*bias])",
                               field="dtype", value=given, allowed=", ".join(listed), card=card.name)  # fmt: skip
    if fm.name not in _COST_ROW:
        raise UnsupportedError(f"{API}: this element type is not in this version", field="dtype", value=fm.name,
                               allowed=", ".join(_COST_ROW), card=card.name)  # fmt: skip


def _unit_flag(params: MmadParams, card: Card) -> int:
    """0, 2 or 3 (spec 17.1: 1 is reserved; 17.2: not on 200I)."""
    flag = 0 if params.unit_flag is None else params.unit_flag
    return check_unit_flag(API, type(params).__name__, flag, card)


def _check_modes(params: MmadParams, fm: DataType, bias: DataType | None, card: Card) -> None:
    for field in ("fm_offset", "en_ssparse", "en_winograd_a", "en_winograd_b"):
        if getattr(params, field):
            raise UnsupportedError(f"{API}: {field} is not in this version", field=field, value=getattr(params, field),
                                   allowed="None, 0, False", card=card.name)  # fmt: skip
    if params.k_direction_align:
        if card.npu_arch != 2201:
            raise UnsupportedError(f"{API}: k_direction_align (kDirectionAlign) is for A2 and A3", allowed="False",
                                   field="k_direction_align", value=True, card=card.name)  # fmt: skip
        if fm.bits != 32:
            raise ParameterError(f"{API}: k_direction_align (kDirectionAlign) is for float", field="k_direction_align",
                                 value=True, allowed="False", card=card.name)  # fmt: skip
    if params.disable_gemv and card.npu_arch != 3510:
        raise UnsupportedError(f"{API}: only the 950 can switch GEMV off", field="disable_gemv", value=True,
                               allowed="False", card=card.name)  # fmt: skip
    if fm.bits == 4 and params.cmatrix_source and bias is None:
        raise UnsupportedError(f"{API}: int4 takes no bias, cmatrix_source (cmatrixSource) included", allowed="False",
                               field="cmatrix_source", value=True, card=card.name)  # fmt: skip
    if fm.bits == 4 and params.k % 2:
        raise ParameterError(f"{API}: int4 needs an even k", field="k", value=params.k, allowed="even", card=card.name)


def _initial(params: MmadParams, bias: DataType | None, bias_kind: str, card: Card) -> tuple[str, list[str]]:
    """What C starts from: "zero", "C" (accumulate) or "bias" (spec 12.1, bias call)."""
    from_zero = True if params.cmatrix_init_val is None else bool(params.cmatrix_init_val)
    if params.is_bias and not (bias is not None and card.npu_arch == 2201):
        from_zero = False
    if bias is not None:
        if from_zero:
            return "zero", ["cmatrix_init_val True starts from 0: the bias is lost"]
        return ("bias" if bias_kind == "BT" else "C"), []
    if from_zero:
        return "zero", []
    return ("bias" if params.cmatrix_source else "C"), []


class MmadEffect:
    """C = start + A x B on the fractals of L0A, L0B and L0C, in shares of whole 16-column blocks of L0C.

    Every column block is multiplied by itself, so that the floating-point result does not depend on how the work is
    shared. int32 results saturate at the end of the instruction.
    """

    __slots__ = (
        "_fm", "_initial", "_stride_a", "a_bytes", "blocks_k", "blocks_m", "blocks_n", "gemv", "k", "m", "n", "pitch",
    )  # fmt: skip

    def __init__(self, params: MmadParams, fm: DataType, initial: str, card: Card) -> None:
        self.m, self.n, self.k = params.m, params.n, params.k
        self.blocks_m, self.blocks_n = ceil_div(params.m, SIDE), ceil_div(params.n, SIDE)
        self.blocks_k = ceil_div(params.k, fm.c0)
        self.pitch = self.blocks_m * L0C_BLOCK
        """Bytes of one column block of L0C."""
        self.gemv = params.m == 1 and not params.disable_gemv
        self._fm = fm
        self._initial = initial
        if card.model.layout["L0A"] == "ZZ":
            columns = align_up(params.k, SIDE) // fm.c0 if params.k_direction_align else self.blocks_k
            self._stride_a = (columns * FRACTAL_BYTES, FRACTAL_BYTES)
            self.a_bytes = ((self.blocks_m - 1) * columns + self.blocks_k) * FRACTAL_BYTES
        else:
            self._stride_a = (FRACTAL_BYTES, self.blocks_m * FRACTAL_BYTES)
            self.a_bytes = self.blocks_m * self.blocks_k * FRACTAL_BYTES
        if self.gemv:
            self.a_bytes = ceil_div(params.k * fm.bits, FRACTAL_BYTES * 8) * FRACTAL_BYTES

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = self.blocks_n * first // of, self.blocks_n * last // of
        if lo >= hi:
            return
        start = offs[0] + lo * self.pitch
        a = self._a(bufs[1].bytes(), offs[1])
        b = self._b(bufs[2].bytes(), offs[2], lo, hi)
        kind = F32 if self._fm.is_float() else I32
        c: NDArray[Any] = l0c_view(bufs[0].bytes(), start, hi - lo, self.blocks_m * SIDE, self.pitch, kind)
        bias = self._bias_row(bufs[3].bytes(), offs[3], lo, hi, kind) if self._initial == "bias" else None
        with np.errstate(all="ignore"):
            self._multiply(c[:, : self.m], a, b, bias)
        c[:, self.m :] = 0
        tail = self._tail(hi)
        if tail:
            c[-1, :, tail:] = 0
        if bufs[0].shadow is not None:
            self._mark(bufs, offs, lo, hi)

    def _tail(self, hi: int) -> int:
        """Columns used of the last block of a share that reaches the end of n; 0: all."""
        return self.n % SIDE if hi == self.blocks_n else 0

    def _multiply(self, c: NDArray[Any], a: NDArray[Any], b: NDArray[Any], bias: NDArray[Any] | None) -> None:
        """c[block] = start + a @ b[block].T for every block of 16 columns."""
        right = b.transpose(0, 2, 1)
        if c.dtype == F32:
            if self._initial == "zero":
                np.matmul(a, right, out=c)
            elif bias is None:
                c += np.matmul(a, right)
            else:
                np.add(np.matmul(a, right), bias, out=c)
            return
        total = np.matmul(a, right)
        if self._initial == "zero":
            c[...] = total
            return
        exact = total.astype(np.int64) + (c if bias is None else bias)
        c[...] = np.clip(exact, _INT32_MIN, _INT32_MAX)

    # ---- operands --------------------------------------------------------------------------------------------------
    def _a(self, raw: Bytes, offset: int) -> NDArray[Any]:
        """A as [m, k] in the type of the product."""
        if self.gemv:
            count = self.k // 2 if self._fm.bits == 4 else self.k
            word = _WORDS[self._fm.name]
            return self._numbers(np.ndarray((1, count), word, raw.data, offset))[:, : self.k]
        view = fractal_rows(
            raw, offset, self.blocks_m, self._stride_a[0], self.blocks_k, self._stride_a[1], _WORDS[self._fm.name]
        )
        return self._numbers(view).reshape(self.blocks_m * SIDE, -1)[: self.m, : self.k]

    def _b(self, raw: Bytes, offset: int, lo: int, hi: int) -> NDArray[Any]:
        """The columns of B in blocks lo..hi-1, as [block, column, k]; columns past n are 0."""
        view = fractal_rows(raw, offset + lo * FRACTAL_BYTES, hi - lo, FRACTAL_BYTES, self.blocks_k,
                            self.blocks_n * FRACTAL_BYTES, _WORDS[self._fm.name])  # fmt: skip
        numbers = self._numbers(view).reshape(hi - lo, SIDE, -1)
        tail = self._tail(hi)
        if tail:
            numbers[-1, tail:] = 0
        return numbers[:, :, : self.k]

    def _numbers(self, words: NDArray[Any]) -> NDArray[Any]:
        """Words as numbers of a type in which the products add up: float32, float64 for deep int products."""
        fm = self._fm
        if fm.name == "bfloat16":
            wide = words.astype(np.uint32, order="C")
            return (wide << np.uint32(16)).view(np.float32)
        wanted = np.float32 if fm.is_float() or self.k <= _EXACT_K else np.float64
        if fm.bits != 4:
            return words.astype(wanted, order="C")
        pairs = np.empty((*words.shape, 2), wanted)
        pairs[..., 0] = ((words & np.uint8(0xF)) ^ np.uint8(8)).astype(np.int8) - np.int8(8)
        pairs[..., 1] = ((words >> np.uint8(4)) ^ np.uint8(8)).astype(np.int8) - np.int8(8)
        return pairs.reshape(*words.shape[:-1], -1)

    def _bias_row(self, raw: Bytes, offset: int, lo: int, hi: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """The bias of blocks lo..hi-1 as [block, 1, column]; 0 past n."""
        row = np.zeros((hi - lo) * SIDE, kind)
        count = min(self.n, hi * SIDE) - lo * SIDE
        row[:count] = np.ndarray((count,), kind, raw.data, offset + lo * L0C_ROW)
        return row.reshape(hi - lo, 1, SIDE)

    # ---- defined bytes ---------------------------------------------------------------------------------------------
    def _mark(self, bufs: Sequence[Buffer], offs: Sequence[int], lo: int, hi: int) -> None:
        """A hole in row i of A or column j of B makes C(i, j) undefined; what lies past m, n, k does not count."""
        shadow = bufs[0].shadow
        assert shadow is not None
        marks: NDArray[Any] = l0c_view(
            shadow, offs[0] + lo * self.pitch, hi - lo, self.blocks_m * SIDE, self.pitch, U32
        )
        inside = marks[:, : self.m]
        defined: NDArray[np.bool_] | None = None
        parts = [self._rows_defined(bufs[1], offs[1]), self._columns_defined(bufs[2], offs[2], lo, hi)]
        if self._initial == "C":
            old = inside == DEFINED_WORD
            parts.append(None if bool(old.all()) else old)
        elif self._initial == "bias" and bufs[3].shadow is not None:
            row = self._bias_row(bufs[3].shadow, offs[3], lo, hi, U32) == DEFINED_WORD
            parts.append(row)
        for part in parts:
            if part is not None:
                defined = part if defined is None else defined & part
        inside[...] = DEFINED_WORD if defined is None else np.where(defined, DEFINED_WORD, U32.type(0))
        marks[:, self.m :] = 0
        tail = self._tail(hi)
        if tail:
            marks[-1, :, tail:] = 0

    def _rows_defined(self, buffer: Buffer, offset: int) -> NDArray[np.bool_] | None:
        """Whether each row of A is defined over k, as [1, m, 1]; None: all are."""
        if buffer.is_defined(offset, offset + self.a_bytes):
            return None
        assert buffer.shadow is not None
        nbytes = ceil_div(self.k * self._fm.bits, 8)
        if self.gemv:
            return np.array(buffer.is_defined(offset, offset + nbytes)).reshape(1, 1, 1)
        view = fractal_rows(
            buffer.shadow, offset, self.blocks_m, self._stride_a[0], self.blocks_k, self._stride_a[1], U8
        )
        rows = view.reshape(self.blocks_m * SIDE, self.blocks_k * BLOCK_BYTES)[: self.m, :nbytes].view(np.bool_)
        return np.asarray(rows.all(axis=1)).reshape(1, -1, 1)

    def _columns_defined(self, buffer: Buffer, offset: int, lo: int, hi: int) -> NDArray[np.bool_] | None:
        """Whether each column of B is defined over k, as [block, 1, column]; None: all are."""
        if buffer.is_defined(offset, offset + self.blocks_n * self.blocks_k * FRACTAL_BYTES):
            return None
        assert buffer.shadow is not None
        nbytes = ceil_div(self.k * self._fm.bits, 8)
        view = fractal_rows(buffer.shadow, offset + lo * FRACTAL_BYTES, hi - lo, FRACTAL_BYTES, self.blocks_k,
                            self.blocks_n * FRACTAL_BYTES, U8)  # fmt: skip
        columns = view.reshape(hi - lo, SIDE, self.blocks_k * BLOCK_BYTES)[:, :, :nbytes].view(np.bool_)
        return np.asarray(columns.all(axis=2)).reshape(hi - lo, 1, SIDE)
