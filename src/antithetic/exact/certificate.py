r"""A bound on how far the objective is from its optimum, from the gradient and dual variables.

With slopes :math:`u` that are allowed (they sum to zero where there is an intercept) and :math:`v =
-\frac1n \sum_i u_i x_i`, the gap is at most what the slopes cost plus :math:`r(w) + r^*(v) -
\langle w, v \rangle`. It always holds, up to rounding; it needs a penalty.
"""

from __future__ import annotations

import numpy as np

from antithetic.exact.sums import Evaluation, Sums, Vector


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
