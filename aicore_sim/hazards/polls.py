"""Words in GM that cores meet at: a kernel's loop that loads a word until another core has written it.

Such a load orders: it comes behind the store whose value it saw (spec coherence.md 3). A load is one of these if its line stands in
a `while` of the kernel's source; the word it waits for is a flag, not data, and takes part in no race.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.program import Events
from aicore_sim.instructions.base import Pipe

Ints = NDArray[np.int64]
Word = tuple[int, int]
"""Buffer uid and byte offset."""
_LOADS = ("GetValue", "ReadGmByPassDCache")


@dataclass(frozen=True, slots=True)
class SyncWords:
    """`edges` from the stores seen to the loads that saw them (positions); `rows` that access such a word."""

    edges: tuple[Ints, Ints]
    rows: Ints


def sync_words(facts: Facts, events: Events) -> SyncWords:
    """The polled words of a run."""
    none = np.zeros(0, np.int64)
    polls = _polls(facts)
    if not polls:
        return SyncWords((none, none), none)
    words = {facts.operands(row)[0]: facts.ops[int(facts.op[row])].nbytes for row in polls}
    stores, loads = _accesses(facts, words)
    cleaned = Cleaned(facts)
    start, core = facts.columns.start, facts.core
    # The scalar unit acts when its row begins, a pipe's bytes are there when its row ends.
    landed = np.where(facts.pipe == int(Pipe.S), start, facts.columns.end)
    pairs: list[tuple[int, int]] = []
    polling = set(polls)
    for word, readers in loads.items():
        arrivals = [w for row in stores[word] if (w := _arrival(facts, cleaned, row, word)) >= 0]
        arrivals.sort(key=lambda w: (int(landed[w]), w))
        ticks = landed[arrivals]
        mine: dict[int, list[int]] = defaultdict(list)
        for row in readers:
            mine[int(core[row])].append(row)
            if row in polling:
                looked = _filled(facts, cleaned, mine[int(core[row])], row, word)
                known = int(np.searchsorted(ticks, start[looked], side="right"))
                newest = next((w for w in arrivals[:known][::-1] if core[w] != core[row]), None)
                if newest is not None:
                    pairs.append((int(events.position[newest]), int(events.position[row])))
    both = np.array(pairs, np.int64).reshape(-1, 2)
    keep = both[both[:, 0] < both[:, 1]]
    rows = sorted({row for word in words for row in (*stores[word], *loads[word])})
    return SyncWords((keep[:, 0], keep[:, 1]), np.array(rows, np.int64))


def _polls(facts: Facts) -> list[int]:
    """Rows of scalar loads from GM inside a `while` of the kernel."""
    loops: dict[str, list[tuple[int, int]]] = {}
    found: list[int] = []
    for index, rows in facts.rows_of_op.items():
        if facts.ops[index].api not in _LOADS:
            continue
        for row in rows.tolist():
            file, line = facts.where(row)
            if file not in loops:
                loops[file] = _whiles(file)
            if facts.operands(row)[0][0] < 0 and any(lo <= line <= hi for lo, hi in loops[file]):
                found.append(row)
    return sorted(found)


def _whiles(file: str) -> list[tuple[int, int]]:
    """Line ranges of the `while` loops of a file that can be read."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree) if isinstance(node, ast.While)]


def _accesses(facts: Facts, words: dict[Word, int]) -> tuple[dict[Word, list[int]], dict[Word, list[int]]]:
    """Rows that store to, and scalar rows that load from, every word, in order of execution."""
    stores: dict[Word, list[int]] = {word: [] for word in words}
    loads: dict[Word, list[int]] = {word: [] for word in words}
    first, uid, offset = facts.audit.first, facts.audit.uid, facts.audit.offset
    by_buffer: dict[int, list[Word]] = defaultdict(list)
    for word in words:
        by_buffer[word[0]].append(word)
    for index, rows in facts.rows_of_op.items():
        op = facts.ops[index]
        directions = [(stores, True)] if op.writes else []
        directions += [(loads, False)] if op.pipe is Pipe.S else []
        rows = rows[first[rows + 1] > first[rows]]
        for buffer, there in by_buffer.items():
            mine = rows[uid[first[rows]] == buffer]
            if not mine.size:
                continue
            at = offset[first[mine]]
            for found, write in directions:
                for lo, hi in facts.pieces(index, 0, write).tolist():
                    for word in there:
                        hit = (at + lo < word[1] + words[word]) & (at + hi > word[1])
                        found[word].extend(mine[hit].tolist())
    for table in (stores, loads):
        for word, listed in table.items():
            table[word] = sorted(set(listed))
    return stores, loads


class Cleaned:
    """The calls of DataCacheCleanAndInvalid of a run, by core and line; those of a whole cache belong to every line."""

    def __init__(self, facts: Facts) -> None:
        self.line = int(facts.card.value("scalar.dcache_line"))
        self._rows: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self._whole: dict[int, list[int]] = defaultdict(list)
        for index, rows in facts.rows_of_op.items():
            op = facts.ops[index]
            if op.api != "DataCacheCleanAndInvalid" or op.through != "dcache":
                continue
            for row in rows.tolist():
                core, operands = int(facts.core[row]), facts.operands(row)
                if operands:
                    self._rows[core, operands[0][0], operands[0][1] // self.line].append(row)
                else:
                    self._whole[core].append(row)
        for listed in (*self._rows.values(), *self._whole.values()):
            listed.sort()

    def _lists(self, core: int, word: Word) -> tuple[list[int], list[int]]:
        return self._rows.get((core, word[0], word[1] // self.line), []), self._whole.get(core, [])

    def after(self, core: int, word: Word, row: int) -> int:
        """The first one behind `row`, -1 without."""
        found = [listed[at] for listed in self._lists(core, word) if (at := bisect_right(listed, row)) < len(listed)]
        return min(found, default=-1)

    def before(self, core: int, word: Word, row: int) -> int:
        """The last one in front of `row`, -1 without."""
        found = [listed[at - 1] for listed in self._lists(core, word) if (at := bisect_left(listed, row)) > 0]
        return max(found, default=-1)


def _arrival(facts: Facts, cleaned: Cleaned, row: int, word: Word) -> int:
    """The row at which a store has reached GM: itself, or the cleaning of its line; -1 if it is never cleaned."""
    if facts.ops[int(facts.op[row])].through != "dcache":
        return row
    return cleaned.after(int(facts.core[row]), word, row)


def _filled(facts: Facts, cleaned: Cleaned, loads: list[int], row: int, word: Word) -> int:
    """The row at which the bytes that a load delivers were taken from GM: its own, or that of the load that filled its line.

    `loads` are those of its core from this word, up to it.
    """
    if facts.ops[int(facts.op[row])].through != "dcache":
        return row
    return loads[bisect_right(loads, cleaned.before(int(facts.core[row]), word, row))]
