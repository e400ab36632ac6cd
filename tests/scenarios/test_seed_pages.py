"""The scenarios of the API pages: what they move, the numbers they print, and what other cards say.

The numbers are those of the pages' examples as spec api_semantics.md 14.2, 14.3, 14.5 and 14.7 works them out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import AiCoreError, ConfigError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import Pipe
from tests.scenarios.running import CARDS, rows, scenario

OLD = ("atlas_a2", "atlas_a3", "atlas_200i")


def shown(job: Any) -> str:
    """What the scenario prints, with single blanks."""
    assert job.show is not None
    return " ".join(job.show(job.args).split())


def notices(job: Any, which: int) -> None:
    """The scenario's own check must see a changed result."""
    assert job.expect is not None and job.expect(job.args)
    job.args[which].reshape(-1)[0] += 1
    assert not job.expect(job.args)


def refused(name: str, card: str, **parameters: Any) -> AiCoreError:
    with pytest.raises(AiCoreError) as caught:
        scenario(name, card, **parameters)
    assert caught.value.card == card
    return caught.value


# ---- LoadDataWithTranspose ------------------------------------------------------------------------------------------
MOVES = {
    1: ["0,1 -> 0,1 2,3 -> 2,3"],
    2: ["0 -> 0 1 -> 2", "2 -> 1 3 -> 3"],
    3: ["0,1 -> 0,2 2,3 -> 1,3"],
    4: [f"{8 * i},{8 * i + 1} -> {2 * i},{2 * i + 1} {8 * i + 2},{8 * i + 3} -> {2 * i + 16},{2 * i + 17}" for i in range(8)],
}
"""Fractals of L1 and L0B of every call (spec 14.3); of example 4 the first two repeats."""
STRUCT = {
    1: "LoadData2dTransposeParams: start_index=0 repeat_times=2 src_stride=1 dst_gap=1 dst_frac_gap=0 addr_mode=0",
    2: "LoadData2dTransposeParams: start_index=0 repeat_times=2 src_stride=1 dst_gap=1 dst_frac_gap=0 addr_mode=0",
    3: "LoadData2dTransposeParams: start_index=0 repeat_times=2 src_stride=1 dst_gap=0 dst_frac_gap=1 addr_mode=0",
    4: "LoadData2dTransposeParamsV2: start_index=0 repeat_times=4 src_stride=2 dst_gap=15 dst_frac_gap=0 src_frac_gap=0",
}


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("example", [1, 2, 3])
def test_load_transpose_multiplies_on_every_card(example: int, card: str) -> None:
    run, job = scenario("load_transpose", card, example=example)
    assert run.correct is True
    text = shown(job)
    assert STRUCT[example] in text
    for i, moves in enumerate(MOVES[example]):
        assert f"call {i}: fractals of L1 -> L0B {moves}" in text
    assert len(rows(run, Pipe.MTE1)) == 1 + len(MOVES[example])
    notices(job, 2)


def test_load_transpose_with_the_v2_struct() -> None:
    run, job = scenario("load_transpose", example=4)
    assert run.correct is True
    text = shown(job)
    assert STRUCT[4] in text
    for i, moves in enumerate(MOVES[4]):
        assert f"call {i}: fractals of L1 -> L0B {moves}" in text
    assert "6,7 -> 48,49 call 1:" in text
    loads = rows(run, Pipe.MTE1)[1:]
    assert [run.columns.ops[int(run.columns.op[i])].nbytes for i in loads] == [4096] * 8
    notices(job, 2)


@pytest.mark.parametrize("card", OLD)
def test_load_transpose_says_which_struct_the_card_takes(card: str) -> None:
    error = refused("load_transpose", card, example=4)
    assert isinstance(error, UnsupportedError)
    assert (error.field, error.value, error.allowed) == ("params", "LoadData2dTransposeParamsV2", "LoadData2dTransposeParams")


@pytest.mark.parametrize("example", [0, 5])
def test_load_transpose_has_four_examples(example: int) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("load_transpose", example=example)
    assert (caught.value.field, caught.value.value) == ("example", example)


# ---- bit mode -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transpose", [False, True])
def test_bit_mode_packs_the_numbers_of_the_page(transpose: bool) -> None:
    run, job = scenario("bit_mode", transpose=transpose)
    assert run.correct is True
    counting = np.arange(1024).reshape(32, 32)
    assert np.array_equal(job.args[2], counting.T if transpose else counting)
    text = shown(job)
    assert "config0 = 0x0000020200000000" in text and "config1 = 0x0000000000020002" in text
    assert ("L0A: [ 0. 32. 64." if transpose else "L0A: [0. 1. 2.") in text
    notices(job, 2)


@pytest.mark.parametrize("card", OLD)
def test_bit_mode_says_which_structs_the_card_takes(card: str) -> None:
    error = refused("bit_mode", card)
    assert isinstance(error, UnsupportedError)
    assert error.message == "LoadData (load_data): Load2DBitModeParam is not offered on this card"
    assert error.allowed == "LoadData2DParams, LoadData3DParamsV2"
    assert error.file is not None and error.file.endswith("bit_mode.py") and error.line is not None


# ---- Tensor API -----------------------------------------------------------------------------------------------------
def test_te_copy_is_the_same_instruction_in_every_style() -> None:
    results = {}
    for style in ("atom", "call", "make_copy"):
        run, job = scenario("te_copy", style=style)
        assert run.correct is True
        loads = rows(run, Pipe.MTE1)
        results[style] = [run.columns.ops[int(run.columns.op[i])].detail for i in loads]
        assert "m_step=8 k_step=4 src_stride=8 dst_stride=8" in results[style][0]
        # element (17, 18) of NZ: column block 1 of 128 rows, row 17, column 2
        assert job.args[2][17, 18] == (128 * 16 + 17 * 16 + 2) % 2048
    assert results["atom"] == results["call"] == results["make_copy"]


@pytest.mark.parametrize("card", OLD)
def test_te_copy_names_the_call_of_the_card(card: str) -> None:
    error = refused("te_copy", card)
    assert "Tensor API" in error.message
    assert error.allowed == "load_data with LoadData2DParams"


# ---- DN2NZ ----------------------------------------------------------------------------------------------------------
def counted(i: int) -> float:
    return i % 1000 + 1


def dn2nz(example: str) -> Any:
    run, job = scenario("dn2nz", example=example)
    assert run.correct is True
    return job


def test_dn2nz_continuous() -> None:
    job = dn2nz("continuous")
    y = job.args[1]
    for n in range(16):
        assert y[n].tolist() == [counted(16 * d + n) for d in range(16)]
        assert y[16 + n].tolist() == [counted(16 * d + n) for d in range(16, 23)] + [0] * 9
    text = shown(job)
    assert "dn_num=1 n_value=16 d_value=23 src_dn_matrix_stride=0 src_d_value=16 dst_nz_c0_stride=16 dst_nz_n_stride=1" in text
    assert "0: 1 17 33 49 65 81 97 113 129 145 161 177 193 209 225 241 1: 2 18" in text
    notices(job, 1)


def test_dn2nz_strided_leaves_holes() -> None:
    job = dn2nz("strided")
    y = job.args[1]
    written = {i * 20 + b * 37 + 2 * n: (i, b, n) for i in range(2) for b in range(2) for n in range(8)}
    assert len(written) == 32
    for row in range(72):
        if row not in written:
            assert y[row].tolist() == [-1] * 16, row
            continue
        i, b, n = written[row]
        whole = 16 if b == 0 else 7
        assert y[row].tolist() == [counted(i * 400 + (16 * b + d) * 16 + n) for d in range(whole)] + [0] * (16 - whole), row
    assert "dn_num=2 n_value=8 d_value=23 src_dn_matrix_stride=400 src_d_value=16 dst_nz_c0_stride=37" in shown(job)
    notices(job, 1)


def test_dn2nz_of_the_matmul_is_a_of_its_transpose() -> None:
    job = dn2nz("matmul")
    a = np.array([[counted(40 * d + n) for d in range(56)] for n in range(40)])
    blocks = job.args[1].reshape(4, 48, 16)
    assert np.array_equal(blocks[:, :40].transpose(1, 0, 2).reshape(40, 64)[:, :56], a)
    assert (blocks[3, :40, 8:] == 0).all()
    assert (blocks[:, 40:] == -1).all()
    assert "n_value=40 d_value=56 src_dn_matrix_stride=0 src_d_value=40 dst_nz_c0_stride=48" in shown(job)
    notices(job, 1)


def test_dn2nz_in_small_c0_mode() -> None:
    job = dn2nz("small_c0")
    assert job.args[1].tolist() == [[1, 4, 7, 0, 2, 5, 8, 0, 3, 6, 9, 0, 0, 0, 0, 0], [-1] * 16]
    assert "0: 1 4 7 0 2 5 8 0 3 6 9 0 0 0 0 0 1: -1" in shown(job)
    notices(job, 1)


@pytest.mark.parametrize(("card", "way"), [
    ("atlas_a2", "data_copy with Nd2NzParams, and a transposing load"),
    ("atlas_a3", "data_copy with Nd2NzParams, and a transposing load"),
    ("atlas_200i", "load_data with LoadData2DParams, for fractals laid out in GM"),
])  # fmt: skip
def test_dn2nz_names_another_way(card: str, way: str) -> None:
    error = refused("dn2nz", card)
    assert isinstance(error, UnsupportedError)
    assert error.message == "DataCopy (data_copy): Dn2NzParams from GM to L1 is not offered on this card"
    assert error.allowed is not None and error.allowed.startswith(way)


# ---- NDDMA ----------------------------------------------------------------------------------------------------------
X = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
FILLED = np.full((7, 16), 5, np.float32)
FILLED[1:5, 3:11] = X
NEAREST = X[np.clip(np.arange(7) - 1, 0, 3)][:, np.clip(np.arange(16) - 3, 0, 7)]
UB: dict[str, tuple[Any, str]] = {
    "pad": (FILLED, "[ 5. 5. 5. 1. 2. 3. 4. 5. 6. 7. 8. 5. 5. 5. 5. 5.]"),
    "nearest": (NEAREST, "[ 9. 9. 9. 9. 10. 11. 12. 13. 14. 15. 16. 16. 16. 16. 16. 16.]"),
    "transpose": (X.T, "[[ 1. 9. 17. 25.] [ 2. 10. 18. 26.]"),
    "broadcast": (np.stack([X[0]] * 4), "[[1. 2. 3. 4. 5. 6. 7. 8.] [1. 2. 3. 4. 5. 6. 7. 8.]"),
    "slice": (X[1:3, 1:5], "[[10. 11. 12. 13.] [18. 19. 20. 21.]]"),
}


@pytest.mark.parametrize("move", sorted(UB))
def test_nddma_moves(move: str) -> None:
    run, job = scenario("nddma_moves", move=move, value=5.0)
    expected, text = UB[move]
    assert run.correct is True
    assert np.array_equal(job.args[1], expected)
    assert text in shown(job)
    copies = rows(run, Pipe.MTE2, api="DataCopy")
    assert len(copies) == 1, "one instruction does it"
    notices(job, 1)


@pytest.mark.parametrize("card", OLD)
def test_nddma_moves_name_another_way(card: str) -> None:
    error = refused("nddma_moves", card)
    assert isinstance(error, UnsupportedError)
    assert "NdDmaDci (nd_dma_dci)" in error.message and "data_copy_pad" in str(error.allowed)


@pytest.mark.parametrize(("parameters", "field"), [({"rows": 0}, "rows"), ({"move": "slice", "cols": 3}, "cols"),
                                                   ({"cols": 65}, "cols")])  # fmt: skip
def test_nddma_moves_has_sizes(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario("nddma_moves", **parameters)
    assert caught.value.field == field


# ---- one movement, four ways ----------------------------------------------------------------------------------------
LOADS = {("load2d", "half"): 4, ("transpose", "half"): 4, ("transpose", "float"): 4, ("transpose", "int8"): 2,
         **{(way, dtype): 1 for way in ("dn2nz", "load2d_v2") for dtype in ("half", "float", "int8")}}  # fmt: skip
"""Instructions from L1 to L0B of every legal combination, for K = N = 64."""
LACKING = {
    "dn2nz": (UnsupportedError, "Dn2NzParams from GM to L1 is not offered on this card"),
    "load2d_v2": (UnsupportedError, "LoadData2DParamsV2 is not offered on this card"),
    "load2d": (ParameterError, "if_transpose (ifTranspose) takes 16-bit types only"),
}


def rule(way: str, dtype: str, card: str) -> tuple[type[AiCoreError], str] | None:
    """The rule that a combination breaks, None for a legal one."""
    if way == "load2d":
        return None if dtype == "half" else LACKING[way]
    return LACKING[way] if way in LACKING and card != "atlas_350" else None


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("dtype", ["half", "float", "int8"])
@pytest.mark.parametrize("way", ["load2d", "transpose", "dn2nz", "load2d_v2"])
def test_one_movement_four_ways(way: str, dtype: str, card: str) -> None:
    broken = rule(way, dtype, card)
    if broken is not None:
        error = refused("same_movement", card, way=way, dtype=dtype)
        assert type(error) is broken[0]
        assert broken[1] in error.message
        assert error.allowed
        return
    run, job = scenario("same_movement", card, way=way, dtype=dtype)
    assert run.correct is True
    assert "first row of C = A x B" in shown(job)
    assert len(rows(run, Pipe.MTE1)) == 1 + LOADS[way, dtype]
    assert job.metrics is not None
    times = job.metrics(run)
    assert times["to_l0b_instructions"] == LOADS[way, dtype] and times["to_l0b_us"] > 0
    notices(job, 2)


def test_the_ways_agree() -> None:
    results = {way: scenario("same_movement", way=way)[1].args[2] for way in ("load2d", "transpose", "dn2nz", "load2d_v2")}
    first = results["load2d"]
    assert all(np.array_equal(first, other) for other in results.values())
