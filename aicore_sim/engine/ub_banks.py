"""Bank conflicts in UB: how long the blocks of a vector instruction keep the ports of their banks (spec hardware.md 10).

A port model in whole cycles. The sources of a repeat are read in as few steps as the ports allow, usually one; its
result is written a fixed number of cycles after the last of them. A write goes first: reads of the same cycle that
would meet it in a bank, or be one access too many for a group, wait, all of their step together. From this follow, with
no rule for any of them: reads of two sources in one group that take two cycles, blocks of one repeat that come one by
one, the destination that is hidden behind its source by one repeat, the free overlay, and their loss once a stall has
shifted reads against writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from aicore_sim.cards import Card
from aicore_sim.instructions.base import TICKS_PER_CYCLE, Op
from aicore_sim.instructions.ub_access import UbAccess

Ints = NDArray[np.int64]
Ports = tuple[int, int, int, int]
"""Shift and mask of the group in a byte address, then of the bank."""


@dataclass(frozen=True, slots=True)
class UbBanks:
    """The banks of one card: where they lie, and how many reads, writes and both together a group takes in a cycle.

    `delay` are the cycles from the last read of a repeat to its write; with `merges`, a source that all repeats read at one
    place is read once; with `splits`, blocks of a second source move beside the first where they can. `period` is the
    distance in bytes after which the pattern of banks begins again.
    """

    ports: Ports
    reads: int
    writes: int
    accesses: int
    delay: int
    merges: bool
    splits: bool
    period: int

    def cycles(self, access: UbAccess, offsets: Sequence[int]) -> int:
        """What the instruction takes with its operands at these byte addresses of UB; at least one cycle a repeat."""
        table = np.array([(offsets[x.operand], x.writes, x.blocks, x.block, x.repeat) for x in access.lanes], np.int64)
        return int(_run(table, access.repeats, self.ports, self.reads, self.writes, self.accesses, self.delay, self.merges,
                        self.splits))  # fmt: skip

    def place(self, offset: int, extent: int) -> tuple[int, int]:
        """What of the address of an operand of `extent` bytes its conflicts depend on: (part of it, bank or -1).

        As long as an operand stays in one bank of every group its row does not matter, else the place in the period does.
        """
        group_shift, group_mask, bank_shift, bank_mask = self.ports
        first, last = offset >> bank_shift, (offset + extent - 1) >> bank_shift
        if first == last:
            return offset % (group_mask + 1 << group_shift), first & bank_mask
        return offset % self.period, -1


def of_card(card: Card) -> UbBanks | None:
    """The ports of UB of a card; None where the card does not say which address bits choose bank and group."""
    table = card.model.ub_banks
    if not table.address_bits:
        return None
    fields = {name: (low, (1 << high - low + 1) - 1) for name, (high, low) in table.address_bits.items()}
    return UbBanks(
        ports=(*fields["group"], *fields["bank"]), reads=int(card.value("ub_banks.reads_per_group")),
        writes=int(card.value("ub_banks.writes_per_group")), accesses=int(card.value("ub_banks.accesses_per_group")),
        delay=int(card.value("ub_banks.write_delay")), merges=table.merges_repeats.value,
        splits=table.splits_operands.value,
        period=1 << max(table.address_bits[name][0] for name in ("group", "bank")) + 1,
    )  # fmt: skip


class BankWaits:
    """What bank conflicts add to the price of each vector instruction of a run, looked up by its operands' addresses."""

    def __init__(self, banks: UbBanks) -> None:
        self.banks = banks
        self.known: dict[tuple[int, tuple[int, ...]], int] = {}
        """Ticks by (index of the Op, offsets of its operands)."""
        self._alike: dict[tuple[int, tuple[int, ...]], int] = {}

    def find(self, op: Op, offsets: tuple[int, ...]) -> int:
        """Ticks that the operands' banks hold the pipe beyond `op.occupy`; remembered in `known`."""
        access = op.access
        assert access is not None
        places = [self.banks.place(offsets[x.operand], x.extent(access.repeats)) for x in access.lanes]
        first = offsets[access.lanes[0].operand]
        # The same pattern: equal places, and operands equally far from each other (rows that are read twice).
        key = op.index, tuple(word for x, place in zip(access.lanes, places, strict=True)
                              for word in (*place, offsets[x.operand] - first))  # fmt: skip
        lost = self._alike.get(key)
        if lost is None:
            lost = max(self.banks.cycles(access, offsets) * TICKS_PER_CYCLE - op.occupy, 0)
            self._alike[key] = lost
        self.known[op.index, offsets] = lost
        return lost


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fits(row: Ints, step: Ints, n: int, at: int, here: int, first: int, limit: int, ports: Ports) -> bool:
    """Whether a block at `at` can move in step `here` beside the blocks `first`..`n` that are in that step already."""
    group_shift, group_mask, bank_shift, bank_mask = ports
    group, bank = at >> group_shift & group_mask, at >> bank_shift & bank_mask
    used = 0
    for i in range(first, n):
        if step[i] == here:
            there = row[i] << 5
            if (there >> group_shift & group_mask) == group:
                used += 1
                if (there >> bank_shift & bank_mask) == bank:
                    return False
    return used < limit


@njit(cache=True)  # type: ignore[untyped-decorator]
def _steps(
    table: Ints, repeat: int, write: int, limit: int, merges: bool, splits: bool, ports: Ports, row: Ints, step: Ints
) -> tuple[int, int]:
    """Shares the blocks of one repeat out to steps; fills `row` and `step` of each block, returns (blocks, steps).

    A block goes into the first step with room for it. Unless `splits`, only blocks of the same operand count at first: an
    operand that does not fit beside those in front of it then begins later as a whole. A row that a repeat
    names twice is moved once.
    """
    n, steps = 0, 0
    for lane in range(table.shape[0]):
        if table[lane, 1] != write or (merges and write == 0 and repeat > 0 and table[lane, 4] == 0):
            continue
        first = n
        for k in range(table[lane, 2]):
            at = table[lane, 0] + repeat * table[lane, 4] + k * table[lane, 3]
            seen = False
            for i in range(n):
                if row[i] == at >> 5:
                    seen = True
            if not seen:
                here = 0
                while not _fits(row, step, n, at, here, 0 if splits else first, limit, ports):
                    here += 1
                row[n], step[n] = at >> 5, here
                n += 1
        later, clash = (0, False) if splits else (-1, True)
        while clash:
            later += 1
            clash = False
            for i in range(first, n):
                if not clash and not _fits(row, step, first, row[i] << 5, step[i] + later, 0, limit, ports):
                    clash = True
        for i in range(first, n):
            step[i] += later
            steps = max(steps, step[i] + 1)
    return n, steps


@njit(cache=True)  # type: ignore[untyped-decorator]
def _meet(
    from_row: Ints, from_step: Ints, n_from: int, reading: int, to_row: Ints, to_step: Ints, n_to: int, writing: int,
    accesses: int, ports: Ports,
) -> bool:  # fmt: skip
    """Whether the reads of a step and the writes of a step keep each other from moving in one cycle."""
    group_shift, group_mask, bank_shift, bank_mask = ports
    for i in range(n_to):
        if to_step[i] == writing:
            at = to_row[i] << 5
            group, bank = at >> group_shift & group_mask, at >> bank_shift & bank_mask
            used = 1
            for j in range(n_from):
                if from_step[j] == reading:
                    there = from_row[j] << 5
                    if (there >> group_shift & group_mask) == group:
                        used += 1
                        if (there >> bank_shift & bank_mask) == bank or used > accesses:
                            return True
    return False


@njit(cache=True)  # type: ignore[untyped-decorator]
def _run(
    table: Ints, repeats: int, ports: Ports, reads: int, writes: int, accesses: int, delay: int, merges: bool, splits: bool
) -> int:
    """Cycles to read, compute and write all repeats, less the delay.

    `table` has a row (address, writes, blocks, block stride, repeat stride) for each operand.
    """
    room = int(table[:, 2].sum())
    from_row, from_step = np.empty(room, np.int64), np.empty(room, np.int64)
    to_row, to_step = np.empty(room, np.int64), np.empty(room, np.int64)
    ready = np.empty(repeats, np.int64)
    reading, read_steps, read_step, n_from = 0, -1, 0, 0
    writing, write_steps, write_step, n_to = 0, -1, 0, 0
    now = 0
    while writing < repeats:
        now += 1
        busy = writing < reading and ready[writing] <= now
        if busy and write_steps < 0:
            n_to, write_steps = _steps(table, writing, 1, writes, merges, splits, ports, to_row, to_step)
            write_step = 0
        if reading < repeats:
            if read_steps < 0:
                n_from, read_steps = _steps(table, reading, 0, reads, merges, splits, ports, from_row, from_step)
                read_steps = max(read_steps, 1)
                read_step = 0
            if not busy or not _meet(from_row, from_step, n_from, read_step, to_row, to_step, n_to, write_step, accesses, ports):
                read_step += 1
                if read_step == read_steps:
                    ready[reading] = now + delay
                    reading += 1
                    read_steps = -1
        if busy:
            write_step += 1
            if write_step >= write_steps:
                writing += 1
                write_steps = -1
    return now - delay
