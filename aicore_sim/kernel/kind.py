"""Which cores a kernel runs on: decided by its kernel type, else by the functions and positions its source names.

The source of the kernel and of the functions it calls (found through globals and closures) is read as an AST; it is not
executed. A kernel that names both cube and vector work is a mix kernel of one AIC and two AIVs (DESIGN: Kernels).
"""

from __future__ import annotations

import ast
import inspect
import logging
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from aicore_sim.kernel.enums import KernelType, TPosition

_log = logging.getLogger("aicore_sim.kernel")

CUBE_APIS = frozenset({
    "load_data", "load_data_with_stride", "load_data_with_transpose", "load_data_with_sparse", "load_data_mx",
    "load_image_to_local", "mmad", "mmad_mx", "mmad_with_sparse", "fixpipe", "set_fix_pipe_config",
    "set_fix_pipe_pre_quant_flag",
    "set_fixpipe_nz2nd_flag", "set_load_data_boundary", "set_load_data_padding_value", "set_load_data_repeat",
    "broadcast_vec_to_mm", "data_copy_l1_to_ub", "fill", "init_const_value", "load_unzip_index",
    "set_aipp_functions", "set_fmatrix", "set_hf32_mode", "set_hf32_trans_mode", "set_load_data_repeat_with_stride",
    "set_mm_column_major", "set_mm_layout_transform", "set_mm_row_major",
})  # fmt: skip
CUBE_TYPES = frozenset({
    "LoadData2DParams", "LoadData2DParamsV2", "LoadData3DParamsV1", "LoadData3DParamsV2", "LoadData3DParamsV2Pro",
    "LoadData2dTransposeParams", "LoadData2dTransposeParamsV2", "Load2DBitModeParam", "Load3DBitModeParam",
    "MmadParams", "FixpipeParamsV220", "FixpipeParamsArch3510", "Nd2NzParams", "Dn2NzParams", "DataCopyCO12DstParams",
})  # fmt: skip
VECTOR_APIS = frozenset({
    "add", "add_deq_relu", "add_relu", "bitwise_and", "bitwise_or", "div", "fused_mul_add", "fused_mul_add_relu",
    "max", "min", "mul", "mul_add_dst", "sub", "sub_relu", "mul_cast", "add_relu_cast", "sub_relu_cast", "adds",
    "leaky_relu", "maxs", "mins", "muls", "shift_left", "shift_right", "axpy", "abs", "exp", "ln", "bitwise_not",
    "reciprocal", "relu", "rsqrt", "sqrt", "cast", "duplicate", "brcb", "compare", "compare_scalar", "get_cmp_mask",
    "set_cmp_mask", "select", "gatherb", "gather", "gather_mask", "block_reduce_sum", "block_reduce_max",
    "block_reduce_min", "pair_reduce_sum", "repeat_reduce_sum", "whole_reduce_max", "whole_reduce_min",
    "whole_reduce_sum", "reduce_max", "reduce_min", "reduce_sum", "scatter", "transpose", "trans_data_to_5hd",
    "cast_deq", "set_deq_scale", "mrg_sort", "mrg_sort4", "sort", "sort32", "rp_sort16", "proposal_concat",
    "proposal_extract", "bilinear_interpolation", "copy", "data_copy_pad", "set_pad_value", "nd_dma_dci",
    "set_loop_mode_para", "reset_loop_mode_para",
})  # fmt: skip
VECTOR_TYPES = frozenset({
    "LocalTensorAuto", "NdDmaParams", "NdDmaLoopInfo", "NdDmaConfig", "MultiCopyParams", "MultiCopyLoopInfo",
    "BinaryRepeatParams", "UnaryRepeatParams", "CopyRepeatParams",
})  # fmt: skip
CUBE_POSITIONS = frozenset({"A1", "A2", "B1", "B2", "C1", "C2", "CO1", "CO2", "TSCM", "C2PIPE2GM"})
VECTOR_POSITIONS = frozenset({"VECIN", "VECOUT", "VECCALC"})

_CUBE = CUBE_APIS | CUBE_TYPES
_VECTOR = VECTOR_APIS | VECTOR_TYPES
_BOTH_SIDES = frozenset({"data_copy_pad", "Nd2NzParams"})
"""Names that serve both sides: they say nothing, the positions of their tensors do."""

_KINDS = {
    KernelType.AIV_ONLY: "aiv", KernelType.MIX_AIV_HARD_SYNC: "aiv", KernelType.MIX_AIV_1_0: "aiv",
    KernelType.AIC_ONLY: "aic", KernelType.MIX_AIC_HARD_SYNC: "aic", KernelType.MIX_AIC_1_0: "aic",
    KernelType.MIX_AIC_1_1: "mix", KernelType.MIX_AIC_1_2: "mix",
}  # fmt: skip


def kernel_kind(fn: Callable[..., Any], kernel_type: KernelType | None = None) -> str:
    """ "aic", "aiv" or "mix" for a kernel function (or jit function).

    `kernel_type` wins; else what the source names decides, "aiv" if nothing does.
    """
    if kernel_type is not None:
        return _KINDS[kernel_type]
    found = {side for side in _sides(_plain(fn), set())}
    if not found & {"cube", "vector"}:
        return "aiv"
    return "mix" if {"cube", "vector"} <= found else "aic" if "cube" in found else "aiv"


def vectors_per_block(kernel_type: KernelType | None) -> int:
    """Vector cores beside one cube core of a mix kernel: 2 unless the type says 1:1."""
    return 1 if kernel_type is KernelType.MIX_AIC_1_1 else 2


def scheduler_on(kernel_type: KernelType | None) -> bool:
    """False for the pure types, whose launch starts no cross-core scheduler (spec api_semantics.md 21)."""
    return kernel_type not in (KernelType.AIV_ONLY, KernelType.AIC_ONLY)


def _plain(fn: Any) -> Any:
    """The Python function behind a jit function."""
    inner = inspect.getattr_static(fn, "fn", None)  # an ordinary look-up is a use, which placeholders refuse
    return inner if inspect.isfunction(inner) else fn


def _sides(fn: Any, seen: set[int]) -> Iterator[str]:
    """ "cube" and "vector" for everything that `fn` and the functions it calls name."""
    if id(fn) in seen:
        return
    seen.add(id(fn))
    tree = _source(fn)
    if tree is None:
        return
    names = _names_of(fn)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _attribute(node, names)
            target = _resolve(node, names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            target = names.get(node.id)
            yield from _value(target)
        else:
            continue
        called = _plain(target)
        if inspect.isfunction(called) and not _is_ours(called.__module__):
            yield from _sides(called, seen)


def _source(fn: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):
        name = getattr(fn, "__qualname__", str(fn))
        _log.warning("no source of %s: cannot tell its cores, pass kernel_type if it is not a vector kernel", name)
        return None


def _names_of(fn: Any) -> Mapping[str, Any]:
    """Names the function can see: globals, then its closure."""
    names = dict(getattr(fn, "__globals__", {}))
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars if code is not None else (), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    return names


def _is_ours(module: str | None) -> bool:
    """True for the interface itself: this package and the `asc` package over it."""
    root = (module or "").split(".", 1)[0]
    return root in ("aicore_sim", "asc")


def _resolve(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The object a dotted name stands for, through modules only; None if it cannot be told without running code."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, names)
        if isinstance(owner, ModuleType):
            return getattr(owner, node.attr, None)
    return None


def _attribute(node: ast.Attribute, names: Mapping[str, Any]) -> Iterator[str]:
    """What `asc.mmad`, `asc.TPosition.A1` or `TPosition.A1` says."""
    owner = _resolve(node.value, names)
    if owner is TPosition or (isinstance(node.value, ast.Attribute) and node.value.attr == "TPosition"):
        yield from _position(node.attr)
    elif isinstance(owner, ModuleType) and _is_ours(owner.__name__) and owner.__name__.rpartition(".")[2] == "te":
        yield "cube"  # the Tensor API serves the cube's memories only
    elif isinstance(owner, ModuleType) and _is_ours(owner.__name__):
        yield from _named(node.attr)
        yield from _value(getattr(owner, node.attr, None))


def _value(value: Any) -> Iterator[str]:
    """What an object reached by a bare name says: a position, or a function or type of the interface."""
    if isinstance(value, TPosition):
        yield from _position(value.name)
    elif (inspect.isfunction(value) or inspect.isclass(value)) and _is_ours(getattr(value, "__module__", None)):
        yield from _named(value.__name__)


def _position(name: str) -> Iterator[str]:
    if name in CUBE_POSITIONS:
        yield "cube"
    elif name in VECTOR_POSITIONS:
        yield "vector"


def _named(name: str) -> Iterator[str]:
    if name in _BOTH_SIDES:
        return
    if name in _CUBE:
        yield "cube"
    elif name in _VECTOR:
        yield "vector"
