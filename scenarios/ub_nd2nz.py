"""ND to NZ in UB by strided vector copies: a column pitch that makes all blocks of a repeat meet in one bank group, or not.

Tiles of 144 x 128 half are loaded, scattered into eight columns of 16 by one Copy of 144 repeats, and stored column by
column. With a pitch of 144 blocks between the columns the 8 blocks of a repeat lie in one bank group (8 cycles a repeat);
one more row of padding spreads them out. Tiles alternate between two sets of buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.launch import Run
from aicore_sim.scenario import Job, Measured, param

TILE_ROWS, TILE_COLUMNS, C0 = 144, 128, 16
COLUMN_SPLITS = 8
"""Cores side by side; the others share the rows out."""
HALF_PERIOD = 256
"""Bytes to the other bank of every group on Atlas 350."""


@dataclass(frozen=True)
class Parameters:
    rows: int = param(2304, "rows of x, a multiple of 16")
    cols: int = param(1024, "columns of x, a multiple of 1024")
    pitch: int = param(145, "32 B blocks from one column of 16 to the next in UB; published: 144 and 145")
    blocks: int = param(0, "vector cores, a multiple of 8; 0: as many as the card has")


def starts(pitch: int, shift: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """UB byte addresses of the ND and the NZ buffers; `shift` moves each NZ buffer that far."""
    nd = TILE_ROWS * TILE_COLUMNS * 2
    nz = (TILE_ROWS + 7 * pitch) * 32 + (pitch - TILE_ROWS) * 32
    return (0, nd), (2 * nd + shift, 2 * nd + 2 * shift + nz)


@asc.jit
def nd_to_nz(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: asc.ConstExpr[int], cols: asc.ConstExpr[int],
             pitch: asc.ConstExpr[int], at: asc.ConstExpr) -> None:  # fmt: skip
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    nd = [asc.LocalTensor(x.dtype, asc.TPosition.VECIN, start, TILE_ROWS * TILE_COLUMNS) for start in at[0]]
    nz = [asc.LocalTensor(x.dtype, asc.TPosition.VECOUT, start, (TILE_ROWS + 7 * pitch) * C0) for start in at[1]]
    row_splits = asc.get_block_num() // COLUMN_SPLITS
    row_split, column_split = asc.get_block_idx() // COLUMN_SPLITS, asc.get_block_idx() % COLUMN_SPLITS
    tiles = -(-rows // TILE_ROWS)
    first = row_split * (tiles // row_splits) + min(row_split, tiles % row_splits)
    count = tiles // row_splits + (row_split < tiles % row_splits)
    across = cols // TILE_COLUMNS // COLUMN_SPLITS
    for k in range(2):
        asc.set_flag(asc.HardEvent.V_MTE2, k)
        asc.set_flag(asc.HardEvent.MTE3_V, k)
    for i in range(count * across):
        k = i % 2
        top = (first + i // across) * TILE_ROWS
        left = (column_split * across + i % across) * TILE_COLUMNS
        height = min(TILE_ROWS, rows - top)
        asc.wait_flag(asc.HardEvent.V_MTE2, k)
        asc.data_copy(nd[k], x_gm[top * cols + left], asc.DataCopyParams(height, 8, (cols - TILE_COLUMNS) // C0, 0))
        asc.set_flag(asc.HardEvent.MTE2_V, k)
        asc.wait_flag(asc.HardEvent.MTE2_V, k)
        asc.wait_flag(asc.HardEvent.MTE3_V, k)
        asc.copy(nz[k], nd[k], TILE_COLUMNS, height, asc.CopyRepeatParams(pitch, 1, 1, 8))
        asc.set_flag(asc.HardEvent.V_MTE2, k)
        asc.set_flag(asc.HardEvent.V_MTE3, k)
        asc.wait_flag(asc.HardEvent.V_MTE3, k)
        asc.data_copy(z_gm[(top + left // C0 * rows) * C0], nz[k], asc.DataCopyParams(8, height, pitch - height, rows - height))
        asc.set_flag(asc.HardEvent.MTE3_V, k)
    for k in range(2):
        asc.wait_flag(asc.HardEvent.V_MTE2, k)
        asc.wait_flag(asc.HardEvent.MTE3_V, k)


def conflicts(run: Run) -> dict[str, Any]:
    """Cycles lost to banks, over all cores."""
    return {"ub_bank_conflict_cycles": run.trace.counters.get("ub_bank_conflict_cycles", 0)}


# (SoC, pitch, blocks) -> us of the vector pipe; rows = cols = 8192
_PUBLISHED = {("Ascend910B1", 144, 48): 47.79, ("Ascend910B1", 145, 48): 7.133, ("Ascend950PR_9589", 144, 64): 45.25,
              ("Ascend950PR_9589", 145, 64): 9.14}  # fmt: skip


def build(card: Card, p: Parameters, data: bool) -> Job:
    """Raises ConfigError for shapes that the tiles do not divide, and pitches below the tile or too wide for UB."""
    for name, unit in (("rows", 16), ("cols", TILE_COLUMNS * COLUMN_SPLITS)):
        if getattr(p, name) < unit or getattr(p, name) % unit:
            raise ConfigError(f"{name} is no multiple", field=name, value=getattr(p, name), allowed=f"multiples of {unit}")
    cores = card.cubes if card.coupled else card.vectors
    blocks = p.blocks or max(cores // COLUMN_SPLITS, 1) * COLUMN_SPLITS
    if blocks < COLUMN_SPLITS or blocks % COLUMN_SPLITS:
        raise ConfigError("blocks form rows of 8", field="blocks", value=blocks, allowed="multiples of 8, or 0")
    # The published kernel of 950 also moves the padded NZ buffers to the other banks.
    shift = HALF_PERIOD if card.npu_arch == 3510 and p.pitch > TILE_ROWS else 0
    at = starts(p.pitch, shift)
    end, size = at[1][1] + (TILE_ROWS + 7 * p.pitch) * 32, int(card.value("buffers.UB.size"))
    if p.pitch < TILE_ROWS or end > size:
        raise ConfigError("the columns do not fit", field="pitch", value=p.pitch, card=card.name,
                          allowed=f"{TILE_ROWS} .. what leaves two tiles in {size} B of UB")  # fmt: skip
    resolved = {**vars(p), "blocks": blocks}
    found = _PUBLISHED.get((card.soc, p.pitch, blocks)) if (p.rows, p.cols) == (8192, 8192) else None
    measured = (Measured("pipes.aiv.V.time_us", found, "us"),) if found is not None else ()
    constants = (p.rows, p.cols, p.pitch, at)
    if not data:
        spec = GmSpec((p.rows, p.cols), asc.float16)
        return Job(nd_to_nz, (spec, spec, *constants), blocks, resolved, metrics=conflicts, measured=measured)
    x = np.random.default_rng(0).integers(-64, 65, (p.rows, p.cols)).astype(np.float16)
    expected = x.reshape(p.rows, -1, C0).transpose(1, 0, 2)
    return Job(nd_to_nz, (x, np.zeros(x.shape, np.float16), *constants), blocks, resolved, metrics=conflicts, measured=measured,
               expect=lambda args: np.array_equal(args[1].reshape(expected.shape), expected))  # fmt: skip
