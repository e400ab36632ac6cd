"""Vector functions that convert their result: MulCast, AddReluCast, SubReluCast, AddDeqRelu, int32 to half by a scale.

They round to nearest even and clamp to integer types, which is what the published implementation of 3510 does; the
pages leave the rounding open (spec api_semantics.md 25.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.cast import MODES, conversion
from aicore_sim.instructions.vector import Work, check_kinds, check_listed
from aicore_sim.instructions.vector_math import Array, add, add_relu, mul, relu, sub_relu

_SHIFT = np.float32(2.0**17)
_MODE = "CAST_RINT"


@dataclass(frozen=True)
class Converting:
    """One row: `api` as in the card's API list, and what is computed in the type of the sources."""

    api: str
    function: Callable[[Array, Array], Array]


CONVERTING: dict[str, Converting] = {
    "mul_cast": Converting("MulCast", mul),
    "add_relu_cast": Converting("AddReluCast", add_relu),
    "sub_relu_cast": Converting("SubReluCast", sub_relu),
}


def _pair(api: str, dtypes: Sequence[DataType], card: Card) -> tuple[DataType, DataType]:
    """(destination, source) types. Raises ParameterError for unequal sources, UnsupportedError for unlisted pairs."""
    dst, src, *others = dtypes
    if any(other is not src for other in others):
        raise ParameterError(f"{api}: both sources have one element type", field="dtype",
                             value=", ".join(dtype.name for dtype in dtypes[1:]), card=card.name)  # fmt: skip
    check_listed(api, f"{src.name}*{dst.name}", card)
    return dst, src


def work_of(name: str, dtypes: tuple[DataType, ...], kinds: Sequence[str], scalar: Any, card: Card) -> Work:
    """The checked function `name` of `CONVERTING`: dst, src0, src1."""
    row = CONVERTING[name]
    check_kinds(row.api, kinds, card)
    dst, src = _pair(row.api, dtypes, card)
    convert = conversion(dst, src, _MODE)
    return Work(row.api, name, dtypes, (1, 2), partial(_converted, row.function, convert), f"{src.name}->{dst.name}")


def _converted(function: Callable[[Array, Array], Array], convert: Callable[[Array], Array], a: Array, b: Array) -> Array:
    return convert(function(a, b))


# ---- int32 to half by the scale of SetDeqScale ------------------------------------------------------------------------
def dequantise(scale: np.float32, a: Array) -> Array:
    """float(a) * 2^-17 * scale * 2^17, each step rounded to float, then to nearest even in half (spec 25.3)."""
    steps = a.astype(np.float32) * (1 / _SHIFT) * scale * _SHIFT
    return steps.astype(np.float16)


def _scale(api: str, scale: float | None, card: Card) -> np.float32:
    """The half of SetDeqScale as a float. Raises ParameterError where none was set."""
    if scale is None:
        raise ParameterError(f"{api} from int32 to half multiplies by the scale of set_deq_scale(scale), and none was set",
                             field="scale", value=None, card=card.name)  # fmt: skip
    return np.float32(np.float16(scale))


def dequantising(api: str, dtypes: tuple[DataType, ...], kinds: Sequence[str], scale: float | None, card: Card) -> Work:
    """The checked CastDequant (or Cast) of int32 to half."""
    check_kinds(api, kinds, card)
    if api == "Cast" and card.npu_arch == 3002:
        raise UnsupportedError(f"{api}: this card converts int32 to half without a scale", field="dtype", card=card.name)
    if api != "Cast":
        _pair(api, dtypes, card)
    factor = _scale(api, scale, card)
    return Work(api, "cast", dtypes, (1,), partial(dequantise, factor), f"int32->float16 scale={float(factor)}")


def cast_work(dtypes: tuple[DataType, ...], kinds: Sequence[str], scalar: Any, card: Card) -> Work:
    """The checked Cast of int32 to half where a scale takes part; `scalar` = (mode, which is ignored, scale)."""
    mode, scale = scalar
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode < len(MODES):
        raise ParameterError("Cast: round_mode", field="round_mode", value=mode, allowed=", ".join(MODES), card=card.name)
    return dequantising("Cast", dtypes, kinds, scale, card)


def dequant_work(dtypes: tuple[DataType, ...], kinds: Sequence[str], scale: Any, card: Card) -> Work:
    """The checked CastDequant of int32 to half."""
    return dequantising("CastDequant", dtypes, kinds, scale, card)


def add_deq_relu_work(dtypes: tuple[DataType, ...], kinds: Sequence[str], scale: Any, card: Card) -> Work:
    """The checked AddDeqRelu: the int32 sum (it wraps) becomes a half by the scale, then Relu."""
    api = "AddDeqRelu"
    check_kinds(api, kinds, card)
    _pair(api, dtypes, card)
    factor = _scale(api, scale, card)
    warnings: tuple[str, ...] = ()
    if card.npu_arch == 2201:
        warnings = ("the published library of this card uses src0 and src1 as scratch; here they keep their values",)
    return Work(api, "add_deq_relu", dtypes, (1, 2), partial(_add_deq_relu, factor), f"scale={float(factor)}", warnings)


def _add_deq_relu(scale: np.float32, a: Array, b: Array) -> Array:
    return relu(dequantise(scale, add(a, b)))
