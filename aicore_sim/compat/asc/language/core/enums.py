"""Enumerations."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim.kernel.enums import *
