"""Copies of the Tensor API: te.load_data, te.copy and the atoms that carry them (spec api_semantics.md 7, Atlas 350).

C++ template arguments are arguments here: `CopyAtom<CopyTraits<CopyL12L0, LoadDataTraitDefault>>{}` is
`CopyAtom(CopyTraits(CopyL12L0, LoadDataTraitDefault))`; operations and traits may be classes or objects. All spellings end
in the same ordinary LoadData and DataCopy instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import data_copy, load_data_2d_v2, load_data_3d, nd2nz
from aicore_sim.instructions.base import Op, cached_hash
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams
from aicore_sim.instructions.offer import check_offer
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.te.frames import kind_of
from aicore_sim.kernel.te.gm import gm_steps
from aicore_sim.kernel.te.layout import Layout, make_coord
from aicore_sim.kernel.te.load import Img2ColParams, Step, img2col_step, is_transposed, load_steps
from aicore_sim.kernel.te.tensor import Tensor


# ---- operations and traits ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CopyL12L0:
    """L1 to L0A or L0B, as the destination says."""


@dataclass(frozen=True)
class CopyL12L0A:
    """L1 to L0A."""


@dataclass(frozen=True)
class CopyL12L0B:
    """L1 to L0B."""


@dataclass(frozen=True)
class CopyGM2L1:
    """GM to L1."""


_PATHS: dict[type, tuple[tuple[str, str], ...]] = {
    CopyL12L0: (("L1", "L0A"), ("L1", "L0B")),
    CopyL12L0A: (("L1", "L0A"),),
    CopyL12L0B: (("L1", "L0B"),),
    CopyGM2L1: (("GM", "L1"),),
}
@dataclass(frozen=True)
class LoadDataTrait:
    """`transposed` is computed from the layouts; setting it changes nothing."""

    transposed: bool = False


class LoadDataTraitDefault(LoadDataTrait):
    """The default trait of loads into L0."""


class CopyL12L0ATraitDefault(LoadDataTrait):
    """The default trait of CopyL12L0A."""


class CopyL12L0BTraitDefault(LoadDataTrait):
    """The default trait of CopyL12L0B."""


@dataclass(frozen=True)
class DataCopyTrait:
    """The trait of copies from GM; it has no fields."""


class DataCopyTraitDefault(DataCopyTrait):
    """The default trait of copies from GM."""


class CopyGM2L1TraitDefault(DataCopyTrait):
    """The default trait of CopyGM2L1."""


def _made(given: Any) -> Any:
    """An operation or trait given as class or object, as object."""
    return given() if isinstance(given, type) else given


@dataclass(frozen=True)
class CopyTraits:
    """CopyTraits<operation, trait>: what to copy and how; `bound` is what `with_` added.

    Raises UnsupportedError for an operation that this version lacks.
    """

    operation: Any
    trait: Any = None
    bound: Img2ColParams | None = None

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        operation = _made(self.operation)
        if type(operation) not in _PATHS:
            raise UnsupportedError("this copy is not in this version", field="operation", value=str(operation),
                                   allowed=", ".join(kind.__name__ for kind in _PATHS))  # fmt: skip
        trait = _made(self.trait)
        if trait is None:
            trait = DataCopyTraitDefault() if type(operation) is CopyGM2L1 else LoadDataTraitDefault()
        if not isinstance(trait, LoadDataTrait | DataCopyTrait):
            raise ParameterError("no trait of a copy", field="trait", value=type(trait).__name__,
                                 allowed="LoadDataTrait, LoadDataTraitDefault, DataCopyTraitDefault ...")  # fmt: skip
        object.__setattr__(self, "operation", operation)
        object.__setattr__(self, "trait", trait)


@dataclass(frozen=True)
class CopyAtom:
    """CopyAtom<CopyTraits<...>>: a copy ready to be called. Raises ParameterError for anything but CopyTraits."""

    traits: CopyTraits

    def __post_init__(self) -> None:
        if not isinstance(self.traits, CopyTraits):
            raise ParameterError("CopyAtom takes CopyTraits", field="traits", value=type(self.traits).__name__,
                                 allowed="CopyTraits(operation, trait), or make_copy(operation, trait)")  # fmt: skip

    def with_(self, params: Img2ColParams) -> CopyAtom:
        """with(Img2ColParams): the copy that unfolds a feature map into L0A. Raises ParameterError for other copies."""
        if type(self.traits.operation) not in (CopyL12L0, CopyL12L0A) or not isinstance(params, Img2ColParams):
            raise ParameterError("with_ binds Img2ColParams to CopyL12L0A", field="params",
                                 value=f"{type(params).__name__} to {type(self.traits.operation).__name__}",
                                 allowed="Img2ColParams to CopyL12L0A")  # fmt: skip
        return CopyAtom(CopyTraits(self.traits.operation, self.traits.trait, params))

    def call(self, dst: Tensor, src: Tensor, coord: Any = None) -> None:
        """Call(dst, src): as `copy`."""
        _run(self.traits, dst, src, coord)


def make_copy(operation: Any, trait: Any = None) -> CopyAtom:
    """MakeCopy(operation, trait): the same as CopyAtom(CopyTraits(operation, trait)). Raises as CopyTraits."""
    return CopyAtom(CopyTraits(operation, trait))


def copy(atom: CopyAtom, dst: Tensor, src: Tensor, coord: Any = None) -> None:
    """Copy(atom, dst, src): element (r, c) of the source to element (r, c) of the destination, by their layouts.

    From GM the extent is the source's, into L0 the destination's. `coord` is a (row, column) of the source to start from,
    for copies into L0. Does nothing on a vector core. Raises UnsupportedError on a card without the Tensor API and for an
    element type, ParameterError for layouts without a route and for fields out of range, AlignmentError and
    OutOfBoundsError for addresses. Whatever is raised, nothing is moved.
    """
    if not isinstance(atom, CopyAtom):
        raise ParameterError("copy takes a CopyAtom first", field="atom", value=type(atom).__name__,
                             allowed="make_copy(CopyL12L0A(), trait)")  # fmt: skip
    _run(atom.traits, dst, src, coord)


def load_data(dst: Tensor, src: Tensor, coord: Any = None, trait: Any = None) -> None:
    """LoadData(dst, src[, coord]): L1 to L0A or L0B, transposed where the layouts ask for it. Raises as `copy`."""
    _run(_LOAD if trait is None else CopyTraits(CopyL12L0, trait), dst, src, coord)


_LOAD = CopyTraits(CopyL12L0)


# ---- the call -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Plan:
    """A copy between tensors of these layouts: instructions with their starts in elements, and what to warn of."""

    steps: tuple[tuple[Op, int, int], ...]
    warnings: tuple[str, ...]


def _run(traits: CopyTraits, dst: Tensor, src: Tensor, coord: Any) -> None:
    rec = current()
    for field, tensor in (("dst", dst), ("src", src)):
        if not isinstance(tensor, Tensor):
            raise ParameterError("Copy: operands are tensors of the Tensor API", field=field,
                                 value=type(tensor).__name__, allowed="make_tensor(pointer, layout)")  # fmt: skip
    if rec.card.npu_arch == data_copy.ARCH_950 and not rec.on_aic:
        return
    if coord is not None:
        coord = make_coord(*coord)
    sign = str(traits.bound.pad_value) if traits.bound is not None else ""  # 0.0 and -0.0 are equal but not one padding
    to, start = dst.data.memory, src.data.memory
    key = (traits, sign, coord, src.layout, dst.layout, start.kind, to.kind, start.dtype, to.dtype)
    plans: dict[Any, _Plan] = rec.state.setdefault("te", {})
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = _plan(rec, traits, dst, src, coord)
    if plan.warnings or not plan.steps:
        line = rec.line()
        for text in plan.warnings:
            rec.session.warn(f"Copy: {text}", line)
    calls = [(op, to[first] if first else to, start[where] if where else start) for op, first, where in plan.steps]
    if len(calls) > 1:
        # What raises comes first: a copy is recorded whole or not at all.
        calls.sort(key=lambda call: _legal(rec, *call))
    for call in calls:
        rec.emit(*call)


def _legal(rec: Recorder, op: Op, dst: Any, src: Any) -> bool:
    """Whether `emit` will take these operands."""
    for operand, (lo, hi, align) in zip((dst, src), op.limits, strict=True):
        if operand.offset % align or operand.offset + lo < 0 or operand.buffer is None:
            return False
        slack = operand.buffer.slack if rec.session.slack_is_warning and operand.kind == "GM" else 0
        if operand.offset + hi > operand.buffer.size + slack:
            return False
        if rec.session.strict and operand.size is not None and hi * 8 > operand.size * operand.dtype.bits:
            return False
    return True


def _plan(rec: Recorder, traits: CopyTraits, dst: Tensor, src: Tensor, coord: Any) -> _Plan:
    """Raises as `copy` says for everything but addresses."""
    card = rec.card
    source, target = src.location.value, dst.location.value
    variant = f"Tensor API, {source} to {target}"
    paths = _PATHS[type(traits.operation)]
    check_offer(card, "Copy", f"Tensor API, {paths[0][0]} to {paths[0][1]}", None)
    if (source, target) not in paths:
        raise UnsupportedError(f"{type(traits.operation).__name__} does not copy from {source} to {target}",
                               field="path", value=f"{source}-{target}",
                               allowed=", ".join("-".join(path) for path in paths), card=card.name)  # fmt: skip
    if src.dtype is not dst.dtype:
        raise ParameterError("Copy: source and destination have one element type", field="dtype",
                             value=f"{src.dtype.name} -> {dst.dtype.name}", card=card.name)  # fmt: skip
    check_offer(card, "Copy", variant, dst.dtype)
    warnings: list[str] = []
    steps = _steps(traits, dst.layout, src.layout, dst.dtype, target, coord, card, warnings)
    made = []
    for step in steps:
        op = _op(rec, step.params, dst.dtype, source, target)
        if op is None:
            warnings.append("an extension of 0 moves nothing")
        else:
            made.append((op, step.dst, step.src))
    return _Plan(tuple(made), tuple(warnings))


def _steps(traits: CopyTraits, dst: Layout, src: Layout, dtype: DataType, target: str, coord: Any, card: Card,
           warnings: list[str]) -> list[Step]:  # fmt: skip
    if target == "L1" or traits.bound is not None:
        if coord is not None:
            raise ParameterError("Copy: this copy takes no coordinate", field="coord", value=str(coord),
                                 allowed="a slice of the source", card=card.name)  # fmt: skip
        if traits.bound is None:
            return gm_steps(dst, src, dtype, card, warnings)
        if target != "L0A":
            raise ParameterError("Copy: img2col goes to L0A", field="dst", value=target, allowed="L0A", card=card.name)
        return [img2col_step(dst, src, dtype, traits.bound, card, warnings)]
    steps = load_steps(dst, src, dtype, target, coord, card, warnings)
    if getattr(traits.trait, "transposed", False) and not is_transposed(dst, src, dtype):
        kinds = f"{kind_of(src, dtype)} to {kind_of(dst, dtype)}"
        warnings.append(f"trait.transposed is ignored: {kinds} does not transpose")
    return steps


# The instructions move bytes: the API lists of the basic calls name fewer types of a width than those of the Tensor API.
_LOADED = {4: DataType("fp4x2_e2m1"), 8: DataType("int8"), 16: DataType("float16"), 32: DataType("float32")}
_COPIED = {
    4: DataType("int8"),
    8: DataType("int8"),
    16: DataType("float16"),
    32: DataType("float32"),
    64: DataType("float32"),
}


def _op(rec: Recorder, params: Any, dtype: DataType, source: str, target: str) -> Op | None:
    """The Op of one instruction, shared by all cores; None where it moves nothing."""
    if isinstance(params, LoadData3DParamsV2):
        carrier = dtype  # of the element: it encodes the padding value
    else:
        carrier = (_COPIED if source == "GM" else _LOADED)[dtype.bits]
    sign = str(params.pad_value) if isinstance(params, LoadData3DParamsV2) else ""
    key = ("te", params, sign, carrier, source, target)
    op = rec.ops.get(key)
    if op is None:
        op = _build(params, carrier, source, target, rec.card)
        if op is not None:
            rec.ops[key] = op
    return op


def _build(params: Any, dtype: DataType, source: str, target: str, card: Card) -> Op | None:
    if isinstance(params, DataCopyParams):
        return data_copy.build(params, dtype, source, target, card)
    if isinstance(params, Nd2NzParams):
        return nd2nz.build_nd(params, dtype, source, target, card)
    if isinstance(params, Dn2NzParams):
        return nd2nz.build_dn(params, dtype, source, target, card)
    if isinstance(params, LoadData3DParamsV2):
        return load_data_3d.build(params, dtype, source, target, card)
    return load_data_2d_v2.build(params, dtype, source, target, card)
