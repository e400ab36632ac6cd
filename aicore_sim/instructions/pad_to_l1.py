"""DataCopyPad UB -> L1 of 950: rows of any byte length into NZ (spec api_semantics.md 9.1).

The vendor's library stores the rows to GM, packed as DataCopyPad packs them, and lets the cube core load them with ND2NZ.
Here it is one instruction over the direct path with the bytes of that detour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import OnChip, Op, Range, TransferEffect, describe, taken
from aicore_sim.instructions.data_copy import DataCopyParams, route
from aicore_sim.instructions.data_copy_pad import API, PadMode, build_out
from aicore_sim.instructions.nd2nz import Nd2NzParams, build_nd
from aicore_sim.instructions.offer import check_offer
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer


def build(params: DataCopyParams, nd: Nd2NzParams, dtype: DataType, card: Card) -> Op:
    """The Op of DataCopyPad(L1 tensor, UB tensor, DataCopyParams, Nd2NzParams).

    Raises ParameterError for a field outside its range (no length or count of 0, one matrix), UnsupportedError where card
    or type do not offer it; A2 and A3 do it in the Matmul library only.
    """
    pipe, path = route(API, "UB", "L1", card)
    check_offer(card, API, "UB to L1 unaligned", dtype)
    warnings = ["the vendor's library does this through GM with messages of the Matmul API: the time is that of the direct"
                " path, and ordering it against the cube core is left to the kernel"]  # fmt: skip
    counts: dict[str, Range] = {"block_count": (1, 4095), "block_len": (1, 65535)}
    shape: dict[str, Range] = {"nd_num": (1, 1, 16), "n_value": (1, 16384), "d_value": (1, 65535)}
    params, nd = taken(API, params, counts, card, warnings), taken(API, nd, shape, card, warnings)
    placed, unit = nd, dtype
    if dtype.bits == 64:
        # The page lists 64-bit types, ND2NZ itself has none: two elements of 32 bits each are the same bytes.
        placed, unit = replace(nd, d_value=2 * nd.d_value, src_d_value=2 * nd.src_d_value), DataType("uint32")
    out, load = build_out(params, PadMode.NORMAL, dtype, "UB", "GM", card), build_nd(placed, unit, "GM", "L1", card)
    assert out is not None and load is not None
    assert isinstance(out.effect, TransferEffect) and isinstance(load.effect, TransferEffect)
    store, place = out.effect.transfer, load.effect.transfer
    if place.src_range[1] > store.dst_range[1]:
        raise ParameterError(f"{API}: the ND2NZ part reads more than the rows hold", field="n_value", value=nd.n_value,
                             allowed=f"matrices within {store.dst_range[1]} B", card=card.name)  # fmt: skip
    return Op(
        API, pipe, OnChip(path, API, place.nbytes), path=path, nbytes=place.nbytes, effect=DetourEffect(store, place),
        reads=((1, *store.src_range),), writes=((0, *place.dst_range),), aligns=(BLOCK_BYTES, BLOCK_BYTES),
        detail=f"{describe(params)} {describe(nd)}", warnings=[*warnings, *out.warnings, *load.warnings],
    )  # fmt: skip


class DetourEffect:
    """One movement into a scratch memory, and another one out of it. What the first leaves out is undefined."""

    __slots__ = ("place", "size", "store")

    def __init__(self, store: Transfer, place: Transfer) -> None:
        self.store = store
        self.place = place
        self.size = store.dst_range[1]

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        between = Buffer("scratch", self.size, uid=0, label="DataCopyPad through GM")
        TransferEffect(self.store).apply((between, bufs[1]), (0, offs[1]), 0, 1, 1)
        TransferEffect(self.place).apply((bufs[0], between), (offs[0], 0), first, last, of)
