"""Speed of the simulator itself, measured against what it stands on: raw SimPy for events, numpy for bytes.

Figures of different machines cannot be compared, the ratios can: each is taken between neighbours of one process, with
the repeats of both sides interleaved so that noise of the machine meets both.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from aicore_sim import bench_calls, dtypes
from aicore_sim.cards import Card, load_card
from aicore_sim.instructions.nd2nz import Nd2NzParams
from aicore_sim.kernel.api_copy import data_copy
from aicore_sim.kernel.enums import KernelType, TPosition
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.kernel.values import ConstExpr
from aicore_sim.launch import Options, Run, run_kernel
from aicore_sim.scenario import load_scenario

CARD = "atlas_a2"
MATMUL = ("M=2048", "N=2048", "K=2048")
TIMEOUTS = 200_000
"""Events of one repeat of the SimPy side."""
C0 = 16
"""half elements of a 32 B block."""
SOURCE = (1024, 2048)
"""Shape of the matrix that the tiles are cut out of: wider than a tile, so that every tile is strided."""


@dataclass(frozen=True)
class Result:
    """The figures of `aicore-sim bench`.

    `instructions_per_s`: queue entries (flags included) per second of engine time, a matmul of 2048 cubed, times only.
    `simpy_timeouts_per_s`: one SimPy process that yields timeouts; `ratio` is the first over the second.
    `copy_ratio`: bytes per second of ND2NZ tiles through whole runs with data (recording, engine and bytes) over numpy's
    own strided copies of the same tiles, as many tiles of 16 KB as of 256 KB; then for each size alone, where small tiles
    show the cost of an instruction and large ones that of the bytes.
    `peak_mb`: peak resident memory of the process in 2**20 bytes.
    `call_us`: microseconds per call of some APIs, recording and engine, without data (`bench_calls`).
    """

    instructions_per_s: float
    simpy_timeouts_per_s: float
    ratio: float
    copy_ratio: float
    copy_ratio_16k: float
    copy_ratio_256k: float
    check_ratio: float
    """Wall time of a run with its findings over that of one without checks."""
    peak_mb: float
    call_us: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tiles:
    """A stream of tiles: `count` tiles of rows x cols half out of `SOURCE`, each to the next slot of L1."""

    rows: int
    cols: int
    count: int

    @property
    def nbytes(self) -> int:
        """Of one tile."""
        return self.rows * self.cols * 2

    def places(self, l1_bytes: int) -> list[tuple[int, int, int]]:
        """(row, column, byte offset in L1) of every tile, row by row through the source."""
        down, across, slots = SOURCE[0] // self.rows, SOURCE[1] // self.cols, l1_bytes // self.nbytes
        return [(t // across % down * self.rows, t % across * self.cols, t % slots * self.nbytes)
                for t in range(self.count)]  # fmt: skip


SMALL = Tiles(64, 128, 512)
LARGE = Tiles(256, 512, 512)


def run_bench(repeat: int = 5, say: Callable[[str], None] = lambda _: None) -> Result:
    """Measure everything: medians of `repeat` after one warm-up that compiles, of calls the best. `say` gets progress."""
    card = load_card(CARD)
    engine, events, checked = _event_speeds(card, repeat, say)
    small, large = (_copy_seconds(card, tiles, repeat, say) for tiles in (SMALL, LARGE))
    calls = bench_calls.call_us(repeat, say)
    return Result(
        instructions_per_s=engine,
        simpy_timeouts_per_s=events,
        ratio=engine / events,
        copy_ratio=(small[1] + large[1]) / (small[0] + large[0]),  # both sides move the same bytes
        copy_ratio_16k=small[1] / small[0],
        copy_ratio_256k=large[1] / large[0],
        check_ratio=checked,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        call_us=calls,
    )


def _event_speeds(card: Card, repeat: int, say: Callable[[str], None]) -> tuple[float, float, float]:
    """Instructions and SimPy timeouts per second, and what checking costs."""
    say("warm-up")
    _matmul(card)
    _checked_seconds(card)
    simpy_timeouts(TIMEOUTS)
    engine, events, checked = [], [], []
    for i in range(repeat):
        run = _matmul(card)
        engine.append(run.instructions / run.engine_s)
        events.append(TIMEOUTS / simpy_timeouts(TIMEOUTS))
        checked.append(_checked_seconds(card) / run.wall_s)
        say(f"matmul {i + 1}/{repeat}: {engine[-1]:,.0f} instructions/s, SimPy {events[-1]:,.0f} timeouts/s, "
            f"with checks {checked[-1]:.2f} times as long")  # fmt: skip
    return statistics.median(engine), statistics.median(events), statistics.median(checked)


def _matmul(card: Card, checks: bool = False) -> Run:
    scenario = load_scenario("matmul")
    return scenario.run(card, scenario.parse(MATMUL), Options(data=False, checks=checks))[0]


def _checked_seconds(card: Card) -> float:
    """Wall time of the same run with its hazards worked out."""
    run = _matmul(card, checks=True)
    began = time.perf_counter()
    assert run.hazards.clean
    return run.wall_s + time.perf_counter() - began


def simpy_timeouts(count: int) -> float:
    """Seconds that bare SimPy takes for `count` timeouts of one process."""
    env = simpy.Environment()

    def process() -> Any:
        for _ in range(count):
            yield env.timeout(1)

    env.process(process())
    began = time.perf_counter()
    env.run()
    return time.perf_counter() - began


def _copy_tiles(source: GlobalAddress, params: ConstExpr, places: ConstExpr) -> None:
    """Copy tiles GM -> L1 as ND2NZ. No flags: slots are reused long after their last copy has landed."""
    shape: Any = params
    stream: Any = places
    gm = GlobalTensor()
    gm.set_global_buffer(source)
    elements = shape.n_value * shape.d_value
    slots = {at: LocalTensor(dtypes.half, TPosition.A1, at, elements) for at in dict.fromkeys(at for _, _, at in stream)}
    for row, col, at in stream:
        data_copy(slots[at], gm[row * SOURCE[1] + col], shape)


COPY_TILES = jit(kernel_type=KernelType.AIC_ONLY)(_copy_tiles)


def _copy_seconds(card: Card, tiles: Tiles, repeat: int, say: Callable[[str], None]) -> tuple[float, float]:
    """Median seconds of (simulator, numpy) for the same stream of tiles."""
    source = np.arange(SOURCE[0] * SOURCE[1], dtype=np.uint16).view(np.float16).reshape(SOURCE)
    source.flags.writeable = False  # an input only: nothing to copy back
    l1_bytes = int(card.value("buffers.L1.size"))
    places = tiles.places(l1_bytes)
    simulated, plain = [], []
    for i in range(repeat + 1):
        ours = run_copies(card, tiles, source, places).wall_s
        theirs = numpy_copies(tiles, source, places, np.zeros(l1_bytes, np.uint8))
        if i:  # the first is the warm-up
            simulated.append(ours)
            plain.append(theirs)
    say(f"{tiles.count} tiles of {tiles.nbytes // 1024} KB: {statistics.median(simulated) * 1e3:.1f} ms, "
        f"numpy {statistics.median(plain) * 1e3:.1f} ms")  # fmt: skip
    return statistics.median(simulated), statistics.median(plain)


def run_copies(card: Card, tiles: Tiles, source: NDArray[Any], places: list[tuple[int, int, int]]) -> Run:
    """The stream of tiles through a whole run with data on one cube core."""
    params = Nd2NzParams(1, tiles.rows, tiles.cols, 0, SOURCE[1], tiles.rows, 1, 0)
    return run_kernel(COPY_TILES, (source, params, tuple(places)), {}, 1, card, Options(checks=False))


def numpy_copies(
    tiles: Tiles, source: NDArray[Any], places: list[tuple[int, int, int]], l1: NDArray[np.uint8]
) -> float:
    """Seconds for the same tiles copied into `l1` by numpy alone."""
    blocks = tiles.cols // C0
    began = time.perf_counter()
    for row, col, at in places:
        cut = source[row : row + tiles.rows, col : col + tiles.cols].reshape(tiles.rows, blocks, C0)
        l1[at : at + tiles.nbytes].view(np.float16).reshape(blocks, tiles.rows, C0)[...] = cut.transpose(1, 0, 2)
    return time.perf_counter() - began
