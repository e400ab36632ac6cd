"""SetLoadDataBoundary: L1 as a ring for 3-D loads on A2 and A3 (spec api_semantics.md 24)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aicore_sim.instructions.base import Op, TransferEffect, movement
from aicore_sim.transfer import Copy, Step, Transfer


def in_ring(op: Op, start: int, boundary: int) -> Op:
    """`op` with its source at byte `start` of L1, where addresses from `boundary` on continue at the start of L1."""
    effect = op.effect
    assert isinstance(effect, TransferEffect)
    steps = tuple(piece for step in effect.transfer.steps for piece in _wrapped(step, start, boundary))
    return movement(op.api, op.pipe, op.path, Transfer(steps), op.cost, aligns=op.aligns,
                    detail=f"{op.detail} boundary={boundary}".lstrip(), warnings=op.warnings)  # fmt: skip


def _wrapped(step: Step, start: int, boundary: int) -> Iterator[Step]:
    """The step in pieces that lie in one lap of the ring each, halving the dimension with the widest source span."""
    if not isinstance(step, Copy):
        yield step
        return
    spans = [(n - 1) * stride for n, stride in zip(step.shape, step.src_strides, strict=True)]
    first = start + step.src + sum(span for span in spans if span < 0)
    last = start + step.src + sum(span for span in spans if span > 0) + step.item - 1
    lap = first // boundary
    if lap == last // boundary:
        yield replace(step, src=step.src - lap * boundary)
        return
    if any(n > 1 for n in step.shape):
        wide = max(range(len(spans)), key=lambda axis: abs(spans[axis]))
        n = step.shape[wide]
        if spans[wide]:
            for lo, hi in ((0, n // 2), (n // 2, n)):
                yield from _wrapped(_cut(step, wide, lo, hi), start, boundary)
            return
    # one run of bytes (or several of the same bytes) across the boundary
    whole = (lap + 1) * boundary - first
    yield from _wrapped(replace(step, item=whole), start, boundary)
    rest = replace(step, item=step.item - whole, src=step.src + whole, dst=step.dst + whole)
    yield from _wrapped(rest, start, boundary)


def _cut(step: Copy, axis: int, lo: int, hi: int) -> Copy:
    shape = tuple(hi - lo if i == axis else n for i, n in enumerate(step.shape))
    return replace(step, shape=shape, src=step.src + lo * step.src_strides[axis],
                   dst=step.dst + lo * step.dst_strides[axis])  # fmt: skip
