"""Transpose: 16 x 16 matrices of 16-bit elements, and NCHW <-> NHWC (Transpose page).

Operands: destination, source, and for NCHW and NHWC the shared temporary buffer, which is left undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import (
    Op,
    Pipe,
    Range,
    TransferEffect,
    VectorWork,
    cached_hash,
    check_range,
    describe,
    taken,
)
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer, strided_copy

API = "Transpose"
SIDE = 16
NONE, ND2ND_B16, NCHW2NHWC, NHWC2NCHW = 0, 10, 11, 12
"""Values of TransposeType that do something or nothing; 1 to 9 are reserved."""
_PLAIN_TYPES = ("int16", "uint16", "float16")
_RANGES: dict[str, Range] = {"n_size": (0, 65535), "c_size": (0, 4095, 16), "h_size": (0, 65535), "w_size": (0, 65535)}
_MOST_HW = 4095


@dataclass(frozen=True)
class TransposeParamsExt:
    """Extents of the axes and what is done; for TRANSPOSE_ND2ND_B16 h and w are 16, n and c have no effect."""

    n_size: int = 0
    c_size: int = 0
    h_size: int = 0
    w_size: int = 0
    transpose_type: int = ND2ND_B16

    __hash__ = cached_hash


class TransposeEffect:
    """The movement of a transposition, and the bytes [0, scratch) of operand 2 that it spoils.

    Where destination and source share bytes everything happens in the first share: a part of a transposition in place
    would read what another part has written.
    """

    __slots__ = ("moving", "scratch")

    def __init__(self, transfer: Transfer, scratch: int = 0) -> None:
        self.moving = TransferEffect(transfer)
        self.scratch = scratch

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        size = self.moving.transfer.nbytes
        if bufs[0] is bufs[1] and abs(offs[0] - offs[1]) < size:
            if first > 0:
                return
            last = of = 1
        self.moving.apply(bufs, offs, first, last, of)
        if first == 0 and self.scratch and bufs[2].shadow is not None:
            bufs[2].shadow[offs[2] : offs[2] + self.scratch] = 0


def _op(steps: Transfer, dtype: DataType, scratch: int, detail: str, warnings: Sequence[str] = ()) -> Op:
    nbytes = steps.nbytes
    cost = VectorWork("transpose", dtype.bits, nbytes * 8 // dtype.bits, -(-nbytes // REPEAT_BYTES))
    writes = [(0, *steps.dst_range)] + ([(2, 0, scratch)] if scratch else [])
    return Op(
        API, Pipe.V, cost, path="UB-UB", nbytes=nbytes, effect=TransposeEffect(steps, scratch), reads=[(1, *steps.src_range)],
        writes=writes, aligns=(BLOCK_BYTES,) * (3 if scratch else 2), detail=detail, warnings=warnings,
    )  # fmt: skip


def build(dtype: DataType, kinds: tuple[str, ...], card: Card) -> Op:
    """The Op of `transpose(dst, src)`: a 16 x 16 matrix of int16, uint16 or half. In place is legal."""
    return _square(dtype, kinds, card, _PLAIN_TYPES, "16 x 16")


def _square(dtype: DataType, kinds: tuple[str, ...], card: Card, types: Sequence[str], detail: str) -> Op:
    check_kinds(API, kinds, card)
    check_offer(card, API, "", dtype)
    if dtype.name not in types:
        raise UnsupportedError(f"{API} of a 16 x 16 matrix: not for this element type", field="dtype", value=dtype.name,
                               allowed=", ".join(types), card=card.name)  # fmt: skip
    size = dtype.bits // 8
    row = SIDE * size
    return _op(Transfer(strided_copy(size, (SIDE, SIDE), 0, (size, row), 0, (row, size))), dtype, 0, detail)


def build_ext(params: TransposeParamsExt, dtype: DataType, kinds: tuple[str, ...], card: Card) -> Op | None:
    """The Op of `transpose(dst, src, shared_tmp_buffer, params)`; None where nothing is done.

    TRANSPOSE_ND2ND_B16 is for uint16 (350: also int16, half) and needs no buffer. NCHW2NHWC and NHWC2NCHW are not on
    200I; h * w <= 4095 and whole blocks. Raises ParameterError for fields outside their ranges, UnsupportedError for
    types, buffers, cards and kinds of transposition that are not there.
    """
    kind = params.transpose_type
    if kind == ND2ND_B16:
        for field in ("h_size", "w_size"):
            check_range(API, "TransposeParamsExt", field, getattr(params, field), SIDE, SIDE, card.name)
        types = _PLAIN_TYPES if card.npu_arch == 3510 else ("uint16",)
        return _square(dtype, kinds[:2], card, types, describe(params))
    if kind == NONE:
        return None
    if kind not in (NCHW2NHWC, NHWC2NCHW):
        raise ParameterError(f"{API}: this transpose_type is reserved", field="transpose_type", value=int(kind),
                             allowed="TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW, TRANSPOSE_TYPE_NONE",
                             card=card.name)  # fmt: skip
    check_kinds(API, kinds, card)
    if card.npu_arch == 3002:
        raise UnsupportedError(f"{API}: this card transposes 16 x 16 matrices only", field="transpose_type", value=int(kind),
                               allowed="TRANSPOSE_ND2ND_B16", card=card.name)  # fmt: skip
    check_offer(card, API, "", dtype)
    if dtype.bits < 8:
        raise UnsupportedError(f"{API}: 4-bit types are not in this version", field="dtype", value=dtype.name, card=card.name)
    found: list[str] = []
    params = taken(API, params, _RANGES, card, found)
    n, c, plane = params.n_size, params.c_size, params.h_size * params.w_size
    size = dtype.bits // 8
    if plane > _MOST_HW or plane * size % BLOCK_BYTES:
        raise ParameterError(f"{API}: h_size * w_size elements are whole 32 B blocks", field="h_size", value=plane,
                             allowed=f"<= {_MOST_HW}, a multiple of {BLOCK_BYTES // size}", card=card.name)  # fmt: skip
    if not n * c * plane:
        return None
    image, pixel, channel = n * c * plane // n * size, c * size, plane * size
    if kind == NCHW2NHWC:
        steps = strided_copy(size, (n, plane, c), 0, (image, size, channel), 0, (image, pixel, size))
    else:
        steps = strided_copy(size, (n, c, plane), 0, (image, size, pixel), 0, (image, channel, size))
    return _op(Transfer(steps), dtype, scratch_bytes(kind, c, dtype), describe(params), found)


def scratch_bytes(kind: int, c_size: int, dtype: DataType) -> int:
    """Bytes of shared_tmp_buffer that a transposition needs (Transpose page)."""
    rows = 32 if dtype.bits == 8 else SIDE
    lines = c_size + 2 if kind == NCHW2NHWC else 2 * c_size + 1
    return lines * rows * BLOCK_BYTES
