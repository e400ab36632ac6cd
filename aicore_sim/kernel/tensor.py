"""Tensors as a kernel sees them: GlobalAddress, GlobalTensor, LocalTensor (spec pyasc.md 7).

A tensor is a handle: buffer, byte offset, element type, elements. Indexing (`t[i]`, `t[i:]`) moves the start by i
elements, as C++ operator[] does; it never reads an element.
"""

from __future__ import annotations

import operator
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import AlignmentError, CapacityError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.kernel.addresses import LocalAddress
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import CacheMode, CacheRwMode, TPosition
from aicore_sim.kernel.roots import NO_ROOT
from aicore_sim.memory import Buffer

__all__ = ["GlobalAddress", "GlobalTensor", "LocalTensor"]


def _whole(value: Any, field: str) -> int:
    """An index, offset or size as a plain int. Raises ParameterError for fractions: none is rounded in silence."""
    if type(value) is int:
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        raise ParameterError(f"{field} must be a whole number", field=field, value=value,
                             allowed="ints (// divides them)") from None  # fmt: skip


def _bytes(elements: int, dtype: DataType) -> int:
    """Bytes that `elements` elements take. Raises ParameterError for half a byte: 4-bit elements start in pairs."""
    bits = elements * dtype.bits
    if bits & 7:
        raise ParameterError(f"{dtype.name}: two elements share a byte, a start is an even element", field="index",
                             value=elements, allowed="even")  # fmt: skip
    return bits >> 3


class GlobalAddress:
    """A kernel argument: the address of an array in GM. `address + n` moves by n elements."""

    __slots__ = ("buffer", "dtype", "offset")

    def __init__(self, buffer: Buffer, dtype: DataType, offset: int = 0) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.offset = offset
        """Bytes from the start of the allocation."""

    def __add__(self, elements: int) -> GlobalAddress:
        return GlobalAddress(self.buffer, self.dtype, self.offset + _bytes(_whole(elements, "offset"), self.dtype))

    __radd__ = __add__


def _start(index: Any) -> int:
    if isinstance(index, slice):
        if index.stop is not None or index.step is not None or index.start is None:
            raise ParameterError("a tensor view is t[start:] or t[start]: no stop, no step", field="slice", value=index)
        return _whole(index.start, "index")
    return _whole(index, "index")


class GlobalTensor:
    """A tensor in GM. Its element type comes from the address given to `set_global_buffer`."""

    __slots__ = ("buffer", "dtype", "kind", "l2_hint", "offset", "shape_info", "size")
    buffer: Buffer
    dtype: DataType

    def __init__(self) -> None:
        self.kind = "GM"
        self.offset = 0
        self.size: int | None = None
        self.l2_hint = ""
        self.shape_info: Any = None

    def set_global_buffer(self, buffer: GlobalAddress, buffer_size: int | None = None) -> None:
        """Attach the tensor to `buffer`; `buffer_size` in elements (default: to the end of the array)."""
        if not isinstance(buffer, GlobalAddress):
            raise ParameterError("set_global_buffer takes a GlobalAddress", field="buffer", value=type(buffer).__name__)
        self.buffer, self.dtype, self.offset = buffer.buffer, buffer.dtype, buffer.offset
        self.size = None if buffer_size is None else _whole(buffer_size, "buffer_size")

    def __getitem__(self, index: Any) -> GlobalTensor:
        start = _start(index)
        view = GlobalTensor()
        view.buffer, view.dtype, view.l2_hint = self.buffer, self.dtype, self.l2_hint
        view.offset = self.offset + _bytes(start, self.dtype)
        view.size = None if self.size is None else self.size - start
        return view

    __call__ = __getitem__

    def get_value(self, offset: int) -> Any:
        """Element `offset`, read by the scalar unit through its data cache; suspends the recording."""
        from aicore_sim.kernel.scalar import read_global

        return read_global(self, _whole(offset, "offset"))

    def set_value(self, offset: int, value: Any) -> None:
        """Store element `offset` by the scalar unit: into its data cache, not into GM (spec coherence.md 1)."""
        from aicore_sim.kernel.scalar import write_global

        write_global(self, _whole(offset, "offset"), value)

    def set_l2_cache_hint(self, mode: CacheMode = CacheMode.CACHE_MODE_NORMAL, rw_mode: CacheRwMode = CacheRwMode.RW) -> None:
        """How copies through this tensor use the L2 (DISABLE bypasses it)."""
        self.l2_hint = {CacheMode.CACHE_MODE_DISABLE: "disable", CacheMode.CACHE_MODE_LAST: "first_victim",
                        CacheMode.CACHE_MODE_PERSISTENT: "persistent",
                        CacheMode.CACHE_MODE_NOTALLOC_KEEP: "notalloc_keep"}.get(mode, "")  # fmt: skip

    def get_size(self) -> int:
        """Elements from the start of the tensor to its end."""
        return self.size if self.size is not None else (self.buffer.size - self.offset) * 8 // self.dtype.bits

    def get_phy_addr(self, offset: int = 0) -> GlobalAddress:
        return GlobalAddress(self.buffer, self.dtype, self.offset + _bytes(_whole(offset, "offset"), self.dtype))

    def get_shape_info(self) -> Any:
        return self.shape_info

    def set_shape_info(self, shape_info: Any) -> None:
        self.shape_info = shape_info


class LocalTensor:
    """A tensor in a local buffer: `LocalTensor(dtype, pos, addr, tile_size)`, addr in bytes, tile_size in elements.

    `kind` is the hardware buffer. On a core that does not have that buffer (the AIV half of a mix kernel naming L1) the
    tensor exists, but instructions on it belong to the other core and are not recorded.

    Raises CapacityError if it does not fit its buffer, UnsupportedError if the card has no such position,
    AlignmentError if the address breaks the buffer's alignment (spec api_semantics.md 1.3).
    """

    __slots__ = ("buffer", "dtype", "kind", "offset", "owner", "position", "root", "shape_info", "size", "tag")

    def __init__(
        self, dtype: DataType, pos: TPosition | None = None, addr: int | None = None, tile_size: int | None = None
    ) -> None:
        self.dtype = dtype
        self.owner: Any = None
        self.shape_info: Any = None
        self.tag = 0
        self.kind = ""
        self.offset = 0
        self.size = 0
        self.root = NO_ROOT
        """Id of the declaration that this tensor is a view of (roots.py)."""
        self.position = TPosition.VECIN if pos is None else pos
        self.buffer: Any = None
        """The memory behind it; None if this core does not have it."""
        if pos is not None:
            rec = current()
            self.bind(buffer_name(pos), _whole(addr or 0, "addr"), _whole(tile_size or 0, "tile_size"))
            align = int(rec.card.value(f"buffers.{self.kind}.align"))
            if self.offset % align:
                raise AlignmentError(f"a tensor in {self.kind} starts at a multiple of {align} B", field="addr",
                                     value=self.offset, allowed=f"multiples of {align}", card=rec.card.name)  # fmt: skip

    def bind(self, kind: str, offset: int, size: int, root: int = NO_ROOT) -> LocalTensor:
        """Attach to byte `offset` of hardware buffer `kind`, `size` elements; as a view of declaration `root` if there is one."""
        rec = current()
        capacity = int(rec.card.value(f"buffers.{kind}.size"))
        nbytes = self.dtype.nbytes(size)
        if offset < 0 or size < 0 or offset + nbytes > capacity:
            raise CapacityError(
                f"tensor past its buffer: bytes {offset}..{offset + nbytes - 1} of {kind}, which has {capacity} B",
                field="tile_size", value=size, allowed=f"<= {(capacity - offset) * 8 // self.dtype.bits} elements here",
                card=rec.card.name,
            )  # fmt: skip
        self.kind, self.offset, self.size = kind, offset, size
        self.buffer = buffer = rec.buffers.get(kind)
        self.root = root
        if root == NO_ROOT and buffer is not None:
            self.root = rec.session.roots.declare(buffer.uid, offset, offset + nbytes, self.position.name, rec.line())
        return self

    @property
    def here(self) -> bool:
        """True if this core has the buffer."""
        return self.buffer is not None

    def __getitem__(self, index: Any) -> LocalTensor:
        start = index if type(index) is int else _start(index)
        dtype = self.dtype
        view = LocalTensor.__new__(LocalTensor)
        view.dtype, view.owner, view.shape_info, view.tag = dtype, self.owner, None, self.tag
        view.kind, view.position, view.buffer, view.root = self.kind, self.position, self.buffer, self.root
        view.offset = self.offset + (start * dtype.bits >> 3 if dtype.bits >= 8 else _bytes(start, dtype))
        view.size = self.size - start
        return view

    __call__ = __getitem__

    def get_value(self, index: int) -> Any:
        """Element `index`, read by the scalar unit; suspends the recording (UB positions only, spec 25.4)."""
        from aicore_sim.kernel.scalar import read_local

        return read_local(self, _whole(index, "index"))

    def set_value(self, index: int, value: Any) -> None:
        """Store one element by the scalar unit."""
        from aicore_sim.kernel.scalar import write_local

        write_local(self, _whole(index, "index"), value)

    def reinterpret_cast(self, dtype: DataType) -> LocalTensor:
        """The same bytes as elements of another type."""
        view = self[0]
        view.size = self.size * self.dtype.bits // dtype.bits
        view.dtype = dtype
        return view

    def get_size(self) -> int:
        return self.size

    def set_size(self, size: int = 0) -> None:
        elements = _whole(size, "size")
        if self.buffer is not None and self.offset + self.dtype.nbytes(elements) > self.buffer.size:
            raise OutOfBoundsError("set_size beyond the buffer", field="size", value=elements)
        self.size = elements

    def get_length(self) -> int:
        """Bytes of the tensor."""
        return self.dtype.nbytes(self.size)

    def set_buffer_len(self, data_len: int) -> None:
        self.size = _whole(data_len, "data_len") * 8 // self.dtype.bits

    def get_phy_addr(self, offset: int = 0) -> LocalAddress:
        """Byte address of element `offset` in its buffer."""
        return LocalAddress(self.offset + _bytes(_whole(offset, "offset"), self.dtype), self.dtype)

    def get_position(self) -> TPosition:
        return self.position

    def get_user_tag(self) -> int:
        return self.tag

    def set_user_tag(self, tag: int = 0) -> None:
        self.tag = int(tag)

    def get_shape_info(self) -> Any:
        return self.shape_info

    def set_shape_info(self, shape_info: Any) -> None:
        self.shape_info = shape_info

    def set_addr_with_offset(self, src: LocalTensor, offset: int) -> None:
        """Start at element `offset` of `src`."""
        self.kind, self.position, self.buffer, self.root = src.kind, src.position, src.buffer, src.root
        self.offset = src.offset + _bytes(_whole(offset, "offset"), src.dtype)
        self.size = (src.get_length() - (self.offset - src.offset)) * 8 // self.dtype.bits


def buffer_name(pos: TPosition) -> str:
    """Hardware buffer of a position on the current card. Raises UnsupportedError where there is none."""
    rec = current()
    name = rec.card.position(pos.name)
    if not name or name == "GM":
        raise UnsupportedError("no local buffer behind this position", field="pos", value=pos.name, card=rec.card.name)
    return name
