"""Image preprocessing on the way into L1: the settings are kept, LoadImageToLocal itself is not modelled (pyasc.md 8).

SetAippFunctions programs registers that only LoadImageToLocal reads, so other copies are as before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from aicore_sim.dtypes import DataType, float16, int8
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Range, check_range
from aicore_sim.instructions.element_value import element_bytes
from aicore_sim.kernel.context import Recorder, current

__all__ = [
    "AippChannelPaddingParams", "AippColorSpaceConvParams", "AippDataTypeConvParams", "AippInputFormat",
    "AippPaddingParams", "AippParams", "AippSingleLineParams", "AippSwapParams", "set_aipp_functions",
]  # fmt: skip

API = "SetAippFunctions"


class AippInputFormat(IntEnum):
    """Format of the image in GM: 8-bit unsigned channels."""

    YUV420SP_U8 = 0
    XRGB8888_U8 = 1
    RGB888_U8 = 4
    YUV400_U8 = 9


_ALIGNS = {AippInputFormat.YUV420SP_U8: 2, AippInputFormat.XRGB8888_U8: 4}
"""Start alignment of the image in GM, where there is one."""


@dataclass(frozen=True)
class AippPaddingParams:
    """Padding in H and W: constants (0), rows and columns (1), blocks (2), mirrored blocks (3)."""

    padding_mode: int = 0
    padding_value_ch0: int | float = 0
    padding_value_ch1: int | float = 0
    padding_value_ch2: int | float = 0
    padding_value_ch3: int | float = 0


@dataclass(frozen=True)
class AippSwapParams:
    """Channels exchanged: R and B, U and V, X moved to the end."""

    is_swap_rb: bool = False
    is_swap_uv: bool = False
    is_swap_ax: bool = False


@dataclass(frozen=True)
class AippSingleLineParams:
    """Whether one line of the image is read."""

    is_single_line_copy: bool = False


@dataclass(frozen=True)
class AippDataTypeConvParams:
    """Conversion of channels: (x - mean - min) * var; rounding to nearest (0) or to nearest even (1)."""

    dtc_mean_ch0: int = 0
    dtc_mean_ch1: int = 0
    dtc_mean_ch2: int = 0
    dtc_min_ch0: float = 0.0
    dtc_min_ch1: float = 0.0
    dtc_min_ch2: float = 0.0
    dtc_var_ch0: float = 1.0
    dtc_var_ch1: float = 1.0
    dtc_var_ch2: float = 1.0
    dtc_round_mode: int = 0


@dataclass(frozen=True)
class AippChannelPaddingParams:
    """Channels padded to 32 B (0) or to four (1)."""

    c_padding_mode: int = 0
    c_padding_value: int | float = 0


@dataclass(frozen=True)
class AippColorSpaceConvParams:
    """Conversion between RGB and YUV: a 3 x 3 matrix (int16) and biases (uint8)."""

    is_enable_csc: bool = False
    csc_matrix_r0_c0: int = 0
    csc_matrix_r0_c1: int = 0
    csc_matrix_r0_c2: int = 0
    csc_matrix_r1_c0: int = 0
    csc_matrix_r1_c1: int = 0
    csc_matrix_r1_c2: int = 0
    csc_matrix_r2_c0: int = 0
    csc_matrix_r2_c1: int = 0
    csc_matrix_r2_c2: int = 0
    csc_bias_in_0: int = 0
    csc_bias_in_1: int = 0
    csc_bias_in_2: int = 0
    csc_bias_out_0: int = 0
    csc_bias_out_1: int = 0
    csc_bias_out_2: int = 0


_RANGES: dict[str, Range] = {"padding_mode": (0, 3), "c_padding_mode": (0, 1), "dtc_round_mode": (0, 1)}
_PARTS: tuple[tuple[str, type[Any]], ...] = (
    ("padding_params", AippPaddingParams), ("swap_params", AippSwapParams),
    ("single_line_params", AippSingleLineParams), ("dtc_params", AippDataTypeConvParams),
    ("c_padding_params", AippChannelPaddingParams), ("csc_params", AippColorSpaceConvParams),
)  # fmt: skip


def _range_of(name: str) -> Range | None:
    """Range of an int field, by name: modes, 16-bit matrix, 8-bit means and biases."""
    if name.startswith("csc_matrix"):
        return -(1 << 15), (1 << 15) - 1
    if name.startswith(("csc_bias", "dtc_mean")):
        return 0, 255
    return _RANGES.get(name)


@dataclass(frozen=True)
class AippParams:
    """All settings; `dtype` is the type of the result, int8 or float16 (TypeError otherwise, as in pyasc).

    Raises ParameterError for a value outside its field.
    """

    dtype: DataType
    padding_params: AippPaddingParams | None = None
    swap_params: AippSwapParams | None = None
    single_line_params: AippSingleLineParams | None = None
    dtc_params: AippDataTypeConvParams | None = None
    c_padding_params: AippChannelPaddingParams | None = None
    csc_params: AippColorSpaceConvParams | None = None

    def __post_init__(self) -> None:
        if self.dtype not in (int8, float16):
            raise TypeError(f"AippParams: dtype must be asc.int8 or asc.float16, not {self.dtype}")
        for name, kind in _PARTS:
            if getattr(self, name) is None:
                object.__setattr__(self, name, kind())
            _check_part(name, getattr(self, name), kind, self.dtype)


def _check_part(name: str, part: Any, kind: type[Any], dtype: DataType) -> None:
    if not isinstance(part, kind):
        raise ParameterError(f"AippParams: {name}", field=name, value=type(part).__name__, allowed=kind.__name__)
    for one in fields(part):
        value = getattr(part, one.name)
        limits = _range_of(one.name)
        if limits is not None:
            check_range(API, kind.__name__, one.name, value, limits[0], limits[1], "")
        elif one.name.startswith(("padding_value", "c_padding_value")):
            element_bytes(API, value, dtype, one.name)
        elif one.name.startswith("is_") and not isinstance(value, (bool, int)):
            raise ParameterError(f"{API}: {one.name} is a bool", field=one.name, value=value, allowed="bool")


@dataclass(frozen=True)
class AippSettings:
    """What SetAippFunctions programmed, as LoadImageToLocal would read it."""

    sources: tuple[Any, ...]
    input_format: AippInputFormat
    config: AippParams = field(compare=False)


def set_aipp_functions(*args: Any, **kwargs: Any) -> None:
    """SetAippFunctions: `(src0, input_format, config)`, or `(src0, src1, input_format, config)` for YUV420SP.

    Kept until the next call; without effect on data here, since LoadImageToLocal is not modelled. Raises ParameterError
    for other arguments, AlignmentError for an image that starts at the wrong address.
    """
    rec = current()
    if not any(row.supported for row in rec.card.api(API)):
        raise UnsupportedError(f"{API}: not on this card", field="api", value=API, card=rec.card.name)
    names: tuple[str, ...] = ("src0", "input_format", "config")
    if len(args) + len(kwargs) == 4:
        names = ("src0", "src1", "input_format", "config")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(given) != len(args) + len(kwargs) or set(given) != set(names):
        raise ParameterError("set_aipp_functions takes (src0, [src1,] input_format, config)", field="arguments",
                             value=f"{args} {kwargs}", card=rec.card.name)  # fmt: skip
    try:
        wanted = AippInputFormat(given["input_format"])
    except ValueError:
        raise ParameterError(f"{API}: input_format", field="input_format", value=given["input_format"],
                             allowed=", ".join(f.name for f in AippInputFormat), card=rec.card.name) from None  # fmt: skip
    if not isinstance(given["config"], AippParams):
        raise ParameterError(f"{API}: config", field="config", value=type(given["config"]).__name__,
                             allowed="AippParams", card=rec.card.name)  # fmt: skip
    sources = tuple(given[name] for name in names if name.startswith("src"))
    _check_sources(rec, sources, wanted)
    rec.state["aipp"] = AippSettings(sources, wanted, given["config"])


def _check_sources(rec: Recorder, sources: tuple[Any, ...], wanted: AippInputFormat) -> None:
    if wanted is AippInputFormat.YUV420SP_U8 and len(sources) != 2:
        raise ParameterError(f"{API}: YUV420SP has its UV plane in src1", field="src1", value=None, card=rec.card.name)
    for name, source in zip(("src0", "src1"), sources, strict=False):
        if getattr(source, "kind", None) != "GM":
            raise ParameterError(f"{API}: the image lies in GM", field=name, value=type(source).__name__,
                                 allowed="GlobalTensor", card=rec.card.name)  # fmt: skip
        align = _ALIGNS.get(wanted, 1)
        if source.offset % align:
            raise AlignmentError(f"{API}: an image of this format starts at a multiple of {align} B", field=name,
                                 value=source.offset, allowed=f"multiples of {align}", card=rec.card.name)  # fmt: skip
