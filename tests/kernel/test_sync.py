"""Flags, barriers, cross-core calls, locks and atomics: what is recorded, where, and what is refused."""

from __future__ import annotations

import pytest

from aicore_sim import dtypes
from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel import sync
from aicore_sim.kernel.enums import HardEvent, PipeID
from aicore_sim.kernel.events import EventPools, event_code, event_name, reverse
from aicore_sim.kernel.program import Kind
from tests.kernel.kernel_recording import record, record_on, recorder, shown

CARDS = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")


def pair(event: HardEvent, number: int = 0) -> None:
    sync.set_flag(event, number)
    sync.wait_flag(event, number)


def test_set_is_queued_on_the_source_and_wait_on_the_destination() -> None:
    entries = record(lambda: pair(HardEvent.MTE2_V, 3))
    assert [(e.kind, e.pipe, e.arg) for e in entries] == [
        (Kind.SET_FLAG, Pipe.MTE2, (4, 3)),
        (Kind.WAIT_FLAG, Pipe.V, (4, 3)),
    ]


@pytest.mark.parametrize("card", CARDS)
def test_vector_core_pairs_exist_on_every_card(card: str) -> None:
    events = [f"{a}_{b}" for a in ("S", "V", "MTE2", "MTE3") for b in ("S", "V", "MTE2", "MTE3") if a != b]
    kind = "core" if card == "atlas_200i" else "aiv"
    entries = record(lambda: [pair(HardEvent[name]) for name in events], card, kind)
    assert shown(entries) == [
        line for name in events
        for line in (f"set {name} 0 on {name.split('_')[0]}", f"wait {name} 0 on {name.split('_')[1]}")
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "names"), [
    ("aic", ["MTE2_V", "V_MTE2", "MTE3_V", "V_MTE3", "V_V", "S_V", "V_S"]),
    ("aiv", ["MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1", "M_FIX", "FIX_M", "FIX_FIX"]),
])  # fmt: skip
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_events_of_the_other_core_kind_do_nothing(card: str, kind: str, names: list[str]) -> None:
    assert record(lambda: [pair(HardEvent[name]) for name in names], card, kind, mix=True) == []


def test_the_cube_core_of_350_has_no_mte3() -> None:
    names = ["MTE2_MTE3", "MTE3_MTE2", "MTE3_S", "S_MTE3", "MTE3_MTE1", "MTE1_MTE3"]
    assert record(lambda: [pair(HardEvent[name]) for name in names], "atlas_350", "aic") == []
    assert len(record(lambda: [pair(HardEvent[name]) for name in names], "atlas_a2", "aic")) == 12


def test_same_pipe_events_are_barriers() -> None:
    assert shown(record(lambda: pair(HardEvent.V_V))) == ["barrier V"]
    assert shown(record(lambda: pair(HardEvent.FIX_FIX), kind="aic")) == ["barrier FIX", "barrier FIX"]
    assert record(lambda: pair(HardEvent.V_V), "atlas_350") == []


@pytest.mark.parametrize("name", ["M_V", "V_M", "MTE1_V", "V_MTE1"])
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_events_without_a_wait_are_refused(card: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match="no wait"):
        record(lambda: sync.set_flag(HardEvent[name]), card, "aic")


def test_an_event_with_foreign_pipes_is_refused_with_a_hint() -> None:
    with pytest.raises(UnsupportedError, match="ascend_is_aic"):
        record(lambda: sync.set_flag(HardEvent.MTE1_FIX), "atlas_a2", "aiv", mix=True)


def test_scalar_events_of_a_cube_core_are_noted() -> None:
    rec = recorder("atlas_a2", "aic")
    assert len(record_on(rec, lambda: pair(HardEvent.S_MTE2))) == 2
    assert any("S_MTE2" in text for text, _ in rec.session.warnings)


@pytest.mark.parametrize("number", [-1, 8, True])
def test_event_ids_outside_their_range(number: int) -> None:
    with pytest.raises(ParameterError) as caught:
        record(lambda: sync.set_flag(HardEvent.MTE2_V, number))
    assert caught.value.field == "event_id"
    assert caught.value.allowed == "0..7"


def test_reserved_id_is_noted_and_recorded() -> None:
    rec = recorder()
    assert len(record_on(rec, lambda: pair(HardEvent.MTE2_V, 6))) == 2
    (note,) = rec.session.flag_notes
    assert (note.kind, note.event, note.ident, note.detail) == ("reserved-id", "MTE2_V", 6, "event id 6 is reserved")
    assert rec.session.warnings == {}


@pytest.mark.parametrize(("card", "kind", "pipe", "expected"), [
    ("atlas_a2", "aiv", PipeID.PIPE_V, ["barrier V"]),
    ("atlas_a2", "aiv", PipeID.PIPE_MTE3, ["barrier MTE3"]),
    ("atlas_a2", "aic", PipeID.PIPE_V, []),
    ("atlas_350", "aiv", PipeID.PIPE_V, []),
    ("atlas_350", "aic", PipeID.PIPE_MTE3, []),
    ("atlas_200i", "core", PipeID.PIPE_V, []),
    ("atlas_200i", "core", PipeID.PIPE_M, ["barrier M"]),
    ("atlas_a2", "aiv", PipeID.PIPE_M, []),
    ("atlas_a2", "aic", PipeID.PIPE_ALL, ["barrier all on S"]),
])  # fmt: skip
def test_barriers(card: str, kind: str, pipe: PipeID, expected: list[str]) -> None:
    assert shown(record(lambda: sync.pipe_barrier(pipe), card, kind)) == expected


@pytest.mark.parametrize("pipe", [PipeID.PIPE_S, PipeID.PIPE_MTE4])
def test_barriers_that_do_not_exist(pipe: PipeID) -> None:
    with pytest.raises(ParameterError) as caught:
        record(lambda: sync.pipe_barrier(pipe))
    assert caught.value.field == "pipe"


def test_tquesync_uses_the_hard_event_where_there_is_one() -> None:
    def body() -> None:
        order = sync.TQueSync(PipeID.PIPE_MTE2, PipeID.PIPE_V)
        order.set_flag(1)
        order.wait_flag(1)
        other = sync.TQueSync(PipeID.PIPE_S, PipeID.PIPE_FIX)
        other.set_flag(0)
        other.wait_flag(0)

    assert shown(record(body, "atlas_200i", "core")) == [
        "set MTE2_V 1 on MTE2", "wait MTE2_V 1 on V", "set S_FIX 0 on S", "wait S_FIX 0 on FIX",
    ]  # fmt: skip
    with pytest.raises(UnsupportedError):
        record(body, "atlas_a2", "aiv")


def test_event_numbers_are_unique_and_named() -> None:
    codes = {(a, b): event_code(a, b) for a in Pipe for b in Pipe if a is not b}
    assert len(set(codes.values())) == len(codes)
    assert all(event_name(code) == f"{a.name}_{b.name}" for (a, b), code in codes.items())
    assert reverse(HardEvent.MTE2_V) is HardEvent.V_MTE2


def test_pool_hands_out_the_lowest_free_id() -> None:
    pool = EventPools(8, "card")
    assert [pool.take(4) for _ in range(3)] == [0, 1, 2]
    pool.release(4, 1)
    assert (pool.lowest(4), pool.take(4), pool.take(4)) == (1, 1, 3)
    assert pool.take(5) == 0
    for _ in range(4):
        pool.take(4)
    with pytest.raises(CapacityError, match="MTE2_V"):
        pool.take(4)


# ---- between cores --------------------------------------------------------------------------------------------------
def cross(flag: int, mode: int, pipe: PipeID) -> None:
    sync.cross_core_set_flag(flag, mode, pipe)
    sync.cross_core_wait_flag(flag, mode, pipe)


def test_cross_core_wait_stops_issue_on_a2_and_one_pipe_on_350() -> None:
    old = record(lambda: cross(3, 2, PipeID.PIPE_MTE3), "atlas_a2", "aiv", mix=True)
    assert [(e.kind, e.pipe, e.arg) for e in old] == [
        (Kind.CROSS_SET, Pipe.MTE3, (3, 2)), (Kind.CROSS_WAIT, Pipe.S, (3, 2)),
    ]  # fmt: skip
    new = record(lambda: cross(3, 4, PipeID.PIPE_MTE3), "atlas_350", "aiv", mix=True)
    assert [e.pipe for e in new] == [Pipe.MTE3, Pipe.MTE3]


def test_set_on_a_pipe_the_350_cube_core_lacks_is_lost_with_a_note() -> None:
    rec = recorder("atlas_350", "aic", mix=True)
    assert record_on(rec, lambda: sync.cross_core_set_flag(0, 2, PipeID.PIPE_MTE3)) == []
    (note,) = rec.session.flag_notes
    assert (note.kind, note.api, note.ident) == ("dropped-flag", "CrossCoreSetFlag", 0)
    assert "MTE3 is not on this core" in note.detail


@pytest.mark.parametrize(("card", "flag", "mode", "pipe", "field"), [
    ("atlas_a2", 16, 2, PipeID.PIPE_MTE3, "flag_id"),
    ("atlas_a2", -1, 0, PipeID.PIPE_MTE3, "flag_id"),
    ("atlas_a2", 0, 4, PipeID.PIPE_MTE3, "mode_id"),
    ("atlas_350", 0, 3, PipeID.PIPE_MTE3, "mode_id"),
    ("atlas_350", 16, 4, PipeID.PIPE_MTE3, "flag_id"),
    ("atlas_a2", 0, 2, PipeID.PIPE_S, "pipe"),
    ("atlas_a2", 0, 2, PipeID.PIPE_ALL, "pipe"),
    ("atlas_a2", 0, 2, PipeID.PIPE_M, "pipe"),
])  # fmt: skip
def test_cross_core_mistakes(card: str, flag: int, mode: int, pipe: PipeID, field: str) -> None:
    with pytest.raises(ParameterError) as caught:
        record(lambda: sync.cross_core_set_flag(flag, mode, pipe), card, "aiv", mix=True)
    assert caught.value.field == field


def test_cross_core_ids_of_others_warn() -> None:
    rec = recorder("atlas_a2", "aiv", mix=True)
    record_on(rec, lambda: sync.cross_core_set_flag(12, 2, PipeID.PIPE_MTE3))
    assert any("12" in text for text, _ in rec.session.warnings)


@pytest.mark.parametrize("call", [
    lambda: sync.cross_core_set_flag(0, 0, PipeID.PIPE_MTE3),
    lambda: sync.cross_core_wait_flag(0),
    lambda: sync.sync_all(),
    lambda: sync.set_atomic_max(dtypes.float32),
    lambda: sync.set_atomic_add(dtypes.int8),
    lambda: sync.Mutex.lock(PipeID.PIPE_V, 0),
    lambda: sync.alloc_mutex_id(),
])  # fmt: skip
def test_what_200i_does_not_have(call: object) -> None:
    with pytest.raises(UnsupportedError):
        record(call, "atlas_200i", "core")  # type: ignore[arg-type]


def test_sync_all_drains_first() -> None:
    entries = record(lambda: sync.sync_all(), "atlas_a2", "aiv")
    assert [(e.kind, e.pipe) for e in entries] == [(Kind.BARRIER_ALL, Pipe.S), (Kind.SYNC_ALL, Pipe.S)]
    assert entries[1].arg == ("aiv", None)
    mixed = record(lambda: sync.sync_all(is_aiv_only=False), "atlas_a2", "aic", mix=True)
    assert mixed[1].arg == ("mix", None)
    assert [e.arg for e in record(lambda: sync.sync_all(False), "atlas_a2", "aic", mix=True)] == [e.arg for e in mixed]


def test_sync_all_of_vector_cores_on_a_cube_core() -> None:
    assert record(lambda: sync.sync_all(), "atlas_350", "aic", mix=True) == []
    assert len(record(lambda: sync.sync_all(), "atlas_a2", "aic", mix=True)) == 2


def test_sync_all_with_pipes() -> None:
    config = sync.SyncAllConfig(PipeID.PIPE_MTE3, PipeID.PIPE_MTE2)
    entries = record(lambda: sync.sync_all(config=config), "atlas_350", "aiv")
    assert [(e.kind, e.pipe, e.arg) for e in entries] == [
        (Kind.CROSS_SET, Pipe.MTE3, (14, 0)), (Kind.CROSS_WAIT, Pipe.MTE2, (14, 0)),
    ]  # fmt: skip
    with pytest.raises(UnsupportedError):
        record(lambda: sync.sync_all(config=config), "atlas_a2", "aiv")
    with pytest.raises(ParameterError):
        record(lambda: sync.sync_all(config=sync.SyncAllConfig(PipeID.PIPE_V)), "atlas_350", "aiv")


# ---- locks and atomics ----------------------------------------------------------------------------------------------
def test_locks_of_350() -> None:
    def body() -> None:
        first, second = sync.alloc_mutex_id(), sync.alloc_mutex_id()
        sync.Mutex.lock(PipeID.PIPE_MTE2, first)
        sync.Mutex.unlock(PipeID.PIPE_MTE2, first)
        sync.Mutex.lock(PipeID.PIPE_M, second)
        sync.release_mutex_id(first)
        assert (second, sync.alloc_mutex_id()) == (1, 0)

    assert shown(record(body, "atlas_350", "aiv")) == ["lock 0 on MTE2", "unlock 0 on MTE2"]
    with pytest.raises(ParameterError):
        record(lambda: sync.Mutex.lock(PipeID.PIPE_V, 28), "atlas_350", "aiv")


def test_atomics_hold_until_switched_off() -> None:
    rec = recorder("atlas_a2")
    seen: list[str] = []

    def body() -> None:
        sync.set_atomic_add(dtypes.float32)
        seen.append(rec.atomic)
        sync.set_atomic_max(dtypes.float16)
        seen.append(rec.atomic)
        sync.set_atomic_type(dtypes.int32)
        seen.append(rec.atomic)
        sync.set_atomic_none()
        seen.append(rec.atomic)

    assert record_on(rec, body) == []
    assert seen == ["add:float32", "max:float16", "max:int32", ""]


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int64, dtypes.uint32])
def test_atomic_types(dtype: dtypes.DataType) -> None:
    with pytest.raises(UnsupportedError) as caught:
        record(lambda: sync.set_atomic_add(dtype), "atlas_350")
    assert caught.value.field == "dtype"
