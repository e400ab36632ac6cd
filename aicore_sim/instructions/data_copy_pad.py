"""DataCopyPad: copies of any byte length between GM and UB, on 950 also from GM to L1 (spec api_semantics.md 9.2 to 9.4).

Blocks of blockLen bytes; the strides are gaps from the end of a block to the start of the next, in bytes on the GM side
and in 32 B on the local side. There a block is left padding, data, right padding, then dummy bytes up to the next 32 B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeVar

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, encode_scalar
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import (
    GmTraffic,
    Op,
    Range,
    cached_hash,
    check_range,
    describe,
    low_bits,
    movement,
    taken,
)
from aicore_sim.instructions.data_copy import ARCH_950, DataCopyParams, route
from aicore_sim.instructions.element_value import fitted_constant
from aicore_sim.instructions.offer import both_names, check_offer
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_fill, strided_runs

API = "DataCopyPad"
U32 = 2**32 - 1
WIDE = 2**40 - 1
MAX_LEN = 2**21 - 1


BlocksT = TypeVar("BlocksT", bound="DataCopyExtParams | DataCopyParams")
PadT = TypeVar("PadT", bound="DataCopyPadExtParams | DataCopyPadParams")


class PadMode(IntEnum):
    """Values of PaddingMode."""

    NORMAL = 0
    COMPACT = 1


@dataclass(frozen=True)
class DataCopyExtParams:
    """blockCount blocks of blockLen bytes; gaps in bytes on the GM side, in 32 B on the UB side."""

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    rsv: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class DataCopyPadExtParams:
    """Padding in UB, in elements of `dtype` (at most 32 B on each side), and its value."""

    dtype: DataType
    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: float | int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class DataCopyPadParams:
    """Padding for the DataCopyParams overload; padding_value is the raw 64-bit word of the register."""

    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: int = 0

    __hash__ = cached_hash


class PadRegister(NamedTuple):
    """What the pad value register holds: `value`, written as an element of `dtype` ("": of the copy that uses it, "raw":
    as a 64-bit word). `text` tells 0.0 from -0.0 when registers are compared.
    """

    value: float | int
    dtype: str
    text: str

    def element(self, dtype: DataType) -> bytes:
        """The register as one element of `dtype`."""
        if self.dtype == "raw":
            return _word(int(self.value), dtype)
        bits = encode_scalar(self.value, DataType(self.dtype) if self.dtype else dtype)
        return bits.ljust(8, b"\0")[: dtype.sizeof()]


def set_register(value: float | int) -> PadRegister:
    """The register after SetPadValue(value)."""
    return PadRegister(value, "", str(value))


def left_register(pad: DataCopyPadExtParams | DataCopyPadParams, card: Card) -> PadRegister:
    """The register after a GM -> UB call with `pad`, whose is_pad is set."""
    if isinstance(pad, DataCopyPadParams):
        return PadRegister(pad.padding_value, "raw", str(pad.padding_value))
    value = fitted_constant(pad.padding_value, pad.dtype, card)
    return PadRegister(value, pad.dtype.name, str(value))


def build_in(
    params: DataCopyExtParams | DataCopyParams,
    pad: DataCopyPadExtParams | DataCopyPadParams,
    register: PadRegister | None,
    mode: int,
    dtype: DataType,
    src: str,
    dst: str,
    card: Card,
) -> Op | None:
    """The Op of DataCopyPad GM -> UB or GM -> L1; None for a NOP (blockCount or blockLen 0 into UB).

    Raises ParameterError for a field outside its range, UnsupportedError where card or type do not offer it.
    """
    _check_route(type(params).__name__, src, dst, card, ("GM to UB", "GM to L1"), mode, dtype)
    size = dtype.sizeof()
    warnings: list[str] = []
    params = _counts(params, card, warnings, least=1 if dst == "L1" and not card.wrap else 0)
    length = params.block_len
    wide = card.npu_arch == ARCH_950
    if card.wrap and wide and isinstance(params, DataCopyExtParams):
        params = _wrapped_pitch(params, warnings)
    params = _strides(params, card, warnings, *(((-length, _reach(card)), (0, 65535)) if wide else ((0, U32), (0, U32))))
    _check_length(params, dtype, card)
    pad = _checked_pad(pad, dtype, card, warnings)
    if params.block_count == 0 or length == 0:
        return None
    if params.block_count > 1 and params.src_stride % size:
        warnings.append(
            f"src_stride = {params.src_stride} B leaves block starts unaligned to the {size} B element"
            " (the GM side counts bytes)"
        )
    left, right, gap = pad.left_padding * size, pad.right_padding * size, params.dst_stride * BLOCK_BYTES
    compact = mode == PadMode.COMPACT
    if compact:
        if left or right or gap:
            warnings.append("Compact mode ignores left_padding, right_padding and dst_stride")
        left = right = gap = 0
    row = left + length + right
    pitch = length if compact else up_to_block(gap + row)
    src_pitch = length + params.src_stride
    count = params.block_count
    if not compact and count > 1 and row % BLOCK_BYTES:
        warnings.append(f"rows of {row} B lie {pitch} B apart in {dst}, where the pitch counts whole 32 B")
    steps: list[Step] = [*strided_copy(length, (count,), 0, (src_pitch,), left, (pitch,))]
    first, groups = left + length, count
    if compact:
        # Only what follows the last block is padded.
        first, groups = count * length, 1
    end = up_to_block(first + right)
    if dst == "L1":
        steps.extend(_fills_of_l1(pad, dtype, left, first, first + right, end, groups, pitch, warnings))
    else:
        fill = _fill_value(pad, register, dtype, card, compact)
        if fill is None and not (pad.is_pad or left or right or compact):
            steps.extend(_first_elements(size, count, src_pitch, first, end, pitch))
        else:
            if fill is None and (left or end > first):
                warnings.append(
                    "the padding is undefined: is_pad is False and no pad value was set"
                    if not pad.is_pad
                    else "the bytes up to the next 32 B are undefined on this card while both paddings are 0"
                )
            for start, stop in ((0, left), (first, end)):
                steps.extend(_filled(fill, size, start, stop, groups, pitch))
    pipe, path = route(API, src, dst, card)
    cost = GmTraffic(path, count * length, count, is_read=True)
    op = movement(
        API,
        pipe,
        path,
        Transfer(tuple(steps)),
        cost,
        aligns=(BLOCK_BYTES, 1),
        detail=_detail(params, pad, mode),
        warnings=warnings,
    )
    op.gm_runs = strided_runs(length, (count,), 0, (src_pitch,))
    return op


def up_to_block(nbytes: int) -> int:
    """Rounded up to whole blocks of 32 B."""
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES


def build_out(
    params: DataCopyExtParams | DataCopyParams, mode: int, dtype: DataType, src: str, dst: str, card: Card
) -> Op | None:
    """The Op of DataCopyPad UB -> GM: exactly blockLen bytes a block. None for a NOP. Raises as `build_in`."""
    _check_route(type(params).__name__, src, dst, card, ("UB to GM",), mode, dtype)
    warnings: list[str] = []
    params = _counts(params, card, warnings)
    wide = card.npu_arch == ARCH_950
    params = _strides(params, card, warnings, *(((0, 65535), (0, _reach(card))) if wide else ((0, U32), (0, U32))))
    _check_length(params, dtype, card)
    count, length = params.block_count, params.block_len
    if count == 0 or length == 0:
        return None
    if count > 1 and params.dst_stride % dtype.sizeof():
        warnings.append(
            f"dst_stride = {params.dst_stride} B leaves block starts unaligned to the {dtype.sizeof()} B element"
            " (the GM side counts bytes)"
        )
    pitch = up_to_block(params.src_stride * BLOCK_BYTES + length)
    if mode == PadMode.COMPACT:
        if params.src_stride:
            warnings.append("Compact mode ignores src_stride")
        pitch = length
    elif count > 1 and length % BLOCK_BYTES:
        warnings.append(f"rows of {length} B are read {pitch} B apart in UB, where the pitch counts whole 32 B")
    dst_pitch = length + params.dst_stride
    transfer = Transfer(strided_copy(length, (count,), 0, (pitch,), 0, (dst_pitch,)))
    cost = GmTraffic("UB-GM", count * length, count, is_read=False)
    pipe, path = route(API, src, dst, card)
    op = movement(
        API, pipe, path, transfer, cost, aligns=(1, BLOCK_BYTES), detail=_detail(params, None, mode), warnings=warnings
    )
    op.gm_runs = strided_runs(length, (count,), 0, (dst_pitch,))
    return op


def block_reach(params: DataCopyExtParams | DataCopyParams, src: str) -> dict[str, int]:
    """Bytes that the strides of the struct stand for: a single block uses none of them (spec pitfalls.md P08)."""
    return {
        "src_stride": params.src_stride * (1 if src == "GM" else BLOCK_BYTES),
        "dst_stride": params.dst_stride * (BLOCK_BYTES if src == "GM" else 1),
    }


# ---- checks ---------------------------------------------------------------------------------------------------------
def _check_route(
    struct: str, src: str, dst: str, card: Card, directions: tuple[str, ...], mode: int, dtype: DataType
) -> None:
    direction = f"{src} to {dst}"
    if direction not in directions:
        raise UnsupportedError(
            f"{both_names(API)}: {struct} does not go from {src} to {dst}",
            field="path",
            value=f"{src}-{dst}",
            allowed=", ".join(directions),
            card=card.name,
        )
    if mode not in tuple(PadMode):
        raise ParameterError(
            f"{API}: unknown padding mode", field="mode", value=mode, allowed="Normal, Compact", card=card.name
        )
    if mode == PadMode.COMPACT and card.npu_arch != ARCH_950:
        raise UnsupportedError(
            f"{API}: this card has no PaddingMode.Compact (mode)", field="mode", value="Compact", allowed="Normal",
            card=card.name,
        )
    check_offer(card, API, f"{direction} unaligned", dtype)


def _reach(card: Card) -> int:
    """Longest stride in GM on 950."""
    return 2**39 if card.quirk("pad-stride-2-39") else WIDE


def _counts(params: BlocksT, card: Card, warnings: list[str], least: int = 0) -> BlocksT:
    longest = 65535 if isinstance(params, DataCopyParams) else MAX_LEN
    return taken(API, params, {"block_count": (least, 4095), "block_len": (least, longest)}, card, warnings)


def _wrapped_pitch(params: DataCopyExtParams, warnings: list[str]) -> DataCopyExtParams:
    """`params` with the source stride that is left where the instruction of 950 holds it: as the distance from start to
    start, 40 bits without a sign (spec 9.1, Lowering)."""
    stride = params.src_stride
    if type(stride) is not int or -params.block_len <= stride <= WIDE:
        return params
    kept = low_bits(params.block_len + stride, WIDE.bit_length()) - params.block_len
    warnings.append(f"src_stride = {stride} does not fit its 40 bits and becomes {kept}")
    return replace(params, src_stride=kept)


def _strides(
    params: BlocksT, card: Card, warnings: list[str], src_range: tuple[int, int], dst_range: tuple[int, int]
) -> BlocksT:
    if isinstance(params, DataCopyParams):
        # This overload holds everything in 16 bits.
        src_range = dst_range = (0, 65535)
    ranges: dict[str, Range] = {"src_stride": src_range, "dst_stride": dst_range}
    return taken(API, params, ranges, card, warnings)


def _check_length(params: DataCopyExtParams | DataCopyParams, dtype: DataType, card: Card) -> None:
    if params.block_len % dtype.sizeof():
        raise ParameterError(
            f"{API}: block_len (blockLen) must be a multiple of the element size",
            field="block_len",
            value=params.block_len,
            allowed=f"multiples of {dtype.sizeof()} B",
            card=card.name,
        )


def _checked_pad(pad: PadT, dtype: DataType, card: Card, warnings: list[str]) -> PadT:
    """`pad` after all checks of the struct."""
    most = BLOCK_BYTES // dtype.sizeof()
    pad = taken(API, pad, {"left_padding": (0, most, 8), "right_padding": (0, most, 8)}, card, warnings)
    if isinstance(pad, DataCopyPadExtParams):
        if pad.dtype is not dtype:
            raise ParameterError(
                f"{API}: DataCopyPadExtParams has another element type than the tensors",
                field="dtype",
                value=str(pad.dtype),
                allowed=dtype.name,
                card=card.name,
            )
    else:
        check_range(API, "DataCopyPadParams", "padding_value", pad.padding_value, 0, 2**64 - 1, card.name)
    if dtype.bits == 64 and pad.padding_value:
        raise ParameterError(
            f"{API}: padding_value (paddingValue) must be 0 for 64-bit types",
            field="padding_value",
            value=pad.padding_value,
            allowed="0",
            card=card.name,
        )
    if isinstance(pad, DataCopyPadExtParams):
        value = fitted_constant(pad.padding_value, dtype, card, "padding_value", warnings)
        if value is not pad.padding_value:
            pad = replace(pad, padding_value=value)
    _element(pad, dtype)
    return pad


# ---- padding --------------------------------------------------------------------------------------------------------
def _element(pad: DataCopyPadExtParams | DataCopyPadParams, dtype: DataType) -> bytes:
    """The padding value as one element."""
    if isinstance(pad, DataCopyPadExtParams):
        try:
            return encode_scalar(pad.padding_value, dtype)
        except ParameterError as error:
            error.field = "padding_value"
            raise
    return _word(pad.padding_value, dtype)


def _word(value: int, dtype: DataType) -> bytes:
    return value.to_bytes(8, "little")[: dtype.sizeof()]


def _fill_value(
    pad: DataCopyPadExtParams | DataCopyPadParams,
    register: PadRegister | None,
    dtype: DataType,
    card: Card,
    compact: bool,
) -> bytes | None:
    """The element that pads and dummy bytes in UB get, None where it is not a constant (spec 9.2, Fill values)."""
    if not pad.is_pad:
        return register.element(dtype) if register is not None else None
    no_pads = pad.left_padding == 0 and pad.right_padding == 0
    if no_pads and card.npu_arch != ARCH_950 and not compact:
        # The pages of A2, A3 and 200I say "first element" here, the instruction has no such flag: left undefined.
        return None
    return _element(pad, dtype)


def _filled(fill: bytes | None, size: int, start: int, stop: int, groups: int, pitch: int) -> tuple[Step, ...]:
    """Bytes start..stop of every group, with `fill` or, without one, left undefined."""
    pattern = bytes(stop - start) if fill is None else fill * ((stop - start) // size)
    return strided_fill(pattern, (groups,), start, (pitch,), undefined=fill is None)


def _fills_of_l1(
    pad: DataCopyPadExtParams | DataCopyPadParams, dtype: DataType, left: int, first: int, dummy: int, end: int,
    groups: int, pitch: int, warnings: list[str],
) -> Iterator[Step]:  # fmt: skip
    """Padding in L1 (spec 9.3): the header pads with the value always, the C-API page never. Paddings asked for with is_pad
    get the value; everything else is not stated."""
    fill = _element(pad, dtype) if pad.is_pad else None
    for start, stop in ((0, left), (first, dummy)):
        yield from _filled(fill, dtype.sizeof(), start, stop, groups, pitch)
    yield from _filled(None, dtype.sizeof(), dummy, end, groups, pitch)
    if dummy < end or (fill is None and (left or first < dummy)):
        what = "padding" if fill is None and (left or first < dummy) else "bytes up to the next 32 B"
        warnings.append(f"the {what} in L1 are undefined: pages and header contradict each other")


def _first_elements(size: int, count: int, src_pitch: int, first: int, end: int, pitch: int) -> Iterator[Step]:
    """Dummy bytes of every block, filled with the block's first element."""
    yield from strided_copy(size, (count, (end - first) // size), 0, (src_pitch, 0), first, (pitch, size))


def _detail(
    params: DataCopyExtParams | DataCopyParams, pad: DataCopyPadExtParams | DataCopyPadParams | None, mode: int
) -> str:
    parts = [describe(params)]
    if pad is not None:
        parts.append(describe(pad))
    if mode == PadMode.COMPACT:
        parts.append("Compact")
    return " ".join(part for part in parts if part)
