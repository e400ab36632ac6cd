"""DataCopy L1 -> BT with conversion: half or bfloat16 biases become float on the way (spec api_semantics.md 9.1).

Lengths count source bytes; twice as many are written. Copies between equal types are plain blocks (`data_copy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, describe, taken
from aicore_sim.instructions.data_copy import API, DataCopyParams, route, units
from aicore_sim.instructions.offer import both_names, require_rows
from aicore_sim.memory import Buffer

WIDER = 2
"""Bytes written for each byte read."""
PATH = "L1-BT"
ALIGNS = (64, BLOCK_BYTES)


def build(params: DataCopyParams | int, src: DataType, dst: DataType, card: Card) -> Op | None:
    """The Op of DataCopy(BT tensor of `dst`, L1 tensor of `src`, params or count); None where nothing is moved.

    Raises UnsupportedError for a pair of types that the card does not convert, ParameterError for a field outside its
    range.
    """
    route(API, "L1", "BT", card)
    _check_pair(src, dst, card)
    unit = units("BT", card).block
    warnings: list[str] = []
    if isinstance(params, int):
        if not 0 <= params < 2**31:
            raise ParameterError(f"{API}: count is out of range", field="count", value=params, allowed=f"0..{2**31 - 1}",
                                 card=card.name)  # fmt: skip
        nbytes = src.nbytes(params)
        count, length = 1, nbytes // unit * unit
        src_gap = dst_gap = 0
        detail = f"count={params}"
        if length and length != nbytes:
            warnings.append(f"{params} elements are {nbytes} B; the copy rounds down to {length} B")
    else:
        most = 65535
        params = taken(API, params, {"block_count": (0, 4095), "block_len": (0, most), "src_stride": (0, most),
                                     "dst_stride": (0, most)}, card, warnings)  # fmt: skip
        count, length = params.block_count, params.block_len * unit
        src_gap, dst_gap = params.src_stride * BLOCK_BYTES, params.dst_stride * unit
        detail = describe(params)
    if count == 0 or length == 0:
        return None
    effect = BiasEffect(count, length, length + src_gap, WIDER * length + dst_gap, src)
    nbytes, apart = WIDER * count * length, count - 1
    return Op(
        API, Pipe.MTE1, OnChip(PATH, API, nbytes), path=PATH, nbytes=nbytes, effect=effect,
        reads=((1, 0, apart * effect.src_pitch + length),), writes=((0, 0, apart * effect.dst_pitch + WIDER * length),),
        aligns=ALIGNS, detail=f"{detail} {src.name} to {dst.name}", warnings=warnings,
    )  # fmt: skip


def _check_pair(src: DataType, dst: DataType, card: Card) -> None:
    rows = require_rows(API, card, API, "L1 to BiasTable")
    pairs = [pair for row in rows for pair in row.dtypes]
    if f"{src.api_name}*{dst.api_name}" not in pairs:
        raise UnsupportedError(f"{both_names(API)}: no conversion from {src.api_name} to {dst.api_name} into BT on this card",
                               field="dtype",
                               value=f"{src.api_name} to {dst.api_name}",
                               allowed=", ".join(pair.replace("*", " to ") for pair in pairs),
                               card=card.name)  # fmt: skip


class BiasEffect:
    """Widens `count` blocks of `length` source bytes to float; shares are whole blocks."""

    __slots__ = ("_word", "count", "dst_pitch", "length", "src_pitch")

    def __init__(self, count: int, length: int, src_pitch: int, dst_pitch: int, src: DataType) -> None:
        assert src.np_dtype is not None
        self.count = count
        self.length = length
        self.src_pitch = src_pitch
        self.dst_pitch = dst_pitch
        self._word = src.np_dtype

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = self.count * first // of, self.count * last // of
        if lo >= hi:
            return
        dst, src = bufs
        values = self._blocks(src.bytes(), offs[1], lo, hi, self._word, self.src_pitch)
        out = self._blocks(dst.bytes(), offs[0], lo, hi, np.dtype(np.float32), self.dst_pitch)
        with np.errstate(invalid="ignore"):
            out[...] = values.astype(np.float32)
        if src.shadow is not None:
            known = self._blocks(src.shadow, offs[1], lo, hi, np.dtype(np.uint16), self.src_pitch) == 0x0101
            marks = self._blocks(dst.mark_all(), offs[0], lo, hi, np.dtype(np.uint32), self.dst_pitch)
            marks[...] = np.where(known, np.uint32(0x01010101), np.uint32(0))

    def _blocks(
        self, raw: NDArray[np.uint8], base: int, lo: int, hi: int, word: np.dtype[Any], pitch: int
    ) -> NDArray[Any]:
        """Blocks lo..hi-1 as [block, element]."""
        shape = (hi - lo, self.length // self._word.itemsize)
        return np.ndarray(shape, word, raw.data, base + lo * pitch, (pitch, word.itemsize))
