"""Checks during a run whose steps were found automatically.

An epoch is repeated with shorter steps if it overflows, or if its weights are worse than those it
started with, and than zero. After the first epoch, weights are compared only if there are few rows,
or if the loss may overshoot and the solver records losses. The decay is halved, down to a smallest
one, after every three epochs that all go the same way: the steps have then become too short.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.solvers.divergence import are_finite, finite_objective
from antithetic.solvers.state import After, State
from antithetic.training.spec import FEW_ROWS, Spec

if TYPE_CHECKING:
    from antithetic.training.loop import Run

MOST_LOWERINGS, _MOST_EASINGS = 30, 60
# cosine between the ways of two epochs, and how often in a row
_SAME_WAY, _EPOCHS_THE_SAME_WAY = 0.7, 3


class Easing(NamedTuple):
    """Where the last epoch went, how many went the same way, and how often decay was halved."""

    moved: NDArray[np.float64] | None = None
    aligned: int = 0
    eased: int = 0


def ease(before: State, after: State, easing: Easing) -> Easing:
    """Halve the decay after some epochs that all went the same way.

    Their steps were too short to arrive.
    """
    d, aligned = len(after.coef), 0
    moved = np.empty(d + (1 if isinstance(after.intercept, float) else len(after.intercept)))
    np.subtract(after.coef, before.coef, out=moved[:d])
    moved[d:] = after.intercept - before.intercept
    if easing.moved is not None:
        together = float(moved.dot(easing.moved))
        lengths = math.sqrt(float(moved.dot(moved)) * float(easing.moved.dot(easing.moved)))
        if together > _SAME_WAY * lengths:
            aligned = easing.aligned + 1
    if aligned == _EPOCHS_THE_SAME_WAY:
        return Easing(moved, 0, min(easing.eased + 1, _MOST_EASINGS))
    return Easing(moved, aligned, easing.eased)


def eased_rate(rate: float, least: float, easing: Easing) -> float:
    """Decay after it was halved as often as needed, but not below the smallest."""
    return max(min(rate, least), math.ldexp(rate, -easing.eased))


def unless_wrong(spec: Spec, run: Run, after: After) -> float:
    """Objective after an epoch; infinite if it went wrong.

    That is, it ended worse than it started and than zero weights, or it overflowed. The check costs
    one or two passes over the data. With many rows it is skipped if the losses during the epoch
    were at most those of zero weights, except after the first epoch with unbounded slopes. After
    the first epoch, only losses that may overshoot are checked, or few rows in units of their own.
    NaN means that nothing but overflow was checked.

    It looks at the mean of an epoch if there is one, and otherwise at the last weights: an average
    over all epochs would hide for a long time how the last one ended.
    """
    problem, solver, later = spec.problem, spec.solver, run.state.epochs > 0
    last = after.state.coef, after.state.intercept
    looked_at = after.mean or last
    if not are_finite(last, looked_at):
        return np.inf
    if later and not spec.is_always_checked:
        return np.nan
    may_skip = later or (problem.loss.is_bounded and solver.watch)
    if may_skip and after.loss <= spec.loss_at_zero and len(problem.y) > FEW_ROWS:
        return np.nan
    with np.errstate(all="ignore"):
        reached = problem.objective_of(*looked_at)
    if not math.isfinite(reached):
        return np.inf
    if not reached > spec.loss_at_zero > 0.0:
        return reached
    # Short steps stay where the last weights are, which may be worse than the mean of an epoch.
    began = finite_objective(problem, run.state.coef, run.state.intercept)
    if solver.by_epoch:  # it makes no difference whether mean and last weights have been compared
        mean = solver.solution(run.state, run.own._replace(settled=0))
        began = max(began, finite_objective(problem, *mean))
    return np.inf if reached > began else reached
