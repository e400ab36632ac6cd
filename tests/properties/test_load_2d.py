"""The two-dimensional loads against element-by-element references written from spec api_semantics.md 2, 3, 4, 6 and 9.7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.init_const_value import InitConstValueParams
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_mx import LoadData2DMxParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.instructions.load_transpose import LoadData2dTransposeParams, LoadData2dTransposeParamsV2
from aicore_sim.kernel.api_load import init_const_value, load_data, load_data_with_transpose
from aicore_sim.kernel.bit_mode_2d import Load2DBitModeParam
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, Place, Stage, noise

F = 512
FRACTALS = 48
"""Fractals of the source and of the destination."""
WIDE = ("uint8", "int8", "uint16", "int16", "half", "bfloat16", "uint32", "int32", "float")
NEW = ("fp4x2_e2m1", "fp4x2_e1m2", "uint8", "int8", "hifloat8", "fp8_e5m2", "fp8_e4m3fn", "half", "bfloat16", "float",
       "int32", "uint32")  # fmt: skip
MX = ("fp4x2_e2m1", "fp4x2_e1m2", "fp8_e4m3fn", "fp8_e5m2")
TO_L0 = [("A1", "A2"), ("B1", "B2"), ("A1", "B2"), ("B1", "A2")]
TO_L1 = [("GM", "A1"), ("GM", "B1")]
FROM_GM = [("GM", "A2"), ("GM", "B2")]

Cells = NDArray[Any]


class Model:
    """The expected destination, element by element (nibbles of 4-bit types), with the number of writes of each."""

    def __init__(self, stage: Stage, source: str = "src", dst: str = "dst") -> None:
        self.bits = DataType(stage.places[dst].dtype).bits
        self.src: Cells = stage.words(source)
        self.dst: Cells = stage.words(dst).copy()
        self.writes = np.zeros(self.dst.size, np.int64)
        self.known = stage.places[source].written is not False

    @property
    def c0(self) -> int:
        return 256 // self.bits

    @property
    def fractal(self) -> int:
        return 16 * self.c0

    def put(self, to: int, value: Any) -> None:
        self.dst[to] = value
        self.writes[to] += 1

    def copy(self, to: int, start: int) -> None:
        """A whole fractal, both places in elements."""
        for i in range(self.fractal):
            self.put(to + i, self.src[start + i])

    def matrix(self, start: int) -> Cells:
        """The fractal at element `start` as 16 rows of C0."""
        return self.src[start : start + self.fractal].reshape(16, self.c0)

    def place(self, to: int, rows: Cells) -> None:
        """16 rows of C0 elements to element `to`."""
        assert rows.shape == (16, self.c0)
        for i, value in enumerate(rows.reshape(-1)):
            self.put(to + i, value)

    def check(self, stage: Stage, dst: str = "dst") -> None:
        """What was written once is right and as defined as its source; what was not is untouched; twice is undefined."""
        got, defined = stage.words(dst), stage.defined(dst)
        once = self.writes <= 1
        np.testing.assert_array_equal(got[once], self.dst[once])
        per_byte = self.writes.reshape(defined.size, -1)[:, 0] if self.bits <= 8 else np.repeat(self.writes, self.bits // 8)
        np.testing.assert_array_equal(defined, (per_byte == 1) & self.known)


def stage_of(card: str, path: tuple[str, str], dtype: str, known: bool = True, **modes: Any) -> Stage:
    places = {"src": Place(path[0], dtype, noise(FRACTALS * F, 1), written=known or path[0] == "GM"),
              "dst": Place(path[1], dtype, FRACTALS * F)}  # fmt: skip
    return Stage(card, places, **modes)


def elements(dtype: str, nbytes: int) -> int:
    return nbytes * 8 // DataType(dtype).bits


@st.composite
def starts(draw: st.DrawFn, path: tuple[str, str]) -> tuple[int, int]:
    """Bytes into the source and into the destination: the smallest steps that the buffers allow."""
    return draw(st.integers(0, 20)) * 32, draw(st.integers(0, 2)) * (32 if path[1][1] == "1" else F)


# ---- LoadData2D -----------------------------------------------------------------------------------------------------
@st.composite
def loads_2d(draw: st.DrawFn) -> tuple[str, tuple[str, str], str, LoadData2DParams, tuple[int, int], bool]:
    card = draw(st.sampled_from(CARDS))
    path = draw(st.sampled_from(TO_L0 + TO_L1 + ([] if card == "atlas_350" else FROM_GM)))
    narrow = ("int4",) if card in ("atlas_a2", "atlas_a3") and path in TO_L0 else ()
    dtype = draw(st.sampled_from(WIDE + narrow))
    repeats, stride = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    mode = draw(st.integers(0, 1))
    back = stride * (repeats - 1) if mode and path in TO_L1 else 0
    transpose = draw(st.booleans()) and (path in TO_L1 or (path in TO_L0 and DataType(dtype).bits == 16))
    params = LoadData2DParams(back + draw(st.integers(0, 6)), repeats, stride, draw(st.integers(0, 15)),
                              draw(st.integers(0, 4)), transpose, mode)  # fmt: skip
    return card, path, dtype, params, draw(starts(path)), draw(st.booleans())


@PROPERTY
@given(loads_2d())
def test_load_data_2d(case: tuple[str, tuple[str, str], str, LoadData2DParams, tuple[int, int], bool]) -> None:
    card, path, dtype, params, (src, dst), known = case
    stage = stage_of(card, path, dtype, known)
    model = Model(stage)
    f, src_at, dst_at = model.fractal, elements(dtype, src), elements(dtype, dst)
    gap = 0 if card == "atlas_350" and path in TO_L0 else params.dst_gap
    sign = -1 if params.addr_mode and path in TO_L1 else 1
    for r in range(params.repeat_times):
        start = src_at + (params.start_index + sign * params.src_stride * r) * f
        to = dst_at + (gap + 1) * r * f
        if params.if_transpose and path in TO_L0:
            for row in range(16):
                for col in range(16):
                    model.put(to + col * 16 + row, model.src[start + row * 16 + col])
        else:
            model.copy(to, start)
    stage.call(lambda: load_data(stage.at("dst", dst_at), stage.at("src", src_at), params))
    model.check(stage)


FIELDS_2D = {"start_index": 16, "repeat_times": 8, "src_stride": 16, "sid": 4, "dst_gap": 16, "addr_mode": 1}


def outside(bits: int, signed: bool = False) -> st.SearchStrategy[Any]:
    """Values that do not fit so many bits, and values that are no ints."""
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.one_of(st.integers(hi + 1, hi + 70000), st.integers(lo - 70000, lo - 1), st.just(1.5), st.just("1"))


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(sorted(FIELDS_2D)), st.data())
def test_load_data_2d_refuses(card: str, field: str, data: st.DataObject) -> None:
    bad = data.draw(outside(FIELDS_2D[field]))
    stage = stage_of(card, ("A1", "A2"), "half")
    error = stage.refuses(lambda: load_data(stage["dst"], stage["src"], LoadData2DParams(**{field: bad})), ParameterError, field)
    assert error.value == bad and error.card == card


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(sorted(set(FIELDS_2D) - {"addr_mode"})), st.integers(1, 3), st.booleans())
def test_hardware_keeps_the_low_bits(card: str, field: str, above: int, below_zero: bool) -> None:
    """A value that is too wide gives what its low bits give, and the run is told."""
    base = {"start_index": 2, "repeat_times": 3, "src_stride": 1, "sid": 1, "dst_gap": 1}
    wide = base[field] + (-above if below_zero else above) * (1 << FIELDS_2D[field])
    first, second = (stage_of(card, ("GM", "A1"), "half", wrap="hardware") for _ in range(2))
    first.call(lambda: load_data(first["dst"], first["src"], LoadData2DParams(**{**base, field: wide})))
    second.call(lambda: load_data(second["dst"], second["src"], LoadData2DParams(**base)))
    np.testing.assert_array_equal(first.bytes("dst"), second.bytes("dst"))
    assert any(field in text and str(wide) in text for text in first.warnings)
    assert not any(field in text for text in second.warnings)


@PROPERTY
@given(
    st.sampled_from([("A1", "A2"), ("B1", "B2"), ("GM", "A1")]), st.booleans(), st.integers(0, 3), st.integers(1, 4),
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 1),
)  # fmt: skip
def test_header_of_950(path: tuple[str, str], transpose: bool, start: int, repeats: int, stride: int, gap: int,
                       mode: int) -> None:  # fmt: skip
    """The four bullets of spec 2.5, fractal by fractal."""
    transpose = transpose and path[0] != "GM"
    params = LoadData2DParams(start, repeats, stride, 0, gap, transpose, mode)
    stage = stage_of("atlas_350", path, "half", quirks="load2d-950")
    model = Model(stage)
    f = model.fractal
    for j in range(repeats):
        if path[0] == "GM":
            for i in range(stride):
                model.copy((j * (gap + 1) + i) * f, ((start + j) * stride + i) * f)
        elif not transpose:
            model.copy(j * (gap + 1) * f, (start * stride + j * stride) * f)
        elif path[1] == "A2":
            model.place(j * f, model.matrix((start * stride + j * stride) * f).T)
        else:
            model.place(j * (gap + 1) * f, model.matrix(j * stride * f).T)
    stage.call(lambda: load_data(stage["dst"], stage["src"], params))
    model.check(stage)


# ---- 2D V2, bit mode --------------------------------------------------------------------------------------------------
def v2_reference(model: Model, p: LoadData2DParamsV2, transpose: bool, src: int, dst: int) -> None:
    """Element (m, k) of the NZ source to row m, column k of the destination, or to row k, column m (spec 3.3)."""
    c0, f = model.c0, model.fractal
    start = src + (p.k_start_position * abs(p.src_stride) + p.m_start_position) * f
    for k in range(p.k_step * c0):
        for m in range(p.m_step * 16):
            r, c = (k, m) if transpose else (m, k)
            value = model.src[start + (k // c0 * p.src_stride + m // 16) * f + m % 16 * c0 + k % c0]
            model.put(dst + (c // c0 * p.dst_stride + r // 16) * f + r % 16 * c0 + c % c0, value)


def v2_window(draw: st.DrawFn, bits: int, transpose: bool, overlap: bool = False) -> LoadData2DParamsV2:
    """A window whose columns of the destination lie apart (overlap: do not)."""
    least = 2 if overlap else 1
    m_step, k_step = draw(st.integers(least, 3)), draw(st.integers(least, 3))
    if transpose:
        m_step, k_step = m_step * {4: 4, 8: 2}.get(bits, 1), k_step * (2 if bits == 32 else 1)
        if bits == 4:
            m_step, k_step = 4, min(k_step, 2)
    rows, columns = (k_step * 256 // bits // 16, m_step * 16 * bits // 256) if transpose else (m_step, k_step)
    free = (FRACTALS - 4 - rows) // max(columns - 1, 1)
    dst_stride = draw(st.integers(0, max(rows - 1, 0))) if overlap else draw(st.integers(rows, max(rows, min(free, rows + 3))))
    start = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    src_stride = draw(st.integers(0, 3))
    if draw(st.booleans()) and start[1] == 2 and k_step <= 3:
        src_stride = -src_stride  # two columns from the start back: the first columns of the source
    return LoadData2DParamsV2(*start, m_step, k_step, src_stride, dst_stride, transpose, draw(st.integers(0, 255)))


@st.composite
def loads_v2(draw: st.DrawFn, paths: list[tuple[str, str]], overlap: bool = False) -> Any:
    bits, transpose = draw(st.sampled_from([(bits, turned) for turned in (True, False) for bits in (32, 16, 8, 4)]))
    path, dtype = draw(st.sampled_from(paths)), draw(st.sampled_from([name for name in NEW if DataType(name).bits == bits]))
    params = v2_window(draw, DataType(dtype).bits, transpose and path[0] != "GM", overlap)
    if path[0] == "GM" and transpose:
        params = LoadData2DParamsV2(params.m_start_position, params.k_start_position, params.m_step, params.k_step,
                                    params.src_stride, params.dst_stride, True)  # fmt: skip
    return path, dtype, params, draw(starts(path)), draw(st.booleans())


@PROPERTY
@given(loads_v2(TO_L0 + TO_L1))
def test_load_data_2d_v2(case: Any) -> None:
    path, dtype, params, (src, dst), known = case
    stage = stage_of("atlas_350", path, dtype, known)
    src_at, dst_at = elements(dtype, src), elements(dtype, dst)
    model = Model(stage)
    v2_reference(model, params, params.if_transpose and path[0] != "GM", src_at, dst_at)
    stage.call(lambda: load_data(stage.at("dst", dst_at), stage.at("src", src_at), params))
    model.check(stage)


@PROPERTY
@given(loads_v2(TO_L0 + TO_L1, overlap=True))
def test_overlapping_columns_are_undefined(case: Any) -> None:
    """`Model.check`: fractals that two columns write are undefined, all others as always."""
    path, dtype, params, _, known = case
    stage = stage_of("atlas_350", path, dtype, known)
    model = Model(stage)
    v2_reference(model, params, params.if_transpose and path[0] != "GM", 0, 0)
    stage.call(lambda: load_data(stage["dst"], stage["src"], params))
    model.check(stage)
    assert any("overlap" in text for text in stage.warnings) == bool((model.writes > 1).any())


FIELDS_V2 = {"m_start_position": (16, False), "k_start_position": (16, False), "m_step": (8, False), "k_step": (8, False),
             "src_stride": (16, True), "dst_stride": (16, False), "sid": (8, False)}  # fmt: skip


@PROPERTY
@given(st.sampled_from(sorted(FIELDS_V2)), st.data())
def test_load_data_2d_v2_refuses(field: str, data: st.DataObject) -> None:
    bad = data.draw(outside(*FIELDS_V2[field]))
    stage = stage_of("atlas_350", ("A1", "A2"), "half")
    params = LoadData2DParamsV2(**{**dict(m_step=1, k_step=1, src_stride=1, dst_stride=1), field: bad})
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], params), ParameterError, field)


@PROPERTY
@given(st.sampled_from([("uint8", "m_step", 2), ("fp4x2_e2m1", "m_step", 4), ("float", "k_step", 2)]), st.integers(0, 60),
       st.data())  # fmt: skip
def test_transposition_refuses_parts_of_squares(kind: tuple[str, str, int], squares: int, data: st.DataObject) -> None:
    dtype, field, multiple = kind
    bad = squares * multiple + data.draw(st.integers(1, multiple - 1))
    stage = stage_of("atlas_350", ("A1", "A2"), dtype)
    params = LoadData2DParamsV2(**{**dict(m_step=4, k_step=2, src_stride=1, dst_stride=4, if_transpose=True), field: bad})
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], params), ParameterError, field)


@PROPERTY
@given(loads_v2(TO_L0), st.integers(0, 2))
def test_bit_mode(case: Any, way: int) -> None:
    """The same load whichever way the words were set; junk above a field's width is cut off."""
    path, dtype, params, (src, dst), known = case
    stage = stage_of("atlas_350", path, dtype, known)
    src_at, dst_at = elements(dtype, src), elements(dtype, dst)
    model = Model(stage)
    v2_reference(model, params, params.if_transpose, src_at, dst_at)
    if way == 0:
        bits = Load2DBitModeParam(params)
    elif way == 1:
        bits = Load2DBitModeParam()
        bits.set_config0(params.m_start_position + params.k_start_position * 2**16 + params.m_step * 2**32 + params.k_step * 2**40)
        bits.set_config1(params.src_stride % 2**16 + params.dst_stride * 2**16)
        bits.set_if_transpose(params.if_transpose)
    else:
        with pytest.warns(UserWarning, match="m_step"):
            bits = Load2DBitModeParam(m_step=params.m_step + 512, k_step=params.k_step, dst_stride=params.dst_stride,
                                      src_stride=params.src_stride, if_transpose=params.if_transpose)  # fmt: skip
        bits.set_m_start_position(params.m_start_position)
        bits.set_k_start_position(params.k_start_position)
    stage.call(lambda: load_data(stage.at("dst", dst_at), stage.at("src", src_at), bits))
    model.check(stage)
    assert any("m_step" in text for text in stage.warnings) == (way == 2)


# ---- LoadDataWithTranspose --------------------------------------------------------------------------------------------
LDT = {"atlas_350": ("int8", "uint8", "half", "bfloat16", "float", "int32", "uint32"),
       "atlas_a2": ("int4", "int8", "uint8", "half", "bfloat16", "float", "int32", "uint32"),
       "atlas_200i": ("int4", "int8", "uint8", "int16", "uint16", "half", "bfloat16", "float", "int32", "uint32")}  # fmt: skip
LDT["atlas_a3"] = LDT["atlas_a2"]
SQUARE = {4: 4, 8: 2, 16: 1, 32: 2}


@st.composite
def transposed_loads(draw: st.DrawFn) -> Any:
    card = draw(st.sampled_from(CARDS))
    dtype = draw(st.sampled_from(LDT[card]))
    to_b = card == "atlas_350" or dtype == "int4" or draw(st.booleans())
    path = draw(st.sampled_from(["A1", "B1"])), "B2" if to_b else "A2"
    n = SQUARE[DataType(dtype).bits]
    repeats, mode = draw(st.integers(1, 3)), draw(st.sampled_from([0, 1, False, True]))
    if card == "atlas_350" and draw(st.booleans()):
        stride = draw(st.integers(0, 4))
        start = draw(st.integers(0, 5)) + (stride * (repeats - 1) if mode else 0)
        params: Any = LoadData2dTransposeParamsV2(start, repeats, stride, draw(st.integers(0, 9)), draw(st.integers(0, 4)),
                                                  draw(st.integers(0, 4)), mode)  # fmt: skip
    else:
        stride = draw(st.integers(0, 2 if n > 1 else 5))
        start = draw(st.integers(0, 2)) + (stride * (repeats - 1) if mode else 0)
        params = LoadData2dTransposeParams(start, repeats, stride, draw(st.integers(0, 9)), draw(st.integers(0, 4)), mode)
    return card, dtype, path, params, draw(starts(path)), draw(st.booleans())


def transposed_reference(model: Model, p: Any, sign: int, src: int, dst: int) -> None:
    """Spec 6.2: squares Q of n fractals, stacked (32 bits: side by side), Q transposed, split into n fractals again."""
    n, f = SQUARE[model.bits], model.fractal
    for r in range(p.repeat_times):
        parts = []
        for q in range(n):
            if isinstance(p, LoadData2dTransposeParamsV2):
                index = p.start_index + sign * p.src_stride * r + q * (1 + p.src_frac_gap)
            else:
                index = (p.start_index + sign * p.src_stride * r) * n + q
            parts.append(model.matrix(src + index * f))
        square = np.hstack(parts) if model.bits == 32 else np.vstack(parts)
        assert square.shape[0] == square.shape[1]
        for q in range(n):
            part = square.T[:, 8 * q : 8 * q + 8] if model.bits == 32 else square.T[16 * q : 16 * q + 16]
            model.place(dst + ((p.dst_gap + 1) * r + (p.dst_frac_gap + 1) * q) * f, part)


@PROPERTY
@given(transposed_loads(), st.booleans())
def test_load_data_with_transpose(case: Any, implementation: bool) -> None:
    card, dtype, path, params, (src, dst), known = case
    stage = stage_of(card, path, dtype, known, quirks="addr-mode" if implementation else "documented")
    src_at, dst_at = elements(dtype, src), elements(dtype, dst)
    model = Model(stage)
    transposed_reference(model, params, -1 if params.addr_mode and not implementation else 1, src_at, dst_at)
    stage.call(lambda: load_data_with_transpose(stage.at("dst", dst_at), stage.at("src", src_at), params))
    model.check(stage)
    assert any("overlap" in text for text in stage.warnings) == bool((model.writes > 1).any())
    assert any("addr_mode" in text for text in stage.warnings) == bool(params.addr_mode)


FIELDS_LDT = {"start_index": 16, "repeat_times": 8, "src_stride": 16, "dst_gap": 16, "dst_frac_gap": 16, "addr_mode": 1,
              "src_frac_gap": 16}  # fmt: skip


@PROPERTY
@given(st.sampled_from(CARDS), st.booleans(), st.sampled_from(sorted(FIELDS_LDT)), st.data())
def test_load_data_with_transpose_refuses(card: str, second: bool, field: str, data: st.DataObject) -> None:
    second = card == "atlas_350" and (second or field == "src_frac_gap")
    if field == "src_frac_gap" and not second:
        field = "dst_frac_gap"
    bad = data.draw(outside(FIELDS_LDT[field]))
    struct: Callable[..., Any] = LoadData2dTransposeParamsV2 if second else LoadData2dTransposeParams
    stage = stage_of(card, ("B1", "B2"), "half")
    stage.refuses(lambda: load_data_with_transpose(stage["dst"], stage["src"], struct(**{field: bad})), ParameterError, field)


@PROPERTY
@given(st.sampled_from(CARDS), st.integers(1, 4), st.integers(2, 5), st.integers(1, 4), st.booleans())
def test_decrement_below_zero(card: str, missing: int, repeats: int, stride: int, plain: bool) -> None:
    start = max(stride * (repeats - 1) - missing, 0)
    stage = stage_of(card, ("GM", "A1") if plain else ("B1", "B2"), "half")
    if plain:
        call = LoadData2DParams(start, repeats, stride, addr_mode=1)
        stage.refuses(lambda: load_data(stage["dst"], stage["src"], call), ParameterError, "start_index")
    else:
        other = LoadData2dTransposeParams(start, repeats, stride, addr_mode=1)
        stage.refuses(lambda: load_data_with_transpose(stage["dst"], stage["src"], other), ParameterError, "start_index")


# ---- element types ------------------------------------------------------------------------------------------------------
ALL = ("int4", *NEW, "uint16", "int16", "fp8_e8m0", "int64", "uint64", "double")


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(ALL), st.sampled_from(["2d", "v2", "bits", "ldt", "fill"]))
def test_element_types(card: str, dtype: str, api: str) -> None:
    """Each API takes its list of types on L1 -> L0B (fill: L1) and refuses the others; 350 has the new ones alone."""
    offered: tuple[str, ...] = {
        "2d": WIDE + (("int4",) if card in ("atlas_a2", "atlas_a3") else ()),
        "v2": NEW if card == "atlas_350" else (), "bits": NEW if card == "atlas_350" else (), "ldt": LDT[card],
        "fill": ("int16", "uint16", "half", "bfloat16", "int32", "uint32", "float"),
    }[api]  # fmt: skip
    window = LoadData2DParamsV2(0, 0, 1, 1, 1, 1)
    stage = Stage(card, {"src": Place("B1", dtype, noise(4096)), "dst": Place("B2", dtype, 4096)})
    calls: dict[str, Callable[[], None]] = {
        "2d": lambda: load_data(stage["dst"], stage["src"], LoadData2DParams()),
        "v2": lambda: load_data(stage["dst"], stage["src"], window),
        "bits": lambda: load_data(stage["dst"], stage["src"], Load2DBitModeParam(window)),
        "ldt": lambda: load_data_with_transpose(stage["dst"], stage["src"], LoadData2dTransposeParams()),
        "fill": lambda: init_const_value(stage["src"], InitConstValueParams(1, 1)),
    }
    if dtype in offered:
        stage.call(calls[api])
        assert len(stage.ops) == 1
    else:
        stage.refuses(calls[api], UnsupportedError, "dtype" if offered else "params")


# ---- InitConstValue -----------------------------------------------------------------------------------------------------
@st.composite
def fills(draw: st.DrawFn) -> Any:
    card = draw(st.sampled_from(CARDS))
    position = draw(st.sampled_from(["A1", "B1"] if card == "atlas_350" else ["A1", "B1", "A2", "B2"]))
    dtype = draw(st.sampled_from(["int16", "uint16", "half", "bfloat16", "int32", "uint32", "float"]))
    kind = DataType(dtype)
    low, high = (0, 2**kind.bits - 1) if kind.is_unsigned() else (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)
    value = draw(st.integers(low, high) if kind.is_int() else st.floats(-1000, 1000, width=16))
    params = InitConstValueParams(draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 4)), value)
    return card, position, dtype, params, draw(st.integers(0, 2))


@PROPERTY
@given(fills())
def test_init_const_value(case: Any) -> None:
    card, position, dtype, params, first = case
    block = 32 if position in ("A1", "B1") else F
    stage = Stage(card, {"dst": Place(position, dtype, FRACTALS * F)})
    kind = DataType(dtype)
    assert kind.np_dtype is not None
    word = np.array(params.init_value).astype(kind.np_dtype)
    expected, written = stage.bytes("dst"), np.zeros(FRACTALS * F, np.bool_)
    for r in range(params.repeat_times):
        for b in range(params.block_num):
            at = (first + r * (params.block_num + params.dst_gap) + b) * block
            for i in range(0, block, word.itemsize):
                expected[at + i : at + i + word.itemsize] = np.frombuffer(word.tobytes(), np.uint8)
            written[at : at + block] = True
    stage.call(lambda: init_const_value(stage.at("dst", elements(dtype, first * block)), params))
    np.testing.assert_array_equal(stage.bytes("dst"), expected)
    np.testing.assert_array_equal(stage.defined("dst"), written)


@PROPERTY
@given(st.sampled_from(CARDS), st.sampled_from(["repeat_times", "block_num", "dst_gap"]), st.data())
def test_init_const_value_refuses(card: str, field: str, data: st.DataObject) -> None:
    bad = data.draw(outside(15))
    stage = Stage(card, {"dst": Place("A1", "half", 1024)})
    params = InitConstValueParams(**{**dict(repeat_times=1, block_num=1), field: bad})
    stage.refuses(lambda: init_const_value(stage["dst"], params), ParameterError, field)


# ---- MX ---------------------------------------------------------------------------------------------------------------
@st.composite
def mx_loads(draw: st.DrawFn) -> Any:
    path, dtype, transpose = draw(st.sampled_from(TO_L0)), draw(st.sampled_from(MX)), draw(st.booleans())
    params = v2_window(draw, DataType(dtype).bits, transpose)
    y = draw(st.integers(1, 3))
    scales = LoadData2DMxParams(draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 4)), y,
                                draw(st.integers(0, 5)), draw(st.integers(y, 5)))  # fmt: skip
    return path, dtype, params, scales, draw(starts(path)), draw(st.integers(0, 10))


@PROPERTY
@given(mx_loads())
def test_mx_form(case: Any) -> None:
    """Data as 2D V2; scale unit (x, y) of 32 B to x * dst_stride + y in the scale memory, from dst / 16 on."""
    path, dtype, params, scales, (src, dst), shift = case
    places = {"src": Place(path[0], dtype, noise(FRACTALS * F, 1)), "mx": Place("A1", "fp8_e8m0", noise(64 * 32, 2)),
              "dst": Place(path[1], dtype, FRACTALS * F)}  # fmt: skip
    stage = Stage("atlas_350", places)
    src_at, dst_at = elements(dtype, src), elements(dtype, dst)
    model = Model(stage)
    v2_reference(model, params, params.if_transpose, src_at, dst_at)
    memory = stage.memories["L0AMX" if path[1] == "A2" else "L0BMX"]
    assert memory.shadow is not None
    expected, written = memory.bytes().copy(), np.zeros(memory.size, np.bool_)
    given_scales = stage.bytes("mx")
    for x in range(scales.x_step):
        for y in range(scales.y_step):
            take = (shift + (scales.x_start_position + x) * scales.src_stride + scales.y_start_position + y) * 32
            put = dst // 16 + (x * scales.dst_stride + y) * 32
            for i in range(32):
                expected[put + i] = given_scales[take + i]
                written[put + i] = True
    stage.call(lambda: load_data(stage.at("dst", dst_at), stage.at("src", src_at), stage.at("mx", shift * 32), params, scales))
    model.check(stage)
    np.testing.assert_array_equal(memory.bytes(), expected)
    np.testing.assert_array_equal(memory.shadow.astype(np.bool_), written)


FIELDS_MX = {"x_start_position": 16, "y_start_position": 16, "x_step": 8, "y_step": 8, "src_stride": 16, "dst_stride": 16}


@PROPERTY
@given(st.sampled_from(sorted(FIELDS_MX)), st.data())
def test_mx_form_refuses(field: str, data: st.DataObject) -> None:
    bad = data.draw(outside(FIELDS_MX[field]))
    stage = Stage("atlas_350", {"src": Place("A1", "fp8_e5m2", noise(4096)), "mx": Place("A1", "fp8_e8m0", noise(4096)),
                                "dst": Place("A2", "fp8_e5m2", 4096)})  # fmt: skip
    params = LoadData2DParamsV2(0, 0, 1, 1, 1, 1)
    scales = LoadData2DMxParams(**{**dict(x_step=1, y_step=1), field: bad})
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], stage["mx"], params, scales), ParameterError, field)
