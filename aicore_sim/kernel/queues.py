"""TQue, TQueBind, TBuf: buffers that are handed from one pipe to another (spec api_semantics.md 20.2, 20.3, 20.5).

The scalar side of the four calls is plain bookkeeping; what they queue on the pipes is recorded. On a core that does
not have the queue's buffer (the other half of a mix kernel) only the bookkeeping happens.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn

from aicore_sim.dtypes import DataType
from aicore_sim.errors import DeadlockError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import HardEvent, TPosition
from aicore_sim.kernel.events import locks, pipes_of, pools, reverse, uses_locks
from aicore_sim.kernel.flag_notes import taken
from aicore_sim.kernel.program import Kind
from aicore_sim.kernel.roots import NO_ROOT
from aicore_sim.kernel.tensor import LocalTensor
from aicore_sim.kernel.values import RuntimeInt

_READY = {
    ("GM", "UB"): HardEvent.MTE2_V, ("UB", "GM"): HardEvent.V_MTE3, ("UB", "UB"): HardEvent.MTE2_MTE3,
    ("GM", "L1"): HardEvent.MTE2_MTE1, ("L1", "L0A"): HardEvent.MTE1_M, ("L1", "L0B"): HardEvent.MTE1_M,
    ("L1", "BT"): HardEvent.MTE1_M, ("L1", "FB"): HardEvent.MTE1_FIX, ("L0C", "GM"): HardEvent.M_FIX,
    ("GM", "L0A"): HardEvent.MTE2_M, ("GM", "L0B"): HardEvent.MTE2_M, ("UB", "L1"): HardEvent.MTE3_MTE1,
    ("L1", "UB"): HardEvent.MTE1_V,
}  # fmt: skip
"""Ready event of a queue between two memories (spec 20.2); the free event is its reverse."""

_ENDS = {
    TPosition.VECIN: (TPosition.GM, TPosition.VECIN), TPosition.VECOUT: (TPosition.VECOUT, TPosition.GM),
    TPosition.VECCALC: (TPosition.VECCALC, TPosition.VECCALC), TPosition.CO1: (TPosition.CO1, TPosition.GM),
    TPosition.A1: (TPosition.GM, TPosition.A1), TPosition.B1: (TPosition.GM, TPosition.B1),
    TPosition.C1: (TPosition.GM, TPosition.C1), TPosition.TSCM: (TPosition.GM, TPosition.TSCM),
    TPosition.A2: (TPosition.A1, TPosition.A2), TPosition.B2: (TPosition.B1, TPosition.B2),
    TPosition.C2: (TPosition.C1, TPosition.C2), TPosition.C2PIPE2GM: (TPosition.A1, TPosition.C2PIPE2GM),
}  # fmt: skip
"""Source and destination position of TQue<position>."""

_POSITION_PIPE = {TPosition.VECIN: Pipe.MTE2, TPosition.VECCALC: Pipe.V, TPosition.VECOUT: Pipe.MTE3}


class Slot:
    """One buffer of a queue: where it is, who has it, and the ids it holds."""

    __slots__ = ("free_id", "lock", "offset", "queue", "ready_event", "ready_id", "root", "state")

    def __init__(self, queue: TQueBind, offset: int) -> None:
        self.queue = queue
        self.offset = offset
        self.state = "free"
        """"free", "taken" (by AllocTensor or DeQue) or "queued"."""
        self.free_id = -1
        """Id of the free event that the next AllocTensor has to wait for; -1: none."""
        self.ready_id = -1
        self.ready_event = HardEvent.V_V
        self.lock = -1
        self.root = NO_ROOT
        """Id of the buffer as a declared range of memory (roots.py)."""


class TQueBind:
    """A queue between two positions: `TQueBind(src=VECIN, dst=VECIN, depth=0, mask=0)`; depth 0 works in place.

    Raises UnsupportedError for a pair of positions that no queue serves.
    """

    def __init__(
        self, src: TPosition = TPosition.VECIN, dst: TPosition = TPosition.VECIN, depth: int = 0, mask: int = 0
    ) -> None:
        rec = current()
        self.src, self.dst = TPosition(src), TPosition(dst)
        self.depth = int(depth)
        self.mask = mask
        if self.depth < 0:
            raise ParameterError("a queue's depth", field="depth", value=depth, allowed=">= 0")
        source, destination = rec.card.position(self.src.name), rec.card.position(self.dst.name)
        ready = _READY.get((source, destination))
        if not source or not destination or ready is None:
            raise UnsupportedError("no queue between these positions", field="position",
                                   value=f"{self.src.name}, {self.dst.name}", card=rec.card.name)  # fmt: skip
        self.kind = destination if destination != "GM" else source
        self.position = self.dst if destination != "GM" else self.src
        self.ready = ready
        self.free = reverse(ready)
        self.producer, self.consumer = ready.source, ready.destination
        self.locked = uses_locks(rec)
        if self.locked and source == destination == "UB":
            self.producer, self.consumer = _POSITION_PIPE[self.src], _POSITION_PIPE[self.dst]
        self.here = self.kind in rec.buffers and {self.producer, self.consumer} <= pipes_of(rec)
        self._memory = rec.buffers.get(self.kind)
        self.label = f"TQue<{self.position.name}, {self.depth}>"
        self.slots: list[Slot] = []
        self.size = 0
        self._cursor = 0
        self._queue: deque[Slot] = deque()

    # ---- memory -----------------------------------------------------------------------------------------------------
    def give(self, rec: Recorder, offsets: list[int], size: int) -> None:
        """Called by InitBuffer: the byte offsets of the buffers and their size. In place queues take their ids here."""
        self.slots = [Slot(self, offset) for offset in offsets]
        self.size = size
        if self._memory is not None:
            for slot in self.slots:
                slot.root = rec.session.roots.declare(self._memory.uid, slot.offset, slot.offset + size, self.position.name,
                                                      rec.line())  # fmt: skip
        if not self.here or isinstance(self, TBuf):
            return
        for slot in self.slots:
            if self.locked:
                slot.lock = locks(rec).take()
            elif self.depth == 0:
                slot.ready_event, slot.ready_id = self.ready, taken(rec, self.producer, "InitBuffer", self.ready)
                slot.free_id = taken(rec, self.consumer, "InitBuffer", self.free)
                rec.control(Kind.SET_FLAG, self.consumer, (int(self.free), slot.free_id))

    def drain(self, rec: Recorder) -> None:
        """What Destroy and Reset do for this queue: wait for the free events of its free buffers, or drop its locks."""
        for slot in self.slots:
            if slot.lock >= 0:
                locks(rec).release(slot.lock)
                slot.lock = -1
            elif slot.state == "free" and slot.free_id >= 0:
                rec.control(Kind.WAIT_FLAG, self.producer, (int(self.free), slot.free_id))
                pools(rec).release(self.free, slot.free_id)
                slot.free_id = -1

    def forget(self) -> None:
        """The TPipe has taken its memory back: no buffers until the next InitBuffer."""
        self.slots = []
        self._cursor = 0
        self._queue.clear()

    def _tensor(self, slot: Slot, dtype: DataType) -> LocalTensor:
        tensor = LocalTensor(dtype)
        self._rebind(tensor, slot)
        return tensor

    def _rebind(self, tensor: LocalTensor, slot: Slot) -> None:
        """Point `tensor` at a buffer; InitBuffer has checked that it fits."""
        tensor.position, tensor.owner = self.position, slot
        tensor.kind, tensor.offset, tensor.buffer, tensor.root = self.kind, slot.offset, self._memory, slot.root
        tensor.size = self.size * 8 // tensor.dtype.bits

    # ---- the four calls ---------------------------------------------------------------------------------------------
    def alloc_tensor(self, dtype: DataType | None = None, *, tensor: LocalTensor | None = None) -> Any:
        """AllocTensor: `alloc_tensor(dtype)` returns the next free buffer, `alloc_tensor(tensor)` binds it to a tensor.

        Records the wait for the buffer's free event on the producer pipe. Raises DeadlockError if no buffer is free:
        the scalar unit of the device would spin for ever (spec 20.3).
        """
        if isinstance(dtype, LocalTensor):
            dtype, tensor = None, dtype
        if tensor is None and not isinstance(dtype, DataType):
            raise ParameterError("alloc_tensor takes an element type or a tensor", field="dtype", value=dtype)
        rec = current()
        slot = self._next_free(rec)
        slot.state = "taken"
        if slot.lock >= 0:
            rec.control(Kind.MUTEX_LOCK, self.producer, slot.lock)
        elif slot.free_id >= 0:
            rec.control(Kind.WAIT_FLAG, self.producer, (int(self.free), slot.free_id))
            if self.depth:
                pools(rec).release(self.free, slot.free_id)
                slot.free_id = -1
        if tensor is not None:
            self._rebind(tensor, slot)
            return None
        assert dtype is not None
        return self._tensor(slot, dtype)

    def _next_free(self, rec: Recorder) -> Slot:
        slots = self.slots
        if not slots:
            raise ParameterError(f"{self.label} has no memory: call init_buffer first", field="que", value=self.label)
        for step in range(len(slots)):
            slot = slots[(self._cursor + step) % len(slots)]
            if slot.state == "free":
                self._cursor = (self._cursor + step + 1) % len(slots)
                return slot
        queued = len(self._queue)
        raise DeadlockError(
            f"AllocTensor on {self.label} spins for ever: none of its {len(slots)} buffers is free",
            (f"scalar unit: waits for a free buffer of {self.label}",
             f"{self.label}: {queued} buffers wait for DeQue, {len(slots) - queued} for FreeTensor; both would have to "
             f"come from the same scalar unit"),
            field="que", value=self.label, card=rec.card.name,
        )  # fmt: skip

    def enque(
        self, tensor: LocalTensor, src_user_pos: TPosition | None = None, dst_user_pos: TPosition | None = None
    ) -> None:
        """EnQue: put the buffer at the tail; its data is ready when the producer's earlier instructions are complete.

        With two positions the event of that pair is used (GM, VECIN, VECOUT, VECCALC).
        Raises ParameterError for a tensor that is not a taken buffer of this queue, CapacityError when the event has no
        id left.
        """
        rec = current()
        slot = self._slot_of(tensor, "EnQue", "taken")
        event, producer = self._user_event(rec, src_user_pos, dst_user_pos, self.ready, self.producer)
        if self.depth and len(self._queue) >= self.depth:
            rec.session.warn(f"EnQue: {self.label} already holds {len(self._queue)} tensors", rec.line())
        if slot.lock >= 0:
            rec.control(Kind.MUTEX_UNLOCK, producer, slot.lock)
        elif self.here:
            if self.depth:
                slot.ready_event, slot.ready_id = event, taken(rec, event.source, "EnQue", event)
            rec.control(Kind.SET_FLAG, event.source, (int(slot.ready_event), slot.ready_id))
        slot.state = "queued"
        self._queue.append(slot)

    def deque(
        self, dtype: DataType | None = None, src_user_pos: TPosition | None = None,
        dst_user_pos: TPosition | None = None, *, tensor: LocalTensor | None = None,
    ) -> Any:  # fmt: skip
        """DeQue: take the head; the consumer pipe waits until its data is ready.

        `deque(dtype)` returns it, `deque(tensor)` binds it to a tensor. Raises ParameterError on an empty queue.
        """
        if isinstance(dtype, LocalTensor):
            dtype, tensor = None, dtype
        if tensor is None and not isinstance(dtype, DataType):
            raise ParameterError("deque takes an element type or a tensor", field="dtype", value=dtype)
        rec = current()
        if not self._queue:
            raise ParameterError(f"DeQue: {self.label} is empty", field="que", value=self.label, card=rec.card.name)
        slot = self._queue.popleft()
        slot.state = "taken"
        if slot.lock >= 0:
            _, consumer = self._user_pipes(src_user_pos, dst_user_pos)
            rec.control(Kind.MUTEX_LOCK, consumer, slot.lock)
        elif self.here:
            event = slot.ready_event
            rec.control(Kind.WAIT_FLAG, event.destination, (int(event), slot.ready_id))
            if self.depth:
                pools(rec).release(event, slot.ready_id)
                slot.ready_id = -1
        if tensor is not None:
            self._rebind(tensor, slot)
            return None
        assert dtype is not None
        return self._tensor(slot, dtype)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """FreeTensor: give the buffer back; its next AllocTensor waits for the consumer's earlier instructions."""
        rec = current()
        slot = self._slot_of(tensor, "FreeTensor", "taken")
        if slot.lock >= 0:
            rec.control(Kind.MUTEX_UNLOCK, self.consumer, slot.lock)
        elif self.here:
            if self.depth:
                slot.free_id = taken(rec, self.consumer, "FreeTensor", self.free)
            rec.control(Kind.SET_FLAG, self.consumer, (int(self.free), slot.free_id))
        slot.state = "free"

    def _slot_of(self, tensor: LocalTensor, api: str, state: str) -> Slot:
        slot = tensor.owner
        if not isinstance(slot, Slot) or slot.queue is not self:
            raise ParameterError(f"{api}: the tensor is not a buffer of {self.label}", field="tensor",
                                 value=getattr(tensor, "position", None))  # fmt: skip
        if slot.state != state:
            raise ParameterError(f"{api}: the buffer is {slot.state}, not in use", field="tensor", value=slot.state)
        return slot

    def _user_pipes(self, src: TPosition | None, dst: TPosition | None) -> tuple[Pipe, Pipe]:
        """Pipes of the explicit EnQue/DeQue form on 3510: from the positions (spec 20.2)."""
        if src is None or dst is None:
            return self.producer, self.consumer
        return (_POSITION_PIPE.get(TPosition(src), Pipe.MTE2), _POSITION_PIPE.get(TPosition(dst), Pipe.MTE3))

    def _user_event(
        self, rec: Recorder, src: TPosition | None, dst: TPosition | None, event: HardEvent, pipe: Pipe
    ) -> tuple[HardEvent, Pipe]:
        if src is None and dst is None:
            return event, pipe
        allowed = (TPosition.GM, TPosition.VECIN, TPosition.VECOUT, TPosition.VECCALC)
        if src not in allowed or dst not in allowed or (src == TPosition.GM and dst == TPosition.GM):
            raise ParameterError("EnQue with positions takes GM, VECIN, VECOUT, VECCALC", field="src_user_pos",
                                 value=(src, dst), card=rec.card.name)  # fmt: skip
        assert src is not None and dst is not None
        found = _READY[rec.card.position(TPosition(src).name), rec.card.position(TPosition(dst).name)]
        return found, self._user_pipes(src, dst)[0] if self.locked else found.source

    # ---- state ------------------------------------------------------------------------------------------------------
    def free_all_event(self) -> None:
        """FreeAllEvent: wait for and release the free events of all free buffers."""
        self._need_depth("FreeAllEvent")
        rec = current()
        if not self.locked:
            self.drain(rec)

    def get_tensor_count_in_que(self) -> RuntimeInt:
        self._need_depth("GetTensorCountInQue")
        return RuntimeInt(len(self._queue))

    def has_tensor_in_que(self) -> bool:
        self._need_depth("HasTensorInQue")
        return bool(self._queue)

    def vacant_in_que(self) -> bool:
        self._need_depth("VacantInQue")
        return len(self._queue) < self.depth

    def has_idle_buffer(self) -> bool:
        self._need_depth("HasIdleBuffer")
        return any(slot.state == "free" for slot in self.slots)

    def _need_depth(self, api: str) -> None:
        if self.depth == 0:
            raise UnsupportedError(f"{api} does not exist for queues of depth 0", field="depth", allowed=">= 1")

    def init_buf_handle(self, *_: Any, **__: Any) -> NoReturn:
        """Part of buffer pools, which are not modelled. Raises UnsupportedError."""
        raise UnsupportedError("buffer pools are not modelled", field="api", value="InitBufHandle")

    init_start_buf_handle = init_buf_handle


class TQue(TQueBind):
    """TQue<position, depth>: `TQue(pos=VECIN, depth=1, mask=0)`."""

    def __init__(self, pos: TPosition = TPosition.VECIN, depth: int = 1, mask: int = 0) -> None:
        ends = _ENDS.get(TPosition(pos))
        if ends is None:
            raise UnsupportedError("no queue at this position", field="pos", value=TPosition(pos).name,
                                   allowed=", ".join(p.name for p in _ENDS))  # fmt: skip
        super().__init__(*ends, depth, mask)
        self.position = TPosition(pos)
        self.label = f"TQue<{self.position.name}, {self.depth}>"


class TBuf(TQueBind):
    """TBuf<position>: one buffer without events, handed out as often as asked for."""

    def __init__(self, pos: TPosition) -> None:
        position = TPosition(pos)
        if position not in _ENDS:
            raise UnsupportedError("no buffer at this position", field="pos", value=position.name,
                                   allowed=", ".join(p.name for p in _ENDS))  # fmt: skip
        super().__init__(*_ENDS[position], 0, 0)
        self.position = position
        self.label = f"TBuf<{position.name}>"

    def _only(self) -> Slot:
        if not self.slots:
            raise ParameterError(f"{self.label} has no memory: call init_buffer first", field="buf", value=self.label)
        return self.slots[0]

    def get(self, dtype: DataType, len: int | None = None, shape: Any = None) -> LocalTensor:
        """The buffer as a tensor of `len` elements (default: all of it). Raises ParameterError if it is shorter."""
        return self.get_with_offset(self.size * 8 // dtype.bits if len is None else len, 0, dtype)

    def get_with_offset(self, size: int, buf_offset: int, dtype: DataType) -> LocalTensor:
        """`size` elements from byte `buf_offset` (a multiple of 32) of the buffer."""
        slot = self._only()
        start, count = int(buf_offset), int(size)
        if start % 32 or start < 0:
            raise ParameterError("GetWithOffset: offset", field="buf_offset", value=start, allowed="multiples of 32 B")
        if count < 0 or start + dtype.nbytes(count) > self.size:
            raise ParameterError(f"{self.label} has {self.size} B", field="len", value=count,
                                 allowed=f"<= {(self.size - start) * 8 // dtype.bits} elements")  # fmt: skip
        tensor = LocalTensor(dtype)
        tensor.position, tensor.owner = self.position, slot
        return tensor.bind(self.kind, slot.offset + start, count, slot.root)

    def alloc_tensor(self, dtype: DataType | None = None, *, tensor: LocalTensor | None = None) -> Any:
        """The buffer, without any event (spec pyasc.md 13)."""
        if isinstance(dtype, LocalTensor):
            dtype, tensor = None, dtype
        if tensor is not None:
            self._rebind(tensor, self._only())
            return None
        if not isinstance(dtype, DataType):
            raise ParameterError("alloc_tensor takes an element type or a tensor", field="dtype", value=dtype)
        return self.get(dtype)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Nothing happens."""
        if not isinstance(tensor.owner, Slot) or tensor.owner.queue is not self:
            raise ParameterError(f"FreeTensor: the tensor is not the buffer of {self.label}", field="tensor")
