"""ReduceSum, ReduceMax and ReduceMin: one result of all repeats (their pages).

A sum is a tree of neighbours inside a repeat; the sums of the repeats are added one after another ("chain"), reduced
like elements again ("tree"), or the repeats are added to each other first ("merge"), as the card does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, Range, VectorWork, taken
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds, check_listed, mask_bits, mask_word
from aicore_sim.instructions.vector_effect import Blocks, Bools, gather
from aicore_sim.instructions.vector_math import Array
from aicore_sim.instructions.vector_reduce import first_extreme, tree_sum
from aicore_sim.memory import Buffer

APIS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}
_MERGED = (REPEAT_BYTES, 1024)
"""Bytes of a count form whose repeats 950 adds to each other first."""
_RANGES: dict[str, Range] = {"repeat_time": (0, (1 << 31) - 1), "src_rep_stride": (0, 65535)}


@dataclass(frozen=True)
class TotalForm:
    """The count (`mask` is None) or the mask form; the stride is in 32 B."""

    mask: int | tuple[int, ...] | None
    repeat_time: int
    src_rep_stride: int = 8
    count: int = 0
    cal_index: bool = False


# ---- values ---------------------------------------------------------------------------------------------------------
def total(values: Array, how: str) -> Array:
    """The sum of elements [repeat, lane], of which those that take no part are 0."""
    lanes = values.shape[1]
    if how == "merge":
        merged = values[0]
        for repeat in values[1:]:
            merged = merged + repeat
        return tree_sum(merged)
    sums = tree_sum(values)
    if how == "chain":
        result = sums[0]
        for one in sums[1:]:
            result = result + one
        return np.asarray(result)
    while sums.size > 1:
        padded = np.zeros((-(-sums.size // lanes), lanes), sums.dtype)
        padded.reshape(-1)[: sums.size] = sums
        sums = tree_sum(padded)
    return np.asarray(sums[0])


class TotalEffect:
    """Operands: destination, source, shared_tmp_buffer, of which the first `scratch` bytes become undefined."""

    __slots__ = ("how", "index", "kind", "mask", "register", "repeats", "scratch", "src", "tail")

    def __init__(self, kind: str, how: str, src: Blocks, mask: Bools, repeats: int, tail: int, index: bool, scratch: int,
                 register: tuple[int, int] | None) -> None:  # fmt: skip
        self.kind = kind
        self.how = how
        self.src = src
        self.mask = mask
        self.repeats = repeats
        self.tail = tail
        self.index = index
        self.scratch = scratch
        self.register = register

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        if last < of:
            return  # the result comes at the end
        values, known, chosen = self._read(bufs[1], offs[1])
        with np.errstate(all="ignore"):
            result = self._reduce(values, chosen)
        if self.scratch and bufs[2].shadow is not None:
            bufs[2].shadow[offs[2] : offs[2] + self.scratch] = 0
        raw = result.tobytes()
        bufs[0].bytes()[offs[0] : offs[0] + len(raw)] = np.frombuffer(raw, np.uint8)
        if bufs[0].shadow is not None:
            bufs[0].shadow[offs[0] : offs[0] + len(raw)] = known

    def _read(self, buffer: Buffer, offset: int) -> tuple[Array, bool, Bools]:
        """Elements [repeat, lane], whether all that take part are defined, and which do."""
        kind, n = self.src.dtype.np_dtype, self.mask.size
        assert kind is not None
        size = kind.itemsize
        lanes = REPEAT_BYTES // size
        values = np.zeros((self.repeats, lanes), kind)
        marks = np.ones((self.repeats, lanes), np.bool_)
        chosen = np.zeros((self.repeats, lanes), np.bool_)
        for start, count, mask in self._parts():
            width = mask.size
            values[start : start + count, :width] = gather(
                self.src.view(buffer.bytes(), offset, start, count, width), kind, width
            )
            chosen[start : start + count, :width] = mask
            if buffer.shadow is not None:
                flags = np.array(self.src.view(buffer.shadow, offset, start, count, width), order="C").reshape(count, -1, size)
                marks[start : start + count, :width] = np.logical_and.reduce(flags, axis=2)[:, :width]
        assert n
        return values, bool(marks[chosen].all()), chosen

    def _parts(self) -> list[tuple[int, int, Bools]]:
        """Repeats of equal masks: first, number, mask."""
        if not self.tail:
            return [(0, self.repeats, self.mask)]
        whole = self.repeats - 1
        last = (whole, 1, np.ones(self.tail, np.bool_))
        return [(0, whole, self.mask), last] if whole else [last]

    def _reduce(self, values: Array, chosen: Bools) -> Array:
        if self.kind == "sum":
            return total(np.where(chosen, values, np.zeros((), values.dtype)), self.how)
        among = np.flatnonzero(chosen)
        candidates = values.reshape(-1)[among]
        at = int(first_extreme(candidates, self.kind))
        value = candidates[at : at + 1]
        if not self.index:
            return value
        words = np.dtype(f"u{values.dtype.itemsize}")
        return np.concatenate([value.view(words), among[at : at + 1].astype(words)])


# ---- Ops ------------------------------------------------------------------------------------------------------------
def _manner(kind: str, form: TotalForm, dtype: DataType, card: Card) -> str:
    if kind != "sum" or (form.mask is None and card.npu_arch == 2201):
        return "chain"
    nbytes = form.count * dtype.bits // 8
    if card.npu_arch == 3510 and form.mask is None and (dtype.bits == 64 or _MERGED[0] <= nbytes <= _MERGED[1]):
        return "merge"
    return "tree"


def _scratch(kind: str, how: str, form: TotalForm, repeats: int, dtype: DataType, card: Card) -> int:
    """Bytes of shared_tmp_buffer that the call works in (the pages' formulas)."""
    size = dtype.bits // 8
    block, lanes = BLOCK_BYTES // size, REPEAT_BYTES // size

    def lines(elements: int) -> int:
        return -(-elements // block) * BLOCK_BYTES

    if kind == "sum":
        return lines(repeats) if how == "tree" else 0
    if card.npu_arch == 3510:
        return 0
    first = lines(2 * repeats)
    if not form.cal_index:
        return first
    second = 2 * -(-2 * repeats // lanes)
    third = lines(2 * -(-second // lanes)) if second > 2 else 0
    return first + lines(second) + third


def build(kind: str, form: TotalForm, dtypes: Sequence[DataType], kinds: Sequence[str], tmp_bytes: int, counter: bool,
          card: Card) -> Op | None:  # fmt: skip
    """The Op of a call on (dst, src, shared_tmp_buffer); None where no element takes part.

    Raises ParameterError for a field outside its range or unequal types, UnsupportedError for types, buffers or cards, for
    64-bit elements and counter mode with a mask, and for an index across repeats that are not laid end to end.
    """
    api = APIS[kind]
    check_kinds(api, kinds, card)
    if any(dtype is not dtypes[0] for dtype in dtypes):
        raise ParameterError(f"{api}: the operands have one element type", field="dtype",
                             value=", ".join(dtype.name for dtype in dtypes), card=card.name)  # fmt: skip
    dtype = dtypes[0]
    check_listed(api, dtype.name, card)
    found: list[str] = []
    size = dtype.bits // 8
    lanes = REPEAT_BYTES // size
    form = taken(api, form, _RANGES, card, found)
    register, tail = None, 0
    if form.mask is None:
        if form.count < 0:
            raise ParameterError(f"{api}: count", field="count", value=form.count, allowed=">= 0", card=card.name)
        repeats, tail = -(-form.count // lanes), form.count % lanes
        mask, active = np.ones(min(form.count, lanes), np.bool_), form.count
    else:
        if dtype.bits == 64 or counter:
            field, value = ("mask_mode", "counter") if counter else ("dtype", dtype.name)
            raise UnsupportedError(f"{api}: the mask form is not for this", field=field, value=value, card=card.name)
        word = mask_word(api, form.mask, False, card)
        mask, doubts = mask_bits(form.mask, word, lanes)
        found.extend(doubts)
        repeats, register = form.repeat_time, (word >> 64, word & (1 << 64) - 1)
        active = int(mask.sum()) * repeats
        if form.cal_index and repeats > 1 and form.src_rep_stride != REPEAT_BYTES // BLOCK_BYTES:
            raise UnsupportedError(f"{api}: the page does not say which index this gives", field="src_rep_stride",
                                   value=form.src_rep_stride, allowed="8 with cal_index", card=card.name)  # fmt: skip
    if repeats == 0 or mask.size == 0:
        return None
    if form.cal_index and size == 2 and repeats * lanes > 1 << 16:
        found.append("an index above 65535 does not fit the element type")
    how = _manner(kind, form, dtype, card)
    scratch = _scratch(kind, how, form, repeats, dtype, card)
    if scratch > tmp_bytes:
        found.append(f"shared_tmp_buffer has {tmp_bytes} B where the call works in {scratch} B")
        scratch = tmp_bytes
    source = Blocks(dtype, BLOCK_BYTES, form.src_rep_stride * BLOCK_BYTES)
    results = size * (2 if form.cal_index else 1)
    effect = TotalEffect(kind, how, source, mask, repeats, tail, form.cal_index, scratch, register)
    last = (repeats - 1) * source.repeat + tail * size
    span = (0, last) if tail else source.span(0, mask.size - 1, repeats)
    writes = [(0, 0, results)] + ([(2, 0, scratch)] if scratch else [])
    width = "half" if dtype.bits == 16 else "float"
    what = f"mask={form.mask} repeat_time={repeats}" if form.mask is not None else f"count={form.count}"
    return Op(
        api, Pipe.V, VectorWork(f"reducerepeat_{width}", dtype.bits, active, repeats), path="UB-UB", nbytes=results,
        effect=effect, reads=[(1, *span)], writes=writes, aligns=(results, BLOCK_BYTES, BLOCK_BYTES), detail=what,
        warnings=found,
    )  # fmt: skip
