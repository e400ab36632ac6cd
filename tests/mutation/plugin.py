"""A pytest plugin that imports one module of the package with a deliberate fault in it.

    AICORE_SIM_MUTANT=aicore_sim.instructions.nd2nz:253:swap pytest -p tests.mutation.plugin ...

The call on that line that describes a movement gets its strides swapped, its offset shifted, or is dropped. A mutant that
never changed anything while the tests ran is no mutant: the file AICORE_SIM_MUTANT_MARK is made when the call is reached, and
filled when the fault changed what it gave.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

# Calls that describe a movement: position of the offset and of the strides that a mutant changes.
CALLS = {"strided_copy": (4, 5), "strided_fill": (2, 3), "ndarray": (3, 4)}
KINDS = {"strided_copy": ("swap", "shift", "drop"), "strided_fill": ("shift", "drop"), "ndarray": ("swap", "shift")}


def call_name(node: ast.Call) -> str:
    """The last part of the called name: `ndarray` of `np.ndarray`."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def sites(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, call) of every call of `CALLS` in a module."""
    return sorted({(node.lineno, call_name(node)) for node in ast.walk(tree)
                   if isinstance(node, ast.Call) and call_name(node) in CALLS})  # fmt: skip


class _Wrap(ast.NodeTransformer):
    """Replaces the calls on one line by `__mutant__(name, function, *args)`."""

    def __init__(self, line: int) -> None:
        self.line = line

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if node.lineno != self.line or call_name(node) not in CALLS:
            return node
        name = ast.Constant(call_name(node))
        made = ast.Call(ast.Name("__mutant__", ast.Load()), [name, node.func, *node.args], node.keywords)
        return ast.copy_location(made, node)


def _swapped(strides: Sequence[Any]) -> list[Any]:
    """The strides with the first two that differ exchanged."""
    out = list(strides)
    for i in range(len(out)):
        for j in range(i + 1, len(out)):
            if out[i] != out[j]:
                out[i], out[j] = out[j], out[i]
                return out
    return out


def mutant(kind: str, mark: Path | None) -> Any:
    """The function that stands in for the call."""

    def call(name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        if mark is not None and not mark.exists():
            mark.touch()
        right = function(*args, **kwargs)
        offset, strides = CALLS[name]
        changed = list(args)
        if kind == "drop":
            wrong: Any = ()
        elif kind == "swap":
            changed[strides] = _swapped(args[strides])
            wrong = function(*changed, **kwargs) if changed[strides] != list(args[strides]) else right
        else:
            step = args[0] if name == "strided_copy" else len(args[0]) if name == "strided_fill" else args[1].itemsize
            changed[offset] = args[offset] + (step if args[offset] < step else -step)
            wrong = function(*changed, **kwargs)
        if mark is not None and wrong is not right and (isinstance(right, np.ndarray) or wrong != right):
            mark.write_text("changed")
        return wrong

    return call


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with its mutant, past any cached byte code."""

    def __init__(self, name: str, path: str, line: int, function: Any) -> None:
        super().__init__(name, path)
        self.line = line
        self.function = function

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree = _Wrap(self.line).visit(ast.parse(Path(path).read_text(encoding="utf-8")))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__mutant__"] = self.function
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, line: int, function: Any) -> None:
        self.module, self.line, self.function = module, line, function

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.line, self.function)
        return spec


def install(which: str, mark: Path | None) -> None:
    """Make the next import of the module the mutant `module:line:kind`."""
    module, line, kind = which.split(":")
    sys.meta_path.insert(0, _Finder(module, int(line), mutant(kind, mark)))


if os.environ.get("AICORE_SIM_MUTANT"):
    _mark = os.environ.get("AICORE_SIM_MUTANT_MARK")
    install(os.environ["AICORE_SIM_MUTANT"], Path(_mark) if _mark else None)
