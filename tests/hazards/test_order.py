"""Order inside a core: flags in both directions, barriers, round trips, and what each left-out piece makes a race of.

Every kernel marks its lines; a test drops one pair of flags and expects the kind and both lines (spec coherence.md 3, 4;
api_semantics.md 11.2, 11.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import (
    AIC,
    AIV,
    ALL,
    MTE2,
    MTE3,
    SEPARATE,
    Flags,
    V,
    floats,
    found,
    is_clean,
    local,
    name,
    the_race,
)  # fmt: skip

N = 256
ROUNDS = 3


# ---- vector cores ---------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def vector_ring(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    """One buffer for loading and one for storing, primed before the loop and drained behind it."""
    flags = Flags(drop)
    loaded, computed = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    flags.set("V_MTE2")
    flags.set("MTE3_V")
    for i in range(ROUNDS):
        flags.wait("V_MTE2")
        asc.data_copy(loaded, gm(x, i * N), N)  # @ring_load
        flags.order("MTE2_V")
        flags.wait("MTE3_V")
        asc.muls(computed, loaded, 2.0, N)  # @ring_muls
        flags.set("V_MTE2")
        flags.order("V_MTE3")
        asc.data_copy(gm(y, i * N), computed, N)  # @ring_store
        flags.set("MTE3_V")
    flags.wait("V_MTE2")
    flags.wait("MTE3_V")


def ring(card: str, *drop: str, **options: Any) -> Any:
    return asc.simulate(vector_ring, floats(ROUNDS * N), np.zeros(ROUNDS * N, np.float32), drop, card=card, **options)


@pytest.mark.parametrize("auto_sync", [True, False])
@pytest.mark.parametrize("card", ALL)
def test_a_ring_with_all_flags_is_clean(card: str, auto_sync: bool) -> None:
    assert is_clean(ring(card, auto_sync=auto_sync))


RING = {
    "MTE2_V": ("race-raw", "ring_muls", "ring_load"), "V_MTE2": ("race-war", "ring_load", "ring_muls"),
    "V_MTE3": ("race-raw", "ring_store", "ring_muls"), "MTE3_V": ("race-war", "ring_muls", "ring_store"),
}  # fmt: skip


@pytest.mark.parametrize("event", RING)
@pytest.mark.parametrize("card", ALL)
def test_each_pair_of_the_ring(card: str, event: str) -> None:
    run = ring(card, event)
    assert found(run) == {RING[event]}
    race = the_race(run)
    kind, _, _ = RING[event]
    assert race.severity == "error"
    assert race.ordered is False
    assert (race.at.pipe, race.other.pipe) == (event.split("_")[1], event.split("_")[0])
    assert race.tensor == ("core0 UB" if card == "atlas_200i" else "core0.aiv0 UB")
    assert race.address == (0 if "MTE2" in event else N * 4)
    assert race.bytes == N * 4
    # Forward pairs miss in every round, back edges from the second one on.
    assert race.count == (ROUNDS if kind == "race-raw" else ROUNDS - 1)
    assert race.at.iteration == (0 if kind == "race-raw" else 1)


@asc.jit(kernel_type=AIV)
def one_round(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    flags = Flags(drop)
    loaded, computed = ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(loaded, gm(x), N)  # @once_load
    flags.order("MTE2_V")
    asc.muls(computed, loaded, 2.0, N)  # @once_muls
    flags.order("V_MTE3")
    asc.data_copy(gm(y), computed, N)  # @once_store


@pytest.mark.parametrize(("piece", "expected"), [
    ("wait MTE2_V", ("race-raw", "once_muls", "once_load")), ("MTE2_V", ("race-raw", "once_muls", "once_load")),
    ("wait V_MTE3", ("race-raw", "once_store", "once_muls")), ("V_MTE3", ("race-raw", "once_store", "once_muls")),
])  # fmt: skip
@pytest.mark.parametrize("card", ALL)
def test_a_set_alone_orders_nothing(card: str, piece: str, expected: tuple[str, str, str]) -> None:
    x, y = floats(N), np.zeros(N, np.float32)
    assert found(asc.simulate(one_round, x, y, (piece,), card=card)) == {expected}
    assert is_clean(asc.simulate(one_round, x, y, (), card=card))


@asc.jit(kernel_type=AIV)
def copy_ring(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
    """MTE2 and MTE3 alone: through UB, one buffer."""
    flags = Flags(drop)
    tile = ub(x.dtype, 0, N)
    flags.set("MTE3_MTE2", 1)
    for i in range(ROUNDS):
        flags.wait("MTE3_MTE2", 1)
        asc.data_copy(tile, gm(x, i * N), N)  # @copy_load
        flags.order("MTE2_MTE3", 2)
        asc.data_copy(gm(y, i * N), tile, N)  # @copy_store
        flags.set("MTE3_MTE2", 1)
    flags.wait("MTE3_MTE2", 1)


@pytest.mark.parametrize(("drop", "expected"), [
    ((), set()), (("MTE2_MTE3",), {("race-raw", "copy_store", "copy_load")}),
    (("MTE3_MTE2",), {("race-war", "copy_load", "copy_store")}),
])  # fmt: skip
@pytest.mark.parametrize("card", ALL)
def test_loads_and_stores_of_one_buffer(card: str, drop: tuple[str, ...], expected: set[Any]) -> None:
    run = asc.simulate(copy_ring, floats(ROUNDS * N), np.zeros(ROUNDS * N, np.float32), drop, card=card)
    assert found(run) == expected
    assert run.hazards.clean is not bool(expected)


@asc.jit(kernel_type=AIV)
def through_gm(x: asc.GlobalAddress, drop: asc.ConstExpr):
    """What MTE3 stored is loaded again, and what was loaded is overwritten; all buffers in UB differ."""
    flags = Flags(drop)
    first, second, third = (ub(x.dtype, i * N, N) for i in range(3))
    asc.data_copy(first, gm(x), N)  # @gm_first_load
    flags.order("MTE2_MTE3", 0)
    asc.data_copy(gm(x, N), first, N)  # @gm_store
    flags.order("MTE3_MTE2", 0)
    asc.data_copy(second, gm(x, N), N)  # @gm_load
    asc.duplicate(third, 7.0, N)
    flags.order("V_MTE3", 0)
    flags.order("MTE2_MTE3", 1)
    asc.data_copy(gm(x, N), third, N)  # @gm_overwrite


def test_store_and_load_through_gm() -> None:
    def run(*drop: str) -> Any:
        return asc.simulate(through_gm, floats(3 * N), drop, card="atlas_a2")

    # The overwriting store follows the first one on its pipe: they overlap, but the load between them orders both.
    assert is_clean(run())
    without = run("MTE3_MTE2")
    assert ("race-raw", "gm_load", "gm_store") in found(without)
    (race,) = without.hazards.of("race-raw")
    assert (race.tensor, race.address, race.bytes) == ("x", N * 4, N * 4)


@pytest.mark.parametrize("card", ALL)
def test_overwriting_gm_that_is_still_loaded(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        asc.duplicate(ub(x.dtype, N, N), 7.0, N)
        flags.order("V_MTE3")
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)  # @war_load
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(x, 3 * N // 4), ub(x.dtype, N, N), N)  # @war_store

    assert is_clean(asc.simulate(kernel, floats(2 * N), (), card=card))
    run = asc.simulate(kernel, floats(2 * N), ("MTE2_MTE3",), card=card)
    assert found(run) == {("race-war", "war_store", "war_load")}
    race = the_race(run)
    assert (race.tensor, race.address, race.bytes) == ("x", 3 * N, N)


# ---- one pipe and itself --------------------------------------------------------------------------------------------
@asc.jit(kernel_type=AIV)
def loads_overlap(x: asc.GlobalAddress, y: asc.GlobalAddress, between: asc.ConstExpr, read: asc.ConstExpr):
    """Two loads whose destinations share half of their bytes."""
    flags = Flags()
    asc.data_copy(ub(x.dtype, 0, N), gm(x), N)  # @load_one
    if between == "barrier":
        asc.pipe_barrier(MTE2)
    elif between == "all":
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    elif between == "other":
        asc.pipe_barrier(MTE3)
    elif between == "trip":
        flags.order("MTE2_V")
        flags.order("V_MTE2")
    elif between == "half trip":
        flags.order("V_MTE2")
        flags.order("MTE2_V")
    elif between == "long trip":
        flags.order("MTE2_V")
        flags.order("V_MTE3")
        flags.order("MTE3_MTE2")
    asc.data_copy(ub(x.dtype, N // 2, N), gm(x, N), N)  # @load_two
    if read:
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y), ub(x.dtype, 0, N + N // 2), N + N // 2)


@pytest.mark.parametrize(("between", "right"), [
    ("nothing", False), ("barrier", True), ("all", True), ("other", False), ("trip", True), ("half trip", False),
    ("long trip", True),
])  # fmt: skip
@pytest.mark.parametrize("card", ALL)
def test_loads_with_overlapping_destinations(card: str, between: str, right: bool) -> None:
    x, y = floats(2 * N), np.zeros(2 * N, np.float32)
    run = asc.simulate(loads_overlap, x, y, between, True, card=card)
    if right:
        assert is_clean(run)
        assert np.array_equal(y[: N + N // 2], np.concatenate([x[: N // 2], x[N:]]))
        return
    assert found(run) == {("race-waw", "load_two", "load_one")}
    race = the_race(run)
    assert (race.at.pipe, race.other.pipe, race.bytes, race.address) == ("MTE2", "MTE2", N * 2, N * 2)


def test_bytes_of_a_local_buffer_that_nobody_reads_do_not_matter() -> None:
    run = asc.simulate(loads_overlap, floats(2 * N), np.zeros(2 * N, np.float32), "nothing", False, card="atlas_a2")
    assert is_clean(run)


@asc.jit(kernel_type=AIV)
def stores_overlap(x: asc.GlobalAddress, y: asc.GlobalAddress, between: asc.ConstExpr, shift: asc.ConstExpr):
    flags = Flags()
    tile = ub(x.dtype, 0, N)
    asc.data_copy(tile, gm(x), N)
    flags.order("MTE2_MTE3")
    asc.data_copy(gm(y), tile, N)  # @store_one
    if between == "barrier":
        asc.pipe_barrier(MTE3)
    elif between == "other":
        asc.pipe_barrier(MTE2)
        asc.pipe_barrier(V)
    elif between == "all":
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    elif between == "trip":
        flags.order("MTE3_MTE2")
        flags.order("MTE2_MTE3")
    asc.data_copy(gm(y, shift), tile, N)  # @store_two


@pytest.mark.parametrize("card", ALL)
def test_stores_to_overlapping_gm(card: str) -> None:
    """GM counts at once: after the kernel everybody may read it."""
    def run(between: str, shift: int = N // 4) -> Any:
        return asc.simulate(stores_overlap, floats(N), np.zeros(2 * N, np.float32), between, shift, card=card)

    for between in ("barrier", "all", "trip"):
        assert is_clean(run(between))
    for between in ("nothing", "other"):
        wrong = run(between)
        assert found(wrong) == {("race-waw", "store_two", "store_one")}
        race = the_race(wrong)
        assert (race.tensor, race.address, race.bytes) == ("y", N, 3 * N)
    assert is_clean(run("nothing", N))


# ---- waits, ids, PIPE_ALL -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ALL)
def test_a_wait_may_stand_before_its_set(card: str) -> None:
    """The vector instruction comes first in the text, and last in every run: its pipe waits for the load."""
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        flags.wait("MTE2_V", 0)
        asc.muls(ub(x.dtype, N, N), ub(x.dtype, 0, N), 2.0, N)  # @early_muls
        asc.data_copy(ub(x.dtype, 0, N), gm(x), N)  # @late_load
        flags.set("MTE2_V", 0)
        flags.order("V_MTE3")
        asc.data_copy(gm(y), ub(x.dtype, N, N), N)

    x, y = floats(N), np.zeros(N, np.float32)
    assert is_clean(asc.simulate(kernel, x, y, (), card=card))
    assert np.array_equal(y, 2 * x)
    # Without the flag the text says that the load overwrites what the vector unit reads.
    assert found(asc.simulate(kernel, x, y, ("MTE2_V",), card=card)) == {("race-war", "late_load", "early_muls")}


@pytest.mark.parametrize("card", ALL)
def test_ids_of_one_event_are_independent(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, first: asc.ConstExpr, second: asc.ConstExpr):
        """Two loads, each with a flag; the vector unit waits for `first`, adds the first tile, then for `second`."""
        flags = Flags()
        a, b, c = (ub(x.dtype, i * N, N) for i in range(3))
        asc.data_copy(a, gm(x), N)
        flags.set("MTE2_V", 0)
        asc.data_copy(b, gm(x, N), N)  # @second_load
        flags.set("MTE2_V", 1)
        flags.wait("MTE2_V", first)
        asc.muls(c, a, 2.0, N)
        if second != first:
            asc.muls(a, b, 2.0, N)  # @uses_second
            flags.wait("MTE2_V", second)
        else:
            flags.wait("MTE2_V", 1 - first)
            asc.muls(a, b, 2.0, N)
        flags.order("V_MTE3")
        asc.data_copy(gm(y), ub(x.dtype, 0, N), N)
        asc.data_copy(gm(y, N), c, N)

    def run(first: int, second: int) -> Any:
        return asc.simulate(kernel, floats(2 * N), np.zeros(2 * N, np.float32), first, second, card=card)

    assert is_clean(run(0, 0))
    assert found(run(0, 1)) == {("race-raw", "uses_second", "second_load")}
    # The second flag covers the first load too: it is set behind both.
    assert is_clean(run(1, 1))


@pytest.mark.parametrize("card", ALL)
def test_pipe_all_orders_everything_before_it_with_everything_behind(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, barriers: asc.ConstExpr):
        def barrier(number: int) -> None:
            if number in barriers:
                asc.pipe_barrier(asc.PipeID.PIPE_ALL)

        loaded, computed = ub(x.dtype, 0, N), ub(x.dtype, N, N)
        for _ in range(2):
            asc.data_copy(loaded, gm(x), N)  # @all_load
            barrier(0)
            asc.muls(computed, loaded, 2.0, N)  # @all_muls
            barrier(1)
            asc.data_copy(gm(y), computed, N)  # @all_store
            barrier(2)

    def run(*barriers: int) -> Any:
        return asc.simulate(kernel, floats(N), np.zeros(N, np.float32), barriers, card=card)

    assert is_clean(run(0, 1, 2))
    assert found(run(1, 2)) == {("race-raw", "all_muls", "all_load")}
    assert found(run(0, 2)) == {("race-raw", "all_store", "all_muls")}
    # The last one is not needed: what comes back meets only what barriers 0 and 1 have ordered.
    assert is_clean(run(0, 1))


# ---- cube cores -----------------------------------------------------------------------------------------------------
SIDE = 64
FRACTALS = SIDE * SIDE // 256


def load_l0(a2: Any, a1: Any, b2: Any, b1: Any) -> None:
    """Bring both operands from L1 to L0A and L0B; what the layout is does not matter here."""
    rows = SIDE // 16
    if asc.npu_arch() == 3510:
        asc.load_data(a2, a1, asc.LoadData2DParamsV2(0, 0, rows, rows, rows, rows))  # @v2_to_a
        asc.load_data(b2, b1, asc.LoadData2DParamsV2(0, 0, rows, rows, rows, rows))  # @v2_to_b
    else:
        asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=FRACTALS, src_stride=1))  # @to_a
        asc.load_data(b2, b1, asc.LoadData2DParams(repeat_times=FRACTALS, src_stride=1))  # @to_b


def load_l1(dst: Any, src: Any) -> None:
    if asc.npu_arch() == 3002:
        asc.load_data(dst, src, asc.LoadData2DParams(0, FRACTALS, 1, 0, 0))  # @load_to_l1
    else:
        asc.data_copy(dst, src, SIDE * SIDE)  # @copy_to_l1


@asc.jit(kernel_type=AIC)
def cube_ring(a: asc.GlobalAddress, c: asc.GlobalAddress, drop: asc.ConstExpr):
    """One buffer of every memory of the cube, every pair of flags in both directions."""
    flags = Flags(drop)
    a1, b1 = local(asc.TPosition.A1, a.dtype, 0, SIDE * SIDE), local(asc.TPosition.B1, a.dtype, SIDE * SIDE * 2, SIDE * SIDE)
    a2, b2 = local(asc.TPosition.A2, a.dtype, 0, SIDE * SIDE), local(asc.TPosition.B2, a.dtype, 0, SIDE * SIDE)
    l0c = local(asc.TPosition.CO1, asc.float32, 0, SIDE * SIDE)
    for event in ("MTE1_MTE2", "M_MTE1", "FIX_M"):
        flags.set(event)
    for i in range(ROUNDS):
        flags.wait("MTE1_MTE2")
        load_l1(a1, gm(a, i * SIDE * SIDE))
        load_l1(b1, gm(a, i * SIDE * SIDE))
        flags.order("MTE2_MTE1")
        flags.wait("M_MTE1")
        load_l0(a2, a1, b2, b1)
        flags.set("MTE1_MTE2")
        flags.order("MTE1_M")
        flags.wait("FIX_M")
        asc.mmad(l0c, a2, b2, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=0, cmatrix_init_val=True))  # @cube_mmad
        flags.set("M_MTE1")
        flags.order("M_FIX")
        asc.fixpipe(gm(c, i * SIDE * SIDE), l0c, asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE))  # @cube_fix
        flags.set("FIX_M")
    for event in ("MTE1_MTE2", "M_MTE1", "FIX_M"):
        flags.wait(event)


def cube(card: str, *drop: str) -> Any:
    a = np.ones(ROUNDS * SIDE * SIDE, np.float16)
    return asc.simulate(cube_ring, a, np.zeros(ROUNDS * SIDE * SIDE, np.float32), drop, card=card)


CUBE = {
    "MTE2_MTE1": ("race-raw", "L1"), "MTE1_MTE2": ("race-war", "L1"), "MTE1_M": ("race-raw", "L0A"),
    "M_MTE1": ("race-war", "L0A"), "M_FIX": ("race-raw", "L0C"), "FIX_M": ("race-war", "L0C"),
}  # fmt: skip
AT = {
    "MTE2": {"copy_to_l1", "load_to_l1"}, "MTE1": {"to_a", "to_b", "v2_to_a", "v2_to_b"}, "M": {"cube_mmad"}, "FIX": {"cube_fix"},
}  # fmt: skip


@pytest.mark.parametrize("card", ALL)
def test_a_cube_ring_with_all_flags_is_clean(card: str) -> None:
    assert is_clean(cube(card))


@pytest.mark.parametrize("event", CUBE)
@pytest.mark.parametrize("card", ALL)
def test_each_pair_of_the_cube(card: str, event: str) -> None:
    run = cube(card, event)
    race = the_race(run)
    kind, memory = CUBE[event]
    source, destination = event.split("_")
    assert (race.kind, race.at.pipe, race.other.pipe) == (kind, destination, source)
    assert race.tensor.split()[1] in ({memory, "L0B"} if memory == "L0A" else {memory})
    assert name(race.at) in AT[destination]
    assert name(race.other) in AT[source]
    assert race.severity == "error"
    assert race.count == (ROUNDS if kind == "race-raw" else ROUNDS - 1)


def test_fixpipe_and_load_through_gm() -> None:
    @asc.jit(kernel_type=AIC)
    def kernel(c: asc.GlobalAddress, drop: asc.ConstExpr):
        flags = Flags(drop)
        l0c = local(asc.TPosition.CO1, asc.float32, 0, 256)
        a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 256), local(asc.TPosition.B2, asc.float16, 0, 256)
        a1 = local(asc.TPosition.A1, asc.float16, 0, 256)
        asc.init_const_value(a1, asc.InitConstValueParams(1, 16, 0, 1.0))
        flags.order("MTE2_MTE1")
        asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=1, src_stride=1))
        asc.load_data(b2, a1, asc.LoadData2DParams(repeat_times=1, src_stride=1))
        flags.order("MTE1_M")
        asc.mmad(l0c, a2, b2, asc.MmadParams(16, 16, 16, unit_flag=0, cmatrix_init_val=True))
        flags.order("M_FIX")
        asc.fixpipe(gm(c), l0c, asc.FixpipeParamsV220(16, 16, 16, 16))  # @back_fix
        flags.order("FIX_MTE2")
        asc.data_copy(local(asc.TPosition.A1, asc.float32, 4096, 256), gm(c), 256)  # @back_load

    for card in SEPARATE:
        c = np.zeros(256, np.float32)
        assert is_clean(asc.simulate(kernel, c, (), card=card))
        assert (c == 16).all()
        assert found(asc.simulate(kernel, c, ("FIX_MTE2",), card=card)) == {("race-raw", "back_load", "back_fix")}
