"""A chain as a kernel: the calls of every part, with the flags between the stages that a kernel author would set.

Stages of one core meet by event flags, stages of the cube core and of a vector core by cross-core flags. With
several slots the stages overlap: a stage fills one slot while the next one empties another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.estimate.chains import Chain
from aicore_sim.estimate.plan import Placed, Plan, slot_bytes
from aicore_sim.estimate.request import Matrix
from aicore_sim.estimate.steps import Step, up
from aicore_sim.explain.element_map import BUFFERS
from aicore_sim.kernel import language as asc
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.kernel.enums import KernelType
from aicore_sim.kernel.jit import jit
from aicore_sim.kernel.tensor import GlobalAddress

_MODE = 2
"""Cross-core flags between a cube core and both its vector cores."""
READY, FREE = 0, 1
_LINE = 512
BETWEEN_CORES = frozenset({"L1-UB", "UB-L1", "L0C-UB"})
"""Paths from a memory of the cube core to one of a vector core, or back."""


@dataclass(frozen=True)
class Job:
    """A kernel for `blocks` blocks with its arguments; `simulated` has the elements of each part that it moves, by
    block, `mixed` says whether cube and vector cores take part."""

    kernel: Any
    args: tuple[Any, ...]
    blocks: int
    simulated: tuple[tuple[int, ...], ...]
    mixed: bool


def elements_of(matrix: Matrix, dtype: DataType) -> int:
    """Elements from one stored matrix in GM to the next: the padding of fractals included, up to a whole line of L2."""
    elements = matrix.rows * matrix.cols
    if matrix.layout == "NZ":
        elements = up(matrix.rows, 16) * up(matrix.cols, dtype.c0)
    return up(elements, _LINE * 8 // dtype.bits)


def job(card: Card, chain: Chain, plan: Plan, dtype: DataType, most: int, warm: bool = False, repeats: int = 1,
        args: tuple[Any, ...] | None = None) -> Job:  # fmt: skip
    """The kernel that moves at most `most` parts of every block of `plan`, the matrix up to `repeats` times.

    Arguments are (source, destination, workspace) in GM, one element where the chain has none; `args` replaces the
    descriptions without data. `warm` reads the source once before.
    """
    lists = [_repeated(parts, most, repeats) for parts in plan.parts]
    steps = chain.steps
    cores = {step.core for step in steps}
    mixed = not card.coupled and (len(cores) > 1 or any(step.path in BETWEEN_CORES for step in steps))
    kind = KernelType.MIX_AIC_1_2 if mixed else KernelType.AIV_ONLY if cores == {"aiv"} else KernelType.AIC_ONLY
    whole = elements_of(plan.matrix, dtype) * repeats
    largest = max(up(one.part.rows, 32) * up(one.part.cols, 32) for parts in lists for one in parts)
    inner = "GM" in chain.memories[1:-1]
    work = GmSpec((largest * max(plan.slots) * len(lists) if inner else 1,), dtype)
    ends = [GmSpec((whole if at == "GM" else 1,), dtype) for at in (chain.memories[0], chain.memories[-1])]

    simulated = tuple(tuple(one.part.elements for one in parts) for parts in lists)

    def move(source: GlobalAddress, destination: GlobalAddress, workspace: GlobalAddress) -> None:
        core = _Core(card, chain, plan, dtype, source, destination, workspace, largest)
        parts = lists[int(asc.get_block_idx()) // (2 if mixed and asc.ascend_is_aiv() else 1)]
        if warm and chain.memories[0] == "GM" and core.does(steps[0]):
            for number, one in enumerate(parts):
                core.issue(0, number, one)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        for number, one in enumerate(parts):
            for index in range(len(steps)):
                core.stage(index, number, one, len(parts))

    return Job(jit(kernel_type=kind)(move), args or (*ends, work), len(lists), simulated, mixed)


def _repeated(parts: Sequence[Placed], most: int, repeats: int) -> list[Placed]:
    return [Placed(one.part, one.row, one.col, again) for again in range(repeats) for one in parts][:most]


class _Core:
    """What one core does of a chain: its tensors and flags."""

    def __init__(self, card: Card, chain: Chain, plan: Plan, dtype: DataType, source: Any, destination: Any, work: Any,
                 largest: int) -> None:  # fmt: skip
        self.card, self.chain, self.plan, self.dtype = card, chain, plan, dtype
        self.steps = chain.steps
        self.largest = largest
        self.idle = not card.coupled and bool(asc.ascend_is_aiv()) and int(asc.get_sub_block_idx()) > 0
        self.block = int(asc.get_block_idx()) // (2 if self._in_mix() else 1)
        self.tensors = [self._place(number, source, destination, work) for number in range(len(chain.memories))]
        self.syncs: dict[str, Any] = {}

    def _in_mix(self) -> bool:
        return not self.card.coupled and bool(asc.ascend_is_aiv()) and int(asc.get_sub_block_num()) > 1

    def does(self, step: Step) -> bool:
        """Whether this core issues the step; of the two vector cores of a group the first one works."""
        return not self.idle and self._on(step.core)

    def _on(self, core: str) -> bool:
        return self.card.coupled or bool(asc.ascend_is_aiv() if core == "aiv" else asc.ascend_is_aic())

    # ---- memories ---------------------------------------------------------------------------------------------------
    def _place(self, number: int, source: Any, destination: Any, work: Any) -> list[Any]:
        """The tensor of a memory of the chain, one for each slot."""
        memories, slots = self.chain.memories, self.plan.slots[number]
        buffer, last = memories[number], len(memories) - 1
        if buffer == "GM":
            tensor = asc.GlobalTensor()
            tensor.set_global_buffer(source if number == 0 else destination if number == last else work)
            if number in (0, last):
                return [tensor] * slots
            return [tensor[(self.block * slots + slot) * self.largest] for slot in range(slots)]
        if not self._holds(buffer):
            return [None] * slots
        size = slot_bytes(self.card, self.chain, buffer, slots)
        first = size * slots * memories[:number].count(buffer)
        dtype = self.dtype
        if buffer == "L0C":
            dtype = asc.int32 if dtype.name == "int32" else asc.float32
        position = asc.TPosition[self._position(number)]
        return [asc.LocalTensor(dtype, position, first + slot * size, size * 8 // dtype.bits) for slot in range(slots)]

    def _holds(self, buffer: str) -> bool:
        """Whether this core names tensors of the buffer: its own, and those of its group that its copies reach."""
        return any(self._on(step.core) and buffer in (step.src, step.dst) for step in self.steps)

    def _position(self, number: int) -> str:
        memories = self.chain.memories
        after = memories[number + 1] if number + 1 < len(memories) else ""
        special = {("L1", "L0B"): "B1", ("L1", "BT"): "C1", ("L1", "FB"): "C1", ("UB", "GM"): "VECOUT"}
        return special.get((memories[number], after), BUFFERS[memories[number]])

    def _at(self, number: int, turn: int, one: Placed) -> Any:
        """Where part number `turn` lies in a memory."""
        tensor = self.tensors[number][turn % self.plan.slots[number]]
        if number not in (0, len(self.chain.memories) - 1) or self.chain.memories[number] != "GM":
            return tensor
        matrix = self.plan.matrix
        offset = one.repeat * elements_of(matrix, self.dtype)
        if number == 0 and matrix.layout == "NZ":
            offset += one.col * up(matrix.rows, 16) + one.row * self.dtype.c0
        else:
            offset += one.row * matrix.cols + one.col
        return tensor[offset]

    # ---- stages -----------------------------------------------------------------------------------------------------
    def issue(self, index: int, number: int, one: Placed) -> None:
        """The calls of one step for part `number` of the block."""
        part = self.chain.part_at(index, one.part)
        self.steps[index].issue(self._at(index + 1, number, one), self._at(index, number, one), part)

    def stage(self, index: int, number: int, one: Placed, total: int) -> None:
        """A step with its flags: wait for the part and for a free slot, move, tell the neighbours."""
        step = self.steps[index]
        if index:
            self._wait(self.steps[index - 1], step, number, index, READY)
        after = self.steps[index + 1] if index + 1 < len(self.steps) else None
        if after is not None and number >= self.plan.slots[index + 1]:
            self._wait(after, step, number, index + 1, FREE)
        if self.does(step):
            self.issue(index, number, one)
        if after is not None:
            self._set(step, after, number, index + 1, READY)
        if index and number + self.plan.slots[index] < total:
            self._set(step, self.steps[index - 1], number, index, FREE)

    def _set(self, from_step: Step, to_step: Step, number: int, memory: int, what: int) -> None:
        """Say that part `number` is ready in a memory of the chain, or that its slot there is free."""
        if not self._on(from_step.core):
            return
        if not self._same_core(from_step, to_step):
            asc.cross_core_set_flag(2 * memory + what, _MODE, asc.PipeID[f"PIPE_{from_step.pipe}"])
        elif not self.idle:
            event = f"{from_step.pipe}_{to_step.pipe}"
            if self._portable():
                self._sync(event).set_flag(number % self.plan.slots[memory])
            else:
                asc.set_flag(asc.HardEvent[event], number % self.plan.slots[memory])

    def _wait(self, from_step: Step, to_step: Step, number: int, memory: int, what: int) -> None:
        if not self._on(to_step.core):
            return
        if not self._same_core(from_step, to_step):
            asc.cross_core_wait_flag(2 * memory + what, _MODE, asc.PipeID[f"PIPE_{to_step.pipe}"])
        elif not self.idle:
            event = f"{from_step.pipe}_{to_step.pipe}"
            if self._portable():
                self._sync(event).wait_flag(number % self.plan.slots[memory])
            else:
                asc.wait_flag(asc.HardEvent[event], number % self.plan.slots[memory])

    def _same_core(self, one: Step, other: Step) -> bool:
        return self.card.coupled or one.core == other.core

    def _portable(self) -> bool:
        """Atlas 200I/500 A2 has no page for SetFlag; its TQueSync does the same."""
        return self.card.npu_arch == 3002

    def _sync(self, event: str) -> Any:
        if event not in self.syncs:
            source, target = (asc.PipeID[f"PIPE_{name}"] for name in event.split("_"))
            self.syncs[event] = asc.TQueSync(source, target)
        return self.syncs[event]
