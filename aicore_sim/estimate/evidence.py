"""What measurements stand behind an estimate, in a sentence for each movement, card and SoC (spec hardware.md 4, 7, 11, 17)."""

from __future__ import annotations

from collections.abc import Sequence

from aicore_sim.cards import Card

_NONE_OF_CARD = {
    "atlas_200i": "No measurement of any kernel on Atlas 200I/500 A2 is public: configuration values and figures of A2.",
}
_A3 = "A3 rests on the micro-benchmark of one laboratory (910_9362, one core, GM to UB and back, LoadData2D of 512 B)."
_950DT = "Nothing measured on a 950DT is public: figures of the 950PR with the 950DT's memory rate."
_NO_TIMING = {
    "NdDma": "NDDMA has no public timing: its cache and rates are assumed",
    "Dn2Nz": "DN2NZ has no public timing: the cost of ND2NZ is taken",
    "NDDMA": "NDDMA has no public timing: its cache and rates are assumed",
    "DN2NZ": "DN2NZ has no public timing: the cost of ND2NZ is taken",
    "LoadDataWithTranspose": "LoadDataWithTranspose has no public timing: the rate of its page is taken",
}
_BY_PATH = {
    ("atlas_a2", "GM-UB"): "GM to UB: published copy and Add runs over all cores of a 910B1",
    ("atlas_a2", "UB-GM"): "UB to GM: published Add runs of a 910B1",
    ("atlas_a2", "GM-L1"): "GM to L1: published ND2NZ copies over all cores and a single-core matmul on A2, msKPP's 910B1 table",
    ("atlas_a2", "L1-L0A"): "L1 to L0A: published matmul runs of a 910B1, msKPP's table, documented rate",
    ("atlas_a2", "L1-L0B"): "L1 to L0B: published matmul runs of a 910B1, msKPP's table, documented rate",
    ("atlas_a2", "L0C-GM"): "L0C to GM: Fixpipe times of published 8192-cube matmuls on A2, half to ND",
    ("atlas_a3", "GM-UB"): "GM to UB: single copies that hit L2",
    ("atlas_a3", "UB-GM"): "UB to GM: single stores",
    ("atlas_a3", "L1-L0A"): "L1 to L0A: LoadData2D of 512 B with a barrier",
    ("atlas_a3", "L1-L0B"): "L1 to L0B: LoadData2D of 512 B with a barrier",
    ("atlas_350", "GM-UB"): "GM to UB: published copy and Add runs over all cores of a 950PR",
    ("atlas_350", "UB-GM"): "UB to GM: published Add runs of a 950PR",
    ("atlas_350", "GM-L1"): "GM to L1: published ND2NZ copies over all cores and a single-core matmul on a 950PR",
    ("atlas_350", "L1-L0A"): "L1 to L0A: published matmul runs of a 950PR, documented rate",
    ("atlas_350", "L1-L0B"): "L1 to L0B: published matmul runs of a 950PR, documented rate",
    ("atlas_350", "L0C-GM"): "L0C to GM: Fixpipe times of published 8192-cube matmuls on a 950PR, half to ND",
}


def measured_basis(card: Card, movements: Sequence[tuple[str, str]]) -> str:
    """Sentences on what was measured of `movements`, (name of the call, path) each, on this card and SoC."""
    words = [] if card.name in _NONE_OF_CARD else [_of(card, name, path) for name, path in movements]
    told = [f"{one}." for one in dict.fromkeys(words)]
    if card.name in _NONE_OF_CARD:
        told.append(_NONE_OF_CARD[card.name])
        told += [f"{text}." for key, text in _NO_TIMING.items() if any(key in name for name, _ in movements)]
    if card.name == "atlas_a3":
        told.append(_A3)
    if "950DT" in card.soc:
        told.append(_950DT)
    return " ".join(told)


def _of(card: Card, name: str, path: str) -> str:
    for key, text in _NO_TIMING.items():
        if key in name:
            return text
    found = _BY_PATH.get((card.name, path))
    return found or f"{path.replace('-', ' to ')}: no public measurement on this card, documented or assumed figures"
