"""Fixpipe: results out of L0C into GM, L1 or UB, converted on the way (spec api_semantics.md 12.2, 12.3).

This version: NZ2ND and NZ2NZ, no conversion or the plain casts float -> half and float -> bfloat16, ReLU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import (
    CostKey,
    FixWork,
    GmTraffic,
    Op,
    Pipe,
    cached_hash,
    camel,
    check_fields,
    check_range,
    describe,
)
from aicore_sim.instructions.cube_layout import (
    DEFINED_WORD,
    L0C_ROW,
    SIDE,
    ceil_div,
    check_unit_flag,
    l0c_view,
    rows_for,
)
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer, strided_copy

__all__ = [
    "FixpipeConfig", "FixpipeParamsArch3510", "FixpipeParamsC310", "FixpipeParamsM300", "FixpipeParamsV220", "Nz2DnParams",
    "Nz2NdParams",
]  # fmt: skip

API = "Fixpipe"
NZ, ROW_MAJOR, COLUMN_MAJOR = 0, 1, 2
"""Values of CO2Layout."""
_CASTS = {0: None, 1: ("float32", "float16"), 2: ("float32", "bfloat16")}
"""Values of QuantModes in this version: the types they fit (None: equal types)."""
_QUANT_MODES = 9
_COST_NAMES = {"float16": "half", "bfloat16": "bf16", "float32": "float", "int32": "float"}
"""Row of the card's Fixpipe rates by destination type; int32 has no row of its own and is as wide as float."""


@dataclass(frozen=True)
class FixpipeConfig:
    """Output format: layout 0 NZ, 1 ROW_MAJOR, 2 COLUMN_MAJOR (CO2Layout); is_to_ub for a destination in UB (950)."""

    layout: int = ROW_MAJOR
    is_to_ub: bool = False

    __hash__ = cached_hash

    @classmethod
    def cfg_nz(cls) -> FixpipeConfig:
        return cls(NZ)

    @classmethod
    def cfg_row_major(cls) -> FixpipeConfig:
        return cls(ROW_MAJOR)

    @classmethod
    def cfg_column_major(cls) -> FixpipeConfig:
        return cls(COLUMN_MAJOR)


@dataclass(frozen=True)
class FixpipeParamsV220:
    """src_stride in 64 B (rows of L0C); dst_stride in 32 B for NZ, in elements for ND; src_nd_stride in 1024 B."""

    n_size: int
    m_size: int
    src_stride: int
    dst_stride: int
    quant_pre: int = 0
    deq_scalar: int = 0
    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    is_channel_split: bool = False

    __hash__ = cached_hash


FixpipeParamsM300 = FixpipeParamsV220
"""The same struct by its name on 200I."""


@dataclass(frozen=True)
class Nz2NdParams:
    """nd_num matrices: source stride in 64 B, destination stride in elements."""

    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0


@dataclass(frozen=True)
class Nz2DnParams:
    """dn_num matrices, column-major; accepted as a field, the format itself is not in this version."""

    dn_num: int = 1
    src_nz_matrix_stride: int = 0
    dst_dn_matrix_stride: int = 0
    src_nz_c0_stride: int = 0


@dataclass(frozen=True)
class FixpipeParamsArch3510:
    """950: dst_stride in elements for NZ and ND; `params` is Nz2NdParams for ROW_MAJOR, 0 for NZ.

    The first four fields are those of the C++ constructor, in its order, and may be positional; the C++ struct declares
    pre_relu_mode .. vector_relu before them.
    """

    n_size: int
    m_size: int
    src_stride: int
    dst_stride: int
    quant_pre: int = 0
    deq_scalar: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    dual_dst_ctl: int = 0
    sub_block_id: int = 0
    params: Nz2NdParams | Nz2DnParams | int = 0
    is_channel_split: bool = False
    pre_relu_mode: int = 0
    pre_clip_relu_mode: int = 0
    relu_scalar: int = 0
    vector_relu: int = 0

    __hash__ = cached_hash


FixpipeParamsC310 = FixpipeParamsArch3510
"""The same struct by its other name."""

FixpipeParams = FixpipeParamsV220 | FixpipeParamsArch3510
_MAX32 = 2**32 - 1
_MOST_RANGES = 512
"""Column blocks that are listed one by one; L0C has no room for more that lie apart by a unit flag or more."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The movement in bytes: `count` matrices of m x n; block b of 16 columns at b * pitch."""

    m: int
    n: int
    count: int
    src_pitch: int
    src_matrix: int
    dst_row: int
    dst_pitch: int
    dst_matrix: int


def build(
    params: FixpipeParams, config: FixpipeConfig, src: DataType, dst: DataType, dst_kind: str, card: Card
) -> Op | None:
    """The Op of Fixpipe(dst, src, params) from L0C into `dst_kind`; None where n_size, m_size or the matrix count is 0.

    Rounds to nearest even and keeps inf and NaN; ReLU is max(0, x). Raises UnsupportedError for struct, path, types and
    modes that the card or this version lacks, ParameterError for ranges and contradictions.
    """
    _check_struct(params, config, dst_kind, card)
    _check_types(params, src, dst, dst_kind, card)
    warnings: list[str] = []
    plan = _plan(params, config, dst, dst_kind, card, warnings)
    unit_flag = check_unit_flag(API, type(params).__name__, params.unit_flag, card)
    if 0 in (plan.m, plan.n, plan.count):
        return None
    size, blocks, nz = dst.sizeof(), ceil_div(plan.n, SIDE), config.layout == NZ
    if nz:
        steps = strided_copy(plan.m * SIDE * size, (blocks,), 0, (0,), 0, (plan.dst_pitch,))
        rows = blocks
    else:
        steps = strided_copy(plan.n * size, (plan.count, plan.m), 0, (0, 0), 0, (plan.dst_matrix, plan.dst_row))
        rows = plan.count * plan.m
    footprint = Transfer(steps)
    path = f"L0C-{dst_kind}"
    nbytes = plan.count * plan.m * plan.n * size
    cost: CostKey
    if dst_kind == "GM":
        cost = GmTraffic(path, nbytes, rows, False, "nz2nz" if nz else "nz2nd", _COST_NAMES[dst.name])
    else:
        cost = FixWork(path, _COST_NAMES[dst.name], nbytes)
    return Op(
        API, Pipe.FIX, cost, path=path, nbytes=nbytes, effect=FixpipeEffect(plan, src, dst, bool(params.relu_en)),
        reads=_l0c_ranges(plan, blocks), writes=((0, *footprint.dst_range),), gm_operand=0 if dst_kind == "GM" else -1,
        gm_runs=footprint.dst_runs if dst_kind == "GM" else None, unit_flag=unit_flag,
        aligns=(1 if dst_kind == "GM" and not nz else BLOCK_BYTES, L0C_ROW), detail=describe(params), warnings=warnings,
    )  # fmt: skip


def _l0c_ranges(plan: _Plan, blocks: int) -> tuple[tuple[int, int, int], ...]:
    """(operand, lo, hi) of the bytes of L0C that are read: one range for each column block unless they form one.

    Kept apart by columns, because unit flags belong to what an instruction touches: Fixpipes may share a tile by rows
    (spec 17.1).
    """
    size = plan.m * L0C_ROW
    end = (plan.count - 1) * plan.src_matrix + (blocks - 1) * plan.src_pitch + size
    if end == plan.count * blocks * size or plan.count * blocks > _MOST_RANGES:
        return ((1, 0, end),)
    starts = [i * plan.src_matrix + j * plan.src_pitch for i in range(plan.count) for j in range(blocks)]
    return tuple((1, start, start + size) for start in starts)


# ---- checks -------------------------------------------------------------------------------------------------------
def _unsupported(field: str, value: object, text: str, allowed: str, card: Card) -> UnsupportedError:
    return UnsupportedError(f"{API}: {text}", field=field, value=value, allowed=allowed, card=card.name)


def _check_struct(params: FixpipeParams, config: FixpipeConfig, dst_kind: str, card: Card) -> None:
    """The struct must be one of the card, and one that the destination takes (spec 12.2)."""
    new = card.npu_arch == 3510
    struct = type(params).__name__
    rows_for(API, card, "Fixpipe", None, f"L0C-{dst_kind}")
    if isinstance(params, FixpipeParamsArch3510):
        if not new:
            raise _unsupported("params", struct, "this struct is for the 950",
                               "FixpipeParamsM300" if card.npu_arch == 3002 else "FixpipeParamsV220", card)  # fmt: skip
        if params.dual_dst_ctl:
            check_fields(API, params, {"dual_dst_ctl": (0, 2)}, card.name)
            raise _unsupported("dual_dst_ctl", params.dual_dst_ctl, "two destinations are not in this version", "0",
                               card)  # fmt: skip
        check_range(API, struct, "sub_block_id", int(params.sub_block_id), 0, 1, card.name)
    elif new and dst_kind == "UB":
        raise _unsupported("params", struct, "into UB this card takes the other struct", "FixpipeParamsArch3510", card)
    if config.is_to_ub and not new:
        raise _unsupported("is_to_ub", True, "is_to_ub (isToUB) is for the 950", "False", card)
    if new and config.is_to_ub != (dst_kind == "UB"):
        raise ParameterError(
            f"{API}: is_to_ub (isToUB) must be True for a destination in UB and False for any other",
            field="is_to_ub", value=config.is_to_ub, allowed=str(dst_kind == "UB"), card=card.name,
        )  # fmt: skip
    if config.layout not in (NZ, ROW_MAJOR, COLUMN_MAJOR):
        raise ParameterError(f"{API}: unknown output format", field="layout", value=config.layout,
                             allowed="CO2Layout.NZ, ROW_MAJOR, COLUMN_MAJOR", card=card.name)  # fmt: skip
    if config.layout == COLUMN_MAJOR:
        if not new or not isinstance(params, FixpipeParamsArch3510):
            raise _unsupported("layout", "COLUMN_MAJOR", "only the 950 writes columns, with FixpipeParamsArch3510",
                               "NZ, ROW_MAJOR", card)  # fmt: skip
        raise _unsupported("layout", "COLUMN_MAJOR", "NZ2DN is not in this version", "NZ, ROW_MAJOR", card)
    if config.layout == ROW_MAJOR and dst_kind == "L1" and not new:
        raise _unsupported("layout", "ROW_MAJOR", "into L1 this card writes NZ only", "NZ", card)
    if params.is_channel_split:
        raise _unsupported("is_channel_split", True, "channel split is not in this version", "False", card)


def _check_types(params: FixpipeParams, src: DataType, dst: DataType, dst_kind: str, card: Card) -> None:
    quant = params.quant_pre
    if isinstance(quant, bool) or not isinstance(quant, int) or not 0 <= quant < _QUANT_MODES:
        raise ParameterError(f"{API}: unknown quantisation mode", field="quant_pre", value=quant,
                             allowed="a member of QuantModes", card=card.name)  # fmt: skip
    rows = rows_for(API, card, "Fixpipe", None, f"L0C-{dst_kind}")
    pairs = [(text.split("*")[0], out) for row in rows for text in row.dtypes for out in text.split("*")[1].split("/")]
    if (src.api_name, dst.api_name) not in pairs:
        raise _unsupported("dtype", f"{src.api_name} -> {dst.api_name}", f"no such conversion into {dst_kind} here",
                           ", ".join(f"{a} -> {b}" for a, b in pairs), card)  # fmt: skip
    if quant not in _CASTS:
        raise _unsupported("quant_pre", int(quant), "quantisation with a parameter is not in this version",
                           "NoQuant, F322F16, F322BF16", card)  # fmt: skip
    cast = _CASTS[quant]
    if (src.name, dst.name) != cast and not (cast is None and src is dst):
        raise ParameterError(
            f"{API}: quant_pre (quantPre) does not fit {src.name} -> {dst.name}", field="quant_pre", value=int(quant),
            allowed="NoQuant for equal types, F322F16 float -> half, F322BF16 float -> bfloat16", card=card.name,
        )  # fmt: skip


def _plan(
    params: FixpipeParams, config: FixpipeConfig, dst: DataType, dst_kind: str, card: Card, warnings: list[str]
) -> _Plan:
    """Ranges, units and the rules between fields (spec 12.2, table of structs and outputs)."""
    nd, size = config.layout == ROW_MAJOR, dst.sizeof()
    m_limit = 8192 if nd and card.npu_arch != 3510 else 65535
    check_fields(API, params, {"n_size": (0, 4095), "m_size": (0, m_limit), "src_stride": (0, 65535),
                               "dst_stride": (1, _MAX32)}, card.name)  # fmt: skip
    if isinstance(params, FixpipeParamsArch3510):
        count, src_matrix, dst_matrix = _matrices_3510(params, nd, card, warnings)
        unit = size
    else:
        ranges = {"nd_num": (0, 65535), "src_nd_stride": (0, 512), "dst_nd_stride": (0, 65535)}
        check_fields(API, params, ranges, card.name)
        count, src_matrix, dst_matrix = params.nd_num, params.src_nd_stride * SIDE * L0C_ROW, params.dst_nd_stride
        unit = BLOCK_BYTES
        if card.npu_arch == 3510 and (not nd or count > 1):
            warnings.append(
                "units of FixpipeParamsV220 are taken from its page; the 950 header passes NZ dst_stride and"
                " src_nd_stride on unscaled: use FixpipeParamsArch3510"
            )
    if params.deq_scalar:
        warnings.append("deq_scalar has no effect without a quantisation mode that takes one")
    if not nd:
        if params.n_size % SIDE:
            raise ParameterError(f"{API}: NZ needs whole blocks in n_size (nSize)", field="n_size", value=params.n_size,
                                 allowed=f"multiples of {SIDE}", card=card.name)  # fmt: skip
        if count > 1:
            warnings.append("nd_num has no meaning for NZ: one matrix is written")
        pitch = params.dst_stride * unit
        if params.n_size > SIDE and pitch < params.m_size * SIDE * size:
            warnings.append(f"column blocks {pitch} B apart overlap: a block has {params.m_size * SIDE * size} B")
        return _Plan(params.m_size, params.n_size, min(count, 1), params.src_stride * L0C_ROW, 0, SIDE * size, pitch, 0)
    if dst_kind != "GM" and card.npu_arch == 3510 and params.n_size * size % BLOCK_BYTES:
        raise ParameterError(f"{API}: ND into {dst_kind} needs whole 32 B rows", field="n_size", value=params.n_size,
                             allowed=f"multiples of {BLOCK_BYTES // size}", card=card.name)  # fmt: skip
    if params.m_size > 1 and params.dst_stride < params.n_size:
        warnings.append(f"rows {params.dst_stride} elements apart overlap: a row has {params.n_size}")
    return _Plan(params.m_size, params.n_size, count, params.src_stride * L0C_ROW, src_matrix,
                 params.dst_stride * size, SIDE * size, dst_matrix * size)  # fmt: skip


def _matrices_3510(params: FixpipeParamsArch3510, nd: bool, card: Card, warnings: list[str]) -> tuple[int, int, int]:
    """(count, source stride in bytes, destination stride in elements) out of the format's own part of the struct."""
    for field in ("pre_relu_mode", "pre_clip_relu_mode", "relu_scalar", "vector_relu"):
        if getattr(params, field):
            warnings.append(f"{field} ({camel(field)}) is never read: only relu_en acts")
    inner = params.params
    if isinstance(inner, Nz2DnParams):
        raise ParameterError(f"{API}: params does not fit the output format", field="params", value="Nz2DnParams",
                             allowed="Nz2NdParams" if nd else "0", card=card.name)  # fmt: skip
    if not isinstance(inner, Nz2NdParams):
        return 1, 0, 0
    check_fields(
        API, inner, {"nd_num": (0, 65535), "src_nd_stride": (0, 65535), "dst_nd_stride": (0, _MAX32)}, card.name
    )
    return inner.nd_num, inner.src_nd_stride * L0C_ROW, inner.dst_nd_stride


# ---- effect -------------------------------------------------------------------------------------------------------
class FixpipeEffect:
    """Converts and places L0C blocks, in shares of whole 16-column blocks (matrix by matrix)."""

    __slots__ = ("_blocks", "_dst", "_plan", "_relu", "_src")

    def __init__(self, plan: _Plan, src: DataType, dst: DataType, relu: bool) -> None:
        assert src.np_dtype is not None and dst.np_dtype is not None
        self._plan = plan
        self._src, self._dst = src.np_dtype, dst.np_dtype
        self._relu = relu
        self._blocks = ceil_div(plan.n, SIDE)

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        total = self._plan.count * self._blocks
        lo, hi = total * first // of, total * last // of
        while lo < hi:
            matrix, block = divmod(lo, self._blocks)
            count = min(hi - lo, self._blocks - block)
            self._move(bufs, offs, matrix, block, count)
            lo += count

    def _move(self, bufs: Sequence[Buffer], offs: Sequence[int], matrix: int, block: int, count: int) -> None:
        """Blocks block..block+count-1 of one matrix."""
        plan = self._plan
        dst, src = bufs
        read = offs[1] + matrix * plan.src_matrix + block * plan.src_pitch
        write = offs[0] + matrix * plan.dst_matrix + block * plan.dst_pitch
        values: NDArray[Any] = l0c_view(src.bytes(), read, count, plan.m, plan.src_pitch, self._src)
        tail = plan.n % SIDE if block + count == self._blocks else 0
        self._place(dst.bytes(), write, self._convert(values), count, tail)
        if dst.shadow is None and src.is_defined(read, read + (count - 1) * plan.src_pitch + plan.m * L0C_ROW):
            return
        marks = self._marks(src, read, count)
        if dst.shadow is not None or not bool(marks[:, :, : tail or SIDE].all()):
            self._place(dst.mark_all(), write, marks, count, tail)

    def _convert(self, values: NDArray[Any]) -> NDArray[Any]:
        if self._relu:
            values = np.maximum(values, values.dtype.type(0))
        if values.dtype == self._dst:
            return np.ascontiguousarray(values)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(self._dst, order="C")

    def _marks(self, src: Buffer, read: int, count: int) -> NDArray[Any]:
        """Shadow words of the destination elements: all ones where the source element is defined."""
        plan, word = self._plan, np.dtype(f"u{self._dst.itemsize}")
        ones = word.type(int.from_bytes(b"\x01" * word.itemsize, "little"))
        if src.shadow is None:
            return np.full((count, plan.m, SIDE), ones)
        marks: NDArray[Any] = l0c_view(src.shadow, read, count, plan.m, plan.src_pitch, np.dtype(np.uint32))
        return np.asarray(np.where(marks == DEFINED_WORD, ones, word.type(0)))

    def _place(self, raw: NDArray[np.uint8], offset: int, values: NDArray[Any], count: int, tail: int) -> None:
        """Write [block, row, column]; the last block ends after `tail` columns (0: it is whole)."""
        plan = self._plan
        whole = count - 1 if tail else count
        width = values.dtype.itemsize
        if whole:
            row = np.dtype(f"V{SIDE * width}")  # a block's row at a time
            rows = np.ndarray((whole, plan.m), row, raw.data, offset, (plan.dst_pitch, plan.dst_row))
            rows[...] = values[:whole].view(row).reshape(whole, plan.m)
        if tail:
            start = offset + whole * plan.dst_pitch
            last = np.ndarray((plan.m, tail), values.dtype, raw.data, start, (plan.dst_row, width))
            last[...] = values[whole, :, :tail]
