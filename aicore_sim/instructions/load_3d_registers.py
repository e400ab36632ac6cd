"""Registers that LoadData3D reads: feature map, padding value and repeat (spec api_semantics.md 5.6, 5.7, pitfalls P18).

They belong to a core and keep their value between instructions. A register that nothing ever wrote is None: what such a
register makes of the destination is undefined, not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, encode_scalar
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import Range, cached_hash, check_range, low_bits, taken

__all__ = ["FmatrixMode", "IsResetLoad3dConfig", "LoadDataRepeatParam", "LoadDataRepeatParamWithStride"]

_SIZE: Range = (1, 32767, 16)
_PAD_BITS = 8


class FmatrixMode(IntEnum):
    """Which feature map register SetFmatrix writes; `f_matrix_ctrl` of a load selects the one it reads."""

    FMATRIX_LEFT = 0
    FMATRIX_RIGHT = 1


@dataclass(frozen=True)
class IsResetLoad3dConfig:
    """Template parameter of a 3-D load: whether the call programs the feature map and the padding register itself.

    Where a flag is False, the struct's `l1_h`, `l1_w` and `pad_list` (or its `pad_value`) count for nothing and the
    register's last value holds.
    """

    is_set_f_matrix: bool = True
    is_set_padding: bool = True


@dataclass(frozen=True)
class LoadDataRepeatParam:
    """Iterations of one 3-D load, in pyasc's order (C++: stride, time, mode).

    `repeat_stride` counts 16 rows of the img2col matrix (mode 0) or 32 B of columns (mode 1; 64 B on 200I) from one
    iteration's start to the next. `dst_stride` (350, which the header lacks) is the column pitch in L0 in 512 B; 0 is
    not given.
    """

    repeat_time: int = 1
    repeat_stride: int = 0
    repeat_mode: int = 0
    dst_stride: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class LoadDataRepeatParamWithStride:
    """Iterations and column pitch of LoadDataWithStride, in the order of the C++ struct; units as LoadDataRepeatParam."""

    repeat_stride: int = 0
    repeat_time: int = 1
    repeat_mode: int = 0
    dst_stride: int = 0

    __hash__ = cached_hash


class FeatureMap(NamedTuple):
    """A feature map register: the map in L1 and its padding (left, right, top, bottom)."""

    l1_h: int
    l1_w: int
    pad_list: tuple[int, ...]


class Padding(NamedTuple):
    """The padding register: `value` as an element of `dtype` ("": of the load that uses it).

    `text` tells 0.0 from -0.0 when registers are compared.
    """

    value: float | int
    dtype: str
    text: str

    def block(self, dtype: DataType, low_half: bool) -> bytes:
        """32 B of padding for a load of `dtype`; `low_half` keeps 16 bits of the register (quirk load3d-pad-16-bit).

        The register is read as raw bits: 8-bit values stand twice in its low half (spec 5.7). Raises ParameterError for
        a value that is none of its type.
        """
        kind = DataType(self.dtype) if self.dtype else dtype
        one = _element(self.value, kind)
        word = (one * 2 if len(one) == 1 else one).ljust(4, b"\0")
        if low_half:
            word = word[:2] + b"\0\0"
        size = max(dtype.bits // 8, 1)
        return word[:size] * (BLOCK_BYTES // size)


class Repeat(NamedTuple):
    """The repeat register. `pitch`: distance of column blocks in L0 in fractals, None where the load computes it."""

    time: int
    stride: int
    mode: int
    pitch: int | None = None


ONCE = Repeat(1, 0, 0)


def _element(value: float | int, dtype: DataType) -> bytes:
    """The padding value as one element."""
    if dtype.bits == 4 and dtype.is_int():
        check_range("LoadData", "padding", "pad_value", value, -8, 7, "")
    try:
        return encode_scalar(value, dtype)
    except ParameterError as error:
        error.field = "pad_value"
        raise


# ---- what the functions write -------------------------------------------------------------------------------------
def feature_map(api: str, fmap: FeatureMap, card: Card, warnings: list[str], lowest: int = 1) -> FeatureMap:
    """`fmap` within its ranges (l1_h, l1_w: `lowest`..32767, pads 0..255); raises or truncates as `base.taken`."""
    size = taken(api, Fmatrix(fmap.l1_h, fmap.l1_w), {"l1_h": (lowest, *_SIZE[1:]), "l1_w": (lowest, *_SIZE[1:])},
                 card, warnings)  # fmt: skip
    pads = tuple(fmap.pad_list)
    if len(pads) != 4:
        raise ParameterError(f"{api}: pad_list (padList) is left, right, top, bottom", field="pad_list",
                             value=str(pads), allowed="4 numbers", card=card.name)  # fmt: skip
    return FeatureMap(size.l1_h, size.l1_w, tuple(_pad(api, pad, card, warnings) for pad in pads))


@dataclass(frozen=True)
class Fmatrix:
    """The two sizes of a feature map register, for range checks."""

    l1_h: int
    l1_w: int


def _pad(api: str, pad: int, card: Card, warnings: list[str]) -> int:
    if card.wrap and type(pad) is int and not 0 <= pad < 1 << _PAD_BITS:
        kept = low_bits(pad, _PAD_BITS)
        warnings.append(f"pad_list has {pad}, which does not fit its {_PAD_BITS} bits and becomes {kept}")
        pad = kept
    check_range(api, "Fmatrix", "pad_list", pad, 0, (1 << _PAD_BITS) - 1, card.name)
    return pad


_REPEAT: dict[str, Range] = {
    "repeat_time": (0, 255), "repeat_stride": (0, 65535), "repeat_mode": (0, 1), "dst_stride": (0, 65535),
}  # fmt: skip


def repeat_register(
    api: str, param: LoadDataRepeatParam | LoadDataRepeatParamWithStride, card: Card, warnings: list[str]
) -> Repeat:
    """The register after SetLoadDataRepeat or SetLoadDataRepeatWithStride.

    Without stride a `dst_stride` of 0 is not given, and so is any where the card's call ignores it. Raises
    ParameterError for a field outside its range.
    """
    now = taken(api, param, _REPEAT, card, warnings)
    pitch: int | None = now.dst_stride
    if isinstance(now, LoadDataRepeatParam):
        ignored = card.npu_arch != 3510 or card.quirk("load3d-repeat-pitch")
        if pitch and ignored:
            warnings.append("dst_stride has no effect here")
        pitch = None if ignored else pitch or None
    if now.repeat_time == 0:
        warnings.append("repeat_time is 0: every 3-D load is a no-operation until it is set again")
    return Repeat(now.repeat_time, now.repeat_stride, now.repeat_mode, pitch)


def check_boundary(boundary: int, card: Card) -> None:
    """Raise ParameterError unless SetLoadDataBoundary takes the value: 0, or 1024 B .. L1 in whole blocks of 32 B.

    1 to 1023 is undefined by the page; what a boundary inside a 32 B block does is not stated (spec 24).
    """
    api, capacity = "SetLoadDataBoundary", int(card.value("buffers.L1.size"))
    check_range(api, "LoadData", "boundary", boundary, 0, capacity, card.name)
    if 0 < boundary < 1024 or boundary % BLOCK_BYTES:
        raise ParameterError(f"{api}: boundary (boundaryValue) is undefined below 1024 B and inside a block of 32 B",
                             field="boundary", value=boundary, card=card.name,
                             allowed=f"0 (all of L1), or a multiple of 32 in 1024..{capacity}")  # fmt: skip
