"""Rows of any length, added to a bias: data_copy_pad in and out, rows split unevenly over the cores, four types."""

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np


@asc.jit
def add_rows(x: asc.GlobalAddress, bias: asc.GlobalAddress, out: asc.GlobalAddress, rows: int, cols: asc.ConstExpr[int],
             per_core: int):
    idx = asc.get_block_idx()
    first = idx * per_core
    mine = per_core
    if first + per_core > rows:
        mine = rows - first
    x_gm = asc.GlobalTensor()
    b_gm = asc.GlobalTensor()
    o_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    b_gm.set_global_buffer(bias)
    o_gm.set_global_buffer(out)
    esize = x.dtype.sizeof()
    padded = (cols * esize + 31) // 32 * 32 // esize
    pipe = asc.TPipe()
    qx = asc.TQue(asc.TPosition.VECIN, 1)
    qo = asc.TQue(asc.TPosition.VECOUT, 1)
    bb = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(que=qx, num=2, len=padded * esize)
    pipe.init_buffer(que=qo, num=2, len=padded * esize)
    pipe.init_buffer(buf=bb, num=padded * esize)
    b = bb.get(x.dtype, padded)
    pad = asc.DataCopyPadExtParams(x.dtype, True, 0, padded - cols, 0)
    row = asc.DataCopyExtParams(1, cols * esize, 0, 0, 0)
    asc.data_copy_pad(b, b_gm, row, pad)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    for r in range(first, first + mine):
        t = qx.alloc_tensor(x.dtype)
        asc.data_copy_pad(t, x_gm[r * cols:], row, pad)
        qx.enque(t)
        t = qx.deque(x.dtype)
        o = qo.alloc_tensor(x.dtype)
        asc.add(o, t, b, padded)
        qo.enque(o)
        qx.free_tensor(t)
        o = qo.deque(x.dtype)
        asc.data_copy_pad(o_gm[r * cols:], o, row)
        qo.free_tensor(o)


def run(dtype, rows, cols, cores):
    rng = np.random.default_rng(3)
    x = (rng.random((rows, cols)) * 100).astype(dtype)
    b = (rng.random(cols) * 10).astype(dtype)
    out = np.full_like(x, 77)
    add_rows[cores, rt.current_stream()](x, b, out, rows, cols, (rows + cores - 1) // cores)
    assert np.array_equal(out, x + b), (dtype, np.argwhere(out != x + b)[:5])


config.set_platform(config.Backend.Model)
run(np.float32, 13, 37, 4)
run(np.float16, 9, 5, 3)
run(np.int32, 10, 100, 4)
run(np.int16, 7, 33, 7)
