"""The cost of one call of a movement API, alone and in a stream of such calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import AiCoreError, ParameterError
from aicore_sim.estimate.answer import Estimate, gbps_of
from aicore_sim.estimate.evidence import measured_basis
from aicore_sim.estimate.kernel import BETWEEN_CORES
from aicore_sim.estimate.measure import bound_by
from aicore_sim.estimate.peaks import narrowest_gbps
from aicore_sim.explain.element_map import core_of, position_of, record_call
from aicore_sim.explain.forms import Arguments, Form, arguments, form_of
from aicore_sim.instructions.base import TICKS_PER_CYCLE
from aicore_sim.kernel import language
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.kernel.context import Session
from aicore_sim.kernel.enums import KernelType, TPosition
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.kernel.tensor import GlobalAddress
from aicore_sim.launch import Options, run_kernel
from aicore_sim.memory import GlobalMemory
from aicore_sim.uncertainty import spread

STREAM = 16
"""Calls of a stream; its second half is measured."""
_APART = 512
"""In GM the calls of a stream begin at multiples of this many bytes: whole lines of L2."""
_OPTIONS = Options(data=False, checks=False)
_GM_BYTES = 1 << 40
"""Room for either operand in GM: no bytes are kept."""


@dataclass(frozen=True)
class _Call:
    """A call with its tensors: positions and buffers are (source, destination), `apart` bytes between calls in GM;
    `instructions` is how many it issues."""

    form: Form
    arguments: Arguments
    dtype: DataType
    positions: tuple[str, str]
    buffers: tuple[str, str]
    apart: tuple[int, int]
    instructions: int
    warm: bool

    @property
    def path(self) -> str:
        return "-".join(self.buffers)

    @property
    def name(self) -> str:
        return f"{self.form.api} {self.form.name}"


@dataclass(frozen=True)
class _Times:
    """Cycles of the last of some calls: from the first issue to the last effect, and from effect to effect in a stream."""

    cycles: float
    period: float
    bound_by: str
    launch_us: float


def estimate_call(
    struct: str, words: Sequence[str], card: Card, *, dtype: str | None = None, src: str | None = None, dst: str | None = None,
    warm: bool = False,
) -> Estimate:  # fmt: skip
    """What one call of `struct` with the fields `words` (as `explain` takes them) costs on `card`.

    `time_us` is the call alone, from its issue to its effect; `stream_us` the time of one among `STREAM` calls that follow
    each other without waits, in GM at places of their own. A call that the card refuses gives a row with the reason.
    Raises ParameterError for an unknown struct, field, position or type.
    """
    form = form_of(struct)
    kind = DataType(dtype or form.dtype)
    if not kind.bits:
        raise ParameterError("elements need a width", field="dtype", value=kind.name)
    positions = position_of(src or form.src, "src"), position_of(dst or form.dst, "dst")
    buffers = card.position(positions[0]), card.position(positions[1])
    given = arguments(form, words, kind, *buffers)
    row = Estimate(card.name, card.soc, False)
    try:
        entries = record_call(Session(card, GlobalMemory(data=False), data=False, auto_sync=False), form, given, kind, positions)
        if not entries:
            return replace(row, reason="the call moves nothing: a count or length is 0")
        call = _Call(form, given, kind, positions, buffers, (_span(entries, 1), _span(entries, 0)), len(entries), warm)
        alone, stream = _timed(card, call, 1), _timed(card, call, STREAM)
    except AiCoreError as error:
        return replace(row, reason=error.message + (f"; allowed: {error.allowed}" if error.allowed else ""))
    nbytes = sum(entry.op.nbytes for entry in entries if entry.op is not None)
    return _filled(row, card, call, alone, stream, nbytes)


def _span(entries: Sequence[Entry], operand: int) -> int:
    """Bytes from the first to the last that the call touches of an operand, from the start of its tensor."""
    ends = [entry.offs[operand] + last for entry in entries if entry.op is not None
            for index, _, last in (*entry.op.reads, *entry.op.writes) if index == operand]  # fmt: skip
    return -(-max(ends, default=0) // _APART) * _APART


def _filled(row: Estimate, card: Card, call: _Call, alone: _Times, stream: _Times, nbytes: int) -> Estimate:
    def times(changed: Card) -> Mapping[str, float]:
        clock = changed.clock_mhz
        return {"alone": _timed(changed, call, 1).cycles / clock, "stream": _timed(changed, call, STREAM).period / clock}

    intervals = spread(times, card)
    one, many = intervals["alone"], intervals["stream"]
    time_us, stream_us = alone.cycles / card.clock_mhz, stream.period / card.clock_mhz
    throughput = gbps_of(nbytes, stream_us)
    movements = [(call.name, call.path)]
    return replace(
        row, supported=True, apis=[f"{call.name} {call.path}"], cycles=alone.cycles, time_us=time_us,
        gbps=gbps_of(nbytes, time_us), peak_share=gbps_of(nbytes, time_us) / narrowest_gbps(card, movements, 1, not call.warm),
        bound_by=alone.bound_by, low_us=max(one.low, 0.0), high_us=one.high, dominated_by=one.dominated_by,
        measured_basis=measured_basis(card, movements), alternatives=[], launch_us=alone.launch_us,
        throughput_gbps=throughput, stream_us=stream_us, stream_low_us=max(many.low, 0.0), stream_high_us=many.high,
        bytes=nbytes, blocks=1, streamed=False, parts=list(one.parts),
        note=f"in a stream bound by {stream.bound_by}, dominated by {many.dominated_by or 'documented numbers'}",
    )  # fmt: skip


# ---- the kernel -----------------------------------------------------------------------------------------------------
def _timed(card: Card, call: _Call, count: int) -> _Times:
    """`count` calls one behind the other; with `warm` all of them once before."""
    core = call.form.core or core_of(*call.buffers)
    mixed = call.path in BETWEEN_CORES and not card.coupled
    kind = KernelType.MIX_AIC_1_2 if mixed else KernelType.AIV_ONLY if core == "aiv" else KernelType.AIC_ONLY

    def calls(source: GlobalAddress, destination: GlobalAddress) -> None:
        here = card.coupled or bool(language.ascend_is_aiv() if core == "aiv" else language.ascend_is_aic())
        if not here or int(language.get_sub_block_idx()) > 0:
            return
        for again in range(2 if call.warm else 1):
            if again:
                language.pipe_barrier(language.PipeID.PIPE_ALL)
            for number in range(count):
                _issue(card, call, number, source, destination)

    args = tuple(GmSpec((_GM_BYTES * 8 // call.dtype.bits,), call.dtype) for _ in range(2))
    done = run_kernel(jit(kernel_type=kind)(calls), args, {}, 1, card, _OPTIONS)
    c = done.columns
    rows = np.flatnonzero(c.kind == int(Kind.EXEC))[-count * call.instructions :]
    ends = np.maximum.accumulate(c.end[rows].reshape(count, -1).max(axis=1)) / TICKS_PER_CYCLE
    half = count // 2
    period = float(ends[-1] - ends[half - 1]) / (count - half) if half else 0.0
    pipe = next(op.pipe.name for op in c.ops if op.path)
    cycles = float(ends[-1]) - float(c.issue[rows].min()) / TICKS_PER_CYCLE
    return _Times(cycles, period, bound_by(c, [(call.path, pipe, rows)]), done.launch_us)


def _issue(card: Card, call: _Call, number: int, source: GlobalAddress, destination: GlobalAddress) -> None:
    tensors = [
        _tensor(card, call.dtype, position, buffer, address, number * apart)
        for position, buffer, address, apart in zip(call.positions, call.buffers, (source, destination), call.apart, strict=True)
    ]
    getattr(language, call.form.call)(tensors[1], tensors[0], *call.arguments.args, **call.arguments.kwargs)


def _tensor(card: Card, dtype: DataType, position: str, buffer: str, address: GlobalAddress, offset: int) -> Any:
    if buffer == "GM":
        tensor = language.GlobalTensor()
        tensor.set_global_buffer(address)
        return tensor[offset * 8 // dtype.bits] if offset else tensor
    elements = int(card.value(f"buffers.{buffer}.size")) * 8 // dtype.bits
    return language.LocalTensor(dtype, TPosition[position], 0, elements)
