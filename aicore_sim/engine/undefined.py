"""Undefined bytes that get out: into GM by a store, or into the kernel by a scalar load (spec coherence.md 7).

What stays in local memory is no finding: the junk rows of a tail tile are legal as long as nobody stores them. So the
engine looks at a store when it has landed, at the bytes it really wrote, and at a load when it has its value. GM has a shadow
only once undefined bytes may have reached it, so that a clean run pays for one comparison a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.audit import Audit
from aicore_sim.kernel.program import Entry
from aicore_sim.memory import Buffer, Bytes

if TYPE_CHECKING:
    from aicore_sim.engine.dcache import ScalarDCache

UNDEFINED_STORE, UNDEFINED_LOAD = "undefined-store", "undefined-load"
"""Kinds of the incidents: one for each run of undefined bytes, with what was delivered in `old`."""
MOST_RUNS = 256
"""Runs of undefined bytes that are filed for one store; a finding counts their bytes."""
SHOWN = 16
"""Bytes of a run that are kept."""


def undefined_runs(shadow: Bytes, base: int, runs: NDArray[np.int64], end: int) -> list[tuple[int, int]]:
    """[lo, hi) of the undefined stretches among the bytes of `runs` (`Transfer.src_runs` columns) from byte `base` on.

    Bytes from `end` on do not count. Ascending; stretches that touch are one.
    """
    found: list[NDArray[np.int64]] = []
    for row in runs:
        start, item = base + int(row[0]), int(row[1])
        shape, strides = tuple(int(n) for n in row[2::2]), tuple(int(s) for s in row[3::2])
        marks = np.ndarray((*shape, item), np.uint8, shadow.data, start, (*strides, 1))
        if marks.all():
            continue
        where = np.nonzero(marks == 0)
        found.append(start + where[-1] + sum(np.asarray(index * stride) for index, stride in zip(where, strides, strict=False)))
    if not found:
        return []
    places = np.unique(np.concatenate(found))
    places = places[places < end]
    if not places.size:
        return []
    cuts = np.flatnonzero(np.diff(places) > 1)
    firsts, lasts = places[np.r_[0, cuts + 1]], places[np.r_[cuts, places.size - 1]]
    return [(int(lo), int(hi) + 1) for lo, hi in zip(firsts, lasts, strict=True)]


def note_store(audit: Audit, core: int, entry: Entry) -> None:
    """File the undefined bytes that the landed effect of `entry` has written to an argument in GM."""
    op = entry.op
    assert op is not None
    buffer = entry.bufs[op.gm_operand]
    if buffer.shadow is None or op.gm_runs is None:
        return
    for lo, hi in undefined_runs(buffer.shadow, entry.offs[op.gm_operand], op.gm_runs, buffer.size)[:MOST_RUNS]:
        _file(audit, UNDEFINED_STORE, core, entry.seq, buffer, lo, hi)


def note_load(audit: Audit, core: int, entry: Entry, dcache: ScalarDCache) -> None:
    """File the undefined bytes that a scalar load has handed to the kernel; call it once the load has its value."""
    op = entry.op
    assert op is not None
    for operand, lo, hi in op.reads:
        buffer, start = entry.bufs[operand], entry.offs[operand] + lo
        marks = dcache.marks(buffer, start, hi - lo) if op.through == "dcache" else _marks(buffer, start, hi - lo)
        holes = np.flatnonzero(marks == 0) if marks is not None else np.zeros(0, np.int64)
        if holes.size:
            _file(audit, UNDEFINED_LOAD, core, entry.seq, buffer, start + int(holes[0]), start + int(holes[-1]) + 1)


def _marks(buffer: Buffer, start: int, nbytes: int) -> Bytes | None:
    return None if buffer.shadow is None else buffer.shadow[start : start + nbytes]


def _file(audit: Audit, kind: str, core: int, seq: int, buffer: Buffer, lo: int, hi: int) -> None:
    delivered = buffer.bytes()[lo : min(hi, lo + SHOWN)].tobytes()
    audit.incident(kind, core, seq, buffer.uid, lo, hi, old=delivered)
