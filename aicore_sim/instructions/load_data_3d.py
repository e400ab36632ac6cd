"""LoadData with LoadData3DParamsV2: img2col from L1 into L0A or L0B (spec api_semantics.md 5).

The feature map in L1 is (C1, H, W, C0). Its img2col matrix has one row for every output position and one column for
every (C1 group, kernel row, kernel column, channel of the group); the instruction moves a window of that matrix.
`img2col` lowers the window to steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType, encode_scalar
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, cached_hash, check_fields, check_range, describe, movement
from aicore_sim.instructions.cube_layout import SIDE, align_up, ceil_div, local_align, require_dtype, rows_for
from aicore_sim.instructions.img2col import Place, Window, lower

API = "LoadData"
_VARIANT = "LoadData3DParamsV2 and V2Pro"


@dataclass(frozen=True)
class LoadData3DParamsV2:
    """pad_list is left, right, top, bottom; extensions and start points count rows and columns of the img2col matrix.

    l1_h, l1_w, channel_size, k_extension and m_extension are 1 by default, as in pyasc (0 in C++).
    """

    pad_list: Sequence[int] = (0, 0, 0, 0)
    l1_h: int = 1
    l1_w: int = 1
    channel_size: int = 1
    k_extension: int = 1
    m_extension: int = 1
    k_start_pt: int = 0
    m_start_pt: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    en_transpose: bool = False
    pad_value: int | float = 0
    filter_size_w: bool = False
    filter_size_h: bool = False
    f_matrix_ctrl: bool = False

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        if not isinstance(self.pad_list, tuple):
            object.__setattr__(self, "pad_list", tuple(self.pad_list))


_RANGES = {
    "l1_h": (0, 32767), "l1_w": (0, 32767), "channel_size": (0, 65535), "k_extension": (0, 65535),
    "m_extension": (0, 65535), "k_start_pt": (0, 65535), "m_start_pt": (0, 32767), "stride_w": (1, 63),
    "stride_h": (1, 63), "filter_w": (0, 255), "filter_h": (0, 255), "dilation_filter_w": (1, 255),
    "dilation_filter_h": (1, 255),
}  # fmt: skip
_REMAINDERS = {4: (0, 8, 16, 32), 8: (0, 4, 8, 16), 16: (0, 4, 8), 32: (0, 4)}
"""Legal channel_size % C0 by bits of the element (spec 5.2)."""


def build(params: LoadData3DParamsV2, dtype: DataType, src: str, dst: str, card: Card) -> Op | None:
    """The Op of LoadData(dst, src, LoadData3DParamsV2); None where a size is 0.

    A2, A3 and 200I write ZZ in L0A and ZN in L0B (spec 5.4); 950 writes with the column pitch that the plain call
    computes by itself (5.5). L0B is always transposed. Rows past the last output position and the rest of a last
    fractal that the window does not fill become undefined. Raises UnsupportedError for card, path, element type and for
    a last C1 group that is not whole, ParameterError for ranges and for a window that leaves the matrix or starts off a
    fractal.
    """
    path = f"{src}-{dst}"
    require_dtype(API, card, rows_for(API, card, "LoadData_3D", _VARIANT, path), dtype)
    _check(params, dtype, card)
    if 0 in (params.l1_h, params.l1_w, params.channel_size, params.k_extension, params.m_extension) or (
        (params.filter_w == 0 and not params.filter_size_w) or (params.filter_h == 0 and not params.filter_size_h)
    ):
        return None
    transpose = dst == "L0B" or bool(params.en_transpose)
    if transpose and dst == "L0A" and card.npu_arch != 3510 and dtype.bits < 16:
        raise UnsupportedError(f"{API}: en_transpose (enTranspose) into L0A takes 16 and 32 bits on this card",
                               field="dtype", value=dtype.name, allowed="16 and 32 bits", card=card.name)  # fmt: skip
    win = _window(params, dtype, card)
    _check_window(params, win, dtype, card)
    _check_room(params, dtype, dst, card)
    warnings: list[str] = []
    place = _place(params, dtype, dst, transpose, card, warnings)
    # b32 on 950: the lines that fill the last fractal are not defined (5.5); A2 and A3 do not write them (5.4)
    fill_lines = card.npu_arch == 3510 and place.outer >= ceil_div(params.k_extension, SIDE) * FRACTAL_BYTES
    transfer = lower(win, place, _pad_block(params, dtype), fill_lines)
    cost = OnChip(path, "LoadData3DV2", transfer.nbytes, load3d=(params.stride_w, win.kernel_rows))
    return movement(API, Pipe.MTE1, path, transfer, cost, aligns=(local_align(dst), local_align(src)),
                    detail=describe(params), warnings=warnings)  # fmt: skip


# ---- checks -------------------------------------------------------------------------------------------------------
def _check(params: LoadData3DParamsV2, dtype: DataType, card: Card) -> None:
    if len(params.pad_list) != 4:
        raise ParameterError(f"{API}: pad_list (padList) is left, right, top, bottom", field="pad_list",
                             value=str(params.pad_list), allowed="4 numbers", card=card.name)  # fmt: skip
    for pad in params.pad_list:
        check_range(API, type(params).__name__, "pad_list", pad, 0, 255, card.name)
    check_fields(API, params, _RANGES, card.name)
    if params.f_matrix_ctrl:
        if card.npu_arch == 3510:
            raise ParameterError(f"{API}: f_matrix_ctrl (fMatrixCtrl) is False on this card", field="f_matrix_ctrl",
                                 value=True, allowed="False", card=card.name)  # fmt: skip
        raise UnsupportedError(f"{API}: the right feature map register is not in this version", field="f_matrix_ctrl",
                               value=True, allowed="False", card=card.name)  # fmt: skip
    rest = params.channel_size % dtype.c0
    if params.channel_size and rest not in _REMAINDERS[dtype.bits]:
        raise ParameterError(
            f"{API}: channel_size (channelSize) % {dtype.c0} must be one of {_REMAINDERS[dtype.bits]} for {dtype.name}",
            field="channel_size", value=params.channel_size, allowed=f"remainder in {_REMAINDERS[dtype.bits]}",
            card=card.name,
        )  # fmt: skip
    if rest:
        raise UnsupportedError(f"{API}: only whole C0 groups in this version", field="channel_size",
                               value=params.channel_size, allowed=f"multiples of {dtype.c0}",
                               card=card.name)  # fmt: skip
    for field, unit in (("k_start_pt", dtype.c0), ("m_start_pt", SIDE)):
        if getattr(params, field) % unit:
            raise ParameterError(f"{API}: {field} must start at a fractal", field=field, value=getattr(params, field),
                                 allowed=f"multiples of {unit}", card=card.name)  # fmt: skip


def _window(params: LoadData3DParamsV2, dtype: DataType, card: Card) -> Window:
    """The window in terms of the img2col matrix. Raises ParameterError for a kernel or map that is too large."""
    left, right, top, bottom = params.pad_list
    fw, fh = params.filter_w + 256 * params.filter_size_w, params.filter_h + 256 * params.filter_size_h
    spare_w = params.l1_w + left + right - ((fw - 1) * params.dilation_filter_w + 1)
    spare_h = params.l1_h + top + bottom - ((fh - 1) * params.dilation_filter_h + 1)
    for field, spare in (("filter_w", spare_w), ("filter_h", spare_h)):
        if spare < 0:
            raise ParameterError(f"{API}: the dilated kernel is larger than the padded feature map", field=field,
                                 value=getattr(params, field), card=card.name)  # fmt: skip
    nbytes = params.l1_h * params.l1_w * dtype.nbytes(params.channel_size)
    capacity = int(card.value("buffers.L1.size"))
    if nbytes > capacity:
        raise ParameterError(f"{API}: the feature map has {nbytes} B, L1 has {capacity} B", field="l1_w",
                             value=params.l1_w, allowed=f"l1_h * l1_w * channels <= {capacity} B",
                             card=card.name)  # fmt: skip
    return Window(
        w=params.l1_w, h=params.l1_h, left=left, top=top, stride_w=params.stride_w, stride_h=params.stride_h,
        dilation_w=params.dilation_filter_w, dilation_h=params.dilation_filter_h, fw=fw, fh=fh,
        wo=spare_w // params.stride_w + 1, ho=spare_h // params.stride_h + 1, m_start=params.m_start_pt,
        m_extension=params.m_extension, k_start=params.k_start_pt, k_extension=params.k_extension, c0=dtype.c0,
        size=max(dtype.bits // 8, 1),
    )  # fmt: skip


def _check_window(params: LoadData3DParamsV2, win: Window, dtype: DataType, card: Card) -> None:
    """The window stays inside the matrix; an extension is ragged only where it reaches the last fractal (spec 5.2)."""
    m_end, k_end = params.m_start_pt + params.m_extension, params.k_start_pt + params.k_extension
    m_limit = align_up(win.rows, SIDE)
    columns = params.channel_size * win.fw * win.fh
    for field, end, limit in (("m_extension", m_end, m_limit), ("k_extension", k_end, columns)):
        if end > limit:
            raise ParameterError(
                f"{API}: the window ends at {end}, the img2col matrix has {win.rows} rows and {columns} columns",
                field=field, value=getattr(params, field), allowed=f"start + {field} <= {limit}", card=card.name,
            )  # fmt: skip
    ragged_m = params.m_extension % SIDE and dtype.bits < 32 and m_end <= m_limit - SIDE
    ragged_k = params.k_extension % dtype.c0 and k_end <= columns - dtype.c0
    for field, ragged, unit in (("m_extension", ragged_m, SIDE), ("k_extension", ragged_k, dtype.c0)):
        if ragged:
            raise ParameterError(
                f"{API}: {field} must be whole fractals unless it reaches the last one", field=field,
                value=getattr(params, field), allowed=f"multiples of {unit}", card=card.name,
            )  # fmt: skip


def _check_room(params: LoadData3DParamsV2, dtype: DataType, dst: str, card: Card) -> None:
    """The fractals of the window fit the destination buffer at all (spec 16, L1_ILLEGAL_K_M_EXT_STEP)."""
    capacity = int(card.value(f"buffers.{dst}.size"))
    nbytes = align_up(params.m_extension, SIDE) * ceil_div(params.k_extension, dtype.c0) * BLOCK_BYTES
    if nbytes > capacity:
        raise ParameterError(f"{API}: the window has {nbytes} B, {dst} has {capacity} B", field="m_extension",
                             value=params.m_extension, allowed=f"m_extension * k_extension <= {capacity} B",
                             card=card.name)  # fmt: skip


# ---- destination -----------------------------------------------------------------------------------------------
def _place(
    params: LoadData3DParamsV2, dtype: DataType, dst: str, transpose: bool, card: Card, warnings: list[str]
) -> Place:
    m, k, c0, size = params.m_extension, params.k_extension, dtype.c0, dtype.bits // 8
    new = card.npu_arch == 3510
    pitch = ceil_div(k if params.en_transpose else m, SIDE) * FRACTAL_BYTES  # what the 950 call programs (5.5)
    if not transpose:
        rows = align_up(m, SIDE)
        if new:
            return Place(SIDE, FRACTAL_BYTES, BLOCK_BYTES, 1, pitch, 0, size, rows)
        return Place(SIDE, ceil_div(k, c0) * FRACTAL_BYTES, BLOCK_BYTES, 1, FRACTAL_BYTES, 0, size, rows)
    rows = align_up(m, c0)
    line = c0 * BLOCK_BYTES  # a column block is C0 rows of 32 B once transposed
    if dst == "L0A" and not new:
        # ZZ: 16 columns of the window make a row of fractals, so 8-column blocks of b32 pair up
        row_of_fractals = align_up(m, SIDE) // c0 * FRACTAL_BYTES
        return Place(c0, FRACTAL_BYTES, size, max(SIDE // c0, 1), row_of_fractals, line, BLOCK_BYTES, rows)
    needed = ceil_div(k, SIDE) * FRACTAL_BYTES
    if not new:
        pitch = needed
    elif dst == "L0B" and pitch != needed:
        warnings.append(
            f"into L0B with en_transpose False the column pitch is ceil(m_extension/16) = {pitch // FRACTAL_BYTES}"
            f" fractals where the transposed data needs {needed // FRACTAL_BYTES}: set en_transpose"
        )
    return Place(c0, pitch, size, 1, line, 0, BLOCK_BYTES, rows)


def _pad_block(params: LoadData3DParamsV2, dtype: DataType) -> bytes:
    """32 B of the padding value; raw bytes for the types that numpy lacks."""
    if dtype.np_dtype is None:
        return bytes([int(params.pad_value) & 0xFF]) * BLOCK_BYTES
    try:
        one = encode_scalar(params.pad_value, dtype)
    except ParameterError as error:
        error.field = "pad_value"
        raise
    return one * (BLOCK_BYTES // len(one))
