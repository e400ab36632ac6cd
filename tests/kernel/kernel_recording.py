"""Record a kernel body on one core by hand, without an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aicore_sim.cards import load_card
from aicore_sim.kernel.context import Recorder, Session
from aicore_sim.kernel.events import event_name
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.memory import Buffer, GlobalMemory

ON_CORE = {"aic": ("L1", "L0A", "L0B", "L0C", "BT", "FB"), "aiv": ("UB",)}


def recorder(card: str = "atlas_a2", kind: str = "aiv", **where: Any) -> Recorder:
    """A core of `card` with buffers without bytes; block 0 of 1 unless `where` says otherwise."""
    chosen = load_card(card)
    names = ON_CORE[kind] if kind in ON_CORE else (*ON_CORE["aic"], *ON_CORE["aiv"])
    buffers = {
        name: Buffer(name, int(chosen.value(f"buffers.{name}.size")), uid=i, label=f"core0 {name}", data=False)
        for i, name in enumerate(names)
    }
    session = Session(chosen, GlobalMemory(data=False), data=False)
    return Recorder(session, kind, 0, buffers, **{"block_idx": 0, "block_num": 1, **where})


def record(body: Callable[[], object], card: str = "atlas_a2", kind: str = "aiv", **where: Any) -> list[Entry]:
    """The entries `body` records."""
    return record_on(recorder(card, kind, **where), body)


def record_on(rec: Recorder, body: Callable[[], object]) -> list[Entry]:
    rec.start(body)
    return rec.advance()


def shown(entries: list[Entry]) -> list[str]:
    """Entries in words: "set MTE2_V 0 on MTE2", "barrier V", "lock 3 on MTE2", "DataCopy on MTE2"."""
    return [_word(entry) for entry in entries]


def _word(entry: Entry) -> str:
    pipe = entry.pipe.name
    if entry.kind in (Kind.SET_FLAG, Kind.WAIT_FLAG):
        verb = "set" if entry.kind is Kind.SET_FLAG else "wait"
        return f"{verb} {event_name(entry.arg[0])} {entry.arg[1]} on {pipe}"
    if entry.kind is Kind.BARRIER:
        return f"barrier {pipe}"
    if entry.kind is Kind.BARRIER_ALL:
        return f"barrier all on {pipe}"
    if entry.kind in (Kind.MUTEX_LOCK, Kind.MUTEX_UNLOCK):
        return f"{'lock' if entry.kind is Kind.MUTEX_LOCK else 'unlock'} {entry.arg} on {pipe}"
    if entry.kind is Kind.EXEC:
        assert entry.op is not None
        return f"{entry.op.api} on {pipe}"
    return f"{entry.kind.name} {entry.arg} on {pipe}"
