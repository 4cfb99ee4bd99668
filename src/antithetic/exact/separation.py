"""Whether an objective without a penalty has no optimum, since some weights can grow for ever."""

from __future__ import annotations

from antithetic.exact.linear_algebra import Factor
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Vector

_MOST_COLUMNS = 4000  # of a Hessian that is formed
_FAR = 0.5  # of a step that leads away for ever: exp(-m) falls by as much with each step of 1 in m
_NEAR = 0.05  # of that: what rows that are not separated may move by, before they are at rest


def leads_away(sums: RowSums, theta: Vector) -> bool:
    """Whether Newton's step at the end of a run still makes margins larger, and none smaller.

    Near an optimum the step is short. Where some rows can be told apart perfectly by weights that
    change nothing for the others (quasi-separation), each step adds about one to their margins.
    """
    if sums.d > _MOST_COLUMNS:
        return False
    point = sums.at(theta)
    step = -Factor(sums.hessian(point, exact=True)).solve(point.gradient)
    along = sums.problem.y * sums.problem.predictions(*sums.split(step))
    if sums.problem.weight is not None:
        along = along[sums.problem.weight > 0.0]
    furthest = float(along.max())
    return furthest > _FAR and float(along.min()) > -_NEAR * furthest
