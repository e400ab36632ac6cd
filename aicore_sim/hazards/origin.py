"""Where undefined bytes come from: back from the instruction that let them out to the bytes that nobody wrote.

The engine knows which bytes were undefined; this finds the reason to name. It goes back through the instructions that wrote
them, in program order, byte by byte where the instruction says which byte comes from where, and stops at the first operand of
which some bytes were never written, or at padding that was left undefined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aicore_sim.hazards.facts import Facts
from aicore_sim.instructions.atomic import AtomicEffect
from aicore_sim.instructions.base import Effect, TransferEffect
from aicore_sim.instructions.cube_layout import fractal_rows, l0c_view
from aicore_sim.instructions.mmad_effect import MmadEffect
from aicore_sim.instructions.vector_effect import CountEffect
from aicore_sim.transfer import Copy, Fill, Transfer

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
NEVER_WRITTEN, PAD, TILE = "never written", "pad", "tile"
MOST_STEPS = 8
"""Instructions that are followed back, one behind the other."""
MOST_WRITERS = 4000
"""Rows that are looked at for the bytes of one operand; beyond it the reason stays unknown."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Bytes [lo, hi) of buffer `uid` and what is wrong with them: `why` is NEVER_WRITTEN, PAD (padding without a value) or TILE
    (past m or n of a Mmad). `row` wrote them, or wrote next to them last; -1: nobody did."""

    why: str
    uid: int
    lo: int
    hi: int
    row: int


def of_store(facts: Facts, row: int, undefined: list[tuple[int, int]]) -> Origin | None:
    """Why the bytes [lo, hi) of GM that `row` stored are undefined; None if no reason can be named."""
    op = facts.ops[int(facts.op[row])]
    _, base = facts.operands(row)[op.gm_operand]
    wanted = np.zeros(max(hi for _, hi in undefined) - base, np.bool_)
    for lo, hi in undefined:
        wanted[max(lo - base, 0) : hi - base] = True
    return _back(facts, row, op.gm_operand, wanted, MOST_STEPS)


def of_load(facts: Facts, row: int, uid: int, lo: int, hi: int) -> Origin | None:
    """Why the bytes that a scalar load of a local buffer met are undefined."""
    if facts.places[uid].kind == "GM":
        return None
    return _search(facts, row, uid, lo, np.ones(hi - lo, np.bool_), MOST_STEPS)


def _back(facts: Facts, row: int, operand: int, wanted: Bools, steps: int) -> Origin | None:
    """Go on from bytes of an operand that `row` wrote (relative to its start) to the ones it read for them."""
    if steps == 0:
        return None
    op = facts.ops[int(facts.op[row])]
    places = facts.operands(row)
    effect: Effect | None = op.effect.inner if isinstance(op.effect, AtomicEffect) else op.effect
    if isinstance(effect, TransferEffect) and _undefined_fill(effect.transfer, wanted):
        uid, base = places[operand]
        at = np.flatnonzero(wanted)
        return Origin(PAD, uid, base + int(at[0]), base + int(at[-1]) + 1, row)
    if isinstance(effect, MmadEffect) and not any(mask.any() for mask in _of_mmad(effect, wanted).values()):
        uid, base = places[operand]
        return Origin(TILE, uid, base, base + wanted.size, row)
    for index, read in _read_for(facts, row, effect, wanted).items():
        if not read.any():  # a fill has no source at all
            continue
        uid, base = places[index]
        if facts.places[uid].kind != "GM":
            found = _search(facts, row, uid, base, read, steps)
            if found is not None:
                return found
    return None


def _search(facts: Facts, row: int, uid: int, base: int, wanted: Bools, steps: int) -> Origin | None:
    """Bytes of a buffer, from `base` on, that nobody wrote before `row` read them; else why their writers left them so."""
    missing = wanted.copy()
    writers: list[tuple[int, int, Bools]] = []
    beside: list[tuple[int, Ints]] = []
    candidates = _writers(facts, row, uid)
    for writer in candidates[:MOST_WRITERS].tolist():
        spans = facts.touched(writer, uid, True) - base
        inside = spans[(spans[:, 1] >= 0) & (spans[:, 0] <= wanted.size)]
        if not len(inside):
            continue
        beside.append((writer, inside))
        hit = np.zeros(wanted.size, np.bool_)
        for lo, hi in np.clip(inside, 0, wanted.size).tolist():
            hit[lo:hi] = True
        hit &= missing
        if hit.any():
            writers.append((writer, base, hit))
            missing &= ~hit
            if not missing.any():
                break
    if missing.any():
        if candidates.size > MOST_WRITERS:
            return None
        at = np.flatnonzero(missing)
        last = int(at[np.flatnonzero(np.diff(at) > 1)[0]]) if (np.diff(at) > 1).any() else int(at[-1])
        return Origin(NEVER_WRITTEN, uid, base + int(at[0]), base + last + 1, _nearest(beside, writers, int(at[0]), last + 1))
    for writer, start, hit in writers:
        for index, (buffer, offset) in enumerate(facts.operands(writer)):
            if buffer != uid or not len(facts.pieces(int(facts.op[writer]), index, True)):
                continue
            mine = np.zeros(max(start + hit.size - offset, 0), np.bool_)
            shift = start - offset
            if shift >= 0:
                mine[shift : shift + hit.size] = hit
            else:
                mine[:] = hit[-shift : -shift + mine.size]
            found = _back(facts, writer, index, mine, steps - 1) if mine.any() else None
            if found is not None:
                return found
    return None


def _nearest(beside: list[tuple[int, Ints]], writers: list[tuple[int, int, Bools]], lo: int, hi: int) -> int:
    """The row to name beside bytes [lo, hi) that nobody wrote: one that wrote others of the operand before one that only ended
    or began there, then the closest, then the latest; -1 if there is none."""
    own = {row for row, _, _ in writers}
    ranks = [(row not in own, max(int(np.maximum(spans[:, 0] - hi, lo - spans[:, 1]).min()), 0)) for row, spans in beside]
    return beside[ranks.index(min(ranks))][0] if ranks else -1


def _writers(facts: Facts, row: int, uid: int) -> Ints:
    """Rows that had `uid` as an operand before `row`: of its core in program order, of others by time. Latest first."""
    rows = np.unique(np.searchsorted(facts.audit.first, np.flatnonzero(facts.audit.uid == uid), side="right") - 1)
    rows = rows[facts.op[rows] >= 0]
    own = facts.core[rows] == facts.core[row]
    c = facts.columns
    before = np.where(own, facts.seq[rows] < facts.seq[row], c.end[rows] <= c.start[row])
    rows = rows[before]
    latest: Ints = rows[np.lexsort((facts.seq[rows], c.start[rows] * ~own[before]))][::-1]
    return latest


# ---- which bytes an instruction read for those it wrote --------------------------------------------------------------
def _read_for(facts: Facts, row: int, effect: Effect | None, wanted: Bools) -> dict[int, Bools]:
    """Operand -> the bytes read, relative to its start: exactly for movements, Mmad and count forms, else all it reads."""
    if isinstance(effect, TransferEffect):
        found = _of_transfer(effect.transfer, wanted)
        if found is not None:
            return {1: found}
    if isinstance(effect, MmadEffect):
        return _of_mmad(effect, wanted)
    if isinstance(effect, CountEffect):
        return _of_count(effect, wanted)
    op = int(facts.op[row])
    read: dict[int, Bools] = {}
    for index in range(len(facts.operands(row))):
        spans = facts.pieces(op, index, False)
        if len(spans):
            mask = np.zeros(int(spans[:, 1].max()), np.bool_)
            for lo, hi in spans.tolist():
                mask[max(lo, 0) : hi] = True
            read[index] = mask
    return read


def _places(start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Ints:
    at = np.array(start, np.int64)
    for n, stride in zip(shape, strides, strict=True):
        at = at[..., None] + np.arange(n, dtype=np.int64) * stride
    return (at[..., None] + np.arange(item)).reshape(-1)


def _of_transfer(transfer: Transfer, wanted: Bools) -> Bools | None:
    read = np.zeros(max(transfer.src_range[1], 0), np.bool_)
    for step in transfer.steps:
        if isinstance(step, Copy):
            if step.nibble:
                return None
            to = _places(step.dst, step.shape, step.dst_strides, step.item)
            mine = (to >= 0) & (to < wanted.size)
            mine[mine] = wanted[to[mine]]
            at = _places(step.src, step.shape, step.src_strides, step.item)[mine]
            read[at[at >= 0]] = True
    return read


def _undefined_fill(transfer: Transfer, wanted: Bools) -> bool:
    for step in transfer.steps:
        if isinstance(step, Fill) and step.undefined:
            to = _places(step.dst, step.shape, step.dst_strides, step.item)
            if wanted[to[(to >= 0) & (to < wanted.size)]].any():
                return True
    return False


def _of_count(effect: CountEffect, wanted: Bools) -> dict[int, Bools]:
    bits = effect.dtypes[0].bits
    elements = np.unique(np.flatnonzero(wanted) * 8 // bits)
    read: dict[int, Bools] = {}
    for index in effect.inputs:
        width = effect.dtypes[index].bits
        mask = np.zeros(effect.dtypes[index].nbytes(effect.count) + 1, np.bool_)
        for byte in range(-(-width // 8)):
            at = elements * width // 8 + byte
            mask[at[at < mask.size]] = True
        read[index] = mask
    return read


def _of_mmad(effect: MmadEffect, wanted: Bools) -> dict[int, Bools]:
    """Rows and columns of the operands behind elements of C; nothing past m, n and k."""
    p = effect.p
    tile = np.zeros(effect.blocks_n * effect.pitch, np.uint8)
    size = min(tile.size, wanted.size)
    tile[:size] = wanted[:size]
    view = l0c_view(tile, 0, effect.blocks_n, effect.blocks_m * 16, effect.pitch, np.dtype(np.uint32)) != 0
    chosen = view[:, : p.m]
    rows = chosen.any(axis=(0, 2))
    columns = (chosen.any(axis=1)).reshape(-1)[: p.n]
    read: dict[int, Bools] = {}
    depth = (p.k * p.fm.bits + 7) // 8
    if not p.gemv:
        a, b = np.zeros(effect.a_bytes, np.uint8), np.zeros(effect.b_bytes, np.uint8)
        left = fractal_rows(a, 0, effect.blocks_m, effect._stride_a[0], effect.blocks_k, effect._stride_a[1], np.dtype(np.uint8))
        right = fractal_rows(b, 0, effect.blocks_n, 512, effect.blocks_k, effect.blocks_n * 512, np.dtype(np.uint8))
        for view_of, lines in ((left, rows), (right, columns)):
            full = np.zeros(view_of.shape[0] * 16, np.bool_)
            full[: lines.size] = lines
            deep = (np.arange(effect.blocks_k * 32) < depth).reshape(effect.blocks_k, 32)
            view_of[...] = full.reshape(view_of.shape[0], 16, 1, 1) & deep
        read[1], read[2] = a.view(np.bool_), b.view(np.bool_)
    else:
        read[1], read[2] = np.arange(effect.a_bytes) < depth * bool(rows.any()), np.zeros(0, np.bool_)
    if p.start == "C":
        read[0] = wanted[: tile.size]
    elif p.start in ("bias", "L0C"):
        start = 5 if p.mx else 3
        read[start] = np.repeat(columns, 4) if p.start == "bias" else wanted[: tile.size]
    return read
