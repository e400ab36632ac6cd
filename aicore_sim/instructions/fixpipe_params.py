"""Parameter structs of what leaves L0C: Fixpipe and DataCopy with DataCopyCO12DstParams (spec api_semantics.md 12.2, 12.4)."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.instructions.base import cached_hash

NZ, ROW_MAJOR, COLUMN_MAJOR = 0, 1, 2
"""Values of CO2Layout."""


@dataclass(frozen=True)
class FixpipeConfig:
    """Output format: layout 0 NZ, 1 ROW_MAJOR, 2 COLUMN_MAJOR (CO2Layout); is_to_ub for a destination in UB (950)."""

    layout: int = ROW_MAJOR
    is_to_ub: bool = False

    __hash__ = cached_hash

    @classmethod
    def cfg_nz(cls) -> FixpipeConfig:
        return cls(NZ)

    @classmethod
    def cfg_row_major(cls) -> FixpipeConfig:
        return cls(ROW_MAJOR)

    @classmethod
    def cfg_column_major(cls) -> FixpipeConfig:
        return cls(COLUMN_MAJOR)


@dataclass(frozen=True)
class FixpipeParamsV220:
    """src_stride in 64 B (rows of L0C); dst_stride in 32 B for NZ, in elements for ND; src_nd_stride in 1024 B."""

    n_size: int
    m_size: int
    src_stride: int
    dst_stride: int
    quant_pre: int = 0
    deq_scalar: int = 0
    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    is_channel_split: bool = False

    __hash__ = cached_hash


FixpipeParamsM300 = FixpipeParamsV220
"""The same struct by its name on 200I."""


@dataclass(frozen=True)
class Nz2NdParams:
    """nd_num matrices: source stride in 64 B, destination stride in elements."""

    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0


@dataclass(frozen=True)
class Nz2DnParams:
    """dn_num matrices, column-major: source matrix stride and stride of the rows of L0C in 64 B, destination in elements."""

    dn_num: int = 1
    src_nz_matrix_stride: int = 0
    dst_dn_matrix_stride: int = 0
    src_nz_c0_stride: int = 0


@dataclass(frozen=True)
class FixpipeParamsArch3510:
    """950: dst_stride in elements; `params` is Nz2NdParams for ROW_MAJOR, Nz2DnParams for COLUMN_MAJOR, 0 for NZ.

    The first four fields are those of the C++ constructor, in its order, and may be positional; the C++ struct declares
    pre_relu_mode .. vector_relu before them.
    """

    n_size: int
    m_size: int
    src_stride: int
    dst_stride: int
    quant_pre: int = 0
    deq_scalar: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    dual_dst_ctl: int = 0
    sub_block_id: int = 0
    params: Nz2NdParams | Nz2DnParams | int = 0
    is_channel_split: bool = False
    pre_relu_mode: int = 0
    pre_clip_relu_mode: int = 0
    relu_scalar: int = 0
    vector_relu: int = 0

    __hash__ = cached_hash


FixpipeParamsC310 = FixpipeParamsArch3510
"""The same struct by its other name."""

FixpipeParams = FixpipeParamsV220 | FixpipeParamsArch3510


@dataclass(frozen=True)
class DataCopyCO12DstParams:
    """DataCopy out of L0C: dst_stride in 32 B for NZ, in elements for ND (nz2nd_en); src_stride in 64 B.

    pyasc's fields in its order, then those that only the C++ struct has. Quantisation values and the ND matrices come from
    set_fix_pipe_pre_quant_flag, set_fix_pipe_config and set_fixpipe_nz2nd_flag.
    """

    n_size: int
    m_size: int
    dst_stride: int
    src_stride: int
    quant_pre: int = 0
    relu_pre: int = 0
    channel_split: bool = False
    nz2nd_en: bool = False
    sid: int = 0
    unit_flag: int = 0
    clip_relu_pre: int = 0
    elt_wise_op: int = 0

    __hash__ = cached_hash


@dataclass(frozen=True)
class CopyRegisters:
    """What the set calls have left for DataCopy out of L0C: scalar word, (nd_num, source, destination stride), clip word."""

    word: int = 0
    matrices: tuple[int, int, int] = (1, 0, 0)
    clip: int = 0
