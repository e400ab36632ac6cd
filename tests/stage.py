"""A stage for calls: one recording core with named tensors; every call is performed at once, no clock involved.

    stage = Stage("atlas_350", {"src": Place("A1", "half", words), "dst": Place("A2", "half", 4096)})
    stage.call(lambda: load_data(stage["dst"], stage["src"], params))
    stage.words("dst"), stage.defined("dst"), stage.warnings
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aicore_sim.cards import Card, load_card
from aicore_sim.dtypes import DataType, word_type
from aicore_sim.errors import AiCoreError
from aicore_sim.instructions.base import Op
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.memory import Buffer, GlobalMemory

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
SENTINEL = 0xA5
VECTORS = 2
_REGION = 1024
"""Tensors of one buffer start at multiples of this: more than any alignment rule asks for."""


@cache
def the_card(name: str, quirks: str = "documented", wrap: str = "refuse") -> Card:
    return load_card(name).reading(quirks, wrap)


@dataclass(frozen=True)
class Place:
    """A tensor: position (a TPosition name or GM), element type, and its bytes, or how many bytes of the sentinel.

    `elements` is the declared size where it is smaller than the bytes; bytes of a number count as never written. `behind`
    bytes of GM follow that belong to nobody.
    """

    position: str
    dtype: str
    content: NDArray[Any] | int
    elements: int | None = None
    written: bool | None = None
    behind: int = 0


class Stage:
    """One core of a card with the tensors in place, the source first.

    `core` is "aic", "aiv", "core" or "" (chosen by the positions; between UB and L1 the source's core issues the copy).
    """

    def __init__(self, card: str, places: Mapping[str, Place], *, core: str = "", quirks: str = "documented",
                 wrap: str = "refuse", strict: bool = False) -> None:  # fmt: skip
        self.card = the_card(card, quirks, wrap)
        self.places = dict(places)
        self.gm = GlobalMemory()
        self.session = Session(self.card, self.gm, strict=strict)
        self.memories = {name: Buffer(name, int(self.card.value(f"buffers.{name}.size")), uid=i, label=name)
                         for i, name in enumerate(self.card.buffers)}  # fmt: skip
        self.ubs = [self.memories["UB"], *(Buffer("UB", self.memories["UB"].size, uid=90 + i, label=f"UB{i}")
                                           for i in range(1, VECTORS))]  # fmt: skip
        self.core = core or self._core()
        self.recorders: dict[str, Recorder] = {}
        self.recorder = self._recorder(self.core)
        self._next: dict[str, int] = {}
        self._at: dict[str, tuple[Buffer, int, int]] = {}
        self._tensors: dict[str, Any] = {}
        for name, place in self.places.items():
            self._tensors[name] = self._put(name, place)
        self._done: dict[str, int] = {}

    def _recorder(self, core: str) -> Recorder:
        """The recording core of this kind, made when it is first asked for."""
        if core not in self.recorders:
            mine = {name: b for name, b in self.memories.items() if core == "core" or (name == "UB") == (core == "aiv")}
            self.recorders[core] = Recorder(self.session, core, 0, mine, block_idx=0, block_num=1,
                                            group_ub=self.ubs if core == "aic" else (),
                                            group_l1=self.memories["L1"] if core == "aiv" else None)  # fmt: skip
        return self.recorders[core]

    def _core(self) -> str:
        if self.card.coupled:
            return "core"
        kinds = [self.card.position(place.position) for place in self.places.values()]
        return "aiv" if set(kinds) <= {"GM", "UB"} or kinds[0] == "UB" else "aic"

    def _put(self, name: str, place: Place) -> Any:
        dtype = DataType(place.dtype)
        known = not isinstance(place.content, int)
        raw = (np.ascontiguousarray(place.content).reshape(-1).view(np.uint8) if known
               else np.full(place.content, SENTINEL, np.uint8))  # fmt: skip
        size = place.elements if place.elements is not None else raw.size * 8 // dtype.bits
        if place.position == "GM":
            buffer = self.gm.allocate(max(raw.size + place.behind, 1), name)
            buffer.bytes()[: raw.size] = raw
            self._at[name] = (buffer, 0, raw.size)
            tensor = GlobalTensor()
            tensor.set_global_buffer(GlobalAddress(buffer, dtype), place.elements)
            return tensor
        kind = self.card.position(place.position)
        buffer = self.memories[kind]
        start = self._next.get(kind, 0)
        self._next[kind] = -(-(start + raw.size) // _REGION) * _REGION
        buffer.bytes()[start : start + raw.size] = raw
        if buffer.shadow is not None and (known if place.written is None else place.written):
            buffer.shadow[start : start + raw.size] = 1
        self._at[name] = (buffer, start, raw.size)
        previous = enter(self._recorder("core" if self.card.coupled else "aiv" if kind == "UB" else "aic"))
        try:
            return LocalTensor(dtype, TPosition[place.position], start, size)
        finally:
            enter(previous)

    def __getitem__(self, name: str) -> Any:
        """The tensor of this name."""
        return self._tensors[name]

    def at(self, name: str, elements: int) -> Any:
        """The tensor from this element on; for 4-bit types elements are nibbles."""
        return self._tensors[name][elements] if elements else self._tensors[name]

    def call(self, *calls: Callable[[], Any], core: str = "") -> None:
        """Record the calls on this core (the stage's own by default), and perform what they recorded, one after another."""
        core = core or self.core
        previous = enter(self._recorder(core))
        try:
            for one in calls:
                one()
                self._perform(core)
        finally:
            enter(previous)

    def _perform(self, core: str) -> None:
        program = self.recorders[core].program
        for entry in program[self._done.get(core, 0) :]:
            if entry.op is not None and entry.op.effect is not None:
                entry.op.effect.apply(entry.bufs, entry.offs, 0, 1, 1)
        self._done[core] = len(program)

    @property
    def ops(self) -> list[Op]:
        """The instructions recorded so far."""
        return [entry.op for entry in self.recorder.program if entry.op is not None]

    @property
    def warnings(self) -> list[str]:
        return [text for text, _ in self.session.warnings]

    def bytes(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor's region, as a copy."""
        buffer, start, size = self._at[name]
        return buffer.bytes()[start : start + size].copy()

    def words(self, name: str) -> NDArray[Any]:
        """The region as raw words of the element type; 4-bit elements one by one, low nibble first."""
        raw, bits = self.bytes(name), DataType(self.places[name].dtype).bits
        return np.stack([raw & 15, raw >> 4], axis=1).reshape(-1) if bits == 4 else raw.view(word_type(bits))

    def defined(self, name: str) -> NDArray[np.bool_]:
        """Which bytes of the region are defined."""
        buffer, start, size = self._at[name]
        if buffer.shadow is None:
            return np.ones(size, np.bool_)
        return buffer.shadow[start : start + size].astype(np.bool_)

    def snapshot(self) -> dict[str, bytes]:
        """All memories, to compare before and after."""
        local = {name: buffer.bytes().tobytes() for name, buffer in self.memories.items()}
        return local | {b.label: b.bytes().tobytes() for b in self.gm.allocations}

    def refuses(self, call: Callable[[], Any], error: type[AiCoreError], field: str | Sequence[str] | None = None) -> AiCoreError:
        """Assert that the call raises `error` about `field` (or one of several), records nothing and moves nothing."""
        before, recorded = self.snapshot(), len(self.recorder.program)
        with pytest.raises(error) as caught:
            self.call(call)
        if field is not None:
            fields = (field,) if isinstance(field, str) else tuple(field)
            assert caught.value.field in fields, f"error is about {caught.value.field}, not {fields}: {caught.value}"
        assert len(self.recorder.program) == recorded
        assert self.snapshot() == before
        return caught.value


def noise(nbytes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Different-looking bytes."""
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
