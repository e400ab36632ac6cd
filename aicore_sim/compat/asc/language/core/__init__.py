"""Core of the kernel language: types, tensors, values."""

# ruff: noqa: F401, F403
from __future__ import annotations

from asc.language.core import array as _array
from asc.language.core import (
    constexpr,
    dtype,
    enums,
    ir_value,
    memory_allocator,
    properties,
    struct,
    tensor,
    types,
    utils,
)
from asc.language.core import range as _range

# isort: split
# Behind the parts: `array` and `range` are then the functions, not the modules of these names.
from aicore_sim.kernel.language import *
from aicore_sim.kernel.language import __all__ as __all__
