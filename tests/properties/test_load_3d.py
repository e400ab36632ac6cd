"""3-D loads on every card against img2col, element by element (spec api_semantics.md 5.3 to 5.7, 24)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from tests.properties.profile import PROPERTY
from tests.stage import SENTINEL, Place, Stage, noise

A_TYPES = {
    "atlas_350": ("int8", "uint8", "hifloat8", "fp8_e5m2", "fp8_e4m3fn", "half", "bfloat16", "int32", "uint32", "float"),
    "atlas_a2": ("int4", "int8", "uint8", "half", "bfloat16", "int32", "uint32", "float"),
}
A_TYPES |= {"atlas_a3": A_TYPES["atlas_a2"], "atlas_200i": A_TYPES["atlas_a2"]}
WIDE = ("half", "bfloat16", "int32", "uint32", "float")
RESTS = {4: (8, 16, 32), 8: (4, 8, 16), 16: (4, 8), 32: (4,)}
PAD_WORDS = {"half": 0x4000, "bfloat16": 0x4000, "float": 0x40000000, "fp8_e5m2": 0x40, "fp8_e4m3fn": 0x40,
             "hifloat8": 0x10}  # fmt: skip
"""2 in each type whose words are not the number itself."""


@dataclass(frozen=True)
class Load:
    """One call: where it goes, the window, the iterations, and how the parameters reach the instruction."""

    card: str
    dtype: str
    target: str
    params: asc.LoadData3DParamsV2
    form: str = "v2"
    repeat: tuple[int, int, int] = (1, 0, 0)  # time, stride, mode
    pitch: int = 0

    @property
    def c0(self) -> int:
        return DataType(self.dtype).c0

    @property
    def bits(self) -> int:
        return DataType(self.dtype).bits

    @property
    def transposed(self) -> bool:
        return self.target == "B2" or self.params.en_transpose

    @property
    def union(self) -> tuple[int, int]:
        """Rows and columns of all iterations."""
        time, _, mode = self.repeat
        p = self.params
        return (p.m_extension * time, p.k_extension) if mode == 0 else (p.m_extension, p.k_extension * time)

    def outputs(self) -> tuple[int, int]:
        """Ho and Wo."""
        p = self.params
        left, right, top, bottom = p.pad_list
        wo = (p.l1_w + left + right - ((p.filter_w - 1) * p.dilation_filter_w + 1)) // p.stride_w + 1
        ho = (p.l1_h + top + bottom - ((p.filter_h - 1) * p.dilation_filter_h + 1)) // p.stride_h + 1
        return ho, wo

    def source(self, i: int, j: int) -> tuple[int, int]:
        """Row and column of the img2col matrix that element (i, j) of the union comes from."""
        _, stride, mode = self.repeat
        p = self.params
        if mode == 0:
            t, i = divmod(i, p.m_extension)
            return p.m_start_pt + t * stride * 16 + i, p.k_start_pt + j
        t, j = divmod(j, p.k_extension)
        unit = (64 if self.card == "atlas_200i" else 32) * 8 // self.bits
        return p.m_start_pt + i, p.k_start_pt + t * stride * unit + j

    def element(self, mi: int, ki: int) -> int | None:
        """Element of the feature map at row mi, column ki; -1: padding; None: not in the matrix."""
        p, c0 = self.params, self.c0
        ho, wo = self.outputs()
        kernel = p.filter_h * p.filter_w
        if mi >= ho * wo or ki >= p.channel_size * kernel:
            return None
        whole, rest = divmod(p.channel_size, c0)
        if ki < whole * kernel * c0:
            kb, c = divmod(ki, c0)
            c1, position = divmod(kb, kernel)
            start, pixel = c1 * p.l1_h * p.l1_w * c0, c0
        else:
            position, c = divmod(ki - whole * kernel * c0, rest)
            start, pixel = whole * p.l1_h * p.l1_w * c0, rest
        kh, kw = divmod(position, p.filter_w)
        h = mi // wo * p.stride_h + kh * p.dilation_filter_h - p.pad_list[2]
        w = mi % wo * p.stride_w + kw * p.dilation_filter_w - p.pad_list[0]
        if 0 <= h < p.l1_h and 0 <= w < p.l1_w:
            return start + (h * p.l1_w + w) * pixel + c
        return -1

    def place(self, i: int, j: int) -> int:
        """Element of the destination for (i, j) of the union, by the formulas of 5.4 and 5.5."""
        (m, k), c0 = self.union, self.c0
        fe = 16 * c0
        if self.card == "atlas_350":
            if not self.transposed:
                return (j // c0 * self.pitch + i // 16) * fe + i % 16 * c0 + j % c0
            return (i // c0 * self.pitch + j // 16) * fe + j % 16 * c0 + i % c0
        if self.target == "B2":
            return (i // c0 * -(-k // 16) + j // 16) * fe + j % 16 * c0 + i % c0
        if self.transposed:
            return (j // 16 * (-(-m // 16) * 16 // c0) + i // c0) * fe + j % 16 * c0 + i % c0
        return (i // 16 * -(-k // c0) + j // c0) * fe + i % 16 * c0 + j % c0

    def overlapping(self) -> set[int]:
        """Fractals that two column blocks (transposed: blocks of C0 rows) share: 950 with a short pitch."""
        if self.card != "atlas_350":
            return set()
        (m, k), c0 = self.union, self.c0
        blocks, needed = (-(-m // c0), -(-k // 16)) if self.transposed else (-(-k // c0), -(-m // 16))
        seen: list[int] = [b * self.pitch + f for b in range(blocks) for f in range(needed)]
        return {f for f in seen if seen.count(f) > 1}

    def expected(self, source: NDArray[Any], size: int, pad: int, at: int = 0, ring: int = 0) -> tuple[Any, Any]:
        """Words of the destination and what is known of each: 2 written, 0 undefined, 1 as before.

        `source` are the words of L1, `at` the map's start, `ring` a boundary, in elements.
        """
        (m, k), c0 = self.union, self.c0
        words = np.zeros(size, np.uint64)
        known = np.ones(size, np.uint8)
        rows = -(-m // (c0 if self.transposed else 16)) * (c0 if self.transposed else 16)
        columns = -(-k // c0) * c0
        if self.card == "atlas_350" and self.transposed:
            columns = -(-columns // 16) * 16
        for i in range(rows):
            for j in range(columns):
                found = self.element(*self.source(i, j)) if i < m and j < k else None
                where = self.place(i, j)
                known[where] = 0 if found is None else 2
                if found is not None:
                    position = at + found
                    words[where] = pad if found < 0 else int(source[position % ring if ring else position])
        for fractal in self.overlapping():
            known[fractal * 16 * c0 : (fractal + 1) * 16 * c0] = 0
        return words, known

    # ---- the call ----
    def calls(self, dst: Any, src: Any) -> list[Any]:
        """The calls that perform it in its form."""
        p, (time, stride, mode) = self.params, self.repeat
        own = asc.IsResetLoad3dConfig(False, False)
        with_pitch = asc.LoadDataRepeatParamWithStride(stride, time, mode, self.pitch)
        plain = asc.LoadDataRepeatParam(time, stride, mode)
        right = asc.FmatrixMode.FMATRIX_RIGHT if p.f_matrix_ctrl else asc.FmatrixMode.FMATRIX_LEFT
        registers = [lambda: asc.set_fmatrix(p.l1_h, p.l1_w, p.pad_list, right),
                     lambda: asc.set_load_data_padding_value(p.pad_value)]  # fmt: skip
        if self.form == "v2" and self.card == "atlas_350":
            plain = replace(plain, dst_stride=self.pitch)
        if self.form == "v2":
            return [lambda: asc.set_load_data_repeat(plain), lambda: asc.load_data(dst, src, p)]
        if self.form == "registers":
            bare = replace(p, l1_h=1, l1_w=1, pad_list=(0, 0, 0, 0), pad_value=0)
            if self.card == "atlas_350":
                return [*registers, lambda: asc.set_load_data_repeat_with_stride(with_pitch),
                        lambda: asc.load_data_with_stride(dst, src, bare, default_config=own)]  # fmt: skip
            return [*registers, lambda: asc.set_load_data_repeat(plain),
                    lambda: asc.load_data(dst, src, bare, default_config=own)]  # fmt: skip
        sticky = (lambda: asc.set_load_data_repeat_with_stride(with_pitch)) if self.card == "atlas_350" else (
            lambda: asc.set_load_data_repeat(plain))  # fmt: skip
        packed: Any = asc.Load3DBitModeParam(p) if self.form == "bits" else asc.LoadData3DParamsV2Pro(
            p.channel_size, p.en_transpose, False, p.filter_size_w, p.filter_size_h, p.f_matrix_ctrl,
            p.m_start_pt << 48 | p.k_start_pt << 32 | p.m_extension << 16 | p.k_extension,
            p.dilation_filter_h << 40 | p.dilation_filter_w << 32 | p.filter_h << 24 | p.filter_w << 16
            | p.stride_h << 8 | p.stride_w,
        )  # fmt: skip
        return [*registers, sticky, lambda: asc.load_data(dst, src, packed)]


@st.composite
def loads(draw: st.DrawFn, cards: tuple[str, ...] = tuple(A_TYPES)) -> Load:
    """Legal calls with small windows."""
    card = draw(st.sampled_from(cards))
    target = draw(st.sampled_from(("A2", "B2")))
    new = card == "atlas_350"
    form = draw(st.sampled_from(("v2", "registers", "pro", "bits") if new else ("v2", "registers", "pro")))
    narrow = target == "A2" or (new and form != "registers")
    dtype = draw(st.sampled_from(A_TYPES[card] if narrow else WIDE))
    bits, c0 = DataType(dtype).bits, DataType(dtype).c0
    transpose = draw(st.booleans()) and (new or bits >= 16 or target == "B2")
    h, w = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    fh, fw, dh, dw = (draw(st.integers(1, n)) for n in (2, 3, 2, 2))
    sh, sw = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    assume((fh - 1) * dh < h + pads[2] + pads[3] and (fw - 1) * dw < w + pads[0] + pads[1])
    rest = draw(st.sampled_from((0, 0, *RESTS[bits])))
    channels = draw(st.integers(0 if rest else 1, 1 if bits == 4 else 2)) * c0 + rest
    p = asc.LoadData3DParamsV2(
        pads, h, w, channels, stride_w=sw, stride_h=sh, filter_w=fw, filter_h=fh, dilation_filter_w=dw,
        dilation_filter_h=dh, en_transpose=transpose, pad_value=2,
        f_matrix_ctrl=draw(st.booleans()) if card in ("atlas_a2", "atlas_a3") and form != "v2" else False,
    )  # fmt: skip
    ho, wo = Load(card, dtype, target, p).outputs()
    rows, blocks = -(-ho * wo // 16), -(-channels * fh * fw // c0)
    # iterations first: what they cover of the matrix is no room for the window itself
    mode = draw(st.integers(0, 1))
    unit = 2 if card == "atlas_200i" and mode else 1
    time = draw(st.integers(1, 3))
    stride = draw(st.integers(0, max(((blocks if mode else rows) - 1) // (unit * max(time - 1, 1)), 0)))
    m_room, k_room = rows, blocks
    if mode == 0:
        m_room -= (time - 1) * stride
    else:
        k_room -= (time - 1) * stride * unit
    m_start, k_start = draw(st.integers(0, m_room - 1)), draw(st.integers(0, k_room - 1))
    m_end, k_end = draw(st.integers(m_start + 1, m_room)), draw(st.integers(k_start + 1, k_room))
    m, k = (m_end - m_start) * 16, (k_end - k_start) * c0
    if time == 1 and m_end == rows:
        m -= draw(st.integers(0, 15))
    if time == 1 and k_end == blocks:
        k -= draw(st.integers(0, c0 - 1))
    p = replace(p, m_extension=m, k_extension=k, m_start_pt=m_start * 16, k_start_pt=k_start * c0)
    load = Load(card, dtype, target, p, form, (time, stride, mode))
    total_m, total_k = load.union
    assume(total_m * total_k <= 6144 and -(-total_m // 16) * 16 * -(-total_k // c0) * 32 <= 32768)
    if not new:
        return load
    needed = -(-total_k // 16) if load.transposed else -(-total_m // 16)
    return replace(load, pitch=draw(st.sampled_from((needed, needed, needed + 1, max(needed - 1, 1), 1))))


def stage_of(load: Load, size: int = 32768, **modes: Any) -> Stage:
    p = load.params
    nbytes = DataType(load.dtype).nbytes(p.channel_size * p.l1_h * p.l1_w)
    return Stage(load.card, {
        "src": Place("A1", load.dtype, noise(-(-nbytes // 32) * 32, seed=nbytes)),
        "dst": Place(load.target, load.dtype, np.full(size, SENTINEL, np.uint8)),
    }, **modes)  # fmt: skip


def check(load: Load, stage: Stage, words: NDArray[Any], known: NDArray[Any]) -> None:
    """Compare the destination with the expectation: values, untouched bytes, marks."""
    got = stage.words("dst").astype(np.uint64)
    marks = stage.defined("dst")
    bits = load.bits
    element = np.repeat(marks, 2) if bits == 4 else marks.reshape(-1, bits // 8).all(axis=1)
    if bits == 4:  # marks stand for bytes: a written nibble makes its byte defined
        np.testing.assert_array_equal(marks, (known.reshape(-1, 2) > 0).any(axis=1))
    else:
        np.testing.assert_array_equal(element, known > 0)
    written = known == 2
    np.testing.assert_array_equal(got[written], words[written])
    before = np.full(got.size, int.from_bytes(bytes([SENTINEL]) * max(bits // 8, 1), "little"), np.uint64)
    if bits == 4:
        before[0::2], before[1::2] = SENTINEL & 15, SENTINEL >> 4
    np.testing.assert_array_equal(got[known == 1], before[known == 1])


def pad_word(dtype: str) -> int:
    return PAD_WORDS.get(dtype, 2)


@PROPERTY
@given(load=loads())
def test_every_element(load: Load) -> None:
    stage = stage_of(load)
    stage.call(*load.calls(stage["dst"], stage["src"]))
    words, known = load.expected(stage.words("src"), 32768 * 8 // load.bits, pad_word(load.dtype))
    check(load, stage, words, known)
    assert load.params.channel_size % load.c0 == 0 or any("not stated" in text for text in stage.warnings)
    assert not load.overlapping() or any("overlap" in text for text in stage.warnings)


@PROPERTY
@given(load=loads(("atlas_a2", "atlas_a3")), before=st.integers(1, 60), behind=st.integers(0, 90))
def test_a_source_that_passes_the_boundary_goes_on_at_the_start_of_l1(load: Load, before: int, behind: int) -> None:
    """The map starts `before` blocks in front of the boundary, which has at least the map's bytes."""
    stage = stage_of(load)
    p = load.params
    nbytes = DataType(load.dtype).nbytes(p.channel_size * p.l1_h * p.l1_w)
    ring = max(1024, -(-nbytes // 32) * 32, before * 32) + behind * 32
    start = ring - before * 32
    l1 = stage.memories["L1"]
    l1.bytes()[:ring] = noise(ring, seed=ring)
    l1.bytes()[ring : ring + 4096] = 0xEE
    if l1.shadow is not None:
        l1.shadow[:ring] = 1
    bits = load.bits
    raw = l1.bytes()[:ring]
    words = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1) if bits == 4 else raw.view(f"u{bits // 8}")

    def wide() -> Any:
        return asc.LocalTensor(DataType(load.dtype), asc.TPosition.A1, start, ring * 8 // bits)

    calls: list[Any] = []
    stage.call(lambda: calls.extend(load.calls(stage["dst"], wide())), lambda: asc.set_load_data_boundary(ring))
    stage.call(*calls)
    expected = load.expected(words, 32768 * 8 // bits, pad_word(load.dtype), start * 8 // bits, ring * 8 // bits)
    check(load, stage, *expected)


@PROPERTY
@given(load=loads(("atlas_350",)), pitch=st.integers(1, 2))
def test_column_blocks_that_overlap_are_undefined_where_they_do(load: Load, pitch: int) -> None:
    load = replace(load, pitch=pitch)
    stage = stage_of(load)
    stage.call(*load.calls(stage["dst"], stage["src"]))
    check(load, stage, *load.expected(stage.words("src"), 32768 * 8 // load.bits, pad_word(load.dtype)))
    assert any("overlap" in text for text in stage.warnings) is bool(load.overlapping())


# ---- calls that must be refused -------------------------------------------------------------------------------------
GOOD = asc.LoadData3DParamsV2((1, 0, 0, 1), 4, 15, 32, 32, 48, stride_w=1, filter_w=2, filter_h=2)
"""Ho = 4, Wo = 15: 60 rows; 128 columns (half)."""


def _outside(lo: int, hi: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(lo - 9, lo - 1), st.integers(hi + 1, hi + 9))


BAD = {
    "l1_h": _outside(0, 32767), "l1_w": _outside(0, 32767), "channel_size": _outside(0, 65535),
    "k_extension": _outside(0, 65535), "m_extension": _outside(0, 65535), "k_start_pt": _outside(0, 65535),
    "m_start_pt": _outside(0, 32767), "stride_w": _outside(1, 63), "stride_h": _outside(1, 63),
    "filter_w": _outside(0, 255), "filter_h": _outside(0, 255), "dilation_filter_w": _outside(1, 255),
    "dilation_filter_h": _outside(1, 255), "pad_list": _outside(0, 255).map(lambda pad: (0, 0, pad, 0)),
}  # fmt: skip


@pytest.mark.parametrize("field", BAD)
@PROPERTY
@given(data=st.data(), card=st.sampled_from(tuple(A_TYPES)), target=st.sampled_from(("A2", "B2")))
def test_a_field_outside_its_range_is_refused(field: str, data: st.DataObject, card: str, target: str) -> None:
    value = data.draw(BAD[field])
    load = Load(card, "half", target, replace(GOOD, **{field: value}))
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)), "dst": Place(target, "half", 32768)})
    error = stage.refuses(lambda: asc.load_data(stage["dst"], stage["src"], load.params), ParameterError, field)
    assert error.card == card
    assert not any(name.startswith("load3d") for name in stage.recorder.state)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k_start_pt", 8), ("m_start_pt", 8), ("m_start_pt", 64), ("k_start_pt", 128), ("m_extension", 24),
        ("m_extension", 65), ("k_extension", 24), ("k_extension", 129), ("channel_size", 17), ("channel_size", 12),
        ("filter_w", 17), ("filter_h", 6), ("l1_w", 16385), ("pad_list", (0, 0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("card", tuple(A_TYPES))
def test_windows_that_leave_the_matrix_or_start_off_a_fractal(card: str, field: str, value: Any) -> None:
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)), "dst": Place("A2", "half", 32768)})
    params = replace(GOOD, **{field: value})
    stage.refuses(lambda: asc.load_data(stage["dst"], stage["src"], params), ParameterError, field)


@PROPERTY
@given(card=st.sampled_from(tuple(A_TYPES)), mode=st.integers(0, 1), time=st.integers(2, 255), stride=st.integers(1, 65535))
def test_iterations_that_leave_the_matrix(card: str, mode: int, time: int, stride: int) -> None:
    """GOOD has one row fractal (of 4) and 6 column fractals (of 8) behind its window."""
    unit = 2 if card == "atlas_200i" and mode else 1
    assume((time - 1) * stride * unit > (6 if mode else 1))
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)), "dst": Place("A2", "half", 32768)})
    stage.call(lambda: asc.set_load_data_repeat(asc.LoadDataRepeatParam(time, stride, mode)))
    stage.refuses(lambda: asc.load_data(stage["dst"], stage["src"], GOOD), ParameterError, "repeat_stride")


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("card", tuple(A_TYPES))
def test_iterations_of_partial_fractals(card: str, mode: int) -> None:
    params = replace(GOOD, m_start_pt=48, m_extension=12) if mode == 0 else replace(GOOD, k_start_pt=112, k_extension=10)
    stage = Stage(card, {"src": Place("A1", "half", noise(4096)), "dst": Place("A2", "half", 32768)})
    stage.call(lambda: asc.set_load_data_repeat(asc.LoadDataRepeatParam(2, 0, mode)))
    stage.refuses(lambda: asc.load_data(stage["dst"], stage["src"], params), UnsupportedError,
                  "k_extension" if mode else "m_extension")  # fmt: skip


@PROPERTY
@given(boundary=st.integers(1024 // 32, 4096 // 32), start=st.integers(0, 200))
def test_a_source_behind_the_boundary(boundary: int, start: int) -> None:
    assume(start >= boundary)
    stage = Stage("atlas_a2", {"src": Place("A1", "half", noise(16384)), "dst": Place("A2", "half", 32768)})
    stage.call(lambda: asc.set_load_data_boundary(boundary * 32))
    stage.refuses(lambda: asc.load_data(stage["dst"], stage.at("src", start * 16), GOOD), OutOfBoundsError, "address")
