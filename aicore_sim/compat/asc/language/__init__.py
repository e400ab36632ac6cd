"""The kernel language: every function, struct and enumeration a kernel uses."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim.kernel import language as _names
from aicore_sim.kernel.language import *
from asc.language import adv, basic, core, fwk

__all__ = ["adv", "basic", "core", "fwk"]
__all__ += _names.__all__
