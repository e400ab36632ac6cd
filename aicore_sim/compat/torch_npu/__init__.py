"""Stands in for the torch extension of the cards: `import torch_npu` works, device "npu" is the CPU.

Programs written for a card import it at their top. It gives them `torch.npu` with the few calls that say something about
one synchronous device, and `tensor.npu()`.
"""

from __future__ import annotations

import importlib
from typing import Any

from aicore_sim.pyasc_settings import settings
from torch_npu import npu

__all__ = ["npu"]

_torch: Any = importlib.import_module("torch")
_torch.npu = npu
_torch.Tensor.npu = lambda tensor, *_, **__: tensor
settings.take_npu_tensors()
