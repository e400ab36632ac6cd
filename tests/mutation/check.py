"""Mutation check: every lowering with a fault in it must make the tests fail.

    python -m tests.mutation.check [--only nd2nz] [--report reports/mutation.md]

For every call in `aicore_sim/instructions` that describes a movement, strides are swapped, the offset is shifted, the call
is dropped; the tests named for that module then run until the first failure. A mutant that survives is listed, and the exit
status is 1.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.plugin import KINDS, sites

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "aicore_sim" / "instructions"
# Test files of a module where its name does not say so.
_FIXPIPE = ("tests/instructions/test_fixpipe.py", "tests/instructions/test_cube_forms.py", "tests/properties/test_fixpipe.py")
_MMAD = ("tests/instructions/test_mmad.py", "tests/instructions/test_cube_forms.py", "tests/properties/test_mmad.py")
_NDDMA = ("tests/instructions/test_nddma.py", "tests/properties/test_nddma.py")
_VECTOR = ("tests/instructions/test_vector.py", "tests/properties/test_vector_moves.py")
TESTS = {
    "bias_table": ("tests/instructions/test_copy_kernels.py", "tests/properties/test_copies.py",
                   "tests/instructions/test_data_copy.py"),
    "load_data_3d": ("tests/instructions/test_load_data_3d.py", "tests/instructions/test_load_3d_registers.py",
                     "tests/properties/test_load_3d.py"),
    "cube_layout": (*_MMAD, *_FIXPIPE), "fixpipe": _FIXPIPE, "fixpipe_layout": _FIXPIPE, "mmad_effect": _MMAD,
    "nddma": _NDDMA, "nddma_words": _NDDMA, "vector_effect": _VECTOR, "mask_copy": _VECTOR, "transpose": _VECTOR,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One fault: module, line, call and kind."""

    module: str
    line: int
    call: str
    kind: str

    @property
    def spec(self) -> str:
        return f"aicore_sim.instructions.{self.module}:{self.line}:{self.kind}"


@dataclass(frozen=True)
class Verdict:
    """What became of it: "killed", "survived" (also: no test reaches it), or "equivalent" (it never changed anything)."""

    mutant: Mutant
    outcome: str
    seconds: float


def mutants(only: str) -> list[Mutant]:
    found = []
    for path in sorted(PACKAGE.glob("*.py")):
        if only in path.stem:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [Mutant(path.stem, line, call, kind) for line, call in sites(tree) for kind in KINDS[call]]
    return found


def tests_of(module: str) -> list[str]:
    """Test files that name the module, those of the instructions and the property tests first."""
    named = TESTS.get(module)
    if named is not None:
        return list(named)
    folders = ("tests/instructions", "tests/properties", "tests/cases", "tests/kernel")
    files = [path for folder in folders for path in sorted((ROOT / folder).glob("test_*.py"))]
    own = [path for path in files if path.stem.removeprefix("test_") == module]
    named_in = [path for path in files if path not in own and module in path.read_text(encoding="utf-8")]
    return [str(path.relative_to(ROOT)) for path in (*own, *named_in)]


def check(mutant: Mutant) -> Verdict:
    """Run the module's tests with the fault in place."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "changed"
        env = {**os.environ, "AICORE_SIM_MUTANT": mutant.spec, "AICORE_SIM_MUTANT_MARK": str(mark)}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.mutation.plugin", "-p", "no:cacheprovider",
                   *tests_of(mutant.module), "tests/cases"]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        reached, changed = mark.exists(), mark.exists() and bool(mark.read_text())
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.spec}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    outcome = "killed" if done.returncode == 1 else "survived" if changed or not reached else "equivalent"
    return Verdict(mutant, outcome, time.perf_counter() - began)


def report(verdicts: list[Verdict]) -> str:
    """The table of `reports/mutation.md`."""
    lines = [
        "# Mutation check",
        "",
        "Faults put into the lowerings one at a time (`python -m tests.mutation.check`): strides swapped, offset shifted, copy"
        " or fill dropped. Killed: the tests of the module failed. Equivalent: the fault changed no movement, for example a"
        " swap of strides where there is one dimension.",
        "",
        "| module | mutants | killed | equivalent | survived |",
        "|---|---|---|---|---|",
    ]
    for module in sorted({v.mutant.module for v in verdicts}):
        mine = [v.outcome for v in verdicts if v.mutant.module == module]
        counts = [str(mine.count(outcome)) for outcome in ("killed", "equivalent", "survived")]
        lines.append(f"| {module} | {len(mine)} | {' | '.join(counts)} |")
    survived = [v.mutant for v in verdicts if v.outcome == "survived"]
    lines += ["", f"{len(verdicts)} mutants, {len(survived)} survived."]
    lines += [f"- {m.module}.py line {m.line}: {m.call}, {m.kind}" for m in survived]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutation check of the lowerings.")
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--report", type=Path, help="write the table here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for verdict in pool.map(check, mutants(args.only)):
            verdicts.append(verdict)
            print(f"{verdict.outcome:10} {verdict.mutant.spec} ({verdict.seconds:.1f} s)", file=sys.stderr, flush=True)
    text = report(verdicts)
    if args.report is not None:
        args.report.write_text(text, encoding="utf-8")
    print(text)
    return 1 if any(v.outcome == "survived" for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
