"""How far an objective is from its optimum: an estimate, not a bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.exact.class_sums import ClassSums
from antithetic.exact.linear_algebra import Factor, conjugate_gradients
from antithetic.exact.many_classes import class_sums_of, shared_factor
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Evaluation, Vector
from antithetic.problem.columns import ColumnMoments, centre_of, columns_from, moments_of
from antithetic.problem.objective import Problem
from antithetic.problem.overflow import DivergenceError
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.sampling import importance_of
from antithetic.problem.softmax import SoftmaxProblem

_ROWS_PER_COLUMN, _LEAST_SAMPLE = 20.0, 1000.0  # of the sample whose Hessian is taken
_ROWS_OF_A_COLUMN = 10.0  # in a sample drawn evenly: with fewer, rows are drawn by importance
_SHARE_OF_ROWS = 8  # the same for many classes: at least an eighth of the rows
_MOST_COLUMNS = 500  # with more, conjugate gradients do without a matrix
_TINY = float(np.finfo(float).tiny)
_MOST_PRODUCTS = 12
_ENOUGH = 0.02  # of what conjugate gradients have gained, in one step or in all that would follow


def has_newton_decrement(problem: Problem) -> bool:
    """Whether the Newton decrement says how far the optimum is.

    It needs a smooth loss and a penalty without a kink, which makes the optimum unique.
    """
    penalty = problem.penalty
    smooth = isinstance(penalty, ElasticNet) and penalty.l1 == 0.0 and penalty.l2 > 0.0
    return problem.loss.is_smooth and smooth


def needs_products(problem: Problem) -> bool:
    """Whether the Newton decrement takes products with the Hessian: several passes over rows."""
    many = problem.d + problem.fit_intercept > _MOST_COLUMNS
    return has_newton_decrement(problem) and (many or isinstance(problem, SoftmaxProblem))


def newton_decrement(
    problem: Problem,
    coef: NDArray[np.generic],
    intercept: Any,
    columns: ColumnMoments | None = None,
) -> tuple[float, float]:
    r"""Objective, and half of :math:`g^T H^{-1} g`: what a Newton step would gain on a parabola.

    The gradient g is that of all rows, the Hessian H that of a sample of 20 rows per column, drawn
    by importance. With more than 500 columns, a few steps of conjugate gradients on all rows
    replace the matrix; with many classes always, see :func:`class_decrement`.

    Cost: one pass over the rows; where they are sampled, one more unless ``columns``, which need
    not be exact, are given, and another if some rows matter more than others.
    """
    if isinstance(problem, SoftmaxProblem):
        return class_decrement(problem, coef, intercept)
    centre = None
    if problem.fit_intercept:
        centre = centre_of(problem.X, problem.weight) if columns is None else columns.mean
    sums = RowSums(problem, centre)
    with np.errstate(all="ignore"):
        point = sums.at(sums.join(np.asarray(coef, np.float64), intercept))
        if not np.isfinite(point.gradient).all():
            return point.objective, np.inf
        if sums.columns > _MOST_COLUMNS:
            diagonal = np.maximum(sums.diagonal(point), _TINY)
            gained = newton_gain(partial(sums.times, point), point.gradient, lambda v: v / diagonal)
        else:
            gained = _by_matrix(sums, point, columns)
    return point.objective, gained if gained >= 0.0 else np.inf


def _by_matrix(sums: RowSums, point: Evaluation, columns: ColumnMoments | None) -> float:
    """Return the decrement by the Hessian of a sample, or of all rows if these are few."""
    size = max(_ROWS_PER_COLUMN * sums.columns, _LEAST_SAMPLE)
    if 2.0 * size < sums.n:
        hessian = _sampled_hessian(sums, point, columns, size)
    else:
        hessian = sums.hessian(point, exact=True)
    try:
        return 0.5 * float(point.gradient @ Factor(hessian).solve(point.gradient))
    except DivergenceError:
        return np.inf


def _sampled_hessian(
    sums: RowSums, point: Evaluation, columns: ColumnMoments | None, size: float
) -> Vector:
    """Return the Hessian of rows drawn by how much of it each of them could be."""
    problem, curvatures = sums.problem, sums.judged(point)[1]
    if columns is None:
        columns = moments_of(problem.X, problem.weight)
    seen = columns_from(columns, np.empty(0), fit_intercept=sums.fit_intercept)
    shares = importance_of(problem, seen, 0, enough=size / _ROWS_OF_A_COLUMN)
    # half of the rows by how much they could matter to a column, half by how much they are curved
    share = np.sign(curvatures)
    share *= 0.5 * shares.share
    share += curvatures * (0.5 / max(float(curvatures.sum()), _TINY))
    rows, chances = shares._replace(share=share).draw(size)
    some = RowSums(problem.take(rows), sums.centre)
    return some.gram(curvatures[rows] * (len(rows) / sums.n) / chances, exact=True)


# ---- many classes


def class_decrement(problem: SoftmaxProblem, coef: Any, intercepts: Any) -> tuple[float, float]:
    r"""Objective, and half of :math:`g^T H^{-1} g`: what a Newton step would gain on a parabola.

    The gradient g is that of all rows; H, the Hessian of a sample of 20 rows per column drawn by
    importance, is never formed. Conjugate gradients take at most 12 products with it, in columns
    that are whitened by what the classes share of their second derivatives; with more than 500
    columns, in columns that are scaled.

    Cost: three passes over the rows, and some 20 over the sample.
    """
    labels, k = problem.y.astype(np.intp), problem.n_classes
    given = (problem.X, labels, k, problem.penalty, problem.weight)
    sums = class_sums_of(*given, fit_intercept=problem.fit_intercept)
    weights = np.asarray(coef, np.float64).reshape(k, problem.d)
    point = sums.at(sums.join(weights, np.asarray(intercepts, np.float64)))
    if not np.isfinite(point.gradient).all():
        return point.objective, np.inf
    size = max(_ROWS_PER_COLUMN * sums.features, sums.n / _SHARE_OF_ROWS)
    sample = sums.samples([size], 0)[0].sums if 2.0 * size < sums.n else sums
    with np.errstate(all="ignore"):
        try:
            gained = newton_gain(
                sample.products(point.theta), point.gradient, _preconditioner(sample, point)
            )
        except DivergenceError:
            return point.objective, np.inf
    return point.objective, gained if gained >= 0.0 else np.inf


def _preconditioner(sums: ClassSums, point: Evaluation) -> Callable[[Vector], Vector]:
    """Multiply by the inverse of a matrix near the Hessian."""
    if sums.features <= _MOST_COLUMNS:
        return shared_factor(sums, point, 0).solve
    diagonal = np.maximum(sums.diagonal(point), _TINY)
    return lambda vector: vector / diagonal


def newton_gain(
    times: Callable[[Vector], Vector], gradient: Vector, solve: Callable[[Vector], Vector]
) -> float:
    r"""Half of :math:`g^T H^{-1} g`, from below, by at most 12 products with H.

    Parameters
    ----------
    times : callable
        Multiplies a vector by H.
    gradient : ndarray
    solve : callable
        Multiplies a vector by the inverse of a matrix near H.

    Examples
    --------
    >>> import numpy as np
    >>> newton_gain(lambda v: 2.0 * v, np.array([2.0, 0.0]), lambda v: v)
    1.0
    """
    gains: list[float] = []

    def is_enough(gain: float, _: Vector) -> bool:
        gains.append(gain)
        # as a rule, later steps gain less, and by about the same factor each
        before = gains[-2] if len(gains) > 1 else 0.0
        rest = gain * gain / (before - gain) if gain < before else np.inf
        return min(gain, rest) <= _ENOUGH * sum(gains)

    conjugate_gradients(times, solve, gradient, _MOST_PRODUCTS, is_enough=is_enough)
    return sum(gains)
