"""aicore_sim: a model of data movement on Ascend AI Cores, with pyasc's interface for kernels.

`import aicore_sim as asc`, write a kernel with `@asc.jit`, run it with `asc.simulate(kernel, *args, blocks=..., card=...)`
and look at `Run.trace`. The names below are those of spec pyasc.md 6 to 8 and their snake_case relatives.
"""

# ruff: noqa: F401, F403, A004
from __future__ import annotations

from aicore_sim.cards import Card, card_names, load_card
from aicore_sim.dtypes import *
from aicore_sim.dtypes import DataType
from aicore_sim.errors import (
    AiCoreError,
    AlignmentError,
    CapacityError,
    ConfigError,
    DeadlockError,
    OutOfBoundsError,
    ParameterError,
    UnsupportedError,
)
from aicore_sim.instructions.data_copy import DataCopyParams
from aicore_sim.instructions.data_copy_pad import DataCopyExtParams, DataCopyPadExtParams, DataCopyPadParams
from aicore_sim.instructions.fixpipe import *
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.instructions.load_data_3d import LoadData3DParamsV2
from aicore_sim.instructions.mmad import MmadParams
from aicore_sim.instructions.nd2nz import Nd2NzParams
from aicore_sim.instructions.nddma import MultiCopyLoopInfo, MultiCopyParams, NdDmaConfig, NdDmaLoopInfo, NdDmaParams
from aicore_sim.kernel.allocator import LocalMemAllocator
from aicore_sim.kernel.api_copy import data_copy, data_copy_pad, nd_dma_dci, set_pad_value
from aicore_sim.kernel.api_cube import fixpipe, load_data, mmad
from aicore_sim.kernel.api_vector import *
from aicore_sim.kernel.arguments import GmSpec, MockTensor, MockValue
from aicore_sim.kernel.arrays import *
from aicore_sim.kernel.auto_tensor import LocalTensorAuto
from aicore_sim.kernel.enums import *
from aicore_sim.kernel.framework import *
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.scalar import (
    data_cache_clean_and_invalid,
    data_sync_barrier,
    read_gm_by_pass_dcache,
    write_gm_by_pass_dcache,
)
from aicore_sim.kernel.structs import Field, Struct, StructField
from aicore_sim.kernel.sync import *
from aicore_sim.kernel.system import *
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.kernel.values import *
from aicore_sim.launch import Run, simulate

__version__ = "0.1.0"
