"""The tiling library is not modelled: its names can be imported, their use raises UnsupportedError."""

from __future__ import annotations

from aicore_sim.kernel.placeholder import Placeholder


def __getattr__(name: str) -> Placeholder:
    return Placeholder.of_module(__name__, name)
