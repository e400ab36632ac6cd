"""Compare, Compares and Select as a kernel calls them: the forms with a count (spec pyasc.md 6.3).

They belong to the vector core: elsewhere a call does nothing. Errors as in `api_vector`; the other forms, with a mask or
with the comparison register, are UnsupportedErrors.
"""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import vector_select
from aicore_sim.instructions.vector import BinaryRepeatParams
from aicore_sim.kernel.context import current
from aicore_sim.kernel.enums import CMPMODE
from aicore_sim.kernel.vector_forms import emit_cached, leave_mask, nothing, operands, whole

__all__ = ["compare", "compare_scalar", "select"]


def _counted(api: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the form with a count by name; `names` end with "count"."""
    given = dict(zip(names, args, strict=False))
    # The forms of the comparison register have as many arguments, but other ones.
    other = any(isinstance(value, BinaryRepeatParams) for value in args) or isinstance(given.get("src1"), CMPMODE)
    if other or len(args) > len(names) or not set(kwargs) <= set(names):
        raise UnsupportedError(f"{api}: only the form with a count is in this version", field="arguments",
                               value=f"{len(args)} arguments {sorted(kwargs)}", allowed=f"({', '.join(names)})")  # fmt: skip
    for name, value in kwargs.items():
        if name in given:
            raise ParameterError(f"{api}: {name} is given twice", field="arguments", value=name)
        given[name] = value
    for name in names:
        if name not in given:
            raise UnsupportedError(f"{api}: only the form with a count is in this version", field="arguments",
                                   value=f"{name} is missing", allowed=f"({', '.join(names)})")  # fmt: skip
    return given


def _emit(api: str, build: Any, tensors: tuple[Any, ...], mode: int, count: int, scalar: Any) -> None:
    rec = current()
    what = operands(api, tensors)
    dtypes, kinds = [dtype for dtype, _ in what], [where for _, where in what]
    key = (api, what, mode, count, type(scalar), repr(scalar))
    if emit_cached(rec, key, lambda: build(mode, count, scalar, dtypes, kinds, rec.card), *tensors) is None:
        nothing(rec, api)
    else:
        leave_mask(rec, None)


def compare(*args: Any, **kwargs: Any) -> None:
    """Bit i of dst tells how src0[i] compares with src1[i]: `(dst, src0, src1, cmp_mode, count)`.

    Only whole 256 B of the sources take part.
    """
    if not current().on_aiv:
        return
    given = _counted("Compare", ("dst", "src0", "src1", "cmp_mode", "count"), args, kwargs)
    mode, count = (whole("Compare", name, given[name]) for name in ("cmp_mode", "count"))
    _emit("Compare", vector_select.build_compare, (given["dst"], given["src0"], given["src1"]), mode, count, None)


def compare_scalar(*args: Any, **kwargs: Any) -> None:
    """Bit i of dst tells how src0[i] compares with a number: `(dst, src0, src1_scalar, cmp_mode, count)`.

    Only whole 256 B of the source take part.
    """
    if not current().on_aiv:
        return
    given = _counted("Compares", ("dst", "src0", "src1_scalar", "cmp_mode", "count"), args, kwargs)
    mode, count = (whole("Compares", name, given[name]) for name in ("cmp_mode", "count"))
    _emit("Compares", vector_select.build_compare, (given["dst"], given["src0"]), mode, count, given["src1_scalar"])


def select(*args: Any, **kwargs: Any) -> None:
    """dst[i] is src0[i] where bit i of sel_mask is 1, else src1[i] or the number src1:
    `(dst, sel_mask, src0, src1, sel_mode, count)`.
    """
    if not current().on_aiv:
        return
    given = _counted("Select", ("dst", "sel_mask", "src0", "src1", "sel_mode", "count"), args, kwargs)
    mode, count = (whole("Select", name, given[name]) for name in ("sel_mode", "count"))
    tensors, other = (given["dst"], given["sel_mask"], given["src0"]), given["src1"]
    if hasattr(other, "kind"):
        _emit("Select", vector_select.build_select, (*tensors, other), mode, count, None)
    else:
        _emit("Select", vector_select.build_select, tensors, mode, count, other)
