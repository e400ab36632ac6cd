"""LoadData with scales: data as 2D V2, scales into the memory beside L0A or L0B (spec api_semantics.md 3.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import AlignmentError, OutOfBoundsError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from aicore_sim.instructions.load_data_2d import LoadData2DParams
from aicore_sim.instructions.load_data_2d_mx import LoadData2DMxParams
from aicore_sim.instructions.load_data_2d_v2 import LoadData2DParamsV2
from aicore_sim.kernel.api_load import load_data
from aicore_sim.timing import Timing
from tests.stage import Place, Stage, noise

ONE = LoadData2DParamsV2(0, 0, 1, 1, 1, 1)


def stage_of(dtype: str = "fp8_e4m3fn", dst: str = "A2", scale: str = "fp8_e8m0", at: str = "A1", card: str = "atlas_350",
             **modes: Any) -> Stage:  # fmt: skip
    return Stage(card, {"src": Place("A1", dtype, noise(16384)), "mx": Place(at, scale, noise(4096, 5)),
                        "dst": Place(dst, dtype, 16384)}, **modes)  # fmt: skip


def scales_in(stage: Stage, kind: str = "L0AMX") -> dict[int, int]:
    """Unit of 32 B in the scale memory -> unit of the source it came from."""
    memory = stage.memories[kind]
    assert memory.shadow is not None
    source = stage.bytes("mx").reshape(-1, 32)
    found = {}
    for i in np.flatnonzero(memory.shadow.reshape(-1, 32).all(axis=1)):
        same = (source == memory.bytes().reshape(-1, 32)[i]).all(axis=1)
        found[int(i)] = int(np.flatnonzero(same)[0])
    return found


def test_scales_of_the_second_n_block() -> None:
    """The weights' rows 64 to 127: x starts at 64 / 16, where 0 would give the scales of the first block (P52)."""
    stage = stage_of(dst="B2")
    scales = LoadData2DMxParams(4, 0, 4, 2, 2, 2)
    stage.call(lambda: load_data(stage.at("dst", 2048), stage["src"], stage["mx"], ONE, scales))
    assert scales_in(stage, "L0BMX") == {4 + i: 8 + i for i in range(8)}
    stage.call(lambda: load_data(stage.at("dst", 2048), stage["src"], stage["mx"], ONE, LoadData2DMxParams(0, 0, 4, 2, 2, 2)))
    assert scales_in(stage, "L0BMX") == {4 + i: i for i in range(8)}


def test_window_of_the_scales() -> None:
    stage = stage_of()
    stage.call(lambda: load_data(stage["dst"], stage["src"], stage.at("mx", 64), ONE, LoadData2DMxParams(1, 2, 3, 2, 5, 4)))
    assert scales_in(stage) == {0: 9, 1: 10, 4: 14, 5: 15, 8: 19, 9: 20}


def test_columns_of_scales_that_overlap_are_undefined() -> None:
    stage = stage_of()
    stage.call(lambda: load_data(stage["dst"], stage["src"], stage["mx"], ONE, LoadData2DMxParams(0, 0, 2, 3, 3, 2)))
    assert scales_in(stage) == {0: 0, 1: 1, 3: 4, 4: 5}
    assert any("overlap" in text for text in stage.warnings)


def test_what_is_recorded_and_its_price() -> None:
    """The terms of data and scales add: 2048 / 256 + 128 / 32 cycles (spec hardware.md 4)."""
    stage = stage_of()
    params = LoadData2DParamsV2(0, 0, 2, 2, 2, 2)
    stage.call(lambda: load_data(stage["dst"], stage["src"], stage["mx"], params, LoadData2DMxParams(0, 0, 2, 2, 2, 2)))
    (op,) = stage.ops
    assert op.pipe is Pipe.MTE1 and op.path == "L1-L0A" and op.nbytes == 2048 + 128
    assert op.reads == ((1, 0, 2048), (2, 0, 128)) and op.writes == ((0, 0, 2048), (3, 0, 128))
    assert op.aligns == (512, 32, 32, 32)
    Timing(stage.card).price(op)
    assert op.occupy == (8 + 4) * 256
    entry = stage.recorder.program[0]
    assert [buffer.kind for buffer in entry.bufs] == ["L0A", "L1", "L1", "L0AMX"]


@pytest.mark.parametrize(("data", "scales"), [
    (LoadData2DParamsV2(0, 0, 0, 1, 1, 1), LoadData2DMxParams(0, 0, 1, 1)),
    (LoadData2DParamsV2(0, 0, 1, 0, 1, 1), LoadData2DMxParams(0, 0, 1, 1)),
    (ONE, LoadData2DMxParams(0, 0, 0, 1)), (ONE, LoadData2DMxParams(0, 0, 1, 0)), (LoadData2DParamsV2(), LoadData2DMxParams()),
])  # fmt: skip
def test_a_step_of_zero(data: LoadData2DParamsV2, scales: LoadData2DMxParams) -> None:
    """The page: the call does nothing. The implementation leaves out the part whose step is 0."""
    stage = stage_of()
    stage.call(lambda: load_data(stage["dst"], stage["src"], stage["mx"], data, scales))
    assert stage.ops == [] and "moves nothing" in stage.warnings[0]
    parts = stage_of(quirks="mx-nop-parts")
    parts.call(lambda: load_data(parts["dst"], parts["src"], parts["mx"], data, scales))
    assert parts.defined("dst").any() == (data.m_step * data.k_step > 0)
    assert bool(scales_in(parts)) == (scales.x_step * scales.y_step > 0)


def test_scales_past_the_share_of_the_tensor_are_reported() -> None:
    """2048 B of data have 128 B of scale memory: a fifth unit lands among those of the next tensor."""
    places = {"src": Place("A1", "fp4x2_e2m1", noise(4096)), "mx": Place("A1", "fp8_e8m0", noise(4096)),
              "dst": Place("A2", "fp4x2_e2m1", 2048)}  # fmt: skip
    params = LoadData2DParamsV2(0, 0, 2, 2, 2, 2)
    for columns, told in ((4, False), (5, True)):
        stage = Stage("atlas_350", places)
        stage.call(lambda s=stage, n=columns: load_data(s["dst"], s["src"], s["mx"], params, LoadData2DMxParams(0, 0, n, 1, 1, 1)))
        assert any("L0AMX" in text for text in stage.warnings) == told


def test_call_errors() -> None:
    stage, scales = stage_of(), LoadData2DMxParams(0, 0, 1, 1)
    args: Any
    for args in ((ONE,), (scales, ONE), (LoadData2DParams(), scales), (ONE, scales, 1)):
        stage.refuses(lambda a=args: load_data(stage["dst"], stage["src"], stage["mx"], *a), ParameterError, "params")
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], stage.at("mx", 16), ONE, scales), AlignmentError, "address")
    many = LoadData2DMxParams(0, 0, 200, 1, 0, 1)
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], stage["mx"], ONE, many), OutOfBoundsError, "address")


@pytest.mark.parametrize(("changed", "field"), [
    ({"card": "atlas_a2", "scale": "int8", "dtype": "int8"}, "params"), ({"dtype": "half"}, "dtype"),
    ({"dtype": "hifloat8"}, "dtype"), ({"scale": "uint8"}, "dtype"), ({"at": "GM"}, "src_mx"), ({"dst": "B1"}, "path"),
])  # fmt: skip
def test_what_is_not_offered(changed: dict[str, str], field: str) -> None:
    stage = stage_of(**changed)
    stage.refuses(lambda: load_data(stage["dst"], stage["src"], stage["mx"], ONE, LoadData2DMxParams(0, 0, 1, 1)),
                  UnsupportedError, field)  # fmt: skip


def test_in_a_kernel() -> None:
    """A simulated core has the scale memories."""

    @asc.jit(kernel_type="aic")  # type: ignore[misc]
    def kernel(x: Any) -> None:
        fp8 = asc.fp8_e4m3fn
        src = asc.LocalTensor(fp8, asc.TPosition.A1, 0, 4096)
        mx = asc.LocalTensor(asc.fp8_e8m0, asc.TPosition.A1, 8192, 256)
        asc.load_data(asc.LocalTensor(fp8, asc.TPosition.A2, 0, 4096), src, mx, ONE, LoadData2DMxParams(0, 0, 2, 1, 1, 1))

    run = asc.simulate(kernel, np.zeros(16, np.float32), blocks=1, card="atlas_350")
    table = run.trace.bandwidth().set_index("path")
    assert table.loc["L1-L0A", "bytes"] == 512 + 64
