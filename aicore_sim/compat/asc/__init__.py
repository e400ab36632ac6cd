"""The module layout of pyasc over aicore_sim: programs written for pyasc import it as `asc` (spec pyasc.md 1, 13)."""

# ruff: noqa: F401, F403
from __future__ import annotations

from aicore_sim import *
from asc.language import adv, basic, core, fwk
from asc.runtime.jit import jit
from asc.runtime.options import CodegenOptions, CompileOptions, LaunchOptions

_SUBMODULES = ("adv", "basic", "core", "fwk")
_OPTIONS = ("CodegenOptions", "CompileOptions", "LaunchOptions", "jit")
__all__ = [*(name for name in basic.__all__), *_SUBMODULES, *_OPTIONS]
