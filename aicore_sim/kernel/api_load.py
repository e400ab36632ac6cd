"""load_data and its relatives, as a kernel calls them (spec pyasc.md 6.1). They do nothing on a vector core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import init_const_value as fill
from aicore_sim.instructions import load_data_2d, load_data_2d_mx, load_data_2d_v2, load_transpose
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.init_const_value import InitConstValueParams
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_mx import LoadData2DMxParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.instructions.load_transpose import LoadData2dTransposeParams, LoadData2dTransposeParamsV2
from aicore_sim.kernel import api_load_3d
from aicore_sim.kernel.bit_mode_2d import Load2DBitModeParam
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import TPosition
from aicore_sim.kernel.tensor import LocalTensor

__all__ = ["init_const_value", "load_data", "load_data_with_transpose"]

Builder = Callable[[Any, DataType, str, str, Card, list[str]], Op | None]
"""Builds the Op of a form; the list gets its warnings, which a call that moves nothing has no Op for."""


FORMS: dict[type, Builder] = {
    LoadData2DParams: load_data_2d.build,
    LoadData2DParamsV2: load_data_2d_v2.build,
}
_TRANSPOSE_FORMS = (LoadData2dTransposeParams, LoadData2dTransposeParamsV2)
_NOTHING = "a repeat, step or size of 0 moves nothing"


def load_data(
    dst: Any, src: Any, params: Any, *more: Any, default_config: api_load_3d.IsResetLoad3dConfig | None = None
) -> None:
    """LoadData(dst, src, params): fractals (2D, 2D V2, bit mode) or an img2col window (3D) into L0A, L0B or L1.

    LoadData(dst, src, src_mx, LoadData2DParamsV2, LoadData2DMxParams) loads the scales of `src_mx` as well (950), to the
    scale memory at dst / 16. `default_config` is the template parameter of LoadData3DParamsV2 and says which registers the
    call programs; it may also follow the struct.

    Raises ParameterError for operands or fields that do not fit, UnsupportedError for what the card lacks,
    AlignmentError and OutOfBoundsError for addresses. A size of 0 moves nothing, with a warning.
    """
    rec = current()
    if not rec.on_aic:
        return
    if len(more) == 1 and default_config is None and isinstance(more[0], api_load_3d.IsResetLoad3dConfig):
        default_config, more = more[0], ()
    if not more and isinstance(params, api_load_3d.STRUCTS):
        api_load_3d.load_3d(rec, dst, src, params, default_config)
        return
    if default_config is not None:
        raise ParameterError("load_data: only LoadData3DParamsV2 has a default_config", field="default_config",
                             value=str(default_config))  # fmt: skip
    if more:
        _load_mx(rec, dst, src, params, more)
        return
    if type(params) is Load2DBitModeParam:
        _load_bit_mode(rec, dst, src, params)
        return
    key = ("load_data", params, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        form = FORMS.get(type(params))
        if form is None:
            _refuse_struct("load_data", params, (*FORMS, Load2DBitModeParam, *api_load_3d.STRUCTS))
        op = _build("LoadData", form, params, dst, src, rec)
        if op is None:
            return
        rec.ops[key] = op
    rec.emit(op, dst, src)


def _load_bit_mode(rec: Recorder, dst: Any, src: Any, params: Load2DBitModeParam) -> None:
    # The struct can be changed after the call: its words are what the instruction has got.
    position = getattr(src, "position", TPosition.GM)
    key = ("load_data", Load2DBitModeParam, params.words(), src.dtype, dst.dtype, src.kind, dst.kind, position)
    if rec.session.strict:
        params.check_fits(rec.card.name)
    for text in params.untold():
        rec.session.warn(text, rec.line())
    op = rec.ops.get(key)
    if op is None:
        if rec.card.quirk("bit-mode-b1") and position is not TPosition.A1:
            raise UnsupportedError("LoadData: the debug check of bit mode takes a source in A1 only (quirk bit-mode-b1)",
                                   field="src", value=position.name, allowed="A1", card=rec.card.name)  # fmt: skip
        op = _build("LoadData", load_data_2d_v2.build_bit_mode, params.decoded(), dst, src, rec)
        if op is None:
            return
        rec.ops[key] = op
    rec.emit(op, dst, src)


def _load_mx(rec: Recorder, dst: Any, src: Any, src_mx: Any, more: tuple[Any, ...]) -> None:
    if len(more) != 2 or type(more[0]) is not LoadData2DParamsV2 or type(more[1]) is not LoadData2DMxParams:
        raise ParameterError("load_data takes (dst, src, params) or (dst, src, src_mx, params, mx_params)", field="params",
                             value=", ".join(type(one).__name__ for one in more),
                             allowed="LoadData2DParamsV2, LoadData2DMxParams")  # fmt: skip
    key = ("load_data_mx", more, src.dtype, dst.dtype, src_mx.dtype, src.kind, src_mx.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:

        def form(params: Any, dtype: DataType, src_kind: str, dst_kind: str, card: Card, notes: list[str]) -> Op | None:
            types, kinds = (dtype, src_mx.dtype), (src_kind, src_mx.kind, dst_kind)
            return load_data_2d_mx.build(params[0], params[1], types, kinds, card, notes)

        op = _build("LoadData", form, more, dst, src, rec)
        if op is None:
            return
        rec.ops[key] = op
    rec.emit(op, dst, src, src_mx, _scales_of(rec, dst))


def _scales_of(rec: Recorder, dst: Any) -> LocalTensor:
    """The scale memory that belongs to a tensor in L0A or L0B: a sixteenth of its address and of its bytes."""
    scales = LocalTensor(load_data_2d_mx.SCALE_TYPE)
    scales.kind = load_data_2d_mx.SCALES[dst.kind]
    scales.position, scales.buffer = dst.position, rec.buffers.get(scales.kind)
    scales.offset = dst.offset // load_data_2d_mx.SCALE_SHARE
    scales.size = dst.size * dst.dtype.bits // 8 // load_data_2d_mx.SCALE_SHARE
    return scales


def load_data_with_transpose(
    dst: Any, src: Any, params: LoadData2dTransposeParams | LoadData2dTransposeParamsV2
) -> None:
    """LoadDataWithTranspose(dst, src, params): transposed squares of fractals from L1 into L0A or L0B (350: L0B).

    Raises as `load_data`. repeat_times 0 moves nothing, with a warning.
    """
    rec = current()
    if not rec.on_aic:
        return
    key = ("load_data_with_transpose", params, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        if type(params) not in _TRANSPOSE_FORMS:
            _refuse_struct("load_data_with_transpose", params, _TRANSPOSE_FORMS)
        op = _build("LoadDataWithTranspose", load_transpose.build, params, dst, src, rec)
        if op is None:
            return
        rec.ops[key] = op
    rec.emit(op, dst, src)


def init_const_value(dst: Any, init_const_value_params: InitConstValueParams) -> None:
    """InitConstValue(dst, params), also called Fill: blocks of L1, L0A or L0B filled with one value.

    Raises as `load_data`. repeat_times or block_num 0 fills nothing, with a warning.
    """
    rec = current()
    if not rec.on_aic:
        return
    params = init_const_value_params
    if type(params) is not InitConstValueParams:
        _refuse_struct("init_const_value", params, (InitConstValueParams,))
    # 0.0 and -0.0 are equal but not the same bytes.
    key = ("init_const_value", params, str(params.init_value), dst.dtype, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        notes: list[str] = []
        op = fill.build(params, dst.dtype, dst.kind, rec.card, notes)
        if op is None:
            _moves_nothing("InitConstValue", notes, rec)
            return
        rec.ops[key] = op
    rec.emit(op, dst)


def _build(api: str, form: Builder, params: Any, dst: Any, src: Any, rec: Recorder) -> Op | None:
    """The Op of a call between two tensors; None, with its warnings given, if it moves nothing."""
    if src.dtype is not dst.dtype:
        raise ParameterError(f"{api}: source and destination have one element type", field="dtype",
                             value=f"{src.dtype.name} -> {dst.dtype.name}", card=rec.card.name)  # fmt: skip
    notes: list[str] = []
    op = form(params, dst.dtype, src.kind, dst.kind, rec.card, notes)
    if op is None:
        _moves_nothing(api, notes, rec)
    return op


def _moves_nothing(api: str, notes: list[str], rec: Recorder) -> None:
    line = rec.line(3)
    for text in (*notes, _NOTHING):
        rec.session.warn(f"{api}: {text}", line)


def _refuse_struct(api: str, params: Any, forms: tuple[type, ...]) -> NoReturn:
    raise ParameterError(f"{api}: no form takes this argument", field="params", value=type(params).__name__,
                         allowed=", ".join(kind.__name__ for kind in forms))  # fmt: skip
