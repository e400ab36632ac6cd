"""The smallest legal call of every movement row of the cards' API lists, and what a card without the row should say.

Used by tests/test_api_support.py. A call is built from a `Spot`: the tensors and types of one path of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.dtypes import DataType
from aicore_sim.instructions.fixpipe_convert import MODES, SIGN_BIT
from tests.stage import Place, Stage, noise

te = asc.te
ROOM = 4096
"""Bytes of every tensor."""


@dataclass(frozen=True)
class Spot:
    """A stage with tensors for one path of a row: `types` as the row lists them, source first, `path` its positions."""

    stage: Stage
    card: str
    path: tuple[str, str]
    types: tuple[DataType, ...]

    @property
    def src(self) -> Any:
        return self.stage["src"]

    @property
    def dst(self) -> Any:
        return self.stage["dst"]

    @property
    def dtype(self) -> DataType:
        return self.types[0]

    @property
    def new(self) -> bool:
        return self.card == "atlas_350"

    @property
    def block(self) -> int:
        """Elements of 32 B."""
        return self.dtype.c0


Action = Callable[[Spot], Any]


@dataclass(frozen=True)
class Call:
    """How to call a row.

    `kind`: "move" (one type for both sides), "pair" (source*destination), "cube" (Mmad: fm*filter*dst[*bias]), "fill" (a
    destination only) or "register" (no tensors). `tensors` gives further tensors, {name: (position, type)}. `says` is what
    the refusal of a card without the row names, `instead` what it offers, for all cards or card by card.
    """

    action: Action
    kind: str = "move"
    says: str = ""
    instead: str | Mapping[str, str] = ""
    tensors: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    vector: bool = False
    """Whether a register belongs to the vector core."""
    default: tuple[tuple[str, str], tuple[str, ...]] = (("", ""), ())
    """Path and types to try on cards without the row, where no card's row names any."""

    def way(self, card: str) -> str:
        return self.instead if isinstance(self.instead, str) else self.instead.get(card, "")


def stage_of(call: Call, card: str, path: tuple[str, str], types: tuple[DataType, ...]) -> Spot:
    """The tensors of a call, filled with noise."""
    places: dict[str, Place] = {}
    if call.kind == "cube":
        fm, filter_, dst = types[0], types[1], types[-2 if len(types) in (4, 5) else -1]
        places = {"src": Place("A2", fm.name, noise(ROOM)), "filter": Place("B2", filter_.name, noise(ROOM)),
                  "dst": Place("CO1", dst.name, ROOM)}  # fmt: skip
        if len(types) in (4, 5):
            places["bias"] = Place("C2", types[-1].name, noise(1024))
    elif call.kind != "register":
        src, dst = types[0].name, types[-1].name
        if call.kind != "fill":
            places["src"] = Place(path[0], src, noise(1024 if path[0] in ("C2", "C2PIPE2GM") else ROOM))
        places["dst"] = Place(path[1], dst, 1024 if path[1] in ("C2", "C2PIPE2GM") else ROOM)
    for name, (position, dtype) in call.tensors.items():
        places[name] = Place(position, dtype, noise(1024))
    core = "" if places else "core" if card == "atlas_200i" else "aiv" if call.vector else "aic"
    return Spot(Stage(card, places, core=core), card, path, types)


# ---- LoadData and relatives ---------------------------------------------------------------------------------------------
def _load(params: Any) -> Action:
    return lambda s: asc.load_data(s.dst, s.src, params)


def _window(s: Spot) -> asc.LoadData3DParamsV2:
    """A map of 4 x 4 pixels of 32 B, a window of 1 x 1."""
    return asc.LoadData3DParamsV2(l1_h=4, l1_w=4, channel_size=s.block, k_extension=s.block, m_extension=16)


def _registers(s: Spot) -> None:
    asc.set_fmatrix(4, 4, (0, 0, 0, 0))
    asc.set_load_data_padding_value(0)
    if s.new:
        asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(0, 1, 0, 4))


def _load_3d(s: Spot) -> None:
    asc.load_data(s.dst, s.src, _window(s))
    _registers(s)
    words = 16 << 16 | s.block
    asc.load_data(s.dst, s.src, asc.LoadData3DParamsV2Pro(channel_size=s.block, ext_config=words))


def _load_3d_bits(s: Spot) -> None:
    if s.new:
        _registers(s)
    asc.load_data(s.dst, s.src, asc.Load3DBitModeParam(_window(s)))


def _load_with_stride(s: Spot) -> None:
    if s.new:
        _registers(s)
    asc.load_data_with_stride(s.dst, s.src, _window(s))


def _transpose(s: Spot) -> None:
    asc.load_data_with_transpose(s.dst, s.src, asc.LoadData2dTransposeParams(0, 1, 1))
    if s.new:
        asc.load_data_with_transpose(s.dst, s.src, asc.LoadData2dTransposeParamsV2(0, 1, 1))


def _load_mx(s: Spot) -> None:
    asc.load_data(s.dst, s.src, s.stage["mx"], asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1), asc.LoadData2DMxParams(0, 0, 1, 1, 1, 1))


# ---- DataCopy and relatives ---------------------------------------------------------------------------------------------
def _count(s: Spot) -> None:
    asc.data_copy(s.dst, s.src, 4 * s.block)


def _blocks(s: Spot) -> None:
    asc.data_copy(s.dst, s.src, asc.DataCopyParams(1, 4, 0, 0))


def _nd2nz(s: Spot) -> None:
    d = s.block if s.dtype.bits > 4 else 32  # 4-bit types count bytes
    asc.data_copy(s.dst, s.src, asc.Nd2NzParams(1, 2, d, 0, d, 2, 1, 0))


def _slices(s: Spot) -> None:
    rows = [asc.SliceInfo(0, 2 * s.block - 1, 0, 2, 2 * s.block)]
    asc.data_copy(s.dst, s.src, rows, rows, 1)


def _pad_in(mode: Any) -> Action:
    def call(s: Spot) -> None:
        how = {} if mode is None else {"mode": mode}
        asc.data_copy_pad(s.dst, s.src, asc.DataCopyExtParams(1, 32, 0, 0), asc.DataCopyPadExtParams(s.dtype), **how)
        asc.data_copy_pad(s.dst, s.src, asc.DataCopyParams(1, 32, 0, 0), asc.DataCopyPadParams(), **how)

    return call


def _pad_out(mode: Any) -> Action:
    def call(s: Spot) -> None:
        how = {} if mode is None else {"mode": mode}
        asc.data_copy_pad(s.dst, s.src, asc.DataCopyExtParams(1, 32, 0, 0), **how)
        asc.data_copy_pad(s.dst, s.src, asc.DataCopyParams(1, 32, 0, 0), **how)

    return call


def _pad_to_l1(s: Spot) -> None:
    asc.data_copy_pad(s.dst, s.src, asc.DataCopyParams(1, 64, 0, 0), asc.Nd2NzParams(1, 2, s.block, 0, s.block, 2, 1, 0))


def _l1_to_ub(s: Spot) -> None:
    asc.data_copy_l1_to_ub(s.dst, s.src, 4 * s.block)
    asc.data_copy_l1_to_ub(s.dst, s.src, asc.DataCopyParams(1, 4, 0, 0))


# ---- out of L0C ---------------------------------------------------------------------------------------------------------
def quantisation(src: DataType, dst: DataType, new: bool) -> tuple[int, int]:
    """(mode, parameter word) that brings src to dst: equal types need none; a word stands for the factor 1."""
    if src is dst:
        return 0, 0
    fits = [value for value, mode in MODES.items() if mode.src == src.name and dst.name in mode.dst and not mode.table
            and (new or not mode.only_950)]  # fmt: skip
    mode = min(fits, default=0)
    one = int(np.float32(1).view(np.uint32)) | (dst.name == "int8") << SIGN_BIT
    return mode, one if MODES[mode].word else 0


def _fixpipe(s: Spot) -> None:
    mode, word = quantisation(s.types[0], s.types[-1], s.new)
    to_ub = s.path[1].startswith("VEC")
    if s.new:
        config = asc.FixpipeConfig(0, to_ub)
        asc.fixpipe(s.dst, s.src, asc.FixpipeParamsArch3510(16, 16, 16, 512, mode, word), config)
    if not (s.new and to_ub):
        asc.fixpipe(s.dst, s.src, asc.FixpipeParamsV220(16, 16, 16, 16, mode, word), asc.FixpipeConfig(0))


def _copy_out(s: Spot) -> None:
    mode, word = quantisation(s.types[0], s.types[-1], s.new)
    asc.set_fix_pipe_pre_quant_flag(word)
    asc.data_copy(s.dst, s.src, asc.DataCopyCO12DstParams(16, 16, 16, 16, mode))


# ---- cube ---------------------------------------------------------------------------------------------------------------
def _mmad(name: str) -> Action:
    def call(s: Spot) -> None:
        bias = "bias" in s.stage.places
        params = asc.MmadParams(16, 16, 64, unit_flag=0, cmatrix_source=bias, cmatrix_init_val=not bias)
        operands = (s.dst, s.src, s.stage["filter"], *([s.stage["bias"]] if bias else []))
        getattr(asc, name)(*operands, params)

    return call


# ---- Tensor API ---------------------------------------------------------------------------------------------------------
def _te(operation: Any, pattern: str) -> Action:
    def call(s: Spot) -> None:
        layout = getattr(te, f"make_{pattern}_layout")(s.dtype, 16, s.block)
        dst, src = (te.make_tensor(te.make_mem_ptr(tensor), layout) for tensor in (s.dst, s.src))
        te.copy(te.make_copy(operation()), dst, src)

    return call


# ---- registers ----------------------------------------------------------------------------------------------------------
def _register(call: Callable[[], Any], **other: Any) -> Call:
    return Call(lambda s: call(), "register", **other)


def _typed(call: Callable[[DataType], Any], **other: Any) -> Call:
    return Call(lambda s: call(s.dtype), "register", **other)


_WITHOUT_950 = ("atlas_a2", "atlas_a3", "atlas_200i")
_THROUGH_GM = {"atlas_200i": "load_data with LoadData2DParams for fractals laid out in GM",
               **dict.fromkeys(("atlas_a2", "atlas_a3"), "on the cube core data_copy from GM to L1")}  # fmt: skip
_FRACTALS = {"atlas_200i": "load_data with LoadData2DParams, for fractals laid out in GM"}
_IN_UB = {"atlas_200i": "adds with 0"}
_L1, _UB, _L0C = ("GM", "A1"), ("GM", "VECIN"), ("CO1", "VECIN")

CALLS: dict[tuple[str, str], Call] = {
    # LoadData and relatives
    ("LoadData", "GM to L1-2D"): Call(_load(asc.LoadData2DParams(0, 1, 1))),
    ("LoadData", "GM to L1-2D V2"): Call(
        _load(asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1)), says="LoadData2DParamsV2", instead="LoadData2DParams"),
    ("LoadData_2D", ""): Call(_load(asc.LoadData2DParams(0, 1, 1)), says="LoadData2DParams", instead="GM to L1 first"),
    ("LoadData_2D_V2", ""): Call(
        _load(asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1)), says="LoadData2DParamsV2",
        instead="LoadData2DParams, LoadData3DParamsV2"),
    ("LoadData_2D_BitMode", ""): Call(
        lambda s: asc.load_data(s.dst, s.src, asc.Load2DBitModeParam(asc.LoadData2DParamsV2(0, 0, 1, 1, 1, 1))),
        says="Load2DBitModeParam", instead="LoadData2DParams, LoadData3DParamsV2"),
    ("LoadData_2D_MX", ""): Call(
        _load_mx, says="LoadData2DMxParams", instead="LoadData2DParams", tensors={"mx": ("A1", "fp8_e8m0")}),
    ("LoadData_3D", "LoadData3DParamsV1"): Call(
        _load(asc.LoadData3DParamsV1()), says="LoadData3DParamsV1", instead="LoadData3DParamsV2",
        default=(("A1", "A2"), ("half",))),
    ("LoadData_3D", "LoadData3DParamsV2 and V2Pro"): Call(_load_3d),
    ("LoadData_3D_BitMode", ""): Call(
        _load_3d_bits, says="Load3DBitModeParam", instead="LoadData3DParamsV2, LoadData3DParamsV2Pro"),
    ("LoadDataWithStride", ""): Call(_load_with_stride, says="load_data_with_stride", instead="load_data with LoadData3DParamsV2"),
    ("LoadDataWithTranspose", ""): Call(_transpose),
    ("Fill", ""): Call(lambda s: asc.init_const_value(s.dst, asc.InitConstValueParams(1, 1, 0, 0)), "fill"),
    # DataCopy
    ("DataCopy", "GM and UB contiguous"): Call(_count),
    ("DataCopy", "GM and UB strided (DataCopyParams)"): Call(_blocks),
    ("DataCopy", "GM and UB slices"): Call(_slices, says="SliceInfo", instead="data_copy_pad, row by row"),
    ("DataCopy", "GM to UB NDDMA"): Call(
        lambda s: asc.data_copy(s.dst, s.src, asc.NdDmaParams(asc.NdDmaLoopInfo(1, 1, 8))), says="NdDmaParams",
        instead="data_copy_pad, row by row"),
    ("DataCopy", "GM to UB ND2NZ"): Call(_nd2nz, says="Nd2NzParams from GM to UB", instead="data_copy row by row"),
    ("DataCopy", "UB to GM NZ2ND"): Call(
        lambda s: asc.data_copy(s.dst, s.src, asc.Nz2NdParamsFull(1, 2, 16, 1, 2, 16, 1)), says="Nz2NdParamsFull",
        instead="data_copy_pad, column block by column block"),
    ("DataCopy", "UB to UB contiguous"): Call(_count, says="UB to UB", instead=_IN_UB),
    ("DataCopy", "UB to UB strided (DataCopyParams)"): Call(_blocks, says="UB to UB", instead=_IN_UB),
    ("DataCopy", "GM to L1 contiguous"): Call(_count, says="GM to L1", instead=_FRACTALS),
    ("DataCopy", "GM to L1 strided (DataCopyParams)"): Call(_blocks, says="GM to L1", instead=_FRACTALS),
    ("DataCopy", "GM to L1 ND2NZ"): Call(_nd2nz, says="Nd2NzParams", instead=_FRACTALS),
    ("DataCopy", "GM to L1 DN2NZ"): Call(
        lambda s: asc.data_copy(s.dst, s.src, asc.Dn2NzParams(1, 2, 8, 0, 2, 2, 1, 0)), says="Dn2NzParams",
        instead=_FRACTALS | dict.fromkeys(("atlas_a2", "atlas_a3"), "data_copy with Nd2NzParams, and a transposing load")),
    ("DataCopy", "UB to L1 contiguous"): Call(_count, says="UB to L1", instead=_THROUGH_GM),
    ("DataCopy", "UB to L1 strided (DataCopyParams)"): Call(_blocks, says="UB to L1", instead=_THROUGH_GM),
    ("DataCopy", "UB to L1 ND2NZ"): Call(_nd2nz, says="UB to L1", instead=_THROUGH_GM),
    ("DataCopy", "L1 to GM contiguous"): Call(
        _count, says="L1 to GM", instead={"atlas_350": "data_copy_l1_to_ub", "atlas_200i": "fixpipe"}),
    ("DataCopy", "L1 to GM strided (DataCopyParams)"): Call(
        _blocks, says="L1 to GM", instead={"atlas_350": "data_copy_l1_to_ub", "atlas_200i": "fixpipe"}),
    ("DataCopy", "L1 to BiasTable"): Call(_blocks, "pair", says="L1 to BT", instead="mmad with cmatrix_init_val"),
    ("DataCopy", "L1 to Fixpipe"): Call(_blocks, says="L1 to FB", instead="fixpipe with cbuf_workspace"),
    ("DataCopy", "L0C to GM"): Call(_copy_out, "pair"),
    ("DataCopy", "L0C to L1"): Call(_copy_out, "pair"),
    ("DataCopy", "L0C to UB"): Call(_copy_out, "pair", says="L0C to UB", instead="fixpipe", default=(_L0C, ("float", "float"))),
    ("DataCopyL1ToUB", "L1 to UB"): Call(
        _l1_to_ub, says="DataCopyL1ToUB",
        instead={"atlas_200i": "fixpipe", **dict.fromkeys(("atlas_a2", "atlas_a3"), "data_copy from GM to UB")}),
    # DataCopyPad, loop mode
    ("DataCopyPad", "GM to UB unaligned (DataCopyPad); without PaddingMode"): Call(_pad_in(None)),
    ("DataCopyPad", "GM to UB unaligned (DataCopyPad); with PaddingMode"): Call(
        _pad_in(asc.PaddingMode.Compact), says="PaddingMode", instead="None"),
    ("DataCopyPad", "UB to GM unaligned (DataCopyPad); without PaddingMode"): Call(_pad_out(None)),
    ("DataCopyPad", "UB to GM unaligned (DataCopyPad); with PaddingMode"): Call(
        _pad_out(asc.PaddingMode.Compact), says="PaddingMode", instead="None"),
    ("DataCopyPad", "GM to L1 unaligned (DataCopyPad)"): Call(
        _pad_in(None), says="GM to L1",
        instead=_FRACTALS | dict.fromkeys(("atlas_a2", "atlas_a3"), "data_copy of whole blocks")),
    ("DataCopyPad", "UB to L1 unaligned (DataCopyPad)"): Call(_pad_to_l1, says="UB to L1", instead=_THROUGH_GM),
    ("SetPadValue", ""): _typed(
        lambda dtype: asc.set_pad_value(1), vector=True, says="set_pad_value", instead="DataCopyPadExtParams"),
    ("SetLoopModePara", ""): _register(
        lambda: asc.set_loop_mode_para(asc.LoopModeParams(2, 1, 32, 32, 0, 0), asc.DataCopyMVType.OUT_TO_UB),
        vector=True, says="set_loop_mode_para", instead="loop around data_copy"),
    ("ResetLoopModePara", ""): _register(
        lambda: asc.reset_loop_mode_para(asc.DataCopyMVType.OUT_TO_UB), vector=True,
        says="reset_loop_mode_para", instead="none needed"),
    ("NdDmaDci", ""): _register(
        asc.nd_dma_dci, vector=True, says="nd_dma_dci", instead="data_copy_pad copies row by row"),
    # registers of LoadData
    ("SetFmatrix", ""): _register(lambda: asc.set_fmatrix(4, 4, (0, 0, 0, 0))),
    ("SetLoadDataPaddingValue", ""): _typed(lambda dtype: asc.set_load_data_padding_value(1, dtype)),
    ("SetLoadDataRepeat", ""): _register(lambda: asc.set_load_data_repeat(asc.LoadDataRepeatParam())),
    ("SetLoadDataRepeatWithStride", ""): _register(
        lambda: asc.set_load_data_repeat_with_stride(asc.LoadDataRepeatParamWithStride(0, 1, 0, 1)),
        says="set_load_data_repeat_with_stride", instead="set_load_data_repeat"),
    ("SetLoadDataBoundary", ""): _register(
        lambda: asc.set_load_data_boundary(1024), says="set_load_data_boundary", instead="two loads"),
    # cube and the way out of L0C
    ("Mmad", "without bias"): Call(_mmad("mmad"), "cube"),
    ("Mmad", "with bias"): Call(_mmad("mmad"), "cube"),
    ("MmadMx", "without bias"): Call(_mmad("mmad_mx"), "cube", says="mmad_mx", instead="mmad"),
    ("MmadMx", "with bias"): Call(_mmad("mmad_mx"), "cube", says="mmad_mx", instead="mmad"),
    ("SetHF32Mode", ""): _register(lambda: asc.set_hf32_mode(True)),
    ("SetHF32TransMode", ""): _register(lambda: asc.set_hf32_trans_mode(True)),
    ("SetMMColumnMajor-SetMMRowMajor", ""): _register(lambda: (asc.set_mm_column_major(), asc.set_mm_row_major())),
    ("Fixpipe", "L0C to GM"): Call(_fixpipe, "pair"),
    ("Fixpipe", "L0C to L1"): Call(_fixpipe, "pair", says="L0C to L1", instead="DataCopyCO12DstParams"),
    ("Fixpipe", "L0C to UB"): Call(_fixpipe, "pair", says="L0C to UB", instead="fixpipe to GM"),
    ("SetFixPipeClipRelu", ""): _typed(
        lambda dtype: asc.set_fix_pipe_clip_relu(0x3C00), says="set_fix_pipe_clip_relu", instead="mins"),
    ("SetFixPipeConfig", ""): Call(
        lambda s: asc.set_fix_pipe_config(s.stage["table"]), "register", tensors={"table": ("C2PIPE2GM", "uint64")}),
    ("SetFixpipeNz2ndFlag", ""): _register(lambda: asc.set_fixpipe_nz2nd_flag(1, 0, 0)),
    ("SetFixpipePreQuantFlag", ""): _typed(lambda dtype: asc.set_fix_pipe_pre_quant_flag(1)),
    # atomics
    ("SetAtomicAdd", ""): _typed(asc.set_atomic_add),
    ("SetAtomicMax", ""): _typed(asc.set_atomic_max, says="set_atomic_max", instead="max in UB"),
    ("SetAtomicMin", ""): _typed(asc.set_atomic_min, says="set_atomic_min", instead="min in UB"),
    ("SetAtomicType", ""): _typed(lambda dtype: (asc.set_atomic_add(asc.half), asc.set_atomic_type(dtype))),
    ("DisableDmaAtomic", ""): _register(lambda: (asc.set_atomic_add(asc.half), asc.set_atomic_none())),
    # Tensor API
    ("Copy", "Tensor API, GM to L1"): Call(
        _te(te.CopyGM2L1, "nz"), says="Tensor API",
        instead=_FRACTALS | dict.fromkeys(("atlas_a2", "atlas_a3"), "data_copy with DataCopyParams")),
    ("Copy", "Tensor API, L1 to L0A"): Call(_te(te.CopyL12L0A, "nz"), says="Tensor API", instead="load_data with LoadData2DParams"),
    ("Copy", "Tensor API, L1 to L0B"): Call(_te(te.CopyL12L0B, "zn"), says="Tensor API", instead="load_data with LoadData2DParams"),
}  # fmt: skip
