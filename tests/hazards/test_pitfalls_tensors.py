"""P37 of spec pitfalls.md: two live tensors at one address.

The other pitfalls: P05 and P11 in test_pitfalls_rows.py, P15 to P21 and P40 in test_pitfalls_cube.py, P23 to P36 in
test_pitfalls_order.py, test_pitfalls_gm.py and test_pitfalls_caches.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.hazards.model import WARNING
from tests.engine.engine_helpers import gm, ub
from tests.hazards.marked import AIV, Flags, floats, is_clean, name

N = 256


@asc.jit(kernel_type=AIV)
def sum_of_two(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, apart: asc.ConstExpr):
    flags = Flags()
    # Declared each on a line of its own: a tensor is what one line declares.
    first = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, N)
    second = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, apart * 4, N)
    total = ub(x.dtype, 2 * N, N)
    asc.data_copy(first, gm(x), N)
    asc.pipe_barrier(asc.PipeID.PIPE_MTE2)
    asc.data_copy(second, gm(y), N)  # @overwrites
    flags.order("MTE2_V")
    asc.add(total, first, second, N)  # @sum
    flags.order("V_MTE3")
    asc.data_copy(gm(z), total, N)


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350"])
@pytest.mark.parametrize("apart", [0, N // 2])
def test_p37_a_tensor_over_a_live_one(card: str, apart: int) -> None:
    x, y, z = floats(N), 2 * floats(N), np.zeros(N, np.float32)
    run = asc.simulate(sum_of_two, x, y, z, apart, card=card)
    (overlap,) = run.hazards.of("live-overlap")
    assert (overlap.severity, name(overlap.at), name(overlap.other)) == (WARNING, "sum", "overwrites")
    assert not np.array_equal(z, x + y)
    run = asc.simulate(sum_of_two, x, y, z, N, card=card)
    assert np.array_equal(z, x + y)
    assert is_clean(run)
