"""Basic functions. All names of the kernel language are in one flat list; the parts of pyasc's layout share it."""

# ruff: noqa: F403
from __future__ import annotations

import types

import aicore_sim
from aicore_sim import *

__all__ = [
    name
    for name, value in vars(aicore_sim).items()
    if not name.startswith("_") and name != "annotations" and not isinstance(value, types.ModuleType)
]
