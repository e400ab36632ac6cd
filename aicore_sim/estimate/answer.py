"""The answer of `estimate`: one row for a card, the same keys whatever the question and whether it can be done."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from aicore_sim.uncertainty import Part


@dataclass(frozen=True)
class Alternative:
    """Another legal chain."""

    apis: list[str]
    cycles: float
    time_us: float
    gbps: float


@dataclass(frozen=True)
class Estimate:
    """One row of the answer; what does not apply is None.

    `time_us` (and `cycles`) runs from the first issue to the last byte usable, without the launch, which is `launch_us`;
    `gbps` is the matrix over this time, `throughput_gbps` the rate when such movements follow each other and `stream_us` the
    time of one then. `low_us` and `high_us` bound the time (`uncertainty.spread`), `stream_low_us` and `stream_high_us` that of
    a call in a stream; `parts` are (key, us at its lower end, us at its upper end).
    """

    card: str
    soc: str
    supported: bool
    apis: list[str] | None = None
    cycles: float | None = None
    time_us: float | None = None
    gbps: float | None = None
    peak_share: float | None = None
    bound_by: str | None = None
    low_us: float | None = None
    high_us: float | None = None
    dominated_by: str | None = None
    measured_basis: str | None = None
    alternatives: list[Alternative] | None = None
    reason: str | None = None
    launch_us: float | None = None
    throughput_gbps: float | None = None
    stream_us: float | None = None
    stream_low_us: float | None = None
    stream_high_us: float | None = None
    bytes: int | None = None
    blocks: int | None = None
    src_layout: str | None = None
    dst_layout: str | None = None
    streamed: bool | None = None
    note: str | None = None
    parts: list[Part] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data, every key in it."""
        return asdict(self)


def gbps_of(nbytes: float, time_us: float) -> float:
    """1e9 bytes per second."""
    return nbytes / (time_us * 1e3)
