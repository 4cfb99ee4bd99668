"""Shares of the classes: the best constant prediction, and probabilities with given sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_FURTHEST = 30.0  # a share of exp(-30) of one class is as good as none


def best_constants(shares: Vector) -> tuple[Vector, float]:
    """Intercepts of the least mean loss, whose sum is zero, and that loss.

    Parameters
    ----------
    shares : ndarray of shape (classes,)
        Weights of the classes, divided by the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> best_constants(np.array([0.25, 0.25, 0.25, 0.25]))[0].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    total = float(shares.sum())
    if not total > 0.0:
        return np.zeros(len(shares)), 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(shares / shares.max())
    logs = np.maximum(logs, -_FURTHEST)
    loss = float(shares @ (np.log(np.exp(logs).sum()) - logs))
    constants: Vector = logs - logs.mean()
    return constants, loss


def move_chances(wanted: Vector, found: Vector) -> tuple[Vector, Vector]:
    """How to change the probabilities of all rows so that they have the wanted sums.

    Class k keeps the share ``kept[k]`` of its probabilities. What a row loses goes to the classes
    that have too little, in the shares ``given``.

    Examples
    --------
    >>> import numpy as np
    >>> kept, given = move_chances(np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.35, 0.25]))
    >>> kept.tolist(), given.round(2).tolist()
    ([0.5, 1.0, 1.0], [0.0, 0.75, 0.25])
    """
    kept = np.ones(len(wanted))
    np.divide(wanted, found, out=kept, where=found > wanted)
    lacking = np.maximum(0.0, wanted - found)
    total = float(lacking.sum())
    if not total > 0.0:  # the sums agree, or rounding leaves no class to give to
        return np.ones(len(wanted)), np.zeros(len(wanted))
    return kept, lacking / total


def move_gradient(gradient: Vector, means: Vector, kept: Vector, given: Vector) -> Vector:
    """Gradient of the mean loss after the change of :func:`move_chances`.

    Parameters
    ----------
    gradient : ndarray of shape (classes * features,)
        As it was.
    means : ndarray of shape (classes, features)
        Mean of the centred rows of each class, as a share of all rows.
    kept, given : ndarray of shape (classes,)
        Of :func:`move_chances`.
    """
    before = gradient.reshape(means.shape)
    taken = (1.0 - kept)[:, None] * (before + means)
    moved: Vector = (before - taken + np.outer(given, taken.sum(axis=0))).ravel()
    return moved
