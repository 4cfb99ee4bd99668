"""The best constant prediction: where a model starts, and what its gain is measured from."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.losses import Loss

_MOST_STEPS = 100
_FURTHEST = 30.0  # a class with a share below exp(-30) is treated as absent


def best_constant(
    loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[float, float]:
    """Constant prediction of smallest mean loss, and that loss, each row counting as one.

    Parameters
    ----------
    loss : Loss
    y : ndarray of shape (n,)
        Signs for a classification loss, numbers for regression.
    weight : ndarray of shape (n,) or None
        Weights of the rows; None means 1.

    Examples
    --------
    >>> from antithetic.problem.losses import LOSSES
    >>> import numpy as np
    >>> best_constant(LOSSES["squared_error"], np.array([1.0, 3.0]), None)
    (2.0, 0.5)
    """
    values, shares = _distinct(loss, y, weight)
    if loss.name == "log_loss":
        return _log_odds(*shares.tolist())
    if loss.has_log_link:
        constant = loss.best_constant(y, weight)
    else:
        constant = _of_shares(loss, values, shares)
    return constant, float(shares @ loss.value(values, np.full(len(values), constant)))


def constant_of(loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """The same constant without its loss, which would take a pass over the targets."""
    if loss.has_log_link:
        return loss.best_constant(y, weight)
    values, shares = _distinct(loss, y, weight)
    if loss.name == "log_loss":
        return _log_odds(*shares.tolist())[0]
    return _of_shares(loss, values, shares)


def _of_shares(loss: Loss, values: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    if loss.name != "squared_error":
        return _bisect(loss, values, shares)
    total = float(shares.sum())
    return float(shares @ values) / total if total > 0.0 else 0.0


def _distinct(
    loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Labels and the share of the loss that each has: of two classes, two of each."""
    n = len(y)
    if not loss.classification:
        return y, np.full(n, 1.0 / n) if weight is None else weight / n
    if weight is None:
        positive = float(np.count_nonzero(y > 0.0))
        total = float(n)
    else:
        positive, total = float(weight[y > 0.0].sum()), float(weight.sum())
    return np.array([-1.0, 1.0]), np.array([max(0.0, total - positive), positive]) / n


def _log_odds(negative: float, positive: float) -> tuple[float, float]:
    """Best constant and its mean logistic loss, from the shares of the two classes."""
    if negative > 0.0 and positive > 0.0:
        odds = min(_FURTHEST, max(-_FURTHEST, math.log(positive) - math.log(negative)))
    else:
        odds = _FURTHEST * ((positive > 0.0) - (negative > 0.0))
    least = math.log1p(math.exp(-abs(odds)))
    return odds, negative * (least + max(0.0, odds)) + positive * (least + max(0.0, -odds))


def _bisect(loss: Loss, y: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    """The prediction at which the sum of the slopes, which never decreases, changes sign."""
    low, high = float(y.min()), float(y.max())
    if not shares.any() or low == high:
        return low if not loss.classification else 0.0

    def slope(p: float) -> float:
        return float(shares @ loss.slope(y, np.full(len(y), p)))

    for _ in range(_MOST_STEPS):
        middle = 0.5 * low + 0.5 * high
        if not low < middle < high:
            break
        if slope(middle) < 0.0:
            low = middle
        else:
            high = middle
    return high if abs(slope(high)) <= abs(slope(low)) else low
