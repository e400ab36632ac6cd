"""Load2DBitModeParam: the fields of LoadData2DParamsV2 packed into two words, as 950 takes them (spec api_semantics.md 4)."""

from __future__ import annotations

import warnings
from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import low_bits
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.kernel.context import current

__all__ = ["Load2DBitModeParam"]

# field: (word, lowest bit, bits). Bits above 47 of config0 and above 31 of config1 have no meaning.
_LAYOUT = {
    "m_start_position": (0, 0, 16), "k_start_position": (0, 16, 16), "m_step": (0, 32, 8), "k_step": (0, 40, 8),
    "src_stride": (1, 0, 16), "dst_stride": (1, 16, 16),
}  # fmt: skip
_USED = (48, 32)
_WORD = 64


class Load2DBitModeParam:
    """Parameters of `load_data` from L1 to L0A or L0B on 950, kept in the words config0 and config1 and if_transpose.

    Built empty, from a LoadData2DParamsV2 (its sid is dropped), or from the fields by keyword. A value keeps the low bits
    that its field has room for, and a lost bit is a warning: of the run inside a kernel, and again of the run when
    parameters cut outside one are used; a strict run refuses the load. src_stride reads back unsigned; the instruction
    takes it as signed 16 bits.

    Raises ParameterError for a value that is no int.
    """

    __slots__ = ("_lost", "_transpose", "_untold", "_words")

    def __init__(
        self,
        params: LoadData2DParamsV2 | None = None,
        *,
        m_start_position: int = 0,
        k_start_position: int = 0,
        m_step: int = 0,
        k_step: int = 0,
        src_stride: int = 0,
        dst_stride: int = 0,
        if_transpose: bool = False,
    ) -> None:
        self._words = [0, 0]
        self._transpose = False
        self._untold: dict[str, str] = {}
        """Warnings given outside a kernel, by field: no run knows them yet."""
        self._lost: dict[str, int] = {}
        """Values that did not fit, by field."""
        given: Any = LoadData2DParamsV2(m_start_position, k_start_position, m_step, k_step, src_stride, dst_stride,
                                        if_transpose)  # fmt: skip
        if params is not None:
            if not isinstance(params, LoadData2DParamsV2) or given != LoadData2DParamsV2():
                raise ParameterError("Load2DBitModeParam takes a LoadData2DParamsV2 or the fields by keyword", field="params",
                                     value=type(params).__name__, allowed="LoadData2DParamsV2")  # fmt: skip
            given = params
        for field in _LAYOUT:
            self._set(field, getattr(given, field))
        self.set_if_transpose(given.if_transpose)

    # ---- fields -----------------------------------------------------------------------------------------------------
    def _get(self, field: str) -> int:
        word, low, bits = _LAYOUT[field]
        return self._words[word] >> low & (1 << bits) - 1

    def _set(self, field: str, value: Any) -> None:
        _check_int(field, value)
        word, low, bits = _LAYOUT[field]
        kept = low_bits(int(value), bits)
        self._words[word] = self._words[word] & ~((1 << bits) - 1 << low) | kept << low
        self._untold.pop(field, None)
        self._lost.pop(field, None)
        signed = field == "src_stride"
        if kept != value and not (signed and low_bits(kept, bits, signed=True) == value):
            self._lost[field] = value
            self._tell(field, f"{field} = {value} does not fit its {bits} bits and becomes {kept}")
        elif signed and kept == value and kept >> bits - 1:
            self._tell(field, f"{field} = {value} is {low_bits(kept, bits, signed=True)} to the instruction")

    def get_m_start_position(self) -> int:
        return self._get("m_start_position")

    def set_m_start_position(self, m_start_position: int) -> None:
        self._set("m_start_position", m_start_position)

    def get_k_start_position(self) -> int:
        return self._get("k_start_position")

    def set_k_start_position(self, k_start_position: int) -> None:
        self._set("k_start_position", k_start_position)

    def get_m_step(self) -> int:
        return self._get("m_step")

    def set_m_step(self, m_step: int) -> None:
        self._set("m_step", m_step)

    def get_k_step(self) -> int:
        return self._get("k_step")

    def set_k_step(self, k_step: int) -> None:
        self._set("k_step", k_step)

    def get_src_stride(self) -> int:
        """The stride as the unsigned field holds it: 65535 for -1."""
        return self._get("src_stride")

    def set_src_stride(self, src_stride: int) -> None:
        self._set("src_stride", src_stride)

    def get_dst_stride(self) -> int:
        return self._get("dst_stride")

    def set_dst_stride(self, dst_stride: int) -> None:
        self._set("dst_stride", dst_stride)

    def get_if_transpose(self) -> bool:
        return self._transpose

    def set_if_transpose(self, if_transpose: bool) -> None:
        self._transpose = bool(if_transpose)

    # ---- words ------------------------------------------------------------------------------------------------------
    def _set_word(self, word: int, value: Any) -> None:
        field = f"config{word}"
        _check_int(field, value)
        kept = low_bits(int(value), _WORD)
        self._words[word] = kept
        for name, (where, _, _) in _LAYOUT.items():
            if where == word:
                self._untold.pop(name, None)
                self._lost.pop(name, None)
        self._untold.pop(field, None)
        if kept != value:
            self._tell(field, f"{field} = {value} does not fit its {_WORD} bits and becomes {kept}")
        elif kept >> _USED[word]:
            self._tell(field, f"{field}: bits {_USED[word]} to 63 are unused and have no effect")

    def get_config0(self) -> int:
        return self._words[0]

    def set_config0(self, config0: int) -> None:
        self._set_word(0, config0)

    def get_config1(self) -> int:
        return self._words[1]

    def set_config1(self, config1: int) -> None:
        self._set_word(1, config1)

    config0 = property(get_config0, set_config0)
    config1 = property(get_config1, set_config1)
    if_transpose = property(get_if_transpose, set_if_transpose)

    def __repr__(self) -> str:
        return f"Load2DBitModeParam(config0={self._words[0]:#x}, config1={self._words[1]:#x}, if_transpose={self._transpose})"

    # ---- for load_data ----------------------------------------------------------------------------------------------
    def words(self) -> tuple[int, int, bool]:
        """What the instruction gets: config0, config1, if_transpose, as they are now."""
        return self._words[0], self._words[1], self._transpose

    def decoded(self) -> LoadData2DParamsV2:
        """The fields as the instruction takes them: src_stride signed."""
        fields = {field: self._get(field) for field in _LAYOUT}
        fields["src_stride"] = low_bits(fields["src_stride"], 16, signed=True)
        return LoadData2DParamsV2(**fields, if_transpose=self._transpose)

    def untold(self) -> tuple[str, ...]:
        """Warnings about values that were set outside a kernel."""
        return tuple(self._untold.values()) if self._untold else ()

    def check_fits(self, card: str) -> None:
        """Raise ParameterError for a field that keeps less than the value it was given."""
        for field, value in self._lost.items():
            most = (1 << _LAYOUT[field][2]) - 1
            raise ParameterError(f"Load2DBitModeParam: {field} does not fit its field", field=field, value=value,
                                 allowed=f"0..{most}", card=card)  # fmt: skip

    def _tell(self, field: str, text: str) -> None:
        text = f"Load2DBitModeParam: {text}"
        try:
            rec = current()
        except RuntimeError:
            self._untold[field] = text
            warnings.warn(text, stacklevel=4)
        else:
            rec.session.warn(text, rec.line())


def _check_int(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(f"Load2DBitModeParam: {field} must be an int", field=field, value=value, allowed="an int")
