"""aicore_sim: a model of data movement on Ascend AI Cores, with pyasc's interface for kernels.

`import aicore_sim as asc`, write a kernel with `@asc.jit`, run it with `asc.simulate(kernel, *args, blocks=..., card=...)`
and look at `Run.trace`. The names below are those of the kernel language (`kernel.language`) and what a host needs.
"""

# ruff: noqa: F403
from __future__ import annotations

from aicore_sim.cards import Card, card_names, load_card
from aicore_sim.errors import (
    AiCoreError,
    AlignmentError,
    CapacityError,
    ConfigError,
    DeadlockError,
    OutOfBoundsError,
    ParameterError,
    UnsupportedError,
)
from aicore_sim.hazards.model import Hazard, Hazards
from aicore_sim.kernel import language as _language
from aicore_sim.kernel import te as te
from aicore_sim.kernel.arguments import GmSpec, MockTensor, MockValue
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.language import *
from aicore_sim.kernel.structs import Field, Struct, StructField
from aicore_sim.launch import Run, simulate
from aicore_sim.report.assertions import UncleanError, assert_clean

__version__ = "0.1.0"

__all__ = [
    "AiCoreError", "AlignmentError", "CapacityError", "Card", "ConfigError", "DeadlockError", "Field", "GmSpec",
    "Hazard", "Hazards", "MockTensor", "MockValue", "OutOfBoundsError", "ParameterError", "Run", "Struct", "StructField",
    "UncleanError", "UnsupportedError", "assert_clean", "card_names", "jit", "load_card", "simulate",
]  # fmt: skip
__all__ += _language.__all__
