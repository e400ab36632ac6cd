"""Which declaration an operand comes from: the roots of views, kept so that two tensors over the same bytes can be told apart.

A root is one range of a local buffer as one line of the kernel declared it (a LocalTensor, a buffer of a queue). Slices and casts
belong to the root of their tensor. As long as no two roots overlap the address tells the root, and nothing is kept with the
instructions; from the first overlap on, every instruction notes the roots of its operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NO_ROOT = -1
MOST_NOTED = 1_000_000
"""Instructions whose roots are noted; what follows them is not judged."""


@dataclass(slots=True)
class Root:
    """Bytes [lo, hi) of buffer `uid` as line `line` (its id) declared them at `position`; `hi` is that of the longest one,
    `times` how often it was declared."""

    uid: int
    lo: int
    hi: int
    position: str
    line: int
    times: int = 1


class Roots:
    """The roots of a run, by small ids. `shared` is True once two of them overlap; `noted` are entries with the roots of
    their operands since then."""

    def __init__(self) -> None:
        self.table: list[Root] = []
        self.shared = False
        self.first_shared: dict[int, int] = {}
        """Buffer -> id of its first root that overlaps an earlier one."""
        self.noted: list[tuple[Any, tuple[int, ...]]] = []
        self._known: dict[tuple[int, int, int, str], int] = {}
        self._of_buffer: dict[int, list[int]] = {}

    def declare(self, uid: int, lo: int, hi: int, position: str, line: int) -> int:
        """The id of a root. One line that declares the same start again (a loop, a shorter tail) means the same tensor."""
        key = (uid, lo, line, position)
        found = self._known.get(key)
        if found is not None:
            root = self.table[found]
            root.times += 1
            if hi <= root.hi:
                return found
            root.hi = hi
        else:
            found = self._known[key] = len(self.table)
            self.table.append(Root(uid, lo, hi, position, line))
            self._of_buffer.setdefault(uid, []).append(found)
        for other in self._of_buffer[uid]:
            root = self.table[other]
            if other != found and root.lo < hi and lo < root.hi:
                self.shared = True
                self.first_shared.setdefault(uid, max(found, other))
        return found

    def note(self, entry: Any, operands: tuple[Any, ...]) -> None:
        """Keep the roots of an instruction's operands."""
        if len(self.noted) < MOST_NOTED:
            self.noted.append((entry, tuple(getattr(tensor, "root", NO_ROOT) for tensor in operands)))
