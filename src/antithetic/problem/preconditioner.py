r"""The units of the data: what columns are centred by, and how far a step goes in each.

With an intercept, SGD takes its steps in the columns :math:`x_j - m_j` and in a metric :math:`P`:
a prediction is :math:`\langle x - m, w \rangle + b`, and a step :math:`w_j \leftarrow w_j - \eta
P_j (x_j - m_j) \phi'`, :math:`b \leftarrow b - \eta \phi'` with

.. math:: P_j = \frac{1}{\mathrm{var}_j + \kappa \max_i (x_{ij} - m_j)^2 + l_2 / c},

where c is the curvature of the loss. It is a preconditioner: the objective, its optimum and the
weights refer to the original columns. Centring separates the intercept from the columns, which is
the larger part of the gain. The variance alone would let rare binary columns take huge
steps; a column's own range limits them, and does not depend on its scale. Since the penalty's
curvature is added to that of the loss, no column is shrunk by more than it is moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.losses import HUBER
from antithetic.problem.columns import ColumnMoments, joined
from antithetic.problem.objective import Problem

_RANGE = 0.1  # kappa
_SMALL_CHUNK, _FAR_OUTSIDE = 0.01, 1000.0  # share of the rows so far, and of their spread


class Moments(NamedTuple):
    """What is known about the columns: from all rows, or in `partial_fit` from all rows so far.

    Attributes
    ----------
    weight : float
        Sum of the weights of the rows.
    mean, variance : ndarray of shape (d,)
        By the rows' weights.
    least, greatest : ndarray of shape (d,)
        Ends of the range of each column.
    spread : ndarray of shape (d,)
        What columns are divided by: variance and a share of the squared range, or a larger earlier
        value.
    """

    weight: float
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]
    spread: NDArray[np.float64]

    @property
    def columns(self) -> ColumnMoments:
        """The same without the spread."""
        return ColumnMoments(*self[:-1])

    def with_more(self, other: Moments) -> Moments:
        """Moments of the rows of both. No spread becomes smaller."""
        both = joined([self.columns, other.columns])
        return Moments(*both, np.maximum(self.spread, _spread(both)))

    def without_outliers(self, chunk: Moments) -> tuple[Moments, bool]:
        """Moments of the rows of both, except in columns where a small chunk is far outside.

        A few rows that are a thousand times as large should not affect later ones; their own steps
        are shortened until they do no harm. Also returns whether there were such rows.
        """
        both = self.with_more(chunk)
        if not 0.0 < chunk.weight <= _SMALL_CHUNK * self.weight:
            return both, False
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.maximum(chunk.greatest - self.mean, self.mean - chunk.least)
            outside = (self.spread > 0.0) & ~(away**2 <= _FAR_OUTSIDE**2 * self.spread)
        kept = (np.where(outside, old, new) for old, new in zip(self[1:], both[1:], strict=True))
        return Moments(both.weight, *kept), bool(outside.any())

    def about_zero(self) -> Moments:
        """The same of columns that are not centred."""
        middle = np.zeros_like(self.mean)
        with np.errstate(over="ignore", invalid="ignore"):
            square = self.variance + self.mean**2
            reach = np.maximum(np.abs(self.least), np.abs(self.greatest))
            spread = square + _RANGE * reach**2
        return Moments(self.weight, middle, square, self.least, self.greatest, spread)


def _spread(seen: ColumnMoments) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.maximum(seen.greatest - seen.mean, seen.mean - seen.least)
        spread = seen.variance + _RANGE * reach**2
    return np.where(seen.least == seen.greatest, 0.0, spread)


def with_spread(seen: ColumnMoments) -> Moments:
    """Add what columns are divided by."""
    return Moments(*seen, _spread(seen))


class Preconditioner(NamedTuple):
    """Centre and metric of the columns, for the rows of one problem.

    Attributes
    ----------
    centre, metric : ndarray of shape (d,)
        Of the rows' float type.
    products : ndarray of shape (n,) or (0,)
        Of sparse rows, their products with ``metric * centre``.
    curvature : float
        Of the objective along a mean row: that of the loss times the mean of ``s (sum_j P_j (x_j -
        m_j)^2 + 1)``.
    columns : ColumnMoments or None, default=None
        What it was made from.
    """

    centre: NDArray[Any]
    metric: NDArray[Any]
    products: NDArray[np.float64]
    curvature: float
    columns: ColumnMoments | None = None

    def kernel(self) -> kernels.Preconditioner:
        """As the kernels see it."""
        return kernels.Preconditioner(self.centre, self.metric, self.products)

    def on(self, X: Any) -> Preconditioner:
        """The same centre and metric for other rows."""
        return self._replace(products=_products(X, self.centre, self.metric))

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows as steps see them, with the intercept's 1 as their last column."""
        full = X.toarray() if sparse.issparse(X) else X
        roots = np.sqrt(self.metric.astype(np.float64))
        seen = np.ones((len(full), len(roots) + 1))
        np.multiply(full - self.centre, roots, out=seen[:, :-1])
        return seen

    def squares(self, X: Any) -> NDArray[np.float64]:
        """Squared lengths of the rows as steps see them; sparse rows stay sparse."""
        if not sparse.issparse(X):
            rows = self.rows(X)
            return np.asarray(np.einsum("ij,ij->i", rows, rows))
        metric, centre = self.metric.astype(np.float64), self.centre.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            about_zero = X.power(2) @ metric
            away = float(np.square(centre) @ metric)
            squares = about_zero - 2.0 * _products(X, centre, metric) + away
        return np.asarray(1.0 + np.maximum(squares, 0.0))


def find_preconditioner(
    problem: Problem, moments: Moments, *, products: bool = True
) -> Preconditioner:
    """Choose the centre and the metric of a problem; without ``products``, for other rows.

    Columns that never vary have the metric 0. Where the square of a column cannot be held, the
    curvature is infinite. Rows are scaled and not centred without an intercept, and where sparse
    rows have many classes.
    """
    columns = moments.columns
    scales_only = problem.loss.has_classes and sparse.issparse(problem.X)
    if scales_only or not problem.fit_intercept:
        moments = moments.about_zero()
    mean_weight = 1.0 if problem.weight is None else float(problem.weight.mean())
    # the product underflows where weights are denormal
    curvature = max(step_curvature(problem) * mean_weight, float(np.finfo(np.float64).tiny))
    kind = problem.X.dtype
    with np.errstate(all="ignore"):
        metric = 1.0 / (moments.spread + problem.penalty.l2 / curvature)
        # no larger than what products with weights and steps leave room for
        metric = np.minimum(metric, float(np.finfo(kind).max) ** 0.75)
        metric = np.where(moments.spread > 0.0, metric, 0.0).astype(kind)
    centre = (moments.mean if problem.fit_intercept else np.zeros(problem.d)).astype(kind)
    held = np.isfinite(moments.spread).all() and ((metric > 0.0) == (moments.spread > 0.0)).all()
    along = float(metric.astype(np.float64) @ moments.variance) if held else np.inf
    found = _products(problem.X, centre, metric) if products else np.empty(0)
    return Preconditioner(centre, metric, found, curvature * (along + 1.0), columns)


def step_curvature(problem: Problem) -> float:
    """Curvature of the loss that steps are made for, without the weights of the rows.

    If slopes are bounded and targets are numbers, predictions have to move as far as the targets
    spread, so it is the slope divided by that distance.
    """
    loss = problem.loss
    typical = loss.typical_curvature(problem.y, problem.fit_intercept)
    if loss.classification or loss.has_log_link or not loss.is_bounded:
        return typical
    middle = float(np.median(problem.y)) if problem.fit_intercept else 0.0
    spread = float(np.abs(problem.y - middle).mean())
    steepest = loss.epsilon if loss.code == HUBER else 1.0
    if not 0.0 < spread < np.inf:
        return typical
    slope = steepest / spread
    return min(slope, loss.largest_curvature) if steepest > 0.0 else typical


def _products(X: Any, centre: NDArray[Any], metric: NDArray[Any]) -> NDArray[np.float64]:
    if not sparse.issparse(X):
        return np.empty(0)
    if not centre.any():
        return np.zeros(X.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):  # where the curvature is infinite
        products: NDArray[np.float64] = X @ (centre.astype(np.float64) * metric)
    return products
