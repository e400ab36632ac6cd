"""pyasc's functions and types that this version does not model: they exist by name, and any use says so.

A function that gets modelled leaves this table (spec pyasc.md 6 to 8).
"""

from __future__ import annotations

from aicore_sim.kernel.placeholder import Placeholder


def _absent(name: str, api: str) -> Placeholder:
    """`name` as programs write it, `api` as its page is called."""
    return Placeholder(name, f"{api} is not in this version")


# ---- matrix functions (6.1) -----------------------------------------------------------------------------------------
load_data_with_sparse = _absent("load_data_with_sparse", "LoadDataWithSparse")
load_image_to_local = _absent("load_image_to_local", "LoadImageToLocal")
mmad_with_sparse = _absent("mmad_with_sparse", "MmadWithSparse")

# ---- synchronisation, cache, system (6.2) ---------------------------------------------------------------------------
check_local_memory_ia = _absent("check_local_memory_ia", "CheckLocalMemoryIA")
data_cache_preload = _absent("data_cache_preload", "DataCachePreload")
get_program_counter = _absent("get_program_counter", "GetProgramCounter")
get_store_atomic_config = _absent("get_store_atomic_config", "GetStoreAtomicConfig")
get_sys_workspace = _absent("get_sys_workspace", "GetSysWorkSpacePtr")
set_store_atomic_config = _absent("set_store_atomic_config", "SetStoreAtomicConfig")
set_sys_workspace = _absent("set_sys_workspace", "SetSysWorkSpace")

# ---- vector functions (6.3) -----------------------------------------------------------------------------------------
gather_mask = _absent("gather_mask", "GatherMask")
gatherb = _absent("gatherb", "Gatherb")
get_cmp_mask = _absent("get_cmp_mask", "GetCmpMask")
get_gather_mask_remain_count = _absent("get_gather_mask_remain_count", "GetGatherMaskRemainCount")
get_mrg_sort_result = _absent("get_mrg_sort_result", "GetMrgSortResult")
get_sort_len = _absent("get_sort_len", "GetSortLen")
get_sort_offset = _absent("get_sort_offset", "GetSortOffset")
mrg_sort = _absent("mrg_sort", "MrgSort")
mrg_sort4 = _absent("mrg_sort4", "MrgSort4")
proposal_concat = _absent("proposal_concat", "ProposalConcat")
proposal_extract = _absent("proposal_extract", "ProposalExtract")
rp_sort16 = _absent("rp_sort16", "RpSort16")
scatter = _absent("scatter", "Scatter")
set_cmp_mask = _absent("set_cmp_mask", "SetCmpMask")
sort = _absent("sort", "Sort")
sort32 = _absent("sort32", "Sort32")

# ---- objects, parameter structs and enumerations that serve only those (4, 7, 8) ------------------------------------
BatchMode = _absent("BatchMode", "BatchMode")
CheckLocalMemoryIAParam = _absent("CheckLocalMemoryIAParam", "CheckLocalMemoryIAParam")
GatherMaskParams = _absent("GatherMaskParams", "GatherMaskParams (GatherMask)")
GatherRepeatParams = _absent("GatherRepeatParams", "GatherRepeatParams (Gatherb)")
IterateMode = _absent("IterateMode", "IterateMode")
IterateOrder = _absent("IterateOrder", "IterateOrder")
LayoutMode = _absent("LayoutMode", "LayoutMode")
ListTensorDesc = _absent("ListTensorDesc", "ListTensorDesc")
LoadImageToLocalParams = _absent("LoadImageToLocalParams", "LoadImageToLocalParams (LoadImageToLocal)")
MatmulConfigMode = _absent("MatmulConfigMode", "MatmulConfigMode")
MrgSort4Info = _absent("MrgSort4Info", "MrgSort4Info (MrgSort)")
MrgSortSrcList = _absent("MrgSortSrcList", "MrgSortSrcList (MrgSort)")
ScheduleType = _absent("ScheduleType", "ScheduleType")
TensorDesc = _absent("TensorDesc", "TensorDesc")

__all__ = sorted(name for name, value in list(globals().items()) if isinstance(value, Placeholder))
