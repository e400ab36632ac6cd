"""ReduceSum, ReduceMax and ReduceMin as a kernel calls them (spec pyasc.md 6.3).

They belong to the vector core: elsewhere a call does nothing. Errors as in `api_vector`.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions import vector_total
from aicore_sim.instructions.vector_total import APIS, TotalForm
from aicore_sim.kernel.context import current
from aicore_sim.kernel.vector_forms import counter_mode, emit_cached, leave_mask, mask_of, nothing, operands, whole

__all__ = ["reduce_max", "reduce_min", "reduce_sum"]


def _form(api: str, index: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TotalForm:
    extra = ("cal_index",) if index else ()
    counted = "count" in kwargs or len(args) + len(set(kwargs) - {"cal_index"}) == 1 or (
        index and len(args) == 2 and isinstance(args[1], bool))  # fmt: skip
    needed = ("count",) if counted else ("mask", "repeat_time", "src_rep_stride")
    names = (*needed, *extra)
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or any(name not in names or name in given for name in kwargs):
        raise ParameterError(f"{api}: no form takes these arguments", field="arguments", value=f"{args} {kwargs}",
                             allowed=f"({', '.join(('count', *extra))}) or (mask, repeat_time, src_rep_stride"
                             f"{', cal_index' if index else ''})")  # fmt: skip
    given.update(kwargs)
    for name in needed:
        if name not in given:
            raise ParameterError(f"{api}: {name} is missing", field=name)
    wanted = given.get("cal_index", False)
    if not isinstance(wanted, bool):
        raise ParameterError(f"{api}: cal_index is a bool", field="cal_index", value=wanted)
    if counted:
        return TotalForm(None, 0, count=whole(api, "count", given["count"]), cal_index=wanted)
    repeats, stride = (whole(api, name, given[name]) for name in needed[1:])
    return TotalForm(mask_of(api, given["mask"]), repeats, stride, cal_index=wanted)


def _total(kind: str, tensors: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    rec = current()
    if not rec.on_aiv:
        return
    api = APIS[kind]
    what = operands(api, tensors)
    form = _form(api, kind != "sum", args, kwargs)
    dtypes, kinds = [dtype for dtype, _ in what], [where for _, where in what]
    room = dtypes[2].nbytes(tensors[2].get_size())
    counter = counter_mode(rec)
    op = emit_cached(rec, ("total", kind, what, form, room, counter),
                     lambda: vector_total.build(kind, form, dtypes, kinds, room, counter, rec.card), *tensors)  # fmt: skip
    if op is None:
        nothing(rec, api)
    else:
        leave_mask(rec, getattr(op.effect, "register", None))


def reduce_sum(dst: Any, src: Any, shared_tmp_buffer: Any, *args: Any, **kwargs: Any) -> None:
    """The sum of all elements into dst[0]: `(dst, src, shared_tmp_buffer, count)`, or
    `(dst, src, shared_tmp_buffer, mask, repeat_time, src_rep_stride)`.

    The order of additions is the card's. What the call works with in shared_tmp_buffer is left undefined.
    """
    _total("sum", (dst, src, shared_tmp_buffer), args, kwargs)


def reduce_max(dst: Any, src: Any, shared_tmp_buffer: Any, *args: Any, **kwargs: Any) -> None:
    """The largest element into dst[0]: forms of `reduce_sum`, with `cal_index=False` at the end.

    With cal_index its first index goes into dst[1], as raw bits of an unsigned number of the same width.
    """
    _total("max", (dst, src, shared_tmp_buffer), args, kwargs)


def reduce_min(dst: Any, src: Any, shared_tmp_buffer: Any, *args: Any, **kwargs: Any) -> None:
    """The smallest element into dst[0]; as `reduce_max`."""
    _total("min", (dst, src, shared_tmp_buffer), args, kwargs)
