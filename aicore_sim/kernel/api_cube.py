"""mmad and fixpipe, as a kernel calls them (spec pyasc.md 6.1). They do nothing on a vector core."""

from __future__ import annotations

from typing import Any, NoReturn

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import fixpipe as fix
from aicore_sim.instructions import mmad as cube
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.fixpipe import FixpipeConfig, FixpipeParamsArch3510, FixpipeParamsV220
from aicore_sim.instructions.fixpipe_params import ROW_MAJOR
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.memory import Buffer

__all__ = ["fixpipe", "mmad", "mmad_mx"]

_ROW_MAJOR = FixpipeConfig(ROW_MAJOR)
_SCALES = {"L0A": "L0AMX", "L0B": "L0BMX"}


class _Operand:
    """An operand that no tensor of the kernel stands for: `size` elements (None: not stated) at a byte offset of a buffer."""

    __slots__ = ("buffer", "dtype", "kind", "l2_hint", "offset", "size")

    def __init__(self, buffer: Buffer, offset: int, dtype: DataType, size: int | None = None) -> None:
        self.buffer = buffer
        self.kind = buffer.kind
        self.offset = offset
        self.dtype = dtype
        self.size = size
        self.l2_hint = ""


# ---- mmad ---------------------------------------------------------------------------------------------------------
def mmad(dst: Any, fm: Any, filter: Any, *args: Any, bias: Any = None, params: MmadParams | None = None) -> None:
    """Mmad(dst, fm, filter[, bias], params): dst (+)= fm x filter, on L0A, L0B and L0C.

    A bias in the bias table is a row for all rows of dst, one in L0C a tile laid out as dst. cmatrix_source True without a
    bias tensor starts from the bias table at address 0. Float operands follow set_hf32_mode. Raises as `mmad.build`.
    """
    rec = current()
    if not rec.on_aic:
        return
    params, bias = _mmad_arguments("mmad", args, bias, params)
    state = rec.state
    hf32 = ("zero" if state.get("hf32_trans") else "even") if state.get("hf32") else ""
    _multiply(rec, "mmad", dst, fm, filter, bias, params, hf32)


def mmad_mx(dst: Any, fm: Any, filter: Any, *args: Any, bias: Any = None, params: MmadParams | None = None) -> None:
    """MmadMx(dst, fm, filter[, bias], params), 950: as mmad, with a scale 2^x for every 32 elements along k.

    The scales lie in L0AMX and L0BMX at the address of their operand divided by 16. Raises as `mmad.build_mx`.
    """
    rec = current()
    if not rec.on_aic:
        return
    params, bias = _mmad_arguments("mmad_mx", args, bias, params)
    _multiply(rec, "mmad_mx", dst, fm, filter, bias, params, "")


def _mmad_arguments(name: str, args: tuple[Any, ...], bias: Any, params: Any) -> tuple[MmadParams, Any]:
    if args:
        params = args[-1]
        if len(args) == 2:
            bias = args[0]
    if not isinstance(params, MmadParams) or len(args) > 2:
        raise ParameterError(f"{name} takes (dst, fm, filter, params) or (dst, fm, filter, bias, params)", field="params",
                             value=type(params).__name__, allowed="MmadParams")  # fmt: skip
    return params, bias


def _multiply(
    rec: Recorder, name: str, dst: Any, fm: Any, filter_: Any, bias: Any, params: MmadParams, hf32: str
) -> None:
    bias_dtype, bias_kind = (None, "") if bias is None else (bias.dtype, bias.kind)
    if bias_kind == "L0C" and bias.offset != dst.offset:
        bias_kind = "L0C tile"
    key = (name, params, dst.dtype, fm.dtype, filter_.dtype, bias_dtype, dst.kind, fm.kind, filter_.kind, bias_kind, hf32)
    op = rec.ops.get(key)
    if op is None:
        op = _build_mmad(rec, name, dst, fm, filter_, bias, bias_kind, params, hf32)
        if op is None:
            rec.session.warn(f"{'Mmad' if name == 'mmad' else 'MmadMx'}: m, n or k of 0 computes nothing", rec.line(3))
            return
        rec.ops[key] = op
    operands = [dst, fm, filter_]
    if name == "mmad_mx":
        operands += [_scale_of(rec, fm), _scale_of(rec, filter_)]
    if len(op.aligns) > len(operands):
        operands.append(_Operand(rec.buffers["BT"], 0, dst.dtype) if bias is None else bias)
    if op.unit_flag:
        rec.state["unit_flags"] = True
    rec.emit(op, *operands)


def _build_mmad(
    rec: Recorder, name: str, dst: Any, fm: Any, filter_: Any, bias: Any, bias_kind: str, params: MmadParams, hf32: str
) -> Op | None:
    api = cube.API if name == "mmad" else cube.API_MX
    check_kinds(api, rec, (("dst", dst, ("L0C",)), ("fm", fm, ("L0A",)), ("filter", filter_, ("L0B",))))
    if bias is not None:
        check_kinds(api, rec, (("bias", bias, ("BT", "L0C")),))
    bias_dtype = None if bias is None else bias.dtype
    if name == "mmad":
        return cube.build(params, dst.dtype, fm.dtype, filter_.dtype, bias_dtype, bias_kind, rec.card, hf32)
    return cube.build_mx(params, dst.dtype, fm.dtype, filter_.dtype, bias_dtype, bias_kind, rec.card)


def _scale_of(rec: Recorder, tensor: Any) -> _Operand:
    """Where the scales of an operand lie."""
    return _Operand(rec.buffers[_SCALES[tensor.kind]], tensor.offset // cube.SCALE_SHARE, DataType("fp8_e8m0"))


def check_kinds(api: str, rec: Recorder, operands: tuple[tuple[str, Any, tuple[str, ...]], ...]) -> None:
    """Raise UnsupportedError unless every (name, tensor, buffers) lies in one of its buffers."""
    for name, tensor, kinds in operands:
        if tensor.kind not in kinds:
            raise UnsupportedError(f"{api}: {name} cannot be in {tensor.kind}", field=name, value=tensor.kind,
                                   allowed=", ".join(kinds), card=rec.card.name)  # fmt: skip


# ---- fixpipe ------------------------------------------------------------------------------------------------------
def fixpipe(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Fixpipe(dst, src, params, config) or (dst, src, cbuf_workspace, params, config): a result out of L0C into GM, L1 or UB.

    `params` is FixpipeParamsV220 or FixpipeParamsArch3510, `config` a FixpipeConfig (row major). `cbuf_workspace` is a
    uint64 tensor in L1 with a parameter word a column. On 950 a destination in UB names the place in the UB of vector core
    `params.sub_block_id` of the group, or of both with `params.dual_dst_ctl`. Raises as `fixpipe.build`, and
    UnsupportedError for UB in a kernel without vector cores.
    """
    rec = current()
    if not rec.on_aic:
        return
    if len(args) == 1 and not kwargs:
        table, params, config = None, args[0], _ROW_MAJOR
    elif len(args) == 2 and not kwargs and type(args[1]) is FixpipeConfig:
        table, params, config = None, args[0], args[1]
    else:
        table, params, config = _fixpipe_arguments(args, kwargs)
    if not isinstance(params, (FixpipeParamsV220, FixpipeParamsArch3510)):
        _refuse_fixpipe(params, config)
    table_key = None if table is None else (table.kind, table.dtype)
    key = ("fixpipe", params, config, src.dtype, dst.dtype, src.kind, dst.kind, table_key)
    op = rec.ops.get(key)
    if op is None:
        check_kinds("Fixpipe", rec, (("src", src, ("L0C",)),))
        if table is not None:
            check_table("Fixpipe", rec, "cbuf_workspace", table, "L1")
        op = fix.build(params, config, src.dtype, dst.dtype, dst.kind, rec.card, table is not None)
        if op is None:
            rec.session.warn("Fixpipe: a size or matrix count of 0 moves nothing", rec.line())
            return
        rec.ops[key] = op
    operands = [dst, src]
    dual = False
    if isinstance(params, FixpipeParamsArch3510) and config.is_to_ub:
        dual = bool(params.dual_dst_ctl)
        operands[0] = _of_vector_core(rec, dst, 0 if dual else int(params.sub_block_id))
    if len(op.aligns) > 2 + dual:
        operands.append(table)
    if dual:
        operands.append(_of_vector_core(rec, dst, 1))
    if op.unit_flag:
        rec.state["unit_flags"] = True
    rec.emit(op, *operands)


def _fixpipe_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(cbuf_workspace or None, params, config) of a call in any spelling. Raises ParameterError for another form."""
    given, rest = list(args), dict(kwargs)
    table = rest.pop("cbuf_workspace", None)
    if given and table is None and hasattr(given[0], "buffer"):
        table = given.pop(0)
    params = given.pop(0) if given else rest.pop("params", None)
    config = given.pop(0) if given else rest.pop("config", _ROW_MAJOR)
    if given or rest or not isinstance(config, FixpipeConfig):
        _refuse_fixpipe(params, config, *given, *rest)
    return table, params, config


def _refuse_fixpipe(params: Any, config: Any, *others: Any) -> NoReturn:
    wrong = config if not isinstance(config, FixpipeConfig) else others[0] if others else params
    raise ParameterError(
        "fixpipe takes (dst, src[, cbuf_workspace], params, config)",
        field="config" if wrong is config else "arguments" if others else "params",
        value=wrong if isinstance(wrong, str) else type(wrong).__name__,
        allowed="FixpipeParamsV220, FixpipeParamsM300, FixpipeParamsArch3510; FixpipeConfig",
    )


def check_table(api: str, rec: Recorder, field: str, table: Any, kind: str) -> None:
    """A table of parameter words is a uint64 tensor in its buffer. Raises UnsupportedError, ParameterError."""
    check_kinds(api, rec, ((field, table, (kind,)),))
    if table.dtype.name != "uint64":
        raise ParameterError(f"{api}: a table of parameter words is uint64", field=field, value=table.dtype.name,
                             allowed="uint64", card=rec.card.name)  # fmt: skip


def _of_vector_core(rec: Recorder, dst: Any, which: int) -> _Operand:
    """The tensor's place in the UB of a vector core of this group."""
    if which >= len(rec.group_ub):
        raise UnsupportedError("Fixpipe: no such vector core in this kernel's group", field="sub_block_id",
                               value=which, allowed=f"vector cores in the group: {len(rec.group_ub)}",
                               card=rec.card.name)  # fmt: skip
    return _Operand(rec.group_ub[which], dst.offset, dst.dtype, dst.size)
