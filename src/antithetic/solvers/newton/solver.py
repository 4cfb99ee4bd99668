"""Newton's method as one of the solvers: an epoch is an iteration over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import default_threads, limit_blas
from antithetic._util.validation import check_coef, check_number
from antithetic.exact.certificate import certified_gap
from antithetic.exact.row_sums import RowSums
from antithetic.orders.batches import Batches
from antithetic.orders.in_order import InOrder
from antithetic.problem import Problem
from antithetic.problem.penalties import Penalty
from antithetic.solvers.choice import Choice
from antithetic.solvers.newton import sums_of
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.search import value
from antithetic.solvers.state import After, Solution, State
from antithetic.solvers.steps import Auto, Schedule

_FIRST_SEED = 0  # of the samples: a problem has one solution, whatever the seed of the run


class NewtonMemory(NamedTuple):
    """What Newton's method keeps: its model of the objective, and how far it has come.

    The rows are not kept: the solver has them.
    """

    newton: Newton
    progress: Iterate
    penalty: Penalty


@dataclass(frozen=True, slots=True, eq=False)
class NewtonSolver:
    """Newton's method on growing samples, for a loss without a kink.

    The first epoch has the samples as well. Once no better weights can be found, epochs cost
    nothing and change nothing.

    Attributes
    ----------
    problem : Problem
    sums : RowSums
        Over the rows, with the threads that this problem may use.
    """

    problem: Problem
    sums: RowSums
    watch: bool = False

    by_epoch = averages_epochs = False  # nothing is averaged

    def init(self, coef: Any = None, intercept: float = 0.0) -> tuple[State, None]:
        """State before the first iteration."""
        found = check_coef(coef, self.problem.d, "coef of init")
        return State(found, check_number(intercept, "intercept of init")), None

    def take_up(self, state: State, own: Any) -> tuple[State, NewtonMemory | None]:
        """State of an earlier run; its model is of use to a run of the same problem only."""
        known = own if isinstance(own, NewtonMemory) and self._is_mine(state, own) else None
        return state._replace(coef=state.coef.astype(np.float64)), known

    def _is_mine(self, state: State, own: NewtonMemory) -> bool:
        """Whether a memory is of this problem: the objective at its weights has the same bits."""
        theta = own.progress.point.theta
        if own.penalty != self.problem.penalty or len(theta) != self.sums.columns:
            return False
        if not np.array_equal(state.coef, self.sums.split(theta)[0]):
            return False
        return self.sums.at(theta).objective == own.progress.point.objective

    def solution(self, state: State, own: Any) -> Solution:  # noqa: ARG002
        """Weights and intercept to be used: the last ones."""
        return state.coef, state.intercept

    def gap(self, state: State, own: NewtonMemory | None) -> float | None:  # noqa: ARG002
        """Duality gap, from the gradient of the last pass over the rows."""
        if own is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            gap = certified_gap(self.sums, own.progress.point)
        return gap if gap >= 0.0 else np.inf

    def followed(self, state: State, own: Any) -> NDArray[np.float64]:  # noqa: ARG002
        """Slopes at the weights."""
        return self.problem.slopes(state.coef, state.intercept)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite ends the iterations
    @limit_blas(1)  # whose own threads would wait on the cores that sums over the rows need
    def epoch(
        self,
        state: State,
        own: NewtonMemory | None,
        batches: Batches,  # noqa: ARG002
        schedule: Schedule,  # noqa: ARG002
    ) -> After:
        """Iterate once more over all rows; there are no batches and no step size."""
        if own is None:
            newton, progress = self._begin(state)
        else:  # a copy, since an interrupted epoch leaves the last one as it was
            newton, progress = own.newton.on(self.sums), own.progress
        if not progress.ended:
            progress = newton.step(progress)
        coef, intercept = self.sums.split(progress.point.theta)
        after = State(
            np.array(coef),
            intercept,
            state.steps + 1,
            state.samples + self.problem.n,
            state.epochs + 1,
        )
        objective = value(self.sums, progress.point)
        loss = objective - self.problem.penalty.value(coef)
        memory = NewtonMemory(newton.on(None), progress, self.problem.penalty)
        return After(after, memory, loss, objective=objective)

    def _begin(self, state: State) -> tuple[Newton, Iterate]:
        newton = Newton(self.sums, 0.0, _FIRST_SEED)
        is_given = state.coef.any() or state.intercept != 0.0
        theta = self.sums.join(state.coef, state.intercept) if is_given else None
        return newton, newton.start(theta)


def make_newton(
    problem: Problem, *, watch: bool = False, threads: int | None = None
) -> NewtonSolver:
    """Return Newton's method on a problem; None means as many threads as BLAS would use."""
    threads = default_threads() if threads is None else threads
    return NewtonSolver(problem, sums_of(problem, threads), watch)


def refuses(choice: Choice) -> str | None:
    """Newton's method needs a second derivative, and a penalty whose model it can minimise."""
    if not choice.loss.is_smooth:
        return (
            f'solver="newton" needs a loss without a kink; got "{choice.loss.name}"; use'
            ' solver="sgd"'
        )
    if choice.penalty_name in ("group lasso", "own"):
        return 'solver="newton" supports L2 and L1 penalties; use solver="svrg"'
    if choice.order is not None and not isinstance(choice.order, InOrder):
        return (
            'solver="newton" visits all rows in each iteration, so it has no order; use'
            ' order="auto", or solver="svrg"'
        )
    if choice.average:
        return choice.refuses_average()
    if not isinstance(choice.steps, Auto):
        return 'solver="newton" has no step size: leave steps at "auto"'
    return None
