"""load_data, as a kernel calls it (spec pyasc.md 6.1). It does nothing on a vector core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions import load_data_2d, load_data_2d_v2
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.kernel import api_load_3d
from aicore_sim.kernel.context import Recorder, current

__all__ = ["load_data"]

Builder = Callable[[Any, DataType, str, str, Card], Op | None]

FORMS: dict[type, Builder] = {
    LoadData2DParams: load_data_2d.build,
    LoadData2DParamsV2: load_data_2d_v2.build,
}


def load_data(dst: Any, src: Any, params: Any, default_config: api_load_3d.IsResetLoad3dConfig | None = None) -> None:
    """LoadData(dst, src, params): fractals (2D, 2D V2) or an img2col window (3D) into L0A, L0B or L1.

    `default_config` is the template parameter of LoadData3DParamsV2 and says which registers the call programs.

    Raises ParameterError for operands or fields that do not fit, UnsupportedError for what the card lacks,
    AlignmentError and OutOfBoundsError for addresses. A size of 0 moves nothing, with a warning.
    """
    rec = current()
    if not rec.on_aic:
        return
    if isinstance(params, api_load_3d.STRUCTS):
        api_load_3d.load_3d(rec, dst, src, params, default_config)
        return
    if default_config is not None:
        raise ParameterError("load_data: only LoadData3DParamsV2 has a default_config", field="default_config",
                             value=str(default_config))  # fmt: skip
    key = ("load_data", params, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        op = _build(params, dst, src, rec)
        if op is None:
            rec.session.warn("LoadData: a repeat, step or size of 0 moves nothing", rec.line())
            return
        rec.ops[key] = op
    rec.emit(op, dst, src)


def _build(params: Any, dst: Any, src: Any, rec: Recorder) -> Op | None:
    if src.dtype is not dst.dtype:
        raise ParameterError("LoadData: source and destination have one element type", field="dtype",
                             value=f"{src.dtype.name} -> {dst.dtype.name}", card=rec.card.name)  # fmt: skip
    form = FORMS.get(type(params))
    if form is None:
        raise ParameterError("load_data: no form takes this argument", field="params", value=type(params).__name__,
                             allowed=", ".join(kind.__name__ for kind in (*FORMS, *api_load_3d.STRUCTS)))  # fmt: skip
    return form(params, dst.dtype, src.kind, dst.kind, rec.card)
