"""The recording context: which core a kernel function is running for, and the program it appends to.

A kernel is ordinary Python. It runs in a greenlet, ahead of the simulated clock, and appends to its core's program; the
engine switches it back in when it has used the program up. Only reads of device state suspend it until the simulation
has got there (`Recorder.ask`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from greenlet import getcurrent, greenlet

from aicore_sim.cards import Card
from aicore_sim.errors import AiCoreError, AlignmentError, OutOfBoundsError, UnsupportedError
from aicore_sim.instructions.atomic import atomic_variant
from aicore_sim.instructions.base import Op, Pipe
from aicore_sim.kernel.autosync import AutoSync
from aicore_sim.kernel.notes import GM_OUT_OF_BOUNDS, OUT_OF_TENSOR, FlagNote, Note, Notes
from aicore_sim.kernel.program import Entry, Kind, orders
from aicore_sim.kernel.roots import Roots
from aicore_sim.memory import Buffer, GlobalMemory

LEAD = 2048
"""Entries a kernel may run ahead of its core."""

_PACKAGE = Path(__file__).resolve().parent.parent
_INTERNAL = (str(_PACKAGE / "kernel"), str(_PACKAGE / "instructions"))


@dataclass
class Session:
    """What all cores of one run share while recording: card, memory, options, and the tables behind small ids."""

    card: Card
    gm: GlobalMemory
    data: bool = True
    auto_sync: bool = True
    slack_is_warning: bool = False
    """True under `pyasc`: accesses behind an argument but inside its allocation warn instead of raising."""
    strict: bool = False
    """Accesses behind a tensor but inside its buffer, and bits lost in Load2DBitModeParam, raise instead of warning."""
    dropped: frozenset[tuple[str, int]] = frozenset()
    """Source lines (file, line) of which nothing is recorded that only orders others (`program.orders`)."""
    ops: dict[Any, Op] = field(default_factory=dict)
    lines: list[tuple[str, int]] = field(default_factory=list)
    codes: dict[int, tuple[Any, dict[int, int] | None]] = field(default_factory=dict)
    """id of a code object -> (the object, line ids by instruction offset; None for this package's own code)."""
    line_ids: dict[tuple[str, int], int] = field(default_factory=dict)
    warnings: dict[tuple[str, int], int] = field(default_factory=dict)
    """(text, line id) -> how often."""
    roots: Roots = field(default_factory=Roots)
    """Declarations of local tensors, for the checks after the run."""
    notes: Notes = field(default_factory=Notes)
    """Accesses outside their tensor or argument, for the checks after the run."""
    flag_notes: dict[FlagNote, int] = field(default_factory=dict)
    """Flag calls that are wrong in themselves, and how often, for the checks after the run."""
    words: dict[tuple[int, int], int] = field(default_factory=dict)
    """Words in GM through which cores meet, in runs without data: (buffer, byte) -> value."""

    def table_of(self, code: Any) -> dict[int, int] | None:
        """The line table of a code object met for the first time."""
        table: dict[int, int] | None = None if code.co_filename.startswith(_INTERNAL) else {}
        self.codes[id(code)] = (code, table)
        return table

    def line_id(self, file: str, number: int) -> int:
        """The small id of a source line."""
        key = (file, number)
        found = self.line_ids.get(key)
        if found is None:
            found = self.line_ids[key] = len(self.lines)
            self.lines.append(key)
        return found

    def warn(self, text: str, line: int) -> None:
        """Remember a warning; the same text on the same line is counted, not repeated."""
        self.warnings[text, line] = self.warnings.get((text, line), 0) + 1


class Recorder:
    """One core while its kernel is being recorded.

    `kind` is "aic", "aiv" or "core" (coupled cores: both at once); `block_idx`, `block_num`, `sub_block_idx`,
    `sub_block_num` are what the kernel reads (spec api_semantics.md 21). `buffers` maps hardware names to this core's
    memories; `group_ub` are the UBs of the group's vector cores (for L0C->UB and L1->UB on an AIC), `group_l1` is the L1 of
    the group's cube core (for UB->L1 on an AIV).
    """

    def __init__(
        self,
        session: Session,
        kind: str,
        index: int,
        buffers: dict[str, Buffer],
        *,
        block_idx: int,
        block_num: int,
        sub_block_idx: int = 0,
        sub_block_num: int = 1,
        group_ub: Sequence[Buffer] = (),
        group_l1: Buffer | None = None,
        mix: bool = False,
    ) -> None:
        self.session = session
        self.card = session.card
        self.ops = session.ops
        self.kind = kind
        self.on_aic = kind != "aiv"
        self.on_aiv = kind != "aic"
        self.index = index
        self.buffers = buffers
        self.group_ub = tuple(group_ub)
        self.group_l1 = group_l1
        self.block_idx = block_idx
        self.block_num = block_num
        self.sub_block_idx = sub_block_idx
        self.sub_block_num = sub_block_num
        self.mix = mix
        self.program: list[Entry] = []
        self.auto: AutoSync | None = None
        if session.auto_sync and self.on_aiv:
            self.auto = AutoSync(self.card.npu_arch == 2201)
        self.known_sets: dict[int, tuple[Pipe, tuple[int, int]]] = {}
        self.known_waits: dict[int, tuple[Pipe, tuple[int, int]]] = {}
        """SetFlag and WaitFlag calls seen before: event * 8 + id -> (pipe, argument of the entry)."""
        self.atomic = ""
        """The running atomic operation of stores to GM with its element type, "add:float32"; "" for none."""
        self.state: dict[str, Any] = {}
        """Sticky registers and framework objects of this core (TPipe, event id pools, repeat register ...)."""
        self.finished = False
        self.dropping = bool(session.dropped)
        self.before: Callable[[Entry], None] | None = None
        """Called with every entry just before it is appended; used where synchronisation is inserted automatically."""
        self._engine: greenlet | None = None
        self._kernel: greenlet | None = None

    # ---- called by the kernel side ----------------------------------------------------------------------------------
    def line(self, depth: int = 2) -> int:
        """Id of the innermost kernel source line: the first frame outside this package's API modules."""
        session = self.session
        frame = sys._getframe(depth)
        while True:
            known = session.codes.get(id(frame.f_code))
            table = session.table_of(frame.f_code) if known is None else known[1]
            if table is not None or frame.f_back is None:
                break
            frame = frame.f_back
        found = table.get(frame.f_lasti) if table is not None else None
        if found is None:
            found = session.line_id(frame.f_code.co_filename, frame.f_lineno)
            if table is not None:
                table[frame.f_lasti] = found
        return found

    def emit(self, op: Op, *operands: Any) -> None:
        """Append one instruction. Operands are tensors (`.buffer`, `.offset`, `.kind`), destination first.

        Raises AlignmentError or OutOfBoundsError before anything is recorded; an access that leaves its tensor but not
        its buffer is a warning.
        """
        line = self.line(2)
        bufs, offs = [], []
        for tensor, (lo, hi, align) in zip(operands, op.limits, strict=False):
            buffer, offset = tensor.buffer, tensor.offset
            if buffer is None:
                raise UnsupportedError(f"{op.api}: this core has no {tensor.kind or 'memory for an unbound tensor'}",
                                       card=self.card.name)  # fmt: skip
            if offset % align:
                self._misaligned(op, tensor, align)
            if offset + lo < 0 or offset + hi > buffer.size:
                self._beyond(op, tensor, offset + lo, offset + hi, line)
            if tensor.size is not None and hi * 8 > tensor.size * tensor.dtype.bits:
                self._past_tensor(op, tensor, hi, line)
            bufs.append(buffer)
            offs.append(offset)
        for text in op.warnings:
            self.session.warn(f"{op.api}: {text}", line)
        if self.auto is not None:
            self.auto.before(self, op, bufs, offs, line)
        if self.atomic and op.gm_operand == 0:
            op = atomic_variant(op, self.atomic, self.ops)
        entry = Entry(Kind.EXEC, op.pipe, line, op, tuple(bufs), tuple(offs))
        if op.gm_operand >= 0:
            entry.l2 = operands[op.gm_operand].l2_hint
        if self.session.roots.shared:
            self.session.roots.note(entry, operands)
        self.append(entry)

    def _misaligned(self, op: Op, tensor: Any, align: int) -> None:
        raise AlignmentError(
            f"{op.api}: start address of a {tensor.kind} operand must be a multiple of {align} B",
            field="address", value=tensor.offset, allowed=f"multiples of {align}", card=self.card.name,
        )  # fmt: skip

    def _beyond(self, op: Op, operand: Any, first: int, last: int, line: int) -> None:
        buffer: Buffer = operand.buffer
        if buffer.kind == "GM" and first >= 0 and self.session.slack_is_warning and last <= buffer.size + buffer.slack:
            self.behind_argument(op.api, buffer, max(first, buffer.size), last, line)
            return
        raise OutOfBoundsError(
            f"{op.api} touches bytes {first}..{last - 1} of {buffer.label} ({buffer.kind}), which has {buffer.size} B",
            field="address", value=last, allowed=f"0..{buffer.size}", card=self.card.name,
        )  # fmt: skip

    def _past_tensor(self, op: Op, tensor: Any, nbytes: int, line: int) -> None:
        text = f"{op.api}: touches {nbytes} B of a {tensor.kind} tensor of {tensor.size} {tensor.dtype.api_name}"
        if self.session.strict:
            raise OutOfBoundsError(text, field="size", value=nbytes, allowed=f"<= {tensor.dtype.nbytes(tensor.size)} B",
                                   card=self.card.name)  # fmt: skip
        self.session.warn(text, line)
        self.outside_tensor(op.api, tensor, tensor.offset + nbytes, line)

    def behind_argument(self, api: str, buffer: Buffer, first: int, last: int, line: int) -> None:
        """Warn of an access to the bytes [first, last) of GM that belong to an allocation but not to its argument."""
        text = f"{api}: accesses {last - buffer.size} B behind the end of {buffer.label}"
        self.session.warn(text, line)
        what = f"argument {buffer.label} of {buffer.size} B"
        self.session.notes.add(Note(GM_OUT_OF_BOUNDS, line, self.index, api, buffer.uid, first, last, what, text))

    def outside_tensor(self, api: str, tensor: Any, last: int, line: int) -> None:
        """Note an access that ends at byte `last` of the buffer of `tensor`, behind the tensor's end."""
        first = tensor.offset + tensor.dtype.nbytes(max(tensor.size, 0))
        what = f"{tensor.kind} tensor of {tensor.size} {tensor.dtype.api_name} at byte {tensor.offset}"
        text = f"{api} goes {last - first} B behind the end of a {what}"
        self.session.notes.add(Note(OUT_OF_TENSOR, line, self.index, api, tensor.buffer.uid, first, last, what, text))

    def append(self, entry: Entry) -> None:
        """Append a prepared entry and hand over to the engine when the lead is used up."""
        if self.dropping and self._dropped(entry):
            return
        if self.auto is not None and entry.kind is Kind.SCALAR:
            self.auto.before_scalar(self, entry)
        if self.before is not None:
            self.before(entry)
        program = self.program
        program.append(entry)
        if len(program) >= LEAD and self._engine is not None:
            self._engine.switch()

    def control(self, kind: Kind, pipe: Pipe, arg: Any = None, op: Op | None = None) -> None:
        """Append a synchronisation or mode entry."""
        entry = Entry(kind, pipe, self.line(2), op, (), (), arg)
        if self.dropping and self._dropped(entry):
            return
        if self.auto is not None and kind in (Kind.BARRIER, Kind.BARRIER_ALL):
            self.auto.barrier(pipe if kind is Kind.BARRIER else None)
        self.append(entry)

    def _dropped(self, entry: Entry) -> bool:
        """True if the session leaves out this entry."""
        session = self.session
        return session.lines[entry.line] in session.dropped and orders(entry.kind, entry.op.api if entry.op else "")

    def ask(self, op: Op | None, action: Callable[[Any], Any], *, bufs: tuple[Buffer, ...] = (),
            offs: tuple[int, ...] = ()) -> Any:  # fmt: skip
        """Suspend the kernel until the scalar unit has run `action(device)`; returns its value."""
        entry = Entry(Kind.SCALAR, Pipe.S, self.line(2), op, bufs, offs, action)
        if self.auto is not None:
            self.auto.before_scalar(self, entry)
        self.program.append(entry)
        assert self._engine is not None, "device state can only be read inside a running kernel"
        return self._engine.switch()

    # ---- called by the engine side ----------------------------------------------------------------------------------
    def start(self, body: Callable[[], object]) -> None:
        """Prepare the kernel body; it first runs at the first `advance`."""

        def run(_first: object = None) -> None:
            body()
            self.finished = True

        self._kernel = greenlet(run)

    def advance(self, answer: Any = None) -> list[Entry]:
        """Run the kernel on until it hands over; returns the entries recorded since the last call.

        An empty list means the kernel has returned. `answer` is the value of the device read it was waiting for.
        """
        if self.finished or self._kernel is None:
            return []
        self._engine = getcurrent()
        previous = enter(self)
        try:
            self._kernel.switch(answer)
        except AiCoreError as error:
            locate(error)
            raise
        finally:
            enter(previous)
        taken, self.program = self.program, []
        return taken


_current: Recorder | None = None


def enter(recorder: Recorder | None) -> Recorder | None:
    """Make `recorder` the current one; returns the one before."""
    global _current
    previous, _current = _current, recorder
    return previous


def current() -> Recorder:
    """The recording core. Raises RuntimeError outside a kernel."""
    if _current is None:
        raise RuntimeError("this function records device work: call it inside a kernel started with kernel[blocks](...)"
                           " or simulate(...)")  # fmt: skip
    return _current


def inside(file: str) -> bool:
    """True for a file of this package, its scenarios not counted: no kernel source."""
    return file.startswith(str(_PACKAGE)) and not file.startswith(str(_PACKAGE / "_data"))


def locate(error: AiCoreError) -> None:
    """Fill in the kernel source position of an error from its traceback, unless it has one."""
    if error.file is not None:
        return
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not inside(name):
            error.file, error.line = name, trace.tb_lineno
        trace = trace.tb_next
