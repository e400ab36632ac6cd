"""Programs written by tests of the package `asc`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aicore_sim.launch import Run
from aicore_sim.pyasc_runner import run_file

HEAD = "import asc\nimport numpy as np\nimport asc.runtime.config as config\n"


def program_in(folder: Path) -> Callable[..., tuple[int, list[Run]]]:
    """A function that writes a program into `folder`, runs it, and returns (exit status, runs)."""

    def run(text: str, *argv: str, **options: Any) -> tuple[int, list[Run]]:
        file = folder / "program.py"
        file.write_text(HEAD + textwrap.dedent(text))
        runs: list[Run] = []
        return run_file(file, argv, on_run=runs.append, **options), runs

    return run
