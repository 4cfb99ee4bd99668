"""One visit to the rows: losses, the gradient, and what else a caller asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from antithetic.exact.sums import Evaluation, Vector

if TYPE_CHECKING:
    from antithetic.exact.row_sums import RowSums

_Totals = tuple[float, float, float, float]
_NOTHING = np.empty(0)


def visit(
    sums: RowSums,
    theta: Vector,
    predictions: Vector = _NOTHING,
    slopes: Vector = _NOTHING,
    curvatures: Vector = _NOTHING,
    moments: Vector = _NOTHING,
) -> tuple[_Totals, Vector]:
    """Sums of losses, slopes, their squares and curvatures, and the mean gradient of the losses.

    What is known of each row is written into the columns that are given, and into ``moments`` of
    shape (2 d,) the sums of the columns and of their squares, weighted by the curvatures.
    """
    coef, intercept = sums.split(theta)
    gradient = np.empty(len(theta))
    totals = sums.problem.rows.evaluate(
        sums.problem.targets,
        sums.loss.code,
        sums.loss.epsilon,
        np.ascontiguousarray(coef),
        intercept,
        slopes,
        curvatures,
        predictions,
        gradient[: sums.d],
        moments,
        sums.threads,
    )
    sums.average(gradient, totals[1])
    return totals, gradient


def evaluation(sums: RowSums, theta: Vector, totals: _Totals, gradient: Vector) -> Evaluation:
    """What a visit has found, with the penalty, which is added to the gradient."""
    (loss, _, square, curvature), l2 = totals, sums.penalty.l2
    objective, coef = loss / sums.n, theta[: sums.d]
    if l2:
        gradient[: sums.d] += l2 * coef
        objective += 0.5 * l2 * float(coef @ coef)
    noise = square / curvature if curvature > 0.0 else 0.0
    return Evaluation(theta, objective, gradient, noise)


def evaluate(sums: RowSums, theta: Vector, *, diagonal: bool) -> tuple[Evaluation, Vector]:
    """Objective and gradient and, if asked for, the diagonal of the Hessian, in one pass.

    Nothing is kept of each row, whose memory takes as long to get as a third of the pass. Without a
    diagonal, the second vector is empty.
    """
    moments = np.empty(2 * sums.d if diagonal else 0)
    totals, gradient = visit(sums, theta, moments=moments)
    point = evaluation(sums, theta, totals, gradient)
    if not diagonal:
        return point, moments
    squares = sums.centred_squares(moments[: sums.d], moments[sums.d :], totals[3]) / sums.n
    squares[: sums.d] += sums.penalty.l2
    return point, squares
