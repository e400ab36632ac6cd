"""How a vector instruction reads, computes and writes UB: the effects of the count form and of the mask form.

Both compute whole repeats (256 B of the widest element) at a time, so that a share of the work is a number of repeats.
Operand 0 is the destination. An element of the destination is defined if all its source elements are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import BLOCK_BYTES, DataType, typed
from aicore_sim.instructions.vector_math import Array, Function
from aicore_sim.memory import Buffer

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


def share(total: int, first: int, last: int, of: int) -> tuple[int, int]:
    """The part [first/of, last/of) of `total` units of work."""
    return total * first // of, total * last // of


# ---- consecutive elements -------------------------------------------------------------------------------------------
def read_line(buffer: Buffer, offset: int, dtype: DataType, first: int, count: int) -> Array:
    """Elements [first, first + count) of an operand at byte `offset`: a view (4-bit types: unpacked, `first` even)."""
    start = offset + first * dtype.bits // 8
    raw = buffer.bytes()[start : start + dtype.nbytes(count)]
    return typed(raw, dtype)


def write_line(buffer: Buffer, offset: int, dtype: DataType, first: int, count: int, values: Array) -> None:
    """Put elements (or one for all) at the same place; 4-bit types are packed, low nibble first."""
    target = read_line(buffer, offset, dtype, first, count)
    if dtype.bits >= 8:
        target[...] = values
        return
    nibbles = np.broadcast_to(values, target.shape).astype(target.dtype).view(np.uint8) & 0xF
    start = offset + first // 2
    buffer.bytes()[start : start + count // 2] = nibbles[0::2] | nibbles[1::2] << 4


def line_defined(buffer: Buffer, offset: int, dtype: DataType, first: int, count: int) -> Bools | None:
    """Which elements are defined; None if all are."""
    start = offset + first * dtype.bits // 8
    stop = start + dtype.nbytes(count)
    if buffer.shadow is None or buffer.is_defined(start, stop):
        return None
    marks = buffer.shadow[start:stop].view(np.bool_)
    if dtype.bits < 8:
        return np.repeat(marks, 2)
    defined: Bools = np.logical_and.reduce(marks.reshape(count, -1), axis=1)
    return defined


def mark_line(buffer: Buffer, offset: int, dtype: DataType, first: int, count: int, defined: Bools | None) -> None:
    """Set the marks of the elements (None: all defined); a byte of two 4-bit elements needs both."""
    if buffer.shadow is None:
        return
    start = offset + first * dtype.bits // 8
    marks = buffer.shadow[start : start + dtype.nbytes(count)].view(np.bool_)
    if defined is None:
        marks[...] = True
    elif dtype.bits < 8:
        marks[...] = defined.reshape(-1, 2).all(axis=1)
    else:
        marks.reshape(count, -1)[...] = defined[:, None]


class CountEffect:
    """Exactly `count` consecutive elements (spec api_semantics.md 25.2); `inputs` are the operands that are read.

    Repeats follow each other as in the mask form: a destination laid over a source at another place, or with wider
    elements, is read where an earlier repeat has written it.
    """

    __slots__ = ("compute", "count", "dtypes", "inputs", "per_repeat", "repeats")

    def __init__(
        self, compute: Function, dtypes: Sequence[DataType], inputs: Sequence[int], count: int, per_repeat: int
    ) -> None:
        self.compute = compute
        self.dtypes = tuple(dtypes)
        self.inputs = tuple(inputs)
        self.count = count
        self.per_repeat = per_repeat
        self.repeats = -(-count // per_repeat)

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        lo, hi = lo * self.per_repeat, min(hi * self.per_repeat, self.count)
        step = self.per_repeat if self._chained(bufs, offs) else max(hi - lo, 1)
        with np.errstate(all="ignore"):
            for start in range(lo, hi, step):
                self._elements(bufs, offs, start, min(step, hi - start))

    def _elements(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int) -> None:
        dtypes = self.dtypes
        defined: Bools | None = None
        for i in self.inputs:
            marks = line_defined(bufs[i], offs[i], dtypes[i], start, n)
            if marks is not None:
                defined = marks if defined is None else defined & marks
        values = self.compute(*[read_line(bufs[i], offs[i], dtypes[i], start, n) for i in self.inputs])
        write_line(bufs[0], offs[0], dtypes[0], start, n, values)
        mark_line(bufs[0], offs[0], dtypes[0], start, n, defined)

    def _chained(self, bufs: Sequence[Buffer], offs: Sequence[int]) -> bool:
        """True if a repeat may read what another one writes."""
        if self.repeats == 1:
            return False
        end = offs[0] + self.dtypes[0].nbytes(self.count)
        for i in self.inputs:
            same = offs[i] == offs[0] and self.dtypes[i].bits == self.dtypes[0].bits
            if bufs[i] is bufs[0] and not same and offs[i] < end:
                if offs[0] < offs[i] + self.dtypes[i].nbytes(self.count):
                    return True
        return False


# ---- blocks under a mask --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the elements of one operand lie in the mask form.

    A repeat takes 32 B blocks that start `block` bytes apart (0: the first one again); the next repeat starts `repeat`
    bytes further.
    """

    dtype: DataType
    block: int
    repeat: int

    def element(self, index: int) -> int:
        """Byte of element `index` of a repeat, relative to the start of the repeat."""
        at = index * self.dtype.bits // 8
        return at // BLOCK_BYTES * self.block + at % BLOCK_BYTES

    def span(self, first: int, last: int, repeats: int) -> tuple[int, int]:
        """[lo, hi) of the bytes that elements first..last of all repeats touch, relative to the operand."""
        lo, hi = self.element(first), self.element(last) + self.dtype.bits // 8
        if self.block == 0 and last * self.dtype.bits // 8 >= BLOCK_BYTES:
            lo, hi = 0, BLOCK_BYTES
        return lo, hi + (repeats - 1) * self.repeat

    def view(self, memory: Bytes, offset: int, first: int, repeats: int, elements: int) -> Bytes:
        """Whole blocks that hold the first `elements` of each repeat: bytes [repeat, block, 32]."""
        blocks = -(-elements * self.dtype.bits // 8 // BLOCK_BYTES)
        shape = (repeats, blocks, BLOCK_BYTES)
        return np.ndarray(shape, np.uint8, memory.data, offset + first * self.repeat, (self.repeat, self.block, 1))


def gather(view: Bytes, kind: np.dtype[Any], elements: int) -> Array:
    """Elements [repeat, element] of a block view, as a copy (in C order: a stride of 0 would otherwise change it)."""
    rows = np.array(view, order="C").reshape(len(view), -1).view(kind)
    return rows[:, :elements]


def put(view: Bytes, kind: np.dtype[Any], values: Array, mask: Bools) -> None:
    """Write [repeat, element] values (or one for all) into a block view where the mask of a repeat is set."""
    rows = np.array(view, order="C").reshape(len(view), -1).view(kind)
    values = np.broadcast_to(values, (len(view), mask.size))
    rows[:, : mask.size][:, mask] = values[:, mask]
    view[...] = rows.view(np.uint8).reshape(view.shape)


class MaskEffect:
    """Repeats of up to 256 B under one mask for all of them (spec api_semantics.md 25.2).

    `mask` marks the elements of a repeat that take part, cut after the last of them; the others keep their bytes. With
    `tail` > 0 (counter mode) only that many elements of the last repeat take part. Repeats follow each other: where one
    reads what an earlier one wrote, it sees the result. `register` is the mask register after the call, (high, low).
    """

    __slots__ = ("compute", "inputs", "mask", "operands", "register", "repeats", "tail")

    def __init__(
        self,
        compute: Function,
        operands: Sequence[Blocks],
        inputs: Sequence[int],
        mask: Bools,
        repeats: int,
        tail: int,
        register: tuple[int, int],
    ) -> None:
        self.compute = compute
        self.operands = tuple(operands)
        self.inputs = tuple(inputs)
        self.mask = mask
        self.repeats = repeats
        self.tail = tail
        self.register = register

    def spans(self) -> list[tuple[int, int]]:
        """[lo, hi) of the bytes that each operand's elements touch, relative to the operand."""
        first, last = int(self.mask.argmax()), self.mask.size - 1
        if not self.tail:
            return [place.span(first, last, self.repeats) for place in self.operands]
        spans = []
        for place in self.operands:
            lo, hi = place.span(0, self.tail - 1, 1)
            hi += (self.repeats - 1) * place.repeat
            if self.repeats > 1:
                hi = max(hi, place.span(0, last, self.repeats - 1)[1])
            spans.append((lo, hi))
        return spans

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        if lo >= hi:
            return
        whole = hi - 1 if self.tail and hi == self.repeats else hi
        step = max(whole - lo, 1) if self._independent(bufs, offs) else 1
        with np.errstate(all="ignore"):
            for start in range(lo, whole, step):
                self._repeats(bufs, offs, start, step, self.mask)
            if whole < hi:
                self._repeats(bufs, offs, whole, 1, self.mask[: self.tail])

    def _repeats(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int, mask: Bools) -> None:
        elements = mask.size
        values: list[Array] = []
        defined: Bools | None = None
        for i in self.inputs:
            place, buffer = self.operands[i], bufs[i]
            kind = place.dtype.np_dtype
            assert kind is not None
            values.append(gather(place.view(buffer.bytes(), offs[i], start, n, elements), kind, elements))
            lo, hi = place.span(0, elements - 1, n)
            at = offs[i] + start * place.repeat
            if buffer.shadow is not None and not buffer.is_defined(at + lo, at + hi):
                marks = np.ascontiguousarray(place.view(buffer.shadow, offs[i], start, n, elements)).reshape(n, -1)
                whole: Bools = np.logical_and.reduce(marks.reshape(n, -1, kind.itemsize), axis=2)[:, :elements]
                defined = whole if defined is None else defined & whole
        place, buffer = self.operands[0], bufs[0]
        kind = place.dtype.np_dtype
        assert kind is not None
        put(place.view(buffer.bytes(), offs[0], start, n, elements), kind, self.compute(*values), mask)
        if buffer.shadow is not None:
            flags = np.ones((n, elements), np.uint8) if defined is None else defined.astype(np.uint8)
            items: Array = np.repeat(flags, kind.itemsize, axis=1).view(f"V{kind.itemsize}")
            put(place.view(buffer.shadow, offs[0], start, n, elements), items.dtype, items, mask)

    def _independent(self, bufs: Sequence[Buffer], offs: Sequence[int]) -> bool:
        """True if no repeat touches what another one writes, so that all may be computed at once."""
        if self.repeats == 1:
            return True
        last, n = self.mask.size - 1, self.repeats
        dst = self.operands[0]
        lo, hi = dst.span(0, last, 1)
        if dst.repeat < hi - lo:
            return False
        lo, hi = dst.span(0, last, n)
        for i in self.inputs:
            src = self.operands[i]
            if bufs[i] is not bufs[0] or (src, offs[i]) == (dst, offs[0]):
                continue
            src_lo, src_hi = src.span(0, last, n)
            if offs[i] + src_lo < offs[0] + hi and offs[0] + lo < offs[i] + src_hi:
                return False
        return True
