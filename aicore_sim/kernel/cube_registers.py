"""Registers of the matrix unit and of the way out of L0C, and the copy that reads them (spec api_semantics.md 12.1, 12.4, 24).

All are sticky: a call changes what later calls do. They do nothing on a vector core.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions import fixpipe as fix
from aicore_sim.instructions.base import Pipe, check_range
from aicore_sim.instructions.fixpipe import DataCopyCO12DstParams
from aicore_sim.instructions.fixpipe_convert import MODES
from aicore_sim.instructions.fixpipe_params import CopyRegisters
from aicore_sim.instructions.offer import check_offer
from aicore_sim.kernel.api_cube import check_kinds, check_table
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.program import Kind

__all__ = [
    "set_fix_pipe_clip_relu", "set_fix_pipe_config", "set_fix_pipe_pre_quant_flag", "set_fixpipe_nz2nd_flag",
    "set_hf32_mode", "set_hf32_trans_mode", "set_mm_column_major", "set_mm_layout_transform", "set_mm_row_major",
]  # fmt: skip

_MAX64 = 2**64 - 1
_EMPTY = CopyRegisters()


def _set(rec: Recorder, name: str, value: Any) -> None:
    rec.state[name] = value
    rec.control(Kind.MODE, Pipe.S, (name, str(value)))


def _flag(api: str, field: str, value: Any, rec: Recorder) -> bool:
    """A bool as kernels write it: True, False, 1, 0."""
    number = int(value)
    check_range(api, api, field, number, 0, 1, rec.card.name)
    return bool(number)


# ---- mmad ---------------------------------------------------------------------------------------------------------
def set_hf32_mode(hf32_mode: Any) -> None:
    """SetHF32Mode: from now on float operands of mmad are rounded to fewer mantissa bits (950: 10). Off at the start."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetHF32Mode", "", None)
        _set(rec, "hf32", _flag("SetHF32Mode", "hf32_mode", hf32_mode, rec))


def set_hf32_trans_mode(trans_mode: Any) -> None:
    """SetHF32TransMode: ties of HF32 go towards zero (True) or to even (False, at the start)."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetHF32TransMode", "", None)
        _set(rec, "hf32_trans", _flag("SetHF32TransMode", "trans_mode", trans_mode, rec))


def set_mm_layout_transform(mm_layout_mode: Any) -> None:
    """SetMMLayoutTransform: mmad makes the fractals of C row by row (True) or column by column. Values do not change."""
    rec = current()
    if rec.on_aic:
        _set(rec, "mm_row_major", _flag("SetMMLayoutTransform", "mm_layout_mode", mm_layout_mode, rec))


def set_mm_row_major() -> None:
    """SetMMRowMajor: mmad makes the fractals of C row by row (N first). Values do not change."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetMMColumnMajor-SetMMRowMajor", "", None)
        _set(rec, "mm_row_major", True)


def set_mm_column_major() -> None:
    """SetMMColumnMajor: mmad makes the fractals of C column by column (M first). Values do not change."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetMMColumnMajor-SetMMRowMajor", "", None)
        _set(rec, "mm_row_major", False)


# ---- the way out of L0C -------------------------------------------------------------------------------------------
def set_fix_pipe_pre_quant_flag(config: int) -> None:
    """SetFixpipePreQuantFlag: the parameter word of the scalar quantisation modes of data_copy out of L0C (uint64)."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetFixpipePreQuantFlag", "", None)
        _set(rec, "fix_word", _word("SetFixpipePreQuantFlag", config, rec))


def set_fix_pipe_clip_relu(config: int) -> None:
    """SetFixPipeClipRelu, 200I: the bound of clip-ReLU, a half above 0 in bits 15:0."""
    rec = current()
    if rec.on_aic:
        check_offer(rec.card, "SetFixPipeClipRelu", "", None)
        _set(rec, "fix_clip", _word("SetFixPipeClipRelu", config, rec))


def _word(api: str, config: Any, rec: Recorder) -> int:
    number = config if isinstance(config, int) and not isinstance(config, bool) else int(config)
    check_range(api, api, "config", number, 0, _MAX64, rec.card.name)
    return int(number)


def set_fixpipe_nz2nd_flag(nd_num: int, src_nd_stride: int, dst_nd_stride: int) -> None:
    """SetFixpipeNz2ndFlag: matrices of data_copy out of L0C with nz2nd_en.

    src_nd_stride counts 1024 B (950: 64 B), dst_nd_stride elements. Raises ParameterError for their ranges.
    """
    rec = current()
    if not rec.on_aic:
        return
    api, new = "SetFixpipeNz2ndFlag", rec.card.npu_arch == 3510
    check_offer(rec.card, api, "", None)
    limits = {"nd_num": 65535, "src_nd_stride": 65535 if new else 512, "dst_nd_stride": 2**32 - 1 if new else 65535}
    given = {"nd_num": nd_num, "src_nd_stride": src_nd_stride, "dst_nd_stride": dst_nd_stride}
    for field, value in given.items():
        check_range(api, api, field, value, 0, limits[field], rec.card.name)
    _set(rec, "fix_matrices", (int(nd_num), int(src_nd_stride), int(dst_nd_stride)))


def set_fix_pipe_config(*tensors: Any, is_unit_flag: bool = False) -> None:
    """SetFixPipeConfig(relu_pre, quant_pre) or (quant_pre): tables in FB (uint64, C2PIPE2GM) of data_copy out of L0C.

    The ReLU table has no effect. With `is_unit_flag` the unit flags of L0C are cleared; there they are down when a kernel
    starts, so the call is accepted before the first use of a unit flag only, and then any tensor may be given. Raises
    ParameterError for other arguments, UnsupportedError for clearing flags in use.
    """
    rec = current()
    if not rec.on_aic:
        return
    api = "SetFixPipeConfig"
    check_offer(rec.card, api, "", None)
    given = list(tensors)
    if given and isinstance(given[-1], bool):
        is_unit_flag = given.pop()
    if not 1 <= len(given) <= 2 or not all(hasattr(one, "buffer") for one in given):
        raise ParameterError(f"{api} takes one or two tensors", field="arguments", value=len(given),
                             allowed="(relu_pre, quant_pre) or (quant_pre), is_unit_flag=False")  # fmt: skip
    if is_unit_flag:
        if rec.state.get("unit_flags"):
            raise UnsupportedError(f"{api}: clearing unit flags in use is not in this version", field="is_unit_flag",
                                   value=True, allowed="before the first unit flag of a kernel", card=rec.card.name)  # fmt: skip
        if given[-1].kind == "L0C":
            return
    for name, table in zip(("relu_pre", "quant_pre")[-len(given) :], given, strict=True):
        check_table(api, rec, name, table, "FB")
        if table.offset % (64 if name == "relu_pre" else 128):
            raise AlignmentError(f"{api}: {name} starts at a multiple of {64 if name == 'relu_pre' else 128} B",
                                 field=name, value=table.offset, card=rec.card.name)  # fmt: skip
    if len(given) == 2:
        rec.session.warn(f"{api}: the ReLU table is not used", rec.line())
    _set(rec, "fix_table", given[-1])


def copy_from_l0c(rec: Recorder, dst: Any, src: Any, params: DataCopyCO12DstParams) -> None:
    """data_copy(dst, src, DataCopyCO12DstParams): out of L0C into GM or L1, with the registers above.

    Raises as `fixpipe.build_copy`, and ParameterError for a table mode without set_fix_pipe_config.
    """
    state = rec.state
    registers = _EMPTY
    if "fix_word" in state or "fix_matrices" in state or "fix_clip" in state:
        registers = CopyRegisters(state.get("fix_word", 0), state.get("fix_matrices", (1, 0, 0)), state.get("fix_clip", 0))
    key = ("copy_l0c", params, registers, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        check_kinds("DataCopy", rec, (("src", src, ("L0C",)),))
        op = fix.build_copy(params, registers, src.dtype, dst.dtype, dst.kind, rec.card)
        if op is None:
            rec.session.warn("DataCopy: a size or matrix count of 0 moves nothing", rec.line(3))
            return
        rec.ops[key] = op
    if op.unit_flag:
        state["unit_flags"] = True
    if len(op.aligns) == 2:
        rec.emit(op, dst, src)
        return
    table = state.get("fix_table")
    if table is None:
        raise ParameterError(f"DataCopy: {MODES[params.quant_pre].name} takes a table of parameter words", field="quant_pre",
                             value=int(params.quant_pre), allowed="set_fix_pipe_config before the call",
                             card=rec.card.name)  # fmt: skip
    rec.emit(op, dst, src, table)
