"""The cumulative L1 step on one weight, which keeps weights at zero that belong there."""

from __future__ import annotations


def cumulative_threshold(weight: float, received: float, charged: float) -> float:
    r"""Bring a weight nearer to zero by the penalty that it still owes, at most to zero.

    The difference is what it then has received.

    Every step charges each weight with :math:`\tau = \eta\, l_1`. The proximal step takes
    :math:`\tau` from a weight and forgives what is left when that is at zero, so any single
    gradient above the penalty moves the weight away again, and on noisy data hardly one stays. Here
    nothing is forgiven: with u the sum of all charges and q what a weight has received of them
    (negative while it was positive), it owes u + q as a positive and u - q as a negative weight. A
    weight away from zero takes exactly the proximal step; one at zero leaves when the sum of its
    gradients, in which noise cancels, exceeds that of its charges. This is the cumulative penalty
    of Tsuruoka et al. (2009), which scikit-learn uses too.

    Parameters
    ----------
    weight : float
        The weight after the gradient's step.
    received : float
        q. Where nothing moves the weight in between, several charges may be added up before they
        are collected.
    charged : float
        u, at least 0.
    """
    if weight > 0.0:
        return max(0.0, weight - max(0.0, charged + received))
    if weight < 0.0:  # NaN is neither, and is left for the divergence check
        return min(0.0, weight + max(0.0, charged - received))
    return weight
