"""`layout-mismatch`: Mmad reads fractals in an order, or with a pitch, that their loads did not lay down (pitfalls P10, P15).

Every 32 B block of L0A and L0B is followed back through its loads to the GM bytes it came from. The rows and columns of a tile of
one matrix lie at constant distances there. If they do so not where Mmad looks for them but where the other order of fractals has
them (ZZ for NZ, or the reverse), or if what Mmad takes for the next column of fractals is a lower part of the same one, or the
lower rows are the next column, the loads and the Mmad disagree. Anything else, blocks of unknown origin above all, is left alone:
rows may be gathered, columns reordered on both sides, maps read as img2col.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import ERROR, OBSERVED, Hazard
from aicore_sim.instructions.base import GmTraffic, Op, TransferEffect
from aicore_sim.instructions.mmad_effect import MmadEffect
from aicore_sim.transfer import Copy, Transfer

Ints = NDArray[np.int64]
KIND = "layout-mismatch"
BLOCK, SIDE = 32, 16
FRACTAL = BLOCK * SIDE
UNKNOWN = -1
MOST_MMADS = 1024
"""Mmads that are looked at: the first of every combination of instructions and addresses."""
MOST_WRITERS = 512
"""Loads that are followed back for one operand."""
ORDER, SHORT, LONG = "order", "short", "long"


def find(facts: Facts) -> list[Hazard]:
    """One finding for each kernel line of a Mmad and operand."""
    chains = _Chains(facts)
    found: dict[tuple[int, int], tuple[int, str, int]] = {}
    for row in _candidates(facts):
        effect = facts.ops[int(facts.op[row])].effect
        assert isinstance(effect, MmadEffect)
        for operand in (1, 2):
            uid, offset = facts.operands(row)[operand]
            own, other = _places(effect, operand)
            why = mismatch(*chains.tags(uid, offset, effect.a_bytes if operand == 1 else effect.b_bytes, row), own, other)
            if why:
                key = (int(facts.columns.line[row]), operand)
                first, kind, count = found.get(key, (row, why, 0))
                found[key] = (first, kind, count + 1)
    return [_hazard(facts, chains, row, operand, why, count) for (_, operand), (row, why, count) in found.items()]


# ---- the check -------------------------------------------------------------------------------------------------------
def mismatch(tags: Ints, calls: Ints, own: Ints, other: Ints) -> str:
    """What is wrong with a tile: ORDER, SHORT (the reader's pitch is shorter than the writer's), LONG, or "" for nothing known.

    `tags` are the GM addresses of the 32 B blocks as they lie in L0, `calls` the ND2NZ calls (row) that cut them out of a matrix,
    UNKNOWN for other copies; both UNKNOWN where there is no origin. `own` are the blocks [row, column of fractals] where Mmad
    looks for them, `other` where the other order has them.
    """
    if tags.size == 0 or own.max() >= tags.size:
        return ""
    grid, cut_by = tags[own], calls[own]
    if (grid == UNKNOWN).any() or own.shape[0] < 2 or own.shape[1] < 2:
        return ""
    lines, columns = np.diff(grid, axis=0), np.diff(grid, axis=1)
    pitch, step = int(lines[0, 0]), int(columns[0, 0])
    regular = bool((lines == pitch).all() and (columns == step).all())
    single = bool((cut_by == cut_by[0, 0]).all()) and int(cut_by[0, 0]) != UNKNOWN
    if single and step != BLOCK:
        jumps = np.flatnonzero(lines[:, 0] != pitch)
        if not jumps.size and step == -(-own.shape[0] // SIDE) * SIDE * pitch:
            # The column begins where the reader's first one ends, in the middle of the writer's.
            return ORDER if _regular(tags, other) else SHORT
        if jumps.size and jumps[0] > 0 and int(grid[jumps[0] + 1, 0]) == int(grid[0, 0]) + BLOCK:
            return ORDER if _regular(tags, other) else LONG
    if regular:
        return ""
    return ORDER if _regular(tags, other) else ""


def _regular(tags: Ints, where: Ints) -> bool:
    """True if the blocks of this order are a tile of one matrix, rows and columns at their own constant distances."""
    if where.max() >= tags.size:
        return False
    grid = tags[where]
    if (grid == UNKNOWN).any():
        return False
    lines, columns = np.diff(grid, axis=0), np.diff(grid, axis=1)
    return bool((lines == lines[0, 0]).all() and (columns == BLOCK).all() and lines[0, 0] != 0)


def _places(effect: MmadEffect, operand: int) -> tuple[Ints, Ints]:
    """Blocks of 32 B [row, column of fractals] of a tile of A or B in the order that Mmad expects, and in the other one."""
    p = effect.p
    if operand == 1:
        high, lines, first = effect.blocks_m, p.m, p.zz
        columns = p.a_columns or effect.blocks_k
    else:
        high, lines, first, columns = effect.blocks_n, p.n, False, effect.blocks_k
    line = np.arange(lines)
    block, inside = line // SIDE, line % SIDE
    depth = np.arange(effect.blocks_k)
    by_rows = (block[:, None] * columns + depth) * SIDE + inside[:, None]
    by_columns = (depth * high + block[:, None]) * SIDE + inside[:, None]
    return (by_rows, by_columns) if first else (by_columns, by_rows)


# ---- where blocks come from ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Moves:
    """Blocks that a movement writes, in the order of writing: byte of the block and of its source from the operands' starts;
    the source is UNKNOWN where a block is put together from pieces."""

    to: Ints
    at: Ints


class _Chains:
    """Follows blocks of local buffers back to GM. Everything is remembered: calls repeat."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._moves: dict[int, _Moves | None] = {}
        self._writers: dict[int, tuple[Ints, Ints]] = {}
        self._known: dict[int, tuple[Ints, Ints]] = {}

    def writers(self, uid: int, row: int) -> Ints:
        """Rows of the core that wrote buffer `uid` (as first operand) before `row`, latest first."""
        found = self._writers.get(uid)
        facts = self.facts
        if found is None:
            at = np.flatnonzero(facts.audit.uid == uid)
            rows = np.searchsorted(facts.audit.first, at, side="right") - 1
            rows = rows[(facts.audit.first[rows] == at) & (facts.op[rows] >= 0)]
            rows = rows[np.argsort(facts.seq[rows], kind="stable")]
            found = self._writers[uid] = (rows, facts.seq[rows])
        rows, order = found
        end = int(np.searchsorted(order, facts.seq[row]))
        return rows[max(end - MOST_WRITERS, 0) : end][::-1]

    def last_loads(self, row: int, operand: int) -> int:
        """The row that wrote the operand of `row` last; -1 if none did."""
        uid, _ = self.facts.operands(row)[operand]
        rows = self.writers(uid, row)
        return int(rows[0]) if rows.size else -1

    def tags(self, uid: int, lo: int, nbytes: int, row: int) -> tuple[Ints, Ints]:
        """GM address of every 32 B block of bytes [lo, lo + nbytes) before `row`, and the ND2NZ call (row) that
        put it there, UNKNOWN where there is none."""
        count = -(-nbytes // BLOCK)
        tags = np.full(count, UNKNOWN, np.int64)
        calls = np.full(count, UNKNOWN, np.int64)
        missing = np.ones(count, np.bool_)
        for writer in self.writers(uid, row).tolist():
            moves = self.moves(int(self.facts.op[writer]))
            places = self.facts.operands(writer)
            if moves is None:
                for first, last in (self.facts.touched(writer, uid, True) - lo).tolist():
                    missing[max(first // BLOCK, 0) : max(-(-last // BLOCK), 0)] = False
            else:
                at = places[0][1] + moves.to - lo
                if (at % BLOCK).any():
                    break
                at //= BLOCK
                mine = (at >= 0) & (at < count)
                mine[mine] = missing[at[mine]]
                if mine.any():
                    tags[at[mine]], calls[at[mine]] = self._sources(writer, moves, mine)
                    missing[at[mine]] = False
            if not missing.any():
                break
        return tags, calls

    def _sources(self, writer: int, moves: _Moves, mine: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Tags of the blocks of one movement that are asked for."""
        found = self._known.get(writer)
        if found is None:
            found = self._known[writer] = self._all_sources(writer, moves)
        return found[0][mine], found[1][mine]

    def _all_sources(self, writer: int, moves: _Moves) -> tuple[Ints, Ints]:
        facts = self.facts
        known = moves.at != UNKNOWN
        tags = np.full(moves.at.size, UNKNOWN, np.int64)
        if not known.any():  # a fill has no source at all
            return tags, tags.copy()
        uid, offset = facts.operands(writer)[1]
        place = facts.places[uid]
        if place.kind == "GM":
            tags[known] = place.base + offset + moves.at[known]
            cost = facts.ops[int(facts.op[writer])].cost
            nd2nz = isinstance(cost, GmTraffic) and cost.layout == "nd2nz"
            return tags, np.full(tags.size, writer if nd2nz else UNKNOWN, np.int64)
        calls = np.full(tags.size, UNKNOWN, np.int64)
        if not ((offset + moves.at[known]) % BLOCK).any():
            first = int(moves.at[known].min())
            behind = self.tags(uid, offset + first, int(moves.at[known].max()) + BLOCK - first, writer)
            index = (moves.at[known] - first) // BLOCK
            tags[known], calls[known] = behind[0][index], behind[1][index]
        return tags, calls

    def moves(self, op: int) -> _Moves | None:
        """What an Op (by index) does to blocks; None if it is no movement."""
        if op not in self._moves:
            self._moves[op] = blocks_moved(self.facts.ops[op])
        return self._moves[op]


def blocks_moved(op: Op) -> _Moves | None:
    """Blocks of a movement of whole blocks, or of rows that start at blocks; None for anything else."""
    if not isinstance(op.effect, TransferEffect) or len(op.writes) != 1:
        return None
    transfer: Transfer = op.effect.transfer
    to: list[Ints] = []
    at: list[Ints] = []
    for step in transfer.steps:
        if isinstance(step, Copy):
            if step.nibble:
                return None
            starts, sources = _starts(step.dst, step.shape, step.dst_strides), _starts(step.src, step.shape, step.src_strides)
            within = np.arange(0, step.item, BLOCK)
            starts, sources = (starts[:, None] + within).reshape(-1), (sources[:, None] + within).reshape(-1)
        else:
            # A fill behind a row leaves the row what it is; one from the start of a block on is of nobody.
            starts = _starts(step.dst, step.shape, step.dst_strides)
            starts = (starts[:, None] + np.arange(0, step.item, BLOCK)).reshape(-1)
            starts = starts[starts % BLOCK == 0]
            sources = np.full(starts.size, UNKNOWN, np.int64)
        inside = starts % BLOCK != 0
        to.append(starts - starts % BLOCK)
        at.append(np.where(inside, UNKNOWN, sources))
    if not to:
        return None
    where, source = np.concatenate(to), np.concatenate(at)
    # What is written last stays; a block of several pieces is of unknown origin.
    places, index = np.unique(where[::-1], return_index=True)
    source = source[::-1][index]
    return _Moves(places, source)


def _starts(first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Ints:
    at = np.array(first, np.int64)
    for n, stride in zip(shape, strides, strict=True):
        at = at[..., None] + np.arange(n, dtype=np.int64) * stride
    return at.reshape(-1)


# ---- which Mmads -----------------------------------------------------------------------------------------------------
def _candidates(facts: Facts) -> list[int]:
    """The first Mmad of every combination of instruction and addresses, and the ones behind every new load."""
    products = np.array([isinstance(op.effect, MmadEffect) and not op.effect.p.gemv for op in facts.ops], np.bool_)
    loads = np.array([_loads(op) for op in facts.ops], np.bool_)
    if not products.any():
        return []
    executed = np.flatnonzero(facts.op >= 0)
    mmads, others = (executed[kind[facts.op[executed]]] for kind in (products, loads))
    chosen = set(_first_of_each(facts, mmads, 3).tolist())
    new = _first_of_each(facts, others, 2)
    for core in np.unique(facts.core[mmads]).tolist():
        mine = mmads[facts.core[mmads] == core]
        mine = mine[np.argsort(facts.seq[mine], kind="stable")]
        at = np.searchsorted(facts.seq[mine], facts.seq[new[facts.core[new] == core]])
        for ahead in (0, 1):
            chosen.update(mine[at[at + ahead < mine.size] + ahead].tolist())
    return sorted(chosen)[:MOST_MMADS]


def _loads(op: Op) -> bool:
    return isinstance(op.effect, TransferEffect) and op.path.endswith(("-L1", "-L0A", "-L0B"))


def _first_of_each(facts: Facts, rows: Ints, operands: int) -> Ints:
    """The first row of each combination of instruction and byte offsets of its first operands."""
    first = facts.audit.first[rows]
    key = facts.op[rows].astype(np.uint64)
    for i in range(operands):
        # Which part of GM it is makes no new combination.
        local = facts.audit.uid[first + i] >= 0
        key = key * np.uint64(0x9E3779B97F4A7C15) + np.where(local, facts.audit.offset[first + i], 0).astype(np.uint64)
    return rows[np.unique(key, return_index=True)[1]]


# ---- report ----------------------------------------------------------------------------------------------------------
def _hazard(facts: Facts, chains: _Chains, row: int, operand: int, why: str, count: int) -> Hazard:
    at = facts.party(row)
    load = chains.last_loads(row, operand)
    other = facts.party(load) if load >= 0 else None
    uid, offset = facts.operands(row)[operand]
    place = facts.places[uid]
    wanted, held = _orders(facts, row, operand)
    by = f"{other.api} (line {other.line})" if other is not None else "its load"
    if why == ORDER:
        detail = f"{at.api} reads {place.label} as {wanted}; {by} laid its fractals down as {held}"
        fix = f"load {place.kind} as {wanted}: this card's Mmad wants it so"
    else:
        relation = "shorter" if why == SHORT else "longer"
        detail = (f"{at.api} reads {place.label} with columns of fractals that are {relation} than {by} and the loads before it"
                  " made them")  # fmt: skip
        fix = "take the pitch of the tile that was loaded: row blocks of the tail, rounded up, in load and Mmad alike"
    effect = facts.ops[int(facts.op[row])].effect
    assert isinstance(effect, MmadEffect)
    nbytes = effect.a_bytes if operand == 1 else effect.b_bytes
    return Hazard(KIND, ERROR, OBSERVED, at, detail, fix, place.label, offset, nbytes, count, other)


def _orders(facts: Facts, row: int, operand: int) -> tuple[str, str]:
    """The order of fractals that Mmad wants, and the other one."""
    if operand == 2:
        return "ZN", "NN"
    effect = facts.ops[int(facts.op[row])].effect
    assert isinstance(effect, MmadEffect)
    return ("ZZ", "NZ") if effect.p.zz else ("NZ", "ZZ")
