"""The bounded linear problem against closed forms and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.validation.solve import left_out, steps

WIDE = np.full(2, -100.0), np.full(2, 100.0)


def test_one_number_with_and_without_a_price_on_the_move() -> None:
    residuals, slopes = np.array([0.2, 0.1]), np.array([[1.0], [2.0]])
    ends = np.array([-1.0]), np.array([1.0])
    # Least squares: u = -(0.2*1 + 0.1*2) / (1 + 4); the price adds ridge^2 to the denominator.
    assert steps(residuals, slopes, *ends, ridge=0.0) == pytest.approx([-0.08])
    assert steps(residuals, slopes, *ends, ridge=1.0) == pytest.approx([-0.4 / 6])


def test_move_stops_at_the_end_of_the_range() -> None:
    found = steps(np.array([5.0]), np.array([[1.0, 1.0]]), np.array([-0.25, 0.0]), np.array([0.75, 1.0]))
    assert found.tolist() == [-0.25, 0.0]  # exactly: no rest of an inner point


def test_number_that_no_point_determines_stays() -> None:
    found = steps(np.array([0.3, 0.3]), np.array([[1.0, 0.0], [1.0, 0.0]]), *WIDE)
    assert found[0] == pytest.approx(-0.3, rel=1e-3)
    assert found[1] == 0.0


def test_numbers_that_do_the_same_share_the_move() -> None:
    found = steps(np.array([0.4]), np.array([[1.0, 1.0]]), *WIDE)
    assert found[0] == pytest.approx(found[1])
    assert found.sum() == pytest.approx(-0.4, rel=1e-3)


def test_nothing_to_fit() -> None:
    assert steps(np.array([0.1]), np.zeros((1, 0)), np.zeros(0), np.zeros(0)).shape == (0,)
    assert (steps(np.zeros(0), np.zeros((0, 2)), *WIDE) == 0).all()
    assert (steps(np.array([0.1]), np.ones((1, 2)), np.zeros(2), np.zeros(2)) == 0).all()


@given(st.integers(0, 2**32 - 1))
def test_left_out_residuals_are_those_of_refits_without_the_group(seed: int) -> None:
    """Brute force: the normal equations of the rows that stay, solved one group at a time."""
    rng = np.random.default_rng(seed)
    residuals, slopes = rng.normal(0, 0.2, 7), rng.normal(0, 1, (7, 2))
    groups = ["a", "b", "a", "c", "c", "c", "d"]
    ridge = 0.1
    expected = np.empty(7)
    for group in set(groups):
        stay = [i for i, one in enumerate(groups) if one != group]
        normal = slopes[stay].T @ slopes[stay] + ridge**2 * np.eye(2)
        move = np.linalg.solve(normal, -slopes[stay].T @ residuals[stay])
        for i in (i for i, one in enumerate(groups) if one == group):
            expected[i] = residuals[i] + slopes[i] @ move
    assert left_out(residuals, slopes, *WIDE, groups, ridge) == pytest.approx(expected, abs=1e-6)


def test_fit_of_points_on_one_line_foresees_the_point_left_out() -> None:
    slopes = np.array([[1.0], [0.5], [2.0]])
    predicted = left_out(slopes[:, 0] * 0.3, slopes, np.array([-1.0]), np.array([1.0]), ["a", "b", "c"], ridge=1e-9)
    assert predicted == pytest.approx([0, 0, 0], abs=1e-9)
