"""How launches of pyasc programs are simulated; set by the runner, read by the package `asc`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aicore_sim.errors import ConfigError
from aicore_sim.pyasc_torch import npu_on_cpu

if TYPE_CHECKING:
    from aicore_sim.launch import Run

CARD_VARIABLE = "AICORE_SIM_PYASC_CARD"
STRICT_VARIABLE = "AICORE_SIM_PYASC_STRICT"


@dataclass
class Settings:
    """How launches of `asc` programs are simulated. Child processes read it from the environment.

    `card` "" takes the card from the program's `set_platform`; `strict` makes accesses past an array inside its
    allocation errors instead of warnings; `on_run` gets every finished run.
    """

    card: str = ""
    strict: bool = False
    on_run: Callable[[Run], None] | None = None
    _npu: AbstractContextManager[Any] | None = None

    def take_npu_tensors(self) -> None:
        """From now on torch, if the program uses it, makes tensors for the device "npu" on the CPU."""
        if self._npu is None:
            self._npu = npu_on_cpu()
            if self._npu is not None:
                self._npu.__enter__()

    def leave(self) -> None:
        """The program is over: torch means what it says again."""
        if self._npu is not None:
            self._npu.__exit__(None, None, None)
            self._npu = None


settings = Settings(os.environ.get(CARD_VARIABLE, ""), os.environ.get(STRICT_VARIABLE, "") == "1")


def card_of(soc: str) -> str:
    """Card spec of a pyasc platform name: Ascend910B* is Atlas A2, Ascend910_93* Atlas A3.

    Raises ConfigError for another name.
    """
    if soc.startswith("Ascend910B"):
        return f"atlas_a2:{soc}"
    if soc.startswith("Ascend910_93"):
        return f"atlas_a3:{soc}"
    raise ConfigError("no card for this platform", field="soc_version", value=soc, allowed="Ascend910B*, Ascend910_93*")
