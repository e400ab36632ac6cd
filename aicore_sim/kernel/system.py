"""System variables, printing and register calls without effect on data (spec api_semantics.md 21; pyasc.md 3, 6.2)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from aicore_sim.dtypes import BLOCK_BYTES, DataType, int64
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.instructions.load_3d_registers import Padding
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import MaskMode
from aicore_sim.kernel.values import INT_TYPES, RuntimeFloat, RuntimeInt

__all__ = [
    "DEFAULT_C0_SIZE", "ONE_BLK_SIZE", "TOTAL_L0C_SIZE", "TOTAL_L1_SIZE", "ascend_is_aic", "ascend_is_aiv",
    "count_bits_cnt_same_as_sign_bit", "dump_acc_chk_point", "dump_tensor", "get_arch_version", "get_block_idx",
    "get_block_num", "get_data_block_size_in_bytes", "get_hccl_context", "get_icache_preload_status",
    "get_sub_block_idx", "get_sub_block_num", "get_system_cycle", "get_task_ratio", "get_task_ration",
    "icache_preload", "init_soc_state", "metrics_prof_start", "metrics_prof_stop", "npu_arch", "print_time_stamp",
    "printf", "property", "reset_mask", "scalar_cast", "scalar_count_leading_zero", "scalar_get_count_of_value",
    "scalar_get_sff_value", "set_hccl_context", "set_mask_count", "set_mask_norm", "set_vector_mask", "trap",
]  # fmt: skip

_log = logging.getLogger("aicore_sim.printf")


# ---- who am I -------------------------------------------------------------------------------------------------------
def get_block_idx() -> RuntimeInt:
    """Index of this block; on the vector cores of a 1:2 kernel block * 2 + sub-block (spec 21)."""
    return RuntimeInt(current().block_idx)


def get_block_num() -> RuntimeInt:
    """The number of blocks launched (not of cores)."""
    return RuntimeInt(current().block_num)


def get_sub_block_idx() -> RuntimeInt:
    """0 on a cube core; 0 or 1 on the vector cores of a 1:2 kernel."""
    return RuntimeInt(current().sub_block_idx)


def get_sub_block_num() -> RuntimeInt:
    """2 on the vector cores of a 1:2 kernel, else 1."""
    return RuntimeInt(current().sub_block_num)


def get_task_ratio() -> RuntimeInt:
    """Vector cores per cube core as the calling core sees it: as `get_sub_block_num`."""
    return RuntimeInt(current().sub_block_num)


get_task_ration = get_task_ratio


def npu_arch() -> int:
    """2201 (A2, A3), 3002 (200I) or 3510 (Atlas 350)."""
    return current().card.npu_arch


def get_arch_version(core_version: Any = None) -> RuntimeInt:
    """The architecture number of the card."""
    return RuntimeInt(npu_arch())


def ascend_is_aic() -> bool:
    """True on a cube core, and on a coupled core."""
    return current().on_aic


def ascend_is_aiv() -> bool:
    """True on a vector core, and on a coupled core."""
    return current().on_aiv


def get_data_block_size_in_bytes() -> RuntimeInt:
    """32."""
    return RuntimeInt(BLOCK_BYTES)


def get_system_cycle() -> RuntimeInt:
    """The system counter: 50 MHz on A2/A3, 1 GHz on Atlas 350 (spec hardware.md 9). Suspends the recording.

    Raises UnsupportedError on 200I, which does not offer it.
    """
    rec = current()
    if not rec.card.has("sync.system_counter_mhz"):
        raise UnsupportedError("GetSystemCycle: not on this card", field="api", card=rec.card.name)
    mhz = rec.card.value("sync.system_counter_mhz")

    def read(device: Any) -> int:
        return int(device.now_ticks * mhz / (TICKS_PER_CYCLE * device.clock_mhz))

    return INT_TYPES[int64.name](rec.ask(None, read))


class Property(Enum):
    """Names that `property` resolves."""

    DEFAULT_C0_SIZE = "DEFAULT_C0_SIZE"
    ONE_BLK_SIZE = "ONE_BLK_SIZE"
    TOTAL_L1_SIZE = "TOTAL_L1_SIZE"
    TOTAL_L0C_SIZE = "TOTAL_L0C_SIZE"


DEFAULT_C0_SIZE = Property.DEFAULT_C0_SIZE
ONE_BLK_SIZE = Property.ONE_BLK_SIZE
TOTAL_L1_SIZE = Property.TOTAL_L1_SIZE
TOTAL_L0C_SIZE = Property.TOTAL_L0C_SIZE


def property(prop: Property) -> RuntimeInt:
    """A constant of the device: block and C0 size 32 B, the sizes of L1 and L0C in bytes (spec pyasc.md 3)."""
    rec = current()
    if prop in (Property.DEFAULT_C0_SIZE, Property.ONE_BLK_SIZE):
        return RuntimeInt(BLOCK_BYTES)
    if prop is Property.TOTAL_L1_SIZE:
        return RuntimeInt(rec.card.value("buffers.L1.size"))
    if prop is Property.TOTAL_L0C_SIZE:
        return RuntimeInt(rec.card.value("buffers.L0C.size"))
    raise ParameterError("no such property", field="prop", value=prop, allowed=", ".join(p.name for p in Property))


# ---- printing and profiling marks: host side only -------------------------------------------------------------------
def printf(desc: str, *params: Any) -> None:
    """Print C style at the time of recording, on the log "aicore_sim.printf" (stderr); costs nothing on the device."""
    rec = current()
    shown = tuple(float(v) if isinstance(v, RuntimeFloat) else v for v in params)
    try:
        text = desc % shown if shown else desc
    except (TypeError, ValueError) as error:
        raise ParameterError("printf: format and values do not match", field="desc", value=desc) from error
    _log.warning("block %d %s: %s", rec.block_idx, rec.kind, text.rstrip("\n"))


def dump_tensor(tensor: Any, desc: int = 0, dump_size: int = 0, shape_info: Any = None) -> None:
    """Accepted; nothing is printed, since the bytes exist only once the device has run."""
    current()


def dump_acc_chk_point(tensor: Any, index: int = 0, count_off: int = 0, dump_size: int = 0) -> None:
    """Accepted without effect."""
    current()


def print_time_stamp(desc_id: int = 0) -> None:
    """Accepted without effect: the trace has the times."""
    current()


def metrics_prof_start() -> None:
    """Accepted without effect: the whole run is profiled."""
    current()


def metrics_prof_stop() -> None:
    """Accepted without effect."""
    current()


def trap() -> NoReturn:
    """Stop the kernel with an error. Raises ParameterError."""
    current()
    raise ParameterError("the kernel called trap()", field="api", value="trap")


# ---- sticky state ---------------------------------------------------------------------------------------------------
_STICKY = {
    2201: ("mask_mode", "vector_mask", "load3d_boundary", "load3d_padding"),
    3510: ("mask_mode", "deq_scale"), 3002: ("load3d_padding",),
}  # fmt: skip
"""What InitSocState sets back, by architecture."""


def init_soc_state() -> None:
    """InitSocState: atomics off on every card; A2, A3: mask mode normal, mask all ones, Load3D boundary and padding 0;
    950: mask mode normal, scale 1; 200I: padding 0 (spec 19.3).
    """
    rec = current()
    rec.atomic = ""
    for name in _STICKY[rec.card.npu_arch]:
        rec.state.pop(name, None)
    if "load3d_padding" in _STICKY[rec.card.npu_arch]:
        rec.state["load3d_padding"] = Padding(0, "", "0")


def set_mask_count() -> None:
    """Vector masks count elements from now on (counter mode)."""
    current().state["mask_mode"] = "counter"


def set_mask_norm() -> None:
    """Vector masks are bit patterns again."""
    current().state["mask_mode"] = "normal"


def reset_mask() -> None:
    """All mask bits on."""
    current().state["vector_mask"] = (0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)


def set_vector_mask(*words: int, dtype: DataType, mode: MaskMode = MaskMode.NORMAL) -> None:
    """`set_vector_mask(length, dtype=, mode=)` or `set_vector_mask(mask_high, mask_low, dtype=, mode=)`.

    A length in normal mode sets that many low bits. Raises ParameterError for the form.
    """
    rec = current()
    if len(words) not in (1, 2):
        raise ParameterError("SetVectorMask takes a length or two words", field="mask", value=words)
    if len(words) == 2:
        high, low = int(words[0]), int(words[1])
    elif mode == MaskMode.COUNTER:
        high, low = 0, int(words[0])
    else:
        bits = (1 << min(int(words[0]), 128)) - 1
        high, low = bits >> 64, bits & 0xFFFF_FFFF_FFFF_FFFF
    rec.state["vector_mask"] = (high, low)
    rec.state["mask_mode"] = "counter" if mode == MaskMode.COUNTER else "normal"


def set_hccl_context(index: int, context: Any) -> NoReturn:
    """Communication is not modelled. Raises UnsupportedError."""
    raise UnsupportedError("collective communication is not modelled", field="api", value="SetHcclContext")


def get_hccl_context(index: int) -> NoReturn:
    """Communication is not modelled. Raises UnsupportedError."""
    raise UnsupportedError("collective communication is not modelled", field="api", value="GetHcclContext")


def icache_preload(pre_fetch_len: int) -> None:
    """Accepted without effect: the instruction cache is not modelled."""
    current()


def get_icache_preload_status() -> RuntimeInt:
    """Always 0: no preload is running."""
    current()
    return RuntimeInt(0)


def scalar_cast(value_in: Any, dtype: DataType, round_mode: Any) -> RuntimeInt | RuntimeFloat:
    """ScalarCast: a float to an integer type by RINT, FLOOR, CEIL or ROUND, or to a float type (half: to nearest even).

    Raises ParameterError for another round mode or target type.
    """
    current()
    rounders: dict[str, Callable[[float], float]] = {
        "CAST_RINT": round,
        "CAST_FLOOR": math.floor,
        "CAST_CEIL": math.ceil,
        "CAST_ROUND": lambda v: math.copysign(math.floor(abs(v) + 0.5), v),
    }
    if dtype.is_float():
        return RuntimeFloat(value_in, dtype)
    name = getattr(round_mode, "name", "")
    if name not in rounders:
        raise ParameterError("ScalarCast: round mode", field="round_mode", value=name, allowed=", ".join(rounders))
    if dtype.name not in INT_TYPES:
        raise ParameterError("ScalarCast: target type", field="dtype", value=dtype.name, allowed=", ".join(INT_TYPES))
    return INT_TYPES[dtype.name](int(rounders[name](float(value_in))))


def scalar_get_count_of_value(value_in: int, count_value: int) -> RuntimeInt:
    """How many of the 64 bits of `value_in` are `count_value` (0 or 1)."""
    ones = bin(int(value_in) & 0xFFFF_FFFF_FFFF_FFFF).count("1")
    return RuntimeInt(ones if _bit(count_value) else 64 - ones)


def scalar_get_sff_value(value_in: int, count_value: int) -> RuntimeInt:
    """Position of the lowest bit of the 64-bit `value_in` that is `count_value`; -1 if there is none."""
    bits = int(value_in) & 0xFFFF_FFFF_FFFF_FFFF
    if not _bit(count_value):
        bits ^= 0xFFFF_FFFF_FFFF_FFFF
    return RuntimeInt((bits & -bits).bit_length() - 1)


def _bit(value: int) -> bool:
    if int(value) not in (0, 1):
        raise ParameterError("a bit is 0 or 1", field="count_value", value=value, allowed="0, 1")
    return bool(int(value))


def scalar_count_leading_zero(value_in: int) -> RuntimeInt:
    """Zeros above the highest set bit of the 64-bit `value_in`."""
    return RuntimeInt(64 - (int(value_in) & 0xFFFF_FFFF_FFFF_FFFF).bit_length())


def count_bits_cnt_same_as_sign_bit(value_in: int) -> RuntimeInt:
    """Bits below the sign bit of the int64 `value_in` that equal it, counted from the top."""
    number = int(value_in)
    return RuntimeInt(63 - (number if number >= 0 else ~number).bit_length())
