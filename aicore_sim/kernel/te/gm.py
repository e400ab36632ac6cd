"""GM to L1: the DataCopy instructions that a Tensor API copy becomes (spec api_semantics.md 7.2, 8.2, 9.1).

The extent is the source's: a slice of ND or DN moves exactly its rows and columns, fractal layouts whole fractals.
"""

from __future__ import annotations

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams
from aicore_sim.kernel.te.frames import kind_of
from aicore_sim.kernel.te.layout import Axis, Layout
from aicore_sim.kernel.te.load import Step

ROUTES = {("NZ", "NZ"), ("ZN", "ZN"), ("ND", "NZ"), ("DN", "ZN"), ("DN", "NZ"), ("ND", "ZN"), ("ND", "ND")}
_PLAIN = {("NZ", "NZ"), ("ZN", "ZN"), ("ND", "ND")}
MAX_BATCH = 4095


def gm_steps(dst: Layout, src: Layout, dtype: DataType, card: Card, warnings: list[str]) -> list[Step]:
    """The DataCopy, ND2NZ or DN2NZ instructions of a copy from GM to L1.

    Raises ParameterError for layouts that have no route or do not fit each other, UnsupportedError for an element type
    or a batch that the route does not take.
    """
    kinds = (kind_of(src, dtype), kind_of(dst, dtype))
    name = f"{kinds[0]} to {kinds[1]}"
    if kinds not in ROUTES:
        allowed = ", ".join(f"{a} to {b}" for a, b in sorted(ROUTES))
        raise ParameterError(f"Copy: no route from {kinds[0]} in GM to {kinds[1]} in L1", field="layout", value=name,
                             allowed=allowed, card=card.name)  # fmt: skip
    flips = kinds in {("DN", "NZ"), ("ND", "ZN")}
    if dtype.name == "fp8_e8m0" or (dtype.bits == 64 and kinds not in _PLAIN) or (dtype.bits == 4 and flips):
        raise UnsupportedError(f"Copy: {name} does not take this element type", field="dtype", value=dtype.name,
                               card=card.name)  # fmt: skip
    if src.batch != dst.batch or src.batch > MAX_BATCH:
        raise ParameterError("Copy: source and destination have one number of matrices", field="batch",
                             value=f"{src.batch} to {dst.batch}", allowed=f"equal, up to {MAX_BATCH}", card=card.name)  # fmt: skip
    if src.batch > 1 and kinds in {("NZ", "NZ"), ("ZN", "ZN")}:
        raise UnsupportedError(f"Copy: {name} takes single matrices", field="batch", value=src.batch, allowed="1",
                               card=card.name)  # fmt: skip
    _fits(dst, src, warnings)
    if kinds == ("ND", "ND"):
        return _rows(dst, src, dtype, card)
    if kinds[0] == kinds[1]:
        return [_fractals(dst, src, dtype, kinds[0], card)]
    return [_converted(dst, src, dtype, kinds, flips)]


def _fits(dst: Layout, src: Layout, warnings: list[str]) -> None:
    if src.rows.extent > dst.rows.extent or src.columns.extent > dst.columns.extent:
        warnings.append(
            f"the source has {src.rows.extent} x {src.columns.extent} elements, the destination room for"
            f" {dst.rows.extent} x {dst.columns.extent}: the copy runs into what lies behind"
        )


def _unit(value: int, dtype: DataType, field: str) -> int:
    """Elements as the instruction counts them: 4 bits in bytes (spec 8.4), 64 bits as two of 32.

    Raises ParameterError for half a byte.
    """
    if dtype.bits == 4 and value % 2:
        raise ParameterError("Copy: 4-bit elements are moved in pairs", field=field, value=value, allowed="even")
    return value // 2 if dtype.bits == 4 else value * 2 if dtype.bits == 64 else value


def _converted(dst: Layout, src: Layout, dtype: DataType, kinds: tuple[str, str], flips: bool) -> Step:
    """ND2NZ where the contiguous axis of the source becomes the axis of C0, DN2NZ where it becomes the axis of 16."""
    rows, columns = src.rows, src.columns
    far, near = (rows, columns) if kinds[0] == "ND" else (columns, rows)
    # n runs over the destination's axis of 16, d over its axis of C0.
    n, d = (near, far) if flips else (far, near)
    blocks = (dst.columns if kinds[1] == "NZ" else dst.rows).outer_stride // dtype.c0
    matrix_src, matrix_dst = (_unit(s, dtype, "batch") for s in (src.batch_stride, dst.batch_stride))
    pitch = _unit(far.outer_stride, dtype, "stride")
    if flips:
        return Step(Dn2NzParams(src.batch, n.extent, d.extent, matrix_src, pitch, blocks, 1, matrix_dst))
    return Step(
        Nd2NzParams(src.batch, n.extent, _unit(d.extent, dtype, "shape"), matrix_src, pitch, blocks, 1, matrix_dst)
    )


def _fractals(dst: Layout, src: Layout, dtype: DataType, kind: str, card: Card) -> Step:
    """Equal fractal layouts: one block for every group of fractals that lie together."""

    def axes(layout: Layout) -> tuple[Axis, Axis]:
        return (layout.rows, layout.columns) if kind == "NZ" else (layout.columns, layout.rows)

    m, k = axes(src)
    gaps = []
    for side, axis in (("source", k), ("destination", axes(dst)[1])):
        gap = axis.outer_stride // dtype.c0 - m.extent
        if gap < 0 and k.outer > 1:
            raise ParameterError(f"Copy: the column blocks of the {side} overlap", field="stride",
                                 value=axis.outer_stride, allowed=f">= {m.extent * dtype.c0}", card=card.name)  # fmt: skip
        gaps.append(max(gap, 0) if k.outer > 1 else 0)
    return Step(DataCopyParams(k.outer, m.extent, *gaps))


def _rows(dst: Layout, src: Layout, dtype: DataType, card: Card) -> list[Step]:
    """Rows to rows. Where both sides are contiguous the matrix is one long row; else rows start at 32 B in L1."""
    rows, columns = src.rows.extent, src.columns.extent
    pitches = (src.rows.outer_stride, dst.rows.outer_stride)
    if rows > 1 and pitches == (columns, columns):
        rows, columns = 1, rows * columns
    elif rows > 1 and pitches[1] % dtype.c0:
        raise ParameterError("Copy: rows in L1 start at multiples of 32 B, or both sides are contiguous", field="stride",
                             value=pitches[1], allowed=f"multiples of {dtype.c0} elements", card=card.name)  # fmt: skip
    elif rows > 1 and pitches[1] < columns:
        raise ParameterError("Copy: the rows of the destination overlap", field="stride", value=pitches[1],
                             allowed=f">= {columns}", card=card.name)  # fmt: skip
    steps = [
        Step(step.params, step.dst + b * dst.batch_stride, step.src + b * src.batch_stride)
        for b in range(src.batch)
        for step in _lines(rows, columns, pitches, dtype)
    ]
    for step in steps:
        _unit(step.src, dtype, "batch")
    return steps


def _lines(rows: int, columns: int, pitches: tuple[int, int], dtype: DataType) -> list[Step]:
    whole, rest = divmod(columns, dtype.c0)
    steps = []
    if rows == 1:
        if whole:
            steps.append(Step(DataCopyParams(1, whole)))
        if rest:
            tail = _unit(rest, dtype, "shape")
            steps.append(Step(Nd2NzParams(1, 1, tail, 0, tail, 1, 1, 0), whole * dtype.c0, whole * dtype.c0))
        return steps
    far, near = pitches[0], pitches[1] // dtype.c0
    if not rest and far % dtype.c0 == 0 and far >= columns:
        return [Step(DataCopyParams(rows, whole, far // dtype.c0 - whole, near - whole))]
    # ND2NZ with column blocks 32 B apart leaves rows as they are and fills their last 32 B with zeros.
    width, pitch = (_unit(n, dtype, "shape") for n in (columns, far))
    return [Step(Nd2NzParams(1, rows, width, 0, pitch, 1, near, 0))]
