"""Worked examples of the cube's rarer forms: narrow operands, HF32, parameter words, registers, quirks, prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions import fixpipe as fix
from aicore_sim.instructions import mmad as cube
from aicore_sim.instructions.base import CubeWork, FixWork
from aicore_sim.instructions.fixpipe import FixpipeConfig, FixpipeParamsArch3510, FixpipeParamsV220, Nz2DnParams
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.kernel import cube_registers as regs
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.kernel.api_cube import fixpipe, mmad, mmad_mx
from aicore_sim.kernel.enums import CO2Layout, QuantModes
from aicore_sim.kernel.sync import set_atomic_add, set_atomic_none
from aicore_sim.timing import Timing
from tests.stage import CARDS, Place, Stage, the_card

FLOAT, NZ, ND = DataType("float"), FixpipeConfig.cfg_nz(), FixpipeConfig.cfg_row_major()


def word(factor: float, offset: int = 0, signed: bool = True, shift: int = 0) -> int:
    """A parameter word: M1, offset in 45:37, sign in 46, N-1 and MCB from 32 on."""
    bits = int(np.array(factor, np.float32).view(np.uint32))
    return bits | (offset & 0x1FF) << 37 | signed << 46 | ((shift - 1) | 16) << 32 if shift else (
        bits | (offset & 0x1FF) << 37 | signed << 46)  # fmt: skip


def out_of_l0c(
    card: str, row: list[float], src: str, dst: str, mode: QuantModes, value: int, relu: bool = False
) -> NDArray[Any]:
    """One row of up to 16 numbers through Fixpipe with a scalar word."""
    kind: Any = np.int32 if src == "int32" else np.float32
    line = np.zeros(16, kind)
    line[: len(row)] = row
    stage = Stage(card, {"src": Place("CO1", src, line), "dst": Place("GM", dst, 16 * DataType(dst).sizeof())})
    params = FixpipeParamsV220(16, 1, 16, 16, mode, value, relu_en=relu)
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], params))
    return np.asarray(stage.bytes("dst").view(DataType(dst).np_dtype or np.uint8))[: len(row)]


# ---- Mmad -----------------------------------------------------------------------------------------------------------
def half_product(left: NDArray[Any], *setup: Callable[[], Any], card: str = "atlas_350") -> tuple[float, Stage]:
    """C(0, 0) of a float product of a row of 16 numbers with ones in column 0, and the stage."""
    a, b = np.zeros((2, 16, 8), np.float32), np.zeros((2, 16, 8), np.float32)
    a[:, 0] = left.reshape(2, 8)
    b[:, 0] = 1
    stage = Stage(card, {"a": Place("A2", "float", a), "b": Place("B2", "float", b), "c": Place("CO1", "float", 1024)})
    stage.call(*setup, lambda: mmad(stage["c"], stage["a"], stage["b"], MmadParams(16, 16, 16)))
    return float(stage.bytes("c").view(np.float32)[0]), stage


@pytest.mark.parametrize(("towards_zero", "expected"), [(False, 1 + 2.0**-9), (True, 1 + 2.0**-10)])
def test_hf32_keeps_ten_bits(towards_zero: bool, expected: float) -> None:
    """1 + 3 * 2^-11 lies between 1 + 2 * 2^-11 (odd) and 1 + 4 * 2^-11 (even)."""
    row = np.zeros(16, np.float32)
    row[0] = 1 + 3 * 2.0**-11
    got, stage = half_product(
        row, lambda: regs.set_hf32_mode(True), lambda: regs.set_hf32_trans_mode(towards_zero)
    )
    assert got == expected
    assert stage.ops[-1].cost == CubeWork("hf32", 16, 16, 16) and not stage.warnings
    row[0] = 1 + 2.0**-12  # below the middle
    assert half_product(row, lambda: regs.set_hf32_mode(1))[0] == 1.0
    row[0] = -(1 + 3 * 2.0**-12)  # above it
    assert half_product(row, lambda: regs.set_hf32_mode(1))[0] == -(1 + 2.0**-10)
    row[0] = np.inf
    assert half_product(row, lambda: regs.set_hf32_mode(1))[0] == np.inf
    row[0] = 1 + 2.0**-12
    assert half_product(row, lambda: regs.set_hf32_mode(1), lambda: regs.set_hf32_mode(0))[0] == row[0]


def test_hf32_elsewhere_is_not_guessed() -> None:
    row = np.full(16, 1 + 2.0**-20, np.float32)
    got, stage = half_product(row, lambda: regs.set_hf32_mode(True), card="atlas_a2")
    assert got == np.float32(16 + 16 * 2.0**-20) and "HF32" in stage.warnings[0]


def test_the_order_of_fractals_changes_nothing() -> None:
    row = np.arange(16, dtype=np.float32)
    for setup in (regs.set_mm_row_major, regs.set_mm_column_major, lambda: regs.set_mm_layout_transform(1)):
        assert half_product(row, setup)[0] == 120
    stage = half_product(row)[1]
    for call, field in ((lambda: regs.set_mm_layout_transform(2), "mm_layout_mode"),
                        (lambda: regs.set_hf32_mode(2), "hf32_mode"),
                        (lambda: regs.set_hf32_trans_mode(-1), "trans_mode")):  # fmt: skip
        stage.refuses(call, ParameterError, field)


def test_scaled_operands_start_at_their_own_alignment() -> None:
    places = {"a": Place("A2", "fp8_e5m2", 4096), "b": Place("B2", "fp8_e5m2", 4096), "c": Place("CO1", "float", 1024)}
    stage = Stage("atlas_350", places)
    params = MmadParams(16, 16, 64)
    for names in (("a", 512, 0), ("b", 0, 512)):
        stage.refuses(lambda n=names: mmad_mx(stage["c"], stage["a"][n[1]], stage["b"][n[2]], params), AlignmentError)  # type: ignore[misc]
    places = {"a": Place("A2", "fp4x2_e2m1", 4096), "b": Place("B2", "fp4x2_e1m2", 4096), "c": Place("CO1", "float", 1024)}
    stage = Stage("atlas_350", places)
    stage.call(lambda: mmad_mx(stage["c"], stage["a"][1024], stage["b"], params))
    assert stage.recorder.program[-1].offs == (0, 512, 0, 32, 0)
    assert stage.ops[-1].cost == CubeWork("mxfp4", 16, 16, 64)


def test_a_row_with_scales_is_a_guess() -> None:
    stage = Stage("atlas_350", {"a": Place("A2", "fp8_e5m2", 1024), "b": Place("B2", "fp8_e5m2", 1024),
                                "c": Place("CO1", "float", 1024)})  # fmt: skip
    stage.call(lambda: mmad_mx(stage["c"], stage["a"], stage["b"], MmadParams(1, 16, 64)))
    assert any("not published" in text for text in stage.warnings)
    stage.call(lambda: mmad_mx(stage["c"], stage["a"], stage["b"], MmadParams(1, 16, 64, disable_gemv=True)))
    assert len(stage.warnings) == 1


def test_hifloat8_product_by_hand() -> None:
    """14 * 0.5 + 2 * -1 = 5."""
    a, b = np.zeros((16, 32), np.uint8), np.zeros((16, 32), np.uint8)
    a[0, :2], b[0, :2] = (0x2E, 0x10), (0x18, 0x88)
    places = {"a": Place("A2", "hifloat8", a), "b": Place("B2", "hifloat8", b), "c": Place("CO1", "float", 1024)}
    stage = Stage("atlas_350", places)
    stage.call(lambda: mmad(stage["c"], stage["a"], stage["b"], MmadParams(16, 16, 32)))
    assert stage.bytes("c").view(np.float32)[0] == 5
    assert stage.ops[-1].cost == CubeWork("fp8", 16, 16, 32)


# ---- Fixpipe: values ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
def test_requantisation_by_hand(card: str) -> None:
    """x * 0.5, clipped to -256..255, to nearest even, plus the offset, saturated."""
    got = out_of_l0c(card, [3, 5, -3, 1000, -1000, 0], "int32", "int8", QuantModes.REQ8, word(0.5, 10))
    assert got.tolist() == [12, 12, 8, 127, -128, 10]  # 1.5 -> 2, 2.5 -> 2, -1.5 -> -2
    got = out_of_l0c(card, [3, 5, -3, 1000, -1000, 0], "int32", "uint8", QuantModes.REQ8, word(0.5, -10, False))
    assert got.tolist() == [0, 0, 0, 245, 0, 0]  # 255 - 10: clipped before the offset
    got = out_of_l0c(card, [-3, 3], "int32", "int8", QuantModes.REQ8, word(-1.0, 1), relu=True)
    assert got.tolist() == [1, -2]
    got = out_of_l0c(card, [1.25, -2.5, np.inf, np.nan], "float", "int8", QuantModes.QF322B8_PRE, word(2.0))
    assert got.tolist() == [2, -5, 127, 0]


def test_shift_is_for_int32_on_2201() -> None:
    value = word(1.0, shift=4)
    for card, expected in (("atlas_a2", 6), ("atlas_350", 100), ("atlas_200i", 100)):
        assert out_of_l0c(card, [100], "int32", "half", QuantModes.DEQF16, value)[0] == expected
    assert out_of_l0c("atlas_a3", [2**30], "int32", "half", QuantModes.DEQF16, word(1.0, shift=1))[0] == 32768  # 32767 in half


def test_low_bits_of_the_factor_do_not_count() -> None:
    noisy = word(0.5) | 0x1FFF
    assert out_of_l0c("atlas_a2", [3000], "int32", "half", QuantModes.DEQF16, noisy)[0] == 1500


def test_narrow_results() -> None:
    got = out_of_l0c("atlas_350", [14, 448, 1000, np.inf], "float", "fp8_e4m3fn", QuantModes.QF322FP8_PRE, word(1.0)).view(np.uint8)
    assert got[:2].tolist() == [0x56, 0x7E] and set((got[2:] & 0x7F).tolist()) == {0x7F}
    assert out_of_l0c("atlas_350", [7, 40000, np.nan], "float", "hifloat8", QuantModes.QF322HIF8_PRE, word(2.0)).tolist() == [
        0x2E, 0x6F, 0x80]  # fmt: skip


def test_a_word_of_the_other_sign_warns() -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.full(16, -5, np.float32)), "dst": Place("GM", "int8", 16)})
    params = FixpipeParamsV220(16, 1, 16, 16, QuantModes.QF322B8_PRE, word(1.0, signed=False))
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], params))
    assert stage.bytes("dst").tolist() == [0] * 16 and "bit 46" in stage.warnings[0]


# ---- Fixpipe: places ------------------------------------------------------------------------------------------------
def test_columns_of_the_page_s_rule() -> None:
    """NZ2DN: element (m, n) of matrix h at h * dst_dn_matrix_stride + n * dst_stride + m, rows 2 apart in L0C."""
    values = np.arange(2 * 4 * 16 * 16, dtype=np.float32)
    stage = Stage("atlas_350", {"src": Place("CO1", "float", values), "dst": Place("GM", "float", 4 * 300)})
    params = FixpipeParamsArch3510(16, 8, 32, 9, params=Nz2DnParams(2, 32, 150, 2))
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], params, FixpipeConfig(CO2Layout.COLUMN_MAJOR)))
    got = stage.bytes("dst").view(np.float32)
    assert got[5 * 9 + 3] == 3 * 32 + 5 and got[150 + 15 * 9 + 7] == 512 + 7 * 32 + 15


def test_odd_last_block_of_bytes_is_unknown() -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.ones(3 * 256, np.float32)), "dst": Place("A1", "int8", 1024)})
    params = FixpipeParamsV220(48, 16, 16, 16, QuantModes.QF322B8_PRE, word(3.0))
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], params, NZ))
    known = stage.defined("dst")
    assert known[:512].all() and not known[512:].any()
    assert (stage.bytes("dst")[:512] == 3).all() and (stage.bytes("dst")[512:] == 0xA5).all()
    assert any("odd last block" in text for text in stage.warnings)
    assert stage.ops[-1].writes == ((0, 0, 768),)


def test_struct_of_2201_on_350_as_the_header_reads_it() -> None:
    values = np.arange(2 * 256, dtype=np.float32)
    params = FixpipeParamsV220(32, 16, 16, 512)
    for quirks, at in (("documented", 512 * 8), ("fixpipe-v220-unscaled", 512)):
        stage = Stage("atlas_350", {"src": Place("CO1", "float", values), "dst": Place("GM", "float", 4 * 4600)}, quirks=quirks)
        stage.call(lambda s=stage: fixpipe(s["dst"], s["src"], params, NZ))  # type: ignore[misc]
        got = stage.bytes("dst").view(np.float32)
        assert got[at : at + 256].tolist() == list(range(256, 512))
        assert bool(stage.warnings) == (quirks == "documented")


@pytest.mark.parametrize(("card", "n", "out", "mode", "chunk", "factor"), [
    ("atlas_a2", 288, "int8", QuantModes.VQF322B8_PRE, 128, 2), ("atlas_a3", 288, "int8", QuantModes.VQF322B8_PRE, 128, 2),
    ("atlas_350", 1040, "half", QuantModes.VQF322F16_PRE, 512, 16),
])  # fmt: skip
def test_steps_between_loads_of_a_table(card: str, n: int, out: str, mode: QuantModes, chunk: int, factor: int) -> None:
    """The first chunk lies where it should, later ones `factor` times as far as they should (m = 1, value 1 * column's factor)."""
    words = np.array([word(float(1 + j % 7)) for j in range(n)], np.uint64)
    width = 32 if out == "int8" else 16
    size = DataType(out).sizeof()
    for quirks, times in (("documented", 1), ("fixpipe-table-chunks", factor)):
        stage = Stage(card, {
            "src": Place("CO1", "float", np.ones(n, np.float32)), "table": Place("A1", "uint64", words),
            "dst": Place("GM", out, 2 * factor * size * n),
        }, quirks=quirks)  # fmt: skip
        params: Any = FixpipeParamsV220(n, 1, 1, 1, mode)
        if card == "atlas_350":
            params = FixpipeParamsArch3510(n, 1, 1, 16, mode)
        stage.call(lambda s=stage, p=params: fixpipe(s["dst"], s["src"], s["table"], p, NZ))  # type: ignore[misc]
        got = stage.bytes("dst").view(DataType(out).np_dtype)
        for j in range(0, n - n % width, 5):
            place = j // chunk * (chunk // width) * times * width + j % chunk // width * width + j % width
            assert got[place] == 1 + j % 7, (quirks, j)


def test_table_modes_need_a_table_and_others_do_not() -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.ones(256, np.float32)), "dst": Place("GM", "int8", 256),
                               "table": Place("A1", "uint64", np.full(16, word(1.0), np.uint64)),
                               "l1": Place("A1", "int8", 256)})  # fmt: skip
    scalar = FixpipeParamsV220(16, 16, 16, 16, QuantModes.QF322B8_PRE, word(2.0))
    table = FixpipeParamsV220(16, 16, 16, 16, QuantModes.VQF322B8_PRE)
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], stage["table"], scalar))
    assert (stage.bytes("dst") == 2).all() and "cbuf_workspace" in stage.warnings[0]
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], cbuf_workspace=stage["table"], params=table, config=ND))
    assert (stage.bytes("dst") == 1).all()
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], stage["l1"], table), ParameterError, "cbuf_workspace")
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], stage["dst"], table), UnsupportedError, "cbuf_workspace")
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], stage["table"][1], table), AlignmentError)
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], table, ND, 3), ParameterError, "arguments")
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], table, colour=3), ParameterError, "arguments")


def test_undefined_words_of_a_table() -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.ones(256, np.float32)), "dst": Place("GM", "int8", 256),
                               "table": Place("A1", "uint64", np.full(16, word(1.0), np.uint64))})  # fmt: skip
    shadow = stage.memories["L1"].shadow
    assert shadow is not None
    shadow[8 * 5] = 0
    params = FixpipeParamsV220(16, 16, 16, 16, QuantModes.VQF322B8_PRE)
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], stage["table"], params))
    known = stage.defined("dst").reshape(16, 16)
    assert not known[:, 5].any() and known.sum() == 240


# ---- registers of DataCopy out of L0C --------------------------------------------------------------------------------
def test_copy_registers() -> None:
    places = {"src": Place("CO1", "float", np.ones(256, np.float32)), "dst": Place("GM", "int8", 256),
              "table": Place("C2PIPE2GM", "uint64", np.full(32, word(3.0), np.uint64)),
              "l1": Place("A1", "uint64", 256)}  # fmt: skip
    stage = Stage("atlas_a2", places)
    table, scalar = (asc.DataCopyCO12DstParams(16, 16, 16, 16, mode, nz2nd_en=True)
                     for mode in (QuantModes.VQF322B8_PRE, QuantModes.QF322B8_PRE))  # fmt: skip
    stage.refuses(lambda: data_copy(stage["dst"], stage["src"], table), ParameterError, "quant_pre")
    stage.call(lambda: regs.set_fix_pipe_config(stage["table"]), lambda: data_copy(stage["dst"], stage["src"], intri_params=table))
    assert (stage.bytes("dst") == 3).all()
    stage.call(lambda: regs.set_fix_pipe_pre_quant_flag(word(4.0)), lambda: data_copy(stage["dst"], stage["src"], scalar))
    assert (stage.bytes("dst") == 4).all()
    stage.refuses(lambda: regs.set_fix_pipe_config(stage["l1"]), UnsupportedError, "quant_pre")
    stage.refuses(lambda: regs.set_fix_pipe_config(stage["table"][8]), AlignmentError, "quant_pre")
    stage.refuses(regs.set_fix_pipe_config, ParameterError, "arguments")
    stage.refuses(lambda: regs.set_fix_pipe_pre_quant_flag(-1), ParameterError, "config")
    stage.refuses(lambda: regs.set_fix_pipe_clip_relu(1), UnsupportedError, "api")
    stage.refuses(lambda: regs.set_fixpipe_nz2nd_flag(1, 513, 0), ParameterError, "src_nd_stride")
    stage.call(lambda: regs.set_fix_pipe_config(stage["table"], stage["table"]))
    assert any("ReLU" in text for text in stage.warnings)


def test_clearing_unit_flags() -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.ones(256, np.float32)), "dst": Place("GM", "float", 1024)})
    stage.call(lambda: regs.set_fix_pipe_config(stage["src"], True))
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], FixpipeParamsV220(16, 16, 16, 16, unit_flag=3)))
    stage.refuses(lambda: regs.set_fix_pipe_config(stage["src"], is_unit_flag=True), UnsupportedError, "is_unit_flag")


@pytest.mark.parametrize("card", CARDS)
def test_atomic_stores_out_of_l0c(card: str) -> None:
    stage = Stage(card, {"src": Place("CO1", "float", np.full(256, 1.5, np.float32)),
                         "dst": Place("GM", "half", np.ones(256, np.float16))})  # fmt: skip
    params = FixpipeParamsV220(16, 16, 16, 16, QuantModes.F322F16)
    stage.call(lambda: set_atomic_add(DataType("half")), lambda: fixpipe(stage["dst"], stage["src"], params),
               lambda: fixpipe(stage["dst"], stage["src"], params), set_atomic_none)  # fmt: skip
    assert (stage.bytes("dst").view(np.float16) == 4).all()


# ---- prices ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CARDS)
def test_every_product_has_a_price(name: str) -> None:
    card = the_card(name)
    for api, build in (("Mmad", cube.build), ("MmadMx", cube.build_mx)):
        for row in card.api(api, "without bias"):
            for text in row.dtypes:
                parts = text.split("*")
                op = build(MmadParams(16, 16, 64), DataType(parts[3 if api == "MmadMx" else 2]), DataType(parts[0]),
                           DataType(parts[1]), None, "", card)  # fmt: skip
                assert op is not None
                Timing(card).price(op)
                assert op.occupy > 0


@pytest.mark.parametrize(("out", "row"), [("float", "float"), ("half", "half"), ("int8", "int8"), ("hifloat8", "int8")])
def test_rates_of_two_destinations_and_of_strided_columns(out: str, row: str) -> None:
    card = the_card("atlas_350")
    mode = {"float": 0, "half": 1, "int8": 5, "hifloat8": int(QuantModes.QF322HIF8_PRE)}[out]
    scalar = word(1.0) if mode > 2 else 0
    dual = fix.build(FixpipeParamsArch3510(64, 32, 32, 64, mode, scalar, dual_dst_ctl=1), FixpipeConfig(1, True), FLOAT,
                     DataType(out), "UB", card)  # fmt: skip
    strided = fix.build(FixpipeParamsArch3510(64, 32, 64, 32, mode, scalar, params=Nz2DnParams(1, 0, 0, 2)),
                        FixpipeConfig(2), FLOAT, DataType(out), "L1", card)  # fmt: skip
    assert dual is not None and strided is not None
    for op, variant in ((dual, "_dual"), (strided, "_strided")):
        listed = variant == "_strided" or row == "float"  # two destinations have a figure for float only
        assert op.cost == FixWork(op.path, row + (variant if listed else ""), 64 * 32 * DataType(out).sizeof())
        Timing(card).price(op)
