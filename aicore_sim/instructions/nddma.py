"""NDDMA: the multi-dimensional DataCopy GM -> UB with padding (spec api_semantics.md 10).

Dimension 0 is the innermost. For every dimension i the position p runs over left pad, data and right pad; the
destination element is the sum of p * dstStride, the source element the sum of (p - left pad) * srcStride, in elements.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, encode_scalar
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import NDDMA_ELEMENTS, GmTraffic, Op, Pipe, cached_hash, camel, low_bits, movement
from aicore_sim.instructions.data_copy import API, route
from aicore_sim.instructions.element_value import fitted_constant
from aicore_sim.instructions.nddma_words import WordsEffect
from aicore_sim.instructions.offer import both_names, check_offer, type_names
from aicore_sim.transfer import Runs, Step, Transfer, strided_copy, strided_fill, strided_runs

UNSET_PAD = 0xFFFF
MAX_DIM = 5
SPAN = 2**40
"""Address span one instruction may cover, in elements (spec 10.3)."""
EXACT_OVERLAP_LIMIT = 1 << 20
_FIELDS = ("loop_src_stride", "loop_dst_stride", "loop_size", "loop_lp_size", "loop_rp_size")


def _loop(field: str, value: Any) -> tuple[int, ...]:
    """One number or a sequence of them as a tuple of ints."""
    if type(value) is tuple and all([type(x) is int for x in value]):
        return value
    try:
        return tuple(map(operator.index, value if hasattr(value, "__iter__") else (value,)))
    except TypeError as error:
        raise ParameterError(
            f"{API}: NDDMA {field} ({camel(field)}) takes an int or a sequence of ints", field=field, value=value
        ) from error


@dataclass(frozen=True)
class NdDmaLoopInfo:
    """The loops, innermost first: 1 to 5 numbers each (a plain int means one dimension), in elements.

    loopSrcStride 0..2^40-1, loopDstStride 0..2^20-1, loopSize 1..2^20-1, loopLpSize and loopRpSize 0..255.
    """

    loop_src_stride: Sequence[int] | int = 0
    loop_dst_stride: Sequence[int] | int = 0
    loop_size: Sequence[int] | int = 0
    loop_lp_size: Sequence[int] | int = 0
    loop_rp_size: Sequence[int] | int = 0

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        for field in _FIELDS:
            given = getattr(self, field)
            loop = _loop(field, given)
            if loop is not given:
                object.__setattr__(self, field, loop)


@dataclass(frozen=True)
class NdDmaParams:
    """`loop_info` and the value of the padding; None leaves the padding undefined, as an unset field does."""

    loop_info: NdDmaLoopInfo
    constant_value: float | int | None = None

    __hash__ = cached_hash


@dataclass(frozen=True)
class NdDmaConfig:
    """Nearest-value instead of constant padding; pads of 0..255 replace those of all dimensions, 0xFFFF leaves them."""

    is_nearest_value_mode: bool = False
    loop_lp_size: int = UNSET_PAD
    loop_rp_size: int = UNSET_PAD
    asc_optimize: bool = False

    __hash__ = cached_hash


MultiCopyLoopInfo = NdDmaLoopInfo
MultiCopyParams = NdDmaParams
DEFAULT_CONFIG = NdDmaConfig()


@dataclass(frozen=True)
class Loop:
    """One dimension, strides in bytes."""

    src: int
    dst: int
    size: int
    left: int
    right: int

    @property
    def extent(self) -> int:
        return self.left + self.size + self.right


def build(
    params: NdDmaParams, dtype: DataType, src: str, dst: str, card: Card, config: NdDmaConfig = DEFAULT_CONFIG
) -> Op:
    """The Op of DataCopy(dst, src, NdDmaParams) with its template constant NdDmaConfig.

    Raises ParameterError for a field outside its range, a span of 2^40 or more, ascending destination strides that
    interleave, or what 64-bit types exclude; UnsupportedError where card or type do not offer it.
    """
    # The page lists widths (b8 to b64); the row of the card spells out only some of the types.
    check_offer(card, API, "GM to UB NDDMA", None)
    if dtype.bits < 8:
        raise UnsupportedError(f"{both_names(API)}: NdDmaParams (NDDMA) does not take {type_names(dtype)}",
                               field="dtype", value=dtype.name, card=card.name,
                               allowed="types of 8, 16, 32 and 64 bits; pairs of 4 bits as uint8")  # fmt: skip
    if (src, dst) != ("GM", "UB"):
        raise ParameterError(
            f"{API}: NDDMA runs from GM to UB", field="path", value=f"{src}-{dst}", allowed="GM-UB", card=card.name
        )
    _, path = route(API, src, dst, card)
    warnings: list[str] = []
    loops = _loops(params.loop_info, dtype, config, card, warnings)
    params = _fitted_constant(params, dtype, card, warnings)
    inside = _check_config(params, dtype, config, len(loops), card, warnings)
    _check_span(loops, card)
    overlap = _check_overlap(loops, card)
    if overlap:
        warnings.append(overlap)
    size = dtype.sizeof()
    in_bytes = [Loop(x.src * size, x.dst * size, x.size, x.left, x.right) for x in loops]
    steps: list[Step] = []
    if config.is_nearest_value_mode:
        steps.extend(_nearest(in_bytes, size))
    else:
        steps.extend(_inside(in_bytes, size))
        borders = any(x.left or x.right for x in loops)
        if borders and params.constant_value is None:
            warnings.append("pad value not set: the padding is undefined (set constant_value)")
        value = params.constant_value
        # A zero that nothing is padded with need not exist in the type: fp8_e8m0 has none.
        pattern = bytes(size) if value is None or not (borders or value) else _constant(value, dtype)
        steps.extend(_borders(in_bytes, pattern, params.constant_value is None))
    transfer = Transfer(tuple(steps))
    runs, rows, by_element = _gm_reads(in_bytes, size, _passes(loops, dtype, config))
    cost = GmTraffic(path, transfer.copied_bytes, rows, is_read=True, layout=NDDMA_ELEMENTS if by_element else "nddma")
    op = movement(
        API,
        Pipe.MTE2,
        path,
        transfer,
        cost,
        aligns=(1, 1),
        through="nddma",
        detail=_describe(loops, params, config),
        warnings=warnings,
    )
    op.gm_runs = runs
    return op if inside is None else _as_words(op, loops, inside)


def _as_words(op: Op, loops: Sequence[Loop], inside: tuple[int, int]) -> Op:
    """`op` with pads inside its 64-bit elements, as the vendor's library makes it of config pads (spec 10.5)."""
    writes = 2 + sum(inside)
    for loop in loops:
        writes *= loop.extent
    if writes > EXACT_OVERLAP_LIMIT:
        raise UnsupportedError(f"{API}: NDDMA writes too often over itself with config pads inside 64-bit elements",
                               field="loop_size", value=writes, allowed=f"<= {EXACT_OVERLAP_LIMIT} words")  # fmt: skip
    effect = WordsEffect([(2 * x.src, 2 * x.dst, x.size, x.left, x.right) for x in loops], inside)
    return Op(
        op.api, op.pipe, op.cost, path=op.path, nbytes=effect.nbytes, effect=effect, reads=op.reads,
        writes=((0, 0, effect.nbytes),), gm_operand=op.gm_operand, gm_runs=op.gm_runs, aligns=op.aligns, through=op.through,
        detail=op.detail,
        warnings=[*op.warnings, "config pads also go inside 64-bit elements, which overlap (as the vendor's library does it)"],
    )  # fmt: skip


def is_aligned(offset: int) -> bool:
    """The general rule for UB, which NDDMA may break (a header says so): worth a warning (spec 10.1)."""
    return offset % BLOCK_BYTES == 0


# ---- checks ---------------------------------------------------------------------------------------------------------
def _refuse(
    field: str, value: Any, allowed: str, card: Card, why: str = "is out of range", index: int = -1
) -> ParameterError:
    at = f"[{index}]" if index >= 0 else ""
    return ParameterError(
        f"{API}: NDDMA {field}{at} ({camel(field)}) {why}", field=field, value=value, allowed=allowed, card=card.name
    )


def _loops(
    info: NdDmaLoopInfo, dtype: DataType, config: NdDmaConfig, card: Card, warnings: list[str]
) -> list[Loop]:
    """Checked loops, innermost first, strides in elements, config pads applied."""
    columns: list[tuple[int, ...]] = [getattr(info, field) for field in _FIELDS]
    sizes = columns[2]
    if not 1 <= len(sizes) <= MAX_DIM:
        raise _refuse("loop_size", sizes, f"1..{MAX_DIM} dimensions", card, "has a wrong number of dimensions")
    # A field left at its default of 0 stands for zeros in every dimension.
    columns = [(0,) * len(sizes) if column == (0,) else column for column in columns]
    # 64-bit elements run as pairs of 32-bit words: strides double on their way into the registers (spec 10.5).
    halve = 2 if dtype.bits == 64 else 1
    limits = ((0, 2**40 // halve - 1), (0, 2**20 // halve - 1), (1, 2**20 - 1), (0, 255), (0, 255))
    for place, (field, (lo, hi)) in enumerate(zip(_FIELDS, limits, strict=True)):
        column = columns[place]
        if len(column) != len(sizes):
            raise _refuse(
                field, column, f"{len(sizes)} dimensions, as loop_size has", card, "has a wrong number of dimensions"
            )
        columns[place] = tuple(_fitted(field, index, value, lo, hi, card, warnings) for index, value in enumerate(column))
    pads = []
    for field, own in (("loop_lp_size", columns[3]), ("loop_rp_size", columns[4])):
        common = getattr(config, field)
        if not (0 <= common <= 255 or common == UNSET_PAD):
            raise _refuse(field, common, "0..255, 0xFFFF (not set)", card, "of NdDmaConfig is out of range")
        pads.append(own if common == UNSET_PAD else (common,) * len(sizes))
    return [Loop(*five) for five in zip(*columns[:3], *pads, strict=True)]


def _fitted(field: str, index: int, value: int, lo: int, hi: int, card: Card, warnings: list[str]) -> int:
    """One number of a list inside its range, as `base.taken` does it for a field."""
    if card.wrap and not lo <= value <= hi:
        kept = low_bits(value, hi.bit_length())
        if kept != value:
            warnings.append(f"{field}[{index}] = {value} does not fit its {hi.bit_length()} bits and becomes {kept}")
            value = kept
    if not lo <= value <= hi:
        raise _refuse(field, value, f"{lo}..{hi}", card, index=index)
    return value


def _fitted_constant(params: NdDmaParams, dtype: DataType, card: Card, warnings: list[str]) -> NdDmaParams:
    """`params` with what the card keeps of constant_value where it imitates the hardware (spec 10.5: 64 bits pass on 0)."""
    value = params.constant_value
    if value is None or not card.wrap:
        return params
    kept = fitted_constant(value, dtype, card, "constant_value", warnings)
    if dtype.bits == 64 and kept:
        warnings.append(f"constant_value = {value} is not passed on for 64-bit types: the padding is 0")
        kept = 0
    return replace(params, constant_value=kept)


def _constant(value: float | int, dtype: DataType) -> bytes:
    try:
        return encode_scalar(value, dtype)
    except ParameterError as error:
        error.field = "constant_value"
        raise


def _check_config(
    params: NdDmaParams, dtype: DataType, config: NdDmaConfig, dim: int, card: Card, warnings: list[str]
) -> tuple[int, int] | None:
    """What 64-bit types exclude (spec 10.5), and settings without effect.

    The pads that the vendor's library also puts inside 64-bit elements, None where it does not or pages are followed.
    """
    if config.asc_optimize:
        warnings.append("asc_optimize is reserved and has no effect")
    if dtype.bits != 64:
        return None
    if config.is_nearest_value_mode:
        raise _refuse("is_nearest_value_mode", True, "False for 64-bit types", card, "is not offered")
    if params.constant_value:
        raise _refuse("constant_value", params.constant_value, "0 for 64-bit types", card)
    inside = tuple(0 if pad == UNSET_PAD else pad for pad in (config.loop_lp_size, config.loop_rp_size))
    if dim == MAX_DIM or not any(inside):
        return None
    if card.quirk("nddma-b64-config-pads"):
        return inside[0], inside[1]
    warnings.append(
        "the vendor's library applies config pads inside 64-bit elements too: give the pads per dimension"
    )
    return None


def _check_span(loops: Sequence[Loop], card: Card) -> None:
    for field, strides in (("loop_src_stride", [x.src for x in loops]), ("loop_dst_stride", [x.dst for x in loops])):
        span = sum((x.extent - 1) * stride for x, stride in zip(loops, strides, strict=True))
        if span >= SPAN:
            raise _refuse(
                field, span, f"< 2^40: sum of (lp + size + rp - 1) * {camel(field)}", card, "spans too many addresses"
            )


def _check_overlap(loops: Sequence[Loop], card: Card) -> str:
    """Refuse ascending destination strides whose loops interleave; a warning for any other overlap, "" for none."""
    wide = [x for x in loops if x.extent > 1]
    ascending = all(inner.dst <= outer.dst for inner, outer in pairwise(wide))
    overlaps = False
    reach = 0
    for i, loop in enumerate(sorted(wide, key=lambda x: x.dst)):
        if loop.dst <= reach:
            if ascending and i > 0:
                raise _refuse(
                    "loop_dst_stride",
                    loop.dst,
                    f"> {reach}, the last element of the loops inside",
                    card,
                    "makes this loop overlap or interleave with the loops inside",
                )
            overlaps = True
        reach += (loop.extent - 1) * loop.dst
    if overlaps and not _distinct(wide):
        return "destination elements overlap: the order of the writes is not defined"
    return ""


def _distinct(loops: Sequence[Loop]) -> bool:
    """True if all destination elements differ (counted; more than UB can hold must overlap)."""
    total = 1
    for loop in loops:
        total *= loop.extent
    if total > EXACT_OVERLAP_LIMIT:
        return False
    places = np.zeros(1, np.int64)
    for loop in loops:
        places = (places[:, None] + np.arange(loop.extent) * loop.dst).reshape(-1)
    return bool(np.unique(places).size == total)


# ---- lowering -------------------------------------------------------------------------------------------------------
def _inside(loops: Sequence[Loop], size: int) -> tuple[Step, ...]:
    """The data without padding, as one copy; left pads shift the destination."""
    outer = loops[::-1]
    return strided_copy(
        size,
        [x.size for x in outer],
        0,
        [x.src for x in outer],
        sum(x.left * x.dst for x in loops),
        [x.dst for x in outer],
    )


def _borders(loops: Sequence[Loop], pattern: bytes, undefined: bool) -> Iterator[Step]:
    """The constant padding, every element once: per dimension the slab before and after the data.

    Dimensions inside the slab's own run over their full extent, those outside only over their data.
    """
    for i, loop in enumerate(loops):
        shape = [x.extent for x in loops[:i]] + [0] + [x.size for x in loops[i + 1 :]]
        start = sum(x.left * x.dst for x in loops[i + 1 :])
        for first, count in ((0, loop.left), (loop.left + loop.size, loop.right)):
            shape[i] = count
            yield from strided_fill(
                pattern, shape[::-1], start + first * loop.dst, [x.dst for x in loops[::-1]], undefined
            )


def _nearest(loops: Sequence[Loop], size: int) -> Iterator[Step]:
    """Every combination of left pad, data and right pad: pads repeat the first or last element (source stride 0)."""
    # (count, source start, source stride, destination start, destination stride) of every region built so far.
    regions: list[tuple[list[int], int, list[int], int, list[int]]] = [([], 0, [], 0, [])]
    for loop in reversed(loops):
        parts = (
            (loop.size, 0, loop.src, loop.left * loop.dst),
            (loop.left, 0, 0, 0),
            (loop.right, (loop.size - 1) * loop.src, 0, (loop.left + loop.size) * loop.dst),
        )
        regions = [
            ([*shape, n], src + start, [*src_strides, stride], dst + at, [*dst_strides, loop.dst])
            for shape, src, src_strides, dst, dst_strides in regions
            for n, start, stride, at in parts
            if n
        ]
    for shape, src, src_strides, dst, dst_strides in regions:
        yield from strided_copy(size, shape, src, src_strides, dst, dst_strides)


# ---- cost -----------------------------------------------------------------------------------------------------------
def _passes(loops: Sequence[Loop], dtype: DataType, config: NdDmaConfig) -> int:
    """2 where 64-bit elements of five dimensions run as two passes of 32-bit words (spec 10.5), else 1."""
    if dtype.bits != 64 or len(loops) < MAX_DIM:
        return 1
    fused = config.loop_lp_size == 0 and config.loop_rp_size == 0 and not config.asc_optimize and loops[4].size == 1
    return 1 if fused else 2


def _gm_reads(loops: Sequence[Loop], size: int, passes: int) -> tuple[Runs, int, bool]:
    """GM reads in loop order (dimension 0 fastest), their number of runs contiguous on both sides, and whether every element
    (each word of two passes) is such a run of its own."""
    word = run = size // passes
    total = passes
    for loop in loops:
        total *= loop.size
    outer = [(x.size, x.src) for x in loops[::-1] if x.size > 1]
    # Elements that follow each other are read together (spec hardware.md 12).
    while outer and outer[-1][1] == run:
        run *= outer.pop()[0]
    shape, strides = [n for n, _ in outer], [stride for _, stride in outer]
    runs = np.concatenate([strided_runs(run, shape, i * word, strides) for i in range(passes)])
    inner = loops[0]
    whole_rows = passes == 1 and inner.size > 1 and inner.src == size and inner.dst == size
    return runs, total // inner.size if whole_rows else total, not whole_rows


def _describe(loops: Sequence[Loop], params: NdDmaParams, config: NdDmaConfig) -> str:
    names = ("size", "src_stride", "dst_stride", "lp", "rp")
    columns = zip(*[(x.size, x.src, x.dst, x.left, x.right) for x in loops], strict=True)
    shown = [f"{name}={','.join(map(str, column))}" for name, column in zip(names, columns, strict=True) if any(column)]
    mode = "nearest" if config.is_nearest_value_mode else f"constant={params.constant_value}"
    return " ".join([*shown, mode] if any(x.left or x.right for x in loops) else shown)
