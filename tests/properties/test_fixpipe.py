"""Fixpipe and DataCopy out of L0C, element by element (spec api_semantics.md 12.2 to 12.4).

The reference walks over matrices, rows and columns, takes one number out of L0C, converts it in float32 steps and puts it
where the table of 12.2 says; bytes that no element goes to must stay.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError, ParameterError, UnsupportedError
from aicore_sim.instructions.fixpipe import (
    DataCopyCO12DstParams,
    FixpipeConfig,
    FixpipeParamsArch3510,
    FixpipeParamsV220,
    Nz2DnParams,
    Nz2NdParams,
)
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.kernel.api_cube import fixpipe
from aicore_sim.kernel.cube_registers import (
    set_fix_pipe_clip_relu,
    set_fix_pipe_config,
    set_fix_pipe_pre_quant_flag,
    set_fixpipe_nz2nd_flag,
)
from aicore_sim.kernel.enums import QuantModes
from aicore_sim.narrow_floats import encode
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage

Draw = Any
NZ, ND, DN = 0, 1, 2
COMMON = [("float", "float", "NoQuant"), ("int32", "int32", "NoQuant"), ("float", "half", "F322F16"),
          ("float", "bfloat16", "F322BF16"), ("int32", "half", "DEQF16"),
          *(("int32", out, "REQ8") for out in ("int8", "uint8")),
          *(("float", out, "QF322B8_PRE") for out in ("int8", "uint8"))]  # fmt: skip
ONLY_350 = [("int32", "bfloat16", "QS322BF16_PRE"), ("float", "half", "QF322F16_PRE"), ("float", "bfloat16", "QF322BF16_PRE"),
            ("float", "float", "QF322F32_PRE"), ("float", "fp8_e4m3fn", "QF322FP8_PRE"), ("float", "hifloat8", "QF322HIF8_PRE"),
            ("float", "hifloat8", "QF322HIF8_PRE_HYBRID")]  # fmt: skip
PLAIN = ("NoQuant", "F322F16", "F322BF16")
FLOATS: dict[str, Any] = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16, "float": np.float32}
FACTORS = (1.0, 0.5, 0.125, 2.0, -0.25, 0.7, 1e-3)


def size_of(dtype: str) -> int:
    return DataType(dtype).sizeof()


# ---- one number ---------------------------------------------------------------------------------------------------
def parameter_word(rng: Any, out: str) -> int:
    """A factor whose low 13 bits are noise, N and MCB at random, an offset, the sign bit of the destination."""
    factor = int(np.array(rng.choice(FACTORS), np.float32).view(np.uint32)) & 0xFFFFE000 | int(rng.integers(0, 0x2000))
    offset = int(rng.integers(-256, 256)) & 0x1FF
    return factor | int(rng.integers(0, 32)) << 32 | offset << 37 | (out == "int8") << 46


def converted(x: Any, word: int | None, relu: bool, card: str, src: str, out: str, mode: str, clip: float = math.inf) -> Any:
    """The number that becomes of x: a code for 8-bit types, else a value of the type."""
    if word is None:
        y: Any = max(x, type(x)(0)) if relu and x == x else x
        y = min(y, clip) if clip != math.inf else y
    else:
        if src == "int32" and card in ("atlas_a2", "atlas_a3") and word >> 36 & 1:
            x = max(-32768, min(32767, int(x) >> ((word >> 32 & 15) + 1)))
        y = np.float32(x)
        m1 = np.array(word & 0xFFFFE000, np.uint32).view(np.float32)
        y = y * (np.float32(0) if relu and y < 0 else m1)
        y = min(y, np.float32(clip)) if clip != math.inf else y
    if out in ("int8", "uint8"):
        assert word is not None
        whole = 0 if y != y else round(float(max(np.float32(-256), min(np.float32(255), y))))
        offset = (word >> 37 & 0x1FF) - (512 if word >> 45 & 1 else 0)
        lo, hi = (-128, 127) if word >> 46 & 1 else (0, 255)
        return max(lo, min(hi, whole + offset)) & 0xFF
    if out == "int32":
        return int(y)
    if out in ("fp8_e4m3fn", "hifloat8"):
        return int(encode(np.float32(y), out, "hybrid" if mode.endswith("HYBRID") else ""))
    with np.errstate(over="ignore"):
        return FLOATS[out](y)


# ---- one call -----------------------------------------------------------------------------------------------------
def numbers(rng: Any, dtype: str, count: int) -> NDArray[Any]:
    """Contents of L0C: small and large numbers, for float a few that are none."""
    if dtype == "int32":
        small, any_size = rng.integers(-3000, 3000, count), rng.integers(-(2**31), 2**31, count)
        return np.where(rng.random(count) < 0.9, small, any_size).astype(np.int32)
    values = (rng.integers(-4000, 4000, count) / 16).astype(np.float32)
    values[rng.random(count) < 0.03] = np.inf
    values[rng.random(count) < 0.03] = np.nan
    values[rng.random(count) < 0.03] = 7e4
    return values


class Geometry:
    """Where things lie, in elements of L0C and of the destination; `block` is the width of a block of columns in NZ."""

    def __init__(self, layout: int, m: int, n: int, count: int, out: str, split: bool) -> None:
        self.layout, self.m, self.n, self.count = layout, m, n, count
        self.block = 8 if split else 32 if size_of(out) == 1 else 16
        self.src_pitch = self.src_row = self.src_matrix = self.pitch = self.dst_matrix = 0

    def source(self, h: int, m: int, n: int) -> int:
        return h * self.src_matrix + n // 16 * self.src_pitch + m * self.src_row + n % 16

    def target(self, h: int, m: int, n: int) -> int:
        if self.layout == ND:
            return h * self.dst_matrix + m * self.pitch + n
        if self.layout == DN:
            return h * self.dst_matrix + n * self.pitch + m
        return n // self.block * self.pitch + m * self.block + n % self.block

    def open_bytes(self, n: int) -> bool:
        """Whether column n belongs to an odd last block of 8-bit results, whose place is not published."""
        return self.layout == NZ and self.block == 32 and self.n % 32 == 16 and n >= self.n - 16


@st.composite
def calls(draw: Draw, form: str = "fixpipe") -> dict[str, Any]:
    card = draw(st.sampled_from(CARDS))
    new = card == "atlas_350"
    kinds = ["GM", "L1", "UB"] if new else ["GM", "UB"] if card == "atlas_200i" else ["GM", "L1"]
    if form == "copy":
        kinds = ["GM", "L1"]
    kind = draw(st.sampled_from(kinds))
    arch = form == "fixpipe" and new and (kind == "UB" or draw(st.booleans()))
    modes = COMMON + (ONLY_350 if new and form == "fixpipe" else [])
    if kind == "L1" and not new:
        modes = [x for x in modes if x[2] != "NoQuant"]
    src, out, mode = draw(st.sampled_from(modes))
    layouts = [NZ] if kind == "L1" and not new else [NZ, ND, DN] if arch else [NZ, ND]
    layout = draw(st.sampled_from(layouts))
    split = layout == NZ and kind == "GM" and (src, out, mode) == ("float", "float", "NoQuant") and draw(st.booleans())
    m, n = draw(st.integers(1, 20)), draw(st.integers(1, 50))
    run = 32 // size_of(out) if kind != "GM" and new else 1
    if layout == NZ:
        n = max(n // (8 if split else 16), 1) * (8 if split else 16)
    elif layout == ND:
        n = max(n // run, 1) * run
    else:
        m = max(m // run, 1) * run
    return {
        "card": card, "kind": kind, "arch": arch, "src": src, "out": out, "mode": mode, "layout": layout, "split": split,
        "m": m, "n": n, "relu": draw(st.booleans()), "table": mode not in PLAIN and draw(st.booleans()),
        "count": 1 if layout == NZ else draw(st.integers(1, 3)), "extra": draw(st.integers(0, 3)),
        "gap": draw(st.integers(0, 3)), "c0": draw(st.integers(1, 3)) if layout == DN else 1, "seed": draw(st.integers(0, 999)),
        "shares": draw(st.integers(1, 5)), "hole": draw(st.booleans()),
    }  # fmt: skip


def laid_out(case: dict[str, Any], matrix_unit: int) -> Geometry:
    """Strides for a call: blocks `extra` units apart, matrices at the next multiple of `matrix_unit` elements of L0C."""
    g = Geometry(case["layout"], case["m"], case["n"], case["count"], case["out"], case["split"])
    g.src_row = 16 * case["c0"]
    g.src_pitch = (g.m * case["c0"] + case["gap"]) * 16
    blocks = -(-g.n // 16)
    g.src_matrix = -(-blocks * g.src_pitch // matrix_unit) * matrix_unit
    if g.layout == NZ:
        g.pitch = g.m * g.block + case["extra"] * 32 // size_of(case["out"])
    else:
        g.pitch = (g.n if g.layout == ND else g.m) + case["extra"]
        g.dst_matrix = g.pitch * (g.m if g.layout == ND else g.n) + case["extra"]
    return g


def parameters(case: dict[str, Any], g: Geometry, word: int) -> tuple[Any, FixpipeConfig]:
    new = case["card"] == "atlas_350"
    mode = QuantModes[("V" if case["table"] else "") + case["mode"]]
    common: dict[str, Any] = dict(n_size=g.n, m_size=g.m, src_stride=g.src_pitch // 16, quant_pre=mode, deq_scalar=word,
                                  relu_en=case["relu"], is_channel_split=case["split"])  # fmt: skip
    config = FixpipeConfig(g.layout, new and case["kind"] == "UB")
    if not case["arch"]:
        stride = g.pitch * size_of(case["out"]) // 32 if g.layout == NZ else g.pitch
        return FixpipeParamsV220(**common, dst_stride=stride, nd_num=g.count, src_nd_stride=g.src_matrix // 256,
                                 dst_nd_stride=g.dst_matrix), config  # fmt: skip
    inner: Any = 0
    if g.layout == ND:
        inner = Nz2NdParams(g.count, g.src_matrix // 16, g.dst_matrix)
    elif g.layout == DN:
        inner = Nz2DnParams(g.count, g.src_matrix // 16, g.dst_matrix, case["c0"])
    return FixpipeParamsArch3510(**common, dst_stride=g.pitch, params=inner), config


def check(stage: Stage, case: dict[str, Any], g: Geometry, values: NDArray[Any], words: list[int] | None, hole: int,
          clip: float = math.inf, name: str = "dst") -> None:  # fmt: skip
    """Every element at its place, everything else untouched, undefined exactly what comes from the hole or is not known."""
    out, size = case["out"], size_of(case["out"])
    raw = np.full(stage.bytes(name).size, SENTINEL, np.uint8)
    known = np.full(raw.size, case["kind"] == "GM", np.bool_)
    target: Any = raw.view({"int32": np.int32}.get(out, FLOATS.get(out, np.uint8)))
    marks = known.reshape(-1, size)
    for h in range(g.count):
        for n in range(g.n):
            if g.open_bytes(n):
                continue
            for m in range(g.m):
                at, where = g.source(h, m, n), g.target(h, m, n)
                word = None if words is None else words[n % len(words)]
                target[where] = converted(values[at], word, case["relu"], case["card"], case["src"], out, case["mode"], clip)
                marks[where] = at != hole
    if g.layout == NZ and g.block == 32 and g.n % 32:
        start = g.n // 32 * g.pitch
        known[start : start + 16 * g.m] = False
    got: Any = stage.bytes(name)
    untouched = np.ones(raw.size, np.bool_)
    kind = target.dtype
    if kind in (np.float16, np.float32, ml_dtypes.bfloat16):  # ReLU may give -0: numbers, not bits
        for h in range(g.count):
            places = np.array([[g.target(h, m, n) for n in range(g.n)] for m in range(g.m)])
            np.testing.assert_array_equal(got.view(kind)[places].astype(np.float32), target[places].astype(np.float32), str(case))
            untouched.reshape(-1, size)[places] = False
    np.testing.assert_array_equal(got[untouched], raw[untouched], str(case))
    np.testing.assert_array_equal(stage.defined(name), known, str(case))


def prepared(case: dict[str, Any], g: Geometry, words: list[int]) -> tuple[Stage, NDArray[Any], int]:
    """A stage with L0C, table and destination; the element of L0C that is undefined (-1: none)."""
    rng = np.random.default_rng(case["seed"])
    values = numbers(rng, case["src"], (g.count - 1) * g.src_matrix + -(-g.n // 16) * g.src_pitch + 16)
    last = max(g.target(h, m, n) for h in (0, g.count - 1) for m in (0, g.m - 1) for n in range(g.n))
    position = {"GM": "GM", "L1": "A1", "UB": "VECIN"}[case["kind"]]
    nbytes = -(-(last + 8) * size_of(case["out"]) // 32) * 32
    places = {
        "src": Place("CO1", case["src"], values), "dst": Place(position, case["out"], np.full(nbytes, SENTINEL, np.uint8),
                                                               written=False),
        "table": Place(case.get("table_at", "A1"), "uint64", np.array(words, np.uint64)),
    }  # fmt: skip
    stage = Stage(case["card"], places)
    hole = -1
    if case["hole"]:
        hole = g.source(g.count - 1, g.m // 2, g.n // 2)
        shadow = stage.memories["L0C"].shadow
        assert shadow is not None
        shadow[4 * hole + 1] = 0
    return stage, values, hole


def again_in_shares(stage: Stage, shares: int, count: int = 1) -> None:
    """Perform the last instruction once more on untouched memory, share by share."""
    entry = stage.recorder.program[-1]
    assert entry.op is not None and entry.op.effect is not None
    for which in range(count):
        buffer = entry.bufs[0 if which == 0 else -1]
        _, start, size = stage._at["dst"]
        buffer.bytes()[start : start + size] = SENTINEL
        if buffer.shadow is not None:
            buffer.shadow[start : start + size] = buffer.kind == "GM"
    for share in range(shares):
        entry.op.effect.apply(entry.bufs, entry.offs, share, share + 1, shares)


@PROPERTY
@given(calls())
def test_any_fixpipe(case: dict[str, Any]) -> None:
    unit = 16 if case["arch"] else 256
    g = laid_out(case, unit)
    rng = np.random.default_rng(case["seed"] + 1)
    words = [parameter_word(rng, case["out"]) for _ in range(g.n if case["table"] else 1)]
    takes_word = case["mode"] not in PLAIN
    stage, values, hole = prepared(case, g, words)
    params, config = parameters(case, g, words[0] if takes_word and not case["table"] else 0)
    table = [stage["table"]] if case["table"] else []
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], *table, params, config))
    check(stage, case, g, values, words if takes_word else None, hole)
    op = stage.ops[-1]
    assert op.writes[0][1] >= 0 and op.nbytes == g.count * g.m * g.n * size_of(case["out"])
    if case["kind"] == "GM" and g.layout != NZ:
        row = (g.n if g.layout == ND else g.m) * size_of(case["out"])
        assert op.gm_runs[0][1] == row and np.prod(op.gm_runs[:, 2::2], axis=1).sum() * row == op.nbytes
    again_in_shares(stage, case["shares"])
    check(stage, case, g, values, words if takes_word else None, hole)


@PROPERTY
@given(calls(form="copy"), st.integers(0, 1))
def test_any_copy_out_of_l0c(case: dict[str, Any], clip: int) -> None:
    """DataCopyCO12DstParams: dst_stride in 32 B (NZ), matrices 1024 B (350: 64 B), words and table out of registers."""
    new = case["card"] == "atlas_350"
    case["table_at"] = "C2PIPE2GM"
    g = laid_out(case, 16 if new else 256)
    rng = np.random.default_rng(case["seed"] + 1)
    words = [parameter_word(rng, case["out"]) for _ in range(g.n if case["table"] else 1)]
    takes_word = case["mode"] not in PLAIN
    clip = clip if case["card"] == "atlas_200i" else 0
    bound = float(np.float16(20.5)) if clip else math.inf
    stage, values, hole = prepared(case, g, words)
    params = DataCopyCO12DstParams(
        g.n, g.m, g.pitch * size_of(case["out"]) // 32 if g.layout == NZ else g.pitch, g.src_pitch // 16,
        QuantModes[("V" if case["table"] else "") + case["mode"]], int(case["relu"]), case["split"], g.layout == ND,
        clip_relu_pre=clip,
    )  # fmt: skip
    setup = [lambda: set_fix_pipe_pre_quant_flag(words[0])]
    if case["table"]:
        setup.append(lambda: set_fix_pipe_config(stage["table"]))
    if g.layout == ND:
        setup.append(lambda: set_fixpipe_nz2nd_flag(g.count, g.src_matrix // (16 if new else 256), g.dst_matrix))
    if clip:
        setup.append(lambda: set_fix_pipe_clip_relu(int(np.float16(bound).view(np.uint16))))
    stage.call(*setup, lambda: data_copy(stage["dst"], stage["src"], params))
    check(stage, case, g, values, words if takes_word else None, hole, bound)
    again_in_shares(stage, case["shares"])
    check(stage, case, g, values, words if takes_word else None, hole, bound)


@PROPERTY
@given(
    control=st.sampled_from([1, 2]), layout=st.sampled_from([NZ, ND]), kind=st.sampled_from(COMMON + ONLY_350),
    m=st.integers(1, 10), n=st.integers(1, 2), table=st.booleans(), seed=st.integers(0, 99), shares=st.integers(1, 4),
)  # fmt: skip
def test_two_destinations(
    control: int, layout: int, kind: tuple[str, str, str], m: int, n: int, table: bool, seed: int, shares: int
) -> None:
    """Rows or columns in halves, each a matrix of its own at the same place of both UBs."""
    src, out, mode = ("float", "float", "NoQuant") if layout == NZ else kind
    takes_word = mode not in PLAIN
    case: dict[str, Any] = {
        "card": "atlas_350", "kind": "UB", "arch": True, "src": src, "out": out, "mode": mode, "layout": layout, "split": False,
        "m": 2 * m, "n": 64 * n, "relu": False, "table": takes_word and table, "count": 1, "extra": 0, "gap": 1, "c0": 1,
        "seed": seed, "hole": False,
    }  # fmt: skip
    whole = laid_out(case, 16)
    half = laid_out(case | ({"m": m} if control == 1 else {"n": 32 * n}), 16)
    half.src_pitch, half.pitch = whole.src_pitch, whole.pitch
    rng = np.random.default_rng(seed)
    words = [parameter_word(rng, out) for _ in range(whole.n if case["table"] else 1)]
    stage, values, _ = prepared(case, whole, words)
    params, config = parameters(case, whole, words[0] if takes_word and not table else 0)
    params = replace(params, dual_dst_ctl=control)
    extra = [stage["table"]] if case["table"] else []
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], *extra, params, config))
    for attempt in range(2):
        for which in (0, 1):
            shift = which * (m * 16 if control == 1 else 2 * n * whole.src_pitch)
            mine = words[which * half.n :] if case["table"] and control == 2 else words
            start, size = stage._at["dst"][1:]
            stage._at["dst"] = (stage.ubs[which], start, size)
            if which and attempt == 0:
                stage.ubs[1].bytes()[np.asarray(stage.ubs[1].shadow) == 0] = SENTINEL
            check(stage, case, half, values[shift:], mine if takes_word else None, -1)
        again_in_shares(stage, shares, 2)


# ---- illegal calls ------------------------------------------------------------------------------------------------
V220 = FixpipeParamsV220(32, 16, 16, 32)
ARCH = FixpipeParamsArch3510(32, 16, 16, 512)
INF_WORD, SMALL_WORD = 0x7F800000, 0x00400000
OLD = ("atlas_a2", "atlas_a3", "atlas_200i")
Case = tuple[str, str, str, str, Any, int, type[AiCoreError], str]
FIELDS: dict[str, tuple[Any, ...]] = {
    "n_size": (-1, 4096, 2.0), "m_size": (-1, 65536), "src_stride": (-1, 65536), "dst_stride": (0, 2**32),
    "quant_pre": (-1, 23, True), "deq_scalar": (-1, 2**64), "unit_flag": (-1, 1, 4),
}  # fmt: skip
ILLEGAL: list[Case] = [
    *((card, "float", "float", "GM", replace(V220, **{field: value}), NZ, ParameterError, field)
      for card in CARDS for field, values in FIELDS.items() for value in values),
    *((card, "float", "float", "GM", replace(V220, **{field: value}), ND, ParameterError, field) for card in CARDS
      for field, value in (("nd_num", -1), ("nd_num", 65536), ("src_nd_stride", 513), ("dst_nd_stride", 65536))),
    *((card, "float", "float", "GM", replace(V220, m_size=8193), ND, ParameterError, "m_size") for card in OLD),
    *((card, "float", "float", "GM", replace(V220, n_size=n), NZ, ParameterError, "n_size") for card in CARDS for n in (8, 33)),
    *((card, "float", "float", "GM", replace(V220, n_size=12, is_channel_split=True), NZ, ParameterError, "n_size")
      for card in CARDS),
    *((card, "float", "float", "GM", replace(V220, is_channel_split=True), ND, ParameterError, "is_channel_split")
      for card in CARDS),
    *((card, "float", "half", "GM", replace(V220, quant_pre=1, is_channel_split=True), NZ, ParameterError, "is_channel_split")
      for card in CARDS),
    ("atlas_a2", "float", "float", "GM", replace(V220, is_channel_split=True, unit_flag=3), NZ, ParameterError,
     "is_channel_split"),
    ("atlas_350", "float", "float", "L1", replace(V220, is_channel_split=True), NZ, UnsupportedError, "is_channel_split"),
    *((card, "float", "int8", "GM", replace(V220, quant_pre=5, deq_scalar=word), ND, ParameterError, "deq_scalar")
      for card in CARDS for word in (INF_WORD, INF_WORD | 1 << 14, SMALL_WORD)),
    *((card, "float", "int8", "GM", replace(V220, quant_pre=6), ND, ParameterError, "cbuf_workspace") for card in CARDS),
    *((card, "int32", "half", "GM", replace(V220, quant_pre=1), ND, ParameterError, "quant_pre") for card in CARDS),
    *((card, "float", "int8", "GM", replace(V220, quant_pre=7), ND, ParameterError, "quant_pre") for card in CARDS),
    *((card, "float", "half", "GM", replace(V220, quant_pre=int(QuantModes.QF322F16_PRE)), ND, UnsupportedError, "quant_pre")
      for card in OLD),
    *((card, "int32", "bfloat16", "GM", replace(V220, quant_pre=9), ND, UnsupportedError, "dtype") for card in OLD),
    *((card, "float", "hifloat8", "GM", replace(V220, quant_pre=19), ND, UnsupportedError, "dtype") for card in OLD),
    *((card, "float", "float", "GM", ARCH, NZ, UnsupportedError, "params") for card in OLD),
    *((card, "float", "float", "GM", V220, DN, UnsupportedError, "layout") for card in CARDS),
    ("atlas_a2", "float", "half", "L1", replace(V220, quant_pre=1), ND, UnsupportedError, "layout"),
    ("atlas_a2", "float", "float", "L1", V220, NZ, UnsupportedError, "dtype"),
    ("atlas_200i", "float", "half", "L1", replace(V220, quant_pre=1), NZ, UnsupportedError, "path"),
    ("atlas_200i", "float", "float", "GM", replace(V220, unit_flag=2), NZ, UnsupportedError, "unit_flag"),
    *(("atlas_350", "float", "float", "GM", replace(ARCH, **{field: value}), NZ, ParameterError, field)
      for field, values in FIELDS.items() for value in values),
    ("atlas_350", "float", "float", "GM", ARCH, DN, ParameterError, "params"),
    ("atlas_350", "float", "float", "GM", replace(ARCH, params=Nz2NdParams()), DN, ParameterError, "params"),
    ("atlas_350", "float", "float", "GM", replace(ARCH, params=Nz2DnParams(1, 0, 0, 1)), ND, ParameterError, "params"),
    *(("atlas_350", "float", "float", "GM", replace(ARCH, params=Nz2DnParams(**{**dict(src_nz_c0_stride=1), **wrong})), DN,
       ParameterError, next(iter(wrong))) for wrong in ({"dn_num": 65536}, {"src_nz_matrix_stride": 65536},
      {"dst_dn_matrix_stride": 2**32}, {"src_nz_c0_stride": 0}, {"src_nz_c0_stride": 65536})),
    *(("atlas_350", "float", "float", "GM", replace(ARCH, params=Nz2NdParams(**wrong)), ND, ParameterError, next(iter(wrong)))
      for wrong in ({"nd_num": 65536}, {"src_nd_stride": 65536}, {"dst_nd_stride": 2**32})),
    ("atlas_350", "float", "float", "GM", replace(ARCH, m_size=32768, params=Nz2DnParams(1, 0, 0, 1)), DN, ParameterError,
     "m_size"),
    ("atlas_350", "float", "float", "GM", replace(ARCH, unit_flag=3, params=Nz2DnParams(1, 0, 0, 2)), DN, ParameterError,
     "unit_flag"),
    ("atlas_350", "float", "float", "L1", replace(ARCH, n_size=12), ND, ParameterError, "n_size"),
    ("atlas_350", "float", "float", "L1", replace(ARCH, m_size=12, params=Nz2DnParams(1, 0, 0, 1)), DN, ParameterError, "m_size"),
    ("atlas_350", "float", "float", "UB", V220, ND, UnsupportedError, "params"),
    ("atlas_350", "float", "float", "GM", replace(ARCH, dual_dst_ctl=1), ND, UnsupportedError, "dual_dst_ctl"),
    ("atlas_350", "float", "float", "UB", replace(ARCH, dual_dst_ctl=3), ND, ParameterError, "dual_dst_ctl"),
    ("atlas_350", "float", "float", "UB", replace(ARCH, m_size=15, dual_dst_ctl=1), ND, ParameterError, "m_size"),
    ("atlas_350", "float", "float", "UB", replace(ARCH, n_size=16, dual_dst_ctl=2), ND, ParameterError, "n_size"),
    ("atlas_350", "float", "half", "UB", replace(ARCH, quant_pre=1, dual_dst_ctl=1), NZ, ParameterError, "dual_dst_ctl"),
    ("atlas_350", "float", "float", "UB", replace(ARCH, dual_dst_ctl=1, params=Nz2DnParams(1, 0, 0, 1)), DN, ParameterError,
     "dual_dst_ctl"),
    ("atlas_350", "float", "float", "UB", replace(ARCH, sub_block_id=2), ND, ParameterError, "sub_block_id"),
]  # fmt: skip


def refusing_stage(card: str, src: str, out: str, kind: str) -> Stage:
    position = {"GM": "GM", "L1": "A1", "UB": "VECIN"}[kind]
    return Stage(card, {"src": Place("CO1", src, np.zeros(65536, np.uint8)), "dst": Place(position, out, 65536)})


@pytest.mark.parametrize(("card", "src", "out", "kind", "params", "layout", "error", "field"), ILLEGAL)
def test_one_wrong_field(
    card: str, src: str, out: str, kind: str, params: Any, layout: int, error: type[AiCoreError], field: str
) -> None:
    stage = refusing_stage(card, src, out, kind)
    config = FixpipeConfig(layout, card == "atlas_350" and kind == "UB")
    stage.refuses(lambda: fixpipe(stage["dst"], stage["src"], params, config), error, field)


COPY = DataCopyCO12DstParams(32, 16, 64, 16)


@pytest.mark.parametrize(("card", "out", "kind", "params", "error", "field"), [
    *((card, "float", "GM", replace(COPY, **{field: value}), ParameterError, field) for card in CARDS for field, value in (
        ("n_size", 4096), ("n_size", 8), ("m_size", 65536), ("src_stride", 65536), ("dst_stride", 0), ("quant_pre", 23),
        ("relu_pre", 2), ("unit_flag", 1), ("clip_relu_pre", 2))),
    *((card, "float", "GM", replace(COPY, elt_wise_op=1), UnsupportedError, "elt_wise_op") for card in CARDS),
    *((card, "float", "GM", replace(COPY, clip_relu_pre=1), UnsupportedError, "clip_relu_pre") for card in CARDS[:3]),
    ("atlas_200i", "float", "GM", replace(COPY, clip_relu_pre=1), ParameterError, "clip_relu_pre"),
    ("atlas_350", "half", "GM", replace(COPY, quant_pre=11), UnsupportedError, "quant_pre"),
    ("atlas_350", "hifloat8", "GM", replace(COPY, quant_pre=19), UnsupportedError, "dtype"),
    ("atlas_350", "float", "UB", COPY, UnsupportedError, "path"),
    *((card, "half", "L1", replace(COPY, quant_pre=1, nz2nd_en=True), UnsupportedError, "nz2nd_en") for card in OLD),
    *((card, "int8", "GM", replace(COPY, quant_pre=6), ParameterError, "quant_pre") for card in CARDS),
])  # fmt: skip
def test_one_wrong_field_of_a_copy(card: str, out: str, kind: str, params: Any, error: type[AiCoreError], field: str) -> None:
    stage = refusing_stage(card, "float", out, kind)
    stage.refuses(lambda: data_copy(stage["dst"], stage["src"], params), error, field)


@pytest.mark.parametrize(("field", "value", "kept"), [
    ("n_size", 65536 + 32, 32), ("n_size", 4096 + 32, 32), ("m_size", 65536 + 16, 16), ("src_stride", 2**16 + 16, 16)
])  # fmt: skip
def test_fields_lose_their_high_bits_where_hardware_is_imitated(field: str, value: int, kept: int) -> None:
    stage = Stage("atlas_a2", {"src": Place("CO1", "float", np.arange(512, dtype=np.float32)), "dst": Place("GM", "float", 2048)},
                  wrap="hardware")  # fmt: skip
    stage.call(lambda: fixpipe(stage["dst"], stage["src"], replace(V220, **{field: value})))
    assert stage.bytes("dst").view(np.float32).reshape(16, 32)[:, 16].tolist() == [256.0 + 16 * i for i in range(16)]
    assert any(f"{field} = {value}" in text and f"becomes {kept}" in text for text in stage.warnings)
