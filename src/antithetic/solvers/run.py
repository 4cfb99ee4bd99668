"""The one loop that drives a solver: epochs, what is recorded after each, and what happens when steps diverge or the user interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from antithetic.problem import Problem
from antithetic.sampling import Sampler
from antithetic.schedules import LOWERING, Schedule, can_be_lowered, step_size
from antithetic.solvers.sgd import Sgd, SgdState


class DivergenceError(ValueError):
    """The weights or the objective became infinite or NaN.

    Attributes
    ----------
    result : Result or None
        The last finite result, from the epoch before.
    """

    result: object = None


@dataclass(frozen=True, slots=True)
class Patience:
    """When the objective counts as no longer falling: ``epochs`` times in a row it was not ``tol`` below the best before."""

    tol: float
    epochs: int = 5


def run(
    solver: Sgd,
    sampler: Sampler,
    schedule: Schedule,
    state: SgdState,
    *,
    epochs: int,
    patience: Patience | None = None,
    adaptive: bool = False,
) -> Iterator[SgdState]:
    """Yield the state after each epoch until ``epochs`` of them are done, counting those that the state has behind it.

    With ``patience`` the run ends early once the objective no longer falls; an adaptive schedule is lowered instead, until it is too small.
    """
    while state.epochs < epochs and not state.stopped:
        lowered = schedule._replace(eta0=schedule.eta0 / LOWERING**state.lowered)
        state = solver.epoch(state, sampler.batches(state.epochs), lowered)
        check_finite(solver.problem, state, schedule)
        if patience is not None:
            state = _lose_patience(state, solver.problem.objective(*state.solution), patience, adaptive and can_be_lowered(lowered))
        yield state


def _lose_patience(state: SgdState, objective: float, patience: Patience, can_lower: bool) -> SgdState:
    """Count epochs in which the objective did not fall; after so many, lower the step or stop."""
    waited = state.waited + 1 if objective > state.best - patience.tol else 0
    state = state._replace(best=min(state.best, objective), waited=waited)
    if waited < patience.epochs:
        return state
    return state._replace(waited=0, lowered=state.lowered + 1) if can_lower else state._replace(stopped=True)


def check_finite(problem: Problem, state: SgdState, schedule: Schedule) -> None:
    """Raise DivergenceError, with advice, unless the weights and their squared norm are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(state.coef @ state.coef) and np.isfinite(state.intercept):
            return
    raise DivergenceError(f"the steps diverged in epoch {state.epochs}: the weights are no longer finite. {advice(problem, schedule)}")


def advice(problem: Problem, schedule: Schedule) -> str:
    """Say what to try against steps that are too long."""
    return (
        f"The first step was {step_size(*schedule, 0, 0):.3g}; try eta0={safe_step(problem):.2g} or less, "
        "or scale the features (StandardScaler or MinMaxScaler)."
    )


def safe_step(problem: Problem) -> float:
    """``1 / (curvature * mean |x|^2 + l2)``: about the longest step at which a mean row does not overshoot."""
    X = problem.X.data if sparse.issparse(problem.X) else problem.X.ravel()
    square = float(np.einsum("i,i->", X, X, dtype=np.float64)) / problem.n + problem.fit_intercept
    weight = 1.0 if problem.weight is None else float(problem.weight.max())
    curvature = problem.loss.curvature if np.isfinite(problem.loss.curvature) else 1.0
    return 1.0 / max(curvature * weight * square + problem.penalty.l2, np.finfo(np.float64).tiny)
