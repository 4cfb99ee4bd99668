"""Fits of squared errors from one visit to the rows, if nothing watches the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from antithetic.estimators.callbacks import is_observed
from antithetic.estimators.data import TrainingData, needs_no_conversion
from antithetic.estimators.jobs import Job, Seen, showing
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.state import State
from antithetic.training.gap import Gap
from antithetic.training.loop import Run
from antithetic.training.spec import Spec
from antithetic.training.stopping import Target

if TYPE_CHECKING:
    from antithetic.estimators.base import LinearSGD
    from antithetic.solvers.newton.squares import Squares


def can_be_squares(estimator: LinearSGD) -> bool:
    """Whether parameters ask for the minimum of squared errors, and for nothing on the way."""
    penalty = estimator._penalty(1) if estimator.penalty == "l2" else None
    is_ridge = isinstance(penalty, ElasticNet) and penalty.l2 > 0.0
    if not (is_ridge and estimator.solver == "newton" and estimator.loss == "squared_error"):
        return False
    if estimator.trace is not None or estimator.early_stopping or estimator.warm_start:
        return False
    if estimator.stopping != "objective" and not (
        estimator.stopping == "gap" and not estimator.fit_intercept
    ):
        return False
    is_watched = is_observed(estimator) or hasattr(estimator, "_parent_callback_ctx")
    return estimator._order() is None and not (estimator.verbose or is_watched)


def checked_squares(X: Any, y: Any, *, fit_intercept: bool) -> Squares | None:
    """Sums of rows without weights that scikit-learn's checks would leave unchanged.

    None where they would not, and in doubt.
    """
    if not needs_no_conversion(X, y):
        return None
    from antithetic.solvers.newton.squares import sum_squares  # few fits need Newton's method

    return sum_squares(X, y, None, fit_intercept=fit_intercept)


def squares_job(
    estimator: LinearSGD, data: TrainingData, squares: Squares | None, began: float
) -> Job | None:
    """Fit, and return a job that is done; None where a more careful method has to.

    Its history has one entry for each visit to the rows that led to weights.
    """
    from antithetic.solvers.newton.squares import corrected_minimum, sum_squares, vouched_minimum

    stop, most = estimator._stop(), int(estimator.max_iter)
    (n, d), intercept = data.X.shape, bool(estimator.fit_intercept)
    if squares is None:
        squares = sum_squares(data.X, data.y, data.weight, fit_intercept=intercept)
    if squares is None:
        return None
    target = stop.tol if isinstance(stop, Target) else None
    point = vouched_minimum(squares, estimator._penalty(d).l2, fit_intercept=intercept)
    if point is None:
        points = corrected_minimum(squares, estimator._problem(data, 0), target)
    else:
        points = [point] if target is None or point.gap <= target else None
    if points is None or len(points) > most:
        return None
    gaps = np.array([one.gap for one in points])
    history = {
        "epoch": np.arange(1, len(points) + 1),
        "objective": np.array([one.objective for one in points]),
        **({} if target is None else {"gap": gaps}),
        "seconds": np.array([one.moment for one in points]) - began,
    }
    solution, many = (points[-1].coef, points[-1].intercept), len(points)
    state = State(*solution, many, many * n, many)
    seen = Seen(showing(solution), state, None, None, history, True)
    return Job(_never, solution, most, began, seen, Gap(float(gaps[-1]), np.nan))


def _never() -> tuple[Spec, Run]:
    raise RuntimeError("this job is done already")
