"""y = exp(leaky_relu(x)) with fixed addresses, flags raised ahead and two stages; backend and SoC from the command line."""

import argparse

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np

CORES = 8
STAGES = 2


@asc.jit
def leaky_exp_kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, block_length: int, tile_length: asc.ConstExpr[int],
                     tile_num: asc.ConstExpr[int], slope: float):
    offset = asc.get_block_idx() * block_length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + offset, block_length)
    y_gm.set_global_buffer(y + offset, block_length)
    bytes_per_tile = tile_length * x.dtype.sizeof()
    x_local = asc.LocalTensor(dtype=x.dtype, pos=asc.TPosition.VECIN, addr=0, tile_size=tile_length * STAGES)
    y_local = asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, bytes_per_tile * STAGES, tile_length * STAGES)
    for e in asc.static_range(STAGES):
        asc.set_flag(asc.HardEvent.V_MTE2, e)
        asc.set_flag(asc.HardEvent.MTE3_V, e)
    for i in range(tile_num):
        s = i % STAGES
        src = x_local[s * tile_length:]
        dst = y_local[s * tile_length:]
        asc.wait_flag(asc.HardEvent.V_MTE2, s)
        asc.data_copy(src, x_gm[i * tile_length:], tile_length)
        asc.set_flag(asc.HardEvent.MTE2_V, s)
        asc.wait_flag(asc.HardEvent.MTE2_V, s)
        asc.wait_flag(asc.HardEvent.MTE3_V, s)
        asc.leaky_relu(dst, src, slope, tile_length)
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.exp(dst, dst, tile_length)
        asc.set_flag(asc.HardEvent.V_MTE2, s)
        asc.set_flag(asc.HardEvent.V_MTE3, s)
        asc.wait_flag(asc.HardEvent.V_MTE3, s)
        asc.data_copy(y_gm[i * tile_length:], dst, tile_length)
        asc.set_flag(asc.HardEvent.MTE3_V, s)
    for e in asc.static_range(STAGES):
        asc.wait_flag(asc.HardEvent.V_MTE2, e)
        asc.wait_flag(asc.HardEvent.MTE3_V, e)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", type=str, default="Model")
    parser.add_argument("-v", type=str, default=None)
    args = parser.parse_args()
    backend = config.Backend(args.r)
    soc = config.Platform(args.v) if args.v else None
    config.set_platform(backend, soc)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8 * 2048).astype(np.float16)
    y = np.zeros_like(x)
    leaky_exp_kernel[CORES, rt.current_stream()](x, y, 2048, 256, 8, 0.1)
    want = np.exp(np.where(x > 0, x, x * np.float16(0.1)).astype(np.float32))
    np.testing.assert_allclose(y, want, rtol=2e-3)


if __name__ == "__main__":
    main()
