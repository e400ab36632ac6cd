"""Reductions inside a repeat: whole repeats, 32 B blocks, pairs (pages ReduceRepeat, ReduceDataBlock, ReducePairElem).

Sums are binary trees of neighbours, each step rounded to the element type; an element that the mask leaves out is the
neutral one. Of equal maxima or minima the first counts; NaN wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType, float16
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, Range, VectorWork, taken
from aicore_sim.instructions.ub_access import access_of
from aicore_sim.instructions.vector import REPEAT_BYTES, check_kinds, mask_bits, mask_word
from aicore_sim.instructions.vector_effect import Blocks, Bools, Bytes, gather, share
from aicore_sim.instructions.vector_math import Array
from aicore_sim.memory import Buffer

VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX = range(4)
"""Values of ReduceOrder."""
_RANGES: dict[str, Range] = {
    "repeat": (0, 255), "dst_rep_stride": (0, 65535), "src_blk_stride": (0, 65535), "src_rep_stride": (0, 65535),
}  # fmt: skip


@dataclass(frozen=True)
class ReduceForm:
    """Arguments of a reduction: strides of the source in 32 B, of the destination in results of one repeat."""

    mask: int | tuple[int, ...]
    repeat: int
    dst_rep_stride: int
    src_blk_stride: int
    src_rep_stride: int
    order: int = VALUE_INDEX
    counter: bool = False


# ---- values ---------------------------------------------------------------------------------------------------------
def tree_sum(values: Array) -> Array:
    """Sum along the last axis, neighbours first; its length is a power of two."""
    while values.shape[-1] > 1:
        values = values[..., 0::2] + values[..., 1::2]
    return values[..., 0]


def first_extreme(values: Array, kind: str) -> Array:
    """Index of the first largest ("max") or smallest element along the last axis; of the first NaN if there is one."""
    found: Array = values.argmax(axis=-1) if kind == "max" else values.argmin(axis=-1)
    return found


def neutral(kind: str, dtype: DataType, largest: bool = False) -> Any:
    """The element that changes no result; `largest` takes the largest finite numbers in place of infinities."""
    assert dtype.np_dtype is not None
    one = dtype.np_dtype.type
    if kind == "sum":
        return one(0)
    if dtype.is_int():
        limits = np.iinfo(dtype.np_dtype)
        return one(limits.min if kind == "max" else limits.max)
    top = np.finfo(dtype.np_dtype).max if largest else np.inf
    return one(-top if kind == "max" else top)


# ---- effect ---------------------------------------------------------------------------------------------------------
Result = tuple[Bytes, Bools]
"""Bytes [repeat, result, size] and which results are defined [repeat, result]."""


class ReduceEffect:
    """Operands: destination, source. `reduce` takes elements [repeat, lane], the mask and the marks of the elements.

    `pitch` is that of the results of a repeat, `kept` marks the results that are written.
    """

    __slots__ = ("kept", "lanes", "mask", "pitch", "reduce", "register", "repeats", "size", "src", "tail")

    def __init__(
        self, reduce: Callable[[Array, Bools, Bools], Result], src: Blocks, mask: Bools, repeats: int, tail: int, pitch: int,
        size: int, kept: Callable[[Bools], Bools], register: tuple[int, int],
    ) -> None:  # fmt: skip
        self.reduce = reduce
        self.src = src
        self.mask = mask
        self.repeats = repeats
        self.tail = tail
        self.pitch = pitch
        self.size = size
        self.kept = kept
        self.register = register

    def masks(self, repeat: int) -> Bools:
        """The mask of one repeat: the last one of counter mode may be shorter."""
        if self.tail and repeat == self.repeats - 1:
            return np.arange(self.mask.size) < self.tail
        return self.mask

    def apply(self, bufs: Sequence[Buffer], offs: Sequence[int], first: int, last: int, of: int) -> None:
        lo, hi = share(self.repeats, first, last, of)
        whole = hi - 1 if self.tail and hi == self.repeats else hi
        step = max(whole - lo, 1) if bufs[0] is not bufs[1] or self._apart(offs) else 1
        with np.errstate(all="ignore"):
            for start in range(lo, whole, step):
                self._repeats(bufs, offs, start, min(step, whole - start))
            if whole < hi:
                self._repeats(bufs, offs, whole, 1)

    def _apart(self, offs: Sequence[int]) -> bool:
        lo, hi = self.src.span(0, self.mask.size - 1, self.repeats)
        end = offs[0] + (self.repeats - 1) * self.pitch + self.kept(self.mask).size * self.size
        return self.pitch > 0 and (offs[1] + hi <= offs[0] or end <= offs[1] + lo)

    def _repeats(self, bufs: Sequence[Buffer], offs: Sequence[int], start: int, n: int) -> None:
        mask, kind = self.masks(start), self.src.dtype.np_dtype
        assert kind is not None
        elements = mask.size
        values = gather(self.src.view(bufs[1].bytes(), offs[1], start, n, elements), kind, elements)
        known = np.ones(values.shape, np.bool_)
        if bufs[1].shadow is not None:
            marks = np.array(self.src.view(bufs[1].shadow, offs[1], start, n, elements), order="C").reshape(n, -1)
            known = np.logical_and.reduce(marks.reshape(n, -1, kind.itemsize), axis=2)[:, :elements]
        found, sure = self.reduce(values, mask, known)
        kept = self.kept(mask)
        self._store(bufs[0].bytes(), offs[0], start, found, kept)
        if bufs[0].shadow is not None:
            marks = np.repeat(sure.astype(np.uint8)[:, :, None], self.size, axis=2)
            self._store(bufs[0].shadow, offs[0], start, marks, kept)

    def _store(self, memory: Bytes, offset: int, start: int, found: Bytes, kept: Bools) -> None:
        at = offset + start * self.pitch
        view = np.ndarray(found.shape, np.uint8, memory.data, at, (self.pitch, self.size, 1))
        view[:, kept] = found[:, kept]


def _filled(values: Array, mask: Bools, lanes: int, fill: Any) -> Array:
    full = np.full((len(values), lanes), fill, values.dtype)
    full[:, : mask.size][:, mask] = values[:, mask]
    return full


def _all_known(known: Bools, mask: Bools, lanes: int, groups: int) -> Bools:
    """Whether every element of a group that takes part is defined: [repeat, group]."""
    full = np.ones((len(known), lanes), np.bool_)
    full[:, : mask.size][:, mask] = known[:, mask]
    found: Bools = np.logical_and.reduce(full.reshape(len(known), groups, -1), axis=2)
    return found


# ---- Ops ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Shape:
    """What a reduction makes of a repeat: `groups` results of `size` bytes, the first of each repeat `pitch` apart."""

    groups: int
    size: int
    unit: int
    align: int
    reduce: Callable[[Array, Bools, Bools], Result]
    kept: Callable[[Bools], Bools]
    op: str


def _raw(results: Array) -> Bytes:
    found: Bytes = np.ascontiguousarray(results).view(np.uint8).reshape(*results.shape, -1)
    return found


def _always(mask: Bools) -> Bools:
    """The one result of a repeat is written whatever the mask leaves in it."""
    return np.ones(1, np.bool_)


def _whole(kind: str, order: int, dst: DataType, src: DataType, card: Card) -> _Shape:
    lanes = REPEAT_BYTES * 8 // src.bits
    fill = neutral(kind, src)
    width = "half" if src.bits == 16 else "float"
    if kind == "sum":

        def add_up(values: Array, mask: Bools, known: Bools) -> Result:
            total = tree_sum(_filled(values, mask, lanes, fill).astype(dst.np_dtype))
            return _raw(total[:, None]), _all_known(known, mask, lanes, 1)

        size = dst.bits // 8
        return _Shape(1, size, size, size, add_up, _always, f"reducerepeat_{width}")
    if card.npu_arch == 3002 and order not in (VALUE_INDEX, ONLY_VALUE):
        raise ParameterError("ReduceRepeat: this card has no such order", field="order", value=order,
                             allowed="ORDER_VALUE_INDEX, ORDER_ONLY_VALUE", card=card.name)  # fmt: skip
    words = np.dtype(f"u{src.bits // 8}")

    def pick(values: Array, mask: Bools, known: Bools) -> Result:
        full = _filled(values, mask, lanes, fill)
        # A lane that is left out must not be found, even where every other one is as small as it.
        index = np.flatnonzero(mask)[first_extreme(values[:, mask], kind)]
        value = np.take_along_axis(full, index[:, None], axis=1)
        place = index[:, None].astype(words)
        pairs = {VALUE_INDEX: (value.view(words), place), INDEX_VALUE: (place, value.view(words)), ONLY_VALUE: (value,),
                 ONLY_INDEX: (index[:, None].astype(np.uint32),)}[order]  # fmt: skip
        return _raw(np.concatenate(pairs, axis=1)).reshape(len(values), 1, -1), _all_known(known, mask, lanes, 1)

    single = src.bits // 8
    size = {VALUE_INDEX: 2 * single, INDEX_VALUE: 2 * single, ONLY_VALUE: single, ONLY_INDEX: 4}[order]
    return _Shape(1, size, size, size, pick, _always, f"reducerepeat_{width}")


def _blocks(kind: str, dst: DataType, card: Card) -> _Shape:
    lanes, size = REPEAT_BYTES * 8 // dst.bits, dst.bits // 8
    groups = REPEAT_BYTES // BLOCK_BYTES
    # What a block of which nothing takes part becomes; A2 and A3 leave its place alone.
    fill = neutral(kind, dst, largest=card.npu_arch == 3002 and dst is float16)

    def each(values: Array, mask: Bools, known: Bools) -> Result:
        grid = _filled(values, mask, lanes, fill).reshape(len(values), groups, -1)
        if kind == "sum":
            found = tree_sum(grid)
        else:
            found = np.take_along_axis(grid, first_extreme(grid, kind)[:, :, None], axis=2)[:, :, 0]
        return _raw(found), _all_known(known, mask, lanes, groups)

    def kept(mask: Bools) -> Bools:
        if card.npu_arch != 2201:
            return np.ones(groups, np.bool_)
        return _any_of(mask, lanes, groups)

    width = "half" if dst.bits == 16 else "float"
    return _Shape(groups, size, groups * size, groups * size, each, kept, f"reducedatablock_{width}")


def _pairs(dst: DataType, card: Card) -> _Shape:
    lanes, size = REPEAT_BYTES * 8 // dst.bits, dst.bits // 8
    groups = lanes // 2
    zero = neutral("sum", dst)

    def each(values: Array, mask: Bools, known: Bools) -> Result:
        grid = _filled(values, mask, lanes, zero).reshape(len(values), groups, 2)
        return _raw(tree_sum(grid)), _all_known(known, mask, lanes, groups)

    def kept(mask: Bools) -> Bools:
        return np.ones(groups, np.bool_) if card.npu_arch != 2201 else _any_of(mask, lanes, groups)

    return _Shape(groups, size, groups * size, BLOCK_BYTES, each, kept, "reducepairelem")


def _any_of(mask: Bools, lanes: int, groups: int) -> Bools:
    full = np.zeros(lanes, np.bool_)
    full[: mask.size] = mask
    found: Bools = np.logical_or.reduce(full.reshape(groups, -1), axis=1)
    return found


_APIS = {"whole": "ReduceRepeat", "block": "ReduceDataBlock", "pair": "ReducePairElem"}


def api_of(over: str) -> str:
    """Name of the API that reduces "whole" repeats, "block"s or "pair"s."""
    return _APIS[over]


def _check_types(over: str, kind: str, dst: DataType, src: DataType, card: Card) -> None:
    """The pair of types against the card's list, in which `a*b/c` are sums of a into b or c."""
    api = _APIS[over]
    rows = [text for row in card.api(api) if row.supported for text in row.dtypes]
    same: set[str] = set()
    sums: set[tuple[str, str]] = set()
    for text in rows:
        into, _, sources = text.partition("*")
        same.update(DataType(one).name for one in (into, *filter(None, sources.split("/"))))
        sums.update((DataType(one).name, DataType(into).name) for one in (sources or into).split("/"))
    fits = (src.name, dst.name) in sums if kind == "sum" else dst is src and src.name in same
    if not fits:
        allowed = ", ".join(f"{a} to {b}" for a, b in sorted(sums)) if kind == "sum" else ", ".join(sorted(same))
        raise UnsupportedError(f"{api} ({kind}): not for these element types on this card", field="dtype",
                               value=f"{src.name}, {dst.name}", allowed=allowed or "none", card=card.name)  # fmt: skip


def build(over: str, kind: str, form: ReduceForm, dtypes: Sequence[DataType], kinds: Sequence[str], card: Card) -> Op | None:
    """The Op of a reduction `kind` ("sum", "max", "min") `over` "whole" repeats, "block"s or "pair"s on (dst, src).

    None where no element takes part. Raises ParameterError for a field outside its range or an order that the card lacks,
    UnsupportedError for types, buffers or cards.
    """
    api = _APIS[over]
    check_kinds(api, kinds, card)
    dst, src = dtypes
    _check_types(over, kind, dst, src, card)
    found: list[str] = []
    form = taken(api, form, _RANGES, card, found)
    if form.order not in (VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX):
        raise ParameterError(f"{api}: order", field="order", value=form.order, allowed="ReduceOrder", card=card.name)
    shape = (_whole(kind, form.order, dst, src, card) if over == "whole" else _blocks(kind, dst, card) if over == "block"
             else _pairs(dst, card))  # fmt: skip
    lanes = REPEAT_BYTES * 8 // src.bits
    word = mask_word(api, form.mask, form.counter, card)
    register = (word >> 64, word & (1 << 64) - 1)
    repeats, tail = form.repeat, 0
    if form.counter:
        mask, repeats = np.ones(min(register[1], lanes), np.bool_), -(-register[1] // lanes)
        tail = register[1] % lanes
    else:
        mask, doubts = mask_bits(form.mask, word, lanes)
        found.extend(doubts)
    if repeats == 0 or mask.size == 0:
        return None
    source = Blocks(src, form.src_blk_stride * BLOCK_BYTES, form.src_rep_stride * BLOCK_BYTES)
    pitch = form.dst_rep_stride * shape.unit
    effect = ReduceEffect(shape.reduce, source, mask, repeats, tail, pitch, shape.size, shape.kept, register)
    written = np.flatnonzero(shape.kept(mask))
    span = (int(written[0]) * shape.size, (repeats - 1) * pitch + (int(written[-1]) + 1) * shape.size)
    active = int(mask.sum()) * (repeats - bool(tail)) + tail
    return Op(
        api, Pipe.V, VectorWork(shape.op, src.bits, active, repeats), path="UB-UB", nbytes=repeats * written.size * shape.size,
        effect=effect, reads=[(1, *source.span(0, mask.size - 1, repeats))], writes=[(0, *span)],
        aligns=(shape.align, BLOCK_BYTES), detail=f"{kind} mask={form.mask} repeat={repeats}", warnings=found,
        access=access_of(repeats, (written.size * shape.size, BLOCK_BYTES, pitch),
                         {1: (REPEAT_BYTES, source.block, source.repeat)}),
    )  # fmt: skip
