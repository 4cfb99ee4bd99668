"""The state of a run, and the result of an epoch."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.solvers.steps import Schedule

Solution = tuple[NDArray[Any], Any]  # weights, and an intercept or one per class


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
