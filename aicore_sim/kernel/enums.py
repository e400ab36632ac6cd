"""Enumerations of the kernel language, with pyasc's members and values (spec pyasc.md 4) and the few it lacks."""

from __future__ import annotations

from enum import Enum, IntEnum

from aicore_sim.instructions.base import Pipe

__all__ = [
    "CMPMODE", "AtomicDtype", "AtomicOp", "BlockMode", "CO2Layout", "CacheLine", "CacheMode", "CacheRwMode",
    "ClipReluMode", "CubeFormat", "DataCopyMVType", "DataFormat", "DcciDst", "DeqScale", "GatherMaskMode",
    "HardEvent", "Hardware", "KernelType", "MaskMode", "MemDsbT", "NpuArch", "PaddingMode", "PipeID", "QuantModes",
    "ReduceOrder", "ReluMode", "RoundMode", "SelMode", "TPosition", "TransposeType", "pad_t",
]  # fmt: skip


class TPosition(IntEnum):
    """Logical positions; the card maps them to buffers (spec api_semantics.md 1.1). TSCM and C2PIPE2GM are not pyasc's."""

    GM = 0
    A1 = 1
    A2 = 2
    B1 = 3
    B2 = 4
    C1 = 5
    C2 = 6
    CO1 = 7
    CO2 = 8
    VECIN = 9
    VECOUT = 10
    VECCALC = 11
    MAX = 12
    TSCM = 13
    C2PIPE2GM = 14


class Hardware(IntEnum):
    GM = 0
    UB = 1
    L1 = 2
    L0A = 3
    L0B = 4
    L0C = 5
    BIAS = 6
    FIXBUF = 7
    MAX = 8


class PipeID(IntEnum):
    PIPE_S = 0
    PIPE_V = 1
    PIPE_M = 2
    PIPE_MTE1 = 3
    PIPE_MTE2 = 4
    PIPE_MTE3 = 5
    PIPE_ALL = 6
    PIPE_MTE4 = 7
    PIPE_MTE5 = 8
    PIPE_V2 = 9
    PIPE_FIX = 10


PIPE_OF = {
    PipeID.PIPE_S: Pipe.S, PipeID.PIPE_V: Pipe.V, PipeID.PIPE_M: Pipe.M, PipeID.PIPE_MTE1: Pipe.MTE1,
    PipeID.PIPE_MTE2: Pipe.MTE2, PipeID.PIPE_MTE3: Pipe.MTE3, PipeID.PIPE_FIX: Pipe.FIX,
}  # fmt: skip


class HardEvent(IntEnum):
    """SRC_DST: the pipe before the underscore signals, the one after waits (spec api_semantics.md 11.3)."""

    MTE2_MTE1 = 0
    MTE1_MTE2 = 1
    MTE1_M = 2
    M_MTE1 = 3
    MTE2_V = 4
    V_MTE2 = 5
    MTE3_V = 6
    V_MTE3 = 7
    M_V = 8
    V_M = 9
    V_V = 10
    MTE3_MTE1 = 11
    MTE1_MTE3 = 12
    MTE1_V = 13
    MTE2_M = 14
    M_MTE2 = 15
    V_MTE1 = 16
    M_FIX = 17
    FIX_M = 18
    MTE3_MTE2 = 19
    MTE2_MTE3 = 20
    S_V = 21
    V_S = 22
    S_MTE2 = 23
    MTE2_S = 24
    S_MTE3 = 25
    MTE3_S = 26
    MTE2_FIX = 27
    FIX_MTE2 = 28
    FIX_S = 29
    M_S = 30
    FIX_MTE3 = 31
    MTE1_FIX = 32
    FIX_MTE1 = 33
    FIX_FIX = 34

    @property
    def source(self) -> Pipe:
        return Pipe[self.name.split("_")[0]]

    @property
    def destination(self) -> Pipe:
        return Pipe[self.name.split("_")[1]]


class MemDsbT(IntEnum):
    ALL = 0
    DDR = 1
    UB = 2
    SEQ = 3


class QuantModes(IntEnum):
    """Those above VREQ8 are for 950 only and not pyasc's; their values are not published."""

    NoQuant = 0
    F322F16 = 1
    F322BF16 = 2
    DEQF16 = 3
    VDEQF16 = 4
    QF322B8_PRE = 5
    VQF322B8_PRE = 6
    REQ8 = 7
    VREQ8 = 8
    QS322BF16_PRE = 9
    VQS322BF16_PRE = 10
    QF322F16_PRE = 11
    VQF322F16_PRE = 12
    QF322BF16_PRE = 13
    VQF322BF16_PRE = 14
    QF322F32_PRE = 15
    VQF322F32_PRE = 16
    QF322FP8_PRE = 17
    VQF322FP8_PRE = 18
    QF322HIF8_PRE = 19
    VQF322HIF8_PRE = 20
    QF322HIF8_PRE_HYBRID = 21
    VQF322HIF8_PRE_HYBRID = 22


class CO2Layout(IntEnum):
    NZ = 0
    ROW_MAJOR = 1
    COLUMN_MAJOR = 2


class ReluMode(IntEnum):
    """Of FixpipeParamsArch3510.pre_relu_mode, which nothing reads (spec api_semantics.md 12.3); not pyasc's."""

    NO_RELU = 0
    NORMAL_RELU = 1
    SCALAR_RELU = 2
    VECTOR_RELU = 3


class ClipReluMode(IntEnum):
    """Of FixpipeParamsArch3510.pre_clip_relu_mode, which nothing reads (spec api_semantics.md 12.3); not pyasc's."""

    NOCLIP_RELU = 0
    CLIP_RELU = 1


class BlockMode(IntEnum):
    BLOCK_MODE_NORMAL = 0
    BLOCK_MODE_MATRIX = 1
    BLOCK_MODE_VECTOR = 2
    BLOCK_MODE_SMALL_CHANNEL = 3
    BLOCK_MODE_DEPTHWISE = 4


class DeqScale(IntEnum):
    DEQ_NONE = 0
    DEQ = 1
    VDEQ = 2
    DEQ8 = 3
    VDEQ8 = 4
    DEQ16 = 5
    VDEQ16 = 6


class pad_t(IntEnum):  # noqa: N801  the API's own spelling
    PAD_NONE = 0
    PAD_MODE1 = 1
    PAD_MODE2 = 2
    PAD_MODE3 = 3
    PAD_MODE4 = 4
    PAD_MODE5 = 5
    PAD_MODE6 = 6
    PAD_MODE7 = 7
    PAD_MODE8 = 8


class PaddingMode(IntEnum):
    """Mode of data_copy_pad on 950 (spec api_semantics.md 9.2)."""

    Normal = 0
    Compact = 1


class DataCopyMVType(IntEnum):
    """Directions of loop mode on 950 (spec api_semantics.md 9.5)."""

    UB_TO_OUT = 0
    OUT_TO_UB = 1


class CacheMode(IntEnum):
    CACHE_MODE_NORMAL = 0
    CACHE_MODE_DISABLE = 1
    CACHE_MODE_LAST = 2
    CACHE_MODE_PERSISTENT = 4
    CACHE_MODE_NOTALLOC_KEEP = 8


class CacheRwMode(IntEnum):
    READ = 1
    WRITE = 2
    RW = 3


class CacheLine(IntEnum):
    SINGLE_CACHE_LINE = 0
    ENTIRE_DATA_CACHE = 1


class DcciDst(IntEnum):
    CACHELINE_ALL = 0
    CACHELINE_UB = 1
    CACHELINE_OUT = 2
    CACHELINE_ATOMIC = 3


class MaskMode(IntEnum):
    NORMAL = 0
    COUNTER = 1


class RoundMode(IntEnum):
    CAST_NONE = 0
    CAST_RINT = 1
    CAST_FLOOR = 2
    CAST_CEIL = 3
    CAST_ROUND = 4
    CAST_TRUNC = 5
    CAST_ODD = 6
    CAST_HYBRID = 7


class CMPMODE(IntEnum):
    LT = 0
    GT = 1
    EQ = 2
    LE = 3
    GE = 4
    NE = 5


class SelMode(IntEnum):
    VSEL_CMPMASK_SPR = 0
    VSEL_TENSOR_SCALAR_MODE = 1
    VSEL_TENSOR_TENSOR_MODE = 2


class ReduceOrder(IntEnum):
    ORDER_VALUE_INDEX = 0
    ORDER_INDEX_VALUE = 1
    ORDER_ONLY_VALUE = 2
    ORDER_ONLY_INDEX = 3


class AtomicDtype(IntEnum):
    ATOMIC_NONE = 0
    F32 = 1
    F16 = 2
    S16 = 3
    S32 = 4
    S8 = 5
    BF16 = 6


class AtomicOp(IntEnum):
    ATOMIC_SUM = 0


class GatherMaskMode(IntEnum):
    DEFAULT = 0


class TransposeType(IntEnum):
    TRANSPOSE_TYPE_NONE = 0
    TRANSPOSE_NZ2ND_0213 = 1
    TRANSPOSE_NZ2NZ_0213 = 2
    TRANSPOSE_NZ2NZ_012_WITH_N = 3
    TRANSPOSE_NZ2ND_012_WITH_N = 4
    TRANSPOSE_NZ2ND_012_WITHOUT_N = 5
    TRANSPOSE_NZ2NZ_012_WITHOUT_N = 6
    TRANSPOSE_ND2ND_ONLY = 7
    TRANSPOSE_ND_UB_GM = 8
    TRANSPOSE_GRAD_ND_UB_GM = 9
    TRANSPOSE_ND2ND_B16 = 10
    TRANSPOSE_NCHW2NHWC = 11
    TRANSPOSE_NHWC2NCHW = 12


class DataFormat(IntEnum):
    ND = 0
    NZ = 1
    NCHW = 2
    NC1HWC0 = 3
    NHWC = 4


class CubeFormat(IntEnum):
    ND = 0
    NZ = 1


class NpuArch(IntEnum):
    """Architecture numbers that `npu_arch()` returns."""

    A2 = 2201
    A3 = 2201  # noqa: PIE796  one architecture, two products
    ATLAS_200I = 3002
    ATLAS_350 = 3510


class KernelType(Enum):
    AIV_ONLY = 0
    AIC_ONLY = 1
    MIX_AIV_HARD_SYNC = 2
    MIX_AIC_HARD_SYNC = 3
    MIX_AIV_1_0 = 4
    MIX_AIC_1_0 = 5
    MIX_AIC_1_1 = 6
    MIX_AIC_1_2 = 7
