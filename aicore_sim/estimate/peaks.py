"""The highest rate that each link of a chain can have, from the card's numbers."""

from __future__ import annotations

from collections.abc import Sequence

from aicore_sim.cards import Card

_API = {
    "LoadData2D": "LoadData2D", "LoadData2DParams": "LoadData2D", "LoadData3D": "LoadData3DV2",
    "LoadData3DParamsV2": "LoadData3DV2", "LoadDataWithTranspose": "LoadDataWithTranspose",
}  # fmt: skip
"""Words in names of calls -> rows of `paths.PATH.api`; other calls run at the rate of the path."""


def narrowest_gbps(card: Card, movements: Sequence[tuple[str, str]], blocks: int, cold: bool) -> float:
    """The lowest peak among `movements` ((name of the call, path) each) over `blocks` cores, 1e9 bytes per second.

    Ports and on-chip paths count for every core, L2 for all together. The nominal memory rate counts where a `cold` source is
    read: L2 keeps stores, and what a chain stores and reads again is there.
    """
    rates = [_peak(card, name, path, blocks) for name, path in movements]
    if cold and movements[0][1].startswith("GM-"):
        rates.append(card.memory_rate_gbps)
    return min(rates)


def _peak(card: Card, name: str, path: str, blocks: int) -> float:
    per_core = card.clock_mhz / 1e3 * blocks
    if path in card.gm:
        level = "read_rate" if path.startswith("GM-") else "write_rate"
        return min(card.value(f"gm.{path}.port_rate") * per_core, card.value(f"l2.{level}"))
    rows = {row for word, row in _API.items() if word in name.split()}
    return card.path_number(path, "rate", next(iter(rows), None)) * per_core
