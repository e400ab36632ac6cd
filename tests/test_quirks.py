"""The table of readings: names, choosing, and that every name is used and documented."""

from __future__ import annotations

from pathlib import Path

import pytest

import aicore_sim
from aicore_sim.cards import load_card
from aicore_sim.errors import ParameterError
from aicore_sim.quirks import QUIRKS, chosen

PACKAGE = Path(aicore_sim.__file__).parent


def test_choosing() -> None:
    assert chosen("documented") == frozenset()
    assert chosen("implementation") == frozenset(QUIRKS)
    assert chosen("addr-mode,load2d-950") == chosen(["load2d-950", "addr-mode"]) == {"addr-mode", "load2d-950"}


@pytest.mark.parametrize("quirks", ["adr-mode", "", ["load2d-950", "x"]])
def test_an_unknown_name_lists_the_known_ones(quirks: str | list[str]) -> None:
    with pytest.raises(ParameterError) as caught:
        chosen(quirks)
    assert caught.value.field == "quirks"
    assert "load2d-950" in str(caught.value.allowed)


def test_a_quirk_counts_on_its_cards_only() -> None:
    assert load_card("atlas_350").reading("load2d-950").quirk("load2d-950")
    assert not load_card("atlas_a2").reading("load2d-950").quirk("load2d-950")
    assert not load_card("atlas_350").quirk("load2d-950")


def test_wrap_takes_two_words() -> None:
    assert load_card("atlas_a2").reading(wrap="hardware").wrap
    with pytest.raises(ParameterError, match="wide"):
        load_card("atlas_a2").reading(wrap="cut")


@pytest.mark.parametrize("name", QUIRKS)
def test_every_quirk_is_asked_for_and_documented(name: str) -> None:
    sources = [path for path in PACKAGE.rglob("*.py") if path.name != "quirks.py"]
    assert any(f'quirk("{name}")' in path.read_text(encoding="utf-8") for path in sources)
    assert f"`{name}`" in (PACKAGE / "docs" / "quirks.md").read_text(encoding="utf-8")
