"""Puts the statements that fixes name into the source of a kernel.

Statements stand before or behind the whole statement at their line, with its indentation; on a line that holds several
statements, or `if x: call()`, they go in between on that line. Nothing else of the source changes.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aicore_sim.hazards.model import Insertion
from aicore_sim.hazards.source import statements_at

_PACKAGES = ("aicore_sim", "asc")
_NAME = re.compile(r"\basc\.([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Patched:
    """The new source, the insertions that are in it, and those that found no place (no statement of a function there).

    `origin` has for each new line the number of the old one that it was, 0 for a line that is new.
    """

    text: str
    applied: tuple[Insertion, ...]
    skipped: tuple[Insertion, ...]
    origin: tuple[int, ...]

    def diff(self, before: str, name: str) -> str:
        """Unified diff from `before`, under the file name `name`; "" if nothing changed."""
        lines = difflib.unified_diff(_split(before), _split(self.text), f"a/{name.lstrip('/')}", f"b/{name.lstrip('/')}")
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Edit:
    """Text to put in front of the byte `column` of a line (both from 0); at one place what belongs behind a statement
    (`rank` 0) goes before what belongs in front of the next one."""

    line: int
    column: int
    text: str
    rank: int = 1


def apply(source: str, insertions: Iterable[Insertion]) -> Patched:
    """`source` with the insertions; equal ones at one place count once, the others keep their order.

    Only the lines count, not the files: the caller chooses those of this file. Raises SyntaxError for a source that is no
    Python.
    """
    tree = ast.parse(source)
    lines = _split(source)
    names = _Names(tree)
    edits: list[_Edit] = []
    applied: list[Insertion] = []
    skipped: list[Insertion] = []
    for one in dict.fromkeys(insertions):
        path = statements_at(tree, one.line)[1]
        if not path:
            skipped.append(one)
            continue
        edits.append(_edit(lines, path, names.own(one.code), one.after))
        applied.append(one)
    if names.missing:
        edits.append(_import(tree, lines))
    chunks = _edited(lines, edits)
    return Patched("".join(chunks), tuple(applied), tuple(skipped), tuple(_origin(lines, chunks)))


def _split(text: str) -> list[str]:
    """Lines with their ends, as Python counts them: not at form feeds and the like."""
    return list(io.StringIO(text, newline=""))


def _edit(lines: list[str], path: list[ast.stmt], code: str, after: bool) -> _Edit:
    place = len(path) - 1
    while place and _text(lines, path[place]).startswith("elif"):
        place -= 1
    here = path[place]
    head = lines[here.lineno - 1].encode()[: here.col_offset].decode()
    inline = bool(head.strip())
    whole = f"{head}{code}{_ending(lines[here.lineno - 1])}"
    if not after:
        return _Edit(here.lineno - 1, here.col_offset, f"{code}; ") if inline else _Edit(here.lineno - 1, 0, whole)
    last = (here.end_lineno or here.lineno) - 1
    end = here.end_col_offset or 0
    tail = lines[last].encode()[end:].decode().strip()
    if inline or tail.startswith(";"):
        return _Edit(last, end, f"; {code}", 0)
    return _Edit(last + 1, 0, whole, 0)


def _ending(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"


def _text(lines: list[str], statement: ast.stmt) -> str:
    return lines[statement.lineno - 1].encode()[statement.col_offset :].decode()


def _edited(lines: list[str], edits: list[_Edit]) -> list[str]:
    """The old lines, each with what goes before it in front of it, and one more with what goes behind all of them."""
    out = [*lines, ""]
    # From the end to the front, so that places stay true; at one place the last first, so that the first ends up in front.
    for edit in reversed(sorted(edits, key=lambda one: (one.line, one.column, one.rank))):
        if edit.text.endswith("\n"):
            out[edit.line] = edit.text + out[edit.line]
        else:
            raw = out[edit.line].encode()
            out[edit.line] = (raw[: edit.column] + edit.text.encode() + raw[edit.column :]).decode()
    if out[-1] and lines and not lines[-1].endswith("\n"):
        out[-2] += "\n"
    return out


def _origin(lines: list[str], chunks: list[str]) -> Iterator[int]:
    for number, chunk in enumerate(chunks):
        own = number < len(lines)
        yield from [0] * (len(_split(chunk)) - own)
        yield from [number + 1] * own


class _Names:
    """How a file spells what it has from the package; `missing` becomes True when a name had to be written `asc.NAME`
    without an import of that."""

    def __init__(self, tree: ast.Module) -> None:
        self.module: str | None = None
        self.direct: dict[str, str] = {}
        self.star = False
        self.missing = False
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found = [one.asname or one.name for one in node.names if one.name in _PACKAGES]
                self.module = self.module or next(iter(found), None)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in _PACKAGES:
                self.star |= any(one.name == "*" for one in node.names)
                self.direct.update({one.name: one.asname or one.name for one in node.names})

    def own(self, code: str) -> str:
        """`code` with every `asc.NAME` as the file writes it."""
        return _NAME.sub(lambda match: self._name(match[1]), code)

    def _name(self, name: str) -> str:
        if name in self.direct and self.module is None:
            return self.direct[name]
        if self.module is not None:
            return f"{self.module}.{name}"
        if self.star:
            return name
        self.missing = True
        return f"asc.{name}"


def _import(tree: ast.Module, lines: list[str]) -> _Edit:
    """`import aicore_sim as asc` behind the imports of the file, for one that has only some names from it."""
    imports = [node.end_lineno or node.lineno for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    at = max(imports, default=0)
    return _Edit(at, 0, f"import aicore_sim as asc{_ending(lines[0])}")
