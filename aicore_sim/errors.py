"""Exceptions of the package: every one says what was wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class AiCoreError(Exception):
    """Base of all errors raised by aicore_sim.

    Attributes name the offending `field`, its `value`, the `allowed` range in words, the `card` and the kernel source
    position (`file`, `line`); each is None where it does not apply. `str(error)` joins them.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        value: object = None,
        allowed: str | None = None,
        card: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.allowed = allowed
        self.card = card
        self.file = file
        self.line = line
        self.noises: Any = None
        """What a perturbation of the run had done until then, as `launch.Run.noises`."""

    def __str__(self) -> str:
        parts = [self.message]
        if self.field is not None:
            parts.append(f"{self.field} = {self.value!r}" if self.value is not None else self.field)
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        if self.card is not None:
            parts.append(f"card {self.card}")
        if self.file is not None:
            parts.append(f"at {self.file}:{self.line}" if self.line is not None else f"in {self.file}")
        return "; ".join(parts)

    def as_dict(self) -> dict[str, object]:
        """The error as the `--json` contract prints it (DESIGN: Command line)."""
        value = self.value
        if value is not None and not isinstance(value, (int, float, str, bool)):
            value = str(value)
        return {
            "type": type(self).__name__,
            "field": self.field,
            "value": value,
            "allowed": self.allowed,
            "file": self.file,
            "line": self.line,
            "message": self.message,
        }


class ParameterError(AiCoreError, ValueError):
    """A parameter is outside its documented range, of the wrong kind, or contradicts another one."""


class AlignmentError(AiCoreError, ValueError):
    """A start address or length breaks the alignment rule of its buffer."""


class CapacityError(AiCoreError, ValueError):
    """More memory, ids or blocks are asked for than the card has."""


class OutOfBoundsError(AiCoreError, IndexError):
    """An access leaves its tensor, its buffer, or its allocation in global memory."""


class UnsupportedError(AiCoreError, NotImplementedError):
    """The card, or this package, does not have the API, path or element type."""


class ConfigError(AiCoreError, ValueError):
    """A card file, an override or a scenario parameter is wrong; names file and key path."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A pipe or scalar unit that cannot go on: what it was doing since `time_us`, and what it waits for.

    `what` is one of "flag" (WaitFlag), "set" (SetFlag of a flag that is still up), "queue" (a full queue), "drain" (a pipe
    that has to finish), "unit_flag", "mutex", "sync_all", "cross" (CrossCoreWaitFlag), "poll". `event` is SRC_DST of a flag,
    `ident` the id of a flag or lock. `role` is "cycle" or "end" for those that explain the others: a cycle, or the ends of chains.
    `wanted` is the place of the call that would help, if the program has got to it; `later`: it stands behind the wait in
    the program of the same core. `absent` are the cores that a SyncAll lacks, `blocks` how many blocks without a core.
    """

    core: str
    pipe: str
    api: str
    file: str
    line: int
    time_us: float
    what: str
    text: str
    event: str = ""
    ident: int = -1
    role: str = ""
    wanted: tuple[str, int] | None = None
    later: bool = False
    absent: tuple[str, ...] = ()
    blocks: int = 0


class DeadlockError(AiCoreError, RuntimeError):
    """The program cannot proceed.

    `cycle` lists the waits, one line each: who waits, for what, and who would have to provide it. `waits` has all of them
    as `Wait`, those of `cycle` first and in its order; empty where the kernel itself never comes back (AllocTensor). `columns`
    is what was executed until then (`engine.columns.Columns`).
    """

    def __init__(self, message: str, cycle: Sequence[str] = (), *, waits: Sequence[Wait] = (), **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]
        self.cycle = tuple(cycle)
        self.waits = tuple(waits)
        self.columns: Any = None

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *self.cycle])

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), "cycle": list(self.cycle)}
