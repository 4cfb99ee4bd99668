"""Checks during a run whose steps were found automatically.

An epoch is repeated with shorter steps if its weights are worse than those it started with, and
than zero (after the first epoch, only with losses that may overshoot, and if the solver records
losses). The decay is halved, down to a smallest one, after every three epochs that all go the same
way: the steps have then become too short.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.solvers.divergence import are_finite, finite_objective
from antithetic.solvers.state import After, State
from antithetic.solvers.steps import Auto
from antithetic.training.spec import Spec

if TYPE_CHECKING:
    from antithetic.training.loop import Run

MOST_LOWERINGS, _MOST_EASINGS = 30, 60
_FEW_ROWS = 1000  # a pass over them costs next to nothing, and a single one can spoil an epoch
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
    return after_some(moved, aligned, easing)


def after_some(moved: NDArray[np.float64], aligned: int, easing: Easing) -> Easing:
    """Count epochs that went the same way, and halve the decay if they are enough."""
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
    NaN means that nothing was checked.
    """
    problem, solver = spec.problem, spec.solver
    later = run.state.epochs > 0
    if later and not (problem.loss.may_overshoot and solver.watch) and not is_cheap(spec):
        return np.nan
    at_zero = problem.loss_at_zero()
    may_skip = later or (problem.loss.is_bounded and solver.watch)
    if may_skip and after.loss <= at_zero and problem.n > _FEW_ROWS:
        return np.nan
    reached = _reached(spec, after)
    if not reached > at_zero > 0.0:
        return reached
    # Short steps stay where the last weights are, which may be worse than the mean of an epoch.
    began = max(
        _reached(spec, After(run.state, run.own)),
        finite_objective(problem, run.state.coef, run.state.intercept),
    )
    return np.inf if reached > began else reached


def is_cheap(spec: Spec) -> bool:
    """Whether a few rows, in units of their own, can be looked at after each epoch."""
    assert isinstance(spec.steps, Auto)
    return spec.steps.precondition and spec.problem.n <= _FEW_ROWS


def _reached(spec: Spec, after: After) -> float:
    """Objective of the last weights, or of the mean of their epoch if there is one.

    An average over all epochs would hide for a long time how the last one ended. It makes no
    difference whether the two have been compared.
    """
    state, problem = after.state, spec.problem
    if not spec.solver.by_epoch:
        return finite_objective(problem, state.coef, state.intercept)
    if not are_finite(state.coef, state.intercept):
        return np.inf
    return finite_objective(problem, *spec.solver.solution(state, after.own._replace(settled=0)))
