"""The framework: pipes and queues."""

from __future__ import annotations

from aicore_sim.kernel.framework import TBuf, TBufPool, TPipe, TQue, TQueBind, get_tpipe_ptr

__all__ = ["TBuf", "TBufPool", "TPipe", "TQue", "TQueBind", "get_tpipe_ptr"]
