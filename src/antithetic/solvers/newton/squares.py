r"""The minimum of squared errors with an L2 penalty, from one visit to the rows.

The objective is :math:`\frac12 \theta^\top H \theta - b^\top \theta + \frac12 s` with mean products
of columns with each other, H, and with the targets, b. Its minimum, objective and gradient take no
other visit, as long as rounding of the sums is too small to matter; otherwise the gradient of the
rows themselves corrects the minimum.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.threads import default_threads
from antithetic.exact.certificate import certified_gap
from antithetic.exact.row_sums import ENTRIES_PER_THREAD, RowSums
from antithetic.exact.sums import Vector, diagonal_of
from antithetic.problem import Problem
from antithetic.problem.centre import centre_of
from antithetic.problem.kernel_rows import kernel_rows
from antithetic.solvers.newton.factor import Factor

_MOST_COLUMNS = 1500  # beyond which BLAS keeps more of the products in the caches
# Products of float32 take half the time of float64, and one pass more to correct what they lead to.
# A pass takes about 1 ns an entry, products of d columns d / 60 ns.
_SINGLE_FROM = 150
_ROWS_OF_A_SUM = 128  # of the kernel, whose sums are added in turn
_UNIT = float(np.finfo(np.float64).eps) / 2.0
_VOUCHED = 1e-17  # of the constant's objective: a distance that not even weights show
_PROVED = 1e-12  # the same of what the rows say, where products may have too few digits
_DIGITS = 1e-9  # of the objective
_MOST_PASSES = 4


class Squares(NamedTuple):
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


class SquaresPoint(NamedTuple):
    """Weights and intercept, their objective, and a bound on its distance from the minimum.

    ``moment`` is when they were found, by ``time.perf_counter``.
    """

    coef: Vector
    intercept: float
    objective: float
    gap: float
    moment: float


def sum_squares(
    X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None, *, fit_intercept: bool
) -> Squares | None:
    """Visit dense rows once; None for other rows, and where a sum is not finite.

    Sums are finite only if all entries are.
    """
    n, d = X.shape
    if sparse.issparse(X) or d > min(_MOST_COLUMNS, max(2 * n, 300)):
        return None
    centre, target_centre = np.zeros(d), 0.0
    if fit_intercept:
        with np.errstate(over="ignore", invalid="ignore"):
            centre, target_centre = centre_of(X, weight), float(np.average(y, weights=weight))
    rows, targets = kernel_rows(X), np.ascontiguousarray(y, dtype=np.float64)
    counted = np.empty(0) if weight is None else np.ascontiguousarray(weight)
    columns = d + fit_intercept + 1
    # sums of a thread take no more room than its rows do
    most_threads = min(X.size // ENTRIES_PER_THREAD, n // columns)
    threads = min(default_threads(), most_threads) if most_threads > 1 else 1
    for is_single in (True, False) if d >= _SINGLE_FROM else (False,):
        products = np.zeros((columns, columns))
        if rows.squares(
            targets, counted, centre, target_centre, fit_intercept, is_single, products, threads
        ):
            rounding = math.inf if is_single else _rounding(n, columns)
            return Squares(products, centre, target_centre, rounding)
    return None


def _rounding(n: int, columns: int) -> float:
    """Error of sums over the rows, and of products of the matrix with a vector, relative."""
    return (_ROWS_OF_A_SUM + n / _ROWS_OF_A_SUM + columns + 8) * _UNIT


def vouched_minimum(squares: Squares, l2: float, *, fit_intercept: bool) -> SquaresPoint | None:
    """The minimum of products whose rounding is too small to matter; otherwise None."""
    if squares.rounding == math.inf:
        return None
    theta = np.empty(len(squares.products) - 1)
    found = kernels.minimise_products(squares.products, l2, fit_intercept, squares.rounding, theta)
    if found is None:
        return None
    objective, zero_objective, distance, size = found
    error = 0.5 * squares.rounding * size * size
    if not (distance <= _VOUCHED * zero_objective and error <= _DIGITS * objective):
        return None
    coef, intercept = theta, 0.0
    if fit_intercept:
        coef, at_centre = theta[:-1], float(theta[-1]) + squares.target_centre
        intercept = at_centre - float(squares.centre @ coef)
    return SquaresPoint(coef, intercept, objective, distance, time.perf_counter())


def corrected_minimum(
    squares: Squares, problem: Problem, target: float | None
) -> list[SquaresPoint] | None:
    """Newton's steps with the gradient of the rows, from the minimum that products lead to.

    The points end where the gap is at most ``target`` or, without one, where rounding hides what is
    left. None where doubts are left after all: a more careful method has to find the minimum.
    """
    k, d = len(squares.products) - 1, problem.d
    hessian, b = squares.products[:k, :k].copy(), squares.products[:k, k]
    diagonal_of(hessian)[:d] += problem.penalty.l2
    with np.errstate(over="ignore", invalid="ignore"):
        factor = Factor(hessian)
        theta = factor.solve(b)
        if squares.rounding < math.inf:
            theta -= factor.solve(hessian @ theta - b)
        return _steps(squares, problem, target, factor, theta)


def _steps(
    squares: Squares, problem: Problem, target: float | None, factor: Factor, theta: Vector
) -> list[SquaresPoint] | None:
    centre = squares.centre if problem.fit_intercept else None
    sums = RowSums(problem, centre, default_threads())
    if problem.fit_intercept:
        theta[-1] += squares.target_centre
    zero_objective, points = _zero_objective(squares.products, problem), []
    for _ in range(_MOST_PASSES):
        point = sums.at(theta)
        gap = certified_gap(sums, point)
        solution, moment = sums.split(theta), time.perf_counter()
        points.append(SquaresPoint(*solution, point.objective, gap, moment))
        if target is not None and gap <= target:
            return points
        step = factor.solve(point.gradient)
        left = 0.5 * float(point.gradient @ step)  # if the products were exact
        is_hidden = left <= _VOUCHED * zero_objective and gap <= _PROVED * zero_objective
        if target is None and is_hidden:
            return points
        theta = theta - step
    return None


def _zero_objective(products: Vector, problem: Problem) -> float:
    """Objective of the best constant."""
    square = float(products[-1, -1])
    if not problem.fit_intercept:
        return 0.5 * square
    own, shared = float(products[-2, -2]), float(products[-2, -1])
    return 0.5 * (square - shared * (shared / own)) if own > 0.0 else 0.0  # its square may overflow
