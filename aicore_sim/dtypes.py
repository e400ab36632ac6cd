"""Element types: names, bits, and how their bytes are seen through numpy.

Names are pyasc's (`float16`, `int32`, ...) with the C++ names (`half`, `int32_t`, `float`, `bfloat16_t`, ...) accepted
wherever a name is read (spec pyasc.md 4, api_semantics.md 23).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aicore_sim import narrow_floats
from aicore_sim.errors import ParameterError

BLOCK_BYTES = 32
FRACTAL_BYTES = 512

# name: (bits, kind, numpy storage type, C++ name). Types below 8 bits are stored two to a byte.
_TABLE: dict[str, tuple[int, str, Any, str]] = {
    "int4": (4, "int", ml_dtypes.int4, "int4b_t"),
    "fp4x2_e2m1": (4, "float", ml_dtypes.float4_e2m1fn, "fp4x2_e2m1_t"),
    "fp4x2_e1m2": (4, "float", None, "fp4x2_e1m2_t"),
    "int8": (8, "int", np.int8, "int8_t"),
    "uint8": (8, "uint", np.uint8, "uint8_t"),
    "hifloat8": (8, "float", None, "hifloat8_t"),
    "fp8_e5m2": (8, "float", ml_dtypes.float8_e5m2, "fp8_e5m2_t"),
    "fp8_e4m3fn": (8, "float", ml_dtypes.float8_e4m3fn, "fp8_e4m3fn_t"),
    "fp8_e8m0": (8, "float", ml_dtypes.float8_e8m0fnu, "fp8_e8m0_t"),
    "int16": (16, "int", np.int16, "int16_t"),
    "uint16": (16, "uint", np.uint16, "uint16_t"),
    "float16": (16, "float", np.float16, "half"),
    "bfloat16": (16, "float", ml_dtypes.bfloat16, "bfloat16_t"),
    "int32": (32, "int", np.int32, "int32_t"),
    "uint32": (32, "uint", np.uint32, "uint32_t"),
    "float32": (32, "float", np.float32, "float"),
    "int64": (64, "int", np.int64, "int64_t"),
    "uint64": (64, "uint", np.uint64, "uint64_t"),
    "float64": (64, "float", np.float64, "double"),
    "void": (0, "void", None, "void"),
}
_ALIASES = {
    "half": "float16", "float": "float32", "float_": "float32", "double": "float64", "int": "int32", "int_": "int32",
    "int4b": "int4", "int4b_t": "int4", "bf16": "bfloat16", "bool": "int8", "int1": "int8", "bit": "int8",
    "bool_": "int8", "hif8": "hifloat8", "fp4x2_e2m1_t": "fp4x2_e2m1", "fp4x2_e1m2_t": "fp4x2_e1m2",
    **{spec[3]: name for name, spec in _TABLE.items()},
}  # fmt: skip


class DataType:
    """One element type. `DataType("half") is DataType("float16")`: instances are shared, compare by name.

    Attributes: `name` (pyasc), `api_name` (C++), `bits` (= `bitwidth`), `c0` (elements in 32 B), `np_dtype` (numpy
    type of one stored word; None for hifloat8 and fp4x2_e1m2, which have no numpy type).
    """

    __slots__ = ("api_name", "bits", "c0", "kind", "name", "np_dtype")
    _known: dict[str, DataType] = {}

    name: str
    api_name: str
    bits: int
    kind: str
    c0: int
    np_dtype: np.dtype[Any] | None

    def __new__(cls, name: str) -> DataType:
        key = _ALIASES.get(name, name)
        if key in cls._known:
            return cls._known[key]
        if key not in _TABLE:
            raise ParameterError("unknown element type", field="dtype", value=name, allowed=", ".join(_TABLE))
        self = super().__new__(cls)
        bits, kind, storage, api_name = _TABLE[key]
        self.name, self.bits, self.kind, self.api_name = key, bits, kind, api_name
        self.c0 = BLOCK_BYTES * 8 // bits if bits else 0
        self.np_dtype = np.dtype(storage) if storage is not None else None
        cls._known[key] = self
        return self

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (self.name,)

    @property
    def bitwidth(self) -> int:
        return self.bits

    def sizeof(self) -> int:
        """Bytes of one element (1 for types below 8 bits, as C++ sizeof)."""
        return max(self.bits // 8, 1)

    def nbytes(self, elements: int) -> int:
        """Bytes of `elements` packed elements, rounded up for 4-bit types."""
        return (elements * self.bits + 7) // 8

    def is_int(self) -> bool:
        return self.kind in ("int", "uint")

    def is_float(self) -> bool:
        return self.kind == "float"

    def is_numeric(self) -> bool:
        return self.kind != "void"

    def is_signed(self) -> bool:
        return self.kind == "int"

    def is_unsigned(self) -> bool:
        return self.kind == "uint"

    def is_void(self) -> bool:
        return self.kind == "void"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DataType):
            return self is other
        return isinstance(other, str) and _ALIASES.get(other, other) == self.name

    __hash__ = object.__hash__  # instances are shared, and this keys every look-up of an instruction

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DataType('{self.name}')"


def of_numpy(dtype: np.dtype[Any]) -> DataType:
    """The element type of a numpy array.

    Raises ParameterError for a numpy type that no card knows (bool, complex, strings ...).
    """
    name = dtype.name
    if name in ("float8_e5m2", "float8_e4m3fn"):
        name = name.replace("float8", "fp8")
    elif name == "float8_e8m0fnu":
        name = "fp8_e8m0"
    elif name == "float4_e2m1fn":
        name = "fp4x2_e2m1"
    elif name in ("bool", "void") or name not in _TABLE:
        raise ParameterError("this numpy type has no device element type", field="dtype", value=name)
    return DataType(name)


def word_type(bits: int) -> np.dtype[Any]:
    """Unsigned numpy type of `bits` bits (8, 16, 32, 64): raw words."""
    return np.dtype(f"u{bits // 8}")


def encode_scalar(value: float | int | np.generic, dtype: DataType) -> bytes:
    """Little-endian bytes of `value` as one element (two equal nibbles for 4-bit types).

    Floats are rounded: to nearest even, hifloat8 half away from zero; 4-bit floats keep to their largest value. Raises
    ParameterError where the value does not fit an integer type, where it is no power of two that fp8_e8m0 could round to
    (0, which that type lacks, is the byte 0), and for void.
    """
    if dtype.name in narrow_floats.NARROW:
        return _encode_narrow(value, dtype)
    if dtype.np_dtype is None:
        raise ParameterError("void has no constants", field="dtype", value=dtype.name)
    if dtype.bits == 4:
        nibble = int(np.asarray(value).astype(dtype.np_dtype).view(np.uint8)) & 0xF
        return bytes([nibble | nibble << 4])
    if dtype.is_int():
        info = np.iinfo(dtype.np_dtype)
        number = int(value)
        if number != value or not info.min <= number <= info.max:
            raise ParameterError("constant outside its element type", field="value", value=value,
                                 allowed=f"{info.min}..{info.max} ({dtype.name})")  # fmt: skip
        return np.array(number, dtype.np_dtype).tobytes()
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype.np_dtype).tobytes()


def _encode_narrow(value: float | int | np.generic, dtype: DataType) -> bytes:
    number = float(value)
    if dtype.name == "fp8_e8m0" and number == 0:
        return bytes(1)
    if dtype.name == "fp8_e8m0" and (number < 0 or number == float("inf")):
        raise ParameterError("fp8_e8m0 holds powers of two", field="value", value=value, allowed="2^-127..2^127")
    code = int(narrow_floats.encode(number, dtype.name))
    return bytes([code | code << 4 if dtype.bits == 4 else code])


def typed(raw: NDArray[np.uint8], dtype: DataType) -> NDArray[Any]:
    """View bytes as elements of `dtype` (storage words for types without a numpy type, 4-bit types unpacked as a copy)."""
    if dtype.bits == 4:
        nibbles = np.empty(raw.size * 2, np.uint8)
        nibbles[0::2], nibbles[1::2] = raw & 0xF, raw >> 4
        return nibbles.view(dtype.np_dtype) if dtype.np_dtype is not None else nibbles
    if dtype.np_dtype is None:
        return raw
    return raw.view(dtype.np_dtype)


int4 = DataType("int4")
fp4x2_e2m1 = DataType("fp4x2_e2m1")
fp4x2_e1m2 = DataType("fp4x2_e1m2")
int8 = DataType("int8")
uint8 = DataType("uint8")
hifloat8 = DataType("hifloat8")
fp8_e5m2 = DataType("fp8_e5m2")
fp8_e4m3fn = DataType("fp8_e4m3fn")
fp8_e8m0 = DataType("fp8_e8m0")
int16 = DataType("int16")
uint16 = DataType("uint16")
float16 = half = DataType("float16")
bfloat16 = DataType("bfloat16")
int32 = int_ = DataType("int32")
uint32 = DataType("uint32")
float32 = float_ = DataType("float32")
int64 = DataType("int64")
uint64 = DataType("uint64")
float64 = double = DataType("float64")
void = DataType("void")
