"""Launches of kernels: options of a call, cores that take part, what each block gets of the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import ParameterError

LINE = 16
"""int32 in a line of the scalar cache: cores that share a line overwrite one another's stores."""


@asc.jit
def who_am_i(out: asc.GlobalAddress) -> None:
    """Each vector core stores its group's number of vector cores in a cache line of its own."""
    if asc.ascend_is_aiv():
        o = asc.GlobalTensor()
        o.set_global_buffer(out)
        o.set_value(asc.get_block_idx() * LINE, 100 + asc.get_sub_block_num())
        asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, o)


@pytest.mark.parametrize(("options", "expected"), [
    ({}, [101, 101, 0, 0]),
    ({"kernel_type": asc.KernelType.MIX_AIC_1_1}, [101, 101, 0, 0]),
    ({"kernel_type": asc.KernelType.MIX_AIC_1_2}, [102, 102, 102, 102]),
    ({"kernel_type": asc.KernelType.AIC_ONLY}, [0, 0, 0, 0]),
])  # fmt: skip
def test_kernel_type_of_a_call(options: dict[str, Any], expected: list[int]) -> None:
    out = np.zeros(4 * LINE, np.int32)
    who_am_i[2](out, **options)
    assert out[::LINE].tolist() == expected


def test_options_of_a_call_leave_the_kernel_as_it_was() -> None:
    changed = who_am_i.with_options({"kernel_type": asc.KernelType.AIC_ONLY, "opt_level": 2})
    assert changed.kernel_type is asc.KernelType.AIC_ONLY
    assert changed.options == {"kernel_type": asc.KernelType.AIC_ONLY, "opt_level": 2}
    assert (who_am_i.kernel_type, who_am_i.options) == (None, {})
    assert who_am_i.with_options({}) is who_am_i


def _meet() -> None:
    asc.cross_core_set_flag(1, 0, asc.PipeID.PIPE_MTE3)
    asc.cross_core_wait_flag(1, 0, asc.PipeID.PIPE_MTE2)


@pytest.mark.parametrize(("kernel_type", "warned"), [
    (asc.KernelType.AIV_ONLY, True), (asc.KernelType.MIX_AIV_1_0, False),
])  # fmt: skip
def test_pure_kernels_have_no_cross_core_scheduler(kernel_type: asc.KernelType, warned: bool) -> None:
    run = asc.simulate(asc.jit(_meet, kernel_type=kernel_type), blocks=4, card="atlas_a2")
    assert any("no cross-core scheduler" in text for text, *_ in run.warnings) is warned


class Inner(asc.Struct):
    step = asc.Field(dtype=asc.int32, default=5)


class Plan(asc.Struct):
    start = asc.Field(dtype=asc.int32)
    inner = asc.StructField(Inner)


@asc.jit
def count_on(out: asc.GlobalAddress, plan: Plan) -> None:
    o = asc.GlobalTensor()
    o.set_global_buffer(out)
    plan.start = plan.start + plan.inner.step
    plan.inner.step = plan.inner.step * 2
    o.set_value(asc.get_block_idx() * LINE, plan.start)
    o.set_value(asc.get_block_idx() * LINE + 1, plan.inner.step)
    asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, o)


def test_every_block_has_its_own_copy_of_a_struct() -> None:
    out = np.zeros(60 * LINE, np.int32)
    plan = Plan(start=10)
    asc.simulate(count_on, out, plan, blocks=60, card="atlas_a2")  # more blocks than cores: some cores run two
    assert out.reshape(60, LINE)[:, :2].tolist() == [[15, 10]] * 60
    assert (plan.start, plan.inner.step) == (10, 5)


# ---- fractions are refused, not rounded -------------------------------------------------------------------------------
def _attempt(use: Any) -> ParameterError:
    def kernel(x: asc.GlobalAddress) -> None:
        xs = asc.GlobalTensor()
        xs.set_global_buffer(x)
        local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
        use(x, xs, local)

    with pytest.raises(ParameterError) as caught:
        asc.simulate(kernel, np.zeros(64, np.float32), card="atlas_a2")
    return caught.value


@pytest.mark.parametrize(("field", "use"), [
    ("index", lambda x, xs, local: xs[0.5]), ("index", lambda x, xs, local: xs[1.0:]),
    ("index", lambda x, xs, local: local[3 / 2]), ("offset", lambda x, xs, local: x + 8.0),
    ("index", lambda x, xs, local: local.get_value(1.5)), ("offset", lambda x, xs, local: xs.set_value(0.5, 1)),
    ("addr", lambda x, xs, local: asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 32.5, 8)),
    ("tile_size", lambda x, xs, local: asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 8.5)),
    ("size", lambda x, xs, local: local.set_size(1.5)),
    ("buffer_size", lambda x, xs, local: xs.set_global_buffer(x, 2.5)),
    ("len", lambda x, xs, local: asc.TPipe().init_buffer(asc.TQue(asc.TPosition.VECIN, 1), 2, 64 / 2)),
])  # fmt: skip
def test_a_fraction_is_no_index_and_no_size(field: str, use: Any) -> None:
    assert _attempt(use).field == field


def test_numpy_ints_and_run_time_ints_are_indices() -> None:
    def kernel(x: asc.GlobalAddress, n: int) -> None:
        xs = asc.GlobalTensor()
        xs.set_global_buffer(x + np.int64(8))
        local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, np.int32(0), n)
        asc.data_copy(local, xs[n - 56 :], n - 48)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(xs[np.uint8(40)], local[n / 8], np.int64(8))

    x = np.arange(64, dtype=np.float32)
    asc.simulate(kernel, x, 64, card="atlas_a2")
    assert x[48:56].tolist() == list(range(24, 32))


@pytest.mark.parametrize("mode", [{"quirks": "none"}, {"quirks": ["addr_mode"]}, {"wrap": "cut"}])
def test_unknown_readings_are_refused(mode: dict[str, Any]) -> None:
    with pytest.raises(asc.ParameterError) as caught:
        asc.simulate(lambda: None, **mode)
    assert caught.value.field in mode


def test_blocks_is_a_whole_number() -> None:
    for blocks in (1.5, "2", None):
        with pytest.raises(asc.ParameterError) as caught:
            asc.simulate(lambda: None, blocks=blocks)  # type: ignore[arg-type]
        assert caught.value.field == "blocks"
    assert asc.simulate(lambda: None, blocks=np.int64(2)).blocks == 2  # type: ignore[arg-type]


def test_read_only_arrays_may_be_read_but_not_written() -> None:
    def kernel(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
        source, target = asc.GlobalTensor(), asc.GlobalTensor()
        source.set_global_buffer(x)
        target.set_global_buffer(y)
        local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 8)
        asc.data_copy(local, source, 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(target, local, 8)

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    x.setflags(write=False)
    asc.simulate(kernel, x, y)
    assert y.tolist() == x.tolist()
    with pytest.raises(asc.ParameterError) as caught:
        asc.simulate(kernel, y + 1, x)
    assert caught.value.field == "y"
    assert x.tolist() == list(range(8))
