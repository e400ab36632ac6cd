"""The slow account of a copy that property tests compare with: byte by byte, by hand."""

from __future__ import annotations

import numpy as np

from tests.stage import Stage


class Picture:
    """What source and destination of a call hold before it, and what the test says the call makes of the destination."""

    def __init__(self, stage: Stage, dst: str = "dst", src: str = "src") -> None:
        self.name = dst
        self.src, self.src_known = stage.bytes(src), stage.defined(src)
        self.dst, self.known = stage.bytes(dst), stage.defined(dst)
        self.open = np.zeros(self.dst.size, np.bool_)
        """Bytes that the call leaves undefined."""

    def copy(self, to: int, of: int, nbytes: int) -> None:
        for i in range(nbytes):
            self.dst[to + i] = self.src[of + i]
            self.known[to + i] = self.src_known[of + i]
            self.open[to + i] = not self.src_known[of + i]

    def put(self, to: int, values: bytes) -> None:
        for i, value in enumerate(values):
            self.dst[to + i], self.known[to + i], self.open[to + i] = value, True, False

    def fill(self, to: int, nbytes: int, element: bytes) -> None:
        for at in range(to, to + nbytes, len(element)):
            self.put(at, element)

    def undefined(self, to: int, nbytes: int) -> None:
        self.known[to : to + nbytes] = False
        self.open[to : to + nbytes] = True

    def check(self, stage: Stage) -> None:
        """Assert that the destination holds this, byte by byte, undefined ones aside."""
        found = stage.bytes(self.name)
        np.testing.assert_array_equal(np.where(self.open, 0, found), np.where(self.open, 0, self.dst))
        np.testing.assert_array_equal(stage.defined(self.name), self.known)


def up(value: int, unit: int = 32) -> int:
    """`value` rounded up to a multiple of `unit`."""
    while value % unit:
        value += 1
    return value
