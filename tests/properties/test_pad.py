"""DataCopyPad in every form against a byte-by-byte layout of its blocks (spec api_semantics.md 9.2 to 9.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from tests.properties.picture import Picture, up
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, Place, Stage, noise

BASIC = ("int8", "uint8", "int16", "uint16", "half", "bfloat16", "int32", "uint32", "float")
LONG = ("int64", "uint64", "double")


def pattern(value: int, dtype: str) -> bytes:
    """Small whole numbers as one element, by hand."""
    if dtype in ("half", "bfloat16", "float", "double"):
        word = np.float32(value).view(np.uint32)
        if dtype == "bfloat16":
            return int(word >> 16).to_bytes(2, "little")
        return np.array(value, {"half": np.float16, "float": np.float32, "double": np.float64}[dtype]).tobytes()
    return int(value).to_bytes(DataType(dtype).sizeof(), "little", signed=True)


@st.composite
def forms(draw: Any) -> dict[str, Any]:
    """A legal GM -> local call: every field with the reach that keeps it small."""
    card = draw(st.sampled_from(CARDS))
    new = card == "atlas_350"
    dtype = draw(st.sampled_from(BASIC if card == "atlas_200i" else BASIC + LONG))
    size = DataType(dtype).sizeof()
    length = draw(st.integers(1, 60)) * size
    dst = draw(st.sampled_from(["VECIN", "VECOUT", *(["A1", "B1"] if new else [])]))
    old_struct = draw(st.booleans())
    backwards = new and not old_struct and draw(st.booleans())
    return {
        "card": card, "dtype": dtype, "size": size, "dst": dst, "old": old_struct, "count": draw(st.integers(1, 4)),
        "length": length, "src": -draw(st.integers(0, length)) if backwards else draw(st.integers(0, 70)),
        "gap": draw(st.integers(0, 2)), "left": draw(st.integers(0, 32 // size)), "right": draw(st.integers(0, 32 // size)),
        "is_pad": draw(st.booleans()), "value": 0 if size == 8 else draw(st.integers(0, 100)),
        "register": None if card == "atlas_200i" else draw(st.sampled_from([None, 0, 7])),
        "compact": new and draw(st.booleans()),
    }  # fmt: skip


def padding(f: dict[str, Any]) -> Any:
    if f["old"]:
        return asc.DataCopyPadParams(f["is_pad"], f["left"], f["right"], int.from_bytes(pattern(f["value"], f["dtype"]), "little"))
    return asc.DataCopyPadExtParams(DataType(f["dtype"]), f["is_pad"], f["left"], f["right"], f["value"])


def blocks(f: dict[str, Any]) -> Any:
    kind = asc.DataCopyParams if f["old"] else asc.DataCopyExtParams
    return kind(f["count"], f["length"], f["src"], f["gap"])


def one_copy(picture: Picture, f: dict[str, Any], to: int, of: int) -> None:
    """The bytes of one call at these starts."""
    size, length, register = f["size"], f["length"], f["register"]
    left, right, gap = (0, 0, 0) if f["compact"] else (f["left"] * size, f["right"] * size, f["gap"] * 32)
    pitch = length if f["compact"] else up(gap + left + length + right)
    for block in range(f["count"]):
        at, begin = to + block * pitch, of + block * (length + f["src"])
        picture.copy(at + left, begin, length)
        end = at + up(left + length + right)
        tail = at + left + length
        if f["compact"]:
            if block < f["count"] - 1:
                continue
            end = to + up(f["count"] * length)
        if f["dst"] in ("A1", "B1"):
            for start, nbytes in ((at, left), (tail, right)):
                if f["is_pad"]:
                    picture.fill(start, nbytes, pattern(f["value"], f["dtype"]))
                else:
                    picture.undefined(start, nbytes)
            picture.undefined(tail + right, end - tail - right)
            continue
        no_pads = f["left"] == 0 and f["right"] == 0
        for start, nbytes in ((at, left), (tail, end - tail)):
            if f["is_pad"] and not (no_pads and f["card"] != "atlas_350"):
                picture.fill(start, nbytes, pattern(f["value"], f["dtype"]))
            elif f["is_pad"]:
                picture.undefined(start, nbytes)
            elif register is not None:
                picture.fill(start, nbytes, pattern(register, f["dtype"]))
            elif no_pads and not f["compact"]:
                picture.fill(start, nbytes, picture.src[begin : begin + size].tobytes())
            else:
                picture.undefined(start, nbytes)


def rooms(f: dict[str, Any]) -> tuple[int, int]:
    """Bytes of GM before the first block (negative strides walk back), and of one call's source behind it."""
    step = f["length"] + f["src"]
    return (f["count"] - 1) * max(step, 0) + f["length"], f["count"] * up(f["gap"] * 32 + f["length"] + 64) + 64


@PROPERTY
@given(forms())
def test_blocks_with_padding(f: dict[str, Any]) -> None:
    src, dst = rooms(f)
    stage = Stage(f["card"], {"src": Place("GM", f["dtype"], noise(up(src, 8))), "dst": Place(f["dst"], f["dtype"], up(dst, 8))})
    if f["register"] is not None and f["dst"] not in ("A1", "B1"):
        stage.call(lambda: asc.set_pad_value(f["register"]))
    picture = Picture(stage)
    one_copy(picture, f, 0, 0)
    mode = {"mode": asc.PaddingMode.Compact} if f["compact"] else {}
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], blocks(f), padding(f), **mode))
    picture.check(stage)


@PROPERTY
@given(forms(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
def test_every_iteration_of_loop_mode_is_padded_by_itself(
    f: dict[str, Any], one: int, two: int, dst1_more: int, dst2_more: int
) -> None:
    f = {**f, "card": "atlas_350", "dst": "VECIN", "src": abs(f["src"])}
    src, dst = rooms(f)
    dst1 = up(dst) + 32 * dst1_more
    dst2 = one * dst1 + 32 * dst2_more
    src1, src2 = f["length"] + 5, f["length"] + 11
    stage = Stage("atlas_350", {
        "src": Place("GM", f["dtype"], noise(up(two * src2 + one * src1 + src, 8))),
        "dst": Place("VECIN", f["dtype"], two * dst2 + dst),
    })  # fmt: skip
    if f["register"] is not None:
        stage.call(lambda: asc.set_pad_value(f["register"]))
    picture = Picture(stage)
    for outer in range(two):
        for inner in range(one):
            one_copy(picture, f, outer * dst2 + inner * dst1, outer * src2 + inner * src1)
    mode = {"mode": asc.PaddingMode.Compact} if f["compact"] else {}
    stage.call(
        lambda: asc.set_loop_mode_para(asc.LoopModeParams(one, two, src1, dst1, src2, dst2), asc.DataCopyMVType.OUT_TO_UB),
        lambda: asc.data_copy_pad(stage["dst"], stage["src"], blocks(f), padding(f), **mode),
    )
    picture.check(stage)


@PROPERTY
@given(forms(), st.integers(1, 2), st.integers(1, 2))
def test_stores_of_any_length(f: dict[str, Any], one: int, two: int) -> None:
    """UB -> GM, on 950 also in loop mode: exactly the bytes of the blocks."""
    if f["card"] != "atlas_350":
        one = two = 1
    length, gm_gap = f["length"], abs(f["src"])
    pitch = length if f["compact"] else up(f["gap"] * 32 + length)
    step = length + gm_gap
    src1, src2 = 64, 160
    dst1 = f["count"] * step + 3
    dst2 = one * dst1 + 7
    stage = Stage(f["card"], {
        "src": Place("VECOUT", f["dtype"], noise(src1 + src2 + up(f["count"] * pitch))),
        "dst": Place("GM", f["dtype"], up(two * dst2, 8)),
    })  # fmt: skip
    picture = Picture(stage)
    for outer in range(two):
        for inner in range(one):
            for block in range(f["count"]):
                picture.copy(outer * dst2 + inner * dst1 + block * step, outer * src2 + inner * src1 + block * pitch, length)
    kind = asc.DataCopyParams if f["old"] else asc.DataCopyExtParams
    mode = {"mode": asc.PaddingMode.Compact} if f["compact"] else {}
    calls = [lambda: asc.data_copy_pad(stage["dst"], stage["src"], kind(f["count"], length, f["gap"], gm_gap), **mode)]
    if one * two > 1:
        calls.insert(0, lambda: asc.set_loop_mode_para(asc.LoopModeParams(one, two, src1, dst1, src2, dst2),
                                                       asc.DataCopyMVType.UB_TO_OUT))  # fmt: skip
    stage.call(*calls)
    picture.check(stage)


@PROPERTY
@given(forms(), st.data())
def test_one_field_outside_its_range(f: dict[str, Any], data: Any) -> None:
    params, pad = blocks(f), padding(f)
    new, most = f["card"] == "atlas_350", 65535 if f["old"] else 2**21 - 1
    local = f["dst"] in ("A1", "B1")
    if not f["old"]:
        lowest, highest = (-f["length"], 2**40 - 1) if new else (0, 2**32 - 1)
        gap = 65535 if new else 2**32 - 1
    else:
        lowest, highest, gap = 0, 65535, 65535
    field, value = data.draw(st.sampled_from([
        ("block_count", 4096), ("block_count", -1), *([("block_count", 0)] if local else []), ("block_len", most + 1),
        ("block_len", -f["size"]), *([("block_len", 0)] if local else []), ("src_stride", highest + 1),
        ("src_stride", lowest - 1), ("dst_stride", gap + 1), ("dst_stride", -1), ("left_padding", 32 // f["size"] + 1),
        ("left_padding", -1), ("right_padding", 32 // f["size"] + 1), ("right_padding", -1),
        *([("block_len", f["length"] + 1)] if f["size"] > 1 else []),
        *([("padding_value", 1)] if f["size"] == 8 else []), *([("padding_value", 2**64)] if f["old"] else []),
        *([("padding_value", 300)] if f["dtype"] in ("int8", "uint8") and not f["old"] else []),
    ]))  # fmt: skip
    if field.endswith("padding") or field == "padding_value":
        pad = replace(pad, **{field: value})
    else:
        params = replace(params, **{field: value})
    stage = Stage(f["card"], {"src": Place("GM", f["dtype"], noise(4096)), "dst": Place(f["dst"], f["dtype"], 4096)})
    stage.refuses(lambda: asc.data_copy_pad(stage["dst"], stage["src"], params, pad), ParameterError, field)


@PROPERTY
@given(forms())
def test_addresses(f: dict[str, Any]) -> None:
    src, dst = rooms(f)
    stage = Stage(f["card"], {"src": Place("GM", f["dtype"], noise(up(src, 8))), "dst": Place(f["dst"], f["dtype"], up(dst, 8))})
    stage.refuses(lambda: asc.data_copy_pad(stage["dst"][1], stage["src"], blocks(f), padding(f)), AlignmentError, "address")
    past = up(src, 8) // f["size"] - f["length"] // f["size"] + 1
    stage.refuses(lambda: asc.data_copy_pad(stage["dst"], stage["src"][past], blocks(f), padding(f)), OutOfBoundsError)


# ---- UB to L1 -------------------------------------------------------------------------------------------------------
@PROPERTY
@given(st.sampled_from(["int8", "half", "float", "int64"]), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2),
       st.integers(0, 20), st.integers(0, 2), st.integers(1, 2))  # fmt: skip
def test_rows_of_ub_into_nz_of_l1(
    dtype: str, rows: int, columns: int, src_gap: int, dst_gap: int, c0_more: int, n_stride: int
) -> None:
    size = DataType(dtype).sizeof()
    c0, length = 32 // size, columns * size
    dst_gap -= dst_gap % size
    pitch = up(src_gap * 32 + length)
    c0_stride = rows * n_stride + c0_more
    stage = Stage("atlas_350", {"src": Place("VECOUT", dtype, noise(rows * pitch)),
                                "dst": Place("TSCM", dtype, -(-columns // c0) * c0_stride * 32 + 64)})  # fmt: skip
    picture = Picture(stage)
    for n in range(rows):
        for d in range(-(-columns // c0) * c0):
            to = ((d // c0) * c0_stride + n * n_stride) * 32 + d % c0 * size
            if d < columns:
                picture.copy(to, n * pitch + d * size, size)
            else:
                picture.put(to, bytes(size))
    nz = asc.Nd2NzParams(1, rows, columns, 0, (length + dst_gap) // size, c0_stride, n_stride, 0)
    params = asc.DataCopyParams(rows, length, src_gap, dst_gap)
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], params, nz))
    picture.check(stage)
    assert any("through GM" in text for text in stage.warnings)


def test_what_ub_to_l1_refuses() -> None:
    nz, params = asc.Nd2NzParams(1, 4, 16, 0, 16, 4, 1, 0), asc.DataCopyParams(4, 32)
    stage = Stage("atlas_350", {"src": Place("VECOUT", "half", noise(256)), "dst": Place("TSCM", "half", 256)})

    def call(params: Any, nz: Any) -> Any:
        return lambda: asc.data_copy_pad(stage["dst"], stage["src"], params, nd2nz_params=nz)

    stage.call(call(params, nz))
    for field, value in (("nd_num", 0), ("nd_num", 2), ("n_value", 0), ("d_value", 0), ("n_value", 5), ("dst_nz_n_stride", 0)):
        stage.refuses(call(params, replace(nz, **{field: value})), ParameterError, field)
    for field, value in (("block_count", 0), ("block_len", 0), ("block_len", 31), ("src_stride", 65536)):
        stage.refuses(call(replace(params, **{field: value}), nz), ParameterError, field)
    stage.refuses(call(asc.DataCopyExtParams(4, 32), nz), ParameterError, "nd2nz_params")
    stage.refuses(call(params, None), ParameterError, "nd2nz_params")
    for card in ("atlas_a2", "atlas_a3"):
        old = Stage(card, {"src": Place("VECOUT", "half", noise(256)), "dst": Place("TSCM", "half", 256)})
        error = old.refuses(lambda old=old: asc.data_copy_pad(old["dst"], old["src"], params, nz), UnsupportedError, "path")
        assert "from GM to L1" in str(error.allowed)


def test_the_impl_reading_of_stride_limits() -> None:
    pad = asc.DataCopyPadExtParams(DataType("half"))
    for quirks, highest in (("documented", 2**40 - 1), ("pad-stride-2-39", 2**39)):
        stage = Stage("atlas_350", {"src": Place("GM", "half", noise(64)), "dst": Place("VECIN", "half", 64)}, quirks=quirks)
        stage.call(lambda stage=stage, highest=highest:
                   asc.data_copy_pad(stage["dst"], stage["src"], asc.DataCopyExtParams(1, 32, highest), pad))  # fmt: skip
        stage.refuses(lambda stage=stage, highest=highest: asc.data_copy_pad(
            stage["dst"], stage["src"], asc.DataCopyExtParams(1, 32, highest + 1), pad), ParameterError, "src_stride")  # fmt: skip
        assert any("outside the tensor" in text for text in stage.warnings)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_values_lose_the_bits_that_their_field_has_no_room_for(card: str) -> None:
    places = {"src": Place("GM", "int8", noise(128)), "dst": Place("VECIN", "int8", 128)}
    pad = asc.DataCopyPadExtParams(DataType("int8"), True, 0, 0, 0)
    stage = Stage(card, places, wrap="hardware")
    picture = Picture(stage)
    picture.copy(0, 0, 32)
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], asc.DataCopyExtParams(4096 + 1, 2**21 + 32), pad))
    picture.check(stage)
    assert sum("bits and becomes" in text for text in stage.warnings) == 2


@PROPERTY
@given(st.integers(1, 3), st.integers(0, 40), st.integers(1, 2**12))
def test_source_strides_of_950_wrap_from_start_to_start(length: int, stride: int, turns: int) -> None:
    """The instruction holds blockLen + srcStride in 40 bits, so whole turns of 2^40 do not show."""
    nbytes = 16 * length
    places = {"src": Place("GM", "int8", noise(256)), "dst": Place("VECIN", "int8", 256)}
    pad = asc.DataCopyPadExtParams(DataType("int8"), False, 0, 0, 0)
    far, back = stride + turns * 2**40, stride - turns * 2**40
    for given_stride in (far, back):
        params = asc.DataCopyExtParams(3, nbytes, given_stride)
        refusing, stage = Stage("atlas_350", places), Stage("atlas_350", places, wrap="hardware")
        refusing.refuses(lambda params=params, at=refusing: asc.data_copy_pad(at["dst"], at["src"], params, pad),
                         ParameterError, "src_stride")  # fmt: skip
        stage.call(lambda params=params, at=stage: asc.data_copy_pad(at["dst"], at["src"], params, pad))
        picture = Picture(stage)
        for b in range(3):
            picture.put(b * up(nbytes), stage.bytes("src")[b * (nbytes + stride) :][:1].tobytes() * up(nbytes))
            picture.copy(b * up(nbytes), b * (nbytes + stride), nbytes)
        picture.check(stage)
        assert any("40 bits" in text for text in stage.warnings)


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32"]), st.integers())
def test_padding_values_keep_the_bits_of_their_type(card: str, dtype: str, value: int) -> None:
    size = DataType(dtype).sizeof()
    element = (value % 256**size).to_bytes(size, "little")
    fits = int.from_bytes(element, "little", signed=dtype.startswith("int")) == value
    places = {"src": Place("GM", dtype, noise(64)), "dst": Place("VECIN", dtype, 128)}
    stage = Stage(card, places, wrap="hardware")
    picture = Picture(stage)
    picture.put(0, element * (64 // size))
    picture.copy(size, 0, 28)
    picture.put(64, element * (32 // size))  # the register keeps what the first call put there
    picture.copy(64, 0, 28)
    pad = asc.DataCopyPadExtParams(DataType(dtype), True, 1, 32 // size, value)
    off = asc.DataCopyPadExtParams(DataType(dtype))
    block = asc.DataCopyExtParams(1, 28)
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], block, pad),
               lambda: asc.data_copy_pad(stage["dst"][64 // size], stage["src"], block, off))  # fmt: skip
    picture.check(stage)
    assert any("becomes" in text for text in stage.warnings) != fits
    if not fits:
        plain = Stage(card, places)
        plain.refuses(lambda: asc.data_copy_pad(plain["dst"], plain["src"], block, pad), ParameterError, "padding_value")


def test_zero_lengths_into_l1_move_nothing_on_hardware() -> None:
    places = {"src": Place("GM", "half", noise(128)), "dst": Place("A1", "half", 128)}
    pad = asc.DataCopyPadExtParams(DataType("half"))
    for params, field in ((asc.DataCopyExtParams(0, 32), "block_count"), (asc.DataCopyExtParams(2, 0), "block_len")):
        plain, stage = Stage("atlas_350", places), Stage("atlas_350", places, wrap="hardware")
        plain.refuses(lambda at=plain, params=params: asc.data_copy_pad(at["dst"], at["src"], params, pad),
                      ParameterError, field)  # fmt: skip
        before = stage.snapshot()
        stage.call(lambda at=stage, params=params: asc.data_copy_pad(at["dst"], at["src"], params, pad))
        assert stage.snapshot() == before
        assert any("moves nothing" in text for text in stage.warnings)
