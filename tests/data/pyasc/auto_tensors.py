"""z = x + y[0] with LocalTensorAuto: no flag, queue or address anywhere."""

import asc
import asc.runtime.config as config
import numpy as np


@asc.jit(insert_sync=True)
def shift(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, tile: asc.ConstExpr[int],
          rounds: asc.ConstExpr[int]):  # fmt: skip
    start = asc.get_block_idx() * tile * rounds
    xs, ys, zs = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    xs.set_global_buffer(x + start)
    ys.set_global_buffer(y)
    zs.set_global_buffer(z + start)
    for i in range(rounds):
        a = asc.LocalTensorAuto(x.dtype, tile)
        b = asc.LocalTensorAuto(x.dtype, 8)
        asc.data_copy(a, xs[i * tile :], count=tile)
        asc.data_copy(b, ys, count=8)
        spread = asc.LocalTensorAuto(x.dtype, tile)
        asc.duplicate(spread, b.get_value(0), tile)
        asc.add(a, a, spread, tile)
        asc.data_copy(zs[i * tile :], a, count=tile)


if __name__ == "__main__":
    config.set_platform(config.Backend.NPU)
    rng = np.random.default_rng(1)
    x, y = rng.random(2048, np.float32), rng.random(8, np.float32)
    z = np.zeros_like(x)
    shift[4](x, y, z, 128, 4)
    np.testing.assert_array_equal(z, x + y[0])
