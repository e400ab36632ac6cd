"""Buffers, layouts written from their definitions, and a recording core for the tests of the cube's instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.cards import Card, load_card
from aicore_sim.dtypes import DataType
from aicore_sim.instructions.base import Op
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.memory import Buffer, GlobalMemory

CASES = Path(__file__).parent.parent / "data" / "cases"
CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
FRACTAL = 512


@lru_cache
def card(name: str) -> Card:
    return load_card(name)


def buffer(kind: str, content: NDArray[Any] | int, defined: bool = True) -> Buffer:
    """A buffer with the bytes of an array (or so many bytes of 0xA5), all defined or all undefined."""
    size = content if isinstance(content, int) else content.nbytes
    made = Buffer(kind, size, uid=0, label=kind)
    made.bytes()[:] = 0xA5 if isinstance(content, int) else np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    if defined and made.shadow is not None:
        made.shadow[:] = 1
    return made


def run(op: Op, bufs: Sequence[Buffer], offs: Sequence[int] | None = None, shares: int = 1) -> None:
    """Apply an Op, in `shares` shares."""
    assert op.effect is not None
    where = list(offs) if offs is not None else [0] * len(bufs)
    for share in range(shares):
        op.effect.apply(bufs, where, share, share + 1, shares)


def words(buf: Buffer, bits: int) -> NDArray[Any]:
    """The content as unsigned words; 4-bit elements one by one, low nibble first."""
    if bits == 4:
        raw = buf.bytes()
        return np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)
    return buf.bytes().view(f"u{bits // 8}")


def pack(elements: NDArray[Any], bits: int) -> NDArray[Any]:
    """Elements as words of a buffer; 4-bit elements two to a byte."""
    if bits == 4:
        flat = elements.reshape(-1).astype(np.uint8)
        return flat[0::2] | flat[1::2] << 4
    return elements.astype(f"u{bits // 8}")


def numbers(count: int, bits: int, seed: int = 0) -> NDArray[Any]:
    """Different-looking raw elements of so many bits."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**bits, count, dtype=np.uint64).astype("u1" if bits == 4 else f"u{bits // 8}")


# ---- layouts from their definitions (element position of (r, c)) ----
def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def nz(r: NDArray[Any], c: NDArray[Any], rows: int, cols: int, c0: int) -> Any:
    return (c // c0 * (up(rows, 16) // 16) + r // 16) * 16 * c0 + r % 16 * c0 + c % c0


def zz(r: NDArray[Any], c: NDArray[Any], rows: int, cols: int, c0: int) -> Any:
    return (r // 16 * (up(cols, c0) // c0) + c // c0) * 16 * c0 + r % 16 * c0 + c % c0


def zn(r: NDArray[Any], c: NDArray[Any], rows: int, cols: int, c0: int) -> Any:
    return (r // c0 * (up(cols, 16) // 16) + c // 16) * 16 * c0 + c % 16 * c0 + r % c0


_LAYOUTS = {"NZ": nz, "ZZ": zz, "ZN": zn}


def where(layout: str, rows: int, cols: int, c0: int) -> Any:
    """Position of every element of a rows x cols matrix in its fractal layout."""
    r, c = np.indices((rows, cols))
    return _LAYOUTS[layout](r, c, rows, cols, c0)


def stored(matrix: NDArray[Any], layout: str, c0: int, fill: int = 0) -> NDArray[Any]:
    """The matrix as it lies in a buffer, whole fractals, holes filled with `fill`."""
    rows, cols = matrix.shape
    deep = up(rows, c0) if layout == "ZN" else up(rows, 16)
    wide = up(cols, 16) if layout == "ZN" else up(cols, c0)
    out = np.full(deep * wide, fill, matrix.dtype)
    out[where(layout, rows, cols, c0)] = matrix
    return out


# ---- a core that records ----
@contextmanager
def recording(name: str, kind: str = "", gm: Sequence[NDArray[Any]] = (), vectors: int = 0) -> Iterator[Any]:
    """A recorder of one core of a card, current inside the block, with its GM allocations as `.arrays`."""
    the_card = card(name)
    memory = GlobalMemory()
    arrays = [memory.place(array, f"arg{i}") for i, array in enumerate(gm)]
    session = Session(the_card, memory)
    kind = kind or ("core" if the_card.coupled else "aic")
    mine = {"aic": ("L1", "L0A", "L0B", "L0C", "BT", "FB"), "aiv": ("UB",)}.get(kind, tuple(the_card.buffers))
    buffers = {
        b: Buffer(b, int(the_card.value(f"buffers.{b}.size")), uid=i, label=b)
        for i, b in enumerate(mine)
        if b in the_card.buffers
    }
    ubs = [Buffer("UB", int(the_card.value("buffers.UB.size")), uid=90 + i, label=f"UB{i}") for i in range(vectors)]
    rec: Any = Recorder(session, kind, 0, buffers, block_idx=0, block_num=1, group_ub=ubs)
    rec.arrays = arrays
    previous = enter(rec)
    try:
        yield rec
    finally:
        enter(previous)


def apply_program(rec: Any) -> None:
    """Run what was recorded, entry by entry."""
    for entry in rec.program:
        entry.op.effect.apply(entry.bufs, entry.offs, 0, 1, 1)


# ---- published cases ----
def check_case(name: str, card_name: str, build: Any, struct: type) -> None:
    """Run a case file through a build function and compare the defined words bit by bit."""
    case = json.loads((CASES / f"{name}.json").read_text())
    data = np.load(CASES / f"{name}.npz")
    dtype = DataType(case["dtype"])
    kinds = {"A1": "L1", "B1": "L1", "A2": "L0A", "B2": "L0B", "GM": "GM"}
    src_kind, dst_kind = (kinds[case[side]["position"]] for side in ("source", "destination"))
    src, dst = buffer(src_kind, data["src"]), buffer(dst_kind, data["dst_init"], defined=False)
    for call in case["calls"]:
        op = build(struct(**call["args"][0]["fields"]), dtype, src_kind, dst_kind, card(card_name))
        run(op, [dst, src], [call["dst_offset"] * dtype.bits // 8, call["src_offset"] * dtype.bits // 8])
    got = dst.bytes().view(data["dst"].dtype)
    np.testing.assert_array_equal(got[data["mask"]], data["dst"][data["mask"]])
    untouched = data["dst"] == data["dst_init"]
    assert dst.shadow is not None
    defined = np.asarray(dst.shadow.reshape(-1, data["dst"].itemsize).all(axis=1))
    assert defined[data["mask"] & ~untouched].all()
