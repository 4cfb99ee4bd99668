"""The minimum of an objective, and how well it is known."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from antithetic.orders import Balanced
from antithetic.paper.scales import column_scales, rescale
from antithetic.problem import Problem
from antithetic.problem.certificate import certified_gap
from antithetic.solvers import DivergenceError
from antithetic.solvers.newton import solve_problem, sums_of
from antithetic.training.minimize import minimize

_TOL, _MOST_ITERATIONS = 1e-10, 300
_LONG_RUN = 100  # epochs, at least, of the runs that look for the minimum of a loss with a kink


class Minimum(NamedTuple):
    """The smallest objective that was found.

    Attributes
    ----------
    value : float
    error : float
        How far it can be above the minimum at most; infinite where that is not known.
    seconds : float
        What finding it took.
    newton : bool
        Whether Newton's method found it, which needs no step size and no scaling.
    """

    value: float
    error: float
    seconds: float
    newton: bool

    def lowered_to(self, value: float) -> Minimum:
        """The smaller of this and another objective; the bound below stays where it is."""
        fall = max(0.0, self.value - value)
        return self._replace(value=self.value - fall, error=max(0.0, self.error - fall))


def find_minimum(problem: Problem, y: Any, epochs: int) -> Minimum:
    """Minimise by Newton's method, with a bound on the error, or by long runs.

    Newton's method needs a loss without a kink, the bound also a penalty.

    Parameters
    ----------
    problem : Problem
        With an L2 penalty or none.
    y : array-like of shape (n,)
        Labels or targets as they were given.
    epochs : int
        Of the runs that the minimum is compared with; long ones have five times as many.
    """
    began = time.perf_counter()
    if not problem.loss.is_smooth:
        return Minimum(_long_runs(problem, y, epochs), np.inf, time.perf_counter() - began, False)
    solved = solve_problem(problem, tol=_TOL, max_iter=_MOST_ITERATIONS)
    seconds = time.perf_counter() - began
    value, error = problem.objective(solved.coef, solved.intercept), np.inf
    if solved.certified:
        sums = sums_of(problem)
        error = certified_gap(sums, sums.at(sums.join(solved.coef, solved.intercept)))
        # the dual's bound may be the smaller one; gaps are in units of the constant's distance
        error = min(error, solved.gap * max(0.0, sums.constant()[1] - value + error))
    return Minimum(value, error, seconds, True)


def _long_runs(problem: Problem, y: Any, epochs: int) -> float:
    """Smallest objective of long runs, two on the columns as they are and one on scaled ones.

    Where scales are very different, only the latter comes near the minimum.
    """
    given: dict[str, Any] = {
        "loss": problem.loss,
        "l2": problem.penalty.l2,
        "fit_intercept": problem.fit_intercept,
        "order": Balanced(),
        "epochs": max(_LONG_RUN, 5 * epochs),
    }
    found = []
    for solver in ("sgd", "svrg"):
        with suppress(DivergenceError, ValueError):  # svrg does not take every loss
            run = minimize(problem.X, y, solver=solver, trace="objective", **given)
            found.append(float(run.trace["objective"].min()))
    if problem.fit_intercept:
        scaled = rescale(problem.X, column_scales(problem.X))
        with suppress(DivergenceError, ValueError):
            run = minimize(scaled.X, y, **given)
            found.append(problem.objective(*scaled.undo(run.coef, run.intercept)))
    return min(found, default=np.inf)
