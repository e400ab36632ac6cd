"""A stale NDDMA cache: consumers read behind a SyncAll what they had cached before it, with and without nd_dma_dci (Atlas 350).

Core 0 produces: in each round it stores `n` numbers into a slot of a shared board, by MTE3. The other cores consume: in each
round they look at the slot by NDDMA while it still holds its old numbers, meet the producer in two SyncAlls (the first says
that everybody has looked, the second that the slot has been written) and read it by NDDMA again. Order is perfect; whether
they see the new numbers is another matter, since nothing keeps the NDDMA cache of a core coherent.

dci=true    nd_dma_dci behind the SyncAlls, before the read: right.
dci=false   no nd_dma_dci: the read is served from the old lines. Wrong numbers.
dci=early   nd_dma_dci above the SyncAlls, behind it a second look at the old numbers (a prefetch): the lines come back old.
            Wrong numbers: visible needs ordered first.

`distance` moves what is rewritten and read away from what was looked at, in elements of 4 B: 0 is the same place, less than `n`
overlaps it. From `n` on only neighbours in a line are cached, so that the size of the line (nddma.line, assumed) decides: with
whole lines between the two even dci=false is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

SLOT_UNIT = 128
"""Slots of the board start on multiples of 512 B, the largest line in question: rounds never share a line."""


@dataclass(frozen=True)
class Parameters:
    dci: str = param("true", "where nd_dma_dci is called", ("true", "false", "early"))
    cores: int = param(4, "vector cores: one producer, the others consume")
    distance: int = param(0, "elements from the start of what was looked at to the start of what is rewritten and read")
    n: int = param(64, "elements looked at, and rewritten, in a round; a multiple of 8")
    rounds: int = param(3, "rounds, each with a slot of its own")


def slot_size(p: Parameters) -> int:
    """Elements from one slot of the board to the next."""
    return -(-(p.distance + p.n) // SLOT_UNIT) * SLOT_UNIT


@asc.jit
def produce(x: Any, board: Any, p: Any, slot: int) -> None:
    """Core 0: load the numbers of a round, store them into its slot between the two SyncAlls."""
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, p.n)
    for r in range(p.rounds):
        if r > 0:
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)  # the numbers of the round before have left UB
        asc.data_copy(ub, x[r * p.n], p.n)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.sync_all()  # every consumer has looked
        asc.data_copy(board[r * slot + p.distance], ub, p.n)
        asc.sync_all()  # the slot has been written
        if r < p.rounds - 1:
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)


@asc.jit
def consume(board: Any, y: Any, p: Any, slot: int) -> None:
    """The other cores: look, meet, read; both go to y."""
    row = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (p.n,), (0,), (0,)), 0)
    before = asc.LocalTensor(board.dtype, asc.TPosition.VECIN, 0, p.n)
    after = asc.LocalTensor(board.dtype, asc.TPosition.VECIN, p.n * 4, p.n)
    for r in range(p.rounds):
        if r > 0:
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)  # both of the round before have been stored
        asc.data_copy(before, board[r * slot], row)
        if p.dci == "early":
            asc.nd_dma_dci()
            asc.pipe_barrier(asc.PipeID.PIPE_MTE2)  # the second look lands where the first did
            asc.data_copy(before, board[r * slot], row)
        asc.sync_all()  # every consumer has looked
        asc.sync_all()  # the slot has been written
        if p.dci == "true":
            asc.nd_dma_dci()
        asc.data_copy(after, board[r * slot + p.distance], row)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.data_copy(y[2 * r * p.n], before, p.n)
        asc.data_copy(y[(2 * r + 1) * p.n], after, p.n)
        if r < p.rounds - 1:
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def stale_cache(x: asc.GlobalAddress, board: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr,
                slot: asc.ConstExpr[int]) -> None:  # fmt: skip
    x_gm, board_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    core = int(asc.get_block_idx())
    x_gm.set_global_buffer(x)
    board_gm.set_global_buffer(board)
    if core == 0:
        produce(x_gm, board_gm, p, slot)
    else:
        y_gm.set_global_buffer(y + (core - 1) * p.rounds * 2 * p.n)
        consume(board_gm, y_gm, p, slot)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x counts from 1, the board from -1 downwards. y is [consumer, round, looked at | read, element].

    Raises UnsupportedError on cards without NDDMA, ConfigError for sizes that do not fit, CapacityError for more cores than
    the card has.
    """
    if not card.has("nddma.line"):
        raise UnsupportedError("this card has no NDDMA (only Atlas 350 has)", field="card", value=card.name,
                               card=card.name)  # fmt: skip
    for name, least, unit in (("cores", 2, 1), ("distance", 0, 1), ("n", 8, 8), ("rounds", 1, 1)):
        value = getattr(p, name)
        if value < least or value % unit:
            raise ConfigError(
                f"{name} does not fit", field=name, value=value, allowed=f">= {least}, in steps of {unit}"
            )
    if p.cores > card.vectors:
        raise CapacityError("more cores than the card has", field="cores", value=p.cores, allowed=f"2..{card.vectors}",
                            card=card.name)  # fmt: skip
    slot = slot_size(p)
    shapes = ((p.rounds, p.n), (p.rounds, slot), (p.cores - 1, p.rounds, 2, p.n))
    room = int(card.value("buffers.UB.size"))
    if 2 * p.n * 4 > room:
        raise ConfigError(
            "n does not fit UB twice", field="n", value=p.n, allowed=f"<= {room // 64 * 8}", card=card.name
        )
    if not data:
        specs = tuple(GmSpec(shape, asc.float32) for shape in shapes)
        return Job(stale_cache, (*specs, p, slot), p.cores, dict(vars(p)))
    x = np.arange(1, p.rounds * p.n + 1, dtype=np.float32).reshape(shapes[0])
    board = -np.arange(1, p.rounds * slot + 1, dtype=np.float32).reshape(shapes[1])
    old = board[:, : p.n].copy()

    def expect(args: tuple[Any, ...]) -> bool:
        return bool((args[2][:, :, 0] == old).all() and (args[2][:, :, 1] == args[0]).all())

    def show(args: tuple[Any, ...]) -> str:
        wrong = int((args[2][:, :, 1] != args[0]).sum())
        return f"{wrong} of {args[2][:, :, 1].size} numbers read behind the SyncAlls are old"

    args = (x, board, np.zeros(shapes[2], np.float32), p, slot)
    return Job(stale_cache, args, p.cores, dict(vars(p)), expect=expect, show=show)
