"""The order in which events are gone through: that of the program, wherever synchronisation leaves a choice.

Of two accesses that nothing orders a run shows one order and a chip the other. What a race is called, and which of several
writers a reader is set against, must not depend on it: each core is taken in program order, except where an event has to wait for
one that stands later in the text, and a core that waited for another goes on as soon as it may.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from aicore_sim.hazards.facts import PIPES_PER_CORE
from aicore_sim.hazards.program import Events

Ints = NDArray[np.int64]
Small = NDArray[np.int32]


def visits(events: Events, source: Ints, target: Ints, cores: int) -> Small:
    """All positions, every one behind its program order on its pipe and behind the sources of its edges."""
    count = len(events)
    queue = events.core * PIPES_PER_CORE + events.pipe
    listed = np.argsort(queue, kind="stable")
    first = np.searchsorted(queue[listed], np.arange(cores * PIPES_PER_CORE + 1))
    by_source = np.argsort(source, kind="stable")
    out_first = np.searchsorted(source[by_source], np.arange(count + 1))
    pending = np.bincount(target, minlength=count).astype(np.int32)
    order: Small = _go(listed, first, out_first, target[by_source], pending, events.seq, events.core, cores, PIPES_PER_CORE)
    assert order.size == count, "edges agree with the order of execution, so nothing can be left"
    return order


@njit(cache=True)  # type: ignore[untyped-decorator]
def _go(
    listed: Ints, first: Ints, out_first: Ints, out_target: Ints, pending: Small, seq: Ints, core_of: Ints, cores: int,
    pipes: int,
) -> Small:
    """Take, of one core, the earliest call in program order that waits for nothing, until it is stuck or lets another go."""
    count = listed.size
    order = np.zeros(count, np.int32)
    head = first.copy()
    waiting = np.zeros(cores, np.int32)
    queued = np.zeros(cores, np.bool_)
    left = 0
    done = 0
    begun = 0
    while left > 0 or begun < cores:
        if left == 0:
            waiting[0] = begun
            queued[begun] = True
            left = 1
            begun += 1
        core = waiting[left - 1]
        best = -1
        queue = -1
        for q in range(core * pipes, (core + 1) * pipes):
            if head[q] < first[q + 1]:
                p = listed[head[q]]
                if pending[p] == 0 and (best < 0 or seq[p] < seq[best]):
                    best = p
                    queue = q
        if best < 0:
            left -= 1
            queued[core] = False
            continue
        head[queue] += 1
        order[done] = best
        done += 1
        for e in range(out_first[best], out_first[best + 1]):
            freed = out_target[e]
            pending[freed] -= 1
            other = core_of[freed]
            if pending[freed] == 0 and other != core and not queued[other]:
                queued[other] = True
                waiting[left] = other
                left += 1
    return order[:done]
