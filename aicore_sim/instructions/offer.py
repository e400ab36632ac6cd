"""Whether a card offers a form of an API for a path and an element type, by the API list of the card file.

Refusals name the API in both spellings, the struct or form, and what the card has instead (`other_ways`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aicore_sim.card_model import ApiSupport
from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.other_ways import form_of, other_ways

_PYASC_NAMES = {
    "Copy": "te.copy", "DisableDmaAtomic": "set_atomic_none", "ReadGmByPassDCache": "read_gm_by_pass_dcache",
    "SetFixpipePreQuantFlag": "set_fix_pipe_pre_quant_flag", "WriteGmByPassDCache": "write_gm_by_pass_dcache",
}  # fmt: skip
"""Names that are not the mechanical snake_case of the C++ name."""


def python_name(api: str) -> str:
    """How a kernel writes an API: `LoadData` is `load_data`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", api)
    return _PYASC_NAMES.get(api, words.lower())


def both_names(api: str) -> str:
    """An API in both spellings: `LoadData (load_data)`."""
    return f"{api} ({python_name(api)})"


def type_names(dtype: DataType) -> str:
    """An element type in both spellings where they differ: `int8 (int8_t)`."""
    return dtype.name if dtype.name == dtype.api_name else f"{dtype.name} ({dtype.api_name})"


def check_offer(card: Card, name: str, variant: str, dtype: DataType | None) -> None:
    """Raise UnsupportedError unless some row of API `name` whose variant starts with `variant` is offered for `dtype`.

    A row without types takes any type, and `dtype=None` asks for the API alone; "b8" ... "b64" name every type of that
    width. Where widths are listed, 4-bit types pass too: their bytes are moved as they are (spec api_semantics.md 9.1).
    """
    rows = [row for row in card.api(name) if row.variant.startswith(variant) and row.supported]
    if not rows:
        raise not_offered(card, name, name, variant)
    if dtype is None or any(not row.dtypes for row in rows):
        return
    listed = [text for row in rows for text in row.dtypes]
    if not any(_names(text, dtype) for text in listed):
        raise wrong_type(card, name, form_of(name, variant).label, dtype, listed)


def not_offered(card: Card, api: str, name: str, variant: str, field: str = "api", value: str = "") -> UnsupportedError:
    """The refusal of a row that the card lacks: `api` is what the kernel called, `name` and `variant` are the row's."""
    label = form_of(name, variant).label
    what = f"{both_names(api)}: {label}" if label else both_names(api)
    shown = value or (label.split(" from ")[0] if field == "params" else api)
    return UnsupportedError(f"{what} is not offered on this card", field=field, value=shown,
                            allowed=other_ways(card, name, variant) or None, card=card.name)  # fmt: skip


def wrong_type(card: Card, api: str, label: str, dtype: DataType, listed: Sequence[str]) -> UnsupportedError:
    """The refusal of an element type by a form that the card offers for the types `listed`."""
    what = f"{both_names(api)}: {label}" if label else both_names(api)
    return UnsupportedError(f"{what} does not take element type {type_names(dtype)} on this card", field="dtype", value=dtype.name,
                            allowed=", ".join(dict.fromkeys(listed)), card=card.name)  # fmt: skip


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


# ---- by path --------------------------------------------------------------------------------------------------------
def paths_of(row: ApiSupport, card: Card) -> Iterator[str]:
    """Buffer pairs ("L1-L0A") of an API row. Its positions stand for their buffer: A1 and B1 are both L1 (spec 1.3)."""
    for text in row.paths:
        ends = text.split(" ")[0].split(">")
        if len(ends) == 2:
            yield "-".join("GM" if end == "GM" else card.position(end) for end in ends)


def require_rows(api: str, card: Card, name: str, variant: str | None) -> list[ApiSupport]:
    """The rows that the card offers of what a kernel calls `api`. Raises UnsupportedError where there is none."""
    rows = [row for row in card.api(name, variant) if row.supported]
    if not rows:
        raise not_offered(card, api, name, variant or "", "params" if form_of(name, variant or "").label else "api")
    return rows


def rows_for(api: str, card: Card, name: str, variant: str | None, path: str) -> list[ApiSupport]:
    """Rows of the card's API list that offer `path` ("L1-L0A"). Raises UnsupportedError where there is none."""
    rows = require_rows(api, card, name, variant)
    found = [row for row in rows if path in paths_of(row, card)]
    if not found:
        label = form_of(name, variant or "").label.split(" from ")[0]
        source, target = path.split("-")
        lacking = f"{source} to {target}"
        instead = other_ways(card, name, lacking) if form_of(name, lacking) is not form_of(name, "") else ""
        what = f"{both_names(api)}: {label}" if label else both_names(api)
        raise UnsupportedError(
            f"{what} does not go from {lacking} on this card", field="path", value=path, card=card.name,
            allowed="; ".join(filter(None, (", ".join(sorted({p for row in rows for p in paths_of(row, card)})), instead))),
        )  # fmt: skip
    return found


def require_dtype(api: str, card: Card, rows: Sequence[ApiSupport], dtype: DataType) -> None:
    """Raise UnsupportedError unless one of the rows lists the element type (by name or as b8, b16, b32)."""
    listed = sorted({name for row in rows for name in row.dtypes})
    if dtype.api_name not in listed and f"b{dtype.bits}" not in listed:
        raise wrong_type(card, api, form_of(rows[0].name, rows[0].variant).label, dtype, listed)
