"""The kernel language: every name that a kernel uses, in one flat list, as pyasc has it (spec pyasc.md 1, 4, 6 to 8).

`__all__` is what `from asc import *` gives a pyasc program. As there, `range`, `property`, `max`, `min` and `abs` replace
the builtins.
"""

# ruff: noqa: F403, A004
from __future__ import annotations

from aicore_sim.dtypes import (
    DataType,
    bfloat16,
    double,
    float16,
    float32,
    float64,
    float_,
    fp4x2_e1m2,
    fp4x2_e2m1,
    fp8_e4m3fn,
    fp8_e5m2,
    fp8_e8m0,
    half,
    hifloat8,
    int4,
    int8,
    int16,
    int32,
    int64,
    int_,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from aicore_sim.instructions import fixpipe as _fixpipe
from aicore_sim.instructions.data_copy import DataCopyEnhancedParams, DataCopyParams
from aicore_sim.instructions.data_copy_pad import DataCopyExtParams, DataCopyPadExtParams, DataCopyPadParams
from aicore_sim.instructions.fixpipe import *
from aicore_sim.instructions.init_const_value import InitConstValueParams
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_mx import LoadData2DMxParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.instructions.load_transpose import LoadData2dTransposeParams, LoadData2dTransposeParamsV2
from aicore_sim.instructions.loop_mode import LoopModeParams
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.instructions.nd2nz import Dn2NzParams, Nd2NzParams
from aicore_sim.instructions.nddma import MultiCopyLoopInfo, MultiCopyParams, NdDmaConfig, NdDmaLoopInfo, NdDmaParams
from aicore_sim.instructions.nz2nd import Nz2NdParamsFull
from aicore_sim.instructions.slices import SliceInfo
from aicore_sim.kernel import absent as _absent
from aicore_sim.kernel import allocator as _allocator
from aicore_sim.kernel import api_aipp as _aipp
from aicore_sim.kernel import api_bilinear as _bilinear
from aicore_sim.kernel import api_copy as _copy
from aicore_sim.kernel import api_copy_pad as _copy_pad
from aicore_sim.kernel import api_cube as _cube
from aicore_sim.kernel import api_load as _load
from aicore_sim.kernel import api_load_3d as _load_3d
from aicore_sim.kernel import api_transpose as _transpose
from aicore_sim.kernel import api_vector as _vector
from aicore_sim.kernel import api_vector_copy as _vector_copy
from aicore_sim.kernel import api_vector_fused as _vector_fused
from aicore_sim.kernel import api_vector_gather as _vector_gather
from aicore_sim.kernel import api_vector_reduce as _vector_reduce
from aicore_sim.kernel import api_vector_select as _vector_select
from aicore_sim.kernel import api_vector_total as _vector_total
from aicore_sim.kernel import arrays as _arrays
from aicore_sim.kernel import auto_tensor as _auto_tensor
from aicore_sim.kernel import bit_mode_2d as _bit_mode_2d
from aicore_sim.kernel import block_sync as _block_sync
from aicore_sim.kernel import cube_registers as _cube_registers
from aicore_sim.kernel import enums as _enums
from aicore_sim.kernel import framework as _framework
from aicore_sim.kernel import scalar as _scalar
from aicore_sim.kernel import sync as _sync
from aicore_sim.kernel import system as _system
from aicore_sim.kernel import te as te
from aicore_sim.kernel import tensor as _tensor
from aicore_sim.kernel import values as _values
from aicore_sim.kernel.absent import *
from aicore_sim.kernel.allocator import *
from aicore_sim.kernel.api_aipp import *
from aicore_sim.kernel.api_bilinear import *
from aicore_sim.kernel.api_copy import *
from aicore_sim.kernel.api_copy_pad import *
from aicore_sim.kernel.api_cube import *
from aicore_sim.kernel.api_load import *
from aicore_sim.kernel.api_load_3d import *
from aicore_sim.kernel.api_transpose import *
from aicore_sim.kernel.api_vector import *
from aicore_sim.kernel.api_vector_copy import *
from aicore_sim.kernel.api_vector_fused import *
from aicore_sim.kernel.api_vector_gather import *
from aicore_sim.kernel.api_vector_reduce import *
from aicore_sim.kernel.api_vector_select import *
from aicore_sim.kernel.api_vector_total import *
from aicore_sim.kernel.arrays import *
from aicore_sim.kernel.auto_tensor import *
from aicore_sim.kernel.bit_mode_2d import *
from aicore_sim.kernel.block_sync import *
from aicore_sim.kernel.cube_registers import *
from aicore_sim.kernel.enums import *
from aicore_sim.kernel.framework import *
from aicore_sim.kernel.scalar import *
from aicore_sim.kernel.sync import *
from aicore_sim.kernel.system import *
from aicore_sim.kernel.tensor import *
from aicore_sim.kernel.values import *

__all__ = [
    "DataCopyEnhancedParams", "DataCopyExtParams", "DataCopyPadExtParams", "DataCopyPadParams", "DataCopyParams",
    "DataType", "Dn2NzParams", "InitConstValueParams", "LoadData2DMxParams", "LoadData2DParams",
    "LoadData2DParamsV2", "LoadData2dTransposeParams", "LoadData2dTransposeParamsV2", "LoopModeParams",
    "MmadParams", "MultiCopyLoopInfo", "MultiCopyParams", "Nd2NzParams", "NdDmaConfig", "NdDmaLoopInfo",
    "NdDmaParams", "Nz2NdParamsFull", "SliceInfo", "bfloat16", "double", "float16",
    "float32", "float64", "float_", "fp4x2_e1m2", "fp4x2_e2m1", "fp8_e4m3fn", "fp8_e5m2", "fp8_e8m0", "half",
    "hifloat8", "int4", "int8", "int16", "int32", "int64", "int_", "uint8", "uint16", "uint32", "uint64", "void",
]  # fmt: skip
__all__ += _absent.__all__
__all__ += _allocator.__all__
__all__ += _arrays.__all__
__all__ += _auto_tensor.__all__
__all__ += _bit_mode_2d.__all__
__all__ += _block_sync.__all__
__all__ += _copy.__all__
__all__ += _copy_pad.__all__
__all__ += _cube.__all__
__all__ += _cube_registers.__all__
__all__ += _enums.__all__
__all__ += _fixpipe.__all__
__all__ += _framework.__all__
__all__ += _load.__all__
__all__ += _load_3d.__all__
__all__ += _scalar.__all__
__all__ += _sync.__all__
__all__ += _system.__all__
__all__ += _tensor.__all__
__all__ += _values.__all__
__all__ += _vector.__all__
__all__ += _vector_fused.__all__
__all__ += _vector_gather.__all__
__all__ += _vector_reduce.__all__
__all__ += _vector_select.__all__
__all__ += _vector_total.__all__
__all__ += _bilinear.__all__
__all__ += _aipp.__all__
__all__ += _transpose.__all__
__all__ += _vector_copy.__all__
