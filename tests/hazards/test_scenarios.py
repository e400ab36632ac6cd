"""Right programs are clean, broken ones are reported with the kind and the line: over the scenarios of the repository.

No error and no warning in any right form on any card that runs it; in the wrong forms one finding for each call left out.
"""

from __future__ import annotations

import pytest

import aicore_sim as asc
from aicore_sim.cards import load_card
from aicore_sim.errors import DeadlockError, UnsupportedError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import ERROR, OBSERVED, Hazard
from aicore_sim.launch import Options, Run
from aicore_sim.scenario import load_scenario, scenario_names

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
ONLY_350 = {"bit_mode", "cumsum_inplace", "dn2nz", "nddma_moves", "nddma_pad", "nddma_pattern", "nddma_read_only", "stale_cache",
            "te_copy"}  # fmt: skip
SHOWS_A_FAULT = {"flag_deadlock": "form=right", "sync_all_missing": "drop=false"}
"""Scenarios whose default is the wrong form, and what makes them right."""
MANY_CORES = {"dcache_flags", "false_sharing", "mix_gemm_add", "mix_gemm_vector", "sync_all_missing", "two_launches"}


def run(name: str, words: str = "", card: str = "atlas_350", data: bool = True) -> Run:
    scenario = load_scenario(name)
    return scenario.run(load_card(card), scenario.parse(words.split()), Options(data=data))[0]


def offers(name: str, card: str) -> bool:
    return not (name in ONLY_350 and card != "atlas_350") and not (name in MANY_CORES and card == "atlas_200i")


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_as_it_comes_is_clean(name: str, card: str) -> None:
    if not offers(name, card):
        with pytest.raises(UnsupportedError):
            run(name, card=card)
        return
    done = run(name, SHOWS_A_FAULT.get(name, ""), card)
    assert done.correct is not False
    asc.assert_clean(done)


MORE = [
    ("matmul", "M=500 N=300 K=200"), ("matmul", "M=500 N=300 K=200 unit_flag=false"),
    ("matmul", "M=300 N=200 K=500 double_buffer=false"),
    *(("add", words) for words in ("style=queue", "double_buffer=false style=queue", "rows=7 cols=1000")),
    *(("same_movement", f"way={way}") for way in ("load2d", "transpose", "dn2nz", "load2d_v2")),
    *(("load_transpose", f"example={number}") for number in range(1, 5)),
    ("mix_gemm_add", "tiles=5 slots=1"), ("mix_gemm_vector", "slots=1"), ("double_buffer_add", "tiles=7 copies=1"),
    ("pingpong_gemm", "slabs=1"), ("fixpipe_rate", "unit_flag=true"), ("bit_mode", "transpose=true"),
    *(("dn2nz", f"example={example}") for example in ("strided", "matmul", "small_c0")),
    *(("nddma_moves", f"move={move}") for move in ("nearest", "transpose", "broadcast", "slice")),
    *(("te_copy", f"style={style}") for style in ("call", "make_copy")),
]  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(("name", "words"), MORE)
def test_other_right_forms_and_tails_are_clean(name: str, words: str, card: str) -> None:
    try:
        done = run(name, words, card)
    except UnsupportedError:
        assert card != "atlas_350" or name == "load_transpose" or words == "way=transpose"
        return
    assert done.correct is not False
    asc.assert_clean(done)


@pytest.mark.parametrize("card", CARDS)
def test_a_product_without_data_is_clean(card: str) -> None:
    asc.assert_clean(run("matmul", "M=1024 N=1024 K=512", card, data=False))


# ---- wrong forms ----------------------------------------------------------------------------------------------------
BROKEN = [
    *(("double_buffer_add", f"drop={pair}", kind) for pair, kind in (
        ("MTE2_V", "race-raw"), ("V_MTE2", "race-war"), ("V_MTE3", "race-raw"), ("MTE3_V", "race-war"))),
    *(("pingpong_gemm", f"drop={pair}", kind) for pair, kind in (
        ("MTE2_MTE1", "race-raw"), ("MTE1_MTE2", "race-war"), ("MTE1_M", "race-raw"), ("M_MTE1", "race-war"), ("M_FIX", "race-raw"),
        ("FIX_M", "race-war"))),
    ("mix_gemm_vector", "drop=ready", "race-raw"), ("mix_gemm_vector", "drop=free", "race-war"),
    ("mix_gemm_vector", "drop=ready way=ub", "race-raw"), ("mix_gemm_vector", "drop=free way=ub", "race-war"),
    ("stale_cache", "dci=false", "stale-nddma"), ("stale_cache", "dci=early", "stale-nddma"),
    ("cumsum_inplace", "dci=false", "stale-nddma"), ("two_launches", "dci=false reader=nddma", "stale-nddma"),
    ("two_launches", "dci=false reader=scalar", "stale-dcache"), ("dcache_flags", "drop=clean", "dirty-dcache"),
    ("dcache_flags", "drop=invalidate", "stale-dcache"), ("dcache_flags", "drop=dsb", "race-raw"),
    ("false_sharing", "pitch=4", "false-sharing"), ("sync_all_missing", "drop=true", "race-waw"),
]  # fmt: skip
PARTIES = {
    "MTE2_V": ("MTE2", "V"), "V_MTE2": ("V", "MTE2"), "V_MTE3": ("V", "MTE3"), "MTE3_V": ("MTE3", "V"),
    "MTE2_MTE1": ("MTE2", "MTE1"), "MTE1_MTE2": ("MTE1", "MTE2"), "MTE1_M": ("MTE1", "M"),
    "M_MTE1": ("M", "MTE1"), "M_FIX": ("M", "FIX"), "FIX_M": ("FIX", "M"),
}  # fmt: skip


def the_cause(done: Run) -> Hazard:
    """The one finding that is no consequence: undefined bytes come of what was read too early."""
    (found,) = [hazard for hazard in done.hazards if hazard.kind != "undefined-read"]
    return found


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(("name", "words", "kind"), BROKEN)
def test_a_broken_form_is_one_finding_of_the_right_kind(name: str, words: str, kind: str, card: str) -> None:
    try:
        done = run(name, words, card)
    except UnsupportedError:
        assert card != "atlas_350"
        return
    found = the_cause(done)
    assert (found.kind, found.severity) == (kind, ERROR)
    assert found.other is not None
    if done.correct is False:
        assert found.verdict == OBSERVED
    pair = PARTIES.get(words.partition("=")[2])
    if pair is not None:
        assert (found.other.pipe, found.at.pipe) == pair
    elif kind.startswith(("stale", "dirty")):
        assert found.visible is False and found.ordered is True


@pytest.mark.parametrize(("name", "words", "kind"), [one for one in BROKEN if one[0] not in ("dcache_flags", "two_launches")])
def test_the_verdict_does_not_need_the_bytes(name: str, words: str, kind: str) -> None:
    with_data, without = the_cause(run(name, words)), the_cause(run(name, words, data=False))
    assert (without.kind, without.at.line, without.other and without.other.line) == (
        kind, with_data.at.line, with_data.other and with_data.other.line,
    )  # fmt: skip


@pytest.mark.parametrize("line", [64, 128, 256, 512])
@pytest.mark.parametrize(("dci", "clean"), [("true", True), ("false", False), ("early", False)])
def test_the_line_size_decides_nothing_where_the_ranges_are_the_same(dci: str, clean: bool, line: int) -> None:
    scenario = load_scenario("stale_cache")
    done = scenario.run(load_card("atlas_350", {"nddma.line": line}), scenario.parse([f"dci={dci}"]), Options())[0]
    assert (done.correct, done.hazards.clean) == (clean, clean)
    assert [(h.kind, h.verdict) for h in done.hazards] == [] if clean else [("stale-nddma", OBSERVED)]


@pytest.mark.parametrize(("line", "stale"), [(64, False), (128, True), (256, True), (512, True)])
def test_where_only_the_line_is_shared_its_size_decides_and_the_report_says_so(line: int, stale: bool) -> None:
    scenario = load_scenario("stale_cache")
    words = scenario.parse(["dci=false", "distance=16", "n=16"])
    done = scenario.run(load_card("atlas_350", {"nddma.line": line}), words, Options())[0]
    assert (done.correct, done.hazards.clean) == (not stale, not stale)
    assert all("lines of 128 B and more" in hazard.detail and "assumed" in hazard.detail for hazard in done.hazards)


@pytest.mark.parametrize("cause", ["cycle", "unset", "cores"])
def test_a_deadlock_is_a_finding_with_its_chain(cause: str) -> None:
    with pytest.raises(DeadlockError) as caught:
        run("flag_deadlock", f"form=wrong cause={cause}")
    (found,) = of_deadlock(caught.value, load_card("atlas_350")).of("wait-without-set")
    assert found.severity == ERROR
    assert found.at.file.endswith("flag_deadlock.py")
    assert "waits" in found.detail
    assert found.fix
