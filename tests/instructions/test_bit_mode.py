"""Load2DBitModeParam: words, fields, truncation, and the load they stand for (spec api_semantics.md 4)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.kernel.api_load import load_data
from aicore_sim.kernel.bit_mode_2d import Load2DBitModeParam
from tests.stage import CARDS, Place, Stage, noise

FIELDS = ("m_start_position", "k_start_position", "m_step", "k_step", "src_stride", "dst_stride")


def stage_of(card: str = "atlas_350", dtype: str = "half", src: str = "A1", dst: str = "A2", **modes: Any) -> Stage:
    return Stage(card, {"src": Place(src, dtype, noise(8192)), "dst": Place(dst, dtype, 8192)}, **modes)


@pytest.mark.filterwarnings("error")
def test_an_empty_one_is_all_zero() -> None:
    bits = Load2DBitModeParam()
    assert (bits.get_config0(), bits.get_config1(), bits.get_if_transpose()) == (0, 0, False)
    assert all(getattr(bits, f"get_{field}")() == 0 for field in FIELDS)


@pytest.mark.filterwarnings("error")
def test_packing() -> None:
    bits = Load2DBitModeParam(m_start_position=0x1234, k_start_position=0x5678, m_step=0x9A, k_step=0xBC,
                              src_stride=0x7EF0, dst_stride=0xDEAD, if_transpose=True)  # fmt: skip
    assert bits.get_config0() == 0x0000BC9A56781234
    assert bits.get_config1() == 0xDEAD7EF0
    assert bits.get_if_transpose() is True


@pytest.mark.filterwarnings("error")
def test_from_the_struct_without_its_sid() -> None:
    params = LoadData2DParamsV2(1, 2, 3, 4, 5, 6, True, sid=7)
    bits = Load2DBitModeParam(params)
    assert [getattr(bits, f"get_{field}")() for field in FIELDS] == [1, 2, 3, 4, 5, 6]
    assert bits.decoded() == LoadData2DParamsV2(1, 2, 3, 4, 5, 6, True)


@pytest.mark.filterwarnings("error")
def test_fields_out_of_words_and_setters_one_by_one() -> None:
    bits = Load2DBitModeParam()
    bits.set_config0(0xBC9A56781234)
    bits.config1 = 0xDEAD7EF0
    assert [getattr(bits, f"get_{field}")() for field in FIELDS] == [0x1234, 0x5678, 0x9A, 0xBC, 0x7EF0, 0xDEAD]
    for i, field in enumerate(FIELDS):
        getattr(bits, f"set_{field}")(i + 1)
    assert (bits.config0, bits.get_config1()) == (0x040300020001, 0x00060005)
    bits.if_transpose = True
    assert bits.words() == (0x040300020001, 0x00060005, True)


@pytest.mark.parametrize(("field", "value", "kept"), [
    ("m_step", 256, 0), ("k_step", 300, 44), ("k_start_position", 65536, 0), ("m_start_position", 65537, 1),
    ("dst_stride", 65536 + 5, 5), ("src_stride", 65536 + 9, 9), ("m_step", -1, 255), ("src_stride", -65537, 65535),
])  # fmt: skip
def test_truncation_is_reported(field: str, value: int, kept: int) -> None:
    with pytest.warns(UserWarning, match=rf"{field} = {value} .* becomes {kept}$"):
        bits = Load2DBitModeParam(**{field: value})
    assert getattr(bits, f"get_{field}")() == kept
    with pytest.warns(UserWarning, match=field):
        getattr(bits, f"set_{field}")(value)
    with pytest.warns(UserWarning, match=field):
        Load2DBitModeParam(LoadData2DParamsV2(**{field: value}))


def test_src_stride_is_unsigned_to_read_and_signed_to_the_instruction() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bits = Load2DBitModeParam(src_stride=-3)
    assert bits.get_src_stride() == 65533 and bits.decoded().src_stride == -3
    with pytest.warns(UserWarning, match="src_stride = 65533 is -3"):
        bits.set_src_stride(65533)


def test_unused_bits_stay_in_the_word() -> None:
    bits = Load2DBitModeParam()
    with pytest.warns(UserWarning, match="config1: bits 32 to 63"):
        bits.set_config1(1 << 40 | 7)
    assert bits.get_config1() == 1 << 40 | 7 and bits.get_src_stride() == 7
    bits.set_src_stride(2)
    assert bits.get_config1() == 1 << 40 | 2
    with pytest.warns(UserWarning, match="64 bits"):
        bits.set_config0(1 << 64)
    assert bits.get_config0() == 0


@pytest.mark.parametrize("bad", [1.5, "1", True, None])
def test_values_that_are_no_ints(bad: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        Load2DBitModeParam().set_k_step(bad)
    assert caught.value.field == "k_step"
    with pytest.raises(ParameterError):
        Load2DBitModeParam().set_config0(bad)


def test_struct_or_fields_not_both() -> None:
    with pytest.raises(ParameterError):
        Load2DBitModeParam(LoadData2DParamsV2(), m_step=1)
    with pytest.raises(ParameterError):
        Load2DBitModeParam(5)  # type: ignore[arg-type]


# ---- the load -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transpose", [False, True])
def test_example_of_the_page(transpose: bool) -> None:
    """32 x 32 half: an identity, or each fractal transposed and F(i, j) = i + 2 j to 2 i + j (spec 14.2)."""
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(2048)), "dst": Place("A2", "half", 2048)})
    bits = Load2DBitModeParam(m_step=2, k_step=2, src_stride=2, dst_stride=2, if_transpose=transpose)
    stage.call(lambda: load_data(stage["dst"], stage["src"], bits))
    src, dst = (stage.words(name).reshape(4, 16, 16) for name in ("src", "dst"))
    for i in range(2):
        for j in range(2):
            expected = src[i + 2 * j].T if transpose else src[i + 2 * j]
            np.testing.assert_array_equal(dst[2 * i + j if transpose else i + 2 * j], expected)
    assert stage.warnings == []
    assert stage.ops[0].cost == OnChip("L1-L0A", "LoadData2DV2", 2048)


def test_a_call_takes_the_words_as_they_are() -> None:
    """The struct is changed between the calls: each has its own words."""
    stage = stage_of()
    bits = Load2DBitModeParam(m_step=1, k_step=1, src_stride=1, dst_stride=1)

    def body() -> None:
        for i in range(3):
            bits.set_m_start_position(2 * i)
            load_data(stage["dst"][256 * i :], stage["src"], bits)

    stage.call(body)
    src, dst = stage.words("src").reshape(-1, 256), stage.words("dst").reshape(-1, 256)
    np.testing.assert_array_equal(dst[:3], src[:6:2])


def test_truncation_reaches_the_run() -> None:
    stage = stage_of()
    inside: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stage.call(lambda: inside.append(Load2DBitModeParam(m_step=257, k_step=1, dst_stride=1)))
    assert [text for text in stage.warnings if "m_step = 257" in text]
    stage.call(lambda: load_data(stage["dst"], stage["src"], inside[0]))
    assert len(stage.warnings) == 1, "told once, where it was set"
    with pytest.warns(UserWarning):
        outside = Load2DBitModeParam(m_step=513, k_step=1, dst_stride=1)
    stage.call(lambda: load_data(stage["dst"], stage["src"], outside))
    assert any("m_step = 513" in text for text in stage.warnings)


def test_a_good_value_takes_the_warning_back() -> None:
    stage = stage_of()
    with pytest.warns(UserWarning):
        bits = Load2DBitModeParam(m_step=256, k_step=1, dst_stride=1)
    bits.set_m_step(1)
    stage.call(lambda: load_data(stage["dst"], stage["src"], bits))
    assert stage.warnings == []


def test_steps_cut_to_nothing_move_nothing() -> None:
    stage = stage_of()
    with pytest.warns(UserWarning):
        bits = Load2DBitModeParam(m_step=256, k_step=1)
    stage.call(lambda: load_data(stage["dst"], stage["src"], bits))
    assert stage.ops == [] and any("moves nothing" in text for text in stage.warnings)


@pytest.mark.parametrize("card", [card for card in CARDS if card != "atlas_350"])
def test_950_only(card: str) -> None:
    stage = stage_of(card)
    bits = Load2DBitModeParam(m_step=1, k_step=1)
    error = stage.refuses(lambda: load_data(stage["dst"], stage["src"], bits), UnsupportedError, "params")
    assert "Load2DBitModeParam" in error.message
    assert error.allowed == "LoadData2DParams, LoadData3DParamsV2"


def test_from_gm_there_is_none() -> None:
    """The page's description lists GM paths, its table of types and the header do not."""
    stage = stage_of(src="GM", dst="A1")
    bits = Load2DBitModeParam(m_step=1, k_step=1)
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], bits), UnsupportedError, "path")


def test_debug_check_of_b1() -> None:
    bits = Load2DBitModeParam(m_step=1, k_step=1, dst_stride=1)
    stage = stage_of(src="B1", dst="B2", quirks="bit-mode-b1")
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], bits), UnsupportedError, "src")
    for source, modes in (("B1", {}), ("A1", {"quirks": "bit-mode-b1"})):
        other = stage_of(src=source, dst="B2", **modes)
        other.call(lambda s=other: load_data(s["dst"], s["src"], bits))
        assert len(other.ops) == 1


def test_squares_of_a_transposition() -> None:
    stage = stage_of(dtype="int8")
    bits = Load2DBitModeParam(m_step=3, k_step=1, dst_stride=2, if_transpose=True)
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], bits), ParameterError, "m_step")


def test_lost_bits_are_an_error_where_a_run_is_strict() -> None:
    with pytest.warns(UserWarning, match="becomes 1"):
        bits = Load2DBitModeParam(m_step=257, k_step=1, dst_stride=1)
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(4096)), "dst": Place("A2", "half", 4096)}, strict=True)
    error = stage.refuses(lambda: load_data(stage["dst"], stage["src"], bits), ParameterError, "m_step")
    assert (error.value, error.allowed) == (257, "0..255")
    bits.set_m_step(1)
    stage.call(lambda: load_data(stage["dst"], stage["src"], bits))
    with pytest.warns(UserWarning, match="becomes 0"):
        bits.set_k_step(256)
    bits.set_config0(1 << 32 | 1 << 40)
    stage.call(lambda: load_data(stage["dst"], stage["src"], bits))
    assert len(stage.ops) == 2
