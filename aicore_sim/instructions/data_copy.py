"""DataCopy in blocks: the count form and DataCopyParams (spec api_semantics.md 9.1)."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import (
    CostKey,
    GmTraffic,
    OnChip,
    Op,
    Pipe,
    VectorWork,
    cached_hash,
    describe,
    movement,
    taken,
)
from aicore_sim.instructions.offer import both_names, check_offer
from aicore_sim.instructions.other_ways import other_ways
from aicore_sim.transfer import Transfer, strided_copy, strided_runs

API = "DataCopy"
ARCH_950 = 3510
MAX_COUNT = 2**31 - 1

# Which pipe runs a route, by (source buffer, destination buffer).
ROUTES: dict[tuple[str, str], Pipe] = {
    ("GM", "UB"): Pipe.MTE2,
    ("GM", "L1"): Pipe.MTE2,
    ("UB", "GM"): Pipe.MTE3,
    ("L1", "GM"): Pipe.MTE3,
    ("UB", "L1"): Pipe.MTE3,
    ("L1", "UB"): Pipe.MTE1,
    ("UB", "UB"): Pipe.V,
    ("L1", "BT"): Pipe.MTE1,
    ("L1", "FB"): Pipe.FIX,
}

# How the API list of a card calls a route: (API, variant of the count form, variant of the DataCopyParams form).
_STRIDED = "strided (DataCopyParams)"
OFFERS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("GM", "UB"): (API, "GM and UB contiguous", f"GM and UB {_STRIDED}"),
    ("UB", "GM"): (API, "GM and UB contiguous", f"GM and UB {_STRIDED}"),
    ("GM", "L1"): (API, "GM to L1 contiguous", f"GM to L1 {_STRIDED}"),
    ("L1", "GM"): (API, "L1 to GM contiguous", f"L1 to GM {_STRIDED}"),
    ("UB", "L1"): (API, "UB to L1 contiguous", f"UB to L1 {_STRIDED}"),
    ("L1", "UB"): ("DataCopyL1ToUB", "L1 to UB", "L1 to UB"),
    ("UB", "UB"): (API, "UB to UB contiguous", f"UB to UB {_STRIDED}"),
    ("L1", "BT"): (API, "L1 to BiasTable", "L1 to BiasTable"),
    ("L1", "FB"): (API, "L1 to Fixpipe", "L1 to Fixpipe"),
}


@dataclass(frozen=True)
class DataCopyParams:
    """blockCount blocks of blockLen x 32 B; srcStride and dstStride are gaps, end of a block to the start of the next.

    Into BT and FB blockLen and dstStride have coarser units (`Units`). In `data_copy_pad` block_len counts bytes.
    """

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class DataCopyEnhancedParams:
    """Conversions of copies from L0C of older products; pyasc's order and names. Enumerations by value, all 0 = none."""

    block_mode: int = 0
    deq_scale: int = 0
    deq_value_in: int = 0
    sid_store_mode_in: int = 0
    is_relu_in: bool = False
    pad_mode_in: int = 0
    pad_value_in: int = 0

    __hash__ = cached_hash


_INSTEAD = {
    "block_mode": "BLOCK_MODE_NORMAL; results in L0C leave by fixpipe",
    "deq_scale": "DEQ_NONE; fixpipe with quant_pre",
    "is_relu_in": "False; fixpipe with relu_en, or relu",
    "pad_mode_in": "PAD_NONE; data_copy_pad",
}
"""Fields of DataCopyEnhancedParams without a rule on these cards: what they may be, and what does such things here."""


def check_enhanced(params: DataCopyEnhancedParams, card: Card) -> None:
    """Raise UnsupportedError for a block mode or conversion: without any the copy is that of DataCopyParams alone."""
    for field, instead in _INSTEAD.items():
        if getattr(params, field):
            raise UnsupportedError(
                f"{API}: DataCopyEnhancedParams.{field} has no meaning stated for this card",
                field=field,
                value=int(getattr(params, field)),
                allowed=instead,
                card=card.name,
            )


@dataclass(frozen=True)
class Units:
    """Bytes of one unit of blockLen and dstStride (`block`) and of srcStride (`src_gap`). `gaps` is False where the
    strides run from start to start (spec api_semantics.md 9.1, table of paths)."""

    block: int = BLOCK_BYTES
    src_gap: int = BLOCK_BYTES
    gaps: bool = True


def units(dst: str, card: Card) -> Units:
    """Units of the DataCopyParams fields by destination buffer and card."""
    if dst == "BT" and card.npu_arch != ARCH_950:
        return Units(block=64)
    if dst == "FB":
        return Units(block=128, gaps=False)
    return Units()


def route(api: str, src: str, dst: str, card: Card) -> tuple[Pipe, str]:
    """Pipe and path name of a copy. Raises UnsupportedError if the card has no such path."""
    path = f"{src}-{dst}"
    pipe = ROUTES.get((src, dst))
    if pipe is None or not card.has_path(path):
        who = both_names(api) if api[:1].isupper() else api
        what = " does not go" if card.has_path(path) else ": this card has no path"
        raise UnsupportedError(
            f"{who}{what} from {src} to {dst}",
            field="path",
            value=path,
            allowed=_other_way(card, src, dst) or ", ".join(f"{a}-{b}" for a, b in ROUTES if card.has_path(f"{a}-{b}")),
            card=card.name,
        )
    return pipe, path


def _other_way(card: Card, src: str, dst: str) -> str:
    """The documented way for a copy that DataCopy does not do on the card, "" for none."""
    name, variant, _ = OFFERS.get((src, dst), (API, f"{src} to {dst}", ""))
    return other_ways(card, name, variant)


def block_cost(path: str, api: str, nbytes: int, rows: int, dtype: DataType) -> CostKey:
    """Cost key of a block copy: GM traffic, vector work (UB to UB) or an on-chip path."""
    if "GM" in path:
        return GmTraffic(path, nbytes, rows, is_read=path.startswith("GM"))
    if path == "UB-UB":
        return VectorWork("copy", dtype.bits, nbytes * 8 // dtype.bits, -(-nbytes // 256))
    return OnChip(path, api, nbytes)


def build(params: DataCopyParams, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    """The Op of DataCopy(dst, src, DataCopyParams); None for a NOP (blockCount or blockLen 0).

    Raises ParameterError for a field outside its range, UnsupportedError for a path or type that the card lacks.
    """
    pipe, path = route(API, src, dst, card)
    name, _, variant = OFFERS[src, dst]
    check_offer(card, name, variant, dtype)
    # Between UB and L1 a count or length of 0 is outside the range; elsewhere, and on hardware, it moves nothing.
    least = 1 if {src, dst} == {"UB", "L1"} and not card.wrap else 0
    stride = 1 if dst == "FB" and params.block_count > 1 else 0
    warnings: list[str] = []
    params = taken(
        API,
        params,
        {
            "block_count": (least, 4095),
            "block_len": (least, 65535),
            "src_stride": (stride, 65535),
            "dst_stride": (stride, 65535),
        },
        card,
        warnings,
    )
    if dst == "BT" and card.npu_arch == ARCH_950 and dtype.bits == 32 and params.block_len % 2:
        raise ParameterError(
            "DataCopy to BT: block_len (blockLen) must be even for 4-byte elements",
            field="block_len",
            value=params.block_len,
            allowed="even",
            card=card.name,
        )
    if params.block_count == 0 or params.block_len == 0:
        return None
    unit = units(dst, card)
    length = params.block_len * unit.block
    start = length if unit.gaps else 0
    shape = (params.block_count,)
    src_pitch = (start + params.src_stride * unit.src_gap,)
    dst_pitch = (start + params.dst_stride * unit.block,)
    transfer = Transfer(strided_copy(length, shape, 0, src_pitch, 0, dst_pitch))
    cost = block_cost(path, API, params.block_count * length, params.block_count, dtype)
    op = movement(
        API, pipe, path, transfer, cost, aligns=aligns(src, dst, dtype), detail=describe(params), warnings=warnings
    )
    if op.gm_operand >= 0:
        # Every block is a request of its own, also where blocks follow each other.
        op.gm_runs = strided_runs(length, shape, 0, src_pitch if op.gm_operand == 1 else dst_pitch)
    return op


def build_count(count: int, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    """The Op of DataCopy(dst, src, count): bytes rounded down to 32 B (BT 64 B on A2 and A3, FB 128 B).

    None if nothing is left. Raises as `build` does.
    """
    pipe, path = route(API, src, dst, card)
    name, variant, _ = OFFERS[src, dst]
    check_offer(card, name, variant, dtype)
    if not 0 <= count <= MAX_COUNT:
        raise ParameterError(
            "DataCopy: count is out of range", field="count", value=count, allowed=f"0..{MAX_COUNT}", card=card.name
        )
    nbytes = dtype.nbytes(count)
    unit = units(dst, card).block
    whole = nbytes // unit * unit
    if whole == 0:
        if {src, dst} == {"UB", "L1"} and not card.wrap:
            # Here nothing says that a count of 0 is no operation.
            raise ParameterError("DataCopy: count is less than one block of 32 B", field="count", value=count,
                                 allowed=f">= {-(-BLOCK_BYTES // dtype.sizeof())}", card=card.name)  # fmt: skip
        return None
    warnings = []
    if whole != nbytes:
        warnings.append(f"{count} elements are {nbytes} B; the copy rounds down to {whole} B (use data_copy_pad)")
    transfer = Transfer(strided_copy(whole, (), 0, (), 0, ()))
    cost = block_cost(path, API, whole, 1, dtype)
    return movement(
        API, pipe, path, transfer, cost, aligns=aligns(src, dst, dtype), detail=f"count={count}", warnings=warnings
    )


def aligns(src: str, dst: str, dtype: DataType) -> tuple[int, int]:
    """Start alignment (dst, src): 32 B locally (BT 64, FB 128), the element in GM for GM<->UB, 1 B for GM<->L1."""
    element = dtype.sizeof()

    def one(side: str, other: str) -> int:
        if side == "GM":
            return element if other == "UB" else 1
        return {"BT": 64, "FB": 128}.get(side, BLOCK_BYTES)

    return one(dst, src), one(src, dst)
