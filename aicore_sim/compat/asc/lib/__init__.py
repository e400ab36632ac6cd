"""Host libraries."""

from __future__ import annotations

from asc.lib import host, runtime

__all__ = ["host", "runtime"]
