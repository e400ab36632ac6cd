"""Two kernels one after another without a cache clean between them: the second reads from private caches what the first wrote.

One kernel of two phases with a SyncAll between them stands for two launches, as a super kernel joins them: its sub-kernels run
behind each other on the same cores, ordered, and nothing drops their private caches unless it is asked for. The first phase
doubles or scales a table in place, the second adds up neighbouring parts of it. A core reads its own part in both phases, so in
the second one its cache still holds what the first one read: `dci` drops it between the phases.

reader=nddma    the parts come by NDDMA; nd_dma_dci drops the lines (Atlas 350).
reader=scalar   the parts come by plain copies, which are coherent, but the factor that stands at the head of a part is read by
                GetValue through the scalar data cache; DCCI of its line and DSB drop it (A2, A3, Atlas 350; needs data).

Wrong numbers with dci=false, right with dci=true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param


@dataclass(frozen=True)
class Parameters:
    dci: bool = param(True, "drop the private cache between the phases")
    reader: str = param("auto", "which cache the parts are read through; auto: nddma where the card has it",
                        ("auto", "nddma", "scalar"))  # fmt: skip
    n: int = param(128, "elements of a part of the table, a multiple of 128 so that parts share no line")
    cores: int = param(3, "vector cores, a part each")


@asc.jit
def with_nddma(table: Any, y: Any, core: int, p: Any) -> None:
    """table[i] *= 2 for the own part; then y = own part + the next one."""
    n, dtype = p.n, table.dtype
    part = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (n,), (0,), (0,)), 0)
    own, other = (asc.LocalTensor(dtype, asc.TPosition.VECIN, k * n * 4, n) for k in range(2))
    result = asc.LocalTensor(dtype, asc.TPosition.VECOUT, 2 * n * 4, n)
    asc.data_copy(own, table[core * n], part)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(result, own, 2.0, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(table[core * n], result, n)
    asc.sync_all()  # the first kernel has ended everywhere; all pipes of this core are idle
    if p.dci:
        asc.nd_dma_dci()
    asc.data_copy(own, table[core * n], part)
    asc.data_copy(other, table[(core + 1) % p.cores * n], part)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.add(result, own, other, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y[core * n], result, n)


@asc.jit
def with_scalar(table: Any, y: Any, core: int, p: Any) -> None:
    """table[i] *= head of the own part; then y = next part * new head of the own one."""
    n, dtype = p.n, table.dtype
    loaded = asc.LocalTensor(dtype, asc.TPosition.VECIN, 0, n)
    result = asc.LocalTensor(dtype, asc.TPosition.VECOUT, n * 4, n)
    mine = table[core * n]
    factor = mine.get_value(0)
    asc.set_flag(asc.HardEvent.S_MTE3, 0)
    asc.wait_flag(asc.HardEvent.S_MTE3, 0)  # the head has been read before it is overwritten
    asc.data_copy(loaded, mine, n)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(result, loaded, factor, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(mine, result, n)
    asc.sync_all()  # the first kernel has ended everywhere; all pipes of this core are idle
    if p.dci:
        asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, mine, asc.DcciDst.CACHELINE_OUT)
        asc.data_sync_barrier(asc.MemDsbT.DDR)
    factor = mine.get_value(0)
    asc.data_copy(loaded, table[(core + 1) % p.cores * n], n)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(result, loaded, factor, n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y[core * n], result, n)


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def two_launches(table: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    table_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    table_gm.set_global_buffer(table)
    y_gm.set_global_buffer(y)
    (with_nddma if p.reader == "nddma" else with_scalar)(table_gm, y_gm, int(asc.get_block_idx()), p)


def _expected(table: Any, reader: str) -> tuple[Any, Any]:
    """(table after the first kernel, result of the second), a row for each part."""
    if reader == "nddma":
        first = 2 * table
        return first, first + np.roll(first, -1, axis=0)
    first = table * table[:, :1]
    return first, first[:, :1] * np.roll(first, -1, axis=0)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small whole numbers in float32, so that every result is exact; no head is 0 or 1.

    Raises UnsupportedError for reader=nddma on cards without it and for cards without SyncAll, ConfigError for an n that does
    not fit, CapacityError for too many cores.
    """
    if not card.ids("sync.sync_all_ids"):
        raise UnsupportedError("this card has no SyncAll", field="card", value=card.name, card=card.name)
    has_nddma = card.has("nddma.line")
    if p.reader == "nddma" and not has_nddma:
        raise UnsupportedError("this card has no NDDMA (only Atlas 350 has)", field="reader", value=p.reader,
                               allowed="scalar", card=card.name)  # fmt: skip
    if p.reader == "auto":
        p = replace(p, reader="nddma" if has_nddma else "scalar")
    most = int(card.value("buffers.UB.size")) // 1536 * 128
    if not 128 <= p.n <= most or p.n % 128:
        raise ConfigError("n does not fit", field="n", value=p.n, allowed=f"multiples of 128, 128..{most}")
    if not 2 <= p.cores <= card.vectors:
        raise CapacityError("there are no such cores, or the own part is also the next one", field="cores", value=p.cores,
                            allowed=f"2..{card.vectors}", card=card.name)  # fmt: skip
    shape = (p.cores, p.n)
    if not data:
        spec = GmSpec(shape, asc.float32)
        return Job(two_launches, (spec, spec, p), p.cores, dict(vars(p)))
    table = np.random.default_rng(11).integers(2, 9, shape).astype(np.float32)
    first, second = _expected(table, p.reader)

    def expect(args: tuple[Any, ...]) -> bool:
        return np.array_equal(args[0], first) and np.array_equal(args[1], second)

    return Job(two_launches, (table, np.zeros(shape, np.float32), p), p.cores, dict(vars(p)), expect=expect)
