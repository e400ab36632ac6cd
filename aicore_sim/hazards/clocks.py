"""Vector clocks over the events of a run, and the bytes they meet at (numba).

A clock says, for every thread, how many of its events are known to be complete. An event of thread b comes after event
number i of thread a if b's clock has reached i for a when it starts. A clock is joined along the edges (edges.py); an
instruction of a pipe counts as complete for its own pipe only behind a barrier or a round trip of flags.

Bytes are cut where any access begins or ends ("segments"), so that each holds one last writer and one list of readers.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Bits = NDArray[np.uint8]

RAW, WAR, WAW = 0, 1, 2
# Attributes of an event that the hardware's own order depends on.
SCALAR, BARRIER, SYNCED, IS_V, IS_M, TEN_BLOCKS = 1, 2, 4, 8, 16, 32
NONE = -1
MOST_FINDINGS = 4096
"""Pairs of source lines that are reported as racing."""


@njit(cache=True)  # type: ignore[untyped-decorator]
def _ordered_by_hardware(a: int, b: int, thread: Small, core: Small, attr: Bits, unit_flag: Bits, atomic: Small, v_after_v: bool,
                         kind: int) -> bool:  # fmt: skip
    """Whether events a and b, a first, keep their order without any call (`engine.landing.hardware_order`, spec 17 to 19).

    Inside a pipe a read comes before a later write: reads are taken while the instruction holds the pipe.
    """
    if core[a] != core[b]:
        return bool(kind == WAW and atomic[a] != 0 and atomic[a] == atomic[b])
    if attr[a] & SCALAR and attr[b] & SCALAR:
        return True
    if thread[a] == thread[b]:
        if kind == WAR:
            return True
        if attr[a] & IS_V:
            return v_after_v
        if attr[a] & IS_M:
            return bool((unit_flag[a] == 3 and unit_flag[b] >= 2) or attr[a] & TEN_BLOCKS)
        return bool(kind == WAW and atomic[a] != 0 and atomic[a] == atomic[b])
    return bool(unit_flag[a] >= 2 and unit_flag[b] >= 2)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _longer(table: Small, used: int) -> Small:
    """A table of twice the rows that begins like this one."""
    more = np.zeros((2 * table.shape[0], table.shape[1]), np.int32)
    for row in range(used):
        for column in range(table.shape[1]):
            more[row, column] = table[row, column]
    return more


@njit(cache=True)  # type: ignore[untyped-decorator]
def _note(
    found: Ints, count: int, known: Small, key: int, one: int, two: int, kind: int, segment: int, nbytes: int, seen: bool,
    signalled: bool,
) -> int:
    """Count a race; the first one of its `key` gets a row of (one, two, kind, segment, bytes, count, observed, last,
    signalled).

    Returns the number of rows so far; where the table is full, further pairs of lines are left out.
    """
    at = known[key]
    if at == NONE:
        if count == found.shape[0]:
            return count
        at = count
        known[key] = at
        found[at, 0] = one
        found[at, 1] = two
        found[at, 2] = kind
        found[at, 3] = segment
        found[at, 7] = NONE
        count += 1
    if found[at, 0] == one and found[at, 1] == two:
        found[at, 4] += nbytes
    if found[at, 7] != two:
        found[at, 7] = two
        found[at, 5] += 1
    if seen:
        found[at, 6] = 1
    if signalled:
        found[at, 8] = 1
    return count


@njit(cache=True)  # type: ignore[untyped-decorator]
def _link(
    nodes: Small, used: int, spare: int, event: int, behind: int, served: bool
) -> tuple[Small, int, int, int]:  # fmt: skip
    """Put `event` in front of the list `behind`; rows of `nodes` are (event, next, served, event and served of the node
    before). Returns (nodes, used, spare, its node)."""
    if spare != NONE:
        node = spare
        spare = nodes[node, 1]
    else:
        if used == nodes.shape[0]:
            nodes = _longer(nodes, used)
        node = used
        used += 1
    nodes[node, 0] = event
    nodes[node, 1] = behind
    nodes[node, 2] = served
    nodes[node, 3] = NONE
    return nodes, used, spare, node


@njit(cache=True)  # type: ignore[untyped-decorator]
def _drop(nodes: Small, spare: int, head: int) -> int:
    """Give a whole list back; returns the new list of spare nodes."""
    while head != NONE:
        following = nodes[head, 1]
        nodes[head, 1] = spare
        spare = head
        head = following
    return spare


@njit(cache=True)  # type: ignore[untyped-decorator]
def _overwritten(nodes: Small, spare: int, head: int, event: int, clock: Small, thread: Small, index: Small) -> tuple[int, int]:
    """Keep of the readers `head` of a segment those that its new writer `event` follows by what the clocks know.

    They stay because a later write without order need not be a finding of its own against this writer (local memory, atomics),
    but is one against them. Readers in a race with `event` are told, those before it by hardware are behind it for good; what
    `event` has read itself makes way for the reader before it on the same thread. Returns (spare nodes, head).
    """
    kept = NONE
    while head != NONE:
        following = nodes[head, 1]
        if nodes[head, 0] == event:
            nodes[head, 0] = nodes[head, 3]
            nodes[head, 2] = nodes[head, 4]
            nodes[head, 3] = NONE
        one = nodes[head, 0]
        if one != NONE and (thread[one] == thread[event] or clock[thread[one]] >= index[one]):
            nodes[head, 1] = kept
            kept = head
        else:
            nodes[head, 1] = spare
            spare = head
        head = following
    return spare, kept


@njit(cache=True)  # type: ignore[untyped-decorator]
def _named(
    before: int, event: int, before_writes: bool, writes: bool, served: bool, passed: bool, core: Small, seq: Ints, site: Small
) -> tuple[int, int, int]:
    """Which of two events without order came first in the sense of the program, and what that makes of them: (one, two, kind).

    Inside a core program order tells. Between cores a write is set against a read: it overwrites what had been handed over if the
    reader was `served` by, or has `passed`, an earlier write that is ordered before it; else the reader came too early. Of two
    writes the one that stands first in the text is first.
    """
    if core[before] == core[event]:
        swap = seq[before] > seq[event]
    elif before_writes == writes:
        swap = site[before] > site[event]
    else:
        swap = passed if before_writes else not served
    if before_writes and writes:
        kind = WAW
    else:
        kind = RAW if before_writes != swap else WAR
    if swap:
        return event, before, kind
    return before, event, kind


@njit(cache=True)  # type: ignore[untyped-decorator]
def _seen(kind: int, one: int, two: int, start: Ints, free: Ints, end: Ints) -> bool:
    """Whether, in this run, `two` was served or landed before `one` was done with the bytes."""
    landing = start[two] + end[two] - free[two]
    if kind == RAW:
        return bool(start[two] < end[one])
    if kind == WAR:
        return bool(landing < free[one])
    return bool(end[two] < end[one] or landing < end[one])


@njit(cache=True)  # type: ignore[untyped-decorator]
def walk(
    visit: Small, thread: Small, clock_of: Small, loose_of: Small, core: Small, attr: Bits, unit_flag: Bits, atomic: Small,
    seq: Ints, edge_first: Ints, edge_source: Ints, refs: Small, keep: Small, kept: int, threads: int, v_after_v: bool,
    acc_first: Ints, acc_place: Small, acc_write: Bits, place_first: Ints, seg_lo: Small, seg_hi: Small, seg_bytes: Ints,
    seg_lasting: Bits, site: Small, sites: int, start: Ints, free: Ints, end: Ints,
) -> tuple[Small, Small, Ints]:  # fmt: skip
    """Go through all events once, in the order `visit`. Arrays are over positions unless named otherwise.

    `thread` numbers an event, `clock_of` is the thread whose clock it goes by, `loose_of` that core's thread of loose
    accesses. Edges are grouped by target; `refs` counts how often an event is a source. `keep` numbers the `kept` events whose
    clock is wanted. Accesses are grouped by event, reads first; a place is a list of segment ranges [lo, hi). A write over a
    write counts when somebody reads the bytes, at once where they are lasting (GM). `site` stands for the source line and pipe.

    Returns (number of every event in its thread, clocks of the kept events at their start, findings as `_note` keeps them).
    A finding is `signalled` if the second event knows of something that the first one's clock did later: a scalar store
    that was not waited for.
    """
    count = thread.size
    current = np.zeros((threads, threads), np.int32)
    number = np.zeros(threads, np.int32)
    index = np.zeros(count, np.int32)
    issued = np.zeros(count, np.int32)
    clocks = np.zeros((kept, threads), np.int32)
    slot_of = np.full(count, NONE, np.int32)
    slots = np.zeros((64, threads), np.int32)
    unused = np.zeros(64, np.int32)
    for k in range(64):
        unused[k] = k
    left = 64

    segments = seg_bytes.size
    writer = np.full(segments, NONE, np.int32)
    older = np.full(segments, NONE, np.int32)
    reader = np.full(segments, NONE, np.int32)
    atoms = np.full(segments, NONE, np.int32)
    clash = np.full(segments, NONE, np.int32)
    nodes = np.zeros((1024, 5), np.int32)
    used = 0
    spare = NONE

    known = np.full(sites * sites * 3 + 1, NONE, np.int32)
    found = np.zeros((MOST_FINDINGS, 9), np.int64)
    findings = 0

    for p in visit:
        mine = clock_of[p]
        for e in range(edge_first[p], edge_first[p + 1]):
            source = edge_source[e]
            s = slot_of[source]
            if s != NONE:
                for k in range(threads):
                    if slots[s, k] > current[mine, k]:
                        current[mine, k] = slots[s, k]
                refs[source] -= 1
                if refs[source] == 0:
                    unused[left] = s
                    left += 1
                    slot_of[source] = NONE
        own = thread[p]
        flags = attr[p]
        if flags & BARRIER:
            current[mine, own] = number[own]
        if keep[p] != NONE:
            for k in range(threads):
                clocks[keep[p], k] = current[mine, k]

        for a in range(acc_first[p], acc_first[p + 1]):
            writes = acc_write[a] != 0
            place = acc_place[a]
            for r in range(place_first[place], place_first[place + 1]):
                for g in range(seg_lo[r], seg_hi[r]):
                    last = writer[g]
                    for which in range(3):
                        # 0: against the last writer; 1: against readers (of a write); 2: atomic writers before the last.
                        if which == 1 and not writes:
                            continue
                        chain = reader[g] if which == 1 else atoms[g] if which == 2 else NONE
                        first_time = which == 0
                        while (first_time and last != NONE) or chain != NONE:
                            before = last if first_time else nodes[chain, 0]
                            served = which == 1 and nodes[chain, 2] != 0
                            if not first_time:
                                chain = nodes[chain, 1]
                            first_time = False
                            if before == p:
                                continue
                            if core[before] == core[p] and attr[before] & SCALAR and flags & SCALAR:
                                continue
                            if current[mine, thread[before]] >= index[before]:
                                continue
                            passed = which == 0 and older[g] != NONE and current[mine, thread[older[g]]] >= index[older[g]]
                            one, two, kind = _named(before, p, which != 1, writes, served, passed, core, seq, site)
                            if _ordered_by_hardware(one, two, thread, core, attr, unit_flag, atomic, v_after_v, kind):
                                continue
                            if kind == WAW and not seg_lasting[g]:
                                clash[g] = before
                                continue
                            key = (site[one] * sites + site[two]) * 3 + kind
                            told = before == one and current[mine, clock_of[one]] > issued[one]
                            findings = _note(found, findings, known, key, one, two, kind, g, seg_bytes[g],
                                             _seen(kind, one, two, start, free, end), told)  # fmt: skip
                    if writes:
                        if atomic[p] != 0 and last != NONE and last != p and atomic[last] == atomic[p]:
                            nodes, used, spare, atoms[g] = _link(nodes, used, spare, last, atoms[g], False)
                        elif last != p:
                            spare = _drop(nodes, spare, atoms[g])
                            atoms[g] = NONE
                        spare, reader[g] = _overwritten(nodes, spare, reader[g], p, current[mine], thread, index)
                        if last != p:
                            if clash[g] != last:
                                clash[g] = NONE
                            older[g] = last
                            writer[g] = p
                        continue
                    if clash[g] != NONE:
                        # Somebody reads what two writes without order have left.
                        one, two = clash[g], last
                        if core[one] == core[two] and seq[one] > seq[two]:
                            one, two = two, one
                        key = (site[one] * sites + site[two]) * 3 + WAW
                        findings = _note(found, findings, known, key, one, two, WAW, g, seg_bytes[g],
                                         _seen(WAW, one, two, start, free, end), False)  # fmt: skip
                        clash[g] = NONE
                    served = last != NONE and current[mine, thread[last]] >= index[last]
                    node = reader[g]
                    while node != NONE and thread[nodes[node, 0]] != own:
                        node = nodes[node, 1]
                    if node != NONE:
                        if nodes[node, 0] != p:
                            nodes[node, 3] = nodes[node, 0]
                            nodes[node, 4] = nodes[node, 2]
                        nodes[node, 0] = p
                        nodes[node, 2] = served
                    else:
                        nodes, used, spare, reader[g] = _link(nodes, used, spare, p, reader[g], served)

        issued[p] = number[mine]
        number[own] += 1
        index[p] = number[own]
        if flags & SCALAR:
            current[mine, mine] = number[mine]
            if flags & SYNCED:
                current[mine, loose_of[p]] = number[loose_of[p]]
        if refs[p] > 0:
            if left == 0:
                size = slots.shape[0]
                slots = _longer(slots, size)
                unused = np.zeros(2 * size, np.int32)
                for k in range(size):
                    unused[k] = size + k
                left = size
            left -= 1
            s = unused[left]
            slot_of[p] = s
            for k in range(threads):
                slots[s, k] = current[mine, k]
            if not flags & SCALAR:
                slots[s, own] = number[own]
    return index, clocks, found[:findings]
