r"""The minimum of squared errors with an L2 penalty, from one visit to the rows.

The objective is :math:`\frac12 \theta^\top H \theta - b^\top \theta + \frac12 s` with mean products
of columns with each other, H, and with the targets, b. Its minimum takes no other visit if rounding
of the sums is too small to matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.losses import SQUARED_ERROR
from antithetic.exact.row_sums import ENTRIES_PER_THREAD
from antithetic.exact.sums import Vector
from antithetic.problem import Problem
from antithetic.problem.columns import centre_of

_MOST_COLUMNS = 300  # with more, products of float64 take as long as a Newton step
_ROWS_OF_A_SUM = 128  # of the kernel, whose sums are added in turn
_UNIT = float(np.finfo(np.float64).eps) / 2.0
_VOUCHED = 1e-14  # largest bound on the distance that is accepted, relative to the constant's loss


class ColumnProducts(NamedTuple):
    """Mean products of the columns of rows with each other and with their targets.

    Attributes
    ----------
    products : ndarray of shape (k, k)
        Of centred columns, a column of ones if there is an intercept, and centred targets.
    centre : ndarray of shape (d,)
        What is subtracted from each column: zeros without an intercept.
    target_centre : float
    rounding : float
        Error of a mean product at most, relative to the root mean squares of both columns.
    """

    products: Vector
    centre: Vector
    target_centre: float
    rounding: float


class LeastSquares(NamedTuple):
    """Weights and intercept in the float type of the rows, and how good they are.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    intercept : float
    objective, zero_objective : float
        Of these weights, and of the best constant.
    distance : float
        Bound on the objective's distance from its minimum.
    """

    coef: Vector
    intercept: float
    objective: float
    zero_objective: float
    distance: float


def least_squares(problem: Problem, threads: int = 1) -> LeastSquares | None:
    """Minimise squared errors with an L2 penalty, in one visit to dense rows.

    None for other problems, for many columns, and if rounding of the products could matter.

    Examples
    --------
    >>> problem = Problem.build([[1.0], [3.0]], [1.0, 2.0], loss="squared_error", l2=0.1)
    >>> least_squares(problem).coef.round(3).tolist()
    [0.686]
    """
    if problem.loss.code != SQUARED_ERROR or not problem.penalty.l2 > 0.0 == problem.penalty.l1:
        return None
    squares = sum_squares(problem, threads)
    return None if squares is None else vouched_minimum(squares, problem)


def sum_squares(problem: Problem, threads: int) -> ColumnProducts | None:
    """Visit dense rows once; None for other rows, many columns, and sums that are not finite."""
    X, weight, (n, d) = problem.X, problem.weight, problem.X.shape
    if sparse.issparse(X) or d > _MOST_COLUMNS:
        return None
    centre, target_centre = np.zeros(d), 0.0
    if problem.fit_intercept:
        with np.errstate(over="ignore", invalid="ignore"):
            centre, target_centre = (
                centre_of(X, weight),
                float(np.average(problem.y, weights=weight)),
            )
    counted = np.empty(0) if weight is None else np.ascontiguousarray(weight)
    columns = d + problem.fit_intercept + 1
    # sums of a thread take no more room than its rows do
    threads = max(1, min(threads, X.size // ENTRIES_PER_THREAD, n // columns))
    products = np.zeros((columns, columns))
    is_finite = problem.rows.squares(
        np.ascontiguousarray(problem.y),
        counted,
        centre,
        target_centre,
        problem.fit_intercept,
        False,
        products,
        threads,
    )
    rounding = (_ROWS_OF_A_SUM + n / _ROWS_OF_A_SUM + columns + 8) * _UNIT
    return ColumnProducts(products, centre, target_centre, rounding) if is_finite else None


def vouched_minimum(squares: ColumnProducts, problem: Problem) -> LeastSquares | None:
    """Return the minimum of products whose rounding is too small to matter; otherwise None."""
    theta, has_intercept = np.empty(len(squares.products) - 1), problem.fit_intercept
    found = kernels.minimise_products(
        squares.products, problem.penalty.l2, has_intercept, squares.rounding, theta
    )
    if found is None:
        return None
    objective, zero_objective, distance = found
    if not distance <= _VOUCHED * zero_objective:
        return None
    coef, intercept = theta[: problem.d], 0.0
    if has_intercept:
        intercept = float(theta[-1]) + squares.target_centre - float(squares.centre @ coef)
    if problem.X.dtype == np.float64:
        return LeastSquares(coef, intercept, objective, zero_objective, distance)
    rounded, constant = coef.astype(np.float32).astype(np.float64), float(np.float32(intercept))
    moved = rounded - coef
    if has_intercept:
        moved = np.append(moved, constant - intercept + squares.centre @ moved)
    rise = 0.5 * float(moved @ squares.products[:-1, :-1] @ moved)
    rise += 0.5 * problem.penalty.l2 * float(moved[: problem.d] @ moved[: problem.d])
    return LeastSquares(rounded, constant, objective + rise, zero_objective, distance + rise)
