"""The minimum of the objective and where it is, with a bound on its error."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from antithetic.estimators.logistic import LogisticRegression
from antithetic.exact.optimality import duality_gap
from antithetic.exact.path import solve_problem
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.stochastic.minimize import minimize

RELATIVE_ERROR = 1e-10  # of f(0) - f*: what is asked for
_TOL, _MOST_ITERATIONS = 1e-16, 10_000  # all digits that rounding allows
_EPOCHS_AT_ONCE = 200
_WIDTHS = 10.0 ** np.arange(-9.0, -1.0)  # how near the kink a margin is taken to be at it


class Optimum(NamedTuple):
    """Minimum, by how much it may be too large at most, and its weights."""

    value: float
    error: float
    coef: NDArray[np.float64]


def find_optimum(problem: Problem, *, seconds: float = 20.0) -> Optimum:
    """Minimise a logistic, softmax, squared or hinge loss with an L2 penalty, without intercept.

    The hinge loss is minimised for at most so many seconds.
    """
    if problem.loss.name == "hinge":
        return _least_hinge(problem, seconds)
    coef = _softmax_weights(problem) if isinstance(problem, SoftmaxProblem) else _weights(problem)
    # The objective is l2-strongly convex: this bound does not depend on how the weights were found.
    gradient = problem.gradient(coef)[0]
    error = float(gradient @ gradient) / (2.0 * problem.penalty.l2)
    return Optimum(problem.objective(coef), error, coef)


def _weights(problem: Problem) -> NDArray[np.float64]:
    solved = solve_problem(problem, tol=_TOL, max_iter=_MOST_ITERATIONS)
    return np.asarray(solved.coef[0])


def _softmax_weights(problem: Problem) -> NDArray[np.float64]:
    strength = 1.0 / (problem.penalty.l2 * problem.n)
    model = LogisticRegression(C=strength, fit_intercept=False, tol=_TOL, max_iter=_MOST_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound says how near it is
        model.fit(problem.X, problem.y)
    return np.asarray(model.coef_.ravel())


def _least_hinge(problem: Problem, seconds: float) -> Optimum:
    """SDCA, and now and then a guess at which margins are at the kink.

    The duality gap bounds the error.
    """
    end, at_zero, result = time.monotonic() + seconds, problem.loss_at_zero(), None
    best = Optimum(at_zero, np.inf, np.zeros(problem.d))
    epochs = 0
    while best.error > RELATIVE_ERROR * (at_zero - best.value) and (
        epochs == 0 or time.monotonic() < end
    ):
        epochs += _EPOCHS_AT_ONCE
        given: dict[str, Any] = {
            "loss": "hinge",
            "l2": problem.penalty.l2,
            "solver": "sdca",
            "order": "shuffle",
            "batch_size": 1,
        }
        result = minimize(problem.X, problem.y, **given, epochs=epochs, resume=result)
        gap = duality_gap(problem, result.coef, dual=result.run.own.values)
        found = [Optimum(problem.objective(result.coef), gap, result.coef)]
        found += [_at_the_kink(problem, result.coef, width) for width in _WIDTHS]
        best = min((best, *found), key=lambda optimum: optimum.error)
    return best


def _at_the_kink(problem: Problem, w: NDArray[np.float64], width: float) -> Optimum:
    r"""Solve as if exactly the margins within a width of 1 were at the kink.

    Rows beyond it have dual variables 0 or 1, so that :math:`w = \frac{1}{l_2 n} \sum_i a_i z_i`
    and :math:`\langle w, z_i\rangle = 1` at the kink are linear equations in the others. If the
    guess was right this is the optimum to the last digits, else the gap says so.
    """
    Z = (problem.X.toarray() if sparse.issparse(problem.X) else problem.X) * problem.y[:, None]
    slack, scale = 1.0 - Z @ w, problem.penalty.l2 * problem.n
    a, there = (slack > width).astype(np.float64), np.abs(slack) <= width
    # Far from the optimum, or too many ties to solve for.
    if np.count_nonzero(there) > 4 * problem.d + 100:
        return Optimum(np.inf, np.inf, w)
    at_it = Z[there]
    a[there] = np.clip(
        np.linalg.lstsq(at_it @ at_it.T, scale - at_it @ (Z.T @ a), rcond=None)[0], 0.0, 1.0
    )
    coef = Z.T @ a / scale
    return Optimum(problem.objective(coef), duality_gap(problem, coef, dual=a * problem.y), coef)
