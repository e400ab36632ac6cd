"""Where every element of one call lands: the call is recorded once, and its effects are performed on index planes.

A plane is the source filled with one digit of every byte's own number (of every nibble's for 4-bit types). The recorded
effects move each plane as they move any other bytes; the digits that arrive, put together, are the number of the byte
that each destination byte came from. Two more planes, all zeros and all ones, tell copied bytes from filled and
untouched ones, the shadow tells the undefined. So nothing here knows what an API does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.explain.forms import Arguments, Form, arguments, form_of
from aicore_sim.kernel import language
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.program import Entry
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.memory import Buffer, Bytes, GlobalMemory

UNTOUCHED, FILL, UNDEFINED = -1, -2, -3
"""What `ElementMap.origin` says of a cell that does not come from the source."""
MOST_BYTES = 1 << 24
"""Largest footprint that is mapped, on either side."""
_GM_BYTES = 1 << 52
_VECTORS = 2
_GRAIN = 1024
"""Footprints are kept from a multiple of this: more than any fractal."""
BUFFERS = {"UB": "VECIN", "L1": "A1", "L0A": "A2", "L0B": "B2", "L0C": "CO1", "BT": "C2", "FB": "C2PIPE2GM"}
"""A position for each buffer, for those who name the buffer."""

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """One side of a movement: `cells` cells from number `first` on (counted from the start of the tensor) are in reach."""

    position: str
    buffer: str
    first: int
    cells: int


@dataclass(frozen=True)
class ElementMap:
    """Where the elements of one call come from and go to.

    A cell is an element; where a byte of an element comes from elsewhere than the rest (strides that are no multiple of
    the element), it is a byte (`cell_bits` 8). `origin[i]` is the source cell of destination cell
    `destination.first + i`, or UNTOUCHED, FILL, UNDEFINED; `words[i]` is the raw word of a filled cell. `moved` counts
    bytes as the instruction does, rewritten ones each time; `rewritten` is how many of them were not the first to write
    their byte. Without any instruction (`pipe` "") nothing moves.
    """

    form: Form
    fields: Mapping[str, str]
    card: Card
    dtype: DataType
    pipe: str
    source: Side
    destination: Side
    cell_bits: int
    origin: Cells = field(repr=False)
    words: NDArray[np.uint64] = field(repr=False)
    moved: int
    rewritten: int
    warnings: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"{self.source.buffer}-{self.destination.buffer}"

    @property
    def by_element(self) -> bool:
        """Whether a cell is an element."""
        return self.cell_bits == self.dtype.bits

    @property
    def copied(self) -> NDArray[np.bool_]:
        """Destination cells that come from the source."""
        return self.origin >= 0

    @cached_property
    def read(self) -> NDArray[np.bool_]:
        """Source cells, from `source.first` on, that arrive somewhere."""
        seen = np.zeros(self.source.cells, np.bool_)
        seen[self.origin[self.copied] - self.source.first] = True
        return seen

    def cells_of(self, nbytes: int) -> int:
        """Cells in `nbytes` bytes."""
        return nbytes * 8 // self.cell_bits

    def byte(self, cell: int) -> int:
        """Byte address of a cell, from the start of its tensor."""
        return cell * self.cell_bits // 8

    def count(self, state: int) -> int:
        """Cells that are UNTOUCHED, FILL or UNDEFINED."""
        return int((self.origin == state).sum())


def explain(
    struct: str,
    words: Sequence[str] = (),
    *,
    card: Card,
    dtype: str | None = None,
    src: str | None = None,
    dst: str | None = None,
) -> ElementMap:
    """Record the call that `struct` belongs to, with the fields in `words` (`key=value`), and map its elements.

    `dtype`, `src` and `dst` (TPosition names, or names of buffers) default to those of the struct's line in `FORMS`. Both
    tensors start at address 0 of memories that nothing else uses. Raises what the call raises; ParameterError for an
    unknown struct, field or position and for a footprint of more than `MOST_BYTES`; UnsupportedError for a call that
    computes.
    """
    form = form_of(struct)
    kind = DataType(dtype or form.dtype)
    if not kind.bits:
        raise ParameterError("elements need a width", field="dtype", value=kind.name)
    positions = position_of(src or form.src, "src"), position_of(dst or form.dst, "dst")
    buffers = card.position(positions[0]), card.position(positions[1])
    call = arguments(form, words, kind, *buffers)
    session = Session(card, GlobalMemory(data=False), data=False, auto_sync=False)
    entries = record_call(session, form, call, kind, positions)
    fields = dict(word.split("=", 1) for word in words)
    return _mapped(form, fields, card, kind, positions, buffers, entries, tuple(text for text, _ in session.warnings))


def position_of(name: str, option: str) -> str:
    """A TPosition by its name or that of a buffer, in any case. Raises ParameterError with the known ones."""
    known = [position.name for position in TPosition if position is not TPosition.MAX]
    found = BUFFERS.get(name.upper(), name.upper())
    if found not in known:
        raise ParameterError("unknown position", field=option, value=name,
                             allowed=f"{', '.join(known)}, or a buffer: {', '.join(BUFFERS)}")  # fmt: skip
    return found


# ---- recording ------------------------------------------------------------------------------------------------------
def record_call(
    session: Session, form: Form, call: Arguments, dtype: DataType, positions: tuple[str, str]
) -> list[Entry]:
    """The instructions of the call, on a core of the kind that the positions ask for."""
    card = session.card
    memories = {name: Buffer(name, int(card.value(f"buffers.{name}.size")), uid=number, label=name, data=False)
                for number, name in enumerate(card.buffers)}  # fmt: skip
    core = "core" if card.coupled else form.core or core_of(card.position(positions[0]), card.position(positions[1]))
    mine = {name: one for name, one in memories.items() if core == "core" or (name == "UB") == (core == "aiv")}
    recorder = Recorder(
        session, core, 0, mine, block_idx=0, block_num=1, group_ub=(memories["UB"],) * _VECTORS if core == "aic" else (),
        group_l1=memories["L1"] if core == "aiv" else None,
    )  # fmt: skip
    previous = enter(recorder)
    try:
        source, destination = (_tensor(session, dtype, position) for position in positions)
        getattr(language, form.call)(destination, source, *call.args, **call.kwargs)
    finally:
        enter(previous)
    return [entry for entry in recorder.program if entry.op is not None and entry.op.effect is not None]


def core_of(src: str, dst: str) -> str:
    """Between UB and L1 the core of the source issues the copy."""
    return "aiv" if {src, dst} <= {"GM", "UB"} or src == "UB" else "aic"


def _tensor(session: Session, dtype: DataType, position: str) -> Any:
    """A tensor that is all of its memory."""
    kind = session.card.position(position)
    if kind == "GM":
        tensor = GlobalTensor()
        tensor.set_global_buffer(GlobalAddress(session.gm.allocate(_GM_BYTES, "GM"), dtype))
        return tensor
    elements = int(session.card.value(f"buffers.{kind}.size")) * 8 // dtype.bits if kind else 0
    return LocalTensor(dtype, TPosition[position], 0, elements)


# ---- planes ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Reach:
    """Bytes [first, last) that the instructions touch on one side, widened to whole grains."""

    first: int
    last: int

    @property
    def nbytes(self) -> int:
        return self.last - self.first


def _reach(entries: Sequence[Entry], operand: int, name: str) -> _Reach:
    spans = [
        (entry.offs[operand] + lo, entry.offs[operand] + hi)
        for entry in entries if entry.op is not None
        for index, lo, hi in (*entry.op.reads, *entry.op.writes) if index == operand
    ]  # fmt: skip
    if not spans:
        return _Reach(0, 0)
    first = min(lo for lo, _ in spans) // _GRAIN * _GRAIN
    last = max(hi for _, hi in spans)
    if last - first > MOST_BYTES:
        raise ParameterError(f"the call spans {last - first:,} B of its {name}: too much to draw", field=name,
                             value=last - first, allowed=f"<= {MOST_BYTES} B; use smaller strides")  # fmt: skip
    return _Reach(first, last)


class _Stage:
    """The recorded instructions, ready to be performed on any bytes; `unit` bits (4 or 8) of a byte move on their own."""

    def __init__(self, entries: Sequence[Entry], unit: int) -> None:
        self.entries = entries
        self.unit = unit
        self.src = _reach(entries, 1, "source")
        self.dst = _reach(entries, 0, "destination")

    def units(self, raw: Bytes) -> Bytes:
        """Bytes as units, low nibble first."""
        return np.stack([raw & 15, raw >> 4], axis=1).reshape(-1) if self.unit == 4 else raw

    def run(self, src: Bytes, dst: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
        """The destination's bytes after the instructions, and which of them are defined."""
        source = _buffer(src)
        destination = _buffer(dst)
        for entry in self.entries:
            op = entry.op
            assert op is not None and op.effect is not None
            others = [_buffer(np.zeros(max(hi, 1), np.uint8)) for _, hi, _ in op.limits[2:]]
            offsets = (entry.offs[0] - self.dst.first, entry.offs[1] - self.src.first, *(0 for _ in others))
            op.effect.apply((destination, source, *others), offsets, 0, 1, 1)
        assert destination.shadow is not None
        return destination.bytes(), destination.shadow.view(np.bool_)

    def constant(self, src: int, dst: int) -> tuple[Bytes, NDArray[np.bool_]]:
        """As `run`, on equal source bytes and equal destination bytes; in units."""
        raw, defined = self.run(np.full(self.src.nbytes, src, np.uint8), np.full(self.dst.nbytes, dst, np.uint8))
        return self.units(raw), np.repeat(defined, 8 // self.unit)

    def origin(self) -> Cells:
        """For every destination unit the source unit whose digits arrived there."""
        count = self.src.nbytes * 8 // self.unit
        number = np.arange(count, dtype=np.int64)
        found = np.zeros(self.dst.nbytes * 8 // self.unit, np.int64)
        for shift in range(0, max(count - 1, 1).bit_length(), self.unit):
            digit = (number >> shift & (1 << self.unit) - 1).astype(np.uint8)
            plane = (digit[0::2] | digit[1::2] << 4).astype(np.uint8) if self.unit == 4 else digit
            raw, _ = self.run(plane, np.zeros(self.dst.nbytes, np.uint8))
            found |= self.units(raw).astype(np.int64) << shift
        return found


def _buffer(content: Bytes) -> Buffer:
    """A memory of its own with these bytes, all defined."""
    made = Buffer("UB", 0, uid=0, label="plane")
    made.size, made.data, made.shadow = content.size, content, np.ones(content.size, np.uint8)
    return made


def _unit_map(stage: _Stage) -> tuple[Cells, Bytes]:
    """Origin of every destination unit, and the value of filled ones.

    Raises UnsupportedError where the instructions do not move bytes as they are.
    """
    zeros, defined = stage.constant(0x00, 0x55)
    ones, _ = stage.constant(0xFF, 0xAA)
    full = (1 << stage.unit) - 1
    origin = np.full(zeros.size, FILL, np.int64)
    copied = (zeros == 0) & (ones == full)
    origin[copied] = stage.origin()[copied]
    origin[(zeros == 0x55 & full) & (ones == 0xAA & full)] = UNTOUCHED
    origin[~defined] = UNDEFINED
    noise = np.random.default_rng(0).integers(0, 256, stage.src.nbytes, np.uint8)
    moved = stage.units(stage.run(noise.copy(), np.full(stage.dst.nbytes, 0xA5, np.uint8))[0])
    expected = stage.units(np.full(stage.dst.nbytes, 0xA5, np.uint8)).copy()
    expected[origin == FILL] = zeros[origin == FILL]
    expected[origin >= 0] = stage.units(noise)[origin[origin >= 0]]
    wrong = (moved != expected) & (origin != UNDEFINED)
    if wrong.any() or ((zeros != ones) & (origin == FILL)).any():
        raise UnsupportedError("this call converts or computes: only movements of bytes as they are can be explained",
                               field="dtype", allowed="equal types, no ReLU, no quantisation")  # fmt: skip
    return origin, zeros


# ---- cells ----------------------------------------------------------------------------------------------------------
def _mapped(
    form: Form, fields: Mapping[str, str], card: Card, dtype: DataType, positions: tuple[str, str],
    buffers: tuple[str, str], entries: Sequence[Entry], warnings: tuple[str, ...],
) -> ElementMap:  # fmt: skip
    stage = _Stage(entries, 4 if dtype.bits == 4 else 8)
    origin, values = _unit_map(stage) if entries else (np.zeros(0, np.int64), np.zeros(0, np.uint8))
    size = dtype.bits // stage.unit
    cells = _joined(origin, size)
    if cells is None:
        cells, size = origin, 1
    bits = size * stage.unit
    padded = np.zeros((cells.size, 8), np.uint8)
    flat = np.zeros(cells.size * size, np.uint8)
    flat[: values.size] = np.where(origin == FILL, values, 0)
    padded[:, :size] = flat.reshape(-1, size)
    sides = [
        Side(position, buffer, reach.first * 8 // bits, -(-reach.nbytes * 8 // bits))
        for position, buffer, reach in zip(positions, buffers, (stage.src, stage.dst), strict=True)
    ]
    shifted = np.where(cells >= 0, cells + sides[0].first, cells)
    moved = sum(entry.op.nbytes for entry in entries if entry.op is not None)
    touched = int((origin != UNTOUCHED).sum()) * stage.unit // 8
    return ElementMap(
        form, fields, card, dtype, next((entry.pipe.name for entry in entries), ""), sides[0], sides[1], bits, shifted,
        padded.view("<u8").reshape(-1), moved, max(moved - touched, 0), warnings,
    )  # fmt: skip


def _joined(origin: Cells, size: int) -> Cells | None:
    """Origins in elements of `size` units, None where the units of an element do not stay together."""
    if size == 1:
        return origin
    whole = np.full(-(-origin.size // size) * size, UNTOUCHED, np.int64)
    whole[: origin.size] = origin
    rows = whole.reshape(-1, size)
    first = rows[:, :1]
    together = np.where(first >= 0, (rows == first + np.arange(size)) & (first % size == 0), rows == first)
    return np.where(first >= 0, first // size, first)[:, 0] if together.all() else None
