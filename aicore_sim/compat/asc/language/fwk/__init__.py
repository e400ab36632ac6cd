"""The framework: pipes and queues."""

from __future__ import annotations

from asc.language.fwk import tpipe
from asc.language.fwk.tpipe import TBuf, TBufPool, TPipe, TQue, TQueBind, get_tpipe_ptr

__all__ = ["TBuf", "TBufPool", "TPipe", "TQue", "TQueBind", "get_tpipe_ptr", "tpipe"]
