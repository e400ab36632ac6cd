"""The calls that can be explained: one line of `FORMS` for each parameter struct, and the words that fill its fields.

Structs and functions are looked up in `aicore_sim.kernel.language` by name: a line whose struct is not there (or only a
placeholder) is no known struct.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aicore_sim.card_files import near
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import camel
from aicore_sim.kernel import language
from aicore_sim.kernel.placeholder import Placeholder

ENUMS = {"quant_pre": "QuantModes", "layout": "CO2Layout", "mode": "PaddingMode"}
"""Enumerations whose members may stand for a number, by field."""
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Part:
    """One struct of a call and where it goes.

    `into` is "argument" (behind the tensors, in order), "keyword" (as `name`) or "field" (as field `name` of the first
    part). `optional`: left out unless one of its fields is given. `typed`: takes the element type first. `many`: one
    struct for each number of its fields' lists. `reads_gm`: only where the source is in GM. `true_in` = (field, buffer):
    the field is true by default where the destination lies in that buffer.
    """

    struct: str
    name: str = ""
    into: str = "argument"
    optional: bool = False
    typed: bool = False
    many: bool = False
    reads_gm: bool = False
    true_in: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Form:
    """A call by the struct it is known by: function, default positions, its parts, keywords that are no struct.

    `core` is "aic" where only a cube core does the call, "" where the positions decide. `counts`: the number of
    dimensions is the last argument.
    """

    name: str
    call: str
    src: str
    dst: str
    parts: tuple[Part, ...]
    keywords: tuple[str, ...] = ()
    dtype: str = "half"
    core: str = ""
    counts: bool = False

    @property
    def api(self) -> str:
        """The name of the function in Ascend C."""
        return "".join(word.capitalize() for word in self.call.split("_"))


def _form(struct: str, call: str, src: str, dst: str, *further: Part, **more: Any) -> Form:
    return Form(struct, call, src, dst, (Part(struct), *further), **more)


_CONFIG = Part("FixpipeConfig", "config", "keyword", optional=True, true_in=("is_to_ub", "UB"))
_ND = Part("Nz2NdParams", "params", "field", optional=True)
_DN = Part("Nz2DnParams", "params", "field", optional=True)
_PAD_EXT = Part("DataCopyPadExtParams", "pad_params", typed=True, reads_gm=True)
_PAD = Part("DataCopyPadParams", "pad_params", reads_gm=True)
_LOOPS = Part("NdDmaLoopInfo", "loop_info", "field")
_NDDMA = Part("NdDmaConfig", "config", "keyword", optional=True)
_SLICES = (Part("SliceInfo", "dst", many=True), Part("SliceInfo", "src", many=True))

FORMS = (
    _form("LoadData2DParams", "load_data", "A1", "A2", core="aic"),
    _form("LoadData2DParamsV2", "load_data", "A1", "A2", core="aic"),
    _form("Load2DBitModeParam", "load_data", "A1", "A2", core="aic"),
    _form("LoadData3DParamsV2", "load_data", "A1", "A2", core="aic"),
    _form("LoadData3DParamsV2Pro", "load_data", "A1", "A2", core="aic"),
    _form("LoadData2dTransposeParams", "load_data_with_transpose", "B1", "B2", core="aic"),
    _form("LoadData2dTransposeParamsV2", "load_data_with_transpose", "B1", "B2", core="aic"),
    _form("Nd2NzParams", "data_copy", "GM", "A1", keywords=("enable_small_c0",)),
    _form("Dn2NzParams", "data_copy", "GM", "A1", keywords=("enable_small_c0",)),
    _form("Nz2NdParamsFull", "data_copy", "VECOUT", "GM"),
    _form("DataCopyParams", "data_copy", "GM", "VECIN"),
    Form("DataCopyPadParams", "data_copy_pad", "GM", "VECIN", (Part("DataCopyParams"), _PAD), ("mode",)),
    _form("DataCopyExtParams", "data_copy_pad", "GM", "VECIN", _PAD_EXT, keywords=("mode",)),
    _form("NdDmaParams", "data_copy", "GM", "VECIN", _LOOPS, _NDDMA),
    Form("SliceInfo", "data_copy", "GM", "VECIN", _SLICES, counts=True),
    _form("FixpipeParamsV220", "fixpipe", "CO1", "GM", _CONFIG, dtype="float", core="aic"),
    _form("FixpipeParamsM300", "fixpipe", "CO1", "GM", _CONFIG, dtype="float", core="aic"),
    _form("FixpipeParamsArch3510", "fixpipe", "CO1", "GM", _CONFIG, _ND, _DN, dtype="float", core="aic"),
    _form("DataCopyCO12DstParams", "data_copy", "CO1", "GM", dtype="float", core="aic"),
)
ALIASES = {"DataCopyPadExtParams": "DataCopyExtParams", "MultiCopyParams": "NdDmaParams",
           "FixpipeParamsC310": "FixpipeParamsArch3510"}  # fmt: skip
"""Other names of the same call."""


@dataclass(frozen=True)
class Arguments:
    """What stands behind the tensors of a call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class _Field:
    """A field as it is written (`name`, with its part in front where that is needed), and where its value goes."""

    name: str
    part: int
    key: str
    default: Any = field(compare=False)


def _exists(name: str) -> bool:
    return not isinstance(getattr(language, name, Placeholder("")), Placeholder)


def known_structs() -> list[str]:
    """Names of the structs that this version can explain."""
    return [form.name for form in FORMS if _exists(form.call) and all(_exists(part.struct) for part in form.parts)]


def form_of(struct: str) -> Form:
    """The call of a parameter struct, by name in any case. Raises ParameterError that lists the known ones."""
    known = known_structs()
    names = {name.lower(): name for name in known} | {alias.lower(): name for alias, name in ALIASES.items()}
    found = names.get(struct.lower())
    if found is None or found not in known:
        raise ParameterError(f"no parameter struct of this name{near(struct, known)}", field="struct", value=struct,
                             allowed=", ".join(known))  # fmt: skip
    return next(form for form in FORMS if form.name == found)


def _fields_of(form: Form) -> list[_Field]:
    """Every word that the call takes: fields of its structs, then keywords (part -1)."""
    inner = {part.name for part in form.parts if part.into == "field"}
    taken: list[_Field] = []
    for number, part in enumerate(form.parts):
        for name, parameter in inspect.signature(getattr(language, part.struct)).parameters.items():
            # Bit-mode structs can be made from another struct, which is no word.
            if name == "params" or (part.typed and name == "dtype") or (number == 0 and name in inner):
                continue
            prefix = part.name and (part.many or any(one.key == name for one in taken))
            taken.append(_Field(f"{part.name}.{name}" if prefix else name, number, name, parameter.default))
    return [*taken, *(_Field(word, -1, word, None) for word in form.keywords)]


def fields_text(form: Form) -> str:
    """The fields with their defaults, as they would be typed; a required one has none."""
    return ", ".join(f"{one.name}={_typed(one.default)}" for one in _fields_of(form))


def _typed(default: Any) -> str:
    if default is _REQUIRED:
        return "(required)"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (tuple, list)):
        return ",".join(str(item) for item in default)
    return "(not set)" if default is None else str(default)


def arguments(form: Form, words: Sequence[str], dtype: DataType, src: str, dst: str) -> Arguments:
    """The arguments behind the tensors out of `key=value` words; `src` and `dst` are the buffers of the tensors.

    Keys are field names, in snake_case or as in C++; a field that two structs of the call have is written with its part
    (`config.loop_lp_size`). Raises ParameterError for unknown, repeated, missing or unreadable fields.
    """
    given = _given(form, words)
    values: list[dict[str, Any]] = [{} for _ in form.parts]
    kwargs: dict[str, Any] = {}
    for one, value in given.items():
        (kwargs if one.part < 0 else values[one.part])[one.key] = value
    args: list[Any] = []
    inner: dict[str, Any] = {}
    for part, own in zip(form.parts[1:], values[1:], strict=True):
        if part.reads_gm and src != "GM":
            if own:
                raise ParameterError(f"{form.api}: padding goes with a source in GM", field=next(iter(own)), value=src,
                                     allowed="--src GM")  # fmt: skip
            continue
        if part.true_in[1] == dst:
            own.setdefault(part.true_in[0], True)
        if part.optional and not own:
            continue
        made = _made(form, part, own, dtype)
        if part.into == "argument":
            args.append(made)
        elif part.into == "keyword":
            kwargs[part.name] = made
        elif part.name in inner:
            raise ParameterError(f"{form.name}: fields of {part.struct} and of another form of {part.name}",
                                 field=part.name, allowed="fields of one of them")  # fmt: skip
        else:
            inner[part.name] = made
    first = _made(form, form.parts[0], values[0] | inner, dtype)
    return Arguments((first, *args, *([len(first)] if form.counts else [])), kwargs)


def _given(form: Form, words: Sequence[str]) -> dict[_Field, Any]:
    known = _fields_of(form)
    given: dict[_Field, Any] = {}
    for word in words:
        key, mark, text = word.partition("=")
        if not mark:
            raise ParameterError(f"fields are words of the form key=value, not {word!r}", field=word,
                                 allowed=fields_text(form))  # fmt: skip
        found = _find(form, known, key)
        if found is None:
            raise ParameterError(f"{form.name} has no field {key!r}{near(snake(key), [one.name for one in known])}",
                                 field=key, value=text, allowed=fields_text(form))  # fmt: skip
        if found in given:
            raise ParameterError(f"{form.name}: {key} is given twice", field=key, value=text, allowed="once")
        given[found] = _value(form, found, text)
    return given


def _find(form: Form, known: Sequence[_Field], key: str) -> _Field | None:
    key = ".".join(snake(piece) for piece in key.split("."))
    for one in known:
        if key in (one.name, f"{form.parts[one.part].name}.{one.key}" if one.part >= 0 else one.key):
            return one
    return None


def snake(name: str) -> str:
    """`srcStride` -> `src_stride`; snake_case stays."""
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _made(form: Form, part: Part, values: Mapping[str, Any], dtype: DataType) -> Any:
    struct = getattr(language, part.struct)
    needed = [name for name, parameter in inspect.signature(struct).parameters.items() if parameter.default is _REQUIRED]
    missing = [name for name in needed if name not in values and not (part.typed and name == "dtype")]
    if missing:
        spelled = ", ".join(f"{name} ({camel(name)})" for name in missing)
        raise ParameterError(f"{form.name} needs {spelled}", field=missing[0], allowed=fields_text(form))
    if part.many:
        return _many(form, part, struct, values)
    return struct(dtype, **values) if part.typed else struct(**values)


def _many(form: Form, part: Part, struct: Any, values: Mapping[str, Any]) -> list[Any]:
    """One struct for each position of the lists."""
    lists = {key: value if isinstance(value, tuple) else (value,) for key, value in values.items()}
    lengths = {len(column) for column in lists.values()}
    if len(lengths) > 1:
        raise ParameterError(f"{form.name}: the lists of {part.name} have different lengths", field=part.name,
                             value=", ".join(f"{key}: {len(column)}" for key, column in lists.items()),
                             allowed="one number for each dimension")  # fmt: skip
    return [struct(**dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)]


def _value(form: Form, one: _Field, text: str) -> Any:
    """A value as typed: true|false, ints (also negative, 0x.., 1e6), fractions, enumerators, comma lists of numbers."""
    enum = getattr(language, ENUMS[one.key]) if one.key in ENUMS else None
    member = text.rpartition(".")[2]
    if enum is not None and member in enum.__members__:
        return enum[member]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if isinstance(one.default, (tuple, list)) or "," in text:
            return tuple(_number(piece) for piece in text.split(",") if piece)
        number = _number(text)
    except ValueError:
        allowed = "a number, true|false or a comma list" if enum is None else "|".join(enum.__members__)
        raise ParameterError(f"{form.name}: {one.name} has no value {text!r}", field=one.name, value=text,
                             allowed=allowed) from None  # fmt: skip
    if enum is not None and number in list(enum):
        return enum(number)
    return bool(number) if isinstance(one.default, bool) and number in (0, 1) else number


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        value = float(text)
        return int(value) if "e" in text.lower() and value.is_integer() else value
