"""Layouts by pattern: making them, and recognising the pattern of one (spec api_semantics.md 7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.cube_layout import SIDE, align_up, ceil_div
from aicore_sim.kernel.te.layout import Layout, Nested, Pattern, number, numbers


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
    extents = numbers(args, "shape", 1)
    if pattern is Pattern.NC1HWC0:
        return _feature_map(extents)
    if pattern in _FRACTALS and trait is None:
        raise ParameterError(f"{pattern.value} needs an element type or C0", field="trait", value=str(args),
                             allowed="make_frame_layout(pattern, dtype, rows, columns)")  # fmt: skip
    if len(extents) not in (2, 3):
        raise ParameterError(f"{pattern.value} is made from rows and columns", field="shape", value=str(extents),
                             allowed="(rows, columns) or (batch, rows, columns)")  # fmt: skip
    return _frame_layout(pattern, 0 if trait is None else _c0(trait), extents)


@lru_cache
def _frame_layout(pattern: Pattern, c0: int, extents: tuple[int, ...]) -> Layout:
    """Kernels make the same layouts in every round of a loop."""
    shape, stride = _frame(pattern, c0, *extents[-2:])
    made = Layout(shape, stride, pattern, c0)
    if len(extents) == 2:
        return made
    return Layout((extents[0], shape), (made.capacity(), stride), pattern, c0)


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
    return trait.c0 if isinstance(trait, DataType) else number(trait, "trait", 1)


def _feature_map(extents: Nested) -> Layout:
    if len(extents) != 5:
        raise ParameterError(
            "a feature map has five extents", field="shape", value=str(extents), allowed="n, c1, h, w, c0"
        )
    _, c1, h, w, c0 = extents
    return Layout(extents, (c1 * h * w * c0, h * w * c0, w * c0, c0, 1), Pattern.NC1HWC0, c0)


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
