"""Synchronisation inside a core and between cores, as a kernel calls it (spec api_semantics.md 11, 19.2, 20.4, 24).

Every function appends at most a few control entries; none suspends the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.dtypes import DataType
from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.instructions.offer import both_names, require_rows, wrong_type
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.enums import HardEvent, PipeID
from aicore_sim.kernel.events import check_event_id, event_code, locks, named_pipe, pipes_of, plan
from aicore_sim.kernel.flag_notes import RESERVED, SET, WAIT, called, dropped_cross, dropped_pair, watched
from aicore_sim.kernel.program import Entry, Kind

__all__ = [
    "Mutex", "SyncAllConfig", "TQueSync", "alloc_mutex_id", "cross_core_set_flag", "cross_core_wait_flag",
    "disable_dma_atomic", "pipe_barrier", "release_mutex_id", "set_atomic_add", "set_atomic_max", "set_atomic_min",
    "set_atomic_none", "set_atomic_type", "set_flag", "sync_all", "wait_flag",
]  # fmt: skip

_SYNC_ALL_ID = 14


# ---- flags and barriers inside a core -------------------------------------------------------------------------------
def set_flag(event: HardEvent, event_id: int = 0) -> None:
    """SetFlag<event>(event_id): queued in the source pipe, raised when its earlier instructions are complete.

    V_V and FIX_FIX are barriers. Events that the wrapper drops on this kind of core record nothing.
    Raises ParameterError for an id outside 0..7, UnsupportedError for an event this core does not have (spec 11.3).
    """
    rec = current()
    if _as_before(rec, Kind.SET_FLAG, rec.known_sets, event, event_id):
        return
    found = plan(rec, event)
    number = check_event_id(rec, event_id)
    if found.dropped:
        dropped_pair(rec, SET, found.source, event, number)
        return
    if found.barrier is not None:
        _record_barrier(rec, found.barrier)
        return
    called(rec, SET, found.source, found.code, number, type(event_id) is int)
    if found.note:
        rec.session.warn(found.note, rec.line())
    elif number < RESERVED and not watched(rec, found.code):
        rec.known_sets[event * 8 + number] = (found.source, (found.code, number))
    rec.control(Kind.SET_FLAG, found.source, (found.code, number))


def wait_flag(event: HardEvent, event_id: int = 0) -> None:
    """WaitFlag<event>(event_id): queued in the destination pipe, holds it until the flag is up, then clears it.

    Raises as `set_flag`.
    """
    rec = current()
    if _as_before(rec, Kind.WAIT_FLAG, rec.known_waits, event, event_id):
        return
    found = plan(rec, event)
    number = check_event_id(rec, event_id)
    if found.dropped:
        dropped_pair(rec, WAIT, found.destination, event, number)
        return
    if found.barrier is not None:
        if found.wait_is_barrier:
            _record_barrier(rec, found.barrier)
        return
    called(rec, WAIT, found.destination, found.code, number, type(event_id) is int)
    if number < RESERVED and not watched(rec, found.code):
        rec.known_waits[event * 8 + number] = (found.destination, (found.code, number))
    rec.control(Kind.WAIT_FLAG, found.destination, (found.code, number))


def _as_before(rec: Recorder, kind: Kind, known: dict[int, tuple[Pipe, tuple[int, int]]], event: HardEvent,
               event_id: int) -> bool:  # fmt: skip
    """Record a call like one before and return True: a kernel's loop sets the same few flags over and over."""
    found = known.get(event * 8 + event_id) if type(event_id) is int and 0 <= event_id < RESERVED else None
    if found is None:
        return False
    rec.append(Entry(kind, found[0], rec.line(2), arg=found[1]))
    return True


def pipe_barrier(pipe: PipeID) -> None:
    """PipeBarrier<pipe>: earlier instructions of the pipe complete before later ones start.

    PIPE_ALL drains every pipe and holds the scalar unit. Barriers that emit no instruction on this core record nothing
    (spec 11.2). Raises ParameterError for PIPE_S and unknown pipes.
    """
    rec = current()
    if pipe == PipeID.PIPE_ALL:
        rec.control(Kind.BARRIER_ALL, Pipe.S)
        return
    if pipe == PipeID.PIPE_S:
        raise ParameterError("PipeBarrier<PIPE_S> is refused: the scalar unit is in order by itself", field="pipe",
                             value="PIPE_S", card=rec.card.name)  # fmt: skip
    _record_barrier(rec, named_pipe(pipe))


def _record_barrier(rec: Recorder, pipe: Pipe) -> None:
    """Append a barrier of one pipe unless it emits nothing on this core."""
    silent: dict[Pipe, bool] | None = rec.state.get("silent_barriers")
    if silent is None:
        silent = rec.state["silent_barriers"] = {}
    if pipe not in silent:
        kind = "aiv" if rec.kind == "aiv" else "aic"
        silent[pipe] = pipe.name in rec.card.names(f"sync.barrier_no_effect_{kind}") or pipe not in pipes_of(rec)
    if not silent[pipe]:
        rec.control(Kind.BARRIER, pipe)


class TQueSync:
    """TQueSync<src, dst>: flags between any two pipes, not filtered by core kind (spec 20.4). Ids 0..7."""

    __slots__ = ("code", "destination", "source")

    def __init__(self, src: PipeID, dst: PipeID) -> None:
        self.source, self.destination = named_pipe(src), named_pipe(dst)
        if self.source is self.destination:
            raise ParameterError("TQueSync needs two different pipes", field="dst", value=self.destination.name)
        self.code = event_code(self.source, self.destination)

    def set_flag(self, id: int) -> None:
        rec = current()
        self._check(rec)
        number = check_event_id(rec, id)
        called(rec, SET, self.source, self.code, number, type(id) is int)
        rec.control(Kind.SET_FLAG, self.source, (self.code, number))

    def wait_flag(self, id: int) -> None:
        rec = current()
        self._check(rec)
        number = check_event_id(rec, id)
        called(rec, WAIT, self.destination, self.code, number, type(id) is int)
        rec.control(Kind.WAIT_FLAG, self.destination, (self.code, number))

    def _check(self, rec: Recorder) -> None:
        pipes = pipes_of(rec)
        for pipe in (self.source, self.destination):
            if pipe not in pipes:
                raise UnsupportedError(f"TQueSync: this core ({rec.kind}) has no pipe {pipe.name}", field="pipe",
                                       value=pipe.name, card=rec.card.name)  # fmt: skip


# ---- between cores --------------------------------------------------------------------------------------------------
def _cross_core_pipe(rec: Recorder, api: str, flag_id: int, mode_id: int, pipe: PipeID) -> Pipe | None:
    """Checks of CrossCoreSetFlag and CrossCoreWaitFlag; the pipe, or None where 3510 emits nothing (spec 11.3)."""
    modes = rec.card.ids("sync.cross_core_modes")
    if not modes:
        raise UnsupportedError(
            f"{api}: this card has no flags between cores", field="api", value=api, card=rec.card.name
        )
    if mode_id not in modes:
        raise ParameterError(f"{api}: no such mode", field="mode_id", value=mode_id,
                             allowed=", ".join(map(str, modes)), card=rec.card.name)  # fmt: skip
    top = 31 if mode_id == 4 and rec.kind == "aic" else 15
    if isinstance(flag_id, bool) or not 0 <= int(flag_id) <= top:
        raise ParameterError(f"{api}: flag id out of range", field="flag_id", value=flag_id, allowed=f"0..{top}",
                             card=rec.card.name)  # fmt: skip
    if not rec.mix and (mode_id != 0 or rec.state.get("scheduler_off")):
        rec.session.warn(f"{api} mode {mode_id}: pure kernels start no cross-core scheduler for it", rec.line())
    listed = rec.card.ids("sync.cross_core_ids" if mode_id != 4 else f"sync.mode4_{rec.kind}_ids")
    if int(flag_id) not in listed:
        rec.session.warn(f"{api}: flag id {int(flag_id)} belongs to SyncAll, Matmul or nobody", rec.line())
    found = named_pipe(pipe)
    if found not in pipes_of(rec):
        there = ", ".join(p.name for p in sorted(pipes_of(rec)))
        if rec.card.npu_arch == 3510:
            dropped_cross(rec, api, found, int(flag_id), there)
            return None
        raise ParameterError(f"{api}: this core ({rec.kind}) has no such pipe", field="pipe", value=found.name, allowed=there,
                             card=rec.card.name)  # fmt: skip
    return found


def cross_core_set_flag(flag_id: int, mode_id: int, pipe: PipeID) -> None:
    """CrossCoreSetFlag<mode_id, pipe>(flag_id): signals when the earlier instructions of `pipe` are complete.

    Modes 0 (all cores of a kind), 1 (the AIVs of one AI Core), 2 (AIC with its AIVs), 4 (950: AIC with one AIV).
    Raises ParameterError for mode, id or pipe, UnsupportedError on the coupled card.
    """
    rec = current()
    if pipe == PipeID.PIPE_S and mode_id != 4:
        raise ParameterError("CrossCoreSetFlag: PIPE_S exists in mode 4 only", field="pipe", value="PIPE_S",
                             card=rec.card.name)  # fmt: skip
    found = _cross_core_pipe(rec, "CrossCoreSetFlag", flag_id, mode_id, pipe)
    if found is not None:
        rec.control(Kind.CROSS_SET, found, (int(flag_id), int(mode_id)))


def cross_core_wait_flag(flag_id: int, mode_id: int = 0, pipe: PipeID = PipeID.PIPE_S) -> None:
    """CrossCoreWaitFlag(flag_id): A2/A3 stop issuing until the signal is there, 950 holds `pipe` only (spec 11.5).

    Raises as `cross_core_set_flag`.
    """
    rec = current()
    found = _cross_core_pipe(rec, "CrossCoreWaitFlag", flag_id, mode_id, pipe)
    if found is None:
        return
    if rec.card.npu_arch != 3510:
        found = Pipe.S
    rec.control(Kind.CROSS_WAIT, found, (int(flag_id), int(mode_id)))


@dataclass(frozen=True)
class SyncAllConfig:
    """950: the pipe that drains before the signal and the pipe that waits for it (MTE2, MTE3 or ALL)."""

    trigger_pipe: PipeID = PipeID.PIPE_ALL
    wait_pipe: PipeID = PipeID.PIPE_ALL


def sync_all(gm_workspace: Any = None, ub_workspace: Any = None, used_cores: int = 0, is_aiv_only: bool = True,
             *, config: SyncAllConfig | None = None) -> None:  # fmt: skip
    """SyncAll: all vector cores (is_aiv_only) or all cores of the kernel meet (spec 11.5).

    Without both workspaces the hardware form: PIPE_ALL, then the meeting. With both the software form among vector
    cores, treated as a primitive; an AIC passes it. `sync_all(False)` means `is_aiv_only=False`.
    Raises UnsupportedError on the coupled card, ParameterError for used_cores, CapacityError for a short workspace.
    """
    rec = current()
    if isinstance(gm_workspace, bool):
        gm_workspace, is_aiv_only = None, gm_workspace
    if not rec.card.ids("sync.sync_all_ids"):
        raise UnsupportedError("SyncAll: this card has no synchronisation between cores", field="api", value="SyncAll",
                               card=rec.card.name)  # fmt: skip
    if gm_workspace is not None and ub_workspace is not None:
        _soft_sync_all(rec, gm_workspace, ub_workspace, int(used_cores))
        return
    if is_aiv_only and rec.kind == "aic" and rec.card.npu_arch == 3510:
        return
    if config is not None:
        _configured_sync_all(rec, config, is_aiv_only)
        return
    if rec.state.get("scheduler_off") and not rec.mix:
        rec.session.warn("SyncAll: this kernel type starts no cross-core scheduler (use MIX_AIV_1_0)", rec.line())
    rec.control(Kind.BARRIER_ALL, Pipe.S)
    rec.control(Kind.SYNC_ALL, Pipe.S, ("aiv" if is_aiv_only else "mix", None))


def _soft_sync_all(rec: Recorder, gm_workspace: Any, ub_workspace: Any, used_cores: int) -> None:
    if rec.kind == "aic":
        return
    cores = rec.block_num * rec.sub_block_num
    if used_cores not in (0, cores):
        raise ParameterError("SyncAll: used_cores must be all cores of the kernel here", field="used_cores",
                             value=used_cores, allowed=f"0 or {cores}", card=rec.card.name)  # fmt: skip
    for name, tensor in (("gm_workspace", gm_workspace), ("ub_workspace", ub_workspace)):
        nbytes = tensor.dtype.nbytes(tensor.get_size())
        if nbytes < cores * 32:
            raise CapacityError("SyncAll: workspace too small", field=name, value=nbytes,
                                allowed=f">= {cores * 32} B", card=rec.card.name)  # fmt: skip
    rec.control(Kind.BARRIER_ALL, Pipe.S)
    rec.control(Kind.SYNC_ALL, Pipe.S, ("aiv", "soft"))


def _configured_sync_all(rec: Recorder, config: SyncAllConfig, is_aiv_only: bool) -> None:
    """The 950 form: mode 0, id 14, on the two pipes named; PIPE_ALL stands for draining or stalling everything."""
    if rec.card.npu_arch != 3510 or not is_aiv_only:
        raise UnsupportedError("SyncAll with pipes is a form of the 950 vector cores", field="config", value=config,
                               card=rec.card.name)  # fmt: skip
    allowed = (PipeID.PIPE_MTE2, PipeID.PIPE_MTE3, PipeID.PIPE_ALL)
    for name in ("trigger_pipe", "wait_pipe"):
        if getattr(config, name) not in allowed:
            raise ParameterError("SyncAllConfig: pipe", field=name, value=getattr(config, name),
                                 allowed="PIPE_MTE2, PIPE_MTE3, PIPE_ALL", card=rec.card.name)  # fmt: skip
    if config.trigger_pipe == PipeID.PIPE_ALL:
        rec.control(Kind.BARRIER_ALL, Pipe.S)
    trigger = Pipe.MTE3 if config.trigger_pipe == PipeID.PIPE_ALL else named_pipe(config.trigger_pipe)
    waiting = Pipe.S if config.wait_pipe == PipeID.PIPE_ALL else named_pipe(config.wait_pipe)
    rec.control(Kind.CROSS_SET, trigger, (_SYNC_ALL_ID, 0))
    rec.control(Kind.CROSS_WAIT, waiting, (_SYNC_ALL_ID, 0))


# ---- buffer locks of 950 --------------------------------------------------------------------------------------------
class Mutex:
    """Mutex::Lock<pipe>(id) and Unlock<pipe>(id): locks follow program order (spec 20.5). 3510 only, ids 0..27."""

    @staticmethod
    def lock(pipe: PipeID, id: int) -> None:
        """Hold `pipe` until every Unlock of `id` issued so far has taken effect."""
        _record_lock("Lock", Kind.MUTEX_LOCK, pipe, id)

    @staticmethod
    def unlock(pipe: PipeID, id: int) -> None:
        """In effect when the earlier instructions of `pipe` are complete."""
        _record_lock("Unlock", Kind.MUTEX_UNLOCK, pipe, id)


def _record_lock(api: str, kind: Kind, pipe: PipeID, number: int) -> None:
    rec = current()
    _check_mutex_card(rec, api)
    count = int(rec.card.value("sync.mutex_ids"))
    if isinstance(number, bool) or not 0 <= int(number) < count:
        raise ParameterError(f"{api}: id out of range", field="mutex_id", value=number, allowed=f"0..{count - 1}",
                             card=rec.card.name)  # fmt: skip
    found = named_pipe(pipe)
    if found in pipes_of(rec):
        rec.control(kind, found, int(number))


def _check_mutex_card(rec: Recorder, api: str) -> None:
    if not rec.card.has("sync.mutex_ids"):
        raise UnsupportedError(f"{api}: this card has no buffer locks", field="api", value=api, card=rec.card.name)


def alloc_mutex_id() -> int:
    """AllocMutexID: lowest free lock id, shared with the queues. Raises CapacityError when 0..27 are all taken."""
    rec = current()
    _check_mutex_card(rec, "AllocMutexID")
    return locks(rec).take()


def release_mutex_id(id: int) -> None:
    """ReleaseMutexID."""
    rec = current()
    _check_mutex_card(rec, "ReleaseMutexID")
    locks(rec).release(int(id))


# ---- atomics of stores to GM ----------------------------------------------------------------------------------------
def _set_atomic(api: str, operation: str, dtype: DataType) -> None:
    """Check the element type against the card and make `operation` the running one."""
    rec = current()
    rows = require_rows(api, rec.card, api, None)
    names = sorted({name for row in rows for name in row.dtypes})
    if not isinstance(dtype, DataType):
        raise ParameterError(f"{both_names(api)} takes an element type", field="dtype", value=type(dtype).__name__,
                             allowed=", ".join(names), card=rec.card.name)  # fmt: skip
    if dtype.api_name not in names:
        raise wrong_type(rec.card, api, "", dtype, names)
    rec.atomic = f"{operation}:{dtype.name}" if operation else ""


def set_atomic_add(dtype: DataType) -> None:
    """From now on stores to GM add to memory. Raises UnsupportedError for a type the card does not have (spec 24)."""
    _set_atomic("SetAtomicAdd", "add", dtype)


def set_atomic_max(dtype: DataType) -> None:
    """From now on stores to GM keep the larger value. Not on 200I."""
    _set_atomic("SetAtomicMax", "max", dtype)


def set_atomic_min(dtype: DataType) -> None:
    """From now on stores to GM keep the smaller value. Not on 200I."""
    _set_atomic("SetAtomicMin", "min", dtype)


def set_atomic_type(dtype: DataType) -> None:
    """Change the element type of the running atomic operation; without one nothing is combined."""
    _set_atomic("SetAtomicType", current().atomic.partition(":")[0], dtype)


def set_atomic_none() -> None:
    """Stores to GM overwrite again."""
    current().atomic = ""


disable_dma_atomic = set_atomic_none
