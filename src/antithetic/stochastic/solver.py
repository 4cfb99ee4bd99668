"""What a solver is: its choices, its state, and what happens when its steps diverge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic._core.kernels import StepRule
from antithetic._core.schedules import step_size
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.overflow import DivergenceError, overflow_message
from antithetic.problem.penalties import ElasticNet, GroupNorms, Penalty
from antithetic.stochastic.steps import Schedule

if TYPE_CHECKING:
    from antithetic.orders import Order
    from antithetic.problem.losses import Loss
    from antithetic.stochastic.steps import Steps

Solution = tuple[NDArray[Any], Any]  # weights, and an intercept or one per class
__all__ = ["DivergenceError", "advice", "check_finite", "overflow_message"]
_SHORTER = 0.1  # steps to try, relative to those that were too long


class Choice(NamedTuple):
    """One choice on each axis; an ``order`` of None works with everything."""

    solver: str
    order: Order | None
    penalty: Penalty
    loss: Loss
    steps: Steps
    average: bool | int | str = False
    fit_intercept: bool = False

    @property
    def has_kink(self) -> bool:
        """Whether the slope of the loss jumps."""
        return not math.isfinite(self.loss.largest_curvature)

    @property
    def penalty_name(self) -> str:
        """Name of the penalty's kind: none, l2, l1, elastic net, group lasso or own."""
        return name_penalty(self.penalty)

    def refuses_average(self) -> str | None:
        """Refuse averaging, if it was asked for."""
        if not self.average:
            return None
        names = {"group lasso": "penalty=GroupLasso(...)", "own": "a penalty of your own"}
        with_what = f'solver="{self.solver}"'
        if self.solver == "sgd":
            with_what = names[self.penalty_name]
        return f"average= is not supported with {with_what}; leave it out"


@dataclass(frozen=True, slots=True)
class SolverKind:
    """How a solver is made for a problem, and what it refuses.

    Attributes
    ----------
    make : callable
        ``make(problem, average, steepest, watch, threads) -> Solver``
    refuses : callable
        From a :class:`Choice` to why it is not supported and what to use instead, or None.
    has_steps : bool, default=True
        Whether it steps along gradients of batches, by a step size.
    """

    make: Callable[..., Solver]
    refuses: Callable[[Choice], str | None]
    has_steps: bool = True


def name_penalty(penalty: Penalty) -> str:
    """Name of a penalty's kind."""
    if isinstance(penalty, ElasticNet):
        names = {(0, 0): "none", (1, 0): "l2", (0, 1): "l1", (1, 1): "elastic net"}
        return names[int(penalty.l2 > 0.0), int(penalty.l1 > 0.0)]
    return "group lasso" if isinstance(penalty, GroupNorms) else "own"


class State(NamedTuple):
    """Weights and intercept, and how many steps, samples and epochs led to them.

    Weights of several classes are one vector, with one intercept per class. Arrays are never
    changed once they are here.
    """

    coef: NDArray[Any]
    intercept: Any
    steps: int = 0
    samples: int = 0
    epochs: int = 0


class After(NamedTuple):
    """The result of an epoch.

    Attributes
    ----------
    state : State
    own : object
        The solver's private state.
    loss : float
        Mean loss during the epoch, each row's before its step; NaN if it is not recorded.
    order : ndarray or None
        Rows in the order that the next epoch of a balanced order should have.
    objective : float
        That of the solution, if the solver computed it; otherwise NaN.
    mean : tuple of ndarray and float, or None
        Mean of the epoch's weights and intercepts, if the solver takes one.
    """

    state: State
    own: Any
    loss: float = np.nan
    order: NDArray[np.intp] | None = None
    objective: float = np.nan
    mean: Solution | None = None


class Solver(Protocol):
    """Makes the transition from one epoch to the next."""

    @property
    def problem(self) -> Problem:
        """What it solves."""

    @property
    def watch(self) -> bool:
        """Whether it records the mean loss during an epoch."""

    @property
    def by_epoch(self) -> bool:
        """Whether the mean of each epoch's weights is the solution."""

    @property
    def averages_epochs(self) -> bool:
        """Whether an average over all epochs is the solution."""

    def init(self, coef: Any = None, intercept: Any = 0.0) -> tuple[State, Any]:
        """State before the first step, and the solver's private state."""

    def take_up(self, state: State, own: Any) -> tuple[State, Any]:
        """State of an earlier run, made to fit this one; ``own`` may be that of another solver."""

    def epoch(self, state: State, own: Any, batches: Batches, schedule: Schedule) -> After:
        """Take the steps of one more epoch."""

    def solution(self, state: State, own: Any) -> Solution:
        """Weights and intercept to be used: the averaged ones, if any."""

    def gap(self, state: State, own: Any) -> float | None:
        """Duality gap, if the solver knows more of it than the weights tell; otherwise None."""

    def followed(self, state: State, own: Any) -> NDArray[np.float64]:
        """Slopes of the gradients that are stepped along: minus the stored ones, if any."""


def step_rule(problem: Problem, steepest: float, watch: bool) -> Callable[[Schedule], StepRule]:
    """Return how steps of given sizes are made: all that stays the same while a run lasts."""
    return partial(
        StepRule,
        problem.loss.code,
        problem.loss.epsilon,
        float(problem.penalty.l2),
        float(problem.penalty.l1),
        fit_intercept=problem.fit_intercept,
        steepest=steepest,
        watch=watch,
    )


def check_finite(problem: Problem, state: State, schedule: Schedule) -> None:
    """Raise DivergenceError, with advice, unless the weights and their squared norm are finite."""
    if are_finite((state.coef, state.intercept)):
        return
    raise DivergenceError(
        overflow_message(state.epochs, f"the steps diverged. {advice(problem, schedule)} ")
    )


def advice(problem: Problem, schedule: Schedule) -> str:
    """Return what to try if steps are too long: shorter ones, or smaller features."""
    safe = 1.0 / max(problem.row_curvature(), np.finfo(np.float64).tiny)
    first = step_size(*schedule, 0, 0)
    # a few long rows may need shorter steps than a mean row
    shorter = min(safe, _SHORTER * first)
    if shorter > 0.0:
        return f"The first step was {first:.3g}; try {shorter:.2g} or less."
    return (
        f"The first step was {first:.3g}, and no step is short enough: the squares of the features"
        " overflow. Bring the features to a size near 1."
    )


def are_finite(*solutions: Solution) -> bool:
    """Whether the squared norm of weights, and an intercept or one per class, are finite."""
    for coef, intercept in solutions:
        square = np.vdot(coef, coef)  # unlike @ it does not warn of an overflow
        if not (math.isfinite(square) and np.isfinite(intercept).all()):
            return False
    return True


def finite_objective(problem: Problem, coef: np.ndarray, intercept: Any) -> float:
    """Objective of some weights; infinite, without an error, if it or they are not finite."""
    if not are_finite((coef, intercept)):
        return np.inf
    with np.errstate(all="ignore"):
        value = problem.objective_of(coef, intercept)
    return value if math.isfinite(value) else np.inf
