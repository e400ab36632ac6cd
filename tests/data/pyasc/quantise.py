"""Half to int32 and back through float, two outputs, queues of depth 2 and a TBuf; three element types in one kernel."""

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np


@asc.jit
def quantise(x: asc.GlobalAddress, q: asc.GlobalAddress, back: asc.GlobalAddress, n: asc.ConstExpr[int],
             tile: asc.ConstExpr[int], scale: float):
    start = asc.get_block_idx() * n
    x_gm = asc.GlobalTensor()
    q_gm = asc.GlobalTensor()
    b_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + start)
    q_gm.set_global_buffer(q + start)
    b_gm.set_global_buffer(back + start)
    pipe = asc.TPipe()
    in_q = asc.TQue(asc.TPosition.VECIN, 2)
    out_q = asc.TQue(asc.TPosition.VECOUT, 2)
    out_b = asc.TQue(asc.TPosition.VECOUT, 2)
    tmp = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(in_q, 2, tile * asc.half.sizeof())
    pipe.init_buffer(out_q, 2, tile * asc.int32.sizeof())
    pipe.init_buffer(out_b, 2, tile * asc.half.sizeof())
    pipe.init_buffer(tmp, tile * asc.float32.sizeof())
    for i in asc.range(0, n // tile):
        load(in_q, x_gm[i * tile:], tile)
        work(in_q, out_q, out_b, tmp, tile, scale)
        store(out_q, q_gm[i * tile:], asc.int32, tile)
        store(out_b, b_gm[i * tile:], asc.half, tile)


@asc.jit
def load(que: asc.TQue, source: asc.GlobalTensor, tile: asc.ConstExpr[int]):
    t = que.alloc_tensor(source.dtype)
    asc.data_copy(t, source, count=tile)
    que.enque(t)


@asc.jit
def work(in_q: asc.TQue, out_q: asc.TQue, out_b: asc.TQue, tmp: asc.TBuf, tile: asc.ConstExpr[int], scale: float):
    x = in_q.deque(asc.half)
    q = out_q.alloc_tensor(asc.int32)
    b = out_b.alloc_tensor(asc.half)
    f = tmp.get(asc.float32)
    asc.cast(f, x, asc.RoundMode.CAST_NONE, tile)
    asc.muls(f, f, scale, tile)
    asc.cast(q, f, asc.RoundMode.CAST_RINT, tile)
    asc.cast(f, q, asc.RoundMode.CAST_NONE, tile)
    asc.muls(f, f, 1.0 / 16.0, tile)
    asc.cast(b, f, asc.RoundMode.CAST_NONE, tile)
    out_q.enque(q)
    out_b.enque(b)
    in_q.free_tensor(x)


@asc.jit
def store(que: asc.TQue, target: asc.GlobalTensor, dtype: asc.ConstExpr, tile: asc.ConstExpr[int]):
    t = que.deque(dtype)
    asc.data_copy(target, t, count=tile)
    que.free_tensor(t)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model, config.Platform.Ascend910B4)
    rng = np.random.default_rng(5)
    x = (rng.random(4096) * 8 - 4).astype(np.float16)
    q = np.empty(4096, np.int32)
    back = np.empty(4096, np.float16)
    quantise[4, rt.current_stream()](x, q, back, 1024, 256, 16.0)
    want = np.rint(x.astype(np.float32) * 16).astype(np.int32)
    assert np.array_equal(q, want)
    assert np.array_equal(back, (want / 16).astype(np.float16))
