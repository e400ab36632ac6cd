"""TPipe: buffers and event ids of a core behind one object (spec api_semantics.md 20)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NoReturn

from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import HardEvent, TPosition
from aicore_sim.kernel.events import check_event_id, pools, uses_locks
from aicore_sim.kernel.flag_notes import preset, taken
from aicore_sim.kernel.program import Kind
from aicore_sim.kernel.queues import TBuf, TQue, TQueBind
from aicore_sim.kernel.system import init_soc_state
from aicore_sim.kernel.tensor import buffer_name
from aicore_sim.kernel.values import RuntimeInt

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "TBuf", "TBufPool", "TPipe", "TQue", "TQueBind", "alloc_event_id", "fetch_event_id", "get_tpipe_ptr",
    "release_event_id",
]  # fmt: skip

_MAX_BUFFERS = 64
_BLOCK = 32


class TPipe:
    """The framework of one kernel: one bump pointer per physical buffer, event id pools, the queues' life.

    Constructing it resets the sticky state (InitSocState) and, on cubes, takes and sets M_MTE1 ids 0, 1, 2 (spec 20.4).
    Raises RuntimeError if the kernel already has one that was not destroyed.
    """

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._owned: list[tuple[str, int, str]] = []
        self._count = 0
        self.queues: list[TQueBind] = []
        self.init()

    # ---- life -------------------------------------------------------------------------------------------------------
    def init(self) -> None:
        """InitSocState, empty pools, M_MTE1 ids 0..2 set on cubes; after `destroy` this starts it anew.

        Raises RuntimeError if the kernel has another TPipe.
        """
        rec = current()
        if rec.state.setdefault("tpipe", self) is not self:
            raise RuntimeError("this kernel already has a TPipe: use get_tpipe_ptr()")
        init_soc_state()
        pools(rec).clear()
        if rec.on_aic:
            for number in rec.card.ids("sync.tpipe_event_ids"):
                first = pools(rec).take(HardEvent.M_MTE1)
                assert first == number, "the first ids of an empty pool"
                preset(rec, HardEvent.M_MTE1, number)
                rec.control(Kind.SET_FLAG, Pipe.M, (int(HardEvent.M_MTE1), number))

    def destroy(self) -> None:
        """Wait for the events of free buffers and for M_MTE1 0..2, then PIPE_ALL; a new TPipe may follow."""
        rec = current()
        self._drain(rec)
        if rec.on_aic:
            for number in rec.card.ids("sync.tpipe_event_ids"):
                rec.control(Kind.WAIT_FLAG, Pipe.MTE1, (int(HardEvent.M_MTE1), number))
                pools(rec).waited(HardEvent.M_MTE1, number)
        rec.control(Kind.BARRIER_ALL, Pipe.S)
        pools(rec).clear()
        self._forget()
        if rec.state.get("tpipe") is self:
            del rec.state["tpipe"]

    def reset(self) -> None:
        """Drain the free events, then give back all memory and ids; the M_MTE1 flags of a cube stay set (spec 20.5)."""
        rec = current()
        self._drain(rec)
        if uses_locks(rec):
            rec.control(Kind.SET_FLAG, Pipe.V, (int(HardEvent.V_MTE3), 0))
            rec.control(Kind.WAIT_FLAG, Pipe.MTE3, (int(HardEvent.V_MTE3), 0))
            rec.control(Kind.BARRIER, Pipe.MTE2)
            rec.control(Kind.BARRIER, Pipe.MTE3)
        elif rec.on_aic:
            rec.session.warn("TPipe reset leaves M_MTE1 0..2 set: alloc_event_id hands them out again", rec.line())
        pools(rec).clear()
        self._forget()

    def _drain(self, rec: Recorder) -> None:
        for queue in self.queues:
            queue.drain(rec)

    def _forget(self) -> None:
        for queue in self.queues:
            queue.forget()
        self._used.clear()
        self._owned.clear()
        self.queues.clear()
        self._count = 0

    # ---- memory -----------------------------------------------------------------------------------------------------
    def init_buffer(self, *args: Any, **kwargs: Any) -> None:
        """`init_buffer(que, num, len)` for a queue of `num` buffers of `len` bytes; `init_buffer(buf, num)` for a TBuf
        of `num` bytes. Lengths are rounded up to 32 B, buffers follow one another in call order (spec 20.1).

        Raises CapacityError when a physical buffer or the 64 buffers of a TPipe are used up, ParameterError for the
        form.
        """
        target, num, length = _init_arguments(args, kwargs)
        size = -(-length // _BLOCK) * _BLOCK
        if length <= 0:
            raise ParameterError("InitBuffer: length", field="len", value=length, allowed=">= 1 B")
        if num <= 0:
            raise ParameterError("InitBuffer: number of buffers", field="num", value=num, allowed=">= 1")
        if target.slots:
            raise ParameterError("InitBuffer: this queue has its buffers already", field="que", value=target.label)
        rec = current()
        self._count += num
        if self._count > _MAX_BUFFERS:
            raise CapacityError("a TPipe holds at most 64 buffers", field="num", value=self._count, allowed="<= 64",
                                card=rec.card.name)  # fmt: skip
        first = self.reserve(rec, target.kind, num * size, target.label)
        self.queues.append(target)
        target.give(rec, [first + index * size for index in range(num)], size)

    def reserve(self, rec: Recorder, kind: str, nbytes: int, label: str) -> int:
        """Move the bump pointer of `kind`; returns the old one."""
        offset = self._used.get(kind, 0)
        self._owned.append((kind, nbytes, label))
        limit = capacity(rec, kind)
        if offset + nbytes > limit:
            biggest = sorted((o for o in self._owned if o[0] == kind), key=lambda o: -o[1])[:4]
            shown = ", ".join(f"{text} {size} B" for _, size, text in biggest)
            raise CapacityError(
                f"InitBuffer: {kind} holds {limit} B under TPipe, {offset + nbytes} B are asked for ({shown})",
                field="len", value=nbytes, allowed=f"<= {max(limit - offset, 0)} B left", card=rec.card.name,
            )  # fmt: skip
        self._used[kind] = offset + nbytes
        return offset

    def get_base_addr(self, logic_pos: TPosition | None = None) -> RuntimeInt:
        """Byte address at which the next buffer of a position begins."""
        kind = buffer_name(TPosition.VECIN if logic_pos is None else logic_pos)
        return RuntimeInt(self._used.get(kind, 0))

    def init_buf_pool(self, buf_pool: Any, len: int = 0, share_buf: Any = None) -> NoReturn:
        """Buffer pools are not modelled. Raises UnsupportedError."""
        raise _no_pools()

    # ---- event ids --------------------------------------------------------------------------------------------------
    def alloc_event_id(self, event: HardEvent = HardEvent.V_S) -> RuntimeInt:
        """Lowest free id of `event`, occupied until `release_event_id` (spec 20.4)."""
        kind = HardEvent(event)
        return RuntimeInt(taken(current(), kind.source, "AllocEventID", kind, own=True))

    def fetch_event_id(self, event: HardEvent = HardEvent.V_S) -> RuntimeInt:
        """Lowest free id of `event`, not occupied: two fetches in a row give the same id."""
        ids, kind = pools(current()), HardEvent(event)
        number = ids.lowest(kind)
        ids.fetched[kind, number] = ids.fetched.get((kind, number), 0) + 1
        return RuntimeInt(number)

    def release_event_id(self, id: int, event: HardEvent = HardEvent.V_S) -> None:
        rec = current()
        pools(rec).release(HardEvent(event), check_event_id(rec, id))


class TBufPool:
    """Buffer pools are not modelled. Constructing one raises UnsupportedError."""

    def __init__(self, pos: TPosition | None = None, buf_id_size: int = 4) -> None:
        raise _no_pools()


def _no_pools() -> UnsupportedError:
    return UnsupportedError("buffer pools are not modelled: use init_buffer with queues and TBuf", field="api",
                            value="TBufPool")  # fmt: skip


def _init_arguments(args: Iterable[Any], kwargs: dict[str, Any]) -> tuple[TQueBind, int, int]:
    """(target, number of buffers, bytes of each) of the two forms, by position or keyword."""
    given = dict(kwargs)
    names = iter(("target", "num", "len"))
    for value in args:
        name = next(names, None)
        if name is None or name in given:
            raise ParameterError("init_buffer takes (que, num, len) or (buf, num)", field="arguments", value=args)
        given[name] = value
    target = given.pop("target", None) or given.pop("que", None) or given.pop("buf", None)
    num, length = given.pop("num", None), given.pop("len", None)
    if given or not isinstance(target, TQueBind):
        raise ParameterError("init_buffer takes (que, num, len) or (buf, num)", field="arguments",
                             value=sorted(given) or type(target).__name__)  # fmt: skip
    if isinstance(target, TBuf):
        nbytes = num if num is not None else length
        if nbytes is None or (num is not None and length is not None):
            raise ParameterError("init_buffer of a TBuf takes its length in bytes", field="num", value=num)
        return target, 1, _whole(nbytes, "num")
    if num is None or length is None:
        raise ParameterError("init_buffer of a queue takes num and len", field="num" if num is None else "len")
    return target, _whole(num, "num"), _whole(length, "len")


def _whole(value: Any, field: str) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise ParameterError(f"init_buffer: {field} must be a whole number", field=field, value=value,
                             allowed="ints (// divides them)") from None  # fmt: skip


def capacity(rec: Recorder, kind: str) -> int:
    """Bytes that TPipe hands out of a buffer: UB and, in mix kernels, L1 less the reserve; others whole (spec hardware.md 2)."""
    reserved = f"buffers.{kind}.user_size"
    if (kind == "UB" or (kind == "L1" and rec.mix)) and rec.card.has(reserved):
        return int(rec.card.value(reserved))
    return int(rec.card.value(f"buffers.{kind}.size"))


def get_tpipe_ptr() -> TPipe:
    """The TPipe of the running kernel. Raises RuntimeError if it has none."""
    found = current().state.get("tpipe")
    if not isinstance(found, TPipe):
        raise RuntimeError("this kernel has no TPipe: create one with TPipe()")
    return found


def alloc_event_id(event: HardEvent = HardEvent.V_S) -> RuntimeInt:
    """`get_tpipe_ptr().alloc_event_id(event)`."""
    return get_tpipe_ptr().alloc_event_id(event)


def fetch_event_id(event: HardEvent = HardEvent.V_S) -> RuntimeInt:
    """`get_tpipe_ptr().fetch_event_id(event)`."""
    return get_tpipe_ptr().fetch_event_id(event)


def release_event_id(id: int, event: HardEvent = HardEvent.V_S) -> None:
    """`get_tpipe_ptr().release_event_id(id, event)`."""
    get_tpipe_ptr().release_event_id(id, event)


def finish(rec: Recorder) -> None:
    """What happens when a kernel returns: the destructor of its TPipe, or the final PIPE_ALL behind LocalTensorAuto.

    Call it while `rec` is current.
    """
    found = rec.state.get("tpipe")
    if isinstance(found, TPipe):
        found.destroy()
    elif "auto_sync" in rec.state:
        rec.control(Kind.BARRIER_ALL, Pipe.S)
