"""Settings of image preprocessing: kept, checked, without effect on other copies (spec pyasc.md 8)."""

from __future__ import annotations

from typing import Any

import pytest

from aicore_sim.dtypes import float16, int8, uint8
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.kernel import api_aipp as aipp
from aicore_sim.kernel.absent import load_image_to_local
from tests.stage import CARDS, Place, Stage, noise

RGB = aipp.AippInputFormat.RGB888_U8


@pytest.fixture(params=CARDS)
def stage(request: Any) -> Stage:
    places = {"x": Place("GM", "uint8", noise(256)), "uv": Place("GM", "uint8", noise(64)), "l1": Place("A1", "uint8", 256)}
    return Stage(request.param, places)


def test_the_settings_are_kept_and_nothing_is_recorded(stage: Stage) -> None:
    config = aipp.AippParams(int8, swap_params=aipp.AippSwapParams(is_swap_rb=True))
    stage.call(lambda: aipp.set_aipp_functions(stage["x"], RGB, config))
    kept = stage.recorder.state["aipp"]
    assert (kept.sources, kept.input_format) == ((stage["x"],), RGB)
    assert kept.config.swap_params.is_swap_rb and kept.config.dtc_params.dtc_var_ch0 == 1.0
    assert kept.config.padding_params == aipp.AippPaddingParams(0, 0, 0, 0, 0)
    assert stage.ops == []
    yuv = aipp.AippInputFormat.YUV420SP_U8
    stage.call(lambda: aipp.set_aipp_functions(src0=stage["x"], src1=stage["uv"], input_format=yuv, config=config))
    assert stage.recorder.state["aipp"].sources == (stage["x"], stage["uv"])


def test_the_copy_that_reads_them_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="LoadImageToLocal"):
        load_image_to_local(1, 2)


def test_wrong_calls(stage: Stage) -> None:
    config = aipp.AippParams(float16)
    for arguments, error, field in [
        ((stage["x"], RGB), ParameterError, "arguments"), ((stage["x"], 2, config), ParameterError, "input_format"),
        ((stage["x"], RGB, None), ParameterError, "config"), ((stage["l1"], RGB, config), ParameterError, "src0"),
        ((stage["x"], aipp.AippInputFormat.YUV420SP_U8, config), ParameterError, "src1"),
        ((stage["x"][2], aipp.AippInputFormat.XRGB8888_U8, config), AlignmentError, "src0"),
        ((stage["x"], stage["uv"][1], aipp.AippInputFormat.YUV420SP_U8, config), AlignmentError, "src1"),
    ]:  # fmt: skip
        stage.refuses(lambda a=arguments: aipp.set_aipp_functions(*a), error, field)
    assert "aipp" not in stage.recorder.state


@pytest.mark.parametrize(("part", "value", "field"), [
    ("padding_params", aipp.AippPaddingParams(4), "padding_mode"),
    ("padding_params", aipp.AippPaddingParams(0, 0, 0, 0, 128), "padding_value_ch3"),
    ("swap_params", aipp.AippSwapParams("no"), "is_swap_rb"),  # type: ignore[arg-type]
    ("single_line_params", True, "single_line_params"),
    ("dtc_params", aipp.AippDataTypeConvParams(dtc_mean_ch1=256), "dtc_mean_ch1"),
    ("dtc_params", aipp.AippDataTypeConvParams(dtc_round_mode=2), "dtc_round_mode"),
    ("c_padding_params", aipp.AippChannelPaddingParams(2), "c_padding_mode"),
    ("c_padding_params", aipp.AippChannelPaddingParams(0, 0.5), "c_padding_value"),
    ("csc_params", aipp.AippColorSpaceConvParams(csc_matrix_r1_c2=32768), "csc_matrix_r1_c2"),
    ("csc_params", aipp.AippColorSpaceConvParams(csc_bias_out_2=-1), "csc_bias_out_2"),
])  # fmt: skip
def test_values_outside_their_fields(part: str, value: Any, field: str) -> None:
    with pytest.raises(ParameterError) as caught:
        aipp.AippParams(int8, **{part: value})
    assert caught.value.field == field


def test_the_type_of_the_result_is_int8_or_half() -> None:
    for dtype in (uint8, "text", None):
        with pytest.raises(TypeError, match=r"must be asc\.int8 or asc\.float16"):
            aipp.AippParams(dtype)  # type: ignore[arg-type]
