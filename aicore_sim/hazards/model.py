"""What a check finds: one `Hazard` for each bug, with the other party and the line that mends it (spec coherence.md 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas as pd

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Severities. Notes say what could be better; they never make a run unclean."""
OBSERVED, POSSIBLE = "observed", "possible"
"""Verdicts: this run really delivered wrong bytes; or nothing prevents it."""
_OTHER = ("core", "pipe", "api", "file", "line", "iteration", "time_us")
_COLUMNS = ("kind", "severity", "verdict", "core", "pipe", "api", "file", "line", "iteration", "time_us", "tensor", "address",
            "bytes", "count", "ordered", "visible", "old", "new", "detail", "fix")  # fmt: skip
_RANK = {ERROR: 0, WARNING: 1, NOTE: 2}


@dataclass(frozen=True, slots=True)
class Party:
    """One instruction that takes part: `core` as in the trace ("core0.aiv1"), `pipe`, `api`, kernel `file` and `line`, the
    us at which it began, and which execution of that line on that core it was (`iteration`, from 0)."""

    core: str
    pipe: str
    api: str
    file: str
    line: int
    time_us: float
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Insertion:
    """A statement to put into a kernel: right before `line` of `file` (`after`: right behind the statement that is there)."""

    file: str
    line: int
    code: str
    after: bool = False


@dataclass(frozen=True, slots=True)
class Hazard:
    """One finding; repeated executions of the same lines are one finding with a `count`.

    `at` is the instruction that suffers (reads old bytes, overwrites too early, waits for ever), `other` the one on the other
    side. `address` is the byte in `tensor` (a GM argument or a local buffer), `bytes` how many are concerned the first time.
    `ordered` and `visible` answer the two questions of spec coherence.md 2; None where a question does not arise. `old` and
    `new` are what was delivered and what should have been, where known (hexadecimal, at most 16 bytes). `insert` is the fix in
    a form that `check --fix` applies; `fix` the same in words.
    """

    kind: str
    severity: str
    verdict: str
    at: Party
    detail: str
    fix: str = ""
    tensor: str = ""
    address: int | None = None
    bytes: int = 0
    count: int = 1
    other: Party | None = None
    ordered: bool | None = None
    visible: bool | None = None
    old: str = ""
    new: str = ""
    insert: tuple[Insertion, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As `check --json` has it."""
        other = self.other
        return {
            "kind": self.kind, "severity": self.severity, "verdict": self.verdict, "core": self.at.core, "pipe": self.at.pipe,
            "api": self.at.api, "file": self.at.file, "line": self.at.line, "iteration": self.at.iteration,
            "time_us": self.at.time_us, "tensor": self.tensor, "address": self.address, "bytes": self.bytes,
            "count": self.count,
            "other": None if other is None else {"core": other.core, "pipe": other.pipe, "api": other.api, "file": other.file,
                                                 "line": other.line, "iteration": other.iteration, "time_us": other.time_us},
            "ordered": self.ordered, "visible": self.visible, "old": self.old, "new": self.new, "detail": self.detail,
            "fix": self.fix,
        }  # fmt: skip

    def sort_key(self) -> tuple[Any, ...]:
        """Errors first, then by time and place; total, so that reports repeat."""
        return (_RANK[self.severity], self.at.time_us, self.at.file, self.at.line, self.kind, self.at.core, self.at.pipe,
                self.address if self.address is not None else -1, self.detail)  # fmt: skip


class Hazards(Sequence[Hazard]):
    """The findings of a run, errors first."""

    def __init__(self, found: Iterable[Hazard] = ()) -> None:
        self._found = tuple(sorted(found, key=Hazard.sort_key))

    @overload
    def __getitem__(self, index: int) -> Hazard: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hazard]: ...
    def __getitem__(self, index: int | slice) -> Hazard | Sequence[Hazard]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Hazard]:
        return iter(self._found)

    def __repr__(self) -> str:
        return f"Hazards({', '.join(f'{h.kind} at line {h.at.line}' for h in self._found)})"

    @property
    def clean(self) -> bool:
        """True if there is no error and no warning."""
        return all(hazard.severity == NOTE for hazard in self._found)

    def of(self, *kinds: str) -> list[Hazard]:
        """Those of these kinds."""
        return [hazard for hazard in self._found if hazard.kind in kinds]

    def frame(self) -> pd.DataFrame:
        """One row for each finding, columns as in `as_dict` with those of the other party as `other_core` and so on."""
        import pandas as pd

        rows = []
        for hazard in self._found:
            row = hazard.as_dict()
            other = row.pop("other") or {}
            rows.append({**row, **{f"other_{key}": other.get(key) for key in _OTHER}})
        return pd.DataFrame(rows, columns=[*_COLUMNS, *(f"other_{key}" for key in _OTHER)])
