"""Findings by the names of the lines that they point at: a kernel line that ends in "# @store" is called "store".

Tests say what they expect as {("race-raw", "store", "add")}: kind, the line of the one that suffers, the line of the other party.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.hazards.facts import Facts
from aicore_sim.hazards.model import Hazard, Party
from aicore_sim.hazards.order import Order
from aicore_sim.launch import Run

ALL = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
SEPARATE = ("atlas_a2", "atlas_a3", "atlas_350")
"""Cards whose cube and vector cores are cores of their own."""
AIV, AIC = asc.KernelType.AIV_ONLY, asc.KernelType.AIC_ONLY
MIX = asc.KernelType.MIX_AIC_1_2
MTE1, MTE2, MTE3 = asc.PipeID.PIPE_MTE1, asc.PipeID.PIPE_MTE2, asc.PipeID.PIPE_MTE3
M, V, FIX, S = asc.PipeID.PIPE_M, asc.PipeID.PIPE_V, asc.PipeID.PIPE_FIX, asc.PipeID.PIPE_S
KINDS = ("race-raw", "race-war", "race-waw")
Found = set[tuple[str, str, str]]


@lru_cache
def marks(file: str) -> dict[int, str]:
    """Names of the marked lines of a file; a name stands in one line only."""
    found = {}
    for number, text in enumerate(Path(file).read_text().splitlines(), 1):
        if match := re.search(r"# @(\w+)$", text):
            assert match[1] not in found.values(), f"two lines of {file} are called {match[1]}"
            found[number] = match[1]
    return found


def name(party: Party | None) -> str:
    """The mark of a party's line, or "line N" where it has none."""
    assert party is not None
    return marks(party.file).get(party.line, f"line {party.line}")


def found(run: Run) -> Found:
    """All races of a run, each with its two lines."""
    return {(h.kind, name(h.at), name(h.other)) for h in run.hazards.of(*KINDS)}


def the_race(run: Run) -> Hazard:
    """The one race of a run."""
    (race,) = run.hazards.of(*KINDS)
    return race


def is_clean(run: Run) -> bool:
    """No error and no warning; a failing test shows those there are."""
    wrong = [(h.kind, name(h.at), h.other and name(h.other), h.detail) for h in run.hazards if h.severity != "note"]
    assert wrong == []
    return run.hazards.clean


def pairs(run: Run) -> set[frozenset[str]]:
    """Both lines of every race before anything is grouped, without kinds."""
    facts = Facts(run.columns, run.card)
    return {frozenset({name(facts.party(race.first)), name(facts.party(race.second))}) for race in Order(facts).races}


def floats(count: int) -> Any:
    return np.arange(1, count + 1, dtype=np.float32)


def local(position: asc.TPosition, dtype: asc.DataType, byte: int, count: int) -> asc.LocalTensor:
    return asc.LocalTensor(dtype, position, byte, count)


class Flags:
    """Pairs of flags, some of which are left out. 200I and pairs without an event go by TQueSync, which has them all."""

    def __init__(self, drop: tuple[str, ...] = ()) -> None:
        self.drop = drop

    def set(self, event: str, ident: int = 0) -> None:
        if event not in self.drop and f"set {event}" not in self.drop:
            if asc.npu_arch() == 3002:
                _sync(event).set_flag(ident)
            else:
                asc.set_flag(asc.HardEvent[event], ident)

    def wait(self, event: str, ident: int = 0) -> None:
        if event not in self.drop and f"wait {event}" not in self.drop:
            if asc.npu_arch() == 3002:
                _sync(event).wait_flag(ident)
            else:
                asc.wait_flag(asc.HardEvent[event], ident)

    def order(self, event: str, ident: int = 0) -> None:
        self.set(event, ident)
        self.wait(event, ident)


def _sync(event: str) -> asc.TQueSync:
    source, destination = event.split("_")
    return asc.TQueSync(asc.PipeID[f"PIPE_{source}"], asc.PipeID[f"PIPE_{destination}"])
