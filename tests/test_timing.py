"""Prices of instructions, worked out by hand from the tables of spec hardware.md (sections in brackets)."""

from __future__ import annotations

import pytest

from aicore_sim.cards import load_card
from aicore_sim.errors import UnsupportedError
from aicore_sim.instructions.base import (
    CostKey,
    CubeWork,
    FixWork,
    GmTraffic,
    OnChip,
    Op,
    Pipe,
    ScalarWork,
    VectorWork,
)
from aicore_sim.timing import Timing, ticks

ULP = 1 / 256
"""Costs are rounded to a tick of 1/256 cycle."""


def timing(card: str, **overrides: object) -> Timing:
    return Timing(load_card(card, {key.replace("__", "."): value for key, value in overrides.items()}))


def price(card: str, cost: CostKey, accumulates: bool = False, **overrides: object) -> tuple[float, float]:
    """(cycles that hold the pipe, cycles until an isolated one is complete)."""
    op = Op("Test", Pipe.V, cost, accumulates=accumulates)
    timing(card, **overrides).price(op)
    assert op.priced
    return op.occupy / 256, (op.occupy + op.latency) / 256


@pytest.mark.parametrize(("cycles", "expected"), [(0, 0), (1, 256), (3.1, 794), (1 / 512, 0), (0.003, 1)])
def test_ticks_are_whole_parts_of_a_cycle(cycles: float, expected: int) -> None:
    assert ticks(cycles) == expected


# ---- on-chip paths (4) ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "path", "api", "nbytes", "streamed", "isolated"), [
    ("atlas_a2", "L1-L0A", "LoadData2D", 16384, 64 + 1, 64 + 28),
    ("atlas_a2", "L1-L0B", "LoadData2D", 16384, 128 + 1, 128 + 28),
    ("atlas_a2", "L1-L0A", "LoadData2D", 512, 2 + 1, 2 + 28),
    ("atlas_a2", "L1-L0B", "LoadDataWithTranspose", 16384, 128 + 1, 128 + 28),
    ("atlas_a2", "L1-BT", "DataCopy", 1024, 32, 32 + 20),
    ("atlas_a2", "L1-FB", "DataCopy", 1024, 32 + 15, 32 + 20),
    ("atlas_350", "L1-L0A", "LoadData2DV2", 16384, 64, 64 + 30),
    ("atlas_350", "L1-L0B", "LoadData2DV2", 16384, 64, 64 + 30),
    ("atlas_350", "L1-L0A", "LoadData2D", 16384, 64 + 4, 64 + 30),
    ("atlas_350", "UB-L1", "DataCopy", 4096, 32, 32 + 30),
])  # fmt: skip
def test_an_isolated_copy_takes_latency_plus_bytes_over_rate(
    card: str, path: str, api: str, nbytes: int, streamed: float, isolated: float
) -> None:
    assert price(card, OnChip(path, api, nbytes)) == (streamed, isolated)


@pytest.mark.parametrize(("card", "side", "stride", "rows", "rate"), [
    # stride 1, one row: the path's own rate
    ("atlas_a2", "A", 1, 1, 256), ("atlas_a2", "B", 1, 1, 128), ("atlas_350", "B", 1, 1, 256),
    ("atlas_a2", "A", 1, 3, 512 / 5), ("atlas_a2", "B", 1, 3, 512 / 7), ("atlas_350", "B", 1, 3, 512 / 5),
    ("atlas_a2", "A", 2, 1, 128), ("atlas_a2", "B", 2, 1, 512 / 6), ("atlas_350", "A", 4, 1, 64),
    ("atlas_a2", "A", 4, 5, 512 / 13), ("atlas_a2", "B", 4, 5, 512 / 15), ("atlas_350", "B", 8, 1, 32),
    # the floors: 32, and 512/18 for L0B on 2201
    ("atlas_a2", "A", 8, 9, 32), ("atlas_a2", "B", 8, 9, 512 / 18), ("atlas_350", "A", 8, 255, 32),
    ("atlas_a2", "A", 3, 1, 32), ("atlas_a2", "B", 3, 1, 512 / 18), ("atlas_350", "B", 63, 1, 32),
])  # fmt: skip
def test_img2col_slows_down_with_stride_and_kernel_rows(
    card: str, side: str, stride: int, rows: int, rate: float
) -> None:
    nbytes = 32768
    streamed, isolated = price(card, OnChip(f"L1-L0{side}", "LoadData3DV2", nbytes, (stride, rows)))
    head = 1 if card == "atlas_a2" else 0  # measured on A2; an isolated pair of loads leaves no room for one on 350
    assert streamed == pytest.approx(head + nbytes / rate, abs=0.01)
    assert isolated == pytest.approx(50 + nbytes / rate, abs=0.01)


# ---- Mmad (6) -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "dtype", "m", "n", "k", "steps"), [
    ("atlas_a2", "half", 16, 16, 16, 1), ("atlas_a2", "half", 32, 32, 32, 8), ("atlas_a2", "half", 48, 48, 48, 27),
    ("atlas_a2", "half", 64, 64, 64, 64), ("atlas_a2", "half", 96, 96, 96, 216), ("atlas_a2", "half", 128, 128, 128, 512),
    ("atlas_a2", "half", 128, 256, 64, 512), ("atlas_a2", "half", 128, 128, 16, 64),
    # sizes are rounded up to the cube's: 17 rows are 32, 33 of k are 48
    ("atlas_a2", "half", 17, 1, 33, 2 * 3),
    ("atlas_a2", "int8", 64, 64, 64, 32), ("atlas_a2", "int8", 16, 16, 33, 2),
    ("atlas_a2", "int4", 64, 64, 64, 16),
    ("atlas_a2", "float", 32, 32, 8, 8), ("atlas_a2", "float", 16, 16, 9, 4), ("atlas_a2", "hf32", 32, 32, 8, 4),
    ("atlas_350", "half", 128, 128, 128, 512), ("atlas_350", "bf16", 64, 64, 64, 64), ("atlas_350", "int8", 64, 64, 64, 32),
    ("atlas_350", "float", 32, 32, 8, 32), ("atlas_350", "mxfp4", 64, 64, 64, 16),
])  # fmt: skip
def test_steps_of_the_cube(card: str, dtype: str, m: int, n: int, k: int, steps: int) -> None:
    assert timing(card).cube_steps(dtype, m, n, k) == steps


def test_a_stream_of_mmads_runs_at_its_steps_but_at_least_at_the_issue_limit() -> None:
    assert price("atlas_a2", CubeWork("half", 16, 16, 16))[0] == 3
    assert price("atlas_a2", CubeWork("half", 32, 32, 32))[0] == 8


@pytest.mark.parametrize(("card", "over", "onto"), [("atlas_a2", 62, 9), ("atlas_350", 92, 5)])
def test_an_accumulating_mmad_holds_the_pipe_longer_but_takes_no_longer_by_itself(
    card: str, over: int, onto: int
) -> None:
    work = CubeWork("half", 64, 64, 64)
    assert price(card, work) == (64, 64 + over)
    assert price(card, work, accumulates=True) == (64 + onto, 64 + over)


def test_eight_accumulating_mmads_as_measured_on_a2() -> None:
    # M128 N256 K64, half: 4209 and 4225 cycles measured; M128 N128: 2172.
    for n, measured in ((256, 4217), (128, 2172)):
        first, _ = price("atlas_a2", CubeWork("half", 128, n, 64))
        streamed, isolated = price("atlas_a2", CubeWork("half", 128, n, 64), accumulates=True)
        assert first + 6 * streamed + isolated == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize(("card", "dtype"), [("atlas_a2", "fp8"), ("atlas_350", "int4"), ("atlas_a2", "nonsense")])
def test_a_type_the_cube_does_not_have(card: str, dtype: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        timing(card).cube_steps(dtype, 16, 16, 16)
    assert (caught.value.field, caught.value.value, caught.value.card) == ("dtype", dtype, card)


# ---- Fixpipe (7) ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "path", "out", "nbytes", "streamed", "latency"), [
    ("atlas_a2", "L0C-L1", "half", 8192, 64, 20),  # 64 elements a cycle
    ("atlas_a2", "L0C-L1", "int8", 4096, 64, 20),
    ("atlas_350", "L0C-L1", "float", 8192, 64, 26),
    ("atlas_350", "L0C-UB", "half", 8192, 64, 26),
    ("atlas_350", "L0C-UB", "int8", 4096, 64, 26),
    ("atlas_350", "L0C-L1", "half_strided", 8192, 256, 26),
])  # fmt: skip
def test_fixpipe_by_destination_type(
    card: str, path: str, out: str, nbytes: int, streamed: float, latency: float
) -> None:
    assert price(card, FixWork(path, out, nbytes)) == (streamed, streamed + latency)


# ---- vector unit (8) ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "op", "bits", "repeats", "cycles"), [
    ("atlas_a2", "add", 32, 1, 3.1),  # the least an instruction takes
    ("atlas_a2", "add", 32, 64, 64), ("atlas_a2", "add", 16, 64, 64),
    ("atlas_a2", "exp", 32, 10, 20), ("atlas_a2", "exp", 16, 10, 40),  # 32 elements a cycle, whatever their width
    ("atlas_a2", "cast", 32, 10, 10), ("atlas_a2", "cast", 64, 10, 10),
    ("atlas_350", "add", 32, 64, 64), ("atlas_350", "exp", 32, 10, 40), ("atlas_350", "sqrt", 16, 10, 80),
])  # fmt: skip
def test_vector_work_by_repeats(card: str, op: str, bits: int, repeats: int, cycles: float) -> None:
    streamed, isolated = price(card, VectorWork(op, bits, repeats * 2048 // bits, repeats))
    assert streamed == pytest.approx(cycles, abs=ULP)
    assert isolated == pytest.approx(cycles + (33 if card == "atlas_350" else 24), abs=ULP)


# ---- GM paths (11) --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "path", "issue", "latency"), [
    ("atlas_a2", "GM-UB", 20.6, 200), ("atlas_a2", "UB-GM", 20.6, 167), ("atlas_350", "GM-L1", 39.4, 200),
])  # fmt: skip
def test_a_gm_copy_is_priced_without_its_transfer(card: str, path: str, issue: float, latency: float) -> None:
    # The transfer itself depends on addresses and on the other cores: the engine's part.
    held, isolated = price(card, GmTraffic(path, 65536, 1, path.startswith("GM")))
    assert held == pytest.approx(issue, abs=ULP)
    assert isolated == pytest.approx(issue + latency, abs=ULP)


@pytest.mark.parametrize(("card", "cost", "port", "row", "cycles"), [
    ("atlas_a2", GmTraffic("GM-UB", 65536, 1, True), 128, 0, 512),
    ("atlas_a2", GmTraffic("UB-GM", 65536, 1, False), 64, 0, 1024),
    ("atlas_a2", GmTraffic("GM-L1", 16600, 1, True), 166, 0, 100),
    ("atlas_350", GmTraffic("UB-GM", 4200, 1, False), 42, 0, 100),
    ("atlas_350", GmTraffic("GM-UB", 4096, 64, True), 128, 0, 32),  # rows cost nothing of their own
    ("atlas_350", GmTraffic("GM-UB", 4096, 64, True), 128, 1.5, 32 + 96),
    ("atlas_a2", GmTraffic("L0C-GM", 6850, 16, False, "nz2nd", "half"), 500, 0, 100),  # 34 elements a cycle
    ("atlas_a2", GmTraffic("L0C-GM", 6850, 16, False, "nz2nd", "half"), 34.25, 0, 200),  # unless the port is slower
    ("atlas_350", GmTraffic("L0C-GM", 3700, 16, False, "nz2nd", "int8"), 500, 0, 100),  # 37 elements of 1 B
])  # fmt: skip
def test_the_private_time_of_a_transfer(card: str, cost: GmTraffic, port: float, row: float, cycles: float) -> None:
    own = Timing(load_card(card, {f"gm.{cost.path}.port_rate": port, f"gm.{cost.path}.row": row}))
    assert own.gm_private(cost, cost.rows) / 256 == pytest.approx(cycles, abs=0.01)


@pytest.mark.parametrize(("card", "nbytes", "rows", "measured"), [
    ("atlas_a2", 8192, 64, 257), ("atlas_a2", 24576, 192, 690), ("atlas_350", 8192, 64, 377), ("atlas_350", 32768, 256, 672),
])  # fmt: skip
def test_nd2nz_on_one_core_as_measured(card: str, nbytes: int, rows: int, measured: float) -> None:
    # Rows of 128 B; cycles of MTE2 for each tile of the single-core matmul (11.8), which loads tiles of A and B in pairs.
    # What msprof counts goes on until a pair is complete; on the 950 one of the two misses L2.
    t = timing(card)
    path = t.card.value
    tile = t.gm_private(GmTraffic("GM-L1", nbytes, rows, True, "nd2nz"), rows) / 256
    late = path("gm.GM-L1.latency") + (path("gm.GM-L1.miss_latency") if card == "atlas_350" else 0)
    # A price per row and a rate that also serve 24 cores cannot meet both tiles of a card: the small one of A2 is 16 % over.
    assert tile + late / 2 == pytest.approx(measured, rel=0.17)


NZ = {"gm.GM-L1.port_rate": 128, "gm.GM-L1.nd2nz_head": 40, "gm.GM-L1.nd2nz_row": 2}
NZ_ROWS = GmTraffic("GM-L1", 8192, 64, True, "nd2nz")
"""64 rows of 128 B."""


def test_nd2nz_has_a_head_and_a_price_of_each_row() -> None:
    t = Timing(load_card("atlas_a2", NZ))
    assert t.gm_private(NZ_ROWS, 64) == (40 + 64 * 2 + 64) * 256


def test_rows_off_the_grain_are_slower_by_their_share_of_the_bytes() -> None:
    # 16 of 64 rows start off 32 B: 2048 B at 16 B a cycle instead of 128, 128 cycles instead of 16.
    t = Timing(load_card("atlas_a2", {**NZ, "gm.GM-L1.nd2nz_unaligned_rate": 16}))
    assert t.gm_private(NZ_ROWS, 64, uneven=16) == (40 + 64 * 2 + 48 + 128) * 256
    assert t.gm_private(NZ_ROWS, 64, uneven=64) == (40 + 64 * 2 + 512) * 256
    assert t.gm_private(NZ_ROWS, 64) == (40 + 64 * 2 + 64) * 256
    # A plain copy of the same rows does not care, nor does a card without such a rate.
    plain = GmTraffic("GM-L1", 8192, 64, True)
    assert t.gm_private(plain, 64, uneven=64) == t.gm_private(plain, 64)
    other = Timing(load_card("atlas_350", NZ))
    assert other.gm_private(NZ_ROWS, 64, uneven=64) == (40 + 64 * 2 + 64) * 256


def test_a_port_slower_than_the_rate_of_rows_off_the_grain_stays_the_limit() -> None:
    t = Timing(load_card("atlas_a2", {**NZ, "gm.GM-L1.port_rate": 8, "gm.GM-L1.nd2nz_unaligned_rate": 16}))
    assert t.gm_private(NZ_ROWS, 64, uneven=64) == t.gm_private(NZ_ROWS, 64) == (40 + 64 * 2 + 1024) * 256


@pytest.mark.parametrize(("path", "nbytes", "more"), [("L1-L0A", 16384, 16), ("L1-L0B", 16384, 32)])
def test_a_load_beside_a_filling_l1_pays_for_its_bytes_not_for_its_head(path: str, nbytes: int, more: int) -> None:
    # A2: 256 and 128 B a cycle; at 80 % of the rate the 64 and 128 cycles of the bytes take a quarter more.
    op = Op("Test", Pipe.MTE1, OnChip(path, "LoadData2D", nbytes))
    timing("atlas_a2", l1__read_share=0.8).price(op)
    assert op.beside == more * 256
    timing("atlas_a2", l1__read_share=1).price(op)
    assert op.beside == 0


def test_nddma_gathers_at_its_rate_or_at_one_run_a_cycle() -> None:
    t = timing("atlas_350")
    assert t.gm_private(GmTraffic("GM-UB", 4096, 4, True, "nddma"), 4) == 128 * 256  # 32 B a cycle
    assert t.gm_private(GmTraffic("GM-UB", 4096, 1024, True, "nddma"), 1024) == 1024 * 256  # words from everywhere
    slow = timing("atlas_350", nddma__element_rate=0.5)
    assert slow.gm_private(GmTraffic("GM-UB", 4096, 1024, True, "nddma_elements"), 1024) == 2048 * 256
    assert slow.gm_private(GmTraffic("GM-UB", 4096, 1024, True, "nddma"), 1024) == 1024 * 256  # rows, however short


def test_no_transfer_takes_no_time_at_all() -> None:
    assert timing("atlas_350").gm_private(GmTraffic("GM-UB", 0, 1, True), 1) == 1


# ---- the rest -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("work", "key"), [
    ("local_access", "scalar.local_access"), ("dcache_access", "scalar.dcache_hit"), ("nddma_dci", "nddma.dci"),
])  # fmt: skip
def test_scalar_work_is_priced_by_the_card(work: str, key: str) -> None:
    assert price("atlas_350", ScalarWork(work), **{key.replace(".", "__"): 17}) == (17, 17)


def test_scalar_work_that_the_card_does_not_price_takes_an_issue() -> None:
    assert price("atlas_350", ScalarWork("something"), scalar__issue=9) == (9, 9)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"])
def test_every_card_has_the_numbers_of_the_engine(card: str) -> None:
    t = timing(card)
    for cycles in (t.issue, t.set_flag, t.wait_flag, t.barrier, t.barrier_all, t.core_start, t.dcache_miss):
        assert cycles > 0
    assert (t.cross_set > 0) is (card != "atlas_200i")
