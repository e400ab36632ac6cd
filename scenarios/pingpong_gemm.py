"""C = A x B^T on cube cores with ping-pong buffers in L1 and L0, every flag explicit and every pair of them droppable.

Each block computes `tiles` tiles of C, one below the other. A step loads a slab of A and of B into one half of L1, brings it to
the same half of L0A and L0B and multiplies it into L0C, of which there is one: Fixpipe stores it between two tiles. No unit
flags. A and B lie in GM as fractals (NZ, slab by slab), so that one copy brings a slab on every card. Event id = half.

`drop` leaves both the sets and the waits of one pair out:

MTE2_MTE1   L0 is loaded before the slab is in L1.
MTE1_MTE2   the slab after next overwrites one in L1 that has not gone to L0.
MTE1_M      Mmad multiplies before L0 is loaded.
M_MTE1      the slab after next overwrites one in L0 that has not been multiplied.
M_FIX       Fixpipe stores a tile that is not finished.
FIX_M       the next tile begins in L0C while the last one is stored.

With the default sizes all six give wrong numbers on A2, A3 and Atlas 350. On 200I memory brings slabs more slowly than anything
else works, so that MTE1_MTE2, M_MTE1 and FIX_M are missing without showing in the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, param

HALVES = 2
PAIRS = ("MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1", "M_FIX", "FIX_M")


@dataclass(frozen=True)
class Parameters:
    drop: str = param("none", "the pair of flags that is left out", ("none", *PAIRS))
    m: int = param(128, "rows of a tile of C, a multiple of 16")
    n: int = param(128, "columns of C, a multiple of 16")
    k: int = param(32, "depth of a slab, a multiple of 16")
    slabs: int = param(4, "slabs of a tile")
    tiles: int = param(3, "tiles of a block")
    blocks: int = param(1, "cube cores")


class Flags:
    """set and wait of every pair but the dropped one; on 200I by TQueSync, which its pages offer."""

    def __init__(self, drop: str) -> None:
        self.drop = drop
        self.syncs: dict[str, Any] = {}
        if asc.npu_arch() == 3002:
            for pair in PAIRS:
                self.syncs[pair] = asc.TQueSync(*(getattr(asc.PipeID, f"PIPE_{name}") for name in pair.split("_")))

    def set(self, event: Any, ident: int) -> None:
        if event.name == self.drop:
            return
        if self.syncs:
            self.syncs[event.name].set_flag(ident)
        else:
            asc.set_flag(event, ident)

    def wait(self, event: Any, ident: int) -> None:
        if event.name == self.drop:
            return
        if self.syncs:
            self.syncs[event.name].wait_flag(ident)
        else:
            asc.wait_flag(event, ident)


@asc.jit
def slab_to_l1(dst: Any, src: Any, fractals: int) -> None:
    """A slab is contiguous; on 200I only LoadData brings GM to L1."""
    if asc.npu_arch() == 3002:
        asc.load_data(dst, src, asc.LoadData2DParams(0, fractals, 1, 0, 0))
    else:
        asc.data_copy(dst, src, fractals * 256)


@asc.jit
def slab_to_l0(a2: Any, a1: Any, b2: Any, b1: Any, p: Any) -> None:
    """350: L1 and L0A are both NZ. Elsewhere L0A is ZZ, one call for a row of fractals. L0B is the bytes of L1 read as ZN."""
    rows, columns, depth = p.m // 16, p.n // 16, p.k // 16
    if asc.npu_arch() == 3510:
        asc.load_data(a2, a1, asc.LoadData2DParamsV2(0, 0, rows, depth, rows, rows))
        asc.load_data(b2, b1, asc.LoadData2DParamsV2(0, 0, columns, depth, columns, columns))
        return
    for i in range(rows):
        asc.load_data(a2[i * depth * 256], a1[i * 256], asc.LoadData2DParams(repeat_times=depth, src_stride=rows))
    asc.load_data(b2, b1, asc.LoadData2DParams(repeat_times=columns * depth, src_stride=1))


@asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
def gemm(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, p: asc.ConstExpr) -> None:
    flags = Flags(p.drop)
    block = int(asc.get_block_idx())
    a_gm, b_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a_gm.set_global_buffer(a + block * p.tiles * p.slabs * p.m * p.k)
    b_gm.set_global_buffer(b)
    c_gm.set_global_buffer(c + block * p.tiles * p.m * p.n)
    of_a, of_b = p.m * p.k, p.n * p.k
    a1 = [asc.LocalTensor(a.dtype, asc.TPosition.A1, h * of_a * 2, of_a) for h in range(HALVES)]
    b1 = [asc.LocalTensor(a.dtype, asc.TPosition.B1, (HALVES * of_a + h * of_b) * 2, of_b) for h in range(HALVES)]
    a2 = [asc.LocalTensor(a.dtype, asc.TPosition.A2, h * of_a * 2, of_a) for h in range(HALVES)]
    b2 = [asc.LocalTensor(a.dtype, asc.TPosition.B2, h * of_b * 2, of_b) for h in range(HALVES)]
    l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, p.m * p.n)
    store = asc.FixpipeParamsV220(p.n, p.m, p.m, p.n)
    small = (p.m // 16) * (p.n // 16) < 10
    for h in range(HALVES):  # all halves are free
        flags.set(asc.HardEvent.MTE1_MTE2, h)
        flags.set(asc.HardEvent.M_MTE1, h)
    flags.set(asc.HardEvent.FIX_M, 0)
    for step in range(p.tiles * p.slabs):
        h, slab = step % HALVES, step % p.slabs
        flags.wait(asc.HardEvent.MTE1_MTE2, h)
        slab_to_l1(a1[h], a_gm[step * of_a], of_a // 256)
        slab_to_l1(b1[h], b_gm[slab * of_b], of_b // 256)
        flags.set(asc.HardEvent.MTE2_MTE1, h)
        flags.wait(asc.HardEvent.MTE2_MTE1, h)
        flags.wait(asc.HardEvent.M_MTE1, h)
        slab_to_l0(a2[h], a1[h], b2[h], b1[h], p)
        flags.set(asc.HardEvent.MTE1_MTE2, h)
        flags.set(asc.HardEvent.MTE1_M, h)
        flags.wait(asc.HardEvent.MTE1_M, h)
        if slab == 0:
            flags.wait(asc.HardEvent.FIX_M, 0)
        elif small:
            asc.pipe_barrier(asc.PipeID.PIPE_M)  # so few fractals are not ordered by hardware
        asc.mmad(l0c, a2[h], b2[h], asc.MmadParams(p.m, p.n, p.k, unit_flag=0, cmatrix_init_val=slab == 0))
        flags.set(asc.HardEvent.M_MTE1, h)
        if slab == p.slabs - 1:
            flags.set(asc.HardEvent.M_FIX, 0)
            flags.wait(asc.HardEvent.M_FIX, 0)
            asc.fixpipe(c_gm[step // p.slabs * p.m * p.n], l0c, store)
            flags.set(asc.HardEvent.FIX_M, 0)
    for h in range(HALVES):  # take what nobody waited for
        flags.wait(asc.HardEvent.MTE1_MTE2, h)
        flags.wait(asc.HardEvent.M_MTE1, h)
    flags.wait(asc.HardEvent.FIX_M, 0)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small whole numbers, so that float32 is exact. A is [tile, slab, fractals of m x k], B [slab, fractals of n x k].

    Raises ConfigError for sizes that are no whole fractals or do not fit, CapacityError for more blocks than cores.
    """
    for name, unit in (("m", 16), ("n", 16), ("k", 16), ("slabs", 1), ("tiles", 1), ("blocks", 1)):
        value = getattr(p, name)
        if value < unit or value % unit:
            raise ConfigError(
                f"{name} does not fit", field=name, value=value, allowed=f"multiples of {unit}, >= {unit}"
            )
    needs = {"L0A": HALVES * p.m * p.k * 2, "L0B": HALVES * p.n * p.k * 2, "L0C": p.m * p.n * 4,
             "L1": HALVES * (p.m + p.n) * p.k * 2}  # fmt: skip
    for name, need in needs.items():
        room = int(card.value(f"buffers.{name}.size"))
        if need > room:
            raise ConfigError(f"the halves need {need} B of {name}", field="m" if name != "L0B" else "n", value=need,
                              allowed=f"<= {room} B", card=card.name)  # fmt: skip
    if max(p.m, p.n) * p.k // 256 > 255:
        raise ConfigError("a slab is loaded by one call of up to 255 fractals", field="k", value=p.k, allowed="less")
    if p.blocks > card.cubes:
        raise CapacityError("more blocks than cube cores", field="blocks", value=p.blocks, allowed=f"1..{card.cubes}",
                            card=card.name)  # fmt: skip
    rows = p.blocks * p.tiles
    shapes = ((rows, p.slabs, p.m * p.k), (p.slabs, p.n * p.k), (rows, p.m, p.n))
    if not data:
        types = (asc.float16, asc.float16, asc.float32)
        specs = tuple(GmSpec(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
        return Job(gemm, (*specs, p), p.blocks, dict(vars(p)))
    rng = np.random.default_rng(7)
    a = rng.integers(-4, 5, (rows, p.slabs, p.m, p.k)).astype(np.float16)
    b = rng.integers(-4, 5, (p.slabs, p.n, p.k)).astype(np.float16)
    expected = np.einsum("tsmk,snk->tmn", a.astype(np.float32), b.astype(np.float32))
    args = (_fractals(a).reshape(shapes[0]), _fractals(b).reshape(shapes[1]), np.zeros(shapes[2], np.float32))

    def expect(after: tuple[Any, ...]) -> bool:
        return np.array_equal(after[2], expected)

    return Job(gemm, (*args, p), p.blocks, dict(vars(p)), expect=expect)


def _fractals(slabs: Any) -> Any:
    """The last two axes as NZ."""
    flat = slabs.reshape(-1, *slabs.shape[-2:])
    return np.stack([to_layout(slab, "NZ", asc.half).view(np.float16).ravel() for slab in flat])
