"""Arguments of a kernel: which Python values it takes, and arrays seen as numpy (spec pyasc.md 2, 13)."""

from __future__ import annotations

import inspect
import math
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aicore_sim.dtypes import DataType
from aicore_sim.kernel.structs import Struct
from aicore_sim.kernel.values import ConstExpr


@dataclass(frozen=True)
class GmSpec:
    """A kernel argument known by shape and element type only, for runs without data."""

    shape: tuple[int, ...]
    dtype: DataType

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(math.prod(self.shape))


@dataclass(frozen=True)
class MockTensor:
    """Stands for an array of `dtype` where a kernel is only recorded, not run."""

    dtype: DataType


@dataclass(frozen=True)
class MockValue:
    """Stands for a number of `dtype` where a kernel is only recorded, not run."""

    dtype: DataType


def const_kinds(fn: Callable[..., Any]) -> dict[str, Any]:
    """Parameters annotated ConstExpr: name -> type to check against (None for the bare annotation)."""
    kinds: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        note = parameter.annotation
        while isinstance(note, str):
            note = _evaluated(fn, note)
        if note is ConstExpr:
            kinds[name] = None
        elif isinstance(note, ConstExpr):
            kinds[name] = _checkable(note.kind)
    return kinds


def _evaluated(fn: Callable[..., Any], text: str) -> Any:
    """The object of an annotation written as text; if that has no meaning, ConstExpr where the text speaks of it."""
    code = getattr(fn, "__code__", None)
    cells = getattr(fn, "__closure__", None) or ()
    local = {n: c.cell_contents for n, c in zip(code.co_freevars if code else (), cells, strict=False)}
    try:
        return eval(text, getattr(fn, "__globals__", {}), local)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return ConstExpr if "ConstExpr" in text else None


def _checkable(kind: Any) -> Any:
    """A type isinstance understands: `list[int]` -> list; None where anything goes."""
    origin = typing.get_origin(kind)
    if kind is Any or kind is None or origin is typing.Union:
        return typing.get_args(kind) or None
    return origin if origin is not None else kind if isinstance(kind, type) else None


def is_torch(value: Any) -> bool:
    """True for a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_array(value: Any) -> bool:
    """True for what becomes a GlobalAddress: a numpy array or a torch tensor."""
    return isinstance(value, np.ndarray) or is_torch(value)


def check_argument(name: str, value: Any) -> None:
    """Raises TypeError for a value a kernel cannot take, ValueError for numpy bools."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype == np.bool_:
            raise ValueError(f"{name}: bool arrays and numpy bools have no device type")
        return
    if isinstance(value, int | float | Struct | GmSpec | MockTensor | MockValue) or is_torch(value):
        return
    raise TypeError(
        f"{name}: a kernel cannot take {type(value).__name__}; compile-time values need the annotation asc.ConstExpr"
    )


def unwrap_struct(value: Any) -> Any:
    """A Struct as the kernel sees it: its own copy with run-time fields; anything else unchanged."""
    return value.for_kernel() if isinstance(value, Struct) else value


def as_numpy(value: Any) -> NDArray[Any]:
    """The array behind a kernel argument, sharing its memory: a store into it is seen by the owner.

    numpy arrays come back as they are, torch CPU tensors as a view (bfloat16 through ml_dtypes).
    Raises TypeError for anything else and for tensors on a device.
    """
    if isinstance(value, np.ndarray):
        return value
    if not is_torch(value):
        raise TypeError(f"not an array: {type(value).__name__}")
    if str(value.device.type) != "cpu":
        raise TypeError(f"torch tensors must be on the CPU, not on {value.device}")
    tensor = value.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        raw: NDArray[Any] = tensor.view(sys.modules["torch"].int16).numpy()
        return raw.view(ml_dtypes.bfloat16)
    found: NDArray[Any] = tensor.numpy()
    return found
