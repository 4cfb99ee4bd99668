"""The best constant prediction: where a model starts, and what its gain is measured from."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.losses import Loss

_MOST_STEPS, _ROUNDING = 200, 1e-15  # of the search for a slope of zero; of its range
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
    if loss.classification:
        return _of_classes(loss, *_class_shares(y, weight))
    constant = constant_of(loss, y, weight)
    return constant, float(_shares(y, weight) @ loss.value(y, np.full(len(y), constant)))


def constant_of(loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """The same constant without its loss, which would take a pass over the targets."""
    if loss.classification:
        return _of_classes(loss, *_class_shares(y, weight))[0]
    if loss.has_log_link:
        return loss.best_constant(y, weight)
    shares = _shares(y, weight)
    if loss.name != "squared_error":
        return _bisect(loss, y, shares)
    total = float(shares.sum())
    return float(shares @ y) / total if total > 0.0 else 0.0


def _shares(y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Share of the mean loss that each row has."""
    return np.full(len(y), 1.0 / len(y)) if weight is None else weight / len(y)


def _class_shares(
    y: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[float, float]:
    """Share of the mean loss that the signs -1 and +1 have."""
    if weight is None:
        positive, total = float(np.count_nonzero(y > 0.0)), float(len(y))
    else:
        positive, total = float(weight[y > 0.0].sum()), float(weight.sum())
    return max(0.0, total - positive) / len(y), positive / len(y)


@lru_cache(maxsize=256)
def _of_classes(loss: Loss, negative: float, positive: float) -> tuple[float, float]:
    """Best constant of two classes and its mean loss; a fit asks for it up to three times."""
    if loss.name == "log_loss":
        return _log_odds(negative, positive)
    signs, shares = np.array([-1.0, 1.0]), np.array([negative, positive])
    constant = _bisect(loss, signs, shares)
    return constant, float(shares @ loss.value(signs, np.full(2, constant)))


def _log_odds(negative: float, positive: float) -> tuple[float, float]:
    """Best constant and its mean logistic loss, from the shares of the two classes."""
    if negative > 0.0 and positive > 0.0:
        odds = min(_FURTHEST, max(-_FURTHEST, math.log(positive) - math.log(negative)))
    else:
        odds = _FURTHEST * ((positive > 0.0) - (negative > 0.0))
    least = math.log1p(math.exp(-abs(odds)))
    return odds, negative * (least + max(0.0, odds)) + positive * (least + max(0.0, -odds))


def _bisect(loss: Loss, y: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    """The prediction at which the sum of the slopes, which never decreases, changes sign.

    Straight lines between both ends find it in some ten steps if the loss is smooth; after one that
    left more than half of the way, the next step halves it.
    """
    low, high = float(y.min()), float(y.max())
    if not shares.any() or low == high:
        return low if not loss.classification else 0.0

    def slope(p: float) -> float:
        return float(shares @ loss.slope(y, np.full(len(y), p)))

    below, above = slope(low), slope(high)
    enough = _ROUNDING * (above - below) if loss.is_smooth else -1.0
    is_slow = True
    for _ in range(_MOST_STEPS):
        width = 0.5 * high - 0.5 * low
        straight = low + (high - low) * (below / (below - above)) if below < above else low
        middle = low + width if is_slow or not low < straight < high else straight
        if not low < middle < high:
            break
        found = slope(middle)
        if abs(found) <= enough:
            return middle
        if found < 0.0:
            low, below = middle, found
        else:
            high, above = middle, found
        is_slow = not is_slow and high - low > width
    return high if abs(above) <= abs(below) else low
