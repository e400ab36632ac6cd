"""Run-time arrays and shapes of a kernel (spec pyasc.md 3, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError
from aicore_sim.kernel.values import RuntimeFloat, RuntimeInt, number

__all__ = ["ShapeInfo", "array", "get_shape_size"]


class RuntimeArray:
    """A run-time array of a kernel: `a[i]`, `a[i] = v`, `len(a)`; elements have the type of the array."""

    __slots__ = ("dtype", "values")

    def __init__(self, dtype: DataType, values: Sequence[Any]) -> None:
        self.dtype = dtype
        self.values = [number(value, dtype) for value in values]

    def _index(self, index: Any) -> int:
        if not 0 <= int(index) < len(self.values):
            raise OutOfBoundsError("index outside the array", field="index", value=int(index),
                                   allowed=f"0..{len(self.values) - 1}")  # fmt: skip
        return int(index)

    def __getitem__(self, index: int) -> RuntimeInt | RuntimeFloat:
        return self.values[self._index(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        self.values[self._index(index)] = number(value, self.dtype)

    def __len__(self) -> int:
        return len(self.values)


def array(
    dtype: DataType, values: int | Sequence[Any] = (), fill_value: Any = None, *, length: int | None = None
) -> RuntimeArray:
    """`array(dtype, length, fill_value=None)` or `array(dtype, values)`."""
    if length is not None or isinstance(values, int):
        count = int(length if length is not None else values)  # type: ignore[arg-type]
        if count <= 0:
            raise ParameterError("an array needs elements", field="length", value=count, allowed=">= 1")
        return RuntimeArray(dtype, [0 if fill_value is None else fill_value] * count)
    return RuntimeArray(dtype, values)


class ShapeInfo:
    """Dimensions attached to a tensor: `ShapeInfo(shape=None, original_shape=None, data_format=None)`."""

    __slots__ = ("_original", "_shape", "data_format")

    def __init__(self, shape: Any = None, original_shape: Any = None, data_format: Any = None) -> None:
        self._shape = [] if shape is None else [int(v) for v in _items(shape)]
        self._original = self._shape if original_shape is None else [int(v) for v in _items(original_shape)]
        self.data_format = data_format

    @property
    def shape_dim(self) -> int:
        return len(self._shape)

    def shape(self, dim: int) -> RuntimeInt:
        """Extent of dimension `dim`. Raises OutOfBoundsError beyond the last."""
        return _dimension(self._shape, dim)

    def original_shape(self, dim: int) -> RuntimeInt:
        return _dimension(self._original, dim)


def _items(values: Any) -> Sequence[Any]:
    return values.values if isinstance(values, RuntimeArray) else list(values)


def _dimension(extents: Sequence[int], dim: int) -> RuntimeInt:
    if not 0 <= int(dim) < len(extents):
        raise OutOfBoundsError("no such dimension", field="dim", value=int(dim), allowed=f"0..{len(extents) - 1}")
    return RuntimeInt(extents[int(dim)])


def get_shape_size(shape_info: ShapeInfo) -> RuntimeInt:
    """Product of the dimensions."""
    size = 1
    for dim in range(shape_info.shape_dim):
        size *= int(shape_info.shape(dim))
    return RuntimeInt(size)
