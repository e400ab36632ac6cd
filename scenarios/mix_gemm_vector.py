"""Cube and vector cores on one result, D = P^2 + work P with P = A x B^T, handed over through GM or straight from L0C into UB.

A 1:2 mix: each AIC multiplies `tiles` tiles, its two AIVs take half the rows of each. They meet in cross-core flags:

ready   the AIC says that a product has been handed over (set behind Fixpipe, waited for before it is read).
free    the AIVs say that its slot has been read (set behind the read, waited for before the next Fixpipe into the slot).

way=gm  Fixpipe stores into a workspace in GM, the AIVs load from it (A2, A3, Atlas 350).
way=ub  Fixpipe stores the upper half of the rows into the UB of one AIV and the lower one into that of the other, where V works
        on it in place of a copy (Atlas 350).

`drop` leaves both the sets and the waits of one flag out. Without ready the AIVs read slots that are not written. Without free
the AIC overtakes them, since they have more to do than it: products are overwritten before they are read, in part or whole.
Both give wrong numbers with the default sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, param

IDS = {"ready": 0, "free": 1}
"""Cross-core flag ids."""
MODE = 2
"""AIC with both of its AIVs."""


@dataclass(frozen=True)
class Parameters:
    way: str = param("gm", "how a product reaches the vector cores", ("gm", "ub"))
    drop: str = param("none", "the cross-core flag that is left out", ("none", "ready", "free"))
    m: int = param(64, "rows of a tile, a multiple of 32")
    n: int = param(64, "columns, a multiple of 16")
    k: int = param(32, "depth, a multiple of 16")
    tiles: int = param(6, "tiles of a block, 1 to 15")
    slots: int = param(2, "products under way at a time")
    work: int = param(10, "how often an AIV adds the product to its square")
    blocks: int = param(1, "AI Cores (one AIC and two AIVs each)")


class Flags:
    """The cross-core flags by name, without the dropped one."""

    def __init__(self, drop: str) -> None:
        self.drop = drop

    def set(self, name: str, pipe: Any) -> None:
        if name != self.drop:
            asc.cross_core_set_flag(IDS[name], MODE, pipe)

    def wait(self, name: str, pipe: Any) -> None:
        if name != self.drop:
            asc.cross_core_wait_flag(IDS[name], MODE, pipe)


@asc.jit
def cube_side(a: Any, b: Any, work: Any, p: Any) -> None:
    """The AIC: all of A and B into L1 once, then tile by tile through L0 into the next slot."""
    flags = Flags(p.drop)
    rows, columns, depth, size = p.m // 16, p.n // 16, p.k // 16, p.m * p.k
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, p.tiles * size)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, p.tiles * size * 2, p.n * p.k)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, size)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, p.n * p.k)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, p.m * p.n)
    product = asc.MmadParams(p.m, p.n, p.k, unit_flag=0, cmatrix_init_val=True)
    asc.data_copy(b1, b, asc.Nd2NzParams(1, p.n, p.k, 0, p.k, p.n, 1, 0))
    for tile in range(p.tiles):
        asc.data_copy(a1[tile * size], a[tile * size], asc.Nd2NzParams(1, p.m, p.k, 0, p.k, p.m, 1, 0))
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    if asc.npu_arch() == 3510:
        asc.load_data(b2, b1, asc.LoadData2DParamsV2(0, 0, columns, depth, columns, columns))
    else:
        asc.load_data(b2, b1, asc.LoadData2DParams(repeat_times=columns * depth, src_stride=1))
    for tile in range(p.tiles):
        if tile > 0:
            asc.wait_flag(asc.HardEvent.M_MTE1, 0)  # L0A has been multiplied
        if asc.npu_arch() == 3510:
            asc.load_data(a2, a1[tile * size], asc.LoadData2DParamsV2(0, 0, rows, depth, rows, rows))
        else:
            for i in range(rows):
                asc.load_data(a2[i * depth * 256], a1[tile * size + i * 256],
                              asc.LoadData2DParams(repeat_times=depth, src_stride=rows))  # fmt: skip
        asc.set_flag(asc.HardEvent.MTE1_M, 0)
        asc.wait_flag(asc.HardEvent.MTE1_M, 0)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.FIX_M, 0)  # L0C has been stored
        asc.mmad(c, a2, b2, product)
        if tile < p.tiles - 1:
            asc.set_flag(asc.HardEvent.M_MTE1, 0)
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
        if tile >= p.slots:
            flags.wait("free", asc.PipeID.PIPE_FIX)  # both AIVs have read what this slot held
        hand_over(work, c, tile % p.slots, p)
        flags.set("ready", asc.PipeID.PIPE_FIX)
        if tile < p.tiles - 1:
            asc.set_flag(asc.HardEvent.FIX_M, 0)
    for _ in range(min(p.slots, p.tiles)):
        flags.wait("free", asc.PipeID.PIPE_FIX)  # leave the counter at 0


@asc.jit
def hand_over(work: Any, c: Any, slot: int, p: Any) -> None:
    """Fixpipe of one product, row by row."""
    if p.way == "gm":
        asc.fixpipe(work[slot * p.m * p.n], c, asc.FixpipeParamsV220(p.n, p.m, p.m, p.n))
        return
    half = p.m * p.n // 2
    ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, slot * half * 4, half)
    to_ub = asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR, True)
    for core in range(2):  # 16 x 16 fractals of L0C follow each other down the rows: the lower half starts m/2 rows on
        params = asc.FixpipeParamsArch3510(p.n, p.m // 2, p.m, p.n, sub_block_id=core)
        asc.fixpipe(ub, c[core * p.m // 2 * 16], params, to_ub)


@asc.jit
def vector_side(work: Any, d: Any, p: Any) -> None:
    """An AIV: its half of each product, squared, and added to its square `work` times."""
    flags = Flags(p.drop)
    half = p.m * p.n // 2
    mine = int(asc.get_sub_block_idx()) * half
    through_gm = p.way == "gm"
    arrived = [asc.LocalTensor(asc.float32, asc.TPosition.VECIN, k * half * 4, half) for k in range(p.slots)]
    square = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, p.slots * half * 4, half)
    result = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, (p.slots + 1) * half * 4, half)
    for tile in range(p.tiles):
        product = arrived[0 if through_gm else tile % p.slots]
        if through_gm:
            flags.wait("ready", asc.PipeID.PIPE_MTE2)
            if tile > 0:
                asc.wait_flag(asc.HardEvent.V_MTE2, 0)  # the product before has been used
            asc.data_copy(product, work[tile % p.slots * p.m * p.n + mine], half)
            flags.set("free", asc.PipeID.PIPE_MTE2)
            asc.set_flag(asc.HardEvent.MTE2_V, 0)
            asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        else:
            flags.wait("ready", asc.PipeID.PIPE_V)
        asc.mul(square, product, product, half)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.MTE3_V, 0)  # the result before has been stored
        asc.add(result, square, product, half)
        for _ in range(p.work - 1):
            asc.add(result, result, product, half)
        if not through_gm:
            flags.set("free", asc.PipeID.PIPE_V)
        elif tile < p.tiles - 1:
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(d[tile * p.m * p.n + mine], result, half)
        if tile < p.tiles - 1:
            asc.set_flag(asc.HardEvent.MTE3_V, 0)


@asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_2)
def mix_gemm_vector(a: asc.GlobalAddress, b: asc.GlobalAddress, work: asc.GlobalAddress, d: asc.GlobalAddress,
                    p: asc.ConstExpr) -> None:  # fmt: skip
    a_gm, b_gm, work_gm, d_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    group = int(asc.get_block_idx()) // int(asc.get_sub_block_num())
    a_gm.set_global_buffer(a + group * p.tiles * p.m * p.k)
    b_gm.set_global_buffer(b)
    work_gm.set_global_buffer(work + group * p.slots * p.m * p.n)
    d_gm.set_global_buffer(d + group * p.tiles * p.m * p.n)
    if asc.ascend_is_aic():
        cube_side(a_gm, b_gm, work_gm, p)
    if asc.ascend_is_aiv():
        vector_side(work_gm, d_gm, p)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small whole numbers, so that float32 is exact. D is [blocks * tiles * m, n].

    Raises UnsupportedError on cards without cross-core flags, and for way=ub without a path from L0C to UB; ConfigError for
    sizes that do not fit; CapacityError for more blocks than AI Cores.
    """
    if card.coupled:
        raise UnsupportedError("cube and vector units share one core here: there are no cross-core flags", field="card",
                               value=card.name, card=card.name)  # fmt: skip
    if p.way == "ub" and not card.has_path("L0C-UB"):
        raise UnsupportedError("this card has no path from L0C to UB", field="way", value=p.way, allowed="gm",
                               card=card.name)  # fmt: skip
    for name, unit in (("m", 32), ("n", 16), ("k", 16), ("tiles", 1), ("slots", 1), ("work", 1), ("blocks", 1)):
        value = getattr(p, name)
        if value < unit or value % unit:
            raise ConfigError(
                f"{name} does not fit", field=name, value=value, allowed=f"multiples of {unit}, >= {unit}"
            )
    if p.tiles > 15:
        raise ConfigError("a cross-core flag counts to 15", field="tiles", value=p.tiles, allowed="1..15")
    needs = {"UB": (p.slots + 2) * p.m * p.n * 2, "L1": (p.tiles * p.m + p.n) * p.k * 2, "L0A": p.m * p.k * 2,
             "L0B": p.n * p.k * 2, "L0C": p.m * p.n * 4}  # fmt: skip
    for name, need in needs.items():
        room = int(card.value(f"buffers.{name}.size"))
        if need > room:
            raise ConfigError(f"{need} B of {name} are needed", field="n" if name == "L0B" else "m", value=need,
                              allowed=f"<= {room} B", card=card.name)  # fmt: skip
    if p.blocks > card.cubes:
        raise CapacityError("more blocks than AI Cores", field="blocks", value=p.blocks, allowed=f"1..{card.cubes}",
                            card=card.name)  # fmt: skip
    rows = p.blocks * p.tiles * p.m
    shapes = ((rows, p.k), (p.n, p.k), (p.blocks * p.slots * p.m, p.n), (rows, p.n))
    if not data:
        types = (asc.float16, asc.float16, asc.float32, asc.float32)
        specs = tuple(GmSpec(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
        return Job(mix_gemm_vector, (*specs, p), p.blocks, dict(vars(p)))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in shapes[:2])
    product = a.astype(np.float32) @ b.astype(np.float32).T
    expected = product * product + p.work * product
    args = (a, b, np.zeros(shapes[2], np.float32), np.zeros(shapes[3], np.float32))

    def expect(after: tuple[Any, ...]) -> bool:
        return np.array_equal(after[3], expected)

    return Job(mix_gemm_vector, (*args, p), p.blocks, dict(vars(p)), expect=expect)
