"""Three launches on slices of arrays, the last one on the results of the others: streams, atomics, options of jit."""

import asc
import asc.lib.runtime as rt
import numpy as np
from asc.runtime import config


@asc.jit
def scale(x: asc.GlobalAddress, y: asc.GlobalAddress, n: int, k: float):
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x + asc.get_block_idx() * n)
    y_gm.set_global_buffer(y + asc.get_block_idx() * n)
    t = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, n)
    asc.data_copy(t, x_gm, n)
    asc.set_flag(asc.HardEvent.MTE2_V)
    asc.wait_flag(asc.HardEvent.MTE2_V)
    asc.muls(t, t, k, n)
    asc.set_flag(asc.HardEvent.V_MTE3)
    asc.wait_flag(asc.HardEvent.V_MTE3)
    asc.data_copy(y_gm, t, n)


@asc.jit(auto_sync=False, opt_level=2)
def sum_blocks(x: asc.GlobalAddress, total: asc.GlobalAddress, n: asc.ConstExpr[int]):
    x_gm, t_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x + asc.get_block_idx() * n)
    t_gm.set_global_buffer(total)
    pipe = asc.TPipe()
    que = asc.TQueBind(asc.TPosition.VECIN, asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que, 1, n * 4)
    t = que.alloc_tensor(x.dtype)
    asc.data_copy(t, x_gm, n)
    que.enque(t)
    t = que.deque(x.dtype)
    asc.set_atomic_add(x.dtype)
    asc.data_copy(t_gm, t, n)
    asc.set_atomic_none()
    que.free_tensor(t)


config.set_platform(config.Backend("NPU"), device_id=0)
stream = rt.create_stream()
whole = np.arange(4 * 512, dtype=np.float32)
a, b = whole[:1024], whole[1024:]
out = np.zeros(2048, np.float32)
scale[4, rt.current_stream()](a, out[:1024], 256, 3.0)
scale[4, stream](b, out[1024:], 256, 0.5)
rt.synchronize(stream)
rt.destroy_stream(stream)
assert np.array_equal(out[:1024], a * 3) and np.array_equal(out[1024:], b * np.float32(0.5))
total = np.zeros(256, np.float32)
sum_blocks[8](out, total, 256)
assert np.array_equal(total, out.reshape(8, 256).sum(0)), total
