"""The device runtime as programs see it: one device, the model; streams are tokens, every launch is synchronous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.cards import Card, load_card
from aicore_sim.errors import UnsupportedError
from aicore_sim.kernel.placeholder import Placeholder
from aicore_sim.pyasc_settings import card_of, settings
from asc.lib.runtime import support
from asc.lib.runtime.support import CoreType, DeviceInfoType, DeviceModuleType

__all__ = [
    "CoreType", "DeviceInfoType", "DeviceModuleType", "Memory", "Stream", "acl_finalize", "acl_init",
    "check_device_handle", "create_stream", "current_device", "current_platform", "current_stream", "default_device",
    "destroy_stream", "device_count", "device_info", "free", "free_mem", "get_soc_version", "is_available",
    "is_initialized", "is_model", "reset_device", "set_device", "set_soc_version", "support", "synchronize",
    "synchronize_device", "use_model", "use_npu",
]  # fmt: skip

DEFAULT_SOC = "Ascend910B1"


@dataclass
class _Device:
    """What the runtime remembers: the chosen SoC, device number and backend."""

    soc: str = DEFAULT_SOC
    number: int = 0
    model: bool = True


_device = _Device()


@dataclass(frozen=True)
class Stream:
    """A stream; launches do not overlap, so it orders nothing."""

    priority: int = 0


@dataclass(frozen=True)
class Memory:
    """Device memory is managed by the launches themselves."""

    size: int = 0


_stream = Stream()


def use_model() -> None:
    _device.model = True


def use_npu() -> None:
    """The model stands in for the card."""
    _device.model = False


def is_model() -> bool:
    return _device.model


def is_initialized() -> bool:
    return True


def is_available() -> bool:
    return True


def acl_init() -> None:
    """Nothing to start."""


def acl_finalize() -> None:
    """Nothing to stop."""


def default_device() -> int:
    return 0


def current_device() -> int:
    return _device.number


def device_count() -> int:
    return 1


def set_device(device_id: int = 0) -> None:
    _device.number = int(device_id)


def reset_device(device_id: int = 0) -> None:
    _device.number = 0


def check_device_handle(handle: Any = None) -> None:
    """Every handle is valid."""


def current_platform() -> str:
    return _device.soc


def get_soc_version() -> Any:
    """The chosen `asc.runtime.config.Platform`."""
    from asc.runtime.config import Platform

    return Platform(_device.soc)


def simulated_card() -> Card:
    """The card that launches run on: the one given to the command line, else the one behind the platform."""
    return load_card(settings.card or card_of(_device.soc))


def device_info(module_type: DeviceModuleType, info_type: DeviceInfoType, device_id: int | None = None) -> int:
    """Numbers of cores: of AI Cores (cube) or vector cores. Raises UnsupportedError for anything else."""
    card = simulated_card()
    if info_type is DeviceInfoType.INFO_TYPE_CUBE_NUM:
        return card.cubes
    if info_type is DeviceInfoType.INFO_TYPE_CORE_NUM:
        if module_type is DeviceModuleType.RT_MODULE_TYPE_AICORE:
            return card.cubes
        if module_type is DeviceModuleType.RT_MODULE_TYPE_VECTOR_CORE:
            return card.vectors
    raise UnsupportedError("device_info knows the numbers of AI Cores and vector cores", field="info_type",
                           value=f"{module_type.name}, {info_type.name}", card=card.name)  # fmt: skip


def set_soc_version(soc_version: Any) -> None:
    """Takes a Platform or its name."""
    _device.soc = str(getattr(soc_version, "value", soc_version))


def current_stream(device_id: int | None = None) -> Stream:
    return _stream


def create_stream(priority: int = 0) -> Stream:
    return Stream(priority)


def destroy_stream(stream: Stream | None = None) -> None:
    """Nothing to free."""


def synchronize(stream: Stream | None = None, timeout: int = 0) -> None:
    """Launches are synchronous."""


def synchronize_device() -> None:
    """Launches are synchronous."""


def free(*_: Any) -> None:
    """Nothing to free."""


def free_mem(*_: Any) -> None:
    """Nothing to free."""


_NOT_MODELLED = frozenset({
    "Function", "Kernel", "MemorySizes", "MsprofTaskType", "ProfilingCommandHandle", "c2c_ctrl_addr",
    "call_print_interface", "copy_data_from_device", "copy_data_to_device", "current_tick", "launch_kernel",
    "magic_elf_value", "malloc", "memcpy", "msprof_task_type", "npu_utils", "register_device_binary_kernel",
    "register_function", "set_pro_switch", "unregister_device_binary_kernel",
})  # fmt: skip
"""Raw device memory, binaries and profiling: kernels are launched with kernel[blocks](...) only."""


def __getattr__(name: str) -> Placeholder:
    if name not in _NOT_MODELLED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Placeholder(f"{__name__}.{name}", "raw device memory, binaries and profiling are not modelled")
