"""Gather with a count against a reference that goes element by element (Gather page)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.errors import AiCoreError, AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.kernel.api_vector_gather import gather
from tests.properties.profile import PROPERTY
from tests.stage import CARDS, SENTINEL, Place, Stage, noise

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "half": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float": 4, "int64": 8,
         "uint64": 8}  # fmt: skip
WIDE = ["int16", "uint16", "half", "int32", "uint32", "float"]
TYPES = {"atlas_a2": [*WIDE, "bfloat16"], "atlas_a3": [*WIDE, "bfloat16"], "atlas_350": list(SIZES),
         "atlas_200i": [*WIDE, "int8", "uint8"]}  # fmt: skip


def stage_of(card: str, dtype: str, source: Any, offsets: Any, **more: Any) -> Stage:
    raw = np.asarray(offsets, np.uint32).view(np.uint8)
    places = {"src": Place("VECCALC", dtype, source, **more), "at": Place("VECCALC", "uint32", raw),
              "dst": Place("VECCALC", dtype, 4096)}  # fmt: skip
    return Stage(card, places, core="core" if card == "atlas_200i" else "aiv")


@PROPERTY
@given(st.sampled_from(CARDS), st.data(), st.integers(0, 999))
def test_gather(card: str, data: st.DataObject, seed: int) -> None:
    dtype = data.draw(st.sampled_from(TYPES[card]))
    size, rng = SIZES[dtype], np.random.default_rng(seed)
    count, base = data.draw(st.integers(1, 4096 // size)), size * data.draw(st.integers(0, 20))
    source, offsets = noise(4096, seed), rng.integers(0, (4096 - base) // size, 4096 // size) * size
    stage = stage_of(card, dtype, source, offsets)
    stage.call(lambda: gather(stage["dst"], stage["src"], stage["at"], base, count))
    out = np.full(4096, SENTINEL, np.uint8)
    for i in range(count):
        at = base + int(offsets[i])
        out[i * size : (i + 1) * size] = source[at : at + size]
    assert np.array_equal(stage.bytes("dst"), out)
    assert np.array_equal(stage.defined("dst"), np.arange(4096) < count * size)


def test_gather_carries_the_marks() -> None:
    stage = stage_of("atlas_a2", "half", noise(256), np.arange(32) * 2, written=False)
    shadow = stage.memories["UB"].shadow
    assert shadow is not None
    shadow[stage["src"].offset : stage["src"].offset + 32] = 1
    shadow[stage["at"].offset : stage["at"].offset + 4] = 0  # an offset that nobody wrote
    stage.call(lambda: gather(stage["dst"], stage["src"], stage["at"], 0, 32))
    assert list(np.flatnonzero(stage.defined("dst"))) == list(range(2, 32))


def leads_nowhere(stage: Stage, error: type[AiCoreError]) -> None:
    """The offsets are data: the call is recorded, and its run fails."""
    with pytest.raises(error) as caught:
        stage.call(lambda: gather(stage["dst"], stage["src"], stage["at"], 0, 8))
    assert caught.value.field == "src_offset" and (stage.bytes("dst") == SENTINEL).all()


@pytest.mark.parametrize(("offsets", "error"), [([1] * 8, AlignmentError), ([1 << 20] * 8, OutOfBoundsError)])
def test_offsets_that_lead_nowhere(offsets: list[int], error: type[AiCoreError]) -> None:
    stage = stage_of("atlas_a2", "half", noise(256), offsets)
    leads_nowhere(stage, error)


def test_narrow_offsets_of_200i() -> None:
    stage = stage_of("atlas_200i", "uint8", noise(256), [1 << 16] * 8)
    leads_nowhere(stage, OutOfBoundsError)


@pytest.mark.parametrize(("call", "error", "field"), [
    (lambda s: gather(s["dst"], s["src"], s["at"], 0, -1), ParameterError, "count"),
    (lambda s: gather(s["dst"], s["src"], s["at"], 1, 8), ParameterError, "src_base"),
    (lambda s: gather(s["dst"], s["src"], s["at"], -2, 8), ParameterError, "src_base"),
    (lambda s: gather(s["src"], s["src"], s["at"], 0, 8), ParameterError, "dst"),
    (lambda s: gather(s["dst"], s["src"], s["src"], 0, 8), ParameterError, "dtype"),
    (lambda s: gather(s["dst"], s["src"], s["at"], 0, 8, 1, 8), UnsupportedError, "arguments"),
])  # fmt: skip
def test_what_is_refused(call: Any, error: type[AiCoreError], field: str) -> None:
    stage = stage_of("atlas_a2", "half", noise(256), np.arange(32) * 2)
    stage.refuses(lambda: call(stage), error, field)


def test_types_that_are_not_there_and_nothing() -> None:
    stage = stage_of("atlas_a2", "int8", noise(256), np.arange(32))
    stage.refuses(lambda: gather(stage["dst"], stage["src"], stage["at"], 0, 8), UnsupportedError, "dtype")
    stage = stage_of("atlas_a2", "half", noise(256), np.arange(32))
    stage.call(lambda: gather(stage["dst"], stage["src"], stage["at"], 0, 0))
    assert stage.ops == []
