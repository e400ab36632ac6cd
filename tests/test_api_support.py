"""The cards' API lists against the model: what a row offers is accepted, what it does not is refused with another way.

Rows are those of `card.api(name)` (configs/*.toml); tests/api_calls.py says how to call each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import aicore_sim as asc
from aicore_sim.card_model import ApiSupport
from aicore_sim.dtypes import DataType
from aicore_sim.errors import UnsupportedError
from aicore_sim.instructions.offer import python_name
from aicore_sim.kernel.placeholder import Placeholder
from aicore_sim.model_gaps import gap
from tests.api_calls import CALLS, Call, Spot, stage_of
from tests.stage import CARDS, the_card

TYPES = [DataType(name) for name in (
    "int4", "fp4x2_e2m1", "fp4x2_e1m2", "int8", "uint8", "hifloat8", "fp8_e5m2", "fp8_e4m3fn", "fp8_e8m0", "int16", "uint16",
    "half", "bfloat16", "int32", "uint32", "float", "int64", "uint64", "double",
)]  # fmt: skip
NO_TYPE = {"complex32", "complex64"}
"""Pages list them for copies of bytes; pyasc has no such types, an integer of the same width moves the same bytes."""
POSITIONS = {"VEC*": ("VECIN", "VECCALC", "VECOUT"), "L1": ("A1",), "L0A": ("A2",), "L0B": ("B2",)}

# ---- where list and model differ, and why ----------------------------------------------------------------------------------
ACCEPTED = {
    ("DataCopyPad", "GM to UB unaligned (DataCopyPad); without PaddingMode", "atlas_350"):
        "the template argument has a default: the call without it compiles",
}  # fmt: skip
"""Rows that a card's page does not offer and the model takes."""
REFUSED = {
    ("Copy", "Tensor API, GM to L1", "fp8_e8m0_t", ""): "e8m0 has scale formats only, which are not modelled",
    ("LoadDataWithTranspose", "", "int4b_t", "A2"): "4 bits go into L0B only, as the row says in words",
}  # fmt: skip
"""(API, variant, type, destination or "" for any): types of a row that the model refuses."""
BYTES = ("DataCopy", "GM and UB"), ("DataCopy", "GM to L1"), ("DataCopyL1ToUB", "")
"""Where widths are listed, 4-bit types are moved as bytes (spec api_semantics.md 9.1)."""


def rows() -> Iterator[tuple[str, ApiSupport]]:
    for card in CARDS:
        for row in the_card(card).model.support.apis:
            yield card, row


def named(row: ApiSupport) -> str:
    return f"{row.name} {row.variant}".strip()


def params(offered: bool) -> list[Any]:
    """The rows of CALLS that a card offers, or does not."""
    return [pytest.param(card, row, id=f"{card}-{named(row)}-{','.join(row.paths)[:24]}") for card, row in rows()
            if (row.name, row.variant) in CALLS and (row.supported and not gap(the_card(card), row)) == offered]  # fmt: skip


# ---- what a row says --------------------------------------------------------------------------------------------------------
def paths_of(row: ApiSupport) -> list[tuple[str, str]]:
    """Position pairs of a row; ("", position) for a fill."""
    found = []
    for text in row.paths or ("",):
        source, _, target = text.split(" ")[0].rpartition(">")
        ends = [POSITIONS.get(end, (end,)) for end in (source, target)]
        found += itertools.product(*ends)
    return found


def types_of(row: ApiSupport, kind: str) -> list[tuple[DataType, ...]]:
    """Tuples of element types that a row lists."""
    found: dict[tuple[DataType, ...], None] = {}
    for text in row.dtypes:
        if text in NO_TYPE:
            continue
        if text[0] == "b" and text[1:].isdigit():
            found.update({(dtype,): None for dtype in TYPES if dtype.bits == int(text[1:])})
            continue
        sides = [side.split("/") for side in text.split("*")]
        if kind == "pair" and "/" in text and len(sides) == 2:
            found.update({(DataType(sides[0][0]), DataType(out)): None for out in sides[1]})
        else:
            found[tuple(DataType(side[0]) for side in sides)] = None
    return list(found) or [(DataType("half"),)]


def refused_by_rule(row: ApiSupport, path: tuple[str, str], types: tuple[DataType, ...]) -> bool:
    return any((row.name, row.variant, types[0].api_name, target) in REFUSED for target in ("", path[1]))


def perform(spot: Spot, call: Call) -> None:
    spot.stage.call(lambda: call.action(spot))


def refusal(spot: Spot, call: Call) -> UnsupportedError:
    """The error of a call that the card does not take; nothing of it may be recorded."""
    with pytest.raises(UnsupportedError) as caught:
        perform(spot, call)
    assert not spot.stage.ops
    assert caught.value.card == spot.card
    return caught.value


# ---- offered ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("card", "row"), params(True))
def test_what_a_row_offers_is_accepted(card: str, row: ApiSupport) -> None:
    call = CALLS[row.name, row.variant]
    accepted = 0
    for path in paths_of(row):
        for types in types_of(row, call.kind):
            spot = stage_of(call, card, path, types)
            if refused_by_rule(row, path, types):
                assert refusal(spot, call).field == "dtype"
                continue
            perform(spot, call)
            if row.name == "DisableDmaAtomic":
                assert not spot.stage.recorder.atomic
            elif "Atomic" in row.name:
                assert spot.stage.recorder.atomic.endswith(types[0].name)
            else:
                assert spot.stage.recorder.program, (path, types)
            accepted += 1
    assert accepted


def others_of(card: str, row: ApiSupport, kind: str, path: tuple[str, str]) -> list[tuple[DataType, ...]]:
    """Type tuples that no row of this API, variant and path lists."""
    same = [other for other in the_card(card).api(row.name, row.variant) if other.supported and path in paths_of(other)]
    listed = {types for other in same for types in types_of(other, kind)}
    if kind in ("move", "fill"):
        widths = any(text[0] == "b" and text[1:].isdigit() for other in same for text in other.dtypes)
        bytes_only = widths and any(row.name == name and row.variant.startswith(start) for name, start in BYTES)
        tried = [(dtype,) for dtype in TYPES if not (bytes_only and dtype.bits == 4)]
    elif kind == "pair":
        tried = list(itertools.product([DataType(name) for name in ("float", "int32", "half")], TYPES))
    else:
        count = len(next(iter(listed)))
        ends = [(DataType("float"),), (DataType("int32"),), (DataType("half"),)]
        tail = [end * (1 + (row.variant == "with bias")) for end in ends]
        if row.name == "MmadMx":
            tail = [(DataType("fp8_e8m0"), end[0], end[0]) for end in ends]
        pairs = [(dtype, dtype) for dtype in TYPES]
        pairs += [(DataType("fp8_e5m2"), DataType("half")), (DataType("int8"), DataType("uint8"))]
        tried = [pair + rest for pair in pairs for rest in tail]
        assert all(len(types) == count for types in tried)
    return [types for types in tried if types not in listed]


@pytest.mark.parametrize(("card", "row"), [one for one in params(True) if CALLS[one.values[1].name, one.values[1].variant].kind
                                           != "register" and one.values[1].dtypes])  # fmt: skip
def test_other_types_are_refused(card: str, row: ApiSupport) -> None:
    call = CALLS[row.name, row.variant]
    for path in paths_of(row)[:2]:
        for types in others_of(card, row, call.kind, path):
            error = refusal(stage_of(call, card, path, types), call)
            assert error.field == "dtype", (path, types, str(error))
            text = str(error)
            assert types[0].name in text or types[0].api_name in text
            assert error.allowed


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", ["SetAtomicAdd", "SetAtomicMax", "SetAtomicMin", "SetAtomicType", "SetLoadDataPaddingValue"])
def test_registers_with_a_type_refuse_others(card: str, name: str) -> None:
    row = the_card(card).api(name)[0]
    call = CALLS[name, ""]
    tried = [dtype for dtype in TYPES if dtype.api_name not in row.dtypes]
    assert tried
    for dtype in tried:
        error = refusal(stage_of(call, card, ("", ""), (dtype,)), call)
        assert python_name(name) in str(error)
        assert error.field == ("dtype" if row.supported else "api")


STORES: dict[str, tuple[str, str]] = {
    "VECOUT>GM": ("DataCopy", "GM and UB contiguous"), "CO1>GM": ("Fixpipe", "L0C to GM"),
    "A1>GM": ("DataCopy", "L1 to GM contiguous"),
}  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
def test_stores_of_every_path_are_atomic(card: str) -> None:
    (row,) = the_card(card).api("SetAtomicAdd")
    for path in row.paths:
        name, variant = STORES[path]
        source, _, target = path.partition(">")
        spot = stage_of(CALLS[name, variant], card, (source, target), (DataType("float"), DataType("float")))
        if path == "A1>GM" and card == "atlas_200i":  # the row names a path that no copy of the card has
            refusal(spot, CALLS[name, variant])
            continue
        spot.stage.call(lambda: asc.set_atomic_add(asc.float32))
        perform(spot, CALLS[name, variant])
        assert all("atomic add" in op.detail for op in spot.stage.ops)


# ---- not offered ------------------------------------------------------------------------------------------------------------
def elsewhere(row: ApiSupport, call: Call) -> tuple[tuple[str, str], tuple[DataType, ...]]:
    """A path and types of the row: of a card that offers it, else those of the call's table."""
    if call.kind == "register":
        return ("", ""), (DataType("half"),)
    found = [one for _, one in rows() if (one.name, one.variant) == (row.name, row.variant) and one.supported]
    usual = [one for one in found if row.paths and one.paths[:1] == row.paths[:1]] or found
    if not usual:
        path, names = call.default
        return path, tuple(DataType(name) for name in names)
    # LoadData_2D has a row a path: the one that this card lacks is the last.
    where = usual[-1]
    return paths_of(where)[0], types_of(where, call.kind)[0]


@pytest.mark.parametrize(("card", "row"), params(False))
def test_what_a_card_lacks_is_refused_with_another_way(card: str, row: ApiSupport) -> None:
    call = CALLS[row.name, row.variant]
    spot = stage_of(call, card, *elsewhere(row, call))
    if (row.name, row.variant, card) in ACCEPTED:
        perform(spot, call)
        return
    error = refusal(spot, call)
    api = row.name.partition("_")[0]
    assert api in error.message or python_name(api) in error.message
    assert call.says and call.says in error.message, str(error)
    way = call.way(card)
    assert way and way in (error.allowed or ""), str(error)


ELSEWHERE = [
    *((card, "A1", "A2", "does not go from L1 to L0A", "load_data") for card in CARDS),
    *((card, "GM", "B2", "from GM to L0B", "GM to L1, then load_data") for card in CARDS),
    *((card, "CO1", "GM", "does not go from L0C to GM", "fixpipe") for card in CARDS),
    *((card, "GM", "GM", "no path from GM to GM", "GM to UB, then UB to GM") for card in CARDS),
    *((card, "A2", "CO1", "no path from L0A to L0C", "GM-UB") for card in CARDS),
    ("atlas_350", "VECIN", "A2", "no path from UB to L0A", "UB to L1, then load_data"),
    ("atlas_a2", "VECIN", "A2", "no path from UB to L0A", "then on the cube core to L1"),
    ("atlas_a3", "VECIN", "A2", "no path from UB to L0A", "then on the cube core to L1"),
    ("atlas_200i", "VECIN", "A2", "no path from UB to L0A", "LoadData2DParams for fractals laid out in GM"),
    ("atlas_350", "A1", "VECIN", "from L1 to UB", "data_copy_l1_to_ub"),
    ("atlas_a2", "A1", "VECIN", "from L1 to UB", "data_copy from GM to UB"),
    ("atlas_a2", "GM", "C2", "no path from GM to BT", "GM to L1, then L1 to BT"),
]


@pytest.mark.parametrize(("card", "source", "target", "says", "way"), ELSEWHERE)
def test_copies_between_other_buffers_name_the_way(card: str, source: str, target: str, says: str, way: str) -> None:
    call = Call(lambda s: asc.data_copy(s.dst, s.src, 4 * s.block))
    error = refusal(stage_of(call, card, (source, target), (DataType("half"),)), call)
    assert error.field == "path" and says in error.message and way in str(error.allowed), str(error)


# ---- nothing is forgotten ------------------------------------------------------------------------------------------------------
OWN_NAMES: dict[str, str] = {
    "SetFlag-WaitFlag": "set_flag", "Lock": "Mutex.lock", "Unlock": "Mutex.unlock", "operator()": "__getitem__",
    "operator[]": "__getitem__", "DeQue": "deque", "EnQue": "enque", "GetTPipePtr": "get_tpipe_ptr",
    "GetICachePreloadStatus": "get_icache_preload_status", "ICachePreLoad": "icache_preload", "And": "bitwise_and",
    "Or": "bitwise_or", "Not": "bitwise_not", "Compares": "compare_scalar", "CastDequant": "cast_deq",
    "TransDataTo5HD": "trans_data_to_5hd", "ReduceDataBlock": "block_reduce_sum", "ReducePairElem": "pair_reduce_sum",
    "ReduceRepeat": "whole_reduce_sum",
}  # fmt: skip
"""Rows whose name in a kernel is another one than the API's in snake_case."""
OWNERS: dict[str, tuple[Any, ...]] = {
    "layout_structure": (asc.te, asc.te.Layout), "tensor_structure": (asc.te,), "TSCM": (asc.TQue,), "utils": (asc.te,),
}  # fmt: skip


def modelled_name(row: ApiSupport) -> Any:
    """What a kernel would use for a row, None where nothing of the name exists."""
    owners: tuple[Any, ...] = (asc,)
    if row.variant.startswith("of "):
        kind = row.variant[3:]
        owners = OWNERS.get(kind, (getattr(asc, kind, None),))
    for owner, name in itertools.product(owners, (OWN_NAMES.get(row.name, ""), python_name(row.name), row.name)):
        found = owner
        for part in name.split("."):
            if isinstance(found, Placeholder):
                return found
            found = getattr(found, part, None) if part else None
        if found is not None:
            return found
    return None


OFFERED = [pytest.param(card, row, id=f"{card}-{named(row)}-{i}") for i, (card, row) in enumerate(rows())
           if row.supported and (row.name, row.variant) not in CALLS]  # fmt: skip


@pytest.mark.parametrize(("card", "row"), OFFERED)
def test_every_offered_row_is_modelled_or_a_known_gap(card: str, row: ApiSupport) -> None:
    found = modelled_name(row)
    if gap(the_card(card), row):
        assert found is None or isinstance(found, Placeholder) or row.variant, f"{named(row)} is there: it is no gap"
    else:
        assert found is not None and not isinstance(found, Placeholder), f"{named(row)}: neither modelled nor in model_gaps"
