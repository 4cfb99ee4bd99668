"""The minimum of the objective and where it is, with a bound on its error."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from antithetic.estimators.logistic import LogisticRegression
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.optimality import duality_gap
from antithetic.training.minimize import minimize

RELATIVE_ERROR = 1e-10  # of f(0) - f*: what is asked for
_LEAST_ERROR = 1e-18  # of a logistic objective: rounding allows no more digits
_EPOCHS_AT_ONCE = 200
_MOST_COLUMNS = 2000  # of a matrix of second derivatives
_WIDTHS = 10.0 ** np.arange(-9.0, -1.0)  # how near the kink a margin is taken to be at it


class Optimum(NamedTuple):
    """Minimum, by how much it may be too large at most, and its weights."""

    value: float
    error: float
    coef: NDArray[np.float64]


def find_optimum(problem: Problem, *, seconds: float = 20.0) -> Optimum:
    """Minimise a logistic, softmax, squared or hinge loss with an L2 penalty.

    The last for at most so many seconds.
    """
    if problem.loss.name == "hinge":
        return _least_hinge(problem, seconds)
    if problem.loss.name == "squared_error":
        return _least_squares(problem)
    if isinstance(problem, SoftmaxProblem) or problem.d > _MOST_COLUMNS:
        return _least_by_estimator(problem)
    return _least_logistic(problem)


def _strongly_convex(problem: Problem, w: NDArray[np.float64]) -> Optimum:
    """The objective at w; its error is at most |gradient|^2 / (2 l2)."""
    gradient = problem.gradient(w)[0]
    error = float(gradient @ gradient) / (2.0 * problem.penalty.l2)
    return Optimum(problem.objective(w), error, w)


def _least_by_estimator(problem: Problem) -> Optimum:
    """Our own logistic regression to the last digits, with a bound that does not depend on it."""
    model = LogisticRegression(
        C=1.0 / (problem.penalty.l2 * problem.n), fit_intercept=False, tol=1e-15, max_iter=10_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound below says how near it is
        model.fit(problem.X, problem.y)
    return _strongly_convex(problem, model.coef_.ravel())


def _least_squares(problem: Problem) -> Optimum:
    """The normal equations, solved twice: the second time for what rounding has left."""
    X, l2 = problem.X, problem.penalty.l2
    gram = X.T @ X
    hessian = (gram.toarray() if sparse.issparse(gram) else gram) / problem.n
    factor = cho_factor(hessian + l2 * np.eye(problem.d))
    w = np.zeros(problem.d)
    for _ in range(3):
        w = w - cho_solve(factor, problem.gradient(w)[0])
    return _strongly_convex(problem, w)


def _least_logistic(problem: Problem) -> Optimum:
    """L-BFGS, then Newton's method.

    The objective is l2-strongly convex, so |gradient|^2 / (2 l2) bounds the error.
    """
    options = {"maxcor": 10, "ftol": 1e-16, "gtol": 1e-4, "maxiter": 20_000}

    def value_and_gradient(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        return problem.objective(w), problem.gradient(w)[0]

    w = scipy_minimize(
        value_and_gradient, np.zeros(problem.d), jac=True, method="L-BFGS-B", options=options
    ).x
    norm = float(np.linalg.norm(problem.gradient(w)[0]))
    while norm**2 / (2.0 * problem.penalty.l2) > _LEAST_ERROR:
        nearer = w - _newton_step(problem, w)
        shorter = float(np.linalg.norm(problem.gradient(nearer)[0]))
        if not shorter < norm:
            break
        w, norm = nearer, shorter
    return Optimum(problem.objective(w), norm**2 / (2.0 * problem.penalty.l2), w)


def _newton_step(problem: Problem, w: NDArray[np.float64]) -> NDArray[np.float64]:
    share = expit(problem.predictions(w))
    curvature = share * (1.0 - share) / problem.n
    # The sets of the paper have few features.
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    hessian = X.T @ (X * curvature[:, None]) + problem.penalty.l2 * np.eye(problem.d)
    return np.asarray(np.linalg.solve(hessian, problem.gradient(w)[0]))


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
