"""NDDMA against a walk over every position of every dimension (spec api_semantics.md 10.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from tests.properties.picture import Picture
from tests.properties.profile import PROPERTY
from tests.stage import Place, Stage, noise

DTYPES = ("int8", "uint8", "hifloat8", "fp8_e5m2", "fp8_e4m3fn", "fp8_e8m0", "int16", "uint16", "half", "bfloat16", "int32",
          "uint32", "float", "int64", "uint64", "double")  # fmt: skip


HIF8 = {0: 0x00, 1: 0x08, 2: 0x10, 4: 0x20, 16: 0x40}
"""Codes of a few numbers in HiFloat8."""


def pattern(dtype: str, value: int) -> bytes:
    kinds = {"half": np.float16, "float": np.float32, "double": np.float64}
    if dtype in kinds:
        return np.array(value, kinds[dtype]).tobytes()
    if dtype == "bfloat16":
        return (int(np.float32(value).view(np.uint32)) >> 16).to_bytes(2, "little")
    if dtype == "hifloat8":
        return bytes([HIF8[value]])
    return value.to_bytes(DataType(dtype).sizeof(), "little", signed=value < 0)


@st.composite
def nests(draw: Any) -> dict[str, Any]:
    """Loops whose destinations do not meet: strides are laid out for a random order of the dimensions."""
    dtype = draw(st.sampled_from(DTYPES))
    dims = draw(st.integers(1, 5))
    most = {1: 20, 2: 6, 3: 4, 4: 3, 5: 2}[dims]
    sizes = [draw(st.integers(1, most)) for _ in range(dims)]
    wide = DataType(dtype).bits == 64
    nearest = not wide and draw(st.booleans())
    own = [[draw(st.integers(0, 2)) for _ in range(dims)] for _ in range(2)]
    config = [draw(st.sampled_from([0xFFFF, 0xFFFF, 0, 1])) for _ in range(2)]
    if wide:
        config = [0xFFFF if draw(st.booleans()) else 0 for _ in range(2)]
    left, right = ([config[i]] * dims if config[i] != 0xFFFF else own[i] for i in range(2))
    order = draw(st.permutations(range(dims)))
    dst, reach = [0] * dims, 1
    for dim in order:
        dst[dim] = reach + draw(st.integers(0, 2))
        reach += (left[dim] + sizes[dim] + right[dim] - 1) * dst[dim]
    src = [draw(st.sampled_from([0, 1, 2, 3, 7])) for _ in range(dims)]
    values: Any = st.integers(0, 100)
    if wide or dtype.startswith("fp8"):
        values = st.just(0)
    elif dtype == "hifloat8":
        values = st.sampled_from(list(HIF8))
    value = None if draw(st.integers(0, 4)) == 0 else draw(values)
    return {"dtype": dtype, "src": src, "dst": dst, "size": sizes, "own": own, "left": left, "right": right,
            "config": config, "nearest": nearest, "value": value, "reach": reach}  # fmt: skip


def build(m: dict[str, Any]) -> tuple[Any, Any]:
    loop = asc.NdDmaLoopInfo(m["src"], m["dst"], m["size"], *m["own"])
    return asc.NdDmaParams(loop, m["value"]), asc.NdDmaConfig(m["nearest"], *m["config"])


def expect(picture: Picture, m: dict[str, Any]) -> None:
    size = DataType(m["dtype"]).sizeof()
    extents = [range(lp + n + rp) for lp, n, rp in zip(m["left"], m["size"], m["right"], strict=True)]
    for places in product(*reversed(extents)):
        p = list(reversed(places))
        at = sum(a * b for a, b in zip(p, m["dst"], strict=True)) * size
        q = [a - lp for a, lp in zip(p, m["left"], strict=True)]
        inside = all(0 <= a < n for a, n in zip(q, m["size"], strict=True))
        if inside or m["nearest"]:
            held = [min(max(a, 0), n - 1) for a, n in zip(q, m["size"], strict=True)]
            picture.copy(at, sum(a * b for a, b in zip(held, m["src"], strict=True)) * size, size)
        elif m["value"] is None:
            picture.undefined(at, size)
        else:
            picture.put(at, pattern(m["dtype"], m["value"]))


def staged(m: dict[str, Any], **modes: Any) -> Stage:
    size = DataType(m["dtype"]).sizeof()
    last = sum((n - 1) * s for n, s in zip(m["size"], m["src"], strict=True))
    return Stage("atlas_350", {"src": Place("GM", m["dtype"], noise((last + 1) * size)),
                               "dst": Place("VECIN", m["dtype"], m["reach"] * size)}, **modes)  # fmt: skip


@PROPERTY
@given(nests())
def test_every_position(m: dict[str, Any]) -> None:
    stage = staged(m)
    picture = Picture(stage)
    expect(picture, m)
    params, config = build(m)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params, config))
    picture.check(stage)


@PROPERTY
@given(nests(), st.data())
def test_one_number_outside_its_range(m: dict[str, Any], data: Any) -> None:
    assume(DataType(m["dtype"]).bits < 64)
    params, config = build(m)
    field, bad = data.draw(st.sampled_from([
        ("loop_src_stride", 2**40), ("loop_src_stride", -1), ("loop_dst_stride", 2**20), ("loop_dst_stride", -1),
        ("loop_size", 0), ("loop_size", 2**20), ("loop_lp_size", 256), ("loop_lp_size", -1), ("loop_rp_size", 256),
        ("loop_rp_size", -1),
    ]))  # fmt: skip
    column = list(getattr(params.loop_info, field))
    column = column if len(column) == len(m["size"]) else column * len(m["size"])
    column[data.draw(st.integers(0, len(column) - 1))] = bad
    loop = replace(params.loop_info, **{field: column})
    stage = staged(m)
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], replace(params, loop_info=loop), config), ParameterError, field)
    for name in ("loop_lp_size", "loop_rp_size"):
        wrong = replace(config, **{name: data.draw(st.sampled_from([256, 65534, -1]))})
        stage.refuses(lambda wrong=wrong: asc.data_copy(stage["dst"], stage["src"], params, wrong), ParameterError, name)


@PROPERTY
@given(st.sampled_from(["int64", "uint64", "double"]), st.integers(1, 3), st.lists(st.integers(1, 3), min_size=1, max_size=4),
       st.integers(0, 2), st.integers(0, 2))  # fmt: skip
def test_config_pads_inside_long_elements(dtype: str, apart: int, sizes: list[int], left: int, right: int) -> None:
    """The implementation's reading up to four dimensions: one more loop of the two words, padded too; later writes stay."""
    dims = len(sizes)
    src = [int(np.prod(sizes[:i], dtype=int)) for i in range(dims)]
    dst, reach = [], 1
    for n in sizes:
        dst.append(reach if not dst else reach * apart)
        reach = dst[-1] * (left + n + right)
    words = 2 * reach + left + right + 2
    assume(words <= 20000)
    places = {"src": Place("GM", dtype, noise(int(np.prod(sizes)) * 8)), "dst": Place("VECIN", dtype, (words + 1) // 2 * 8)}
    stage = Stage("atlas_350", places, quirks="nddma-b64-config-pads")
    picture = Picture(stage)
    loops = [(1, 1, 2), *[(2 * s, 2 * d, n) for s, d, n in zip(src, dst, sizes, strict=True)]]
    for position in product(*[range(left + n + right) for _, _, n in reversed(loops)]):
        p = list(reversed(position))
        at = sum(a * d for a, (_, d, _) in zip(p, loops, strict=True)) * 4
        if all(left <= a < left + n for a, (_, _, n) in zip(p, loops, strict=True)):
            picture.copy(at, sum((a - left) * s for a, (s, _, _) in zip(p, loops, strict=True)) * 4, 4)
        else:
            picture.put(at, bytes(4))
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(src, dst, sizes), 0)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params, config=asc.NdDmaConfig(False, left, right)))
    picture.check(stage)


@PROPERTY
@given(st.integers(1, 20), st.integers(256, 1000))
def test_wide_pads_wrap_like_the_field(size: int, pad: int) -> None:
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, size, 0, pad), 0)
    places = {"src": Place("GM", "half", noise(2 * size)), "dst": Place("VECIN", "half", 2 * (size + 256))}
    refusing, stage = Stage("atlas_350", places), Stage("atlas_350", places, wrap="hardware")
    refusing.refuses(lambda: asc.data_copy(refusing["dst"], refusing["src"], params), ParameterError, "loop_rp_size")
    picture = Picture(stage)
    picture.copy(0, 0, 2 * size)
    picture.put(2 * size, bytes(2 * (pad % 256)))
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params))
    picture.check(stage)
    assert any("8 bits" in text for text in stage.warnings)


@PROPERTY
@given(st.sampled_from(["int8", "uint16", "int32", "int64", "uint64"]), st.integers())
def test_constants_keep_the_bits_of_their_type(dtype: str, value: int) -> None:
    """On hardware; 64-bit types pass on 0 whatever is given (spec 10.5)."""
    size = DataType(dtype).sizeof()
    element = bytes(8) if size == 8 else (value % 256**size).to_bytes(size, "little")
    fits = value == 0 if size == 8 else int.from_bytes(element, "little", signed=dtype[0] == "i") == value
    places = {"src": Place("GM", dtype, noise(4 * size)), "dst": Place("VECIN", dtype, 8 * size)}
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 4, 1, 2), value)
    stage = Stage("atlas_350", places, wrap="hardware")
    picture = Picture(stage)
    picture.put(0, element * 7)
    picture.copy(size, 0, 4 * size)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params))
    picture.check(stage)
    assert bool(stage.warnings) != fits
    if not fits:
        plain = Stage("atlas_350", places)
        plain.refuses(lambda: asc.data_copy(plain["dst"], plain["src"], params), ParameterError, "constant_value")


# ---- constants ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dtype", "value", "byte"), [("hifloat8", 14, 0x2E), ("hifloat8", -2, 0x90), ("fp8_e4m3fn", 1.0, 0x38),
                                                      ("fp8_e5m2", 1.0, 0x3C), ("fp8_e8m0", 0, 0), ("fp8_e8m0", 1.0, 127),
                                                      ("int8", -1, 0xFF)])  # fmt: skip
def test_constants_of_eight_bits(dtype: str, value: float, byte: int) -> None:
    stage = Stage("atlas_350", {"src": Place("GM", dtype, noise(4)), "dst": Place("VECIN", dtype, 6)})
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 4, 1, 1), value)
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], params))
    assert stage.bytes("dst").tolist() == [byte, *stage.bytes("src").tolist(), byte]


@pytest.mark.parametrize(("dtype", "value"), [("fp8_e8m0", -1), ("int8", 128), ("uint16", -1), ("int32", 0.5)])
def test_constants_that_do_not_fit(dtype: str, value: float) -> None:
    stage = Stage("atlas_350", {"src": Place("GM", dtype, noise(16)), "dst": Place("VECIN", dtype, 64)})
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 4, 1, 1), value)
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], params), ParameterError, "constant_value")


def test_four_bits_and_other_cards() -> None:
    params = asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 4), 0)
    stage = Stage("atlas_350", {"src": Place("GM", "fp4x2_e2m1", noise(16)), "dst": Place("VECIN", "fp4x2_e2m1", 64)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], params), UnsupportedError, "dtype")
    for card in ("atlas_a2", "atlas_a3", "atlas_200i"):
        old = Stage(card, {"src": Place("GM", "half", noise(16)), "dst": Place("VECIN", "half", 64)})
        old.refuses(lambda old=old: asc.data_copy(old["dst"], old["src"], params), UnsupportedError, "api")


def test_singleton_strides_reach_nowhere() -> None:
    """Profile of the page: of dimensions of size 1 the stride does not count, doubling any other one moves the end."""
    for dim, end in ((None, 342), (0, 343), (1, 346), (2, 358), (3, 406), (4, 598)):
        strides = [1, 4, 16, 64, 256]
        if dim is not None:
            strides[dim] *= 2
        for bytes_ in (end - 1, end):
            stage = Stage("atlas_350", {"src": Place("GM", "int8", noise(bytes_)), "dst": Place("VECIN", "int8", 32)})
            params = asc.NdDmaParams(asc.NdDmaLoopInfo(strides, [1, 2, 4, 8, 16], [2] * 5), 0)
            call = partial(asc.data_copy, stage["dst"], stage["src"], params)
            if bytes_ < end:
                stage.refuses(call, OutOfBoundsError)
            else:
                stage.call(call)
    far = asc.NdDmaParams(asc.NdDmaLoopInfo([1, 2**39, 2**39, 2**39, 2**39], [1, 2, 4, 8, 16], [2, 1, 1, 1, 1]), 0)
    stage = Stage("atlas_350", {"src": Place("GM", "int8", noise(2)), "dst": Place("VECIN", "int8", 2)})
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], far))
    assert stage.bytes("dst").tolist() == stage.bytes("src").tolist()
