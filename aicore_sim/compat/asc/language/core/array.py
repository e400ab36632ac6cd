"""Run-time arrays."""

from __future__ import annotations

from aicore_sim.kernel.arrays import RuntimeArray as Array
from aicore_sim.kernel.arrays import array

__all__ = ["Array", "array"]
