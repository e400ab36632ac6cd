"""Checks of what leaves L0C, and its parameters in one form whatever struct they came in (spec api_semantics.md 12.2, 12.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import camel, check_range, describe, taken
from aicore_sim.instructions.cube_layout import L0C_ROW, SIDE, check_unit_flag
from aicore_sim.instructions.fixpipe_convert import LAST_OF_2201, MODES, SIGN_BIT, Conversion, Mode, factor_fault
from aicore_sim.instructions.fixpipe_layout import HALF, MERGED, Plan
from aicore_sim.instructions.fixpipe_params import (
    COLUMN_MAJOR,
    NZ,
    ROW_MAJOR,
    CopyRegisters,
    DataCopyCO12DstParams,
    FixpipeConfig,
    FixpipeParams,
    FixpipeParamsArch3510,
    FixpipeParamsV220,
    Nz2DnParams,
    Nz2NdParams,
)
from aicore_sim.instructions.offer import rows_for

API, API_COPY = "Fixpipe", "DataCopy"
_MAX32, _MAX64 = 2**32 - 1, 2**64 - 1
_DN_ROWS = 32767
_ND_ROWS = 8192
_UNSPLIT = "0 (one destination)"


@dataclass
class Request:
    """One call, checked: what `fixpipe._op` needs. `format` is a CO2Layout value, `plan` the movement in bytes.

    `word` is the scalar parameter word, `table` says that operand 2 has one a column; `dual` is dual_dst_ctl. `chunk` and
    `chunk_step` are columns of a load of the table and its step in bytes, where the implementation's step is asked for.
    """

    api: str
    format: int
    plan: Plan
    conversion: Conversion
    word: int | None
    table: bool
    unit_flag: int
    detail: str
    warnings: list[str] = field(default_factory=list)
    dual: int = 0
    chunk: int = 0
    chunk_step: int = 0


@dataclass
class _Call:
    """The parts of any struct that the rest works on. Strides in bytes unless they say otherwise."""

    api: str
    struct: str
    card: Card
    n: int
    m: int
    src_pitch: int
    dst_stride: int
    nz_unit: int
    """Bytes that dst_stride counts in NZ."""
    relu: bool
    unit_flag: int
    split: bool
    format: int
    count: int = 1
    src_matrix: int = 0
    dst_matrix: int = 0
    """In elements."""
    c0_stride: int = 1
    dual: int = 0
    clip: float | None = None
    warnings: list[str] = field(default_factory=list)


# ---- Fixpipe ------------------------------------------------------------------------------------------------------
def of_fixpipe(
    params: FixpipeParams, config: FixpipeConfig, src: DataType, dst: DataType, dst_kind: str, card: Card, table: bool
) -> Request | None:
    """The request of a Fixpipe call; None where it moves nothing. Raises as `fixpipe.build`."""
    _check_struct(params, config, dst_kind, card)
    mode = _mode(API, params.quant_pre, src, dst, "Fixpipe", f"L0C-{dst_kind}", card)
    warnings: list[str] = []
    if isinstance(params, FixpipeParamsArch3510):
        call = _call_3510(params, config, dst, card, warnings)
    else:
        call = _call_v220(params, config, dst, card, warnings)
    call.split = bool(params.is_channel_split)
    word = _scalar_word(call, mode, "deq_scalar", params.deq_scalar, dst)
    if mode.table and not table:
        raise ParameterError(f"{API}: {mode.name} takes a table of parameter words", field="cbuf_workspace", value=None,
                             allowed="(dst, src, cbuf_workspace, params, config)", card=card.name)  # fmt: skip
    if table and not mode.table:
        warnings.append(f"{mode.name} takes no table: cbuf_workspace has no effect; published release builds copy nothing")
    return _request(call, mode, word, src, dst, dst_kind, describe(params))


def _unsupported(api: str, field_: str, value: object, text: str, allowed: str, card: Card) -> UnsupportedError:
    return UnsupportedError(f"{api}: {text}", field=field_, value=value, allowed=allowed, card=card.name)


def _check_struct(params: FixpipeParams, config: FixpipeConfig, dst_kind: str, card: Card) -> None:
    """The struct must be one of the card, and one that the destination takes (spec 12.2)."""
    new = card.npu_arch == 3510
    struct = type(params).__name__
    rows_for(API, card, "Fixpipe", None, f"L0C-{dst_kind}")
    if isinstance(params, FixpipeParamsArch3510):
        if not new:
            raise _unsupported(API, "params", struct, f"{struct} is for the 950",
                               "FixpipeParamsM300" if card.npu_arch == 3002 else "FixpipeParamsV220", card)  # fmt: skip
    elif new and dst_kind == "UB":
        raise _unsupported(API, "params", struct, f"{struct} does not go into UB on this card", "FixpipeParamsArch3510", card)
    if config.is_to_ub and not new:
        raise _unsupported(API, "is_to_ub", True, "is_to_ub (isToUB) is for the 950", "False", card)
    if new and config.is_to_ub != (dst_kind == "UB"):
        raise ParameterError(
            f"{API}: is_to_ub (isToUB) must be True for a destination in UB and False for any other",
            field="is_to_ub", value=config.is_to_ub, allowed=str(dst_kind == "UB"), card=card.name,
        )  # fmt: skip
    if config.layout not in (NZ, ROW_MAJOR, COLUMN_MAJOR):
        raise ParameterError(f"{API}: unknown output format", field="layout", value=config.layout,
                             allowed="CO2Layout.NZ, ROW_MAJOR, COLUMN_MAJOR", card=card.name)  # fmt: skip
    if config.layout == COLUMN_MAJOR and not isinstance(params, FixpipeParamsArch3510):
        raise _unsupported(API, "layout", "COLUMN_MAJOR", "only the 950 writes columns, with FixpipeParamsArch3510",
                           "NZ, ROW_MAJOR", card)  # fmt: skip
    if config.layout == ROW_MAJOR and dst_kind == "L1" and not new:
        raise _unsupported(API, "layout", "ROW_MAJOR", "into L1 this card writes NZ only", "NZ", card)


def _call_v220(params: FixpipeParamsV220, config: FixpipeConfig, dst: DataType, card: Card, warnings: list[str]) -> _Call:
    nd = config.layout == ROW_MAJOR
    rows = _ND_ROWS if nd and card.npu_arch != 3510 else 65535
    params = taken(API, params, {
        "n_size": (0, 4095), "m_size": (0, rows, 16), "src_stride": (0, 65535), "dst_stride": (1, _MAX32),
        "deq_scalar": (0, _MAX64), "nd_num": (0, 65535), "src_nd_stride": (0, 512, 16), "dst_nd_stride": (0, 65535),
    }, card, warnings)  # fmt: skip
    unit, matrix_unit = BLOCK_BYTES, SIDE * L0C_ROW
    if card.quirk("fixpipe-v220-unscaled"):
        unit, matrix_unit = dst.sizeof(), L0C_ROW
    elif card.npu_arch == 3510 and (not nd or params.nd_num > 1):
        warnings.append("units of FixpipeParamsV220 are taken from its page; the 950 header passes NZ dst_stride and"
                        " src_nd_stride on unscaled: use FixpipeParamsArch3510")  # fmt: skip
    if params.nd_num > 1 and not nd:
        warnings.append("nd_num has no meaning for NZ: one matrix is written")
    return _Call(
        API, type(params).__name__, card, params.n_size, params.m_size, params.src_stride * L0C_ROW, params.dst_stride,
        unit, bool(params.relu_en), params.unit_flag, False, config.layout, params.nd_num if nd else min(params.nd_num, 1),
        params.src_nd_stride * matrix_unit, params.dst_nd_stride, warnings=warnings,
    )  # fmt: skip


def _call_3510(
    params: FixpipeParamsArch3510, config: FixpipeConfig, dst: DataType, card: Card, warnings: list[str]
) -> _Call:
    rows = _DN_ROWS if config.layout == COLUMN_MAJOR else 65535
    params = taken(API, params, {
        "n_size": (0, 4095), "m_size": (0, rows, 16), "src_stride": (0, 65535), "dst_stride": (1, _MAX32),
        "deq_scalar": (0, _MAX64), "dual_dst_ctl": (0, 2, 8),
    }, card, warnings)  # fmt: skip
    check_range(API, type(params).__name__, "sub_block_id", int(params.sub_block_id), 0, 1, card.name)
    for name in ("pre_relu_mode", "pre_clip_relu_mode", "relu_scalar", "vector_relu"):
        if getattr(params, name):
            warnings.append(f"{name} ({camel(name)}) is never read: only relu_en acts")
    call = _Call(
        API, type(params).__name__, card, params.n_size, params.m_size, params.src_stride * L0C_ROW, params.dst_stride,
        dst.sizeof(), bool(params.relu_en), params.unit_flag, False, config.layout, dual=params.dual_dst_ctl,
        warnings=warnings,
    )  # fmt: skip
    inner = params.params
    if config.layout == COLUMN_MAJOR:
        if not isinstance(inner, Nz2DnParams):
            raise _wrong_inner(inner, "Nz2DnParams", card)
        inner = taken(API, inner, {
            "dn_num": (0, 65535), "src_nz_matrix_stride": (0, 65535), "dst_dn_matrix_stride": (0, _MAX32),
            "src_nz_c0_stride": (1, 65535),
        }, card, warnings)  # fmt: skip
        call.count, call.c0_stride = inner.dn_num, inner.src_nz_c0_stride
        call.src_matrix, call.dst_matrix = inner.src_nz_matrix_stride * L0C_ROW, inner.dst_dn_matrix_stride
    elif isinstance(inner, Nz2DnParams):
        raise _wrong_inner(inner, "Nz2NdParams" if config.layout == ROW_MAJOR else "0", card)
    elif isinstance(inner, Nz2NdParams) and config.layout == ROW_MAJOR:
        inner = taken(API, inner, {
            "nd_num": (0, 65535), "src_nd_stride": (0, 65535), "dst_nd_stride": (0, _MAX32)
        }, card, warnings)  # fmt: skip
        call.count = inner.nd_num
        call.src_matrix, call.dst_matrix = inner.src_nd_stride * L0C_ROW, inner.dst_nd_stride
    return call


def _wrong_inner(inner: Any, allowed: str, card: Card) -> ParameterError:
    return ParameterError(f"{API}: params does not fit the output format", field="params", value=type(inner).__name__,
                          allowed=allowed, card=card.name)  # fmt: skip


# ---- DataCopy -----------------------------------------------------------------------------------------------------
def of_copy(
    params: DataCopyCO12DstParams, registers: CopyRegisters, src: DataType, dst: DataType, dst_kind: str, card: Card
) -> Request | None:
    """The request of DataCopy with DataCopyCO12DstParams; None where it moves nothing. Raises as `fixpipe.build_copy`."""
    api, new = API_COPY, card.npu_arch == 3510
    mode = _mode(api, params.quant_pre, src, dst, "DataCopy", f"L0C-{dst_kind}", card)
    if mode.only_950:
        raise _unsupported(api, "quant_pre", int(params.quant_pre), "this form has the nine modes of A2",
                           f"0..{LAST_OF_2201}; Fixpipe takes the others", card)  # fmt: skip
    nd = bool(params.nz2nd_en)
    if nd and dst_kind == "L1" and not new:
        raise _unsupported(api, "nz2nd_en", True, "into L1 this card writes NZ only", "False", card)
    if params.elt_wise_op:
        raise _unsupported(api, "elt_wise_op", params.elt_wise_op, "element-wise operations are not in this version", "0",
                           card)  # fmt: skip
    warnings: list[str] = []
    params = taken(api, params, {
        "n_size": (0, 4095), "m_size": (0, _ND_ROWS if nd and not new else 65535, 16), "src_stride": (0, 65535),
        "dst_stride": (1, _MAX32), "relu_pre": (0, 1, 8), "clip_relu_pre": (0, 1, 8),
    }, card, warnings)  # fmt: skip
    clip: float | None = None
    if params.clip_relu_pre:
        if card.npu_arch != 3002:
            raise _unsupported(api, "clip_relu_pre", params.clip_relu_pre, "only the 200I clips", "0", card)
        clip = float(np.array(registers.clip & 0xFFFF, np.uint16).view(np.float16))
        if not clip > 0:
            raise ParameterError(f"{api}: the bound of clip-ReLU must be a half above 0", field="clip_relu_pre", value=clip,
                                 allowed="set_fix_pipe_clip_relu before the call", card=card.name)  # fmt: skip
    count, src_matrix, dst_matrix = registers.matrices if nd else (1, 0, 0)
    call = _Call(
        api, type(params).__name__, card, params.n_size, params.m_size, params.src_stride * L0C_ROW, params.dst_stride,
        BLOCK_BYTES, bool(params.relu_pre), params.unit_flag, bool(params.channel_split), ROW_MAJOR if nd else NZ, count,
        src_matrix * L0C_ROW * (1 if new else SIDE), dst_matrix, clip=clip, warnings=warnings,
    )  # fmt: skip
    word = _scalar_word(call, mode, "deq_scalar", registers.word if mode.word and not mode.table else 0, dst)
    return _request(call, mode, word, src, dst, dst_kind, describe(params))


# ---- common -------------------------------------------------------------------------------------------------------
def _mode(api: str, quant: Any, src: DataType, dst: DataType, name: str, path: str, card: Card) -> Mode:
    """The quantisation mode, which must be the card's and fit types that the path joins."""
    if isinstance(quant, bool) or not isinstance(quant, int) or quant not in MODES:
        raise ParameterError(f"{api}: unknown quantisation mode", field="quant_pre", value=quant,
                             allowed="a member of QuantModes", card=card.name)  # fmt: skip
    rows = rows_for(api, card, name, None, path)
    pairs = [(text.split("*")[0], out) for row in rows for text in row.dtypes for out in text.split("*")[1].split("/")]
    if (src.api_name, dst.api_name) not in pairs:
        raise _unsupported(api, "dtype", f"{src.api_name} -> {dst.api_name}",
                           f"no conversion from {src.api_name} to {dst.api_name} into {path[4:]} on this card",
                           ", ".join(f"{a} -> {b}" for a, b in pairs), card)  # fmt: skip
    mode = MODES[quant]
    if mode.only_950 and card.npu_arch != 3510:
        raise _unsupported(api, "quant_pre", int(quant), f"{mode.name} is for the 950",
                           ", ".join(m.name for m in MODES.values() if not m.only_950), card)  # fmt: skip
    fits = src is dst if not mode.dst else src.name == mode.src and dst.name in mode.dst
    if not fits:
        others = [m.name for m in MODES.values() if m.src == src.name and dst.name in m.dst]
        raise ParameterError(
            f"{api}: quant_pre (quantPre) {mode.name} does not fit {src.name} -> {dst.name}", field="quant_pre",
            value=int(quant), allowed=", ".join(["NoQuant"] * (src is dst) + others), card=card.name,
        )  # fmt: skip
    return mode


def _scalar_word(call: _Call, mode: Mode, field_: str, word: int, dst: DataType) -> int | None:
    """The scalar parameter word of a mode that takes one. Raises ParameterError for an M1 that the unit does not take."""
    if not mode.word or mode.table:
        if word:
            call.warnings.append(f"{field_} has no effect without a quantisation mode that takes one")
        return None
    fault = factor_fault(word)
    if fault:
        raise ParameterError(f"{call.api}: the factor in the parameter word is {fault}", field=field_, value=word,
                             allowed="a normal float in bits 31:0 (bits 12:0 do not count)", card=call.card.name)  # fmt: skip
    if dst.is_int() and (word >> SIGN_BIT & 1) != (dst.name == "int8"):
        call.warnings.append(f"bit {SIGN_BIT} of the parameter word does not fit {dst.name}: 1 saturates to int8, 0 to uint8")
    return word


def _request(
    call: _Call, mode: Mode, word: int | None, src: DataType, dst: DataType, dst_kind: str, detail: str
) -> Request | None:
    unit_flag = check_unit_flag(call.api, call.struct, call.unit_flag, call.card)
    _check_together(call, mode, src, dst, dst_kind)
    if 0 in (call.n, call.m, call.count):
        return None
    plan = _plan(call, dst)
    _warn_overlap(call, plan)
    conversion = Conversion(dst, mode, call.relu, call.card.npu_arch == 2201 and src.name == "int32", call.clip)
    request = Request(call.api, call.format, plan, conversion, word, mode.table, unit_flag, detail, call.warnings, call.dual)
    _chunks(request, call.card)
    return request


def _check_together(call: _Call, mode: Mode, src: DataType, dst: DataType, dst_kind: str) -> None:
    """Rules between fields (spec 12.2)."""
    card, size = call.card, dst.sizeof()

    def refuse(field_: str, value: object, text: str, allowed: str) -> ParameterError:
        return ParameterError(f"{call.api}: {text}", field=field_, value=value, allowed=allowed, card=card.name)

    split_field = "is_channel_split" if call.api == API else "channel_split"
    if call.split:
        if src.name != "float32" or dst.name != "float32":
            raise refuse(split_field, True, "channel split is for float to float", "False")
        if dst_kind != "GM":
            raise _unsupported(call.api, split_field, True, "channel split writes to GM only", "False", card)
        if call.format != NZ:
            raise refuse(split_field, True, "channel split goes with NZ only", "False")
        if call.unit_flag:
            raise refuse(split_field, True, "channel split does not go with unit_flag (unitFlag)", "False")
    if call.format == NZ:
        step = HALF if call.split else SIDE
        if call.n % step:
            raise refuse("n_size", call.n, "NZ needs whole blocks in n_size (nSize)", f"multiples of {step}")
    elif dst_kind != "GM" and card.npu_arch == 3510:
        name, run, text = ("n_size", call.n, "ND") if call.format == ROW_MAJOR else ("m_size", call.m, "DN")
        run = run // 2 if (call.dual == 2 and name == "n_size") else run
        if run * size % BLOCK_BYTES:
            raise refuse(name, call.n if name == "n_size" else call.m, f"{text} into {dst_kind} needs whole 32 B runs",
                         f"multiples of {BLOCK_BYTES // size * (2 if call.dual == 2 else 1)}")  # fmt: skip
    if call.format == COLUMN_MAJOR and call.unit_flag and call.c0_stride != 1:
        raise refuse("unit_flag", call.unit_flag, "unit flags need src_nz_c0_stride (srcNzC0Stride) 1 in NZ2DN", "0")
    if call.dual:
        if dst_kind != "UB":
            raise _unsupported(call.api, "dual_dst_ctl", call.dual, "two destinations are two UBs", _UNSPLIT, card)
        if call.format == COLUMN_MAJOR:
            raise refuse("dual_dst_ctl", call.dual, "NZ2DN has one destination", _UNSPLIT)
        if call.format == NZ and mode is not MODES[0]:
            raise refuse("dual_dst_ctl", call.dual, "NZ to two destinations converts nothing", f"{_UNSPLIT}, or NoQuant")
        if call.dual == 1 and call.m % 2:
            raise refuse("m_size", call.m, "rows for two destinations", "even")
        if call.dual == 2 and call.n % (2 * SIDE):
            raise refuse("n_size", call.n, "columns for two destinations", f"multiples of {2 * SIDE}")


def _plan(call: _Call, dst: DataType) -> Plan:
    size = dst.sizeof()
    if call.format == NZ:
        form = "split" if call.split else "merge" if size == 1 else "nz"
        if form == "merge" and call.n // SIDE % 2:
            call.warnings.append("the bytes of an odd last block of 16 columns of 8 bits are not published: undefined")
        return Plan(call.m, call.n, call.count, call.src_pitch, L0C_ROW, 0, form, size, call.dst_stride * call.nz_unit, 0)
    form = "nd" if call.format == ROW_MAJOR else "dn"
    return Plan(call.m, call.n, call.count, call.src_pitch, L0C_ROW * call.c0_stride, call.src_matrix, form, size,
                call.dst_stride * size, call.dst_matrix * size)  # fmt: skip


def _warn_overlap(call: _Call, plan: Plan) -> None:
    rows = (plan.m - 1) * call.c0_stride + 1
    if plan.n > SIDE and call.src_pitch < rows * L0C_ROW:
        call.warnings.append(f"src_stride {call.src_pitch // L0C_ROW} counts rows: column blocks of {rows} rows overlap in L0C")
    if plan.form == "nd":
        if plan.m > 1 and call.dst_stride < plan.n:
            call.warnings.append(f"rows {call.dst_stride} elements apart overlap: a row has {plan.n}")
        return
    if plan.form == "dn":
        if plan.n > 1 and call.dst_stride < plan.m:
            call.warnings.append(f"columns {call.dst_stride} elements apart overlap: a column has {plan.m}")
        return
    width = {"nz": SIDE, "merge": MERGED, "split": HALF}[plan.form]
    if plan.n > width and plan.step < plan.m * width * plan.size:
        call.warnings.append(f"column blocks {plan.step} B apart overlap: a block has {plan.m * width * plan.size} B")


def _chunks(request: Request, card: Card) -> None:
    """The steps between loads of a long table, as the implementation takes them (spec 12.3)."""
    plan, new = request.plan, card.npu_arch == 3510
    at_once, chunk = (1024, 512) if new else (256, 128)
    if not request.table or plan.form not in ("nz", "merge") or plan.n <= at_once or not card.quirk("fixpipe-table-chunks"):
        return
    right = chunk // (MERGED if plan.form == "merge" else SIDE) * plan.step
    if new:
        request.chunk, request.chunk_step = chunk, right * BLOCK_BYTES // plan.size
    elif plan.form == "merge":
        request.chunk, request.chunk_step = chunk, 2 * right
