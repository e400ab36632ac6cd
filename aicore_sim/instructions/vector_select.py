"""Compare, Compares and Select in their count forms: bits of comparisons, and choices by bits (their pages).

Bit i of a mask, the lowest bit of a byte first, belongs to element i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, VectorWork
from aicore_sim.instructions.element_value import element_bytes
from aicore_sim.instructions.ub_access import lines
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds, listed_types
from aicore_sim.instructions.vector_effect import Bools, line_defined, mark_line, read_line, share, write_line
from aicore_sim.instructions.vector_math import Array
from aicore_sim.memory import Buffer

MODES: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("LT", np.less), ("GT", np.greater), ("EQ", np.equal), ("LE", np.less_equal), ("GE", np.greater_equal), ("NE", np.not_equal),
)  # fmt: skip
"""Values of CMPMODE."""
BY_REGISTER, WITH_SCALAR, TWO_TENSORS = range(3)
"""Values of SelMode."""
_BYTE_TYPES = ("int8", "uint8")


def _element_types(api: str, card: Card) -> list[str]:
    """Element types of the sources. The list of the other cards holds those of the bits as well."""
    masks = (*_BYTE_TYPES, "uint16", "uint32", "uint64") if api == "Select" else _BYTE_TYPES
    return [name for name in listed_types(api, card) if card.npu_arch == 3510 or name not in masks]


def _check_element(api: str, dtype: DataType, card: Card) -> None:
    allowed = _element_types(api, card)
    if dtype.name not in allowed or dtype.np_dtype is None:
        raise UnsupportedError(f"{api}: not for these element types on this card", field="dtype", value=dtype.name,
                               allowed=", ".join(allowed) or "none", card=card.name)  # fmt: skip


def _same(api: str, dtypes: Sequence[DataType], card: Card) -> None:
    if any(dtype is not dtypes[0] for dtype in dtypes):
        raise ParameterError(f"{api}: these operands have one element type", field="dtype",
                             value=", ".join(dtype.name for dtype in dtypes), card=card.name)  # fmt: skip


def _count(api: str, count: int, card: Card) -> None:
    if count < 0:
        raise ParameterError(f"{api}: count", field="count", value=count, allowed=">= 0", card=card.name)


def _constant(api: str, value: Any, dtype: DataType) -> Array:
    return np.frombuffer(element_bytes(api, value, dtype), dtype.np_dtype)


# ---- Compare --------------------------------------------------------------------------------------------------------
class CompareEffect:
    """Operands: destination (bits), source, second source where `scalar` is None. Whole repeats of `lanes` elements."""

    __slots__ = ("compare", "dtype", "lanes", "repeats", "scalar")

    def __init__(self, compare: Callable[[Any, Any], Any], dtype: DataType, repeats: int, scalar: Array | None) -> None:
        self.compare = compare
        self.dtype = dtype
        self.lanes = REPEAT_BYTES * 8 // dtype.bits
        self.repeats = repeats
        self.scalar = scalar

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        step = 1 if any(buffer is bufs[0] for buffer in bufs[1:]) else max(hi - lo, 1)
        with np.errstate(all="ignore"):
            for start in range(lo, hi, step):
                self._elements(bufs, offs, start * self.lanes, min(step, hi - start) * self.lanes)

    def _elements(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int) -> None:
        left = read_line(bufs[1], offs[1], self.dtype, start, n)
        right = self.scalar if self.scalar is not None else read_line(bufs[2], offs[2], self.dtype, start, n)
        found = np.asarray(self.compare(left, right), np.bool_)
        marks = [line_defined(bufs[i], offs[i], self.dtype, start, n) for i in range(1, len(bufs))]
        at, nbytes = offs[0] + start // 8, n // 8
        bufs[0].bytes()[at : at + nbytes] = np.packbits(found, bitorder="little")
        if bufs[0].shadow is not None:
            sure = np.ones(n, np.bool_)
            for mark in marks:
                if mark is not None:
                    sure &= mark
            bufs[0].shadow[at : at + nbytes] = np.logical_and.reduce(sure.reshape(-1, 8), axis=1)


def build_compare(
    mode: int, count: int, scalar: Any, dtypes: Sequence[DataType], kinds: Sequence[str], card: Card
) -> Op | None:
    """The Op of Compare on (dst, src0, src1), or of Compares on (dst, src0) with `scalar`; None for no whole repeat.

    Only whole 256 B take part. Raises ParameterError for a negative count, a mode that is none or unequal sources;
    UnsupportedError for types, buffers, cards and modes that the type lacks.
    """
    api = "Compares" if len(dtypes) == 2 else "Compare"
    check_kinds(api, kinds, card)
    dst, dtype = dtypes[0], dtypes[1]
    _same(api, dtypes[1:], card)
    _check_element(api, dtype, card)
    wanted = _BYTE_TYPES if api == "Compare" else ("uint8",)
    if dst.name not in wanted:
        raise ParameterError(f"{api}: the destination takes bits", field="dtype", value=dst.name, allowed=", ".join(wanted),
                             card=card.name)  # fmt: skip
    _count(api, count, card)
    if not 0 <= mode < len(MODES):
        raise ParameterError(f"{api}: cmp_mode", field="cmp_mode", value=mode, allowed="CMPMODE", card=card.name)
    name, function = MODES[mode]
    only_equal = dtype.name == ("int32" if card.npu_arch == 2201 else "float64" if api == "Compares" else "")
    if only_equal and name != "EQ":
        raise UnsupportedError(f"{api}: this type is compared for equality only", field="cmp_mode", value=name, allowed="EQ",
                               card=card.name)  # fmt: skip
    constant = _constant(api, scalar, dtype) if api == "Compares" else None
    lanes = REPEAT_BYTES * 8 // dtype.bits
    repeats = count // lanes
    warnings = () if count % lanes == 0 else (f"only whole 256 B are compared: the last {count % lanes} elements are left out",)
    if repeats == 0:
        return None
    nbytes = repeats * REPEAT_BYTES
    return Op(
        api, Pipe.V, VectorWork("compare", dtype.bits, repeats * lanes, repeats), path="UB-UB", nbytes=repeats * lanes // 8,
        effect=CompareEffect(function, dtype, repeats, constant), reads=[(i, 0, nbytes) for i in range(1, len(dtypes))],
        writes=[(0, 0, repeats * lanes // 8)], aligns=(BLOCK_BYTES,) * len(dtypes), detail=f"{name} count={count}",
        warnings=warnings, access=lines(repeats, lanes // 8, dict.fromkeys(range(1, len(dtypes)), REPEAT_BYTES)),
    )  # fmt: skip


# ---- Select ---------------------------------------------------------------------------------------------------------
class SelectEffect:
    """Operands: destination, bits, source, second source where `scalar` is None.

    Mode 0 uses the bits of the first repeat for all.
    """

    __slots__ = ("again", "count", "dtype", "lanes", "repeats", "scalar")

    def __init__(self, dtype: DataType, count: int, again: bool, scalar: Array | None) -> None:
        self.dtype = dtype
        self.count = count
        self.lanes = REPEAT_BYTES * 8 // dtype.bits
        self.repeats = -(-count // self.lanes)
        self.again = again
        self.scalar = scalar

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        for repeat in range(*share(self.repeats, first, last, of)):
            start = repeat * self.lanes
            self._elements(bufs, offs, start, min(self.lanes, self.count - start))

    def _elements(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int) -> None:
        bit = 0 if self.again else start
        at, nbytes = offs[1] + bit // 8, -(-n // 8)
        chosen: Bools = np.unpackbits(bufs[1].bytes()[at : at + nbytes], bitorder="little")[:n].astype(np.bool_)
        sure = np.ones(n, np.bool_)
        if bufs[1].shadow is not None:
            sure = np.repeat(bufs[1].shadow[at : at + nbytes], 8)[:n].astype(np.bool_)
        left = read_line(bufs[2], offs[2], self.dtype, start, n)
        right = self.scalar if self.scalar is not None else read_line(bufs[3], offs[3], self.dtype, start, n)
        marks = [line_defined(bufs[i], offs[i], self.dtype, start, n) for i in range(2, len(bufs))]
        if marks[0] is not None:
            sure &= marks[0] | ~chosen
        if len(marks) > 1 and marks[1] is not None:
            sure &= marks[1] | chosen
        write_line(bufs[0], offs[0], self.dtype, start, n, np.where(chosen, left, right))
        mark_line(bufs[0], offs[0], self.dtype, start, n, sure)


def build_select(
    mode: int, count: int, scalar: Any, dtypes: Sequence[DataType], kinds: Sequence[str], card: Card
) -> Op | None:
    """The Op of Select on (dst, sel_mask, src0, src1), or without src1 and with `scalar`; None for a count of 0.

    Raises ParameterError for a negative count, unequal types, and a mode that does not go with the operands;
    UnsupportedError for types, buffers or cards.
    """
    api = "Select"
    check_kinds(api, kinds, card)
    dtype = dtypes[0]
    _same(api, (dtype, *dtypes[2:]), card)
    _check_element(api, dtype, card)
    if dtypes[1].name not in ("uint8", "uint16", "uint32", "uint64"):
        raise ParameterError(f"{api}: sel_mask", field="sel_mask", value=dtypes[1].name,
                             allowed="uint8, uint16, uint32, uint64", card=card.name)  # fmt: skip
    _count(api, count, card)
    with_scalar = len(dtypes) == 3
    if mode not in ((WITH_SCALAR,) if with_scalar else (BY_REGISTER, TWO_TENSORS)):
        raise ParameterError(f"{api}: sel_mode does not go with these sources", field="sel_mode", value=mode,
                             allowed="1 for a scalar, 0 or 2 for two tensors", card=card.name)  # fmt: skip
    constant = _constant(api, scalar, dtype) if with_scalar else None
    if count == 0:
        return None
    effect = SelectEffect(dtype, count, mode == BY_REGISTER, constant)
    bits = min(count, effect.lanes) if effect.again else count
    nbytes = dtype.nbytes(count)
    return Op(
        api, Pipe.V, VectorWork("select", dtype.bits, count, effect.repeats), path="UB-UB", nbytes=nbytes, effect=effect,
        reads=[(1, 0, -(-bits // 8)), *((i, 0, nbytes) for i in range(2, len(dtypes)))], writes=[(0, 0, nbytes)],
        aligns=(BLOCK_BYTES,) * len(dtypes), detail=f"mode={mode} count={count}",
        access=lines(effect.repeats, REPEAT_BYTES, dict.fromkeys(range(2, len(dtypes)), REPEAT_BYTES)),
    )  # fmt: skip
