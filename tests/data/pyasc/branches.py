"""The first words of a parameter array decide what each core does; one core looks at elements in UB and writes some."""

import asc
import asc.runtime.config as config
import numpy as np


@asc.jit
def choose(cmd: asc.GlobalAddress, x: asc.GlobalAddress, y: asc.GlobalAddress, n: asc.ConstExpr[int]):
    idx = asc.get_block_idx()
    cmd_gm = asc.GlobalTensor()
    cmd_gm.set_global_buffer(cmd)
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + idx * n)
    y_gm.set_global_buffer(y + idx * n)
    op = cmd_gm.get_value(idx)
    x_local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    y_local = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, n * 4, n)
    asc.data_copy(x_local, x_gm, n)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    if op == 0:
        asc.adds(y_local, x_local, 1.0, n)
    elif op == 1:
        asc.muls(y_local, x_local, 2.0, n)
    else:
        asc.duplicate(y_local, 0.0, n)
        asc.set_flag(asc.HardEvent.V_S, 0)
        asc.wait_flag(asc.HardEvent.V_S, 0)
        asc.set_flag(asc.HardEvent.MTE2_S, 0)
        asc.wait_flag(asc.HardEvent.MTE2_S, 0)
        best = x_local.get_value(0)
        for k in range(1, 8):
            v = x_local.get_value(k)
            if v > best:
                y_local.set_value(k, v)
        asc.set_flag(asc.HardEvent.S_MTE3, 0)
        asc.wait_flag(asc.HardEvent.S_MTE3, 0)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, y_local, n)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model)
    cmd = np.array([0, 1, 2, 1], dtype=np.int32)
    x = np.arange(256, dtype=np.float32)
    y = np.zeros(256, dtype=np.float32)
    choose[4](cmd, x, y, 64)
    x4 = x.reshape(4, 64)
    want = x4.copy()
    want[0] += 1
    want[1] *= 2
    want[2] = 0
    want[2, 1:8] = x4[2, 1:8]
    want[3] *= 2
    assert np.array_equal(y.reshape(4, 64), want)
