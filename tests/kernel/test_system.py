"""What InitSocState sets back, and what TPipe hands out of L1, by card."""

from __future__ import annotations

import pytest

import aicore_sim as asc
from aicore_sim.errors import CapacityError
from aicore_sim.kernel.enums import MaskMode, TPosition
from aicore_sim.kernel.framework import TPipe, TQue
from aicore_sim.kernel.system import init_soc_state, set_vector_mask
from tests.kernel.kernel_recording import record, record_on, recorder


@pytest.mark.parametrize(("card", "kind", "kept"), [
    ("atlas_a2", "aiv", set()), ("atlas_a3", "aiv", set()), ("atlas_350", "aiv", {"vector_mask"}),
    ("atlas_200i", "core", {"vector_mask", "mask_mode"}),
])  # fmt: skip
def test_init_soc_state_sets_back_what_the_architecture_does(card: str, kind: str, kept: set[str]) -> None:
    rec = recorder(card, kind)

    def body() -> None:
        set_vector_mask(5, dtype=asc.float32, mode=MaskMode.COUNTER)
        asc.set_atomic_add(asc.float32)
        init_soc_state()

    record_on(rec, body)
    assert rec.atomic == ""
    assert {name for name in ("vector_mask", "mask_mode") if name in rec.state} == kept


@pytest.mark.parametrize("mix", [False, True])
def test_l1_has_256_bytes_less_under_tpipe_in_a_mix_kernel(mix: bool) -> None:
    def body() -> None:
        pipe, whole, rest = TPipe(), TQue(TPosition.A1, 1), TQue(TPosition.B1, 1)
        pipe.init_buffer(whole, 1, 512 * 1024 - 256)
        pipe.init_buffer(rest, 1, 256)

    if mix:
        with pytest.raises(CapacityError, match="L1 holds 524032 B"):
            record(body, "atlas_a2", "aic", mix=True)
    else:
        record(body, "atlas_a2", "aic")


def test_cache_modes_have_pyascs_values() -> None:
    # counted from 0 in the order of spec pyasc.md 4, PERSISTENT apart
    names = ("CACHE_MODE_NORMAL", "CACHE_MODE_DISABLE", "CACHE_MODE_LAST", "CACHE_MODE_PERSISTENT")
    assert [int(asc.CacheMode[name]) for name in names] == [0, 1, 2, 4]
