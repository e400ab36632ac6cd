"""Random copies of the Tensor API against its one promise: element (r, c) of the source is element (r, c) of the destination.

The reference knows the layouts (spec api_semantics.md 7.1) and nothing of instructions. Into L0 what lies beyond the
extent is not defined (7.3) and not looked at, up to the bytes that no piece of the copy may reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.errors import AiCoreError, AlignmentError, OutOfBoundsError, ParameterError
from tests.instructions.cube_setup import nz, zn
from tests.properties.profile import PROPERTY
from tests.stage import SENTINEL, Place, Stage, noise

te = asc.te
LOADED = ["half", "bfloat16", "int16", "uint16", "float32", "int32", "uint32", "int8", "uint8", "fp8_e4m3fn", "fp8_e5m2",
          "hifloat8", "fp4x2_e2m1", "fp4x2_e1m2"]  # fmt: skip
"""Element types of the routes into L0 (spec 7.5)."""
WIDE = ["int64", "uint64"]
MAKERS = {"NZ": te.make_nz_layout, "ZN": te.make_zn_layout, "ND": te.make_nd_layout, "DN": te.make_dn_layout}
POSITIONS = {"GM": "GM", "L1": "A1", "L0A": "A2", "L0B": "B2"}
LOADS = [("L0A", "NZ", "NZ"), ("L0A", "ZN", "NZ"), ("L0B", "NZ", "ZN"), ("L0B", "ZN", "ZN")]
COPIES = [("NZ", "NZ"), ("ZN", "ZN"), ("ND", "NZ"), ("DN", "ZN"), ("DN", "NZ"), ("ND", "ZN"), ("ND", "ND")]


# ---- the reference: layouts by their definition --------------------------------------------------------------------
def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def index(kind: str, shape: tuple[int, int], c0: int, r: Any, c: Any) -> Any:
    """Position of (r, c) in a contiguous matrix of this shape."""
    if kind == "ND":
        return r * shape[1] + c
    if kind == "DN":
        return c * shape[0] + r
    return (nz if kind == "NZ" else zn)(r, c, *shape, c0)


def stored(kind: str, shape: tuple[int, int], c0: int) -> int:
    """Elements of a contiguous matrix with its padding."""
    rows, columns = shape
    units = {"NZ": (16, c0), "ZN": (c0, 16)}.get(kind, (1, 1))
    return up(rows, units[0]) * up(columns, units[1])


class Copy:
    """A stage with both tensors, the copy made, and source and result as words."""

    def __init__(self, dtype: str, to: str, source: tuple[str, str, tuple[int, int]], dest: tuple[str, tuple[int, int]],
                 *, spare: int = 0, cut: Any = None, place: Any = None, batch: int = 1, start: int = 0,
                 call: Callable[[Any, Any], None] | None = None, run: bool = True) -> None:  # fmt: skip
        self.dtype = asc.DataType(dtype)
        c0, bits = self.dtype.c0, self.dtype.bits
        where, kind, shape = source
        sizes = [batch * stored(k, s, c0) * bits // 8 for k, s in ((kind, shape), dest)]
        sizes[0] += spare  # instructions take whole squares, which may reach behind the last element
        sizes[1] += start + spare
        self.stage = Stage("atlas_350", {"src": Place(POSITIONS[where], dtype, noise(max(sizes[0], 2))),
                                         "dst": Place(POSITIONS[to], dtype, sizes[1])}, core="aic")  # fmt: skip
        leading = () if batch == 1 else (batch,)

        def body() -> None:
            src = te.make_tensor(te.make_mem_ptr(self.stage["src"]), MAKERS[kind](self.dtype, *leading, *shape))
            to_ = te.make_mem_ptr(self.stage["dst"]) + start * 8 // bits
            dst = te.make_tensor(to_, MAKERS[dest[0]](self.dtype, *leading, *dest[1]))
            if cut is not None:
                src = te.slice(src, *cut)
            if place is not None:
                dst = te.slice(dst, *place)
            operation = te.CopyGM2L1() if where == "GM" else te.CopyL12L0()
            (call or (lambda d, s: te.copy(te.make_copy(operation), d, s)))(dst, src)

        self.body = body
        if run:
            self.stage.call(body)

    def words(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.stage.words("src"), self.stage.words("dst")


def check_placed(copy: Copy, got_at: NDArray[Any], want_at: NDArray[Any]) -> None:
    """Elements of the source arrived, and are defined."""
    src, got = copy.words()
    np.testing.assert_array_equal(got[got_at], src[want_at])
    bits = copy.dtype.bits
    assert copy.stage.defined("dst")[np.unique(got_at * bits // 8)].all()


# ---- into L0 --------------------------------------------------------------------------------------------------------
@st.composite
def load(draw: Any, dtypes: list[str] = LOADED, most: int = 100) -> tuple[str, str, str, str, int, int]:
    to, src, dst = draw(st.sampled_from(LOADS))
    return draw(st.sampled_from(dtypes)), to, src, dst, draw(st.integers(1, most)), draw(st.integers(1, most))


@PROPERTY
@given(load())
def test_loads_keep_every_element(case: tuple[str, str, str, str, int, int]) -> None:
    dtype, to, src, dst, rows, columns = case
    copy = Copy(dtype, to, ("L1", src, (rows, columns)), (dst, (rows, columns)), spare=8192)
    c0 = copy.dtype.c0
    r, c = np.indices((rows, columns))
    check_placed(copy, index(dst, (rows, columns), c0, r, c), index(src, (rows, columns), c0, r, c))
    # A transposed copy writes whole squares (spec 3.1), of which a part may lie behind the destination (7.3).
    square = {4: 64, 8: 32}.get(copy.dtype.bits, 16)
    reach = stored(dst, (up(rows, square), up(columns, square)), c0) * copy.dtype.bits // 8
    assert (copy.stage.bytes("dst")[reach:] == SENTINEL).all()
    end = stored(dst, (rows, columns), c0) * copy.dtype.bits // 8
    if src == dst:
        assert (copy.stage.bytes("dst")[end:] == SENTINEL).all()
        assert len(copy.stage.ops) == 1


@PROPERTY
@given(load(), st.data())
def test_loads_of_slices_into_slices(case: tuple[str, str, str, str, int, int], data: Any) -> None:
    dtype, to, src, dst, rows, columns = case
    c0 = asc.DataType(dtype).c0
    units = {"NZ": (16, c0), "ZN": (c0, 16)}
    # The slice starts where both layouts have a fractal; transposed 8-bit pieces also overwrite what is beside them.
    r0, c0_ = (data.draw(st.integers(0, 2)) * u for u in units[src])
    big = (up(r0 + rows, units[src][0]) + 16, c0_ + columns)
    copy = Copy(dtype, to, ("L1", src, big), (dst, (rows, columns)), spare=16384,
                cut=((r0, c0_), (rows, columns)))  # fmt: skip
    r, c = np.indices((rows, columns))
    check_placed(copy, index(dst, (rows, columns), c0, r, c), index(src, big, c0, r + r0, c + c0_))


@PROPERTY
@given(load(["half", "float32", "int8", "fp4x2_e2m1"], 64), st.data())
def test_straight_loads_into_a_slice_leave_the_rest_alone(case: tuple[str, str, str, str, int, int], data: Any) -> None:
    dtype, to, _, kind, rows, columns = case
    c0 = asc.DataType(dtype).c0
    units = {"NZ": (16, c0), "ZN": (c0, 16)}[kind]
    r0, first = (data.draw(st.integers(0, 2)) * u for u in units)
    big = (r0 + rows + data.draw(st.integers(0, 20)), first + columns + data.draw(st.integers(0, 20)))
    copy = Copy(dtype, to, ("L1", kind, (rows, columns)), (kind, big), place=((r0, first), (rows, columns)))
    full = (up(rows, units[0]), up(columns, units[1]))
    r, c = np.indices(full)
    where = index(kind, big, c0, r + r0, c + first)
    check_placed(copy, where, index(kind, (rows, columns), c0, r, c))
    rest = np.ones(copy.words()[1].size, np.bool_)
    rest[where.reshape(-1)] = False
    sentinel = Stage("atlas_350", {"x": Place("A1", dtype, copy.stage.bytes("dst").size)}).words("x")
    np.testing.assert_array_equal(copy.words()[1][rest], sentinel[rest])


@PROPERTY
@given(load(), st.data())
def test_a_coordinate_is_a_slice_of_the_source(case: tuple[str, str, str, str, int, int], data: Any) -> None:
    dtype, to, src, dst, rows, columns = case
    c0 = asc.DataType(dtype).c0
    units = {"NZ": (16, c0), "ZN": (c0, 16)}[src]
    r0, first = (data.draw(st.integers(0, 2)) * u for u in units)
    big = (r0 + rows + data.draw(st.integers(0, 40)), first + columns + data.draw(st.integers(0, 40)))
    copy = Copy(dtype, to, ("L1", src, big), (dst, (rows, columns)), spare=16384,
                call=lambda d, s: te.load_data(d, s, te.make_coord(r0, first)))  # fmt: skip
    r, c = np.indices((rows, columns))
    check_placed(copy, index(dst, (rows, columns), c0, r, c), index(src, big, c0, r + r0, c + first))


@PROPERTY
@given(load(["half", "float32", "int32", "bfloat16"], 48), st.integers(2, 3))
def test_batches_of_loads(case: tuple[str, str, str, str, int, int], batch: int) -> None:
    dtype, to, src, dst, rows, columns = case
    columns, rows = up(columns, 16), up(rows, 16)  # b32: whole squares, or one matrix leaves its filler in the next
    copy = Copy(dtype, to, ("L1", src, (rows, columns)), (dst, (rows, columns)), batch=batch)
    c0 = copy.dtype.c0
    r, c = np.indices((rows, columns))
    for b in range(batch):
        check_placed(copy, b * rows * columns + index(dst, (rows, columns), c0, r, c),
                     b * rows * columns + index(src, (rows, columns), c0, r, c))  # fmt: skip
    assert len(copy.stage.ops) == (1 if src == dst else batch)


# ---- from GM --------------------------------------------------------------------------------------------------------
def taken(kinds: tuple[str, str]) -> list[str]:
    """Element types of a route from GM (page of Copy from GM to L1)."""
    if kinds in (("NZ", "NZ"), ("ZN", "ZN"), ("ND", "ND")):
        return LOADED + WIDE
    return [name for name in LOADED if "fp4" not in name or kinds in (("ND", "NZ"), ("DN", "ZN"))]


@PROPERTY
@given(st.data())
def test_copies_from_gm_place_the_slice_and_pad_with_zeros(data: Any) -> None:
    kinds = data.draw(st.sampled_from(COPIES))
    dtype = asc.DataType(data.draw(st.sampled_from(taken(kinds))))
    c0, two = dtype.c0, 2 if dtype.bits == 4 else 1
    source_unit, dest_unit = ({"NZ": (16, c0), "ZN": (c0, 16), "ND": (1, 1), "DN": (1, 1)}[k] for k in kinds)

    def drawn(low: int, high: int, unit: int) -> int:
        return data.draw(st.integers(low, high)) * max(unit, two)

    # Extents, the place in the source and the place in the destination, all where both layouts can start.
    rows, columns = (drawn(1, 60 // max(u, two) + 1, u) for u in source_unit)
    r0, first = (drawn(0, 2, u) for u in source_unit)
    big = (r0 + rows + drawn(0, 2, source_unit[0]), first + columns + drawn(0, 2, source_unit[1]))
    if kinds == ("ND", "ND"):
        dest_unit = (1, c0)
    dr, dc = (data.draw(st.integers(0, 2)) * u for u in dest_unit)
    frame = (dr + rows + data.draw(st.integers(0, 20)), up(dc + columns, c0) + data.draw(st.integers(0, 2)) * c0)
    copy = Copy(dtype.name, "L1", ("GM", kinds[0], big), (kinds[1], frame), cut=((r0, first), (rows, columns)),
                place=((dr, dc), (rows, columns)))  # fmt: skip
    r, c = np.indices((rows, columns))
    to = index(kinds[1], frame, c0, r + dr, c + dc)
    check_placed(copy, to, index(kinds[0], big, c0, r + r0, c + first))
    got = copy.words()[1]
    # The axis that 32 B run along is filled up with zeros; all else keeps what it held.
    along = (up(rows, c0), columns) if kinds[1] == "ZN" else (rows, up(columns, c0))
    r, c = np.indices(along)
    padded = index(kinds[1], frame, c0, r + dr, c + dc)
    zeros = padded[(r >= rows) | (c >= columns)]
    assert not got[zeros].any()
    rest = np.ones(got.size, np.bool_)
    rest[padded.reshape(-1)] = False
    sentinel = Stage("atlas_350", {"x": Place("A1", dtype.name, copy.stage.bytes("dst").size)}).words("x")
    np.testing.assert_array_equal(got[rest], sentinel[rest])
    assert copy.stage.warnings == []


@PROPERTY
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([name for name in LOADED + WIDE if "fp4" not in name]))
def test_a_contiguous_matrix_of_rows_is_one_long_row(rows: int, columns: int, name: str) -> None:
    dtype = asc.DataType(name)
    size = rows * columns * dtype.bits // 8
    copy = Copy(name, "L1", ("GM", "ND", (rows, columns)), ("ND", (rows, columns)), spare=96)
    got = copy.stage.bytes("dst")
    np.testing.assert_array_equal(got[:size], copy.stage.bytes("src")[:size])
    assert not got[size : up(size, 32)].any()
    assert (got[up(size, 32) :] == SENTINEL).all()


@PROPERTY
@given(st.sampled_from([k for k in COPIES if k[0] != k[1]]), st.integers(2, 4), st.integers(1, 40), st.integers(1, 40),
       st.sampled_from(["half", "float32", "int8"]))  # fmt: skip
def test_batches_from_gm(kinds: tuple[str, str], batch: int, rows: int, columns: int, name: str) -> None:
    copy = Copy(name, "L1", ("GM", kinds[0], (rows, columns)), (kinds[1], (rows, columns)), batch=batch)
    c0 = copy.dtype.c0
    r, c = np.indices((rows, columns))
    for b in range(batch):
        check_placed(copy, b * stored(kinds[1], (rows, columns), c0) + index(kinds[1], (rows, columns), c0, r, c),
                     b * rows * columns + index(kinds[0], (rows, columns), c0, r, c))  # fmt: skip
    assert len(copy.stage.ops) == 1


# ---- refusals -------------------------------------------------------------------------------------------------------
@PROPERTY
@given(load(), st.data())
def test_what_is_wrong_is_refused_and_moves_nothing(case: tuple[str, str, str, str, int, int], data: Any) -> None:
    dtype, to, src, dst, rows, columns = case
    wrong = data.draw(st.sampled_from(["layout", "address", "coord", "outside", "stride", "behind"]))
    bits = asc.DataType(dtype).bits
    shape = (rows, columns)
    error: type[AiCoreError] = ParameterError
    field, start, call = wrong, 0, None
    if wrong == "layout":
        dst = "ZN" if dst == "NZ" else "NZ"
    elif wrong == "address":
        error, start = AlignmentError, data.draw(st.integers(1, 15)) * 32
    elif wrong in ("coord", "outside"):
        c0 = asc.DataType(dtype).c0
        units = {"NZ": (16, c0), "ZN": (c0, 16)}[src]
        axis = data.draw(st.integers(0, 1))
        coord = [0, 0]
        coord[axis] = data.draw(st.integers(1, units[axis] - 1)) if wrong == "coord" else up(shape[axis], units[axis])
        error, field = (ParameterError if wrong == "coord" else OutOfBoundsError), "coord"
        call = lambda d, s: te.load_data(d, s, te.make_coord(*coord))  # noqa: E731
    elif wrong == "stride":
        field = "layout"

        def call(d: Any, s: Any) -> None:
            (rows_, columns_), stride = s.shape, s.stride
            broken = data.draw(st.integers(1, 7)) * 8 if bits == 32 else 8
            far = (stride[0], (stride[1][0], stride[1][1] + broken)) if src == "NZ" else (
                (stride[0][0], stride[0][1] + broken), stride[1])  # fmt: skip
            te.load_data(d, te.make_tensor(s.data, te.make_pattern_layout(s.layout.pattern, s.dtype, (rows_, columns_), far)))
    else:
        # The last fractal of the destination is behind the end of the buffer.
        error, field, start = OutOfBoundsError, "address", 65536 - 512
        shape = (up(rows % 32 + 1, 64), up(columns % 32 + 1, 64))
        copy = Copy(dtype, to, ("L1", src, shape), (dst, shape), run=False)
        whole = copy.stage["dst"]
        layout = MAKERS[dst](asc.DataType(dtype), *shape)
        source = te.make_tensor(te.make_mem_ptr(copy.stage["src"]), MAKERS[src](asc.DataType(dtype), *shape))
        copy.stage.refuses(lambda: te.load_data(te.make_tensor(te.make_mem_ptr(whole) + start * 8 // bits, layout), source),
                           error, field)  # fmt: skip
        return
    copy = Copy(dtype, to, ("L1", src, shape), (dst, shape), start=start, spare=1024, call=call, run=False)
    copy.stage.refuses(copy.body, error, field)


@pytest.mark.parametrize("dtype", LOADED)
def test_every_type_of_the_page_takes_every_load(dtype: str) -> None:
    for to, src, dst in LOADS:
        copy = Copy(dtype, to, ("L1", src, (64, 64)), (dst, (64, 64)))
        assert copy.stage.ops
