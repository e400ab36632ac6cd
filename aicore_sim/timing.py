"""What an instruction costs on a card: from the card's numbers only, no constant of its own.

`Timing.price` turns the cost key of an Op into two tick counts: `occupy`, how long the pipe is held when nothing else
interferes, and `latency`, how much later the effects are complete. An isolated instruction ends after both; a stream
pays only the first (spec hardware.md 4). For GM traffic `occupy` is the issue cost alone: the rest depends on addresses
and on the other cores, and is worked out by the engine from the private rate given here.
"""

from __future__ import annotations

from aicore_sim.cards import Card
from aicore_sim.errors import UnsupportedError
from aicore_sim.instructions.base import (
    NDDMA_ELEMENTS,
    TICKS_PER_CYCLE,
    CostKey,
    CubeWork,
    FixWork,
    GmTraffic,
    OnChip,
    Op,
    Pipe,
    ScalarWork,
    VectorWork,
)


def ticks(cycles: float) -> int:
    """Cycles as whole ticks, rounded to nearest."""
    return round(cycles * TICKS_PER_CYCLE)


_NDDMA = ("nddma", NDDMA_ELEMENTS)
"""Layouts of NDDMA copies: their stages work side by side, so the slowest one counts."""

# Where the card keeps the price of a piece of scalar work.
_SCALAR_KEYS = {
    "local_access": "scalar.local_access",
    "dcache_access": "scalar.dcache_hit",
    "dcci_line": "scalar.dcci_line",
    "dcci_all": "scalar.dcci_all",
    "dsb": "scalar.dsb",
    "nddma_dci": "nddma.dci",
}


class Timing:
    """Prices Ops on one card and holds the tick counts the engine needs everywhere."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self._gm: dict[int, tuple[GmTraffic, dict[int | tuple[int, int], int]]] = {}
        self._pace: dict[str, float] = {}
        self.issue = ticks(card.value("scalar.issue"))
        self.set_flag = ticks(card.value("sync.set_flag"))
        self.wait_flag = ticks(card.value("sync.wait_flag"))
        self.barrier = ticks(card.value("sync.barrier"))
        self.barrier_all = ticks(card.value("sync.barrier_all"))
        self.cross_set = ticks(card.value("sync.cross_core_set")) if card.has("sync.cross_core_set") else 0
        self.cross_wait = ticks(card.value("sync.cross_core_wait")) if card.has("sync.cross_core_wait") else 0
        self.sync_all = ticks(card.value("sync.sync_all")) if card.has("sync.sync_all") else 0
        self.core_start = ticks(card.value("launch.core_start_cycles"))
        self.block_start = ticks(card.value("launch.per_block_us") * card.clock_mhz)
        """Between the starts of two blocks."""
        self.dcache_miss = ticks(card.value("scalar.dcache_miss"))

    def price(self, op: Op) -> None:
        """Fill in `op.occupy` and `op.latency`. Raises UnsupportedError where the card has no rate for it."""
        cost = op.cost
        if isinstance(cost, OnChip):
            op.occupy, op.latency = self._on_chip(cost)
            if op.pipe is Pipe.MTE1 and cost.path in ("L1-L0A", "L1-L0B"):
                head = ticks(self.card.path_number(cost.path, "occupancy_head", cost.api))
                op.beside = round((op.occupy - head) * (1.0 / self.card.value("l1.read_share") - 1.0))
        elif isinstance(cost, CubeWork):
            op.occupy, op.latency = self._cube(cost, op.accumulates)
        elif isinstance(cost, VectorWork):
            op.occupy, op.latency = self._vector(cost)
        elif isinstance(cost, FixWork):
            op.occupy, op.latency = self._fix(cost)
        elif isinstance(cost, GmTraffic):
            op.occupy = ticks(self.card.value(f"gm.{cost.path}.issue"))
            op.latency = ticks(self.card.value(f"gm.{cost.path}.latency"))
        else:
            op.occupy, op.latency = self._scalar(cost), 0
        op.priced = True

    def work(self, cost: CostKey) -> float:
        """Cycles that the rates alone ask of the pipe: what is left of `occupy` (GM: of the transfer through the core's
        own port) without heads, issue limits, prices per run, unit flags and other cores. 0 for scalar work."""
        if isinstance(cost, OnChip):
            return self._on_chip_work(cost)
        if isinstance(cost, CubeWork):
            return self.cube_steps(cost.dtype, cost.m, cost.n, cost.k)
        if isinstance(cost, VectorWork):
            return self._vector_work(cost)
        if isinstance(cost, FixWork):
            return self._fix_work(cost)
        return cost.nbytes / self._gm_figures(cost)[0] if isinstance(cost, GmTraffic) else 0.0

    def _on_chip(self, cost: OnChip) -> tuple[int, int]:
        head = self.card.path_number(cost.path, "occupancy_head", cost.api)
        latency = self.card.path_number(cost.path, "latency", cost.api)
        return ticks(head + self._on_chip_work(cost)), max(ticks(latency - head), 0)

    def _on_chip_work(self, cost: OnChip) -> float:
        rate = self.card.path_number(cost.path, "rate", cost.api)
        if cost.load3d is not None:
            rate = min(rate, self._load3d_rate(cost.path, *cost.load3d))
        cycles = cost.nbytes / rate
        if cost.scale_bytes:
            cycles += cost.scale_bytes / self.card.path_number(cost.path, "scale_rate", cost.api)
        return cycles

    def _load3d_rate(self, path: str, stride: int, rows: int) -> float:
        """Img2col rate by stride in W and kernel rows (spec hardware.md 5)."""
        side = "l0b" if path.endswith("L0B") else "l0a"
        floor = self.card.value(f"load3d.floor_{side}")
        if stride not in self.card.ids("load3d.fast_strides"):
            return floor
        offset = self.card.value(f"load3d.offset_{side}") + (rows if rows > 1 else 0)
        rate = self.card.value("load3d.numerator") / (self.card.value("load3d.stride_factor") * stride + offset)
        return max(rate, floor)

    def cube_steps(self, dtype: str, m: int, n: int, k: int) -> float:
        """Cube steps of one Mmad (spec hardware.md 6, with ceil(k/k0) as 18 recommends)."""
        key = f"mmad.types.{dtype}"
        if not self.card.has(f"{key}.k0"):
            raise UnsupportedError("the cube of this card has no such type", field="dtype", value=dtype,
                                   card=self.card.name)  # fmt: skip
        cm, cn, ck, k0 = (self.card.value(f"{key}.{x}") for x in ("cm", "cn", "ck", "k0"))
        work = (-(-m // 16) * 16) * (-(-n // 16) * 16) * (-(-k // int(k0)) * k0)
        return work / (cm * cn * ck)

    def _cube(self, cost: CubeWork, accumulates: bool) -> tuple[int, int]:
        """An accumulating Mmad holds the pipe longer; its isolated time stays the same (spec hardware.md 6)."""
        steps = self.cube_steps(cost.dtype, cost.m, cost.n, cost.k)
        head = self.card.value("mmad.accumulate_head") if accumulates else 0.0
        latency = self.card.value("mmad.latency") - head
        return ticks(max(self.card.value("mmad.issue_min"), steps) + head), max(ticks(latency), 0)

    def _vector(self, cost: VectorWork) -> tuple[int, int]:
        cycles = max(self.card.value("vector.issue_min"), self._vector_work(cost))
        return ticks(cycles), ticks(self.card.value("vector.latency_dependent"))

    def _vector_work(self, cost: VectorWork) -> float:
        rate = self.card.value("vector.bytes_per_cycle") * 8 / cost.bits
        for key in (cost.op, f"{cost.op}_b{cost.bits}"):
            path = f"vector.elements_per_cycle.{key}"
            if self.card.has(path):
                rate = self.card.value(path)
        per_repeat = self.card.value("vector.repeat_bytes") * 8 / cost.bits / rate
        return cost.repeats * per_repeat

    def _fix(self, cost: FixWork) -> tuple[int, int]:
        head = self.card.value("fixpipe.head")
        return ticks(head + self._fix_work(cost)), ticks(self.card.value("fixpipe.latency"))

    def _fix_work(self, cost: FixWork) -> float:
        key = f"fixpipe.rates.{cost.path}.{cost.out_type}"
        if self.card.has(key):
            rate = self.card.value(key)
        else:
            rate = self.card.path_number(cost.path, "rate", None)
        return cost.nbytes / rate

    def _scalar(self, cost: ScalarWork) -> int:
        key = _SCALAR_KEYS.get(cost.key, cost.key)
        return ticks(self.card.value(key)) if self.card.has(key) else self.issue

    def gm_private(self, cost: GmTraffic, runs: int, uneven: int = 0) -> int:
        """Ticks that a transfer in `runs` contiguous runs takes through the core's own port, with nobody else about.

        `uneven` of the runs start off the 32 B grain of a destination block.
        """
        # By identity: an Op keeps its cost key for its life, and hashing the key would cost more than the sum.
        known = self._gm.get(id(cost))
        if known is None:
            known = self._gm[id(cost)] = (cost, {})
        key = (runs, uneven) if uneven else runs
        found = known[1].get(key)
        if found is None:
            rate, head, row, slow = self._gm_figures(cost)
            cycles = cost.nbytes / rate
            if cost.layout in _NDDMA:
                cycles = max(cycles, runs * row)
            else:
                cycles += head + runs * row
                if slow and uneven:
                    # A row that starts off the grain is cut into narrow pieces from its start on (spec hardware.md 11.3).
                    cycles += cost.nbytes * uneven / runs * max(1 / slow - 1 / rate, 0.0)
            found = known[1][key] = round(cycles * TICKS_PER_CYCLE) or 1
        return found

    def gm_beside_bypass(self, cost: GmTraffic) -> int:
        """Least ticks of a store while loads of its core go past L2; 0 where the card has no rate for that."""
        key = f"gm.{cost.path}.rate_beside_bypass"
        return ticks(cost.nbytes / self.card.value(key)) if self.card.has(key) else 0

    def gm_pace(self, cost: GmTraffic) -> float:
        """Ticks between two bytes of a transfer at the rate of its port."""
        found = self._pace.get(cost.path)
        if found is None:
            found = self._pace[cost.path] = TICKS_PER_CYCLE / self.card.value(f"gm.{cost.path}.port_rate")
        return found

    def _gm_figures(self, cost: GmTraffic) -> tuple[float, float, float, float]:
        """(bytes per cycle, head, cycles per run, bytes per cycle of rows off the grain or 0) of a GM path for one layout
        and result type."""
        value, key = self.card.value, f"gm.{cost.path}"
        rate = value(f"{key}.port_rate")
        out = f"fixpipe.rates.{cost.path}.{cost.out_type}"
        if cost.out_type and self.card.has(out):
            rate = min(rate, value(out))
        if cost.layout in _NDDMA:
            by_element = cost.layout == NDDMA_ELEMENTS  # its rows are single elements
            row = 1.0 / value("nddma.element_rate") if by_element else value("nddma.run_head")
            return min(rate, value("nddma.gather_rate")), 0.0, row, 0.0
        if cost.layout == "nd2nz" and self.card.has(f"{key}.nd2nz_head"):
            slow = f"{key}.nd2nz_unaligned_rate"
            return rate, value(f"{key}.nd2nz_head"), value(f"{key}.nd2nz_row"), value(slow) if self.card.has(slow) else 0.0
        return rate, 0.0, value(f"{key}.row"), 0.0
