"""Which blocks of UB a vector instruction touches in each repeat: what bank conflicts are worked out from.

Like the cost key, this depends on the shape of a call alone; the engine adds the addresses (`engine.ub_banks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aicore_sim.dtypes import BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Lane:
    """One operand: `blocks` of 32 B in each repeat, `block` bytes apart, repeats `repeat` bytes apart.

    `operand` is its index in the instruction's operands, `writes` tells a destination from a source.
    """

    operand: int
    writes: bool
    blocks: int
    block: int
    repeat: int

    def extent(self, repeats: int) -> int:
        """Bytes from the operand's start to the end of the last block of `repeats` repeats."""
        return (repeats - 1) * self.repeat + (self.blocks - 1) * self.block + BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class UbAccess:
    """The operands of one vector instruction over its repeats, sources first.

    Masks do not matter: a repeat takes its blocks whole.
    """

    repeats: int
    lanes: tuple[Lane, ...]


def access_of(repeats: int, write: tuple[int, int, int], reads: Mapping[int, tuple[int, int, int]]) -> UbAccess:
    """The access of an instruction whose operand 0 is the destination; `reads` are its sources by operand.

    Each is (bytes in one repeat, bytes between its blocks, bytes between repeats).
    """
    sources = [_lane(operand, False, *places) for operand, places in reads.items()]
    return UbAccess(repeats, (*sources, _lane(0, True, *write)))


def lines(repeats: int, written: int, reads: Mapping[int, int]) -> UbAccess:
    """As `access_of` for consecutive elements: bytes of one repeat of the destination, and of each source."""
    return access_of(repeats, _line(written), {operand: _line(nbytes) for operand, nbytes in reads.items()})


def _line(nbytes: int) -> tuple[int, int, int]:
    return nbytes, BLOCK_BYTES, nbytes


def _lane(operand: int, writes: bool, nbytes: int, block: int, repeat: int) -> Lane:
    return Lane(operand, writes, -(-nbytes // BLOCK_BYTES), block, repeat)
