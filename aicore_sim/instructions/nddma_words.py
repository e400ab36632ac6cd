"""NDDMA of 64-bit elements as the vendor's library runs it: 32-bit words with one more inner loop (spec 10.5).

Pads of NdDmaConfig then also surround the two words of every element, and the loops write over each other. The result is
that of the loops in order, dimension 0 fastest; the pads are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aicore_sim.memory import Buffer

WORD = np.dtype(np.uint32)
_KNOWN = np.uint32(0x01010101)


class WordsEffect:
    """`loops` are (source stride, destination stride, size, left, right), innermost first, strides in words of 4 B;
    `inside` are the pads around the two words of an element. Shares are pieces of the sequence of writes."""

    __slots__ = ("_put", "_take", "nbytes")

    def __init__(self, loops: Sequence[tuple[int, int, int, int, int]], inside: tuple[int, int]) -> None:
        put = take = np.zeros(1, np.int64)
        pads = np.zeros(1, np.bool_)
        for src, dst, size, left, right in [(1, 1, 2, *inside), *loops]:
            place = np.arange(left + size + right)
            inner = (place - left) * src
            outside = (place < left) | (place >= left + size)
            put = (place[:, None] * dst + put[None, :]).reshape(-1)
            take = (inner[:, None] + take[None, :]).reshape(-1)
            pads = (outside[:, None] | pads[None, :]).reshape(-1)
        self._put: NDArray[np.int64] = put
        self._take: NDArray[np.int64] = np.where(pads, -1, take)
        self.nbytes = (int(put.max()) + 1) * WORD.itemsize

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        total = self._put.size
        part = slice(total * first // of, total * last // of)
        put, take = self._put[part], self._take[part]
        if not put.size:
            return
        dst, src = bufs
        copied = take >= 0
        span = int(take.max(initial=0)) + 1
        values = np.where(copied, _words(src.bytes(), offs[1], span)[np.maximum(take, 0)], WORD.type(0))
        # A place that is written twice keeps the later value: assignment runs in order.
        _words(dst.bytes(), offs[0], self.nbytes // WORD.itemsize)[put] = values
        if dst.shadow is not None:
            marks = np.full(put.size, _KNOWN)
            if src.shadow is not None:
                marks = np.where(copied, _words(src.shadow, offs[1], span)[np.maximum(take, 0)], _KNOWN)
            _words(dst.shadow, offs[0], self.nbytes // WORD.itemsize)[put] = marks


def _words(raw: NDArray[np.uint8], offset: int, count: int) -> NDArray[np.uint32]:
    return np.ndarray((count,), WORD, raw.data, offset, (WORD.itemsize,))
