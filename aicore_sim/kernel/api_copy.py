"""data_copy and its relatives, as a kernel calls them (spec pyasc.md 6.1)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import bias_table, loop_mode, nd2nz, nd2nz_local, nddma, nz2nd, slices
from aicore_sim.instructions import data_copy as blocks
from aicore_sim.instructions.base import Op, Pipe, ScalarWork
from aicore_sim.instructions.data_copy import DataCopyEnhancedParams, DataCopyParams
from aicore_sim.instructions.fixpipe import DataCopyCO12DstParams
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams
from aicore_sim.instructions.nddma import DEFAULT_CONFIG, NdDmaConfig, NdDmaParams
from aicore_sim.instructions.nz2nd import Nz2NdParamsFull
from aicore_sim.instructions.offer import check_offer
from aicore_sim.instructions.slices import SliceInfo
from aicore_sim.kernel.api_copy_pad import NOP, active_loop, note_unused_strides, refuse_types
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.copy_cores import of_vector_core, operands
from aicore_sim.kernel.cube_registers import copy_from_l0c

__all__ = ["data_copy", "data_copy_l1_to_ub", "nd_dma_dci"]

Builder = Callable[[Any, Any, DataType, str, str, Card], Op | None]


class Slices(NamedTuple):
    """The slice lists of a call, destination first, and how many of their dimensions count."""

    dst: tuple[SliceInfo, ...]
    src: tuple[SliceInfo, ...]
    dim_value: int


@dataclass(frozen=True)
class Form:
    """One form of data_copy: the keyword its parameters may have, its template parameter, and what builds its Op.

    `build(params, value of the template parameter `option`, dtype, src kind, dst kind, card)`.
    """

    keyword: str
    build: Builder
    option: str = ""
    default: Any = None


def _count(count: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    return blocks.build_count(int(count), dtype, src, dst, card)


def _blocks(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    _check_enhanced(option, card)
    return blocks.build(params, dtype, src, dst, card)


def _check_enhanced(option: Any, card: Card) -> None:
    if option is None:
        return
    if not isinstance(option, DataCopyEnhancedParams):
        raise ParameterError("data_copy: DataCopyParams may be followed by DataCopyEnhancedParams", field="enhanced_params",
                             value=type(option).__name__, allowed="DataCopyEnhancedParams")  # fmt: skip
    blocks.check_enhanced(option, card)


def _nd2nz(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    if option and (src, dst) != ("GM", "L1"):
        raise UnsupportedError("data_copy: SmallC0 mode is offered from GM to L1", field="enable_small_c0", value=True,
                               allowed="False", card=card.name)  # fmt: skip
    if (src, dst) == ("GM", "UB"):
        return nd2nz_local.build_to_ub(params, dtype, card)
    if (src, dst) == ("UB", "L1"):
        return nd2nz_local.build_to_l1(params, dtype, card)
    return nd2nz.build_nd(params, dtype, src, dst, card, bool(option))


def _dn2nz(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    return nd2nz.build_dn(params, dtype, src, dst, card, bool(option))


def _nddma(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    if not isinstance(option, NdDmaConfig):
        raise ParameterError(
            "data_copy: config of NdDmaParams is an NdDmaConfig", field="config", value=type(option).__name__
        )
    return nddma.build(params, dtype, src, dst, card, option)


def _nz2nd(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    if (src, dst) != ("UB", "GM"):
        raise UnsupportedError("data_copy: Nz2NdParamsFull goes with copies from UB to GM", field="path",
                               value=f"{src}-{dst}", allowed="UB-GM", card=card.name)  # fmt: skip
    return nz2nd.build(params, dtype, card)


def _slices(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    return slices.build(params.dst, params.src, params.dim_value, dtype, src, dst, card)


FORMS: dict[type, Form] = {
    int: Form("count", _count),
    DataCopyParams: Form("repeat_params", _blocks, "enhanced_params"),
    Nd2NzParams: Form("intri_params", _nd2nz, "enable_small_c0", False),
    Dn2NzParams: Form("intri_params", _dn2nz, "enable_small_c0", False),
    NdDmaParams: Form("params", _nddma, "config", DEFAULT_CONFIG),
    Nz2NdParamsFull: Form("intri_params", _nz2nd),
    Slices: Form("", _slices),
}
_KEYWORDS = tuple(dict.fromkeys(("params", *(form.keyword for form in FORMS.values() if form.keyword))))
_SLICED = ("slice_list1", "slice_list2", "dim_value")
_HINTED = frozenset({Nd2NzParams, Dn2NzParams})
"""Forms whose pages list the L2 hints that they take: normal and disable."""


def data_copy(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """DataCopy: `(dst, src, count)`, `(dst, src, params)` with DataCopyParams, Nd2Nz-, Dn2Nz-, NdDmaParams or
    Nz2NdParamsFull, or `(dst, src, slice_list1, slice_list2, dim_value)`, the destination's slices first.

    Keywords as in pyasc: `count`, `repeat_params` (DataCopyParams), `intri_params` (Nd2NzParams, Dn2NzParams,
    Nz2NdParamsFull), `params` (any struct); DataCopyParams may be followed by `enhanced_params`, NdDmaParams by
    `config=NdDmaConfig(...)`, ND2NZ by `enable_small_c0=True`.

    Raises ParameterError for an argument that no form takes, a field outside its range or tensors of different types,
    UnsupportedError for a form, path or type that the card or this version lacks, AlignmentError and OutOfBoundsError
    for the addresses. Whatever is raised, nothing is moved.
    """
    rec = current()
    here = rec.buffers
    if (dst.kind != "GM" and dst.kind not in here) or (src.kind != "GM" and src.kind not in here):
        found = operands(rec, "data_copy", dst, src)
        if found is None:
            return
        dst, src = found
    if len(args) == 1 and not kwargs:
        params, option = args[0], None
    else:
        params, option = _arguments(args, kwargs)
    kind = type(params)
    if kind is DataCopyCO12DstParams:
        copy_from_l0c(rec, dst, src, params)
        return
    is_nddma = kind is NdDmaParams
    # 0.0 and -0.0 are equal but not the same padding.
    sign = str(params.constant_value) if is_nddma else ""
    loop = None if is_nddma else active_loop(rec, dst, src)
    key = ("data_copy", params, option, sign, dst.dtype, src.dtype, dst.kind, src.kind, loop)
    try:
        op = rec.ops.get(key)
    except TypeError:
        _refuse_struct("data_copy", params)
    if op is None:
        op = _build(params, option, dst, src, rec)
        if op is None:
            rec.session.warn(f"DataCopy {NOP}", rec.line())
            return
        if loop is not None:
            op = loop_mode.looped(op, loop)
        rec.ops[key] = op
    if is_nddma and not nddma.is_aligned(dst.offset):
        rec.session.warn(
            "DataCopy: NDDMA destination is not 32 B aligned; the general rule for UB asks for it", rec.line()
        )
    if kind in _HINTED and src.kind == "GM" and src.l2_hint not in ("", "disable"):
        rec.session.warn(f"DataCopy: {kind.__name__} takes the L2 hints normal and disable, not {src.l2_hint}", rec.line())
    rec.emit(op, dst, src)


def _build(params: Any, option: Any, dst: Any, src: Any, rec: Recorder) -> Op | None:
    card = rec.card
    form = FORMS.get(type(params))
    if form is None:
        if not hasattr(params, "__index__"):
            _refuse_struct("data_copy", params)
        params, form = operator.index(params), FORMS[int]
    if option is not None and not form.option:
        raise ParameterError(
            f"data_copy: {type(params).__name__} takes no further argument", field="arguments", value=option
        )
    if src.dtype is not dst.dtype:
        if (src.kind, dst.kind) == ("L1", "BT") and isinstance(params, (int, DataCopyParams)):
            _check_enhanced(option, card)
            return bias_table.build(params, src.dtype, dst.dtype, card)
        refuse_types("data_copy", dst, src)
    op = form.build(params, form.default if option is None else option, dst.dtype, src.kind, dst.kind, card)
    if op is not None and type(params) is DataCopyParams:
        reach = {field: getattr(params, field) * BLOCK_BYTES for field in ("src_stride", "dst_stride")}
        note_unused_strides(rec, params, reach, dst, src)
    return op


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Parameters and template parameter of a call in any spelling. Raises as `data_copy` says."""
    if (len(args) > 1 and isinstance(args[0], (list, tuple))) or not kwargs.keys().isdisjoint(_SLICED):
        return _sliced(args, kwargs), None
    rest = dict(kwargs)
    names = [name for name in _KEYWORDS if name in rest]
    values = [*args, *(rest.pop(name) for name in names)]
    form = FORMS.get(type(values[0])) if values else None
    if form is not None and form.option in rest:
        values.append(rest.pop(form.option))
    if rest or not 1 <= len(values) <= 2 or len(names) > 1:
        raise ParameterError(
            "data_copy takes (dst, src, count), (dst, src, params[, option]) or"
            " (dst, src, slice_list1, slice_list2, dim_value)",
            field="arguments",
            value=", ".join(rest) or f"{len(values)} arguments",
            allowed=", ".join(_KEYWORDS),
        )
    if form is not None and names and names[0] not in ("params", form.keyword):
        raise ParameterError(
            f"data_copy: {type(values[0]).__name__} goes by the keyword {form.keyword}",
            field=names[0],
            value=type(values[0]).__name__,
            allowed=f"params, {form.keyword}",
        )
    return values[0], values[1] if len(values) == 2 else None


def _sliced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slices:
    """The sliced form; dim_value is 1 unless given, as in C++. What the lists hold is checked when the Op is built."""
    given: dict[str, Any] = dict(zip(_SLICED, args, strict=False)) | kwargs
    given.setdefault("dim_value", 1)
    if len(given) != len(_SLICED) or len(args) + len(kwargs) > len(_SLICED) or "slice_list2" not in given:
        raise ParameterError("data_copy of slices takes (dst, src, slice_list1, slice_list2, dim_value)", field="arguments",
                             value=", ".join(kwargs) or f"{len(args)} arguments", allowed=", ".join(_SLICED))  # fmt: skip
    for name in _SLICED[:2]:
        if not isinstance(given[name], (list, tuple)):
            raise ParameterError(f"data_copy: {name} is a list of SliceInfo", field=name, value=type(given[name]).__name__,
                                 allowed="a list of SliceInfo")  # fmt: skip
    return Slices(tuple(given["slice_list1"]), tuple(given["slice_list2"]), given["dim_value"])


# ---- L1 to UB ---------------------------------------------------------------------------------------------------------
def data_copy_l1_to_ub(dst: Any, src: Any, params: Any, sub_block_id: int = 0) -> None:
    """DataCopyL1ToUB: `(dst, src, count)` or `(dst, src, DataCopyParams)`, from the L1 of a cube core into the UB of the
    vector core `sub_block_id` of its group, at the address of `dst`.

    Issued by the cube core on MTE1, in mix kernels 1:2 of 950 only; the vector core learns of it by a cross-core flag.
    Raises as `data_copy`.
    """
    rec = current()
    if not rec.on_aic:
        return
    key = ("data_copy_l1_to_ub", params, dst.dtype, src.dtype, dst.kind, src.kind)
    op = rec.ops.get(key)
    if op is None:
        blocks.route("DataCopyL1ToUB", src.kind, dst.kind, rec.card)
        if (src.kind, dst.kind) != ("L1", "UB"):
            raise UnsupportedError("data_copy_l1_to_ub copies from L1 to UB", field="path", value=f"{src.kind}-{dst.kind}",
                                   allowed="L1-UB; data_copy for other paths", card=rec.card.name)  # fmt: skip
        if src.dtype is not dst.dtype:
            refuse_types("data_copy_l1_to_ub", dst, src)
        if isinstance(params, DataCopyParams):
            op = blocks.build(params, dst.dtype, src.kind, dst.kind, rec.card)
        elif hasattr(params, "__index__"):
            op = blocks.build_count(operator.index(params), dst.dtype, src.kind, dst.kind, rec.card)
        else:
            raise ParameterError("data_copy_l1_to_ub takes (dst, src, count) or (dst, src, params)", field="params",
                                 value=type(params).__name__, allowed="int, DataCopyParams")  # fmt: skip
        if op is None:
            rec.session.warn(f"DataCopyL1ToUB {NOP}", rec.line())
            return
        rec.ops[key] = op
    rec.emit(op, of_vector_core(rec, "data_copy_l1_to_ub", dst, sub_block_id), src)


# ---- NDDMA cache ----------------------------------------------------------------------------------------------------
def nd_dma_dci() -> None:
    """NdDmaDci: invalidate this vector core's whole NDDMA cache, in order with its MTE2 queue (spec coherence.md 6).

    Raises UnsupportedError on cards without NDDMA.
    """
    rec = current()
    op = rec.ops.get("nd_dma_dci")
    if op is None:
        check_offer(rec.card, "NdDmaDci", "", None)
        op = rec.ops["nd_dma_dci"] = Op("NdDmaDci", Pipe.MTE2, ScalarWork("nddma_dci"), through="nddma-invalidate")
    if rec.on_aiv:
        rec.emit(op)


# ---- refusals -------------------------------------------------------------------------------------------------------
def _refuse_struct(api: str, params: Any) -> NoReturn:
    raise ParameterError(
        f"{api}: no form takes this argument",
        field="params",
        value=type(params).__name__,
        allowed=", ".join(kind.__name__ for kind in (*FORMS, DataCopyCO12DstParams)),
    )
