"""Vector cores that meet through words in GM: IBSet, IBWait, NotifyNextBlock, WaitPreBlock (spec api_semantics.md 11.5,
20.6).

They are primitives: the scalar unit polls the word itself, where the library copies a block to UB and looks at it there.
Each poll costs an access past the data cache. The blocks of the UB workspace end up as the library leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aicore_sim.dtypes import BLOCK_BYTES, int32
from aicore_sim.errors import CapacityError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Op, Pipe, ScalarWork
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.program import Entry, Kind
from aicore_sim.kernel.scalar import Device
from aicore_sim.kernel.vector_forms import whole
from aicore_sim.memory import Buffer

__all__ = ["ib_set", "ib_wait", "init_determine_compute_workspace", "notify_next_block", "wait_pre_block"]

_ROUND = "determine_round"
"""Where a core's state keeps which round of NotifyNextBlock and WaitPreBlock it is in, by workspace."""


# ---- arguments and words --------------------------------------------------------------------------------------------
def _vector_core(api: str) -> Recorder | None:
    """The recorder; None on a cube core, which returns at once. Raises UnsupportedError where the card lacks `api`."""
    rec = current()
    if not any(row.supported for row in rec.card.api(api)):
        raise UnsupportedError(f"{api}: this card has no synchronisation between cores", field="api", value=api,
                               card=rec.card.name)  # fmt: skip
    return rec if rec.on_aiv else None


def _workspaces(rec: Recorder, api: str, gm: Any, ub: Any, gm_bytes: int, ub_bytes: int) -> None:
    """Both are int32 and large enough. Raises ParameterError, CapacityError."""
    for name, tensor, kind, least in (("gm_workspace", gm, "GM", gm_bytes), ("ub_workspace", ub, "UB", ub_bytes)):
        if getattr(tensor, "kind", None) != kind or tensor.dtype is not int32:
            raise ParameterError(f"{api}: {name} is an int32 tensor in {kind}", field=name, value=type(tensor).__name__,
                                 card=rec.card.name)  # fmt: skip
        size = tensor.dtype.nbytes(tensor.get_size())
        if size < least:
            raise CapacityError(f"{api}: workspace too small", field=name, value=size, allowed=f">= {least} B",
                                card=rec.card.name)  # fmt: skip


class _Words:
    """int32 words of a workspace in GM, one a block of 32 B; kept beside the memory in runs without data."""

    def __init__(self, rec: Recorder, buffer: Buffer, offset: int) -> None:
        self.buffer, self.offset = buffer, offset
        self.kept = rec.session.words

    def get(self, block: int) -> int:
        at = self.offset + block * BLOCK_BYTES
        if self.buffer.data is None:
            return self.kept.get((self.buffer.uid, at), 0)
        return int(self.buffer.data[at : at + 4].view(np.int32)[0])

    def put(self, block: int, value: int) -> None:
        at = self.offset + block * BLOCK_BYTES
        if self.buffer.data is None:
            self.kept[self.buffer.uid, at] = value
            return
        self.buffer.data[at : at + 4].view(np.int32)[0] = value
        if self.buffer.shadow is not None:
            self.buffer.shadow[at : at + 4] = 1


def _mirror(words: _Words, blocks: int, ub: Any) -> None:
    """Leave the blocks of the workspace in UB, where the library copies them."""
    if words.buffer.data is None or ub.buffer is None:
        return
    nbytes = blocks * BLOCK_BYTES
    ub.buffer.bytes()[ub.offset : ub.offset + nbytes] = words.buffer.bytes()[words.offset : words.offset + nbytes]
    if ub.buffer.shadow is not None:
        ub.buffer.shadow[ub.offset : ub.offset + nbytes] = 1


def _op(rec: Recorder, api: str, nbytes: int) -> Op:
    op = rec.ops.get((api, nbytes))
    if op is None:
        op = rec.ops[api, nbytes] = Op(api, Pipe.S, ScalarWork("dcache_access"), nbytes=nbytes, reads=((0, 0, nbytes),))
    return op


def _poll(rec: Recorder, api: str, words: _Words, nbytes: int, attempt: Callable[[], tuple[int, bool]]) -> None:
    """Repeat `attempt`, which gives (what it saw, whether that was it), until it succeeds; PIPE_ALL around."""
    rec.control(Kind.BARRIER_ALL, Pipe.S)
    op = _op(rec, api, nbytes)
    done: list[bool] = []

    def action(device: Device) -> int:
        device.uncached()
        seen, met = attempt()
        done.append(met)
        return seen

    while not (done and done[-1]):
        rec.ask(op, action, bufs=(words.buffer,), offs=(words.offset,))
    rec.control(Kind.BARRIER_ALL, Pipe.S)


# ---- IBSet and IBWait -----------------------------------------------------------------------------------------------
def _exchange(api: str, gm: Any, ub: Any, block_idx: int, event_id: int, is_aiv_only: bool, wanted: int) -> None:
    """Wait until the word of (block_idx, event_id) is `wanted`, then flip it."""
    rec = _vector_core(api)
    if rec is None:
        return
    block, event = whole(api, "block_idx", block_idx), whole(api, "event_id", event_id)
    blocks = rec.block_num * (1 if is_aiv_only else 2)
    if not 0 <= block < blocks:
        raise ParameterError(f"{api}: no such block", field="block_idx", value=block, allowed=f"0..{blocks - 1}",
                             card=rec.card.name)  # fmt: skip
    if event < 0:
        raise ParameterError(f"{api}: event_id", field="event_id", value=event, allowed=">= 0", card=rec.card.name)
    slot = blocks * event + block
    _workspaces(rec, api, gm, ub, (slot + 1) * BLOCK_BYTES, BLOCK_BYTES)
    words = _Words(rec, gm.buffer, gm.offset + slot * BLOCK_BYTES)

    def attempt() -> tuple[int, bool]:
        seen = words.get(0)
        if seen == wanted:
            words.put(0, 1 - wanted)
            _mirror(words, 1, ub)
        return seen, seen == wanted

    _poll(rec, api, words, 4, attempt)


def ib_set(gm_workspace: Any, ub_workspace: Any, block_idx: int, event_id: int, is_aiv_only: bool = True) -> None:
    """IBSet: raise the flag (block_idx, event_id) in GM once it is down; PIPE_ALL before and after.

    The workspaces are int32: in GM, zeroed, (blocks * event_id + block_idx + 1) * 32 B; in UB 32 B. With is_aiv_only
    False two blocks are counted for each of the launch. Nothing on a cube core. Raises ParameterError, CapacityError,
    UnsupportedError on 200I; a flag that never comes down is a livelock.
    """
    _exchange("IBSet", gm_workspace, ub_workspace, block_idx, event_id, is_aiv_only, 0)


def ib_wait(gm_workspace: Any, ub_workspace: Any, block_idx: int, event_id: int, is_aiv_only: bool = True) -> None:
    """IBWait: wait for the flag (block_idx, event_id) in GM and take it down; otherwise as `ib_set`."""
    _exchange("IBWait", gm_workspace, ub_workspace, block_idx, event_id, is_aiv_only, 1)


# ---- one block after the other --------------------------------------------------------------------------------------
def _determine(api: str, gm: Any, ub: Any) -> tuple[Recorder, _Words, tuple[int, int]] | None:
    """Recorder, words and key of the workspace of NotifyNextBlock and relatives; None on a cube core."""
    rec = _vector_core(api)
    if rec is None:
        return None
    _workspaces(rec, api, gm, ub, rec.block_num * BLOCK_BYTES, (rec.block_num + 1) * BLOCK_BYTES)
    return rec, _Words(rec, gm.buffer, gm.offset), (gm.buffer.uid, gm.offset)


def _round(rec: Recorder, key: tuple[int, int], ub: Any) -> int:
    return int(rec.state.setdefault(_ROUND, {}).setdefault(key, 1))


def _keep_round(rec: Recorder, key: tuple[int, int], ub: Any, number: int) -> None:
    """The round is also the word behind the blocks in UB, as in the library."""
    rec.state.setdefault(_ROUND, {})[key] = number
    buffer: Buffer | None = ub.buffer
    if buffer is None:
        return
    at = ub.offset + rec.block_num * BLOCK_BYTES

    def store(_device: Device) -> None:
        if buffer.data is not None:
            buffer.data[at : at + 4].view(np.int32)[0] = number
        if buffer.shadow is not None:
            buffer.shadow[at : at + 4] = 1

    rec.append(Entry(Kind.SCALAR, Pipe.S, rec.line(), None, (buffer,), (at,), store))


def init_determine_compute_workspace(gm_workspace: Any, ub_workspace: Any) -> None:
    """InitDetermineComputeWorkspace: block 0 zeroes the workspace, every core starts at round 1; PIPE_ALL around.

    The int32 workspaces hold 32 B a block in GM, and 32 B more in UB. Raises as `ib_set`. Not bound by pyasc.
    """
    found = _determine("InitDetermineComputeWorkspace", gm_workspace, ub_workspace)
    if found is None:
        return
    rec, words, key = found
    rec.control(Kind.BARRIER_ALL, Pipe.S)
    if rec.block_idx == 0:

        def clear(device: Device) -> None:
            device.uncached()
            for block in range(rec.block_num):
                words.put(block, 0)
            _mirror(words, rec.block_num, ub_workspace)

        rec.append(Entry(Kind.SCALAR, Pipe.S, rec.line(), _op(rec, "InitDetermineComputeWorkspace", 4), (words.buffer,),
                         (words.offset,), clear))  # fmt: skip
    _keep_round(rec, key, ub_workspace, 1)
    rec.control(Kind.BARRIER_ALL, Pipe.S)


def wait_pre_block(gm_workspace: Any, ub_workspace: Any) -> None:
    """WaitPreBlock: wait until all blocks before this one have called NotifyNextBlock in this round.

    Block order is ascending; the workspaces are those of `init_determine_compute_workspace`, zeroed where that is not
    called. Raises as `ib_set`.
    """
    found = _determine("WaitPreBlock", gm_workspace, ub_workspace)
    if found is None:
        return
    rec, words, key = found
    number, mine, blocks = _round(rec, key, ub_workspace), rec.block_idx, rec.block_num

    def attempt() -> tuple[int, bool]:
        seen = [words.get(block) for block in range(blocks)]
        met = seen == [number] * mine + [0] * (blocks - mine)
        if met:
            _mirror(words, blocks, ub_workspace)
        return sum(value == number for value in seen), met

    _poll(rec, "WaitPreBlock", words, blocks * BLOCK_BYTES, attempt)


def notify_next_block(gm_workspace: Any, ub_workspace: Any) -> None:
    """NotifyNextBlock: let the next block go; the last one zeroes the workspace for the next round. As `wait_pre_block`."""
    found = _determine("NotifyNextBlock", gm_workspace, ub_workspace)
    if found is None:
        return
    rec, words, key = found
    number, mine, blocks = _round(rec, key, ub_workspace), rec.block_idx, rec.block_num
    rec.control(Kind.BARRIER_ALL, Pipe.S)

    def store(device: Device) -> None:
        device.uncached()
        if mine + 1 == blocks:
            for block in range(blocks):
                words.put(block, 0)
        else:
            words.put(mine, number)

    op = _op(rec, "NotifyNextBlock", BLOCK_BYTES)
    rec.append(Entry(Kind.SCALAR, Pipe.S, rec.line(), op, (words.buffer,), (words.offset,), store))
    _keep_round(rec, key, ub_workspace, number + 1)
    rec.control(Kind.BARRIER_ALL, Pipe.S)
