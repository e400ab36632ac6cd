"""Fixpipe against numpy: placement by format and struct, conversion, ReLU, undefined elements, checks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import FixWork, GmTraffic, Op, Pipe
from aicore_sim.instructions.fixpipe import (
    FixpipeConfig,
    FixpipeParamsArch3510,
    FixpipeParamsC310,
    FixpipeParamsM300,
    FixpipeParamsV220,
    Nz2DnParams,
    Nz2NdParams,
    build,
)
from aicore_sim.kernel.api_cube import fixpipe
from aicore_sim.kernel.enums import ClipReluMode, CO2Layout, QuantModes, ReluMode, TPosition
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from tests.instructions.cube_setup import CARDS, apply_program, buffer, card, recording, run, up

FLOAT, HALF, BF16, INT32 = (DataType(x) for x in ("float", "half", "bfloat16", "int32"))
ND, NZ = FixpipeConfig.cfg_row_major(), FixpipeConfig.cfg_nz()
NUMPY: dict[str, Any] = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32,
}  # fmt: skip
MODE = {"float32": QuantModes.NoQuant, "int32": QuantModes.NoQuant, "float16": QuantModes.F322F16,
        "bfloat16": QuantModes.F322BF16}  # fmt: skip


def op_for(
    params: Any, config: FixpipeConfig = ND, dst: DataType = FLOAT, name: str = "atlas_a2", kind: str = "GM"
) -> Op:
    op = build(params, config, INT32 if dst is INT32 else FLOAT, dst, kind, card(name))
    assert op is not None
    return op


def l0c(values: NDArray[Any], pitch: int) -> NDArray[Any]:
    """A matrix as blocks of 16 columns, `pitch` rows of 64 B apart, holes filled with a number of their own."""
    m, n = values.shape
    out = np.full((up(n, 16) // 16, pitch, 16), 77, values.dtype)
    r, c = np.indices((m, n))
    out[c // 16, r, c % 16] = values
    return out


def undefine(buf: Any, element: int, size: int = 4) -> None:
    buf.shadow[element * size + 1] = 0


@given(
    name=st.sampled_from(CARDS),
    out=st.sampled_from(sorted(NUMPY)),
    m=st.integers(1, 40),
    n=st.integers(1, 70),
    extra=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    relu=st.booleans(),
    new=st.booleans(),
    shares=st.integers(1, 16),
)
def test_nd_of_any_size(
    name: str, out: str, m: int, n: int, extra: tuple[int, int], relu: bool, new: bool, shares: int
) -> None:
    """dst[m * dst_stride + n] = convert(relu(src(m, n))), whatever the struct."""
    assume(not new or name == "atlas_350")
    dst_dtype = DataType(out)
    pitch, row = up(m, 16) + extra[0], n + extra[1]
    rng = np.random.default_rng(m * n)
    values: NDArray[Any] = rng.integers(-1000, 1000, (m, n)).astype(np.int32 if out == "int32" else np.float32)
    if out != "int32":
        values = values / np.float32(7)
    params: Any = FixpipeParamsV220(n, m, pitch, row, MODE[out], relu_en=relu)
    if new:
        params = FixpipeParamsArch3510(n, m, pitch, row, MODE[out], relu_en=relu)
    op = op_for(params, ND, dst_dtype, name)
    dst = buffer("GM", np.full(m * row, 99, NUMPY[out]))
    run(op, [dst, buffer("L0C", l0c(values, pitch))], shares=shares)
    expected = np.full((m, row), 99, NUMPY[out])
    expected[:, :n] = (np.maximum(values, 0) if relu else values).astype(NUMPY[out])
    np.testing.assert_array_equal(dst.bytes().view(NUMPY[out]).reshape(m, row), expected)
    size = dst_dtype.sizeof()
    assert op.writes == ((0, 0, ((m - 1) * row + n) * size),)
    # The rows of every column block, apart from each other unless they meet.
    blocks = [(1, j * pitch * 64, (j * pitch + m) * 64) for j in range(up(n, 16) // 16)]
    assert op.reads == (((1, 0, blocks[-1][2]),) if pitch == m else tuple(blocks))


@given(
    name=st.sampled_from(CARDS),
    out=st.sampled_from(sorted(NUMPY)),
    m=st.integers(1, 40),
    blocks=st.integers(1, 5),
    extra=st.integers(0, 8),
    new=st.booleans(),
    shares=st.integers(1, 7),
)
def test_nz_of_any_size(name: str, out: str, m: int, blocks: int, extra: int, new: bool, shares: int) -> None:
    """Block b of 16 columns goes to b * pitch: dst_stride counts 32 B in V220 / M300, elements in Arch3510."""
    assume(not new or name == "atlas_350")
    size, n = np.dtype(NUMPY[out]).itemsize, 16 * blocks
    pitch = up(m * 16 * size, 32) // 32 + extra
    values = np.arange(m * n).reshape(m, n).astype(np.int32 if out == "int32" else np.float32)
    params: Any = FixpipeParamsV220(n, m, up(m, 16), pitch, MODE[out])
    if new:
        params = FixpipeParamsArch3510(n, m, up(m, 16), pitch * 32 // size, MODE[out])
    op = op_for(params, NZ, DataType(out), name)
    dst = buffer("GM", np.full(blocks * pitch * 32 // size, 99, NUMPY[out]))
    run(op, [dst, buffer("L0C", l0c(values, up(m, 16)))], shares=shares)
    expected = np.full((blocks, pitch * 32 // size), 99, NUMPY[out])
    r, c = np.indices((m, n))
    expected[c // 16, r * 16 + c % 16] = values.astype(NUMPY[out])
    np.testing.assert_array_equal(dst.bytes().view(NUMPY[out]).reshape(blocks, -1), expected)


def test_published_two_matrices() -> None:
    """48 x 32 twice: source 256 * 64 B apart in the 950 struct (16 * 1024 B in the other), destination 4096 elements."""
    values = np.arange(2 * 48 * 32, dtype=np.float32).reshape(2, 48, 32)
    source = np.concatenate([l0c(v, 64).reshape(-1)[: 2 * 64 * 16] for v in values])
    assert source.nbytes == 2 * 128 * 64
    wide = np.zeros((2, 256 * 16), np.float32)
    wide[:, : 128 * 16] = source.reshape(2, -1)
    expected = np.zeros((2, 4096), np.float32)
    for h in range(2):
        expected[h, : 48 * 64].reshape(48, 64)[:, :32] = values[h]
    new = FixpipeParamsArch3510(32, 48, 64, 64, params=Nz2NdParams(2, 256, 4096))
    old = FixpipeParamsV220(32, 48, 64, 64, nd_num=2, src_nd_stride=16, dst_nd_stride=4096)
    for params, name in ((new, "atlas_350"), (old, "atlas_a2")):
        op = op_for(params, ND, FLOAT, name)
        assert op.cost == GmTraffic("L0C-GM", 2 * 48 * 32 * 4, 96, False, "nz2nd", "float")
        for shares in (1, 3, 16):
            dst = buffer("GM", np.zeros(8192, np.float32))
            run(op, [dst, buffer("L0C", wide)], shares=shares)
            np.testing.assert_array_equal(dst.bytes().view(np.float32).reshape(2, 4096), expected)


@pytest.mark.parametrize("out", ["float16", "bfloat16"])
def test_rounding_and_special_values(out: str) -> None:
    """Nearest even; infinities, NaN and overflow to infinity are kept."""
    step = 2.0**-10 if out == "float16" else 2.0**-7
    row = [1 + step / 2, 1 + 3 * step / 2, -(1 + step / 2), np.inf, -np.inf, np.nan, 3.4e38, -1e30, 0.0, -0.0]
    even = [1.0, 1 + 2 * step, -1.0, np.inf, -np.inf, np.nan, np.inf, -np.inf if out == "float16" else -1e30, 0.0, -0.0]
    values = np.zeros((1, 16), np.float32)
    values[0, :10] = np.array(row, np.float64).astype(np.float32)
    dst = buffer("GM", np.zeros(16, NUMPY[out]))
    run(op_for(FixpipeParamsV220(16, 1, 16, 16, MODE[out]), ND, DataType(out)), [dst, buffer("L0C", l0c(values, 16))])
    got = dst.bytes().view(NUMPY[out])[:10].astype(np.float64)
    np.testing.assert_array_equal(got, np.array(even).astype(NUMPY[out]).astype(np.float64))
    assert np.signbit(got[9])


def test_relu_keeps_nan_and_zeroes_the_negative() -> None:
    values = np.array([[-1.5, 2.5, np.nan, -np.inf, np.inf, 0] + [0] * 10], np.float32)
    dst = buffer("GM", np.full(16, 9, np.float32))
    run(op_for(FixpipeParamsV220(16, 1, 16, 16, relu_en=True)), [dst, buffer("L0C", l0c(values, 16))])
    np.testing.assert_array_equal(
        dst.bytes().view(np.float32)[:6], np.array([0, 2.5, np.nan, 0, np.inf, 0], np.float32)
    )


def test_unaligned_rows_in_gm() -> None:
    values = np.arange(30, dtype=np.float32).reshape(3, 10)
    dst = buffer("GM", np.zeros(100, np.uint8))
    run(
        op_for(FixpipeParamsV220(10, 3, 16, 11, MODE["float16"]), ND, HALF),
        [dst, buffer("L0C", l0c(values, 16))],
        [7, 0],
    )
    got = dst.bytes()[7 : 7 + 66].copy().view(np.float16).reshape(3, 11)
    np.testing.assert_array_equal(got[:, :10], values)


# ---- undefined elements -----------------------------------------------------------------------------------------------
def test_undefined_elements_travel_to_gm() -> None:
    """The shadow of GM appears with the first undefined element; elements outside the matrix do not count."""
    src = buffer("L0C", l0c(np.ones((20, 40), np.float32), 32))
    undefine(src, (0 * 32 + 25) * 16 + 3)  # row 25: past m
    undefine(src, (2 * 32 + 4) * 16 + 12)  # column 44: past n
    dst = buffer("GM", np.zeros(20 * 40, np.float16))
    op = op_for(FixpipeParamsV220(40, 20, 32, 40, MODE["float16"]), ND, HALF)
    run(op, [dst, src])
    assert dst.shadow is None
    undefine(src, (2 * 32 + 4) * 16 + 7)  # row 4, column 39
    run(op, [dst, src], shares=3)
    assert dst.shadow is not None
    marks = dst.shadow[: 20 * 40 * 2].view(np.uint16).reshape(20, 40)
    assert marks[4, 39] == 0 and (marks == 0).sum() == 1
    assert src.shadow is not None
    src.shadow[:] = 1
    run(op, [dst, src])
    assert dst.shadow[: 20 * 40 * 2].all()


def test_marks_of_a_local_destination() -> None:
    src, dst = buffer("L0C", l0c(np.ones((16, 32), np.float32), 16)), buffer("L1", 2048, defined=False)
    undefine(src, 256 + 5)  # row 0 of the second block
    run(op_for(FixpipeParamsV220(32, 16, 16, 16, MODE["bfloat16"]), NZ, BF16, kind="L1"), [dst, src])
    assert dst.shadow is not None
    marks = dst.shadow.view(np.uint16)
    assert (marks[:512] == 0x0101).sum() == 511 and marks[256 + 5] == 0 and not marks[512:].any()


# ---- the Op -----------------------------------------------------------------------------------------------------------
def test_gm_cost_and_runs() -> None:
    op = op_for(FixpipeParamsV220(50, 40, 48, 64, MODE["float16"], unit_flag=3), ND, HALF)
    assert op.pipe is Pipe.FIX and op.unit_flag == 3 and op.aligns == (1, 64)
    assert op.cost == GmTraffic("L0C-GM", 40 * 50 * 2, 40, False, "nz2nd", "half")
    assert op.gm_operand == 0 and op.gm_runs.tolist()[0][:4] == [0, 100, 40, 128]
    blocks = op_for(FixpipeParamsV220(48, 40, 48, 48, MODE["bfloat16"]), NZ, BF16)
    assert blocks.cost == GmTraffic("L0C-GM", 40 * 48 * 2, 3, False, "nz2nz", "bf16") and blocks.aligns == (32, 64)
    assert blocks.gm_runs.tolist()[0][:4] == [0, 1280, 3, 1536]


@pytest.mark.parametrize(("dtype", "row"), [(HALF, "half"), (BF16, "bf16"), (FLOAT, "float"), (INT32, "float")])
def test_local_cost(dtype: DataType, row: str) -> None:
    op = op_for(FixpipeParamsArch3510(32, 16, 16, 256, MODE[dtype.name]), NZ, dtype, "atlas_350", "L1")
    assert op.cost == FixWork("L0C-L1", row, 32 * 16 * dtype.sizeof()) and op.gm_operand == -1 and op.aligns == (32, 64)
    to_ub = op_for(FixpipeParamsM300(32, 16, 16, 32, MODE[dtype.name]), ND, dtype, "atlas_200i", "UB")
    assert to_ub.cost == FixWork("L0C-UB", row, 32 * 16 * dtype.sizeof())


def test_aliases_and_positions() -> None:
    assert FixpipeParamsM300 is FixpipeParamsV220 and FixpipeParamsC310 is FixpipeParamsArch3510
    p = FixpipeParamsV220(1, 2, 3, 4, QuantModes.F322F16, 5, 6, 7, 8, True, 2, False)
    assert (p.n_size, p.m_size, p.src_stride, p.dst_stride, p.deq_scalar, p.nd_num) == (1, 2, 3, 4, 5, 6)
    assert (p.src_nd_stride, p.dst_nd_stride, p.relu_en, p.unit_flag) == (7, 8, True, 2)
    assert FixpipeConfig(CO2Layout.NZ) == NZ and FixpipeConfig() == ND
    assert FixpipeConfig.cfg_column_major().layout == CO2Layout.COLUMN_MAJOR


BASE: dict[str, Any] = dict(n_size=16, m_size=16, src_stride=16, dst_stride=16)


@pytest.mark.parametrize("field", ["n_size", "m_size", "nd_num"])
def test_zero_moves_nothing(field: str) -> None:
    params: dict[str, Any] = {**BASE, field: 0}
    assert build(FixpipeParamsV220(**params), ND, FLOAT, FLOAT, "GM", card("atlas_a2")) is None
    if field != "nd_num":
        assert build(FixpipeParamsArch3510(**params), ND, FLOAT, FLOAT, "GM", card("atlas_350")) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_size", -1), ("n_size", 4096), ("m_size", -1), ("m_size", 8193), ("src_stride", -1), ("src_stride", 65536),
        ("dst_stride", 0), ("dst_stride", 2**32), ("quant_pre", 23), ("quant_pre", -1), ("nd_num", -1), ("nd_num", 65536),
        ("src_nd_stride", 513), ("dst_nd_stride", 65536), ("unit_flag", 1), ("unit_flag", 4), ("m_size", "16"),
    ],
)  # fmt: skip
def test_field_out_of_range(field: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        op_for(FixpipeParamsV220(**{**BASE, field: value}))
    assert caught.value.field == field and caught.value.value == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_size", 4096),
        ("m_size", 65536),
        ("dst_stride", 0),
        ("dual_dst_ctl", 3),
        ("sub_block_id", 2),
        ("unit_flag", 1),
    ],
)
def test_field_out_of_range_on_950(field: str, value: int) -> None:
    with pytest.raises(ParameterError) as caught:
        op_for(FixpipeParamsArch3510(**{**BASE, field: value}), name="atlas_350")
    assert caught.value.field == field


@pytest.mark.parametrize(
    "inner", [Nz2NdParams(1, 65536, 0), Nz2NdParams(65536, 0, 0), Nz2NdParams(1, 0, 2**32), Nz2DnParams()]
)
def test_nd_part_out_of_range_on_950(inner: Any) -> None:
    with pytest.raises(ParameterError):
        op_for(FixpipeParamsArch3510(**BASE, params=inner), name="atlas_350")


def test_limits_that_depend_on_the_format() -> None:
    tall = {**BASE, "m_size": 9000}
    op_for(FixpipeParamsV220(**{**tall, "dst_stride": 65536}), NZ)
    op_for(FixpipeParamsArch3510(**tall), ND, name="atlas_350")
    with pytest.raises(ParameterError, match="n_size"):
        op_for(FixpipeParamsV220(**{**BASE, "n_size": 24}), NZ)
    op_for(FixpipeParamsV220(**{**BASE, "n_size": 10}), ND)
    for kind, config in (("L1", ND), ("UB", FixpipeConfig(1, is_to_ub=True))):
        with pytest.raises(ParameterError, match="32 B"):
            op_for(FixpipeParamsArch3510(**{**BASE, "n_size": 12}), config, FLOAT, "atlas_350", kind)
        op_for(FixpipeParamsArch3510(**{**BASE, "n_size": 8}), config, FLOAT, "atlas_350", kind)


@pytest.mark.parametrize(
    ("mode", "dst"),
    [(QuantModes.NoQuant, HALF), (QuantModes.F322F16, BF16), (QuantModes.F322BF16, HALF), (QuantModes.F322F16, FLOAT)],
)
def test_mode_must_fit_the_types(mode: QuantModes, dst: DataType) -> None:
    with pytest.raises(ParameterError) as caught:
        op_for(FixpipeParamsV220(**BASE, quant_pre=mode), ND, dst)
    assert caught.value.field == "quant_pre"


@pytest.mark.parametrize(
    ("name", "kind", "params", "config", "dst", "field"),
    [
        ("atlas_a2", "GM", FixpipeParamsArch3510(**BASE), ND, FLOAT, "params"),
        ("atlas_200i", "UB", FixpipeParamsArch3510(**BASE), ND, FLOAT, "params"),
        ("atlas_350", "UB", FixpipeParamsV220(**BASE), FixpipeConfig(1, True), FLOAT, "params"),
        ("atlas_a2", "UB", FixpipeParamsV220(**BASE), ND, FLOAT, "path"),
        ("atlas_200i", "L1", FixpipeParamsM300(**BASE), NZ, FLOAT, "path"),
        ("atlas_a2", "L0A", FixpipeParamsV220(**BASE), NZ, FLOAT, "path"),
        ("atlas_a2", "L1", FixpipeParamsV220(**BASE), NZ, FLOAT, "dtype"),
        ("atlas_a2", "L1", FixpipeParamsV220(**BASE, quant_pre=1), ND, HALF, "layout"),
        ("atlas_a2", "GM", FixpipeParamsV220(**BASE), ND, DataType("int64"), "dtype"),
        ("atlas_a2", "GM", FixpipeParamsV220(**BASE), FixpipeConfig(2), FLOAT, "layout"),
        ("atlas_350", "GM", FixpipeParamsV220(**BASE), FixpipeConfig(2), FLOAT, "layout"),
        ("atlas_a2", "GM", FixpipeParamsV220(**BASE), FixpipeConfig(1, True), FLOAT, "is_to_ub"),
        ("atlas_350", "L1", FixpipeParamsV220(**BASE, is_channel_split=True), NZ, FLOAT, "is_channel_split"),
        ("atlas_a2", "GM", FixpipeParamsV220(**BASE, quant_pre=QuantModes.QF322F16_PRE), ND, HALF, "quant_pre"),
        ("atlas_350", "GM", FixpipeParamsArch3510(**BASE, dual_dst_ctl=1), ND, FLOAT, "dual_dst_ctl"),
        ("atlas_200i", "GM", FixpipeParamsM300(**BASE, unit_flag=3), ND, FLOAT, "unit_flag"),
    ],
)
def test_unsupported(name: str, kind: str, params: Any, config: FixpipeConfig, dst: DataType, field: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        op_for(params, config, dst, name, kind)
    assert caught.value.field == field and caught.value.card == name


def test_destination_in_ub_must_be_announced_on_950() -> None:
    for kind, flag in (("UB", False), ("GM", True)):
        with pytest.raises(ParameterError) as caught:
            op_for(FixpipeParamsArch3510(**BASE), FixpipeConfig(1, flag), FLOAT, "atlas_350", kind)
        assert caught.value.field == "is_to_ub"


def test_unknown_format() -> None:
    with pytest.raises(ParameterError) as caught:
        op_for(FixpipeParamsV220(**BASE), FixpipeConfig(3))
    assert caught.value.field == "layout"


@pytest.mark.parametrize(
    ("params", "config", "name", "text"),
    [
        (FixpipeParamsV220(16, 16, 16, 8), ND, "atlas_a2", "overlap"),
        (FixpipeParamsV220(32, 16, 16, 8), NZ, "atlas_a2", "overlap"),
        (FixpipeParamsV220(32, 32, 2, 32), ND, "atlas_a2", "src_stride 2"),
        (FixpipeParamsV220(**BASE, deq_scalar=1), ND, "atlas_a2", "deq_scalar"),
        (FixpipeParamsV220(**BASE, nd_num=2), NZ, "atlas_a2", "nd_num"),
        (FixpipeParamsV220(16, 16, 16, 32), NZ, "atlas_350", "FixpipeParamsV220"),
        (FixpipeParamsArch3510(**BASE, pre_relu_mode=ReluMode.NORMAL_RELU), ND, "atlas_350", "relu_en"),
        (FixpipeParamsArch3510(**BASE, pre_clip_relu_mode=ClipReluMode.CLIP_RELU), ND, "atlas_350", "relu_en"),
    ],
)
def test_doubtful_calls_are_reported(params: Any, config: FixpipeConfig, name: str, text: str) -> None:
    op = op_for(params, config, FLOAT, name)
    assert any(text in warning for warning in op.warnings)


def test_modes_that_say_nothing_are_silent() -> None:
    params = FixpipeParamsArch3510(**BASE, pre_relu_mode=ReluMode.NO_RELU, pre_clip_relu_mode=ClipReluMode.NOCLIP_RELU)
    assert op_for(params, ND, FLOAT, "atlas_350").warnings == ()


def test_one_column_block_has_no_pitch_in_the_source() -> None:
    assert op_for(FixpipeParamsV220(16, 32, 2, 16)).warnings == ()


# ---- the API function -----------------------------------------------------------------------------------------------
def test_a_kernel_call_to_gm() -> None:
    values = np.arange(40 * 50, dtype=np.float32).reshape(40, 50)
    with recording("atlas_a3", gm=[np.zeros((40, 50), np.float16)]) as rec:
        content = l0c(values, 48)
        rec.buffers["L0C"].bytes()[: content.nbytes] = content.reshape(-1).view(np.uint8)
        rec.buffers["L0C"].shadow[:] = 1
        out = GlobalTensor()
        out.set_global_buffer(GlobalAddress(rec.arrays[0], HALF))
        c = LocalTensor(FLOAT, TPosition.CO1, 0, 48 * 64)
        fixpipe(out, c, FixpipeParamsV220(50, 40, 48, 50, QuantModes.F322F16))
        fixpipe(out, c, FixpipeParamsV220(0, 40, 48, 50, QuantModes.F322F16), ND)
        assert len(rec.program) == 1 and len(rec.session.warnings) == 1
        apply_program(rec)
        np.testing.assert_array_equal(rec.arrays[0].bytes()[:4000].view(np.float16).reshape(40, 50), values)


@pytest.mark.parametrize("sub", [0, 1])
def test_ub_of_a_vector_core_on_950(sub: int) -> None:
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    with recording("atlas_350", vectors=2) as rec:
        rec.buffers["L0C"].bytes()[:1024] = values.reshape(-1).view(np.uint8)
        c, ub = LocalTensor(FLOAT, TPosition.CO1, 0, 256), LocalTensor(FLOAT, TPosition.VECIN, 64, 256)
        fixpipe(
            ub, c, FixpipeParamsArch3510(16, 16, 16, 16, sub_block_id=sub), FixpipeConfig(CO2Layout.ROW_MAJOR, True)
        )
        apply_program(rec)
        assert rec.program[0].bufs[0] is rec.group_ub[sub]
        np.testing.assert_array_equal(rec.group_ub[sub].bytes()[64:1088].view(np.float32).reshape(16, 16), values)
        assert not rec.group_ub[1 - sub].bytes().any()


def test_ub_needs_a_vector_core() -> None:
    with recording("atlas_350") as rec:
        c, ub = LocalTensor(FLOAT, TPosition.CO1, 0, 256), LocalTensor(FLOAT, TPosition.VECIN, 0, 256)
        with pytest.raises(UnsupportedError, match="vector core"):
            fixpipe(ub, c, FixpipeParamsArch3510(16, 16, 16, 16), FixpipeConfig(CO2Layout.ROW_MAJOR, is_to_ub=True))
        assert rec.program == []


def test_own_ub_on_200i() -> None:
    with recording("atlas_200i") as rec:
        c, ub = LocalTensor(FLOAT, TPosition.CO1, 0, 256), LocalTensor(FLOAT, TPosition.VECIN, 0, 256)
        rec.buffers["L0C"].bytes()[:1024] = np.arange(256, dtype=np.float32).view(np.uint8)
        fixpipe(ub, c, FixpipeParamsM300(16, 16, 16, 16))
        apply_program(rec)
        np.testing.assert_array_equal(rec.buffers["UB"].bytes()[:1024].view(np.float32), np.arange(256))


def test_call_errors() -> None:
    with recording("atlas_a2", gm=[np.zeros(256, np.float32)]) as rec:
        out = GlobalTensor()
        out.set_global_buffer(GlobalAddress(rec.arrays[0], FLOAT))
        c, l1 = LocalTensor(FLOAT, TPosition.CO1, 0, 4096), LocalTensor(HALF, TPosition.A1, 0, 4096)
        good = FixpipeParamsV220(**BASE)
        with pytest.raises(ParameterError, match="uint64"):
            fixpipe(out, c, l1, good)
        with pytest.raises(ParameterError) as caught:
            fixpipe(out, c, good, FixpipeConfig.cfg_nz)
        assert caught.value.field == "config"
        with pytest.raises(ParameterError) as caught:
            fixpipe(out, c, 5)
        assert caught.value.field == "params"
        with pytest.raises(UnsupportedError) as refused:
            fixpipe(out, l1, good)
        assert refused.value.field == "src"
        with pytest.raises(AlignmentError):
            fixpipe(out, c[8:], good)
        with pytest.raises(AlignmentError):
            fixpipe(l1[8:], c, FixpipeParamsV220(**BASE, quant_pre=1), NZ)
        with pytest.raises(OutOfBoundsError):
            fixpipe(out, c, FixpipeParamsV220(16, 17, 32, 16))
        with pytest.raises(OutOfBoundsError):
            fixpipe(out, c, FixpipeParamsV220(32, 1, 2048, 32))
        assert rec.program == []


def test_nothing_is_recorded_on_a_vector_core() -> None:
    with recording("atlas_350", kind="aiv") as rec:
        c, ub = LocalTensor(FLOAT, TPosition.CO1, 0, 256), LocalTensor(FLOAT, TPosition.VECIN, 0, 256)
        fixpipe(ub, c, FixpipeParamsArch3510(16, 16, 16, 16), FixpipeConfig(CO2Layout.ROW_MAJOR, is_to_ub=True))
        assert rec.program == []
