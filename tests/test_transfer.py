"""Transfer: strided copies and fills against byte-by-byte loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.transfer import Fill, Step, Transfer, strided_copy, strided_fill, strided_runs

ROOM = 16384
MIDDLE = ROOM // 2


def noise(seed: int, size: int = ROOM) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@st.composite
def nested_strides(draw: st.DrawFn, item: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides under which no two indices overlap: each dimension steps over the ones inside it, any order and sign."""
    strides = [0] * len(shape)
    reach = item
    for axis in draw(st.permutations(range(len(shape)))):
        step = reach + draw(st.integers(0, 3))
        strides[axis] = step * draw(st.sampled_from((1, 1, -1)))
        reach = step * (shape[axis] - 1) + reach
    return tuple(strides)


@st.composite
def copies(draw: st.DrawFn) -> dict[str, Any]:
    item = draw(st.integers(1, 9))
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    return {
        "item": item,
        "shape": shape,
        "src_strides": tuple(draw(st.lists(st.integers(-12, 12), min_size=len(shape), max_size=len(shape)))),
        "dst_strides": draw(nested_strides(item, shape)),
    }


def byte_moves(item: int, shape: tuple[int, ...], src_strides: Any, dst_strides: Any) -> list[tuple[int, int]]:
    """(source, destination) of every byte, in loop order, from the definition."""
    moves: list[tuple[int, int]] = []
    for index in itertools.product(*[range(n) for n in shape]):
        s = sum(i * x for i, x in zip(index, src_strides, strict=True))
        d = sum(i * x for i, x in zip(index, dst_strides, strict=True))
        moves.extend((s + k, d + k) for k in range(item))
    return moves


def transfer_of(spec: dict[str, Any]) -> Transfer:
    return Transfer(strided_copy(spec["item"], spec["shape"], 0, spec["src_strides"], 0, spec["dst_strides"]))


@given(copies())
def test_copy_moves_what_the_loops_move(spec: dict[str, Any]) -> None:
    src, dst = noise(1), noise(2)
    expected = dst.copy()
    for s, d in byte_moves(**spec):
        expected[MIDDLE + d] = src[MIDDLE + s]
    transfer_of(spec).apply(dst, MIDDLE, src, MIDDLE)
    assert np.array_equal(dst, expected)


@given(copies())
def test_ranges_bytes_and_runs_cover_exactly_the_bytes_of_the_loops(spec: dict[str, Any]) -> None:
    moves = byte_moves(**spec)
    sources, targets = [s for s, _ in moves], [d for _, d in moves]
    transfer = transfer_of(spec)
    assert transfer.nbytes == transfer.copied_bytes == len(moves)
    assert transfer.src_range == (min(sources), max(sources) + 1)
    assert transfer.dst_range == (min(targets), max(targets) + 1)
    assert transfer.dst_dense == (len(set(targets)) == max(targets) - min(targets) + 1)
    assert sorted(bytes_of_runs(transfer.src_runs)) == sorted(sources)
    assert sorted(bytes_of_runs(transfer.dst_runs)) == sorted(targets)


def bytes_of_runs(rows: np.ndarray) -> list[int]:
    touched: list[int] = []
    for row in rows:
        start, size, *dims = (int(x) for x in row)
        for index in itertools.product(*[range(n) for n in dims[0::2]]):
            at = start + sum(i * stride for i, stride in zip(index, dims[1::2], strict=True))
            touched.extend(range(at, at + size))
    return touched


@given(copies(), st.lists(st.integers(0, 3), max_size=2), st.integers(1, 9))
def test_shares_applied_in_order_make_the_whole(spec: dict[str, Any], fills: list[int], of: int) -> None:
    steps: tuple[Step, ...] = transfer_of(spec).steps
    for n in fills:
        steps += strided_fill(b"abc", (n, 2), 4000 + 50 * n, (7, 3))
    transfer = Transfer(steps)
    src = noise(1)
    whole, shared = noise(2), noise(2)
    transfer.apply(whole, MIDDLE, src, MIDDLE)
    written = 0
    for k in range(of):
        part = transfer.part(k, k + 1, of)
        part.apply(shared, MIDDLE, src, MIDDLE)
        written += part.nbytes
    assert np.array_equal(whole, shared)
    assert written == transfer.nbytes


@given(copies(), st.integers(0, 5))
def test_defined_marks_follow_the_bytes(spec: dict[str, Any], holes: int) -> None:
    source = np.ones(ROOM, np.uint8)
    source[MIDDLE - 20 : MIDDLE + 20][:: max(holes, 1)] = 0 if holes else 1
    marks, expected = np.zeros(ROOM, np.uint8), np.zeros(ROOM, np.uint8)
    for s, d in byte_moves(**spec):
        expected[MIDDLE + d] = source[MIDDLE + s]
    transfer = transfer_of(spec)
    transfer.map_defined(marks, MIDDLE, source, MIDDLE)
    assert np.array_equal(marks, expected)
    marks[:] = 0
    transfer.map_defined(marks, MIDDLE, None, 0)
    assert sorted(np.flatnonzero(marks)) == sorted({MIDDLE + d for _, d in byte_moves(**spec)})


@given(st.integers(1, 5), st.lists(st.integers(1, 4), max_size=3).map(tuple), st.data())
def test_fill_writes_its_pattern_at_every_index(size: int, shape: tuple[int, ...], data: st.DataObject) -> None:
    strides = data.draw(nested_strides(size, shape))
    pattern = bytes(range(1, size + 1))
    dst = noise(3)
    expected, defined = dst.copy(), np.zeros(ROOM, np.uint8)
    for _, d in byte_moves(size, shape, strides, strides):
        defined[MIDDLE + d] = 1
    for index in itertools.product(*[range(n) for n in shape]):
        at = MIDDLE + sum(i * s for i, s in zip(index, strides, strict=True))
        expected[at : at + size] = list(pattern)
    transfer = Transfer(strided_fill(pattern, shape, 0, strides))
    transfer.apply(dst, MIDDLE, dst, 0)
    assert np.array_equal(dst, expected)
    marks = np.zeros(ROOM, np.uint8)
    transfer.map_defined(marks, MIDDLE, None, 0)
    assert np.array_equal(marks, defined)


def test_undefined_fill_leaves_bytes_and_clears_marks() -> None:
    (fill,) = strided_fill(bytes(4), (3,), 8, (10,), undefined=True)
    assert isinstance(fill, Fill)
    transfer = Transfer((fill,))
    dst, marks = noise(1), np.ones(ROOM, np.uint8)
    before = dst.copy()
    transfer.apply(dst, 0, dst, 0)
    transfer.map_defined(marks, 0, None, 0)
    assert np.array_equal(dst, before)
    assert sorted(np.flatnonzero(marks == 0)) == [*range(8, 12), *range(18, 22), *range(28, 32)]
    assert not transfer.dst_dense


def test_nothing_to_move_is_no_step() -> None:
    assert strided_copy(4, (3, 0), 0, (4, 4), 0, (4, 4)) == ()
    assert strided_copy(0, (3,), 0, (4,), 0, (4,)) == ()
    assert strided_fill(b"", (3,), 0, (4,)) == strided_fill(b"x", (0,), 0, (4,)) == ()
    assert Transfer(()).src_range == Transfer(()).dst_range == (0, 0)
    assert Transfer(()).src_runs.shape == (0, 12)


def test_contiguous_dimensions_become_one_run() -> None:
    (step,) = strided_copy(4, (2, 3, 8), 0, (96, 32, 4), 0, (96, 32, 4))
    assert (step.item, step.shape) == (192, ())
    (step,) = strided_copy(4, (2, 3, 8), 0, (96, 32, 4), 0, (300, 32, 4))
    assert (step.item, step.shape) == (96, (2,))


def test_destination_stride_zero_keeps_the_last_and_reads_all() -> None:
    transfer = Transfer(strided_copy(2, (3, 4), 10, (100, 2), 50, (0, 2)))
    src, dst = noise(1), noise(2)
    before = dst.copy()
    transfer.apply(dst, 0, src, 0)
    assert np.array_equal(dst[50:58], src[210:218])
    assert np.array_equal(np.delete(dst, range(50, 58)), np.delete(before, range(50, 58)))
    assert transfer.src_range == (10, 218)
    assert transfer.dst_range == (50, 58)
    assert transfer.copied_bytes == 24
    assert not transfer.dst_dense


def test_dense_needs_every_byte_once() -> None:
    # Five bytes written, a range of five, but byte 4 twice and byte 3 never.
    overlapping = Transfer(
        (*strided_copy(3, (), 0, (), 0, ()), *strided_copy(1, (), 0, (), 4, ()), *strided_copy(1, (), 0, (), 4, ()))
    )
    assert overlapping.nbytes == 5
    assert overlapping.dst_range == (0, 5)
    assert not overlapping.dst_dense
    marks = np.zeros(8, np.uint8)
    overlapping.map_defined(marks, 0, None, 0)
    assert marks.tolist() == [1, 1, 1, 0, 1, 0, 0, 0]
    gapless = Transfer((*strided_copy(1, (4,), 0, (1,), 0, (2,)), *strided_fill(b"\0", (4,), 1, (2,))))
    assert gapless.dst_dense


@given(st.lists(st.integers(1, 3), max_size=3).map(tuple), st.data())
def test_nibble_copies_leave_the_other_halves(shape: tuple[int, ...], data: st.DataObject) -> None:
    dst_strides = data.draw(nested_strides(1, shape))
    src_strides = tuple(data.draw(st.lists(st.integers(-5, 5), min_size=len(shape), max_size=len(shape))))
    start = data.draw(st.integers(0, 1))
    src, dst = noise(1), noise(2)
    halves = np.stack([dst & 0xF, dst >> 4], axis=1).reshape(-1)
    source = np.stack([src & 0xF, src >> 4], axis=1).reshape(-1)
    touched = set()
    for s, d in byte_moves(1, shape, src_strides, dst_strides):
        halves[ROOM + start + d] = source[ROOM + s]
        touched.add((ROOM + start + d) // 2)
    transfer = Transfer(strided_copy(1, shape, 0, src_strides, start, dst_strides, nibble=True))
    transfer.apply(dst, MIDDLE, src, MIDDLE)
    assert np.array_equal(dst, halves[0::2] | halves[1::2] << 4)
    marks = np.zeros(ROOM, np.uint8)
    transfer.map_defined(marks, MIDDLE, None, 0)
    assert set(np.flatnonzero(marks).tolist()) == touched


def test_nibble_marks_carry_undefined_sources() -> None:
    transfer = Transfer(strided_copy(1, (3,), 1, (2,), 0, (3,), nibble=True))
    source = np.array([1, 0, 1], np.uint8)
    marks = np.zeros(4, np.uint8)
    transfer.map_defined(marks, 0, source, 0)
    # Nibbles 0, 3 and 6 lie in bytes 0, 1 and 3 and come from source bytes 0, 1 and 2.
    assert marks.tolist() == [1, 0, 0, 1]


def test_even_nibble_copies_become_byte_copies() -> None:
    (step,) = strided_copy(1, (4, 6), 2, (20, 1), 4, (8, 1), nibble=True)
    assert not step.nibble
    assert (step.item, step.src, step.dst, step.shape) == (3, 1, 2, (4,))
    assert (step.src_strides, step.dst_strides) == ((10,), (4,))


def test_runs_of_more_than_five_dimensions_become_rows() -> None:
    shape, strides = (2, 3, 2, 2, 2, 2, 2), (5000, 1000, 400, 200, 90, 40, 16)
    rows = strided_runs(8, shape, 7, strides)
    assert rows.shape == (6, 12)
    expected = [7 + s for s, _ in byte_moves(8, shape, strides, strides)]
    assert bytes_of_runs(rows) == expected


def test_overlapping_source_and_destination_read_before_they_write() -> None:
    data = np.arange(32, dtype=np.uint8)
    Transfer(strided_copy(16, (), 0, (), 4, ())).apply(data, 0, data, 0)
    assert data[4:20].tolist() == list(range(16))


def test_a_transfer_beyond_its_buffer_is_an_error_not_a_wild_write() -> None:
    with pytest.raises(ValueError, match="buffer"):
        Transfer(strided_copy(4, (4,), 0, (4,), 0, (1024,))).apply(noise(1), ROOM - 2048, noise(2), 0)
