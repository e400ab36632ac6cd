"""Allocation of local memory."""

from __future__ import annotations

from aicore_sim.kernel.allocator import LocalMemAllocator

__all__ = ["LocalMemAllocator"]
