"""What is to be moved: the question of `estimate`, and its normal form.

A matrix of `rows` x `cols` lies at the source in `layout`; what arrives is this matrix, or with `transpose` its transpose,
in the layout that is natural to the destination (spec hardware.md 2, api_semantics.md 1.5): L1 NZ, L0A ZZ (NZ on 3510), L0B
ZN, GM and UB ND. So for a product C = A x B the source holds A [M,K] or B [K,N], with `transpose` A^T [K,M] or B^T [N,K].
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError

SOURCE_LAYOUTS = ("ND", "DN", "NZ", "ZN")
_HELD = {"GM": SOURCE_LAYOUTS, "UB": ("ND", "DN"), "L1": ("NZ", "ZN"), "L0C": ("L0C",)}
"""Layouts that a source may have, its natural one first."""


@dataclass(frozen=True)
class Request:
    """A question: from where, to where, what. `src` and `dst` are TPositions, `layout` "" is the source's natural one."""

    src: str
    dst: str
    rows: int
    cols: int
    dtype: DataType
    layout: str = ""
    transpose: bool = False
    blocks: int = 1
    warm: bool = False

    def __post_init__(self) -> None:
        for field in ("rows", "cols", "blocks"):
            if getattr(self, field) < 1:
                raise ParameterError("must be at least 1", field=field, value=getattr(self, field), allowed=">= 1")
        if self.dtype.bits < 8:
            raise ParameterError("estimates are made for elements of whole bytes", field="dtype", value=self.dtype.name,
                                 allowed="types of 8 bits and more; `--api` takes the others")  # fmt: skip
        if self.layout and self.layout not in SOURCE_LAYOUTS:
            raise ParameterError("unknown layout of a source", field="src-layout", value=self.layout,
                                 allowed=", ".join(SOURCE_LAYOUTS))  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix without padding."""
        return self.dtype.nbytes(self.rows * self.cols)


@dataclass(frozen=True)
class Matrix:
    """A request in normal form: the stored matrix of `rows` x `cols` is ND, NZ or L0C, and arrives `turned` or not.

    A matrix by columns is its transpose by rows, and ZN of a matrix is NZ of its transpose.
    """

    rows: int
    cols: int
    layout: str
    turned: bool


def normal(request: Request, src: str, card: Card, dst: str) -> Matrix | str:
    """The matrix as stored in buffer `src`; a sentence where this buffer holds no such layout."""
    held = _HELD.get(src, ("ND",))
    layout = request.layout or natural_source(card, src, dst)
    if layout not in held:
        return f"{src} does not hold {layout}: {' or '.join(held)} as a source"
    if layout in ("DN", "ZN"):
        return Matrix(request.cols, request.rows, "ND" if layout == "DN" else "NZ", not request.transpose)
    return Matrix(request.rows, request.cols, layout, request.transpose)


def natural_source(card: Card, src: str, dst: str) -> str:
    """Layout of a source unless the request names one: Atlas 200I/500 A2 reads fractals only into its cube buffers."""
    if src == "GM" and dst in ("L1", "L0A", "L0B") and card.npu_arch == 3002:
        return "NZ"
    return _HELD.get(src, ("ND",))[0]


def natural(card: Card, buffer: str) -> str:
    """Layout in which a destination is filled."""
    if buffer == "L0A":
        return "NZ" if card.npu_arch == 3510 else "ZZ"
    return {"L1": "NZ", "L0B": "ZN"}.get(buffer, "ND")
