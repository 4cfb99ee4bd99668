"""How far to go along a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antithetic.exact.sums import Evaluation, Sums, Vector
from antithetic.solvers.newton.models import Proposal

_ENOUGH = 1e-4  # share of the expected fall that a step must keep
_FLAT = 0.1  # of the first slope: what may be left of it where rounding hides the fall
_MOST_TRIALS = 25
_KEPT = 0.25  # of the promised fall: a full step that keeps less needs the care it had
_LESS, _LEAST_CARE = 0.03, 1e-14
_SHORTEST, _LONGEST = 0.05, 0.8  # of the step before, where a trial was too long
_STEEP, _MOST_LONGER = 0.5, 4  # of the first slope: a step that leaves more was cut too short


def value(sums: Sums, point: Evaluation) -> float:
    """Objective of a point, the whole penalty included."""
    l1 = sums.penalty.l1
    return point.objective + (l1 * float(np.abs(point.theta[: sums.d]).sum()) if l1 else 0.0)


class Found(NamedTuple):
    """A better point along a step.

    Attributes
    ----------
    point : Evaluation
    length : float
        Share of the step that was taken.
    """

    point: Evaluation
    length: float


def search(sums: Sums, start: Evaluation, proposal: Proposal) -> Found | None:
    """Return a better point along the step; None if there is none.

    The whole step is tried first. It will do if the objective falls by enough or, where rounding
    hides the fall, if the slope along it has become small.
    """
    before, slope, length, too_long = value(sums, start), proposal.slope, 1.0, np.inf
    if not slope < 0.0:
        return None
    rounding = 4.0 * float(np.finfo(np.float64).eps) * abs(before)
    for _ in range(_MOST_TRIALS):
        point = sums.at(start.theta + length * proposal.step)
        after = value(sums, point)
        if np.isfinite(after):
            if after <= before + _ENOUGH * length * slope:
                return _lengthen(sums, start, proposal, Found(point, length), too_long)
            left = _slope(sums, point, proposal.step)
            is_flat = -(1.0 - 2.0 * _FLAT) * slope >= left >= 0.9 * slope
            if after <= before + rounding and is_flat:
                return Found(point, length)
            # where the slope would be zero, if it changed evenly
            share = slope / (slope - left) if left > slope else _LONGEST
            too_long, length = length, length * float(np.clip(share, _SHORTEST, _LONGEST))
        else:
            too_long, length = length, length * _SHORTEST
        if not (start.theta + length * proposal.step != start.theta).any():
            break
    return None


def _lengthen(
    sums: Sums, start: Evaluation, proposal: Proposal, found: Found, too_long: float
) -> Found:
    """Go on toward a length that was too long, while that gains and the way down is as steep.

    Beyond some length a few rows make the objective rise fast, which says little of the way there.
    """
    for _ in range(_MOST_LONGER if too_long < np.inf else 0):
        if _slope(sums, found.point, proposal.step) > _STEEP * proposal.slope:
            break
        length = float(np.sqrt(found.length * too_long))
        point = sums.at(start.theta + length * proposal.step)
        if value(sums, point) < value(sums, found.point):
            found = Found(point, length)
        else:
            too_long = length
    return found


def next_care(
    sums: Sums, start: Evaluation, proposal: Proposal, found: Found, care: float
) -> float:
    """Care that the next Hessian takes: the share of curvatures above the losses that rows have.

    A step that had to be shortened would have had about the right length with this care; after
    steps that kept what they promised there is less and less of it.
    """
    if found.length == 1.0:
        fall = value(sums, start) - value(sums, found.point)
        if fall < _KEPT * proposal.decrement:
            return care
        return _LESS * care if care > _LEAST_CARE else 0.0
    above = found.length * sums.curvature_above(start, proposal.step)
    needed = -proposal.slope / above if above > 0.0 else 1.0
    return max(care, min(1.0, needed))


def _slope(sums: Sums, point: Evaluation, step: Vector) -> float:
    """Slope of the objective along the step at its end, the penalty's kinks as a chord."""
    slopes = point.gradient.copy()
    coef, along = point.theta[: sums.d], step[: sums.d]
    slopes[: sums.d] += sums.penalty.l1 * np.where(coef != 0.0, np.sign(coef), np.sign(along))
    return float(slopes @ step)
