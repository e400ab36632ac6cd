"""The device runtime as programs see it: one device, the model; streams are tokens, every launch is synchronous."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from aicore_sim.kernel.placeholder import Placeholder

DEFAULT_SOC = "Ascend910B1"


@dataclass
class _Device:
    """What the runtime remembers: the chosen SoC, device number and backend."""

    soc: str = DEFAULT_SOC
    number: int = 0
    model: bool = True


_device = _Device()


class CoreType(Enum):
    AICore = 0
    VectorCore = 1


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


def get_soc_version() -> str:
    return _device.soc


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
    "DeviceInfoType", "DeviceModuleType", "Function", "Kernel", "MemorySizes", "MsprofTaskType",
    "ProfilingCommandHandle", "c2c_ctrl_addr", "call_print_interface", "copy_data_from_device", "copy_data_to_device",
    "current_tick", "device_info", "launch_kernel", "magic_elf_value", "malloc", "memcpy", "msprof_task_type",
    "npu_utils", "register_device_binary_kernel", "register_function", "set_pro_switch",
    "unregister_device_binary_kernel",
})  # fmt: skip
"""Raw device memory, binaries and profiling: kernels are launched with kernel[blocks](...) only."""


def __getattr__(name: str) -> Placeholder:
    if name not in _NOT_MODELLED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Placeholder(f"{__name__}.{name}", "raw device memory, binaries and profiling are not modelled")
