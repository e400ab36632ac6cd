"""What the scalar unit does with memory: GetValue and SetValue, cache cleaning, barriers, accesses past the cache.

Local accesses reach the buffer itself. GM accesses go through the scalar data cache of the core, so a store stays there
until it is cleaned and a load may deliver old bytes (spec coherence.md 1, api_semantics.md 13). Only loads suspend the
recording; stores, cleaning and barriers are appended and run at their time.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, ScalarWork
from aicore_sim.instructions.element_value import element_bytes
from aicore_sim.instructions.offer import require_rows, wrong_type
from aicore_sim.kernel.addresses import remember
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import CacheLine, DcciDst, MemDsbT
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.kernel.values import RuntimeInt, number
from aicore_sim.memory import Buffer

__all__ = ["data_cache_clean_and_invalid", "data_sync_barrier", "read_gm_by_pass_dcache", "write_gm_by_pass_dcache"]


class Device(Protocol):
    """What the engine lends to an `action(device)`: this core's way to memory, at the simulated time of the action.

    The Op of the entry carries the price of a hit (`ScalarWork`); the methods add what only the device knows: the time
    of a line that has to come from GM.
    """

    def load(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        """Bytes of GM as the scalar data cache has them (`ScalarDCache.load`)."""

    def store(self, buffer: Buffer, offset: int, data: bytes) -> None:
        """Put bytes into the scalar data cache (`ScalarDCache.store`)."""

    def clean_line(self, buffer: Buffer, offset: int) -> None:
        """Write the line back and drop it (`ScalarDCache.clean_invalidate_line`)."""

    def clean_all(self) -> None:
        """Write all dirty lines back and drop every line (`ScalarDCache.clean_invalidate_all`)."""

    def uncached(self) -> None:
        """Account for one access that goes straight to GM."""


# ---- elements -------------------------------------------------------------------------------------------------------
def _place(offset: int, dtype: DataType, index: int) -> tuple[int, int, int]:
    """Byte, length and bit shift of element `index` of a tensor at byte `offset`; 4-bit types: low nibble first."""
    if dtype.bits < 8:
        return offset + index // 2, 1, 4 * (index & 1)
    return offset + index * dtype.bits // 8, dtype.bits // 8, 0


def _decode(raw: bytes, dtype: DataType, shift: int) -> Any:
    """One element as a run-time value of the kernel; raw bits for types that numpy does not know."""
    if dtype.bits == 4:
        raw = bytes([raw[0] >> shift & 0xF])
    if dtype.np_dtype is None:
        return RuntimeInt(raw[0])
    item = np.frombuffer(raw, dtype.np_dtype)[0]
    if dtype.bits == 4 and dtype.is_int():
        return RuntimeInt(int(item))
    return number(float(item) if dtype.is_float() else int(item), dtype)


def _check(rec: Recorder, op: Op, tensor: Any, index: int, byte: int) -> None:
    """The element must lie in its buffer, on a multiple of its size (rules as `Recorder.emit`)."""
    buffer: Buffer = tensor.buffer
    last = byte + op.nbytes
    if index < 0 or byte < 0 or last > buffer.size:
        inside = byte >= 0 and last <= buffer.size + buffer.slack
        if not (index >= 0 and inside and rec.session.slack_is_warning):
            raise OutOfBoundsError(f"{op.api}: element {index} is outside {buffer.label} ({buffer.size} B)",
                                   field="index", value=index, allowed=f"bytes 0..{buffer.size - 1}",
                                   card=rec.card.name)  # fmt: skip
        rec.behind_argument(op.api, buffer, max(byte, buffer.size), last, rec.line())
    size = getattr(tensor, "size", None)
    if size is not None and index >= size and last <= buffer.size:
        rec.outside_tensor(op.api, tensor, last, rec.line())
    if byte % op.nbytes:
        raise AlignmentError(f"{op.api}: an element lies on a multiple of its size", field="address", value=byte,
                             allowed=f"multiples of {op.nbytes}", card=rec.card.name)  # fmt: skip


def _need_data(buffer: Buffer) -> None:
    if buffer.data is None:
        raise ParameterError("no data in this run: the value of device memory is not known", field="data", value=False,
                             allowed="a run with data=True")  # fmt: skip


def _op(rec: Recorder, api: str, work: str, nbytes: int = 0, *, through: str = "", detail: str = "") -> Op:
    """The shared Op of a scalar access: reads its operand if `api` is a Get or Read, else writes it."""
    key = (api, work, nbytes, through, detail)
    op = rec.ops.get(key)
    if op is None:
        span = ((0, 0, nbytes),) if nbytes else ()
        loads = api.startswith(("Get", "Read"))
        op = rec.ops[key] = Op(
            api, Pipe.S, ScalarWork(work), nbytes=nbytes, reads=span if loads else (), writes=() if loads else span,
            through=through, detail=detail,
        )  # fmt: skip
    return op


def _append(rec: Recorder, op: Op, action: Any, bufs: tuple[Buffer, ...] = (), offs: tuple[int, ...] = ()) -> None:
    rec.append(Entry(Kind.SCALAR, Pipe.S, rec.line(), op, bufs, offs, action))


# ---- UB -------------------------------------------------------------------------------------------------------------
def _on_this_core(rec: Recorder, tensor: Any, api: str) -> bool:
    """False on an AIC, where UB reads as 0 and drops stores. Raises UnsupportedError for L1 and the L0 buffers."""
    if tensor.kind != "UB":
        raise UnsupportedError(f"{api}: the scalar unit reaches UB and GM only", field="pos", value=tensor.kind or None,
                               allowed="VECIN, VECCALC, VECOUT", card=rec.card.name)  # fmt: skip
    return rec.on_aiv


def read_local(tensor: Any, index: int) -> Any:
    """LocalTensor.GetValue: element `index` of a UB tensor (spec api_semantics.md 25.4); suspends the recording.

    0 on an AIC. Raises UnsupportedError outside UB, OutOfBoundsError outside the buffer, ParameterError without data.
    """
    rec = current()
    dtype: DataType = tensor.dtype
    if not _on_this_core(rec, tensor, "GetValue"):
        return _decode(bytes(dtype.sizeof()), dtype, 0)
    byte, nbytes, shift = _place(tensor.offset, dtype, int(index))
    op = _op(rec, "GetValue", "local_access", nbytes)
    buffer: Buffer = tensor.buffer
    _check(rec, op, tensor, int(index), byte)
    _need_data(buffer)

    def action(device: Device) -> Any:
        return _decode(buffer.bytes()[byte : byte + nbytes].tobytes(), dtype, shift)

    return rec.ask(op, action, bufs=(buffer,), offs=(byte,))


def write_local(tensor: Any, index: int, value: Any) -> None:
    """LocalTensor.SetValue: store one element of a UB tensor; dropped on an AIC (spec api_semantics.md 25.4).

    Raises ParameterError if the value does not fit its type, else as `read_local`.
    """
    rec = current()
    if not _on_this_core(rec, tensor, "SetValue"):
        return
    byte, nbytes, shift = _place(tensor.offset, tensor.dtype, int(index))
    op = _op(rec, "SetValue", "local_access", nbytes)
    buffer: Buffer = tensor.buffer
    _check(rec, op, tensor, int(index), byte)
    raw = element_bytes("SetValue", value, tensor.dtype, "value")
    bits = tensor.dtype.bits
    if bits == 64:
        remember(rec, buffer, byte, value)

    def action(device: Device) -> None:
        if buffer.data is not None:
            new = raw if bits >= 8 else _with_nibble(buffer.data[byte : byte + 1].tobytes(), raw, shift)
            buffer.data[byte : byte + nbytes] = np.frombuffer(new, np.uint8)
        if buffer.shadow is not None:
            buffer.shadow[byte : byte + nbytes] = 1

    _append(rec, op, action, (buffer,), (byte,))


def _with_nibble(old: bytes, pair: bytes, shift: int) -> bytes:
    """`old` with one of its nibbles replaced by that of `pair`."""
    mask = 0xF << shift
    return bytes([old[0] & ~mask & 0xFF | pair[0] & mask])


# ---- GM through the cache -------------------------------------------------------------------------------------------
def read_global(tensor: Any, index: int) -> Any:
    """GlobalTensor.GetValue through the scalar data cache; suspends the recording.

    Raises OutOfBoundsError outside the allocation, AlignmentError, ParameterError in a run without data.
    """
    rec = current()
    dtype: DataType = tensor.dtype
    byte, nbytes, shift = _place(tensor.offset, dtype, int(index))
    op = _op(rec, "GetValue", "dcache_access", nbytes, through="dcache")
    buffer: Buffer = tensor.buffer
    _check(rec, op, tensor, int(index), byte)
    _need_data(buffer)

    def action(device: Device) -> Any:
        return _decode(device.load(buffer, byte, nbytes), dtype, shift)

    return rec.ask(op, action, bufs=(buffer,), offs=(byte,))


def write_global(tensor: Any, index: int, value: Any) -> None:
    """GlobalTensor.SetValue: into the scalar data cache, not into GM (spec coherence.md 1). Errors as `read_global`."""
    rec = current()
    byte, nbytes, shift = _place(tensor.offset, tensor.dtype, int(index))
    op = _op(rec, "SetValue", "dcache_access", nbytes, through="dcache")
    buffer: Buffer = tensor.buffer
    _check(rec, op, tensor, int(index), byte)
    raw = element_bytes("SetValue", value, tensor.dtype, "value")
    bits = tensor.dtype.bits

    def action(device: Device) -> None:
        new = raw if bits >= 8 else _with_nibble(device.load(buffer, byte, 1), raw, shift)
        device.store(buffer, byte, new)

    _append(rec, op, action, (buffer,), (byte,))


# ---- cleaning and barriers ------------------------------------------------------------------------------------------
def data_cache_clean_and_invalid(entire_type: CacheLine, *args: Any, **kwargs: Any) -> None:
    """DataCacheCleanAndInvalid: write back and drop the line that holds the start of `dst`, or the whole cache.

    `(entire_type, dst, dcci_dst=None)` and `(entire_type, dcci_dst, dst)`, told apart by type (spec pyasc.md 13). OUT
    (default) and ALL act on GM lines; with UB, or a UB tensor and a single line, no GM line is touched (coherence.md
    3).

    Raises ParameterError for other arguments, UnsupportedError for CACHELINE_ATOMIC.
    """
    rec = current()
    entire = CacheLine(entire_type)
    dst, target = _dcci_operands(args, kwargs)
    if target is DcciDst.CACHELINE_ATOMIC:
        why = "not in this version" if rec.card.npu_arch == 3510 else "this card has no such target"
        raise UnsupportedError(f"DataCacheCleanAndInvalid: {why}", field="dcci_dst", value=target.name,
                               allowed="CACHELINE_OUT, CACHELINE_ALL, CACHELINE_UB", card=rec.card.name)  # fmt: skip
    in_gm = dst.kind == "GM"
    whole = entire is CacheLine.ENTIRE_DATA_CACHE
    reaches_gm = target is not DcciDst.CACHELINE_UB and (whole or in_gm)
    op = _op(rec, "DataCacheCleanAndInvalid", "dcci_all" if whole else "dcci_line",
             through="dcache" if reaches_gm else "", detail=f"{entire.name} {target.name}")  # fmt: skip
    if whole or not in_gm:
        _append(rec, op, _clean_all if reaches_gm else _nothing)
        return
    buffer: Buffer = dst.buffer
    offset: int = dst.offset
    if not 0 <= offset < buffer.size + buffer.slack:
        raise OutOfBoundsError(f"DataCacheCleanAndInvalid: address outside {buffer.label}", field="dst", value=offset,
                               allowed=f"0..{buffer.size - 1}", card=rec.card.name)  # fmt: skip

    def action(device: Device) -> None:
        device.clean_line(buffer, offset)

    _append(rec, op, action if reaches_gm else _nothing, (buffer,), (offset,))


def _clean_all(device: Device) -> None:
    device.clean_all()


def _nothing(device: Device) -> None:
    """Takes its time, changes nothing the model keeps."""


def _dcci_operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, DcciDst]:
    """Tensor and target, whichever order they came in."""
    given = dict(kwargs)
    for value in args:
        name = "dcci_dst" if isinstance(value, DcciDst) else "dst"
        if name in given:
            given = {}
            break
        given[name] = value
    dst, target = given.pop("dst", None), given.pop("dcci_dst", None)
    if given or not hasattr(dst, "kind"):
        raise ParameterError(
            "data_cache_clean_and_invalid takes (entire_type, dst, dcci_dst=None) or (entire_type, dcci_dst, dst)",
            field="arguments", value=f"{args} {kwargs}",
        )  # fmt: skip
    return dst, DcciDst.CACHELINE_OUT if target is None else DcciDst(target)


def data_sync_barrier(arg0: MemDsbT) -> None:
    """DataSyncBarrier: the scalar unit waits until its earlier memory accesses are done (spec coherence.md 3).

    It moves no dirty line. MemDsbT.UB emits nothing on an AIC. Raises ParameterError for SEQ, which is reserved.
    """
    rec = current()
    kind = MemDsbT(arg0)
    if kind is MemDsbT.SEQ:
        raise ParameterError("DataSyncBarrier: SEQ is reserved", field="arg0", value=kind.name, allowed="ALL, DDR, UB")
    if kind is MemDsbT.UB and not rec.on_aiv:
        return
    _append(rec, _op(rec, "DataSyncBarrier", "dsb", detail=kind.name), _nothing)


# ---- past the cache -------------------------------------------------------------------------------------------------
def _bypass(rec: Recorder, api: str, addr: Any) -> tuple[Op, Buffer, int]:
    """Op, buffer and byte of an access past the cache; `addr` is a GlobalAddress or the start of a GlobalTensor."""
    if getattr(addr, "kind", "GM") != "GM" or not hasattr(addr, "buffer"):
        raise ParameterError(f"{api} takes an address in GM", field="addr", value=type(addr).__name__,
                             allowed="GlobalAddress, GlobalTensor")  # fmt: skip
    dtype: DataType = addr.dtype
    names = _bypass_types(rec.card, api)
    if dtype.name not in names:
        raise wrong_type(rec.card, api, "", dtype, names)
    op = _op(rec, api, "dcache_access", dtype.bits // 8)
    _check(rec, op, addr, 0, addr.offset)
    return op, addr.buffer, addr.offset


def _bypass_types(card: Card, api: str) -> list[str]:
    return [DataType(name).name for row in require_rows(api, card, api, None) for name in row.dtypes]


def read_gm_by_pass_dcache(addr: Any) -> Any:
    """ReadGmByPassDCache: one integer straight from GM, whatever the data cache holds; suspends the recording.

    Raises UnsupportedError for other types or cards, else as `read_global`.
    """
    rec = current()
    op, buffer, byte = _bypass(rec, "ReadGmByPassDCache", addr)
    dtype: DataType = addr.dtype
    _need_data(buffer)

    def action(device: Device) -> Any:
        device.uncached()
        return _decode(buffer.bytes()[byte : byte + op.nbytes].tobytes(), dtype, 0)

    return rec.ask(op, action, bufs=(buffer,), offs=(byte,))


def write_gm_by_pass_dcache(addr: Any, value: Any) -> None:
    """WriteGmByPassDCache: one integer straight into GM; a copy of its line in the data cache stays as it was.

    Raises ParameterError if the value does not fit, else as `read_gm_by_pass_dcache`.
    """
    rec = current()
    op, buffer, byte = _bypass(rec, "WriteGmByPassDCache", addr)
    raw = element_bytes("WriteGmByPassDCache", value, addr.dtype, "value")

    def action(device: Device) -> None:
        device.uncached()
        if buffer.data is not None:
            buffer.data[byte : byte + op.nbytes] = np.frombuffer(raw, np.uint8)
        if buffer.shadow is not None:
            buffer.shadow[byte : byte + op.nbytes] = 1

    _append(rec, op, action, (buffer,), (byte,))
