"""Memories: global memory as separate allocations, and the local buffers of a core.

Bytes are the truth: a buffer is one numpy uint8 array. A second array of the same size, the shadow, marks the bytes that
were ever written (1) or are still undefined (0). With `data=False` a buffer has neither: only its size and address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.errors import CapacityError

Bytes = NDArray[np.uint8]

GM_BASE = 0x1000_0000_0000
"""Address of the first allocation; high, so that an offset is never mistaken for an address."""
GM_ALIGN = 512
GM_SLACK = 4096
"""Bytes behind every argument that still belong to its allocation (spec pyasc.md 13, Sizes)."""


class Buffer:
    """One physical memory of a core, or one allocation of global memory.

    `kind` is the hardware name (GM, UB, L1, L0A, L0B, L0C, BT, FB), `size` the bytes an access may use, `base` the
    device address of byte 0 (0 for local buffers). `data` and `shadow` are None without data; the shadow of GM is made
    only once undefined bytes reach it (`mark`), because host arrays arrive defined.
    """

    __slots__ = ("base", "data", "kind", "label", "readers", "shadow", "size", "slack", "uid", "writers")

    def __init__(
        self, kind: str, size: int, *, uid: int, label: str, base: int = 0, slack: int = 0, data: bool = True
    ) -> None:
        self.kind = kind
        self.size = size
        self.slack = slack
        self.uid = uid
        self.label = label
        self.base = base
        self.data: Bytes | None = np.zeros(size + slack, np.uint8) if data else None
        self.shadow: Bytes | None = np.zeros(size, np.uint8) if data and kind != "GM" else None
        self.writers: list[Any] = []
        self.readers: list[Any] = []
        """Effects of instructions in progress that write or read this buffer; kept by the engine."""

    def __repr__(self) -> str:
        return f"<{self.label} {self.kind} {self.size} B>"

    def bytes(self) -> Bytes:
        """The data array; only for runs with data."""
        assert self.data is not None, "this run carries no data"
        return self.data

    def mark_all(self) -> Bytes:
        """The shadow, created as all defined if the buffer had none."""
        if self.shadow is None:
            self.shadow = np.ones(self.size + self.slack, np.uint8)
        return self.shadow

    def is_defined(self, lo: int, hi: int) -> bool:
        """True if all bytes [lo, hi) were written."""
        return self.shadow is None or bool(self.shadow[lo:hi].view(np.bool_).all())


class GlobalMemory:
    """Device memory as a list of allocations with 512 B aligned, never overlapping addresses."""

    def __init__(self, data: bool = True) -> None:
        self.data = data
        self.allocations: list[Buffer] = []
        self._next = GM_BASE

    def allocate(self, nbytes: int, label: str) -> Buffer:
        """`nbytes` of zeroed memory with `GM_SLACK` bytes behind it.

        Raises CapacityError for an empty allocation.
        """
        if nbytes <= 0:
            raise CapacityError("an allocation needs at least one byte", field=label, value=nbytes, allowed=">= 1")
        buffer = Buffer("GM", nbytes, uid=-1 - len(self.allocations), label=label, base=self._next, slack=GM_SLACK,
                        data=self.data)  # fmt: skip
        self._next += -(-(nbytes + GM_SLACK) // GM_ALIGN) * GM_ALIGN
        self.allocations.append(buffer)
        return buffer

    def place(self, array: NDArray[Any], label: str) -> Buffer:
        """An allocation that holds the bytes of `array` in C order."""
        buffer = self.allocate(array.nbytes, label)
        if buffer.data is not None:
            buffer.data[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return buffer

    def fetch(self, buffer: Buffer, like: NDArray[Any]) -> NDArray[Any]:
        """The bytes of `buffer` as an array of the shape and type of `like`."""
        return buffer.bytes()[: like.nbytes].view(like.dtype).reshape(like.shape)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self.allocations)


def elements(buffer: Buffer, offset: int, dtype: DataType, count: int) -> NDArray[Any]:
    """A typed view of `count` elements at byte `offset` (8 bits and wider; raw words where numpy has no such type)."""
    kind = dtype.np_dtype if dtype.np_dtype is not None else np.dtype(np.uint8)
    return np.ndarray((count,), kind, buffer.bytes().data, offset)
