"""Tiled matrix product C = A x B^T in half, ping-pong in L1 and L0, the structure of the published 8192-cube runs.

A[M,K] and B[N,K] are ND in GM (on Atlas 200I/500 A2 fractals, NZ: its DataCopy has no ND2NZ), C[M,N] is ND. Each block
owns singleCoreM x singleCoreN of C and walks it in base blocks: N outer, M inner, K innermost. GM->L1 moves packets of
stepKa (stepKb) base blocks of K, B before A, one packet ahead; L1->L0A is LoadData3DParamsV2 on A2/A3,
LoadData2DParamsV2 on 350, LoadData2DParams on 200I. One L0C buffer; with unit_flag Mmad and Fixpipe overlap in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import CapacityError, ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, Measured, param

SHORT_INSTRUCTIONS = 30_000
"""About what a shortened run may take."""
C0 = 16
L1_HALF = 256 * 1024
L0_HALF = 32 * 1024


@dataclass(frozen=True)
class Parameters:
    M: int = param(512, "rows of A and C")
    N: int = param(512, "rows of B, columns of C")
    K: int = param(512, "columns of A and B")
    baseM: int = param(0, "rows of a base block; 0: 128 (350: 256)")
    baseN: int = param(0, "columns of a base block; 0: 256")
    baseK: int = param(0, "depth of a base block; 0: 64")
    stepKa: int = param(0, "base blocks of K in one packet of A; 0: 8 (350: 4)")
    stepKb: int = param(0, "base blocks of K in one packet of B; 0: 4")
    singleCoreM: int = param(0, "rows of C of one block; 0: published 2048 from 4096 on, else what fills the cores")
    singleCoreN: int = param(0, "columns of C of one block; 0: published 1536 (350: 1024), else what fills the cores")
    l2_rounds: int = param(1, "split of a block's rows into rounds, so that one round's data stays in L2")
    blocks: int = param(0, "blocks; 0: one for each singleCoreM x singleCoreN piece, at most the cores")
    unit_flag: bool = param(True, "overlap Mmad and Fixpipe block by block (350, A2, A3)")
    double_buffer: bool = param(True, "two buffers each in L1 and L0, loads one packet ahead")


def _align(a: int) -> int:
    return asc.ceildiv(a, 16) * 16


def _resolve(card: Card, p: Parameters) -> Parameters:
    """Fill in the card's defaults and check the capacities (the rules of a matmul tiling)."""
    arch = card.npu_arch
    p = replace(
        p, baseM=p.baseM or (256 if arch == 3510 else 128), baseN=p.baseN or 256, baseK=p.baseK or 64,
        stepKa=p.stepKa or (4 if arch == 3510 else 8), stepKb=p.stepKb or 4,
        unit_flag=p.unit_flag and arch != 3002,
    )  # fmt: skip
    for name in ("M", "N", "K", "baseM", "baseN", "baseK", "stepKa", "stepKb", "l2_rounds"):
        if getattr(p, name) < 1:
            raise ConfigError("matmul: must be at least 1", field=name, value=getattr(p, name), allowed=">= 1")
    for name in ("baseM", "baseN", "baseK"):
        if getattr(p, name) % 16:
            raise ConfigError("matmul: base blocks are whole fractals", field=name, value=getattr(p, name),
                              allowed="multiples of 16")  # fmt: skip
    for name in ("singleCoreM", "singleCoreN"):
        value = getattr(p, name)
        if value < 0 or (arch == 3002 and value % 16):
            raise ConfigError("matmul: not a size of a block's part of C", field=name, value=value, card=card.name,
                              allowed=">= 0" + (", multiples of 16 (inputs are fractals)" if arch == 3002 else ""))  # fmt: skip
    copies = 2 if p.double_buffer else 1
    l0 = int(card.value("buffers.L0A.size"))
    room = {
        "baseM x baseK in L0A": (p.baseM * p.baseK * 2 * copies, l0),
        "baseN x baseK in L0B": (p.baseN * p.baseK * 2 * copies, l0),
        "baseM x baseN in L0C": (p.baseM * p.baseN * 4, int(card.value("buffers.L0C.size"))),
        "baseM x stepKa*baseK in half of L1": (p.baseM * p.baseK * p.stepKa * 2 * copies, L1_HALF),
        "baseN x stepKb*baseK in half of L1": (p.baseN * p.baseK * p.stepKb * 2 * copies, L1_HALF),
    }
    for what, (need, have) in room.items():
        if need > have:
            field = what.split()[0]
            value = getattr(p, field)
            raise CapacityError(f"matmul: {what} needs {need} B, {have} B are there", field=field, value=value,
                                allowed=f"<= {have * value // need} with the other sizes as they are", card=card.name)  # fmt: skip
    single_m, single_n = _single(card, p)
    p = replace(p, singleCoreM=single_m, singleCoreN=single_n)
    pieces = asc.ceildiv(p.M, single_m) * asc.ceildiv(p.N, single_n)
    return replace(p, blocks=p.blocks or min(pieces, card.cubes))


def _single(card: Card, p: Parameters) -> tuple[int, int]:
    """Published split for big matrices, else the smallest multiples of the base block with no more pieces than cores."""
    published = (2048, 1024 if card.npu_arch == 3510 else 1536)
    if p.M >= 4096 and p.N >= 4096 and not card.coupled:
        return p.singleCoreM or published[0], p.singleCoreN or published[1]
    mb, nb = asc.ceildiv(p.M, p.baseM), asc.ceildiv(p.N, p.baseN)
    best: tuple[int, int, int] | None = None
    for i in range(1, mb + 1):
        for j in range(1, nb + 1):
            pieces = asc.ceildiv(mb, i) * asc.ceildiv(nb, j)
            if pieces <= card.cubes and (best is None or (i * j, abs(i - j), i) < (best[0], abs(best[1] - best[2]), best[1])):
                best = (i * j, i, j)
    assert best is not None
    return p.singleCoreM or best[1] * p.baseM, p.singleCoreN or best[2] * p.baseN


@dataclass(frozen=True)
class Tile:
    """One base block of C and its K blocks."""

    m0: int
    m: int
    n0: int
    n: int


def _tiles(p: Parameters, first: int, step: int) -> list[Tile]:
    """Base blocks of the pieces first, first+step, ... in the order a block works on them."""
    grid_m = asc.ceildiv(p.M, p.singleCoreM)
    tiles = []
    for piece in range(first, grid_m * asc.ceildiv(p.N, p.singleCoreN), step):
        top, left = piece % grid_m * p.singleCoreM, piece // grid_m * p.singleCoreN
        bottom, right = min(top + p.singleCoreM, p.M), min(left + p.singleCoreN, p.N)
        rows = asc.ceildiv(asc.ceildiv(bottom - top, p.l2_rounds), p.baseM) * p.baseM
        for start in range(top, bottom, rows):
            for n0 in range(left, right, p.baseN):
                for m0 in range(start, min(start + rows, bottom), p.baseM):
                    tiles.append(Tile(m0, min(p.baseM, bottom - m0), n0, min(p.baseN, right - n0)))
    return tiles


def _packets(tiles: list[Tile], p: Parameters, of_a: bool) -> Iterator[tuple[int, int, int, int]]:
    """(first row, rows, first k, k) of every GM->L1 packet in order of use."""
    depth = p.baseK * (p.stepKa if of_a else p.stepKb)
    for tile in tiles:
        row, rows = (tile.m0, tile.m) if of_a else (tile.n0, tile.n)
        for k0 in range(0, p.K, depth):
            yield row, rows, k0, min(depth, p.K - k0)


class Flags:
    """set and wait of an event: SetFlag/WaitFlag, on 200I the TQueSync that its pages offer."""

    def __init__(self, arch: int) -> None:
        self.portable = arch == 3002
        self.syncs: dict[Any, Any] = {}

    def set(self, event: Any, ident: int) -> None:
        if self.portable:
            self._sync(event).set_flag(ident)
        else:
            asc.set_flag(event, ident)

    def wait(self, event: Any, ident: int) -> None:
        if self.portable:
            self._sync(event).wait_flag(ident)
        else:
            asc.wait_flag(event, ident)

    def _sync(self, event: Any) -> Any:
        found = self.syncs.get(event)
        if found is None:
            source, target = (getattr(asc.PipeID, f"PIPE_{name}") for name in event.name.split("_"))
            found = self.syncs[event] = asc.TQueSync(source, target)
        return found


class Side:
    """One operand of the product on one core: its packets, L1 buffers and how they are filled."""

    def __init__(
        self, tensor: Any, rows_total: int, tiles: list[Tile], p: Parameters, of_a: bool, fractals: bool, flags: Flags,
        params: dict[tuple[int, int], Any],
    ) -> None:  # fmt: skip
        self.flags = flags
        self.params = params
        self.total = len(tiles) * asc.ceildiv(p.K, p.baseK * (p.stepKa if of_a else p.stepKb))
        base = 0 if of_a else L1_HALF
        pos = asc.TPosition.A1 if of_a else asc.TPosition.B1
        size = (p.baseM * p.stepKa if of_a else p.baseN * p.stepKb) * p.baseK
        self.buffers = [asc.LocalTensor(asc.half, pos, base + i * L1_HALF // 2, size)
                        for i in range(2 if p.double_buffer else 1)]  # fmt: skip
        self.tensor, self.rows_total, self.p, self.fractals = tensor, rows_total, p, fractals
        self.first_id = 0 if of_a else 2
        self.packets = _packets(tiles, p, of_a)
        self.loaded = 0

    def load_next(self) -> None:
        """Issue the next GM->L1 packet into the buffer after the last one; nothing if there is none."""
        packet = next(self.packets, None)
        if packet is None:
            return
        slot = self.loaded % len(self.buffers)
        ident = self.first_id + slot
        if self.loaded >= len(self.buffers):
            self.flags.wait(asc.HardEvent.MTE1_MTE2, ident)
        (self._load_fractals if self.fractals else self._load_nd)(self.buffers[slot], *packet)
        self.flags.set(asc.HardEvent.MTE2_MTE1, ident)
        self.loaded += 1

    def release(self, used: int, slot: int) -> None:
        """Packet number `used` (from 1) has been read: its buffer may be filled again if another load needs it."""
        if used - 1 + len(self.buffers) < self.total:
            self.flags.set(asc.HardEvent.MTE1_MTE2, self.first_id + slot)
        if len(self.buffers) == 1:
            self.load_next()

    def _load_nd(self, dst: Any, row: int, rows: int, k0: int, k: int) -> None:
        params = self.params.get((rows, k))
        if params is None:
            params = self.params[rows, k] = asc.Nd2NzParams(1, rows, k, 0, self.p.K, _align(rows), 1, 0)
        asc.data_copy(dst, self.tensor[row * self.p.K + k0], params)

    def _load_fractals(self, dst: Any, row: int, rows: int, k0: int, k: int) -> None:
        """NZ in GM to NZ in L1 with LoadData2D: along the rows or along K, whichever takes fewer instructions."""
        total, high, wide = asc.ceildiv(self.rows_total, 16), asc.ceildiv(rows, 16), asc.ceildiv(k, 16)
        origin = (k0 // 16 * total + row // 16) * 256
        if high <= wide:
            params = asc.LoadData2DParams(0, wide, total, 0, high - 1)
            for r in range(high):
                asc.load_data(dst[r * 256], self.tensor[origin + r * 256], params)
        else:
            params = asc.LoadData2DParams(0, high, 1, 0, 0)
            for j in range(wide):
                asc.load_data(dst[j * high * 256], self.tensor[origin + j * total * 256], params)


class L0Loader:
    """L1->L0A and L1->L0B of one base block, by the card's legal and usual instructions.

    The calls of a base block repeat with the ping-pong buffers: (destination, source, parameters) of each are made once.
    """

    def __init__(self, arch: int, structs: dict[tuple[Any, ...], Any]) -> None:
        self.arch = arch
        self.structs = structs
        self.calls: dict[tuple[Any, ...], list[tuple[Any, Any, Any]]] = {}

    def load(self, of_a: bool, dst: Any, src: Any, rows: int, k: int, packet_k: int, at: int) -> None:
        """NZ in L1 to L0; `at` = first k inside the packet of `packet_k`."""
        key = (dst.offset, src.offset, rows, k, packet_k, at, of_a)
        calls = self.calls.get(key)
        if calls is None:
            make = self._v2 if self.arch == 3510 else self._b if not of_a else self._a3d if self.arch == 2201 else self._a2d
            calls = self.calls[key] = make(dst, src, _align(rows), _align(k), packet_k, at)
        for call in calls:
            asc.load_data(*call)

    def _struct(self, key: tuple[Any, ...], make: Any) -> Any:
        found = self.structs.get(key)
        if found is None:
            found = self.structs[key] = make()
        return found

    def _a3d(self, dst: Any, src: Any, rows: int, cols: int, packet_k: int, at: int) -> list[tuple[Any, Any, Any]]:
        """A as ZZ, by img2col of a map of one row."""
        return [(dst, src, self._struct(("3d", rows, cols, packet_k, at), lambda: asc.LoadData3DParamsV2(
            l1_h=1, l1_w=rows, channel_size=_align(packet_k), k_extension=cols, m_extension=rows, k_start_pt=at)))]  # fmt: skip

    def _a2d(self, dst: Any, src: Any, rows: int, cols: int, packet_k: int, at: int) -> list[tuple[Any, Any, Any]]:
        """A as ZZ, one row of fractals a call."""
        high, wide = rows // 16, cols // 16
        params = self._struct(("2d", wide, high), lambda: asc.LoadData2DParams(0, wide, high, 0, 0))
        return [(dst[i * wide * 256], src[at * rows + i * 256], params) for i in range(high)]

    def _b(self, dst: Any, src: Any, rows: int, cols: int, packet_k: int, at: int) -> list[tuple[Any, Any, Any]]:
        """B[n,k] as ZN: a straight copy of fractals, one column of them a call."""
        params = self._struct(("b", rows), lambda: asc.LoadData2DParams(0, rows // 16, 1, 0, 0))
        return [(dst[i * rows * 16], src[(at + i * 16) * rows], params) for i in range(cols // 16)]

    def _v2(self, dst: Any, src: Any, rows: int, cols: int, packet_k: int, at: int) -> list[tuple[Any, Any, Any]]:
        """350: A as NZ and B as ZN are the same copy."""
        high, wide, first = rows // 16, cols // 16, at // 16
        return [(dst, src, self._struct(("v2", high, wide, first), lambda: asc.LoadData2DParamsV2(
            0, first, high, wide, high, high)))]  # fmt: skip


def _tile_params(arch: int, p: Parameters, tile: Tile) -> Any:
    """Fixpipe parameters of one base block: float in L0C to half ND in GM."""
    flag = 3 if p.unit_flag else 0
    if arch == 3510:
        return asc.FixpipeParamsArch3510(tile.n, tile.m, _align(tile.m), p.N, quant_pre=asc.QuantModes.F322F16, unit_flag=flag)
    return asc.FixpipeParamsV220(tile.n, tile.m, _align(tile.m), p.N, asc.QuantModes.F322F16, unit_flag=flag)


def _kernel(p: Parameters) -> Any:
    # Parameter structs are shared by all cores: an instruction is looked up by them, fastest when it is the same object.
    packets: dict[tuple[int, int], Any] = {}
    loads: dict[tuple[Any, ...], Any] = {}
    mmads: dict[tuple[int, int, int, int, bool], Any] = {}

    @asc.jit(kernel_type=asc.KernelType.AIC_ONLY)
    def matmul(a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress):
        arch = asc.npu_arch()
        a_gm, b_gm, c_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
        a_gm.set_global_buffer(a)
        b_gm.set_global_buffer(b)
        c_gm.set_global_buffer(c)
        tiles = _tiles(p, int(asc.get_block_idx()), int(asc.get_block_num()))
        fractals = arch == 3002
        flags = Flags(arch)
        set_flag, wait_flag = (flags.set, flags.wait) if flags.portable else (asc.set_flag, asc.wait_flag)
        side_a = Side(a_gm, p.M, tiles, p, True, fractals, flags, packets)
        side_b = Side(b_gm, p.N, tiles, p, False, fractals, flags, packets)
        steps = len(tiles) * asc.ceildiv(p.K, p.baseK)
        halves = 2 if p.double_buffer else 1
        l0a = [asc.LocalTensor(asc.half, asc.TPosition.A2, i * L0_HALF, p.baseM * p.baseK) for i in range(halves)]
        l0b = [asc.LocalTensor(asc.half, asc.TPosition.B2, i * L0_HALF, p.baseN * p.baseK) for i in range(halves)]
        l0c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, p.baseM * p.baseN)
        loader = L0Loader(arch, loads)
        config = asc.FixpipeConfig(asc.CO2Layout.ROW_MAJOR)
        side_b.load_next()
        side_a.load_next()
        step, used_a, used_b = 0, 0, 0
        for number, tile in enumerate(tiles):
            for block, k0 in enumerate(range(0, p.K, p.baseK)):
                k = min(p.baseK, p.K - k0)
                # A packet begins: wait for it and send the next one on its way, B before A.
                if block % p.stepKb == 0:
                    slot_b = used_b % len(side_b.buffers)
                    wait_flag(asc.HardEvent.MTE2_MTE1, 2 + slot_b)
                    if p.double_buffer:
                        side_b.load_next()
                if block % p.stepKa == 0:
                    slot_a = used_a % len(side_a.buffers)
                    wait_flag(asc.HardEvent.MTE2_MTE1, slot_a)
                    if p.double_buffer:
                        side_a.load_next()
                half = step % halves
                if step >= halves:
                    wait_flag(asc.HardEvent.M_MTE1, half)
                in_a, in_b = block % p.stepKa * p.baseK, block % p.stepKb * p.baseK
                packet_k = min(p.stepKa * p.baseK, p.K - (k0 - in_a))
                loader.load(True, l0a[half], side_a.buffers[slot_a], tile.m, k, packet_k, in_a)
                loader.load(False, l0b[half], side_b.buffers[slot_b], tile.n, k, 0, in_b)
                last = k0 + p.baseK >= p.K
                # A packet ends: its L1 buffer may be filled again.
                if last or (block + 1) % p.stepKa == 0:
                    used_a += 1
                    side_a.release(used_a, slot_a)
                if last or (block + 1) % p.stepKb == 0:
                    used_b += 1
                    side_b.release(used_b, slot_b)
                set_flag(asc.HardEvent.MTE1_M, half)
                wait_flag(asc.HardEvent.MTE1_M, half)
                if block == 0 and number and not p.unit_flag:
                    wait_flag(asc.HardEvent.FIX_M, 0)
                flag = (3 if last else 2) if p.unit_flag else 0
                m = tile.m if tile.m > 1 else 16  # one row alone would be a GEMV, which takes A as a plain vector
                key = (m, tile.n, k, flag, block == 0)
                params = mmads.get(key)
                if params is None:
                    params = mmads[key] = asc.MmadParams(m, tile.n, k, unit_flag=flag, cmatrix_init_val=block == 0)
                if block and (m // 16) * (tile.n // 16) < 10:
                    asc.pipe_barrier(asc.PipeID.PIPE_M)
                asc.mmad(l0c, l0a[half], l0b[half], params)
                step += 1
                if step - 1 + halves < steps:
                    set_flag(asc.HardEvent.M_MTE1, half)
            if not p.unit_flag:
                set_flag(asc.HardEvent.M_FIX, 0)
                wait_flag(asc.HardEvent.M_FIX, 0)
            asc.fixpipe(c_gm[tile.m0 * p.N + tile.n0], l0c, _tile_params(arch, p, tile), config)
            if not p.unit_flag and number + 1 < len(tiles):
                set_flag(asc.HardEvent.FIX_M, 0)

    return matmul


def size(card: Card, p: Parameters) -> int:
    """Mmads of all cores, each with its loads and flags."""
    full = _resolve(card, p)
    return asc.ceildiv(p.M, full.baseM) * asc.ceildiv(p.N, full.baseN) * asc.ceildiv(p.K, full.baseK) * 16


def short(card: Card, p: Parameters) -> Parameters:
    """Smaller pieces of C and less depth: the same grid of blocks, the same share for the last of them, the same tiles."""
    short = _resolve(card, p)
    whole = {"singleCoreM": "M", "singleCoreN": "N", "K": "K"}
    least = {"singleCoreM": 2 * short.baseM, "singleCoreN": 2 * short.baseN,
             "K": 2 * short.baseK * max(short.stepKa, short.stepKb)}  # fmt: skip
    while size(card, short) > SHORT_INSTRUCTIONS:
        long = [name for name in least if getattr(short, name) >= 2 * least[name]
                and getattr(short, name) % 32 == getattr(short, whole[name]) % 32 == 0]  # fmt: skip
        if not long:
            break
        name = max(long, key=lambda one: getattr(short, one) / least[one])
        short = replace(short, **{one: getattr(short, one) // 2 for one in (name, whole[name])})
    return short


def build(card: Card, p: Parameters, data: bool) -> Job:
    p = _resolve(card, p)
    measured = _measured(card, p)
    shapes = ((p.M, p.K), (p.N, p.K), (p.M, p.N))
    if not data:
        if card.npu_arch == 3002:  # inputs are whole fractals
            shapes = ((_align(p.M), _align(p.K)), (_align(p.N), _align(p.K)), (p.M, p.N))
        return Job(_kernel(p), tuple(GmSpec(s, asc.half) for s in shapes), p.blocks, asdict(p), measured=measured)
    rng = np.random.default_rng(2024)
    a = rng.integers(-2, 3, shapes[0]).astype(np.float16)
    b = rng.integers(-2, 3, shapes[1]).astype(np.float16)
    c = np.zeros(shapes[2], np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    args = (a, b, c)
    if card.npu_arch == 3002:
        args = (_fractals(a), _fractals(b), c)
    return Job(_kernel(p), args, p.blocks, asdict(p), measured=measured,
               expect=lambda after: np.array_equal(after[2].view(np.uint16), expected.view(np.uint16)))  # fmt: skip


def _fractals(matrix: Any) -> Any:
    return to_layout(matrix, "NZ", asc.half).view(np.float16)


_PUBLISHED = {
    ("Ascend910B1", 128, 256, 64, 8, 4, 2048, 1536, 24): (4121.16, 2538.348, 3552.248, 3081.664, 160.405),
    ("Ascend950PR_9589", 256, 256, 64, 4, 4, 2048, 1024, 32): (2572.047, 828.001, 1874.267, 2564.813, 221.997),
}
"""8192-cube, basic API (mirror-cann/asc-devkit, matmul best practice): task, MTE1, MTE2, cube and Fixpipe time in us."""


def _measured(card: Card, p: Parameters) -> tuple[Measured, ...]:
    key = (card.soc, p.baseM, p.baseN, p.baseK, p.stepKa, p.stepKb, p.singleCoreM, p.singleCoreN, p.blocks)
    found = _PUBLISHED.get(key)
    if found is None or (p.M, p.N, p.K, p.l2_rounds) != (8192, 8192, 8192, 1) or not (p.unit_flag and p.double_buffer):
        return ()
    names = ("time_us", *(f"pipes.aic.{pipe}.time_us" for pipe in ("MTE1", "MTE2", "M", "FIX")))
    return tuple(Measured(name, value, "us") for name, value in zip(names, found, strict=True))
