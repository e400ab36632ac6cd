"""Run-time values."""

from __future__ import annotations

from aicore_sim.kernel.tensor import GlobalAddress
from aicore_sim.kernel.values import RuntimeFloat, RuntimeInt

PlainValue = (RuntimeInt, RuntimeFloat)
"""Both kinds of run-time numbers, for isinstance."""

__all__ = ["GlobalAddress", "PlainValue", "RuntimeFloat", "RuntimeInt"]
