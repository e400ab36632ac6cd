"""Compile and launch."""

from __future__ import annotations

from asc.runtime import compiler, config, launcher

__all__ = ["compiler", "config", "launcher"]
