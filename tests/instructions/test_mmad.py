"""Mmad against numpy matrix products, through layouts written from their definitions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import CubeWork, Op, Pipe
from aicore_sim.instructions.mmad import MmadParams, build
from aicore_sim.kernel.api_cube import mmad
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import LocalTensor
from aicore_sim.memory import Buffer
from tests.instructions.cube_setup import CARDS, apply_program, buffer, card, recording, run, stored, up, where

HALF, FLOAT, INT8, INT32 = (DataType(x) for x in ("half", "float", "int8", "int32"))
L0A_LAYOUT = {"atlas_a2": "ZZ", "atlas_a3": "ZZ", "atlas_200i": "ZZ", "atlas_350": "NZ"}


def op_for(params: MmadParams, dtype: DataType = HALF, name: str = "atlas_a2", bias: str = "") -> Op:
    out = INT32 if dtype.is_int() else FLOAT
    op = build(params, out, dtype, dtype, out if bias else None, bias, card(name))
    assert op is not None
    return op


def small(rng: Any, shape: tuple[int, ...], dtype: DataType) -> Any:
    return rng.integers(-8, 8, shape).astype(dtype.np_dtype if dtype.bits > 4 else np.int8)


def operand(matrix: NDArray[Any], layout: str, dtype: DataType) -> NDArray[Any]:
    """Bytes of an L0A or L0B operand; what lies outside the matrix is a large number."""
    if dtype.bits == 4:
        flat: Any = stored(matrix, layout, 64, 7).view(np.uint8) & 15
        return np.asarray(flat[0::2] | flat[1::2] << 4)
    return stored(matrix, layout, dtype.c0, 100)


def product(buf: Buffer, m: int, n: int, kind: Any = np.float32) -> Any:
    """C out of L0C: element (r, c) at (c/16 * (M/16) + r/16) * 256 + r%16 * 16 + c%16."""
    return buf.bytes().view(kind)[where("NZ", m, n, 16)]


def marks(buf: Buffer, m: int, n: int) -> Any:
    """Defined elements of the padded C matrix."""
    assert buf.shadow is not None
    return buf.shadow.view(np.uint32)[where("NZ", up(m, 16), up(n, 16), 16)] == 0x01010101


@given(
    name=st.sampled_from(sorted(L0A_LAYOUT)),
    kind=st.sampled_from(["half", "bfloat16", "float", "int8", "int4"]),
    size=st.tuples(st.integers(2, 70), st.integers(1, 70), st.integers(1, 70)),
    shares=st.integers(1, 6),
    start=st.sampled_from(["zero", "C", "bias"]),
)
def test_any_product(name: str, kind: str, size: tuple[int, int, int], shares: int, start: str) -> None:
    """Small integers: the result is exact, tails of m, n, k do not count, rows and columns past them become undefined."""
    m, n, k = size
    if kind == "int4":
        k += k % 2
        if name == "atlas_350":
            kind = "int8"
        elif start == "bias":
            start = "zero"
    dtype = DataType(kind)
    out: Any = np.int32 if dtype.is_int() else np.float32
    rng = np.random.default_rng(m * 71 + n)
    a, b = small(rng, (m, k), dtype), small(rng, (k, n), dtype)
    old, bias = rng.integers(-99, 99, (up(m, 16), up(n, 16))), rng.integers(-99, 99, n)
    op = op_for(MmadParams(m, n, k, cmatrix_init_val=start == "zero"), dtype, name, "BT" if start == "bias" else "")
    c = buffer("L0C", stored(old.astype(out), "NZ", 16))
    bufs = [c, buffer("L0A", operand(a, L0A_LAYOUT[name], dtype)), buffer("L0B", operand(b, "ZN", dtype))]
    if start == "bias":
        bufs.append(buffer("BT", bias.astype(out)))
    run(op, bufs, shares=shares)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    if start != "zero":
        expected = expected + (bias if start == "bias" else old[:m, :n])
    np.testing.assert_array_equal(product(c, m, n, out), expected)
    inside = np.zeros((up(m, 16), up(n, 16)), bool)
    inside[:m, :n] = True
    np.testing.assert_array_equal(marks(c, m, n), inside)
    padded = product(c, up(m, 16), up(n, 16), out)
    assert not padded[~inside].any()


@pytest.mark.parametrize("name", CARDS)
def test_published_sizes(name: str) -> None:
    """(m, n, k) = (40, 50, 70), half."""
    rng = np.random.default_rng(0)
    a, b = small(rng, (40, 70), HALF), small(rng, (70, 50), HALF)
    c = buffer("L0C", 3 * 4 * 1024)
    run(op_for(MmadParams(40, 50, 70), HALF, name),
        [c, buffer("L0A", operand(a, L0A_LAYOUT[name], HALF)), buffer("L0B", operand(b, "ZN", HALF))])  # fmt: skip
    np.testing.assert_array_equal(product(c, 40, 50), a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("name", ["atlas_a2", "atlas_350"])
@pytest.mark.parametrize("kind", ["half", "float", "int8", "int4"])
def test_one_row_reads_a_as_a_vector(name: str, kind: str) -> None:
    """GEMV: A is k contiguous elements, C one 1024 B block per 16 columns with row 0 valid."""
    kind = "int8" if name == "atlas_350" and kind == "int4" else kind
    dtype = DataType(kind)
    rng = np.random.default_rng(1)
    a, b = small(rng, (300,), dtype), small(rng, (300, 20), dtype)
    raw: NDArray[Any] = a
    if kind == "int4":
        raw = (a[0::2].view(np.uint8) & 15) | (a[1::2].view(np.uint8) & 15) << 4
    content = np.zeros(4 * 512, np.uint8)
    content[: raw.nbytes] = raw.view(np.uint8)
    c = buffer("L0C", 2048)
    op = op_for(MmadParams(1, 20, 300), dtype, name)
    assert op.reads[0] == (1, 0, -(-raw.nbytes // 512) * 512)
    run(op, [c, buffer("L0A", content), buffer("L0B", operand(b, "ZN", dtype))], shares=2)
    out: Any = np.int32 if dtype.is_int() else np.float32
    np.testing.assert_array_equal(product(c, 1, 20, out)[0], a.astype(np.int64) @ b.astype(np.int64))


def test_gemv_can_be_switched_off_on_950() -> None:
    rng = np.random.default_rng(2)
    a, b = small(rng, (1, 40), HALF), small(rng, (40, 16), HALF)
    c = buffer("L0C", 1024)
    op = op_for(MmadParams(1, 16, 40, disable_gemv=True), HALF, "atlas_350")
    run(op, [c, buffer("L0A", operand(a, "NZ", HALF)), buffer("L0B", operand(b, "ZN", HALF))])
    np.testing.assert_array_equal(product(c, 1, 16), a.astype(np.int64) @ b.astype(np.int64))


def test_k_direction_align_widens_the_rows_of_a() -> None:
    """float, m = 30, k = 36: ZZ of 30 x 48, 12 fractals of which 10 are read."""
    rng = np.random.default_rng(3)
    a, b = small(rng, (30, 36), FLOAT), small(rng, (36, 16), FLOAT)
    wide = np.zeros((30, 48), np.float32)
    wide[:, :36] = a
    op = op_for(MmadParams(30, 16, 36, k_direction_align=True), FLOAT, "atlas_a2")
    assert op.reads[0] == (1, 0, 11 * 512)  # row 0 holds fractals 0..4 of 6, row 1 ends with fractal 6 + 4
    c = buffer("L0C", 2048)
    run(op, [c, buffer("L0A", operand(wide, "ZZ", FLOAT)), buffer("L0B", operand(b, "ZN", FLOAT))])
    np.testing.assert_array_equal(product(c, 30, 16), a @ b)


def test_bfloat16_values() -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((16, 16)).astype(ml_dtypes.bfloat16)
    b = np.eye(16).astype(ml_dtypes.bfloat16)
    c = buffer("L0C", 1024)
    run(op_for(MmadParams(16, 16, 16), DataType("bfloat16")), [c, buffer("L0A", a), buffer("L0B", b)])
    np.testing.assert_array_equal(product(c, 16, 16), a.astype(np.float32))


def test_infinity_and_nan_outside_the_operands_do_not_leak() -> None:
    rng = np.random.default_rng(5)
    a, b = small(rng, (20, 20), HALF), small(rng, (20, 20), HALF)
    wide_a, wide_b = np.full((32, 32), np.nan, np.float16), np.full((32, 32), np.inf, np.float16)
    wide_a[:20, :20], wide_b[:20, :20] = a, b
    c = buffer("L0C", 4096)
    run(
        op_for(MmadParams(20, 20, 20)),
        [c, buffer("L0A", stored(wide_a, "ZZ", 16)), buffer("L0B", stored(wide_b, "ZN", 16))],
    )
    np.testing.assert_array_equal(product(c, 20, 20), a.astype(np.int64) @ b.astype(np.int64))
    assert np.isfinite(product(c, 32, 32)).all()


def test_infinity_inside_follows_ieee() -> None:
    a, b = np.ones((16, 16), np.float16), np.ones((16, 16), np.float16)
    a[0, 0], a[1, :2] = np.inf, (np.inf, -np.inf)
    c = buffer("L0C", 1024)
    run(op_for(MmadParams(16, 16, 16)), [c, buffer("L0A", a), buffer("L0B", b)])
    got = product(c, 16, 16)
    assert np.isposinf(got[0]).all() and np.isnan(got[1]).all() and (got[2:] == 16).all()


@pytest.mark.parametrize("value", [-128, 127])
def test_int8_is_exact_at_full_depth(value: int) -> None:
    k = 4095
    a, b = np.full((2, k), value, np.int8), np.full((k, 16), -128, np.int8)
    a[0, 0] = 1
    c = buffer("L0C", 1024)
    run(op_for(MmadParams(2, 16, k), INT8),
        [c, buffer("L0A", operand(a, "ZZ", INT8)), buffer("L0B", operand(b, "ZN", INT8))])  # fmt: skip
    np.testing.assert_array_equal(product(c, 2, 16, np.int32), a.astype(np.int64) @ b.astype(np.int64))


def test_int32_accumulation_saturates() -> None:
    a, b = np.full((16, 32), 127, np.int8), np.full((32, 16), 127, np.int8)
    c = buffer("L0C", np.full(256, 2**31 - 5, np.int32))
    run(op_for(MmadParams(16, 16, 32, cmatrix_init_val=False), INT8),
        [c, buffer("L0A", operand(a, "ZZ", INT8)), buffer("L0B", operand(b, "ZN", INT8))])  # fmt: skip
    assert (product(c, 16, 16, np.int32) == 2**31 - 1).all()


@pytest.mark.parametrize("kind", ["half", "float"])
def test_shares_do_not_change_a_bit(kind: str) -> None:
    """Non-integer data, where another summation order would show."""
    dtype = DataType(kind)
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(s).astype(dtype.np_dtype) for s in ((37, 129), (129, 150)))
    results = []
    for shares in (1, 2, 3, 10, 16):
        c = buffer("L0C", up(37, 16) * up(150, 16) * 4)
        run(op_for(MmadParams(37, 150, 129), dtype),
            [c, buffer("L0A", operand(a, "ZZ", dtype)), buffer("L0B", operand(b, "ZN", dtype))], shares=shares)  # fmt: skip
        results.append(c.bytes().copy())
    assert all(np.array_equal(results[0], other) for other in results)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(product(c, 37, 150), exact, rtol=1e-4, atol=1e-4)


# ---- undefined operands ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["atlas_a2", "atlas_350"])
def test_holes_poison_their_row_and_column(name: str) -> None:
    m, n, k = 40, 50, 70
    layout = L0A_LAYOUT[name]
    a, b = buffer("L0A", 3 * 5 * 512), buffer("L0B", 5 * 4 * 512)
    assert a.shadow is not None and b.shadow is not None
    at_a, at_b = where(layout, 48, 80, 16), where("ZN", 80, 64, 16)
    a.shadow.view(np.uint16)[at_a[17, 33]] = 0  # inside: row 17
    a.shadow[2 * at_a[40:, :]] = 0  # past m
    a.shadow[2 * at_a[:, 70:] + 1] = 0  # past k
    b.shadow[2 * at_b[69, 49]] = 0  # one byte, inside: column 49
    b.shadow[2 * at_b[70:, :]] = 0  # past k
    b.shadow[2 * at_b[:, 50:]] = 0  # past n
    expected = np.zeros((48, 64), bool)
    expected[:40, :50] = True
    expected[17, :], expected[:, 49] = False, False
    for shares in (1, 3):
        c = buffer("L0C", 12 * 1024)
        run(op_for(MmadParams(m, n, k), HALF, name), [c, a, b], shares=shares)
        np.testing.assert_array_equal(marks(c, m, n), expected)


def test_accumulation_keeps_undefined_elements() -> None:
    a, b, c = buffer("L0A", 512), buffer("L0B", 512), buffer("L0C", 1024)
    assert c.shadow is not None
    c.shadow[4 * (3 * 16 + 7)] = 0
    run(op_for(MmadParams(16, 16, 16, cmatrix_init_val=False)), [c, a, b])
    got = marks(c, 16, 16)
    assert not got[3, 7] and got.sum() == 255
    run(op_for(MmadParams(16, 16, 16)), [c, a, b])
    assert marks(c, 16, 16).all()


def test_undefined_bias_poisons_its_column() -> None:
    bias = buffer("BT", 20 * 4)
    assert bias.shadow is not None
    bias.shadow[4 * 18 + 1] = 0
    c = buffer("L0C", 2048)
    op = op_for(MmadParams(16, 20, 16, cmatrix_init_val=False), bias="BT")
    run(op, [c, buffer("L0A", 512), buffer("L0B", 1024), bias])
    expected = np.zeros((16, 32), bool)
    expected[:, :20], expected[:, 18] = True, False
    np.testing.assert_array_equal(marks(c, 16, 20), expected)


def test_undefined_vector() -> None:
    a = buffer("L0A", 512)
    assert a.shadow is not None
    a.shadow[2 * 100 :] = 0
    for k, defined in ((100, True), (101, False)):
        c = buffer("L0C", 1024)
        run(op_for(MmadParams(1, 16, k)), [c, a, buffer("L0B", 7 * 512)])
        assert (marks(c, 1, 16)[0] == defined).all()


# ---- the Op -----------------------------------------------------------------------------------------------------------
def test_ranges_and_cost() -> None:
    op = op_for(MmadParams(40, 50, 70, unit_flag=3, cmatrix_init_val=False), HALF, "atlas_a2")
    assert op.pipe is Pipe.M and op.cost == CubeWork("half", 40, 50, 70)
    assert op.writes == ((0, 0, 12 * 1024),)
    assert op.reads == ((1, 0, 15 * 512), (2, 0, 20 * 512), (0, 0, 12 * 1024))
    assert op.accumulates and op.unit_flag == 3 and op.aligns == (512, 512, 512)
    other = op_for(MmadParams(40, 50, 70), INT8, "atlas_350")
    assert other.cost == CubeWork("int8", 40, 50, 70) and other.aligns == (1024, 512, 512)
    assert not other.accumulates and other.unit_flag == 0


def test_what_c_starts_from() -> None:
    """spec 12.1: isBias forces cmatrixInitVal false except in the bias call of 2201; the bias call ignores the source."""
    start = dict(m=16, n=16, k=16)
    assert not op_for(MmadParams(**start)).accumulates  # type: ignore[arg-type]
    assert op_for(MmadParams(**start, is_bias=True)).accumulates  # type: ignore[arg-type]
    lost = op_for(MmadParams(**start, is_bias=True), bias="BT")  # type: ignore[arg-type]
    assert len(lost.aligns) == 3 and "bias is lost" in lost.warnings[0]
    kept = op_for(MmadParams(**start, is_bias=True), name="atlas_350", bias="BT")  # type: ignore[arg-type]
    assert kept.aligns == (1024, 512, 512, 64) and kept.reads[-1] == (3, 0, 64)
    table = op_for(MmadParams(**start, cmatrix_source=True, cmatrix_init_val=False))  # type: ignore[arg-type]
    assert not table.accumulates and table.reads[-1] == (3, 0, 64)
    on_c = op_for(MmadParams(**start, cmatrix_init_val=False), bias="L0C")  # type: ignore[arg-type]
    assert on_c.accumulates


@pytest.mark.parametrize("field", ["m", "n", "k"])
def test_zero_computes_nothing(field: str) -> None:
    sizes = {"m": 16, "n": 16, "k": 16, field: 0}
    assert build(MmadParams(**sizes), FLOAT, HALF, HALF, None, "", card("atlas_a2")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("m", -1),
        ("m", 4096),
        ("n", -1),
        ("n", 4096),
        ("k", -1),
        ("k", 4096),
        ("unit_flag", 1),
        ("unit_flag", 4),
        ("m", 2.0),
    ],
)
def test_field_out_of_range(field: str, value: Any) -> None:
    params: dict[str, Any] = {"m": 16, "n": 16, "k": 16, field: value}
    with pytest.raises(ParameterError) as caught:
        op_for(MmadParams(**params))
    assert caught.value.field == field and caught.value.value == value


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("atlas_200i", {"unit_flag": 2}, "unit_flag"),
        ("atlas_a2", {"disable_gemv": True}, "disable_gemv"),
        ("atlas_350", {"k_direction_align": True}, "k_direction_align"),
        ("atlas_a2", {"en_ssparse": True}, "en_ssparse"),
        ("atlas_a2", {"en_winograd_a": True}, "en_winograd_a"),
        ("atlas_a2", {"en_winograd_b": True}, "en_winograd_b"),
        ("atlas_a2", {"fm_offset": 3}, "fm_offset"),
    ],
)
def test_unsupported_field(name: str, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        op_for(MmadParams(16, 16, 16, **fields), HALF, name)
    assert caught.value.field == field


def test_k_direction_align_is_for_float() -> None:
    with pytest.raises(ParameterError):
        op_for(MmadParams(16, 16, 16, k_direction_align=True), HALF)


def test_int4_needs_an_even_k() -> None:
    with pytest.raises(ParameterError) as caught:
        op_for(MmadParams(16, 16, 63), DataType("int4"))
    assert caught.value.field == "k"


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("atlas_350", ("int4", "int4", "int32")),
        ("atlas_a2", ("half", "half", "half")),
        ("atlas_a2", ("half", "bfloat16", "float")),
        ("atlas_a2", ("int8", "int8", "float")),
        ("atlas_a2", ("fp8_e5m2", "fp8_e5m2", "float")),
        ("atlas_350", ("hifloat8", "fp8_e5m2", "float")),
        ("atlas_350", ("fp4x2_e1m2", "fp4x2_e1m2", "float")),
    ],
)
def test_unsupported_types(name: str, types: tuple[str, str, str]) -> None:
    a, b, c = (DataType(t) for t in types)
    with pytest.raises(UnsupportedError) as caught:
        build(MmadParams(16, 16, 16), c, a, b, None, "", card(name))
    assert caught.value.field == "dtype"


def test_int4_takes_no_bias() -> None:
    with pytest.raises(UnsupportedError):
        op_for(MmadParams(16, 16, 16), DataType("int4"), bias="BT")


# ---- the API function -----------------------------------------------------------------------------------------------
def operands(size: int = 256) -> tuple[LocalTensor, LocalTensor, LocalTensor]:
    return (
        LocalTensor(FLOAT, TPosition.CO1, 0, size),
        LocalTensor(HALF, TPosition.A2, 0, size),
        LocalTensor(HALF, TPosition.B2, 0, size),
    )


def test_kernel_calls() -> None:
    with recording("atlas_350") as rec:
        c, a, b = operands()
        for kind in ("L0A", "L0B"):
            rec.buffers[kind].bytes()[:512] = np.eye(16, dtype=np.float16).reshape(-1).view(np.uint8)
        rec.buffers["BT"].bytes()[:128] = np.arange(32, dtype=np.float32).view(np.uint8)
        bias = LocalTensor(FLOAT, TPosition.C2, 64, 16)
        mmad(c, a, b, MmadParams(16, 16, 16))
        apply_program(rec)
        np.testing.assert_array_equal(product(rec.buffers["L0C"], 16, 16), np.eye(16))
        mmad(c, a, b, bias, MmadParams(16, 16, 16, cmatrix_init_val=False))
        rec.program[1].op.effect.apply(rec.program[1].bufs, rec.program[1].offs, 0, 1, 1)
        np.testing.assert_array_equal(product(rec.buffers["L0C"], 16, 16), np.eye(16) + np.arange(16, 32))
        mmad(c, a, b, params=MmadParams(16, 16, 16, cmatrix_source=True, cmatrix_init_val=False))
        assert rec.program[2].offs[3] == 0 and rec.program[2].bufs[3] is rec.buffers["BT"]
        mmad(c, a, b, c, MmadParams(16, 16, 16, cmatrix_init_val=False))
        assert len(rec.program[3].bufs) == 3 and rec.program[3].op.accumulates
        mmad(c, a, b, MmadParams())
        assert len(rec.program) == 4 and len(rec.session.warnings) == 1


def test_call_errors() -> None:
    with recording("atlas_a2") as rec:
        c, a, b = operands(512)
        good = MmadParams(16, 16, 16)
        with pytest.raises(UnsupportedError) as caught:
            mmad(c, b, a, good)
        assert caught.value.field == "fm"
        with pytest.raises(ParameterError):
            mmad(c, a, b)
        with pytest.raises(ParameterError):
            mmad(c, a, b, c, c, good)
        with pytest.raises(AlignmentError):
            mmad(c[16:], a, b, good)
        with pytest.raises(AlignmentError):
            mmad(c, a[16:], b, good)
        with pytest.raises(OutOfBoundsError):
            mmad(c, a, b, MmadParams(512, 512, 16))
        with pytest.raises(OutOfBoundsError):
            mmad(c, a, b, MmadParams(16, 16, 2064))
        assert rec.program == []


def test_nothing_is_recorded_on_a_vector_core() -> None:
    with recording("atlas_350", kind="aiv") as rec:
        mmad(*operands(), MmadParams(16, 16, 16))
        assert rec.program == []


@pytest.mark.parametrize(("name", "dtype", "align"), [
    ("atlas_a2", HALF, 512), ("atlas_a3", HALF, 512), ("atlas_350", HALF, 1024), ("atlas_200i", HALF, 1024),
    ("atlas_a2", FLOAT, 1024), ("atlas_a2", INT8, 1024), ("atlas_a3", DataType("bfloat16"), 1024),
])  # fmt: skip
def test_the_destination_starts_at_whole_blocks(name: str, dtype: DataType, align: int) -> None:
    # spec 1.3: 1024 B; A2 and A3 take 512 B too where the operands are half
    assert op_for(MmadParams(16, 16, 16), dtype, name).aligns == (align, 512, 512)


def test_int4_cannot_start_from_the_bias_table() -> None:
    with pytest.raises(UnsupportedError, match="int4 takes no bias"):
        op_for(MmadParams(16, 16, 64, cmatrix_source=True, cmatrix_init_val=False), DataType("int4"))
