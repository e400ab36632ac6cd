"""Pictures of placements: which unit holds what, as text, and that nothing in the PNG overlaps or leaves the page."""

from __future__ import annotations

import io
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from rich.console import Console

from aicore_sim.cards import load_card
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.explain import explain
from aicore_sim.report import placement_draw
from aicore_sim.report.placement import Placement, place, word_text
from aicore_sim.report.placement_grid import Shape, pitch_of
from aicore_sim.report.placement_text import print_placement

ND = "nd_num=1 n_value=40 d_value=56 src_nd_matrix_stride=0 src_d_value=56 dst_nz_c0_stride=48 dst_nz_n_stride=1"
NDDMA = "loop_src_stride=1,8 loop_dst_stride=1,16 loop_size=8,2 loop_lp_size=3,1 loop_rp_size=5,1 constant_value=0"
CASES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "one": ("LoadData2DParams", "", "atlas_a2", {}),
    "four": ("LoadData2DParamsV2", "m_step=2 k_step=2 src_stride=2 dst_stride=2 if_transpose=1", "atlas_350", {}),
    "holes": ("LoadData2DParamsV2", "m_start_position=2 k_start_position=2 m_step=2 k_step=3 src_stride=5 dst_stride=3",
              "atlas_350", {}),
    "pairs": ("LoadData2DParamsV2", "m_step=4 k_step=2 src_stride=4 dst_stride=4 if_transpose=1", "atlas_350",
              {"dtype": "int8"}),
    "b4": ("LoadData2DParamsV2", "m_step=8 k_step=2 src_stride=8 dst_stride=8 if_transpose=1", "atlas_350",
           {"dtype": "fp4x2_e2m1"}),
    "128": ("LoadData2DParamsV2", "m_step=8 k_step=16 src_stride=8 dst_stride=16 if_transpose=1", "atlas_350",
            {"src": "B1", "dst": "B2"}),
    "128 in a row": ("LoadData2DParams", "repeat_times=128 src_stride=1", "atlas_a2", {}),
    "1024": ("LoadData2DParamsV2", "m_step=128 k_step=8 src_stride=128 dst_stride=128", "atlas_350",
             {"src": "GM", "dst": "A1", "dtype": "int8"}),
    "nd": ("Nd2NzParams", f"{ND} dst_nz_matrix_stride=0", "atlas_350", {}),
    "ub": ("NdDmaParams", NDDMA, "atlas_350", {"dtype": "float"}),
    "ub rows": ("NdDmaParams", "loop_src_stride=1,64 loop_dst_stride=16,1 loop_size=64,16", "atlas_350", {"dtype": "float"}),
    "image": ("LoadData3DParamsV2", "l1_h=5 l1_w=5 channel_size=32 k_extension=288 m_extension=25 pad_list=1,1,1,1"
              " filter_w=3 filter_h=3", "atlas_a2", {}),
    "rows out": ("FixpipeParamsV220", "n_size=48 m_size=32 src_stride=64 dst_stride=64", "atlas_a2", {}),
    "bytes": ("DataCopyExtParams", "block_count=2 block_len=64 src_stride=1 dst_stride=1", "atlas_350", {}),
    "nothing": ("LoadData2DParams", "repeat_times=0", "atlas_a2", {}),
}  # fmt: skip


@cache
def placed(name: str, source: Shape | None = None, destination: Shape | None = None) -> Placement:
    struct, words, card, options = CASES[name]
    return place(explain(struct, words.split(), card=load_card(card), **options), source, destination)


def labels(placement: Placement) -> list[list[str]]:
    down, across = placement.destination.units
    return [[placement.label(y * across + x) for x in range(across)] for y in range(down)]


def sources(placement: Placement) -> list[list[str]]:
    down, across = placement.source.units
    return [[placement.source_label(y * across + x) for x in range(across)] for y in range(down)]


def printed(placement: Placement, width: int) -> str:
    out = io.StringIO()
    print_placement(placement, Console(file=out, width=width, force_terminal=False, highlight=False))
    return out.getvalue()


# ---- units ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "source", "destination"),
    [
        ("one", [["0"]], [["0"]]),
        ("four", [["0", "2"], ["1", "3"]], [["0T", "1T"], ["2T", "3T"]]),
        ("holes", [[".", ".", "."], [".", ".", "."], ["12", "17", "22"], ["13", "18", "23"], [".", ".", ""]],
         [["12", "17", "22"], ["13", "18", "23"], [".", ".", ""]]),
        ("ub", [["0,0"], ["1,0"]], [["##", "##"], ["0,0#", "0,5#"], ["1,0#", "1,5#"], ["##", "##"]]),
        ("rows out", [["0", "4", "8"], ["1", "5", "9"], [".", ".", ""], [".", ".", ""]], [["0", "4", "8"], ["1", "5", "9"]]),
        ("bytes", [["0,0", "0,32"], ["1,0", "1,32"]], [["0,0", "0,32"], ["1,0", "1,32"]]),
        ("nothing", [], []),
    ],
)  # fmt: skip
def test_units(name: str, source: list[list[str]], destination: list[list[str]]) -> None:
    placement = placed(name)
    assert labels(placement) == destination
    assert sources(placement) == source


def test_several_sources_meet_in_a_transposed_square() -> None:
    # Sources F(i,j) = i + 4 j; square p of column block j goes to p*4 + 2*j + q (spec 3.3).
    found = {n: label for n, label in zip((0, 2, 4, 6, 1, 3, 5, 7), chain(*labels(placed("pairs"))), strict=True)}
    assert found == {0: "0&1T", 1: "0&1T", 2: "4&5T", 3: "4&5T", 4: "2&3T", 5: "2&3T", 6: "6&7T", 7: "6&7T"}
    assert labels(placed("b4"))[0] == ["0..3T", "8..11T", "4..7T", "12..15T"]


def test_a_matrix_is_shown_as_one_sees_it() -> None:
    placement = placed("nd", Shape(40, 56, "ND"), Shape(40, 56, "NZ"))
    assert labels(placement) == sources(placement)
    assert labels(placement)[1] == ["16,0", "16,16", "16,32", "16,48"]
    spot = placement.spots[-1]
    assert (spot.row, spot.column, spot.source) == (39, 55, 39 * 56 + 55)
    assert placement.destination.place(spot.targets[0]) == "11 (7,7)"


def test_only_the_destination_has_a_shape() -> None:
    placement = placed("nd", None, Shape(40, 56, "NZ"))
    assert [(s.row, s.column, s.source) for s in placement.spots][:3] == [(0, 0, 0), (0, 1, 1), (1, 0, 56)]


def test_dn_is_read_by_columns() -> None:
    found = explain("DataCopyParams", ["block_len=8"], card=load_card("atlas_350"))
    placement = place(found, Shape(16, 8, "DN"))
    assert [(s.row, s.column, s.source) for s in placement.spots][:3] == [(0, 0, 0), (0, 1, 16), (1, 0, 1)]


def test_bytes_have_no_matrix() -> None:
    with pytest.raises(ParameterError, match="no multiple"):
        placed("bytes", Shape(2, 32, "ND"))


@pytest.mark.parametrize(
    ("origin", "pitch"),
    [
        ([0, 1, 2, 3, 4, 5], None),
        ([0, 1, -1, 5, 6, -1, 10, 11], 3),
        ([0, 5, 10, 1, 6, 11], 3),
        ([0, 1, 2, 3, 16, 17, 18, 19, 32, 33, 34, 35], 4),
        ([-1, -2, -3], None),
        ([7], None),
    ],
)
def test_pitch(origin: list[int], pitch: int | None) -> None:
    assert pitch_of(np.array(origin)) == pitch


# ---- text -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("width", [80, 200])
def test_text_fits(name: str, width: int) -> None:
    text = printed(placed(name), width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_side_by_side_and_below_each_other() -> None:
    lines = printed(placed("four"), 80).splitlines()
    assert any("source A1 (L1)" in line and "destination A2 (L0A)" in line for line in lines)
    head = next(i for i, line in enumerate(lines) if "+0 +2" in line)
    assert lines[head + 1].split() == ["0", "0", "2", "0", "0T", "1T"]
    assert lines[head + 2].split() == ["1", "1", "3", "1", "2T", "3T"]
    below = printed(placed("128"), 80).splitlines()
    assert not any("source B1" in line and "destination" in line for line in below)
    assert any("..." in line for line in below)
    assert not any("..." in line for line in printed(placed("128"), 200).splitlines())


def test_text_says_what_happens() -> None:
    text = " ".join(printed(placed("ub"), 200).split())
    assert "DataCopy with NdDmaParams on atlas_350, float, GM to VECIN (UB), pipe MTE2: 256 B" in text
    assert "48 elements filled" in text
    assert "filled with 0 (0x00000000): 48 elements" in text
    assert "# filled" in text
    image = " ".join(printed(placed("image"), 200).split())
    assert "undefined afterwards: 2,016 elements" in image
    nothing = printed(placed("nothing"), 200)
    assert "moves nothing." in nothing
    assert "warning:" in nothing
    assert "each transposed" in printed(placed("four"), 200)


def test_long_pictures_leave_out_the_middle() -> None:
    text = printed(placed("ub rows"), 80)
    assert "32 more rows" in text
    assert "\n63 " in text


def test_nibbles_have_halves() -> None:
    text = printed(placed("b4"), 80)
    assert "0 low" in text
    assert "0 high" in text


def test_word_text() -> None:
    assert word_text(0x3C00, DataType("half")) == "1 (0x3c00)"
    assert word_text(0xFF, DataType("int8")) == "-1 (0xff)"
    assert word_text(0x7, DataType("int4")) == "7 (0x7)"
    assert word_text(0x38, DataType("hifloat8")) == "0x38"


# ---- picture --------------------------------------------------------------------------------------------------------
@cache
def drawn(name: str) -> Figure:
    fig = placement_draw.figure(placed(name))
    FigureCanvasAgg(fig).draw()
    return fig


def texts(fig: Figure) -> list[tuple[str, Any]]:
    """Every text that is seen, with its box in pixels."""
    return [(one.get_text(), one.get_window_extent()) for one in fig.findobj(Text) if one.get_visible() and one.get_text().strip()]


@pytest.mark.parametrize("name", list(CASES))
def test_nothing_overlaps_or_leaves_the_page(name: str) -> None:
    fig = drawn(name)
    found = texts(fig)
    width, height = fig.get_size_inches() * placement_draw.DPI
    for text, box in found:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, f"{text!r} leaves the page: {box}"
    corners = np.array([(box.x0, box.y0, box.x1, box.y1) for _, box in found])
    first, second = np.triu_indices(len(found), 1)
    shared = np.minimum(corners[first, 2:], corners[second, 2:]) - np.maximum(corners[first, :2], corners[second, :2])
    touching = np.flatnonzero((shared > 1).all(axis=1))
    assert not touching.size, [(found[first[i]][0], found[second[i]][0]) for i in touching[:5]]


@pytest.mark.parametrize("name", ["four", "128", "ub rows"])
def test_every_unit_is_named_in_a_readable_size(name: str) -> None:
    placement = placed(name)
    fig = drawn(name)
    source, destination = fig.axes[:2]
    for ax, names in ((source, sources(placement)), (destination, labels(placement))):
        shown = [one for one in ax.texts]
        assert sorted(one.get_text() for one in shown) == sorted(chain(*names))
        assert all(one.get_fontsize() >= 5 for one in shown)


def test_pages_grow_with_what_they_show() -> None:
    small, large = drawn("four").get_size_inches(), drawn("128").get_size_inches()
    assert small[0] < large[0] <= 17
    assert small[1] < large[1] <= 13.5


def test_colours_tell_the_source(tmp_path: Path) -> None:
    """A copied fractal has the same pixels on both sides, a transposed one its transpose."""
    for name, turned in (("holes", False), ("four", True)):
        placement = placed(name)
        source, destination = (ax.images[0].get_array() for ax in drawn(name).axes[:2])
        at = placement.source.find(int(placement.found.origin[0]))
        assert at is not None and source is not None and destination is not None
        here = source[at[0] : at[0] + 16, at[1] : at[1] + 16]
        there = destination[:16, :16]
        assert np.allclose(np.swapaxes(here, 0, 1) if turned else here, there)
        assert not np.allclose(here, np.swapaxes(here, 0, 1))


def test_three_elements_are_marked_on_both_sides() -> None:
    axes = drawn("four").axes[2:]
    assert [[one.get_text() for one in ax.texts] for ax in axes] == [["A", "B", "C"], ["A", "B", "C"]]
    spots = {ax.get_title(loc="left"): [one.get_position() for one in ax.texts] for ax in axes}
    assert spots["source fractal 0"] == [(0.5, 0.5), (1.5, 0.5), (0.5, 1.5)]
    assert spots["destination fractal 0"] == [(0.5, 0.5), (0.5, 1.5), (1.5, 0.5)]


def test_png(tmp_path: Path) -> None:
    path = placement_draw.draw(placed("ub"), tmp_path / "a.png")
    image = imread(path)
    assert image.shape[1] == round(placement_draw.figure(placed("ub")).get_size_inches()[0] * placement_draw.DPI)


def test_too_many_cells_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_draw, "MOST_PIXELS", 100)
    with pytest.raises(ParameterError, match="too many to draw"):
        placement_draw.figure(placed("four"))
