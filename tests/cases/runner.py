"""Runs case files: calls of the movement APIs with the output that they must give.

A case is NAME.json (the calls) beside NAME.npz (the buffers); `tests/data/cases/README.md` describes the format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aicore_sim as asc
from aicore_sim.dtypes import DataType, encode_scalar
from aicore_sim.errors import AiCoreError, ParameterError
from tests.stage import Place, Stage

FOLDER = Path(__file__).parent.parent / "data" / "cases"
BEHIND = 1 << 16
"""Bytes of GM behind a buffer: on hardware a read past its end finds something, which the mask leaves out."""
Json = Mapping[str, Any]
_RANGE = re.compile(r"-?\d+\.\.(-?\d+)")
_STEPS, _STEP_BITS, _FIELD_BITS = ("m_step", "k_step"), 8, 16
"""Widths of the fields of Load2DBitModeParam (spec api_semantics.md 4.1)."""


@dataclass(frozen=True)
class Case:
    """One case file with its buffers."""

    name: str
    what: Json
    data: Mapping[str, NDArray[Any]]

    @property
    def dtype(self) -> DataType:
        return DataType(self.what["dtype"])


@dataclass
class Result:
    """What became of one way of running a case."""

    dst: NDArray[Any]
    warnings: list[str] = field(default_factory=list)
    error: AiCoreError | None = None


def case_folder() -> Path:
    """Folder of the case files: AICORE_SIM_CASES, or the ones of the repository."""
    return Path(os.environ.get("AICORE_SIM_CASES") or FOLDER)


def case_names() -> list[str]:
    return sorted(path.stem for path in case_folder().glob("*.json") if path.with_suffix(".npz").is_file())


def load_case(name: str) -> Case:
    path = case_folder() / name
    return Case(name, json.loads(path.with_suffix(".json").read_text()), dict(np.load(path.with_suffix(".npz"))))


def case_runs() -> list[tuple[str, str]]:
    """(case, card) of every run that the folder asks for."""
    return [(name, card) for name in case_names() for card in load_case(name).what["cards"]]


# ---- calls ----------------------------------------------------------------------------------------------------------
def value_of(given: Any, dtype: DataType) -> Any:
    """An argument of the file as Python: structs by name, "Enum.MEMBER" as enumerators, lists as tuples."""
    if isinstance(given, dict) and "struct" in given:
        return _struct(given, dtype)
    if isinstance(given, list):
        return tuple(value_of(item, dtype) for item in given)
    if isinstance(given, str) and "." in given:
        kind, _, member = given.partition(".")
        return getattr(asc, kind)[member]
    return given


def _struct(given: Json, dtype: DataType) -> Any:
    name = given["struct"]
    fields = {key: value_of(value, dtype) for key, value in given["fields"].items()}
    for key in ("padding_value", "constant_value"):
        if key in fields and dtype.is_float():
            # Numbers of the element type: the package takes an int for a hifloat8 as the byte itself.
            fields[key] = float(fields[key])
    if name == "DataCopyPadExtParams":
        return asc.DataCopyPadExtParams(dtype, **fields)
    if name == "DataCopyPadParams":
        # The file gives a number in the element type, the struct holds the word of the register.
        fields["padding_value"] = register_word(fields["padding_value"], dtype)
    made = getattr(asc, name)(**fields)
    if "words" in given:
        _check_words(made, given, fields)
    return made


def register_word(value: float, dtype: DataType) -> int:
    """A number of the element type as the bits that a register holds; one that does not fit an integer type as it is."""
    if dtype.is_int():
        return int(value) % 2**dtype.bits if -(2 ** (dtype.bits - 1)) <= value < 0 and dtype.is_signed() else int(value)
    return int.from_bytes(encode_scalar(value, dtype), "little")


def _check_words(made: Any, given: Json, fields: Mapping[str, Any]) -> None:
    """The packed words of a bit-mode struct: fields give the words, and the words give the fields.

    A field reads back as its bits: the low ones of a value that does not fit, and an unsigned number for a negative one.
    """
    for word, value in given["words"].items():
        assert getattr(made, f"get_{word}")() == value, f"{word} of {given['struct']}"
    back = type(made)()
    for word, value in given["words"].items():
        getattr(back, f"set_{word}")(value)
    if "if_transpose" in fields:
        back.set_if_transpose(fields["if_transpose"])
    for name, value in fields.items():
        kept = value & ((1 << _STEP_BITS if name in _STEPS else 1 << _FIELD_BITS) - 1)
        assert getattr(back, f"get_{name}")() == kept, f"{name} out of the words of {given['struct']}"


def classic(stage: Stage, call: Json, dtype: DataType) -> Callable[[], Any]:
    """A call of the basic API as a function of no arguments.

    The format has one data_copy for all paths; from L1 to UB its name is data_copy_l1_to_ub.
    """
    function = getattr(asc, call["fn"])
    if call["fn"] == "data_copy" and _kinds(stage, call) == ("L1", "UB"):
        function = asc.data_copy_l1_to_ub
    args = [value_of(arg, dtype) for arg in call["args"]]
    kwargs = {key: value_of(value, dtype) for key, value in call["kwargs"].items()}
    if function is asc.data_copy_l1_to_ub and "count" in kwargs:
        args.append(kwargs.pop("count"))
    if "dst_buffer" not in call:
        return lambda: function(*args, **kwargs)
    dst = stage.at(call["dst_buffer"], call["dst_offset"])
    src = stage.at(call["src_buffer"], call["src_offset"])
    return lambda: function(dst, src, *args, **kwargs)


def _kinds(stage: Stage, call: Json) -> tuple[str, str]:
    """The memories that a moving call reads and writes."""
    src, dst = (stage.places[call.get(f"{side}_buffer", name)].position for side, name in (("src", "source"),
                                                                                          ("dst", "destination")))  # fmt: skip
    return stage.card.position(src), stage.card.position(dst)


def cores_of(stage: Stage, calls: Sequence[Json]) -> list[tuple[str, ...]]:
    """The cores that perform each call: copies of GM and UB and those out of UB run on a vector core, others on the cube
    core. Settings hold on every core that moves something."""
    if stage.card.coupled:
        return [("core",)] * len(calls)

    def mover(call: Json) -> str:
        src, dst = _kinds(stage, call)
        return "aiv" if {src, dst} <= {"GM", "UB"} or src == "UB" else "aic"

    movers = [mover(call) if "dst_buffer" in call or call["fn"] == "te.copy" else "" for call in calls]
    everywhere = tuple(sorted({core for core in movers if core}))
    return [(core,) if core else everywhere for core in movers]


def te_copy(stage: Stage, call: Json, case: Case) -> Callable[[], Any]:
    """A te.copy call: tensors with the layouts of the file, sliced, and the copy operation by name."""
    te = asc.te
    memory = {"GM": te.make_gm_mem_ptr, "A1": te.make_l1_mem_ptr, "B1": te.make_l1_mem_ptr,
              "A2": te.make_l0a_mem_ptr, "B2": te.make_l0b_mem_ptr}  # fmt: skip
    layouts = {"ND": te.make_nd_layout, "DN": te.make_dn_layout, "NZ": te.make_nz_layout, "ZN": te.make_zn_layout}

    def tensor(side: str, buffer: str) -> Any:
        given = call[side]
        layout = layouts[given["layout"]](case.dtype, *given["shape"])
        made = te.make_tensor(memory[case.what[buffer]["position"]](stage[buffer]), layout)
        cut = given["slice"]
        return made if cut is None else te.slice(made, te.make_coord(*cut["coord"]), te.make_shape(*cut["shape"]))

    return lambda: te.copy(
        te.make_copy(getattr(te, call["trait"])()), tensor("dst", "destination"), tensor("src", "source")
    )


def ways(case: Case) -> Iterator[tuple[str, list[Json]]]:
    """The ways to run a case: as written, and with the classic calls that a te.copy is equivalent to."""
    calls = case.what["calls"]
    yield "as written", calls
    if any("equivalent" in c for c in calls):
        yield "equivalent", [one for c in calls for one in c.get("equivalent", [c])]


# ---- one run --------------------------------------------------------------------------------------------------------
def places(case: Case) -> dict[str, Place]:
    """The buffers of a case, the source first; `dst_init` and `fill` count as not written."""
    what, name = case.what, case.dtype.name

    def place(side: str, content: NDArray[Any], written: bool) -> Place:
        elements = what[side].get("declared_words", content.size) * content.itemsize * 8 // case.dtype.bits
        return Place(what[side]["position"], name, content, elements, written, BEHIND)

    found = {"source": place("source", case.data["src"], True)}
    if "middle" in what:
        middle = what["middle"]
        found["middle"] = place("middle", np.full(middle["words"], middle["fill"], case.data["src"].dtype), False)
    return found | {"destination": place("destination", case.data["dst_init"], False)}


def run_case(case: Case, card: str, calls: Sequence[Json], **modes: Any) -> Result:
    """Run the calls in order, each complete before the next; an error ends the case."""
    stage = Stage(card, places(case), **modes)
    if any(field.get("sub_block_id") for field in _fields(case.what["calls"])):
        # The destination is the UB of the second vector core of the group.
        stage.recorder.group_ub = stage.recorder.group_ub[::-1]
    result = Result(case.data["dst_init"])
    try:
        for call, cores in zip(calls, cores_of(stage, calls), strict=True):
            made = te_copy(stage, call, case) if call["fn"] == "te.copy" else classic(stage, call, case.dtype)
            for core in cores:
                stage.call(made, core=core)
    except AiCoreError as error:
        result.error = error
    result.dst = stage.bytes("destination").view(case.data["dst"].dtype)
    result.warnings = stage.warnings
    return result


def _fields(calls: Sequence[Json]) -> Iterator[Json]:
    """Fields of all structs of the calls."""
    for call in calls:
        yield from (arg["fields"] for arg in call.get("args", ()) if "fields" in arg)


def check_case(case: Case, card: str) -> None:
    """Assert the outcome that the case expects, in every way to run it.

    equal: nothing refused, nothing said to be wrong that the case does not expect, and the result right.
    equal_and_report: nothing refused, the result as given, and a warning. refuse_or_wrap: refused, with the destination
    as it was, where accesses past a tensor are errors; and the result as given where fields are cut to their width, unless
    what is left of them is illegal too (steps that are no multiple of a square, a stride of 0) or there is no field to cut (an
    unaligned address): then the call is refused there as well, and nothing is moved.
    """
    for label, calls in ways(case):
        expect = case.what["expect"]
        if expect == "refuse_or_wrap":
            refused = run_case(case, card, calls, strict=True)
            assert refused.error is not None, f"{case.name} {label}: not refused"
            np.testing.assert_array_equal(refused.dst, case.data["dst_init"])
            wrapped = run_case(case, card, calls, wrap="hardware")
            if wrapped.error is None or _too_wide(wrapped.error):
                _compare(case, wrapped, label)
            else:
                np.testing.assert_array_equal(wrapped.dst, case.data["dst_init"])
            continue
        result = run_case(case, card, calls)
        _compare(case, result, label)
        assert expect == "equal" or result.warnings, f"{case.name} {label}: the mistake is not reported"


def _too_wide(error: AiCoreError) -> bool:
    """The refusal of a value above the range of its field, which hardware would have cut."""
    ends = _RANGE.fullmatch(str(error.allowed))
    if not isinstance(error, ParameterError):
        return False
    return ends is not None and isinstance(error.value, int) and error.value > int(ends[1])


def _compare(case: Case, result: Result, label: str) -> None:
    if result.error is not None:
        raise AssertionError(f"{case.name} {label}: refused: {result.error}") from result.error
    mask = case.data["mask"]
    np.testing.assert_array_equal(result.dst[mask], case.data["dst"][mask], f"{case.name} {label}")
