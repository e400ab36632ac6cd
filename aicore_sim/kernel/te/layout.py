"""Layouts of the Tensor API: where element (row, column) of a tensor lies (spec api_semantics.md 7.1).

A layout is a shape and a stride of the same nested form. A matrix is `((row0, row1), (col0, col1))`: rows counted inside
a fractal, then fractals, and columns likewise; `(rows, columns)` is a matrix without fractals, and `(batch, matrix)` puts
equal matrices one behind the other. Element (r, c) lies at `r % row0 * stride(row0) + r // row0 * stride(row1)` plus the
same of the column, in elements from the start.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import cached_hash
from aicore_sim.instructions.cube_layout import SIDE, align_up, ceil_div

Nested = tuple[Any, ...]
"""Ints and tuples of them, as make_shape, make_stride and make_coord give."""


class Pattern(Enum):
    """What a layout is called: fractals in columns (NZ), in rows (ZZ), transposed fractals in rows (ZN), plain rows (ND),
    plain columns (DN; Ext: written with fractals of one element), feature maps."""

    NZ = "NZ"
    ZN = "ZN"
    ZZ = "ZZ"
    ND = "ND"
    DN = "DN"
    ND_EXT = "NDExt"
    DN_EXT = "DNExt"
    NC1HWC0 = "NC1HWC0"


NZLayoutPtn = Pattern.NZ
ZNLayoutPtn = Pattern.ZN
ZZLayoutPtn = Pattern.ZZ
NDLayoutPtn = Pattern.ND
DNLayoutPtn = Pattern.DN
NDExtLayoutPtn = Pattern.ND_EXT
DNExtLayoutPtn = Pattern.DN_EXT
NC1HWC0LayoutPtn = Pattern.NC1HWC0


class Axis(NamedTuple):
    """Rows or columns of a matrix: `outer` groups of `inner`, and the strides of both in elements."""

    inner: int
    outer: int
    inner_stride: int
    outer_stride: int

    @property
    def extent(self) -> int:
        return self.inner * self.outer

    @property
    def even(self) -> bool:
        """True where all neighbours are equally far apart, so that a slice may start anywhere."""
        return self.outer_stride == self.inner * self.inner_stride or self.inner == 1

    def offset(self, index: int) -> int:
        return index % self.inner * self.inner_stride + index // self.inner * self.outer_stride


@dataclass(frozen=True)
class Layout:
    """Shape and stride, and the pattern if it was made as one; `c0` is the elements of 32 B that a pattern was made for.

    Raises ParameterError where shape and stride do not fit each other.
    """

    shape: Nested
    stride: Nested
    pattern: Pattern | None = None
    c0: int = 0

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _numbers(self.shape, "shape", 1))
        object.__setattr__(self, "stride", _numbers(self.stride, "stride", 0))
        if _structure(self.shape) != _structure(self.stride):
            raise ParameterError("a layout has one stride for every extent", field="stride", value=str(self.stride),
                                 allowed=f"the form of the shape {self.shape}")  # fmt: skip

    @property
    def batched(self) -> bool:
        return len(self.shape) == 2 and isinstance(self.shape[0], int) and isinstance(self.shape[1], tuple)

    @property
    def batch(self) -> int:
        """Number of matrices, 1 without a batch dimension."""
        return int(self.shape[0]) if self.batched else 1

    @property
    def batch_stride(self) -> int:
        return int(self.stride[0]) if self.batched else 0

    @property
    def rows(self) -> Axis:
        return self._axis(0)

    @property
    def columns(self) -> Axis:
        return self._axis(1)

    def _axis(self, which: int) -> Axis:
        shape, stride = (self.shape[1], self.stride[1]) if self.batched else (self.shape, self.stride)
        if len(shape) != 2 or any(not isinstance(n, int) and (len(n) != 2 or not _flat(n)) for n in shape):
            raise ParameterError("this layout is no matrix", field="shape", value=str(self.shape),
                                 allowed="(rows, columns) or ((row0, row1), (col0, col1)), with a batch in front")  # fmt: skip
        if isinstance(shape[which], int):
            return Axis(1, shape[which], 0, stride[which])
        return Axis(*shape[which], *stride[which])

    def offset(self, row: int, column: int, batch: int = 0) -> int:
        """Position of an element, in elements. Nothing is checked: the strides simply go on."""
        return batch * self.batch_stride + self.rows.offset(row) + self.columns.offset(column)

    def __call__(self, *coord: Any) -> int:
        """`offset` of a coordinate in any form that `place` takes."""
        batch, row, column = self.place(coord[0] if len(coord) == 1 else coord)
        return self.offset(row, column, batch)

    def place(self, coord: Any) -> tuple[int, int, int]:
        """(batch, row, column) of a coordinate: (row, column), ((row0, row1), (col0, col1)) or (batch, one of them).

        Raises ParameterError for another form or negative numbers.
        """
        given = _numbers(coord, "coord", 0)
        batch = 0
        if self.batched:
            if len(given) != 2 or not isinstance(given[0], int) or not isinstance(given[1], tuple):
                raise ParameterError("the coordinate has no batch", field="coord", value=str(given),
                                     allowed="(batch, (row, column))")  # fmt: skip
            batch, given = given
        if len(given) != 2 or any(isinstance(n, tuple) and (len(n) != 2 or not _flat(n)) for n in given):
            raise ParameterError("no coordinate of a matrix", field="coord", value=str(given),
                                 allowed="(row, column) or ((row0, row1), (col0, col1))")  # fmt: skip
        row, column = (
            n if isinstance(n, int) else n[0] + n[1] * axis.inner
            for n, axis in zip(given, (self.rows, self.columns), strict=True)
        )
        return batch, row, column

    def cut(self, coord: Any, shape: Any = None) -> tuple[int, Layout]:
        """Offset and layout of the part that starts at `coord`; the strides stay.

        `shape` is (rows, columns), (batch, (rows, columns)), another layout, or None for all the rest. As in the C++
        implementation it is cut off at the end of the tensor and rounded up to whole fractals. Raises OutOfBoundsError
        for a start outside, ParameterError for one in the middle of a fractal that the strides cannot start from.
        """
        batch, row, column = self.place(coord)
        wanted = _extents(shape, self.batched)
        pairs = []
        for axis, start, want, field in zip(
            (self.rows, self.columns), (row, column), wanted[1:], ("row", "column"), strict=True
        ):
            if start >= axis.extent:
                raise OutOfBoundsError(f"the slice starts behind the last {field}", field="coord", value=start,
                                       allowed=f"0..{axis.extent - 1}")  # fmt: skip
            if not axis.even and start % axis.inner:
                raise ParameterError(f"the slice starts inside a fractal ({field})", field="coord", value=start,
                                     allowed=f"multiples of {axis.inner}")  # fmt: skip
            left = axis.extent - start
            pairs.append((axis, ceil_div(left if want is None else min(left, want), axis.inner)))
        matrix = self.shape[1] if self.batched else self.shape
        cut: Nested = tuple(
            outer if isinstance(old, int) else (axis.inner, outer)
            for old, (axis, outer) in zip(matrix, pairs, strict=True)
        )
        if self.batched:
            if batch >= self.batch:
                raise OutOfBoundsError("the slice starts behind the last matrix", field="coord", value=batch,
                                       allowed=f"0..{self.batch - 1}")  # fmt: skip
            rest = self.batch - batch
            cut = (rest if wanted[0] is None else min(rest, wanted[0]), cut)
        return self.offset(row, column, batch), Layout(cut, self.stride, self.pattern, self.c0)

    def size(self) -> int:
        """Elements of the shape."""
        count = 1
        for extent in _leaves(self.shape):
            count *= extent
        return count

    def capacity(self) -> int:
        """Elements from the first to the last one, holes included."""
        return 1 + sum((n - 1) * s for n, s in zip(_leaves(self.shape), _leaves(self.stride), strict=True))

    @property
    def rank(self) -> int:
        return len(self.shape)


# ---- nested tuples ------------------------------------------------------------------------------------------------
def _numbers(given: Any, field: str, least: int) -> Nested:
    """A nested tuple of plain ints. Raises ParameterError for anything else and for numbers below `least`."""
    if not isinstance(given, tuple | list):
        raise ParameterError(f"{field} is a tuple", field=field, value=str(given), allowed=f"make_{field}(...)")
    return tuple(_numbers(n, field, least) if isinstance(n, tuple | list) else _number(n, field, least) for n in given)


def _number(given: Any, field: str, least: int) -> int:
    try:
        value = int(operator.index(given))
    except TypeError:
        raise ParameterError(f"{field}: whole numbers only", field=field, value=str(given)) from None
    if value < least:
        raise ParameterError(f"{field} is out of range", field=field, value=value, allowed=f">= {least}")
    return value


def _structure(nested: Any) -> Any:
    return tuple(map(_structure, nested)) if isinstance(nested, tuple) else None


def _flat(nested: Nested) -> bool:
    return all(isinstance(n, int) for n in nested)


def _leaves(nested: Any) -> Iterator[int]:
    if isinstance(nested, tuple):
        for part in nested:
            yield from _leaves(part)
    else:
        yield nested


def _extents(shape: Any, batched: bool) -> tuple[int | None, int | None, int | None]:
    """(batch, rows, columns) of what a slice asks for; None: whatever is left."""
    if shape is None:
        return None, None, None
    if isinstance(shape, Layout):
        return (shape.batch if shape.batched else None), shape.rows.extent, shape.columns.extent
    given = _numbers(shape, "shape", 1)
    batch = None
    if batched and len(given) == 2 and isinstance(given[0], int) and isinstance(given[1], tuple):
        batch, given = given
    if len(given) != 2 or any(isinstance(n, tuple) and (len(n) != 2 or not _flat(n)) for n in given):
        raise ParameterError("no shape of a slice", field="shape", value=str(shape),
                             allowed="(rows, columns) or (batch, (rows, columns))")  # fmt: skip
    rows, columns = (n if isinstance(n, int) else n[0] * n[1] for n in given)
    return batch, rows, columns


def make_shape(*extents: Any) -> Nested:
    """MakeShape: extents, or tuples of them. Raises ParameterError unless all are whole numbers from 1 on."""
    return _numbers(extents, "shape", 1)


def make_stride(*strides: Any) -> Nested:
    """MakeStride: distances in elements, or tuples of them. Raises ParameterError unless all are whole numbers >= 0."""
    return _numbers(strides, "stride", 0)


def make_coord(*coord: Any) -> Nested:
    """MakeCoord: indices, or tuples of them. Raises ParameterError unless all are whole numbers >= 0."""
    return _numbers(coord, "coord", 0)


def get(nested: Any, *indices: int) -> Any:
    """Get<i, j, ...>: the part of a nested tuple."""
    for index in indices:
        nested = nested[index]
    return nested


def get_shape(layout: Any, *indices: int) -> Any:
    """GetShape<i, j, ...> of a layout or tensor."""
    return get(layout.shape, *indices)


def get_stride(layout: Any, *indices: int) -> Any:
    """GetStride<i, j, ...> of a layout or tensor."""
    return get(layout.stride, *indices)


# ---- making layouts -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LayoutTraitDefault:
    """The trait that takes C0 from an element type: `LayoutTraitDefault(dtype)`."""

    dtype: DataType


def make_layout(shape: Any, stride: Any) -> Layout:
    """MakeLayout: any shape and stride. A copy finds the pattern from the numbers."""
    return Layout(shape, stride)


def make_pattern_layout(pattern: Pattern, trait: Any, shape: Any, stride: Any) -> Layout:
    """MakePatternLayout<Pattern, Trait>(shape, stride): a pattern with outer strides of one's own.

    `trait` is an element type, a LayoutTraitDefault or C0 itself. Raises ParameterError for inner extents or strides
    that the pattern does not have, and for outer ones that are no whole fractals.
    """
    made = Layout(shape, stride, _known(pattern), _c0(trait))
    if pattern is not Pattern.NC1HWC0:
        check_pattern(made, family(pattern), made.c0)
    return made


def make_frame_layout(pattern: Pattern, *args: Any) -> Layout:
    """MakeFrameLayout<Pattern, Trait>(rows, columns) or (batch, rows, columns): contiguous, rounded to whole fractals.

    The trait (element type, LayoutTraitDefault or C0) stands between pattern and numbers; ND and DN do without. The
    feature map NC1HWC0 takes (n, c1, h, w, c0). Raises ParameterError for missing or wrong arguments, UnsupportedError for
    the patterns of scale matrices.
    """
    _known(pattern)
    trait: Any = None
    if args and (isinstance(args[0], DataType | LayoutTraitDefault) or (pattern in _FRACTALS and len(args) >= 3)):
        trait, args = args[0], args[1:]
    numbers = _numbers(args, "shape", 1)
    if pattern is Pattern.NC1HWC0:
        return _feature_map(numbers)
    if pattern in _FRACTALS and trait is None:
        raise ParameterError(f"{pattern.value} needs an element type or C0", field="trait", value=str(args),
                             allowed="make_frame_layout(pattern, dtype, rows, columns)")  # fmt: skip
    if len(numbers) not in (2, 3):
        raise ParameterError(f"{pattern.value} is made from rows and columns", field="shape", value=str(numbers),
                             allowed="(rows, columns) or (batch, rows, columns)")  # fmt: skip
    c0 = 0 if trait is None else _c0(trait)
    shape, stride = _frame(pattern, c0, *numbers[-2:])
    made = Layout(shape, stride, pattern, c0)
    if len(numbers) == 2:
        return made
    return Layout((numbers[0], shape), (made.capacity(), stride), pattern, c0)


def _named(pattern: Pattern, name: str, dtype: DataType | None, args: tuple[Any, ...]) -> Layout:
    if args and isinstance(args[0], DataType):
        if dtype is not None:
            raise ParameterError(f"{name}: the element type is given twice", field="dtype", value=dtype.name)
        dtype, args = args[0], args[1:]
    if dtype is None:
        raise ParameterError(f"{name} takes an element type first", field="dtype", value=str(args),
                             allowed=f"{name}(dtype, rows, columns)")  # fmt: skip
    return make_frame_layout(pattern, dtype, *args)


def make_nz_layout(*args: Any, dtype: DataType | None = None) -> Layout:
    """MakeNZLayout<T>(rows, columns) as `make_nz_layout(dtype, rows, columns)`, or with `dtype=`; a batch may come first."""
    return _named(Pattern.NZ, "make_nz_layout", dtype, args)


def make_zn_layout(*args: Any, dtype: DataType | None = None) -> Layout:
    """MakeZNLayout<T>(rows, columns); arguments as `make_nz_layout`."""
    return _named(Pattern.ZN, "make_zn_layout", dtype, args)


def make_zz_layout(*args: Any, dtype: DataType | None = None) -> Layout:
    """MakeZZLayout<T>(rows, columns); arguments as `make_nz_layout`. No copy of this version takes it."""
    return _named(Pattern.ZZ, "make_zz_layout", dtype, args)


def make_nd_layout(*args: Any, dtype: DataType | None = None) -> Layout:
    """MakeNDLayout<T>(rows, columns), row-major, as ((1, rows), (1, columns)); arguments as `make_nz_layout`."""
    return _named(Pattern.ND_EXT, "make_nd_layout", dtype, args)


def make_dn_layout(*args: Any, dtype: DataType | None = None) -> Layout:
    """MakeDNLayout<T>(rows, columns), column-major, as ((1, rows), (1, columns)); arguments as `make_nz_layout`."""
    return _named(Pattern.DN_EXT, "make_dn_layout", dtype, args)


_FRACTALS = (Pattern.NZ, Pattern.ZN, Pattern.ZZ)


def _known(pattern: Any) -> Pattern:
    if not isinstance(pattern, Pattern):
        raise UnsupportedError("this pattern is not in this version", field="pattern", value=str(pattern),
                               allowed=", ".join(f"{p.value}LayoutPtn" for p in Pattern))  # fmt: skip
    return pattern


def _c0(trait: Any) -> int:
    if isinstance(trait, LayoutTraitDefault):
        trait = trait.dtype
    return trait.c0 if isinstance(trait, DataType) else _number(trait, "trait", 1)


def _feature_map(numbers: Nested) -> Layout:
    if len(numbers) != 5:
        raise ParameterError(
            "a feature map has five extents", field="shape", value=str(numbers), allowed="n, c1, h, w, c0"
        )
    _, c1, h, w, c0 = numbers
    return Layout(numbers, (c1 * h * w * c0, h * w * c0, w * c0, c0, 1), Pattern.NC1HWC0, c0)


def _frame(pattern: Pattern, c0: int, row: int, column: int) -> tuple[Nested, Nested]:
    """Shape and stride of a contiguous matrix (spec 7.1)."""
    if pattern is Pattern.ND:
        return (row, column), (column, 1)
    if pattern is Pattern.DN:
        return (row, column), (1, row)
    if pattern is Pattern.ND_EXT:
        return ((1, row), (1, column)), ((0, column), (0, 1))
    if pattern is Pattern.DN_EXT:
        return ((1, row), (1, column)), ((0, 1), (0, row))
    if pattern is Pattern.ZN:
        shape = ((c0, ceil_div(row, c0)), (SIDE, ceil_div(column, SIDE)))
        return shape, ((1, c0 * align_up(column, SIDE)), (c0, c0 * SIDE))
    shape = ((SIDE, ceil_div(row, SIDE)), (c0, ceil_div(column, c0)))
    if pattern is Pattern.ZZ:
        return shape, ((c0, SIDE * align_up(column, c0)), (1, c0 * SIDE))
    return shape, ((c0, c0 * SIDE), (1, c0 * align_up(row, SIDE)))


# ---- recognising patterns -------------------------------------------------------------------------------------------
def family(pattern: Pattern) -> str:
    """The pattern as routes name it: ND and DN without Ext."""
    return {Pattern.ND_EXT: "ND", Pattern.DN_EXT: "DN"}.get(pattern, pattern.value)


_ORDER = ("NZ", "ZN", "ZZ", "ND", "DN")


def kind_of(layout: Layout, dtype: DataType) -> str:
    """NZ, ZN, ZZ, ND or DN: the pattern the layout was made as, or the first that its numbers fit for this element type.

    Raises ParameterError for a layout made for another C0, and for numbers that fit none.
    """
    if layout.pattern is not None:
        kind = family(layout.pattern)
        check_pattern(layout, kind, dtype.c0)
        return kind
    for kind in _ORDER:
        if not _misfit(layout, kind, dtype.c0):
            return kind
    raise ParameterError(f"shape and stride are no layout of {dtype.name} that copies know", field="layout",
                         value=f"{layout.shape} : {layout.stride}", allowed=", ".join(_ORDER))  # fmt: skip


def check_pattern(layout: Layout, kind: str, c0: int) -> None:
    """Raise ParameterError unless inner extents and strides are those of the pattern and outer strides whole fractals."""
    wrong = _misfit(layout, kind, c0)
    if wrong:
        raise ParameterError(f"no {kind} layout with C0 = {c0}: {wrong}", field="layout",
                             value=f"{layout.shape} : {layout.stride}")  # fmt: skip


def _misfit(layout: Layout, kind: str, c0: int) -> str:
    """What keeps a layout from being a pattern, "" for nothing."""
    rows, columns = layout.rows, layout.columns
    if kind in ("ND", "DN"):
        along = columns if kind == "ND" else rows
        if rows.inner != 1 or columns.inner != 1:
            return "inner extents are 1"
        return "" if along.outer_stride == 1 else f"{'columns' if kind == 'ND' else 'rows'} are contiguous"
    # (across, along): the axis of 16 and the one of C0 contiguous elements.
    across, along = (columns, rows) if kind == "ZN" else (rows, columns)
    if (across.inner, along.inner) != (SIDE, c0):
        return f"inner extents are {SIDE} and {c0}"
    if (across.inner_stride, along.inner_stride) != (c0, 1):
        return f"inner strides are {c0} and 1"
    near, far = (along, across) if kind == "ZZ" else (across, along)
    if near.outer_stride != SIDE * c0:
        return f"fractals follow each other every {SIDE * c0} elements"
    return f"the outer stride is a multiple of {SIDE * c0}" if far.outer_stride % (SIDE * c0) else ""
