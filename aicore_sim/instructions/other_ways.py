"""What messages call the rows of a card's API list, and what does the same on a card that lacks one.

A way names the row that it needs: only ways that the card itself offers are told (spec api_semantics.md 9.1, 22).
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card

Way = tuple[str, str, str]
"""Words for a kernel's author, API and start of the variant of the row that must be offered for it ("" "" for always)."""


@dataclass(frozen=True)
class Form:
    """`label`: struct, form or path by which messages call the row, "" where the API's name says it all.

    Of the ways the first that the card offers is told, with `every` all of them.
    """

    label: str
    ways: tuple[Way, ...] = ()
    every: bool = False


_FRACTALS: Way = ("load_data with LoadData2DParams, for fractals laid out in GM", "LoadData", "GM to L1-2D")
_THROUGH_GM: Way = (
    "data_copy to GM, then on the cube core data_copy from GM to L1: the Matmul library does the same in software",
    "DataCopy", "GM to L1 contiguous",
)  # fmt: skip
_FRACTALS_THROUGH_GM: Way = (
    "data_copy to GM, then load_data with LoadData2DParams for fractals laid out in GM", "LoadData", "GM to L1-2D",
)  # fmt: skip
_2D: Way = ("LoadData2DParams", "LoadData_2D", "")
_2D_V2: Way = ("LoadData2DParamsV2", "LoadData_2D_V2", "")
_3D: Way = ("LoadData3DParamsV2", "LoadData_3D", "LoadData3DParamsV2")
_LOAD_3D: Way = ("load_data with LoadData3DParamsV2", "LoadData_3D", "LoadData3DParamsV2")
_PAD_ROWS: Way = ("data_copy_pad, row by row", "DataCopyPad", "")
_REPEAT: Way = ("set_load_data_repeat", "SetLoadDataRepeat", "")
_ALONE = ("", "")
_TO_L1 = (_THROUGH_GM, _FRACTALS_THROUGH_GM)
_FIXPIPE_GM: Way = ("fixpipe to GM, then data_copy", "Fixpipe", "L0C to GM")
_ND2NZ: Way = ("data_copy with Nd2NzParams", "DataCopy", "GM to L1 ND2NZ")

FORMS: dict[tuple[str, str], Form] = {
    # ---- LoadData and its relatives
    ("LoadData", "GM to L1-2D V2"): Form("LoadData2DParamsV2 from GM to L1", (
        ("load_data with LoadData2DParams", "LoadData", "GM to L1-2D"), _ND2NZ)),
    ("LoadData", "GM to L1-2D"): Form("LoadData2DParams from GM to L1"),
    ("LoadData_2D", ""): Form("LoadData2DParams", (_2D_V2, _3D), every=True),
    ("LoadData_2D", "GM to L0"): Form("LoadData2DParams", (("GM to L1 first, then L1 to L0A or L0B", *_ALONE),)),
    ("LoadData_2D_V2", ""): Form("LoadData2DParamsV2", (_2D, _3D), every=True),
    ("LoadData_2D_BitMode", ""): Form("Load2DBitModeParam", (_2D_V2, _2D, _3D), every=True),
    ("LoadData_2D_MX", ""): Form("LoadData2DParamsV2 with LoadData2DMxParams", (
        ("LoadData2DParams, of types that mmad takes without scales", "LoadData_2D", ""),)),
    ("LoadData_3D", "LoadData3DParamsV1"): Form("LoadData3DParamsV1", (_3D,)),
    ("LoadData_3D", "LoadData3DParamsV2"): Form("LoadData3DParamsV2", (_2D,)),
    ("LoadData_3D_BitMode", ""): Form("Load3DBitModeParam", (
        _3D, ("LoadData3DParamsV2Pro", "LoadData_3D", "LoadData3DParamsV2")), every=True),
    ("LoadDataWithStride", ""): Form("", (_LOAD_3D,)),
    ("LoadDataWithTranspose", ""): Form(""),
    ("LoadDataWithTranspose", "L1 to L0A"): Form("", (
        ("load_data with LoadData2DParamsV2 and if_transpose", "LoadData_2D_V2", ""),)),
    ("Fill", ""): Form("InitConstValueParams"),
    ("SetFmatrixBitMode", ""): Form("", (("set_fmatrix", "SetFmatrix", ""),)),
    ("SetLoadDataRepeatWithStride", ""): Form("", (_REPEAT,)),
    ("SetLoadDataBoundary", ""): Form("", (
        ("two loads, one up to the end of the ring and one from L1's start", *_ALONE),)),
    # ---- DataCopy
    ("DataCopy", "GM to UB NDDMA"): Form("NdDmaParams (NDDMA)", (_PAD_ROWS,)),
    ("NdDmaDci", ""): Form("", (
        ("none needed: without NDDMA (NdDmaParams) there is no such cache; data_copy_pad copies row by row", *_ALONE),)),
    ("DataCopy", "GM to UB ND2NZ"): Form("Nd2NzParams from GM to UB", (
        ("data_copy row by row, or data_copy_pad", "DataCopyPad", ""),)),
    ("DataCopy", "GM and UB slices"): Form("slices (SliceInfo) between GM and UB", (_PAD_ROWS,)),
    ("DataCopy", "GM and UB contiguous"): Form("the count form between GM and UB"),
    ("DataCopy", "GM and UB strided"): Form("DataCopyParams between GM and UB"),
    ("DataCopy", "UB to GM NZ2ND"): Form("Nz2NdParamsFull from UB to GM", (
        ("data_copy_pad, column block by column block", "DataCopyPad", ""),)),
    ("DataCopy", "UB to UB contiguous"): Form("the count form from UB to UB", (
        ("a vector instruction (adds with 0), or through GM", *_ALONE),)),
    ("DataCopy", "UB to UB strided"): Form("DataCopyParams from UB to UB", (
        ("a vector instruction (adds with 0), or through GM", *_ALONE),)),
    ("DataCopy", "GM to L1 contiguous"): Form("the count form from GM to L1", (_FRACTALS,)),
    ("DataCopy", "GM to L1 strided"): Form("DataCopyParams from GM to L1", (_FRACTALS,)),
    ("DataCopy", "GM to L1 ND2NZ"): Form("Nd2NzParams from GM to L1", (_FRACTALS,)),
    ("DataCopy", "GM to L1 DN2NZ"): Form("Dn2NzParams from GM to L1", (
        ("data_copy with Nd2NzParams, and a transposing load (load_data with if_transpose, load_data_with_transpose)",
         "DataCopy", "GM to L1 ND2NZ"),
        _FRACTALS)),
    ("DataCopy", "UB to L1 contiguous"): Form("the count form from UB to L1", _TO_L1),
    ("DataCopy", "UB to L1 strided"): Form("DataCopyParams from UB to L1", _TO_L1),
    ("DataCopy", "UB to L1 ND2NZ"): Form("Nd2NzParams from UB to L1", _TO_L1),
    ("DataCopyL1ToUB", ""): Form("", (
        ("on the cube core data_copy to GM, then data_copy from GM to UB", "DataCopy", "L1 to GM contiguous"),
        ("results of the cube reach UB by fixpipe; other data through GM", "Fixpipe", "L0C to UB"))),
    ("DataCopy", "L1 to GM"): Form("L1 to GM", (
        ("data_copy_l1_to_ub, then on the vector core data_copy to GM", "DataCopyL1ToUB", ""),
        ("only results leave the cube, from L0C by fixpipe", "Fixpipe", "L0C to GM"))),
    ("DataCopy", "L1 to BiasTable"): Form("L1 to BT", (
        ("mmad with cmatrix_init_val False on a first result, or the bias added in UB", *_ALONE),)),
    ("DataCopy", "L1 to Fixpipe"): Form("L1 to FB", (
        ("fixpipe with cbuf_workspace, a table in L1", "Fixpipe", "L0C to GM"),)),
    ("DataCopy", "L0C to UB"): Form("DataCopyCO12DstParams from L0C to UB", (
        ("fixpipe", "Fixpipe", "L0C to UB"), _FIXPIPE_GM)),
    ("DataCopy", "L0C to"): Form("DataCopyCO12DstParams", (
        ("fixpipe, or data_copy with DataCopyCO12DstParams", *_ALONE),)),
    ("DataCopy", "L1 to L0"): Form("", (("load_data", *_ALONE),)),
    ("DataCopy", "GM to L0"): Form("", (("GM to L1, then load_data", *_ALONE),)),
    ("DataCopy", "UB to L0"): Form("", (
        ("UB to L1, then load_data", "DataCopyL1ToUB", ""),  # where UB and L1 are joined
        ("data_copy to GM, then on the cube core to L1, then load_data", "DataCopy", "GM to L1 contiguous"),
        _FRACTALS_THROUGH_GM)),
    ("DataCopy", "GM to BT"): Form("", (("GM to L1, then L1 to BT", "DataCopy", "L1 to BiasTable"),)),
    ("DataCopy", "GM to FB"): Form("", (("GM to L1, then L1 to FB", "DataCopy", "L1 to Fixpipe"),)),
    ("DataCopy", "GM to GM"): Form("", (("GM to UB, then UB to GM", *_ALONE),)),
    # ---- DataCopyPad, loop mode
    ("DataCopyPad", "GM to L1"): Form("GM to L1", (
        ("data_copy of whole blocks", "DataCopy", "GM to L1 contiguous"), _FRACTALS)),
    ("DataCopyPad", "GM to UB"): Form("GM to UB"),
    ("DataCopyPad", "UB to GM"): Form("UB to GM"),
    ("DataCopyPad", "UB to L1"): Form("UB to L1", _TO_L1),
    ("SetPadValue", ""): Form("", (("DataCopyPadExtParams with is_pad True and a padding_value", "DataCopyPad", ""),)),
    ("SetLoopModePara", ""): Form("", (("a Python loop around data_copy or data_copy_pad", *_ALONE),)),
    ("ResetLoopModePara", ""): Form("", (("none needed: without SetLoopModePara there are no loops", *_ALONE),)),
    # ---- cube
    ("Fixpipe", "L0C to L1"): Form("L0C to L1", (
        ("data_copy with DataCopyCO12DstParams", "DataCopy", "L0C to L1"),)),
    ("Fixpipe", "L0C to UB"): Form("L0C to UB", (_FIXPIPE_GM,)),
    ("MmadMx", ""): Form("", (("mmad", "Mmad", "without bias"),)),
    ("MmadBitMode", ""): Form("", (("mmad with MmadParams", "Mmad", "without bias"),)),
    ("MmadWithSparse", ""): Form("", (("mmad with the whole matrices", "Mmad", "without bias"),)),
    ("LoadDataWithSparse", ""): Form("", (("load_data of the whole matrix", "LoadData_2D", ""),)),
    ("SetFixPipeClipRelu", ""): Form("", (("a vector instruction (mins)", *_ALONE),)),
    # ---- atomics
    ("SetAtomicMax", ""): Form("", (("set_atomic_add, or max in UB", "SetAtomicAdd", ""),)),
    ("SetAtomicMin", ""): Form("", (("set_atomic_add, or min in UB", "SetAtomicAdd", ""),)),
    # ---- Tensor API
    ("Copy", "Tensor API, GM"): Form("the Tensor API (te.copy, te.load_data) from GM to L1", (
        ("data_copy with DataCopyParams or Nd2NzParams", "DataCopy", "GM to L1 ND2NZ"), _FRACTALS)),
    ("Copy", "Tensor API, L1 to L0"): Form("the Tensor API (te.copy, te.load_data) from L1 to L0A and L0B", (
        ("load_data with LoadData2DParams", "LoadData_2D", ""),)),
    ("Copy", "Tensor API"): Form("the Tensor API (te.copy)", (
        ("load_data, data_copy and fixpipe", "LoadData_2D", ""),)),
    ("Copy", "UB to UB contiguous"): Form("the count form", (
        ("copy(dst, src, mask, repeat_time, params), or data_copy", "Copy", "UB to UB masked"),)),
    ("Copy", "UB to UB"): Form("copies in UB", (
        ("data_copy from UB to UB", "DataCopy", "UB to UB contiguous"),
        ("a vector instruction (adds with 0)", *_ALONE))),
    ("Mmad", "Tensor API"): Form("the Tensor API", (("mmad", "Mmad", "without bias"),)),
}  # fmt: skip
"""By API and start of the variant; the longest that fits counts."""
_NONE = Form("")


def form_of(name: str, variant: str) -> Form:
    """The form of a row of the API list."""
    keys = [key for key in FORMS if key[0] == name and variant.startswith(key[1])]
    return FORMS[max(keys, key=lambda key: len(key[1]))] if keys else _NONE


def other_ways(card: Card, name: str, variant: str) -> str:
    """What the card offers in place of a row that it lacks, "" for nothing."""
    form = form_of(name, variant)
    found = [words for words, api, start in form.ways if not api or _offers(card, api, start)]
    return ", ".join(found if form.every else found[:1])


def _offers(card: Card, api: str, start: str) -> bool:
    return any(row.supported and row.variant.startswith(start) for row in card.api(api))
