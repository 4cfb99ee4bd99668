r"""Bounds on how far the objective is from its minimum.

**From a step.** Let :math:`\delta` be a step from :math:`w`, and :math:`v_i` the slope of row i
that the quadratic model at :math:`w` expects at its end, :math:`\phi_i' + \phi_i'' \langle x_i,
\delta \rangle`, cut to what the loss allows. For *any* slopes :math:`v` that the loss allows and
whose weighted sum over the rows is zero if there is an intercept, with :math:`u = \frac1n \sum_i
s_i v_i x_i`, Fenchel's inequality gives

.. math:: f(w) - f^* \le \frac1n \sum_i s_i \bigl(\phi_i(p_i) + \phi_i^*(v_i) - v_i p_i\bigr)
          + r(w) + r^*(-u) + \langle w, u \rangle.

All terms are sums of numbers that are not negative, so no digits cancel. With the Hessian of all
rows, :math:`-u` is the gradient of the penalty at :math:`w + \delta`, and the bound is the gap
itself up to the third order of the step. With that of a sample it is looser, and still a bound.

**At a point.** The same with the slopes at :math:`w` themselves, for a point that no step has left
yet.
"""

from __future__ import annotations

import numpy as np

from antithetic.exact.sums import Evaluation, Sums, Vector, Visit
from antithetic.problem.penalties import Penalty

_CLOSE = 2.0  # times what is allowed: a rough bound above it is not worth the exact one


def gap_of_start(
    sums: Sums, point: Evaluation, visit: Visit, allowed: float
) -> tuple[float, float]:
    """Return a bound on the gap at the start of a step, and an estimate of that bound.

    The bound is infinite if the estimate, which takes no further sums over the rows, is far above
    what is allowed.

    Parameters
    ----------
    sums : Sums
        Whose penalty has an L2 or an L1 part.
    point : Evaluation
        The start.
    visit : Visit
        To the end of the step.
    allowed : float
        Distance from the minimum that is of interest.
    """
    l2, coef = sums.penalty.l2, point.theta[: sums.d]
    estimate = _penalty_gap(sums.penalty, coef, visit.expected[: sums.d])[0] + 0.5 * visit.square
    is_costly = point.scores is None  # elsewhere, so that a cost may be another visit
    if (l2 > 0.0 or is_costly) and not estimate <= _CLOSE * allowed:
        return np.inf, estimate
    bound = np.inf
    for restored in sums.dual_points(point, visit):
        of_penalty, kept = _penalty_gap(sums.penalty, coef, restored.gradient)
        bound = of_penalty + sums.restored_cost(point, visit, restored, kept)
        if bound < np.inf:
            break
    return bound, max(bound, estimate)


def _penalty_gap(penalty: Penalty, coef: Vector, gradient: Vector) -> tuple[float, float]:
    """Return what the penalty adds to a bound, and what all slopes are multiplied by for it."""
    l1, toward = penalty.l1, -gradient
    if penalty.l2 > 0.0:
        return _elastic_gap(coef, toward, l1, penalty.l2), 1.0
    # the dual of L1 alone is finite only if no entry exceeds l1
    largest = float(np.abs(toward).max(initial=0.0))
    kept = min(1.0, l1 / largest) if largest > 0.0 else 1.0
    return float(l1 * np.abs(coef).sum() - kept * (toward @ coef)), kept


def quick_gap(sums: Sums, point: Evaluation) -> float:
    """Estimate what :func:`certified_gap` will be; no sums over the rows are needed."""
    penalty, d = sums.penalty, sums.d
    coef = point.theta[:d]
    of_penalty, kept = _penalty_gap(penalty, coef, point.gradient[:d] - penalty.l2 * coef)
    return of_penalty + (1.0 - kept) * abs(point.objective)  # about what smaller slopes cost


def certified_gap(sums: Sums, point: Evaluation) -> float:
    """Bound on the objective's distance from its optimum; infinite without a penalty."""
    penalty, coef = sums.penalty, point.theta[: sums.d]
    if penalty.l2 == 0.0 and penalty.l1 == 0.0:
        return np.inf
    dual = sums.dual(point)
    toward = -dual.gradient
    if penalty.l2 > 0.0:
        return dual.cost + _elastic_gap(coef, toward, penalty.l1, penalty.l2)
    # the dual of L1 alone is finite only where no entry exceeds l1
    largest = float(np.abs(toward).max(initial=0.0))
    kept = min(1.0, penalty.l1 / largest) if largest > 0.0 else 1.0
    cost = sums.dual_cost(point, dual.up * kept, dual.down * kept)
    return cost + float(penalty.l1 * np.abs(coef).sum() - kept * (toward @ coef))


def _elastic_gap(coef: Vector, toward: Vector, l1: float, l2: float) -> float:
    r""":math:`r(w) + r^*(v) - \langle w, v\rangle`, as a sum of terms that are not negative."""
    if l1 == 0.0:
        apart = l2 * coef - toward
        return float(apart @ apart) / (2.0 * l2)
    beyond = np.maximum(0.0, np.abs(toward) - l1)
    sign = np.sign(toward)
    apart = l2 * coef - sign * beyond
    # where |v| <= l1 the point of the dual is zero, and the straight part costs l1 |w| - v w
    along = np.where(beyond > 0.0, l1 * sign, toward) * coef
    return float(apart @ apart) / (2.0 * l2) + float((l1 * np.abs(coef) - along).sum())
