"""Scalar accesses and the data cache as little simulations: who reads what, and what cures it.

Spec coherence.md 1 to 5, api_semantics.md 13, 14.9, 25.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim import dtypes
from aicore_sim.cards import load_card
from aicore_sim.engine.dcache import ScalarDCache
from aicore_sim.errors import AlignmentError, ConfigError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import ScalarWork
from aicore_sim.kernel.context import Recorder, Session, enter
from aicore_sim.kernel.enums import CacheLine, DcciDst, MemDsbT, TPosition
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.kernel.scalar import (
    data_cache_clean_and_invalid,
    data_sync_barrier,
    read_gm_by_pass_dcache,
    write_gm_by_pass_dcache,
)
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.memory import Buffer, GlobalMemory

LINE, WHOLE = CacheLine.SINGLE_CACHE_LINE, CacheLine.ENTIRE_DATA_CACHE


class Core:
    """One core that runs a kernel body step by step; it is the device its own scalar entries see."""

    def __init__(self, session: Session, kind: str = "aiv", cache_bytes: int = 1024) -> None:
        self.cache = ScalarDCache(cache_bytes, 64)
        self.misses = 0
        self.local = {"UB": Buffer("UB", 196608, uid=1, label="UB", data=session.data)} if kind != "aic" else {}
        self.ub = self.local.get("UB")
        self.session, self.kind = session, kind
        self.rec = self.recorder()
        self.entries: list[Entry] = []

    def recorder(self) -> Recorder:
        return Recorder(self.session, self.kind, 0, self.local, block_idx=0, block_num=1)

    def run(self, body: Callable[[], None]) -> None:
        """A whole kernel: the recording goes on whenever its last read has been answered."""
        self.rec = self.recorder()
        self.rec.start(body)
        answer = None
        while entries := self.rec.advance(answer):
            for entry in entries:
                self.entries.append(entry)
                if entry.kind is Kind.SCALAR:
                    answer = entry.arg(self)

    # ---- kernel.scalar.Device --------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, offset: int, nbytes: int) -> bytes:
        raw, hit = self.cache.load(buffer, offset, nbytes)
        self.misses += not hit
        return raw

    def store(self, buffer: Buffer, offset: int, data: bytes) -> None:
        self.misses += not self.cache.store(buffer, offset, data)

    def clean_line(self, buffer: Buffer, offset: int) -> None:
        self.cache.clean_invalidate_line(buffer, offset)

    def clean_all(self) -> None:
        self.cache.clean_invalidate_all()

    def uncached(self) -> None:
        self.misses += 1


class World:
    """Two vector cores over one GM array `x` of 64 words."""

    def __init__(self, dtype: str = "int32", card: str = "atlas_a2", data: bool = True, kind: str = "aiv") -> None:
        self.session = Session(load_card(card), GlobalMemory(data), data=data, auto_sync=False)
        self.dtype = dtypes.DataType(dtype)
        assert self.dtype.np_dtype is not None
        self.x = self.session.gm.place(np.arange(64).astype(self.dtype.np_dtype), "x")
        self.a, self.b = Core(self.session, kind), Core(self.session, kind)

    def tensor(self, start: int = 0) -> GlobalTensor:
        tensor = GlobalTensor()
        tensor.set_global_buffer(GlobalAddress(self.x, self.dtype) + start)
        return tensor

    @property
    def gm(self) -> Any:
        return self.x.bytes()[: self.x.size].view(self.dtype.np_dtype)


def store(world: World, index: int, value: int) -> Callable[[], None]:
    return lambda: world.tensor().set_value(index, value)


def load(world: World, index: int, into: list[Any]) -> Callable[[], None]:
    return lambda: into.append(world.tensor().get_value(index))


def clean(world: World, index: int = 0, entire: CacheLine = LINE) -> Callable[[], None]:
    return lambda: data_cache_clean_and_invalid(entire, world.tensor(index), DcciDst.CACHELINE_OUT)


# ---- coherence ------------------------------------------------------------------------------------------------------
def test_a_scalar_store_stays_in_the_cache_until_it_is_cleaned() -> None:
    world, seen = World(), []  # type: tuple[World, list[Any]]
    world.a.run(store(world, 3, 42))
    world.a.run(load(world, 3, seen))
    world.b.run(load(world, 3, seen))
    assert seen == [42, 3] and world.gm[3] == 3
    world.a.run(clean(world, 3))
    assert world.gm[3] == 42
    world.b.run(load(world, 3, seen))  # ordered and written back, yet the reader still holds the old line
    world.b.run(clean(world, 3))
    world.b.run(load(world, 3, seen))
    assert seen == [42, 3, 3, 42]


def test_false_sharing_loses_an_update() -> None:
    world = World()
    world.a.run(store(world, 0, 100))
    world.b.run(store(world, 1, 200))  # another word of the same 64 B line
    world.a.run(clean(world))
    assert list(world.gm[:2]) == [100, 1]
    world.b.run(clean(world))  # writes back all 64 bytes, the old word 0 among them
    assert list(world.gm[:2]) == [0, 200]


def test_one_line_for_each_writer_loses_nothing() -> None:
    world = World()
    world.a.run(store(world, 0, 100))
    world.b.run(store(world, 16, 200))
    world.a.run(clean(world))
    world.b.run(clean(world, 16))
    assert (world.gm[0], world.gm[16]) == (100, 200)


def test_a_line_filled_before_a_dma_store_later_overwrites_it() -> None:
    world = World()
    world.a.run(store(world, 0, 100))
    world.gm[4:8] = 77  # a copy out of UB to the same line
    world.a.run(clean(world))
    assert list(world.gm[:9]) == [100, 1, 2, 3, 4, 5, 6, 7, 8]
    other = World()
    other.a.run(store(other, 0, 100))
    other.a.run(clean(other))  # cleaned before the copy
    other.gm[4:8] = 77
    other.a.run(clean(other))
    assert list(other.gm[:9]) == [100, 1, 2, 3, 77, 77, 77, 77, 8]


def test_one_dcci_cleans_one_line() -> None:
    """api_semantics.md 14.9: 8 values of 8 B from byte 32: the first call reaches the first 4, a second one the rest."""
    world = World("uint64")

    def stores() -> None:
        for i in range(8):
            world.tensor(4).set_value(i, 1000 + i)

    world.a.run(stores)
    world.a.run(clean(world, 4))
    assert list(world.gm[4:12]) == [1000, 1001, 1002, 1003, 8, 9, 10, 11]
    world.a.run(clean(world, 8))
    assert list(world.gm[4:12]) == [1000 + i for i in range(8)]


def test_entire_cache_ignores_the_address() -> None:
    world = World()
    for index in (0, 20, 63):
        world.a.run(store(world, index, -index - 1))
    world.a.run(clean(world, 5, WHOLE))
    assert [world.gm[i] for i in (0, 20, 63)] == [-1, -21, -64]
    assert list(world.a.cache) == []


@pytest.mark.parametrize("target", [DcciDst.CACHELINE_OUT, DcciDst.CACHELINE_ALL])
def test_argument_orders_of_dcci(target: DcciDst) -> None:
    forms: list[Callable[[GlobalTensor], None]] = [
        lambda t: data_cache_clean_and_invalid(LINE, t),
        lambda t: data_cache_clean_and_invalid(LINE, t, target),
        lambda t: data_cache_clean_and_invalid(LINE, target, t),
        lambda t: data_cache_clean_and_invalid(entire_type=LINE, dcci_dst=target, dst=t),
        lambda t: data_cache_clean_and_invalid(LINE, t, dcci_dst=target),
    ]
    for form in forms:
        world = World()
        world.a.run(store(world, 0, 9))
        world.a.run(lambda form=form, world=world: form(world.tensor()))  # type: ignore[misc]
        assert world.gm[0] == 9


def test_dcci_for_ub_touches_no_gm_line() -> None:
    world = World()
    world.a.run(store(world, 0, 9))
    world.a.run(lambda: data_cache_clean_and_invalid(LINE, world.tensor(), DcciDst.CACHELINE_UB))
    world.a.run(lambda: data_cache_clean_and_invalid(LINE, LocalTensor(dtypes.int32, TPosition.VECIN, 0, 8)))
    assert world.gm[0] == 0 and len(world.a.cache.dirty_lines()) == 1
    world.a.run(lambda: data_cache_clean_and_invalid(WHOLE, LocalTensor(dtypes.int32, TPosition.VECIN, 0, 8)))
    assert world.gm[0] == 9


def test_accesses_past_the_cache() -> None:
    world, seen = World(), []  # type: tuple[World, list[Any]]

    def body() -> None:
        x = world.tensor()
        x.set_value(0, 5)
        seen.append(read_gm_by_pass_dcache(x))
        write_gm_by_pass_dcache(x, 6)
        seen.append(read_gm_by_pass_dcache(GlobalAddress(world.x, world.dtype)))
        seen.append(x.get_value(0))  # the existing line is not touched

    world.a.run(body)
    assert seen == [0, 6, 5] and world.gm[0] == 6


def test_a_clean_reader_sees_bypassing_stores() -> None:
    world, seen = World(), []  # type: tuple[World, list[Any]]
    world.b.run(load(world, 2, seen))
    world.a.run(lambda: write_gm_by_pass_dcache(world.tensor(2), -7))
    world.b.run(load(world, 2, seen))
    world.b.run(clean(world, 2))
    world.b.run(load(world, 2, seen))
    assert seen == [2, 2, -7]


# ---- recording ------------------------------------------------------------------------------------------------------
def test_only_reads_suspend_the_recording() -> None:
    world = World()
    steps: list[str] = []

    def body() -> None:
        x = world.tensor()
        x.set_value(0, 1)
        data_cache_clean_and_invalid(LINE, x)
        data_sync_barrier(MemDsbT.DDR)
        steps.append("asked")
        x.get_value(0)
        steps.append("answered")

    world.a.rec.start(body)
    entries = world.a.rec.advance()
    assert steps == ["asked"]
    assert [entry.kind for entry in entries] == [Kind.SCALAR] * 4
    assert [entry.op.cost for entry in entries if entry.op] == [
        ScalarWork("dcache_access"), ScalarWork("dcci_line"), ScalarWork("dsb"), ScalarWork("dcache_access"),
    ]  # fmt: skip
    ops = [entry.op for entry in entries]
    assert ops[0] is not None and (ops[0].writes, ops[0].reads, ops[0].through) == (((0, 0, 4),), (), "dcache")
    assert ops[3] is not None and (ops[3].writes, ops[3].reads) == ((), ((0, 0, 4),))
    assert entries[0].bufs == (world.x,) and entries[0].offs == (0,)
    assert world.a.rec.advance(1) == [] and steps == ["asked", "answered"]


def test_the_kernel_line_is_the_callers() -> None:
    world = World()

    def body() -> None:
        world.tensor().set_value(0, 1)
        data_sync_barrier(MemDsbT.ALL)

    world.a.run(body)
    first = body.__code__.co_firstlineno
    lines = [world.session.lines[entry.line] for entry in world.a.entries]
    assert [number - first for _, number in lines] == [1, 2]


# ---- UB -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", -5), ("uint8", 255), ("int16", -300), ("uint16", 65535), ("int32", -(2**31)), ("uint32", 2**32 - 1),
     ("int64", -(2**63)), ("uint64", 2**64 - 1), ("float16", 0.5), ("bfloat16", -3.0), ("float32", 1e30),
     ("fp8_e5m2", 1.5)],
)  # fmt: skip
def test_ub_values_come_back_in_their_type(dtype: str, value: float) -> None:
    world, seen = World(), []  # type: tuple[World, list[Any]]

    def body() -> None:
        tensor = LocalTensor(dtypes.DataType(dtype), TPosition.VECCALC, 64, 16)
        tensor.set_value(3, value)
        seen.append(tensor.get_value(3))
        seen.append(tensor[3].get_value(0))

    world.a.run(body)
    assert all(isinstance(v, float if isinstance(value, float) else int) for v in seen)
    assert [float(v) if isinstance(value, float) else int(v) for v in seen] == [
        float(np.float32(value)) if isinstance(value, float) else value
    ] * 2
    size = dtypes.DataType(dtype).bits // 8
    assert world.a.ub is not None and world.a.ub.shadow is not None
    marks = world.a.ub.shadow[64 : 64 + 16 * size]
    assert list(np.flatnonzero(marks)) == list(range(3 * size, 4 * size))


def test_nibbles() -> None:
    world, seen = World(), []  # type: tuple[World, list[Any]]

    def body() -> None:
        tensor = LocalTensor(dtypes.int4, TPosition.VECIN, 0, 16)
        for i, value in enumerate((-8, 7, 3, -1)):
            tensor.set_value(i, value)
        seen.extend(tensor.get_value(i) for i in range(4))

    world.a.run(body)
    assert seen == [-8, 7, 3, -1]
    assert world.a.ub is not None and list(world.a.ub.bytes()[:2]) == [0x78, 0xF3]


def test_an_aic_reads_zero_from_ub_and_drops_stores() -> None:
    world, seen = World(kind="aic"), []  # type: tuple[World, list[Any]]

    def body() -> None:
        tensor = LocalTensor(dtypes.float32, TPosition.VECIN, 0, 8)
        tensor.set_value(0, 5.0)
        seen.append(tensor.get_value(0))
        data_sync_barrier(MemDsbT.UB)

    world.a.run(body)
    assert seen == [0.0] and world.a.entries == []


def test_values_written_are_converted_to_the_element_type() -> None:
    world, seen = World("float16"), []  # type: tuple[World, list[Any]]

    def body() -> None:
        world.tensor().set_value(1, 0.1)
        seen.append(world.tensor().get_value(1))

    world.a.run(body)
    assert seen == [float(np.float16(0.1))]


# ---- errors ---------------------------------------------------------------------------------------------------------
def refused(world: World, body: Callable[[], object], kind: type) -> None:
    with pytest.raises(kind):
        world.a.run(lambda: (body(), None)[1])
    assert world.a.entries == [] and world.a.rec.program == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lambda w: w.tensor().get_value(64), OutOfBoundsError),
        (lambda w: w.tensor().get_value(-1), OutOfBoundsError),
        (lambda w: w.tensor().set_value(64, 0), OutOfBoundsError),
        (lambda w: w.tensor().set_value(0, 2**31), ParameterError),
        (lambda w: w.tensor().set_value(0, 0.5), ParameterError),
        (lambda w: w.tensor().set_value(0, "1"), ParameterError),
        (lambda w: LocalTensor(dtypes.int32, TPosition.VECIN, 0, 8).get_value(196608 // 4), OutOfBoundsError),
        (lambda w: LocalTensor(dtypes.int4, TPosition.VECIN, 0, 8).set_value(0, 8), ParameterError),
        (lambda w: LocalTensor(dtypes.int32, TPosition.A1, 0, 8).get_value(0), UnsupportedError),
        (lambda w: LocalTensor(dtypes.int32, TPosition.CO1, 0, 8).set_value(0, 1), UnsupportedError),
        (lambda w: data_cache_clean_and_invalid(LINE), ParameterError),
        (lambda w: data_cache_clean_and_invalid(LINE, w.tensor(), w.tensor()), ParameterError),
        (lambda w: data_cache_clean_and_invalid(LINE, DcciDst.CACHELINE_OUT), ParameterError),
        (lambda w: data_cache_clean_and_invalid(LINE, w.tensor(), DcciDst.CACHELINE_ATOMIC), UnsupportedError),
        (lambda w: data_cache_clean_and_invalid(LINE, w.tensor(5000)), OutOfBoundsError),
        (lambda w: data_sync_barrier(MemDsbT.SEQ), ParameterError),
        (lambda w: read_gm_by_pass_dcache(3), ParameterError),
        (lambda w: read_gm_by_pass_dcache(GlobalAddress(w.x, dtypes.float32)), UnsupportedError),
        (lambda w: write_gm_by_pass_dcache(w.tensor(), 2**31), ParameterError),
        (lambda w: read_gm_by_pass_dcache(GlobalAddress(w.x, dtypes.int32, 2)), AlignmentError),
    ],
)
def test_wrong_calls_record_nothing(body: Callable[[World], object], kind: type) -> None:
    world = World()
    refused(world, lambda: body(world), kind)


def test_200i_has_no_access_past_the_cache() -> None:
    world = World(card="atlas_200i", kind="core")
    refused(world, lambda: read_gm_by_pass_dcache(world.tensor()), UnsupportedError)


def test_without_data_stores_run_and_loads_are_refused() -> None:
    world = World(data=False)

    def body() -> None:
        world.tensor().set_value(0, 1)
        LocalTensor(dtypes.int32, TPosition.VECIN, 0, 8).set_value(0, 1)
        data_cache_clean_and_invalid(WHOLE, world.tensor())

    world.a.run(body)
    assert world.a.misses == 1 and world.a.cache.dirty_lines() == []
    for read in (lambda: world.tensor().get_value(0), lambda: LocalTensor(dtypes.int32, TPosition.VECIN, 0, 8).get_value(0)):
        with pytest.raises(ParameterError, match="no data in this run"):
            world.a.run(read)


def test_slack_behind_an_array_only_warns_where_asked() -> None:
    world = World()
    world.session.slack_is_warning = True
    world.a.run(store(world, 64, 1))
    assert len(world.session.warnings) == 1
    refused_at = 64 + 4096 // 4
    with pytest.raises(OutOfBoundsError):
        world.a.run(store(world, refused_at, 1))


def test_outside_a_kernel() -> None:
    previous = enter(None)
    try:
        with pytest.raises(RuntimeError):
            data_sync_barrier(MemDsbT.ALL)
    finally:
        enter(previous)


# ---- the cache itself -----------------------------------------------------------------------------------------------
def gm(values: Any) -> Buffer:
    return GlobalMemory().place(np.asarray(values, np.uint8), "x")


def test_least_recently_used_line_is_written_back_and_replaced() -> None:
    memory = gm(np.zeros(64 * 8))
    cache = ScalarDCache(64 * 3, 64)
    for line in range(3):
        assert not cache.store(memory, 64 * line, bytes([line + 1]))
    assert cache.load(memory, 0, 1) == (b"\x01", True)  # line 0 is young again
    assert not cache.store(memory, 64 * 5, b"\x09")
    assert list(memory.bytes()[[0, 64, 128]]) == [0, 2, 0]
    assert [line.offset for line in cache.dirty_lines()] == [0, 128, 320]
    assert cache.clean_invalidate_all() == 3
    assert list(memory.bytes()[[0, 64, 128, 320]]) == [1, 2, 3, 9]
    assert cache.clean_invalidate_all() == 0


def test_sets_replace_within_themselves() -> None:
    memory = gm(np.zeros(64 * 8))
    cache = ScalarDCache(64 * 4, 64, ways=2)  # lines 0, 2, 4 fall into one set
    for line in (0, 2, 4):
        cache.store(memory, 64 * line, b"\x07")
    assert [line.offset for line in cache] == [128, 256] and memory.bytes()[0] == 7
    assert cache.load(memory, 64, 1) == (b"\x00", False)
    assert len(list(cache)) == 3


def test_clean_invalidate_reports_and_drop_all_loses() -> None:
    memory = gm(range(256))
    cache = ScalarDCache(256, 64)
    assert not cache.clean_invalidate_line(memory, 3)
    cache.load(memory, 3, 1)
    assert not cache.clean_invalidate_line(memory, 3) and list(cache) == []
    cache.store(memory, 3, b"\xff")
    assert cache.clean_invalidate_line(memory, 63) and memory.bytes()[3] == 255
    cache.store(memory, 3, b"\x11")
    cache.drop_all()
    assert memory.bytes()[3] == 255 and list(cache) == []


def test_stored_bytes_and_hooks() -> None:
    memory = gm(range(256))
    fills: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []
    cache = ScalarDCache(256, 64, on_fill=lambda b, lo, hi: fills.append((lo, hi)),
                         on_write_back=lambda b, lo, hi: written.append((lo, hi)))  # fmt: skip
    cache.store(memory, 60, bytes(8))  # across two lines
    assert fills == [(0, 64), (64, 128)]
    assert [list(np.flatnonzero(line.stored)) for line in cache.dirty_lines()] == [[60, 61, 62, 63], [0, 1, 2, 3]]
    assert cache.load(memory, 58, 8) == (bytes([58, 59, 0, 0, 0, 0, 0, 0]), True)
    cache.clean_invalidate_all()
    assert written == [(0, 64), (64, 128)]


def test_the_last_line_is_cut_at_the_end_of_the_allocation() -> None:
    memory = Buffer("GM", 40, uid=-1, label="x", base=1 << 20, slack=10)
    cache = ScalarDCache(256, 64)
    cache.store(memory, 36, b"\x01\x02\x03\x04")
    assert cache.clean_invalidate_line(memory, 0)
    assert list(memory.bytes()) == [0] * 36 + [1, 2, 3, 4] + [0] * 10


def test_undefined_bytes_stay_undefined_through_the_cache() -> None:
    memory = gm(np.zeros(128))
    memory.mark_all()[8:16] = 0
    cache = ScalarDCache(256, 64)
    cache.store(memory, 8, b"\x01\x02")
    cache.clean_invalidate_all()
    assert memory.shadow is not None and list(np.flatnonzero(memory.shadow[:64] == 0)) == [10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize(("size", "line", "ways"), [(100, 64, 0), (32, 64, 0), (256, 64, 3), (256, 0, 0)])
def test_sizes_must_fit(size: int, line: int, ways: int) -> None:
    with pytest.raises(ConfigError):
        ScalarDCache(size, line, ways)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 300), st.integers(1, 9), st.booleans()), max_size=40))
def test_one_core_alone_always_sees_its_own_stores(steps: list[tuple[int, int, int, bool]]) -> None:
    """Whatever is replaced, cleaned or hit on the way: a single core reads what it last stored."""
    memory = GlobalMemory()
    buffers = [memory.place((np.arange(320) % m).astype(np.uint8), f"x{m}") for m in (251, 13)]
    truth = [buffer.bytes()[:320].copy() for buffer in buffers]
    cache = ScalarDCache(128, 64)
    for step, (which, offset, size, write) in enumerate(steps):
        size = min(size, 320 - offset)
        if write:
            data = bytes([(step * 7 + k) % 256 for k in range(size)])
            cache.store(buffers[which], offset, data)
            truth[which][offset : offset + size] = np.frombuffer(data, np.uint8)
        elif step % 5 == 0:
            cache.clean_invalidate_line(buffers[which], offset)
        else:
            assert cache.load(buffers[which], offset, size)[0] == truth[which][offset : offset + size].tobytes()
    cache.clean_invalidate_all()
    assert all(np.array_equal(buffer.bytes()[:320], kept) for buffer, kept in zip(buffers, truth, strict=True))
