"""Core of the kernel language: types, tensors, values."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim import *
from asc.language.basic import __all__ as __all__
