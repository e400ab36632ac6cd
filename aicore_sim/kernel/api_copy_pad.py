"""data_copy_pad, its register, and loop mode, as a kernel calls them (spec pyasc.md 6.1, api_semantics.md 9.2 to 9.5)."""

from __future__ import annotations

from typing import Any, NoReturn

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import data_copy as blocks
from aicore_sim.instructions import data_copy_pad as pads
from aicore_sim.instructions import loop_mode, pad_to_l1
from aicore_sim.instructions.base import Op, Pipe
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.data_copy_pad import (
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    PadRegister,
)
from aicore_sim.instructions.loop_mode import LoopModeParams
from aicore_sim.instructions.nd2nz import Nd2NzParams
from aicore_sim.instructions.offer import check_offer
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.copy_cores import operands
from aicore_sim.kernel.enums import DataCopyMVType, PaddingMode, TPosition
from aicore_sim.kernel.program import Kind

__all__ = ["data_copy_pad", "reset_loop_mode_para", "set_loop_mode_para", "set_pad_value"]

NOP = "moves nothing: a count or length is 0, or less than one block"
_PAD_OF: dict[type, type[DataCopyPadExtParams | DataCopyPadParams]] = {
    DataCopyExtParams: DataCopyPadExtParams,
    DataCopyParams: DataCopyPadParams,
}
_WAY = {DataCopyMVType.OUT_TO_UB: ("GM", "UB"), DataCopyMVType.UB_TO_OUT: ("UB", "GM")}


def data_copy_pad(
    dst: Any, src: Any, data_copy_params: Any, pad_params: Any = None, *, nd2nz_params: Nd2NzParams | None = None,
    mode: PaddingMode | None = None,
) -> None:  # fmt: skip
    """DataCopyPad: GM -> UB (950: or L1) `(dst, src, data_copy_params, pad_params)`, UB -> GM `(dst, src,
    data_copy_params)`, UB -> L1 of 950 `(dst, src, data_copy_params, nd2nz_params)`.

    DataCopyExtParams goes with DataCopyPadExtParams, DataCopyParams (block_len in bytes) with DataCopyPadParams and
    Nd2NzParams. `mode` is a template parameter of 950. An is_pad call leaves its value in the register of
    `set_pad_value`. Raises as `data_copy`.
    """
    rec = current()
    here = rec.buffers
    if (dst.kind != "GM" and dst.kind not in here) or (src.kind != "GM" and src.kind not in here):
        found = operands(rec, "data_copy_pad", dst, src)
        if found is None:
            return
        dst, src = found
    if nd2nz_params is not None:
        if pad_params is not None:
            raise ParameterError("data_copy_pad takes pad_params or nd2nz_params", field="nd2nz_params", value="both")
        pad_params = nd2nz_params
    register: PadRegister | None = rec.state.get("pad_value")
    loop = active_loop(rec, dst, src)
    # 0.0 and -0.0 are equal but not the same padding.
    sign = str(getattr(pad_params, "padding_value", ""))
    key = ("data_copy_pad", data_copy_params, pad_params, sign, register, mode, dst.dtype, src.dtype, dst.kind, src.kind, loop)
    op = rec.ops.get(key)
    if op is None:
        op = _build_pad(dst, src, data_copy_params, pad_params, register, mode, rec)
        if op is None:
            rec.session.warn(f"DataCopyPad {NOP}", rec.line())
            return
        if loop is not None:
            op = loop_mode.looped(op, loop)
        rec.ops[key] = op
    rec.emit(op, dst, src)
    if pad_params is not None and type(pad_params) is not Nd2NzParams and pad_params.is_pad:
        rec.state["pad_value"] = pads.left_register(pad_params, rec.card)


def _build_pad(
    dst: Any, src: Any, params: Any, pad: Any, register: PadRegister | None, mode: PaddingMode | None, rec: Recorder
) -> Op | None:
    card = rec.card
    partner = _PAD_OF.get(type(params))
    if partner is None:
        raise ParameterError(
            "data_copy_pad: no form takes this argument",
            field="params",
            value=type(params).__name__,
            allowed=", ".join(kind.__name__ for kind in _PAD_OF),
        )
    if src.dtype is not dst.dtype:
        refuse_types("data_copy_pad", dst, src)
    if mode is not None and card.npu_arch != blocks.ARCH_950:
        raise UnsupportedError(
            "data_copy_pad: this card has no PaddingMode: leave mode out", field="mode", value=int(mode), card=card.name,
            allowed="None",
        )
    chosen = int(PaddingMode.Normal if mode is None else mode)
    if (src.kind, dst.kind) == ("UB", "L1"):
        if not isinstance(params, DataCopyParams) or not isinstance(pad, Nd2NzParams):
            raise ParameterError(
                "data_copy_pad: UB to L1 takes DataCopyParams and Nd2NzParams",
                field="nd2nz_params",
                value=f"{type(params).__name__}, {type(pad).__name__}",
                allowed="DataCopyParams, Nd2NzParams",
            )
        return pad_to_l1.build(params, pad, dst.dtype, card)
    if dst.kind == "GM":
        if pad is not None:
            raise ParameterError(
                "data_copy_pad: UB to GM takes no padding", field="pad_params", value=type(pad).__name__
            )
        op = pads.build_out(params, chosen, dst.dtype, src.kind, dst.kind, card)
    elif isinstance(pad, partner):
        op = pads.build_in(params, pad, register, chosen, dst.dtype, src.kind, dst.kind, card)
    else:
        raise ParameterError(
            f"data_copy_pad: GM to {dst.kind} with {type(params).__name__} takes a {partner.__name__}",
            field="pad_params",
            value=type(pad).__name__,
            allowed=partner.__name__,
        )
    if op is not None:
        note_unused_strides(rec, params, pads.block_reach(params, src.kind), dst, src)
    return op


def note_unused_strides(rec: Recorder, params: Any, reach: dict[str, int], dst: Any, src: Any) -> None:
    """Warn of a stride past its tensor in a copy of one block, which does not use it (spec pitfalls.md P08).

    `reach` gives the bytes that each stride stands for.
    """
    if params.block_count != 1:
        return
    for field, tensor in (("src_stride", src), ("dst_stride", dst)):
        size = tensor.buffer.size - tensor.offset if tensor.size is None else tensor.dtype.nbytes(tensor.size)
        if abs(reach[field]) > size:
            rec.session.warn(f"{field} = {getattr(params, field)} lies outside the tensor; one block does not use it",
                             rec.line(4))  # fmt: skip


def refuse_types(api: str, dst: Any, src: Any) -> NoReturn:
    """Raise ParameterError for tensors of different element types."""
    raise ParameterError(
        f"{api}: source and destination have different element types",
        field="dtype",
        value=f"{src.dtype} to {dst.dtype}",
        allowed="equal types (reinterpret_cast)",
    )


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


# ---- loop mode ------------------------------------------------------------------------------------------------------
def active_loop(rec: Recorder, dst: Any, src: Any) -> LoopModeParams | None:
    """The loops that a copy of this direction runs in, None for none."""
    loops = rec.state.get("loop_mode")
    found: LoopModeParams | None = loops.get((src.kind, dst.kind)) if loops else None
    return found


def set_loop_mode_para(loop_params: LoopModeParams, type: DataCopyMVType) -> None:  # noqa: A002  the API's own name
    """SetLoopModePara: every later data_copy and data_copy_pad of this direction runs loop2_size x loop1_size times.

    Registers of the vector core, kept until `reset_loop_mode_para`; NDDMA has loops of its own and ignores them. A size of 0
    has no stated meaning and is refused. Raises ParameterError for a field outside its range, UnsupportedError on cards
    without loop mode (spec api_semantics.md 9.5).
    """
    rec = current()
    if not rec.on_aiv:
        return
    if not isinstance(loop_params, LoopModeParams):
        raise ParameterError("set_loop_mode_para takes (loop_params, type)", field="loop_params",
                             value=loop_params.__class__.__name__, allowed="LoopModeParams")  # fmt: skip
    way = _way("set_loop_mode_para", type)
    warnings: list[str] = []
    kept = loop_mode.register(loop_params, way == ("GM", "UB"), rec.card, warnings)
    for text in warnings:
        rec.session.warn(f"{loop_mode.SET_API}: {text}", rec.line())
    _keep(rec, way, kept)


def reset_loop_mode_para(type: DataCopyMVType) -> None:  # noqa: A002  the API's own name
    """ResetLoopModePara: copies of this direction run once again. Raises UnsupportedError on cards without loop mode."""
    rec = current()
    if not rec.on_aiv:
        return
    check_offer(rec.card, loop_mode.RESET_API, "", None)
    _keep(rec, _way("reset_loop_mode_para", type), None)


def _way(api: str, kind: Any) -> tuple[str, str]:
    try:
        return _WAY[DataCopyMVType(kind)]
    except ValueError as error:
        raise ParameterError(f"{api}: unknown direction", field="type", value=kind,
                             allowed="DataCopyMVType.UB_TO_OUT, OUT_TO_UB") from error  # fmt: skip


def _keep(rec: Recorder, way: tuple[str, str], loop: LoopModeParams | None) -> None:
    loops = {key: value for key, value in rec.state.get("loop_mode", {}).items() if key != way}
    if loop is not None:
        loops[way] = loop
    rec.state["loop_mode"] = loops
    rec.control(Kind.MODE, Pipe.S, ("loop_mode", *way, loop))
