"""Torch programs written for a card: tensors they ask for on the device "npu" are made on the CPU.

Nothing here imports torch: a program that does without it must not wait for it.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager
from typing import Any


def npu_on_cpu() -> AbstractContextManager[Any] | None:
    """A context in which torch reads "npu" as "cpu"; None unless torch has been imported."""
    if "torch" not in sys.modules:
        return None
    overrides: Any = importlib.import_module("torch.overrides")

    class NpuOnCpu(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = {name: _device(value) for name, value in (kwargs or {}).items()}
            return func(*map(_device, args), **named)

    mode: AbstractContextManager[Any] = NpuOnCpu()
    return mode


def _device(value: Any) -> Any:
    """ "cpu" for "npu" and "npu:0"; anything else unchanged."""
    is_npu = isinstance(value, str) and (value == "npu" or value.startswith("npu:"))
    return "cpu" if is_npu else value
