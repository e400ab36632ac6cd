"""What an instruction hands to the engine: an `Op` (shared, immutable) and its operands.

The engine knows pipes, not APIs: it asks an `Op` for its pipe, its cost key, its effect and the byte ranges it touches.
The modules beside this one build Ops from Ascend C parameters; an Op is made once for each distinct call shape (API,
parameters, element types, buffers, card) and shared by all calls of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.ub_access import UbAccess
from aicore_sim.memory import Buffer
from aicore_sim.transfer import Transfer

ParamsT = TypeVar("ParamsT", bound=Any)


class Pipe(IntEnum):
    """The pipes of a core, in the order the timeline draws them."""

    S = 0
    MTE2 = 1
    MTE1 = 2
    M = 3
    V = 4
    FIX = 5
    MTE3 = 6


PIPES = tuple(Pipe)

TICKS_PER_CYCLE = 256
"""Ticks of one core clock cycle: time is counted in whole ticks, costs come in fractions of cycles."""


# ---- cost keys: what timing needs to know of an instruction, no cycle in sight -------------------------------------
@dataclass(frozen=True, slots=True)
class OnChip:
    """A movement between local buffers: `path` as in the card file ("L1-L0A"), `api` its row there.

    `load3d` = (stride_w, rows of the kernel window) for LoadData3D, None otherwise (spec hardware.md 5). `scale_bytes` are
    the scales that an MX load moves besides, at their own rate.
    """

    path: str
    api: str
    nbytes: int
    load3d: tuple[int, int] | None = None
    scale_bytes: int = 0


NDDMA_ELEMENTS = "nddma_elements"
"""Layout of an NDDMA copy whose innermost dimension is not contiguous on both sides: its rows are single elements."""


@dataclass(frozen=True, slots=True)
class GmTraffic:
    """A movement to or from GM. `rows` are the bursts (rows, blocks) it is made of; `layout` is "", "nd2nz", "nddma" ..."""

    path: str
    nbytes: int
    rows: int
    is_read: bool
    layout: str = ""
    out_type: str = ""


@dataclass(frozen=True, slots=True)
class CubeWork:
    """One Mmad: `dtype` is the row of the card's cube table (half, int8, float ...)."""

    dtype: str
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class VectorWork:
    """One vector instruction: `op` in snake_case, the widest element in bits, elements, repeats of 256 B."""

    op: str
    bits: int
    count: int
    repeats: int


@dataclass(frozen=True, slots=True)
class FixWork:
    """Fixpipe between local buffers: `path` ("L0C-L1", "L0C-UB"), destination type and bytes."""

    path: str
    out_type: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class ScalarWork:
    """Work of the scalar unit named as in the card's [scalar] or [sync] table."""

    key: str


CostKey = OnChip | GmTraffic | CubeWork | VectorWork | FixWork | ScalarWork


# ---- effects --------------------------------------------------------------------------------------------------------
class Effect(Protocol):
    """What an instruction does to bytes. `bufs` and `offs` are its operands, destination first.

    `apply(bufs, offs, first, last, of)` performs the share [first/of, last/of) of the work; (0, 1, 1) is all of it.
    Shares are applied in order and exactly once; each must be correct by itself (split along an outer index).
    """

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None: ...


class TransferEffect:
    """The effect of a pure movement: operand 0 is the destination, operand 1 the source."""

    __slots__ = ("transfer",)

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        transfer = self.transfer if of == 1 else self.transfer.part(first, last, of)
        dst, src = bufs[0], bufs[1]
        transfer.apply(dst.bytes(), offs[0], src.bytes(), offs[1])
        if dst.shadow is not None:
            transfer.map_defined(dst.shadow, offs[0], src.shadow, offs[1])
        elif src.shadow is not None and not _all_defined(transfer, src, offs[1]):
            transfer.map_defined(dst.mark_all(), offs[0], src.shadow, offs[1])


def _all_defined(transfer: Transfer, src: Buffer, base: int) -> bool:
    lo, hi = transfer.src_range
    return src.is_defined(base + lo, base + hi)


# ---- ops ------------------------------------------------------------------------------------------------------------
class Op:
    """One distinct instruction. Shared by every call with the same parameters, so nothing here depends on addresses.

    Ranges are (operand index, lo, hi) in bytes relative to that operand's start. `gm_operand` is the index of the
    operand in GM (-1: none) and `gm_runs` its contiguous runs (`Transfer.src_runs` layout), for the L2 model.
    `unit_flag` is 0, 2 or 3 (spec api_semantics.md 17). `accumulates` marks an Mmad that reads its L0C operand.
    `aligns` is the start alignment in bytes of each operand (1: any), `limits` = (lowest byte, end, alignment) of each
    operand, for the checks at the call; `warnings` are shown once per kernel line. `access` are the blocks of UB that a
    vector instruction touches, None where no bank conflicts are worked out for it.
    `through` names a private cache between GM and the operand ("nddma"), "" for none. `occupy` and `latency` (ticks) and
    `index` (row in the table of Ops) are filled in by the engine when it first meets the Op, and so is `beside`: the ticks it
    is longer while a transfer fills L1, for loads out of L1. `route` sorts Ops for it: 0
    touches nothing shared, 1 only looks at unit flags, 2 the rest.
    """

    __slots__ = (
        "access", "accumulates", "aligns", "api", "beside", "cost", "detail", "effect", "gm_operand", "gm_runs", "index",
        "latency", "limits", "nbytes", "occupy", "path", "pipe", "priced", "reads", "route", "through", "unit_flag", "warnings",
        "writes",
    )  # fmt: skip

    def __init__(
        self,
        api: str,
        pipe: Pipe,
        cost: CostKey,
        *,
        path: str = "",
        nbytes: int = 0,
        effect: Effect | None = None,
        reads: Sequence[tuple[int, int, int]] = (),
        writes: Sequence[tuple[int, int, int]] = (),
        gm_operand: int = -1,
        gm_runs: Any = None,
        unit_flag: int = 0,
        accumulates: bool = False,
        aligns: Sequence[int] = (),
        through: str = "",
        detail: str = "",
        warnings: Sequence[str] = (),
        access: UbAccess | None = None,
    ) -> None:
        self.api = api
        self.pipe = pipe
        self.cost = cost
        self.path = path
        self.nbytes = nbytes
        self.effect = effect
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.gm_operand = gm_operand
        self.gm_runs = gm_runs
        self.unit_flag = unit_flag
        self.accumulates = accumulates
        self.aligns = tuple(aligns)
        self.limits = _limits(self.reads, self.writes, self.aligns)
        self.through = through
        self.detail = detail
        self.warnings = tuple(warnings)
        self.access = access
        self.priced = False
        self.index = -1
        self.route = 2 if gm_operand >= 0 or through or unit_flag == 3 else 1 if unit_flag else 0
        self.occupy = 0
        self.latency = 0
        self.beside = 0

    def __repr__(self) -> str:
        return f"<{self.api} on {self.pipe.name} {self.detail}>"


def _limits(reads: Sequence[tuple[int, int, int]], writes: Sequence[tuple[int, int, int]],
            aligns: Sequence[int]) -> tuple[tuple[int, int, int], ...]:  # fmt: skip
    count = max([len(aligns), *(index + 1 for index, _, _ in (*reads, *writes))])
    limits = []
    for operand in range(count):
        spans = [(lo, hi) for index, lo, hi in (*reads, *writes) if index == operand]
        lo = min((lo for lo, _ in spans), default=0)
        hi = max((hi for _, hi in spans), default=0)
        limits.append((lo, hi, max(aligns[operand], 1) if operand < len(aligns) else 1))
    return tuple(limits)


def movement(
    api: str,
    pipe: Pipe,
    path: str,
    transfer: Transfer,
    cost: CostKey,
    *,
    aligns: Sequence[int] = (),
    through: str = "",
    detail: str = "",
    warnings: Sequence[str] = (),
) -> Op:
    """The Op of a pure movement (operands: dst, src); reads, writes and GM runs all come from its Transfer."""
    src_lo, src_hi = transfer.src_range
    dst_lo, dst_hi = transfer.dst_range
    gm_operand, gm_runs = -1, None
    if path.startswith("GM-"):
        gm_operand, gm_runs = 1, transfer.src_runs
    elif path.endswith("-GM"):
        gm_operand, gm_runs = 0, transfer.dst_runs
    return Op(
        api, pipe, cost, path=path, nbytes=transfer.written_bytes, effect=TransferEffect(transfer),
        reads=((1, src_lo, src_hi),) if src_hi > src_lo else (), writes=((0, dst_lo, dst_hi),),
        gm_operand=gm_operand, gm_runs=gm_runs, aligns=aligns, through=through, detail=detail, warnings=warnings,
    )  # fmt: skip


# ---- parameters -----------------------------------------------------------------------------------------------------
def cached_hash(self: Any) -> int:
    """`__hash__` of a parameter struct, computed once: structs key the Op cache, and kernels reuse them in loops.

    Kernels also build structs anew for each of many calls, hence the reader of all fields in one step.
    """
    known: int | None = self.__dict__.get("_hash")
    if known is None:
        struct: type = type(self)
        values = _reader(struct)(self)
        # 2 == 2.0 and 1 == True, but what does not belong where an int does must not find the Op of the int.
        known = self.__dict__["_hash"] = hash((values, *map(type, values)))
    return known


@cache
def _reader(struct: type) -> Callable[[Any], tuple[Any, ...]]:
    """All fields of a struct of this type as a tuple."""
    names = [f.name for f in fields(struct)]
    return attrgetter(*names) if len(names) > 1 else lambda params: (getattr(params, names[0]),)


def check_range(api: str, struct: str, field: str, value: Any, lo: int, hi: int, card: str) -> None:
    """Raise ParameterError unless lo <= value <= hi; names the field in snake_case and the C++ spelling."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(f"{api}: {struct}.{field} ({camel(field)}) must be an int", field=field, value=value,
                             allowed=f"{lo}..{hi}", card=card)  # fmt: skip
    if not lo <= value <= hi:
        raise ParameterError(f"{api}: {struct}.{field} ({camel(field)}) is out of range", field=field, value=value,
                             allowed=f"{lo}..{hi}", card=card)  # fmt: skip


def check_fields(api: str, params: Any, ranges: dict[str, tuple[int, int]], card: str) -> None:
    """`check_range` for every named field of a parameter struct."""
    for field, (lo, hi) in ranges.items():
        check_range(api, type(params).__name__, field, getattr(params, field), lo, hi, card)


Range = tuple[int, int] | tuple[int, int, int]
"""Lowest and highest legal value of a field, and the bits of its word where they do not follow from the highest."""


def taken(api: str, params: ParamsT, ranges: Mapping[str, Range], card: Card, warnings: list[str]) -> ParamsT:
    """`params` with every field named in `ranges` inside its range.

    Raises ParameterError for a field outside it. On a card that imitates the hardware (`Card.wrap`) the value first loses
    the bits that its field has no room for, with a warning; what is then still outside is refused.
    """
    changed: dict[str, int] = {}
    for field, (lo, hi, *bits) in ranges.items():
        value = getattr(params, field)
        if card.wrap and isinstance(value, int) and not isinstance(value, bool) and not lo <= value <= hi:
            width = bits[0] if bits else hi.bit_length() + (lo < 0)
            kept = low_bits(value, width, signed=lo < 0)
            if kept != value:
                warnings.append(f"{field} = {value} does not fit its {width} bits and becomes {kept}")
                changed[field] = value = kept
        check_range(api, type(params).__name__, field, value, lo, hi, card.name)
        if type(value) is not int:
            # A run-time value of the kernel divides as in C; what is reckoned from the field must not.
            changed[field] = int(value)
    return replace(params, **changed) if changed else params


def low_bits(value: int, width: int, signed: bool = False) -> int:
    """What is left of `value` in a field of `width` bits."""
    kept = value & ((1 << width) - 1)
    return kept - (1 << width) if signed and kept >> (width - 1) else kept


def camel(name: str) -> str:
    """The C++ spelling of a snake_case name: `src_d_value` -> `srcDValue`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def describe(params: Any) -> str:
    """`field=value` of the fields that differ from their defaults, for traces and messages."""
    shown = []
    for f in fields(params):
        value = getattr(params, f.name)
        if value != f.default:
            shown.append(f"{f.name}={value}")
    return " ".join(shown)


def fractal_elements(dtype: DataType) -> int:
    """Elements of one 512 B fractal: 16 rows of C0."""
    return 16 * dtype.c0
