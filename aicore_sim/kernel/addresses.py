"""Addresses of local tensors as numbers that remember the element type they were taken from (spec pyasc.md 13).

pyasc finds the element type of a list of addresses by looking where they come from; so does this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aicore_sim.dtypes import DataType, uint64
from aicore_sim.errors import ParameterError
from aicore_sim.kernel.values import RuntimeInt
from aicore_sim.memory import Buffer

if TYPE_CHECKING:
    from aicore_sim.kernel.context import Recorder

_TABLE = "addresses"
"""Where a core's state keeps the addresses that `set_value` stored: (buffer, byte) -> LocalAddress."""


class LocalAddress(RuntimeInt):
    """A byte address in a local buffer. Arithmetic gives an address of unknown element type, as in pyasc."""

    dtype = uint64
    element: DataType | None

    def __new__(cls, value: int, element: DataType | None = None) -> LocalAddress:
        address = RuntimeInt.__new__(cls, value)
        address.element = element
        return address


class Place:
    """An address as an operand: no declared size, so that only the end of the buffer limits it."""

    __slots__ = ("buffer", "dtype", "kind", "offset", "size")

    def __init__(self, buffer: Buffer | None, offset: int, dtype: DataType) -> None:
        self.buffer = buffer
        self.offset = offset
        self.dtype = dtype
        self.kind = "UB"
        self.size = None


def remember(rec: Recorder, buffer: Buffer, byte: int, value: Any) -> None:
    """Note an address that is stored into a tensor; anything else stored there is forgotten."""
    if isinstance(value, LocalAddress):
        rec.state.setdefault(_TABLE, {})[buffer.uid, byte] = value
    elif _TABLE in rec.state:
        rec.state[_TABLE].pop((buffer.uid, byte), None)


def _stored(rec: Recorder, table: Any, count: int) -> list[LocalAddress | None]:
    noted = rec.state.get(_TABLE, {})
    return [noted.get((table.buffer.uid, table.offset + 8 * i)) for i in range(count)]


def element_of_table(rec: Recorder, table: Any, count: int) -> DataType | None:
    """The element type of the first address that was stored into a uint64 tensor; None if there is none."""
    for address in _stored(rec, table, count):
        if address is not None and address.element is not None:
            return address.element
    return None


def known_table(rec: Recorder, table: Any, count: int) -> list[int]:
    """The addresses that `set_value` stored, for runs without data. Raises ParameterError if one is missing."""
    found = _stored(rec, table, count)
    if None in found:
        raise ParameterError("no data in this run: the addresses in a tensor are known only if set_value stored them all",
                             field="data", value=False, allowed="a run with data=True", card=rec.card.name)  # fmt: skip
    return [int(address) for address in found if address is not None]
