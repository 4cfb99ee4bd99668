"""How far an objective is from its optimum: an estimate, not a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.linalg.lapack import dposv

from antithetic._core import kernels
from antithetic._core.losses import LOG_LOSS
from antithetic.exact.class_sums import MOST_SQUARE, ClassSums
from antithetic.exact.row_sums import RowSums, evaluate
from antithetic.exact.sums import Evaluation, Vector, diagonal_of, effective_rows
from antithetic.problem.columns import centre_of
from antithetic.problem.objective import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.softmax import SoftmaxProblem

_ROWS_PER_COLUMN = 20  # of the sample whose Hessian is taken
_SHARE_OF_ROWS = 8  # the same for many classes: at least an eighth of the rows
_MOST_COLUMNS = 500  # with more, conjugate gradients do without a matrix
_RIDGES = (1e-13, 1e-10, 1e-7, 1e-4)  # of columns of one unit
_LEAST_OF_CLASS = 1e-3  # of a class whose chances hardly vary
_TINY = float(np.finfo(float).tiny)
_FEW_ROWS = 10  # of a sample, that say little of a column
_ROWS_OF_A_TABLE, _COLUMNS_OF_A_TABLE = 1000, 128  # few enough to be taken as they are
_LEAST_RIDGE = 1e-12  # relative to columns of one unit: far below what is asked for
_LEAST_SHARE = 0.01  # of a column's mean square, that is left where it is centred
_RARE = 4.0  # times the curvature that a sample has of a column
_SLOWEST = 0.75  # factor between the falls of two doublings
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
    problem: Problem, coef: NDArray[np.generic], intercept: Any, centre: NDArray[Any] | None = None
) -> tuple[float, float]:
    r"""Objective, and half of :math:`g^T H^{-1} g`: what a Newton step would gain on a parabola.

    The gradient g is that of all rows, the Hessian H that of a sample of 20 rows per column, with
    the diagonal of all rows in columns that the sample has too few rows of. With more than 500
    columns, a few steps of conjugate gradients on all rows replace the matrix; with many classes
    always, see :func:`class_decrement`. Up to 1000 rows of up to 128 columns are all taken.

    Cost: one pass over the rows, of a loss other than the logistic one more where there are rare
    columns. What columns are centred by, if it is given, need not be their exact mean.
    """
    if isinstance(problem, SoftmaxProblem):
        return class_decrement(problem, coef, intercept)
    if not problem.fit_intercept:
        centre = None
    elif centre is None:
        centre = centre_of(problem.X, problem.weight)
    else:
        centre = centre.astype(np.float64, copy=False)
    if problem.n <= _ROWS_OF_A_TABLE and problem.d <= _COLUMNS_OF_A_TABLE:
        return _of_a_table(problem, np.asarray(coef, np.float64), intercept, centre)
    sums = RowSums(problem, centre)
    theta = sums.join(np.asarray(coef, np.float64), intercept)
    estimate = _by_matrix if sums.columns <= _MOST_COLUMNS else _by_products
    with np.errstate(all="ignore"):
        objective, gained = estimate(sums, theta)
    return objective, gained if gained >= 0.0 else np.inf


def _by_products(sums: RowSums, theta: Vector) -> tuple[float, float]:
    point = sums.at(theta)
    if not np.isfinite(point.gradient).all():
        return point.objective, np.inf
    diagonal = np.maximum(_rough_diagonal(sums, point), np.finfo(float).tiny)
    gained = newton_gain(partial(sums.times, point), point.gradient, lambda v: v / diagonal)
    return point.objective, gained


def _rough_diagonal(sums: RowSums, point: Evaluation) -> Vector:
    """Diagonal of the Hessian, near enough for conjugate gradients.

    That of sparse columns is centred as if curvatures were the same wherever a column is zero or
    not, which saves a pass.
    """
    if sums.centre is None or not sparse.issparse(sums.problem.X):
        return sums.diagonal(point)
    curvatures = sums.judged(point)[1]
    squares, total = np.zeros(sums.columns), float(curvatures.sum())
    sums.problem.rows.weighted_squares(curvatures, squares[: sums.d])
    centred = squares[: sums.d] - total * np.square(sums.centre)
    np.maximum(centred, _LEAST_SHARE * squares[: sums.d], out=squares[: sums.d])
    squares[sums.d] = total
    squares /= sums.n
    squares[: sums.d] += sums.penalty.l2
    return squares


def _of_a_table(
    problem: Problem, coef: NDArray[np.float64], intercept: float, centre: Vector | None
) -> tuple[float, float]:
    """The same for few rows, in one call: what it takes is mostly what surrounds the sums."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    n, d = X.shape
    columns = d + 1 if problem.fit_intercept else d
    table, point = np.ones((n, columns)), np.empty(columns)
    ridge, point[:d] = np.full(columns, float(problem.penalty.l2)), coef
    if centre is not None:  # centred columns are further from being collinear
        np.subtract(X, centre, out=table[:, :d])
        ridge[d], point[d] = 0.0, intercept + float(centre @ coef)
    else:
        table[:] = X
    loss = problem.loss.code, problem.loss.epsilon
    offset = np.zeros(n)
    return kernels.newton_decrement(
        table, problem.targets, *loss, offset, ridge, point, _LEAST_RIDGE
    )


def _by_matrix(sums: RowSums, theta: Vector) -> tuple[float, float]:
    # every row of a logistic loss is curved: what is known of each row is not asked for
    point = None if sums.loss.code == LOG_LOSS else sums.at(theta)
    sample = _sample(sums, point)
    if sample is None:
        point = sums.at(theta) if point is None else point
        hessian = sums.hessian(point, exact=True)
    else:
        here = sample.at(theta)
        hessian = sample.hessian(here, exact=True)
        is_rare = _has_rare_columns(sample, here)
        if point is None:
            point, diagonal = evaluate(sums, theta, diagonal=is_rare)
        elif is_rare:
            diagonal = sums.diagonal(point)
        if is_rare:  # of other columns, a larger diagonal would hide that they are nearly collinear
            own = diagonal_of(hessian)
            np.copyto(own, diagonal, where=diagonal > _RARE * own)
    if not np.isfinite(point.gradient).all():
        return point.objective, np.inf
    return point.objective, 0.5 * _inverse_square(hessian, point.gradient)


def _sample(sums: RowSums, point: Evaluation | None) -> RowSums | None:
    """Rows enough for a Hessian, if they are less than half; None for all of them.

    Where a point is given, its rows without curvature do not count.
    """
    curved = sums.n
    if point is not None:
        curved = max(1, int(np.count_nonzero(sums.judged(point)[1])))
    wanted = _ROWS_PER_COLUMN * sums.columns * sums.n // curved
    return sums.sample(wanted, 0) if 2 * wanted < sums.n else None


def _inverse_square(hessian: Vector, gradient: Vector) -> float:
    """Product of the gradient with the solution of a linear system; the matrix is changed."""
    # columns of one unit, and a ridge far below what is asked for
    units = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(float).tiny))
    hessian *= units
    hessian *= units[:, None]
    diagonal_of(hessian)[:] += _LEAST_RIDGE
    scaled = gradient * units
    _, solution, failed = dposv(hessian.T, scaled, lower=1)
    if failed:  # rounding made it indefinite
        try:
            solution = np.linalg.solve(hessian, scaled)
        except np.linalg.LinAlgError:
            return np.inf
    return float(scaled @ solution)


def _has_rare_columns(sample: RowSums, point: Evaluation) -> bool:
    """Whether few rows of a sample make up the curvature of some column."""
    X, curvatures = sample.problem.X, sample.judged(point)[1]
    if sparse.issparse(X):
        return bool(np.bincount(X.indices, minlength=sample.d).min(initial=_FEW_ROWS) < _FEW_ROWS)
    squares = np.square(X if sample.centre is None else X - sample.centre) * curvatures[:, None]
    sums = squares.sum(axis=0)
    rows = sums * sums / np.maximum(np.einsum("ij,ij->j", squares, squares), np.finfo(float).tiny)
    return bool((rows < _FEW_ROWS).any())


# ---- many classes


def class_decrement(problem: SoftmaxProblem, coef: Any, intercepts: Any) -> tuple[float, float]:
    r"""Objective, and half of :math:`g^T H^{-1} g`: what a Newton step would gain on a parabola.

    The gradient g is that of all rows; H, the Hessian of a sample of 20 rows per column, is never
    formed. Conjugate gradients take at most 12 products with it, in columns that are whitened by
    what the classes share of their second derivatives; with more than 500 columns, in columns that
    are scaled.

    Cost: one pass over the rows, and some 20 over the sample.
    """
    sums = _class_sums(problem)
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


def _class_sums(problem: SoftmaxProblem) -> ClassSums:
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
    of_classes = 1.0 / np.maximum(shares, _LEAST_OF_CLASS)
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


# ---- from the objectives so far


def aitken_gap(marks: Sequence[tuple[int, float]]) -> float:
    """How far a falling sequence will still fall, from its values after some of the epochs.

    It uses the last value and those after about a half and a quarter as many epochs: if differences
    shrink by a factor r from one doubling to the next, r / (1 - r) times the last difference is
    left. That is exact for a sequence that falls as 1/k. The factor is at most 0.75, as for
    a fall as slow as k to the power of -0.4.

    Parameters
    ----------
    marks : sequence of tuple of int and float
        Epochs and values after them; the first is before the first epoch.

    Examples
    --------
    >>> aitken_gap([(0, 1.5), (1, 1.0), (2, 0.5), (4, 0.25)])
    0.25
    """
    last, value = marks[-1]
    earlier = [mark for mark in marks if 0 < 2 * mark[0] <= last]
    if len(earlier) < 2:
        earlier = [mark for mark in marks if mark[0] < last][-2:]
    if not earlier:
        return np.inf
    if len(earlier) < 2:
        return max(0.0, earlier[0][1] - value)
    (_, first), (middle, second) = earlier[-2:]
    doublings = max(1.0, float(np.log2(last / middle))) if middle else 1.0
    before, after = first - second, (second - value) / doublings
    if not after > 0.0:
        return 0.0
    ratio = min(after / before, _SLOWEST) if before > 0.0 else _SLOWEST
    return float(after * ratio / (1.0 - ratio))


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
    left = gradient.copy()
    direction, gained, before = solve(left), 0.0, 0.0
    length = float(left @ direction)
    for _ in range(_MOST_PRODUCTS):
        product = times(direction)
        curved = float(direction @ product)
        if not curved > 0.0:
            break
        step = length / curved
        more = 0.5 * step * length
        gained += more
        # as a rule, later steps gain less, and by about the same factor each
        if min(more, _still_to_gain(before, more)) <= _ENOUGH * gained:
            break
        before = more
        left -= step * product
        scaled = solve(left)
        longer = float(left @ scaled)
        direction *= longer / length
        direction += scaled
        length = longer
    return gained


def _still_to_gain(before: float, more: float) -> float:
    """What all further steps would gain, if each gains less by the factor of the last two."""
    return more * more / (before - more) if more < before else np.inf
