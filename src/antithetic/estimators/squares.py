"""Fits of squared errors from one visit to the rows, if nothing watches the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from antithetic.estimators.callbacks import is_observed
from antithetic.estimators.data import TrainingData, needs_no_conversion
from antithetic.estimators.jobs import Job, Seen, showing
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.state import State
from antithetic.training.loop import Patience, Run
from antithetic.training.spec import Spec
from antithetic.training.stopping import Stop, Target

if TYPE_CHECKING:
    from antithetic.estimators.base import LinearSGD
    from antithetic.solvers.newton.squares import Squares, SquaresPoint


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
    """Fit, and return a job that is done; None where a more careful method has to."""
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
    entries, is_over = _epochs(points, stop, most, began)
    solution, many = (points[-1].coef, points[-1].intercept), len(entries)
    state = State(*solution, many, many * n, many)
    history = {name: np.array([entry[name] for entry in entries]) for name in entries[0]}
    seen = Seen(showing(solution), state, None, None, history, is_over)
    return Job(_never, solution, most, began, seen)


def _epochs(
    points: list[SquaresPoint], stop: Stop, most: int, began: float
) -> tuple[tuple[dict[str, float], ...], bool]:
    """What is recorded of each epoch, and whether the stopping rule ended them.

    After the last point, epochs change nothing.
    """
    entries: list[dict[str, float]] = []
    patience, is_over = Patience(), False
    while len(entries) < most and not is_over:
        point = points[min(len(entries), len(points) - 1)]
        entry = {"epoch": len(entries) + 1, "objective": point.objective}
        if isinstance(stop, Target):
            entry["gap"], is_over = point.gap, point.gap <= stop.tol
        elif stop is not None:
            patience = patience.after(point.objective, stop)
            is_over = patience.stopped
        entry["seconds"] = point.moment - began
        entries.append(entry)
    return tuple(entries), is_over


def _never() -> tuple[Spec, Run]:
    raise RuntimeError("this job is done already")
