"""Masked Copy, Brcb, Transpose and TransDataTo5HD against references that go element by element (pages of the APIs)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.errors import AiCoreError, AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.kernel.api_transpose import (
    TransDataTo5HDParams,
    TransposeParamsExt,
    trans_data_to_5hd,
    transpose,
)
from aicore_sim.kernel.api_vector_copy import BrcbRepeatParams, CopyRepeatParams, brcb, copy
from aicore_sim.kernel.enums import TransposeType
from aicore_sim.kernel.system import set_mask_count
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

Bytes = NDArray[np.uint8]
ROOM = 24576
B16 = ["int16", "uint16", "half", "bfloat16"]
B32 = ["int32", "uint32", "float"]


def ub(dtype: str, content: Any, **more: Any) -> Place:
    return Place("VECCALC", dtype, content, **more)


def size_of(dtype: str) -> int:
    return {"int8": 1, "uint8": 1, "int64": 8, "uint64": 8}.get(dtype, 2 if dtype in B16 else 4)


def check(stage: Stage, name: str, expected: Bytes, written: NDArray[np.bool_]) -> None:
    """Bytes as expected where written, the sentinel elsewhere; exactly the written ones are defined."""
    assert np.array_equal(stage.bytes(name), np.where(written, expected, SENTINEL))
    assert np.array_equal(stage.defined(name), written)


# ---- Copy -----------------------------------------------------------------------------------------------------------
@st.composite
def copies(draw: st.DrawFn) -> tuple[str, str, Any, int, CopyRepeatParams, bool]:
    dtype = draw(st.sampled_from(B16 + B32))
    per_repeat = 256 // size_of(dtype)
    counter = draw(st.booleans())
    mask: Any
    if counter:
        mask = draw(st.integers(1, 2 * per_repeat))
    elif draw(st.booleans()):
        mask = draw(st.integers(1, per_repeat))
    else:
        word = draw(st.integers(1, (1 << per_repeat) - 1))
        mask = [word & (1 << 64) - 1, word >> 64]
    params = CopyRepeatParams(draw(st.integers(1, 4)), draw(st.integers(0, 4)), draw(st.integers(0, 20)), draw(st.integers(0, 20)))
    return draw(st.sampled_from(CARDS)), dtype, mask, draw(st.integers(1, 12)), params, counter


def copy_reference(source: Bytes, size: int, mask: Any, repeats: int, p: CopyRepeatParams) -> tuple[Bytes, NDArray[np.bool_]]:
    """Element e of repeat r lies in block e // (32 / size): r * repeat + block * stride, both in 32 B (Copy page)."""
    chosen = [e for e in range(mask)] if isinstance(mask, int) else [e for e in range(128) if mask[e // 64] >> e % 64 & 1]
    out, written = np.zeros(ROOM, np.uint8), np.zeros(ROOM, np.bool_)
    for r in range(repeats):
        for e in chosen:
            block, inside = e * size // 32, e * size % 32
            to = (r * p.dst_repeat_size + block * p.dst_stride) * 32 + inside
            at = (r * p.src_repeat_size + block * p.src_stride) * 32 + inside
            out[to : to + size] = source[at : at + size]
            written[to : to + size] = True
    return out, written


@PROPERTY
@given(copies(), st.integers(0, 99))
def test_copy_is_the_masked_elements_of_every_repeat(case: Any, seed: int) -> None:
    card, dtype, mask, repeats, params, counter = case
    source = noise(ROOM, seed)
    expected, written = copy_reference(source, size_of(dtype), mask, repeats, params)
    stage = Stage(card, {"src": ub(dtype, source), "dst": ub(dtype, ROOM)}, core="core" if card == "atlas_200i" else "aiv")
    if counter:
        stage.call(set_mask_count)
    stage.call(lambda: copy(stage["dst"], stage["src"], mask, repeats, params))
    check(stage, "dst", expected, written)
    assert np.array_equal(stage.bytes("src"), source)
    low = mask if counter else (1 << mask) - 1 if isinstance(mask, int) else mask[0] | mask[1] << 64
    assert stage.recorder.state["vector_mask"] == (low >> 64, low & (1 << 64) - 1)


@PROPERTY
@given(copies(), st.sampled_from(["mask", "repeat_time", "dst_stride", "src_stride", "dst_repeat_size", "src_repeat_size"]),
       st.sampled_from([-1, 1 << 16, 1 << 70]))  # fmt: skip
def test_copy_refuses_values_outside_their_fields(case: Any, field: str, wrong: int) -> None:
    card, dtype, mask, repeats, params, _ = case
    assume(field != "mask" or wrong != 1 << 16)  # a mask above the elements of a repeat means all of them
    stage = Stage(card, {"src": ub(dtype, ROOM), "dst": ub(dtype, ROOM)})
    arguments = {"mask": mask, "repeat_time": repeats, **vars(params)} | {field: wrong}
    strides = CopyRepeatParams(*(arguments[name] for name in ("dst_stride", "src_stride", "dst_repeat_size", "src_repeat_size")))
    stage.refuses(lambda: copy(stage["dst"], stage["src"], arguments["mask"], arguments["repeat_time"], strides), ParameterError,
                  field)  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
def test_copy_with_dst_stride_0_leaves_undefined_blocks(card: str) -> None:
    stage = Stage(card, {"src": ub("half", noise(ROOM)), "dst": ub("half", noise(1024))})
    stage.call(lambda: copy(stage["dst"], stage["src"], 128, 2, CopyRepeatParams(0, 1, 8, 8)))
    lost = np.zeros(1024, np.bool_)
    lost[0:32] = lost[256:288] = True
    assert np.array_equal(stage.defined("dst"), ~lost)
    assert any("undefined" in text for text in stage.warnings)
    # Within one block the stride is of no account.
    stage.call(lambda: copy(stage["dst"], stage["src"], 16, 2, CopyRepeatParams(0, 1, 8, 8)))
    assert stage.defined("dst").all()


@pytest.mark.parametrize("card", CARDS)
def test_copy_of_types_that_are_not_there(card: str) -> None:
    for dtype in ("int8", "uint8", "int64", "uint64"):
        stage = Stage(card, {"src": ub(dtype, 1024), "dst": ub(dtype, 1024)})
        stage.refuses(lambda: copy(stage["dst"], stage["src"], 8, 1, CopyRepeatParams(1, 1, 8, 8)), UnsupportedError, "dtype")  # noqa: B023
    stage = Stage(card, {"src": ub("half", 1024), "dst": ub("int16", 1024)})
    stage.refuses(lambda: copy(stage["dst"], stage["src"], 8, 1, CopyRepeatParams()), ParameterError, "dtype")
    stage = Stage(card, {"src": ub("half", 1024), "dst": Place("GM", "half", 1024)}, core="core" if "200i" in card else "aiv")
    stage.refuses(lambda: copy(stage["dst"], stage["src"], 8, 1, CopyRepeatParams()), UnsupportedError, "position")


@PROPERTY
@given(st.sampled_from(["int8", "half", "float", "uint64", "fp8_e5m2", "hifloat8"]), st.integers(1, 700), st.integers(0, 9))
def test_copy_of_a_count_on_350(dtype: str, count: int, seed: int) -> None:
    source = noise(8192, seed)
    stage = Stage("atlas_350", {"src": ub(dtype, source), "dst": ub(dtype, 8192)})
    stage.call(lambda: copy(stage["dst"], stage["src"], count))
    nbytes = count * {"half": 2, "float": 4, "uint64": 8}.get(dtype, 1)
    check(stage, "dst", source, np.arange(8192) < nbytes)
    other = Stage("atlas_a2", {"src": ub("half", source), "dst": ub("half", 8192)})
    other.refuses(lambda: copy(other["dst"], other["src"], count), UnsupportedError)


# ---- Brcb -----------------------------------------------------------------------------------------------------------
@PROPERTY
@given(st.sampled_from(["atlas_a2", "atlas_a3", "atlas_350"]), st.sampled_from(B16 + B32), st.integers(1, 10),
       st.integers(1, 5), st.integers(0, 60), st.integers(0, 9))  # fmt: skip
def test_brcb_fills_a_block_with_each_element(card: str, dtype: str, repeats: int, block: int, repeat: int, seed: int) -> None:
    assume(repeat % block or repeat >= 8 * block or repeat == 0)  # repeats that overlap in part are left to the next test
    assume(repeat == 0 or repeat >= 7 * block + 1)
    source, size = noise(1024, seed), size_of(dtype)
    out, written = np.zeros(ROOM, np.uint8), np.zeros(ROOM, np.bool_)
    for i in range(repeats):
        for j in range(8):
            to = 32 * (i * repeat + j * block)
            element = source[(8 * i + j) * size : (8 * i + j + 1) * size]
            for k in range(32 // size):
                out[to + k * size : to + (k + 1) * size] = element
            written[to : to + 32] = True
    stage = Stage(card, {"src": ub(dtype, source), "dst": ub(dtype, ROOM)})
    stage.call(lambda: brcb(stage["dst"], stage["src"], repeats, BrcbRepeatParams(block, repeat)))
    check(stage, "dst", out, written)


@pytest.mark.parametrize(("field", "arguments"), [
    ("repeat_times", (256, BrcbRepeatParams())), ("repeat_times", (-1, BrcbRepeatParams())),
    ("dst_blk_stride", (1, BrcbRepeatParams(0, 8))), ("dst_rep_stride", (1, BrcbRepeatParams(1, 65536))),
    ("repeat_params", (1, (1, 8))),
])  # fmt: skip
def test_brcb_refuses(field: str, arguments: Any) -> None:
    stage = Stage("atlas_a2", {"src": ub("half", 1024), "dst": ub("half", 4096)})
    stage.refuses(lambda: brcb(stage["dst"], stage["src"], *arguments), ParameterError, field)


def test_brcb_is_not_on_200i_and_not_for_8_bits_on_a2() -> None:
    for card, dtype in (("atlas_200i", "half"), ("atlas_a2", "int8")):
        stage = Stage(card, {"src": ub(dtype, 1024), "dst": ub(dtype, 4096)})
        stage.refuses(lambda: brcb(stage["dst"], stage["src"], 1, BrcbRepeatParams()), UnsupportedError)  # noqa: B023


# ---- Transpose ------------------------------------------------------------------------------------------------------
@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(["int16", "uint16", "half"]), st.booleans(), st.integers(0, 99))
def test_transpose_of_a_square(card: str, dtype: str, in_place: bool, seed: int) -> None:
    source = noise(512, seed)
    stage = Stage(card, {"src": ub(dtype, source), "dst": ub(dtype, 1024)})
    target = "src" if in_place else "dst"
    stage.call(lambda: transpose(stage[target], stage["src"]))
    words, found = source.view(np.uint16), stage.words(target)
    for i in range(16):
        for j in range(16):
            assert found[16 * i + j] == words[16 * j + i]
    if not in_place:
        assert np.array_equal(stage.defined("dst"), np.arange(1024) < 512)


@st.composite
def images(draw: st.DrawFn) -> tuple[str, str, TransposeParamsExt]:
    card = draw(st.sampled_from(["atlas_a2", "atlas_a3", "atlas_350"]))
    types = ["int8", "uint8", "int16", "half", "uint32", "float"] + (["bfloat16", "fp8_e5m2"] if card == "atlas_350" else [])
    dtype = draw(st.sampled_from(types))
    per_block = 32 // {"half": 2, "int16": 2, "bfloat16": 2, "uint32": 4, "float": 4}.get(dtype, 1)
    h = draw(st.sampled_from([1, 2, 4]))
    kind = draw(st.sampled_from([TransposeType.TRANSPOSE_NCHW2NHWC, TransposeType.TRANSPOSE_NHWC2NCHW]))
    w = per_block * draw(st.integers(1, 2)) // (h if draw(st.booleans()) and per_block % h == 0 else 1)
    return card, dtype, TransposeParamsExt(draw(st.integers(1, 3)), draw(st.integers(1, 7)), h, w, kind)


@PROPERTY
@given(images(), st.integers(0, 99))
def test_transpose_of_images(case: Any, seed: int) -> None:
    card, dtype, p = case
    n, c, h, w = p.n_size, p.c_size, p.h_size, p.w_size
    size = {"half": 2, "int16": 2, "bfloat16": 2, "uint32": 4, "float": 4}.get(dtype, 1)
    source = noise(ROOM // 2, seed)
    out, written = np.zeros(ROOM // 2, np.uint8), np.zeros(ROOM // 2, np.bool_)
    for i in range(n):
        for j in range(c):
            for y in range(h):
                for x in range(w):
                    nchw, nhwc = ((i * c + j) * h + y) * w + x, ((i * h + y) * w + x) * c + j
                    to, at = (nhwc, nchw) if p.transpose_type == TransposeType.TRANSPOSE_NCHW2NHWC else (nchw, nhwc)
                    out[to * size : (to + 1) * size] = source[at * size : (at + 1) * size]
                    written[to * size : (to + 1) * size] = True
    stage = Stage(card, {"src": ub(dtype, source), "dst": ub(dtype, ROOM // 2), "tmp": ub("uint8", noise(32768))})
    stage.call(lambda: transpose(stage["dst"], stage["src"], stage["tmp"], p))
    check(stage, "dst", out, written)
    lines = c + 2 if p.transpose_type == TransposeType.TRANSPOSE_NCHW2NHWC else 2 * c + 1
    spoiled = lines * (32 if size == 1 else 16) * 32
    assert np.array_equal(stage.defined("tmp"), np.arange(32768) >= spoiled)


@pytest.mark.parametrize(("field", "error", "params"), [
    ("n_size", ParameterError, {"n_size": 65536}), ("c_size", ParameterError, {"c_size": 4096}),
    ("h_size", ParameterError, {"h_size": 3}), ("h_size", ParameterError, {"h_size": 512, "w_size": 16}),
    ("w_size", ParameterError, {"w_size": -1}), ("transpose_type", ParameterError, {"transpose_type": 3}),
    ("h_size", ParameterError, {"transpose_type": 10, "h_size": 8}),
])  # fmt: skip
def test_transpose_refuses(field: str, error: type[AiCoreError], params: Any) -> None:
    stage = Stage("atlas_a2", {"src": ub("uint16", 4096), "dst": ub("uint16", 4096), "tmp": ub("uint8", 16384)})
    given = TransposeParamsExt(**({"n_size": 1, "c_size": 4, "h_size": 4, "w_size": 4, "transpose_type": 11} | params))
    stage.refuses(lambda: transpose(stage["dst"], stage["src"], stage["tmp"], given), error, field)


@pytest.mark.parametrize(("card", "dtype", "kind"), [
    ("atlas_200i", "half", 11), ("atlas_a2", "half", 10), ("atlas_a2", "bfloat16", 11), ("atlas_a2", "float", None),
    ("atlas_350", "fp4x2_e2m1", 12),
])  # fmt: skip
def test_transpose_of_what_is_not_there(card: str, dtype: str, kind: int | None) -> None:
    stage = Stage(card, {"src": ub(dtype, 4096), "dst": ub(dtype, 4096), "tmp": ub("uint8", 16384)})
    more = () if kind is None else (stage["tmp"], TransposeParamsExt(1, 16, 16, 16, kind))
    stage.refuses(lambda: transpose(stage["dst"], stage["src"], *more), UnsupportedError)


def test_transpose_where_nothing_is_done() -> None:
    stage = Stage("atlas_a2", {"src": ub("half", noise(4096)), "dst": ub("half", 4096), "tmp": ub("uint8", 16384)})
    for params in (TransposeParamsExt(0, 4, 4, 4, 11), TransposeParamsExt(1, 4, 0, 4, 12), TransposeParamsExt(transpose_type=0)):
        stage.call(lambda p=params: transpose(stage["dst"], stage["src"], stage["tmp"], p))
    assert stage.ops == [] and not stage.defined("dst").any()


# ---- TransDataTo5HD -------------------------------------------------------------------------------------------------
FIVE = {"atlas_350": ["int8", "uint8", *B16, *B32]}


@st.composite
def conversions(draw: st.DrawFn) -> tuple[str, str, TransDataTo5HDParams, list[int], list[int]]:
    card = draw(st.sampled_from(CARDS))
    dtype = draw(st.sampled_from(FIVE.get(card, ["int8", "uint8", "int16", "half", "uint32", "float"])))
    repeats = draw(st.integers(1, 6))
    params = TransDataTo5HDParams(draw(st.booleans()), draw(st.booleans()), repeats, draw(st.sampled_from([0, 1, 16, 17])),
                                  draw(st.sampled_from([0, 1, 3, 16])))  # fmt: skip
    return card, dtype, params, draw(st.permutations(range(16))), draw(st.permutations(range(16)))


def five_reference(memory: Bytes, size: int, p: TransDataTo5HDParams, to: list[int], at: list[int]) -> NDArray[np.bool_]:
    """The page, element by element, on one memory; `to` and `at` are byte addresses. Returns what was written."""
    written = np.zeros(memory.size, np.bool_)

    def put(address: int, value: Bytes) -> None:
        memory[address : address + size] = value
        written[address : address + size] = True

    for repeat in range(p.repeat_times):
        step = 1 if p.repeat_times == 1 else repeat
        old = memory.copy()
        dst = [address + step * p.dst_rep_stride * 32 for address in to]
        src = [address + step * p.src_rep_stride * 32 for address in at]
        for i in range(8 if size == 4 else 16):
            for k in range(16):
                start = src[k] + i * size + (16 if size == 1 and p.src_high_half else 0)
                element = old[start : start + size]
                if size == 4:
                    put(dst[2 * i + k // 8] + k % 8 * 4, element)
                else:
                    put(dst[i] + k * size + (16 if size == 1 and p.dst_high_half else 0), element)
    return written


@PROPERTY
@given(conversions(), st.sampled_from(["tensors", "addresses"]), st.integers(0, 99))
def test_five_hd_is_the_page_element_by_element(case: Any, how: str, seed: int) -> None:
    card, dtype, params, order, source_order = case
    size = {"int8": 1, "uint8": 1}.get(dtype, size_of(dtype))
    memory = np.concatenate([noise(8192, seed), np.full(8192, SENTINEL, np.uint8)])
    stage = Stage(card, {"all": ub(dtype, memory)})
    to, at = [8192 + 32 * i for i in order], [96 * i for i in source_order]
    places = [[stage.at("all", address // size) for address in side] for side in (to, at)]
    if how == "addresses":
        places = [[tensor.get_phy_addr() for tensor in side] for side in places]
    stage.call(lambda: trans_data_to_5hd(*places, params))
    five_reference(memory, size, params, to, at)
    assert np.array_equal(stage.bytes("all"), memory)


@PROPERTY
@given(st.integers(1, 4), st.sampled_from([0, 1, 16]), st.integers(0, 15), st.integers(0, 99))
def test_five_hd_where_repeats_read_what_earlier_ones_wrote(repeats: int, stride: int, shift: int, seed: int) -> None:
    memory = noise(8192, seed)
    stage = Stage("atlas_a2", {"all": ub("half", memory)})
    to, at = [32 * (i + shift) for i in range(16)], [32 * i for i in range(16)]
    params = TransDataTo5HDParams(False, False, repeats, stride, stride)
    sides = [[stage.at("all", address // 2) for address in side] for side in (to, at)]
    stage.call(lambda: trans_data_to_5hd(*sides, params))
    five_reference(memory, 2, params, to, at)
    assert np.array_equal(stage.bytes("all"), memory)


def test_five_hd_carries_the_marks() -> None:
    stage = Stage("atlas_a2", {"src": ub("half", noise(512), written=False), "dst": ub("half", noise(512))})
    stage.memories["UB"].shadow[0:32] = 1  # type: ignore[index]  # the first source block alone
    sides = [[stage.at(name, 16 * i) for i in range(16)] for name in ("dst", "src")]
    stage.call(lambda: trans_data_to_5hd(*sides, TransDataTo5HDParams()))
    assert np.array_equal(stage.defined("dst"), np.arange(512) % 32 < 2)


@pytest.mark.parametrize(("field", "params"), [
    ("repeat_times", {"repeat_times": 256}), ("repeat_times", {"repeat_times": -1}),
    ("dst_rep_stride", {"dst_rep_stride": 65536}), ("src_rep_stride", {"src_rep_stride": -1}),
])  # fmt: skip
def test_five_hd_refuses_fields(field: str, params: Any) -> None:
    stage = Stage("atlas_a2", {"src": ub("half", 512), "dst": ub("half", 512)})
    sides = [[stage.at(name, 16 * i) for i in range(16)] for name in ("dst", "src")]
    stage.refuses(lambda: trans_data_to_5hd(*sides, TransDataTo5HDParams(**params)), ParameterError, field)


def test_five_hd_refuses_lists() -> None:
    stage = Stage("atlas_a2", {"src": ub("half", 512), "dst": ub("half", 512), "wide": ub("float", 512), "bf": ub("bfloat16", 512)})
    dst, src = ([stage.at(name, 16 * i) for i in range(16)] for name in ("dst", "src"))
    plain = TransDataTo5HDParams()
    stage.refuses(lambda: trans_data_to_5hd(dst[:15], src, plain), ParameterError, "dst")
    stage.refuses(lambda: trans_data_to_5hd(dst, [*src, src[0]], plain), ParameterError, "src")
    stage.refuses(lambda: trans_data_to_5hd([*dst[:15], stage["wide"]], src, plain), ParameterError, "dtype")
    stage.refuses(lambda: trans_data_to_5hd(list(range(0, 512, 32)), list(range(0, 512, 32)), plain), ParameterError, "dtype")
    stage.refuses(lambda: trans_data_to_5hd([t[1] for t in dst], src, plain), AlignmentError)
    stage.refuses(lambda: trans_data_to_5hd(dst, src, TransDataTo5HDParams(False, False, 255, 60000, 0)), OutOfBoundsError)
    stage.refuses(lambda: trans_data_to_5hd(dst, src, None), ParameterError, "params")
    bf = [stage.at("bf", 0)] * 16
    stage.refuses(lambda: trans_data_to_5hd(bf, bf, plain), UnsupportedError, "dtype")
    # The type of bare numbers may be said.
    stage.call(lambda: trans_data_to_5hd([int(t.get_phy_addr()) for t in dst], [int(t.get_phy_addr()) for t in src], plain,
                                         dtype=stage["dst"].dtype))  # fmt: skip
    assert stage.defined("dst").sum() == 0 and len(stage.ops) == 1
