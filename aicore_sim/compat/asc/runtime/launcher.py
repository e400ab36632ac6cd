"""A launch of a pyasc program: one simulation on the card that stands behind the chosen platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicore_sim.kernel.jit import JitFunction
from aicore_sim.launch import Options, run_kernel
from aicore_sim.pyasc_settings import settings
from asc.lib import runtime as rt
from asc.runtime.options import LaunchOptions

__all__ = ["LaunchOptions", "Launcher"]


class Launcher:
    """Runs one kernel; `run` is called once for each launch."""

    def __init__(self, options: LaunchOptions) -> None:
        self.options = options

    def run(self, kernel: JitFunction, name: str, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> None:
        """Simulate `kernel` and hand the run to whoever collects runs (`pyasc_settings.Settings`)."""
        auto_sync = bool(kernel.options.get("auto_sync", True))
        options = Options(auto_sync=auto_sync, slack_is_warning=not settings.strict, strict=settings.strict)
        run = run_kernel(kernel, args, kwargs or {}, self.options.core_num, rt.simulated_card(), options)
        if settings.on_run is not None:
            settings.on_run(run)
