"""The scenarios that show one thing in a few lines, and what holds for every scenario file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.cards import load_card
from aicore_sim.errors import AiCoreError, ConfigError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.scenario import load_scenario, scenario_names
from tests.scenarios.running import CARDS, rows, scenario

SMALL: dict[str, dict[str, Any]] = {
    "hello": {}, "nddma_pad": {}, "dma_latency": {"bytes": 64}, "load_stream": {"count": 3}, "mmad_stream": {"count": 2},
    "add": {"rows": 4, "cols": 64, "tile": 64, "blocks": 2}, "mix_gemm_add": {"tiles": 2, "blocks": 1},
    "te_copy": {}, "bit_mode": {}, "dn2nz": {}, "load_transpose": {}, "nddma_moves": {}, "same_movement": {},
    "data_copy": {"M": 8, "N": 64, "tileM": 2, "tileN": 32, "blocks": 2},
    "stale_cache": {"cores": 2}, "cumsum_inplace": {"n": 16}, "nddma_read_only": {"passes": 1}, "false_sharing": {"pitch": 32},
    "double_buffer_add": {"tile": 64}, "pingpong_gemm": {"m": 32, "n": 32}, "mix_gemm_vector": {"m": 32, "n": 16},
    "flag_deadlock": {"tiles": 2, "form": "right"}, "sync_all_missing": {"cores": 2, "drop": False},
}  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
def test_hello_doubles_on_every_card(card: str) -> None:
    run, job = scenario("hello", card)
    assert run.correct is True
    assert np.array_equal(job.args[1], np.arange(1024, dtype=np.float32) * 2)


@pytest.mark.parametrize("n", [0, 7, -8])
def test_hello_takes_whole_blocks_only(n: int) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("hello", n=n)
    assert (caught.value.field, caught.value.value) == ("n", n)


def test_nddma_pad_prints_what_the_page_prints() -> None:
    run, job = scenario("nddma_pad")
    page = [
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0],
        [0, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert run.correct is True
    assert job.args[1].tolist() == page
    assert job.show is not None
    shown = " ".join(job.show(job.args).split())
    assert "[ 0. 0. 0. 1. 2. 3. 4. 5. 6. 7. 8. 0. 0. 0. 0. 0.]" in shown
    assert "[ 9. 10. 11. 12. 13. 14. 15. 16.]" in shown


def test_nddma_pad_fills_with_the_value_asked_for() -> None:
    run, job = scenario("nddma_pad", value=-2.5)
    assert run.correct is True
    assert job.args[1][0].tolist() == [-2.5] * 16
    assert job.args[1][1].tolist() == [-2.5] * 3 + [1, 2, 3, 4, 5, 6, 7, 8] + [-2.5] * 5


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
def test_nddma_pad_is_refused_without_nddma_at_the_line_of_the_kernel(card: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        scenario("nddma_pad", card)
    assert caught.value.card == card
    assert caught.value.file is not None and caught.value.file.endswith("nddma_pad.py")
    assert "NdDmaDci" in str(caught.value)


@pytest.mark.parametrize("style", ["atom", "call", "make_copy"])
def test_te_copy_brings_the_matrix_to_l0a_in_every_style(style: str) -> None:
    run, job = scenario("te_copy", style=style)
    assert run.correct is True
    assert job.args[2][17, 18] == job.args[0][9 * 256 + 16 + 2]
    loads = rows(run, Pipe.MTE1)
    assert [run.columns.ops[int(run.columns.op[i])].nbytes for i in loads] == [16384, 8192]
    assert job.show is not None and "L0A as a matrix of 128 x 64" in job.show(job.args)
    job.args[2][0, 0] += 1
    assert job.expect is not None and not job.expect(job.args)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_200i"])
def test_te_copy_is_refused_without_the_tensor_api(card: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        scenario("te_copy", card)
    assert caught.value.card == card
    assert "LoadData2DParams" in str(caught.value)


@pytest.mark.parametrize("name", sorted(SMALL))
@pytest.mark.parametrize("card", CARDS)
def test_without_data_a_run_takes_the_same_time(name: str, card: str) -> None:
    # The same program on the same addresses: whether bytes move must not show in a single tick.
    def columns(data: bool) -> Any:
        try:
            return scenario(name, card, data, **SMALL[name])[0].columns
        except AiCoreError as error:
            return type(error)

    with_data, without = columns(True), columns(False)
    if isinstance(with_data, type):
        assert without is with_data
        return
    # Rows come in the order in which pipes take them up, which may differ between pipes: compare pipe by pipe.
    first, second = (np.lexsort((np.arange(len(c)), c.pipe, c.core)) for c in (with_data, without))
    for field in ("core", "pipe", "kind", "issue", "start", "free", "end", "arg"):
        assert np.array_equal(getattr(with_data, field)[first], getattr(without, field)[second]), field


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_says_what_it_shows_and_what_its_parameters_mean(name: str) -> None:
    loaded = load_scenario(name)
    assert len(loaded.summary) > 20
    for parameter, _, default, text, choices in loaded.describe():
        assert text, parameter
        assert not choices or default in choices, parameter


@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_resolved_parameters_name_every_parameter(name: str) -> None:
    loaded = load_scenario(name)
    job = loaded.build(load_card("atlas_350"), loaded.parameters(**SMALL[name]), False)
    assert set(job.parameters) == {parameter for parameter, *_ in loaded.describe()}
