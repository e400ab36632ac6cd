"""Intervals of results: toy measurements whose answer is known by hand, cards that note what they are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.cards import Card, card_names, load_card
from aicore_sim.errors import ConfigError
from aicore_sim.resources import config_dir
from aicore_sim.uncertainty import Interval, Part, combined, open_range, spread


def with_numbers(tmp_path: Any, **lines: str) -> Card:
    """Atlas A2 with some lines of its file replaced: `GM_UB_latency` is the line `latency` of `[gm.GM-UB]`."""
    text = (config_dir() / "atlas_a2.toml").read_text(encoding="utf-8")
    for name, line in lines.items():
        table, key = name.split("__")
        head, found, tail = text.partition(f"[{table.replace('_', '.', 1).replace('_', '-')}]\n")
        assert found, name
        rows = tail.split("\n")
        at = next(i for i, row in enumerate(rows) if row.startswith(f"{key} ="))
        rows[at] = f"{key} = {line}"
        text = head + found + "\n".join(rows)
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return load_card(file)


def number(value: float, low: float, high: float, basis: str = "assumed", unit: str = "cycle") -> str:
    return f'{{ value = {value}, unit = "{unit}", basis = "{basis}", source = "test", note = "test", range = [{low}, {high}] }}'


@pytest.fixture
def toy(tmp_path: Any) -> Card:
    """latency 100 in [90, 140], port rate 50 in [40, 50], row 2 in [2, 2], issue documented."""
    return with_numbers(
        tmp_path,
        gm_GM_UB__latency=number(100, 90, 140),
        gm_GM_UB__port_rate=number(50, 40, 50, "fitted", "B/cycle"),
        gm_GM_UB__row=number(2, 2, 2, "measured"),
        gm_GM_UB__issue=number(20, 10, 30, "documented"),
    )


def copy_of_1000(card: Card) -> dict[str, float]:
    """latency + 1000 / rate + row + issue = 100 + 20 + 2 + 20 cycles, and the part without latency."""
    value = card.value
    stream = 1000 / value("gm.GM-UB.port_rate") + value("gm.GM-UB.row") + value("gm.GM-UB.issue")
    return {"whole": value("gm.GM-UB.latency") + stream, "stream": stream, "fixed": 7.0}


def test_deviations_add_as_root_of_squares_on_each_side(toy: Card) -> None:
    found = spread(copy_of_1000, toy)
    # 142 cycles: latency -10 / +40; 1000 / 40 = 25 instead of 20: +5
    assert found["whole"].low == 142 - 10
    assert found["whole"].high == pytest.approx(142 + math.sqrt(40**2 + 5**2))
    assert found["whole"].dominated_by == "gm.GM-UB.latency"
    assert found["whole"].parts == (("gm.GM-UB.latency", 132.0, 182.0), ("gm.GM-UB.port_rate", 147.0, 142.0))


def test_numbers_that_do_not_matter_drop_out(toy: Card) -> None:
    found = spread(copy_of_1000, toy)
    assert found["stream"] == Interval(42.0, 47.0, "gm.GM-UB.port_rate", (Part("gm.GM-UB.port_rate", 47.0, 42.0),))
    assert found["fixed"] == Interval(7.0, 7.0)


def test_each_open_number_is_run_at_its_ends_and_no_other(toy: Card) -> None:
    runs: list[dict[str, str]] = []

    def counting(card: Card) -> Mapping[str, float]:
        runs.append(dict(card.overrides))
        return copy_of_1000(card)

    spread(counting, toy)
    # The upper end of the rate is the value itself; row has no open end; issue is documented.
    assert runs == [{}, {"gm.GM-UB.latency": "90"}, {"gm.GM-UB.latency": "140"}, {"gm.GM-UB.port_rate": "40"}]


def test_an_overridden_number_is_known(toy: Card) -> None:
    found = spread(copy_of_1000, toy.changed({"gm.GM-UB.latency": 1000}))
    assert (found["whole"].low, found["whole"].high) == (1042.0, 1047.0)
    assert found["whole"].dominated_by == "gm.GM-UB.port_rate"


def test_the_memory_rate_counts_once() -> None:
    """The nominal rate of A2 is documented with a range, the attainable part is open: only the latter takes part."""

    def stream(card: Card) -> dict[str, float]:
        return {"us": 1e6 / card.memory_attainable_gbps}

    card = load_card("a2")
    assert card.number("memory_rate").range is not None
    assert [part.key for part in spread(stream, card)["us"].parts] == ["hbm.attainable"]
    derived = load_card("atlas_a2:Ascend910B3")
    assert derived.number("memory_rate").basis == "derived", "measured is only the product"
    assert [part.key for part in spread(stream, derived)["us"].parts] == ["hbm.attainable"]


def test_an_end_that_a_rule_refuses_is_left_out() -> None:
    def sets(card: Card) -> dict[str, float]:
        if card.value("nddma.ways") > 8:
            raise ConfigError("too many", field="nddma.ways")
        return {"sets": card.value("nddma.ways")}

    card = load_card("350")
    low, high = card.number("nddma.ways").range or (0, 0)
    assert low < card.value("nddma.ways") <= 8 < high
    assert spread(sets, card)["sets"].parts == (Part("nddma.ways", float(low), card.value("nddma.ways")),)


def test_whole_numbers_stay_whole(tmp_path: Any) -> None:
    card = with_numbers(tmp_path, l2__ways=number(16, 7.5, 31.5, unit="count"))
    assert open_range(card, "l2.ways") == (8, 31)
    assert open_range(card, "l2.replacement") is None


def test_ties_go_by_name_and_two_moves_to_one_side_count_once() -> None:
    found = combined(10.0, [Part("b", 13.0, 10.0), Part("a", 12.0, 13.0), Part("c", 6.0, 11.0)])
    assert [part.key for part in found.parts] == ["c", "a", "b"]
    assert found.low == 10 - 4
    assert found.high == pytest.approx(10 + math.sqrt(3**2 + 3**2 + 1))
    assert combined(10.0, [Part("b", 13.0, 10.0), Part("a", 10.0, 7.0)]).dominated_by == "a"


# -- cards that note what they are asked for, and changed cards ----------------------------------------------------


def test_tracking_notes_every_kind_of_look_up() -> None:
    card, asked = load_card("350").tracking()
    assert asked == set()
    card.value("gm.GM-UB.latency")
    card.flag("l2.write_allocate")
    card.path_number("L1-L0B", "rate", "LoadDataWithTranspose")
    assert asked == {"gm.GM-UB.latency", "l2.write_allocate", "paths.L1-L0B.api.LoadDataWithTranspose.rate"}
    asked.clear()
    assert (card.clock_mhz, card.l2_bytes) == (1650, 112 * 2**20)
    assert card.memory_attainable_gbps > 0
    card.value(f"socs.{card.soc}.l2_bytes")
    card.value("hbm.nominal_rate")
    assert asked == {"clock_mhz", "l2_bytes", "memory_rate", "hbm.attainable"}, "the nominal rate is another name of memory_rate"


def test_a_tracking_card_reads_calls_as_the_card_it_copies() -> None:
    plain = load_card("a2", {"l2.ways": 8}).reading("implementation", "hardware")
    card, asked = plain.tracking()
    assert (card.quirks, card.wrap, card.overrides) == (plain.quirks, True, plain.overrides)
    assert card.reading("documented").value("l2.ways") == 8
    assert asked == {"l2.ways"}, "another reading notes into the same set"


def test_a_run_on_a_tracking_card_notes_what_decides_its_time() -> None:
    @asc.jit
    def load(x: asc.GlobalAddress) -> None:
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 1024), gm, 1024)

    plain = load_card("a3")
    card, asked = plain.tracking()
    x = np.zeros(1024, np.float32)
    assert asc.simulate(load, x, card=card).cycles == asc.simulate(load, x, card=plain).cycles
    assert {"gm.GM-UB.latency", "gm.GM-UB.port_rate", "clock_mhz", "l2_bytes", "memory_rate", "hbm.attainable"} <= asked
    assert not any(key.startswith(("mmad.", "fixpipe.", "nddma.", "gm.GM-L1")) for key in asked)


def test_changing_a_card_is_loading_it_with_more_overrides() -> None:
    first, second = {"gm.GM-UB.latency": 300, "clock_mhz": 1600}, {"gm.GM-UB.latency": "0x10", "l2.replacement": "fifo"}
    loaded = load_card("350", {**first, **second})
    changed = load_card("350", first).changed(second)
    assert changed == loaded
    assert dict(changed.facts()) == dict(loaded.facts())
    assert changed.fingerprint == loaded.fingerprint != load_card("350", first).fingerprint
    assert changed.number("gm.GM-UB.latency").note.startswith("card file: 2"), "the file's number, not the one in between"


def test_a_changed_card_keeps_its_reading_and_the_old_card_its_numbers() -> None:
    card = load_card("a2:Ascend910B3").reading("implementation", "hardware")
    changed = card.changed({"l2.ways": 4})
    assert (changed.soc, changed.quirks, changed.wrap) == ("Ascend910B3", card.quirks, True)
    assert (card.value("l2.ways"), changed.value("l2.ways")) == (16, 4)
    assert changed.number("l2.ways").basis == "override"
    assert changed.value("hbm.attainable") == card.value("hbm.attainable") == 0.9, "the SoC's own number"


def test_an_override_may_lie_outside_the_range() -> None:
    low, high = load_card("a2").number("hbm.attainable").range or (0, 0)
    for value in (low / 2, min(1.0, high * 1.05)):
        assert load_card("a2").changed({"hbm.attainable": value}).value("hbm.attainable") == value


def test_changes_are_checked_as_overrides_are() -> None:
    with pytest.raises(ConfigError, match=r"gm\.GM-UB\.latency"):
        load_card("a2").changed({"gm.GM-UB.latencie": 1})
    with pytest.raises(ConfigError, match="whole number of sets"):
        load_card("350").changed({"nddma.line": 100})


# -- ranges in card files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["assumed", "fitted"])
def test_a_guess_without_a_range_is_refused(tmp_path: Any, basis: str) -> None:
    line = f'{{ value = 5, unit = "cycle", basis = "{basis}", source = "test", note = "test" }}'
    with pytest.raises(ConfigError, match="needs a range") as caught:
        with_numbers(tmp_path, gm_GM_UB__latency=line)
    assert caught.value.field == "gm.GM-UB.latency"


@pytest.mark.parametrize("name", card_names())
def test_every_guess_of_the_cards_has_a_range(name: str) -> None:
    guesses = [number for _, number in load_card(name).numbers(all_socs=True) if number.basis in ("assumed", "fitted")]
    assert guesses
    assert all(number.range is not None for number in guesses)
