"""Loops."""

from __future__ import annotations

from aicore_sim.kernel.values import range, static_range

__all__ = ["range", "static_range"]
