"""What the runner makes of a case file: numbers, cores, and the three outcomes that a case may expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cases.runner import Case, check_case
from tests.stage import noise

CARD = "atlas_350"
INIT = np.full(64, 0xA5, np.uint8)


def copy(fn: str, struct: str, src: str = "source", dst: str = "destination", **fields: Any) -> dict[str, Any]:
    return {"fn": fn, "src_buffer": src, "dst_buffer": dst, "src_offset": 0, "dst_offset": 0, "kwargs": {},
            "args": [{"struct": struct, "fields": fields}] if struct else []}  # fmt: skip


def case(calls: list[Any], expected: Any, expect: str = "equal", dtype: str = "half", **what: Any) -> Case:
    """64 bytes of noise in GM, 64 bytes of UB; `expected` is what its first bytes become."""
    bits = np.uint16 if dtype == "half" else np.uint8
    dst = INIT.copy()
    dst[: len(expected)] = np.frombuffer(bytes(expected), np.uint8)
    data = {"src": noise(64).view(bits), "dst_init": INIT.view(bits), "dst": dst.view(bits)}
    base = {"dtype": dtype, "source": {"position": "GM"}, "destination": {"position": "VECIN"}, "calls": calls}
    return Case("made", {**base, "expect": expect, **what}, {**data, "mask": np.ones(dst.size // data["dst"].itemsize, np.bool_)})


BLOCK = copy("data_copy", "DataCopyParams", block_count=1, block_len=1, src_stride=0, dst_stride=0)
WIDE = copy("data_copy", "DataCopyParams", block_count=4097, block_len=1, src_stride=0, dst_stride=0)
COUNT = {**copy("data_copy", ""), "kwargs": {"count": 17}}
FIRST = noise(64)[:32]


@pytest.mark.parametrize(("dtype", "value", "element"), [("half", 1, b"\x00\x3c"), ("half", -1.5, b"\x00\xbe"),
                                                         ("int8", -2, b"\xfe")])  # fmt: skip
def test_the_older_padding_value_is_a_number_of_the_type(dtype: str, value: float, element: bytes) -> None:
    block = copy("data_copy_pad", "DataCopyParams", block_count=1, block_len=32, src_stride=0, dst_stride=0)
    pad = {"is_pad": True, "left_padding": 0, "right_padding": 32 // len(element), "padding_value": value}
    block["args"].append({"struct": "DataCopyPadParams", "fields": pad})
    check_case(case([block], bytes(FIRST) + element * (32 // len(element)), dtype=dtype), CARD)


@pytest.mark.parametrize("ends", [("GM", "UB", "L1"), ("L1", "UB", "GM"), ("UB", "L1", "UB"), ("GM", "L1", "UB")])
def test_a_chain_goes_over_the_cores_that_perform_it(ends: tuple[str, str, str]) -> None:
    positions = [{"UB": "VECIN", "L1": "A1"}.get(end, end) for end in ends]
    there = {**BLOCK, "dst_buffer": "middle"}
    back = {**BLOCK, "src_buffer": "middle"}
    chain = case([there, back], FIRST, source={"position": positions[0]}, destination={"position": positions[2]},
                 middle={"position": positions[1], "words": 32, "fill": 0})  # fmt: skip
    check_case(chain, CARD)


def test_settings_reach_every_core_of_a_chain() -> None:
    loop = {"loop1_size": 2, "loop2_size": 1, "loop1_src_stride": 0, "loop1_dst_stride": 32, "loop2_src_stride": 0,
            "loop2_dst_stride": 0}  # fmt: skip
    setting = {"fn": "set_loop_mode_para", "args": [{"struct": "LoopModeParams", "fields": loop}],
               "kwargs": {"type": "DataCopyMVType.OUT_TO_UB"}}  # fmt: skip
    check_case(case([setting, BLOCK], [*FIRST, *FIRST]), CARD)
    to_l1 = case([setting, {**BLOCK, "dst_buffer": "middle"}, {**BLOCK, "src_buffer": "middle"}], FIRST,
                 destination={"position": "A1"}, middle={"position": "VECIN", "words": 32, "fill": 0})  # fmt: skip
    check_case(to_l1, CARD)


def test_equal_and_report_wants_a_warning_and_no_refusal() -> None:
    check_case(case([COUNT], FIRST, "equal_and_report"), CARD)
    with pytest.raises(AssertionError, match="not reported"):
        check_case(case([BLOCK], FIRST, "equal_and_report"), CARD)
    with pytest.raises(AssertionError, match="refused"):
        check_case(case([WIDE], FIRST, "equal_and_report"), CARD)
    with pytest.raises(AssertionError, match="not equal"):
        check_case(case([COUNT], FIRST[:31], "equal_and_report"), CARD)


def test_refuse_or_wrap_wants_both() -> None:
    check_case(case([WIDE], FIRST, "refuse_or_wrap"), CARD)
    for wrong, why in ((case([BLOCK], FIRST, "refuse_or_wrap"), "not refused"),
                       (case([WIDE], [], "refuse_or_wrap"), "not equal")):  # fmt: skip
        with pytest.raises(AssertionError, match=why):
            check_case(wrong, CARD)


def test_what_cannot_be_cut_is_refused_in_both_modes() -> None:
    unaligned = {**BLOCK, "dst_offset": 1}
    check_case(case([unaligned], [], "refuse_or_wrap"), CARD)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_behind_a_declared_tensor_lies_its_buffer(side: str) -> None:
    position = {"source": "GM", "destination": "VECIN"}[side]
    for expect in ("refuse_or_wrap", "equal_and_report"):
        check_case(case([BLOCK], FIRST, expect, **{side: {"position": position, "declared_words": 12}}), CARD)


def test_behind_gm_lies_something() -> None:
    """A read past the end of the source is reported; what it finds is left out by the mask."""
    two = copy("data_copy", "DataCopyParams", block_count=2, block_len=1, src_stride=1, dst_stride=0)
    past = case([two], FIRST, "equal_and_report")
    past.data["mask"][16:] = False  # type: ignore[index]
    check_case(past, CARD)
