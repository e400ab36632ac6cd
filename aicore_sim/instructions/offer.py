"""Whether a card offers a form of an API for an element type, by the API list of the card file."""

from __future__ import annotations

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError


def check_offer(card: Card, name: str, variant: str, dtype: DataType | None, instead: str = "") -> None:
    """Raise UnsupportedError unless some row of API `name` whose variant starts with `variant` is offered for `dtype`.

    `instead` names another way for the error of an API that the card lacks.

    A row without types takes any type, and `dtype=None` asks for the API alone; "b8" ... "b64" name every type of that
    width. Where widths are listed, 4-bit types pass too: their bytes are moved as they are (spec api_semantics.md 9.1).
    """
    rows = [row for row in card.api(name) if row.variant.startswith(variant) and row.supported]
    what = f"{name} ({variant})" if variant else name
    if not rows:
        raise UnsupportedError(f"{what} is not offered on this card", field="api", value=name,
                               allowed=instead or None, card=card.name)  # fmt: skip
    if dtype is None or any(not row.dtypes for row in rows):
        return
    listed = [text for row in rows for text in row.dtypes]
    if not any(_names(text, dtype) for text in listed):
        raise UnsupportedError(
            f"{what} does not take this element type",
            field="dtype",
            value=dtype.name,
            allowed=", ".join(dict.fromkeys(listed)),
            card=card.name,
        )


def _names(text: str, dtype: DataType) -> bool:
    """True if an entry of the list stands for `dtype`; "source*destination" pairs count where both are `dtype`."""
    sides = set(text.split("*"))
    if len(sides) != 1:
        return False
    side = sides.pop()
    if side[:1] == "b" and side[1:].isdigit():
        return int(side[1:]) == dtype.bits or (side == "b8" and dtype.bits == 4)
    try:
        return DataType(side) is dtype
    except ParameterError:
        return False
