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
from functools import cached_property
from typing import Any, NamedTuple

from aicore_sim.errors import OutOfBoundsError, ParameterError
from aicore_sim.instructions.base import cached_hash
from aicore_sim.instructions.cube_layout import ceil_div

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
        object.__setattr__(self, "shape", numbers(self.shape, "shape", 1))
        object.__setattr__(self, "stride", numbers(self.stride, "stride", 0))
        if not _alike(self.shape, self.stride):
            raise ParameterError("a layout has one stride for every extent", field="stride", value=str(self.stride),
                                 allowed=f"the form of the shape {self.shape}")  # fmt: skip

    @cached_property
    def batched(self) -> bool:
        return len(self.shape) == 2 and isinstance(self.shape[0], int) and isinstance(self.shape[1], tuple)

    @property
    def batch(self) -> int:
        """Number of matrices, 1 without a batch dimension."""
        return int(self.shape[0]) if self.batched else 1

    @property
    def batch_stride(self) -> int:
        return int(self.stride[0]) if self.batched else 0

    @cached_property
    def rows(self) -> Axis:
        return self._axis(0)

    @cached_property
    def columns(self) -> Axis:
        return self._axis(1)

    @cached_property
    def _parts(self) -> dict[Nested, Layout]:
        """Layouts cut out so far, by shape: a loop over tiles gets the same one every time."""
        return {}

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
        given = numbers(coord, "coord", 0)
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
        part = self._parts.get(cut)
        if part is None:
            part = self._parts[cut] = Layout(cut, self.stride, self.pattern, self.c0)
        return self.offset(row, column, batch), part

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
def numbers(given: Any, field: str, least: int) -> Nested:
    """A nested tuple of plain ints. Raises ParameterError for anything else and for numbers below `least`."""
    if not isinstance(given, tuple | list):
        raise ParameterError(f"{field} is a tuple", field=field, value=str(given), allowed=f"make_{field}(...)")
    if all([type(n) is int and n >= least for n in given]):
        return tuple(given)
    return tuple([numbers(n, field, least) if isinstance(n, tuple | list) else number(n, field, least) for n in given])


def number(given: Any, field: str, least: int) -> int:
    try:
        value = int(operator.index(given))
    except TypeError:
        raise ParameterError(f"{field}: whole numbers only", field=field, value=str(given)) from None
    if value < least:
        raise ParameterError(f"{field} is out of range", field=field, value=value, allowed=f">= {least}")
    return value


def _alike(a: Any, b: Any) -> bool:
    """Whether two nested tuples differ in their numbers alone."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(_alike, a, b))
    return not isinstance(b, tuple)


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
    given = numbers(shape, "shape", 1)
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
    return numbers(extents, "shape", 1)


def make_stride(*strides: Any) -> Nested:
    """MakeStride: distances in elements, or tuples of them. Raises ParameterError unless all are whole numbers >= 0."""
    return numbers(strides, "stride", 0)


def make_coord(*coord: Any) -> Nested:
    """MakeCoord: indices, or tuples of them. Raises ParameterError unless all are whole numbers >= 0."""
    return numbers(coord, "coord", 0)


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
