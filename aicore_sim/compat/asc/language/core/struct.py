"""Struct arguments."""

from __future__ import annotations

from aicore_sim.kernel.structs import Field, Struct, StructField

__all__ = ["Field", "Struct", "StructField"]
