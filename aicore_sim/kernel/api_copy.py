"""data_copy and its relatives, as a kernel calls them (spec pyasc.md 6.1)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import data_copy as blocks
from aicore_sim.instructions import data_copy_pad as pads
from aicore_sim.instructions import nd2nz, nddma
from aicore_sim.instructions.base import Op, Pipe, ScalarWork
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.data_copy_pad import (
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    PadRegister,
)
from aicore_sim.instructions.fixpipe import DataCopyCO12DstParams
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams
from aicore_sim.instructions.nddma import DEFAULT_CONFIG, NdDmaConfig, NdDmaParams
from aicore_sim.instructions.offer import check_offer
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.cube_registers import copy_from_l0c
from aicore_sim.kernel.enums import PaddingMode, TPosition
from aicore_sim.kernel.program import Kind

__all__ = ["data_copy", "data_copy_pad", "nd_dma_dci", "set_pad_value"]

Builder = Callable[[Any, Any, DataType, str, str, Card], Op | None]
_NOP = "moves nothing: a count or length is 0, or less than one block"


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
    return blocks.build(params, dtype, src, dst, card)


def _nd2nz(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    return nd2nz.build_nd(params, dtype, src, dst, card, bool(option))


def _dn2nz(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    return nd2nz.build_dn(params, dtype, src, dst, card, bool(option))


def _nddma(params: Any, option: Any, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    if not isinstance(option, NdDmaConfig):
        raise ParameterError(
            "data_copy: config of NdDmaParams is an NdDmaConfig", field="config", value=type(option).__name__
        )
    return nddma.build(params, dtype, src, dst, card, option)


FORMS: dict[type, Form] = {
    int: Form("count", _count),
    DataCopyParams: Form("repeat_params", _blocks),
    Nd2NzParams: Form("intri_params", _nd2nz, "enable_small_c0", False),
    Dn2NzParams: Form("intri_params", _dn2nz, "enable_small_c0", False),
    NdDmaParams: Form("params", _nddma, "config", DEFAULT_CONFIG),
}
_KEYWORDS = tuple(dict.fromkeys(("params", *(form.keyword for form in FORMS.values()))))
# Forms of the API that this version does not model, by struct or keyword.
_LATER = (
    "DataCopyEnhancedParams",
    "Nz2NdParamsFull",
    "SliceInfo",
    "enhanced_params",
    "slice_list1",
    "slice_list2",
    "dim_value",
    "nd2nz_params",
)


def data_copy(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """DataCopy: `(dst, src, count)`, or `(dst, src, params)` with DataCopyParams, Nd2Nz-, Dn2Nz- or NdDmaParams.

    Keywords as in pyasc: `count`, `repeat_params` (DataCopyParams), `intri_params` (Nd2NzParams, Dn2NzParams), `params`
    (any struct); NdDmaParams may be followed by `config=NdDmaConfig(...)`, ND2NZ by `enable_small_c0=True`.

    Raises ParameterError for an argument that no form takes, a field outside its range or tensors of different types,
    UnsupportedError for a form, path or type that the card or this version lacks, AlignmentError and OutOfBoundsError
    for the addresses. Whatever is raised, nothing is moved.
    """
    rec = current()
    here = rec.buffers
    if (dst.kind != "GM" and dst.kind not in here) or (src.kind != "GM" and src.kind not in here):
        _elsewhere(rec, "data_copy", dst, src)
        return
    if len(args) == 1 and not kwargs:
        params, option = args[0], None
    else:
        params, option = _arguments(args, kwargs)
    if type(params) is DataCopyCO12DstParams:
        copy_from_l0c(rec, dst, src, params)
        return
    is_nddma = type(params) is NdDmaParams
    # 0.0 and -0.0 are equal but not the same padding.
    sign = str(params.constant_value) if is_nddma else ""
    key = ("data_copy", params, option, sign, dst.dtype.name, src.dtype.name, dst.kind, src.kind)
    try:
        op = rec.ops.get(key)
    except TypeError:
        _refuse_struct("data_copy", params)
    if op is None:
        op = _build(params, option, dst, src, rec.card)
        if op is None:
            rec.session.warn(f"DataCopy {_NOP}", rec.line())
            return
        rec.ops[key] = op
    if is_nddma and not nddma.is_aligned(dst.offset):
        rec.session.warn(
            "DataCopy: NDDMA destination is not 32 B aligned; the general rule for UB asks for it", rec.line()
        )
    rec.emit(op, dst, src)


def _build(params: Any, option: Any, dst: Any, src: Any, card: Card) -> Op | None:
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
        _refuse_types("data_copy", dst, src)
    return form.build(params, form.default if option is None else option, dst.dtype, src.kind, dst.kind, card)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Parameters and template parameter of a call in any spelling. Raises as `data_copy` says."""
    for given in (*kwargs, *(type(arg).__name__ for arg in args)):
        if given in _LATER:
            raise UnsupportedError(f"data_copy: this form ({given}) is not in this version", field=given)
    rest = dict(kwargs)
    names = [name for name in _KEYWORDS if name in rest]
    values = [*args, *(rest.pop(name) for name in names)]
    form = FORMS.get(type(values[0])) if values else None
    if form is not None and form.option in rest:
        values.append(rest.pop(form.option))
    if rest or not 1 <= len(values) <= 2 or len(names) > 1:
        if len(args) == 3:
            raise UnsupportedError(
                "data_copy: the sliced form is not in this version", field="arguments", value=len(args)
            )
        raise ParameterError(
            "data_copy takes (dst, src, count) or (dst, src, params[, option])",
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


# ---- data_copy_pad --------------------------------------------------------------------------------------------------
_PAD_OF: dict[type, type[DataCopyPadExtParams | DataCopyPadParams]] = {
    DataCopyExtParams: DataCopyPadExtParams,
    DataCopyParams: DataCopyPadParams,
}


def data_copy_pad(
    dst: Any, src: Any, data_copy_params: Any, pad_params: Any = None, *, mode: PaddingMode | None = None
) -> None:
    """DataCopyPad: GM -> UB `(dst, src, data_copy_params, pad_params)`, UB -> GM `(dst, src, data_copy_params)`.

    DataCopyExtParams goes with DataCopyPadExtParams, DataCopyParams (block_len in bytes) with DataCopyPadParams. `mode`
    is a template parameter of 950. An is_pad call leaves its value in the register of `set_pad_value`. Raises as
    `data_copy`.
    """
    rec = current()
    here = rec.buffers
    if (dst.kind != "GM" and dst.kind not in here) or (src.kind != "GM" and src.kind not in here):
        _elsewhere(rec, "data_copy_pad", dst, src)
        return
    register: PadRegister | None = rec.state.get("pad_value")
    # 0.0 and -0.0 are equal but not the same padding.
    sign = str(getattr(pad_params, "padding_value", ""))
    types = (dst.dtype.name, src.dtype.name)
    key = ("data_copy_pad", data_copy_params, pad_params, sign, register, mode, types, dst.kind, src.kind)
    op = rec.ops.get(key)
    if op is None:
        op = _build_pad(dst, src, data_copy_params, pad_params, register, mode, rec.card)
        if op is None:
            rec.session.warn(f"DataCopyPad {_NOP}", rec.line())
            return
        rec.ops[key] = op
    rec.emit(op, dst, src)
    if pad_params is not None and pad_params.is_pad:
        rec.state["pad_value"] = pads.left_register(pad_params)


def _build_pad(
    dst: Any, src: Any, params: Any, pad: Any, register: PadRegister | None, mode: PaddingMode | None, card: Card
) -> Op | None:
    partner = _PAD_OF.get(type(params))
    if partner is None:
        _refuse_struct("data_copy_pad", params)
    if src.dtype is not dst.dtype:
        _refuse_types("data_copy_pad", dst, src)
    if pad is not None and type(pad).__name__ == "Nd2NzParams":
        raise UnsupportedError("data_copy_pad: UB to L1 (nd2nz_params) is not in this version", field="nd2nz_params")
    if mode is not None and card.npu_arch != blocks.ARCH_950:
        raise UnsupportedError(
            "data_copy_pad: this card has no PaddingMode", field="mode", value=int(mode), card=card.name
        )
    chosen = int(PaddingMode.Normal if mode is None else mode)
    if dst.kind == "GM":
        if pad is not None:
            raise ParameterError(
                "data_copy_pad: UB to GM takes no padding", field="pad_params", value=type(pad).__name__
            )
        return pads.build_out(params, chosen, dst.dtype, src.kind, dst.kind, card)
    if not isinstance(pad, partner):
        raise ParameterError(
            f"data_copy_pad: GM to UB with {type(params).__name__} takes a {partner.__name__}",
            field="pad_params",
            value=type(pad).__name__,
            allowed=partner.__name__,
        )
    return pads.build_in(params, pad, register, chosen, dst.dtype, src.kind, dst.kind, card)


def set_pad_value(padding_value: float, pos: TPosition = TPosition.MAX) -> None:
    """SetPadValue: what later data_copy_pad calls without is_pad put into padding and dummy bytes.

    A register of the vector core, kept until set again (spec api_semantics.md 9.2). Raises UnsupportedError on cards
    without it.
    """
    rec = current()
    if not rec.on_aiv:
        return
    check_offer(rec.card, "SetPadValue", "", None)
    rec.state["pad_value"] = pads.set_register(padding_value)
    rec.control(Kind.MODE, Pipe.S, ("pad_value", padding_value))


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
def _elsewhere(rec: Recorder, api: str, dst: Any, src: Any) -> None:
    """A copy whose buffer is not on this core: the other kind of core of a mix kernel has it (spec 7.5, 10.1).

    Raises ParameterError for a tensor without memory, UnsupportedError for copies that join two cores. A kernel without
    cores of the other kind warns, for the copy takes place nowhere.
    """
    for field, tensor in (("dst", dst), ("src", src)):
        if not tensor.kind:
            raise ParameterError(f"{api}: the tensor has no memory yet", field=field, value="unbound LocalTensor")
    kinds = {dst.kind, src.kind}
    if "UB" in kinds and not kinds & {"GM"} and kinds != {"UB"}:
        known = "copies between UB and L1 of different cores are not in this version"
        raise UnsupportedError(
            f"{api}: {known if 'L1' in kinds else 'no path joins these buffers'}",
            field="path",
            value=f"{src.kind}-{dst.kind}",
            card=rec.card.name,
        )
    if not rec.mix:
        away = dst.kind if dst.kind != "GM" and dst.kind not in rec.buffers else src.kind
        rec.session.warn(f"{api}: moves nothing, the cores of this kernel have no {away}", rec.line(3))


def _refuse_types(api: str, dst: Any, src: Any) -> NoReturn:
    if dst.kind == "BT":
        raise UnsupportedError(
            f"{api}: conversion on the way to BT is not in this version",
            field="dtype",
            value=f"{src.dtype} to {dst.dtype}",
            allowed="equal types",
        )
    raise ParameterError(
        f"{api}: source and destination have different element types",
        field="dtype",
        value=f"{src.dtype} to {dst.dtype}",
        allowed="equal types (reinterpret_cast)",
    )


def _refuse_struct(api: str, params: Any) -> NoReturn:
    name = type(params).__name__
    if name in _LATER:
        raise UnsupportedError(f"{api}: the form with {name} is not in this version", field="params", value=name)
    raise ParameterError(
        f"{api}: no form takes this argument",
        field="params",
        value=name,
        allowed=", ".join(kind.__name__ for kind in FORMS),
    )
