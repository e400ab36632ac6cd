"""TransDataTo5HD: 16 source blocks of 32 B become 16 destination blocks, transposed (TransDataTo5HD page).

16 bits: destination i holds element i of every source. 8 bits: one half of each source (16 elements) fills one half of
each destination; the other halves stay. 32 bits: destinations 2 i and 2 i + 1 hold element i of sources 0..7 and 8..15.

Operands: 16 destinations, then 16 sources. One repeat reads everything before it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.instructions.base import Op, Pipe, VectorWork, cached_hash, describe, taken
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.vector import check_kinds
from aicore_sim.instructions.vector_effect import Bytes, share
from aicore_sim.memory import Buffer

API = "TransDataTo5HD"
LIST = 16
"""Addresses of a list."""
_HALF = BLOCK_BYTES // 2


@dataclass(frozen=True)
class TransDataTo5HDParams:
    """Halves of the blocks for 8-bit types, repeats, and strides between repeats in 32 B.

    With repeat_times = 1 the one repeat starts at the addresses plus the strides, with more the first at the addresses.
    """

    dst_high_half: bool = False
    src_high_half: bool = False
    repeat_times: int = 1
    dst_rep_stride: int = 0
    src_rep_stride: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True, slots=True)
class Starts:
    """Where the repeats of one side start: byte of the first, pitch."""

    first: int
    pitch: int

    def span(self, repeats: int) -> tuple[int, int]:
        """[lo, hi) of the bytes of all repeats, relative to the operand."""
        return self.first, self.first + (repeats - 1) * self.pitch + BLOCK_BYTES


class TransDataEffect:
    """`part` is (first byte, bytes) of a block that is read and of one that is written."""

    __slots__ = ("bits", "dst", "dst_part", "repeats", "src", "src_part")

    def __init__(self, bits: int, repeats: int, dst: Starts, src: Starts, dst_part: slice, src_part: slice) -> None:
        self.bits = bits
        self.repeats = repeats
        self.dst, self.src = dst, src
        self.dst_part, self.src_part = dst_part, src_part

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        step = max(hi - lo, 1) if self._independent(bufs, offs) else 1
        for start in range(lo, hi, step):
            n = min(step, hi - start)
            self._move([b.bytes() for b in bufs], offs, start, n)
            if bufs[0].shadow is not None:
                marks = [b.shadow if b.shadow is not None else np.ones(b.size, np.uint8) for b in bufs]
                self._move(marks, offs, start, n)

    def _move(self, memory: Sequence[Bytes], offs: Sequence[int], start: int, n: int) -> None:
        sources = np.stack([self._view(memory[i], offs[i], self.src, start, n)[:, self.src_part] for i in range(LIST, 2 * LIST)],
                           axis=1)  # fmt: skip
        out = transposed(np.ascontiguousarray(sources), self.bits)
        for i in range(LIST):
            self._view(memory[i], offs[i], self.dst, start, n)[:, self.dst_part] = out[:, i]

    def _view(self, memory: Bytes, offset: int, starts: Starts, start: int, n: int) -> Bytes:
        at = offset + starts.first + start * starts.pitch
        return np.ndarray((n, BLOCK_BYTES), np.uint8, memory.data, at, (starts.pitch, 1))

    def _independent(self, bufs: Sequence[Buffer], offs: Sequence[int]) -> bool:
        """True if all repeats may be done at once: no block is written twice, none is written and read."""
        repeats = np.arange(self.repeats, dtype=np.int64)
        to = np.concatenate([offs[i] + self.dst.first + repeats * self.dst.pitch for i in range(LIST)])
        at = np.concatenate([offs[i] + self.src.first + repeats * self.src.pitch for i in range(LIST, 2 * LIST)])
        return np.unique(to).size == to.size and not np.intersect1d(to, at).size


def transposed(sources: Bytes, bits: int) -> NDArray[np.uint8]:
    """[repeat, 16, bytes] of the sources as [repeat, 16, bytes] of the destinations."""
    words = sources.view(f"u{bits // 8}")
    across = np.ascontiguousarray(words.transpose(0, 2, 1))  # [repeat, element, source]
    if bits == 32:
        across = across.reshape(len(across), LIST, LIST // 2)
    return across.view(np.uint8).reshape(len(sources), LIST, -1)


def build(params: TransDataTo5HDParams, dtype: DataType, kinds: Sequence[str], card: Card) -> Op | None:
    """The Op of a call on 16 destinations and 16 sources; None for 0 repeats.

    Raises ParameterError for a field outside its range, UnsupportedError for a type, buffer or card that lacks it.
    """
    check_kinds(API, kinds, card)
    check_offer(card, API, "", dtype)
    found: list[str] = []
    ranges = {"repeat_times": (0, 255), "dst_rep_stride": (0, 65535), "src_rep_stride": (0, 65535)}
    params = taken(API, params, ranges, card, found)
    repeats = params.repeat_times
    if repeats == 0:
        return None
    pitches = params.dst_rep_stride * BLOCK_BYTES, params.src_rep_stride * BLOCK_BYTES
    dst, src = (Starts(pitch if repeats == 1 else 0, pitch) for pitch in pitches)
    halves = params.dst_high_half, params.src_high_half
    if repeats == 1 and any(pitches):
        found.append("with repeat_times 1 the strides move the start of every address; set them to 0 to start there")
    if dtype.bits == 8:
        dst_part, src_part = (slice(_HALF, BLOCK_BYTES) if high else slice(0, _HALF) for high in halves)
    else:
        dst_part = src_part = slice(0, BLOCK_BYTES)
        if any(halves):
            found.append("the half flags have an effect on 8-bit types only")
    effect = TransDataEffect(dtype.bits, repeats, dst, src, dst_part, src_part)
    nbytes = repeats * LIST * (dst_part.stop - dst_part.start)
    cost = VectorWork("transdatato5hd", dtype.bits, nbytes * 8 // dtype.bits, 2 * repeats)
    reads = [(i, *src.span(repeats)) for i in range(LIST, 2 * LIST)]
    writes = [(i, *dst.span(repeats)) for i in range(LIST)]
    return Op(
        API, Pipe.V, cost, path="UB-UB", nbytes=nbytes, effect=effect, reads=reads, writes=writes,
        aligns=(BLOCK_BYTES,) * (2 * LIST), detail=f"{dtype.name} {describe(params)}", warnings=found,
    )  # fmt: skip
