"""What memory takes besides the bytes that missed: a charge for every run, and more for bytes written than for bytes read.

Cards as in `engine_helpers.ROUND`, memory moves 4 B per cycle: slower than any port. Times are cycles.
"""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, simulate, ub, work

N = 1024
SLOW: dict[str, object] = {"memory_rate": 4, "clock_mhz": 1000, "hbm.attainable": 1}
either = pytest.mark.parametrize("data", [True, False])


def took(run: Run, pipe: Pipe) -> list[float]:
    return [row.free - row.start for row in work(run, pipe)]


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def rows_of_128_bytes(x: asc.GlobalAddress, first: asc.ConstExpr[int]):
    """`first` rows, 256 B apart, then four of them, then the 512 B from the start of x on at the end of what was read."""
    tile = ub(x.dtype, 0, N)
    if first:
        asc.data_copy(tile, gm(x), asc.DataCopyParams(first, 4, 4, 0))
    asc.data_copy(tile, gm(x), asc.DataCopyParams(4, 4, 4, 0))
    asc.data_copy(tile, gm(x, 512), 128)


@either
@pytest.mark.parametrize(("first", "cycles"), [
    (0, [4 * 160 / 4, (512 + 32) / 4]),  # four rows of 128 + 32 B; one run of 512 B
    (1, [160 / 4, 3 * 160 / 4, (512 + 32) / 4]),  # the first row is there the second time
    (4, [4 * 160 / 4, 512 / 32, (512 + 32) / 4]),  # all four are: 32 B a cycle through the port
])  # fmt: skip
def test_every_run_that_misses_costs_memory_a_little_more(first: int, cycles: list[float], data: bool) -> None:
    run = simulate(rows_of_128_bytes, np.zeros(N, np.float32), first, data=data, overrides={**SLOW, "hbm.run_cost": 32})
    assert took(run, Pipe.MTE2) == cycles


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def store(x: asc.GlobalAddress, hint: asc.ConstExpr):
    target = gm(x)
    target.l2_hint = hint
    asc.data_copy(target, ub(x.dtype, 0, N), N)


@either
@pytest.mark.parametrize("hint", ["disable", "notalloc_keep"])
def test_a_written_byte_and_its_run_cost_more_than_a_read_one(hint: str, data: bool) -> None:
    charges = {"hbm.run_cost": 64, "hbm.write_cost": 2}
    run = simulate(store, np.zeros(N, np.float32), hint, data=data, overrides={**SLOW, **charges})
    assert took(run, Pipe.MTE3) == [2 * (4096 + 64) / 4]
    kept = simulate(store, np.zeros(N, np.float32), "", data=data, overrides={**SLOW, **charges})
    assert took(kept, Pipe.MTE3) == [4096 / 32]  # L2 keeps it: its port alone


@asc.jit(kernel_type=asc.KernelType.AIV_ONLY)
def fill_and_push_out(x: asc.GlobalAddress, load: asc.ConstExpr[bool]):
    """Two stores of 4 KB fill an L2 of 8 KB; a load or another store then pushes the first one out."""
    for i in range(2):
        asc.data_copy(gm(x, i * N), ub(x.dtype, 0, N), N)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    if load:
        asc.data_copy(ub(x.dtype, 0, N), gm(x, 2 * N), N)
    else:
        asc.data_copy(gm(x, 2 * N), ub(x.dtype, 0, N), N)


@either
def test_whoever_pushes_a_written_line_out_pays_for_its_way_to_memory(data: bool) -> None:
    tiny = {**SLOW, "l2_bytes": 16 * 512, "l2.ways": 16, "hbm.run_cost": 40, "hbm.write_cost": 1.5}
    x = np.zeros(3 * N, np.float32)
    loads = simulate(fill_and_push_out, x, True, data=data, overrides=tiny)
    assert took(loads, Pipe.MTE3) == [128, 128]
    assert took(loads, Pipe.MTE2) == [(4096 + 40 + 1.5 * 4096) / 4]  # its own run misses, the lines come with none
    stores = simulate(fill_and_push_out, x, False, data=data, overrides=tiny)
    assert took(stores, Pipe.MTE3) == [128, 128, 1.5 * 4096 / 4]
    assert stores.columns.gm[:, 7].tolist() == [0, 0, 4096]


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def nz_rows(x: asc.GlobalAddress, first: asc.ConstExpr[int], pitch: asc.ConstExpr[int]):
    """64 rows of 64 halfs, `pitch` halfs apart, from element `first` on."""
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, 64 * 64)
    asc.data_copy(l1, gm(x, first), asc.Nd2NzParams(1, 64, 64, 0, pitch, 64, 1, 0))


@either
@pytest.mark.parametrize(("first", "pitch", "off"), [
    (0, 64, 0), (0, 80, 0), (16, 64, 0),
    (1, 64, 64), (0, 65, 60), (8, 72, 32 + 0),  # 130 B a row: every 16th is on the grain; 16 + 144 B: every other
])  # fmt: skip
def test_nd2nz_rows_off_the_grain_run_at_their_own_rate(first: int, pitch: int, off: int, data: bool) -> None:
    rates = {"gm.GM-L1.nd2nz_head": 40, "gm.GM-L1.nd2nz_row": 2, "gm.GM-L1.nd2nz_unaligned_rate": 16}
    run = simulate(nz_rows, np.zeros(8192, np.float16), first, pitch, card="atlas_a2", data=data, overrides=rates)
    # 128 B a row: 4 cycles at 32 B a cycle, 8 at 16.
    assert took(run, Pipe.MTE2) == [40 + 64 * 2 + 64 * 4 + off * 4]
