"""DataCopy in blocks: placement, units per path, ranges, dispatch (spec api_semantics.md 9.1, 14.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError, AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions import bias_table
from aicore_sim.instructions.base import GmTraffic, OnChip, Op, Pipe, VectorWork
from aicore_sim.instructions.data_copy import DataCopyParams, build, build_count
from aicore_sim.instructions.nd2nz import Nd2NzParams
from aicore_sim.instructions.nddma import NdDmaConfig, NdDmaLoopInfo, NdDmaParams
from aicore_sim.instructions.slices import SliceInfo
from aicore_sim.kernel.api_copy import data_copy
from tests.instructions.copy_helpers import CARDS, Tensor, card, changed, noise, perform, recording

HALF, FLOAT = DataType("half"), DataType("float")
ROUTES = [("GM", "UB"), ("UB", "GM"), ("UB", "UB"), ("GM", "L1")]


def op_of(params: DataCopyParams, src: str = "GM", dst: str = "UB", dtype: DataType = HALF, on: str = "atlas_a2") -> Op:
    op = build(params, dtype, src, dst, card(on))
    assert op is not None
    return op


@given(
    st.sampled_from(ROUTES),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["atlas_a2", "atlas_350"]),
)
def test_blocks_with_gaps(
    route: tuple[str, str], count: int, length: int, src_gap: int, dst_gap: int, name: str
) -> None:
    src, dst = noise(2048), noise(2048, 2)
    expected, marks = dst.copy(), np.zeros(2048, np.uint8)
    for b in range(count):
        s, d = b * (length + src_gap) * 32, b * (length + dst_gap) * 32
        expected[d : d + length * 32] = src[s : s + length * 32]
        marks[d : d + length * 32] = 1
    op = op_of(DataCopyParams(count, length, src_gap, dst_gap), *route, on=name)
    moved, defined = perform(op, src, dst, *route)
    assert np.array_equal(moved, expected)
    assert defined is None or np.array_equal(defined, marks)


def test_documented_example_of_112_halves() -> None:
    src = np.arange(128, dtype=np.float16)
    raw, _ = perform(
        op_of(DataCopyParams(2, 3, 1, 2), "UB", "UB"), src.view(np.uint8), np.zeros(256, np.uint8), "UB", "UB"
    )
    dst = raw.view(np.float16)
    assert np.array_equal(dst[:48], src[:48])
    assert np.array_equal(dst[80:128], src[64:112])
    assert not dst[48:80].any()


@pytest.mark.parametrize(
    ("dtype", "count", "moved"),
    [("float", 8, 32), ("float", 13, 32), ("float", 4, 0), ("half", 112, 224), ("int8", 100, 96), ("double", 5, 32)],
)
def test_count_rounds_down_to_32_bytes(dtype: str, count: int, moved: int) -> None:
    op = build_count(count, DataType(dtype), "GM", "UB", card("atlas_350"))
    if moved == 0:
        assert op is None
        return
    assert op is not None
    assert op.nbytes == moved
    assert bool(op.warnings) == (moved != count * DataType(dtype).sizeof())
    raw, _ = perform(op, noise(512), noise(512, 2), "GM", "UB")
    assert np.array_equal(raw, np.concatenate([noise(512)[:moved], noise(512, 2)[moved:]]))


def test_four_bit_elements_are_moved_as_bytes() -> None:
    op = build_count(128, DataType("fp4x2_e2m1"), "GM", "UB", card("atlas_350"))
    assert op is not None
    assert op.nbytes == 64


@pytest.mark.parametrize(
    ("route", "pipe", "cost", "aligns"),
    [
        (("GM", "UB"), Pipe.MTE2, GmTraffic, (32, 2)),
        (("UB", "GM"), Pipe.MTE3, GmTraffic, (2, 32)),
        (("GM", "L1"), Pipe.MTE2, GmTraffic, (32, 1)),
        (("UB", "UB"), Pipe.V, VectorWork, (32, 32)),
        (("UB", "L1"), Pipe.MTE3, OnChip, (32, 32)),
        (("L1", "UB"), Pipe.MTE1, OnChip, (32, 32)),
    ],
)
def test_pipe_cost_and_alignment_of_a_route(
    route: tuple[str, str], pipe: Pipe, cost: type, aligns: tuple[int, int]
) -> None:
    op = op_of(DataCopyParams(3, 2, 1, 0), *route, on="atlas_350")
    assert (op.pipe, type(op.cost), op.aligns) == (pipe, cost, aligns)
    assert op.path == "-".join(route)
    assert op.nbytes == 192


def test_every_block_is_a_request_to_gm() -> None:
    op = op_of(DataCopyParams(4, 2, 0, 0))
    assert isinstance(op.cost, GmTraffic)
    assert (op.cost.nbytes, op.cost.rows, op.cost.is_read) == (256, 4, True)
    assert op.gm_operand == 1
    assert op.gm_runs.tolist() == [[0, 64, 4, 64, 1, 0, 1, 0, 1, 0, 1, 0]]
    out = op_of(DataCopyParams(4, 2, 0, 3), "UB", "GM")
    assert out.gm_operand == 0
    assert out.gm_runs[0, :4].tolist() == [0, 64, 4, 160]
    assert out.writes == ((0, 0, 3 * 160 + 64),)
    assert out.reads == ((1, 0, 256),)


@pytest.mark.parametrize(("name", "unit"), [("atlas_a2", 64), ("atlas_a3", 64), ("atlas_350", 32)])
def test_bias_table_counts_in_its_own_unit(name: str, unit: int) -> None:
    op = op_of(DataCopyParams(2, 2, 1, 1), "L1", "BT", FLOAT, name)
    src, dst = noise(1024), noise(1024, 2)
    expected = dst.copy()
    for b in range(2):
        s, d = b * (2 * unit + 32), b * 3 * unit
        expected[d : d + 2 * unit] = src[s : s + 2 * unit]
    moved, _ = perform(op, src, dst, "L1", "BT")
    assert np.array_equal(moved, expected)
    assert op.aligns == (64, 32)
    counted = build_count(24, FLOAT, "L1", "BT", card(name))
    assert counted is not None
    assert counted.nbytes == 96 // unit * unit


@pytest.mark.parametrize(("name", "source", "destination"), [("atlas_a2", 288, 576), ("atlas_350", 160, 288)])
def test_a_converting_copy_names_the_bytes_it_touches(name: str, source: int, destination: int) -> None:
    """Two blocks of 2 units (64 B, on 350 32 B) of half with a gap of 1: twice as long in BT as in L1."""
    op = bias_table.build(DataCopyParams(2, 2, 1, 1), DataType("half"), FLOAT, card(name))
    assert op is not None
    assert op.reads == ((1, 0, source),)
    assert op.writes == ((0, 0, destination),)


def test_odd_lengths_into_the_bias_table() -> None:
    with pytest.raises(ParameterError, match="even"):
        build(DataCopyParams(1, 3), FLOAT, "L1", "BT", card("atlas_350"))
    assert op_of(DataCopyParams(1, 3), "L1", "BT", FLOAT, "atlas_a2").nbytes == 192


def test_fixpipe_buffer_strides_run_from_start_to_start() -> None:
    op = op_of(DataCopyParams(2, 1, 5, 3), "L1", "FB", DataType("uint64"))
    src, dst = noise(1024), noise(1024, 2)
    expected = dst.copy()
    expected[:128], expected[384:512] = src[:128], src[160:288]
    moved, _ = perform(op, src, dst, "L1", "FB")
    assert np.array_equal(moved, expected)
    assert (op.pipe, op.aligns) == (Pipe.FIX, (128, 32))
    assert op_of(DataCopyParams(1, 1, 0, 0), "L1", "FB", DataType("uint64")).nbytes == 128
    with pytest.raises(ParameterError, match="dst_stride"):
        build(DataCopyParams(2, 1, 1, 0), DataType("uint64"), "L1", "FB", card("atlas_a2"))
    with pytest.raises(UnsupportedError, match="element type"):
        build(DataCopyParams(1, 1), FLOAT, "L1", "FB", card("atlas_a2"))


@pytest.mark.parametrize("field", ["block_count", "block_len", "src_stride", "dst_stride"])
@pytest.mark.parametrize("value", [-1, 65536, 1.5, "4"])
def test_fields_outside_their_range(field: str, value: Any) -> None:
    for name in CARDS:
        with pytest.raises(ParameterError) as caught:
            build(changed(DataCopyParams(2, 2), **{field: value}), HALF, "GM", "UB", card(name))
        assert (caught.value.field, caught.value.value, caught.value.card) == (field, value, name)


def test_block_count_has_twelve_bits() -> None:
    assert op_of(DataCopyParams(4095, 1)).nbytes == 4095 * 32
    with pytest.raises(ParameterError, match="4095"):
        build(DataCopyParams(4096, 1), HALF, "GM", "UB", card("atlas_a2"))


@pytest.mark.parametrize("params", [DataCopyParams(0, 4), DataCopyParams(4, 0)])
def test_zero_blocks_or_length(params: DataCopyParams) -> None:
    for route in ROUTES:
        assert build(params, HALF, *route, card("atlas_350")) is None
    for route in (("UB", "L1"), ("L1", "UB")):
        with pytest.raises(ParameterError, match="out of range"):
            build(params, HALF, *route, card("atlas_350"))


@pytest.mark.parametrize(
    ("src", "dst", "refusing"),
    [
        ("UB", "L1", ["atlas_a2", "atlas_a3", "atlas_200i"]),
        ("L1", "GM", ["atlas_350", "atlas_200i"]),
        ("GM", "L1", ["atlas_200i"]),
        ("UB", "UB", ["atlas_200i"]),
        ("GM", "L0A", list(CARDS)),
        ("L1", "L0A", list(CARDS)),
    ],
)
def test_paths_that_a_card_does_not_offer(src: str, dst: str, refusing: list[str]) -> None:
    for name in CARDS:
        if name in refusing:
            with pytest.raises(UnsupportedError) as caught:
                build(DataCopyParams(1, 1), HALF, src, dst, card(name))
            assert caught.value.card == name
            with pytest.raises(UnsupportedError):
                build_count(64, HALF, src, dst, card(name))
        else:
            assert op_of(DataCopyParams(1, 1), src, dst, on=name).nbytes == 32


def test_types_that_a_path_does_not_take() -> None:
    with pytest.raises(UnsupportedError) as caught:
        build(DataCopyParams(1, 1), DataType("fp8_e5m2"), "GM", "UB", card("atlas_a2"))
    assert caught.value.field == "dtype"
    assert op_of(DataCopyParams(1, 1), dtype=DataType("fp8_e5m2"), on="atlas_350").nbytes == 32


# ---- as a kernel calls it -------------------------------------------------------------------------------------------
def test_all_spellings_of_a_call() -> None:
    params = DataCopyParams(2, 2)
    with recording("atlas_a2") as stage:
        ub, gm = Tensor(stage.local["UB"], "half"), Tensor(stage.a, "half")
        data_copy(ub, gm, 64)
        data_copy(ub, gm, count=64)
        data_copy(ub, gm, params)
        data_copy(ub, gm, repeat_params=DataCopyParams(2, 2))
        data_copy(ub, gm, params=params)
        first, *_ = stage.ops
        assert len(stage.ops) == 5
        assert stage.ops[1] is first
        assert stage.ops[2] is stage.ops[3] is stage.ops[4]
        entry = stage.recorder.program[0]
        assert entry.bufs == (stage.local["UB"], stage.a)
        assert entry.offs == (0, 0)


def test_numpy_integers_count_too() -> None:
    with recording("atlas_a2") as stage:
        ub, gm = Tensor(stage.local["UB"], "half"), Tensor(stage.a, "half")
        data_copy(ub, gm, np.int64(64))
        data_copy(ub, gm, 64)
        assert stage.ops[0] is stage.ops[1]


def test_nothing_to_move_warns_and_records_nothing() -> None:
    with recording("atlas_a2") as stage:
        ub, gm = Tensor(stage.local["UB"], "float"), Tensor(stage.a, "float")
        data_copy(ub, gm, count=4)
        data_copy(ub, gm, DataCopyParams(0, 4))
        assert stage.ops == []
        assert stage.warnings == ["DataCopy moves nothing: a count or length is 0, or less than one block"] * 2


def test_rounding_down_warns() -> None:
    with recording("atlas_a2") as stage:
        data_copy(Tensor(stage.local["UB"], "float"), Tensor(stage.a, "float"), count=13)
        assert stage.ops[0].nbytes == 32
        assert stage.warnings == ["DataCopy: 13 elements are 52 B; the copy rounds down to 32 B (use data_copy_pad)"]


@pytest.mark.parametrize(
    ("error", "field", "args", "kwargs"),
    [
        (ParameterError, "arguments", (), {}),
        (ParameterError, "count", (-32,), {}),
        (ParameterError, "params", ("64",), {}),
        (ParameterError, "params", ([1, 2],), {}),
        (ParameterError, "arguments", (), {"amount": 64}),
        (ParameterError, "arguments", (64,), {"count": 64}),
        (ParameterError, "enhanced_params", (DataCopyParams(1, 1), 3), {}),
        (ParameterError, "arguments", (32, 3), {}),
        (ParameterError, "count", (), {"count": DataCopyParams(1, 1)}),
        (ParameterError, "intri_params", (), {"intri_params": DataCopyParams(1, 1)}),
        (ParameterError, "arguments", (DataCopyParams(1, 1),), {"config": NdDmaConfig()}),
        (ParameterError, "config", (NdDmaParams(NdDmaLoopInfo(1, 1, 8)),), {"config": 3}),
        (ParameterError, "arguments", (), {"slice_list1": [SliceInfo()]}),
        (ParameterError, "arguments", ([SliceInfo()], [SliceInfo()], 1, 2), {}),
        (ParameterError, "slice_list1", (), {"slice_list1": [3], "slice_list2": [SliceInfo()], "dim_value": 1}),
        (ParameterError, "slice_list2", ([SliceInfo()], SliceInfo(), 1), {}),
        (ParameterError, "dim_value", ([SliceInfo()], [SliceInfo()], 1.5), {}),
        (ParameterError, "slice_list1", ([], [], 1), {}),
    ],
)
def test_arguments_that_no_form_takes(
    error: type[AiCoreError], field: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with recording("atlas_350") as stage:
        with pytest.raises(error) as caught:
            data_copy(Tensor(stage.local["UB"], "half"), Tensor(stage.a, "half"), *args, **kwargs)
        assert caught.value.field == field
        assert stage.ops == []


def test_tensors_of_different_types() -> None:
    with recording("atlas_a2") as stage, pytest.raises(ParameterError, match="different element types"):
        data_copy(Tensor(stage.local["UB"], "half"), Tensor(stage.a, "float"), 64)


def test_addresses_are_checked_before_anything_is_recorded() -> None:
    with recording("atlas_a2") as stage:
        ub, gm = stage.local["UB"], stage.a
        with pytest.raises(AlignmentError):
            data_copy(Tensor(ub, "half", 16), Tensor(gm, "half"), 64)
        with pytest.raises(AlignmentError):
            data_copy(Tensor(ub, "half"), Tensor(gm, "half", 1), 64)
        with pytest.raises(OutOfBoundsError):
            data_copy(Tensor(ub, "half"), Tensor(gm, "half", 4096 - 64), 64)
        with pytest.raises(OutOfBoundsError):
            data_copy(Tensor(ub, "half", ub.size - 64), Tensor(gm, "half"), 64)
        assert stage.ops == []
        data_copy(Tensor(ub, "half", ub.size - 128), Tensor(gm, "half", 4096 - 128), 64)
        assert len(stage.ops) == 1


def test_copies_of_the_other_core_are_not_recorded() -> None:
    from aicore_sim.memory import Buffer

    elsewhere = Buffer("L1", 1024, uid=9, label="L1")
    with recording("atlas_a2") as stage:
        data_copy(Tensor(elsewhere, "half"), Tensor(stage.a, "half"), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
        assert stage.ops == []
        with pytest.raises(UnsupportedError, match="from UB to L1") as caught:
            data_copy(Tensor(elsewhere, "half"), Tensor(stage.local["UB"], "half"), 64)
        assert "data_copy to GM" in str(caught.value.allowed)


def test_a_float_is_refused_even_after_the_equal_int_was_accepted() -> None:
    @asc.jit
    def kernel(x: asc.GlobalAddress) -> None:
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 1024)
        asc.data_copy(ub, gm, asc.DataCopyParams(1, 2))
        asc.data_copy(ub[64], gm, asc.DataCopyParams(1, 2.0))  # type: ignore[arg-type]

    with pytest.raises(asc.ParameterError) as caught:
        asc.simulate(kernel, np.zeros(1024, np.float16))
    assert caught.value.field == "block_len"


def test_fields_from_run_time_values_count_as_plain_numbers() -> None:
    # A run-time value divides as C does; the rate of a copy of `height` rows must not become 0 by it.
    @asc.jit
    def load(x: asc.GlobalAddress) -> None:
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        height = 4 - asc.get_block_idx()
        ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
        asc.data_copy(ub, gm, asc.DataCopyParams(height, 1, 0, 0))

    run = asc.simulate(load, np.zeros(64, np.float32), card="atlas_a2")
    assert type(run.columns.ops[0].cost.nbytes) is int
    assert run.columns.ops[0].cost.nbytes == 4 * 32
