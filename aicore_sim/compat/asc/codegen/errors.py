"""How errors inside a kernel reach the caller of a launch (spec pyasc.md 13, Exceptions)."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

from aicore_sim.errors import AiCoreError

_PACKAGE = str(Path(__file__).resolve().parents[3])


class CodegenError(Exception):
    """An error raised while a kernel was traced; the text is the source line and `Type: message`."""


class UnsupportedSyntaxError(CodegenError):
    """Syntax that a kernel may not use."""


def wrapped(error: Exception) -> CodegenError:
    """`error` as a CodegenError with the kernel source around its origin."""
    file, line = _origin(error)
    text = f"{type(error).__name__}: {error}"
    if file:
        shown = "".join(
            f"{'>' if n == line else ' '} {n:5d} | {linecache.getline(file, n).rstrip()}\n"
            for n in range(max(line - 1, 1), line + 2)
        )
        text = f"{file}:{line}\n{shown}{text}"
    return CodegenError(text)


def _origin(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost frame of the program: neither this package nor an installed library.

    An error that crossed the event loop is a copy; the original, with the kernel's frames, is its cause.
    """
    if isinstance(error, AiCoreError) and error.file is not None and error.line is not None:
        return error.file, error.line
    if error.__cause__ is not None:
        found = _origin(error.__cause__)
        if found[0]:
            return found
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((_PACKAGE, "<frozen")) and "site-packages" not in frame.filename:
            return frame.filename, frame.lineno or 1
    return "", 0
