"""The Tensor API (AscendC::Te) of Atlas 350, as `asc.te`: tensors with layouts, and copies that find their instructions.

C++ names in snake_case; template arguments are arguments (`MakeNZLayout<half>(m, k)` is `make_nz_layout(half, m, k)`).
Layouts are in `te.layout` and `te.frames`, pointers and tensors in `te.tensor`, copies in `te.atoms`.
pyasc has no Tensor API, so these names are not part of `from asc import *`.
"""

from __future__ import annotations

from aicore_sim.kernel.te.atoms import (
    CopyAtom,
    CopyGM2L1,
    CopyGM2L1TraitDefault,
    CopyL12L0,
    CopyL12L0A,
    CopyL12L0ATraitDefault,
    CopyL12L0B,
    CopyL12L0BTraitDefault,
    CopyTraits,
    DataCopyTrait,
    DataCopyTraitDefault,
    LoadDataTrait,
    LoadDataTraitDefault,
    copy,
    load_data,
    make_copy,
)
from aicore_sim.kernel.te.frames import (
    LayoutTraitDefault,
    make_dn_layout,
    make_frame_layout,
    make_layout,
    make_nd_layout,
    make_nz_layout,
    make_pattern_layout,
    make_zn_layout,
    make_zz_layout,
)
from aicore_sim.kernel.te.layout import (
    DNExtLayoutPtn,
    DNLayoutPtn,
    Layout,
    NC1HWC0LayoutPtn,
    NDExtLayoutPtn,
    NDLayoutPtn,
    NZLayoutPtn,
    Pattern,
    ZNLayoutPtn,
    ZZLayoutPtn,
    get,
    get_shape,
    get_stride,
    make_coord,
    make_shape,
    make_stride,
)
from aicore_sim.kernel.te.load import Img2ColParams
from aicore_sim.kernel.te.tensor import (
    Location,
    MemPtr,
    Tensor,
    make_gm_mem_ptr,
    make_gmmem_ptr,
    make_l0a_mem_ptr,
    make_l0amem_ptr,
    make_l0b_mem_ptr,
    make_l0bmem_ptr,
    make_l1_mem_ptr,
    make_l1mem_ptr,
    make_mem_ptr,
    make_tensor,
    slice,
)

__all__ = [
    "CopyAtom", "CopyGM2L1", "CopyGM2L1TraitDefault", "CopyL12L0", "CopyL12L0A", "CopyL12L0ATraitDefault", "CopyL12L0B",
    "CopyL12L0BTraitDefault", "CopyTraits", "DNExtLayoutPtn", "DNLayoutPtn", "DataCopyTrait", "DataCopyTraitDefault",
    "Img2ColParams", "Layout", "LayoutTraitDefault", "LoadDataTrait", "LoadDataTraitDefault", "Location", "MemPtr",
    "NC1HWC0LayoutPtn", "NDExtLayoutPtn", "NDLayoutPtn", "NZLayoutPtn", "Pattern", "Tensor", "ZNLayoutPtn",
    "ZZLayoutPtn", "copy", "get", "get_shape", "get_stride", "load_data", "make_coord", "make_copy", "make_dn_layout",
    "make_frame_layout", "make_gm_mem_ptr", "make_gmmem_ptr", "make_l0a_mem_ptr", "make_l0amem_ptr", "make_l0b_mem_ptr",
    "make_l0bmem_ptr", "make_l1_mem_ptr", "make_l1mem_ptr", "make_layout", "make_mem_ptr", "make_nd_layout",
    "make_nz_layout", "make_pattern_layout", "make_shape", "make_stride", "make_tensor", "make_zn_layout",
    "make_zz_layout", "slice",
]  # fmt: skip
