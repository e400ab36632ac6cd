"""How far a result moves when the numbers behind it move within their ranges.

A card's number that no page documents carries the interval that its sources leave open. `spread` runs a measurement
once on a card that notes what it is asked for, then at both ends of the range of every such number, one at a time. The
numbers are taken to be wrong independently of each other: their deviations add as the root of the sum of squares,
downwards and upwards apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aicore_sim.card_model import WHOLE_UNITS
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError

Measure = Callable[[Card], Mapping[str, float]]
"""Results by name on the card given; every card must give the same names."""
OPEN = frozenset({"fitted", "assumed", "derived", "measured"})
"""Bases that take part. Documented numbers do not, nor do overrides: whoever sets a number knows it."""
NOMINAL = frozenset({"memory_rate"})
"""Nominal figures that only count multiplied by another number (`hbm.attainable`), whose range holds what is open of the
product: with both the same doubt would count twice."""


class Part(NamedTuple):
    """What one number does to a result: the result with the number at the lower and at the upper end of its range."""

    key: str
    at_low: float
    at_high: float


@dataclass(frozen=True)
class Interval:
    """Where a result may lie, in the result's unit.

    `dominated_by` is the dotted key of the number that moves it most, "" if none does; `parts` has every number that
    moves it, the largest move first.
    """

    low: float
    high: float
    dominated_by: str = ""
    parts: tuple[Part, ...] = ()


def spread(measure: Measure, card: Card) -> dict[str, Interval]:
    """The interval of each result of `measure`, which runs on `card` and on cards that differ from it in one number.

    Results may depend on nothing but the card. An end of a range that a rule of the card refuses is left out. Raises
    what `measure` raises, ConfigError on a changed card excepted.
    """
    return nominal_and_spread(measure, card)[1]


def nominal_and_spread(measure: Measure, card: Card) -> tuple[dict[str, float], dict[str, Interval]]:
    """As `spread`, with the results on `card` itself in front: they cost no run of their own."""
    watched, asked = card.tracking()
    nominal = dict(measure(watched))
    moved: dict[str, list[Part]] = {name: [] for name in nominal}
    for key in sorted(asked):
        ends = open_range(card, key)
        if ends is None:
            continue
        low, high = (_at(measure, card, key, end, nominal) for end in ends)
        for name, value in nominal.items():
            if not low[name] == high[name] == value:
                moved[name].append(Part(key, low[name], high[name]))
    return nominal, {name: combined(value, moved[name]) for name, value in nominal.items()}


def open_range(card: Card, key: str) -> tuple[float, float] | None:
    """The ends between which the number at a dotted key may lie; None where it is known, or no number at all."""
    try:
        number = card.number(key)
    except ConfigError:  # a policy, a flag or a set of ids
        return None
    if key in NOMINAL or number.basis not in OPEN or number.range is None:
        return None
    low, high = number.range
    if number.unit in WHOLE_UNITS:
        low, high = math.ceil(low), math.floor(high)
    return (low, high) if low < high else None


def _at(measure: Measure, card: Card, key: str, end: float, nominal: Mapping[str, float]) -> Mapping[str, float]:
    if end == card.value(key):
        return nominal
    try:
        return measure(card.changed({key: end}))
    except ConfigError:
        return nominal


def combined(value: float, parts: list[Part]) -> Interval:
    """The interval around `value`. Where both ends of a number move it to the same side, the larger move counts."""
    down = math.hypot(*(max(value - min(part[1:]), 0.0) for part in parts))
    up = math.hypot(*(max(max(part[1:]) - value, 0.0) for part in parts))
    order = sorted(parts, key=lambda part: (-max(abs(end - value) for end in part[1:]), part.key))
    return Interval(value - down, value + up, order[0].key if order else "", tuple(order))
