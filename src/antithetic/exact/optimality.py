r"""How far weights are from the optimum: two numbers that are zero there, and nowhere else.

The norm of the gradient mapping needs a loss without a kink. The duality gap bounds the objective's
distance from the optimum for every loss, but needs an L2 penalty. Both cost two passes over the
rows, in float64 even for float32 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import block_rows, check_coef, check_column, check_number
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.penalties import ElasticNet

# Keeps a dual variable, once divided by its weight, inside the conjugate's domain.
_WITHIN = 1.0 - 4.0 * float(np.finfo(np.float64).eps)


def gradient_mapping_norm(problem: Problem, coef: Any, intercept: Any = 0.0) -> float:
    r"""Euclidean norm of the gradient mapping, which is the gradient where there is no kink.

    It is :math:`G = \big(w - \mathrm{prox}_{\tau}(w - \tau \nabla s(w))\big) / \tau`.

    Here s is the mean loss with the quadratic part of the penalty, the proximal step is that of the
    other part, and :math:`\tau` is one over a bound on the curvature of s. The intercept's gradient
    is part of it.

    Parameters
    ----------
    problem : Problem
    coef : array-like of shape (d,)
    intercept : float, default=0.0

    Raises
    ------
    ValueError
        If the loss has a kink: no step then makes the norm small near the optimum.

    Examples
    --------
    >>> problem = Problem.build([[1.0], [-2.0]], [2.0, -4.0], loss="squared_error")
    >>> gradient_mapping_norm(problem, [2.0]), gradient_mapping_norm(problem, [3.0])
    (0.0, 2.5)
    """
    check_gradient(problem)
    with np.errstate(over="ignore", invalid="ignore"):
        return _mapping_norm(problem, coef, intercept)


def _mapping_norm(problem: Problem, coef: Any, intercept: Any) -> float:
    if isinstance(problem, SoftmaxProblem):
        return problem.gradient_norm(coef, intercept)
    w = check_coef(coef, problem.d).astype(np.float64)
    slopes = _weighted(
        problem,
        problem.loss.slope(
            problem.y, _predictions(problem, w) + check_number(intercept, "intercept")
        ),
    )
    gradient = mean_row(problem, slopes) + problem.penalty.smooth_gradient(w)
    mapping = gradient
    # Otherwise avoid the rounding of w - (w - step * gradient).
    if not isinstance(problem.penalty, ElasticNet) or problem.penalty.l1 > 0.0:
        step = _step(problem)
        mapping = (w - problem.penalty.nonsmooth_prox(w - step * gradient, step)) / step
    return float(np.hypot(np.linalg.norm(mapping), slopes.mean() if problem.fit_intercept else 0.0))


def duality_gap(problem: Problem, coef: Any, intercept: Any = 0.0, dual: Any = None) -> float:
    r"""Objective at the weights minus the dual objective at a.

    It is never negative, and at least the distance from the minimum.

    The dual objective is :math:`D(a) = -\frac1n \sum_i s_i \phi^*(-a_i / s_i) - r^*(X^T a / n)`.
    The gap is summed up from terms that are at least 0 by Fenchel and Young, one per row and one
    per weight, so it keeps its digits however small it is compared with the objective.

    Parameters
    ----------
    problem : Problem
        With an L2 penalty, possibly an L1 penalty, and no intercept.
    coef : array-like of shape (d,)
    intercept : float, default=0.0
        Must be 0.
    dual : array-like of shape (n,) or None
        Dual variables; None means minus the weighted slopes at ``coef``, the optimal ones at the
        optimum. Those of rows of weight zero count as zero.

    Returns
    -------
    float
        Infinite if a dual variable lies outside the domain of the loss's conjugate.

    Raises
    ------
    ValueError
        If the problem has an intercept, no L2 penalty, or a penalty other than L2 and L1.

    Examples
    --------
    >>> problem = Problem.build([[1.0], [-2.0]], [2.0, -4.0], loss="squared_error", l2=0.5)
    >>> duality_gap(problem, [5.0 / 3.0]) < 1e-15, duality_gap(problem, [0.0])
    (True, 25.0)
    """
    penalty = check_gap(problem, intercept)
    if isinstance(problem, SoftmaxProblem):  # with the dual variables that the weights lead to
        return problem.gradient_norm(coef, intercept) ** 2 / (2.0 * penalty.l2)
    w = check_coef(coef, problem.d).astype(np.float64)
    p = _predictions(problem, w)
    if dual is None:
        u = problem.loss.slope(problem.y, p)
    else:
        given = check_column(dual, problem.n, "dual")
        u = _slopes_of(problem, given)
    with np.errstate(over="ignore", invalid="ignore"):
        short = np.maximum(
            0.0, problem.loss.value(problem.y, p) + problem.loss.conjugate(problem.y, u) - p * u
        )
        rows = float(_weighted(problem, short).mean())
        v = -mean_row(problem, _weighted(problem, u))
        # r(w) + r*(v) - <w, v>, with v cut into what the L1 penalty takes up and what is left of it
        taken = np.clip(v, -penalty.l1, penalty.l1)
        left = penalty.l2 * w - (v - taken)
        gap = (
            rows
            + float(left @ left) / (2.0 * penalty.l2)
            + float(np.maximum(0.0, penalty.l1 * np.abs(w) - taken * w).sum())
        )
    return gap if gap >= 0.0 else np.inf  # NaN: infinite terms


def dual_objective(problem: Problem, dual: NDArray[np.float64], coef: NDArray[Any]) -> float:
    """D(a) of :func:`duality_gap`, a lower bound on the minimum, with an L2 penalty alone.

    Its cost is that of the n variables and d weights: the rows are not visited.

    Parameters
    ----------
    problem : Problem
    dual : ndarray of shape (n,)
    coef : ndarray of shape (d,)
        The weights that belong to the dual variables, ``X^T a / (n l2)``.

    Examples
    --------
    >>> problem = Problem.build([[1.0], [-2.0]], [2.0, -4.0], loss="squared_error", l2=0.5)
    >>> round(dual_objective(problem, np.array([1.0, -1.0]), np.array([3.0])), 12)
    0.25
    """
    cost = _weighted(problem, problem.loss.conjugate(problem.y, _slopes_of(problem, dual)))
    weights = np.asarray(coef, np.float64)
    return -float(cost.mean()) - 0.5 * problem.penalty.l2 * float(weights @ weights)


def _slopes_of(problem: Problem, dual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slopes whose weighted negatives are the dual variables."""
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    return -_WITHIN * np.divide(dual, weight, out=np.zeros(problem.n), where=weight > 0.0)


def check_gradient(problem: Problem) -> None:
    """Raise ValueError for a problem whose gradient does not vanish, and say what else to use."""
    if not problem.loss.is_smooth:
        raise ValueError(
            f'loss "{problem.loss.name}" has a kink, so its gradient does not vanish at the'
            ' optimum; use the "gap" (with an L2 penalty and no intercept) or the "objective"'
        )


def check_gap(problem: Problem, intercept: Any = 0.0) -> ElasticNet:
    """Penalty of a problem that has a duality gap, or an error that says what else to use."""
    smooth = problem.loss.is_smooth
    other = 'the "gradient" or the "objective"' if smooth else 'the "objective"'
    penalty: object = problem.penalty
    constants = (
        np.any(intercept) if problem.loss.has_classes else check_number(intercept, "intercept")
    )
    if problem.fit_intercept or constants:
        raise ValueError(
            "the duality gap is infinite with an intercept that is not penalised: use"
            f" fit_intercept=False, or add a column of ones, or {other}"
        )
    if not isinstance(penalty, ElasticNet):
        raise ValueError(
            f"the duality gap is known for L2 and L1 penalties only; got {type(penalty).__name__}:"
            f" use {other}"
        )
    if penalty.l2 == 0.0:
        raise ValueError(
            f"the duality gap needs an L2 penalty above 0, alone or with L1; use {other}"
        )
    return penalty


def _step(problem: Problem) -> float:
    """One over a bound on the curvature of the smooth part; 1 where it is flat."""
    bound = problem.row_curvature()
    return 1.0 / bound if 0.0 < bound < np.inf else 1.0


def _weighted(problem: Problem, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if problem.weight is None:
        return values
    # An infinite loss of weight 0 counts as 0.
    return np.multiply(values, problem.weight, out=np.zeros(problem.n), where=problem.weight > 0.0)


def _predictions(problem: Problem, w: NDArray[np.float64]) -> NDArray[np.float64]:
    if sparse.issparse(problem.X) or problem.X.dtype == np.float64:
        predictions: NDArray[np.float64] = problem.X @ w
        return predictions
    return np.concatenate([problem.X[part] @ w for part in _blocks(problem)])


def mean_row(problem: Problem, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the rows times their shares, in float64."""
    if sparse.issparse(problem.X) or problem.X.dtype == np.float64:
        product: NDArray[np.float64] = problem.X.T @ shares
        return product / problem.n
    mean = np.zeros(problem.d)
    for part in _blocks(problem):
        mean += shares[part] @ problem.X[part]
    return mean / problem.n


def _blocks(problem: Problem) -> list[slice]:
    """Parts of float32 rows: a product with float64 would make a copy of all of them at once."""
    block = block_rows(problem.X)
    return [slice(start, start + block) for start in range(0, problem.n, block)]
