"""Elementwise vector instructions: checks, and the Ops of their count and mask forms (spec api_semantics.md 25).

What a function computes is a row of `vector_math.RULES` (or a `cast` conversion); everything else is the same for all
and lives here. Which element types a card offers comes from its API list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, Range, VectorWork, cached_hash, taken
from aicore_sim.instructions.element_value import element_bytes, overflows
from aicore_sim.instructions.ub_access import UbAccess, access_of, lines
from aicore_sim.instructions.vector_effect import Blocks, Bools, CountEffect, MaskEffect
from aicore_sim.instructions.vector_math import RULES, Array, Function

REPEAT_BYTES = 256
MASK_BITS = 128
"""Bits of the mask register (two 64-bit words)."""

# Prototypes of the API list that other calls than these have: a scalar first, a tensor of shifts.
_OTHER_PROTOTYPES = ("scalar on either side", "shift by tensor")
_SHIFTS = ("ShiftLeft", "ShiftRight")


@dataclass(frozen=True)
class UnaryRepeatParams:
    """Strides of one source, in 32 B: between the blocks of a repeat, and between repeats (spec pyasc.md 8)."""

    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8

    __hash__ = cached_hash


@dataclass(frozen=True)
class BinaryRepeatParams:
    """Strides of two sources, in 32 B: between the blocks of a repeat, and between repeats (spec pyasc.md 8)."""

    dst_blk_stride: int = 1
    src0_blk_stride: int = 1
    src1_blk_stride: int = 1
    dst_rep_stride: int = 8
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8

    __hash__ = cached_hash


@dataclass(frozen=True)
class DuplicateStrides:
    """The two plain stride arguments of Duplicate's mask form."""

    dst_block_stride: int = 1
    dst_repeat_stride: int = 8


RepeatParams = UnaryRepeatParams | BinaryRepeatParams | DuplicateStrides


@dataclass(frozen=True)
class Masked:
    """Arguments of a mask form, and the mode they are read in.

    Normal mode: `mask` is the number of elements of a repeat that take part, from the first on, or two 64-bit words
    with a bit for each. Counter mode: `mask`, or its first word, counts the elements of all repeats, and `repeat_times`
    is unused.
    """

    mask: int | tuple[int, ...]
    repeat_times: int
    params: RepeatParams
    counter: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A checked vector function: what it computes on which operands, before it is known on how many elements.

    `dtypes` are those of the operands, destination first; `inputs` the operands that are read, in the order in which
    `compute` takes them.
    """

    api: str
    op: str
    dtypes: tuple[DataType, ...]
    inputs: tuple[int, ...]
    compute: Function
    detail: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        """Width of the widest element: repeats and masks count those."""
        return max(dtype.bits for dtype in self.dtypes)


# ---- checks ---------------------------------------------------------------------------------------------------------
def listed_types(api: str, card: Card) -> list[str]:
    """Element types (or combinations `a*b`) of the card's API list, in pyasc's names, complex ones left out."""
    names: dict[str, None] = {}
    for row in card.api(api):
        if row.supported and row.variant not in _OTHER_PROTOTYPES:
            for combination in row.dtypes:
                parts = combination.split("*")
                if not any(part.startswith("complex") for part in parts):
                    names["*".join(DataType(part).name for part in parts)] = None
    return list(names)


def check_kinds(api: str, kinds: Sequence[str], card: Card) -> None:
    """Raise UnsupportedError unless every operand lies in UB."""
    for kind in kinds:
        if kind != "UB":
            raise UnsupportedError(f"{api}: operands of vector instructions lie in UB", field="position",
                                   value=kind or None, allowed="VECIN, VECCALC, VECOUT", card=card.name)  # fmt: skip


def _check_types(api: str, dtypes: Sequence[DataType], card: Card) -> None:
    if any(dtype is not dtypes[0] for dtype in dtypes):
        raise ParameterError(f"{api}: destination and sources have one element type", field="dtype",
                             value=", ".join(dtype.name for dtype in dtypes), card=card.name)  # fmt: skip
    check_listed(api, dtypes[0].name, card)


def check_listed(api: str, name: str, card: Card) -> None:
    """Raise UnsupportedError unless the card's API list has this element type (or combination `a*b`)."""
    allowed = listed_types(api, card)
    if name not in allowed:
        raise UnsupportedError(f"{api}: not for these element types on this card", field="dtype", value=name,
                               allowed=", ".join(allowed) or "none", card=card.name)  # fmt: skip


def _scalar(api: str, value: Any, dtype: DataType, card: Card) -> tuple[Array, tuple[str, ...]]:
    """The scalar operand as a 0-d array of its element type, and a warning where a finite number became infinite."""
    if dtype.np_dtype is None:
        raise UnsupportedError(f"{api}: {dtype.name} constants are not in this version", field="scalar", value=value,
                               card=card.name)  # fmt: skip
    raw = element_bytes(api, value, dtype)
    item = np.frombuffer(raw if dtype.bits >= 8 else bytes([raw[0] & 0xF]), dtype.np_dtype)[0]
    if api in _SHIFTS:
        limit = f"0..{dtype.bits}" if card.npu_arch != 3510 else ">= 0"
        if item < 0 or (item > dtype.bits and card.npu_arch != 3510):
            raise ParameterError(f"{api}: shift distance", field="scalar", value=value, allowed=limit, card=card.name)
    warnings = (f"{value} is infinite in {dtype.name}",) if overflows(value, dtype) else ()
    return np.array(item), warnings


# ---- functions of the table -----------------------------------------------------------------------------------------
def work_of(name: str, dtypes: tuple[DataType, ...], kinds: Sequence[str], scalar: Any, card: Card) -> Work:
    """The checked function `name` of `vector_math.RULES`; `dtypes` and `kinds` of the tensors, destination first.

    `scalar` is used by the forms that have one. Raises UnsupportedError for a type, buffer or card that the function is
    not for, ParameterError for unequal types or a scalar outside its type or range.
    """
    rule = RULES[name]
    api = rule.api
    check_kinds(api, kinds, card)
    function = rule.on(card.npu_arch)
    if rule.form == "axpy":
        dst, src = dtypes
        check_listed(api, f"{src.name}*{src.name}*{dst.name}", card)
        constant, warnings = _scalar(api, scalar, src, card)
        return Work(api, name, dtypes, (0, 1), partial(_with_scalar, function, constant), f"scalar={scalar}", warnings)
    if rule.form == "multiply_add":
        check_listed(api, "*".join(dtype.name for dtype in (*dtypes[1:], dtypes[0])), card)
        width = "half" if dtypes[0].bits == 16 else "float"
        return Work(api, f"muladddst_{width}", dtypes, (0, 1, 2), function)
    _check_types(api, dtypes, card)
    if rule.form == "fused":
        return Work(api, name, dtypes, (0, 1, 2), function)
    if rule.form in ("unary", "binary"):
        return Work(api, name, dtypes, tuple(range(1, len(dtypes))), function)
    constant, warnings = _scalar(api, scalar, dtypes[0], card)
    inputs = (1,) if rule.form == "scalar" else ()
    return Work(api, name, dtypes, inputs, partial(_with_scalar, function, constant), f"scalar={scalar}", warnings)


def _with_scalar(function: Function, scalar: Array, *operands: Array) -> Array:
    return function(*operands, scalar)


# ---- Ops ------------------------------------------------------------------------------------------------------------
def count_op(work: Work, count: int, card: Card) -> Op | None:
    """The Op of the count form: exactly `count` elements; None for 0 (spec api_semantics.md 25.2).

    Raises ParameterError for a negative count, or an odd one of 4-bit elements (two share a byte).
    """
    if count < 0 or (count % 2 and any(dtype.bits < 8 for dtype in work.dtypes)):
        raise ParameterError(f"{work.api}: count", field="count", value=count,
                             allowed=">= 0" if count < 0 else "even for 4-bit elements", card=card.name)  # fmt: skip
    if count == 0:
        return None
    per_repeat = REPEAT_BYTES * 8 // work.bits
    effect = CountEffect(work.compute, work.dtypes, work.inputs, count, per_repeat)
    spans = [(0, dtype.nbytes(count)) for dtype in work.dtypes]
    sizes = [per_repeat * dtype.bits // 8 for dtype in work.dtypes]
    access = lines(effect.repeats, sizes[0], {i: sizes[i] for i in work.inputs})
    return _op(work, effect, spans, count, effect.repeats, f"count={count}", access)


def mask_op(work: Work, form: Masked, card: Card) -> Op | None:
    """The Op of the mask form; None where no element takes part.

    Raises ParameterError for values outside their fields and for a destination block stride of 0, which is undefined;
    UnsupportedError for 8-bit and 64-bit (Cast: also 4-bit) elements, which have the count form only.
    """
    api = work.api
    narrow = min(dtype.bits for dtype in work.dtypes)
    if work.bits not in ((16, 32, 64) if work.op == "cast" else (16, 32)) or narrow < 8:
        raise UnsupportedError(f"{api}: these element types have the count form only", field="dtype",
                               value=", ".join(dtype.name for dtype in work.dtypes), card=card.name)  # fmt: skip
    found: list[str] = []
    blocks, repeats = strides_of(api, form, work.dtypes, card, found)
    per_repeat = REPEAT_BYTES * 8 // work.bits
    word = mask_word(api, form.mask, form.counter, card)
    tail = 0
    if form.counter:
        count = word & (1 << 64) - 1
        mask = np.ones(min(count, per_repeat), np.bool_)
        repeats = -(-count // per_repeat)
        tail = count - (repeats - 1) * per_repeat if count else 0
    else:
        mask, doubts = mask_bits(form.mask, word, per_repeat)
        found.extend(doubts)
    if repeats == 0 or mask.size == 0:
        return None
    operands = [Blocks(d, b * BLOCK_BYTES, r * BLOCK_BYTES) for d, (b, r) in zip(work.dtypes, blocks, strict=True)]
    if blocks[0][0] == 0 and (mask.size - 1) * work.dtypes[0].bits // 8 >= BLOCK_BYTES:
        raise ParameterError(f"{api}: a destination block stride of 0 is undefined", field="dst_blk_stride", value=0,
                             allowed="1..", card=card.name)  # fmt: skip
    register = (word >> 64, word & (1 << 64) - 1)
    effect = MaskEffect(work.compute, operands, work.inputs, mask, repeats, tail, register)
    active = int(mask.sum()) * (repeats - 1) + (tail or int(mask.sum()))
    detail = f"mask={form.mask} " + ("counter mode" if form.counter else f"repeat_times={repeats}")
    places = [(per_repeat * x.dtype.bits // 8, x.block, x.repeat) for x in operands]
    access = access_of(repeats, places[0], {i: places[i] for i in work.inputs})
    return _op(work, effect, effect.spans(), active, repeats, detail, access, tuple(found))


def _op(
    work: Work,
    effect: CountEffect | MaskEffect,
    spans: Sequence[tuple[int, int]],
    count: int,
    repeats: int,
    detail: str,
    access: UbAccess,
    warnings: tuple[str, ...] = (),
) -> Op:
    return Op(
        work.api, Pipe.V, VectorWork(work.op, work.bits, count, repeats), nbytes=work.dtypes[0].nbytes(count),
        effect=effect, reads=[(i, *spans[i]) for i in work.inputs], writes=[(0, *spans[0])],
        aligns=(BLOCK_BYTES,) * len(spans), detail=" ".join(filter(None, (detail, work.detail))),
        warnings=(*work.warnings, *warnings), access=access,
    )  # fmt: skip


def strides_of(
    api: str, form: Masked, dtypes: Sequence[DataType], card: Card, warnings: list[str]
) -> tuple[list[tuple[int, int]], int]:
    """(block stride, repeat stride) of every operand, in 32 B, and the repeats of a mask form.

    Fields have 8 bits, block strides of one source 16. Raises ParameterError for values outside.
    """
    wide = not isinstance(form.params, BinaryRepeatParams)
    ranges: dict[str, Range] = {f.name: (0, 65535 if wide and "_bl" in f.name else 255) for f in fields(form.params)}
    repeats = taken(api, form, {"repeat_times": (0, 255)}, card, warnings).repeat_times
    kept = taken(api, form.params, ranges, card, warnings)
    values = [int(getattr(kept, name)) for name in ranges]
    n = len(dtypes)
    return list(zip(values[:n], values[n:], strict=True)), repeats


def mask_word(api: str, mask: int | tuple[int, ...], counter: bool, card: Card) -> int:
    """The 128 bits that the call puts into the mask register."""
    if isinstance(mask, tuple):
        if len(mask) != 2 or any(isinstance(word, bool) or not 0 <= word < 1 << 64 for word in mask):
            raise ParameterError(f"{api}: a mask list has two 64-bit words", field="mask", value=list(mask),
                                 allowed="[0..2**64-1, 0..2**64-1], low word first", card=card.name)  # fmt: skip
        return mask[0] | mask[1] << 64
    if not 0 <= mask < 1 << 64:
        raise ParameterError(f"{api}: mask", field="mask", value=mask, allowed="0..2**64-1", card=card.name)
    return mask if counter else (1 << min(mask, MASK_BITS)) - 1


def mask_bits(mask: int | tuple[int, ...], word: int, per_repeat: int) -> tuple[Bools, tuple[str, ...]]:
    """Elements of a repeat that take part, up to the last of them, and a warning about bits beyond a repeat."""
    kept = word & (1 << per_repeat) - 1
    bits = np.unpackbits(np.frombuffer(kept.to_bytes(MASK_BITS // 8, "little"), np.uint8), bitorder="little")
    warnings: tuple[str, ...] = ()
    if word != kept or (isinstance(mask, int) and mask > MASK_BITS):
        warnings = (f"the mask names more than the {per_repeat} elements of a repeat; the rest has no effect",)
    return bits[: kept.bit_length()].astype(np.bool_), warnings
