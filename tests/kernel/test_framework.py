"""TPipe, TQue, TBuf: memory, ids and what the four calls record, from the tables of the framework's description."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim import dtypes
from aicore_sim.errors import AlignmentError, CapacityError, DeadlockError, ParameterError, UnsupportedError
from aicore_sim.kernel import framework, sync
from aicore_sim.kernel.allocator import LocalMemAllocator
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.kernel.auto_tensor import LocalTensorAuto
from aicore_sim.kernel.context import Recorder
from aicore_sim.kernel.enums import HardEvent, Hardware, TPosition
from aicore_sim.kernel.framework import TBuf, TBufPool, TPipe, TQue, TQueBind, get_tpipe_ptr
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from tests.kernel.kernel_recording import record, record_on, recorder, shown

F16, F32 = dtypes.float16, dtypes.float32


def queue(position: TPosition = TPosition.VECIN, depth: int = 1, num: int = 1, length: int = 256) -> TQue:
    """A queue with memory; makes the TPipe if there is none."""
    try:
        pipe = get_tpipe_ptr()
    except RuntimeError:
        pipe = TPipe()
    made = TQue(position, depth)
    pipe.init_buffer(made, num, length)
    return made


def cycle(q: TQue) -> None:
    """One buffer through all four calls."""
    tensor = q.alloc_tensor(F16)
    q.enque(tensor)
    q.free_tensor(q.deque(F16))


# ---- memory ---------------------------------------------------------------------------------------------------------
def test_buffers_follow_one_another_rounded_to_blocks() -> None:
    def body() -> None:
        pipe = TPipe()
        first, second, scratch = TQue(TPosition.VECIN, 2), TQue(TPosition.VECOUT, 1), TBuf(TPosition.VECCALC)
        pipe.init_buffer(que=first, num=2, len=100)
        pipe.init_buffer(buf=scratch, num=33)
        pipe.init_buffer(second, 1, 64)
        places = [first.alloc_tensor(F16), first.alloc_tensor(F16), scratch.get(F16), second.alloc_tensor(F32)]
        assert [t.offset for t in places] == [0, 128, 256, 320]
        assert [t.get_size() for t in places] == [64, 64, 32, 16]
        assert [t.position for t in places] == [TPosition.VECIN, TPosition.VECIN, TPosition.VECCALC, TPosition.VECOUT]
        assert pipe.get_base_addr(TPosition.VECIN) == 384

    record(body)


def test_each_physical_buffer_has_its_own_pointer() -> None:
    def body() -> None:
        a, b, left = queue(TPosition.A1, length=512), queue(TPosition.B1, length=512), queue(TPosition.A2, length=512)
        assert [q.alloc_tensor(F16).offset for q in (a, b, left)] == [0, 512, 0]
        assert [q.alloc_tensor(F16).kind for q in (queue(TPosition.CO1), queue(TPosition.C2), queue(TPosition.B2))] == [
            "L0C", "BT", "L0B",
        ]  # fmt: skip

    record(body, kind="aic")


@pytest.mark.parametrize(("card", "limit"), [("atlas_a2", 188160), ("atlas_350", 253952)])
def test_ub_capacity_is_what_the_framework_leaves(card: str, limit: int) -> None:
    def fill(extra: int) -> None:
        queue(length=limit - 1024 + extra)
        queue(TPosition.VECOUT, num=2, length=512)

    assert record(lambda: fill(0), card) == []
    with pytest.raises(CapacityError) as caught:
        record(lambda: fill(32), card)
    text = str(caught.value)
    assert str(limit) in text and str(limit + 32) in text and "TQue<VECIN, 1>" in text


def test_other_buffers_count_in_full() -> None:
    assert len(record(lambda: queue(TPosition.CO1, length=131072), kind="aic")) == 3
    with pytest.raises(CapacityError):
        record(lambda: queue(TPosition.CO1, length=131073), kind="aic")


def test_sixty_four_buffers_are_the_most() -> None:
    record(lambda: [queue(num=8, length=32) for _ in range(8)])
    with pytest.raises(CapacityError, match="64"):
        record(lambda: [queue(num=13, length=32) for _ in range(5)])


@pytest.mark.parametrize(("args", "kwargs"), [
    ((), {}), ((1, 2, 3), {}), (("q", 1), {}), (("q",), {"num": 1}), (("q", 1, 2, 3), {}), (("q", 0, 32), {}),
    (("q", 1, 0), {}), (("q", 1, 32), {"size": 3}),
])  # fmt: skip
def test_forms_init_buffer_does_not_have(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def body() -> None:
        TPipe().init_buffer(*[TQue(TPosition.VECIN, 1) if a == "q" else a for a in args], **kwargs)

    with pytest.raises(ParameterError):
        record(body)


def test_tbuf_views() -> None:
    def body() -> None:
        queue(length=64)
        buf = TBuf(TPosition.VECCALC)
        get_tpipe_ptr().init_buffer(buf, 128)
        assert (buf.get(F32).get_size(), buf.get(F32, 8).get_size()) == (32, 8)
        part = buf.get_with_offset(16, 64, F16)
        assert (part.offset, part.get_size()) == (128, 16)
        again = buf.alloc_tensor(dtypes.uint8)
        assert (again.offset, again.get_size()) == (64, 128)
        buf.free_tensor(again)
        for bad in (lambda: buf.get(F32, 33), lambda: buf.get_with_offset(4, 16, F32)):
            with pytest.raises(ParameterError):
                bad()

    assert record(body) == []


# ---- events ---------------------------------------------------------------------------------------------------------
QUEUES = [
    ("aiv", TPosition.VECIN, "MTE2", "V"), ("aiv", TPosition.VECOUT, "V", "MTE3"),
    ("aiv", TPosition.VECCALC, "MTE2", "MTE3"), ("aic", TPosition.A1, "MTE2", "MTE1"),
    ("aic", TPosition.B1, "MTE2", "MTE1"), ("aic", TPosition.C1, "MTE2", "MTE1"), ("aic", TPosition.A2, "MTE1", "M"),
    ("aic", TPosition.B2, "MTE1", "M"), ("aic", TPosition.C2, "MTE1", "M"),
    ("aic", TPosition.C2PIPE2GM, "MTE1", "FIX"), ("aic", TPosition.CO1, "M", "FIX"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "position", "producer", "consumer"), QUEUES)
def test_events_of_a_position(kind: str, position: TPosition, producer: str, consumer: str) -> None:
    def body() -> None:
        q = queue(position)
        cycle(q)
        cycle(q)

    ready, free = f"{producer}_{consumer}", f"{consumer}_{producer}"
    first = 3 if position in (TPosition.A2, TPosition.B2, TPosition.C2) else 0
    round_trip = [f"set {ready} 0 on {producer}", f"wait {ready} 0 on {consumer}", f"set {free} {first} on {consumer}"]
    taken = [f"set M_MTE1 {i} on M" for i in range(3)] if kind == "aic" else []
    assert shown(record(body, kind=kind)) == [*taken, *round_trip, f"wait {free} {first} on {producer}", *round_trip]


@pytest.mark.parametrize(("kind", "src", "dst", "ready", "memory"), [
    ("aiv", TPosition.VECIN, TPosition.VECOUT, "MTE2_MTE3", "UB"), ("aic", TPosition.GM, TPosition.A2, "MTE2_M", "L0A"),
    ("aic", TPosition.GM, TPosition.B2, "MTE2_M", "L0B"),
])  # fmt: skip
def test_bound_queues(kind: str, src: TPosition, dst: TPosition, ready: str, memory: str) -> None:
    def body() -> None:
        pipe = TPipe()
        q = TQueBind(src, dst, 1)
        pipe.init_buffer(q, 1, 512)
        tensor = q.alloc_tensor(F16)
        assert tensor.kind == memory
        q.enque(tensor)

    assert shown(record(body, kind=kind))[-1] == f"set {ready} 0 on {ready.split('_')[0]}"


def test_positions_without_a_queue() -> None:
    for make, args in ((TQueBind, (TPosition.GM, TPosition.CO1)), (TQue, (TPosition.GM, 1)), (TBuf, (TPosition.CO2,))):
        with pytest.raises(UnsupportedError):
            record(functools.partial(make, *args))


def test_double_buffer_waits_only_when_a_buffer_comes_back() -> None:
    def body() -> None:
        q = queue(depth=2, num=2)
        for _ in range(3):
            cycle(q)

    lines = shown(record(body))
    assert [line for line in lines if line.startswith("wait V_MTE2")] == ["wait V_MTE2 0 on MTE2"]
    assert lines.index("wait V_MTE2 0 on MTE2") == 6
    assert lines[2] == "set V_MTE2 0 on V" and lines[5] == "set V_MTE2 1 on V"


def test_ids_belong_to_the_event_not_to_the_queue() -> None:
    def body() -> None:
        x, y = queue(), queue()
        a, b = x.alloc_tensor(F16), y.alloc_tensor(F16)
        x.enque(a)
        y.enque(b)
        y.deque(F16)
        z = queue()
        z.enque(z.alloc_tensor(F16))

    assert shown(record(body)) == [
        "set MTE2_V 0 on MTE2", "set MTE2_V 1 on MTE2", "wait MTE2_V 1 on V", "set MTE2_V 1 on MTE2",
    ]  # fmt: skip


def test_explicit_positions_name_their_own_event() -> None:
    def body() -> None:
        q = queue()
        q.enque(q.alloc_tensor(F16), TPosition.VECIN, TPosition.VECOUT)
        tensor = q.deque(F16, TPosition.VECIN, TPosition.VECOUT)
        with pytest.raises(ParameterError):
            q.enque(tensor, TPosition.A1, TPosition.VECIN)

    assert shown(record(body)) == ["set MTE2_MTE3 0 on MTE2", "wait MTE2_MTE3 0 on MTE3"]


def test_a_ring_of_more_than_eight_buffers_runs_out_of_ids() -> None:
    def body() -> None:
        q = queue(depth=9, num=9, length=32)
        for _ in range(9):
            q.enque(q.alloc_tensor(F16))

    with pytest.raises(CapacityError, match="MTE2_V"):
        record(body)
    assert len(record(body, "atlas_350")) == 18


def test_alloc_without_a_free_buffer_is_a_deadlock() -> None:
    def body() -> None:
        q = queue(depth=2, num=2)
        q.enque(q.alloc_tensor(F16))
        q.alloc_tensor(F16)
        q.alloc_tensor(F16)

    with pytest.raises(DeadlockError) as caught:
        record(body)
    assert "TQue<VECIN, 2>" in str(caught.value)
    assert "1 buffers wait for DeQue, 1 for FreeTensor" in "\n".join(caught.value.cycle)
    assert caught.value.file == __file__


def test_wrong_use_of_buffers() -> None:
    def twice() -> None:
        q = queue()
        tensor = q.alloc_tensor(F16)
        q.free_tensor(tensor)
        q.free_tensor(tensor)

    def foreign() -> None:
        q, other = queue(), queue()
        other.enque(q.alloc_tensor(F16))

    def queued() -> None:
        q = queue()
        tensor = q.alloc_tensor(F16)
        q.enque(tensor)
        q.free_tensor(tensor)

    for body in (twice, foreign, queued, lambda: queue().deque(F16), lambda: (TPipe(), TQue().alloc_tensor(F16)),
                 lambda: queue().free_tensor(LocalTensor(F16)), lambda: queue().alloc_tensor(3)):  # fmt: skip
        with pytest.raises(ParameterError):
            record(body)


def test_counters_of_a_queue() -> None:
    def body() -> None:
        q = queue(depth=2, num=2)
        assert (q.get_tensor_count_in_que(), q.vacant_in_que(), q.has_tensor_in_que(), q.has_idle_buffer()) == (
            0, True, False, True,
        )  # fmt: skip
        q.enque(q.alloc_tensor(F16))
        q.enque(q.alloc_tensor(F16))
        assert (q.get_tensor_count_in_que(), q.vacant_in_que(), q.has_tensor_in_que(), q.has_idle_buffer()) == (
            2, False, True, False,
        )  # fmt: skip
        q.free_tensor(q.deque(F16))
        assert q.has_idle_buffer()
        q.free_all_event()

    assert shown(record(body))[-2:] == ["set V_MTE2 0 on V", "wait V_MTE2 0 on MTE2"]


def test_depth_zero_works_in_place_with_the_same_ids() -> None:
    def body() -> None:
        q = queue(depth=0)
        tensor = LocalTensor(F32)
        for _ in range(2):
            q.alloc_tensor(tensor)
            q.enque(tensor)
            q.deque(tensor)
            q.free_tensor(tensor)
        assert tensor.get_size() == 64
        with pytest.raises(UnsupportedError):
            q.has_tensor_in_que()

    one = ["wait V_MTE2 0 on MTE2", "set MTE2_V 0 on MTE2", "wait MTE2_V 0 on V", "set V_MTE2 0 on V"]
    assert shown(record(body)) == ["set V_MTE2 0 on V", *one, *one]


CALLS = st.lists(st.sampled_from(["alloc", "enque", "deque", "free"]), max_size=40)


@given(CALLS, st.integers(1, 3), st.integers(1, 4))
def test_any_legal_use_balances_its_flags(calls: list[str], depth: int, num: int) -> None:
    """Whatever the order of calls: no id is set twice without a wait between, and the destructor leaves nothing set."""
    rec = recorder()

    def body() -> None:
        q = queue(depth=depth, num=num)
        held: dict[str, list[LocalTensor]] = {"alloc": [], "deque": []}
        for call in calls:
            if call == "alloc" and q.has_idle_buffer():
                held["alloc"].append(q.alloc_tensor(F16))
            elif call == "enque" and held["alloc"] and q.vacant_in_que():
                q.enque(held["alloc"].pop(0))
            elif call == "deque" and q.has_tensor_in_que():
                held["deque"].append(q.deque(F16))
            elif call == "free" and held["deque"]:
                q.free_tensor(held["deque"].pop(0))
        while q.has_tensor_in_que():
            held["deque"].append(q.deque(F16))
        for tensor in held["deque"]:
            q.free_tensor(tensor)
        framework.finish(rec)

    up: set[str] = set()
    for line in shown(record_on(rec, body)):
        verb, event, number, *_ = f"{line} - -".split()
        if verb == "set":
            assert f"{event} {number}" not in up
            up.add(f"{event} {number}")
        elif verb == "wait":
            up.remove(f"{event} {number}")
    assert not up


# ---- 350: buffer locks ----------------------------------------------------------------------------------------------
def test_vector_queues_of_350_use_locks() -> None:
    def body() -> None:
        q, out = queue(num=2, depth=2), queue(TPosition.VECOUT)
        cycle(q)
        cycle(out)
        cycle(q)
        assert sync.alloc_mutex_id() == 3

    def turn(number: int, producer: str, consumer: str) -> list[str]:
        return [f"{verb} {number} on {pipe}" for pipe in (producer, consumer) for verb in ("lock", "unlock")]

    assert shown(record(body, "atlas_350")) == [*turn(0, "MTE2", "V"), *turn(2, "V", "MTE3"), *turn(1, "MTE2", "V")]


def test_cube_queues_of_350_use_events() -> None:
    lines = shown(record(lambda: cycle(queue(TPosition.A1)), "atlas_350", "aic"))
    assert lines[3:] == ["set MTE2_MTE1 0 on MTE2", "wait MTE2_MTE1 0 on MTE1", "set MTE1_MTE2 0 on MTE1"]


def test_locks_run_out_at_28_buffers() -> None:
    record(lambda: queue(num=28, length=32), "atlas_350")
    with pytest.raises(CapacityError, match="lock"):
        record(lambda: queue(num=29, length=32), "atlas_350")


# ---- life of a TPipe ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "kind", "count"), [
    ("atlas_a2", "aic", 3), ("atlas_a2", "aiv", 0), ("atlas_350", "aic", 3), ("atlas_350", "aiv", 0),
    ("atlas_200i", "core", 3),
])  # fmt: skip
def test_constructor_and_destructor(card: str, kind: str, count: int) -> None:
    rec = recorder(card, kind)

    def body() -> None:
        TPipe()
        framework.finish(rec)

    assert shown(record_on(rec, body)) == [
        *[f"set M_MTE1 {i} on M" for i in range(count)], *[f"wait M_MTE1 {i} on MTE1" for i in range(count)],
        "barrier all on S",
    ]  # fmt: skip


def test_destructor_drains_free_buffers_only() -> None:
    rec = recorder()

    def body() -> None:
        q = queue(depth=2, num=3)
        cycle(q)
        q.alloc_tensor(F16)
        framework.finish(rec)

    assert shown(record_on(rec, body))[-2:] == ["wait V_MTE2 0 on MTE2", "barrier all on S"]


def test_one_tpipe_at_a_time() -> None:
    def again() -> None:
        TPipe().destroy()
        TPipe()

    record(again)
    with pytest.raises(RuntimeError, match="already"):
        record(lambda: [TPipe(), TPipe()])
    with pytest.raises(RuntimeError, match="no TPipe"):
        record(get_tpipe_ptr)


def test_a_kernel_without_tpipe_ends_silently() -> None:
    rec = recorder()
    assert record_on(rec, lambda: framework.finish(rec)) == []


def test_reset_gives_memory_and_ids_back() -> None:
    def body() -> None:
        q = queue(length=1024)
        cycle(q)
        get_tpipe_ptr().reset()
        assert queue(length=64).alloc_tensor(F16).offset == 0
        assert get_tpipe_ptr().alloc_event_id(HardEvent.V_MTE2) == 0

    assert "wait V_MTE2 0 on MTE2" in shown(record(body))


def test_event_ids_of_the_kernel() -> None:
    def body() -> None:
        pipe = TPipe()
        assert [pipe.fetch_event_id(HardEvent.V_S) for _ in range(2)] == [0, 0]
        assert [pipe.alloc_event_id(HardEvent.V_S) for _ in range(2)] == [0, 1]
        pipe.release_event_id(0, HardEvent.V_S)
        assert framework.fetch_event_id(HardEvent.V_S) == 0
        assert framework.alloc_event_id(HardEvent.M_MTE1) == 3

    record(body, kind="aic")


def test_tpipe_switches_atomics_off() -> None:
    rec = recorder()

    def body() -> None:
        sync.set_atomic_add(F32)
        TPipe()
        assert rec.atomic == ""

    record_on(rec, body)


def test_buffer_pools_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        record(lambda: TBufPool(TPosition.VECIN))


# ---- mix kernels ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_queues_of_the_other_core_only_keep_books(card: str) -> None:
    def body() -> None:
        q = queue(TPosition.VECIN, depth=2, num=2)
        first = q.alloc_tensor(F16)
        assert not first.here
        q.enque(first)
        assert q.has_tensor_in_que()
        q.free_tensor(q.deque(F16))
        TBuf(TPosition.VECCALC)

    assert shown(record(body, card, "aic", mix=True)) == [f"set M_MTE1 {i} on M" for i in range(3)]


# ---- allocator and automatic tensors --------------------------------------------------------------------------------
def test_allocator_advances_by_exactly_what_was_asked() -> None:
    def body() -> None:
        memory = LocalMemAllocator()
        first = memory.alloc(TPosition.VECIN, F32, 16)
        second = memory.alloc(TPosition.VECCALC, F16, 32)
        assert (first.offset, second.offset, memory.get_cur_addr()) == (0, 64, 128)
        memory.alloc(TPosition.VECIN, F16, 3)
        with pytest.raises(AlignmentError):
            memory.alloc(TPosition.VECIN, F16, 16)
        with pytest.raises(ParameterError):
            memory.alloc(TPosition.A1, F16, 16)
        with pytest.raises(CapacityError):
            LocalMemAllocator(Hardware.UB).alloc(TPosition.VECIN, F32, 50000)

    assert record(body) == []


def gm(rec: Recorder, elements: int) -> GlobalTensor:
    tensor = GlobalTensor()
    buffer = rec.session.gm.allocate(elements * 4, "x")
    tensor.set_global_buffer(GlobalAddress(buffer, F32))
    return tensor


def test_automatic_tensors_are_ordered_by_flags() -> None:
    rec = recorder()

    def body() -> None:
        source, target = gm(rec, 64), gm(rec, 64)
        for _ in range(2):
            tile = LocalTensorAuto(F32, 64)
            data_copy(tile, source, count=64)
            data_copy(target, tile, count=64)
        framework.finish(rec)

    turn = ["DataCopy on MTE2", "set MTE2_MTE3 0 on MTE2", "wait MTE2_MTE3 0 on MTE3", "DataCopy on MTE3"]
    between = ["set MTE3_MTE2 0 on MTE3", "wait MTE3_MTE2 0 on MTE2"]
    assert shown(record_on(rec, body)) == [*turn, *between, *turn, "barrier all on S"]


def test_automatic_tensors_have_a_tile_for_each_line() -> None:
    def body() -> None:
        for _ in range(3):
            a = LocalTensorAuto(F32, (4, 5))
            b = LocalTensorAuto(F32, 8)
            assert (a.offset, b.offset, a.get_size()) == (0, 96, 20)

    record(body)
    with pytest.raises(CapacityError):
        record(lambda: LocalTensorAuto(F32, 188160 // 4 + 1))


def test_an_automatic_tensor_ends_with_its_round() -> None:
    rec = recorder()

    def body() -> None:
        target = gm(rec, 64)
        kept = [LocalTensorAuto(F32, 64) for _ in range(2)]
        data_copy(target, kept[1], count=64)
        data_copy(target, kept[0], count=64)

    with pytest.raises(UnsupportedError, match="round of the loop"):
        record_on(rec, body)


def test_a_destroyed_pipe_starts_anew_with_init() -> None:
    def body() -> None:
        pipe = TPipe()
        q = TQue(TPosition.VECIN, 1)
        for _ in range(2):
            pipe.destroy()
            pipe.init()
            assert get_tpipe_ptr() is pipe
            pipe.init_buffer(q, 1, 256)
            cycle(q)
            pipe.reset()
            with pytest.raises(ParameterError, match="no memory"):
                q.alloc_tensor(F32)
        pipe.destroy()
        other = TPipe()
        with pytest.raises(RuntimeError, match="already has a TPipe"):
            pipe.init()
        assert get_tpipe_ptr() is other

    freed = [line for line in shown(record(body)) if "V_MTE2" in line]
    assert freed == ["set V_MTE2 0 on V", "wait V_MTE2 0 on MTE2"] * 2  # each reset drains the free event of its round


def test_recording_is_repeatable() -> None:
    def body() -> None:
        q, out = queue(depth=2, num=2), queue(TPosition.VECOUT, 2, 2)
        for _ in range(5):
            cycle(q)
            cycle(out)

    assert shown(record(body)) == shown(record(body))
    assert np.array_equal([e.line for e in record(body)], [e.line for e in record(body)])
