"""Unit flags of L0C that stay up: `unit-flag-left` (spec api_semantics.md 17.3).

A Mmad with unit flag 3 raises the bits of its blocks and finds them down, a Fixpipe with 3 lowers them and finds them up. So a
bit is up where more Mmads than Fixpipes with 3 have worked on its block; the order of the two pipes does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aicore_sim.engine.unit_flags import BLOCK, Blocks, UnitFlags, whole_fractals
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import POSSIBLE, WARNING, Hazard
from aicore_sim.instructions.base import Pipe

Ints = NDArray[np.int64]
LEFT = "unit-flag-left"


def find(facts: Facts) -> list[Hazard]:
    """One hazard for each line of a Mmad whose bits are up when a block is over."""
    groups: dict[int, list[tuple[int, Ints]]] = {}
    for core in range(facts.cores):
        ends = sorted(end.seq for end in facts.audit.ends if end.core == core)
        for left in left_up(facts, core, ends):
            for row, blocks in left.items():
                groups.setdefault(int(facts.columns.line[row]), []).append((row, blocks))
    return [_hazard(facts, sorted(group, key=lambda one: one[0])) for group in groups.values()]


def left_up(facts: Facts, core: int, ends: list[int]) -> Iterator[dict[int, Ints]]:
    """At each of these places in the program of a core: the blocks of L0C whose bits are up, by the Mmad that raised them."""
    turning = np.array([op.unit_flag == 3 for op in facts.ops] + [False])  # the last for rows without an Op
    rows = np.flatnonzero((facts.core == core) & turning[facts.op])
    if not rows.size:
        return
    rows = rows[np.argsort(facts.seq[rows], kind="stable")]
    flags = UnitFlags(max(place.size for place in facts.places.values() if place.kind == "L0C"))
    up, last = np.zeros(flags.up.size, np.int64), np.full(flags.up.size, -1, np.int64)
    known: dict[tuple[int, int], Blocks] = {}
    for part in np.split(rows, np.searchsorted(facts.seq[rows], ends))[: len(ends)]:
        for row in part.tolist():
            index = int(facts.op[row])
            writer = facts.ops[index].pipe is Pipe.M
            key = index, facts.operands(row)[0 if writer else 1][1]
            where = known.get(key)
            if where is None:
                where = known[key] = flags.blocks(spans_of(facts, row))
            up[where] += 1 if writer else -1
            if writer:
                last[where] = row
        left = np.flatnonzero(up > 0)
        yield {int(row): left[last[left] == row] for row in np.unique(last[left])}


def spans_of(facts: Facts, row: int) -> list[tuple[int, int]]:
    """The bytes of L0C whose bits an instruction goes by (`engine.pipes`)."""
    op = facts.ops[int(facts.op[row])]
    side = 0 if op.pipe is Pipe.M else 1
    base = facts.operands(row)[side][1]
    spans = [(base + lo, base + hi) for index, lo, hi in (op.writes if side == 0 else op.reads) if index == side]
    return spans if side == 0 else whole_fractals(spans)


def _hazard(facts: Facts, group: list[tuple[int, Ints]]) -> Hazard:
    row, blocks = group[0]
    at, reader = facts.party(row), reader_of(facts, row, blocks)
    what = f"the unit flags of L0C blocks {int(blocks[0])}..{int(blocks[-1])} ({blocks.size} of {BLOCK} B) stay up"
    other = facts.party(reader) if reader >= 0 else None
    if other is None:
        why, fix = f"no Fixpipe takes what {at.api} left there with unit flag 3", "read the tile by a Fixpipe with unit_flag=3"
    elif (value := facts.ops[int(facts.op[reader])].unit_flag) == 3:
        why = f"{other.api} in line {other.line} reads less than {at.api} in line {at.line} has written"
        fix = f"give {other.api} in line {other.line} the m and n of its Mmad"
    else:
        why = f"{other.api} in line {other.line} reads them with unit flag {value}, which leaves them as they are"
        fix = f"give {other.api} in line {other.line} unit_flag=3"
    return Hazard(LEFT, WARNING, POSSIBLE, at, f"{what}: {why}; the next Mmad with a unit flag there waits for ever", fix,
                  count=len(group), other=other)  # fmt: skip


def reader_of(facts: Facts, row: int, blocks: Ints) -> int:
    """The first Fixpipe behind a Mmad that reads the blocks, else one with 3 that reads others of its tile; -1 for none."""
    later = (facts.core == facts.core[row]) & (facts.pipe == int(Pipe.FIX)) & (facts.op >= 0) & (facts.seq > facts.seq[row])
    rows = np.flatnonzero(later & (np.diff(facts.audit.first) > 1))
    rows = rows[np.argsort(facts.seq[rows], kind="stable")]
    mine = [(BLOCK * int(block), BLOCK * int(block) + BLOCK) for block in blocks]
    for wanted, values in ((mine, (0, 2, 3)), (spans_of(facts, row), (3,))):
        for other in rows.tolist():
            reads = facts.ops[int(facts.op[other])].unit_flag in values and spans_of(facts, other)
            if reads and any(a < d and c < b for a, b in reads for c, d in wanted):
                return int(other)
    return -1
