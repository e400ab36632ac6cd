"""z = x + 3 * y in tiles, with TPipe and queues; the tile functions are jit functions of their own."""

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np

CORES = 4
DEPTH = 2


@asc.jit
def scale_add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, share: asc.ConstExpr[int],
              tile: asc.ConstExpr[int]):  # fmt: skip
    start = asc.get_block_idx() * share
    xs, ys, zs = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    xs.set_global_buffer(x + start, share)
    ys.set_global_buffer(y + start, share)
    zs.set_global_buffer(z + start, share)
    pipe = asc.TPipe()
    left = asc.TQue(asc.TPosition.VECIN, DEPTH)
    right = asc.TQue(asc.TPosition.VECIN, DEPTH)
    result = asc.TQue(asc.TPosition.VECOUT, DEPTH)
    for que in (left, right, result):
        pipe.init_buffer(que=que, num=DEPTH, len=tile * x.dtype.sizeof())
    for i in range(share // tile):
        load(i, xs, left, tile)
        load(i, ys, right, tile)
        combine(left, right, result, xs.dtype, tile)
        store(i, zs, result, tile)


@asc.jit
def load(i: int, source: asc.GlobalTensor, que: asc.TQue, tile: asc.ConstExpr[int]):
    local = que.alloc_tensor(source.dtype)
    asc.data_copy(local, source[i * tile :], count=tile)
    que.enque(local)


@asc.jit
def combine(left: asc.TQue, right: asc.TQue, result: asc.TQue, dtype: asc.ConstExpr, tile: asc.ConstExpr[int]):
    a = left.deque(dtype)
    b = right.deque(dtype)
    c = result.alloc_tensor(dtype)
    asc.muls(c, b, 3.0, tile)
    asc.add(c, c, a, tile)
    result.enque(c)
    left.free_tensor(a)
    right.free_tensor(b)


@asc.jit
def store(i: int, target: asc.GlobalTensor, que: asc.TQue, tile: asc.ConstExpr[int]):
    local = que.deque(target.dtype)
    asc.data_copy(target[i * tile :], local, count=tile)
    que.free_tensor(local)


def launch(x, y, tile):
    z = np.zeros_like(x)
    scale_add[CORES, rt.current_stream()](x, y, z, x.size // CORES, tile)
    return z


def test_scale_add(backend, platform):
    config.set_platform(backend, platform)
    rng = np.random.default_rng(7)
    x, y = rng.random(4096, np.float32), rng.random(4096, np.float32)
    np.testing.assert_array_equal(launch(x, y, 256), x + np.float32(3) * y)


if __name__ == "__main__":
    test_scale_add(config.Backend.Model, config.Platform.Ascend910B3)
