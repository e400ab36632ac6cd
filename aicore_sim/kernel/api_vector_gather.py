"""Gather as a kernel calls it: the form with a count (spec pyasc.md 6.3).

It belongs to the vector core: elsewhere a call does nothing. Errors as in `api_vector`.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import vector_gather
from aicore_sim.instructions.vector_gather import API
from aicore_sim.kernel.context import current
from aicore_sim.kernel.vector_forms import emit_cached, leave_mask, nothing, operands, whole

__all__ = ["gather"]


def gather(dst: Any, src: Any, src_offset: Any, src_base: int, *args: Any, **kwargs: Any) -> None:
    """dst[i] is the element of src at byte src_base + src_offset[i]: `(dst, src, src_offset, src_base, count)`.

    An offset that leads behind UB, or between two elements, ends the run. The form with a mask is an UnsupportedError.
    """
    rec = current()
    if not rec.on_aiv:
        return
    if len(args) + len(kwargs) != 1 or not (args or "count" in kwargs):
        raise UnsupportedError(f"{API}: only the form with a count is in this version", field="arguments",
                               value=f"{args} {kwargs}", allowed="(dst, src, src_offset, src_base, count)",
                               card=rec.card.name)  # fmt: skip
    base, count = whole(API, "src_base", src_base), whole(API, "count", args[0] if args else kwargs["count"])
    what = operands(API, (dst, src, src_offset))
    dtypes, kinds = [dtype for dtype, _ in what], [where for _, where in what]
    if dst.kind == src.kind and dst.offset == src.offset:
        raise ParameterError(f"{API}: destination and source are not at one address", field="dst", value=dst.offset,
                             card=rec.card.name)  # fmt: skip
    room = src.dtype.nbytes(src.get_size())
    key = ("gather", what, base, count, room)
    op = emit_cached(rec, key, lambda: vector_gather.build(count, base, dtypes, kinds, room, rec.card), dst, src, src_offset)
    if op is None:
        nothing(rec, API)
    else:
        leave_mask(rec, None)
