"""The single movements that chains are made of: one function each that issues the calls of the public API.

Every function takes (destination tensor, source tensor, part) and returns nothing; the calls check themselves what a card
offers. Parameters follow the published samples (spec api_semantics.md 2 to 9, 12, 14).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import UnsupportedError
from aicore_sim.kernel import language as asc

MOST_REPEATS = 255
FRACTAL_ROWS = 16


@dataclass(frozen=True)
class Part:
    """A part of the stored matrix: `rows` x `cols`, out of a matrix of `of_rows` x `of_cols` where it lies in GM.

    In local memories, and in GM between two steps, a part is a matrix of its own.
    """

    rows: int
    cols: int
    of_rows: int
    of_cols: int
    dtype: DataType

    @property
    def c0(self) -> int:
        return self.dtype.c0

    @property
    def fractal(self) -> int:
        """Elements of a fractal."""
        return 16 * self.c0

    @property
    def side(self) -> int:
        """Rows and columns of the square that is transposed at a time."""
        return max(self.c0, 16)

    @property
    def high(self) -> int:
        """Fractals in a column."""
        return -(-self.rows // 16)

    @property
    def wide(self) -> int:
        """Fractals in a row."""
        return -(-self.cols // self.c0)

    @property
    def of_high(self) -> int:
        return -(-self.of_rows // 16)

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    def alone(self) -> Part:
        """The same part as a matrix of its own."""
        return Part(self.rows, self.cols, self.rows, self.cols, self.dtype)

    def turned(self) -> Part:
        """Its transpose, as a matrix of its own."""
        return Part(self.cols, self.rows, self.cols, self.rows, self.dtype)


Issue = Callable[[Any, Any, Part], None]


@dataclass(frozen=True)
class Step:
    """One movement: how it is called, over which path (as the card names it), who does it and how.

    `squares`: the matrix is worked on in squares of `Part.side`, so the rows of L1 in front of it are padded to them.
    `turns`: what it leaves is the transpose, also for the steps behind it.
    """

    name: str
    path: str
    pipe: str
    core: str
    issue: Issue
    squares: bool = False
    turns: bool = False

    @property
    def src(self) -> str:
        return self.path.split("-")[0]

    @property
    def dst(self) -> str:
        return self.path.split("-")[1]


def up(x: int, unit: int) -> int:
    return -(-x // unit) * unit


# ---- GM to L1 -------------------------------------------------------------------------------------------------------
def _nd2nz(squares: bool, l1: Any, gm: Any, p: Part) -> None:
    pitch = up(p.rows, p.side if squares else 16)
    asc.data_copy(l1, gm, asc.Nd2NzParams(1, p.rows, p.cols, 0, p.of_cols, pitch, 1, 0))


def _nd2zz(l1: Any, gm: Any, p: Part) -> None:
    """4-byte elements for LoadDataWithTranspose: a strip of 16 rows is a matrix of its own."""
    wide = up(p.cols, 16)
    strips, rest = divmod(p.rows, 16)
    if strips:
        asc.data_copy(l1, gm, asc.Nd2NzParams(strips, 16, p.cols, 16 * p.of_cols, p.of_cols, 16, 1, 16 * wide))
    if rest:
        params = asc.Nd2NzParams(1, rest, p.cols, 0, p.of_cols, 16, 1, 0)
        asc.data_copy(l1[strips * 16 * wide], gm[strips * 16 * p.of_cols], params)


def _dn2nz(l1: Any, gm: Any, p: Part) -> None:
    asc.data_copy(l1, gm, asc.Dn2NzParams(1, p.cols, p.rows, 0, p.of_cols, up(p.cols, 16), 1, 0))


def _nz_blocks(l1: Any, gm: Any, p: Part) -> None:
    """NZ as it is: a block for each column of fractals."""
    rows, gap = 16 * p.high, 16 * (p.of_high - p.high)
    if gap:
        asc.data_copy(l1, gm, asc.DataCopyParams(p.wide, rows, gap, 0))
    else:
        asc.data_copy(l1, gm, p.wide * rows * p.c0)


def _fractals(dst: Any, gm: Any, p: Part) -> None:
    """NZ in GM to NZ, by rows or by columns of fractals, whichever takes fewer calls."""
    if p.high == p.of_high:
        _straight(dst, gm, p)
    elif p.high <= p.wide and p.of_high < 2**16:
        for i in range(p.high):
            for j in range(0, p.wide, MOST_REPEATS):
                params = asc.LoadData2DParams(0, min(p.wide - j, MOST_REPEATS), p.of_high, 0, p.high - 1)
                asc.load_data(dst[(j * p.high + i) * p.fractal], gm[(j * p.of_high + i) * p.fractal], params)
    else:
        for j in range(p.wide):
            for i in range(0, p.high, MOST_REPEATS):
                params = asc.LoadData2DParams(0, min(p.high - i, MOST_REPEATS), 1, 0, 0)
                asc.load_data(dst[(j * p.high + i) * p.fractal], gm[(j * p.of_high + i) * p.fractal], params)


def _fractals_v2(l1: Any, gm: Any, p: Part) -> None:
    asc.load_data(l1, gm, asc.LoadData2DParamsV2(0, 0, p.high, p.wide, p.of_high, p.high))


def _gm_rows(l0: Any, gm: Any, p: Part) -> None:
    """NZ in GM to ZZ, a row of fractals a call."""
    for i in range(p.high):
        asc.load_data(l0[i * p.wide * p.fractal], gm[i * p.fractal], asc.LoadData2DParams(0, p.wide, p.of_high))


# ---- L1 to L0 -------------------------------------------------------------------------------------------------------
def _straight(l0: Any, l1: Any, p: Part) -> None:
    """All fractals in their order: NZ to NZ, which is ZN of the transpose."""
    count = p.high * p.wide
    for first in range(0, count, MOST_REPEATS):
        params = asc.LoadData2DParams(0, min(count - first, MOST_REPEATS), 1)
        asc.load_data(l0[first * p.fractal], l1[first * p.fractal], params)


def _straight_v2(l0: Any, l1: Any, p: Part) -> None:
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, p.high, p.wide, p.high, p.high))


def _rows(l0: Any, l1: Any, p: Part) -> None:
    """NZ to ZZ, a row of fractals a call."""
    for i in range(p.high):
        asc.load_data(l0[i * p.wide * p.fractal], l1[i * p.fractal], asc.LoadData2DParams(0, p.wide, p.high))


def _img2col(l0: Any, l1: Any, p: Part) -> None:
    rows, cols = 16 * p.high, p.wide * p.c0
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=rows, channel_size=cols, k_extension=cols, m_extension=rows))


def _img2col_turned(l0: Any, l1: Any, p: Part) -> None:
    rows, cols = up(p.rows, p.side), up(p.cols, p.side)
    asc.load_data(l0, l1, asc.LoadData3DParamsV2(l1_h=1, l1_w=rows, channel_size=cols, k_extension=cols, m_extension=rows,
                                                 en_transpose=True))  # fmt: skip


def _turned_v2(l0: Any, l1: Any, p: Part) -> None:
    deep, cols = up(p.rows, p.side) // 16, up(p.cols, p.side)
    asc.load_data(l0, l1, asc.LoadData2DParamsV2(0, 0, deep, cols // p.c0, deep, cols // 16, True))


def _turned_2d(l0: Any, l1: Any, p: Part) -> None:
    """16 bits, NZ to NZ of the transpose: a row of fractals a call."""
    across = -(-p.cols // 16)
    for i in range(p.high):
        params = asc.LoadData2DParams(0, across, p.high, if_transpose=True)
        asc.load_data(l0[i * across * p.fractal], l1[i * p.fractal], params)


def _turned_2d_zz(l0: Any, l1: Any, p: Part) -> None:
    """16 bits, NZ to ZZ of the transpose: a column of fractals a call."""
    for i in range(-(-p.cols // 16)):
        at = i * p.high * p.fractal
        asc.load_data(l0[at], l1[at], asc.LoadData2DParams(0, p.high, 1, if_transpose=True))


def _squares(l0: Any, l1: Any, p: Part) -> None:
    """LoadDataWithTranspose, NZ to NZ of the transpose: a row of squares a call."""
    n = p.side // 16
    deep, across = up(p.rows, p.side) // p.side, up(p.cols, p.side) // p.side
    for i in range(deep):
        params = asc.LoadData2dTransposeParams(repeat_times=across, src_stride=deep, dst_gap=n - 1)
        asc.load_data_with_transpose(l0[i * across * n * p.fractal], l1[i * n * p.fractal], params)


def _squares_zz(l0: Any, l1: Any, p: Part) -> None:
    """LoadDataWithTranspose, NZ to ZZ of the transpose: a column of squares a call."""
    n = p.side // 16
    deep = up(p.rows, p.side) // p.side
    params = asc.LoadData2dTransposeParams(repeat_times=deep, src_stride=1, dst_gap=0, dst_frac_gap=deep - 1)
    for i in range(up(p.cols, p.side) // p.side):
        at = i * n * deep * p.fractal
        asc.load_data_with_transpose(l0[at], l1[at], params)


def _wide_squares(l0: Any, l1: Any, p: Part) -> None:
    """LoadDataWithTranspose of 4-byte elements that lie in L1 as ZZ, to NZ of the transpose."""
    across = -(-p.cols // 16)
    for i in range(p.high):
        at = i * 2 * across * p.fractal
        params = asc.LoadData2dTransposeParams(repeat_times=across, src_stride=1, dst_frac_gap=across - 1)
        asc.load_data_with_transpose(l0[at], l1[at], params)


def _wide_squares_zz(l0: Any, l1: Any, p: Part) -> None:
    """The same to ZZ of the transpose."""
    across = -(-p.cols // 16)
    for i in range(across):
        params = asc.LoadData2dTransposeParams(repeat_times=p.high, src_stride=across, dst_gap=1)
        asc.load_data_with_transpose(l0[i * p.high * 2 * p.fractal], l1[i * 2 * p.fractal], params)


# ---- between ND memories --------------------------------------------------------------------------------------------
def _plain(dst: Any, src: Any, p: Part) -> None:
    if p.dtype.nbytes(p.elements) % BLOCK_BYTES:
        raise UnsupportedError("DataCopy moves whole blocks of 32 B", field="shape", value=p.elements,
                               allowed="DataCopyPad moves any number of bytes between GM and UB")  # fmt: skip
    asc.data_copy(dst, src, p.elements)


def _padded(dst: Any, src: Any, p: Part) -> None:
    """Any number of bytes, as one block."""
    params = asc.DataCopyExtParams(1, p.dtype.nbytes(p.elements), 0, 0, 0)
    if src.kind == "GM":
        asc.data_copy_pad(dst, src, params, asc.DataCopyPadExtParams(p.dtype, False, 0, 0, 0))
    else:
        asc.data_copy_pad(dst, src, params)


def _nddma(dst: Any, src: Any, p: Part) -> None:
    asc.data_copy(dst, src, asc.NdDmaParams(asc.NdDmaLoopInfo((1, p.of_cols), (1, p.cols), (p.cols, p.rows), (0, 0), (0, 0))))


def _nddma_turned(dst: Any, src: Any, p: Part) -> None:
    asc.data_copy(dst, src, asc.NdDmaParams(asc.NdDmaLoopInfo((p.of_cols, 1), (1, p.rows), (p.rows, p.cols), (0, 0), (0, 0))))


# ---- between NZ and ND ----------------------------------------------------------------------------------------------
def _whole_blocks(p: Part) -> None:
    """Copies in blocks of 32 B cannot leave the tail of a row out."""
    if p.cols % p.c0:
        raise UnsupportedError("NZ becomes ND in blocks of 32 B: a row must be whole blocks", field="cols", value=p.cols,
                               allowed=f"multiples of {p.c0}")  # fmt: skip


def _unpack(copy: Callable[..., None], dst: Any, src: Any, p: Part) -> None:
    """NZ to ND, a column of fractals a call: rows of 32 B go apart. One of the two sides may be a part of a matrix in GM."""
    _whole_blocks(p)
    deep = 16 * (p.of_high if src.kind == "GM" else p.high)
    pitch = (p.of_cols if dst.kind == "GM" else p.cols) // p.c0
    for j in range(p.wide):
        copy(dst[j * p.c0], src[j * deep * p.c0], asc.DataCopyParams(p.rows, 1, 0, pitch - 1))


def _pack(dst: Any, src: Any, p: Part) -> None:
    """ND to NZ in GM, a column of fractals a call."""
    _whole_blocks(p)
    for j in range(p.wide):
        asc.data_copy(dst[j * 16 * p.high * p.c0], src[j * p.c0], asc.DataCopyParams(p.rows, 1, p.wide - 1, 0))


def _ub_nd2nz(l1: Any, ub: Any, p: Part) -> None:
    asc.data_copy(l1, ub, asc.Nd2NzParams(1, p.rows, p.cols, 0, p.cols, 16 * p.high, 1, 0))


# ---- out of L0C -----------------------------------------------------------------------------------------------------
_CONVERTS = {"float16": "F322F16", "bfloat16": "F322BF16"}


def _fixpipe(params: str, nz: bool, dst: Any, l0c: Any, p: Part) -> None:
    quant = asc.QuantModes[_CONVERTS.get(p.dtype.name, "NoQuant")]
    # A column block is 16 * high rows of 32 B: counted in them, on 950 in elements.
    block = 16 * p.high * (p.c0 if params == "FixpipeParamsArch3510" else 1)
    pitch = block if nz else p.of_cols if dst.kind == "GM" else p.cols
    layout = asc.CO2Layout.NZ if nz else asc.CO2Layout.ROW_MAJOR
    # 4-byte results leave in blocks of 16 columns; split they have the 8 columns of NZ.
    split = {"is_channel_split": True} if nz and p.dtype.bits == 32 else {}
    struct = getattr(asc, params)(p.cols, p.rows, 16 * p.high, pitch, quant_pre=quant, **split)
    to_ub = dst.kind == "UB" and params == "FixpipeParamsArch3510"
    asc.fixpipe(dst, l0c, struct, asc.FixpipeConfig(layout, to_ub))


def _out_by_copy(l1: Any, l0c: Any, p: Part) -> None:
    quant = asc.QuantModes[_CONVERTS.get(p.dtype.name, "NoQuant")]
    asc.data_copy(l1, l0c, asc.DataCopyCO12DstParams(p.cols, p.rows, 16 * p.high, 16 * p.high, quant_pre=quant))


# ---- into the tables ------------------------------------------------------------------------------------------------
def _to_table(dst: Any, l1: Any, p: Part) -> None:
    """Lengths count in coarser units than 32 B (spec api_semantics.md 9.1)."""
    block = 128 if dst.kind == "FB" else BLOCK_BYTES if int(asc.npu_arch()) == 3510 else 64
    nbytes = p.dtype.nbytes(p.elements)
    if nbytes % block:
        raise UnsupportedError(f"{dst.kind} is filled in blocks", field="shape", value=f"{nbytes} B",
                               allowed=f"multiples of {block} B")  # fmt: skip
    if dst.kind == "FB":
        asc.data_copy(dst, l1, asc.DataCopyParams(1, nbytes // block, 0, 0))
    else:
        asc.data_copy(dst, l1, p.elements)


ND2NZ = Step("DataCopy ND2NZ", "GM-L1", "MTE2", "aic", partial(_nd2nz, False))
ND2NZ_SQUARES = Step("DataCopy ND2NZ", "GM-L1", "MTE2", "aic", partial(_nd2nz, True))
ND2ZZ = Step("DataCopy ND2NZ (ZZ)", "GM-L1", "MTE2", "aic", _nd2zz)
DN2NZ = Step("DataCopy DN2NZ", "GM-L1", "MTE2", "aic", _dn2nz, turns=True)
NZ_BLOCKS = Step("DataCopy", "GM-L1", "MTE2", "aic", _nz_blocks)
NZ_LOAD = Step("LoadData2D", "GM-L1", "MTE2", "aic", _fractals)
NZ_LOAD_V2 = Step("LoadData2DV2", "GM-L1", "MTE2", "aic", _fractals_v2)
GM_PLAIN_L1 = Step("DataCopy", "GM-L1", "MTE2", "aic", _plain)
GM_TO_L0A_NZ = Step("LoadData2D", "GM-L0A", "MTE2", "aic", _fractals)
GM_TO_L0A_ZZ = Step("LoadData2D", "GM-L0A", "MTE2", "aic", _gm_rows)
GM_TO_L0B = Step("LoadData2D", "GM-L0B", "MTE2", "aic", _fractals)

GM_UB = Step("DataCopy", "GM-UB", "MTE2", "aiv", _plain)
GM_UB_PAD = Step("DataCopyPad", "GM-UB", "MTE2", "aiv", _padded)
GM_UB_NDDMA = Step("DataCopy NDDMA", "GM-UB", "MTE2", "aiv", _nddma)
GM_UB_TURNED = Step("DataCopy NDDMA", "GM-UB", "MTE2", "aiv", _nddma_turned)
GM_UB_UNPACK = Step("DataCopy (strided)", "GM-UB", "MTE2", "aiv", partial(_unpack, asc.data_copy))
UB_GM = Step("DataCopy", "UB-GM", "MTE3", "aiv", _plain)
UB_GM_PAD = Step("DataCopyPad", "UB-GM", "MTE3", "aiv", _padded)
UB_GM_PACK = Step("DataCopy (strided)", "UB-GM", "MTE3", "aiv", _pack)
UB_UB = Step("DataCopy", "UB-UB", "V", "aiv", _plain)
UB_L1 = Step("DataCopy ND2NZ", "UB-L1", "MTE3", "aiv", _ub_nd2nz)
L1_UB = Step("DataCopyL1ToUB (strided)", "L1-UB", "MTE1", "aic", partial(_unpack, asc.data_copy_l1_to_ub))
L1_GM = Step("DataCopy (strided)", "L1-GM", "MTE3", "aic", partial(_unpack, asc.data_copy))
L1_BT = Step("DataCopy", "L1-BT", "MTE1", "aic", _to_table)
L1_FB = Step("DataCopy", "L1-FB", "FIX", "aic", _to_table)


def into_l0(name: str, dst: str, issue: Issue, squares: bool = False) -> Step:
    return Step(name, f"L1-{dst}", "MTE1", "aic", issue, squares)


def as_it_is(dst: str, zz: bool) -> tuple[Step, ...]:
    """Ways of NZ in L1 into an L0 buffer without transposition: to ZZ, or to NZ."""
    img2col = (into_l0("LoadData3D", dst, _img2col),) if dst == "L0A" else ()
    if zz:
        return (into_l0("LoadData2D", dst, _rows), *img2col)
    return (into_l0("LoadData2DV2", dst, _straight_v2), into_l0("LoadData2D", dst, _straight), *img2col)


def turned(dst: str, zz: bool) -> tuple[Step, ...]:
    """Ways with transposition."""
    img2col = into_l0("LoadData3D", dst, _img2col_turned, True)
    if zz:
        return (into_l0("LoadData2D", dst, _turned_2d_zz), into_l0("LoadDataWithTranspose", dst, _squares_zz, True), img2col)
    return (
        into_l0("LoadData2DV2", dst, _turned_v2, True), into_l0("LoadData2D", dst, _turned_2d),
        into_l0("LoadDataWithTranspose", dst, _squares, True), img2col,
    )  # fmt: skip


def turned_from_zz(dst: str, zz: bool) -> Step:
    """LoadDataWithTranspose of 4-byte elements, whose source is ZZ in L1."""
    return into_l0("LoadDataWithTranspose", dst, _wide_squares_zz if zz else _wide_squares)


def out_of_l0c(arch: int, dst: str) -> Step:
    """L0C out; into L1 as NZ, else as ND."""
    if (arch, dst) == (3002, "L1"):
        return Step("DataCopy", "L0C-L1", "FIX", "aic", _out_by_copy)
    params = {3510: "FixpipeParamsArch3510", 2201: "FixpipeParamsV220", 3002: "FixpipeParamsM300"}[arch]
    return Step("Fixpipe", f"L0C-{dst}", "FIX", "aic", partial(_fixpipe, params, dst == "L1"))
