r"""Stochastic dual coordinate ascent (Shalev-Shwartz and Zhang, 2013).

Each row has a dual variable :math:`a_i`, and the weights are :math:`w(a) = \frac{1}{l_2 n} \sum_i
a_i x_i`. At the optimum :math:`a_i` is minus the weighted slope of row i. A visit maximises the
dual over one variable exactly, so there is no step size to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import DUAL_STEPS
from antithetic._util.validation import check_coef, check_number
from antithetic.exact.dual import DualAscent, Duals
from antithetic.exact.optimality import duality_gap
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.stochastic.solver import After, Choice, Solution, State
from antithetic.stochastic.steps import Auto, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Sdca:
    r"""Stochastic dual coordinate ascent, for a problem with an L2 penalty only.

    Only the order of the rows matters here, not where batches end, nor their factors.

    Attributes
    ----------
    ascent : DualAscent
    watch : bool, default=False
        Whether to record the mean loss during an epoch.
    """

    ascent: DualAscent
    watch: bool = False

    by_epoch = averages_epochs = False  # nothing is averaged

    @property
    def problem(self) -> Problem:
        """What it solves."""
        return self.ascent.problem

    def init(self, coef: Any = None, intercept: float = 0.0) -> tuple[State, Duals]:
        """State before a visit.

        Dual variables are zero, or minus the weighted slopes at ``coef``, with the weights that
        belong to them.
        """
        if check_number(intercept, "intercept of init") != 0.0:
            raise ValueError(
                'solver="sdca" has no intercept, so the intercept of init must be 0; got'
                f" {intercept!r}"
            )
        weights = check_coef(coef, self.problem.d, "coef of init")
        duals = -self.problem.slopes(weights)
        # rows of zeros have their optimum there, the others a better start at zero
        if not weights.any():
            duals[self.ascent.squares > 0.0] = 0.0
        return State(self._weights(duals), 0.0), Duals(duals)

    def take_up(self, state: State, own: Any) -> tuple[State, Duals]:
        """State of an earlier run, with dual variables that are allowed here, and their weights."""
        is_dual = isinstance(own, Duals) and len(own.values) == self.problem.n
        duals = self.ascent.allowed(own.values) if is_dual else -self.problem.slopes(state.coef)
        coef, kept = self._weights(duals), state.coef.astype(self.problem.X.dtype)
        # a resumed run gives the same bits as one that was never interrupted: its weights differ
        # from the sum by rounding only
        limits = np.finfo(coef.dtype)
        near = float(limits.eps) ** 0.5 * max(float(np.abs(coef).max()), float(limits.tiny))
        same = is_dual and bool((np.abs(coef - kept) <= near).all())
        return state._replace(coef=kept if same else coef, intercept=0.0), Duals(duals)

    def solution(self, state: State, own: Duals) -> Solution:  # noqa: ARG002
        """Weights to be used: the last ones, without an intercept."""
        return state.coef, state.intercept

    def gap(self, state: State, own: Duals) -> float:
        """Duality gap of the weights and the dual variables."""
        return duality_gap(self.problem, state.coef, state.intercept, own.values)

    def followed(self, state: State, own: Duals) -> NDArray[np.float64]:
        """Slopes minus those of the dual variables, which are negative slopes."""
        return self.problem.slopes(state.coef, state.intercept) + own.values

    def epoch(
        self,
        state: State,
        own: Duals,
        batches: Batches,
        schedule: Schedule,  # noqa: ARG002
    ) -> After:
        """Visit each of the rows, in the order of the batches; there is no step size."""
        visits = len(batches.rows)
        coef, duals, met = self.ascent.epoch(batches.rows, state.coef, own, watch=self.watch)
        after = State(coef, 0.0, state.steps + visits, state.samples + visits, state.epochs + 1)
        return After(after, duals, met / visits if self.watch else np.nan)

    def _weights(self, duals: NDArray[np.float64]) -> NDArray[Any]:
        """Weights that belong to dual variables, of the rows' float type."""
        real = self.problem.X.dtype
        if not duals.any():
            return np.zeros(self.problem.d, real)
        weights: NDArray[Any] = (
            self.problem.X.T @ (duals * self.ascent.share).astype(real, copy=False)
        ).astype(real, copy=False)
        return weights


def make_sdca(problem: Problem, *, watch: bool = False) -> Sdca:
    """Return SDCA on a problem.

    Raises
    ------
    ValueError
        If the squares of the rows overflow.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0]], [1, -1], loss="hinge", l2=0.1)
    >>> make_sdca(problem).init()[1].values
    array([0., 0.])
    """
    return Sdca(DualAscent.of(problem), watch)


def refuses(choice: Choice) -> str | None:
    """SDCA supports an L2 penalty and four losses, and has no step size."""
    instead = "sgd" if choice.has_kink else "saga"  # SAGA needs slopes that change smoothly
    if choice.order is not None and choice.order.balances:
        return (
            'order="balanced" balances gradients, which solver="sdca" does not use; use'
            ' order="shuffle", or solver="sgd"'
        )
    if choice.penalty_name != "l2":
        return (
            'solver="sdca" supports only an L2 penalty above 0; use penalty="l2" (minimize:'
            f' l2=, without l1= and penalty=), or solver="{instead}"'
        )
    if choice.average:
        return choice.refuses_average()
    if choice.loss.code not in DUAL_STEPS:
        names = (f'"{name}"' for name, loss in LOSSES.items() if loss.code in DUAL_STEPS)
        return (
            f'solver="sdca" supports the losses {", ".join(names)}; got "{choice.loss.name}"; use'
            f' solver="{instead}"'
        )
    if choice.fit_intercept:
        return (
            'solver="sdca" cannot fit an unpenalised intercept; use fit_intercept=False, or add'
            f' a column of ones, or solver="{instead}"'
        )
    if not isinstance(choice.steps, Auto):
        return 'solver="sdca" has no step size: leave steps at "auto"'
    return None
