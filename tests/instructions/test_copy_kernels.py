"""Copies of the family in whole kernels: that they are priced, ordered by flags and carry the right bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import OutOfBoundsError, ParameterError
from aicore_sim.kernel.kind import kernel_kind
from tests.stage import Place, Stage, noise

N, D = 6, 48


@asc.jit
def there_and_back(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    """Row-major to NZ in UB and back."""
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, N * D)
    asc.data_copy(ub, x_gm, asc.Nd2NzParams(1, N, D, 0, D, N, 1, 0))
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y_gm, ub, asc.Nz2NdParamsFull(1, N, D, 1, N, D, 1))


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_to_nz_and_back(card: str) -> None:
    x = np.arange(N * D, dtype=np.float16)
    y = np.zeros_like(x)
    for data in (True, False):
        run = asc.simulate(there_and_back, x, y, card=card, data=data)
        assert run.time_us > 0
    assert np.array_equal(y, x)
    assert kernel_kind(there_and_back) == "aiv", "Nd2NzParams alone does not make it a kernel of the cube"


@asc.jit
def looped(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    """Gathers every other row of 32 B by loop mode and slices the result back out."""
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 512)
    asc.set_loop_mode_para(asc.LoopModeParams(4, 2, 64, 32, 512, 128), asc.DataCopyMVType.OUT_TO_UB)
    asc.data_copy(ub, x_gm, 16)
    asc.reset_loop_mode_para(asc.DataCopyMVType.OUT_TO_UB)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    whole, rows = [asc.SliceInfo(0, 15, 0, 1, 16), asc.SliceInfo(0, 7, 0, 1, 8)], asc.SliceInfo(0, 14, 1, 1, 16)
    asc.data_copy(y_gm, ub, [whole[0], rows], whole, 2)


def test_loop_mode_in_a_kernel() -> None:
    x = np.arange(2 * 16 * 16, dtype=np.float16)
    y = np.zeros(16 * 16, np.float16)
    asc.simulate(looped, x, y, card="atlas_350")
    picked = x.reshape(2, 16, 16)[:, 0:8:2].reshape(8, 16)
    assert np.array_equal(y.reshape(16, 16)[0::2], picked)
    assert not y.reshape(16, 16)[1::2].any()


@asc.jit
def with_bias(x: asc.GlobalAddress, bias: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    """A product of zeros plus a half bias, which becomes float on its way into BT."""
    x_gm, bias_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    bias_gm.set_global_buffer(bias)
    y_gm.set_global_buffer(y)
    a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, 0, 256)
    c1 = asc.LocalTensor(asc.float16, asc.TPosition.C1, 512, 32)
    a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, 256)
    b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, 512)
    bt = asc.LocalTensor(asc.float32, asc.TPosition.C2, 0, 32)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 512)
    asc.data_copy(a1, x_gm, 256)
    asc.data_copy(c1, bias_gm, 32)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.load_data(a2, a1, asc.LoadData2DParams(repeat_times=1, src_stride=1))
    asc.load_data(b2, a1, asc.LoadData2DParams(repeat_times=1, src_stride=1))
    asc.load_data(b2[256], a1, asc.LoadData2DParams(repeat_times=1, src_stride=1))
    asc.data_copy(bt, c1, 32)
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    asc.mmad(c, a2, b2, bt, asc.MmadParams(16, 32, 16, unit_flag=0, cmatrix_source=True, cmatrix_init_val=False))
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(y_gm, c, asc.FixpipeParamsV220(32, 16, 16, 32))


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3"])
def test_a_bias_of_halves(card: str) -> None:
    bias = (np.arange(32) / 8 - 2).astype(np.float16)
    y = np.zeros(512, np.float32)
    asc.simulate(with_bias, np.zeros(256, np.float16), bias, y, card=card)
    assert np.array_equal(y.reshape(16, 32), np.tile(bias.astype(np.float32), (16, 1)))


# ---- mistakes that people make --------------------------------------------------------------------------------------
def test_a_signed_stride_kept_in_an_unsigned_variable() -> None:
    """-508 B moves back 508 B on 950; as 32 unsigned bits it points 4 GB ahead (spec pitfalls.md P09)."""
    pad = asc.DataCopyPadExtParams(asc.float16)
    stage = Stage("atlas_350", {"src": Place("GM", "half", noise(516)), "dst": Place("VECIN", "half", 1088)})
    params = asc.DataCopyExtParams(2, 512, -508)
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], params, pad))
    src, dst = stage.bytes("src"), stage.bytes("dst")
    assert np.array_equal(dst[:512], src[:512])
    assert np.array_equal(dst[512:1024], src[4:516])
    wrapped = replace(params, src_stride=4294966788)
    stage.refuses(lambda: asc.data_copy_pad(stage["dst"], stage["src"], wrapped, pad), OutOfBoundsError)
    old = Stage("atlas_a2", {"src": Place("GM", "half", noise(516)), "dst": Place("VECIN", "half", 1088)})
    old.refuses(lambda: asc.data_copy_pad(old["dst"], old["src"], params, pad), ParameterError, "src_stride")


def test_rows_of_ub_that_are_no_whole_blocks() -> None:
    """The second row of [2, 9] halves lies 32 B on, not 18 (spec pitfalls.md P11)."""
    stage = Stage("atlas_a2", {"src": Place("GM", "half", noise(36)), "dst": Place("VECIN", "half", 64)})
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], asc.DataCopyExtParams(2, 18),
                                         asc.DataCopyPadExtParams(asc.float16)))  # fmt: skip
    assert np.array_equal(stage.bytes("dst")[32:50], stage.bytes("src")[18:])
    assert any("32 B apart" in text for text in stage.warnings)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
def test_a_stride_of_one_block_far_outside_the_tensor(card: str) -> None:
    """One block does not use it, but it is a mistake (spec pitfalls.md P08)."""
    stage = Stage(card, {"src": Place("GM", "half", noise(64)), "dst": Place("VECIN", "half", 64)})
    stage.call(lambda: asc.data_copy_pad(stage["dst"], stage["src"], asc.DataCopyExtParams(1, 64, 2**30),
                                         asc.DataCopyPadExtParams(asc.float16)))  # fmt: skip
    assert np.array_equal(stage.bytes("dst"), stage.bytes("src"))
    assert any("outside the tensor" in text for text in stage.warnings)
