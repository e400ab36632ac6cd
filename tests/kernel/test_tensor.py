"""Tensors as handles: where views start, and what an access past their end says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import ParameterError
from aicore_sim.kernel.tensor import GlobalAddress, GlobalTensor, LocalTensor
from aicore_sim.memory import Buffer
from tests.kernel.kernel_recording import record

INT4 = asc.int4


def address() -> GlobalAddress:
    return GlobalAddress(Buffer("GM", 1024, uid=-1, label="x", data=False), INT4)


def test_views_of_4_bit_elements_start_at_whole_bytes() -> None:
    def body() -> None:
        local, whole = LocalTensor(INT4, asc.TPosition.A1, 64, 512), GlobalTensor()
        whole.set_global_buffer(address() + 6)
        assert (local[4].offset, whole[2].offset, local.get_phy_addr(10)) == (66, 4, 69)
        starts: list[Any] = [lambda: address() + 3, lambda: local[1], lambda: local[5:], lambda: whole[7],
                             lambda: local.get_phy_addr(1), lambda: whole.get_phy_addr(1)]  # fmt: skip
        for start in starts:
            with pytest.raises(ParameterError, match="share a byte"):
                start()

    record(body, kind="aic")


@pytest.mark.parametrize(("first", "warns"), [(32, False), (56, False), (57, True), (63, True), (64, True), (65, True)])
def test_an_access_past_the_end_of_its_tensor_warns(first: int, warns: bool) -> None:
    @asc.jit
    def kernel(x: asc.GlobalAddress):
        x_gm = asc.GlobalTensor()
        x_gm.set_global_buffer(x, 64)
        asc.data_copy(asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 8), x_gm[first], 8)

    run = asc.simulate(kernel, np.zeros(128, np.float32))
    assert any("touches" in text for text, *_ in run.warnings) is warns
