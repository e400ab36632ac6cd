"""Hand-made `Columns` for tests of everything that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aicore_sim.engine.columns import Cause, Columns, CoreInfo, Ints
from aicore_sim.instructions.base import TICKS_PER_CYCLE, CubeWork, GmTraffic, Op, Pipe, VectorWork
from aicore_sim.kernel.program import Kind

AIV_PIPES = (Pipe.S, Pipe.MTE2, Pipe.V, Pipe.MTE3)
AIC_PIPES = (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX)

LOAD = Op(
    "DataCopy", Pipe.MTE2, GmTraffic("GM-UB", 1000, 1, True), path="GM-UB", nbytes=1000, gm_operand=1,
    detail="count=250",
)  # fmt: skip
STORE = Op("DataCopy", Pipe.MTE3, GmTraffic("UB-GM", 500, 1, False), path="UB-GM", nbytes=500, gm_operand=0)
ADD = Op("Add", Pipe.V, VectorWork("add", 32, 250, 4), nbytes=3000)
MMAD = Op("Mmad", Pipe.M, CubeWork("half", 16, 16, 16))
OPS = (LOAD, STORE, ADD, MMAD)


@dataclass(frozen=True)
class Row:
    """One row of Columns; times in cycles.

    `gm` = (port, l2, hbm, same address) cycles, then (hit, missed, evicted, requested) bytes.
    """

    pipe: Pipe
    start: int
    free: int
    op: Op | None = None
    core: int = 0
    kind: Kind = Kind.EXEC
    issue: int = 0
    end: int = 0
    issue_cause: Cause = Cause.ISSUE
    cause: Cause = Cause.ISSUE
    unit_flag: int = 0
    gm: tuple[int, ...] = ()
    arg: int = 0
    line: int = 0


def aiv(index: int) -> CoreInfo:
    return CoreInfo(f"core{index // 2}.aiv{index % 2}", "aiv", index // 2, index % 2, AIV_PIPES)


def aic(index: int) -> CoreInfo:
    return CoreInfo(f"core{index}.aic", "aic", index, 0, AIC_PIPES)


def make_columns(
    rows: Sequence[Row],
    cores: Sequence[CoreInfo] = (aiv(0),),
    length: int | None = None,
    core_start: Sequence[int] | None = None,
    core_end: Sequence[int] | None = None,
    scalar: dict[tuple[int, Cause], int] | None = None,
    clock_mhz: float = 1000.0,
    counters: dict[str, int] | None = None,
) -> Columns:
    """Columns of `rows`. Times are cycles; `scalar` gives cycles of (core, cause), the rest of S is idle."""
    t = TICKS_PER_CYCLE
    ends = [max(row.end, row.free) for row in rows]
    whole = length if length is not None else max(ends, default=0)
    gm = [[i, *(x * t for x in row.gm[:4]), *row.gm[4:]] for i, row in enumerate(rows) if row.gm]
    unit = np.zeros((len(cores), len(Cause)), np.int64)
    for (core, cause), cycles in (scalar or {}).items():
        unit[core, cause] = cycles * t
    unit[:, Cause.IDLE] += whole * t - unit.sum(axis=1)

    def column(values: Sequence[int], scale: int = 1) -> Ints:
        return np.array(values, np.int64) * scale

    return Columns(
        core=column([row.core for row in rows]),
        pipe=column([row.pipe for row in rows]),
        kind=column([row.kind for row in rows]),
        op=column([OPS.index(row.op) if row.op is not None else -1 for row in rows]),
        arg=column([row.arg for row in rows]),
        line=column([row.line for row in rows]),
        issue=column([row.issue for row in rows], t),
        start=column([row.start for row in rows], t),
        free=column([row.free for row in rows], t),
        end=column(ends, t),
        issue_cause=column([row.issue_cause for row in rows]),
        cause=column([row.cause for row in rows]),
        unit_flag=column([row.unit_flag for row in rows], t),
        gm=np.array(gm, np.int64).reshape(-1, 9),
        scalar=unit,
        core_start=column(core_start if core_start is not None else [0] * len(cores), t),
        core_end=column(core_end if core_end is not None else [whole] * len(cores), t),
        length=whole * t,
        cores=tuple(cores),
        ops=OPS,
        lines=(("kernel.py", 10), ("kernel.py", 11)),
        clock_mhz=clock_mhz,
        counters=counters or {},
    )


def stream(n: int, n_cores: int, seed: int = 0) -> Columns:
    """A load-add-store pipeline of about `n` rows over `n_cores` vector cores, for tests of size and for pictures."""
    rng = np.random.default_rng(seed)
    pipes = (Pipe.MTE2, Pipe.MTE2, Pipe.V, Pipe.V, Pipe.MTE3, Pipe.MTE3)
    kinds = (Kind.EXEC, Kind.SET_FLAG, Kind.WAIT_FLAG, Kind.EXEC, Kind.WAIT_FLAG, Kind.EXEC)
    ops = (0, -1, -1, 2, -1, 1)
    rounds = max(1, n // (6 * n_cores))
    t = TICKS_PER_CYCLE
    duration = rng.integers(60, 140, (n_cores, rounds)) * t
    load_free = np.cumsum(duration + 10 * t, axis=1)
    parts: dict[str, list[Ints]] = {name: [] for name in ("core", "pipe", "kind", "op", "start", "free")}
    load_start = load_free - duration
    times = {
        0: (load_start, load_free),
        1: (load_free, load_free),
        2: (load_free - 40 * t, load_free),
        3: (load_free, load_free + 20 * t),
        4: (load_free + 5 * t, load_free + 20 * t),
        5: (load_free + 20 * t, load_free + 45 * t),
    }
    for slot in range(6):
        start, free = times[slot]
        for name, value in zip(("pipe", "kind", "op"), (pipes[slot], kinds[slot], ops[slot]), strict=True):
            parts[name].append(np.full(start.size, value, np.int64))
        parts["core"].append(np.repeat(np.arange(n_cores), rounds))
        parts["start"].append(start.ravel())
        parts["free"].append(free.ravel())
    flat = {name: np.concatenate(value) for name, value in parts.items()}
    order = np.lexsort((flat["free"], flat["start"]))
    flat = {name: value[order] for name, value in flat.items()}
    size = flat["core"].size
    loads = np.flatnonzero(flat["op"] == 0)
    gm = np.zeros((loads.size, 9), np.int64)
    gm[:, 0] = loads
    gm[:, 3] = (flat["free"] - flat["start"])[loads] // 2
    gm[:, 6] = gm[:, 8] = 1000
    length = int(flat["free"].max())
    scalar = np.zeros((n_cores, len(Cause)), np.int64)
    scalar[:, Cause.ISSUE] = length // 4
    scalar[:, Cause.IDLE] = length - length // 4
    zeros = np.zeros(size, np.int64)
    return Columns(
        core=flat["core"], pipe=flat["pipe"], kind=flat["kind"], op=flat["op"], start=flat["start"], free=flat["free"],
        arg=zeros, line=zeros, issue=zeros, end=flat["free"], issue_cause=zeros + int(Cause.ISSUE),
        cause=zeros + int(Cause.ISSUE), unit_flag=zeros, gm=gm, scalar=scalar,
        core_start=np.zeros(n_cores, np.int64), core_end=np.full(n_cores, length), length=length,
        cores=tuple(aiv(i) for i in range(n_cores)), ops=OPS, lines=(("kernel.py", 10),), clock_mhz=1650.0,
    )  # fmt: skip
