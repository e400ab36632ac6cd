"""Where a line stands in the source of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements_at(tree: ast.Module, line: int) -> tuple[Function | None, list[ast.stmt]]:
    """The innermost function around a line, and the statements around it inside that, outermost first; [] if none is.

    Where statements share the line, the last that begins there: its call is the later one.
    """
    function: Function | None = None
    path: list[ast.stmt] = []
    body: list[ast.stmt] = tree.body
    while True:
        found = [one for one in body if _first(one) <= line <= (one.end_lineno or one.lineno)]
        if not found:
            return (function, path) if function is not None else (None, [])
        here = found[-1]
        if isinstance(here, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if line < here.body[0].lineno:
                return None, []
            function, path, body = here, [], here.body
            continue
        path.append(here)
        body = [child for block in blocks_of(here) for child in block]


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside a statement, those of its except handlers and cases among them."""
    for name in _BLOCKS:
        part = getattr(statement, name, [])
        if part and not isinstance(part[0], ast.stmt):
            yield from (inner.body for inner in part)
        elif part:
            yield part


def common_place(tree: ast.Module, first: int, second: int) -> int | None:
    """The line of the statement that holds `second`, in the innermost block that has both lines; None if none has.

    What stands before that statement is passed by everybody who goes from one to the other, and as often.
    """
    function, one = statements_at(tree, first)
    other, two = statements_at(tree, second)
    if function is None or function is not other:
        return None
    depth = 0
    while depth < min(len(one), len(two)) and one[depth] is two[depth]:
        depth += 1
    if depth == len(two):
        return two[-1].lineno
    if depth == len(one):
        return None  # the first line is the head of what holds the second
    blocks = [function.body] if depth == 0 else list(blocks_of(two[depth - 1]))
    same = any(one[depth] in block and two[depth] in block for block in blocks)
    return two[depth].lineno if same else None


def _first(statement: ast.stmt) -> int:
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return statement.lineno
    return min([statement.lineno, *(one.lineno for one in statement.decorator_list)])
