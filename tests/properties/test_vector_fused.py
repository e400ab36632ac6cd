"""Vector functions of several steps against references that go element by element (pages; spec api_semantics.md 25)."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.kernel import api_vector_fused as fused
from aicore_sim.kernel.api_bilinear import bilinear_interpolation
from aicore_sim.kernel.api_vector import BinaryRepeatParams, UnaryRepeatParams, cast
from aicore_sim.kernel.enums import RoundMode
from aicore_sim.kernel.system import init_soc_state, set_mask_count
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

Array = NDArray[Any]
NUMPY = {"half": np.float16, "float": np.float32, "int16": np.int16, "int32": np.int32, "uint16": np.uint16,
         "uint32": np.uint32, "int8": np.int8, "uint8": np.uint8, "int64": np.int64}  # fmt: skip
ROOM = 8192


def ub(dtype: str, content: Any, **more: Any) -> Place:
    return Place("VECCALC", dtype, content, **more)


def numbers(dtype: str, count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype in ("half", "float"):
        values = rng.normal(0, 30, count).astype(NUMPY[dtype])
        values[rng.integers(0, count, 3)] = [0.0, -0.0, 65504.0]
        return values
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(max(info.min, -70000), min(info.max, 70000), count, endpoint=True).astype(NUMPY[dtype])


def wrap(value: int, dtype: str) -> int:
    info = np.iinfo(NUMPY[dtype])
    return (value - info.min) % (info.max - info.min + 1) + info.min


def plus(a: Any, b: Any, dtype: str) -> Any:
    return NUMPY[dtype](a + b) if dtype in ("half", "float") else wrap(int(a) + int(b), dtype)


def times(a: Any, b: Any, dtype: str) -> Any:
    return NUMPY[dtype](a * b) if dtype in ("half", "float") else wrap(int(a) * int(b), dtype)


def above(x: Any) -> Any:
    return x if x > 0 or x != x else type(x)(0)


def clamp(x: float, dtype: str) -> int:
    """Nearest even, clamped, NaN to 0: a conversion to 8 bits."""
    info = np.iinfo(NUMPY[dtype])
    if math.isnan(x):
        return 0
    return int(info.min if x < info.min else info.max if x > info.max else round(x))


# name -> (pairs of source and destination by card, what it computes of (dst, a, b) in the source type)
A2 = ["atlas_a2", "atlas_a3"]
CASES: list[tuple[str, str, str, list[str]]] = [
    *[(name, t, t, list(CARDS)) for name in ("add_relu", "sub_relu", "fused_mul_add", "fused_mul_add_relu", "mul_add_dst")
      for t in ("half", "float")],
    *[(name, "int16", "int16", [*A2, "atlas_350"]) for name in ("add_relu", "sub_relu")],
    *[("mul_add_dst", t, t, ["atlas_200i"]) for t in ("int16", "uint16", "int32", "uint32")],
    ("mul_add_dst", "half", "float", [*A2, "atlas_350"]),
    *[("mul_cast", "half", t, list(CARDS)) for t in ("int8", "uint8")],
    *[(name, "half", "int8", list(CARDS)) for name in ("add_relu_cast", "sub_relu_cast")],
    *[(name, "float", "half", list(CARDS)) for name in ("add_relu_cast", "sub_relu_cast")],
    *[(name, "int16", "int8", [*A2, "atlas_350"]) for name in ("add_relu_cast", "sub_relu_cast")],
]  # fmt: skip


def one(name: str, src: str, dst: str, old: Any, a: Any, b: Any) -> Any:
    """One element of the result."""
    if name == "mul_add_dst":
        kind = NUMPY[dst]
        return plus(times(kind(a), kind(b), dst), old, dst)
    if name in ("fused_mul_add", "fused_mul_add_relu"):
        found = plus(times(a, old, src), b, src)
        return above(found) if name.endswith("relu") else found
    if name == "mul_cast":
        return clamp(float(times(a, b, src)), dst)
    minus = name.startswith("sub")
    found = above(plus(a, -b if src in ("half", "float") else -int(b), src) if minus else plus(a, b, src))
    if not name.endswith("cast"):
        return found
    return NUMPY[dst](found) if dst == "half" else clamp(float(found), dst)


@PROPERTY
@given(st.sampled_from(CASES), st.data())
def test_fused_functions_element_by_element(case: Any, data: st.DataObject) -> None:
    name, src, dst, cards = case
    card = data.draw(st.sampled_from(cards))
    seed = data.draw(st.integers(0, 999))
    wide = max(np.dtype(NUMPY[src]).itemsize, np.dtype(NUMPY[dst]).itemsize)
    per_repeat, total = 256 // wide, 600
    a, b, old = numbers(src, total, seed), numbers(src, total, seed + 1), numbers(dst, total, seed + 2)
    reads_dst = name in ("mul_add_dst", "fused_mul_add", "fused_mul_add_relu")
    stage = Stage(card, {"a": ub(src, a), "b": ub(src, b), "dst": ub(dst, old, written=True)})
    call = getattr(fused, name)
    expected = old.copy()
    with np.errstate(all="ignore"):
        if data.draw(st.booleans()):
            count = data.draw(st.integers(1, total))
            chosen = range(count)
            stage.call(lambda: call(stage["dst"], stage["a"], stage["b"], count))
        else:
            counter = data.draw(st.booleans())
            repeats = data.draw(st.integers(1, 600 // per_repeat))
            mask = data.draw(st.integers(1, repeats * per_repeat if counter else per_repeat))
            if counter:
                stage.call(set_mask_count)
                chosen = range(mask)
            else:
                chosen = [r * per_repeat + e for r in range(repeats) for e in range(mask)]
            eights = [8 * np.dtype(NUMPY[t]).itemsize // wide for t in (dst, src, src)]
            strides = BinaryRepeatParams(1, 1, 1, *eights)
            stage.call(lambda: call(stage["dst"], stage["a"], stage["b"], mask, repeats, strides))
        for i in chosen:
            expected[i] = one(name, src, dst, old[i], a[i], b[i])
    found = stage.words("dst").view(expected.dtype)
    assert np.array_equal(found, expected, equal_nan=dst in ("half", "float"))
    assert stage.ops[0].reads[0][0] == (0 if reads_dst else 1)


@pytest.mark.parametrize(("name", "card", "types"), [
    ("add_relu", "atlas_200i", ("int16", "int16", "int16")), ("mul_add_dst", "atlas_a2", ("int16", "int16", "int16")),
    ("mul_add_dst", "atlas_200i", ("float", "half", "half")), ("mul_cast", "atlas_a2", ("int8", "float", "float")),
    ("add_relu_cast", "atlas_200i", ("int8", "int16", "int16")), ("fused_mul_add", "atlas_a2", ("int32", "int32", "int32")),
    ("add_deq_relu", "atlas_200i", ("half", "int32", "int32")),
])  # fmt: skip
def test_types_that_are_not_there(name: str, card: str, types: tuple[str, str, str]) -> None:
    stage = Stage(card, dict(zip(("dst", "a", "b"), [ub(t, 1024) for t in types], strict=True)))
    stage.refuses(lambda: getattr(fused, name)(stage["dst"], stage["a"], stage["b"], 8), UnsupportedError, "dtype")


def test_the_sample_of_the_page_rounds_product_and_sum() -> None:
    # FusedMulAdd page: 4.74 * 14.92 - 70.6 = 0.0625 in half; a fused product would give 0.079.
    lines = {name: ub("half", np.array([x] * 16, np.float16)) for name, x in (("a", 4.74), ("b", -70.6), ("dst", 14.92))}
    stage = Stage("atlas_a2", lines)
    stage.call(lambda: fused.fused_mul_add(stage["dst"], stage["a"], stage["b"], 16))
    assert stage.words("dst").view(np.float16).tolist() == [0.0625] * 16


# ---- scales ---------------------------------------------------------------------------------------------------------
def dequantised(x: int, scale: float) -> np.float16:
    f = np.float32
    return np.float16(f(f(f(f(x) * f(2.0**-17)) * f(np.float16(scale))) * f(2.0**17)))


@PROPERTY
@given(st.sampled_from([*A2, "atlas_350"]), st.floats(-4, 4, width=16), st.sampled_from(["cast", "cast_deq", "add_deq_relu"]),
       st.integers(1, 200), st.integers(0, 99))  # fmt: skip
def test_int32_to_half_by_the_scale(card: str, scale: float, name: str, count: int, seed: int) -> None:
    a, b = numbers("int32", 200, seed), numbers("int32", 200, seed + 1)
    stage = Stage(card, {"a": ub("int32", a), "b": ub("int32", b), "dst": ub("half", 400)})
    stage.call(lambda: fused.set_deq_scale(scale))
    with np.errstate(all="ignore"):
        if name == "cast":
            stage.call(lambda: cast(stage["dst"], stage["a"], RoundMode.CAST_NONE, count))
            expected = [dequantised(int(x), scale) for x in a]
        elif name == "cast_deq":
            stage.call(lambda: fused.cast_deq(stage["dst"], stage["a"], count))
            expected = [dequantised(int(x), scale) for x in a]
        else:
            stage.call(lambda: fused.add_deq_relu(stage["dst"], stage["a"], stage["b"], count))
            expected = [above(dequantised(int(x) + int(y), scale)) for x, y in zip(a, b, strict=True)]
    found = stage.words("dst").view(np.float16)
    assert np.array_equal(found[:count], np.array(expected[:count]), equal_nan=True)
    assert (stage.bytes("dst")[2 * count :] == SENTINEL).all()


def test_the_worked_example_of_add_deq_relu() -> None:
    # AddDeqRelu page: scale 0.1; 70 + 19, 36 + 33, 43 + 34 -> 8.9, 6.9, 7.7.
    stage = Stage("atlas_350", {"a": ub("int32", np.array([70, 36, 43, -50] * 2, np.int32)),
                                "b": ub("int32", np.array([19, 33, 34, 1] * 2, np.int32)), "dst": ub("half", 32)})  # fmt: skip
    stage.call(lambda: fused.set_deq_scale(0.1), lambda: fused.add_deq_relu(stage["dst"], stage["a"], stage["b"], 4))
    assert np.allclose(stage.words("dst").view(np.float16)[:4], [8.9, 6.9, 7.7, 0.0], atol=5e-3)


def test_the_scale_at_the_start() -> None:
    places = {"a": ub("int32", np.arange(8, dtype=np.int32)), "dst": ub("half", 32)}
    stage = Stage("atlas_a2", places)
    stage.refuses(lambda: cast(stage["dst"], stage["a"], RoundMode.CAST_NONE, 8), ParameterError, "scale")
    stage = Stage("atlas_350", places)
    stage.call(lambda: fused.set_deq_scale(2.0), init_soc_state, lambda: cast(stage["dst"], stage["a"], RoundMode.CAST_RINT, 8))
    assert stage.words("dst").view(np.float16)[:8].tolist() == list(range(8))
    assert Stage("atlas_200i", places).refuses(lambda: fused.set_deq_scale(1.0), UnsupportedError, "api")


def test_forms_of_set_deq_scale() -> None:
    stage = Stage("atlas_a2", {"t": ub("uint64", 128), "f": ub("float", 128)})
    info = fused.VdeqInfo([1.0] * 16, [0] * 16, [True] * 16)
    for arguments, field in [((), "arguments"), ((1.0, 2, True, 4), "arguments"), ((stage["f"], info), "vdeq"),
                             ((stage["t"], 5), "vdeq"), ((1.0, 256, True), "offset"), ((1.0, -257, False), "offset")]:  # fmt: skip
        stage.refuses(lambda a=arguments: fused.set_deq_scale(*a), ParameterError, field)
    for name in ("scale", "offset", "sign_mode"):
        wrong = {"scale": [1.0] * 16, "offset": [0] * 16, "sign_mode": [True] * 16} | {name: [1] * 15}
        with pytest.raises(ParameterError) as caught:
            fused.VdeqInfo(**wrong)
        assert caught.value.field == name


@PROPERTY
@given(st.sampled_from([*A2, "atlas_350"]), st.sampled_from(["int8", "uint8"]), st.booleans(), st.floats(-3, 3, width=32),
       st.integers(-256, 255), st.data())  # fmt: skip
def test_int16_to_8_bits_lane_by_lane(card: str, dst: str, half: bool, scale: float, offset: int, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 99))
    vector = data.draw(st.booleans())
    values = np.random.default_rng(seed).integers(-300, 300, 512).astype(np.int16)
    stage = Stage(card, {"src": ub("int16", values), "dst": ub(dst, 1024), "table": ub("uint64", 128)})
    scales = [scale] * 16 if not vector else [scale + k / 8 for k in range(16)]
    offsets = [offset] * 16 if not vector else [(offset + 7 * k + 256) % 512 - 256 for k in range(16)]
    if vector:
        # The scalar unit writes the table; here it is put in place.
        words = [fused.cast_dequant.config_word(s, o, dst == "int8", stage.card) for s, o in zip(scales, offsets, strict=True)]
        buffer, at = stage.memories["UB"], stage["table"].offset
        buffer.bytes()[at : at + 128] = np.array(words, np.uint64).view(np.uint8)
        assert buffer.shadow is not None
        buffer.shadow[at : at + 128] = 1
        stage.recorder.state["deq_scale"] = fused.DeqScale(table=stage["table"], signs=frozenset({dst == "int8"}))
    else:
        stage.call(lambda: fused.set_deq_scale(scale, offset, dst == "int8"))
    if data.draw(st.booleans()):
        count = data.draw(st.integers(1, 512))
        chosen = {e: (e // 16 * 32 + e % 16, e) for e in range(count)}
        stage.call(lambda: fused.cast_deq(stage["dst"], stage["src"], count, vector, half))
    else:
        repeats, mask = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 128))
        chosen = {r * 128 + e: (r * 256 + e // 16 * 32 + e % 16, r * 128 + e) for r in range(repeats) for e in range(mask)}
        stage.call(lambda: fused.cast_deq(stage["dst"], stage["src"], mask, repeats, UnaryRepeatParams(), is_vec_deq=vector,
                                          half_block=half))  # fmt: skip
    expected, written = np.full(1024, SENTINEL, np.uint8), np.zeros(1024, np.bool_)
    for byte, e in chosen.values():
        bits = struct.unpack("<I", struct.pack("<f", scales[e % 16]))[0] & ~0x1FFF
        m = np.frombuffer(struct.pack("<I", bits), np.float32)[0]
        x = np.float32(np.float32(values[e]) * m) + np.float32(offsets[e % 16])
        to = byte + (16 if half else 0)
        expected[to] = clamp(float(x), dst) & 0xFF
        written[to] = True
    assert np.array_equal(stage.bytes("dst"), expected)
    assert np.array_equal(stage.defined("dst"), written)


def test_cast_deq_refuses_what_the_register_does_not_hold() -> None:
    stage = Stage("atlas_a2", {"src": ub("int16", 512), "dst": ub("int8", 512), "wide": ub("int32", 512)})
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["src"], 8), ParameterError, "is_vec_deq")
    stage.call(lambda: fused.set_deq_scale(1.0))
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["src"], 8, False), ParameterError, "is_vec_deq")
    stage.call(lambda: fused.set_deq_scale(1.0, 0, False))
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["src"], 8, False), ParameterError, "sign_mode")
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["wide"], 8, False), UnsupportedError, "dtype")
    stage.call(lambda: fused.set_deq_scale(1.0, 0, True))
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["src"], -1, False), ParameterError, "count")
    stage.refuses(lambda: fused.cast_deq(stage["dst"], stage["src"], 8, 256, UnaryRepeatParams(), is_vec_deq=False), ParameterError,
                  "repeat_times")  # fmt: skip


# ---- bilinear_interpolation -----------------------------------------------------------------------------------------
@PROPERTY
@given(st.sampled_from([*A2, "atlas_350"]), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(1, 2),
       st.sampled_from([128, 144, 256]), st.integers(1, 128), st.integers(0, 99))  # fmt: skip
def test_bilinear_step_by_step(card: str, h: int, v: int, mode: bool, block: int, pitch: int, mask: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src0, src1 = rng.normal(0, 5, 1024).astype(np.float16), rng.normal(0, 5, 128).astype(np.float16)
    offsets = (32 * rng.integers(0, 64, 8 * h * v)).astype(np.uint32)
    places = {"src0": ub("half", src0), "off": ub("uint32", offsets), "src1": ub("half", src1), "tmp": ub("uint8", noise(8192)),
              "dst": ub("half", ROOM)}  # fmt: skip
    stage = Stage(card, places)
    stage.call(lambda: bilinear_interpolation(stage["dst"], stage["src0"], stage["off"], stage["src1"], mask, h, mode, block,
                                              pitch, v, stage["tmp"]))  # fmt: skip
    out, written = np.zeros(ROOM // 2, np.float16), np.zeros(ROOM // 2, np.bool_)
    for k in range(v):
        for e in range(mask):
            total = np.float16(0)
            for i in range(h):
                step, lane = k * h + i, e // 16
                x = src0[offsets[8 * step + lane] // 2 + e % 16]
                total = np.float16(total + np.float16(x * src1[8 * step + lane if mode else step]))
            at = k * pitch + lane * block * 16 + e % 16
            out[at], written[at] = total, True
    found = stage.words("dst").view(np.float16)
    assert np.array_equal(found[written], out[written])
    assert (stage.words("dst")[~written] == 0xA5A5).all()
    assert np.array_equal(stage.defined("dst").reshape(-1, 2).all(axis=1), written)
    spoiled = 0 if card == "atlas_350" else 256 * h * v + 128 * 32
    assert np.array_equal(stage.defined("tmp"), np.arange(8192) >= spoiled)


@pytest.mark.parametrize(("field", "arguments"), [
    ("h_repeat", {"h": 0}), ("h_repeat", {"h": 256}), ("v_repeat", {"v": 0}), ("v_r_offset", {"pitch": 127}),
    ("v_r_offset", {"pitch": 65535}), ("v_r_offset", {"pitch": 136}), ("dst_blk_stride", {"block": 0}),
    ("dst_blk_stride", {"block": 65536}), ("mask", {"mask": -1}),
])  # fmt: skip
def test_bilinear_refuses(field: str, arguments: Any) -> None:
    places = {"src0": ub("half", 1024), "off": ub("uint32", 1024), "src1": ub("half", 1024), "tmp": ub("uint8", 1024),
              "dst": ub("half", 1024)}  # fmt: skip
    given = {"mask": 128, "h": 1, "block": 1, "pitch": 128, "v": 1} | arguments
    stage, other = Stage("atlas_a2", places), Stage("atlas_200i", places)

    def call(on: Stage, offsets: str, mask: int, h: int, block: int, pitch: int, v: int) -> None:
        tensors = on["dst"], on["src0"], on[offsets], on["src1"]
        bilinear_interpolation(*tensors, mask, h, False, block, pitch, v, on["tmp"])

    stage.refuses(lambda: call(stage, "off", **given), ParameterError, field)
    stage.refuses(lambda: call(stage, "src1", 128, 1, 1, 128, 1), ParameterError, "dtype")
    other.refuses(lambda: call(other, "off", 128, 1, 1, 128, 1), UnsupportedError)
