"""CastDequant of int16 to 8 bits: x * M + offset into one half of each destination block (spec api_semantics.md 25.3).

M is a float of which 10 bits of the mantissa count, the offset a signed 9-bit integer. A block of 16 elements fills 16 B:
the upper half of a 32 B block with half_block, else the lower one; the other half stays. Product and sum are rounded to
float, the result to nearest even and clamped: neither order nor rounding is published.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, int16, uint8
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import Op, Pipe, VectorWork, check_range
from aicore_sim.instructions.vector import (
    Masked,
    check_kinds,
    check_listed,
    mask_bits,
    mask_word,
    strides_of,
)
from aicore_sim.instructions.vector_effect import Blocks, Bools, Bytes, share
from aicore_sim.memory import Buffer

API = "CastDequant"
LANES = 16
"""int16 elements of a block, and entries of a table of scales."""
TABLE_BYTES = LANES * 8
_PER_REPEAT = 128
_OFFSET_BIT, _SIGN_BIT = 37, 46
_MANTISSA_CUT = ~np.uint32((1 << 13) - 1)

Words = NDArray[np.uint64]


def config_word(scale: float, offset: int, sign_mode: bool, card: Card) -> int:
    """The 64 bits that SetDeqScale programs. Raises ParameterError for an offset that has no 9 bits."""
    check_range("SetDeqScale", "arguments", "offset", offset, -256, 255, card.name)
    bits = struct.unpack("<I", struct.pack("<f", scale))[0]
    return int(bits | (offset & 0x1FF) << _OFFSET_BIT | int(sign_mode) << _SIGN_BIT)


def quantise(values: NDArray[np.int16], words: Words) -> Bytes:
    """`values[..., 16 * n]` times the scale plus the offset of their lane; one word, or 16. Result: raw bytes."""
    lanes = np.resize(words, values.shape[-1])
    scale = ((lanes & 0xFFFFFFFF).astype(np.uint32) & _MANTISSA_CUT).view(np.float32)
    offset = ((lanes >> np.uint64(_OFFSET_BIT)) & np.uint64(0x1FF)).astype(np.int32)
    offset = np.where(offset > 255, offset - 512, offset)
    signed = (lanes >> np.uint64(_SIGN_BIT)) & np.uint64(1) != 0
    scaled = np.rint(values.astype(np.float32) * scale + offset.astype(np.float32))
    lo, hi = np.where(signed, -128, 0), np.where(signed, 127, 255)
    result: Bytes = np.clip(np.nan_to_num(scaled, nan=0.0), lo, hi).astype(np.int16).astype(np.uint8)
    return result


@dataclass(frozen=True)
class HalfBlockEffect:
    """Operands: destination, source, and in vector mode the table. `word` is None there, else the register.

    `half` is the first byte of a block that is written (0 or 16); the rest as in `MaskEffect`.
    """

    dst: Blocks
    src: Blocks
    mask: Bools
    repeats: int
    tail: int
    half: int
    word: int | None
    register: tuple[int, int] | None

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        with np.errstate(all="ignore"):
            for repeat in range(lo, hi):
                mask = self.mask[: self.tail] if self.tail and repeat == self.repeats - 1 else self.mask
                self._repeat(bufs, offs, repeat, mask)

    def _repeat(self, bufs: Sequence[Buffer], offs: Sequence[int], repeat: int, mask: Bools) -> None:
        n = mask.size
        blocks = -(-n // LANES)
        raw = np.array(self.src.view(bufs[1].bytes(), offs[1], repeat, 1, n), order="C").reshape(-1)
        result = quantise(raw.view(np.int16), self._words(bufs, offs))
        chosen = np.zeros(blocks * LANES, np.bool_)
        chosen[:n] = mask
        _put(self._halves(bufs[0].bytes(), offs[0], repeat, blocks), result, chosen)
        if bufs[0].shadow is not None:
            known = np.ones(blocks * LANES, np.uint8)
            if bufs[1].shadow is not None:
                marks = np.array(self.src.view(bufs[1].shadow, offs[1], repeat, 1, n), order="C").reshape(-1, 2)
                known = np.logical_and.reduce(marks, axis=1).astype(np.uint8)
            if self.word is None and bufs[2].shadow is not None:
                entries = bufs[2].shadow[offs[2] : offs[2] + TABLE_BYTES].reshape(LANES, -1)
                known &= np.resize(np.logical_and.reduce(entries, axis=1).astype(np.uint8), known.size)
            _put(self._halves(bufs[0].shadow, offs[0], repeat, blocks), known, chosen)

    def _words(self, bufs: Sequence[Buffer], offs: Sequence[int]) -> Words:
        if self.word is not None:
            return np.array([self.word], np.uint64)
        return bufs[2].bytes()[offs[2] : offs[2] + TABLE_BYTES].view(np.uint64)

    def _halves(self, memory: Bytes, offset: int, repeat: int, blocks: int) -> Bytes:
        halves: Bytes = self.dst.view(memory, offset, repeat, 1, blocks * BLOCK_BYTES)[0, :, self.half : self.half + LANES]
        return halves


def _put(halves: Bytes, values: Bytes, chosen: Bools) -> None:
    rows = np.array(halves, order="C").reshape(-1)
    rows[chosen] = values[chosen]
    halves[...] = rows.reshape(halves.shape)


def build(form: int | Masked, dst: DataType, kinds: Sequence[str], word: int | None, half_block: bool,
          card: Card) -> Op | None:  # fmt: skip
    """The Op of a call on (dst, src), or (dst, src, table) where `word` is None; None if no element takes part."""
    check_kinds(API, kinds, card)
    check_listed(API, f"{int16.name}*{dst.name}", card)
    found: list[str] = []
    register: tuple[int, int] | None = None
    if isinstance(form, int):
        if form < 0:
            raise ParameterError(f"{API}: count", field="count", value=form, allowed=">= 0", card=card.name)
        strides, count, repeats, how = [(1, 8), (1, 8)], form, 0, f"count={form}"
    else:
        strides, repeats = strides_of(API, form, (dst, int16), card, found)
        bits = mask_word(API, form.mask, form.counter, card)
        register = (bits >> 64, bits & (1 << 64) - 1)
        count, how = register[1], f"mask={form.mask}"
    if isinstance(form, int) or form.counter:
        mask, repeats = np.ones(min(count, _PER_REPEAT), np.bool_), -(-count // _PER_REPEAT)
        tail = count - (repeats - 1) * _PER_REPEAT if count else 0
    else:
        mask, doubts = mask_bits(form.mask, bits, _PER_REPEAT)
        tail, how = 0, f"{how} repeat_times={repeats}"
        found.extend(doubts)
    if repeats == 0 or mask.size == 0:
        return None
    if strides[0][0] == 0 and mask.size > LANES:
        raise ParameterError(f"{API}: a destination block stride of 0 is undefined", field="dst_blk_stride", value=0,
                             allowed="1..", card=card.name)  # fmt: skip
    to, at = (Blocks(t, b * BLOCK_BYTES, r * BLOCK_BYTES) for t, (b, r) in zip((uint8, int16), strides, strict=True))
    half = LANES if half_block else 0
    effect = HalfBlockEffect(to, at, mask, repeats, tail, half, word, register)
    written = to.span(0, -(-mask.size // LANES) * BLOCK_BYTES - 1, repeats)
    reads = [(1, *at.span(0, mask.size - 1, repeats))]
    if word is None:
        reads.append((2, 0, TABLE_BYTES))
    active = int(mask.sum()) * (repeats - 1) + (tail or int(mask.sum()))
    return Op(
        API, Pipe.V, VectorWork("cast", 16, active, repeats), nbytes=active, effect=effect, reads=reads,
        writes=[(0, *written)], aligns=(BLOCK_BYTES,) * len(kinds),
        detail=f"{how} int16->{dst.name} half={'upper' if half_block else 'lower'}", warnings=found,
    )  # fmt: skip

