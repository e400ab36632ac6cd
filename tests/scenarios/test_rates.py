"""The scenarios that ask what one thing costs: right results, and times reckoned by hand from card numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_sim.cards import load_card
from aicore_sim.errors import AiCoreError, CapacityError, ConfigError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.scenario import load_scenario
from tests.scenarios.running import CARDS, EVEN, cycles, rows, scenario

INTO_L1: dict[str, Any] = {
    "scalar.issue": 3, "sync.barrier_all": 4, "gm.GM-L1.port_rate": 128, "gm.GM-L1.issue": 20, "gm.GM-L1.latency": 200,
    "gm.GM-L1.miss_latency": 0, "gm.GM-L1.nd2nz_head": 100, "gm.GM-L1.nd2nz_row": 1,
}  # fmt: skip
TWENTY_COPIES: dict[str, Any] = {"n": 20, "rows": 8, "row_bytes": 512}
"""4 KB each: 32 cycles at 128 B/cycle."""


# ---- copies ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["GM-UB", "GM-L1"])
@pytest.mark.parametrize("card", CARDS)
def test_copies_run_on_every_card_that_has_the_path(card: str, path: str) -> None:
    if (card, path) == ("atlas_200i", "GM-L1"):
        with pytest.raises(UnsupportedError, match="not offered on this card"):
            scenario("copies", card, path=path)
        return
    run, _ = scenario("copies", card, path=path)
    assert run.correct is (True if path == "GM-UB" else None)
    assert not run.warnings
    assert len(rows(run, Pipe.MTE2)) == 16


def test_a_stream_of_copies_pays_its_bytes_and_one_latency() -> None:
    run, _ = scenario("copies", "atlas_a3", False, EVEN, **TWENTY_COPIES)
    assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.MTE2)])) == 32)
    assert run.metrics["per_copy_cycles"] == (20 * 32 + 200) / 20
    assert run.metrics["gbps"] == pytest.approx(4096 / run.metrics["per_copy_ns"])


def test_with_barriers_every_copy_pays_the_latency() -> None:
    # 32 + 200, the barrier 4, the next issue 3.
    run, _ = scenario("copies", "atlas_a3", False, EVEN, barrier=True, **TWENTY_COPIES)
    assert run.metrics["per_copy_cycles"] == (19 * 239 + 232) / 20


def test_nd2nz_pays_its_head_and_rows() -> None:
    run, _ = scenario("copies", "atlas_350", False, INTO_L1, path="GM-L1", **TWENTY_COPIES)
    assert run.metrics["per_copy_cycles"] == (20 * (32 + 100 + 8) + 200) / 20


@pytest.mark.parametrize("path", ["GM-UB", "GM-L1"])
def test_warm_copies_hit_l2_and_cold_ones_do_not(path: str) -> None:
    overrides = {**EVEN, **INTO_L1, "gm.GM-UB.miss_latency": 300, "gm.GM-L1.miss_latency": 300}
    found = {}
    for warm in (False, True):
        run, _ = scenario("copies", "atlas_350", False, overrides, path=path, barrier=True, warm=warm, **TWENTY_COPIES)
        found[warm] = run.metrics
    assert [found[warm]["l2_hit_share"] for warm in (False, True)] == [0.0, 1.0]
    assert found[False]["per_copy_cycles"] == found[True]["per_copy_cycles"] + 300


@settings(max_examples=50)
@given(n=st.integers(1, 20), high=st.integers(1, 5), half_row=st.integers(1, 20), more=st.integers(0, 60))
def test_no_byte_is_read_twice(n: int, high: int, half_row: int, more: int) -> None:
    module: Any = load_scenario("copies").module
    p = module.Parameters(n=n, rows=high, row_bytes=2 * half_row)
    pitch = 2 * (half_row + more)
    starts = np.array(module.tile_starts(p, pitch))
    every = starts[:, None, None] + np.arange(high)[:, None] * pitch + np.arange(2 * half_row)
    assert np.unique(every).size == every.size


@settings(max_examples=15)
@given(n=st.integers(1, 9), high=st.integers(1, 9), half_row=st.integers(1, 70), more=st.integers(0, 200),
       card=st.sampled_from(CARDS), barrier=st.booleans(), warm=st.booleans())  # fmt: skip
def test_the_last_tile_arrives(n: int, high: int, half_row: int, more: int, card: str, barrier: bool, warm: bool) -> None:
    run, job = scenario("copies", card, n=n, rows=high, row_bytes=2 * half_row, row_pitch=2 * (half_row + more),
                        barrier=barrier, warm=warm)  # fmt: skip
    assert run.correct is True
    job.args[1][high - 1, half_row - 1] += 1
    assert job.expect is not None and not job.expect(job.args)


def test_more_copies_than_ub_holds_are_compared_only_with_barriers() -> None:
    assert [scenario("copies", n=40, barrier=barrier)[0].correct for barrier in (False, True)] == [None, True]


@pytest.mark.parametrize(
    ("field", "given"),
    [("n", {"n": 0}), ("rows", {"rows": 0}), ("row_bytes", {"row_bytes": 0}), ("row_bytes", {"row_bytes": 33}),
     ("row_pitch", {"row_pitch": 513}), ("row_pitch", {"row_pitch": 256})],
)  # fmt: skip
def test_copies_check_their_parameters(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("copies", **given)
    assert caught.value.field == field


def test_a_tile_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(AiCoreError):
        scenario("copies", rows=600, row_bytes=512)


# ---- NDDMA ----------------------------------------------------------------------------------------------------------
ROUND: dict[str, Any] = {"gm.GM-UB.latency": 200, "gm.GM-UB.miss_latency": 0, "gm.GM-UB.issue": 1, "nddma.dci": 10,
                         "nddma.misses_in_flight": 64}  # fmt: skip


@pytest.mark.parametrize("card", [card for card in CARDS if card != "atlas_350"])
def test_only_350_has_nddma(card: str) -> None:
    with pytest.raises(UnsupportedError, match="no NDDMA"):
        scenario("nddma_pattern", card)


def test_a_turned_matrix_is_right_and_moves_word_by_word() -> None:
    run, job = scenario("nddma_pattern", overrides=ROUND)
    assert run.correct is True
    assert np.array_equal(job.args[1].reshape(32, 64), np.arange(64 * 32).reshape(64, 32).T)
    # 64 rows of 128 B are 64 lines, each wanted 32 times; one element a cycle.
    assert run.metrics == {"per_call_cycles": 2048 + 200, "bytes": 8192, "runs": 2048, "cache_hits": 31 * 64,
                           "cache_misses": 64, "bytes_per_cycle": 8192 / 2248}  # fmt: skip


def test_calls_without_dci_hit_the_cache_of_the_call_before() -> None:
    few = {**ROUND, "nddma.misses_in_flight": 1}
    cold, _ = scenario("nddma_pattern", overrides=few, n=4)
    warm, _ = scenario("nddma_pattern", overrides=few, n=4, dci=False, warm=True)
    assert (cold.metrics["cache_misses"], warm.metrics["cache_misses"]) == (64, 0)
    assert warm.metrics["cache_hits"] == 2048
    # One miss at a time: 64 of 200 cycles for every call. Out of the cache it is 2048 elements, and one latency at the end.
    assert cold.metrics["per_call_cycles"] == pytest.approx(64 * 200, rel=0.01)
    assert warm.metrics["per_call_cycles"] == (4 * 2048 + 200) / 4


@settings(max_examples=25)
@given(dtype=st.sampled_from(["int8", "half", "float", "int32", "int64"]), depth=st.integers(1, 5), draw=st.data())
def test_any_loops_are_right(dtype: str, depth: int, draw: Any) -> None:
    sizes = [draw.draw(st.integers(1, 4)) for _ in range(depth)]
    left, right = ([draw.draw(st.integers(0, 2)) for _ in range(depth)] for _ in range(2))
    source = [draw.draw(st.integers(0, 50)) for _ in range(depth)]
    result, reach = [], 0
    for size, before, after in zip(sizes, left, right, strict=True):
        result.append(reach + draw.draw(st.integers(1, 2)))
        reach += (size + before + after - 1) * result[-1]
    run, job = scenario("nddma_pattern", dtype=dtype, loop_size=tuple(sizes), loop_src_stride=tuple(source),
                        loop_dst_stride=tuple(result), loop_lp_size=tuple(left), loop_rp_size=tuple(right),
                        value=0 if dtype == "int64" else 7, n=2)  # fmt: skip
    assert run.correct is True
    # The last element of the innermost corner, which is data of pad or not: a wrong one is seen.
    job.args[1][reach] += 1
    assert job.expect is not None and not job.expect(job.args)


def test_a_place_that_is_written_twice_is_not_compared() -> None:
    run, job = scenario("nddma_pattern", loop_size=(4, 3), loop_src_stride=(1, 9), loop_dst_stride=(1, 0))
    assert run.correct is True
    job.args[1][:4] = -1
    assert job.expect is not None and job.expect(job.args)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("n", {"n": 0}), ("loop_size", {"loop_size": (), "loop_src_stride": (), "loop_dst_stride": ()}),
        ("loop_src_stride", {"loop_src_stride": (1,)}), ("loop_lp_size", {"loop_lp_size": (1, 2, 3)}),
        ("loop_size", {"loop_size": (0, 4)}), ("loop_dst_stride", {"loop_dst_stride": (-1, 4)}),
        ("loop_src_stride", {"loop_src_stride": (1, 1 << 26)}), ("loop_dst_stride", {"loop_dst_stride": (1, 1 << 16)}),
        ("loop_size", {"loop_size": (1 << 11, 1 << 10)}),
    ],
)  # fmt: skip
def test_loops_are_checked(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("nddma_pattern", **given)
    assert caught.value.field == field


def test_loops_come_from_the_command_line() -> None:
    words = ["loop_size=5,4", "loop_src_stride=1,0x10", "loop_dst_stride=1,8", "dci=false"]
    p = load_scenario("nddma_pattern").parse(words)
    assert (p.loop_size, p.loop_src_stride, p.dci) == ((5, 4), (1, 16), False)


# ---- Load3D ---------------------------------------------------------------------------------------------------------
# (card, dst, stride in W, kernel rows) -> B/cycle, out of spec hardware.md 5.
TABLE = [
    ("atlas_a2", "A2", 1, 1, 256), ("atlas_a2", "A2", 1, 2, 128), ("atlas_a2", "A2", 1, 6, 64), ("atlas_a2", "A2", 1, 14, 32),
    ("atlas_a3", "A2", 2, 1, 128), ("atlas_a3", "A2", 8, 1, 32), ("atlas_a3", "A2", 4, 2, 51.2), ("atlas_a3", "A2", 3, 1, 32),
    ("atlas_a2", "B2", 1, 1, 128), ("atlas_a2", "B2", 1, 4, 64), ("atlas_a2", "B2", 2, 2, 64), ("atlas_a3", "B2", 5, 1, 512 / 18),
    ("atlas_350", "A2", 1, 3, 102.4), ("atlas_350", "B2", 1, 1, 256), ("atlas_350", "B2", 4, 1, 64), ("atlas_350", "B2", 7, 2, 32),
]  # fmt: skip


@pytest.mark.parametrize(("card", "dst", "stride", "kernel", "rate"), TABLE)
def test_load3d_follows_the_table(card: str, dst: str, stride: int, kernel: int, rate: float) -> None:
    run, _ = scenario("load3d_rate", card, False, dst=dst, stride_w=stride, kernel_h=kernel, kernel_w=1, count=11,
                      m_extension=128)  # fmt: skip
    assert run.metrics["table_bytes_per_cycle"] == pytest.approx(rate)
    # One instruction in a stream: its bytes at that rate, and a cycle of head on 2201.
    head = 0 if card == "atlas_350" else 1
    at = rows(run, Pipe.MTE1)
    nbytes = 128 * kernel * 16 * 2
    assert run.metrics["bytes"] == nbytes
    assert np.diff(cycles(run.columns.start[at])) == pytest.approx(np.full(10, nbytes / rate + head), rel=1e-3)


def test_a_narrow_window_slides_over_fewer_kernel_rows() -> None:
    # 3 x 3 kernel: 48 columns are its first row.
    wide, narrow = (scenario("load3d_rate", "atlas_350", False, k_extension=k)[0].metrics for k in (144, 48))
    assert (wide["table_bytes_per_cycle"], narrow["table_bytes_per_cycle"]) == (102.4, 256)
    assert 3 * narrow["per_instruction_cycles"] < 0.5 * wide["per_instruction_cycles"]


def test_isolated_loads_pay_the_latency_of_load3d() -> None:
    given: dict[str, Any] = {"scalar.issue": 3, "sync.barrier_all": 4, "paths.L1-L0A.api.LoadData3DV2.latency": 50}
    run, _ = scenario("load3d_rate", "atlas_350", False, given, barrier=True, kernel_h=1, kernel_w=1, m_extension=128)
    assert np.all(np.diff(cycles(run.columns.start[rows(run, Pipe.MTE1)])) == 128 * 32 / 256 + 50 + 4 + 3)


def test_no_table_of_200i_is_shown() -> None:
    run, _ = scenario("load3d_rate", "atlas_200i")
    assert "table_bytes_per_cycle" not in run.metrics
    assert run.metrics["bytes_per_cycle"] > 0


@pytest.mark.parametrize(
    ("field", "given"),
    [("stride_w", {"stride_w": 0}), ("count", {"count": 0}), ("channels", {"channels": 20}), ("k_extension", {"k_extension": 40})],
)  # fmt: skip
def test_load3d_checks_its_parameters(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("load3d_rate", **given)
    assert caught.value.field == field


def test_a_window_larger_than_l0_is_refused() -> None:
    with pytest.raises(CapacityError, match="L0A"):
        scenario("load3d_rate", m_extension=256)  # 72 KB


# ---- Fixpipe --------------------------------------------------------------------------------------------------------
FIX: dict[str, Any] = {"fixpipe.head": 0, "fixpipe.latency": 26, "scalar.issue": 3}


@pytest.mark.parametrize("layout", ["NZ", "ND", "DN"])
@pytest.mark.parametrize("out", ["half", "bf16", "float", "int8"])
@pytest.mark.parametrize("card", CARDS)
def test_gm_gets_the_product_in_every_type_and_layout(card: str, out: str, layout: str) -> None:
    if layout == "DN" and card != "atlas_350":
        with pytest.raises(UnsupportedError, match="no DN"):
            scenario("fixpipe_rate", card, out=out, layout=layout)
        return
    run, job = scenario("fixpipe_rate", card, out=out, layout=layout, m=48, n=64, count=2)
    assert run.correct is True
    job.args[2][48 * 64 - 1] += np.ones((), job.args[2].dtype)
    assert job.expect is not None and not job.expect(job.args)


def test_a_product_out_of_blocks_lands_where_numpy_puts_it() -> None:
    # Column blocks of 16: element (row, column) at column // 16 * 48 * 16 + row * 16 + column % 16.
    _, flat = scenario("fixpipe_rate", out="float", layout="ND", m=48, n=64, count=1)
    _, blocks = scenario("fixpipe_rate", out="float", layout="NZ", m=48, n=64, count=1)
    assert flat.args[2][5 * 64 + 37] == blocks.args[2][2 * 48 * 16 + 5 * 16 + 5]
    assert np.any(flat.args[2])


@pytest.mark.parametrize(
    ("card", "dst", "out", "layout", "rate"),
    [
        ("atlas_a2", "L1", "half", "NZ", 128), ("atlas_a3", "L1", "int8", "NZ", 64), ("atlas_350", "L1", "bf16", "ND", 128),
        ("atlas_350", "L1", "float", "NZ", 128), ("atlas_350", "UB", "half", "DN", 128), ("atlas_350", "UB", "int8", "ND", 64),
    ],
)  # fmt: skip
def test_fixpipe_inside_the_chip_follows_the_table(card: str, dst: str, out: str, layout: str, rate: int) -> None:
    # 64 x 64 elements at the rate of spec hardware.md 7, then the latency once.
    run, _ = scenario("fixpipe_rate", card, False, FIX, dst=dst, out=out, layout=layout, m=64, n=64, count=10)
    nbytes = 64 * 64 * {"int8": 1, "float": 4}.get(out, 2)
    assert run.metrics["bytes"] == nbytes
    assert run.metrics["per_instruction_cycles"] == (10 * nbytes / rate + 26) / 10


@pytest.mark.parametrize("dst", ["GM", "L1"])
def test_unit_flags_cost_waiting_and_keep_the_result(dst: str) -> None:
    layout = "ND" if dst == "GM" else "NZ"
    plain, flagged = (scenario("fixpipe_rate", "atlas_a2", dst=dst, layout=layout, unit_flag=flag)[0] for flag in (False, True))
    assert flagged.correct is plain.correct
    assert flagged.metrics["per_instruction_cycles"] > plain.metrics["per_instruction_cycles"]
    assert (len(rows(plain, Pipe.M)), len(rows(flagged, Pipe.M))) == (1, 20)
    assert flagged.columns.unit_flag[rows(flagged, Pipe.FIX)].sum() > 0


@pytest.mark.parametrize(
    ("card", "given", "match"),
    [
        ("atlas_a2", {"dst": "UB"}, "no path from L0C to UB"), ("atlas_200i", {"dst": "L1", "layout": "NZ"}, "L0C to L1"),
        ("atlas_a3", {"dst": "L1", "layout": "ND"}, "NZ only"),
        ("atlas_a3", {"dst": "L1", "layout": "NZ", "out": "float"}, "float to float"),
        ("atlas_200i", {"unit_flag": True}, "unit flags"),
    ],
)  # fmt: skip
def test_cards_say_what_their_fixpipe_lacks(card: str, given: dict[str, Any], match: str) -> None:
    with pytest.raises(UnsupportedError, match=match):
        scenario("fixpipe_rate", card, **given)


@pytest.mark.parametrize("given", [{"m": 1}, {"n": 0}, {"count": 0}])
def test_fixpipe_checks_its_sizes(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(given))):
        scenario("fixpipe_rate", **given)


# ---- launch ---------------------------------------------------------------------------------------------------------
LAUNCH: dict[str, Any] = {"launch.base_us": 2, "launch.per_block_us": 0.25, "launch.core_start_cycles": 0}


@pytest.mark.parametrize(("kind", "cores"), [("vector", 4), ("cube", 4), ("mix", 12)])
def test_an_empty_kernel_takes_the_launch_alone(kind: str, cores: int) -> None:
    run, _ = scenario("empty_kernel", "atlas_350", True, LAUNCH, kind=kind, blocks=4)
    assert run.metrics == {"launch_us": 2 + 0.25 * cores, "cores": cores}
    assert run.correct is None and run.instructions == 0


@pytest.mark.parametrize(("card", "kind", "cores"), [
    ("atlas_a2:Ascend910B4", "vector", 40), ("atlas_a2:Ascend910B4", "cube", 20), ("atlas_a3:Ascend910_9362", "mix", 60),
    ("atlas_350:Ascend950PR_9589", "vector", 64), ("atlas_200i", "mix", 1),
])  # fmt: skip
def test_the_whole_card_starts_by_default(card: str, kind: str, cores: int) -> None:
    assert scenario("empty_kernel", card, kind=kind)[0].metrics["cores"] == cores


def test_published_launches_carry_their_values_and_say_what_they_are() -> None:
    loaded = load_scenario("empty_kernel")

    def job(card: str, *words: str) -> Any:
        return loaded.build(load_card(card), loaded.parse(words), False)

    assert [m.value for blocks in (2, 40) for m in job("atlas_a2:Ascend910B4", f"blocks={blocks}").measured] == [0.67, 2.25]
    assert job("atlas_a2:Ascend910B4", "blocks=3").measured == ()
    simt = job("atlas_350:Ascend950PR_9589", "blocks=32")
    assert simt.measured[0].value == 1.557
    assert "SIMT" in simt.notes[0] and "1.589" in simt.notes[0]
    assert job("atlas_350:Ascend950PR_9589", "blocks=32", "kind=cube").measured == ()
    assert "kind changes nothing" in job("atlas_200i").notes[0]


def test_an_empty_kernel_needs_blocks() -> None:
    with pytest.raises(ConfigError, match="blocks"):
        scenario("empty_kernel", blocks=-1)
