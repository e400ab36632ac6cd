"""Races between cores: flags between cores in every mode, SyncAll in every form, words in GM, atomics, shared matrices.

The bytes are handed over through GM, L1 or UB; each piece of the order is left out in turn (spec coherence.md 3, 4, 7;
api_semantics.md 11.5, 19, 20.6; pitfalls P34, P35).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import (
    AIV,
    FIX,
    MIX,
    MTE1,
    MTE2,
    MTE3,
    SEPARATE,
    Flags,
    S,
    V,
    floats,
    found,
    is_clean,
    local,
    pairs,
    the_race,
)  # fmt: skip

N = 256
VECTORS = asc.KernelType.MIX_AIV_1_0
CORES = 4


# ---- SyncAll --------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def exchange(x: asc.GlobalAddress, y: asc.GlobalAddress, words: asc.GlobalAddress, form: asc.ConstExpr, drop: asc.ConstExpr):
    """Every core stores a tile, all meet, every core loads the tile of its neighbour, all meet again; twice."""
    flags = Flags()
    me, cores = int(asc.get_block_idx()), int(asc.get_block_num())
    mine, other = ub(x.dtype, 0, N), ub(x.dtype, N, N)

    def meet(which: str) -> None:
        if which in drop:
            return
        if form == "soft":
            asc.sync_all(gm(words), ub(asc.int32, 4 * N, 8 * cores))
        elif form == "mode 0":
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
            asc.cross_core_set_flag(4, 0, MTE3)
            asc.cross_core_wait_flag(4, 0, MTE3)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        else:
            asc.sync_all()

    for i in range(2):
        asc.duplicate(mine, float(10 * i + me), N)
        flags.order("V_MTE3")
        asc.data_copy(gm(x, me * N), mine, N)  # @e_store
        flags.order("MTE3_V")
        meet("first")
        asc.data_copy(other, gm(x, (me + 1) % cores * N), N)  # @e_load
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, (i * cores + me) * N), other, N)
        flags.order("MTE3_MTE2")
        meet("second")


@pytest.mark.parametrize("form", ["hard", "soft", "mode 0"])
@pytest.mark.parametrize("card", SEPARATE)
def test_all_cores_meet(card: str, form: str) -> None:
    y = np.zeros(2 * CORES * N, np.float32)

    def run(*drop: str) -> Run:
        words = np.zeros(8 * CORES, np.int32)
        return asc.simulate(exchange, np.zeros(CORES * N, np.float32), y, words, form, drop, card=card, blocks=CORES)

    assert is_clean(run())
    assert y.reshape(2, CORES, N)[:, :, 0].tolist() == [[1, 2, 3, 0], [11, 12, 13, 10]]
    # Without the first the tile may not be there yet; the meeting behind orders the store of the next round.
    early = run("first")
    assert {(kind, at, other) for kind, at, other in found(early)} == {("race-raw", "e_load", "e_store")}
    # Without the second the next tile may come while the last one is being loaded.
    late = run("second")
    assert found(late) == {("race-war", "e_store", "e_load")}
    for race in (*early.hazards.of("race-raw"), *late.hazards.of("race-war")):
        assert race.at.core != race.other.core
        assert (race.tensor, race.bytes, race.severity, race.ordered) == ("x", N * 4, "error", False)
    assert "e_store" in {line for _, *both in found(run("first", "second")) for line in both}


@pytest.mark.parametrize(("trigger", "wait", "expected"), [
    (MTE3, MTE2, set()), (asc.PipeID.PIPE_ALL, asc.PipeID.PIPE_ALL, set()), (asc.PipeID.PIPE_ALL, MTE2, set()),
    (MTE3, asc.PipeID.PIPE_ALL, set()), (MTE2, MTE2, {("race-raw", "c_load", "c_store")}),
    (MTE2, asc.PipeID.PIPE_ALL, {("race-raw", "c_load", "c_store")}), (MTE3, MTE3, {("race-raw", "c_load", "c_store")}),
])  # fmt: skip
def test_only_the_pipes_named_take_part(trigger: Any, wait: Any, expected: set[Any]) -> None:
    @asc.jit(kernel_type=VECTORS)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        me = int(asc.get_block_idx())
        mine, other = ub(x.dtype, 0, N), ub(x.dtype, N, N)
        asc.duplicate(mine, float(me), N)
        flags.order("V_MTE3")
        asc.data_copy(gm(x, me * N), mine, N)  # @c_store
        asc.sync_all(config=asc.SyncAllConfig(trigger, wait))
        asc.data_copy(other, gm(x, (1 - me) * N), N)  # @c_load
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, me * N), other, N)

    run = asc.simulate(kernel, np.zeros(2 * N, np.float32), np.zeros(2 * N, np.float32), card="atlas_350", blocks=2)
    assert found(run) == expected


# ---- cube to vector -------------------------------------------------------------------------------------------------
@asc.jit
def ones_in_l0c(flags: Any) -> Any:
    """A tile of 32 x 32 in L0C, each element 16."""
    a1, l0c = local(asc.TPosition.A1, asc.float16, 0, 1024), local(asc.TPosition.CO1, asc.float32, 0, 1024)
    a2, b2 = local(asc.TPosition.A2, asc.float16, 0, 512), local(asc.TPosition.B2, asc.float16, 0, 512)
    asc.init_const_value(a1, asc.InitConstValueParams(1, 64, 0, 1.0))
    flags.order("MTE2_MTE1")
    asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=2, src_stride=1))
    asc.load_data(b2, a1, asc.LoadData2DParams(repeat_times=2, src_stride=1))
    flags.order("MTE1_M")
    asc.mmad(l0c, a2, b2, asc.MmadParams(32, 32, 16, unit_flag=0, cmatrix_init_val=True))
    flags.order("M_FIX")
    return l0c


@asc.jit(kernel_type=MIX)
def through_gm(x: asc.GlobalAddress, y: asc.GlobalAddress, how: asc.ConstExpr, drop: asc.ConstExpr):
    """The AIC stores a tile twice into one place, its two AIVs load half of it each."""
    flags = Flags()
    aic = asc.ascend_is_aic()

    def signal(name: str, flag: int, pipe: Any) -> None:
        if name in drop:
            return
        if how == "sync":
            asc.sync_all(False)
        elif how == "aiv sync":
            asc.sync_all()
        elif how == "mode 4" and aic:
            asc.cross_core_set_flag(flag, 4, pipe)
            asc.cross_core_set_flag(flag + 16, 4, pipe)
        else:
            asc.cross_core_set_flag(flag, 4 if how == "mode 4" else 2, pipe)

    def await_(name: str, flag: int, pipe: Any) -> None:
        if name in drop:
            return
        if how in ("sync", "aiv sync"):
            if (name == "ready" and not aic) or (name == "free" and aic):
                asc.sync_all(False) if how == "sync" else asc.sync_all()
        elif how == "mode 4" and aic:
            asc.cross_core_wait_flag(flag, 4, pipe)
            asc.cross_core_wait_flag(flag + 16, 4, pipe)
        else:
            asc.cross_core_wait_flag(flag, 4 if how == "mode 4" else 2, pipe)

    if aic:
        l0c = ones_in_l0c(flags)
        for i in range(2):
            if i > 0:
                await_("free", 1, FIX)
                asc.pipe_barrier(FIX)
            asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(32, 32, 32, 32))  # @g_fix
            signal("ready", 0, FIX)
        await_("free", 1, FIX)
    if asc.ascend_is_aiv():
        sub, tile = int(asc.get_sub_block_idx()), ub(x.dtype, 0, 512)
        for i in range(2):
            await_("ready", 0, MTE2)
            asc.data_copy(tile, gm(x, sub * 512), 512)  # @g_load
            signal("free", 1, MTE2)
            flags.order("MTE2_MTE3")
            asc.data_copy(gm(y, (2 * i + sub) * 512), tile, 512)
            flags.order("MTE3_MTE2")


FLAGS_BETWEEN = [("atlas_a2", "mode 2"), ("atlas_a3", "mode 2"), ("atlas_350", "mode 2"), ("atlas_350", "mode 4")]


@pytest.mark.parametrize(("card", "how"), FLAGS_BETWEEN)
def test_cube_to_vector_through_gm(card: str, how: str) -> None:
    y = np.zeros(2048, np.float32)

    def run(*drop: str) -> Run:
        return asc.simulate(through_gm, np.zeros(1024, np.float32), y, how, drop, card=card, blocks=1)

    assert is_clean(run())
    assert (y == 16).all()
    assert found(run("free")) == {("race-war", "g_fix", "g_load")}
    assert ("race-raw", "g_load", "g_fix") in found(run("ready"))
    assert {kind for kind, *_ in found(run("ready"))} <= {"race-raw", "race-war"}
    race = run("free").hazards.of("race-war")[0]
    assert (race.at.core, race.at.pipe, race.other.pipe, race.tensor) == ("core0.aic", "FIX", "MTE2", "x")


@pytest.mark.parametrize("card", SEPARATE)
def test_sync_all_of_cube_and_vector_cores(card: str) -> None:
    @asc.jit(kernel_type=MIX)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, form: asc.ConstExpr):
        flags = Flags()
        if asc.ascend_is_aic():
            l0c = ones_in_l0c(flags)
            asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(32, 32, 32, 32))  # @m_fix
        if form == "all":
            asc.sync_all(False)
        elif form == "vectors":
            asc.sync_all()
        if asc.ascend_is_aiv():
            sub, tile = int(asc.get_sub_block_idx()), ub(x.dtype, 0, 512)
            asc.data_copy(tile, gm(x, sub * 512), 512)  # @m_load
            flags.order("MTE2_MTE3")
            asc.data_copy(gm(y, sub * 512), tile, 512)

    def run(form: str) -> Run:
        return asc.simulate(kernel, np.zeros(1024, np.float32), np.zeros(1024, np.float32), form, card=card, blocks=1)

    assert is_clean(run("all"))
    # The vector cores meet without the cube core (spec 11.5: 3510 returns at once, 2201 meets other AICs).
    assert found(run("vectors")) == {("race-raw", "m_load", "m_fix")}
    assert found(run("none")) == {("race-raw", "m_load", "m_fix")}


@pytest.mark.parametrize("card", SEPARATE)
def test_the_signal_covers_the_pipe_it_names(card: str) -> None:
    """A set on MTE2 says nothing about what Fixpipe has stored."""
    @asc.jit(kernel_type=MIX)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, pipe: asc.ConstExpr):
        flags = Flags()
        if asc.ascend_is_aic():
            l0c = ones_in_l0c(flags)
            asc.fixpipe(gm(x), l0c, asc.FixpipeParamsV220(32, 32, 32, 32))  # @p_fix
            asc.cross_core_set_flag(0, 2, pipe)
        if asc.ascend_is_aiv():
            sub, tile = int(asc.get_sub_block_idx()), ub(x.dtype, 0, 512)
            asc.cross_core_wait_flag(0, 2, MTE2)
            asc.data_copy(tile, gm(x, sub * 512), 512)  # @p_load
            flags.order("MTE2_MTE3")
            asc.data_copy(gm(y, sub * 512), tile, 512)

    def run(pipe: Any) -> Run:
        return asc.simulate(kernel, np.zeros(1024, np.float32), np.zeros(1024, np.float32), pipe, card=card, blocks=1)

    assert is_clean(run(FIX))
    for pipe in (MTE2, asc.PipeID.PIPE_M):
        assert found(run(pipe)) == {("race-raw", "p_load", "p_fix")}


@pytest.mark.parametrize(("pipe", "right"), [(MTE2, True), (S, None), (V, False), (MTE3, False)])
def test_a_wait_of_350_holds_the_pipe_it_names(pipe: Any, right: bool | None) -> None:
    """A2 and A3 stop issuing whatever the pipe; on 350 only the pipe named waits, PIPE_S stalls issue (spec 11.5)."""
    @asc.jit(kernel_type=MIX)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        if asc.ascend_is_aiv():
            tile = ub(x.dtype, 0, N)
            if asc.get_sub_block_idx() == 0:
                asc.duplicate(tile, 3.0, N)
                flags.order("V_MTE3")
                asc.data_copy(gm(x), tile, N)  # @h_store
            asc.cross_core_set_flag(0, 1, MTE3)
            asc.cross_core_wait_flag(0, 1, pipe)
            if asc.get_sub_block_idx() == 1:
                asc.data_copy(tile, gm(x), N)  # @h_load
                flags.order("MTE2_MTE3")
                asc.data_copy(gm(y), tile, N)

    race = {("race-raw", "h_load", "h_store")}
    for card in SEPARATE:
        wanted = set() if card != "atlas_350" or right is not False else race
        assert found(asc.simulate(kernel, floats(N), np.zeros(N, np.float32), card=card, blocks=1)) == wanted


@pytest.mark.parametrize("card", SEPARATE)
def test_mode_1_joins_the_vector_cores_of_one_group_only(card: str) -> None:
    @asc.jit(kernel_type=MIX)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, distance: asc.ConstExpr, signal: asc.ConstExpr):
        flags = Flags()
        if asc.ascend_is_aiv():
            me, mine, other = int(asc.get_block_idx()), ub(x.dtype, 0, N), ub(x.dtype, N, N)
            asc.duplicate(mine, float(me), N)
            flags.order("V_MTE3")
            asc.data_copy(gm(x, me * N), mine, N)  # @one_store
            if signal:
                asc.cross_core_set_flag(0, 1, MTE3)
                asc.cross_core_wait_flag(0, 1, MTE2)
            asc.data_copy(other, gm(x, (me ^ distance) * N), N)  # @one_load
            flags.order("MTE2_MTE3")
            asc.data_copy(gm(y, me * N), other, N)

    def run(distance: int, signal: bool = True) -> Run:
        x, y = np.zeros(4 * N, np.float32), np.zeros(4 * N, np.float32)
        return asc.simulate(kernel, x, y, distance, signal, card=card, blocks=2)

    assert is_clean(run(1))
    race = {("race-raw", "one_load", "one_store")}
    assert found(run(2)) == race  # the core of the other group
    assert found(run(1, False)) == race


# ---- inside a group of 350 ------------------------------------------------------------------------------------------
@asc.jit(kernel_type=MIX)
def through_ub(y: asc.GlobalAddress, mode: asc.ConstExpr, drop: asc.ConstExpr):
    """Fixpipe puts half a tile into the UB of each vector core, which stores it; twice."""
    flags = Flags()
    to_ub = asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR, True)
    tile = ub(asc.float32, 0, 512)
    if asc.ascend_is_aic():
        l0c = ones_in_l0c(flags)
        for i in range(2):
            if i > 0 and "free" not in drop:
                asc.cross_core_wait_flag(1, mode, FIX)
                if mode == 4:
                    asc.cross_core_wait_flag(17, mode, FIX)
            if i > 0:
                asc.pipe_barrier(FIX)
            for sub in range(2):
                asc.fixpipe(tile, l0c[sub * 256], asc.FixpipeParamsArch3510(32, 16, 32, 32, sub_block_id=sub), to_ub)  # @u_fix
            if "ready" not in drop:
                asc.cross_core_set_flag(0, mode, FIX)
                if mode == 4:
                    asc.cross_core_set_flag(16, mode, FIX)
        if "free" not in drop:
            asc.cross_core_wait_flag(1, mode, FIX)
            if mode == 4:
                asc.cross_core_wait_flag(17, mode, FIX)
    if asc.ascend_is_aiv():
        sub = int(asc.get_sub_block_idx())
        for i in range(2):
            if "ready" not in drop:
                asc.cross_core_wait_flag(0, mode, MTE3)
            asc.data_copy(gm(y, (2 * i + sub) * 512), tile, 512)  # @u_store
            if "free" not in drop:
                asc.cross_core_set_flag(1, mode, MTE3)


@pytest.mark.parametrize("mode", [2, 4])
def test_l0c_to_ub(mode: int) -> None:
    y = np.zeros(2048, np.float32)

    def run(*drop: str) -> Run:
        return asc.simulate(through_ub, y, mode, drop, card="atlas_350", blocks=1)

    assert is_clean(run())
    assert (y == 16).all()
    late = run("free")
    assert found(late) == {("race-war", "u_fix", "u_store")}
    assert {race.tensor for race in late.hazards.of("race-war")} <= {"core0.aiv0 UB", "core0.aiv1 UB"}
    assert ("race-raw", "u_store", "u_fix") in found(run("ready"))


@pytest.mark.parametrize(("drop", "lines"), [
    ((), set()), (("there",), {"l_store", "l_load"}), (("back",), {"l_load", "l_end"}),
])  # fmt: skip
def test_ub_to_l1_and_l1_to_ub(drop: tuple[str, ...], lines: set[str]) -> None:
    @asc.jit(kernel_type=MIX)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        l1, other = local(asc.TPosition.A1, asc.float16, 0, 2 * N), local(asc.TPosition.VECOUT, asc.float16, 2 * N, N)
        if asc.ascend_is_aiv():
            start, sub = int(asc.get_block_idx()) * N, int(asc.get_sub_block_idx())
            mine = local(asc.TPosition.VECIN, asc.float16, 0, N)
            asc.data_copy(mine, gm(x, start), N)
            flags.order("MTE2_MTE3")
            asc.data_copy(l1[sub * N], mine, N)  # @l_store
            if "there" not in drop:
                asc.cross_core_set_flag(0, 2, MTE3)
            if "back" not in drop:
                asc.cross_core_wait_flag(1, 2, MTE3)
            asc.data_copy(gm(y, start), other, N)  # @l_end
        if asc.ascend_is_aic():
            if "there" not in drop:
                asc.cross_core_wait_flag(0, 2, MTE1)
            for sub in range(2):
                asc.data_copy_l1_to_ub(other, l1[(1 - sub) * N], N, sub_block_id=sub)  # @l_load
            if "back" not in drop:
                asc.cross_core_set_flag(1, 2, MTE1)

    x = np.ones(2 * N, np.float16)
    run = asc.simulate(kernel, x, np.zeros_like(x), card="atlas_350", blocks=1)
    assert {line for _, *both in found(run) for line in both} == lines
    assert {kind for kind, *_ in found(run)} <= {"race-raw"}
    if not drop:
        assert is_clean(run)


# ---- words in GM ----------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def pass_on(x: asc.GlobalAddress, words: asc.GlobalAddress, how: asc.ConstExpr, drop: asc.ConstExpr):
    """Every block adds 1 to what the block before it left."""
    flags = Flags()
    tile, space, me = ub(x.dtype, 0, N), ub(asc.int32, 4096, 64), int(asc.get_block_idx())
    if "wait" not in drop:
        if how == "notify":
            asc.wait_pre_block(gm(words), space)
        elif me > 0:
            asc.ib_wait(gm(words), space, me - 1, 0)
    asc.data_copy(tile, gm(x), N)  # @t_load
    flags.order("MTE2_V")
    asc.adds(tile, tile, 1, N)
    flags.order("V_MTE3")
    asc.data_copy(gm(x), tile, N)  # @t_store
    if "set" not in drop:
        if how == "notify":
            asc.notify_next_block(gm(words), space)
        else:
            asc.ib_set(gm(words), space, me, 0)


@pytest.mark.parametrize("how", ["ib", "notify"])
@pytest.mark.parametrize("card", SEPARATE)
def test_blocks_that_take_turns(card: str, how: str) -> None:
    def run(*drop: str) -> tuple[Run, Any]:
        x, words = np.zeros(N, np.int32), np.zeros(8 * (CORES + 1), np.int32)
        return asc.simulate(pass_on, x, words, how, drop, card=card, blocks=CORES), x

    right, x = run()
    assert is_clean(right)
    assert (x == CORES).all()
    wrong, _ = run("wait") if how == "ib" else run("wait", "set")
    assert wrong.hazards.of("race-raw", "race-waw")
    assert {race.tensor for race in wrong.hazards.of("race-raw", "race-war", "race-waw")} == {"x"}
    assert {line for _, *both in found(wrong) for line in both} <= {"t_load", "t_store"}


@asc.jit(kernel_type=VECTORS)
def polled(x: asc.GlobalAddress, y: asc.GlobalAddress, words: asc.GlobalAddress, load: asc.ConstExpr, drop: asc.ConstExpr):
    """Core 0 stores a tile by MTE3 and then a word; core 1 polls the word and loads the tile."""
    flags = Flags(drop)
    tile = ub(x.dtype, 0, N)
    if asc.get_block_idx() == 0:
        asc.duplicate(tile, 7.0, N)
        flags.order("V_MTE3")
        asc.data_copy(gm(x), tile, N)  # @k_store
        flags.order("MTE3_S")
        asc.write_gm_by_pass_dcache(words, 1)  # @k_word
        asc.data_sync_barrier(asc.MemDsbT.DDR)
    else:
        if "poll" not in drop and load == "bypass":
            while asc.read_gm_by_pass_dcache(words) != 1:  # @k_poll
                pass
        elif "poll" not in drop:
            word = gm(words)
            while word.get_value(0) != 1:  # @k_cached
                asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, word, asc.DcciDst.CACHELINE_OUT)
                asc.data_sync_barrier(asc.MemDsbT.DDR)
        asc.data_copy(tile, gm(x), N)  # @k_load
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y), tile, N)


@pytest.mark.parametrize("load", ["bypass", "cached"])
@pytest.mark.parametrize("card", SEPARATE)
def test_polling_a_word(card: str, load: str) -> None:
    y = np.zeros(N, np.float32)

    def run(*drop: str) -> Run:
        words = np.zeros(16, np.int32)
        return asc.simulate(polled, np.zeros(N, np.float32), y, words, load, drop, card=card, blocks=2)

    assert is_clean(run())
    assert (y == 7).all()
    race = {("race-raw", "k_load", "k_store")}
    assert found(run("poll")) == race
    # The word may arrive before the tile has: MTE3 is not done when the scalar unit stores.
    assert found(run("MTE3_S")) == race


@asc.jit(kernel_type=VECTORS)
def scalars_and_a_word(x: asc.GlobalAddress, y: asc.GlobalAddress, words: asc.GlobalAddress, drop: asc.ConstExpr):
    """The data are scalar stores that bypass the cache, published by a word."""
    flags = Flags()
    tile = ub(x.dtype, 0, 8)
    if asc.get_block_idx() == 0:
        asc.write_gm_by_pass_dcache(x, 5)  # @d_store
        if "dsb" not in drop:
            asc.data_sync_barrier(asc.MemDsbT.DDR)
        asc.write_gm_by_pass_dcache(words, 1)  # @d_word
        asc.data_sync_barrier(asc.MemDsbT.DDR)
    else:
        while asc.read_gm_by_pass_dcache(words) != 1:
            pass
        asc.data_copy(tile, gm(x), 8)  # @d_load
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y), tile, 8)


@pytest.mark.parametrize("card", SEPARATE)
def test_a_barrier_between_a_scalar_store_and_its_word(card: str) -> None:
    def run(*drop: str) -> Run:
        arrays = [np.zeros(16, np.int32) for _ in range(3)]
        return asc.simulate(scalars_and_a_word, *arrays, drop, card=card, blocks=2)

    assert is_clean(run())
    assert found(run("dsb")) == {("race-raw", "d_load", "d_store")}


# ---- atomics --------------------------------------------------------------------------------------------------------
@asc.jit(kernel_type=VECTORS)
def accumulate(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, extra: asc.ConstExpr, syncs: asc.ConstExpr):
    """All cores add their tile to y; core 0 clears it before (`extra` "clear") or reads it behind ("read")."""
    flags = Flags()
    me, tile, other = int(asc.get_block_idx()), ub(x.dtype, 0, N), ub(x.dtype, N, N)
    asc.data_copy(tile, gm(x, me * N), N)
    flags.order("MTE2_MTE3")
    if extra == "clear" and me == 0:
        asc.duplicate(other, 0.0, N)
        flags.order("V_MTE3")
        asc.data_copy(gm(y), other, N)  # @a_clear
    if "before" in syncs:
        asc.sync_all()
    asc.set_atomic_add(x.dtype)
    asc.data_copy(gm(y), tile, N)  # @a_add
    asc.set_atomic_none()
    if "behind" in syncs:
        asc.sync_all()
    if extra == "read" and me == 0:
        asc.data_copy(other, gm(y), N)  # @a_read
        flags.order("MTE2_MTE3", 1)
        asc.data_copy(gm(z), other, N)


@pytest.mark.parametrize("card", SEPARATE)
def test_cores_that_accumulate(card: str) -> None:
    y = np.zeros(N, np.float32)

    def run(extra: str, *syncs: str) -> Run:
        x, z = floats(CORES * N), np.zeros(N, np.float32)
        return asc.simulate(accumulate, x, y, z, extra, syncs, card=card, blocks=CORES)

    assert is_clean(run("none"))
    assert np.array_equal(y, floats(CORES * N).reshape(CORES, N).sum(0))
    # P35: clearing by one core and adding by all.
    assert is_clean(run("clear", "before"))
    wrong = run("clear")
    assert {kind for kind, *_ in found(wrong)} == {"race-waw"}
    assert {frozenset(both) for _, *both in found(wrong)} == {frozenset({"a_clear", "a_add"})}
    assert is_clean(run("read", "behind"))
    assert found(run("read")) == {("race-raw", "a_read", "a_add")}


@pytest.mark.parametrize("card", SEPARATE)
def test_different_operations_do_not_go_together(card: str) -> None:
    @asc.jit(kernel_type=VECTORS)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        tile = ub(x.dtype, 0, N)
        asc.data_copy(tile, gm(x), N)
        flags.order("MTE2_MTE3")
        if asc.get_block_idx() == 0:
            asc.set_atomic_add(x.dtype)
            asc.data_copy(gm(y), tile, N)  # @op_add
        else:
            asc.set_atomic_max(x.dtype)
            asc.data_copy(gm(y), tile, N)  # @op_max

    run = asc.simulate(kernel, floats(N), np.zeros(N, np.float32), card=card, blocks=2)
    assert {frozenset(both) for _, *both in found(run)} == {frozenset({"op_add", "op_max"})}
    assert {kind for kind, *_ in found(run)} == {"race-waw"}


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("own", [False, True])
def test_adding_to_what_another_core_reads(card: str, own: bool) -> None:
    """Core 0 reads a row; core 1 adds to it. That core 0 adds too, behind its read, hides nothing."""
    @asc.jit(kernel_type=VECTORS)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        me, tile, other = int(asc.get_block_idx()), ub(x.dtype, 0, N), ub(x.dtype, N, N)
        asc.data_copy(tile, gm(x, me * N), N)
        if me == 0:
            asc.data_copy(other, gm(y), N)  # @row_read
        flags.order("MTE2_MTE3")
        asc.set_atomic_add(x.dtype)
        if me == 0 and own:
            asc.data_copy(gm(y), tile, N)  # @row_own_add
        if me == 1:
            asc.data_copy(gm(y), tile, N)  # @row_add
        asc.set_atomic_none()
        if me == 0:
            asc.data_copy(gm(x, 2 * N), other, N)

    run = asc.simulate(kernel, floats(3 * N), np.zeros(N, np.float32), card=card, blocks=2)
    assert {frozenset(both) for _, *both in found(run)} == {frozenset({"row_read", "row_add"})}


# ---- one matrix, several cores --------------------------------------------------------------------------------------
ROWS = 16


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("overlap", [0, 1, 3])
def test_two_cores_store_interleaved_columns(card: str, overlap: int) -> None:
    @asc.jit(kernel_type=VECTORS)
    def kernel(y: asc.GlobalAddress):
        """Rows of 16 floats into a matrix of 32 columns; the second core begins at column 16 - overlap."""
        flags = Flags()
        me, tile = int(asc.get_block_idx()), ub(y.dtype, 0, ROWS * 16)
        asc.duplicate(tile, float(me + 1), ROWS * 16)
        flags.order("V_MTE3")
        asc.data_copy_pad(gm(y, me * (16 - overlap)), tile, asc.DataCopyExtParams(ROWS, 64, 0, 64, 0))  # @columns

    run = asc.simulate(kernel, np.zeros(ROWS * 32, np.float32), card=card, blocks=2)
    if not overlap:
        assert is_clean(run)
        return
    race = the_race(run)
    assert found(run) == {("race-waw", "columns", "columns")}
    assert (race.bytes, race.address, race.tensor) == (ROWS * overlap * 4, (16 - overlap) * 4, "y")
    assert race.at.core != race.other.core


@pytest.mark.parametrize("card", SEPARATE)
@pytest.mark.parametrize("overlap", [0, 1])
def test_two_cube_cores_store_interleaved_columns(card: str, overlap: int) -> None:
    @asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
    def kernel(y: asc.GlobalAddress):
        flags = Flags()
        l0c = ones_in_l0c(flags)
        me = int(asc.get_block_idx())
        asc.fixpipe(gm(y, me * (32 - overlap)), l0c, asc.FixpipeParamsV220(32, 32, 32, 64))  # @fix_columns

    y = np.zeros(32 * 64, np.float32)
    run = asc.simulate(kernel, y, card=card, blocks=2)
    if not overlap:
        assert is_clean(run)
        assert (y == 16).all()
        return
    assert found(run) == {("race-waw", "fix_columns", "fix_columns")}
    assert the_race(run).bytes == 32 * 4


# ---- kernel start and end, cores that share nothing -----------------------------------------------------------------
@pytest.mark.parametrize("card", SEPARATE)
def test_local_buffers_of_two_cores_have_nothing_in_common(card: str) -> None:
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress):
        flags = Flags()
        tile, at = ub(x.dtype, 0, N), int(asc.get_block_idx()) * N
        asc.data_copy(tile, gm(x), N)  # all read the same
        flags.order("MTE2_MTE3")
        asc.data_copy(gm(y, at), tile, N)

    assert is_clean(asc.simulate(kernel, floats(N), np.zeros(8 * N, np.float32), card=card, blocks=8))


@pytest.mark.parametrize("card", SEPARATE)
def test_blocks_in_turn_are_not_ordered_with_blocks_elsewhere(card: str) -> None:
    """Two waves of blocks: the second wave reads what the first one stored, but nobody waits for all of the first."""
    @asc.jit(kernel_type=AIV)
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, first: asc.ConstExpr[int]):
        flags = Flags()
        me, tile = int(asc.get_block_idx()), ub(x.dtype, 0, 8)
        if me < first:
            asc.duplicate(tile, 1.0, 8)
            flags.order("V_MTE3")
            asc.data_copy(gm(x, me * 8), tile, 8)  # @wave_store
        else:
            asc.data_copy(tile, gm(x, (me * 7 % first) * 8), 8)  # @wave_load
            flags.order("MTE2_MTE3")
            asc.data_copy(gm(y, me * 8), tile, 8)

    first = load_card(card).vectors
    run = asc.simulate(kernel, np.zeros(8 * first, np.float32), np.zeros(16 * first, np.float32), first, card=card,
                       blocks=2 * first)  # fmt: skip
    assert found(run) == {("race-raw", "wave_load", "wave_store")}
    assert pairs(run) == {frozenset({"wave_load", "wave_store"})}
