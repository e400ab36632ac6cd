"""A result and its ready flag published by scalar stores: clean, barrier, flag on one side, invalidate on the other.

Core 0 stores the words of a result by SetValue, cleans their lines (DCCI), waits for that (DSB), and does the same with a flag
in a line of its own. The other cores poll the flag (DCCI, DSB, GetValue), drop what they may hold of the result (DCCI, DSB) and
read it; each copies it to rows of its own and acknowledges with a flag too, so that the next round may overwrite it.

drop=clean        core 0 does not clean the result: the flag arrives, the words stay in its cache. Wrong numbers.
drop=invalidate   the readers do not drop the result: from the second round on they read their old copy. Wrong numbers.
drop=dsb          no barrier between the result and the flag: the flag may reach GM first. Here a clean is done at once, so the
                  numbers are right by luck.
drop=none         right.

A2, A3 and Atlas 350 (200I has one core). In a run without data nobody can see a flag: the cores then meet in SyncAlls instead
of polling, and read nothing; only the stores, cleans and barriers are timed.
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

LINE = 16
"""Words of 4 B in a line of the scalar data cache."""


@dataclass(frozen=True)
class Parameters:
    drop: str = param("none", "what is left out", ("none", "clean", "dsb", "invalidate"))
    cores: int = param(3, "vector cores: one publishes, the others read")
    n: int = param(16, "words of the result, a multiple of 16")
    rounds: int = param(3, "results, one after another in the same place")


@asc.jit
def clean(tensor: Any, words: int) -> None:
    """Write the lines of `tensor` back and drop them."""
    for at in range(0, words, LINE):
        asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, tensor[at], asc.DcciDst.CACHELINE_OUT)


@asc.jit
def publish(flag: Any, value: int) -> None:
    """Store a flag so that others can see it."""
    flag.set_value(0, value)
    clean(flag, LINE)
    asc.data_sync_barrier(asc.MemDsbT.DDR)


@asc.jit
def poll(flag: Any, value: int) -> None:
    """Wait until another core has published `value`."""
    while True:
        clean(flag, LINE)
        asc.data_sync_barrier(asc.MemDsbT.DDR)
        if flag.get_value(0) == value:
            return


@asc.jit
def writer(result: Any, flags: Any, p: Any, seen: bool) -> None:
    """Core 0; flags[0] is the ready flag, flags[core * LINE] the acknowledgement of a reader."""
    for r in range(p.rounds):
        for i in range(p.n):
            result.set_value(i, 1000 * (r + 1) + i)
        if p.drop != "clean":
            clean(result, p.n)
        if p.drop != "dsb":
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        publish(flags, r + 1)
        if not seen:
            asc.sync_all()
            asc.sync_all()
            continue
        for core in range(1, p.cores):
            poll(flags[core * LINE], r + 1)


@asc.jit
def reader(result: Any, flags: Any, y: Any, core: int, p: Any, seen: bool) -> None:
    """Another core: wait, read, copy to its own rows of y, acknowledge."""
    for r in range(p.rounds):
        if seen:
            poll(flags, r + 1)
        else:
            asc.sync_all()
        if p.drop != "invalidate":
            clean(result, p.n)
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        row = y[r * p.n]
        for i in range(p.n):
            row.set_value(i, result.get_value(i) if seen else 0)
        clean(row, p.n)
        asc.data_sync_barrier(asc.MemDsbT.DDR)
        publish(flags[core * LINE], r + 1)
        if not seen:
            asc.sync_all()


@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def dcache_flags(result: asc.GlobalAddress, flags: asc.GlobalAddress, y: asc.GlobalAddress, p: asc.ConstExpr,
                 seen: asc.ConstExpr[bool]) -> None:  # fmt: skip
    result_gm, flags_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    core = int(asc.get_block_idx())
    result_gm.set_global_buffer(result)
    flags_gm.set_global_buffer(flags)
    if core == 0:
        writer(result_gm, flags_gm, p, seen)
    else:
        y_gm.set_global_buffer(y + (core - 1) * p.rounds * p.n)
        reader(result_gm, flags_gm, y_gm, core, p, seen)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """int32 words; y is [reader, round, word].

    Raises UnsupportedError where there is one core only, ConfigError for sizes that do not fit, CapacityError for too many
    cores.
    """
    if card.coupled:
        raise UnsupportedError("this card has one core: there is nobody to publish to", field="card", value=card.name,
                               card=card.name)  # fmt: skip
    for name, unit in (("n", LINE), ("rounds", 1)):
        value = getattr(p, name)
        if value < unit or value % unit:
            raise ConfigError(
                f"{name} does not fit", field=name, value=value, allowed=f"multiples of {unit}, >= {unit}"
            )
    if not 2 <= p.cores <= card.vectors:
        raise CapacityError("no such number of cores", field="cores", value=p.cores, allowed=f"2..{card.vectors}",
                            card=card.name)  # fmt: skip
    shapes = ((p.n,), (p.cores * LINE,), (p.cores - 1, p.rounds, p.n))
    if not data:
        specs = tuple(GmSpec(shape, asc.int32) for shape in shapes)
        return Job(dcache_flags, (*specs, p, False), p.cores, dict(vars(p)),
                   notes=("without data the cores meet in SyncAlls instead of polling, and read nothing",))  # fmt: skip
    wanted = 1000 * np.arange(1, p.rounds + 1)[:, None] + np.arange(p.n)
    args = tuple(np.zeros(shape, np.int32) for shape in shapes)

    def expect(after: tuple[Any, ...]) -> bool:
        return bool((after[2] == wanted).all())

    return Job(dcache_flags, (*args, p, True), p.cores, dict(vars(p)), expect=expect)
