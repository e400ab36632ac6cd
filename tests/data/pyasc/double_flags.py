"""y = 2 * x with fixed addresses and explicit flags; reads its size from the command line."""

import argparse

import asc
import asc.runtime.config as config
import numpy as np

BUFFERS = 2


@asc.jit(kernel_type=config.KernelType.AIV_ONLY)
def double(x: asc.GlobalAddress, y: asc.GlobalAddress, share: int):
    source, target = asc.GlobalTensor(), asc.GlobalTensor()
    source.set_global_buffer(x + asc.get_block_idx() * share)
    target.set_global_buffer(y + asc.get_block_idx() * share)
    tile = share // 4
    size = tile * x.dtype.sizeof()
    incoming = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, BUFFERS * tile)
    outgoing = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, BUFFERS * size, BUFFERS * tile)
    for i in asc.range(4):
        half = i % BUFFERS
        asc.data_copy(incoming[half * tile], source[i * tile :], tile)
        asc.set_flag(asc.HardEvent.MTE2_V, half)
        asc.wait_flag(asc.HardEvent.MTE2_V, half)
        asc.add(outgoing[half * tile :], incoming[half * tile :], incoming[half * tile :], tile)
        asc.set_flag(asc.HardEvent.V_MTE3, half)
        asc.wait_flag(asc.HardEvent.V_MTE3, half)
        asc.data_copy(target[i * tile :], outgoing[half * tile], tile)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, half)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, half)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=1024)
    parser.add_argument("-v", default="Ascend910_9391")
    given = parser.parse_args()
    config.set_platform("Model", config.Platform(given.v))
    x = np.arange(given.n, dtype=np.float16) % 100
    y = np.zeros_like(x)
    double[2](x, y, given.n // 2)
    raise SystemExit(0 if np.array_equal(y, 2 * x) else 5)
