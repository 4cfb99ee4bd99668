"""Objective and gradient of rows of which nothing is kept, as machines send them to each other."""

from __future__ import annotations

import numpy as np

from antithetic.problem.curvature import RowSums
from antithetic.problem.sums import Vector

_NOTHING = np.empty(0)


def row_totals(sums: RowSums, theta: Vector) -> tuple[Vector, Vector]:
    """Means over rows at some weights, and the gradient: one pass over the rows.

    The means are those of the losses, the squared slopes, the curvatures and, with an intercept,
    of the slopes above and below zero. :meth:`RowSums.at` says as much, but writes two numbers for
    each row, whose memory takes a task as long to get as a third of the pass.
    """
    problem, loss = sums.problem, sums.loss
    coef, intercept = sums.split(theta)
    slopes = np.empty(sums.n) if sums.fit_intercept else _NOTHING
    gradient = np.empty(len(theta))
    total, slope, square, curvature = problem.rows.evaluate(
        problem.targets,
        loss.code,
        loss.epsilon,
        np.ascontiguousarray(coef),
        intercept,
        slopes,
        _NOTHING,
        _NOTHING,
        gradient[: sums.d],
        sums.threads,
    )
    sums._average(gradient, slope)
    up, down = np.maximum(slopes, 0.0).sum(), -np.minimum(slopes, 0.0).sum()
    return np.array([total, square, curvature, up, down]) / sums.n, gradient
