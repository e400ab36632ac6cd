"""InitConstValue (its page is called Fill): blocks of L1, L0A or L0B filled with one value (spec api_semantics.md 9.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType, encode_scalar
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, TransferEffect, cached_hash, describe, taken
from aicore_sim.instructions.cube_layout import local_align
from aicore_sim.instructions.offer import both_names, require_dtype
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer, strided_fill

API = "InitConstValue"


@dataclass(frozen=True)
class InitConstValueParams:
    """repeat_times times block_num blocks of init_value, dst_gap blocks left alone in between.

    A block is 32 B in L1, 512 B in L0A and L0B.
    """

    repeat_times: int = 0
    block_num: int = 0
    dst_gap: int = 0
    init_value: int | float = 0

    __hash__ = cached_hash


_RANGES = {"repeat_times": (0, 32767), "block_num": (0, 32767), "dst_gap": (0, 32767)}


class FillEffect(TransferEffect):
    """The effect of a pure fill: its only operand is the destination."""

    __slots__ = ()

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        super().apply((bufs[0], bufs[0]), (offs[0], offs[0]), first, last, of)


def build(
    params: InitConstValueParams, dtype: DataType, dst: str, card: Card, notes: list[str] | None = None
) -> Op | None:
    """The Op of InitConstValue(dst, params); None if repeat_times or block_num is 0.

    L1 is filled by MTE2, L0A and L0B by MTE1. Raises UnsupportedError for a buffer or element type that the card does
    not offer, ParameterError for a field out of range and a value that the type does not hold. `notes` gets the
    warnings, also of a call that fills nothing.
    """
    rows = [row for row in card.api("Fill") if row.supported]
    offered = sorted({card.position(position) for row in rows for position in row.paths})
    if dst not in offered:
        raise UnsupportedError(f"{both_names(API)}: this card does not fill {dst or 'a tensor without memory'}",
                               field="dst", value=dst, allowed=", ".join(offered), card=card.name)  # fmt: skip
    require_dtype(API, card, rows, dtype)
    warnings = [] if notes is None else notes
    params = taken(API, params, _RANGES, card, warnings)
    value = _value(params.init_value, dtype, card)
    if params.repeat_times == 0 or params.block_num == 0:
        return None
    unit = BLOCK_BYTES if dst == "L1" else FRACTAL_BYTES
    steps = strided_fill(value * (unit // len(value)), (params.repeat_times, params.block_num), 0,
                         ((params.block_num + params.dst_gap) * unit, unit))  # fmt: skip
    transfer = Transfer(steps)
    lo, hi = transfer.dst_range
    # No rate of a fill is published: the width of the port between L1 and L0.
    cost = OnChip("L1-L0B" if dst == "L0B" else "L1-L0A", API, transfer.nbytes)
    return Op(
        API, Pipe.MTE2 if dst == "L1" else Pipe.MTE1, cost, path=f"fill-{dst}", nbytes=transfer.nbytes,
        effect=FillEffect(transfer), writes=((0, lo, hi),), aligns=(local_align(dst),), detail=describe(params),
        warnings=warnings,
    )  # fmt: skip


def _value(value: object, dtype: DataType, card: Card) -> bytes:
    """The bytes of one element. Raises ParameterError for what is no number, or none of the type."""
    allowed: str | None = f"a number ({dtype.name})"
    try:
        if isinstance(value, (int, float, np.number)):
            return encode_scalar(value, dtype)
    except ParameterError as error:
        allowed = error.allowed
    except (ValueError, OverflowError):  # nan and inf have no integer
        pass
    raise ParameterError(f"{API}: init_value (initValue) is no value of the tensor's type", field="init_value",
                         value=value, allowed=allowed, card=card.name)  # fmt: skip
