"""A copy whose tiling comes in a Struct, nested in another; the last tile of a core reads past its array."""

import asc
import asc.runtime.config as config
import numpy as np
from asc.language.core.dtype import KnownTypes as KT
from asc.language.core.struct import Field, Struct, StructField


class Tile(Struct):
    length = Field(dtype=KT.int32, default=0)
    count = Field(dtype=KT.int32, default=0)


class Plan(Struct):
    share = Field(dtype=KT.int32, default=0)
    tile = StructField(Tile)


@asc.jit
def copy_through(x: asc.GlobalAddress, z: asc.GlobalAddress, plan: Plan):
    xs, zs = asc.GlobalTensor(), asc.GlobalTensor()
    xs.set_global_buffer(x + asc.get_block_idx() * plan.share)
    zs.set_global_buffer(z + asc.get_block_idx() * plan.share)
    pipe = asc.TPipe()
    que = asc.language.fwk.TQueBind(asc.TPosition.VECIN, asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que, 1, plan.tile.length * x.dtype.sizeof())
    for i in range(plan.tile.count):
        local = que.alloc_tensor(x.dtype)
        asc.data_copy(local, xs[i * plan.tile.length :], count=plan.tile.length)
        que.enque(local)
        local = que.deque(x.dtype)
        asc.data_copy(zs[i * plan.tile.length :], local, count=plan.tile.length)
        que.free_tensor(local)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model, check=False)
    x = np.arange(1000, dtype=np.int32)
    z = np.zeros_like(x)
    tile = Tile(length=64)
    tile.count = 8
    plan = Plan(tile=tile)
    plan.share = 500
    copy_through[2](x, z, plan)
    np.testing.assert_array_equal(z, x)
