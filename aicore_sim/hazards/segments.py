"""Every buffer cut where an access begins or ends, so that an access is a list of whole segments.

The number of segments follows from how many different pieces are touched, not from bytes: tiles of a loop that come back to the
same places cost nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.edges import PRIMITIVES
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.program import Events

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bits = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses by event (`first`, over positions; reads before writes): `place` and `write`. A place is the ranges
    [`seg_lo`, `seg_hi`) of segments from `place_first` on. Segments have `seg_bytes`, and `seg_lasting` where their bytes
    outlive the kernel; `uids` and `starts` tell which buffer and byte."""

    first: Ints
    place: Small
    write: Bits
    place_first: Ints
    seg_lo: Small
    seg_hi: Small
    seg_bytes: Ints
    seg_lasting: Bits
    uids: Ints
    bases: Ints
    starts: Ints

    def where(self, segment: int) -> tuple[int, int]:
        """(buffer uid, byte) at which a segment begins."""
        which = int(np.searchsorted(self.bases, segment, side="right")) - 1
        return int(self.uids[which]), int(self.starts[segment])


def accesses_of(facts: Facts, events: Events, left_out: Ints) -> Accesses:
    """The accesses of all rows but `left_out` to buffers that somebody writes and that more than one event touches."""
    row, uid, offset, piece, write, spans = _collect(facts, left_out)
    order = np.lexsort((piece, offset, uid))
    row, uid, offset, piece, write = row[order], uid[order], offset[order], piece[order], write[order]
    cuts = np.flatnonzero(np.diff(uid)) + 1
    groups = [(int(lo), int(hi)) for lo, hi in zip([0, *cuts], [*cuts, uid.size], strict=True) if hi > lo]
    place = np.full(uid.size, -1, np.int64)
    counts: list[Ints] = []
    los: list[Ints] = []
    his: list[Ints] = []
    sizes: list[Ints] = []
    starts: list[Ints] = []
    uids: list[int] = []
    bases: list[int] = []
    places = segments = 0
    for lo, hi in groups:
        if not write[lo:hi].any():
            continue
        fresh = np.ones(hi - lo, np.bool_)
        fresh[1:] = (np.diff(offset[lo:hi]) != 0) | (np.diff(piece[lo:hi]) != 0)
        at = np.flatnonzero(fresh) + lo
        place[lo:hi] = places + np.cumsum(fresh) - 1
        length = np.array([len(spans[p]) for p in piece[at].tolist()], np.int64)
        both = np.concatenate([spans[p] for p in piece[at].tolist()]) + np.repeat(offset[at], length)[:, None]
        edge = np.unique(both)
        los.append(np.searchsorted(edge, both[:, 0]) + segments)
        his.append(np.searchsorted(edge, both[:, 1]) + segments)
        counts.append(length)
        starts.append(edge)
        sizes.append(np.append(np.diff(edge), 0))
        uids.append(int(uid[lo]))
        bases.append(segments)
        places += at.size
        segments += edge.size
    used = place >= 0
    at, place, write = events.position[row[used]], place[used], write[used]
    # An operand given twice is one access.
    _, once = np.unique((at * max(places, 1) + place) * 2 + write, return_index=True)
    once.sort()
    at, place, write = at[once], place[once], write[once]
    order = np.lexsort((write, at))
    at, place, write = at[order], place[order], write[order]
    lasting = [np.full(part.size, number < 0, np.int64) for part, number in zip(starts, uids, strict=True)]
    return Accesses(
        np.searchsorted(at, np.arange(len(events) + 1)), place.astype(np.int32), write.astype(np.uint8),
        np.concatenate([[0], np.cumsum(_joined(counts))]).astype(np.int64), _joined(los).astype(np.int32),
        _joined(his).astype(np.int32), _joined(sizes), _joined(lasting).astype(np.uint8), np.array(uids, np.int64),
        np.array(bases, np.int64), _joined(starts),
    )  # fmt: skip


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _collect(facts: Facts, left_out: Ints) -> tuple[Ints, Ints, Ints, Ints, NDArray[np.bool_], list[Ints]]:
    """Rows, buffers, offsets, numbers of piece lists, and directions of all accesses; the piece lists."""
    first, uid, offset = facts.audit.first, facts.audit.uid, facts.audit.offset
    numbers: dict[bytes, int] = {}
    spans: list[Ints] = []
    columns: list[tuple[Ints, Ints, Ints, Ints, NDArray[np.bool_]]] = []
    out = np.zeros(len(facts), np.bool_)
    out[left_out] = True
    for index, rows in facts.rows_of_op.items():
        op = facts.ops[index]
        if op.api in PRIMITIVES:
            continue
        rows = rows[~out[rows]]
        for write, hulls in ((False, op.reads), (True, op.writes)):
            for operand in sorted({number for number, _, _ in hulls}):
                having = rows[first[rows + 1] - first[rows] > operand]
                bytes_of = facts.pieces(index, operand, write)
                if not having.size or not len(bytes_of):
                    continue
                key = bytes_of.tobytes()
                if key not in numbers:
                    numbers[key] = len(spans)
                    spans.append(bytes_of)
                at = first[having] + operand
                columns.append((having, uid[at], offset[at], np.full(having.size, numbers[key], np.int64),
                                np.full(having.size, write, np.bool_)))  # fmt: skip
    if not columns:
        none = np.zeros(0, np.int64)
        return none, none, none, none, np.zeros(0, np.bool_), []
    row, where, start, piece, direction = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return row, where, start, piece, direction, spans
