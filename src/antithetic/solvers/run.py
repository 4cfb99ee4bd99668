"""The one loop that drives a solver: epochs, what is recorded after each, and what happens when steps diverge or the user interrupts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from antithetic.orders import Batches, Sampler
from antithetic.problem import Problem
from antithetic.solvers.sgd import Sgd, SgdState
from antithetic.solvers.steps import LOWERING, Schedule, can_be_lowered, step_size

_MOST_LOWERINGS, _MOST_EASINGS = 30, 60
_SAME_WAY, _EPOCHS_THE_SAME_WAY = (
    0.7,
    3,
)  # cosine between the ways of two epochs, and how often in a row


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


@dataclass(frozen=True, slots=True)
class Target:
    """When an optimality measure is small enough: at most ``tol``."""

    tol: float


class Solver(Protocol):
    """Whatever makes the transition from one epoch to the next."""

    @property
    def problem(self) -> Problem:
        """What it solves."""

    @property
    def watch(self) -> bool:
        """Whether it records the losses that it meets."""

    def init(self, coef: Any = None, intercept: float = 0.0) -> SgdState:
        """State before the first step."""

    def take_up(self, state: SgdState) -> SgdState:
        """State of an earlier run, made to fit this one."""

    def epoch(self, state: SgdState, batches: Batches, schedule: Schedule) -> SgdState:
        """State after the batches of one more epoch."""


class Care(NamedTuple):
    """What is watched over where steps were found and not chosen.

    An epoch is done again with shorter steps when it led to worse weights than it began with, and
    than zero (after the first epoch, only with losses whose slopes are unbounded, and if the solver
    watches). The decay is halved, down to ``least_decay``, after every three epochs that all go the
    same way: the steps have then become too short.
    """

    least_decay: float


def run(
    solver: Solver,
    sampler: Sampler,
    schedule: Schedule,
    state: SgdState,
    *,
    epochs: int,
    patience: Patience | Target | None = None,
    adaptive: bool = False,
    care: Care | None = None,
    judge: Callable[[SgdState], float] | None = None,
    renew: Callable[[SgdState], Sampler | None] | None = None,
) -> Iterator[SgdState]:
    """Yield the state after each epoch until ``epochs`` of them are done, counting those that the state has behind it.

    Parameters
    ----------
    solver, sampler, schedule, state
    epochs : int
    patience : Patience, Target or None
        End early once what ``judge`` says no longer falls, or is small enough.
    adaptive : bool, default=False
        Lower the step instead, until it is too small.
    care : Care or None
        Watch over steps that nobody chose.
    judge : callable or None
        State to a number that should fall, asked once after each epoch if there is patience; None
        means the mean loss that was met on the way (the solver must watch) plus the penalty, as in
        scikit-learn.
    renew : callable or None
        Asked before each epoch for a sampler to take the place of the one there was; None keeps it.
    """
    asked = -1  # the epoch that renew was last asked about: one that is done again keeps its table
    while state.epochs < epochs and not state.stopped:
        lowered = lower(schedule, state, care)
        renewed = renew(state) if renew is not None and asked < state.epochs else None
        asked = state.epochs
        if renewed is not None:
            sampler, state = renewed, state._replace(order=None)
        after = solver.epoch(
            state._replace(objective=np.nan), sampler.batches(state.epochs, state.order), lowered
        )
        watched = care is not None and state.lowered < _MOST_LOWERINGS
        reached = _unless_wrong(solver, state, after) if watched else np.nan
        if reached == np.inf:
            state = state._replace(lowered=state.lowered + 1)
            continue
        if not np.isnan(reached) and (after.average is None or _is_of_epochs(solver)):
            after = after._replace(objective=reached)
        check_finite(solver.problem, after, schedule)
        state = after if care is None else _ease(state, after)
        if patience is not None:
            verdict = (
                judge(state) if judge else state.loss + solver.problem.penalty.value(state.coef)
            )
            if isinstance(patience, Target):
                yield state._replace(stopped=verdict <= patience.tol)
                if verdict <= patience.tol:
                    return
                continue
            state = _lose_patience(state, verdict, patience, adaptive and can_be_lowered(lowered))
        yield state


def lower(schedule: Schedule, state: SgdState, care: Care | None = None) -> Schedule:
    """Schedule of the next epoch: the given one, its step lowered and its decay eased as often as the state says."""
    lowered = schedule._replace(eta0=schedule.eta0 / LOWERING**state.lowered)
    return (
        lowered
        if care is None
        else lowered._replace(
            rate=max(min(schedule.rate, care.least_decay), math.ldexp(schedule.rate, -state.eased))
        )
    )


def _ease(before: SgdState, after: SgdState) -> SgdState:
    """Halve the decay after some epochs that all went the same way: they were short of where they were going."""
    moved = np.append(after.coef - before.coef, after.intercept - before.intercept).astype(
        np.float64
    )
    aligned = 0
    if before.moved is not None:
        together = float(moved @ before.moved)
        if together > _SAME_WAY * np.sqrt(
            float(moved @ moved) * float(before.moved @ before.moved)
        ):
            aligned = before.aligned + 1
    if aligned == _EPOCHS_THE_SAME_WAY:
        return after._replace(moved=moved, aligned=0, eased=min(after.eased + 1, _MOST_EASINGS))
    return after._replace(moved=moved, aligned=aligned)


def _unless_wrong(solver: Solver, before: SgdState, after: SgdState) -> float:
    """Objective after an epoch.

    Infinite if it went wrong: it ended worse than it began, and than zero weights, or it
    overflowed.

    This costs a pass or two over the data, so after the first epoch it is asked only if the losses
    met on the way were above those of zero weights, which bounded slopes do not lead to; NaN where
    it is not asked.
    """
    problem = solver.problem
    if before.epochs > 0 and (problem.loss.is_bounded or not solver.watch):
        return np.nan
    at_zero = problem.loss_at_zero()
    if before.epochs > 0 and after.loss <= at_zero:
        return np.nan
    means = _is_of_epochs(solver)
    reached = finite_objective(problem, after, means)
    return (
        np.inf
        if reached > at_zero > 0.0 and reached > finite_objective(problem, before, means)
        else reached
    )


def _is_of_epochs(solver: Solver) -> bool:
    """Whether the mean of each epoch is what counts.

    An average over all epochs would hide for long how the last one ended.
    """
    return isinstance(solver, Sgd) and solver.by_epoch


def finite_objective(problem: Problem, state: SgdState, averaged: bool = False) -> float:
    """Objective of the last weights, or the averaged ones.

    Infinite, and never an error, where weights or losses are not finite.
    """
    with np.errstate(all="ignore"):
        if not (np.isfinite(state.coef @ state.coef) and np.isfinite(state.intercept)):
            return np.inf
        value = problem.objective(*(state.solution if averaged else (state.coef, state.intercept)))
        return value if np.isfinite(value) else np.inf


def _lose_patience(
    state: SgdState, verdict: float, patience: Patience, can_lower: bool
) -> SgdState:
    """Count epochs in which the verdict did not fall; after so many, lower the step or stop."""
    waited = (
        0 if verdict <= state.best - patience.tol else state.waited + 1
    )  # NaN is no improvement
    state = state._replace(best=min(state.best, verdict), waited=waited)
    if waited < patience.epochs:
        return state
    return (
        state._replace(waited=0, lowered=state.lowered + 1)
        if can_lower
        else state._replace(stopped=True)
    )


def check_finite(problem: Problem, state: SgdState, schedule: Schedule) -> None:
    """Raise DivergenceError, with advice, unless the weights and their squared norm are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(state.coef @ state.coef) and np.isfinite(state.intercept):
            return
    raise DivergenceError(
        overflow_message(state.epochs, f"the steps diverged. {advice(problem, schedule)} ")
    )


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
