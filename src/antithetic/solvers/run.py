"""The one loop that drives a solver: epochs, what is recorded after each, and what happens when steps diverge or the user interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from antithetic.problem import Problem
from antithetic.sampling import Sampler
from antithetic.schedules import LOWERING, Schedule, can_be_lowered, step_size
from antithetic.solvers.sgd import Sgd, SgdState

_MOST_CARE = 30  # times that the steps of the first epoch are lowered


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
    careful: bool = False,
    judge: Callable[[SgdState], float] | None = None,
) -> Iterator[SgdState]:
    """Yield the state after each epoch until ``epochs`` of them are done, counting those that the state has behind it.

    Parameters
    ----------
    solver, sampler, schedule, state
    epochs : int
    patience : Patience or None
        End early once what ``judge`` says no longer falls.
    adaptive : bool, default=False
        Lower the step instead, until it is too small.
    careful : bool, default=False
        Do the very first epoch again with shorter steps when it led to worse weights than it began with, and than zero.
    judge : callable or None
        State to a number that should fall, asked once after each epoch if there is patience; None means the objective.
    """
    while state.epochs < epochs and not state.stopped:
        lowered = lower(schedule, state)
        after = solver.epoch(state, sampler.batches(state.epochs), lowered)
        if careful and state.epochs == 0 and state.lowered < _MOST_CARE and _is_worse(solver.problem, state, after):
            state = state._replace(lowered=state.lowered + 1)
            continue
        state = after
        check_finite(solver.problem, state, schedule)
        if patience is not None:
            verdict = judge(state) if judge else solver.problem.objective(*state.solution)
            state = _lose_patience(state, verdict, patience, adaptive and can_be_lowered(lowered))
        yield state


def lower(schedule: Schedule, state: SgdState) -> Schedule:
    """Schedule of the next epoch: the given one, divided as often as the state says."""
    return schedule._replace(eta0=schedule.eta0 / LOWERING**state.lowered)


def _is_worse(problem: Problem, before: SgdState, after: SgdState) -> bool:
    least = max(finite_objective(problem, before), problem.mean_loss(np.zeros(problem.n)))
    return finite_objective(problem, after) > least


def finite_objective(problem: Problem, state: SgdState) -> float:
    """Objective at a state, without averaging; infinite, and never an error, where weights or losses are not finite."""
    with np.errstate(all="ignore"):
        if not (np.isfinite(state.coef @ state.coef) and np.isfinite(state.intercept)):
            return np.inf
        value = problem.objective(state.coef, state.intercept)
        return value if np.isfinite(value) else np.inf


def _lose_patience(state: SgdState, verdict: float, patience: Patience, can_lower: bool) -> SgdState:
    """Count epochs in which the verdict did not fall; after so many, lower the step or stop."""
    waited = state.waited + 1 if verdict > state.best - patience.tol else 0
    state = state._replace(best=min(state.best, verdict), waited=waited)
    if waited < patience.epochs:
        return state
    return state._replace(waited=0, lowered=state.lowered + 1) if can_lower else state._replace(stopped=True)


def check_finite(problem: Problem, state: SgdState, schedule: Schedule) -> None:
    """Raise DivergenceError, with advice, unless the weights and their squared norm are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(state.coef @ state.coef) and np.isfinite(state.intercept):
            return
    raise DivergenceError(overflow_message(state.epochs, f"the steps diverged. {advice(problem, schedule)} "))


def overflow_message(epoch: int, reason: str) -> str:
    """Say it in scikit-learn's words, which programs may look for, with the reason and advice in the middle."""
    return (
        f"Floating-point under-/overflow occurred at epoch #{epoch}: {reason}"
        "Scaling input data with StandardScaler or MinMaxScaler might help."
    )


def advice(problem: Problem, schedule: Schedule) -> str:
    """Say what to try against steps that are too long."""
    safe = 1.0 / max(problem.row_curvature(), np.finfo(np.float64).tiny)
    return f"The first step was {step_size(*schedule, 0, 0):.3g}; try eta0={safe:.2g} or less."
