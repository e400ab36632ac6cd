"""DataCopyPad against the placement of the text, block by block (spec api_semantics.md 9.2, 9.4, 14.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, Op, Pipe
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.data_copy_pad import (
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    PadRegister,
    build_in,
    build_out,
    set_register,
)
from aicore_sim.kernel.api_copy_pad import data_copy_pad, set_pad_value
from aicore_sim.kernel.enums import PaddingMode
from tests.instructions.copy_helpers import Tensor, card, changed, noise, perform, recording

CARDS = ("atlas_a2", "atlas_a3", "atlas_350")
COMPACT = int(PaddingMode.Compact)


def padding(dtype: str, *args: Any) -> DataCopyPadExtParams:
    return DataCopyPadExtParams(DataType(dtype), *args)


def load(
    params: DataCopyExtParams | DataCopyParams,
    pad: Any,
    dtype: str = "half",
    on: str = "atlas_350",
    mode: int = 0,
    register: PadRegister | None = None,
) -> Op:
    op = build_in(params, pad, register, mode, DataType(dtype), "GM", "UB", card(on))
    assert op is not None
    return op


def store(params: DataCopyExtParams | DataCopyParams, dtype: str = "half", on: str = "atlas_350", mode: int = 0) -> Op:
    op = build_out(params, mode, DataType(dtype), "UB", "GM", card(on))
    assert op is not None
    return op


def up(n: int) -> int:
    return (n + 31) // 32 * 32


@given(
    st.sampled_from(CARDS),
    st.sampled_from(["int8", "half", "float"]),
    st.integers(1, 4),
    st.integers(1, 40),
    st.integers(-40, 60),
    st.integers(0, 2),
    st.integers(0, 8),
    st.integers(0, 8),
    st.booleans(),
    st.sampled_from([None, 5]),
)
def test_blocks_pads_and_dummy_bytes(
    on: str,
    dtype: str,
    count: int,
    length: int,
    gap: int,
    blocks: int,
    left: int,
    right: int,
    is_pad: bool,
    set_to: int | None,
) -> None:
    size = {"int8": 1, "half": 2, "float": 4}[dtype]
    word = np.dtype({"int8": np.int8, "half": np.float16, "float": np.float32}[dtype])
    nbytes = length * size
    if gap < 0 and (on != "atlas_350" or -gap > nbytes):
        gap = -gap
    data = min(nbytes, nbytes + gap) + (count - 1) * (nbytes + gap) + abs(gap)
    src, dst = noise(data), noise(4 * count * (nbytes + 160), 2)
    expected, marks = dst.copy(), np.zeros(dst.size, np.uint8)
    for b in range(count):
        block = src[b * (nbytes + gap) : b * (nbytes + gap) + nbytes]
        start = b * up(blocks * 32 + nbytes + (left + right) * size)
        end = start + up(nbytes + (left + right) * size)
        pads = [*range(start, start + left * size), *range(start + left * size + nbytes, end)]
        if is_pad and on != "atlas_350" and left == right == 0:
            filling = None
        elif is_pad:
            filling = np.array(7, word).tobytes()
        elif set_to is not None:
            filling = np.array(set_to, word).tobytes()
        else:
            filling = block[:size].tobytes() if left == right == 0 else None
        for i in pads:
            if filling is not None:
                expected[i] = filling[(i - start) % size]
                marks[i] = 1
        expected[start + left * size : start + left * size + nbytes] = block
        marks[start + left * size : start + left * size + nbytes] = 1
    register = None if set_to is None else set_register(set_to)
    op = load(
        DataCopyExtParams(count, nbytes, gap, blocks), padding(dtype, is_pad, left, right, 7), dtype, on, 0, register
    )
    moved, defined = perform(op, src, dst, "GM", "UB")
    assert np.array_equal(moved, expected)
    assert np.array_equal(defined, marks)
    assert op.cost == GmTraffic("GM-UB", count * nbytes, count, is_read=True)


@given(
    st.sampled_from(CARDS), st.integers(1, 4), st.integers(1, 50), st.integers(0, 2), st.integers(0, 60), st.booleans()
)
def test_stores_drop_the_dummy_bytes(on: str, count: int, length: int, blocks: int, gap: int, compact: bool) -> None:
    compact = compact and on == "atlas_350"
    pitch = length if compact else up(blocks * 32 + length)
    src, dst = noise(count * (pitch + 32)), noise(count * (length + gap) + 9, 2)
    expected = dst.copy()
    for b in range(count):
        expected[b * (length + gap) :][:length] = src[b * pitch :][:length]
    op = store(DataCopyExtParams(count, length, blocks, gap), "int8", on, COMPACT if compact else 0)
    moved, _ = perform(op, src, dst, "UB", "GM")
    assert np.array_equal(moved, expected)
    assert (op.pipe, op.aligns, op.gm_operand) == (Pipe.MTE3, (1, 32), 0)
    assert op.gm_runs[0, :2].tolist() == [0, length]


@pytest.mark.parametrize(
    ("params", "src_pitch", "dst_pitch"),
    [
        (DataCopyExtParams(3, 64, 1, 1), 65, 96),
        (DataCopyExtParams(3, 47, 1, 1), 48, 96),
        (DataCopyExtParams(3, 48, -48, 1), 0, 96),
    ],
)
def test_documented_pitches(params: DataCopyExtParams, src_pitch: int, dst_pitch: int) -> None:
    op = load(params, padding("int8"), "int8")
    src = noise(256)
    moved, _ = perform(op, src, np.zeros(320, np.uint8), "GM", "UB")
    for b in range(3):
        block = src[b * src_pitch :][: params.block_len]
        assert np.array_equal(moved[b * dst_pitch :][: params.block_len], block)
        dummy = moved[b * dst_pitch + params.block_len : b * dst_pitch + up(params.block_len)]
        assert (dummy == block[0]).all()
    assert not moved[64:96].any()
    assert op.reads == ((1, 0, 2 * src_pitch + params.block_len),)


def test_documented_scenarios() -> None:
    halves = np.arange(1, 21, dtype=np.float16)
    op = load(DataCopyExtParams(1, 40), padding("half", False, 0, 12), register=set_register(1))
    moved, _ = perform(op, halves.view(np.uint8), np.zeros(64, np.uint8), "GM", "UB")
    assert np.array_equal(moved.view(np.float16), np.concatenate([halves, np.ones(12, np.float16)]))

    rows = np.random.default_rng(1).random((32, 59), np.float32)
    op = load(DataCopyExtParams(32, 236), padding("float", True, 0, 5, 0), "float", "atlas_a2")
    moved, _ = perform(op, rows.reshape(-1).view(np.uint8), noise(32 * 256), "GM", "UB")
    assert np.array_equal(moved.view(np.float32).reshape(32, 64), np.pad(rows, ((0, 0), (0, 5))))

    blocks = np.arange(72, dtype=np.float16)
    op = load(DataCopyExtParams(3, 48), padding("half", True, 0, 8, 0), mode=COMPACT)
    moved, _ = perform(op, blocks.view(np.uint8), noise(160), "GM", "UB")
    assert np.array_equal(moved.view(np.float16), np.concatenate([blocks, np.zeros(8, np.float16)]))
    assert op.writes == ((0, 0, 160),)


def test_compact_pads_once_at_the_end() -> None:
    op = load(DataCopyExtParams(2, 40), padding("int8", True, 0, 0, -1), "int8", mode=COMPACT)
    moved, defined = perform(op, noise(80), noise(128, 2), "GM", "UB")
    assert np.array_equal(moved, np.concatenate([noise(80), np.full(16, 255, np.uint8), noise(128, 2)[96:]]))
    assert defined.sum() == 96
    whole = load(DataCopyExtParams(2, 48), padding("int8", True, 0, 0, -1), "int8", mode=COMPACT)
    assert whole.writes == ((0, 0, 96),)
    unset = load(DataCopyExtParams(2, 40), padding("int8"), "int8", mode=COMPACT)
    _, defined = perform(unset, noise(80), noise(128, 2), "GM", "UB")
    assert defined.sum() == 80
    noted = load(DataCopyExtParams(2, 40, 0, 3), padding("int8", True), "int8", mode=COMPACT)
    assert any("ignores" in text for text in noted.warnings)


def test_older_structs_take_the_raw_word() -> None:
    op = load(DataCopyParams(2, 20, 12, 1), DataCopyPadParams(True, 2, 0, 0x3C00), on="atlas_a2")
    src = noise(64)
    moved, _ = perform(op, src, np.zeros(128, np.uint8), "GM", "UB")
    one = np.array(1, np.float16).tobytes()
    for b in range(2):
        row = moved[b * 64 :][:64]
        assert row[:4].tobytes() == one * 2
        assert np.array_equal(row[4:24], src[b * 32 :][:20])
        assert row[24:32].tobytes() == one * 4
        assert not row[32:].any()


def test_64_bit_types_pad_with_zero_only() -> None:
    op = load(DataCopyExtParams(1, 8), padding("int64", True, 1, 0), "int64")
    moved, _ = perform(op, noise(8), noise(32, 2), "GM", "UB")
    assert np.array_equal(moved, np.concatenate([np.zeros(8, np.uint8), noise(8), np.zeros(16, np.uint8)]))
    with pytest.raises(ParameterError) as caught:
        load(DataCopyExtParams(1, 8), padding("int64", True, 1, 0, 3), "int64")
    assert caught.value.field == "padding_value"


@pytest.mark.parametrize("params", [DataCopyExtParams(0, 8), DataCopyExtParams(2, 0), DataCopyParams(2, 0)])
def test_zero_is_a_nop(params: Any) -> None:
    pad = padding("half") if isinstance(params, DataCopyExtParams) else DataCopyPadParams()
    for on in CARDS:
        assert build_in(params, pad, None, 0, DataType("half"), "GM", "UB", card(on)) is None
        assert build_out(params, 0, DataType("half"), "UB", "GM", card(on)) is None


U32, WIDE = 2**32 - 1, 2**40 - 1
BOTH = {"block_count": (0, 4095), "block_len": (0, 2097150)}


@pytest.mark.parametrize(
    ("on", "inwards", "outwards"),
    [
        ("atlas_a2", ((0, U32), (0, U32)), ((0, U32), (0, U32))),
        ("atlas_a3", ((0, U32), (0, U32)), ((0, U32), (0, U32))),
        ("atlas_200i", ((0, U32), (0, U32)), ((0, U32), (0, U32))),
        ("atlas_350", ((-64, WIDE), (0, 65535)), ((0, 65535), (0, WIDE))),
    ],
)
def test_ranges_one_field_at_a_time(on: str, inwards: Any, outwards: Any) -> None:
    good = DataCopyExtParams(2, 64)
    for is_load, (src, dst) in ((True, inwards), (False, outwards)):
        for field, (lo, hi) in (BOTH | {"src_stride": src, "dst_stride": dst}).items():
            for value, legal in ((lo, True), (hi, True), (lo - 1, False), (hi + 2, False), (1.0, False)):
                params = changed(good, **{field: value})
                half, at = DataType("half"), card(on)

                def attempt(p: Any = params, is_load: bool = is_load, half: DataType = half, at: Any = at) -> object:
                    if is_load:
                        return build_in(p, padding("half", True, 1, 1), None, 0, half, "GM", "UB", at)
                    return build_out(p, 0, half, "UB", "GM", at)

                if legal:
                    attempt()
                    continue
                with pytest.raises(ParameterError) as caught:
                    attempt()
                assert (caught.value.field, caught.value.value, caught.value.card) == (field, value, on)


@pytest.mark.parametrize("field", ["block_count", "block_len", "src_stride", "dst_stride"])
def test_older_struct_has_sixteen_bits(field: str) -> None:
    for value in (-2, 65536):
        with pytest.raises(ParameterError) as caught:
            load(changed(DataCopyParams(2, 64), **{field: value}), DataCopyPadParams())
        assert caught.value.field == field


@pytest.mark.parametrize(("dtype", "most"), [("int8", 32), ("half", 16), ("float", 8), ("int64", 4)])
@pytest.mark.parametrize("field", ["left_padding", "right_padding"])
def test_pads_are_at_most_32_bytes(dtype: str, most: int, field: str) -> None:
    load(DataCopyExtParams(1, 32), changed(padding(dtype, True), **{field: most}), dtype)
    for value in (-1, most + 1):
        with pytest.raises(ParameterError) as caught:
            load(DataCopyExtParams(1, 32), changed(padding(dtype, True), **{field: value}), dtype)
        assert caught.value.field == field


def test_lengths_are_whole_elements() -> None:
    with pytest.raises(ParameterError, match="multiple of the element"):
        load(DataCopyExtParams(1, 7), padding("half"))
    with pytest.raises(ParameterError, match="multiple of the element"):
        store(DataCopyExtParams(1, 6), "float")


@pytest.mark.parametrize("value", [128, -129, 0.5])
def test_padding_value_fits_its_type(value: float) -> None:
    with pytest.raises(ParameterError):
        load(DataCopyExtParams(1, 8), padding("int8", True, 0, 0, value), "int8")


def test_padding_of_another_type() -> None:
    with pytest.raises(ParameterError) as caught:
        load(DataCopyExtParams(1, 8), padding("float", True))
    assert caught.value.field == "dtype"


def test_strides_in_the_wrong_unit_are_noted() -> None:
    op = load(DataCopyExtParams(4, 32, 1, 0), padding("float"), "float", "atlas_a2")
    assert any("unaligned" in text for text in op.warnings)
    src = np.arange(64, dtype=np.float32)
    moved, _ = perform(op, src.view(np.uint8), np.zeros(128, np.uint8), "GM", "UB")
    assert np.array_equal(moved, np.concatenate([src.view(np.uint8)[33 * b :][:32] for b in range(4)]))
    assert not load(DataCopyExtParams(4, 32, 32, 0), padding("float"), "float", "atlas_a2").warnings
    assert any("unaligned" in text for text in store(DataCopyExtParams(4, 32, 0, 1), "float").warnings)


def test_what_a_card_lacks() -> None:
    for on in ("atlas_a2", "atlas_a3", "atlas_200i"):
        with pytest.raises(UnsupportedError) as caught:
            load(DataCopyExtParams(1, 8), padding("half"), on=on, mode=COMPACT)
        assert (caught.value.field, caught.value.card) == ("mode", on)
    with recording("atlas_200i") as stage, pytest.raises(UnsupportedError):
        set_pad_value(1)
    assert stage.recorder.program == []
    with pytest.raises(UnsupportedError):
        load(DataCopyExtParams(1, 8), padding("int64"), "int64", "atlas_200i")
    for on in ("atlas_a2", "atlas_a3", "atlas_200i"):
        with pytest.raises(UnsupportedError, match="GM to L1"):
            build_in(DataCopyExtParams(1, 8), padding("half"), None, 0, DataType("half"), "GM", "L1", card(on))
    with pytest.raises(UnsupportedError, match="UB to UB"):
        build_in(DataCopyExtParams(1, 8), padding("half"), None, 0, DataType("half"), "UB", "UB", card("atlas_350"))
    with pytest.raises(ParameterError, match="mode"):
        load(DataCopyExtParams(1, 8), padding("half"), mode=2)


# ---- as a kernel calls it -------------------------------------------------------------------------------------------
def tail(op: Op, dtype: Any) -> Any:
    """The eighth 4-byte word of a block of seven, None if undefined."""
    moved, defined = perform(op, noise(28), np.zeros(32, np.uint8), "GM", "UB")
    return moved.view(dtype)[-1] if defined[-1] else None


def test_the_pad_register_is_sticky() -> None:
    params, plain = DataCopyExtParams(1, 28), padding("float")
    with recording("atlas_350") as stage:
        ub, gm = Tensor(stage.local["UB"], "float"), Tensor(stage.a, "float")
        data_copy_pad(ub, gm, params, plain)
        set_pad_value(2.5)
        data_copy_pad(ub, gm, params, plain)
        data_copy_pad(ub, gm, params, padding("float", True, 0, 1, 4.0))
        data_copy_pad(ub, gm, params, plain)
        set_pad_value(-0.0)
        data_copy_pad(ub, gm, params, plain)
        set_pad_value(0.0)
        data_copy_pad(ub, gm, params, plain)
        first, second, third, fourth, fifth, sixth = stage.ops
    assert tail(first, np.float32).view(np.uint32) == noise(28).view(np.uint32)[0]
    assert [tail(op, np.float32) for op in (second, third, fourth)] == [2.5, 4.0, 4.0]
    assert [np.signbit(tail(op, np.float32)) for op in (fifth, sixth)] == [True, False]


def test_all_spellings_of_a_call() -> None:
    params, pad = DataCopyExtParams(2, 20), padding("half", True, 1, 1, 0)
    with recording("atlas_350") as stage:
        ub, gm = Tensor(stage.local["UB"], "half"), Tensor(stage.b, "half")
        data_copy_pad(ub, gm, params, pad)
        data_copy_pad(ub, gm, data_copy_params=params, pad_params=pad)
        data_copy_pad(gm, ub, params)
        data_copy_pad(ub, gm, DataCopyParams(2, 20), DataCopyPadParams())
        data_copy_pad(gm, ub, params, mode=PaddingMode.Compact)
        assert len(stage.ops) == 5
        assert stage.ops[2].reads != stage.ops[4].reads


@pytest.mark.parametrize(
    ("error", "params", "pad"),
    [
        (ParameterError, DataCopyExtParams(1, 8), None),
        (ParameterError, DataCopyExtParams(1, 8), DataCopyPadParams()),
        (ParameterError, DataCopyParams(1, 8), padding("half")),
        (ParameterError, 8, padding("half")),
        (ParameterError, DataCopyExtParams(1, -8), padding("half")),
    ],
)
def test_arguments_that_do_not_go_together(error: type, params: Any, pad: Any) -> None:
    with recording("atlas_350") as stage:
        with pytest.raises(error):
            data_copy_pad(Tensor(stage.local["UB"], "half"), Tensor(stage.a, "half"), params, pad)
        with pytest.raises(ParameterError, match="no padding"):
            data_copy_pad(
                Tensor(stage.a, "half"), Tensor(stage.local["UB"], "half"), DataCopyExtParams(1, 8), padding("half")
            )
        assert stage.ops == []


def test_addresses_are_checked() -> None:
    with recording("atlas_a2") as stage:
        ub, gm = stage.local["UB"], stage.a
        with pytest.raises(AlignmentError):
            data_copy_pad(Tensor(ub, "int8", 4), Tensor(gm, "int8"), DataCopyExtParams(1, 4), padding("int8"))
        with pytest.raises(OutOfBoundsError):
            data_copy_pad(Tensor(ub, "int8"), Tensor(gm, "int8", 4090), DataCopyExtParams(1, 8), padding("int8"))
        data_copy_pad(Tensor(ub, "int8", 32), Tensor(gm, "int8", 4089), DataCopyExtParams(1, 7), padding("int8"))
        assert len(stage.ops) == 1
