"""The registers of 3-D loads: what sets them, what reads them, how long they last (spec api_semantics.md 4.4, 5.6, 5.7, 24)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.kernel.context import enter
from tests.stage import CARDS, Place, Stage, noise

LEFT, RIGHT = asc.FmatrixMode.FMATRIX_LEFT, asc.FmatrixMode.FMATRIX_RIGHT
NEITHER = asc.IsResetLoad3dConfig(False, False)
ONLY_MAP = asc.IsResetLoad3dConfig(True, False)
ONLY_PADDING = asc.IsResetLoad3dConfig(False, True)
V2, Time = asc.LoadData3DParamsV2, asc.LoadDataRepeatParam
STRUCTS: dict[str, Callable[[], Any]] = {
    "pro": lambda: asc.LoadData3DParamsV2Pro(16, ext_config=16 << 16 | 16), "bits": lambda: asc.Load3DBitModeParam(V2()),
}  # fmt: skip


def stage_for(card: str, dtype: str = "half", target: str = "A2", **modes: Any) -> Stage:
    """An L1 of 4 KB of noise and a destination of 8 KB."""
    return Stage(card, {"src": Place("A1", dtype, noise(4096, 5)), "dst": Place(target, dtype, 8192)}, **modes)


def load(stage: Stage, params: Any, *config: Any) -> Callable[[], None]:
    return lambda: asc.load_data(stage["dst"], stage["src"], params, *config)


def padded(value: float = 0, rows: int = 16, pad: int = 1) -> asc.LoadData3DParamsV2:
    """One column of `rows` positions of which the first `pad` are padding: rows 0.. of a 16-row window."""
    return V2((pad, 0, 0, 0), 1, rows - pad, 16, 16, rows, pad_value=value)


def row(stage: Stage, index: int) -> NDArray[Any]:
    """Row of the first fractal of the destination."""
    return stage.words("dst")[index * 16 : index * 16 + 16]


# ---- feature map ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
def test_set_fmatrix_holds_until_the_next_one(card: str) -> None:
    stage = stage_for(card)
    window = V2(channel_size=16, k_extension=16, m_extension=16)
    stage.call(lambda: asc.set_fmatrix(1, 15, [1, 0, 0, 0], LEFT), load(stage, window, ONLY_PADDING))
    np.testing.assert_array_equal(row(stage, 0), np.zeros(16, np.uint16))
    np.testing.assert_array_equal(row(stage, 1), stage.words("src")[:16])
    stage.call(load(stage, window, ONLY_PADDING))
    np.testing.assert_array_equal(row(stage, 15), stage.words("src")[14 * 16 : 15 * 16])
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0)), load(stage, window, ONLY_PADDING))
    np.testing.assert_array_equal(stage.words("dst")[:256], stage.words("src")[:256])
    assert not stage.warnings


@pytest.mark.parametrize("card", CARDS)
def test_a_call_leaves_its_map_in_the_register(card: str) -> None:
    stage = stage_for(card)
    stage.call(load(stage, padded()), load(stage, V2(channel_size=16, k_extension=16, m_extension=16), NEITHER))
    np.testing.assert_array_equal(row(stage, 1), stage.words("src")[:16])
    assert not stage.warnings


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
def test_f_matrix_ctrl_reads_the_right_register(card: str) -> None:
    stage = stage_for(card, target="B2")
    window = V2(channel_size=16, k_extension=16, m_extension=16, f_matrix_ctrl=True)
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0), RIGHT), lambda: asc.set_fmatrix(1, 15, (1, 0, 0, 0), LEFT))
    stage.call(load(stage, window, NEITHER))
    np.testing.assert_array_equal(stage.words("dst")[:256].reshape(16, 16), stage.words("src")[:256].reshape(16, 16).T)


def test_quirk_fmatrix_left() -> None:
    """The page programs the register that f_matrix_ctrl names; the header always the left one, and reads the right one."""
    mine = V2((0, 0, 0, 0), 1, 16, 16, 16, 16, f_matrix_ctrl=True)
    for quirks, first in (("documented", False), ("fmatrix-left", True)):
        stage = stage_for("atlas_a2", target="B2", quirks=quirks)
        stage.call(lambda: asc.set_fmatrix(1, 15, (1, 0, 0, 0), RIGHT), load(stage, mine))
        column = stage.words("dst")[:256].reshape(16, 16)[:, 0]
        assert bool((column == 0).all()) is first  # row 0 of the window is padding only in the old right register
        assert any("left register" in text for text in stage.warnings) is first
        stage.call(load(stage, replace(mine, l1_w=1, f_matrix_ctrl=False), NEITHER))
        left_was_set = not any("never set" in text for text in stage.warnings)
        assert left_was_set is first


@pytest.mark.parametrize("card", CARDS)
def test_a_map_that_was_never_set_makes_everything_undefined(card: str) -> None:
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)),
                         "dst": Place("A2", "half", np.zeros(2048, np.uint16))})  # fmt: skip
    stage.call(load(stage, V2(l1_w=16, channel_size=32, k_extension=32, m_extension=16), ONLY_PADDING))
    assert not stage.defined("dst")[:1024].any() and stage.defined("dst")[1024:].all()
    assert [text for text in stage.warnings if "set_fmatrix" in text]


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(
    ("args", "field"),
    [((0, 1, (0, 0, 0, 0)), "l1_h"), ((32768, 1, (0, 0, 0, 0)), "l1_h"), ((1, 0, (0, 0, 0, 0)), "l1_w"),
     ((1, 1, (0, 0, 0, 256)), "pad_list"), ((1, 1, (-1, 0, 0, 0)), "pad_list"), ((1, 1, (0, 0, 0)), "pad_list"),
     ((1, 1, (0, 0, 0, 0), 2), "fmatrix_mode")],
)  # fmt: skip
def test_set_fmatrix_out_of_range(card: str, args: tuple[Any, ...], field: str) -> None:
    stage = stage_for(card)
    error = stage.refuses(lambda: asc.set_fmatrix(*args), ParameterError, field)
    assert error.card == card and "load3d_left" not in stage.recorder.state


@pytest.mark.parametrize("card", ["atlas_350", "atlas_200i"])
def test_the_right_register_of_cards_that_do_not_read_it(card: str) -> None:
    stage = stage_for(card)
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0), RIGHT))
    assert any("FMATRIX_LEFT" in text for text in stage.warnings)


# ---- padding --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", CARDS)
def test_the_padding_register_counts_only_without_is_set_padding(card: str) -> None:
    stage = stage_for(card)
    stage.call(lambda: asc.set_load_data_padding_value(1.0), load(stage, padded(2.0)))
    assert (row(stage, 0) == 0x4000).all()
    stage.call(lambda: asc.set_load_data_padding_value(1.0), load(stage, padded(2.0), ONLY_MAP))
    assert (row(stage, 0) == 0x3C00).all()
    assert any("pad_value = 2.0" in text and "no effect" in text for text in stage.warnings)
    stage.call(load(stage, padded(4.0)), load(stage, padded(), ONLY_MAP))
    assert (row(stage, 0) == 0x4400).all(), "a call with is_set_padding leaves its value"


def test_negative_zero_is_another_padding() -> None:
    stage = stage_for("atlas_a2")
    stage.call(load(stage, padded(0.0)), load(stage, padded(-0.0)))
    assert (row(stage, 0) == 0x8000).all()
    stage.call(lambda: asc.set_load_data_padding_value(0.0), load(stage, padded(), ONLY_MAP))
    assert (row(stage, 0) == 0).all()


@pytest.mark.parametrize("card", CARDS)
def test_padding_that_was_never_set_is_undefined(card: str) -> None:
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)),
                         "dst": Place("A2", "half", np.zeros(2048, np.uint16))})  # fmt: skip
    stage.call(load(stage, padded(), ONLY_MAP))
    assert not stage.defined("dst")[:32].any() and stage.defined("dst")[32:].all()
    assert any("set_load_data_padding_value" in text for text in stage.warnings)


def test_no_word_about_padding_where_there_is_none() -> None:
    """15 rows of 16: the last one is undefined, but nothing is padding."""
    stage = stage_for("atlas_a2")
    stage.call(load(stage, V2(l1_w=15, channel_size=16, k_extension=16, m_extension=16), ONLY_MAP))
    assert not stage.warnings


@pytest.mark.parametrize(("card", "known"), [("atlas_a2", True), ("atlas_a3", True), ("atlas_200i", True), ("atlas_350", False)])
def test_tpipe_clears_the_padding(card: str, known: bool) -> None:
    """InitSocState: 0 on A2, A3 and 200I; 950 leaves the register alone."""
    stage = stage_for(card)
    stage.call(lambda: asc.set_load_data_padding_value(1.0), asc.init_soc_state, load(stage, padded(), ONLY_MAP))
    assert (row(stage, 0) == (0 if known else 0x3C00)).all() and not stage.warnings


def test_raw_bits_of_a_typed_padding() -> None:
    """One byte stands in both bytes of 16; a load of another type reads the bits."""
    stage = stage_for("atlas_a2")
    stage.call(lambda: asc.set_load_data_padding_value(0x12, asc.uint8), load(stage, padded(), ONLY_MAP))
    assert (row(stage, 0) == 0x1212).all()
    stage.refuses(lambda: asc.set_load_data_padding_value(300, asc.uint8), ParameterError, "pad_value")
    stage.refuses(lambda: asc.set_load_data_padding_value(1, asc.int64), UnsupportedError, "dtype")


def test_int4_padding_has_its_range() -> None:
    stage = stage_for("atlas_a2", "int4")
    one = V2((1, 0, 0, 0), 1, 15, 64, 64, 16, pad_value=-8)
    stage.call(load(stage, one))
    assert (stage.bytes("dst")[:32] == 0x88).all()
    stage.refuses(load(stage, replace(one, pad_value=8)), ParameterError, "pad_value")


def test_quirk_load3d_pad_16_bit() -> None:
    """1.5 as a float is 0x3FC00000: the header keeps 0. An int32 keeps what fits 16 bits."""
    for dtype, value, page, header in (("float", 1.5, 0x3FC00000, 0), ("int32", 0x12345, 0x12345, 0x2345)):
        one = V2((1, 0, 0, 0), 1, 15, 8, 8, 16, pad_value=value)
        for quirks, word in (("documented", page), ("load3d-pad-16-bit", header)):
            stage = stage_for("atlas_350", dtype, quirks=quirks)
            stage.call(load(stage, one))
            assert (stage.words("dst")[:8] == word).all()
            assert bool(stage.warnings) is (quirks == "documented")
            stage.call(lambda value=value: asc.set_load_data_padding_value(value), load(stage, one, ONLY_MAP))
            assert (stage.words("dst")[:8] == word).all()


# ---- repeat ---------------------------------------------------------------------------------------------------------
def test_published_repeat_in_m() -> None:
    """repeat_mode 0, stride 2, time 3 with float, transposed: rows 0, 32 and 64 of the window become one matrix."""
    a = np.arange(80 * 8, dtype=np.float32).reshape(80, 8)
    stage = Stage("atlas_a2", {"src": Place("A1", "float", a), "dst": Place("A2", "float", 8192)})
    p = V2(l1_w=80, channel_size=8, k_extension=8, m_extension=16, en_transpose=True)
    stage.call(lambda: asc.set_load_data_repeat(Time(3, 2, 0)), load(stage, p))
    union = np.concatenate([a[0:16], a[32:48], a[64:80]])  # 48 x 8, transposed 8 x 48: 6 fractals side by side
    fractals = stage.bytes("dst").view(np.float32).reshape(-1, 16, 8)
    for i, (r, c) in ((i, (i // 8, i % 8)) for i in range(48)):
        np.testing.assert_array_equal(fractals[r, :8, c], union[i])


@pytest.mark.parametrize(("card", "unit"), [("atlas_a2", 1), ("atlas_350", 1), ("atlas_200i", 2)])
def test_repeat_in_k_counts_32_or_64_bytes(card: str, unit: int) -> None:
    stage = stage_for(card)
    p = V2(l1_w=16, channel_size=64, k_extension=16, m_extension=16)
    stage.call(lambda: asc.set_load_data_repeat(Time(2, 1, 1)), load(stage, p))
    source = stage.words("src").reshape(-1, 256)
    np.testing.assert_array_equal(stage.words("dst")[:512].reshape(2, 256), source[[0, unit]])


@pytest.mark.parametrize("card", CARDS)
def test_repeat_time_0_is_a_no_operation(card: str) -> None:
    stage = stage_for(card)
    stage.call(lambda: asc.set_load_data_repeat(Time(0, 1, 0)), load(stage, padded()))
    assert not [op for op in stage.ops if op.api == "LoadData"]
    assert any("repeat_time is 0" in text for text in stage.warnings)
    stage.call(lambda: asc.set_load_data_repeat(Time()), load(stage, padded()))
    assert len([op for op in stage.ops if op.api == "LoadData"]) == 1


@pytest.mark.parametrize(("field", "value"), [("repeat_time", 256), ("repeat_time", -1), ("repeat_stride", 65536),
                                              ("repeat_mode", 2), ("dst_stride", 65536)])  # fmt: skip
def test_repeat_out_of_range(field: str, value: int) -> None:
    for card in CARDS:
        stage = stage_for(card)
        stage.refuses(lambda stage=stage: asc.set_load_data_repeat(Time(**{field: value})), ParameterError, field)
    stage = stage_for("atlas_350")
    param = asc.LoadDataRepeatParamWithStride(**{field: value})
    stage.refuses(lambda: asc.set_load_data_repeat_with_stride(param), ParameterError, field)
    stage.refuses(lambda: asc.set_load_data_repeat(param), ParameterError, "param")  # type: ignore[arg-type]


def test_quirk_load3d_repeat_pitch() -> None:
    """The page: dst_stride of SetLoadDataRepeat; the header computes ceil(m_extension / 16) = 1 by itself."""
    p = V2(l1_w=16, channel_size=32, k_extension=32, m_extension=16)
    for quirks, second in (("documented", 3), ("load3d-repeat-pitch", 1)):
        stage = stage_for("atlas_350", quirks=quirks)
        stage.call(lambda: asc.set_load_data_repeat(Time(dst_stride=3)), load(stage, p))
        source = stage.words("src").reshape(-1, 256)
        np.testing.assert_array_equal(stage.words("dst").reshape(-1, 256)[[0, second]], source[:2])
        assert any("dst_stride has no effect" in text for text in stage.warnings) is (second == 1)


def test_a_short_pitch_overlaps() -> None:
    """Two column blocks of two fractals, one apart: the middle fractal is written twice."""
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(4096)), "dst": Place("A2", "half", noise(8192))})
    p = V2(l1_w=32, channel_size=32, k_extension=32, m_extension=32)
    stage.call(lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(dst_stride=1)),
               lambda: asc.load_data_with_stride(stage["dst"], stage["src"], p))  # fmt: skip
    np.testing.assert_array_equal(stage.defined("dst").reshape(-1, 512).all(axis=1)[:4], [True, False, True, True])
    assert any("overlap" in text for text in stage.warnings)


def test_the_pitch_of_950_is_that_of_the_last_writer() -> None:
    """A plain load leaves its own pitch for LoadDataWithStride; SetLoadDataRepeatWithStride does not reach plain loads."""
    stage = stage_for("atlas_350")
    p = V2(l1_w=16, channel_size=32, k_extension=32, m_extension=16)
    with_stride = lambda: asc.load_data_with_stride(stage["dst"], stage["src"], p)  # noqa: E731
    stage.refuses(with_stride, ParameterError, "dst_stride")
    stage.call(lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(dst_stride=2)), with_stride)
    assert stage.ops[-1].writes == ((0, 0, 3 * 512),)
    stage.call(load(stage, p))
    assert stage.ops[-1].writes == ((0, 0, 2 * 512),)
    stage.call(with_stride)
    assert stage.ops[-1].writes == ((0, 0, 2 * 512),)


@pytest.mark.parametrize("dtype", ["int8", "hifloat8", "fp8_e5m2"])
def test_load_data_with_stride_into_l0b_takes_16_and_32_bits(dtype: str) -> None:
    stage = stage_for("atlas_350", dtype, "B2")
    p = V2(l1_w=16, channel_size=32, k_extension=32, m_extension=16)
    stage.call(lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(dst_stride=2)))
    stage.refuses(lambda: asc.load_data_with_stride(stage["dst"], stage["src"], p), UnsupportedError, "dtype")
    stage.call(load(stage, p))


# ---- boundary -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
def test_boundary(card: str) -> None:
    """16 rows of 32 B from byte 768 of a ring of 1024 B: 8 rows, then the first 8 of L1."""
    stage = stage_for(card)
    p = V2(l1_w=16, channel_size=16, k_extension=16, m_extension=16)
    stage.call(lambda: asc.set_load_data_boundary(1024), lambda: asc.load_data(stage["dst"], stage.at("src", 384), p))
    ring = stage.words("src")[:512]
    np.testing.assert_array_equal(stage.words("dst")[:256], np.concatenate([ring[384:], ring[:128]]))
    assert stage.ops[-1].reads == ((1, -768, 256),)
    stage.call(load(stage, p))
    np.testing.assert_array_equal(stage.words("dst")[:256], ring[:256])
    stage.call(lambda: asc.set_load_data_boundary(0), lambda: asc.load_data(stage["dst"], stage.at("src", 384), p))
    np.testing.assert_array_equal(stage.words("dst")[:256], stage.words("src")[384:640])


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
@pytest.mark.parametrize("boundary", [1, 512, 1023, 1040, -32, 512 * 1024 + 32])
def test_boundary_out_of_range(card: str, boundary: int) -> None:
    stage_for(card).refuses(lambda: asc.set_load_data_boundary(boundary), ParameterError, "boundary")


def test_init_soc_state_lifts_the_boundary() -> None:
    stage = stage_for("atlas_a2")
    p = V2(l1_w=16, channel_size=16, k_extension=16, m_extension=16)
    stage.call(lambda: asc.set_load_data_boundary(1024), asc.init_soc_state,
               lambda: asc.load_data(stage["dst"], stage.at("src", 384), p))  # fmt: skip
    np.testing.assert_array_equal(stage.words("dst")[:256], stage.words("src")[384:640])


# ---- what cards lack ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("card", "call", "way"),
    [
        *[(card, lambda: asc.set_load_data_boundary(1024), "two loads") for card in ("atlas_350", "atlas_200i")],
        *[(card, lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride()), "set_load_data_repeat")
          for card in ("atlas_a2", "atlas_a3", "atlas_200i")],
    ],
)  # fmt: skip
def test_register_that_the_card_lacks(card: str, call: Callable[[], None], way: str) -> None:
    assert way in str(stage_for(card).refuses(call, UnsupportedError, "api"))


@pytest.mark.parametrize("card", CARDS)
def test_forms_that_cards_lack(card: str) -> None:
    stage = stage_for(card)
    error = stage.refuses(load(stage, asc.LoadData3DParamsV1()), UnsupportedError, "params")
    assert "LoadData3DParamsV2" in str(error)
    if card == "atlas_350":
        return
    for call in (load(stage, asc.Load3DBitModeParam(V2())), lambda: asc.load_data_with_stride(stage["dst"], stage["src"], V2())):
        assert "LoadData3DParamsV2" in str(stage.refuses(call, UnsupportedError, ("params", "api")).allowed)


@pytest.mark.parametrize("form", STRUCTS)
def test_packed_forms_have_no_default_config(form: str) -> None:
    stage = stage_for("atlas_350")
    stage.refuses(load(stage, STRUCTS[form](), NEITHER), ParameterError, "default_config")
    stage.refuses(load(stage, asc.LoadData2DParams(), NEITHER), ParameterError, "default_config")


def test_registers_do_nothing_on_a_vector_core() -> None:
    stage = Stage("atlas_a2", {"dst": Place("VECIN", "half", 1024)})
    stage.call(lambda: asc.set_fmatrix(0, 0, ()), lambda: asc.set_load_data_boundary(5),
               lambda: asc.set_load_data_padding_value(1), lambda: asc.set_load_data_repeat(Time(999)))  # fmt: skip
    assert not stage.recorder.program


# ---- V2Pro and bit mode ---------------------------------------------------------------------------------------------
def test_words_of_the_bit_mode() -> None:
    fields = dict(
        k_extension=0x1234, m_extension=0x5678, k_start_pt=0x9ABC, m_start_pt=0xDEF0, stride_w=0x21, stride_h=0x3F,
        filter_w=0x81, filter_h=0x7E, dilation_filter_w=0xAA, dilation_filter_h=0x55, filter_size_w=1, filter_size_h=0,
        transpose=1, f_matrix_ctrl=0, channel_size=0xBEEF,
    )  # fmt: skip
    made = asc.Load3DBitModeParam(**fields)
    assert made.get_config0() == 0xDEF0_9ABC_5678_1234
    low = 0x21 | 0x3F << 6 | 0x81 << 12 | 0x7E << 20 | 0xAA << 28 | 0x55 << 36 | 1 << 44 | 1 << 46
    assert made.get_config1() == low | 0xBEEF << 48
    back = asc.Load3DBitModeParam()
    assert (back.get_config0(), back.get_config1()) == (0, 0)
    back.set_config0(made.get_config0())
    back.set_config1(made.get_config1())
    assert {name: getattr(back, f"get_{name}")() for name in fields} == fields and back == made
    for name, value in fields.items():
        setter: Any = asc.Load3DBitModeParam()
        getattr(setter, f"set_{name}")(value)
        assert {other: getattr(setter, f"get_{other}")() for other in fields} == {**dict.fromkeys(fields, 0), name: value}


def test_bit_mode_of_a_v2_struct() -> None:
    p = V2((1, 2, 3, 4), 5, 6, 32, 48, 64, 16, 32, 2, 3, 4, 5, 6, 7, True, 1, True, False, False)
    words = asc.Load3DBitModeParam(p).words
    pro = asc.LoadData3DParamsV2Pro(32, True, False, True, False, False, 32 << 48 | 16 << 32 | 64 << 16 | 48,
                                    7 << 40 | 6 << 32 | 5 << 24 | 4 << 16 | 3 << 8 | 2)  # fmt: skip
    plain = replace(p, pad_list=(0, 0, 0, 0), l1_h=0, l1_w=0, pad_value=0)
    assert pro.plain() == plain and asc.Load3DBitModeParam(plain).words == words


def test_a_value_too_wide_for_its_bits() -> None:
    with pytest.warns(UserWarning, match="stride_w = 64 does not fit its 6 bits and becomes 0"):
        outside = asc.Load3DBitModeParam(stride_w=64, stride_h=1)
    assert outside.get_stride_w() == 0 and outside.get_stride_h() == 1
    stage = stage_for("atlas_350")
    previous = enter(stage.recorder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asc.Load3DBitModeParam().set_m_extension(65536 + 5)
    finally:
        enter(previous)
    assert any("m_extension = 65541" in text and "becomes 5" in text for text in stage.warnings)
    with pytest.raises(TypeError, match="l1_h"):
        asc.Load3DBitModeParam(l1_h=3)


@pytest.mark.parametrize("field", ["k_extension", "m_extension", "filter_w", "filter_h", "channel_size", "stride_w"])
def test_bit_mode_has_no_sizes_of_0(field: str) -> None:
    stage = stage_for("atlas_350")
    good = V2(channel_size=16, k_extension=16, m_extension=16)
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0)), lambda: asc.set_load_data_padding_value(0),
               lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(dst_stride=1)))  # fmt: skip
    stage.call(load(stage, asc.Load3DBitModeParam(good)))
    stage.refuses(load(stage, asc.Load3DBitModeParam(replace(good, **{field: 0}))), ParameterError, field)


def test_a_changed_bit_mode_struct_is_another_call() -> None:
    stage = stage_for("atlas_350")
    packed = asc.Load3DBitModeParam(V2(channel_size=32, k_extension=16, m_extension=16))
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0)),
               lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(dst_stride=1)))  # fmt: skip
    stage.call(load(stage, packed))
    packed.set_k_start_pt(16)
    stage.call(load(stage, packed))
    np.testing.assert_array_equal(stage.words("dst")[:256], stage.words("src")[256:512])


def test_pro_on_950_needs_a_pitch_and_warns_of_small_k() -> None:
    stage = stage_for("atlas_350")
    pro = asc.LoadData3DParamsV2Pro(16, en_small_k=True, ext_config=16 << 16 | 16)
    stage.refuses(load(stage, pro), ParameterError, "dst_stride")
    stage.call(lambda: asc.set_fmatrix(1, 16, (0, 0, 0, 0)), load(stage, padded()), load(stage, pro))
    assert any("en_small_k" in text for text in stage.warnings)
    stage.refuses(load(stage, replace(pro, ext_config=1 << 64)), ParameterError, "ext_config")


# ---- fields cut to their width --------------------------------------------------------------------------------------
def test_wrapped_fields() -> None:
    stage = stage_for("atlas_a2", wrap="hardware")
    p = V2((257, 0, 0, 0), 1, 65536 + 15, 16, 65536 + 16, 16, stride_w=64 + 1, dilation_filter_w=257)
    stage.call(load(stage, p))
    np.testing.assert_array_equal(row(stage, 1), stage.words("src")[:16])
    assert (row(stage, 0) == 0).all()
    for text in ("l1_w = 65551", "k_extension = 65552", "stride_w = 65", "dilation_filter_w = 257", "pad_list has 257"):
        assert any(text in found for found in stage.warnings), text
    stage.call(load(stage, V2(channel_size=16, k_extension=16, m_extension=16), NEITHER))
    np.testing.assert_array_equal(row(stage, 1), stage.words("src")[:16])
    stage.refuses(load(stage, replace(p, stride_w=64)), ParameterError, "stride_w")


def test_wrapped_registers() -> None:
    stage = stage_for("atlas_a2", wrap="hardware")
    stage.call(lambda: asc.set_fmatrix(65537, 65536 + 16, (256, 0, 0, 0)),
               lambda: asc.set_load_data_repeat(Time(257, 65536, 2)),
               load(stage, V2(channel_size=16, k_extension=16, m_extension=16), ONLY_PADDING))  # fmt: skip
    np.testing.assert_array_equal(stage.words("dst")[:256], stage.words("src")[:256])


def test_a_refused_call_leaves_the_registers_alone() -> None:
    stage = stage_for("atlas_350")
    stage.call(load(stage, padded(1.0)))
    before = dict(stage.recorder.state)
    wrong: list[tuple[Any, type[AiCoreError]]] = [(replace(padded(3.0), stride_w=0), ParameterError),
                                                 (replace(padded(3.0), f_matrix_ctrl=True), ParameterError)]  # fmt: skip
    for params, error in wrong:
        stage.refuses(load(stage, params), error)
    assert stage.recorder.state == before
