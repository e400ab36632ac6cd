"""What recording knows and rows do not show: accesses that leave their tensor or their argument, misused flag ids, lost calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OUT_OF_TENSOR, GM_OUT_OF_BOUNDS = "out-of-tensor", "gm-out-of-bounds"
RESERVED_ID, PRESET_ID, EVENT_ID_REUSE, DROPPED_FLAG = "reserved-id", "preset-id", "event-id-reuse", "dropped-flag"


@dataclass(frozen=True, slots=True)
class FlagNote:
    """A flag call that is wrong whatever it meets: `line` is the id of the kernel line, `core` the recording core's index, `pipe`
    the Pipe and `api` the call it names, `event` SRC_DST ("" for a flag between cores), `ident` the id; the rest in words."""

    kind: str
    line: int
    core: int
    pipe: int
    api: str
    event: str
    ident: int
    detail: str
    fix: str


@dataclass(frozen=True, slots=True)
class Note:
    """One access: `line` is the id of the kernel line, `core` the recording core's index, `api` the call, [lo, hi) the bytes of
    buffer `uid` that it touches outside `tensor`, which is described in words."""

    kind: str
    line: int
    core: int
    api: str
    uid: int
    lo: int
    hi: int
    tensor: str
    detail: str


class Notes:
    """The first note of every kind, line and call, and how many there were."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, str], tuple[Note, int]] = {}

    def add(self, note: Note) -> None:
        """Keep a note; others of its kind from the same line and call are counted."""
        key = (note.kind, note.line, note.api)
        first, count = self._found.get(key, (note, 0))
        self._found[key] = (first, count + 1)

    def __iter__(self) -> Iterator[tuple[Note, int]]:
        return iter(self._found.values())
