"""Running pyasc programs unmodified: `import asc` finds the package over this simulator, every launch is one run.

Used by `aicore-sim pyasc FILE [-- ARGS]` and `pyasc -m MODULE [-- ARGS]` (spec pyasc.md 12, 13).
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from aicore_sim.errors import ConfigError
from aicore_sim.pyasc_settings import CARD_VARIABLE, STRICT_VARIABLE, settings

if TYPE_CHECKING:
    from aicore_sim.launch import Run

COMPAT = Path(__file__).resolve().parent / "compat"
"""The folder that holds the packages that programs import."""
PACKAGES = ("asc", "torch_npu")


def run_file(
    path: str | Path, argv: Sequence[str] = (), *, card: str = "", strict: bool = False,
    on_run: Callable[[Run], None] | None = None,
) -> int:  # fmt: skip
    """Run a program file as `python FILE ARGS` would, with `asc` in reach; returns its exit status.

    `card` overrides the program's platform. An exception of the program is printed and gives 1.
    Raises ConfigError if there is no such file.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError("no such program", file=str(path), field="file", value=str(path))
    with _stage(card, strict, on_run, [str(file), *argv], str(file.resolve().parent)):
        return _status(lambda: runpy.run_path(str(file), run_name="__main__"))


def run_module(
    module: str, argv: Sequence[str] = (), *, card: str = "", strict: bool = False,
    on_run: Callable[[Run], None] | None = None,
) -> int:  # fmt: skip
    """Run a module as `python -m MODULE ARGS` would (`pytest` over tests of pyasc programs); returns its exit status."""
    with _stage(card, strict, on_run, [module, *argv], os.getcwd()):
        return _status(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def _status(program: Callable[[], object]) -> int:
    """Exit status of a program, as the interpreter would give it."""
    try:
        program()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return int(stop.code or 0)
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _stage(
    card: str, strict: bool, on_run: Callable[[Run], None] | None, argv: list[str], folder: str
) -> Iterator[None]:
    """Arguments, import path, environment of children, settings and a fresh `asc` for a program; all restored afterwards."""
    before = settings.card, settings.strict, settings.on_run
    arguments, path, environment, packages = sys.argv, list(sys.path), dict(os.environ), _take_packages()
    settings.card, settings.strict, settings.on_run = card, strict, on_run
    sys.argv = argv
    sys.path[:0] = [folder, str(COMPAT)]
    own = [str(COMPAT), str(COMPAT.parent.parent)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*own, *filter(None, [environment.get("PYTHONPATH")])])
    os.environ[CARD_VARIABLE], os.environ[STRICT_VARIABLE] = card, "1" if strict else ""
    try:
        yield
    finally:
        settings.leave()
        _take_packages()
        sys.modules.update(packages)
        sys.argv, sys.path[:] = arguments, path
        os.environ.clear()
        os.environ.update(environment)
        settings.card, settings.strict, settings.on_run = before


def _take_packages() -> dict[str, ModuleType]:
    """Forget the imported modules of COMPAT: they hold what a program has chosen."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in PACKAGES}
