"""Element maps of single calls, from hand-derived numbers (spec api_semantics.md 14), and the command `explain`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicore_sim.cards import load_card
from aicore_sim.cli import main
from aicore_sim.dtypes import DataType
from aicore_sim.errors import (
    AiCoreError,
    OutOfBoundsError,
    ParameterError,
    UnsupportedError,
)
from aicore_sim.explain import FILL, UNDEFINED, UNTOUCHED, ElementMap, explain, known_structs
from aicore_sim.explain.forms import FORMS, Form, Part, arguments, snake
from aicore_sim.explain.runs import runs
from aicore_sim.kernel import language
from aicore_sim.layouts import element_positions, to_layout

DOCS = Path(__file__).parent.parent / "aicore_sim" / "docs" / "explain.md"


def mapped(struct: str, words: str, card: str = "atlas_350", **options: Any) -> ElementMap:
    return explain(struct, words.split(), card=load_card(card), **options)


def origin_of(found: ElementMap, cell: int) -> int:
    return int(found.origin[cell - found.destination.first])


def fractals(found: ElementMap, size: int = 512) -> dict[int, int]:
    """{destination fractal: source fractal}, each moved as it is; asserts that every other byte is untouched."""
    cells = found.cells_of(size)
    whole = np.full(-(-found.origin.size // cells) * cells, UNTOUCHED)
    whole[: found.origin.size] = found.origin
    out = {}
    for number, block in enumerate(whole.reshape(-1, cells)):
        if (block == UNTOUCHED).all():
            continue
        assert block[0] % cells == 0
        assert (block == block[0] + np.arange(cells)).all()
        out[number + found.destination.first // cells] = int(block[0]) // cells
    return out


# ---- whole fractals (spec 14.1, 14.2) --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "where", "expected"),
    [
        ("repeat_times=4 src_stride=2 dst_gap=2", {}, {0: 0, 3: 2, 6: 4, 9: 6}),
        ("start_index=1 repeat_times=4 src_stride=2 dst_gap=2", {}, {0: 1, 3: 3, 6: 5, 9: 7}),
        ("start_index=6 repeat_times=4 src_stride=2 dst_gap=2 addr_mode=1", {"src": "GM", "dst": "A1"},
         {0: 6, 3: 4, 6: 2, 9: 0}),
        ("repeatTimes=3", {}, {0: 0, 1: 0, 2: 0}),
    ],
)  # fmt: skip
def test_load_data_2d(words: str, where: dict[str, str], expected: dict[int, int]) -> None:
    found = mapped("LoadData2DParams", words, "atlas_a2", dtype="float", **where)
    assert fractals(found) == expected
    assert found.moved == 512 * len(expected)
    assert found.rewritten == 0


def test_a_transposed_fractal() -> None:
    found = mapped("LoadData2DParams", "repeat_times=2 src_stride=2 dst_gap=2 if_transpose=true", "atlas_a2")
    for dst, src in ((0, 0), (3, 2)):
        for row in range(16):
            for column in range(16):
                assert origin_of(found, dst * 256 + row * 16 + column) == src * 256 + column * 16 + row
    assert found.count(UNTOUCHED) == 2 * 256


def test_load_data_2d_v2_starts_inside_the_source() -> None:
    words = "m_start_position=2 k_start_position=2 m_step=2 k_step=3 src_stride=5 dst_stride=3"
    assert fractals(mapped("LoadData2DParamsV2", words)) == {0: 12, 1: 13, 3: 17, 4: 18, 6: 22, 7: 23}


@pytest.mark.parametrize("dtype", ["int8", "half", "float", "fp4x2_e2m1"])
def test_transposed_v2_is_the_nz_of_the_transpose(dtype: str) -> None:
    """A 128 x 128 matrix in NZ lands as the NZ of its transpose, whatever the width (spec 3.3)."""
    c0 = DataType(dtype).c0
    words = f"m_step=8 k_step={128 // c0} src_stride=8 dst_stride=8 if_transpose=true"
    found = mapped("LoadData2DParamsV2", words, dtype=dtype, src="B1", dst="B2")
    assert (found.cell_bits, found.by_element) == (DataType(dtype).bits, True)
    for m, k in np.random.default_rng(1).integers(0, 128, (200, 2)):
        src = (k // c0 * 8 + m // 16) * 16 * c0 + m % 16 * c0 + k % c0
        dst = (m // c0 * 8 + k // 16) * 16 * c0 + k % 16 * c0 + m % c0
        assert origin_of(found, int(dst)) == src


# ---- ND, DN, pads (spec 14.5 to 14.7) --------------------------------------------------------------------------------
def nz(num: str, n: int, d: int, matrix: int, row: int, c0: int, ns: int, dst_matrix: int) -> str:
    return (f"{num}_num=1 n_value={n} d_value={d} src_{num}_matrix_stride={matrix} src_d_value={row} dst_nz_c0_stride={c0} "
            f"dst_nz_n_stride={ns} dst_nz_matrix_stride={dst_matrix}")  # fmt: skip


@pytest.mark.parametrize("num", ["nd", "dn"])
def test_nd2nz_and_dn2nz(num: str) -> None:
    row = 32 if num == "nd" else 16
    found = mapped(f"{num.capitalize()}2NzParams", nz(num, 16, 23, 0, row, 16, 1, 0))
    for n in range(16):
        for d in range(32):
            source = n * 32 + d if num == "nd" else d * 16 + n
            assert origin_of(found, d // 16 * 256 + n * 16 + d % 16) == (source if d < 23 else FILL)
    assert (found.words[found.origin == FILL] == 0).all()
    assert found.pipe == "MTE2"


def test_holes_stay_untouched() -> None:
    words = nz("nd", 8, 23, 384, 32, 37, 2, 320).replace("nd_num=1", "nd_num=2")
    found = mapped("Nd2NzParams", words)
    rows = {20 * i + 37 * b + 2 * n: (i * 384 + n * 32 + b * 16, b) for i in range(2) for b in range(2) for n in range(8)}
    for row in range(-(-found.origin.size // 16)):
        for c in range(16):
            got = origin_of(found, row * 16 + c) if row * 16 + c < found.origin.size else UNTOUCHED
            source, block = rows.get(row, (-1, 0))
            assert got == (UNTOUCHED if source < 0 else FILL if block and c >= 7 else source + c)


SEED = "loop_src_stride=1,8 loop_dst_stride=1,16 loop_size=8,2 loop_lp_size=3,1 loop_rp_size=5,1"


def test_nddma_pads() -> None:
    found = mapped("NdDmaParams", f"{SEED} constant_value=7", dtype="float")
    expected = np.full((4, 16), FILL)
    expected[1:3, 3:11] = np.arange(16).reshape(2, 8)
    assert (found.origin.reshape(4, 16) == expected).all()
    assert set(found.words[found.origin == FILL]) == {0x40E00000}  # 7.0f


def test_nddma_without_a_value_leaves_the_pads_undefined() -> None:
    found = mapped("NdDmaParams", SEED, dtype="float")
    assert found.count(UNDEFINED) == 48
    assert any("pad value not set" in text for text in found.warnings)


def test_nddma_nearest_and_broadcast() -> None:
    words = "loop_src_stride=1,15 loop_dst_stride=1,32 loop_size=15,28 loop_lp_size=11,3 loop_rp_size=6,1"
    found = mapped("NdDmaParams", f"{words} config.is_nearest_value_mode=true", dtype="half")
    for r in range(32):
        for c in range(32):
            assert origin_of(found, r * 32 + c) == min(max(r - 3, 0), 27) * 15 + min(max(c - 11, 0), 14)
    copies = mapped("NdDmaParams", "loop_src_stride=1,0 loop_dst_stride=1,16 loop_size=16,3", dtype="float")
    assert (copies.origin.reshape(3, 16) == np.arange(16)).all()
    assert copies.read.sum() == 16


def test_pads_of_the_config_are_told_from_those_of_the_loops() -> None:
    found = mapped("NdDmaParams", "loop_src_stride=1 loop_dst_stride=1 loop_size=4 loop_lp_size=3 config.loop_lp_size=1"
                   " constant_value=0", dtype="float")  # fmt: skip
    assert list(found.origin) == [FILL, 0, 1, 2, 3]


def test_data_copy_blocks() -> None:
    found = mapped("DataCopyParams", "block_count=2 block_len=3 src_stride=1 dst_stride=2", src="VECIN", dst="VECOUT")
    assert found.pipe == "V"
    assert list(found.origin) == [*range(48), *[UNTOUCHED] * 32, *range(64, 112)]


def test_strides_in_bytes_are_followed_in_bytes() -> None:
    found = mapped("DataCopyExtParams", "block_count=2 block_len=64 src_stride=1 dst_stride=1")
    assert (found.cell_bits, found.by_element) == (8, False)
    assert list(found.origin) == [*range(64), *[UNTOUCHED] * 32, *range(65, 129)]


def test_pads_and_dummy_of_data_copy_pad() -> None:
    found = mapped("DataCopyExtParams", "block_len=40 is_pad=true left_padding=1 right_padding=5 padding_value=1")
    assert list(found.origin) == [FILL, *range(20), *[FILL] * 11]
    assert set(found.words[found.origin == FILL]) == {0x3C00}
    out = mapped("DataCopyExtParams", "block_len=40", src="VECOUT", dst="GM")
    assert list(out.origin) == list(range(20))
    assert out.pipe == "MTE3"


def test_the_dummy_repeats_the_first_element() -> None:
    found = mapped("DataCopyExtParams", "block_len=40")
    assert list(found.origin) == [*range(20), *[0] * 12]


def test_fixpipe_places_rows() -> None:
    found = mapped("FixpipeParamsV220", "n_size=48 m_size=32 src_stride=64 dst_stride=64", "atlas_a2")
    assert (found.dtype.name, found.path, found.pipe) == ("float32", "L0C-GM", "FIX")
    for m in range(32):
        for n in range(64):
            if m * 64 + n < found.origin.size:
                assert origin_of(found, m * 64 + n) == (n // 16 * 64 * 16 + m * 16 + n % 16 if n < 48 else UNTOUCHED)


def test_fixpipe_into_ub_and_several_matrices() -> None:
    found = mapped("FixpipeParamsArch3510", "n_size=16 m_size=16 src_stride=16 dst_stride=16", dst="VECIN")
    assert list(found.origin) == list(range(256))
    words = "n_size=16 m_size=16 src_stride=16 dst_stride=16 nd_num=2 src_nd_stride=32 dst_nd_stride=256"
    assert origin_of(mapped("FixpipeParamsArch3510", words), 256) == 32 * 16


def test_load_data_3d_pads_and_repeats_the_image() -> None:
    """3 x 3 kernel with a border of 1 on a 5 x 5 image: row (y, x), kernel position (r, s) is the pixel (y+r-1, x+s-1)."""
    words = "l1H=5 l1W=5 channel_size=16 k_extension=144 m_extension=25 padList=1,1,1,1 filterW=3 filterH=3"
    found = mapped("LoadData3DParamsV2", words, "atlas_a2")
    for row in range(25):
        for kernel in range(9):
            y, x = row // 5 + kernel // 3 - 1, row % 5 + kernel % 3 - 1
            cell = (row // 16 * 9 + kernel) * 256 + row % 16 * 16 + 4  # ZZ, channel 4
            assert origin_of(found, cell) == ((y * 5 + x) * 16 + 4 if 0 <= y < 5 and 0 <= x < 5 else FILL)
    assert found.count(UNDEFINED) == 7 * 9 * 16


def test_overlapping_destinations_are_counted() -> None:
    found = mapped("LoadData2DParamsV2", "m_step=2 k_step=2 src_stride=2 dst_stride=1")
    assert (found.moved, found.rewritten) == (2048, 512)


def test_a_call_that_moves_nothing() -> None:
    found = mapped("LoadData2DParams", "repeat_times=0", "atlas_a2")
    assert (found.pipe, found.moved, found.origin.size) == ("", 0, 0)
    assert any("moves nothing" in text for text in found.warnings)


def test_far_sources_are_kept_small() -> None:
    found = mapped("LoadData2DParams", "start_index=65535 repeat_times=2 src_stride=1", "atlas_a2", src="GM", dst="A1")
    assert found.source.cells * 2 <= 2048
    assert fractals(found) == {0: 65535, 1: 65536}


# ---- words ----------------------------------------------------------------------------------------------------------
def test_every_known_struct_is_in_the_language() -> None:
    known = known_structs()
    assert {"LoadData2DParams", "Nd2NzParams", "NdDmaParams", "DataCopyExtParams", "FixpipeParamsV220"} <= set(known)
    for form in FORMS:
        assert (form.name in known) == all(callable(getattr(language, part.struct, None)) and
                                           isinstance(getattr(language, part.struct), type) for part in form.parts)  # fmt: skip


def test_names_in_any_case_and_in_cpp_spelling() -> None:
    one = mapped("loaddata2dparams", "repeatTimes=2 srcStride=1 ifTranspose=1", "atlas_a2")
    two = mapped("LoadData2DParams", "repeat_times=0x2 src_stride=1 if_transpose=true", "atlas_a2")
    assert (one.origin == two.origin).all()
    assert [snake(name) for name in ("dstNzC0Stride", "l1H", "mStartPosition", "loop_size")] == [
        "dst_nz_c0_stride", "l1_h", "m_start_position", "loop_size"]  # fmt: skip


def test_buffers_stand_for_their_positions() -> None:
    found = mapped("LoadData2DParams", "", "atlas_a2", src="L1", dst="l0b")
    assert (found.source.position, found.destination.position) == ("A1", "B2")


@pytest.mark.parametrize(
    ("struct", "words", "options", "error", "field"),
    [
        ("LoadData9DParams", "", {}, ParameterError, "struct"),
        ("LoadData2DParams", "repeat=2", {}, ParameterError, "repeat"),
        ("LoadData2DParams", "repeat_times", {}, ParameterError, "repeat_times"),
        ("LoadData2DParams", "repeat_times=two", {}, ParameterError, "repeat_times"),
        ("LoadData2DParams", "repeat_times=2 repeatTimes=3", {}, ParameterError, "repeatTimes"),
        ("LoadData2DParams", "repeat_times=256", {}, ParameterError, "repeat_times"),
        ("LoadData2DParams", "repeat_times=1.5", {}, ParameterError, "repeat_times"),
        ("LoadData2DParams", "if_transpose=true", {"dtype": "float"}, ParameterError, "if_transpose"),
        ("LoadData2DParams", "repeat_times=255", {}, OutOfBoundsError, "address"),
        ("LoadData2DParams", "", {"dtype": "halff"}, ParameterError, "dtype"),
        ("LoadData2DParams", "", {"dtype": "void"}, ParameterError, "dtype"),
        ("LoadData2DParams", "", {"src": "A9"}, ParameterError, "src"),
        ("LoadData2DParams", "", {"dst": "VECIN"}, UnsupportedError, "path"),
        ("LoadData2DParamsV2", "m_step=1 k_step=1", {}, UnsupportedError, "params"),
        ("NdDmaParams", SEED, {}, UnsupportedError, None),
        ("Nd2NzParams", "nd_num=1 n_value=1", {}, ParameterError, "d_value"),
        ("DataCopyExtParams", "block_len=32 is_pad=1", {"src": "VECIN", "dst": "GM"}, ParameterError, "is_pad"),
        ("FixpipeParamsV220", "n_size=16 m_size=16 src_stride=16 dst_stride=16 relu_en=1", {}, UnsupportedError, "dtype"),
        ("FixpipeParamsV220", "n_size=16 m_size=16 src_stride=16 dst_stride=16 layout=RM", {}, ParameterError, "layout"),
        ("FixpipeParamsV220", "n_size=16 m_size=16 src_stride=16 dst_stride=16 quant_pre=F322F16", {}, ParameterError,
         "quant_pre"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused(
    struct: str, words: str, options: dict[str, Any], error: type[AiCoreError], field: str | None
) -> None:
    with pytest.raises(error) as caught:
        mapped(struct, words, "atlas_a2", **options)
    if field is not None:
        assert caught.value.field == field
    assert caught.value.file is None


def test_what_is_known_is_said() -> None:
    with pytest.raises(ParameterError, match="did you mean LoadData2DParams"):
        mapped("LoadData2Params", "")
    with pytest.raises(ParameterError) as caught:
        mapped("LoadData2DParams", "stride=2", "atlas_a2")
    assert "src_stride=0" in str(caught.value.allowed)
    assert "did you mean" in caught.value.message
    with pytest.raises(ParameterError, match=r"n_value \(nValue\)"):
        mapped("Nd2NzParams", "nd_num=1")


def test_too_wide_to_map() -> None:
    with pytest.raises(ParameterError, match="too much to draw"):
        mapped("NdDmaParams", "loop_src_stride=1,99999999 loop_dst_stride=1,16 loop_size=8,2", dtype="float")


def test_quirks_and_wrap_reach_the_call() -> None:
    card = load_card("atlas_350").reading("documented", "hardware")
    assert card.wrap
    found = explain("LoadData2DParams", ["repeat_times=1"], card=card)
    assert fractals(found) == {0: 0}


# ---- helpers --------------------------------------------------------------------------------------------------------
def test_runs() -> None:
    origin = np.array([0, 1, 2, 3, 10, 11, 12, -1, -1, -2, 5, 7, 9, 4, 4])
    assert [tuple(run) for run in runs(origin)] == [
        (0, 4, 0, 1), (4, 3, 10, 1), (7, 2, -1, 0), (9, 1, -2, 0), (10, 3, 5, 2), (13, 2, 4, 0)]  # fmt: skip
    assert runs(np.zeros(0, np.int64)) == []
    assert len(runs(origin, 2)) == 2


def test_runs_give_the_map_back() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        origin = rng.choice([-3, -2, -1, 0, 1, 2, 3, 5, 7], rng.integers(1, 30)).astype(np.int64)
        back = [run.src + i * run.step for run in runs(origin) for i in range(run.cells)]
        assert back == list(origin)


@pytest.mark.parametrize("layout", ["ND", "DN", "NZ", "ZZ", "ZN"])
def test_element_positions_are_where_the_layout_puts_them(layout: str) -> None:
    half = DataType("half")
    matrix = np.arange(1, 21 * 19 + 1, dtype=np.uint16).reshape(21, 19)
    words = to_layout(matrix, layout, half).view(np.uint16)
    assert (words[element_positions(matrix.shape, layout, half)] == matrix).all()


# ---- command --------------------------------------------------------------------------------------------------------
def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["explain", *words])
    return (status, *capsys.readouterr())


V2 = ("LoadData2DParamsV2", "m_step=2", "k_step=2", "src_stride=2", "dst_stride=2", "if_transpose=true")


def rebuilt(document: dict[str, Any], cells: int) -> list[Any]:
    """The destination out of the runs of a document."""
    out: list[Any] = [None] * cells
    for run in document["map"]:
        first, last = run["dst"]
        for i in range(last - first + 1):
            if "src" in run:
                out[first + i] = run["src"][0] + i * run["step"]
            else:
                out[first + i] = run.get("fill", "undefined")
        if "src" in run:
            assert run["src"][1] == run["src"][0] + (last - first) * run["step"]
    return out


def test_json_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = command(capsys, *V2, "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert list(document) == [
        "api", "struct", "fields", "card", "soc", "dtype", "path", "pipe", "bytes", "rewritten_bytes", "headline",
        "source", "destination", "unit", "unit_bits", "map", "elements", "warnings", "notes", "files",
    ]  # fmt: skip
    assert (document["api"], document["card"], document["path"]) == ("LoadData", "atlas_350", "L1-L0A")
    assert (document["dtype"], document["bytes"], document["unit"]) == ("float16", 2048, "element")
    expected = [f * 256 + c * 16 + r for f in (0, 2, 1, 3) for r in range(16) for c in range(16)]
    assert rebuilt(document, 1024) == expected
    assert [(one["id"], one["from"], one["transposed"]) for one in document["destination"]["fractals"]] == [
        (0, [0], True), (1, [2], True), (2, [1], True), (3, [3], True)]  # fmt: skip
    assert document["source"]["byte_range"] == [0, 2047]


def test_json_names_fills_and_undefined(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("NdDmaParams", *SEED.split(), "--dtype", "float", "--json")
    filled = json.loads(command(capsys, *words, "constant_value=7")[1])
    assert filled["map"][0] == {"dst": [0, 18], "fill": "0x40e00000"}
    assert filled["map"][1] == {"dst": [19, 26], "src": [0, 7], "step": 1}
    undefined = json.loads(command(capsys, *words)[1])
    assert undefined["map"][0] == {"dst": [0, 18], "undefined": True}
    assert undefined["warnings"]


def test_json_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command(capsys, "LoadData2DParams", "repeat_times=0", "--card", "atlas_a2", "--json")
    document = json.loads(out)
    assert (status, document["pipe"], document["map"], document["bytes"]) == (0, None, [], 0)


@pytest.mark.parametrize(("words", "field"), [
    (("LoadData2DParams", "nope=1"), "nope"), (("Nope",), "struct"), ((*V2, "--out", "x.gif"), "out"),
    ((*V2, "--out", "no/such/folder/x.png"), "out"), ((*V2, "--rows", "4"), "cols"),
    ((*V2, "--rows", "4", "--cols", "4", "--layout", "QQ"), "layout"), ((*V2, "--card", "nope"), "card"),
    ((*V2, "--dst-layout", "NZ"), "dst-rows"), ((*V2, "--quirks", "nope"), "quirks"),
    (("DataCopyExtParams", "block_count=2", "block_len=64", "src_stride=1", "--rows", "2", "--cols", "32"), "rows"),
])  # fmt: skip
def test_errors_of_the_command(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], field: str) -> None:
    status, out, err = command(capsys, *words, "--json")
    error = json.loads(out)["error"]
    assert (status, err) == (2, "")
    assert error["field"] == field
    assert set(error) == {"type", "field", "value", "allowed", "file", "line", "message"}
    status, out, err = command(capsys, *words)
    assert (status, out) == (2, "")
    assert error["message"][:40] in " ".join(err.split())


def test_files_are_of_the_kind_that_their_name_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.txt", b"LoadData with"), ("a.json", b"{")):
        status, out, _ = command(capsys, *V2, "--out", str(tmp_path / name))
        assert status == 0
        assert name in out
        assert (tmp_path / name).read_bytes().startswith(start)
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["map"] == json.loads(command(capsys, *V2, "--json")[1])["map"]


@pytest.mark.parametrize("width", [80, 200])
def test_text_keeps_to_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (V2, ("LoadData2DParams", "repeat_times=128", "src_stride=1", "--card", "atlas_a2"),
                  ("NdDmaParams", "loop_src_stride=1,64", "loop_dst_stride=16,1", "loop_size=64,16", "--dtype", "float"),
                  ("LoadData2DParamsV2", "m_step=8", "k_step=16", "src_stride=8", "dst_stride=16", "if_transpose=1")):  # fmt: skip
        _, out, _ = command(capsys, *words)
        assert max(len(line) for line in out.splitlines()) <= width


def test_structs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["struct"] for row in json.loads(command(capsys, "--json")[1])] == known_structs()
    out = command(capsys)[1]
    assert all(name in out for name in known_structs())


def test_matrices_name_their_elements(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("Nd2NzParams", *nz("nd", 40, 56, 0, 56, 48, 1, 0).split(), "--rows", "40", "--cols", "56", "--dst-layout", "nz")
    document = json.loads(command(capsys, *words, "--json")[1])
    assert (document["source"]["layout"], document["destination"]["layout"]) == ("ND", "NZ")
    assert document["destination"]["shape"] == [40, 56]
    found = {tuple(one["element"]): (one["source_byte"], one["destination_byte"]) for one in document["elements"]}
    assert found[0, 0] == (0, [0])
    assert found[0, 1] == (2, [2])
    assert found[1, 0] == (112, [32])
    assert found[39, 55] == (2 * (39 * 56 + 55), [2 * ((3 * 3 + 2) * 256 + 7 * 16 + 7)])


# ---- the page -------------------------------------------------------------------------------------------------------
def examples() -> Sequence[tuple[str, str]]:
    """(command line, what it prints) of the page."""
    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n\$ aicore-sim (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(line, printed) for line, printed in blocks if printed.strip()]


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 3


@pytest.mark.parametrize(("line", "printed"), examples())
def test_the_page_prints_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(line.split()) == 0
    shown = [text.rstrip() for text in capsys.readouterr().out.splitlines()]
    assert [text.rstrip() for text in printed.splitlines()] == shown


def test_apis_of_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "--apis", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["card"] for row in rows} == {"atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"}
    assert all(set(row) == {"card", "api", "params", "path", "dtypes", "supported", "reason"} for row in rows)




def test_lists_of_structs() -> None:
    """One struct for each position of the lists, as the sliced copy takes them; the number of dimensions comes last."""
    sides = (Part("DataCopyParams", "dst", many=True), Part("DataCopyParams", "src", many=True))
    form = Form("Slices", "data_copy", "GM", "VECIN", sides, counts=True)
    half = DataType("half")
    words = ["dst.block_count=1,2", "dst.block_len=3,4", "src.blockCount=5,6"]
    dst, src, count = arguments(form, words, half, "GM", "UB").args
    assert dst == [language.DataCopyParams(1, 3), language.DataCopyParams(2, 4)]
    assert src == [language.DataCopyParams(5), language.DataCopyParams(6)]
    assert count == 2
    with pytest.raises(ParameterError, match="different lengths"):
        arguments(form, ["dst.block_count=1,2", "dst.block_len=3"], half, "GM", "UB")
