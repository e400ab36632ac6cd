"""The kernel language: every function, struct and enumeration a kernel uses."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim import *
from asc.language import adv, basic, core, fwk

__all__ = [*basic.__all__, "adv", "basic", "core", "fwk"]
