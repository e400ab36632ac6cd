"""Writing fitted numbers into card files: one entry changes, nothing else does."""

from __future__ import annotations

import difflib

import pytest

from aicore_sim.cards import load_card
from aicore_sim.errors import ConfigError
from aicore_sim.resources import config_dir
from aicore_sim.validation.toml_edit import Fitted, number_text, with_fitted

TEXT = """# A comment = { value = 1 }
name = "x"

[gm.GM-UB]   # reads
latency = { value = 200, unit = "cycle", basis = "assumed", source = "a, \\"b\\"", note = "value = 7, basis = {x}" }  # kept
row   =   {value=0.5,unit="cycle",basis="fitted",source="spec; fitted to old_1, old_2"}

[socs.X.numbers]
"gm.GM-UB.latency" = { value = 1e3, unit = "cycle", basis = "derived", source = "s" }
[gm.UB-GM]
latency = { value = 200, unit = "cycle", basis = "assumed", source = "c", note = "n" }
"""


def changed_lines(new: str) -> list[str]:
    lines = difflib.ndiff(TEXT.split("\n"), new.split("\n"))
    return [line[2:] for line in lines if line.startswith("+ ")]


def test_value_basis_and_source_of_one_entry() -> None:
    new = with_fitted(TEXT, ("gm", "GM-UB", "latency"), Fitted(187.5, ("p1", "p2")))
    assert changed_lines(new) == [
        'latency = { value = 187.5, unit = "cycle", basis = "fitted", source = "a, \\"b\\"; fitted to p1, p2", '
        'note = "value = 7, basis = {x}" }  # kept'
    ]


def test_points_of_an_earlier_fit_are_replaced_and_spacing_stays() -> None:
    new = with_fitted(TEXT, ("gm", "GM-UB", "row"), Fitted(2.0, ("new",)))
    assert changed_lines(new) == ['row   =   {value=2,unit="cycle",basis="fitted",source="spec; fitted to new"}']


def test_number_of_a_soc() -> None:
    new = with_fitted(TEXT, ("socs", "X", "numbers", "gm.GM-UB.latency"), Fitted(900.0, ("p",)))
    assert changed_lines(new) == [
        '"gm.GM-UB.latency" = { value = 900, unit = "cycle", basis = "fitted", source = "s; fitted to p" }'
    ]


def test_ends_of_lines_stay() -> None:
    text = TEXT.replace("\n", "\r\n")
    new = with_fitted(text, ("gm", "UB-GM", "latency"), Fitted(201.0, ("p",)))
    assert new.count("\r\n") == text.count("\r\n") == new.count("\n")


@pytest.mark.parametrize("path", [("gm", "GM-UB", "nothing"), ("gm", "GM-L1", "latency"), ("name",)])
def test_entry_that_is_not_there(path: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        with_fitted(TEXT, path, Fitted(1.0, ("p",)), "card.toml")
    assert (caught.value.field, caught.value.file) == (".".join(path), "card.toml")


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_every_free_number_of_the_cards_can_be_written(card: str) -> None:
    text = (config_dir() / f"{card}.toml").read_text(encoding="utf-8")
    loaded = load_card(card)
    free = [key for key, number in loaded.numbers() if number.basis in ("assumed", "fitted")]
    free = [key for key in free if key not in loaded.soc_data.numbers]
    assert len(free) > 10
    for key in free:
        new = with_fitted(text, tuple(key.split(".")), Fitted(loaded.value(key), ("p",)))
        assert sum(a != b for a, b in zip(text.split("\n"), new.split("\n"), strict=True)) == 1


def test_number_text() -> None:
    assert [number_text(value) for value in (5.0, 0.25, 1e-7)] == ["5", "0.25", "1e-07"]
