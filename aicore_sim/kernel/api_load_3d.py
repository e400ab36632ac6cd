"""3-D loads and the registers they read, as a kernel calls them (spec api_semantics.md 5, 24; pyasc.md 6.1).

Registers of a core in `Recorder.state`, absent while nothing has written them: "load3d_left" and "load3d_right"
(FeatureMap), "load3d_padding" (Padding), "load3d_repeat" (Repeat, of SetLoadDataRepeat), "load3d_stride" (350: Repeat as
the instruction finds it) and "load3d_boundary" (bytes). What of them shapes an instruction is part of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, taken
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV1, LoadData3DParamsV2, LoadData3DParamsV2Pro
from aicore_sim.instructions.load_3d_registers import (
    ONCE,
    FeatureMap,
    FmatrixMode,
    IsResetLoad3dConfig,
    LoadDataRepeatParam,
    LoadDataRepeatParamWithStride,
    Padding,
    Repeat,
    check_boundary,
    feature_map,
    repeat_register,
)
from aicore_sim.instructions.load_3d_ring import in_ring
from aicore_sim.instructions.load_data_3d import BIT_MODE, V2, WITH_STRIDE, Form, Registers, build, own_pitch
from aicore_sim.instructions.offer import check_offer, require_rows
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.load_3d_bits import Load3DBitModeParam
from aicore_sim.kernel.program import Kind

__all__ = [
    "FmatrixMode", "IsResetLoad3dConfig", "Load3DBitModeParam", "LoadData3DParamsV1", "LoadData3DParamsV2",
    "LoadData3DParamsV2Pro", "LoadDataRepeatParam", "LoadDataRepeatParamWithStride", "load_data_with_stride",
    "set_fmatrix", "set_load_data_boundary", "set_load_data_padding_value", "set_load_data_repeat",
    "set_load_data_repeat_with_stride",
]  # fmt: skip

STRUCTS = (LoadData3DParamsV2, LoadData3DParamsV2Pro, Load3DBitModeParam, LoadData3DParamsV1)
"""The structs of `load_data` that belong here."""
_BOTH = IsResetLoad3dConfig()
_ARCH_950 = 3510


def load_3d(rec: Recorder, dst: Any, src: Any, params: Any, config: IsResetLoad3dConfig | None) -> None:
    """`load_data` with a struct of STRUCTS on the core `rec`. Raises as `load_data`."""
    kind = type(params)
    if kind is LoadData3DParamsV2:
        _load_v2(rec, dst, src, params, config or _BOTH, V2)
        return
    if config is not None:
        raise ParameterError(f"load_data: {kind.__name__} has no default_config: it always uses the registers",
                             field="default_config", value=str(config), allowed="none")  # fmt: skip
    if kind is LoadData3DParamsV2Pro:
        _load_words(rec, dst, src, params, params, V2)
    elif kind is Load3DBitModeParam:
        _load_words(rec, dst, src, params.words, params, BIT_MODE)
    else:
        raise UnsupportedError("load_data: no card here takes LoadData3DParamsV1", field="params", value=kind.__name__,
                               allowed="LoadData3DParamsV2", card=rec.card.name)  # fmt: skip


def load_data_with_stride(dst: Any, src: Any, params: LoadData3DParamsV2,
                          default_config: IsResetLoad3dConfig = _BOTH) -> None:  # fmt: skip
    """LoadDataWithStride (350): `load_data` with LoadData3DParamsV2 at the pitch of set_load_data_repeat_with_stride.

    The pitch is the distance in L0, in fractals of 512 B, of column blocks of C0 (where the matrix is transposed: of C0
    rows). Raises as `load_data`, and ParameterError before the pitch was set.
    """
    rec = current()
    if not rec.on_aic:
        return
    if type(params) is not LoadData3DParamsV2:
        raise ParameterError("load_data_with_stride takes LoadData3DParamsV2", field="params",
                             value=type(params).__name__, allowed="LoadData3DParamsV2")  # fmt: skip
    _load_v2(rec, dst, src, params, default_config, WITH_STRIDE)


def _load_v2(rec: Recorder, dst: Any, src: Any, params: LoadData3DParamsV2, config: IsResetLoad3dConfig, form: Form) -> None:
    """A form that programs feature map and padding register itself, unless `config` says otherwise."""
    state, card = rec.state, rec.card
    own_map, own_padding = config.is_set_f_matrix, config.is_set_padding
    side = "load3d_right" if params.f_matrix_ctrl else "load3d_left"
    programmed = "load3d_left" if params.f_matrix_ctrl and card.quirk("fmatrix-left") else side
    fmap = None if own_map and programmed == side else state.get(side)
    padding = None if own_padding else state.get("load3d_padding")
    repeat: Repeat = state.get("load3d_repeat", ONCE) if form is V2 else _pitched(rec, form)
    # 0.0 and -0.0 are equal but not the same padding.
    sign = str(params.pad_value)
    used = Registers(own_map, own_padding, fmap, padding, repeat)
    _load(rec, dst, src, ("load_3d", form.api, params, sign), used, form, params)
    if own_map:
        state[programmed] = params.feature_map()
    if own_padding:
        state["load3d_padding"] = Padding(params.pad_value, dst.dtype.name, sign)
    if form is V2 and card.npu_arch == _ARCH_950:
        pitch = own_pitch(params) if repeat.pitch is None else repeat.pitch
        state["load3d_stride"] = Repeat(repeat.time, repeat.stride, repeat.mode, pitch)


def _load_words(rec: Recorder, dst: Any, src: Any, words: Any, params: Any, form: Form) -> None:
    """A form in packed words: everything else is in the registers."""
    state = rec.state
    ctrl = params.f_matrix_ctrl if words is params else params.get_f_matrix_ctrl()
    fmap = state.get("load3d_right" if ctrl else "load3d_left")
    new = rec.card.npu_arch == _ARCH_950
    repeat: Repeat = _pitched(rec, form) if new or form is BIT_MODE else state.get("load3d_repeat", ONCE)
    used = Registers(False, False, fmap, state.get("load3d_padding"), repeat)
    _load(rec, dst, src, ("load_3d", form.row, words), used, form, params)


def _pitched(rec: Recorder, form: Form) -> Repeat:
    """The repeat register as the instruction of 350 finds it. Raises ParameterError where nothing ever set its pitch."""
    found: Repeat | None = rec.state.get("load3d_stride")
    if found is None:
        require_rows(form.api, rec.card, form.row, form.variant)
        raise ParameterError(f"{form.api}: the column pitch in L0 was never set", field="dst_stride", card=rec.card.name,
                             allowed="set_load_data_repeat_with_stride before the load")  # fmt: skip
    return found


def _load(rec: Recorder, dst: Any, src: Any, shape: tuple[Any, ...], used: Registers, form: Form, params: Any) -> None:
    """Emit the instruction of a call: looked up by everything that shapes it, built at the first such call."""
    key = (*shape, used, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        op = _build(rec, dst, src, used, form, params)
        if op is None:
            rec.session.warn(f"{form.api}: a repeat, step or size of 0 moves nothing", rec.line())
            return
        rec.ops[key] = op
    boundary = rec.state.get("load3d_boundary", 0)
    if boundary:
        op = _wrapped(rec, op, key, src.offset, boundary)
    rec.emit(op, dst, src)


def _build(rec: Recorder, dst: Any, src: Any, used: Registers, form: Form, params: Any) -> Op | None:
    card = rec.card
    if src.dtype is not dst.dtype:
        raise ParameterError(f"{form.api}: source and destination have one element type", field="dtype",
                             value=f"{src.dtype.name} -> {dst.dtype.name}", card=card.name)  # fmt: skip
    if type(params) is LoadData3DParamsV2:
        return build(params, dst.dtype, src.kind, dst.kind, card, used, form)
    texts: list[str] = []
    if type(params) is LoadData3DParamsV2Pro:
        whole = (0, (1 << 64) - 1)
        params = taken(form.api, params, {"ext_config": whole, "filter_config": whole}, card, texts)
        if params.en_small_k:
            texts.append("en_small_k has no effect on this card")
    for text in texts:
        rec.session.warn(f"{form.api}: {text}", rec.line())
    return build(params.plain(), dst.dtype, src.kind, dst.kind, card, used, form)


def _wrapped(rec: Recorder, op: Op, key: tuple[Any, ...], start: int, boundary: int) -> Op:
    """The instruction where its source, at byte `start` of L1, runs into the boundary; `op` where it does not."""
    if start >= boundary:
        raise OutOfBoundsError(f"{op.api}: the source starts behind the boundary of set_load_data_boundary",
                               field="address", value=start, allowed=f"< {boundary}", card=rec.card.name)  # fmt: skip
    if start + op.limits[1][1] <= boundary:
        return op
    place = (key, "boundary", start, boundary)
    found = rec.ops.get(place)
    if found is None:
        found = rec.ops[place] = in_ring(op, start, boundary)
    return found


# ---- registers ----------------------------------------------------------------------------------------------------
def set_fmatrix(l1_h: int, l1_w: int, pad_list: Sequence[int],
                fmatrix_mode: FmatrixMode = FmatrixMode.FMATRIX_LEFT) -> None:  # fmt: skip
    """SetFmatrix: the feature map that later loads with is_set_f_matrix False read (V2Pro and bit mode always).

    l1_h, l1_w 1..32767; pad_list left, right, top, bottom 0..255. Loads with f_matrix_ctrl read FMATRIX_RIGHT (A2, A3).
    Raises ParameterError for the ranges.
    """
    rec = current()
    if not rec.on_aic:
        return
    check_offer(rec.card, "SetFmatrix", "", None)
    texts: list[str] = []
    found = feature_map("SetFmatrix", FeatureMap(l1_h, l1_w, tuple(pad_list)), rec.card, texts)
    if fmatrix_mode not in tuple(FmatrixMode):
        raise ParameterError("SetFmatrix: fmatrix_mode (fmatrixMode)", field="fmatrix_mode", value=fmatrix_mode,
                             allowed="FmatrixMode.FMATRIX_LEFT, FMATRIX_RIGHT", card=rec.card.name)  # fmt: skip
    right = fmatrix_mode == FmatrixMode.FMATRIX_RIGHT
    if right and rec.card.npu_arch != 2201:
        texts.append("no load of this card reads FMATRIX_RIGHT: use FMATRIX_LEFT for both sides")
    _write(rec, "SetFmatrix", "load3d_right" if right else "load3d_left", found, texts)


def set_load_data_padding_value(pad_value: float, dtype: DataType | None = None) -> None:
    """SetLoadDataPaddingValue: what later loads with is_set_padding False put around the map (V2Pro, bit mode always).

    Without `dtype` the value is an element of whatever type the load moves; with it the register gets that type's bits,
    and a load of another type reads those (8 bits stand in both bytes of 16). Raises ParameterError for a value that
    `dtype` does not have, UnsupportedError for a type that the call does not take.
    """
    rec = current()
    if not rec.on_aic:
        return
    check_offer(rec.card, "SetLoadDataPaddingValue", "", dtype)
    padding = Padding(pad_value, dtype.name if dtype is not None else "", str(pad_value))
    if dtype is not None:
        padding.block(dtype, False)
    _write(rec, "SetLoadDataPaddingValue", "load3d_padding", padding, [])


def set_load_data_repeat(param: LoadDataRepeatParam) -> None:
    """SetLoadDataRepeat: later 3-D loads move several windows (spec 5.6). Raises ParameterError for its ranges.

    On 350 the register itself is written by each plain load, with a column pitch: `dst_stride` of this call where given,
    else one that the load computes.
    """
    _set_repeat("SetLoadDataRepeat", LoadDataRepeatParam, param, "load3d_repeat")


def set_load_data_repeat_with_stride(param: LoadDataRepeatParamWithStride) -> None:
    """SetLoadDataRepeatWithStride (350): iterations and column pitch for load_data_with_stride, V2Pro and bit mode.

    Raises ParameterError for its ranges, UnsupportedError on cards without it.
    """
    _set_repeat("SetLoadDataRepeatWithStride", LoadDataRepeatParamWithStride, param, "load3d_stride")


def _set_repeat(
    api: str, struct: type[LoadDataRepeatParam] | type[LoadDataRepeatParamWithStride], param: Any, name: str
) -> None:
    rec = current()
    if not rec.on_aic:
        return
    check_offer(rec.card, api, "", None)
    if type(param) is not struct:
        raise ParameterError(f"{api} takes {struct.__name__}", field="param", value=type(param).__name__,
                             allowed=struct.__name__, card=rec.card.name)  # fmt: skip
    texts: list[str] = []
    _write(rec, api, name, repeat_register(api, param, rec.card, texts), texts)


def set_load_data_boundary(boundary: int) -> None:
    """SetLoadDataBoundary (A2, A3): source addresses of 3-D loads wrap at `boundary` bytes to the start of L1; 0: never.

    Raises ParameterError for 1..1023 (undefined) and what is no multiple of 32, UnsupportedError on cards without it.
    """
    rec = current()
    if not rec.on_aic:
        return
    check_offer(rec.card, "SetLoadDataBoundary", "", None)
    check_boundary(boundary, rec.card)
    _write(rec, "SetLoadDataBoundary", "load3d_boundary", boundary, [])


def _write(rec: Recorder, api: str, name: str, value: Any, texts: list[str]) -> None:
    for text in texts:
        rec.session.warn(f"{api}: {text}", rec.line(3))
    rec.state[name] = value
    rec.control(Kind.MODE, Pipe.S, (name, value))
