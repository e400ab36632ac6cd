"""No false alarm on right programs: every route of the round trips through the engine, and scenarios with sizes and tails.

Scenarios as they come, and the kinds of their wrong forms, are in test_scenarios.py; here are the lines that wrong forms name.
"""

from __future__ import annotations

from linecache import getline
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.dtypes import DataType
from aicore_sim.hazards.model import Hazard, Party
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import current
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario
from tests import test_round_trips as trips
from tests.hazards.marked import AIC, ALL, SEPARATE, Flags, found, local

_L1 = 64 * 1024
"""Bytes of either operand in L1; half of it in L0."""


# ---- round trips ----------------------------------------------------------------------------------------------------
class Between:
    """Orders MTE1 behind MTE2 in front of the first load into L0 after loads into L1."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.loaded = False

    def __call__(self, entry: Any) -> None:
        if entry.op is None:
            return
        if entry.pipe is Pipe.MTE1 and self.loaded:
            self.loaded = False
            self.flags.order("MTE2_MTE1")
        self.loaded = self.loaded or entry.pipe is Pipe.MTE2


@asc.jit(kernel_type=AIC)
def product(
    a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, p: asc.ConstExpr, way_a: asc.ConstExpr,
    way_b: asc.ConstExpr, drop: asc.ConstExpr,
) -> None:  # fmt: skip
    """C = A x B by two routes of tests/test_round_trips.py, which know no flags. A and B come as bytes."""
    flags, dtype = Flags((drop,)), DataType(p.dtype)
    held = _L1 * 8 // dtype.bits
    tensors = [asc.GlobalTensor() for _ in range(3)]
    for tensor, address, kind in zip(tensors, (a, b, c), (dtype, dtype, c.dtype), strict=True):
        tensor.set_global_buffer(asc.GlobalAddress(address.buffer, kind, address.offset))
    a1, b1 = local(asc.TPosition.A1, dtype, 0, held), local(asc.TPosition.B1, dtype, _L1, held)
    a2, b2 = local(asc.TPosition.A2, dtype, 0, held // 2), local(asc.TPosition.B2, dtype, 0, held // 2)
    co = local(asc.TPosition.CO1, c.dtype, 0, 16 * 1024)
    recorder = current()
    recorder.before = Between(flags)
    of_a, of_b = way_a(p, tensors[0], a1, a2), way_b(p, tensors[1], b1, b2)
    recorder.before = None
    flags.order("MTE1_M")
    align = {"k_direction_align": True} if of_a.k_align and p.arch == 2201 else {}
    shape = asc.MmadParams(of_a.side, of_b.side, p.k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True, **align)
    asc.mmad(co, a2, b2, shape)  # @mmad
    flags.order("M_FIX")
    params = asc.FixpipeParamsArch3510 if p.arch == 3510 else asc.FixpipeParamsV220
    asc.fixpipe(tensors[2], co, params(p.n, p.m, trips.up(of_a.side, 16), p.n))  # @fixpipe


def round_trip(card: str, dtype: str, way_a: Any, way_b: Any, sizes: tuple[int, int, int], drop: str = "") -> tuple[Run, bool]:
    """The run, and whether its C is right."""
    m, n, k = sizes
    p = trips.Problem(card, dtype, m, n, k)
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (k, n))
    sides = [trips._in_gm(p, a.T if way_a.__name__.startswith("at_") else a, way_a),
             trips._in_gm(p, b.T if way_b.__name__.startswith("bt_") else b, way_b)]  # fmt: skip
    c = np.zeros((m, n), np.int32 if dtype in ("int8", "int4b") else np.float32)
    run = asc.simulate(product, *(np.ascontiguousarray(side).reshape(-1).view(np.uint8) for side in sides), c, p, way_a, way_b,
                       drop, card=card)  # fmt: skip
    return run, bool(np.array_equal(c, a @ b))


@pytest.mark.parametrize(("card", "dtype", "way_a", "way_b", "sizes"), trips._runs())
def test_round_trips_are_clean(card: str, dtype: str, way_a: Any, way_b: Any, sizes: tuple[int, int, int]) -> None:
    run, right = round_trip(card, dtype, way_a, way_b, sizes)
    assert right
    asc.assert_clean(run)


@pytest.mark.parametrize("drop", ["MTE2_MTE1", "MTE1_M", "M_FIX"])
@pytest.mark.parametrize("card", ALL)
def test_round_trips_without_one_of_their_flags_are_not(card: str, drop: str) -> None:
    way_a, way_b = trips.routes_of_a(card, "half")[0], trips.routes_of_b(card, "half")[0]
    run, _ = round_trip(card, "half", way_a, way_b, trips.TAILS, drop)
    races = run.hazards.of("race-raw", "race-war", "race-waw")
    assert {(h.kind, h.other and h.other.pipe, h.at.pipe) for h in races} == {("race-raw", *drop.split("_"))}
    if drop == "M_FIX":
        assert found(run) == {("race-raw", "fixpipe", "mmad")}


# ---- scenarios with other sizes -------------------------------------------------------------------------------------
def run_of(name: str, card: str, words: str, data: bool = True) -> Run:
    scenario = load_scenario(name)
    return scenario.run(load_card(card), scenario.parse(words.split()), Options(data=data))[0]


EVERYWHERE = [
    ("matmul", "M=500 N=300 K=200 double_buffer=false"), ("matmul", "M=100 N=1000 K=90 blocks=1"),
    ("matmul", "M=33 N=17 K=1000"), ("add", "rows=33 cols=515"), ("add", "rows=33 cols=515 style=queue"),
    ("add", "rows=33 cols=515 double_buffer=false"), ("add", "rows=7 cols=4099 blocks=1 bank_offset=true"),
    ("double_buffer_add", "tile=64 tiles=7 copies=1"), ("pingpong_gemm", "m=32 n=48 k=16 slabs=3 tiles=2"),
    ("same_movement", "K=96 N=160"), ("flag_deadlock", "form=right cause=unset n=512 tiles=9"),
]  # fmt: skip
SEVERAL_CORES = [
    ("mix_gemm_add", "m=96 n=80 k=48 tiles=7 slots=3 blocks=4"), ("mix_gemm_vector", "slots=1 blocks=2"),
    ("mix_gemm_vector", "m=32 n=32 tiles=5 slots=8 blocks=2"), ("two_launches", "n=256 cores=5 reader=scalar"),
    ("dcache_flags", "cores=5 rounds=4 n=48"), ("false_sharing", "pitch=128 cores=7"),
    ("sync_all_missing", "drop=false cores=16"), ("flag_deadlock", "form=right cause=cores"),
]  # fmt: skip
ON_350 = [
    ("nddma_moves", "move=transpose rows=33 cols=47"), ("mix_gemm_vector", "way=ub slots=1 blocks=2"),
    ("stale_cache", "rounds=5 cores=7 n=128"), ("two_launches", "reader=nddma cores=6"), ("cumsum_inplace", "n=256 cores=3"),
]  # fmt: skip


@pytest.mark.parametrize(("card", "name", "words"), [
    *((card, *one) for one in EVERYWHERE for card in ALL), *((card, *one) for one in SEVERAL_CORES for card in SEPARATE),
    *(("atlas_350", *one) for one in ON_350),
])  # fmt: skip
def test_other_sizes_and_tails_are_clean(card: str, name: str, words: str) -> None:
    run = run_of(name, card, words)
    assert run.correct is True
    asc.assert_clean(run)


WITHOUT_DATA = [
    *((card, name, words) for card in ALL for name, words in (
        ("matmul", ""), ("matmul", "M=500 N=300 K=200"), ("add", "rows=33 cols=515 style=queue"), ("double_buffer_add", ""),
        ("pingpong_gemm", ""), ("flag_deadlock", "form=right"), ("load_transpose", ""))),
    *((card, name, words) for card in SEPARATE for name, words in (
        ("mix_gemm_add", ""), ("mix_gemm_vector", ""), ("false_sharing", ""), ("sync_all_missing", "drop=false"),
        ("dcache_flags", ""))),
    *(("atlas_350", name, words) for name, words in (
        ("stale_cache", ""), ("cumsum_inplace", "n=256"), ("two_launches", ""), ("nddma_moves", ""), ("nddma_read_only", ""),
        ("mix_gemm_vector", "way=ub"))),
]  # fmt: skip


@pytest.mark.parametrize(("card", "name", "words"), WITHOUT_DATA)
def test_runs_without_data_are_clean(card: str, name: str, words: str) -> None:
    asc.assert_clean(run_of(name, card, words, data=False))


# ---- the lines of wrong forms ---------------------------------------------------------------------------------------
_LOAD, _STORE, _ADD = ("asc.data_copy(x_ub[k]",), ("asc.data_copy(z_gm[",), ("asc.add(z_ub[k]",)
_TO_L1, _TO_L0 = ("data_copy(dst, src", "load_data(dst, src"), ("asc.load_data(a2", "asc.load_data(b2")
_MMAD, _FIXPIPE, _READ = ("asc.mmad(",), ("asc.fixpipe(",), ("result.get_value(",)
_COUNT = ("mine.set_value(",)
LINES = [
    ("double_buffer_add", "drop=MTE2_V", ALL, _ADD, _LOAD), ("double_buffer_add", "drop=V_MTE2", ALL, _LOAD, _ADD),
    ("double_buffer_add", "drop=V_MTE3", ALL, _STORE, _ADD), ("double_buffer_add", "drop=MTE3_V", ALL, _ADD, _STORE),
    ("pingpong_gemm", "drop=MTE2_MTE1", ALL, _TO_L0, _TO_L1), ("pingpong_gemm", "drop=MTE1_MTE2", ALL, _TO_L1, _TO_L0),
    ("pingpong_gemm", "drop=MTE1_M", ALL, _MMAD, _TO_L0), ("pingpong_gemm", "drop=M_MTE1", ALL, _TO_L0, _MMAD),
    ("pingpong_gemm", "drop=M_FIX", ALL, _FIXPIPE, _MMAD), ("pingpong_gemm", "drop=FIX_M", ALL, _MMAD, _FIXPIPE),
    ("mix_gemm_vector", "drop=ready", SEPARATE, ("asc.data_copy(",), _FIXPIPE),
    ("mix_gemm_vector", "drop=free", SEPARATE, _FIXPIPE, ("asc.data_copy(",)),
    ("mix_gemm_vector", "drop=ready way=ub", ("atlas_350",), ("asc.mul(",), _FIXPIPE),
    ("mix_gemm_vector", "drop=free way=ub", ("atlas_350",), _FIXPIPE, ("asc.add(",)),
    ("sync_all_missing", "drop=true", SEPARATE, ("number, p.tile)",), ("zeros, p.tile)",)),
    ("dcache_flags", "drop=clean", SEPARATE, _READ, ("result.set_value(",)),
    ("dcache_flags", "drop=dsb", SEPARATE, _READ, ("result.set_value(",)),
    ("dcache_flags", "drop=invalidate", SEPARATE, _READ, ("result.set_value(",)),
    ("false_sharing", "pitch=60 cores=3", SEPARATE, _COUNT, _COUNT),
]  # fmt: skip


def the_cause(run: Run) -> Hazard:
    """The one finding; undefined bytes are what comes of a read too early."""
    (cause,) = (h for h in run.hazards if h.severity != "note" and h.kind != "undefined-read")
    return cause


def stands_in(party: Party | None, texts: tuple[str, ...]) -> bool:
    assert party is not None
    return any(text in getline(party.file, party.line) for text in texts)


@pytest.mark.parametrize(("card", "name", "words", "at", "other"), [
    (card, name, words, at, other) for name, words, cards, at, other in LINES for card in cards
])  # fmt: skip
def test_wrong_forms_name_both_lines(card: str, name: str, words: str, at: tuple[str, ...], other: tuple[str, ...]) -> None:
    cause = the_cause(run_of(name, card, words))
    assert stands_in(cause.at, at)
    assert stands_in(cause.other, other)
    if name != "dcache_flags":  # without data its cores meet in SyncAll, and nothing is read
        blind = the_cause(run_of(name, card, words, data=False))
        assert (blind.kind, blind.at.line, blind.other and blind.other.line) == (
            cause.kind, cause.at.line, cause.other and cause.other.line,
        )  # fmt: skip
