"""Parameter structs of image preprocessing; the flat list of the kernel language, as in `types`."""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim.kernel.language import *
from aicore_sim.kernel.language import __all__ as __all__
