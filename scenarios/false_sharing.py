"""Counters of several cores in one 64 B line of the scalar data cache: updates are lost although no word is written twice.

Every core keeps a counter in GM, `pitch` bytes from the next, and stores it by scalar SetValue once a round; all meet in a
SyncAll, then each cleans its line (DCCI) and waits for it (DSB). A line is written back whole, without a byte mask: where two
cores share one, the later write-back puts its old copy of the other counter over the new one. The SyncAll between store and
clean makes sure that every core holds its copy before anybody writes back, so that the loss shows in every run.

Wrong below pitch=64, right from 64 on: the line decides, not the words. A2, A3, Atlas 350.
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


@dataclass(frozen=True)
class Parameters:
    pitch: int = param(64, "bytes from one core's counter to the next, a multiple of 4")
    cores: int = param(4, "vector cores, a counter each")
    rounds: int = param(3, "how often each core counts")


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def count(counters: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    mine = asc.GlobalTensor()
    mine.set_global_buffer(counters + int(asc.get_block_idx()) * (p.pitch // 4))
    for r in range(p.rounds):
        mine.set_value(0, r + 1)
        asc.sync_all()  # every core holds its line
        asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, mine, asc.DcciDst.CACHELINE_OUT)
        asc.data_sync_barrier(asc.MemDsbT.DDR)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """int32 counters from 0 in an array of zeros.

    Raises UnsupportedError for cards without SyncAll, ConfigError for a pitch that is no whole word, CapacityError for too many
    cores.
    """
    if not card.ids("sync.sync_all_ids"):
        raise UnsupportedError("this card has no SyncAll", field="card", value=card.name, card=card.name)
    if p.pitch < 4 or p.pitch % 4:
        raise ConfigError("counters are words of 4 B", field="pitch", value=p.pitch, allowed="multiples of 4, >= 4")
    if p.rounds < 1:
        raise ConfigError("there is nothing to count", field="rounds", value=p.rounds, allowed=">= 1")
    if not 2 <= p.cores <= card.vectors:
        raise CapacityError("no such number of cores", field="cores", value=p.cores, allowed=f"2..{card.vectors}",
                            card=card.name)  # fmt: skip
    step = p.pitch // 4
    shape = (p.cores * step,)
    if not data:
        return Job(count, (GmSpec(shape, asc.int32), p), p.cores, dict(vars(p)))

    def expect(args: tuple[Any, ...]) -> bool:
        return bool((args[0][::step] == p.rounds).all())

    def show(args: tuple[Any, ...]) -> str:
        return f"counters after {p.rounds} rounds: {args[0][::step].tolist()}"

    return Job(count, (np.zeros(shape, np.int32), p), p.cores, dict(vars(p)), expect=expect, show=show)
