"""The names of the kernel language: all that pyasc has, nothing that leaked in, and a clear word where one is not modelled."""

from __future__ import annotations

import builtins
import inspect
from typing import Any

import pytest

import aicore_sim as asc
from aicore_sim.errors import UnsupportedError
from aicore_sim.kernel import absent, language
from aicore_sim.kernel.placeholder import Placeholder

# spec pyasc.md 6.1 to 6.3, by hand
FUNCTIONS = """
data_copy data_copy_pad copy set_pad_value load_data load_data_with_transpose load_data_with_sparse load_image_to_local
init_const_value set_load_data_boundary set_load_data_padding_value set_load_data_repeat mmad mmad_with_sparse fixpipe
set_fix_pipe_pre_quant_flag set_hf32_mode set_hf32_trans_mode set_mm_layout_transform set_aipp_functions

set_flag wait_flag pipe_barrier data_sync_barrier cross_core_set_flag cross_core_wait_flag ib_set ib_wait sync_all
notify_next_block wait_pre_block data_cache_clean_and_invalid data_cache_preload icache_preload
get_icache_preload_status set_atomic_add set_atomic_max set_atomic_min set_atomic_type set_atomic_none
set_store_atomic_config get_store_atomic_config get_block_idx get_block_num get_sub_block_idx get_sub_block_num
get_task_ratio get_system_cycle get_program_counter get_data_block_size_in_bytes get_sys_workspace init_soc_state trap
reset_mask set_mask_count set_mask_norm ascend_is_aic ascend_is_aiv get_arch_version set_vector_mask set_sys_workspace
get_hccl_context set_hccl_context check_local_memory_ia scalar_cast scalar_get_count_of_value scalar_get_sff_value
scalar_count_leading_zero count_bits_cnt_same_as_sign_bit dump_tensor dump_acc_chk_point printf print_time_stamp
metrics_prof_start metrics_prof_stop

add add_deq_relu add_relu bitwise_and bitwise_or div fused_mul_add fused_mul_add_relu max min mul mul_add_dst sub sub_relu
mul_cast add_relu_cast sub_relu_cast adds leaky_relu maxs mins muls shift_left shift_right axpy abs exp ln bitwise_not
reciprocal relu rsqrt sqrt cast duplicate brcb compare compare_scalar get_cmp_mask set_cmp_mask select gatherb gather
gather_mask get_gather_mask_remain_count block_reduce_sum block_reduce_max block_reduce_min pair_reduce_sum
repeat_reduce_sum whole_reduce_max whole_reduce_min whole_reduce_sum reduce_max reduce_min reduce_sum scatter transpose
trans_data_to_5hd cast_deq set_deq_scale get_sort_len get_sort_offset get_mrg_sort_result mrg_sort mrg_sort4
proposal_concat proposal_extract rp_sort16 sort sort32 bilinear_interpolation

number inline static_assert get_shape_size array property ceildiv range static_range get_tpipe_ptr
"""

# spec pyasc.md 4, 7 and 8
TYPES = """
int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 half float_ double int_ void DataType ConstExpr
TPosition Hardware PipeID HardEvent MemDsbT QuantModes CO2Layout BlockMode DeqScale pad_t CacheMode CacheRwMode CacheLine
DcciDst MaskMode RoundMode CMPMODE SelMode ReduceOrder AtomicDtype AtomicOp GatherMaskMode TransposeType DataFormat
CubeFormat AippInputFormat GlobalAddress GlobalTensor LocalTensor LocalTensorAuto LocalMemAllocator TPipe TQue TQueBind
TBuf TBufPool TensorDesc ListTensorDesc MrgSortSrcList BinaryRepeatParams BrcbRepeatParams CopyRepeatParams DataCopyParams
DataCopyEnhancedParams InitConstValueParams ShapeInfo SliceInfo UnaryRepeatParams TransDataTo5HDParams TransposeParamsExt
DataCopyPadExtParams DataCopyPadParams DataCopyExtParams GatherMaskParams MmadParams LoadImageToLocalParams Nd2NzParams
Nz2NdParamsFull DataCopyCO12DstParams GatherRepeatParams LoadData2DParams LoadData2DParamsV2 LoadData3DParamsV1
LoadData3DParamsV2 LoadData3DParamsV2Pro LoadData2dTransposeParams LoadDataRepeatParam LoadData2dTransposeParamsV2
MrgSort4Info FixpipeConfig FixpipeParamsV220 VdeqInfo CheckLocalMemoryIAParam AippPaddingParams AippSwapParams
AippSingleLineParams AippDataTypeConvParams AippChannelPaddingParams AippColorSpaceConvParams AippParams
"""

HOST = {
    "AiCoreError", "AlignmentError", "CapacityError", "Card", "ConfigError", "DeadlockError", "Field", "GmSpec",
    "Hazard", "Hazards", "MockTensor", "MockValue", "OutOfBoundsError", "ParameterError", "Run", "Struct", "StructField",
    "UncleanError", "UnsupportedError", "assert_clean", "card_names", "jit", "load_card", "simulate",
}  # fmt: skip
"""What `import aicore_sim as asc` has besides the kernel language."""


def test_every_name_of_pyasc_is_here() -> None:
    assert [name for name in (FUNCTIONS + TYPES).split() if name not in language.__all__] == []
    assert [name for name in language.__all__ if getattr(asc, name) is not getattr(language, name)] == []


@pytest.mark.parametrize("module", [asc, language])
def test_exports_are_unique_and_of_this_package(module: Any) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        origin = getattr(value, "__module__", None) or type(value).__module__
        assert origin.startswith("aicore_sim"), (name, origin)
        assert not inspect.ismodule(value), name


def test_the_package_adds_what_a_host_needs_and_no_more() -> None:
    assert set(asc.__all__) - set(language.__all__) == HOST


def test_a_star_import_replaces_five_builtins() -> None:
    replaced = {name for name in language.__all__ if hasattr(builtins, name)}
    assert replaced == {"range", "property", "max", "min", "abs"}


@pytest.mark.parametrize("name", absent.__all__)
def test_what_is_not_modelled_names_its_api(name: str) -> None:
    value = getattr(asc, name)
    assert value is getattr(absent, name), "it is modelled now: take it out of the table of absent names"
    assert isinstance(value, Placeholder)
    attempts = [lambda: value(1, 2, count=3)] if name[0].islower() else [value, lambda: value.MEMBER]
    for attempt in attempts:
        with pytest.raises(UnsupportedError) as caught:
            attempt()
        assert caught.value.value == name
        assert "".join(c for c in name.lower() if c != "_")[:12] in str(caught.value).lower().replace("_", "")


def test_absent_names_can_be_looked_at() -> None:
    assert not hasattr(asc.sort32, "__wrapped__")
    assert not hasattr(asc.sort32, "_pytestfixturefunction")
    assert repr(asc.sort32) == "<sort32: not modelled>"
