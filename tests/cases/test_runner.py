"""The runner itself: forms that the repository's own case files do not have, and verdicts on wrong expectations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aicore_sim.errors import ParameterError
from tests.cases.runner import Case, _too_wide, check_case

Words = NDArray[np.uint16]
FRACTALS = np.repeat(np.arange(20, dtype=np.uint16), 256)


def bit_mode(fields: dict[str, int], words: tuple[int, int], dst: Words, expect: str, declared: int = 0) -> Case:
    """A case of one Load2DBitMode load of half from L1 to L0A; 20 source fractals hold their number."""
    given = dict(m_start_position=0, k_start_position=0, m_step=1, k_step=1, src_stride=1, dst_stride=1) | fields
    struct = {"struct": "Load2DBitModeParam", "fields": given | {"if_transpose": False},
              "words": {"config0": words[0], "config1": words[1]}}  # fmt: skip
    call = {"fn": "load_data", "src_buffer": "source", "dst_buffer": "destination", "src_offset": 0, "dst_offset": 0,
            "args": [struct], "kwargs": {}}  # fmt: skip
    return one_call(call, "half", ("A1", "A2"), (FRACTALS, dst), expect, declared)


def one_call(
    call: dict[str, Any], dtype: str, positions: tuple[str, str], data: tuple[NDArray[Any], NDArray[Any]], expect: str,
    declared: int = 0,
) -> Case:  # fmt: skip
    src, dst = data
    destination = {"position": positions[1], "layout": ""} | ({"declared_words": declared} if declared else {})
    what = {"dtype": dtype, "source": {"position": positions[0], "layout": ""}, "destination": destination,
            "calls": [call], "expect": expect}  # fmt: skip
    old = np.full_like(dst, int("A5" * dst.itemsize, 16))
    return Case("X", what, {"src": src, "dst_init": old, "dst": dst, "mask": np.ones(dst.shape, np.bool_)})


def fractals(*numbers: int) -> Words:
    """Four destination fractals: source fractals by number, -1 for one that keeps its content."""
    return np.repeat(np.array([0xA5A5 if n < 0 else n for n in numbers], np.uint16), 256)


STEPS = 1 << 32 | 1 << 40
BACK = dict(k_start_position=3, k_step=3, src_stride=-4)
BACK_WORDS = (3 << 16 | 1 << 32 | 3 << 40, 65532 | 1 << 16)


def test_negative_stride_in_bit_mode_reads_back_as_its_bits() -> None:
    check_case(bit_mode(BACK, BACK_WORDS, fractals(12, 8, 4, -1), "equal"), "atlas_350")


@pytest.mark.parametrize("expect", ["equal_and_report", "refuse_or_wrap"])
@pytest.mark.parametrize(("fields", "words", "dst"), [
    ({"m_step": 257}, (STEPS, 1 | 1 << 16), (0, -1, -1, -1)),
    ({"k_step": 256}, (1 << 32, 1 | 1 << 16), (-1, -1, -1, -1)),
    ({"k_start_position": 65538}, (STEPS | 2 << 16, 1 | 1 << 16), (2, -1, -1, -1)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Load2DBitModeParam")
def test_bits_lost_in_bit_mode(fields: dict[str, int], words: tuple[int, int], dst: tuple[int, ...], expect: str) -> None:
    check_case(bit_mode(fields, words, fractals(*dst), expect), "atlas_350")


@pytest.mark.parametrize("expect", ["equal_and_report", "refuse_or_wrap"])
def test_overrun_of_a_declared_destination(expect: str) -> None:
    case = bit_mode({"m_step": 3, "dst_stride": 3}, (3 << 32 | 1 << 40, 1 | 3 << 16), fractals(0, 1, 2, -1), expect, 512)
    check_case(case, "atlas_350")


@pytest.mark.parametrize(("fields", "words", "dst", "expect"), [
    (BACK, (BACK_WORDS[0], 65533 | 1 << 16), (12, 8, 4, -1), "equal"),  # words of another stride
    (BACK, BACK_WORDS, (12, 8, 5, -1), "equal"),
    (BACK, BACK_WORDS, (12, 8, 4, -1), "refuse_or_wrap"),
    ({"m_step": 2}, (2 << 32 | 1 << 40, 1 | 1 << 16), (0, 1, -1, -1), "equal_and_report"),  # nothing to report
])  # fmt: skip
def test_wrong_expectations_fail(fields: dict[str, int], words: tuple[int, int], dst: tuple[int, ...], expect: str) -> None:
    with pytest.raises(AssertionError):
        check_case(bit_mode(fields, words, fractals(*dst), expect), "atlas_350")


def fixpipe(n_size: int, dst: NDArray[np.uint32], expect: str) -> Case:
    fields = {
        "pre_relu_mode": "ReluMode.NO_RELU", "pre_clip_relu_mode": "ClipReluMode.NOCLIP_RELU", "relu_scalar": 0,
        "vector_relu": 0, "n_size": n_size, "m_size": 16, "src_stride": 16, "dst_stride": 16,
        "quant_pre": "QuantModes.NoQuant", "deq_scalar": 0, "relu_en": False, "unit_flag": 0, "dual_dst_ctl": 0,
        "sub_block_id": True, "is_channel_split": False,
        "params": {"struct": "Nz2NdParams", "fields": {"nd_num": 1, "src_nd_stride": 0, "dst_nd_stride": 0}},
    }  # fmt: skip
    config = {"struct": "FixpipeConfig", "fields": {"layout": "CO2Layout.ROW_MAJOR", "is_to_ub": True}}
    call = {"fn": "fixpipe", "src_buffer": "source", "dst_buffer": "destination", "src_offset": 0, "dst_offset": 0,
            "args": [{"struct": "FixpipeParamsArch3510", "fields": fields}], "kwargs": {"config": config}}  # fmt: skip
    return one_call(call, "float", ("CO1", "VECIN"), (np.arange(256, dtype=np.uint32), dst), expect)


def test_fixpipe_to_the_second_vector_core() -> None:
    """Enumerators by name, a struct inside a struct, and a width that hardware cuts: 4096 + 16 in 12 bits."""
    check_case(fixpipe(16, np.arange(256, dtype=np.uint32), "equal"), "atlas_350")
    check_case(fixpipe(4112, np.arange(256, dtype=np.uint32), "refuse_or_wrap"), "atlas_350")
    with pytest.raises(AssertionError):
        check_case(fixpipe(4112, np.arange(1, 257, dtype=np.uint32), "refuse_or_wrap"), "atlas_350")


def test_only_values_above_a_range_must_be_cut() -> None:
    def error(value: object, allowed: str) -> ParameterError:
        return ParameterError("", field="x", value=value, allowed=allowed)

    assert _too_wide(error(256, "0..255")) and _too_wide(error(9, "-8..7"))
    assert not _too_wide(error(0, "1..63")) and not _too_wide(error(3, "multiples of 2")) and not _too_wide(error("a", "0..1"))
