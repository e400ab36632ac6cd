"""Words in GM that cores meet at: a kernel's loop that loads a word until another core has written it.

Such a load orders: it comes behind the store whose value it saw (spec coherence.md 3). A load is one of these if its line stands in
a `while` of the kernel's source; the word it waits for is a flag, not data, and takes part in no race.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.program import Events
from aicore_sim.instructions.base import Pipe

Ints = NDArray[np.int64]
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
    words: dict[tuple[int, int], int] = {}
    for row in polls:
        uid, offset = facts.operands(row)[0]
        words[uid, offset] = facts.ops[int(facts.op[row])].nbytes
    stores, loads = _accesses(facts, words)
    cleaned = _cleaned(facts)
    line = int(facts.card.value("scalar.dcache_line"))
    start, core = facts.columns.start, facts.core
    # The scalar unit acts when its row begins, a pipe's bytes are there when its row ends.
    landed = np.where(facts.pipe == int(Pipe.S), start, facts.columns.end)
    pairs: list[tuple[int, int]] = []
    polling = set(polls)
    for word, readers in loads.items():
        arrivals = [(int(landed[w]), w) for row in stores[word] for w in _arrival(facts, cleaned, row, word, line)]
        for row in readers:
            if row not in polling:
                continue
            looked = _filled(facts, cleaned, readers, row, word, line)
            seen = [w for tick, w in arrivals if tick <= start[looked] and core[w] != core[row]]
            if seen:
                newest = max(seen, key=lambda w: (int(landed[w]), w))
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


def _accesses(
    facts: Facts, words: dict[tuple[int, int], int]
) -> tuple[dict[tuple[int, int], list[int]], dict[tuple[int, int], list[int]]]:
    """Rows that store to, and scalar rows that load from, every word, in order of execution."""
    stores: dict[tuple[int, int], list[int]] = defaultdict(list)
    loads: dict[tuple[int, int], list[int]] = defaultdict(list)
    first, uid = facts.audit.first, facts.audit.uid
    buffers = {word[0] for word in words}
    for index, rows in facts.rows_of_op.items():
        op = facts.ops[index]
        scalar = op.pipe is Pipe.S
        if not op.writes and not scalar:
            continue
        rows = rows[first[rows + 1] > first[rows]]
        operand = 0
        for row in rows[np.isin(uid[first[rows] + operand], list(buffers))].tolist():
            buffer, offset = facts.operands(row)[operand]
            for word, nbytes in words.items():
                if word[0] != buffer:
                    continue
                for write in (True, False):
                    spans = facts.pieces(index, operand, write) + offset
                    if len(spans) and bool(((spans[:, 0] < word[1] + nbytes) & (spans[:, 1] > word[1])).any()):
                        (stores if write else loads)[word].append(row)
    for found in (stores, loads):
        for rows_of_word in found.values():
            rows_of_word.sort()
    return stores, loads


def _cleaned(facts: Facts) -> dict[int, list[int]]:
    """Rows of DataCacheCleanAndInvalid of every core, ascending."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, rows in facts.rows_of_op.items():
        if facts.ops[index].api == "DataCacheCleanAndInvalid" and facts.ops[index].through == "dcache":
            for row in rows.tolist():
                found[int(facts.core[row])].append(row)
    for rows_of_core in found.values():
        rows_of_core.sort()
    return found


def _covers(facts: Facts, row: int, word: tuple[int, int], line: int) -> bool:
    """Whether a DataCacheCleanAndInvalid concerns the line of `word`."""
    operands = facts.operands(row)
    return not operands or (operands[0][0] == word[0] and operands[0][1] // line == word[1] // line)


def _arrival(facts: Facts, cleaned: dict[int, list[int]], row: int, word: tuple[int, int], line: int) -> list[int]:
    """The row at which a store has reached GM: itself, or the cleaning of its line; none if it is never cleaned."""
    if facts.ops[int(facts.op[row])].through != "dcache":
        return [row]
    return [at for at in cleaned[int(facts.core[row])] if at > row and _covers(facts, at, word, line)][:1]


def _filled(facts: Facts, cleaned: dict[int, list[int]], readers: list[int], row: int, word: tuple[int, int], line: int) -> int:
    """The row at which the bytes that a load delivers were taken from GM: its own, or that of the load that filled its line."""
    if facts.ops[int(facts.op[row])].through != "dcache":
        return row
    core = int(facts.core[row])
    dropped = max((at for at in cleaned[core] if at < row and _covers(facts, at, word, line)), default=-1)
    return next(at for at in readers if at > dropped and int(facts.core[at]) == core)
