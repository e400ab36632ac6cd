"""Nothing is compiled: a kernel is recorded at each launch. The names exist for programs that import them."""

from __future__ import annotations

from asc.runtime.options import CompileOptions

__all__ = ["CompileOptions"]
