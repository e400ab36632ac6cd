"""The module layout of pyasc over aicore_sim: programs written for pyasc import it as `asc` (spec pyasc.md 1, 13)."""

# ruff: noqa: F401, F403
from __future__ import annotations

from aicore_sim.kernel import language as _names
from aicore_sim.kernel.language import *
from aicore_sim.pyasc_settings import settings as _settings
from asc import codegen, language, lib, runtime
from asc.language import adv, basic, core, fwk
from asc.runtime.jit import jit
from asc.runtime.options import CodegenOptions, CompileOptions, LaunchOptions

__all__ = ["CodegenOptions", "CompileOptions", "LaunchOptions", "adv", "basic", "core", "fwk", "jit"]
__all__ += _names.__all__

_settings.take_npu_tensors()
