"""Small stage for copies: cards, memories with a known content, and a recording core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card, load_card
from aicore_sim.dtypes import DataType
from aicore_sim.instructions.base import Op
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.memory import Buffer, GlobalMemory

Bytes = NDArray[np.uint8]
CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")


@cache
def card(name: str) -> Card:
    return load_card(name)


def noise(nbytes: int, seed: int = 1) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def changed(params: Any, **fields: Any) -> Any:
    """A parameter struct with some fields changed."""
    return replace(params, **fields)


def memory(kind: str, content: Bytes, label: str = "buffer") -> Buffer:
    """A buffer with this content; local ones count as not written yet."""
    buffer = Buffer(kind, content.size, uid=0, label=label, base=4096 if kind == "GM" else 0)
    buffer.bytes()[:] = content
    return buffer


def perform(op: Op, src: Bytes, dst: Bytes, src_kind: str, dst_kind: str) -> tuple[Bytes, Any]:
    """Destination bytes and their defined marks (GM has none) after `op` alone, both operands at byte 0."""
    source, destination = memory(src_kind, src), memory(dst_kind, dst)
    if source.shadow is not None:
        source.shadow[:] = 1
    assert op.effect is not None
    op.effect.apply([destination, source], [0, 0], 0, 1, 1)
    assert np.array_equal(source.bytes(), src)
    return destination.bytes(), destination.shadow


class Tensor:
    """What the API functions need of a tensor."""

    def __init__(self, buffer: Buffer, dtype: str, offset: int = 0) -> None:
        self.buffer, self.dtype, self.offset = buffer, DataType(dtype), offset
        self.kind, self.l2_hint = buffer.kind, ""
        self.size: int | None = None


class Stage:
    """One recording core with GM arrays `a` and `b` and its local buffers."""

    def __init__(self, name: str, kind: str = "aiv", local: tuple[str, ...] = ("UB",)) -> None:
        gm = GlobalMemory()
        self.session = Session(card(name), gm)
        self.a, self.b = gm.place(noise(4096), "a"), gm.place(noise(4096, 2), "b")
        self.local = {k: Buffer(k, int(card(name).value(f"buffers.{k}.size")), uid=1, label=k) for k in local}
        self.recorder = Recorder(self.session, kind, 0, self.local, block_idx=0, block_num=1)

    @property
    def warnings(self) -> list[str]:
        return [text for text, _ in self.session.warnings]

    @property
    def ops(self) -> list[Op]:
        return [entry.op for entry in self.recorder.program if entry.op is not None]


@contextmanager
def recording(name: str, kind: str = "aiv", local: tuple[str, ...] = ("UB",)) -> Iterator[Any]:
    """A `Stage` whose core is the current one."""
    stage = Stage(name, kind, local)
    previous = enter(stage.recorder)
    try:
        yield stage
    finally:
        enter(previous)
