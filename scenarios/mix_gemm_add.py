"""Cube and vector cores at work on one result: D = A x B^T + bias, handed over through GM with cross-core flags.

Each block computes `tiles` tiles of D, one below the other. The cube core (AIC) writes a product into a workspace in GM that
holds `slots` of them and signals its two vector cores (AIV); each takes half the rows, adds the bias and stores. Their signal
back tells the AIC that the slot may be overwritten: with fewer slots than tiles that flag matters as much as the first.
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

READY, FREE = 0, 1
"""Cross-core flag ids: a product is in the workspace; its slot has been read."""


@dataclass(frozen=True)
class Parameters:
    m: int = param(64, "rows of a tile, a multiple of 32")
    n: int = param(64, "columns, a multiple of 16")
    k: int = param(64, "depth, a multiple of 16")
    tiles: int = param(4, "tiles of a block")
    slots: int = param(2, "products that the workspace of a block holds")
    blocks: int = param(2, "AI Cores (one AIC and two AIVs each)")


@asc.jit
def cube_side(a: Any, b: Any, work: Any, p: Any) -> None:
    """The AIC: load A and B, multiply, store the product into the next slot."""
    rows, columns, depth = p.m // 16, p.n // 16, p.k // 16
    a1 = asc.LocalTensor(a.dtype, asc.TPosition.A1, 0, p.m * p.k)
    b1 = asc.LocalTensor(a.dtype, asc.TPosition.B1, p.m * p.k * 2, p.n * p.k)
    a2 = asc.LocalTensor(a.dtype, asc.TPosition.A2, 0, p.m * p.k)
    b2 = asc.LocalTensor(a.dtype, asc.TPosition.B2, 0, p.n * p.k)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, p.m * p.n)
    to_nz = asc.Nd2NzParams(1, p.m, p.k, 0, p.k, p.m, 1, 0)
    product = asc.MmadParams(p.m, p.n, p.k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)
    store = asc.FixpipeParamsV220(p.n, p.m, p.m, p.n)
    # 950: L1 and L0A are both NZ, L0B is the same bytes read as ZN. A2, A3: L0A is ZZ, one call for a row of fractals.
    nz_to_a = asc.LoadData2DParamsV2(0, 0, rows, depth, rows, rows)
    nz_to_b = asc.LoadData2DParamsV2(0, 0, columns, depth, columns, columns)
    row_to_a = asc.LoadData2DParams(repeat_times=depth, src_stride=rows)
    all_to_b = asc.LoadData2DParams(repeat_times=columns * depth, src_stride=1)
    asc.data_copy(b1, b, asc.Nd2NzParams(1, p.n, p.k, 0, p.k, p.n, 1, 0))
    for tile in range(p.tiles):
        if tile > 0:
            asc.wait_flag(asc.HardEvent.MTE1_MTE2, 0)  # L1 has been read
        asc.data_copy(a1, a[tile * p.m * p.k], to_nz)
        asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.M_MTE1, 0)  # L0A and L0B have been read
        if asc.npu_arch() == 3510:
            asc.load_data(a2, a1, nz_to_a)
            asc.load_data(b2, b1, nz_to_b)
        else:
            for i in range(rows):
                asc.load_data(a2[i * depth * 256], a1[i * 256], row_to_a)
            asc.load_data(b2, b1, all_to_b)
        asc.set_flag(asc.HardEvent.MTE1_MTE2, 0)
        asc.set_flag(asc.HardEvent.MTE1_M, 0)
        asc.wait_flag(asc.HardEvent.MTE1_M, 0)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.FIX_M, 0)  # L0C has been stored
        asc.mmad(c, a2, b2, product)
        asc.set_flag(asc.HardEvent.M_MTE1, 0)
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
        if tile >= p.slots:
            asc.cross_core_wait_flag(FREE, 2, asc.PipeID.PIPE_FIX)  # both AIVs have read what this slot held
        asc.fixpipe(work[tile % p.slots * p.m * p.n], c, store)
        asc.set_flag(asc.HardEvent.FIX_M, 0)
        asc.cross_core_set_flag(READY, 2, asc.PipeID.PIPE_FIX)
    for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1, asc.HardEvent.FIX_M):
        asc.wait_flag(event, 0)
    for _ in range(min(p.slots, p.tiles)):
        asc.cross_core_wait_flag(FREE, 2, asc.PipeID.PIPE_FIX)  # leave the counter at 0


@asc.jit
def vector_side(work: Any, bias: Any, d: Any, p: Any) -> None:
    """An AIV: load its half of the product, add its half of the bias, store."""
    half = p.m * p.n // 2
    mine = int(asc.get_sub_block_idx()) * half
    product = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, half)
    addend = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, half * 4, half)
    result = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, half * 8, half)
    asc.data_copy(addend, bias[mine], half)
    for tile in range(p.tiles):
        asc.cross_core_wait_flag(READY, 2, asc.PipeID.PIPE_MTE2)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.data_copy(product, work[tile % p.slots * p.m * p.n + mine], half)
        asc.cross_core_set_flag(FREE, 2, asc.PipeID.PIPE_MTE2)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        if tile > 0:
            asc.wait_flag(asc.HardEvent.MTE3_V, 0)
        asc.add(result, product, addend, half)
        asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(d[tile * p.m * p.n + mine], result, half)
        asc.set_flag(asc.HardEvent.MTE3_V, 0)
    asc.wait_flag(asc.HardEvent.V_MTE2, 0)
    asc.wait_flag(asc.HardEvent.MTE3_V, 0)


@asc.jit
def gemm_add(a: asc.GlobalAddress, b: asc.GlobalAddress, bias: asc.GlobalAddress, work: asc.GlobalAddress,
             d: asc.GlobalAddress, p: asc.ConstExpr) -> None:  # fmt: skip
    a_gm, b_gm, bias_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    work_gm, d_gm = asc.GlobalTensor(), asc.GlobalTensor()
    group = int(asc.get_block_idx()) // int(asc.get_sub_block_num())
    a_gm.set_global_buffer(a + group * p.tiles * p.m * p.k)
    b_gm.set_global_buffer(b)
    bias_gm.set_global_buffer(bias)
    work_gm.set_global_buffer(work + group * p.slots * p.m * p.n)
    d_gm.set_global_buffer(d + group * p.tiles * p.m * p.n)
    if asc.ascend_is_aic():
        cube_side(a_gm, b_gm, work_gm, p)
    if asc.ascend_is_aiv():
        vector_side(work_gm, bias_gm, d_gm, p)


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small integers, so that the float32 result is exact. D is [blocks * tiles * m, n]; the bias, [m, n], is added to every
    tile.

    Raises UnsupportedError on cards without cross-core flags, ConfigError for sizes that are no whole fractals, CapacityError
    for more blocks than the card has AI Cores.
    """
    if card.coupled:
        raise UnsupportedError("cube and vector units share one core here: there are no cross-core flags", field="card",
                               value=card.name, card=card.name)  # fmt: skip
    for name, unit in (("m", 32), ("n", 16), ("k", 16), ("tiles", 1), ("slots", 1), ("blocks", 1)):
        value = getattr(p, name)
        if value < unit or value % unit:
            raise ConfigError(
                f"{name} must be a multiple of {unit}", field=name, value=value, allowed=f"{unit}, {2 * unit} ..."
            )
    if p.slots > 15:
        raise ConfigError("a cross-core flag counts to 15", field="slots", value=p.slots, allowed="1..15")
    if p.blocks > card.cubes:
        raise CapacityError("more blocks than AI Cores", field="blocks", value=p.blocks, allowed=f"1..{card.cubes}",
                            card=card.name)  # fmt: skip
    rows = p.blocks * p.tiles * p.m
    shapes = ((rows, p.k), (p.n, p.k), (p.m, p.n), (p.blocks * p.slots * p.m, p.n), (rows, p.n))
    resolved: dict[str, Any] = dict(vars(p))
    if not data:
        types = (asc.float16, asc.float16, asc.float32, asc.float32, asc.float32)
        specs = tuple(GmSpec(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
        return Job(gemm_add, (*specs, p), p.blocks, resolved)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in shapes[:2])
    bias = rng.integers(-100, 101, shapes[2]).astype(np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).T + np.tile(bias, (p.blocks * p.tiles, 1))
    args = (a, b, bias, np.zeros(shapes[3], np.float32), np.zeros(shapes[4], np.float32))
    return Job(gemm_add, (*args, p), p.blocks, resolved, expect=lambda args: np.array_equal(args[4], expected))
