"""Which platform launches run on."""

from __future__ import annotations

from enum import Enum

from aicore_sim.kernel.enums import KernelType
from aicore_sim.pyasc_settings import settings
from asc.lib import runtime as rt

__all__ = ["Backend", "KernelType", "Platform", "set_platform"]


class Backend(Enum):
    """Both are the model here."""

    Model = "Model"
    NPU = "NPU"


class Platform(Enum):
    """SoCs of Atlas A2 and A3."""

    Ascend910B1 = "Ascend910B1"
    Ascend910B2 = "Ascend910B2"
    Ascend910B2C = "Ascend910B2C"
    Ascend910B3 = "Ascend910B3"
    Ascend910B4 = "Ascend910B4"
    Ascend910B4_1 = "Ascend910B4-1"
    Ascend910_9362 = "Ascend910_9362"
    Ascend910_9372 = "Ascend910_9372"
    Ascend910_9381 = "Ascend910_9381"
    Ascend910_9382 = "Ascend910_9382"
    Ascend910_9391 = "Ascend910_9391"
    Ascend910_9392 = "Ascend910_9392"


def set_platform(
    backend: Backend | str, soc_version: Platform | None = None, device_id: int | None = None, check: bool = True
) -> None:
    """Choose the SoC that launches are simulated on (default Ascend910B1).

    Raises ValueError for an unknown backend or SoC, RuntimeError if `check` finds no runtime.
    """
    settings.take_npu_tensors()
    chosen = Backend(backend)
    soc = Platform.Ascend910B1 if soc_version is None else Platform(soc_version)
    if chosen is Backend.NPU:
        rt.use_npu()
    else:
        rt.use_model()
    rt.set_soc_version(soc)
    if device_id is not None:
        rt.set_device(device_id)
    if check and not rt.is_available():
        raise RuntimeError(f"the runtime is not available (simulator/{soc.value}/lib)")
