"""Load3DBitModeParam: a 3-D load packed into two 64-bit words (spec api_semantics.md 4.4)."""

from __future__ import annotations

import warnings

from aicore_sim.instructions.base import low_bits
from aicore_sim.instructions.load_3d_params import LoadData3DParamsV2
from aicore_sim.kernel.context import current

__all__ = ["Load3DBitModeParam"]

_WORD = (1 << 64) - 1
_FIELDS = {
    "k_extension": (0, 0, 16), "m_extension": (0, 16, 16), "k_start_pt": (0, 32, 16), "m_start_pt": (0, 48, 16),
    "stride_w": (1, 0, 6), "stride_h": (1, 6, 6), "filter_w": (1, 12, 8), "filter_h": (1, 20, 8),
    "dilation_filter_w": (1, 28, 8), "dilation_filter_h": (1, 36, 8), "filter_size_w": (1, 44, 1),
    "filter_size_h": (1, 45, 1), "transpose": (1, 46, 1), "f_matrix_ctrl": (1, 47, 1), "channel_size": (1, 48, 16),
}  # fmt: skip
"""Word, lowest bit and width of every field."""


class Load3DBitModeParam:
    """A window of a 3-D load in two words, built empty (all 0), from a LoadData3DParamsV2, or from fields by name.

    Feature map, padding value, iterations and column pitch are those of the registers. A value that does not fit its
    field loses its high bits, with a warning.
    """

    __slots__ = ("config0", "config1")

    def __init__(self, params: LoadData3DParamsV2 | None = None, **fields: int) -> None:
        self.config0 = self.config1 = 0
        unknown = sorted(set(fields) - set(_FIELDS))
        if unknown:
            raise TypeError(f"Load3DBitModeParam has no field {', '.join(unknown)}")
        if params is not None:
            given = {name: getattr(params, "en_transpose" if name == "transpose" else name) for name in _FIELDS}
            fields = given | fields
        for name, value in fields.items():
            self._put(name, value)

    def __repr__(self) -> str:
        return f"Load3DBitModeParam(config0={self.config0:#x}, config1={self.config1:#x})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Load3DBitModeParam) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]  # its fields change

    @property
    def words(self) -> tuple[int, int]:
        """Both words: all that a load needs."""
        return self.config0, self.config1

    def plain(self) -> LoadData3DParamsV2:
        """The same window as LoadData3DParamsV2, without feature map and padding value."""
        return LoadData3DParamsV2(
            (0, 0, 0, 0), 0, 0, self.get_channel_size(), self.get_k_extension(), self.get_m_extension(),
            self.get_k_start_pt(), self.get_m_start_pt(), self.get_stride_w(), self.get_stride_h(), self.get_filter_w(),
            self.get_filter_h(), self.get_dilation_filter_w(), self.get_dilation_filter_h(), self.get_transpose(), 0,
            self.get_filter_size_w(), self.get_filter_size_h(), self.get_f_matrix_ctrl(),
        )  # fmt: skip

    def _get(self, name: str) -> int:
        word, low, width = _FIELDS[name]
        return self.words[word] >> low & ((1 << width) - 1)

    def _put(self, name: str, value: int) -> None:
        word, low, width = _FIELDS[name]
        number = int(bool(value)) if width == 1 else int(value)
        kept = low_bits(number, width)
        if kept != number:
            _warn(f"Load3DBitModeParam: {name} = {number} does not fit its {width} bits and becomes {kept}")
        mask = ((1 << width) - 1) << low
        changed = (self.words[word] & ~mask) | kept << low
        if word == 0:
            self.config0 = changed
        else:
            self.config1 = changed

    # ---- the words themselves ----
    def get_config0(self) -> int:
        return self.config0

    def set_config0(self, config0: int) -> None:
        self.config0 = int(config0) & _WORD

    def get_config1(self) -> int:
        return self.config1

    def set_config1(self, config1: int) -> None:
        self.config1 = int(config1) & _WORD

    # ---- fields of config0 ----
    def get_k_extension(self) -> int:
        return self._get("k_extension")

    def set_k_extension(self, k_extension: int) -> None:
        self._put("k_extension", k_extension)

    def get_m_extension(self) -> int:
        return self._get("m_extension")

    def set_m_extension(self, m_extension: int) -> None:
        self._put("m_extension", m_extension)

    def get_k_start_pt(self) -> int:
        return self._get("k_start_pt")

    def set_k_start_pt(self, k_start_pt: int) -> None:
        self._put("k_start_pt", k_start_pt)

    def get_m_start_pt(self) -> int:
        return self._get("m_start_pt")

    def set_m_start_pt(self, m_start_pt: int) -> None:
        self._put("m_start_pt", m_start_pt)

    # ---- fields of config1 ----
    def get_stride_w(self) -> int:
        return self._get("stride_w")

    def set_stride_w(self, stride_w: int) -> None:
        self._put("stride_w", stride_w)

    def get_stride_h(self) -> int:
        return self._get("stride_h")

    def set_stride_h(self, stride_h: int) -> None:
        self._put("stride_h", stride_h)

    def get_filter_w(self) -> int:
        return self._get("filter_w")

    def set_filter_w(self, filter_w: int) -> None:
        self._put("filter_w", filter_w)

    def get_filter_h(self) -> int:
        return self._get("filter_h")

    def set_filter_h(self, filter_h: int) -> None:
        self._put("filter_h", filter_h)

    def get_dilation_filter_w(self) -> int:
        return self._get("dilation_filter_w")

    def set_dilation_filter_w(self, dilation_filter_w: int) -> None:
        self._put("dilation_filter_w", dilation_filter_w)

    def get_dilation_filter_h(self) -> int:
        return self._get("dilation_filter_h")

    def set_dilation_filter_h(self, dilation_filter_h: int) -> None:
        self._put("dilation_filter_h", dilation_filter_h)

    def get_filter_size_w(self) -> bool:
        return bool(self._get("filter_size_w"))

    def set_filter_size_w(self, filter_size_w: bool) -> None:
        self._put("filter_size_w", filter_size_w)

    def get_filter_size_h(self) -> bool:
        return bool(self._get("filter_size_h"))

    def set_filter_size_h(self, filter_size_h: bool) -> None:
        self._put("filter_size_h", filter_size_h)

    def get_transpose(self) -> bool:
        return bool(self._get("transpose"))

    def set_transpose(self, transpose: bool) -> None:
        self._put("transpose", transpose)

    def get_f_matrix_ctrl(self) -> bool:
        return bool(self._get("f_matrix_ctrl"))

    def set_f_matrix_ctrl(self, f_matrix_ctrl: bool) -> None:
        self._put("f_matrix_ctrl", f_matrix_ctrl)

    def get_channel_size(self) -> int:
        return self._get("channel_size")

    def set_channel_size(self, channel_size: int) -> None:
        self._put("channel_size", channel_size)


def _warn(text: str) -> None:
    """On the kernel's line inside a kernel, as a Python warning outside."""
    try:
        rec = current()
    except RuntimeError:
        warnings.warn(text, stacklevel=4)
        return
    rec.session.warn(text, rec.line())
