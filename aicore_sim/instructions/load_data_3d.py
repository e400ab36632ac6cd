"""3-D loads: img2col from L1 into L0A or L0B (spec api_semantics.md 5, hardware checks of 16).

The feature map in L1 is (C1, H, W, C0). Its img2col matrix has one row for every output position and one column for
every (C1 group, kernel row, kernel column, channel of the group); the instruction moves a window of that matrix, or
several windows as the repeat register says. `img2col` lowers them to steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, FRACTAL_BYTES, DataType
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Op, Pipe, Range, describe, movement, taken
from aicore_sim.instructions.cube_layout import SIDE, align_up, ceil_div, local_align
from aicore_sim.instructions.img2col import Place, Window, lower
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.instructions.load_3d_registers import ONCE, FeatureMap, Padding, Repeat, feature_map
from aicore_sim.instructions.offer import require_dtype, rows_for
from aicore_sim.transfer import Fill, Step, Transfer, strided_fill

NO_MAP = "the feature map register was never set (set_fmatrix): all that is written is undefined"
NO_PADDING = "the padding register was never set (set_load_data_padding_value): the padding is undefined"
INFERRED = (
    "channel_size % {c0} = {rest}: how the last channels are stored is not stated; taken: (H, W, {rest}), their columns"
    " without padding"
)

_RANGES: dict[str, Range] = {
    "channel_size": (0, 65535), "k_extension": (0, 65535), "m_extension": (0, 65535), "k_start_pt": (0, 65535),
    "m_start_pt": (0, 32767, 16), "stride_w": (1, 63), "stride_h": (1, 63), "filter_w": (0, 255), "filter_h": (0, 255),
    "dilation_filter_w": (1, 255), "dilation_filter_h": (1, 255),
}  # fmt: skip
_MAP_RANGES: dict[str, Range] = {"l1_h": (0, 32767, 16), "l1_w": (0, 32767, 16)}
_REMAINDERS = {4: (0, 8, 16, 32), 8: (0, 4, 8, 16), 16: (0, 4, 8), 32: (0, 4)}
"""Legal channel_size % C0 by bits of the element (spec 5.2)."""


@dataclass(frozen=True)
class Form:
    """One way to call a 3-D load: name in messages, row of the card's API list, ranges of fields."""

    api: str
    row: str
    variant: str | None
    ranges: tuple[tuple[str, Range], ...]


V2 = Form("LoadData", "LoadData_3D", "LoadData3DParamsV2 and V2Pro", tuple(_RANGES.items()))
WITH_STRIDE = Form("LoadDataWithStride", "LoadDataWithStride", None, V2.ranges)
# the page of the bit mode knows no sizes of 0 (spec 4.4)
_POSITIVE = {name: (1, _RANGES[name][1]) for name in ("channel_size", "k_extension", "m_extension", "filter_w", "filter_h")}
BIT_MODE = Form("LoadData", "LoadData_3D_BitMode", None, tuple((_RANGES | _POSITIVE).items()))


class Registers(NamedTuple):
    """What a call finds in the registers (None: never set). `own_*` are True where the call programs them itself."""

    own_map: bool = True
    own_padding: bool = True
    fmap: FeatureMap | None = None
    padding: Padding | None = None
    repeat: Repeat = ONCE


OWN = Registers()


def own_pitch(params: LoadData3DParamsV2) -> int:
    """Column pitch in fractals that the plain call computes on 950 (spec 5.5)."""
    return ceil_div(params.k_extension if params.en_transpose else params.m_extension, SIDE)


def build(params: LoadData3DParamsV2, dtype: DataType, src: str, dst: str, card: Card, registers: Registers = OWN,
          form: Form = V2) -> Op | None:  # fmt: skip
    """The Op of a 3-D load; None where a size or repeat_time is 0.

    A2, A3 and 200I write ZZ in L0A and ZN in L0B (spec 5.4); 950 writes with a column pitch (5.5). L0B is always
    transposed. Rows past the last output position and the rest of a last fractal that the window does not fill become
    undefined. Raises UnsupportedError for card, path and element type, ParameterError for ranges and for a window that
    leaves the matrix or starts off a fractal.
    """
    path = f"{src}-{dst}"
    require_dtype(form.api, card, rows_for(form.api, card, form.row, form.variant, path), dtype)
    warnings: list[str] = []
    params = _taken(params, dtype, card, registers, form, warnings)
    fmap = _map(params, card, registers, form, warnings)
    if _is_nop(params, fmap, registers.repeat):
        return None
    transpose = dst == "L0B" or bool(params.en_transpose)
    if transpose and dst == "L0A" and card.npu_arch != 3510 and dtype.bits < 16:
        raise UnsupportedError(f"{form.api}: en_transpose (enTranspose) into L0A takes 16 and 32 bits on this card",
                               field="dtype", value=dtype.name, allowed="16 and 32 bits", card=card.name)  # fmt: skip
    win = _window(params, fmap, registers.repeat, dtype, card)
    if fmap is None:
        warnings.append(NO_MAP)
    else:
        _check_map(params, fmap, win, dtype, card)
        _check_window(params, win, dtype, card)
    _check_iterations(params, win, dtype, card)
    _check_room(win, dst, card)
    if win.channels % win.c0:
        warnings.append(INFERRED.format(c0=win.c0, rest=win.channels % win.c0))
    place, overlap = _place(params, win, dst, transpose, card, registers.repeat.pitch, warnings)
    # b32 on 950: the lines that fill the last fractal are not defined (5.5); A2 and A3 do not write them (5.4)
    fill_lines = card.npu_arch == 3510
    pad = _padding(params, dtype, registers, card)
    transfer = lower(win, place, pad or bytes(BLOCK_BYTES), fill_lines)
    if any(isinstance(step, Fill) and not step.undefined for step in transfer.steps):
        _about_padding(params, dtype, pad, registers, card, warnings)
        transfer = transfer if pad else lower(win, place, None, fill_lines)
    transfer = Transfer((*transfer.steps, *overlap))
    cost = OnChip(path, "LoadData3DV2", transfer.nbytes, load3d=(params.stride_w, win.kernel_rows))
    return movement(form.api, Pipe.MTE1, path, transfer, cost, aligns=(local_align(dst), local_align(src)),
                    detail=_detail(params, registers.repeat), warnings=warnings)  # fmt: skip


# ---- fields -------------------------------------------------------------------------------------------------------
def _taken(params: LoadData3DParamsV2, dtype: DataType, card: Card, registers: Registers, form: Form,
           warnings: list[str]) -> LoadData3DParamsV2:  # fmt: skip
    """`params` within the ranges of the form, the register that it names included."""
    own = _MAP_RANGES if registers.own_map else {}
    params = taken(form.api, params, own | dict(form.ranges), card, warnings)
    if params.f_matrix_ctrl and card.npu_arch != 2201:
        raise ParameterError(f"{form.api}: f_matrix_ctrl (fMatrixCtrl) is False on this card", field="f_matrix_ctrl",
                             value=True, allowed="False: both sides use FMATRIX_LEFT", card=card.name)  # fmt: skip
    rest = params.channel_size % dtype.c0
    if params.channel_size and rest not in _REMAINDERS[dtype.bits]:
        raise ParameterError(
            f"{form.api}: channel_size (channelSize) % {dtype.c0} must be one of {_REMAINDERS[dtype.bits]} for"
            f" {dtype.name}", field="channel_size", value=params.channel_size,
            allowed=f"remainder in {_REMAINDERS[dtype.bits]}", card=card.name,
        )  # fmt: skip
    for field, unit in (("k_start_pt", dtype.c0), ("m_start_pt", SIDE)):
        if getattr(params, field) % unit:
            raise ParameterError(f"{form.api}: {field} must start at a fractal", field=field,
                                 value=getattr(params, field), allowed=f"multiples of {unit}",
                                 card=card.name)  # fmt: skip
    return params


def _map(params: LoadData3DParamsV2, card: Card, registers: Registers, form: Form, warnings: list[str]) -> FeatureMap | None:
    """The feature map that the instruction sees: of the struct or of a register."""
    found = registers.fmap
    if registers.own_map:
        own = feature_map(form.api, params.feature_map(), card, warnings, lowest=0)
        if not (params.f_matrix_ctrl and card.quirk("fmatrix-left")):
            return own
        warnings.append("is_set_f_matrix programs the left register, f_matrix_ctrl reads the right one:"
                        " use set_fmatrix with FMATRIX_RIGHT and is_set_f_matrix False")  # fmt: skip
    return None if found is None else feature_map(form.api, found, card, warnings, lowest=0)


def _is_nop(params: LoadData3DParamsV2, fmap: FeatureMap | None, repeat: Repeat) -> bool:
    sizes = (params.channel_size, params.k_extension, params.m_extension, repeat.time,
             params.filter_w or params.filter_size_w, params.filter_h or params.filter_size_h)  # fmt: skip
    return not all(sizes) or (fmap is not None and 0 in (fmap.l1_h, fmap.l1_w))


def _padding(params: LoadData3DParamsV2, dtype: DataType, registers: Registers, card: Card) -> bytes | None:
    """32 B of padding; None if the register was never set."""
    padding = registers.padding
    if registers.own_padding:
        padding = Padding(params.pad_value, "", str(params.pad_value))
    low_half = card.quirk("load3d-pad-16-bit")
    try:
        return None if padding is None else padding.block(dtype, low_half)
    except ParameterError as error:
        error.card = card.name
        raise


def _about_padding(params: LoadData3DParamsV2, dtype: DataType, pad: bytes | None, registers: Registers, card: Card,
                   warnings: list[str]) -> None:  # fmt: skip
    """Warn of a padding register that the caller did not set, or did not mean (pitfall P18)."""
    if card.npu_arch == 3510 and dtype.bits == 32 and pad is not None and any(pad[2:4]):
        warnings.append("the padding value has more than 16 bits: the header of this card keeps the low 16"
                        " (quirk load3d-pad-16-bit)")  # fmt: skip
    if registers.own_padding:
        return
    if pad is None:
        warnings.append(NO_PADDING)
    elif params.pad_value:
        warnings.append(f"pad_value = {params.pad_value} of the struct has no effect: is_set_padding is False")


def _detail(params: LoadData3DParamsV2, repeat: Repeat) -> str:
    if repeat.time == 1:
        return describe(params)
    return f"{describe(params)} repeat_time={repeat.time} repeat_stride={repeat.stride} repeat_mode={repeat.mode}"


# ---- the window ---------------------------------------------------------------------------------------------------
def _window(params: LoadData3DParamsV2, fmap: FeatureMap | None, repeat: Repeat, dtype: DataType, card: Card) -> Window:
    """The window in terms of the img2col matrix; of an unknown map no rows."""
    h, w, (left, right, top, bottom) = fmap or FeatureMap(0, 0, (0, 0, 0, 0))
    fw, fh = params.filter_w + 256 * params.filter_size_w, params.filter_h + 256 * params.filter_size_h
    wo = ho = 0
    if fmap is not None:
        wo = (w + left + right - ((fw - 1) * params.dilation_filter_w + 1)) // params.stride_w + 1
        ho = (h + top + bottom - ((fh - 1) * params.dilation_filter_h + 1)) // params.stride_h + 1
    found = Window(
        w=w, h=h, left=left, top=top, stride_w=params.stride_w, stride_h=params.stride_h,
        dilation_w=params.dilation_filter_w, dilation_h=params.dilation_filter_h, fw=fw, fh=fh, wo=wo, ho=ho,
        m_start=params.m_start_pt, m_extension=params.m_extension, k_start=params.k_start_pt,
        k_extension=params.k_extension, c0=dtype.c0, size=max(dtype.bits // 8, 1), channels=params.channel_size,
    )  # fmt: skip
    if repeat.time == 1:
        return found
    if repeat.mode == 0:
        return replace(found, m_times=repeat.time, m_step=repeat.stride * SIDE)
    unit = dtype.c0 * (2 if card.npu_arch == 3002 else 1)
    return replace(found, k_times=repeat.time, k_step=repeat.stride * unit)


def _check_map(params: LoadData3DParamsV2, fmap: FeatureMap, win: Window, dtype: DataType, card: Card) -> None:
    """Raises ParameterError for a kernel larger than the padded map, or a map larger than L1 (spec 16)."""
    for field, positions in (("filter_w", win.wo), ("filter_h", win.ho)):
        if positions < 1:
            raise ParameterError("LoadData: the dilated kernel is larger than the padded feature map", field=field,
                                 value=getattr(params, field), card=card.name)  # fmt: skip
    nbytes = win.h * win.w * dtype.nbytes(win.channels)
    capacity = int(card.value("buffers.L1.size"))
    if nbytes > capacity:
        raise ParameterError(f"LoadData: the feature map has {nbytes} B, L1 has {capacity} B", field="l1_w",
                             value=fmap.l1_w, allowed=f"l1_h * l1_w * channels <= {capacity} B",
                             card=card.name)  # fmt: skip


def _check_window(params: LoadData3DParamsV2, win: Window, dtype: DataType, card: Card) -> None:
    """Every window lies inside the matrix; an extension is ragged only where it reaches the last fractal (spec 5.2)."""
    sides = (("m", win.m_start, (win.m_times - 1) * win.m_step, win.m_extension, win.rows, SIDE, dtype.bits < 32),
             ("k", win.k_start, (win.k_times - 1) * win.k_step, win.k_extension, win.columns, dtype.c0, True))  # fmt: skip
    for side, start, further, extension, size, unit, whole in sides:
        limit, end = align_up(size, unit), start + extension
        matrix = f"the img2col matrix has {win.rows} rows and {win.columns} columns"
        if start >= limit:
            raise ParameterError(f"LoadData: the window starts at {start}, {matrix}", field=f"{side}_start_pt",
                                 value=start, allowed=f"< {limit}", card=card.name)  # fmt: skip
        if end > limit:
            raise ParameterError(f"LoadData: the window ends at {end}, {matrix}", field=f"{side}_extension",
                                 value=extension, allowed=f"start + {side}_extension <= {limit}",
                                 card=card.name)  # fmt: skip
        if end + further > limit:
            raise ParameterError(f"LoadData: the last iteration ends at {end + further}, {matrix}",
                                 field="repeat_stride", value=further, card=card.name,
                                 allowed=f"start + (repeat_time - 1) * stride + {side}_extension <= {limit}")  # fmt: skip
        if extension % unit and whole and end <= limit - unit:
            raise ParameterError(f"LoadData: {side}_extension must be whole fractals unless it reaches the last one",
                                 field=f"{side}_extension", value=extension, allowed=f"multiples of {unit}",
                                 card=card.name)  # fmt: skip


def _check_iterations(params: LoadData3DParamsV2, win: Window, dtype: DataType, card: Card) -> None:
    """Iterations of partial fractals: nothing says where one ends and the next begins."""
    for field, times, unit in (("m_extension", win.m_times, SIDE), ("k_extension", win.k_times, dtype.c0)):
        if times > 1 and getattr(params, field) % unit:
            raise UnsupportedError(
                f"LoadData: how {times} iterations of partial fractals are joined is not stated", field=field,
                value=getattr(params, field), allowed=f"multiples of {unit}, or repeat_time 1", card=card.name,
            )  # fmt: skip


def _check_room(win: Window, dst: str, card: Card) -> None:
    """The fractals of all windows fit the destination buffer at all (spec 16, L1_ILLEGAL_K_M_EXT_STEP)."""
    capacity = int(card.value(f"buffers.{dst}.size"))
    nbytes = align_up(win.m_total, SIDE) * ceil_div(win.k_total, win.c0) * BLOCK_BYTES
    if nbytes > capacity:
        raise ParameterError(f"LoadData: the window has {nbytes} B, {dst} has {capacity} B", field="m_extension",
                             value=win.m_extension, allowed=f"m_extension * k_extension <= {capacity} B",
                             card=card.name)  # fmt: skip


# ---- destination --------------------------------------------------------------------------------------------------
def _place(params: LoadData3DParamsV2, win: Window, dst: str, transpose: bool, card: Card, pitch: int | None,
           warnings: list[str]) -> tuple[Place, tuple[Step, ...]]:  # fmt: skip
    """Where the matrix of all windows lands; with it the marks of what its blocks write more than once."""
    m, k, c0, size = win.m_total, win.k_total, win.c0, win.size
    new = card.npu_arch == 3510
    line = c0 * BLOCK_BYTES  # a column block is C0 rows of 32 B once transposed
    rows = align_up(m, c0 if transpose else SIDE)
    if not new:
        if not transpose:
            return Place(SIDE, ceil_div(k, c0) * FRACTAL_BYTES, BLOCK_BYTES, 1, FRACTAL_BYTES, 0, size, rows), ()
        if dst == "L0B":
            return Place(c0, ceil_div(k, SIDE) * FRACTAL_BYTES, size, 1, line, 0, BLOCK_BYTES, rows), ()
        # ZZ: 16 columns of the window make a row of fractals, so 8-column blocks of b32 pair up
        row_of_fractals = align_up(m, SIDE) // c0 * FRACTAL_BYTES
        return Place(c0, FRACTAL_BYTES, size, max(SIDE // c0, 1), row_of_fractals, line, BLOCK_BYTES, rows), ()
    blocks, needed = (ceil_div(m, c0), ceil_div(k, SIDE)) if transpose else (ceil_div(k, c0), ceil_div(m, SIDE))
    far = own_pitch(params) if pitch is None else pitch
    if blocks > 1 and far < needed:
        warnings.append(f"column blocks of {needed} fractals at a pitch of {far} (dst_stride) overlap:"
                        " what is written twice is undefined")  # fmt: skip
    if pitch is None and dst == "L0B" and far != needed:
        warnings.append(
            f"into L0B with en_transpose False the column pitch is ceil(m_extension/16) = {far} fractals where the"
            f" transposed data needs {needed}: set en_transpose"
        )
    step = far * FRACTAL_BYTES
    place = Place(c0, step, size, 1, line, 0, BLOCK_BYTES, rows) if transpose else Place(
        SIDE, FRACTAL_BYTES, BLOCK_BYTES, 1, step, 0, size, rows)  # fmt: skip
    return place, _overlap(blocks, needed, far)


def _overlap(blocks: int, needed: int, pitch: int) -> tuple[Step, ...]:
    """Marks for the fractals that several of `blocks` blocks of `needed` fractals, `pitch` apart, write."""
    if blocks < 2 or pitch >= needed:
        return ()
    return strided_fill(bytes(FRACTAL_BYTES), (blocks - 1, needed - pitch), pitch * FRACTAL_BYTES,
                        (pitch * FRACTAL_BYTES, FRACTAL_BYTES), True)  # fmt: skip
