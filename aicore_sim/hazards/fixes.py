"""The fixes that findings name: calls to add to a kernel, in words and in the form that `check --fix` applies.

Every function returns (words, insertions), the `fix` and the `insert` of a `Hazard`. Code is written with the prefix
`asc.`; whoever applies it puts the name that the file has for the package (`hazards/patch.py`).
"""

from __future__ import annotations

import ast
import linecache

from aicore_sim.cards import Card
from aicore_sim.hazards.model import Insertion, Party
from aicore_sim.hazards.source import common_place, statements_at
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.enums import HardEvent

Fix = tuple[str, tuple[Insertion, ...]]
"""What to do in words, and as insertions."""
NO_FIX: Fix = ("", ())


def core_kind(core: str) -> str:
    """"aic", "aiv" or "core" (coupled) of a core's label in the trace, as "core0.aiv1"."""
    return core.partition(".")[2][:3] or "core"


def statement(code: str, file: str, line: int, *, after: bool = False) -> Fix:
    """Add one statement right before a line of the kernel, or right behind the statement that is there."""
    return statements((code,), file, line, after=after)


def statements(codes: tuple[str, ...], file: str, line: int, *, after: bool = False) -> Fix:
    """Add statements, in this order, at one place."""
    words = "; ".join(codes)
    where = "behind" if after else "before"
    return f"add {words} {where} line {line}", tuple(Insertion(file, line, code, after) for code in codes)


def barrier(pipe: Pipe | None, file: str, line: int) -> Fix:
    """A barrier of one pipe before the line; None: of all pipes (PIPE_ALL). The scalar unit needs none by itself."""
    if pipe is Pipe.S:
        return NO_FIX
    return statement(f"asc.pipe_barrier(asc.PipeID.PIPE_{'ALL' if pipe is None else pipe.name})", file, line)


def flag_pair(
    source: Pipe, destination: Pipe, event_id: int | None, file: str, line: int, *, card: Card | None = None, kind: str = ""
) -> Fix:  # fmt: skip
    """Hold `destination` until everything that `source` was given before the line is complete: set and wait right before it.

    `event_id` is one that is free there, None if there is none: then a barrier of all pipes, as one pipe cannot wait for
    another without an id. Inside one pipe a barrier of it. With `card` and the core's `kind` (`core_kind`), pairs without
    an event on that core get TQueSync, which is not filtered (spec api_semantics.md 11.3, 20.4).
    """
    if source is destination:
        return barrier(source, file, line)
    if event_id is None:
        return barrier(None, file, line)
    name = f"{source.name}_{destination.name}"
    if _has_event(name, card, kind):
        event = f"asc.HardEvent.{name}, {event_id}"
        return statements((f"asc.set_flag({event})", f"asc.wait_flag({event})"), file, line)
    pair = f"asc.TQueSync(asc.PipeID.PIPE_{source.name}, asc.PipeID.PIPE_{destination.name})"
    return statements((f"{pair}.set_flag({event_id})", f"{pair}.wait_flag({event_id})"), file, line)


def _has_event(name: str, card: Card | None, kind: str) -> bool:
    """True if SetFlag and WaitFlag of the pair do something there; without a card, if the event exists at all."""
    if name not in HardEvent.__members__:
        return False
    if card is None:
        return True
    kinds = (kind,) if kind in ("aic", "aiv") and not card.coupled else ("aic", "aiv")
    return any(name in card.names(f"sync.pairs.{one}") for one in kinds)


def meeting(code: str, first: Party, second: Party) -> Fix:
    """A call that all cores have to make as often, such as SyncAll, between what `first` did and what `second` does.

    It goes before the statement that holds the second, in the innermost block with both lines: outside loops and branches
    that only one of them is in. Right before the second where no block has both.
    """
    line = common_place(tree, first.line, second.line) if first.file == second.file and (tree := _parsed(first.file)) else None
    return statement(code, second.file, line or second.line)


def _parsed(file: str) -> ast.Module | None:
    """The source of a kernel; None if it cannot be read."""
    lines = linecache.getlines(file)
    try:
        return ast.parse("".join(lines)) if lines else None
    except SyntaxError:
        return None


def invalidate_nddma(file: str, line: int) -> Fix:
    """NdDmaDci before an NDDMA read (spec coherence.md 6)."""
    return statement("asc.nd_dma_dci()", file, line)


def clean_line(file: str, line: int, *, after: bool, barrier: bool = False, load: bool = False) -> Fix:
    """Clean and invalidate the line of the scalar access that stands on `line`, behind a store (`after`) or before a load.

    With `barrier` a DataSyncBarrier follows, so that what waits for the scalar unit finds the bytes in GM. The tensor is
    taken from the source, as in `flags.set_value(i, 1)`, from the one load (`load`) or the one store there; NO_FIX where
    no such access can be read there.
    """
    place = scalar_operand(file, line, "get_value" if load else "set_value")
    if place is None:
        return NO_FIX
    codes = [f"asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, {place})"]
    codes += ["asc.data_sync_barrier(asc.MemDsbT.DDR)"] if barrier else []
    return statements(tuple(codes), file, line, after=after)


def scalar_operand(file: str, line: int, call: str) -> str | None:
    """The place that the `call` ("get_value" or "set_value") on this line reads or writes, as source: "flags[i]"; None if
    there is not exactly one."""
    tree = _parsed(file)
    if tree is None:
        return None
    found = {_operand(node, call) for node in ast.walk(tree)
             if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)}  # fmt: skip
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _operand(node: ast.Call, call: str) -> str | None:
    if not isinstance(node.func, ast.Attribute) or node.func.attr != call:
        return None
    given = [*node.args, *(word.value for word in node.keywords if word.arg == "offset")]
    return f"{ast.unparse(node.func.value)}[{ast.unparse(given[0])}]" if given else None


def flag_call(verb: str, event: str, event_id: int, card: Card, kind: str) -> str:
    """"set_flag" or "wait_flag" of SRC_DST as code, by TQueSync where the pair has no event on a core of this kind."""
    if _has_event(event, card, kind):
        return f"asc.{verb}(asc.HardEvent.{event}, {event_id})"
    pair = ", ".join(f"asc.PipeID.PIPE_{pipe}" for pipe in event.split("_"))
    return f"asc.TQueSync({pair}).{verb}({event_id})"


def around_loops(code: str, file: str, line: int, *, after: bool) -> Fix:
    """A statement before or behind the outermost loop around a line; right beside the line itself where there is none."""
    return statement(code, file, outermost_loop(file, line) or line, after=after)


def outermost_loop(file: str, line: int) -> int | None:
    """The line where the outermost loop around a line begins; None if there is none."""
    tree = _parsed(file)
    path = statements_at(tree, line)[1] if tree is not None else []
    return next((one.lineno for one in path if isinstance(one, (ast.For, ast.While))), None)


def source_line(file: str, line: int) -> str:
    """The text of a line of a kernel; "" if it cannot be read."""
    return linecache.getline(file, line)
