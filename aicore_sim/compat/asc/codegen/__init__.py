"""Code generation: only its exceptions exist here."""

from __future__ import annotations

from asc.codegen import errors

__all__ = ["errors"]
