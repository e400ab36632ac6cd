"""Struct arguments of a kernel: typed fields, built on the host, read in the kernel (spec pyasc.md 13, Struct)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from aicore_sim.dtypes import DataType, encode_scalar
from aicore_sim.kernel.values import number

__all__ = ["Field", "Struct", "StructField"]

_MISSING = object()
_FIELD_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


class Field:
    """A number of `dtype` in a Struct; without a default it must be given."""

    def __init__(self, dtype: DataType, default: Any = _MISSING, name: str | None = None, enum: Any = None) -> None:
        if dtype.name not in _FIELD_TYPES:
            raise RuntimeError(f"a Struct field cannot be {dtype}; allowed: {', '.join(_FIELD_TYPES)}")
        self.dtype, self.default, self.name, self.enum = dtype, default, name, enum


class StructField:
    """A Struct inside a Struct; the default is a default instance."""

    def __init__(self, struct_cls: type[Struct], default: Any = None, name: str | None = None) -> None:
        self.struct_cls, self.default, self.name = struct_cls, default, name


class Struct:
    """Base of argument structs: class attributes `Field` and `StructField` in order, built by keyword only.

    Raises RuntimeError for an unknown field, or one with neither value nor default.
    """

    _fields: ClassVar[dict[str, Field | StructField]] = {}
    _pack: ClassVar[int] = 8

    def __init_subclass__(cls, pack: int = 8, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._pack = pack
        own = {name: item for name, item in vars(cls).items() if isinstance(item, Field | StructField)}
        cls._fields = {**cls._fields, **own}

    def __init__(self, **values: Any) -> None:
        unknown = sorted(set(values) - set(self._fields))
        if unknown:
            raise RuntimeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        for name, item in self._fields.items():
            if name in values:
                setattr(self, name, values[name])
            elif isinstance(item, StructField):
                setattr(self, name, item.struct_cls() if item.default is None else item.default)
            elif item.default is _MISSING:
                raise RuntimeError(f"{type(self).__name__}.{name} has neither a value nor a default")
            else:
                setattr(self, name, item.default)

    def __setattr__(self, name: str, value: Any) -> None:
        item = self._fields.get(name)
        if item is None:
            raise RuntimeError(f"{type(self).__name__} has no field {name}")
        if isinstance(item, StructField):
            if not isinstance(value, item.struct_cls):
                raise RuntimeError(f"{type(self).__name__}.{name} takes a {item.struct_cls.__name__}")
            value = value.copy()
        object.__setattr__(self, name, value)

    def copy(self) -> Self:
        """A copy, nested structs included."""
        return type(self)(**{name: getattr(self, name) for name in self._fields})

    def for_kernel(self) -> Self:
        """A copy whose fields are run-time values of their types. Raises ParameterError where one does not fit."""
        found = self.copy()
        for name, item in self._fields.items():
            value = getattr(found, name)
            seen = value.for_kernel() if isinstance(item, StructField) else number(value, item.dtype)
            object.__setattr__(found, name, seen)
        return found

    def tobytes(self) -> bytes:
        """The packed bytes: each field aligned to its size, at most `pack`; the whole to its widest field."""
        raw, _ = self._packed()
        return raw

    def _packed(self) -> tuple[bytes, int]:
        raw, widest = b"", 1
        for name, item in self._fields.items():
            value = getattr(self, name)
            if isinstance(item, StructField):
                part, align = value._packed()
            else:
                part, align = encode_scalar(value, item.dtype), item.dtype.sizeof()
            align = min(align, self._pack)
            raw += bytes(-len(raw) % align) + part
            widest = max(widest, align)
        return raw + bytes(-len(raw) % widest), widest
