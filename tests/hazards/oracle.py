"""Random programs, and who races with whom in them by transitive closure of a graph drawn from their text.

Independent of the checker: no run, no clocks, no last writers. Every instruction has a start and an end; a pipe starts its entries
in order, a set fires when what its pipe was given before it has ended, a wait starts when its set has fired, a barrier separates
ends from starts (spec api_semantics.md 11.2, 11.3, 11.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

import aicore_sim as asc
from aicore_sim.launch import Run
from tests.engine.engine_helpers import gm, ub

TILES, PLACES, PIECES, UNIT = 2, 3, 4, 64
"""Tiles in the UB of each core, places in GM that all cores share, pieces of both, float32 elements of a piece."""
TILE = PIECES * UNIT
PIPES = ("MTE2", "V", "MTE3")
EVENTS = tuple(f"{a}_{b}" for a in PIPES for b in PIPES if a != b)
FILE = "<random program>"
Span = tuple[str, int, int, bool]
Statement = tuple[Any, ...]
"""("load" | "store" | "adds" | "add", tile, other, first, count), ("set" | "wait", event, id), ("barrier", pipe), ("all",) or
("meet",)."""


def pipe_of(statement: Statement) -> str:
    what = statement[0]
    if what in ("set", "wait"):
        return str(statement[1].split("_")[what == "wait"])
    return {"load": "MTE2", "store": "MTE3", "barrier": statement[-1]}.get(what, "V")


def spans(core: int, statement: Statement) -> list[Span]:
    """(memory, first piece, end, written) of an instruction; "add": tile += tile `other`."""
    what, tile, other, first, count = statement
    own, place = (f"ub{core}.{tile}", first, first + count), (f"gm.{other}", first, first + count)
    return {
        "load": [(*own, True), (*place, False)], "store": [(*own, False), (*place, True)],
        "add": [(*own, True), (*own, False), (f"ub{core}.{other}", first, first + count, False)],
    }.get(what, [(*own, True), (*own, False)])  # fmt: skip


# ---- drawing --------------------------------------------------------------------------------------------------------
@st.composite
def instruction(draw: Callable[..., Any]) -> Statement:
    what = draw(st.sampled_from(["load", "load", "store", "store", "adds", "add"]))
    first = draw(st.integers(0, PIECES - 1))
    other = draw(st.integers(0, (TILES if what == "add" else PLACES) - 1))
    return what, draw(st.integers(0, TILES - 1)), other, first, draw(st.integers(1, PIECES - first))


@st.composite
def core_program(draw: Callable[..., Any], meets: int) -> list[Statement]:
    """Instructions of one core with sets, waits and barriers between them; a wait stands somewhere behind its set."""
    work = draw(st.lists(instruction(), min_size=1, max_size=7))
    at: list[tuple[int, int, Statement]] = [(2 * i + 1, 0, one) for i, one in enumerate(work)]
    top = 2 * len(work)
    used: dict[str, int] = {}
    for event in draw(st.lists(st.sampled_from(EVENTS), max_size=6)):
        ident = used[event] = used.get(event, -1) + 1
        set_at = draw(st.integers(0, len(work))) * 2
        at.append((set_at, 0, ("set", event, ident)))
        at.append((draw(st.integers(set_at // 2, len(work))) * 2, 1, ("wait", event, ident)))
    for pipe in draw(st.lists(st.sampled_from([*PIPES, "all"]), max_size=2)):
        at.append((draw(st.integers(0, top // 2)) * 2, 2, ("all",) if pipe == "all" else ("barrier", pipe)))
    for place in sorted(draw(st.lists(st.integers(0, top // 2), min_size=meets, max_size=meets))):
        at.append((2 * place, 3, ("meet",)))
    return [one for _, _, one in sorted(at, key=lambda item: item[:2])]


@st.composite
def programs(draw: Callable[..., Any], cores: int = 1) -> list[list[Statement]]:
    meets = draw(st.integers(0, 2)) if cores > 1 else 0
    return [draw(core_program(meets)) for _ in range(cores)]


# ---- running --------------------------------------------------------------------------------------------------------
def inline(statement: Statement) -> str:
    """The call as source text, with the names of the instruction spelt out so that its line is the kernel's own."""
    what, *rest = statement
    if what in ("set", "wait"):
        return f"asc.{what}_flag(asc.HardEvent.{rest[0]}, {rest[1]})"
    if what == "barrier":
        return f"asc.pipe_barrier(asc.PipeID.PIPE_{rest[0]})"
    if what in ("all", "meet"):
        return "asc.pipe_barrier(asc.PipeID.PIPE_ALL)" if what == "all" else "asc.sync_all()"
    tile, other, first, count = rest
    n = count * UNIT
    own = f"ub(x.dtype, {tile * TILE + first * UNIT}, {n})"
    place = f"gm(x, {other * TILE + first * UNIT})"
    return {
        "load": f"asc.data_copy({own}, {place}, {n})", "store": f"asc.data_copy({place}, {own}, {n})",
        "add": f"asc.add({own}, {own}, ub(x.dtype, {other * TILE + first * UNIT}, {n}), {n})",
    }.get(what, f"asc.adds({own}, {own}, {float(other)}, {n})")  # fmt: skip


Where = tuple[int, int]
"""Core and number of the statement in its program."""


def kernel(program: list[list[Statement]]) -> tuple[Any, dict[int, Where]]:
    """The kernel that runs a program, and the statement behind each of its lines."""
    lines = ["def kernel(x):", "    me = int(asc.get_block_idx())",
             f"    asc.duplicate(ub(x.dtype, 0, {TILES * TILE}), 0.0, {TILES * TILE})",
             "    asc.pipe_barrier(asc.PipeID.PIPE_ALL)"]  # fmt: skip
    where: dict[int, Where] = {}
    for core, statements in enumerate(program):
        lines.append(f"    if me == {core}:")
        for number, statement in enumerate(statements):
            lines.append(f"        {inline(statement)}")
            where[len(lines)] = (core, number)
    space: dict[str, Any] = {"asc": asc, "gm": gm, "ub": ub}
    exec(compile("\n".join(lines), FILE, "exec"), space)
    return asc.jit(kernel_type=asc.KernelType.MIX_AIV_1_0)(space["kernel"]), where


def start() -> Any:
    return (np.arange(PLACES * TILE) % 97 + 1).astype(np.float32)


def play(program: list[list[Statement]], x: Any = None, **options: Any) -> tuple[Run, dict[int, Where]]:
    made, where = kernel(program)
    run = asc.simulate(made, start() if x is None else x, blocks=len(program), auto_sync=False, **options)
    return run, where


# ---- the graph ------------------------------------------------------------------------------------------------------
Piece = tuple[str, int]
Pairs = dict[frozenset[Where], set[Piece]]


@dataclass(frozen=True)
class Conflicts:
    """Pairs of statements without order, with the pieces that both touch and one of them writes. `may`: pieces of local memory
    that both write, so that what one of them leaves is lost whatever the order, and matters only if somebody reads it."""

    must: Pairs
    may: Pairs


def conflicts(program: list[list[Statement]], v_keeps_order: bool) -> Conflicts:
    work = [(core, i) for core, statements in enumerate(program) for i, one in enumerate(statements) if len(one) == 5]
    reach = closure(program, v_keeps_order)
    found = Conflicts({}, {})
    for a, b in combinations(work, 2):
        one, two = program[a[0]][a[1]], program[b[0]][b[1]]
        if ("start", *b) in reach["end", *a] or ("start", *a) in reach["end", *b]:
            continue
        same_pipe = a[0] == b[0] and pipe_of(one) == pipe_of(two)
        if same_pipe and v_keeps_order and pipe_of(one) == "V":
            continue
        for piece, (read, write) in touched(a[0], one).items():
            other_read, other_write = touched(b[0], two).get(piece, (False, False))
            if write and other_write:
                kind = found.may if piece[0].startswith("ub") else found.must
            elif (write and other_read) or (read and other_write and not same_pipe):
                kind = found.must  # a pipe has read before it writes what comes later
            else:
                continue
            kind.setdefault(frozenset({a, b}), set()).add(piece)
    return found


def touched(core: int, statement: Statement) -> dict[Piece, tuple[bool, bool]]:
    """Of every piece whether the instruction reads it, and whether it writes it."""
    found: dict[Piece, tuple[bool, bool]] = {}
    for memory, first, end, written in spans(core, statement):
        for piece in range(first, end):
            read, write = found.get((memory, piece), (False, False))
            found[memory, piece] = (read or not written, write or written)
    return found


Node = tuple[Any, ...]


def closure(program: list[list[Statement]], v_keeps_order: bool) -> dict[Node, set[Node]]:
    """Everything that comes after each node by program and calls; nodes are ("start" | "end", core, statement) and those of flags
    and meetings. Where the hardware orders V after V, PipeBarrier<V> emits nothing."""
    after: dict[Node, set[Node]] = {}

    def edge(a: Node, b: Node) -> None:
        after.setdefault(a, set()).add(b)
        after.setdefault(b, set())

    for core, statements in enumerate(program):
        given: dict[str, list[int]] = {pipe: [] for pipe in PIPES}
        met = 0
        front: list[Node] = []  # what holds back the issue of everything behind
        for i, one in enumerate(statements):
            what = one[0]
            mine: Node = ("start", core, i)
            after.setdefault(mine, set())
            for node in front:
                edge(node, mine)
            if what in ("all", "meet"):
                for entries in given.values():
                    for earlier in entries:
                        edge(("end", core, earlier), mine)
                front = [mine]
                if what == "meet":
                    edge(mine, ("met", met))
                    front = [("met", met)]
                    met += 1
                continue
            pipe = pipe_of(one)
            if given[pipe]:
                edge(("start", core, given[pipe][-1]), mine)
            edge(mine, ("end", core, i))
            if what == "set":
                for earlier in given[pipe]:
                    edge(("end", core, earlier), ("fire", core, one[1], one[2]))
                edge(mine, ("fire", core, one[1], one[2]))
            elif what == "wait":
                edge(("fire", core, one[1], one[2]), mine)
            elif what == "barrier" and not (v_keeps_order and pipe == "V"):
                for earlier in given[pipe]:
                    edge(("end", core, earlier), mine)
            given[pipe].append(i)
    reach: dict[Node, set[Node]] = {}

    def behind(node: Node) -> set[Node]:
        if node not in reach:
            reach[node] = set()
            for following in after[node]:
                reach[node] |= {following} | behind(following)
        return reach[node]

    for node in after:
        behind(node)
    return reach
