"""How far to go along a step."""

from __future__ import annotations

import numpy as np

from antithetic.problem.sums import Evaluation, Sums, Vector
from antithetic.solvers.newton.models import Proposal

_ENOUGH = 1e-4  # share of the expected fall that a step must keep
_FLAT = 0.1  # of the first slope: what may be left of it where rounding hides the fall
_MOST_TRIALS = 25
_SHORTEST, _LONGEST = 0.05, 0.8  # of the step before, where a trial was too long


def value(sums: Sums, point: Evaluation) -> float:
    """Objective of a point, the whole penalty included."""
    l1 = sums.penalty.l1
    return point.objective + (l1 * float(np.abs(point.theta[: sums.d]).sum()) if l1 else 0.0)


def search(sums: Sums, start: Evaluation, proposal: Proposal) -> tuple[Evaluation, int] | None:
    """Return a better point along the step and how many passes it took; None if there is none.

    The whole step is tried first. It will do if the objective falls by enough or, where rounding
    hides the fall, if the slope along it has become small.
    """
    before, slope, length = value(sums, start), proposal.slope, 1.0
    if not slope < 0.0:
        return None
    rounding = 4.0 * float(np.finfo(np.float64).eps) * abs(before)
    for trial in range(1, _MOST_TRIALS + 1):
        point = sums.at(start.theta + length * proposal.step)
        after = value(sums, point)
        if np.isfinite(after):
            if after <= before + _ENOUGH * length * slope:
                return point, trial
            left = _slope(sums, point, proposal.step)
            is_flat = -(1.0 - 2.0 * _FLAT) * slope >= left >= 0.9 * slope
            if after <= before + rounding and is_flat:
                return point, trial
            # where the slope would be zero, if it changed evenly
            share = slope / (slope - left) if left > slope else _LONGEST
            length *= float(np.clip(share, _SHORTEST, _LONGEST))
        else:
            length *= _SHORTEST
        if not (start.theta + length * proposal.step != start.theta).any():
            break
    return None


def _slope(sums: Sums, point: Evaluation, step: Vector) -> float:
    """Slope of the objective along the step at its end, the penalty's kinks as a chord."""
    smooth = float(point.gradient @ step)
    l1 = sums.penalty.l1
    if not l1:
        return smooth
    coef, along = point.theta[: sums.d], step[: sums.d]
    return smooth + l1 * float(np.where(coef != 0.0, np.sign(coef) * along, np.abs(along)).sum())
