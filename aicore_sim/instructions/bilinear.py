"""BilinearInterpolation: gathered blocks times weights, summed (spec pyasc.md 13; BilinearInterpolation page).

Horizontal step i of vertical step k takes 8 offsets (bytes from the start of src0, whole 32 B blocks) and multiplies the
8 blocks by one weight, or by 8, one a block; the h_repeat products are added in half, in order, and go to dst + k *
v_r_offset under the mask. Offsets and weights go on from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, float16, uint8, uint32
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError
from aicore_sim.instructions.base import Op, Pipe, VectorWork, describe, taken
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.vector import check_kinds, mask_bits, mask_word
from aicore_sim.instructions.vector_effect import Blocks, Bools, put, share
from aicore_sim.instructions.vector_math import Array
from aicore_sim.memory import Buffer

API = "BilinearInterpolation"
LANES = 8
"""Blocks of a step."""
PER_STEP = LANES * BLOCK_BYTES // 2
_RANGES = {"h_repeat": (1, 255), "dst_blk_stride": (0, 65535), "v_r_offset": (128, 65534), "v_repeat": (1, 255)}


@dataclass(frozen=True)
class BilinearForm:
    """Arguments behind the tensors, in pyasc's order; v_r_offset counts elements, dst_blk_stride 32 B."""

    mask: int | tuple[int, ...]
    h_repeat: int
    repeat_mode: bool
    dst_blk_stride: int
    v_r_offset: int
    v_repeat: int


class BilinearEffect:
    """Operands: dst, src0, offsets, weights and, where the card's library uses one, the buffer it spoils."""

    __slots__ = ("dst", "h", "mask", "per_block", "register", "scratch", "v")

    def __init__(self, form: BilinearForm, mask: Bools, scratch: int, register: tuple[int, int]) -> None:
        self.h, self.v = form.h_repeat, form.v_repeat
        self.per_block = form.repeat_mode
        self.dst = Blocks(float16, form.dst_blk_stride * BLOCK_BYTES, form.v_r_offset * 2)
        self.mask = mask
        self.scratch = scratch
        self.register = register

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.v, first, last, of)
        if lo >= hi:
            return
        begin, steps = lo * self.h, (hi - lo) * self.h
        blocks, known = self._gather(bufs, offs, begin, steps)
        values, sure = self._weights(bufs[3], offs[3], begin, steps)
        with np.errstate(all="ignore"):
            products = (blocks * values).reshape(hi - lo, self.h, PER_STEP)
            total = products[:, 0] + np.float16(0)
            for i in range(1, self.h):
                total = total + products[:, i]
        n = self.mask.size
        view = self.dst.view(bufs[0].bytes(), offs[0], lo, hi - lo, n)
        put(view, np.dtype(np.float16), total[:, :n], self.mask)
        if bufs[0].shadow is not None:
            marks = np.broadcast_to(known & sure, (steps, LANES, BLOCK_BYTES // 2)).reshape(hi - lo, self.h, PER_STEP)
            flags = np.logical_and.reduce(marks, axis=1)[:, :n].astype(np.uint8)
            pairs = np.repeat(flags, 2, axis=1).view("V2")
            put(self.dst.view(bufs[0].shadow, offs[0], lo, hi - lo, n), pairs.dtype, pairs, self.mask)
        if first == 0 and self.scratch and bufs[4].shadow is not None:
            bufs[4].shadow[offs[4] : offs[4] + self.scratch] = 0

    def _gather(self, bufs: Sequence[Buffer], offs: Sequence[int], begin: int, steps: int) -> tuple[Array, Bools]:
        """The blocks [step, block, element] that the offsets name, and which of their elements are defined."""
        source, table = bufs[1], bufs[2]
        lo = offs[2] + 4 * LANES * begin
        hi = lo + 4 * LANES * steps
        offsets = table.bytes()[lo:hi].view(np.uint32).astype(np.int64)
        listed: Bools = np.ones(offsets.size, np.bool_)
        if table.shadow is not None:
            listed = np.logical_and.reduce(table.shadow[lo:hi].reshape(-1, 4), axis=1)
        starts = np.where(listed, offs[1] + offsets, offs[1])
        self._check(starts, source)
        index = starts[:, None] + np.arange(BLOCK_BYTES)
        blocks = source.bytes()[index].view(np.float16)
        known: Bools = np.ones(blocks.shape, np.bool_)
        if source.shadow is not None:
            known = np.logical_and.reduce(source.shadow[index].reshape(*blocks.shape, 2), axis=2)
        shape = (steps, LANES, BLOCK_BYTES // 2)
        return blocks.reshape(shape), (known & listed[:, None]).reshape(shape)

    def _check(self, starts: Array, source: Buffer) -> None:
        """The blocks must be whole blocks of the buffer; the offsets are data, so only the run can tell."""
        if (starts % BLOCK_BYTES).any():
            wrong = int(starts[starts % BLOCK_BYTES != 0][0])
            raise AlignmentError(f"{API}: an offset in src0_offset is not a multiple of {BLOCK_BYTES}", field="src0_offset",
                                 value=wrong, allowed=f"multiples of {BLOCK_BYTES}")  # fmt: skip
        if int(starts.max()) + BLOCK_BYTES > source.size:
            raise OutOfBoundsError(f"{API}: an offset in src0_offset leads behind the end of {source.kind}",
                                   field="src0_offset", value=int(starts.max()), allowed=f"< {source.size}")  # fmt: skip

    def _weights(self, buffer: Buffer, offset: int, begin: int, steps: int) -> tuple[Array, Bools]:
        """Weights of the steps, shaped to multiply [step, block, element], and which are defined."""
        each = LANES if self.per_block else 1
        lo = offset + 2 * begin * each
        hi = lo + 2 * steps * each
        values = buffer.bytes()[lo:hi].view(np.float16).reshape(steps, each, 1)
        if buffer.shadow is None:
            return values, np.ones((steps, each, 1), np.bool_)
        sure: Bools = np.logical_and.reduce(buffer.shadow[lo:hi].reshape(steps, each, 1, 2), axis=3)
        return values, sure


def build(form: BilinearForm, dtypes: Sequence[DataType], kinds: Sequence[str], src0_bytes: int, src1_size: int,
          card: Card) -> Op | None:  # fmt: skip
    """The Op of a call on (dst, src0, src0_offset, src1, shared_tmp_buffer); None for an empty mask.

    `src0_bytes` and `src1_size` are the declared sizes: what may be gathered, and what the library spreads. Raises
    ParameterError for values outside their ranges and other types, UnsupportedError for the card or buffers.
    """
    check_kinds(API, kinds, card)
    check_offer(card, API, "", float16)
    wanted = (float16, float16, uint32, float16, uint8)
    if any(dtype is not want for dtype, want in zip(dtypes, wanted, strict=True)):
        raise ParameterError(f"{API}: element types", field="dtype", value=", ".join(dtype.name for dtype in dtypes),
                             allowed="dst, src0, src1 float16, src0_offset uint32, shared_tmp_buffer uint8",
                             card=card.name)  # fmt: skip
    found: list[str] = []
    form = taken(API, form, _RANGES, card, found)
    if form.v_r_offset * 2 % BLOCK_BYTES:
        raise ParameterError(f"{API}: v_r_offset elements are whole 32 B blocks", field="v_r_offset", value=form.v_r_offset,
                             allowed="multiples of 16", card=card.name)  # fmt: skip
    word = mask_word(API, form.mask, False, card)
    mask, doubts = mask_bits(form.mask, word, PER_STEP)
    found.extend(doubts)
    if mask.size == 0:
        return None
    if form.dst_blk_stride == 0 and mask.size > BLOCK_BYTES // 2:
        raise ParameterError(f"{API}: a destination block stride of 0 is undefined", field="dst_blk_stride", value=0,
                             allowed="1..65535", card=card.name)  # fmt: skip
    steps = form.h_repeat * form.v_repeat
    scratch = 0
    if card.npu_arch == 2201:
        scratch = steps * LANES * BLOCK_BYTES + src1_size // LANES * LANES * BLOCK_BYTES
        if steps > 255 or form.v_r_offset > 4095:
            found.append("the published library of this card counts steps in 8 bits and v_r_offset up to 4095")
    effect = BilinearEffect(form, mask, scratch, (word >> 64, word & (1 << 64) - 1))
    span = effect.dst.span(int(mask.argmax()), mask.size - 1, form.v_repeat)
    weights = 2 * steps * (LANES if form.repeat_mode else 1)
    reads = [(1, 0, src0_bytes), (2, 0, 4 * LANES * steps), (3, 0, weights)]
    writes = [(0, *span)] + ([(4, 0, scratch)] if scratch else [])
    # Gather, spread and multiply each step, then one addition each and the copy out.
    cost = VectorWork("bilinear_interpolation", 16, steps * PER_STEP, 4 * steps + form.v_repeat)
    return Op(
        API, Pipe.V, cost, path="UB-UB", nbytes=int(mask.sum()) * 2 * form.v_repeat, effect=effect, reads=reads,
        writes=writes, aligns=(BLOCK_BYTES,) * (5 if scratch else 4), detail=describe(form), warnings=found,
    )  # fmt: skip

