"""Mmad and MmadMx: the matrix unit, L0C (+)= L0A x L0B (spec api_semantics.md 12.1, 17, 18)."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import FRACTAL_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import CubeWork, Op, Pipe, cached_hash, camel, describe, taken
from aicore_sim.instructions.cube_layout import L0C_BLOCK, check_unit_flag
from aicore_sim.instructions.cube_numbers import COST_ROWS, MX_COST_ROWS
from aicore_sim.instructions.mmad_effect import SCALE_PAIR, MmadEffect, Product, a_columns
from aicore_sim.instructions.offer import require_rows

API, API_MX = "Mmad", "MmadMx"
_SIZES = {"m": (0, 4095), "n": (0, 4095), "k": (0, 4095)}
_NEUTRAL = ("fm_offset", "en_ssparse", "en_winograd_a", "en_winograd_b")
SCALE_SHARE = 16
"""Address of the scales: that of their operand in L0A or L0B divided by this (spec 1.2, 3.5)."""


@dataclass(frozen=True)
class MmadParams:
    """m, n, k in elements. None stands for the C++ default: unit_flag 0, cmatrix_source False, cmatrix_init_val True.

    The fields up to cmatrix_init_val are pyasc's, in its order; k_direction_align and disable_gemv follow.
    """

    m: int = 0
    n: int = 0
    k: int = 0
    is_bias: bool | None = None
    fm_offset: int | None = None
    en_ssparse: bool | None = None
    en_winograd_a: bool | None = None
    en_winograd_b: bool | None = None
    unit_flag: int | None = None
    cmatrix_source: bool | None = None
    cmatrix_init_val: bool | None = None
    k_direction_align: bool = False
    disable_gemv: bool = False

    __hash__ = cached_hash


def build(
    params: MmadParams,
    dst: DataType,
    fm: DataType,
    filter_: DataType,
    bias: DataType | None,
    bias_kind: str,
    card: Card,
    hf32: str = "",
) -> Op | None:
    """The Op of Mmad(dst, fm, filter[, bias], params); None where m, n or k is 0.

    Operands of the Op: dst (L0C), fm (L0A), filter (L0B) and, where C starts from somewhere else, the bias. `bias` and
    `bias_kind` are None and "" for the call without a bias tensor, else its place: "BT" (a row), "L0C" (the destination
    itself) or "L0C tile" (another tile of L0C, laid out as C). `hf32` is "" or what ties of HF32 mode go to, "even" or
    "zero". Rows past m and columns past n of the last L0C blocks become undefined. Raises UnsupportedError for card and
    element types, ParameterError for ranges and contradicting fields.
    """
    _check_types(API, "*".join(t.api_name for t in (fm, filter_, dst, *([] if bias is None else [bias]))), bias, card)
    warnings: list[str] = []
    params = taken(API, params, _SIZES, card, warnings)
    unit_flag = check_unit_flag(API, type(params).__name__, params.unit_flag or 0, card)
    _check_modes(API, params, card)
    _check_type_rules(params, fm, bias, card)
    start = _start(params, bias is not None, bias_kind, card, warnings)
    if params.m == 0 or params.n == 0 or params.k == 0:
        return None
    cost = COST_ROWS[fm.name]
    if hf32 and fm.name == "float32":
        if card.npu_arch != 3510:
            warnings.append("the width of HF32 on this card is not published: float operands are taken in full")
            hf32 = ""
        cost = "hf32" if card.has("mmad.types.hf32.k0") else cost
    else:
        hf32 = ""
    product = Product(
        params.m, params.n, params.k, fm, filter_, start, zz=card.model.layout["L0A"] == "ZZ", gemv=_gemv(params),
        a_columns=a_columns(params.k, fm) if params.k_direction_align else 0, hf32=hf32,
    )  # fmt: skip
    # A2 and A3 also take 512 B for half operands (spec 1.3).
    narrow = card.npu_arch == 2201 and fm.name == "float16"
    aligns = [FRACTAL_BYTES if narrow else L0C_BLOCK, FRACTAL_BYTES, FRACTAL_BYTES]
    return _op(API, params, product, aligns, cost, unit_flag, warnings)


def build_mx(
    params: MmadParams,
    dst: DataType,
    fm: DataType,
    filter_: DataType,
    bias: DataType | None,
    bias_kind: str,
    card: Card,
) -> Op | None:
    """The Op of MmadMx(dst, fm, filter[, bias], params) on 950; None where m, n or k is 0.

    Operands: dst, fm, filter, the scales of fm (L0AMX) and of filter (L0BMX), and the bias as in `build`. A scale of 2^x
    belongs to 32 elements along k; a scale fractal has 16 rows (columns of B) of 2 scales, and the fractals of one block
    of 16 follow each other along k (spec 3.5). Raises as `build`; ParameterError where k is no multiple of 64.
    """
    given = "*".join((fm.api_name, filter_.api_name, "fp8_e8m0_t", dst.api_name, "float" if bias is None else bias.api_name))
    _check_types(API_MX, given, bias, card)
    warnings: list[str] = []
    params = taken(API_MX, params, _SIZES, card, warnings)
    unit_flag = check_unit_flag(API_MX, type(params).__name__, params.unit_flag or 0, card)
    _check_modes(API_MX, params, card)
    if params.k % SCALE_PAIR:
        raise ParameterError(f"{API_MX}: two scales cover {SCALE_PAIR} elements of k", field="k", value=params.k,
                             allowed=f"multiples of {SCALE_PAIR}", card=card.name)  # fmt: skip
    start = _start(params, bias is not None, bias_kind, card, warnings)
    if params.m == 0 or params.n == 0 or params.k == 0:
        return None
    gemv = _gemv(params)
    if gemv:
        warnings.append("where the scales of a single row lie is not published: row 0 of the scale fractals is taken")
    product = Product(params.m, params.n, params.k, fm, filter_, start, zz=card.model.layout["L0A"] == "ZZ", gemv=gemv,
                      mx=True)  # fmt: skip
    side = FRACTAL_BYTES if fm.bits == 4 else 2 * FRACTAL_BYTES
    return _op(API_MX, params, product, [L0C_BLOCK, side, side, 1, 1], MX_COST_ROWS[fm.name], unit_flag, warnings)


def _op(
    api: str, params: MmadParams, product: Product, aligns: list[int], cost: str, unit_flag: int, warnings: list[str]
) -> Op:
    effect = MmadEffect(product)
    c_bytes = effect.blocks_n * effect.pitch
    if product.start in ("bias", "L0C"):
        aligns.append(64 if product.start == "bias" else L0C_BLOCK)
    return Op(
        api, Pipe.M, CubeWork(cost, product.m, product.n, product.k), nbytes=c_bytes, effect=effect, reads=effect.reads(),
        writes=((0, 0, c_bytes),), unit_flag=unit_flag, accumulates=product.start == "C", aligns=aligns,
        detail=describe(params), warnings=warnings,
    )  # fmt: skip


# ---- checks -------------------------------------------------------------------------------------------------------
def _check_types(api: str, given: str, bias: DataType | None, card: Card) -> None:
    rows = require_rows(api, card, api, "without bias" if bias is None else "with bias")
    listed = [name for row in rows for name in row.dtypes]
    if given not in listed:
        form = "fm*filter*scale*dst*bias" if api == API_MX else "fm*filter*dst[*bias]"
        raise UnsupportedError(f"{api}: this card does not take {given} ({form})", field="dtype",
                               value=given, allowed=", ".join(listed), card=card.name)  # fmt: skip


def _check_modes(api: str, params: MmadParams, card: Card) -> None:
    for field in _NEUTRAL:
        if getattr(params, field):
            raise UnsupportedError(f"{api}: {field} ({camel(field)}) is not in this version", field=field,
                                   value=getattr(params, field),
                                   allowed="None, 0, False", card=card.name)  # fmt: skip
    if params.k_direction_align and card.npu_arch != 2201:
        raise UnsupportedError(f"{api}: k_direction_align (kDirectionAlign) is for A2 and A3", allowed="False",
                               field="k_direction_align", value=True, card=card.name)  # fmt: skip
    if params.disable_gemv and card.npu_arch != 3510:
        raise UnsupportedError(f"{api}: only the 950 can switch GEMV off (disable_gemv, disableGemv)",
                               field="disable_gemv", value=True, allowed="False", card=card.name)  # fmt: skip


def _check_type_rules(params: MmadParams, fm: DataType, bias: DataType | None, card: Card) -> None:
    if params.k_direction_align and fm.bits != 32:
        raise ParameterError(f"{API}: k_direction_align (kDirectionAlign) is for float", field="k_direction_align",
                             value=True, allowed="False", card=card.name)  # fmt: skip
    if fm.bits == 4 and params.cmatrix_source and bias is None:
        raise UnsupportedError(f"{API}: int4 takes no bias, cmatrix_source (cmatrixSource) included", allowed="False",
                               field="cmatrix_source", value=True, card=card.name)  # fmt: skip
    if fm.bits == 4 and params.k % 2:
        raise ParameterError(f"{API}: int4 needs an even k", field="k", value=params.k, allowed="even", card=card.name)


def _gemv(params: MmadParams) -> bool:
    return params.m == 1 and not params.disable_gemv


def _start(params: MmadParams, has_bias: bool, bias_kind: str, card: Card, warnings: list[str]) -> str:
    """What C starts from: "zero", "C" (accumulate), "bias" or "L0C" (spec 12.1, bias call)."""
    from_zero = True if params.cmatrix_init_val is None else bool(params.cmatrix_init_val)
    if params.is_bias and not (has_bias and card.npu_arch == 2201):
        from_zero = False
    if has_bias:
        if from_zero:
            warnings.append("cmatrix_init_val True starts from 0: the bias is lost")
            return "zero"
        return {"BT": "bias", "L0C": "C"}.get(bias_kind, "L0C")
    if from_zero:
        return "zero"
    return "bias" if params.cmatrix_source else "C"
