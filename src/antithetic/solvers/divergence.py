"""What happens when steps are too long: an error that says so, with advice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from antithetic._core.schedules import step_size
from antithetic.problem import Problem
from antithetic.problem.overflow import DivergenceError, overflow_message
from antithetic.solvers.state import Solution, State
from antithetic.solvers.steps import Schedule

__all__ = ["DivergenceError", "advice", "check_finite", "overflow_message"]

_SHORTER = 0.1  # steps to try, relative to those that were too long


def check_finite(problem: Problem, state: State, schedule: Schedule) -> None:
    """Raise DivergenceError, with advice, unless the weights and their squared norm are finite."""
    if are_finite((state.coef, state.intercept)):
        return
    raise DivergenceError(
        overflow_message(state.epochs, f"the steps diverged. {advice(problem, schedule)} ")
    )


def advice(problem: Problem, schedule: Schedule) -> str:
    """Return what to try if steps are too long: shorter ones, or smaller features."""
    safe = 1.0 / max(problem.row_curvature(), np.finfo(np.float64).tiny)
    first = step_size(*schedule, 0, 0)
    # a few long rows may need shorter steps than a mean row
    shorter = min(safe, _SHORTER * first)
    if shorter > 0.0:
        return f"The first step was {first:.3g}; try {shorter:.2g} or less."
    return (
        f"The first step was {first:.3g}, and no step is short enough: the squares of the features"
        " overflow. Bring the features to a size near 1."
    )


def are_finite(*solutions: Solution) -> bool:
    """Whether the squared norm of weights, and an intercept or one per class, are finite."""
    for coef, intercept in solutions:
        square = np.vdot(coef, coef)  # unlike @ it does not warn of an overflow
        if not (math.isfinite(square) and np.isfinite(intercept).all()):
            return False
    return True


def finite_objective(problem: Problem, coef: np.ndarray, intercept: Any) -> float:
    """Objective of some weights; infinite, without an error, if it or they are not finite."""
    if not are_finite((coef, intercept)):
        return np.inf
    with np.errstate(all="ignore"):
        value = problem.objective_of(coef, intercept)
    return value if math.isfinite(value) else np.inf
