"""`torch.npu`: one device, which is always ready."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: Any = 0) -> None:
    """There is one device."""


def synchronize(device: Any = None) -> None:
    """Launches are synchronous."""


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    """Random numbers come from the CPU's generator."""


manual_seed_all = manual_seed
