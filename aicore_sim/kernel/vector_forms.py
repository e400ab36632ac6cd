"""The count form and the mask form of vector functions: arguments, the Op cache, the mask register (spec pyasc.md 6.3).

A family hands `record` its operands, what follows them, and a function that makes the checked `Work`; the rest is the
same for all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import Op
from aicore_sim.instructions.vector import (
    DuplicateStrides,
    Masked,
    RepeatParams,
    UnaryRepeatParams,
    Work,
    count_op,
    mask_op,
)
from aicore_sim.kernel.context import Recorder, current

_COUNT_FORM = ("count", "is_set_mask")
_MASK_FORM = ("mask", "repeat_times", "repeat_params", "is_set_mask")
_DUPLICATE_FORM = ("mask", "repeat_times", "dst_block_stride", "dst_repeat_stride", "is_set_mask")
# Count forms in which is_set_mask = False has a meaning on 2201 (spec api_semantics.md 25.2).
_USE_MASK_REGISTER = ("Adds", "Muls", "Maxs", "Mins", "LeakyRelu", "ShiftLeft", "ShiftRight")

ALL_ONES = ((1 << 64) - 1, (1 << 64) - 1)

Form = int | Masked
Maker = Callable[[tuple[DataType, ...], tuple[str, ...], Any, Card], Work]
"""(element types, buffers, scalar operand or mode, card) -> the checked work; tensors destination first."""


# ---- arguments ------------------------------------------------------------------------------------------------------
def whole(api: str, field: str, value: Any) -> int:
    """`value` as a plain int. Raises ParameterError for anything else."""
    if type(value) is int:
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        raise ParameterError(f"{api}: {field} must be an int", field=field, value=value) from None


def mask_of(api: str, mask: Any) -> int | tuple[int, ...]:
    """A mask argument: an int, or the words of a list."""
    if isinstance(mask, (list, tuple)):
        return tuple([whole(api, "mask", word) for word in mask])
    return whole(api, "mask", mask)


def _named(api: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional and keyword arguments of one form by name."""
    given = dict(zip(names, args, strict=False))
    doubled = len(args) > len(names) or any(name not in names or name in given for name in kwargs)
    given.update(kwargs)
    if doubled or not isinstance(given.get("is_set_mask", True), bool):
        raise ParameterError(f"{api}: no form takes these arguments", field="arguments", value=f"{args} {kwargs}",
                             allowed=f"({', '.join(_COUNT_FORM)}) or ({', '.join(names)})")  # fmt: skip
    return given


def form_of(rec: Recorder, api: str, params: type[RepeatParams], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form:
    """The count, or the arguments of the mask form, from what follows the operands."""
    if len(args) == 1 and not kwargs:
        return whole(api, "count", args[0])
    names = _DUPLICATE_FORM if params is DuplicateStrides else _MASK_FORM
    if len(args) <= 2 and not any(field in kwargs for field in names[:-1]):
        given = _named(api, _COUNT_FORM, args, kwargs)
        if "count" not in given:
            _missing(api, "count")
        if not given.get("is_set_mask", True) and api in _USE_MASK_REGISTER and rec.card.npu_arch == 2201:
            return Masked(mask_register(rec), 1, UnaryRepeatParams(), counter_mode(rec))
        return whole(api, "count", given["count"])
    given = _named(api, names, args, kwargs)
    for field in names[:-1]:
        if field not in given:
            _missing(api, field)
    mask = mask_of(api, given["mask"]) if given.get("is_set_mask", True) else mask_register(rec)
    repeats = whole(api, "repeat_times", given["repeat_times"])
    if params is DuplicateStrides:
        block, repeat = (whole(api, field, given[field]) for field in names[2:4])
        return Masked(mask, repeats, DuplicateStrides(block, repeat), counter_mode(rec))
    strides = given["repeat_params"]
    if not isinstance(strides, params):
        raise ParameterError(f"{api}: repeat_params", field="repeat_params", value=type(strides).__name__,
                             allowed=params.__name__)  # fmt: skip
    return Masked(mask, repeats, strides, counter_mode(rec))


def _missing(api: str, field: str) -> None:
    raise ParameterError(f"{api}: {field} is missing", field=field)


# ---- the mask register ----------------------------------------------------------------------------------------------
def mask_register(rec: Recorder) -> tuple[int, int]:
    """The mask register as a mask list: low word, high word (`set_vector_mask`)."""
    high, low = rec.state.get("vector_mask", ALL_ONES)
    return low, high


def counter_mode(rec: Recorder) -> bool:
    """True while masks count elements (`set_mask_count`)."""
    return rec.state.get("mask_mode") == "counter"


def leave_mask(rec: Recorder, register: tuple[int, int] | None) -> None:
    """The mask register after a call (spec 25.2): mask forms leave their mask, `register` = (high, low); count forms,
    None, leave the start state on 2201 and nothing elsewhere."""
    state = rec.state
    if register is not None:
        state["vector_mask"] = register
    elif ("vector_mask" in state or "mask_mode" in state) and rec.card.npu_arch == 2201:
        state["vector_mask"], state["mask_mode"] = ALL_ONES, "normal"


def sticky(rec: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call takes from the mask mode and, with is_set_mask = False, the mask register."""
    state = rec.state
    sets_mask = kwargs.get("is_set_mask", True) and args[-1:] != (False,)
    return state.get("mask_mode"), None if sets_mask else state.get("vector_mask")


# ---- one call -------------------------------------------------------------------------------------------------------
def operands(api: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """(element type, buffer) of every operand, for the key of the Op. Raises ParameterError for what is no tensor."""
    try:
        return tuple([(t.dtype, t.kind) for t in tensors])
    except AttributeError:
        raise ParameterError(f"{api}: destination and sources are LocalTensors", field="operands",
                             value=", ".join(type(t).__name__ for t in tensors)) from None  # fmt: skip


def record(
    name: str, api: str, tensors: tuple[Any, ...], params: type[RepeatParams], args: tuple[Any, ...],
    kwargs: dict[str, Any], make: Maker, scalar: Any = None,
) -> None:  # fmt: skip
    """Record one call: `scalar` is what `make` gets besides the types (scalar operand, mode, sticky scale).

    The arguments are looked at only once: an equal call finds its Op by its key. The key tells apart what compares
    equal: types of arguments, 0.0 and -0.0; and NaN equals itself there. On a core without UB nothing happens.
    """
    rec = current()
    if not rec.on_aiv:
        return
    what = (name, operands(api, tensors))
    if kwargs or (args and isinstance(args[0], list)) or hasattr(scalar, "__len__"):
        how: Any = repr((args, sorted(kwargs.items()), scalar))
    else:
        how = (args, tuple(map(type, args)), scalar if scalar and scalar == scalar else repr(scalar))
    key = (what, how, None if len(args) == 1 and not kwargs else sticky(rec, args, kwargs))
    op = rec.ops.get(key)
    if op is None:
        form = form_of(rec, api, params, args, kwargs)
        work = make(tuple(t.dtype for t in tensors), tuple(t.kind for t in tensors), scalar, rec.card)
        op = count_op(work, form, rec.card) if isinstance(form, int) else mask_op(work, form, rec.card)
        if op is None:
            nothing(rec, api)
            return
        rec.ops[key] = op
    rec.emit(op, *tensors)
    leave_mask(rec, getattr(op.effect, "register", None))


def nothing(rec: Recorder, api: str) -> None:
    """No element takes part: nothing is recorded, with a warning on 950, which does not promise that."""
    if rec.card.npu_arch == 3510:
        rec.session.warn(f"{api}: nothing is done for 0 elements, which this card does not guarantee", rec.line())


def emit_cached(rec: Recorder, key: Any, build: Callable[[], Op | None], *tensors: Any) -> Op | None:
    """Emit the Op of `key`, built on first use; None, with the warning of `nothing`, where there is nothing to do."""
    op = rec.ops.get(key)
    if op is None:
        op = build()
        if op is None:
            return None
        rec.ops[key] = op
    rec.emit(op, *tensors)
    return op
