"""Max-min fair sharing of L2 and memory among the GM transfers in flight.

Every live transfer (flow) has a private rate limit (its core's port) and uses the L2 with all of its bytes and the
memory with the share that missed. Rates are recomputed only when a flow starts or ends: all rates grow together, a flow
stops at its own limit or when a shared resource it uses is full. That is work-conserving and order-free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OnEnd = Callable[[tuple[int, int, int]], Any]
PORT, L2, HBM = 0, 1, 2
"""Columns of the time a flow spent at each limit."""
_CAP, _READ, _WRITE, _MEM, _LEFT, _RATE, _LIMIT, _T0 = range(8)
_COLUMNS = _T0 + 3
_EPS = 1e-6


@njit(cache=True)  # type: ignore[untyped-decorator]
def _share(flows: Floats, n: int, capacity: Floats) -> float:
    """Fill in rate and limit of the first n flows; returns the time until the first of them ends (inf if none)."""
    slack = capacity.copy()
    level = 0.0
    open_flows = n
    for i in range(n):
        flows[i, _RATE] = -1.0
    while open_flows > 0:
        demand = np.zeros(3)
        step = np.inf
        for i in range(n):
            if flows[i, _RATE] < 0.0:
                step = min(step, flows[i, _CAP] - level)
                demand[0] += flows[i, _READ]
                demand[1] += flows[i, _WRITE]
                demand[2] += flows[i, _MEM]
        for r in range(3):
            if demand[r] > 0.0:
                step = min(step, slack[r] / demand[r])
        step = max(step, 0.0)
        level += step
        for r in range(3):
            slack[r] -= step * demand[r]
        before = open_flows
        for i in range(n):
            if flows[i, _RATE] < 0.0:
                limit = -1
                if flows[i, _CAP] <= level * (1.0 + 1e-12):
                    limit = 0
                elif flows[i, _MEM] > 0.0 and slack[2] <= 1e-9 * capacity[2]:
                    limit = 2
                elif (flows[i, _READ] > 0.0 and slack[0] <= 1e-9 * capacity[0]) or (
                    flows[i, _WRITE] > 0.0 and slack[1] <= 1e-9 * capacity[1]
                ):
                    limit = 1
                if limit >= 0:
                    flows[i, _RATE] = level
                    flows[i, _LIMIT] = limit
                    open_flows -= 1
        if open_flows == before:
            break
    first = np.inf
    for i in range(n):
        first = min(first, flows[i, _LEFT] / flows[i, _RATE])
    return max(first, 0.0)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _step(flows: Floats, n: int, dt: float, capacity: Floats, ended: Floats) -> tuple[int, float]:
    """Advance the first n flows by dt, take out those that are through (their row and times go to `ended`), share anew.

    Returns how many are left and the time until the next one ends.
    """
    left = 0
    out = 0
    for i in range(n):
        flows[i, _LEFT] -= flows[i, _RATE] * dt
        if flows[i, _RATE] > 0.0:
            flows[i, _T0 + int(flows[i, _LIMIT])] += dt
        if flows[i, _LEFT] <= _EPS * max(flows[i, _RATE], 1.0):
            ended[out, 0] = i
            for c in range(3):
                ended[out, 1 + c] = flows[i, _T0 + c]
            out += 1
        else:
            if left < i:
                flows[left] = flows[i]
            left += 1
    return left, _share(flows, left, capacity)


@dataclass(slots=True)
class Solo:
    """One flow by itself: bytes left, private rate, use of the L2 and of memory for each byte moved."""

    left: float
    cap: float
    is_read: bool
    l2: float
    memory: float
    on_end: OnEnd

    def rate(self, limits: tuple[float, float, float]) -> tuple[float, int]:
        """(bytes per tick, what limits it) with nobody else about."""
        rate, limit = self.cap, PORT
        l2 = limits[0 if self.is_read else 1]
        if self.memory > 0.0 and limits[2] / self.memory < rate:
            rate, limit = limits[2] / self.memory, HBM
        if self.l2 > 0.0 and l2 / self.l2 < rate:
            rate, limit = l2 / self.l2, L2
        return rate, limit

    def alone(self, limits: tuple[float, float, float]) -> tuple[int, int]:
        """(whole ticks to the end, what limits it)."""
        rate, limit = self.rate(limits)
        return math.ceil(self.left / rate - _EPS) or 1, limit


def _spent(limit: int, ticks: int) -> tuple[int, int, int]:
    return (ticks, 0, 0) if limit == PORT else (0, ticks, 0) if limit == L2 else (0, 0, ticks)


class SharedBandwidth:
    """The flows in flight and the clock that ends them. Rates in bytes per tick, times in ticks.

    `start(...)` must be called at the simulated time the flow begins; `on_end(flow times)` runs at the tick it ends.
    With `contention=False` every flow runs as if it were alone. A flow that is alone needs no table: `_solo`.
    """

    def __init__(self, env: simpy.Environment, l2_read: float, l2_write: float, memory: float, contention: bool) -> None:
        self.env = env
        self.contention = contention
        self._limits = (l2_read, l2_write, memory)
        self._capacity = np.array(self._limits, np.float64)
        self._flows = np.zeros((256, _COLUMNS), np.float64)
        self._ended = np.zeros((256, 4), np.float64)
        self._ends: list[OnEnd] = []
        self._last = 0
        self._version = 0
        self._solo: Solo | None = None

    def start(self, nbytes: int, private_ticks: int, is_read: bool, l2_bytes: float, memory_bytes: float,
              on_end: OnEnd) -> None:  # fmt: skip
        """Begin a flow of `nbytes` that alone would take `private_ticks`.

        `l2_bytes` is what it costs the L2 (whole access units), `memory_bytes` its memory traffic.
        `on_end((port, l2, hbm))` gets the ticks spent at each limit.
        """
        flow = Solo(nbytes, nbytes / private_ticks, is_read, l2_bytes / nbytes, memory_bytes / nbytes, on_end)
        if not self.contention:
            ticks, limit = flow.alone(self._limits)
            self._call(ticks, lambda _event: on_end(_spent(limit, ticks)))
            return
        now = int(self.env.now)
        if not self._ends and self._solo is None:
            self._begin_solo(flow, now)
            return
        if self._solo is not None:
            self._add(self._solo)
            self._solo = None
        self._add(flow)
        self._step()

    def _begin_solo(self, flow: Solo, now: int) -> None:
        self._version += 1
        self._solo, self._last = flow, now
        ticks, limit = flow.alone(self._limits)
        version = self._version

        def end(_event: Any) -> None:
            if version == self._version:
                self._solo = None
                flow.on_end(_spent(limit, ticks))

        self._call(ticks, end)

    def _add(self, flow: Solo) -> None:
        """A row in the table of flows."""
        n = len(self._ends)
        if n == len(self._flows):
            self._flows = np.concatenate([self._flows, np.zeros_like(self._flows)])
            self._ended = np.concatenate([self._ended, np.zeros_like(self._ended)])
        row = self._flows[n]
        row[:] = 0.0
        row[_CAP] = flow.cap
        row[_READ if flow.is_read else _WRITE] = flow.l2
        row[_MEM] = flow.memory
        row[_LEFT] = flow.left
        self._ends.append(flow.on_end)
        if self._solo is flow:
            rate, row[_LIMIT] = flow.rate(self._limits)
            row[_RATE] = rate

    def _call(self, delay: int, action: Callable[[Any], None]) -> None:
        simpy.Timeout(self.env, delay).callbacks = [action]

    def _step(self) -> None:
        """Bring all flows up to now, end those that are through, share anew and schedule the next end.

        Older schedules become void. Flows that end hear of it after the sharing, so that they may start new ones.
        """
        self._version += 1
        now = int(self.env.now)
        n, first = _step(self._flows, len(self._ends), float(now - self._last), self._capacity, self._ended)
        self._last = now
        ended: list[tuple[OnEnd, list[float]]] = []
        if n < len(self._ends):
            gone = self._ended[: len(self._ends) - n]
            ended = [(self._ends[int(row[0])], row[1:].tolist()) for row in gone]
            through = {int(row[0]) for row in gone}
            self._ends = [end for i, end in enumerate(self._ends) if i not in through]
        if n:
            version = self._version
            # Rounded up to a whole tick: a flow never ends before its last byte.
            self._call(max(math.ceil(first - _EPS), 0), lambda _event: self._tick(version))
        for on_end, (port, l2, hbm) in ended:
            on_end((round(port), round(l2), round(hbm)))

    def _tick(self, version: int) -> None:
        if version == self._version:
            self._step()
