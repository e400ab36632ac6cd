"""Events: which flags a core really has, how pairs of pipes are numbered, and the pools that hand out event ids.

The wrapper functions of the vendor drop some events on one kind of core and emit others as barriers; what happens to an
event is decided once per core and event (`plan`) from the card's lists (spec api_semantics.md 11.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder
from aicore_sim.kernel.enums import PIPE_OF, HardEvent, PipeID

_NO_WAIT = frozenset({HardEvent.M_V, HardEvent.V_M, HardEvent.MTE1_V, HardEvent.V_MTE1})
_PAIR_BASE = 64
"""Pairs of pipes without a HardEvent (TQueSync<S, FIX>) are numbered from here: base + 8 * source + destination."""


def event_code(source: Pipe, destination: Pipe) -> int:
    """The number that flags of this pair carry in the program: the HardEvent, or a number from 64 on without one."""
    found = HardEvent.__members__.get(f"{source.name}_{destination.name}")
    return int(found) if found is not None else _PAIR_BASE + 8 * source + destination


def event_name(code: int) -> str:
    """`SRC_DST` of a number made by `event_code`."""
    if code < _PAIR_BASE:
        return HardEvent(code).name
    source, destination = divmod(code - _PAIR_BASE, 8)
    return f"{Pipe(source).name}_{Pipe(destination).name}"


def reverse(event: HardEvent) -> HardEvent:
    """DST_SRC of SRC_DST."""
    return HardEvent[f"{event.destination.name}_{event.source.name}"]


@dataclass(frozen=True, slots=True)
class FlagPlan:
    """What SetFlag and WaitFlag of one event do on one core.

    `barrier`: set is a barrier of this pipe (and wait too if `wait_is_barrier`); `dropped`: both do nothing.
    """

    code: int
    source: Pipe
    destination: Pipe
    dropped: bool = False
    barrier: Pipe | None = None
    wait_is_barrier: bool = False
    note: str = ""


def pipes_of(rec: Recorder) -> frozenset[Pipe]:
    """The pipes of the recording core: S, MTE2, MTE3 with V, or M, MTE1, FIX; a 3510 AIC has no MTE3 (spec 11.3)."""
    found = {Pipe.S, Pipe.MTE2}
    if rec.on_aiv:
        found |= {Pipe.V, Pipe.MTE3}
    if rec.on_aic:
        found |= {Pipe.M, Pipe.MTE1, Pipe.FIX}
        if rec.card.npu_arch != 3510:
            found.add(Pipe.MTE3)
    return frozenset(found)


def uses_locks(rec: Recorder) -> bool:
    """True where queues use buffer locks instead of events: the vector cores of 3510 (spec api_semantics.md 20.5)."""
    return rec.card.npu_arch == 3510 and rec.kind == "aiv"


def plan(rec: Recorder, event: HardEvent) -> FlagPlan:
    """The plan of `event` on this core, made once.

    Raises UnsupportedError for pairs that have no wait or no pipes here, ParameterError for what is no HardEvent.
    """
    plans: dict[int, FlagPlan] | None = rec.state.get("flag_plans")
    if plans is None:
        plans = rec.state["flag_plans"] = {}
    found = plans.get(event)
    if found is None:
        found = plans[event] = _make_plan(rec, event)
    return found


def _make_plan(rec: Recorder, event: HardEvent) -> FlagPlan:
    try:
        event = HardEvent(event)
    except ValueError as error:
        raise ParameterError("not a HardEvent", field="event", value=event, allowed="a member of HardEvent",
                             card=rec.card.name) from error  # fmt: skip
    source, destination = event.source, event.destination
    base = FlagPlan(int(event), source, destination)
    dropped = FlagPlan(int(event), source, destination, dropped=True)
    pipes = pipes_of(rec)
    if event is HardEvent.V_V:
        return FlagPlan(int(event), source, destination, barrier=Pipe.V) if rec.on_aiv else dropped
    if event is HardEvent.FIX_FIX:
        if rec.on_aic:
            return FlagPlan(int(event), source, destination, barrier=Pipe.FIX, wait_is_barrier=True)
        return dropped
    if event in _NO_WAIT and not rec.card.coupled:
        raise UnsupportedError(
            "this event has no wait on this card", field="event", value=event.name, card=rec.card.name
        )
    if rec.card.npu_arch == 3510 and not {source, destination} <= pipes:
        return dropped
    names = rec.card.names
    kinds = ("aic", "aiv") if rec.card.coupled else (rec.kind,)
    listed = {name for kind in kinds for name in names(f"sync.pairs.{kind}")}
    if event.name in listed:
        return base
    if not rec.card.coupled and event.name in names(f"sync.pairs.{rec.kind}_no_effect"):
        return dropped
    if event.name in names("sync.pairs.aic_header") and rec.on_aic:
        return FlagPlan(int(event), source, destination,
                        note=f"{event.name} is not in the card's table of events; the headers emit it")  # fmt: skip
    raise UnsupportedError(
        f"SetFlag/WaitFlag: {event.name} does not exist on this core ({rec.kind}); guard the call with "
        f"ascend_is_aic() or ascend_is_aiv()" if rec.mix else f"SetFlag/WaitFlag: {event.name} does not exist here",
        field="event", value=event.name, allowed=", ".join(sorted(listed)), card=rec.card.name,
    )  # fmt: skip


def event_count(rec: Recorder) -> int:
    """Ids per event: 8 on every card here."""
    found = rec.state.get("event_ids")
    if found is None:
        found = rec.state["event_ids"] = int(rec.card.value("sync.event_ids"))
    return int(found)


def check_event_id(rec: Recorder, event_id: int) -> int:
    """The id as an int. Raises ParameterError outside 0..7."""
    count = rec.state.get("event_count")
    if count is None:
        count = rec.state["event_count"] = event_count(rec)
    number = int(event_id)
    if isinstance(event_id, bool) or not 0 <= number < count:
        raise ParameterError("event id out of range", field="event_id", value=event_id, allowed=f"0..{count - 1}",
                             card=rec.card.name)  # fmt: skip
    return number


def named_pipe(pipe: PipeID) -> Pipe:
    """The pipe behind a PipeID. Raises ParameterError for PIPE_ALL and pipes no card here has."""
    found = PIPE_OF.get(pipe)
    if found is None:
        shown = pipe.name if isinstance(pipe, PipeID) else pipe
        raise ParameterError("no such pipe here", field="pipe", value=shown,
                             allowed=", ".join(p.name for p in PIPE_OF))  # fmt: skip
    return found


class EventPools:
    """Event ids in use, per event (spec api_semantics.md 20.3, 20.4): the lowest free id is handed out.

    All tables are bit masks of ids by event. `used` are those in use, of which `own` were allocated by the kernel and `preset`
    belong to TPipe itself; `tracked` are the flags that kernel calls have set and not waited for, kept for events that the
    framework hands out ids of. `caches` are emptied when the first id of an event is handed out.
    """

    __slots__ = ("caches", "card", "count", "fetched", "known", "named", "own", "preset", "tracked", "used", "written")

    def __init__(self, count: int, card: str, caches: tuple[dict[int, Any], ...] = ()) -> None:
        self.count = count
        self.card = card
        self.caches = caches
        self.used: dict[int, int] = {}
        self.own: dict[int, int] = {}
        self.preset: dict[int, int] = {}
        self.tracked: dict[int, int] = {}
        self.known: set[int] = set()
        """Events of which ids were handed out."""
        self.fetched: dict[tuple[int, int], int] = {}
        """How often fetch_event_id gave an (event, id) since the kernel last waited for that."""
        self.named: dict[int, int] = {}
        self.written: dict[int, int] = {}
        """Allocated ids that calls gave as they were allocated, and as numbers in the source."""

    def lowest(self, event: int) -> int:
        """Lowest free id, not taken. Raises CapacityError if all are taken (a release build would hand out 8)."""
        if event not in self.known:
            self.known.add(event)
            for cache in self.caches:
                cache.clear()
        used = self.used.get(event, 0)
        number = (~used & (used + 1)).bit_length() - 1
        if number >= self.count:
            raise CapacityError(
                f"all {self.count} ids of {event_name(event)} are in use: more buffers in flight than events",
                field="event_id", value=number, allowed=f"0..{self.count - 1}", card=self.card,
            )  # fmt: skip
        return number

    def take(self, event: int) -> int:
        """Lowest free id, taken until `release`."""
        number = self.lowest(event)
        self.used[event] = self.used.get(event, 0) | 1 << number
        return number

    def release(self, event: int, number: int) -> None:
        for table in (self.used, self.own, self.named, self.written):
            if event in table:
                table[event] &= ~(1 << number)

    def waited(self, event: int, number: int) -> None:
        """The kernel or TPipe waits for a flag: it is down behind that, in the order of the program."""
        if event in self.tracked:
            self.tracked[event] &= ~(1 << number)
        if (event, number) in self.fetched:
            self.fetched[event, number] = 0

    def clear(self) -> None:
        for table in (self.used, self.own, self.preset, self.named, self.written):
            table.clear()
        self.fetched.clear()


def pools(rec: Recorder) -> EventPools:
    """The event id pools of this core."""
    found = rec.state.get("event_pools")
    if found is None:
        found = rec.state["event_pools"] = EventPools(event_count(rec), rec.card.name, (rec.known_sets, rec.known_waits))
    assert isinstance(found, EventPools)
    return found


class LockPool:
    """Ids of the buffer locks of a 3510 core: one bit mask, lowest free first, 0..27 (spec api_semantics.md 20.5)."""

    __slots__ = ("card", "used")
    COUNT = 28

    def __init__(self, card: str) -> None:
        self.card = card
        self.used = 0

    def take(self) -> int:
        number = (~self.used & (self.used + 1)).bit_length() - 1
        if number >= self.COUNT:
            raise CapacityError(
                "no buffer lock is left", field="mutex_id", value=number, allowed="0..27", card=self.card
            )
        self.used |= 1 << number
        return number

    def release(self, number: int) -> None:
        self.used &= ~(1 << number)


def locks(rec: Recorder) -> LockPool:
    """The buffer locks of this core."""
    found = rec.state.get("lock_pool")
    if found is None:
        found = rec.state["lock_pool"] = LockPool(rec.card.name)
    assert isinstance(found, LockPool)
    return found
