"""z = x + y streamed through UB on all vector cores: tile size, double buffering, L2 hints, queues against flags.

Every core owns a range of whole rows and streams it as one contiguous run in copies of `tile` elements; the last copy of
a core may be shorter. With `style=flags` the order is kept by events on fixed UB addresses, with `style=queue` by TPipe
and TQue, which leave less of UB to the kernel.

Without double buffering the published run on one core loads the next tile while it stores this one. Those on all cores do
not: the times of their pipes add up to the core's. `next_load=auto` follows both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError, UnsupportedError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.scenario import Job, Measured, param

SHORT_SHARE = 16
"""By how much a shortened run on several cores is smaller."""
SHORT_TILES = 512
"""About what a shortened run may take."""
BANK_PERIOD = 512
"""UB addresses that differ by this much share a bank group (spec hardware.md 10)."""


@dataclass(frozen=True)
class Parameters:
    rows: int = param(960, "rows of x, y and z")
    cols: int = param(2048, "columns, contiguous")
    tile: int = param(4096, "elements of one copy")
    double_buffer: bool = param(True, "two sets of tiles in UB: load the next while the last is computed and stored")
    l2_inputs: str = param("normal", "L2 hint of x and y", ("normal", "disable", "notalloc_keep"))
    bank_offset: bool = param(False, "put x and y of a tile into different UB bank groups")
    blocks: int = param(0, "vector cores; 0: all of the card")
    style: str = param("flags", "how the order is kept", ("flags", "queue"))
    next_load: str = param("auto", "one set of tiles: when the next load begins; auto: behind the store on several cores",
                           ("auto", "behind_add", "behind_store"))  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """UB byte addresses of x, y and z for each set of buffers."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    z: tuple[int, ...]

    def __str__(self) -> str:
        return "; ".join(f"{name} at {' and '.join(map(str, at))}" for name, at in vars(self).items()) + " B"


# ---- the kernel -----------------------------------------------------------------------------------------------------
def padded(dst: Any, src: Any, count: int) -> None:
    """A copy between GM and UB whose length is not a multiple of 32 B."""
    params = asc.DataCopyExtParams(1, count * dst.dtype.sizeof(), 0, 0)
    if dst.kind == "GM":
        asc.data_copy_pad(dst, src, params)
    else:
        asc.data_copy_pad(dst, src, params, asc.DataCopyPadExtParams(dst.dtype))


def own_range(rows: int, cols: int) -> tuple[int, int]:
    """First element and number of elements of this core: whole rows, the first cores one more where it does not divide."""
    core, cores = int(asc.get_block_idx()), int(asc.get_block_num())
    share, rest = divmod(rows, cores)
    first = core * share + min(core, rest)
    return first * cols, (share + (core < rest)) * cols


def inputs(x: Any, y: Any, z: Any, start: int, hint: Any) -> tuple[Any, Any, Any]:
    """The three arrays from the core's first element on, x and y with their L2 hint."""
    x_gm, y_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x + start)
    y_gm.set_global_buffer(y + start)
    z_gm.set_global_buffer(z + start)
    if hint is not None:
        x_gm.set_l2_cache_hint(hint)
        y_gm.set_l2_cache_hint(hint)
    return x_gm, y_gm, z_gm


@asc.jit
def add_with_flags(
    x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, rows: asc.ConstExpr[int], cols: asc.ConstExpr[int],
    tile: asc.ConstExpr[int], layout: asc.ConstExpr, hint: asc.ConstExpr, serial: asc.ConstExpr[bool],
) -> None:  # fmt: skip
    """The event chain on fixed addresses. Event id = number of the buffer set. `serial`: loads wait for the last store."""
    start, count = own_range(rows, cols)
    x_gm, y_gm, z_gm = inputs(x, y, z, start, hint)
    sets = len(layout.x)
    x_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, at, tile) for at in layout.x]
    y_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, at, tile) for at in layout.y]
    z_ub = [asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, at, tile) for at in layout.z]
    step, left, size = 0, count, x.dtype.sizeof()
    double = sets > 1
    if double:  # both sets are free at the start
        for k in range(sets):
            asc.set_flag(asc.HardEvent.V_MTE2, k)
            asc.set_flag(asc.HardEvent.MTE3_V, k)
    while left > 0:
        n = min(tile, left)
        copy = asc.data_copy if n * size % 32 == 0 else padded
        at, k = step * tile, step % sets
        if double or step > 0:
            asc.wait_flag(asc.HardEvent.V_MTE2, k)  # the inputs of this set have been used
        if serial and step > 0:
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)
        copy(x_ub[k], x_gm[at], n)
        copy(y_ub[k], y_gm[at], n)
        asc.set_flag(asc.HardEvent.MTE2_V, k)
        asc.wait_flag(asc.HardEvent.MTE2_V, k)
        if double or step > 0:
            asc.wait_flag(asc.HardEvent.MTE3_V, k)  # the result of this set has been stored
        asc.add(z_ub[k], x_ub[k], y_ub[k], n)
        asc.set_flag(asc.HardEvent.V_MTE2, k)
        asc.set_flag(asc.HardEvent.V_MTE3, k)
        asc.wait_flag(asc.HardEvent.V_MTE3, k)
        copy(z_gm[at], z_ub[k], n)
        asc.set_flag(asc.HardEvent.MTE3_V, k)
        if serial and left > n:
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
        step, left = step + 1, left - n
    if step > 0 or double:
        for k in range(sets):  # take the flags that nobody waited for
            asc.wait_flag(asc.HardEvent.V_MTE2, k)
            asc.wait_flag(asc.HardEvent.MTE3_V, k)


@asc.jit
def add_with_queues(
    x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, rows: asc.ConstExpr[int], cols: asc.ConstExpr[int],
    tile: asc.ConstExpr[int], sets: asc.ConstExpr[int], hint: asc.ConstExpr,
) -> None:  # fmt: skip
    """The same stream with TPipe and three queues."""
    start, count = own_range(rows, cols)
    x_gm, y_gm, z_gm = inputs(x, y, z, start, hint)
    pipe = asc.TPipe()
    x_que, y_que = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    z_que = asc.TQue(asc.TPosition.VECOUT, 1)
    for que in (x_que, y_que, z_que):
        pipe.init_buffer(que, sets, tile * x.dtype.sizeof())
    step, left, size = 0, count, x.dtype.sizeof()
    while left > 0:
        n = min(tile, left)
        copy = asc.data_copy if n * size % 32 == 0 else padded
        at = step * tile
        x_in, y_in = x_que.alloc_tensor(x.dtype), y_que.alloc_tensor(x.dtype)
        copy(x_in, x_gm[at], n)
        copy(y_in, y_gm[at], n)
        x_que.enque(x_in)
        y_que.enque(y_in)
        x_ub, y_ub = x_que.deque(x.dtype), y_que.deque(x.dtype)
        z_ub = z_que.alloc_tensor(x.dtype)
        asc.add(z_ub, x_ub, y_ub, n)
        z_que.enque(z_ub)
        x_que.free_tensor(x_ub)
        y_que.free_tensor(y_ub)
        z_out = z_que.deque(x.dtype)
        copy(z_gm[at], z_out, n)
        z_que.free_tensor(z_out)
        step, left = step + 1, left - n


# ---- placement ------------------------------------------------------------------------------------------------------
def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def place(card: Card, nbytes: int, double: bool, bank_offset: bool) -> Layout:
    """Where the tiles of `nbytes` go: the addresses of the published kernels where the tile fits them, else packed.

    Raises ConfigError if the tiles do not fit UB.
    """
    sets = 2 if double else 1
    size = int(card.value("buffers.UB.size"))
    if bank_offset:
        # y half a bank period behind x; x and y of both sets come first, then z.
        shift = _up(nbytes - BANK_PERIOD // 2, BANK_PERIOD) + BANK_PERIOD // 2
        pair = _up(shift + nbytes, 1024)
        layout = Layout(tuple(k * pair for k in range(sets)), tuple(k * pair + shift for k in range(sets)),
                        tuple(sets * pair + k * shift for k in range(sets)))  # fmt: skip
    else:
        # 43680 B between the tiles on 950, 32 KB elsewhere; larger tiles follow each other as closely as they can.
        pitch = 43680 if card.npu_arch == 3510 else 32768
        last = 3 * sets - 1
        if nbytes > pitch or last * pitch + nbytes > size:
            pitch = _up(nbytes, BANK_PERIOD)
            if last * pitch + nbytes > size:
                pitch = _up(nbytes, 32)
        x, y, z = (tuple((3 * k + i) * pitch for k in range(sets)) for i in range(3))
        layout = Layout(x, y, z)
    end = max(layout.x + layout.y + layout.z) + _up(nbytes, 32)
    room = size // (3 * sets) - (BANK_PERIOD // 2 if bank_offset else 0)
    if end > size:
        raise ConfigError(
            f"{3 * sets} tiles of {nbytes} B do not fit UB ({size} B) of {card.label}", field="tile", value=nbytes // 2,
            allowed=f"<= {room // 32 * 16} elements", card=card.name,
        )  # fmt: skip
    return layout


# ---- published ------------------------------------------------------------------------------------------------------
# (SoC, tile, double buffer, hint, bank offset, blocks) -> us: task duration, MTE2, MTE3; rows = cols = 8192.
_PUBLISHED = {
    ("Ascend910B1", 4096, False, "normal", False, 1): (6909.6, 6208.762, 2613.205),
    ("Ascend910B1", 16384, False, "normal", False, 48): (268.5, 184.369, 57.354),
    ("Ascend910B1", 16384, True, "disable", False, 48): (187.68, 175.997, 160.291),
    ("Ascend910B1", 16256, True, "disable", True, 48): (184.52, 171.611, 121.442),
    ("Ascend950PR_9589", 4096, False, "normal", False, 1): (8924.021,),
    ("Ascend950PR_9589", 4096, False, "normal", False, 64): (310.489,),
    ("Ascend950PR_9589", 21760, True, "normal", False, 64): (247.665,),
}
_METRICS = ("time_us", "pipes.aiv.MTE2.time_us", "pipes.aiv.MTE3.time_us")


def _measured(card: Card, p: Parameters, blocks: int) -> tuple[Measured, ...]:
    if (p.rows, p.cols, p.style) != (8192, 8192, "flags"):
        return ()
    values = _PUBLISHED.get((card.soc, p.tile, p.double_buffer, p.l2_inputs, p.bank_offset, blocks), ())
    return tuple(Measured(metric, value, "us") for metric, value in zip(_METRICS, values, strict=False))


_HINTS = {
    "normal": None,
    "disable": asc.CacheMode.CACHE_MODE_DISABLE,
    "notalloc_keep": asc.CacheMode.CACHE_MODE_NOTALLOC_KEEP,
}


def _cores(card: Card, p: Parameters) -> int:
    return p.blocks or (card.cubes if card.coupled else card.vectors)


def size(card: Card, p: Parameters) -> int:
    """Copies, vector instructions and flags of all cores."""
    return -(-p.rows * p.cols // p.tile) * 14


def short(card: Card, p: Parameters) -> Parameters:
    """Fewer rows; on several cores a sixteenth of them, with as much less L2 (`short_card`)."""
    if _cores(card, p) == 1:
        rows = max(SHORT_TILES * p.tile // p.cols, 1)
    else:
        rows = p.rows // SHORT_SHARE
    return replace(p, rows=rows) if _cores(card, p) <= rows < p.rows or (rows < p.rows and _cores(card, p) == 1) else p


def short_card(card: Card, p: Parameters) -> dict[str, object]:
    """What memory has to write back begins when the arrays have filled L2: it shrinks with them."""
    return {} if _cores(card, p) == 1 else {"l2_bytes": card.l2_bytes // SHORT_SHARE}


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Small integers in half, so that every sum is exact.

    Raises UnsupportedError for an L2 hint that the card does not have, ConfigError for tiles that do not fit UB or sizes
    below 1.
    """
    for name in ("rows", "cols", "tile"):
        if getattr(p, name) < 1:
            raise ConfigError(f"{name} must be positive", field=name, value=getattr(p, name), allowed=">= 1")
    if p.tile % 16:
        raise ConfigError("a tile starts and ends on 32 B", field="tile", value=p.tile, allowed="multiples of 16")
    if (p.l2_inputs == "notalloc_keep" and card.npu_arch != 3510) or (
        p.l2_inputs != "normal" and card.npu_arch == 3002
    ):
        raise UnsupportedError(
            "this card does not offer this L2 hint", field="l2_inputs", value=p.l2_inputs, card=card.name
        )
    blocks = _cores(card, p)
    sets = 2 if p.double_buffer else 1
    shape = (p.rows, p.cols)
    resolved = {**vars(p), "blocks": blocks}
    notes: tuple[str, ...] = ()
    last: Any
    if p.style == "flags":
        layout = place(card, p.tile * 2, p.double_buffer, p.bank_offset)
        kernel, last = add_with_flags, layout
        notes = (f"UB: {layout}",)
    else:
        if p.bank_offset:
            raise ConfigError(
                "queues choose their addresses themselves", field="bank_offset", value=True, allowed="false"
            )
        kernel, last = add_with_queues, sets
    constants: tuple[Any, ...] = (p.rows, p.cols, p.tile, last, _HINTS[p.l2_inputs])
    if p.style == "flags":
        serial = p.next_load == "behind_store" or (p.next_load == "auto" and blocks > 1)
        constants += (serial and not p.double_buffer,)
    measured = _measured(card, p, blocks)
    if not data:
        spec = GmSpec(shape, asc.float16)
        return Job(kernel, (spec, spec, spec, *constants), blocks, resolved, measured=measured, notes=notes)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-64, 65, shape).astype(np.float16) for _ in range(2))
    return Job(kernel, (x, y, np.zeros(shape, np.float16), *constants), blocks, resolved, measured=measured, notes=notes,
               expect=lambda args: np.array_equal(args[2], args[0] + args[1]))  # fmt: skip
