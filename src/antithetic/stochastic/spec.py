"""What a run is: a problem, an order, a solver, steps, when it ends, and what is recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from antithetic._core.losses import PERCEPTRON
from antithetic.exact.gap import has_newton_decrement
from antithetic.orders import Order, Uniform
from antithetic.orders.order import Draws, Pool
from antithetic.orders.units import Table
from antithetic.problem import Problem
from antithetic.problem.columns import moments_of
from antithetic.problem.preconditioner import Preconditioner, find_preconditioner, with_spread
from antithetic.stochastic import SOLVERS, Solver, check_solver, make_solver
from antithetic.stochastic.gap import loss_of_a_constant
from antithetic.stochastic.sgd import Sgd
from antithetic.stochastic.solver import Choice
from antithetic.stochastic.steps import Auto, Steps
from antithetic.stochastic.stopping import Stalled, Stop
from antithetic.stochastic.trace import Measure, check_measures, measures_of

FEW_ROWS = 1000  # a pass over them costs next to nothing, and a single one can spoil an epoch
_MOST_ROWS_STEP_BY_STEP = 2000


@dataclass(frozen=True, eq=False)
class Spec:
    """Everything that determines a run except its length: `minimize` and the estimators make one.

    Attributes
    ----------
    problem : Problem
    y : array-like
        The labels as given, from which the fingerprints of tables are made.
    order : Order
    solver_name : str
    solver : Solver
        Made for the problem.
    steps : Steps
    stop : Stalled, Target or None
    trace : tuple of Measure
        What is recorded after each epoch, besides the running objective.
    seed : int
    batch_size : int
        At most the number of rows.
    noise : float, default=1.0
        What the order and the average leave of the noise of a random order; automatic steps fall
        more slowly by it.
    estimates_gap: bool, default=False
        Whether a run that stalls continues while it is far from the optimum and still falls.
    """

    problem: Problem
    y: Any
    order: Order
    solver_name: str
    solver: Solver
    steps: Steps
    stop: Stop
    trace: tuple[Measure, ...]
    seed: int
    batch_size: int
    noise: float = 1.0
    estimates_gap: bool = False

    @cached_property
    def is_watched_over(self) -> bool:
        """Whether steps are automatic, so that epochs which go wrong are repeated."""
        return isinstance(self.steps, Auto) and self.solver_name == "sgd"

    @cached_property
    def is_always_checked(self) -> bool:
        """Whether each epoch of automatic steps is checked, not only the first.

        A loss may overshoot at any time, if the solver records losses; few rows in units of their
        own are cheap to look at.
        """
        units = isinstance(self.steps, Auto) and self.steps.precondition
        is_cheap = units and self.problem.n <= FEW_ROWS
        return is_cheap or (self.problem.loss.may_overshoot and self.solver.watch)

    @cached_property
    def is_extrapolated(self) -> bool:
        """Whether the gap is estimated from the objectives after 1, 2, 4, 8, ... epochs."""
        return self.estimates_gap and not has_newton_decrement(self.problem)

    @cached_property
    def is_compared(self) -> bool:
        """Whether each epoch compares its mean with its last weights, and keeps the best so far.

        For losses with a kink, this tells whether noise or short steps hold a run up. All rows have
        to be there, since a chunk says little about others.
        """
        own = self.is_watched_over and self.is_extrapolated and isinstance(self.solver, Sgd)
        loss = self.problem.loss
        return own and self.solver.by_epoch and not loss.is_smooth and loss.code != PERCEPTRON

    @cached_property
    def loss_of_a_constant(self) -> float:
        """Mean loss of the best constant prediction, of zero without an intercept."""
        return loss_of_a_constant(self.problem)

    @cached_property
    def is_step_by_step(self) -> bool:
        """Whether each step has a table of its own, as in the paper's Algorithm 2."""
        return self.order.pairs is not None and self.order.pairs.refresh == "step"

    @cached_property
    def loss_at_zero(self) -> float:
        """Mean loss of zero weights."""
        return self.problem.loss_at_zero()

    def draws(self, table: Table | None) -> Draws:
        """Apply the order to a table."""
        corrected = self.solver_name != "sgd"
        return self.order.draw_from(
            Pool(self.problem, table, self.batch_size, self.seed, corrected)
        )


def make_spec(
    problem: Problem,
    y: Any,
    *,
    order: Order,
    solver: str,
    steps: Steps,
    batch_size: int,
    average: bool | int | str = False,
    stop: Stop = None,
    trace: Any = (),
    watch: bool = False,
    seed: int = 0,
    steepest: float = np.inf,
    noise: float = 1.0,
    threads: int | None = None,
    preconditioner: Preconditioner | None = None,
    estimates_gap: bool = False,
    is_checked: bool = False,
) -> Spec:
    """Check that the choices can be combined, unless that ``is_checked``, and combine them.

    With ``watch``, the running objective is recorded, as it is where something depends on it.
    ``steepest`` is where slopes are cut off; ``threads`` are for many classes, None means as many
    as BLAS would take; ``preconditioner`` is the one of automatic steps where it is known already.
    """
    measures = measures_of(trace, stop)
    if not is_checked:
        loss, intercept = problem.loss, problem.fit_intercept
        check_choice(Choice(solver, order, problem.penalty, loss, steps, average, intercept))
        check_stopping(steps, stop)
        check_measures(measures, solver, order, problem)
        _check_watched(stop, measures)
    batch_size = min(batch_size, problem.n)
    watch = watch or (isinstance(stop, Stalled) and stop.of == "objective")
    watch = watch or (isinstance(steps, Auto) and problem.loss.may_overshoot)
    made = make_solver(solver, problem, average, steepest=steepest, watch=watch, threads=threads)
    if isinstance(steps, Auto) and steps.precondition and isinstance(made, Sgd):
        _check_preconditioned(problem, made)
        if preconditioner is None:
            moments = with_spread(moments_of(problem.X, problem.weight))
            preconditioner = find_preconditioner(problem, moments)
        made = replace(made, preconditioner=preconditioner)
    choices = (order, solver, made, steps, stop, measures, seed, batch_size, noise)
    spec = Spec(problem, y, *choices, estimates_gap)
    if spec.is_step_by_step:
        _check_step_by_step(spec)
    return spec


def _check_preconditioned(problem: Problem, solver: Sgd) -> None:
    """Raise ValueError if centred columns are not supported."""
    if problem.loss.has_classes:
        return
    if sparse.issparse(problem.X) and (problem.penalty.l1 > 0.0 or solver.averages_epochs):
        raise ValueError(
            "Auto(precondition=True) on sparse rows supports neither an L1 penalty nor an average"
            ' over all steps; leave precondition out, use average="epoch", or dense rows'
        )


def reason_against(choice: Choice) -> str | None:
    """Why choices cannot be combined, and what to use instead: each part checks for itself."""
    kind = SOLVERS[check_solver(choice.solver)]
    reasons = (
        None if choice.order is None else choice.order.refuses(),
        kind.refuses(choice),
        choice.steps.refuses(choice.solver, choice.loss, choice.penalty),
    )
    return next((reason for reason in reasons if reason is not None), None)


def check_choice(choice: Choice) -> None:
    """Raise ValueError for choices that cannot be combined."""
    reason = reason_against(choice)
    if reason is not None:
        raise ValueError(reason)


def check_stopping(steps: Steps, stop: Stop) -> None:
    """Raise ValueError for adaptive steps without a rule that lowers them."""
    if steps.adapts and not isinstance(stop, Stalled):
        raise ValueError(
            "Adaptive steps are lowered when the objective stops falling; give stop=Stalled(tol),"
            " say Stalled(1e-3), or use automatic steps"
        )


def _check_watched(stop: Stop, measures: tuple[Measure, ...]) -> None:
    """Raise ValueError for a rule that depends on something that is not recorded."""
    names = {"objective", *(measure.name for measure in measures)}
    if isinstance(stop, Stalled) and stop.of not in names:
        raise ValueError(
            f"{stop!r} watches something that is not in the trace; add it to trace=, or use one of"
            f" {', '.join(sorted(names))}"
        )


def _check_step_by_step(spec: Spec) -> None:
    """Raise ValueError if the oracle is not supported."""
    pairs, problem = spec.order.pairs, spec.problem
    assert pairs is not None
    is_uniform = isinstance(spec.order, Uniform)
    plain = spec.solver_name == "sgd" and pairs.nest is None and spec.batch_size >= 2
    if not (is_uniform and plain and spec.stop is None and not spec.solver.by_epoch):
        raise ValueError(
            'refresh="step" is Algorithm 2: it needs order=Uniform(pairs=Pairs(refresh="step")),'
            ' solver="sgd" and batch_size of at least 2, without nest=, stop= and average="epoch"'
        )
    if problem.n > _MOST_ROWS_STEP_BY_STEP:
        raise ValueError(
            'refresh="step" makes a table in every step, so at most'
            f" {_MOST_ROWS_STEP_BY_STEP} rows are allowed; X has {problem.n}. Use"
            ' refresh="auto" or a list of epochs instead'
        )
