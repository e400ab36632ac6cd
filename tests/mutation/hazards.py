"""Mutation check of the hazards: calls that only order are deleted from kernels that are right.

    python -m tests.mutation.hazards [--schedules 500] [--only add] [--report reports/hazard_mutations.md]

Every line with such calls is deleted, one at a time; then the lines that set, wait for or lock the same flags, together: half of
a pair makes a kernel hang, the whole pair makes it race. A deletion whose output differs under at least one schedule must be
reported by the checks of the unperturbed run as an error or a warning; for the rest silence will do, and so will a finding with
the verdict "possible". The exit status is 1 if a deletion that shows went unreported, or if a kernel was not right to begin with.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicore_sim.cards import Card, load_card
from aicore_sim.errors import AiCoreError, ConfigError, DeadlockError
from aicore_sim.hazards import of_deadlock
from aicore_sim.hazards.model import NOTE
from aicore_sim.launch import Options
from aicore_sim.scenario import Scenario, load_scenario, scenario_names
from aicore_sim.schedules import SyncLine, Trials, explore, sync_groups

KERNELS: tuple[tuple[str, str, str], ...] = (
    ("add", "atlas_350", "rows=2 cols=1024 tile=256 blocks=1"),
    ("add", "atlas_a2", "rows=2 cols=1024 tile=256 blocks=1 double_buffer=false"),
    ("add", "atlas_350", "rows=2 cols=1024 tile=256 blocks=1 style=queue"),
    ("add", "atlas_200i", "rows=2 cols=1024 tile=256 blocks=1 style=queue"),
    ("matmul", "atlas_350", "M=128 N=128 K=256"),
    ("matmul", "atlas_a2", "M=128 N=128 K=256"),
    ("mix_gemm_add", "atlas_a2", "tiles=3 blocks=1 m=32 n=32 k=32"),
    ("mix_gemm_add", "atlas_350", "tiles=3 blocks=1 m=32 n=32 k=32"),
    ("pingpong_gemm", "atlas_350", ""),
    ("pingpong_gemm", "atlas_a2", ""),
    ("double_buffer_add", "atlas_350", ""),
    ("double_buffer_add", "atlas_a2", ""),
    ("mix_gemm_vector", "atlas_350", "tiles=4 m=32 n=32 k=16 work=2"),
    ("mix_gemm_vector", "atlas_a2", "tiles=4 m=32 n=32 k=16 work=2"),
    ("stale_cache", "atlas_350", "dci=true"),
    ("cumsum_inplace", "atlas_350", "dci=true"),
    ("two_launches", "atlas_350", ""),
    ("dcache_flags", "atlas_350", "rounds=2"),
    ("te_copy", "atlas_350", ""),
)  # fmt: skip
"""(scenario, card, parameters) of right kernels; scenarios that are not there are passed over."""


FEW = 5
"""Where so many schedules all end in a deadlock, no more are run."""


@dataclass(frozen=True)
class Mutant:
    """Deleted calls: `share` of the `tried` schedules that differ, `deadlocks` among them, kinds and verdicts that the unperturbed
    run, or what there is of it, reports as errors or warnings, and what shows it with the least delay."""

    kernel: str
    lines: tuple[SyncLine, ...]
    tried: int
    share: float
    deadlocks: int
    reported: tuple[str, ...]
    smallest: str

    @property
    def missed(self) -> bool:
        """It shows, and nothing was said."""
        return self.share > 0 and not self.reported

    def row(self) -> str:
        where = ", ".join(f"{file.rsplit('/', 1)[-1]}:{line}" for file, line, _ in self.lines)
        calls = ", ".join(dict.fromkeys(call for _, _, call in self.lines))
        said = ", ".join(self.reported) or ("**nothing**" if self.missed else "-")
        cells = (self.kernel, where, calls, str(self.tried), f"{self.share:.1%}", str(self.deadlocks), said, self.smallest)
        return "| " + " | ".join(cells) + " |"


def mutate(
    scenario: Scenario, parameters: Any, card: Card, schedules: int, *, seed: int = 0, processes: int = 1, name: str = ""
) -> list[Mutant]:
    """Delete each line that only orders, then each group of them that belongs together, and compare under `schedules` schedules
    with the kernel as it is.

    Raises ConfigError if the kernel as it is does not give one and the same output under a tenth of them.
    """
    right = explore(scenario, parameters, card, max(schedules // 10, 10), seed, processes=processes)
    if right.differing or right.reference.correct is False:
        raise ConfigError(f"{name or scenario.name} is not right to begin with: {right.smallest}", field="scenario",
                          value=scenario.name, card=card.name)  # fmt: skip
    found = []
    groups = sync_groups(scenario, parameters, card)
    deletions = sorted((line,) for group in groups for line in group) + [group for group in groups if len(group) > 1]
    for lines in deletions:
        options = Options(dropped=frozenset((file, number) for file, number, _ in lines))
        few = min(FEW, schedules)
        result = explore(scenario, parameters, card, few, seed, options, reference=right.reference, minimise=False)
        if result.deadlocks < few:
            result = explore(scenario, parameters, card, schedules, seed, options, reference=right.reference,
                             processes=processes)  # fmt: skip
        found.append(Mutant(name or scenario.name, lines, result.tried, result.share, result.deadlocks,
                            _reported(Trials(scenario, parameters, card, options)), str(result.smallest or "")))  # fmt: skip
    return found


def _reported(trials: Trials) -> tuple[str, ...]:
    """Kinds with their verdicts that the unperturbed run reports as errors or warnings."""
    try:
        found = trials.launch(checks=True)[0].hazards
    except DeadlockError as error:
        found = of_deadlock(error, trials.card)
    except AiCoreError as error:
        return (type(error).__name__,)
    return tuple(sorted({f"{hazard.kind} ({hazard.verdict})" for hazard in found if hazard.severity != NOTE}))


# ---- command line ---------------------------------------------------------------------------------------------------
HEADER = """# Deleted synchronisation

Written by `python -m tests.mutation.hazards`. Each synchronisation or cache call of a right kernel was deleted, alone, and the
kernel run under {n} schedules with perturbed timing (seed {seed}; {few} where these all hang). Then the lines that belong to the
same flags were deleted together. `differ` is the share of them whose output is not that of the
right kernel; `reported` what the checks say of the unperturbed run; `smallest` the least delay found that shows it.

{summary}

| kernel | lines | calls | schedules | differ | deadlocks | reported | smallest |
|---|---|---|---|---|---|---|---|
"""


def report(mutants: Sequence[Mutant], n: int, seed: int) -> str:
    """The page."""
    shown = [mutant for mutant in mutants if mutant.share]
    missed = [mutant for mutant in mutants if mutant.missed]
    rate = 1 - len(missed) / len(shown) if shown else 1.0
    quiet = sum(not mutant.share and bool(mutant.reported) for mutant in mutants)
    summary = (
        f"{len(mutants)} deletions in {len({m.kernel for m in mutants})} kernels; {len(shown)} show in at least one schedule, "
        f"{rate:.0%} of those are reported. Of the other {len(mutants) - len(shown)}, {quiet} are reported all the same."
    )
    return HEADER.format(n=n, seed=seed, few=FEW, summary=summary) + "\n".join(m.row() for m in mutants) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only scenarios with this name")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the page here")
    chosen = parser.parse_args(argv)
    mutants: list[Mutant] = []
    wrong = 0
    for scenario_name, card_name, words in KERNELS:
        if scenario_name not in scenario_names() or chosen.only not in ("", scenario_name):
            continue
        began = time.perf_counter()
        scenario, card = load_scenario(scenario_name), load_card(card_name)
        name = " ".join(filter(None, (scenario_name, words, f"({card_name})")))
        try:
            found = mutate(scenario, scenario.parse(words.split()), card, chosen.schedules, seed=chosen.seed,
                           processes=chosen.processes, name=name)  # fmt: skip
        except ConfigError as error:
            print(error)
            wrong += 1
            continue
        print(f"{name}: {len(found)} deletions, {sum(m.share > 0 for m in found)} show, "
              f"{sum(m.missed for m in found)} missed ({time.perf_counter() - began:.0f} s)", flush=True)  # fmt: skip
        mutants += found
    page = report(mutants, chosen.schedules, chosen.seed)
    if chosen.report is not None:
        chosen.report.write_text(page, encoding="utf-8")
    else:
        print(page)
    return int(wrong > 0 or any(mutant.missed for mutant in mutants))


if __name__ == "__main__":
    sys.exit(main())
