"""Tensors."""

from __future__ import annotations

from aicore_sim.kernel.auto_tensor import LocalTensorAuto
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor

__all__ = ["GlobalAddress", "GlobalTensor", "LocalTensor", "LocalTensorAuto"]
