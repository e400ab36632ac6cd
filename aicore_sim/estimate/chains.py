"""Chains of movements between two memories: candidates by architecture, which the calls themselves accept or refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.estimate import steps as s
from aicore_sim.estimate.request import Matrix

_NO_EXIT = {
    "L0A": "what is in L0A leaves through the cube only",
    "L0B": "what is in L0B leaves through the cube only",
    "BT": "the bias table is read by Mmad only",
    "FB": "the table of Fixpipe is read by Fixpipe only",
}


@dataclass(frozen=True)
class Chain:
    """Steps in order; `flat`: nothing on the way asks for rows, so the matrix is moved as one long row."""

    steps: tuple[s.Step, ...]
    flat: bool = False

    @property
    def apis(self) -> list[str]:
        return [f"{step.name} {step.path}" for step in self.steps]

    def part_at(self, index: int, part: s.Part) -> s.Part:
        """What step `index` moves of `part`; between memories a matrix of its own."""
        last = len(self.steps) - 1
        if any(step.turns for step in self.steps[:index]):
            return part.turned()
        outer = (index == 0 and self.steps[0].src == "GM") or (index == last and self.steps[last].dst == "GM")
        return part if outer else part.alone()

    @property
    def memories(self) -> tuple[str, ...]:
        return (self.steps[0].src, *(step.dst for step in self.steps))


def never(src: str, dst: str) -> str:
    """Why no card moves anything from buffer `src` to `dst`; "" if some card does."""
    if not src or not dst:
        return "the card has no buffer for this position"
    if src in _NO_EXIT:
        return _NO_EXIT[src]
    if dst == "L0C":
        return "results reach L0C through Mmad only"
    if src == dst and src not in ("GM", "UB"):
        return f"no path copies inside {src}"
    return ""


def chains(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> list[Chain] | str:
    """Candidates, the usual one first; a sentence where there is none whatever the parameters.

    Not all of them need be legal: whoever runs them finds out.
    """
    found = [chain for chain in _candidates(card, src, dst, matrix, dtype) if all(card.has_path(x.path) for x in chain.steps)]
    if found:
        return found
    if dst in ("BT", "FB"):
        return f"{dst} is filled from L1 as a vector, and this card's pages offer no such path from {src}"
    if matrix.turned and dst in ("L1", "UB", "GM"):
        return f"nothing transposes between {src} and {dst} on this card: transpose with the vector unit or into L0"
    if matrix.layout == "ND" and src == "GM" and card.npu_arch == 3002:
        return "LoadData of fractals is the only way from GM: the source must be NZ (--src-layout NZ)"
    return f"no chain of paths leads from {src} to {dst}: the card has {', '.join(card.path_names())}"


def _candidates(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> Iterator[Chain]:
    ways = {"L1": _to_l1, "L0A": _to_l0, "L0B": _to_l0, "UB": _to_ub, "GM": _to_gm, "BT": _to_table, "FB": _to_table}
    yield from ways[dst](card, src, dst, matrix, dtype)


def _then(heads: Iterator[Chain], *tail: s.Step) -> Iterator[Chain]:
    for head in heads:
        yield Chain((*head.steps, *tail))


def _to_l1(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType, squares: bool = False) -> Iterator[Chain]:
    """NZ of the stored matrix, or of its transpose if it arrives turned."""
    arch = card.npu_arch
    if src == "GM" and matrix.layout == "ND":
        if not matrix.turned and arch != 3002:
            yield Chain((s.ND2NZ_SQUARES if squares else s.ND2NZ,))
        elif matrix.turned and arch == 3510:
            yield Chain((s.DN2NZ,))
    elif src == "GM" and not matrix.turned:
        ways = {3002: (s.NZ_LOAD,), 2201: (s.NZ_BLOCKS, s.NZ_LOAD), 3510: (s.NZ_BLOCKS, s.NZ_LOAD, s.NZ_LOAD_V2)}
        yield from (Chain((step,)) for step in ways[arch])
    elif src == "UB":
        if not matrix.turned and not squares:
            yield Chain((s.UB_L1,))
        if arch == 3002:
            yield from () if matrix.turned else iter((Chain((s.UB_GM_PACK, s.NZ_LOAD)),))
        else:
            for out in (s.UB_GM, s.UB_GM_PAD):
                for chain in _to_l1(card, "GM", dst, matrix, dtype, squares):
                    yield Chain((out, *chain.steps))
    elif src == "L0C" and not matrix.turned:
        yield Chain((s.out_of_l0c(arch, "L1"),))


def _to_l0(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> Iterator[Chain]:
    """L0B holds ZN, which is NZ of the transpose: there a matrix that is not turned is what must be transposed."""
    zz = dst == "L0A" and card.npu_arch != 3510
    turn = matrix.turned != (dst == "L0B")
    plain = Matrix(matrix.rows, matrix.cols, matrix.layout, False)
    if src == "GM" and matrix.layout == "NZ" and not turn:
        yield Chain(((s.GM_TO_L0A_ZZ if zz else s.GM_TO_L0A_NZ) if dst == "L0A" else s.GM_TO_L0B,))
    new = card.npu_arch == 3510
    ways = s.turned(dst, zz) if turn else s.as_it_is(dst, zz)
    for step in (step for step in ways if new or "V2" not in step.name):
        # A square of bytes is two fractals high: L1 must hold whole ones, which ND2NZ can arrange.
        padded = step.squares and dtype.c0 > s.FRACTAL_ROWS
        if dtype.bits == 32 and "Transpose" in step.name:
            continue  # it takes 4-byte elements from ZZ, see below
        if padded and -(-matrix.rows // s.FRACTAL_ROWS) % 2 and not (src in ("GM", "UB") and matrix.layout == "ND"):
            continue
        if src == "L1":
            yield Chain((step,))
        else:
            yield from _then(_to_l1(card, src, "L1", plain, dtype, padded), step)
    if turn and src == "GM" and matrix.layout == "ND" and card.npu_arch != 3002:
        if dtype.bits == 32:
            yield Chain((s.ND2ZZ, s.turned_from_zz(dst, zz)))
        if new:
            yield from (Chain((s.DN2NZ, step)) for step in s.as_it_is(dst, zz))


def _to_ub(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> Iterator[Chain]:
    if src == "GM" and matrix.layout == "ND":
        if not matrix.turned:
            yield from (Chain((step,), flat=True) for step in (s.GM_UB, s.GM_UB_PAD))
        if card.npu_arch == 3510:
            yield Chain((s.GM_UB_TURNED,)) if matrix.turned else Chain((s.GM_UB_NDDMA,), flat=True)
    elif matrix.turned:
        return
    elif src == "GM":
        yield Chain((s.GM_UB_UNPACK,))
    elif src == "UB":
        yield Chain((s.UB_UB,), flat=True)
    elif src == "L1":
        yield Chain((s.L1_UB,))
        yield from (Chain((s.L1_GM, step)) for step in (s.GM_UB, s.GM_UB_PAD))
    elif src == "L0C":
        yield Chain((s.out_of_l0c(card.npu_arch, "UB"),))
        yield from (Chain((s.out_of_l0c(card.npu_arch, "GM"), step)) for step in (s.GM_UB, s.GM_UB_PAD))


def _to_gm(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> Iterator[Chain]:
    if matrix.turned:
        return
    if src == "UB":
        yield from (Chain((step,), flat=True) for step in (s.UB_GM, s.UB_GM_PAD))
    elif src == "L1":
        yield Chain((s.L1_GM,))
        yield from (Chain((s.L1_UB, step)) for step in (s.UB_GM, s.UB_GM_PAD))
    elif src == "L0C":
        yield Chain((s.out_of_l0c(card.npu_arch, "GM"),))
    elif matrix.layout == "ND":
        yield Chain((s.GM_UB, s.UB_GM), flat=True)
        yield Chain((s.GM_UB_PAD, s.UB_GM_PAD), flat=True)


def _to_table(card: Card, src: str, dst: str, matrix: Matrix, dtype: DataType) -> Iterator[Chain]:
    """Tables take a vector as it lies."""
    last = s.L1_BT if dst == "BT" else s.L1_FB
    if matrix.turned or src not in ("GM", "L1"):
        return
    yield Chain((s.GM_PLAIN_L1, last) if src == "GM" else (last,), flat=True)
