"""LocalMemAllocator: a bump pointer over one local buffer (spec pyasc.md 7, 13)."""

from __future__ import annotations

from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import Hardware, TPosition
from aicore_sim.kernel.tensor import LocalTensor
from aicore_sim.kernel.values import RuntimeInt

__all__ = ["LocalMemAllocator"]

_BUFFERS = {
    Hardware.UB: "UB", Hardware.L1: "L1", Hardware.L0A: "L0A", Hardware.L0B: "L0B", Hardware.L0C: "L0C",
    Hardware.BIAS: "BT", Hardware.FIXBUF: "FB",
}  # fmt: skip


class LocalMemAllocator:
    """Hands out a buffer from its start: `alloc` advances by exactly tile_size elements, without rounding.

    Raises ParameterError for a Hardware without a local buffer.
    """

    def __init__(self, hard: Hardware = Hardware.UB) -> None:
        if hard not in _BUFFERS:
            raise ParameterError("no local buffer", field="hard", value=hard,
                                 allowed=", ".join(h.name for h in _BUFFERS))  # fmt: skip
        self.hard = Hardware(hard)
        self._next = 0

    def get_cur_addr(self) -> RuntimeInt:
        """Byte address of the next tensor."""
        return RuntimeInt(self._next)

    def alloc(self, pos: TPosition, data_type: DataType, tile_size: int) -> LocalTensor:
        """A tensor of `tile_size` elements at the current address.

        Raises ParameterError if `pos` lies in another buffer, CapacityError past its end, AlignmentError if the address
        breaks the buffer's alignment.
        """
        kind = _BUFFERS[self.hard]
        card = current().card
        if card.position(TPosition(pos).name) != kind:
            raise ParameterError(
                f"this allocator serves {kind}", field="pos", value=TPosition(pos).name, card=card.name
            )
        tensor = LocalTensor(data_type, pos, self._next, int(tile_size))
        self._next += data_type.nbytes(int(tile_size))
        return tensor
