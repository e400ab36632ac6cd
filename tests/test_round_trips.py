"""ND in GM -> L1 -> L0 -> Mmad -> Fixpipe -> ND in GM equals numpy, for every legal route of A and of B on every card.

Routes take the parameters of the published samples, with sizes that fill fractals and sizes with tails. Operands are small
integers in every type, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.layouts import to_layout
from tests.stage import Place, Stage

WHOLE, TAILS = (64, 64, 64), (40, 50, 70)
ARCH = {"atlas_a2": 2201, "atlas_a3": 2201, "atlas_350": 3510, "atlas_200i": 3002}
_NUMPY: dict[str, Any] = {
    "half": np.float16, "float": np.float32, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8,
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
# Codes of the whole numbers -2..2 in HiFloat8.
_HIF8 = {-2: 0x90, -1: 0x88, 0: 0x00, 1: 0x08, 2: 0x10}


def up(x: int, unit: int) -> int:
    return -(-x // unit) * unit


def stored(matrix: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    """Whole numbers as the bytes of a row-major matrix; 4-bit rows are packed, low nibble first."""
    if dtype == "int4b":
        flat = matrix.astype(np.int64).reshape(-1) & 15
        return (flat[0::2] | flat[1::2] << 4).astype(np.uint8)
    if dtype == "hifloat8":
        return np.vectorize(_HIF8.get)(matrix).astype(np.uint8).reshape(-1)
    return np.ascontiguousarray(matrix.astype(_NUMPY[dtype])).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class Problem:
    """C[m,n] = A[m,k] x B[k,n] on one card."""

    card: str
    dtype: str
    m: int
    n: int
    k: int

    @property
    def arch(self) -> int:
        return ARCH[self.card]

    @property
    def c0(self) -> int:
        return DataType(self.dtype).c0

    @property
    def fractal(self) -> int:
        """Elements of a fractal."""
        return 16 * self.c0


@dataclass(frozen=True)
class Loaded:
    """How Mmad has to read what a route left in L0: padded rows or columns, and whether k is laid out in sixteens."""

    side: int
    k_align: bool = False


Route = Callable[[Problem, Any, Any, Any], Loaded]
"""(problem, GM tensor, L1 tensor, L0 tensor): issues the loads."""


# ---- GM -> L1 -------------------------------------------------------------------------------------------------------
def nz(p: Problem, l1: Any, gm: Any, rows: int, cols: int, pitch: int) -> None:
    """A row-major matrix as NZ with `pitch` rows a column block; 4-bit elements count as bytes."""
    unit = 2 if p.dtype == "int4b" else 1
    asc.data_copy(l1, gm, asc.Nd2NzParams(1, rows, cols // unit, 0, cols // unit, pitch, 1, 0))


def zz(l1: Any, gm: Any, rows: int, cols: int) -> None:
    """A row-major matrix of 4-byte elements as ZZ: whole strips of 16 rows in one call, the rest in another."""
    wide = up(cols, 16)
    strips, rest = divmod(rows, 16)
    asc.data_copy(l1, gm, asc.Nd2NzParams(strips, 16, cols, 16 * cols, cols, 16, 1, 16 * wide))
    if rest:
        asc.data_copy(l1[strips * 16 * wide], gm[strips * 16 * cols], asc.Nd2NzParams(1, rest, cols, 0, cols, 16, 1, 0))


def fractals(p: Problem, l1: Any, gm: Any, rows: int, cols: int) -> None:
    """A matrix that lies as NZ in GM, fractal by fractal (Atlas 200I/500 A2)."""
    count = up(rows, 16) * up(cols, p.c0) // p.fractal
    for first in range(0, count, 255):
        part = min(count - first, 255)
        asc.load_data(l1[first * p.fractal], gm[first * p.fractal], asc.LoadData2DParams(0, part, 1))


def into_l1(p: Problem, l1: Any, gm: Any, rows: int, cols: int, unit: int = 16) -> int:
    """NZ in L1 by the card's own way; rows of a column block."""
    if p.arch == 3002:
        fractals(p, l1, gm, rows, cols)
        return up(rows, 16)
    nz(p, l1, gm, rows, cols, up(rows, unit))
    return up(rows, unit)


# ---- A, stored M x K ------------------------------------------------------------------------------------------------
def a_rows(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """LoadData2D, a row of fractals a call: NZ to ZZ."""
    pitch = into_l1(p, l1, gm, p.m, p.k) // 16
    wide = -(-p.k // p.c0)
    for i in range(-(-p.m // 16)):
        asc.load_data(l0[i * wide * p.fractal], l1[i * p.fractal], asc.LoadData2DParams(0, wide, pitch))
    return Loaded(p.m)


def a_straight(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """LoadData2D, all fractals in their order: NZ to NZ."""
    count = into_l1(p, l1, gm, p.m, p.k) // 16 * -(-p.k // p.c0)
    asc.load_data(l0, l1, asc.LoadData2DParams(0, count, 1))
    return Loaded(p.m)


def a_3d(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """LoadData3D with a map of one row."""
    rows, wide = into_l1(p, l1, gm, p.m, p.k), up(p.k, p.c0)
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=rows, channel_size=wide, k_extension=wide, m_extension=rows))
    return Loaded(p.m)


def a_v2(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    high, wide = into_l1(p, l1, gm, p.m, p.k) // 16, -(-p.k // p.c0)
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, high, wide, high, high))
    return Loaded(p.m)


def a_bits(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    high, wide = into_l1(p, l1, gm, p.m, p.k) // 16, -(-p.k // p.c0)
    asc.load_data(l0, l1, asc.Load2DBitModeParam(asc.LoadData2DParamsV2(0, 0, high, wide, high, high)))
    return Loaded(p.m)


# ---- A, stored K x M ------------------------------------------------------------------------------------------------
def at_2d(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """16 bits: LoadData2D with if_transpose, a row of fractals of A a call."""
    deep = into_l1(p, l1, gm, p.k, p.m) // 16
    for i in range(-(-p.m // 16)):
        asc.load_data(l0[i * deep * p.fractal], l1[i * deep * p.fractal], asc.LoadData2DParams(0, deep, 1, if_transpose=True))
    return Loaded(p.m)


def at_ldt(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """LoadDataWithTranspose: squares of 32 (8 bits), 16 (16 and 32 bits; L1 holds ZZ for the latter)."""
    if p.c0 == 8:
        zz(l1, gm, p.k, p.m)
        deep, high = up(p.k, 16) // 16, up(p.m, 16) // 16
        for i in range(high):
            asc.load_data_with_transpose(l0[i * deep * 2 * p.fractal], l1[i * 2 * p.fractal], asc.LoadData2dTransposeParams(
                repeat_times=deep, src_stride=high, dst_gap=1))  # fmt: skip
        return Loaded(p.m, k_align=True)
    side = max(p.c0, 16)
    deep = into_l1(p, l1, gm, p.k, p.m, side) // side
    n = side // 16
    for i in range(up(p.m, side) // side):
        at = i * n * deep * p.fractal
        asc.load_data_with_transpose(l0[at], l1[at], asc.LoadData2dTransposeParams(
            repeat_times=deep, src_stride=1, dst_gap=0, dst_frac_gap=deep - 1))  # fmt: skip
    return Loaded(p.m)


def at_3d(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    deep, wide = into_l1(p, l1, gm, p.k, p.m), up(p.m, 16)
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=deep, channel_size=wide, k_extension=wide, m_extension=deep,
                                                 en_transpose=True))  # fmt: skip
    return Loaded(p.m, k_align=p.c0 == 8)


def at_3d_bytes(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """8 bits on Atlas 350: whole squares of 32."""
    deep, wide = into_l1(p, l1, gm, p.k, p.m, 32), up(p.m, 32)
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=deep, channel_size=wide, k_extension=wide, m_extension=deep,
                                                 en_transpose=True))  # fmt: skip
    return Loaded(wide)


def at_v2(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    side = max(p.c0, 16)
    deep, wide = into_l1(p, l1, gm, p.k, p.m, side) // 16, up(p.m, side)
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, deep, wide // p.c0, deep, wide // 16, True))
    return Loaded(wide if side > 16 else p.m)


def at_dn(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    high = up(p.m, 16)
    asc.data_copy(l1, gm, asc.Dn2NzParams(1, p.m, p.k, 0, p.m, high, 1, 0))
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, high // 16, -(-p.k // p.c0), high // 16, high // 16))
    return Loaded(p.m)


# ---- B, stored N x K ------------------------------------------------------------------------------------------------
def bt_straight(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    """NZ of the transpose is ZN of B: the fractals in their order."""
    count = into_l1(p, l1, gm, p.n, p.k) // 16 * -(-p.k // p.c0)
    asc.load_data(l0, l1, asc.LoadData2DParams(0, count, 1))
    return Loaded(p.n)


def bt_v2(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    across = into_l1(p, l1, gm, p.n, p.k) // 16
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, across, -(-p.k // p.c0), across, across))
    return Loaded(p.n)


# ---- B, stored K x N ------------------------------------------------------------------------------------------------
def b_2d(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    deep, across = into_l1(p, l1, gm, p.k, p.n) // 16, up(p.n, 16) // 16
    for i in range(deep):
        asc.load_data(l0[i * across * p.fractal], l1[i * p.fractal], asc.LoadData2DParams(0, across, deep, if_transpose=True))
    return Loaded(p.n)


def b_ldt(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    if p.c0 == 8:
        if p.arch == 3002:
            fractals(p, l1, gm, p.k, p.n)  # the test stores ZZ
        else:
            zz(l1, gm, p.k, p.n)
        across = up(p.n, 16) // 16
        for i in range(up(p.k, 16) // 16):
            at = i * 2 * across * p.fractal
            asc.load_data_with_transpose(l0[at], l1[at], asc.LoadData2dTransposeParams(
                repeat_times=across, src_stride=1, dst_frac_gap=across - 1))  # fmt: skip
        return Loaded(p.n)
    side = max(p.c0, 16)
    n = side // 16
    deep, squares = into_l1(p, l1, gm, p.k, p.n, side) // side, up(p.n, side) // side
    for i in range(deep):
        asc.load_data_with_transpose(
            l0[i * squares * n * p.fractal], l1[i * n * p.fractal],
            asc.LoadData2dTransposeParams(repeat_times=squares, src_stride=deep, dst_gap=n - 1),
        )  # fmt: skip
    return Loaded(up(p.n, side) if n > 1 else p.n)


def b_3d(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    side = max(p.c0, 16)
    deep, wide = into_l1(p, l1, gm, p.k, p.n, side), up(p.n, side)
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=deep, channel_size=wide, k_extension=wide, m_extension=deep,
                                                 en_transpose=True))  # fmt: skip
    return Loaded(wide if side > 16 else p.n)


def b_v2(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    side = max(p.c0, 16)
    deep, wide = into_l1(p, l1, gm, p.k, p.n, side) // 16, up(p.n, side)
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, deep, wide // p.c0, deep, wide // 16, True))
    return Loaded(wide if side > 16 else p.n)


def b_dn(p: Problem, gm: Any, l1: Any, l0: Any) -> Loaded:
    wide = up(p.n, 16)
    asc.data_copy(l1, gm, asc.Dn2NzParams(1, p.n, p.k, 0, p.n, wide, 1, 0))
    asc.load_data(l0, l1, asc.LoadData2DParams(0, wide // 16 * -(-p.k // p.c0), 1))
    return Loaded(p.n)


# ---- the routes of every card and type ------------------------------------------------------------------------------
_B16 = ("half", "bfloat16")
_A2_TYPES = ("int4b", "int8", "half", "bfloat16", "float")
_350_TYPES = ("int8", "half", "bfloat16", "float", "fp8_e4m3fn", "fp8_e5m2", "hifloat8")
_200I_TYPES = ("int8", "half", "bfloat16", "float")


def routes_of_a(card: str, dtype: str) -> list[Route]:
    if ARCH[card] == 3510:
        found: list[Route] = [a_v2, a_bits, at_v2]
        if dtype in (*_B16, "int8", "float"):
            found += [a_straight, at_dn] if dtype != "int8" else [a_straight]
        found += [a_3d, at_3d] if dtype in (*_B16, "float") else [a_3d, at_3d_bytes] if dtype == "int8" else []
        return found
    found = [a_rows, a_3d] if dtype != "int4b" else [a_rows]
    if dtype in _B16:
        found += [at_2d, at_ldt, at_3d]
    elif dtype == "float":
        found += [at_3d] if card == "atlas_200i" else [at_ldt, at_3d]
    elif dtype == "int8":
        found += [at_ldt] if card != "atlas_200i" else []
    return found


def routes_of_b(card: str, dtype: str) -> list[Route]:
    if ARCH[card] == 3510:
        found: list[Route] = [bt_v2, b_v2]
        if dtype in (*_B16, "int8", "float"):
            found += [bt_straight, b_ldt, b_dn, b_3d]
        if dtype in _B16:
            found.append(b_2d)
        return found
    found = [bt_straight]
    if dtype in _B16:
        found += [b_2d, b_3d]
    if dtype == "float":
        found.append(b_3d)
    return [*found, b_ldt] if card != "atlas_200i" or dtype in _B16 else found


def _types(card: str) -> tuple[str, ...]:
    return {3510: _350_TYPES, 2201: _A2_TYPES, 3002: _200I_TYPES}[ARCH[card]]


def _runs() -> list[Any]:
    """Every route of A with the plain one of B, and every route of B with the plain one of A."""
    runs = []
    for card in ARCH:
        for dtype in _types(card):
            ways_a, ways_b = routes_of_a(card, dtype), routes_of_b(card, dtype)
            pairs = [(a, ways_b[0]) for a in ways_a] + [(ways_a[0], b) for b in ways_b[1:]]
            for a, b in pairs:
                # A laid out for k in sixteens cannot be told to the Mmad of Atlas 200I/500 A2.
                no_tails = card == "atlas_200i" and a is at_3d and dtype == "float"
                for sizes in (WHOLE,) if no_tails else (WHOLE, TAILS):
                    name = f"{card}-{dtype}-{a.__name__}-{b.__name__}-{'whole' if sizes is WHOLE else 'tails'}"
                    runs.append(pytest.param(card, dtype, a, b, sizes, id=name))
    return runs


def _in_gm(p: Problem, matrix: NDArray[Any], route: Route) -> NDArray[Any]:
    """The matrix as it lies in GM: row-major; on Atlas 200I/500 A2 fractals (NZ, for 4-byte squares ZZ)."""
    if p.arch != 3002:
        return stored(matrix, p.dtype)
    layout = "ZZ" if route is b_ldt and p.c0 == 8 else "NZ"
    return to_layout(matrix.astype(_NUMPY[p.dtype]), layout, DataType(p.dtype))


@pytest.mark.parametrize(("card", "dtype", "way_a", "way_b", "sizes"), _runs())
def test_round_trip_equals_numpy(card: str, dtype: str, way_a: Route, way_b: Route, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    p = Problem(card, dtype, m, n, k)
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (k, n))
    a_gm = _in_gm(p, a.T if way_a.__name__.startswith("at_") else a, way_a)
    b_gm = _in_gm(p, b.T if way_b.__name__.startswith("bt_") else b, way_b)
    out = "int32" if dtype in ("int8", "int4b") else "float"
    stage = Stage(card, {
        "a": Place("GM", dtype, a_gm), "b": Place("GM", dtype, b_gm), "c": Place("GM", out, m * n * 4),
        "a1": Place("A1", dtype, 64 * 1024), "b1": Place("B1", dtype, 64 * 1024), "a2": Place("A2", dtype, 32 * 1024),
        "b2": Place("B2", dtype, 32 * 1024), "c0": Place("CO1", out, 64 * 1024),
    })  # fmt: skip
    loaded: dict[str, Loaded] = {}
    stage.call(lambda: loaded.update(a=way_a(p, stage["a"], stage["a1"], stage["a2"])))
    stage.call(lambda: loaded.update(b=way_b(p, stage["b"], stage["b1"], stage["b2"])))
    high, wide = loaded["a"].side, loaded["b"].side
    align = {"k_direction_align": True} if loaded["a"].k_align and p.arch == 2201 else {}
    stage.call(lambda: asc.mmad(stage["c0"], stage["a2"], stage["b2"], asc.MmadParams(
        high, wide, k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True, **align)))  # fmt: skip
    params = asc.FixpipeParamsArch3510 if p.arch == 3510 else asc.FixpipeParamsV220
    stage.call(lambda: asc.fixpipe(stage["c"], stage["c0"], params(n, m, up(high, 16), n)))
    got = stage.bytes("c").view(np.int32 if out == "int32" else np.float32).reshape(m, n)
    np.testing.assert_array_equal(got, a @ b)
    assert stage.defined("c").all()
