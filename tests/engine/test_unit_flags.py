"""Unit flags of L0C: Mmad and Fixpipe block by block, and what misuse does (spec api_semantics.md 17).

A tile of 32 x 32 float32 is 4 KB of L0C: 8 blocks of 512 B. With K = 64 half an Mmad takes 32*32*64 / 16^3 = 16 cycles, 2 for
each block; a block's bit rises 40 cycles (the cube's latency here) after it was computed. Fixpipe to GM at 32 B per cycle
takes 16 cycles for each block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.engine.unit_flags import UnitFlags
from aicore_sim.errors import DeadlockError
from aicore_sim.instructions.base import Pipe
from aicore_sim.launch import Run
from aicore_sim.layouts import to_layout
from tests.engine.engine_helpers import gm, order, rows, simulate, work

SIDE, K = 32, 64
CUBE: dict[str, object] = {"mmad.latency": 40, "mmad.issue_min": 3, "mmad.accumulate_head": 0}
Step = tuple[Any, ...]
"""("mmad", unit flag[, tile[, "onto"]]), ("fix", unit flag[, tile[, rows]]), ("flag", event); a tile counts 4 KB of L0C."""


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def cube(c: asc.GlobalAddress, steps: asc.ConstExpr):
    """The steps in order; L0A and L0B are left as they are."""
    a = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, SIDE * K)
    b = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, SIDE * K)
    out = gm(c)
    for kind, value, *where in steps:
        tile = where[0] if where else 0
        l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, int(tile * SIDE * SIDE * 4), SIDE * SIDE)
        if kind == "mmad":
            first = len(where) < 2
            asc.mmad(l0c, a, b, asc.MmadParams(SIDE, SIDE, K, unit_flag=value, cmatrix_init_val=first))
        elif kind == "fix":
            rows = where[1] if len(where) > 1 else SIDE
            asc.fixpipe(out, l0c, asc.FixpipeParamsV220(SIDE, rows, SIDE, SIDE, unit_flag=value))
        else:
            asc.set_flag(value, 0)
            asc.wait_flag(value, 0)


def run_cube(*steps: Step, card: str = "atlas_350", overrides: dict[str, object] | None = None, **options: Any) -> Run:
    return simulate(
        cube, np.zeros((SIDE, SIDE), np.float32), steps, card=card, overrides={**CUBE, **(overrides or {})}, **options
    )


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
@pytest.mark.parametrize("data", [True, False])
def test_fixpipe_drains_the_blocks_behind_a_slow_mmad(card: str, data: bool) -> None:
    # Ports of 512 B/cycle: Fixpipe needs 1 cycle a block, Mmad 2. The last block is computed at 10 + 16, its bit rises
    # at 66; Fixpipe takes it in the cycle after.
    run = run_cube(("mmad", 3), ("fix", 3), card=card, data=data,
                   overrides={"gm.L0C-GM.port_rate": 512, "fixpipe.rates.L0C-GM.float": 512})  # fmt: skip
    assert work(run, Pipe.M)[0].times == (10, 26, 66)
    (fix,) = work(run, Pipe.FIX)
    assert fix.times == (20, 67, 167)
    assert fix.unit_flag == 67 - 20 - 8


@pytest.mark.parametrize("data", [True, False])
def test_a_slow_fixpipe_starts_with_the_first_block(data: bool) -> None:
    run = run_cube(("mmad", 3), ("fix", 3), data=data)
    # The first bit rises at 10 + 2 + 40; then 8 blocks of 16 cycles, whose own bits are up long before.
    (fix,) = work(run, Pipe.FIX)
    assert fix.times == (20, 52 + 128, 52 + 128 + 100)
    assert fix.unit_flag == 52 - 20


@pytest.mark.parametrize("data", [True, False])
def test_a_k_loop_of_2_2_3_hands_over_the_last_sum(data: bool) -> None:
    run = run_cube(("mmad", 2), ("mmad", 2, 0, "onto"), ("mmad", 3, 0, "onto"), ("fix", 3), data=data,
                   overrides={"scalar.issue": 1})  # fmt: skip
    assert [row.times for row in work(run, Pipe.M)] == [(1, 17, 57), (17, 33, 73), (33, 49, 89)]
    (fix,) = work(run, Pipe.FIX)
    # The first block of the third Mmad: 33 + 2 + 40.
    assert (fix.start, fix.free) == (4, 75 + 128)


@pytest.mark.parametrize("data", [True, False])
def test_the_next_tile_follows_fixpipe_block_by_block(data: bool) -> None:
    run = run_cube(("mmad", 3), ("fix", 3), ("mmad", 3), ("fix", 3), data=data)
    first, second = work(run, Pipe.M)
    # Fixpipe gives block i free at 52 + 16 (i + 1): the last at 180, and Mmad needs 2 cycles for it.
    assert first.times == (10, 26, 66)
    assert second.times == (30, 182, 222)
    assert second.unit_flag == 182 - 30 - 16
    # The second Fixpipe finds its first block at 68 + 2 + 40 = 110, is busy until 180 with the first tile, and is held
    # up by no other: block i rises at 52 + 16 (i + 1) + 42, before 180 + 16 i.
    assert work(run, Pipe.FIX)[1].times == (180, 308, 408)


def test_tiles_in_different_blocks_do_not_meet() -> None:
    run = run_cube(("mmad", 3, 0), ("fix", 3, 0), ("mmad", 3, 1), ("fix", 3, 1))
    assert work(run, Pipe.M)[1].times == (30, 46, 86)
    assert work(run, Pipe.FIX)[1].start == 180
    assert work(run, Pipe.FIX)[1].unit_flag == 0


def test_several_fixpipes_read_the_same_blocks_with_2_and_the_last_with_3() -> None:
    run = run_cube(("mmad", 3), ("fix", 2), ("fix", 3), ("mmad", 2))
    one, two = work(run, Pipe.FIX)
    assert one.times == (20, 180, 280)
    assert two.times == (180, 308, 408)
    # The bits fall behind the second only, the last at 308.
    assert work(run, Pipe.M)[1].free == 310


def test_without_unit_flags_mmad_and_fixpipe_know_nothing_of_each_other() -> None:
    run = run_cube(("mmad", 0), ("fix", 0), ("mmad", 0))
    assert work(run, Pipe.FIX)[0].times == (20, 148, 248)
    assert work(run, Pipe.M)[1].start == 30
    ordered = run_cube(("mmad", 0), ("flag", asc.HardEvent.M_FIX), ("fix", 0))
    # With the flag Fixpipe waits for the whole tile: 66, and 1 for the wait.
    assert work(ordered, Pipe.FIX)[0].times == (67, 195, 295)


@pytest.mark.parametrize("steps", [
    pytest.param((("mmad", 3), ("mmad", 2)), id="3 then 2 with no Fixpipe between"),
    pytest.param((("mmad", 3), ("mmad", 3)), id="3 then 3 with no Fixpipe between"),
    pytest.param((("fix", 3),), id="Fixpipe 3 without a Mmad"),
    pytest.param((("fix", 2),), id="Fixpipe 2 without a Mmad"),
    pytest.param((("mmad", 0), ("fix", 3)), id="Fixpipe behind a Mmad without the flag"),
    pytest.param((("mmad", 2), ("fix", 3)), id="Fixpipe behind a Mmad that raises nothing"),
    pytest.param((("mmad", 3), ("fix", 0), ("mmad", 2)), id="Fixpipe 0 leaves the bits up"),
    pytest.param((("mmad", 3), ("fix", 2), ("mmad", 2)), id="Fixpipe 2 leaves the bits up"),
])  # fmt: skip
@pytest.mark.parametrize("data", [True, False])
def test_misuse_hangs(steps: tuple[Step, ...], data: bool) -> None:
    with pytest.raises(DeadlockError) as caught:
        run_cube(*steps, data=data)
    waiting = "FIX" if steps[-1][0] == "fix" else "M"
    assert any(
        line.startswith(f"core0.aic {waiting} waits for unit flags of L0C blocks 0..7") for line in caught.value.cycle
    )
    assert caught.value.file == __file__


def test_a_fixpipe_that_covers_less_leaves_bits_behind() -> None:
    # 16 of 32 rows: blocks 2, 3, 6 and 7 stay up, so the next Mmad hangs although Fixpipe cleared its own.
    with pytest.raises(DeadlockError):
        run_cube(("mmad", 3), ("fix", 3, 0, 16), ("mmad", 2))


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
@pytest.mark.parametrize("rows", [17, 20, 24, 31])
def test_a_fixpipe_of_ragged_rows_takes_the_whole_fractal(rows: int, card: str) -> None:
    # 17 to 24 rows end in the first half of the second fractal: its other bit must not be left up for the next tile.
    run = run_cube(("mmad", 3), ("fix", 3, 0, rows), ("mmad", 3), card=card)
    assert len(work(run, Pipe.M)) == 2


@pytest.mark.parametrize("data", [True, False])
def test_one_mmad_and_several_fixpipes_over_parts_of_its_tile(data: bool) -> None:
    # The rows of L0C lie in column blocks of 32 x 64 B: 16 rows are blocks 0, 1, 4 and 5, the other 16 blocks 2, 3, 6, 7.
    run = run_cube(("mmad", 3), ("fix", 3, 0, 16), ("fix", 3, 0.25, 16), ("mmad", 2), data=data)
    upper, lower = work(run, Pipe.FIX)
    # Four blocks of 16 cycles from 52 on, then the other four.
    assert (upper.free, lower.free) == (52 + 64, 52 + 128)
    # The next Mmad meets the last bit at 180 and needs 2 cycles for that block.
    assert work(run, Pipe.M)[1].free == 182


def test_bits_left_over_at_the_end_are_no_deadlock() -> None:
    assert len(work(run_cube(("mmad", 3)), Pipe.M)) == 1


def test_a_mmad_without_the_flag_does_not_look_at_raised_bits() -> None:
    run = run_cube(("mmad", 3), ("mmad", 0))
    assert [row.start for row in rows(run, Pipe.M)] == [10, 26]


# ---- data -----------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def tiles(
    a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, count: asc.ConstExpr, k_steps: asc.ConstExpr
):
    """`count` products one after another in the same place of L0C, each summed over `k_steps` Mmads, no M_FIX or FIX_M."""
    n = SIDE * K
    l1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, (count + 1) * n)
    l0a = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, count * n)
    l0b = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, n)
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * SIDE)
    fractals = n // 256
    asc.data_copy(l1, gm(a), count * n)
    asc.data_copy(l1[count * n], gm(b), n)
    order(asc.HardEvent.MTE2_MTE1)
    asc.load_data(l0a, l1, asc.LoadData2DParams(repeat_times=count * fractals, src_stride=1))
    asc.load_data(l0b, l1[count * n], asc.LoadData2DParams(repeat_times=fractals, src_stride=1))
    order(asc.HardEvent.MTE1_M)
    for i in range(count):
        for step in range(k_steps):
            last = step == k_steps - 1
            asc.mmad(
                l0c,
                l0a[i * n],
                l0b,
                asc.MmadParams(SIDE, SIDE, K, unit_flag=3 if last else 2, cmatrix_init_val=step == 0),
            )
            if not last:
                asc.pipe_barrier(asc.PipeID.PIPE_M)  # 4 fractals: Mmad after Mmad needs it, unit flags or not
        asc.fixpipe(gm(c, i * SIDE * SIDE), l0c, asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE, unit_flag=3))


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a2"])
@pytest.mark.parametrize("k_steps", [1, 3])
@pytest.mark.parametrize("port", [8, 32, 512])
def test_tiles_in_one_place_do_not_run_into_each_other(card: str, k_steps: int, port: int) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-3, 4, (4, SIDE, K)).astype(np.float16)
    b = rng.integers(-3, 4, (K, SIDE)).astype(np.float16)
    order_a = str(asc.load_card(card).model.layout["L0A"])
    raw_a = np.concatenate([to_layout(m, order_a, asc.float16).view(np.float16).reshape(-1) for m in a])
    c = np.zeros((4, SIDE, SIDE), np.float32)
    run = simulate(tiles, raw_a, to_layout(b, "ZN", asc.float16).view(np.float16), c, 4, k_steps, card=card,
                   overrides={**CUBE, "gm.L0C-GM.port_rate": port, "fixpipe.rates.L0C-GM.float": port})  # fmt: skip
    assert np.array_equal(c, k_steps * (a.astype(np.float32) @ b.astype(np.float32)))
    # Each tile's first Mmad started before the Fixpipe of the tile before it was through.
    if port < 512:
        firsts = work(run, Pipe.M)[::k_steps]
        assert all(m.start < f.free for m, f in zip(firsts[1:], work(run, Pipe.FIX), strict=False))


# ---- the bits themselves --------------------------------------------------------------------------------------------
def reference(ready: list[int], start: int, work: int) -> list[int]:
    """Blocks one after another: a block begins when the one before it is done and its own bit has turned."""
    done, at = [], start
    shares = [work * (i + 1) // len(ready) - work * i // len(ready) for i in range(len(ready))]
    for turned, share in zip(ready, shares, strict=True):
        at = max(at, turned) + share
        done.append(at)
    return done


@pytest.mark.parametrize(("ready", "start", "work"), [
    ([0, 0, 0, 0], 100, 40), ([110, 120, 130, 140], 100, 40), ([500, 0, 0, 0], 100, 40), ([0, 0, 0, 500], 100, 40),
    ([105, 300, 301, 302], 100, 7), ([101], 100, 3), ([130, 101, 190, 100, 250], 100, 33),
])  # fmt: skip
@pytest.mark.parametrize("writer", [True, False])
def test_timeline_against_a_loop(ready: list[int], start: int, work: int, writer: bool) -> None:
    flags = UnitFlags(len(ready) * 512)
    where = flags.blocks([(0, len(ready) * 512)])
    for i, tick in enumerate(ready):
        flags.leave(slice(i, i + 1), np.array([tick]), not writer)
    assert flags.timeline(where, start, work, writer).tolist() == reference(ready, start, work)


def test_bits_belong_to_every_block_that_is_touched() -> None:
    flags = UnitFlags(4096)
    assert flags.blocks([(0, 512)]) == slice(0, 1)
    assert flags.blocks([(511, 513)]) == slice(0, 2)
    apart = flags.blocks([(0, 600), (1024, 1100), (1100, 1536)])
    assert isinstance(apart, np.ndarray)
    assert apart.tolist() == [0, 1, 2]
    flags.leave(slice(2, 4), np.array([5, 9]), True)
    assert [flags.must_sleep(slice(i, i + 1), True) for i in range(5)] == [False, False, True, True, False]
    assert flags.must_sleep(slice(1, 3), False)
    assert not flags.must_sleep(slice(2, 4), False)
