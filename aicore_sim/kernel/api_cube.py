"""mmad and fixpipe, as a kernel calls them (spec pyasc.md 6.1). They do nothing on a vector core."""

from __future__ import annotations

from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import fixpipe as fix
from aicore_sim.instructions import mmad as cube
from aicore_sim.instructions.fixpipe import FixpipeConfig, FixpipeParamsArch3510, FixpipeParamsV220
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.memory import Buffer

__all__ = ["fixpipe", "mmad"]

_ROW_MAJOR = FixpipeConfig(fix.ROW_MAJOR)


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

    cmatrix_source True without a bias tensor starts from the bias table at address 0. Raises as `mmad.build`, and
    UnsupportedError for a bias in L0C that is not the destination itself.
    """
    rec = current()
    if not rec.on_aic:
        return
    if args:
        params = args[-1]
        if len(args) == 2:
            bias = args[0]
    if not isinstance(params, MmadParams) or len(args) > 2:
        raise ParameterError("mmad takes (dst, fm, filter, params) or (dst, fm, filter, bias, params)", field="params",
                             value=type(params).__name__, allowed="MmadParams")  # fmt: skip
    bias_dtype, bias_kind = (None, "") if bias is None else (bias.dtype, bias.kind)
    key = ("mmad", params, dst.dtype, fm.dtype, filter.dtype, bias_dtype, dst.kind, fm.kind, filter.kind, bias_kind)
    op = rec.ops.get(key)
    if op is None:
        _check_kinds("Mmad", rec, (("dst", dst, ("L0C",)), ("fm", fm, ("L0A",)), ("filter", filter, ("L0B",))))
        if bias is not None:
            _check_kinds("Mmad", rec, (("bias", bias, ("BT", "L0C")),))
        op = cube.build(params, dst.dtype, fm.dtype, filter.dtype, bias_dtype, bias_kind, rec.card)
        if op is None:
            rec.session.warn("Mmad: m, n or k of 0 computes nothing", rec.line())
            return
        rec.ops[key] = op
    if bias_kind == "L0C" and bias.offset != dst.offset and op.accumulates:
        raise UnsupportedError("Mmad: a bias in L0C must be the destination itself in this version", field="bias",
                               value=bias.offset, allowed=str(dst.offset), card=rec.card.name)  # fmt: skip
    if len(op.aligns) == 3:
        rec.emit(op, dst, fm, filter)
    else:
        rec.emit(op, dst, fm, filter, _Operand(rec.buffers["BT"], 0, dst.dtype) if bias is None else bias)


def _check_kinds(api: str, rec: Recorder, operands: tuple[tuple[str, Any, tuple[str, ...]], ...]) -> None:
    for name, tensor, kinds in operands:
        if tensor.kind not in kinds:
            raise UnsupportedError(f"{api}: {name} cannot be in {tensor.kind}", field=name, value=tensor.kind,
                                   allowed=", ".join(kinds), card=rec.card.name)  # fmt: skip


# ---- fixpipe ------------------------------------------------------------------------------------------------------
def fixpipe(
    dst: Any, src: Any, params: FixpipeParamsV220 | FixpipeParamsArch3510, config: FixpipeConfig = _ROW_MAJOR
) -> None:
    """Fixpipe(dst, src, params, config): a result out of L0C into GM, L1 or UB.

    On 950 a destination in UB names the place in the UB of vector core `params.sub_block_id` of the group. Raises as
    `fixpipe.build`; UnsupportedError for the form with a table of scales and for UB in a kernel without vector cores.
    """
    rec = current()
    if not rec.on_aic:
        return
    if not isinstance(params, (FixpipeParamsV220, FixpipeParamsArch3510)) or not isinstance(config, FixpipeConfig):
        _refuse_fixpipe(params, config)
    key = ("fixpipe", params, config, src.dtype, dst.dtype, src.kind, dst.kind)
    op = rec.ops.get(key)
    if op is None:
        _check_kinds("Fixpipe", rec, (("src", src, ("L0C",)),))
        op = fix.build(params, config, src.dtype, dst.dtype, dst.kind, rec.card)
        if op is None:
            rec.session.warn("Fixpipe: a size or matrix count of 0 moves nothing", rec.line())
            return
        rec.ops[key] = op
    if config.is_to_ub:
        dst = _of_vector_core(rec, dst, params)
    rec.emit(op, dst, src)


def _refuse_fixpipe(params: Any, config: Any) -> None:
    if hasattr(params, "buffer"):
        raise UnsupportedError("Fixpipe: the form with cbuf_workspace is not in this version", field="cbuf_workspace",
                               allowed="(dst, src, params, config)")  # fmt: skip
    wrong = params if isinstance(config, FixpipeConfig) else config
    raise ParameterError(
        "fixpipe takes (dst, src, params, config)",
        field="params" if wrong is params else "config",
        value=type(wrong).__name__,
        allowed="FixpipeParamsV220, FixpipeParamsM300, FixpipeParamsArch3510; FixpipeConfig",
    )


def _of_vector_core(rec: Recorder, dst: Any, params: Any) -> _Operand:
    """The tensor's place in the UB of a vector core of this group."""
    which = int(params.sub_block_id)
    if which >= len(rec.group_ub):
        raise UnsupportedError("Fixpipe: no such vector core in this kernel's group", field="sub_block_id",
                               value=which, allowed=f"vector cores in the group: {len(rec.group_ub)}",
                               card=rec.card.name)  # fmt: skip
    return _Operand(rec.group_ub[which], dst.offset, dst.dtype, dst.size)
