"""A core that reads its own output back through NDDMA: a running sum in place, with and without nd_dma_dci (Atlas 350).

Every core sums one row of GM in place by doubling: in each pass y[i] += y[i - s] with s = 1, 2, 4 ... The row comes twice by
NDDMA, once as it is and once s places to the right with zeros from the left pad; the sum goes back by MTE3. The flags order
store and next load, but the NDDMA cache of the core still holds the row as it was before the store, since a store past it
does not touch it: without nd_dma_dci every pass adds to the first numbers again. Wrong numbers with dci=false, right with true.
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

MOST = 256
"""Elements of a row: the last shift, half of them, has to be a left pad (up to 255)."""


@dataclass(frozen=True)
class Parameters:
    dci: bool = param(True, "nd_dma_dci before the loads of a pass")
    n: int = param(128, "elements of a row, a multiple of 8, up to 256")
    cores: int = param(2, "vector cores, a row each")


@asc.jit
def running_sum(y: asc.GlobalAddress, n: asc.ConstExpr[int], dci: asc.ConstExpr[bool]) -> None:
    row = asc.GlobalTensor()
    row.set_global_buffer(y + int(asc.get_block_idx()) * n)
    here = asc.LocalTensor(y.dtype, asc.TPosition.VECIN, 0, n)
    before = asc.LocalTensor(y.dtype, asc.TPosition.VECIN, n * 4, n)
    total = asc.LocalTensor(y.dtype, asc.TPosition.VECOUT, n * 8, n)
    whole = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (n,), (0,), (0,)), 0)
    shift = 1
    while shift < n:
        moved = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (n - shift,), (shift,), (0,)), 0)
        if dci:
            asc.nd_dma_dci()
        asc.data_copy(here, row, whole)
        asc.data_copy(before, row, moved)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.add(total, here, before, n)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(row, total, n)
        shift *= 2
        if shift < n:
            # The next pass reads what was stored; by way of V it also frees all three tensors.
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small whole numbers in float32, so that every sum is exact.

    Raises UnsupportedError on cards without NDDMA, ConfigError for an n that does not fit, CapacityError for too many cores.
    """
    if not card.has("nddma.line"):
        raise UnsupportedError("this card has no NDDMA (only Atlas 350 has)", field="card", value=card.name,
                               card=card.name)  # fmt: skip
    if not 8 <= p.n <= MOST or p.n % 8:
        raise ConfigError("n does not fit", field="n", value=p.n, allowed=f"multiples of 8, 8..{MOST}")
    if not 1 <= p.cores <= card.vectors:
        raise CapacityError("more cores than the card has", field="cores", value=p.cores, allowed=f"1..{card.vectors}",
                            card=card.name)  # fmt: skip
    shape = (p.cores, p.n)
    if not data:
        return Job(running_sum, (GmSpec(shape, asc.float32), p.n, p.dci), p.cores, dict(vars(p)))
    y = np.random.default_rng(5).integers(1, 10, shape).astype(np.float32)
    expected = np.cumsum(y, axis=1)

    def expect(args: tuple[Any, ...]) -> bool:
        return np.array_equal(args[0], expected)

    return Job(running_sum, (y, p.n, p.dci), p.cores, dict(vars(p)), expect=expect)
