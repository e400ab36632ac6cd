"""Flag calls that are wrong in themselves: ids that belong to somebody else, calls that emit nothing (spec api_semantics.md
11.3, 20.3, 20.4).

Rows show which flag was set and not who chose its id, nor what was never recorded. Whoever records a flag tells it here; what
is wrong becomes a `FlagNote` of the session, which the checks turn into findings after the run.
"""

from __future__ import annotations

from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.context import Recorder
from aicore_sim.kernel.enums import HardEvent
from aicore_sim.kernel.events import EventPools, event_name, pools
from aicore_sim.kernel.notes import DROPPED_FLAG, EVENT_ID_REUSE, PRESET_ID, RESERVED_ID, FlagNote

RESERVED = 6
"""First reserved event id; 7 is reserved under TPipe only (spec hardware.md 9)."""
SET, WAIT = "SetFlag", "WaitFlag"


def note(rec: Recorder, kind: str, pipe: Pipe, api: str, event: str, number: int, detail: str, fix: str) -> None:
    """Keep a note for the kernel line that is running."""
    found = FlagNote(kind, rec.line(), rec.index, int(pipe), api, event, number, detail, fix)
    rec.session.flag_notes[found] = rec.session.flag_notes.get(found, 0) + 1


# ---- ids inside a core ----------------------------------------------------------------------------------------------
def watched(rec: Recorder, code: int) -> bool:
    """True if calls with this event have to be told to `called`, every one: the framework hands out its ids."""
    found = rec.state.get("event_pools")
    return isinstance(found, EventPools) and code in found.known


def called(rec: Recorder, api: str, pipe: Pipe, code: int, number: int, by_hand: bool) -> None:
    """The kernel calls SetFlag or WaitFlag; `by_hand`: the id is a number of the source, not one that was handed out."""
    found = rec.state.get("event_pools")
    ids = found if isinstance(found, EventPools) else None
    if number >= RESERVED and api == SET:
        _reserved(rec, ids, pipe, code, number, by_hand)
    if ids is None or code not in ids.known:
        return
    bit = 1 << number
    live = ids.tracked.get(code, 0) & bit
    complaint = _complaint(ids, api, code, number, by_hand, bool(live))
    if complaint is not None:
        kind, detail, fix = complaint
        note(rec, kind, pipe, api, event_name(code), number, detail, fix)
    if api == SET:
        ids.tracked[code] = ids.tracked.get(code, 0) | bit
    else:
        ids.waited(code, number)


def _complaint(ids: EventPools, api: str, code: int, number: int, by_hand: bool, live: bool) -> tuple[str, str, str] | None:
    """(kind, detail, fix) of what is wrong with a call of this id."""
    bit, event = 1 << number, event_name(code)
    if ids.preset.get(code, 0) & bit:
        if api == SET and live:
            return (PRESET_ID, f"TPipe has set {event} id {number} itself, and nobody has waited for it when this call sets it",
                    f"use another id of {event}, from 3 on, or wait for {number} before it is set")  # fmt: skip
        return None
    own = f"take an id of its own: asc.get_tpipe_ptr().alloc_event_id(asc.HardEvent.{event})"
    if ids.used.get(code, 0) & bit & ~ids.own.get(code, 0):
        return EVENT_ID_REUSE, f"{event} id {number} is in use by a queue when this call names it", own
    if ids.own.get(code, 0) & bit:
        table, other = (ids.written, ids.named) if by_hand else (ids.named, ids.written)
        table[code] = table.get(code, 0) | bit
        if other.get(code, 0) & bit:
            return EVENT_ID_REUSE, f"{event} id {number} is named by number while alloc_event_id has handed it out", own
        return None
    if api == SET and live and ids.fetched.get((code, number), 0) > 1:
        return (EVENT_ID_REUSE, f"two results of fetch_event_id are in use at once: both are {event} id {number}",
                "use alloc_event_id, which keeps an id until release_event_id")  # fmt: skip
    return None


def _reserved(rec: Recorder, ids: EventPools | None, pipe: Pipe, code: int, number: int, by_hand: bool) -> None:
    given = ids is not None and (ids.used.get(code, 0) >> number & 1 or (code, number) in ids.fetched)
    if given and not by_hand:
        return
    if number == RESERVED:
        why = "event id 6 is reserved"
    elif "tpipe" in rec.state:
        why = "event id 7 belongs to TPipe while the framework is used"
    else:
        return
    note(rec, RESERVED_ID, pipe, SET, event_name(code), number, why, "use an id from 0 to 5, or one that alloc_event_id gives")


def taken(rec: Recorder, pipe: Pipe, api: str, event: HardEvent, *, own: bool = False) -> int:
    """Take the lowest free id of an event for a queue, or (`own`) for the kernel. Raises as `EventPools.take`."""
    ids = pools(rec)
    number = ids.take(event)
    if own:
        ids.own[event] = ids.own.get(event, 0) | 1 << number
    if ids.tracked.get(event, 0) >> number & 1:
        note(rec, EVENT_ID_REUSE, pipe, api, event.name, number,
             f"{event.name} id {number} is handed out while its flag is set and not waited for",
             "wait for the flag before the id is used for something else")  # fmt: skip
    return number


def preset(rec: Recorder, event: HardEvent, number: int) -> None:
    """TPipe has set this flag itself."""
    ids = pools(rec)
    for table in (ids.preset, ids.tracked):
        table[event] = table.get(event, 0) | 1 << number


# ---- calls that emit nothing ----------------------------------------------------------------------------------------
def dropped_pair(rec: Recorder, api: str, pipe: Pipe, event: HardEvent, number: int) -> None:
    """SetFlag or WaitFlag of a pair that this kind of core does not have. Code that both halves of a mix kernel run relies on
    it, so there it is no finding."""
    if not rec.mix:
        note(rec, DROPPED_FLAG, pipe, api, event.name, number,
             f"{api}<{event.name}> does nothing on this core ({rec.kind})", "leave the call out")  # fmt: skip


def dropped_cross(rec: Recorder, api: str, pipe: Pipe, flag: int, allowed: str) -> None:
    """CrossCoreSetFlag or CrossCoreWaitFlag on a pipe that this core does not have."""
    note(rec, DROPPED_FLAG, pipe, api, "", flag, f"{api} is dropped: pipe {pipe.name} is not on this core ({rec.kind})",
         f"name a pipe of this core: {allowed}")  # fmt: skip
