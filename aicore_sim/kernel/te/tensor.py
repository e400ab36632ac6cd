"""Pointers and tensors of the Tensor API: memory with a layout (spec api_semantics.md 7, MakeMemPtr, MakeTensor, Slice)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import CacheMode, TPosition
from aicore_sim.kernel.te.frames import make_layout
from aicore_sim.kernel.te.layout import Layout, Nested
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor


class Location(Enum):
    """Memories that pointers of this version point to."""

    GM = "GM"
    L1 = "L1"
    L0A = "L0A"
    L0B = "L0B"


_LOCATIONS = {location.value: location for location in Location}
_POSITIONS = {Location.L1: TPosition.A1, Location.L0A: TPosition.A2, Location.L0B: TPosition.B2}


@dataclass(frozen=True, eq=False)
class MemPtr:
    """A typed pointer into one memory; `pointer + n` moves by n elements. `memory` is the tensor of the basic API."""

    memory: Any
    location: Location

    @property
    def dtype(self) -> DataType:
        found: DataType = self.memory.dtype
        return found

    def __add__(self, elements: int) -> MemPtr:
        return MemPtr(self.memory[elements], self.location)

    __radd__ = __add__


@dataclass(frozen=True, eq=False)
class Tensor:
    """What MakeTensor gives: a pointer and a layout. Slices share the memory."""

    data: MemPtr
    layout: Layout

    @property
    def dtype(self) -> DataType:
        return self.data.dtype

    @property
    def location(self) -> Location:
        return self.data.location

    @property
    def shape(self) -> Nested:
        return self.layout.shape

    @property
    def stride(self) -> Nested:
        return self.layout.stride

    def size(self) -> int:
        """Elements of the shape."""
        return self.layout.size()

    def capacity(self) -> int:
        """Elements from the first to the last one."""
        return self.layout.capacity()

    def slice(self, coord: Any, shape: Any) -> Tensor:
        """Slice(coord, shape): the part of this shape (or of another layout's shape) from `coord` on; raises as
        `Layout.cut`. Whatever is past the end is left out."""
        offset, layout = self.layout.cut(coord, shape)
        return Tensor(self.data + offset, layout)

    def __call__(self, *coord: Any) -> Tensor:
        """operator(): the part from a coordinate to the end; raises as `Layout.cut`."""
        offset, layout = self.layout.cut(coord[0] if len(coord) == 1 else coord)
        return Tensor(self.data + offset, layout)

    def __getitem__(self, coord: Any) -> Any:
        """operator[]: one element, read by the scalar unit as `get_value` does (GM; L1 and L0 have no scalar access)."""
        return self.data.memory.get_value(self.layout(coord))

    def set_l2_cache_hint(self, mode: CacheMode) -> None:
        """SetL2CacheHint of a tensor in GM. Raises ParameterError for a local one."""
        if self.location is not Location.GM:
            raise ParameterError("only tensors in GM have an L2 cache hint", field="mode", value=self.location.value)
        self.data.memory.set_l2_cache_hint(mode)


def slice(tensor: Tensor, coord: Any, shape: Any) -> Tensor:
    """`tensor.slice(coord, shape)`."""
    return tensor.slice(coord, shape)


def make_tensor(pointer: MemPtr, *layout: Any) -> Tensor:
    """MakeTensor(pointer, layout), or (pointer, shape, stride). Raises ParameterError for other arguments."""
    if not isinstance(pointer, MemPtr):
        raise ParameterError("make_tensor takes a pointer first", field="pointer", value=type(pointer).__name__,
                             allowed="make_gm_mem_ptr(...), make_l1_mem_ptr(...)")  # fmt: skip
    made = make_layout(*layout) if len(layout) == 2 else layout[0] if len(layout) == 1 else None
    if not isinstance(made, Layout):
        raise ParameterError("make_tensor takes a layout, or a shape and a stride", field="layout", value=str(layout))
    return Tensor(pointer, made)


# ---- pointers -------------------------------------------------------------------------------------------------------
def _pointer(location: Location, memory: Any, address: Any) -> MemPtr:
    if isinstance(memory, DataType):
        if location is Location.GM:
            raise ParameterError("a pointer to GM is made from a tensor or an argument of the kernel", field="memory",
                                 value=memory.name, allowed="GlobalAddress, GlobalTensor")  # fmt: skip
        capacity = int(current().card.value(f"buffers.{location.value}.size"))
        start = 0 if address is None else address
        return MemPtr(LocalTensor(memory, _POSITIONS[location], start, (capacity - start) * 8 // memory.bits), location)
    if address is not None:
        raise ParameterError("an address goes with an element type", field="address", value=str(address),
                             allowed="(dtype, address) or (tensor)")  # fmt: skip
    if isinstance(memory, GlobalAddress):
        whole = GlobalTensor()
        whole.set_global_buffer(memory)
        memory = whole
    if not isinstance(memory, GlobalTensor | LocalTensor) or memory.kind != location.value:
        raise ParameterError(f"no memory in {location.value}", field="memory",
                             value=getattr(memory, "kind", "") or type(memory).__name__, allowed=location.value)  # fmt: skip
    return MemPtr(memory, location)


def make_gm_mem_ptr(memory: Any) -> MemPtr:
    """MakeGMmemPtr: a pointer to a GlobalTensor or a GlobalAddress. Raises ParameterError for other memory."""
    return _pointer(Location.GM, memory, None)


def make_l1_mem_ptr(memory: Any, address: int | None = None) -> MemPtr:
    """MakeL1memPtr: `(tensor)` with a LocalTensor in L1, or `(dtype, byte address)`.

    Raises ParameterError for other memory, and as LocalTensor for the address.
    """
    return _pointer(Location.L1, memory, address)


def make_l0a_mem_ptr(memory: Any, address: int | None = None) -> MemPtr:
    """MakeL0AmemPtr, as `make_l1_mem_ptr`."""
    return _pointer(Location.L0A, memory, address)


def make_l0b_mem_ptr(memory: Any, address: int | None = None) -> MemPtr:
    """MakeL0BmemPtr, as `make_l1_mem_ptr`."""
    return _pointer(Location.L0B, memory, address)


def make_mem_ptr(*args: Any) -> MemPtr:
    """MakeMemPtr(tensor), whose memory says the location, or MakeMemPtr<Location, T>(address) as (location, dtype, address).

    Raises ParameterError as the pointers of one location.
    """
    if args and isinstance(args[0], Location):
        return _pointer(args[0], args[1] if len(args) > 1 else None, args[2] if len(args) > 2 else None)
    memory = args[0] if args else None
    kind = "GM" if isinstance(memory, GlobalAddress) else getattr(memory, "kind", "")
    location = _LOCATIONS.get(kind)
    if location is None:
        raise ParameterError("no memory that copies of this version know", field="memory",
                             value=kind or type(memory).__name__,
                             allowed=", ".join(location.value for location in Location))  # fmt: skip
    return _pointer(location, memory, args[1] if len(args) > 1 else None)


make_gmmem_ptr = make_gm_mem_ptr
make_l1mem_ptr = make_l1_mem_ptr
make_l0amem_ptr = make_l0a_mem_ptr
make_l0bmem_ptr = make_l0b_mem_ptr
