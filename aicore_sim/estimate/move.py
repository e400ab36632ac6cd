"""`estimate`: the fastest legal chain for a movement on a card, how long it takes and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aicore_sim.cards import Card
from aicore_sim.errors import AiCoreError
from aicore_sim.estimate.answer import Alternative, Estimate, gbps_of
from aicore_sim.estimate.chains import Chain, chains, never
from aicore_sim.estimate.evidence import measured_basis
from aicore_sim.estimate.measure import MOST_PARTS, Measured, Trial, measured, trial
from aicore_sim.estimate.peaks import narrowest_gbps
from aicore_sim.estimate.plan import plan
from aicore_sim.estimate.request import Matrix, Request, natural, natural_source, normal
from aicore_sim.explain.element_map import position_of
from aicore_sim.uncertainty import Interval, spread


@dataclass(frozen=True)
class _Found:
    tried: Trial
    result: Measured


def estimate(request: Request, card: Card) -> Estimate:
    """How long `request` takes on `card`: the fastest chain that its calls accept, with an interval.

    A movement that the card cannot do gives a row that is not supported and says why. Raises ParameterError for an
    unknown position.
    """
    src, dst = (card.position(position_of(name, field)) for name, field in ((request.src, "src"), (request.dst, "dst")))
    row = Estimate(card.name, card.soc, False)
    matrix = never(src, dst) or normal(request, src, card, dst)
    if isinstance(matrix, str):
        return replace(row, reason=matrix)
    known = chains(card, src, dst, matrix, request.dtype)
    if isinstance(known, str):
        return replace(row, reason=known)
    notes = []
    cores = card.vectors if all(step.core == "aiv" for step in known[0].steps) else card.cubes
    blocks = min(request.blocks, cores)
    if blocks < request.blocks:
        notes.append(f"{cores} of the {request.blocks} blocks have a core")
    warm = request.warm and src == "GM" and request.nbytes <= card.l2_bytes
    if request.warm and not warm:
        notes.append("nothing is read from GM" if src != "GM" else f"more than L2 holds ({card.l2_bytes} B): read cold")
    found, refusal = _legal(card, known, matrix, request, blocks, warm)
    if not found:
        return replace(row, reason=refusal)
    best = found[0]
    layout = request.layout or natural_source(card, src, dst)
    row = replace(row, supported=True, blocks=len(best.tried.plan.parts), bytes=request.nbytes, src_layout=layout,
                  dst_layout=natural(card, dst))  # fmt: skip
    return _filled(row, card, request, found, _notes(notes, card, request, best, layout, src))


def _legal(
    card: Card, known: list[Chain], matrix: Matrix, request: Request, blocks: int, warm: bool
) -> tuple[list[_Found], str]:
    """Chains that the card accepts, the fastest first (equal ones in the order of `known`), and the first refusal."""
    found: list[_Found] = []
    refusal = ""
    for chain in known:
        try:
            tried = trial(card, chain, plan(card, chain, matrix, request.dtype, blocks), request.dtype, warm)
            found.append(_Found(tried, measured(card, tried)))
        except AiCoreError as error:
            refusal = refusal or f"{error.message}" + (f"; allowed: {error.allowed}" if error.allowed else "")
    seen: set[tuple[str, ...]] = set()
    distinct = []
    for one in sorted(found, key=lambda one: one.result.cycles):
        apis = tuple(one.tried.chain.apis)
        if apis not in seen:
            seen.add(apis)
            distinct.append(one)
    return distinct, refusal


def _filled(row: Estimate, card: Card, request: Request, found: list[_Found], note: str) -> Estimate:
    best, others = found[0], found[1:]
    time_us = best.result.cycles / card.clock_mhz
    gbps = gbps_of(request.nbytes, time_us)
    throughput = _throughput(card, request, best)
    interval = _interval(card, best.tried)
    movements = [(step.name, step.path) for step in best.tried.chain.steps]
    return replace(
        row, apis=best.tried.chain.apis, cycles=best.result.cycles, time_us=time_us, gbps=gbps,
        peak_share=gbps / narrowest_gbps(card, movements, row.blocks or 1, not best.tried.warm), bound_by=best.result.bound_by,
        low_us=max(interval.low, 0.0), high_us=interval.high, dominated_by=interval.dominated_by,
        measured_basis=measured_basis(card, movements), launch_us=_launch_us(card, best.tried),
        throughput_gbps=throughput, stream_us=request.nbytes / (throughput * 1e3), streamed=best.tried.plan.streamed, note=note,
        parts=list(interval.parts),
        alternatives=[_alternative(card, request, one) for one in others],
    )  # fmt: skip


def _alternative(card: Card, request: Request, found: _Found) -> Alternative:
    time_us = found.result.cycles / card.clock_mhz
    return Alternative(found.tried.chain.apis, found.result.cycles, time_us, gbps_of(request.nbytes, time_us))


def _interval(card: Card, tried: Trial) -> Interval:
    def time_us(changed: Card) -> Mapping[str, float]:
        return {"time_us": measured(changed, tried).cycles / changed.clock_mhz}

    return spread(time_us, card)["time_us"]


def _launch_us(card: Card, tried: Trial) -> float:
    """As `Run.launch_us`, of a kernel of mixed cores three for each block."""
    cores = 3 if tried.job.mixed else 1
    return card.value("launch.base_us") + card.value("launch.per_block_us") * cores * tried.job.blocks


def _throughput(card: Card, request: Request, best: _Found) -> float:
    """The rate of a stream: what was measured if the matrix is streamed anyway, else one of its repetitions."""
    tried, result = best.tried, best.result
    if not tried.plan.streamed or min(map(len, tried.job.simulated)) < MOST_PARTS:
        plan_ = plan(card, tried.chain, tried.plan.matrix, request.dtype, len(tried.plan.parts), streamed=True)
        repeats = -(-MOST_PARTS // min(len(parts) for parts in plan_.parts))
        result = measured(card, trial(card, tried.chain, plan_, request.dtype, tried.warm, repeats))
    return result.rate * card.clock_mhz / 1e3


def _notes(notes: list[str], card: Card, request: Request, best: _Found, layout: str, src: str) -> str:
    found = list(notes)
    plan_ = best.tried.plan
    if plan_.streamed:
        part = plan_.parts[0][0].part
        shape = f"{part.cols} elements" if best.tried.chain.flat else f"{part.rows}x{part.cols}"
        most = max(len(parts) for parts in plan_.parts)
        found.append(f"more than the buffers hold: streamed in {most} parts of {shape}")
    if not request.layout and layout == "NZ" and src == "GM":
        found.append("the source is taken to be fractals (NZ): this card has no ND2NZ")
    if {step.core for step in best.tried.chain.steps} == {"aic", "aiv"} and not card.coupled:
        found.append("one of the two vector cores of the group works")
    return "; ".join(found)
