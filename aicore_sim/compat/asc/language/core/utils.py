"""Compile-time functions."""

from __future__ import annotations

from aicore_sim.kernel.values import ceildiv, static_assert

__all__ = ["ceildiv", "static_assert"]
