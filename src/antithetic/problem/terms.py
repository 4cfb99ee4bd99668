"""What a fitted model minimised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.loss import Loss


class Terms(NamedTuple):
    """The objective that a model minimises.

    Attributes
    ----------
    loss : Loss
    weight : ndarray of shape (n,) or None
        ``sample_weight`` times ``class_weight``.
    l2, l1 : float
        Strengths of the penalties of the sum.
    fit_intercept : bool
    penalty_share : ndarray of shape (n,) or None
        Share of the L2 penalty that goes when a row is left out, for objectives that are means;
        None for sums.
    gap : float
        What the fit says of its distance from the optimum; NaN if nothing.
    """

    loss: Loss
    weight: NDArray[np.float64] | None
    l2: float
    l1: float
    fit_intercept: bool
    penalty_share: NDArray[np.float64] | None
    gap: float
