"""The proximal step of the L1 penalty on one weight, with a memory that keeps weights at zero which belong there."""

from __future__ import annotations


def soft_threshold(weight: float, pushed: float, owed: float, threshold: float) -> tuple[float, float, float]:
    r"""Bring a weight nearer to zero by a threshold; return it with its memory.

    A weight away from zero takes the usual proximal step. One that reaches zero owes what it could not pay, and from then on its steps
    and its thresholds are added up: it leaves zero when the sum of the steps exceeds that of the thresholds, by the difference. The
    usual step would let any single gradient above the penalty move it, so that on noisy data hardly a weight would stay at zero;
    summed up, the noise cancels and the penalty does not.

    Parameters
    ----------
    weight : float
        The weight after the gradient's step; for one at zero, that step.
    pushed, owed : float
        Sum of the steps, and of the thresholds, since the weight is at zero; both 0 if it is not.
    threshold : float
        At least 0. Several thresholds without a step between them may be given as their sum.
    """
    due = owed + threshold
    total = pushed + weight
    if not abs(total) <= due:  # NaN passes, to be found by the divergence check
        return (total - due if total > 0.0 else total + due), 0.0, 0.0
    if owed == 0.0:
        return 0.0, 0.0, due - abs(total)
    return 0.0, total, due
