"""Copies between the cores of a group on 950: UB -> L1 by a vector core, L1 -> UB by the cube core (spec 9.1, 11.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions.base import OnChip, Pipe
from tests.stage import Place, Stage, noise

THERE, BACK = 0, 1
ROWS = 64


@asc.jit
def exchange(x: asc.GlobalAddress, y: asc.GlobalAddress) -> None:
    """Every vector core hands its rows to L1; the cube core gives each of them those of the other, one block in three."""
    half = ROWS * 16
    l1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, 0, 2 * half)
    mine = asc.LocalTensor(asc.float16, asc.TPosition.VECIN, 0, half)
    other = asc.LocalTensor(asc.float16, asc.TPosition.VECOUT, half * 2, half)
    if asc.ascend_is_aiv():
        x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
        start = int(asc.get_block_idx()) * half
        x_gm.set_global_buffer(x + start)
        y_gm.set_global_buffer(y + start)
        asc.data_copy(mine, x_gm, half)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
        asc.data_copy(l1[int(asc.get_sub_block_idx()) * half], mine, asc.DataCopyParams(1, ROWS))
        asc.cross_core_set_flag(THERE, 2, asc.PipeID.PIPE_MTE3)
        asc.cross_core_wait_flag(BACK, 2, asc.PipeID.PIPE_MTE3)
        asc.data_copy(y_gm, other, half)
    if asc.ascend_is_aic():
        asc.cross_core_wait_flag(THERE, 2, asc.PipeID.PIPE_MTE1)
        for sub in range(2):
            asc.data_copy_l1_to_ub(other, l1[(1 - sub) * half], half, sub_block_id=sub)
        asc.cross_core_set_flag(BACK, 2, asc.PipeID.PIPE_MTE1)


@pytest.mark.parametrize("blocks", [1, 2])
def test_rows_go_through_l1_and_back(blocks: int) -> None:
    x = np.arange(blocks * 2 * ROWS * 16).astype(np.float16)
    y = np.zeros_like(x)
    run = asc.simulate(exchange, x, y, card="atlas_350", blocks=blocks)
    groups = x.reshape(blocks, 2, -1)
    assert np.array_equal(y.reshape(blocks, 2, -1), groups[:, ::-1])
    assert run.time_us > 0


def test_other_cards_and_kernels_have_no_such_path() -> None:
    x = np.zeros(2 * ROWS * 16, np.float16)
    for card in ("atlas_a2", "atlas_a3"):
        with pytest.raises(UnsupportedError) as caught:
            asc.simulate(exchange, x, x.copy(), card=card, blocks=1)
        assert caught.value.field == "path"
        assert "GM" in str(caught.value.allowed)
    alone = asc.jit(kernel_type=asc.KernelType.MIX_AIC_1_1)(exchange.fn)
    with pytest.raises(UnsupportedError) as caught:
        asc.simulate(alone, x, x.copy(), card="atlas_350", blocks=1)
    assert "1:2" in str(caught.value.allowed)


@pytest.mark.parametrize("params", [64, asc.DataCopyParams(2, 2, 1, 3)])
@pytest.mark.parametrize("sub", [0, 1])
def test_which_vector_core_gets_it(sub: int, params: Any) -> None:
    stage = Stage("atlas_350", {"src": Place("A1", "half", noise(512)), "dst": Place("VECIN", "half", 512)})
    stage.call(lambda: asc.data_copy_l1_to_ub(stage["dst"], stage["src"], params, sub))
    op = stage.ops[0]
    assert (op.pipe, op.path, op.aligns) == (Pipe.MTE1, "L1-UB", (32, 32))
    assert isinstance(op.cost, OnChip)
    first, second = (ub.bytes()[:512] for ub in stage.ubs)
    hit, missed = (second, first) if sub else (first, second)
    src = stage.bytes("src")
    if isinstance(params, int):
        assert np.array_equal(hit[:128], src[:128])
    else:
        assert np.array_equal(hit[:64], src[:64])
        assert np.array_equal(hit[160:224], src[96:160])
    assert not np.array_equal(missed[:64], src[:64])


def test_what_l1_to_ub_refuses() -> None:
    places = {"src": Place("A1", "half", noise(512)), "dst": Place("VECIN", "half", 512)}
    stage = Stage("atlas_350", places)

    def call(params: Any, sub: Any = 0) -> Any:
        return lambda: asc.data_copy_l1_to_ub(stage["dst"], stage["src"], params, sub)

    for sub in (2, -1, 0.0, None):
        stage.refuses(call(64, sub), ParameterError, "sub_block_id")
    stage.refuses(call(15), ParameterError, "count")
    stage.refuses(call(asc.DataCopyParams(0, 1)), ParameterError, "block_count")
    stage.refuses(call(asc.DataCopyParams(1, 0)), ParameterError, "block_len")
    stage.refuses(call("64"), ParameterError, "params")
    error = stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], 64), UnsupportedError, "path")
    assert "data_copy_l1_to_ub" in str(error.allowed)
    stage.refuses(lambda: asc.data_copy_l1_to_ub(stage["src"], stage["src"], 64), UnsupportedError, "path")
    mixed = Stage("atlas_350", {"src": Place("A1", "half", noise(512)), "dst": Place("VECIN", "float", 512)})
    mixed.refuses(lambda: asc.data_copy_l1_to_ub(mixed["dst"], mixed["src"], 64), ParameterError, "dtype")
    for card in ("atlas_a2", "atlas_a3", "atlas_200i"):
        old = Stage(card, places)
        old.refuses(lambda old=old: asc.data_copy_l1_to_ub(old["dst"], old["src"], 64), UnsupportedError, "path")


def test_ub_to_l1_is_the_vector_cores_call() -> None:
    places = {"src": Place("VECOUT", "half", noise(512)), "dst": Place("A1", "half", 512)}
    cube = Stage("atlas_350", places, core="aic")
    before = cube.snapshot()
    cube.call(lambda: asc.data_copy(cube["dst"], cube["src"], 64))
    assert cube.snapshot() == before
    assert cube.ops == []
    alone = Stage("atlas_350", places, core="aiv")
    alone.recorder.group_l1 = None
    alone.refuses(lambda: asc.data_copy(alone["dst"], alone["src"], 64), UnsupportedError, "path")


# ---- DataCopyEnhancedParams -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("field", "value", "instead"), [
    ("block_mode", asc.BlockMode.BLOCK_MODE_MATRIX, "fixpipe"), ("deq_scale", asc.DeqScale.DEQ, "quant_pre"),
    ("is_relu_in", True, "relu"), ("pad_mode_in", asc.pad_t.PAD_MODE1, "data_copy_pad"),
])  # fmt: skip
def test_conversions_without_a_rule(field: str, value: Any, instead: str) -> None:
    for card in ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"):
        stage = Stage(card, {"src": Place("GM", "half", noise(512)), "dst": Place("VECIN", "half", 512)})
        enhanced = asc.DataCopyEnhancedParams(**{field: value})
        error = stage.refuses(lambda stage=stage, enhanced=enhanced: asc.data_copy(
            stage["dst"], stage["src"], asc.DataCopyParams(1, 2), enhanced), UnsupportedError, field)  # fmt: skip
        assert instead in str(error.allowed)


def test_enhanced_parameters_by_keyword_and_in_the_right_place() -> None:
    stage = Stage("atlas_a2", {"src": Place("GM", "half", noise(512)), "dst": Place("VECIN", "half", 512)})
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], repeat_params=asc.DataCopyParams(1, 2),
                                     enhanced_params=asc.DataCopyEnhancedParams()))  # fmt: skip
    assert np.array_equal(stage.bytes("dst")[:64], stage.bytes("src")[:64])
    wrong = asc.DataCopyParams(1, 2)
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], wrong, wrong), ParameterError, "enhanced_params")
