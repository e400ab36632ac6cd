"""What the private caches deliver and what of it is reported, against an oracle that keeps the caches of every core in Python.

Random programs of two or three cores go in rounds, with a SyncAll between any two. In a round each core may store words (by MTE3
or by the scalar unit, cleaned) and read words (by NDDMA with or without NdDmaDci, by the scalar unit with or without invalidate).
A word is stored by one core in a round and not read in that round by anybody else, so that there is no race: all that can go
wrong is that somebody holds an old copy (spec coherence.md 2, 6).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import event, example, given
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.hazards.model import ERROR, NOTE, OBSERVED, WARNING, Hazard
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub

CARD = "atlas_350"
WORDS = 8
"""Words of a block: the unit of what is stored and read, 32 B."""
BLOCKS = 8
"""Blocks of x: two lines of the NDDMA cache of 128 B, four of the data cache of 64 B."""
NDDMA_LINE, SCALAR_LINE = 4, 2
"""Blocks in a line."""


@dataclass(frozen=True)
class Store:
    """A core stores block `block` in a round, all words of it the same value."""

    block: int
    scalar: bool


@dataclass(frozen=True)
class Read:
    """A core reads a block in a round; `drop`: it invalidates the cache (NDDMA) or the line (scalar) before."""

    block: int
    scalar: bool
    drop: bool


Step = Store | Read
Where = tuple[int, int, int]
"""(round, core, number of the step)."""
Program = list[list[list[Step]]]
"""[round][core][step]"""


# ---- the oracle -------------------------------------------------------------------------------------------------------
@dataclass
class Cached:
    """One core's private copies: line number -> the values of its blocks when it was filled."""

    nddma: dict[int, list[int]] = field(default_factory=dict)
    scalar: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """What a read is served, what GM holds, and what was stored last: not the same once an update has been lost."""

    where: Where
    scalar: bool
    got: int
    in_gm: int
    stored: int


def value_of(turn: int, core: int, number: int) -> int:
    """No two stores have the same value, and no byte of one is 0."""
    return 0x01010101 * (1 + turn) + 0x10101000 * (1 + core) + number


def predict(program: Program) -> tuple[list[Served], int]:
    """What every read gets, and how many stores undo somebody's else's in their line.

    Plain copies of lines, filled whole on a miss; nothing is ever replaced (8 blocks are far from 32 KB)."""
    memory = [-1 - block for block in range(BLOCKS)]
    stored = memory.copy()
    caches = [Cached() for _ in program[0]]
    served = []
    clobbers = 0
    for turn, cores in enumerate(program):
        for core, steps in enumerate(cores):
            mine = caches[core]
            for number, step in enumerate(steps):
                if isinstance(step, Store):
                    stored[step.block] = value_of(turn, core, number)
                    if step.scalar:
                        # A store fills the line; cleaning it writes the whole line back and drops it.
                        start = step.block // SCALAR_LINE * SCALAR_LINE
                        line = mine.scalar.pop(start, memory[start : start + SCALAR_LINE])
                        inside = step.block - start
                        clobbers += any(line[i] != memory[start + i] for i in range(SCALAR_LINE) if i != inside)
                        line[inside] = value_of(turn, core, number)
                        memory[start : start + SCALAR_LINE] = line
                    else:
                        memory[step.block] = value_of(turn, core, number)
                    continue
                size, held = (SCALAR_LINE, mine.scalar) if step.scalar else (NDDMA_LINE, mine.nddma)
                start = step.block // size * size
                if step.drop and step.scalar:
                    held.pop(start, None)
                elif step.drop:
                    held.clear()
                line = held.setdefault(start, memory[start : start + size])
                served.append(Served((turn, core, number), step.scalar, line[step.block - start],
                                     memory[step.block], stored[step.block]))  # fmt: skip
    return served, clobbers


# ---- the kernel -------------------------------------------------------------------------------------------------------
HEAD = """
@asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)
def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    core, tile = int(asc.get_block_idx()), ub(x.dtype, 0, WORDS)
"""
CLEAN = "asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, {at}); asc.data_sync_barrier(asc.MemDsbT.DDR)"
DRAIN = "asc.pipe_barrier(asc.PipeID.PIPE_ALL)"


def source_of(program: Program) -> tuple[str, dict[Where, int], dict[Where, int]]:
    """(a kernel with a line for every step, the line of each, where in y each read puts what it got: 64 B apart)."""
    text = HEAD.splitlines()
    lines: dict[Where, int] = {}
    places: dict[Where, int] = {}
    for turn, cores in enumerate(program):
        for core, steps in enumerate(cores):
            text += [f"    if core == {core}:", "        pass"]
            for number, step in enumerate(steps):
                where = turn, core, number
                at = f"gm(x, {step.block * WORDS})"
                before, behind = [], []
                if isinstance(step, Store) and step.scalar:
                    value = value_of(*where)
                    act = f"for i in range(WORDS): {at}.set_value(i, {value})"
                    behind = [CLEAN.format(at=at)]
                elif isinstance(step, Store):
                    before = [f"asc.duplicate(tile, {value_of(*where)}, WORDS)", DRAIN]
                    act = f"asc.data_copy({at}, tile, WORDS)"
                elif step.scalar:
                    before = [CLEAN.format(at=at)] if step.drop else []
                    act = f"got = {at}.get_value(0)"
                else:
                    before = ["asc.nd_dma_dci()"] if step.drop else []
                    act = f"asc.data_copy(tile, {at}, ROW)"
                if isinstance(step, Read):
                    places[where] = len(places)
                    out = f"gm(y, {places[where] * 16})"
                    behind = [f"{out}.set_value(0, got)" if step.scalar else f"{DRAIN}; asc.data_copy({out}, tile, WORDS)"]
                text += [f"        {one}" for one in (*before, act)]
                lines[where] = len(text)
                text += [f"        {one}" for one in (*behind, DRAIN)]
        text.append("    asc.sync_all()")
    return "\n".join(text) + "\n", lines, places


ROW = asc.NdDmaParams(asc.NdDmaLoopInfo((1,), (1,), (WORDS,), (0,), (0,)), 0)


def execute(program: Program) -> tuple[Run, dict[Where, int], dict[Where, int]]:
    """(run, what each read got, the line of each step)."""
    text, lines, places = source_of(program)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "random_kernel.py"
        file.write_text(text)
        names: dict[str, Any] = {"asc": asc, "gm": gm, "ub": ub, "WORDS": WORDS, "ROW": ROW}
        exec(compile(text, str(file), "exec"), names)
        x = np.repeat(-1 - np.arange(BLOCKS, dtype=np.int32), WORDS)
        y = np.zeros(16 * max(len(places), 1), np.int32)
        run = asc.simulate(names["kernel"], x, y, card=CARD, blocks=len(program[0]), auto_sync=False)
        assert len(run.hazards) >= 0  # found while the source can be read
    return run, {where: int(y[16 * i]) for where, i in places.items()}, lines


# ---- programs ---------------------------------------------------------------------------------------------------------
def random_program(seed: int, always_drop: bool = False) -> Program:
    """No races: in each round a line belongs to one core that may store in it, or to all that only read it.

    Drawn by seed, evenly: hypothesis would prefer short programs whose reads seldom find a line in a cache.
    """
    random = Random(seed)
    cores = random.choice((2, 3))
    found: Program = []
    for _ in range(random.randint(4, 7)):
        owners = [random.choice([*range(cores), None]) for _ in range(BLOCKS // NDDMA_LINE)]
        turn: list[list[Step]] = []
        for core in range(cores):
            own = [b for b in range(BLOCKS) if owners[b // NDDMA_LINE] == core]
            seen = [b for b in range(BLOCKS) if owners[b // NDDMA_LINE] in (core, None)]
            steps: list[Step] = []
            for _ in range(random.randint(1, 5) if seen else 0):
                scalar = random.random() < 0.5
                if own and random.random() < 0.5:
                    steps.append(Store(random.choice(own), scalar))
                else:
                    steps.append(Read(random.choice(seen), scalar, always_drop or random.random() < 0.3))
            turn.append(steps)
        found.append(turn)
    return found


programs = st.integers(0, 2**32).map(random_program)


def as_hex(value: int) -> str:
    return value.to_bytes(4, "little", signed=True).hex()


def lines_told(hazard: Hazard) -> set[int]:
    """The line of a stale read and those of the reads that belong to it."""
    also = hazard.detail.partition("so are the reads of lines ")[2]
    return {hazard.at.line, *map(int, re.findall(r"\d+", also))}


@example(random_program(731721))  # a warning, and behind it an error that it must not hide
@example(random_program(1395383))  # an update is lost, and a copy from before it is right
@given(programs)
def test_every_read_of_old_bytes_is_reported_and_no_other_is_an_error(program: Program) -> None:
    run, got, lines = execute(program)
    served, clobbers = predict(program)
    assert got == {one.where: one.got for one in served}
    for scalar, kind in ((True, "stale-dcache"), (False, "stale-nddma")):
        old = {lines[one.where]: (as_hex(one.got), as_hex(one.in_gm)) for one in served
               if one.scalar is scalar and one.got != one.in_gm}  # fmt: skip
        event(f"{kind}: {len(old)}")
        told = [h for h in run.hazards.of(kind) if h.verdict == OBSERVED]
        # A copy from before a lost update is not old: GM is.
        surely = {lines[one.where] for one in served if one.scalar is scalar and one.got not in (one.in_gm, one.stored)}
        assert surely <= {line for hazard in told for line in lines_told(hazard)}
        assert clobbers or {hazard.at.line for hazard in told} <= set(old)
        for hazard in told:
            assert (hazard.severity, hazard.tensor, hazard.ordered, hazard.visible) == (ERROR, "x", True, False)
            if hazard.old or not clobbers:  # a read that got equal bytes may stand for one that got old ones
                assert (hazard.old[:8], hazard.new[:8]) == old[hazard.at.line]
        # Whoever finds nothing old was not in danger either, since nothing is replaced and no two values are equal (unless a
        # lost update brings an old one back); but a call above the store that it should come behind is worth a warning.
        assert clobbers or {h.severity for h in run.hazards.of(kind) if h.verdict != OBSERVED} <= {WARNING}
    event(f"false-sharing: {clobbers}")
    told = run.hazards.of("false-sharing")
    assert any(h.verdict == OBSERVED for h in told) == bool(clobbers)
    assert clobbers or not told
    assert {h.kind for h in run.hazards if h.severity == ERROR} <= {"stale-dcache", "stale-nddma", "false-sharing"}


@given(st.integers(0, 2**32).map(partial(random_program, always_drop=True)))
def test_a_program_that_drops_before_every_read_is_clean(program: Program) -> None:
    run, got, _ = execute(program)
    served, clobbers = predict(program)
    assert got == {one.where: one.in_gm for one in served}
    if not clobbers:
        assert [(h.kind, h.at.line) for h in run.hazards if h.severity != NOTE] == []


@given(programs)
def test_a_program_that_only_reads_or_only_stores_is_clean(program: Program) -> None:
    for kept in (Read, Store):
        only: Program = [[[step for step in steps if isinstance(step, kept)] for steps in cores] for cores in program]
        run, _, _ = execute(only)
        assert [(h.kind, h.at.line) for h in run.hazards if h.severity != NOTE] == []
