"""Names that exist in pyasc but are not modelled here."""

from __future__ import annotations

from typing import Any, NoReturn

from aicore_sim.errors import UnsupportedError


class Placeholder:
    """Stands for an object that is not modelled: it can be imported and named in annotations, any use raises.

    `message` names the API as its pages do, `name` is how a program reaches it.
    """

    def __init__(self, name: str, message: str = "this part of pyasc is not modelled") -> None:
        self._name = name
        self._message = message

    @classmethod
    def of_module(cls, module: str, name: str) -> Placeholder:
        """For a module's `__getattr__`. Raises AttributeError for private and special names, as Python expects."""
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return cls(f"{module}.{name}")

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(self._message, field="api", value=self._name)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by inspection, not by a program
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self._name}: not modelled>"
