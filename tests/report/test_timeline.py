"""The picture: its size, and colours at the places where the trace says something happened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from numpy.typing import NDArray

from aicore_sim.engine.columns import Cause, CoreInfo
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import Pipe
from aicore_sim.kernel.program import Kind
from aicore_sim.report.lanes import coverage
from aicore_sim.report.timeline import COLOURS, WAIT_COLOUR, draw, figure
from aicore_sim.trace import Trace
from tests.synthetic_columns import ADD, LOAD, MMAD, Row, aic, aiv, make_columns, stream


def simple() -> Trace:
    """1 GHz; MTE2 200..500 ns, half of it limited; V waits for a flag 100..500 and adds 500..900; run of 1000 ns."""
    rows = [
        Row(Pipe.MTE2, 200, 500, LOAD, gm=(0, 0, 150, 0, 0, 0, 0, 0)),
        Row(Pipe.V, 100, 500, kind=Kind.WAIT_FLAG, issue=100),
        Row(Pipe.V, 500, 900, ADD),
    ]
    return Trace(make_columns(rows, length=1000))


class Picture:
    """A drawn PNG with the geometry of one of its panels."""

    def __init__(self, trace: Trace, path: Path, panel: int = 0, **options: object) -> None:
        draw(trace, path, **options)  # type: ignore[arg-type]
        fig = figure(trace, **options)  # type: ignore[arg-type]
        fig.canvas.draw()
        self.fig = fig
        self.ax = fig.axes[panel]
        self.pixels = imread(path)[:, :, :3]

    def at(self, us: float, lane: float) -> NDArray[np.float64]:
        """Colour at a time and a height; lane 1.3 is 30 % below the top of the second lane."""
        x, y = self.ax.transData.transform((us, lane))
        colour: NDArray[np.float64] = self.pixels[self.pixels.shape[0] - 1 - int(y), int(x)]
        return colour


def is_colour(got: NDArray[np.float64], want: str) -> bool:
    return bool(np.abs(got - np.array(to_rgb(want))).max() < 0.02)


def test_bars_are_where_the_instructions_ran(tmp_path: Path) -> None:
    picture = Picture(simple(), tmp_path / "t.png")
    load, add = COLOURS[Pipe.MTE2], COLOURS[Pipe.V]
    for us in (0.205, 0.495):
        assert is_colour(picture.at(us, 0.7), load)
    for us in (0.19, 0.51, 0.95):
        assert is_colour(picture.at(us, 0.7), "white")
    for us in (0.505, 0.895):
        assert is_colour(picture.at(us, 1.7), add)
    assert is_colour(picture.at(0.45, 1.7), "white")


def test_the_limited_half_is_lighter_and_above(tmp_path: Path) -> None:
    picture = Picture(simple(), tmp_path / "t.png")
    above, below = picture.at(0.21, 0.2), picture.at(0.21, 0.7)
    assert is_colour(below, COLOURS[Pipe.MTE2])
    assert not is_colour(above, "white")
    assert above.sum() > below.sum() + 0.5


def test_flag_waits_are_a_grey_line_below(tmp_path: Path) -> None:
    picture = Picture(simple(), tmp_path / "t.png")
    assert is_colour(picture.at(0.3, 1.9), WAIT_COLOUR)
    assert is_colour(picture.at(0.05, 1.9), "white")
    assert is_colour(picture.at(0.7, 1.94), "white")


def test_a_gap_behind_a_barrier_counts_as_wait(tmp_path: Path) -> None:
    rows = [Row(Pipe.V, 0, 100, ADD), Row(Pipe.V, 600, 1000, ADD, issue=300, cause=Cause.BARRIER)]
    picture = Picture(Trace(make_columns(rows, length=1000)), tmp_path / "t.png")
    assert is_colour(picture.at(0.45, 0.9), WAIT_COLOUR)
    assert is_colour(picture.at(0.23, 0.9), "white")


def test_size_and_format(tmp_path: Path) -> None:
    path = draw(simple(), tmp_path / "t.png")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    height, width = imread(path).shape[:2]
    fig = figure(simple())
    assert (width, height) == (1400, round(fig.get_figheight() * 100))
    assert 100 < height < 400


def test_window_shows_that_stretch_only(tmp_path: Path) -> None:
    picture = Picture(simple(), tmp_path / "t.png", window_us=(0.4, 0.6))
    assert picture.ax.get_xlim() == pytest.approx((0.4, 0.6))
    assert len(picture.fig.axes) == 1
    assert is_colour(picture.at(0.401, 0.7), COLOURS[Pipe.MTE2])
    assert is_colour(picture.at(0.505, 0.7), "white")


@pytest.mark.parametrize("window", [(0.5, 0.5), (0.6, 0.4), (2.0, 3.0), (-2.0, -1.0), (float("nan"), 1.0)])
def test_an_empty_window_is_refused(window: tuple[float, float]) -> None:
    with pytest.raises(ParameterError) as caught:
        figure(simple(), window_us=window)
    assert caught.value.field == "window_us"


@pytest.mark.parametrize("core", [1, -1, "core9.aiv0"])
def test_an_unknown_core_is_refused(core: int | str) -> None:
    with pytest.raises(ParameterError) as caught:
        figure(simple(), cores=[core])
    assert (caught.value.field, caught.value.value) == ("cores", core)


def core_labels(trace: Trace, **options: object) -> list[str]:
    texts = figure(trace, **options).axes[0].texts  # type: ignore[arg-type]
    return [text.get_text() for text in texts if text.get_text().startswith("core")]


def test_at_most_36_cores_unless_asked() -> None:
    trace = Trace(stream(960, 48))
    shown = core_labels(trace)
    assert len(shown) == 36
    assert {shown[0], shown[-1]} == {"core0.aiv0", "core23.aiv1"}
    assert "36 of 48 cores" in figure(trace).texts[0].get_text()
    assert len(core_labels(trace, cores="all")) == 48
    assert " of " not in figure(trace, cores="all").texts[0].get_text()
    assert core_labels(trace, cores=[3, "core0.aiv0"]) == ["core1.aiv1", "core0.aiv0"]


def test_cube_and_vector_cores_of_one_ai_core_are_shown_together() -> None:
    cores: list[CoreInfo] = []
    rows: list[Row] = []
    for group in range(16):
        for info in (aic(group), aiv(2 * group), aiv(2 * group + 1)):
            op, pipe = (MMAD, Pipe.M) if info.kind == "aic" else (ADD, Pipe.V)
            rows.append(Row(pipe, 0, 100, op, core=len(cores)))
            cores.append(info)
    shown = core_labels(Trace(make_columns(rows, cores)))
    assert len(shown) == 36
    assert shown[:3] == ["core0.aic", "core0.aiv0", "core0.aiv1"]
    assert shown[-3:] == ["core15.aic", "core15.aiv0", "core15.aiv1"]
    assert all(shown[i].split(".")[0] == shown[i + 2].split(".")[0] for i in range(0, 36, 3))


def test_only_lanes_with_instructions_are_drawn() -> None:
    labels = [label.get_text() for label in figure(simple()).axes[0].get_yticklabels()]
    assert labels == ["MTE2", "V"]


def test_wide_bars_carry_the_api_name() -> None:
    texts = [text.get_text() for text in figure(simple()).axes[0].texts]
    assert {"DataCopy", "Add"} <= set(texts)


def test_long_runs_get_a_zoom_of_a_stretch_in_the_middle() -> None:
    trace = Trace(stream(6000, 2))
    whole, zoom = figure(trace).axes
    assert whole.get_xlim() == pytest.approx((0, trace.length_us))
    lo, hi = zoom.get_xlim()
    assert 0.4 * trace.length_us < lo < hi < 0.6 * trace.length_us
    assert {"DataCopy"} <= {text.get_text() for text in zoom.texts}
    assert len(figure(simple()).axes) == 1


def test_half_a_million_rows_are_merged_into_their_share_of_time(tmp_path: Path) -> None:
    trace = Trace(stream(500_000, 2))
    picture = Picture(trace, tmp_path / "t.png")
    # MTE2 is busy for half of each load, V for 20 of about 110 cycles; a full bar is 0.78 of a lane
    lane = 0.04 + 0.78
    for us in np.array([0.11, 0.28, 0.43, 0.62, 0.88]) * trace.length_us:
        assert is_colour(picture.at(us, lane - 0.05), COLOURS[Pipe.MTE2])
        assert is_colour(picture.at(us, 1 + lane - 0.06), COLOURS[Pipe.V])
        assert is_colour(picture.at(us, 1.3), "white")
        assert not is_colour(picture.at(us, 0.3), "white")


def test_coverage_is_exact_for_rows_across_and_inside_cells() -> None:
    start, free = np.array([0.0, 4.0, 5.0, 18.0]), np.array([2.0, 5.0, 15.0, 19.0])
    edges = np.array([0.0, 10.0, 20.0])
    # first cell: 2 + 1 + 5 of 10; second: 5 + 1
    assert coverage(start, free, free - start, edges) == pytest.approx([0.8, 0.6])
    assert coverage(start, free, (free - start) / 2, edges) == pytest.approx([0.4, 0.3])


def test_an_empty_run_can_be_drawn(tmp_path: Path) -> None:
    assert draw(Trace(make_columns([], length=100)), tmp_path / "t.png").stat().st_size > 0
    assert draw(Trace(make_columns([])), tmp_path / "u.png").stat().st_size > 0


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    one = draw(Trace(stream(2000, 3)), tmp_path / "a.png")
    two = draw(Trace(stream(2000, 3)), tmp_path / "b.png")
    assert (imread(one) == imread(two)).all()
