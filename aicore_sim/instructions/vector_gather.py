"""Gather in its count form: elements of a source at byte offsets (Gather page)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, uint32
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError
from aicore_sim.instructions.base import Op, Pipe, VectorWork
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds, check_listed
from aicore_sim.instructions.vector_effect import Bools, line_defined, share
from aicore_sim.memory import Buffer

API = "Gather"


class GatherEffect:
    """Operands: destination, source, offsets. The offsets are data: only the run can tell where they lead."""

    __slots__ = ("base", "count", "lanes", "limit", "repeats", "size")

    def __init__(self, size: int, count: int, base: int, limit: int) -> None:
        self.size = size
        self.count = count
        self.base = base
        self.limit = limit
        self.lanes = REPEAT_BYTES // size
        self.repeats = -(-count // self.lanes)

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        for repeat in range(*share(self.repeats, first, last, of)):
            start = repeat * self.lanes
            self._elements(bufs, offs, start, min(self.lanes, self.count - start))

    def _elements(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int) -> None:
        source, size = bufs[1], self.size
        listed = line_defined(bufs[2], offs[2], uint32, start, n)
        at = offs[2] + 4 * start
        offsets = bufs[2].bytes()[at : at + 4 * n].view(np.uint32).astype(np.int64)
        if listed is not None:
            offsets = np.where(listed, offsets, 0)
        self._check(offsets, offs[1], source)
        index = offs[1] + self.base + offsets[:, None] + np.arange(size)
        to = offs[0] + start * size
        found = source.bytes()[index].reshape(-1)
        sure: Bools | None = None if source.shadow is None else np.logical_and.reduce(source.shadow[index], axis=1)
        bufs[0].bytes()[to : to + n * size] = found
        if bufs[0].shadow is not None:
            known = np.ones(n, np.bool_) if sure is None else sure
            bufs[0].shadow[to : to + n * size] = np.repeat(known if listed is None else known & listed, size)

    def _check(self, offsets: NDArray[np.int64], start: int, source: Buffer) -> None:
        if (offsets % self.size).any():
            raise AlignmentError(f"{API}: an offset in src_offset is not that of an element", field="src_offset",
                                 value=int(offsets[offsets % self.size != 0][0]),
                                 allowed=f"multiples of {self.size}")  # fmt: skip
        top, room = int(offsets.max()), source.size - start - self.base
        if top + self.size > room or top > self.limit:
            raise OutOfBoundsError(f"{API}: an offset in src_offset leads too far", field="src_offset", value=top,
                                   allowed=f"<= {min(room - self.size, self.limit)}")  # fmt: skip


def build(count: int, base: int, dtypes: Sequence[DataType], kinds: Sequence[str], src_bytes: int, card: Card) -> Op | None:
    """The Op of a call on (dst, src, src_offset): dst[i] = src[(base + src_offset[i]) / size]; None for a count of 0.

    `src_bytes` is the declared size of src, which counts as read. Raises ParameterError for a negative count, a base that
    is not that of an element, and other types; UnsupportedError for types, buffers or cards.
    """
    check_kinds(API, kinds, card)
    dst, src, offsets = dtypes
    if dst is not src or offsets is not uint32:
        raise ParameterError(f"{API}: dst and src have one element type, src_offset uint32", field="dtype",
                             value=", ".join(dtype.name for dtype in dtypes), card=card.name)  # fmt: skip
    check_listed(API, dst.name, card)
    size = dst.bits // 8
    if count < 0:
        raise ParameterError(f"{API}: count", field="count", value=count, allowed=">= 0", card=card.name)
    if not 0 <= base < 1 << 32 or base % size:
        raise ParameterError(f"{API}: src_base is the byte of an element", field="src_base", value=base,
                             allowed=f"multiples of {size}", card=card.name)  # fmt: skip
    if count == 0:
        return None
    narrow = card.npu_arch != 2201 and size < 4
    effect = GatherEffect(size, count, base, (1 << 15 + size) - 1 if narrow else (1 << 32) - 1)
    reads = [(2, 0, 4 * count)] + ([(1, base, src_bytes)] if base < src_bytes else [])
    return Op(
        API, Pipe.V, VectorWork("gather", dst.bits, count, effect.repeats), path="UB-UB", nbytes=count * size, effect=effect,
        reads=reads, writes=[(0, 0, count * size)], aligns=(BLOCK_BYTES,) * 3, detail=f"count={count} src_base={base}",
    )  # fmt: skip
