"""L1 to L0A and L0B: the LoadData instructions that a Tensor API copy becomes (spec api_semantics.md 7.2 to 7.5).

An NZ matrix is made of fractals of 16 rows x C0 columns, a ZN matrix of C0 rows x 16 columns. The instruction knows only
"M", the axis of 16, and "K", the axis of C0, so that both directions are one: equal patterns copy fractals as they are,
different patterns transpose, M of the source becoming the axis of C0 of the destination.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError
from aicore_sim.instructions.base import cached_hash
from aicore_sim.instructions.cube_layout import SIDE, align_up, ceil_div
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.kernel.te.frames import kind_of
from aicore_sim.kernel.te.layout import Axis, Layout, Pattern


@dataclass(frozen=True)
class Step:
    """One instruction: its parameters, and where it starts in both tensors, in elements."""

    params: Any
    dst: int = 0
    src: int = 0


@dataclass(frozen=True)
class _Side:
    """A fractal layout as the instruction sees it: M is the axis of 16, K the axis of C0."""

    kind: str
    m: Axis
    k: Axis
    batch: int
    batch_stride: int

    def stride(self, unit: int) -> int:
        return self.k.outer_stride // unit


def _side(layout: Layout, kind: str) -> _Side:
    m, k = (layout.columns, layout.rows) if kind == "ZN" else (layout.rows, layout.columns)
    return _Side(kind, m, k, layout.batch, layout.batch_stride)


_TARGET = {"L0A": "NZ", "L0B": "ZN"}
_SQUARE = {4: 4, 8: 2}
"""Source fractals along M that a transposition of b4 and b8 takes at once."""


def load_steps(dst: Layout, src: Layout, dtype: DataType, to: str, coord: Any, card: Card,
               warnings: list[str]) -> list[Step]:  # fmt: skip
    """The LoadData 2D V2 instructions of a copy from L1 into `to` ("L0A", "L0B"), with the numbers of spec 7.3.

    The extent is that of the destination; where the source's differs, a warning. `coord` is the (row, column) of the
    source to start from (7.4), None: nothing but the tensors. Raises ParameterError for layouts that have no route, for a
    batch that is not the same or not contiguous on both sides, and for a coordinate inside a fractal.
    """
    kinds = (kind_of(src, dtype), kind_of(dst, dtype))
    if kinds[0] not in ("NZ", "ZN") or kinds[1] != _TARGET[to]:
        raise ParameterError(f"Copy: no route from {kinds[0]} in L1 to {kinds[1]} in {to}", field="layout",
                             value=f"{kinds[0]} to {kinds[1]}",
                             allowed=f"NZ to {_TARGET[to]}, ZN to {_TARGET[to]}", card=card.name)  # fmt: skip
    source, target = _side(src, kinds[0]), _side(dst, kinds[1])
    if source.batch != target.batch:
        raise ParameterError("Copy: source and destination have different batches", field="batch",
                             value=f"{source.batch} to {target.batch}", allowed="equal batches", card=card.name)  # fmt: skip
    if coord is None:
        _compare(dst, src, warnings)
        start = (0, 0)
    else:
        start = _start(src, source, dtype, coord, kinds[0] == kinds[1], card)
    if kinds[0] == kinds[1]:
        return _straight(target, source, dtype, start, coord is not None, card)
    return _transposed(target, source, dtype, start, coord is not None, warnings)


def is_transposed(dst: Layout, src: Layout, dtype: DataType) -> bool:
    """Whether the route between these layouts transposes."""
    return kind_of(dst, dtype) != kind_of(src, dtype)


def _compare(dst: Layout, src: Layout, warnings: list[str]) -> None:
    """Both sides round one logical extent up to their own fractals; warn where no extent gives both."""
    for ours, theirs in ((dst.rows, src.rows), (dst.columns, src.columns)):
        if max(ours.extent - ours.inner, theirs.extent - theirs.inner) >= min(ours.extent, theirs.extent):
            warnings.append(
                f"the source has {src.rows.extent} x {src.columns.extent} elements, the destination {dst.rows.extent} x"
                f" {dst.columns.extent}; what lies beyond the source or the destination is not defined: give both one shape"
            )
            return


def _start(src: Layout, side: _Side, dtype: DataType, coord: Any, straight: bool, card: Card) -> tuple[int, int]:
    """(m_start, k_start) of a coordinate on the source, in fractals (spec 7.4)."""
    if src.batched:
        raise ParameterError("Copy: a coordinate goes with single matrices", field="coord", value=str(coord),
                             allowed="a slice of the source", card=card.name)  # fmt: skip
    _, row, column = src.place(coord)
    loose = card.quirk("te-coord")
    for name, index, axis in (("row", row, src.rows), ("column", column, src.columns)):
        if index >= axis.extent:
            raise OutOfBoundsError(f"Copy: the coordinate is behind the last {name}", field="coord", value=index,
                                   allowed=f"0..{axis.extent - 1}", card=card.name)  # fmt: skip
        if index % axis.inner and not loose:
            raise ParameterError(f"Copy: the coordinate is inside a fractal ({name})", field="coord", value=index,
                                 allowed=f"multiples of {axis.inner}", card=card.name)  # fmt: skip
    m, k = (column, row) if side.kind == "ZN" else (row, column)
    m_start, k_start = m // SIDE, k // dtype.c0
    if loose and straight and side.kind == "NZ" and dtype.bits == 4:
        k_start //= 2
    return m_start, k_start


def _straight(dst: _Side, src: _Side, dtype: DataType, start: tuple[int, int], limited: bool, card: Card) -> list[Step]:
    unit = SIDE * dtype.c0
    m_step, k_step = dst.m.outer, dst.k.outer
    if limited:
        m_step, k_step = min(m_step, src.m.outer - start[0]), min(k_step, src.k.outer - start[1])
    if dst.batch > 1:
        for name, side in (("source", src), ("destination", dst)):
            if side.batch_stride != side.k.outer * side.k.outer_stride or src.k.outer != dst.k.outer:
                raise ParameterError(f"Copy: the matrices of the {name} do not follow each other", field="batch",
                                     value=side.batch_stride, allowed="contiguous batches of one shape",
                                     card=card.name)  # fmt: skip
        k_step *= dst.batch
    return [Step(LoadData2DParamsV2(*start, m_step, k_step, src.stride(unit), dst.stride(unit)))]


def _transposed(
    dst: _Side, src: _Side, dtype: DataType, start: tuple[int, int], limited: bool, warnings: list[str]
) -> list[Step]:
    unit = SIDE * dtype.c0
    square = _SQUARE.get(dtype.bits, 1)
    m_wanted, m_left = ceil_div(dst.k.extent, SIDE), src.m.outer - start[0]
    k_wanted, k_left = ceil_div(dst.m.extent, dtype.c0), src.k.outer - start[1]
    if limited:
        m_step = min(m_wanted, align_up(m_left, square))
        k_step = min(k_wanted, align_up(k_left, 2) if dtype.bits == 32 else k_left)
    elif square > 1:
        m_step, k_step = m_wanted, k_left
    else:
        m_step, k_step = m_left, k_wanted
    if dst.k.extent % SIDE:  # 32 bits only: a square of 16 x 16 gives two blocks of C0
        warnings.append(
            f"{dst.k.extent} elements along K are no multiple of {SIDE}, as 32-bit types need where the copy transposes: a"
            " block of 8 more is written behind the destination"
        )
    # Columns of the destination that the instruction would overwrite with rows it was not asked for: piece by piece, so
    # that every piece repairs what the one before left behind.
    split = square > 1 and k_step * dtype.c0 - dst.m.extent >= SIDE
    pieces = m_step // square if split else 1
    strides = (src.stride(unit), dst.stride(unit), True)
    return [
        Step(
            LoadData2DParamsV2(start[0] + p * square, start[1], square if split else m_step, k_step, *strides),
            b * dst.batch_stride + p * dst.k.outer_stride,
            b * src.batch_stride,
        )
        for b in range(dst.batch)
        for p in range(pieces)
    ]


# ---- img2col --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Img2ColParams:
    """Window and kernel of an img2col copy, bound to a copy by `with_`; the feature map is the source's NC1HWC0 layout.

    pad_list is left, right, top, bottom; extensions and start points count rows and columns of the img2col matrix, an
    extension of 0 moves nothing. Ranges as LoadData3DParamsV2 (spec api_semantics.md 5.2).
    """

    m_extension: int = 0
    k_extension: int = 0
    m_start_pt: int = 0
    k_start_pt: int = 0
    pad_list: tuple[int, ...] = (0, 0, 0, 0)
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    filter_size_w: bool = False
    filter_size_h: bool = False
    transpose: bool = False
    f_matrix_ctrl: bool = False
    pad_value: int | float = 0

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        object.__setattr__(self, "pad_list", tuple(self.pad_list))


def img2col_step(dst: Layout, src: Layout, dtype: DataType, params: Img2ColParams, card: Card,
                 warnings: list[str]) -> Step:  # fmt: skip
    """The LoadData 3D V2 instruction of a copy with `Img2ColParams`.

    Raises ParameterError for a source that is no feature map of one image, a destination that is not NZ, 4-bit types.
    """
    if dtype.bits == 4:
        raise ParameterError("Copy: img2col does not take 4-bit types", field="dtype", value=dtype.name, card=card.name)
    if src.pattern is not Pattern.NC1HWC0 or src.shape[0] != 1 or src.shape[4] != dtype.c0:
        raise ParameterError("Copy: img2col reads one feature map", field="layout", value=str(src.shape),
                             allowed=f"NC1HWC0 with N = 1 and C0 = {dtype.c0}", card=card.name)  # fmt: skip
    if kind_of(dst, dtype) != "NZ":
        raise ParameterError("Copy: img2col writes NZ", field="layout", value=kind_of(dst, dtype), allowed="NZ",
                             card=card.name)  # fmt: skip
    _, c1, h, w, c0 = src.shape
    given = {f.name: getattr(params, f.name) for f in fields(params) if f.name != "transpose"}
    made = LoadData3DParamsV2(l1_h=h, l1_w=w, channel_size=c1 * c0, en_transpose=params.transpose, **given)
    pitch = ceil_div(params.k_extension if params.transpose else params.m_extension, SIDE)
    if dst.columns.outer > 1 and dst.columns.outer_stride != pitch * SIDE * dtype.c0:
        warnings.append(
            f"img2col puts column blocks {pitch} fractals apart, the destination's layout says"
            f" {dst.columns.outer_stride // (SIDE * dtype.c0)}: give the layout the rows of the window"
        )
    return Step(made)
