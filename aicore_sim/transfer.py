"""Transfer: what a movement does to bytes, said once.

A `Transfer` is a tuple of strided copies and fills, relative to the start of its two operands. The same object moves
the data (`apply`), gives the ranges it touches (`src_range`, `dst_range`), the runs of contiguous bytes for the GM path
(`src_runs`, `dst_runs`), and the number of bytes for the cost. No API keeps a second account of its movement.

Offsets and strides are in bytes; steps of 4-bit elements (`nibble=True`) count nibbles, and element 2i is the low
nibble of byte i (spec api_semantics.md 1.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Runs = NDArray[np.int64]
MAX_DIMS = 5
"""Strides that a row of `Transfer.src_runs` / `dst_runs` has room for."""
RUN_WORDS = 2 + 2 * MAX_DIMS
"""Columns of such a row."""
DENSE_CHECK_BYTES = 1 << 22
"""Longest range that `Transfer.dst_dense` checks byte by byte for movements of several steps."""

_ITEM_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


def item_type(size: int) -> np.dtype[Any]:
    """numpy type that moves `size` bytes as one item: opaque items copy much faster than rows of small ones."""
    found = _ITEM_TYPES.get(size)
    if found is None:
        found = _ITEM_TYPES[size] = np.dtype(f"V{size}")
    return found


@dataclass(frozen=True, slots=True)
class Copy:
    """Moves `item` contiguous bytes for every index of `shape` (outermost first).

    Destination strides of 0 come first: of such a dimension only the last index stays, all are read.
    """

    item: int
    shape: tuple[int, ...]
    src: int
    src_strides: tuple[int, ...]
    dst: int
    dst_strides: tuple[int, ...]
    nibble: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes written, rewritten ones each time (half the elements for nibbles)."""
        total = self.item
        for n in self.shape:
            total *= n
        return (total + 1) // 2 if self.nibble else total


@dataclass(frozen=True, slots=True)
class Fill:
    """Writes `pattern` at every index of `shape`; with `undefined` the bytes are left but marked undefined."""

    pattern: bytes
    shape: tuple[int, ...]
    dst: int
    dst_strides: tuple[int, ...]
    undefined: bool = False

    @property
    def item(self) -> int:
        return len(self.pattern)

    @property
    def nbytes(self) -> int:
        total = len(self.pattern)
        for n in self.shape:
            total *= n
        return total


Step = Copy | Fill


def strided_copy(
    item: int,
    shape: Sequence[int],
    src: int,
    src_strides: Sequence[int],
    dst: int,
    dst_strides: Sequence[int],
    nibble: bool = False,
) -> tuple[Copy, ...]:
    """A normalised copy: () if any extent is 0, else one `Copy` with unit extents dropped and runs merged.

    `item` bytes are moved per index; for `nibble` everything counts nibbles and item is 1. A destination stride of 0
    keeps only the last index, as sequential hardware leaves it. Dimensions are ordered by destination stride, so that
    where other destinations overlap the order of the writes is not the order of the dimensions.
    """
    if item == 0 or any(n == 0 for n in shape):
        return ()
    dims = [(n, s, d) for n, s, d in zip(shape, src_strides, dst_strides, strict=True) if n != 1]
    dims.sort(key=lambda dim: (dim[2] != 0, -abs(dim[2])))
    item, dims = _merge(item, dims)
    if (
        nibble
        and item > 1
        and item % 2 == 0
        and src % 2 == 0
        and dst % 2 == 0
        and all(s % 2 == 0 and d % 2 == 0 for _, s, d in dims)
    ):
        nibble = False
        item, src, dst = item // 2, src // 2, dst // 2
        dims = [(n, s // 2, d // 2) for n, s, d in dims]
    elif nibble and item > 1:
        dims.append((item, 1, 1))
        item = 1
    return (
        Copy(
            item,
            tuple(n for n, _, _ in dims),
            src,
            tuple(s for _, s, _ in dims),
            dst,
            tuple(d for _, _, d in dims),
            nibble,
        ),
    )


def _merge(item: int, dims: list[tuple[int, int, int]]) -> tuple[int, list[tuple[int, int, int]]]:
    """Absorb the innermost dimensions that continue the item, then join neighbours that continue each other."""
    while dims and dims[-1][1] == item and dims[-1][2] == item:
        item *= dims.pop()[0]
    merged: list[tuple[int, int, int]] = []
    for n, s, d in dims:
        if merged:
            pn, ps, pd = merged[-1]
            if ps == n * s and pd == n * d:
                merged[-1] = (pn * n, s, d)
                continue
        merged.append((n, s, d))
    return item, merged


def strided_fill(
    pattern: bytes, shape: Sequence[int], dst: int, dst_strides: Sequence[int], undefined: bool = False
) -> tuple[Fill, ...]:
    """A normalised fill: () if empty; contiguous inner indices are folded into the pattern (up to 4 KB of it)."""
    if not pattern or any(n == 0 for n in shape):
        return ()
    dims = sorted(
        ((n, d) for n, d in zip(shape, dst_strides, strict=True) if n > 1 and d != 0), key=lambda x: -abs(x[1])
    )
    while dims and dims[-1][1] == len(pattern) and len(pattern) * dims[-1][0] <= 4096:
        pattern = pattern * dims.pop()[0]
    return (Fill(pattern, tuple(n for n, _ in dims), dst, tuple(d for _, d in dims), undefined),)


@dataclass(frozen=True)
class Transfer:
    """The steps of one movement, in order. Build with `strided_copy` and `strided_fill`."""

    steps: tuple[Step, ...]

    @cached_property
    def nbytes(self) -> int:
        """Bytes written to the destination, those marked undefined included."""
        return sum(step.nbytes for step in self.steps)

    @cached_property
    def written_bytes(self) -> int:
        """Bytes written with something: `nbytes` without those that are only marked undefined."""
        return sum(step.nbytes for step in self.steps if not (isinstance(step, Fill) and step.undefined))

    @cached_property
    def copied_bytes(self) -> int:
        """Bytes that come from the source (fills left out)."""
        return sum(step.nbytes for step in self.steps if isinstance(step, Copy))

    @cached_property
    def src_range(self) -> tuple[int, int]:
        """[lo, hi) of source bytes relative to the source start; (0, 0) for pure fills."""
        spans = [_span(s.src, s.src_strides, s) for s in self.steps if isinstance(s, Copy)]
        return (min(lo for lo, _ in spans), max(hi for _, hi in spans)) if spans else (0, 0)

    @cached_property
    def dst_range(self) -> tuple[int, int]:
        """[lo, hi) of destination bytes relative to the destination start."""
        spans = [_span(s.dst, s.dst_strides, s) for s in self.steps]
        return (min(lo for lo, _ in spans), max(hi for _, hi in spans)) if spans else (0, 0)

    @cached_property
    def dst_dense(self) -> bool:
        """True if every byte of `dst_range` is known to be written exactly once, and defined."""
        lo, hi = self.dst_range
        if self.nbytes != hi - lo or any(_nibble(s) or (isinstance(s, Fill) and s.undefined) for s in self.steps):
            return False
        if len(self.steps) == 1:
            return _nested(self.steps[0])
        if hi - lo > DENSE_CHECK_BYTES:
            return False
        seen = np.zeros(hi - lo, np.uint8)
        for step in self.steps:
            _mark(step, seen, -lo, 1)
        return bool(seen.all())

    @cached_property
    def src_runs(self) -> Runs:
        """Contiguous source runs: rows (offset, run bytes, n1, stride1, ... n5, stride5), outermost first.

        Unused extents are 1. A step of nibbles is one run over its whole range.
        """
        return _joined([_step_runs(s, s.src, s.src_strides) for s in self.steps if isinstance(s, Copy)])

    @cached_property
    def dst_runs(self) -> Runs:
        """Contiguous destination runs, same columns as `src_runs`."""
        return _joined([_step_runs(s, s.dst, s.dst_strides) for s in self.steps])

    def apply(self, dst: Bytes, dst_base: int, src: Bytes, src_base: int) -> None:
        """Move the bytes: numpy views only, nothing per element."""
        for step in self.steps:
            if type(step) is Copy:
                _copy(step, dst, dst_base, src, src_base)
            elif not step.undefined:  # type: ignore[union-attr]
                _fill(step, dst, dst_base)  # type: ignore[arg-type]

    def part(self, first: int, last: int, of: int) -> Transfer:
        """The share [first/of, last/of) of every step along its outermost index: one movement landing bit by bit."""
        found = self._parts.get((first, last, of))
        if found is None:
            steps: list[Step] = []
            for step in self.steps:
                steps.extend(_part(step, first, last, of))
            found = self._parts[first, last, of] = Transfer(tuple(steps))
        return found

    @cached_property
    def _parts(self) -> dict[tuple[int, int, int], Transfer]:
        """Shares asked for so far: a loop that tears data cuts the same movement every time."""
        return {}

    def map_defined(self, dst: Bytes, dst_base: int, src: Bytes | None, src_base: int) -> None:
        """Carry the defined-byte shadow along: copies take the source's marks (src None: all defined), fills define."""
        lo, hi = self.src_range
        whole = src is None or bool(src[src_base + lo : src_base + hi].view(np.bool_).all())
        if whole and self.dst_dense:
            lo, hi = self.dst_range
            dst[dst_base + lo : dst_base + hi] = 1
            return
        for step in self.steps:
            if isinstance(step, Fill):
                _mark(step, dst, dst_base, 0 if step.undefined else 1)
            elif whole or src is None:
                if step.nibble:
                    dst[_indices(2 * dst_base + step.dst, step.shape, step.dst_strides) >> 1] = 1
                else:
                    _mark(step, dst, dst_base, 1)
            elif step.nibble:
                _copy_marks_of_nibbles(step, dst, dst_base, src, src_base)
            else:
                _copy(step, dst, dst_base, src, src_base)


def _span(start: int, strides: tuple[int, ...], step: Step) -> tuple[int, int]:
    lo = hi = start
    for n, stride in zip(step.shape, strides, strict=True):
        if stride >= 0:
            hi += (n - 1) * stride
        else:
            lo += (n - 1) * stride
    hi += step.item
    if isinstance(step, Copy) and step.nibble:
        return lo // 2, (hi + 1) // 2
    return lo, hi


def _nibble(step: Step) -> bool:
    return isinstance(step, Copy) and step.nibble


def _nested(step: Step) -> bool:
    """True if the destination of one step is one gapless block, each dimension continuing the ones inside it."""
    size = step.item
    for stride, n in sorted((abs(stride), n) for n, stride in zip(step.shape, step.dst_strides, strict=True)):
        if stride != size:
            return False
        size *= n
    return True


def strided_runs(item: int, shape: Sequence[int], start: int, strides: Sequence[int]) -> Runs:
    """Rows of `Transfer.src_runs` for one run of `item` bytes at every index of `shape`, outermost first.

    For instructions whose requests to GM are not the pieces they write. Runs that touch stay separate requests; beyond
    `MAX_DIMS` dimensions the outer ones become rows.
    """
    return _rows(item, [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1], start)


def _rows(item: int, dims: Sequence[tuple[int, int]], start: int) -> Runs:
    outer, inner = dims[: max(len(dims) - MAX_DIMS, 0)], dims[-MAX_DIMS:]
    starts = _indices(start, tuple(n for n, _ in outer), tuple(stride for _, stride in outer))
    rows = np.ones((starts.size, RUN_WORDS), np.int64)
    rows[:, 3::2] = 0
    rows[:, 0], rows[:, 1] = starts, item
    for i, (n, stride) in enumerate(inner):
        rows[:, 2 + 2 * i], rows[:, 3 + 2 * i] = n, stride
    return rows


def _step_runs(step: Step, start: int, strides: tuple[int, ...]) -> Runs:
    if _nibble(step):
        lo, hi = _span(start, strides, step)
        return _rows(hi - lo, (), lo)
    return _rows(step.item, tuple(zip(step.shape, strides, strict=True)), start)


def _joined(parts: list[Runs]) -> Runs:
    return np.concatenate(parts) if parts else np.ones((0, RUN_WORDS), np.int64)


def _copy(step: Copy, dst: Bytes, dst_base: int, src: Bytes, src_base: int) -> None:
    if step.nibble:
        _copy_nibbles(step, dst, dst_base, src, src_base)
        return
    d, s, item = dst_base + step.dst, src_base + step.src, step.item
    shape, src_strides, dst_strides = step.shape, step.src_strides, step.dst_strides
    while dst_strides and dst_strides[0] == 0:
        s += (shape[0] - 1) * src_strides[0]
        shape, src_strides, dst_strides = shape[1:], src_strides[1:], dst_strides[1:]
    if not shape:
        dst[d : d + item] = src[s : s + item]
        return
    kind = item_type(item)
    np.ndarray(shape, kind, dst.data, d, dst_strides)[...] = np.ndarray(shape, kind, src.data, s, src_strides)


def _indices(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    index = np.array(start, np.int64)
    for n, stride in zip(shape, strides, strict=True):
        index = index[..., None] + np.arange(n, dtype=np.int64) * stride
    return index.reshape(-1)


def _copy_nibbles(step: Copy, dst: Bytes, dst_base: int, src: Bytes, src_base: int) -> None:
    take = _indices(2 * src_base + step.src, step.shape, step.src_strides)
    put = _indices(2 * dst_base + step.dst, step.shape, step.dst_strides)
    values = (src[take >> 1] >> ((take & 1) << 2).astype(np.uint8)) & 0xF
    for odd in (0, 1):
        mine = (put & 1) == odd
        where = put[mine] >> 1
        keep = 0xF0 if odd == 0 else 0x0F
        dst[where] = (dst[where] & keep) | (values[mine] << (4 * odd)).astype(np.uint8)


def _copy_marks_of_nibbles(step: Copy, dst: Bytes, dst_base: int, src: Bytes, src_base: int) -> None:
    take = _indices(2 * src_base + step.src, step.shape, step.src_strides)
    put = _indices(2 * dst_base + step.dst, step.shape, step.dst_strides)
    dst[put >> 1] = 1
    dst[put[src[take >> 1] == 0] >> 1] = 0


def _fill(step: Fill, dst: Bytes, dst_base: int) -> None:
    d = dst_base + step.dst
    item = np.frombuffer(step.pattern, np.uint8)
    if not step.shape:
        dst[d : d + item.size] = item
        return
    kind = item_type(item.size)
    np.ndarray(step.shape, kind, dst.data, d, step.dst_strides)[...] = item.view(kind)[0]


def _mark(step: Step, dst: Bytes, dst_base: int, value: int) -> None:
    d = dst_base + step.dst
    if not step.shape:
        dst[d : d + step.item] = value
        return
    kind = item_type(step.item)
    np.ndarray(step.shape, kind, dst.data, d, step.dst_strides)[...] = np.frombuffer(bytes([value]) * step.item, kind)[
        0
    ]


def _part(step: Step, first: int, last: int, of: int) -> tuple[Step, ...]:
    if not step.shape:
        size = step.item
        lo, hi = size * first // of, size * last // of
        if lo >= hi:
            return ()
        if isinstance(step, Copy):
            return (Copy(hi - lo, (), step.src + lo, (), step.dst + lo, (), step.nibble),)
        return (Fill(step.pattern[lo:hi], (), step.dst + lo, (), step.undefined),)
    n = step.shape[0]
    lo, hi = n * first // of, n * last // of
    if lo >= hi:
        return ()
    shape = (hi - lo, *step.shape[1:])
    dst = step.dst + lo * step.dst_strides[0]
    if isinstance(step, Copy):
        src = step.src + lo * step.src_strides[0]
        return (Copy(step.item, shape, src, step.src_strides, dst, step.dst_strides, step.nibble),)
    return (Fill(step.pattern, shape, dst, step.dst_strides, step.undefined),)
