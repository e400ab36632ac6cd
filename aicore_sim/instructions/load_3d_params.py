"""Parameter structs of LoadData3D: V1, V2 and V2Pro (spec api_semantics.md 5.1, 5.2, pyasc.md 8).

LoadData3DParamsV2 is the form that the others are brought to before they are lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aicore_sim.instructions.base import cached_hash
from aicore_sim.instructions.load_3d_registers import FeatureMap

__all__ = ["LoadData3DParamsV1", "LoadData3DParamsV2", "LoadData3DParamsV2Pro"]


@dataclass(frozen=True)
class LoadData3DParamsV1:
    """The struct of older cards, by name: none of these cards takes it, `load_data` says so."""

    pad_list: Sequence[int] = (0, 0, 0, 0)
    l1_h: int = 1
    l1_w: int = 1
    c1_index: int = 0
    fetch_filter_w: int = 0
    fetch_filter_h: int = 0
    left_top_w: int = 0
    left_top_h: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    jump_stride: int = 1
    repeat_mode: int = 0
    repeat_time: int = 1
    c_size: int = 0
    pad_value: int | float = 0


@dataclass(frozen=True)
class LoadData3DParamsV2:
    """pad_list is left, right, top, bottom; extensions and start points count rows and columns of the img2col matrix.

    l1_h, l1_w, channel_size, k_extension and m_extension are 1 by default, as in pyasc (0 in C++).
    """

    pad_list: Sequence[int] = (0, 0, 0, 0)
    l1_h: int = 1
    l1_w: int = 1
    channel_size: int = 1
    k_extension: int = 1
    m_extension: int = 1
    k_start_pt: int = 0
    m_start_pt: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    en_transpose: bool = False
    pad_value: int | float = 0
    filter_size_w: bool = False
    filter_size_h: bool = False
    f_matrix_ctrl: bool = False

    __hash__ = cached_hash

    def __post_init__(self) -> None:
        if type(self.pad_list) is not tuple:
            object.__setattr__(self, "pad_list", tuple(self.pad_list))

    def feature_map(self) -> FeatureMap:
        """What the call programs into a feature map register."""
        return FeatureMap(self.l1_h, self.l1_w, tuple(self.pad_list))


@dataclass(frozen=True)
class LoadData3DParamsV2Pro:
    """V2 in packed words; feature map, padding value and repeat come from the registers alone.

    `ext_config` = m_start_pt << 48 | k_start_pt << 32 | m_extension << 16 | k_extension; `filter_config` =
    dilation_filter_h << 40 | dilation_filter_w << 32 | filter_h << 24 | filter_w << 16 | stride_h << 8 | stride_w.
    """

    channel_size: int = 0
    en_transpose: bool = False
    en_small_k: bool = False
    filter_size_w: bool = False
    filter_size_h: bool = False
    f_matrix_ctrl: bool = False
    ext_config: int = 0
    filter_config: int = 0x010101010101

    __hash__ = cached_hash

    def plain(self) -> LoadData3DParamsV2:
        """The same window as LoadData3DParamsV2, without feature map and padding value."""
        k, m, k_start, m_start = (self.ext_config >> shift & 0xFFFF for shift in (0, 16, 32, 48))
        stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h = (
            self.filter_config >> shift & 0xFF for shift in (0, 8, 16, 24, 32, 40)
        )
        return LoadData3DParamsV2(
            (0, 0, 0, 0), 0, 0, self.channel_size, k, m, k_start, m_start, stride_w, stride_h, filter_w, filter_h,
            dilation_w, dilation_h, self.en_transpose, 0, self.filter_size_w, self.filter_size_h, self.f_matrix_ctrl,
        )  # fmt: skip
