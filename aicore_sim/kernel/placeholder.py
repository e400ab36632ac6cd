"""Names that exist in pyasc but are not modelled here."""

from __future__ import annotations

from typing import Any, NoReturn

from aicore_sim.errors import UnsupportedError


class Placeholder:
    """Stands for an object that is not modelled: it can be imported and named in annotations, any use raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def of_module(cls, module: str, name: str) -> Placeholder:
        """For a module's `__getattr__`. Raises AttributeError for special names, as Python expects."""
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return cls(f"{module}.{name}")

    def _refuse(self) -> NoReturn:
        raise UnsupportedError("this part of pyasc is not modelled", field="api", value=self._name)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self._name}: not modelled>"
