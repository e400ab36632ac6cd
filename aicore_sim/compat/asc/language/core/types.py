"""Parameter structs. All names of the kernel language are in one flat list, which this part shares."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim.kernel.language import *
from aicore_sim.kernel.language import __all__ as __all__
