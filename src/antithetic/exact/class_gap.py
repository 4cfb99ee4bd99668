"""How far the objective of many classes is from its optimum: an estimate, not a bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from antithetic.exact.class_hessians import MOST_SQUARE
from antithetic.exact.class_rows import effective_rows
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.newton_gain import newton_gain
from antithetic.exact.sums import Evaluation, Vector
from antithetic.problem.centre import centre_of
from antithetic.problem.softmax import SoftmaxProblem

_ROWS_PER_COLUMN, _SHARE_OF_ROWS = 20, 8  # of the sample whose second derivatives are taken
_MOST_COLUMNS = 500  # that are whitened; of more, each is scaled
_RIDGES = (1e-13, 1e-10, 1e-7, 1e-4)  # of columns of one unit
_LEAST_SHARE = 1e-3  # of a class whose chances hardly vary
_TINY = float(np.finfo(float).tiny)


def class_decrement(problem: SoftmaxProblem, coef: Any, intercepts: Any) -> tuple[float, float]:
    r"""Objective, and half of :math:`g^T H^{-1} g`: what a Newton step would gain on a parabola.

    The gradient g is that of all rows; H, the Hessian of a sample of 20 rows per column, is never
    formed. Conjugate gradients take at most 12 products with it, in columns that are whitened by
    what the classes share of their second derivatives; with more than 500 columns, in columns that
    are scaled.

    Cost: one pass over the rows, and some 20 over the sample.
    """
    sums = _sums_of(problem)
    weights = np.asarray(coef, np.float64).reshape(problem.n_classes, problem.d)
    point = sums.at(sums.join(weights, np.asarray(intercepts, np.float64)))
    if not np.isfinite(point.gradient).all():
        return point.objective, np.inf
    size = max(_ROWS_PER_COLUMN * sums.features, sums.n // _SHARE_OF_ROWS)
    # rows of little weight say little
    sample = sums.some_rows(int(size * sums.n / effective_rows(sums.n, problem.weight)), 0)
    with np.errstate(all="ignore"):
        try:
            solve = _solver(sample, point)
        except ValueError:  # numbers that are not finite
            return point.objective, np.inf
        gained = newton_gain(partial(sample.times, point), point.gradient, solve)
    return point.objective, gained if gained >= 0.0 else np.inf


def _sums_of(problem: SoftmaxProblem) -> ClassSums:
    centre = centre_of(problem.X, problem.weight) if problem.fit_intercept else None
    given = problem.n_classes, problem.penalty, problem.weight, centre
    return ClassSums(problem.X, problem.y.astype(np.intp), *given)


def _solver(sums: ClassSums, point: Evaluation) -> Callable[[Vector], Vector]:
    """Multiply by the inverse of a matrix near the Hessian."""
    if _MOST_COLUMNS < sums.features <= MOST_SQUARE:
        diagonal = np.maximum(sums.diagonal(point), _TINY)
        return lambda vector: vector / diagonal
    products, shares, mean = sums.whitening(point, 0, exact=True)
    of_columns = _inverse(products, sums.penalty.l2)
    of_classes = 1.0 / np.maximum(shares, _LEAST_SHARE)
    of_constants = of_classes / max(mean, _TINY) if sums.fit_intercept else np.empty(0)

    def solve(vector: Vector) -> Vector:
        coef = vector[: sums.d].reshape(sums.classes, sums.features)
        found = of_columns(coef) * of_classes[:, None]
        return np.concatenate([found.ravel(), vector[sums.d :] * of_constants])

    return solve


def _factor(matrix: Vector) -> Any:
    """Cholesky factor, with the least ridge of some that rounding allows."""
    for ridge in _RIDGES:
        matrix[np.diag_indices_from(matrix)] += ridge
        try:
            return linalg.cho_factor(matrix, lower=True)
        except linalg.LinAlgError:
            continue
    return linalg.cho_factor(np.eye(len(matrix)))


def _inverse(products: Vector, l2: float) -> Callable[[Vector], Vector]:
    """Multiply each row by the inverse of a matrix, or of a diagonal, with a ridge."""
    if products.ndim == 1:
        diagonal = np.maximum(products + l2, _TINY)
        return lambda rows: rows / diagonal
    roots = np.sqrt(np.maximum(products.diagonal() + l2, _TINY))  # columns of one unit
    scaled = products / np.outer(roots, roots)
    scaled[np.diag_indices_from(scaled)] += l2 / roots**2
    factor = _factor(scaled)

    def solve(rows: Vector) -> Vector:
        found: Vector = linalg.cho_solve(factor, (rows / roots).T).T / roots
        return found

    return solve
