"""NDDMA against the addressing of the text, element by element (spec api_semantics.md 10, 14.7)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import NDDMA_ELEMENTS, GmTraffic, Op, Pipe
from aicore_sim.instructions.nddma import (
    DEFAULT_CONFIG,
    MultiCopyLoopInfo,
    MultiCopyParams,
    NdDmaConfig,
    NdDmaLoopInfo,
    NdDmaParams,
    build,
)
from aicore_sim.kernel.api_copy import data_copy, nd_dma_dci
from tests.instructions.copy_helpers import Tensor, card, changed, noise, perform, recording

WORDS = {"int8": np.uint8, "uint16": np.uint16, "float": np.uint32, "int64": np.uint64}
NEAREST = NdDmaConfig(is_nearest_value_mode=True)


def make(params: NdDmaParams, dtype: str = "float", config: NdDmaConfig = DEFAULT_CONFIG, on: str = "atlas_350") -> Op:
    return build(params, DataType(dtype), "GM", "UB", card(on), config)


def loops(src: Any, dst: Any, size: Any, lp: Any = 0, rp: Any = 0, value: float | None = 0) -> NdDmaParams:
    return NdDmaParams(NdDmaLoopInfo(src, dst, size, lp, rp), value)


def elements(
    src: tuple[int, ...],
    dst: tuple[int, ...],
    size: tuple[int, ...],
    lp: tuple[int, ...],
    rp: tuple[int, ...],
    nearest: bool,
) -> dict[int, int | None]:
    """Destination element -> source element, None for the constant (10.2)."""
    found: dict[int, int | None] = {}
    for p in itertools.product(*[range(a + n + b) for a, n, b in zip(lp, size, rp, strict=True)]):
        q = [x - a for x, a in zip(p, lp, strict=True)]
        inside = all(0 <= x < n for x, n in zip(q, size, strict=True))
        clamped = [min(max(x, 0), n - 1) for x, n in zip(q, size, strict=True)]
        at = sum(x * s for x, s in zip(p, dst, strict=True))
        assert at not in found
        found[at] = sum(x * s for x, s in zip(clamped, src, strict=True)) if inside or nearest else None
    return found


def check(
    columns: tuple[tuple[int, ...], ...], dtype: str, nearest: bool = False, value: int = 0, config: Any = None
) -> None:
    src_strides, dst_strides, sizes, left, right = columns
    places = elements(src_strides, dst_strides, sizes, left, right, nearest)
    word = WORDS[dtype]
    size = np.dtype(word).itemsize
    src = noise((max(s for s in places.values() if s is not None) + 1) * size)
    dst = noise((max(places) + 9) * size, 2)
    expected, marks = dst.view(word).copy(), np.zeros(dst.size, np.uint8)
    for at, source in places.items():
        expected[at] = value if source is None else src.view(word)[source]
        marks[at * size : (at + 1) * size] = 1
    op = make(NdDmaParams(NdDmaLoopInfo(*columns), value), dtype, config or NdDmaConfig(is_nearest_value_mode=nearest))
    moved, defined = perform(op, src, dst, "GM", "UB")
    assert np.array_equal(moved.view(word), expected)
    assert np.array_equal(defined, marks)
    # The reads that an access check sees: the outermost element, paddings not counted. No byte is written twice.
    assert op.reads == ((1, 0, src.size),)
    assert op.nbytes == len(places) * size


@st.composite
def columns(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    dim = draw(st.integers(1, 5))
    most = 5 if dim < 4 else 3
    size = [draw(st.integers(1, most)) for _ in range(dim)]
    lp = [draw(st.integers(0, 2)) for _ in range(dim)]
    rp = [draw(st.integers(0, 2)) for _ in range(dim)]
    src = [draw(st.integers(0, 12)) for _ in range(dim)]
    dst, reach = [0] * dim, 1
    for axis in draw(st.permutations(range(dim))):
        dst[axis] = reach + draw(st.integers(0, 2))
        reach += dst[axis] * (lp[axis] + size[axis] + rp[axis] - 1)
    return tuple(src), tuple(dst), tuple(size), tuple(lp), tuple(rp)


@given(columns(), st.sampled_from(["int8", "uint16", "int64"]), st.integers(1, 100))
def test_constant_padding(spec: tuple[tuple[int, ...], ...], dtype: str, value: int) -> None:
    check(spec, dtype, value=0 if dtype == "int64" else value)


@given(columns(), st.sampled_from(["int8", "uint16", "float"]))
def test_nearest_padding(spec: tuple[tuple[int, ...], ...], dtype: str) -> None:
    check(spec, dtype, nearest=True)


@given(columns().filter(lambda spec: len(spec[0]) <= 2), st.integers(0, 3), st.booleans())
def test_config_pads_replace_those_of_all_dimensions(
    spec: tuple[tuple[int, ...], ...], pad: int, nearest: bool
) -> None:
    src, _, size, _, rp = spec
    # Room for the larger extents.
    dst = tuple(40**i for i in range(len(size)))
    config = NdDmaConfig(is_nearest_value_mode=nearest, loop_lp_size=pad)
    check((src, dst, size, (pad,) * len(size), rp), "uint16", nearest, 0, config)


def test_two_by_eight_into_four_by_sixteen() -> None:
    matrix = np.arange(1, 17, dtype=np.float32)
    op = make(loops((1, 8), (1, 16), (8, 2), (3, 1), (5, 1)))
    moved, defined = perform(op, matrix.view(np.uint8), noise(256), "GM", "UB")
    assert np.array_equal(moved.view(np.float32).reshape(4, 16), np.pad(matrix.reshape(2, 8), ((1, 1), (3, 5))))
    assert defined.all()


def test_documented_scenarios() -> None:
    check(((1, 32), (1, 64), (32, 16), (15, 13), (17, 3)), "float")
    check(((1, 15), (1, 32), (15, 28), (11, 3), (6, 1)), "float", nearest=True)
    check(((1, 64), (16, 1), (64, 16), (0, 0), (0, 0)), "float")
    check(((1, 0), (1, 16), (16, 3), (0, 0), (0, 0)), "float")
    check(((1, 64), (1, 16), (16, 16), (0, 0), (0, 0)), "float")
    check(((1, 3), (1, 6), (3, 4), (2, 2), (1, 3)), "int8", value=88)
    check(((1, 2), (1, 4), (2, 2), (1, 1), (1, 1)), "float")


def test_transposition_and_nearest_edges_in_numpy_words() -> None:
    matrix = noise(16 * 64).reshape(16, 64)
    op = make(loops((1, 64), (16, 1), (64, 16)), "uint8")
    moved, _ = perform(op, matrix.reshape(-1), np.zeros(1024, np.uint8), "GM", "UB")
    assert np.array_equal(moved.reshape(64, 16), matrix.T)
    op = make(loops((1, 64), (1, 80), (64, 16), (7, 2), (9, 3)), "uint8", NEAREST)
    moved, _ = perform(op, matrix.reshape(-1), np.zeros(21 * 80, np.uint8), "GM", "UB")
    assert np.array_equal(moved.reshape(21, 80), np.pad(matrix, ((2, 3), (7, 9)), mode="edge"))


@pytest.mark.parametrize(
    ("src", "last"),
    [
        ((1, 4, 16, 64, 256), 342),
        ((2, 4, 16, 64, 256), 343),
        ((1, 8, 16, 64, 256), 346),
        ((1, 4, 32, 64, 256), 358),
        ((1, 4, 16, 128, 256), 406),
        ((1, 4, 16, 64, 512), 598),
    ],
)
def test_bytes_read_in_five_dimensions(src: tuple[int, ...], last: int) -> None:
    op = make(loops(src, (1, 2, 4, 8, 16), (2,) * 5), "int8")
    assert op.reads == ((1, 0, last),)
    assert op.writes == ((0, 0, 32),)


def test_strides_of_single_iterations_do_not_count() -> None:
    far = 2**40 - 1
    op = make(loops((1, far, far, far, far), (1, 9, 9, 9, 9), (2, 1, 1, 1, 1)), "int8")
    assert op.reads == ((1, 0, 2),)
    assert op.writes == ((0, 0, 2),)


def test_one_dimension_as_plain_numbers() -> None:
    op = make(loops(7, 1, 14))
    src = np.arange(100, dtype=np.float32)
    moved, _ = perform(op, src.view(np.uint8), np.zeros(56, np.uint8), "GM", "UB")
    assert np.array_equal(moved.view(np.float32), src[:98:7])
    assert make(NdDmaParams(NdDmaLoopInfo([7], [1], [14]), 0)).reads == op.reads
    assert (MultiCopyParams, MultiCopyLoopInfo) == (NdDmaParams, NdDmaLoopInfo)


def test_padding_without_a_value_is_undefined() -> None:
    unset = loops((1, 8), (1, 16), (8, 2), (3, 1), (5, 1), None)
    op = make(unset)
    assert any("pad value not set" in text for text in op.warnings)
    dst = noise(256)
    moved, defined = perform(op, noise(64), dst, "GM", "UB")
    inside = np.zeros((4, 16), bool)
    inside[1:3, 3:11] = True
    assert np.array_equal(defined.reshape(4, 16, 4).all(axis=2), inside)
    assert np.array_equal(moved.reshape(4, 16, 4)[~inside], dst.reshape(4, 16, 4)[~inside])
    # It is not asked for without padding, nor in nearest mode.
    assert not make(loops((1, 8), (1, 8), (8, 2), value=None)).warnings
    assert not make(unset, config=NEAREST).warnings


def test_negative_zero_is_another_padding_than_zero() -> None:
    with recording("atlas_350") as stage:
        ub, gm = Tensor(stage.local["UB"], "float"), Tensor(stage.a, "float")
        for value in (0.0, -0.0):
            data_copy(ub, gm, loops((1,), (1,), (8,), (8,), (0,), value))
        positive, negative = stage.ops
        assert positive is not negative


def test_cost_and_gm_reads_follow_the_loops() -> None:
    op = make(loops((1, 8), (1, 16), (8, 2), (3, 1), (5, 1)))
    assert op.cost == GmTraffic("GM-UB", 64, 2, is_read=True, layout="nddma")
    assert (op.pipe, op.through, op.gm_operand, op.aligns) == (Pipe.MTE2, "nddma", 1, (1, 1))
    assert op.gm_runs[:, :2].tolist() == [[0, 64]]
    # A transposition reads in its own loop order, not in the order of the destination.
    swapped = make(loops((64, 1), (1, 16), (16, 64)))
    assert swapped.cost == GmTraffic("GM-UB", 4096, 1024, is_read=True, layout=NDDMA_ELEMENTS)
    assert swapped.gm_runs.tolist() == [[0, 4, 64, 4, 16, 256, 1, 0, 1, 0, 1, 0]]
    assert isinstance(swapped.cost, GmTraffic)
    assert swapped.cost.rows == 1024


def test_five_dimensions_of_64_bits_take_two_passes() -> None:
    columns = ((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), (2, 2, 2, 2, 1))
    two = make(loops(*columns), "int64")
    assert two.gm_runs[:, 0].tolist() == [0, 4]
    assert two.gm_runs[:, 1].tolist() == [4, 4]
    fused = make(loops(*columns), "int64", NdDmaConfig(loop_lp_size=0, loop_rp_size=0))
    assert fused.gm_runs[:, 1].tolist() == [128]


FIVE = ("loop_src_stride", "loop_dst_stride", "loop_size", "loop_lp_size", "loop_rp_size")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loop_src_stride", -1),
        ("loop_src_stride", 2**40),
        ("loop_dst_stride", -1),
        ("loop_dst_stride", 2**20),
        ("loop_size", 0),
        ("loop_size", 2**20),
        ("loop_lp_size", -1),
        ("loop_lp_size", 256),
        ("loop_rp_size", -1),
        ("loop_rp_size", 392),
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_ranges_one_field_at_a_time(field: str, value: int, index: int) -> None:
    good = NdDmaLoopInfo((1, 8), (1, 16), (8, 2), (3, 1), (5, 1))
    column = list(getattr(good, field))
    column[index] = value
    with pytest.raises(ParameterError) as caught:
        make(NdDmaParams(changed(good, **{field: tuple(column)}), 0))
    assert (caught.value.field, caught.value.value, caught.value.card) == (field, value, "atlas_350")


def test_limits_themselves_are_legal() -> None:
    make(loops((2**40 - 1,), (2**20 - 1,), (1,), (0,), (255,)), config=NdDmaConfig(loop_rp_size=0))
    make(loops((0,), (1,), (2**20 - 1,), (255,), (255,)))


@pytest.mark.parametrize("pad", [-1, 256, 0xFFFE, 0x10000])
@pytest.mark.parametrize("field", ["loop_lp_size", "loop_rp_size"])
def test_config_pads_are_bytes_or_unset(field: str, pad: int) -> None:
    with pytest.raises(ParameterError) as caught:
        make(loops(1, 1, 8), config=changed(NdDmaConfig(), **{field: pad}))
    assert (caught.value.field, caught.value.value) == (field, pad)


def test_dimensions_agree() -> None:
    for field in FIVE:
        if field == "loop_size":
            continue
        with pytest.raises(ParameterError) as caught:
            make(NdDmaParams(changed(NdDmaLoopInfo((1, 8), (1, 16), (8, 2)), **{field: (1, 2, 3)}), 0))
        assert caught.value.field == field
    with pytest.raises(ParameterError, match="dimensions"):
        make(loops((1,) * 6, (1,) * 6, (1,) * 6))
    with pytest.raises(ParameterError, match="dimensions"):
        make(loops((), (), ()))
    with pytest.raises(ParameterError, match="sequence of ints"):
        changed(NdDmaLoopInfo(1, 1, 8), loop_src_stride=(1, "8"))


def test_span_of_one_instruction() -> None:
    make(loops((1, 2**39), (1, 8), (8, 2)))
    for src, size in (((1, 2**39), (8, 3)), ((2**39, 2**39), (2, 2))):
        with pytest.raises(ParameterError, match="span") as caught:
            make(loops(src, (1, 8), size))
        assert caught.value.field == "loop_src_stride"
    # Paddings count as if they were read.
    with pytest.raises(ParameterError, match="span"):
        make(loops((1, 2**39), (1, 8), (8, 2), (0, 1), (0, 0)))
    with pytest.raises(ParameterError, match="span") as caught:
        make(loops((0, 0), (2**20 - 1, 2**20 - 1), (2**20 - 1, 5)))
    assert caught.value.field == "loop_dst_stride"


@pytest.mark.parametrize(
    ("dst", "size", "lp", "rp"),
    [
        ((1, 15), (8, 2), (3, 0), (5, 0)),
        ((1, 1), (8, 2), (0, 0), (0, 0)),
        ((2, 5), (4, 2), (0, 0), (0, 0)),
        ((1, 8, 9), (8, 2, 2), (0, 0, 0), (0, 0, 0)),
    ],
)
def test_ascending_destination_strides_may_not_interleave(
    dst: tuple[int, ...], size: tuple[int, ...], lp: tuple[int, ...], rp: tuple[int, ...]
) -> None:
    with pytest.raises(ParameterError) as caught:
        make(loops((1,) * len(dst), dst, size, lp, rp))
    assert caught.value.field == "loop_dst_stride"


def test_interleaving_that_is_not_ascending() -> None:
    # Offsets 0, 2, 4 and 0, 3: all different although the loops interleave.
    assert not make(loops((1, 8), (3, 2), (2, 3))).warnings
    assert any("overlap" in text for text in make(loops((1, 8), (2, 1), (2, 3))).warnings)
    assert any("overlap" in text for text in make(loops((1, 8), (1, 0), (4, 3))).warnings)


def test_64_bit_types() -> None:
    with pytest.raises(ParameterError) as caught:
        make(loops(1, 1, 8), "int64", NEAREST)
    assert caught.value.field == "is_nearest_value_mode"
    with pytest.raises(ParameterError) as caught:
        make(loops(1, 1, 8, 1, 1, 5), "double")
    assert caught.value.field == "constant_value"
    for field, value in (("loop_src_stride", 2**39), ("loop_dst_stride", 2**19)):
        with pytest.raises(ParameterError) as caught:
            make(NdDmaParams(changed(NdDmaLoopInfo(1, 1, 1), **{field: value}), 0), "uint64")
        assert caught.value.field == field
    noted = make(loops((1, 8), (1, 16), (8, 2)), "int64", NdDmaConfig(loop_lp_size=1))
    assert any("64-bit" in text for text in noted.warnings)


def test_only_the_card_that_has_it() -> None:
    for name in ("atlas_a2", "atlas_a3", "atlas_200i"):
        with pytest.raises(UnsupportedError) as caught:
            make(loops(1, 1, 8), on=name)
        assert caught.value.card == name
        with recording(name) as stage, pytest.raises(UnsupportedError) as caught:
            nd_dma_dci()
        assert caught.value.card == name
        assert stage.ops == []
    with pytest.raises(UnsupportedError) as caught:
        make(loops(1, 1, 8), "fp4x2_e2m1")
    assert caught.value.field == "dtype"
    assert make(loops(1, 1, 8), "fp8_e5m2").nbytes == 8
    with pytest.raises(ParameterError, match="GM to UB"):
        build(loops(1, 1, 8), DataType("half"), "UB", "GM", card("atlas_350"))


def test_as_a_kernel_calls_it() -> None:
    params = loops((1, 8), (1, 16), (8, 2), (3, 1), (5, 1))
    with recording("atlas_350") as stage:
        ub, gm = stage.local["UB"], stage.a
        nd_dma_dci()
        data_copy(Tensor(ub, "float"), Tensor(gm, "float"), params)
        data_copy(Tensor(ub, "float"), Tensor(gm, "float"), params=params, config=NdDmaConfig())
        data_copy(Tensor(ub, "float"), Tensor(gm, "float"), params, config=NEAREST)
        data_copy(Tensor(ub, "float"), Tensor(gm, "float"), params, NEAREST)
        dci, first, second, third, fourth = stage.ops
        assert (dci.api, dci.pipe, dci.through) == ("NdDmaDci", Pipe.MTE2, "nddma-invalidate")
        assert first.writes == second.writes
        assert third is fourth
        assert third is not first
        assert stage.warnings == []
        data_copy(Tensor(ub, "float", 4), Tensor(gm, "float"), params)
        assert len(stage.ops) == 6
        assert any("32 B aligned" in text for text in stage.warnings)
        with pytest.raises(OutOfBoundsError):
            data_copy(Tensor(ub, "float"), Tensor(gm, "float", 4096 - 60), params)
        with pytest.raises(ParameterError):
            data_copy(Tensor(ub, "float"), Tensor(gm, "float"), loops(1, 1, 0))
        assert len(stage.ops) == 6


def test_a_cube_core_does_nothing() -> None:
    from aicore_sim.memory import Buffer

    with recording("atlas_350", "aic", ("L1",)) as stage:
        data_copy(Tensor(Buffer("UB", 4096, uid=5, label="UB"), "float"), Tensor(stage.a, "float"), loops(1, 1, 8))
        nd_dma_dci()
        assert stage.ops == []
