"""Forms of the cube that only a whole run shows: both vector cores fed by one Fixpipe, scales beside L0A and L0B."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aicore_sim as asc


@asc.jit
def feed_both(a: asc.GlobalAddress, b: asc.GlobalAddress, out: asc.GlobalAddress, scaled: asc.ConstExpr) -> None:
    """C = A x B of 32 x 32 x 64 on the AIC; each AIV gets 16 rows into its UB and stores them."""
    a_gm, b_gm, out_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a)
    b_gm.set_global_buffer(b)
    out_gm.set_global_buffer(out)
    rows = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 512)
    if asc.ascend_is_aic():
        l1a = asc.LocalTensor(asc.fp8_e4m3fn, asc.TPosition.A1, 0, 2048)
        l1b = asc.LocalTensor(asc.fp8_e4m3fn, asc.TPosition.B1, 2048, 2048)
        a2 = asc.LocalTensor(asc.fp8_e4m3fn, asc.TPosition.A2, 0, 2048)
        b2 = asc.LocalTensor(asc.fp8_e4m3fn, asc.TPosition.B2, 0, 2048)
        c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 1024)
        asc.data_copy(l1a, a_gm, 2048)
        asc.data_copy(l1b, b_gm, 2048)
        asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.load_data(a2, l1a, asc.LoadData2DParamsV2(0, 0, 2, 2, 2, 2))
        asc.load_data(b2, l1b, asc.LoadData2DParamsV2(0, 0, 2, 2, 2, 2))
        asc.set_flag(asc.HardEvent.MTE1_M, 0)
        asc.wait_flag(asc.HardEvent.MTE1_M, 0)
        params = asc.MmadParams(32, 32, 64)
        if scaled:
            asc.mmad_mx(c, a2, b2, params)
        else:
            asc.mmad(c, a2, b2, params)
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
        store = asc.FixpipeParamsArch3510(32, 32, 32, 32, dual_dst_ctl=1)
        asc.fixpipe(rows, c, store, asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR, True))
        asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_FIX)
    if asc.ascend_is_aiv():
        asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE3)
        asc.data_copy(out_gm[int(asc.get_sub_block_idx()) * 512], rows, 512)


def nz(matrix: Any) -> Any:
    """32 x 64 in fractals of 16 x 32, columns of fractals first."""
    return matrix.reshape(2, 16, 2, 32).transpose(2, 0, 1, 3).reshape(-1)


@pytest.mark.parametrize("scaled", [False, True])
def test_one_fixpipe_feeds_two_vector_cores(scaled: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (32, 64)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    out = np.full(1024, 7, np.float32)
    asc.simulate(feed_both, nz(a), nz(b), out, scaled, card="atlas_350", blocks=1)
    product = a.astype(np.float64) @ b.astype(np.float64).T
    # memory starts as zeros: both scales are 2^-127, and what is left of the product rounds to 0
    np.testing.assert_array_equal(out.reshape(32, 32), 0 * product if scaled else product)


@asc.jit
def quantised_behind_mmad(a: asc.GlobalAddress, b: asc.GlobalAddress, words: asc.GlobalAddress, out: asc.GlobalAddress) -> None:
    """C of 64 x 256, drained 16 rows at a time by Fixpipes with a table that only unit flags order behind Mmad."""
    tensors = [asc.GlobalTensor() for _ in range(4)]
    for tensor, address in zip(tensors, (a, b, words, out), strict=True):
        tensor.set_global_buffer(address)
    l1a = asc.LocalTensor(asc.float16, asc.TPosition.A1, 0, 1024)
    l1b = asc.LocalTensor(asc.float16, asc.TPosition.B1, 2048, 4096)
    table = asc.LocalTensor(asc.uint64, asc.TPosition.A1, 16384, 256)
    a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, 1024)
    b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, 4096)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 64 * 256)
    for local, tensor, count in ((l1a, tensors[0], 1024), (l1b, tensors[1], 4096), (table, tensors[2], 256)):
        asc.data_copy(local, tensor, count)
    for event in (asc.HardEvent.MTE2_MTE1, asc.HardEvent.MTE2_FIX):
        asc.set_flag(event, 0)
        asc.wait_flag(event, 0)
    asc.load_data(a2, l1a, asc.LoadData2DParamsV2(0, 0, 4, 1, 4, 4))
    asc.load_data(b2, l1b, asc.LoadData2DParamsV2(0, 0, 16, 1, 16, 16))
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    store = asc.FixpipeParamsArch3510(256, 16, 64, 256, asc.QuantModes.VQF322B8_PRE, unit_flag=3)
    asc.mmad(c, a2, b2, asc.MmadParams(64, 256, 16, unit_flag=3))
    for part in range(4):
        asc.fixpipe(tensors[3][part * 16 * 256], c[part * 256], table, store)


def test_unit_flags_do_not_look_at_the_table() -> None:
    """The table is longer than the 16 rows of a block: taken for a place in L0C it would lower the flags of the next rows."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-3, 4, (64, 16)).astype(np.float16), rng.integers(-1, 2, (256, 16)).astype(np.float16)
    words = np.full(256, int(np.array(2.0, np.float32).view(np.uint32)) | 1 << 46, np.uint64)
    out = np.zeros((64, 256), np.int8)
    asc.simulate(quantised_behind_mmad, a.reshape(-1), b.reshape(-1), words, out, card="atlas_350", blocks=1)
    np.testing.assert_array_equal(out, np.clip(2 * (a.astype(np.int64) @ b.astype(np.int64).T), -128, 127))
