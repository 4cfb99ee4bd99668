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

from antithetic._util.threads import default_threads
from antithetic.problem import Problem
from antithetic.problem.certificate import certified_gap
from antithetic.problem.curvature import ENTRIES_PER_THREAD, RowSums
from antithetic.problem.kernel_rows import kernel_rows
from antithetic.problem.sums import Vector, diagonal_of
from antithetic.solvers.newton.centre import centre_of
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
        centre, target_centre = centre_of(X, weight), float(np.average(y, weights=weight))
    rows, targets = kernel_rows(X), np.ascontiguousarray(y, dtype=np.float64)
    counted = np.empty(0) if weight is None else np.ascontiguousarray(weight)
    columns, threads = d + fit_intercept + 1, default_threads()
    # sums of a thread take no more room than its rows do
    threads = max(1, min(threads, X.size // ENTRIES_PER_THREAD, n // columns))
    for is_single in (True, False) if d >= _SINGLE_FROM else (False,):
        products = np.zeros((columns, columns))
        rows.squares(
            targets, counted, centre, target_centre, fit_intercept, is_single, products, threads
        )
        if np.isfinite(products).all():
            products /= n
            rounding = math.inf if is_single else _rounding(n, columns)
            return Squares(products, centre, target_centre, rounding)
    return None


def _rounding(n: int, columns: int) -> float:
    """Error of sums over the rows, and of products of the matrix with a vector, relative."""
    return (_ROWS_OF_A_SUM + n / _ROWS_OF_A_SUM + columns + 8) * _UNIT


def minimise_squares(
    squares: Squares, problem: Problem, target: float | None
) -> list[SquaresPoint] | None:
    """Return the minimum or, where rows correct it, the points that lead to it.

    None where rounding leaves doubts: a more careful method has to find it. The points end where
    the gap is at most ``target`` or, without one, where rounding hides what is left.
    """
    minimum = _Minimum(squares, problem.penalty.l2, problem.fit_intercept)
    if minimum.is_vouched():
        point = minimum.point()
        return [point] if target is None or point.gap <= target else None
    return _corrected(minimum, problem, target)


class _Minimum:
    """The minimum that products lead to."""

    def __init__(self, squares: Squares, l2: float, fit_intercept: bool) -> None:
        products, self.squares, self.l2 = squares.products, squares, l2
        k = len(products) - 1
        self._matrix, self._b, self._square = products[:k, :k], products[:k, k], products[k, k]
        self._d, self._lengths = k - fit_intercept, np.sqrt(self._matrix.diagonal())
        hessian = self._matrix.copy()
        diagonal_of(hessian)[: self._d] += l2
        self.factor = Factor(hessian)
        self.theta = self.factor.solve(self._b)
        if squares.rounding < math.inf:  # otherwise the rows correct it
            self.theta -= self.factor.solve(hessian @ self.theta - self._b)
        self._gradient = hessian @ self.theta - self._b
        # ½ s - b'θ + ½ θ'Hθ, with Hθ = b + gradient
        self.objective = 0.5 * float(self._square + (self._gradient - self._b) @ self.theta)

    @property
    def zero_objective(self) -> float:
        """Objective of the best constant."""
        if self._d == len(self._b):
            return 0.5 * float(self._square)
        own = float(self._matrix[-1, -1])
        return 0.5 * float(self._square - self._b[-1] ** 2 / own) if own > 0.0 else 0.0

    def is_vouched(self) -> bool:
        """Whether rounding changes neither the minimum nor its objective by what matters."""
        if self.squares.rounding == math.inf:
            return False
        error = 0.5 * self.squares.rounding * self._size() ** 2
        is_near = self._distance() <= _VOUCHED * self.zero_objective
        return is_near and error <= _DIGITS * self.objective

    def _size(self) -> float:
        """Root mean square of what predictions and targets add up."""
        return float(self._lengths @ np.abs(self.theta) + math.sqrt(max(0.0, self._square)))

    def _distance(self) -> float:
        """Bound on the distance from the minimum, with the gradient that rounding may hide.

        It is the duality gap: with an intercept, of residuals less their mean.
        """
        d, gradient = self._d, np.abs(self._gradient)
        hidden = self.squares.rounding * self._size() * self._lengths
        off = gradient[:d] + hidden[:d]
        cost = 0.0
        if d < len(gradient):
            own = float(self._matrix[-1, -1])
            constant = float(gradient[-1] + hidden[-1])
            off += np.abs(self._matrix[-1, :d]) * (constant / own)
            cost = 0.5 * constant**2 / own
        return float(off @ off) / (2.0 * self.l2) + cost

    def point(self) -> SquaresPoint:
        """The minimum as the user gets it."""
        solution, gap = self.split(self.theta), self._distance()
        return SquaresPoint(*solution, self.objective, gap, time.perf_counter())

    def split(self, theta: Vector) -> tuple[Vector, float]:
        """Weights and the user's intercept, from those of centred columns and targets."""
        coef = theta[: self._d]
        if self._d == len(theta):
            return coef, 0.0
        at_centre = float(theta[-1]) + self.squares.target_centre
        return coef, at_centre - float(self.squares.centre @ coef)


def _corrected(
    minimum: _Minimum, problem: Problem, target: float | None
) -> list[SquaresPoint] | None:
    """Newton's steps with the gradient of the rows, from a minimum that products lead to."""
    centre = minimum.squares.centre if problem.fit_intercept else None
    sums = RowSums(problem, centre, default_threads())
    enough, proved = _VOUCHED * minimum.zero_objective, _PROVED * minimum.zero_objective
    theta, points = minimum.theta.copy(), []
    if problem.fit_intercept:
        theta[-1] += minimum.squares.target_centre
    for _ in range(_MOST_PASSES):
        point = sums.at(theta)
        gap = certified_gap(sums, point)
        solution, moment = sums.split(theta), time.perf_counter()
        points.append(SquaresPoint(*solution, point.objective, gap, moment))
        if target is not None and gap <= target:
            return points
        step = minimum.factor.solve(point.gradient)
        left = 0.5 * float(point.gradient @ step)  # if the products were exact
        if target is None and left <= enough and gap <= proved:
            return points
        theta = theta - step
    return None
