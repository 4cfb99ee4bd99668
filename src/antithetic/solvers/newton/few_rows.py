"""A whole fit of few rows in one call: what surrounds the sums would take longer than they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from antithetic._core import kernels
from antithetic._util.validation import Matrix
from antithetic.exact.certificate import certified_gap
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Vector
from antithetic.problem.penalties import Penalty
from antithetic.solvers.newton.goal import FEW_ROWS, FREE_ITERATIONS, Goal

_MOST_COLUMNS = 128  # of a Hessian that BLAS would not form any faster


class ProvedPoint(NamedTuple):
    """Where the objective is proved to be small enough.

    Attributes
    ----------
    theta : ndarray of shape (d,) or (d + 1,)
        Weights, then the intercept of centred columns if there is one.
    gap : float
        Bound on the distance from the optimum, in units of that of the best constant.
    iterations : int
    """

    theta: Vector
    gap: float
    iterations: int


def are_few_rows(X: Matrix, penalties: Sequence[Penalty]) -> bool:
    """Whether one call may do for a logistic loss: few rows and columns, and an L2 penalty."""
    n, d = X.shape
    return n < FEW_ROWS and 0 < d <= _MOST_COLUMNS and all(p.l1 == 0.0 < p.l2 for p in penalties)


def solve_few_rows(
    sums: RowSums, penalties: Sequence[Penalty], tol: float, max_iter: int, start: Vector | None
) -> list[ProvedPoint] | None:
    """Minimise with each of several penalties, each from the weights of the one before.

    None where a gap is not proved to be small enough, as where rounding matters: one call has too
    little care for that.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0], [0.5]], [1, -1, -1], l2=0.1)
    >>> found = solve_few_rows(RowSums(problem, None), [problem.penalty], 1e-6, 100, None)
    >>> found[0].gap <= 1e-10
    True
    """
    table, (constant, loss) = _table(sums), sums.constant()
    goal = Goal.of(sums.with_penalty(penalties[0]), tol, loss)
    theta, found = np.zeros(sums.columns) if start is None else start.copy(), []
    if start is None:
        theta[sums.d :] = constant
    for penalty in penalties:
        objective, distance, iterations, is_reached = kernels.minimise_table(
            table,
            sums.problem.targets,
            penalty.l2,
            sums.fit_intercept,
            goal.zero_objective,
            min(goal.gap(0), goal.settled / max(loss, goal.least_unit)),
            goal.least_unit,
            min(goal.rounding, goal.settled),
            min(max_iter, FREE_ITERATIONS),
            theta,
        )
        if is_reached and (sums.centre is not None or sums.is_single):
            theta = as_given_back(sums, theta)
            penalised = sums.with_penalty(penalty)
            point = penalised.at(theta)
            objective, distance = point.objective, certified_gap(penalised, point)
            is_reached = goal.is_met(objective, distance, is_rounded=True)
        if not is_reached:
            return None
        found.append(ProvedPoint(theta.copy(), goal.share(objective, distance), iterations))
    return found


def as_given_back(sums: RowSums, theta: Vector) -> Vector:
    """Weights as the user gets them.

    The intercept of columns far from zero is rounded, and weights of float32 rows are float32.
    """
    coef, intercept = sums.split(theta)
    kind = sums.problem.X.dtype.type
    return sums.join(coef.astype(kind), float(kind(intercept)))


def _table(sums: RowSums) -> Vector:
    """Dense rows of float64, of centred columns and a column of ones if there is an intercept."""
    X, centre = sums.problem.X, sums.centre
    if centre is None and isinstance(X, np.ndarray):
        return np.ascontiguousarray(X, dtype=np.float64)
    table = np.empty((sums.n, sums.columns))
    none = np.empty(0)
    sums.problem.rows.weigh_rows(np.ones(sums.n), none if centre is None else centre, 0, table, 1)
    return table
