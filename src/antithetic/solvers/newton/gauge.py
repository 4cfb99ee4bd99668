r"""The same number added to a weight of every class changes no probability, only the penalty.

So along these directions the best weights are known without a visit to the rows: for each column,
the number :math:`c` that minimises :math:`\sum_k l_1 |w_k - c| + \frac{l_2}2 (w_k - c)^2`.
"""

from __future__ import annotations

import numpy as np

from antithetic.exact.sums import ClassedSums, Evaluation, Vector


def best_shift(coef: Vector, l1: float, l2: float) -> Vector:
    """What to subtract from each column of weights, of shape (classes, features).

    Examples
    --------
    >>> import numpy as np
    >>> best_shift(np.array([[0.0, 5.0], [1.0, 6.0], [5.0, 7.0]]), 1.0, 0.0).tolist()
    [1.0, 6.0]
    """
    if l1 == 0.0:
        return np.asarray(coef.mean(axis=0))
    classes, ordered = len(coef), np.sort(coef, axis=0)
    if l2 == 0.0:  # any number between the two middle ones; either makes a weight exactly zero
        low, high = ordered[(classes - 1) // 2], ordered[classes // 2]
        return np.asarray(np.where(np.abs(low) <= np.abs(high), low, high))
    # where the slope is zero, if so many weights were below
    below = np.arange(classes + 1)[:, None]
    zeros = coef.mean(axis=0) + (l1 / l2) * (1.0 - 2.0 * below / classes)
    return np.asarray(np.median(np.concatenate([coef, zeros]), axis=0))


def regauge(sums: ClassedSums, point: Evaluation) -> Evaluation:
    """The point of the least penalty among those with the same probabilities."""
    l1, l2, d = sums.penalty.l1, sums.penalty.l2, sums.d
    coef = point.theta[:d].reshape(sums.classes, sums.features)
    shift = best_shift(coef, l1, l2)
    if not shift.any():
        return point
    moved = (coef - shift).ravel()
    gradient, theta = point.gradient.copy(), point.theta.copy()
    gradient[:d] += l2 * (moved - theta[:d])
    added = 0.5 * l2 * float(moved @ moved - theta[:d] @ theta[:d])
    theta[:d] = moved
    return point._replace(theta=theta, gradient=gradient, objective=point.objective + added)
