"""relu6 with `from asc import *`: max, min and abs are those of the kernel language; LocalMemAllocator."""

# ruff: noqa: F403, F405
import asc.runtime.config as config
import numpy as np
from asc import *


@jit
def relu6(x: GlobalAddress, y: GlobalAddress, n: ConstExpr[int]):
    gx = GlobalTensor()
    gy = GlobalTensor()
    off = get_block_idx() * n
    gx.set_global_buffer(x + off)
    gy.set_global_buffer(y + off)
    alloc = LocalMemAllocator()
    a = alloc.alloc(TPosition.VECIN, x.dtype, n)
    b = alloc.alloc(TPosition.VECOUT, x.dtype, n)
    c = alloc.alloc(TPosition.VECCALC, x.dtype, n)
    zero = alloc.alloc(TPosition.VECCALC, x.dtype, n)
    data_copy(a, gx, n)
    set_flag(HardEvent.MTE2_V, 0)
    wait_flag(HardEvent.MTE2_V, 0)
    duplicate(zero, 0.0, n)
    duplicate(c, 6.0, n)
    max(b, a, zero, n)
    min(b, b, c, n)
    abs(b, b, n)
    set_flag(HardEvent.V_MTE3, 0)
    wait_flag(HardEvent.V_MTE3, 0)
    data_copy(gy, b, n)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model)
    x = np.linspace(-10, 10, 512).astype(np.float32)
    y = np.zeros_like(x)
    relu6[2](x, y, 256)
    np.testing.assert_array_equal(y, np.clip(x, 0, 6))
