"""Numbers of a kernel: int division, remainders, casts, loops, branches, arrays; all of it written by the scalar unit."""

import asc
import asc.runtime.config as config
import numpy as np


@asc.jit
def divide(a: int, b: int):
    return a / b, a % b


@asc.jit
def pick(flag: int, low: int, high: int) -> int:
    return high if flag > 0 else low


@asc.jit
def collatz(value: int) -> int:
    count = asc.number(0, asc.int32)
    while value > 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = value * 3 + 1
        count = count + 1
    return count


@asc.jit
def scalars(out: asc.GlobalAddress, fout: asc.GlobalAddress, i: int, f: float, flag: bool, h: np.float16, w: np.int64,
            c: asc.ConstExpr[int], names: asc.ConstExpr):  # fmt: skip
    o = asc.GlobalTensor()
    o.set_global_buffer(out)
    fo = asc.GlobalTensor()
    fo.set_global_buffer(fout)
    q, r = divide(i, 4)
    o.set_value(0, q)
    o.set_value(1, r)
    o.set_value(2, i // 4)
    o.set_value(3, c // 4)
    o.set_value(4, pick(i, 10, 20))
    o.set_value(5, i.ceildiv(4) * 100 + asc.ceildiv(c, 4))
    o.set_value(6, w.cast(asc.int32) + i)
    o.set_value(7, ((i << 2) | 1) * 1000 + (i >> 1))
    o.set_value(8, asc.get_block_num() * 100 + asc.get_block_idx())
    o.set_value(9, asc.property(asc.ONE_BLK_SIZE))
    if (i < 0) and (c < 0):
        o.set_value(10, len(names))
    if flag == 1:
        o.set_value(11, collatz(27))
    table = asc.array(asc.int32, 4, 0)
    for k in range(6):
        table[k % 4] = table[k % 4] + k / 2 + (k - 1) % 2 * 10
    for k in range(4, 0, -1):
        table[0] = 99 + k
    for k in asc.static_range(4):
        o.set_value(12 + k, table[k])
    fo.set_value(0, f * 2)
    fo.set_value(1, f / 3)
    fo.set_value(2, h.cast(asc.float32))
    asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, dst=o, dcci_dst=asc.DcciDst.CACHELINE_OUT)
    asc.static_assert(c == -7)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model)
    out = np.zeros(16, np.int32)
    fout = np.zeros(8, np.float32)
    scalars[1](out, fout, -7, 1.5, True, np.float16(0.25), np.int64(1000), -7, ["a", "b"])
    # Run-time ints are divided as in C++, those of a ConstExpr as in Python.
    assert out.tolist()[:12] == [-1, -3, -1, -2, 10, -101, 993, -27004, 100, 32, 2, 111], out.tolist()
    # Rounds 0..5 add k / 2 and the remainder of k - 1, which is -1 in round 0; the loop downward does not run.
    assert out.tolist()[12:] == [-10 + 2 + 10, 0 + 2, 1 + 10, 1], out.tolist()
    assert fout[:3].tolist() == [3.0, 0.5, 0.25]
