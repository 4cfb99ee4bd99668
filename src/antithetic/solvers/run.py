"""The one loop that drives a solver: epochs, what is recorded after each, and what happens when steps diverge or the user interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from antithetic.problem import Problem
from antithetic.sampling import Sampler
from antithetic.schedules import Schedule, lower, step_size
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
    best, waited = np.inf, 0
    while state.epochs < epochs:
        state = solver.epoch(state, sampler.batches(state.epochs), schedule)
        check_finite(solver.problem, state, schedule)
        yield state
        if patience is None:
            continue
        objective = solver.problem.objective(*state.solution)
        waited = waited + 1 if objective > best - patience.tol else 0
        best = min(best, objective)
        if waited >= patience.epochs:
            lowered = lower(schedule) if adaptive else None
            if lowered is None:
                return
            schedule, waited = lowered, 0


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
