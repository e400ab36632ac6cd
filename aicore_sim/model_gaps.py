"""What vendor pages offer and this model does not: a reason for every such row of the cards' API lists.

A row that a card offers is either modelled or stands here; tests/test_api_support.py holds the lists together.
"""

from __future__ import annotations

from aicore_sim.card_model import ApiSupport
from aicore_sim.cards import Card

_GROUPS: dict[str, str] = {
    # ---- movement and the cube
    "how the index selects elements is not specified": "LoadDataWithSparse; MmadWithSparse",
    "image formats and the AIPP unit": "LoadImageToLocal",
    "the packed form: set_fmatrix does the same": "SetFmatrixBitMode",
    "the packed form: mmad and mmad_mx with MmadParams do the same": "MmadBitMode",
    "what it changes is not specified": "SetFixPipeAddr",
    "the configuration word: set_atomic_add, set_atomic_max, set_atomic_min and set_atomic_none do the same":
        "GetStoreAtomicConfig; SetStoreAtomicConfig",
    "the Tensor API moves from GM to L1 and from L1 to L0A and L0B; elsewhere load_data, data_copy, fixpipe, mmad":
        "Copy|Tensor API, L1 to BiasTable; Copy|Tensor API, L1 to Fixpipe; Copy|Tensor API, L1 to L0ScaleA;"
        "Copy|Tensor API, L1 to L0ScaleB; Copy|Tensor API, L0C to GM; Copy|Tensor API, L0C to UB; Mmad|Tensor API",
    "layouts and tensors of the Tensor API have shape, stride, size and slices only":
        "Coshape; Cosize; Squeeze; ViewEngine; GetLayoutPattern; Select|of layout_structure",
    # ---- vector and scalar
    "this vector function":
        "AbsSub; Ands; CreateVecIndex; DeInterleave; Divs; ExpSub; GatherMask; Gatherb; GetCmpMask;"
        "GetMrgSortResult; GetReduceRepeatMaxMinSpr; GetReduceRepeatSumSpr; Interleave; MrgSort; MulAddRelu; Mull;"
        "MulsCast; Neg; Ors; Prelu; Scatter; SetCmpMask; Sort32; Subs; Truncate",
    "scalars on the left and shifts by a tensor":
        "Adds|scalar on either side; Maxs|scalar on either side; Mins|scalar on either side; Muls|scalar on either side;"
        "ShiftLeft|shift by tensor; ShiftRight|shift by tensor",
    "atomics of the scalar unit: set_atomic_add and a store": "AtomicAdd; AtomicCas; AtomicExch; AtomicMax; AtomicMin",
    "special registers":
        "ClearSpr; GetCtrlSpr; GetSpr; ResetCtrlSpr; SetCtrlSpr; GetSaturationFlag; SetSaturationFlag; GetProgramCounter;"
        "GetRuntimeUBSize; GetSsbufBaseAddr; GetUBSizeInBytes; GetVecLen",
    "Python's assert does it": "assert; ascendc_assert",
    "a GlobalTensor keeps its type": "ReinterpretCast|of GlobalTensor",
    "destroy does it, with a barrier": "DestroyWithoutPipeAll",
    "Python arithmetic does it": "CeilDivision; CountLeadingZero; GetBitCount; GetSFFValue; Nop",
    "limits of types are Python values here (numpy.finfo, numpy.iinfo)":
        "DeNormMin; Infinity; Lowest; NegativeInfinity; QuietNaN; SignalingNaN; Max|of NumericLimits; Min|of NumericLimits",
    # ---- synchronisation, memory, framework
    "kernels that overlap": "SetNextTaskStart; WaitPreTaskEnd; Async",
    "preloading of the data cache": "DataCachePreload",
    "buffer pools": "InitBufPool; EXTERN_IMPL_BUFPOOL; GetBufHandle; GetCurBufSize; SetCurAddr; SetCurBufSize; Init|; Reset|;"
        "GetCurAddr|; InitBuffer|of TBufPool; Reset|of TBufPool; TBufPool; InitBufHandle; InitStartBufHandle; PopStackBuffer",
    "the SPM": "InitSpmBuffer; ReadSpmBuffer; WriteSpmBuffer",
    "the workspace is an argument of the kernel here": "GetSysWorkSpacePtr; GetUserWorkspace; SetSysWorkSpace",
    "tiling data are Python values here":
        "COPY_TILING_WITH_ARRAY; COPY_TILING_WITH_STRUCT; GET_TILING_DATA; GET_TILING_DATA_MEMBER;"
        "GET_TILING_DATA_PTR_WITH_STRUCT; GET_TILING_DATA_WITH_STRUCT; REGISTER_NONE_TILING; REGISTER_TILING_DEFAULT;"
        "REGISTER_TILING_FOR_TILINGKEY; TILING_KEY_IS; TILING_KEY_LIST; KERNEL_TASK_TYPE_DEFAULT",
    "groups of cube cores":
        "AllocMessage; AssignQueue; CreateCubeResGroup; CubeResGroupHandle; FreeMessage; PostFakeMsg; PostMessage; SetQuit;"
        "SetSkipMsg; Wait; Arrive; GetWorkspaceLen; GroupBarrier; GetKfcWorkspace; UpdateKfcWorkspace; KfcWorkspace",
    "descriptors of dynamic operators":
        "ListTensorDesc; GetDataObj; GetDataPtr; GetDim; GetIndex; SetShapeAddr; TensorDesc; GetShape|of TensorDesc",
    "layouts of GlobalTensor and LocalTensor; asc.te has those of the Tensor API":
        "Crd2Idx; MakeCoord|of Coordinate; GetShape|of Layout; GetStride|of Layout; Layout; MakeLayout|of Layout;"
        "MakeShape|of Layout; MakeStride|of Layout; is_layout; layout1; operator==; GetLayout; MakeTensorTrait; SetLayout;"
        "TensorTrait; is_tensorTrait",
    "debugging of the vendor's CPU build":
        "Print|of LocalTensor; ToFile; GmAlloc; GmFree; ICPU_RUN_KF; SetKernelMode; MarkStamp; CheckLocalMemoryIA",
}  # fmt: skip
"""Reason: the rows, "API" for any variant or "API|start of the variant"; "API|" is the row without a variant."""

_LIBRARY = "an instruction: the Matmul library does it in software, by data_copy to GM and data_copy from GM to L1"
_IN_SOFTWARE = ("DataCopy|UB to L1", "DataCopyPad|UB to L1")
"""Rows of A2 and A3 that need the Matmul library (spec api_semantics.md 9.1)."""


def gap(card: Card, row: ApiSupport) -> str:
    """Why a row of the API list is not modelled; "" where it is."""
    if card.npu_arch == 2201 and any(_fits(entry, row) for entry in _IN_SOFTWARE):
        return _LIBRARY
    reason = _ENTRIES.get(row.name, ())
    return next((why for entry, why in reason if _fits(entry, row)), "")


def _fits(entry: str, row: ApiSupport) -> bool:
    name, mark, start = entry.partition("|")
    return name == row.name and (not mark or (row.variant.startswith(start) if start else not row.variant))


def _by_name() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for why, entries in _GROUPS.items():
        for entry in entries.split(";"):
            word = entry.strip()
            found.setdefault(word.partition("|")[0], []).append((word, why))
    return found


_ENTRIES = _by_name()
