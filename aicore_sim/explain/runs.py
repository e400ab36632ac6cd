"""Runs of an element map: neighbouring destination cells whose source cells lie at equal distances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Run(NamedTuple):
    """Cells `dst` .. `dst + cells - 1` come from `src`, `src + step`, ...; a single cell has step 1.

    For cells without a source `src` is their mark (UNTOUCHED, FILL, UNDEFINED) and `step` 0.
    """

    dst: int
    cells: int
    src: int
    step: int


def runs(origin: NDArray[np.int64], most: int | None = None) -> list[Run]:
    """The runs of `origin` from cell 0 on, marked cells too; the first `most` of them."""
    found: list[Run] = []
    size = origin.size
    if not size:
        return found
    steps = np.diff(origin)
    alike = (origin[1:] >= 0) == (origin[:-1] >= 0)
    # Cells where the step changes, or copied cells meet marked ones: a run that holds two cells ends at the next of these.
    turns = np.flatnonzero((steps[1:] != steps[:-1]) | ~alike[1:] | ~alike[:-1]) + 1
    at, turn = 0, 0
    while at < size and (most is None or len(found) < most):
        value = int(origin[at])
        if at + 1 >= size or not alike[at] or (value < 0 and steps[at]):
            found.append(Run(at, 1, value, 1 if value >= 0 else 0))
            at += 1
            continue
        while turn < turns.size and turns[turn] <= at:
            turn += 1
        last = int(turns[turn]) if turn < turns.size else size - 1
        found.append(Run(at, last - at + 1, value, int(steps[at])))
        at = last + 1
    return found
