"""The linear problem behind every fit: how far to move numbers so that logarithms of errors come out small.

Numbers are measured in widths of their range: u = 0 is the present value, u moves by 1 from the lower end to the upper.
With r = log(simulated / measured) and J = d r / d u the fit minimises

    |r + J u|^2 + (RIDGE |u|)^2        between the ends of the ranges.

The second term weighs every number by its range. It keeps numbers that no point determines where they are, and of two
that do the same it moves both a little instead of one a lot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

Floats = NDArray[np.float64]
RIDGE = 0.02
"""A move through a whole range costs as much as an error of 2 % at one point."""


def steps(residuals: Floats, jacobian: Floats, lower: Floats, upper: Floats, ridge: float = RIDGE) -> Floats:
    """The moves u, one for each column of `jacobian` (points x numbers), with lower <= u <= upper.

    `residuals` has one entry for each row. Bounds hold 0: the present value is inside its range.
    """
    count = jacobian.shape[1]
    if count == 0 or len(residuals) == 0:
        return np.zeros(count)
    open_ = upper > lower
    moves = np.zeros(count)
    if open_.any():
        matrix = np.vstack([jacobian[:, open_], ridge * np.eye(int(open_.sum()))])
        target = np.concatenate([-residuals, np.zeros(int(open_.sum()))])
        # An active-set method: what lies at the end of its range lies exactly there.
        moves[open_] = lsq_linear(matrix, target, (lower[open_], upper[open_]), method="bvls", tol=1e-12).x
    return np.clip(moves, lower, upper)


def left_out(
    residuals: Floats, jacobian: Floats, lower: Floats, upper: Floats, groups: list[str], ridge: float = RIDGE
) -> Floats:
    """For each row the residual that a fit without its group predicts: r + J u, u fitted to the other rows.

    The model is taken to be linear between the ends of the ranges, so that no run is repeated.
    """
    predicted = np.empty_like(residuals)
    for group in dict.fromkeys(groups):
        out = np.array([one == group for one in groups])
        moves = steps(residuals[~out], jacobian[~out], lower, upper, ridge)
        predicted[out] = residuals[out] + jacobian[out] @ moves
    return predicted
