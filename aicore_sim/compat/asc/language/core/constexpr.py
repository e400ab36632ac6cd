"""Compile-time parameters."""

from __future__ import annotations

from aicore_sim.kernel.values import ConstExpr

__all__ = ["ConstExpr"]
